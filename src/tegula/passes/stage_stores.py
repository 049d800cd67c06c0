"""Lowers stores of matmul results to bulk stores through staging buffers in shared memory, piece by piece, if a tensor
map can describe the array: a thread holds scattered pairs of elements, whereas a bulk store writes whole rows.
Additions to an array whose results are unused become bulk reductions; other additions to elements that no other block
adds to become loads and stores.

Either all stores of an array become bulk copies or none: accesses of threads and of bulk copies belong to different
proxies, and no fence orders them here."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import gcd
from typing import TypeGuard

from tegula.deferred import deferred_imports
from tegula.ir import Builder, Kernel, Op, Region, Value
from tegula.ir.rewrite import uses
from tegula.layout import Layout, wgmma_group_tile, wgmma_result, wgmma_transposed
from tegula.ops.buffer import BufNew
from tegula.ops.control import Yield
from tegula.ops.roles import Roles
from tegula.ops.scalar import Add, Const
from tegula.ops.schedule import BulkStore, BulkWait
from tegula.ops.tile import TileAtomic, TileEmpty, TileLoad, TileMap, TileStore
from tegula.passes.assign_layouts import Layouts
from tegula.passes.groups import group_of, role_of
from tegula.passes.overlap import array_root
from tegula.passes.runner import GpuCompilation
from tegula.target import CudaTarget
from tegula.types import ArrayType, BufType, DType, TileType, bfloat16, element_bytes, float16, float32

with deferred_imports():
    from tegula.passes.bulk_access import bulk_storable, may_swizzle

PIECE_ROWS, PIECE_BYTES = 64, 128
"""The largest size of a piece, the part of a tile that one copy writes: the rows of a warp group's result, and the
bytes of a swizzled row."""
BULK_REDUCTION_TYPES = (float32, float16, bfloat16)
"""The types in which bulk reductions add like threads: sums are rounded to nearest, and subnormal float32 numbers are
flushed to 0."""
COPIES = 2
"""The number of staging buffers per warp group."""


def stage_stores(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite stores and additions of the kernel in place."""
    target, layouts, threads = context.target, context.layouts, context.threads
    stores_by_region: dict[Region, list[TileStore | TileAtomic]] = {}
    used = uses(kernel.body)
    stores = [op for op in kernel.walk() if isinstance(op, TileStore) or _may_add(op, used)]
    staged = {op for op in stores if _is_staged(kernel, target, op, layouts, threads)}
    others = set(_written_by_threads(kernel, staged))
    for op in stores:
        if op in staged and array_root(op.array) not in others:
            stores_by_region.setdefault(role_of(op) or kernel.body, []).append(op)
        elif isinstance(op, TileAtomic) and op.exclusive:
            _lower_to_load_add_store(op, layouts)
    for region, region_stores in stores_by_region.items():
        _rewrite(region, region_stores, group_of(region, threads).warp_groups, layouts)


def _written_by_threads(kernel: Kernel, staged: Collection[Op]) -> Iterator[Value]:
    """The arrays that threads write by ops other than additions; additions by threads and by copies may happen in any
    order."""
    for op in kernel.walk():
        if op in staged or (isinstance(op, TileAtomic) and not op.exclusive):
            continue
        for effect in op.effects():
            if (
                effect.value is not None
                and isinstance(effect.value.type, ArrayType)
                and effect.kind != "read"
            ):
                yield array_root(effect.value)


def _may_add(op: Op, used: Collection[Value]) -> TypeGuard[TileAtomic]:
    """Whether an op adds to an array and its result, the previous elements, is unused."""
    if not isinstance(op, TileAtomic) or op.result in used:
        return False
    t = op.result.type
    return op.op == "add" and isinstance(t, TileType) and t.dtype in BULK_REDUCTION_TYPES


