"""Launches of library kernels, with the simulated driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from tegula.kernels import attention, gemm, matmul, shapes
from tegula.kernels.attention import launch_shape
from tegula.kernels.operands import allows_bulk_reads, is_aligned, with_aligned_copy


@pytest.fixture
def driver(simulated: SimulatedDriver) -> SimulatedDriver:
    simulated.kernels["kernel"] = lambda blocks, threads, data: None
    for kernels in (gemm.matmul_kernel, gemm.sum_splits_kernel):
        kernels.cache_clear()
    return simulated


def array_on_gpu(*shape: int, dtype: Any = tg.bfloat16) -> tg.array:
    return tg.zeros(shape, dtype=dtype, device="cuda:0")


def test_library_matmuls_launch_a_block_for_each_multiprocessor(driver: SimulatedDriver) -> None:
    matmul(array_on_gpu(4096, 64), array_on_gpu(64, 4096))
    matmul(array_on_gpu(256, 64), array_on_gpu(512, 64), transpose_b=True, tile=shapes.TENSOR_CORES[0])
    assert [launch[:2] for launch in driver.launches[-2:]] == [(132, 384), (4, 384)]


@pytest.mark.parametrize(
    ("shape", "uses_bulk_copies"),
    [
        ((4000, 4040, 4008), True),
        ((8200, 8200, 1032), True),
        ((5000, 5000, 5000), True),
        ((404, 404, 404), False),
    ],
)
def test_ragged_operands_are_read_by_bulk_copies(shape: tuple[int, int, int], uses_bulk_copies: bool) -> None:
    """Tiles may end anywhere; rows must start at multiples of 16 bytes, otherwise operands are copied."""
    m, n, k = shape
    for rows, columns in ((m, k), (k, n), (m, n)):
        strides = (columns * 2, 2)
        operand = SimpleNamespace(strides=strides, ptr=0, dtype=tg.bfloat16, shape=(rows, columns))
        assert is_aligned(operand) is uses_bulk_copies


def test_library_matmuls_split_the_tiles_of_small_results(driver: SimulatedDriver) -> None:
    """One launch computes the splits of all tiles, a second launch sums the splits."""
    matmul(array_on_gpu(256, 8192), array_on_gpu(8192, 256))
    matmul(array_on_gpu(16, 64), array_on_gpu(64, 128))
    splits, sums, unsplit = [launch[:2] for launch in driver.launches[-3:]]
    assert splits[0] > 32 and sums == (256, gemm.THREADS) and unsplit == (2, 256)


def test_sums_of_splits_take_memory_once(driver: SimulatedDriver) -> None:
    """Calls in the default stream run one after another and share memory; recorded calls and calls in other streams
    have separate memory."""
    a, b, out = array_on_gpu(256, 8192), array_on_gpu(8192, 256), array_on_gpu(256, 256)

    def allocated_bytes() -> int:
        driver.calls.clear()
        matmul(a, b, out)
        return driver.calls.count("cuMemAllocAsync")

    assert [allocated_bytes() for _ in range(3)] == [1, 0, 0]
    with tg.ScopedStream(tg.Stream("cuda:0")):
        assert [allocated_bytes() for _ in range(2)] == [1, 1]
    with tg.ScopedCapture("cuda:0"):
        assert allocated_bytes() == 1
    assert allocated_bytes() == 0


def test_library_attention_splits_tiles_of_queries(driver: SimulatedDriver) -> None:
    """With a causal mask each tile of queries has a block."""
    for batch, causal in ((2, False), (8, False), (8, True)):
        q, k = array_on_gpu(batch, 6, 300, 64), array_on_gpu(batch, 3, 100, 64)
        out, lse = attention(q, k, k, causal=causal, return_lse=True)
        assert out.device == lse.device == q.device
    assert [launch[0] for launch in driver.launches[-3:]] == [2 * 6 * 3, 132, 8 * 6 * 3]


def test_library_attention_orders_causal_heads_in_groups() -> None:
    """A group has as many heads as fit the cache, but enough for all blocks; heads that share keys stay together."""

    def grid(*queries: int, heads: int, causal: bool = True) -> tuple[int, ...]:
        batch, _, length, depth = queries
        return launch_shape(queries, (batch, heads, length, depth), 16, 132, causal)[0]

    assert grid(4, 16, 2048, 128, heads=16) == (4, 16, 16)
    assert grid(1, 8, 16384, 128, heads=8) == (4, 128, 2)
    assert grid(1, 32, 8192, 128, heads=8) == (2, 64, 16)
    assert grid(1, 7, 100, 128, heads=7) == (1, 1, 7)
    assert grid(1, 7, 100, 128, heads=7, causal=False) == (7,)


@pytest.mark.parametrize("columns", [70, 63, 64])
def test_unaligned_rows_of_operands_are_copied(driver: SimulatedDriver, columns: int) -> None:
    data = np.arange(6 * columns, dtype=np.float32).reshape(6, columns)
    operand = tg.array(data, device="cuda:0")[:, columns % 8 :]
    assert allows_bulk_reads(operand) is is_aligned(operand) is (columns == 64)
    actual = with_aligned_copy(operand, operand.dtype)
    assert is_aligned(actual) and actual.device == operand.device
    np.testing.assert_array_equal(actual.numpy(), operand.numpy())
