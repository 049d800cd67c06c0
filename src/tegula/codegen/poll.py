"""Cancellation points of CPU kernels: long-running loops poll at the end of iterations.

A poll reads the clock, so a loop polls once in a number of iterations, which depends on the work per iteration. Short
loops with literal bounds do not poll; the enclosing loops do. All other work of a kernel is bounded by the sizes of its
tiles and blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tegula.codegen.state import State
from tegula.codegen.watched import DUE, LOOK, SELF
from tegula.ir import Op, Region
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While, Yield
from tegula.ops.lane import Lanes
from tegula.types import TileType

PACE = 1 << 13
"""The approximate number of operations between two polls."""

SOON = 1 << 18
"""The maximum number of operations of a loop with literal bounds that does not poll."""

INNER = PACE // 64
"""The estimated operations of a nested loop that polls; the nested loop may end before its first poll."""

MAX_ITERATIONS = 1 << 10

_CLOCK = {
    True: 'asm sideeffect "rdtsc\\0Ashlq $$32, %rdx\\0Aorq %rdx, %rax", "={rax},~{rdx},~{flags}"()',
    False: 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}

PHI = re.compile(r"  (%\w+) = phi (.+?) \[ (.+), %\w+ \], \[ (.+), %\w+ \]")
HIDDEN = "memory(inaccessiblemem: readwrite) nounwind"
"""LLVM attributes of calls that access no memory of the kernel."""

RARELY = ", !prof !900"
METADATA = '!900 = !{!"branch_weights", i32 1, i32 1048575}'


def poll_interval(s: State, loop: Op) -> int:
    """The number of iterations between two polls of a loop, a power of two; 0 for a loop that ends soon."""
    work = sum(_work(s, region) for region in loop.regions)
    if isinstance(loop, For):
        max_iterations = _most_iterations(loop)
        if max_iterations is not None and max_iterations * work <= SOON:
            return 0
    return 1 << min(max(PACE // work, 1), MAX_ITERATIONS).bit_length() - 1


def _most_iterations(loop: For) -> int | None:
    """The maximum trip count of a loop with literal bounds; None for other loops."""
    ends = [v.owner for v in loop.bounds]
    if not all(isinstance(owner, S.Const) for owner in ends):
        return None
    start, stop, step = (owner.value for owner in ends)  # type: ignore[union-attr]
    return len(range(start, stop, step)) if step else 0


def _work(s: State, region: Region) -> int:
    """The approximate number of operations of a region, at least 1."""
    return max(1, sum(_work_of(s, op) for op in region.ops))


def _work_of(s: State, op: Op) -> int:
    if isinstance(op, Yield | S.Const):
        return 0
    if isinstance(op, For):
        max_iterations = _most_iterations(op)
        inner = _work(s, op.body)
        return (
            max_iterations * inner
            if max_iterations is not None and max_iterations * inner <= SOON
            else max(inner, INNER)
        )
    if isinstance(op, If):
        return max(_work(s, region) for region in op.regions)
    if isinstance(op, While):
        return max(sum(_work(s, region) for region in op.regions), INNER)
    inner = sum(_work(s, region) for region in op.regions)
    if isinstance(op, Lanes):
        return s.block_dim * inner
    sizes = [math.prod(v.type.shape) for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
    return max([1, *sizes]) * max(inner, 1)


class Iterations:
    """The iterations of one loop, which polls once in `poll_interval` of them.

    The loop is split into two nested loops, with the poll in the outer loop: LLVM must assume that a poll changes
    memory, so that it hoists no access out of a loop with a poll. The inner loop exits only from its header, so that
    LLVM can rotate it. A loop is not split if it polls in every iteration, if it is a `while` without memory accesses,
    which is faster unsplit, or if its condition must not be computed twice."""

    def __init__(self, s: State, loop: Op, head: str, done: str) -> None:
        """`head`, `done`: the labels of the loop header and of the code after the loop."""
        self.s, self.head, self.completed = s, head, done
        self.every = poll_interval(s, loop) if s.watch else 0
        if isinstance(loop, For):
            self.every = min(self.every, 1 << loop.start.type.bits - 2)  # type: ignore[union-attr]
        self.nested = self.every > 1 and (isinstance(loop, For) or _is_worth_splitting(s, loop))
        self.counts = self.every > 1 and isinstance(loop, While)
        self.count, self.following = s.code.fresh("n"), ""
        self.before = s.code.block
        self.run, self.pause, self.going = (s.code.label(n) for n in ("run", "pause", "going"))
        self.goes_on = ""

    def open(self) -> None:
        """Begin the loop header."""
        code = self.s.code
        if self.nested:
            code.jump(self.run)
            code.define_label(self.run)
            self.at = len(code.lines)
            code.line("")
        code.jump(self.head)
        code.define_label(self.head)

    def trip(self, trip: str, count: str, t: str, inner: str) -> None:
        """Emit the exit test of a `for` that counts its iterations in `trip`, of type `t`, up to `count`."""
        code = self.s.code
        if not self.nested:
            code.branch(code.emit(f"icmp ult {t} {trip}, {count}"), inner, self.completed)
            return
        limit = code.fresh("n")
        rest, part = f"{limit}_rest", f"{limit}_part"
        self.bound = [
            f"  {rest} = sub {t} {count}, {trip}_run",
            f"  {part}_few = icmp ult {t} {rest}, {self.every}",
            f"  {part} = select i1 {part}_few, {t} {rest}, {t} {self.every}",
            f"  {limit} = add {t} {trip}_run, {part}",
        ]
        code.branch(code.emit(f"icmp ult {t} {trip}, {limit}"), inner, self.pause)
        self.more = f"icmp ult {t} {trip}, {count}"

    def test(self, condition: str, inner: str, trip: str = "", t: str = "i64") -> None:
        """Emit the exit test of any other loop. `trip`: the register that counts the iterations, if there is one."""
        code = self.s.code
        if not self.nested:
            code.branch(condition, inner, self.completed)
            return
        self.bound = []
        remaining = code.emit(f"sub {t} {trip}, {trip}_run") if trip else self.count
        few = code.emit(f"icmp ult {t} {remaining}, {self.every}")
        code.branch(code.emit(f"and i1 {condition}, {few}"), inner, self.pause)
        self.more = f"and i1 {condition}, true"

    def close(self, phis: Callable[[str, str], list[str]]) -> str:
        """End an iteration: poll if a poll is due, and begin the next iteration. Returns the text of the header's phis.
        `phis`: the lines of the phis, and of other instructions of the header, given the block before the loop and the
        last block of an iteration."""
        code = self.s.code
        if self.counts:
            self.following = code.emit(f"add i64 {self.count}, 1")
        if self.every and not self.nested:
            self._poll_here()
        last = code.block
        code.jump(self.head)
        phis_after = phis(self.before, last)
        lines, after = ([x for x in phis_after if (" = phi " in x) == kind] for kind in (True, False))
        if self.nested:
            lines = self._split(lines, last)
            code.define_label(self.pause)
            poll_label, again_label = code.label("clock"), f"{self.run}_again"
            code.branch(code.emit(self.more), poll_label, self.completed)
            code.define_label(poll_label)
            poll_if_due(self.s, again_label)
            code.define_label(again_label)
            code.jump(self.run)
        if self.counts:
            start = self.run if self.nested else self.before
            lines.append(f"  {self.count} = phi i64 [ 0, %{start} ], [ {self.following}, %{last} ]")
        return "\n".join([*lines, *after])

    def _poll_here(self) -> None:
        code = self.s.code
        if self.every > 1:
            poll_label = code.label("clock")
            low = code.emit(f"and i64 {self.count}, {self.every - 1}")
            due = code.emit(f"icmp eq i64 {low}, {self.every - 1}")
            code.line(f"br i1 {due}, label %{poll_label}, label %{self.going}{RARELY}")
            code.define_label(poll_label)
        poll_if_due(self.s, self.going)
        code.define_label(self.going)

    def _split(self, lines: list[str], last: str) -> list[str]:
        """The phis of the inner loop's header. The phis of the outer loop's header are written to their reserved
        line."""
        phi_fields = [m.groups() for line in lines if (m := PHI.fullmatch(line))]
        assert len(phi_fields) == len(lines)
        outer = [
            f"  {name}_run = phi {t} [ {initial}, %{self.before} ], [ {name}, %{self.run}_again ]"
            for name, t, initial, _ in phi_fields
        ]
        self.s.code.lines[self.at] = "\n".join([*outer, *self.bound])
        return [
            f"  {name} = phi {t} [ {name}_run, %{self.run} ], [ {following}, %{last} ]"
            for name, t, _, following in phi_fields
        ]


def _is_worth_splitting(s: State, loop: Op) -> bool:
    """Whether a `while` accesses memory and its condition has no effects except reads."""
    if s.debug:
        return False
    of_condition = {e.kind for op in loop.condition.walk() for e in op.effects()}  # type: ignore[attr-defined]
    return of_condition <= {"read"} and any(op.effects() for op in loop.walk())  # type: ignore[attr-defined]


def poll_if_due(s: State, target: str) -> None:
    """Poll if a poll is due; then jump to the label `target`."""
    code = s.code
    s.polls.append(s.loc)
    then = code.label("late")
    due = code.emit(f"load volatile i64, ptr {_watch(s, DUE)}, align 8")
    now = code.emit(f"call i64 {_CLOCK[s.target.is_x86]} {HIDDEN}")
    code.line(f"br i1 {code.emit(f'icmp sgt i64 {now}, {due}')}, label %{then}, label %{target}{RARELY}")
    code.define_label(then)
    s.when_late(target)


def _watch(s: State, at: int) -> str:
    """The address of a word of the watch. The address is computed as an integer, so that LLVM makes no assumptions
    about the word."""
    address = s.code.emit(f"add i64 {s.watch}, {at}")
    return s.code.emit(f"inttoptr i64 {address} to ptr")


def emit_poll(s: State, target: str) -> None:
    """Call the function in the watch, and exit the kernel if it returns nonzero."""
    code = s.code
    function = code.emit(f"load volatile ptr, ptr {_watch(s, LOOK)}, align 8")
    status = code.emit(f"call i32 {function}(i64 {s.watch}) {HIDDEN}")
    stop = code.label("stop")
    code.branch(code.emit(f"icmp eq i32 {status}, 0"), target, stop)
    code.define_label(stop)
    code.line("ret i32 1")


def beginning(s: State) -> list[str]:
    """The first instructions of a kernel. LLVM must not derive the address of the watch, which precedes the scratch
    memory, from the noalias pointer to the scratch memory."""
    lines = [
        f"  %watch.at = getelementptr i8, ptr %scratch, i64 {SELF}",
        "  %watch = load i64, ptr %watch.at, align 8",
    ]
    if s.polls:
        lines += [
            f"  %due.at = add i64 %watch, {DUE}",
            "  %due = inttoptr i64 %due.at to ptr",
            "  store volatile i64 0, ptr %due, align 8",
        ]
    return lines
