"""Memory, barriers and engines while a launch is replayed.

Happens-before sets are integers with a bit for each access."""

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
class HappensBefore:
    """A happens-before set: `all` accesses, and `fenced`, the accesses by threads that are also visible to the async
    proxy, through which copies and tensor cores access memory."""

    all: int = 0
    fenced: int = 0


@dataclass(slots=True)
class Cell:
    """A set of bytes that are always accessed together. `holds`: the tile and the start of its buffer; `copies_see`:
    the contents in the async proxy, which lag until a fence. `written`, `read`: accesses by threads so far;
    `copied_in`, `read_async`: accesses by copies and tensor cores. `deferred`: reads whose value is not determined yet.
    `barrier`: whether the cell is in a barrier."""

    holds: tuple[int, Term] = (0, 0)
    copies_see: tuple[int, Term] = (0, 0)
    written: int = 0
    read: int = 0
    copied_in: int = 0
    read_async: int = 0
    deferred: list[Deferred] = field(default_factory=list)
    barrier: bool = False


@dataclass(slots=True)
class Deferred:
    """A value whose read from memory is deferred: a read of `cells`, or result `result` of an op with deferred
    `inputs`. `term`: the term, once known."""

    step: EngineStep
    cells: tuple[int, ...] = ()
    base: int = 0
    inputs: tuple[Any, ...] = ()
    result: int = 0
    term: Term = -1


@dataclass(slots=True)
class InFlight:
    """The result of a matmul. `term`: its term, once the matmul is complete."""

    term: Term = -1


@dataclass(slots=True)
class MmaGroup:
    """A matmul of a warp in flight. `bit`: its access."""

    step: EngineStep
    bit: int
    operands: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]
    result: InFlight
    inputs: tuple[Any, ...]


@dataclass(slots=True)
class Store:
    """An asynchronous copy of a warp from shared memory to an array."""

    step: EngineStep
    bit: int
    cells: tuple[int, ...]
    base: int
    name: tuple[Any, ...]


@dataclass(slots=True)
class CopyPiece:
    """A part of an asynchronous copy to shared memory; the parts complete independently."""

    bit: int
    cells: tuple[int, ...]
    base: int
    term: Term
    at: int
    bytes: int


@dataclass(slots=True)
class BarrierState:
    """The hardware state of one stage of a barrier. `before`: the accesses that happen before the arrivals so far;
    `ended`: the accesses that happen before the end of the last complete phase."""

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    before: HappensBefore = field(default_factory=HappensBefore)
    ended: HappensBefore = field(default_factory=HappensBefore)


@dataclass(slots=True)
class Warp:
    """A warp of a role. `at`: index of the next act; `synced`: whether the awaited warps have arrived; `executed`:
    accesses of its threads; `values`: terms of slots; `received`: terms read by the current op; `matmuls`, `stores`:
    groups in flight; `open`: uncommitted copies out; `unfenced`: cells written since the last fence; `deferred`: reads
    without a value yet; `issued`, `started`: groups without a wait; `arrived_in`: the phase of the last arrival at each
    named barrier."""

    role: int
    number: int
    name: str
    program: list[tuple[Any, ...]]
    at: int = 0
    synced: bool = False
    before: HappensBefore = field(default_factory=HappensBefore)
    executed: int = 0
    values: dict[EngineSlot, Any] = field(default_factory=dict)  # type: ignore[type-arg]
    received: list[Any] = field(default_factory=list)
    matmuls: deque[MmaGroup] = field(default_factory=deque)
    stores: deque[list[Store]] = field(default_factory=deque)
    open: list[Store] = field(default_factory=list)
    arrived_in: dict[int, int] = field(default_factory=dict)
    unfenced: list[tuple[int, ...]] = field(default_factory=list)
    deferred: list[Deferred] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
