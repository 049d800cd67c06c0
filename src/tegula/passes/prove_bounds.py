"""Answers what the library asks of numbers: whether they are never above a limit.

Bounds are constants of the kernel and zero. A difference is not above zero if what is subtracted covers the other: it
is a maximum of it and more, or one of a row that it is in. So softmaxes are seen, which subtract the largest number
first. Nothing is rounded on the way to a bound, and rounding a number that is not above zero keeps it there."""

from __future__ import annotations

import math

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.convert import Cast
from tegula.ops.gradient import Call
from tegula.ops.scalar import Abs, Const, Max, Min, Mul, Neg, NeverAbove, Select, Sub
from tegula.ops.tile import TileBroadcast, TileFull, TileMap, TileReduce, TileReshape, combination
from tegula.rewrite import erase_dead, replace, walk_regions
from tegula.types import DType, TileType

Bounds = tuple[float, float]
"""What a number that is not NaN is never below, and never above."""
ANY: Bounds = (-math.inf, math.inf)


def prove_bounds(kernel: Kernel) -> None:
    """Put answers in the place of the questions and what they choose in the place of the choices, in place."""
    prover = _Prover()
    answers = {op.result: prover.never_above(op) for op in kernel.walk() if isinstance(op, NeverAbove)}
    if not answers:
        return
    chosen: dict[Value, Value] = {}
    for region in walk_regions(kernel.body):
        for k, op in enumerate(region.ops):
            if isinstance(op, Select) and op.operands[0] in answers:
                chosen[op.result] = op.operands[1 if answers[op.operands[0]] else 2]
            elif isinstance(op, NeverAbove):
                region.ops[k] = _said(op, answers[op.result])
    replace(kernel.body, chosen)
    erase_dead(kernel)


def _said(op: NeverAbove, answer: bool) -> Op:
    """A number in the place of a question; vectors keep theirs, which is asked when they are there."""
    if not isinstance(op.result.type, DType):
        return op
    made = Const([], [], {"type": op.result.type, "value": answer}, [], op.loc)
    made.parent = op.parent
    made.results, op.results = op.results, []
    made.results[0].owner = made
    return made


class _Prover:
    def __init__(self) -> None:
        self.known: dict[Value, Bounds] = {}

    def never_above(self, op: NeverAbove) -> bool:
        x, limit = op.operands
        return self.bounds(x)[1] <= self.bounds(limit)[0]

    def bounds(self, x: Value) -> Bounds:
        """Of a number, or of every element of a tile."""
        x = _element(x)
        if x not in self.known:
            self.known[x] = ANY
            self.known[x] = self._bounds(x)
        return self.known[x]

    def _bounds(self, x: Value) -> Bounds:
        op = x.owner
        if not isinstance(op, Op):
            return ANY
        if isinstance(op, Const):
            value = op.attrs["value"]
            plain = isinstance(value, int | float) and not math.isnan(value)
            return (value, value) if plain else ANY
        if isinstance(op, TileFull | TileBroadcast | TileReshape):
            return self.bounds(op.operands[0])
        if isinstance(op, Sub):
            a, b = op.operands
            return 0.0 if covers(a, b) else -math.inf, 0.0 if covers(b, a) else math.inf
        if not isinstance(op, Neg | Abs | Min | Max | Mul | Select | Cast):
            return ANY
        of = [self.bounds(v) for v in op.operands]
        if isinstance(op, Neg):
            ((low, high),) = of
            return -high, -low
        if isinstance(op, Abs):
            return 0.0, math.inf
        if isinstance(op, Mul):
            return _signs(of, op.operands[0] is op.operands[1])
        if isinstance(op, Cast):
            return _cast(of[0], op)
        if isinstance(op, Min | Max):
            return _extreme(of, op)
        return _either(of[1:])


def _element(x: Value) -> Value:
    """Where a map makes an element of a tile, or takes one: the number that it is in the map that made the tile."""
    while True:
        owner = x.owner
        if isinstance(owner, TileMap):
            x = owner.regions[0].terminator.operands[0]
        elif isinstance(owner, Region) and isinstance(owner.parent, TileMap):
            x = owner.parent.operands[owner.args.index(x)]
        elif isinstance(owner, Call):
            x = owner.regions[0].terminator.operands[owner.results.index(x)]
        elif isinstance(owner, Region) and isinstance(owner.parent, Call) and _is_operand(x, owner.parent):
            x = owner.parent.operands[owner.args.index(x)]
        else:
            return x


def _is_operand(x: Value, call: Op) -> bool:
    """Whether an argument of a call's body, or of its adjoint, is an operand of the call."""
    region = x.owner
    assert isinstance(region, Region)
    return region.args.index(x) < len(call.operands)


def _signs(of: list[Bounds], square: bool) -> Bounds:
    """Of a product of two numbers: that of 0 and an infinity is NaN."""
    if square:
        return 0.0, math.inf
    (a, b), (c, d) = of
    low = 0.0 if a >= 0 and c >= 0 or b <= 0 and d <= 0 else -math.inf
    high = 0.0 if a >= 0 and d <= 0 or b <= 0 and c >= 0 else math.inf
    return low, high


def _cast(of: Bounds, op: Cast) -> Bounds:
    """Floats of other formats keep their sign."""
    source = op.operands[0].type
    if not (isinstance(source, DType) and source.is_float and op.attrs["to"].is_float):
        return ANY
    return (0.0 if of[0] >= 0 else -math.inf, 0.0 if of[1] <= 0 else math.inf)


def _either(of: list[Bounds]) -> Bounds:
    return min(low for low, _ in of), max(high for _, high in of)


def _extreme(of: list[Bounds], op: Min | Max) -> Bounds:
    """A NaN loses: the other is what is left, whichever it is. A constant never loses so."""
    low, high = _either(of)
    for (a, b), v in zip(of, op.operands, strict=True):
        if isinstance(_element(v).owner, Const) and a == b:
            low, high = (low, min(high, b)) if isinstance(op, Min) else (max(low, a), high)
    return low, high


def covers(b: Value, a: Value) -> bool:
    """Whether b >= a, or one of them is NaN: two numbers, or an element of tiles each."""
    a, b = _element(a), _element(b)
    if a is b:
        return True
    if isinstance(b.owner, Max):
        return any(covers(v, a) for v in b.owner.operands)
    if isinstance(b.owner, TileBroadcast):
        return _covers_rows(b.owner.operands[0], a, b.owner)
    return False


def _covers_rows(b: Value, a: Value, spread: TileBroadcast) -> bool:
    """Whether each element of a tile b is not below any of the elements a that it is spread to."""
    b = _element(b)
    if isinstance(b.owner, Max):
        return any(_covers_rows(v, a, spread) for v in b.owner.operands)
    if isinstance(b.owner, TileReshape):
        return _covers_rows(b.owner.operands[0], a, spread)
    if not isinstance(b.owner, TileReduce) or combination(b.owner.regions[0]) is not Max:
        return False
    (tile,), axis = b.owner.operands, b.owner.attrs["axis"]
    assert isinstance(tile.type, TileType) and isinstance(spread.result.type, TileType)
    narrow = spread.operands[0].type
    assert isinstance(narrow, TileType)
    shape, before = spread.result.type.shape, narrow.shape
    before = (1,) * (len(shape) - len(before)) + before
    rows = tuple(1 if axis in (None, d) else n for d, n in enumerate(tile.type.shape))
    return not tile.type.partial and tile.type.shape == shape and before == rows and covers(tile, a)
