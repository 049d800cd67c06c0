"""Trip counts of loops, for both targets."""

from __future__ import annotations

from tegula.codegen.state import State
from tegula.codegen.text import constant, register_type, vector_of
from tegula.ops import scalar as S
from tegula.ops.control import For
from tegula.types import DType


def trips(s: State, op: For, width: int = 1) -> str:
    """The trip count of the loop, as an unsigned number: the index after the last iteration may overflow its type.
    `width`: the number of lanes in a vector of trip counts."""
    code, owner = s.code, op.step.owner
    dtype: DType = op.start.type  # type: ignore[assignment]
    t, flag = register_type(dtype, width), vector_of("i1", width)
    zero, one = constant(dtype, 0, width), constant(dtype, 1, width)
    start, stop, step = (s.spread(v, width)[0] for v in op.bounds)
    low, high, stride = start, stop, step
    if isinstance(owner, S.Const) and owner.value < 0:
        low, high, stride = stop, start, constant(dtype, -owner.value, width)
    elif not isinstance(owner, S.Const) and dtype.kind == "i":
        rising = code.emit(f"icmp sgt {t} {step}, {zero}")
        low = code.emit(f"select {flag} {rising}, {t} {start}, {t} {stop}")
        high = code.emit(f"select {flag} {rising}, {t} {stop}, {t} {start}")
        negated = code.emit(f"sub {t} {zero}, {step}")
        stride = code.emit(f"select {flag} {rising}, {t} {step}, {t} {negated}")
    runs = code.emit(f"icmp {'slt' if dtype.kind == 'i' else 'ult'} {t} {low}, {high}")
    gap = code.emit(f"sub {t} {high}, {low}")
    if stride != one:
        moves = code.emit(f"icmp ne {t} {stride}, {zero}")
        safe = code.emit(f"select {flag} {moves}, {t} {stride}, {t} {one}")
        runs = code.emit(f"and {flag} {runs}, {moves}")
        quotient = code.emit(f"udiv {t} {code.emit(f'sub {t} {gap}, {one}')}, {safe}")
        gap = code.emit(f"add {t} {quotient}, {one}")
    return code.emit(f"select {flag} {runs}, {t} {gap}, {t} {zero}")
