"""Cancellation points of CPU kernels: polls at the ends of iterations of long-running loops.

A poll costs a read of the clock, so a loop polls once in a number of iterations that depends on the work of each. Short
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
"""A loop with literal bounds that does at most this many operations ends soon."""

INNER = PACE // 16
"""The operations that a polling loop counts for in the loop around it: it may or may not end before its first poll."""

MOST_ITERATIONS = 1 << 10

_CLOCK = {
    True: 'asm sideeffect "rdtsc\\0Ashlq $$32, %rdx\\0Aorq %rdx, %rax", "={rax},~{rdx},~{flags}"()',
    False: 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}

PHI = re.compile(r"  (%\w+) = phi (.+?) \[ (.+), %\w+ \], \[ (.+), %\w+ \]")
HIDDEN = "memory(inaccessiblemem: readwrite) nounwind"
"""LLVM attributes of calls that change no memory that the kernel uses."""

RARELY = ", !prof !900"
METADATA = '!900 = !{!"branch_weights", i32 1, i32 1048575}'


def every(s: State, loop: Op) -> int:
    """The number of iterations between two polls of a loop, a power of two; 0 for a loop that ends soon."""
    work = sum(_work(s, region) for region in loop.regions)
    if isinstance(loop, For):
        most = _most_iterations(loop)
        if most is not None and most * work <= SOON:
            return 0
    return 1 << min(max(PACE // work, 1), MOST_ITERATIONS).bit_length() - 1


def _most_iterations(loop: For) -> int | None:
    """The most iterations that a loop with literal bounds can have; None for other loops."""
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
        most = _most_iterations(op)
        inner = _work(s, op.body)
        return most * inner if most is not None and most * inner <= SOON else max(inner, INNER)
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
    """The iterations of one loop, which polls once in `every` of them.

    The loop becomes two nested loops, with the poll in the outer one: as far as LLVM knows a poll changes memory, so
    LLVM would hoist no access out of a loop that contains one. The inner loop is left from its head only, or LLVM would
    not rotate it. A loop stays single if it polls in every iteration, if it is a `while` that accesses no memory, which
    is faster so, or if its condition must not be computed twice."""

    def __init__(self, s: State, loop: Op, head: str, done: str) -> None:
        """`head`, `done`: the labels of the loop's head and of the code after the loop."""
        self.s, self.head, self.done = s, head, done
        self.every = every(s, loop) if s.watch else 0
        if isinstance(loop, For):
            self.every = min(self.every, 1 << loop.start.type.bits - 2)  # type: ignore[union-attr]
        self.nested = self.every > 1 and (isinstance(loop, For) or _pays(s, loop))
        self.counts = self.every > 1 and isinstance(loop, While)
        self.count, self.following = s.code.fresh("n"), ""
        self.before = s.code.block
        self.run, self.pause, self.going = (s.code.label(n) for n in ("run", "pause", "going"))
        self.goes_on = ""

    def open(self) -> None:
        """Begin the loop's head."""
        code = self.s.code
        if self.nested:
            code.jump(self.run)
            code.place(self.run)
            self.at = len(code.lines)
            code.line("")
        code.jump(self.head)
        code.place(self.head)

    def trip(self, trip: str, count: str, t: str, inner: str) -> None:
        """Emit the exit test of a `for` that counts its iterations in `trip`, of type `t`, up to `count`."""
        code = self.s.code
        if not self.nested:
            code.branch(code.emit(f"icmp ult {t} {trip}, {count}"), inner, self.done)
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
            code.branch(condition, inner, self.done)
            return
        self.bound = []
        made = code.emit(f"sub {t} {trip}, {trip}_run") if trip else self.count
        few = code.emit(f"icmp ult {t} {made}, {self.every}")
        code.branch(code.emit(f"and i1 {condition}, {few}"), inner, self.pause)
        self.more = f"and i1 {condition}, true"

    def close(self, phis: Callable[[str, str], list[str]]) -> str:
        """End an iteration: poll if it is time, and begin the next one. Returns the text of the head's phis. `phis`:
        the lines of the phis, given the block before the loop and the last block of an iteration."""
        code = self.s.code
        if self.counts:
            self.following = code.emit(f"add i64 {self.count}, 1")
        if self.every and not self.nested:
            self._look_here()
        last = code.block
        code.jump(self.head)
        lines = phis(self.before, last)
        if self.nested:
            lines = self._split(lines, last)
            code.place(self.pause)
            look, again = code.label("clock"), f"{self.run}_again"
            code.branch(code.emit(self.more), look, self.done)
            code.place(look)
            late(self.s, again)
            code.place(again)
            code.jump(self.run)
        if self.counts:
            start = self.run if self.nested else self.before
            lines.append(f"  {self.count} = phi i64 [ 0, %{start} ], [ {self.following}, %{last} ]")
        return "\n".join(lines)

    def _look_here(self) -> None:
        code = self.s.code
        if self.every > 1:
            look = code.label("clock")
            low = code.emit(f"and i64 {self.count}, {self.every - 1}")
            due = code.emit(f"icmp eq i64 {low}, {self.every - 1}")
            code.line(f"br i1 {due}, label %{look}, label %{self.going}{RARELY}")
            code.place(look)
        late(self.s, self.going)
        code.place(self.going)

    def _split(self, lines: list[str], last: str) -> list[str]:
        """The phis of the inner loop's head; those of the outer loop's head are written to the line reserved for
        them."""
        found = [m.groups() for line in lines if (m := PHI.fullmatch(line))]
        assert len(found) == len(lines)
        outer = [
            f"  {name}_run = phi {t} [ {initial}, %{self.before} ], [ {name}, %{self.run}_again ]"
            for name, t, initial, _ in found
        ]
        self.s.code.lines[self.at] = "\n".join([*outer, *self.bound])
        return [
            f"  {name} = phi {t} [ {name}_run, %{self.run} ], [ {following}, %{last} ]"
            for name, t, _, following in found
        ]


