"""Memory, barriers and engines while a launch is replayed.

Happens-before relations are sets of accesses, with a bit of an integer for each access."""

from __future__ import annotations

from collections import deque
from typing import Any

from tegula.dataclass import dataclass, field
from tegula.interp.engines.trace import EngineSlot, EngineStep

Term = int
"""A term: the number of a computation. Equal numbers mean equal values."""


class ReplayFailed(Exception):
    """A fault of a replay. `kind`: "deadlock", "race", "fence", "value", "arrivals", "bytes", "unfinished", "stage",
    "barrier"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


@dataclass(slots=True)
class Seen:
    """The accesses that happen before: `all`; and `fenced`, the accesses by threads that are also visible to the async
    proxy, through which copies and tensor cores access memory."""

    all: int = 0
    fenced: int = 0


@dataclass(slots=True)
class Cell:
    """A set of bytes that are always accessed together. `holds`: the tile and the start of its buffer; `copies_see`:
    the same as the async proxy sees it, which lags until a fence. `written`, `read`: accesses by threads so far;
    `copied_in`, `read_async`: those by copies and tensor cores. `late`: reads that have not taken their value yet.
    `barrier`: whether a barrier lies here."""

    holds: tuple[int, Term] = (0, 0)
    copies_see: tuple[int, Term] = (0, 0)
    written: int = 0
    read: int = 0
    copied_in: int = 0
    read_async: int = 0
    late: list[Late] = field(default_factory=list)  # type: ignore[type-arg]
    barrier: bool = False


@dataclass(slots=True)
class Late:
    """A value that threads read, and that is not taken from memory yet: a read of `cells`, or result number `result` of
    an op some of whose `inputs` are late. `term`: its term, once it is known."""

    step: EngineStep
    cells: tuple[int, ...] = ()
    base: int = 0
    inputs: tuple[Any, ...] = ()
    result: int = 0
    term: Term = -1


@dataclass(slots=True)
class Flying:
    """The result of a matmul. `term`: its term, once the matmul is complete."""

    term: Term = -1


@dataclass(slots=True)
class MmaGroup:
    """A matmul of a warp in flight. `bit`: its access."""

    step: EngineStep
    bit: int
    operands: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]
    result: Flying
    inputs: tuple[Any, ...]


@dataclass(slots=True)
class Store:
    """A copy out of a warp."""

    step: EngineStep
    bit: int
    cells: tuple[int, ...]
    base: int
    name: tuple[Any, ...]


@dataclass(slots=True)
class CopyPiece:
    """A piece of a copy in."""

    bit: int
    cells: tuple[int, ...]
    base: int
    term: Term
    at: int
    bytes: int


@dataclass(slots=True)
class BarrierState:
    """One stage of a barrier, as the hardware keeps it. `seen`: the accesses that happen before the arrivals so far;
    `ended`: the same for the last complete phase."""

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    seen: Seen = field(default_factory=Seen)
    ended: Seen = field(default_factory=Seen)


@dataclass(slots=True)
class Warp:
    """A warp of a role. `at`: index of its next act; `synced`: whether the warps that it waits for have arrived; `own`:
    accesses of its threads; `values`: terms of slots; `got`: terms read by the current op; `matmuls`, `stores`: groups
    in flight; `open`: copies out in no group yet; `unseen`: cells written since its last fence; `late`: reads that have
    not taken their value; `issued`, `started`: groups that it has not waited for; `arrived_in`: the phase in which it
    arrived at each named barrier."""

    role: int
    number: int
    name: str
    program: list[tuple[Any, ...]]
    at: int = 0
    synced: bool = False
    seen: Seen = field(default_factory=Seen)
    own: int = 0
    values: dict[EngineSlot, Any] = field(default_factory=dict)  # type: ignore[type-arg]
    got: list[Any] = field(default_factory=list)
    matmuls: deque[MmaGroup] = field(default_factory=deque)
    stores: deque[list[Store]] = field(default_factory=deque)
    open: list[Store] = field(default_factory=list)
    arrived_in: dict[int, int] = field(default_factory=dict)
    unseen: list[tuple[int, ...]] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
