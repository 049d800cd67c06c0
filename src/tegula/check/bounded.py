"""The bounded search: simulates launches of a schedule that has no proof, in search of a fault (docs/checker.md). A
fault is a counterexample; without one, nothing is known about launches that were not simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tegula.check.guards import Guard
from tegula.check.launches import Launch, launches
from tegula.check.machine import Run
from tegula.check.memory import Memory, byte_boundaries
from tegula.check.state import Role
from tegula.check.unroll import MAX_STEPS as MAX_UNROLLED_STEPS
from tegula.check.unroll import Program, TooLong, Trace, Undecided
from tegula.check.verdict import REFUTED, UNPROVED, Gap, Refuted, Step, Verdict
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.buffer import BufNew
from tegula.ops.roles import Roles
from tegula.ops.schedule import (
    BulkLoad,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedNew,
    arrivals_at,
    arrived_at,
    is_elected,
    stages_of,
)
from tegula.passes.groups import group_of
from tegula.passes.place_shared import SharedMemory
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, MbarrierType

HELP = "let loops and conditions around pipes depend on kernel arguments, shapes and block indices alone"
MAX_SHOWN_STEPS = 8
"""The maximum number of steps in the text of a counterexample."""
MAX_STEPS, TOO_LONG = 50_000, MAX_UNROLLED_STEPS // 4
"""The total number of ops of roles after which no further launch is simulated; and the number that a launch counts if
it is too long to be simulated."""
HOST_INPUTS = ("argument", "length")
"""The kinds of leaves that guards constrain."""


def explore(kernel: Kernel, compilation: GpuCompilation, gap: Gap, guards: Sequence[Guard] = ()) -> Verdict:
    """The verdict of a bounded search: refuted, with a counterexample that satisfies the guards; else unproved, with
    the gap in the proof as reason."""
    search = BoundedSearch(kernel, compilation, guards)
    verdict = search.verdict()
    if verdict is not None:
        return verdict
    unknown = search.undecided
    return Verdict(
        UNPROVED,
        message=gap.message,
        loc=gap.loc,
        help=gap.help if unknown is None else HELP,
        locations=()
        if unknown is None
        else ((unknown.loc, "the value that decides this branch or trip count is unknown in some launches"),),
        explored=search.explored,
        gap=gap,
        bounded=kernel.bounded,
    )


class BoundedSearch:
    """Unrolls launches of one kernel and simulates their roles."""

    def __init__(self, kernel: Kernel, compilation: GpuCompilation, guards: Sequence[Guard]) -> None:
        self.kernel, self.guards = kernel, guards
        self.program = Program(kernel, compilation)
        barriers = [op for op in kernel.walk() if isinstance(op, MbarrierNew | NamedNew)]
        self.barriers = [(op.result, stages_of(op), arrivals_at(op.result)) for op in barriers]
        self.roles = [_role(region, compilation.threads) for region in self.program.roles]
        self.guarded = {
            v: (allocation.offset, allocation.offset + allocation.size)
            for v, allocation in compilation.shared.allocations.items()
            if isinstance(v.type, MbarrierType)
        }
        self.cuts = byte_boundaries(_parts(compilation.shared))
        self.launches, self.steps = 0, 0
        self.undecided: Op | None = None
        """The op for which a launch could not be unrolled; None if all launches were unrolled."""

    @property
    def explored(self) -> tuple[int, int]:
        """The number of unrolled launches, and the total number of ops of roles in these launches."""
        return self.launches, self.steps

    def verdict(self) -> Verdict | None:
        """The verdict on a fault; None if no simulated launch has a fault."""
        possible_fault: Verdict | None = None
        stages, skipped_steps = sorted({n for _, n, _ in self.barriers}) or [1], 0
        for launch in launches(self.program.leaves, self.program.schedule_slice, stages, self._satisfies):
            traces: list[Trace] = []
            if skipped_steps + self.steps > MAX_STEPS:
                break
            try:
                for region in self.program.roles:
                    traces.append(self.program.trace(region, launch))
                run = self._run(traces, False)
                run.simulate()
            except TooLong:
                skipped_steps += TOO_LONG
                continue
            except Undecided as e:
                self.undecided = self.undecided or e.op
                continue
            except Refuted as e:
                return self._refuted(e, launch, traces)
            if run.possible_fault is not None and possible_fault is None:
                possible_fault = self._refuted(run.possible_fault, launch, traces)
            self.launches += 1
            self.steps += sum(len(t.steps) for t in traces)
        return possible_fault

    def _satisfies(self, launch: Launch) -> bool:
        """Whether a launch satisfies the kernel's guards."""
        known_lengths = {
            (leaf.parameter, leaf.dim): n for leaf, n in launch.lengths.items() if leaf.kind in HOST_INPUTS
        }
        return all(guard.holds(lambda leaf: known_lengths.get(leaf, 1)) for guard in self.guards)

    def _run(self, traces: Sequence[Trace], record: bool) -> Run:
        byte_boundaries = [*self.cuts, *sorted(self.program.cuts)]
        return Run(self.roles, traces, self.barriers, Memory(byte_boundaries, self.guarded), record)

    def _refuted(self, fault: Refuted, launch: Launch, traces: Sequence[Trace]) -> Verdict:
        return refuted(fault, self._counterexample(traces, fault), launch.row(self.kernel), self.explored)

    def _counterexample(self, traces: Sequence[Trace], fault: Refuted) -> tuple[Step, ...]:
        """The last steps of the counterexample that concern the ops which the fault names."""
        if len(traces) < len(self.roles):
            return ()
        run = self._run(traces, True)
        with suppress(Refuted):
            run.simulate()
        locations = {fault.loc, *(loc for loc, _ in fault.locations)}
        stages = {(s.barrier, s.stage) for s in run.steps if s.loc in locations and s.barrier}
        last = run.steps[-1:] if run.steps and run.steps[-1].stage < 0 else []
        relevant = [s for s in run.steps if s.loc in locations or (s.barrier, s.stage) in stages]
        return tuple([*relevant[-MAX_SHOWN_STEPS:], *(s for s in last if s not in relevant)])


