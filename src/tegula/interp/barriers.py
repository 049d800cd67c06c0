"""Memory barriers, named barriers and asynchronous copies of kernels that schedule by hand. Copies are complete when
they have been started; whoever reads or writes too early is found by the checker, not here."""

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
from tegula.ops.schedule import BulkLoad, arriving, waiting_at
from tegula.types import element_bytes


@dataclass(slots=True)
class Stage:
    """A barrier of one stage: the number of its phase, the arrivals that the phase lacks, and the bytes that were
    announced in it and have not come."""

    pending: int
    phase: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Barriers(Connected):
    """Barriers that count `arrivals`. `roles`: those that arrive at them."""

    name: str
    arrivals: int
    stages: list[Stage]
    roles: list[int] = field(default_factory=list)

    def connect(self, roles: Op, value: Value) -> None:
        self.roles = arriving(roles, value)

    def arrive(self, stage: int, times: int, bytes: int = 0) -> None:
        """Arrivals, the first of which announces bytes."""
        at = self.stages[stage]
        at.bytes += bytes
        for _ in range(times):
            at.pending -= 1
            self.settle(at)

    def settle(self, at: Stage) -> None:
        """The phase ends when nothing of it is still to come."""
        if at.pending == 0 and at.bytes == 0:
            at.pending, at.phase = self.arrivals, at.phase + 1


@dataclass(slots=True)
class BarrierWait:
    """A wait for the end of phase `phase` of a stage, -1 of a named barrier."""

    op: Op
    barriers: Barriers
    stage: int
    phase: int

    def over(self, role: int) -> bool:
        """As barriers tell it, which know parities only."""
        return (self.barriers.stages[self.stage].phase ^ self.phase) & 1 == 1

    def others(self) -> list[int]:
        return self.barriers.roles

    def text(self, role: int, name: str, others: Sequence[tuple[str, bool]]) -> str:
        return waiting_at(name, self.barriers.name, self.stage, self.phase, others)


@handles("mbarrier.new")
def run_new(m: Machine, op: Op, mask: Mask) -> Any:
    n = op.attrs["arrivals"]
    return Barriers(op.results[0].name, n, [Stage(n) for _ in range(op.attrs["stages"])])


@handles("named.new")
def run_named_new(m: Machine, op: Op, mask: Mask) -> Any:
    n = op.attrs["warps"]
    return Barriers(op.results[0].name, n, [Stage(n)])


def _stage(m: Machine, op: Op, position: int = 0) -> tuple[Barriers, int]:
    """The barriers that an op names from operand `position` on, and the stage; that of a wrong number is the first."""
    barriers, stage = m.env[op.operands[position]], int(m.group(op.operands[position + 1]))
    if not 0 <= stage < len(barriers.stages):
        m.report.out_of_bounds(op, op.operands[position], (stage,), (len(barriers.stages),), m.block, 0)
        stage = 0
    return barriers, stage


def _warps(role: RoleMachine, op: Op) -> int:
    return 1 if op.attrs.get("elected") else role.lanes // WARP


@handles("mbarrier.arrive")
def run_arrive(m: Machine, op: Op, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    barriers.arrive(stage, _warps(role_machine(m, op), op))


@handles("mbarrier.expect")
def run_expect(m: Machine, op: Op, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    barriers.arrive(stage, 1, op.attrs["bytes"])


@handles("mbarrier.wait")
def run_wait(m: Machine, op: Op, mask: Mask) -> None:
    barriers, stage = _stage(m, op)
    role, phase = role_machine(m, op), barriers.stages[stage].phase
    if phase & 1 == int(m.group(op.operands[2])) & 1:
        role.crew.wait(role.role, BarrierWait(op, barriers, stage, phase))


@handles("named.arrive", "named.sync")
def run_meet(m: Machine, op: Op, mask: Mask) -> None:
    barriers, role = m.env[op.operands[0]], role_machine(m, op)
    phase = barriers.stages[0].phase
    barriers.arrive(0, _warps(role, op))
    if op.NAME == "named.sync":
        role.crew.wait(role.role, _Meeting(op, barriers, -1, phase))


class _Meeting(BarrierWait):
    def over(self, role: int) -> bool:
        return self.barriers.stages[0].phase != self.phase


@handles("bulk.load")
def run_load(m: Machine, op: Op, mask: Mask) -> None:
    assert isinstance(op, BulkLoad)
    barriers, stage = _stage(m, op, 1)
    target = m.group(op.operands[0])
    t = buffer_type(op.operands[0].type)
    inside, at = window(m, op, t.tile, op.operands[3], op.offset)
    tile = np.zeros(t.shape, target.dtype)
    tile[inside] = m.group(op.operands[3])[at]
    target[...] = tile
    barriers.stages[stage].bytes -= t.tile.size * element_bytes(t.dtype)
    barriers.settle(barriers.stages[stage])


@handles("pair.end", "pair.other")
def run_alone(m: Machine, op: Op, mask: Mask) -> Any:
    """Blocks are by themselves."""
    return m.env[op.operands[0]]


@handles("bulk.put")
def run_put(m: Machine, op: Op, mask: Mask) -> None:
    t = buffer_type(op.operands[0].type)
    inside, at = window(m, op, t.tile, op.operands[1], op.operands[2:])
    m.group(op.operands[1])[at] = m.group(op.operands[0])[inside]


@handles("bulk.commit", "bulk.prefetch", "bulk.wait", "fence.async", "launch.next")
def run_nothing(m: Machine, op: Op, mask: Mask) -> None:
    """Copies are complete at once."""
