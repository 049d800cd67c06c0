"""Automatic schedules as code for Hopper: proved, with wgmma, without spills."""

from __future__ import annotations

import re
from functools import cache

import pytest
from role_rewriting import HOPPER, prepared, rewritten
from scheduled_kernels import LAUNCHES, Launch, arrays, residual

from support.campaigns import sampled, slow_except
from tegula.backend import llvm, ptx
from tegula.backend.llvm import compile_ptx
from tegula.check import judge as checker
from tegula.check.proof import Stuck
from tegula.errors import InternalError
from tegula.ops.control import For
from tegula.ops.linear import TileMatmulWait
from tegula.ops.roles import Roles
from tegula.ops.scalar import Select
from tegula.runtime.automatic import Built, build
from tegula.types import ArrayType

ASSEMBLER = bool(ptx.candidates())
BY_THREADS = {"lower_tiles": 2, "right_weighted": 1}
"""The number of arrays that threads access: a scalar or a row before the loop, a result that two stores write."""
KERNELS = {launch.name: launch for launch in reversed(LAUNCHES)}


@cache
def built(launch: Launch, **schedule: int | bool) -> tuple[Built, str]:
    """The compiled kernel of a launch, and its PTX."""
    kernel = prepared(launch)
    kernel.schedule |= schedule
    traced_kernel = build(kernel, HOPPER)
    return traced_kernel, compile_ptx(traced_kernel.code.text, HOPPER.arch)


def test_code_that_does_not_follow_its_roles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def another_order(text: str, arch: str) -> str:
        return compile_ptx(text, arch).replace("mbarrier.try_wait.parity", "mbarrier.test_wait.parity", 1)

    monkeypatch.setattr(llvm, "compile_ptx", another_order)
    with pytest.raises(InternalError, match=r"the PTX does not match mbarrier\.wait at .*\.py:\d+"):
        build(prepared(LAUNCHES[0]), HOPPER)


@sampled(2, "name", slow_except({"with_silu", "wide_heads"}, sorted(KERNELS)))
def test_listed_kernels_are_not_declined(name: str) -> None:
    kernel, text = built(KERNELS[name])
    assert kernel.schedule.plan is not None, kernel.schedule.reason
    assert kernel.verdict.proved and kernel.verdict.certificate
    assert "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text and "setmaxnreg.dec" in text
    arrays = [t for t in prepared(KERNELS[name]).params if isinstance(t.type, ArrayType)]
    assert len(kernel.code.maps) == len(arrays) - BY_THREADS.get(name, 0) and ".local" not in text
    if ASSEMBLER:
        assert kernel.cubin.spill_bytes == 0


def test_the_cta_has_the_threads_of_its_roles() -> None:
    kernel, text = built(KERNELS["tile_gemm"])
    assert kernel.code.threads == 384 and ".maxntid 384" in text


def test_matmuls_are_waited_for_one_iteration_late() -> None:
    for name in ("tile_gemm", "matmul_pipelined"):
        _, text = built(KERNELS[name])
        assert "wgmma.wait_group.sync.aligned 1" in text


def test_chains_keep_a_matmul_in_flight_overlapped_with_the_next_softmax() -> None:
    kernel, _ = rewritten(KERNELS["attention"])
    started = [op for op in kernel.walk() if op.attrs.get("wait") is False]
    waits = [op.attrs["pending"] for op in kernel.walk() if isinstance(op, TileMatmulWait)]
    assert len(started) == 2 and waits == [1, 0]


def test_the_softmax_is_computed_before_the_last_wait_of_an_iteration() -> None:
    """The assembler moves the wait up to the first use of the matmul's results."""
    _, text = built(KERNELS["attention"])
    looks = [m.start() for m in re.finditer(r"nanosleep", text)]
    waits = [m.start() for m in re.finditer(r"wgmma\.wait_group\.sync\.aligned 0", text)]
    assert len(looks) == 1 and any(0 < wait - looks[0] < 100 for wait in waits)


def test_matmul_chains_with_too_many_registers_do_not_overlap() -> None:
    if not ASSEMBLER:
        pytest.skip("ptxas tells how many registers it needs")
    kernel, text = built(KERNELS["attention"], registers=184)
    assert kernel.schedule.plan is not None and not kernel.schedule.plan.overlaps
    assert kernel.cubin.spill_bytes == 0 and "wgmma.mma_async" in text


