"""The scalar functions of the language: `tg.sqrt`, `tg.where`, casts, ... Applied to tiles they work element by
element."""

from __future__ import annotations

from typing import Any

from tegula.ir import TypeRule
from tegula.ops import scalar as S
from tegula.ops.base import public, require
from tegula.ops.builder import LITERALS, OpBuilder, Operand
from tegula.ops.convert import Bitcast
from tegula.ops.kinds import (
    ELEMENTWISE,
    INTEGER_RESULT,
    AnyElements,
    BitsOfElements,
    ComponentType,
    Condition,
    Float,
    Floats,
    Integer,
    Number,
    Numbers,
    ScaledNumbers,
    SelectOperand,
)
from tegula.ops.literals import fold_literals
from tegula.ops.structs import added, moved
from tegula.types import ArrayType, DType, MatType, VecType, element_type, int32, scalar_of


@public("min", ELEMENTWISE)
def minimum(build: OpBuilder, a: AnyElements, b: AnyElements = None) -> Operand:
    """The smaller of a and b, component by component; without b the smallest component of a vector or matrix a.

    The result is a NaN only if both operands are NaN, and -0.0 is below 0.0. In kernels, Python's `min` of two or more
    values is this function.

    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, minimumNumber.
    """
    if b is None:
        return _fold_components(build, "min", S.Min, a)
    return build.elementwise(S.Min, [a, b]) if _typed(a, b) else fold_literals("min", a, b)


@public("max", ELEMENTWISE)
def maximum(build: OpBuilder, a: AnyElements, b: AnyElements = None) -> Operand:
    """The larger of a and b, component by component; without b the largest component of a vector or matrix a.

    The result is a NaN only if both operands are NaN, and -0.0 is below 0.0. In kernels, Python's `max` of two or more
    values is this function.

    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, maximumNumber.
    """
    if b is None:
        return _fold_components(build, "max", S.Max, a)
    return build.elementwise(S.Max, [a, b]) if _typed(a, b) else fold_literals("max", a, b)


def _fold_components(b: OpBuilder, name: str, op: type[Any], x: Operand) -> Operand:
    """The components of a vector or matrix, combined in order."""
    if b.is_tile(x):
        return b.map(lambda args: _fold_components(b, name, op, args[0]), [x])
    value = b.value(x)
    if not isinstance(value.type, VecType | MatType):
        raise TypeRule(f"{name} takes two values, or a vector or matrix, got {value.type}", culprit=x)
    total, *rest = b.components_of(value)
    for component in rest:
        total = b.one(op, [total, component])
    return total


def _typed(*operands: Operand) -> bool:
    return any(not isinstance(x, LITERALS) for x in operands)


@public("clamp", ELEMENTWISE)
def clamp(b: OpBuilder, x: AnyElements, low: AnyElements, high: AnyElements) -> Operand:
    """The value x limited to the range from low to high: min(max(x, low), high).

    Where `low` is above `high`, the result is `high`. A NaN in `x` becomes `low`.

    Gradient:
        goes to `x` inside the range, to a limit outside; half to each of two equal operands.
    """
    return minimum(b, maximum(b, x, low), high)


