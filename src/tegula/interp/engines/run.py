"""A replay: engines execute in one order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tegula.interp.engines.orders import EARLY, RANDOM, Order
from tegula.interp.engines.state import (
    BarrierState,
    Cell,
    CopyPiece,
    Deferred,
    HappensBefore,
    InFlight,
    MmaGroup,
    ReplayFailed,
    Store,
    Term,
    Warp,
)
from tegula.interp.engines.trace import EngineStep
from tegula.ops.group import MmaWait, RegisterMma

MAX_BYTES = (1 << 20) - 1
"""The largest magnitude of a barrier's pending transaction count. PTX ISA, "mbarrier": "Contents of the mbarrier
object"."""
Name = tuple[Any, ...]
Piece = tuple[tuple[int, ...], int]


class TermNumbers:
    """The numbering of terms: the same op on the same terms has the same number. The entries of a name after the first:
    "copy" of a tile: key of the step; "made" by an op: key, index of the result, terms; "write" to a buffer: index of
    the op's write, key, terms; "matmul": key, operands in memory, terms; "stored" to an array: key, terms; "mixed"
    parts of several: offset and term of each; "in flight" and "nothing" are not values."""

    def __init__(self) -> None:
        self.numbers: dict[Name, Term] = {("nothing",): 0}

    def of(self, name: Name) -> Term:
        """The number of a term, a new one for a new name."""
        return self.numbers.setdefault(name, len(self.numbers))


