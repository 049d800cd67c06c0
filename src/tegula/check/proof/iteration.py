"""Common iterations of the loops of several roles, for the proof search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tegula.check.proof.program import Program
from tegula.check.proof.state import Role, State
from tegula.check.proof.terms import Sum
from tegula.dataclass import dataclass, field, replace
from tegula.ir import BranchLike, LoopLike, Region

Position: TypeAlias = tuple[tuple[Region, int], ...]
"""The regions that a role executes, outermost first, each with its next op."""


@dataclass(slots=True)
class Iteration:
    """One common iteration of the loops of several roles. `roles`: for each role the depth of its loop and the loop's
    iteration count at the start; `extra_iterations`: the number of additional iterations for roles that others wait
    for. `is_periodic`: some events happen in some iterations only; roles outside the group (`joined`) may then execute
    an iteration of their own. `leads`: by (waiter, barrier, arriver), the lead of an arriver at the start. `followers`:
    the positions of roles outside the group, in bodies of loops, to which they return in this iteration."""

    roles: dict[int, tuple[int, int]]
    extra_iterations: int = 0
    leads: dict[tuple[int, int, int], Sum] = field(default_factory=dict[tuple[int, int, int], Sum])
    joined: frozenset[int] = frozenset()
    is_periodic: bool = False
    followers: dict[int, Position] = field(default_factory=dict[int, Position])

    def is_repeated(self, state: State, r: int) -> bool:
        """Whether a role is at the head of its loop again."""
        depth, iteration = self.roles[r]
        frames = state.roles[r].frames
        return len(frames) == depth and frames[-1].at < 0 and frames[-1].iteration > iteration

    def is_complete(self, state: State) -> bool:
        """Whether all roles of the group are at their heads again, and no role that follows them is at a loop or a
        branch before it returns to its position."""
        at_head = all(self.is_repeated(state, r) for r in self.roles)
        return at_head and not any(self._lags(state, r) for r in self.followers)

    def _lags(self, state: State, r: int) -> bool:
        frame = state.roles[r].frames[-1]
        decides = frame.at < 0 or isinstance(frame.region.ops[frame.at], BranchLike)
        return decides and position(state, r) != self.followers[r]

    def includes(self, group: Iterable[int]) -> bool:
        """Whether one of the roles is in the group or follows it."""
        return any(r in self.roles or r in self.followers for r in group)

    def longer(self, r: int) -> Iteration:
        """This iteration with one more loop iteration of role r."""
        depth, iteration = self.roles[r]
        return replace(
            self, roles=self.roles | {r: (depth, iteration + 1)}, extra_iterations=self.extra_iterations - 1
        )

    def with_role(self, state: State, r: int) -> Iteration:
        """This iteration with the next loop iteration of another role added."""
        start = len(state.roles[r].frames), state.roles[r].frames[-1].iteration
        return replace(self, roles=self.roles | {r: start}, joined=self.joined | {r})

    def has_left(self, state: State) -> bool:
        """Whether one of the roles has left its loop."""
        return any(len(state.roles[r].frames) < depth for r, (depth, _) in self.roles.items())


def position(state: State, r: int) -> Position:
    """The position of a role."""
    return tuple((frame.region, frame.at) for frame in state.roles[r].frames)


def positions_in_loops(state: State, group: Iterable[int]) -> dict[int, Position]:
    """The positions of the roles outside a group that stand in the body of a loop."""
    return {
        r: position(state, r)
        for r, role in enumerate(state.roles)
        if r not in group and role.frames[-1].at >= 0 and innermost_loop(role) >= 0
    }


def innermost_loop(role: Role) -> int:
    """The depth of the innermost loop that a role executes; -1 if there is none."""
    depths = (k for k, frame in enumerate(role.frames) if isinstance(frame.region.parent, LoopLike))
    return max(depths, default=-1)


def leads_of(program: Program, state: State, group: Iterable[int]) -> dict[tuple[int, int, int], Sum]:
    """The lead of each arriver over the waits of each role outside a group that is at a loop head, in items, by
    (waiter, barrier, arriver)."""
    rows = [(r, role) for r, role in enumerate(state.roles) if r not in group and role.frames[-1].at < 0]
    return {
        (r, b, q): state.roles[q].arrived[b] - w
        for r, role in rows
        for b, w in role.waited.items()
        for q in program.arrivers[b] - {r}
    }
