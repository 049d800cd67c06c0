"""Trip counts of loops, for both targets."""

from __future__ import annotations

from tegula.codegen.state import State
from tegula.codegen.text import constant, register_type, vector_of
from tegula.ops import scalar as S
from tegula.ops.control import For
from tegula.types import DType


def trips(s: State, op: For, width: int = 1) -> str:
    """The trip count of the loop, as an unsigned number, because the count may exceed the signed range of the index
    type. `width`: the number of lanes in a vector of trip counts."""
    code, owner = s.code, op.step.owner
    dtype: DType = op.start.type  # type: ignore[assignment]
    t, flag = register_type(dtype, width), vector_of("i1", width)
    zero, one = constant(dtype, 0, width), constant(dtype, 1, width)
    start, stop, step = (s.spread(v, width)[0] for v in op.bounds)
    low, high, stride = start, stop, step
    if isinstance(owner, S.Const) and owner.value < 0:
        low, high, stride = stop, start, constant(dtype, -owner.value, width)
    elif not isinstance(owner, S.Const) and dtype.kind == "i":
        counts_up = code.emit(f"icmp sgt {t} {step}, {zero}")
        low = code.emit(f"select {flag} {counts_up}, {t} {start}, {t} {stop}")
        high = code.emit(f"select {flag} {counts_up}, {t} {stop}, {t} {start}")
        negated = code.emit(f"sub {t} {zero}, {step}")
        stride = code.emit(f"select {flag} {counts_up}, {t} {step}, {t} {negated}")
    has_iterations = code.emit(f"icmp {'slt' if dtype.kind == 'i' else 'ult'} {t} {low}, {high}")
    span = code.emit(f"sub {t} {high}, {low}")
    if stride != one:
        is_nonzero = code.emit(f"icmp ne {t} {stride}, {zero}")
        safe = code.emit(f"select {flag} {is_nonzero}, {t} {stride}, {t} {one}")
        has_iterations = code.emit(f"and {flag} {has_iterations}, {is_nonzero}")
        quotient = code.emit(f"udiv {t} {code.emit(f'sub {t} {span}, {one}')}, {safe}")
        span = code.emit(f"add {t} {quotient}, {one}")
    return code.emit(f"select {flag} {has_iterations}, {t} {span}, {t} {zero}")
