"""Run-time checks in kernels: promises of the user, and in debug mode division by zero and uniformity of values."""

from __future__ import annotations

from tegula.codegen.arrays import report_unless, slot
from tegula.codegen.elements import array_pointer, inside, offsets
from tegula.codegen.scalar import Components
from tegula.codegen.sites import RECORDS
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayAt
from tegula.ir import Op, Value
from tegula.ops.group import Agree
from tegula.ops.scalar import Const, Div, FloorDiv, Mod
from tegula.ops.tile import TileAtomic, TileLoad, TileStore, tile_type
from tegula.types import DType, element_bytes, is_element, scalar_of

ALIGNMENT = 16
"""The alignment of the first element of a tile access with aligned=True, in bytes."""


def check_division(s: State, op: Div | FloorDiv | Mod) -> None:
    """Report a zero divisor of integers."""
    divisor = op.b
    dtype = scalar_of(divisor.type)  # type: ignore[arg-type]
    known = isinstance(divisor.owner, Const) and divisor.owner.value != 0
    if not dtype.is_int or known:
        return
    ok = "true"
    for part in s.components(divisor):
        test = s.code.emit(f"icmp ne i{dtype.bits} {part}, 0")
        ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
    report_unless(s, ok, s.site("division", op.loc), [])


def check_uniform(s: State, op: Op, value: Value, implicit: str = "") -> None:
    """Report lanes whose value of an operand differs from lane 0's. `implicit`: the name of an operand that the user
    did not declare uniform, for which the report is only a note."""
    if value not in s.lanes:
        return
    view, site, first = s.lanes[value], _site(s, op, implicit), s.components(value)
    with s.code.loop("1", s.present, "1", [("i1", "false")] if implicit else []) as loop:
        parts = s.memory.load_element(s.memory.at(view, [loop.index]), view.dtype, view.component_stride)
        ok = _has_equal_bits(s, first, parts, scalar_of(view.dtype))
        before, s.lane = s.lane, loop.index
        if implicit:
            # One thread reports for the block.
            silent = s.code.emit(f"or i1 {loop.values[0]}, {_or_enough(s, ok)}")
            loop.next = [s.code.emit(f"or i1 {loop.values[0]}, {s.code.emit(f'xor i1 {ok}, true')}")]
            ok = silent
        report_unless(s, ok, site, [])
        s.lane = before


def check_agreement(s: State, op: Agree) -> None:
    """Report this lane if its value, the first operand, differs from lane 0's, the second."""
    parts, first, t = s.components(op.value), s.components(op.first), op.value.type
    assert is_element(t)
    dtype, implicit = scalar_of(t), op.implicit
    ok = _has_equal_bits(s, first, parts, dtype)
    report_unless(s, _or_enough(s, ok) if implicit else ok, _site(s, op, implicit), [])


def _site(s: State, op: Op, implicit: str) -> int:
    return s.site("differing", op.loc, operand=implicit) if implicit else s.site("uniform", op.loc)


NOTES = RECORDS // 2
"""Notes are dropped once a launch has this number of records, to leave room for failures."""


def _or_enough(s: State, ok: str) -> str:
    count = s.code.emit("load atomic i64, ptr %report monotonic, align 8")
    return s.code.emit(f"or i1 {ok}, {s.code.emit(f'icmp uge i64 {count}, {NOTES}')}")


def _has_equal_bits(s: State, first: Components, second: Components, dtype: DType) -> str:
    """Whether two elements have the same bits."""
    ok = "true"
    for a, b in zip(first, second, strict=True):
        test = s.code.emit(f"icmp eq i64 {slot(s, a, dtype)}, {slot(s, b, dtype)}")
        ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
    return ok


def check_access(s: State, op: TileLoad | TileStore | TileAtomic) -> None:
    """Report a tile access that violates a promise: in every mode a misaligned first element, in debug mode all
    violations of aligned=True and bounds_check=False."""
    array, starts = s.arrays[op.array], offsets(s, op)
    aligned = op.aligned
    if aligned:
        address = s.code.emit(f"ptrtoint ptr {array_pointer(s, array, starts)} to i64")
        rest = s.code.emit(f"and i64 {address}, {ALIGNMENT - 1}")
        ok = s.code.emit(f"icmp eq i64 {rest}, 0")
        report_unless(s, ok, s.site("misaligned", op.loc, array=array.name, rank=len(starts)), starts)
    if s.debug and aligned:
        report_unless(s, _dense(s, array), s.site("strided", op.loc, array=array.name), [])
    if s.debug and (aligned or not op.bounds_check):
        shape = tile_type((op.result if isinstance(op, TileLoad) else op.tile).type).shape
        site = s.site("tile bounds", op.loc, array=array.name, rank=len(starts), shape=list(shape))
        report_unless(s, inside(s, op), site, [*starts, *array.shape])


def _dense(s: State, array: ArrayAt) -> str:
    """Whether an array is packed row-major."""
    code, ok, unit = s.code, "true", str(element_bytes(array.dtype))
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        same, single = code.emit(f"icmp eq i64 {stride}, {unit}"), code.emit(f"icmp sle i64 {n}, 1")
        fits = code.emit(f"or i1 {same}, {single}")
        ok = fits if ok == "true" else code.emit(f"and i1 {ok}, {fits}")
        unit = s.memory.mul(unit, n)
    return ok
