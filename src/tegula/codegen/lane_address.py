"""The addresses of elements for the lanes of a vector, and the analysis of indices that increase by one per lane."""

from __future__ import annotations

from tegula.codegen.arrays import thread_component
from tegula.codegen.convert import convert
from tegula.codegen.scalar import elementwise, quotient, range_of, remainder
from tegula.codegen.state import State
from tegula.codegen.sweep import MAX_INTERLEAVED
from tegula.codegen.text import register_type, vector_of
from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For
from tegula.ops.convert import Cast
from tegula.ops.lane import LaneIndex, Lanes, Tid
from tegula.types import DType, ElementType, components, element_bytes, int32, int64, uint32

Offsets = list[tuple[Value, str]]
"""Index values, each with the bytes between consecutive elements (a literal or an i64 register)."""

SEARCH_DEPTH = 4
"""The maximum number of operations between a thread index and an index that is derived from the thread index."""


@dataclass(frozen=True, slots=True)
class LaneAddress:
    """The addresses of the lanes' elements: adjacent elements from the address `first` on, or the vector `pointers`
    with an address per lane. If both are set, the i1 register `test` selects `first` at run time: if the elements of
    all active lanes are adjacent, or, with `is_broadcast`, if at least one lane is active and all active lanes access
    the element at `first`."""

    first: str = ""
    pointers: str = ""
    test: str = ""
    is_broadcast: bool = False


# Thread indices ------------------------------------------------------------------------------------------------------


def thread_index(s: State, k: int) -> str:
    """Component k of the thread index of each lane."""
    if s.width == 1:
        return thread_component(s, k, uniform=False)
    if _increments_per_lane(s, k):
        return _consecutive(s, thread_component(s, k, uniform=False), int32)
    return _unflattened_index(s, k)


def lane_numbers(s: State) -> str:
    """The lane number of each lane."""
    return _consecutive(s, s.code.emit(f"trunc i64 {s.lane} to i32"), int32)


def _increments_per_lane(s: State, k: int) -> bool:
    """Whether component k of the thread index increases by one from lane to lane."""
    launch = s.kernel.launch
    last = k == launch.ndim - 1
    return last and (launch.last_is_block or launch.ndim == 1 or launch.uniform[k - 1])


def _consecutive(s: State, first: str, dtype: DType) -> str:
    t = register_type(dtype, 1)
    lane_steps = ", ".join(f"{t} {k}" for k in range(s.width))
    return s.code.emit(f"add <{s.width} x {t}> {s.memory.splat(first, dtype, s.width)}, <{lane_steps}>")


def _unflattened_index(s: State, k: int) -> str:
    """Component k of the thread index, for launches in which a row may end between two lanes of a vector. The first
    lane's index is computed by 64-bit divisions; the indices of all lanes by 32-bit divisions of small sums."""
    code, width, rank = s.code, s.width, s.kernel.launch.ndim
    vector_type = register_type(uint32, width)
    flat_index = code.emit(f"add i64 {s.first_thread()}, {s.lane}")
    carries, bounds = _consecutive(s, "0", uint32), (range_of(uint32), range_of(uint32))
    for d in range(rank - 1, k - 1, -1):
        coordinate = code.emit(f"urem i64 {flat_index}, {s.dims[d]}") if d > 0 else flat_index
        first = code.emit(f"trunc i64 {coordinate} to i32")
        index_vector = code.emit(f"add {vector_type} {s.memory.splat(first, uint32, width)}, {carries}")
        if d == 0:
            return index_vector
        length = s.memory.splat(code.emit(f"trunc i64 {s.dims[d]} to i32"), uint32, width)
        if d == k:
            return remainder(code, bounds, uint32, index_vector, length, width)
        carries = quotient(code, bounds, uint32, index_vector, length, width)
        flat_index = code.emit(f"udiv i64 {flat_index}, {s.dims[d]}")
    raise AssertionError("the loop ends at component k")


# Adjacent lanes ------------------------------------------------------------------------------------------------------


def _first_lane_index(s: State, value: Value, in_earlier_loop: bool = False) -> str | None:
    """The first lane's index if the index increases by one per lane, else None. `in_earlier_loop`: whether an earlier
    lane loop computed the index.

    Integers wrap, but a signed index that wraps is negative and out of bounds, so the lane is not active."""
    dtype: DType = value.type  # type: ignore[assignment]
    source = _source(value)
    owner, in_earlier_loop = source.owner, in_earlier_loop or source is not value
    if isinstance(owner, LaneIndex):
        return s.code.emit(f"trunc i64 {s.lane} to i32")
    if isinstance(owner, Tid):
        k = owner.results.index(source)
        return thread_component(s, k, uniform=False) if _increments_per_lane(s, k) else None
    if dtype.kind != "i":
        return None
    if isinstance(owner, Cast):
        exact = isinstance(_source(owner.x).owner, Tid | LaneIndex)
        first = _first_lane_index(s, owner.x, in_earlier_loop) if exact and dtype.bits >= int32.bits else None
        return None if first is None else convert(s.code, first, int32, dtype, 1)
    if isinstance(owner, S.Add | S.Sub):
        return _first_lane_index_of_sum(s, owner, dtype, in_earlier_loop)
    if isinstance(owner, Region) and not in_earlier_loop and _is_unit_induction_variable(s, source, owner):
        return s.memory.lane(s.scalar(source), dtype, s.width, 0)
    return None


