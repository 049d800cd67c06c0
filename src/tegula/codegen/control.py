"""Control flow that both targets lower alike."""

from __future__ import annotations

from tegula.codegen.state import State
from tegula.codegen.text import register_type
from tegula.ir import Op
from tegula.ops import scalar as S
from tegula.types import scalar_of


def trips(s: State, op: Op) -> str:
    """How often the loop runs, as an unsigned number: an index past the last one may not exist in its type."""
    code, owner = s.code, op.operands[2].owner
    t = register_type(op.operands[0].type, 1)  # type: ignore[arg-type]
    start, stop, step = (s.scalar(v) for v in op.operands[:3])
    signed = scalar_of(op.operands[0].type).kind == "i"  # type: ignore[arg-type]
    low, high, by = start, stop, step
    if isinstance(owner, S.Const) and owner.attrs["value"] < 0:
        low, high, by = stop, start, str(-owner.attrs["value"])
    elif not isinstance(owner, S.Const) and signed:
        rising = code.emit(f"icmp sgt {t} {step}, 0")
        low = code.emit(f"select i1 {rising}, {t} {start}, {t} {stop}")
        high = code.emit(f"select i1 {rising}, {t} {stop}, {t} {start}")
        by = code.emit(f"select i1 {rising}, {t} {step}, {t} {code.emit(f'sub {t} 0, {step}')}")
    runs = code.emit(f"icmp {'slt' if signed else 'ult'} {t} {low}, {high}")
    gap = code.emit(f"sub {t} {high}, {low}")
    if by != "1":
        moves = code.emit(f"icmp ne {t} {by}, 0")
        safe = code.emit(f"select i1 {moves}, {t} {by}, {t} 1")
        runs = code.emit(f"and i1 {runs}, {moves}")
        whole = code.emit(f"udiv {t} {code.emit(f'sub {t} {gap}, 1')}, {safe}")
        gap = code.emit(f"add {t} {whole}, 1")
    return code.emit(f"select i1 {runs}, {t} {gap}, {t} 0")
