"""Exchanges between lanes in the language."""

from __future__ import annotations

from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import element, public, require
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.convert import Bitcast
from tegula.ops.exchange import (
    VOTERS,
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

BOOLS = "count the lanes where x is true: tg.bit_count(tg.lane_ballot(x))"


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
        isinstance(value.type, DType) and value.type.is_int, f"{subject} is an integer, got {describe(x)}"
    )
    return value


@public("lane_shuffle", fields=moved("x"))
def lane_shuffle(b: OpBuilder, x: OfEachThread, source: Operand, width: Width = 32) -> Value:
    """The value of x in another lane of this thread's segment.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The value of an absent lane is 0.

    Parameters:
        source: the number of the lane in the segment, any integer, modulo the width.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `source` is not an integer.
    Gradient:
        the adjoint, for x in the source lane; the sum of the adjoints where several lanes read one lane.
    Source:
        PTX ISA, shfl.sync.idx.
    """
    return b.one(LaneShuffle, [_exchanged_value(b, x), _lane(b, source, "a lane")], _width(width))


@public("lane_collect")
def lane_collect(b: OpBuilder, x: NumbersOfEachThread, target: Operand, width: Width = 32) -> Value:
    """The sum of x over the lanes of the segment whose target is this lane: the inverse of tg.lane_shuffle where each
    lane is the target of exactly one lane.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. Absent lanes add nothing.

    Parameters:
        target: the number of a lane in the segment, any integer, modulo the width.
    Returns:
        a value of the type of `x`; 0 where no lane has this target. Lanes are added in their order.
    Raises:
        type-mismatch: `target` is not an integer.
    Gradient:
        the adjoint of the target.
    """
    value = _exchanged_value(b, x)
    require(not scalar_of(element(value.type)).is_bool, "sums of bools are not defined", BOOLS)
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
        the adjoint of that lane.
    Source:
        PTX ISA, shfl.sync.bfly.
    """
    return b.one(LaneXor, [_exchanged_value(b, x), _lane(b, mask, "the mask")], _width(width))


def _reduced(b: OpBuilder, x: Value, op: str, width: Operand) -> Value:
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
    require(not scalar.is_bool, "sums of bools are not defined", BOOLS)
    if not scalar.is_float or scalar.bits >= 32:
        return _reduced(b, value, "add", width)
    wide = b.cast(value, float32)
    assert isinstance(wide, Value)
    total = b.cast(_reduced(b, wide, "add", width), scalar)
    assert isinstance(total, Value)
    return total


EXTREME = """The {what} x of the segment of this thread, in all of its threads; of vectors each component by itself.

    A NaN loses to any number, and -0.0 is below 0.0. Absent lanes do not count.

    Returns:
        a value of the type of `x`.
    Gradient:
        the sum of the adjoints of the segment, in equal parts to the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """
FOUND = """The number in its segment of the first lane with the {what} x, in all lanes of the segment.

    A NaN loses to any number, and -0.0 is below 0.0; of NaNs alone the result is the first lane.

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


def _extreme(name: str, function: str) -> None:
    def build(b: OpBuilder, x: OfEachThread, width: Width = 32) -> Value:
        return _reduced(b, _exchanged_value(b, x), name, width)

    build.__doc__ = EXTREME.format(what=function)
    public(f"lane_{name}")(build)

    def find(b: OpBuilder, x: Operand, width: Width = 32) -> Value:
        value = _exchanged_value(b, x)
        require(isinstance(value.type, DType), f"lane_arg{name} needs scalars, got {value.type}")
        return _first(b, _is(b, value, _reduced(b, value, name, width)), width)

    find.__doc__ = FOUND.format(what=function)
    public(f"lane_arg{name}")(find)


_extreme("min", "smallest")
_extreme("max", "largest")


def _is(b: OpBuilder, x: Value, best: Value) -> Value:
    """Whether x is the extreme value, with -0.0 and 0.0 distinguished; true in all lanes if the extreme is NaN."""
    dtype = scalar_of(element(x.type))
    if not dtype.is_float:
        return b.one(S.Cmp, [x, best], {"pred": "eq"})
    bits = DTYPES[f"uint{dtype.bits}"]
    same = b.one(S.Cmp, [b.one(Bitcast, [v], {"to": bits}) for v in (x, best)], {"pred": "eq"})
    return b.one(S.Or, [same, b.one(S.Classify, [best], {"test": "isnan"})])


def _first(b: OpBuilder, flag: Value, width: Operand) -> Value:
    """The number of the first lane of the segment whose flag is true."""
    if isinstance(width, int) and width <= VOTERS:
        votes = b.one(LaneBallot, [flag], _width(width))
        first = b.cast(b.one(S.LeadingZeros, [b.one(S.ReversedBits, [votes])]), int32)
        assert isinstance(first, Value)
        return first
    assert isinstance(width, int)
    lane = b.one(S.And, [b.one(LaneIndex, []), b.const(width - 1, int32)])
    return _reduced(b, b.one(S.Select, [flag, lane, b.const(width, int32)]), "min", width)


@public("lane_ballot")
def lane_ballot(b: OpBuilder, flag: Operand, width: WidthOfBits = 32) -> Value:
    """The lanes of this thread's segment whose flag is true, as a bit mask: bit k is lane k.

    Parameters:
        flag: a bool or a number, true unless 0, of each thread.
    Returns:
        a uint32; absent lanes have no bit.
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
        a uint32; absent lanes match none.
    Raises:
        type-mismatch: `x` is neither an integer nor a bool.
    Gradient:
        none: the result is an integer.
    Source:
        PTX ISA, match.any.sync.
    """
    return b.one(LaneMatch, [_exchanged_value(b, x)], _width(width))