def _lower_to_load_add_store(op: TileAtomic, layouts: Layouts) -> None:
    """Replace an addition by a load, a sum and a store."""
    array, tile, offset = op.array, op.tile, op.offset
    t, region = tile.type, op.parent
    assert isinstance(t, TileType) and isinstance(t.dtype, DType) and region is not None
    result = Region()
    build = Builder(result, op.loc)
    attrs = {"bounds_check": op.bounds_check, "aligned": False}
    zero = build.insert(Const([], [t.dtype], {"type": t.dtype, "value": 0.0})).result
    before = build.insert(TileLoad([array, zero, *offset], [t], {**attrs, "shape": t.shape})).result
    addition = Region([t.dtype, t.dtype])
    Builder(addition, op.loc).insert(
        Yield([Builder(addition, op.loc).insert(Add(addition.args, [t.dtype])).result])
    )
    total = build.insert(TileMap([before, tile], [t], None, [addition])).result
    build.insert(TileStore([array, total, *offset], [], attrs))
    layouts[before] = layouts[total] = layouts[tile]
    for new in result.ops:
        new.parent = region
    index = region.ops.index(op)
    region.ops[index : index + 1] = result.ops


def piece_of(tile: TileType, transposed: bool) -> TileType:
    """The type of the slice of a tile that one copy writes. `transposed`: whether the tile has the layout of the result
    of a transposed matmul, which may have fewer rows."""
    rows = gcd(PIECE_ROWS, tile.rows.shape[0]) if transposed else PIECE_ROWS
    size = element_bytes(tile.dtype)
    return TileType(tile.dtype, (rows, gcd(PIECE_BYTES, tile.shape[-1] * size) // size))


def _is_staged(
    kernel: Kernel, target: CudaTarget, op: TileAtomic | TileStore, layouts: Layouts, threads: int
) -> bool:
    tile = op.tile
    t, groups = tile.type, group_of(op, threads).warp_groups
    assert isinstance(t, TileType)
    if not groups or len(t.shape) < 2:
        return False
    t, layout = t.rows, layouts[tile].reshaped(t.rows.shape)
    if layout is None:
        return False
    rows, columns = t.shape
    transposed = _is_transposed(t, layout, groups)
    piece = piece_of(t, transposed)
    if transposed:
        fits = piece.shape[0] % 8 == 0 and columns % (64 * groups) == 0
    else:
        groups_m, groups_n, blocks_m, blocks_n = wgmma_group_tile((rows, columns), groups)
        fits = (
            PIECE_ROWS * blocks_m * groups_m,
            8 * blocks_n * groups_n,
        ) == t.shape and 8 * blocks_n % piece.shape[1] == 0
        fits = fits and layout == wgmma_result((rows, columns), groups)
    return fits and may_swizzle(piece) and bulk_storable(kernel, target, op, piece)


def _is_transposed(tile: TileType, layout: Layout, groups: int) -> bool:
    """Whether a tile has the layout of the result of a transposed matmul."""
    rows, columns = tile.shape
    return layout == wgmma_transposed((rows, columns), groups) and element_bytes(tile.dtype) in (2, 4)


def _rewrite(region: Region, stores: list[TileStore | TileAtomic], groups: int, layouts: Layouts) -> None:
    """Replace the stores of a region by bulk stores, with one staging buffer for each type of tile and a wait for all
    copies at the end."""
    buffers: dict[TileType, Value] = {}
    result = Region()
    build = Builder(result, stores[0].loc)
    for op in stores:
        t = op.tile.type
        assert isinstance(t, TileType)
        layout = layouts[op.tile].reshaped(t.rows.shape)
        transposed = layout is not None and _is_transposed(t.rows, layout, groups)
        piece = piece_of(t, transposed)
        if piece not in buffers:
            tile_type = TileType(piece.dtype, (COPIES * groups, *piece.shape))
            empty = build.insert(TileEmpty([], [tile_type], {"type": tile_type})).result
            attrs = {"storage": "shared", "pipe": True, "swizzled": True}
            buffers[piece] = build.insert(
                BufNew([empty], [BufType(tile_type.dtype, tile_type.shape, "shared")], attrs)
            ).result
            buffers[piece].name = "staging"
        assert op.parent is not None
        operands = [buffers[piece], op.array, op.tile, *op.offset]
        attrs = {"adds": isinstance(op, TileAtomic), "transposed": transposed, **op.promises}
        copy = BulkStore(operands, [], attrs, [], op.loc)
        copy.parent = op.parent
        op.parent.ops[op.parent.ops.index(op)] = copy
    for op in result.ops:
        op.parent = region
    region.ops[:0] = result.ops
    last = region.ops.pop()
    assert isinstance(last, Yield) or not isinstance(region.parent, Roles)
    Builder(region, stores[-1].loc).insert(BulkWait([], [], {"read": False}))
    region.append(last)
