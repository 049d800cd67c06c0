"""A simulation of a launch of a schedule on integers. Barriers count arrivals and bytes; copies, matmuls and stores
complete at any time; vector clocks record which engines have synchronised with which accesses. The threads of a role
run in lockstep; an arrival of an elected thread publishes only accesses of other threads before the last
synchronisation of the role.

The simulation reads the text of kernels, and shares no code with the compiler, the checker or the interpreter."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from support.attacks.translate import (
    Barriers,
    NamedBarrier,
    Pipe,
    Refused,
    Ring,
    Schedule,
    StageView,
    Tile,
    schedule,
)

EARLY, LATE, RANDOM = "early", "late", "random"
MAX_EVENTS = 400_000
Clock = dict[Any, int]


class Fault(Exception):
    """A fault of a schedule. `kind`: deadlock, race, fence, arrivals, bytes, unwritten, unfinished or stage."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class TooManyEvents(Exception):
    """Raised if a launch has more events than the limit."""


def join(a: Clock, b: Clock) -> None:
    for engine, t in b.items():
        if a.get(engine, 0) < t:
            a[engine] = t


class KnownComplete:
    """A vector clock of the events that are known to be complete, and of the events that are fenced."""

    __slots__ = ("all", "fenced")

    def __init__(self, all: Clock | None = None, fenced: Clock | None = None) -> None:
        self.all: Clock = all or {}
        self.fenced: Clock = fenced or {}

    def join(self, other: KnownComplete) -> None:
        join(self.all, other.all)
        join(self.fenced, other.fenced)

    def copy(self) -> KnownComplete:
        return KnownComplete(dict(self.all), dict(self.fenced))


class Barrier:
    """One stage of a barrier. `key`: the entry of vector clocks that counts its completed phases."""

    def __init__(self, count: int, key: Any) -> None:
        self.count = self.pending = count
        self.key, self.phase, self.bytes = key, 0, 0
        self.arrived, self.published = KnownComplete(), KnownComplete()

    def arrive(self, known: KnownComplete, weight: int, announced: int = 0) -> None:
        for _ in range(weight):
            if not self.pending:
                raise Fault("arrivals", f"one arrival too many at {self.key}")
            self.pending -= 1
            self.bytes += announced
            self.arrived.join(known)
            self.complete_phase()

    def complete_phase(self) -> None:
        if abs(self.bytes) >= 1 << 20:
            raise Fault("bytes", f"the phase of {self.key} lacks {self.bytes} bytes")
        if not self.pending and not self.bytes:
            self.phase += 1
            self.pending = self.count
            self.arrived.all[self.key] = self.phase
            self.published = self.arrived.copy()


class Access:
    """An access of a stage. `engine`, `time`: an engine knows the access if its clock for `engine` is at least `time`;
    `role`: the index of the role of the accessing threads, or -1 for copies and tensor cores."""

    __slots__ = ("engine", "role", "time")

    def __init__(self, engine: Any, time: int, role: int = -1) -> None:
        self.engine, self.time, self.role = engine, time, role


NEVER = 1 << 60


class Copy:
    """An asynchronous copy into a stage."""

    def __init__(self, access: Access, barrier: Barrier, size: int) -> None:
        self.access, self.barrier, self.size = access, barrier, size


class Cell:
    """The accesses of a stage of a shared tile."""

    __slots__ = ("reads", "written")

    def __init__(self) -> None:
        self.written: Access | None = None
        self.reads: list[Access] = []


class Item:
    """An item of a pipe."""

    __slots__ = ("completed", "known", "popped", "value")

    def __init__(self, known: KnownComplete, completed: bool, value: Any) -> None:
        self.known, self.completed, self.popped, self.value = known, completed, False, value


class PipeState:
    def __init__(self, pipe: Pipe) -> None:
        self.pipe, self.items, self.push_count, self.first = pipe, deque[Item](), 0, 0
        self.pop_counts = dict.fromkeys(pipe.consumers, 0)
        self.release_clocks = [KnownComplete() for _ in range(pipe.stages)]


