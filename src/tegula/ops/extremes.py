"""Parts of the adjoints of minima and maxima: a gradient is divided among the elements equal to the extreme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.ir import Value
from tegula.ops.base import element
from tegula.ops.scalar import Cmp, Div, Select

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


def is_extreme(b: GradientBuilder, x: Value, best: Value) -> Value:
    """The number 1 if the element x is equal to the extreme `best`, else 0."""
    t = element(x.type)
    return b.one(Select, [b.one(Cmp, [x, best], {"pred": "eq"}), b.const(1.0, t), b.const(0.0, t)])


def divided_among_ties(b: GradientBuilder, g: Value, hit: Value, ties: Value) -> Value:
    """The gradient of an element: g / ties if `hit` is 1, the mark of an element that is equal to the extreme, else
    0."""
    zero = b.const(0.0, element(hit.type))
    return b.one(Select, [b.one(Cmp, [hit, zero], {"pred": "gt"}), b.one(Div, [g, ties]), zero])
