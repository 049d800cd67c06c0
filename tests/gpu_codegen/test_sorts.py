"""Sorts in the registers of warps as GPU code: the order of the interpreter, the exchanges, and no spills."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from agreement import traced
from gpu_code import assemble, lower_to_llvm
from lowering import lowered as lower_to_threads
from lowering import run_lowered, tiled

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.stdlib.tiles.sort import sort_indices
from tegula.stdlib.tiles.sort_network import elements_of_lane, fits_in_registers, threads_of_sort
from tegula.target import get_cuda_target


def argsort_kernel(n: int, descending: bool = False) -> Any:
    """A kernel that writes the indices that sort rows of n keys."""

    @tg.kernel
    def argsort(a, out: tg.array2d[tg.int32]):
        i = tg.tid()
        tg.tile_store(out[i], tg.tile_argsort(tg.tile_load(a[i], shape=n), descending=descending))

    return argsort


def special_keys(n: int, dtype: Any) -> np.ndarray:
    """Keys with many equal ones; of floats also NaN, zeros of both signs and infinities."""
    rng = np.random.default_rng(n)
    if np.dtype(dtype).kind != "f":
        return rng.integers(0, 9, (2, n)).astype(dtype) << np.dtype(dtype).type(
            np.dtype(dtype).itemsize * 8 - 5
        )
    special_values = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.5, -1.5])
    return rng.choice(np.concatenate([special_values, rng.standard_normal(8)]), (2, n)).astype(dtype)


@pytest.mark.parametrize(
    ("n", "threads", "dtype", "descending"),
    [
        (64, 32, np.float32, False),
        (100, 32, np.int32, True),
        (130, 64, np.uint32, False),
        (70, 32, np.float64, True),
        (256, 96, np.int64, False),
        (180, 32, np.float32, False),
        (300, 32, np.int32, False),
        (500, 32, np.uint64, True),
    ],
)
def test_rows_in_registers_are_sorted_like_numpy(n: int, threads: int, dtype: Any, descending: bool) -> None:
    assert fits_in_registers(n, threads)
    keys = special_keys(n, dtype)
    arrays = [tg.array(keys), tg.zeros(keys.shape, tg.int32)]
    kernel = argsort_kernel(n, descending)
    launch = tiled(kernel, arrays, (2,), threads)
    actual, _ = run_lowered(*lower_to_threads(launch), launch)
    np.testing.assert_array_equal(actual[1], sort_indices(keys, -1, descending))


@pytest.mark.parametrize(
    ("n", "k", "threads", "dtype"),
    [(64, 16, 32, np.float32), (100, 7, 64, np.int64), (128, 32, 33, np.float64), (70, 1, 1, np.uint32)],
)
def test_topk_of_equal_keys_matches_numpy(n: int, k: int, threads: int, dtype: Any) -> None:
    keys = special_keys(n, dtype)

    @tg.kernel
    def largest_keys(a, out, index_array: tg.array2d[tg.int32]):
        i = tg.tid()
        largest_keys, indices = tg.tile_topk(tg.tile_load(a[i], shape=n), k)
        tg.tile_store(out[i], largest_keys)
        tg.tile_store(index_array[i], indices)

    arrays = [tg.array(keys), tg.array(np.zeros((2, k), dtype)), tg.zeros((2, k), tg.int32)]
    launch = tiled(largest_keys, arrays, (2,), threads)
    (_, largest_keys, largest_indices), _ = run_lowered(*lower_to_threads(launch), launch)
    expected = sort_indices(keys, -1, descending=True)[:, :k]
    np.testing.assert_array_equal(largest_indices, expected)
    np.testing.assert_array_equal(largest_keys, np.take_along_axis(keys, expected, -1))


@pytest.mark.parametrize(("n", "steps"), [(256, 15), (512, 7)])
def test_lanes_of_a_warp_exchange_without_barriers(n: int, steps: int) -> None:
    """`steps`: the number of steps that shuffle all elements; for others lanes with 16 elements transpose them. LLVM
    may unroll the two passes."""
    arrays = [tg.zeros((2, n), tg.float32), tg.zeros((2, n), tg.int32)]
    text, code = assemble(lower_to_llvm(argsort_kernel(n), arrays, (2,), 32))
    assert code.spill_bytes == 0
    passes, rest = divmod(len(re.findall(r"shfl\.sync\.bfly", text)), steps * elements_of_lane(n, 32))
    assert passes in (1, 2) and rest == 0
    assert "bar.sync" not in text and "barrier.sync" not in text


def test_lanes_hold_short_lines_times_powers_of_two() -> None:
    assert [elements_of_lane(n, 128) for n in (128, 129, 300, 3000, 4095, 5000)] == [1, 2, 3, 24, 32, 40]
    assert all(
        n <= threads_of_sort(n) * elements_of_lane(n, threads_of_sort(n)) < 1.5 * n for n in range(64, 9999)
    )


def test_partial_blocks_sort_by_gathers() -> None:
    """Absent lanes cannot exchange elements."""

    @tg.kernel
    def sort_and_count(a: tg.array1d[tg.float32], out: tg.array1d[tg.int32]):
        i = tg.tid()
        tg.tile_store(out, tg.tile_argsort(tg.tile_load(a, shape=64)))
        a[i] = 1.0

    target = get_cuda_target("sm_90a")
    kernel = traced(sort_and_count, [tg.zeros(64, tg.float32), tg.zeros(64, tg.int32)], (40,), 32)
    assert kernel.launch.partial
    prepare(kernel)
    code = lower_kernel(kernel, for_gpu(kernel, target), target)
    text, _ = assemble(code)
    in_full_blocks, in_last_block = len(re.findall(r"shfl\.sync\.bfly", text)), text.count("min.u64")
    assert in_full_blocks and in_last_block
