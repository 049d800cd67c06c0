"""Lowering of lane ops on scalars, vectors and matrices, at any SIMD width.

A value of element type is `Components`: one register per scalar component, each holding `width` of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tegula.codegen.bits import Components, bitcast, bitcasts, packed
from tegula.codegen.convert import constant_true, convert, narrow_exact, truncated
from tegula.codegen.tables import table_elements
from tegula.codegen.text import Code, constant, register_type, scalar_type, vector_of, wrapped
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import ComparisonLike, Op, Value
from tegula.ops import scalar as S
from tegula.ops.base import Elementwise, element
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.integer_ranges import Range, range_of_type
from tegula.ops.scalar import Classify, Cmp, Select
from tegula.ops.spill import Reload, Spill
from tegula.ops.table import TableGet
from tegula.ops.vector import VecBits, VecExtract, VecInsert, VecMake, VecPart, VecSplat, VecUnset
from tegula.types import (
    DTYPES,
    DType,
    ElementType,
    VecType,
    components,
    element_shape,
    float16,
    float32,
    float64,
    is_element,
    scalar_of,
    uint32,
)

with deferred_imports():
    from tegula.codegen.bytes_of_words import dot_bytes, permute_bytes


def mangled(dtype: DType, width: int) -> str:
    """The spelling of a type in an intrinsic's name."""
    base = f"f{dtype.bits}" if dtype.is_float else f"i{dtype.bits}"
    return base if width == 1 else f"v{width}{base}"


def lower(code: Code, op: Op, operands: Sequence[Components], width: int) -> Components:
    """The components of the op's result."""
    if width == 1 and code.packs:
        packed_result = _in_one_register(code, op, operands)
        if packed_result:
            return packed_result
    return _LOWERINGS.get(type(op), _componentwise)(code, op, operands, width)


def _componentwise(code: Code, op: Op, operands: Sequence[Components], width: int) -> Components:
    """Lower an elementwise op, one component at a time."""
    first, *_ = op.operands
    source = scalar_of(first.type)  # type: ignore[arg-type]
    if code.pairs_halves and width == 1 and source is float16 and type(op) in _IN_PAIRS:
        return _in_pairs(code, op, operands)
    results = tuple(elementwise(code, op, source, list(xs), width) for xs in zip(*operands, strict=True))
    if len(results) > 1 and source.is_int and type(op) in _EXTREMES:
        return tuple(_opaque(code, x, source, width) for x in results)
    return results


def _opaque(code: Code, x: str, dtype: DType, width: int) -> str:
    """An integer whose derivation LLVM does not follow. Its analysis of scalar evolution expands minima and maxima, of
    which sorting networks are long chains, in a time that grows exponentially with the length of the chain."""
    return code.emit(f"freeze {register_type(dtype, width)} {x}")


def lower_all(code: Code, op: Op, elements: Sequence[Sequence[Components]], width: int) -> list[Components]:
    """The op's result for each element, in batches if the target computes several results at a time."""
    if isinstance(op, S.Const):
        return [lower(code, op, (), width)] * len(elements)
    if len(elements) == 1 or not is_batched(code, op):
        return [lower(code, op, operands, width) for operands in elements]
    dtype, component_count = scalar_of(op.result.type), components(op.result.type)  # type: ignore[arg-type]
    wide = [
        [convert(code, x, dtype, float32, 1) for x in xs]
        for operands in elements
        for xs in zip(*operands, strict=True)
    ]
    results = [convert(code, x, float32, dtype, 1) for x in code.batched_functions[type(op)](code, wide)]
    return [tuple(results[k : k + component_count]) for k in range(0, len(results), component_count)]


def is_batched(code: Code, op: Op) -> bool:
    """Whether the target computes several float32 results of an op at a time; narrower floats are converted to
    float32."""
    if type(op) not in code.batched_functions:
        return False
    dtype = scalar_of(op.result.type)  # type: ignore[arg-type]
    return dtype.is_float and dtype.bits <= 32


def _constants(t: ElementType, value: Any, width: int) -> Components:
    """The components of a constant: one number for all of them, or nested sequences with a number for each."""
    if isinstance(t, DType) and isinstance(value, (int, float)):
        return (constant(t, value, width),)
    numbers = np.array(value, object).reshape(-1).tolist()
    parts = tuple(constant(scalar_of(t), x, width) for x in numbers)
    return parts * components(t) if len(parts) == 1 else parts


