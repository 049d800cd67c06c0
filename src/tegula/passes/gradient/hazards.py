"""Where 0 times a derivative may be a NaN: adjoints that are 0 stay 0 there.

An adjoint is 0 for elements that do not exist, for what was not chosen, and where nothing depends on a value. What it
is multiplied by may be infinite or a NaN then: the slope of a root at 0, the inverse of what lies outside of an array.
Where a factor cannot be, multiplying is all; what can be is found from how values are made."""

from __future__ import annotations

import math
from collections import Counter
from enum import IntEnum

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayAtomic, ArrayStore
from tegula.ops.base import TileOp
from tegula.ops.control import For, If, While, Yield
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
from tegula.types import TileType


class Hazard(IntEnum):
    """How a number may come to be infinite or a NaN: never; as an array holds it; or by what computes it."""

    NONE = 0
    DATA = 1
    COMPUTED = 2


SAFE_FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "tanh", "atan", "atan2", "erf", "erfc", "hypot", "cbrt", "sign", "round", "sigmoid")
)
"""Functions of the library that are finite where their arguments are."""
SAFE = (
    *(S.Add, S.Sub, S.Mul, S.Fma, S.Neg, S.Abs, S.Min, S.Max, S.CopySign, S.Floor, S.Ceil, S.Trunc, S.Rint),
    *(S.Cmp, S.Classify, S.And, S.Or, S.Xor, S.Not, S.NeverAbove, Cast, TileBroadcast, TileFull, TileReshape),
    *(VecMake, VecSplat, TileMatmul, TileReduce),
)
"""Ops that are finite where their operands are, unless they overflow."""
STORES = (TileStore, ArrayStore)
RISKS = (S.Const, S.Div, S.Sqrt, S.FastExp2, Bitcast, Call)
CARRY_ALL = (
    *(S.Add, S.Sub, S.Mul, S.Fma, S.Neg, S.Div, S.Sqrt, S.FastExp2, S.Cmp, Cast, Call, VecMake, VecSplat),
    *(TileMap, TileBroadcast, TileFull, TileReshape, TilePermute, TileMatmul),
    *(TileStore, TileAtomic, ArrayStore, ArrayAtomic, Yield),
)
"""Ops whose operands have an adjoint of 0 only where the result's is, or where they are multiplied by 0."""


class Hazards:
    """Of the values of a kernel that is differentiated."""

    def __init__(self, kernel: Kernel) -> None:
        self.masked = _masked(kernel)
        self.known: dict[Value, Hazard] = {}
        self.low: dict[Value, float] = {}
        self.everywhere = Hazard.DATA
        """Of what loops carry and objects hold: the worst of all."""
        risks = [op for op in kernel.walk() if isinstance(op, RISKS)]
        self.everywhere = max([Hazard.DATA, *map(self._of_op, risks)])
        self.known.clear()
        for op in kernel.walk():  # in order, so that no chain of operands is long
            for result in op.results:
                self.of(result)
                self.above(result)

    def spoils(self, factor: Value, op: Op) -> bool:
        """Whether a factor may turn an adjoint of 0 of what an op makes into a NaN."""
        found = self.of(factor)
        return found is Hazard.COMPUTED or (
            found is Hazard.DATA and any(r in self.masked for r in op.results)
        )

    # What a value may be ---------------------------------------------------------------------------------------------

    def of(self, x: Value) -> Hazard:
        x = source(x)
        if x not in self.known:
            self.known[x] = self._of_op(x.owner) if isinstance(x.owner, Op) else self._of_argument(x)
        return self.known[x]

    def _of_argument(self, x: Value) -> Hazard:
        return self.everywhere if isinstance(x.owner, Region) and x.owner.parent else Hazard.DATA

    def _of_op(self, op: Op) -> Hazard:
        if isinstance(op, S.Const):
            value = op.attrs["value"]
            plain = not isinstance(value, int | float) or math.isfinite(value)
            return Hazard.NONE if plain else Hazard.COMPUTED
        if isinstance(op, TileLoad):
            return max(Hazard.DATA, self.of(op.operands[1]))
        of = [self.of(v) for v in op.operands]
        if isinstance(op, S.Select):
            return max(of[1:])
        if isinstance(op, Call):
            safe = op.attrs["name"] in SAFE_FUNCTIONS
            return max(of, default=Hazard.NONE) if safe else Hazard.COMPUTED
        if isinstance(op, S.Div):
            return Hazard.COMPUTED if not self.above(op.operands[1]) > 0.0 else max(of)
        if isinstance(op, S.Sqrt):
            return Hazard.COMPUTED if self.above(op.operands[0]) < 0.0 else max(of)
        if isinstance(op, TileReduce):
            return max(of) if combination(op.regions[0]) in (S.Add, S.Min, S.Max) else Hazard.COMPUTED
        if isinstance(op, SAFE):
            return max(of)
        if isinstance(op, S.FastExp2 | Bitcast):
            return Hazard.COMPUTED
        return max([self.everywhere if _reads_objects(op) else Hazard.DATA, *of])

    # What a value is at least -----------------------------------------------------------------------------------------

    def above(self, x: Value) -> float:
        """A number below which a value never is; a NaN is not looked at."""
        x = source(x)
        if x not in self.low:
            self.low[x] = -math.inf
            self.low[x] = self._above(x)
        return self.low[x]

    def _above(self, x: Value) -> float:
        op = x.owner
        if isinstance(op, S.Const) and isinstance(op.attrs["value"], int | float):
            value = float(op.attrs["value"])
            return -math.inf if math.isnan(value) else value
        if isinstance(op, S.Abs):
            return 0.0
        if isinstance(op, S.Mul):
            a, b = op.operands
            both = self.above(a) >= 0.0 and self.above(b) >= 0.0
            return 0.0 if both or source(a) is source(b) else -math.inf
        if isinstance(op, S.Fma):
            a, b, c = op.operands
            product = source(a) is source(b) or (self.above(a) >= 0.0 and self.above(b) >= 0.0)
            return self.above(c) if product else -math.inf
        if isinstance(op, S.Add):
            return sum(map(self.above, op.operands))
        if isinstance(op, S.Div):
            a, b = map(self.above, op.operands)
            return 0.0 if a >= 0.0 and b > 0.0 else -math.inf
        if isinstance(op, S.Max):
            return max(map(self.above, op.operands))
        if isinstance(op, S.Min):
            return min(map(self.above, op.operands))
        if isinstance(op, S.Select):
            return min(map(self.above, op.operands[1:]))
        if isinstance(op, S.Sqrt):
            return math.sqrt(max(0.0, self.above(op.operands[0])))
        if isinstance(op, Cast | TileBroadcast | TileFull | TileReshape):
            low = self.above(op.operands[0])
            return low if low >= 1e-4 else min(low, 0.0)
        if isinstance(op, TileReduce) and combination(op.regions[0]) is S.Add:
            low = self.above(op.operands[0])
            return 0.0 if low >= 0.0 else -math.inf
        if isinstance(op, Call) and op.attrs["name"] in ("exp", "exp2", "exp10", "cosh", "hypot"):
            return 1.0 if op.attrs["name"] == "cosh" else 0.0
        return -math.inf


