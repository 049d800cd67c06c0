"""The trace of each role in one launch: loops unrolled, stages and phases known."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from tegula.check.evaluate import evaluator
from tegula.check.launches import INPUTS, Launch, Leaves
from tegula.check.slices import ScheduleSlice, carried, multiplies, numbers
from tegula.check.verdict import Refuted
from tegula.dataclass import dataclass, field
from tegula.ir import Kernel, MatmulLike, Op, Region, Value, ViewLike, root
from tegula.ops import events as E
from tegula.ops.buffer import BufNew, BufView, is_packed
from tegula.ops.control import For, If, While
from tegula.ops.group import MmaWait, RegisterMma, SharedMma
from tegula.ops.roles import Roles
from tegula.passes.groups import group_of
from tegula.passes.runner import GpuCompilation
from tegula.passes.wait_for_register_operands import reads_registers
from tegula.types import BufType, TileType, element_bytes

CONTROL = (If, For, While)
MATMULS = (SharedMma, RegisterMma)
MAX_STEPS = 8_000
"""The maximum number of ops of a role in one launch; a longer launch is not unrolled."""

Env: TypeAlias = dict[Value, Any]


@dataclass(frozen=True, slots=True)
class ExecutedOp:
    """An op that a role has executed, and its events."""

    op: Op
    events: tuple[E.Event, ...]


@dataclass(slots=True)
class Trace:
    """The ops that a role executes in one launch. `started_matmuls`, `completed_matmuls`: the numbers of started and of
    complete matmuls; `last`: by op with an operand in registers, the number of its last matmul."""

    steps: list[ExecutedOp] = field(default_factory=list[ExecutedOp])
    started_matmuls: int = 0
    completed_matmuls: int = 0
    last: dict[Op, int] = field(default_factory=dict[Op, int])


class TooLong(Exception):
    """A launch with too many steps to be unrolled."""


class Undecided(Exception):
    """The launch does not determine the ops that roles execute; `op`: an op that depends on an unknown value."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op


