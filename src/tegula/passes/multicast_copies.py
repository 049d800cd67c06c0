"""Multicasts tiles that both CTAs of a 2-CTA cluster need: each CTA fetches one half and multicasts it to both.

If the rows of an array are not aligned to cache sectors, each row of a tile needs one sector more, and fetching tiles
takes longer than multiplying them. Persistent CTAs that process numbered tiles in the same order often share one
operand; fetching it once reduces the traffic from the L2 cache.

CTAs 2 k and 2 k + 1 form a 2-CTA cluster. Both run the same number of iterations. If the number of tiles is odd, the
last tile is computed twice, and the stores of the second computation are moved out of bounds. A stage is empty when
both CTAs have released it. The full barrier works as before: each CTA expects all bytes of its stage, whichever CTA
copies them. Both CTAs execute each wait and each arrival equally often, because no enclosing condition or bound depends
on the block. The kernel computes at run time whether the tiles are the same, from the offsets of the other CTA's
tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Builder, Carrier, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import clone_op, replace
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape
from tegula.ops.buffer import is_swizzled
from tegula.ops.control import For, While
from tegula.ops.debug import Assert, Print, PrintTile
from tegula.ops.lane import BlockCount, BlockIndex, LogicalBlocks
from tegula.ops.roles import Roles
from tegula.ops.schedule import (
    HANDOVERS,
    BulkLoad,
    ClusterEnd,
    ClusterPeer,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
)
from tegula.ops.tile import TileStore
from tegula.passes.form_rings import is_by_hand
from tegula.passes.overlap import array_root
from tegula.passes.runner import GpuCompilation
from tegula.types import ArrayType, Type, bool_, int32

with deferred_imports():
    from tegula.passes.bulk_access import half_boxes

SECTOR = 32
"""The size of a cache sector in bytes, the unit of reads."""
HOST_OUTPUT = (Print, PrintTile, Assert)
"""Ops with output to the host, which must not run twice."""


def multicast_copies(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    if roles is None or context.target.tensor_cores != "wgmma":
        return
    persistent_loops = [
        op for role in roles.roles for op in role.ops if isinstance(op, For) and _is_persistent(op)
    ]
    if (
        not persistent_loops
        or not _synchronises_uniformly(roles, persistent_loops)
        or not all(map(_may_repeat, persistent_loops))
    ):
        return
    groups = [g for loop in persistent_loops for g in _groups(kernel, loop)]
    if not groups:
        return
    steps = {loop: _step(loop) for loop in persistent_loops}
    for group in groups:
        for load in group.loads:
            is_same = _is_same_copy(group.loop, steps[group.loop], load)
            if is_same is not None:
                load.both = is_same
                group.empty.cluster = True


# Uniformity over both CTAs --------------------------------------------------------------------------------------------


def _is_persistent(op: For) -> bool:
    """Whether a loop is persistent: its range starts at the block index with the number of blocks in the grid as
    step."""
    if not _is_grid_uniform(op.stop):
        return False
    start, step = op.start.owner, op.step.owner
    if isinstance(start, LogicalBlocks):
        return start is step and op.bounds == (start.first, start.end, start.step)
    return isinstance(start, BlockIndex) and isinstance(step, BlockCount)


def _is_grid_uniform(value: Value) -> bool:
    """Whether a value is the same in all blocks of the launch."""
    owner = value.owner
    if isinstance(owner, Region):
        loop = owner.parent
        return loop is None or (
            isinstance(loop, For) and value is loop.index and all(map(_is_grid_uniform, loop.bounds))
        )
    if isinstance(owner, LogicalBlocks):
        return value is not owner.first
    return owner is None or (
        _pure(owner) and not isinstance(owner, BlockIndex) and all(map(_is_grid_uniform, owner.operands))
    )


def _pure(op: Op) -> bool:
    """Whether an op computes its results from its operands alone."""
    return op.PURE and not (op.COOPERATIVE or op.VARYING or op.regions or op.effects())


def _synchronises_uniformly(roles: Roles, persistent_loops: Sequence[For]) -> bool:
    """Whether both CTAs of a cluster run the ops that synchronise roles equally often, in the same order."""
    for op in roles.walk():
        if not isinstance(op, Carrier) or op in persistent_loops or not _synchronises(op):
            continue
        if isinstance(op, While) or not all(map(_is_grid_uniform, op.control_operands)):
            return False
    return True


def _synchronises(op: Op) -> bool:
    return any(isinstance(inner, HANDOVERS) for inner in op.walk())


def _may_repeat(loop: For) -> bool:
    """Whether an iteration can be repeated without an effect: its only effects on arrays are bounds-checked tile
    stores, whose offsets can be moved out of bounds."""
    for op in loop.walk():
        if isinstance(op, HOST_OUTPUT):
            return False
        changes = any(
            e.kind != "read" and e.value is not None and isinstance(e.value.type, ArrayType)
            for e in op.effects()
        )
        if changes and not (isinstance(op, TileStore) and op.bounds_check):
            return False
    return True


# Copies --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Copies that fill one stage together. `empty`: the op that creates the barrier on which the copies wait for an
    empty stage."""

    loop: For
    empty: MbarrierNew
    loads: tuple[BulkLoad, ...]


