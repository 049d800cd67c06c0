"""`min`, `max`, reductions, scans, argmin and argmax agree on NaN, infinities and zeros of both signs. The reference is
plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from support.campaigns import chunks
from support.extremes import arguments, assert_same_numbers, extreme_index, running_extremes

pytestmark = pytest.mark.machine_code


def check(seed: int) -> None:
    kernel, args, threads = arguments(seed)
    x, indices, running_min, running_max, total, rows, columns = agree(kernel, args, 1, threads, tiled=True)
    x = x.astype(np.float64)
    line = x.reshape(-1).tolist()
    for k, smaller in enumerate((True, False)):
        best = extreme_index(line, smaller)
        assert indices[k] == best, (indices, line)
        assert_same_numbers((running_min, running_max)[k], running_extremes(line, smaller))
        assert_same_numbers(total[k], line[best])
        assert_same_numbers(rows[k], [r[extreme_index(r, smaller)] for r in x.tolist()])
        assert_same_numbers(columns[k], [c[extreme_index(c, smaller)] for c in x.T.tolist()])


@pytest.mark.parametrize("seed", [4])
def test_all_extremes_order_nan_and_zeros_alike(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("chunk", chunks(range(60)))
def test_all_extremes_order_nan_and_zeros_alike_in_many_programs(chunk: int) -> None:
    for seed in range(100 + 5 * chunk, 105 + 5 * chunk):
        check(seed)


@tg.kernel
def extremes_per_thread(
    x: tg.array1d[tg.vec3], indices: tg.array2d[tg.int32], running_min: tg.array3d[tg.float32]
):
    i = tg.tid()
    t = tg.tile(x[i])
    block = tg.uniform(i // 64)
    tg.tile_store(indices[block], tg.tile_argmin(t), offset=0)
    tg.tile_store(indices[block], tg.tile_argmax(t), offset=1)
    tg.tile_store(running_min[block], tg.tile_scan_min_inclusive(t))


@pytest.mark.parametrize("n", [100])
def test_extremes_skip_absent_threads(n: int) -> None:
    """Tiles of vectors have a row for each component."""
    x = np.random.default_rng(n).integers(1, 9, (n, 3)).astype(np.float32)
    args = [
        tg.array(x, dtype=tg.vec3),
        tg.zeros((2, 2), dtype=tg.int32),
        tg.zeros((2, 3, 64), dtype=tg.float32),
    ]
    indices = agree(extremes_per_thread, args, n, 64)[1]
    for block in range(-(-n // 64)):
        part = np.full((3, 64), np.nan)
        part[:, : min(64, n - 64 * block)] = x[64 * block : 64 * block + 64].T
        assert indices[block].tolist() == [np.nanargmin(part), np.nanargmax(part)]
