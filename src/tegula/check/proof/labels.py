"""Labels of proofs: states with symbols at the heads of loops, as loop invariants describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tegula.check.proof.known import MAX_PERIOD_OF_FACTS, Known
from tegula.check.proof.machine import Machine
from tegula.check.proof.program import Program
from tegula.check.proof.state import Role, State, Stuck
from tegula.check.proof.steps import counted, guarded, inner_loops
from tegula.check.proof.terms import (
    Atom,
    Condition,
    Sum,
    atom,
    choice,
    disjunction,
    div,
    divided,
    eq,
    extreme,
    ge,
    inside,
    mod,
    negation,
    number,
    of_launch,
    period,
    range_of_type,
    replaced,
    symbols,
)
from tegula.check.scheduled import number_type
from tegula.dataclass import dataclass
from tegula.ir import Value
from tegula.ops.control import For, While

Tree: TypeAlias = list[Any]
Leaf: TypeAlias = Callable[[State], Tree]
Slot: TypeAlias = tuple[Any, ...]
"""One part of a state that a label describes: ("value", role, depth, value), ("arrived" or "waited", role, barrier),
("matmul" or "copy", role, index from the last, index of the memory), ("content", ring, index, "item" or "number")."""
Form: TypeAlias = tuple[Any, ...]
"""The form of a slot at a label: ("same", value); ("line", value at the start, increment per iteration by the loop's
body), or "observed" with the increment of an executed iteration; ("class", value at the start, key of the slots that
change alike); ("cyclic", value at the start, period), a count of its own modulo a period; ("residue", ghost, ...), see
`residue`; ("remainder",
ghost, offset, minimum, size,
whether it ascends); ("mask", ghost, stages, initial), see `mask`; ("flag", ghost,
...), that a residue is 1; ("threshold", ...), see `count_below`; ("continues", index of
a counted loop, its end, whether it ascends); ("tied", value at the start, ghost, the ghost's
value at the start, increment per increment of the ghost); ("delayed", other ghost, difference, condition), where one
is added if a condition held in the previous iteration; ("previous", value), what a value was in the previous iteration;
("term", term); of memory in flight ("ghost",), an item or slot that a count selects, or ("constant",); ("unknown",)."""
IN_FLIGHT: list[Form] = [("ghost",), ("constant",), ("unknown",)]
"""The forms of memory in flight, strongest first."""
MAX_ITEMS = 2**31 - 1 - 4096
"""The maximum number of items that a barrier counts: a premise."""


@dataclass(slots=True)
class Label:
    """A state with symbols, at the heads of the loops of `roles`. `terms`: the term of each slot; `count`: the symbol
    that counts iterations; `classes`: the other symbols, each with a slot, and the period if the slot's number is the
    symbol modulo a period, else 0;
    `limit`: a condition that the label assumes; `after_loops`: the proof of states that violate it; `symbols_before`:
    the symbols of the path that reaches the label; `has_exits`: some iterations are known to be the last ones."""

    index: int
    roles: list[int]
    state: State
    terms: dict[Slot, Any]
    count: Sum
    classes: dict[Atom, tuple[Slot, int]]
    symbols: list[Atom]
    facts: dict[Any, Condition]
    limit: Condition = True
    after_loops: Leaf | None = None
    symbols_before: Sequence[Atom] = ()
    has_exits: bool = False


def residue(n: Sum, period: int, d: int, e: int, parity: bool, descends: bool) -> Sum:
    """The stage of an item n + d in a ring of `period` stages, counted from the last stage if `descends`; or the parity
    of the item's phase plus e."""
    stage = mod(div(n + d, period) + e, 2) if parity else mod(n + d, period)
    return number(period - 1) - stage if descends else stage


def unwound(x: Any, period: int) -> Any:
    """A number whose residue modulo a period is x, or x itself if the period is 0; None if no such number is known."""
    if not period or x is None:
        return x
    if not isinstance(x, Sum) or x.value is not None:
        return x if isinstance(x, Sum) and 0 <= (x.value or 0) < period else None
    for a in x.atoms():
        if a.kind == "mod" and a.subterms[1] == period:
            if x == Sum({(a,): 1}):
                return a.subterms[0]
            if x == Sum({(): 1, (a,): -1}) and period == 2:
                return a.subterms[0] + 1
    return None


