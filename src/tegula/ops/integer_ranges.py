"""Bounds of a kernel's integers by interval arithmetic.

The range of an op's exact result is its bound if the range fits the type; otherwise the result may wrap and the bound
is the range of the type. Values carried by loops are bounded by induction over the iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tegula.ir import ComparisonLike, ConstantTable, LaunchClass, LoopLike, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.lane import LaneIndex, Lanes, LaneUniform, Tid
from tegula.ops.roles import Roles
from tegula.types import DType, Type

Range = tuple[int, int]
"""The minimum and the maximum of an integer."""
BOOL: Range = (0, 1)
MAX_LANES = 1024
INDEX_RANGE: Range = (0, 2**31 - 1)
"""The range of thread indices and array lengths; launches beyond it are refused."""
MAX_NESTING = 3
"""The maximum nesting depth of inductions over carried values."""
MAX_DEPTH = 80
"""The maximum depth of the use-def chains that are analysed."""
MAX_WIDENINGS = 4
"""The maximum number of widening steps for the bounds of a carried value, after which the bounds are the type's
range."""


def range_of_type(t: Type) -> Range | None:
    """The range of an integer type or bool; None for other types."""
    if not isinstance(t, DType) or t.is_float:
        return None
    if t.kind == "b":
        return BOOL
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def within(a: Range, b: Range) -> bool:
    """Whether the range b contains the range a."""
    return b[0] <= a[0] and a[1] <= b[1]


def hull(*ranges: Range) -> Range:
    """The range from the least to the greatest number of several ranges."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