@pytest.mark.parametrize("name", ["right_converted", "right_transposed_and_converted"])
def test_right_operands_of_bytes_stay_in_registers(name: str) -> None:
    """The transposed matmul is computed, so that the converted operand needs no shared memory."""
    kernel, text = built(KERNELS[name])
    assert kernel.schedule.plan is not None and len(kernel.schedule.plan.stages) == 2
    matmuls = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k16)\S* \{[^}]*\}, \{", text)
    assert matmuls == (["m64n128k16"] * 8 if name == "right_converted" else ["m64n64k16"] * 4)
    assert ("ldmatrix" in text) == (name == "right_converted")


@pytest.mark.slow
def test_roles_without_a_proof_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    def unproved(*_: object) -> None:
        raise Stuck("nothing is known")

    monkeypatch.setattr(checker, "prove", unproved)
    kernel = build(prepared(KERNELS["tile_gemm"]), HOPPER)
    assert kernel.schedule.plan is None and "its roles do not pass the checker" in kernel.schedule.reason


def test_the_schedule_has_the_stages_that_the_loop_requests() -> None:
    kernel, _ = built(KERNELS["with_relu"])
    assert kernel.schedule.plan is not None and kernel.schedule.plan.stages == (3, 3)


@pytest.mark.parametrize(
    ("schedule", "threads"),
    [({"consumers": 1, "stages": 2}, 256), ({"persistent": False}, 384), ({"raster": 4, "stages": 3}, 384)],
)
def test_schedule_keywords_override_the_cost_model(schedule: dict[str, int | bool], threads: int) -> None:
    kernel, _ = built(KERNELS["half_transposed"], **schedule)
    plan = kernel.schedule.plan
    assert plan is not None and kernel.code.threads == threads
    assert all(getattr(plan, name) == value for name, value in schedule.items() if name != "stages")
    assert set(plan.stages) == {schedule.get("stages", 6)}


def test_tiles_that_leave_room_for_one_stage_keep_their_roles() -> None:
    """The values, which the last matmul of the loop reads, get the remaining memory as a second stage."""
    kernel, _ = built(KERNELS["wide_heads"])
    assert kernel.schedule.plan is not None and kernel.schedule.plan.stages[1:] == (1, 2)


def test_tiles_of_persistent_blocks_from_outside_of_loops_have_a_second_stage() -> None:
    """The next block's tile arrives during this block, if there is room."""
    for name, stages in (("attention", 2), ("causal_attention", 1)):
        plan = built(KERNELS[name])[0].schedule.plan
        assert plan is not None and plan.stages[0] == stages and plan.persistent == (stages == 2)


def test_iterations_too_deep_for_shared_memory_are_split() -> None:
    kernel, _ = built(KERNELS["wide_stages"])
    plan = kernel.schedule.plan
    assert plan is not None and plan.split > 1 and max(plan.stages) >= 3
    assert f"stages of 1/{plan.split} iteration" in str(kernel.schedule)
    kernel, _ = built(KERNELS["half_transposed"])
    assert kernel.schedule.plan is not None and kernel.schedule.plan.split == 1


def test_a_branch_around_a_loop_is_part_of_its_trip_count() -> None:
    kernel, _ = rewritten(KERNELS["lower_tiles"])
    (roles,) = (op for op in kernel.walk() if isinstance(op, Roles))
    for role in roles.regions:
        (loop,) = (op for op in role.walk() if isinstance(op, For))
        assert loop.parent is role and isinstance(loop.stop.owner, Select)


def test_sums_over_pipes_of_one_stage_are_waited_for_in_their_iteration() -> None:
    """The next iteration waits for the stage that this iteration releases."""
    kernel, text = built(KERNELS["two_pairs"], stages=1)
    assert (
        kernel.schedule.plan is not None and kernel.schedule.plan.stages == (1,) * 4 and kernel.verdict.proved
    )
    assert "wgmma.wait_group.sync.aligned 2" not in text


def test_spilled_registers_are_a_cost() -> None:
    """A few spilled bytes after the loop cost less than a loop without roles."""
    if not ASSEMBLER:
        pytest.skip("ptxas tells what is spilled")
    square = arrays((128, 128), (128, 256), (128, 256), (128, 256))
    kernel, text = built(Launch(residual, square, (1, 1)))
    assert kernel.schedule.plan is not None and kernel.verdict.proved and "wgmma.mma_async" in text
    assert kernel.cubin.spill_bytes < 4 * kernel.schedule.plan.cycles
    assert kernel.schedule.plan not in [plan.plan for plan in kernel.schedule.rejected]


@pytest.mark.slow
def test_too_few_registers_for_roles_leave_one_role() -> None:
    if not ASSEMBLER:
        pytest.skip("ptxas tells what is spilled")
    kernel, text = built(KERNELS["with_silu"], registers=136)
    assert kernel.schedule.plan is None and "ptxas rejects its roles" in kernel.schedule.reason
    assert "wgmma" not in text and kernel.code.threads == 128
