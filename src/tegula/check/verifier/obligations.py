"""The obligations O1 to O7: the conditions that the verifier checks at each event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tegula.check.verifier.arithmetic import (
    Poly,
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

    def at_item(self, stage: Any, item: Poly, stages: int) -> bool:
        """Whether a stage is the stage of an item (O1)."""
        return self.state.facts.equal(stage, self.atoms.mod(item, stages))

    def last(self, b: int, r: int) -> Poly:
        """The last item that a role has waited for."""
        return plus(self.state.roles[r].waited[b], number(-1 - self.layout.offset.get((b, r), 0)))

    def known(self, p: Poly) -> bool:
        """Whether the facts imply that a polynomial is at least 0."""
        facts = self.state.facts
        return facts.at_least(self.atoms.rebuilt(p, facts.same) if facts.same else p)

    def wait(self, e: E.Wait) -> None:
        """A wait for an mbarrier, whose stage and parity are those of the role's next item (O1), and which ends (O3);
        or a repetition of the wait before."""
        b, role = self.layout.barrier[e.barrier], self.state.roles[self.role]
        stages, w = self.layout.stages[b], role.waited[b]
        offset = self.layout.offset.get((b, self.role), 0)
        self.require(
            offset in (0, stages), "a wait must be for its item or for the previous item in its stage"
        )

        def agrees(w: Poly) -> bool:
            parity = self.atoms.mod(plus(self.atoms.div(w, stages), number(offset // stages)), 2)
            return self.at_item(e.stage, w, stages) and self.state.facts.equal(e.parity, parity)  # type: ignore[arg-type]

        if b in role.fresh and not agrees(w):
            self.require(agrees(plus(w, number(-1))), "the stage or the parity does not belong to the item")
            return
        self.require(agrees(w), "the stage or the parity does not belong to the item")
        self._check_complete(b, plus(w, number(-offset)))
        role.waited[b] = plus(w, number(1))
        role.fresh.add(b)
        if self.layout.warps[self.role] > 1:
            role.ahead, role.loose = role.ahead or e.elected, role.loose or not e.elected

    def _check_complete(self, b: int, item: Poly) -> None:
        """Check O3: all arrivers have arrived for the item, and no bytes of it or of earlier items are outstanding."""
        arrivers = self.layout.arrivers[b]
        arrived_in = (plus(self.state.roles[q].arrived[b], plus(item, number(1)), -1) for q in arrivers)
        if not (arrivers and all(map(self.known, arrived_in))):
            early = self.known(plus(number(-1), item, -1))
            self.require(early or arrivers, "no role arrives at the barrier of this wait")
            self.require(early, "this wait is not proved to end")
            return
        for other in (self.state.roles[q] for q in arrivers):
            if b in other.open:
                self.require(
                    self.known(plus(plus(other.open[b][0], item, -1), number(-1))),
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
        self.require(self.at_item(stage, c, self.layout.stages[b]), "the stage is not the stage of the item")
        self._check_lags(b, c, elected)
        for v, ring in self.layout.rings.items():
            for row in ring.rows:
                if row.barrier == b and row.giver[0] == self.role and ring.is_of_threads(row.giver):
                    late = many and elected and role.loose
                    self.require(
                        not late,
                        "one warp arrives for a role whose other warps may not have reached this point",
                    )
                    self._hand_over(role, self.layout.number[v], plus(c, number(-row.item)), row)
        if b in role.open:
            self.require(
                role.open[b][0] == c, "bytes of an item are outstanding at the arrival for another item"
            )
        role.open[b] = (c, role.open.get(b, (c, 0))[1] + count)
        role.arrived[b] = plus(c, number(1))
        role.fresh.clear()
        self._balance(role, b)

    def _check_lags(self, b: int, c: Poly, elected: bool, at: int | None = None) -> None:
        """Check O4: the lags that the certificate claims, or only the one after waits at the barrier `at`, hold at this
        arrival, of one warp (`elected`) or of all: the warps that arrive are those that have waited, or all have
        synchronised since."""
        role, many = self.state.roles[self.role], self.layout.warps[self.role] > 1
        warps_differ = role.loose if elected else role.ahead
        for after, lag in self.layout.lags.get((b, self.role), ()):
            if at is not None and after != at:
                continue
            by_one_thread = (after, self.role) in self.layout.waits_of_one
            self.require(
                not (many and warps_differ and after >= 0 and by_one_thread != elected),
                "all warps arrive, but only one of them has waited"
                if by_one_thread
                else "one warp arrives, but the waits of the other warps are not ordered before the arrival",
            )
            last = self.last(after, self.role) if after >= 0 else number(self.layout.stages[b] - 1)
            late = plus(plus(number(lag), c, -1), last)
            self.require(
                self.known(late), "the role may arrive before the end of the previous phase is proved"
            )

    def _balance(self, role: Role, b: int) -> None:
        item, count = role.open[b]
        if not count and role.arrived[b] != item:
            del role.open[b]
            left = {n: tuple(p for p in parts if p[0] != b) for n, parts in role.filled.items()}
            role.filled = {n: parts for n, parts in left.items() if parts}

    def _hand_over(self, role: Role, ring: int, c: Poly, row: HandOver) -> None:
        """Check O5 and O6: an arrival must not hand over an item with outstanding accesses of its engine, or memory
        that was accessed without a fence."""
        for at, item in self._read_in_flight(role):
            if at == ring and not row.giver[1]:
                self.require(
                    self.known(plus(plus(item, c, -1), number(-1))),
                    "a matmul or bulk store may still read the stage",
                )
        self.require(
            row.own or (ring, None) not in role.dirty,
            "accesses by threads may be invisible to the async proxy: a proxy fence is missing",
        )

    def copy_in(self, e: E.CopyIn) -> None:
        """A bulk copy into a stage of a ring that is free for the item of the barrier which counts the bytes."""
        b, role = self.layout.barrier[e.barrier], self.state.roles[self.role]
        self.require(b in role.arrived, "a copy completes on a barrier at which its role does not arrive")
        ring, n, c = self.layout.rings[e.to.buffer], self.layout.number[e.to.buffer], role.arrived[b]
        before = plus(c, number(-1))
        if b in role.open and role.open[b][0] == before and role.open[b][1] >= e.bytes:
            c = before
        else:
            self._check_lags(b, c, True)
        self.require(
            self.at_item(e.stage, c, self.layout.stages[b]), "the stage is not the stage of the item"
        )
        self.require(
            all(e.to.end <= start or end <= e.to.start for _, start, end in role.filled.get(n, ())),
            "a bulk copy of this item is in flight",
        )
        self.require((n, None) not in role.dirty, "a proxy fence is missing before a bulk copy")
        item = self._item(ring, e.to, ring.engine(self.role, True, True), (b, c))
        for row in ring.rows:
            if row.own and row.taker == (self.role, True):
                self.require(
                    not (role.loose and self.layout.warps[self.role] > 1),
                    "other warps may still access the stage that a bulk copy writes",
                )
                for at, held in self._read_in_flight(role):
                    excess = plus(plus(held, item, -1), number(row.later * ring.stages - 1))
                    self.require(
                        at != n or self.known(excess), "a matmul or bulk store may still read the stage"
                    )
        self._overwritten(ring, (n, item))
        role.filled[n] = (*role.filled.get(n, ()), (b, e.to.start, e.to.end))
        self.require(
            b not in role.open or role.open[b][0] == c, "bytes of two items are outstanding at the same time"
        )
        role.open[b] = (c, role.open.get(b, (c, 0))[1] - e.bytes)
        self._balance(role, b)

    # Memory ----------------------------------------------------------------------------------------------------------

    def _read_in_flight(self, role: Role) -> list[Key]:
        """The memory that matmuls and copies out in flight read."""
        keys = [k for _, keys, _ in role.flights for k in keys] + [k for keys in role.copies for k in keys]
        return keys + role.uncommitted

    def _item(self, ring: Ring, at: E.Bytes, engine: Engine, copy: tuple[int, Poly] | None = None) -> Poly:
        """The item of a ring that an engine accesses. O5: the engine has been handed the item, and has not handed it
        on. `copy`: the barrier on which the copy completes, and the item of the barrier, which tells that of the ring:
        no two of them are copies of one item."""
        role = self.state.roles[self.role]
        given_rows = [row for row in ring.rows if row.giver == engine]
        self.require(given_rows, "no hand-over shows when accesses of the stage are complete")
        for row in given_rows:
            self.require(
                copy is None or row.barrier == copy[0],
                "a bulk copy completes on a barrier other than the barrier of the hand-over",
            )
        own_items = [copy[1] if copy is not None else role.arrived[row.barrier] for row in given_rows]
        near = [plus(own_items[0], number(-given_rows[0].item))]
        if (
            copy is None
        ):  # the item may be later then: counted from the next hand-over, or from the last hand-over to the engine
            near += [plus(near[0], number(k)) for k in range(1, ring.stages)]
            for row in ring.rows:
                if row.taker == engine and not row.own:
                    last = plus(self.last(row.barrier, self.role), number(row.later * ring.stages - row.item))
                    near += [plus(last, number(-k)) for k in range(ring.stages)]
        is_equal_in_cluster = (c for c in near if self.atoms.mod(c, ring.stages) == at.stage)
        c = next(
            chain(is_equal_in_cluster, (c for c in near if self.at_item(at.stage, c, ring.stages))), None
        )
        if c is None:
            self.reject("the stage does not belong to an item that the role holds")
        for row, arrived in zip(given_rows, own_items, strict=True):
            self.require(
                self.known(plus(plus(c, arrived, -1), number(row.item))),
                "the role has already handed over the stage",
            )
            self.require(
                not row.own or self.layout.number[at.buffer] not in role.filled,
                "a bulk copy into the ring is in flight",
            )
        for row in ring.rows:
            if row.taker == engine:
                last = self.last(row.barrier, self.role) if not row.own else copy[1] if copy else ()
                self.require(
                    not row.own or (copy and copy[0] == row.barrier),
                    "a bulk copy completes on a barrier other than the barrier of the hand-over",
                )
                ready = plus(plus(last, c, -1), number(row.later * ring.stages - row.item))
                self.require(self.known(ready), "the stage may still be in use")
        # An item handed over at the arrival for the same item, or an earlier one, is at least 0.
        self.require(
            any(row.item <= 0 for row in given_rows) or self.known(c), "the item is not proved to exist"
        )
        self._check_reuse(ring, at, engine, c, copy)
        return c

    def _check_reuse(
        self, ring: Ring, at: E.Bytes, engine: Engine, c: Poly, copy: tuple[int, Poly] | None
    ) -> None:
        """Check O5 for an engine that writes a ring: its earlier accesses of the stage of item c are complete."""
        turn = self.layout.turns.get((self.layout.number[at.buffer], engine))
        if turn is None:
            return
        item = plus(c, number(turn.item))
        if turn.after < 0:
            excess = plus(number(turn.total - 1), item, -1)
        else:
            x = copy[1] if copy is not None else self.state.roles[self.role].arrived[turn.barrier]
            self._check_lags(turn.barrier, x, copy is not None, turn.after)
            excess = plus(plus(x, item, -1), number(ring.stages - turn.total))
        self.require(self.known(excess), "earlier accesses of the stage by the role may not be complete")

    def _use_memory(self, at: E.Bytes, write: bool = False) -> Key:
        """The memory accessed by threads or by an asynchronous read: the item of a ring, or the slot of another
        buffer."""
        ring, n = self.layout.rings.get(at.buffer), self.layout.number[at.buffer]
        if ring is None:
            return n, at.stage
        engine = ring.engine(self.role, write, False)
        by_one_thread = any(
            (row.barrier, self.role) in self.layout.waits_of_one for row in ring.taken(engine)
        )
        self.require(
            not (by_one_thread and self.state.roles[self.role].ahead),
            "all warps use the stage, but only one of them has waited for it",
        )
        return n, self._item(ring, at, engine)

    def access(self, e: E.MemoryAccess) -> None:
        role, v, n = self.state.roles[self.role], e.at.buffer, self.layout.number[e.at.buffer]
        ring = self.layout.rings.get(v)
        if ring is not None:
            if self.op.NAME != "buf.new":
                self.require(not e.write or n not in role.filled, "a bulk copy of this item is in flight")
                used = self._use_memory(e.at, e.write)
                for held in (k for at, k in self._read_in_flight(role) if e.write and at == n):
                    same = is_zero(self.atoms.mod(plus(held, used[1], -1), ring.stages))
                    self.require(
                        self.state.facts.decide(same) is False,
                        "memory that a bulk store or matmul in flight reads is overwritten",
                    )
                self.require(
                    not e.write or (n, None) not in role.unknown,
                    "memory that a bulk store or matmul in flight reads is overwritten",
                )
                self._number(e, ring, used)
            if ring.copied or (e.write and ring.accessed):
                role.dirty.add((n, None))
            role.loose = role.loose or self.layout.warps[self.role] > 1
        elif e.write:
            for m in self.layout.overlapping.get(v, ()):
                slot: Any = e.at.stage if m == n else -1
                for at, other in (*self._read_in_flight(role), *role.unknown):
                    self.require(
                        at != m or self.differ(slot, other),
                        "memory that a bulk store or matmul in flight reads is overwritten",
                    )
                role.dirty.add((m, slot if isinstance(slot, int) else -1))

    def _number(self, e: E.MemoryAccess, ring: Ring, at: Key) -> None:
        """Update the known contents of stages: a number stored to all elements of a stage is the number that a role
        reads after the item is handed to it."""
        if e.write:
            self._overwritten(ring, at)
            stored = self.value(e.number) if e.number is not None else None
            if stored is not None:
                self.state.contents.append((*at, stored))
        elif e.number is not None and not self.layout.known.varying(e.number):
            for n, item, stored in self.state.contents:
                if n == at[0] and self.state.facts.equal(item, at[1]):
                    self.state.roles[self.role].frames[-1].env[e.number] = stored

    def _overwritten(self, ring: Ring, at: Key) -> None:
        """Forget the known contents of the stage of an item."""
        self.state.contents = [
            (n, item, x)
            for n, item, x in self.state.contents
            if n != at[0] or (constant(plus(item, at[1], -1)) or 0) % ring.stages
        ]

    def differ(self, slot: Any, other: Any) -> bool:
        """Whether two slots of a buffer are known to differ; -1 stands for all slots."""
        if isinstance(slot, int) or isinstance(other, int):
            return (
                isinstance(slot, int) and isinstance(other, int) and slot != other and -1 not in (slot, other)
            )
        return self.state.facts.decide(is_zero(plus(slot, other, -1))) is False

    def _async(self, at: E.Bytes, own: bool) -> Key:
        """The memory of an asynchronous read. `own`: each warp group reads memory of its own."""
        role, (n, slot) = self.state.roles[self.role], self._use_memory(at)
        ring = self.layout.rings.get(at.buffer)
        if ring is not None:
            if self.role in ring.stored:
                self.require(
                    (n, None) not in role.dirty, "a proxy fence is missing before a bulk copy or matmul"
                )
            late = role.unmet.get((n, None), 0) > own
            self.require(not late, "other threads may still write memory that a bulk store or matmul reads")
            return n, slot
        for m, k in role.dirty:
            self.require(
                m != n or self.differ(slot, k), "a proxy fence is missing before a bulk copy or matmul"
            )
        for (m, k), level in role.unmet.items():
            far = m != n or self.differ(slot, k) or level <= own
            self.require(far, "other threads may still write memory that a bulk store or matmul reads")
        return n, slot

    def fence(self, e: E.Fence) -> None:
        """A proxy fence: earlier accesses are visible to the async proxy after all threads of the role have
        synchronised."""
        role, many = self.state.roles[self.role], self.layout.warps[self.role] > 1
        role.loose = role.loose or (many and any(k is None for _, k in role.dirty))
        role.unmet |= {(n, k): 2 for n, k in role.dirty if many and (k is not None or self._in_place(n))}
        role.dirty.clear()

    def sync(self, e: E.Sync) -> None:
        """A synchronisation of all threads of a role, or of those of each warp group."""
        role = self.state.roles[self.role]
        if e.warp_group and self.layout.warp_groups[self.role] > 1:
            role.unmet = {k: min(level, 1) for k, level in role.unmet.items()}
            if isinstance(self.op, BulkStore):  # each warp group has started bulk stores from its own slots
                staging = self.layout.number[root(self.op.buffer)]
                role.unknown = {k for k in role.unknown if k[0] != staging}
            return
        role.unmet, role.unknown, role.loose, role.ahead = {}, set(), False, False

    def issue(self, e: E.Issue) -> None:
        """The start of a matmul, which reads its operands until it is complete."""
        role = self.state.roles[self.role]
        held = [self._async(at, False) for at in e.operands]
        role.issued += 1
        role.flights.append((role.issued, held, self._in_registers()))
        role.loose = role.loose or self.layout.warps[self.role] > 1

    def mma_complete(self, e: E.MmaComplete) -> None:
        """A wait after which at most `pending` matmuls of the role are in flight."""
        role = self.state.roles[self.role]
        done = max(0, len(role.flights) - e.pending)
        self._complete_for_issuers(role, [k for _, keys, _ in role.flights[:done] for k in keys])
        role.loose = role.loose or (done > 0 and self.layout.warps[self.role] > 1)
        role.flights = role.flights[done:]

    def _complete_for_issuers(self, role: Role, keys: Sequence[Key]) -> None:
        """Record memory whose asynchronous reads are complete, a fact known to the issuing warps alone until all warps
        have synchronised."""
        for n, k in keys if self.layout.warps[self.role] > 1 else ():
            if self.layout.values[n] not in self.layout.rings:
                role.unknown.add((n, k if isinstance(k, int) else -1))
            elif self._in_place(n):
                role.unknown.add((n, None))

    def _in_place(self, ring: int) -> bool:
        """Whether threads of the role write a ring that they do not fill: the same engine reads what they write."""
        return self.layout.rings[self.layout.values[ring]].writes((self.role, False))

    def copy_out(self, e: E.CopyOut) -> None:
        """The start of a bulk store from shared memory, which reads until its bulk group is complete."""
        role = self.state.roles[self.role]
        role.uncommitted.append(self._async(e.source, e.warp_group))
        if e.commit:
            self.commit(e)

    def commit(self, e: object) -> None:
        """The commit of a bulk group."""
        role = self.state.roles[self.role]
        role.copies.append(role.uncommitted)
        role.uncommitted = []

    def copies_done(self, e: E.CopiesOutDone) -> None:
        """A wait after which at most `pending` bulk groups of the waiting warp are in flight."""
        role = self.state.roles[self.role]
        done = max(0, len(role.copies) - e.pending)
        self._complete_for_issuers(role, [k for keys in role.copies[:done] for k in keys])
        role.copies = role.copies[done:]

    # Matmuls in registers -------------------------------------------------------------------------------------------

    def _in_registers(self) -> Value | None:
        """The operand of this matmul that is in registers."""
        if not isinstance(self.op, RegisterMma):
            return None
        return self.op.b if isinstance(self.op.a.type, BufType) else self.op.a

    def check_accesses_of_results(self, role: Role, op: Op) -> None:
        """Check O7: an op uses no tile that a matmul in flight works on, unless the op is a matmul that adds to the
        tile, or a wait."""
        open_ = {n for n, _, _ in role.flights}
        used = [*op.operands]
        if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
            used = [op.a, op.b, op.alpha, op.beta]
        for v in () if isinstance(op, MmaWait) else used:
            self.require(role.in_flight.get(v) not in open_, "the result of a matmul in flight is used")

    def record_in_flight(self, role: Role, op: Op) -> None:
        if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
            role.in_flight[op.result] = role.issued
        elif isinstance(op, MmaWait):
            self.transfer_in_flight(role, zip(op.results, op.sums, strict=True))

    def do(self, e: E.Event) -> None:
        DO[type(e)](self, e)


DO: dict[type, Any] = {
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
