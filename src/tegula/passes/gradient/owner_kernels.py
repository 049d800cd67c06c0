"""Replaces atomics on gradient tiles by kernels over another grid, in which each tile has one owner.

The adjoint of a load in a loop adds to a tile to which other blocks add as well: for C = A B, block (i, j) adds to the
tiles (i, k) of A's gradient, for every k. In a grid over (i, k) with a loop over j, one block owns each tile, sums all
contributions and writes the tile once. The slice of the adjoint kernel that the atomic depends on therefore becomes a
separate kernel: the block and loop indices that determine the tile's offset are its grid, and all other indices are its
loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.dataclass import replace
from tegula.ir import Kernel, LoopLike, Op, Region, TileAccess, Value, constant_number
from tegula.ir.rewrite import clone_op, erase_dead
from tegula.ir.verify import verify
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.control import For, Yield
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import Tid
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileAtomic, TileStore
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.owners import accesses_of, disjoint_in_blocks, thread_indices
from tegula.passes.gradient.partials import (
    can_be_partial,
    finish_kernel,
    first_column,
    kernel_name,
    split_blocks,
    summing_step,
    tile_of,
)
from tegula.passes.gradient.retile import retile
from tegula.passes.gradient.steps import (
    AdjointStep,
    Chunk,
    DividedExtent,
    Extent,
    GridDim,
    MergedTiles,
    Partials,
    ScaledExtent,
    known_to_host,
)
from tegula.passes.gradient.sums import SumBuilder, accumulator_type
from tegula.passes.gradient.transposed_matmuls import transpose_operands
from tegula.passes.gradient.widen import widen
from tegula.passes.window import are_disjoint, never_revisits, window
from tegula.types import ArrayType, TileType, int32, scalar_of

MAX_DIMS = 3
"""Maximum number of dimensions of a grid."""


class _NoOwner(Exception):
    """No grid owns the tiles of an atomic; the message is the reason."""


def owner_kernels(
    adjoint: Kernel, gradients: Sequence[Value], arrays: Sequence[Value], ordered: bool
) -> list[AdjointStep]:
    """The steps that replace an adjoint kernel, which is modified: one for each atomic on the given gradient arrays
    whose tiles have owners in some grid, then the steps of the remaining kernel. `arrays`: the gradients that share no
    bytes with another array. `ordered`: whether sums to which all blocks add are split into partial sums regardless of
    register usage."""
    steps: list[AdjointStep] = []
    if adjoint.launch.last_is_block and not adjoint.launch.partial:
        for array in arrays:
            steps += _steps_of_array(adjoint, array)
    erase_dead(adjoint, objects=True)
    verify(adjoint)
    if steps and len(adjoint.body.ops) == 1:
        return steps
    transpose_operands(adjoint)
    positions = [adjoint.params.index(a) for a in gradients]
    rest, *sums = split_blocks(adjoint, arrays, ordered) or [AdjointStep(adjoint, tuple(adjoint.params))]
    return [*steps, *widen(rest, positions), *sums]


def _steps_of_array(adjoint: Kernel, array: Value) -> list[AdjointStep]:
    accesses = accesses_of(adjoint, array)
    atomics = [op for op in accesses if isinstance(op, TileAtomic) and op.op == "add"]
    if len(atomics) < len(accesses):
        return []
    steps: list[AdjointStep] = []
    for atomic in atomics:
        try:
            steps.append(_Owner(adjoint, atomic).step())
        except _NoOwner:
            continue
        assert atomic.parent is not None
        atomic.parent.ops.remove(atomic)
    return steps


class _Owner:
    """Builds the kernel that owns the tiles of one atomic."""

    def __init__(self, adjoint: Kernel, atomic: TileAtomic) -> None:
        self.adjoint = adjoint
        self.atomic = atomic
        self.array, self.tile, *self.at = atomic.operands
        self.loops = [op for op in _enclosing_ops(atomic) if isinstance(op, For)]
        self.numbers = thread_indices(adjoint)
        self.ranges = IntegerRanges(adjoint.launch)
        self.order = {op: k for k, op in enumerate(adjoint.walk())}
        self.blocks = adjoint.launch.ndim - 1
        self.components: list[int] = []
        """The components of the block index that determine the tile's offset."""
        self.grid_loops: list[For] = []
        """The loops around the atomic whose indices determine the tile's offset."""
        self.grid: list[Extent] = []
        self.owners: list[int | For] = []
        """For each dimension of the grid, the component or the loop of `grid_loops` that it represents."""
        self.reversed_indices: dict[For, list[Value]] = {}
        """For each loop of `grid_loops`, the values that count its iterations from the last to the first: stop - 1 -
        index."""

    def step(self) -> AdjointStep:
        """The step that owns the tiles; raises _NoOwner if there is none."""
        self._find_owner()
        needed = self._backward_slice()
        for loop, reversed_indices in self.reversed_indices.items():
            if any(
                loop.index in _free_values(op) and not set(op.results) & set(reversed_indices)
                for op in needed
            ):
                reversed_indices.clear()  # The index itself is used as well.
        step_of_owners = AdjointStep(*self._build_kernel(needed, False))
        enlarged = retile(step_of_owners.kernel)
        if enlarged is not None:
            grid = list(self.grid)
            grid[enlarged.dim] = DividedExtent(self.grid[enlarged.dim], enlarged.factor)
            length = ArrayShape(
                [step_of_owners.known[enlarged.parameter]], [int32], {"dim": enlarged.along}
            ).result
            merged = MergedTiles(
                AdjointStep(enlarged.kernel, step_of_owners.known, tuple(grid), step_of_owners.counts),
                ScaledExtent(enlarged.length, self.grid[enlarged.dim]),
                length,
                enlarged.for_gpu,
            )
            step_of_owners = replace(step_of_owners, wide=merged)
        summed = [k for k in range(self.blocks) if k not in self.components]
        if not summed or len(self.grid) == MAX_DIMS or not can_be_partial(self.atomic):
            return step_of_owners
        chunks = Chunk((GridDim(summed[0]),), tuple(self.grid), "chunks")
        enlarged = scalar_of(accumulator_type(tile_of(self.atomic).dtype))
        tiles = Chunk(tuple(self.grid), (), "total")
        partials = Partials(enlarged, (chunks, ScaledExtent(tile_of(self.atomic).size, tiles)))
        first = AdjointStep(*self._build_kernel(needed, True), (partials,))
        owners = [
            (self._index_values(owner), extent) for owner, extent in zip(self.owners, self.grid, strict=True)
        ]
        last = summing_step(self.adjoint, [self.atomic], chunks, [partials], owners)
        return replace(step_of_owners, shared=(first, last))

    def _index_values(self, owner: int | For) -> list[Value]:
        """The values of the adjoint kernel that become the block index of a grid dimension."""
        if isinstance(owner, int):
            return [v for v, k in self.numbers.items() if k == owner]
        return self.reversed_indices[owner] or [owner.index]

    # Owners of tiles -------------------------------------------------------------------------------------------------

    def _find_owner(self) -> None:
        window_of_atomic = window(self.atomic)
        if window_of_atomic is None or not all(isinstance(op, For) for op in _enclosing_ops(self.atomic)):
            raise _NoOwner("additions to the gradient are conditional, or at an offset that is not known")
        indices = {loop.index: loop for loop in self.loops}
        for span in window_of_atomic:
            for value, _ in span.terms:
                if value in self.numbers and self.numbers[value] < self.blocks:
                    number = self.numbers[value]
                    if number not in self.components:
                        self.components.append(number)
                        self.owners.append(number)
                        self.grid.append(GridDim(number))
                elif value in indices:
                    self._add_grid_loop(indices[value])
                elif not known_to_host(value):
                    raise _NoOwner(
                        "offsets of the gradient's tiles are not multiples of block and loop indices"
                    )
        if not 1 <= len(self.grid) <= MAX_DIMS:
            raise _NoOwner("all blocks add to the same tiles")

    def _add_grid_loop(self, loop: For) -> None:
        if loop in self.grid_loops:
            return
        start, stop, step = loop.bounds
        if (
            constant_number(start) != 0
            or constant_number(step) != 1
            or not known_to_host(stop)
            or stop.type != int32
        ):
            raise _NoOwner("the trip count of a loop is not known before the launch")
        self.grid_loops.append(loop)
        self.owners.append(loop)
        self.grid.append(stop)
        self.reversed_indices[loop] = [
            op.result
            for op in loop.body.walk()
            if isinstance(op, S.Sub)
            and op.b is loop.index
            and isinstance(op.a.owner, S.Sub)
            and op.a.owner.a is stop
            and constant_number(op.a.owner.b) == 1
        ]

    # Dependences -----------------------------------------------------------------------------------------------------

    def _backward_slice(self) -> list[Op]:
        """The ops that the tile and its offset depend on, in program order, without the loops around the atomic."""
        ops: set[Op] = set()
        seen: set[Value] = set()
        carried = {v for loop in self.loops for v in loop.arguments}
        pending = [self.tile, *self.at, *(v for a in _views(self.array) for v in a.bounds)]
        pending += [v for loop in self.loops if loop not in self.grid_loops for v in loop.bounds]
        ops.update(_views(self.array))
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            owner = value.owner
            if value in carried:
                raise _NoOwner("iterations of a loop depend on each other")
            if isinstance(owner, Op) and owner not in ops and value not in self.numbers:
                ops.add(owner)
                pending += _free_values(owner)
        for op in ops:
            if _is_expensive(op) and any(loop not in set(_enclosing_ops(op)) for loop in self.grid_loops):
                raise _NoOwner(
                    "the added value, which takes a long computation, would be recomputed for each tile"
                )
            for inner in op.walk():
                self._check_reads(inner)
        return sorted(ops, key=self.order.__getitem__)

    def _check_reads(self, op: Op) -> None:
        """Raise _NoOwner unless the op reads the same values in the new kernel, which runs before all writes of the old
        kernel."""
        for effect in op.effects():
            if effect.kind != "read" or effect.value is None:
                raise _NoOwner("the kernel overwrites an array from which the added value is computed")
            array = memory_root(effect.value)
            if array not in self.adjoint.params:
                raise _NoOwner("the kernel overwrites an array from which the added value is computed")
            access = self.adjoint.access[self.adjoint.params.index(array)]
            shared = [self.adjoint.params[k] for k in (access.aliases if access else ())]
            writers = {a: list(self._writers(a)) for a in (array, *shared)}
            if any(writers[a] for a in shared):
                raise _NoOwner("the kernel overwrites an array from which the added value is computed")
            if writers[array]:
                self._check_cleared(op, array, writers[array])

    def _writers(self, array: Value) -> Iterator[Op]:
        for op in accesses_of(self.adjoint, array):
            if any(e.kind != "read" for e in op.effects()):
                yield op

    def _check_cleared(self, load: Op, array: Value, writers: Sequence[Op]) -> None:
        """Raise _NoOwner unless the writers only clear consumed gradients: each element is read and then cleared by one
        block."""
        accesses = accesses_of(self.adjoint, array)
        if not disjoint_in_blocks(self.adjoint, accesses):
            raise _NoOwner("the kernel overwrites an array from which the added value is computed")
        cleared = window(load)
        for store in writers:
            written = window(store)
            if cleared is None or written is None:
                raise _NoOwner("the kernel overwrites an array from which the added value is computed")
            common = [op for op in _enclosing_ops(load) if op in set(_enclosing_ops(store))]
            after = self.order[store] > self.order[load]
            if after and (not common or never_revisits(load, store, cleared, written, self.ranges)):
                continue
            if not are_disjoint(load, store, cleared, written):
                raise _NoOwner("the kernel overwrites an array from which the added value is computed")

    # The kernel ------------------------------------------------------------------------------------------------------

    def _build_kernel(
        self, needed: Sequence[Op], chunk: bool
    ) -> tuple[Kernel, tuple[Value, ...], tuple[Extent, ...], tuple[Extent, ...]]:
        """The kernel with the `known`, `grid` and `counts` of its step. `chunk`: whether each block sums a chunk of the
        first component of the block index that is not in the grid (the grid's last dimension) and writes to an array of
        partial sums."""
        inner = [loop for loop in self.loops if loop not in self.grid_loops]
        summed = [k for k in range(self.blocks) if k not in self.components]
        params, tile = self.adjoint.params, tile_of(self.atomic)
        grid, counts = tuple(self.grid), tuple[Extent, ...](GridDim(k) for k in summed)
        names = [f"blocks_{k}" for k in summed]
        arrays: list[ArrayType] = []
        if chunk:
            length, chunks = (Chunk(counts[:1], grid, label) for label in ("length", "chunks"))
            counts, grid = (*counts, length, *grid[1:]), (*grid, chunks)
            names += ["chunk", *(f"extent_{k}" for k in range(len(grid) - 2)), "partials"]
            arrays.append(ArrayType(scalar_of(accumulator_type(tile.dtype)), 2))
        body = Region()
        mapping = {p: body.add_argument(p.type) for p in params}
        numbers = [body.add_argument(int32) for _ in counts]
        rows = [body.add_argument(t) for t in arrays]
        builder = SumBuilder(body, self.atomic.loc)
        *block_indices, lane = builder.emit(Tid, [], {"count": len(grid) + 1})
        index_of_component = {self.blocks: lane}
        for index, owner in zip(block_indices, self.owners, strict=False):
            if isinstance(owner, int):
                index_of_component[owner] = index
            else:
                mapping.update(dict.fromkeys(self._index_values(owner), index))
        # Levels: 0 is the body, then a loop for each summed component, then the loops around the atomic.
        regions, bounds = [body], list[list[Value]]()
        for component, count in zip(summed, numbers, strict=False):
            regions.append(Region())
            index_of_component[component] = regions[-1].add_argument(int32)
            bounds.append([builder.const(0, int32), count, builder.const(1, int32)])
        if chunk:
            start = builder.one(S.Mul, [block_indices[-1], numbers[len(summed)]])
            end = builder.one(S.Min, [builder.one(S.Add, [start, numbers[len(summed)]]), numbers[0]])
            bounds[0][:2] = [start, end]
        for loop in inner:
            regions.append(Region())
            mapping[loop.index] = regions[-1].add_argument(loop.index.type)
        mapping |= {v: index_of_component[k] for v, k in self.numbers.items() if k in index_of_component}
        builder.levels = {v: k for k, r in enumerate(regions) for v in r.args}
        builder.levels |= {v: 0 for v in (*block_indices, lane)}
        levels = {loop: len(summed) + 1 + k for k, loop in enumerate(inner)}
        used_values = {v for values in self.reversed_indices.values() for v in values}
        for op in needed:
            if not any(r in used_values for r in op.results):
                self._place_clone(builder, op, regions, mapping, levels)
        if any(builder.levels[mapping[v]] for v in (self.array, *self.at)):
            raise _NoOwner("offsets of the gradient's tiles are not multiples of block and loop indices")
        bounds += [[mapping[v] for v in loop.bounds] for loop in inner]
        total = self._build_sum(builder, regions, bounds, mapping[self.tile])
        if chunk:
            offset = [
                block_indices[-1],
                first_column(builder, block_indices[:-1], numbers[len(summed) + 1 :], tile.size),
            ]
            row = builder.reshaped(total, (1, tile.size))
            builder.emit(TileStore, [*rows, row, *offset], {"bounds_check": False, "aligned": False})
        else:
            offset = [mapping[v] for v in self.at]
            builder.add_to(mapping[self.array], total, offset, self.atomic.bounds_check)
        builder.emit(Yield, [])
        name = kernel_name(self.adjoint, self.atomic) + "_in_chunks" * chunk
        kernel = finish_kernel(self.adjoint, name, [*self.adjoint.param_names, *names], body, len(grid))
        root = mapping[memory_root(self.array)]
        if not chunk and not disjoint_in_blocks(kernel, accesses_of(kernel, root)):
            raise _NoOwner("the tiles of the gradient overlap")
        return kernel, tuple(params), grid, counts

    def _place_clone(
        self,
        builder: SumBuilder,
        op: Op,
        regions: Sequence[Region],
        mapping: dict[Value, Value],
        levels: dict[For, int],
    ) -> None:
        """Append a clone of an op to the outermost loop in which all its operands are available."""
        level = max((builder.levels[mapping[v]] for v in _free_values(op)), default=0)
        if any(isinstance(o, TileAccess) and not o.bounds_check for o in op.walk()):
            enclosing = set(_enclosing_ops(op))
            level = max([level, *(k for loop, k in levels.items() if loop in enclosing)])
        copy = clone_op(op, mapping)
        regions[level].append(copy)
        builder.levels |= {v: level for v in copy.results}

    def _build_sum(
        self,
        builder: SumBuilder,
        regions: Sequence[Region],
        bounds: Sequence[Sequence[Value]],
        value: Value,
    ) -> Value:
        """Build the loops with these bounds, and the sum of a tile over all of them."""
        tile = tile_of(self.atomic)
        wide = TileType(accumulator_type(tile.dtype), tile.shape)
        builder.region = regions[0]
        carried = [builder.zero(wide), *(r.add_argument(wide) for r in regions[1:])]
        builder.region = regions[-1]
        total = builder.accumulated(carried[-1], value)
        for level in range(len(regions) - 1, 0, -1):
            builder.emit(Yield, [total])
            builder.region = regions[level - 1]
            operands = [*bounds[level - 1], carried[level - 1]]
            (total,) = builder.emit(For, operands, None, [regions[level]])
        return total


def _is_expensive(op: Op) -> bool:
    """Whether an op does more than a few operations for each element."""
    return any(isinstance(o, LoopLike | TileMatmul) for o in op.walk())


def _enclosing_ops(op: Op) -> Iterator[Op]:
    """The ops that enclose an op, outermost first."""
    outer: list[Op] = []
    ancestor = op.parent.parent if op.parent is not None else None
    while ancestor is not None:
        outer.append(ancestor)
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    yield from reversed(outer)


def _views(array: Value) -> Iterator[ArrayView]:
    while isinstance(array.owner, ArrayView):
        yield array.owner
        array = array.owner.array


def _free_values(op: Op) -> list[Value]:
    """The values from outside that an op or its nested ops use."""
    defined = {r for o in op.walk() for r in o.results} | {
        a for o in op.walk() for r in o.regions for a in r.args
    }
    return [v for o in op.walk() for v in o.operands if v not in defined]
