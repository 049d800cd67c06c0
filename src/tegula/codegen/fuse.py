"""Which tile values are computed where they are consumed instead of being written to memory first."""

from __future__ import annotations

from tegula.codegen.products import read_in_place
from tegula.codegen.state import State
from tegula.ir import Op, Region, Value
from tegula.ops.buffer import BufNew, BufRead, BufWrite
from tegula.ops.control import If
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipePush
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
from tegula.passes.overlap import array_root, writes
from tegula.passes.promote_buffers import root
from tegula.types import ArrayType

FREE = (TileFull, TileArange, TileEmpty)
POINTWISE = (TileMap, TileLoad, TileFillAbsent, TileMarkPartial, TileBroadcast)
CONSUMERS = (
    *(
        TileMap,
        TileStore,
        TileAtomic,
        TileReduce,
        BufNew,
        BufWrite,
        PipePush,
        TileFillAbsent,
        TileMarkPartial,
    ),
)


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
