"""Correct schedules in users' idioms are proved, and faulty variants are not."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import schedules
from equivalent_rewrites import kernel
from idioms import MUTATED, RIGHT
from proofs import CORPUS, outcome, pipe, program
from schedules import lowered

import tegula as tg
from support.campaigns import sampled, slow_except
from tegula.kernels import gemm, shapes

attention: Any = importlib.import_module("tegula.kernels.attention")


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_one_pipe_of_any_stage_count_is_proved(stages: int) -> None:
    @tg.kernel
    def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=stages)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))

    assert outcome(lowered(copies)) == "proved"


KERNEL_MAKERS = {
    "matmul": schedules.gemm,
    "two producers": schedules.two_producers,
    "registers": schedules.registers,
    "chain": schedules.chain,
    "adding": schedules.adding,
}


@pytest.mark.parametrize("name", KERNEL_MAKERS)
def test_kernels_with_several_pipes_are_proved(name: str) -> None:
    assert outcome(lowered(KERNEL_MAKERS[name]())) == "proved"


@pytest.mark.parametrize(
    "tile", [0, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)]
)
def test_matmuls_of_the_library_are_proved(tile: int) -> None:
    kernel = gemm.matmul_kernel(tg.bfloat16, shapes.TENSOR_CORES[tile], False, gemm.Epilogue(tg.bfloat16))
    assert outcome(lowered(kernel)) == "proved"


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_attention_of_the_library_is_proved(causal: bool) -> None:
    kernel = attention.forward(tg.bfloat16, 128, causal, False, False)
    assert outcome(lowered(kernel, 4 if causal else 2)) == "proved"


# The corpus -----------------------------------------------------------------------------------------------------------

NOT_PROVED = {"mixed_fills_of_one_barrier"}
"""Correct schedules that are not proved yet."""


@sampled(2, "name", slow_except({"ping_pong_with_a_single_tile"}, CORPUS))
def test_correct_programs_of_the_corpus_are_proved_and_wrong_programs_are_not(name: str) -> None:
    texts = program(name)
    assert outcome(lowered(kernel(texts.WRONG))) != "proved"
    assert (outcome(lowered(kernel(texts.RIGHT))) == "proved") is (name not in NOT_PROVED)


PROVED = (
    "stage and phase are carried",
    "the waits for initially empty stages are omitted",
    "readers arrive once before they begin",
    "each tile takes more iterations",
    "counts are read from an array",
    "rounded division",
    "a while loop and a for loop",
    "blocks without work return",
    "every other iteration",
    "threads synchronise, then one arrives",
    "bytes are announced after the copy has started",
    "threads fill stages",
    "a stage is released an iteration late, the last one never",
    "a copy in, a copy out",
    "copies out are waited for an iteration late",
    "two roles alternate at named barriers",
)


@pytest.mark.parametrize("name", PROVED)
def test_schedules_in_idioms_of_users_are_proved(name: str) -> None:
    assert outcome(lowered(kernel(RIGHT[name], None, 3))) == "proved"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_faulty_variants_of_idioms_are_not_proved(name: str) -> None:
    idiom, old, new = MUTATED[name]
    assert outcome(lowered(kernel(RIGHT[idiom].replace(old, new), None, 3))) != "proved"


LOOPS = {
    "equal": ("range(n)", "range(n)"),
    "of steps": ("range(2, n, 3)", "range(2, n, 3)"),
    "with ends that are computed": ("range(n, n + m)", "range(n, n + m)"),
    "backwards": ("range(n - 1, -1, -1)", "range(n - 1, -1, -1)"),
    "backwards, with a guard against the least integer": ("range(n - 1, -1, -1)", "range(n)"),
}
CHANGED_RANGES = {
    "one more": ("range(n)", "range(n + 1)"),
    "one less": ("range(1, n)", "range(n)"),
    "of two numbers": ("range(n)", "range(m)"),
    "with different rounding": ("range(n // 4)", "range((n + 3) // 4)"),
    "with different overflow": ("range((n + m) // 2)", "range(n // 2 + m // 2)"),
    "up to the maximum": ("range(tg.max(n, m))", "range(n)"),
    "equal up to 900": ("range(n)", "range(tg.min(n, 900))"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_roles_with_loops_of_equal_length_are_proved(name: str) -> None:
    assert outcome(lowered(pipe(*LOOPS[name]))) == "proved"


@sampled(3, "name", CHANGED_RANGES, slow=2)
def test_roles_with_loops_of_different_lengths_are_not_proved(name: str) -> None:
    assert outcome(lowered(pipe(*CHANGED_RANGES[name]))) != "proved"
