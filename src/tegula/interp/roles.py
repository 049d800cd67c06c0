"""Roles as coroutines, and the pipes between roles.

Each role has its own thread; one thread runs at a time. A role runs until it blocks on a pipe; then the next ready role
resumes. If no role is ready and some have not ended, the block is deadlocked.

In a traced kernel without releases each pop copies its tile and frees the stage immediately. In a kernel with explicit
releases, pops return views of the stages, whose contents are invalid after all consumers have released them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.errors import Deadlock, InternalError
from tegula.interp.machine import Machine, Mask, RunValue, handles
from tegula.interp.tiles import window
from tegula.ir import Op, Value
from tegula.ops.roles import (
    WARP,
    PipeLoad,
    PipeNew,
    PipePop,
    PipePush,
    PipeRelease,
    Roles,
    describe_wait_for_pipe,
    pipe_endpoints,
    pipe_type,
)
from tegula.source import Location
from tegula.types import DType, MatType, VecType


class Connected:
    """An object at which roles synchronise, with its roles."""

    __slots__ = ()

    def connect(self, roles: Op, value: Value) -> None:
        """Record the roles that use the object. `value`: its value in the IR."""


@dataclass(slots=True)
class PipeState(Connected):
    """A pipe at run time: its ring of stages, the number of fills, and for each consumer the numbers of tiles popped
    and released. `explicit`: whether ops release stages."""

    name: str
    stages: np.ndarray
    filled: int = 0
    producers: list[int] = field(default_factory=list)
    popped: dict[int, int] = field(default_factory=dict)
    released: dict[int, int] = field(default_factory=dict)
    explicit: bool = False

    def connect(self, roles: Op, value: Value) -> None:
        """Record the producers and consumers of the pipe, and whether ops release its stages."""
        self.producers, consumers = pipe_endpoints(roles, value)
        self.popped = dict.fromkeys(consumers, 0)
        self.released = dict.fromkeys(consumers, 0)
        releases = [o for o in roles.walk() if isinstance(o, PipeRelease) and o.pipe is value]
        self.explicit = any("early" not in o.attrs for o in releases)

    def blocking(self) -> list[int]:
        """The consumers that still hold, or have yet to pop, the tile in the stage that is filled next."""
        return [k for k, n in self.released.items() if self.filled - n >= len(self.stages)]

    def fill(self, tile: np.ndarray) -> None:
        """Put a tile into the next free stage."""
        self.stages[self.filled % len(self.stages)] = tile
        self.filled += 1

    def pop(self, role: int) -> np.ndarray:
        """The tile of the next full stage, for a role."""
        stage = self.stages[self.popped[role] % len(self.stages)]
        self.popped[role] += 1
        if self.explicit:
            view = stage.view()
            view.flags.writeable = False
            return view
        self.released[role] += 1
        return stage.copy()

    def release(self, role: int) -> None:
        """Free the stage that the role has held longest. A stage that no role needs any more is overwritten, so that
        late reads are detected."""
        done = self.released[role]
        self.released[role] += 1
        if done < min(self.released.values()):
            stage = self.stages[done % len(self.stages)]
            stage.view(np.uint8)[...] = 255


class Waiting(Protocol):
    """The wait condition of a role at an op."""

    op: Op

    def is_complete(self, role: int) -> bool:
        """Whether the wait is over."""
        ...

    def awaited_roles(self) -> list[int]:
        """The roles that must make progress first."""
        ...

    def text(self, role: int, name: str, awaited_roles: Sequence[tuple[str, bool]]) -> str:
        """The reason why a role is blocked, for messages. `awaited_roles`: the names of the roles that it waits for,
        and whether each has ended."""
        ...


class RoleAborted(BaseException):
    """Ends a role's thread when the launch is aborted."""


@dataclass(slots=True)
class PipeWait:
    """The wait of a role for a stage to fill or a tile to pop, at an op."""

    op: Op
    pipe: PipeState
    fills: bool

    def is_complete(self, role: int) -> bool:
        """Whether the wait is over."""
        return not self.pipe.blocking() if self.fills else self.pipe.popped[role] < self.pipe.filled

    def awaited_roles(self) -> list[int]:
        """The roles that must make progress first."""
        return self.pipe.blocking() if self.fills else self.pipe.producers

    def text(self, role: int, name: str, awaited_roles: Sequence[tuple[str, bool]]) -> str:
        """The reason why the role is blocked, for messages."""
        item = self.pipe.filled if self.fills else self.pipe.popped[role]
        return describe_wait_for_pipe(
            name, self.pipe.name, len(self.pipe.stages), self.fills, item, awaited_roles
        )


