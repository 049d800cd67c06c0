"""Derivatives within the range of the type are correct if intermediate values are near or beyond its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

BITS = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8}
RANGE_LIMITS = {
    "float32": (1e-30, 1e-19, 1e-10, 1.0, 1e10, 1e19, 1e30),
    "float64": (1e-250, 1e-155, 1e-60, 1.0, 1e60, 1e155, 1e250),
    "float16": (7e-5, 1e-3, 0.03, 1.0, 30.0, 1e3, 5e4),
    "bfloat16": (1e-30, 1e-19, 1e-10, 1.0, 1e10, 1e19, 1e30),
}


def quotient(x: Any, z: Any) -> tuple[Any, Any]:
    return 1 / z, -x / z**2


def angle(y: Any, x: Any) -> tuple[Any, Any]:
    square = x**2 + y**2
    return x / square, -y / square


def power(x: Any, y: Any) -> tuple[Any, Any]:
    return y * x ** (y - 1), x**y * mpmath.log(x)


BINARY_DERIVATIVES = {"x / z": quotient, "tg.atan2(x, z)": angle}
UNARY_DERIVATIVES = {
    "tg.erf(x)": lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(x**2)),
    "tg.atan(x)": lambda x: 1 / (1 + x**2),
    "tg.log2(x)": lambda x: 1 / (x * mpmath.log(2)),
    "tg.log10(x)": lambda x: 1 / (x * mpmath.log(10)),
}
EXPONENTS = (-40.0, -2.5, -1.0, -0.01, 0.03, 1.0, 1.5, 3.0, 133.0)


def limits(dtype: str) -> Any:
    return ml_dtypes.finfo(dtype) if dtype == "bfloat16" else np.finfo(dtype)


def rounded_to(values: Any, dtype: str) -> np.ndarray:
    """The numbers, rounded to the type."""
    return np.asarray(values, np.float64).astype(limits(dtype).dtype)


def gradients(expression: str, dtype: str, *values: np.ndarray) -> list[np.ndarray]:
    """The gradients of an expression for numbers of a type."""
    is_unary = len(values) == 1
    source = f"""
def kernel(a: tg.array[D], {"" if is_unary else "c: tg.array[D], "}y: tg.array[D]):
    i = tg.tid()
    x = a[i]
    {"pass" if is_unary else "z = c[i]"}
    y[i] = {expression}
