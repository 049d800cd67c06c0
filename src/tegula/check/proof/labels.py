"""Labels of proofs: states with symbols at the heads of loops, as loop invariants describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tegula.check.proof.known import STRIP
from tegula.check.proof.machine import Machine
from tegula.check.proof.program import Program
from tegula.check.proof.state import Role, State, Stuck
from tegula.check.proof.steps import counted, guarded
from tegula.check.proof.terms import (
    Atom,
    Condition,
    Sum,
    atom,
    disjunction,
    div,
    divided,
    extreme,
    ge,
    mod,
    negation,
    number,
    period,
    replaced,
    symbols,
)
from tegula.dataclass import dataclass
from tegula.ir import Value
from tegula.ops.control import For, While

Tree: TypeAlias = list[Any]
Leaf: TypeAlias = Callable[[State], Tree]
Slot: TypeAlias = tuple[Any, ...]
"""One part of a state that a label describes: ("held", role, depth, value), ("arrived" or "waited", role, barrier),
("flight" or "copy", role, index from the last, index of the memory), ("content", ring, index, "item" or "number")."""
Form: TypeAlias = tuple[Any, ...]
"""The form of a slot at a label: ("same", value), ("line" or "once", value at the start, increment per iteration),
("class", value at the start, key of the slots that move alike), ("residue", ghost, stages, offset, offset of the
parity, whether a parity), ("remainder", ghost, offset, least number, size), ("late", ...) (see `count_below`), ("tied",
value at the start, ghost, the ghost's value at the start, increment each time that the ghost goes up), ("told",
condition), ("ghost",), ("unknown",)."""
MAX_ITEMS = 2**31 - 1 - 4096
"""The largest number of items that a barrier counts: a premise."""


@dataclass(slots=True)
class Label:
    """A state with symbols, at the heads of the loops of `roles`. `terms`: the term of each slot; `count`: the symbol
    that counts iterations; `classes`: the other symbols, each with a slot and the difference between slot and
    symbol."""

    index: int
    roles: list[int]
    state: State
    terms: dict[Slot, Any]
    count: Sum
    classes: dict[Atom, tuple[Slot, Sum]]
    symbols: list[Atom]
    facts: dict[Any, Condition]
    limit: Condition = True
    beyond: Leaf | None = None
    state_before: Sequence[Atom] = ()


Limit: TypeAlias = tuple[Condition, dict[Atom, Slot], Label]
"""A condition on the symbols of a label, the slots that these symbols stand for, and the label."""


class Mismatch(Exception):
    """An iteration does not preserve some slots or facts of a label."""

    def __init__(
        self,
        label: Label,
        slots: Sequence[Slot],
        facts: Sequence[Any],
        found_values: dict[Slot, Any],
        later: State | None = None,
    ) -> None:
        super().__init__()
        self.later = later
        self.values = found_values
        self.label, self.slots, self.facts = label, list(slots), list(facts)


class Labels:
    """The labels of a proof under construction."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.labels: list[dict[str, Any]] = []
        self.symbol_count = 0
        self.ties: dict[Slot, tuple[Slot, Sum]] = {}
        self.branched: set[Slot] = set()
        """The slots that only branches change, in the loops of the current group."""

    def _slots(self, state: State) -> dict[Slot, Any]:
        out: dict[Slot, Any] = {}
        for r, role in enumerate(state.roles):
            for depth, frame in enumerate(role.frames):
                out |= {("held", r, depth, v): x for v, x in frame.values.items() if v in self.program.needed}
            out |= {("arrived", r, b): x for b, x in role.arrived.items()}
            out |= {("waited", r, b): x for b, x in role.waited.items()}
            for kind, rows in (("flight", [p for _, p, _ in role.pending_copies]), ("copy", role.copies)):
                for k, in_flight in enumerate(reversed(rows)):
                    out |= {(kind, r, k, j): x for j, (_, x) in enumerate(in_flight) if isinstance(x, Sum)}
        for k, (n, item, x) in enumerate(self._unread(state)):
            out |= {("content", n, k, "item"): item, ("content", n, k, "number"): x}
        return out

    def _unread(self, state: State) -> list[tuple[int, Sum, Any]]:
        """The known contents of stages for which some role has not waited yet."""
        out: list[tuple[int, Sum, Any]] = []
        for n, item, x in state.contents:
            for row in self.program.rings[self.program.values[n]].rows:
                r, shift = row.taker[0], self.machine.shift(self.program.values[n], row)
                last = self.machine.last(state.roles[r], r, row.barrier) if not row.own else item
                if row.taker not in self.program.writers[n] and not state.known.nonnegative(
                    last - item - shift
                ):
                    out.append((n, item, x))
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
    ) -> Label:
        terms: dict[Slot, Any] = {}
        classes: dict[Atom, tuple[Slot, Sum]] = {}
        known: list[tuple[Sum, Sum, Slot, str]] = []
        for slot, rows in forms.items():
            form = rows[0]
            if form[0] in ("same", "line", "once"):
                terms[slot] = form[1] if form[0] == "same" else form[1] + count * form[2]
            elif form[0] == "class":
                near = next(
                    (k for k in known if (form[1] - k[1]).value is not None and k[3] == form[2]), None
                )
                if near is None:
                    self.symbol_count += 1
                    variable = atom("sym", f"x{self.symbol_count}")
                    symbol = next(iter(variable.atoms()))
                    classes[symbol] = (slot, number(0))
                    near = (variable, form[1], slot, form[2])
                    known.append(near)
                terms[slot] = near[0] + (form[1] - near[1])
        for slot, rows in forms.items():
            if rows[0][0] == "late" and rows[0][2] in terms:
                _, x, other, more, pred, end, _ = rows[0]
                terms[slot] = x + count_below(pred, terms[other] + more, end)
            if rows[0][0] == "tied" and rows[0][2] in terms:
                _, x, other, start, n = rows[0]
                terms[slot] = x + (terms[other] - start) * n
        for slot, rows in forms.items():
            form = rows[0]
            if form[0] == "residue":
                _, ghost, stages, d, e, parity = form
                if ghost in terms:
                    of = terms[ghost] + d
                    terms[slot] = mod(div(of, stages) + e, 2) if parity else mod(of, stages)
            elif form[0] == "remainder":
                _, ghost, d, low, period = form
                if ghost in terms:
                    terms[slot] = mod(terms[ghost] + (d - low), period) + low
            elif form[0] == "ghost":
                near = (self._near_ghost(slot, seen, terms) for seen in (later, state))
                neighbour = next((x for x in near if x is not None), None)
                if neighbour is not None:
                    terms[slot] = neighbour
        entered = {
            next(iter(forms[slot][0][1].parts)): Sum({(a,): 1})
            for a, (slot, _) in classes.items()
            if len(forms[slot][0][1].parts) == 1 and symbols(forms[slot][0][1])
        }
        lines = {slot: rows[0][1] for slot, rows in forms.items() if rows[0][0] == "line"}
        moved = entered | {next(iter(x.parts)): terms[slot] for slot, x in lines.items() if _is_monomial(x)}
        for slot, rows in forms.items():
            if rows[0][0] == "told":
                terms[slot] = replaced(rows[0][1], moved)
        facts: dict[Any, Condition] = {("path", c): c for c in state.known.assumed if c is not True}
        facts |= {("range", c): c for a in state.bound for c in _range_facts(a)}
        facts |= {
            ("told", c): replaced(c, moved)
            for c in state.known.assumed
            if c and c is not True and c[0] == "or"
        }
        facts |= {key: c for key, c in _crossings(forms, terms)}
        facts["count",] = ge(count)
        for symbol, (slot, _) in classes.items():
            facts["class", slot] = ge(Sum({(symbol,): 1}) - forms[slot][0][1])
        ghosts = [slot for slot in forms if slot[0] != "held" and slot[0] != "content" and slot not in terms]
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
            label.limit = replaced(c, substitution | {next(iter(other.count.parts)): count})
            facts["limit",] = label.limit
            refused = refused - {("limit",)}
        label.state_before = state.bound
        label.facts = {key: c for key, c in facts.items() if key not in refused and c is not True}
        label.symbols = [*state.bound, *count.atoms(), *classes]
        label.state = State(shape.roles, state.known.empty_copy(), list(label.symbols), shape.contents)
        for c in label.facts.values():
            label.state.known.assume(c)
        for role in label.state.roles:
            for p in {*role.arrived.values(), *role.waited.values()}:
                if any(len(m) > 1 for m in p.parts):
                    continue
                label.state.known.assume(ge(number(MAX_ITEMS) - p))
        for key, c in self._strip_facts(label, forms).items():
            if key not in refused and c is not True and c not in label.facts.values():
                label.facts[key] = c
                label.state.known.assume(c)
        label.index = len(self.labels)
        self.labels.append({})
        return label

    def _strip_facts(self, label: Label, forms: dict[Slot, list[Form]]) -> dict[Any, Condition]:
        """The facts about counts that are incremented in every n-th iteration, selected by a remainder: bounds on the
        count by the quotient of the iteration by n."""
        out: dict[Any, Condition] = {}
        for r in label.roles:
            frames = label.state.roles[r].frames
            loop = frames[-1].region.parent
            assert isinstance(loop, For | While)
            tests = [((n[0], r, n[1]), test) for n, test in guarded(self.program, loop.body).items()]
            tests += [(("held", r, len(frames) - 1, v), test) for v, test in counted(loop)]
            for slot, test in tests:
                self.machine.state, self.machine.role = label.state, r
                c = self.machine.value(test.result)
                form = forms[slot][0] if slot in forms else None
                has_class = form is not None and form[0] == "class" and c is not None
                stripped = _strip(c, label) if has_class else None
                if stripped is None or form is None:
                    continue
                base, n, k, opposite = stripped
                now = base + (n - 1 - k)
                done = label.terms[slot] - form[1]
                if opposite:
                    done = label.count - done
                done += div(replaced(now, {next(iter(label.count.parts)): number(0)}), n)
                out["strip", slot, 0] = ge(now - done * n)
                out["strip", slot, 1] = ge(done * n + (n - 1) - now)
        return out

    def _condition_before(self, shape: State, r: int, label: Label) -> Condition | None:
        """The loop's condition in the previous iteration, which shows that a counted loop stops exactly at its end."""
        c = self.machine.condition(shape, r)
        if c is None or isinstance(c, bool):
            return None
        before = replaced(c, {next(iter(label.count.parts)): label.count - 1})
        return None if before == c else before

    def _near_ghost(self, slot: Slot, later: State, terms: dict[Slot, Any]) -> Sum | None:
        """The term of an item in flight, as its distance from an item that the role has waited for; None where the
        distance is not known."""
        kind, r, k, j = slot
        role = later.roles[r]
        rows = [*reversed(role.copies if kind == "copy" else [p for _, p, _ in role.pending_copies])]
        if k >= len(rows) or j >= len(rows[k]):
            return None
        in_flight = rows[k]
        stages = self.program.slots(self.program.values[in_flight[j][0]])
        if self.program.values[in_flight[j][0]] not in self.program.rings:
            return self._slot_in_flight(slot, stages, later, terms)
        x = self._slots(later).get(slot)
        near = self.program.rings[self.program.values[in_flight[j][0]]].stages
        if not isinstance(x, Sum):
            return None
        waits = [(terms["waited", r, b], w) for b, w in role.waited.items() if ("waited", r, b) in terms]
        for term, w in waits:
            if (d := (x - w).value) is not None:
                return term + d
        for term, w in waits:
            d = next((d for d in range(-near, 1) if later.known.equal(x, w + d)), None)
            if d is not None:
                return term + d
        return None

    def _slot_in_flight(self, slot: Slot, stages: int, later: State, terms: dict[Slot, Any]) -> Sum | None:
        """The term of a buffer's slot in flight, as a residue of a number of the role: of items that it has waited for,
        or a value that it holds."""
        now = self._slots(later)
        x = now.get(slot)
        near = [key for key in terms if key[0] in ("waited", "held") and key[1] == slot[1]]
        for key in sorted(near, key=lambda key: key[0] == "held"):
            term, w = terms[key], now.get(key)
            if not (isinstance(x, Sum) and isinstance(term, Sum) and isinstance(w, Sum)):
                continue
            for d in range(stages):
                if later.known.equal(x, mod(w + d, stages)):
                    return mod(term + d, stages)
        return None

    def _shape(self, entry: State, later: State, terms: dict[Slot, Any]) -> State:
        """The state at the loop head, with the terms of a label; the matmuls and copies in flight are those after an
        iteration."""
        widened = entry.copy()
        widened.outer = {}
        matched = [
            (n, terms.get(("content", n, k, "item")), terms.get(("content", n, k, "number")))
            for k, (n, _, _) in enumerate(self._unread(entry))
        ]
        widened.contents = [(n, item, x) for n, item, x in matched if item is not None and x is not None]
        for r, (role, other) in enumerate(zip(widened.roles, later.roles, strict=True)):
            for depth, frame in enumerate(role.frames):
                frame.derived = {}
                frame.values = {v: terms.get(("held", r, depth, v)) for v in frame.values}
            role.arrived = {b: terms.get(("arrived", r, b)) for b in role.arrived}  # type: ignore[misc]
            role.waited = {b: terms.get(("waited", r, b)) for b in role.waited}  # type: ignore[misc]
            more, less = (
                (other, role) if len(other.pending_copies) >= len(role.pending_copies) else (role, other)
            )
            in_flight = _matched_in_flight(more, less)
            role.pending_copies = [
                (
                    n,
                    [
                        (m, terms.get(("flight", r, k, j)) if isinstance(x, Sum) else x)
                        for j, (m, x) in enumerate(frames)
                    ],
                    v,
                )
                for k, (n, frames, v) in _from_last(more.pending_copies)
            ]
            role.in_flight, role.matmuls = in_flight, max(role.matmuls, other.matmuls)
            more = other if len(other.copies) >= len(role.copies) else role
            role.copies = [
                [
                    (m, terms.get(("copy", r, k, j)) if isinstance(x, Sum) else x)
                    for j, (m, x) in enumerate(frames)
                ]
                for k, frames in _from_last(more.copies)
            ]
            role.dirty = role.dirty | other.dirty
            role.unknown = role.unknown | other.unknown
            role.unsynchronised = {
                k: max(role.unsynchronised.get(k, 0), other.unsynchronised.get(k, 0))
                for k in {*role.unsynchronised, *other.unsynchronised}
            }
            role.loose, role.ahead = role.loose or other.loose, role.ahead or other.ahead
            role.fresh = set()
        return widened


