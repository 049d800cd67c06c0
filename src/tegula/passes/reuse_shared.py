"""Aliases buffers in shared memory where this needs no additional barrier.

Buffers at disjoint addresses need the fewest barriers. The live range of each buffer is extended to the next barrier
after its last use; buffers with disjoint live ranges then share bytes, because threads that write one have synchronised
with threads that read the other. If more barriers would be needed nevertheless, for example between iterations of a
loop, the allocation is unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.dataclass import replace
from tegula.ir import Kernel, Op
from tegula.passes.groups import role_of
from tegula.passes.insert_barriers import Clash, needed_barriers
from tegula.passes.place_shared import SharedMemory
from tegula.passes.plan_memory import MemoryMap, plan_memory
from tegula.passes.runner import GpuCompilation
from tegula.types import MbarrierType


def reuse_shared(kernel: Kernel, context: GpuCompilation) -> None:
    """Change the allocation of buffers and stacks if it takes fewer bytes and needs no more barriers."""
    memory = context.shared
    owners = [v.owner for v in memory.allocations]
    has_roles = any(
        isinstance(v.type, MbarrierType) or role_of(v.owner) is not None for v in memory.allocations
    )
    if len(owners) < 2 or has_roles:
        return
    barriers = needed_barriers(kernel, context)
    numbers = {op: k for k, op in enumerate(kernel.body.walk())}
    syncs = [op for op, clash in barriers.items() if not clash.of_warps]
    live_ranges = [
        replace(life, end=_next_sync(owner, life.end, syncs, numbers))
        for owner, life in zip(owners, memory.plan.intervals, strict=True)
        if isinstance(owner, Op)
    ]
    _place(context, plan_memory(live_ranges))
    if context.shared is not memory and _cost(needed_barriers(kernel, context).values()) > _cost(
        barriers.values()
    ):
        context.shared = memory
    smaller = context.shared
    _place(context, plan_memory(memory.plan.intervals))
    if context.shared is not smaller and not (
        _resident_threads(context) >= MIN_OCCUPANCY_GAIN * _resident_threads(context, smaller)
        and all(op.parent is kernel.body or op in barriers for op in needed_barriers(kernel, context))
    ):
        context.shared = smaller


MIN_OCCUPANCY_GAIN = 1.5
"""The minimum factor by which the number of resident threads grows in exchange for barriers outside loops."""
MAX_SM_THREADS, RESERVED_BYTES = 2048, 1 << 10
"""The maximum number of resident threads of an SM, and the bytes of each CTA that are reserved by the hardware."""


def _place(context: GpuCompilation, plan: MemoryMap) -> None:
    """Change the allocations to those of a plan if the plan takes fewer bytes."""
    memory = context.shared
    if plan.total < memory.plan.total:
        allocations = zip(memory.allocations.items(), plan.offsets, strict=True)
        context.shared = SharedMemory({v: replace(p, offset=at) for (v, p), at in allocations}, plan)


def _resident_threads(context: GpuCompilation, memory: SharedMemory | None = None) -> int:
    """The number of threads that the shared memory of a multiprocessor suffices for."""
    total = (memory or context.shared).plan.total + RESERVED_BYTES
    return min(MAX_SM_THREADS, context.target.shared_per_sm // total * context.threads)


def _next_sync(owner: Op, end: int, syncs: Iterable[Op], numbers: dict[Op, int]) -> int:
    """The index of the first op at or after `end` in the region of a buffer before which all threads synchronise; the
    number of ops if there is none."""
    later = [numbers[op] for op in syncs if op.parent is owner.parent]
    return min((n for n in later if n >= end), default=len(numbers))


def _cost(clashes: Iterable[Clash]) -> tuple[int, int]:
    """The cost of barriers: the number of group barriers, then the number of all barriers."""
    is_group_wide = [not clash.of_warps for clash in clashes]
    return sum(is_group_wide), len(is_group_wide)