class Role:
    """The state of a role. `known`: the events that the role knows; `synced`: its clock at the last synchronisation of
    its threads; `matmuls`, `completed_matmuls`: the numbers of issued and of completed matmuls; `committed_groups`,
    `completed_groups`: the numbers of committed and of completed groups of stores; `uncommitted`: the number of stores
    in no group."""

    def __init__(self, number: int, warps: int, steps: Any) -> None:
        self.number, self.warps, self.steps = number, warps, steps
        self.known = KnownComplete({number: 0}, {number: 0})
        self.synced = self.matmuls = self.completed_matmuls = self.committed_groups = (
            self.completed_groups
        ) = self.uncommitted = 0
        self.arrived_in: dict[NamedBarrier, int] = {}
        self.next: Any = None
        self.ended = False


class Run:
    """A simulation of a launch in one order. `copies`: when copies complete, EARLY, LATE or RANDOM."""

    def __init__(
        self, result: Schedule, args: dict[str, Any], seed: int, copies: str, block: int, blocks: int
    ) -> None:
        self.rng, self.copies = random.Random(seed), copies
        steps = result.roles(args, block, blocks)
        self.roles = [Role(k, result.warps[k], s) for k, s in enumerate(steps)]
        self.barriers: dict[Any, list[Barrier]] = {}
        self.names: dict[NamedBarrier, Barrier] = {}
        self.cells: dict[tuple[Ring, int], Cell] = {}
        self.pipes: dict[Pipe, PipeState] = {}
        self.in_flight: list[Copy] = []
        self.incomplete: list[Item] = []
        self.completed: list[Copy] = []
        self.events = 0

    # Order ------------------------------------------------------------------------------------------------------------

    def run(self, ranks: list[int] | None) -> None:
        """Run the launch. Raises Fault, TooManyEvents or Refused. `ranks`: the roles in order of priority, or None for
        a random order."""
        for role in self.roles:
            self._advance(role, None)
        while True:
            order = [self.roles[k] for k in ranks] if ranks else self.rng.sample(self.roles, len(self.roles))
            max_steps = NEVER if ranks else self.rng.choice((1, 1, 3, 20))
            progressed = False
            for role in order:
                progressed |= self._run_role(role, max_steps)
                if progressed and ranks:
                    break
            if self.copies == RANDOM:
                progressed |= self._complete_some()
            if not progressed and not self._complete_one():
                break
        waiting = [r.number for r in self.roles if not r.ended]
        if waiting:
            raise Fault("deadlock", "; ".join(f"role {k} at {self.roles[k].next[0]}" for k in waiting))
        self._check_completion()

    def _run_role(self, role: Role, max_steps: int) -> bool:
        progressed = False
        while max_steps and not role.ended:
            self.events += 1
            if self.events > MAX_EVENTS:
                raise TooManyEvents
            name, elected, args, keywords = role.next
            done, result = OPERATIONS[name](self, role, elected, *args, **keywords)
            if not done:
                break
            progressed, max_steps = True, max_steps - 1
            self._advance(role, result)
        return progressed

    def _advance(self, role: Role, result: Any) -> None:
        try:
            role.next = role.steps.send(result)
        except StopIteration:
            role.ended = True

    def _complete_some(self) -> bool:
        before = len(self.in_flight) + len(self.incomplete)
        while self.in_flight and self.rng.random() < 0.5:
            self._complete(self.in_flight.pop(self.rng.randrange(len(self.in_flight))))
        while self.incomplete and self.rng.random() < 0.5:
            self.incomplete.pop(self.rng.randrange(len(self.incomplete))).completed = True
        return len(self.in_flight) + len(self.incomplete) < before

    def _complete_one(self) -> bool:
        if self.in_flight:
            self._complete(self.in_flight.pop(0))
            return True
        if self.incomplete:
            self.incomplete.pop(0).completed = True
            return True
        return False

    def _complete(self, copy: Copy) -> None:
        copy.access.time = copy.barrier.phase + 1
        copy.barrier.bytes -= copy.size
        self.completed.append(copy)
        copy.barrier.complete_phase()

    def _check_completion(self) -> None:
        """Check, after all roles have ended, that all asynchronous operations are complete and that a role has waited
        for each."""
        for role in self.roles:
            if (
                role.completed_matmuls < role.matmuls
                or role.completed_groups < role.committed_groups
                or role.uncommitted
            ):
                raise Fault("unfinished", f"role {role.number} ended with matmuls or stores in flight")
        while self._complete_one():
            pass
        for copy in self.completed:
            if not any(r.known.all.get(copy.barrier.key, 0) >= copy.access.time for r in self.roles):
                raise Fault("unfinished", f"no role waited for a copy at {copy.barrier.key}")
        for state in self.pipes.values():
            if state.pipe.fetched and any(not item.popped for item in state.items):
                raise Fault("unfinished", "no role waited for a copy to a pipe")

    # Accesses ---------------------------------------------------------------------------------------------------------

    def _cell(self, view: StageView) -> Cell:
        if view.stage >= view.ring.shape[0]:
            raise Fault("stage", f"stage {view.stage} of {view.ring.shape[0]}")
        return self.cells.setdefault((view.ring, view.stage), Cell())

    def _ordered(self, role: Role, access: Access | None, fenced: bool) -> None:
        """Check that a role knows an access to be complete and, if `fenced`, that accesses of threads are visible to
        copies and tensor cores."""
        if access is None:
            return
        known = role.known
        if access.role != role.number and known.all.get(access.engine, 0) < access.time:
            raise Fault("race", f"role {role.number} has not synchronised with {access.engine}")
        if fenced and access.role >= 0 and known.fenced.get(access.engine, 0) < access.time:
            raise Fault("fence", f"no fence between threads of role {access.role} and role {role.number}")

    def _new_access(self, role: Role) -> Access:
        role.known.all[role.number] += 1
        return Access(role.number, role.known.all[role.number], role.number)

    def read(self, role: Role, elected: bool, view: StageView) -> tuple[bool, Any]:
        cell = self._cell(view)
        if cell.written is None:
            raise Fault("unwritten", f"stage {view.stage}")
        self._ordered(role, cell.written, False)
        cell.reads.append(self._new_access(role))
        return True, Tile()

    def write(self, role: Role, elected: bool, view: StageView, value: Any) -> tuple[bool, Any]:
        cell = self._cell(view)
        for access in (cell.written, *cell.reads):
            self._ordered(role, access, False)
        cell.written, cell.reads = self._new_access(role), []
        return True, None

    def _read_async(self, role: Role, view: StageView, access: Access) -> None:
        cell = self._cell(view)
        if cell.written is None:
            raise Fault("unwritten", f"stage {view.stage}")
        self._ordered(role, cell.written, True)
        cell.reads.append(access)

    def store_element(
        self, role: Role, elected: bool, array: Any, index: Any, value: Any
    ) -> tuple[bool, Any]:
        """A store to an element of an array; no order is required."""
        array[index] = value
        return True, None

    def load(
        self,
        role: Role,
        elected: bool,
        array: Any,
        view: StageView,
        offset: Any = None,
        barrier: Any = None,
        stage: int = 0,
    ) -> tuple[bool, Any]:
        cell, barrier_state = self._cell(view), self._stage_barrier(barrier, stage)
        for access in (cell.written, *cell.reads):
            self._ordered(role, access, True)
        copy = Copy(Access(barrier_state.key, NEVER), barrier_state, view.bytes)
        cell.written, cell.reads = copy.access, []
        if self.copies == EARLY:
            self._complete(copy)
        else:
            self.in_flight.append(copy)
        return True, None

    def fence(self, role: Role, elected: bool) -> tuple[bool, Any]:
        role.known.fenced[role.number] = role.known.all[role.number]
        return True, None

    # Barriers ---------------------------------------------------------------------------------------------------------

    def _stage_barrier(self, barriers: Barriers, stage: int) -> Barrier:
        if barriers not in self.barriers:
            number = len(self.barriers)
            self.barriers[barriers] = [Barrier(barriers.count, (number, k)) for k in range(barriers.stages)]
        if not 0 <= stage < barriers.stages:
            raise Fault("stage", f"stage {stage} of {barriers.stages} barriers")
        return self.barriers[barriers][stage]

    def wait(self, role: Role, elected: bool, barriers: Barriers, stage: int, phase: int) -> tuple[bool, Any]:
        barrier_state = self._stage_barrier(barriers, stage)
        if barrier_state.phase & 1 == phase & 1:
            return False, None
        role.known.join(barrier_state.published)
        return True, None

    def arrive(self, role: Role, elected: bool, barriers: Barriers, stage: int = 0) -> tuple[bool, Any]:
        barrier_state = self._stage_barrier(barriers, stage)
        barrier_state.arrive(self._published(role, elected), 1 if elected else role.warps)
        return True, None

    def expect(
        self, role: Role, elected: bool, barriers: Barriers, stage: int, size: int
    ) -> tuple[bool, Any]:
        self._stage_barrier(barriers, stage).arrive(self._published(role, True), 1, size)
        return True, None

    def _published(self, role: Role, elected: bool) -> KnownComplete:
        """The clock that an arrival publishes; an arrival of an elected thread publishes events of other threads up to
        their last synchronisation."""
        if not elected or role.warps == 1:
            return role.known
        known = role.known.copy()
        known.all[role.number] = min(known.all[role.number], role.synced)
        known.fenced[role.number] = min(known.fenced[role.number], role.synced)
        return known

    def _named(self, named: NamedBarrier) -> Barrier:
        return self.names.setdefault(named, Barrier(named.warps, ("named", len(self.names))))

    def named_arrive(self, role: Role, elected: bool, named: NamedBarrier) -> tuple[bool, Any]:
        self._named(named).arrive(role.known, role.warps)
        return True, None

    def named_sync(self, role: Role, elected: bool, named: NamedBarrier) -> tuple[bool, Any]:
        barrier_state = self._named(named)
        if named not in role.arrived_in:
            role.arrived_in[named] = barrier_state.phase
            barrier_state.arrive(role.known, role.warps)
        if barrier_state.phase == role.arrived_in[named]:
            return False, None
        del role.arrived_in[named]
        role.known.join(barrier_state.published)
        role.synced = role.known.all[role.number]
        return True, None

    # Matmuls and copies out -------------------------------------------------------------------------------------------

    def matmul(
        self, role: Role, elected: bool, a: Any, b: Any, sum: Tile, wait: bool = True
    ) -> tuple[bool, Any]:
        views = [x for x in (a, b) if isinstance(x, StageView)]
        if not all(view.ring.units for view in views):
            for view in views:
                self.read(role, elected, view)
            return True, None
        role.matmuls += 1
        for view in views:
            self._read_async(role, view, Access(("matmuls", role.number), role.matmuls))
        sum.matmul = role.matmuls
        return self.matmul_wait(role, elected) if wait else (True, None)

    def matmul_wait(self, role: Role, elected: bool, pending: int = 0) -> tuple[bool, Any]:
        role.completed_matmuls = max(role.completed_matmuls, role.matmuls - pending)
        role.known.all["matmuls", role.number] = role.completed_matmuls
        return True, None

    def store(
        self, role: Role, elected: bool, array: Any, view: StageView, offset: Any = None
    ) -> tuple[bool, Any]:
        role.uncommitted += 1
        self._read_async(role, view, Access(("stores", role.number), role.committed_groups + 1))
        return True, None

    def commit(self, role: Role, elected: bool) -> tuple[bool, Any]:
        role.committed_groups, role.uncommitted = role.committed_groups + 1, 0
        return True, None

    def store_wait(self, role: Role, elected: bool, pending: int = 0, read: bool = False) -> tuple[bool, Any]:
        role.completed_groups = max(role.completed_groups, role.committed_groups - pending)
        role.known.all["stores", role.number] = role.completed_groups
        return True, None

    # Pipes ------------------------------------------------------------------------------------------------------------

    def _state(self, pipe: Pipe) -> PipeState:
        if pipe not in self.pipes:
            self.pipes[pipe] = PipeState(pipe)
        return self.pipes[pipe]

    def pipe_load(self, role: Role, elected: bool, pipe: Pipe, array: Any) -> tuple[bool, Any]:
        return self._fill(role, pipe, 0)

    def pipe_push(self, role: Role, elected: bool, pipe: Pipe, tile: Tile) -> tuple[bool, Any]:
        return self._fill(role, pipe, tile.value)

    def _fill(self, role: Role, pipe: Pipe, value: Any) -> tuple[bool, Any]:
        state = self._state(pipe)
        if state.push_count - min(state.pop_counts.values()) >= pipe.stages:
            return False, None
        role.known.join(state.release_clocks[state.push_count % pipe.stages])
        is_pending = pipe.fetched and self.copies != EARLY
        item = Item(role.known.copy(), not is_pending, value)
        state.items.append(item)
        state.push_count += 1
        if is_pending:
            self.incomplete.append(item)
        return True, None

    def pipe_pop(self, role: Role, elected: bool, pipe: Pipe) -> tuple[bool, Any]:
        state = self._state(pipe)
        index = state.pop_counts[role.number] - state.first
        if index >= len(state.items) or not state.items[index].completed:
            return False, None
        item = state.items[index]
        item.popped = True
        role.known.join(item.known)
        state.release_clocks[state.pop_counts[role.number] % pipe.stages].join(role.known)
        state.pop_counts[role.number] += 1
        while state.first < min(state.pop_counts.values()):
            state.items.popleft()
            state.first += 1
        return True, Tile(item.value)

    def pipe_release(self, role: Role, elected: bool, pipe: Pipe) -> tuple[bool, Any]:
        return True, None


