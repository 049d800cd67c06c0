"""Candidates for loop invariants: the forms that each slot of a label may have, strongest first."""

from __future__ import annotations

from typing import Any

from tegula.check.proof.cycles import Cycle, cycle
from tegula.check.proof.iteration import innermost_loop, position, positions_in_loops
from tegula.check.proof.labels import (
    IN_FLIGHT,
    Form,
    Label,
    Labels,
    Mismatch,
    Slot,
    count_below,
    mask,
    residue,
)
from tegula.check.proof.regions import regions_of_changes, regions_of_counts
from tegula.check.proof.state import State, Stuck
from tegula.check.proof.steps import (
    Count,
    Rates,
    assigned,
    before,
    branched,
    by_remainder,
    carried,
    constant,
    constant_trip,
    counting,
    decreases,
    groups,
    guarded,
    in_branches,
    is_flag,
    is_loop_varying,
    issued,
    items,
    nested,
    selected,
    tested,
)
from tegula.check.proof.terms import Sum, choice, mod, number, range_of_type, symbols
from tegula.check.scheduled import number_type
from tegula.ir import BranchLike, ConstantLike, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.control import For, While

REFERRING = {"residue", "mask", "flag", "remainder", "threshold", "continues", "tied", "delayed"}
"""The forms that refer to another slot."""


