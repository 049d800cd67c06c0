"""The obligations O1 to O7: the conditions that the verifier checks at each event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tegula.check.verifier.arithmetic import (
    Poly,
    at_least,
    constant,
    is_zero,
    number,
    plus,
)
from tegula.check.verifier.layout import Engine, HandOver, Ring
from tegula.check.verifier.walk import Key, Role, Walk
from tegula.ir import Op, Value
from tegula.ops import events as E
from tegula.ops.buffer import root
from tegula.ops.group import MmaWait, RegisterMma, SharedMma
from tegula.ops.schedule import (
    BulkStore,
)
from tegula.types import BufType


class Obligations(Walk):
    """The changes that events make to the state of roles, and the conditions that must hold then: O1 to O7."""

    # Barriers --------------------------------------------------------------------------------------------------------

    rotations: dict[int, Poly]
    """By barrier, the stage of item 0, if it is not 0."""

    def is_stage_of(self, stage: Any, item: Poly, b: int, stages: int = 0) -> bool:
        """Whether `stage` is the stage of an item of a barrier (O1), or of a ring with as many stages as given, whose
        item 0 is in the same stage as that of the barrier."""
        in_stage = self.atoms.mod(plus(item, self.rotations.get(b, ())), stages or self.layout.stages[b])
        return self.state.facts.equal(stage, in_stage)

    def last_waited(self, b: int, r: int) -> Poly:
        """The last item of a barrier for which a role has waited."""
        return plus(self.state.roles[r].waited[b], number(-1 - self.layout.offset.get((b, r), 0)))

    def nonnegative(self, p: Poly) -> bool:
        """Whether the facts imply that a polynomial is at least 0."""
        facts = self.state.facts
        p = self.atoms.substitute(p, facts.substitution) if facts.substitution else p
        if facts.at_least(p):
            return True
        chooses = any(self.atoms.keys[a][0] == "ite" for m, _ in p for a in m)
        return chooses and facts.decide(at_least(p)) is True

    def wait(self, e: E.Wait) -> None:
        """A wait for an mbarrier: its stage and parity belong to the role's next item (O1), and the wait ends (O3);
        or a repetition of the role's previous wait. The role may pass over items of other stages if no copies complete
        on the barrier, so that all items before one that is complete are complete."""
        b, role = self.layout.barrier[e.barrier], self.state.roles[self.role]
        stages, w = self.layout.stages[b], role.waited[b]
        offset = self.layout.offset.get((b, self.role), 0)
        self.require(
            offset in (0, stages), "a wait must be for its item or for the previous item in its stage"
        )

        def is_for(w: Poly) -> bool:
            parity = self.atoms.mod(plus(self.atoms.div(w, stages), number(offset // stages)), 2)
            return self.is_stage_of(e.stage, w, b) and self.state.facts.equal(e.parity, parity)  # type: ignore[arg-type]

        if not is_for(w):
            if b in role.repeatable_waits and is_for(plus(w, number(-1))):
                return
            is_ordered = b not in self.layout.copied and not self.layout.clustered(e.barrier)
            w = self._next_item_of_stage(e.stage, w, b)
            if not is_for(w):  # the first phase of a stage follows no other phase
                w = plus(w, number(stages))
                is_ordered = is_ordered and self.nonnegative(plus(number(offset + stages - 1), w, -1))
            self.require(is_ordered and is_for(w), "the stage or the parity does not belong to the item")
        self._check_complete(b, plus(w, number(-offset)))
        if offset:
            self._check_precedes_arrivals(b, plus(w, number(-offset)))
        role.waited[b] = plus(w, number(1))
        role.repeatable_waits.add(b)
        if self.layout.warps[self.role] > 1:
            role.one_warp_ahead, role.warps_unordered = (
                role.one_warp_ahead or e.elected,
                role.warps_unordered or not e.elected,
            )

    def _next_item_of_stage(self, stage: Any, w: Poly, b: int) -> Poly:
        """The first item of a barrier from w on that is in a stage."""
        stages = self.layout.stages[b]
        later = (plus(w, number(k)) for k in range(1, stages))
        constant_distance = next((x for x in later if self.is_stage_of(stage, x, b)), None)
        if constant_distance is not None:
            return constant_distance
        past_stage = plus(plus(w, number(-1)), plus(self.rotations.get(b, ()), stage, -1))
        return plus(plus(w, number(stages - 1)), self.atoms.mod(past_stage, stages), -1)

    def _check_precedes_arrivals(self, b: int, item: Poly) -> None:
        """Check O4 for a wait for an item below 0, which ends until the first phase of its stage is complete, and not
        afterwards: where the role tells others of its waits, it has not arrived for the item a phase later."""
        arrived, last = self.state.roles[self.role].arrived, plus(item, number(self.layout.stages[b]))
        for at in self.layout.tells.get((b, self.role), ()):
            unit, unit_of_wait = (self.layout.units.get(k, 1) for k in (at, b))
            margin = plus(plus(number(unit_of_wait - 1), last, unit_of_wait), arrived[at], -unit)
            self.require(
                self.nonnegative(margin) or self.nonnegative(item),
                "the first phase of the stage may be complete before the wait for the phase before",
            )

    def _check_complete(self, b: int, item: Poly) -> None:
        """Check O3: all arrivers have arrived for the item, and no bytes of it or of earlier items are outstanding."""
        arrivers = self.layout.arrivers[b]
        arrival_margins = (plus(self.state.roles[q].arrived[b], plus(item, number(1)), -1) for q in arrivers)
        if not (arrivers and all(map(self.nonnegative, arrival_margins))):
            is_before_first = self.nonnegative(plus(number(-1), item, -1))
            self.require(is_before_first or arrivers, "no role arrives at the barrier of this wait")
            self.require(is_before_first, "this wait is not proved to end")
            return
        for arriver in (self.state.roles[q] for q in arrivers):
            if b in arriver.outstanding_bytes:
                self.require(
                    self.nonnegative(plus(plus(arriver.outstanding_bytes[b][0], item, -1), number(-1))),
                    "bytes of the item are outstanding",
                )

    def arrive(self, e: E.Arrive) -> None:
        """An arrival at a stage of an mbarrier, with the bytes that it announces."""
        self._arrive(self.layout.barrier[e.barrier], e.stage, e.elected, e.bytes)

    def arrive_named(self, e: E.NamedArrival) -> None:
        """An arrival of all warps of a role at a named barrier."""
        self._arrive(self.layout.barrier[e.barrier], (), False, 0)

    def wait_named(self, e: E.NamedWait) -> None:
        """A wait at a named barrier for the arrivals of an item (O3), after which the warps of the role are
        synchronised."""
        b, role = self.layout.barrier[e.barrier], self.state.roles[self.role]
        self._check_complete(b, plus(role.arrived[b], number(-1)))
        role.waited[b] = role.arrived[b]
        self.sync(E.Sync())  # a named barrier synchronises all warps of the role

    def _arrive(self, b: int, stage: Any, elected: bool, count: int) -> None:
        role, many = self.state.roles[self.role], self.layout.warps[self.role] > 1
        c = role.arrived[b]
        self.require(self.is_stage_of(stage, c, b), "the stage is not the stage of the item")
        self._check_lags(b, c, elected)
        for v, ring in self.layout.rings.items():
            for row in ring.handovers:
                hands_over = row.barrier == b and row.releaser[0] == self.role and not row.own
                if hands_over and ring.is_of_threads(row.releaser):
                    self.require(
                        not (many and elected and role.warps_unordered),
                        "one warp arrives for a role whose other warps may not have reached this point",
                    )
                    self._hand_over(role, self.layout.number[v], row.last_of(c), row)
        if b in role.outstanding_bytes:
            self.require(
                role.outstanding_bytes[b][0] == c,
                "bytes of an item are outstanding at the arrival for another item",
            )
        role.outstanding_bytes[b] = (c, role.outstanding_bytes.get(b, (c, 0))[1] + count)
        role.repeatable_waits.clear()
        so_far, parts = role.parts.pop(b, (0, 0)), self.layout.parts.get((b, self.role))
        so_far = (so_far[0] + elected, so_far[1] + (not elected))
        if parts is None or so_far == parts:
            role.arrived[b] = plus(c, number(1))
        else:
            self.require(
                so_far[0] <= parts[0] and so_far[1] <= parts[1], "the role has arrived for the item before"
            )
            role.parts[b] = so_far
        self._drop_if_complete(role, b)

    def _check_lags(self, b: int, c: Poly, elected: bool, waited_barrier: int | None = None) -> None:
        """Check O4: the lags that the certificate claims hold at this arrival of one warp (`elected`) or of all warps.
        The warps that arrive are the warps that have waited, or all warps have synchronised since; one warp may arrive
        after its own wait if all warps arrive for the item, too. `waited_barrier`: check the lag after waits at this
        barrier only."""
        role, many = self.state.roles[self.role], self.layout.warps[self.role] > 1
        all_arrive = not elected or self.layout.parts.get((b, self.role), (1, 0))[1] > 0
        warps_differ = role.one_warp_ahead if all_arrive else role.warps_unordered
        for after, lag in self.layout.lags.get((b, self.role), ()):
            if waited_barrier is not None and after != waited_barrier:
                continue
            by_one_thread = (after, self.role) in self.layout.waits_of_one
            self.require(
                not (many and warps_differ and after >= 0 and by_one_thread == all_arrive),
                "all warps arrive, but only one of them has waited"
                if by_one_thread
                else "one warp arrives, but the waits of the other warps are not ordered before the arrival",
            )
            unit, unit_after = (self.layout.units.get(k, 1) for k in (b, after if after >= 0 else b))
            last = self.last_waited(after, self.role) if after >= 0 else number(self.layout.stages[b] - 1)
            margin = plus(plus(number(lag + unit_after - unit), c, -unit), last, unit_after)
            before_first = plus(number(lag - unit), c, -unit)  # no item is to be waited for
            self.require(
                self.nonnegative(margin) or (after >= 0 and self.nonnegative(before_first)),
                "the role may arrive before the end of the previous phase is proved",
            )

    def _drop_if_complete(self, role: Role, b: int) -> None:
        """Drop the bulk loads of the role on a barrier when no announced bytes are outstanding there."""
        item, count = role.outstanding_bytes[b]
        if not count and role.arrived[b] != item:
            del role.outstanding_bytes[b]
            remaining = {n: tuple(p for p in parts if p[0] != b) for n, parts in role.pending_loads.items()}
            role.pending_loads = {n: parts for n, parts in remaining.items() if parts}

    def _hand_over(self, role: Role, ring: int, c: Poly, row: HandOver) -> None:
        """Check O5 and O6 at an arrival that hands over item c: the releasing engine has no outstanding accesses of
        the item, and the accesses by threads are fenced."""
        for at, item in self._reads_in_flight(role):
            if at == ring and not row.releaser[1]:
                self.require(
                    self.nonnegative(plus(plus(item, c, -1), number(-1))),
                    "a matmul or bulk store may still read the stage",
                )
        self.require(
            (ring, None) not in role.unfenced,
            "accesses by threads may be invisible to the async proxy: a proxy fence is missing",
        )

    def copy_in(self, e: E.CopyIn) -> None:
        """A bulk copy into a stage of a ring, which must be free for the item of the barrier that counts the bytes."""
        b, role = self.layout.barrier[e.barrier], self.state.roles[self.role]
        self.require(b in role.arrived, "a copy completes on a barrier at which its role does not arrive")
        ring, n, c = self.layout.rings[e.to.buffer], self.layout.number[e.to.buffer], role.arrived[b]
        announced, count = role.outstanding_bytes.get(b, (None, 0))
        if count >= e.bytes and announced in (c, plus(c, number(-1))):
            c = announced
        else:
            self._check_lags(b, c, True)
        self.require(self.is_stage_of(e.stage, c, b), "the stage is not the stage of the item")
        self.require(
            all(
                e.to.end <= start or end <= e.to.start or self.slots_differ(stage, e.to.stage)
                for _, start, end, stage in role.pending_loads.get(n, ())
            ),
            "a bulk copy of this item is in flight",
        )
        self.require((n, None) not in role.unfenced, "a proxy fence is missing before a bulk copy")
        item = self._accessed_item(ring, e.to, ring.engine(self.role, True, True), (b, c))
        for row in ring.handovers:
            if row.own and row.acquirer == (self.role, True):
                self.require(
                    not (role.warps_unordered and self.layout.warps[self.role] > 1),
                    "other warps may still access the stage that a bulk copy writes",
                )
                for at, read_item in self._reads_in_flight(role):
                    margin = plus(plus(read_item, item, -1), number(row.reuse_distance * ring.stages - 1))
                    self.require(
                        at != n or self.nonnegative(margin), "a matmul or bulk store may still read the stage"
                    )
        self._forget_contents(ring, (n, item), -1)
        role.pending_loads[n] = (*role.pending_loads.get(n, ()), (b, e.to.start, e.to.end, e.to.stage))
        self.require(
            b not in role.outstanding_bytes or role.outstanding_bytes[b][0] == c,
            "bytes of two items are outstanding at the same time",
        )
        role.outstanding_bytes[b] = (c, role.outstanding_bytes.get(b, (c, 0))[1] - e.bytes)
        self._drop_if_complete(role, b)

    # Memory ----------------------------------------------------------------------------------------------------------

    def _reads_in_flight(self, role: Role) -> list[Key]:
        """The memory that matmuls and bulk stores in flight read."""
        keys = [k for _, keys, _ in role.pending_matmuls for k in keys] + [
            k for keys in role.bulk_groups for k in keys
        ]
        return keys + role.uncommitted_reads

    def _accessed_item(
        self, ring: Ring, at: E.Bytes, engine: Engine, copy: tuple[int, Poly] | None = None
    ) -> Poly:
        """The item of a ring that an engine accesses. O5: the engine has acquired the item, and has not released it.
        `copy`: for a bulk copy, the barrier on which it completes and the item of this barrier, which determines the
        item of the ring."""
        role = self.state.roles[self.role]
        releases = [row for row in ring.handovers if row.releaser == engine]
        self.require(releases, "no hand-over shows when accesses of the stage are complete")
        for row in releases:
            self.require(
                copy is None or row.barrier == copy[0],
                "a bulk copy completes on a barrier other than the barrier of the hand-over",
            )
        own_items = [copy[1] if copy is not None else role.arrived[row.barrier] for row in releases]
        # threads may access later items: from the next release on, or up to the last acquired item
        group = releases[0].group
        next_item = plus(releases[0].last_of(own_items[0]), number(1 - group))
        candidates = [plus(next_item, number(k)) for k in range(group if copy is not None else ring.stages)]
        if copy is None:
            for row in ring.handovers:
                if row.acquirer == engine and not row.own:
                    last = row.last_acquired(self.last_waited(row.waited_barrier, self.role))
                    candidates += [
                        plus(last, number(row.reuse_distance * ring.stages - k)) for k in range(ring.stages)
                    ]
        b, rotation = ring.handovers[0].barrier, self.rotations.get(ring.handovers[0].barrier, ())
        identical = (c for c in candidates if self.atoms.mod(plus(c, rotation), ring.stages) == at.stage)
        equal = (c for c in candidates if self.is_stage_of(at.stage, c, b, ring.stages))
        c = next(chain(identical, equal), None)
        if c is None:
            self.reject("the stage does not belong to an item that the role holds")
        for row, arrived in zip(releases, own_items, strict=True):
            self.require(
                self.nonnegative(plus(plus(c, row.last_of(arrived), -1), number(row.group - 1))),
                "the role has already handed over the stage",
            )
            self.require(
                not row.own or self.layout.number[at.buffer] not in role.pending_loads,
                "a bulk copy into the ring is in flight",
            )
        for row in ring.handovers:
            if row.acquirer == engine:
                waited = row.waited_barrier
                last = self.last_waited(waited, self.role) if not row.own else copy[1] if copy else ()
                self.require(
                    not row.own or (copy and copy[0] == row.barrier),
                    "a bulk copy completes on a barrier other than the barrier of the hand-over",
                )
                ready = plus(plus(row.last_acquired(last), c, -1), number(row.reuse_distance * ring.stages))
                if not row.own and not self.nonnegative(ready):  # items before the first one need no wait
                    first = row.last_of(number(-1))
                    ready = plus(plus(first, c, -1), number(row.reuse_distance * ring.stages))
                self.require(self.nonnegative(ready), "the stage may still be in use")
        # an item released by an arrival for the same or an earlier item of the barrier is at least 0
        self.require(
            any(row.item_shift <= 0 for row in releases) or self.nonnegative(c),
            "the item is not proved to exist",
        )
        self._check_reuse(ring, at, engine, c, copy)
        return c

    def _check_reuse(
        self, ring: Ring, at: E.Bytes, engine: Engine, c: Poly, copy: tuple[int, Poly] | None
    ) -> None:
        """Check O5 for an engine that writes a ring: its previous accesses of the stage of item c are complete."""
        order = self.layout.reuse_orders.get((self.layout.number[at.buffer], engine))
        if order is None:
            return
        if order.waited_barrier < 0:
            last = order.row.last_of(number(order.lag - 1))
        else:
            b = order.row.barrier
            x = copy[1] if copy is not None else self.state.roles[self.role].arrived[b]
            self._check_lags(b, x, copy is not None, order.waited_barrier)
            last = plus(order.row.last_of(plus(x, number(-order.lag))), number(ring.stages))
        self.require(
            self.nonnegative(plus(last, c, -1)),
            "earlier accesses of the stage by the role may not be complete",
        )

    def _use_memory(self, at: E.Bytes, write: bool = False, by_one_warp: bool = False) -> Key:
        """The memory accessed by threads or by an asynchronous read: the item of a ring, or the slot of another
        buffer. `by_one_warp`: the first warp starts the access, which is the one that waits for all."""
        ring, n = self.layout.rings.get(at.buffer), self.layout.number[at.buffer]
        if ring is None:
            return n, at.stage
        engine = ring.engine(self.role, write, False)
        by_one_thread = any(
            (row.waited_barrier, self.role) in self.layout.waits_of_one for row in ring.handovers_to(engine)
        )
        self.require(
            by_one_warp or not (by_one_thread and self.state.roles[self.role].one_warp_ahead),
            "all warps use the stage, but only one of them has waited for it",
        )
        return n, self._accessed_item(ring, at, engine)

    def access(self, e: E.MemoryAccess) -> None:
        role, v, n = self.state.roles[self.role], e.at.buffer, self.layout.number[e.at.buffer]
        ring = self.layout.rings.get(v)
        if ring is not None:
            if self.op.NAME != "buf.new":
                self.require(
                    not e.write or n not in role.pending_loads, "a bulk copy of this item is in flight"
                )
                accessed = self._use_memory(e.at, e.write)
                for read_item in (k for at, k in self._reads_in_flight(role) if e.write and at == n):
                    same_stage = is_zero(self.atoms.mod(plus(read_item, accessed[1], -1), ring.stages))
                    self.require(
                        self.state.facts.decide(same_stage) is False,
                        "memory that a bulk store or matmul in flight reads is overwritten",
                    )
                self.require(
                    not e.write or (n, None) not in role.issuer_only_reads,
                    "memory that a bulk store or matmul in flight reads is overwritten",
                )
                self._update_contents(e, ring, accessed)
            if ring.copying_roles or (e.write and ring.asynchronous):
                role.unfenced.add((n, None))
            role.warps_unordered = role.warps_unordered or self.layout.warps[self.role] > 1
        elif e.write:
            for m in self.layout.overlapping.get(v, ()):
                slot: Any = e.at.stage if m == n else -1
                for at, read_slot in (*self._reads_in_flight(role), *role.issuer_only_reads):
                    self.require(
                        at != m or self.slots_differ(slot, read_slot),
                        "memory that a bulk store or matmul in flight reads is overwritten",
                    )
                role.unfenced.add((m, slot if isinstance(slot, int) else -1))

    def _update_contents(self, e: E.MemoryAccess, ring: Ring, at: Key) -> None:
        """Update the known contents of stages: a role that acquires an item reads the number that was stored to an
        element, or to all elements, of its stage."""
        if e.write:
            stored = self.value(e.number) if e.number is not None else None
            self._forget_contents(ring, at, -1 if e.number is None else e.element)
            if stored is not None:
                self.state.contents.append((*at, e.element, stored))
        elif e.number is not None and not self.layout.uniformity.varying(e.number):
            for n, item, element, stored in self.state.contents:
                if n == at[0] and element in (-1, e.element) and self.state.facts.equal(item, at[1]):
                    self.state.roles[self.role].frames[-1].env[e.number] = stored

    def _forget_contents(self, ring: Ring, at: Key, element: int) -> None:
        """Forget the known contents of an element, or of all elements (-1), of the stage of an item."""
        self.state.contents = [
            (n, item, other, x)
            for n, item, other, x in self.state.contents
            if n != at[0]
            or (constant(plus(item, at[1], -1)) or 0) % ring.stages
            or (-1 not in (other, element) and other != element)
        ]

    def slots_differ(self, slot: Any, other: Any) -> bool:
        """Whether two slots of a buffer are known to differ; the slot -1 is the whole buffer."""
        if isinstance(slot, int) or isinstance(other, int):
            return (
                isinstance(slot, int) and isinstance(other, int) and slot != other and -1 not in (slot, other)
            )
        return self.state.facts.decide(is_zero(plus(slot, other, -1))) is False

    def _async_read(self, at: E.Bytes, own: bool, by_one_warp: bool) -> Key:
        """The memory of an asynchronous read. `own`: each warp group reads a slot that no other warp group writes;
        `by_one_warp`: the first warp starts the read."""
        role, (n, slot) = self.state.roles[self.role], self._use_memory(at, by_one_warp=by_one_warp)
        ring = self.layout.rings.get(at.buffer)
        if ring is not None:
            if self.role in ring.storing_roles:
                self.require(
                    (n, None) not in role.unfenced, "a proxy fence is missing before a bulk copy or matmul"
                )
            is_synchronised = role.unsynchronised.get((n, None), 0) <= own
            self.require(
                is_synchronised, "other threads may still write memory that a bulk store or matmul reads"
            )
            return n, slot
        for m, k in role.unfenced:
            self.require(
                m != n or self.slots_differ(slot, k), "a proxy fence is missing before a bulk copy or matmul"
            )
        for (m, k), level in role.unsynchronised.items():
            is_ordered = m != n or self.slots_differ(slot, k) or level <= own
            self.require(is_ordered, "other threads may still write memory that a bulk store or matmul reads")
        return n, slot

    def fence(self, e: E.Fence) -> None:
        """A proxy fence: previous accesses are visible to the async proxy after all threads of the role have
        synchronised."""
        role, many = self.state.roles[self.role], self.layout.warps[self.role] > 1
        role.warps_unordered = role.warps_unordered or (many and any(k is None for _, k in role.unfenced))
        role.unsynchronised |= {
            (n, k): 2 for n, k in role.unfenced if many and (k is not None or self._writes_in_place(n))
        }
        role.unfenced.clear()

    def sync(self, e: E.Sync) -> None:
        """A synchronisation of all threads of a role, or of the threads of each warp group."""
        role = self.state.roles[self.role]
        if e.warp_group and self.layout.warp_groups[self.role] > 1:
            role.unsynchronised = {k: min(level, 1) for k, level in role.unsynchronised.items()}
            if isinstance(self.op, BulkStore):  # each warp group has started bulk stores from its own slots
                staging = self.layout.number[root(self.op.buffer)]
                role.issuer_only_reads = {k for k in role.issuer_only_reads if k[0] != staging}
            return
        role.unsynchronised, role.issuer_only_reads, role.warps_unordered, role.one_warp_ahead = (
            {},
            set(),
            False,
            False,
        )

    def issue(self, e: E.Issue) -> None:
        """The start of a matmul, which reads its operands until it is complete."""
        role = self.state.roles[self.role]
        reads = [self._async_read(at, False, False) for at in e.operands]
        role.issued_matmuls += 1
        role.pending_matmuls.append((role.issued_matmuls, reads, self._register_operand()))
        role.warps_unordered = role.warps_unordered or self.layout.warps[self.role] > 1

    def mma_complete(self, e: E.MmaComplete) -> None:
        """A wait after which at most `pending` matmuls of the role are in flight."""
        role = self.state.roles[self.role]
        done = max(0, len(role.pending_matmuls) - e.pending)
        self._complete_for_issuers(role, [k for _, keys, _ in role.pending_matmuls[:done] for k in keys])
        role.warps_unordered = role.warps_unordered or (done > 0 and self.layout.warps[self.role] > 1)
        role.pending_matmuls = role.pending_matmuls[done:]

    def _complete_for_issuers(self, role: Role, keys: Sequence[Key]) -> None:
        """Record memory whose asynchronous reads are complete. Only the issuing warps know this until all warps have
        synchronised."""
        for n, k in keys if self.layout.warps[self.role] > 1 else ():
            if self.layout.values[n] not in self.layout.rings:
                role.issuer_only_reads.add((n, k if isinstance(k, int) else -1))
            elif self._writes_in_place(n):
                role.issuer_only_reads.add((n, None))

    def _writes_in_place(self, ring: int) -> bool:
        """Whether threads of the role write a ring with the engine that also reads it."""
        return self.layout.rings[self.layout.values[ring]].writes((self.role, False))

    def copy_out(self, e: E.CopyOut) -> None:
        """The start of a bulk store, which reads shared memory until its bulk group is complete."""
        role = self.state.roles[self.role]
        role.uncommitted_reads.append(self._async_read(e.source, e.warp_group, not e.warp_group))
        if e.commit:
            self.commit(e)

    def commit(self, e: object) -> None:
        """The commit of a bulk group."""
        role = self.state.roles[self.role]
        role.bulk_groups.append(role.uncommitted_reads)
        role.uncommitted_reads = []

    def copies_done(self, e: E.CopiesOutDone) -> None:
        """A wait after which at most `pending` bulk groups of the waiting warp are in flight."""
        role = self.state.roles[self.role]
        done = max(0, len(role.bulk_groups) - e.pending)
        self._complete_for_issuers(role, [k for keys in role.bulk_groups[:done] for k in keys])
        role.bulk_groups = role.bulk_groups[done:]

    # Matmuls in registers -------------------------------------------------------------------------------------------

    def _register_operand(self) -> Value | None:
        """The operand of this matmul that is in registers."""
        if not isinstance(self.op, RegisterMma):
            return None
        return self.op.b if isinstance(self.op.a.type, BufType) else self.op.a

    def check_accesses_of_results(self, role: Role, op: Op) -> None:
        """Check O7: an op does not use the accumulator of a matmul in flight, unless the op is a matmul that adds to
        this tile, or a wait."""
        pending = {n for n, _, _ in role.pending_matmuls}
        operands = [*op.operands]
        if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
            operands = [op.a, op.b, op.alpha, op.beta]
        for v in () if isinstance(op, MmaWait) else operands:
            self.require(role.in_flight.get(v) not in pending, "the result of a matmul in flight is used")

    def record_in_flight(self, role: Role, op: Op) -> None:
        if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
            role.in_flight[op.result] = role.issued_matmuls
        elif isinstance(op, MmaWait):
            self.transfer_in_flight(role, zip(op.results, op.sums, strict=True))

    def execute(self, e: E.Event) -> None:
        EXECUTE[type(e)](self, e)


EXECUTE: dict[type, Any] = {
    E.Wait: Obligations.wait,
    E.Arrive: Obligations.arrive,
    E.NamedArrival: Obligations.arrive_named,
    E.NamedWait: Obligations.wait_named,
    E.CopyIn: Obligations.copy_in,
    E.MemoryAccess: Obligations.access,
    E.Fence: Obligations.fence,
    E.Sync: Obligations.sync,
    E.Issue: Obligations.issue,
    E.MmaComplete: Obligations.mma_complete,
    E.CopyOut: Obligations.copy_out,
    E.Commit: Obligations.commit,
    E.CopiesOutDone: Obligations.copies_done,
}
