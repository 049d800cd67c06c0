"""Which of the 16 named barriers of a block each group synchronises at."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.ir import Kernel, Op, Value
from tegula.ops.group import Barrier
from tegula.ops.schedule import BulkStore, NamedNew
from tegula.passes.groups import group_of

NAMED_BARRIERS = 16
"""PTX ISA, "bar, barrier"."""
GROUP_BARRIERS = 8
"""The first of the barriers that the warp groups of bulk stores synchronise at; the ones below are of roles, 0 of the
block."""


def own_barriers(op: Op, threads: int) -> list[int]:
    """The named barriers that the group of an op synchronises at for it."""
    group = group_of(op, threads)
    if isinstance(op, Barrier) and not op.of_warps and group.number and group.warps > 1:
        return [group.number]
    if isinstance(op, BulkStore):
        return [GROUP_BARRIERS + group.first // 4 + k for k in range(max(1, group.warp_groups))]
    return []


def named_barriers(kernel: Kernel, threads: int) -> dict[Value, int]:
    """The numbers of the barriers that the kernel makes: the highest that nobody else synchronises at. There may be too
    few: then numbers are negative, and the checker says so."""
    taken = {name for op in kernel.walk() for name in own_barriers(op, threads)}
    free = _from(NAMED_BARRIERS - 1, taken)
    return {op.result: next(free) for op in kernel.walk() if isinstance(op, NamedNew)}


def _from(number: int, taken: set[int]) -> Iterator[int]:
    while True:
        if number and number not in taken:
            yield number
        number -= 1