class EngineReplay:
    """A run of recorded programs. `programs`: role, index, name and acts of each warp; `barriers`: name and arrivals of
    each barrier; `cells`: the number of cells; `guarded`: the cells of barriers. `ignore_races`: whether to
    continue after unordered accesses."""

    def __init__(
        self,
        programs: Sequence[tuple[int, int, str, list[tuple[Any, ...]]]],
        barriers: Sequence[tuple[str, int]],
        cells: int,
        guarded: Sequence[int],
        terms: TermNumbers,
        order: Order,
        ignore_races: bool = False,
    ) -> None:
        self.order, self.terms, self.ignore_races = order, terms, ignore_races
        self.warps = [Warp(*p) for p in programs]
        self.barriers = [BarrierState(name, count, count) for name, count in barriers]
        self.cells = [Cell() for _ in range(cells)]
        for k in guarded:
            self.cells[k].barrier = True
        self.copies: list[CopyPiece] = []
        self.transfers = 0
        self.bits = 0
        self.log: list[tuple[str, EngineStep, str]] = []
        self.syncs: dict[Name, int] = {}
        self.finals: dict[Name, Term] = {}
        self.unordered: ReplayFailed | None = None
        self.rng = random.Random(order.seed)

    # Turns ----------------------------------------------------------------------------------------------------------

    def run(self) -> dict[Name, Term]:
        """Run the replay. Returns the stored terms by role, op and iteration; raises ReplayFailed for a fault."""
        order, warps = self.order, self.warps
        ranked = [warps[k] for k in order.ranks] or list(warps)
        while True:
            progressed = False
            if not order.ranks:
                self.rng.shuffle(ranked)
            for warp in ranked:
                if self._advance(warp):
                    progressed = True
                    if RANDOM in (order.copies, order.matmuls, order.stores):
                        self._complete_randomly()
                    if order.ranks and order.turn == 1:
                        break  # warps of higher rank run next
            if not progressed and not self._complete_oldest():
                break
        stuck = [w for w in warps if w.at < len(w.program)]
        if stuck:
            raise ReplayFailed("deadlock", "; ".join(self._wait_reason(w) for w in stuck))
        ordered = 0
        for warp in warps:
            ordered |= warp.before.all
        if self.transfers & ~ordered:
            raise ReplayFailed(
                "unfinished", f"{self._access_text(self.transfers & ~ordered)} when all roles have ended"
            )
        return self.finals

    def _advance(self, warp: Warp) -> bool:
        program, acts_left = warp.program, self.order.turn
        before = warp.at
        while acts_left and warp.at < len(program):
            act, *args = program[warp.at]
            if not act(self, warp, *args):
                break
            warp.at += 1
            acts_left -= 1
        return warp.at != before

    def _complete_randomly(self) -> None:
        """Complete some copies, matmuls and stores in flight, at random, if the order is random."""
        order, rng = self.order, self.rng
        if order.copies == RANDOM:
            while self.copies and rng.random() < 0.5:
                self._complete_copy(self.copies.pop(rng.randrange(len(self.copies))))
        for warp in self.warps:
            if order.matmuls == RANDOM and warp.matmuls and rng.random() < 0.3:
                self._complete_matmul(warp.matmuls.popleft())
            if order.stores == RANDOM and warp.stores and rng.random() < 0.3:
                self._complete_stores(warp.stores.popleft())

    def _complete_oldest(self) -> bool:
        """Complete a copy in flight, else a matmul or a store, when no warp can proceed; False if nothing is in
        flight."""
        if self.copies:
            self._complete_copy(self.copies.pop(-1 if self.order.newest else 0))
            return True
        for warp in self.warps:
            if warp.matmuls:
                self._complete_matmul(warp.matmuls.popleft())
                return True
            if warp.stores:
                self._complete_stores(warp.stores.popleft())
                return True
        return False

    def _wait_reason(self, warp: Warp) -> str:
        act, step, *args = warp.program[warp.at]
        if act is EngineReplay.wait or act is EngineReplay.wait_named:
            barrier = self.barriers[args[0]]
            return (
                f"{warp.name} waits for {barrier.name}, which is in phase {barrier.phase} and lacks "
                f"{barrier.pending} arrivals and {barrier.bytes} bytes"
            )
        return f"{warp.name} waits at {step.op.NAME} for others of its role"

    # Accesses -------------------------------------------------------------------------------------------------------

    def _access(self, warp: Warp, step: EngineStep, access: str) -> int:
        bit = 1 << self.bits
        self.bits += 1
        self.log.append((warp.name, step, access))
        return bit

    def _access_text(self, mask: int) -> str:
        warp, step, access = self.log[(mask & -mask).bit_length() - 1]
        return f"{warp} {access} ({step.op.NAME}, {step.op.loc})"

    def _check_order(self, warp: Warp, step: EngineStep, access: str, before: int, fenced: int) -> None:
        """Check that the accesses `before` are complete, and that the accesses `fenced` of threads are visible to the
        async proxy."""
        if before & ~warp.before.all:
            self._unordered(
                "race",
                f"{warp.name} {access} ({step.op.NAME}), {self._access_text(before & ~warp.before.all)}",
            )
        elif fenced & ~warp.before.fenced:
            accesses = self._access_text(fenced & ~warp.before.fenced)
            self._unordered("fence", f"{warp.name} {access} ({step.op.NAME}), without a fence {accesses}")

    def _unordered(self, kind: str, text: str) -> None:
        failed = ReplayFailed(kind, text)
        if not self.ignore_races:
            raise failed
        self.unordered = self.unordered or failed

    def read(self, warp: Warp, step: EngineStep, cells: tuple[int, ...], base: int) -> bool:
        """Read cells by the threads of a warp."""
        before = 0
        bit = self._access(warp, step, "reads")
        for k in cells:
            cell = self.cells[k]
            before |= cell.written | cell.copied_in
            cell.read |= bit
        self._check_order(warp, step, "reads", before, 0)
        warp.before.all |= bit
        warp.executed |= bit
        deferred = Deferred(step, cells, base)
        if self.order.reads:
            warp.deferred.append(deferred)
            for k in cells:
                self.cells[k].deferred.append(deferred)
        else:
            self._resolve(deferred)
        warp.received.append(deferred)
        return True

    def write(self, warp: Warp, step: EngineStep, cells: tuple[int, ...], base: int, number: int) -> bool:
        """Write cells by the threads of a warp."""
        before = 0
        inputs = tuple(self._term(x) for x in self._inputs(warp, step))
        term = self.terms.of(("write", number, step.key, inputs))
        bit = self._access(warp, step, "writes")
        for k in cells:
            cell = self.cells[k]
            if cell.barrier:
                raise ReplayFailed(
                    "barrier", f"{warp.name} writes the bytes of a barrier ({step.op.NAME}, {step.op.loc})"
                )
            before |= cell.written | cell.copied_in | cell.read | cell.read_async
            for deferred in cell.deferred:
                self._resolve(deferred)
            cell.deferred.clear()
            cell.written |= bit
            cell.holds = (base, term)
            if not self.order.reads:
                cell.copies_see = cell.holds
        self._check_order(warp, step, "writes", before, 0)
        warp.unfenced.append(cells)
        warp.before.all |= bit
        warp.executed |= bit
        return True

    def fence(self, warp: Warp, step: EngineStep) -> bool:
        """A warp orders its accesses to shared memory before later asynchronous ones."""
        warp.before.fenced |= warp.executed
        for cells in warp.unfenced:
            for k in cells:
                self.cells[k].copies_see = self.cells[k].holds
        warp.unfenced.clear()
        for deferred in warp.deferred:
            self._resolve(deferred)
        warp.deferred.clear()
        return True

    def _read_async(
        self, warp: Warp, step: EngineStep, bit: int, description: str, cells: Sequence[int]
    ) -> None:
        before, fenced = 0, 0
        for k in cells:
            cell = self.cells[k]
            before |= cell.written | cell.copied_in
            fenced |= cell.written
            cell.read_async |= bit
        self.transfers |= bit
        self._check_order(warp, step, description, before, fenced)

    # Memory ---------------------------------------------------------------------------------------------------------

    def _contents(self, cells: Sequence[int], base: int, by_copies: bool) -> Term:
        """The term of the contents of a buffer at `base`: one tile, or a mix of tiles."""
        terms = [self.cells[k].copies_see if by_copies else self.cells[k].holds for k in cells]
        first = terms[0]
        if first[0] == base and all(x == first for x in terms):
            return first[1]
        return self.terms.of(("mixed", *((at - base if term else 0, term) for at, term in terms)))

    def _resolve(self, deferred: Deferred) -> Term:
        if deferred.term < 0:
            if deferred.inputs:
                inputs = tuple(self._term(x) for x in deferred.inputs)
                deferred.term = self.terms.of(("made", deferred.step.key, deferred.result, inputs))
            else:
                deferred.term = self._contents(deferred.cells, deferred.base, False) if deferred.cells else 0
        return deferred.term

    def _term(self, x: Any) -> Term:
        if isinstance(x, Deferred):
            return self._resolve(x)
        if isinstance(x, InFlight):
            return x.term if x.term >= 0 else self.terms.of(("in flight",))
        return x

    def _inputs(self, warp: Warp, step: EngineStep) -> tuple[Any, ...]:
        return (*warp.received, *(warp.values[slot] for slot in step.operand_slots.values()))

    def finish(self, warp: Warp, step: EngineStep) -> bool:
        """Finish an op whose events are all complete: record its results, or the stored value."""
        values = warp.values
        if isinstance(step.op, MmaWait):
            for slot, old in zip(step.result_slots, step.operand_slots.values(), strict=True):
                values[slot] = values[old]
            return True
        inputs = tuple(self._term(x) if isinstance(x, InFlight) else x for x in self._inputs(warp, step))
        warp.received = []
        if not step.result_slots:
            if step.stores:
                terms = tuple(self._term(x) for x in inputs)
                self.finals[(warp.role, step.op, step.turn, warp.number)] = self.terms.of(
                    ("stored", step.key, terms)
                )
            return True
        terms_known = []
        for x in inputs:
            if isinstance(x, Deferred) and x.term < 0:
                for k, slot in enumerate(step.result_slots):
                    values[slot] = Deferred(step, inputs=inputs, result=k)
                return True
            terms_known.append(self._term(x))
        for k, slot in enumerate(step.result_slots):
            values[slot] = self.terms.of(("made", step.key, k, tuple(terms_known)))
        return True

    # Barriers -------------------------------------------------------------------------------------------------------

    def wait(self, warp: Warp, step: EngineStep, at: int, parity: int) -> bool:
        """A warp waits for a phase of an mbarrier. Returns whether the phase is complete."""
        barrier = self.barriers[at]
        if barrier.phase & 1 == parity:
            return False
        warp.before.all |= barrier.ended.all
        warp.before.fenced |= barrier.ended.fenced
        return True

    def arrive(self, warp: Warp, step: EngineStep, at: int, announced: int) -> bool:
        """A warp arrives at an mbarrier, and announces bytes."""
        barrier = self.barriers[at]
        if not barrier.pending:
            raise ReplayFailed("arrivals", f"{warp.name} arrives at {barrier.name}, which lacks bytes only")
        barrier.bytes += announced
        barrier.pending -= 1
        barrier.before.all |= warp.before.all
        barrier.before.fenced |= warp.before.fenced
        self._complete_phase(barrier)
        return True

    def arrive_named(self, warp: Warp, step: EngineStep, at: int) -> bool:
        """An arrival at a named barrier, which counts warps and no bytes."""
        warp.arrived_in[at] = self.barriers[at].phase
        return self.arrive(warp, step, at, 0)

    def wait_named(self, warp: Warp, step: EngineStep, at: int) -> bool:
        """A warp waits at a named barrier. Returns whether the phase in which it arrived has ended."""
        barrier = self.barriers[at]
        if barrier.phase == warp.arrived_in[at]:
            return False
        warp.before.all |= barrier.ended.all
        warp.before.fenced |= barrier.ended.fenced
        return True

    def _complete_phase(self, barrier: BarrierState) -> None:
        if abs(barrier.bytes) > MAX_BYTES:
            raise ReplayFailed("bytes", f"{barrier.name} is {barrier.bytes} bytes short")
        if barrier.pending or barrier.bytes:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        barrier.ended = HappensBefore(barrier.before.all, barrier.before.fenced)

    def sync(self, warp: Warp, step: EngineStep, group: int, number: int) -> bool:
        """A synchronisation of the role or of one of its warp groups; the last arriving warp releases all."""
        if warp.synced:
            warp.synced = False
            return True
        participants = [
            w for w in self.warps if w.role == warp.role and (group < 0 or w.number // 4 == group)
        ]
        if any(not _is_sync(w, step, number) for w in participants):
            return False
        joined = HappensBefore()
        for w in participants:
            joined.all |= w.before.all
            joined.fenced |= w.before.fenced
        for w in participants:
            w.before = HappensBefore(joined.all, joined.fenced)
            w.synced = w is not warp
        return True

    # Copies, matmuls, stores ---------------------------------------------------------------------------------------

    def copy_in(
        self, warp: Warp, step: EngineStep, pieces: Sequence[tuple[tuple[int, ...], int]], base: int, at: int
    ) -> bool:
        """A warp starts an asynchronous copy to shared memory."""
        term = self.terms.of(("copy", step.key))
        for cells, size in pieces:
            bit = self._access(warp, step, "has a copy write")
            before, fenced = 0, 0
            for k in cells:
                cell = self.cells[k]
                if cell.barrier:
                    raise ReplayFailed("barrier", f"{warp.name} has a copy write the bytes of a barrier")
                before |= cell.written | cell.copied_in | cell.read | cell.read_async
                fenced |= cell.written | cell.read
                cell.copied_in |= bit
            self.transfers |= bit
            self._check_order(warp, step, "has a copy write", before, fenced)
            copy = CopyPiece(bit, cells, base, term, at, size)
            if self.order.copies == EARLY:
                self._complete_copy(copy)
            else:
                self.copies.append(copy)
        return True

    def _complete_copy(self, copy: CopyPiece) -> None:
        for k in copy.cells:
            cell = self.cells[k]
            cell.holds = cell.copies_see = (copy.base, copy.term)
        barrier = self.barriers[copy.at]
        barrier.bytes -= copy.bytes
        barrier.before.all |= copy.bit
        self._complete_phase(barrier)

    def issue(
        self, warp: Warp, step: EngineStep, operands: tuple[tuple[int, ...], ...], bases: tuple[int, ...]
    ) -> bool:
        """A warp starts an MMA of tensor cores."""
        bit = self._access(warp, step, "has tensor cores read")
        for cells in operands:
            self._read_async(warp, step, bit, "has tensor cores read", cells)
        result = InFlight()
        matmul = MmaGroup(step, bit, operands, bases, result, self._inputs(warp, step))
        self._overwrite(warp, matmul)
        for slot in step.result_slots:
            warp.values[slot] = result
        warp.issued.append(bit)
        warp.matmuls.append(matmul)
        if self.order.matmuls == EARLY:
            self._complete_matmul(warp.matmuls.popleft())
        return True

    def _overwrite(self, warp: Warp, matmul: MmaGroup) -> None:
        """Overwrite the register operand of the op's matmuls in flight, which is in the same registers in each
        iteration and read when the matmul executes."""
        op, operands = matmul.step.op, list(matmul.step.operand_slots)
        if not isinstance(op, RegisterMma):
            return
        k = operands.index(op.register_tile) - len(operands)
        for other in warp.matmuls:
            if other.step.op is op:
                inputs = list(other.inputs)
                inputs[k] = matmul.inputs[k]
                other.inputs = tuple(inputs)

    def _complete_matmul(self, matmul: MmaGroup) -> None:
        terms = [self._contents(c, b, True) for c, b in zip(matmul.operands, matmul.bases, strict=True)]
        inputs = tuple(self._term(x) for x in matmul.inputs)
        matmul.result.term = self.terms.of(("matmul", matmul.step.key, tuple(terms), inputs))

    def mma_complete(self, warp: Warp, step: EngineStep, pending: int) -> bool:
        """A warp waits until at most `pending` matmuls are in flight."""
        while len(warp.matmuls) > pending:
            self._complete_matmul(warp.matmuls.popleft())
        while len(warp.issued) > pending:
            warp.before.all |= warp.issued.pop(0)
        return True

    def copy_out(
        self, warp: Warp, step: EngineStep, cells: tuple[int, ...], base: int, number: int, commit: bool
    ) -> bool:
        """A warp starts an asynchronous copy from shared memory."""
        bit = self._access(warp, step, "has a copy read")
        self._read_async(warp, step, bit, "has a copy read", cells)
        name = (warp.role, step.op, step.turn, warp.number, number)
        store = Store(step, bit, cells, base, name)
        if self.order.stores == EARLY:
            self._complete_stores([store])
        warp.open.append(store)
        return self.commit(warp, step) if commit else True

    def commit(self, warp: Warp, step: EngineStep) -> bool:
        """Commit the copies out since the last commit as a group."""
        warp.started.append(sum(store.bit for store in warp.open))
        if self.order.stores != EARLY:
            warp.stores.append(warp.open)
        warp.open = []
        return True

    def _complete_stores(self, group: Sequence[Store]) -> None:
        for store in group:
            self.finals[store.name] = self._contents(store.cells, store.base, True)

    def stores_done(self, warp: Warp, step: EngineStep, pending: int) -> bool:
        """A warp waits until at most `pending` groups of its copies are in flight."""
        while len(warp.stores) > pending:
            self._complete_stores(warp.stores.popleft())
        while len(warp.started) > pending:
            warp.before.all |= warp.started.pop(0)
        return True


def _is_sync(warp: Warp, step: EngineStep, number: int) -> bool:
    """Whether a warp has arrived at a synchronisation."""
    if warp.at >= len(warp.program):
        return False
    act, at, *rest = warp.program[warp.at]
    return act is EngineReplay.sync and at is step and rest[-1] == number
