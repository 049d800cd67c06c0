"""Lowering of one kernel to one GPU function, which every thread of a block runs with its lane's scalars and its
registers of tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tegula.codegen.arrays import accessed, array_view, lower_access, report, slot, thread_component
from tegula.codegen.convert import convert
from tegula.codegen.elements import DIVISIONS, STRAIGHT
from tegula.codegen.gpu import (
    access,
    byte_reads,
    exchange,
    gathers,
    picked,
    scattered,
    segments,
)
from tegula.codegen.gpu.blocks import (
    block_place,
    blocks_together,
    for_blocks,
    logical_blocks,
    thread_and_block,
)
from tegula.codegen.gpu.code import GpuCode
from tegula.codegen.gpu.control import control, diverging, emit_if, run_conditionally
from tegula.codegen.gpu.flags import Flags
from tegula.codegen.gpu.launches import in_order_of_launches, launch_next
from tegula.codegen.gpu.mapped import mapped
from tegula.codegen.gpu.maps import ALIGNMENT, BYTES, argument_bytes, maps_offset
from tegula.codegen.gpu.quotients import batched_functions
from tegula.codegen.gpu.side_by_side import group_ops
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.gpu.stored_vectors import stored_vectors, vector_access
from tegula.codegen.scalar import Components, elementwise, lower
from tegula.codegen.storage import FAR, ArrayDescriptor, SwizzledView, View, strides_of
from tegula.codegen.text import register_type
from tegula.codegen.unused import without_unused
from tegula.deferred import deferred_imports
from tegula.ir import ActsOnLines, Contents, Kernel, Op, Region, Synchronising, TileAccess, Value, numbered
from tegula.layout import Layout
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.buffer import BufExchange, BufNew, BufRead, BufReshape, BufUpdate, BufView, BufWrite
from tegula.ops.control import For, If, While, Yield
from tegula.ops.debug import PrintTile
from tegula.ops.group import (
    MATMULS,
    Agree,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    MmaWait,
    PartialReduce,
    Publish,
    RegisterMma,
    SharedMma,
    StackAdvance,
    StackFill,
    StackTake,
    StackVote,
)
from tegula.ops.lane import BlockCoordinate, Lanes, LogicalBlocks, Tid, TileFromLanes, TileToLanes
from tegula.ops.roles import WARP, Roles
from tegula.ops.schedule import (
    BulkCommit,
    BulkLoad,
    BulkPrefetch,
    BulkPut,
    BulkStore,
    BulkWait,
    ClusterEnd,
    ClusterPeer,
    FenceAsync,
    LaunchNext,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierReady,
    MbarrierWait,
    NamedArrive,
    NamedNew,
    NamedSync,
)
from tegula.ops.stack import StackClear, StackNew
from tegula.ops.tile import (
    TileArange,
    TileAtomic,
    TileBroadcast,
    TileEmpty,
    TileExtract,
    TileFillAbsent,
    TileFull,
    TileLoad,
    TileMap,
    TileMarkPartial,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
)
from tegula.ops.vector import VecBits
from tegula.passes.groups import Group
from tegula.passes.place_shared import COUNT_BYTES
from tegula.passes.runner import GpuCompilation
from tegula.target import CudaTarget
from tegula.types import (
    ArrayType,
    BufType,
    StackType,
    TileType,
    components,
    element_bytes,
    int64,
    scalar_of,
)

with deferred_imports():
    from tegula.codegen.atomics import atomic, compare_and_swap_loop
    from tegula.codegen.checks import check_access, check_agreement, check_division
    from tegula.codegen.gpu.bulk_stores import bulk_store
    from tegula.codegen.gpu.clusters import cluster_end, cluster_peer
    from tegula.codegen.gpu.lane_tiles import from_lanes, to_lanes
    from tegula.codegen.gpu.lines import LineTable
    from tegula.codegen.gpu.matmul import matmul, to_tf32
    from tegula.codegen.gpu.roles import roles
    from tegula.codegen.gpu.schedule import (
        barrier_arrive,
        barrier_expect,
        barrier_new,
        barrier_ready,
        barrier_wait,
        bulk_commit,
        bulk_load,
        bulk_prefetch,
        bulk_put,
        bulk_wait,
        fence_async,
        named_arrive,
        named_new,
        named_sync,
        prefetch_maps,
    )
    from tegula.codegen.gpu.wgmma import mma_wait
    from tegula.codegen.sites import printed_tiles

SYMBOL = "kernel"
START = "start:"
GLOBAL = "addrspace(1)"


def lower_kernel(
    kernel: Kernel, parts: GpuCompilation, target: CudaTarget, debug: bool = False, lines: bool = False
) -> GpuCode:
    """The kernel, after the GPU passes, as LLVM IR for `target`. `debug` checks indices at run time; `lines`: the code
    records the Python line of each instruction."""
    s = GpuState(kernel, parts.uniformity, target, debug)  # type: ignore[arg-type]
    s.line_table = LineTable(kernel.name, kernel.loc) if lines else None
    contents = Contents(kernel)
    s.layouts, s.places, s.stored = parts.layouts, parts.shared.allocations, stored_vectors(kernel, contents)
    s.numbers = numbered(kernel.body) if contents.have(Synchronising) else {}
    s.clustered = any(op.cluster for op in contents.of(MbarrierNew))
    s.group, s.lanes = Group(0, parts.threads // WARP), kernel.launch.block_dim
    s.together, s.block_lanes, s.part_bytes = blocks_together(kernel, parts, contents)
    _Walk(s, Flags(s, contents)).function()
    return GpuCode(
        _module(s), parts.shared.plan, s.threads, s.sites, contents.have(*MATMULS), tuple(s.maps),
        s.start_registers, s.budgets, s.clustered, s.together,
        WARP // s.block_lanes, s.part_bytes, _registers_of_lines(s, contents),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _broadcast_registers(source: Layout, result: Layout) -> tuple[int, ...]:
    """The register of a tile with layout `source` that each register of the broadcast tile copies."""
    leading = len(result.shape) - len(source.shape)
    by_offsets = {source.register_offsets(r): r for r in range(source.register_count)}
    offsets = (result.register_offsets(r)[leading:] for r in range(result.register_count))
    return tuple(
        by_offsets[tuple(i if n > 1 else 0 for n, i in zip(source.shape, at, strict=True))] for at in offsets
    )


def _registers_of_lines(s: GpuState, contents: Contents) -> int:
    """The maximum number of registers of a tile from which threads extract lines."""
    tiles = (op.line.tile for op in contents.of(ActsOnLines) if op.line is not None)
    bytes_held = (
        len(s.types(tile)) * element_bytes(scalar_of(tile.type.dtype))
        for tile in tiles
        if isinstance(tile.type, TileType)
    )
    return max(bytes_held, default=0) // 4


def _module(s: GpuState) -> str:
    body = without_unused([*s.frame, *s.code.entry, START, *s.code.lines])
    start = body.index(START)
    entry, lines = "\n".join(body[:start]), "\n".join(body[start + 1 :])
    size = maps_offset(s.kernel) + BYTES * len(s.maps) if s.maps else argument_bytes(s.kernel)
    registers = f' "nvvm.maxnreg"="{s.start_registers}"' if s.start_registers else ""
    align = f'align {ALIGNMENT} "nvvm.grid_constant"' if s.maps else "align 16"
    subprogram = f" !dbg !{s.line_table.function}" if s.line_table else ""
    threads = f"{s.threads}, {s.together}" if s.together > 1 else str(s.threads)
    return (
        "@shared = external addrspace(3) global [0 x i8], align 1024\n"
        f"{s.code.table_lines()}"
        f"define ptx_kernel void @{SYMBOL}(ptr byval([{size} x i8]) {align} %args) #0{subprogram} {{\n"
        f"entry:\n{entry}\n  br label %start\n{START}\n{lines}\n  ret void\n}}\n"
        f'attributes #0 = {{ nounwind "nvvm.maxntid"="{threads}"{registers} "no-builtins" }}\n'
        + s.loop_metadata()
        + (s.line_table.metadata() if s.line_table else "")
    )


class _Walk:
    """Walks the kernel once, in order."""

    def __init__(self, s: GpuState, flags: Flags) -> None:
        self.s = s
        self.code = s.code
        self.flags = flags
        s.code.block = "start"
        s.code.rounds_bfloat16 = s.code.approximates = s.code.pairs_halves = s.code.reuses = True
        s.code.table_space, s.code.varies = f"{GLOBAL} ", s.known.varying
        s.code.batched_functions = batched_functions(s.rolled)
        s.run_branching = self._branching

    # Frame -----------------------------------------------------------------------------------------------------------

    def function(self) -> None:
        s = self.s
        s.code.entry += thread_and_block(s)
        s.lane = "%lane"
        self._parameters()
        s.present = self._present()
        for_blocks(s, lambda: in_order_of_launches(s, self.op))
        if s.maps:
            prefetch_maps(s)

    def _parameters(self) -> None:
        """The argument block: 8-byte slots for scalars, components for vectors, {pointer, lengths, strides} for
        arrays; then launch dimensions, the number of threads, the report buffer."""
        s, at = self.s, 0
        for name, value in zip(s.kernel.param_names, s.kernel.params, strict=True):
            at = self._parameter(name, value, at)
        for _ in range(s.kernel.launch.ndim):
            s.dims.append(self._slot(at))
            at += 8
        s.thread_count = self._slot(at)
        s.code.entry.append(f"  %report.at = getelementptr i8, ptr %args, i64 {at + 8}")
        s.code.entry.append("  %report = load ptr, ptr %report.at, align 8")

    def _slot(self, at: int) -> str:
        return self.s.first(f"load i64, ptr {self._argument(at)}, align 8")

    def _argument(self, at: int) -> str:
        return self.s.first(f"getelementptr i8, ptr %args, i64 {at}")

    def _parameter(self, name: str, value: Value, at: int) -> int:
        s, t = self.s, value.type
        if isinstance(t, ArrayType):
            raw = s.first(f"load ptr {GLOBAL}, ptr {self._argument(at)}, align 8")
            pointer = s.first(f"addrspacecast ptr {GLOBAL} {raw} to ptr")
            shape = tuple(self._slot(at + 8 * (1 + d)) for d in range(t.ndim))
            strides = strides_of(s.kernel, value, lambda d: self._slot(at + 8 * (1 + t.ndim + d)))
            s.arrays[value] = ArrayDescriptor(pointer, t.dtype, shape, strides, name)
            return at + 8 * (1 + 2 * t.ndim)
        pointer = self.code.emit(f"getelementptr i8, ptr %args, i64 {at}")
        s.scalars[value] = s.memory.load_element(pointer, t)  # type: ignore[arg-type]
        return at + -(-element_bytes(t) // 8) * 8  # type: ignore[arg-type]

    def _present(self) -> str:
        s, n = self.s, self.s.block_dim
        if not s.kernel.launch.partial:
            return str(n)
        first_thread = s.first(f"mul i64 %block, {n}")
        remaining = s.first(f"sub i64 {s.thread_count}, {first_thread}")
        return s.first(f"call i64 @llvm.smin.i64(i64 {remaining}, i64 {n})")

    def region(self, region: Region) -> None:
        """Lower the ops of a region; the caller lowers the terminator."""
        for ops in group_ops(self.s, region.ops):
            if not isinstance(ops[0], Yield):
                self.op(*ops)

    def op(self, op: Op, *others: Op) -> None:
        """Lower an op, together with `others` of the same kind."""
        s = self.s
        s.loc = op.loc
        s.noted = f" // op {s.numbers[op]}" if isinstance(op, Synchronising) and op in s.numbers else ""
        if s.line_table:
            self.code.suffix = s.line_table.mark(op.loc)
        if isinstance(op, TileAccess) and (op.aligned or (s.debug and not op.bounds_check)):
            promised = _between_array_and_registers(op)
            emit_if(s, self._first_lane(), lambda: check_access(s, promised))
            # Instructions of whole warps may follow.
            self.code.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        rule = _RULES.get(type(op))
        if rule is None:
            rule = _RULES[type(op)] = _Walk._straight if isinstance(op, STRAIGHT) else _Walk._access
        rule(self, op, *others)

    def _first_lane(self) -> str:
        return self.code.emit(f"icmp eq i32 {self.s.lane32}, 0")

    def _control(self, op: Op) -> None:
        control(self.s, op, self.region)

    def _access(self, op: Op) -> None:
        access = lower_access(self.s, op)
        if access is not None:
            self.s.scalars[op.result] = access

    def _straight(self, op: Op) -> None:
        s = self.s
        if s.debug and isinstance(op, DIVISIONS):
            check_division(s, op)
        if isinstance(op, VecBits):
            s.scalars[op.result] = self.flags.bits(op)
        elif not self.flags.wait(op) and not vector_access(s, op):
            s.scalars[op.result] = lower(self.code, op, [s.components(v) for v in op.operands], 1)

    # Lanes -----------------------------------------------------------------------------------------------------------

    def tid(self, op: Tid) -> None:
        s = self.s
        block = s.i64(op.block) if op.block is not None else None
        for k, value in enumerate(op.results):
            s.scalars[value] = (thread_component(s, k, not s.known.varying(value), block),)

    def lanes(self, op: Lanes) -> None:
        """Lower `lanes`: the code of each lane; threads without a lane skip it and hold zeros as its results."""
        s, body = self.s, op.body

        def act() -> list[str]:
            with diverging(s):
                self.region(body)
            return [x for v in body.yielded for x in s.components(v)]

        ok = self.code.emit(f"icmp ult i64 {self.s.lane}, {s.present}") if s.some_absent else "true"
        types = [t for r in op.results for t in s.types(r)]
        zeros_of_results = [x for r in op.results for x in zeros(r.type)]  # type: ignore[arg-type]
        values = run_conditionally(s, ok, types, act, zeros_of_results)
        position = 0
        for r in op.results:
            n = len(s.types(r))
            s.bind(r, values[position : position + n])
            position += n

    def _branching(self, region: Region, args: list[Components]) -> list[Components]:
        """The values that a region with control flow yields for one element."""
        self.s.scalars.update(zip(region.args, args, strict=True))
        with diverging(self.s):
            self.region(region)
        return [self.s.components(v) for v in region.yielded]

    def publish(self, op: Op) -> None:
        """Store the value of one lane, by the thread of this lane; if the lane is absent, lane 0 stores zeros."""
        s, code = self.s, self.code
        buffer, value, lane = op.operands
        lane_number = s.i64(lane)
        ok = code.emit(f"icmp ult i64 {lane_number}, {s.present}")
        writer = code.emit(f"select i1 {ok}, i64 {lane_number}, i64 0")
        dtype = s.buffers[buffer].dtype
        t = register_type(scalar_of(dtype), 1)
        parts = tuple(
            code.emit(f"select i1 {ok}, {t} {x}, {t} {zero}")
            for x, zero in zip(s.components(value), zeros(dtype), strict=True)
        )
        is_writer = code.emit(f"icmp eq i64 {s.lane}, {writer}")
        emit_if(s, is_writer, lambda: s.memory.store_view(s.buffers[buffer], ["0"], parts, 1))

    def agree(self, op: Agree) -> None:
        s = self.s
        is_present = self.code.emit(f"icmp ult i64 {s.lane}, {s.present}") if s.some_absent else "true"
        emit_if(s, is_present, lambda: check_agreement(s, op))

    # Tiles, element by element ---------------------------------------------------------------------------------------

    def full(self, op: TileFull) -> None:
        s = self.s
        parts = s.components(op.value)
        s.held[op.result] = [parts] * s.layouts[op.result].register_count

    def empty(self, op: Op) -> None:
        t = op.result.type
        assert isinstance(t, TileType)
        if op.result in self.s.layouts:
            self.s.held[op.result] = [zeros(t.dtype)] * self.s.layouts[op.result].register_count

    def arange(self, op: Op) -> None:
        s, layout = self.s, self.s.layouts[op.result]
        dtype = scalar_of(op.start.type)  # type: ignore[arg-type]
        start, step = (s.scalar(v) for v in op.operands)
        dim = max(range(len(layout.shape)), key=lambda d: layout.shape[d])
        first = s.base(layout)[dim]
        if s.budgets:
            # LLVM would hoist these constants out of loops, and occupy registers that roles with a register budget do
            # not have.
            first = s.code.emit(f'call i64 asm sideeffect "mov.b64 $0, $1;", "=l,l"(i64 {first})')
        registers: list[Components] = []
        for r in range(layout.register_count):
            at = s.memory.add(first, str(layout.register_offsets(r)[dim]))
            position = convert(s.code, at, int64, dtype, 1)
            scaled = elementwise(s.code, S.Mul([], []), dtype, [step, position], 1)
            registers.append((elementwise(s.code, S.Add([], []), dtype, [start, scaled], 1),))
        s.held[op.result] = registers

    def fill_absent(self, op: TileFillAbsent) -> None:
        s, layout, t = self.s, self.s.layouts[op.result], op.result.type
        assert isinstance(t, TileType)
        registers: list[Components] = []
        scalar_type = register_type(scalar_of(t.dtype), 1)
        for r, parts in enumerate(s.held[op.tile]):
            ok = s.holds(layout, r, True) if s.some_absent else "true"
            if ok != "true":
                parts = tuple(
                    s.code.emit(f"select i1 {ok}, {scalar_type} {x}, {scalar_type} {zero}")
                    for x, zero in zip(parts, zeros(t.dtype), strict=True)
                )
            registers.append(parts)
        s.held[op.result] = registers

    def alias(self, op: TileMarkPartial | TilePermute | TileReshape) -> None:
        self.s.held[op.result] = self.s.held[op.tile]

    def broadcast(self, op: TileBroadcast) -> None:
        """Lower `tile.broadcast`: copy each register from the register of the broadcast element."""
        s, source = self.s, op.tile
        source_layout, result_layout = s.layouts[source], s.layouts[op.result]
        held = s.held[source]
        s.held[op.result] = [held[r] for r in _broadcast_registers(source_layout, result_layout)]

    # Reductions ------------------------------------------------------------------------------------------------------

    def reduce(self, op: TileReduce) -> None:
        s, tile = self.s, op.tile
        t, layout = tile.type, s.layouts[tile]
        assert isinstance(t, TileType)
        bases = op.bases

        def checked(r: int) -> str:
            if bases is None:
                return s.holds(layout, r, t.partial)
            return self._has_partial_result(op, layout, r)

        reduction = exchange.Reduction(tile, op.axis, op.combine, checked)
        (s.held[op.result],) = exchange.reduced(s, [reduction])

    def _has_partial_result(self, op: TileReduce, layout: Layout, r: int) -> str:
        """Whether a warp's partial result, in register r, combines any element: an i1, "true" or "false"."""
        s, axis = self.s, op.axis or 0
        base = op.bases[layout.register_offsets(r)[axis]]
        extent, last = op.extent, len(op.extent) - 1
        ok = "true"
        for d, (at, n) in enumerate(zip(base, extent, strict=True)):
            if op.lanes and d == last and s.some_absent:
                test = s.code.emit(f"icmp ult i64 {at}, {s.present}")
                ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
            elif at >= n:
                return "false"
        return ok

    # Buffers ---------------------------------------------------------------------------------------------------------

    def buf_new(self, op: BufNew) -> None:
        s, t = self.s, op.result.type
        assert isinstance(t, BufType)
        memory, pointer = s.places[op.result], s.shared(op.result)
        view = View(pointer, t.dtype, t.shape, memory.strides)
        if memory.row_bytes:
            view = SwizzledView(pointer, t.dtype, t.shape, (FAR, FAR, 1), 1, t.shape, memory.row_bytes)  # type: ignore[arg-type]
        s.buffers[op.result] = view
        if not isinstance(op.tile.owner, TileEmpty):
            self._write(op.result, op.tile)

    def buf_write(self, op: BufWrite) -> None:
        self._write(*op.operands, as_tf32=op.to_tf32)

    def _write(self, buffer: Value, tile: Value, as_tf32: bool = False) -> None:
        """Lower a write of a tile. `as_tf32`: whether elements are rounded to tf32."""
        s, t = self.s, tile.type
        assert isinstance(t, TileType)
        registers = s.held[tile]
        if as_tf32:
            registers = [tuple(to_tf32(s, x) for x in parts) for parts in registers]
        access.buffer_store(s, s.buffers[buffer], s.layouts[tile], registers, _aligned(buffer), t.partial)

    def buf_read(self, op: BufRead) -> None:
        s, buffer = self.s, op.buffer
        reads_aligned = _aligned(buffer)
        view, layout = s.buffers[buffer], s.layouts[op.result]
        if reads_aligned and byte_reads.reads_matrices(s, view, layout):
            s.held[op.result] = byte_reads.matrices(s, view)
        elif access.is_aligned(s, buffer) and byte_reads.reads_pairs(view, layout):
            s.held[op.result] = byte_reads.pairs(s, view, layout)
        else:
            s.held[op.result] = access.buffer_load(s, view, layout, reads_aligned)

    def buf_update(self, op: BufUpdate) -> None:
        """Atomic update by each lane. For types without an instruction for shared memory, a compare-and-swap loop is
        emitted here, because the loops of ptxas may hang or fault (docs/design/004)."""
        s = self.s
        pointer, t, stride = accessed(s, op, s.buffers[op.buffer], op.indices)
        scalar, kind = scalar_of(t), op.op
        for c, value in enumerate(s.components(op.value)):
            at = s.memory.offset(pointer, str(c * stride), scalar)
            update = compare_and_swap_loop if scalar.bits == 64 or scalar.is_float else atomic
            update(self.code, kind, at, scalar, value)

    def buf_exchange(self, op: BufExchange) -> None:
        """Atomic exchange by each lane: one instruction for 32 bits, else a compare-and-swap loop."""
        s = self.s
        pointer, t, stride = accessed(s, op, s.buffers[op.buffer], op.indices)
        scalar = scalar_of(t)
        exchange = atomic if scalar.bits == 32 else compare_and_swap_loop
        s.scalars[op.result] = tuple(
            exchange(self.code, "exch", s.memory.offset(pointer, str(c * stride), scalar), scalar, value)
            for c, value in enumerate(s.components(op.value))
        )

    def barrier(self, op: Barrier) -> None:
        """Lower a barrier: of the block, of a warp, or the named barrier of a role."""
        group = self.s.group
        if op.of_warps or group.warps == 1:
            self.code.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        elif group.number == 0:
            self.code.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
        else:
            name, count = f"i32 {group.number}", f"i32 {group.threads}"
            self.code.line(f"call void @llvm.nvvm.barrier.cta.sync.aligned.count({name}, {count})")

    def roles(self, op: Roles) -> None:
        roles(self.s, op, self.region)

    def async_commit(self, op: Op) -> None:
        self.code.line("call void @llvm.nvvm.cp.async.commit.group()")

    def async_wait(self, op: AsyncWait) -> None:
        self.code.line(f"call void @llvm.nvvm.cp.async.wait.group(i32 {op.pending})")

    # Stacks ----------------------------------------------------------------------------------------------------------

    def stack_new(self, op: Op) -> None:
        s, t = self.s, op.result.type
        assert isinstance(t, StackType)
        count = s.shared(op.result)
        data = s.first(f"getelementptr inbounds i8, ptr {count}, i64 {COUNT_BYTES}")
        s.stacks[op.result] = (count, View(data, t.dtype, (t.capacity,), (components(t.dtype),)))
        emit_if(s, self._first_lane(), lambda: self.code.line(f"store i32 0, ptr {count}, align 4"))

    def stack_clear(self, op: StackClear) -> None:
        count, _ = self.s.stacks[op.stack]
        emit_if(self.s, self._first_lane(), lambda: self.code.line(f"store i32 0, ptr {count}, align 4"))

    def _is_pushing(self, flag: Value) -> str:
        s = self.s
        value = s.scalar(flag)
        if not s.some_absent:
            return value
        is_present = self.code.emit(f"icmp ult i64 {self.s.lane}, {s.present}")
        return self.code.emit(f"and i1 {is_present}, {value}")

    def stack_vote(self, op: StackVote) -> None:
        s, code = self.s, self.code
        bits = exchange.ballot(s, self._is_pushing(op.has_value))
        count = code.emit(f"call i32 @llvm.ctpop.i32(i32 {bits})")
        warp = code.emit(f"zext i32 {code.emit(f'lshr i32 {s.lane32}, 5')} to i64")
        first = code.emit(f"icmp eq i32 {code.emit(f'and i32 {s.lane32}, 31')}, 0")
        view = s.buffers[op.votes]
        emit_if(s, first, lambda: s.memory.store_view(view, [warp], (count,), 1))

    def stack_fill(self, op: Op) -> None:
        """Write each lane's pushed value to its slot: the old count, plus the pushes of earlier warps and of earlier
        lanes of its warp."""
        s, code = self.s, self.code
        stack, votes, value, flag = op.operands
        count, view = s.stacks[stack]
        pushing = self._is_pushing(flag)
        bits = exchange.ballot(s, pushing)
        lane = code.emit(f"and i32 {s.lane32}, 31")
        lower_lanes = code.emit(f"sub i32 {code.emit(f'shl i32 1, {lane}')}, 1")
        slot = code.emit(f"call i32 @llvm.ctpop.i32(i32 {code.emit(f'and i32 {bits}, {lower_lanes}')})")
        slot = code.emit(f"add i32 {slot}, {code.emit(f'load i32, ptr {count}, align 4')}")
        warp = code.emit(f"lshr i32 {s.lane32}, 5")
        for k in range(s.threads // 32 - 1):
            (n,) = s.memory.load_view(s.buffers[votes], [str(k)], 1)
            earlier = code.emit(f"icmp ugt i32 {warp}, {k}")
            slot = code.emit(f"add i32 {slot}, {code.emit(f'select i1 {earlier}, i32 {n}, i32 0')}")
        has_room = code.emit(f"icmp ult i32 {slot}, {view.shape[0]}")
        stores = code.emit(f"and i1 {pushing}, {has_room}")
        at = code.emit(f"zext i32 {slot} to i64")
        emit_if(s, stores, lambda: s.memory.store_view(view, [at], s.components(value), 1))
        s.scalars[op.result] = (code.emit(f"select i1 {stores}, i32 {slot}, i32 -1"),)

    def stack_take(self, op: StackTake) -> None:
        """Pop elements: lane k takes the k-th element from the top."""
        s, code = self.s, self.code
        count, view = s.stacks[op.stack]
        count_before = code.emit(f"load i32, ptr {count}, align 4")
        remaining = code.emit(f"sub i32 {count_before}, {s.lane32}")
        slot = code.emit(f"sub i32 {remaining}, 1")
        ok = code.emit(f"icmp sgt i32 {remaining}, 0")
        if s.some_absent:
            ok = code.emit(f"and i1 {ok}, {code.emit(f'icmp ult i64 {s.lane}, {s.present}')}")
        types = [register_type(scalar_of(view.dtype), 1)] * components(view.dtype)
        parts = run_conditionally(
            s, ok, types,
            lambda: list(s.memory.load_view(view, [code.emit(f"zext i32 {slot} to i64")], 1)),
            list(zeros(view.dtype)),
        )  # fmt: skip
        s.scalars[op.results[0]] = tuple(parts)
        s.scalars[op.results[1]] = (code.emit(f"select i1 {ok}, i32 {slot}, i32 -1"),)

    def stack_advance(self, op: StackAdvance) -> None:
        s, code = self.s, self.code
        count, view = s.stacks[op.stack]

        def act() -> None:
            n = code.emit(f"load i32, ptr {count}, align 4")
            if op.votes is not None:
                for k in range(s.threads // 32):
                    n = code.emit(f"add i32 {n}, {s.memory.load_view(s.buffers[op.votes], [str(k)], 1)[0]}")
                n = code.emit(f"call i32 @llvm.smin.i32(i32 {n}, i32 {view.shape[0]})")
            else:
                lanes = (
                    s.present if not s.present.startswith("%") else code.emit(f"trunc i64 {s.present} to i32")
                )
                n = code.emit(f"call i32 @llvm.smax.i32(i32 {code.emit(f'sub i32 {n}, {lanes}')}, i32 0)")
            code.line(f"store i32 {n}, ptr {count}, align 4")

        emit_if(s, self._first_lane(), act)

    # Reports ---------------------------------------------------------------------------------------------------------

    def print_tile(self, op: PrintTile) -> None:
        """Write the elements of all operands to the report buffer, one record each, numbered consecutively."""
        site, first = self.s.site("tile", op.loc, **printed_tiles(op)), 0
        for tile in op.operands:
            assert isinstance(tile.type, TileType)
            self._print_elements(tile, tile.type, site, first)
            first += tile.type.size

    def _print_elements(self, tile: Value, t: TileType, site: int, first: int) -> None:
        s, layout = self.s, self.s.layouts[tile]

        def act() -> None:
            for r, parts in enumerate(s.held[tile]):

                def record(r: int = r, parts: Components = parts) -> None:
                    flat = "0"
                    for i, n in zip(s.index(layout, r), t.shape, strict=True):
                        flat = s.memory.add(s.memory.mul(flat, str(n)), i)
                    at = s.memory.add(flat, str(first))
                    report(s, site, [at, *(slot(s, p, scalar_of(t.dtype)) for p in parts)])

                emit_if(s, s.holds(layout, r), record)

        emit_if(s, s.owner(layout), act)


def _between_array_and_registers(op: TileAccess) -> TileLoad | TileStore | TileAtomic:
    """The load or store that corresponds to a copy from or to shared memory, with its promises."""
    if isinstance(op, BulkStore):
        return TileStore([op.array, op.tile, *op.offset], [], op.promises, [], op.loc)
    if isinstance(op, TileLoad | TileStore | TileAtomic):
        return op
    assert isinstance(op, AsyncCopy | BulkLoad)
    buffer = op.buffer.type
    assert isinstance(buffer, BufType)
    zero, tile = Value(buffer.dtype, None), TileType(buffer.dtype, buffer.shape)
    operands = [op.array, zero, *op.offset]
    return TileLoad(operands, [tile], {**op.promises, "shape": tile.shape}, [], op.loc)


def _aligned(buffer: Value) -> bool:
    """Whether a buffer (a whole allocation, or a stage of a ring) is aligned to 16 bytes."""
    owner = buffer.owner
    if not isinstance(owner, BufView):
        return isinstance(owner, BufNew)
    ring, stage = owner.buffer, buffer.type
    assert isinstance(ring.type, BufType) and isinstance(stage, BufType)
    allocation = ring.owner
    of_stages = isinstance(allocation, BufNew) and bool(
        allocation.pipe or allocation.swizzled or allocation.stages
    )
    is_full = stage.shape == ring.type.shape[1:] and stage.tile.size * element_bytes(stage.dtype) % 16 == 0
    return of_stages and is_full and owner.dims[:1] == (1,)


def _on_state(rule: Callable[..., Any]) -> Any:
    return lambda walk, *ops: rule(walk.s, *ops)


_RULES: dict[type[Op], Any] = {
    **dict.fromkeys((If, For, While), _Walk._control),
    Tid: _Walk.tid,
    LogicalBlocks: _on_state(logical_blocks),
    BlockCoordinate: _on_state(block_place),
    Lanes: _Walk.lanes,
    TileFromLanes: _on_state(from_lanes),
    TileToLanes: _on_state(to_lanes),
    **{kind: _on_state(rule) for kind, rule in segments.RULES.items()},
    Publish: _Walk.publish,
    Agree: _Walk.agree,
    TileMap: _on_state(mapped),
    TileFull: _Walk.full,
    TileEmpty: _Walk.empty,
    TileArange: _Walk.arange,
    TileFillAbsent: _Walk.fill_absent,
    **dict.fromkeys((TileMarkPartial, TilePermute, TileReshape), _Walk.alias),
    TileBroadcast: _Walk.broadcast,
    TileExtract: _on_state(picked.extract),
    TileSlice: _on_state(picked.slice_of_tile),
    TileReduce: _Walk.reduce,
    PartialReduce: _on_state(exchange.partial_reduce),
    TileLoad: _on_state(access.load),
    TileStore: _on_state(access.store),
    TileAtomic: _on_state(access.atomic),
    **{kind: _on_state(rule) for kind, rule in (scattered.RULES | gathers.RULES).items()},
    BufNew: _Walk.buf_new,
    BufRead: _Walk.buf_read,
    BufWrite: _Walk.buf_write,
    BufUpdate: _Walk.buf_update,
    BufExchange: _Walk.buf_exchange,
    BufView: _on_state(lower_access),
    BufReshape: _on_state(lower_access),
    ArrayView: _on_state(array_view),
    SharedMma: _on_state(matmul),
    RegisterMma: _on_state(matmul),
    MmaWait: _on_state(mma_wait),
    Barrier: _Walk.barrier,
    AsyncCopy: _on_state(access.async_copy),
    AsyncCommit: _Walk.async_commit,
    AsyncWait: _Walk.async_wait,
    StackNew: _Walk.stack_new,
    StackClear: _Walk.stack_clear,
    StackVote: _Walk.stack_vote,
    StackFill: _Walk.stack_fill,
    StackTake: _Walk.stack_take,
    StackAdvance: _Walk.stack_advance,
    PrintTile: _Walk.print_tile,
    Roles: _Walk.roles,
    ClusterEnd: _on_state(cluster_end),
    ClusterPeer: _on_state(cluster_peer),
    MbarrierNew: _on_state(barrier_new),
    MbarrierReady: _on_state(barrier_ready),
    MbarrierWait: _on_state(barrier_wait),
    MbarrierArrive: _on_state(barrier_arrive),
    MbarrierExpect: _on_state(barrier_expect),
    BulkLoad: _on_state(bulk_load),
    BulkStore: _on_state(bulk_store),
    BulkWait: _on_state(bulk_wait),
    BulkPrefetch: _on_state(bulk_prefetch),
    BulkPut: _on_state(bulk_put),
    BulkCommit: _on_state(bulk_commit),
    FenceAsync: _on_state(fence_async),
    LaunchNext: _on_state(launch_next),
    NamedNew: _on_state(named_new),
    NamedSync: _on_state(named_sync),
    NamedArrive: _on_state(named_arrive),
}
