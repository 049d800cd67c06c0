"""Lane ops on scalars, vectors and matrices as LLVM IR, at any SIMD width.

A value of element type is `Components`: one register per scalar component, each holding `width` of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tegula.codegen.convert import constant_true, convert
from tegula.codegen.text import Code, constant, register_type, vector_of
from tegula.errors import InternalError
from tegula.ir import Op
from tegula.ops import scalar as S
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.vector import VecExtract, VecInsert, VecMake, VecSplat
from tegula.types import DType, ElementType, components, element_shape, float32, scalar_of, uint8

Components: TypeAlias = tuple[str, ...]


def mangled(dtype: DType, width: int) -> str:
    """How an intrinsic's name spells a type."""
    base = f"f{dtype.bits}" if dtype.is_float else f"i{dtype.bits}"
    return base if width == 1 else f"v{width}{base}"


def lower(code: Code, op: Op, operands: Sequence[Components], width: int) -> Components:
    """The op's result, component by component."""
    if isinstance(op, S.Const):
        return (constant(op.attrs["type"], op.attrs["value"], width),)
    if isinstance(op, VecMake | VecSplat):
        n = components(op.result.type)  # type: ignore[arg-type]
        return tuple(x[0] for x in operands) if isinstance(op, VecMake) else operands[0] * n
    if isinstance(op, VecExtract | VecInsert):
        return _component(code, op, operands, width)
    if isinstance(op, S.Select):
        return _select(code, op, operands, width)
    source = scalar_of(op.operands[0].type)  # type: ignore[arg-type]
    if isinstance(op, Cast):
        return tuple(convert(code, x, source, op.attrs["to"], width) for x in operands[0])
    if isinstance(op, Bitcast):
        return tuple(_bitcast(code, x, source, op.attrs["to"], width) for x in operands[0])
    return tuple(elementwise(code, op, source, list(xs), width) for xs in zip(*operands, strict=True))