def mask(n: Sum, stages: int, initial: int) -> Sum:
    """The number whose bit s is the parity of the next phase of stage s after n items, plus bit s of `initial`."""
    out = number(0)
    for s in range(stages):
        out += mod(div(n + (stages - 1 - s), stages) + (initial >> s & 1), 2) * (1 << s)
    return out


Limit: TypeAlias = tuple[Condition, dict[Atom, Slot], Label]
"""A condition on the symbols of a label, the slots that these symbols represent, and the label."""


class Mismatch(Exception):
    """An iteration does not preserve some slots or facts of a label. `values`: the values of slots after the iteration;
    `later`: a state with more operations in flight than the label's."""

    def __init__(
        self,
        label: Label,
        slots: Sequence[Slot],
        facts: Sequence[Any],
        values: dict[Slot, Any],
        later: State | None = None,
    ) -> None:
        super().__init__()
        self.later = later
        self.values = values
        self.label, self.slots, self.facts = label, list(slots), list(facts)


class Labels:
    """The labels of a proof under construction."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.labels: list[dict[str, Any]] = []
        self.symbol_count = 0
        self.ties: dict[Slot, tuple[Slot, Sum]] = {}
        self.leaders: dict[Slot, tuple[Slot, Sum]] = {}
        """By slot of a role that follows the arrivals of another one: these, and the slot's increment per arrival."""
        self.states_after_iteration: dict[Any, State] = {}
        """The state after one iteration of a group, by `Forms._heads`."""
        self.branched: set[Slot] = set()
        """The slots that change only in branches, in the loops of the current group."""

    def _slots(self, state: State) -> dict[Slot, Any]:
        out: dict[Slot, Any] = {}
        for r, role in enumerate(state.roles):
            for depth, frame in enumerate(role.frames):
                out |= {
                    ("value", r, depth, v): x for v, x in frame.values.items() if v in self.program.needed
                }
            out |= {("arrived", r, b): x for b, x in role.arrived.items()}
            out |= {("waited", r, b): x for b, x in role.waited.items()}
            for kind, rows in (
                ("matmul", [p for _, p, _ in role.pending_matmuls]),
                ("copy", role.bulk_groups),
            ):
                for k, in_flight in enumerate(reversed(rows)):
                    out |= {(kind, r, k, j): x for j, (_, x) in enumerate(in_flight) if isinstance(x, Sum)}
        for k, (n, item, _, x) in enumerate(self._unread_contents(state)):
            out |= {("content", n, k, "item"): item, ("content", n, k, "number"): x}
        return out

    def _unread_contents(self, state: State) -> list[tuple[int, Sum, int, Any]]:
        """The known contents of stages for which some role has not waited yet."""
        out: list[tuple[int, Sum, int, Any]] = []
        for n, item, element, x in state.contents:
            for row in self.program.rings[self.program.values[n]].handovers:
                r, shift = row.acquirer[0], self.machine.item_shift(self.program.values[n], row)
                shift += self.machine.delay(row)
                last = (
                    self.machine.last_waited(state.roles[r], r, row.waited_barrier) if not row.own else item
                )
                if row.acquirer not in self.program.writers[n] and not state.known.nonnegative(
                    row.last_of(last, shift) - item
                ):
                    out.append((n, item, element, x))
                    break
        return out

    def _label(
        self,
        state: State,
        later: State,
        group: list[int],
        forms: dict[Slot, list[Form]],
        count: Sum,
        refused: set[Any],
        limit: Limit | None,
        continues: bool = False,
    ) -> Label:
        terms, classes = self._terms_of_classes(forms)
        for slot, rows in forms.items():
            form = rows[0]
            if form[0] in ("same", "line", "observed"):
                terms[slot] = form[1] if form[0] == "same" else form[1] + count * form[2]
        for slot, rows in forms.items():
            if rows[0][0] == "threshold" and rows[0][2] in terms:
                _, x, other, difference, pred, end, _ = rows[0]
                terms[slot] = x + count_below(pred, terms[other] + difference, end)
        for slot, rows in forms.items():
            if rows[0][0] == "previous":
                terms[slot] = self._in_previous_iteration(rows[0][1], slot[1], state, later, terms, count)
        for slot, rows in forms.items():
            if rows[0][0] == "delayed" and rows[0][1] in terms:
                _, other, n, condition = rows[0]
                c = self._in_previous_iteration(condition, slot[1], state, later, terms, count)
                if c is not None:
                    terms[slot] = terms[other] + n + choice(c, number(1), number(0))
        for slot, rows in forms.items():
            if rows[0][0] == "tied" and rows[0][2] in terms:
                _, x, other, start, n = rows[0]
                terms[slot] = x + (terms[other] - start) * n
        for slot, rows in forms.items():
            form = rows[0]
            if form[0] == "residue":
                _, ghost, *rest = form
                if ghost in terms:
                    terms[slot] = residue(terms[ghost], *rest)
            elif form[0] == "flag" and form[1] in terms:
                terms[slot] = eq(residue(terms[form[1]], *form[2:]) - 1)
            elif form[0] == "mask" and form[1] in terms:
                terms[slot] = mask(terms[form[1]], *form[2:])
            elif form[0] == "remainder":
                _, ghost, d, low, period, ascends = form
                if ghost in terms:
                    remainder = mod(terms[ghost] + d, period)
                    terms[slot] = remainder + low if ascends else number(low + period - 1) - remainder
            elif form[0] == "ghost":
                candidates = (self._term_in_flight(slot, source, terms, state) for source in (later, state))
                term = next((x for x in candidates if x is not None), None)
                if term is not None:
                    terms[slot] = term
            elif form[0] == "constant":
                numbers = (self._slots(source).get(slot) for source in (later, state))
                x = next((x for x in numbers if isinstance(x, Sum)), None)
                if x is not None and x.value is not None:
                    terms[slot] = x
            elif form[0] == "continues" and isinstance(index := terms.get(form[1]), Sum):
                terms[slot] = ge((form[2] - index if form[3] else index - form[2]) - 1)
        class_symbols = {
            next(iter(forms[slot][0][1].coefficients)): Sum({(a,): 1})
            for a, (slot, period) in classes.items()
            if not period and len(forms[slot][0][1].coefficients) == 1 and symbols(forms[slot][0][1])
        }
        lines = {slot: rows[0][1] for slot, rows in forms.items() if rows[0][0] == "line"}
        substitution_at_head = class_symbols | {
            next(iter(x.coefficients)): terms[slot] for slot, x in lines.items() if _is_monomial(x)
        }
        for slot, rows in forms.items():
            if rows[0][0] == "term":
                terms[slot] = replaced(rows[0][1], substitution_at_head)
        facts: dict[Any, Condition] = {("path", c): c for c in state.known.assumed if c is not True}
        facts |= {("range", c): c for a in state.bound for c in _range_facts(a)}
        facts |= {
            ("disjunction", c): replaced(c, substitution_at_head)
            for c in state.known.assumed
            if c and c is not True and c[0] == "or"
        }
        facts["count",] = ge(count)
        bounded = set[Sum]()
        for symbol, (slot, _) in classes.items():
            facts["class", slot] = ge(Sum({(symbol,): 1}) - forms[slot][0][1])
        for slot, rows in forms.items():
            if rows[0][0] == "class" and slot[0] == "value" and (x := terms[slot]).rest not in bounded:
                low, high = range_of_type(number_type(slot[3]))
                facts |= {("low", slot): ge(x - low), ("high", slot): ge(number(high) - x)}
                bounded.add(x.rest)
        rows_later = self._slots(later) if self.branched else {}
        for symbol, (slot, _) in classes.items():
            after_first = rows_later.get(slot) if slot in self.branched else None
            if isinstance(after_first, Sum) and ((after_first - forms[slot][0][1]).value or 0) > 0:
                # what the first iteration has incremented
                facts["first", slot] = disjunction(ge(-count), ge(Sum({(symbol,): 1}) - after_first))
        ghosts = [slot for slot in forms if slot[0] != "value" and slot[0] != "content" and slot not in terms]
        if ghosts:
            raise Stuck("the progress of roles is unknown", self.machine.op(state, group[0]), group[0])
        label = Label(0, group, state, terms, count, classes, [], {})
        shape = self._shape(state, later, terms)
        before = self._condition_before(shape, group[0], label)
        if before is not None:
            facts["before",] = before
        if limit is not None:
            c, slots, other = limit
            substitution = {(a,): terms[slot] for a, slot in slots.items() if slot in terms}
            label.limit = replaced(c, substitution | {next(iter(other.count.coefficients)): count})
        elif continues or isinstance(self.machine.op(state, group[0]), While):
            c = self.machine.condition(shape, group[0])
            label.limit = True if c is None or isinstance(c, bool) else c
        if label.limit is not True:
            facts["limit",] = label.limit
            refused = refused - {("limit",)}
        label.symbols_before = state.bound
        label.facts = {key: c for key, c in facts.items() if key not in refused and c is not True}
        label.symbols = [*state.bound, *count.atoms(), *classes]
        keeps_path = refused.isdisjoint(("path", c) for c in state.known.assumed)
        known = Known(state.known) if keeps_path else state.known.empty_copy()
        label.state = State(shape.roles, known, list(label.symbols), shape.contents)
        for key, c in label.facts.items():
            if key[0] != "path" or not keeps_path:
                known.assume(c)
        for role in label.state.roles:
            for p in {*role.arrived.values(), *role.waited.values()}:
                label.state.known.assume(ge(number(MAX_ITEMS) - p))
        for key, c in (*self._crossings(label, forms), *self._strip_facts(label, forms).items()):
            if key not in refused and c is not True and c not in label.facts.values():
                label.facts[key] = c
                label.state.known.assume(c)
        label.index = len(self.labels)
        self.labels.append({})
        return label

    def _in_previous_iteration(
        self, v: Value, r: int, state: State, later: State, terms: dict[Slot, Any], count: Sum
    ) -> Any:
        """The term that a value of a loop's body had in the previous iteration, from the terms of a label; None if the
        prover does not model it."""
        shape = self._shape(state, later, terms)
        shape.assume(ge(count))
        continues = self.machine.condition(shape, r)
        if continues is not None:
            shape.assume(continues)
        self.machine.state, self.machine.role = shape, r
        x = self.machine.value(v)
        return None if x is None else replaced(x, {next(iter(count.coefficients)): count - 1})

    def _terms_of_classes(
        self, forms: dict[Slot, list[Form]]
    ) -> tuple[dict[Slot, Any], dict[Atom, tuple[Slot, int]]]:
        """The terms of the slots that change alike, and of those with counts modulo a period; and the symbols in these
        terms. Slots of one class start at numbers whose difference depends on the launch alone; the symbol of a class
        is the number of a slot that starts at a constant, if there is one."""
        terms: dict[Slot, Any] = {}
        classes: dict[Atom, tuple[Slot, int]] = {}
        members = {slot: rows[0] for slot, rows in forms.items() if rows[0][0] == "class"}
        for slot, rows in forms.items():
            form = rows[0]
            if form[0] not in ("class", "cyclic") or slot in terms:
                continue
            self.symbol_count += 1
            variable = atom("sym", f"x{self.symbol_count}")
            (symbol,) = variable.atoms()
            if form[0] == "cyclic":
                classes[symbol], terms[slot] = (slot, form[2]), mod(variable, form[2])
                continue
            alike = [k for k, m in members.items() if m[2] == form[2] and _is_fixed(m[1] - form[1])]
            first = next((k for k in alike if members[k][1].value is not None), slot)
            classes[symbol] = first, 0
            terms |= {k: variable + (members[k][1] - members[first][1]) for k in alike}
        return terms, classes

    def _value_at_start(self, v: Value, state: State, r: int) -> Any:
        """The value that a role at a loop head computes in the first iterations of the loops inside the loop."""
        body = state.roles[r].frames[-1].region
        loops, state = inner_loops(v, body), state.copy()
        self.machine.state, self.machine.role = state, r
        values = state.roles[r].frames[-1].values
        for loop in loops:
            if isinstance(loop, For):
                values[loop.index] = self.machine.value(loop.start)
            for argument, initial in zip(loop.arguments, loop.initial, strict=True):
                values[argument] = self.machine.value(initial)
        return self.machine.value(v)

    def _crossings(self, label: Label, forms: dict[Slot, list[Form]]) -> Iterator[tuple[Any, Condition]]:
        """Facts about counts that change once a tested number passes a bound, where another slot describes the number:
        the number and the slot pass the bound in the same iteration."""
        for slot, rows in forms.items():
            if rows[0][0] == "threshold" and isinstance(y := label.terms.get(rows[0][2]), Sum):
                _, _, _, difference, pred, end, tested = rows[0]
                k = self._value_at_start(tested, label.state, slot[1])
                if isinstance(k, Sum) and k != y + difference and pred[0] == "g":
                    own_condition, slot_condition = ge(k - end), ge(y + difference - end)
                    yield ("crossed", slot, 0), disjunction(negation(own_condition), slot_condition)
                    yield ("crossed", slot, 1), disjunction(own_condition, negation(slot_condition))

    def _strip_facts(self, label: Label, forms: dict[Slot, list[Form]]) -> dict[Any, Condition]:
        """The facts about counts that are incremented in every n-th iteration, selected by a remainder: bounds on the
        count by the quotient of the iteration by n."""
        out: dict[Any, Condition] = {}
        for r in label.roles:
            frames = label.state.roles[r].frames
            loop = frames[-1].region.parent
            assert isinstance(loop, For | While)
            tests = [((n[0], r, n[1]), test) for n, test in guarded(self.program, loop.body).items()]
            tests += [(("value", r, len(frames) - 1, v), test) for v, test in counted(loop)]
            for slot, test in tests:
                self.machine.state, self.machine.role = label.state, r
                c = self.machine.value(test.result)
                form = forms[slot][0] if slot in forms else None
                has_class = form is not None and form[0] == "class" and c is not None
                stripped = _strip(c, label) if has_class else None
                if stripped is None or form is None:
                    continue
                base, n, k, opposite = stripped
                position = base + (n - 1 - k)
                increments = label.terms[slot] - form[1]
                if opposite:
                    increments = label.count - increments
                increments += div(replaced(position, {next(iter(label.count.coefficients)): number(0)}), n)
                out["strip", slot, 0] = ge(position - increments * n)
                out["strip", slot, 1] = ge(increments * n + (n - 1) - position)
        return out

    def _matches(self, state: State, value: Any, term: Any) -> bool:
        """Whether a value is known to be equal to the term of a label."""
        if value is None or term is None:
            return term is None
        term = state.known.normalised(term)
        if isinstance(term, Sum) or isinstance(value, Sum):
            both = isinstance(term, Sum) and isinstance(value, Sum)
            return value == term or (both and state.known.equal(value, term))
        numbers = (choice(c, number(1), number(0)) for c in (value, term))
        return value == term or state.known.equal(*numbers)

    def _condition_before(self, shape: State, r: int, label: Label) -> Condition | None:
        """The loop's condition in the previous iteration: it implies that a loop with a counter stops at its end."""
        c = self.machine.condition(shape, r)
        if c is None or isinstance(c, bool):
            return None
        before = replaced(c, {next(iter(label.count.coefficients)): label.count - 1})
        return None if before == c else before

    def _term_in_flight(self, slot: Slot, later: State, terms: dict[Slot, Any], entry: State) -> Sum | None:
        """The term of an item in flight, as an item that the role has waited for plus a constant; None where no such
        constant is known."""
        buffer, r = self._buffer_in_flight(slot, later), slot[1]
        if buffer is None:
            return None
        role = later.roles[r]
        if buffer not in self.program.rings:
            return self._slot_term_in_flight(slot, self.program.slots(buffer), (later, entry), terms)
        x = self._slots(later).get(slot)
        ring_stages = self.program.rings[buffer].stages
        if not isinstance(x, Sum):
            return None
        waits = [(terms["waited", r, b], w) for b, w in role.waited.items() if ("waited", r, b) in terms]
        for term, w in waits:
            if (d := (x - w).value) is not None:
                return term + d
        for term, w in waits:
            d = next((d for d in range(-ring_stages, 1) if later.known.equal(x, w + d)), None)
            if d is not None:
                return term + d
        return None

    def _buffer_in_flight(self, slot: Slot, state: State) -> Value | None:
        """The buffer that a matmul or bulk store in flight reads; None if a state does not have it."""
        kind, r, k, j = slot
        role = state.roles[r]
        rows = [*reversed(role.bulk_groups if kind == "copy" else [p for _, p, _ in role.pending_matmuls])]
        return self.program.values[rows[k][j][0]] if k < len(rows) and j < len(rows[k]) else None

    def _is_private(self, slot: Slot, state: State) -> bool:
        """Whether a matmul or bulk store in flight reads a buffer that is no ring."""
        buffer = self._buffer_in_flight(slot, state)
        return buffer is not None and buffer not in self.program.rings

    def _slot_term_in_flight(
        self, slot: Slot, stages: int, states: Sequence[State], terms: dict[Slot, Any]
    ) -> Sum | None:
        """The term of a buffer's slot in flight in all of `states` that have it, as a residue of a value of the role
        that selects slots, of inner loops first, of the number of items that it has waited for, or of another value."""
        rows = [(state.known, values) for state in states if slot in (values := self._slots(state))]
        candidates = [key for key in terms if key[0] in ("waited", "value") and key[1] == slot[1]]

        def rank(key: Slot) -> tuple[bool, bool, int]:
            is_value = key[0] == "value"
            return not (is_value and key[3] in self.program.periods), is_value, -key[2] if is_value else 0

        for key in sorted(candidates, key=rank):
            if not isinstance(terms[key], Sum) or not all(
                isinstance(values.get(key), Sum) for _, values in rows
            ):
                continue
            for d in range(stages):
                if all(known.equal(values[slot], mod(values[key] + d, stages)) for known, values in rows):
                    return mod(terms[key] + d, stages)
        return None

    def _shape(self, entry: State, later: State, terms: dict[Slot, Any]) -> State:
        """The state at the loop head, with the terms of a label, and with the matmuls and bulk stores that are in
        flight after an iteration."""
        widened = entry.copy()
        widened.outer = {}
        matched = [
            (n, terms.get(("content", n, k, "item")), element, terms.get(("content", n, k, "number")))
            for k, (n, _, element, _) in enumerate(self._unread_contents(entry))
        ]
        widened.contents = [
            (n, item, element, x) for n, item, element, x in matched if item is not None and x is not None
        ]
        for r, (role, other) in enumerate(zip(widened.roles, later.roles, strict=True)):
            for depth, frame in enumerate(role.frames):
                frame.derived = {}
                frame.values = {v: terms.get(("value", r, depth, v)) for v in frame.values}
            role.arrived = {b: terms.get(("arrived", r, b)) for b in role.arrived}  # type: ignore[misc]
            role.waited = {b: terms.get(("waited", r, b)) for b in role.waited}  # type: ignore[misc]
            more, less = (
                (other, role) if len(other.pending_matmuls) >= len(role.pending_matmuls) else (role, other)
            )
            in_flight = _matched_in_flight(more, less)
            role.pending_matmuls = [
                (
                    n,
                    [
                        (m, terms.get(("matmul", r, k, j)) if isinstance(x, Sum) else x)
                        for j, (m, x) in enumerate(frames)
                    ],
                    v,
                )
                for k, (n, frames, v) in _from_last(more.pending_matmuls)
            ]
            role.in_flight, role.issued_matmuls = in_flight, max(role.issued_matmuls, other.issued_matmuls)
            more = other if len(other.bulk_groups) >= len(role.bulk_groups) else role
            role.bulk_groups = [
                [
                    (m, terms.get(("copy", r, k, j)) if isinstance(x, Sum) else x)
                    for j, (m, x) in enumerate(frames)
                ]
                for k, frames in _from_last(more.bulk_groups)
            ]
            role.unfenced = role.unfenced | other.unfenced
            role.issuer_only_reads = role.issuer_only_reads | other.issuer_only_reads
            role.unsynchronised = {
                k: max(role.unsynchronised.get(k, 0), other.unsynchronised.get(k, 0))
                for k in {*role.unsynchronised, *other.unsynchronised}
            }
            role.warps_unordered, role.one_warp_ahead = (
                role.warps_unordered or other.warps_unordered,
                role.one_warp_ahead or other.one_warp_ahead,
            )
            role.repeatable_waits = set()
        return widened