def _source(value: Value) -> Value:
    """The value that an earlier lane loop yields as this result of the loop; for other values the value itself."""
    while isinstance(value.owner, Lanes):
        value = value.owner.body.yielded[value.owner.results.index(value)]
    return value


def _first_lane_index_of_sum(s: State, op: S.Add | S.Sub, dtype: DType, in_earlier_loop: bool) -> str | None:
    for varying, uniform in [(op.a, op.b)] if isinstance(op, S.Sub) else [(op.a, op.b), (op.b, op.a)]:
        if (
            s.known.varying(uniform)
            or not s.known.varying(varying)
            or (in_earlier_loop and not _is_in_register(s, uniform))
        ):
            continue
        first = _first_lane_index(s, varying, in_earlier_loop)
        if first is not None:
            return elementwise(s.code, op, dtype, [first, s.scalar(uniform)], 1)
    return None


def _is_in_register(s: State, value: Value) -> bool:
    """Whether a uniform value is in a register at this point; a value computed by an earlier lane loop is not."""
    if value not in s.scalars:
        return False
    if not s.scalar(value).startswith("%"):
        return True
    region = value.owner.parent if isinstance(value.owner, Op) else value.owner
    while region is not None and region.parent is not None:
        if isinstance(region.parent, Lanes):
            return False
        region = region.parent.parent
    return True


def _is_unit_induction_variable(s: State, value: Value, region: Region) -> bool:
    """Whether a value is the induction variable of a loop with adjacent start values and a uniform step."""
    loop = region.parent
    return (
        isinstance(loop, For)
        and loop.index is value
        and not s.known.varying(loop.step)
        and _first_lane_index(s, loop.start) is not None
    )


def _probably_increments(s: State, value: Value, depth: int = SEARCH_DEPTH) -> bool:
    """Whether the index probably increases by one per lane, except at the end of a row or at a border."""
    owner = _source(value).owner
    if isinstance(owner, Tid | LaneIndex):
        return True
    if depth == 0 or not isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Select | Cast):
        return False
    values = [owner.a, owner.b] if isinstance(owner, S.Select) else [*owner.operands]
    varying = [v for v in values if s.known.varying(v)]
    return bool(varying) and all(_probably_increments(s, v, depth - 1) for v in varying)


ROW_OPS = (S.Add, S.Sub, S.Mul, S.Div, S.FloorDiv, S.Mod, S.Min, S.Max, S.Select, Cast)
"""The operations through which an index derives from a thread index."""


def _probably_follows_row(s: State, value: Value, depth: int = SEARCH_DEPTH) -> bool:
    """Whether the index is probably uniform except at the end of a row, because it derives from a component of the
    thread index other than the last."""
    source = _source(value)
    owner = source.owner
    if isinstance(owner, Tid):
        return owner.results.index(source) < s.kernel.launch.ndim - 1
    if depth == 0 or not isinstance(owner, ROW_OPS):
        return False
    varying = [v for v in owner.operands if s.known.varying(v)]
    return bool(varying) and all(_probably_follows_row(s, v, depth - 1) for v in varying)


def _match_first_lane(s: State, value: Value, step: int) -> tuple[str, str]:
    """The first lane's index as i64, and the mask of the lanes whose index is the first lane's index plus `step` times
    the lane number."""
    t, code, width = f"<{s.width} x i64>", s.code, s.width
    index = convert(code, s.scalar(value), value.type, int64, width)  # type: ignore[arg-type]
    first = code.emit(f"extractelement {t} {index}, i32 0")
    expected = s.memory.iota(first, width) if step else s.memory.splat_i64(first, width)
    return first, code.emit(f"icmp eq {t} {index}, {expected}")


def _test_adjacent(s: State, pointer: str, varying: Offsets, incrementing: int | None) -> tuple[str, str]:
    """The first lane's address, and whether all active lanes access the elements that follow from this address.
    `incrementing`: the position of the index that must increase by one per lane; None if all indices must be
    uniform."""
    code, flag = s.code, vector_of("i1", s.width)
    inactive = code.emit(f"xor {flag} {s.mask}, splat (i1 true)") if s.mask else ""
    matches = ""
    for k, (value, unit) in enumerate(varying):
        first, match = _match_first_lane(s, value, int(k == incrementing))
        matches = code.emit(f"and {flag} {matches}, {match}") if matches else match
        pointer = s.memory.bytes_offset(pointer, s.memory.mul(first, unit))
    if inactive:
        matches = code.emit(f"or {flag} {matches}, {inactive}")
    bits = code.emit(f"bitcast {flag} {matches} to i{s.width}")
    test = code.emit(f"icmp eq i{s.width} {bits}, -1")
    if s.mask and incrementing is None:
        active = code.emit(f"bitcast {flag} {s.mask} to i{s.width}")
        test = code.emit(f"and i1 {test}, {code.emit(f'icmp ne i{s.width} {active}, 0')}")
    return pointer, test


