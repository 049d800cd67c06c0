"""Cancellation points of CPU kernels: long-running loops poll at the end of iterations.

A poll reads the clock, so a loop polls once in a number of iterations, which depends on the work per iteration. Short
loops with bounded trip counts do not poll; the enclosing loops do. All other work of a kernel is bounded by the sizes
of its tiles and blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tegula.codegen.state import State
from tegula.codegen.watched import DUE, POLL_FUNCTION, SCRATCH
from tegula.ir import Op, Region
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While, Yield
from tegula.ops.lane import Lanes
from tegula.ops.vector import VecExtract
from tegula.types import TileType

POLL_DISTANCE = 1 << 13
"""The approximate number of operations between two polls of a loop."""

MAX_WITHOUT_POLL = 1 << 23
"""The maximum number of operations of a loop that has a bounded trip count and does not poll: at 3 ns for each, the
time between two polls."""

NESTED_WORK = POLL_DISTANCE // 64
"""The estimated operations of a nested loop that polls; the nested loop may end before its first poll."""

MAX_ITERATIONS = 1 << 10

_CLOCK = {
    True: 'asm sideeffect "rdtsc\\0Ashlq $$32, %rdx\\0Aorq %rdx, %rax", "={rax},~{rdx},~{flags}"()',
    False: 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}

PHI = re.compile(r"  (%\w+) = phi (.+?) \[ (.+), %\w+ \], \[ (.+), %\w+ \]")
NO_KERNEL_MEMORY = "memory(inaccessiblemem: readwrite) nounwind"
"""LLVM attributes of calls that access no memory of the kernel."""

UNLIKELY = ", !prof !900"
METADATA = '!900 = !{!"branch_weights", i32 1, i32 1048575}'


def poll_interval(s: State, loop: Op) -> int:
    """The number of iterations between two polls of a loop, a power of two; 0 for a loop that ends soon. The number
    follows from the usual work of an iteration, and is limited by the maximum work."""
    work = sum(_work(s, region) for region in loop.regions)
    if isinstance(loop, For) and max_trips(s, loop) * work <= MAX_WITHOUT_POLL:
        return 0
    usual_work = max(1, sum(_usual_work(s, region) for region in loop.regions))
    iterations = min(POLL_DISTANCE // usual_work, MAX_WITHOUT_POLL // work, MAX_ITERATIONS)
    return 1 << max(iterations, 1).bit_length() - 1


def literal_trips(loop: For) -> int | None:
    """The trip count of a loop with literal bounds, 0 if the step is 0; None for other loops."""
    bounds = [v.owner for v in loop.bounds]
    if not all(isinstance(owner, S.Const) for owner in bounds):
        return None
    start, stop, step = (owner.value for owner in bounds)  # type: ignore[union-attr]
    return len(range(start, stop, step)) if step else 0


def max_trips(s: State, loop: For) -> int:
    """A number that the trip count of a loop does not exceed."""
    start, stop, step = (s.ranges.of(v) for v in loop.bounds)
    span = max(stop[1] - start[0] if step[1] > 0 else 0, start[1] - stop[0] if step[0] < 0 else 0, 0)
    min_stride = 1 if step[0] <= 0 <= step[1] else min(map(abs, step))
    return -(-span // min_stride)


def _work(s: State, region: Region) -> int:
    """The approximate number of operations of a region, at least 1."""
    work = s.work.get(region)
    if work is None:
        work = s.work[region] = max(1, sum(work_of(s, op) for op in region.ops))
    return work


def work_of(s: State, op: Op) -> int:
    """The approximate number of operations of an op, 0 for constants and for components at constant indices."""
    if isinstance(op, (Yield, S.Const)):
        return 0
    if isinstance(op, VecExtract):
        return 0 if all(isinstance(v.owner, S.Const) for v in op.indices) else 1
    if isinstance(op, For):
        body_work = _work(s, op.body)
        all_work = max_trips(s, op) * body_work
        return all_work if all_work <= MAX_WITHOUT_POLL else max(body_work, NESTED_WORK)
    if isinstance(op, If):
        return max(_work(s, region) for region in op.regions)
    if isinstance(op, While):
        return max(sum(_work(s, region) for region in op.regions), NESTED_WORK)
    body_work = sum(_work(s, region) for region in op.regions)
    if isinstance(op, Lanes):
        return s.block_dim * body_work
    # Other ops access elements of tiles.
    tiles = (*op.operands, *op.results) if op.COOPERATIVE else op.results
    tile_sizes = [math.prod(v.type.shape) for v in tiles if isinstance(v.type, TileType)]
    return max([1, *tile_sizes]) * max(body_work, 1)


def _usual_work(s: State, region: Region) -> int:
    """The approximate number of operations of a region in which loops whose trip count is not a literal usually have
    few iterations."""
    work = 0
    for op in region.ops:
        bound = work_of(s, op)
        if bound > NESTED_WORK and isinstance(op, (For, While, If)):
            parts = [_usual_work(s, nested) for nested in op.regions]
            if isinstance(op, If):
                bound = max(parts)
            elif isinstance(op, While):
                bound = max(sum(parts), NESTED_WORK)
            else:
                trips = literal_trips(op)
                bound = min(bound, max(parts[0], NESTED_WORK) if trips is None else trips * parts[0])
        work += bound
    return work


class Iterations:
    """The iterations of one loop, which polls once per `poll_interval` iterations.

    The loop is split into two nested loops, with the poll in the outer loop: LLVM must assume that a poll changes
    memory, so that it hoists no access out of a loop with a poll. The inner loop exits only from its header, so that
    LLVM can rotate it. A loop is not split if it polls in every iteration, if it is a `while` without memory accesses,
    which is faster unsplit, or if its condition must not be computed twice."""

    def __init__(self, s: State, loop: Op, head: str, done: str) -> None:
        """`head`, `done`: the labels of the loop header and of the code after the loop."""
        self.s, self.head, self.exit = s, head, done
        self.interval = poll_interval(s, loop) if s.watch else 0
        if isinstance(loop, For):
            self.interval = min(self.interval, 1 << loop.start.type.bits - 2)  # type: ignore[union-attr]
        self.is_split = self.interval > 1 and (isinstance(loop, For) or _is_worth_splitting(s, loop))
        self.has_counter = self.interval > 1 and isinstance(loop, While)
        self.count, self.next_count = s.code.fresh("n"), ""
        self.preheader = s.code.block
        self.run, self.pause, self.resume = (s.code.label(n) for n in ("run", "pause", "resume"))

    def open(self) -> None:
        """Begin the loop header."""
        code = self.s.code
        if self.is_split:
            code.jump(self.run)
            code.define_label(self.run)
            self.outer_line = len(code.lines)
            code.line("")
        code.jump(self.head)
        code.define_label(self.head)

    def trip(self, trip: str, count: str, t: str, body_label: str) -> None:
        """Emit the exit test of a `for` that counts its iterations in `trip`, of type `t`, up to `count`."""
        code = self.s.code
        if not self.is_split:
            code.branch(code.emit(f"icmp ult {t} {trip}, {count}"), body_label, self.exit)
            return
        limit = code.fresh("n")
        remaining, chunk = f"{limit}_rest", f"{limit}_part"
        self.limit_lines = [
            f"  {remaining} = sub {t} {count}, {trip}_run",
            f"  {chunk}_few = icmp ult {t} {remaining}, {self.interval}",
            f"  {chunk} = select i1 {chunk}_few, {t} {remaining}, {t} {self.interval}",
            f"  {limit} = add {t} {trip}_run, {chunk}",
        ]
        code.branch(code.emit(f"icmp ult {t} {trip}, {limit}"), body_label, self.pause)
        self.condition = f"icmp ult {t} {trip}, {count}"

    def test(self, condition: str, body_label: str, trip: str = "", t: str = "i64") -> None:
        """Emit the exit test of a loop other than `for`. `trip`: the register with the number of iterations, if any."""
        code = self.s.code
        if not self.is_split:
            code.branch(condition, body_label, self.exit)
            return
        self.limit_lines = []
        remaining = code.emit(f"sub {t} {trip}, {trip}_run") if trip else self.count
        in_chunk = code.emit(f"icmp ult {t} {remaining}, {self.interval}")
        code.branch(code.emit(f"and i1 {condition}, {in_chunk}"), body_label, self.pause)
        self.condition = f"and i1 {condition}, true"

    def close(self, phis: Callable[[str, str], list[str]], goes_on: str = "") -> str:
        """End an iteration: poll if a poll is due, and begin the next iteration. Returns the text of the header's phis.
        `phis`: the lines of the phis, and of other instructions of the header, given the block before the loop and the
        last block of an iteration; `goes_on`: whether an iteration follows, of a loop without a test in its header."""
        code = self.s.code
        if self.has_counter:
            self.next_count = code.emit(f"add i64 {self.count}, 1")
        if self.interval and not self.is_split:
            self._poll_here()
        latch = code.block
        if goes_on:
            code.branch(goes_on, self.head, self.exit)
        else:
            code.jump(self.head)
        phis_after = phis(self.preheader, latch)
        lines, others = ([x for x in phis_after if (" = phi " in x) == kind] for kind in (True, False))
        if self.is_split:
            lines = self._split(lines, latch)
            code.define_label(self.pause)
            poll_label, again_label = code.label("clock"), f"{self.run}_again"
            code.branch(code.emit(self.condition), poll_label, self.exit)
            code.define_label(poll_label)
            poll_if_due(self.s, again_label)
            code.define_label(again_label)
            code.jump(self.run)
        if self.has_counter:
            start = self.run if self.is_split else self.preheader
            lines.append(f"  {self.count} = phi i64 [ 0, %{start} ], [ {self.next_count}, %{latch} ]")
        return "\n".join([*lines, *others])

    def _poll_here(self) -> None:
        code = self.s.code
        if self.interval > 1:
            poll_label = code.label("clock")
            low = code.emit(f"and i64 {self.count}, {self.interval - 1}")
            due = code.emit(f"icmp eq i64 {low}, {self.interval - 1}")
            code.line(f"br i1 {due}, label %{poll_label}, label %{self.resume}{UNLIKELY}")
            code.define_label(poll_label)
        poll_if_due(self.s, self.resume)
        code.define_label(self.resume)

    def _split(self, lines: list[str], latch: str) -> list[str]:
        """The phis of the inner loop's header. The phis of the outer loop's header are written to their reserved
        line."""
        phi_fields = [m.groups() for line in lines if (m := PHI.fullmatch(line))]
        assert len(phi_fields) == len(lines)
        outer = [
            f"  {name}_run = phi {t} [ {initial}, %{self.preheader} ], [ {name}, %{self.run}_again ]"
            for name, t, initial, _ in phi_fields
        ]
        self.s.code.lines[self.outer_line] = "\n".join([*outer, *self.limit_lines])
        return [
            f"  {name} = phi {t} [ {name}_run, %{self.run} ], [ {following}, %{latch} ]"
            for name, t, _, following in phi_fields
        ]


def _is_worth_splitting(s: State, loop: Op) -> bool:
    """Whether a `while` accesses memory and its condition has no effects except reads."""
    if s.debug:
        return False
    condition_effects = {e.kind for op in loop.condition.walk() for e in op.effects()}  # type: ignore[attr-defined]
    return condition_effects <= {"read"} and any(op.effects() for op in loop.walk())  # type: ignore[attr-defined]


def poll_if_due(s: State, target: str) -> None:
    """Poll if a poll is due; then jump to the label `target`."""
    code = s.code
    s.polls.append(s.loc)
    poll_label = code.label("late")
    due = code.emit(f"load volatile i64, ptr {_watch_field(s, DUE)}, align 8")
    now = code.emit(f"call i64 {_CLOCK[s.target.is_x86]} {NO_KERNEL_MEMORY}")
    code.line(
        f"br i1 {code.emit(f'icmp sgt i64 {now}, {due}')}, label %{poll_label}, label %{target}{UNLIKELY}"
    )
    code.define_label(poll_label)
    s.emit_due_poll(target)


def _watch_field(s: State, offset: int) -> str:
    """The address of a word of the watch. The address is computed as an integer, so that LLVM makes no assumptions
    about the word."""
    address = s.code.emit(f"add i64 {s.watch}, {offset}")
    return s.code.emit(f"inttoptr i64 {address} to ptr")


def emit_poll(s: State, target: str) -> None:
    """Call the poll function of the watch, and exit the kernel if the function returns nonzero; then jump to the label
    `target`."""
    code = s.code
    function = code.emit(f"load volatile ptr, ptr {_watch_field(s, POLL_FUNCTION)}, align 8")
    status = code.emit(f"call i32 {function}(i64 {s.watch}) {NO_KERNEL_MEMORY}")
    stop = code.label("stop")
    code.branch(code.emit(f"icmp eq i32 {status}, 0"), target, stop)
    code.define_label(stop)
    code.line("ret i32 1")


def entry_instructions(s: State) -> list[str]:
    """The instructions at the entry of a kernel, which load the address of the watch from memory: LLVM must not derive
    this address, which precedes the scratch memory, from the noalias pointer to the scratch memory."""
    lines = [
        f"  %watch.at = getelementptr i8, ptr %scratch, i64 {SCRATCH}",
        "  %watch = load i64, ptr %watch.at, align 8",
    ]
    if s.polls:
        lines += [
            f"  %due.at = add i64 %watch, {DUE}",
            "  %due = inttoptr i64 %due.at to ptr",
            "  store volatile i64 0, ptr %due, align 8",
        ]
    return lines
