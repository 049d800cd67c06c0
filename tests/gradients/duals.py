"""Dual numbers for code that is written for NumPy arrays: numbers with their derivatives in forward mode.

Each float64 has three rows of tangents by the inputs: its derivatives; their `mass`, the sums of the magnitudes of all
terms; and the `rounding error`, a bound for the error of an adjoint computation that rounds adjoints to a narrower type
at each `with_rounded_adjoint`."""

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
"""Derivatives of functions of one number. The derivatives of `abs` and of the square root (of lengths) at 0 are 0."""
PARTIALS: dict[Any, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    np.add: lambda x, y: (1.0, 1.0),
    np.subtract: lambda x, y: (1.0, -1.0),
    np.multiply: lambda x, y: (y, x),
    np.true_divide: lambda x, y: (1.0 / y, -x / (y * y)),
}


class DualNumbers:
    """An array of dual numbers. `value`: an array of any shape; `tangents`: an array of this shape with two more
    dimensions (3, inputs): derivatives, mass and rounding error."""

    def __init__(self, value: np.ndarray, tangents: np.ndarray) -> None:
        self.value, self.tangents = value, tangents

    @classmethod
    def inputs(cls, a: np.ndarray) -> DualNumbers:
        """Dual numbers for the elements of a 1-D array, each of which is an input."""
        unit_tangents = np.eye(len(a))
        return cls(a, np.stack([unit_tangents, unit_tangents, 0.0 * unit_tangents], axis=1))

    def with_rounded_adjoint(self, epsilon: float) -> DualNumbers:
        """The same numbers, whose adjoints are rounded with a relative error of at most `epsilon` on each path
        backwards."""
        tangents = self.tangents.copy()
        tangents[..., 2, :] += epsilon * tangents[..., 1, :]
        return DualNumbers(self.value, tangents)

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

    # Shapes-----------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def T(self) -> DualNumbers:
        """The transpose of a matrix."""
        return DualNumbers(self.value.T, self.tangents.swapaxes(0, 1))

    def __getitem__(self, position: Any) -> DualNumbers:
        return DualNumbers(np.asarray(self.value[position]), self.tangents[position])

    def reshape(self, *shape: int) -> DualNumbers:
        result = self.value.reshape(*shape)
        return DualNumbers(result, self.tangents.reshape(*result.shape, *self.tangents.shape[-2:]))

    def sum(self, axis: int | None = None) -> DualNumbers:
        """The sum over all elements, or along an axis, which is not negative."""
        axes = tuple(range(self.ndim)) if axis is None else (axis,)
        return DualNumbers(np.asarray(self.value.sum(axes)), self.tangents.sum(axes))


def _scaled(x: DualNumbers, slope: Any, ndim: int) -> np.ndarray:
    """The tangents of one operand, broadcast to a result with a given number of dimensions."""
    slope = np.asarray(slope, np.float64)[..., None, None]
    tangents = x.tangents.reshape((1,) * (ndim - x.ndim) + x.tangents.shape)
    signed = np.concatenate([slope, np.abs(slope), np.abs(slope)], axis=-2)
    return tangents * signed
