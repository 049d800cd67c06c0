"""Shortens the live ranges of tiles in adjoints, so that fewer tiles are in registers at a time.

Loop-invariant conversions of tiles move in front of loops, and matmuls whose results are only added to gradients move
up to their operands: the reverse sweep places the additions to the adjoints of all operands of an op together, while
the tiles of later steps are live already."""

from __future__ import annotations

from collections.abc import Collection

from tegula.ir import Carrier, Kernel, LoopLike, Op, Region, Value
from tegula.ir.rewrite import is_defined_in, uses, walk_regions
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.differentiation import Differentiation
from tegula.types import ArrayType, TileType, element_bytes


def shorten_live_ranges(kernel: Kernel, context: Differentiation) -> None:
    """Move ops, in place."""
    for loop in reversed([op for op in kernel.walk() if isinstance(op, LoopLike)]):
        _hoist_conversions(loop)
    users = uses(kernel.body)
    for region in walk_regions(kernel.body):
        for op in [op for op in region.ops if _adds_to(op, context.gradients)]:
            _move_up(region, op, users)


def _hoist_conversions(loop: LoopLike) -> None:
    """Move ops on tiles in front of a loop if the loop then needs fewer bytes of tiles."""
    region = loop.parent
    assert region is not None
    users = uses(loop.body)
    for op in list(loop.body.ops):
        if not _is_movable(op) or any(is_defined_in(v, loop.body) for v in op.operands):
            continue
        single_use = [v for v in set(op.operands) if len(users[v]) == 1]
        if 0 < _bytes(op.results) < _bytes(single_use):
            loop.body.ops.remove(op)
            region.ops.insert(region.ops.index(loop), op)
            op.parent = region


def _is_movable(op: Op) -> bool:
    """Whether the results of an op depend on its operands alone."""
    return op.PURE and not isinstance(op, Carrier) and not op.effects()


def _adds_to(op: Op, gradients: Collection[Value]) -> bool:
    """Whether the only effect of an op is to add a tile to a gradient."""
    effects = list(op.effects())
    adds = bool(effects) and any(isinstance(v.type, TileType) for v in op.operands)
    return adds and all(
        e.kind == "atomic" and e.value is not None and memory_root(e.value) in gradients for e in effects
    )


def _move_up(region: Region, addition: Op, users: dict[Value, list[tuple[Op, int]]]) -> None:
    """Move an addition, with the ops whose results only the addition needs, after the last op on which they depend
    or which accesses the same array."""
    last = region.ops.index(addition)
    array = {memory_root(e.value) for e in addition.effects() if e.value is not None}
    chain, operands, at = [addition], {*addition.operands}, last
    while at > 0:
        op = region.ops[at - 1]
        if operands.intersection(op.results):
            if not _is_movable(op) or any(user not in chain for r in op.results for user, _ in users[r]):
                break
            chain.append(op)
            operands |= {*op.operands}
        elif any(
            e.value is None or (isinstance(e.value.type, ArrayType) and memory_root(e.value) in array)
            for inner in op.walk()
            for e in inner.effects()
        ):
            break
        at -= 1
    rest = [op for op in region.ops[at:last] if op not in chain]
    region.ops[at : last + 1] = [*reversed(chain), *rest]


def _bytes(values: Collection[Value]) -> int:
    """The total size of tiles in bytes."""
    tiles = [v.type for v in values if isinstance(v.type, TileType)]
    return sum(t.size * element_bytes(t.dtype) for t in tiles)
