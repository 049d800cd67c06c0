"""Tiles of narrow numbers stay narrow until their numbers are needed."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.convert import Cast
from tegula.ops.tile import TileMap
from tegula.rewrite import uses
from tegula.types import TileType, scalar_of


def sink_conversions(kernel: Kernel) -> None:
    """Move each widening conversion of a whole tile down to its first use: in between the tile takes half of the
    registers, or fewer, so that more blocks fit the device while lanes wait for a load or for each other."""
    _region(kernel.body, uses(kernel.body))
    for op in kernel.walk():
        for nested in op.regions:
            _region(nested, uses(nested))


def _region(region: Region, used: dict[Value, list[tuple[Op, int]]]) -> None:
    """From the last op to the first, so that a conversion of a converted tile takes that with it."""
    for at in reversed(range(len(region.ops))):
        op = region.ops[at]
        if _widens(op):
            users = {_within(user, region) for user, _ in used.get(op.result, ())}
            first = next((k for k, other in enumerate(region.ops) if other in users), at + 1)
            region.ops.insert(first, op)
            del region.ops[at]


def _within(op: Op, region: Region) -> Op:
    """The op of a region that holds another op, or is it."""
    while op.parent is not region:
        assert op.parent is not None and op.parent.parent is not None
        op = op.parent.parent
    return op


def _widens(op: Op) -> bool:
    if not isinstance(op, TileMap) or len(op.operands) != 1 or len(op.regions[0].ops) != 2:
        return False
    before, after = op.operands[0].type, op.result.type
    assert isinstance(before, TileType) and isinstance(after, TileType)
    is_cast = isinstance(op.regions[0].ops[0], Cast)
    return is_cast and scalar_of(after.dtype).bits > scalar_of(before.dtype).bits
