"""Invalid kernels: the class of the error, and the marked line and text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from traced_kernels import traced, zeros

import tegula as tg
from tegula import errors as E
from tegula.lang import KernelDef, array1d, array2d, func, tile
from tegula.lang.decorators import kernel

A = zeros(8)
I8 = zeros(8, dtype=np.int32)
OBJECT = object()


def plain(x):
    return x


@func
def calls_itself(n: int):
    return calls_itself(n - 1)


@func
def wrong_inside(x: float):
    return x + missing  # noqa: F821


@func
def overloaded(x: float):
    return x


@func
def overloaded(x: int):  # noqa: F811
    return x + 1


@func
def tile_of_four(t: tile[float, 4]):
    return t


def refuse(cls: type[E.CompileError], excerpt: str, *args: Any, message: str = "") -> Any:
    """The decorated kernel must fail with `cls`, pointing at `excerpt`."""

    def check(f: Any) -> None:
        with pytest.raises(E.CompileError) as info:
            traced(f if isinstance(f, KernelDef) else kernel(f), *args)
        error = info.value
        assert type(error) is cls, str(error)
        assert error.loc is not None
        text = error.loc.text()[error.loc.column : error.loc.end_column]
        assert text == excerpt, str(error)
        assert message in str(error)

    return check


def test_unknown_names_and_attributes_are_refused_at_their_line() -> None:
    @refuse(E.UnknownName, "nothing", A)
    def k1(a: array1d[float]):
        a[0] = nothing  # noqa: F821

    @refuse(E.UnknownAttribute, "tg.tile_lod", A, message="did you mean 'tile_load'")
    def k2(a: array1d[float]):
        t = tg.tile_lod(a, 4)

    @refuse(E.UnknownAttribute, "a.shap", A)
    def k3(a: array1d[float]):
        n = a.shap

    @refuse(E.UnboundName, "x", A)
    def k4(a: array1d[float]):
        i = tg.tid()
        if i > 3:
            x = 1.0
        a[i] = x

    @refuse(E.UnboundName, "x", A, 3)
    def k5(a: array1d[float], n: int):
        for i in range(n):
            x = float(i)
        a[0] = x

    @refuse(E.UnboundName, "x", A, 3)
    def k6(a: array1d[float], n: int):
        for i in range(4):
            if i == n:
                continue
            x = float(i)
        a[0] = x

    @refuse(E.UnsupportedCapture, "OBJECT", A)
    def k7(a: array1d[float]):
        a[0] = OBJECT

    @refuse(E.UnsupportedCapture, "plain", A, message="@tg.func")
    def k8(a: array1d[float]):
        a[0] = plain(1.0)

    @refuse(E.UnsupportedCapture, "math.sin", A)
    def k9(a: array1d[float]):
        a[0] = math.sin(1.0)


def test_unsupported_python_is_refused_at_its_line() -> None:
    @refuse(E.UnsupportedPython, "x := a[1]", A, message="which may not be evaluated")
    def k1(a: array1d[float]):
        a[0] = 1.0 if a[0] > 0.0 else (x := a[1])

    @refuse(E.UnsupportedPython, "[x for x in range(3)]", A)
    def k2(a: array1d[float]):
        f = [x for x in range(3)]

    @refuse(E.UnsupportedPython, "{1, 2}", A)
    def k3(a: array1d[float]):
        f = {1, 2}

    @refuse(E.UnsupportedPython, "{1: 2}", A)
    def k4(a: array1d[float]):
        f = {1: 2}

    @refuse(E.UnsupportedPython, "raise ValueError", A, message="assert")
    def k5(a: array1d[float]):
        raise ValueError

    @refuse(E.UnsupportedPython, "global A", A)
    def k6(a: array1d[float]):
        global A

    @refuse(E.RecursiveFunction, "calls_itself(n - 1)", I8)
    def k7(a: array1d[int]):
        a[0] = calls_itself(3)

    @refuse(E.UnsupportedPython, "pass", A)
    def k8(a: array1d[float]):
        for i in range(3):
            a[i] = 0.0
        else:
            pass


def test_type_errors_are_raised_at_their_line() -> None:
    @refuse(E.MixedScalars, "x * i", A)
    def k1(a: array1d[float]):
        i = tg.tid()
        x = 1.0
        a[i] = x * i

    @refuse(E.VariableChangesType, "x", A, 2)
    def k2(a: array1d[float], n: int):
        if n > 1:
            x = 1.0
        else:
            x = 1
        a[0] = float(x)

    @refuse(E.VariableChangesType, "y * 0.5", A, 2)
    def k3(a: array1d[float], n: int):
        x = 1
        for i in range(n):
            y = float(x)
            x = y * 0.5
        a[0] = 1.0

    @refuse(E.NotConstant, "n", A, 2)
    def k4(a: array1d[float], n: int):
        t = tg.tile_zeros(shape=n)

    @refuse(E.NotConstant, "t[n]", A, 2)
    def k5(a: array1d[float], n: int):
        t = (1.0, 2.0)
        a[0] = t[n]

    @refuse(E.ShapeMismatch, "t + u", A)
    def k6(a: array1d[float]):
        t = tg.tile_zeros(shape=4)
        u = tg.tile_zeros(shape=5)
        v = t + u

    @refuse(E.TypeMismatch, "float", A)
    def k7(a: array1d[float]):
        if float:
            pass

    @refuse(E.TypeMismatch, "return 1.0", A)
    def k8(a: array1d[float]):
        return 1.0

    @refuse(E.TypeMismatch, "x, y, z", A)
    def k9(a: array1d[float]):
        x, y, z = (1, 2)

    @refuse(E.OutOfRange, "range(0, 5, 0)", A)
    def k10(a: array1d[float]):
        for i in range(0, 5, 0):
            pass

    @refuse(E.TypeMismatch, "row", zeros(3, 3), 2, message="different arrays")
    def k11(a: array2d[float], n: int):
        if n > 1:
            row = a[0]
        else:
            row = a[1]
        row[0] = 1.0


def test_calls_with_wrong_arguments_are_refused_at_their_line() -> None:
    @refuse(E.WrongArguments, "overloaded(True)", A, message="overloaded(float32); overloaded(int32)")
    def k1(a: array1d[float]):
        a[0] = overloaded(True)

    @refuse(E.WrongArguments, "t", A, message="must be tile[float32, 4]")
    def k2(a: array1d[float]):
        t = tg.tile_zeros(shape=5)
        tile_of_four(t)

    @refuse(E.WrongArguments, "tg.tile_zeros(size=3)", A, message="size")
    def k3(a: array1d[float]):
        t = tg.tile_zeros(size=3)

    @refuse(E.WrongArguments, "tg.tid()", A)
    def k4(a: array1d[float]):
        i, j, k = tg.tid()

    @refuse(E.TypeMismatch, "x(1)", A)
    def k5(a: array1d[float]):
        x = 1.0
        x(1)


def test_errors_in_functions_name_the_caller() -> None:
    @kernel
    def k(a: array1d[float]):
        a[0] = wrong_inside(1.0)
        a[1] = wrong_inside(2.0)

    with pytest.raises(E.UnknownName) as info:
        traced(k, A)
    assert "called from here" in str(info.value)
    assert "a[0] = wrong_inside(1.0)" in str(info.value)


def test_all_errors_are_reported_without_consequential_errors() -> None:
    @kernel
    def k(a: array1d[float], n: int):
        x = first  # noqa: F821
        y = x + 1.0
        a[0] = y
        if second:  # noqa: F821
            z = third  # noqa: F821
        else:
            z = 2.0
        for i in range(fourth):  # noqa: F821
            a[i] = fifth + z  # noqa: F821
        a[0] = z
        a[1] = sixth  # noqa: F821

    with pytest.raises(E.CompileErrors) as info:
        traced(k, A, 3)
    names = [str(e).split("'")[1] for e in info.value.errors]
    assert names == ["first", "second", "third", "fourth", "fifth", "sixth"]


def test_kernels_from_exec_need_their_source() -> None:
    text = "def k(a: array1d[float]):\n    a[0] = nope\n"
    namespace: dict[str, Any] = {"array1d": array1d}
    exec(text, namespace)
    with pytest.raises(E.SourceNotFound):
        traced(kernel(namespace["k"]), A)
    with pytest.raises(E.UnknownName) as info:
        traced(kernel(source=text)(namespace["k"]), A)
    assert "    a[0] = nope" in str(info.value)
