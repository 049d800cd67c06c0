"""Gives every piece of a block's memory an offset: two that are ever in use together share no bytes.

The planner knows nothing of any target. Time is any numbering of the program's points in their textual order; who plans
stretches an interval over the loops that its contents have to outlast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tegula.dataclass import dataclass
from tegula.source import UNKNOWN, Location

Branch = tuple[tuple[int, int], ...]
"""Where concurrent code forks on the way to a piece of memory: (fork, branch taken) from the outside in."""

LINE = 64


@dataclass(frozen=True, slots=True)
class Interval:
    """A piece of memory and when it is in use.

    `start` and `end`: the first point of use and the first after the last. `size`: bytes, `pad` of which may stay
    unused after it. `align`: bytes, a power of two. `loc` and `until`: source of the first and the last use. `branch`:
    two that took different branches of one fork are in use together whatever their times."""

    name: str
    start: int
    end: int
    size: int
    align: int = LINE
    pad: int = 0
    loc: Location = UNKNOWN
    until: Location = UNKNOWN
    branch: Branch = ()

    @property
    def room(self) -> int:
        """Bytes that the plan sets aside, up to the next aligned address."""
        return -(-(self.size + self.pad) // self.align) * self.align


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Offsets in bytes, one an interval, and the bytes needed for all of them."""

    intervals: tuple[Interval, ...]
    offsets: tuple[int, ...]
    total: int

    def busiest(self) -> list[Interval]:
        """Those in use at the point where their sizes add up to the most, the largest first."""
        alive = [_alive(self.intervals, at) for at in {i.start for i in self.intervals}]
        most = max(alive, key=lambda those: sum(i.room for i in those)) if alive else []
        return sorted(most, key=lambda i: -i.size)

    def table(self) -> list[str]:
        """For people: offset, bytes, source lines from the first use to the last, name; in the order of the program."""
        rows = sorted(zip(self.intervals, self.offsets, strict=True), key=lambda row: row[0].start)
        lines = [f"{'offset':>12} {'bytes':>12}  {'lines':<9} tile"] if rows else []
        return lines + [f"{at:>12,} {i.size:>12,}  {lifetime(i):<9} {i.name}" for i, at in rows]


def plan_memory(intervals: Sequence[Interval]) -> MemoryMap:
    """Offsets by first fit, in whichever of a few orders needs the least memory."""
    if not intervals:
        return MemoryMap((), (), 0)
    least = _most_alive(intervals)
    best: tuple[int, list[int]] | None = None
    for order in ORDERS:
        offsets = _first_fit(intervals, sorted(range(len(intervals)), key=lambda k: order(intervals[k])))
        total = max(at + i.room for at, i in zip(offsets, intervals, strict=True))
        if best is None or total < best[0]:
            best = total, offsets
        if total <= least:
            break
    assert best is not None
    return MemoryMap(tuple(intervals), tuple(best[1]), best[0])


def divided(plan: MemoryMap, inner: Mapping[int, MemoryMap]) -> MemoryMap:
    """A plan that shows the parts of some intervals in their place. `inner`: the plan of each of these by its number.
    The parts count as in use as long as the whole."""
    intervals: list[Interval] = []
    offsets: list[int] = []
    for k, (whole, at) in enumerate(zip(plan.intervals, plan.offsets, strict=True)):
        parts = inner.get(k, MemoryMap((whole,), (0,), whole.room))
        intervals += [replace(part, start=whole.start, end=whole.end) for part in parts.intervals]
        offsets += [at + offset for offset in parts.offsets]
    return MemoryMap(tuple(intervals), tuple(offsets), plan.total)


ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    lambda i: (-i.room, i.start),
    lambda i: (i.start - i.end, -i.room),
    lambda i: (-i.room * (i.end - i.start), i.start),
    lambda i: (i.start, -i.room),
)


def together(a: Interval, b: Interval) -> bool:
    """Whether some execution may have both in use."""
    return concurrent(a.branch, b.branch) or (a.start < b.end and b.start < a.end)


def concurrent(a: Branch, b: Branch) -> bool:
    """Whether the code on two branches runs at the same time: they part at one fork."""
    for (fork, taken), (other, way) in zip(a, b, strict=False):
        if fork != other:
            return False
        if taken != way:
            return True
    return False


def lifetime(i: Interval) -> str:
    """The kernel's lines from the first use to the last."""
    first, last = i.loc.chain()[-1].line, i.until.chain()[-1].line
    return f"{min(first, last)}-{max(first, last)}" if first != last else str(first)


def _most_alive(intervals: Sequence[Interval]) -> int:
    """The most bytes in use at one point: no plan needs less."""
    changes = [(i.end, 0, -i.room) for i in intervals] + [(i.start, 1, i.room) for i in intervals]
    most = now = 0
    for _, _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _alive(intervals: Sequence[Interval], at: int) -> list[Interval]:
    return [i for i in intervals if i.start <= at < i.end]


def _first_fit(intervals: Sequence[Interval], order: list[int]) -> list[int]:
    """Each at the lowest offset that is free as long as it is in use."""
    starts, ends = (np.array([getattr(i, f) for i in intervals], np.int64) for f in ("start", "end"))
    branches = sorted({i.branch for i in intervals})
    kind = np.array([branches.index(i.branch) for i in intervals])
    overlapping = np.array([[concurrent(a, b) for b in branches] for a in branches])
    offsets, placed = [0] * len(intervals), np.zeros(len(intervals), bool)
    for k in order:
        i = intervals[k]
        others = np.nonzero(placed & ((starts < i.end) & (ends > i.start) | overlapping[kind[k]][kind]))[0]
        taken = sorted((offsets[o], offsets[o] + intervals[o].room) for o in others.tolist())
        offsets[k] = _gap(taken, i)
        placed[k] = True
    return offsets


def _gap(taken: list[tuple[int, int]], i: Interval) -> int:
    at = 0
    for start, end in taken:
        if at + i.room <= start:
            break
        at = max(at, -(-end // i.align) * i.align)
    return at
