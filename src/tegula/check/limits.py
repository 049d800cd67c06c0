"""The limits of a block and of the counts of barriers."""

from __future__ import annotations

from collections.abc import Mapping

from tegula.check.verdict import Refuted
from tegula.ir import Kernel, Op, Region, Value, root
from tegula.ops.buffer import BufNew
from tegula.ops.group import Barrier
from tegula.ops.roles import WARP, WARP_GROUP, Roles
from tegula.ops.schedule import MbarrierExpect, MbarrierNew, MbarrierReady
from tegula.passes.groups import role_of
from tegula.passes.name_barriers import NAMED_BARRIERS, named_barriers, own_barriers
from tegula.passes.place_shared import SharedAllocation
from tegula.types import MbarrierType

MAX_COUNTED = (1 << 20) - 1
"""The largest number of arrivals, and of bytes, that an mbarrier counts in a phase. PTX ISA, "mbarrier": "Contents of
the mbarrier object"."""
REGISTERS, MIN_REGISTERS, MAX_REGISTERS, REGISTER_STEP = 65536, 24, 256, 8
"""The registers of a multiprocessor; the minimum and maximum per thread, and the granularity. PTX ISA, "setmaxnreg"."""


def check_limits(kernel: Kernel, allocations: Mapping[Value, SharedAllocation], threads: int) -> None:
    """Raise Refuted where a schedule exceeds a limit."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    _check_initialised(kernel, roles)
    _check_counts(kernel)
    _check_disjoint(allocations)
    _check_named_barriers(kernel, threads)
    if roles is not None:
        _check_warps(roles, threads)
        _check_registers(roles, threads)


def _check_initialised(kernel: Kernel, roles: Op | None) -> None:
    """Check that barriers are initialised, and visible to all threads, before roles use them."""
    ready = [k for k, op in enumerate(kernel.body.ops) if isinstance(op, MbarrierReady)]
    for op in kernel.walk():
        if not isinstance(op, MbarrierNew):
            continue
        inside = op.parent is kernel.body and ready and kernel.body.ops.index(op) < ready[0]
        started = roles is not None and ready and kernel.body.ops.index(roles) < ready[0]
        if not inside or started:
            raise Refuted(
                "init",
                f"{op.result.name or 'a barrier'} is used before its initialisation is visible to all threads",
                op.loc,
                "create barriers before the roles, followed by a fence and a block-wide barrier",
            )


def _check_counts(kernel: Kernel) -> None:
    for op in kernel.walk():
        count = op.arrivals if isinstance(op, MbarrierNew) else 0
        count = op.bytes if isinstance(op, MbarrierExpect) else count
        if count > MAX_COUNTED:
            subject = "bytes are announced" if isinstance(op, MbarrierExpect) else "arrivals are counted"
            raise Refuted(
                "budget",
                f"{count} {subject}, but a barrier counts at most {MAX_COUNTED}",
                op.loc,
                "use smaller tiles",
            )


def _check_disjoint(allocations: Mapping[Value, SharedAllocation]) -> None:
    """Check that a barrier shares no bytes with another barrier or with a buffer of one role; other accesses of its
    bytes are found by the simulation."""
    for a, p in allocations.items():
        for b, q in allocations.items():
            if (
                a is not b
                and isinstance(a.type, MbarrierType)
                and (isinstance(b.type, MbarrierType) or not _is_pipe_buffer(b))
                and p.offset < q.offset + q.size
                and q.offset < p.offset + p.size
            ):
                assert isinstance(a.owner, Op)
                raise Refuted(
                    "budget",
                    f"{a.name} overlaps {b.name or 'a buffer'} in shared memory",
                    a.owner.loc,
                    "allocate the barrier at another offset",
                )


def shared_by_roles(
    kernel: Kernel, allocations: Mapping[Value, SharedAllocation]
) -> tuple[Value, Value] | None:
    """Two buffers that share bytes and that more than one role uses; None if there are none."""
    users: dict[Value, set[Region | None]] = {}
    for op in kernel.walk():
        for v in (*op.operands, *op.results):
            if root(v) in allocations:
                users.setdefault(root(v), set()).add(role_of(op.parent))
    spans = sorted((p.offset, p.offset + p.size, k, v) for k, (v, p) in enumerate(allocations.items()))
    for at, (_, end, _, v) in enumerate(spans):
        for other_start, _, _, w in spans[at + 1 :]:
            if other_start >= end:
                break
            roles = users.get(v, set()) | users.get(w, set())
            if len(roles - {None}) > 1:
                return v, w
    return None


def _is_pipe_buffer(buffer: Value) -> bool:
    return isinstance(buffer.owner, BufNew) and bool(buffer.owner.pipe)


def _check_named_barriers(kernel: Kernel, threads: int) -> None:
    """Check that each named barrier belongs to one group of threads, and that a block has at most 16."""
    users_of_barrier: dict[int, Op] = {}
    for barrier, number in named_barriers(kernel, threads).items():
        assert isinstance(barrier.owner, Op)
        if number < 0:
            message = (
                f"no named barrier is left for {barrier.name or 'this one'}: a block has {NAMED_BARRIERS}"
            )
            raise Refuted(
                "budget", message, barrier.owner.loc, "create fewer named barriers, or use fewer roles"
            )
    for op in kernel.walk():
        for name in own_barriers(op, threads):
            other = users_of_barrier.setdefault(name, op)
            if name >= NAMED_BARRIERS:
                message = f"this role needs named barrier {name}, but a block has only {NAMED_BARRIERS}"
                raise Refuted("budget", message, op.loc, "use fewer roles")
            if isinstance(op, Barrier) != isinstance(other, Barrier):
                notes = ((other.loc, "the other synchronisation"),)
                message = f"two groups of threads synchronise at named barrier {name}"
                raise Refuted("budget", message, op.loc, "use fewer roles", notes)


def _check_warps(roles: Roles, threads: int) -> None:
    """Check that each warp has one role."""
    names: dict[int, str] = {}
    for name, (first, count) in zip(roles.names, roles.warps, strict=True):
        for warp in range(first, first + count):
            other = names.setdefault(warp, name)
            if other != name or warp * WARP >= threads:
                message = (
                    f"warp {warp} belongs to two roles, {other} and {name}"
                    if other != name
                    else f"{name} has no warp {warp}"
                )
                raise Refuted("budget", message, roles.loc, "assign disjoint warps to roles")


def _check_registers(roles: Roles, threads: int) -> None:
    """Check the register budgets of roles: valid numbers, one budget per warp group, and a sum that is at most the
    block's allocation at launch."""
    budgets: dict[int, int] = {}
    for (first, warps), budget in zip(roles.warps, roles.registers, strict=True):
        if budget and not (MIN_REGISTERS <= budget <= MAX_REGISTERS and budget % REGISTER_STEP == 0):
            allowed = f"a multiple of {REGISTER_STEP} from {MIN_REGISTERS} to {MAX_REGISTERS}"
            message = f"a role has registers={budget}, which must be {allowed}"
            raise Refuted("budget", message, roles.loc, "change registers= of the role")
        for group in range(first // 4, (first + warps + 3) // 4):
            if budget and budgets.setdefault(group, budget) != budget:
                message = (
                    f"roles in warp group {group} request {budgets[group]} and {budget} registers a thread"
                )
                raise Refuted(
                    "budget", message, roles.loc, "give all roles of a warp group the same registers="
                )
    groups = -(-threads // WARP_GROUP)
    start = min(255, REGISTERS // max(threads, WARP)) // REGISTER_STEP * REGISTER_STEP
    total = sum(budgets.get(g, MIN_REGISTERS) for g in range(groups)) * WARP_GROUP
    if budgets and total > start * threads:
        message = f"the roles ask for {total} registers, the block starts with {start * threads}"
        raise Refuted("budget", message, roles.loc, "lower registers=")
