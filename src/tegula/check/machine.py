"""A simulation of concurrent roles, each of which runs until it blocks. One simulation decides for all interleavings,
because a waiting role resumes as soon as the phase of its wait is complete. A role is simulated by its first two warps
and, if it has several warp groups, by its last warp; the last simulated warp also represents the warps that are not
simulated. Vector clocks record which events of other warps happen before the current event, so one simulation finds the
races of all interleavings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any

from tegula.check.ending import check_end, deadlock
from tegula.check.memory import Access, Clock, Memory, Race
from tegula.check.state import Phase, Role, Warp, named, warp_weights
from tegula.check.unroll import Trace
from tegula.check.verdict import Refuted, Step
from tegula.dataclass import dataclass, replace
from tegula.ir import Op, Value
from tegula.ops import events as E
from tegula.source import Location
from tegula.types import BufType

Notes = tuple[tuple[Location, str], ...]


@dataclass(slots=True)
class Fill:
    """The fills of a stage: the role that fills it, the step and event of the last fill (`number`), and the number of
    complete phases of each barrier before the last fill (`completed_waits`). `free_barriers`: the barriers at which the
    producer waits for a free stage: one more phase of them completes between consecutive fills."""

    role: int
    number: tuple[int, int]
    completed_waits: dict[int, int]
    free_barriers: list[int] | None = None


class Run:
    """The simulation of a kernel's roles in one launch, with their barriers and their shared memory."""

    def __init__(
        self,
        roles: Sequence[Role],
        traces: Sequence[Trace],
        barriers: Sequence[tuple[Value, int, int]],
        memory: Memory,
        record: bool = False,
    ) -> None:
        """Create a simulation. `barriers`: each with its stages and arrivals, named barriers with one stage. `record`:
        whether to record the steps for a counterexample."""
        self.roles, self.traces, self.memory = roles, traces, memory
        self.steps: list[Step] = []
        self.record = record
        self.parity_fault: Refuted | None = None
        """The fault of a wait with the parity of another phase; it takes precedence over later faults, which are its
        consequences."""
        self.possible_fault: Refuted | None = None
        """A fault that has no consequence in this interleaving, but may have one in another interleaving."""
        self.waits = 0
        self.fills: dict[tuple[Value, int], Fill] = {}
        self.phases: list[Phase] = []
        self.bases: dict[Value, int] = {}
        weights = [warp_weights(role) for role in roles]
        warps = sum(map(len, weights))
        width = 4 * warps + sum(stages for _, stages, _ in barriers)
        for barrier, stages, arrivals in barriers:
            self.bases[barrier] = len(self.phases)
            for stage in range(stages):
                entry = 4 * warps + len(self.phases)
                self.phases.append(
                    Phase(barrier, stage, arrivals, entry, pending=arrivals, clock=[0] * width)
                )
        self.warps: list[Warp] = []
        for r, weights_of_role in enumerate(weights):
            for k, weight in enumerate(weights_of_role):
                e = 4 * len(self.warps)
                self.warps.append(Warp(r, weight, k, e, e + 1, e + 2, e + 3, [0] * width))

    def simulate(self) -> None:
        """Run all roles to their ends; raise Refuted at the first fault."""
        try:
            self._simulate()
        except Refuted as e:
            raise self.parity_fault or e from e

    def _simulate(self) -> None:
        while True:
            progressed = [self._advance(warp) for warp in self.warps]
            if not any(progressed):
                break
        if any(not self.ended(warp) for warp in self.warps):
            raise deadlock(self)
        check_end(self)

    def ended(self, warp: Warp) -> bool:
        """Whether a warp has executed all steps of its role's trace."""
        return warp.step >= len(self.traces[warp.role].steps)

    def _advance(self, warp: Warp) -> bool:
        """Run a warp until it blocks, and return whether the warp has executed an event or a step."""
        steps, progressed = self.traces[warp.role].steps, False
        while warp.step < len(steps):
            done = steps[warp.step]
            while warp.event < len(done.events):
                event = done.events[warp.event]
                if not _EXECUTE[type(event)](self, warp, done.op, event):
                    return progressed
                warp.event += 1
                progressed = True
            warp.event = 0
            warp.step += 1
            progressed = True
        return progressed

    # Barriers --------------------------------------------------------------------------------------------------------

    def phase(self, op: Op, barrier: Value, stage: int) -> tuple[int, Phase]:
        """The index and the phase of one stage of a barrier; Refuted where the barrier has fewer stages."""
        count = len(self.phases)
        at = self.bases[barrier] + stage
        if stage < 0 or at >= count or self.phases[at].barrier is not barrier:
            raise Refuted(
                "stage",
                f"{op.NAME} uses stage {stage} of {barrier.name or 'a barrier'}, which has fewer stages",
                op.loc,
                "a stage is the number of the item modulo the number of stages",
            )
        return at, self.phases[at]

    def wait(self, warp: Warp, op: Op, event: E.Wait) -> bool:
        """Execute a wait for a phase of an mbarrier; False while the phase is incomplete; Refuted where the parity
        aliases another phase."""
        if event.elected and warp.number:
            return True
        at, phase = self.phase(op, event.barrier, event.stage)
        before = warp.waits.get(at, 0)
        awaited = before - warp.first_parity.setdefault(at, event.parity)
        is_previous = awaited & 1 != event.parity
        if is_previous:
            self.parity_fault = self.parity_fault or Refuted(
                "phase",
                f"{self.name_of_warp(warp)} waits for parity {event.parity} of {named(phase)}, but its wait number "
                f"{before + 1} must be for phase {awaited}, of parity {awaited & 1}",
                op.loc,
                "flip the parity of the wait each time the stage index returns to 0",
            )
            awaited -= 1
        if phase.number == awaited:
            return False
        if phase.number != awaited + 1:
            raise self._aliased(warp, op, phase, awaited)
        if not is_previous:
            warp.waits[at] = before + 1
        warp.completed_waits.pop(at, None)
        warp.completed_waits[at] = awaited + 1
        if awaited >= 0:
            _join(warp.clock, phase.clocks_of_phases[awaited])
            warp.known_waits |= phase.known_waits_of_phases[awaited]
        self._tick(warp)
        self.waits += 1
        bit = 1 << self.waits
        warp.known_waits |= bit
        phase.waits_of_phases.setdefault(awaited, []).append((warp, bit))
        self.note(
            warp,
            op,
            f"passes phase {awaited}" if awaited >= 0 else "passes before the first phase",
            phase,
            awaited,
        )
        return True

    def _aliased(self, warp: Warp, op: Op, phase: Phase, awaited: int) -> Refuted:
        """The fault of a wait whose parity matches a phase other than the awaited one."""
        warp_name = self.name_of_warp(warp)
        if phase.number < awaited:
            text = (
                f"parity lets {warp_name}, which waits for phase {awaited} of {named(phase)}, pass in phase "
                f"{phase.number}"
            )
        else:
            text = f"phase {awaited + 1} of {named(phase)} ends before {warp_name} has waited for phase {awaited}"
        return Refuted(
            "aliasing",
            text,
            op.loc,
            "a role that waits for phase n must also arrive for phase n + 2, or the parity aliases",
            _notes_at(phase.last, "the phase ends here"),
        )

    def arrive(self, warp: Warp, op: Op, event: E.Arrive) -> bool:
        """Execute an arrival at an mbarrier, by each warp that this warp represents or, if elected, by the role's first
        warp alone."""
        if event.elected and warp.number:
            return True
        self._arrive(warp, op, event, 1 if event.elected else warp.weight)
        return True

    def arrive_named(self, warp: Warp, op: Op, event: E.NamedArrival) -> bool:
        """Execute an arrival at a named barrier, by each warp that this warp represents."""
        self._arrive(warp, op, E.Arrive(event.barrier, 0), warp.weight)
        return True

    def wait_named(self, warp: Warp, op: Op, event: E.NamedWait) -> bool:
        """Execute a wait at a named barrier for the phase of the warp's last arrival; False while the phase is
        incomplete."""
        at, phase = self.phase(op, event.barrier, 0)
        own = warp.arrivals[at]
        if phase.number == own:
            return False
        _join(warp.clock, phase.clocks_of_phases[own])
        warp.known_waits |= phase.known_waits_of_phases[own]
        self._tick(warp)
        self.note(warp, op, f"passes synchronisation {own}", phase, own)
        return True

    def _arrive(self, warp: Warp, op: Op, event: E.Arrive, weight: int) -> None:
        at, phase = self.phase(op, event.barrier, event.stage)
        last = warp.arrivals.get(at, -1)
        known = self._completes_before(warp, phase, phase.number - 1)
        if not (known or last >= phase.number - 1) or weight > phase.pending:
            raise self._miscounted(warp, op, phase, last)
        if not known and last != phase.number:
            self.possible_fault = self.possible_fault or Refuted(
                "arrivals",
                f"{self.name_of_warp(warp)} arrives for phase {phase.number} of {named(phase)}, which is not ordered "
                f"after the end of phase {phase.number - 1}",
                op.loc,
                "arrive once for each item, after a wait for the phase before",
                _notes_at(phase.last, "an arrival before it"),
            )
        warp.arrivals[at] = phase.number
        self._tick(warp)
        _join(phase.clock, warp.clock)
        phase.known_waits |= warp.known_waits
        phase.pending -= weight
        phase.announced += event.bytes
        phase.last = op
        self.note(warp, op, _arrival_text(event, weight), phase, phase.number)
        self._complete_phase(phase, op)

    def _counts_copy(self, warp: Warp, at: int, phase: Phase) -> bool:
        """Whether the current phase counts a bulk copy that a warp starts now, in all interleavings: the warp has
        already arrived in the phase, or the end of the previous phase happens before the copy."""
        return (
            phase.number == 0
            or warp.arrivals.get(at, -1) == phase.number
            or warp.clock[phase.entry] >= phase.number
        )

    def _completes_before(self, warp: Warp, phase: Phase, number: int) -> bool:
        """Whether a phase completes before a warp's current step in all interleavings: the warp has waited for the
        phase, or all arrivals of a phase without bytes happen before the step."""
        if warp.clock[phase.entry] > number:
            return True
        if any(counted == number for counted, _ in phase.copies):
            return False
        rows = enumerate(zip(warp.clock, phase.clocks_of_phases[number], strict=True))
        return all(known >= moment for k, (known, moment) in rows if k != phase.entry)

    def _miscounted(self, warp: Warp, op: Op, phase: Phase, last: int) -> Refuted:
        """The fault of an arrival that the barrier does not count. `last`: the phase of the warp's previous arrival."""
        warp_name, phase_name = self.name_of_warp(warp), named(phase)
        if last < phase.number - 1:
            message = f"phase {last + 1} of {phase_name} has ended without an arrival of {warp_name}"
            help = f"the barrier counts {phase.count}: count the warps of all roles that arrive"
        elif last == phase.number:
            message = f"{warp_name} arrives twice in phase {last} of {phase_name}, which counts {phase.count} arrivals"
            help = "arrive once for each item, after a wait for the phase before"
        else:
            message = f"{phase_name} counts {phase.count} arrivals in phase {phase.number}, but {warp_name} arrives too"
            help = "count the warps of all roles that arrive, each once for each item"
        return Refuted("arrivals", message, op.loc, help, _notes_at(phase.last, "an arrival before it"))

    def copy_in(self, warp: Warp, op: Op, event: E.CopyIn) -> bool:
        """Start a bulk load into shared memory by the role's first warp; Refuted where another phase may count the
        bytes."""
        if warp.number:
            return True
        at, phase = self.phase(op, event.barrier, event.stage)
        if not self._counts_copy(warp, at, phase):
            raise Refuted(
                "bytes",
                f"this copy of {event.bytes} bytes may arrive in phase {phase.number} of {named(phase)} or in the "
                "previous phase, which does not count it",
                op.loc,
                "announce the bytes of all copies of an item",
                _notes_at(phase.last, "announced here"),
            )
        access = Access(
            op, event.to, True, E.ASYNC, warp.role, (warp.step, warp.event), phase.entry, phase.number + 1, -1
        )
        self._record(warp, access)
        phase.copied += event.bytes
        phase.known_waits |= warp.known_waits
        phase.copies.append((phase.number, op))
        self.note(warp, op, f"starts a copy of {event.bytes} bytes", phase, phase.number)
        self._complete_phase(phase, op)
        return True

    def _complete_phase(self, phase: Phase, op: Op) -> None:
        """Complete a phase when none of its arrivals and bytes is outstanding."""
        if phase.pending:
            return
        if phase.copied > phase.announced:
            raise Refuted(
                "bytes",
                f"{phase.copied} bytes are copied for phase {phase.number} of {named(phase)}, "
                f"{phase.announced} are announced",
                op.loc,
                "announce the bytes of all copies of an item",
                _notes_at(phase.last, "announced here"),
            )
        if phase.copied < phase.announced:
            return
        for warp, bit in phase.waits_of_phases.get(phase.number - 1, ()):
            if not phase.known_waits & bit:
                raise self._aliased(warp, self._waiting(warp, phase), phase, phase.number - 1)
        phase.clock[phase.entry] = phase.number + 1
        phase.clocks_of_phases.append(list(phase.clock))
        phase.known_waits_of_phases.append(phase.known_waits)
        phase.number += 1
        phase.pending, phase.announced, phase.copied = phase.count, 0, 0

    def _waiting(self, warp: Warp, phase: Phase) -> Op:
        """The last wait of a warp for a barrier."""
        steps = self.traces[warp.role].steps
        for done in reversed(steps[: warp.step + 1]):
            for event in done.events:
                if isinstance(event, E.Wait) and (event.barrier, event.stage) == (phase.barrier, phase.stage):
                    return done.op
        assert phase.last is not None
        return phase.last

    # Memory ----------------------------------------------------------------------------------------------------------

    def access(self, warp: Warp, op: Op, event: E.MemoryAccess) -> bool:
        """Execute an access of shared memory by the threads of a warp, and of the warp groups that it represents."""
        self._tick(warp)
        moment = warp.clock[warp.entry]
        for at in self._slots(warp, event.at) if event.warp_group else (event.at,):
            access = Access(
                op,
                at,
                event.write,
                E.GENERIC,
                warp.role,
                (warp.step, warp.event),
                warp.entry,
                moment,
                warp.fences,
            )
            self._record(warp, access)
        return True

    def _slots(self, warp: Warp, first: E.Bytes) -> Iterator[E.Bytes]:
        """The slots of the warp groups that a warp represents, derived from the slot of the first warp group."""
        groups, t = max(1, self.roles[warp.role].group.warp_groups), first.buffer.type
        assert isinstance(t, BufType)
        slot_size = t.shape[0] // groups * (first.end - first.start)
        for g in range(1, groups) if _is_in_other_warp_group(warp) else (0,):
            yield replace(first, start=first.start + g * slot_size, end=first.end + g * slot_size)

    def _record(self, warp: Warp, access: Access) -> None:
        if not access.write and access.at.stage >= 0 and self.memory.has_uninitialised(access.at):
            raise Refuted(
                "unwritten",
                f"{self.name_of_warp(warp)} reads {_address_text(access.at)}, which is uninitialised",
                access.op.loc,
                "fill the stage before it is read",
            )
        barrier = self.memory.barrier_in(access.at)
        if barrier is not None:
            raise Refuted(
                "budget",
                f"{barrier.name} overlaps {access.at.buffer.name or 'a buffer'} in shared memory",
                access.op.loc,
                "allocate the barrier at another offset",
            )
        if access.at.stage >= 0:
            self._check_release(warp, access)
        race = self.memory.record(access, warp.clock)
        if self.record:
            self.note(warp, access.op, _access_text(access), None)
        if race is not None:
            raise self._race(race)

    def _check_release(self, warp: Warp, access: Access) -> None:
        """Check that a stage is read between its fill and its release. A role has released the stage if it has arrived
        once per fill at the barrier where the producer waits for a free stage."""
        key = (access.at.buffer, access.at.stage)
        fill = self.fills.get(key)
        if access.write:
            if fill is None:
                self.fills[key] = Fill(access.role, access.number, dict(warp.completed_waits))
            elif fill.number != access.number:
                advanced = [
                    at for at, n in warp.completed_waits.items() if n == fill.completed_waits.get(at, 0) + 1
                ]
                free_barriers = (
                    advanced
                    if fill.free_barriers is None
                    else [at for at in advanced if at in fill.free_barriers]
                )
                self.fills[key] = Fill(fill.role, access.number, dict(warp.completed_waits), free_barriers)
            return
        if fill is None or fill.role == access.role:
            return
        arrives = self.roles[access.role].arrives
        free_barriers = [at for at in fill.free_barriers or () if self.phases[at].barrier in arrives]
        if (
            free_barriers
            and warp.arrivals.get(free_barriers[-1], -1) >= fill.completed_waits[free_barriers[-1]]
        ):
            self.possible_fault = self.possible_fault or Refuted(
                "stage",
                f"{self.name_of_warp(warp)} reads {_address_text(access.at)} after its release",
                access.op.loc,
                "use the stage of the item that was waited for",
                _notes_at(self.phases[free_barriers[-1]].last, "released here"),
            )

    def _race(self, race: Race) -> Refuted:
        first, second = race.first, race.second
        address = _address_text(second.at)
        second_access = f"{self.roles[second.role].name} {_access_text(second)}"
        before = f"{self.roles[first.role].name} {_access_text(first)} before"
        if race.fence:
            message = f"{address}: {second_access}, without a proxy fence in between"
            help = "call tg.fence_async() in the threads that accessed the memory, before they arrive"
            return Refuted("fence", message, second.op.loc, help, ((first.op.loc, before),))
        message = f"{address}: {second_access} while another access may be in progress"
        help = _remedy(first, second)
        other = (
            f"{self.roles[first.role].name} {_access_text(first)}, without an order between the two accesses"
        )
        return Refuted("race", message, second.op.loc, help, ((first.op.loc, other),))

    def fence(self, warp: Warp, op: Op, event: E.Fence) -> bool:
        """Execute a proxy fence: the warp's clock records that the fence follows all accesses of the warp so far."""
        warp.clock[warp.fences] = warp.clock[warp.entry]
        return True

    # Matmuls and bulk stores  -----------------------------------------------------------------------------------------

    def issue(self, warp: Warp, op: Op, event: E.Issue) -> bool:
        """Start a matmul, which reads shared memory until it is complete."""
        warp.started_matmuls += 1
        for at in event.operands:
            access = Access(
                op,
                at,
                False,
                E.ASYNC,
                warp.role,
                (warp.step, warp.event),
                warp.matmuls,
                warp.started_matmuls,
                -1,
            )
            self._record(warp, access)
        return True

    def mma_complete(self, warp: Warp, op: Op, event: E.MmaComplete) -> bool:
        """Execute a wait after which at most `pending` matmuls of the warp are in flight."""
        warp.clock[warp.matmuls] = max(warp.clock[warp.matmuls], warp.started_matmuls - event.pending)
        self.note(warp, op, f"waits until at most {event.pending} matmuls are in flight", None)
        return True

    def copy_out(self, warp: Warp, op: Op, event: E.CopyOut) -> bool:
        """Start a bulk store from shared memory, which reads until its bulk group is complete."""
        if warp.number and not (event.warp_group and _is_in_other_warp_group(warp)):
            return True
        group, warp.open = warp.copied + 1, not event.commit
        for at in self._slots(warp, event.source) if event.warp_group else (event.source,):
            access = Access(
                op, at, False, E.ASYNC, warp.role, (warp.step, warp.event), warp.copies, group, -1
            )
            self._record(warp, access)
        warp.copied += event.commit
        return True

    def commit(self, warp: Warp, op: Op, event: E.Commit) -> bool:
        """Commit the open bulk group of the role's first warp."""
        if not warp.number:
            warp.copied, warp.open = warp.copied + 1, False
        return True

    def copies_done(self, warp: Warp, op: Op, event: E.CopiesOutDone) -> bool:
        """Execute a wait after which at most `pending` bulk groups of the warp are in flight."""
        warp.clock[warp.copies] = max(warp.clock[warp.copies], warp.copied - event.pending)
        return True

    def sync(self, warp: Warp, op: Op, event: E.Sync) -> bool:
        """Synchronise warps: early warps block until the last one arrives."""
        participants = [
            w
            for w in self.warps
            if w.role == warp.role and not (event.warp_group and _is_in_other_warp_group(w))
        ]
        if warp not in participants:
            return True
        if warp.synced:
            warp.synced = False
            return True
        if any((w.step, w.event) != (warp.step, warp.event) for w in participants):
            return False
        known = [max(column) for column in zip(*(w.clock for w in participants), strict=True)]
        known_waits = reduce(or_, (w.known_waits for w in participants))
        for w in participants:
            w.clock[:], w.known_waits = known, known_waits
            w.synced = w is not warp
        return True

    # Messages ---------------------------------------------------------------------------------------------------------

    def _tick(self, warp: Warp) -> None:
        warp.clock[warp.entry] += 1

    def name_of_warp(self, warp: Warp) -> str:
        """The name of a warp in messages: its role, or "a warp of" the role where several warps are simulated."""
        role = self.roles[warp.role]
        return role.name if len(warp_weights(role)) == 1 else f"a warp of {role.name}"

    def note(self, warp: Warp, op: Op, text: str, phase: Phase | None, number: int = -1) -> None:
        """Append a step of a warp to the counterexample, if steps are recorded."""
        if not self.record:
            return
        role = self.roles[warp.role].name
        if phase is None:
            self.steps.append(Step(role, op.NAME, op.loc, text))
        else:
            self.steps.append(Step(role, op.NAME, op.loc, text, phase.barrier.name, phase.stage, number))


