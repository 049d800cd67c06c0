"""Arithmetic, comparison and bit ops on scalars, and component by component on vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import AdditionLike, ComparisonLike, ConstantLike, Op, TypeRule, Value
from tegula.ir.fields import attr, operand
from tegula.ops.base import Binary, Elementwise, Unary, element, require
from tegula.types import (
    ElementType,
    Type,
    bool_,
    float32,
    is_narrow_float,
    scalar_of,
    to_numpy,
    uint32,
    with_scalar,
)

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


def rounded(f: Callable[..., np.ndarray], *operands: np.ndarray) -> np.ndarray:
    """Apply f; 8- and 16-bit floats are computed in float32 and rounded once. Integers wrap without warnings."""
    dtype = operands[0].dtype
    with np.errstate(all="ignore"):
        if is_narrow_float(dtype):
            return f(*(x.astype(np.float32) for x in operands)).astype(dtype)
        return np.asarray(f(*operands)).astype(dtype, copy=False)


class Const(ConstantLike):
    """A constant. Attributes: `value`: an int, float or bool, nested tuples for vectors and matrices; `type`."""

    __slots__ = ()
    NAME = "const"
    value = attr()
    type = attr()

    def infer(self) -> Sequence[Type]:
        return [element(self.type)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return ()


def _integer(value: Value) -> int | None:
    """The value of an integer constant."""
    known = value.owner.value if isinstance(value.owner, ConstantLike) else None
    return known if isinstance(known, int) else None


class Add(Binary, AdditionLike):
    """The sum a + b; integers wrap."""

    __slots__ = ()
    NAME = "add"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.add, *operands)

    def added_to(self, value: Value) -> int | None:
        other = self.b if self.a is value else self.a
        return _integer(other) if value in self.operands and other is not value else None

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return g, g


class Sub(Binary, AdditionLike):
    """The difference a - b; integers wrap."""

    __slots__ = ()
    NAME = "sub"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.subtract, *operands)

    def added_to(self, value: Value) -> int | None:
        subtrahend = _integer(self.b) if self.a is value else None
        return None if subtrahend is None else -subtrahend

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return g, b.one(Neg, [g])


class Mul(Binary):
    """The product a * b, component by component; integers wrap."""

    __slots__ = ()
    NAME = "mul"
    rounded = attr(False)

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.multiply, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return b.times(g, self.b, self), b.times(g, self.a, self)


def _int_divide(a: np.ndarray, b: np.ndarray, floor: bool) -> tuple[np.ndarray, np.ndarray]:
    """The quotient, rounded down if `floor`, else truncated, and the remainder; both 0 where b is 0. The most negative
    number over -1 wraps."""
    zero = b == 0
    is_negation = (b == -1) if a.dtype.kind == "i" else np.zeros_like(zero)
    safe_divisor = np.where(zero | is_negation, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe_divisor)
    remainder = (a - quotient * safe_divisor).astype(a.dtype)
    if not floor:
        needs_correction = (remainder != 0) & ((a < 0) != (safe_divisor < 0))
        quotient = quotient + needs_correction.astype(a.dtype)
        remainder = np.where(needs_correction, remainder - safe_divisor, remainder)
    quotient = np.where(is_negation, np.negative(a), quotient)
    return np.where(zero, 0, quotient).astype(a.dtype), np.where(zero | is_negation, 0, remainder).astype(
        a.dtype
    )


class Div(Binary):
    """The quotient a / b; integers truncate toward zero, and division by zero gives 0."""

    __slots__ = ()
    NAME = "div"
    TAKES_PART = KEEPS_ORDER = True

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        if a.dtype.kind in "iu":
            with np.errstate(all="ignore"):
                return _int_divide(a, b, floor=False)[0]
        return rounded(np.divide, a, b)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        x, z = self.a, self.b
        dividend_adjoint = b.one(Div, [g, b.primal(z)])
        if b.may_be_zero(z):
            dividend_adjoint = b.zero_where_zero(g, dividend_adjoint)
        divisor_adjoint = (
            b.one(Neg, [_times_quotient_over_divisor(b, self, g)]) if b.needs_adjoint(z) else None
        )
        if divisor_adjoint is not None and (b.may_be_zero(z) or b.may_give_nan(x, self)):
            divisor_adjoint = b.zero_where_zero(g, divisor_adjoint)
        return dividend_adjoint, divisor_adjoint


def _times_quotient_over_divisor(b: GradientBuilder, op: Div, g: Value) -> Value:
    """g / z times the quotient, before the quotient is rounded to a 16-bit float. If g / z might overflow or be
    subnormal, g is first scaled by a power of 2, and the result is scaled back."""
    z, t = b.primal(op.b), element(g.type)
    quotient = b.primal(op.result) if element(op.result.type) == t else b.one(Div, [b.primal(op.a), z])
    limits = np.finfo(to_numpy(scalar_of(t)))
    power = 2.0 ** (limits.nmant + 1 + 3 * limits.maxexp // 5)
    divisor_magnitude, adjoint_magnitude = b.one(Abs, [z]), b.one(Abs, [g])
    low = b.one(Min, [b.one(Mul, [divisor_magnitude, b.const(float(limits.tiny), t)]), b.const(4.0, t)])
    high = b.one(
        Max,
        [b.one(Mul, [divisor_magnitude, b.const(float(limits.max), t)]), b.const(float(limits.eps) / 2, t)],
    )
    small, large = (
        b.one(Cmp, [adjoint_magnitude, low], {"pred": "lt"}),
        b.one(Cmp, [adjoint_magnitude, high], {"pred": "gt"}),
    )

    def select_by_size(if_small: float, if_large: float) -> Value:
        if_not_small = b.one(Select, [large, b.const(if_large, t), b.const(1.0, t)])
        return b.one(Select, [small, b.const(if_small, t), if_not_small])

    scaled = b.one(Div, [b.one(Mul, [g, select_by_size(power, 1.0 / power)]), z])
    return b.one(Mul, [b.one(Mul, [scaled, quotient]), select_by_size(1.0 / power, power)])


def _floor_of_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.floor(np.divide(a, b))


class FloorDiv(Binary):
    """The quotient of integers rounded down, 0 where b is 0; floor(a / b) for floats."""

    __slots__ = ()
    NAME = "floordiv"
    TAKES_PART = KEEPS_ORDER = True

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        if a.dtype.kind in "iu":
            with np.errstate(all="ignore"):
                return _int_divide(a, b, floor=True)[0]
        return rounded(_floor_of_quotient, a, b)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return None, None


class Mod(Binary):
    """The remainder of the truncated quotient of integers, 0 where b is 0. Floats use the library function `mod`."""

    __slots__ = ()
    NAME = "mod"
    TAKES_PART = True
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        with np.errstate(all="ignore"):
            return _int_divide(a, b, floor=False)[1]


def _min_or_max(a: np.ndarray, b: np.ndarray, smaller: bool) -> np.ndarray:
    """The minimum or maximum; numbers are preferred to NaN, and -0 is below +0."""
    if a.dtype.kind in "iub":
        return np.minimum(a, b) if smaller else np.maximum(a, b)
    first = np.where(a == b, np.signbit(a) if smaller else ~np.signbit(a), a < b if smaller else a > b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b) | first, a, b))


def _split_adjoint(b: GradientBuilder, operands: Sequence[Value], pred: str, g: Value) -> list[Value | None]:
    """The adjoints of the operands of min or max: the result's adjoint for the selected operand, half of the adjoint
    for each of two equal operands."""
    x, y = (b.primal(v) for v in operands)
    zero = b.zero(g.type)
    half = b.one(Select, [b.one(Cmp, [x, y], {"pred": "eq"}), b.scaled(g, 0.5), zero])
    other_is_nan = [b.one(Classify, [v], {"test": "isnan"}) for v in (y, x)]
    adjoints: list[Value | None] = []
    for (first, second), other in zip(((x, y), (y, x)), other_is_nan, strict=True):
        wins = b.one(Or, [b.one(Cmp, [first, second], {"pred": pred}), other])
        adjoints.append(b.one(Select, [wins, g, half]))
    return adjoints


class Min(Binary):
    """The smaller of a and b; a number is preferred to NaN, and -0 is below +0."""

    __slots__ = ()
    NAME = "min"
    KINDS = "biuf"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(partial(_min_or_max, smaller=True), *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return _split_adjoint(b, (self.a, self.b), "lt", g)


class Max(Binary):
    """The larger of a and b; a number is preferred to NaN, and -0 is below +0."""

    __slots__ = ()
    NAME = "max"
    KINDS = "biuf"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(partial(_min_or_max, smaller=False), *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return _split_adjoint(b, (self.a, self.b), "gt", g)


class And(Binary):
    """The bitwise and a & b; logical for bools."""

    __slots__ = ()
    NAME = "and"
    TAKES_PART = True
    KINDS = "biu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return np.bitwise_and(*operands)


class Or(Binary):
    """The bitwise or a | b; logical for bools."""

    __slots__ = ()
    NAME = "or"
    KINDS = "biu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return np.bitwise_or(*operands)


class Xor(Binary):
    """The bitwise exclusive or a ^ b; logical for bools."""

    __slots__ = ()
    NAME = "xor"
    FLIPS_BITS = True
    KINDS = "biu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return np.bitwise_xor(*operands)


class Shl(Binary):
    """The left shift a << b; 0 where b is negative or at least the width."""

    __slots__ = ()
    NAME = "shl"
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        in_range = (b >= 0) & (b < a.dtype.itemsize * 8)
        return np.where(in_range, np.left_shift(a, np.where(in_range, b, 0)), 0).astype(a.dtype)


class Shr(Binary):
    """The right shift a >> b, arithmetic for signed types; 0, or -1 for negative a, where b is negative or at least the
    width."""

    __slots__ = ()
    NAME = "shr"
    TAKES_PART = KEEPS_ORDER = True
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        width = a.dtype.itemsize * 8
        in_range = (b >= 0) & (b < width)
        if a.dtype.kind == "i":
            return np.right_shift(a, np.where(in_range, b, width - 1)).astype(a.dtype)
        return np.where(in_range, np.right_shift(a, np.where(in_range, b, 0)), 0).astype(a.dtype)


class CopySign(Binary):
    """The magnitude of a with the sign of b."""

    __slots__ = ()
    NAME = "copysign"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.copysign, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        x, y = b.primal(self.a), b.primal(self.b)
        one = b.const(1.0, element(g.type))
        signs = [b.one(CopySign, [one, v]) for v in (x, y)]
        zero = b.zero(g.type)
        is_zero = b.one(Cmp, [x, zero], {"pred": "eq"})
        return b.one(Select, [is_zero, zero, b.one(Mul, [g, b.one(Mul, signs)])]), None


class Neg(Unary):
    """-a; integers wrap."""

    __slots__ = ()
    NAME = "neg"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.negative, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.one(Neg, [g]),)


class Not(Unary):
    """~a, bit by bit; logical for bools."""

    __slots__ = ()
    NAME = "not"
    KINDS = "biu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return np.logical_not(operands[0]) if operands[0].dtype == np.bool_ else np.invert(operands[0])


class BitCount(Unary):
    """The number of set bits of an integer in two's complement, in the type of the integer."""

    __slots__ = ()
    NAME = "bit_count"
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return _bits_of(operands[0]).sum(-1).astype(operands[0].dtype)


