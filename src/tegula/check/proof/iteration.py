"""Common iterations of the loops of several roles, for the proof search."""

from __future__ import annotations

from tegula.check.proof.state import State
from tegula.check.proof.terms import Sum
from tegula.dataclass import dataclass, field, replace


@dataclass(slots=True)
class Iteration:
    """One common iteration of the loops of several roles. `parts`: for each role the depth of the loop and its
    iteration count at the start; `spare`: the number of further iterations for roles that others wait for. `turns`:
    some events happen in some iterations only; roles outside the group may then execute an iteration of their own
    (`joined`), by as much as others were ahead of them (`leads`)."""

    parts: dict[int, tuple[int, int]]
    spare: int = 0
    leads: dict[tuple[int, int, int], Sum] = field(default_factory=dict[tuple[int, int, int], Sum])
    joined: frozenset[int] = frozenset()
    turns: bool = False

    def is_repeated(self, state: State, r: int) -> bool:
        """Whether a role is at the head of its loop again."""
        depth, turn = self.parts[r]
        frames = state.roles[r].frames
        return len(frames) == depth and frames[-1].at < 0 and frames[-1].turn > turn

    def longer(self, r: int) -> Iteration:
        """This iteration with one more loop iteration of role r."""
        depth, turn = self.parts[r]
        return replace(self, parts=self.parts | {r: (depth, turn + 1)}, spare=self.spare - 1)

    def with_role(self, state: State, r: int) -> Iteration:
        """This iteration with the next loop iteration of another role added."""
        part = len(state.roles[r].frames), state.roles[r].frames[-1].turn
        return replace(self, parts=self.parts | {r: part}, joined=self.joined | {r})

    def has_left(self, state: State) -> bool:
        """Whether one of the roles has left its loop."""
        return any(len(state.roles[r].frames) < depth for r, (depth, _) in self.parts.items())