def refuted(
    e: Refuted,
    steps: tuple[Step, ...] = (),
    launch: tuple[tuple[str, int], ...] = (),
    explored: tuple[int, int] = (0, 0),
) -> Verdict:
    """The verdict on a schedule with a fault."""
    return Verdict(REFUTED, e.kind, e.message, e.loc, e.help, e.locations, steps, launch, explored)


def _role(region: Region, threads: int) -> Role:
    roles = region.parent
    name = roles.names[roles.roles.index(region)] if isinstance(roles, Roles) else "the block"
    one_warp = isinstance(roles, Roles) and starts_copies_only(region)
    return Role(name, group_of(region, threads), one_warp, frozenset(arrived_at(region)))


def starts_copies_only(region: Region) -> bool:
    """Whether a role only starts copies, so that one warp executes the whole role."""
    return all(_by_one_warp(op) for op in region.walk())


def _by_one_warp(op: Op) -> bool:
    assert isinstance(op, Op)
    reads = all(e.kind == "read" for e in op.effects())
    copies = isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait) or is_elected(op)
    return copies or (not op.COOPERATIVE and reads)


def _parts(shared: SharedMemory) -> dict[Value, tuple[int, int, int]]:
    """The offset and size of each buffer, and its number of stages or slots."""
    out: dict[Value, tuple[int, int, int]] = {}
    for v, allocation in shared.allocations.items():
        piped = isinstance(v.owner, BufNew) and v.owner.pipe
        parts = v.type.shape[0] if isinstance(v.type, BufType) and piped else 1
        out[v] = (allocation.offset, allocation.size, parts)
    return out
