"""Forms that kernels accept: quoted annotations, matrices of entries, conversions, types under any name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, traced, zeros

import tegula as tg
from tegula import errors as E
from tegula.ir import Kernel
from tegula.lang import array1d
from tegula.lang.decorators import kernel
from tegula.passes.pipeline import for_cpu, prepare

THREE = np.array(3)
SHAPE = np.array((2, 3)).max(keepdims=False)


def run(k: Any, n: int = 8) -> list[float]:
    out = zeros(n)
    launched(k, out, dims=(1, 4))
    return out.tolist()


def kernel_of_source(source: str) -> Any:
    namespace: dict[str, Any] = {"tg": tg}
    exec(source, namespace)
    return kernel(source=source)(namespace["k"])


def test_quoted_annotations_are_accepted() -> None:
    k = kernel_of_source(
        "def k(a: 'tg.array1d[float]'):\n"
        "    def thrice(x: 'float'):\n        return x * 3.0\n"
        "    x: 'float' = 1.0\n"
        "    t: 'tg.tile[float, 4]' = tg.tile_ones(shape=4)\n"
        "    a[0] = thrice(x) + t[0]\n"
    )
    assert run(k)[0] == 4


@pytest.mark.parametrize("wrong", ["tg.float64", "tg.tile[float, 4]", "not a type"])
def test_a_quoted_annotation_that_does_not_fit_is_refused(wrong: str) -> None:
    k = kernel_of_source(f"def k(a: tg.array1d[float]):\n    x: '{wrong}' = a[0]\n    a[0] = float(x)\n")
    with pytest.raises(E.TypeMismatch) as caught:
        traced(k, zeros(4))
    assert "declared" in str(caught.value) or "not a type that kernels support" in str(caught.value)


def test_arrays_without_dimensions_become_numbers() -> None:
    @kernel
    def k(a: array1d[float]):
        t = tg.tile_full(shape=THREE, value=2.0)
        for i in range(THREE):
            a[i] = t[i] * float(THREE)
        a[THREE] = float(THREE + SHAPE)

    assert run(k)[:5] == [6, 6, 6, 6, 0]


def test_matrices_are_constructed_from_their_entries() -> None:
    @kernel
    def k(a: array1d[float]):
        m = tg.mat22(1.0, 2.0, 3.0, 4.0)
        n = tg.matrix(1.0, 2.0, 3.0, 4.0)
        o = tg.mat22(1, 2, 3, 4) + m - n
        a[0] = o[1, 0]
        a[1] = n[1, 1]

    assert run(k)[:2] == [3, 4]


@pytest.mark.machine_code
@pytest.mark.parametrize("arguments", [(1, 2, 3, 4), [[1.0, 2.0], [3.0, 4.0]], np.arange(1.0, 5.0)])
def test_matrix_arguments_are_constructed_from_their_entries(arguments: Any) -> None:
    @tg.kernel
    def k(m: tg.mat22, a: tg.array1d[float]):
        a[0] = m[1, 0]

    out = tg.zeros(1)
    tg.launch(k, dim=1, inputs=[arguments, out], block_dim=1)
    assert out.numpy()[0] == 3


def test_entries_of_no_square_matrix_are_refused() -> None:
    @kernel
    def k(a: array1d[float]):
        a[0] = tg.matrix(1.0, 2.0, 3.0)[0, 0]

    with pytest.raises(E.TypeMismatch, match="3 entries do not form a square matrix"):
        traced(k, zeros(4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tg.vector(length=0)", "1 or more components"),
        ("tg.vector()", "components or a length"),
        ("tg.matrix(1.0, shape=(2, 0))", "1 or more rows"),
        ("tg.tile_arange(4, dtype=bool)", "requires a numeric scalar dtype"),
        ("tg.tile_arange(0, 1, 0.25, dtype=int)", "cannot count"),
        (
            "tg.tile_squeeze(tg.tile_zeros((1, 4)), axis=7)",
            "axis 7 is out of bounds for tile with 2 dimensions",
        ),
        ("tg.tile_squeeze(tg.tile_zeros((1, 4)), axis=1)", "has length 4"),
        ("tg.tile_from_thread(4, 1.0, -1)", "has no thread -1"),
        ("tg.where(tg.tile_ones(4), 1.0, 2.0)", "condition of where must be bool, got float32"),
        ("tg.where(a[0], 1.0, 2.0)", "condition of where must be bool, got float32"),
        ("tg.uint8(-1)", "-1 does not fit uint8"),
        ("tg.int32(0xFFFFFFFF)", "does not fit int32"),
        ("1.0 & 2.0", "not defined for floats"),
        ("1.0 << 2", "not defined for floats"),
        ("tg.tile_ones(4) | tg.tile_ones(4)", "'|' is not defined for float32"),
    ],
)
def test_unsupported_expressions_are_refused(text: str, message: str) -> None:
    with pytest.raises(E.CompileError) as caught:
        traced(kernel_of_source(f"def k(a: tg.array1d[float]):\n    x = {text}\n"), zeros(4))
    assert message in str(caught.value)


def test_the_lane_of_tile_from_thread_may_be_a_name() -> None:
    @kernel
    def k(a: array1d[float]):
        lane = 9
        t = tg.tile_from_thread(4, 1.0, lane)
        tg.tile_store(a, t)

    with pytest.raises(E.OutOfRange, match="has no thread 9"):
        traced(k, zeros(4))


def prepared(body: str) -> Kernel:
    """A tiled kernel over t, a tile of shape (4, 2), prepared for the CPU."""
    lines = "\n".join("    " + line for line in body.splitlines())
    source = (
        f"def k(a: tg.array1d[float], n: int):\n    i, j = tg.tid()\n    t = tg.tile_zeros(shape=(4, 2))\n{lines}\n"
        "    tg.tile_store(a, tg.tile_reshape(t, 8))\n"
    )
    traced_kernel = traced(kernel_of_source(source), zeros(8), 1)
    prepare(traced_kernel)
    for_cpu(traced_kernel)
    return traced_kernel


@pytest.mark.parametrize(
    "body",
    [
        "if j < 2:\n    t[j, 1] = 3.0\n    t[j, 0] += 1.0",  # each thread in its own row
        "if j < 1:\n    t[n, 0] = 3.0\n    t[n, 1] += 1.0",  # two columns
    ],
)
def test_accesses_to_distinct_elements_need_no_synchronisation(body: str) -> None:
    prepared(body)


@pytest.mark.parametrize(
    "body",
    [
        "if j < 2:\n    t[j, 0] = 3.0\n    t[j + 1, 0] += 1.0",  # another thread's row
        "if j < 2:\n    t[n, 0] = 3.0\n    t[n, 0] += 1.0",
        "if j < 2:\n    t[j // 2, 1] = 3.0\n    t[j // 2, 1] += 1.0",
        "if j < 2:\n    for k in range(2):\n        t[k, 0] = 3.0\n        t[k + 1, 0] += 1.0",  # in another iteration
    ],
)
def test_accesses_to_elements_that_may_conflict_are_refused(body: str) -> None:
    with pytest.raises(E.UnorderedAccess):
        prepared(body)


def test_float_of_a_string_constant_is_a_number() -> None:
    @kernel
    def k(a: array1d[float]):
        a[0] = float("-inf")
        a[1] = -float("1e3")

    assert run(k)[:2] == [-np.inf, -1000.0]


def test_float_of_an_invalid_string_is_refused() -> None:
    @kernel
    def k(a: array1d[float]):
        a[0] = float("one")

    with pytest.raises(E.TypeMismatch, match="'one' is not a number"):
        traced(k, zeros(1))


def test_kernels_accept_types_of_numpy() -> None:
    @kernel
    def k(a: array1d[np.float64], b: tg.array(dtype=np.dtype("i2"), ndim=1)):
        t = tg.tile_full(shape=4, value=2.0, dtype=np.float64)
        tg.tile_store(a, t * np.float64(a.shape[0]))
        b[0] = np.int16(3)

    a, b = np.zeros(4), np.zeros(1, np.int16)
    launched(k, a, b, dims=(1, 4))
    assert a.tolist() == [8.0] * 4 and b.tolist() == [3]


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("f4"), tg.float32, float])
def test_types_are_accepted_under_any_name(dtype: Any) -> None:
    assert tg.zeros(2, dtype=dtype).dtype == tg.float32


@pytest.mark.parametrize("dtype", ["float32", complex, np.complex64, [1], None])
def test_values_that_are_not_types_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="is not an element type such as tg.float32"):
        tg.zeros(2, dtype=dtype)


def test_kernels_are_functions_defined_with_def() -> None:
    async def later(a: array1d[float]):
        pass

    for wrong in (lambda a: None, later):
        with pytest.raises(TypeError, match="defined with 'def'"):
            kernel(wrong)
