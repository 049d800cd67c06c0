"""Common iterations of the loops of several roles, for the proof search."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.check.proof.program import Program
from tegula.check.proof.state import State
from tegula.check.proof.terms import Sum
from tegula.dataclass import dataclass, field, replace


@dataclass(slots=True)
class Iteration:
    """One common iteration of the loops of several roles. `roles`: for each role the depth of its loop and the loop's
    iteration count at the start; `extra_iterations`: the number of additional iterations for roles that others wait
    for. `is_periodic`: some events happen in some iterations only; roles outside the group (`joined`) may then execute
    an iteration of their own. `leads`: by (waiter, barrier, arriver), the lead of an arriver at the start."""

    roles: dict[int, tuple[int, int]]
    extra_iterations: int = 0
    leads: dict[tuple[int, int, int], Sum] = field(default_factory=dict[tuple[int, int, int], Sum])
    joined: frozenset[int] = frozenset()
    is_periodic: bool = False

    def is_repeated(self, state: State, r: int) -> bool:
        """Whether a role is at the head of its loop again."""
        depth, iteration = self.roles[r]
        frames = state.roles[r].frames
        return len(frames) == depth and frames[-1].at < 0 and frames[-1].iteration > iteration

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
