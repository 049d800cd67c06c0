"""Operators as functions: shifts, the bits' complement, signs, negation, the quotient that may be approximate."""

from __future__ import annotations

from tegula.ir import Value
from tegula.ops.base import public
from tegula.ops.build_math import div
from tegula.ops.builder import OpBuilder, Operand
from tegula.ops.kinds import OF_INTEGERS, BitsOfElements, Condition, Integer, Number, ScaledNumbers
from tegula.types import ArrayType


@public("lshift", OF_INTEGERS)
def lshift(builder: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The integer a with its bits moved up by a number of places, a << b; 0 where that is its width or more."""
    return builder.binary("shl", a, b)


@public("rshift", OF_INTEGERS)
def rshift(builder: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The integer a with its bits moved down by a number of places, a >> b; signed integers keep their sign."""
    return builder.binary("shr", a, b)


@public("invert", OF_INTEGERS)
def invert(b: OpBuilder, a: Integer) -> Operand:
    """The integer with the complement of the bits of a, ~a."""
    return b.unary("not", a)


@public("pos")
def pos(b: OpBuilder, x: Number) -> Operand:
    """The value of x itself, +x.

    Returns:
        a value of the type of `x`.
    Gradient:
        the adjoint.
    """
    return b.unary("pos", x)


@public("unot")
def unot(b: OpBuilder, a: Condition) -> Operand:
    """Whether a condition does not hold, `not a`.

    Returns:
        a bool; a tile of bools of a tile.
    Gradient:
        none: bools have no gradient.
    """
    if a is None or (isinstance(a, Value) and isinstance(a.type, ArrayType)):
        return a is None
    if b.is_tile(a):
        return b.map(lambda args: b.logical_not(args[0]), [a])
    return b.logical_not(a)


@public("div_approx")
def div_approx(builder: OpBuilder, a: ScaledNumbers, b: ScaledNumbers) -> Operand:
    """The quotient of two floats, a / b, where an approximation would do: it is the exact one here.

    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`.
    """
    return div(builder, a, b)


__all__ = ["div_approx", "invert", "lshift", "pos", "rshift", "unot"]
