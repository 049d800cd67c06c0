"""Roles on a CPU, as coroutines of the thread that runs the block. Each role is a function with a stack of its own in
the block's scratch memory. A role that must wait for a pipe switches back to the block, which resumes the next role.

Values that the block computes before the roles are passed to each role in a frame in memory. If all roles have been
resumed and none has filled or released a stage, the roles are deadlocked: the deadlock is reported, and no further
block runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tegula.codegen.arrays import report, reshaped
from tegula.codegen.poll import poll_if_due
from tegula.codegen.state import LoweredRole, State
from tegula.codegen.storage import Piece, PipeDescriptor, View, packed_strides
from tegula.codegen.text import constant, register_type
from tegula.codegen.tiles import materialise
from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.ir import Op, Value
from tegula.ops.roles import WARP, PipeLoad, PipePop, PipePush, PipeRelease, Roles, pipe_endpoints, pipe_type
from tegula.ops.schedule import arriving
from tegula.ops.tile import TileLoad
from tegula.passes.overlap import WAITING
from tegula.passes.plan_memory import CACHE_LINE
from tegula.types import PipeType, TileType, element_bytes, scalar_of

with deferred_imports():
    from tegula.codegen.checks import check_access

STACK_BYTES = 1 << 18
"""The size of a role's stack in bytes, with room for signal handlers. Pages that are never accessed take no memory."""

WORD = 8
POINTER, ENDED, SITE, ITEM, AWAITED, STAGE = (WORD * k for k in range(6))
"""Byte offsets in a role's control block: the stack pointer of a suspended role, whether the role has ended, and its
wait: the report site, the item, the mask of the awaited roles, and the stage."""
BLOCK_POINTER, PROGRESS = 0, WORD
"""Byte offsets in the memory that all roles share: the block's stack pointer while a role runs, and the number of fills
and releases of stages."""

DECLARATIONS = """declare void @start_stack(ptr, ptr, ptr, ptr)
declare void @switch_stack(ptr, ptr)"""

Body = Callable[[State, Roles, int], None]
"""Lowers the region of a role by its position."""


# The block -----------------------------------------------------------------------------------------------------------


def pipe_new(s: State, op: Op) -> None:
    """Allocate the stages of a pipe, each on cache lines of its own."""
    name, t = op.result.name or "pipe", pipe_type(op.result.type)
    s.pipes[op.result] = PipeDescriptor(name, _allocate(s, name, t.stages * _stage_bytes(t)), "", (), ())