def _matched_in_flight(more: Role, less: Role) -> dict[Value, int]:
    """The tiles that matmuls in flight work on in one of two states of a role, by the matmuls of the state with more of
    them; the last ones of both correspond."""
    last = [n for n, _, _ in more.pending_copies[len(more.pending_copies) - len(less.pending_copies) :]]
    by = dict(zip((n for n, _, _ in less.pending_copies), last, strict=True))
    own_numbers = {n for n, _, _ in more.pending_copies}
    return {v: by[n] for v, n in less.in_flight.items() if n in by} | {
        v: n for v, n in more.in_flight.items() if n in own_numbers
    }


def _crossings(forms: dict[Slot, list[Form]], terms: dict[Slot, Any]) -> Iterator[tuple[Any, Condition]]:
    """Facts for each count that is incremented after a tested number, described by another slot, has passed a bound:
    the number and the slot pass the bound in the same iteration."""
    for slot, rows in forms.items():
        if rows[0][0] == "late" and rows[0][2] != rows[0][6]:
            _, _, other, more, pred, end, exact = rows[0]
            k, y = terms.get(exact), terms.get(other)
            if isinstance(k, Sum) and isinstance(y, Sum) and pred[0] == "g":
                own_condition, slot_condition = ge(k - end), ge(y + more - end)
                yield ("crossed", slot, 0), disjunction(negation(own_condition), slot_condition)
                yield ("crossed", slot, 1), disjunction(own_condition, negation(slot_condition))


