"""Exchanges of values between lanes in aligned segments of `width` lanes: shuffles, sums, extremes, votes.

`width` is a power of two. Lane l is in segment l / width, whose lanes are counted from 0. The value of an absent lane,
and of a lane that the group does not have, is 0 in shuffles; such lanes are ignored in sums, extremes and votes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tegula.ir import Op, Region, Value
from tegula.ir.fields import attr, operand
from tegula.ops.base import Binary, element, require, require_range
from tegula.ops.control import For
from tegula.ops.convert import Cast
from tegula.ops.integer_ranges import range_of_type
from tegula.ops.scalar import Add, And, Cmp, Div, Max, Min, Or, Select, Xor
from tegula.types import DType, ElementType, Type, bool_, int32, scalar_of, uint32

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

MAX_SEGMENT = 1024
"""The maximum number of lanes of a segment."""
MAX_VOTERS = 32
"""The maximum number of lanes of a segment whose votes are the bits of one integer."""
COMBINE: dict[str, type[Binary]] = {"add": Add, "min": Min, "max": Max}
LaneReader = Callable[..., Value]
"""A function that builds, inside the code of a lane, a read of another lane's value. Arguments: the index of the other
lane in the group, and optionally the value of absent lanes, 0 by default."""


class GroupMemory(Protocol):
    """The builder of exchanges through memory that the group shares."""

    def one(self, op: type[Op], operands: Sequence[Value], attrs: Mapping[str, Any] | None = None) -> Value:
        """Insert an op and return its result."""
        ...

    def emit(
        self,
        op: type[Op],
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Insert an op and return its results."""
        ...

    def const(self, value: Any, dtype: ElementType) -> Value:
        """A constant of an element type."""
        ...

    def filled(self, region: Region, build: Callable[[], Sequence[Value]]) -> Region:
        """Fill the region with the ops that `build` inserts, and a yield of the values that `build` returns. Returns
        the region."""
        ...

    def shown(self, value: Value) -> LaneReader:
        """Store the value of each lane in memory that the group shares, and return the function that reads the
        values."""
        ...

    def in_lanes(self, build: Callable[[Value], Value]) -> Value:
        """The value that each lane computes independently from its index in the group, an int32."""
        ...


class SegmentOp(Op):
    """Base of the ops on segments of lanes. Cooperative: all lanes of the group execute the op together."""

    __slots__ = ()
    COOPERATIVE = True
    VARYING = True
    MAX_WIDTH = MAX_SEGMENT
    value = operand(lane=True)
    width = attr(32)

    def infer(self) -> Sequence[Type]:
        width, max_width = self.width, self.MAX_WIDTH
        require_range(
            0 < width <= max_width and width & (width - 1) == 0,
            f"the width of a segment must be a power of two up to {max_width}, got {width}",
            culprit=width,
        )
        return [self.result_type(element(self.value.type))]

    def result_type(self, t: Type) -> Type:
        """The type of the result, given the type of the value."""
        return t

    def on_segments(self, b: GradientBuilder, kind: type[Op], *operands: Value, **attrs: Any) -> Value:
        """The result of another op on the same segments."""
        return b.one(kind, list(operands), {"width": self.width, **attrs})


class Exchange(SegmentOp):
    """Base of the ops whose segments may be wider than a warp, which exchanges values in registers."""

    __slots__ = ()

    @abstractmethod
    def through_memory(self, b: GroupMemory) -> Value:
        """The result, computed through shared memory."""

    def member(self, b: GroupMemory, lane: Value, number: Value) -> Value:
        """The lane with index `number`, any integer, modulo the width, in the segment of `lane`; both int32."""
        first = b.one(And, [lane, b.const(-self.width, int32)])
        return b.one(Or, [first, b.one(And, [number, b.const(self.width - 1, int32)])])


def _int32(b: GroupMemory, x: Value) -> Value:
    """An integer modulo 2 ** 32."""
    return x if x.type == int32 else b.one(Cast, [x], {"to": int32})


class LaneShuffle(Exchange):
    """The value of the lane of this segment whose index is `source` modulo the width."""

    __slots__ = ()
    NAME = "lane.shuffle"
    source = operand(lane=True, index=True)

    def infer(self) -> Sequence[Type]:
        require(
            getattr(self.source.type, "is_int", False),
            f"the index of a lane must be an integer, got {self.source.type}",
        )
        return SegmentOp.infer(self)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return self.on_segments(b, LaneCollect, g, b.primal(self.source)), None

    def through_memory(self, b: GroupMemory) -> Value:
        read = b.shown(self.value)
        return b.in_lanes(lambda lane: read(self.member(b, lane, _int32(b, self.source))))