def _pays(s: State, loop: Op) -> bool:
    """Whether a `while` accesses memory while its condition has no effects but reads."""
    if s.debug:
        return False
    of_condition = {e.kind for op in loop.condition.walk() for e in op.effects()}  # type: ignore[attr-defined]
    return of_condition <= {"read"} and any(op.effects() for op in loop.walk())  # type: ignore[attr-defined]


def late(s: State, go: str) -> None:
    """Poll if it is time; then jump to the label `go`."""
    code = s.code
    s.polls.append(s.loc)
    then = code.label("late")
    due = code.emit(f"load volatile i64, ptr {_watch(s, DUE)}, align 8")
    now = code.emit(f"call i64 {_CLOCK[s.target.is_x86]} {HIDDEN}")
    code.line(f"br i1 {code.emit(f'icmp sgt i64 {now}, {due}')}, label %{then}, label %{go}{RARELY}")
    code.place(then)
    s.when_late(go)


def _watch(s: State, at: int) -> str:
    """The address of a word of the watch. The address is computed as an integer, so that LLVM makes no assumptions
    about the word."""
    address = s.code.emit(f"add i64 {s.watch}, {at}")
    return s.code.emit(f"inttoptr i64 {address} to ptr")


def ask(s: State, go: str) -> None:
    """Call the function that the watch names, and leave the kernel if it returns nonzero."""
    code = s.code
    function = code.emit(f"load volatile ptr, ptr {_watch(s, LOOK)}, align 8")
    said = code.emit(f"call i32 {function}(i64 {s.watch}) {HIDDEN}")
    stop = code.label("stop")
    code.branch(code.emit(f"icmp eq i32 {said}, 0"), go, stop)
    code.place(stop)
    code.line("ret i32 1")


def beginning(s: State) -> list[str]:
    """The first instructions of a kernel. LLVM must not see that the watch lies in front of the scratch memory, to
    which nothing else refers as far as LLVM knows."""
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
