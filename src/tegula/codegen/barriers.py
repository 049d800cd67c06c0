"""Barriers and asynchronous copies on a CPU, for kernels with a hand-written schedule: barriers are counters in the
block's memory, copies are synchronous, and fences are no-ops."""

from __future__ import annotations

from tegula.codegen import tiles
from tegula.codegen.roles import WORD, count_progress, get, put, wait_until, words
from tegula.codegen.state import State
from tegula.codegen.storage import BarrierDescriptor
from tegula.codegen.text import constant
from tegula.ir import Op, Value
from tegula.ops.buffer import buffer_type
from tegula.ops.roles import WARP
from tegula.ops.schedule import (
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedArrive,
    NamedSync,
    ScheduleOp,
    arrivals_at,
)
from tegula.ops.tile import TileLoad, TileStore
from tegula.types import element_bytes, scalar_of

PHASE, PENDING, BYTES = (WORD * k for k in range(3))
"""Byte offsets in the state of a stage of a barrier."""
STAGE_BYTES = 3 * WORD

FUNCTIONS = f"""define internal void @complete_phase(ptr %stage, i64 %count) #0 {{
entry:
  %pending.at = getelementptr i8, ptr %stage, i64 {PENDING}
  %pending = load i64, ptr %pending.at, align {WORD}
  %bytes.at = getelementptr i8, ptr %stage, i64 {BYTES}
  %bytes = load i64, ptr %bytes.at, align {WORD}
  %incomplete = or i64 %pending, %bytes
  %is.complete = icmp eq i64 %incomplete, 0
  br i1 %is.complete, label %next.phase, label %done
next.phase:
  %phase = load i64, ptr %stage, align {WORD}
  %phase.next = add i64 %phase, 1
  store i64 %phase.next, ptr %stage, align {WORD}
  store i64 %count, ptr %pending.at, align {WORD}
  br label %done
done:
  ret void
}}
define internal void @arrive(ptr %stage, i64 %times, i64 %count) #0 {{
entry:
  %pending.at = getelementptr i8, ptr %stage, i64 {PENDING}
  br label %loop
loop:
  %remaining = phi i64 [ %times, %entry ], [ %remaining.next, %loop ]
  %pending = load i64, ptr %pending.at, align {WORD}
  %pending.next = sub i64 %pending, 1
  store i64 %pending.next, ptr %pending.at, align {WORD}
  call void @complete_phase(ptr %stage, i64 %count)
  %remaining.next = sub i64 %remaining, 1
  %has.more = icmp ne i64 %remaining.next, 0
  br i1 %has.more, label %loop, label %done
done:
  ret void
}}"""


def new(s: State, op: Op) -> None:
    """Lower `mbarrier.new` and named barriers: each stage is in phase 0, with all arrivals pending."""
    if FUNCTIONS not in s.functions:
        s.functions.insert(0, FUNCTIONS)
    name, count = op.result.name, arrivals_at(op.result)
    stages = op.stages if isinstance(op, MbarrierNew) else 1
    address = words(s, f"{name or 'barrier'}: barriers", 3 * stages)
    for k in range(stages):
        put(s, address, STAGE_BYTES * k + PENDING, str(count))
    s.named_barriers[op.result] = BarrierDescriptor(name, address, count, ())


def _stage(s: State, barriers: Value, stage: Value) -> str:
    offset = s.memory.mul(s.i64(stage), str(STAGE_BYTES))
    return s.memory.bytes_offset(s.named_barriers[barriers].stages, offset)


def _complete_phase(s: State, barriers: Value, address: str) -> None:
    s.code.line(f"call void @complete_phase(ptr {address}, i64 {s.named_barriers[barriers].arrivals})")
    count_progress(s)


def _arrive(s: State, barriers: Value, address: str, times: int) -> None:
    s.code.line(f"call void @arrive(ptr {address}, i64 {times}, i64 {s.named_barriers[barriers].arrivals})")
    count_progress(s)


