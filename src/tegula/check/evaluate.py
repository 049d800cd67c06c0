"""Integer arithmetic of scalars as kernels compute it; None stands for an unknown number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tegula.ir import ConstantLike, Op
from tegula.ops import scalar as S
from tegula.ops.convert import Cast
from tegula.ops.schedule import ClusterEnd
from tegula.types import DType


def evaluator(op: Op) -> Callable[..., Any]:
    """A function that computes an op's result from its operands; None for ops that are not evaluated."""
    if isinstance(op, ConstantLike):
        value = op.value
        return lambda: value if isinstance(value, int) else None
    if isinstance(op, S.Cmp):
        return _COMPARE[op.pred]
    if isinstance(op, Cast):
        return cast_to(op.result.type)
    if type(op) not in _EVALUATE:
        return lambda *_: None
    evaluate, wrap = _EVALUATE[type(op)], cast_to(op.result.type)
    return (lambda *operands: wrap(evaluate(*operands))) if isinstance(op, WRAPPING) else evaluate


WRAPPING = (S.Add, S.Sub, S.Mul, S.Neg, S.Not, S.Shl, S.Abs, S.FloorDiv, S.Div)
"""Ops whose results may not fit their types."""


def cast_to(t: Any) -> Callable[[Any], Any]:
    """A function that converts an integer to a type; None for floats."""
    if not isinstance(t, DType) or t.kind == "f":
        return lambda x: None
    if t.kind == "b":
        return bool
    span = 1 << t.bits
    low = 0 if t.kind == "u" else -span // 2
    return lambda x: (int(x) - low) % span + low


def _divided(a: int, b: int) -> int:
    if b == 0:
        return 0
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _not(x: int | bool) -> int | bool:
    return not x if isinstance(x, bool) else ~x


_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_EVALUATE: dict[type[Op], Callable[..., Any]] = {
    S.Add: operator.add,
    S.Sub: operator.sub,
    S.Mul: operator.mul,
    S.Div: _divided,
    S.FloorDiv: lambda a, b: a // b if b else 0,
    S.Mod: lambda a, b: a - b * _divided(a, b),
    S.Min: min,
    S.Max: max,
    S.And: operator.and_,
    S.Or: operator.or_,
    S.Xor: operator.xor,
    S.Neg: operator.neg,
    S.Abs: abs,
    S.Not: _not,
    S.Shl: lambda a, b: a << b if 0 <= b < 64 else 0,
    S.Shr: lambda a, b: a >> b if 0 <= b < 64 else 0,
    S.Select: lambda c, a, b: a if c else b,
    ClusterEnd: lambda a: a,
}
