"""Analysis that finds the `tile.matmul_wait` which completes a matmul in flight."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import Op, Region
from tegula.ops.control import For, If
from tegula.ops.linear import TileMatmulWait, in_flight


@dataclass(frozen=True, slots=True)
class Covered:
    """The waits for a matmul, which is complete after `wait`. If `wait` is in the next iteration of the loop, `after`
    is the wait after the loop for the matmul of the last iteration."""

    wait: Op
    after: Op | None = None


def covering_wait(matmul: Op) -> Covered | None:
    """The first wait that covers a matmul on every path; None if there is none in this iteration or the next. Waits in
    nested branches and loops are ignored."""
    depth, at = 0, matmul
    while at.parent is not None:
        region = at.parent
        wait_found, depth = _first_wait(_after(at, region), depth)
        if wait_found is not None:
            return Covered(wait_found)
        parent = region.parent
        if isinstance(parent, For):
            return _in_next_iteration(region, parent, depth)
        if not isinstance(parent, If):
            return None
        at = parent
    return None


def _in_next_iteration(body: Region, loop: Op, depth: int) -> Covered | None:
    wait_found, _ = _first_wait(body.ops, depth)
    assert loop.parent is not None
    after, _ = _first_wait(_after(loop, loop.parent), depth)
    return Covered(wait_found, after) if wait_found is not None and after is not None else None


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
