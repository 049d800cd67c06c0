"""Kernels and references for extremes of tiles."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import tegula as tg

CORNER_VALUES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0)


TYPES = (tg.float32, tg.float64, tg.float16, tg.bfloat16)


def is_more_extreme(x: float, y: float, smaller: bool) -> bool:
    """Whether x replaces the extreme y: any number replaces NaN, and NaN replaces nothing."""
    if math.isnan(x) or math.isnan(y):
        return math.isnan(y) and not math.isnan(x)
    key = [(v, math.copysign(1.0, v)) for v in (x, y)]
    return key[0] < key[1] if smaller else key[0] > key[1]


def extreme_index(line: list[float], smaller: bool) -> int:
    best = 0
    for k, x in enumerate(line):
        best = k if is_more_extreme(x, line[best], smaller) else best
    return best


def running_extremes(line: list[float], smaller: bool) -> list[float]:
    return [line[extreme_index(line[: k + 1], smaller)] for k in range(len(line))]


@cache
def extremes(m: int, n: int) -> Any:
    @tg.kernel
    def find_extremes(
        x: tg.array2d[Any],
        indices: tg.array1d[tg.int32],
        running_min: tg.array2d[Any],
        running_max: tg.array2d[Any],
        total: tg.array1d[Any],
        rows: tg.array2d[Any],
        columns: tg.array2d[Any],
    ):
        t = tg.tile_load(x, shape=(m, n))
        tg.tile_store(indices, tg.tile_argmin(t), offset=0)
        tg.tile_store(indices, tg.tile_argmax(t), offset=1)
        tg.tile_store(running_min, tg.tile_scan_min_inclusive(t))
        tg.tile_store(running_max, tg.tile_scan_max_inclusive(t))
        tg.tile_store(total, tg.tile_min(t), offset=0)
        tg.tile_store(total, tg.tile_max(t), offset=1)
        tg.tile_store(rows[0], tg.tile_min(t, axis=1))
        tg.tile_store(rows[1], tg.tile_max(t, axis=1))
        tg.tile_store(columns[0], tg.tile_min(t, axis=0))
        tg.tile_store(columns[1], tg.tile_max(t, axis=0))

    return find_extremes


def assert_same_numbers(actual: Any, expected: Any) -> None:
    """Assert that numbers and their signs are equal; a NaN may have any sign."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(actual, expected.reshape(actual.shape))
    numbers = ~np.isnan(actual)
    np.testing.assert_array_equal(
        np.signbit(actual)[numbers], np.signbit(expected.reshape(actual.shape))[numbers]
    )


def arguments(seed: int) -> tuple[Any, list[Any], int]:
    """A kernel, its arguments and the number of threads."""
    rng = np.random.default_rng(seed)
    dtype = TYPES[seed % len(TYPES)]
    m, n = int(rng.integers(1, 5)), int(rng.integers(1, 40))
    corner_indices = rng.choice(
        len(CORNER_VALUES), int(rng.integers(1, len(CORNER_VALUES) + 1)), replace=False
    )
    x = np.array(CORNER_VALUES)[rng.choice(corner_indices, (m, n))]
    x.reshape(-1)[: rng.integers(0, m * n + 1)] = rng.choice([math.nan, x[0, 0]])
    numpy_dtype = tg.zeros(1, dtype=dtype).numpy().dtype
    shapes = ((m, n), (m, n), (2,), (2, m), (2, n))
    args = [
        tg.array(x.astype(numpy_dtype)),
        tg.zeros(2, dtype=tg.int32),
        *(tg.zeros(s, dtype=dtype) for s in shapes),
    ]
    return extremes(m, n), args, int(rng.choice([32, 64, 128]))
