"""The addresses of elements for the lanes of a vector, and the analysis of indices that increase by one per lane."""

from __future__ import annotations

from tegula.codegen.arrays import thread_component
from tegula.codegen.convert import convert
from tegula.codegen.scalar import elementwise
from tegula.codegen.state import State
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

INTERLEAVED = 4
"""Elements of at most this many components are deinterleaved in registers; larger ones are gathered."""

NEAR = 4
"""The search depth, in operations, for a thread index that an index is computed from."""


@dataclass(frozen=True, slots=True)
class LaneAddress:
    """The addresses of the lanes' elements: adjacent from address `first` on, or a vector of addresses, `each`. If both
    are set, the i1 register `test` selects at run time: it is true if the elements of all active lanes are adjacent
    from `first` on, or, with `shared`, if a lane is active and all active lanes access the element at `first`."""

    first: str = ""
    each: str = ""
    test: str = ""
    shared: bool = False


# Thread indices ------------------------------------------------------------------------------------------------------


def own_index(s: State, k: int) -> str:
    """Component k of the thread index of each lane."""
    if s.width == 1:
        return thread_component(s, k, uniform=False)
    if _counts_lanes(s, k):
        return _upwards(s, thread_component(s, k, uniform=False), int32)
    return _unflattened(s, k)


def lane_numbers(s: State) -> str:
    """The lane number of each lane."""
    return _upwards(s, s.code.emit(f"trunc i64 {s.lane} to i32"), int32)


def _counts_lanes(s: State, k: int) -> bool:
    """Whether component k of the thread index increases by one from lane to lane."""
    launch = s.kernel.launch
    last = k == launch.ndim - 1
    return last and (launch.last_is_block or launch.ndim == 1 or launch.uniform[k - 1])


def _upwards(s: State, first: str, dtype: DType) -> str:
    t = register_type(dtype, 1)
    steps = ", ".join(f"{t} {k}" for k in range(s.width))
    return s.code.emit(f"add <{s.width} x {t}> {s.memory.splat(first, dtype, s.width)}, <{steps}>")


def _unflattened(s: State, k: int) -> str:
    """Component k if a row may end between lanes: 64-bit division yields the first lane's index, and the other lanes'
    indices follow from their distance to the end of the row."""
    code, width, rank = s.code, s.width, s.kernel.launch.ndim
    t = register_type(uint32, width)
    rest = code.emit(f"add i64 {s.first_thread()}, {s.lane}")
    beyond = _upwards(s, "0", uint32)
    for d in range(rank - 1, k - 1, -1):
        at = code.emit(f"urem i64 {rest}, {s.dims[d]}") if d > 0 else rest
        first = code.emit(f"trunc i64 {at} to i32")
        index_vector = code.emit(f"add {t} {s.memory.splat(first, uint32, width)}, {beyond}")
        if d == 0:
            return index_vector
        length = s.memory.splat(code.emit(f"trunc i64 {s.dims[d]} to i32"), uint32, width)
        if d == k:
            return elementwise(code, S.Mod([], []), uint32, [index_vector, length], width)
        beyond = elementwise(code, S.Div([], []), uint32, [index_vector, length], width)
        rest = code.emit(f"udiv i64 {rest}, {s.dims[d]}")
    raise AssertionError("the loop ends at component k")


# Neighbours ----------------------------------------------------------------------------------------------------------


def _first_lane_index(s: State, value: Value, crossed: bool = False) -> str | None:
    """The first lane's index if the index increases by one per lane, else None. `crossed`: whether an earlier lane loop
    computed the index.

    Integers wrap, but a signed index that wraps is negative and out of bounds, so the lane is not active."""
    dtype: DType = value.type  # type: ignore[assignment]
    source = _source(value)
    owner, crossed = source.owner, crossed or source is not value
    if isinstance(owner, LaneIndex):
        return s.code.emit(f"trunc i64 {s.lane} to i32")
    if isinstance(owner, Tid):
        k = owner.results.index(source)
        return thread_component(s, k, uniform=False) if _counts_lanes(s, k) else None
    if dtype.kind != "i":
        return None
    if isinstance(owner, Cast):
        exact = isinstance(_source(owner.x).owner, Tid | LaneIndex)
        first = _first_lane_index(s, owner.x, crossed) if exact and dtype.bits >= int32.bits else None
        return None if first is None else convert(s.code, first, int32, dtype, 1)
    if isinstance(owner, S.Add | S.Sub):
        return _first_lane_index_of_sum(s, owner, dtype, crossed)
    if isinstance(owner, Region) and not crossed and _strided(s, source, owner):
        return s.memory.lane(s.scalar(source), dtype, s.width, 0)
    return None


