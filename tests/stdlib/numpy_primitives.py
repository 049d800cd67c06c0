"""The primitives of the language on NumPy arrays, so that the standard library runs as plain Python.

`install()` fills the library's `tg` with them and with dispatchers for the library's own functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tegula.ops.convert import convert
from tegula.stdlib import FUNCTIONS
from tegula.stdlib.registry import tg
from tegula.types import DTYPES, DType, to_numpy

FLOAT64_SAFE = (2.0**-450, 2.0**450)


def typed(*operands: Any) -> list[np.ndarray]:
    """Literals as arrays of the other operands' dtype; float32 if all are literals."""
    dtype = next((x.dtype for x in operands if isinstance(x, np.ndarray | np.generic)), np.dtype(np.float32))
    return [np.asarray(x, dtype) for x in operands]


def rounded_to_odd_sum(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """high + low in float64 with the last bit set where inexact, so that a second rounding is correct."""
    total = high + low
    back = total - high
    error = (high - (total - back)) + (low - back)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), bits + toward, bits).view(np.float64)


def fma_float32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    rounded = product + addend
    with np.errstate(all="ignore"):
        odd = rounded_to_odd_sum(product, addend)
        return np.where(np.isfinite(rounded), odd, rounded).astype(np.float32)


def fma_exact(a: float, b: float, c: float) -> float:
    rounded = a * b + c
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return rounded
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        # An exact 0 has the sign of the rounded sum if the product is 0 too, and is +0 where nonzero terms cancel.
        return rounded if a * b == 0 and (a == 0 or b == 0) else 0.0
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = a * b
    (a1, a0), (b1, b0) = veltkamp_split(a), veltkamp_split(b)
    return high, ((a1 * b1 - high) + a1 * b0 + a0 * b1) + a0 * b0


def veltkamp_split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fma_float64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Exact product and sums with rounding to odd; rational arithmetic where exponents are extreme."""
    a, b, c = (
        np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(a.shape, b.shape, c.shape)))
        for x in (a, b, c)
    )
    with np.errstate(all="ignore"):
        high, low = two_product(a, b)
        upper, lower = two_sum(c, low)
        top, remainder = two_sum(high, upper)
        result = top + rounded_to_odd_sum(remainder, lower)
        small, large = FLOAT64_SAFE
        product_safe = (np.abs(a) < large) & (np.abs(b) < large) & (np.abs(high) > small)
        safe = (
            product_safe & (np.abs(c) < large) & ((np.abs(c) > small) | (c == 0)) & (np.abs(result) > small)
        )
        simple = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
        result = np.where(simple, a * b + c, result)
        flat = result.reshape(-1)
        for i in np.flatnonzero(~(safe | simple)):
            flat[i] = fma_exact(float(a.flat[i]), float(b.flat[i]), float(c.flat[i]))
    return flat.reshape(result.shape)


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    a, b, c = typed(a, b, c)
    compute = fma_float32 if a.dtype == np.float32 else fma_float64
    return compute(*(np.atleast_1d(x) for x in (a, b, c))).reshape(
        np.broadcast_shapes(a.shape, b.shape, c.shape)
    )


def where(condition: Any, a: Any, b: Any) -> np.ndarray:
    a, b = typed(a, b)
    assert a.dtype == b.dtype
    return np.where(condition, a, b)


def extreme_function(smaller: bool) -> Callable[..., np.ndarray]:
    """min or max: a NaN loses, -0 is below +0."""

    def pick(a: Any, b: Any) -> np.ndarray:
        a, b = typed(a, b)
        if a.dtype.kind in "iu":
            return np.minimum(a, b) if smaller else np.maximum(a, b)
        first = np.where(a == b, np.signbit(a) if smaller else ~np.signbit(a), a < b if smaller else a > b)
        return np.where(np.isnan(a), b, np.where(np.isnan(b) | first, a, b))

    return pick


def bitcast(x: np.ndarray, to: DType) -> np.ndarray:
    return np.ascontiguousarray(x).view(to_numpy(to)).reshape(np.shape(x))


class Cast:
    """A dtype of the language: a call converts, and bitcast takes it as the target type."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, x: Any) -> np.ndarray:
        return (
            convert(np.asarray(x), to_numpy(self.dtype))
            if isinstance(x, np.ndarray | np.generic)
            else np.asarray(x, to_numpy(self.dtype))
        )


def dispatcher(name: str) -> Callable[..., Any]:
    """A function that calls the overload whose annotations are the arguments' dtypes."""

    def call(*args: Any) -> Any:
        for function in FUNCTIONS[name]:
            expected = [function.__annotations__.get(name) for name in inspect.signature(function).parameters]
            if all(fits(x, w) for x, w in zip(args, expected, strict=True)):
                like = [
                    x if w is None or isinstance(x, np.ndarray) else np.asarray(x, to_numpy(DTYPES[w]))
                    for x, w in zip(args, expected, strict=True)
                ]
                return function(*like)
        raise TypeError(f"no overload of {name} for {[getattr(x, 'dtype', x) for x in args]}")

    return call


def fits(x: Any, annotation: str | None) -> bool:
    if annotation is None:
        return True
    if not isinstance(x, np.ndarray | np.generic):
        return annotation.startswith("float") == isinstance(x, float)
    return x.dtype == to_numpy(DTYPES[annotation.rstrip("_")])


def install() -> Any:
    """The library's `tg`, filled."""
    tg.fma, tg.where, tg.min, tg.max = fma, where, extreme_function(True), extreme_function(False)
    tg._never_above = lambda x, limit: ~(x > x.dtype.type(limit))
    tg._reciprocal = lambda x: x.dtype.type(1) / x
    tg.bitcast = lambda x, to: bitcast(x, to.dtype)
    for name in ("sqrt", "floor", "ceil", "trunc", "rint", "abs", "isnan", "isinf", "isfinite", "copysign"):
        setattr(tg, name, getattr(np, name))
    for name, dtype in DTYPES.items():
        setattr(tg, name, Cast(dtype))
    for name in FUNCTIONS:
        setattr(tg, name, dispatcher(name))
    return tg