def _is_in_other_warp_group(warp: Warp) -> bool:
    """Whether a warp is outside the warp group of its role's first warp."""
    return warp.number == 2


def _join(clock: Clock, other: Clock) -> None:
    clock[:] = map(max, clock, other)


def _address_text(at: E.Bytes) -> str:
    name = at.buffer.name or "a buffer"
    return f"{name}[{at.stage}]" if at.stage >= 0 else name


def _access_text(access: Access) -> str:
    texts = {
        (True, E.ASYNC): "has a copy write it",
        (False, E.ASYNC): "has tensor cores or a copy read it",
        (True, E.GENERIC): "writes it",
        (False, E.GENERIC): "reads it",
    }
    return texts[access.write, access.proxy]


def _remedy(first: Access, second: Access) -> str:
    if not first.write and first.proxy == E.ASYNC:
        return "wait for the asynchronous read before the stage is released or overwritten"
    if not first.write:
        return "release the stage after its last use, and wait for the release before the next fill"
    return "wait for the full barrier of the stage before its first use"


def _arrival_text(event: E.Arrive, weight: int) -> str:
    if event.bytes:
        return f"arrives and announces {event.bytes} bytes"
    return "arrives" if weight == 1 else f"arrives with {weight} warps"


def _notes_at(op: Op | None, text: str) -> Notes:
    return ((op.loc, text),) if op is not None else ()


_EXECUTE: dict[type, Callable[[Run, Warp, Op, Any], bool]] = {
    E.Wait: Run.wait,
    E.Arrive: Run.arrive,
    E.CopyIn: Run.copy_in,
    E.MemoryAccess: Run.access,
    E.Fence: Run.fence,
    E.Issue: Run.issue,
    E.MmaComplete: Run.mma_complete,
    E.Sync: Run.sync,
    E.CopyOut: Run.copy_out,
    E.Commit: Run.commit,
    E.NamedArrival: Run.arrive_named,
    E.NamedWait: Run.wait_named,
    E.CopiesOutDone: Run.copies_done,
}