def _source(value: Value) -> Value:
    """The value inside an earlier lane loop that the loop yields as this one; otherwise the value itself."""
    while isinstance(value.owner, Lanes):
        value = value.owner.body.yielded[value.owner.results.index(value)]
    return value


def _first_lane_index_of_sum(s: State, op: S.Add | S.Sub, dtype: DType, crossed: bool) -> str | None:
    for varying, other in [(op.a, op.b)] if isinstance(op, S.Sub) else [(op.a, op.b), (op.b, op.a)]:
        if (
            s.known.varying(other)
            or not s.known.varying(varying)
            or (crossed and not _is_in_register(s, other))
        ):
            continue
        first = _first_lane_index(s, varying, crossed)
        if first is not None:
            return elementwise(s.code, op, dtype, [first, s.scalar(other)], 1)
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


def _strided(s: State, value: Value, region: Region) -> bool:
    """Whether a value is the induction variable of a loop with adjacent start values and a uniform step."""
    loop = region.parent
    return (
        isinstance(loop, For)
        and loop.index is value
        and not s.known.varying(loop.step)
        and _first_lane_index(s, loop.start) is not None
    )


def _probably_increments(s: State, value: Value, depth: int = NEAR) -> bool:
    """Whether the index probably increases by one per lane, except at the end of a row or at a border."""
    owner = _source(value).owner
    if isinstance(owner, Tid | LaneIndex):
        return True
    if depth == 0 or not isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Select | Cast):
        return False
    values = [owner.a, owner.b] if isinstance(owner, S.Select) else [*owner.operands]
    varying = [v for v in values if s.known.varying(v)]
    return bool(varying) and all(_probably_increments(s, v, depth - 1) for v in varying)


ROW = (S.Add, S.Sub, S.Mul, S.Div, S.FloorDiv, S.Mod, S.Min, S.Max, S.Select, Cast)


def _probably_follows_row(s: State, value: Value, depth: int = NEAR) -> bool:
    """Whether the index is probably uniform except at the end of a row, because it derives from a component of the
    thread index other than the last."""
    source = _source(value)
    owner = source.owner
    if isinstance(owner, Tid):
        return owner.results.index(source) < s.kernel.launch.ndim - 1
    if depth == 0 or not isinstance(owner, ROW):
        return False
    varying = [v for v in owner.operands if s.known.varying(v)]
    return bool(varying) and all(_probably_follows_row(s, v, depth - 1) for v in varying)


def _agrees(s: State, value: Value, step: int) -> tuple[str, str]:
    """The first lane's index as i64, and the mask of the lanes whose index is the first lane's index plus `step` times
    the lane number."""
    t, code, width = f"<{s.width} x i64>", s.code, s.width
    index = convert(code, s.scalar(value), value.type, int64, width)  # type: ignore[arg-type]
    first = code.emit(f"extractelement {t} {index}, i32 0")
    lanes_expected = s.memory.iota(first, width) if step else s.memory.splat_i64(first, width)
    return first, code.emit(f"icmp eq {t} {index}, {lanes_expected}")


def _test_adjacent(s: State, pointer: str, varying: Offsets, neighbour: int | None) -> tuple[str, str]:
    """The first lane's address, and whether the addresses of all active lanes follow from it. `neighbour`: the position
    of the index that must increase by one per lane, if any."""
    code, flag = s.code, vector_of("i1", s.width)
    good = code.emit(f"xor {flag} {s.mask}, splat (i1 true)") if s.mask else ""
    agreed = ""
    for k, (value, unit) in enumerate(varying):
        first, same = _agrees(s, value, int(k == neighbour))
        agreed = code.emit(f"and {flag} {agreed}, {same}") if agreed else same
        pointer = s.memory.bytes_offset(pointer, s.memory.mul(first, unit))
    if good:
        agreed = code.emit(f"or {flag} {agreed}, {good}")
    bits = code.emit(f"bitcast {flag} {agreed} to i{s.width}")
    test = code.emit(f"icmp eq i{s.width} {bits}, -1")
    if s.mask and neighbour is None:
        active = code.emit(f"bitcast {flag} {s.mask} to i{s.width}")
        test = code.emit(f"and i1 {test}, {code.emit(f'icmp ne i{s.width} {active}, 0')}")
    return pointer, test


