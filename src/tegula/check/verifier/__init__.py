"""The verifier of certificates: decides whether a certificate proves the schedule of a lowered kernel.

The verifier replays the certificate symbolically on the emitted IR and checks every obligation of
docs/design/042-certificates.md. It does not search: a certificate with an unjustified step is rejected. The verifier
has its own terms and arithmetic and shares no code with the prover or the interpreter; it uses the IR, the ops and the
event table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.check.scheduled import COMPUTED, MAX_BOUND, computing, fingerprint
from tegula.check.verifier.arithmetic import (
    MAX_ITEMS,
    Cond,
    Facts,
    at_least,
    both,
    either,
    is_zero,
    limits_of,
    negated,
    number,
    plus,
    times,
)
from tegula.check.verifier.layout import Rejected
from tegula.check.verifier.obligations import Obligations
from tegula.check.verifier.walk import Frame, Key, Role, State
from tegula.ir import Kernel, Region, Value
from tegula.ops.control import If, Yield
from tegula.types import DTYPES

__all__ = ["Rejected", "verify"]


class Verifier(Obligations):
    """The replay of a certificate. `closed_terms`: the decoded terms without symbols, by the id of their list in the
    certificate; `symbols_read`: the number of symbols that have been decoded."""

    def __init__(self, kernel: Kernel, compilation: Any, certificate: Mapping[str, Any]) -> None:
        super().__init__(kernel, compilation, certificate)
        self.closed_terms: dict[int, Any] = {}
        self.symbols_read = 0
        self.rotations = {b: self.read(first, ()) for b, first in certificate["rotations"]}

    def verify(self) -> None:
        """Raise Rejected unless every path from the start satisfies the obligations, and each state in which a path
        reaches a label is an instance of the label."""
        start = State([], Facts(self.atoms))
        for r, region in enumerate(self.layout.roles):
            role = Role([Frame(region, 0, {})])
            for b in range(len(self.layout.barriers)):
                role.arrived |= {b: ()} if r in self.layout.arrivers[b] else {}
                role.waited |= {b: ()} if r in self.layout.waiters[b] else {}
            start.roles.append(role)
        self.state = start
        for kind, v in self.certificate["guards"]:
            self._assume_guard(kind, _nth(self.layout.values, v))
        if any(self.nonnegative(plus(number(-1), p, -1)) for p in start.facts.ge):
            self.reject("no launch satisfies the guards")
        for r in range(len(start.roles)):
            self.settle(r)
        self._replay(self.certificate["start"], True)
        for k, label in enumerate(self.certificate["labels"]):
            bound = [self.atoms.intern("sym", (k, i)) for i in range(label["symbols"])]
            facts = Facts(self.atoms)
            for c in label["facts"]:
                facts.assume(self.read(c, bound))
            roles = [self._role(row, bound) for row in label["roles"]]
            self.state = State(roles, facts, bound, self._contents(label, bound))
            items = {p for role in roles for ps in (role.arrived, role.waited) for p in ps.values()}
            for p in items:  # a premise: no barrier counts more items
                facts.assume(at_least(plus(number(MAX_ITEMS), p, -1)))
            self._replay(label["tree"], False)

    def _assume_guard(self, kind: str, v: Any) -> None:
        """Assume a guard: a condition that the host has checked for the launch, in unbounded integers."""
        facts, p = self.state.facts, self.value(v)
        if p is None or not self.layout.of_launch(v):
            self.reject("a guard is about a value that the host cannot compute")
        if kind == "assert":
            self.require(v in self.layout.asserted, "the guard is the condition of no assert of the kernel")
            self._assume_no_wrap(v)
            facts.assume(self.value(v))
        elif kind == "factor":
            facts.assume(at_least(p or ()))
        else:
            self.require(kind == "fits", "the certificate has a guard of an unknown kind")
            op, exact = v.owner, p
            if isinstance(op, COMPUTED):
                exact = self._integer(op, tuple(map(self.value, op.operands)))
            if exact is None:
                self.reject("a guard is about a value that the host cannot compute")
            facts.assume(at_least(plus(number(MAX_BOUND), exact)))
            facts.assume(at_least(plus(number(MAX_BOUND), exact, -1)))
        self._clear_values()

    def _clear_values(self) -> None:
        self.state.outer.clear()  # values are recomputed under the guards
        for f in self.state.roles[self.role].frames:
            f.env.clear()

    def _assume_no_wrap(self, v: Any) -> None:
        """Assume that no integer from which the condition of an assert is computed wraps."""
        facts = self.state.facts
        for op in computing(self.kernel, v):
            exact, (low, high) = (
                self._integer(op, tuple(map(self.value, op.operands))),
                limits_of(op.result.type),
            )
            if exact is None:
                continue
            a, b = facts.interval(exact)
            if a < low or b > high:
                facts.assume(at_least(plus(exact, number(-low))))
                facts.assume(at_least(plus(number(high), exact, -1)))
                self._clear_values()

    def _replay(self, tree: Sequence[Any], start: bool) -> None:
        for node in tree[:-1]:
            if node[0] == "know":
                c = self.read(node[1], self.state.bound)
                self.require(
                    self.state.facts.decide(c) is True,
                    "a condition that the certificate claims does not follow",
                )
                self.state.facts.assume(c)
                continue
            kind, r, n = node
            self.require(
                kind == "run" and 0 <= r < len(self.state.roles),
                "an inner node of a proof tree is of a kind other than run",
            )
            for _ in range(n):
                self.step(r)
        kind, *rest = tree[-1]
        if kind == "split":
            c = (
                self._next_condition(rest[0])
                if isinstance(rest[0], int)
                else self.read(rest[0], self.state.bound)
            )
            self.require(c is not None, "the condition may differ between threads")
            saved_state = self.state
            for fact, subtree in ((c, rest[1]), (negated(c), rest[2])):
                self.state = saved_state.copy()
                self.state.facts.assume(fact)
                self._replay(subtree, start)
        elif kind == "go":
            self.require(start or self.state.steps, "no step is executed between two labels")
            numbers = [self.read(t, self.state.bound) for t in rest[1]]
            self._check_instance(_nth(self.certificate["labels"], rest[0]), numbers)
        elif kind == "absurd":
            contradictions = (self.nonnegative(plus(number(-1), p, -1)) for p in self.state.facts.ge)
            self.require(
                any(contradictions), "a branch may take the side that the certificate does not prove"
            )
        else:
            self.require(kind == "end", "the certificate has a node of an unknown kind")
            self._check_end()

    def _next_condition(self, r: int) -> Cond:
        """The condition that the next step of a role decides."""
        self.role = r
        f = _nth(self.state.roles, r).frames[-1]
        if f.at < 0:
            return self.continues(f)
        self.op = f.region.ops[f.at]
        self.require(isinstance(self.op, If), "the role has no condition to decide at this step")
        return self.value(self.op.condition)  # type: ignore[attr-defined]

    def read(self, t: Any, bound: Sequence[Any]) -> Any:
        """A number or condition of the certificate; `bound`: the symbols in scope."""
        if isinstance(t, bool | int):
            return t if isinstance(t, bool) else number(t)
        cached = self.closed_terms.get(id(t))
        if cached is None:
            symbols_before = self.symbols_read
            cached = self._read(t, bound)
            if symbols_before == self.symbols_read:
                self.closed_terms[id(t)] = cached
        return cached

    def _read(self, t: Any, bound: Sequence[Any]) -> Any:
        kind, *args = t
        if kind == "s":
            self.symbols_read += 1
            return _nth(bound, args[0])
        if kind == "app":
            return self.atoms.intern("app", tuple(args[0]), tuple(self.read(x, bound) for x in args[1]))
        if kind in ("mod", "div"):
            self.require(isinstance(args[1], int) and args[1] > 0, "a divisor must be positive")
            return (self.atoms.mod if kind == "mod" else self.atoms.div)(self.read(args[0], bound), args[1])
        if kind == "wrap":
            return self.atoms.wrap(self.read(args[0], bound), DTYPES[args[1]].name)
        inner = [self.read(x, bound) for x in args]
        if kind in ("+", "*"):
            out = inner[0]
            for x in inner[1:]:
                out = plus(out, x) if kind == "+" else times(out, x)
            return out
        if kind in ("min", "max"):
            return self.atoms.extreme(kind, *inner)
        constructors = {
            "ge": at_least,
            "eq": is_zero,
            "not": negated,
            "and": both,
            "or": either,
            "ite": self.atoms.choose,
        }
        return ("is", *inner) if kind == "is" else constructors[kind](*inner)

    def _role(self, row: Mapping[str, Any], bound: Sequence[Any]) -> Role:
        """The state of a role, as a label describes it."""
        values, role = self.layout.values, Role([])
        for region, at, env in row["frames"]:
            terms = {_nth(values, v): self.read(t, bound) for v, t in env}
            role.frames.append(Frame(_nth(self.layout.regions, region), at, terms))
        role.arrived = {b: self.read(t, bound) for b, t in row["arrived"]}
        role.waited = {b: self.read(t, bound) for b, t in row["waited"]}
        for keys, v in row["pending_matmuls"]:
            role.issued_matmuls += 1
            operand = None if v is None else _nth(values, v)
            role.pending_matmuls.append((role.issued_matmuls, self._keys(keys, bound), operand))
        role.in_flight = {_nth(values, v): n for v, n in row["in_flight"]}
        role.uncommitted_reads = self._keys(row["uncommitted_reads"], bound)
        role.bulk_groups = [self._keys(keys, bound) for keys in row["bulk_groups"]]
        role.unfenced, role.issuer_only_reads = (
            {(n, k) for n, k in row["unfenced"]},
            {(n, k) for n, k in row["issuer_only_reads"]},
        )
        role.unsynchronised = {(n, k): level for n, k, level in row["unsynchronised"]}
        self.require(
            all(level in (1, 2) for level in role.unsynchronised.values()),
            "a label has memory with an unknown level of synchronisation",
        )
        role.warps_unordered, role.one_warp_ahead = row["warps_unordered"], row["one_warp_ahead"]
        return role

    def _keys(self, keys: Sequence[Any], bound: Sequence[Any]) -> list[Key]:
        """The memory that is read in a label, from rows [ring, "item", number] or [buffer, slot]."""
        return [(k[0], self.read(k[2], bound) if k[1] == "item" else k[1]) for k in keys]

    def _check_instance(self, label: Mapping[str, Any], bound: Sequence[Any]) -> None:
        """Check that the state is an instance of a label. `bound`: the numbers for the label's symbols."""
        self.require(
            len(bound) == label["symbols"], "a label is instantiated with too few or too many numbers"
        )
        for c in label["facts"]:
            self.require(
                self.state.facts.decide(self.read(c, bound)) is True,
                "a fact that a label assumes does not follow where the label is reached",
            )
        for n, item, element, x in self._contents(label, bound):
            numbers = (
                y
                for m, other_item, other, y in self.state.contents
                if m == n and other in (-1, element) and self.state.facts.equal(item, other_item)
            )
            self.require(
                any(self._are_equal(y, x) for y in numbers), "the contents of a stage differ from the label"
            )
        for r, (role, row) in enumerate(zip(self.state.roles, label["roles"], strict=True)):
            self.role = r
            self._check_role(role, self._role(row, bound))

    def _contents(self, label: Mapping[str, Any], bound: Sequence[Any]) -> list[tuple[int, Any, int, Any]]:
        read = self.read
        return [(n, read(item, bound), element, read(x, bound)) for n, item, element, x in label["contents"]]

    def _are_equal(self, x: Any, y: Any) -> bool:
        """Whether two numbers, or two conditions, are known to be equal; of conditions, the numbers 1 and 0 that they
        choose."""
        is_condition = [bool(z) and (z is True or isinstance(z[0], str)) or z is False for z in (x, y)]
        if all(is_condition):
            x, y = (self.atoms.choose(c, number(1), ()) for c in (x, y))
        return x == y or (all(is_condition) == any(is_condition) and self.state.facts.equal(x, y))

    def _check_role(self, role: Role, label_role: Role) -> None:
        """Check that the state of a role is an instance of its state in a label."""
        equal, message = self.state.facts.equal, "the state differs from the label"
        at = [(f.region, f.at) for f in role.frames]
        self.require(
            at == [(f.region, f.at) for f in label_role.frames] and not role.completed_events, message
        )
        for f in label_role.frames:
            for v, x in f.env.items():
                value = self.value(v)
                self.require(
                    value is not None and self._are_equal(value, x),
                    f"{v} differs from its value in the label",
                )
        for value, expected in ((role.arrived, label_role.arrived), (role.waited, label_role.waited)):
            self.require(value.keys() == expected.keys(), message)
            self.require(
                all(equal(p, expected[b]) for b, p in value.items()),
                "the phase of a barrier differs from the label",
            )
        self.require(
            not role.outstanding_bytes and not role.pending_loads,
            "bytes are outstanding where a label is reached",
        )
        regions = {f.region for f in role.frames}

        def in_scope(v: Value) -> bool:
            """Whether no region that the role has left defines a value, so that ops may use it."""
            return (v.owner if isinstance(v.owner, Region) else v.owner and v.owner.parent) in regions

        excess = len(label_role.pending_matmuls) - len(role.pending_matmuls)
        self.require(
            excess >= 0 and len(label_role.bulk_groups) >= len(role.bulk_groups),
            "more matmuls or bulk stores are in flight than in the label",
        )
        for (n, keys, operand), (m, label_keys, label_operand) in zip(
            role.pending_matmuls, label_role.pending_matmuls[excess:], strict=True
        ):
            self.require(
                operand is label_operand and self._equal_keys(keys, label_keys),
                "the matmul in flight differs from the label",
            )
            for v in (v for v, k in role.in_flight.items() if k == n and in_scope(v)):
                self.require(
                    label_role.in_flight.get(v) == m, "the label lacks a tile that a matmul in flight writes"
                )
        label_groups = label_role.bulk_groups[len(label_role.bulk_groups) - len(role.bulk_groups) :]
        pairs = [*zip(role.bulk_groups, label_groups, strict=True)]
        for keys, label_keys in (*pairs, (role.uncommitted_reads, label_role.uncommitted_reads)):
            self.require(
                self._equal_keys(keys, label_keys), "the bulk store in flight differs from the label"
            )
        is_covered = (
            role.unfenced <= label_role.unfenced
            and role.issuer_only_reads <= label_role.issuer_only_reads
            and all(level <= label_role.unsynchronised.get(k, 0) for k, level in role.unsynchronised.items())
            and role.warps_unordered <= label_role.warps_unordered
            and role.one_warp_ahead <= label_role.one_warp_ahead
        )
        self.require(is_covered, message)

    def _equal_keys(self, keys: Sequence[Key], label_keys: Sequence[Key]) -> bool:
        if len(keys) != len(label_keys):
            return False
        pairs = [(x, y) for (n, x), (m, y) in zip(keys, label_keys, strict=True) if n == m]
        equal = [
            x == y if isinstance(x, int) or isinstance(y, int) else self.state.facts.equal(x, y)
            for x, y in pairs
        ]
        return len(pairs) == len(keys) and all(equal)

    def _check_end(self) -> None:
        """Check the end of a path: all roles have ended, with no matmul, copy or byte outstanding (O8)."""
        for r, role in enumerate(self.state.roles):
            self.role, f = r, role.frames[-1]
            self.op = f.region.ops[max(f.at, 0)]
            self.require(len(role.frames) == 1 and isinstance(self.op, Yield), "a role has not ended")
            self.require(not role.pending_matmuls, "a matmul is in flight at the end of a role")
            self.require(
                not any(role.bulk_groups) and not role.uncommitted_reads,
                "a bulk store is in flight at the end of a role",
            )
            self.require(not role.outstanding_bytes, "bytes are outstanding at the end of a role")
        for ring in self.layout.rings.values():
            for b, r in {(row.barrier, row.releaser[0]) for row in ring.handovers if row.releaser[1]}:
                arrived = self.state.roles[r].arrived[b]
                waited = [self.last_waited(b, w) for w in self.layout.waiters[b]]
                is_awaited = any(self.nonnegative(plus(plus(w, arrived, -1), number(1))) for w in waited)
                self.require(is_awaited or not ring.copying_roles, "no role waits for a bulk copy")


def _nth(items: Sequence[Any], k: int) -> Any:
    """The element of a sequence at an index from a certificate; Rejected where the index is out of range."""
    if not 0 <= k < len(items):
        raise Rejected("the certificate has an index out of range")
    return items[k]


def _is_exact(x: Any) -> bool:
    """Whether a certificate contains only integers, names, and lists and dictionaries of these; half a stage, for
    example, has no meaning."""
    if isinstance(x, Mapping):
        return all(isinstance(k, str) and _is_exact(y) for k, y in x.items())
    return x is None or isinstance(x, int | str) or (isinstance(x, list) and all(map(_is_exact, x)))


def verify(kernel: Kernel, compilation: Any, certificate: Mapping[str, Any]) -> None:
    """Raise Rejected unless the certificate proves the schedule of the kernel as it is emitted."""
    if not _is_exact(certificate):
        raise Rejected("the certificate has a value that is neither an integer nor a name")
    if certificate.get("kernel") != fingerprint(kernel):
        raise Rejected("the certificate belongs to another kernel")
    try:
        Verifier(kernel, compilation, certificate).verify()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, RecursionError) as e:
        raise Rejected("the certificate is malformed") from e
