"""Sinks reads of tile objects to the stores of their values.

A function with several results reads them all from its tile objects when it returns. After the pass each read precedes
its store, so that the registers of a thread hold one result at a time."""

from __future__ import annotations

from tegula.ir import Access, Kernel, Op, Region, TileAccess
from tegula.ir.rewrite import uses
from tegula.passes.runner import GpuCompilation
from tegula.types import ArrayType, BufType, TileType


def sink_reads(kernel: Kernel, context: GpuCompilation) -> None:
    """Sink each read of a tile object whose only use is a store of the tile in the same region to right before the
    store, unless there are other ops between them than such reads, pure ops, and loads and stores of tiles."""
    del context
    used = uses(kernel.body)
    for op in reversed([op for op in kernel.walk() if _reads_tile(op)]):
        region, users = op.parent, used.get(op.result, [])
        assert region is not None
        if len(users) == 1 and isinstance(users[0][0], TileAccess) and users[0][0].parent is region:
            _sink(region, op, users[0][0])


def _reads_tile(op: Op) -> bool:
    """Whether an op only reads a tile from a tile object."""
    effects = op.effects()
    return (
        len(op.results) == len(effects) == 1
        and effects[0].kind == Access.READ
        and effects[0].value is not None
        and isinstance(effects[0].value.type, BufType)
        and isinstance(op.result.type, TileType)
    )


def _changes_no_tile(op: Op) -> bool:
    """Whether an op changes no tile object and does not order the accesses of threads."""
    if op.PURE or _reads_tile(op):
        return True
    accessed = [effect.value for effect in op.effects()]
    return isinstance(op, TileAccess) and all(
        x is not None and isinstance(x.type, ArrayType) for x in accessed
    )


def _sink(region: Region, read: Op, store: Op) -> None:
    start, end = region.ops.index(read), region.ops.index(store)
    if all(map(_changes_no_tile, region.ops[start + 1 : end])):
        region.ops.insert(end, read)
        del region.ops[start]
