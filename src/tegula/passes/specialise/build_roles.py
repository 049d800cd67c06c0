"""Builds the two roles that replace a kernel's body: a producer that loads tiles, and a consumer that executes all
other ops.

The producer is the kernel reduced to its loads, their enclosing loops, and the ops that compute their offsets, which
must not depend on a tile. The consumer is the kernel with pops in place of loads; right operands that the consumer
converts go through a separate pipe, because tensor cores read them from shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import READ, Builder, Carrier, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_ops, erase_dead, is_observable, uses
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayView
from tegula.ops.buffer import BufRead, BufView
from tegula.ops.control import For, Yield
from tegula.ops.lane import Tid
from tegula.ops.roles import PipeLoad, PipePop, PipePush
from tegula.ops.scalar import Const
from tegula.ops.schedule import BulkPrefetch, LaunchNext
from tegula.ops.tile import TileAtomic, TileEmpty, TileLoad, TilePermute, TileReshape, TileSlice
from tegula.passes.specialise.declined import Declined
from tegula.passes.specialise.find_matmuls import OperandDef, keeps_rows, pipe_load, transposes
from tegula.passes.stage_stores import piece_of
from tegula.target import CudaTarget
from tegula.types import BufType, PipeType, TileType, int32

with deferred_imports():
    from tegula.passes.bulk_access import box_of_rows, bulk_storable, may_swizzle

FETCH_OPS = (ArrayLoad, ArrayShape, ArrayView, Tid, Carrier, Yield, PipeLoad, BulkPrefetch)


@dataclass(frozen=True, slots=True)
class RolePipe:
    """A pipe and the loads or conversions whose tiles it carries: a single op, or the load of a loop's initial tile and
    the load in the loop for its next iteration."""

    value: Value
    items: tuple[OperandDef, ...]


def fetch_role(kernel: Kernel, target: CudaTarget, pipes: Sequence[RolePipe]) -> Region:
    """A region that loads the kernel's tiles into pipes, in the same order, and prefetches the array elements to which
    copies add."""
    region, copies = clone_ops(kernel.body.ops)
    fills = {copies[op.result].owner: p.value for p in pipes for op in p.items}
    _fill(region, uses(region), fills, _prefetched_additions(kernel, target, region))
    erase_dead(Kernel(kernel.name, (), region, kernel.launch))
    for op in region.walk():
        if not isinstance(op, FETCH_OPS) and (op.COOPERATIVE or not op.PURE):
            raise Declined("the offset of a loaded tile depends on this op", op.loc)
    return region


def _prefetched_additions(
    kernel: Kernel, target: CudaTarget, region: Region
) -> dict[TileAtomic, dict[str, Any]]:
    """The additions in `region` that become bulk copies and are the only additions of any block to their elements, each
    with the attributes of its prefetch: the boxes of the copies. Without a prefetch the additions at the end of a block
    would wait for memory."""
    attributes: dict[TileAtomic, dict[str, Any]] = {}
    for op in region.walk():
        if isinstance(op, TileAtomic) and op.exclusive:
            t = op.result.type
            assert isinstance(t, TileType)
            if len(t.shape) < 2:
                continue
            piece = piece_of(t, False)
            box = box_of_rows(t.shape, piece.shape)
            is_full = box is not None and all(n % m == 0 for n, m in zip(t.shape, box, strict=True))
            if is_full and may_swizzle(piece) and bulk_storable(kernel, target, op, piece):
                attributes[op] = {"shape": t.shape, "box": box, "elected": True}
    return attributes


def clone_body(kernel: Kernel) -> list[Op]:
    """Modifiable copies of the kernel's ops."""
    region, _ = clone_ops(kernel.body.ops)
    for op in region.ops:
        op.parent = kernel.body
    return region.ops


def _fill(
    region: Region,
    used: Mapping[Value, object],
    fills: Mapping[Op | Region | None, Value],
    added: Mapping[TileAtomic, Mapping[str, Any]],
) -> None:
    """Rewrite a region in place: loads that feed a pipe fill it, additions by copies (`added`, with the attributes of
    their prefetches) become prefetches, and other ops with effects are removed."""
    out: list[Op] = []
    for op in region.ops:
        for nested in op.regions:
            _fill(nested, used, fills, added)
        if op in fills:
            assert isinstance(op, TileLoad)
            empty = TileEmpty([], [op.result.type], {"type": op.result.type}, [], op.loc)
            empty.results, op.results = op.results, empty.results
            empty.result.owner = empty
            ops = [pipe_load(fills[op], op), empty]
        elif isinstance(op, TileAtomic) and op in added:
            ops = [BulkPrefetch([op.array, *op.offset], [], added[op], [], op.loc)]
        elif is_observable(op) and not any(r in used for r in op.results):
            ops = []
        else:
            ops = [op]
        for new in ops:
            new.parent = region
        out += ops
    region.ops = out


def multiply_role(kernel: Kernel, pipes: Sequence[RolePipe]) -> Region:
    """A region with the kernel's ops in which tiles are popped before their first use."""
    region = Region()
    last = kernel.body.ops[-2:-1]
    for op in kernel.body.ops:
        if kernel.overlap.next_starts == READ and op in last and isinstance(op, TileAtomic):
            region.append(LaunchNext([], [], None, [], op.loc))
        region.append(op)
    for p in pipes:
        for op in p.items:
            if isinstance(op, TileLoad):
                _pop_next_iteration(region, p, op)
        for op in p.items:
            assert op.parent is not None
            if not isinstance(op, TileLoad):
                _push(region, p.value, op)
            elif op in op.parent.ops:
                _pop_before_use(region, p.value, op.parent, op.result, op)
    return region


