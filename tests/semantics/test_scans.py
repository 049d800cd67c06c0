"""Scans of any length, in blocks of any size and with absent threads; the number of present threads."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

SIZES = [
    (1, 1),
    (7, 64),
    (33, 33),
    (300, 1),
    (96, 128),
    (100, 33),
    (997, 128),
    (1000, 100),
    (1024, 32),
    (2100, 64),
]
DEFAULT_RUN_SIZES = [SIZES[k] for k in (1, 2, 4, 6)]
SIZE_PARAMETERS = [
    pytest.param(*size, marks=() if size in DEFAULT_RUN_SIZES else pytest.mark.slow) for size in SIZES
]


@cache
def scan_kernel(n: int) -> Any:
    @tg.kernel
    def run(x: tg.array1d[Any], y: tg.array2d[Any]):
        t = tg.tile_load(x, shape=n)
        tg.tile_store(y[0], tg.tile_scan_inclusive(t))
        tg.tile_store(y[1], tg.tile_scan_exclusive(t))
        tg.tile_store(y[2], tg.tile_scan_max_inclusive(t))
        tg.tile_store(y[3], tg.tile_scan_min_inclusive(t))

    return run


@pytest.mark.parametrize(("n", "block_dim"), SIZE_PARAMETERS)
def test_scans_of_any_length_and_block_match_numpy(n: int, block_dim: int) -> None:
    x = np.random.default_rng(n).integers(-99, 99, n).astype(np.float32)
    _, (inclusive, exclusive, maxima, minima) = agree(
        scan_kernel(n), [tg.array(x), tg.zeros((4, n))], 1, block_dim, tiled=True
    )
    np.testing.assert_array_equal(inclusive, np.cumsum(x))
    np.testing.assert_array_equal(exclusive, np.cumsum(x) - x)
    np.testing.assert_array_equal(maxima, np.maximum.accumulate(x))
    np.testing.assert_array_equal(minima, np.minimum.accumulate(x))


@tg.kernel
def scan_vectors(
    x: tg.array1d[tg.vec3], m: tg.array1d[tg.mat22], y: tg.array2d[tg.vec3], z: tg.array2d[tg.mat22]
):
    t, u = tg.tile_load(x, shape=70), tg.tile_load(m, shape=70)
    tg.tile_store(y[0], tg.tile_scan_inclusive(t))
    tg.tile_store(y[1], tg.tile_scan_min_inclusive(t))
    tg.tile_store(z[0], tg.tile_scan_exclusive(u))
    tg.tile_store(z[1], tg.tile_scan_max_inclusive(u))


@sampled(2, "block_dim", [1, 64])
def test_scans_of_vectors_match_numpy(block_dim: int) -> None:
    """The components of a thread do not fit into the thread's registers."""
    rng = np.random.default_rng(0)
    x, m = (rng.integers(-9, 9, (70, *s)).astype(np.float32) for s in ((3,), (2, 2)))
    arguments = [tg.array(x, dtype=tg.vec3), tg.array(m, dtype=tg.mat22)]
    results = [tg.zeros((2, 70), dtype=tg.vec3), tg.zeros((2, 70), dtype=tg.mat22)]
    *_, y, z = agree(scan_vectors, [*arguments, *results], 1, block_dim, tiled=True)
    np.testing.assert_array_equal(y, [np.cumsum(x, 0), np.minimum.accumulate(x)])
    np.testing.assert_array_equal(z, [np.cumsum(m, 0) - m, np.maximum.accumulate(m)])


@tg.kernel
def with_absent_threads(
    a: tg.array1d[int], rows: tg.array2d[int], total: tg.array2d[int], counts: tg.array2d[int]
):
    i = tg.tid()
    t = tg.tile(tg.vector(a[i], -a[i]))
    block = tg.uniform(i) // 40
    tg.tile_store(rows[4 * block], tg.tile_reshape(tg.tile_scan_inclusive(t), 80))
    tg.tile_store(rows[4 * block + 1], tg.tile_reshape(tg.tile_scan_exclusive(t), 80))
    tg.tile_store(rows[4 * block + 2], tg.tile_reshape(tg.tile_scan_max_inclusive(t), 80))
    tg.tile_store(rows[4 * block + 3], tg.tile_reshape(tg.tile_scan_min_inclusive(t), 80))
    tg.tile_store(total[block], tg.tile_scan_inclusive(tg.tile_load(a, shape=50)))
    tg.tile_store(counts[block], tg.tile_histogram(tg.tile_load(a, shape=50) & 3, 5))
    counts[block, 4] = tg.group_present()