class LaneCollect(Exchange):
    """The sum of the values of the lanes of this segment whose `target`, modulo the width, is this lane: the inverse of
    `lane.shuffle` if each lane is the target of exactly one lane. Values are added in the order of their lanes."""

    __slots__ = ()
    NAME = "lane.collect"
    target = operand(lane=True, index=True)

    def infer(self) -> Sequence[Type]:
        require(
            getattr(self.target.type, "is_int", False),
            f"the index of a lane must be an integer, got {self.target.type}",
        )
        return SegmentOp.infer(self)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return self.on_segments(b, LaneShuffle, g, b.primal(self.target)), None

    def through_memory(self, b: GroupMemory) -> Value:
        """The sum, for which each lane reads the targets of all lanes of its segment."""
        value, target = b.shown(self.value), b.shown(self.target)
        t = element(self.value.type)

        def own(lane: Value) -> Value:
            body, zero, mask = Region(), b.const(0, int32), b.const(self.width - 1, int32)
            offset, total = body.add_argument(int32), body.add_argument(t)

            def add() -> Sequence[Value]:
                source = self.member(b, lane, offset)
                differs = b.one(Xor, [_int32(b, target(source, b.one(Xor, [lane, b.const(1, int32)]))), lane])
                is_own = b.one(Cmp, [b.one(And, [differs, mask]), zero], {"pred": "eq"})
                return [b.one(Select, [is_own, b.one(Add, [total, value(source)]), total])]

            b.filled(body, add)
            bounds = [zero, b.const(self.width, int32), b.const(1, int32)]
            return b.emit(For, [*bounds, b.const(0, t)], None, [body])[0]

        return b.in_lanes(own)


class LaneXor(Exchange):
    """The value of the lane whose index in the segment differs from this lane's in the bits of `mask`, which is the
    same in all lanes; bits of `mask` from the width on are ignored."""

    __slots__ = ()
    NAME = "lane.xor"
    mask = operand(index=True)

    def infer(self) -> Sequence[Type]:
        require(
            getattr(self.mask.type, "is_int", False), f"the mask must be an integer, got {self.mask.type}"
        )
        return SegmentOp.infer(self)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return self.on_segments(b, LaneXor, g, b.primal(self.mask)), None

    def through_memory(self, b: GroupMemory) -> Value:
        read, mask = b.shown(self.value), _int32(b, self.mask)
        return b.in_lanes(lambda lane: read(self.member(b, lane, b.one(Xor, [lane, mask]))))


class LaneReduce(Exchange):
    """The sum, minimum or maximum of the segment's values, in each of its lanes, component by component. Attribute
    `op`: add, min, max. All lanes of a segment get the same bits; extremes are ordered as by `min` and `max`."""

    __slots__ = ()
    NAME = "lane.reduce"
    op = attr()

    def infer(self) -> Sequence[Type]:
        require(
            self.op in COMBINE, f"the values of a segment are combined by {', '.join(COMBINE)}, got {self.op}"
        )
        t = element(self.value.type)
        require(
            scalar_of(t).kind in COMBINE[self.op].KINDS, f"{self.NAME} by {self.op} is not defined for {t}"
        )
        return SegmentOp.infer(self)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        total = self.on_segments(b, LaneReduce, g, op="add")
        if self.op == "add":
            return (total,)
        # Lanes with equal extremes each get a part of the gradient.
        t = element(g.type)
        one, zero = b.const(1.0, t), b.const(0.0, t)
        is_extreme = b.one(Cmp, [b.primal(self.value), b.primal(self.result)], {"pred": "eq"})
        tie_count = self.on_segments(b, LaneReduce, b.one(Select, [is_extreme, one, zero]), op="add")
        return (b.one(Select, [is_extreme, b.one(Div, [total, tie_count]), zero]),)

    def through_memory(self, b: GroupMemory) -> Value:
        """The reduction within each warp, then over the results of the warps, which the first lane of each warp
        stores."""
        warp_result = b.one(LaneReduce, [self.value], {"width": MAX_VOTERS, "op": self.op})
        read, absent = b.shown(warp_result), b.const(self.neutral, element(warp_result.type))

        def own(lane: Value) -> Value:
            warp_starts = range(0, self.width, MAX_VOTERS)
            values = [read(self.member(b, lane, b.const(k, int32)), absent) for k in warp_starts]
            while len(values) > 1:
                half = len(values) // 2
                values = [
                    b.one(self.combine, pair) for pair in zip(values[:half], values[half:], strict=True)
                ]
            return values[0]

        return b.in_lanes(own)

    @property
    def neutral(self) -> float:
        """The neutral element of the combination. For extremes of floats the neutral element is NaN, to which every
        number is preferred."""
        dtype = scalar_of(element(self.value.type))
        if self.op == "add":
            return -0.0 if dtype.is_float else 0
        limits = range_of_type(dtype)
        if limits is None:
            return float("nan")
        low, high = limits
        return high if self.op == "min" else low

    @property
    def combine(self) -> type[Binary]:
        """The op that combines two values."""
        return COMBINE[self.op]


class LaneBallot(SegmentOp):
    """The lanes of the segment whose value, a bool, is true: bit k is lane k."""

    __slots__ = ()
    NAME = "lane.ballot"
    MAX_WIDTH = MAX_VOTERS

    def result_type(self, t: Type) -> Type:
        require(t == bool_, f"a vote must be a bool, got {t}")
        return uint32


class LaneMatch(SegmentOp):
    """The lanes of the segment whose integer or bool equals this lane's: bit k is lane k."""

    __slots__ = ()
    NAME = "lane.match"
    MAX_WIDTH = MAX_VOTERS

    def result_type(self, t: Type) -> Type:
        message = (
            "compare floats by their bits: tg.bitcast(x, tg.uint32)" if scalar_of(element(t)).is_float else ""
        )
        require(
            isinstance(t, DType) and not t.is_float, f"match_any compares integers or bools, got {t}", message
        )
        return uint32