def _announce(s: State, address: str, bytes: int) -> None:
    put(s, address, BYTES, s.code.emit(f"add i64 {get(s, address, BYTES)}, {bytes}"))


def _warps(s: State, op: ScheduleOp) -> int:
    assert s.role is not None
    return 1 if op.elected else s.role.lanes // WARP


def arrive(s: State, op: MbarrierArrive) -> None:
    """Lower `mbarrier.arrive`: an arrival of each warp of the role."""
    _arrive(s, op.barriers, _stage(s, op.barriers, op.stage), _warps(s, op))


def expect(s: State, op: MbarrierExpect) -> None:
    """Lower `mbarrier.expect`: announce bytes, and arrive once."""
    address = _stage(s, op.barriers, op.stage)
    _announce(s, address, op.bytes)
    _arrive(s, op.barriers, address, 1)


def wait(s: State, op: MbarrierWait) -> None:
    """Lower `mbarrier.wait`: wait until the parity of the barrier's phase differs from the operand's parity."""
    barriers, stage = op.barriers, op.stage
    address, phase = _stage(s, barriers, stage), s.i64(op.parity)

    def is_complete() -> tuple[str, str]:
        bit = s.code.emit(f"and i64 {get(s, address, PHASE)}, 1")
        return s.code.emit(f"icmp ne i64 {bit}, {phase}"), _arriving_roles(s, barriers)

    wait_until(s, _site(s, op, barriers), is_complete, lambda: (get(s, address, PHASE), s.i64(stage)))


def _arriving_roles(s: State, barriers: Value) -> str:
    return str(sum(1 << k for k in s.named_barriers[barriers].roles))


def _site(s: State, op: Op, barriers: Value) -> int:
    assert s.role is not None
    data = {"role": s.role.position, "barrier": s.named_barriers[barriers].name}
    return s.site("wait", op.loc, **data, names=list(s.role.names))


def named_arrive(s: State, op: NamedArrive | NamedSync) -> None:
    """Lower `named.arrive`: an arrival of each warp of the role at a named barrier."""
    _arrive(s, op.barrier, s.named_barriers[op.barrier].stages, _warps(s, op))


def sync(s: State, op: NamedSync) -> None:
    """Lower `named.sync`: arrive, then wait for the end of the phase."""
    barriers = op.barrier
    address = s.named_barriers[barriers].stages
    phase = get(s, address, PHASE)
    named_arrive(s, op)

    def is_complete() -> tuple[str, str]:
        return s.code.emit(f"icmp ne i64 {get(s, address, PHASE)}, {phase}"), _arriving_roles(s, barriers)

    wait_until(s, _site(s, op, barriers), is_complete, lambda: (phase, "-1"))


def load(s: State, op: Op) -> None:
    """Lower `bulk.load` as a synchronous copy, whose bytes are counted immediately."""
    buffer, barriers, stage, array, *starts = op.operands
    t = buffer_type(buffer.type)
    zero = Value(t.dtype, None)
    s.scalars[zero] = (constant(scalar_of(t.dtype), 0),)
    attrs = {"shape": t.shape, "bounds_check": True, "aligned": False}
    load = TileLoad([array, zero, *starts], [t.tile], attrs, [], op.loc)
    s.inline[load.result] = load
    tiles.materialise(s, load.result, s.buffers[buffer])
    address = _stage(s, barriers, stage)
    _announce(s, address, -t.tile.size * element_bytes(t.dtype))
    _complete_phase(s, barriers, address)


def put_tile(s: State, op: Op) -> None:
    """Lower `bulk.put`: store the tile of a buffer to an array."""
    buffer, array, *starts = op.operands
    tile = Value(buffer_type(buffer.type).tile, None, buffer.name)
    s.tiles[tile] = s.buffers[buffer]
    attrs = {"bounds_check": True, "aligned": False}
    tiles.store(s, TileStore([array, tile, *starts], [], attrs, [], op.loc))
