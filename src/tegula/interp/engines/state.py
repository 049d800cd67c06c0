"""Memory, barriers and engines while a launch is replayed.

What is known to be ordered before is a set of accesses, one bit each of an integer."""

from __future__ import annotations

from collections import deque
from typing import Any

from tegula.dataclass import dataclass, field
from tegula.interp.engines.trace import EngineSlot, EngineStep

Term = int
"""The number of what was computed, from what, in what way: equal numbers, equal values."""


class ReplayFailed(Exception):
    """Something goes wrong. `kind`: "deadlock", "race", "fence", "value", "arrivals", "bytes", "unfinished", "stage",
    "barrier"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


@dataclass(slots=True)
class Seen:
    """What is known to be over: `all`; and `fenced`, those accesses by threads that copies and tensor cores see too."""

    all: int = 0
    fenced: int = 0


@dataclass(slots=True)
class Cell:
    """Bytes that are accessed together. `holds`: the tile and where its buffer begins; `copies_see`: the same as copies
    and tensor cores see it, which lags until a fence. The accesses so far, by threads and by others. `late`: the
    reads that have not looked yet. `barrier`: whether a barrier lies here."""

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
    """A value that threads have asked for and that has not been looked at: a read of `cells`, or what an op makes of
    such (`inputs`, `result`). `term`: once it is known."""

    step: EngineStep
    cells: tuple[int, ...] = ()
    base: int = 0
    inputs: tuple[Any, ...] = ()
    result: int = 0
    term: Term = -1


@dataclass(slots=True)
class Flying:
    """The result of a matmul. `term`: once it is complete."""

    term: Term = -1


@dataclass(slots=True)
class MmaGroup:
    """A group of a warp's matmuls. `bit`: its access; `result`, `sum`: what it adds to what."""

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
    """A barrier of one stage, as the hardware keeps it; `seen`: what those know who have arrived, `ended`: what was
    known when the last phase ended."""

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    seen: Seen = field(default_factory=Seen)
    ended: Seen = field(default_factory=Seen)


@dataclass(slots=True)
class Warp:
    """A warp of a role. `at`: the next of its acts; `synced`: whether the warps that it waits for have arrived; `own`:
    what its threads have accessed; `values`, `got`: of slots, and of the reads of the op that it is at; `matmuls`,
    `stores`: groups on their way; `open`: copies out in no group yet; `unseen`: what it has written since its last
    fence; `late`: its reads that have not looked; `issued`, `started`: the groups that it has not waited for;
    `arrived_in`: the phase in which it arrived at each named barrier."""

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
