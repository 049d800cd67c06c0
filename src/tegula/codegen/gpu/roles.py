"""The dispatch of a block's warps to their roles, and the register budget of each warp group."""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.gpu.control import for_warps
from tegula.codegen.gpu.schedule import sync_all
from tegula.codegen.gpu.state import GpuState
from tegula.dataclass import dataclass
from tegula.errors import InternalError
from tegula.ir import Op, Region
from tegula.ops.group import MATMULS
from tegula.ops.roles import REGISTER_STEP, WARP, WARP_GROUP, Roles, start_registers
from tegula.passes.groups import Group, group_of, only_starts_copies

WARPS = WARP_GROUP // WARP
MIN_REGISTERS, MAX_REGISTERS = 24, 240
"""The minimum number of registers per thread, and the maximum number without a request."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Consecutive warp groups with one register budget and their roles: one role on all warp groups, or several roles
    within one warp group. `registers`: the requested number per thread, 0 if the compiler chooses."""

    group: Group
    roles: tuple[Region, ...]
    registers: int

    @property
    def copies(self) -> bool:
        """Whether the roles of the unit only start bulk copies."""
        return all(only_starts_copies(region) for region in self.roles)


def roles(s: GpuState, op: Roles, body: Callable[[Region], None]) -> None:
    """Branch each warp to its role, after its warp group has set its registers. All threads synchronise at the end."""
    code, threads = s.code, s.threads
    warp_index = s.first("lshr i32 %lane32, 5")
    # A shuffle makes the warp index warp-uniform for ptxas.
    warp = code.emit(f"call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 {warp_index}, i32 0, i32 31)")
    all_units = units(op, threads)
    start = start_registers(threads)
    registers_of = budgets(all_units, threads, _multiplies(op)) if s.gpu.sets_registers else {}
    s.start_registers = start if registers_of else 0
    s.budgets = tuple(n for u, n in registers_of.items() for _ in range(u.group.warp_groups))

    def change(registers: int) -> None:
        kind = "dec" if registers < start else "inc"
        code.line(f'call void asm sideeffect "setmaxnreg.{kind}.sync.aligned.u32 {registers};", ""()')

    for unit in all_units:

        def act(unit: Unit = unit) -> None:
            if registers_of.get(unit, start) != start:
                change(registers_of[unit])
            for region in unit.roles:
                _emit_role(s, region, unit, warp, body)

        for_warps(s, _is_warp_in_range(s, warp, unit.group.first, unit.group.warps), act)
    sync_all(s)


def units(op: Roles, threads: int) -> list[Unit]:
    """The units of a block in order, including idle warp groups."""
    units: list[Unit] = []
    group_and_registers = {
        r: (group_of(r, threads), n) for r, n in zip(op.regions, op.registers, strict=True)
    }
    first_warp, warp_count = 0, -(-threads // WARP)
    while first_warp < warp_count:
        members = {
            r: g for r, (g, _) in group_and_registers.items() if first_warp <= g.first < first_warp + WARPS
        }
        warps = max([WARPS, *(g.warps for g in members.values())])
        registers = max((group_and_registers[r][1] for r in members), default=0)
        units.append(Unit(Group(first_warp, min(warps, warp_count - first_warp)), tuple(members), registers))
        first_warp += warps
    return units


def budgets(units: list[Unit], threads: int, multiplies: bool) -> dict[Unit, int]:
    """The registers per thread of every unit; empty if all threads keep their initial number. Without a request,
    registers are redistributed only if roles contain matmuls (`multiplies`), whose operands benefit from many
    registers: a unit that only starts copies gets few, and the other units divide the rest."""
    is_requested = any(u.registers for u in units)
    redistributes = multiplies and threads > 2 * WARP_GROUP and any(u.copies for u in units)
    if threads % WARP_GROUP or len(units) < 2 or not (is_requested or redistributes):
        return {}
    assigned = {u: u.registers or MIN_REGISTERS for u in units}
    flexible = [u for u in units if not u.registers and not u.copies]
    total = start_registers(threads) * threads
    remaining = total - sum(n * u.group.threads for u, n in assigned.items() if u not in flexible)
    for u in flexible:
        assigned[u] = max(
            MIN_REGISTERS,
            min(
                MAX_REGISTERS,
                remaining // sum(o.group.threads for o in flexible) // REGISTER_STEP * REGISTER_STEP,
            ),
        )
    if sum(n * u.group.threads for u, n in assigned.items()) > total:
        raise InternalError(f"the roles request more registers than the {total} that the block starts with")
    return assigned


def _multiplies(op: Op) -> bool:
    """Whether an op contains matmuls."""
    return any(isinstance(inner, MATMULS) for inner in op.walk())


def _emit_role(s: GpuState, region: Region, unit: Unit, warp: str, body: Callable[[Region], None]) -> None:
    group = group_of(region, s.threads)
    is_single = only_starts_copies(region)
    is_member = (
        _is_warp_in_range(s, warp, group.first, 1 if is_single else group.warps)
        if is_single or group != unit.group
        else "true"
    )

    def act() -> None:
        with s.of_group(group):
            body(region)

    for_warps(s, is_member, act)


def _is_warp_in_range(s: GpuState, warp: str, first: int, count: int) -> str:
    if count == 1:
        return s.code.emit(f"icmp eq i32 {warp}, {first}")
    return s.code.emit(f"icmp ult i32 {s.code.emit(f'sub i32 {warp}, {first}')}, {count}")