# Addresses -----------------------------------------------------------------------------------------------------------


def lane_address(
    s: State, pointer: str, is_vector: bool, offsets: Offsets, element: ElementType, component_stride: int = 1
) -> LaneAddress:
    """The addresses of the elements at pointer + offsets. `is_vector`: whether the pointer is a vector with an address
    per lane."""
    size, varying = str(element_bytes(element)), [(v, u) for v, u in offsets if s.known.varying(v)]
    n = components(element)
    unit_strides = [k for k, (_, unit) in enumerate(varying) if unit == size]
    if (
        not is_vector
        and varying
        and not unit_strides
        and all(_probably_follows_row(s, v) for v, _ in varying)
    ):
        return _row_address(s, pointer, offsets)
    if is_vector or not unit_strides or (n > 1 and (component_stride != 1 or n > MAX_INTERLEAVED)):
        return LaneAddress(pointers=_lane_addresses(s, pointer, is_vector, offsets))
    uniform_pointer, _ = offset_pointer(
        s, pointer, False, [(v, u) for v, u in offsets if not s.known.varying(v)]
    )
    if len(varying) == 1:
        index: Value = varying[0][0]
        first = _first_lane_index(s, index)
        if first is not None:
            if first.startswith("%"):
                first = convert(s.code, first, index.type, int64, 1)  # type: ignore[arg-type]
            return LaneAddress(first=s.memory.bytes_offset(uniform_pointer, s.memory.mul(first, size)))
    if not all(_probably_increments(s, v) for v, _ in varying):
        return LaneAddress(pointers=_lane_addresses(s, uniform_pointer, False, varying))
    start, test = _test_adjacent(s, uniform_pointer, varying, unit_strides[-1])
    return LaneAddress(start, _lane_addresses(s, uniform_pointer, False, varying), test)


def _row_address(s: State, pointer: str, offsets: Offsets) -> LaneAddress:
    varying = [(v, u) for v, u in offsets if s.known.varying(v)]
    uniform_pointer, _ = offset_pointer(
        s, pointer, False, [(v, u) for v, u in offsets if not s.known.varying(v)]
    )
    start, test = _test_adjacent(s, uniform_pointer, varying, None)
    return LaneAddress(start, _lane_addresses(s, uniform_pointer, False, varying), test, is_broadcast=True)


def _lane_addresses(s: State, pointer: str, is_vector: bool, offsets: Offsets) -> str:
    return pointer_vector(s, *offset_pointer(s, pointer, is_vector, offsets))


def pointer_vector(s: State, pointer: str, is_vector: bool) -> str:
    """The pointers of all lanes as a vector; a scalar pointer is splat."""
    if is_vector:
        return pointer
    return s.code.emit(f"getelementptr i8, ptr {pointer}, <{s.width} x i64> zeroinitializer")


def offset_pointer(s: State, pointer: str, is_vector: bool, offsets: Offsets) -> tuple[str, bool]:
    """The pointer plus the sum of each index times its stride, and whether the result is a vector with an address per
    lane: if `pointer` is such a vector (`is_vector`), or if an index varies."""
    uniform_offsets = [(v, unit) for v, unit in offsets if not s.known.varying(v)]
    code, width = s.code, s.width
    for v, unit in uniform_offsets:
        distance = s.memory.mul(s.i64(v), unit)
        if distance != "0":
            pointer = code.emit(
                f"getelementptr i8, {_pointer_type(is_vector, width)} {pointer}, i64 {distance}"
            )
    for v, unit in offsets:
        if not s.known.varying(v):
            continue
        index_vector = convert(code, s.scalar(v), v.type, int64, width)  # type: ignore[arg-type]
        scale = {"1": "i8", "2": "i16", "4": "i32", "8": "i64"}.get(unit)
        if scale is None:
            scale = "i8"
            index_vector = code.emit(f"mul <{width} x i64> {index_vector}, {s.memory.splat_i64(unit, width)}")
        pointer = code.emit(
            f"getelementptr {scale}, {_pointer_type(is_vector, width)} {pointer}, <{width} x i64> {index_vector}"
        )
        is_vector = True
    return pointer, is_vector


def _pointer_type(is_vector: bool, width: int) -> str:
    return vector_of("ptr", width) if is_vector else "ptr"
