"""Races on shared memory: a log of accesses, each with the time of its completion, and the test whether the completion
happens before a later access.

A time is an index into vector clocks, and the count at this index. Warps have an index each, and so have the matmuls
and copies that a warp has started, and the phases of a barrier, which complete bulk copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegula.dataclass import dataclass, field
from tegula.ir import Op, Value
from tegula.ops.buffer import BufNew
from tegula.ops.events import ASYNC, GENERIC, Bytes

Clock = list[int]


@dataclass(frozen=True, slots=True)
class Access:
    """An access of bytes of shared memory. `entry`, `moment`: the time at which the access is complete. `fence`: the
    entry of the warp's fences, -1 for the async proxy. `number`: the step of `role`, and the event within the step; the
    warps of a role execute a step together, each on its part."""

    op: Op
    at: Bytes
    write: bool
    proxy: str
    role: int
    number: tuple[int, int]
    entry: int
    moment: int
    fence: int


@dataclass(slots=True)
class Cell:
    """A range of bytes that each access covers entirely or not at all. `writes`: the last write, by each warp; `reads`:
    the reads since; `before`: the accesses ordered before the last write, for the other warps that take part in the
    write."""

    writes: list[Access] = field(default_factory=list[Access])
    reads: dict[int, Access] = field(default_factory=dict[int, Access])
    before: list[Access] = field(default_factory=list[Access])


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered accesses of the same bytes, one of them a write; with `fence`: ordered by a barrier, without the
    fence that two proxies need."""

    first: Access
    second: Access
    fence: bool = False


class Memory:
    """Shared memory, split at the boundaries of buffers, stages and slots. `barriers`: the offsets of barriers."""

    def __init__(self, byte_boundaries: Sequence[int], barriers: Mapping[Value, tuple[int, int]]) -> None:
        self.cuts = sorted(set(byte_boundaries))
        self.cells: dict[int, Cell] = {cut: Cell() for cut in self.cuts}
        self.barriers = barriers
        self._within: dict[tuple[int, int], list[Cell]] = {}
        self._barrier_in_range: dict[tuple[int, int], Value | None] = {}

    def cells_of(self, at: Bytes) -> list[Cell]:
        """The cells in a range of bytes."""
        key = (at.start, at.end)
        if key not in self._within:
            self._within[key] = [self.cells[c] for c in self.cuts if at.start <= c < at.end]
        return self._within[key]

    def barrier_in(self, at: Bytes) -> Value | None:
        """A barrier in a range of bytes; None if the range has none."""
        key = (at.start, at.end)
        if key not in self._barrier_in_range:
            barriers = (v for v, (start, end) in self.barriers.items() if start < at.end and at.start < end)
            self._barrier_in_range[key] = next(barriers, None)
        return self._barrier_in_range[key]

    def record(self, access: Access, clock: Clock) -> Race | None:
        """Record an access by a warp with the vector clock `clock`, and return the race, if there is one."""
        for cell in self.cells_of(access.at):
            race = self._write(cell, access, clock) if access.write else self._read(cell, access, clock)
            if race is not None:
                return race
        return None

    def has_uninitialised(self, at: Bytes) -> bool:
        """Whether a range has uninitialised bytes."""
        return any(not cell.writes for cell in self.cells_of(at))

    def _read(self, cell: Cell, access: Access, clock: Clock) -> Race | None:
        for other in cell.writes:
            race = self._after(other, access, clock)
            if race is not None:
                return race
        cell.reads[access.entry] = access
        return None

    def _write(self, cell: Cell, access: Access, clock: Clock) -> Race | None:
        repeats = any(_same_step(other, access) for other in cell.writes)
        before = cell.before if repeats else [*cell.writes, *cell.reads.values()]
        for other in before:
            race = self._after(other, access, clock)
            if race is not None:
                return race
        if repeats:
            cell.writes.append(access)
        else:
            cell.before, cell.writes, cell.reads = before, [access], {}
        return None

    def _after(self, first: Access, second: Access, clock: Clock) -> Race | None:
        """The race, if the second access may happen before the first access is complete."""
        if _same_step(first, second) or _private(first, second):
            return None
        if clock[first.entry] < first.moment:
            return Race(first, second)
        crosses = first.proxy == GENERIC and second.proxy == ASYNC
        if crosses and clock[first.fence] < first.moment:
            return Race(first, second, fence=True)
        return None


def _same_step(a: Access, b: Access) -> bool:
    return a.role == b.role and a.number == b.number


def _private(a: Access, b: Access) -> bool:
    """Whether both accesses are to memory private to one role, whose threads are ordered by the barriers that
    `insert_barriers` derives."""
    return (
        a.role == b.role
        and _is_unmanaged(a.at.buffer)
        and _is_unmanaged(b.at.buffer)
        and a.proxy == b.proxy == GENERIC
    )


def _is_unmanaged(buffer: Value) -> bool:
    owner = buffer.owner
    return not isinstance(owner, BufNew) or not owner.pipe or bool(owner.by_hand)


def byte_boundaries(ranges: Mapping[Value, tuple[int, int, int]]) -> list[int]:
    """The bytes at which buffers, given as (offset, size, parts), and their parts begin and end."""
    return [offset + k * (size // parts) for offset, size, parts in ranges.values() for k in range(parts + 1)]
