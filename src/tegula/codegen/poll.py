"""Where kernels for CPUs look whether to stop: at the end of iterations of loops that may take long.

A look costs a read of the clock, so it is made every so many iterations, as their work allows. Loops whose bounds are
literals and that are over soon have none: the loops around them do. What else a kernel does is bounded by the sizes of
its tiles and blocks."""

from __future__ import annotations

import math

from tegula.codegen.state import State
from tegula.ir import Op, Region
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While, Yield
from tegula.ops.lane import Lanes
from tegula.types import TileType

WATCH_BYTES = 64
DUE, LOOK, SELF = -64, -48, -8
"""The watch lies in front of the scratch memory: when to look next (0: at once), what to call then, and the address of
the scratch memory."""

PACE = 1 << 13
"""About so many operations lie between two looks."""

SOON = 1 << 18
"""A loop with literal bounds and no more operations is over soon."""

INNER = PACE // 16
"""What a loop that looks itself counts for in the one around it: it may be over before its first look, or not."""

MOST_ITERATIONS = 1 << 10

_CLOCK = {
    True: 'asm sideeffect "rdtsc\\0Ashlq $$32, %rdx\\0Aorq %rdx, %rax", "={rax},~{rdx},~{flags}"()',
    False: 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}

RARELY = ", !prof !900"
METADATA = '!900 = !{!"branch_weights", i32 1, i32 1048575}'


def every(s: State, loop: Op) -> int:
    """After how many iterations a loop looks, a power of two; 0 for a loop that is over soon."""
    work = sum(_work(s, region) for region in loop.regions)
    if isinstance(loop, For):
        most = _most_iterations(loop)
        if most is not None and most * work <= SOON:
            return 0
    return 1 << min(max(PACE // work, 1), MOST_ITERATIONS).bit_length() - 1


def _most_iterations(loop: Op) -> int | None:
    """How often a loop with literal bounds runs at most."""
    ends = [v.owner for v in loop.operands[:3]]
    if not all(isinstance(owner, S.Const) for owner in ends):
        return None
    start, stop, step = (owner.attrs["value"] for owner in ends)  # type: ignore[union-attr]
    return len(range(start, stop, step)) if step else 0


def _work(s: State, region: Region) -> int:
    """About how many operations a region does, at least 1."""
    return max(1, sum(_work_of(s, op) for op in region.ops))


def _work_of(s: State, op: Op) -> int:
    if isinstance(op, Yield | S.Const):
        return 0
    if isinstance(op, For):
        most = _most_iterations(op)
        inner = _work(s, op.regions[0])
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


def poll(s: State, loop: Op, count: str, t: str) -> None:
    """At the end of an iteration. `count`: a register of type `t` that counts the iterations."""
    apart = every(s, loop)
    if not apart or not s.watch:
        return
    bits = int(t[1:])
    mask = min(apart, 1 << bits - 1) - 1
    code = s.code
    look, go = code.label("clock"), code.label("going")
    if mask:
        low = code.emit(f"and {t} {count}, {mask}")
        code.line(f"br i1 {code.emit(f'icmp eq {t} {low}, {mask}')}, label %{look}, label %{go}{RARELY}")
        code.place(look)
    late(s, go)
    code.place(go)


class Iterations:
    """Counts the iterations of a loop that does not count them itself, in order to look every so many."""

    def __init__(self, s: State, loop: Op) -> None:
        self.s, self.loop, self.count = s, loop, s.code.fresh("n")

    def close(self, before: str) -> list[str]:
        """At the end of an iteration: look; the phi of the count. `before`: the block before the loop."""
        s = self.s
        if not s.watch:
            return []
        poll(s, self.loop, self.count, "i64")
        more = s.code.emit(f"add i64 {self.count}, 1")
        return [f"  {self.count} = phi i64 [ 0, %{before} ], [ {more}, %{s.code.block} ]"]


def late(s: State, go: str) -> None:
    """Look, if it is time; then jump to a label."""
    code = s.code
    s.polls.append(s.loc)
    then = code.label("late")
    due = code.emit(f"load volatile i64, ptr {_watch(s, DUE)}, align 8")
    now = code.emit(f"call i64 {_CLOCK[s.target.is_x86]}")
    code.line(f"br i1 {code.emit(f'icmp sgt i64 {now}, {due}')}, label %{then}, label %{go}{RARELY}")
    code.place(then)
    s.when_late(go)


def _watch(s: State, at: int) -> str:
    """A word of the watch. Through an integer: what lies there is nothing that the kernel may know."""
    address = s.code.emit(f"add i64 {s.watch}, {at}")
    return s.code.emit(f"inttoptr i64 {address} to ptr")


def ask(s: State, go: str) -> None:
    """Call what the watch names, and leave the kernel if it says so."""
    code = s.code
    function = code.emit(f"load volatile ptr, ptr {_watch(s, LOOK)}, align 8")
    said = code.emit(f"call i32 {function}(i64 {s.watch}) memory(inaccessiblemem: readwrite) nounwind")
    stop = code.label("stop")
    code.branch(code.emit(f"icmp eq i32 {said}, 0"), go, stop)
    code.place(stop)
    code.line("ret i32 1")


def beginning(s: State) -> list[str]:
    """What a kernel begins with. LLVM must not see that the watch lies beside the scratch memory, to which nothing else
    refers as far as it knows."""
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
