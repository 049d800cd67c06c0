"""Analysis of blocks that need few lanes of a warp, so that several of them can share a warp.

The lanes that the tiles of such a block do not need hold copies. Code generation gives these lanes to other blocks of
the launch, which is correct only if all blocks run the same instructions: lanes of different blocks synchronise and
exchange registers together."""

from __future__ import annotations

from tegula.ir import BranchLike, Kernel, LoopLike, Op, Value
from tegula.layout import COPY, Layout
from tegula.ops.roles import WARP
from tegula.ops.tile import tile_type
from tegula.passes.lines import line_of
from tegula.passes.overlap import array_root
from tegula.passes.runner import GpuCompilation
from tegula.types import ArrayType, TileType

MIN_LANES = 4
"""The minimum number of lanes of a block."""


def lanes_of_block(kernel: Kernel, context: GpuCompilation) -> int:
    """The number of lanes, a power of two, among which the tiles of a block are distributed: the longest dimension of
    the tiles whose lines are in registers, if blocks can share a warp; else the size of a warp."""
    tiles = [line.tile for op in kernel.walk() if (line := line_of(op)) is not None]
    if context.debug or context.threads != WARP or not tiles or not _can_share_warps(kernel, context):
        return WARP
    longest = max(n for tile in tiles for n in tile_type(tile.type).shape)
    return min(WARP, max(MIN_LANES, 1 << (longest - 1).bit_length()))


def lanes_in_use(kernel: Kernel, context: GpuCompilation) -> int:
    """The number of lanes over which the tiles of a distributed kernel are spread, a power of two; the size of a warp
    if blocks cannot share a warp."""
    if context.lanes == WARP or not _can_share_warps(kernel, context):
        return WARP
    values = {v for op in kernel.walk() for v in (*op.results, *op.operands) if isinstance(v.type, TileType)}
    layouts = (context.layouts[v] for v in values if v in context.layouts)
    return context.lanes if all(_used_lanes(layout) <= context.lanes for layout in layouts) else WARP


def _can_share_warps(kernel: Kernel, context: GpuCompilation) -> bool:
    """Whether all blocks of a kernel run the same instructions, and a block can run twice without an effect: the last
    warp of a launch computes its last block several times."""
    launch = kernel.launch
    if launch.partial or launch.block_dim != WARP or not launch.last_is_block:
        return False
    if not all(_is_same_in_all_blocks(op, context) for op in kernel.walk()):
        return False
    read, written = set[Value](), set[Value]()
    for effect in (e for op in kernel.walk() for e in op.effects()):
        if effect.value is not None and isinstance(effect.value.type, ArrayType):
            (read if effect.kind == "read" else written).add(array_root(effect.value))
    return not read & written and all(_is_unaliased(kernel, root) for root in written)


def _is_same_in_all_blocks(op: Op, context: GpuCompilation) -> bool:
    """Whether all blocks run the same instructions for an op, apart from its regions: a loop has constant bounds."""
    if isinstance(op, LoopLike):
        return op.positions is not None
    if isinstance(op, BranchLike) or any(context.uniformity.varying(v) for v in op.results):
        return False
    return op.SIDE_BY_SIDE or (op.PURE and not op.COOPERATIVE)


def _is_unaliased(kernel: Kernel, root: Value) -> bool:
    """Whether an array is a parameter that shares no bytes with others."""
    access = kernel.access[kernel.params.index(root)] if root in kernel.params else None
    return access is not None and not access.aliases


def _used_lanes(layout: Layout) -> int:
    """The number of leading lanes that hold all elements in a layout; later lanes hold copies."""
    period, used = 1, 1
    for mode in layout.threads:
        period *= mode.size
        if mode.dim != COPY and mode.size > 1:
            used = period
    return used
