"""Fusion: selects the tiles that are computed inside their consumer and not materialised."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.elements import needs_bounds
from tegula.codegen.state import State
from tegula.deferred import deferred_imports
from tegula.ir import Op, Region, Value, root
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
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
    TileGather,
    TileLoad,
    TileMap,
    TileMarkPartial,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
)
from tegula.passes.overlap import array_root, writes
from tegula.types import ArrayType

with deferred_imports():
    from tegula.codegen.tile_matmul import loaded_operand, read_in_place

RECOMPUTED = (TileFull, TileArange, TileEmpty)
POINTWISE = (TileMap, TileLoad, ArrayGather, TileFillAbsent, TileMarkPartial, TileBroadcast)
VIEWS = (TileSlice, TilePermute, TileReshape)
"""The ops whose result aliases the operand."""
CONSUMERS = (
    *(
        TileMap,
        TileStore,
        TileAtomic,
        ArrayGather,
        ArrayScatter,
        ArrayScatterAtomic,
        ArrayScatterCas,
        TileReduce,
        BufNew,
        BufWrite,
        PipePush,
        TileFillAbsent,
        TileMarkPartial,
    ),
)


MAX_FUSED = 64
"""The maximum number of ops that are fused into one consumer."""


def reads_elements(uses: Sequence[tuple[Op, int]]) -> bool:
    """Whether an op extracts single elements of a tile, which it reads from memory."""
    return any(isinstance(user, TileExtract) for user, _ in uses)


class Fusion:
    """The fusion decisions for the ops of one region, made in order, each based on the decisions for its operands."""

    def __init__(self, s: State, region: Region) -> None:
        self.s = s
        self.kernel = s.kernel
        self.region = region
        self.users = s.users
        self.inline = s.inline
        self.order = {op: k for k, op in enumerate(region.ops)}
        self.sizes: dict[Value, int] = {}

    def inlines(self, op: Op) -> bool:
        """Whether an op's tile is computed inside its only consumer."""
        size = 1 + sum(self.sizes.get(v, 0) for v in op.operands if v not in self.s.tiles)
        inlined = self._inlines(op, size)
        if inlined:
            self.sizes[op.result] = size
        return inlined

    def _inlines(self, op: Op, size: int) -> bool:
        uses = self.users.get(op.result, [])
        if isinstance(op, RECOMPUTED):
            return not reads_elements(uses)
        if isinstance(op, TilePermute):
            # A matmul that reads the operand from its array reads the operand transposed.
            return isinstance(self.inline.get(op.tile), TileLoad) and op.tile not in self.s.tiles
        if not isinstance(op, (*POINTWISE, TileGather)):
            return False
        if len(uses) != 1 or size > MAX_FUSED:
            return False
        user, position = uses[0]
        if isinstance(op, TileGather) and not (
            isinstance(user, BufWrite) and self.s.vectorised.kernel is self.kernel
        ):
            return False
        if isinstance(op, TileLoad) and isinstance(user, TilePermute):
            permute_uses = self.users.get(user.result, [])
            if len(permute_uses) != 1 or user.parent is not self.region:
                return False
            consumer, position = permute_uses[0]
            is_copied = (
                isinstance(consumer, BufWrite) and user.perm == (1, 0) and not needs_bounds(self.s, op)
            )
            if not is_copied and not isinstance(consumer, TileMatmul):
                return False
            user = consumer
        if user.parent is not self.region or not self._consumes_in_order(op, user, position):
            return False
        if isinstance(op, TileBroadcast) and op.tile in self.inline and op.tile not in self.s.tiles:
            return isinstance(self.inline[op.tile], RECOMPUTED) and not self._has_conflict(op, user)
        return not self._has_conflict(op, user)

    def _consumes_in_order(self, op: Op, user: Op, position: int) -> bool:
        """Whether the consumer visits each element once and in order, or is a matmul that reads the array directly."""
        if isinstance(user, TileMatmul):
            load = loaded_operand(user, position) if position < 2 else None
            return load is not None and load[0] is op and read_in_place(self.s, user, position)
        if not isinstance(user, CONSUMERS):
            return False
        if isinstance(user, TileReduce):
            return all(not isinstance(o, If) for r in user.regions for o in r.ops)
        return True

    def _has_conflict(self, op: Op, user: Op) -> bool:
        """Whether memory from which the tile is computed may be written before or while the tile is consumed. For
        example, a store to the array from which the tile is loaded would read elements that the store has already
        overwritten."""
        sources = self.sources(op)
        between = self.region.ops[self.order[op] + 1 : self.order[user]]
        if any(writes(self.kernel, other, sources) for other in between):
            return True
        return writes(
            self.kernel, user, self.sources(op, user.buffer) if isinstance(user, BufWrite) else sources
        )

    def sources(self, op: Op, target: Value | None = None) -> set[Value]:
        """The arrays and buffers read by an op and by the ops inlined into it, without reads of the element of the
        buffer `target` that the result replaces."""
        sources_read = {array_root(v) for v in op.operands if isinstance(v.type, ArrayType)}
        if not isinstance(op, TileMap):
            target = None
        for operand in op.operands:
            if operand in self.inline and operand not in self.s.tiles:
                sources_read |= self.sources(self.inline[operand], target)
            owner = operand.owner
            if isinstance(owner, BufRead) and owner.buffer is target:
                continue
            while isinstance(owner, VIEWS):
                owner = owner.tile.owner
            if isinstance(owner, BufRead):
                sources_read.add(root(owner.buffer))
        return sources_read