def _groups(kernel: Kernel, loop: For) -> Iterator[_Group]:
    """The groups of copies to pipes in a loop. At least one copy of a group reads an array whose rows may start inside
    a sector; `loads` are the copies of the group that can be halved."""
    for expect in loop.walk():
        if not isinstance(expect, MbarrierExpect) or expect.parent is None:
            continue
        full, region_ops = expect.barriers, expect.parent.ops
        loads = tuple(op for op in region_ops if isinstance(op, BulkLoad) and op.barriers is full)
        waits = [op for op in region_ops[: region_ops.index(expect)] if isinstance(op, MbarrierWait)]
        if not waits or any(is_by_hand(root(op.buffer)) for op in loads):
            continue
        if any(_may_split_sectors(kernel, op) for op in loads):
            empty = waits[-1].barriers.owner
            assert isinstance(empty, MbarrierNew)
            yield _Group(loop, empty, tuple(filter(_can_be_halved, loads)))


def _can_be_halved(load: BulkLoad) -> bool:
    """Whether the boxes of a copy can be multicast, as boxes of swizzled stages for tensor cores can."""
    return is_swizzled(load.buffer) and half_boxes(load.tile) is not None


def _may_split_sectors(kernel: Kernel, load: BulkLoad) -> bool:
    access = kernel.access[kernel.params.index(array_root(load.array))]
    return access is not None and access.align < SECTOR


# Iterations of both CTAs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """An iteration: the index `tile` of its tile, and the index `peer` of the other CTA's tile."""

    tile: Value
    peer: Value


def _step(loop: For) -> _Step:
    """Give both CTAs of a cluster the same number of iterations. The last iteration of one CTA may compute the last
    tile a second time; its stores then have no effect."""
    body, index, end = loop.body, loop.index, loop.stop
    outside, start = _Before(loop), Region()
    one = outside(S.Const, [], end.type, type=end.type, value=1)
    last_tile = outside(S.Sub, [end, one], end.type)
    loop.stop = outside(ClusterEnd, [end], end.type)
    build = Builder(start, loop.loc)
    tile = build.insert(S.Min([index, last_tile], [index.type])).result
    peer = build.insert(ClusterPeer([index], [index.type])).result
    peer = build.insert(S.Min([peer, last_tile], [index.type])).result
    is_in_range = build.insert(S.Cmp([index, end], [bool_], {"pred": "lt"})).result
    replace(body, {index: tile})
    for op in start.ops:
        op.parent = body
    body.ops[:0] = start.ops
    for store in [op for op in body.walk() if isinstance(op, TileStore)]:
        first, *rest = store.offset
        before = _Before(store)
        out_of_bounds = before(ArrayShape, [store.array], int32, dim=0)
        store.offset = [before(S.Select, [is_in_range, first, out_of_bounds], int32), *rest]
    return _Step(tile, peer)


class _Before:
    """Inserts new ops before a given op."""

    def __init__(self, op: Op) -> None:
        assert op.parent is not None
        self.op, self.region = op, op.parent

    def __call__(self, kind: type[Op], operands: list[Value], result: Type, **attrs: Any) -> Value:
        return self.put(kind(operands, [result], attrs, [], self.op.loc)).result

    def put(self, op: Op) -> Op:
        op.parent = self.region
        self.region.ops.insert(self.region.ops.index(self.op), op)
        return op


# The same tile -------------------------------------------------------------------------------------------------------


def _is_same_copy(loop: For, step: _Step, load: BulkLoad) -> Value | None:
    """Whether the other CTA copies the same tile in this iteration; None if unknown."""
    body = loop.body
    values: dict[Value, None] = {}
    if not all(_collect_varying_scalars(body, step.tile, v, values) for v in (load.array, *load.offset)):
        return None
    ancestor: Op | None = load
    while ancestor is not None and ancestor.parent is not body:
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    assert ancestor is not None
    before, peer_values = _Before(ancestor), {step.tile: step.peer}
    same = before(S.Const, [], bool_, type=bool_, value=True)
    for value in values:
        peer = _peer_value(before, value, peer_values, body)
        equal = before(S.Cmp, [value, peer], bool_, pred="eq")
        same = before(S.And, [same, equal], bool_)
    return same


def _collect_varying_scalars(body: Region, number: Value, value: Value, values: dict[Value, None]) -> bool:
    """Add to `values` the block-varying scalars of an iteration on which a value depends. Returns whether the value
    depends on no other block-varying value."""
    if _is_grid_uniform(value):
        return True
    owner = value.owner
    if value is number or (
        isinstance(owner, Op) and owner.parent is body and not isinstance(value.type, ArrayType)
    ):
        if value is not number and not _is_computed_from_tile(body, number, value):
            return False
        values[value] = None
        return True
    return (
        isinstance(owner, Op)
        and _pure(owner)
        and all(_collect_varying_scalars(body, number, v, values) for v in owner.operands)
    )


def _is_computed_from_tile(body: Region, number: Value, value: Value) -> bool:
    """Whether the iteration computes a value only from the tile index and grid-uniform values."""
    owner = value.owner
    if value is number or _is_grid_uniform(value):
        return True
    if not isinstance(owner, Op) or owner.parent is not body or not _pure(owner):
        return False
    return all(_is_computed_from_tile(body, number, v) for v in owner.operands)


def _peer_value(before: _Before, value: Value, peer_values: dict[Value, Value], body: Region) -> Value:
    """The other CTA's counterpart of a value, computed by clones of the ops on which the value depends."""
    owner = value.owner
    if (
        value not in peer_values
        and isinstance(owner, Op)
        and owner.parent is body
        and not _is_grid_uniform(value)
    ):
        for v in owner.operands:
            _peer_value(before, v, peer_values, body)
        before.put(clone_op(owner, peer_values))
    return peer_values.get(value, value)