class LeadingZeros(Unary):
    """The number of leading zero bits of an integer, in the type of the integer; for 0 the width."""

    __slots__ = ()
    NAME = "clz"
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        highest_first = np.flip(_bits_of(operands[0]), -1)
        return (np.maximum.accumulate(highest_first, -1) == 0).sum(-1).astype(operands[0].dtype)


class ReversedBits(Unary):
    """An integer with its bits in the opposite order."""

    __slots__ = ()
    NAME = "brev"
    KINDS = "iu"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        packed = np.packbits(np.flip(_bits_of(x), -1), -1, bitorder="little")
        return packed.view(f"<u{x.dtype.itemsize}")[..., 0].astype(f"u{x.dtype.itemsize}").view(x.dtype)


class PermuteBytes(Elementwise):
    """Four of the eight bytes of two uint32. Digit k of the selector in hexadecimal, from the lowest, is the index of
    byte k of the result: 0 to 3 for the bytes of a, 4 to 7 for the bytes of b. An index plus 8 stands for the sign bit
    of the byte, in all eight bits."""

    __slots__ = ()
    NAME = "permute_bytes"
    KINDS = "u"
    ONLY = uint32
    a = operand()
    b = operand()
    selector = operand()

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b, selector = (x.astype(np.uint64) for x in operands)
        both, result = a | (b << np.uint64(32)), np.zeros_like(a)
        for k in range(4):
            index = (selector >> np.uint64(4 * k)) & np.uint64(7)
            byte = (both >> (index * np.uint64(8))) & np.uint64(255)
            is_sign = (selector >> np.uint64(4 * k + 3)) & np.uint64(1) != 0
            byte = np.where(is_sign, (byte >> np.uint64(7)) * np.uint64(255), byte)
            result |= byte << np.uint64(8 * k)
        return result.astype(np.uint32)


