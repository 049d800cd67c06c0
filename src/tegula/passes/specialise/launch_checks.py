"""Moves asserts that depend on the launch alone, such as a check that a step argument is not 0, before the roles.

All threads of all blocks compute the same condition, so it does not matter which of them fails first. Every other
report of a kernel names the lane and block that reached it, and such a kernel gets no roles. The condition of an
assert in a loop or branch also counts as true where the launch never reaches the assert."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Builder, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.control import For, If
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.types import bool_

with deferred_imports():
    from tegula.passes.release_stages import has_iterations

LAUNCH_UNIFORM = (ArrayShape, Cast, S.Const, Elementwise, S.Select)


@dataclass(frozen=True, slots=True)
class _Check:
    """An assert, and the regions of loops and branches that it is in, from the outermost on."""

    op: Assert
    inside: tuple[Region, ...]

    def controlling_values(self) -> list[Value]:
        """The values that determine whether the assert holds: its operands, and the conditions and bounds around it."""
        return [*self.op.operands, *(v for region in self.inside for v in _controlling_values(region))]


def hoist_launch_checks(kernel: Kernel) -> list[Op]:
    """Remove from the kernel, in place, the asserts whose condition and reachability depend on the kernel's arguments
    alone. Returns the ops that check these asserts before the roles: copies of the asserts and of the ops that compute
    their conditions."""
    checks = list(_checks(kernel.body, (), set(kernel.params)))
    region_of_checks, copies = Region(), dict[Value, Value]()
    for op in _backward_slice(kernel, checks):
        region_of_checks.append(clone_op(op, copies))
    build = Builder(region_of_checks, kernel.loc)
    for check in checks:
        holds = copies.get(check.op.condition, check.op.condition)
        for region in check.inside:
            not_reached = build.insert(S.Not([_reaches(build, region, copies)], [bool_])).result
            holds = build.insert(S.Or([holds, not_reached], [bool_])).result
        build.insert(Assert([holds], [], check.op.attrs, [], check.op.loc))
        assert check.op.parent is not None
        check.op.parent.ops.remove(check.op)
    return region_of_checks.ops


def _checks(region: Region, inside: tuple[Region, ...], known: set[Value]) -> Iterator[_Check]:
    """The asserts of a region that depend on the launch alone. `known`: the values computed from the kernel's arguments
    so far; the walk adds to them."""
    for op in list(region.ops):
        if isinstance(op, LAUNCH_UNIFORM) and known.issuperset(op.operands):
            known.update(op.results)
        elif isinstance(op, Assert) and known.issuperset(op.operands):
            yield _Check(op, inside)
        elif isinstance(op, For | If):
            for nested in op.regions:
                if known.issuperset(_controlling_values(nested)):
                    yield from _checks(nested, (*inside, nested), known)


def _controlling_values(region: Region) -> list[Value]:
    """The values that determine whether a region of a loop or branch runs: loop bounds, or the branch's condition."""
    assert isinstance(region.parent, For | If)
    return region.parent.control_operands


def _reaches(build: Builder, region: Region, copies: dict[Value, Value]) -> Value:
    """Build the condition under which a region runs, given that the loop or branch around it is reached."""
    values = [copies.get(v, v) for v in _controlling_values(region)]
    if isinstance(region.parent, For):
        return has_iterations(build, values)
    assert isinstance(region.parent, If)
    (condition,) = values
    if region is region.parent.then:
        return condition
    return build.insert(S.Not([condition], [bool_])).result


def _backward_slice(kernel: Kernel, checks: list[_Check]) -> list[Op]:
    """The ops that compute the operands and conditions of the asserts, in program order."""
    needed, worklist = set[Op](), [v for check in checks for v in check.controlling_values()]
    while worklist:
        owner = worklist.pop().owner
        if isinstance(owner, Op) and owner not in needed:
            needed.add(owner)
            worklist.extend(owner.operands)
    return [op for op in kernel.walk() if op in needed]


__all__ = ["hoist_launch_checks"]
