"""Exchanges between lanes in the language."""

from __future__ import annotations

from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import element, public, require
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.convert import Bitcast
from tegula.ops.exchange import (
    MAX_VOTERS,
    LaneBallot,
    LaneCollect,
    LaneMatch,
    LaneReduce,
    LaneShuffle,
    LaneXor,
)
from tegula.ops.kinds import NumbersOfEachThread, OfEachThread, Width, WidthOfBits
from tegula.ops.lane import LaneIndex
from tegula.ops.structs import moved
from tegula.types import DTYPES, DType, float32, int32, scalar_of

BOOLS_HELP = "count the lanes where x is true: tg.bit_count(tg.lane_ballot(x))"


def _width(width: Operand) -> dict[str, int]:
    if not isinstance(width, int) or isinstance(width, bool):
        raise TypeRule("", "", "NotConstant", culprit=width, what="the width of a segment")
    return {"width": width}


def _exchanged_value(b: OpBuilder, x: Operand) -> Value:
    """A value per lane; TypeRule for a tile."""
    if b.is_tile(x):
        message = f"lanes exchange scalars, vectors and matrices, got {describe(x)}"
        raise TypeRule(message, "read the element of each lane with tg.untile(t)", culprit=x)
    return b.value(x)


def _lane(b: OpBuilder, x: Operand, subject: str) -> Value:
    value = b.value(x)
    require(
        isinstance(value.type, DType) and value.type.is_int,
        f"{subject} must be an integer, got {describe(x)}",
    )
    return value


@public("lane_shuffle", fields=moved("x"))
def lane_shuffle(b: OpBuilder, x: OfEachThread, source: Operand, width: Width = 32) -> Value:
    """The value of x in another lane of this thread's segment.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The value of an absent lane is 0.

    Parameters:
        source: the index of the lane in the segment, any integer, modulo the width.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `source` is not an integer.
    Gradient:
        the adjoint, for x in the source lane; the sum of the adjoints if several lanes read one lane.
    Source:
        PTX ISA, shfl.sync.idx.
    """
    return b.one(LaneShuffle, [_exchanged_value(b, x), _lane(b, source, "a lane")], _width(width))


@public("lane_collect")
def lane_collect(b: OpBuilder, x: NumbersOfEachThread, target: Operand, width: Width = 32) -> Value:
    """The sum of x over the lanes of the segment whose target is this lane: the inverse of tg.lane_shuffle if each lane
    is the target of exactly one lane.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. Absent lanes add nothing.

    Parameters:
        target: the index of a lane in the segment, any integer, modulo the width.
    Returns:
        a value of the type of `x`; 0 if no lane has this target. Values are added in the order of the lanes.
    Raises:
        type-mismatch: `target` is not an integer.
    Gradient:
        the adjoint of the target.
    """
    value = _exchanged_value(b, x)
    require(not scalar_of(element(value.type)).is_bool, "sums of bools are not defined", BOOLS_HELP)
    return b.one(LaneCollect, [value, _lane(b, target, "a lane")], _width(width))


@public("lane_xor", fields=moved("x"))
def lane_xor(b: OpBuilder, x: OfEachThread, mask: Operand, width: Width = 32) -> Value:
    """The value of x in the lane whose index in the segment is this lane's index with the bits of a mask flipped.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The value of an absent lane is 0.

    Parameters:
        mask: an integer, modulo the width, the same in all threads: the value of thread 0 is used.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `mask` is not an integer.
    Gradient:
        the adjoint of the other lane.
    Source:
        PTX ISA, shfl.sync.bfly.
    """
    return b.one(LaneXor, [_exchanged_value(b, x), _lane(b, mask, "the mask")], _width(width))


def _reduce(b: OpBuilder, x: Value, op: str, width: Operand) -> Value:
    return b.one(LaneReduce, [x], {"op": op, **_width(width)})


@public("lane_sum")
def lane_sum(b: OpBuilder, x: NumbersOfEachThread, width: Width = 32) -> Value:
    """The sum of x over this thread's segment, component by component; all threads of the segment get the same bits.

    Floats narrower than 32 bits are added in float32, and the sum is rounded once; integers wrap. Absent lanes
    add nothing.

    Returns:
        a value of the type of `x`.
    Gradient:
        the sum of the adjoints of the segment.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """
    value = _exchanged_value(b, x)
    scalar = scalar_of(element(value.type))
    require(not scalar.is_bool, "sums of bools are not defined", BOOLS_HELP)
    if not scalar.is_float or scalar.bits >= 32:
        return _reduce(b, value, "add", width)
    in_float32 = b.cast(value, float32)
    assert isinstance(in_float32, Value)
    total = b.cast(_reduce(b, in_float32, "add", width), scalar)
    assert isinstance(total, Value)
    return total