# Addresses -----------------------------------------------------------------------------------------------------------


def lane_address(
    s: State, pointer: str, spread: bool, offsets: Offsets, element: ElementType, component_stride: int = 1
) -> LaneAddress:
    """The addresses of the elements at pointer + offsets. `spread`: whether the pointer is a vector with an element per
    lane."""
    size, varying = str(element_bytes(element)), [(v, u) for v, u in offsets if s.known.varying(v)]
    n = components(element)
    counting = [k for k, (_, unit) in enumerate(varying) if unit == size]
    if not spread and varying and not counting and all(_probably_follows_row(s, v) for v, _ in varying):
        return _row_place(s, pointer, offsets)
    if spread or not counting or (n > 1 and (component_stride != 1 or n > INTERLEAVED)):
        return LaneAddress(each=_lane_addresses(s, pointer, spread, offsets))
    fixed, _ = moved(s, pointer, False, [(v, u) for v, u in offsets if not s.known.varying(v)])
    if len(varying) == 1:
        index: Value = varying[0][0]
        first = _first_lane_index(s, index)
        if first is not None:
            if first.startswith("%"):
                first = convert(s.code, first, index.type, int64, 1)  # type: ignore[arg-type]
            return LaneAddress(first=s.memory.bytes_offset(fixed, s.memory.mul(first, size)))
    if not all(_probably_increments(s, v) for v, _ in varying):
        return LaneAddress(each=_lane_addresses(s, fixed, False, varying))
    start, test = _test_adjacent(s, fixed, varying, counting[-1])
    return LaneAddress(start, _lane_addresses(s, fixed, False, varying), test)


def _row_place(s: State, pointer: str, offsets: Offsets) -> LaneAddress:
    varying = [(v, u) for v, u in offsets if s.known.varying(v)]
    fixed, _ = moved(s, pointer, False, [(v, u) for v, u in offsets if not s.known.varying(v)])
    start, test = _test_adjacent(s, fixed, varying, None)
    return LaneAddress(start, _lane_addresses(s, fixed, False, varying), test, shared=True)


def _lane_addresses(s: State, pointer: str, spread: bool, offsets: Offsets) -> str:
    return spread_pointer(s, *moved(s, pointer, spread, offsets))


def spread_pointer(s: State, pointer: str, spread: bool) -> str:
    """A vector of one pointer for each lane."""
    if spread:
        return pointer
    return s.code.emit(f"getelementptr i8, ptr {pointer}, <{s.width} x i64> zeroinitializer")


def moved(s: State, pointer: str, spread: bool, offsets: Offsets) -> tuple[str, bool]:
    """The pointer plus each index times its unit, and whether the result is a vector with an element per lane, because
    the pointer was one (`spread`) or an index varies."""
    fixed = [(v, unit) for v, unit in offsets if not s.known.varying(v)]
    code, width = s.code, s.width
    for v, unit in fixed:
        step = s.memory.mul(s.i64(v), unit)
        if step != "0":
            pointer = code.emit(f"getelementptr i8, {_pointers(spread, width)} {pointer}, i64 {step}")
    for v, unit in offsets:
        if not s.known.varying(v):
            continue
        wide = convert(code, s.scalar(v), v.type, int64, width)  # type: ignore[arg-type]
        scale = {"1": "i8", "2": "i16", "4": "i32", "8": "i64"}.get(unit)
        if scale is None:
            scale = "i8"
            wide = code.emit(f"mul <{width} x i64> {wide}, {s.memory.splat_i64(unit, width)}")
        pointer = code.emit(
            f"getelementptr {scale}, {_pointers(spread, width)} {pointer}, <{width} x i64> {wide}"
        )
        spread = True
    return pointer, spread


def _pointers(spread: bool, width: int) -> str:
    return vector_of("ptr", width) if spread else "ptr"
