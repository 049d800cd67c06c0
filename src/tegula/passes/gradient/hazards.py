"""Finds multiplications in which an adjoint of 0 times a derivative may be NaN, so that the result is guarded to be 0.

An adjoint is 0 for absent elements, for operands that a select did not choose, and for values without dependents. Its
factor may then be infinite or NaN, such as the derivative of a square root at 0 or the reciprocal of an element out of
bounds. An analysis of the defining ops finds factors that cannot be infinite or NaN, which need no guard."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

from tegula.ir import Carrier, ConstantLike, Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayAtomic, ArrayStore
from tegula.ops.control import Yield
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.gradient import Call
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import (
    TileAtomic,
    TileBroadcast,
    TileFull,
    TileLoad,
    TileMap,
    TilePermute,
    TileReduce,
    TileReshape,
    TileStore,
    combination,
)
from tegula.ops.vector import VecMake, VecSplat
from tegula.passes.gradient.activity import memory_root
from tegula.passes.prove_bounds import Prover, is_attained


class Hazard(IntEnum):
    """The sources of infinities and NaNs in a value: none, array elements, or the op that computes the value."""

    NONE = 0
    DATA = 1
    COMPUTED = 2


SAFE_FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "tanh", "atan", "atan2", "erf", "erfc", "hypot", "cbrt", "sign", "round", "sigmoid")
)
"""Library functions that are finite for finite arguments."""
POWERS = frozenset(("exp", "exp2", "exp10"))
SAFE = (
    *(S.Add, S.Sub, S.Mul, S.Fma, S.Neg, S.Abs, S.Min, S.Max, S.CopySign, S.Floor, S.Ceil, S.Trunc, S.Rint),
    *(S.Cmp, S.Classify, S.And, S.Or, S.Xor, S.Not, S.NeverAbove, Cast, TileBroadcast, TileFull, TileReshape),
    *(VecMake, VecSplat, TileMatmul, TileReduce),
)
"""Ops that are finite for finite operands, unless they overflow."""
STORES = (TileStore, ArrayStore)
HAZARDOUS = (S.Const, S.Div, S.Sqrt, S.FastExp2, Bitcast, Call)
PROPAGATE_TO_ALL = (
    *(S.Add, S.Sub, S.Mul, S.Fma, S.Neg, S.Div, S.Sqrt, S.FastExp2, S.Cmp, Cast, Call, VecMake, VecSplat),
    *(TileMap, TileBroadcast, TileFull, TileReshape, TilePermute, TileMatmul),
    *(TileStore, TileAtomic, ArrayStore, ArrayAtomic, Yield),
)
"""Ops whose operands have an adjoint of 0 only where the adjoint of the result or the derivative is 0."""


class Hazards:
    """The hazards of the values of a kernel that is differentiated."""

    def __init__(self, kernel: Kernel) -> None:
        self.masked = _masked(kernel)
        self.hazard_of: dict[Value, Hazard] = {}
        self.lower_bounds: dict[Value, float] = {}
        self.prover = Prover()
        self.everywhere = Hazard.DATA
        """The hazard of loop-carried values and of objects' contents, the worst hazard in the kernel."""
        risks = [op for op in kernel.walk() if isinstance(op, HAZARDOUS)]
        self.everywhere = max([Hazard.DATA, *map(self._of_op, risks)])
        self.hazard_of.clear()
        for op in kernel.walk():  # in order, so that no chain of operands is long
            for result in op.results:
                self.of(result)
                self.lower_bound(result)

    def may_give_nan(self, factor: Value, op: Op) -> bool:
        """Whether multiplying by a factor may turn a zero adjoint of an op's result into NaN."""
        hazard = self.of(factor)
        return hazard is Hazard.COMPUTED or (
            hazard is Hazard.DATA and any(r in self.masked for r in op.results)
        )

    # Infinities and NaNs of a value ----------------------------------------------------------------------------------

    def of(self, x: Value) -> Hazard:
        """The hazard of a value."""
        x = source(x)
        if x not in self.hazard_of:
            self.hazard_of[x] = self._of_op(x.owner) if isinstance(x.owner, Op) else self._of_argument(x)
        return self.hazard_of[x]

    def _of_argument(self, x: Value) -> Hazard:
        return self.everywhere if isinstance(x.owner, Region) and x.owner.parent else Hazard.DATA

    def _of_op(self, op: Op) -> Hazard:
        if isinstance(op, ConstantLike):
            value = op.value
            is_finite = not isinstance(value, int | float) or math.isfinite(value)
            return Hazard.NONE if is_finite else Hazard.COMPUTED
        if isinstance(op, TileLoad):
            return max(Hazard.DATA, self.of(op.fill))
        operand_hazards = [self.of(v) for v in op.operands]
        if isinstance(op, S.Select):
            return max(self.of(op.a), self.of(op.b))
        if isinstance(op, Call):
            is_safe = op.name in SAFE_FUNCTIONS or self._is_small(op)
            return max(operand_hazards, default=Hazard.NONE) if is_safe else Hazard.COMPUTED
        if isinstance(op, S.Div):
            return Hazard.COMPUTED if not self.lower_bound(op.b) > 0.0 else max(operand_hazards)
        if isinstance(op, S.Sqrt):
            return Hazard.COMPUTED if self.lower_bound(op.x) < 0.0 else max(operand_hazards)
        if isinstance(op, TileReduce):
            return (
                max(operand_hazards) if combination(op.combine) in (S.Add, S.Min, S.Max) else Hazard.COMPUTED
            )
        if isinstance(op, SAFE):
            return max(operand_hazards)
        if isinstance(op, S.FastExp2 | Bitcast):
            return Hazard.COMPUTED
        return max([self.everywhere if _reads_objects(op) else Hazard.DATA, *operand_hazards])

    def _is_small(self, call: Call) -> bool:
        """Whether a call is an exponential of a number that is never above 0."""
        return call.library_name in POWERS and self.prover.bounds(call.arguments[0])[1] <= 0.0

    # Lower bounds of a value ------------------------------------------------------------------------------------------

    def lower_bound(self, x: Value) -> float:
        """A lower bound of a value, NaN disregarded."""
        x = source(x)
        if x not in self.lower_bounds:
            self.lower_bounds[x] = -math.inf
            self.lower_bounds[x] = self._lower_bound(x)
        return self.lower_bounds[x]

    def _lower_bound(self, x: Value) -> float:
        op = x.owner
        if isinstance(op, ConstantLike) and isinstance(op.value, int | float):
            value = float(op.value)
            return -math.inf if math.isnan(value) else value
        if isinstance(op, S.Abs):
            return 0.0
        if isinstance(op, S.Mul):
            a, b = op.operands
            both_nonnegative = self.lower_bound(a) >= 0.0 and self.lower_bound(b) >= 0.0
            return 0.0 if both_nonnegative or source(a) is source(b) else -math.inf
        if isinstance(op, S.Fma):
            a, b, c = op.operands
            product = source(a) is source(b) or (self.lower_bound(a) >= 0.0 and self.lower_bound(b) >= 0.0)
            return self.lower_bound(c) if product else -math.inf
        if isinstance(op, S.Add):
            return sum(map(self.lower_bound, op.operands))
        if isinstance(op, S.Div):
            a, b = map(self.lower_bound, op.operands)
            return 0.0 if a >= 0.0 and b > 0.0 else -math.inf
        if isinstance(op, S.Max):
            return max(map(self.lower_bound, op.operands))
        if isinstance(op, S.Min):
            return min(map(self.lower_bound, op.operands))
        if isinstance(op, S.Select):
            return min(self.lower_bound(op.a), self.lower_bound(op.b))
        if isinstance(op, S.Sqrt):
            return math.sqrt(max(0.0, self.lower_bound(op.x)))
        if isinstance(op, Cast | TileBroadcast | TileFull | TileReshape):
            (operand,) = op.operands
            low = self.lower_bound(operand)
            return low if low >= 1e-4 else min(low, 0.0)
        if isinstance(op, TileReduce) and combination(op.combine) is S.Add:
            low = self.lower_bound(op.tile)
            return self._largest(op.tile, op.axis) if low >= 0.0 else -math.inf
        if isinstance(op, Call) and op.library_name in (*POWERS, "cosh", "hypot"):
            return 1.0 if op.library_name == "cosh" else 0.0
        return -math.inf

    def _largest(self, tile: Value, axis: int | None) -> float:
        """A lower bound of the maximum along an axis of a tile of non-negative elements: 1 for exponentials of
        differences from the maximum along this axis, else 0."""
        op = source(tile).owner
        if isinstance(op, Cast):
            return self._largest(op.x, axis)
        power = source(op.arguments[0]).owner if isinstance(op, Call) and op.library_name in POWERS else None
        return 1.0 if isinstance(power, S.Sub) and is_attained(power.b, power.a, axis) else 0.0


