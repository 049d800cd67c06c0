"""Lowering of one kernel to one LLVM function: `i32 kernel(ptr args, ptr scratch, i64 first block, i64 end)`. The
function returns 0, or 1 if it was cancelled.

Uniform code runs once per block; code that varies between lanes runs in the loops to which `lanes` ops are lowered."""

from __future__ import annotations

import math
from typing import Any

from tegula.codegen import barriers, exchange, roles, tiles
from tegula.codegen.arrays import lower_access, thread_component
from tegula.codegen.attributes import FEW_PASSES
from tegula.codegen.blocks_in_lanes import VectorisedKernel, blocks_in_lanes
from tegula.codegen.carried import CarriedTiles, join, offer
from tegula.codegen.control import trips
from tegula.codegen.elements import DIVISIONS, STRAIGHT
from tegula.codegen.frequencies import rare_regions
from tegula.codegen.fuse import VIEWS, Fusion, reads_elements
from tegula.codegen.lane_transposes import load_in_lanes, store_in_lanes, tile_address
from tegula.codegen.loops import CarriedRegisters, joined_registers
from tegula.codegen.poll import METADATA, Iterations, emit_poll, entry_instructions, literal_trips
from tegula.codegen.scalar import Components, lower
from tegula.codegen.shared_loops import share_equal_loops
from tegula.codegen.sites import Site, printed_tiles
from tegula.codegen.state import State
from tegula.codegen.storage import STACK_BYTES, ArrayDescriptor, View, strides_of
from tegula.codegen.sweep import merged_views, sweep
from tegula.codegen.text import constant, memory_type, register_type
from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import AtomicUpdate, ElementAccess, Kernel, Op, Region, StructureRead, Value
from tegula.ir.rewrite import uses
from tegula.ops.array import ArrayTranspose, ArrayView
from tegula.ops.array_gather import ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.base import element
from tegula.ops.blocks_in_lanes import TileAddress, TileLoadInLanes, TileStoreInLanes
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, BufWrite
from tegula.ops.concat import TileConcat
from tegula.ops.control import For, If, While, Yield
from tegula.ops.debug import PrintTile
from tegula.ops.lane import Lanes, LaneUniform, LogicalBlocks, Tid, TileFromLanes, TileFromThread, TileToLanes
from tegula.ops.linear import TileMatmul, TileMatmulInLanes
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease, Roles
from tegula.ops.schedule import (
    BulkCommit,
    BulkLoad,
    BulkPrefetch,
    BulkPut,
    BulkWait,
    FenceAsync,
    LaunchNext,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedArrive,
    NamedNew,
    NamedSync,
)
from tegula.ops.stack import StackClear, StackNew, StackPop, StackPush
from tegula.ops.tile import (
    TileAtomic,
    TileEmpty,
    TileFull,
    TileGather,
    TileLoad,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
)
from tegula.passes.overlap import reads_in_place
from tegula.passes.plan_memory import MemoryMap
from tegula.passes.uniformity import Uniformity
from tegula.source import Location
from tegula.target import CpuTarget
from tegula.types import (
    ArrayType,
    TileType,
    components,
    element_bytes,
    scalar_of,
)

with deferred_imports():
    from tegula.codegen.checks import check_access, check_division, check_uniform
    from tegula.codegen.divergent import divergent
    from tegula.codegen.lane_access import load_lanes, lower_lanes_access, store_lanes
    from tegula.codegen.lane_address import thread_index
    from tegula.codegen.lane_matmul import matmul_in_lanes
    from tegula.codegen.lane_width import lane_width
    from tegula.codegen.tile_matmul import matmul
    from tegula.passes.uniform_operands import group_operands

SYMBOL = "kernel"


@dataclass(frozen=True, slots=True)
class CpuCode:
    """LLVM IR of a kernel, and other data for its launch. `vectorised`: the number of blocks per vector iteration, or
    the reason why blocks run one by one."""

    text: str
    sites: list[Site]
    scratch: MemoryMap
    copies: list[Location]
    vectorised: VectorisedKernel = field(default_factory=VectorisedKernel)