class Program:
    """A kernel compiled to closures, to be unrolled for many launches."""

    def __init__(self, kernel: Kernel, compilation: GpuCompilation) -> None:
        self.kernel, self.allocations, self.threads = (
            kernel,
            compilation.shared.allocations,
            compilation.threads,
        )
        self.divergent = compilation.uniformity.divergent
        self.roles_op = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
        self.roles = list(self.roles_op.regions) if self.roles_op is not None else [kernel.body]
        self.leaves = Leaves(kernel)
        self.schedule_slice = ScheduleSlice(kernel, self.allocations)
        self.cuts: set[int] = set()
        """The bytes at which parts of stages begin and end."""
        self._compiled: dict[Region, list[Callable[[Env, Trace, Launch], None]]] = {}

    def trace(self, role: Region, launch: Launch) -> Trace:
        """The trace of a role in a launch; raises Refuted, TooLong or Undecided."""
        trace, env = Trace(), Env()
        for v in self.kernel.params:
            env[v] = self.leaves.reader(v)(launch, env.get)
        if self.roles_op is not None:
            for step in self._steps(self.kernel.body):
                step(env, trace, launch)
            trace.steps.clear()
        for step in self._steps(role):
            step(env, trace, launch)
        return trace

    # Steps -----------------------------------------------------------------------------------------------------------

    def _steps(self, region: Region) -> list[Callable[[Env, Trace, Launch], None]]:
        if region not in self._compiled:
            steps = (self._step(op) for op in region.ops if not isinstance(op, Roles))
            self._compiled[region] = [step for step in steps if step is not None]
        return self._compiled[region]

    def _step(self, op: Op) -> Callable[[Env, Trace, Launch], None] | None:
        if isinstance(op, CONTROL):
            if self.schedule_slice.accesses_only(op) and self.schedule_slice.has_tracked_events(op):
                return self._optional_accesses(op)
            is_followed = self.schedule_slice.has_tracked_events(op) or any(
                r in self.schedule_slice.needed for r in op.results
            )
            return _CONTROLS[type(op)](self, op) if is_followed else None
        if self.schedule_slice.has_tracked_events(op):
            return self._event(op)
        if any(r in self.schedule_slice.needed for r in op.results):
            return self._scalar(op)
        return None

    def _scalar(self, op: Op) -> Callable[[Env, Trace, Launch], None]:
        if isinstance(op, INPUTS):
            rows = [(r, self.leaves.reader(r)) for r in op.results]

            def look_up(env: Env, trace: Trace, launch: Launch) -> None:
                for r, read in rows:
                    env[r] = read(launch, env.get)

            return look_up
        evaluate, result, operands = evaluator(op), op.result, [*op.operands]

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            try:
                env[result] = evaluate(*[env[v] for v in operands])
            except (KeyError, TypeError):
                env[result] = None  # the result of an unknown operand is unknown

        return run

    def _event(self, op: Op) -> Callable[[Env, Trace, Launch], None]:
        """A function that appends the op to the trace, with its events, which are cached by the numbers that they
        depend on."""
        arguments = numbers(op)
        known: dict[tuple[Any, ...], ExecutedOp] = {}
        has_own_events, in_flight = (
            self.schedule_slice.has_own_events(op),
            [v for v in op.operands if v in self.schedule_slice.in_flight],
        )
        changes_matmuls = in_flight or multiplies(op) or isinstance(op, MmaWait)

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            if has_own_events:
                key = tuple(map(env.get, arguments))
                done = known.get(key)
                if done is None:
                    done = known[key] = ExecutedOp(op, tuple(E.events(op, _OperandValues(self, op, env))))
                trace.steps.append(done)
                if len(trace.steps) > MAX_STEPS:
                    raise TooLong
            if changes_matmuls:
                self._track_in_flight(op, env, trace)

        return run

    # Matmuls in flight ----------------------------------------------------------------------------------------------

    def _track_in_flight(self, op: Op, env: Env, trace: Trace) -> None:
        """Number the matmuls in program order; a tile maps to the last matmul that writes it. Refuted where an op uses
        the result of a matmul in flight."""
        if isinstance(op, MmaWait):
            trace.completed_matmuls = max(trace.completed_matmuls, trace.started_matmuls - op.pending)
            for v, r in zip(op.operands, op.results, strict=True):
                env[r] = env.get(v, 0)
            return
        adds = multiplies(op)
        for k, v in enumerate(op.operands):
            if not isinstance(v.type, TileType) or (adds and k == 2):
                continue
            if (env.get(v) or 0) > trace.completed_matmuls:
                raise Refuted(
                    "in-flight",
                    f"{op.NAME} uses the result of a matmul in flight",
                    op.loc,
                    "wait for the matmul before the first use of its result",
                )
        if isinstance(op, MatmulLike) and adds:
            trace.started_matmuls += 1
            if op.wait:
                trace.completed_matmuls = trace.started_matmuls
            elif isinstance(op, RegisterMma):
                trace.last[op] = trace.started_matmuls
            env[op.result] = trace.started_matmuls

    def _check_register_operands(self, body: Region, trace: Trace) -> None:
        """Check, before another iteration of a loop, that no matmul in flight reads registers which the iteration
        overwrites."""
        for op, number in trace.last.items():
            if number > trace.completed_matmuls and reads_registers(op, body):
                raise Refuted(
                    "in-flight",
                    f"{op.NAME} reads registers that the next iteration of the loop overwrites",
                    op.loc,
                    "wait for the matmul in the iteration that starts it",
                )

    # Control ---------------------------------------------------------------------------------------------------------

    def decided(self, x: Any, op: Op) -> Any:
        """The value that decides control flow of roles; Undecided where it is unknown, or threads diverge at the op."""
        if x is None or self.diverges(op):
            raise Undecided(op)
        return x

    def diverges(self, op: Op) -> bool:
        """Whether threads of a role diverge at an op."""
        return op in self.divergent

    def _optional_accesses(self, op: For | While | If) -> Callable[[Env, Trace, Launch], None]:
        """A function for control flow that contains only memory accesses: if the values do not decide which accesses
        happen, each access happens once."""
        exactly = _CONTROLS[type(op)](self, op)

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            if not self.diverges(op) and all(env.get(v) is not None for v in op.control_operands):
                exactly(env, trace, launch)
                return
            for region in op.regions:
                for step in self._steps(region):
                    step(env, trace, launch)

        return run

    def for_loop(self, op: For) -> Callable[[Env, Trace, Launch], None]:
        """A function that runs all iterations of a `for` loop; raises Undecided if the bounds are unknown, or if
        threads diverge."""
        body, index = op.body, op.index
        carried_values = carried(op, op.initial, op.arguments, body.yielded, self.schedule_slice.needed)

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            steps = self._steps(body)
            bounds = [self.decided(env.get(v), op) for v in op.bounds]
            now = [env.get(c.start) for c in carried_values]
            if not bounds[2]:
                raise Undecided(op)
            for k in range(*bounds):
                self._check_register_operands(body, trace)
                env[index] = k
                for c, x in zip(carried_values, now, strict=True):
                    env[c.argument] = x
                for step in steps:
                    step(env, trace, launch)
                now = [env.get(c.end) for c in carried_values]
            for c, x in zip(carried_values, now, strict=True):
                env[c.result] = x

        return run

    def while_loop(self, op: While) -> Callable[[Env, Trace, Launch], None]:
        """A function that runs all iterations of a `while` loop; Undecided as for `for_loop`, TooLong after
        `MAX_STEPS` iterations."""
        test, body = op.condition, op.body
        end = body.yielded
        tested = carried(op, op.initial, test.args, end, self.schedule_slice.needed)
        carried_values = carried(op, op.initial, body.args, end, self.schedule_slice.needed)
        condition = test.yielded[0]

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            now = [env.get(c.start) for c in carried_values]
            for _ in range(MAX_STEPS):
                for c, x in zip(tested, now, strict=True):
                    env[c.argument] = x
                for step in self._steps(test):
                    step(env, trace, launch)
                if not self.decided(env.get(condition), op):
                    break
                self._check_register_operands(body, trace)
                for c, x in zip(carried_values, now, strict=True):
                    env[c.argument] = x
                for step in self._steps(body):
                    step(env, trace, launch)
                now = [env.get(c.end) for c in carried_values]
            else:
                raise TooLong
            for c, x in zip(carried_values, now, strict=True):
                env[c.result] = x

        return run

    def branch(self, op: If) -> Callable[[Env, Trace, Launch], None]:
        """A function that runs the taken side of a branch; raises Undecided if the condition is unknown, or if threads
        diverge."""

        def run(env: Env, trace: Trace, launch: Launch) -> None:
            branch = op.then if self.decided(env.get(op.condition), op) else op.orelse
            for step in self._steps(branch):
                step(env, trace, launch)
            for v, r in zip(branch.yielded, op.results, strict=True):
                if r in self.schedule_slice.needed:
                    env[r] = env.get(v)

        return run


