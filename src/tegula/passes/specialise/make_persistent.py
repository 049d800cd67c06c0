"""Persistent CTAs: the launch has as many CTAs as can be resident on the GPU, and each loops over its part of the
logical blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Builder, Kernel, Op, Region, Scale, Value
from tegula.ir.rewrite import replace
from tegula.ops.control import For, If, Yield
from tegula.ops.lane import BlockCoordinate, LogicalBlocks, Tid
from tegula.ops.scalar import Add, Cmp
from tegula.ops.schedule import BulkPrefetch, LaunchNext
from tegula.types import bool_, int32, int64


def make_persistent(kernel: Kernel, region: Region, raster: int, scale: Scale) -> Region:
    """A role that loops over the logical blocks of its CTA and executes `region` for each. All used results of `tid`
    are block indices; none is a lane index. `scale`: as in `logical_blocks`."""
    role = Region()
    build = Builder(role, kernel.loc)
    scaled = {"scale": scale} if scale else {}
    blocks = build.insert(LogicalBlocks([], [int64] * 3, scaled)).results
    body = Region([int64])
    (number,) = body.args
    indices: dict[Value, Value] = {}
    for op in region.ops:
        if isinstance(op, Tid):
            indices |= _block_indices(kernel, body, op, number, {"raster": raster, **scaled})
        elif isinstance(op, BulkPrefetch | LaunchNext):
            # Only the last iteration needs the prefetch of elements that reducing copies update, and may trigger the
            # next launch: in earlier iterations the next block follows, which still reads arrays.
            body.append(_in_last_iteration(body, op, number, blocks))
        else:
            body.append(op)
    build.insert(For(blocks, [], None, [body], kernel.loc))
    build.insert(Yield())
    replace(role, indices)
    return role


def _in_last_iteration(body: Region, op: Op, number: Value, blocks: Sequence[Value]) -> Op:
    """The op inside a branch that is taken only in the last iteration, where no other block follows."""
    build = Builder(body, op.loc)
    _, end, step = blocks
    after = build.insert(Add([number, step], [int64])).result
    last = build.insert(Cmp([after, end], [bool_], {"pred": "ge"})).result
    then, otherwise = Region(), Region()
    then.append(op)
    for region in (then, otherwise):
        Builder(region, op.loc).insert(Yield())
    return If([last], [], None, [then, otherwise], op.loc)


def _block_indices(
    kernel: Kernel, body: Region, tid: Op, number: Value, attrs: Mapping[str, Any]
) -> dict[Value, Value]:
    build = Builder(body, tid.loc)
    indices: dict[Value, Value] = {}
    for dim, value in enumerate(tid.results[: kernel.launch.ndim - 1]):
        index = build.insert(BlockCoordinate([number], [int32], {"dim": dim, **attrs})).result
        index.name = value.name
        indices[value] = index
    return indices
