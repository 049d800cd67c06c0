"""The assignment of warps to roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula import errors as E
from tegula.lang.place_roles import MAX_GROUPS, RoleRequest, place_roles
from tegula.ops.roles import start_registers
from tegula.source import UNKNOWN

pytestmark = pytest.mark.cpu


def role_requests(*warps: int, registers: int = 0) -> list[RoleRequest]:
    return [RoleRequest(f"r{k}", UNKNOWN, n, registers) for k, n in enumerate(warps)]


def test_single_warps_share_a_warp_group() -> None:
    assert [p.first for p in place_roles(role_requests(1, 4, 2, 1, 1))] == [0, 4, 1, 3, 8]


def test_roles_with_named_warp_groups_are_placed_first() -> None:
    roles = [RoleRequest("a", UNKNOWN, 1), RoleRequest("ws1", UNKNOWN, 4, 0, 4), RoleRequest("b", UNKNOWN, 8)]
    assert [p.first for p in place_roles(roles)] == [8, 4, 12]


def test_a_warp_group_has_the_registers_of_all_its_roles() -> None:
    roles = [RoleRequest("a", UNKNOWN, 1), RoleRequest("b", UNKNOWN, 1, 40)]
    assert [p.registers for p in place_roles(roles)] == [40, 40]


@given(st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0, 24, 104, 240])), min_size=1, max_size=10))
def test_roles_have_disjoint_warps_within_the_block(requests: list[tuple[int, int]]) -> None:
    roles = [RoleRequest(f"r{k}", UNKNOWN, n, registers) for k, (n, registers) in enumerate(requests)]
    try:
        placed = place_roles(roles)
    except (E.RoleGroups, E.RoleRegisters):
        return
    warps = [warp for p in placed for warp in range(p.first, p.first + p.count)]
    assert len(set(warps)) == len(warps) and max(warps) < 4 * MAX_GROUPS
    budgets: dict[int, int] = {}
    for role, p in zip(roles, placed, strict=True):
        assert p.count == role.warps and (role.warps < 4 or p.first % 4 == 0)
        assert p.first % 4 + role.warps <= 4 or role.warps >= 4
        for group in range(p.first // 4, -(-(p.first + p.count) // 4)):
            assert budgets.setdefault(group, p.registers) == p.registers
            assert role.registers in (0, p.registers)
    assert sum(128 * n for n in budgets.values()) <= start_registers(128 * len(budgets)) * 128 * len(budgets)
