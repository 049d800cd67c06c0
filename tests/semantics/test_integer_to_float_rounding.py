"""Conversions of integers to narrow floats round once, in the compiled kernel and in the interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tegula as tg
from tegula.ops.convert import convert

pytestmark = pytest.mark.machine_code


def nearest_bfloat16(value: int) -> float:
    """The nearest bfloat16 number, with 8 significant bits; ties are rounded to even."""
    size = abs(value)
    shift = max(size.bit_length() - 8, 0)
    digits, rest = divmod(size, 1 << shift)
    half = (1 << shift) // 2
    digits += shift > 0 and (rest > half or (rest == half and digits % 2 == 1))
    return float((-1 if value < 0 else 1) * digits * (1 << shift))


def rounding_corner_values(t: Any) -> np.ndarray:
    """Integers next to midpoints of two bfloat16 numbers, and other integers."""
    limits = np.iinfo(str(t))
    random_values = np.random.default_rng(0).integers(
        limits.min, limits.max, 100, dtype=str(t), endpoint=True
    )
    corner_values = [0, limits.min, limits.max, *map(int, random_values)]
    for shift in range(limits.bits - 9):
        halves = [(2 * digits + 1) << shift for digits in (0x80, 0x81, 0xFF)]
        corner_values += [
            sign * half + step for half in halves for sign in (1, -1) for step in (-2, -1, 0, 1, 2)
        ]
    return np.array([v for v in corner_values if limits.min <= v <= limits.max], dtype=str(t))


slow = pytest.mark.slow


@pytest.mark.parametrize(
    "t", [tg.int64, *(pytest.param(t, marks=slow) for t in (tg.int32, tg.uint32, tg.uint64))], ids=str
)
def test_integers_become_bfloat16_in_one_rounding(t: Any) -> None:
    @tg.kernel
    def kernel(x: tg.array[Any], scalar_results: tg.array[tg.bfloat16], tile: tg.array[tg.bfloat16]):
        i, j = tg.tid()
        scalar_results[i * 32 + j] = tg.bfloat16(x[i * 32 + j])
        row = tg.tile_load(x, shape=32, offset=i * 32)
        tg.tile_store(tile, tg.tile_astype(row, tg.bfloat16), offset=i * 32)

    values = np.resize(rounding_corner_values(t), -(-len(rounding_corner_values(t)) // 32) * 32)
    expected = [nearest_bfloat16(int(v)) for v in values]
    scalar_results, tile = (tg.zeros(len(values), dtype=tg.bfloat16) for _ in range(2))
    tg.launch_tiled(
        kernel, dim=len(values) // 32, inputs=[tg.array(values)], outputs=[scalar_results, tile], block_dim=32
    )
    reference = convert(values, np.dtype(ml_dtypes.bfloat16))
    for converted in (scalar_results.numpy(), tile.numpy(), reference):
        assert converted.astype(float).tolist() == expected
