"""Slopes that the type holds are right although what they are made of is out of its range, or nearly."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tegula as tg

BITS = {"float32": 24, "float64": 53}
ENDS = {
    "float32": (1e-30, 1e-19, 1e-10, 1.0, 1e10, 1e19, 1e30),
    "float64": (1e-250, 1e-155, 1e-60, 1.0, 1e60, 1e155, 1e250),
}


def quotient(x: Any, z: Any) -> tuple[Any, Any]:
    return 1 / z, -x / z**2


def angle(y: Any, x: Any) -> tuple[Any, Any]:
    square = x**2 + y**2
    return x / square, -y / square


SLOPES = {"x / z": quotient, "tg.atan2(x, z)": angle}
OF_ONE = {
    "tg.erf(x)": lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(x**2)),
    "tg.atan(x)": lambda x: 1 / (1 + x**2),
    "tg.log2(x)": lambda x: 1 / (x * mpmath.log(2)),
    "tg.log10(x)": lambda x: 1 / (x * mpmath.log(10)),
}


def gradients(expression: str, dtype: str, *values: np.ndarray) -> list[np.ndarray]:
    """By a tape, of a kernel for numbers of a type."""
    scalar = getattr(tg, dtype)
    one = len(values) == 1
    source = f"""
def kernel(a: tg.array[D], {"" if one else "c: tg.array[D], "}y: tg.array[D]):
    i = tg.tid()
    x = a[i]
    {"pass" if one else "z = c[i]"}
    y[i] = {expression}
"""
    names: dict[str, Any] = {"tg": tg, "D": scalar}
    exec(source, names)
    kernel = tg.kernel(source=source)(names["kernel"])
    inputs = [tg.array(v, dtype=scalar, requires_grad=True) for v in values]
    out = tg.zeros(len(values[0]), dtype=scalar, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, len(values[0]), inputs, [out])
    tape.backward(grads={out: tg.ones(len(values[0]), dtype=scalar)})
    return [a.grad.numpy() for a in inputs]


def compare(found: np.ndarray, wanted: list[Any], dtype: str) -> None:
    """Where the slope is a normal number, within some units in its last place."""
    limits, checked = np.finfo(dtype), 0
    for got, exact in zip(found, wanted, strict=True):
        if float(limits.tiny) < abs(exact) < float(limits.max):
            assert abs(mpmath.mpf(float(got)) - exact) <= 16 * abs(exact) * mpmath.mpf(2) ** -BITS[dtype], (
                got,
                exact,
            )
            checked += 1
    assert checked > len(wanted) // 4


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("expression", SLOPES)
def test_of_two(expression: str, dtype: str) -> None:
    x, z = (v.ravel().astype(dtype) for v in np.meshgrid(ENDS[dtype], ENDS[dtype]))
    exact = [
        SLOPES[expression](mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, z, strict=True)
    ]
    for k, found in enumerate(gradients(expression, dtype, x, z)):
        compare(found, [e[k] for e in exact], dtype)


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("expression", OF_ONE)
def test_of_one(expression: str, dtype: str) -> None:
    large = (1.5, 3.0, 5.0, 7.5, 9.0) if dtype == "float32" else (1.5, 5.0, 9.0, 20.0, 26.0)
    x = np.array([*large, *ENDS[dtype]], dtype)
    (found,) = gradients(expression, dtype, x)
    compare(found, [OF_ONE[expression](mpmath.mpf(float(a))) for a in x], dtype)
