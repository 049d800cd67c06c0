"""Gradients to which all blocks add, such as the gradients of weights. A block loops over a chunk of the forward
blocks, sums their contributions and writes its partial sum to its own row; a second launch sums the rows, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from tegula.ir import Kernel, LaunchClass, Op, Region, Value
from tegula.ir.rewrite import clone_op, erase_dead
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.control import For, Yield
from tegula.ops.lane import Tid
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.owners import accesses_of, disjoint_in_blocks, thread_indices
from tegula.passes.gradient.steps import AdjointStep, Chunk, Extent, GridDim, Partials, known_to_host
from tegula.passes.gradient.sums import SumBuilder, accumulator_type
from tegula.passes.runner import Compilation, Pass, run
from tegula.passes.simplify import simplify
from tegula.types import ArrayType, DType, TileType, int32, scalar_of

MAX_ROWS, MAX_COLUMNS = 128, 16
"""The maximum number of rows that a block sums at a time, and of columns that it owns."""
SUMS_PER_LANE, MIN_ROWS = 32, 8
"""The approximate number of sums per lane of a block that sums rows, and the minimum number of its rows."""
NUMBERS = ("length", "total", "lead", "step")
"""The int32 arguments that describe a block's chunk."""
MAX_PER_LANE = 96
"""Elements of partial sums that a lane may carry from one forward block to the next."""
REGISTERS, MAX_RESIDENT = 65536, 8
"""The number of registers of an SM, and the maximum number of resident blocks, each of which has its own row of
sums."""
OWN_REGISTERS, REGISTERS_PER_ELEMENT = 32, 5
"""The estimated registers of a lane: a fixed number, and a number for each element of a tile, its gradient and its
sum."""


def split_blocks(adjoint: Kernel, arrays: Sequence[Value], always: bool = False) -> list[AdjointStep] | None:
    """The steps that replace an adjoint kernel: one in which a block runs a chunk of the forward blocks and sums their
    additions to common tiles of the given gradient arrays, and one for each type of tile, which sums the rows.
    `always`: whether to split regardless of the size of the sums. None if no such tile exists; otherwise the kernel has
    been consumed."""
    atomics = _common_sums(adjoint, arrays, always)
    if not atomics:
        return None
    blocks = tuple(GridDim(k) for k in range(adjoint.launch.ndim - 1))
    resident = _resident_blocks(adjoint.launch.block_dim, max(tile_of(op).size for op in atomics))
    chunks, *numbers = (Chunk(blocks, (), label, resident, True) for label in ("chunks", *NUMBERS))
    partials = tuple(
        Partials(scalar_of(accumulator_type(tile_of(op).dtype)), (chunks, tile_of(op).size)) for op in atomics
    )
    known = tuple(adjoint.params)
    sums_by_type: dict[TileType, list[int]] = {}
    for k, op in enumerate(atomics):
        sums_by_type.setdefault(tile_of(op), []).append(k)
    sums = [
        summing_step(adjoint, [atomics[k] for k in indices], chunks, [partials[k] for k in indices], [])
        for indices in sums_by_type.values()
    ]
    counts = (*numbers, *blocks[1:])
    return [AdjointStep(_chunked_kernel(adjoint, atomics), known, (chunks,), counts, partials), *sums]


