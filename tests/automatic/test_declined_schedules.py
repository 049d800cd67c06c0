"""Kernels that get no automatic roles, and the reasons that `explain()` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from role_rewriting import (
    HOPPER,
    assert_equal_results,
    interpreted,
    prepared,
    results_without_roles,
    rewritten,
)
from scheduled_kernels import Launch, gemm, integers, stepped, stepped_inside, tile_gemm, with_numbers

import tegula as tg
from tegula.passes.specialise import Choice, make_roles
from tegula.runtime.automatic import build
from tegula.target import get_cuda_target

bf16 = tg.bfloat16


@tg.kernel
def matmul_of_lanes(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j, lane = tg.tid()
    sum = tg.tile_full(shape=(64, 64), value=float(lane), dtype=tg.float32)
    for k in range(A.shape[1] // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


@tg.kernel
def matmul_in_place(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    for k in range(A.shape[1] // 64):
        sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
        tg.tile_store(A, tg.tile_astype(sum, bf16), offset=(i * 64, k * 64))


@tg.kernel
def small(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
    for k in range(A.shape[1] // 8):
        a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8))
        b = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 8, j * 4))


@tg.kernel
def offsets_from_a_tile(
    A: tg.array2d[bf16], B: tg.array2d[bf16], indices: tg.array1d[int], C: tg.array2d[float]
):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    loaded = tg.tile_load(indices, shape=8)
    for k in range(A.shape[1] // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, loaded[k] * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


@tg.kernel
def not_zero_outside(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for k in range(A.shape[1] // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64), fill=1.0)
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


@tg.kernel
def one_role(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for k in tg.pipelined(A.shape[1] // 64, stages=3, specialize=False):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


def floats(*shape: int) -> tg.array:
    return tg.array(np.ones(shape, np.float32))


def strided() -> list[Any]:
    return [integers(128, 70), integers(70, 256), tg.zeros((128, 256))]


def with_indices() -> list[Any]:
    return [integers(64, 128), integers(128, 64), tg.array(np.arange(8, dtype=np.int32)), tg.zeros((64, 64))]


PLAIN = gemm(64, 64, 128, out=float)
DECLINED = [
    (Launch(matmul_of_lanes, PLAIN, (1, 1)), "differs between the lanes"),
    (Launch(matmul_in_place, gemm(64, 64, 128), (1, 1)), "may be written"),
    (
        Launch(small, lambda: [floats(16, 16), floats(16, 8), floats(16, 8)], (2, 2), 64),
        "8x8 times float32 8x4",
    ),
    (Launch(offsets_from_a_tile, with_indices, (1, 1)), "the offset of a loaded tile depends on this op"),
    (Launch(not_zero_outside, PLAIN, (1, 1)), "are not 0"),
    (Launch(one_role, PLAIN, (1, 1)), "specialize=False"),
    (Launch(tile_gemm, strided, (1, 1)), "no tensor map"),
]


@pytest.mark.parametrize(("launch", "reason"), DECLINED, ids=[launch.name for launch, _ in DECLINED])
def test_declined_kernels_are_unchanged_and_have_a_reason(launch: Launch, reason: str) -> None:
    before = [op for op in prepared(launch).walk()]
    kernel, schedule = rewritten(launch)
    assert schedule.plan is None and reason in schedule.reason
    assert [op.NAME for op in kernel.walk()] == [op.NAME for op in before]


def test_reasons_of_declined_kernels_name_the_line() -> None:
    _, schedule = rewritten(DECLINED[1][0])
    assert (
        str(schedule).endswith(f"(line {schedule.loc.line})") and schedule.loc.function == "matmul_in_place"
    )


def test_kernels_for_gpus_other_than_hopper_keep_one_role() -> None:
    kernel = prepared(Launch(tile_gemm, gemm(128, 256, 64, out=float), (1, 1)))
    assert "sm_80" in make_roles(kernel, get_cuda_target("sm_80")).reason


def test_a_declined_kernel_is_compiled_without_roles() -> None:
    built = build(prepared(DECLINED[-1][0]), HOPPER)
    assert built.schedule.plan is None and built.code.threads == 128


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"consumers": 0}, "consumers= must be from 1 to 3, got 0"),
        ({"stages": True}, "stages= must be from 1 to 64, got True"),
        ({"registers": 100}, "a multiple of 8"),
        ({"persistent": 1}, "persistent= must be True or False"),
    ],
)
def test_invalid_schedule_keywords_are_refused(options: dict[str, Any], words: str) -> None:
    def copy(a: tg.array[float]):
        a[tg.tid()] = 1.0

    with pytest.raises(tg.LaunchError, match=words):
        tg.launch(tg.kernel(**options)(copy), 4, inputs=[tg.zeros(4)])


def test_a_number_of_warp_groups_that_does_not_fit_is_declined() -> None:
    launch = Launch(tile_gemm, gemm(128, 256, 64, out=float), (1, 1))
    _, schedule = rewritten(launch, Choice(consumers=3))
    assert "consumers=3" in schedule.reason


@tg.kernel
def checked_blocks(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j = tg.tid()
    assert i < C.shape[0]
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for k in range(A.shape[1] // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


def test_reports_of_blocks_keep_one_role() -> None:
    _, schedule = rewritten(Launch(checked_blocks, gemm(128, 128, 128, out=float), (2, 2)))
    assert schedule.plan is None and "reports its lane and block" in schedule.reason


@pytest.mark.parametrize("persistent", [True, False])
def test_a_step_of_0_also_fails_launches_with_roles(persistent: bool) -> None:
    launch = Launch(stepped, with_numbers(gemm(128, 256, 64, out=float), 0, 5, 0), (1, 1))
    kernel, schedule = rewritten(launch, Choice(persistent=persistent))
    assert schedule.plan is not None
    with pytest.raises(tg.KernelAssertion, match="step of range"):
        interpreted(kernel, launch)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    ("outer", "inner", "guard", "message"),
    [
        (-2, 2, 1, ""),
        (-2, 0, 1, "step of range.*inner"),
        (2, 0, 7, ""),
        (-2, -2, -7, ""),
        (-2, 2, 7, "guard"),
        (0, 0, 1, "step of range.*outer"),
    ],
)
def test_a_failing_check_in_a_loop_fails_the_launch(
    outer: int, inner: int, guard: int, message: str, persistent: bool
) -> None:
    launch = Launch(stepped_inside, with_numbers(gemm(128, 256, 320, out=float), outer, inner, guard), (1, 1))
    kernel, schedule = rewritten(launch, Choice(persistent=persistent))
    assert schedule.plan is not None
    if message:
        with pytest.raises(tg.KernelAssertion, match=message):
            interpreted(kernel, launch)
        with pytest.raises(tg.KernelAssertion, match=message):
            results_without_roles(launch)
    else:
        assert_equal_results(interpreted(kernel, launch), results_without_roles(launch), exact=True)


@tg.kernel
def changing_steps(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float], n: int):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for by in range(1, n):
        for k in range(0, 4, by):
            a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
            b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
            tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


def test_a_step_that_changes_gets_roles() -> None:
    """The host computes the last step, which bounds the others."""
    launch = Launch(changing_steps, with_numbers(gemm(64, 64, 256, out=float), 3), (1, 1))
    kernel, schedule = rewritten(launch, Choice(persistent=False))
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(interpreted(kernel, launch), results_without_roles(launch), exact=True)


def test_nested_loops_with_steps_of_the_launch_name_the_missing_fact() -> None:
    launch = Launch(stepped_inside, with_numbers(gemm(128, 256, 320, out=float), -2, 2, 1), (1, 1))
    built = build(prepared(launch), HOPPER)
    assert built.verdict.passed
    assert built.schedule.plan is not None or "do not pass the checker" in built.schedule.reason
