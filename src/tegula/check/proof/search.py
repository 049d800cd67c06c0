"""The search for a proof: roles are executed symbolically until they block, loops that iterate together are proved by
invariants, and the steps are recorded in a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

from tegula.check.proof.certificate import Certificate
from tegula.check.proof.groups import Groups
from tegula.check.proof.guards import Guard
from tegula.check.proof.iteration import Iteration, leads_of, positions_in_loops
from tegula.check.proof.known import OutOfWork, Work
from tegula.check.proof.labels import (
    Label,
    Leaf,
    Limit,
    Mismatch,
    Tree,
    is_covered,
    quotient_equations,
    unwound,
)
from tegula.check.proof.machine import Machine
from tegula.check.proof.program import Program, RingUse
from tegula.check.proof.record import FirstWaits, chains, encoded_on_path, record, require_chains, used
from tegula.check.proof.state import CannotPeel, Hoisted, LimitExceeded, OutOfStep, State, Stuck
from tegula.check.proof.steps import compares
from tegula.check.proof.terms import (
    Condition,
    Sum,
    atom,
    encoded,
    ge,
    inside,
    negation,
    number,
    of_launch,
    replaced,
    symbols,
)
from tegula.check.scheduled import fingerprint
from tegula.ir import Value
from tegula.ops import events as E
from tegula.ops.control import For

MAX_STEPS, MAX_LABELS, MAX_TRIES, MAX_WORK, FIRST_WORK = 6_000, 96, 12, 15_000, 8_500
"""Limits of the search: steps of roles, labels, attempts at one label, inequalities, and inequalities before the proof
is split by the conditions under which a launch executes inner loops, if there are any."""
MAX_LIMITS, ENOUGH_WORK = 2, 400
"""The maximum number of conditions by which a loop is split; the number of inequalities after which guards are
requested."""
UNROLLED = 8
"""The maximum trip count of a loop with constant bounds that is executed iteration by iteration, without an
invariant."""

Snapshot: TypeAlias = tuple[int, tuple[dict[Any, Any], ...]]


class Search(Groups):
    """The search for a proof of one kernel."""

    def __init__(
        self,
        program: Program,
        guards: Sequence[Guard],
        early_waits: Sequence[tuple[int, int]] = (),
        rotates: bool = True,
    ) -> None:
        super().__init__(program, Machine(program, guards, early_waits, rotates))
        self.guards = guards
        self.steps = 0
        self.tried_labels = 0
        self.split_conditions: list[tuple[Condition, Label]] = []
        self.open_labels: list[Label] = []
        self.work = Work()
        self.hoists = self.has_unhoisted_conditions = False
        self.is_trial = False
        self.tried_heads = set[Any]()

    def certificate(self) -> Certificate:
        """A certificate of the kernel; raises Stuck if no proof is found."""
        state = self.machine.start()
        self.work = state.known.work
        self.work.limit = MAX_WORK
        try:
            start = self._split_by_launch(state)
        except OutOfWork as e:
            machine = self.machine
            op = machine.op(machine.state, machine.role)
            raise LimitExceeded("the search has reached its step limit", op, machine.role) from e
        rings = [
            [self.program.number[v], self._rows(v, ring), sorted(ring.filling_roles)]
            for v, ring in self.program.rings.items()
        ]
        offset, units = self.machine.offsets.get, self.program.units
        lags = {
            k: n + offset((k[2], k[1]), 0) * units[k[2]]
            for k, n in self.machine.lags.items()
            if n is not None
        }
        first_waits = FirstWaits(self.machine.offsets, self.machine.late_waits)
        chains_of_waits = chains(self.program, lags, first_waits)
        require_chains(self.program, chains_of_waits, lags, first_waits)
        return {
            "kernel": fingerprint(self.program.kernel),
            "guards": [[guard.kind, self.program.number[guard.value]] for guard in self.guards],
            "rings": rings,
            "offsets": [[b, r, n] for (b, r), n in self.machine.offsets.items()],
            "lags": [[*k, lags[k]] for k in dict.fromkeys(used(self.program, chains_of_waits, lags))],
            "parts": [[*key, *part] for key, part in self.program.parts.items()],
            "units": [[b, n] for b, n in enumerate(units) if n > 1],
            "rotations": [[b, encoded(x, {})] for b, x in self.machine.rotations.items() if x.value != 0],
            "chains": chains_of_waits,
            "start": start,
            "labels": self.labels,
        }

    def _rows(self, v: Value, ring: RingUse) -> list[Any]:
        """The hand-overs of a ring in the certificate. Between two engines, the engine that accesses the ring first
        hands over items, and the other engine hands back their stages."""
        first_access = {engine: k for k, (at, engine) in enumerate(self.machine.first_accesses) if at is v}
        return [
            [
                *row.releaser,
                *row.acquirer,
                row.barrier,
                self.machine.item_shift(v, row),
                int(
                    first_access.get(row.releaser, len(first_access))
                    > first_access.get(row.acquirer, len(first_access))
                ),
                row.own,
                row.group,
                [list(link) for link in row.links],
            ]
            for row in ring.handovers
        ]

    def _split_by_launch(self, state: State) -> Tree:
        """The proof tree from the start, split by the conditions of inner loops that depend on the launch alone. The
        first attempt splits only by conditions without which no role can proceed."""
        snapshot = self._snapshot()
        try:
            try:
                return self.drive(state.copy(), None, self._end)
            except Hoisted as e:
                self._restore(snapshot)
                sides: list[Tree] = []
                for c in (e.condition, negation(e.condition)):
                    branch = state.copy()
                    branch.assume(c)
                    branch.outer.clear()
                    sides.append([["absurd"]] if branch.known.absurd else self._split_by_launch(branch))
                return [["split", encoded(e.condition, {}), *sides]]
        except (Stuck, OutOfWork):
            if self.hoists or not self.has_unhoisted_conditions or self._requests_guards():
                raise
            self._restore(snapshot)
            self.hoists, self.steps, self.tried_labels, self.work.limit = (
                True,
                0,
                0,
                self.work.done + MAX_WORK,
            )
            self.tried_heads.clear()
            self.states_after_iteration.clear()
            return self._split_by_launch(state)

    def _snapshot(self) -> Snapshot:
        """The part of the search's state that a failed attempt has to restore."""
        machine = self.machine
        records = (
            machine.lags, machine.offsets, machine.item_shifts, machine.first_accesses, machine.leads,
            machine.late_waits,
        )  # fmt: skip
        return len(self.labels), tuple(dict(x) for x in records)

    def _restore(self, snapshot: Snapshot) -> None:
        del self.labels[snapshot[0] :]
        machine = self.machine
        rows = (dict(x) for x in snapshot[1])
        (
            machine.lags, machine.offsets, machine.item_shifts, machine.first_accesses, machine.leads,
            machine.late_waits,
        ) = rows  # fmt: skip

    # Driving ---------------------------------------------------------------------------------------------------------

    def drive(self, state: State, stop: Iteration | None, leaf: Leaf) -> Tree:
        """The proof tree of all roles from a state on. `leaf`: a function that returns the tree after the iteration
        `stop`."""
        tree: Tree = []
        roles = range(len(state.roles))
        if stop is not None and stop.has_left(state):
            stop = None
        moved = True
        while moved:
            moved = False
            for r in roles:
                n = self._run(state, r, stop)
                if n:
                    tree.append(["run", r, n])
                    moved = True
        if stop is not None and stop.has_left(state):
            return tree + self.drive(state, None, leaf)
        if stop is not None and stop.is_complete(state):
            return tree + self._end_of_iteration(state, stop, leaf)
        if all(self.machine.ended(state, r) for r in roles):
            self._require_awaited_copies(state)
            return [*tree, ["end"]]
        for r in roles:
            if self.machine.frame(state, r).at >= 0 and (c := self.machine.condition(state, r)) is not None:
                return [*tree, self._split(state, r, c, lambda s: self.drive(s, stop, leaf))]
        if stop is not None and (r := self._awaited_role(state, stop)) is not None:
            return tree + self._extra_iteration(state, r, stop, leaf)
        return tree + self._loops(state, stop, leaf)

    def _awaited_role(self, state: State, stop: Iteration) -> int | None:
        """A role that has executed its iteration and for which another role waits; None if there is none."""
        for q, b in self._waiting_roles(state):
            w = self.machine.last_waited(state.roles[q], q, b) + 1
            for r in self.program.arrivers[b]:
                if not state.known.nonnegative(state.roles[r].arrived[b] - w - 1):
                    if r in stop.roles and stop.extra_iterations and stop.is_repeated(state, r):
                        return r
                    if r not in stop.roles and stop.is_periodic and self._has_next_iteration(state, r):
                        return r
        return None

    def _has_next_iteration(self, state: State, r: int) -> bool:
        """Whether a role is at the head of a loop that has another iteration."""
        if self.machine.frame(state, r).at >= 0:
            return False
        c = self.machine.condition(state, r)
        return c is not None and state.known.holds(c) is True

    def _end_of_iteration(self, state: State, stop: Iteration, leaf: Leaf) -> Tree:
        """The proof tree at the end of an iteration. A role outside the group first executes an iteration of its own if
        the arrivals in this iteration allow it."""
        leads_now = leads_of(self.program, state, stop.roles.keys() - stop.joined) if stop.is_periodic else {}
        for r in dict.fromkeys(r for r, _, _ in leads_now):
            rows = [
                ((leads_now[k] - x).value or 0, k[1])
                for k, x in stop.leads.items()
                if k[0] == r and k in leads_now
            ]
            leads = any(all(n > 0 for n, c in rows if c == b) for _, b in rows)
            if not leads or not self._has_next_iteration(state, r):
                continue
            next_state = state.copy()
            joined = stop.with_role(next_state, r)
            n = int(self.machine.step(next_state, r))
            n += self._run(next_state, r, joined)
            if not any(q == r for q, _ in self._waiting_roles(next_state)):
                return [["run", r, n], *self.drive(next_state, joined, leaf)]
        return leaf(state)

    def _waiting_roles(self, state: State) -> Iterator[tuple[int, int]]:
        """The roles whose next op is a wait, each with the barrier."""
        for q in range(len(state.roles)):
            if self.machine.frame(state, q).at >= 0:
                for e in self.program.events_of(self.machine.op(state, q)):
                    if isinstance(e, E.Wait | E.NamedWait):
                        yield q, self.program.barrier[e.barrier]

    def _extra_iteration(self, state: State, r: int, stop: Iteration, leaf: Leaf) -> Tree:
        """The proof tree of one more iteration of a role, or of the end of its loop."""
        longer = stop.longer(r) if r in stop.roles else stop.with_role(state, r)
        c = self.machine.condition(state, r)
        if c is None:
            raise Stuck("the condition may differ between threads", self.machine.op(state, r), r)

        def iterate(s: State) -> Tree:
            if not self.machine.step(s, r):
                raise OutOfStep(
                    "another iteration of the loop is neither proved nor excluded", self.machine.op(s, r), r
                )
            return [["run", r, 1], *self.drive(s, longer, leaf)]

        if (known := state.known.holds(c)) is not None:
            return iterate(state) if known else self.drive(state, longer, leaf)
        return [self._split(state, r, c, iterate, lambda s: self.drive(s, longer, leaf))]

    def _split(
        self, state: State, r: int, c: Condition, then: Leaf, otherwise: Leaf | None = None
    ) -> list[Any]:
        if self.open_labels:
            self.split_conditions.append((c, self.open_labels[-1]))
        sides: list[Tree] = []
        for fact, proof_of_side in ((c, then), (negation(c), otherwise or then)):
            branch, known = state.copy(), state.known.normalised(fact)
            branch.assume(fact)
            branch.resolve()
            sides.append(
                [["absurd"]]
                if branch.known.absurd
                else self._know_solution(branch, known) + proof_of_side(branch)
            )
        return ["split", r, *sides]

    def _know_solution(self, state: State, c: Condition) -> Tree:
        """The `know` nodes with the equation of a symbol that follows from a known remainder, or else of counts with
        a quotient; empty if no equation follows."""
        solved = state.known.solved(c)
        nodes: Tree = []
        for equation in (solved,) if solved is not None else quotient_equations(c, state):
            if state.known.holds(state.known.normalised(equation)) is True:
                nodes.append(["know", encoded_on_path(equation, state)])
                state.assume(equation)
        return nodes

    def _run(self, state: State, r: int, stop: Iteration | None) -> int:
        """Run a role until it waits, decides an unknown condition, or begins an iteration, and return the number of
        steps."""
        n = 0
        while not self.machine.ended(state, r):
            if stop is not None and r in stop.roles and stop.is_repeated(state, r):
                break
            if self.machine.frame(state, r).at < 0 and not self._needs_no_invariant(state, r):
                break
            if not self.machine.step(state, r):
                break
            n += 1
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise LimitExceeded("the search has reached its step limit", self.machine.op(state, r), r)
        return n

    def _needs_no_invariant(self, state: State, r: int) -> bool:
        """Whether a role at a loop head can proceed without an invariant: the loop has ended, or is short."""
        c = self.machine.condition(state, r)
        known = state.known.holds(c) if c is not None else None
        if known is None:
            return False
        op = self.machine.op(state, r)
        if known is False or not isinstance(op, For):
            return known is False or compares(op)
        self.machine.state, self.machine.role = state, r
        start, stop, step = (self.machine.value(v) for v in op.bounds)
        if not isinstance(start, Sum) or not isinstance(stop, Sum) or not isinstance(step, Sum):
            return False
        distance = (stop - start).value
        return distance is not None and bool(step.value) and len(range(0, distance, step.value)) <= UNROLLED

    def _loops(self, state: State, stop: Iteration | None, leaf: Leaf) -> Tree:
        """The proof tree of roles at loop heads: the first group of these roles for which an invariant is proved, at
        once or after an iteration, iterates together. A search that is begun again tries invariants for all groups
        before it executes an iteration of one."""
        heads: list[tuple[int, Condition]] = []
        for r in range(len(state.roles)):
            is_repeated = stop and r in stop.roles and stop.is_repeated(state, r)
            if self.machine.frame(state, r).at < 0 and not is_repeated:
                c = self.machine.condition(state, r)
                if c is None:
                    raise Stuck("the condition may differ between threads", self.machine.op(state, r), r)
                heads.append((r, c))
        conditions = dict(heads)
        problem, unpeelable = self._blocked(state), list[list[int]]()
        proofs = (self._prove_by_invariant, self._peel_loops) if self.hoists else (self._prove_loops,)
        for proof_of_loops, group in product(proofs, self._groups(state, conditions, stop)):
            if group in unpeelable:
                continue
            snapshot = self._snapshot()
            try:
                return self._enter_loops(state, group, conditions[group[0]], stop, leaf, proof_of_loops)
            except Stuck as e:
                if isinstance(e, LimitExceeded) or self._requests_guards():
                    raise
                problem = problem if isinstance(e, CannotPeel) else e
                self._restore(snapshot)
                if isinstance(e, OutOfStep):
                    unpeelable.append(group)
        for r, c in heads if stop is not None else ():
            if state.known.holds(c) is True and self.machine.step(state, r):
                self.steps += 1
                return [["run", r, 1], *self.drive(state, stop, leaf)]
        raise problem

    def _blocked(self, state: State) -> Stuck:
        for r in range(len(state.roles)):
            if not self.machine.ended(state, r):
                return Stuck("this wait is not proved to end", self.machine.op(state, r), r)
        return Stuck("the roles do not end together")

    # Loops -----------------------------------------------------------------------------------------------------------

    def _enter_loops(
        self,
        state: State,
        group: list[int],
        c: Condition,
        stop: Iteration | None,
        leaf: Leaf,
        proof_of_loops: Callable[[State, list[int], Leaf], Tree],
    ) -> Tree:
        """The proof tree of a group at loop heads. `proof_of_loops`: returns the tree if the loops continue."""
        lead = group[0]

        def after_loops(s: State) -> Tree:
            return self.drive(s, stop, leaf)

        if state.known.holds(c) is True:
            return proof_of_loops(state, group, after_loops)
        frames = state.roles[lead].frames
        if (
            len(frames) > 2
            and not frames[-1].iteration
            and not (self.is_trial or symbols(c))
            and of_launch(c)
        ):
            if self.hoists:
                raise Hoisted(c)
            self.has_unhoisted_conditions, self.work.limit = True, FIRST_WORK
        return [self._split(state, lead, c, lambda s: proof_of_loops(s, group, after_loops), after_loops)]

    def _iteration(
        self, state: State, group: list[int], leaf: Leaf, extra_iterations: int = 0, followed: bool = False
    ) -> Tree:
        """The proof tree of one iteration of a group, whose roles are known to begin it. `followed`: roles that stand
        in bodies of other loops return to their positions."""
        followers = positions_in_loops(state, group) if followed else {}
        starts = {r: (len(state.roles[r].frames), state.roles[r].frames[-1].iteration) for r in group}
        is_periodic = any(self._is_periodic(state, r) for r in group)
        tree: Tree = []
        for r in group:
            if not self.machine.step(state, r):
                raise OutOfStep(
                    "not all roles are proved to begin this iteration", self.machine.op(state, r), r
                )
            tree.append(["run", r, 1])
            self.steps += 1
        stop = Iteration(
            starts,
            extra_iterations,
            leads_of(self.program, state, group) if is_periodic else {},
            is_periodic=is_periodic,
            followers=followers,
        )
        return tree + self.drive(state, stop, leaf)

    def _prove_loops(self, state: State, group: list[int], after_loops: Leaf) -> Tree:
        """The proof tree of a group at loop heads whose loops continue: by an invariant, or by peeling an iteration."""
        try:
            return self._prove_by_invariant(state, group, after_loops)
        except Stuck as e:
            stops = isinstance(e, LimitExceeded | OutOfStep) or self._requests_guards()
            if stops or not self._can_peel(state, group):
                raise
        return self._peel_loops(state, group, after_loops)

    def _prove_by_invariant(self, state: State, group: list[int], after_loops: Leaf) -> Tree:
        """The proof tree of a group at loop heads whose loops continue, by an invariant."""
        conditions_before = self.split_conditions
        snapshot = self._snapshot()
        problem, limits = Stuck("no invariant was found"), list[Limit]()
        if self.is_trial:
            key = self._heads(state, group)
            return self._iteration(
                state.copy(), group, lambda s: self._after_iteration(s, key, group, after_loops)
            )
        self._trial_iteration(state, group)
        if self._is_last_iteration(state, group[0]):
            return self._iteration(state.copy(), group, after_loops)
        others = [
            r for r in range(len(state.roles)) if r not in group and self.machine.frame(state, r).at < 0
        ]
        guesses = [self._guesses(state, group, moving) for moving in (False, True)]
        modes = (True, False) if others else (False, True) if guesses[0] != guesses[1] else (False,)
        has_ties = any(self._tied_to_ghosts(slot, state, guesses[0]) for slot in self._slots(state))
        for tied, moving in product((False, True) if has_ties else (False,), modes):
            self.split_conditions = []
            try:
                return self._prove_by_label(state, group, after_loops, moving=moving, tied=tied)
            except Stuck as e:
                if isinstance(e, LimitExceeded) or self._requests_guards():
                    raise
                problem, limits = e, self._limits()
            finally:
                self.split_conditions = conditions_before
            self._hoist_undecided(state, group)
        if isinstance(problem, OutOfStep):
            raise problem
        for limit in limits:
            try:
                return self._prove_by_split(state, group, after_loops, limit)
            except Stuck as e:
                if isinstance(e, LimitExceeded) or self._requests_guards():
                    raise
                self._restore(snapshot)
        raise problem

    def _can_peel(self, state: State, group: list[int]) -> bool:
        """Whether the loops of a group end together, and few of their iterations have been executed."""
        peeled = max(state.roles[r].frames[-1].iteration for r in group)
        is_last = self.is_trial or self._is_last_iteration(state, group[0])
        return not is_last and peeled <= self._max_peeled() and self._end_together(state, group)

    def _max_peeled(self) -> int:
        """The maximum number of iterations that a group executes before an invariant, less one."""
        return max((u.stages for u in self.program.rings.values()), default=1) + 1

    def _peel_loops(self, state: State, group: list[int], after_loops: Leaf) -> Tree:
        """The proof tree of a group at loop heads whose loops continue, by executing one iteration before an
        invariant."""
        if not self._can_peel(state, group):
            raise CannotPeel("no invariant was found", self.machine.op(state, group[0]), group[0])
        return self._iteration(state.copy(), group, after_loops, self._max_peeled())

    def _is_last_iteration(self, state: State, r: int) -> bool:
        """Whether the next iteration of a role is known to be the last iteration of its loop."""
        loop, frame = self.machine.op(state, r), self.machine.frame(state, r)
        if not isinstance(loop, For):
            return False
        self.machine.state, self.machine.role = state, r
        start, stop, step = (
            frame.values[loop.index],
            self.machine.value(loop.stop),
            self.machine.value(loop.step),
        )
        if not isinstance(start, Sum) or not isinstance(stop, Sum) or not isinstance(step, Sum):
            return False
        remaining = stop - start - step
        ascending = state.known.nonnegative(step - 1)
        return state.known.nonnegative(-remaining if ascending else remaining)

    def _requests_guards(self) -> bool:
        """Whether guards were requested that are not assumed yet, after enough work without them."""
        requested = any(guard not in self.guards for guard in self.machine.requested_guards)
        return requested and self.work.done > ENOUGH_WORK

    def _trial_iteration(self, state: State, group: list[int]) -> None:
        """Execute one iteration, and one iteration of each nested loop, and discard the proof; record only the first
        engine of each ring and the items of its accesses."""
        key = self._heads(state, group)
        if key in self.tried_heads:
            return
        self.tried_heads.add(key)
        snapshot, self.is_trial, self.machine.requires_items = self._snapshot(), True, False
        try:
            self._iteration(
                state.copy(),
                group,
                lambda s: self._after_iteration(s, key, group, lambda _: []),
                followed=True,
            )
        except (Stuck, Hoisted, Mismatch):
            pass
        finally:
            self.is_trial, self.machine.requires_items = False, True
            item_shifts, first_accesses = self.machine.item_shifts, self.machine.first_accesses
            self._restore(snapshot)
            self.machine.item_shifts, self.machine.first_accesses = item_shifts, first_accesses

    def _after_iteration(self, state: State, key: Any, group: list[int], after_loops: Leaf) -> Tree:
        """The proof tree after one trial iteration of a loop; records the state, with its operations in flight: the
        first state in which the loop goes on, if there is one."""
        recorded = self.states_after_iteration.get(key)
        if recorded is None or self._has_ended(recorded, group[0]):
            self.states_after_iteration[key] = state.copy()
        c = self.machine.condition(state, group[0])
        if c is None:
            return []
        state.assume(negation(c))
        return [] if state.known.absurd else after_loops(state)

    def _end_together(self, state: State, group: list[int]) -> bool:
        """Whether the loops of a group end in the same iteration."""
        conditions = [self.machine.condition(state, r) for r in group]
        return all(self._implies(state, c, conditions[0]) for c in conditions[1:])

    def _limits(self) -> list[Limit]:
        """The conditions on a loop's progress by which iterations differ, at most `MAX_LIMITS`."""
        out: dict[str, Limit] = {}
        for c, label in self.split_conditions:
            own_symbols = {a for a in symbols(c) if a in label.count.atoms() or a in label.classes}
            if (
                not own_symbols
                or any(label.classes[a][1] for a in own_symbols & label.classes.keys())
                or c[0] != "ge"
                or not symbols(c) <= own_symbols | set(label.symbols_before)
                or not of_launch(c)
            ):
                continue
            slots = {a: label.classes[a][0] for a in own_symbols if a in label.classes}
            out.setdefault(str((c, label.index)), (c, slots, label))
        return [*out.values()][:MAX_LIMITS]

    def _prove_by_split(self, state: State, group: list[int], after_loops: Leaf, limit: Limit) -> Tree:
        """The proof tree of a loop split at a condition: one label for the iterations before the condition changes, and
        labels for the remaining iterations."""
        c, slots, label = limit
        rows = self._slots(state)
        substitution = {next(iter(label.count.coefficients)): number(0)}
        substitution |= {(a,): rows[slot] for a, slot in slots.items()}
        limited = state.known.normalised(replaced(c, substitution))
        truth = state.known.holds(limited)
        if truth is not None:
            return self._prove_by_label(
                state, group, after_loops, (c if truth else negation(c), slots, label)
            )
        sides: list[Tree] = []
        for side, label_side in ((limited, c), (negation(limited), negation(c))):
            s = state.copy()
            s.assume(side)
            absurd = s.known.absurd
            sides.append(
                [["absurd"]]
                if absurd
                else self._prove_by_label(s, group, after_loops, (label_side, slots, label))
            )
        return [["split", encoded_on_path(limited, state), *sides]]

    def _prove_by_label(
        self,
        state: State,
        group: list[int],
        after_loops: Leaf,
        limit: Limit | None = None,
        moving: bool = False,
        tied: bool = False,
    ) -> Tree:
        """The proof tree of a loop by a label at its head, with the strongest forms that an iteration preserves."""
        self.symbol_count += 1
        count = atom("sym", f"t{self.symbol_count}")
        guess = self._guesses(state, group, moving)
        forms = {
            slot: self._forms(slot, x, guess, state, limit is not None, tied)
            for slot, x in self._slots(state).items()
        }
        refused: set[Any] = set()
        loops = self._heads(state, group)
        later = self.states_after_iteration.get(loops, state)
        forms |= {
            slot: self._forms_in_flight(slot, state, later)
            for slot in self._slots(later)
            if slot not in forms and slot[0] in ("matmul", "copy")
        }
        orders = continues = False
        for _ in range(MAX_TRIES):
            snapshot = self._snapshot()
            self.tried_labels += 1
            if self.tried_labels > MAX_LABELS:
                raise LimitExceeded(
                    "the search has reached its step limit", self.machine.op(state, group[0]), group[0]
                )
            label = self._label(state, later, group, forms, count, refused, limit, continues)
            label.after_loops = after_loops
            try:
                tree = self._jump_to(state, label, entry=True)
                self._record_label(label, after_loops, self._orders(label) if orders else [])
                return tree
            except Mismatch as e:
                if e.label is not label:
                    raise
                self._restore(snapshot)
                self._weaken(e, state, forms, refused)
                if e.later is not None:
                    if any(self._accumulates(label, e.later, r) for r in group):
                        op = self.machine.op(state, group[0])
                        raise Stuck(
                            "iterations leave more and more bulk stores in flight", op, group[0]
                        ) from e
                    later = self.states_after_iteration[loops] = e.later
                    forms |= {
                        slot: self._forms_in_flight(slot, state, later)
                        for slot in self._slots(later)
                        if slot not in forms
                    }
            except Stuck as e:
                self._restore(snapshot)
                if isinstance(e, LimitExceeded):
                    raise
                if label.has_exits and label.limit is True:
                    continues = True
                elif not (self._use_constants(forms, later) or self._use_smaller_moduli(forms)):
                    if orders or isinstance(e, OutOfStep) or not self._orders(label):
                        raise
                    orders = True
        raise Stuck("no invariant was found", self.machine.op(state, group[0]), group[0])

    def _orders(self, label: Label) -> list[Condition]:
        """The undecided comparisons of the operands of each minimum and maximum in the terms of a label."""
        atoms = {a for x in label.terms.values() for a in inside(x) if a.kind in ("min", "max")}
        in_label = (
            a for a in sorted(atoms) if symbols(a.subterms) and symbols(a.subterms) <= {*label.symbols}
        )
        orders = [ge(a.subterms[0] - a.subterms[1]) for a in in_label]
        return [c for c in orders if label.state.known.holds(c) is None][:MAX_LIMITS]

    def _record_label(self, label: Label, after_loops: Leaf, orders: Sequence[Condition]) -> None:
        """Record a label with its tree: an iteration that jumps to the label, or the proof after the loops. The tree
        is first split by the comparisons `orders`."""
        lead = label.roles[0]
        state = label.state.copy()
        if state.known.substitution:
            state.renew()
        c = self.machine.condition(state, lead)
        if c is None:
            raise Stuck(
                "the iteration may belong to a loop without an invariant", self.machine.op(state, lead), lead
            )
        proof_record = record(self.program, label)

        def iterate(s: State) -> Tree:
            self.open_labels.append(label)
            try:
                return self._split_by_orders(
                    s,
                    orders,
                    lambda t: self._iteration(
                        t, label.roles, lambda u: self._jump_to(u, label), followed=True
                    ),
                )
            finally:
                self.open_labels.pop()

        proof_record["tree"] = (
            iterate(state)
            if state.known.holds(c) is True
            else [self._split(state, lead, c, iterate, after_loops)]
        )
        self.labels[label.index] = proof_record

    def _split_by_orders(self, state: State, orders: Sequence[Condition], leaf: Leaf) -> Tree:
        """The tree that splits by each undecided condition in turn, with the tree of `leaf` at its leaves."""
        undecided = [c for c in map(state.known.normalised, orders) if state.known.holds(c) is None]
        if not undecided:
            return leaf(state)
        sides: list[Tree] = []
        for c in (undecided[0], negation(undecided[0])):
            trial = state.copy()
            trial.assume(c)
            sides.append(
                [["absurd"]] if trial.known.absurd else self._split_by_orders(trial, undecided[1:], leaf)
            )
        return [["split", encoded_on_path(undecided[0], state), *sides]]

    def _jump_to(self, state: State, label: Label, entry: bool = False, within_limit: bool = False) -> Tree:
        """The leaf that jumps to a label, or the proof after the loops where the iteration has left them; raises
        Mismatch if the state is not an instance of the label. `within_limit`: the label's limit was assumed."""
        if not entry and label.after_loops is not None and self._has_ended(state, label.roles[0]):
            label.has_exits = True
            return label.after_loops(state)
        rows = self._slots(state)
        substitution = {next(iter(label.count.coefficients)): number(0) if entry else label.count + 1}
        for symbol, (slot, period) in label.classes.items():
            x = unwound(rows.get(slot), period)
            if x is None:
                raise Mismatch(label, [slot], (), rows)
            substitution[(symbol,)] = x
        limit = state.known.resolved(state.known.normalised(replaced(label.limit, substitution)))
        truth = within_limit or state.known.holds(limit)
        if truth is False and label.after_loops is not None:
            return label.after_loops(state)
        if truth is None:
            sides: list[Tree] = []
            for c, leaf in ((limit, None), (negation(limit), label.after_loops)):
                arrived = state.copy()
                arrived.assume(c)
                go = leaf or (lambda s: self._jump_to(s, label, entry, True))
                sides.append([["absurd"]] if arrived.known.absurd else go(arrived))
            return [["split", encoded_on_path(limit, state), *sides]]
        for r, (a, b) in enumerate(zip(state.roles, label.state.roles, strict=True)):
            if [(s.region, s.at) for s in a.frames] != [(s.region, s.at) for s in b.frames]:
                raise Stuck("the loops do not iterate together", self.machine.op(state, r), r)
        if any(not is_covered(a, b) for a, b in zip(state.roles, label.state.roles, strict=True)):
            raise Mismatch(label, [], (), rows, state)
        mismatched = [
            slot
            for slot, term in label.terms.items()
            if (slot in rows or slot[0] == "content")
            and not self._matches(state, rows.get(slot), replaced(term, substitution))
        ]
        facts = [
            key
            for key, c in label.facts.items()
            if state.known.holds(state.known.normalised(replaced(c, substitution))) is not True
        ]
        if (mismatched or facts) and not entry and label.after_loops is not None:
            lead = label.roles[0]
            c = self.machine.condition(state, lead)
            is_flagged = any(isinstance(label.terms[s], bool) or self._is_flag(s) for s in mismatched)
            is_open = c is not None and state.known.holds(c) is None
            if c is not None and is_open and (is_flagged or state.excludes_alternative(c)):
                return [self._split(state, lead, c, lambda s: self._jump_to(s, label), label.after_loops)]
        if mismatched or facts:
            raise Mismatch(label, mismatched, () if mismatched else facts, rows)
        terms = [state.known.normalised(substitution.get((a,), Sum({(a,): 1}))) for a in label.symbols]
        return [["go", label.index, [encoded_on_path(t, state) for t in terms]]]

    def _end(self, state: State) -> Tree:
        return [["end"]]
