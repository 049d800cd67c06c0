"""Assigns each tile value a layout over the threads of the block.

Values that are combined element by element, or carried by one loop, share a layout: they form a class. A class with a
matmul takes the matmul's layout; a class whose tiles are gathered from lanes takes the lanes' layout. The result of a
reduction and the source of a broadcast take the larger tile's layout restricted to their dimensions, so that neither op
moves elements between threads. All other classes get a blocked layout for vector accesses to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tegula.deferred import deferred_imports
from tegula.ir import Carrier, ElementwiseTiles, Kernel, Line, Op, ReshapeLike, Value, exchanged
from tegula.ir.disjoint_sets import DisjointSets
from tegula.layout import (
    Layout,
    fma_result,
    mma_result,
    over_grid,
    over_lanes,
    over_some_lanes,
    replicated,
    wgmma_result,
    wgmma_transposed,
)
from tegula.ops.buffer import BufNew, BufRead, BufWrite, is_swizzled
from tegula.ops.group import GroupMma, MmaWait, RegisterMma
from tegula.ops.lane import TileFromLanes, TileToLanes
from tegula.ops.tile import (
    TileAtomic,
    TileBroadcast,
    TileLoad,
    TileMap,
    TileReduce,
    TileStore,
    tile_type,
)
from tegula.passes.groups import Group, group_of
from tegula.passes.lanes_of_blocks import lanes_of_block
from tegula.passes.lines import line_of, lines_layout
from tegula.passes.overlap import along_columns
from tegula.passes.runner import GpuCompilation
from tegula.types import TileType, components, element_bytes

with deferred_imports():
    from tegula.passes.mma_types import register_mma_types

Layouts = dict[Value, Layout]
ACCESS_BYTES = 16
"""The size in bytes of the widest memory access."""


def assign_layouts(kernel: Kernel, context: GpuCompilation) -> None:
    """Set the layout of each tile value. The kernel is not changed; `convert_layouts` inserts the conversions."""
    context.lanes = lanes_of_block(kernel, context)
    classes = _classes(kernel, context.threads)
    edges = _edges(kernel, classes)
    chosen: dict[_Class, Layout] = {}
    for group in sorted(set(classes.values()), key=_order):
        chosen[group] = _choice(kernel, group, chosen, edges, context.lanes)
    context.layouts = {value: chosen[group] for value, group in classes.items()}


def _order(group: _Class) -> tuple[int, int, int]:
    """The order in which classes are assigned a layout: larger tiles first; among tiles of equal size classes with a
    layout that an op requires, then loaded or stored classes."""
    has_required_layout = any(_required_layout(op, group) is not None for op in group.makers)
    return -group.size, 0 if has_required_layout else 1 if group.accesses else 2, group.number


class _Class:
    """Tile values of one shape that share a layout, and the ops that make or use them."""

    def __init__(self, number: int, shape: tuple[int, ...], group: Group) -> None:
        self.number = number
        self.shape = shape
        self.group = group
        self.size = 1
        for n in shape:
            self.size *= n
        self.makers: list[Op] = []
        self.accesses: list[Op] = []
        self.lines: list[Op] = []
        self.reductions: list[TileReduce] = []

    @property
    def of_lanes(self) -> bool:
        """Whether the program determines the elements that each lane holds."""
        return any(isinstance(op, TileFromLanes | TileToLanes) for op in self.makers)


def _tiles(op: Op) -> Iterator[Value]:
    for value in (*op.results, *(v for r in op.regions for v in r.args)):
        if isinstance(value.type, TileType):
            yield value


def _classes(kernel: Kernel, threads: int) -> dict[Value, _Class]:
    """The class of each tile value, by union-find over the values that must share a layout."""
    ops, sets = [op for op in kernel.walk()], DisjointSets()
    for op in ops:
        for v in _tiles(op):
            sets.join([v])
        for group in _equal_layout_groups(op):
            sets.join(group)
    class_of: dict[Value, _Class] = {}
    for v in sets:
        assert isinstance(v.type, TileType)
        home = sets.find(v)
        if home not in class_of:
            class_of[home] = _Class(len(class_of), v.type.shape, group_of(v.owner, threads))
    classes = {v: class_of[sets.find(v)] for v in sets}
    for op in ops:
        _note(op, classes)
    return classes


def _equal_layout_groups(op: Op) -> Iterator[list[Value]]:
    """Groups of tile values for which an op requires equal layouts."""
    if isinstance(op, Carrier):
        yield from ([*carried.values] for carried in op.carried if isinstance(carried.result.type, TileType))
    elif isinstance(op, ElementwiseTiles):
        yield [v for v in (*op.results, *op.operands) if isinstance(v.type, TileType)]
    elif isinstance(op, GroupMma):
        yield [op.result, op.c]
    elif isinstance(op, MmaWait):
        yield from ([r, v] for r, v in zip(op.results, op.sums, strict=True))


def _note(op: Op, classes: dict[Value, _Class]) -> None:
    """Record an op with the classes of its tiles: among the makers and the accesses to memory."""
    for v in op.results:
        if v in classes:
            classes[v].makers.append(op)
    line = line_of(op)
    if line is not None:
        classes[line.tile].lines.append(op)
    if isinstance(op, TileReduce):
        classes[op.tile].reductions.append(op)
    if isinstance(op, TileToLanes | RegisterMma):
        classes[op.tile if isinstance(op, TileToLanes) else op.register_tile].makers.append(op)
    if (moved := _moved(op)) is not None:
        classes[moved].accesses.append(op)


def _moved(op: Op) -> Value | None:
    """The tile that an op moves between registers and memory; None for other ops."""
    if isinstance(op, TileLoad | BufRead):
        return op.result
    return op.tile if isinstance(op, TileStore | TileAtomic | BufWrite | BufNew) else None


Edges = dict[_Class, list[tuple[_Class, Callable[[Layout], Layout | None]]]]


def _edges(kernel: Kernel, classes: dict[Value, _Class]) -> Edges:
    """For each class, the classes whose layout the class could follow, each with the function that derives its layout:
    larger tiles, and tiles with the same elements under other indices. Loaded or stored classes do not take a layout
    through a permutation, which would break the contiguity of accesses, unless the program determines the other class's
    layout."""
    edges: Edges = {}
    for op in kernel.walk():
        if isinstance(op, TileReduce):
            edges.setdefault(classes[op.result], []).append((classes[op.tile], _reduction(op)))
        elif (line := line_of(op)) is not None:
            for r in (r for r in op.results if r in classes):
                edges.setdefault(classes[r], []).append((classes[line.tile], _of_line(line)))
        elif isinstance(op, TileBroadcast):
            small = classes[op.tile]
            edges.setdefault(small, []).append((classes[op.result], _source(small.shape)))
        elif isinstance(op, ReshapeLike):
            before, after = classes[op.tile], classes[op.result]
            for tile, other, inverse in ((after, before, False), (before, after, True)):
                if op.KEEPS_ORDER or not tile.accesses or other.of_lanes:
                    edges.setdefault(tile, []).append((other, partial(op.carried, inverse=inverse)))
    return edges


def _source(shape: tuple[int, ...]) -> Callable[[Layout], Layout]:
    return lambda layout: layout.restricted(shape)


def _reduction(op: TileReduce) -> Callable[[Layout], Layout]:
    axis, keepdims = op.axis, op.keepdims

    def follow(layout: Layout) -> Layout:
        dims = range(len(layout.shape)) if axis is None else (axis,)
        return layout.without(dims, keepdims)

    return follow


def _of_line(line: Line) -> Callable[[Layout], Layout]:
    return lambda layout: layout.without(line.at, line.keeps)


def _choice(kernel: Kernel, group: _Class, chosen: dict[_Class, Layout], edges: Edges, lanes: int) -> Layout:
    threads = group.group.threads
    if group.size == 1:
        return replicated(group.shape, threads)
    for op in group.makers:
        natural = _required_layout(op, group)
        if natural is not None:
            return natural
    if group.lines and len(group.shape) == 2:
        maps = sum(isinstance(op, TileMap) for op in group.makers)
        return lines_layout(group.shape, threads, group.lines, group.reductions, maps)
    for other, follow in edges.get(group, ()):
        layout = follow(chosen[other]) if other in chosen else None
        if layout is not None:
            return layout
    if along_columns(kernel, group.accesses):
        transposed = exchanged(range(len(group.shape)))
        return over_some_lanes(exchanged(group.shape), threads, lanes, 1).permuted(transposed)
    swizzled = [op for op in group.accesses if isinstance(op, BufWrite) and is_swizzled(op.buffer)]
    least_bytes = min(map(_access_bytes, swizzled or group.accesses), default=4)
    return over_some_lanes(group.shape, threads, lanes, ACCESS_BYTES // least_bytes)


def _access_bytes(op: Op) -> int:
    """The size in bytes of an element of the tile that an op moves, or of an access to an element of several
    components."""
    moved = _moved(op)
    assert moved is not None
    t = tile_type(moved.type, partial=True)
    return element_bytes(t.dtype) if components(t.dtype) == 1 else ACCESS_BYTES


def _required_layout(op: Op, group: _Class) -> Layout | None:
    """The layout that an op of `makers` requires for a class; None if the ops accept any layout."""
    if isinstance(op, RegisterMma) and tile_type(op.result.type).shape != group.shape:
        return register_operand_layout(op, group.group)
    return natural_layout(op, group.group)


def natural_layout(op: Op, group: Group) -> Layout | None:
    """The layout that an op requires for its tile; None if the op accepts any layout. `group`: the threads that execute
    the op."""
    threads = group.threads
    if isinstance(op, GroupMma):
        t = op.result.type
        assert isinstance(t, TileType)
        rows, columns = t.shape
        if op.unit == "wgmma":
            return _warp_group_layouts(op)((rows, columns), group.warp_groups)
        if register_mma_types(op) is not None:
            return mma_result((rows, columns), threads // 32)
        return fma_result((rows, columns), threads, ACCESS_BYTES // max(4, element_bytes(t.dtype)))
    if isinstance(op, TileFromLanes | TileToLanes):
        t = (op.tile if isinstance(op, TileToLanes) else op.result).type
        assert isinstance(t, TileType)
        grid = op.grid
        return over_lanes(t.shape, threads) if grid is None else over_grid(t.shape, grid, threads)
    return None


def _warp_group_layouts(op: GroupMma) -> Callable[[tuple[int, int], int], Layout]:
    """The function from shape to layout for a wgmma's result and its operand in registers."""
    return wgmma_transposed if isinstance(op, RegisterMma) and op.register_operand == 1 else wgmma_result


def register_operand_layout(op: RegisterMma, group: Group) -> Layout:
    """The layout in which a matmul takes its operand in registers."""
    t = op.register_tile.type
    assert isinstance(t, TileType)
    return _warp_group_layouts(op)((t.shape[0], t.shape[1]), group.warp_groups)


def operand_layouts(op: Op, group: Group) -> list[Layout | None]:
    """The layout that an op requires for each of its operands; None if the op accepts any layout, or the operand is not
    a tile."""
    expected = natural_layout(op, group)
    shapes = (v.type.shape if isinstance(v.type, TileType) else None for v in op.operands)
    layouts = [expected if expected is not None and shape == expected.shape else None for shape in shapes]
    if isinstance(op, RegisterMma):
        layouts[op.register_operand] = register_operand_layout(op, group)
    return layouts