def _first_as_tile(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    return b.tile(x)


@public("add", ELEMENTWISE, fields=added("a", "b", pass_through=_first_as_tile))
def add(build: OpBuilder, a: Numbers, b: Numbers) -> Operand:
    """The sum a + b; integers wrap.

    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
    Gradient:
        the adjoint, for both.
    """
    return build.binary("add", a, b)


@public("sub", ELEMENTWISE, fields=added("a", "b", pass_through=_first_as_tile))
def sub(build: OpBuilder, a: Numbers, b: Numbers) -> Operand:
    """The difference a - b; integers wrap.

    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
    Gradient:
        the adjoint for `a`, its negative for `b`.
    """
    return build.binary("sub", a, b)


@public("mul")
def mul(build: OpBuilder, a: ScaledNumbers, b: ScaledNumbers) -> Operand:
    """The product a * b: of numbers, of a scalar and a vector, matrix or tile, or of matrices.

    Integers wrap. A product that is added to something may be rounded once with the sum (docs/semantics.md).

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; or
            matrices (M, K) and (K, N), a vector standing for a column on the right and a row on the left.
    Returns:
        a value of the wider of the two types; a matrix (M, N) of matrices.
    Raises:
        type-mismatch: the operands are bools, matrices whose shapes do not fit, or two vectors or tiles of vectors, for
            which tg.cw_mul is the component-wise product.
    Gradient:
        the adjoint times the other operand.
    """
    return build.binary("mul", a, b)


@public("div")
def div(build: OpBuilder, a: ScaledNumbers, b: ScaledNumbers) -> Operand:
    """The quotient of two numbers, a / b.

    Integers truncate towards 0; an integer divided by 0 gives 0. Floats follow IEEE 754.

    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: an operand is a bool, or both operands are vectors or matrices, for which tg.cw_div is the
            component-wise quotient.
        division-by-zero: an integer is divided by 0, in debug mode.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`; none through integers.
    """
    return build.binary("div", a, b)


@public("floordiv")
def floordiv(build: OpBuilder, a: ScaledNumbers, b: ScaledNumbers) -> Operand:
    """The quotient a // b, rounded down.

    An integer divided by 0 gives 0.

    Returns:
        a value of the wider of the two types; of floats, the floor of the rounded quotient.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
    Gradient:
        0 everywhere.
    """
    return build.binary("floordiv", a, b)


@public("mod")
def mod(build: OpBuilder, a: ScaledNumbers, b: ScaledNumbers) -> Operand:
    """The remainder a % b, with the sign of a, component by component.

    The remainder of the truncated quotient: of floats exact, NaN where a is infinite or b is 0; of integers 0
    where b is 0.

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or vectors or matrices of one type; or one of these and
            a scalar.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
    Gradient:
        the adjoint for `a`; the adjoint times the negative truncated quotient for `b`.
    Source:
        C's fmod; floats of the standard library.
    """
    return build.binary("mod", a, b)


@public("neg")
def neg(b: OpBuilder, x: Number) -> Operand:
    """The negative -x; integers wrap.

    Returns:
        a value of the type of `x`.
    Gradient:
        the negative of the adjoint.
    """
    return b.unary("neg", x)


@public("bit_and", INTEGER_RESULT)
def bit_and(build: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The bitwise and a & b; logical for bools."""
    return build.binary("and", a, b)


@public("bit_or", INTEGER_RESULT)
def bit_or(build: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The bitwise or a | b; logical for bools."""
    return build.binary("or", a, b)


@public("bit_xor", INTEGER_RESULT)
def bit_xor(build: OpBuilder, a: BitsOfElements, b: BitsOfElements) -> Operand:
    """The bitwise exclusive or a ^ b; logical for bools."""
    return build.binary("xor", a, b)


@public("cw_mul", ELEMENTWISE)
def cw_mul(build: OpBuilder, a: Numbers, b: Numbers) -> Operand:
    """The component-wise product of two vectors or matrices.

    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
    Gradient:
        the adjoint times the other operand.
    """
    return build.elementwise(S.Mul, [a, b])


@public("cw_div", ELEMENTWISE)
def cw_div(build: OpBuilder, a: Numbers, b: Numbers) -> Operand:
    """The component-wise quotient of two vectors or matrices.

    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
        division-by-zero: an integer is divided by 0, in debug mode.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`.
    """
    return build.elementwise(S.Div, [a, b])


@public("abs")
def absolute(b: OpBuilder, x: Number) -> Operand:
    """The magnitude of a number x.

    Returns:
        a value of the type of `x`; the minimum of a signed integer type is unchanged.
    Gradient:
        the adjoint with the sign of `x`; 0 at 0.
    """
    if _typed(x):
        return b.elementwise(S.Abs, [x])
    require(not isinstance(x, bool), f"abs is not defined for {x!r}")
    return abs(x)


def _float_function(name: str, op: type[Any], doc: str) -> None:
    def build(b: OpBuilder, x: Float) -> Operand:
        return b.elementwise(op, [b.value(x)])

    build.__doc__ = doc
    public(name)(build)


_float_function(
    "sqrt",
    S.Sqrt,
    """The square root of x, correctly rounded; NaN for negative numbers.

    Returns:
        a value of the type of `x`.
    Gradient:
        adjoint / (2 * sqrt(x)); infinite at 0, where an adjoint of 0 stays 0.
    Source:
        IEEE 754-2008, squareRoot.
    """,
)
_float_function(
    "fast.exp2",
    S.FastExp2,
    """The power 2**x, with a relative error of at most 2**-20; results below the smallest normal number may be 0.

    GPUs use the approximation of the hardware, so results differ between devices; results of tg.exp2 are the same on
    all devices.

    Parameters:
        x: a scalar, vector, matrix or tile of float32 or narrower floats.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is a float64.
    Gradient:
        adjoint * result * ln 2.
    Source:
        PTX ISA, ex2.approx.
    """,
)

ROUNDED = """{what}

    Returns:
        a value of the type of `x`, exact; infinities and NaNs are unchanged.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, {source}.
    """
for _name, _op, _what, _source in (
    ("floor", S.Floor, "The largest integral number not above x.", "roundToIntegralTowardNegative"),
    ("ceil", S.Ceil, "The smallest integral number not below x.", "roundToIntegralTowardPositive"),
    ("trunc", S.Trunc, "The number x without its fraction.", "roundToIntegralTowardZero"),
    ("rint", S.Rint, "The integral number nearest to x, halves to even.", "roundToIntegralTiesToEven"),
):
    _float_function(_name, _op, ROUNDED.format(what=_what, source=_source))


@public("bit_count")
def bit_count(b: OpBuilder, x: Integer) -> Operand:
    """The number of bits of x that are set, in two's complement.

    Returns:
        an int32; a vector, matrix or tile of int32 of one.
    Gradient:
        none: integers have no gradient.
    """
    return b.cast(b.elementwise(S.BitCount, [b.value(x)]), int32)


def _bit_function(name: str, op: type[Any], function: str) -> None:
    def build(b: OpBuilder, x: Integer) -> Operand:
        return b.elementwise(op, [b.value(x)])

    build.__doc__ = function
    public(name, INTEGER_RESULT)(build)


_bit_function(
    "clz",
    S.LeadingZeros,
    "The number of zero bits above the highest set bit of x; the number of all bits if x is 0.",
)
_bit_function("brev", S.ReversedBits, "The integer with the bits of x in the opposite order.")


@public("ctz", INTEGER_RESULT)
def ctz(b: OpBuilder, x: Integer) -> Operand:
    """The number of zero bits below the lowest set bit of x; the number of all bits if x is 0."""
    return b.elementwise(S.LeadingZeros, [b.elementwise(S.ReversedBits, [b.value(x)])])


CLASSIFIED = """Whether a is {what}.

    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, {source}.
    """


def _classifier(name: str, function: str, source: str) -> None:
    def build(b: OpBuilder, a: Float) -> Operand:
        return b.elementwise(S.Classify, [b.value(a)], {"test": name})

    build.__doc__ = CLASSIFIED.format(what=function, source=source)
    public(name)(build)


_classifier("isnan", "a NaN", "isNaN")
_classifier("isinf", "an infinity of either sign", "isInfinite")
_classifier("isfinite", "a number: neither an infinity nor a NaN", "isFinite")


@public("_never_above")
def never_above(b: OpBuilder, x: Operand, limit: Operand) -> Operand:
    """Whether the compiler can prove that x is at most `limit`, or NaN. An internal function of the standard
    library."""
    return b.elementwise(S.NeverAbove, [x, limit])


@public("_reciprocal")
def reciprocal(b: OpBuilder, x: Operand) -> Operand:
    """1 / x, correctly rounded, of a float32 x whose magnitude is within 2**-100 .. 2**100. An internal function of the
    standard library."""
    return b.elementwise(S.Reciprocal, [x])


@public("fma")
def fma(b: OpBuilder, x: Floats, y: Floats, z: Floats) -> Operand:
    """The sum x * y + z, rounded once.

    Returns:
        a value of the type of the operands; float16 and bfloat16 are the float32 result, rounded once more.
    Gradient:
        adjoint * y for `x`, adjoint * x for `y`, the adjoint for `z`.
    Source:
        IEEE 754-2008, fusedMultiplyAdd.
    """
    return b.elementwise(S.Fma, [x, y, z])


@public("diff_of_products")
def diff_of_products(build: OpBuilder, a: Floats, b: Floats, c: Floats, d: Floats) -> Operand:
    """The difference a * b - c * d of two products that are each rounded before they are subtracted.

    No product is fused with the difference, on any target. The result is therefore exactly 0 where the products are
    equal, and exactly negated where the products are exchanged; a * b - c * d has neither property if a product is
    fused. Two triangles that compute the determinant of their common edge get the same sign.

    Returns:
        a value of the type of the operands.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`, -adjoint * d for `c`, -adjoint * c for `d`.
    """
    if any(build.is_tile(x) for x in (a, b, c, d)):
        operands, rebuild = build.split_literals([a, b, c, d])
        return build.map(lambda args: diff_of_products(build, *rebuild(args)), operands)
    a, b, c, d = build.unified("diff_of_products", [a, b, c, d])
    first_product, second_product = (
        build.one(S.Mul, factors, {"rounded": True}) for factors in ([a, b], [c, d])
    )
    return build.one(S.Sub, [first_product, second_product])


@public("copysign", ELEMENTWISE)
def copysign(b: OpBuilder, x: Floats, y: Floats) -> Operand:
    """The magnitude of x with the sign of y, also of a 0 or a NaN.

    Gradient:
        the adjoint for `x`, negated where the signs differ, 0 at 0; 0 for `y`.
    Source:
        IEEE 754-2008, copySign.
    """
    return b.elementwise(S.CopySign, [x, y])


@public("where", fields=moved("value_if_true", "value_if_false"))
def where(
    b: OpBuilder, cond: Condition, value_if_true: SelectOperand, value_if_false: SelectOperand
) -> Operand:
    """value_if_true where a condition is true, else value_if_false; both are computed.

    Returns:
        a value of the operands' type; a tile of the broadcast shape if an operand is a tile. With a constant condition,
        `value_if_true` or `value_if_false` unchanged.
    Gradient:
        goes to the operand that was selected; the other operand gets 0, even if it is a NaN.
    """
    if cond is None or isinstance(getattr(cond, "type", None), ArrayType):
        return value_if_false if cond is None else value_if_true
    if isinstance(cond, bool):
        return value_if_true if cond else value_if_false
    if any(b.is_tile(v) for v in (cond, value_if_true, value_if_false)):
        operands, rebuild = b.split_literals([cond, value_if_true, value_if_false])
        return b.map(lambda args: where(b, *rebuild(args)), operands)
    left, right = b.unified("where", [value_if_true, value_if_false])
    test = b.value(cond)
    if isinstance(test.type, DType) and test.type.is_float:
        raise TypeRule(
            f"the condition of where must be bool, got {test.type}",
            "compare the operand with a number, as in mask > 0.0",
            culprit=cond,
        )
    return b.one(S.Select, [b.truth(test), left, right])


@public("select", fields=moved("value_if_false", "value_if_true"))
def select(
    b: OpBuilder, cond: Condition, value_if_false: SelectOperand, value_if_true: SelectOperand
) -> Operand:
    """value_if_true where a condition is true, else value_if_false: tg.where with another order of parameters.

    Returns:
        a value of that type; a tile of the broadcast shape where one operand is a tile.
    Gradient:
        goes to the operand that was chosen.
    """
    return where(b, cond, value_if_true, value_if_false)


@public("bitcast")
def bitcast(b: OpBuilder, x: Operand, dtype: Operand) -> Operand:
    """The bits of x read as another type of the same width.

    Parameters:
        x: a scalar, vector, matrix or tile.
        dtype: a scalar type with the width of the components of `x`, or a scalar or vector type of the size of `x`, as
            in `tg.bitcast(word, tg.vec2h)`: component 0 has the lowest bits.
    Returns:
        a value of the shape of `x` with components of `dtype`, or a value of the type `dtype`.
    Raises:
        type-mismatch: the widths differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        refused (no-gradient): bits have no derivative.
    """
    to = element_type(dtype)
    if b.is_tile(x):
        return b.map(lambda args: bitcast(b, args[0], to), [x])
    return b.one(Bitcast, [b.value(x)], {"to": to})


@public("cast")
def cast(b: OpBuilder, a: Operand, dtype: ComponentType) -> Operand:
    """The value a converted to another scalar type, component by component.

    Floats are rounded to nearest, halves to even. Floats to integers truncate, saturate at the ends of the type
    and give 0 for NaN; integers to narrower integers wrap.

    Parameters:
        a: a scalar, vector, matrix, tile or literal.
    Returns:
        a value of the shape of `a` with components of `dtype`.
    Raises:
        type-mismatch: `a` is not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit an integer type.
    Gradient:
        the adjoint, converted; refused (no-gradient) if floats were converted to integers.
    """
    return b.cast(a, scalar_of(element_type(dtype)))
