"""Lowering of one kernel to one LLVM function: `i32 kernel(ptr args, ptr scratch, i64 first block, i64 end)`. The
function returns 0, or 1 if it was cancelled.

Uniform code runs once per block; code that varies between lanes runs in the loops to which `lanes` ops are lowered."""

from __future__ import annotations

import math
from typing import Any

from tegula.codegen import barriers, exchange, roles, tile_matmul, tiles
from tegula.codegen.arrays import array_view, lower_access, thread_component
from tegula.codegen.blocks_in_lanes import VectorisedKernel, blocks_in_lanes
from tegula.codegen.carried import CarriedTiles, join, offer
from tegula.codegen.checks import check_access, check_division, check_uniform
from tegula.codegen.control import trips
from tegula.codegen.divergent import divergent
from tegula.codegen.elements import DIVISIONS, STRAIGHT
from tegula.codegen.fuse import VIEWS, Fusion, reads_elements
from tegula.codegen.lane_access import load_lanes, lower_lanes_access, store_lanes
from tegula.codegen.lane_address import own_index
from tegula.codegen.lane_matmul import matmul_in_lanes
from tegula.codegen.lane_transposes import load_in_lanes, store_in_lanes, tile_address
from tegula.codegen.lane_width import lane_width
from tegula.codegen.loops import CarriedRegisters, joined_registers
from tegula.codegen.poll import METADATA, Iterations, beginning, emit_poll
from tegula.codegen.scalar import Components, lower
from tegula.codegen.sites import Site, printed_tiles
from tegula.codegen.state import State
from tegula.codegen.storage import STACK_BYTES, ArrayAt, View
from tegula.codegen.sweep import sweep
from tegula.codegen.text import memory_type, register_type
from tegula.dataclass import dataclass, field
from tegula.errors import InternalError
from tegula.ir import Kernel, Op, Region, Value
from tegula.ir.rewrite import uses
from tegula.ops.array import ArrayView
from tegula.ops.array_gather import ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
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
from tegula.passes.uniform_operands import group_operands
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

SYMBOL = "kernel"


@dataclass(frozen=True, slots=True)
class CpuCode:
    """LLVM IR of a kernel, and other data for its launch. `together`: the number of blocks per vector iteration, or the
    reason why blocks run one by one."""

    text: str
    sites: list[Site]
    scratch: MemoryMap
    copies: list[Location]
    together: VectorisedKernel = field(default_factory=VectorisedKernel)


def lower_kernel(kernel: Kernel, known: Uniformity, target: CpuTarget, debug: bool = False) -> CpuCode:
    """The code of a kernel, which has run through the CPU passes, for `target`. `debug`: indices are checked at run
    time."""
    s = State(kernel, known, target, debug)
    s.users = uses(kernel.body)
    if not debug:
        s.side_by_side = blocks_in_lanes(kernel, known, target.vector_bytes)
    s.code.fences_extremes = target.is_x86
    s.code.packs = True
    s.when_late = lambda go: emit_poll(s, go)
    _Walk(s).function()
    entry, plan = s.scratch.planned(s.code.lines, STACK_BYTES)
    return CpuCode(_module(s, entry), s.sites, plan, s.copies, s.side_by_side)


def _module(s: State, entry: list[str]) -> str:
    bits = s.target.vector_bytes * 8
    attributes = f'nounwind "no-builtins" "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    lines = "\n".join(s.code.lines)
    function = (
        f"define i32 @{SYMBOL}(ptr noalias %args, ptr noalias %scratch, i64 %first, i64 %end) #0 "
        + f"prefix i64 {s.side_by_side.lanes} {{\n"
        + "entry:\n"
        + "\n".join([*beginning(s), *entry])
        + f"\n{lines}\n  ret i32 0\n}}\n"
    )
    return "\n".join(
        [
            s.code.table_lines(),
            *(text for _, text in s.matmuls.values()),
            *([roles.DECLARATIONS, *s.functions] if s.functions else []),
            function,
            f"attributes #0 = {{ {attributes} }}",
            f"attributes #1 = {{ noinline {attributes} }}",
            METADATA,
        ]
    )