def source(x: Value) -> Value:
    """Where a map or a call makes an element, or takes one: the number that it is outside, or in the map that made
    it."""
    while True:
        owner = x.owner
        if isinstance(owner, TileMap):
            x = owner.regions[0].terminator.operands[0]
        elif (
            isinstance(owner, Region)
            and isinstance(owner.parent, TileMap)
            or isinstance(owner, Region)
            and isinstance(owner.parent, Call)
            and owner is owner.parent.regions[0]
        ):
            x = owner.parent.operands[owner.args.index(x)]
        else:
            return x


def is_shared(x: Value) -> bool:
    """Whether an element of a map is one number, or one of a row, at all elements."""
    while isinstance(x.owner, Region) and isinstance(x.owner.parent, TileMap):
        x = x.owner.parent.operands[x.owner.args.index(x)]
        if not isinstance(x.type, TileType) or isinstance(x.owner, TileBroadcast | TileFull):
            return True
        if isinstance(x.owner, TileMap):
            x = x.owner.regions[0].terminator.operands[0]
    return False


def _reads_objects(op: Op) -> bool:
    """Whether what an op gives is not told from its operands: control flow, and what tile objects hold."""
    assert isinstance(op, TileOp)
    return isinstance(op, If | For | While) or bool(op.effects())


def _masked(kernel: Kernel) -> set[Value]:
    """The values of which parts may have an adjoint of 0, though others have none: what they are used for is chosen
    from, or takes parts of them, or does not always happen."""
    order, count = list(kernel.walk()), -1
    stores = Counter(memory_root(op.operands[0]) for op in order if isinstance(op, STORES))
    found = {v for op in order if _chooses(op, stores) or _is_conditional(op) for v in op.operands}
    while count != len(found):
        count = len(found)
        for op in reversed(order):
            if isinstance(op, Yield):
                continue
            if any(r in found for r in op.results):
                found.update(op.operands)
                found.update(v for region in op.regions if region.ops for v in region.terminator.operands)
            if any(a in found for region in op.regions for a in region.args):
                found.update(op.operands)
    return found


def _chooses(op: Op, stores: Counter[Value]) -> bool:
    """Whether parts of what an op takes may have no gradient. `stores`: how many there are to each array."""
    if isinstance(op, STORES) and stores[memory_root(op.operands[0])] > 1:
        return True
    if isinstance(op, TileReduce):
        return combination(op.regions[0]) is not S.Add
    return not isinstance(op, CARRY_ALL)


def _is_conditional(op: Op) -> bool:
    """Whether an op is in a branch or a loop."""
    at = op.parent.parent if op.parent is not None else None
    while at is not None:
        if isinstance(at, If | For | While):
            return True
        at = at.parent.parent if at.parent is not None else None
    return False
