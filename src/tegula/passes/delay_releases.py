"""Delays releases of stages past the uses of the tiles that are read from the stages, so that targets that alias the
stage need no copy of the tile. A release is not moved past an op that waits or accesses the pipe."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ir.rewrite import uses, walk_regions
from tegula.ops.buffer import BufRead
from tegula.ops.roles import WAITS, PipeRelease, Roles
from tegula.passes.overlap import popped_from
from tegula.passes.runner import Compilation


def delay_releases(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the roles of the kernel in place."""
    for roles in (op for op in kernel.body.ops if isinstance(op, Roles)):
        users = {value: {op for op, _ in user_ops} for value, user_ops in uses(kernel.body).items()}
        for region in (r for role in roles.roles for r in walk_regions(role)):
            _delay(region, users)


def _delay(region: Region, users: dict[Value, set[Op]]) -> None:
    for release in [op for op in reversed(region.ops) if isinstance(op, PipeRelease)]:
        index = region.ops.index(release)
        using = _users_of_reads(release, region.ops[:index], users)
        last = index
        for k in range(index + 1, len(region.ops) - 1):
            inside = list(region.ops[k].walk())
            if any(isinstance(op, (*WAITS, PipeRelease)) for op in inside):
                break
            last = k if using.intersection(inside) else last
        region.ops.insert(last, region.ops.pop(index))


def _users_of_reads(release: PipeRelease, before: list[Op], users: dict[Value, set[Op]]) -> set[Op]:
    """The ops that use the results of reads of the pipe's tiles."""
    reads = [op for op in before if isinstance(op, BufRead) and popped_from(op.buffer, release.pipe)]
    return set[Op]().union(*(users.get(op.result, set()) for op in reads))
