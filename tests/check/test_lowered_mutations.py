"""Lowered schedules with one change: each is refuted for the expected reason, and the original schedules pass."""

from __future__ import annotations

from typing import Any

import pytest
from schedules import (
    Mutation,
    chain,
    double,
    drop,
    gemm,
    lowered,
    lowered_late,
    move_to_end,
    ops,
    registers,
    retarget,
    two_producers,
    verdict,
)

import tegula as tg
from support.campaigns import sampled
from support.mutated_schedules import CHAIN, EMPTY, FULL, GEMM, REGISTERS, TWO_PRODUCERS
from tegula.check.schedule import check_schedule
from tegula.ops import scalar as S
from tegula.types import int32

KERNELS = {"gemm": gemm, "two_producers": two_producers, "chain": chain, "registers": registers}

SLOW_MUTATIONS = {
    "fewer steps multiplied",
    "fewer tiles fetched",
    "no release after the loop",
    "no wait for matmuls",
    "producer's phase is constant",
    "matmul of another stage",
}
"""Mutations of the matmul that are refuted slowly; another kernel has the same mutation, or a similar one."""
MUTANTS = [
    pytest.param(
        *(kernel, mutate, kind),
        id=f"{kernel}: {name}",
        marks=[pytest.mark.slow] if kernel == "gemm" and name in SLOW_MUTATIONS else [],
    )
    for kernel, table in (
        ("gemm", GEMM),
        ("two_producers", TWO_PRODUCERS),
        ("chain", CHAIN),
        ("registers", REGISTERS),
    )
    for name, (mutate, kind) in table.items()
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_unmutated_schedules_are_proved(kernel: str, stages: int) -> None:
    actual = verdict(KERNELS[kernel](stages))
    assert actual.status == "proved", actual.message


@sampled(4, ("kernel", "mutate", "kind"), MUTANTS, slow=3)
def test_mutated_schedules_are_refuted_for_the_expected_reason(
    kernel: str, mutate: Mutation, kind: str
) -> None:
    actual = verdict(KERNELS[kernel](), mutate)
    assert (actual.status, actual.kind) == ("refuted", kind), actual.message
    assert actual.help
    assert actual.loc.line or kind == "init"


def test_reading_registers_before_their_iteration_fills_them_is_refuted() -> None:
    verdict = check_schedule(*lowered_late(registers()))
    assert (verdict.status, verdict.kind) == ("refuted", "in-flight"), verdict.message
    assert "registers that the next iteration of the loop overwrites" in verdict.message
    assert verdict.loc.line
    assert verdict.help


HARMLESS: dict[str, tuple[str, Mutation]] = {
    "consumer waits twice": ("gemm", double("mbarrier.wait", FULL)),
    "producer waits twice": ("gemm", double("mbarrier.wait", EMPTY)),
    "bytes are announced after the copies": ("two_producers", move_to_end("mbarrier.expect")),
    "the wait for a free stage is in another pipe": (
        "two_producers",
        retarget("mbarrier.wait", EMPTY, "right.empty"),
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_mutations_without_effect_still_pass(name: str) -> None:
    kernel, mutate = HARMLESS[name]
    actual = verdict(KERNELS[kernel](), mutate)
    assert actual.passed, actual.message


def peeled_last_item() -> Any:
    @tg.kernel
    def sums(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(8, 64), dtype=float, stages=3)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k * 8, 0))
            tg.tile_pipe_load(pipe, x, offset=(n * 8, 0))
        with tg.ws(1, 2):
            total = tg.tile_zeros(shape=(8, 64))
            for _k in range(n):
                total += tg.tile_pipe_pop(pipe)
            tg.tile_store(out, total + tg.tile_pipe_pop(pipe))

    return sums


def test_reading_an_item_from_another_stage_is_refuted() -> None:
    """The last item: its stage is not filled again, so the reads are ordered but read the wrong item."""
    kernel, compilation = lowered(peeled_last_item())
    view = ops(kernel, "buf.view")[-1]
    zero = S.Const([], [int32], {"type": int32, "value": 0}, loc=view.loc)
    assert view.parent is not None
    zero.parent = view.parent
    view.parent.ops.insert(view.parent.ops.index(view), zero)
    view.operands[1] = zero.result
    verdict = check_schedule(kernel, compilation)
    assert (verdict.status, verdict.kind) == ("refuted", "stage"), verdict.message
    assert "after its release" in verdict.message


def test_a_counterexample_names_its_events() -> None:
    """Both accesses of the race, and the launch."""
    actual = verdict(gemm(), move_to_end("group.mma_wait"))
    ((location, text),) = actual.locations
    assert actual.message == "left[0]: ws0 has a copy write it while another access may be in progress"
    assert text == "ws1+2 has tensor cores or a copy read it, without an order between the two accesses"
    assert "tile_matmul" in location.text()
    assert "tile_pipe_load(left" in actual.loc.text()
    assert {s.role for s in actual.steps} == {"ws0", "ws1+2"}
    assert dict(actual.launch)["a.shape[1]"] > 3 * 64


def test_the_message_of_a_deadlock_names_waiting_roles_and_barriers() -> None:
    actual = verdict(two_producers(), drop("mbarrier.arrive", "right.empty"))
    text = " ".join([actual.message, *(note for _, note in actual.locations)])
    assert "fetch y waits for phase 0 of right.empty[0]" in text
    assert (
        "a warp of multiply waits for phase 1 of right.full[0] to be ended by fetch y, which waits too"
        in text
    )
