"""What integers of a kernel are never below and never above.

Bounds are exact: the result of an op has the bounds of the sum, product, ... itself where these fit its type, and else
all that the type holds, since integers wrap. What a loop carries is bounded by induction over its iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tegula.ir import LaunchClass, LoopLike, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.lane import LaneIndex, Lanes, LaneUniform, Tid
from tegula.ops.roles import Roles
from tegula.types import DType, Type

Range = tuple[int, int]
"""The least and the greatest."""
BOOL: Range = (0, 1)
MOST_LANES = 1024
LAST: Range = (0, 2**31 - 1)
"""Thread indices and lengths of arrays: launches of more threads in a dimension, and longer arrays, are refused."""
NESTED = 3
"""Values carried around loops that are bounded by induction within the induction of others."""
DEEPEST = 80
"""Operands of operands that are looked at."""
STEPS = 4
"""How often bounds of a carried value are widened before they are all that its type holds."""


def of_type(t: Type) -> Range | None:
    """All that a scalar type holds; None for floats and what is no scalar."""
    if not isinstance(t, DType) or t.is_float:
        return None
    if t.kind == "b":
        return BOOL
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def within(a: Range, b: Range) -> bool:
    """Whether the range b holds all of the range a."""
    return b[0] <= a[0] and a[1] <= b[1]


def hull(*ranges: Range) -> Range:
    """The range from the least to the greatest number of several ranges."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


class IntegerRanges:
    """The bounds of a kernel's integers, found when they are asked for and kept. `launch` bounds thread indices;
    `outer` and `assumed` are for induction: what is known anyway, and what an iteration begins with."""

    def __init__(
        self,
        launch: LaunchClass | None = None,
        outer: IntegerRanges | None = None,
        assumed: Mapping[Value, Range] | None = None,
    ) -> None:
        self.launch = launch
        self.outer = outer
        self.known: dict[Value, Range] = dict(assumed or {})
        self.nesting: int = 0 if outer is None else outer.nesting + 1
        self.depth: int = 0 if outer is None else outer.depth

    def of(self, value: Value) -> Range:
        """The bounds of an integer or a bool."""
        at: IntegerRanges | None = self
        while at is not None:
            if value in at.known:
                return at.known[value]
            at = at.outer
        whole = of_type(value.type)
        assert whole is not None, f"{value} has no bounds"
        if self.depth >= DEEPEST:
            return whole
        self.depth += 1
        found = self._found(value, whole)
        self.depth -= 1
        self.known[value] = found if within(found, whole) else whole
        return self.known[value]

    def nonnegative(self, value: Value) -> bool:
        """Whether an integer is never negative."""
        return of_type(value.type) is not None and self.of(value)[0] >= 0

    def exact(self, op: Op) -> Range | None:
        """The bounds of what an op on integers computes before the result wraps; None for other ops."""
        rule = RULES.get(type(op))
        if rule is None or any(of_type(v.type) is None for v in op.operands):
            return None
        return rule(*(self.of(v) for v in op.operands))

    def _found(self, value: Value, whole: Range) -> Range:
        owner = value.owner
        if isinstance(owner, Region):
            return self._argument(value, owner, whole)
        if isinstance(owner, S.Const):
            number = owner.value
            return (int(number), int(number)) if isinstance(number, int) else whole
        if isinstance(owner, Tid):
            return self._thread_index(value, owner)
        if isinstance(owner, LaneIndex):
            return 0, MOST_LANES - 1
        if isinstance(owner, ArrayShape):
            return LAST
        if isinstance(owner, LaneUniform):
            return self.of(owner.value)
        if isinstance(owner, Lanes):
            return self.of(owner.body.yielded[owner.results.index(value)])
        if isinstance(owner, If):
            k = owner.results.index(value)
            return hull(*(self.of(region.yielded[k]) for region in owner.regions))
        if isinstance(owner, For | While):
            return self._carried(owner, owner.results.index(value), whole)
        if isinstance(owner, S.Select):
            return hull(*(self.of(v) for v in (owner.a, owner.b)))
        return (self.exact(owner) or whole) if isinstance(owner, Op) else whole

    def _thread_index(self, value: Value, tid: Tid) -> Range:
        """The last component is the lane's number where it runs over the block; threads of roles may be more."""
        launch = self.launch
        if launch is None or not launch.last_is_block or tid.results.index(value) != launch.ndim - 1:
            return LAST
        return LAST if _has_roles(tid) else (0, launch.block_dim - 1)

    # Loops -----------------------------------------------------------------------------------------------------------

    def _argument(self, value: Value, region: Region, whole: Range) -> Range:
        loop = region.parent
        if isinstance(loop, For) and value is loop.index:
            return self._index(loop)
        if not isinstance(loop, LoopLike):
            return whole
        k = next(args.index(value) for args in loop.entries if value in args)
        return self._carried(loop, k, whole)

    def _index(self, loop: For) -> Range:
        """Every index lies between the ends of the loop, the last one excluded, whichever way it counts."""
        start, stop, step = (self.of(v) for v in loop.bounds)
        up, down = (start[0], stop[1] - 1), (stop[0] + 1, start[1])
        if step[0] >= 0:
            return up if up[0] <= up[1] else start
        if step[1] <= 0:
            return down if down[0] <= down[1] else start
        return hull(up, down, start)

    def _carried(self, loop: LoopLike, k: int, whole: Range) -> Range:
        """By induction: bounds that the initial value keeps, and that an iteration which begins with them keeps."""
        traced = bool(loop.body.ops) and isinstance(loop.body.terminator, Yield)
        # A loop that is being traced has no end yet, and may have no initial values.
        if self.nesting >= NESTED or not traced:
            return whole
        first, last = loop.initial[k], loop.body.yielded[k]
        args = [args[k] for args in loop.entries]
        bounds = start = self.of(first)
        for step in range(STEPS):
            inner = IntegerRanges(self.launch, self, dict.fromkeys(args, bounds))
            after = hull(start, inner.of(last))
            if within(after, bounds):
                return after
            bounds = _widened(bounds, after, whole) if step else after
        return whole


