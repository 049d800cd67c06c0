"""Groups of roles at loop heads whose loops may iterate together, for the proof search."""

from __future__ import annotations

from typing import Any

from tegula.check.proof.forms import Forms
from tegula.check.proof.iteration import Iteration
from tegula.check.proof.state import Hoisted, State
from tegula.check.proof.steps import (
    have_equal_rates,
    inner_bounds_change,
    is_periodic,
    nested_loops,
    share_a_barrier,
)
from tegula.check.proof.terms import Condition, ge, inside, of_launch, symbols


class Groups(Forms):
    """The choice of roles whose loops iterate together."""

    def _groups(
        self, state: State, conditions: dict[int, Condition], stop: Iteration | None
    ) -> list[list[int]]:
        """Groups of roles whose loops continue whenever the loop of the group's first role does; groups with nested
        loops first, then large groups. Within an iteration `stop`, at least one role of the group must
        be in it or follow it."""
        groups_by_condition: dict[Any, list[int]] = {}
        rates = {r: self._rates(state, r) for r in conditions}
        nested = {r: self._nested_loops(state, r) for r in conditions}
        stages = {b: n for b, n in enumerate(self.program.stages) if b not in self.program.copied}
        for r, c in conditions.items():
            trial = state.copy()
            trial.assume(c)
            others = [
                q
                for q, d in conditions.items()
                if q != r
                and (c == d or trial.known.holds(d) is True)
                and not (c == d and self._have_other_steps(state, r, q))
                and have_equal_rates(rates[r], rates[q], stages)
            ]
            equivalent = [q for q in others if self._implies(state, conditions[q], c)]
            are_equal = all(self._equal(state, conditions[q], c) for q in equivalent)
            groups_by_condition.setdefault(
                (frozenset((r, *equivalent)), -1 if are_equal else r), [r, *equivalent]
            )
            if self._is_periodic(state, r):
                equal = [q for q in others if conditions[q] == c and self._is_periodic(state, q)]
                groups_by_condition.setdefault((frozenset((r, *equal)), -1), [r, *equal])
            if len(equivalent) < len(others):
                groups_by_condition[frozenset((r, *others)), r] = [r, *others]
            # A flat loop is overlapped with inner loops that use all its barriers.
            outer = [q for q in equivalent if nested[q] >= nested[r] or share_a_barrier(rates[r], rates[q])]
            if len(outer) < len(equivalent) and self._inner_bounds_change(state, r):
                groups_by_condition.setdefault((frozenset((r, *outer)), -1), [r, *outer])
        groups = [group for group in groups_by_condition.values() if stop is None or stop.includes(group)]
        periodic = {r for r in conditions if self._is_periodic(state, r)}
        return sorted(
            groups, key=lambda group: (periodic == {*group}, self._group_rank(state, group)), reverse=True
        )

    def _is_periodic(self, state: State, r: int) -> bool:
        """Whether a role is at the head of a loop that arrives or waits only in iterations that a remainder selects."""
        return is_periodic(self.program, self.machine.frame(state, r).region)

    def _have_other_steps(self, state: State, r: int, q: int) -> bool:
        """Whether the indices of the loops at whose heads two roles stand are known to have different steps."""
        first, second = (self._step(state, role) for role in (r, q))
        return first is not None and second is not None and bool((first - second).value)

    def _equal(self, state: State, c: Condition, d: Condition) -> bool:
        """Whether two loop conditions are known to be equivalent."""
        numbers = isinstance(c, tuple) and isinstance(d, tuple) and c[0] == d[0] == "ge"
        return c == d or (numbers and state.known.equal(c[1], d[1]))

    def _implies(self, state: State, c: Condition, d: Condition) -> bool:
        """Whether the loop condition `c` is known to imply the loop condition `d`."""
        if c == d:
            return True
        trial = state.copy()
        trial.assume(c)
        return trial.known.holds(d) is True

    def _group_rank(self, state: State, group: list[int]) -> tuple[int, int, int, int, int]:
        """The sort key of a group: the maximum number of loops nested in a loop of the group, the number of roles, and
        for the first role the number of loops in its loop, the number of enclosing regions, and the number of items of
        an iteration."""
        nested = [self._nested_loops(state, r) for r in group]
        items = max((n.value or 0 for n in self._rates(state, group[0]).values()), default=0)
        return max(nested), len(group), nested[0], len(state.roles[group[0]].frames), items

    def _inner_bounds_change(self, state: State, r: int) -> bool:
        """Whether the bounds of a loop with events, in the loop at whose head a role stands, change with iterations."""
        return inner_bounds_change(self.program, state.roles[r].frames[-1].region)

    def _nested_loops(self, state: State, r: int) -> int:
        """The number of loops with events in the loop at whose head a role stands."""
        return nested_loops(self.program, state.roles[r].frames[-1].region)

    def _hoist_undecided(self, state: State, group: list[int]) -> None:
        """Raise Hoisted for an undecided minimum, maximum or choice of numbers of the launch in a loop condition: each
        case is proved separately."""
        for r in group:
            c = self.machine.condition(state, r)
            for a in sorted(inside(c)) if c is not None else ():
                if (
                    a.kind in ("min", "max", "ite")
                    and not symbols(a.subterms)
                    and all(map(of_launch, a.subterms))
                ):
                    order = a.subterms[0] if a.kind == "ite" else ge(a.subterms[0] - a.subterms[1])
                    if state.known.holds(order) is None:
                        raise Hoisted(order)
