"""Conversions between scalar types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import Op, Value
from tegula.ir.fields import attr, operand
from tegula.ops.base import element, require
from tegula.types import (
    DType,
    Type,
    bool_,
    element_bytes,
    element_shape,
    is_narrow_float,
    scalar_of,
    to_numpy,
    with_scalar,
)

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


def round_to_odd_float32(x: np.ndarray) -> np.ndarray:
    """Convert float64 to float32, rounding to odd, so that a second rounding to fewer bits gives the result of a single
    rounding."""
    nearest = x.astype(np.float32)
    widened = nearest.astype(np.float64)
    bits = nearest.view(np.int32) if nearest.ndim else np.atleast_1d(nearest).view(np.int32)
    inexact = np.isfinite(x) & (widened != x)
    truncated_bits = np.where(np.abs(widened) > np.abs(x), bits - 1, bits)
    odd: np.ndarray = np.where(inexact, truncated_bits | 1, bits).astype(np.int32).view(np.float32)
    return odd.reshape(nearest.shape)


def _integers_rounded_to_odd(x: np.ndarray) -> np.ndarray:
    """64-bit integers rounded to odd, to integers that float64 represents: the 11 low bits of integers that float64
    does not represent are replaced by a sticky bit."""
    if x.dtype.itemsize < 8:
        return x
    low_bits, sticky_bit = x.dtype.type(0x7FF), x.dtype.type(0x800)
    truncated: np.ndarray = x & ~low_bits
    high: np.ndarray = x >> x.dtype.type(53)
    inexact: np.ndarray = x & low_bits != 0
    exact: np.ndarray = (high == 0) | (~high == 0)
    return np.where(exact, x, np.where(inexact, truncated | sticky_bit, truncated))


def convert(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """The numbers of x converted to the type `to`. Conversions to floats round once, to nearest even; floats to
    integers truncate and saturate, and NaN gives 0; integers wrap; conversions to bool compare with 0."""
    source = x.dtype
    with np.errstate(all="ignore"):
        if to == np.bool_:
            return x.astype(np.float64) != 0 if is_narrow_float(source) else x != 0
        if source.kind in "iu" and source.itemsize >= 4 and is_narrow_float(to):
            return round_to_odd_float32(_integers_rounded_to_odd(x).astype(np.float64)).astype(to)
        if source.kind in "iub" or source == to:
            return x.astype(np.float32).astype(to) if is_narrow_float(to) and source != to else x.astype(to)
        if is_narrow_float(to):
            return (round_to_odd_float32(x) if source == np.float64 else x.astype(np.float32)).astype(to)
        if to.kind in "iu":
            return _saturate(x.astype(np.float64), to)
        return x.astype(to)


def _saturate(x: np.ndarray, to: np.dtype) -> np.ndarray:
    info = np.iinfo(to)
    truncated = np.trunc(np.where(np.isnan(x), 0.0, x))
    high, low = truncated >= float(info.max), truncated <= float(info.min)
    in_range = np.where(high | low, 0.0, truncated).astype(to)
    return np.where(high, info.max, np.where(low, info.min, in_range)).astype(to)


class Cast(Op):
    """Converts the operand to the scalar type `to` (attribute), component by component."""

    __slots__ = ()
    NAME = "cast"
    x = operand()
    to = attr()

    def infer(self) -> Sequence[Type]:
        return [with_scalar(element(self.x.type), self.to)]

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
        return convert(operands[0], to_numpy(attrs["to"]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        source = scalar_of(element(self.x.type))
        if not source.is_float:
            help = "use tg.floor, tg.trunc or tg.rint, whose derivative is 0 between whole numbers"
            b.refuse(self, "the operand is not a float and has no gradient", help)
        return (b.as_scalar(g, scalar_of(element(b.primal(self.x).type))),)


class Bitcast(Op):
    """Reinterprets the operand's bits as the type `to` (attribute): a scalar type of the width of a component,
    component by component, or a scalar or vector type of the operand's size; component 0 has the lowest bits."""

    __slots__ = ()
    NAME = "bitcast"
    NONDIFFERENTIABLE = "bits have no derivative"
    x = operand()
    to = attr()

    def infer(self) -> Sequence[Type]:
        source, to = element(self.x.type), element(self.to)
        if isinstance(to, DType) and scalar_of(source).bits == to.bits:
            return [with_scalar(source, to)]
        have_bits = scalar_of(source) is not bool_ and scalar_of(to) is not bool_
        require(
            have_bits and element_bytes(source) == element_bytes(to),
            f"bitcast from {source} to {to}: the widths differ",
        )
        return [to]

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
        (x,), to = operands, attrs["to"]
        dtype = to_numpy(scalar_of(to))
        if isinstance(to, DType) and x.dtype.itemsize == dtype.itemsize:
            return np.ascontiguousarray(x).view(dtype)
        flat = np.ascontiguousarray(x.reshape(len(x), -1)).view(dtype)
        return flat.reshape(len(x), *element_shape(to))
