"""Analysis that finds the `tile.matmul_wait` which completes a matmul in flight."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import Op, Region
from tegula.ops.control import For, If
from tegula.ops.linear import TileMatmulWait, in_flight


@dataclass(frozen=True, slots=True)
class CoveringWait:
    """The waits for a matmul, which is complete after `wait`. If `wait` is in the next iteration of the loop, `after`
    is the wait after the loop for the matmul of the last iteration."""

    wait: Op
    after: Op | None = None


def covering_wait(matmul: Op) -> CoveringWait | None:
    """The first wait that covers a matmul on every path; None if there is none in this iteration or the next. Waits in
    nested branches and loops are ignored."""
    depth, op = 0, matmul
    while op.parent is not None:
        region = op.parent
        wait, depth = _first_wait(_after(op, region), depth)
        if wait is not None:
            return CoveringWait(wait)
        parent = region.parent
        if isinstance(parent, For):
            return _in_next_iteration(region, parent, depth)
        if not isinstance(parent, If):
            return None
        op = parent
    return None


def _in_next_iteration(body: Region, loop: Op, depth: int) -> CoveringWait | None:
    wait, _ = _first_wait(body.ops, depth)
    assert loop.parent is not None
    after, _ = _first_wait(_after(loop, loop.parent), depth)
    return CoveringWait(wait, after) if wait is not None and after is not None else None


def _after(op: Op, region: Region) -> Sequence[Op]:
    return region.ops[region.ops.index(op) + 1 :]


def _first_wait(ops: Sequence[Op], depth: int) -> tuple[Op | None, int]:
    """The first wait that covers a matmul after which `depth` other matmuls have been started, and the number of
    matmuls started before the wait; None if there is no such wait."""
    for op in ops:
        if isinstance(op, TileMatmulWait) and op.pending <= depth:
            return op, depth
        depth += in_flight(op)
    return None, depth
