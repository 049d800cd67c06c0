"""The cost of an iteration of a kernel's mainloop, in cycles of an SM: a model that ranks a few schedules.

Other instructions hardly overlap with wgmma, so that the cost is a sum: the cycles of matmuls, and the issue cycles of
all other instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Kernel, LoopLike, MatmulLike, TileAccess
from tegula.ir.rewrite import walk_regions
from tegula.ops.roles import WARP, WARP_GROUP
from tegula.passes.specialise.find_matmuls import LoadedMatmul, is_in_loop
from tegula.types import TileType, element_bytes

with deferred_imports():
    from tegula.passes.mma_types import shared_mma_types

if TYPE_CHECKING:
    from tegula.passes.specialise.plan import RolePlan

OPERAND_BITS_PER_CYCLE = 2048 * 16
"""The multiply-adds per cycle of the tensor cores of an SM, times the bits of an operand."""
SPILL_BYTES = 4
"""The bytes of a thread that one instruction spills or reloads."""
WARPS_PER_CYCLE = 4
OVERLAP = 0.15
"""The fraction of an iteration's time that overlapping a chain of matmuls saves."""
MMA_SYNC_TIME = 2.0
"""The time of matmuls by mma.sync relative to wgmma."""


BYTES_PER_CYCLE = 56
"""The bytes that an SM receives from the L2 cache per cycle of its tensor cores, measured on an H200."""
MMA_ROWS = 64
"""The rows of a wgmma instruction. The instruction reads them and N columns from shared memory in at least (64 + N) / 4
cycles if elements have 16 bits, and multiplies them in N / 2."""


@dataclass(frozen=True, slots=True)
class IterationCost:
    """The cycles of the tensor cores for an iteration, and the cycles in which its tiles arrive."""

    matmul: float = 0
    fetch: float = 0

    @property
    def cycles(self) -> float:
        """The cycles of an iteration, in which tiles arrive while others are multiplied."""
        return max(self.matmul, self.fetch)

    @property
    def waits_for_tiles(self) -> bool:
        """Whether the tensor cores wait for tiles."""
        return self.fetch > self.matmul


def iteration_cost(kernel: Kernel) -> IterationCost:
    """The cost of one iteration of the loop with the most matmul work, before there are roles. Two warp groups divide
    the rows of a matmul, or else its columns."""
    loops = (region for region in walk_regions(kernel.body) if isinstance(region.parent, LoopLike))
    costs = [
        IterationCost(
            sum(_tensor_core_cycles(op) for op in region.ops if isinstance(op, MatmulLike)),
            sum(_bytes_read(op) for op in region.ops if isinstance(op, TileAccess)) / BYTES_PER_CYCLE,
        )
        for region in loops
    ]
    return max(costs, key=lambda cost: cost.matmul, default=IterationCost())


def _tensor_core_cycles(op: MatmulLike) -> float:
    a, c, mma_types = op.a.type, op.c.type, shared_mma_types(op)
    if mma_types is None:
        return 0
    assert isinstance(a, TileType) and isinstance(c, TileType)
    rows, columns = c.shape
    n = columns if rows % (2 * MMA_ROWS) == 0 else columns // 2
    cycles = c.size * a.shape[1] * mma_types.bits / OPERAND_BITS_PER_CYCLE
    return cycles * max(1, (MMA_ROWS + n) / (2 * n))


def _bytes_read(access: TileAccess) -> int:
    types = [v.type for v in access.results]
    return sum(t.size * element_bytes(t.dtype) for t in types if isinstance(t, TileType))


def iteration_cycles(matmuls: Sequence[LoadedMatmul]) -> int:
    """The tensor core cycles of one iteration of the loop with the most matmul work."""
    loops: dict[object, int] = {}
    for p in matmuls:
        if is_in_loop(p.op):
            loops[_loop(p)] = loops.get(_loop(p), 0) + _cycles(p)
    return max(loops.values())


def _loop(p: LoadedMatmul) -> object:
    region = p.op.parent
    while region is not None and not isinstance(region.parent, LoopLike):
        region = region.parent.parent if region.parent is not None else None
    return region


def _cycles(p: LoadedMatmul) -> int:
    a, c, mma_types = p.op.a.type, p.op.c.type, shared_mma_types(p.op)
    assert isinstance(a, TileType) and isinstance(c, TileType) and mma_types is not None
    return c.size * a.shape[1] * mma_types.bits // OPERAND_BITS_PER_CYCLE


def cost_with_roles(plan: RolePlan, spill_bytes: int) -> float:
    """The cost of an iteration if each consumer thread spills and reloads `spill_bytes` per iteration, which is an
    upper bound for spills in an epilogue."""
    warps = plan.consumers * WARP_GROUP // WARP
    spills = spill_bytes / SPILL_BYTES * warps / WARPS_PER_CYCLE
    return plan.cycles * (1 if plan.overlaps else 1 + OVERLAP) + spills


def cost_of_one_role(plan: RolePlan) -> float:
    """The cost of an iteration without the roles of a plan."""
    return plan.cycles * MMA_SYNC_TIME
