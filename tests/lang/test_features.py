"""Captured names, static, overloads, unrolling, print and assert."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, ops_named, traced, zeros

import tegula as tg
from tegula import errors as E
from tegula.lang import array1d, constant, func, static
from tegula.lang.decorators import kernel
from tegula.types import float32, float64, int64

WIDTH = constant(4)
PAIR = (2, 3)
SCALE = np.float32(1.5)
MODE = "double"


@func
def describe(x: float):
    return 1


@func
def describe(x: int):  # noqa: F811
    return 2


@func
def describe(x: array1d[float]):  # noqa: F811
    return 3


def test_kernels_capture_numbers_tuples_strings_and_types() -> None:
    depth = 3
    dtype = tg.float64

    @kernel
    def k(out: array1d[float]):
        x = float(WIDTH * PAIR[0] + depth) * SCALE
        if MODE == "double" and dtype == tg.float64:
            x = x * 2.0
        out[0] = x
        out[1] = float(dtype(2.0))
        out[2] = tg.pi

    out = zeros(3)
    launched(k, out, dims=(1,), block_dim=1)
    np.testing.assert_allclose(out, [33.0, 2.0, np.pi], rtol=1e-6)


def test_constant_parameters_leave_the_types_of_other_arguments() -> None:
    @kernel
    def k(out: array1d[float64]):
        zero = float64(0.1)
        for n, m in static(((2, 3),)):
            v = tg.vector(zero, length=n + m)
            out[0] = v[4]

    out = zeros(1, dtype=np.float64)
    launched(k, out, dims=(1,), block_dim=1)
    assert out[0] == 0.1


def test_functions_are_overloaded_by_type() -> None:
    @kernel
    def k(a: array1d[float]):
        a[0] = float(describe(1.0) * 100 + describe(1) * 10 + describe(a))

    out = zeros(1)
    launched(k, out, dims=(1,), block_dim=1)
    assert out[0] == 123


def test_generic_functions_take_defaults() -> None:
    @func
    def scale(x, by: Any = 2, *, plus: int = 1):
        return x * type(x)(by) + type(x)(plus)

    @kernel
    def k(a: array1d[float]):
        a[0] = scale(3.0)
        a[1] = float(scale(3, 5, plus=4))
        a[2] = float(scale(by=3, x=tg.float64(2.0)))

    out = zeros(3)
    launched(k, out, dims=(1,), block_dim=1)
    assert out.tolist() == [7, 19, 7]


def test_static_expressions_are_evaluated_at_compile_time() -> None:
    @kernel
    def k(a: array1d[float]):
        for i in range(3):
            a[i] = float(static(sum(range(i + 2))))
        if tg.static(WIDTH > 3):
            a[3] = 1.0

    out = zeros(4)
    launched(k, out, dims=(1,), block_dim=1)
    assert out.tolist() == [1, 3, 6, 1]
    assert not ops_named(traced(k, out), "for")


def test_small_loops_are_not_unrolled() -> None:
    @kernel
    def k(a: array1d[float]):
        for i in range(3):
            a[i] = float(i)

    assert len(ops_named(traced(k, zeros(3)), "for")) == 1


def test_unrolled_loops_of_tiles_match_numpy() -> None:
    @kernel
    def k(a: array1d[float]):
        t = tg.tile_zeros(shape=(3, 4))
        for i in range(3):
            t[i] = tg.tile_ones(shape=4) * float(i)
            total = tg.tile_sum(t[0 : i + 1])
            a[i] = total[0]

    out = zeros(3)
    launched(k, out)
    assert out.tolist() == [0, 4, 12]


def test_branches_that_return_keep_the_line_of_the_return() -> None:
    @kernel
    def k(a: array1d[float], n: int):
        i = tg.tid()
        if i >= n:
            return
        a[i] = 1.0

    (branch,) = ops_named(traced(k, zeros(3), 2), "if")
    assert branch.attrs["after_return"].text().strip() == "return"


def test_short_circuits_skip_the_right_operand() -> None:
    @kernel
    def k(a: array1d[float], n: int):
        i = tg.tid()
        j = i + 2
        if j < n and a[j] > 0.5:
            a[i] = 5.0

    out = np.ones(4, np.float32)
    launched(k, out, 4, dims=(4,))
    assert out.tolist() == [5, 5, 1, 1]


def test_kernels_print_and_assert() -> None:
    @kernel
    def k(n: int):
        i = tg.tid()
        print("i is", i, 2.5)
        assert i < n, "too far"

    with pytest.raises(E.KernelAssertion, match="too far"):
        launched(k, 1, dims=(2,), block_dim=2)


def test_annotated_assignments_and_int64_ranges_have_their_types() -> None:
    @kernel
    def k(a: array1d[float], n: tg.int64):
        total: tg.float64 = 0.0
        for i in range(n):
            total += tg.float64(i)
        a[0] = float(total)

    out = zeros(1)
    launched(k, out, np.int64(5), dims=(1,), block_dim=1)
    assert out[0] == 10


def test_parameters_have_the_element_types_of_arguments() -> None:
    names = [(p.name, p.annotation) for p in kernel(_typed).parameters]
    assert names == [("x", float32), ("y", float64), ("z", int64)]


def _typed(x: float, y: tg.float64, z: tg.int64):
    pass


def test_operands_are_passed_by_their_documented_names() -> None:
    """Operands are named a and b; arguments of functions with any number of indices and values have names too."""

    @kernel
    def k(a: tg.array2d[int], out: array1d[int]):
        tg.atomic_add(arr=a, i=0, j=1, value=2)
        tg.atomic_add(a, 0, j=1, value=tg.min(a=3, b=2))
        tg.atomic_cas(a, 1, 1, compare=0, value=9)
        t = tg.tile_zeros(4, dtype=int)
        tg.tile_scatter_add(t, i=1, value=3, has_value=True, atomic=True)
        u = tg.tile_map(tg.add, a=t, b=t)
        out[0] = tg.tile_extract(u, i=1)
        out[1] = tg.tile_dot(a=u, b=u)[0]
        out[2] = tg.where(cond=out[0] > 0, value_if_true=7, value_if_false=8)
        out[3] = tg.mod(a=out[0], b=4) + int(tg.dot(a=tg.vec2(1.0), b=tg.vec2(2.0)))

    a, out = np.zeros((2, 2), np.int32), np.zeros(4, np.int32)
    launched(k, a, out, dims=(1,), block_dim=1)
    assert a.tolist() == [[0, 4], [0, 9]]
    assert out.tolist() == [6, 36, 7, 6]
    with pytest.raises(E.WrongArguments, match="tile_map has no parameter 'c'"):

        @kernel
        def wrong():
            tg.tile_map(tg.add, tg.tile_zeros(4), c=1)

        traced(wrong)
