"""Numbers with their derivatives in forward mode, for code that is written for NumPy arrays.

Each float64 has its derivatives by the inputs; their `mass`, which is the same with all slopes positive; and `blur`:
the possible error of an adjoint computation that rounds adjoints to a narrower type if `narrowed` holds."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np

SLOPES: dict[Any, Callable[[np.ndarray], Any]] = {
    np.negative: lambda x: -1.0,
    np.absolute: np.sign,
    np.sin: np.cos,
    np.cos: lambda x: -np.sin(x),
    np.tanh: lambda x: 1.0 / np.cosh(x) ** 2,
    np.arctan: lambda x: 1.0 / (1.0 + x * x),
    np.exp2: lambda x: np.exp2(x) * log(2.0),
    np.sqrt: lambda x: np.where(x == 0.0, 0.0, 0.5 / np.sqrt(np.where(x == 0.0, 1.0, x))),
}
"""Derivatives of functions of one number. At 0, `abs` and the square root, which is used for lengths, have the
derivative 0."""
PARTIALS: dict[Any, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    np.add: lambda x, y: (1.0, 1.0),
    np.subtract: lambda x, y: (1.0, -1.0),
    np.multiply: lambda x, y: (y, x),
    np.true_divide: lambda x, y: (1.0 / y, -x / (y * y)),
}


class DualNumbers:
    """`value`: any shape. `parts`: that shape and (3, inputs): derivatives, their mass, and the blur."""

    def __init__(self, value: np.ndarray, parts: np.ndarray) -> None:
        self.value, self.parts = value, parts

    @classmethod
    def inputs(cls, a: np.ndarray) -> DualNumbers:
        """Dual numbers for the elements of a 1-D array, each of which is an input."""
        own = np.eye(len(a))
        return cls(a, np.stack([own, own, 0.0 * own], axis=1))

    def narrowed(self, epsilon: float) -> DualNumbers:
        """The same dual number. Its adjoint is rounded, by at most `epsilon` relative, on each path backwards through
        it."""
        parts = self.parts.copy()
        parts[..., 2, :] += epsilon * parts[..., 1, :]
        return DualNumbers(self.value, parts)

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        values = [x.value if isinstance(x, DualNumbers) else np.asarray(x, np.float64) for x in xs]
        if ufunc in SLOPES:
            slopes: tuple[Any, ...] = (SLOPES[ufunc](values[0]),)
        elif ufunc in PARTIALS:
            slopes = PARTIALS[ufunc](*values)
        else:
            return NotImplemented
        array = np.asarray(ufunc(*values))
        terms = [
            _scaled(x, slope, array.ndim)
            for x, slope in zip(xs, slopes, strict=True)
            if isinstance(x, DualNumbers)
        ]
        return DualNumbers(array, np.broadcast_to(sum(terms), (*array.shape, *terms[0].shape[-2:])))

    def __add__(self, y: Any) -> DualNumbers:
        return np.add(self, y)

    def __radd__(self, y: Any) -> DualNumbers:
        return np.add(y, self)

    def __sub__(self, y: Any) -> DualNumbers:
        return np.subtract(self, y)

    def __rsub__(self, y: Any) -> DualNumbers:
        return np.subtract(y, self)

    def __mul__(self, y: Any) -> DualNumbers:
        return np.multiply(self, y)

    def __rmul__(self, y: Any) -> DualNumbers:
        return np.multiply(y, self)

    def __truediv__(self, y: Any) -> DualNumbers:
        return np.true_divide(self, y)

    def __neg__(self) -> DualNumbers:
        return np.negative(self)

    # Moving elements --------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def T(self) -> DualNumbers:
        """The transpose of a matrix."""
        return DualNumbers(self.value.T, self.parts.swapaxes(0, 1))

    def __getitem__(self, position: Any) -> DualNumbers:
        return DualNumbers(np.asarray(self.value[position]), self.parts[position])

    def reshape(self, *shape: int) -> DualNumbers:
        result = self.value.reshape(*shape)
        return DualNumbers(result, self.parts.reshape(*result.shape, *self.parts.shape[-2:]))

    def sum(self, axis: int | None = None) -> DualNumbers:
        """Over all elements, or along an axis that is counted from 0."""
        axes = tuple(range(self.ndim)) if axis is None else (axis,)
        return DualNumbers(np.asarray(self.value.sum(axes)), self.parts.sum(axes))


def _scaled(x: DualNumbers, slope: Any, ndim: int) -> np.ndarray:
    """The tangents of one operand, broadcast to a result with a given number of dimensions."""
    slope = np.asarray(slope, np.float64)[..., None, None]
    parts = x.parts.reshape((1,) * (ndim - x.ndim) + x.parts.shape)
    signed = np.concatenate([slope, np.abs(slope), np.abs(slope)], axis=-2)
    return parts * signed
