"""The state of roles on a path of the prover: positions, arrivals, waits and accesses."""

from __future__ import annotations

from typing import Any

from tegula.check.proof.known import Known
from tegula.check.proof.terms import Atom, Condition, Sum
from tegula.dataclass import dataclass, field, replace
from tegula.ir import Op, Region, Value
from tegula.ops import events as E

SlotKey = tuple[int, Any]
"""The memory of an access: a ring and an item, or a buffer and a slot."""


class Stuck(Exception):
    """The proof fails at `op`: the fact in the message is not proved. `obligation` and `help` (the code to write
    instead) are set where they are known."""

    def __init__(
        self, message: str, op: Op | None = None, role: int = -1, obligation: str = "", help: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.op, self.role = message, op, role
        self.obligation, self.help = obligation, help


class Hoisted(Exception):
    """A condition on inputs of the launch, on which the proof is split."""

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self.condition = condition


@dataclass(slots=True)
class Frame:
    """A region that a role is in: the next op, or -1 before the next iteration of a loop; `turn` counts iterations.
    `values`: values that loops carry and results of ops; `derived`: values that were computed from these."""

    region: Region
    at: int
    values: dict[Value, Any]
    turn: int = 0
    derived: dict[Value, Any] = field(default_factory=dict[Value, Any])


@dataclass(slots=True)
class Role:
    """One role on a path: the regions that it is in, outermost first, and what it has done, as far as proofs are about
    it.

    `todo`: the events of the current op; `midway`: the number of these events that are complete; `matmuls`: the number
    of started matmuls. `arrived`, `waited`: numbers of arrivals and waits, by barrier; `fresh`: barriers waited for
    since the last arrival. `open`: by barrier, bytes that are announced and not copied. `pending_copies`: matmuls in
    flight, oldest first, each with its number, the memory that it reads, and the operand in registers; `in_flight`: the
    last matmul on each tile. `uncommitted`, `copies`: memory that copies to arrays read. `dirty`: memory accessed since
    the last fence; `unsynchronised`: memory fenced since the threads last synchronised (2), or those of each warp group
    (1); `unknown`: memory that matmuls or copies out have read, a fact known to the issuing warps alone. `loose`: since
    the threads last synchronised all warps have waited or used a ring; `ahead`: one warp has waited for more than the
    others."""

    frames: list[Frame]
    todo: tuple[E.Event, ...] = ()
    midway: int = 0
    matmuls: int = 0
    loose: bool = False
    ahead: bool = False
    arrived: dict[int, Sum] = field(default_factory=dict[int, Sum])
    waited: dict[int, Sum] = field(default_factory=dict[int, Sum])
    fresh: set[int] = field(default_factory=set[int])
    open: dict[int, int] = field(default_factory=dict[int, int])
    pending_copies: list[tuple[int, list[SlotKey], Value | None]] = field(default_factory=list[Any])
    in_flight: dict[Value, int] = field(default_factory=dict[Value, int])
    uncommitted: list[SlotKey] = field(default_factory=list[SlotKey])
    copies: list[list[SlotKey]] = field(default_factory=list[list[SlotKey]])
    dirty: set[SlotKey] = field(default_factory=set[SlotKey])
    unsynchronised: dict[SlotKey, int] = field(default_factory=dict[SlotKey, int])
    unknown: set[SlotKey] = field(default_factory=set[SlotKey])

    def copy(self) -> Role:
        """An independent copy of the role."""
        role = replace(
            self, frames=[replace(s, values=dict(s.values), derived=dict(s.derived)) for s in self.frames]
        )
        for name in ("arrived", "waited", "fresh", "open", "in_flight", "dirty", "unsynchronised", "unknown"):
            setattr(role, name, getattr(self, name).copy())
        for name in ("pending_copies", "uncommitted", "copies"):
            setattr(role, name, list(getattr(self, name)))
        return role


@dataclass(slots=True)
class State:
    """All roles on a path; `bound`: the symbols of the label that it began at, then those that ops have given;
    `contents`: rings, items in them, and the number that is in every element of their stage."""

    roles: list[Role]
    known: Known
    bound: list[Atom] = field(default_factory=list[Atom])
    contents: list[tuple[int, Sum, Any]] = field(default_factory=list[tuple[int, Sum, Any]])
    outer: dict[Value, Any] = field(default_factory=dict[Value, Any])
    """The values defined outside of roles, which are equal in all roles."""

    def copy(self) -> State:
        """An independent copy of the state."""
        roles = [r.copy() for r in self.roles]
        return State(roles, Known(self.known), list(self.bound), list(self.contents), dict(self.outer))

    def assume(self, c: Condition) -> None:
        """Add a condition to the facts of the path, and rewrite values if the condition makes a symbol equal a
        polynomial."""
        before = len(self.known.same)
        self.known.assume(c)
        if len(self.known.same) != before:
            self.renew()

    def renew(self) -> None:
        """Rewrite the values of all roles with symbols replaced by the polynomials that they equal."""
        now = self.known.now
        self.outer = {}
        for role in self.roles:
            for frame in role.frames:
                frame.values = {v: now(x) for v, x in frame.values.items()}
                frame.derived = {}
            role.arrived = {b: now(x) for b, x in role.arrived.items()}
            role.waited = {b: now(x) for b, x in role.waited.items()}
            role.pending_copies = [(n, _now(in_flight, now), v) for n, in_flight, v in role.pending_copies]
            role.copies = [_now(in_flight, now) for in_flight in role.copies]
            role.uncommitted = _now(role.uncommitted, now)
        self.contents = [(n, now(item), now(x)) for n, item, x in self.contents]


def _now(frames: list[SlotKey], now: Any) -> list[SlotKey]:
    return [(n, now(x) if isinstance(x, Sum) else x) for n, x in frames]
