"""Run-time checks in kernels: promises of the user, and in debug mode division by zero and uniformity of values."""

from __future__ import annotations

from tegula.codegen.arrays import report_unless, slot
from tegula.codegen.elements import array_pointer, offsets, tile_in_bounds
from tegula.codegen.scalar import Components
from tegula.codegen.sites import RECORDS
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayDescriptor
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
    is_nonzero_constant = isinstance(divisor.owner, Const) and divisor.owner.value != 0
    if not dtype.is_int or is_nonzero_constant:
        return
    ok = "true"
    for component in s.components(divisor):
        test = s.code.emit(f"icmp ne i{dtype.bits} {component}, 0")
        ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
    report_unless(s, ok, s.site("division", op.loc), [])


def check_uniform(s: State, op: Op, value: Value, implicit: str = "") -> None:
    """Report lanes whose value of an operand differs from lane 0's. `implicit`: the name of an operand that the user
    did not declare uniform, for which the report is only a note."""
    if value not in s.lanes:
        return
    view, site, first = s.lanes[value], _site(s, op, implicit), s.components(value)
    with s.code.loop("1", s.present, "1", [("i1", "false")] if implicit else []) as loop:
        lane_components = s.memory.load_element(
            s.memory.at(view, [loop.index]), view.dtype, view.component_stride
        )
        ok = _has_equal_bits(s, first, lane_components, scalar_of(view.dtype))
        outer_lane, s.lane = s.lane, loop.index
        if implicit:
            # One thread reports for the block.
            skip_report = s.code.emit(f"or i1 {loop.values[0]}, {_or_report_full(s, ok)}")
            loop.next = [s.code.emit(f"or i1 {loop.values[0]}, {s.code.emit(f'xor i1 {ok}, true')}")]
            ok = skip_report
        report_unless(s, ok, site, [])
        s.lane = outer_lane


def check_agreement(s: State, op: Agree) -> None:
    """Report this lane if its value (the first operand) differs from lane 0's value (the second operand)."""
    components, first, t = s.components(op.value), s.components(op.first), op.value.type
    assert is_element(t)
    dtype, implicit = scalar_of(t), op.implicit
    ok = _has_equal_bits(s, first, components, dtype)
    report_unless(s, _or_report_full(s, ok) if implicit else ok, _site(s, op, implicit), [])


def _site(s: State, op: Op, implicit: str) -> int:
    return s.site("differing", op.loc, operand=implicit) if implicit else s.site("uniform", op.loc)


MAX_NOTE_RECORDS = RECORDS // 2
"""The number of records of a launch from which on notes are dropped, so that failures can still be recorded."""


def _or_report_full(s: State, ok: str) -> str:
    count = s.code.emit("load atomic i64, ptr %report monotonic, align 8")
    return s.code.emit(f"or i1 {ok}, {s.code.emit(f'icmp uge i64 {count}, {MAX_NOTE_RECORDS}')}")


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
        misalignment = s.code.emit(f"and i64 {address}, {ALIGNMENT - 1}")
        ok = s.code.emit(f"icmp eq i64 {misalignment}, 0")
        report_unless(s, ok, s.site("misaligned", op.loc, array=array.name, rank=len(starts)), starts)
    if s.debug and aligned:
        report_unless(s, _is_packed(s, array), s.site("strided", op.loc, array=array.name), [])
    if s.debug and (aligned or not op.bounds_check):
        shape = tile_type((op.result if isinstance(op, TileLoad) else op.tile).type).shape
        site = s.site("tile bounds", op.loc, array=array.name, rank=len(starts), shape=list(shape))
        report_unless(s, tile_in_bounds(s, op), site, [*starts, *array.shape])


def _is_packed(s: State, array: ArrayDescriptor) -> str:
    """Whether an array is packed row-major."""
    code, ok, unit = s.code, "true", str(element_bytes(array.dtype))
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        is_adjacent, is_short = code.emit(f"icmp eq i64 {stride}, {unit}"), code.emit(f"icmp sle i64 {n}, 1")
        fits = code.emit(f"or i1 {is_adjacent}, {is_short}")
        ok = fits if ok == "true" else code.emit(f"and i1 {ok}, {fits}")
        unit = s.memory.mul(unit, n)
    return ok