class RoleScheduler:
    """The roles of one block of a kernel."""

    def __init__(self, kernel: str, block: int, names: Sequence[str]) -> None:
        self.kernel, self.block, self.names = kernel, block, names
        self.waits: list[Waiting | None] = [None] * len(names)
        self.ended = [False] * len(names)
        self.turns = [threading.Semaphore(0) for _ in names]
        self.idle = threading.Semaphore(0)
        self.aborted = False
        self.failure: BaseException | None = None

    def run(self, bodies: Sequence[Callable[[], Any]]) -> None:
        """Run all roles to their ends; raises Deadlock if they cannot proceed."""
        threads = [
            threading.Thread(target=self._run_role, args=(k, body), daemon=True)
            for k, body in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        try:
            while not all(self.ended) and self.failure is None:
                role = self._first_ready()
                if role is None:
                    pipes = all(wait is None or isinstance(wait, PipeWait) for wait in self.waits)
                    raise Deadlock(self.kernel, self.block, self._blocked_reasons(), pipes)
                self.turns[role].release()
                self.idle.acquire()
        finally:
            self.aborted = True
            for turn in self.turns:
                turn.release()
            for thread in threads:
                thread.join()
        if self.failure is not None:
            raise self.failure

    def wait(self, role: int, wait: Waiting) -> None:
        """Suspend a role until its wait is over; called on the role's thread."""
        if wait.is_complete(role):
            return
        self.waits[role] = wait
        self.idle.release()
        self._wait_for_turn(role)
        self.waits[role] = None

    def _wait_for_turn(self, role: int) -> None:
        self.turns[role].acquire()
        if self.aborted:
            raise RoleAborted

    def _run_role(self, role: int, body: Callable[[], Any]) -> None:
        """The body of a role's thread."""
        try:
            self._wait_for_turn(role)
            with np.errstate(all="ignore"):
                body()
        except RoleAborted:
            pass
        except BaseException as error:
            self.failure = error
        finally:
            self.ended[role] = True
            self.idle.release()

    def _first_ready(self) -> int | None:
        """The first role that does not have to wait."""
        for role, wait in enumerate(self.waits):
            if not self.ended[role] and (wait is None or wait.is_complete(role)):
                return role
        return None

    def _blocked_reasons(self) -> list[tuple[Location, str]]:
        """The reasons why the roles that have not ended are blocked."""
        out: list[tuple[Location, str]] = []
        for role, wait in enumerate(self.waits):
            if wait is not None:
                awaited_roles = [(self.names[k], self.ended[k]) for k in wait.awaited_roles()]
                out.append((wait.op.loc, wait.text(role, self.names[role], awaited_roles)))
        return out


class RoleMachine(Machine):
    """The lanes of one role."""

    def __init__(self, block: Machine, role: int, scheduler: RoleScheduler, first: int, lanes: int) -> None:
        lanes_of_role = slice(first, first + lanes)
        super().__init__(
            lanes,
            block.present[lanes_of_role],
            block.report,
            block.block,
            [component[lanes_of_role] for component in block.tid],
        )
        self.grid, self.blocks = block.grid, block.blocks
        self.role, self.scheduler, self.lane_range = role, scheduler, lanes_of_role

    def own(self, value: Value, x: RunValue) -> RunValue:
        """The per-lane value in the role of a value computed before the roles."""
        per_lane = isinstance(value.type, DType | VecType | MatType) or isinstance(x, list)
        return x[self.lane_range] if per_lane else x


@handles(Roles)
def run_roles(m: Machine, op: Roles, mask: Mask, make: type[RoleMachine] = RoleMachine) -> None:
    for value, x in m.env.items():
        if isinstance(x, Connected):
            x.connect(op, value)
    scheduler = RoleScheduler(m.report.kernel.name, m.block, op.names)
    bodies: list[Callable[[], Any]] = []
    for role, (region, (first, warps)) in enumerate(zip(op.regions, op.warps, strict=True)):
        machine = make(m, role, scheduler, first * WARP, warps * WARP)
        for operand in (v for inner in region.walk() for v in inner.operands):
            if operand in m.env:
                machine.env[operand] = machine.own(operand, m.env[operand])
        bodies.append(partial(machine.region, region, (), machine.present))
    scheduler.run(bodies)


def role_machine(m: Machine, op: Op) -> RoleMachine:
    """The machine as a RoleMachine; InternalError for other machines."""
    if not isinstance(m, RoleMachine):
        raise InternalError(f"{op.loc}: {op.NAME} outside of a role")
    return m


@handles(PipeNew)
def run_new(m: Machine, op: PipeNew, mask: Mask) -> Any:
    t = pipe_type(op.type)
    assert isinstance(t.dtype, DType)
    return PipeState(op.results[0].name, m.zeros(t.dtype, t.stages, *t.shape))


@handles(PipeLoad)
def run_load(m: Machine, op: PipeLoad, mask: Mask) -> None:
    pipe = _free_stage(m, op)
    inside, at = window(m, op, op.tile, op.array, op.offset)
    tile = np.zeros(op.tile.shape, pipe.stages.dtype)
    tile[inside] = m.group(op.array)[at]
    pipe.fill(tile.reshape(pipe_type(op.pipe.type).shape))


@handles(PipePush)
def run_push(m: Machine, op: PipePush, mask: Mask) -> None:
    _free_stage(m, op).fill(m.env[op.tile])


def _free_stage(m: Machine, op: PipeLoad | PipePush) -> PipeState:
    pipe, role = m.env[op.pipe], role_machine(m, op)
    role.scheduler.wait(role.role, PipeWait(op, pipe, True))
    return pipe


@handles(PipePop)
def run_pop(m: Machine, op: PipePop, mask: Mask) -> Any:
    pipe, role = m.env[op.pipe], role_machine(m, op)
    role.scheduler.wait(role.role, PipeWait(op, pipe, False))
    return pipe.pop(role.role)


@handles(PipeRelease)
def run_release(m: Machine, op: PipeRelease, mask: Mask) -> None:
    pipe = m.env[op.pipe]
    if pipe.explicit:
        pipe.release(role_machine(m, op).role)