def _is_monomial(x: Sum) -> bool:
    return [*x.parts.values()] == [1] and x.value is None


def _range_facts(a: Atom) -> list[Condition]:
    """The bounds of a symbol by the range of its type, as conditions."""
    low, high = a.limits
    s = Sum({(a,): 1})
    return [ge(s - low), ge(number(high) - s)] if isinstance(low, int) and isinstance(high, int) else []


def _strip(c: Condition, label: Label) -> tuple[Sum, int, int, bool] | None:
    """A number that is incremented by one per iteration, a divisor n, the only remainder by n for which a condition has
    one truth value, and whether this value is False; None if there is no such number."""
    t = next(iter(label.count.parts))
    for base in dict.fromkeys(divided(c)):
        n = period(c, base)
        if base.parts.get(t) != 1 or not 1 < n <= STRIP:
            continue
        h = atom("sym", "h")
        known = type(label.state.known)(label.state.known)
        stripped = [known.holds(replaced(c, {t: h * n + k - (base - label.count)}), False) for k in range(n)]
        for side in (True, False):
            if None not in stripped and stripped.count(side) == 1:
                return base, n, stripped.index(side), not side
    return None


def count_below(pred: str, k: Sum, end: Sum) -> Sum:
    """The number of values below `k` that are on one side of `end`."""
    return extreme("max", number(0), k - end) if pred[0] == "g" else extreme("min", k, end)


def is_covered(role: Role, expected: Role) -> bool:
    """Whether all that a role has in flight, unfenced or unsynchronised is also listed in the label's state
    `expected`."""
    flights = [len(frames) for _, frames, _ in role.pending_copies]
    copies = [len(frames) for frames in role.copies]
    return (
        flights
        == [len(p) for _, p, _ in expected.pending_copies][len(expected.pending_copies) - len(flights) :]
        and copies == [len(p) for p in expected.copies][len(expected.copies) - len(copies) :]
        and len(role.uncommitted) == len(expected.uncommitted)
        and len(role.pending_copies) <= len(expected.pending_copies)
        and len(role.copies) <= len(expected.copies)
        and role.dirty <= expected.dirty
        and role.unknown <= expected.unknown
        and all(level <= expected.unsynchronised.get(k, 0) for k, level in role.unsynchronised.items())
        and role.loose <= expected.loose
        and role.ahead <= expected.ahead
    )


def _from_last(rows: list[Any]) -> list[tuple[int, Any]]:
    """Rows in order, each with its index from the last, which has index 0."""
    return [(len(rows) - 1 - k, row) for k, row in enumerate(rows)]
