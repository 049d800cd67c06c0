"""The state of roles on a path of the prover: positions, arrivals, waits and accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.check.proof.known import Known
from tegula.check.proof.terms import Atom, Condition, Sum
from tegula.dataclass import dataclass, field, replace
from tegula.ir import Op, Region, Value
from tegula.ops import events as E

SlotKey = tuple[int, Any]
"""The memory of an access: a ring and an item, or another buffer and a slot, -1 for all slots."""


class Stuck(Exception):
    """The proof fails at `op`: the fact in the message is not proved. `obligation` and `help` (the code to write
    instead) are set where they are known."""

    def __init__(
        self, message: str, op: Op | None = None, role: int = -1, obligation: str = "", help: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.op, self.role = message, op, role
        self.obligation, self.help = obligation, help


class OutOfStep(Stuck):
    """The loops of a group do not iterate together."""


class CannotPeel(Stuck):
    """The loops of a group do not end together, or enough of their iterations have been executed."""


class LimitExceeded(Stuck):
    """The search exceeds a limit."""


class Hoisted(Exception):
    """A condition on inputs of the launch, on which the proof is split."""

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self.condition = condition


class StartsEarly(Exception):
    """A wait shows that a role's waits at a barrier begin with the items before the first ones."""

    def __init__(self, barrier: int, role: int) -> None:
        super().__init__()
        self.wait = barrier, role


@dataclass(slots=True)
class Frame:
    """A region that a role executes. `at`: the next op, or -1 before the next iteration of a loop; `iteration`: the
    number of iterations so far; `values`: values that loops carry and results of ops; `derived`: values that were
    computed from these."""

    region: Region
    at: int
    values: dict[Value, Any]
    iteration: int = 0
    derived: dict[Value, Any] = field(default_factory=dict[Value, Any])


@dataclass(slots=True)
class Role:
    """One role on a path: the regions that it executes, outermost first, and its operations in flight.

    `events`: the events of the current op, of which `completed_events` are complete; `issued_matmuls`: the number of
    started matmuls. `arrived`, `waited`: the numbers of arrivals and waits, by barrier; `repeatable_waits`: the
    barriers waited for since the last arrival. `parts`: by barrier, the numbers of arrivals of one warp, and of all
    warps, for an item that is to get more of them. `outstanding_bytes`: by barrier, the bytes that are announced and
    not copied. `pending_matmuls`: the matmuls in flight, oldest first, each with its number, the memory that it reads,
    and its operand in registers; `in_flight`: the number of the last matmul on each tile. `uncommitted_reads`,
    `bulk_groups`: the memory that bulk stores read, in the open bulk group and in committed ones. `unfenced`: memory
    accessed since the last fence; `unsynchronised`: memory fenced since all threads (2), or the threads of each warp
    group (1), last synchronised; `issuer_only_reads`: memory whose asynchronous reads are complete, which the issuing
    warps alone know. `warps_unordered`: all warps have waited or used a ring since they last synchronised;
    `one_warp_ahead`: the first warp alone has waited since then."""

    frames: list[Frame]
    events: tuple[E.Event, ...] = ()
    completed_events: int = 0
    issued_matmuls: int = 0
    warps_unordered: bool = False
    one_warp_ahead: bool = False
    arrived: dict[int, Sum] = field(default_factory=dict[int, Sum])
    waited: dict[int, Sum] = field(default_factory=dict[int, Sum])
    repeatable_waits: set[int] = field(default_factory=set[int])
    parts: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    outstanding_bytes: dict[int, int] = field(default_factory=dict[int, int])
    pending_matmuls: list[tuple[int, list[SlotKey], Value | None]] = field(default_factory=list[Any])
    in_flight: dict[Value, int] = field(default_factory=dict[Value, int])
    uncommitted_reads: list[SlotKey] = field(default_factory=list[SlotKey])
    bulk_groups: list[list[SlotKey]] = field(default_factory=list[list[SlotKey]])
    unfenced: set[SlotKey] = field(default_factory=set[SlotKey])
    unsynchronised: dict[SlotKey, int] = field(default_factory=dict[SlotKey, int])
    issuer_only_reads: set[SlotKey] = field(default_factory=set[SlotKey])

    def copy(self) -> Role:
        """An independent copy of the role."""
        role = replace(
            self, frames=[replace(s, values=dict(s.values), derived=dict(s.derived)) for s in self.frames]
        )
        for name in (
            *("arrived", "waited", "repeatable_waits", "parts", "outstanding_bytes"),
            *("in_flight", "unfenced", "unsynchronised", "issuer_only_reads"),
        ):
            setattr(role, name, getattr(self, name).copy())
        for name in ("pending_matmuls", "uncommitted_reads", "bulk_groups"):
            setattr(role, name, list(getattr(self, name)))
        return role