class DotBytes(Elementwise):
    """The sum of c and of each byte of a, which is signed, times the byte of b, which is unsigned; sums wrap."""

    __slots__ = ()
    NAME = "dot_bytes"
    KINDS = "u"
    ONLY = uint32
    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b, total = (x.astype(np.int64) for x in operands)
        for k in range(4):
            total = total + ((a >> 8 * k) & 255).astype(np.int8) * ((b >> 8 * k) & 255)
        return total.astype(np.uint32)


def _bits_of(x: np.ndarray) -> np.ndarray:
    """The bits of integers along a new last dimension, the lowest bit first."""
    size = x.dtype.itemsize
    raw = np.ascontiguousarray(x).view(f"u{size}").astype(f"<u{size}")
    return np.unpackbits(raw[..., None].view(np.uint8), axis=-1, bitorder="little")


class Abs(Unary):
    """The magnitude of a; the most negative integer wraps to itself."""

    __slots__ = ()
    NAME = "abs"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.abs, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        x, zero = b.primal(self.x), b.zero(g.type)
        positive, negative = (b.one(Cmp, [x, zero], {"pred": p}) for p in ("gt", "lt"))
        return (b.one(Select, [positive, g, b.one(Select, [negative, b.one(Neg, [g]), zero])]),)


class Sqrt(Unary):
    """The square root, correctly rounded; NaN for negative numbers."""

    __slots__ = ()
    NAME = "sqrt"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.sqrt, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        half = b.one(Div, [b.scaled(g, 0.5), b.primal(self.result)])
        return (b.zero_where_zero(g, half) if b.may_be_zero(self.x) else half,)