OPERATIONS: dict[str, Callable[..., tuple[bool, Any]]] = {
    "read": Run.read, "put": Run.store_element, "write": Run.write, "mbarrier_wait": Run.wait,
    "mbarrier_arrive": Run.arrive,
    "mbarrier_expect_bytes": Run.expect, "tile_load_async": Run.load, "tile_store_async": Run.store,
    "store_commit": Run.commit, "store_wait": Run.store_wait, "fence_async": Run.fence,
    "named_barrier_sync": Run.named_sync, "named_barrier_arrive": Run.named_arrive, "tile_pipe_load": Run.pipe_load,
    "tile_pipe_push": Run.pipe_push, "tile_pipe_pop": Run.pipe_pop, "tile_pipe_release": Run.pipe_release,
    "tile_matmul": Run.matmul, "tile_matmul_wait": Run.matmul_wait,
}  # fmt: skip


def fault(
    text: str, args: dict[str, Any], orders: int = 8, seed: int = 0, block: int = 0, blocks: int = 1
) -> str:
    """The first fault in the first `orders` orders of a launch, or "". Raises Refused and TooManyEvents."""
    result = schedule(text)
    ranks = list(range(len(result.warps)))
    rng = random.Random(seed)
    for k in range(orders):
        priorities = [ranks, ranks[::-1], None, None][k % 4]
        if k >= 4 and priorities:
            priorities = rng.sample(ranks, len(ranks))
        try:
            Run(
                result,
                args,
                rng.randrange(1 << 30),
                (LATE, EARLY, LATE, RANDOM)[(k + k // 4) % 4],
                block,
                blocks,
            ).run(priorities)
        except Fault as e:
            return str(e)
    return ""


__all__ = ["Fault", "Refused", "TooManyEvents", "fault"]
