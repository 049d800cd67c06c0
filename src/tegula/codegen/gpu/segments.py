"""Exchange between the lanes of a segment of a warp: by `shfl.sync`, `vote.sync` and `match.sync`, and by `redux.sync`
for 32-bit integers of a whole warp."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.gpu.exchange import ALL, REDUX, ballot, shuffle
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.scalar import Components, elementwise
from tegula.codegen.text import constant, register_type
from tegula.errors import InternalError
from tegula.ir import Op, Value
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
from tegula.ops.roles import WARP
from tegula.types import DType, int32, scalar_of


def _dtype(op: SegmentOp) -> DType:
    return scalar_of(op.value.type)  # type: ignore[arg-type]


def _clamp(op: SegmentOp) -> int:
    """The segment operand of `shfl.sync`: the mask of the lane bits that select the segment, and the largest lane
    index."""
    if op.width > WARP:
        raise InternalError(f"{op.loc}: a segment of {op.width} lanes is wider than a warp")
    return (WARP - op.width) << 8 | WARP - 1


def _value_or(s: GpuState, op: SegmentOp, missing: Components) -> Components:
    """The thread's value; `missing` in a thread without a lane."""
    parts = s.components(op.value)
    if not s.some_absent:
        return parts
    t = register_type(_dtype(op), 1)
    is_present = _is_present(s)
    pairs = zip(parts, missing, strict=True)
    return tuple(
        s.code.emit(f"select i1 {is_present}, {t} {x}, {t} {missing_component}")
        for x, missing_component in pairs
    )


def _is_present(s: GpuState) -> str:
    return s.code.emit(f"icmp ult i64 {s.lane}, {s.present}")


def _low_32_bits(s: GpuState, value: Value) -> str:
    """The low 32 bits of an integer."""
    (x,), t = s.components(value), value.type
    assert isinstance(t, DType)
    if not x.startswith("%"):
        return str(int(x) % (1 << 31))
    if t.bits == 32:
        return x
    return s.code.emit(
        f"{'trunc' if t.bits > 32 else 'sext' if t.is_signed else 'zext'} i{t.bits} {x} to i32"
    )


def _masked(s: GpuState, x: str, mask: int) -> str:
    return s.code.emit(f"and i32 {x}, {mask}") if x.startswith("%") else str(int(x) & mask)


def _index_in_segment(s: GpuState, op: SegmentOp) -> str:
    """The index of the thread in its segment."""
    return _masked(s, s.lane32, op.width - 1)


def _shuffle(s: GpuState, op: SegmentOp, parts: Sequence[str], mode: str, operand: str) -> Components:
    clamp = str(_clamp(op))
    return tuple(shuffle(s, x, _dtype(op), mode, operand, clamp) for x in parts)


def lane_shuffle(s: GpuState, op: LaneShuffle) -> None:
    """Lower `lane.shuffle`: `shfl.sync.idx` takes the source modulo the width."""
    values = _value_or(s, op, zeros(element(op.value.type)))
    s.scalars[op.result] = _shuffle(s, op, values, "idx", _low_32_bits(s, op.source))


def lane_xor(s: GpuState, op: LaneXor) -> None:
    """Lower `lane.xor`: a butterfly shuffle."""
    values = _value_or(s, op, zeros(element(op.value.type)))
    s.scalars[op.result] = _shuffle(s, op, values, "bfly", _masked(s, _low_32_bits(s, op.mask), op.width - 1))


def lane_reduce(s: GpuState, op: LaneReduce) -> None:
    """Lower `lane.reduce`: butterfly shuffles, or one instruction for integers."""
    dtype = _dtype(op)
    parts = _value_or(s, op, (constant(dtype, op.neutral),) * len(s.components(op.value)))
    s.scalars[op.result] = _reduce(s, op, op.combine, parts)


