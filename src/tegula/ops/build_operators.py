"""Operators as functions: shifts, bitwise complement, signs, negation, approximate quotients."""

from __future__ import annotations

from tegula.ir import Value
from tegula.ops.base import public
from tegula.ops.build_math import div
from tegula.ops.builder import OpBuilder, Operand
from tegula.ops.kinds import INTEGER_RESULT, BitsOfElements, Condition, Integer, Number, ScaledNumbers
from tegula.types import ArrayType


@public("lshift", INTEGER_RESULT)
def lshift(builder: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The left shift a << b of an integer; 0 if b is at least the width of a."""
    return builder.binary("shl", a, b)


@public("rshift", INTEGER_RESULT)
def rshift(builder: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The right shift a >> b of an integer, arithmetic for signed integers."""
    return builder.binary("shr", a, b)


@public("invert", INTEGER_RESULT)
def invert(b: OpBuilder, a: Integer) -> Operand:
    """The bitwise complement ~a of an integer."""
    return b.unary("not", a)


@public("pos")
def pos(b: OpBuilder, x: Number) -> Operand:
    """The value of x, unchanged: +x.

    Returns:
        a value of the type of `x`.
    Gradient:
        the adjoint.
    """
    return b.unary("pos", x)


@public("unot")
def unot(b: OpBuilder, a: Condition) -> Operand:
    """The logical negation of a condition, `not a`.

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
    """The quotient of two floats, a / b, which may be approximate; it is exact in this implementation.

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