"""
    return gradients_by_tape(source, dtype, (), values, np.ones_like(values[0]))


def gradients_by_tape(
    source: str, dtype: str, dims: tuple[int, ...], values: Sequence[np.ndarray], seed: np.ndarray
) -> list[np.ndarray]:
    """The gradients of a kernel's arguments for a gradient `seed` of its result. The launch has a thread for each
    number, or the blocks `dims`."""
    scalar = getattr(tg, dtype)
    names: dict[str, Any] = {"tg": tg, "D": scalar, "divided": divided}
    exec(source, names)
    kernel = tg.kernel(source=source)(names["kernel"])
    inputs = [tg.array(v, dtype=scalar, requires_grad=True) for v in values]
    out = tg.zeros(seed.shape, dtype=scalar, requires_grad=True)
    with tg.Tape() as tape:
        if dims:
            tg.launch_tiled(kernel, dims, inputs, [out], block_dim=32)
        else:
            tg.launch(kernel, seed.shape, inputs, [out])
    tape.backward(grads={out: tg.array(seed, dtype=scalar)})
    return [a.grad.numpy() for a in inputs]


def compare(computed: np.ndarray, expected: list[Any], dtype: str, min_fraction: float = 0.25) -> None:
    """Compare derivatives whose exact values are normal numbers, with a tolerance of 16 units in the last place."""
    limit, checked_count = limits(dtype), 0
    for actual, exact in zip(computed, expected, strict=True):
        if float(limit.tiny) < abs(exact) < float(limit.max):
            error = abs(mpmath.mpf(float(actual)) - exact)
            assert error <= 16 * abs(exact) * mpmath.mpf(2) ** -BITS[dtype], (actual, exact)
            checked_count += 1
    assert checked_count > min_fraction * len(expected)


def exact_derivatives(slope: Callable[..., Any], *values: np.ndarray) -> list[Any]:
    return [slope(*(mpmath.mpf(float(v)) for v in point)) for point in zip(*values, strict=True)]


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("expression", BINARY_DERIVATIVES)
def test_derivatives_of_binary_functions_near_the_limits_of_the_type_are_exact(
    expression: str, dtype: str
) -> None:
    x, z = (rounded_to(v.ravel(), dtype) for v in np.meshgrid(RANGE_LIMITS[dtype], RANGE_LIMITS[dtype]))
    exact = exact_derivatives(BINARY_DERIVATIVES[expression], x, z)
    for k, slope in enumerate(gradients(expression, dtype, x, z)):
        compare(slope, [e[k] for e in exact], dtype)


@pytest.mark.parametrize("dtype", BITS)
@sampled(4, "expression", UNARY_DERIVATIVES)
def test_derivatives_of_unary_functions_near_the_limits_of_the_type_are_exact(
    expression: str, dtype: str
) -> None:
    large = (1.5, 5.0, 9.0, 20.0, 26.0) if dtype == "float64" else (1.5, 3.0, 5.0, 7.5, 9.0)
    x = rounded_to([*large, *RANGE_LIMITS[dtype]], dtype)
    (actual,) = gradients(expression, dtype, x)
    compare(actual, exact_derivatives(UNARY_DERIVATIVES[expression], x), dtype)


@pytest.mark.parametrize("dtype", BITS)
def test_derivatives_of_powers_near_the_limits_of_the_type_are_exact(dtype: str) -> None:
    """The power itself is in range, or underflows."""
    bases = [*RANGE_LIMITS[dtype], *(v * 0.73 for v in RANGE_LIMITS[dtype]), 0.5, 0.515, 4.0]
    x, y = (rounded_to(v.ravel(), dtype) for v in np.meshgrid(bases, EXPONENTS))
    powers = np.array(exact_derivatives(lambda x, y: abs(x) ** y < float(limits(dtype).max), x, y))
    x, y = x[powers], y[powers]
    exact = exact_derivatives(power, x, y)
    for k, slope in enumerate(gradients("tg.pow(x, z)", dtype, x, y)):
        compare(slope, [e[k] for e in exact], dtype)


BROADCAST = {
    "a number": "z = b[i, 0]\n    tg.tile_store(y[i], x / z)",
    "a tile of one element": "z = tg.tile_load(b[i], shape=1)\n    tg.tile_store(y[i], x / z)",
    "an element": "z = tg.tile_load(b[i], shape=1)\n    tg.tile_store(y[i], x / z[0])",
    "a row": "z = tg.tile_load(b[i], shape=1)\n    tg.tile_store(y[i], x / tg.tile_broadcast(z, shape=(8,)))",
    "a mapped function": "tg.tile_store(y[i], tg.tile_map(divided, x, b[i, 0]))",
    "a vector": "v = tg.vector(x[2], x[3]) / b[i, 0]\n    tg.tile_store(y[i], x * D(0.0))\n    y[i, 2] = v[0]\n"
    "    y[i, 3] = v[1]",
}
"""Expressions that divide the elements 2 and 3 of a tile by one number."""


@tg.func
def divided(x, z):
    return x / z


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "form", ["a number", *(pytest.param(f, marks=pytest.mark.slow) for f in [*BROADCAST][1:])]
)
def test_derivatives_of_a_common_divisor_near_the_limits_of_the_type_are_exact(form: str, dtype: str) -> None:
    """The quotient is a normal number. All elements but two have an adjoint of 0, which must not affect the sum."""
    z, x, g = (rounded_to(v.ravel(), dtype) for v in np.meshgrid(*(RANGE_LIMITS[dtype],) * 3))
    quotients = np.array(
        [x / z for x, z in zip(map(mpmath.mpf, x.tolist()), map(mpmath.mpf, z.tolist()), strict=True)]
    )
    normal = (quotients > float(limits(dtype).tiny)) & (quotients < float(limits(dtype).max))
    z, x, g = z[normal], x[normal], g[normal]
    a, seed = (np.zeros((len(z), 8), z.dtype) for _ in range(2))
    a[:, 2] = a[:, 3] = x
    seed[:, 2] = seed[:, 3] = g
    source = f"""
def kernel(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    i = tg.tid()
    x = tg.tile_load(a[i], shape=8)
    {BROADCAST[form]}
"""
    gradients_of_x, gradients_of_z = gradients_by_tape(source, dtype, (len(z),), (a, z[:, None]), seed)
    exact = exact_derivatives(lambda x, z, g: (g / z, -2 * g * x / z**2), x, z, g)
    compare(gradients_of_x[:, 3], [e[0] for e in exact], dtype)
    compare(gradients_of_z[:, 0], [e[1] for e in exact], dtype)