def lower_kernel(
    kernel: Kernel, known: Uniformity, target: CpuTarget, debug: bool = False, blocks: int | None = None
) -> CpuCode:
    """The code for `target` of a kernel after the CPU passes. `debug`: whether indices are checked at run time;
    `blocks`: the number of blocks for each pair of threads of a launch, None for many."""
    s = State(kernel, known, target, debug)
    s.users = uses(kernel.body)
    if not debug:
        s.vectorised = blocks_in_lanes(kernel, known, target.vector_bytes, blocks)
    s.code.fences_extremes = target.is_x86
    s.code.packs = s.code.rotates_loops = s.code.reuses = s.code.tracks_scratch = True
    s.emit_due_poll = lambda label: emit_poll(s, label)
    _KernelLowering(s).function()
    entry, plan = s.scratch.planned(s.code.lines, STACK_BYTES)
    entry = [*entry_instructions(s), *entry]
    lines, shared = share_equal_loops(entry, [line for line in s.code.lines if line])
    return CpuCode(_module(s, [*entry, *lines], shared), s.sites, plan, s.copies, s.vectorised)


def _module(s: State, lines: list[str], shared: list[str]) -> str:
    """The text of the kernel's module. `lines`: the instructions of the kernel's function; `shared`: the functions that
    they call instead of loops."""
    bits = s.target.vector_bytes * 8
    attributes = f'nounwind "no-builtins" "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    if not any(map(_is_of_one_thread, s.kernel.walk())):
        attributes += f" {FEW_PASSES}"
    text = "\n".join(lines)
    function = (
        f"define i32 @{SYMBOL}(ptr noalias %args, ptr noalias %scratch, i64 %first, i64 %end) #0 "
        + f"prefix i64 {s.vectorised.lanes} {{\n"
        + f"entry:\n{text}\n  ret i32 0\n}}\n"
    )
    return "\n".join(
        [
            s.code.table_lines(),
            *(text for _, text in s.matmuls.values()),
            *([roles.DECLARATIONS, *s.functions] if s.functions else []),
            *shared,
            function,
            f"attributes #0 = {{ {attributes} }}",
            f"attributes #1 = {{ noinline {attributes} }}",
            METADATA,
        ]
    )


def _is_of_one_thread(op: Op) -> bool:
    """Whether a thread accesses an element of an array, or updates any element, at addresses that code generation
    computes where the element is accessed, or walks a structure."""
    return isinstance(op, (StructureRead, AtomicUpdate)) or (
        isinstance(op, ElementAccess) and isinstance(op.target.type, ArrayType)
    )


