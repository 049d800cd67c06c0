"""Elements of 8 bytes and more of arrays in lane code: one access for each 16 bytes, or 8, of an aligned array."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm, run_serially

import tegula as tg
from tegula.backend.llvm import compile_ptx

VECTOR_6, VECTOR_8 = tg.vector(6, float), tg.vector(8, float)


@tg.kernel
def double_elements(a, out):
    i = tg.tid()
    out[i] = a[i] + a[i]


def memory_accesses(a: Any) -> list[str]:
    """The loads and stores of elements in a kernel that doubles the elements of an array."""
    text = compile_ptx(
        lower_to_llvm(double_elements, [a, tg.zeros(len(a), dtype=a.dtype)], (32,), 32).text, "sm_90a"
    )
    return re.findall(r"\t((?:ld|st)\.global(?:\.nc)?(?:\.v\d)?\.\w+) ", text)


@pytest.mark.parametrize(
    ("dtype", "instruction_suffix", "expected_count"),
    [(tg.vec2, "v2.b32", 1), (tg.vec4, "v4.b32", 1), (VECTOR_8, "v4.b32", 2), (tg.vec4d, "v2.b64", 2)],
)
def test_elements_of_aligned_arrays_are_accesses_of_vectors(
    dtype: Any, instruction_suffix: str, expected_count: int
) -> None:
    actual = memory_accesses(tg.zeros(32, dtype=dtype))
    assert sum(x.startswith("ld") and x.endswith(instruction_suffix) for x in actual) == expected_count, (
        actual
    )
    assert sum(x.startswith("st") and x.endswith(instruction_suffix) for x in actual) == expected_count, (
        actual
    )


def test_elements_of_other_arrays_are_accesses_of_their_scalars() -> None:
    unaligned = tg.array(np.zeros(33 * 4 + 1, np.float32)[1:].reshape(33, 4), dtype=tg.vec4, copy=False)
    pairs = tg.array(np.zeros(33 * 2 + 1, np.float32)[1:].reshape(33, 2), dtype=tg.vec2, copy=False)
    strided = (tg.zeros(64, dtype=tg.vec4)[::2], tg.zeros(64, dtype=tg.vec2)[::2])
    for a in (unaligned, pairs, *strided, tg.zeros(32, dtype=tg.vec3), tg.zeros(32, dtype=VECTOR_6)):
        assert not any(".v" in x for x in memory_accesses(a) if x.startswith("ld")), a.dtype


@tg.kernel
def double_tile(a: tg.array2d[Any], out: tg.array2d[Any]):
    i = tg.tid()
    t = tg.tile_load(a[i], 64)
    tg.tile_store(out[i], t + t)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("dtype", "instruction_suffix", "expected_count"),
    [(tg.vec2, "v2.b32", 2), (tg.vec4, "v4.b32", 2), (tg.vec2d, "v2.b64", 2)],
)
def test_vectors_of_tiles_have_one_access_each(
    dtype: Any, instruction_suffix: str, expected_count: int
) -> None:
    """Rows at any address and rows that end within the tile match the code for the CPU."""
    a, out = tg.zeros((3, 64), dtype=dtype), tg.zeros((3, 64), dtype=dtype)
    text = compile_ptx(lower_to_llvm(double_tile, [a, out], (3,), 32).text, "sm_90a")
    for kind in ("ld", "st"):
        assert (
            len(re.findall(rf"\t{kind}\.global(?:\.nc)?\.{instruction_suffix} ", text)) == expected_count
        ), kind
    scalars = np.arange(3 * 70 * dtype.length, dtype=np.float32 if dtype.dtype.bits == 32 else np.float64)
    for columns, start in ((64, 0), (64, 1), (50, 0), (63, 0)):
        count = 3 * columns * dtype.length
        source = scalars[start : start + count].reshape(3, columns, dtype.length)
        actual, expected = (np.zeros((3, columns, dtype.length), source.dtype) for _ in range(2))
        arrays = [tg.array(x, dtype=dtype, copy=False) for x in (source, actual)]
        code = lower_to_llvm(double_tile, arrays, (3,), 32)
        run_serially(code, double_tile, arrays, (3, 32), 3)
        expected += 2 * source
        np.testing.assert_array_equal(actual, expected)
