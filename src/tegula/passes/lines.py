"""Slices of tiles at one index, which threads read from registers instead of from a buffer.

A line is a slice of a tile with one index along some of the dimensions and all indices along the others: a row, a
column or an element. If the index is the same for all threads, it determines the registers in which a thread holds the
line, and other threads receive the line by shuffles. In an unrolled loop whose induction variable is the index, the
registers are known when the code is generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, prod

from tegula.ir import ActsOnLines, BranchLike, ConstantLike, Kernel, LaneTile, Line, LoopLike, Op, Value
from tegula.ir.rewrite import uses
from tegula.layout import Layout, Mode, blocked
from tegula.ops.control import For
from tegula.ops.roles import WARP, Roles
from tegula.ops.tile import TileReduce, tile_type
from tegula.passes.runner import GpuCompilation
from tegula.types import components

MAX_REGISTERS = 128
"""The maximum number of registers for the elements of a tile whose lines are taken from registers."""
MAX_CHEAP_SHUFFLES = 4
"""The maximum number of shuffles that always cost less than a buffer."""
MAX_TRIP_COUNT = 64
"""The maximum trip count of a loop that is unrolled."""
MAX_UNROLLED_OPERATIONS = 49152
"""The maximum number of elementwise operations of a thread in all iterations of an unrolled loop."""
SHUFFLE_COST = 2
"""The cost of a shuffle, relative to an operation of a thread."""
L1_BYTES_OF_WARP = 3200
"""The share of a warp in the L1 cache, if a multiprocessor has as many resident warps as it can have."""
SELECTION_COST = 2
"""The cost of a selection of a register by its number, which takes a comparison."""
REDUCTION_COST = 5 * SHUFFLE_COST
"""The cost of a reduction over a warp."""


def line_of(op: Op) -> Line | None:
    """The line that an op takes from a tile with several elements; None if the op takes none."""
    return op.line if isinstance(op, ActsOnLines) else None


def lines_in_registers(kernel: Kernel, context: GpuCompilation) -> set[Op]:
    """The slices and elements that stay in registers. The loops whose induction variables are their indices are marked
    to be unrolled. The block must be a single warp: with two warps, unrolled factorisations spill."""
    if context.debug or kernel.launch.partial or kernel.launch.block_dim != WARP or context.threads != WARP:
        return set()
    if any(isinstance(op, Roles) for op in kernel.body.ops):
        return set()
    return _Choice(kernel, context).select()


class _Choice:
    def __init__(self, kernel: Kernel, context: GpuCompilation) -> None:
        self.kernel, self.context = kernel, context
        self.users = uses(kernel.body)

    def select(self) -> set[Op]:
        loops: set[For] = set()
        retained: set[Op] = set()
        lines: dict[Value, list[tuple[Op, Line]]] = {}
        for op in self.kernel.walk():
            line = line_of(op)
            if line is not None:
                lines.setdefault(line.tile, []).append((op, line))
        for tile, lines_of_tile in lines.items():
            indexed = [self._loops(tile, op, line) for op, line in lines_of_tile]
            if self._is_cheaper(tile, [op for op, _ in lines_of_tile]) and None not in indexed:
                retained.update(op for op, _ in lines_of_tile)
                loops.update(loop for required_loops in indexed for loop in required_loops or ())
        for op in retained:
            self._replace_reshaping_slices(op)
        for loop in loops:
            loop.unroll = True
        return retained

    def _replace_reshaping_slices(self, line: Op) -> None:
        """Replace slices that only add dimensions of length 1 to a line by reshapes, which need no buffer."""
        for op in (user for result in line.results for user, _ in self.users.get(result, [])):
            reshape = op.reshape if isinstance(op, ActsOnLines) else None
            if reshape is not None and op.parent is not None:
                reshape.results, reshape.parent = [op.result], op.parent
                op.result.owner = reshape
                op.parent.ops[op.parent.ops.index(op)] = reshape

    def _is_cheaper(self, tile: Value, lines: Sequence[Op]) -> bool:
        """Whether a tile is small, no other op reads its elements by index, and the shuffles of its lines cost less
        than a buffer."""
        t = tile_type(tile.type)
        others = (op for op, _ in self.users[tile] if op not in lines)
        if (
            len(t.shape) > 2
            or components(t.dtype) != 1
            or t.size > MAX_REGISTERS * self.context.threads
            or any(isinstance(op, ActsOnLines) and op.READS_BY_INDEX for op in others)
        ):
            return False
        if len(t.shape) == 1:
            return len(lines) <= MAX_CHEAP_SHUFFLES
        layouts = [along_registers(t.shape, axis, self.context.threads) for axis in range(2)]
        shuffles = min(sum(_shuffles(op, k, x) for op in lines) for k, x in enumerate(layouts))
        return shuffles <= max(MAX_CHEAP_SHUFFLES, layouts[0].register_count)

    def _loops(self, tile: Value, op: Op, line: Line) -> set[For] | None:
        """The loops to unroll so that the indices of a line are known; empty if the indices may be unknown, because the
        tile changes in each iteration; None if the line must be read from a buffer."""
        uniformity = self.context.uniformity
        if any(uniformity.varying(v) for v in line.at.values()):
            return None
        enclosing = [*_enclosing_ops(op)]
        if not all(isinstance(o, LoopLike | BranchLike) and o not in uniformity.divergent for o in enclosing):
            return None
        required: set[For] = set()
        is_vector = len(tile_type(tile.type).shape) == 1
        for index in line.at.values():
            # Lanes hold the elements of vectors, so that their indices need not be known.
            index_loops = None if is_vector and not isinstance(index.owner, ConstantLike) else _indices(index)
            if index_loops is not None:
                if not all(self._unrollable(loop) for loop in index_loops):
                    return None
                required |= index_loops
            elif not is_vector and any(isinstance(o, LoopLike) for o in _between(tile, enclosing)):
                return None
        return required

    def _unrollable(self, loop: For) -> bool:
        positions = loop.positions
        if positions is None or not 0 < len(positions) <= MAX_TRIP_COUNT:
            return False
        operations = 0
        for op in loop.body.walk():
            if isinstance(op, LoopLike) or (isinstance(op, ActsOnLines) and op.exchanges):
                return False
            if isinstance(op, ActsOnLines) and op.operations:
                size = max(1, tile_type(op.result.type).size // self.context.threads)
                operations += size * op.operations
        return operations * len(positions) <= MAX_UNROLLED_OPERATIONS


def _enclosing_ops(op: Op) -> Iterator[Op]:
    """The ops whose regions contain an op, innermost first."""
    region = op.parent
    while region is not None and isinstance(region.parent, Op):
        yield region.parent
        region = region.parent.parent


def _between(value: Value, enclosing: Sequence[Op]) -> Iterator[Op]:
    """The ops of `enclosing`, without ops whose regions contain the definition of the value."""
    owner = value.owner
    region = owner.parent if isinstance(owner, Op) else owner
    for op in enclosing:
        if region in op.regions:
            return
        yield op


def _indices(index: Value) -> set[For] | None:
    """The loops whose induction variables determine an index; None if the index also depends on other values."""
    owner = index.owner
    if isinstance(owner, ConstantLike):
        return set()
    if isinstance(owner, Op):
        if owner.regions or owner.COOPERATIVE or owner.VARYING or not owner.PURE or not owner.operands:
            return None
        loops: set[For] = set()
        for v in owner.operands:
            more = _indices(v)
            if more is None:
                return None
            loops |= more
        return loops
    loop = owner.parent if owner is not None else None
    return {loop} if isinstance(loop, For) and index is loop.index else None


def has_lines(kernel: Kernel) -> bool:
    """Whether a kernel, after `lower_tiles`, reads lines from registers."""
    return any(line_of(op) is not None for op in kernel.walk())


def least_coalesced_bytes(kernel: Kernel) -> float:
    """The least size of a tile with whole rows in threads whose loads and stores are coalesced by an exchange in shared
    memory, after `lower_tiles`. Kernels that read lines from registers exchange all such tiles. Where a kernel of one
    warp distributes the elements of matrices itself, small matrices stay in the L1 cache until their lanes have read
    the rows."""
    if has_lines(kernel):
        return 0
    if kernel.launch.block_dim == WARP and any(_distributes_matrix(op) for op in kernel.walk()):
        return L1_BYTES_OF_WARP
    return inf


def _distributes_matrix(op: Op) -> bool:
    return isinstance(op, LaneTile) and len(tile_type(op.distributed.type, partial=True).shape) > 1


# Layouts -------------------------------------------------------------------------------------------------------------


def along_registers(shape: Sequence[int], axis: int, threads: int) -> Layout:
    """The layout in which each thread holds whole lines along an axis."""
    shape = tuple(shape)
    distributed = blocked((*shape[:axis], 1, *shape[axis + 1 :]), threads, 1)
    return Layout(shape, (Mode(shape[axis], axis), *distributed.registers), distributed.threads)


def has_rows_in_threads(layout: Layout) -> bool:
    """Whether each thread holds whole rows that are longer than one access, of a tile with several rows, so that the
    accesses of neighbouring threads would not be coalesced."""
    last = len(layout.shape) - 1
    rows = prod(layout.shape[:-1])
    if last < 1 or layout.shape[last] <= 4 or rows == 1:
        return False
    return layout == along_registers(layout.shape, last, layout.thread_count)


def lines_layout(
    shape: Sequence[int], threads: int, ops: Sequence[Op], reductions: Sequence[TileReduce], maps: int
) -> Layout:
    """The layout of a matrix, with rows or columns in registers, that minimises the cost of lines and reductions.
    `maps`: the number of elementwise operations on such tiles."""
    costs: list[tuple[int, int, Layout]] = []
    for axis in range(len(shape)):
        layout = along_registers(shape, axis, threads)
        count = layout.register_count
        cost = count * maps
        for op in ops:
            line = line_of(op)
            assert line is not None
            if axis in line.at and _indices(line.at[axis]) is None:
                cost += SELECTION_COST * count
            cost += SHUFFLE_COST * _shuffles(op, axis, layout)
        for reduction in reductions:
            if reduction.axis is None:
                cost += REDUCTION_COST
            elif reduction.axis != axis:
                cost += REDUCTION_COST * count
        costs.append((cost, -axis, layout))
    return min(costs, key=lambda c: c[:2])[2]


def _shuffles(op: Op, axis: int, layout: Layout) -> int:
    """The number of shuffles per line if each thread holds lines along `axis`."""
    line = line_of(op)
    assert line is not None
    if all(d == axis for d in line.at):
        return 0
    return layout.register_count // layout.shape[axis] if axis in line.at else layout.register_count


def is_shuffled_line(layout: Layout, axis: int) -> bool:
    """Whether an index along an axis determines one register and one lane of a warp: all warps hold the same indices,
    and the strides are those of a mixed-radix number."""
    if any(m.dim == axis for m in layout.warp_modes[1]):
        return False
    stride = 1
    for m in sorted(
        (m for m in (*layout.registers, *layout.threads) if m.dim == axis), key=lambda m: m.stride
    ):
        if m.stride != stride:
            return False
        stride *= m.size
    return True