def _stage_bytes(t: PipeType) -> int:
    return -(-TileType(t.dtype, t.shape).size * element_bytes(t.dtype) // CACHE_LINE) * CACHE_LINE


def lower_roles(s: State, op: Roles, body: Body) -> None:
    """Start each role, then resume the roles cyclically until all have ended; a role that never waits ends at its
    start."""
    names, waits = op.names, any(isinstance(inner, WAITING) for inner in op.walk())
    if waits:
        _exit_if_deadlocked(s)
    _connect(s, op)
    scheduler = words(s, "roles", PROGRESS // WORD + 1)
    controls = [words(s, f"{name}: waits", STAGE // WORD + 1) for name in names]
    lowered_roles = [
        LoweredRole(k, names, first * WARP, n * WARP, controls[k], scheduler)
        for k, (first, n) in enumerate(op.warps)
    ]
    before = len(s.polls)
    frames = [_lower_role(s, op, role, body) for role in lowered_roles]
    for k, frame in enumerate(frames):
        stack = _allocate(s, f"{names[k]}: stack", STACK_BYTES)
        top = s.memory.bytes_offset(stack, str(STACK_BYTES))
        s.code.line(f"call void @start_stack(ptr {scheduler}, ptr {top}, ptr @{symbol(k)}, ptr {frame})")
    if waits or len(s.polls) > before:
        _resume_cyclically(s, scheduler, controls)
    end = len(s.code.lines)
    s.scratch.min_ends.update({p.pointer: end for p in s.scratch.pieces})


def symbol(k: int) -> str:
    """The name of the LLVM function of role k."""
    return f"role{k}"


def _exit_if_deadlocked(s: State) -> None:
    """Exit the kernel if an earlier block was deadlocked."""
    flag = s.code.emit(f"load atomic i64, ptr {_deadlock_flag(s)} monotonic, align {WORD}")
    deadlocked, proceed = s.code.label("deadlocked"), s.code.label("proceed")
    s.code.branch(s.code.emit(f"icmp ne i64 {flag}, 0"), deadlocked, proceed)
    s.code.define_label(deadlocked)
    s.code.line("ret i32 0")
    s.code.define_label(proceed)


def _deadlock_flag(s: State) -> str:
    """The address of the deadlock flag: in the report buffer, after the number of records."""
    return s.memory.bytes_offset("%report", str(WORD))


def _connect(s: State, op: Op) -> None:
    """Record the producers and consumers of each pipe, and zero its counters."""
    for value, pipe in s.pipes.items():
        producers, consumers = pipe_endpoints(op, value)
        counters = words(s, f"{pipe.name}: counters", 1 + 2 * len(consumers))
        s.pipes[value] = replace(
            pipe, counters=counters, producers=tuple(producers), consumers=tuple(consumers)
        )
    for value, barriers in s.named_barriers.items():
        s.named_barriers[value] = replace(barriers, roles=tuple(arriving(op, value)))


def _resume_cyclically(s: State, scheduler: str, controls: list[str]) -> None:
    """Resume the unfinished roles cyclically until all have ended; report a deadlock after a cycle without progress."""
    code = s.code
    cycle, test, check, deadlocked, done = (
        code.label(n) for n in ("cycle", "test", "check", "deadlocked", "all_ended")
    )
    code.jump(test)
    code.define_label(test)
    poll_if_due(s, cycle)
    code.define_label(cycle)
    progress_before = get(s, scheduler, PROGRESS)
    for control in controls:
        run, skip = code.label("run"), code.label("skip")
        code.branch(_has_ended(s, control), skip, run)
        code.define_label(run)
        code.line(f"call void @switch_stack(ptr {scheduler}, ptr {get(s, control, POINTER, 'ptr')})")
        code.jump(skip)
        code.define_label(skip)
    ended = "true"
    for control in controls:
        ended = code.emit(f"and i1 {ended}, {_has_ended(s, control)}")
    code.branch(ended, done, check)
    code.define_label(check)
    code.branch(code.emit(f"icmp eq i64 {progress_before}, {get(s, scheduler, PROGRESS)}"), deadlocked, test)
    code.define_label(deadlocked)
    _report_waits(s, controls)
    code.line("ret i32 0")
    code.define_label(done)


def _report_waits(s: State, controls: list[str]) -> None:
    """Report the condition that each role that has not ended waits for."""
    code = s.code
    code.line(f"store atomic i64 1, ptr {_deadlock_flag(s)} monotonic, align {WORD}")
    for control in controls:
        report_label, next_label = code.label("waits"), code.label("next")
        code.branch(_has_ended(s, control), next_label, report_label)
        code.define_label(report_label)
        report(s, get(s, control, SITE), [get(s, control, at) for at in (ITEM, AWAITED, STAGE)])
        code.jump(next_label)
        code.define_label(next_label)


def _has_ended(s: State, control: str) -> str:
    return s.code.emit(f"icmp ne i64 {get(s, control, ENDED)}, 0")


def _allocate(s: State, name: str, size: int) -> str:
    pointer = s.code.fresh("s")
    s.scratch.pieces.append(Piece(pointer, name, size, s.loc, len(s.code.lines)))
    return pointer


def words(s: State, name: str, count: int) -> str:
    """Scratch memory of `count` words of 8 bytes, all 0."""
    pointer = _allocate(s, name, WORD * count)
    for k in range(count):
        put(s, pointer, WORD * k, "0")
    return pointer


def get(s: State, pointer: str, offset: int, type: str = "i64") -> str:
    """Load a word of a role's or pipe's state."""
    return s.code.emit(f"load {type}, ptr {s.memory.bytes_offset(pointer, str(offset))}, align {WORD}")


def put(s: State, pointer: str, offset: int, value: str, type: str = "i64") -> None:
    """Store a word of a role's or pipe's state."""
    s.code.line(f"store {type} {value}, ptr {s.memory.bytes_offset(pointer, str(offset))}, align {WORD}")


# A role --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """The registers of the block that a role captures, in the order of the role's frame."""

    role: State
    captured: list[tuple[str, str]]
    names: dict[str, str] = field(default_factory=dict)

    def get(self, type: str, register: str) -> str:
        """The role's register for a register of the block. Literals are returned unchanged."""
        if not register.startswith("%"):
            return register
        if register not in self.names:
            self.names[register] = get(self.role, "%frame", WORD * len(self.captured), type)
            self.captured.append((type, register))
        return self.names[register]


def _lower_role(s: State, op: Roles, role: LoweredRole, body: Body) -> str:
    """Lower a role to a function. Returns the register with the address of the role's frame."""
    name, region = op.names[role.position], op.roles[role.position]
    scratch = _allocate(s, f"{name}: tiles", CACHE_LINE)
    r = State(s.kernel, s.known, s.target, s.debug)
    r.code.rounds_bfloat16, r.code.fences_extremes = s.code.rounds_bfloat16, s.code.fences_extremes
    r.code.packs, r.code.rotates_loops = s.code.packs, s.code.rotates_loops
    r.code.tables, r.code.tables_by_object = s.code.tables, s.code.tables_by_object
    r.polls, r.emit_due_poll = s.polls, lambda label: _switch_to_poll(r, label)
    r.users, r.sites, r.matmuls, r.copies, r.functions = s.users, s.sites, s.matmuls, s.copies, s.functions
    frame = _Frame(r, [("ptr", "%args"), ("ptr", scratch)])
    r.block, r.present, r.watch = frame.get("i64", s.block), str(role.lanes), frame.get("i64", s.watch)
    r.role = replace(role, control=frame.get("ptr", role.control), scheduler=frame.get("ptr", role.scheduler))
    for value in dict.fromkeys(v for inner in region.walk() for v in inner.operands):
        _capture(s, frame, value)
    body(r, op, role.position)
    _end(r)
    entry, plan = r.scratch.planned(r.code.lines)
    s.functions.append(_function(symbol(role.position), [*entry, *r.code.lines]))
    s.scratch.resize(scratch, plan)
    pointer = _allocate(s, f"{name}: frame", WORD * len(frame.captured))
    for k, (type, register) in enumerate(frame.captured):
        put(s, pointer, WORD * k, register, type)
    return pointer


def _function(name: str, lines: list[str]) -> str:
    body = "\n".join(lines)
    return f"""define internal void @{name}(ptr %frame) #0 {{
entry:
  %args = load ptr, ptr %frame, align {WORD}
  %scratch.at = getelementptr i8, ptr %frame, i64 {WORD}
  %scratch = load ptr, ptr %scratch.at, align {WORD}
{body}
  unreachable
}}"""


def _capture(s: State, frame: _Frame, value: Value) -> None:
    """Capture a value of the block in a role's frame. Parameters are not captured, because a role reads them itself."""
    r = frame.role
    if value in s.kernel.params:
        return
    if value in s.scalars:
        t = register_type(scalar_of(value.type), 1)  # type: ignore[arg-type]
        r.scalars[value] = tuple(frame.get(t, part) for part in s.scalars[value])
    elif value in s.arrays:
        a = s.arrays[value]
        shape, strides = (tuple(frame.get("i64", n) for n in numbers) for numbers in (a.shape, a.strides))
        r.arrays[value] = replace(a, pointer=frame.get("ptr", a.pointer), shape=shape, strides=strides)
    elif value in s.pipes:
        pipe = s.pipes[value]
        stages, counters = frame.get("ptr", pipe.stages), frame.get("ptr", pipe.counters)
        r.pipes[value] = replace(pipe, stages=stages, counters=counters)
    elif value in s.named_barriers:
        barriers = s.named_barriers[value]
        r.named_barriers[value] = replace(barriers, stages=frame.get("ptr", barriers.stages))
    elif value in s.buffers:
        r.buffers[value] = replace(s.buffers[value], pointer=frame.get("ptr", s.buffers[value].pointer))
    elif value in s.lanes:
        view = replace(s.lanes[value], pointer=frame.get("ptr", s.lanes[value].pointer))
        r.lanes[value] = replace(view, pointer=r.memory.at(view, [str(r.first_lane)]), shape=(r.block_dim,))


def _end(r: State) -> None:
    """Mark the role as ended, and switch to the block."""
    assert r.role is not None
    put(r, r.role.control, ENDED, "1")
    _suspend(r, r.role)


def _suspend(r: State, role: LoweredRole) -> None:
    """Suspend the role until the block resumes it."""
    r.code.line(
        f"call void @switch_stack(ptr {role.control}, ptr {get(r, role.scheduler, BLOCK_POINTER, 'ptr')})"
    )


def _switch_to_poll(r: State, target: str) -> None:
    """Switch to the block to poll for cancellation on the thread's own stack, which has room for signal handlers. If
    the kernel is cancelled, the role is never resumed."""
    assert r.role is not None
    count_progress(r)
    _suspend(r, r.role)
    r.code.jump(target)


# Pipes ---------------------------------------------------------------------------------------------------------------


def pipe_load(r: State, op: PipeLoad) -> None:
    """Lower `pipe.load`: a synchronous copy."""
    tile = op.tile
    zero = Value(tile.dtype, None)
    r.scalars[zero] = (constant(scalar_of(tile.dtype), 0),)
    load = TileLoad([op.array, zero, *op.offset], [tile], {**op.promises, "shape": tile.shape}, [], op.loc)
    if op.aligned or (r.debug and not op.bounds_check):
        check_access(r, load)
    r.inline[load.result] = load
    _fill(r, op, load.result)


def pipe_push(r: State, op: PipePush) -> None:
    """Lower `pipe.push`: fill the next stage with a tile."""
    _fill(r, op, op.tile)


def _fill(r: State, op: PipeLoad | PipePush, tile: Value) -> None:
    value = op.pipe
    pipe, stages = r.pipes[value], pipe_type(value.type).stages

    def has_free_stage() -> tuple[str, str]:
        """Whether all consumers have released the stage, and the set of consumers that have not."""
        filled, ok, unreleased = get(r, pipe.counters, 0), "true", "0"
        for k, consumer in enumerate(pipe.consumers):
            ahead = r.code.emit(f"sub i64 {filled}, {get(r, pipe.counters, _released_offset(k))}")
            free = r.code.emit(f"icmp slt i64 {ahead}, {stages}")
            bit = r.code.emit(f"select i1 {free}, i64 0, i64 {1 << consumer}")
            ok, unreleased = r.code.emit(f"and i1 {ok}, {free}"), r.code.emit(f"or i64 {unreleased}, {bit}")
        return ok, unreleased

    _wait(r, op, has_free_stage, 0)
    filled = get(r, pipe.counters, 0)
    watch = r.watch
    if len(pipe.producers) > 1:
        r.watch = ""  # a poll could let another role fill the same stage
    assert isinstance(tile.type, TileType)
    materialise(r, tile, reshaped(_stage(r, value, filled), tile.type.shape))
    r.watch = watch
    _increment(r, pipe, 0)
    count_progress(r)


def pipe_pop(r: State, op: PipePop) -> None:
    """Lower `pipe.pop`: the result is a view of the stage."""
    value = op.pipe
    pipe, popped_offset = r.pipes[value], _popped_offset(_consumer_position(r, value))
    producers = str(sum(1 << k for k in pipe.producers))

    def full() -> tuple[str, str]:
        popped, filled = get(r, pipe.counters, popped_offset), get(r, pipe.counters, 0)
        return r.code.emit(f"icmp slt i64 {popped}, {filled}"), producers

    _wait(r, op, full, popped_offset)
    r.buffers[op.result] = _stage(r, value, get(r, pipe.counters, popped_offset))
    _increment(r, pipe, popped_offset)


def pipe_release(r: State, op: PipeRelease) -> None:
    """Lower `pipe.release`: count the stage as released by this role."""
    value = op.pipe
    _increment(r, r.pipes[value], _released_offset(_consumer_position(r, value)))
    count_progress(r)


def _consumer_position(r: State, pipe: Value) -> int:
    """The position of the role among the consumers of a pipe."""
    assert r.role is not None
    return r.pipes[pipe].consumers.index(r.role.position)


def _popped_offset(k: int) -> int:
    return WORD * (1 + 2 * k)


def _released_offset(k: int) -> int:
    return WORD * (2 + 2 * k)


def _increment(r: State, pipe: PipeDescriptor, offset: int) -> None:
    put(r, pipe.counters, offset, r.code.emit(f"add i64 {get(r, pipe.counters, offset)}, 1"))


def count_progress(r: State) -> None:
    """Count a fill or release, by which the block detects progress."""
    assert r.role is not None
    put(r, r.role.scheduler, PROGRESS, r.code.emit(f"add i64 {get(r, r.role.scheduler, PROGRESS)}, 1"))


def _stage(r: State, pipe: Value, item: str) -> View:
    """The view of the stage that holds tile number `item` of a pipe."""
    t = pipe_type(pipe.type)
    number = r.code.emit(f"urem i64 {item}, {t.stages}")
    offset = r.memory.mul(number, str(_stage_bytes(t)))
    pointer = r.memory.bytes_offset(r.pipes[pipe].stages, offset)
    return View(pointer, t.dtype, t.shape, packed_strides(t.shape, 1))


def _wait(
    r: State, op: PipeLoad | PipePop | PipePush, test: Callable[[], tuple[str, str]], counter: int
) -> None:
    """Suspend the role until a test holds. `test`: emits the test's i1, and the mask of the awaited roles. `counter`:
    the byte offset of the counter of this role's operations on the pipe."""
    pipe = op.pipe
    wait_until(r, _site(r, op), test, lambda: (get(r, r.pipes[pipe].counters, counter), "-1"))


def wait_until(
    r: State, site: int, test: Callable[[], tuple[str, str]], item: Callable[[], tuple[str, str]]
) -> None:
    """Suspend the role until a test holds. `test`: emits the test's i1, and the mask of the awaited roles. `item`:
    emits the index and the stage of the awaited item."""
    assert r.role is not None
    code, control = r.code, r.role.control
    test_label, blocked, proceed = (code.label(n) for n in ("test", "blocked", "proceed"))
    code.jump(test_label)
    code.define_label(test_label)
    ok, awaited_roles = test()
    code.branch(ok, proceed, blocked)
    code.define_label(blocked)
    number, stage = item()
    for offset, word in ((SITE, str(site)), (ITEM, number), (AWAITED, awaited_roles), (STAGE, stage)):
        put(r, control, offset, word)
    _suspend(r, r.role)
    code.jump(test_label)
    code.define_label(proceed)


def _site(r: State, op: PipeLoad | PipePop | PipePush) -> int:
    """The report site of a role's wait for a pipe, which a deadlock report names."""
    assert r.role is not None
    pipe = op.pipe
    data = {"role": r.role.position, "pipe": pipe.name, "stages": pipe_type(pipe.type).stages}
    return r.site("wait", op.loc, **data, fills=not isinstance(op, PipePop), names=list(r.role.names))
