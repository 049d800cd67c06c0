"""Small random programs of roles that only wait and arrive at mbarriers, and all their interleavings.

A program is a right one, or one with a few changes. Roles are of one warp and have a prologue, a loop with an index `k`
and an epilogue; each op is for an item, whose stage and parity follow from the item."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

MAX_ITERATIONS = 5
MAX_STATES = 60_000
"""The maximum number of states of a launch; programs with more are not judged."""


@dataclass(frozen=True, slots=True)
class Op:
    """A wait for an item of a barrier, or an arrival for it. `shift`: the item, relative to the index of the loop;
    `early`: the wait is for the phase before the phase of the item; `when`: a comparison of the index with a number, or
    ""."""

    waits: bool
    barrier: int
    shift: int = 0
    early: bool = False
    when: str = ""

    def runs(self, k: int, n: int) -> bool:
        """Whether the op runs in iteration k."""
        return not self.when or bool(eval(self.when, {"k": k, "n": n}))

    def text(self, item: str) -> str:
        """The call in the kernel."""
        if self.waits:
            return f"tg.mbarrier_wait(b{self.barrier}, ({item}) % S, ({item}) // S + {int(self.early)})"
        return f"tg.mbarrier_arrive(b{self.barrier}, ({item}) % S)"


@dataclass(frozen=True, slots=True)
class Role:
    """A role. `prologue`: ops for the items that their shifts name; `first`, `more`: the loop has indices from `first`
    to n + `more` - 1; `epilogue`: ops for items relative to n. Prologue and epilogue run if n is not 0."""

    body: tuple[Op, ...]
    prologue: tuple[Op, ...] = ()
    first: int = 0
    more: int = 0
    epilogue: tuple[Op, ...] = ()

    def ops(self) -> Iterator[Op]:
        """All ops."""
        return chain(self.prologue, self.body, self.epilogue)

    def steps(self, n: int, stages: int) -> list[tuple[bool, int, int, int]]:
        """The ops of a launch: whether each waits, its barrier, its stage and its parity."""
        items = [(op, op.shift) for op in self.prologue if n]
        for k in range(self.first, n + self.more):
            items += [(op, k + op.shift) for op in self.body if op.runs(k, n)]
        items += [(op, n + op.shift) for op in self.epilogue if n]
        return [(op.waits, op.barrier, x % stages, (x // stages + op.early) % 2) for op, x in items]

    def text(self) -> str:
        """The body of the role in the kernel."""
        lines = [f"if n > 0:\n    {op.text(str(op.shift))}" for op in self.prologue]
        lines.append(f"for k in range({self.first}, n + {self.more}):")
        for op in self.body:
            call = op.text(f"k + {op.shift}")
            lines.append(f"    if {op.when}:\n        {call}" if op.when else f"    {call}")
        lines += [f"if n > 0:\n    {op.text(f'n + {op.shift}')}" for op in self.epilogue]
        return "\n".join(lines).replace("\n", "\n        ")


@dataclass(frozen=True, slots=True)
class Program:
    """Roles, and the number of stages of all barriers."""

    roles: tuple[Role, ...]
    stages: int

    @property
    def arrivals(self) -> list[int]:
        """The count of each barrier: the number of roles that arrive there."""
        barriers = 1 + max(op.barrier for role in self.roles for op in role.ops())
        arrivers = [{op.barrier for op in role.ops() if not op.waits} for role in self.roles]
        return [max(1, sum(b in bs for bs in arrivers)) for b in range(barriers)]

    def text(self) -> str:
        """The source of the kernel."""
        lines = ["def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):"]
        lines += [f"    b{b} = tg.mbarrier({n}, stages=S)" for b, n in enumerate(self.arrivals)]
        for k, role in enumerate(self.roles):
            lines += [f'    with tg.role("role{k}", warps=1):', f"        {role.text()}"]
        return "\n".join(lines) + "\n"

    def blocked_launch(self) -> int | None:
        """The smallest n of a launch in which some order of the steps ends with a role that waits for ever; None if
        there is none. Raises OverflowError if a launch has too many states."""
        return next((n for n in range(MAX_ITERATIONS + 1) if self._may_block(n)), None)

    def _may_block(self, n: int) -> bool:
        steps, counts = [role.steps(n, self.stages) for role in self.roles], self.arrivals
        start = ((0,) * len(steps), tuple((count, 0) for count in counts for _ in range(self.stages)))
        visited, remaining = {start}, [start]
        while remaining:
            positions, barriers = remaining.pop()
            moved = False
            for role, position in enumerate(positions):
                if position == len(steps[role]):
                    continue
                waits, b, stage, parity = steps[role][position]
                at = b * self.stages + stage
                pending, phase = barriers[at]
                if waits and phase == parity:
                    continue
                moved = True
                arrived = (pending - 1, phase) if pending > 1 else (counts[b], 1 - phase)
                after = barriers if waits else (*barriers[:at], arrived, *barriers[at + 1 :])
                state = (*positions[:role], position + 1, *positions[role + 1 :]), after
                if state not in visited:
                    visited.add(state)
                    remaining.append(state)
            if len(visited) > MAX_STATES:
                raise OverflowError
            if not moved and any(p < len(s) for p, s in zip(positions, steps, strict=True)):
                return True
        return False


def wait(barrier: int, shift: int = 0, early: bool = False, when: str = "") -> Op:
    """A wait."""
    return Op(True, barrier, shift, early, when)


def arrive(barrier: int, shift: int = 0, when: str = "") -> Op:
    """An arrival."""
    return Op(False, barrier, shift, False, when)


def right_roles(stages: int, ahead: int) -> list[tuple[Role, ...]]:
    """Right programs. `ahead`: a number of items, from 1 to `stages`."""
    fill, use = Role((wait(1, early=True), arrive(0))), Role((wait(0), arrive(1)))
    first = tuple(arrive(0, k) for k in range(ahead))
    early = tuple(wait(1, k, early=True) for k in range(stages - 1))
    late = [
        (fill, Role((wait(0), arrive(1, -1, "k >= 1")))),
        (fill, Role((wait(0, when="k < n"), arrive(1, -1, "k >= 1")), more=1)),
        (Role((arrive(0), wait(1, -1, when="k >= 1"))), use),
    ]
    return [
        (fill, use),
        (Role((wait(1, early=True), arrive(0)), first, ahead), use),
        (Role((wait(1, early=True, when=f"k >= {stages}"), arrive(0))), use),
        (Role((wait(1, stages - 1, early=True), arrive(0)), early), use),
        (Role((arrive(0), wait(1))), use),
        (Role((wait(2, early=True), arrive(0))), use, Role((wait(1), arrive(2)))),
        (Role((wait(1, early=True), wait(2, early=True), arrive(0))), use, Role((wait(0), arrive(2)))),
        *(late if stages > 1 else []),
    ]


def changed(r: random.Random, role: Role, stages: int) -> Role:
    """A role with one random change."""
    body, prologue = list(role.body), list(role.prologue)
    k = r.randrange(len(body))
    op, shift = body[k], r.choice((1, -1, stages, -stages))
    condition = r.choice(("", "k >= 1", f"k >= {stages}", "k < 1", f"k < {stages}", "k < n - 1"))
    kind = r.randrange(10)
    if kind == 0:
        body[k] = replace(op, shift=op.shift + shift)
    elif kind == 1:
        body[k] = replace(op, early=op.waits and not op.early)
    elif kind == 2:
        r.shuffle(body)
    elif kind == 3:
        body[k] = replace(op, when=condition)
    elif kind == 4 and prologue:
        prologue.pop(r.randrange(len(prologue)))
    elif kind in (4, 5):
        moved = Op(op.waits, op.barrier, r.choice((0, 1, stages - 1, stages)), op.waits and r.random() < 0.7)
        prologue.insert(r.choice((0, len(prologue))), moved)
        return replace(role, prologue=tuple(prologue), first=role.first + r.randrange(2))
    elif kind == 6:
        return replace(role, epilogue=(Op(op.waits, op.barrier, r.choice((0, -1, 1, -stages)), op.early),))
    elif kind == 7:
        return replace(role, first=max(0, role.first + shift))
    elif kind == 8:
        return replace(role, more=role.more + shift)
    else:
        body.insert(r.randrange(len(body) + 1), replace(op, shift=op.shift + shift, when=condition))
    return replace(role, body=tuple(body), prologue=tuple(prologue))


def random_program(seed: int) -> Program:
    """A right program, or one with up to four changes."""
    r = random.Random(seed)
    stages = r.choice((1, 2, 2, 3))
    roles = list(r.choice(right_roles(stages, r.choice(range(1, stages + 1)))))
    for _ in range(r.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        k = r.randrange(len(roles))
        roles[k] = changed(r, roles[k], stages)
    return Program(tuple(roles), stages)