def _matched_in_flight(more: Role, less: Role) -> dict[Value, int]:
    """The tiles on which matmuls in flight work in one of two states of a role, each with the number of its matmul in
    the state with more matmuls. The last matmuls of both states correspond to each other."""
    last = [n for n, _, _ in more.pending_matmuls[len(more.pending_matmuls) - len(less.pending_matmuls) :]]
    number_in_more = dict(zip((n for n, _, _ in less.pending_matmuls), last, strict=True))
    own_numbers = {n for n, _, _ in more.pending_matmuls}
    return {v: number_in_more[n] for v, n in less.in_flight.items() if n in number_in_more} | {
        v: n for v, n in more.in_flight.items() if n in own_numbers
    }


def _is_fixed(x: Sum) -> bool:
    """Whether a number depends on parameters and shapes alone."""
    return of_launch(x) and not symbols(x)


def _is_monomial(x: Sum) -> bool:
    return [*x.coefficients.values()] == [1] and x.value is None


def _range_facts(a: Atom) -> list[Condition]:
    """The bounds of a symbol by the range of its type, as conditions."""
    low, high = a.limits
    s = Sum({(a,): 1})
    return [ge(s - low), ge(number(high) - s)] if isinstance(low, int) and isinstance(high, int) else []


def _strip(c: Condition, label: Label) -> tuple[Sum, int, int, bool] | None:
    """A number that is incremented by one per iteration, a divisor n, the only remainder by n for which a condition has
    one truth value, and whether this value is False; None if there is no such number."""
    t = next(iter(label.count.coefficients))
    for base in dict.fromkeys(divided(c)):
        n = period(c, base)
        if base.coefficients.get(t) != 1 or not 1 < n <= MAX_PERIOD_OF_FACTS:
            continue
        h = atom("sym", "h")
        known = Known(label.state.known)
        stripped = [known.holds(replaced(c, {t: h * n + k - (base - label.count)}), False) for k in range(n)]
        for truth in (True, False):
            if None not in stripped and stripped.count(truth) == 1:
                return base, n, stripped.index(truth), not truth
    return None


