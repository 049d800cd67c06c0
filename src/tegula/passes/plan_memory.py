"""Assigns an offset to every interval of a block's memory. Intervals that are live at the same time share no bytes.

The planner is independent of the target. Time is any numbering of program points in textual order; the caller extends
an interval over the loops that its contents must outlast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tegula.dataclass import dataclass
from tegula.source import UNKNOWN, Location

Branch = tuple[tuple[int, int], ...]
"""The concurrent branches that contain a piece of memory: (fork, branch taken), from the outermost fork inwards."""

CACHE_LINE = 64


@dataclass(frozen=True, slots=True)
class Interval:
    """A piece of memory and its live range.

    `start` and `end`: the first point of use, and the point after the last use. `size`: the size in bytes; `pad`: the
    bytes of padding after the contents. `align`: bytes, a power of two. `loc` and `until`: source of the first and the
    last use. `branch`: intervals on different branches of one fork are live together whatever their times."""

    name: str
    start: int
    end: int
    size: int
    align: int = CACHE_LINE
    pad: int = 0
    loc: Location = UNKNOWN
    until: Location = UNKNOWN
    branch: Branch = ()

    @property
    def reserved(self) -> int:
        """The bytes that the plan reserves: size and padding, rounded up to the alignment."""
        return -(-(self.size + self.pad) // self.align) * self.align


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """The offset of each interval, and the total size, in bytes."""

    intervals: tuple[Interval, ...]
    offsets: tuple[int, ...]
    total: int

    def peak(self) -> list[Interval]:
        """The intervals that are live at the point of maximum total size, the largest first."""
        alive = [_live_at(self.intervals, at) for at in {i.start for i in self.intervals}]
        largest = max(alive, key=lambda live: sum(i.reserved for i in live)) if alive else []
        return sorted(largest, key=lambda i: -i.size)

    def table(self) -> list[str]:
        """A text table in program order: offset, bytes, source lines from the first use to the last, name."""
        rows = sorted(zip(self.intervals, self.offsets, strict=True), key=lambda row: row[0].start)
        lines = [f"{'offset':>12} {'bytes':>12}  {'lines':<9} tile"] if rows else []
        return lines + [f"{at:>12,} {i.size:>12,}  {lifetime(i):<9} {i.name}" for i, at in rows]


def plan_memory(intervals: Sequence[Interval]) -> MemoryMap:
    """The memory map of a first-fit allocation, with the best of a few orders of intervals."""
    if not intervals:
        return MemoryMap((), (), 0)
    lower_bound = _peak_bytes(intervals)
    best: tuple[int, list[int]] | None = None
    for order in ORDERS:
        offsets = _first_fit(intervals, sorted(range(len(intervals)), key=lambda k: order(intervals[k])))
        total = max(at + i.reserved for at, i in zip(offsets, intervals, strict=True))
        if best is None or total < best[0]:
            best = total, offsets
        if total <= lower_bound:
            break
    assert best is not None
    return MemoryMap(tuple(intervals), tuple(best[1]), best[0])


def subdivide(plan: MemoryMap, inner: Mapping[int, MemoryMap]) -> MemoryMap:
    """The plan with some intervals replaced by their parts. `inner`: the plan of the parts, by the index of the
    interval. Each part has the live range of the whole interval."""
    intervals: list[Interval] = []
    offsets: list[int] = []
    for k, (interval, at) in enumerate(zip(plan.intervals, plan.offsets, strict=True)):
        parts = inner.get(k, MemoryMap((interval,), (0,), interval.reserved))
        intervals += [replace(part, start=interval.start, end=interval.end) for part in parts.intervals]
        offsets += [at + offset for offset in parts.offsets]
    return MemoryMap(tuple(intervals), tuple(offsets), plan.total)


ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    lambda i: (-i.reserved, i.start),
    lambda i: (i.start - i.end, -i.reserved),
    lambda i: (-i.reserved * (i.end - i.start), i.start),
    lambda i: (i.start, -i.reserved),
)


def simultaneously_live(a: Interval, b: Interval) -> bool:
    """Whether two intervals may be live at the same time."""
    return concurrent(a.branch, b.branch) or (a.start < b.end and b.start < a.end)


def concurrent(a: Branch, b: Branch) -> bool:
    """Whether the code on two branches runs concurrently: they take different branches of one fork."""
    for (fork_a, taken_a), (fork_b, taken_b) in zip(a, b, strict=False):
        if fork_a != fork_b:
            return False
        if taken_a != taken_b:
            return True
    return False


def lifetime(i: Interval) -> str:
    """The kernel's lines from the first use to the last."""
    first, last = i.loc.chain()[-1].line, i.until.chain()[-1].line
    return f"{min(first, last)}-{max(first, last)}" if first != last else str(first)


def _peak_bytes(intervals: Sequence[Interval]) -> int:
    """The maximum number of bytes live at one point, a lower bound for any plan."""
    changes = [(i.end, 0, -i.reserved) for i in intervals] + [(i.start, 1, i.reserved) for i in intervals]
    peak = live_bytes = 0
    for _, _, change in sorted(changes):
        live_bytes += change
        peak = max(peak, live_bytes)
    return peak


def _live_at(intervals: Sequence[Interval], at: int) -> list[Interval]:
    return [i for i in intervals if i.start <= at < i.end]


def _first_fit(intervals: Sequence[Interval], order: list[int]) -> list[int]:
    """Offsets, with each interval at the lowest offset that is free during its whole lifetime."""
    starts, ends = (np.array([getattr(i, f) for i in intervals], np.int64) for f in ("start", "end"))
    branches = sorted({i.branch for i in intervals})
    branch_indices = np.array([branches.index(i.branch) for i in intervals])
    are_concurrent = np.array([[concurrent(a, b) for b in branches] for a in branches])
    offsets, placed = [0] * len(intervals), np.zeros(len(intervals), bool)
    for k in order:
        i = intervals[k]
        others = np.nonzero(
            placed & ((starts < i.end) & (ends > i.start) | are_concurrent[branch_indices[k]][branch_indices])
        )[0]
        occupied = sorted((offsets[o], offsets[o] + intervals[o].reserved) for o in others.tolist())
        offsets[k] = _lowest_gap(occupied, i)
        placed[k] = True
    return offsets


def _lowest_gap(occupied: list[tuple[int, int]], i: Interval) -> int:
    at = 0
    for start, end in occupied:
        if at + i.reserved <= start:
            break
        at = max(at, -(-end // i.align) * i.align)
    return at