def _reduce(s: GpuState, op: SegmentOp, combine: type[Op], parts: Components) -> Components:
    dtype = _dtype(op)
    name = REDUX.get((combine, dtype.kind)) if dtype.bits == 32 and op.width == WARP else None
    if name is not None:
        return tuple(s.code.emit(f"call i32 @llvm.nvvm.redux.sync.{name}(i32 {x}, i32 {ALL})") for x in parts)
    distance = op.width // 2
    while distance:
        others = _shuffle(s, op, parts, "bfly", str(distance))
        pairs = zip(parts, others, strict=True)
        parts = tuple(elementwise(s.code, combine([], []), dtype, [x, y], 1) for x, y in pairs)
        distance //= 2
    return parts


def lane_collect(s: GpuState, op: LaneCollect) -> None:
    """Lower `lane.collect`. A uniform target is a reduction; otherwise each lane reads the targets and values of all
    other lanes."""
    dtype, t = _dtype(op), register_type(_dtype(op), 1)
    zero_components = zeros(op.value.type)  # type: ignore[arg-type]
    collected, target = (
        _value_or(s, op, zero_components),
        _masked(s, _low_32_bits(s, op.target), op.width - 1),
    )
    lane_index, code = _index_in_segment(s, op), s.code

    def select_components(condition: str, parts: Components, others: Components) -> Components:
        pairs = zip(parts, others, strict=True)
        return tuple(code.emit(f"select i1 {condition}, {t} {x}, {t} {y}") for x, y in pairs)

    if not s.known.varying(op.target):
        total = _reduce(s, op, S.Add, collected)
        s.scalars[op.result] = select_components(
            code.emit(f"icmp eq i32 {lane_index}, {target}"), total, zero_components
        )
        return
    sums = zero_components
    for k in range(op.width):
        lane_target = shuffle(s, target, int32, "idx", str(k), str(_clamp(op)))
        value = _shuffle(s, op, collected, "idx", str(k))
        pairs = zip(sums, value, strict=True)
        increased = tuple(elementwise(code, S.Add([], []), dtype, [x, y], 1) for x, y in pairs)
        sums = select_components(code.emit(f"icmp eq i32 {lane_index}, {lane_target}"), increased, sums)
    s.scalars[op.result] = sums


def lane_ballot(s: GpuState, op: LaneBallot) -> None:
    """Lower `lane.ballot`: the votes of the warp, reduced to the bits of the segment."""
    (flag,) = _value_or(s, op, ("false",))
    s.scalars[op.result] = (_segment_bits(s, op, ballot(s, flag)),)


def lane_match(s: GpuState, op: LaneMatch) -> None:
    """Lower `lane.match`: the match of the whole warp, reduced to the bits of the segment."""
    dtype = _dtype(op)
    (x,), code = s.components(op.value), s.code
    bits = 64 if dtype.bits == 64 else 32
    register_type_of_value = register_type(dtype, 1)
    if register_type_of_value != f"i{bits}" and x.startswith("%"):
        x = code.emit(f"{'sext' if dtype.is_signed else 'zext'} {register_type_of_value} {x} to i{bits}")
    elif not x.startswith("%"):
        x = {"true": "1", "false": "0"}.get(x, x)
    mask = code.emit(f"call i32 @llvm.nvvm.match.any.sync.i{bits}(i32 {ALL}, i{bits} {x})")
    if s.some_absent:
        mask = code.emit(f"and i32 {mask}, {ballot(s, _is_present(s))}")
    s.scalars[op.result] = (_segment_bits(s, op, mask),)


def _segment_bits(s: GpuState, op: SegmentOp, bits: str) -> str:
    """The bits of the thread's segment from a mask of the warp."""
    if op.width == WARP:
        return bits
    first = _masked(s, s.lane32, WARP - op.width)
    return _masked(s, s.code.emit(f"lshr i32 {bits}, {first}"), (1 << op.width) - 1)


RULES = {
    LaneShuffle: lane_shuffle,
    LaneXor: lane_xor,
    LaneReduce: lane_reduce,
    LaneCollect: lane_collect,
    LaneBallot: lane_ballot,
    LaneMatch: lane_match,
}
