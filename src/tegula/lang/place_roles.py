"""Assignment of a block's warps to roles."""

from __future__ import annotations

from collections.abc import Sequence

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ops.roles import WARP_GROUP, start_registers
from tegula.source import Location

MAX_GROUPS = 8
MIN_BUDGET = 24


@dataclass(frozen=True, slots=True)
class RoleRequest:
    """A role's request: the number of warps; the first warp, -1 for any; registers per thread, 0 for any number."""

    name: str
    loc: Location
    warps: int
    registers: int = 0
    first: int = -1


@dataclass(frozen=True, slots=True)
class PlacedRole:
    """The warps of a role, and its registers per thread."""

    first: int
    count: int
    registers: int


def place_roles(requests: Sequence[RoleRequest]) -> list[PlacedRole]:
    """The warps of each role; RoleGroups or RoleRegisters if the requests do not fit a block.

    Roles that request warp groups by number get these. The other roles follow in order: roles of four or more warps
    start at a warp group, smaller roles share a warp group as long as it has warps left."""
    groups: dict[int, list[RoleRequest]] = {}
    firsts: dict[RoleRequest, int] = {}
    for request in (request for request in requests if request.first >= 0):
        _occupy(groups, request, request.first)
        firsts[request] = request.first
    next_group, shared_group, free_warps = 1 + max(groups, default=-1), -1, 0
    for request in (request for request in requests if request.first < 0):
        if request.warps < 4 and request.warps <= free_warps:
            firsts[request] = 4 * shared_group + 4 - free_warps
            free_warps -= request.warps
        else:
            firsts[request] = 4 * next_group
            if request.warps < 4:
                shared_group, free_warps = next_group, 4 - request.warps
            next_group += -(-request.warps // 4)
        _occupy(groups, request, firsts[request])
    if next_group > MAX_GROUPS:
        message = f"the roles need {next_group} warp groups, but a block has at most {MAX_GROUPS}"
        raise E.RoleGroups(requests[-1].loc, what=message)
    budgets = _budgets(groups)
    return [PlacedRole(firsts[request], request.warps, budgets[firsts[request] // 4]) for request in requests]


def _occupy(groups: dict[int, list[RoleRequest]], request: RoleRequest, first: int) -> None:
    for group in range(first // 4, -(-(first + request.warps) // 4)):
        others = groups.setdefault(group, [])
        if others and request.first >= 0:
            notes = [(others[0].loc, "the other role")]
            raise E.RoleGroups(request.loc, what=f"warp group {group} has two roles", notes=notes)
        others.append(request)


def _budgets(groups: dict[int, list[RoleRequest]]) -> dict[int, int]:
    """The registers per thread of each warp group, as its roles request them; 0 if none does."""
    budgets: dict[int, int] = {}
    for group, members in groups.items():
        with_registers = [request for request in members if request.registers]
        for request in with_registers[1:]:
            if request.registers != with_registers[0].registers:
                names = f"roles '{with_registers[0].name}' and '{request.name}'"
                numbers = f"{with_registers[0].registers} and {request.registers} registers"
                message = f"{names} share a warp group and request {numbers}"
                help = "request the same number, or give each role its own warp group with warp_groups=1"
                raise E.RoleRegisters(
                    request.loc, what=message, notes=[(with_registers[0].loc, "the other role")], help=help
                )
        budgets[group] = with_registers[0].registers if with_registers else 0
    threads = (1 + max(groups)) * WARP_GROUP
    needed = sum(max(budgets.get(g, 0), MIN_BUDGET) for g in range(1 + max(groups))) * WARP_GROUP
    available = start_registers(threads) * threads
    if any(budgets.values()) and needed > available:
        message = f"the roles request {needed:,} registers, but a block of {threads} threads starts with {available:,}"
        help = (
            f"lower registers=: the roles request the sum over warp groups ({MIN_BUDGET} if omitted), times "
            f"{WARP_GROUP} threads"
        )
        asking = next(w for g in sorted(groups) for w in groups[g] if w.registers)
        raise E.RoleRegisters(asking.loc, what=message, help=help)
    return budgets
