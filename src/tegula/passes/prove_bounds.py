"""Decides the library's `NeverAbove` queries: whether a number never exceeds a limit.

Bounds are constants of the kernel and zero. A difference a - b is never above zero if b covers a: b is a maximum over a
and other numbers, or over a row that contains a. This recognises softmaxes, which subtract the maximum first. The
analysed operations have no rounding before a bound, and rounding a non-positive number keeps it non-positive."""

from __future__ import annotations

import math

from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import erase_dead, replace, walk_regions
from tegula.ops.convert import Cast
from tegula.ops.gradient import Call
from tegula.ops.scalar import Abs, Const, Max, Min, Mul, Neg, NeverAbove, Select, Sub
from tegula.ops.tile import TileBroadcast, TileFull, TileMap, TileReduce, TileReshape, combination
from tegula.passes.runner import Compilation
from tegula.types import DType, TileType

Bounds = tuple[float, float]
"""A lower and an upper bound of a number, NaN disregarded."""
ANY: Bounds = (-math.inf, math.inf)


def prove_bounds(kernel: Kernel, context: Compilation) -> None:
    """Replace the queries by constants, and selections on them by the selected operand, in place."""
    prover = Prover()
    answers = {op.result: prover.never_above(op) for op in kernel.walk() if isinstance(op, NeverAbove)}
    if not answers:
        return
    chosen: dict[Value, Value] = {}
    for region in walk_regions(kernel.body):
        for k, op in enumerate(region.ops):
            if isinstance(op, Select) and op.condition in answers:
                chosen[op.result] = op.a if answers[op.condition] else op.b
            elif isinstance(op, NeverAbove):
                region.ops[k] = _constant_answer(op, answers[op.result])
    replace(kernel.body, chosen)
    erase_dead(kernel)


def _constant_answer(op: NeverAbove, answer: bool) -> Op:
    """The constant result of a query. Queries about vectors remain and are evaluated at run time."""
    if not isinstance(op.result.type, DType):
        return op
    constant_op = Const([], [], {"type": op.result.type, "value": answer}, [], op.loc)
    constant_op.parent = op.parent
    constant_op.results, op.results = op.results, []
    constant_op.results[0].owner = constant_op
    return constant_op


class Prover:
    """Derives bounds of a kernel's numbers."""

    def __init__(self) -> None:
        self.known_bounds: dict[Value, Bounds] = {}

    def never_above(self, op: NeverAbove) -> bool:
        """Whether the first operand never exceeds the second operand."""
        return self.bounds(op.a)[1] <= self.bounds(op.b)[0]

    def bounds(self, x: Value) -> Bounds:
        """The bounds of a number, or of all elements of a tile."""
        x = _element(x)
        if x not in self.known_bounds:
            self.known_bounds[x] = ANY
            self.known_bounds[x] = self._bounds(x)
        return self.known_bounds[x]

    def _bounds(self, x: Value) -> Bounds:
        op = x.owner
        if not isinstance(op, Op):
            return ANY
        if isinstance(op, ConstantLike):
            value = op.value
            is_number = isinstance(value, int | float) and not math.isnan(value)
            return (value, value) if is_number else ANY
        if isinstance(op, TileFull | TileBroadcast | TileReshape):
            return self.bounds(op.value if isinstance(op, TileFull) else op.tile)
        if isinstance(op, Sub):
            above, below = covers(op.a, op.b), covers(op.b, op.a)
            return 0.0 if above else -math.inf, 0.0 if below else math.inf
        if not isinstance(op, Neg | Abs | Min | Max | Mul | Select | Cast):
            return ANY
        operand_bounds = [self.bounds(v) for v in op.operands]
        if isinstance(op, Neg):
            ((low, high),) = operand_bounds
            return -high, -low
        if isinstance(op, Abs):
            return 0.0, math.inf
        if isinstance(op, Mul):
            return _signs(operand_bounds, op.a is op.b)
        if isinstance(op, Cast):
            return _cast(operand_bounds[0], op)
        if isinstance(op, Min | Max):
            return _extreme(operand_bounds, op)
        return _union(operand_bounds[1:])


def _element(x: Value) -> Value:
    """The value that an element represents: looks through the results and arguments of maps and calls to the value in
    the map that computed the tile."""
    while True:
        owner = x.owner
        if isinstance(owner, TileMap | Call):
            x = owner.function.yielded[owner.results.index(x)]
            continue
        operand = _operand_of_argument(x, owner) if isinstance(owner, Region) else None
        if operand is None:
            return x
        x = operand


