"""A launch of a kernel with roles, prepared for replay in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.interp.engines.bytes import WARPS, Footprints, UnitSet
from tegula.interp.engines.limits import check_limits
from tegula.interp.engines.orders import Order
from tegula.interp.engines.run import EngineReplay, Name, TermNumbers
from tegula.interp.engines.state import Term
from tegula.interp.engines.trace import EngineStep, InvalidLaunch, Recorder, Unsupported
from tegula.interp.launch import arguments
from tegula.interp.lowered import BlockDistribution
from tegula.interp.machine import Grid
from tegula.interp.report import RunReport
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.lane import LogicalBlocks
from tegula.ops.roles import WARP, Roles
from tegula.ops.schedule import (
    BulkLoad,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedNew,
    arrivals_at,
    is_elected,
    stages_of,
)
from tegula.types import DType, MatType, MbarrierType, VecType

Program = tuple[int, int, str, list[tuple[Any, ...]]]
Require = Callable[[Sequence[Any]], None]


@dataclass(slots=True)
class PreparedKernel:
    """The launch-invariant data of a kernel: footprints, terms and distribution, and the function that refuses
    arguments with a LaunchError."""

    kernel: Kernel
    distribution: BlockDistribution
    footprints: Footprints
    terms: TermNumbers = field(default_factory=TermNumbers)
    require: Require | None = None


def prepared(
    kernel: Kernel, distribution: BlockDistribution, require: Require | None = None
) -> PreparedKernel:
    """A kernel with its memory layout and the footprints of its accesses. `require`: raises LaunchError for arguments
    for which the schedule is not proved."""
    return PreparedKernel(kernel, distribution, Footprints(distribution.allocations), require=require)


class EngineLaunch:
    """One block of a launch, or all blocks of a persistent CTA. Raises Wrong, Failed or Unsupported if the launch
    cannot run in any order, and LaunchError if it does not satisfy a guard."""

    def __init__(
        self, prepared: PreparedKernel, args: Sequence[Any], dims: Sequence[int], block: int = 0
    ) -> None:
        self.prepared, kernel = prepared, prepared.kernel
        if prepared.require is not None:
            prepared.require(args)
        check_limits(kernel, prepared.distribution)
        values = arguments(kernel, args, dims, None)
        with np.errstate(all="ignore"):
            self.roles = self._record(values, tuple(dims), block)
        self.barriers: list[tuple[str, int]] = []
        self._first: dict[Value, tuple[int, int]] = {}
        for op in kernel.walk():
            if isinstance(op, MbarrierNew | NamedNew):
                name, stages = op.result.name, stages_of(op)
                self._first[op.result] = (len(self.barriers), stages)
                self.barriers += [(f"{name}[{k}]", arrivals_at(op.result)) for k in range(stages)]
        guards = [self._guard(v) for v in self._first if isinstance(v.type, MbarrierType)]
        unit_sets = {
            s for steps in self.roles for step in steps for acts in step.acts for s in acts.unit_sets
        }
        self.cells = prepared.footprints.cells([*unit_sets, *guards])
        self.count = 1 + max((k for classes in self.cells.values() for k in classes), default=0)
        self.guarded = [k for guard in guards for k in self.cells[guard]]
        self.programs = list(self._programs())

    def run(self, order: Order, ignore_races: bool = False) -> dict[Name, Term]:
        """The terms of the bytes that the launch stores in an order. Raises ReplayFailed for a fault; with
        `ignore_races` unordered accesses are not faults."""
        replay = self.replay(order, ignore_races)
        return replay.run()

    def replay(self, order: Order, ignore_races: bool = False) -> EngineReplay:
        """The replay of the launch in an order of the steps of its engines."""
        return EngineReplay(
            self.programs, self.barriers, self.count, self.guarded, self.prepared.terms, order, ignore_races
        )

    # Steps ----------------------------------------------------------------------------------------------------------

    def _record(self, values: Sequence[Any], dims: tuple[int, ...], block: int) -> list[list[EngineStep]]:
        kernel, distribution = self.prepared.kernel, self.prepared.distribution
        lanes = kernel.launch.block_dim
        blocks = -(-math.prod(dims) // lanes)
        walks = any(isinstance(op, LogicalBlocks) for op in kernel.walk())
        grid = Grid(dims, blocks, 1 if walks else blocks)
        tid, present = grid.thread_indices(block, lanes)
        size = max((p.offset + p.size for p in distribution.allocations.values()), default=0)
        shared = np.zeros(size, np.uint8)
        used = {v for op in kernel.walk() for v in op.operands}
        report = RunReport(kernel, lambda line: None)
        roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
        if roles is None:
            raise Unsupported("a kernel without roles")
        recorder = Recorder(
            lanes, present, report, block, tid, distribution, shared, self.prepared.footprints, used
        )
        recorder.grid, recorder.blocks = grid, blocks
        recorder.env.update(zip(kernel.params, values, strict=True))
        for op in kernel.body.ops:
            if op is roles:
                break
            recorder.op(op, present)
        if recorder.created_barriers:
            name = recorder.created_barriers[0].result.name
            raise InvalidLaunch(
                "barrier", f"{name} is used before its initialisation is visible to all threads"
            )
        self.machines: list[Recorder] = []
        for region, (first, warps) in zip(roles.regions, roles.warps, strict=True):
            lane_range = slice(first * WARP, (first + warps) * WARP)
            indices = [c[lane_range] for c in tid]
            role = Recorder(
                warps * WARP,
                present[lane_range],
                report,
                block,
                indices,
                distribution,
                shared,
                self.prepared.footprints,
                used,
            )
            role.grid, role.blocks, role.slots = grid, blocks, recorder.slots
            for v, x in recorder.env.items():
                is_per_lane = isinstance(v.type, DType | VecType | MatType) or isinstance(x, list)
                role.env[v] = x[lane_range] if is_per_lane and not isinstance(x, int) else x
            role.region(region, (), role.present)
            self.machines.append(role)
        return [role.steps for role in self.machines]

    # Programs -------------------------------------------------------------------------------------------------------

    def _guard(self, barrier: Value) -> UnitSet:
        allocation, unit = self.prepared.distribution.allocations[barrier], self.prepared.footprints.unit
        return UnitSet(allocation.offset // unit, -1, allocation.size // unit)

    def _programs(self) -> Iterable[Program]:
        roles = next(op for op in self.prepared.kernel.body.ops if isinstance(op, Roles))
        rows = zip(roles.regions, roles.names, roles.warps, self.roles, strict=True)
        for r, (region, name, (_, warps), steps) in enumerate(rows):
            for w in range(1 if starts_copies_only(region) else warps):
                program: list[tuple[Any, ...]] = []
                for step in steps:
                    self._step(program, step, w)
                yield r, w, f"{name}/{w}" if warps > 1 else name, program

    def _step(self, program: list[tuple[Any, ...]], step: EngineStep, warp: int) -> None:
        """Append the acts of a warp for a step to its program."""
        has_matmul = False
        for number, acts in enumerate(step.acts):
            event, cells = acts.event, [self.cells[s] for s in acts.unit_sets]
            act: tuple[Any, ...] | None = None
            if isinstance(event, E.Wait) and not (event.elected and warp):
                act = (EngineReplay.wait, step, self._barrier(event), event.parity)
            elif isinstance(event, E.Arrive) and not (event.elected and warp):
                act = (EngineReplay.arrive, step, self._barrier(event), event.bytes)
            elif isinstance(event, E.CopyIn) and not warp:
                act = (
                    EngineReplay.copy_in,
                    step,
                    self._pieces(acts, event),
                    event.to.start,
                    self._barrier(event),
                )
            elif isinstance(event, E.MemoryAccess):
                if not cells[warp]:
                    continue
                base = event.at.start
                act = (
                    (EngineReplay.write, step, cells[warp], base, number)
                    if event.write
                    else (EngineReplay.read, step, cells[warp], base)
                )
            elif isinstance(event, E.Fence):
                act = (EngineReplay.fence, step)
            elif isinstance(event, E.Issue):
                has_matmul = True
                act = (EngineReplay.issue, step, tuple(cells), tuple(at.start for at in event.operands))
            elif isinstance(event, E.MmaComplete):
                act = (EngineReplay.mma_complete, step, event.pending)
            elif isinstance(event, E.Sync):
                act = (EngineReplay.sync, step, warp // WARPS if event.warp_group else -1, number)
            elif (
                isinstance(event, E.CopyOut) and warp % (WARPS if event.commit else len(acts.unit_sets)) == 0
            ):
                act = (EngineReplay.copy_out, step, cells[warp], event.source.start, number, event.commit)
            elif isinstance(event, E.Commit) and not warp:
                act = (EngineReplay.commit, step)
            elif isinstance(event, E.NamedArrival):
                act = (EngineReplay.arrive_named, step, self._first[event.barrier][0])
            elif isinstance(event, E.NamedWait):
                act = (EngineReplay.wait_named, step, self._first[event.barrier][0])
            elif isinstance(event, E.CopiesOutDone):
                act = (EngineReplay.stores_done, step, event.pending)
            if act is not None:
                program.append(act)
        reads = any(isinstance(a.event, E.MemoryAccess) and not a.event.write for a in step.acts)
        if not has_matmul and (step.result_slots or step.stores or reads):
            program.append((EngineReplay.finish, step))

    def _pieces(self, acts: Any, event: E.CopyIn) -> tuple[tuple[tuple[int, ...], int], ...]:
        unit, remaining = self.prepared.footprints.unit, event.bytes
        out: list[tuple[tuple[int, ...], int]] = []
        for unit_set in acts.unit_sets:
            size = min(remaining, unit_set.size * unit)
            remaining -= size
            out.append((self.cells[unit_set], size))
        return tuple(out)

    def _barrier(self, event: E.Wait | E.Arrive | E.CopyIn) -> int:
        first, stages = self._first[event.barrier]
        if not 0 <= event.stage < stages:
            raise InvalidLaunch("stage", f"stage {event.stage} of {event.barrier.name}, which has {stages}")
        return first + event.stage


def starts_copies_only(region: Region) -> bool:
    """Whether a role only starts copies, so that one warp executes the whole role."""
    return all(_can_run_in_one_warp(op) for op in region.walk())


def _can_run_in_one_warp(op: Op) -> bool:
    if isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait) or is_elected(op):
        return True
    return not getattr(op, "COOPERATIVE", True) and all(e.kind == "read" for e in op.effects())


__all__ = ["EngineLaunch", "PreparedKernel", "prepared"]