def elementwise(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """One component of an elementwise op on operands of scalar type `dtype`."""
    if dtype.is_float and dtype.bits < 32:
        wide = [convert(code, x, dtype, float32, width) for x in xs]
        made = elementwise(code, op, float32, wide, width)
        return made if isinstance(op, S.Cmp | S.Classify) else convert(code, made, float32, dtype, width)
    table = _FLOAT if dtype.is_float else _BOOL if dtype.is_bool else _INT
    for kind, rule in table.items():
        if type(op) is kind:
            return rule(code, op, dtype, xs, width)
    raise InternalError(f"no lowering of {op.NAME} for {dtype}")


Rule: TypeAlias = Callable[[Code, Op, DType, list[str], int], str]


def _simple(name: str) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        return code.emit(f"{name} {register_type(dtype, width)} {', '.join(xs)}")

    return rule


def _intrinsic(name: str) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        t = register_type(dtype, width)
        return code.call(name, mangled(dtype, width), t, ", ".join(f"{t} {x}" for x in xs))

    return rule


def _pick(code: Code, condition: str, dtype: DType, a: str, b: str, width: int) -> str:
    t = register_type(dtype, width)
    return code.emit(f"select {vector_of('i1', width)} {condition}, {t} {a}, {t} {b}")


def _flags(code: Code, op: str, a: str, b: str, width: int) -> str:
    return code.emit(f"{op} {vector_of('i1', width)} {a}, {b}")


def _compare(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    pred = op.attrs["pred"]
    t = register_type(dtype, width)
    if dtype.is_float:
        return code.emit(f"fcmp {'une' if pred == 'ne' else 'o' + pred} {t} {xs[0]}, {xs[1]}")
    if pred not in ("eq", "ne"):
        pred = ("s" if dtype.kind == "i" else "u") + pred
    return code.emit(f"icmp {pred} {t} {xs[0]}, {xs[1]}")


# Integers ------------------------------------------------------------------------------------------------------------


def _quotient(code: Code, dtype: DType, a: str, b: str, width: int) -> tuple[str, str, str]:
    """Truncated quotient with 0 for a zero divisor, the divisor used, and whether the divisor was 0 or -1."""
    t = register_type(dtype, width)
    zero = code.emit(f"icmp eq {t} {b}, {constant(dtype, 0, width)}")
    special = zero
    if dtype.kind == "i":
        minus = code.emit(f"icmp eq {t} {b}, {constant(dtype, -1, width)}")
        special = _flags(code, "or", zero, minus, width)
    safe = _pick(code, special, dtype, constant(dtype, 1, width), b, width)
    quotient = code.emit(f"{'sdiv' if dtype.kind == 'i' else 'udiv'} {t} {a}, {safe}")
    if dtype.kind == "i":
        negated = code.emit(f"sub {t} {constant(dtype, 0, width)}, {a}")
        quotient = _pick(code, minus, dtype, negated, quotient, width)
    return _pick(code, zero, dtype, constant(dtype, 0, width), quotient, width), safe, special


def _divide(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    return _quotient(code, dtype, *xs, width)[0]


def _remainder(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    quotient, safe, special = _quotient(code, dtype, *xs, width)
    t = register_type(dtype, width)
    product = code.emit(f"mul {t} {quotient}, {safe}")
    rest = code.emit(f"sub {t} {xs[0]}, {product}")
    return _pick(code, special, dtype, constant(dtype, 0, width), rest, width)


def _floor_divide(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    quotient, safe, special = _quotient(code, dtype, *xs, width)
    if dtype.kind == "u":
        return quotient
    t = register_type(dtype, width)
    zero = constant(dtype, 0, width)
    rest = code.emit(f"sub {t} {xs[0]}, {code.emit(f'mul {t} {quotient}, {safe}')}")
    inexact = code.emit(f"icmp ne {t} {rest}, {zero}")
    signs = code.emit(f"icmp slt {t} {code.emit(f'xor {t} {xs[0]}, {safe}')}, {zero}")
    down = _flags(code, "and", inexact, signs, width)
    down = _flags(code, "and", down, code.emit(f"xor {vector_of('i1', width)} {special}, {constant_true(width)}"), width)
    lower_one = code.emit(f"sub {t} {quotient}, {constant(dtype, 1, width)}")
    return _pick(code, down, dtype, lower_one, quotient, width)


def _shift(name: str) -> Rule:
    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        t = register_type(dtype, width)
        inside = code.emit(f"icmp ult {t} {xs[1]}, {constant(dtype, dtype.bits, width)}")
        arithmetic = name == "lshr" and dtype.kind == "i"
        outside = constant(dtype, dtype.bits - 1 if arithmetic else 0, width)
        amount = _pick(code, inside, dtype, xs[1], outside, width)
        moved = code.emit(f"{'ashr' if arithmetic else name} {t} {xs[0]}, {amount}")
        return moved if arithmetic else _pick(code, inside, dtype, moved, constant(dtype, 0, width), width)

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
    return _pick(code, negative, dtype, _int_negate(code, op, dtype, xs, width), xs[0], width)


def _invert(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    ones = constant_true(width) if dtype.is_bool else constant(dtype, -1, width)
    return code.emit(f"xor {register_type(dtype, width)} {xs[0]}, {ones}")


# Floats --------------------------------------------------------------------------------------------------------------


def _float_extreme(smaller: bool) -> Rule:
    """A NaN loses; equal operands are zeros of either sign or the same, so their bits are or-ed (and-ed for max)."""

    def rule(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
        a, b = xs
        t, bits = register_type(dtype, width), vector_of(f"i{dtype.bits}", width)
        first = code.emit(f"fcmp {'olt' if smaller else 'ogt'} {t} {a}, {b}")
        picked = _pick(code, first, dtype, a, b, width)
        as_bits = [code.emit(f"bitcast {t} {x} to {bits}") for x in xs]
        merged = code.emit(f"{'or' if smaller else 'and'} {bits} {', '.join(as_bits)}")
        equal = code.emit(f"fcmp oeq {t} {a}, {b}")
        picked = _pick(code, equal, dtype, code.emit(f"bitcast {bits} {merged} to {t}"), picked, width)
        return _pick(code, code.emit(f"fcmp uno {t} {b}, {b}"), dtype, a, picked, width)

    return rule


def _float_floor_divide(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    quotient = code.emit(f"fdiv {register_type(dtype, width)} {xs[0]}, {xs[1]}")
    return _intrinsic("floor")(code, op, dtype, [quotient], width)


def _classify(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    t = register_type(dtype, width)
    if op.attrs["test"] == "isnan":
        return code.emit(f"fcmp uno {t} {xs[0]}, {xs[0]}")
    size = _intrinsic("fabs")(code, op, dtype, xs, width)
    pred = "oeq" if op.attrs["test"] == "isinf" else "olt"
    return code.emit(f"fcmp {pred} {t} {size}, {constant(dtype, float('inf'), width)}")


_INT: dict[type[Op], Rule] = {
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
    S.Cmp: _compare,
}
_BOOL: dict[type[Op], Rule] = {
    S.And: _simple("and"),
    S.Or: _simple("or"),
    S.Xor: _simple("xor"),
    S.Min: _simple("and"),
    S.Max: _simple("or"),
    S.Not: _invert,
    S.Cmp: _compare,
}
_FLOAT: dict[type[Op], Rule] = {
    S.Add: _simple("fadd"),
    S.Sub: _simple("fsub"),
    S.Mul: _simple("fmul"),
    S.Div: _simple("fdiv"),
    S.FloorDiv: _float_floor_divide,
    S.Min: _float_extreme(True),
    S.Max: _float_extreme(False),
    S.CopySign: _intrinsic("copysign"),
    S.Neg: _simple("fneg"),
    S.Abs: _intrinsic("fabs"),
    S.Sqrt: _intrinsic("sqrt"),
    S.Floor: _intrinsic("floor"),
    S.Ceil: _intrinsic("ceil"),
    S.Trunc: _intrinsic("trunc"),
    S.Rint: _intrinsic("roundeven"),
    S.Fma: _intrinsic("fma"),
    S.Cmp: _compare,
    S.Classify: _classify,
}


# Vectors and selection -----------------------------------------------------------------------------------------------


def _select(code: Code, op: Op, operands: Sequence[Components], width: int) -> Components:
    conditions, a, b = operands
    dtype = scalar_of(op.result.type)  # type: ignore[arg-type]
    spread = conditions * len(a) if len(conditions) == 1 else conditions
    return tuple(_pick(code, c, dtype, x, y, width) for c, x, y in zip(spread, a, b, strict=True))


def _bitcast(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    """The same bits under another type. A bool's are those of its byte: 0 or 1."""
    if source == to:
        return x
    have, want = register_type(source, width), register_type(to, width)
    if to.is_bool:
        bits = vector_of("i8", width)
        return code.emit(f"icmp ne {bits} {x}, {constant(uint8, 0, width)}")
    if source.is_bool:
        return code.emit(f"zext {have} {x} to {want}")
    return x if have == want else code.emit(f"bitcast {have} {x} to {want}")


def flat_position(op_type: ElementType, indices: Sequence[int]) -> int:
    """Row-major position of a component."""
    position = 0
    for n, i in zip(element_shape(op_type), indices, strict=True):
        position = position * n + i
    return position


def _component(code: Code, op: Op, operands: Sequence[Components], width: int) -> Components:
    """Extract or insert: by constant indices at no cost, by run-time ones through a chain of selects."""
    insert = isinstance(op, VecInsert)
    composite: ElementType = op.operands[0].type  # type: ignore[assignment]
    parts = operands[0]
    chosen = op.operands[2:] if insert else op.operands[1:]
    owners = [v.owner for v in chosen]
    if all(isinstance(o, S.Const) for o in owners):
        at = flat_position(composite, [o.attrs["value"] for o in owners])  # type: ignore[union-attr]
        return (*parts[:at], operands[1][0], *parts[at + 1 :]) if insert else (parts[at],)
    flags = _position_flags(code, op, composite, operands[2:] if insert else operands[1:], chosen, width)
    dtype = scalar_of(composite)
    if insert:
        value = operands[1][0]
        return tuple(_pick(code, f, dtype, value, p, width) for f, p in zip(flags, parts, strict=True))
    result = parts[-1]
    for flag, part in zip(flags[:-1], parts[:-1], strict=True):
        result = _pick(code, flag, dtype, part, result, width)
    return (result,)


def _position_flags(
    code: Code, op: Op, composite: ElementType, indices: Sequence[Components], values: Sequence[object], width: int
) -> list[str]:
    """For each component, whether the indices name it."""
    per_dim: list[list[str]] = []
    for n, x, v in zip(element_shape(composite), indices, values, strict=True):
        t: DType = v.type  # type: ignore[attr-defined]
        per_dim.append([code.emit(f"icmp eq {register_type(t, width)} {x[0]}, {constant(t, i, width)}") for i in range(n)])
    if len(per_dim) == 1:
        return per_dim[0]
    return [_flags(code, "and", a, b, width) for a in per_dim[0] for b in per_dim[1]]