class _Walk:
    """Lowers the ops of a kernel in order, each once."""

    def __init__(self, s: State) -> None:
        self.s = s
        self.code = s.code
        s.run_branching = self._branching
        self.fusion: dict[Region, Fusion] = {}

    # Frame -----------------------------------------------------------------------------------------------------------

    def function(self) -> None:
        """Lower the kernel: its parameters once, then the loop over blocks."""
        s, code = self.s, self.code
        self._parameters()
        start = "%first"
        if s.side_by_side.kernel is not None:
            start = self._side_by_side(s.side_by_side.kernel, s.side_by_side.lanes)
        with code.loop(start, "%end") as loop:
            s.block = loop.index
            s.present = self._present()
            self.region(s.kernel.body)

    def _side_by_side(self, kernel: Kernel, lanes: int) -> str:
        """Lower a loop over groups of blocks, whose body computes a group at once. Returns the first remaining
        block."""
        s, code, alone = self.s, self.code, self.s.kernel
        for value, same in zip(kernel.params, alone.params, strict=True):
            if same in s.arrays:
                s.arrays[value] = s.arrays[same]
            else:
                s.scalars[value] = s.scalars[same]
        s.kernel, users, s.users = kernel, s.users, uses(kernel.body)
        count = code.emit("sub i64 %end, %first")
        stop = code.emit(f"add i64 %first, {code.emit(f'and i64 {count}, {-lanes}')}")
        with code.loop("%first", stop, str(lanes)) as loop:
            s.block, s.present = loop.index, str(s.block_dim)
            self.region(kernel.body)
        s.kernel, s.users = alone, users
        return stop

    def _parameters(self) -> None:
        """Read the argument block: 8-byte slots for scalars, components for vectors, {pointer, lengths, strides} for
        arrays; then launch dimensions, the number of threads, the report buffer."""
        s, at = self.s, 0
        for name, value in zip(s.kernel.param_names, s.kernel.params, strict=True):
            at = self._parameter(name, value, at)
        for _ in range(s.kernel.launch.ndim):
            s.dims.append(self.slot(at))
            at += 8
        s.launched = self.slot(at)
        pointer = self.code.emit(f"getelementptr i8, ptr %args, i64 {at + 8}")
        self.code.line(f"%report = load ptr, ptr {pointer}, align 8")

    def slot(self, at: int) -> str:
        return self.code.emit(f"load i64, ptr {self.s.memory.bytes_offset('%args', str(at))}, align 8")

    def _parameter(self, name: str, value: Value, at: int) -> int:
        s, t = self.s, value.type
        if isinstance(t, ArrayType):
            pointer = self.code.emit(f"load ptr, ptr {s.memory.bytes_offset('%args', str(at))}, align 8")
            shape = tuple(self.slot(at + 8 * (1 + d)) for d in range(t.ndim))
            strides = tuple(self.slot(at + 8 * (1 + t.ndim + d)) for d in range(t.ndim))
            access = s.kernel.access[s.kernel.params.index(value)]
            packed = access is not None and access.contiguous
            s.arrays[value] = ArrayAt(pointer, t.dtype, shape, strides, packed, name)
            return at + 8 * (1 + 2 * t.ndim)
        pointer = s.memory.bytes_offset("%args", str(at))
        s.scalars[value] = s.memory.load_element(pointer, t)  # type: ignore[arg-type]
        return at + -(-element_bytes(t) // 8) * 8  # type: ignore[arg-type]

    def _present(self) -> str:
        s, n = self.s, self.s.block_dim
        if not s.kernel.launch.partial:
            return str(n)
        done = self.code.emit(f"mul i64 {s.block}, {n}")
        rest = self.code.emit(f"sub i64 {s.launched}, {done}")
        return self.code.call("smin", "i64", "i64", f"i64 {rest}, i64 {n}")

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
        self.s.scratch.places.append((len(self.code.lines), op.loc))
        if isinstance(op, TileLoad | TileStore | TileAtomic) and (
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
        """Lower `logical_blocks`: the body for the blocks of a group."""
        s = self.s
        end = self.code.emit(f"add i64 {s.block}, {s.side_by_side.lanes}")
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
        fresh = s.allocate(name or "copy", view.dtype, view.shape)
        self._copy(view, fresh)
        return fresh

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
        )

    def buf_write(self, op: BufWrite) -> None:
        tiles.materialise(self.s, op.tile, self.s.buffers[op.buffer])

    def buf_view(self, op: Op) -> None:
        lower_access(self.s, op)

    def array_view(self, op: ArrayView) -> None:
        array_view(self.s, op)

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
            flat = "0"
            for i, n in zip(index, view.shape, strict=True):
                flat = s.memory.add(s.memory.mul(flat, str(n)), i)
            parts = s.memory.load_view(view, index, 1)
            report(
                s, site, [s.memory.add(flat, str(first)), *(slot(s, p, scalar_of(view.dtype)) for p in parts)]
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
                self._step(op, outer, loop.index, width)
        if vector != s.present:
            with self.code.loop(vector, s.present) as loop:
                self._step(op, outer, loop.index, 1)

    def _full_mask(self, width: int) -> str:
        """The largest number of present lanes that is a multiple of the width."""
        if not self.s.present.startswith("%"):
            return str(int(self.s.present) // width * width)
        return self.code.emit(f"and i64 {self.s.present}, {-width}")

    def _step(self, op: Op, outer: list[Value], lane: str, width: int) -> None:
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
        seen: dict[Value, None] = {}
        for op in body.walk():
            for v in op.operands:
                if (v in self.s.lanes or isinstance(v.owner, Tid)) and self.s.known.varying(v):
                    seen[v] = None
        return list(seen)

    def _lane_value(self, value: Value) -> Components:
        s = self.s
        if isinstance(value.owner, Tid):
            return (own_index(s, value.owner.results.index(value)),)
        return load_lanes(s, s.lanes[value])

    def _lane_region(self, region: Region) -> None:
        s = self.s
        for op in region.ops:
            if isinstance(op, Yield):
                continue
            if isinstance(op, If | For | While):
                self.control(op)
            elif isinstance(op, STRAIGHT):
                self._straight(op)
            else:
                access = lower_lanes_access(s, op) if s.width > 1 else lower_access(s, op)
                if access is not None:
                    s.scalars[op.result] = access

    def _branching(self, region: Region, args: list[Components]) -> list[Components]:
        """The values that a map's region with control flow yields for one element."""
        s, before = self.s, self.s.lane
        s.lane = before or "0"
        s.scalars.update(zip(region.args, args, strict=True))
        self._lane_region(region)
        s.lane = before
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
        tiles_of_results = {r: s.tiles[r] for r in op.results if r in s.tiles}
        s.in_bounds, s.tiles = saved[0], {**saved[1], **tiles_of_results}

    def _body(self, region: Region) -> None:
        if self.s.lane:
            self._lane_region(region)
        else:
            self.region(region)

    def _in_lanes(self, value: Value) -> bool:
        """Whether a value is lane-varying and not a tile, so that it is in memory."""
        return not isinstance(value.type, TileType) and not self.s.lane and self.s.known.varying(value)

    def _home(self, value: Value) -> View:
        """Memory for a lane-varying value that is merged at a join or carried by a loop."""
        return self.s.lane_array(value.name or "carried", value.type)  # type: ignore[arg-type]

    def _move(self, values: list[Value], homes: list[View]) -> None:
        """Copy lane-varying values to their homes. The copy is parallel: a value in the home of another value is copied
        to scratch memory first."""
        s = self.s
        pointers = {h.pointer for h in homes}
        pending: list[tuple[Value, View]] = []
        for value, home in zip(values, homes, strict=True):
            at = s.lanes.get(value)
            if at == home:
                continue
            if at is not None and at.pointer in pointers:
                aside, stand_in = self._home(value), Value(value.type, None)
                self._copy(at, aside)
                s.lanes[stand_in] = aside
                s.known.values.add(stand_in)
                value = stand_in
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
        joined = [k for k, r in enumerate(op.results) if isinstance(r.type, TileType)]
        slots = [s.result_memory(op.results[k], "joined") for k in joined]
        homes = {r: self._home(r) for r in op.results if self._in_lanes(r)}
        in_registers = [k for k, r in enumerate(op.results) if k not in joined and r not in homes]
        labels = [code.label("then"), code.label("else")]
        done = code.label("endif")
        code.branch(condition, *labels)
        ends: list[str] = []
        yielded: list[list[Components]] = []
        before = dict(s.tiles), dict(s.in_bounds)
        for label, region in zip(labels, op.regions, strict=True):
            s.tiles, s.in_bounds = dict(before[0]), dict(before[1])
            code.define_label(label)
            out = region.yielded
            offer(s, region, [out[k] for k in joined], slots)
            self._body(region)
            join(s, [out[k] for k in joined], slots)
            self._move([v for v, r in zip(out, op.results, strict=True) if r in homes], list(homes.values()))
            yielded.append([s.spread(out[k], s.width_of(op.results[k])) for k in in_registers])
            ends.append(code.block)
            code.jump(done)
        code.define_label(done)
        s.lanes.update(homes)
        s.tiles.update({op.results[k]: slot for k, slot in zip(joined, slots, strict=True)})
        s.scalars.update(joined_registers(s, [op.results[k] for k in in_registers], yielded, ends))

    def _for(self, op: For) -> None:
        """Lower a `for`, whose trip count is known on entry."""
        s, code = self.s, self.code
        body = op.body
        t = register_type(op.start.type, 1)  # type: ignore[arg-type]
        start, step = s.scalar(op.start), s.scalar(op.step)
        loop = _CarriedLoop(self, op, op.initial, op.entries)
        head, inner, done = code.label("for"), code.label("trip"), code.label("endfor")
        count = trips(s, op)
        index, trip = code.fresh("n"), code.fresh("n")
        iterations = Iterations(s, op, head, done)
        iterations.open()
        at = len(code.lines)
        code.line("")
        loop.open()
        iterations.trip(trip, count, t, inner)
        code.define_label(inner)
        s.scalars[op.index] = (index,)
        self._body(body)
        loop.close(body.yielded)
        following, more = code.emit(f"add {t} {index}, {step}"), code.emit(f"add nuw {t} {trip}, 1")
        code.lines[at] = iterations.close(
            lambda before, last: [
                f"  {index} = phi {t} [ {start}, %{before} ], [ {following}, %{last} ]",
                f"  {trip} = phi {t} [ 0, %{before} ], [ {more}, %{last} ]",
                *loop.phis(before, last),
            ]
        )
        code.define_label(done)
        loop.finish()

    def _while(self, op: While) -> None:
        s, code = self.s, self.code
        condition, body = op.condition, op.body
        loop = _CarriedLoop(self, op, op.initial, op.entries)
        head, inner, done = code.label("while"), code.label("trip"), code.label("endwhile")
        iterations = Iterations(s, op, head, done)
        iterations.open()
        at = len(code.lines)
        code.line("")
        loop.open()
        self._body(condition)
        iterations.test(s.scalar(condition.yielded[0]), inner)
        code.define_label(inner)
        self._body(body)
        loop.close(body.yielded)
        code.lines[at] = iterations.close(loop.phis)
        code.define_label(done)
        loop.finish()


def _role(s: State, op: Roles, position: int) -> None:
    """Lower the body of a role in a function of its own."""
    walk = _Walk(s)
    walk._parameters()
    walk.region(op.roles[position])


class _CarriedLoop:
    """The values that a loop carries: phis for scalars, slots in memory for tiles, homes in memory for lane-varying
    values."""

    def __init__(
        self, walk: _Walk, op: For | While, initial: list[Value], arguments: list[list[Value]]
    ) -> None:
        self.walk, self.arguments, self.results = walk, arguments, op.results
        s, every = walk.s, range(len(op.results))
        self.tile = tile = [k for k in every if isinstance(op.results[k].type, TileType)]
        carried = [[group[k] for k in tile] for group in arguments]
        self.tiles = CarriedTiles(s, op, [initial[k] for k in tile], [op.results[k] for k in tile], carried)
        self.homes = {k: walk._home(op.results[k]) for k in every if walk._in_lanes(op.results[k])}
        self.in_registers = register_results = [k for k in every if k not in self.homes and k not in tile]
        self.registers = CarriedRegisters(
            s,
            [initial[k] for k in register_results],
            [[group[k] for k in register_results] for group in arguments],
            [op.results[k] for k in register_results],
        )
        walk._move([initial[k] for k in self.homes], list(self.homes.values()))

    def open(self) -> None:
        """Name the carried values in the loop header."""
        self.registers.open()
        self.tiles.open()
        for group in self.arguments:
            self.walk.s.lanes.update({group[k]: home for k, home in self.homes.items()})

    def close(self, yielded: list[Value]) -> None:
        self.tiles.close([yielded[k] for k in self.tile])
        self.walk._move([yielded[k] for k in self.homes], list(self.homes.values()))
        self.registers.close([yielded[k] for k in self.in_registers])

    def phis(self, before: str, last: str) -> list[str]:
        return self.tiles.phis(before, last) + self.registers.phis(before, last)

    def finish(self) -> None:
        """Bind the results to the values of the loop header at the exit."""
        self.tiles.finish()
        self.walk.s.lanes.update({self.results[k]: home for k, home in self.homes.items()})
        self.registers.finish()


def _in_lanes(op: Op) -> bool:
    at: Op | None = op
    while at is not None:
        if isinstance(at, Lanes):
            return True
        at = at.parent.parent if at.parent is not None else None
    return False


def _on_state(rule: Any) -> Any:
    return lambda walk, op: rule(walk.s, op)


_RULES: dict[type[Op], Any] = {
    Tid: _Walk.tid,
    Lanes: _Walk.lanes,
    LaneUniform: _Walk.lane_uniform,
    LogicalBlocks: _Walk.logical_blocks,
    If: _Walk.control,
    For: _Walk.control,
    While: _Walk.control,
    BufNew: _Walk.buf_new,
    BufRead: _Walk.buf_read,
    BufWrite: _Walk.buf_write,
    BufView: _Walk.buf_view,
    BufReshape: _Walk.buf_view,
    ArrayView: _Walk.array_view,
    TileFromThread: _Walk.from_thread,
    StackClear: _Walk.stack_clear,
    PrintTile: _Walk.print_tile,
    TileMatmul: _on_state(tile_matmul.matmul),
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
    TilePermute: _Walk.permute,
    TileReshape: _on_state(tiles.tile_reshape),
    TileGather: _on_state(tiles.gather),
    TileConcat: _on_state(tiles.concat),
    TileFromLanes: _on_state(tiles.from_lanes),
    TileToLanes: _on_state(tiles.to_lanes),
    **{kind: _on_state(rule) for kind, rule in exchange.RULES.items()},
    Roles: _Walk.roles,
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
    **dict.fromkeys((BulkCommit, BulkPrefetch, BulkWait, FenceAsync, LaunchNext), lambda walk, op: None),
    StackNew: _on_state(tiles.stack_new),
    StackPush: _on_state(tiles.stack_push),
    StackPop: _on_state(tiles.stack_pop),
}

__all__ = ["SYMBOL", "CpuCode", "InternalError", "Op", "components", "lower_kernel", "memory_type"]
