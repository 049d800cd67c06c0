"""Control flow of a thread: loop-carried values and results of branches are phis, with one phi per register of a
tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tegula.codegen.control import trips
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.gpu.stored_vectors import passed_registers
from tegula.codegen.text import register_type, vector_of
from tegula.ir import LoopLike, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While
from tegula.ops.roles import WARP
from tegula.types import TileType, components, scalar_of

MAX_UNROLLED_TRIPS, MAX_UNROLLED_LINES = 16, 1536
"""The maximum trip count of a loop that LLVM may unroll, and the maximum number of lines of its unrolled text: longer
code compiles slowly and does not fit the instruction cache. Loops around other loops are not unrolled, because most of
their time is in the inner loops, except in roles, where the stages of pipes become constants."""

Body = Callable[[Region], None]


def control(s: GpuState, op: Op, body: Body) -> None:
    """Lower `if`, `for` or `while`; `body` lowers the ops of a region."""
    if isinstance(op, If):
        _if(s, op, body)
    elif isinstance(op, For):
        _for(s, op, body)
    elif isinstance(op, While):
        _while(s, op, body)


def reconverge(s: GpuState) -> None:
    """Reconverge the threads of a warp that may have diverged; emits nothing in code that only some threads of the warp
    run."""
    if not s.depth:
        s.code.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        s.diverged = False


@contextmanager
def diverging(s: GpuState) -> Iterator[None]:
    """A context for code in which threads of a warp may diverge; the threads reconverge at the end."""
    begin = s.code.block
    with s.divergent_code():
        yield
    if s.code.block != begin:
        reconverge(s)


def emit_if(s: GpuState, condition: str, act: Callable[[], None]) -> None:
    """Emit code that runs only in threads with a true condition."""

    def act_without_results() -> list[str]:
        act()
        return []

    run_conditionally(s, condition, [], act_without_results, [])


def for_warps(s: GpuState, condition: str, act: Callable[[], None]) -> None:
    """Emit code that runs only in warps with a true condition, which is warp-uniform."""
    if condition == "true":
        act()
        return
    code = s.code
    then, done = code.label("then"), code.label("done")
    code.branch(condition, then, done)
    code.define_label(then)
    with s.conditional_code():
        act()
    code.jump(done)
    code.define_label(done)


def run_conditionally(
    s: GpuState, condition: str, types: list[str], act: Callable[[], list[str]], otherwise: list[str]
) -> list[str]:
    """The registers that `act` returns if the condition holds, else `otherwise`. If `act` branches, threads reconverge
    afterwards, because the jump threading of ptxas may leave other threads diverged (docs/design/034)."""
    if condition == "true":
        return act()
    code = s.code
    then, done, before = code.label("then"), code.label("done"), code.block
    code.branch(condition, then, done)
    code.define_label(then)
    with s.conditional_code(), s.divergent_code():
        values = act()
    last = code.block
    code.jump(done)
    code.define_label(done)
    results = [code.phi(t, (a, last), (b, before)) for t, a, b in zip(types, values, otherwise, strict=True)]
    if last != then:
        reconverge(s)
    return results


def select_branch(
    s: GpuState,
    condition: str,
    types: list[str],
    then: Callable[[], list[str]],
    other: Callable[[], list[str]],
) -> list[str]:
    """The registers that one of two branches returns. If threads diverge inside a branch, they reconverge at its end,
    because ptxas assumes convergence after the join but does not ensure it if both branches end in one block
    (docs/design/034)."""
    code = s.code
    labels, done = (code.label("then"), code.label("else")), code.label("endif")
    code.branch(condition, *labels)
    results: list[list[str]] = []
    last_blocks: list[str] = []
    for label, act in zip(labels, (then, other), strict=True):
        code.define_label(label)
        was_diverged, s.diverged = s.diverged, False
        with s.conditional_code():
            results.append(act())
        if s.diverged:
            reconverge(s)
        s.diverged |= was_diverged
        last_blocks.append(code.block)
        code.jump(done)
    code.define_label(done)
    return [
        code.phi(t, (a, last_blocks[0]), (b, last_blocks[1])) for t, a, b in zip(types, *results, strict=True)
    ]


def _if(s: GpuState, op: If, body: Body) -> None:
    def branch(region: Region) -> Callable[[], list[str]]:
        def act() -> list[str]:
            body(region)
            pairs = zip(region.yielded, op.results, strict=True)
            return [x for v, result in pairs for x in passed_registers(s, v, result)]

        return act

    types = [t for r in op.results for t in s.types(r)]
    values = select_branch(s, s.scalar(op.condition), types, branch(op.then), branch(op.orelse))
    _bind(s, op.results, values)


def _bind(s: GpuState, values: list[Value], registers: list[str]) -> None:
    position = 0
    for v in values:
        n = len(s.types(v))
        s.bind(v, registers[position : position + n])
        position += n


class _Carried:
    """The registers that a loop carries. 16-bit floats of tiles are carried packed in pairs, which halves their
    registers."""

    def __init__(
        self, s: GpuState, initial: list[Value], args: list[list[Value]], results: list[Value]
    ) -> None:
        self.s, self.results = s, results
        self.pairs = [_pair_type(s, r) for r in results]
        self.types: list[str] = []
        self.split: list[str] = []
        self.start = self._passed(initial)
        self.names = [s.code.fresh("k") for _ in self.start]
        names = iter(self.names)
        for k, (result, pair) in enumerate(zip(results, self.pairs, strict=True)):
            types = s.types(result)
            self.types += ["i32"] * (len(types) // 2) if pair else types
            registers = [x for _ in types[::2] for x in self._halves(next(names), pair)] if pair else []
            registers = registers or [next(names) for _ in types]
            for value in (*(group[k] for group in args), result):
                s.bind(value, registers)

    def _passed(self, values: list[Value]) -> list[str]:
        """The carried form of the registers that are passed to the variables."""
        passed = zip(values, self.results, self.pairs, strict=True)
        return [x for v, r, pair in passed for x in self._packed(passed_registers(self.s, v, r), pair)]

    def _packed(self, flat: list[str], pair: str) -> list[str]:
        """The carried form of registers."""
        emit = self.s.code.emit
        if not pair:
            return flat
        words: list[str] = []
        scalar_type = pair.removeprefix("<2 x ").removesuffix(">")
        for a, b in zip(flat[::2], flat[1::2], strict=True):
            vector = emit(f"insertelement {pair} poison, {scalar_type} {a}, i32 0")
            vector = emit(f"insertelement {pair} {vector}, {scalar_type} {b}, i32 1")
            words.append(emit(f"bitcast {pair} {vector} to i32"))
        return words

    def _halves(self, name: str, pair: str) -> list[str]:
        """The two values of a packed register, unpacked at the start of an iteration."""
        word, *halves = (self.s.code.fresh("h") for _ in range(3))
        self.split.append(f"  {word} = bitcast i32 {name} to {pair}")
        self.split += [f"  {h} = extractelement {pair} {word}, i32 {k}" for k, h in enumerate(halves)]
        return halves

    def phis(self, before: str, yielded: list[Value]) -> list[str]:
        """The phi instructions of the loop header, after the body has been lowered."""
        s = self.s
        next_values = self._passed(yielded)
        last = s.code.block
        return [
            f"  {name} = phi {t} [ {a}, %{before} ], [ {b}, %{last} ]"
            for name, t, a, b in zip(self.names, self.types, self.start, next_values, strict=True)
        ] + self.split


def _pair_type(s: GpuState, value: Value) -> str:
    """The vector type that packs two registers of a tile into 32 bits; "" for registers that are carried unpacked."""
    t = value.type
    if not isinstance(t, TileType) or components(t.dtype) != 1 or s.layouts[value].register_count % 2:
        return ""
    dtype = scalar_of(t.dtype)
    return vector_of(register_type(dtype, 1), 2) if dtype.is_float and dtype.bits == 16 else ""


def _for(s: GpuState, op: For, body: Body) -> None:
    code, region = s.code, op.body
    t = register_type(op.start.type, 1)  # type: ignore[arg-type]
    start, step = s.scalar(op.start), s.scalar(op.step)
    count = trips(s, op)
    carried = _Carried(s, op.initial, op.entries, op.results)
    loop_label, body_label, done_label, before = (
        code.label("for"),
        code.label("trip"),
        code.label("endfor"),
        code.block,
    )
    code.jump(loop_label)
    code.define_label(loop_label)
    index, trip, phi_line = code.fresh("n"), code.fresh("n"), len(code.lines)
    code.line("")
    code.branch(code.emit(f"icmp ult {t} {trip}, {count}"), body_label, done_label)
    code.define_label(body_label)
    s.scalars[op.index] = (index,)
    begin = s.length()
    with s.conditional_code():
        body(region)
    lines, trip_count = s.length() - begin, _known_trips(op)
    may_unroll = (
        not op.rolled
        and trip_count <= MAX_UNROLLED_TRIPS
        and trip_count * lines <= MAX_UNROLLED_LINES
        and (
            trip_count == 1 or bool(s.group.number) or not any(isinstance(o, LoopLike) for o in region.walk())
        )
    )
    if may_unroll and trip_count:
        s.repeated += (trip_count - 1) * lines
    next_index, next_trip = code.emit(f"add {t} {index}, {step}"), code.emit(f"add nuw {t} {trip}, 1")
    phis = [
        f"  {index} = phi {t} [ {start}, %{before} ], [ {next_index}, %{code.block} ]",
        f"  {trip} = phi {t} [ 0, %{before} ], [ {next_trip}, %{code.block} ]",
    ]
    code.lines[phi_line] = "\n".join(phis + carried.phis(before, region.yielded))
    code.line(f"br label %{loop_label}{s.rolled(may_unroll)}")
    code.define_label(done_label)


def _known_trips(op: For) -> int:
    """The trip count of a loop; more than MAX_UNROLLED_TRIPS if it is not a constant."""
    known = [v.owner.value for v in op.bounds if isinstance(v.owner, S.Const)]
    return len(range(*known)) if len(known) == 3 else MAX_UNROLLED_TRIPS + 1


def _of_warp(s: GpuState, condition: Value) -> str:
    """A condition on which a block of one warp branches. If all threads compute the same condition, they vote, because
    ptxas cannot know that they do, and would emit code twice for threads that may be apart."""
    flag = s.scalar(condition)
    if s.depth or s.threads != WARP or s.known.varying(condition):
        return flag
    return s.code.emit(f"call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 {flag})")


def _while(s: GpuState, op: While, body: Body) -> None:
    code = s.code
    condition, region = op.condition, op.body
    carried = _Carried(s, op.initial, op.entries, op.results)
    loop_label, body_label, done_label, before = (
        code.label("while"),
        code.label("trip"),
        code.label("endwhile"),
        code.block,
    )
    code.jump(loop_label)
    code.define_label(loop_label)
    phi_line = len(code.lines)
    code.line("")
    with s.conditional_code():
        body(condition)
        code.branch(_of_warp(s, condition.yielded[0]), body_label, done_label)
        code.define_label(body_label)
        body(region)
    code.lines[phi_line] = "\n".join(carried.phis(before, region.yielded))
    code.line(f"br label %{loop_label}{s.rolled()}")
    code.define_label(done_label)