def quotient_equations(c: Condition, state: State) -> Iterator[Condition]:
    """Equations by which a quotient whose remainder decides a condition is near a count of the state."""
    remainders = [a for a in sorted(inside(c)) if a.kind == "mod" and symbols(a.subterms[0])]
    for a in remainders[:1]:
        q, n = a.subterms
        quotient = div(q, n)
        for symbol in state.bound:
            if symbol not in symbols(q):
                low, high = (state.known.nonnegative(quotient - Sum({(symbol,): 1}) + k) for k in (1, -2))
                if low and not high:
                    yield from (eq(quotient - Sum({(symbol,): 1}) + k) for k in (1, 0))


def count_below(pred: str, k: Sum, end: Sum) -> Sum:
    """The number of values below `k` that are on one side of `end`."""
    return extreme("max", number(0), k - end) if pred[0] == "g" else extreme("min", k, end)


def is_covered(role: Role, expected: Role) -> bool:
    """Whether all operations in flight, and all unfenced and unsynchronised memory, of a role are also in the label's
    state `expected`."""
    matmuls = [len(frames) for _, frames, _ in role.pending_matmuls]
    copies = [len(frames) for frames in role.bulk_groups]
    return (
        matmuls
        == [len(p) for _, p, _ in expected.pending_matmuls][len(expected.pending_matmuls) - len(matmuls) :]
        and copies == [len(p) for p in expected.bulk_groups][len(expected.bulk_groups) - len(copies) :]
        and len(role.uncommitted_reads) == len(expected.uncommitted_reads)
        and len(role.pending_matmuls) <= len(expected.pending_matmuls)
        and len(role.bulk_groups) <= len(expected.bulk_groups)
        and role.unfenced <= expected.unfenced
        and role.issuer_only_reads <= expected.issuer_only_reads
        and all(level <= expected.unsynchronised.get(k, 0) for k, level in role.unsynchronised.items())
        and role.warps_unordered <= expected.warps_unordered
        and role.one_warp_ahead <= expected.one_warp_ahead
    )


def _from_last(rows: list[Any]) -> list[tuple[int, Any]]:
    """Rows in order, each with its index from the last, which has index 0."""
    return [(len(rows) - 1 - k, row) for k, row in enumerate(rows)]