_CONTROLS: dict[type[Op], Any] = {For: Program.for_loop, While: Program.while_loop, If: Program.branch}


class _OperandValues:
    """The values of an op's operands in a launch (see events.Known)."""

    def __init__(self, program: Program, op: Op, env: Env) -> None:
        self.program, self.op, self.env = program, op, env

    def number(self, value: Value) -> int:
        return self.program.decided(self.env.get(value), self.op)

    def warp_groups(self, op: Op) -> int:
        return max(1, group_of(op, self.program.threads).warp_groups)

    def bytes(self, buffer: Value) -> E.Bytes:
        """The bytes of an operand: the stage of a ring, or the whole buffer. A contiguous part of a stage is exact; any
        other part counts as the whole stage."""
        buffer_root = root(buffer)
        allocation = self.program.allocations[buffer_root]
        assert isinstance(buffer_root.owner, BufNew)
        stages = buffer_root.owner.stages
        if not stages or not buffer_root.owner.pipe:
            return E.Bytes(allocation.offset, allocation.offset + allocation.size, buffer_root)
        stage = self._stage(buffer, buffer_root)
        size = allocation.size // stages
        if not 0 <= stage < stages:
            raise Refuted(
                "stage",
                f"{self.op.NAME} uses stage {stage} of {buffer_root.name or 'a pipe'}, which has {stages} stages",
                self.op.loc,
                "a stage is the number of the item modulo the number of stages",
            )
        start = allocation.offset + stage * size
        part = self._part(buffer, buffer_root)
        if part is None:
            return E.Bytes(start, start + size, buffer_root, stage)
        self.program.cuts.update(start + at for at in part)
        return E.Bytes(start + part[0], start + part[1], buffer_root, stage)

    def _part(self, buffer: Value, buffer_root: Value) -> tuple[int, int] | None:
        """The bytes of a stage that a packed view shows; None for the whole stage, and for other views."""
        assert isinstance(buffer_root.owner, BufNew) and isinstance(buffer_root.type, BufType)
        if not buffer_root.owner.by_hand or buffer_root.owner.swizzled or not is_packed(buffer):
            return None
        strides = [1]
        for n in reversed(buffer_root.type.shape[1:]):
            strides.insert(0, strides[0] * n)
        at, views = 0, list[BufView]()
        while buffer is not buffer_root:
            if not isinstance(buffer.owner, BufView):
                return None
            views.insert(0, buffer.owner)
            buffer = buffer.owner.buffer
        for k, view in enumerate(views):
            starts = [self.number(v) for v in view.starts]
            at += sum(n * s for n, s in zip(starts[k == 0 :], strides[k == 0 :], strict=True))
            strides = [strides[d] * s for d, s in zip(view.dims, view.steps, strict=True)]
        size = element_bytes(buffer_root.type.dtype)
        count = prod(views[-1].shape)
        return at * size, (at + count) * size

    def _stage(self, buffer: Value, buffer_root: Value) -> int:
        """The stage of the ring that the view nearest to the ring selects."""
        view = buffer
        while view is not buffer_root:
            assert isinstance(view.owner, ViewLike)
            if view.owner.shown is buffer_root and isinstance(view.owner, BufView):
                return self.number(view.owner.starts[0])
            view = view.owner.shown
        raise Undecided(self.op)