EXTREME = """The {what} x in this thread's segment, component by component, for all threads of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0. Absent lanes are ignored.

    Returns:
        a value of the type of `x`.
    Gradient:
        the sum of the adjoints of the segment, split equally between the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """
ARG_EXTREME = """The index in the segment of the first lane with the {what} x, for all lanes of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0; if all values are NaN the result is lane 0.

    Parameters:
        x: a scalar, of each thread.
    Returns:
        an int32 from 0 to width - 1.
    Raises:
        type-mismatch: `x` is not a scalar.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: the result is an integer.
    """


def _define_extreme(name: str, function: str) -> None:
    def build(b: OpBuilder, x: OfEachThread, width: Width = 32) -> Value:
        return _reduce(b, _exchanged_value(b, x), name, width)

    build.__doc__ = EXTREME.format(what=function)
    public(f"lane_{name}")(build)

    def find(b: OpBuilder, x: Operand, width: Width = 32) -> Value:
        value = _exchanged_value(b, x)
        require(isinstance(value.type, DType), f"lane_arg{name} needs scalars, got {value.type}")
        return _first_lane(b, _is_extreme(b, value, _reduce(b, value, name, width)), width)

    find.__doc__ = ARG_EXTREME.format(what=function)
    public(f"lane_arg{name}")(find)


_define_extreme("min", "smallest")
_define_extreme("max", "largest")


def _is_extreme(b: OpBuilder, x: Value, extreme: Value) -> Value:
    """Whether x is the extreme value, with -0.0 and 0.0 distinguished; true in all lanes if the extreme is NaN."""
    dtype = scalar_of(element(x.type))
    if not dtype.is_float:
        return b.one(S.Cmp, [x, extreme], {"pred": "eq"})
    bits = DTYPES[f"uint{dtype.bits}"]
    same_bits = b.one(S.Cmp, [b.one(Bitcast, [v], {"to": bits}) for v in (x, extreme)], {"pred": "eq"})
    return b.one(S.Or, [same_bits, b.one(S.Classify, [extreme], {"test": "isnan"})])


def _first_lane(b: OpBuilder, flag: Value, width: Operand) -> Value:
    """The index in the segment of the first lane whose flag is true."""
    if isinstance(width, int) and width <= MAX_VOTERS:
        votes = b.one(LaneBallot, [flag], _width(width))
        first = b.cast(b.one(S.LeadingZeros, [b.one(S.ReversedBits, [votes])]), int32)
        assert isinstance(first, Value)
        return first
    assert isinstance(width, int)
    lane = b.one(S.And, [b.one(LaneIndex, []), b.const(width - 1, int32)])
    return _reduce(b, b.one(S.Select, [flag, lane, b.const(width, int32)]), "min", width)


@public("lane_ballot")
def lane_ballot(b: OpBuilder, flag: Operand, width: WidthOfBits = 32) -> Value:
    """The lanes of this thread's segment whose flag is true, as a bit mask: bit k is lane k.

    Parameters:
        flag: a bool or a number, true unless 0, of each thread.
    Returns:
        a uint32; the bits of absent lanes are 0.
    Raises:
        type-mismatch: `flag` is not a scalar.
    Gradient:
        none: the result is an integer.
    Source:
        PTX ISA, vote.sync.ballot.
    """
    return b.one(LaneBallot, [b.truth(flag)], _width(width))


@public("match_any")
def match_any(b: OpBuilder, x: Operand, width: WidthOfBits = 32) -> Value:
    """The lanes of this thread's segment that have the same x, as a bit mask: bit k is lane k.

    Parameters:
        x: an integer or bool, of each thread.
    Returns:
        a uint32; the bits of absent lanes are 0.
    Raises:
        type-mismatch: `x` is neither an integer nor a bool.
    Gradient:
        none: the result is an integer.
    Source:
        PTX ISA, match.any.sync.
    """
    return b.one(LaneMatch, [_exchanged_value(b, x)], _width(width))
