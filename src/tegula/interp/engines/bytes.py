"""The bytes of shared memory that each warp accesses, and the partition of memory into cells, whose bytes are always
accessed together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tegula.dataclass import dataclass
from tegula.interp.accesses import RULES, WARP
from tegula.interp.lowered import offsets_of
from tegula.ir import Op, Value
from tegula.ops import events as E
from tegula.types import BufType, scalar_of

if TYPE_CHECKING:
    from tegula.interp.engines.trace import Recorder

WARPS = 4
"""The number of warps in a warp group."""
PIECES = 2
"""The minimum number of pieces in which a copy arrives."""


@dataclass(frozen=True, slots=True)
class UnitSet:
    """A set of units of memory: the units of `form` relative to `base`, or `size` consecutive units (form -1)."""

    base: int
    form: int
    size: int = 0


NO_UNITS = UnitSet(0, -1)


class Footprints:
    """The footprints of accesses: the bytes that warps access. `unit`: a number of bytes that divides all accesses."""

    def __init__(self, values: Iterable[Value]) -> None:
        sizes = [scalar_of(v.type.dtype).bits // 8 for v in values if isinstance(v.type, BufType)]
        self.unit = min([4, *sizes])
        self.forms: list[np.ndarray] = []
        self._numbers: dict[bytes, int] = {}
        self._footprints: dict[object, list[tuple[int, int]]] = {}
        self._cells: dict[frozenset[UnitSet], dict[UnitSet, tuple[int, ...]]] = {}

    def of(self, m: Recorder, op: Op, event: E.Event) -> tuple[UnitSet, ...]:
        """The footprint of an event: the units that each warp of the role accesses; for a copy in, of each of its
        pieces; for a matmul, of each operand."""
        if isinstance(event, E.CopyIn):
            return self._pieces(event.to)
        if isinstance(event, E.Issue):
            return tuple(self._row(at.start, at.end) for at in event.operands)
        if isinstance(event, E.CopyOut):
            return tuple(self._of_group(m, event.source, w // WARPS) for w in range(m.lanes // WARP))
        if not isinstance(event, E.MemoryAccess):
            return ()
        warps = range(m.lanes // WARP)
        if event.warp_group:
            return tuple(self._quarter(m, event.at, w) for w in warps)
        return self._of_threads(m, op, event)

    def _row(self, start: int, end: int) -> UnitSet:
        return UnitSet(start // self.unit, -1, -(-(end - start) // self.unit))

    def _pieces(self, at: E.Bytes) -> tuple[UnitSet, ...]:
        step = -(-(at.end - at.start) // (PIECES * self.unit)) * self.unit
        return tuple(self._row(s, min(s + step, at.end)) for s in range(at.start, at.end, step))

    def _of_group(self, m: Recorder, at: E.Bytes, group: int) -> UnitSet:
        """The slot of a warp group, given the slot of the first group."""
        start, end = m.range_of(at.buffer)
        stride = group * ((end - start) // max(1, m.lanes // WARP // WARPS))
        return self._row(at.start + stride, at.end + stride)

    def _quarter(self, m: Recorder, at: E.Bytes, warp: int) -> UnitSet:
        """The quarter of a slot that a warp writes."""
        group_part = self._of_group(m, at, warp // WARPS)
        size = group_part.size // WARPS
        return UnitSet(group_part.base + warp % WARPS * size, -1, size)

    def _of_threads(self, m: Recorder, op: Op, event: E.MemoryAccess) -> tuple[UnitSet, ...]:
        warps = m.lanes // WARP
        array = m.env[event.at.buffer]
        key = (op, array.strides, array.shape, event.write)
        if key not in self._footprints:
            self._footprints[key] = self._forms(m, op, event, array)
        base = event.at.start // self.unit
        unit_sets = self._footprints[key]
        if not unit_sets:
            return (self._row(event.at.start, event.at.end),) * warps
        return tuple(UnitSet(base, form, size) if form >= 0 else NO_UNITS for form, size in unit_sets)

    def _forms(self, m: Recorder, op: Op, event: E.MemoryAccess, array: np.ndarray) -> list[tuple[int, int]]:
        """The units that each warp accesses, relative to the start of the buffer, by the access rule of the op; empty
        if the op has no access rule."""
        rule = RULES.get(type(op))
        if rule is None:
            return []
        start, kind = array.__array_interface__["data"], "write" if event.write else "read"
        warps: list[set[int]] = [set() for _ in range(m.lanes // WARP)]
        seen = False
        for by_threads in rule(m, op):  # type: ignore[arg-type]
            is_buffer = (
                by_threads.array.__array_interface__["data"] == start
                and by_threads.array.shape == array.shape
            )
            if not is_buffer or by_threads.kind != kind:
                continue
            seen = True
            offsets, size = offsets_of(by_threads)
            units = (offsets // self.unit)[:, None] + np.arange(max(1, size // self.unit))
            warp_of_access = np.repeat(
                by_threads.threads // WARP, len(offsets) // max(1, len(by_threads.threads))
            )
            for w in range(len(warps)):
                warps[w].update(np.unique(units[warp_of_access == w]).tolist())
        if not seen:
            return []
        return [self._form(w) for w in warps]

    def _form(self, units: set[int]) -> tuple[int, int]:
        if not units:
            return -1, 0
        form = np.array(sorted(units))
        number = self._numbers.setdefault(form.tobytes(), len(self.forms))
        if number == len(self.forms):
            self.forms.append(form)
        return number, len(units)

    # Cells ------------------------------------------------------------------------------------------------------

    def cells(self, unit_sets: Iterable[UnitSet]) -> dict[UnitSet, tuple[int, ...]]:
        """The cells into which the unit sets partition memory, by address."""
        requested = frozenset(unit_sets)
        if requested not in self._cells:
            self._cells[requested] = self._partition(requested)
        return self._cells[requested]

    def _partition(self, unit_sets: frozenset[UnitSet]) -> dict[UnitSet, tuple[int, ...]]:
        ordered = sorted((s for s in unit_sets if s.size), key=lambda s: (s.base, s.size, s.form))
        end = max((int(self._units(s)[-1]) + 1 for s in ordered), default=0)
        labels, count = np.zeros(end, np.int64), 1
        for unit_set in ordered:
            units = self._units(unit_set)
            old, positions = np.unique(labels[units], return_inverse=True)
            labels[units] = count + positions
            count += len(old)
        # Numbered by address.
        names, first = np.unique(labels, return_index=True)
        order = {int(name): k for k, name in enumerate(names[np.argsort(first)])}
        out = {s: tuple(sorted(order[int(x)] for x in np.unique(labels[self._units(s)]))) for s in ordered}
        out.update({s: () for s in unit_sets if not s.size})
        return out

    def _units(self, unit_set: UnitSet) -> np.ndarray:
        if unit_set.form < 0:
            return np.arange(unit_set.base, unit_set.base + unit_set.size)
        return unit_set.base + self.forms[unit_set.form]
