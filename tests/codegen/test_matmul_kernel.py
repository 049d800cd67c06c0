"""The tile matmul, compiled and run on small integers, which every order of summation adds exactly."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from support.campaigns import sampled
from tegula.backend.llvm import compile_object
from tegula.backend.loader import LoadedObject, load
from tegula.codegen.matmul import MatmulSpec, PrefetchRegion, emit_matmul, reads_in_place, scratch_bytes
from tegula.errors import InternalError
from tegula.target import get_target
from tegula.types import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    to_numpy,
    uint8,
)

TARGETS = {32: "x86-64-v3", 64: "x86-64-v4"}


def runnable(vector_bytes: int) -> bool:
    return get_target().vector_bytes >= vector_bytes


widths = pytest.mark.parametrize(
    "vector_bytes",
    [
        pytest.param(w, marks=pytest.mark.skipif(not runnable(w), reason=f"no {w}-byte vectors here"))
        for w in TARGETS
    ],
)


@cache
def compiled_matmul(spec: MatmulSpec, vector_bytes: int) -> LoadedObject:
    """The compiled function, wrapped by an external one that takes an array of addresses and 8-byte values."""
    loads, arguments = [], []
    for index, parameter in enumerate(spec.parameters()):
        type, _ = parameter.split(" ")
        loads.append(
            f"  %p{index} = getelementptr i64, ptr %values, i64 {index}\n  %x{index} = load {type}, ptr %p{index}"
        )
        arguments.append(f"{type} %x{index}")
    text = emit_matmul("matmul", spec, vector_bytes)
    entry = "\n".join(
        [
            "define void @run(ptr %values) {",
            *loads,
            f"  call void @matmul({', '.join(arguments)})",
            "  ret void",
            "}",
        ]
    )
    return load(compile_object(f"{text}\n{entry}\n", get_target(TARGETS[vector_bytes])))


def aligned(size: int) -> np.ndarray:
    """`size` bytes, 64-byte aligned."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def matrix(
    dtype: DType, shape: tuple[int, int], strides: tuple[int, int], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Memory filled with small integers, and a view of it with the given strides in elements."""
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    numpy_type = to_numpy(dtype)
    memory = aligned((count + 8) * numpy_type.itemsize).view(numpy_type)
    low = 0 if dtype.kind == "u" else -4
    memory[:] = rng.integers(low, 5, len(memory)).astype(numpy_type)
    return memory, viewed(memory, shape, strides)


def viewed(memory: np.ndarray, shape: tuple[int, int], strides: tuple[int, int]) -> np.ndarray:
    step = memory.dtype.itemsize
    return np.ndarray(shape, memory.dtype, memory, 0, (strides[0] * step, strides[1] * step))


def check(spec: MatmulSpec, vector_bytes: int, leading: tuple[int, int] = (0, 0)) -> None:
    """Compare with NumPy the elements of C and the memory between and after them."""
    rng = np.random.default_rng(7)
    a_strides = tuple(leading[0] if s is None else s for s in spec.a_strides)
    b_strides = tuple(leading[1] if s is None else s for s in spec.b_strides)
    _, a = matrix(spec.a, (spec.m, spec.k), a_strides, rng)
    _, b = matrix(spec.b, (spec.k, spec.n), b_strides, rng)
    full_matrix, c = matrix(spec.acc, (spec.m, spec.n), spec.c_strides, rng)
    kind = to_numpy(spec.acc).type
    alpha, beta = kind(3), kind(2)
    with np.errstate(over="ignore"):
        result = (a.astype(kind) @ b.astype(kind)) * (alpha if spec.scaled else kind(1))
        expected = result + c * (beta if spec.scaled else kind(1)) if spec.accumulate else result
    untouched = full_matrix.copy()
    scratch = aligned(scratch_bytes(spec, vector_bytes) + 64)
    scratch[-64:] = 77
    scalars = [x.tobytes().ljust(8, b"\0") for x in (alpha, beta)[: spec.scaled * (1 + spec.accumulate)]]
    strides = [
        value
        for value, declared in zip((*a_strides, *b_strides), (*spec.a_strides, *spec.b_strides), strict=True)
        if declared is None
    ]
    regions = [x for region in spec.ahead for x in (int(a.ctypes.data), region.row_bytes)]
    values = b"".join(
        [
            *(int(x.ctypes.data).to_bytes(8, "little") for x in (a, b, c)),
            *scalars,
            *(x.to_bytes(8, "little") for x in (*strides, *regions, int(scratch.ctypes.data))),
        ]
    )
    ctypes.CFUNCTYPE(None, ctypes.c_char_p)(compiled_matmul(spec, vector_bytes).address("run"))(values)
    np.testing.assert_array_equal(c, expected)
    assert (scratch[-64:] == 77).all()
    c[:] = 0
    viewed(untouched, c.shape, spec.c_strides)[:] = 0
    np.testing.assert_array_equal(full_matrix, untouched)


def packed(m: int, n: int, k: int, a: DType, b: DType, acc: DType, **options: bool) -> MatmulSpec:
    return MatmulSpec(m, n, k, a, b, acc, (k, 1), (n, 1), (n, 1), **options)


@pytest.mark.machine_code(some=True)
@widths
@sampled(
    3,
    ("m", "n", "k"),
    [
        *((1, 1, 1), (8, 4, 8), (3, 5, 7), (1, 64, 9), (64, 1, 16), (17, 33, 5), (64, 64, 64), (13, 100, 31)),
        *((32, 48, 16), (40, 20, 3), (128, 128, 8), (7, 16, 129), (2, 200, 2), (100, 7, 40)),
    ],
)
def test_tile_matmuls_of_any_shape_are_exact(m: int, n: int, k: int, vector_bytes: int) -> None:
    check(packed(m, n, k, float32, float32, float32), vector_bytes)
    check(packed(m, n, k, float64, float64, float64), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
@pytest.mark.parametrize(
    ("a", "b", "acc"),
    [
        *((float16, float16, float32), (bfloat16, bfloat16, float32), (bfloat16, float16, float32)),
        *((float32, bfloat16, float32), (float16, float32, float64), (float64, float64, float32)),
        *(
            (float8_e4m3, float8_e5m2, float32),
            (int8, int8, int32),
            (uint8, int8, int32),
            (int16, int16, int16),
        ),
        *((int32, int32, int32), (int8, int64, int64), (int8, int8, int8)),
    ],
)
@sampled(3, ("m", "n", "k"), [(8, 4, 8), (16, 16, 16), (33, 37, 19)])
def test_tile_matmuls_of_all_dtypes_are_exact(
    a: DType, b: DType, acc: DType, m: int, n: int, k: int, vector_bytes: int
) -> None:
    check(packed(m, n, k, a, b, acc), vector_bytes)
    check(MatmulSpec(m, n, k, a, b, acc, (1, m), (1, k), (n, 1)), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("dtype", [float32, float64, int32])
def test_tile_matmuls_with_factors_are_exact(
    dtype: DType, scaled: bool, accumulate: bool, vector_bytes: int
) -> None:
    for m, n, k in ((4, 4, 4), (24, 40, 20)):
        check(packed(m, n, k, dtype, dtype, dtype, scaled=scaled, accumulate=accumulate), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("c_transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 3, 2), (24, 40, 20), (1, 17, 9), (17, 1, 9), (9, 8, 1)])
def test_tile_matmuls_of_transposed_operands_are_exact(
    m: int, n: int, k: int, a_transposed: bool, b_transposed: bool, c_transposed: bool, vector_bytes: int
) -> None:
    a = (1, m) if a_transposed else (k, 1)
    b = (1, k) if b_transposed else (n, 1)
    c = (1, m) if c_transposed else (n, 1)
    check(MatmulSpec(m, n, k, float32, float32, float32, a, b, c), vector_bytes)
    check(MatmulSpec(m, n, k, float64, float64, float64, a, b, c, scaled=True), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
@pytest.mark.parametrize("dtype", [float16, bfloat16, float8_e4m3])
@sampled(3, "k", [1, 2, 3, 5, 6, 7, 13])
def test_transposed_operands_with_partial_panels_are_packed_correctly(
    dtype: DType, k: int, vector_bytes: int
) -> None:
    """Also for converted operands: LLVM mixes up the halves of registers if only some results of a shuffle are used."""
    for m, n in ((3, 8), (9, 37)):
        check(MatmulSpec(m, n, k, dtype, dtype, float32, (k, 1), (1, k), (n, 1)), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
@pytest.mark.parametrize("dtypes", [(float32, float32), (float16, float32), (int8, int32)])
def test_tile_matmuls_of_any_strides_are_exact(dtypes: tuple[DType, DType], vector_bytes: int) -> None:
    x, acc = dtypes
    for m, n, k in ((3, 5, 4), (18, 21, 11)):
        spec = MatmulSpec(m, n, k, x, x, acc, (2 * k + 1, 2), (3, 3 * k + 2), (2 * n + 3, 2))
        check(spec, vector_bytes)
        check(MatmulSpec(m, n, k, x, x, acc, (k + 3, 1), (n + 5, 1), (n + 1, 1)), vector_bytes)
        check(MatmulSpec(m, n, k, x, x, acc, (0, 1), (0, 1), (n, 1)), vector_bytes)


@pytest.mark.machine_code(some=True)
@widths
def test_tile_matmuls_with_strides_at_run_time_are_exact(vector_bytes: int) -> None:
    for m, n, k in ((8, 4, 8), (30, 50, 20), (16, 16, 16), (33, 17, 40), (7, 150, 33), (64, 117, 64)):
        check(
            MatmulSpec(m, n, k, float32, float32, float32, (None, 1), (None, 1), (n, 1)),
            vector_bytes,
            (k + 4, n + 9),
        )
        check(
            MatmulSpec(m, n, k, bfloat16, bfloat16, float32, (None, 1), (None, 1), (n, 1)),
            vector_bytes,
            (k, n + 1),
        )
        check(
            MatmulSpec(m, n, k, float32, float32, float32, (1, None), (1, None), (n, 1)),
            vector_bytes,
            (m + 2, k + 1),
        )


@pytest.mark.machine_code(some=True)
@widths
def test_tile_matmuls_with_prefetched_regions_are_exact(vector_bytes: int) -> None:
    for m, n, k in ((8, 4, 8), (64, 64, 16), (33, 100, 20)):
        for prefetches in ((PrefetchRegion(m, 4 * k),), (PrefetchRegion(3, 64), PrefetchRegion(100, 200))):
            spec = MatmulSpec(m, n, k, float32, float32, float32, (k, 1), (n, 1), (n, 1), ahead=prefetches)
            check(spec, vector_bytes)


@pytest.mark.parametrize(
    ("size", "vector_bytes", "expected"),
    [
        ((64, 64, 64), 64, (True, True)),
        ((32, 32, 32), 64, (True, True)),
        ((64, 64, 64), 32, (True, True)),
        ((8, 4, 8), 64, (False, False)),
        ((16, 16, 16), 64, (False, True)),
    ],
)
def test_the_size_of_a_matmul_decides_whether_operands_are_read_in_place(
    size: tuple[int, int, int], vector_bytes: int, expected: tuple[bool, bool]
) -> None:
    m, n, k = size
    spec = MatmulSpec(m, n, k, float32, float32, float32, (None, 1), (None, 1), (n, 1))
    assert reads_in_place(spec, vector_bytes) == expected


@pytest.mark.parametrize("acc", [float16, bfloat16, bool_])
def test_matmul_specs_with_narrow_accumulators_are_refused(acc: DType) -> None:
    with pytest.raises(InternalError, match="not accumulated"):
        packed(4, 4, 4, float32, float32, acc)


@pytest.mark.parametrize(("m", "n", "k"), [(8, 4, 8), (33, 37, 19)])
def test_tile_matmuls_compile_for_neon(m: int, n: int, k: int) -> None:
    for a, acc in (
        (float32, float32),
        (float16, float32),
        (bfloat16, float32),
        (float64, float64),
        (int8, int32),
    ):
        for b_strides in ((n, 1), (1, k)):
            spec = MatmulSpec(m, n, k, a, a, acc, (k, 1), b_strides, (n, 1))
            text = emit_matmul("matmul", spec, 16).replace("define internal", "define", 1)
            assert compile_object(text, get_target("armv8.2"))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 64, 64), (67, 117, 35), (128, 128, 128), (8, 4, 8), (16, 64, 1000)]
)
def test_the_llvm_text_of_a_tile_matmul_stays_short(m: int, n: int, k: int, vector_bytes: int) -> None:
    for dtype in (float32, float16, float64):
        acc = float64 if dtype is float64 else float32
        assert len(emit_matmul("matmul", packed(m, n, k, dtype, dtype, acc), vector_bytes)) < 60_000