@dataclass(slots=True)
class State:
    """All roles on a path. `bound`: the symbols of the label at which the path begins, then the symbols for arbitrary
    results of ops; `contents`: the known contents of stages: a ring, an item, an element of the item's stage (-1 for
    every element), and its number."""

    roles: list[Role]
    known: Known
    bound: list[Atom] = field(default_factory=list[Atom])
    contents: list[tuple[int, Sum, int, Any]] = field(default_factory=list[tuple[int, Sum, int, Any]])
    outer: dict[Value, Any] = field(default_factory=dict[Value, Any])
    """The values defined outside of roles, which are equal in all roles."""

    def copy(self) -> State:
        """An independent copy of the state."""
        roles = [r.copy() for r in self.roles]
        return State(roles, Known(self.known), list(self.bound), list(self.contents), dict(self.outer))

    def assume(self, c: Condition) -> None:
        """Add a condition to the facts of the path, and rewrite values if the condition makes a symbol equal a
        polynomial."""
        before = len(self.known.substitution)
        self.known.assume(c)
        if len(self.known.substitution) != before:
            self.renew()

    def excludes_alternative(self, c: Condition) -> bool:
        """Whether a condition contradicts one of several conditions of which one is known to hold."""
        known = Known(self.known)
        known.assume(c)
        alternatives = [
            x for fact in self.known.assumed if fact is not True and fact[0] == "or" for x in fact[1:]
        ]
        return any(known.holds(known.normalised(x)) is False for x in alternatives)

    def resolve(self) -> None:
        """Replace choices that the facts decide, in the numbers of arrivals of all roles and what equals them."""
        numbers = {x for role in self.roles for x in role.arrived.values()}
        if any(a.kind == "ite" for x in numbers for a in x.atoms()):
            self.renew(self.known.resolved)

    def renew(self, normalised: Callable[[Any], Any] | None = None) -> None:
        """Rewrite the values of all roles; by default, replace symbols by the polynomials that they equal."""
        normalised = normalised or self.known.normalised
        self.outer = {}
        for role in self.roles:
            for frame in role.frames:
                frame.values = {v: normalised(x) for v, x in frame.values.items()}
                frame.derived = {}
            role.arrived = {b: normalised(x) for b, x in role.arrived.items()}
            role.waited = {b: normalised(x) for b, x in role.waited.items()}
            role.pending_matmuls = [
                (n, _normalised_keys(in_flight, normalised), v) for n, in_flight, v in role.pending_matmuls
            ]
            role.bulk_groups = [_normalised_keys(in_flight, normalised) for in_flight in role.bulk_groups]
            role.uncommitted_reads = _normalised_keys(role.uncommitted_reads, normalised)
        self.contents = [(n, normalised(item), e, normalised(x)) for n, item, e, x in self.contents]


def _normalised_keys(frames: list[SlotKey], normalised: Any) -> list[SlotKey]:
    return [(n, normalised(x) if isinstance(x, Sum) else x) for n, x in frames]
