"""Sinks widening conversions of tiles to their first use.

Matmuls take the narrow tiles: tensor cores multiply 16-bit numbers as exactly as the float32 numbers
that they are widened to, and tensor cores do not multiply float32."""

from __future__ import annotations

from typing import TypeGuard

from tegula.deferred import deferred_imports
from tegula.ir import Kernel, Op, Region, Value
from tegula.ir.rewrite import insert_after, uses, walk_regions
from tegula.ops.convert import Cast
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileMap, TilePermute, TileReshape, TileSlice, dtype_of
from tegula.passes.runner import GpuCompilation
from tegula.types import TileType, scalar_of

with deferred_imports():
    from tegula.passes.mma_types import register_mma_types

SHAPES = (TilePermute, TileReshape, TileSlice)
"""Ops whose results have elements of a tile in another shape."""
Uses = dict[Value, list[tuple[Op, int]]]
"""The uses of each value, as (op, operand position)."""


def sink_conversions(kernel: Kernel, context: GpuCompilation) -> None:
    """Sink each widening conversion of a tile to its first use, so that the tile takes at most half of the registers
    until then and more blocks are resident. Matmuls take the narrow tiles if tensor cores can multiply them."""
    for op in list(kernel.walk()):
        if isinstance(op, TileMatmul):
            _multiply_narrow(op)
    used = _erase_unused(kernel)
    for region in walk_regions(kernel.body):
        _region(region, used)


def _region(region: Region, used: Uses) -> None:
    """Sink the conversions of a region, from the last op to the first, so that a conversion moves together with the
    conversion of its operand."""
    for at in reversed(range(len(region.ops))):
        op = region.ops[at]
        if _widens(op):
            users = {_ancestor_in(user, region) for user, _ in used.get(op.result, ())}
            first = next((k for k, other in enumerate(region.ops) if other in users), at + 1)
            region.ops.insert(first, op)
            del region.ops[at]


def _multiply_narrow(matmul: TileMatmul) -> None:
    """Replace both operands by the tiles from which they were widened, which have the same values, if the types become
    narrower."""
    before, (a, b) = register_mma_types(matmul), matmul.sides
    matmul.sides = _source(a), _source(b)
    after = register_mma_types(matmul)
    narrower = after is not None and (before is None or after.bits < before.bits)
    matmul.sides = (_narrowed(a), _narrowed(b)) if narrower else (a, b)


def _source(tile: Value) -> Value:
    """The narrow tile from which a tile, or the source of its elements, was widened; the shape may differ."""
    owner = tile.owner
    if isinstance(owner, SHAPES):
        return _source(owner.tile)
    return _source(owner.inputs[0]) if isinstance(owner, Op) and _keeps_values(owner) else tile


def _narrowed(tile: Value) -> Value:
    """The narrow tile in the shape of a widened one."""
    owner = tile.owner
    if isinstance(owner, SHAPES):
        source = _narrowed(owner.tile)
        if source is owner.tile:
            return tile
        _, *indices = owner.operands
        narrowed = type(owner).typed([source, *indices], owner.attrs, loc=owner.loc)
        insert_after(owner, narrowed)
        return narrowed.result
    return _narrowed(owner.inputs[0]) if isinstance(owner, Op) and _keeps_values(owner) else tile


def _erase_unused(kernel: Kernel) -> Uses:
    """Erase conversions and reshaped tiles that have no uses left. Returns the uses of all values."""
    while True:
        used = uses(kernel.body)
        unused = [
            op for op in kernel.walk()
            if (isinstance(op, SHAPES) or _widens(op)) and op.result not in used
        ]  # fmt: skip
        if not unused:
            return used
        for op in unused:
            assert op.parent is not None
            op.parent.ops.remove(op)


def _ancestor_in(op: Op, region: Region) -> Op:
    """The op of a region that contains another op, or the op itself."""
    while op.parent is not region:
        assert op.parent is not None and op.parent.parent is not None
        op = op.parent.parent
    return op


def _keeps_values(op: Op) -> TypeGuard[TileMap]:
    """Whether an op is a widening conversion between floats, or between integers, that preserves all values."""
    if not _widens(op):
        return False
    before, after = (scalar_of(dtype_of(v.type)) for v in (op.inputs[0], op.result))
    if before.is_float or after.is_float:
        return before.is_float and after.is_float
    return before.is_int and after.is_int and (after.is_signed or not before.is_signed)


def _widens(op: Op) -> TypeGuard[TileMap]:
    if not isinstance(op, TileMap) or len(op.inputs) != 1 or len(op.function.ops) != 2:
        return False
    before, after = op.inputs[0].type, op.result.type
    assert isinstance(before, TileType) and isinstance(after, TileType)
    cast = op.function.ops[0]
    is_cast = isinstance(cast, Cast) and op.elements == [cast.x]
    return is_cast and scalar_of(after.dtype).bits > scalar_of(before.dtype).bits
