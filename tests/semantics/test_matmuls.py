"""Matmuls of every type on small integers, so that the results depend neither on the order of sums nor on the
precision. "precision" determines the rounding of float32, which leaves these numbers unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code


def numbers(*shape: int, dtype: Any, seed: int = 0) -> tg.array:
    low = 0 if dtype in (tg.uint8, tg.uint32) else -3
    values = np.random.default_rng(seed).integers(low, 4, shape)
    return tg.array(values.astype(np.float64).astype(tg.zeros(1, dtype=dtype).numpy().dtype))


def to_float64(x: Any) -> np.ndarray:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.numpy().astype(np.float64)


M, N, K = 24, 20, 36


@tg.kernel
def plain_matmul(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
    total = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N)), total)
    tg.tile_store(z, total)


@tg.kernel
def tf32_matmul(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
    total = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N)), total, precision="tf32")
    tg.tile_store(z, total)


@tg.kernel
def transposed_matmul(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
    a = tg.tile_load(x, shape=(K, M), storage="shared")
    b = tg.tile_load(y, shape=(N, K))
    total = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_transpose(a), tg.tile_transpose(b), total)
    tg.tile_store(z, total)


KINDS = [
    (tg.float16, tg.float16, tg.float16),
    (tg.bfloat16, tg.bfloat16, tg.bfloat16),
    (tg.bfloat16, tg.float16, tg.float32),
    (tg.float32, tg.float32, tg.float32),
    (tg.float32, tg.float32, tg.float16),
    (tg.float64, tg.float64, tg.float64),
    (tg.float32, tg.bfloat16, tg.float64),
    (tg.float8_e4m3, tg.float8_e4m3, tg.float32),
    (tg.float8_e4m3, tg.float8_e5m2, tg.bfloat16),
    (tg.float8_e5m2, tg.float16, tg.float32),
    (tg.int8, tg.int8, tg.int32),
    (tg.int8, tg.uint8, tg.int32),
    (tg.uint8, tg.uint8, tg.uint32),
    (tg.int8, tg.int8, tg.int8),
    (tg.int16, tg.int8, tg.int64),
]


@pytest.mark.parametrize(("a", "b", "c"), KINDS, ids=str)
def test_matmuls_of_every_type_are_exact(a: Any, b: Any, c: Any) -> None:
    x, y, z = numbers(M, K, dtype=a), numbers(K, N, dtype=b, seed=1), numbers(M, N, dtype=c, seed=2)
    *_, actual = agree(tf32_matmul if a == b == tg.float32 else plain_matmul, [x, y, z], 1, 64, tiled=True)
    expected = to_float64(z) + to_float64(x) @ to_float64(y)
    if not c.is_float:
        expected = expected.astype(np.int64)
    np.testing.assert_array_equal(actual, expected.astype(actual.dtype))


@pytest.mark.parametrize(("a", "b", "c"), KINDS[::2], ids=str)
def test_matmuls_of_transposed_operands_are_exact(a: Any, b: Any, c: Any) -> None:
    x, y, z = numbers(K, M, dtype=a), numbers(N, K, dtype=b, seed=1), numbers(M, N, dtype=c, seed=2)
    *_, actual = agree(transposed_matmul, [x, y, z], 1, 96, tiled=True)
    expected = to_float64(z) + to_float64(x).T @ to_float64(y).T
    np.testing.assert_array_equal(
        to_float64(actual), expected if c.bits > 8 else to_float64(expected.astype(actual.dtype))
    )


@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16])
def test_narrow_results_of_matmuls_are_rounded_once(dtype: Any) -> None:
    """If each step rounded, 2048 + 32 * 1 would stay 2048 in float16, and 256 + 32 would stay 256 in bfloat16."""

    @tg.kernel
    def accumulate_ones(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
        total = tg.tile_load(z, shape=(16, 16))
        tg.tile_matmul(tg.tile_load(x, shape=(16, 32)), tg.tile_load(y, shape=(32, 16)), total)
        tg.tile_store(z, total)

    large = 2048.0 if dtype is tg.float16 else 256.0
    x, y = tg.ones((16, 32), dtype=dtype), tg.ones((32, 16), dtype=dtype)
    *_, z = agree(accumulate_ones, [x, y, tg.full((16, 16), large, dtype=dtype)], 1, 32, tiled=True)
    assert (to_float64(z) == large + 32.0).all()


@pytest.mark.parametrize(
    ("narrow", "intermediate"), [(tg.bfloat16, tg.float32), (tg.int8, tg.int16)], ids=str
)
def test_matmuls_of_widened_operands_equal_narrow_matmuls(narrow: Any, intermediate: Any) -> None:
    """Matmuls of widened tiles equal matmuls of the narrow tiles, also if the wide tiles have other uses."""
    result = tg.float32 if narrow.is_float else tg.int32

    @tg.kernel
    def widen(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
        a = tg.tile_astype(tg.tile_load(x, shape=(16, 32)), intermediate)
        b = tg.tile_astype(tg.tile_load(y, shape=(16, 32)), intermediate)
        total = tg.tile_load(z, shape=(16, 16))
        tg.tile_matmul(a, tg.tile_transpose(b), total)
        tg.tile_store(z, total + tg.tile_astype(a[:, 8:24], result))

    x, y = numbers(16, 32, dtype=narrow), numbers(16, 32, dtype=narrow, seed=1)
    *_, actual = agree(widen, [x, y, tg.ones((16, 16), dtype=result)], 1, 64, tiled=True)
    np.testing.assert_array_equal(
        to_float64(actual), 1.0 + to_float64(x) @ to_float64(y).T + to_float64(x)[:, 8:24]
    )


def test_signs_removed_by_a_conversion_are_not_restored() -> None:
    """An int8 converted by way of uint16 differs from the int8."""

    @tg.kernel
    def convert(x: tg.array2d[tg.int8], z: tg.array2d[tg.int32]):
        a = tg.tile_astype(tg.tile_load(x, shape=(16, 32)), tg.uint16)
        b = tg.tile_load(x, shape=(16, 32))
        total = tg.tile_load(z, shape=(16, 16))
        tg.tile_matmul(a, tg.tile_transpose(b), total)
        tg.tile_store(z, total)

    x = numbers(16, 32, dtype=tg.int8)
    *_, actual = agree(convert, [x, tg.zeros((16, 16), dtype=tg.int32)], 1, 64, tiled=True)
    expected = x.numpy().astype(np.uint16).astype(np.int64) @ x.numpy().astype(np.int64).T
    np.testing.assert_array_equal(actual, expected)


def test_tf32_has_its_stated_precision() -> None:
    """Each operand has a relative error of at most 2**-11, or is exact on the device of the tests."""

    @tg.kernel
    def multiply(x: tg.array2d[float], y: tg.array2d[float], z: tg.array2d[float]):
        total = tg.tile_zeros(shape=(32, 32))
        tg.tile_matmul(
            tg.tile_load(x, shape=(32, 64)), tg.tile_load(y, shape=(64, 32)), total, precision="tf32"
        )
        tg.tile_store(z, total)

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    z = tg.zeros((32, 32))
    tg.launch_tiled(multiply, 1, inputs=[tg.array(x), tg.array(y)], outputs=[z], block_dim=64)
    error = np.abs(to_float64(z) - to_float64(x) @ to_float64(y))
    assert (error <= 2.01 * 2.0**-11 * (np.abs(to_float64(x)) @ np.abs(to_float64(y)))).all()