def elementwise(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """One component of the result of an elementwise op on operands of scalar type `dtype`."""
    kind = type(op)
    if dtype.bits < 32 and dtype.is_float and kind not in _SIGN_BIT:
        if kind is S.Fma and dtype is float16 and code.pairs_halves:
            return _FLOAT[kind](code, op, dtype, xs, width)
        # The float32 result of a fused multiply-add of float16 would be rounded twice.
        intermediate = float64 if kind is S.Fma and dtype is float16 else float32
        wide = [convert(code, x, dtype, intermediate, width) for x in xs]
        result = elementwise(code, op, intermediate, wide, width)
        if kind in _TO_BOOL:
            return result
        if kind in _EXACT:
            return narrow_exact(code, result, dtype, width)
        return convert(code, result, intermediate, dtype, width)
    rule = _RULES_OF_KIND[dtype.kind].get(kind)
    if rule is None:
        raise InternalError(f"no lowering of {op.NAME} for {dtype}")
    if width == 1 and kind in _FOLDED and dtype.is_int and all(x.lstrip("-").isdecimal() for x in xs):
        return _folded(op, dtype, *(int(x) for x in xs))
    return rule(code, op, dtype, xs, width)


def _folded(op: Op, dtype: DType, a: int, b: int) -> str:
    """The result of an op on known integers, which are frequent in unrolled loops: folding here is faster than in
    LLVM."""
    if isinstance(op, ComparisonLike):
        return "true" if _COMPARISONS[op.pred](wrapped(a, dtype), wrapped(b, dtype)) else "false"
    return str(wrapped(_ARITHMETIC[type(op)](a, b), dtype))


Rule: TypeAlias = Callable[[Code, Any, DType, list[str], int], str]


def _simple(name: str) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        return code.emit(f"{name} {register_type(dtype, width)} {', '.join(xs)}")

    return rule


def _flag_rule(name: str) -> Rule:
    """The rule of a conjunction or disjunction of flags, some of which may be literals."""
    neutral, deciding = ("true", "false") if name == "and" else ("false", "true")
    emit = _simple(name)

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        if deciding in xs:
            return deciding
        unknown = [x for x in xs if x != neutral]
        return emit(code, op, dtype, xs, width) if len(unknown) == len(xs) else (unknown or [neutral])[0]

    return rule


def _intrinsic(name: str) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        t = register_type(dtype, width)
        return code.call(name, mangled(dtype, width), t, ", ".join(f"{t} {x}" for x in xs))

    return rule


def _float_extreme(name: str) -> Rule:
    """The rule of a minimum or maximum that prefers numbers to NaNs. LLVM 22 miscompiles it on x86 by known facts about
    the operands: with AVX-512 a NaN wins over a non-literal scalar that is known not to be NaN, and LLVM crashes on
    widened 16-bit operands. Fences without instructions hide the operands from these analyses."""
    emit = _intrinsic(name)

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        if code.fences_extremes:
            xs = [_fenced(code, dtype, x, width) for x in xs]
        return emit(code, op, dtype, xs, width)

    return rule


def _fenced(code: Code, dtype: DType, x: str, width: int) -> str:
    if not x.startswith("%"):
        return x
    t = register_type(dtype, width)
    return code.call("arithmetic.fence", mangled(dtype, width), t, f"{t} {x}")


def _emit_select(code: Code, condition: str, dtype: DType, a: str, b: str, width: int) -> str:
    if condition in ("true", "false"):
        return a if condition == "true" else b
    if a == b:
        return a
    t = register_type(dtype, width)
    return code.emit(f"select {vector_of('i1', width)} {condition}, {t} {a}, {t} {b}")


def _flags(code: Code, op: str, a: str, b: str, width: int) -> str:
    return code.emit(f"{op} {vector_of('i1', width)} {a}, {b}")


def _compare(code: Code, op: Cmp, dtype: DType, xs: list[str], width: int) -> str:
    pred = op.pred
    t = register_type(dtype, width)
    if dtype.is_float:
        return code.emit(f"fcmp {'une' if pred == 'ne' else 'o' + pred} {t} {xs[0]}, {xs[1]}")
    if pred not in ("eq", "ne"):
        pred = ("s" if dtype.kind == "i" else "u") + pred
    return code.emit(f"icmp {pred} {t} {xs[0]}, {xs[1]}")


# Integers ---------------------------------------------------------------------------------------------------


Bounds: TypeAlias = tuple[Range, Range]
"""The bounds of a dividend and of a divisor."""


def _quotient(code: Code, bounds: Bounds, dtype: DType, a: str, b: str, width: int) -> tuple[str, str, str]:
    """The truncated quotient, 0 for a zero divisor; the substituted divisor; and whether the divisor was 0 or -1.
    Divisors that cannot be 0 or -1 are not compared with 0 or -1, and quotients of numbers that cannot be negative are
    unsigned."""
    t = register_type(dtype, width)
    # Lanes of a vector that are masked may have other numbers, for which instructions for 64 bits would trap.
    may_trap = width > 1 and dtype.bits == 64 and b.startswith("%")
    divisor = range_of(dtype) if may_trap else bounds[1]
    is_zero = is_minus_one = "false"
    if divisor[0] <= 0 <= divisor[1]:
        is_zero = code.emit(f"icmp eq {t} {b}, {constant(dtype, 0, width)}")
    if divisor[0] <= -1 <= divisor[1]:
        is_minus_one = code.emit(f"icmp eq {t} {b}, {constant(dtype, -1, width)}")
    special = is_zero if is_minus_one == "false" else is_minus_one
    if "false" not in (is_zero, is_minus_one):
        special = _flags(code, "or", is_zero, is_minus_one, width)
    nonzero_divisor = _emit_select(code, special, dtype, constant(dtype, 1, width), b, width)
    if width == 1 or dtype.bits == 64 or not b.startswith("%"):
        instruction = "udiv" if _are_nonnegative(bounds) else "sdiv"
        quotient = code.emit(f"{instruction} {t} {a}, {nonzero_divisor}")
    else:
        quotient = _float_quotient(code, dtype, a, nonzero_divisor, width)
    if is_minus_one != "false":
        negated = code.emit(f"sub {t} {constant(dtype, 0, width)}, {a}")
        quotient = _emit_select(code, is_minus_one, dtype, negated, quotient, width)
    return (
        _emit_select(code, is_zero, dtype, constant(dtype, 0, width), quotient, width),
        nonzero_divisor,
        special,
    )


def _bounds(code: Code, op: S.Div | S.FloorDiv | S.Mod, dtype: DType, a: str, b: str) -> Bounds:
    """The bounds of the operands of a division of integers of type `dtype`, whose registers or literals are a and b."""

    def bounds(value: Value, text: str) -> Range:
        if text.lstrip("-").isdecimal():
            return int(text), int(text)
        return code.ranges.of(value) if code.ranges is not None and value.type == dtype else range_of(dtype)

    return bounds(op.a, a), bounds(op.b, b)


def range_of(dtype: DType) -> Range:
    """The range of an integer type."""
    bounds = range_of_type(dtype)
    assert bounds is not None
    return bounds


def _are_nonnegative(bounds: Bounds) -> bool:
    return all(low >= 0 for low, _ in bounds)


def _float_quotient(code: Code, dtype: DType, a: str, b: str, width: int) -> str:
    """a / b of vectors, for which x86 has no integer instruction, for a divisor other than 0 and -1.

    A quotient that is not integral differs from the next integer by more than one part in 2**bits, which is more than
    the rounding error in a float type with more fraction bits."""
    wide = float64 if dtype.bits == 32 else float32
    numerator, denominator = (convert(code, x, dtype, wide, width) for x in (a, b))
    quotient = code.emit(f"fdiv {register_type(wide, width)} {numerator}, {denominator}")
    return truncated(code, quotient, wide, dtype, width)


def _divide(code: Code, op: S.Div, dtype: DType, xs: list[str], width: int) -> str:
    a, b = xs
    return quotient(code, _bounds(code, op, dtype, a, b), dtype, a, b, width)


def quotient(code: Code, bounds: Bounds, dtype: DType, a: str, b: str, width: int) -> str:
    """The truncated quotient, 0 for a zero divisor."""
    return _quotient(code, bounds, dtype, a, b, width)[0]


def _remainder(code: Code, op: S.Mod, dtype: DType, xs: list[str], width: int) -> str:
    a, b = xs
    return remainder(code, _bounds(code, op, dtype, a, b), dtype, a, b, width)


def remainder(code: Code, bounds: Bounds, dtype: DType, a: str, b: str, width: int) -> str:
    """The remainder of a truncated division, 0 for the divisors 0 and -1."""
    truncated_quotient, nonzero_divisor, special = _quotient(code, bounds, dtype, a, b, width)
    t = register_type(dtype, width)
    multiple = code.emit(f"mul {t} {truncated_quotient}, {nonzero_divisor}")
    rest = code.emit(f"sub {t} {a}, {multiple}")
    return _emit_select(code, special, dtype, constant(dtype, 0, width), rest, width)


def _floor_divide(code: Code, op: S.FloorDiv, dtype: DType, xs: list[str], width: int) -> str:
    a, b = xs
    bounds = _bounds(code, op, dtype, a, b)
    truncated_quotient, nonzero_divisor, special = _quotient(code, bounds, dtype, a, b, width)
    if _are_nonnegative(bounds):
        return truncated_quotient
    t = register_type(dtype, width)
    zero = constant(dtype, 0, width)
    rest = code.emit(f"sub {t} {a}, {code.emit(f'mul {t} {truncated_quotient}, {nonzero_divisor}')}")
    inexact = code.emit(f"icmp ne {t} {rest}, {zero}")
    signs_differ = code.emit(f"icmp slt {t} {code.emit(f'xor {t} {a}, {nonzero_divisor}')}, {zero}")
    floor_is_lower = _flags(code, "and", inexact, signs_differ, width)
    if special != "false":
        ordinary = code.emit(f"xor {vector_of('i1', width)} {special}, {constant_true(width)}")
        floor_is_lower = _flags(code, "and", floor_is_lower, ordinary, width)
    next_lower = code.emit(f"sub {t} {truncated_quotient}, {constant(dtype, 1, width)}")
    return _emit_select(code, floor_is_lower, dtype, next_lower, truncated_quotient, width)


def _shift(name: str) -> Rule:
    """The rule of a shift, whose result is 0 for too large amounts. The amount is masked, not selected: LLVM 22 would
    fold a select into a single NVPTX shift, which uses only the low half of a 64-bit amount (docs/design/003)."""

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        t = register_type(dtype, width)
        if xs[1].isdecimal() and int(xs[1]) < dtype.bits:
            shift = "ashr" if name == "lshr" and dtype.kind == "i" else name
            return code.emit(f"{shift} {t} {xs[0]}, {xs[1]}")
        in_range = code.emit(f"icmp ult {t} {xs[1]}, {constant(dtype, dtype.bits, width)}")
        if name == "lshr" and dtype.kind == "i":
            amount = _emit_select(code, in_range, dtype, xs[1], constant(dtype, dtype.bits - 1, width), width)
            return code.emit(f"ashr {t} {xs[0]}, {amount}")
        amount = code.emit(f"and {t} {xs[1]}, {constant(dtype, dtype.bits - 1, width)}")
        shifted = code.emit(f"{name} {t} {xs[0]}, {amount}")
        return _emit_select(code, in_range, dtype, shifted, constant(dtype, 0, width), width)

    return rule


def _int_extreme(smaller: bool) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        name = ("s" if dtype.kind == "i" else "u") + ("min" if smaller else "max")
        return _intrinsic(name)(code, op, dtype, xs, width)

    return rule


def _int_negate(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    return code.emit(f"sub {register_type(dtype, width)} {constant(dtype, 0, width)}, {xs[0]}")


def _int_abs(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    if dtype.kind == "u":
        return xs[0]
    t = register_type(dtype, width)
    negative = code.emit(f"icmp slt {t} {xs[0]}, {constant(dtype, 0, width)}")
    return _emit_select(code, negative, dtype, _int_negate(code, op, dtype, xs, width), xs[0], width)


def _bit_function(name: str, *flags: str) -> Rule:
    """An intrinsic on the bits of one integer. `flags`: its other operands, with their types."""

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        t = register_type(dtype, width)
        return code.call(name, mangled(dtype, width), t, ", ".join((f"{t} {xs[0]}", *flags)))

    return rule


def _invert(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    ones = constant_true(width) if dtype.is_bool else constant(dtype, -1, width)
    return code.emit(f"xor {register_type(dtype, width)} {xs[0]}, {ones}")


# Floats -----------------------------------------------------------------------------------------------------


def _sign_bit(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """The bits of neg, abs or copysign of 16- and 8-bit floats, computed by integer operations."""
    t, bits, sign = register_type(dtype, width), vector_of(f"i{dtype.bits}", width), 1 << (dtype.bits - 1)
    integer = DTYPES[f"uint{dtype.bits}"]
    ints = [x if t == bits else code.emit(f"bitcast {t} {x} to {bits}") for x in xs]
    if isinstance(op, S.Neg):
        result_bits = code.emit(f"xor {bits} {ints[0]}, {constant(integer, sign, width)}")
    else:
        result_bits = code.emit(f"and {bits} {ints[0]}, {constant(integer, sign - 1, width)}")
    if isinstance(op, S.CopySign):
        sign_bits = code.emit(f"and {bits} {ints[1]}, {constant(integer, sign, width)}")
        result_bits = code.emit(f"or {bits} {result_bits}, {sign_bits}")
    return result_bits if t == bits else code.emit(f"bitcast {bits} {result_bits} to {t}")


def _sign_rule(intrinsic: str) -> Rule:
    wide_rule = _simple(intrinsic) if intrinsic == "fneg" else _intrinsic(intrinsic)

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        return (_sign_bit if dtype.bits < 32 else wide_rule)(code, op, dtype, xs, width)

    return rule


def _float_floor_divide(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    quotient = code.emit(f"fdiv {register_type(dtype, width)} {xs[0]}, {xs[1]}")
    return _intrinsic("floor")(code, op, dtype, [quotient], width)


def _never_above(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    return code.emit(f"fcmp ule {register_type(dtype, width)} {xs[0]}, {xs[1]}")


def _classify(code: Code, op: Classify, dtype: DType, xs: list[str], width: int) -> str:
    t = register_type(dtype, width)
    if op.test == "isnan":
        return code.emit(f"fcmp uno {t} {xs[0]}, {xs[0]}")
    magnitude = _intrinsic("fabs")(code, op, dtype, xs, width)
    pred = "oeq" if op.test == "isinf" else "olt"
    return code.emit(f"fcmp {pred} {t} {magnitude}, {constant(dtype, float('inf'), width)}")


_INT: dict[type[Op], Rule] = {
    S.PermuteBytes: permute_bytes,
    S.DotBytes: dot_bytes,
    S.Add: _simple("add"),
    S.Sub: _simple("sub"),
    S.Mul: _simple("mul"),
    S.Div: _divide,
    S.FloorDiv: _floor_divide,
    S.Mod: _remainder,
    S.Min: _int_extreme(True),
    S.Max: _int_extreme(False),
    S.And: _simple("and"),
    S.Or: _simple("or"),
    S.Xor: _simple("xor"),
    S.Shl: _shift("shl"),
    S.Shr: _shift("lshr"),
    S.Neg: _int_negate,
    S.Not: _invert,
    S.Abs: _int_abs,
    S.BitCount: _bit_function("ctpop"),
    S.LeadingZeros: _bit_function("ctlz", "i1 false"),
    S.ReversedBits: _bit_function("bitreverse"),
    S.Cmp: _compare,
}
_BOOL: dict[type[Op], Rule] = {
    S.And: _flag_rule("and"),
    S.Or: _flag_rule("or"),
    S.Xor: _simple("xor"),
    S.Min: _flag_rule("and"),
    S.Max: _flag_rule("or"),
    S.Not: _invert,
    S.Cmp: _compare,
}
EXP2 = tuple(math.log(2) ** k / math.factorial(k) for k in range(7))
"""The coefficients of the series of 2 ** x about 0, whose remainder for |x| <= 1/2 is 1.2e-7."""


def _fast_exp2(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """The hardware's approximation if there is one, else a polynomial of the fraction, scaled in two steps."""
    if code.approximates:
        return code.emit(f"call float @llvm.nvvm.ex2.approx.ftz.f(float {xs[0]})")
    f, i = register_type(dtype, width), vector_of("i32", width)

    def number(x: float) -> str:
        return constant(dtype, x, width)

    def scaled_power(n: int) -> str:
        return str(n) if width == 1 else f"splat (i32 {n})"

    def call(name: str, *args: str) -> str:
        return code.call(name, mangled(dtype, width), f, ", ".join(f"{f} {a}" for a in args))

    underflows = code.emit(f"fcmp olt {f} {xs[0]}, {number(-126.0)}")
    overflows = code.emit(f"fcmp oge {f} {xs[0]}, {number(128.0)}")
    out_of_range = _flags(code, "or", underflows, code.emit(f"fcmp uge {f} {xs[0]}, {number(128.0)}"), width)
    x = _emit_select(code, out_of_range, dtype, number(0.0), xs[0], width)
    nearest = call("roundeven", x)
    fraction = code.emit(f"fsub {f} {x}, {nearest}")
    polynomial = number(EXP2[-1])
    for c in reversed(EXP2[:-1]):
        polynomial = call("fma", polynomial, fraction, number(c))
    power = code.emit(f"fptosi {f} {nearest} to {i}")
    half = code.emit(f"ashr {i} {power}, {scaled_power(1)}")
    for part in (half, code.emit(f"sub {i} {power}, {half}")):
        bits = code.emit(f"shl {i} {code.emit(f'add {i} {part}, {scaled_power(127)}')}, {scaled_power(23)}")
        polynomial = code.emit(f"fmul {f} {polynomial}, {code.emit(f'bitcast {i} {bits} to {f}')}")
    polynomial = _emit_select(code, underflows, dtype, number(0.0), polynomial, width)
    polynomial = _emit_select(code, overflows, dtype, number(math.inf), polynomial, width)
    is_nan = code.emit(f"fcmp uno {f} {xs[0]}, {xs[0]}")
    return _emit_select(code, is_nan, dtype, xs[0], polynomial, width)


def _reciprocal(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """The quotient, or the hardware's approximation and one step of Newton's method. The result is the nearest float32
    if all numbers are normal."""
    t, one = register_type(dtype, width), constant(dtype, 1.0, width)
    if not code.approximates:
        return code.emit(f"fdiv {t} {one}, {xs[0]}")
    approximation = code.emit(f"call float @llvm.nvvm.rcp.approx.ftz.f(float {xs[0]})")
    negated = code.emit(f"fneg float {xs[0]}")
    error = code.call("fma", "f32", t, f"{t} {negated}, {t} {approximation}, {t} {one}")
    return code.call("fma", "f32", t, f"{t} {approximation}, {t} {error}, {t} {approximation}")


_FLOAT: dict[type[Op], Rule] = {
    S.Add: _simple("fadd"),
    S.Sub: _simple("fsub"),
    S.Mul: _simple("fmul"),
    S.Div: _simple("fdiv"),
    S.FloorDiv: _float_floor_divide,
    S.Min: _float_extreme("minimumnum"),
    S.Max: _float_extreme("maximumnum"),
    S.CopySign: _sign_rule("copysign"),
    S.Neg: _sign_rule("fneg"),
    S.Abs: _sign_rule("fabs"),
    S.Sqrt: _intrinsic("sqrt"),
    S.FastExp2: _fast_exp2,
    S.Reciprocal: _reciprocal,
    S.Floor: _intrinsic("floor"),
    S.Ceil: _intrinsic("ceil"),
    S.Trunc: _intrinsic("trunc"),
    S.Rint: _intrinsic("roundeven"),
    S.Fma: _intrinsic("fma"),
    S.Cmp: _compare,
    S.NeverAbove: _never_above,
    S.Classify: _classify,
}
_RULES_OF_KIND = {"f": _FLOAT, "i": _INT, "u": _INT, "b": _BOOL}
_EXTREMES = frozenset({S.Min, S.Max})
_ARITHMETIC: dict[type[Op], Callable[[int, int], int]] = {
    S.Add: operator.add,
    S.Sub: operator.sub,
    S.Mul: operator.mul,
}
_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_FOLDED = frozenset({*_ARITHMETIC, S.Cmp})
# The ops on 16- and 8-bit floats whose exact result needs no final rounding, or which need no conversion to float32.
_TO_BOOL = frozenset({S.Cmp, S.NeverAbove, S.Classify})
_EXACT = frozenset({S.Min, S.Max, S.Floor, S.Ceil, S.Trunc, S.Rint})
_SIGN_BIT = frozenset({S.Neg, S.Abs, S.CopySign})
# The ops on float16 for which GPUs have instructions, of one float16 or of a pair.
_IN_PAIRS = frozenset({S.Add, S.Sub, S.Mul, S.Fma, S.Min, S.Max})


def _in_pairs(code: Code, op: Op, operands: Sequence[Components]) -> Components:
    """The result of an elementwise op on float16 vectors, in instructions that compute two components."""
    count, results = len(operands[0]), list[str]()
    for k in range(0, count - 1, 2):
        pairs = [packed(code, xs[k : k + 2], float16, 2) for xs in operands]
        results += code.unpacked("half", 2, _FLOAT[type(op)](code, op, float16, pairs, 2))
    if count % 2:
        results.append(elementwise(code, op, float16, [xs[-1] for xs in operands], 1))
    return tuple(results)


# The components of one value in one register -----------------------------------------------------------------

REGISTER_COMPONENTS = (4, 8, 16)
"""The numbers of components of the values that are kept in one vector register."""
ACCESS_COMPONENTS = (8, 16)
"""The numbers of components of the array elements that are loaded and stored by one access."""


def _in_one_register(code: Code, op: Op, operands: Sequence[Components]) -> Components:
    """The result of an elementwise op or select with an operand in a vector register; () for other ops."""
    t = op.result.type
    if not isinstance(t, VecType) or not isinstance(op, Elementwise | S.Select | Bitcast):
        return ()
    n = components(t)
    if n not in REGISTER_COMPONENTS or not any(xs in code.packed for xs in operands):
        return ()
    types = [scalar_of(element(v.type)) for v in op.operands]
    xs = [packed(code, x, dtype, n) for x, dtype in zip(operands, types, strict=True)]
    dtype = scalar_of(t)
    if isinstance(op, S.Select):
        vector = _emit_select(code, xs[0], dtype, xs[1], xs[2], n)
    elif isinstance(op, Bitcast):
        if types[0].bits != dtype.bits:
            return ()
        vector = bitcast(code, xs[0], types[0], dtype, n)
    else:
        vector = elementwise(code, op, types[0], xs, n)
    return code.unpacked(scalar_type(dtype), n, vector)


def _keep_packed(code: Code, op: Op, parts: Components) -> Components:
    """The components in one vector register, if some of them were extracted from vector registers and all fit one
    register. Other components are returned unchanged."""
    t, n = op.result.type, len(parts)
    if not isinstance(t, VecType) or n not in ACCESS_COMPONENTS or code.extracted.keys().isdisjoint(parts):
        return parts
    dtype = scalar_of(t)
    return code.unpacked(scalar_type(dtype), n, packed(code, parts, dtype, n))


def _bits(code: Code, flags: Components, width: int) -> str:
    """Flags as the bits of an integer, the first as the lowest."""
    n, t = len(flags), vector_of("i32", width)
    if width == 1 and flags in code.packed:
        mask = code.emit(f"bitcast <{n} x i1> {code.packed[flags]} to i{n}")
        return code.emit(f"zext i{n} {mask} to i32") if n < 32 else mask
    word = zero = constant(uint32, 0, width)
    for k, flag in enumerate(flags):
        bit = _emit_select(code, flag, uint32, constant(uint32, 1 << k, width), zero, width)
        word = code.emit(f"or {t} {word}, {bit}")
    return word


# Vectors and selection --------------------------------------------------------------------------------------


def _select(code: Code, op: Select, operands: Sequence[Components], width: int) -> Components:
    conditions, a, b = operands
    dtype = scalar_of(op.result.type)  # type: ignore[arg-type]
    bound = _bound(op) if code.approximates else ""
    if bound and dtype is float32:
        return tuple(
            code.call(bound, "f32", "float", f"float {x}, float {y}") for x, y in zip(a, b, strict=True)
        )
    flags = conditions * len(a) if len(conditions) == 1 else conditions
    return tuple(_emit_select(code, c, dtype, x, y, width) for c, x, y in zip(flags, a, b, strict=True))


def _bound(op: Select) -> str:
    """The intrinsic for the select "c if x < c else x" or "c if x > c else x": a NaN-propagating maximum or minimum
    with a constant other than 0. "" for other selects."""
    compare = op.condition.owner
    if not isinstance(compare, S.Cmp) or (op.a, op.b) != (compare.b, compare.a):
        return ""
    limit = compare.b.owner
    if not isinstance(limit, S.Const) or not limit.value:
        return ""
    return {"lt": "maximum", "gt": "minimum"}.get(compare.pred, "")


def _lower_component(
    code: Code, op: VecExtract | VecInsert, operands: Sequence[Components], width: int
) -> Components:
    """Lower an extract or insert: constant indices are free, run-time indices are a chain of selects."""
    composite: ElementType = op.composite.type  # type: ignore[assignment]
    shape, dtype = list(element_shape(composite)), scalar_of(composite)
    constants = [int(v.owner.value) for v in op.indices if isinstance(v.owner, S.Const)]
    if len(constants) == len(shape):
        return _lower_known_component(op, operands, shape, constants)
    first_index = 2 if isinstance(op, VecInsert) else 1
    matches = [
        _matches(code, value, x[0], n, width)
        for value, x, n in zip(op.indices, operands[first_index:], shape, strict=True)
    ]
    if isinstance(op, VecInsert):
        return tuple(_inserted(code, operands[0], operands[1][0], "", matches, dtype, width))
    return (_extracted(code, operands[0], matches, dtype, width),)


def _lower_known_component(
    op: VecExtract | VecInsert, operands: Sequence[Components], shape: Sequence[int], indices: Sequence[int]
) -> Components:
    """The result of an extract or insert at constant indices. Out of bounds, an extract reads the last component along
    the dimension, and an insert has no effect."""
    position = 0
    for i, n in zip(indices, shape, strict=True):
        if not 0 <= i < n and isinstance(op, VecInsert):
            return operands[0]
        position = position * n + (i if 0 <= i < n else n - 1)
    parts = operands[0]
    if isinstance(op, VecExtract):
        return (parts[position],)
    return (*parts[:position], operands[1][0], *parts[position + 1 :])


def _matches(code: Code, index: Value, x: str, n: int, width: int) -> list[str]:
    """For each position along a dimension, whether the index equals the position: an i1 register, "true" or "false"."""
    t: DType = index.type  # type: ignore[assignment]
    if isinstance(index.owner, S.Const):
        return ["true" if k == int(index.owner.value) else "false" for k in range(n)]
    return [
        code.emit(f"icmp eq {register_type(t, width)} {x}, {constant(t, k, width)}")
        if wrapped(k, t) == k
        else "false"
        for k in range(n)
    ]


def _extracted(code: Code, parts: Components, matches: list[list[str]], dtype: DType, width: int) -> str:
    """The component at the index; along a dimension whose index is out of bounds, the last component."""
    if not matches:
        return parts[0]
    dim_matches, inner = matches[0], len(parts) // len(matches[0])
    default = dim_matches.index("true") if "true" in dim_matches else len(dim_matches) - 1
    result = _extracted(code, parts[default * inner : (default + 1) * inner], matches[1:], dtype, width)
    for k in range(len(dim_matches) - 1):
        if dim_matches[k] not in ("true", "false"):
            part = _extracted(code, parts[k * inner : (k + 1) * inner], matches[1:], dtype, width)
            result = _emit_select(code, dim_matches[k], dtype, part, result, width)
    return result


def _inserted(
    code: Code, parts: Components, value: str, guard: str, matches: list[list[str]], dtype: DType, width: int
) -> Iterator[str]:
    """The components, with the value where all dimensions match and `guard` (an i1 register, or "") holds."""
    if not matches:
        yield value if not guard else _emit_select(code, guard, dtype, value, parts[0], width)
        return
    dim_matches, inner = matches[0], len(parts) // len(matches[0])
    for k, match in enumerate(dim_matches):
        slice_ = parts[k * inner : (k + 1) * inner]
        if match == "false":
            yield from slice_
            continue
        condition = (
            guard if match == "true" else match if not guard else _flags(code, "and", guard, match, width)
        )
        yield from _inserted(code, slice_, value, condition, matches[1:], dtype, width)


# Ops other than elementwise ones -----------------------------------------------------------------------------


def _composed(code: Code, op: VecMake | VecSplat, operands: Sequence[Components], width: int) -> Components:
    """Lower an op that makes a vector or matrix of its components."""
    assert is_element(op.result.type)
    n = components(op.result.type)
    parts = tuple(x for xs in operands for x in xs) if isinstance(op, VecMake) else operands[0] * n
    return _keep_packed(code, op, parts) if width == 1 and code.packs else parts


def _converted(code: Code, op: Cast, operands: Sequence[Components], width: int) -> Components:
    assert is_element(op.x.type)
    source = scalar_of(op.x.type)
    return tuple(convert(code, x, source, op.to, width) for x in operands[0])


def _read_as(code: Code, op: Bitcast, operands: Sequence[Components], width: int) -> Components:
    assert is_element(op.x.type)
    source, to = scalar_of(op.x.type), scalar_of(op.to)
    return bitcasts(code, operands[0], source, to, width)


_LOWERINGS: dict[type[Op], Callable[[Code, Any, Sequence[Components], int], Components]] = {
    S.Const: lambda code, op, operands, width: _constants(op.type, op.value, width),
    S.Select: _select,
    Cast: _converted,
    Bitcast: _read_as,
    TableGet: lambda code, op, operands, width: (table_elements(code, op, [x for (x,) in operands], width),),
    VecBits: lambda code, op, operands, width: (_bits(code, operands[0], width),),
    VecExtract: _lower_component,
    VecInsert: _lower_component,
    VecMake: _composed,
    VecPart: lambda code, op, operands, width: tuple(operands[0][k] for k in op.selected),
    VecSplat: _composed,
    Spill: lambda code, op, operands, width: operands[0],
    Reload: lambda code, op, operands, width: operands[0],
    VecUnset: lambda code, op, operands, width: _constants(op.type, 0, width),
}
