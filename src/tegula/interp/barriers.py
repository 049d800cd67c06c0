"""Memory barriers, named barriers and asynchronous copies of hand-written schedules. Copies are synchronous here; the
checker, not the interpreter, finds accesses before their completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.interp.machine import Machine, Mask, handles
from tegula.interp.roles import Connected, RoleMachine, role_machine
from tegula.interp.tiles import window
from tegula.ir import Op, Value
from tegula.ops.buffer import buffer_type
from tegula.ops.roles import WARP
from tegula.ops.schedule import (
    BulkCommit,
    BulkLoad,
    BulkPrefetch,
    BulkPut,
    BulkWait,
    ClusterEnd,
    ClusterPeer,
    FenceAsync,
    LaunchNext,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedArrive,
    NamedNew,
    NamedSync,
    ScheduleOp,
    arriving,
    describe_wait_at,
)
from tegula.types import element_bytes


@dataclass(slots=True)
class Stage:
    """One stage of a barrier: the phase, the pending arrivals, and the pending transaction bytes."""

    pending: int
    phase: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Barriers(Connected):
    """A ring of barriers, each with a count of `arrivals`. `roles`: the roles that arrive at the barriers."""

    name: str
    arrivals: int
    stages: list[Stage]
    roles: list[int] = field(default_factory=list)

    def connect(self, roles: Op, value: Value) -> None:
        self.roles = arriving(roles, value)

    def arrive(self, stage: int, times: int, bytes: int = 0) -> None:
        """Record arrivals at a stage; the first arrival announces bytes."""
        at = self.stages[stage]
        at.bytes += bytes
        for _ in range(times):
            at.pending -= 1
            self.complete_phase(at)

    def complete_phase(self, at: Stage) -> None:
        """Complete the phase of a stage if no arrivals and no bytes are pending."""
        if at.pending == 0 and at.bytes == 0:
            at.pending, at.phase = self.arrivals, at.phase + 1


@dataclass(slots=True)
class BarrierWait:
    """A wait for the end of phase `phase` of a stage; the stage of a named barrier is -1."""

    op: Op
    barriers: Barriers
    stage: int
    phase: int

    def is_complete(self, role: int) -> bool:
        """Whether the phase is complete, by the parity that a barrier observes."""
        return (self.barriers.stages[self.stage].phase ^ self.phase) & 1 == 1

    def awaited_roles(self) -> list[int]:
        """The roles that arrive at the barrier."""
        return self.barriers.roles

    def text(self, role: int, name: str, awaited_roles: Sequence[tuple[str, bool]]) -> str:
        """The reason why the role is blocked, for messages."""
        return describe_wait_at(name, self.barriers.name, self.stage, self.phase, awaited_roles)


@handles(MbarrierNew)
def run_new(m: Machine, op: MbarrierNew, mask: Mask) -> Any:
    n = op.arrivals
    return Barriers(op.results[0].name, n, [Stage(n) for _ in range(op.stages)])


@handles(NamedNew)
def run_named_new(m: Machine, op: NamedNew, mask: Mask) -> Any:
    n = op.warps
    return Barriers(op.results[0].name, n, [Stage(n)])


def _stage(m: Machine, op: MbarrierArrive | MbarrierExpect | MbarrierWait | BulkLoad) -> tuple[Barriers, int]:
    """The barriers of an op, and the stage. An index out of bounds is reported, and the first stage is used."""
    barriers, stage = m.env[op.barriers], int(m.group(op.stage))
    if not 0 <= stage < len(barriers.stages):
        m.report.out_of_bounds(op, op.barriers, (stage,), (len(barriers.stages),), m.block, 0)
        stage = 0
    return barriers, stage


def _warps(role: RoleMachine, op: ScheduleOp) -> int:
    return 1 if op.elected else role.lanes // WARP


@handles(MbarrierArrive)
def run_arrive(m: Machine, op: MbarrierArrive, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    barriers.arrive(stage, _warps(role_machine(m, op), op))


@handles(MbarrierExpect)
def run_expect(m: Machine, op: MbarrierExpect, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    barriers.arrive(stage, 1, op.bytes)


@handles(MbarrierWait)
def run_wait(m: Machine, op: MbarrierWait, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    role, phase = role_machine(m, op), barriers.stages[stage].phase
    if phase & 1 == int(m.group(op.parity)) & 1:
        role.scheduler.wait(role.role, BarrierWait(op, barriers, stage, phase))


@handles(NamedArrive, NamedSync)
def run_sync(m: Machine, op: NamedArrive | NamedSync, mask: Mask) -> None:
    barriers, role = m.env[op.barrier], role_machine(m, op)
    phase = barriers.stages[0].phase
    barriers.arrive(0, _warps(role, op))
    if isinstance(op, NamedSync):
        role.scheduler.wait(role.role, _NamedPhase(op, barriers, -1, phase))


class _NamedPhase(BarrierWait):
    def is_complete(self, role: int) -> bool:
        return self.barriers.stages[0].phase != self.phase


@handles(BulkLoad)
def run_load(m: Machine, op: BulkLoad, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    target = m.group(op.buffer)
    inside, at = window(m, op, op.tile, op.array, op.offset)
    tile = np.zeros(op.tile.shape, target.dtype)
    tile[inside] = m.group(op.array)[at]
    target[...] = tile.reshape(target.shape)
    barriers.stages[stage].bytes -= op.tile.size * element_bytes(op.tile.dtype)
    barriers.complete_phase(barriers.stages[stage])


@handles(ClusterEnd, ClusterPeer)
def run_own_index(m: Machine, op: ClusterEnd | ClusterPeer, mask: Mask) -> Any:
    """The index of the CTA itself, because the interpreter has no clusters."""
    return m.env[op.number]


@handles(BulkPut)
def run_put(m: Machine, op: BulkPut, mask: Mask) -> None:
    t = buffer_type(op.buffer.type)
    inside, at = window(m, op, t.tile, op.array, op.offset)
    m.group(op.array)[at] = m.group(op.buffer)[inside]


@handles(BulkCommit, BulkPrefetch, BulkWait, FenceAsync, LaunchNext)
def run_no_op(m: Machine, op: Op, mask: Mask) -> None:
    """The copy is complete when it starts, so the op does nothing."""
