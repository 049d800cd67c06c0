"""Converts tiles between layouts through shared memory where an op requires another layout, and splits reductions into
a partial reduction within warps and an exchange between warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tegula.ir import AtomicUpdate, Builder, Kernel, Line, Op, Region, ReshapeLike, TileAccess, Value
from tegula.ir.rewrite import clone_region, replace
from tegula.layout import Layout, over_some_lanes
from tegula.ops import scalar as S
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufView
from tegula.ops.group import PartialReduce
from tegula.ops.tile import TileBroadcast, TileReduce, TileSlice
from tegula.passes.assign_layouts import ACCESS_BYTES, natural_layout, operand_layouts
from tegula.passes.groups import Group, group_of
from tegula.passes.lines import has_rows_in_threads, is_shuffled_line, least_coalesced_bytes, line_of
from tegula.passes.lower_tiles import view
from tegula.passes.overlap import has_adjacent_columns
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, TileType, element_bytes, int32

MAX_PARTIAL_REGISTERS = 128
"""The maximum number of registers for the partial results of reductions that share barriers."""


def convert_layouts(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place; new values get layouts too."""
    used = {v for op in kernel.walk() for v in op.operands}
    converter = _Converter(kernel, context, used)
    converter.region(kernel.body)
    replace(kernel.body, converter.replaced)