def source(x: Value) -> Value:
    """The value that an element represents: looks through the results and arguments of maps and calls to the value
    outside, or in the map that computed the tile."""
    while True:
        owner = x.owner
        op = owner.parent if isinstance(owner, Region) else None
        if isinstance(owner, TileMap):
            (x,) = owner.function.yielded
        elif isinstance(op, TileMap):
            x = _operand_of_argument(op.function, op.inputs, x)
        elif isinstance(op, Call) and owner is op.function:
            x = _operand_of_argument(op.function, op.arguments, x)
        else:
            return x


def _operand_of_argument(function: Region, operands: Sequence[Value], argument: Value) -> Value:
    """The operand that an argument of a function represents."""
    return next(v for v, a in zip(operands, function.args, strict=True) if a is argument)


def _reads_objects(op: Op) -> bool:
    """Whether an op's results depend on more than its operands, as for control flow and reads of objects."""
    return isinstance(op, Carrier) or bool(op.effects())


def _masked(kernel: Kernel) -> set[Value]:
    """The values whose adjoint may be 0 in some elements, because a use selects among operands, takes a slice, or is
    conditional."""
    order, count = list(kernel.walk()), -1
    stores = Counter(
        memory_root(e.value)
        for op in order
        for e in op.effects()
        if e.kind == "write" and e.value is not None
    )
    masked = {v for op in order if _may_mask(op, stores) or _is_conditional(op) for v in op.operands}
    while count != len(masked):
        count = len(masked)
        for op in reversed(order):
            if isinstance(op, Yield):
                continue
            if any(r in masked for r in op.results):
                masked.update(op.operands)
                masked.update(v for region in op.regions if region.ops for v in region.yielded)
            if any(a in masked for region in op.regions for a in region.args):
                masked.update(op.operands)
    return masked


def _may_mask(op: Op, stores: Counter[Value]) -> bool:
    """Whether some elements of an op's operands may get no gradient. `stores`: the number of stores to each array."""
    if isinstance(op, STORES) and stores[memory_root(op.array)] > 1:
        return True
    if isinstance(op, TileReduce):
        return combination(op.combine) is not S.Add
    return not isinstance(op, PROPAGATE_TO_ALL)


def _is_conditional(op: Op) -> bool:
    """Whether an op is in a branch or a loop."""
    ancestor = op.parent.parent if op.parent is not None else None
    while ancestor is not None:
        if isinstance(ancestor, Carrier):
            return True
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return False
