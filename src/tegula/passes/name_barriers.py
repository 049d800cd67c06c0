"""Assigns the 16 named barriers of a block to groups and to barriers of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.ir import Kernel, Op, Value
from tegula.ops.group import Barrier
from tegula.ops.schedule import BulkStore, NamedNew
from tegula.passes.groups import group_of

NAMED_BARRIERS = 16
"""The number of named barriers of a block (PTX ISA, "bar, barrier")."""
GROUP_BARRIERS = 8
"""The first barrier of the warp groups of bulk stores. Lower barriers belong to roles, and barrier 0 to the block."""


def own_barriers(op: Op, threads: int) -> list[int]:
    """The numbers of the named barriers that an op uses for its group."""
    group = group_of(op, threads)
    if isinstance(op, Barrier) and not op.of_warps and group.number and group.warps > 1:
        return [group.number]
    if isinstance(op, BulkStore):
        return [GROUP_BARRIERS + group.first // 4 + k for k in range(max(1, group.warp_groups))]
    return []


def named_barriers(kernel: Kernel, threads: int) -> dict[Value, int]:
    """The numbers of the kernel's own named barriers: the highest free ones. If there are too few, numbers are
    negative, which the checker reports."""
    used_numbers = {name for op in kernel.walk() for name in own_barriers(op, threads)}
    free = _free_numbers(NAMED_BARRIERS - 1, used_numbers)
    return {op.result: next(free) for op in kernel.walk() if isinstance(op, NamedNew)}


def _free_numbers(number: int, used_numbers: set[int]) -> Iterator[int]:
    while True:
        if number and number not in used_numbers:
            yield number
        number -= 1