def test_scans_skip_absent_threads() -> None:
    """The last of two blocks has 11 of 40 threads, which must still compute a whole tile from memory."""
    a = np.random.default_rng(1).integers(-99, 99, 51).astype(np.int32)
    results = [tg.zeros(s, dtype=int) for s in ((8, 80), (2, 50), (2, 5))]
    _, rows, totals, counts = agree(with_absent_threads, [tg.array(a), *results], 51, 40)
    for block, present in enumerate((a[:40], a[40:])):
        line = np.concatenate([present, -present])
        actual = rows[4 * block : 4 * block + 4].reshape(4, 2, 40)[:, :, : len(present)].reshape(4, -1)
        sums = np.cumsum(line)
        expected = [sums, sums - line, np.maximum.accumulate(line), np.minimum.accumulate(line)]
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(totals[block], np.cumsum(a[:50]))
        assert counts[block].tolist() == [*np.bincount(a[:50] & 3, minlength=4), len(present)]


def gradient_of_minima(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Each adjoint is accumulated into the element that set the extreme."""
    gradient, best, index = np.zeros(len(x)), np.nan, -1
    for k, value in enumerate(x):
        if not np.isnan(value) and (np.isnan(best) or value < best):
            best, index = value, k
        if index >= 0:
            gradient[index] += g[k]
    return gradient


@cache
def minima_kernel(n: int) -> Any:
    @tg.kernel
    def minima(x: tg.array1d[float], y: tg.array1d[float]):
        tg.tile_store(y, tg.tile_scan_min_inclusive(tg.tile_load(x, shape=n)))

    return minima


@pytest.mark.parametrize(("n", "block_dim"), SIZE_PARAMETERS)
def test_gradients_of_running_minima_are_correct(n: int, block_dim: int) -> None:
    rng = np.random.default_rng(n)
    x = (rng.integers(-3, 3, n) - np.arange(n) // 5).astype(np.float32)
    x[rng.integers(0, n, n // 7)] = np.nan
    g = rng.integers(-3, 3, n).astype(np.float32)
    source, out = tg.array(x, requires_grad=True), tg.zeros(n, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(minima_kernel(n), [1], [source], [out], block_dim=block_dim)
    tape.backward(grads={out: tg.array(g)})
    np.testing.assert_array_equal(source.grad.numpy(), gradient_of_minima(x, g))


@tg.kernel
def minima_of_lanes(x: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    w = tg.untile(tg.tile_scan_min_inclusive(tg.tile(tg.vector(x[i], -x[i]))))
    y[0, i], y[1, i] = w[0], w[1]


def test_gradients_of_running_minima_with_absent_threads_are_correct() -> None:
    rng = np.random.default_rng(5)
    x, g = rng.permutation(14).astype(np.float32), rng.integers(-3, 3, (2, 14)).astype(np.float32)
    source, out = tg.array(x, requires_grad=True), tg.zeros((2, 14), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(minima_of_lanes, 14, [source], [out], block_dim=8)
    tape.backward(grads={out: tg.array(g)})
    for segment in (slice(0, 8), slice(8, 14)):
        line = np.concatenate([x[segment], -x[segment]])
        first, second = gradient_of_minima(line, g[:, segment].ravel()).reshape(2, -1)
        np.testing.assert_array_equal(source.grad.numpy()[segment], first - second)


@tg.kernel
def rows_of_threads(x: tg.array2d[float], y: tg.array2d[float]):
    row = tg.tile_local(tg.tile_load(x, shape=(25, 4)), (33, 1))
    for k in tg.unrolled(1, 4):
        row[0, k] = row[0, k - 1] + row[0, k]
    tg.tile_store(y, tg.tile_from_local(row, (33, 1), (25, 4)))


def test_scans_of_a_row_per_thread_match_numpy() -> None:
    x = np.arange(100, dtype=np.float32).reshape(25, 4)
    _, y = agree(rows_of_threads, [tg.array(x), tg.zeros((25, 4))], 1, 33, tiled=True)
    np.testing.assert_array_equal(y, np.cumsum(x, 1))


@tg.kernel
def sums_of_lanes(x: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile(x[i])
    y[0, i], y[1, i] = tg.untile(tg.tile_scan_inclusive(t)), tg.untile(tg.tile_scan_exclusive(t * t))


@pytest.mark.parametrize(("threads", "block_dim"), [(11, 8), (43, 43), (75, 64)])
def test_gradients_of_running_sums_are_correct(threads: int, block_dim: int) -> None:
    """Warps may have absent threads and a number of threads that is not a power of two."""
    rng = np.random.default_rng(threads)
    x, g = (rng.integers(-9, 9, s).astype(np.float32) for s in (threads, (2, threads)))
    source, out = tg.array(x, requires_grad=True), tg.zeros((2, threads), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(sums_of_lanes, threads, [source], [out], block_dim=block_dim)
    tape.backward(grads={out: tg.array(g)})
    for first in range(0, threads, block_dim):
        segment = slice(first, first + block_dim)
        after = np.cumsum(g[:, segment][:, ::-1], 1)[:, ::-1]
        expected = after[0] + 2 * x[segment] * (after[1] - g[1, segment])
        np.testing.assert_array_equal(source.grad.numpy()[segment], expected)
