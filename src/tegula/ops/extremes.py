"""Parts of the adjoints of minima and maxima: a gradient is divided among the elements equal to the extreme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.ir import Value
from tegula.ops.base import element
from tegula.ops.scalar import Cmp, Div, Select

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


def is_extreme(b: GradientBuilder, x: Value, extreme: Value) -> Value:
    """1 if the element x is equal to the extreme, else 0, in the type of x."""
    t = element(x.type)
    return b.one(Select, [b.one(Cmp, [x, extreme], {"pred": "eq"}), b.const(1.0, t), b.const(0.0, t)])


def split_among_ties(b: GradientBuilder, g: Value, hit: Value, ties: Value) -> Value:
    """The gradient of an element: g / ties if `hit`, the result of `is_extreme`, is 1, else 0."""
    zero = b.const(0.0, element(hit.type))
    return b.one(Select, [b.one(Cmp, [hit, zero], {"pred": "gt"}), b.one(Div, [g, ties]), zero])