class _KernelLowering:
    """Lowers the ops of a kernel in order, each once."""

    def __init__(self, s: State) -> None:
        self.s = s
        self.code = s.code
        s.run_branching = self._branching
        self.fusion: dict[Region, Fusion] = {}

    # Function --------------------------------------------------------------------------------------------------------

    def function(self) -> None:
        """Lower the kernel: its parameters once, then the loop over blocks, or over groups of blocks."""
        s = self.s
        self._parameters()
        if s.vectorised.kernel is not None:
            self._blocks_in_lanes(s.vectorised.kernel, s.vectorised.lanes)
            return
        with self.code.loop("%first", "%end") as loop:
            s.block = loop.index
            s.present = self._present()
            self.region(s.kernel.body)

    def _blocks_in_lanes(self, kernel: Kernel, lanes: int) -> None:
        """Lower a loop over groups of blocks, whose body computes a group at once."""
        s, scalar_kernel = self.s, self.s.kernel
        for param, scalar_param in zip(kernel.params, scalar_kernel.params, strict=True):
            if scalar_param in s.arrays:
                s.arrays[param] = s.arrays[scalar_param]
            else:
                s.scalars[param] = s.scalars[scalar_param]
        s.kernel, s.users, s.rare = kernel, uses(kernel.body), rare_regions(s, kernel.body)
        with self.code.loop("%first", "%end", str(lanes)) as loop:
            s.block, s.present = loop.index, str(s.block_dim)
            self.region(kernel.body)

    def _parameters(self) -> None:
        """Read the argument block: 8-byte slots for scalars, components for vectors, {pointer, lengths, strides} for
        arrays; then launch dimensions, the number of threads, the report buffer."""
        s, offset = self.s, 0
        for name, value in zip(s.kernel.param_names, s.kernel.params, strict=True):
            offset = self._parameter(name, value, offset)
        for _ in range(s.kernel.launch.ndim):
            s.dims.append(self.slot(offset))
            offset += 8
        s.thread_count = self.slot(offset)
        pointer = self.code.emit(f"getelementptr i8, ptr %args, i64 {offset + 8}")
        self.code.line(f"%report = load ptr, ptr {pointer}, align 8")

    def slot(self, offset: int) -> str:
        """Load the 8-byte slot at a byte offset of the argument block."""
        return self.code.emit(f"load i64, ptr {self.s.memory.bytes_offset('%args', str(offset))}, align 8")

    def _parameter(self, name: str, value: Value, offset: int) -> int:
        s, t = self.s, value.type
        if isinstance(t, ArrayType):
            pointer = self.code.emit(f"load ptr, ptr {s.memory.bytes_offset('%args', str(offset))}, align 8")
            shape = tuple(self.slot(offset + 8 * (1 + d)) for d in range(t.ndim))
            strides = strides_of(s.kernel, value, lambda d: self.slot(offset + 8 * (1 + t.ndim + d)))
            s.arrays[value] = ArrayDescriptor(pointer, t.dtype, shape, strides, name)
            return offset + 8 * (1 + 2 * t.ndim)
        pointer = s.memory.bytes_offset("%args", str(offset))
        s.scalars[value] = s.memory.load_element(pointer, t)  # type: ignore[arg-type]
        return offset + -(-element_bytes(t) // 8) * 8  # type: ignore[arg-type]

    def _present(self) -> str:
        s, n = self.s, self.s.block_dim
        if not s.kernel.launch.partial:
            return str(n)
        first_thread = self.code.emit(f"mul i64 {s.block}, {n}")
        remaining = self.code.emit(f"sub i64 {s.thread_count}, {first_thread}")
        return self.code.call("smin", "i64", "i64", f"i64 {remaining}, i64 {n}")

    def roles(self, op: Roles) -> None:
        roles.lower_roles(self.s, op, _role)

    # Uniform code ----------------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Lower the ops of a region that the block runs once; the caller lowers the terminator."""
        self.fusion[region] = Fusion(self.s, region)
        for op in region.ops:
            if not isinstance(op, Yield):
                self.op(op)

    def op(self, op: Op) -> None:
        self.s.loc = op.loc
        self.s.is_rare = op.parent in self.s.rare
        self.s.scratch.line_locations.append((len(self.code.lines), op.loc))
        if isinstance(op, (TileLoad, TileStore, TileAtomic)) and (
            op.aligned or (self.s.debug and not op.bounds_check)
        ):
            check_access(self.s, op)
        if self.s.debug:
            implicit = dict(group_operands(op, self.s.known))  # type: ignore[arg-type]
            for k, value in enumerate(op.operands):
                if k in implicit:
                    check_uniform(self.s, op, value, implicit[k])
        rule = _RULES.get(type(op))
        if rule is not None:
            rule(self, op)
        elif isinstance(op, STRAIGHT):
            self._straight(op)
        elif op.results and isinstance(op.results[0].type, TileType):
            self._pure_tile(op)
        else:
            access = lower_access(self.s, op)
            if access is not None:
                self.s.scalars[op.result] = access

    def _straight(self, op: Op) -> None:
        s = self.s
        if s.debug and isinstance(op, DIVISIONS):
            check_division(s, op)
        width = s.width_of(op.result)
        s.scalars[op.result] = lower(self.code, op, [s.spread(v, width) for v in op.operands], width)

    def _pure_tile(self, op: Op) -> None:
        """Lower a pure tile op, now or inside its consumer."""
        assert op.parent is not None
        self.s.inline[op.result] = op
        if not self.fusion[op.parent].inlines(op):
            tiles.materialise(self.s, op.result)

    def gather(self, op: TileGather) -> None:
        """Lower `tile.gather`, now or inside its consumer."""
        assert op.parent is not None
        if self.fusion[op.parent].inlines(op):
            tiles.prepare_gather(self.s, op)
            self.s.inline[op.result] = op
        else:
            tiles.gather(self.s, op)

    def permute(self, op: TilePermute) -> None:
        """Lower `tile.permute`: a view, or nothing if a matmul reads the operand directly from an array."""
        assert op.parent is not None
        if self.fusion[op.parent].inlines(op):
            self.s.inline[op.result] = op
        else:
            tiles.tile_permute(self.s, op)

    def tid(self, op: Tid) -> None:
        """Lower `tid`: uniform components now, varying components in each lane loop that uses them, and in memory for
        cooperative uses."""
        s = self.s
        block = s.scalar(op.block) if op.block is not None else None
        for k, value in enumerate(op.results):
            if not s.known.varying(value):
                s.scalars[value] = (thread_component(s, k, uniform=True, block=block),)
            elif any(not _in_lanes(user) for user, _ in s.users.get(value, [])):
                view = s.lane_array(value.name or "tid", value.type)  # type: ignore[arg-type]
                with self.code.loop("0", s.present) as loop:
                    s.lane = loop.index
                    s.memory.store_view(view, [loop.index], (thread_component(s, k, uniform=False),), 1)
                    s.lane = ""
                s.lanes[value] = view

    def logical_blocks(self, op: LogicalBlocks) -> None:
        """Lower `logical_blocks`: the range of blocks of the current group."""
        s = self.s
        full_group = self.code.emit(f"add i64 {s.block}, {s.vectorised.lanes}")
        end = self.code.call("smin", "i64", "i64", f"i64 {full_group}, i64 %end")
        s.scalars.update(zip(op.results, [(s.block,), (end,), ("1",)], strict=True))

    def lane_uniform(self, op: LaneUniform) -> None:
        if self.s.debug and not op.implicit:
            check_uniform(self.s, op, op.value)  # other ops check their own operands
        self.s.scalars[op.result] = self.s.components(op.value)

    # Buffers ---------------------------------------------------------------------------------------------------------

    def buf_new(self, op: BufNew) -> None:
        s = self.s
        t = op.result.type
        is_empty = isinstance(op.tile.owner, TileEmpty)
        view = s.allocate(op.result.name or "tile", t.dtype, t.shape, not is_empty)  # type: ignore[union-attr]
        if not is_empty:
            tiles.materialise(s, op.tile, view)
        s.buffers[op.result] = view

    def buf_read(self, op: BufRead) -> None:
        """Lower `buf.read`: the buffer itself if its contents stay unchanged long enough, else a copy."""
        s = self.s
        view = s.buffers[op.buffer]
        assert op.parent is not None
        if reads_in_place(s.kernel, op, op.parent, s.users, VIEWS):
            s.tiles[op.result] = view
            return
        s.tiles[op.result] = self._copied(view, op.result.name)

    def _copied(self, view: View, name: str) -> View:
        s = self.s
        copy = s.allocate(name or "copy", view.dtype, view.shape)
        self._copy(view, copy)
        return copy

    def _copy(self, source: View, target: View) -> None:
        s = self.s
        if source == target:
            return
        width = 1
        if source.contiguous and target.contiguous:
            width = max(1, s.target.vector_bytes // (scalar_of(source.dtype).bits // 8))
            while width > source.shape[-1]:
                width //= 2
        sweep(
            s,
            source.shape,
            width,
            lambda i, w: s.memory.store_view(target, i, s.memory.load_view(source, i, w), w),
            merged=merged_views(source, target),
        )

    def buf_write(self, op: BufWrite) -> None:
        tiles.materialise(self.s, op.tile, self.s.buffers[op.buffer])

    def view(self, op: Op) -> None:
        lower_access(self.s, op)

    def from_thread(self, op: TileFromThread) -> None:
        """Lower `tile.from_thread`: a fill with the value of one lane."""
        s = self.s
        lane_value = Value(op.value.type, None)
        s.scalars[lane_value] = tiles.from_thread(s, op)
        s.inline[op.result] = TileFull([lane_value], [op.result.type], {"shape": op.shape})
        if reads_elements(s.users.get(op.result, [])):
            tiles.materialise(s, op.result)

    def stack_clear(self, op: StackClear) -> None:
        self.code.line(f"store i32 0, ptr {self.s.stacks[op.stack][0]}, align 4")

    def print_tile(self, op: PrintTile) -> None:
        """Lower `print.tile`: write consecutively numbered records with the elements of all operands to the report
        buffer."""
        s, site, first = self.s, self.s.site("tile", op.loc, **printed_tiles(op)), 0
        for operand in op.operands:
            view = tiles.materialise(s, operand)
            self._print_elements(view, site, first)
            first += math.prod(view.shape)

    def _print_elements(self, view: View, site: int, first: int) -> None:
        from tegula.codegen.arrays import report, slot

        s = self.s

        def body(index: list[str], w: int) -> None:
            flat_index = "0"
            for i, n in zip(index, view.shape, strict=True):
                flat_index = s.memory.add(s.memory.mul(flat_index, str(n)), i)
            parts = s.memory.load_view(view, index, 1)
            report(
                s,
                site,
                [s.memory.add(flat_index, str(first)), *(slot(s, p, scalar_of(view.dtype)) for p in parts)],
            )

        sweep(s, view.shape, 1, body)

    # Lanes -----------------------------------------------------------------------------------------------------------

    def lanes(self, op: Lanes) -> None:
        """Lower `lanes`: a loop over vectors of present lanes, and a loop over the remaining lanes."""
        s = self.s
        (body,) = op.regions
        for value in op.results:
            s.lanes[value] = s.lane_array(value.name or "lane", value.type)  # type: ignore[arg-type]
        outer = self._outer_varying(body)
        width, vector = lane_width(s, op), "0"
        if width > 1:
            vector = self._full_mask(width)
            with self.code.loop("0", vector, str(width)) as loop:
                self._lower_lanes(op, outer, loop.index, width)
        if vector != s.present:
            with self.code.loop(vector, s.present) as loop:
                self._lower_lanes(op, outer, loop.index, 1)

    def _full_mask(self, width: int) -> str:
        """The largest number of present lanes that is a multiple of the width."""
        if not self.s.present.startswith("%"):
            return str(int(self.s.present) // width * width)
        return self.code.emit(f"and i64 {self.s.present}, {-width}")

    def _lower_lanes(self, op: Op, outer: list[Value], lane: str, width: int) -> None:
        """Lower the body for `width` lanes from `lane` on."""
        s = self.s
        s.lane, s.width = lane, width
        for value in outer:
            s.scalars[value] = self._lane_value(value)
        (body,) = op.regions
        self._lane_region(body)
        for result, computed in zip(op.results, body.yielded, strict=True):
            store_lanes(s, s.lanes[result], s.spread(computed, width))
        for value in outer:
            del s.scalars[value]
        s.lane, s.width = "", 1

    def _outer_varying(self, body: Region) -> list[Value]:
        """The varying values from outside that the body uses, in order of use."""
        used_values: dict[Value, None] = {}
        for op in body.walk():
            for v in op.operands:
                if (v in self.s.lanes or isinstance(v.owner, Tid)) and self.s.known.varying(v):
                    used_values[v] = None
        return list(used_values)

    def _lane_value(self, value: Value) -> Components:
        s = self.s
        if isinstance(value.owner, Tid):
            return (thread_index(s, value.owner.results.index(value)),)
        return load_lanes(s, s.lanes[value])

    def _lane_region(self, region: Region) -> None:
        s = self.s
        for op in region.ops:
            if isinstance(op, Yield):
                continue
            if isinstance(op, (If, For, While)):
                self.control(op)
            elif isinstance(op, STRAIGHT):
                self._straight(op)
            else:
                access = lower_lanes_access(s, op) if s.width > 1 else lower_access(s, op)
                if access is not None:
                    s.scalars[op.result] = access

    def _branching(self, region: Region, args: list[Components]) -> list[Components]:
        """The values that a map's region with control flow yields for one element."""
        s, outer_lane = self.s, self.s.lane
        s.lane = outer_lane or "0"
        s.scalars.update(zip(region.args, args, strict=True))
        self._lane_region(region)
        s.lane = outer_lane
        return [s.components(v) for v in region.yielded]

    # Control flow ----------------------------------------------------------------------------------------------------

    def control(self, op: If | For | While) -> None:
        """Lower `if`, `for` or `while`. Scalars are carried in registers, tiles and lane-varying values in memory."""
        s = self.s
        saved = dict(s.in_bounds), dict(s.tiles)
        if s.width > 1 and op in s.known.divergent:
            divergent(s, op, self._lane_region)
        elif isinstance(op, If):
            self._if(op)
        elif isinstance(op, For):
            self._for(op)
        else:
            self._while(op)
        result_tiles = {r: s.tiles[r] for r in op.results if r in s.tiles}
        s.in_bounds, s.tiles = saved[0], {**saved[1], **result_tiles}

    def _body(self, region: Region) -> None:
        if self.s.lane:
            self._lane_region(region)
        else:
            self.region(region)

    def _in_lanes(self, value: Value) -> bool:
        """Whether a value is lane-varying and not a tile, so that the value is in memory."""
        return not isinstance(value.type, TileType) and not self.s.lane and self.s.known.varying(value)

    def _home(self, value: Value) -> View:
        """Memory for a lane-varying value that is merged at a join or carried by a loop."""
        return self.s.lane_array(value.name or "carried", value.type)  # type: ignore[arg-type]

    def _move(self, values: list[Value], homes: list[View]) -> None:
        """Copy lane-varying values to their homes, as a parallel copy: a value that occupies the home of another value
        is copied to scratch memory first."""
        s = self.s
        pointers = {h.pointer for h in homes}
        pending: list[tuple[Value, View]] = []
        for value, home in zip(values, homes, strict=True):
            view = s.lanes.get(value)
            if view == home:
                continue
            if view is not None and view.pointer in pointers:
                temporary, temporary_value = self._home(value), Value(value.type, None)
                self._copy(view, temporary)
                s.lanes[temporary_value] = temporary
                s.known.values.add(temporary_value)
                value = temporary_value
            pending.append((value, home))
        for value, home in pending:
            self._fill(value, home)

    def _fill(self, value: Value, home: View) -> None:
        s = self.s
        if value in s.lanes:
            with self.code.loop("0", str(s.block_dim)) as loop:
                s.memory.store_view(
                    home, [loop.index], s.memory.load_view(s.lanes[value], [loop.index], 1), 1
                )
        elif isinstance(value.owner, Tid) and s.known.varying(value):
            with self.code.loop("0", s.present) as loop:
                s.lane = loop.index
                s.memory.store_view(home, [loop.index], self._lane_value(value), 1)
                s.lane = ""
        else:
            parts = s.components(value)
            with self.code.loop("0", str(s.block_dim)) as loop:
                s.memory.store_view(home, [loop.index], parts, 1)

    def _if(self, op: If) -> None:
        s, code = self.s, self.code
        condition = s.scalar(op.condition)
        tile_results = [k for k, r in enumerate(op.results) if isinstance(r.type, TileType)]
        slots = [s.result_memory(op.results[k], "joined") for k in tile_results]
        homes = {r: self._home(r) for r in op.results if self._in_lanes(r)}
        in_registers = [k for k, r in enumerate(op.results) if k not in tile_results and r not in homes]
        labels = [code.label("then"), code.label("else")]
        done = code.label("endif")
        code.branch(condition, *labels)
        ends: list[str] = []
        yielded: list[list[Components]] = []
        state_before = dict(s.tiles), dict(s.in_bounds)
        for label, region in zip(labels, op.regions, strict=True):
            s.tiles, s.in_bounds = dict(state_before[0]), dict(state_before[1])
            code.define_label(label)
            region_results = region.yielded
            offer(s, region, [region_results[k] for k in tile_results], slots)
            self._body(region)
            join(s, [region_results[k] for k in tile_results], slots)
            self._move(
                [v for v, r in zip(region_results, op.results, strict=True) if r in homes],
                list(homes.values()),
            )
            yielded.append([s.spread(region_results[k], s.width_of(op.results[k])) for k in in_registers])
            ends.append(code.block)
            code.jump(done)
        code.define_label(done)
        s.lanes.update(homes)
        s.tiles.update({op.results[k]: slot for k, slot in zip(tile_results, slots, strict=True)})
        s.scalars.update(joined_registers(s, [op.results[k] for k in in_registers], yielded, ends))

    def _for(self, op: For) -> None:
        """Lower a `for`, whose trip count is known on entry."""
        s, code = self.s, self.code
        body = op.body
        t = register_type(op.start.type, 1)  # type: ignore[arg-type]
        start, step = s.scalar(op.start), s.scalar(op.step)
        loop = _CarriedLoop(self, op, op.initial, op.entries)
        head, body_label, done = code.label("for"), code.label("body"), code.label("endfor")
        literal_count = literal_trips(op)
        count = (
            trips(s, op)
            if literal_count is None
            else constant(scalar_of(element(op.start.type)), literal_count)
        )
        trip = code.fresh("n")
        # A loop from 0 in steps of 1 has one counter.
        counts_trips = (start, step) == ("0", "1")
        index = trip if counts_trips else code.fresh("n")
        iterations = Iterations(s, op, head, done)
        iterations.open()
        header_line = len(code.lines)
        code.line("")
        loop.open()
        runs = bool(literal_count) and not op.results and not iterations.interval
        if not runs:
            iterations.trip(trip, count, t, body_label)
            code.define_label(body_label)
        s.scalars[op.index] = (index,)
        self._body(body)
        loop.close(body.yielded)
        counters = [] if counts_trips else [(index, start, code.emit(f"add {t} {index}, {step}"))]
        counters.append((trip, "0", code.emit(f"add nuw {t} {trip}, 1")))
        goes_on = code.emit(f"icmp ne {t} {counters[-1][2]}, {count}") if runs else ""
        code.lines[header_line] = iterations.close(
            goes_on=goes_on,
            phis=lambda preheader, latch: [
                *(
                    f"  {name} = phi {t} [ {initial}, %{preheader} ], [ {following}, %{latch} ]"
                    for name, initial, following in counters
                ),
                *loop.phis(preheader, latch),
            ],
        )
        code.define_label(done)
        loop.finish()

    def _while(self, op: While) -> None:
        s, code = self.s, self.code
        condition, body = op.condition, op.body
        loop = _CarriedLoop(self, op, op.initial, op.entries)
        head, body_label, done = code.label("while"), code.label("body"), code.label("endwhile")
        iterations = Iterations(s, op, head, done)
        iterations.open()
        header_line = len(code.lines)
        code.line("")
        loop.open()
        self._body(condition)
        iterations.test(s.scalar(condition.yielded[0]), body_label)
        code.define_label(body_label)
        self._body(body)
        loop.close(body.yielded)
        code.lines[header_line] = iterations.close(loop.phis)
        code.define_label(done)
        loop.finish()


def _role(s: State, op: Roles, position: int) -> None:
    """Lower the body of a role in a function of its own."""
    lowering = _KernelLowering(s)
    lowering._parameters()
    lowering.region(op.roles[position])


class _CarriedLoop:
    """The values that a loop carries: scalars in phis, tiles and lane-varying values in memory."""

    def __init__(
        self, lowering: _KernelLowering, op: For | While, initial: list[Value], arguments: list[list[Value]]
    ) -> None:
        self.lowering, self.arguments, self.results = lowering, arguments, op.results
        s, positions = lowering.s, range(len(op.results))
        self.tile_results = tile_results = [k for k in positions if isinstance(op.results[k].type, TileType)]
        carried = [[group[k] for k in tile_results] for group in arguments]
        self.tiles = CarriedTiles(
            s, op, [initial[k] for k in tile_results], [op.results[k] for k in tile_results], carried
        )
        self.homes = {
            k: lowering._home(op.results[k]) for k in positions if lowering._in_lanes(op.results[k])
        }
        self.in_registers = register_results = [
            k for k in positions if k not in self.homes and k not in tile_results
        ]
        self.registers = CarriedRegisters(
            s,
            [initial[k] for k in register_results],
            [[group[k] for k in register_results] for group in arguments],
            [op.results[k] for k in register_results],
        )
        lowering._move([initial[k] for k in self.homes], list(self.homes.values()))

    def open(self) -> None:
        """Name the carried values in the loop header."""
        self.registers.open()
        self.tiles.open()
        for group in self.arguments:
            self.lowering.s.lanes.update({group[k]: home for k, home in self.homes.items()})

    def close(self, yielded: list[Value]) -> None:
        self.tiles.close([yielded[k] for k in self.tile_results])
        self.lowering._move([yielded[k] for k in self.homes], list(self.homes.values()))
        self.registers.close([yielded[k] for k in self.in_registers])

    def phis(self, preheader: str, latch: str) -> list[str]:
        return self.tiles.phis(preheader, latch) + self.registers.phis(preheader, latch)

    def finish(self) -> None:
        """Bind the results to the values of the loop header at the exit."""
        self.tiles.finish()
        self.lowering.s.lanes.update({self.results[k]: home for k, home in self.homes.items()})
        self.registers.finish()


def _in_lanes(op: Op) -> bool:
    """Whether an op is inside a `lanes` op."""
    ancestor: Op | None = op
    while ancestor is not None:
        if isinstance(ancestor, Lanes):
            return True
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return False


def _on_state(rule: Any) -> Any:
    return lambda lowering, op: rule(lowering.s, op)


_RULES: dict[type[Op], Any] = {
    Tid: _KernelLowering.tid,
    Lanes: _KernelLowering.lanes,
    LaneUniform: _KernelLowering.lane_uniform,
    LogicalBlocks: _KernelLowering.logical_blocks,
    If: _KernelLowering.control,
    For: _KernelLowering.control,
    While: _KernelLowering.control,
    BufNew: _KernelLowering.buf_new,
    BufRead: _KernelLowering.buf_read,
    BufWrite: _KernelLowering.buf_write,
    BufView: _KernelLowering.view,
    BufReshape: _KernelLowering.view,
    ArrayView: _KernelLowering.view,
    ArrayTranspose: _KernelLowering.view,
    TileFromThread: _KernelLowering.from_thread,
    StackClear: _KernelLowering.stack_clear,
    PrintTile: _KernelLowering.print_tile,
    TileMatmul: _on_state(matmul),
    TileMatmulInLanes: _on_state(matmul_in_lanes),
    TileAddress: _on_state(tile_address),
    TileLoadInLanes: _on_state(load_in_lanes),
    TileStoreInLanes: _on_state(store_in_lanes),
    TileStore: _on_state(tiles.store),
    TileAtomic: _on_state(tiles.tile_atomic),
    ArrayScatter: _on_state(tiles.scatter),
    ArrayScatterAtomic: _on_state(tiles.scatter_atomic),
    ArrayScatterCas: _on_state(tiles.scatter_atomic),
    TileReduce: _on_state(tiles.reduce),
    TileSlice: _on_state(tiles.tile_slice),
    TilePermute: _KernelLowering.permute,
    TileReshape: _on_state(tiles.tile_reshape),
    TileGather: _KernelLowering.gather,
    TileConcat: _on_state(tiles.concat),
    TileFromLanes: _on_state(tiles.from_lanes),
    TileToLanes: _on_state(tiles.to_lanes),
    **{kind: _on_state(rule) for kind, rule in exchange.RULES.items()},
    Roles: _KernelLowering.roles,
    PipeNew: _on_state(roles.pipe_new),
    PipeLoad: _on_state(roles.pipe_load),
    PipePush: _on_state(roles.pipe_push),
    PipePop: _on_state(roles.pipe_pop),
    PipeRelease: _on_state(roles.pipe_release),
    MbarrierNew: _on_state(barriers.new),
    MbarrierWait: _on_state(barriers.wait),
    MbarrierArrive: _on_state(barriers.arrive),
    MbarrierExpect: _on_state(barriers.expect),
    BulkLoad: _on_state(barriers.load),
    BulkPut: _on_state(barriers.put_tile),
    NamedNew: _on_state(barriers.new),
    NamedSync: _on_state(barriers.sync),
    NamedArrive: _on_state(barriers.named_arrive),
    **dict.fromkeys((BulkCommit, BulkPrefetch, BulkWait, FenceAsync, LaunchNext), lambda lowering, op: None),
    StackNew: _on_state(tiles.stack_new),
    StackPush: _on_state(tiles.stack_push),
    StackPop: _on_state(tiles.stack_pop),
}

__all__ = ["SYMBOL", "CpuCode", "InternalError", "Op", "components", "lower_kernel", "memory_type"]