class FastExp2(Unary):
    """The power 2 ** a for float32 and narrower floats, with a relative error of at most 2 ** -20; subnormal results
    may be 0."""

    __slots__ = ()
    NAME = "fast.exp2"
    KINDS = "f"

    @classmethod
    def result_type(cls, operand: ElementType) -> ElementType:
        """The type of the operand, which has at most 32 bits."""
        require(
            scalar_of(operand).bits <= 32,
            f"functions of tg.fast take float32 or narrower floats, got {operand}",
        )
        return operand

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.exp2, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.scaled(b.times(g, self.result, self), math.log(2)),)


class Reciprocal(Unary):
    """1 / a, correctly rounded, for float32 numbers whose magnitude is known to be within 2 ** -100 .. 2 ** 100.
    Functions of the standard library that use the op declare their derivatives."""

    __slots__ = ()
    NAME = "reciprocal"
    KINDS = "f"
    ONLY = float32

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (a,) = operands
        return rounded(np.divide, np.ones_like(a), a)


class Floor(Unary):
    """The largest integral number that is at most a."""

    __slots__ = ()
    NAME = "floor"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.floor, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return (None,)


class Ceil(Unary):
    """The smallest integral number that is at least a."""

    __slots__ = ()
    NAME = "ceil"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.ceil, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return (None,)


class Trunc(Unary):
    """The number a without its fraction."""

    __slots__ = ()
    NAME = "trunc"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.trunc, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return (None,)