def _push(role: Region, pipe: Value, op: Op) -> None:
    """Send the op's result through the pipe to its users."""
    region = op.parent
    assert region is not None
    value, used, stage = op.result, uses(role), pipe.type
    assert isinstance(stage, PipeType)
    popped, read = _pop(pipe, value.name, op)
    popped.ops.insert(0, PipePush([pipe, value], [], None, [], op.loc))
    if value.type != read.result.type:
        rows = TileReshape([value], [read.result.type], {"shape": stage.shape}, [], op.loc)
        popped.ops[0].substitute({value: rows.result})
        popped.ops.insert(0, rows)
    at = region.ops.index(op) + 1
    for new in popped.ops:
        new.parent = region
    region.ops[at:at] = popped.ops
    _replace_uses(used, value, read)


def _pop_next_iteration(region: Region, pipe: RolePipe, load: TileLoad) -> None:
    """Pop a tile that a loop loads for its next iteration in that iteration, and the last tile after the loop."""
    users = uses(region).get(load.result, [])
    slots = [(op, k) for op, k in users if isinstance(op, Yield)]
    if not slots:
        return
    ((last, k),) = users if len(users) == 1 else [(None, 0)]
    loop = load.parent.parent if load.parent is not None else None
    if last is None or not isinstance(loop, For) or last.parent is not load.parent:
        raise Declined("a tile is used in this iteration and in the next", load.loc)
    start = loop.initial[k].owner
    if start not in pipe.items or len(uses(region)[loop.initial[k]]) > 1:
        raise Declined(
            "the initial value of a loop-carried tile is not a load of the same array and type", load.loc
        )
    assert isinstance(start, Op) and start.parent is not None and loop.parent is not None
    body, argument, result = loop.body, loop.arguments[k], loop.results[k]
    _pop_before_use(region, pipe.value, body, argument, load)
    _pop_before_use(region, pipe.value, loop.parent, result, load)
    loop.erase([k])
    for old in (load, start):
        assert old.parent is not None
        old.parent.ops.remove(old)


def _pop_before_use(role: Region, pipe: Value, region: Region, value: Value, load: Op) -> None:
    """Pop `value` in the region before its first use."""
    used = uses(role)
    users = used.get(value, [])
    ancestors = {_ancestor_in(op, region) for op, _ in users}
    if not users or None in ancestors:
        raise Declined("a tile is loaded, but not used in the same region", load.loc)
    at = min(region.ops.index(op) for op in ancestors if op is not None)
    popped, read = _pop(pipe, value.name, load)
    for op in popped.ops:
        op.parent = region
    if load.parent is region and load.result is value:
        at -= region.ops.index(load) < at
        region.ops.remove(load)
    region.ops[at:at] = popped.ops
    _replace_uses(used, value, read)


def _pop(pipe: Value, name: str, item: Op) -> tuple[Region, BufRead]:
    """A pop, and the op that reads the tile."""
    region_of_pop = Region()
    build = Builder(region_of_pop, item.loc)
    t = pipe.type
    assert isinstance(t, PipeType)
    tile = build.insert(PipePop([pipe], [BufType(t.dtype, t.shape, "shared")])).result
    tile.name = name or pipe.name
    return region_of_pop, build.insert(BufRead([tile], [TileType(t.dtype, t.shape)]))


def _replace_uses(used: Mapping[Value, Sequence[tuple[Op, int]]], tile: Value, read: BufRead) -> None:
    """Replace a tile by the popped tile in its users. A stage may hold the rows of the tile as a matrix."""
    for op in dict.fromkeys(op for op, _ in used.get(tile, ())):
        if tile.type != read.result.type and keeps_rows(op):
            _replace_uses(used, op.results[0], read)
            assert op.parent is not None
            op.parent.ops.remove(op)
        elif tile.type != read.result.type:
            assert isinstance(tile.type, TileType) and op.parent is not None
            shaped = TileReshape([read.result], [tile.type], {"shape": tile.type.shape}, [], op.loc)
            shaped.parent = op.parent
            op.parent.ops.insert(op.parent.ops.index(op), shaped)
            op.substitute({tile: shaped.result})
        elif transposes(op):
            _transpose(op, read.buffer)
        else:
            op.substitute({tile: read.result})


def _transpose(op: TilePermute | TileSlice, tile: Value) -> None:
    """Replace a transpose of a popped tile by a read of a transposed view of the tile."""
    region, t = op.parent, op.result.type
    assert region is not None and isinstance(t, TileType)
    transposed = Region()
    build = Builder(transposed, op.loc)
    zero = build.insert(Const([], [int32], {"type": int32, "value": 0})).result
    attrs = {"shape": t.shape, "dims": (1, 0), "steps": (1, 1)}
    view = build.insert(BufView([tile, zero, zero], [BufType(t.dtype, t.shape, "shared")], attrs)).result
    read = build.insert(BufRead([view], [t]))
    read.results, op.results = op.results, read.results
    read.result.owner = read
    for new in transposed.ops:
        new.parent = region
    at = region.ops.index(op)
    region.ops[at : at + 1] = transposed.ops


def _ancestor_in(op: Op, region: Region) -> Op | None:
    """The op of the region that contains `op`."""
    ancestor: Op | None = op
    while ancestor is not None and ancestor.parent is not region:
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return ancestor