class IntegerRanges:
    """The bounds of a kernel's integers, computed on demand and cached. `launch`: the launch class, which bounds thread
    indices. For an induction over a loop: `outer`: the bounds outside of the induction; `assumed`: the hypothesis,
    bounds of the carried values at the start of an iteration. `is_partial`: whether some bounds may become narrower,
    because a loop was still being traced, or because they were at the end of a long chain."""

    def __init__(
        self,
        launch: LaunchClass | None = None,
        outer: IntegerRanges | None = None,
        assumed: Mapping[Value, Range] | None = None,
    ) -> None:
        self.launch = launch
        self.outer = outer
        self.is_partial = False
        self.range_of_value: dict[Value, Range] = dict(assumed or {})
        self.nesting: int = 0 if outer is None else outer.nesting + 1
        self.depth: int = 0 if outer is None else outer.depth

    def of(self, value: Value) -> Range:
        """The bounds of an integer or a bool."""
        ranges: IntegerRanges | None = self
        while ranges is not None:
            if value in ranges.range_of_value:
                return ranges.range_of_value[value]
            ranges = ranges.outer
        type_range = range_of_type(value.type)
        assert type_range is not None, f"{value} has no bounds"
        if self.depth >= MAX_DEPTH:
            return self._unknown(type_range)
        self.depth += 1
        bounds = self._range(value, type_range)
        self.depth -= 1
        self.range_of_value[value] = bounds if within(bounds, type_range) else type_range
        return self.range_of_value[value]

    def _unknown(self, type_range: Range) -> Range:
        """The range of the type, for bounds that a later analysis may find."""
        ranges: IntegerRanges | None = self
        while ranges is not None:
            ranges.is_partial, ranges = True, ranges.outer
        return type_range

    def nonnegative(self, value: Value) -> bool:
        """Whether an integer is never negative."""
        return range_of_type(value.type) is not None and self.of(value)[0] >= 0

    def exact(self, op: Op) -> Range | None:
        """The bounds of an integer op's exact result, before it wraps; None for other ops."""
        rule = RULES.get(type(op))
        if rule is None or any(range_of_type(v.type) is None for v in op.operands):
            return None
        return rule(*(self.of(v) for v in op.operands))

    def number(self, op: Op) -> int | bool | None:
        """The result of an integer op or a comparison, if the bounds of its operands determine it, else None; None for
        a division by a number that may be 0."""
        if isinstance(op, ComparisonLike):
            if any(range_of_type(v.type) is None for v in op.operands):
                return None
            a, b = self.of(op.a), self.of(op.b)
            return _ordered(a, b, op.pred)
        if range_of_type(op.results[0].type) is None:
            return None
        if isinstance(op, (S.Div, S.FloorDiv, S.Mod)):
            low, high = self.of(op.b)
            if low <= 0 <= high:
                return None
        low, high = self.of(op.results[0])
        return low if low == high else None

    def dividend(self, op: Op) -> Value | None:
        """The dividend of a remainder that equals it, because the divisor is always larger; else None."""
        if not isinstance(op, S.Mod) or range_of_type(op.result.type) is None:
            return None
        (low, high), (divisor, _) = self.of(op.a), self.of(op.b)
        return op.a if 0 <= low and high < divisor else None

    def _range(self, value: Value, type_range: Range) -> Range:
        owner = value.owner
        if isinstance(owner, Region):
            return self._argument(value, owner, type_range)
        if isinstance(owner, S.Const):
            number = owner.value
            return (int(number), int(number)) if isinstance(number, int) else type_range
        if isinstance(owner, Tid):
            return self._thread_index(value, owner)
        if isinstance(owner, LaneIndex):
            return 0, (MAX_LANES if self.launch is None or _has_roles(owner) else self.launch.block_dim) - 1
        if isinstance(owner, ArrayShape):
            return INDEX_RANGE
        if isinstance(owner, LaneUniform):
            return self.of(owner.value)
        if isinstance(owner, Lanes):
            return self.of(owner.body.yielded[owner.results.index(value)])
        if isinstance(owner, If):
            k = owner.results.index(value)
            return hull(*(self.of(region.yielded[k]) for region in owner.regions))
        if isinstance(owner, (For, While)):
            return self._carried(owner, owner.results.index(value), type_range)
        if isinstance(owner, S.Select):
            return hull(*(self.of(v) for v in (owner.a, owner.b)))
        if isinstance(owner, ConstantTable):
            return owner.bounds or type_range
        return (self.exact(owner) or type_range) if isinstance(owner, Op) else type_range

    def _thread_index(self, value: Value, tid: Tid) -> Range:
        """The bounds of a thread index. The last component is below block_dim if this component is the index of the
        lane in the block; with roles a block may have more threads than block_dim."""
        launch = self.launch
        if launch is None or not launch.last_is_block or tid.results.index(value) != launch.ndim - 1:
            return INDEX_RANGE
        return INDEX_RANGE if _has_roles(tid) else (0, launch.block_dim - 1)

    # Loops -----------------------------------------------------------------------------------------------------------

    def _argument(self, value: Value, region: Region, type_range: Range) -> Range:
        loop = region.parent
        if isinstance(loop, For) and value is loop.index:
            return self._index(loop)
        if not isinstance(loop, LoopLike):
            return type_range
        k = next(args.index(value) for args in loop.entries if value in args)
        return self._carried(loop, k, type_range)

    def _index(self, loop: For) -> Range:
        """The bounds of a loop's index: from start to stop, stop excluded, for either sign of the step."""
        start, stop, step = (self.of(v) for v in loop.bounds)
        if start[0] == start[1] and stop[0] == stop[1] and step[0] == step[1] != 0:
            positions = range(start[0], stop[0], step[0])
            return hull(start, (positions[-1], positions[-1])) if positions else start
        up, down = (start[0], stop[1] - 1), (stop[0] + 1, start[1])
        if step[0] >= 0:
            return up if up[0] <= up[1] else start
        if step[1] <= 0:
            return down if down[0] <= down[1] else start
        return hull(up, down, start)

    def _carried(self, loop: LoopLike, k: int, type_range: Range) -> Range:
        """The bounds of a carried value by induction: the bounds contain the initial value, and the value after any
        iteration that starts with a value within the bounds."""
        traced = bool(loop.body.ops) and isinstance(loop.body.terminator, Yield)
        # A loop that is still being traced has no terminator, and may have no initial values.
        if self.nesting >= MAX_NESTING or not traced:
            return self._unknown(type_range)
        initial, yielded = loop.initial[k], loop.body.yielded[k]
        args = [args[k] for args in loop.entries]
        bounds = start = self.of(initial)
        for step in range(MAX_WIDENINGS):
            inner = IntegerRanges(self.launch, self, dict.fromkeys(args, bounds))
            after = hull(start, inner.of(yielded))
            if within(after, bounds):
                return after
            bounds = _widened(bounds, after, type_range) if step else after
        return type_range


def _has_roles(op: Op) -> bool:
    """Whether the threads of an op's kernel have roles."""
    region = op.parent
    while region is not None and region.parent is not None:
        region = region.parent.parent
    return region is not None and any(isinstance(other, Roles) for other in region.ops)


