"""Quotients of tiles on GPUs: computed for several elements at once without a subroutine, with the bits of IEEE 754
division."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm, run_serially

import tegula as tg

TILE = tg.constant(64)
THREADS = 32
SPECIAL_BITS = (
    0,
    1,
    0x7FFFFF,
    0x800000,
    0x1000000,
    0x3F800000,
    0x3F800001,
    0x3FFFFFFF,
    0x7F000000,
    0x7F7FFFFF,
    0x7F800000,
)
"""Special float32 numbers: zero, the ends of the subnormal and the normal numbers, 1 and the ends of its binade,
infinity."""


@tg.kernel
def quotients(A: tg.array[float], B: tg.array[float], C: tg.array[float]):
    i = tg.tid()
    a = tg.tile_load(A, shape=TILE, offset=i * TILE)
    b = tg.tile_load(B, shape=TILE, offset=i * TILE)
    tg.tile_store(C, a / b, offset=i * TILE)


@tg.kernel
def reciprocals(A: tg.array[float], B: tg.array[float], C: tg.array[float]):
    i = tg.tid()
    b = tg.tile_load(B, shape=TILE, offset=i * TILE)
    tg.tile_store(C, 1.0 / b, offset=i * TILE)


@tg.kernel
def narrow_quotients(A: tg.array[tg.float16], B: tg.array[tg.float16], C: tg.array[tg.float16]):
    i = tg.tid()
    a = tg.tile_load(A, shape=TILE, offset=i * TILE)
    b = tg.tile_load(B, shape=TILE, offset=i * TILE)
    tg.tile_store(C, a / b, offset=i * TILE)


@tg.kernel
def roots(A: tg.array[float], B: tg.array[float], C: tg.array[float]):
    i = tg.tid()
    tg.tile_store(C, tg.sqrt(tg.tile_load(A, shape=TILE, offset=i * TILE)), offset=i * TILE)


@tg.kernel
def narrow_roots(A: tg.array[tg.float16], B: tg.array[tg.float16], C: tg.array[tg.float16]):
    i = tg.tid()
    tg.tile_store(C, tg.sqrt(tg.tile_load(A, shape=TILE, offset=i * TILE)), offset=i * TILE)


@tg.kernel
def angles(A: tg.array[float], B: tg.array[float], C: tg.array[float]):
    i = tg.tid()
    a = tg.tile_load(A, shape=TILE, offset=i * TILE)
    b = tg.tile_load(B, shape=TILE, offset=i * TILE)
    tg.tile_store(C, tg.sin(a) + tg.tan(b), offset=i * TILE)


@tg.kernel
def exponentials(A: tg.array[float], B: tg.array[float], C: tg.array[float]):
    i = tg.tid()
    a = tg.tile_load(A, shape=TILE, offset=i * TILE)
    b = tg.tile_load(B, shape=TILE, offset=i * TILE)
    tg.tile_store(C, tg.exp(a) + tg.tanh(b), offset=i * TILE)


def operands(count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special numbers, and random pairs: of random bits, with similar exponents, with extreme exponents,
    and near powers of two."""
    rng = np.random.default_rng(5)
    special = np.array([b | sign for b in (*SPECIAL_BITS, 0x7FC00000) for sign in (0, 1 << 31)], np.uint32)
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    bits = rng.integers(0, 2**32, (2, count), dtype=np.uint32)
    similar_exponents = rng.integers(0, 2**23, (2, count)) | rng.integers(120, 134, (2, count)) << 23
    edge_exponents = (
        rng.integers(0, 2**23, (2, count)) | rng.choice([0, 1, 2, 4, 126, 253, 254], (2, count)) << 23
    )
    near_powers = (rng.integers(-3, 4, (2, count)) & (2**23 - 1)) | rng.integers(120, 134, (2, count)) << 23
    result = np.concatenate([pairs, bits, similar_exponents, edge_exponents, near_powers], axis=1).astype(
        np.uint32
    )
    result = result[:, : result.shape[1] // TILE * TILE]
    a, b = np.ascontiguousarray(result).view(np.float32)
    return a, b


def run(kernel: Any, a: np.ndarray, b: np.ndarray, dtype: Any = tg.float32) -> np.ndarray:
    arguments = [tg.array(a, dtype=dtype), tg.array(b, dtype=dtype), tg.zeros(a.size, dtype=dtype)]
    blocks = a.size // TILE
    code = lower_to_llvm(kernel, arguments, (blocks,), THREADS)
    run_serially(code, kernel, arguments, (blocks, THREADS), blocks)
    return arguments[2].numpy()


def assert_equal_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    word = np.dtype(f"u{actual.itemsize}")
    has_equal_bits = (actual.view(word) == expected.view(word)) | (np.isnan(actual) & np.isnan(expected))
    assert has_equal_bits.all(), (
        actual[~has_equal_bits][:5],
        expected[~has_equal_bits][:5],
        int((~has_equal_bits).sum()),
    )


@pytest.mark.machine_code
def test_quotients_agree_with_ieee() -> None:
    a, b = operands(2000)
    with np.errstate(all="ignore"):
        assert_equal_bits(run(quotients, a, b), a / b)


@pytest.mark.machine_code
def test_reciprocals_agree_with_ieee() -> None:
    a, b = operands(2000)
    with np.errstate(all="ignore"):
        assert_equal_bits(run(reciprocals, a, b), np.float32(1) / b)


@pytest.mark.machine_code
def test_quotients_of_narrow_floats_are_rounded_once_more() -> None:
    with np.errstate(all="ignore"):
        a, b = (np.clip(x, -65000, 65000).astype(np.float16) for x in operands(500))
        expected = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
    assert_equal_bits(run(narrow_quotients, a, b, tg.float16), expected)


@pytest.mark.machine_code
def test_square_roots_agree_with_ieee() -> None:
    a, b = operands(2000)
    with np.errstate(all="ignore"):
        assert_equal_bits(run(roots, a, b), np.sqrt(a))


@pytest.mark.machine_code
def test_square_roots_of_narrow_floats_are_rounded_once_more() -> None:
    with np.errstate(all="ignore"):
        a, b = (np.clip(x, -65000, 65000).astype(np.float16) for x in operands(500))
        expected = np.sqrt(a.astype(np.float32)).astype(np.float16)
    assert_equal_bits(run(narrow_roots, a, b, tg.float16), expected)


@pytest.mark.machine_code
@pytest.mark.parametrize("kernel", [exponentials, angles])
def test_functions_of_quotients_have_the_bits_of_the_cpu(kernel: Any) -> None:
    a, b = operands(2000)
    rng = np.random.default_rng(6)
    a = np.where(rng.random(a.size) < 0.5, rng.uniform(-110, 95, a.size).astype(np.float32), a)
    on_cpu = tg.zeros(a.size, dtype=tg.float32)
    tg.launch_tiled(kernel, a.size // TILE, [tg.array(a), tg.array(b), on_cpu], block_dim=THREADS)
    assert_equal_bits(run(kernel, a, b), on_cpu.numpy())


@pytest.mark.parametrize("kernel", [quotients, reciprocals])
def test_quotients_are_computed_without_calls(kernel: Any) -> None:
    arguments = [tg.zeros(256, dtype=tg.float32) for _ in range(3)]
    text, cubin = assemble(lower_to_llvm(kernel, arguments, (4,), THREADS))
    assert "rcp.approx.ftz.f32" in text and "div.rn" not in text and "rcp.rn" not in text
    assert text.count("rcp.approx.ftz.f64") == 1, (
        "one loop recomputes all quotients of a group that may be inexact"
    )
    assert cubin.is_ptx or not cubin.spill_bytes


@tg.kernel
def remainders(A: tg.array[Any], B: tg.array[Any], C: tg.array[Any]):
    i, j = tg.tid()
    k = i * THREADS + j
    C[k] = A[k] % B[k]


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_numbers_with_distant_exponents_are_exact(dtype: Any) -> None:
    info, rng = np.finfo(dtype), np.random.default_rng(2)
    corner_values = [
        info.smallest_subnormal,
        7 * info.smallest_subnormal,
        info.tiny,
        1.5,
        info.max,
        np.inf,
        0.0,
        -0.1,
    ]
    corner_values = np.array(
        [*corner_values, *np.exp2(rng.uniform(np.log2(info.tiny), np.log2(info.max), 24))], dtype
    )
    x, y = np.repeat(corner_values, corner_values.size), np.tile(corner_values, corner_values.size)
    arguments = [x, y, np.zeros_like(x)]
    code = lower_to_llvm(remainders, arguments, (x.size // THREADS,), THREADS)
    run_serially(code, remainders, arguments, (x.size // THREADS, THREADS), x.size // THREADS)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(arguments[2], np.fmod(x, y))
    text, _ = assemble(code)
    assert "fma.rn" in text and not re.search(r"approx|\.ftz|\bcall\b", text), "each step is exact"