class Forms(Labels):
    """Labels whose slots have forms, the strongest first, and the weakening of forms that an iteration does not
    preserve."""

    def _weaken(self, e: Mismatch, state: State, forms: dict[Slot, list[Form]], refused: set[Any]) -> None:
        """Weaken the forms of slots, and drop the facts, that an iteration does not preserve, according to the values
        after the iteration."""
        refused |= set(e.facts)
        for slot in e.slots:
            form, current, term = forms[slot][0], e.values.get(slot), e.label.terms.get(slot)
            if form[0] in REFERRING and not {form[1], form[2]}.isdisjoint(e.slots):
                continue  # the form refers to another slot that is not preserved either
            difference = current - term if isinstance(current, Sum) and isinstance(term, Sum) else None
            if form[0] == "line" and difference is not None and symbols(difference) <= set(state.bound):
                forms[slot][0] = (
                    ("same", form[1]) if not difference.coefficients else ("observed", form[1], difference)
                )
            elif form[0] == "class" and difference is not None and form[2] != str(difference):
                forms[slot][0] = ("class", form[1], str(difference))
            else:
                forms[slot] = forms[slot][1:] or [("unknown",)]

    def _forms_in_flight(self, slot: Slot, entry: State, later: State) -> list[Form]:
        """The forms of memory in flight that a state `later` has."""
        kind, r, _, _ = slot
        started = issued(self.program, entry.roles[r].frames[-1].region).get(kind)
        x, buffer = self._slots(entry).get(slot), self._buffer_in_flight(slot, later)
        if started is None and isinstance(x, Sum):
            return [("same", x), *IN_FLIGHT]
        is_fixed = started is not None and buffer is not None and started.get(buffer, False)
        return [("constant",), ("ghost",), ("unknown",)] if is_fixed else [*IN_FLIGHT]

    def _require_awaited_copies(self, state: State) -> None:
        """Raise Stuck unless some role has waited for each copy into a ring."""
        for ring in self.program.rings.values():
            for b, r in {(row.barrier, row.releaser[0]) for row in ring.handovers if row.releaser[1]}:
                arrived = state.roles[r].arrived.get(b, number(0))
                last = [self.machine.last_waited(state.roles[w], w, b) for w in self.program.waiters[b]]
                if ring.copying_roles and not any(state.known.nonnegative(w + 1 - arrived) for w in last):
                    raise Stuck("no role waits for a bulk copy", self.machine.op(state, r), r)

    def _has_ended(self, state: State, r: int) -> bool:
        """Whether a role at a loop head is known to begin no further iteration."""
        if self.machine.frame(state, r).at >= 0:
            return False
        c = self.machine.condition(state, r)
        return c is not None and state.known.holds(c) is False

    def _accumulates(self, label: Label, later: State, r: int) -> bool:
        """Whether an iteration leaves more bulk groups in flight than the label has, and these are more than a wait of
        the role leaves, and those that an iteration commits."""
        body = label.state.roles[r].frames[-1].region
        before, after = (len(state.roles[r].bulk_groups) for state in (label.state, later))
        events = [e for _, e in self.program.order[r]]
        most = max((e.pending for e in events if isinstance(e, E.CopiesOutDone)), default=0)
        return after > before > most + groups(self.program, body)

    def _use_constants(self, forms: dict[Slot, list[Form]], later: State) -> bool:
        """Let the slots in flight of buffers that are constants after an iteration be these constants; False if there
        are none."""
        values = self._slots(later)
        changed = [
            slot for slot, rows in forms.items() if rows[0] == ("ghost",) and self._is_private(slot, later)
        ]
        changed = [slot for slot in changed if isinstance(x := values.get(slot), Sum) and x.value is not None]
        for slot in changed:
            forms[slot] = forms[slot][1:]
        return bool(changed)

    def _use_smaller_moduli(self, forms: dict[Slot, list[Form]]) -> bool:
        """Let the slots that are residues of a ghost be residues modulo a smaller number, if there are such forms."""
        smaller = {
            slot: [row for row in rows if row[0] != "residue" or row[2] < rows[0][2]]
            for slot, rows in forms.items()
            if rows[0][0] == "residue"
        }
        smaller = {slot: rows for slot, rows in smaller.items() if rows[0][0] == "residue"}
        forms |= smaller
        return bool(smaller)

    def _guesses(self, state: State, group: list[int], moving: bool) -> dict[Slot, Sum | None]:
        """The increment of each slot per iteration, estimated from the loop's body; None if the increment depends on
        branches or inner loops. `moving`: roles at the heads of other loops execute iterations concurrently."""
        out: dict[Slot, Sum | None] = {}
        self.ties, self.leaders, self.branched = {}, {}, self._branched(state, group)
        trip = self._trip_or_none if moving else self._constant_trip
        for r, depth in (
            *((r, len(state.roles[r].frames) - 1) for r in group),
            *self._followers(state, group),
        ):
            frame = state.roles[r].frames[depth]
            out |= {
                ("value", r, k, v): None
                for k in range(depth, len(state.roles[r].frames))
                for v in state.roles[r].frames[k].values
            }
            loop = frame.region.parent
            assert isinstance(loop, For | While)
            self.machine.state, self.machine.role = state, r
            known_counts, varying_counts = items(self.program, loop.body, trip)
            out |= {
                (kind, r, b): None if (kind, b) in varying_counts else n * self._items_of_event(kind, r, b)
                for (kind, b), n in known_counts.items()
            }
            out |= {(kind, r, b): None for kind, b in varying_counts}
            for k, v in enumerate(loop.arguments):
                n, counter = carried(loop, k, trip, lambda v, body=loop.body: self._constant_value(v, body))
                out["value", r, depth, v] = n
                if counter:
                    out["counter", v] = number(1)
            if isinstance(loop, For):
                self.machine.state, self.machine.role = state, r
                out["value", r, depth, loop.index] = self.machine.value(loop.step)
            for count, test in guarded(self.program, loop.body).items() if frame.iteration else ():
                slot = (count[0], r, count[1])
                if test.pred not in ("gt", "ge", "ne") or before(test.a, loop.body) not in loop.body.args:
                    continue  # a fact of this iteration may be false in later ones
                self.machine.state, self.machine.role = state, r
                c = self.machine.value(test.result)
                if slot in out and out[slot] is None and c is not None and state.known.holds(c) is True:
                    out[slot] = number(1)
        heads = [r for r in range(len(state.roles)) if self.machine.frame(state, r).at < 0]
        others = [r for r in heads if moving and r not in group]
        while moved := {r for r in others if self._count_with_others(state, r, out)}:
            others = [r for r in others if r not in moved]  # roles at their barriers may move with them
        for k, (n, *_) in enumerate(self._unread_contents(state)):
            handovers = self.program.rings[self.program.values[n]].handovers
            ghosts = [
                ("arrived", row.releaser[0], row.barrier)
                for row in handovers
                if row.releaser in self.program.writers[n]
            ]
            increment = next((out[ghost] for ghost in ghosts if ghost in out), number(0))
            out |= {("content", n, k, "item"): increment}
            if increment != number(0):
                out["content", n, k, "number"] = None
        return out

    def _items_of_event(self, kind: str, r: int, b: int) -> int:
        """The number of items by which an arrival or a wait goes on: more than one if waits pass over items."""
        passed, passed_before = self.machine.passed.get((b, r), (0, 0)) if kind == "waited" else (0, 0)
        return 1 + passed if passed == passed_before else 1

    def _heads(self, state: State, group: list[int]) -> tuple[Any, ...]:
        """The loops of a group, and the positions of the other roles that are not at loop heads."""
        others = [
            (r, f.region, f.at)
            for r, role in enumerate(state.roles)
            if r not in group and (f := role.frames[-1]).at >= 0
        ]
        return (*(state.roles[r].frames[-1].region for r in group), *others)

    def _followers(self, state: State, group: list[int]) -> list[tuple[int, int]]:
        """The roles outside a group that stand in the body of a loop and execute one iteration of it in each iteration
        of the group, each with the depth of its loop."""
        later = self.states_after_iteration.get(self._heads(state, group))
        if later is None:
            return []
        rows = [(r, innermost_loop(state.roles[r])) for r in positions_in_loops(state, group)]
        return [
            (r, depth)
            for r, depth in rows
            if position(state, r) == position(later, r)
            and later.roles[r].frames[depth].iteration == state.roles[r].frames[depth].iteration + 1
        ]

    def _branched(self, state: State, group: list[int]) -> set[Slot]:
        """The slots of barriers all of whose ghosts change only in branches. These slots form classes separate from
        the slots that inner loops change."""
        out, unbranched_barriers = set[Slot](), set[int]()
        for r, role in enumerate(state.roles):
            ghosts = [("arrived", b) for b in role.arrived] + [("waited", b) for b in role.waited]
            loop, depth = role.frames[-1].region.parent, len(role.frames) - 1
            iterates = r in group or role.frames[-1].at < 0
            branches_of_role = branched(self.program, role.frames[-1].region) if iterates else set[Count]()
            unbranched_barriers |= {b for kind, b in ghosts if (kind, b) not in branches_of_role}
            out |= {(kind, r, b) for kind, b in ghosts if (kind, b) in branches_of_role}
            if iterates and isinstance(loop, For | While):
                arguments = enumerate(loop.arguments)
                out |= {("value", r, depth, v) for k, v in arguments if in_branches(loop, k)}
        return {slot for slot in out if unbranched_barriers.isdisjoint(self._barriers(slot))}

    def _barriers(self, slot: Slot) -> list[int]:
        """The barriers of a slot: the barrier whose items a ghost counts, or the barriers at which a carried number
        selects a stage or parity; else those whose items the role counts in the same regions."""
        if slot[0] != "value":
            return [slot[2]]
        selected = [hint.barrier for hint in self.program.hints.get(slot[3], [])]
        return selected or [b for _, b in self._counts_alike(slot)]

    def _counts_alike(self, slot: Slot) -> set[Count]:
        """The counts of a role that change in the same regions as a number that a loop carries."""
        loop = getattr(slot[3].owner, "parent", None) if slot[0] == "value" else None
        if not isinstance(loop, For | While) or slot[3] not in loop.arguments:
            return set()
        regions = regions_of_changes(self.program, loop, slot[3])
        counts = regions_of_counts(self.program, loop.body)
        return {count for count, at in counts.items() if at == regions}

    def _constant_value(self, v: Value, body: Region) -> Sum | None:
        """The number that a value of the current role has in all iterations of a loop; None if the body computes the
        value."""
        if (n := constant(v)) is not None:
            return n
        at = v.owner.parent if isinstance(v.owner, Op) else v.owner
        while at is not None and at is not body:
            at = at.parent.parent if at.parent is not None else None
        known_value = self.machine.value(v) if at is None else None
        return known_value if isinstance(known_value, Sum) else None

    def _trip(self, loop: For) -> Sum | None:
        """The trip count of the loop that a role is about to enter, or of a loop nested in it, if the count is equal in
        all iterations and contains no symbol of a label; None otherwise, and for steps other than 1."""
        if any(
            is_loop_varying(v, self.machine.frame(self.machine.state, self.machine.role).region)
            for v in loop.bounds
        ):
            return None
        start, stop, step = (self.machine.value(v) for v in loop.bounds)
        if (
            not isinstance(start, Sum)
            or not isinstance(stop, Sum)
            or not isinstance(step, Sum)
            or step.value != 1
        ):
            return None
        trip = stop - start
        return trip if not symbols(trip) and self.machine.state.known.nonnegative(trip) else None

    def _constant_trip(self, loop: For) -> Sum | None:
        """The trip count of a loop with constant bounds, or of one that is known to have no iteration."""
        return number(0) if self._is_empty(loop) else constant_trip(loop)

    def _step(self, state: State, r: int) -> Sum | None:
        """The step of the loop at whose head a role is; None if it has no index, or the step is unknown."""
        loop = state.roles[r].frames[-1].region.parent
        self.machine.state, self.machine.role = state, r
        step = self.machine.value(loop.step) if isinstance(loop, For) else None
        return step if isinstance(step, Sum) else None

    def _trip_or_none(self, loop: For) -> Sum | None:
        return number(0) if self._is_empty(loop) else self._trip(loop)

    def _is_empty(self, loop: For) -> bool:
        """Whether all executions of a loop, in the loop at whose head a role is, are known to have no iteration."""
        state, r = self.machine.state, self.machine.role
        frame = state.roles[r].frames[innermost_loop(state.roles[r])]
        if any(is_loop_varying(v, frame.region) for v in loop.bounds):
            return False
        start, stop, step = (self.machine.value(v) for v in loop.bounds)
        numbers = isinstance(start, Sum) and isinstance(stop, Sum) and isinstance(step, Sum)
        return numbers and step.value == 1 and state.known.nonnegative(start - stop)

    def _rates(self, state: State, r: int) -> dict[tuple[str, int], Sum]:
        """The number of unconditional arrivals and waits, by barrier, in an iteration of the loop at whose head a role
        is."""
        self.machine.state, self.machine.role = state, r
        known_counts, varying_counts = items(self.program, state.roles[r].frames[-1].region, self._trip)
        return {count: n for count, n in known_counts.items() if count not in varying_counts}

    def _count_with_others(self, state: State, r: int, out: dict[Slot, Sum | None]) -> bool:
        """Candidates for a role before a loop: the number of its iterations equals the number of arrivals or waits of
        other roles at its barriers; False if none of these moves."""
        frames = state.roles[r].frames
        loop, depth = frames[-1].region.parent, len(frames) - 1
        assert isinstance(loop, For | While)
        self.machine.state, self.machine.role = state, r
        known_counts, varying_counts = items(self.program, loop.body, self._trip)
        single_steps = {b for (_, b), n in known_counts.items() if n.value == 1}
        counts = [
            n for slot, n in out.items() if slot[0] in ("arrived", "waited") and slot[2] in single_steps
        ]
        if not counts:
            return False
        iterations = next((n for n in counts if n is not None), None)
        leading_ghost = next(((kind, r, b) for (kind, b), n in known_counts.items() if n.value == 1), None)
        out |= {
            (kind, r, b): None if iterations is None else n * iterations
            for (kind, b), n in known_counts.items()
        }
        out |= {(kind, r, b): None for kind, b in varying_counts}
        for k, v in enumerate(loop.arguments):
            n, counter = carried(loop, k, self._trip)
            if n is not None and not n.coefficients:
                out["value", r, depth, v] = n
                continue
            out["value", r, depth, v] = None if n is None or iterations is None else n * iterations
            if counter:
                out["counter", v] = number(1)
            if iterations is None and n is not None and leading_ghost is not None:
                self.ties["value", r, depth, v] = leading_ghost, n
        step = self.machine.value(loop.step) if isinstance(loop, For) else None
        if iterations is None and (leader := self._late_arrivals(state, r, known_counts)) is not None:
            self.leaders |= {(kind, r, b): (leader, n) for (kind, b), n in known_counts.items()}
            if isinstance(loop, For) and isinstance(step, Sum):
                self.leaders["value", r, depth, loop.index] = leader, step
        if isinstance(loop, For):
            increment = step * iterations if isinstance(step, Sum) and iterations is not None else None
            out["value", r, depth, loop.index] = increment
            if iterations is None and isinstance(step, Sum) and leading_ghost is not None:
                self.ties["value", r, depth, loop.index] = leading_ghost, step
        return True

    def _late_arrivals(self, state: State, r: int, rates: Rates) -> Slot | None:
        """The arrivals of another role at a loop head that begin at some item, for each of which a role executes one
        iteration, with these numbers of waits; None if there are none."""
        for kind, b in rates:
            for q in self.program.arrivers[b] - {r} if kind == "waited" and rates[kind, b].value == 1 else ():
                frame = state.roles[q].frames[-1]
                test = tested(self.program, frame.region).get(("arrived", b)) if frame.at < 0 else None
                if test is not None and not by_remainder(test):
                    return "arrived", q, b
        return None

    def _forms(
        self,
        slot: Slot,
        x: Any,
        guess: dict[Slot, Sum | None],
        state: State,
        limited: bool,
        tied: bool,
    ) -> list[Form]:
        """The forms that a slot may have at the loop head, the strongest first. `limited`: whether the label assumes a
        condition; `tied`: whether counters change with ghosts."""
        forms = self._forms_of_text(slot, x, guess, state, limited, tied)
        if slot not in self.leaders or not isinstance(x, Sum):
            return forms
        ghost, n = self.leaders[slot]
        return [("tied", x, ghost, self._slots(state)[ghost], n), *forms]

    def _forms_of_text(
        self,
        slot: Slot,
        x: Any,
        guess: dict[Slot, Sum | None],
        state: State,
        limited: bool,
        tied: bool,
    ) -> list[Form]:
        step = guess.get(slot, number(0))
        if slot in self.ties and isinstance(x, Sum) and self.ties[slot][1].value not in (0, 1):
            ghost, n = self.ties[slot]
            return [("tied", x, ghost, self._slots(state)[ghost], n), ("class", x, ""), ("unknown",)]
        if slot[0] in ("matmul", "copy"):
            return self._forms_in_flight(slot, state, state)
        if not isinstance(x, Sum):
            same: list[Form] = [("same", x)] if x is not None else []
            term: list[Form] = [("term", x)] if isinstance(x, tuple) and symbols(x) else []
            continues = self._continuation(slot, state) if slot[0] == "value" else []
            if x is not None and step is None:
                residues = self._residues(slot, choice(x, number(1), number(0)), state, guess)
                continues += [("flag", *form[1:]) for form in residues if form[5]]
            return [*continues, *(term if step is None else []), *same, *term, ("unknown",)]
        if step is not None and not step.coefficients:
            out: list[Form] = [("same", x)]
        else:
            is_same = limited or (x.value is not None and self._is_flag(slot))
            out = [("line", x, step)] if step is not None else [("same", x)] if is_same else []
        hints = self.program.hints.get(slot[3], []) if slot[0] == "value" else []
        index = slot[0] == "value" and self._is_index(slot[3])
        alike = self._counts_alike(slot)

        def is_unlike(ghost: Slot) -> bool:
            return (ghost[0], ghost[2]) not in alike

        if slot[0] == "value" and not index and (step is None or step.coefficients):
            remainders = self._remainders(slot, x, state)
            own = cycle(self.program, slot[3])
            rate = number(1) if own is not None and own.in_each_iteration else step
            out = [
                *sorted(
                    remainders,
                    key=lambda form: (
                        guess.get(form[1], number(0)) == number(0),
                        guess.get(form[1]) != rate,
                        is_unlike(form[1]),
                    ),
                ),
                *out,
            ]
        if slot[0] in ("arrived", "waited") and step is None:
            thresholds = self._threshold_forms(slot, x, guess, state)
            out = [
                *thresholds,
                *self._delayed_forms(slot, x, guess, state),
                *_carried_extreme(x),
                *self._forms_of_equal_increment(slot, x, guess),
                *out,
            ]
        class_form = ("class", x, "branched" if slot in self.branched else "")
        counter = slot[0] == "value" and ("counter", slot[3]) in guess
        if slot[0] == "value" and step is None and not (hints or counter or index):
            out = [("cyclic", x, n) for n in self.program.periods.get(slot[3], ())] + out
        if (
            slot[0] == "value"
            and step is None
            and not hints
            and (u := self._assigned(slot, state)) is not None
        ):
            out = [("previous", u), *out]
        if hints and counter and not index and (step is None or step.coefficients):
            descends = slot[3] in slot[3].owner.parent.arguments and decreases(slot[3].owner.parent, slot[3])
            ties = self._tied_to_ghosts(slot, state, guess) if tied or descends else []
            tied_forms: list[Form] = [("tied", x, *tie) for tie in ties]
            return [*tied_forms, *out, class_form, *self._residues(slot, x, state, guess), ("unknown",)]
        if hints and not index and (step is None or step.coefficients):
            remainders = self._residues(slot, x, state, guess)
            own_ghosts = {
                ("waited" if h.waits else "arrived", h.barrier) for h in self.program.uses.get(slot[3], ())
            }
            ranked = sorted(
                remainders,
                key=lambda form: (
                    is_unlike(form[1]),
                    (form[1][0], form[1][2]) not in own_ghosts,
                    guess.get(form[1], number(0)) is None,
                ),
            )
            return [*self._masks(slot, x, state), *ranked, *out, class_form, ("unknown",)]
        last = ("unknown",) if slot[0] == "value" else ("class", x, str(slot))
        return [*out, class_form, last]

    def _is_flag(self, slot: Slot) -> bool:
        """Whether a slot is a carried number that iterations set to constants or leave unchanged."""
        loop = getattr(slot[3].owner, "parent", None) if slot[0] == "value" else None
        return isinstance(loop, For | While) and slot[3] in loop.arguments and is_flag(loop, slot[3])

    def _continuation(self, slot: Slot, state: State) -> list[Form]:
        """The form of a bool that says whether a counted loop with a `break` has another iteration: the index is on one
        side of the end."""
        _, r, depth, argument = slot
        loop = getattr(argument.owner, "parent", None)
        bounds = counting(loop, argument) if isinstance(loop, While) and argument in loop.arguments else None
        if bounds is None:
            return []
        index, end, ascends = bounds
        self.machine.state, self.machine.role = state, r
        stop = self.machine.value(end)
        return [("continues", ("value", r, depth, index), stop, ascends)] if isinstance(stop, Sum) else []

    def _tied_to_ghosts(
        self, slot: Slot, state: State, guess: dict[Slot, Sum | None]
    ) -> list[tuple[Slot, Sum, Sum]]:
        """The ghosts of barriers whose stages or parities a counter selects, if the increments of both depend on
        branches or inner loops: each with its value and the counter's increment per increment of the ghost."""
        if slot[0] != "value" or ("counter", slot[3]) not in guess or guess.get(slot, 0) is not None:
            return []
        rows, loop = self._slots(state), slot[3].owner.parent
        sign = -1 if slot[3] in loop.arguments and decreases(loop, slot[3]) else 1
        ghosts = dict.fromkeys(
            ("waited" if hint.waits else "arrived", slot[1], hint.barrier)
            for hint in self.program.hints.get(slot[3], ())
        )
        branch = loop.body.yielded[loop.arguments.index(slot[3])].owner if slot[3] in loop.arguments else None
        conditions = selected(self.program, loop.body)
        in_branch = {
            g: isinstance(branch, BranchLike) and conditions.get((g[0], g[2])) in branch.operands
            for g in ghosts
        }
        return [
            (ghost, n, number(sign))
            for ghost in sorted(ghosts, key=lambda g: not in_branch[g])
            if isinstance(n := rows.get(ghost), Sum) and ghost in guess and guess[ghost] is None
        ]

    def _forms_of_equal_increment(self, slot: Slot, x: Sum, guess: dict[Slot, Sum | None]) -> list[Form]:
        """Forms by which a ghost that changes in branches has the increment per iteration of another ghost of the same
        barrier, whose increment is known."""
        increments = [
            n
            for g, n in guess.items()
            if g[0] in ("arrived", "waited") and g[2] == slot[2] and n is not None and n.coefficients
        ]
        return [("line", x, n) for n in dict.fromkeys(increments)]

    def _threshold_forms(self, slot: Slot, x: Sum, guess: dict[Slot, Sum | None], state: State) -> list[Form]:
        """The forms of a count that is incremented once per iteration, from a certain item on, or up to a certain
        item."""
        kind, r, b = slot
        frame = state.roles[r].frames[-1]
        test = tested(self.program, frame.region).get((kind, b)) if frame.at < 0 else None
        if test is None or by_remainder(test):
            return []
        k, first = self._value_at_start(test.a, state, r), before(test.a, frame.region)
        self.machine.state, self.machine.role = state, r
        bound = self.machine.value(test.b)
        if not isinstance(k, Sum) or not isinstance(bound, Sum):
            return []
        pred = test.pred
        if pred in ("ne", "eq") and state.known.nonnegative(k - bound):  # the count increases from here on
            pred = "gt" if pred == "ne" else "le"
        if pred not in ("lt", "le", "gt", "ge"):
            return []
        end = bound + 1 if pred in ("le", "gt") else bound
        rows = self._slots(state)
        exact = ("value", r, len(state.roles[r].frames) - 1, first)
        is_guarded = (kind, b) in guarded(self.program, frame.region)
        others: list[Slot] = [exact] if exact in guess and is_guarded else []
        if not others or (kind, b) in nested(self.program, frame.region):
            ghosts = (("waited", state.roles[r].waited), ("arrived", state.roles[r].arrived))
            forms = [(kind, r, b) for kind, known in ghosts for b in known]
            forms = [ghost for ghost in forms if ghost != slot and (others or test.pred not in ("eq", "ne"))]
            regions = regions_of_counts(self.program, frame.region)
            around = frozenset(
                region.parent.parent for region in regions[kind, b] if region.parent is not None
            )

            def is_around(ghost: Slot) -> bool:
                return regions.get((ghost[0], ghost[2])) == around

            def rank(ghost: Slot) -> tuple[bool, bool, bool]:
                is_as_branched = (ghost in self.branched) == (slot in self.branched)
                return guess.get(ghost) is not None, not is_around(ghost), not is_as_branched

            forms = forms if is_guarded else [ghost for ghost in forms if is_around(ghost)]
            others = [*sorted(forms, key=rank), *others]
        out: list[Form] = []
        for other in others if not isinstance(test.a.owner, ConstantLike) else ():
            y = rows.get(other)
            if isinstance(y, Sum) and other in guess and (other == exact or (k - y).value is not None):
                out.append(("threshold", x - count_below(pred, k, end), other, k - y, pred, end, test.a))
        return out

    def _delayed_forms(self, slot: Slot, x: Sum, guess: dict[Slot, Sum | None], state: State) -> list[Form]:
        """The forms of a count that is incremented at the end of iterations before others in which the role waits: the
        number of these waits, plus one if the condition of the increment held in the previous iteration."""
        kind, r, b = slot
        frame = state.roles[r].frames[-1]
        conditions = selected(self.program, frame.region) if frame.at < 0 else {}
        condition = conditions.get((kind, b))
        if condition is None or (kind, b) in guarded(self.program, frame.region) or not frame.iteration:
            return []
        self.machine.state, self.machine.role = state, r
        if self.machine.value(condition) is None:
            return []
        rows = self._slots(state)
        waits = [
            ("waited", r, c) for k, c in conditions if k == "waited" and conditions[k, c] is not condition
        ]
        differences = [(y, (x - rows[y]).value) for y in waits if y in guess]
        return [("delayed", y, d - k, condition) for y, d in differences if d is not None for k in (1, 0)]

    def _assigned(self, slot: Slot, state: State) -> Value | None:
        """The value that a branch of the loop at whose head a role is assigns to a carried number."""
        _, r, depth, v = slot
        frames = state.roles[r].frames
        loop = frames[-1].region.parent
        is_carried = depth == len(frames) - 1 and frames[-1].at < 0 and isinstance(loop, For | While)
        if not is_carried or v not in loop.arguments or not frames[-1].iteration:
            return None
        return assigned(loop, loop.arguments.index(v))

    def _is_conditional_count(self, slot: Slot, state: State) -> bool:
        """Whether a count is incremented only where a comparison other than == and != holds."""
        kind, r, b = slot
        frame = state.roles[r].frames[-1]
        test = guarded(self.program, frame.region).get((kind, b)) if frame.at < 0 else None
        return test is not None and test.pred not in ("eq", "ne")

    def _is_index(self, v: Value) -> bool:
        region = v.owner
        loop = getattr(region, "parent", None)
        return isinstance(loop, For) and v is loop.index

    def _residues(self, slot: Slot, x: Sum, state: State, guess: dict[Slot, Sum | None]) -> list[Form]:
        """Forms by which a carried value is the stage or parity of a ghost: of the ghost of the barrier where the value
        is used, or, if the increment of this ghost depends on branches, of any ghost of a barrier with the same number
        of stages that changes in the same regions as the value, or has a known increment."""
        if slot[0] != "value":
            return []
        r, out = slot[1], dict[Form, None]()
        role = state.roles[r]
        loop = getattr(slot[3].owner, "parent", None)
        descends = isinstance(loop, For | While) and slot[3] in loop.arguments and decreases(loop, slot[3])
        ghosts = {("waited", r, b): w for b, w in role.waited.items()}
        ghosts |= {("arrived", r, b): a for b, a in role.arrived.items()}
        hints, alike = self.program.hints.get(slot[3], []), self._counts_alike(slot)
        selects_both = len({hint.parity for hint in hints}) > 1
        for hint in hints:
            stages = self.program.stages[hint.barrier]
            own_count = ("waited" if hint.waits else "arrived", r, hint.barrier)
            is_conditional = self._is_conditional_count(own_count, state)
            similar_ghosts = [
                g
                for g in ghosts
                if self.program.stages[g[2]] == stages
                and (is_conditional or guess.get(g, 0) is not None or (g[0], g[2]) in alike)
            ]
            for ghost in [
                own_count,
                *(similar_ghosts if is_conditional or guess.get(own_count, 0) is None else ()),
            ]:
                # a residue modulo twice the stages, which selects the stage and the parity, comes first
                moduli = (2 * stages, stages) if selects_both and not hint.parity else (stages,)
                for modulus in moduli if ghost in ghosts else ():
                    out |= dict.fromkeys(
                        self._residues_of(ghost, ghosts[ghost], x, modulus, hint.parity, descends, state)
                    )
        return sorted(out, key=lambda form: -form[2]) if selects_both else [*out]

    def _masks(self, slot: Slot, x: Sum, state: State) -> list[Form]:
        """Forms by which the bits of a carried value are the parities of the stages of a barrier: of the ghost of the
        barrier where the value is used, or of one that changes in the same regions as the value."""
        if slot[0] != "value" or slot[3] not in self.program.masks:
            return []
        out, role, r = list[Form](), state.roles[slot[1]], slot[1]
        counts = {"waited": role.waited, "arrived": role.arrived}
        alike = sorted(self._counts_alike(slot))
        for hint in self.program.hints.get(slot[3], []):
            stages = self.program.stages[hint.barrier]
            own_count = "waited" if hint.waits else "arrived", hint.barrier
            others = [count for count in alike if self.program.stages[count[1]] == stages]
            for kind, b in dict.fromkeys((own_count, *others)) if hint.parity and stages <= 16 else ():
                if (n := counts[kind].get(b)) is None:
                    continue
                known = mask(n, stages, 0)
                initial = [0, (1 << stages) - 1]
                if x.value is not None and known.value is not None:
                    initial = [x.value ^ known.value]
                out += [
                    ("mask", (kind, r, b), stages, k)
                    for k in initial
                    if 0 <= k < 1 << stages and state.known.equal(x, mask(n, stages, k))
                ]
        return out

    def _residues_of(
        self, ghost: Slot, n: Sum, x: Sum, stages: int, parity: bool, descends: bool, state: State
    ) -> list[Form]:
        descends = descends and not parity
        forms = [(stages, d, e, parity, descends) for d in range(stages) for e in range(2 if parity else 1)]
        residues = [residue(n, *form) for form in forms]
        matching = [form for form, y in zip(forms, residues, strict=True) if y == x]
        if not matching and x.value is None:
            matching = [form for form, y in zip(forms, residues, strict=True) if state.known.equal(x, y)]
        return [("residue", ghost, *form) for form in matching]

    def _remainders(self, slot: Slot, x: Sum, state: State) -> list[Form]:
        """Forms by which a carried number is a ghost plus a constant, or a constant minus a ghost, and begins again at
        the end of a range: that of a narrow type, or the cycle that its loop computes."""
        t, r = number_type(slot[3]), slot[1]
        if t is None or not t.is_int:
            return []
        low, high = range_of_type(t)
        cycles = [Cycle(low, high - low + 1, True, False)] if t.bits <= 16 else []
        if (own := cycle(self.program, slot[3])) is not None:
            cycles.insert(0, own)
        out: list[Form] = []
        for low, size, ascends, _ in cycles:
            y = x - low if ascends else number(low + size - 1) - x
            (a,) = y.atoms() if len(y.atoms()) == 1 else (None,)
            unwrapped = a.subterms[0] if a is not None and y == Sum({(a,): 1}) and a.kind == "mod" else y
            for kind in ("waited", "arrived"):
                for b, ghost in getattr(state.roles[r], kind).items():
                    d = mod(unwrapped - ghost, size).value
                    if d is not None and y == mod(ghost + d, size):
                        out.append(("remainder", (kind, r, b), d, low, size, ascends))
        return out


def _carried_extreme(x: Sum) -> list[Form]:
    """The form of a minimum or maximum of two carried numbers that an iteration preserves."""
    is_preserved = any(a.kind in ("min", "max") and symbols(a.subterms) for a in x.atoms())
    return [("term", x)] if is_preserved else []