def _resident_blocks(lanes: int, size: int) -> int:
    """The estimated number of resident blocks of an SM. `size`: elements of the tile that a block sums, which determine
    the registers of a lane."""
    lane_registers = OWN_REGISTERS + REGISTERS_PER_ELEMENT * -(-size // lanes)
    return max(1, min(MAX_RESIDENT, REGISTERS // (lanes * lane_registers)))


def tile_of(op: TileAtomic) -> TileType:
    """The type of the tile that an atomic adds."""
    t = op.tile.type
    assert isinstance(t, TileType)
    return t


def _common_sums(adjoint: Kernel, arrays: Sequence[Value], always: bool) -> list[TileAtomic]:
    """The atomics whose target tile is the same in every block."""
    launch = adjoint.launch
    if not launch.last_is_block or launch.partial:
        return []
    atomics: list[TileAtomic] = []
    for array in arrays:
        ops = accesses_of(adjoint, array)
        sums = [op for op in ops if _is_sum(op) and op.parent is adjoint.body]
        if len(sums) == len(ops):
            atomics += sums
    if not always and sum(tile_of(op).size for op in atomics) > MAX_PER_LANE * launch.block_dim:
        return []
    return atomics


def _is_sum(op: Op) -> TypeGuard[TileAtomic]:
    """Whether an op adds to a tile whose offset follows from the kernel's arguments alone."""
    if not isinstance(op, TileAtomic) or op.op != "add":
        return False
    array, _, *offset = op.operands
    while isinstance(array.owner, ArrayView):
        offset += array.owner.bounds
        array = array.owner.array
    return can_be_partial(op) and all(map(known_to_host, offset))


def can_be_partial(atomic: TileAtomic) -> bool:
    """Whether the tile that an atomic adds can be stored in a row of partial sums."""
    return isinstance(tile_of(atomic).dtype, DType) and not tile_of(atomic).partial


def _chunked_kernel(adjoint: Kernel, sums: Sequence[TileAtomic]) -> Kernel:
    """The adjoint kernel's body in a loop over a chunk of the forward blocks; the last parameters receive the partial
    sums."""
    launch, params = adjoint.launch, adjoint.params
    dims = launch.ndim - 1
    out = Region()
    mapping = {p: out.add_argument(p.type) for p in params}
    length, total, lead, step = (out.add_argument(int32) for _ in NUMBERS)
    lengths = [out.add_argument(int32) for _ in range(1, dims)]
    rows = [out.add_argument(ArrayType(scalar_of(accumulator_type(tile_of(op).dtype)), 2)) for op in sums]
    b = SumBuilder(out, adjoint.loc)
    chunk, lane = b.emit(Tid, [], {"count": 2})
    first = b.one(S.Mul, [chunk, lead])
    padded_range = b.one(S.Sub, [b.one(S.Add, [b.one(S.Sub, [total, first]), step]), b.const(1, int32)])
    count = b.one(S.Min, [length, b.one(S.FloorDiv, [padded_range, step])])
    zeros = [b.zero(TileType(accumulator_type(tile_of(op).dtype), tile_of(op).shape)) for op in sums]
    loop = Region([int32, *(z.type for z in zeros)])
    b.region = loop
    at, *totals = loop.args
    at = b.one(S.Add, [first, b.one(S.Mul, [at, step])])
    components: list[Value] = []
    for n in reversed(lengths):
        components.insert(0, b.one(S.Mod, [at, n]))
        at = b.one(S.FloorDiv, [at, n])
    components.insert(0, at)
    for value, k in thread_indices(adjoint).items():
        mapping[value] = lane if k == dims else components[k]
    for op in adjoint.body.ops[:-1]:
        if isinstance(op, TileAtomic) and op in sums:
            k = sums.index(op)
            totals[k] = b.accumulated(totals[k], mapping[op.tile])
        elif isinstance(op, TileLoad):
            load = loop.append(clone_op(op, mapping))
            if _is_unwritten(adjoint, op):
                load.unwritten = True
        elif not isinstance(op, Tid):
            loop.append(clone_op(op, mapping))
    b.emit(Yield, totals)
    b.region = out
    zero, one = (b.const(n, int32) for n in (0, 1))
    loop_results = b.emit(For, [zero, count, one, *zeros], None, [loop])
    for total, array in zip(loop_results, rows, strict=True):
        assert isinstance(total.type, TileType)
        row = [array, chunk, zero, b.const(total.type.size, int32)]
        view = b.one(ArrayView, row, {"spec": ("index", ("slice", 1))})
        line = b.reshaped(total, (total.type.size,))
        b.emit(TileStore, [view, line, zero], {"bounds_check": False, "aligned": False})
    b.emit(Yield, [])
    names = [
        *adjoint.param_names,
        *("chunk", "blocks", "lead", "step", *(f"blocks_{k}" for k in range(1, dims))),
        *(f"partials_{k}" for k in range(len(sums))),
    ]
    return finish_kernel(adjoint, adjoint.name, names, out, 1)


def _is_unwritten(adjoint: Kernel, load: TileLoad) -> bool:
    """Whether no block of the launch writes the elements of a load before the load."""
    array = memory_root(load.array)
    access = adjoint.access[adjoint.params.index(array)] if array in adjoint.params else None
    if access is None:
        return False
    aliasing = [array, *(adjoint.params[k] for k in access.aliases)]
    accesses = [o for a in aliasing for o in accesses_of(adjoint, a)]
    if not any(e.kind != "read" for o in accesses for e in o.effects()):
        return True
    first = next(o for o in adjoint.walk() if o in accesses)
    return not access.aliases and load is first and disjoint_in_blocks(adjoint, accesses)


def finish_kernel(adjoint: Kernel, name: str, names: Sequence[str], body: Region, dims: int) -> Kernel:
    """Finish a kernel of an adjoint, simplified, with a launch grid of `dims` dimensions."""
    launch = LaunchClass(dims + 1, adjoint.launch.block_dim, (True,) * dims + (False,), True, False)
    access = [*adjoint.access, *(None for _ in names)][: len(names)]
    kernel = Kernel(name, names, body, launch, access, adjoint.loc)
    run((Pass(simplify),), kernel, Compilation())
    erase_dead(kernel)
    return kernel


def summing_step(
    adjoint: Kernel,
    atomics: Sequence[TileAtomic],
    chunks: Extent,
    partials: Sequence[Partials],
    owners: Sequence[tuple[Sequence[Value], Extent]],
) -> AdjointStep:
    """The step that adds rows of partial sums to the targets of atomics, whose tiles have one type; `partials` has an
    array of rows for each atomic. `owners`: for each dimension of the grid of tiles the values that are the tile's
    position in it, and its length; a row holds the tiles consecutively. A block sums some columns of each tile: few
    columns if there are many rows, and many columns if there are few rows."""
    tile, params = tile_of(atomics[0]), adjoint.params
    wide = scalar_of(accumulator_type(tile.dtype))
    lanes = adjoint.launch.block_dim
    shape = _chunk_shape(tile.shape, max(MAX_COLUMNS, lanes) if owners else MAX_COLUMNS)
    columns = math.prod(shape)
    extents = [extent for _, extent in owners]
    body = Region()
    mapping = {p: body.add_argument(p.type) for p in params}
    rows = body.add_argument(int32)
    lengths = [body.add_argument(int32) for _ in extents[1:]]
    arrays = [body.add_argument(ArrayType(wide, 2)) for _ in atomics]
    b = SumBuilder(body, atomics[0].loc)
    *indices, piece, _ = b.emit(Tid, [], {"count": len(owners) + 2})
    for (values, _), index in zip(owners, indices, strict=True):
        mapping.update(dict.fromkeys(values, index))
    element = b.one(S.Mul, [piece, b.const(columns, int32)])
    first = b.one(S.Add, [first_column(b, indices, lengths, tile.size), element])
    at: list[Value] = []
    for k in reversed(range(len(tile.shape))):
        n = b.const(tile.shape[k], int32)
        at.insert(0, b.one(S.Mod, [element, n]) if k else element)
        element = b.one(S.FloorDiv, [element, n])
    targets = [_Target(b, atomic, shape, at, mapping) for atomic in atomics]
    if _are_disjoint(adjoint, atomics):  # the targets are loaded early, overlapped with the loads of the rows
        for target in targets:
            target.load(b)
    height = MIN_ROWS if owners else _rows_per_step(lanes, columns * len(atomics))
    attrs = {"shape": (height, columns), "aligned": False, "unwritten": True}
    step, zero = b.const(height, int32), b.const(0.0, wide)
    count = b.one(S.FloorDiv, [rows, step])
    rest = b.one(S.Mul, [count, step])
    start = [b.one(TileLoad, [x, zero, rest, first], {**attrs, "bounds_check": True}) for x in arrays]
    loop = Region([int32, *(t.type for t in start)])
    b.region = loop
    number, *totals = loop.args
    row = b.one(S.Mul, [number, step])
    parts = [b.one(TileLoad, [x, zero, row, first], {**attrs, "bounds_check": False}) for x in arrays]
    b.emit(Yield, [b.accumulated(t, part) for t, part in zip(totals, parts, strict=True)])
    b.region = body
    sums = b.emit(For, [b.const(0, int32), count, b.const(1, int32), *start], None, [loop])
    lines = [b.summed(total, 0) for total in sums]
    for target, line in zip(targets, lines, strict=True):
        target.add(b, b.reshaped(line, shape))
    b.emit(Yield, [])
    names = [
        *adjoint.param_names,
        "chunks",
        *(f"extent_{k}" for k in range(len(lengths))),
        *(f"partials_{k}" for k in range(len(arrays))),
    ]
    kernel = finish_kernel(adjoint, kernel_name(adjoint, *atomics), names, body, len(owners) + 1)
    grid = (*extents, tile.size // columns)
    return AdjointStep(kernel, tuple(params), grid, (chunks, *extents[1:]), tuple(partials))


def _chunk_shape(shape: Sequence[int], max_elements: int) -> tuple[int, ...]:
    """The shape of a chunk of consecutive elements of a tile, at most `max_elements`, into which the tile divides."""
    chunk_shape: list[int] = []
    for length in reversed(shape):
        is_whole = math.prod(chunk_shape) == math.prod(shape[len(shape) - len(chunk_shape) :])
        remaining = max_elements // math.prod(chunk_shape) if is_whole else 1
        chunk_shape.insert(0, next(n for n in range(min(remaining, length), 0, -1) if length % n == 0))
    return tuple(chunk_shape)


def _rows_per_step(lanes: int, width: int) -> int:
    """The number of rows that a block sums at a time, a power of two. `width`: the columns of a row."""
    max_rows = SUMS_PER_LANE * lanes // width
    return max(MIN_ROWS, min(MAX_ROWS, 1 << max(0, max_rows.bit_length() - 1)))


def _are_disjoint(adjoint: Kernel, atomics: Sequence[TileAtomic]) -> bool:
    """Whether the atomics add to pairwise different arrays that share no bytes with any other."""
    arrays = [memory_root(op.array) for op in atomics]
    accesses = [adjoint.access[adjoint.params.index(array)] for array in arrays]
    return len(set(arrays)) == len(arrays) and not any(a is None or a.aliases for a in accesses)


class _Target:
    """The part of a gradient that a block adds to."""

    __slots__ = ("array", "at", "before", "checked", "shape", "wide")

    def __init__(
        self,
        b: SumBuilder,
        atomic: TileAtomic,
        shape: Sequence[int],
        at: Sequence[Value],
        mapping: dict[Value, Value],
    ) -> None:
        self.array, *offsets = (_recompute(b, v, mapping) for v in (atomic.array, *atomic.offset))
        self.at = [b.one(S.Add, [offset, x]) for offset, x in zip(offsets, at, strict=True)]
        self.shape, self.checked = shape, atomic.bounds_check
        self.wide = scalar_of(accumulator_type(tile_of(atomic).dtype))
        self.before: Value | None = None

    def load(self, b: SumBuilder) -> Value:
        """Load the current elements of the target."""
        self.before = b.loaded(self.array, self.at, self.shape, self.wide, self.checked)
        return self.before

    def add(self, b: SumBuilder, total: Value) -> None:
        """Store the sum of the target's current elements and a tile, rounded once."""
        after = b.plus(self.load(b) if self.before is None else self.before, total)
        assert after is not None
        b.store(self.array, after, self.at, self.checked)


def first_column(b: SumBuilder, indices: Sequence[Value], lengths: Sequence[Value], size: int) -> Value:
    """The column at which a tile begins in a row of partial sums. `indices`: the tile's position in the grid;
    `lengths`: the lengths of the grid's dimensions except the first; `size`: elements of a tile."""
    if not indices:
        return b.const(0, int32)
    number, *others = indices
    for index, length in zip(others, lengths, strict=True):
        number = b.one(S.Add, [b.one(S.Mul, [number, length]), index])
    return b.one(S.Mul, [number, b.const(size, int32)])


def kernel_name(adjoint: Kernel, *atomics: TileAtomic) -> str:
    """The name of a kernel that computes the sums of atomics."""
    arrays = [adjoint.params.index(memory_root(op.array)) for op in atomics]
    return f"{adjoint.name}_of_{'_'.join(adjoint.param_names[k] for k in arrays)}"


def _recompute(b: SumBuilder, value: Value, mapping: dict[Value, Value]) -> Value:
    """Recompute a value that follows from the kernel's arguments alone."""
    if value not in mapping:
        op = value.owner
        assert isinstance(op, Op) and not isinstance(op, Tid)
        for operand in op.operands:
            _recompute(b, operand, mapping)
        b.region.append(clone_op(op, mapping))
    return mapping[value]