def _operand_of_argument(x: Value, region: Region) -> Value | None:
    """The operand of a map or a call for an argument of its function, or of the call's adjoint; None for other
    arguments."""
    op = region.parent
    if not isinstance(op, TileMap | Call):
        return None
    operands = op.inputs if isinstance(op, TileMap) else op.arguments
    return dict(zip(region.args, operands, strict=False)).get(x)


def _signs(of: list[Bounds], square: bool) -> Bounds:
    """The bounds of a * b from the signs of both numbers; 0 times an infinity is NaN, which bounds disregard."""
    if square:
        return 0.0, math.inf
    (a, b), (c, d) = of
    low = 0.0 if a >= 0 and c >= 0 or b <= 0 and d <= 0 else -math.inf
    high = 0.0 if a >= 0 and d <= 0 or b <= 0 and c >= 0 else math.inf
    return low, high


def _cast(of: Bounds, op: Cast) -> Bounds:
    """The bounds after a conversion: only the sign of floats is known to be kept."""
    source = op.x.type
    if not (isinstance(source, DType) and source.is_float and op.to.is_float):
        return ANY
    return (0.0 if of[0] >= 0 else -math.inf, 0.0 if of[1] <= 0 else math.inf)


def _union(of: list[Bounds]) -> Bounds:
    return min(low for low, _ in of), max(high for _, high in of)


def _extreme(of: list[Bounds], op: Min | Max) -> Bounds:
    """The bounds of a minimum or maximum. If one operand is NaN the result is the other operand, so that the bounds of
    either may apply; a constant is never NaN, and always limits the result."""
    low, high = _union(of)
    for (a, b), v in zip(of, op.operands, strict=True):
        if isinstance(_element(v).owner, ConstantLike) and a == b:
            low, high = (low, min(high, b)) if isinstance(op, Min) else (max(low, a), high)
    return low, high


def covers(b: Value, a: Value) -> bool:
    """Whether b >= a or one of them is NaN, for two numbers, or for corresponding elements of two tiles."""
    a, b = _element(a), _element(b)
    if a is b:
        return True
    if isinstance(b.owner, Max):
        return any(covers(v, a) for v in b.owner.operands)
    if isinstance(b.owner, TileBroadcast):
        return _covers_rows(b.owner.tile, a, b.owner)
    return False


def _covers_rows(b: Value, a: Value, broadcast: TileBroadcast) -> bool:
    """Whether each element of a tile b is at least every element of a at the positions to which b's element is
    broadcast."""
    b = _element(b)
    if isinstance(b.owner, Max):
        return any(_covers_rows(v, a, broadcast) for v in b.owner.operands)
    if isinstance(b.owner, TileReshape):
        return _covers_rows(b.owner.tile, a, broadcast)
    largest = _maximum(b, broadcast)
    return largest is not None and covers(largest.tile, a)


def is_attained(b: Value, a: Value, axis: int | None) -> bool:
    """Whether b is the maximum of a along an axis, so that an element of a equals b or is NaN."""
    a, b = _element(a), _element(b)
    if not isinstance(b.owner, TileBroadcast):
        return False
    broadcast, b = b.owner, _element(b.owner.tile)
    while isinstance(b.owner, TileReshape):
        b = _element(b.owner.tile)
    largest = _maximum(b, broadcast)
    return largest is not None and axis in (None, largest.axis) and _element(largest.tile) is a


def _maximum(b: Value, broadcast: TileBroadcast) -> TileReduce | None:
    """The reduction that computes row maxima `b` of another tile, if `broadcast` broadcasts the maxima back over these
    rows; else None."""
    if not isinstance(b.owner, TileReduce) or combination(b.owner.combine) is not Max:
        return None
    tile, axis = b.owner.tile, b.owner.axis
    assert isinstance(tile.type, TileType) and isinstance(broadcast.result.type, TileType)
    source = broadcast.tile.type
    assert isinstance(source, TileType)
    shape, before = broadcast.result.type.shape, source.shape
    before = (1,) * (len(shape) - len(before)) + before
    rows = tuple(1 if axis in (None, d) else n for d, n in enumerate(tile.type.shape))
    return b.owner if not tile.type.partial and tile.type.shape == shape and before == rows else None
