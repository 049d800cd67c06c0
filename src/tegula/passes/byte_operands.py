"""Operands of matmuls that are computed element by element from tiles of bytes, such as 8-bit weights."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.ir import Op, Value, root
from tegula.ir.rewrite import clone_region, uses
from tegula.ops.buffer import BufRead
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipeNew, PipePop, pipe_type
from tegula.ops.tile import TileLoad, TileMap, TilePermute
from tegula.types import TileType, components, element_bytes

with deferred_imports():
    from tegula.passes.bulk_access import may_swizzle
    from tegula.passes.stage_operands import is_transpose

LDMATRIX_ROWS = 32
"""The number of rows of bytes that a warp reads by one ldmatrix."""


def is_computed_from_bytes(matmul: TileMatmul) -> bool:
    """Whether a right operand is computed from a whole loaded or popped tile of bytes, with an optional transpose
    before or after the computation."""
    outer_transpose, maps, source = _operand_chain(matmul.b)
    t, matrix_type = source.type, matmul.b.type
    assert isinstance(t, TileType) and isinstance(matrix_type, TileType)
    along_k = outer_transpose is not None
    if isinstance(source.owner, TilePermute):
        source, along_k = source.owner.tile, not along_k
    elif isinstance(source.owner, BufRead) and is_transpose(source.owner.buffer):
        along_k = not along_k
    narrow = components(t.dtype) == 1 and element_bytes(t.dtype) == 1
    return (
        bool(maps)
        and narrow
        and _is_whole_tile(source)
        and (along_k or matrix_type.shape[0] % LDMATRIX_ROWS == 0)
    )


def _operand_chain(tile: Value) -> tuple[TilePermute | None, list[TileMap], Value]:
    """The op that transposes a tile, if any; the chain of maps that compute the tile, last first; and the source tile
    of the chain."""
    outer_transpose = (
        tile.owner if isinstance(tile.owner, TilePermute) and tile.owner.perm == (1, 0) else None
    )
    if outer_transpose is not None:
        tile = outer_transpose.tile
    maps: list[TileMap] = []
    while isinstance(tile.owner, TileMap) and len(_tiles(tile.owner)) == 1:
        maps.append(tile.owner)
        (tile,) = _tiles(tile.owner)
    return outer_transpose, maps, tile


def _tiles(op: TileMap) -> list[Value]:
    return [v for v in op.inputs if isinstance(v.type, TileType)]


def _is_whole_tile(tile: Value) -> bool:
    """Whether a tile is loaded, or is a whole popped tile."""
    owner = tile.owner
    if not isinstance(owner, BufRead):
        return isinstance(owner, TileLoad)
    popped = isinstance(root(owner.buffer).owner, PipePop)
    return popped and (isinstance(owner.buffer.owner, PipePop) or is_transpose(owner.buffer))


def transpose_first(matmul: TileMatmul) -> None:
    """If a computed right operand is transposed, transpose the tile that it is computed from instead, since a loaded
    tile can be read transposed."""
    outer_transpose, maps, tile = _operand_chain(matmul.b)
    if outer_transpose is None or not maps:
        return
    region = maps[0].parent
    assert region is not None and isinstance(tile.type, TileType)
    transpose = TilePermute([tile], [_transposed(tile.type)], {"perm": (1, 0)}, [], outer_transpose.loc)
    ops: list[Op] = [transpose]
    tile = transpose.result
    for op in reversed(maps):
        t = op.result.type
        assert isinstance(t, TileType)
        inputs = [tile if isinstance(v.type, TileType) else v for v in op.inputs]
        ops.append(TileMap(inputs, [_transposed(t)], op.attrs, [clone_region(op.function, {})], op.loc))
        tile = ops[-1].result
    for op in ops:
        op.parent = region
    at = region.ops.index(maps[0]) + 1
    region.ops[at:at] = ops
    matmul.b = tile
    for op in (outer_transpose, *maps):
        assert op.parent is not None
        if op.result not in uses(op.parent):
            op.parent.ops.remove(op)


def _transposed(t: TileType) -> TileType:
    return TileType(t.dtype, t.shape[::-1])


def swizzle_source(tile: Value) -> None:
    """Swizzle the pipe of bytes from which an operand in registers is computed, so that concurrently read rows are in
    different banks."""
    _, _, source = _operand_chain(tile)
    if not isinstance(source.owner, BufRead) or not _is_whole_tile(source):
        return
    pop = root(source.owner.buffer).owner
    assert isinstance(pop, PipePop)
    new, t = pop.pipe.owner, pipe_type(pop.pipe.type)
    if element_bytes(t.dtype) == 1 and may_swizzle(t) and isinstance(new, PipeNew):
        new.swizzled = True