class _Converter:
    def __init__(self, kernel: Kernel, context: GpuCompilation, used: set[Value]) -> None:
        self.kernel, self.layouts = kernel, context.layouts
        self.lanes, self.least_coalesced_bytes = context.lanes, least_coalesced_bytes(kernel)
        self.used = used
        self.block_threads = context.threads
        self.replaced: dict[Value, Value] = {}

    def region(self, region: Region) -> None:
        before, region.ops = region.ops, []
        group = group_of(region, self.block_threads)
        reduced: set[Op] = set()
        for k, op in enumerate(before):
            if op in reduced:
                continue
            for nested in op.regions:
                self.region(nested)
            build = Builder(region, op.loc)
            if isinstance(op, TileBroadcast):
                self.broadcast(build, op)
            elif isinstance(op, ReshapeLike):
                self.reshape_like(build, op)
            elif (line := line_of(op)) is not None:
                self.line(build, op, line)
            elif (
                isinstance(op, TileAccess)
                and (tile := _memory_tile(op)) is not None
                and has_rows_in_threads(self.layouts[tile])
                and _tile_bytes(tile) >= self.least_coalesced_bytes
                and not has_adjacent_columns(self.kernel, op)
            ):
                self.rows(build, op, tile)
            elif isinstance(op, TileReduce):
                mergeable = self.mergeable(before[k:])
                reduced.update(mergeable)
                self.reduce(build, mergeable)
            elif isinstance(op, AtomicUpdate) and any(_is_tile(v) and v in self.used for v in op.results):
                self.atomic(build, op)
            else:
                self.natural(build, op, group)

    def atomic(self, build: Builder, op: Op) -> None:
        """Only the owner of an element gets the atomic's result; broadcast the result through a buffer to the other
        threads that hold copies of the element."""
        build.region.append(op)
        layout = self.layouts[op.result]
        if not layout.owns_once:
            self._replace_later_uses(op.result, self.read(build, self.buffer(build, op.result), layout))

    def natural(self, build: Builder, op: Op, group: Group) -> None:
        """Convert the operands and results of an op to and from the layouts that the op requires."""
        for k, (v, layout) in enumerate(zip(op.operands, operand_layouts(op, group), strict=True)):
            if layout is not None:
                op.set_operand(k, self.converted(build, v, layout))
        expected = natural_layout(op, group)
        build.region.append(op)
        if expected is None:
            return
        for result in op.results:
            if isinstance(result.type, TileType) and self.layouts[result] != expected:
                final = self.layouts[result]
                self.layouts[result] = expected
                self._replace_later_uses(result, self.converted(build, result, final))

    def _replace_later_uses(self, old: Value, new: Value) -> None:
        """Replace all later uses of a value by its conversion, except in the conversion itself."""
        conversion = new.owner
        assert isinstance(conversion, BufRead)
        source = conversion.buffer.owner
        assert isinstance(source, BufNew)
        unconverted = Value(old.type, old.owner, old.name)
        owner = old.owner
        assert isinstance(owner, Op)
        owner.results[owner.results.index(old)] = unconverted
        source.tile = unconverted
        self.layouts[unconverted] = self.layouts[old]
        self.replaced[old] = new

    def converted(self, build: Builder, value: Value, layout: Layout) -> Value:
        if self.layouts[value] == layout:
            return value
        return self.read(build, self.buffer(build, value), layout, value.name)

    def buffer(self, build: Builder, value: Value) -> Value:
        t = value.type
        assert isinstance(t, TileType)
        buffer_type = BufType(t.dtype, t.shape, "shared", t.partial)
        return build.insert(BufNew([value], [buffer_type], {"storage": "shared"})).result

    def read(self, build: Builder, buffer: Value, layout: Layout, name: str = "") -> Value:
        assert isinstance(buffer.type, BufType)
        tile = build.insert(BufRead([buffer], [buffer.type.tile])).result
        tile.name = name
        self.layouts[tile] = layout
        return tile

    def broadcast(self, build: Builder, op: TileBroadcast) -> None:
        """Broadcast in registers if each thread holds the elements that its part of the result needs, else through a
        buffer."""
        source, layout = op.tile, self.layouts[op.result]
        t, result_type = source.type, op.result.type
        assert isinstance(t, TileType) and isinstance(result_type, TileType)
        if self.layouts[source] == layout.restricted(t.shape):
            build.region.append(op)
            return
        buffer = self.buffer(build, source)
        zero = _zero(build)
        lead = len(result_type.shape) - len(t.shape)
        dims = tuple(
            d - lead if d >= lead and t.shape[d - lead] == n else -1 for d, n in enumerate(result_type.shape)
        )
        attrs = {"shape": result_type.shape, "dims": dims, "steps": tuple(int(d >= 0) for d in dims)}
        buffer_type = BufType(t.dtype, result_type.shape, "shared")
        view = build.insert(BufView([buffer, *[zero] * len(t.shape)], [buffer_type], attrs)).result
        self.replaced[op.result] = self.read(build, view, layout, op.result.name)

    def reshape_like(self, build: Builder, op: ReshapeLike) -> None:
        """Reshape in registers if each thread holds the elements that its part of the result needs, else go through a
        buffer."""
        layout = self.layouts[op.result]
        if op.carried(self.layouts[op.tile]) == layout:
            build.region.append(op)
            return
        viewed = view(build, op, self.buffer(build, op.tile))
        self.replaced[op.result] = self.read(build, viewed, layout, op.result.name)

    def line(self, build: Builder, op: Op, line: Line) -> None:
        """Read a line from the threads that hold the line, dimension by dimension, and through a buffer if different
        warps hold its elements."""
        layout, t = self.layouts[line.tile], op.result.type
        through_buffer = {d: index for d, index in line.at.items() if not is_shuffled_line(layout, d)}
        if not through_buffer:
            build.region.append(op)
            if isinstance(t, TileType):
                self.set_result_layout(build, op, layout.without(line.at, line.keeps))
            return
        in_registers = {d: index for d, index in line.at.items() if d not in through_buffer}
        tile = self._sliced_line(build, line.tile, in_registers) if in_registers else line.tile
        buffer = self.buffer(build, tile)
        if not isinstance(t, TileType):
            indices = [index if d in through_buffer else _zero(build) for d, index in line.at.items()]
            element = build.insert(BufGet([buffer, *indices], [op.result.type])).result
            element.name, self.replaced[op.result] = op.result.name, element
            return
        rank = len(layout.shape)
        starts = [through_buffer[d] if d in through_buffer else _zero(build) for d in range(rank)]
        part = BufType(t.dtype, t.shape, "shared")
        viewed = build.insert(BufView([buffer, *starts], [part], op.attrs)).result
        self.replaced[op.result] = self.read(build, viewed, self.layouts[op.result], op.result.name)

    def _sliced_line(self, build: Builder, tile: Value, at: Mapping[int, Value]) -> Value:
        """A line of a tile, with the indexed dimensions kept as dimensions of length 1."""
        t = tile.type
        assert isinstance(t, TileType)
        rank = len(t.shape)
        shape = tuple(1 if d in at else n for d, n in enumerate(t.shape))
        starts = [at[d] if d in at else _zero(build) for d in range(rank)]
        attrs = {"shape": shape, "dims": tuple(range(rank)), "steps": (1,) * rank}
        line = build.insert(TileSlice([tile, *starts], [TileType(t.dtype, shape)], attrs)).result
        self.layouts[line] = self.layouts[tile].without(at, True)
        return line

    def set_result_layout(self, build: Builder, op: Op, result: Layout) -> None:
        """Set the layout of the result of an op that is already in the region, and convert the result."""
        old, final = op.result, self.layouts[op.result]
        self.layouts[old] = result
        if final != result:
            self._replace_later_uses(old, self.converted(build, old, final))
            self.layouts[old] = final

    def rows(self, build: Builder, op: Op, tile: Value) -> None:
        """Let neighbouring threads access neighbouring elements of an array: convert a tile with rows in threads."""
        assert isinstance(tile.type, TileType)
        layout = self.layouts[tile]
        width = ACCESS_BYTES // element_bytes(tile.type.dtype)
        coalesced = over_some_lanes(layout.shape, layout.thread_count, self.lanes, width)
        if tile.owner is op:
            build.region.append(op)
            self.set_result_layout(build, op, coalesced)
        else:
            op.substitute({tile: self.converted(build, tile, coalesced)})
            build.region.append(op)

    def mergeable(self, ops: Sequence[Op]) -> list[TileReduce]:
        """The consecutive reductions at the start of a list that do not depend on each other's results, as long as the
        partial results that a thread reads fit its registers."""
        reductions: list[TileReduce] = []
        registers = 0
        for op in ops:
            if not isinstance(op, TileReduce) or any(o.result in op.operands for o in reductions):
                break
            registers += self.layouts[op.tile].parts(op.axis)[1].register_count
            if reductions and registers > MAX_PARTIAL_REGISTERS:
                break
            reductions.append(op)
        return reductions

    def reduce(self, build: Builder, ops: Sequence[TileReduce]) -> None:
        """Reduce in registers and by shuffles; if several warps hold parts of one result, reduce again over the parts.
        The threads synchronise once for consecutive reductions."""
        partitions = [self.layouts[op.tile].parts(op.axis) for op in ops]
        across_warps = [k for k, (_, _, bases) in enumerate(partitions) if len(bases) > 1]
        tiles = [op.tile for op in ops]
        if across_warps:
            parts = self._partial(
                build, [ops[k] for k in across_warps], [len(partitions[k][2]) for k in across_warps]
            )
            for k, part in zip(across_warps, parts, strict=True):
                self.layouts[part] = partitions[k][0]
            buffers = [self.buffer(build, part) for part in parts]
            for k, buffer in zip(across_warps, buffers, strict=True):
                tiles[k] = self.read(build, buffer, partitions[k][1])
        for k, (op, tile) in enumerate(zip(ops, tiles, strict=True)):
            axis, t, attrs = op.axis, op.tile.type, dict(op.attrs)
            assert isinstance(t, TileType)
            if k in across_warps:
                attrs |= {"bases": tuple(partitions[k][2]), "extent": t.shape, "lanes": t.partial}
            own = Builder(build.region, op.loc)
            result = own.insert(TileReduce([tile], [op.result.type], attrs, [op.combine])).result
            dims = range(len(t.shape)) if axis is None else (axis,)
            self.layouts[result] = self.layouts[tile].without(dims, op.keepdims)
            result.name = op.result.name
            self.replaced[op.result] = self.converted(own, result, self.layouts[op.result])

    def _partial(self, build: Builder, ops: Sequence[TileReduce], parts: Sequence[int]) -> list[Value]:
        """Build the partial results of each warp."""
        tiles = [op.tile for op in ops]
        attrs = {"axes": tuple(op.axis for op in ops), "parts": tuple(parts)}
        regions = [clone_region(op.combine, {}) for op in ops]
        return build.insert(PartialReduce.typed(tiles, attrs, regions)).results


def _memory_tile(op: TileAccess) -> Value | None:
    """The tile in registers of a load or store."""
    return None if isinstance(op, AtomicUpdate) else op.held


def _tile_bytes(tile: Value) -> int:
    assert isinstance(tile.type, TileType)
    return prod(tile.type.shape) * element_bytes(tile.type.dtype)


def _zero(build: Builder) -> Value:
    return build.insert(S.Const([], [int32], {"type": int32, "value": 0})).result


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType)