def _has_roles(op: Op) -> bool:
    """Whether the threads of an op's kernel have roles."""
    at = op.parent
    while at is not None and at.parent is not None:
        at = at.parent.parent
    return at is not None and any(isinstance(other, Roles) for other in at.ops)


def _widened(before: Range, after: Range, whole: Range) -> Range:
    """Bounds that still move go to 0, or to the end of the type."""
    low, high = before
    if after[0] < low:
        low = 0 if after[0] >= 0 else whole[0]
    return low, high if after[1] <= high else whole[1]


# Ops -----------------------------------------------------------------------------------------------------------------


def _products(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _quotients(divide: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Of numbers in a by those in b, which are monotonous on either side of 0; by 0 the quotient is 0."""

    def quotients(a: Range, b: Range) -> Range:
        ends = [n for n in (b[0], b[1], -1, 1) if n and b[0] <= n <= b[1]]
        found = [divide(x, n) for x in a for n in ends]
        if a[0] <= 0 <= a[1] or b[0] <= 0 <= b[1] or not found:
            found.append(0)
        return min(found), max(found)

    return quotients


def _remainders(a: Range, b: Range) -> Range:
    """With the sign of the dividend, and smaller than either."""
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _conjunctions(a: Range, b: Range) -> Range:
    """Of bits: not above an operand that is not negative."""
    limits = [high for low, high in (a, b) if low >= 0]
    return (0, min(limits)) if limits else (_all_ones(a, b)[0], max(a[1], b[1], 0))


def _all_ones(a: Range, b: Range) -> Range:
    """Numbers of as many bits as those of a and b."""
    bits = max(n.bit_length() for n in (*a, *b))
    signed = a[0] < 0 or b[0] < 0
    return (-(1 << bits) if signed else 0), (1 << bits) - 1


def _shifted_left(a: Range, b: Range) -> Range:
    """Numbers that are moved out of any type are 0."""
    most = min(max(b[1], 0), 64)
    ends = [0, a[0], a[1], a[0] << most, a[1] << most]
    return min(ends), max(ends)


def _shifted_right(a: Range, b: Range) -> Range:
    """Towards 0, or -1; a shift outside of the width gives these."""
    if b[0] == b[1] and 0 <= b[0] < 64:
        return a[0] >> b[0], a[1] >> b[0]
    return min(a[0], 0), max(a[1], 0) if a[0] >= 0 else max(a[1], -1)


def _same(a: Range) -> Range:
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


def _floored(a: int, b: int) -> int:
    return a // b


RULES: dict[type[Op], Callable[..., Range]] = {
    S.Add: _sum,
    S.Sub: _difference,
    S.Mul: _products,
    S.Not: _complement,
    S.Neg: _negative,
    S.Abs: _magnitude,
    S.Div: _quotients(_truncated),
    S.FloorDiv: _quotients(_floored),
    S.Mod: _remainders,
    S.Min: _smaller,
    S.Max: _greater,
    S.And: _conjunctions,
    S.Or: _all_ones,
    S.Xor: _all_ones,
    S.Shl: _shifted_left,
    S.Shr: _shifted_right,
    Cast: _same,
}
"""The bounds of an op's exact result, from those of its operands."""
