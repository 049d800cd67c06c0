"""Which tile values are computed where they are consumed instead of being written to memory first."""

from __future__ import annotations

from tegula.codegen.products import read_in_place
from tegula.codegen.state import State
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.base import TileOp
from tegula.ops.buffer import BufNew, BufRead, BufWrite
from tegula.ops.control import If
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import (
    TileArange,
    TileAtomic,
    TileBroadcast,
    TileEmpty,
    TileExtract,
    TileFillAbsent,
    TileFull,
    TileLoad,
    TileMap,
    TileMarkPartial,
    TileReduce,
    TileStore,
)
from tegula.passes.promote_buffers import root
from tegula.types import ArrayType, BufType, TileType

FREE = (TileFull, TileArange, TileEmpty)
POINTWISE = (TileMap, TileLoad, TileFillAbsent, TileMarkPartial, TileBroadcast)
CONSUMERS = (TileMap, TileStore, TileAtomic, TileReduce, BufNew, BufWrite, TileFillAbsent, TileMarkPartial)


class Fusion:
    """Decisions for one region, taken in order from what is already decided for the operands."""

    def __init__(self, s: State, region: Region) -> None:
        self.s = s
        self.kernel = s.kernel
        self.region = region
        self.users = s.users
        self.inline = s.inline
        self.order = {op: k for k, op in enumerate(region.ops)}

    def inlines(self, op: Op) -> bool:
        """Whether the op's tile is to be computed by its only consumer."""
        uses = self.users.get(op.result, [])
        if isinstance(op, FREE):
            return not any(isinstance(user, TileExtract) for user, _ in uses)
        if not isinstance(op, POINTWISE):
            return False
        if len(uses) != 1:
            return False
        user, position = uses[0]
        if user.parent is not self.region or not self._streams(op, user, position):
            return False
        if (
            isinstance(op, TileBroadcast)
            and op.operands[0] in self.inline
            and op.operands[0] not in self.s.tiles
        ):
            return isinstance(self.inline[op.operands[0]], FREE) and not self._conflict(op, user)
        return not self._conflict(op, user)

    def _streams(self, op: Op, user: Op, position: int) -> bool:
        """Whether the consumer visits each element once, in order, or reads the array itself."""
        if isinstance(user, TileMatmul):
            return isinstance(op, TileLoad) and position < 2 and read_in_place(self.s, user, position)
        if not isinstance(user, CONSUMERS):
            return False
        if isinstance(user, TileReduce):
            return all(not isinstance(o, If) for r in user.regions for o in r.ops)
        return True

    def _conflict(self, op: Op, user: Op) -> bool:
        """Whether something that the tile is computed from may be written before it is consumed, or while: a store
        into the array that it is loaded from would meet elements it has already overwritten."""
        sources = self.sources(op)
        between = self.region.ops[self.order[op] + 1 : self.order[user] + 1]
        return any(writes(self.kernel, other, sources) for other in between)

    def sources(self, op: Op) -> set[Value]:
        """The arrays and buffers that an op and what is inlined into it read."""
        out = {array_root(v) for v in op.operands if isinstance(v.type, ArrayType)}
        for operand in op.operands:
            if operand in self.inline and operand not in self.s.tiles:
                out |= self.sources(self.inline[operand])
            owner = operand.owner
            if isinstance(owner, BufRead):
                out.add(root(owner.operands[0]))
        return out


def array_root(value: Value) -> Value:
    """The parameter that an array view shows."""
    while isinstance(value.owner, ArrayView):
        value = value.owner.operands[0]
    return value


def writes(kernel: Kernel, op: Op, sources: set[Value]) -> bool:
    """Whether an op, or one nested in it, may write one of the arrays and buffers."""
    for inner in op.walk() if sources else ():
        assert isinstance(inner, TileOp)
        for effect in inner.effects():
            target = effect.value
            if (
                effect.kind in ("write", "atomic")
                and target is not None
                and _aliases(kernel, target, sources)
            ):
                return True
    return False


def _aliases(kernel: Kernel, value: Value, sources: set[Value]) -> bool:
    if isinstance(value.type, BufType):
        return root(value) in sources
    if not isinstance(value.type, ArrayType):
        return False
    target = array_root(value)
    return target in sources or any(
        _overlap(kernel, target, v) for v in sources if isinstance(v.type, ArrayType)
    )


def _overlap(kernel: Kernel, a: Value, b: Value) -> bool:
    """Whether two array parameters share bytes in this launch."""
    first, second = kernel.params.index(a), kernel.params.index(b)
    access = kernel.access[first]
    return access is None or second in access.aliases


def reads_in_place(
    kernel: Kernel, read: Op, region: Region, users: dict[Value, list[tuple[Op, int]]]
) -> bool:
    """Whether a buffer keeps its contents until the last use of a read of it, so that no copy is needed. The last use
    may itself overwrite the buffer if it does so element by element from this read alone."""
    target = root(read.operands[0])
    tops = [_top(op, region) for op, _ in users.get(read.result, [])]
    if any(t is None for t in tops):
        return False
    order = {op: k for k, op in enumerate(region.ops)}
    last = max((order[t] for t in tops if t is not None), default=order[read])
    for op in region.ops[order[read] + 1 : last]:
        if writes(kernel, op, {target}):
            return False
    final = region.ops[last]
    return not writes(kernel, final, {target}) or final is read


def _top(op: Op, region: Region) -> Op | None:
    at: Op | None = op
    while at is not None and at.parent is not region:
        at = at.parent.parent if at.parent is not None else None
    return at


__all__ = ["Fusion", "TileType", "array_root", "reads_in_place"]
