"""Data races among the threads of a block: the accesses of each thread since the last barrier."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.errors import InternalError, rendered
from tegula.ir import Op
from tegula.ops.buffer import combination, commute
from tegula.source import Location

WARP = 32
VERBS = {"read": "reads", "write": "writes", "atomic": "updates", "issue": "fills"}


class DataRace(InternalError):
    """Raised if two threads of a block access the same bytes without a barrier in between, and one access is a write.
    `before`, `after`: the accesses; `threads`: the threads; `location`: the bytes."""

    def __init__(
        self, before: TracedAccess, after: TracedAccess, threads: tuple[int, int], location: str
    ) -> None:
        self.before, self.after, self.threads, self.location = before, after, threads, location
        message = f"thread {threads[1]} {VERBS[after.kind]} {location} ({after.op.NAME})"
        other = f"thread {threads[0]} {VERBS[before.kind]} them ({before.op.NAME}), with no barrier between"
        notes: list[tuple[Location, str]] = [(before.op.loc, f"before it, {other}")]
        super().__init__(rendered("data-race", after.op.loc, message, notes))


@dataclass(frozen=True, slots=True)
class TracedAccess:
    """An access by an op. `kind`: read, write, atomic, or issue (a copy in flight). `scalar`: whether lanes access an
    array independently."""

    op: Op
    kind: str
    scalar: bool = False

    def sort(self) -> Sort:
        """The properties of the access that determine conflicts."""
        return self.kind, self.scalar, combination(self.op) if self.kind == "atomic" else ""


Sort = tuple[str, bool, str]
"""The kind of an access, whether it is scalar, and how an atomic access combines elements."""


def _conflicts(a: Sort, b: Sort, shared: bool) -> bool:
    """Whether two accesses of the same bytes by different threads need an order. Scalar accesses of arrays need no
    order."""
    if a[0] == b[0] == "read" or (a[0] == b[0] == "atomic" and commute(a[2], b[2])):
        return False
    return shared or not (a[1] and b[1])


@dataclass(slots=True)
class TracedRegion:
    """A piece of memory with a log of accesses: arrays that overlap, or the shared memory of a block, in units that
    divide all accesses. `slots`: for each sort of access and each unit, log entries of the first thread, of one other
    thread, and of one thread of another warp."""

    name: str
    start: int
    size: int
    unit: int
    shared: bool
    slots: dict[Sort, np.ndarray] = field(default_factory=dict)
    in_flight: np.ndarray | None = None

    def entries(self, access: TracedAccess) -> np.ndarray:
        """The log entries of accesses of the same sort, for each unit."""
        key = access.sort()
        if key not in self.slots:
            self.slots[key] = np.full((3, self.size // self.unit), -1, np.int64)
        return self.slots[key]


class Races:
    """The log of a block's accesses. Threads of one dynamic op are not compared with each other, as no barrier could
    separate them."""

    def __init__(self, threads: int, regions: Iterable[TracedRegion]) -> None:
        self.threads = threads
        self.regions = sorted(regions, key=lambda r: r.start)
        self.starts = [r.start for r in self.regions]
        self.log: list[TracedAccess] = []
        self.floor = 0
        self.floor_of_warps = 0
        self.first = 0

    def barrier(self, of_warps: bool = False) -> None:
        """Record a barrier: earlier accesses are ordered before all later accesses, or with `of_warps` before later
        accesses of the same warp."""
        self.floor_of_warps = len(self.log) * self.threads
        if not of_warps:
            self.floor = self.floor_of_warps

    def _in_order(self, conflicting: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Whether barriers order entries of the log before accesses that threads `threads` make now."""
        same_warp = conflicting % self.threads // WARP == threads // WARP
        return (conflicting < self.floor) | (same_warp & (conflicting < self.floor_of_warps))

    def new_op(self) -> None:
        """Begin a new dynamic op, which makes several accesses where views differ by lane."""
        self.first = len(self.log)

    def new_block(self) -> None:
        """Forget the accesses of the previous block."""
        self.barrier()
        for region in self.regions:
            region.in_flight = None

    def record(
        self, access: TracedAccess, threads: np.ndarray, base: int, offsets: np.ndarray, length: int
    ) -> None:
        """Record an access: each thread accesses `length` bytes at base + its offset."""
        region = self._region(base)
        if region is None or not len(threads):
            return
        number = len(self.log)
        self.log.append(access)
        units, accessing = self._units(region, base, threads, offsets, length)
        self._check(region, access, units, accessing)
        if access.kind == "issue":
            if region.in_flight is None:
                region.in_flight = np.full(region.size // region.unit, -1, np.int64)
            region.in_flight[units] = number * self.threads + accessing
        else:
            self._enter(region.entries(access), units, number * self.threads + accessing)

    def completed(self, base: int, offsets: np.ndarray, length: int) -> None:
        """Record that the copies in flight to these bytes have completed."""
        region = self._region(base)
        if region is not None and region.in_flight is not None:
            units, _ = self._units(region, base, offsets, offsets, length)
            region.in_flight[units] = -1

    def _region(self, base: int) -> TracedRegion | None:
        at = int(np.searchsorted(self.starts, base, "right")) - 1
        region = self.regions[at] if at >= 0 else None
        return region if region is not None and base < region.start + region.size else None

    def _units(
        self, region: TracedRegion, base: int, threads: np.ndarray, offsets: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        first = (offsets + (base - region.start)) // region.unit
        span = length // region.unit
        if span == 1:
            return first, threads
        return (first[:, None] + np.arange(span)).reshape(-1), np.repeat(threads, span)

    def _check(
        self, region: TracedRegion, access: TracedAccess, units: np.ndarray, threads: np.ndarray
    ) -> None:
        written = TracedAccess(access.op, "write") if access.kind == "issue" else access
        for sort, slots in region.slots.items():
            if not _conflicts(sort, written.sort(), region.shared):
                continue
            for entries in slots:
                previous = entries[units]
                unordered = ~self._in_order(previous, threads) & (previous % self.threads != threads)
                unordered &= previous < self.first * self.threads
                self._raise(region, access, units, threads, previous, unordered)
        if region.in_flight is not None:
            previous = region.in_flight[units]
            self._raise(region, access, units, threads, previous, previous >= 0)

    def _raise(
        self,
        region: TracedRegion,
        access: TracedAccess,
        units: np.ndarray,
        threads: np.ndarray,
        conflicting: np.ndarray,
        unordered: np.ndarray,
    ) -> None:
        if not unordered.any():
            return
        k = int(np.flatnonzero(unordered)[0])
        entry, at = int(conflicting[k]), int(units[k]) * region.unit
        location = f"bytes {at} to {at + region.unit - 1} of {region.name}"
        raise DataRace(
            self.log[entry // self.threads], access, (entry % self.threads, int(threads[k])), location
        )

    def _enter(self, slots: np.ndarray, units: np.ndarray, entries: np.ndarray) -> None:
        """Update the log with entries of the first thread, of one other thread, and of one of another warp. An old
        entry that is ordered before a new one is replaced: any later access that is ordered after the new one is
        ordered after the old one too."""
        first, second, third = slots
        threads = entries % self.threads
        stale = self._in_order(first[units], threads)
        first[units[stale]] = entries[stale]
        for slot, size in ((second, 1), (third, WARP)):
            thread_group = first[units] % self.threads // size
            replaceable = self._in_order(slot[units], threads) | (
                slot[units] % self.threads // size == thread_group
            )
            entering = (thread_group != threads // size) & replaceable
            slot[units[entering]] = entries[entering]


def regions_of(arrays: Sequence[tuple[str, np.ndarray]]) -> Iterator[TracedRegion]:
    """The regions of memory that arrays occupy; overlapping arrays share one."""
    spans = sorted(((*_bytes(a), name, a) for name, a in arrays if a.size), key=lambda span: span[:2])
    first = 0
    while first < len(spans):
        end, group = spans[first][1], [spans[first]]
        while first + len(group) < len(spans) and spans[first + len(group)][0] < end:
            group.append(spans[first + len(group)])
            end = max(end, group[-1][1])
        start = spans[first][0]
        unit = math.gcd(*(n for low, _, _, a in group for n in (low - start, a.itemsize, *a.strides)))
        size = -(-(end - start) // unit) * unit
        yield TracedRegion(" and ".join(f"'{name}'" for _, _, name, _ in group), start, size, unit, False)
        first += len(group)


def _bytes(a: np.ndarray) -> tuple[int, int]:
    """The addresses of an array's first byte and of the byte after its last."""
    start = a.__array_interface__["data"][0]
    steps = [(n - 1) * s for n, s in zip(a.shape, a.strides, strict=True)]
    return start + sum(min(0, s) for s in steps), start + sum(max(0, s) for s in steps) + a.itemsize
