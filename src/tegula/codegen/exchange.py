"""Exchange between the lanes of a segment. The lanes' values are in memory, component-major, and are loaded as vectors,
permuted or combined, and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.codegen.scalar import Components, elementwise
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.codegen.text import constant, register_type, vector_of
from tegula.ir import Value
from tegula.ops import scalar as S
from tegula.ops.base import element
from tegula.ops.exchange import (
    LaneBallot,
    LaneCollect,
    LaneMatch,
    LaneReduce,
    LaneShuffle,
    LaneXor,
    SegmentOp,
)
from tegula.types import DType, ElementType, components, scalar_of, uint32


class _Segments:
    """The segments of an op. The last segment may have lanes that are absent from the block."""

    def __init__(self, s: State, op: SegmentOp) -> None:
        self.s, self.width = s, op.width
        self.lanes = s.block_dim
        self.padded_lanes = -(-self.lanes // op.width) * op.width
        self.is_full = s.present == str(self.padded_lanes)

    def allocate(self, name: str, dtype: ElementType) -> View:
        """Memory for one value per lane, absent lanes included."""
        view = self.s.allocate(name, dtype, (self.padded_lanes,))
        return View(view.pointer, dtype, (self.padded_lanes,), (1,), self.padded_lanes)

    def values(self, value: Value, missing: float = 0) -> View:
        """A view of the lanes' values in memory, with `missing` for absent lanes."""
        s, dtype = self.s, value.type
        if value in s.lanes and self.is_full:
            return s.lanes[value]
        view = self.allocate("lanes", dtype)  # type: ignore[arg-type]
        with s.code.loop("0", s.present) as loop:
            s.memory.store_view(view, [loop.index], self.lane_value(value, loop.index), 1)
        fill = (constant(scalar_of(view.dtype), missing),) * components(view.dtype)
        with s.code.loop(s.present, str(self.padded_lanes)) as loop:
            s.memory.store_view(view, [loop.index], fill, 1)
        return view

    def lane_value(self, value: Value, lane: str) -> Components:
        """The components of one lane's value."""
        s = self.s
        return s.memory.load_view(s.lanes[value], [lane], 1) if value in s.lanes else s.components(value)

    def member(self, lane: str, number: str) -> str:
        """The lane with index `number`, modulo the width, in the segment of `lane`."""
        s = self.s
        first = s.code.emit(f"and i64 {lane}, {-self.width}")
        return s.memory.add(first, s.code.emit(f"and i64 {number}, {self.width - 1}"))

    def number(self, value: Value, lane: str) -> str:
        """The integer value of one lane, as i64."""
        s, t = self.s, value.type
        assert isinstance(t, DType)
        (x,) = self.lane_value(value, lane)
        if t.bits == 64 or not x.startswith("%"):
            return x
        return s.code.emit(f"{'sext' if t.is_signed else 'zext'} i{t.bits} {x} to i64")

    def lanes_per_vector(self, dtype: DType) -> int:
        """The number of lanes of a segment that a vector holds."""
        return min(self.width, max(1, self.s.target.vector_bytes * 8 // max(8, dtype.bits)))

    def set_result(self, op: SegmentOp, view: View) -> None:
        self.s.lanes[op.result] = view


def _component_addresses(s: State, view: View, lane: str) -> list[str]:
    """The addresses of the components of a lane's value."""
    first, scalar = s.memory.at(view, [lane]), scalar_of(view.dtype)
    return [
        s.memory.offset(first, str(c * view.component_stride), scalar) for c in range(components(view.dtype))
    ]


def shuffle(s: State, op: LaneShuffle) -> None:
    """Lower `lane.shuffle`: each lane reads the value of its source."""
    _read_other_lanes(s, op, lambda rows, lane: rows.number(op.source, lane))


def xor_lanes(s: State, op: LaneXor) -> None:
    """Lower `lane.xor`. For a constant mask, whole vectors are permuted and stored to their target lanes."""
    owner = op.mask.owner
    if not isinstance(owner, S.Const):
        _read_other_lanes(s, op, lambda rows, lane: s.code.emit(f"xor i64 {lane}, {s.i64(op.mask)}"))
        return
    rows, mask = _Segments(s, op), int(owner.value) % op.width
    source, result = rows.values(op.value), rows.allocate("flipped", element(op.result.type))
    scalar = scalar_of(result.dtype)
    width, t = rows.lanes_per_vector(scalar), register_type(scalar, 1)
    order = [k ^ mask & (width - 1) for k in range(width)]
    with s.code.loop("0", str(rows.padded_lanes), str(width)) as loop:
        offset = mask & -width
        source_lane = s.code.emit(f"xor i64 {loop.index}, {offset}") if offset else loop.index
        for a, b in zip(
            _component_addresses(s, source, source_lane),
            _component_addresses(s, result, loop.index),
            strict=True,
        ):
            x = s.memory.load(a, scalar, width)
            x = s.memory.shuffled(x, "poison", t, width, order) if width > 1 else x
            s.memory.store(b, x, scalar, width)
    rows.set_result(op, result)


Source = Callable[[_Segments, str], str]


def _read_other_lanes(s: State, op: SegmentOp, source: Source) -> None:
    """Lower an op that reads the value of another lane, lane by lane."""
    rows = _Segments(s, op)
    values, result = rows.values(op.value), rows.allocate("picked", element(op.result.type))
    with s.code.loop("0", s.present) as loop:
        member = rows.member(loop.index, source(rows, loop.index))
        s.memory.store_view(result, [loop.index], s.memory.load_view(values, [member], 1), 1)
    rows.set_result(op, result)


def collect(s: State, op: LaneCollect) -> None:
    """Lower `lane.collect`: each lane's value is added to the sum of its target lane."""
    rows = _Segments(s, op)
    result = rows.allocate("collected", element(op.result.type))
    scalar = scalar_of(result.dtype)
    zero = (constant(scalar, 0),) * components(result.dtype)
    with s.code.loop("0", str(rows.padded_lanes)) as loop:
        s.memory.store_view(result, [loop.index], zero, 1)
    with s.code.loop("0", s.present) as loop:
        member = rows.member(loop.index, rows.number(op.target, loop.index))
        total_before, addend = s.memory.load_view(result, [member], 1), rows.lane_value(op.value, loop.index)
        total = tuple(_combine(s, S.Add, scalar, a, b, 1) for a, b in zip(total_before, addend, strict=True))
        s.memory.store_view(result, [member], total, 1)
    rows.set_result(op, result)


def _combine(s: State, kind: type, dtype: DType, a: str, b: str, width: int) -> str:
    return elementwise(s.code, kind([], []), dtype, [a, b], width)


def reduce(s: State, op: LaneReduce) -> None:
    """Lower `lane.reduce`: halves of a segment are combined until one value remains, which is broadcast to the
    segment."""
    rows, scalar = _Segments(s, op), scalar_of(op.result.type)  # type: ignore[arg-type]
    values, result = (
        rows.values(op.value, op.neutral),
        rows.allocate("reduced", op.result.type),  # type: ignore[arg-type]
    )
    width = rows.lanes_per_vector(scalar)
    with s.code.loop("0", str(rows.padded_lanes), str(rows.width)) as loop:
        starts = [s.memory.add(loop.index, str(k)) for k in range(0, rows.width, width)]
        sources = [_component_addresses(s, values, member) for member in starts]
        targets = [_component_addresses(s, result, member) for member in starts]
        for c in range(components(result.dtype)):
            total = _reduce_vectors(
                s, op.combine, scalar, [s.memory.load(p[c], scalar, width) for p in sources], width
            )
            splat = s.memory.splat(total, scalar, width)
            for p in targets:
                s.memory.store(p[c], splat, scalar, width)
    rows.set_result(op, result)


def _reduce_vectors(s: State, kind: type, dtype: DType, vectors: Sequence[str], width: int) -> str:
    while len(vectors) > 1:
        half = len(vectors) // 2
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [_combine(s, kind, dtype, a, b, width) for a, b in pairs]
    (vector,), t = vectors, register_type(dtype, 1)
    while width > 1:
        half = width // 2
        low, high = (s.memory.shuffled(vector, "poison", t, width, [*range(k, k + half)]) for k in (0, half))
        if half == 1:
            low, high = (s.code.emit(f"extractelement <1 x {t}> {x}, i32 0") for x in (low, high))
        vector, width = _combine(s, kind, dtype, low, high, half), half
    return vector


def ballot(s: State, op: LaneBallot) -> None:
    """Lower `lane.ballot`: the flags of a segment become the bits of an integer."""
    rows = _Segments(s, op)
    values, result = rows.values(op.value), rows.allocate("votes", uint32)
    with s.code.loop("0", str(rows.padded_lanes), str(rows.width)) as loop:
        flags = s.memory.load(s.memory.at(values, [loop.index]), scalar_of(values.dtype), rows.width)
        splat = s.memory.splat(_bits(s, flags, rows.width), uint32, rows.width)
        s.memory.store(s.memory.at(result, [loop.index]), splat, uint32, rows.width)
    rows.set_result(op, result)


def _bits(s: State, flags: str, width: int) -> str:
    """A vector of flags as the bits of an i32."""
    bits = s.code.emit(f"bitcast {vector_of('i1', width)} {flags} to i{width}") if width > 1 else flags
    return bits if width == 32 else s.code.emit(f"zext i{width} {bits} to i32")


def match(s: State, op: LaneMatch) -> None:
    """Lower `lane.match`: each lane compares its value with the values of its segment's lanes."""
    rows = _Segments(s, op)
    values, result = rows.values(op.value), rows.allocate("matches", uint32)
    dtype = scalar_of(values.dtype)
    t = register_type(dtype, rows.width)
    with s.code.loop("0", s.present) as loop:
        first = s.code.emit(f"and i64 {loop.index}, {-rows.width}")
        x = s.memory.load(s.memory.at(values, [loop.index]), dtype)
        row = s.memory.load(s.memory.at(values, [first]), dtype, rows.width)
        is_equal = s.code.emit(f"icmp eq {t} {row}, {s.memory.splat(x, dtype, rows.width)}")
        if not rows.is_full:
            lanes, limit = s.memory.iota(first, rows.width), s.memory.splat_i64(s.present, rows.width)
            is_present = s.code.emit(f"icmp ult {vector_of('i64', rows.width)} {lanes}, {limit}")
            is_equal = s.code.emit(f"and {vector_of('i1', rows.width)} {is_equal}, {is_present}")
        s.memory.store(s.memory.at(result, [loop.index]), _bits(s, is_equal, rows.width), uint32)
    rows.set_result(op, result)


RULES = {
    LaneShuffle: shuffle,
    LaneXor: xor_lanes,
    LaneCollect: collect,
    LaneReduce: reduce,
    LaneBallot: ballot,
    LaneMatch: match,
}
