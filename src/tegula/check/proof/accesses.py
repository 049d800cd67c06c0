"""The accesses of shared memory by roles: the items of rings, and how far arrivals are ahead of waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from tegula.check.proof.program import Engine, HandOver, Program, stage_of
from tegula.check.proof.state import Role, SlotKey, Stuck
from tegula.check.proof.terms import (
    Sum,
    div,
    eq,
    mod,
    number,
)
from tegula.check.proof.values import Values
from tegula.ir import Op, Value
from tegula.ops import events as E
from tegula.ops.buffer import root


class Accesses(Values):
    """The accesses of memory by a program's roles. `offsets`: by barrier and role, the number of stages if the role
    waits for the item one phase before, else 0. `lags`: by (barrier, role, other barrier), the maximum lead of the
    role's arrivals at the barrier over its waits at the other barrier, without the offsets of the waits; None if no
    maximum is known. `leads`: the same of arrivals before the role's first wait at the other barrier. `late_waits`: the
    keys of these for which the role may wait for an item below 0 after it arrived for the item a phase later.
    `item_shifts`: by ring and engine, for each barrier, the maximum number of arrivals of the engine at an access of
    the ring, less the item of the ring. `first_accesses`: the engines in the order of their first accesses of rings.
    `passed`: by barrier and role, the numbers of items that the role's last wait, and the one before, have passed
    over."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.offsets: dict[tuple[int, int], int] = {}
        self.lags: dict[tuple[int, int, int], int | None] = {}
        self.leads: dict[tuple[int, int, int], int] = {}
        self.late_waits: dict[tuple[int, int, int], None] = {}
        self.item_shifts: dict[tuple[Value, Engine], dict[int, int]] = {}
        self.first_accesses: dict[tuple[Value, Engine], None] = {}
        self.rotations: dict[int, Sum] = {}
        """By barrier, the stage of item 0."""
        self.passed: dict[tuple[int, int], tuple[int, int]] = {}
        self.requires_items = True
        """Whether accesses of items that a role may not have acquired are refused."""

    def number(self, value: Value) -> Any:
        """The number of a value in the current role; raises Stuck if the value may differ between threads."""
        result = self.value(value)
        if result is None:
            raise Stuck("the stage is unknown", None, self.role)
        return result

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups of the current role."""
        return self.program.warp_groups[self.role]

    def bytes(self, buffer: Value) -> E.Bytes:
        """All bytes of a buffer, with the stage that a view selects; the stage is -1 if the view does not select a
        single stage."""
        buffer_root = root(buffer)
        allocation, ring = self.program.allocations.get(buffer_root), self.program.rings.get(buffer_root)
        stage: Any = -1
        stages = ring.stages if ring is not None else self.program.slots(buffer_root)
        if stages:
            at = stage_of(buffer) if stages > 1 else None
            stage = self.number(at) if at is not None else number(0) if stages == 1 else -1
        return E.Bytes(0, allocation.size if allocation is not None else 1, buffer_root, stage)

    def _writes_in_place(self, ring: int) -> bool:
        """Whether threads of the role write a ring with the engine that also reads it."""
        return (self.role, False) in self.program.writers[ring]

    def last_waited(self, role: Role, r: int, b: int) -> Sum:
        """The item of a role's last wait for a barrier."""
        return role.waited[b] - 1 - self.offsets.get((b, r), 0)

    def _record_lag(self, role: Role, b: int, elected: bool, accesses: bool = False) -> None:
        """Record in `lags` the lead of an arrival, of one warp (`elected`) or of all warps, over the waits of these
        warps at each barrier. Waits of other warps count only after all warps have synchronised. `accesses`: the role
        does not arrive yet, but writes a ring that the arrival hands over."""
        all_arrive = not elected or self.program.parts.get((b, self.role), (1, 0))[1] > 0
        warps_differ = self.program.warps[self.role] > 1 and (
            role.one_warp_ahead if all_arrive else role.warps_unordered
        )
        c, units, stages = role.arrived[b], self.program.units, self.program.stages
        for waited_barrier in role.waited:
            key = (b, self.role, waited_barrier)
            limit = stages[b] * units[b] + stages[waited_barrier] * units[waited_barrier]
            same_warps = ((waited_barrier, self.role) in self.program.waits_of_one) != all_arrive
            lag: int | None = None
            if same_warps or not warps_differ:
                waited = role.waited[waited_barrier]
                lag = self._upper_bound((c + 1) * units[b] - waited * units[waited_barrier], limit)
                offset = self.offsets.get((waited_barrier, self.role))
                first = self._upper_bound((c + 1) * units[b], limit) if waited.value is not None else None
                if first is not None:  # items before the first one need no wait
                    if offset is None:
                        self.leads[key] = max(first, self.leads.get(key, first))
                        continue
                    first -= offset * units[waited_barrier]
                    lag = first if lag is None else min(lag, first)
            previous = self.lags.get(key, lag)
            self.lags[key] = None if lag is None or previous is None else max(lag, previous)
        if accesses:
            return
        key = (b, self.role, -1)
        is_first_use = self.state.known.nonnegative(number(self.program.stages[b] - 1) - c)
        self.lags[key] = 0 if is_first_use and self.lags.get(key, 0) == 0 else None

    def _record_late_waits(self, role: Role, b: int, item: Sum) -> None:
        """Record in `late_waits` whether a wait for an item of a barrier may follow arrivals for the item a phase
        later, if the item may be below 0."""
        if self.state.known.nonnegative(item):
            return
        units = self.program.units
        end = (item + self.program.stages[b] + 1) * units[b]
        for at, arrived in role.arrived.items():
            if not self.state.known.nonnegative(end - arrived * units[at] - 1):
                self.late_waits[at, self.role, b] = None

    def _record_first_access(self, at: E.Bytes, engine: Engine, arrived: dict[int, Sum]) -> None:
        """Record an engine's first access of a ring, in `first_accesses` and `item_shifts`. The item is the number of
        the stage if all numbers of arrivals are known, else the last item of that stage that has been handed over."""
        key = (at.buffer, engine)
        self.first_accesses.setdefault(key)
        if key in self.item_shifts:
            return
        item: Sum | None = mod(number(at.stage) - self._rotation_of(at.buffer), self._stages_of(at.buffer))
        if any(x.value is None for x in arrived.values()):
            item = self._item_of_stage(at, self._last_acquired_items(at, engine))
        resolved = self.state.known.resolved
        ring = self.program.rings.get(at.buffer)
        if ring is None:
            name = at.buffer.name or "a buffer"
            raise Stuck(f"no pair of barriers hands over {name}", None, self.role)
        groups = {row.barrier: row.group for row in ring.handovers}
        shifts = {
            b: resolved(x - div(item, groups.get(b, 1))).value for b, x in arrived.items() if item is not None
        }
        known_shifts = {b: n for b, n in shifts.items() if n is not None}
        if known_shifts:
            self.item_shifts[key] = known_shifts

    def _last_acquired(self, at: E.Bytes, engine: Engine) -> Iterator[Sum]:
        """The last item that an engine has acquired from each engine of another role."""
        ring = self.program.rings.get(at.buffer)
        if ring is None:
            name = at.buffer.name or "a buffer"
            raise Stuck(f"roles share {name}, and no pair of barriers hands it over", None, self.role)
        for row in ring.handovers:
            if row.acquirer == engine and not row.own:
                last = self.last_waited(self.state.roles[self.role], self.role, row.waited_barrier)
                delay = self.delay(row)
                if last.value is not None and last.value < delay - 1:
                    last = number(delay - 1)  # items before the first one need no wait
                last = row.last_of(last, self.item_shift(at.buffer, row) + delay)
                order = (x for v, x in self.first_accesses if v is at.buffer and x in (engine, row.releaser))
                yield last + (0 if next(order, engine) == row.releaser else ring.stages)

    def _last_acquired_items(self, at: E.Bytes, engine: Engine) -> list[Sum]:
        """The last items that an engine has acquired, one for each stage."""
        last = next(self._last_acquired(at, engine), None)
        return [] if last is None else [last - k for k in range(self.program.rings[at.buffer].stages)]

    def _item_of_stage(self, at: E.Bytes, items: Sequence[Sum]) -> Sum | None:
        """The item of `items` that is in the accessed stage: preferably an item whose stage is the identical term, else
        an item whose stage is known to be equal."""
        stages, rotation = self._stages_of(at.buffer), self._rotation_of(at.buffer)
        stage, rows = number(at.stage), [(item, mod(item + rotation, stages)) for item in items]
        identical = (item for item, own in rows if own == stage)
        equal = (item for item, own in rows if self.state.known.equal(stage, own))
        return next(chain(identical, equal), None)

    def _stages_of(self, buffer: Value) -> int:
        return self.program.rings[buffer].stages if buffer in self.program.rings else 1

    def rotation(self, b: int) -> Sum:
        """The stage of item 0 of a barrier, in the current state."""
        rotation = self.rotations.get(b)
        return number(0) if rotation is None else self.state.known.normalised(rotation)

    def _rotation_of(self, buffer: Value) -> Sum:
        """The stage of item 0 of a ring: that of the barrier of its first hand-over."""
        ring = self.program.rings.get(buffer)
        return self.rotation(ring.handovers[0].barrier) if ring is not None else number(0)

    def item_shift(self, v: Value, row: HandOver) -> int:
        """The item for which the releasing engine arrives, less the item of the ring that it hands over."""
        return self.item_shifts.get((v, row.releaser), {}).get(row.barrier, 0)

    def delay(self, row: HandOver) -> int:
        """The number of items by which the wait of the acquiring engine is later than the releasing engine's arrival,
        as far as lags are known."""
        units = self.program.units
        lags = ((k, self.lags.get(k)) for k in row.lags())
        return sum(
            max(0, lag + self.offsets.get((c, r), 0) * units[c]) // units[b]
            for (b, r, c), lag in lags
            if lag is not None
        )

    def _upper_bound(self, p: Sum, limit: int) -> int | None:
        """The least known upper bound of a sum between -limit and limit; None if there is none."""
        if p.value is not None:
            return p.value
        if not self.state.known.nonnegative(number(limit) - p):
            return None
        return next(n for n in range(-limit, limit + 1) if self.state.known.nonnegative(number(n) - p))

    def _slot_of(self, role: Role, at: E.Bytes, writes: bool = False) -> SlotKey:
        ring, n = self.program.rings.get(at.buffer), self.program.number[at.buffer]
        if ring is None:
            return n, at.stage
        engine = ring.engine(self.role, writes, False)
        self._record_first_access(at, engine, role.arrived)
        candidates: list[Sum] = []
        for row in ring.handovers_from(engine)[:1]:
            first = (role.arrived[row.barrier] - self.item_shift(at.buffer, row)) * row.group
            candidates += [first + k for k in range(ring.stages)]
        item = self._item_of_stage(at, [*candidates, *self._last_acquired_items(at, engine)])
        if item is None:
            raise Stuck("the stage does not belong to an item that the role has waited for", None, self.role)
        if self.requires_items and any(
            not self.state.known.nonnegative(last - item) for last in self._last_acquired(at, engine)
        ):
            raise Stuck("the stage may still be in use", None, self.role)
        for row in ring.handovers_from(engine):
            self._raise_shift(at.buffer, row, role.arrived[row.barrier] - div(item, row.group))
        return n, item

    def _raise_shift(self, v: Value, row: HandOver, shift: Sum) -> None:
        """Raise the recorded shift of a hand-over, if the engine has arrived for later items at this access than at
        the previous ones."""
        recorded = self.item_shift(v, row)
        if not self.state.known.nonnegative(number(recorded) - shift):
            bound = self._upper_bound(shift, self.program.rings[v].stages)
            if bound is not None:
                key = (v, row.releaser)
                self.item_shifts[key] = {**self.item_shifts.get(key, {}), row.barrier: bound}

    def _access(self, role: Role, e: E.MemoryAccess, op: Op, is_certain: bool) -> None:
        v, n = e.at.buffer, self.program.number[e.at.buffer]
        ring, many = self.program.rings.get(v), self.program.warps[self.role] > 1
        if ring is not None:
            engine = ring.engine(self.role, e.write, False)
            has_contents = v in self.program.rings_with_contents
            if op.NAME != "buf.new":
                at = self._accessed(op, v)
                self._record_first_access(at, engine, role.arrived)
                if ring.handovers_from(engine):
                    self._slot_of(role, at, e.write)
                if many and e.write:  # the threads may rely on the chain of their next arrival
                    for row in ring.handovers_from(engine):
                        self._record_lag(role, row.barrier, False, accesses=True)
                if has_contents:
                    self._update_contents(role, e, at, is_certain)
            if ring.copying_roles or (e.write and ring.asynchronous):
                role.unfenced.add((n, None))
            role.warps_unordered = role.warps_unordered or many
        elif e.write:
            for m in self.program.overlapping.get(v, ()):
                slot: Any = e.at.stage if m == n else -1
                role.unfenced.add((m, slot if isinstance(slot, int) else -1))
                slots = [*self._read_slots(role, m)]
                if slots and m == n and slot == -1:
                    slot = self._accessed(op, v).stage
                if not all(self._differ(slot, k) for k in slots):
                    message = "memory that a bulk store or matmul in flight reads is overwritten"
                    raise Stuck(message, op, self.role)

    def _accessed(self, op: Op, v: Value) -> E.Bytes:
        """The memory of a buffer that an op accesses, with the stage."""
        accesses = (e.at for e in E.events(op, self) if isinstance(e, E.MemoryAccess))
        return next(at for at in accesses if at.buffer is v)

    def _read_slots(self, role: Role, n: int) -> Iterator[Any]:
        """The slots of a buffer that matmuls and bulk stores read, or have read without all warps knowing this."""
        in_flight = [*(p for _, p, _ in role.pending_matmuls), *role.bulk_groups, role.uncommitted_reads]
        return (k for keys in (*in_flight, role.issuer_only_reads) for m, k in keys if m == n)

    def _differ(self, slot: Any, other: Any) -> bool:
        """Whether two slots of a buffer are known to differ; the slot -1 is the whole buffer."""
        if slot == -1 or other == -1:
            return False
        a, b = (number(x) if isinstance(x, int) else x for x in (slot, other))
        return self.state.known.holds(eq(a - b)) is False

    def _update_contents(self, role: Role, e: E.MemoryAccess, at: E.Bytes, is_certain: bool) -> None:
        """Update the known contents of stages after a store of one number to a stage or to an element, or the value of
        a loaded element."""
        n, item = self._slot_of(role, at, e.write)
        if e.write:
            stages, element = self.program.rings[e.at.buffer].stages, e.element
            is_known = is_certain and e.number is not None
            self.state.contents = [
                (m, other, k, x)
                for m, other, k, x in self.state.contents
                if m != n
                or ((other - item).value or 0) % stages
                or (is_known and k != element and -1 not in (k, element))
            ]
            stored = self.value(e.number) if is_certain and e.number is not None else None
            if stored is not None:
                self.state.contents.append((n, item, element, stored))
        elif is_certain and e.number is not None and not self.program.uniformity.varying(e.number):
            for m, other, element, stored in self.state.contents:
                if m == n and element in (-1, e.element) and self.state.known.equal(other, item):
                    role.frames[-1].values[e.number] = stored