def _widened(before: Range, after: Range, type_range: Range) -> Range:
    """Widening: the previous bounds, where an end that has grown becomes 0 or the end of the type's range."""
    low, high = before
    if after[0] < low:
        low = 0 if after[0] >= 0 else type_range[0]
    return low, high if after[1] <= high else type_range[1]


# Ops -----------------------------------------------------------------------------------------------------------------


def _ordered(a: Range, b: Range, pred: str) -> bool | None:
    """Whether all numbers of a are in a relation to all numbers of b: True, False if none is, None otherwise."""
    if pred in ("gt", "le"):
        return _ordered(b, a, "lt" if pred == "gt" else "ge")
    equal, unequal = a[0] == a[1] == b[0] == b[1], a[1] < b[0] or b[1] < a[0]
    less, not_less = a[1] < b[0], a[0] >= b[1]
    holds, fails = {
        "eq": (equal, unequal),
        "ne": (unequal, equal),
        "lt": (less, not_less),
        "ge": (not_less, less),
    }[pred]
    return holds if holds or fails else None


def _products(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _quotients(divide: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The bounds of quotients, which are monotonic in the divisor on either side of 0; division by 0 gives 0."""

    def quotients(a: Range, b: Range) -> Range:
        ends = [n for n in (b[0], b[1], -1, 1) if n and b[0] <= n <= b[1]]
        quotients = [divide(x, n) for x in a for n in ends]
        if a[0] <= 0 <= a[1] or b[0] <= 0 <= b[1] or not quotients:
            quotients.append(0)
        return min(quotients), max(quotients)

    return quotients


def _remainders(a: Range, b: Range) -> Range:
    """The bounds of remainders, which have the dividend's sign and are smaller in magnitude than the divisor."""
    magnitude = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(min(a[0], 0), -magnitude), min(max(a[1], 0), magnitude)


def _conjunctions(a: Range, b: Range) -> Range:
    """The bounds of bitwise conjunctions, which do not exceed a nonnegative operand."""
    limits = [high for low, high in (a, b) if low >= 0]
    return (0, min(limits)) if limits else (_all_ones(a, b)[0], max(a[1], b[1], 0))


def _all_ones(a: Range, b: Range) -> Range:
    """The bounds of all numbers that have at most as many bits as a number of a or b."""
    bits = max(n.bit_length() for n in (*a, *b))
    signed = a[0] < 0 or b[0] < 0
    return (-(1 << bits) if signed else 0), (1 << bits) - 1


def _shifted_left(a: Range, b: Range) -> Range:
    """The bounds of left shifts; a shift by the width or more gives 0."""
    max_shift = min(max(b[1], 0), 64)
    ends = [0, a[0], a[1], a[0] << max_shift, a[1] << max_shift]
    return min(ends), max(ends)


def _shifted_right(a: Range, b: Range) -> Range:
    """The bounds of right shifts, which move numbers towards 0 or -1; a shift by the width or more gives 0 or -1."""
    if b[0] == b[1] and 0 <= b[0] < 64:
        return a[0] >> b[0], a[1] >> b[0]
    return min(a[0], 0), max(a[1], 0) if a[0] >= 0 else max(a[1], -1)


def _identity(a: Range) -> Range:
    return a


def _sum(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _complement(a: Range) -> Range:
    return -a[1] - 1, -a[0] - 1


def _negative(a: Range) -> Range:
    return -a[1], -a[0]


def _magnitude(a: Range) -> Range:
    ends = abs(a[0]), abs(a[1])
    return 0 if a[0] <= 0 <= a[1] else min(ends), max(ends)


def _smaller(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _greater(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


def _floored_quotient(a: int, b: int) -> int:
    return a // b


RULES: dict[type[Op], Callable[..., Range]] = {
    S.Add: _sum,
    S.Sub: _difference,
    S.Mul: _products,
    S.Not: _complement,
    S.Neg: _negative,
    S.Abs: _magnitude,
    S.Div: _quotients(_truncated_quotient),
    S.FloorDiv: _quotients(_floored_quotient),
    S.Mod: _remainders,
    S.Min: _smaller,
    S.Max: _greater,
    S.And: _conjunctions,
    S.Or: _all_ones,
    S.Xor: _all_ones,
    S.Shl: _shifted_left,
    S.Shr: _shifted_right,
    Cast: _identity,
}
"""The bounds of an op's exact result, by op, from the bounds of its operands."""