class Rint(Unary):
    """The integral number nearest to a, halves to even."""

    __slots__ = ()
    NAME = "rint"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return rounded(np.rint, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return (None,)


def fused_multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The fused multiply-add a * b + c, rounded once, for float16, float32 and float64 arrays."""
    if a.dtype == np.float16:
        # Only sums that are far from a tie, or infinite as float16, are not exact in float64.
        product = a.astype(np.float64) * b.astype(np.float64)
        return (product + c.astype(np.float64)).astype(np.float16)
    if a.dtype == np.float32:
        return _fma_in_double(a, b, c)
    return _fma_double(a, b, c)


def _fma_in_double(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The float32 result of a fused multiply-add. The product is exact in float64, and the sum is rounded to odd in
    float64, so that the second rounding gives the result of a single rounding."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    rounding_error = (product - (total - (total - product))) + (addend - (total - product))
    bits = np.atleast_1d(total).view(np.int64)
    error = np.atleast_1d(rounding_error)
    must_adjust = (bits & 1 == 0) & (error != 0) & np.isfinite(np.atleast_1d(total))
    away_from_zero = (error > 0) == (np.atleast_1d(total) >= 0)
    rounded_to_odd = np.where(must_adjust, bits + np.where(away_from_zero, 1, -1), bits).view(np.float64)
    return rounded_to_odd.reshape(total.shape).astype(np.float32)


def _fma_double(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    arrays = np.broadcast_arrays(a, b, c)
    numbers = [_fma_of_doubles(*triple) for triple in zip(*(x.ravel().tolist() for x in arrays), strict=True)]
    return np.array(numbers, np.float64).reshape(arrays[0].shape)


def _fma_of_doubles(x: float, y: float, z: float) -> float:
    """The fused multiply-add of Python floats, as the quotient of two integers, which Python rounds once."""
    unfused = x * y + z
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return unfused
    (m, p), (n, q), (k, r) = x.as_integer_ratio(), y.as_integer_ratio(), z.as_integer_ratio()
    exact = m * n * r + k * p * q
    if not exact:
        return unfused
    try:
        return exact / (p * q * r)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


class Fma(Binary):
    """The fused multiply-add a * b + c, rounded once; for bfloat16 and 8-bit floats the float32 result, rounded
    again."""

    __slots__ = ()
    NAME = "fma"
    KINDS = "f"
    c = operand()

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        if operands[0].dtype == np.float16:
            with np.errstate(all="ignore"):
                return fused_multiply_add(*operands)
        return rounded(fused_multiply_add, *operands)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return b.times(g, self.b, self), b.times(g, self.a, self), g


class Predicate(Elementwise):
    """An elementwise op with bool results, component by component."""

    __slots__ = ()

    @classmethod
    def result_type(cls, operand: ElementType) -> ElementType:
        """The type of bools in the shape of the operand."""
        return with_scalar(operand, bool_)


COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


class Cmp(Predicate, Binary, ComparisonLike):
    """A comparison; attribute `pred`: eq, ne, lt, le, gt or ge. If an operand is NaN, ne is true, the others false."""

    __slots__ = ()
    NAME = "cmp"
    KINDS = "biuf"
    pred = attr()

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        a, b = operands
        if is_narrow_float(a.dtype):
            a, b = a.astype(np.float32), b.astype(np.float32)
        with np.errstate(all="ignore"):
            return COMPARISONS[attrs["pred"]](a, b)


class NeverAbove(Predicate, Binary):
    """Whether the compiler can prove that a is never above b; a NaN is not above any number. The result is false if
    there is no proof, so both branches of code that depends on the op must compute the same bits."""

    __slots__ = ()
    NAME = "never_above"
    KINDS = "f"

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        """Whether the value of a is not above b, so that the interpreter takes both branches."""
        return ~Cmp.ref({"pred": "gt"}, *operands)


class Select(Op):
    """`a` where the condition holds, else `b`; both are evaluated."""

    __slots__ = ()
    NAME = "select"
    condition = operand()
    a = operand()
    b = operand()

    def infer(self) -> Sequence[Type]:
        condition, a, b = (element(v.type) for v in (self.condition, self.a, self.b))
        if scalar_of(condition) != bool_:
            raise TypeRule(f"the condition must be bool, got {condition}")
        if a != b:
            raise TypeRule(f"'where' mixes {a} and {b}")
        if condition not in (bool_, with_scalar(a, bool_)):
            raise TypeRule(f"a condition of type {condition} cannot select between values of type {a}")
        return [a]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        condition, a, b = operands
        condition = condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim))
        return np.where(condition, a, b)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        condition, zero = b.primal(self.condition), b.zero(g.type)
        return None, b.one(Select, [condition, g, zero]), b.one(Select, [condition, zero, g])


class Classify(Predicate, Unary):
    """A test of floats; attribute `test`: isnan, isinf or isfinite."""

    __slots__ = ()
    NAME = "classify"
    KINDS = "f"
    test = attr()

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        return {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[attrs["test"]](
            operands[0].astype(np.float64)
        )
