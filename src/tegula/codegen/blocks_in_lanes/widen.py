"""The rewriting of a kernel's body for several blocks per iteration.

A block-varying value becomes a tile with an additional last dimension, the block dimension; a scalar becomes a tile of
one dimension. The ops on these tiles are the same and in the same order, so that the results of a block are bitwise
equal to the results of a single block. Uniform loops and branches are unchanged. A divergent loop runs until it ends in
all blocks, and blocks that have left the loop keep their values. Ops without a vector form, such as accesses to arrays,
run in a loop over the blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from tegula.codegen.blocks_in_lanes.differences import (
    LANE_OPS,
    Differences,
    NotVectorisable,
    check_differences,
    check_ops,
)
from tegula.codegen.blocks_in_lanes.vectorised import VectorisedKernel
from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Builder, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, clone_region, erase_dead
from tegula.ir.verify import verify
from tegula.ops.array import ArrayStore
from tegula.ops.blocks_in_lanes import TileAddress, TileLoadInLanes, TileStoreInLanes
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufSet, BufView, BufWrite
from tegula.ops.concat import TileConcat
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.lane import BlockIndex, LaneUniform, LogicalBlocks, Tid
from tegula.ops.linear import TileMatmul, TileMatmulInLanes
from tegula.ops.scalar import Add, And, Const, Min, Not, Or, Select, Sub
from tegula.ops.tile import (
    TileBroadcast,
    TileEmpty,
    TileExtract,
    TileFull,
    TileGather,
    TileLoad,
    TileMap,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
)
from tegula.passes.uniformity import Uniformity
from tegula.types import BufType, TileType, Type, bool_, components, int32, int64, is_element, scalar_of

with deferred_imports():
    from tegula.codegen.blocks_in_lanes.costs import costs_of, fits_cache
    from tegula.codegen.blocks_in_lanes.reductions import reduce

RARE_ACCESSES = 0.05
"""The fraction of the estimated time below which short code for accesses to arrays is preferred to fast code."""


def blocks_in_lanes(
    kernel: Kernel, known: Uniformity, vector_bytes: int, blocks: int | None = None
) -> VectorisedKernel:
    """Vectorise a kernel over blocks, after all CPU passes. `blocks`: the number of blocks for each pair of
    threads of a launch, None for many; if these are fewer than the lanes, blocks run serially."""
    try:
        check_ops(kernel, known)
        differences = Differences(kernel)
        check_differences(kernel.body, differences)
        lanes = vector_bytes // _hot_bytes(kernel)
        costs = costs_of(kernel.body, differences, lanes, vector_bytes)
        if not (fits_cache(kernel, differences, lanes) and costs.is_faster):
            return VectorisedKernel(reason="a loop over single blocks is faster")
        if blocks is not None and blocks < lanes:
            return VectorisedKernel(reason="the launch has too few blocks", max_lanes=lanes)
        widening = Widening(kernel, differences, lanes, vector_bytes)
        kernel_in_lanes = widening.kernel()
    except NotVectorisable as refused:
        return VectorisedKernel(reason=str(refused))
    erase_dead(kernel_in_lanes)
    verify(kernel_in_lanes)
    return VectorisedKernel(
        lanes,
        kernel_in_lanes,
        max_lanes=lanes,
        is_access_rare=costs.access_fraction < RARE_ACCESSES,
        edge_accesses=frozenset(widening.edge_accesses),
    )


def _hot_bytes(kernel: Kernel) -> int:
    """The predominant size of floats in bytes."""
    types = [
        scalar_of(v.type.dtype) for op in kernel.walk() for v in op.results if isinstance(v.type, TileType)
    ]
    floats = [t for t in types if t.is_float]
    return 8 if sum(t.bits == 64 for t in floats) * 2 > len(floats) else 4


class Widening:
    """The rewriting of one kernel. `widened`: for each block-varying value the tile, for each uniform value the copy.
    `index_tiles`: the tiles of address values, which are built at the first use. `recomputed`: for tiles that are
    recomputed at each use, the function that builds the tile. `mask`: the blocks that execute the current code; None
    for all. `edge_accesses`: see `VectorisedKernel`."""

    def __init__(self, kernel: Kernel, differences: Differences, lanes: int, vector_bytes: int) -> None:
        self.source = kernel
        self.differences = differences
        self.lanes = lanes
        self.vector_bytes = vector_bytes
        self.widened: dict[Value, Value] = {}
        self.index_tiles: dict[Value, Value] = {}
        self.recomputed: dict[Value, Callable[[], Value]] = {}
        self.mask: Value | None = None
        self.edge_accesses: set[Op] = set()
        self.b = Builder(Region([v.type for v in kernel.params]), kernel.loc)

    def kernel(self) -> Kernel:
        """The kernel for several blocks."""
        source, body = self.source, self.b.region
        self.widened.update(zip(source.params, body.args, strict=True))
        blocks = self.b.insert(LogicalBlocks([], [int64] * 3))
        self.first = blocks.first
        # Lanes beyond the last block compute the last block again.
        self.last = self.put(Sub, [blocks.end, self.put(Const, [], value=1, type=int64)])
        self.region(source.body)
        self.b.insert(Yield([], []))
        return Kernel(source.name, source.param_names, body, source.launch, source.access, source.loc)

    # Values ----------------------------------------------------------------------------------------------------------

    def put(
        self, kind: type[Op], operands: Sequence[Value], regions: Sequence[Region] = (), **attrs: Any
    ) -> Value:
        """Append an op with inferred types. Returns the result."""
        return self.b.insert(kind.typed(operands, attrs, regions, self.b.loc)).result

    def number(self, n: int) -> Value:
        """An int32 constant."""
        return self.put(Const, [], value=n, type=int32)

    def type(self, t: Type) -> TileType:
        """The type of an element or tile with the block dimension added."""
        if isinstance(t, (TileType, BufType)):
            return TileType(t.dtype, (*t.shape, self.lanes))
        assert is_element(t)
        return TileType(t, (self.lanes,))

    def widened_value(self, value: Value) -> Value:
        """The tile of a block-varying value, or the broadcast of a uniform value."""
        if value in self.differences.varying_indices:
            if value not in self.index_tiles:
                self.index_tiles[value] = self._block_by_block(
                    [value.type], lambda lane: [lane.lane_value(value)]
                )[0]
            return self.index_tiles[value]
        if value in self.recomputed:
            return self.recomputed[value]()
        if self.differences.differs(value):
            return self.widened[value]
        if is_element(value.type):
            return self.put(TileFull, [self.widened[value]], shape=(self.lanes,))
        return self.broadcast_uniform(value)

    def broadcast_uniform(self, tile: Value, shape: Sequence[int] = ()) -> Value:
        """A uniform tile, broadcast to a shape with the block dimension. Short element-wise arithmetic, such as a
        comparison of column indices, is recomputed at each use."""
        op, shape = tile.owner, shape or _tile(tile).shape
        if isinstance(op, TileBroadcast):
            return self.broadcast_uniform(op.tile, shape)
        if isinstance(op, TileFull):
            return self.put(TileFull, [self.widened[op.value]], shape=(*shape, self.lanes))
        if isinstance(op, TileMap) and _is_short(op):
            inputs = [
                self.broadcast_uniform(v, shape) if isinstance(v.type, TileType) else self.widened[v]
                for v in op.inputs
            ]
            return self.put(TileMap, inputs, [clone_region(op.function, {})])
        expanded = self.put(TileReshape, [self.widened[tile]], shape=(*_tile(tile).shape, 1))
        return self.put(TileBroadcast, [expanded], shape=(*shape, self.lanes))

    def broadcast_per_block(self, numbers: Value, shape: Sequence[int]) -> Value:
        """A value per block, broadcast to a shape."""
        row = self.put(TileReshape, [numbers], shape=(*[1] * len(shape), self.lanes))
        return self.put(TileBroadcast, [row], shape=(*shape, self.lanes))

    def map(
        self, build: Callable[[Callable[..., Value], list[Value]], Value], inputs: Sequence[Value]
    ) -> Value:
        """A map of tiles of one shape and of scalars. `build`: returns the result's element for the inputs' elements,
        built by a function that appends an op."""
        body = Region([v.type.dtype if isinstance(v.type, TileType) else v.type for v in inputs])
        inner = Builder(body, self.b.loc)

        def put(kind: type[Op], operands: Sequence[Value], **attrs: Any) -> Value:
            return inner.insert(kind.typed(operands, attrs, (), self.b.loc)).result

        inner.insert(Yield([build(put, body.args)], []))
        return self.put(TileMap, inputs, [body])

    def map_op(self, op: Op, *inputs: Value) -> Value:
        """A map by a scalar op."""
        return self.map(lambda put, xs: put(type(op), xs, **op.attrs), inputs)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """A select by a condition per block."""
        shape = _tile(a).shape[:-1]
        spread = self.broadcast_per_block(condition, shape) if shape else condition
        return self.map(lambda put, xs: put(Select, xs), [spread, a, b])

    def any(self, conditions: Value) -> Value:
        """Whether a condition holds in any block."""
        body = Region([bool_, bool_])
        inner = Builder(body, self.b.loc)
        inner.insert(Yield([inner.insert(Or.typed(body.args)).result], []))
        result = self.put(TileReduce, [conditions], [body], axis=None, keepdims=False)
        return self.put(TileExtract, [result, self.number(0)])

    def part(
        self,
        tile: Value,
        starts: Sequence[Value],
        shape: Sequence[int],
        dims: Sequence[int],
        steps: Sequence[int],
    ) -> Value:
        """A slice of a tile with the block dimension."""
        rank = len(_tile(tile).shape) - 1
        return self.put(
            TileSlice,
            [tile, *starts, self.number(0)],
            shape=(*shape, self.lanes),
            dims=(*dims, rank),
            steps=(*steps, 1),
        )

    # Ops -------------------------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Append the ops of a region without its terminator."""
        for op in region.ops:
            if not isinstance(op, Yield):
                self.b.loc = op.loc
                self.op(op)

    def _differs(self, op: Op) -> bool:
        """Whether an op is block-varying. Writes to arrays are always block-varying, because each block writes."""
        values = (*op.operands, *op.results)
        return isinstance(op, (ArrayStore, TileStore)) or any(map(self.differences.differs, values))

    def op(self, op: Op) -> None:
        """Append the vector form of an op."""
        if isinstance(op, For):
            self._for(op)
        elif isinstance(op, While):
            self._while(op)
        elif isinstance(op, If):
            self._if(op)
        elif not self._differs(op):
            self.b.insert(clone_op(op, self.widened))
        elif isinstance(op, Tid):
            self._bind(op.results, self.b.insert(clone_op(op, {})).results)
        elif not op.results or not all(v in self.differences.varying_indices for v in op.results):
            rule = _RULES.get(type(op)) or (_scalar if isinstance(op, LANE_OPS) else None)
            values = rule(self, op) if rule is not None else None
            if values is None:
                values = self.run_serially(op)
            for old, new in zip(op.results, values, strict=True):
                new.name = old.name
                self.widened[old] = new

    # One block at a time ---------------------------------------------------------------------------------------------

    def run_serially(self, op: Op) -> list[Value]:
        """The results of an op that runs serially, block by block."""
        return self._block_by_block([v.type for v in op.results], lambda lane: lane.recompute(op))

    def _block_by_block(
        self, types: Sequence[Type], of_block: Callable[[Lane], Sequence[Value]]
    ) -> list[Value]:
        """Tiles of the values that `of_block` returns for each block, in a loop over the blocks."""
        buffers = [self.buffer(self.put(TileEmpty, [], type=self.type(t))) for t in types]

        def body(lane: Lane) -> None:
            for home, value in zip(buffers, of_block(lane), strict=True):
                lane.keep(home, value)

        self.for_each(body)
        return [self.put(BufRead, [home]) for home in buffers]

    def for_each(self, body: Callable[[Lane], object]) -> None:
        """A loop over the blocks."""
        bounds = [self.number(n) for n in (0, self.lanes, 1)]
        with self.region_under_construction([int32]) as region:
            (number,) = region.args
            body(Lane(self, number))
            self.b.insert(Yield([], []))
        self.b.insert(For(bounds, [], None, [region], self.b.loc))

    def buffer(self, tile: Value) -> Value:
        """A buffer that holds a tile."""
        return self.put(BufNew, [tile], storage="register")

    # Control flow ----------------------------------------------------------------------------------------------------

    @contextmanager
    def region_under_construction(self, types: Sequence[Type]) -> Generator[Region]:
        """A region under construction. Address tiles that are built inside the region are not visible after the
        region."""
        region, spread = Region(types), dict(self.index_tiles)
        outer, self.b.region = self.b.region, region
        yield region
        self.b.region, self.index_tiles = outer, spread

    @contextmanager
    def masked(self, mask: Value | None) -> Generator[None]:
        """A context for code that only the active blocks in `mask` execute; None for all active blocks."""
        outer = self.mask
        if mask is not None:
            self.mask = mask if outer is None else self.map_op(And([], []), outer, mask)
        yield
        self.mask = outer

    def write(self, buffer: Value, tile: Value, attrs: Mapping[str, Any] | None = None) -> None:
        """Write a tile of all blocks to a buffer; blocks that do not execute the current code keep their elements."""
        if self.mask is not None:
            tile = self.select(self.mask, tile, self.put(BufRead, [buffer]))
        self.b.insert(BufWrite([buffer, tile], [], attrs))

    def carried(self, value: Value, differs: bool) -> Value:
        """The carried form of a value: the tile, or the copy of a uniform value."""
        return self.widened_value(value) if differs else self.widened[value]

    def _types(self, values: Sequence[Value]) -> list[Type]:
        return [self.type(v.type) if self.differences.differs(v) else v.type for v in values]

    def _bind(self, values: Sequence[Value], results: Sequence[Value]) -> None:
        for old, new in zip(values, results, strict=True):
            new.name = old.name
            self.widened[old] = new

    def _for(self, op: For) -> None:
        varying = [self.differences.differs(v) for v in op.results]
        bounds = [self.widened[v] for v in op.bounds]
        initial = [self.carried(v, d) for v, d in zip(op.initial, varying, strict=True)]
        with self.region_under_construction([op.index.type, *self._types(op.results)]) as body:
            self._bind(op.body.args, body.args)
            self.region(op.body)
            self.b.insert(
                Yield([self.carried(v, d) for v, d in zip(op.body.yielded, varying, strict=True)], [])
            )
        loop = self.b.insert(For([*bounds, *initial], self._types(op.results), op.attrs, [body], op.loc))
        self._bind(op.results, loop.results)

    def _while(self, op: While) -> None:
        varying = [self.differences.differs(v) for v in op.results]
        divergent = self.differences.divergent(op)
        initial = [self.carried(v, d) for v, d in zip(op.initial, varying, strict=True)]
        types = self._types(op.results)
        with self.region_under_construction(types) as condition:
            active = self._loop_condition(op, condition)
            self.b.insert(Yield([self.any(active) if divergent else active], []))
        with self.region_under_construction(types) as body:
            active = self._loop_condition(op, body) if divergent else None
            self._bind(op.body.args, body.args)
            with self.masked(active):
                self.region(op.body)
            after = [self.carried(v, d) for v, d in zip(op.body.yielded, varying, strict=True)]
            if active is not None:
                after = [self.select(active, a, b) for a, b in zip(after, body.args, strict=True)]
            self.b.insert(Yield(after, []))
        loop = self.b.insert(While(initial, types, op.attrs, [condition, body], op.loc))
        self._bind(op.results, loop.results)

    def _loop_condition(self, op: While, region: Region) -> Value:
        """The condition of a loop, computed from the arguments of a region."""
        self._bind(op.condition.args, region.args)
        self.region(op.condition)
        (condition,) = op.condition.yielded
        return self.carried(condition, self.differences.divergent(op))

    def _if(self, op: If) -> None:
        if self.differences.divergent(op):
            condition, spread = self.widened_value(op.condition), self.index_tiles
            yielded_values: list[list[Value]] = []
            for region, mask in zip(
                op.regions, (condition, self.map_op(Not([], []), condition)), strict=True
            ):
                with self.masked(mask):
                    self.region(region)
                yielded_values.append([self.widened_value(v) for v in region.yielded])
            self.index_tiles = spread
            self._bind(
                op.results, [self.select(condition, a, b) for a, b in zip(*yielded_values, strict=True)]
            )
            return
        regions: list[Region] = []
        for region in op.regions:
            with self.region_under_construction([]) as results:
                self.region(region)
                pairs = zip(region.yielded, op.results, strict=True)
                self.b.insert(Yield([self.carried(v, self.differences.differs(r)) for v, r in pairs], []))
            regions.append(results)
        branch = If([self.widened[op.condition]], self._types(op.results), op.attrs, regions, op.loc)
        self._bind(op.results, self.b.insert(branch).results)


class Lane:
    """The values of one block in a loop over the blocks. `lane`: the index of the block in the vector."""

    def __init__(self, to: Widening, lane: Value) -> None:
        self.to = to
        self.lane = lane
        self.known: dict[Value, Value] = {}

    def lane_value(self, value: Value) -> Value:
        """The value of the block."""
        to = self.to
        if not to.differences.differs(value):
            return to.widened[value]
        if value not in self.known:
            self.known[value] = (
                self._index(value) if value in to.differences.varying_indices else self._element(value)
            )
        return self.known[value]

    def _index(self, value: Value) -> Value:
        op = value.owner
        assert isinstance(op, Op)
        if isinstance(op, (Tid, BlockIndex)):
            number = self.to.put(Add, [self.to.first, self.to.put(Cast, [self.lane], to=int64)])
            number = self.to.put(Min, [number, self.to.last])
            if isinstance(op, BlockIndex):
                return self.to.put(Cast, [number], to=int32)
            index = self.to.b.insert(Tid.typed([number], op.attrs))
        else:
            index = self.to.b.insert(clone_op(op, {v: self.lane_value(v) for v in op.operands}))
        self.known.update(zip(op.results, index.results, strict=True))
        return self.known[value]

    def _element(self, value: Value) -> Value:
        """The block's slice of a tile."""
        if is_element(value.type):
            return self.to.put(TileExtract, [self.to.widened[value], self.lane])
        return self.slice(self.to.widened[value], value.type)

    def slice(self, tiles: Value, t: Type) -> Value:
        """The block's slice, of type t, of tiles or of a buffer whose last dimension is the block dimension."""
        kind = BufView if isinstance(tiles.type, BufType) else TileSlice
        return self.to.put(kind, [tiles, *self._starts(t)], **_of_block(t))

    def recompute(self, op: Op, operands: Mapping[Value, Value] | None = None) -> list[Value]:
        """The results of an op for the block. `operands`: operands that replace the block's values."""
        mapping = {v: self.lane_value(v) for v in op.operands if v not in (operands or {})}
        return self.to.b.insert(clone_op(op, {**mapping, **(operands or {})})).results

    def keep(self, buffer: Value, value: Value) -> None:
        """Write the block's value to a buffer of all blocks."""
        to = self.to
        if is_element(value.type):
            to.b.insert(BufSet([buffer, value, self.lane], []))
        else:
            to.b.insert(BufWrite([self.slice(buffer, value.type), value], []))

    def _starts(self, t: Type) -> list[Value]:
        assert isinstance(t, (TileType, BufType))
        return [*(self.to.number(0) for _ in t.shape), self.lane]


MAX_RECOMPUTED_OPS = 4
"""The maximum number of ops of a map that is recomputed at each use."""


def _is_short(op: TileMap) -> bool:
    return len(op.function.ops) <= MAX_RECOMPUTED_OPS + 1 and all(
        isinstance(x, (*LANE_OPS, Yield)) for x in op.function.ops
    )


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, (TileType, BufType))
    return value.type.shape


def _of_block(t: Type) -> Mapping[str, Any]:
    """The attributes of a view of a block's elements."""
    assert isinstance(t, (TileType, BufType))
    rank = len(t.shape)
    return {"shape": t.shape, "dims": tuple(range(rank)), "steps": (1,) * rank}


def _tile(value: Value) -> TileType:
    assert isinstance(value.type, TileType)
    return value.type


# Rules: the results of an op's vector form, or None for ops that run block by block ----------------------------------


Results = list[Value] | None


def _scalar(w: Widening, op: Op) -> Results:
    inputs = [w.widened_value(v) if w.differences.differs(v) else w.widened[v] for v in op.operands]
    return [w.map_op(op, *inputs)]


def _uniform(w: Widening, op: LaneUniform) -> Results:
    return [w.widened_value(op.value)]


def _full(w: Widening, op: TileFull) -> Results:
    number = w.widened_value(op.value)
    w.recomputed[op.result] = lambda: w.broadcast_per_block(number, op.shape)
    return [number]


def _map(w: Widening, op: TileMap) -> Results:
    shape = _tile(op.result).shape
    inputs: list[Value] = []
    for v in op.inputs:
        if isinstance(v.type, TileType):
            inputs.append(w.widened_value(v))
        else:
            inputs.append(
                w.broadcast_per_block(w.widened_value(v), shape) if w.differences.differs(v) else w.widened[v]
            )
    return [w.put(TileMap, inputs, [clone_region(op.function, {})])]


def _broadcast(w: Widening, op: TileBroadcast) -> Results:
    tile = w.widened_value(op.tile)
    w.recomputed[op.result] = lambda: w.put(TileBroadcast, [tile], shape=(*op.shape, w.lanes))
    return [tile]


def _reshape(w: Widening, op: TileReshape) -> Results:
    return [w.put(TileReshape, [w.widened_value(op.tile)], shape=(*op.shape, w.lanes))]


def _permute(w: Widening, op: TilePermute) -> Results:
    return [w.put(TilePermute, [w.widened_value(op.tile)], perm=(*op.perm, len(op.perm)))]


def _slice(w: Widening, op: TileSlice) -> Results:
    if any(map(w.differences.differs, op.starts)):
        return None
    return [w.part(w.widened_value(op.tile), [w.widened[v] for v in op.starts], op.shape, op.dims, op.steps)]


def _extract(w: Widening, op: TileExtract) -> Results:
    indices, rank = op.indices, len(_tile(op.tile).shape)
    if any(map(w.differences.differs, indices)) or len(indices) != rank:
        return None
    return [w.part(w.widened_value(op.tile), [w.widened[v] for v in indices], (), (), ())]


def _gather(w: Widening, op: TileGather) -> Results:
    if w.differences.differs(op.index):
        return None
    return [w.put(TileGather, [w.widened_value(op.tile), w.widened[op.index]], axis=op.axis)]


def _concat(w: Widening, op: TileConcat) -> Results:
    return [w.put(TileConcat, [w.widened_value(v) for v in op.tiles], axis=op.axis)]


def _matmul(w: Widening, op: TileMatmul) -> Results:
    """A chain of multiply-adds for each element in order of increasing k, as in the matmul of a single block."""
    a, b, c = _tile(op.a), _tile(op.b), _tile(op.c)
    scalar = scalar_of(c.dtype)
    is_unscaled = all(isinstance(v.owner, Const) and v.owner.value == 1 for v in (op.alpha, op.beta))
    if not is_unscaled or {a.dtype, b.dtype} != {c.dtype} or scalar.bits < 32:
        return None
    return [w.put(TileMatmulInLanes, [w.widened_value(v) for v in (op.a, op.b, op.c)])]


# Arrays --------------------------------------------------------------------------------------------------------------


MIN_TRANSPOSED_BYTES = 16
"""The minimum number of adjacent bytes of a tile that are transposed between an array and registers."""


def _load(w: Widening, op: TileLoad) -> Results:
    """Load the tiles of all blocks. If all tiles are in bounds with contiguous rows, the tiles are transposed in
    registers; otherwise they are loaded serially."""
    t = _tile(op.result)
    tile_addresses = _addresses(w, op, t)
    if tile_addresses is None:
        return None
    with w.region_under_construction([]) as in_bounds:
        loaded = w.put(
            TileLoadInLanes,
            [tile_addresses.addresses, *tile_addresses.strides],
            type=w.type(TileType(t.dtype, tile_addresses.shape)),
        )
        w.b.insert(Yield([w.put(TileReshape, [loaded], shape=(*t.shape, w.lanes))], []))
    with w.region_under_construction([]) as single:
        w.b.insert(Yield(w.run_serially(op), []))
    w.edge_accesses.update(x for x in single.walk() if isinstance(x, TileLoad))
    return w.b.insert(If([tile_addresses.adjacent], [w.type(t)], None, [in_bounds, single], op.loc)).results


def _store(w: Widening, op: TileStore) -> Results:
    """Store the tiles of all blocks, transposed in registers or serially, like `_load`."""
    tile_addresses, tile = _addresses(w, op, _tile(op.tile)), w.widened_value(op.tile)

    def store_serially() -> None:
        w.for_each(lambda lane: lane.recompute(op, {op.tile: lane.slice(tile, op.tile.type)}))

    if tile_addresses is None:
        store_serially()
        return []
    with w.region_under_construction([]) as in_bounds:
        tiles = w.put(TileReshape, [tile], shape=(*tile_addresses.shape, w.lanes))
        w.b.insert(TileStoreInLanes([tiles, tile_addresses.addresses, *tile_addresses.strides], []))
        w.b.insert(Yield([], []))
    with w.region_under_construction([]) as single:
        store_serially()
        w.b.insert(Yield([], []))
    w.edge_accesses.update(x for x in single.walk() if isinstance(x, TileStore))
    w.b.insert(If([tile_addresses.adjacent], [], None, [in_bounds, single], op.loc))
    return []


@dataclass(frozen=True, slots=True)
class Addresses:
    """The tiles of all blocks in arrays. `adjacent`: whether all tiles are in bounds and their rows are contiguous;
    `shape`: the shape of a tile, flattened to one dimension if short rows must be adjacent too; `strides`: the strides
    of all dimensions but the last, in bytes."""

    adjacent: Value
    addresses: Value
    shape: tuple[int, ...]
    strides: list[Value]


def _addresses(w: Widening, op: TileLoad | TileStore, t: TileType) -> Addresses | None:
    """The addresses of the tiles of an access; None for tiles that are not transposed in registers."""
    scalar, size = scalar_of(t.dtype), prod(t.shape)
    if components(t.dtype) != 1 or scalar.bits < 32 or size * scalar.bits < MIN_TRANSPOSED_BYTES * 8:
        return None
    has_short_rows = t.shape[-1] * scalar.bits < w.vector_bytes * 8
    shape = (size,) if has_short_rows else t.shape
    address_buffer = w.buffer(w.put(TileEmpty, [], type=TileType(int64, (w.lanes,))))
    types: list[Type] = [bool_, *[int64] * (len(shape) - 1)]
    zeros = [w.put(Const, [], value=0, type=int64) for _ in types[1:]]
    bounds = [w.number(n) for n in (0, w.lanes, 1)]
    with w.region_under_construction([int32, *types]) as region:
        number, all_adjacent, *_ = region.args
        lane = Lane(w, number)
        operands = [lane.lane_value(v) for v in (op.array, *op.offset)]
        attrs = {
            "shape": t.shape,
            "packed": has_short_rows,
            "bounds_check": op.bounds_check,
            "aligned": op.aligned,
        }
        adjacent, address, *strides = w.b.insert(TileAddress.typed(operands, attrs)).results
        w.b.insert(BufSet([address_buffer, address, number], []))
        w.b.insert(Yield([w.put(And, [all_adjacent, adjacent]), *strides[: len(zeros)]], []))
    initial = [w.put(Const, [], value=True, type=bool_), *zeros]
    adjacent, *strides = w.b.insert(For([*bounds, *initial], types, None, [region], op.loc)).results
    return Addresses(adjacent, w.put(BufRead, [address_buffer]), shape, strides)


# Buffers -------------------------------------------------------------------------------------------------------------


def _buf_new(w: Widening, op: BufNew) -> Results:
    return [w.put(BufNew, [w.widened_value(op.tile)], **op.attrs)]


def _buf_read(w: Widening, op: BufRead) -> Results:
    return [w.put(BufRead, [w.widened[op.buffer]])]


def _buf_write(w: Widening, op: BufWrite) -> Results:
    w.write(w.widened[op.buffer], w.widened_value(op.tile), op.attrs)
    return []


def _view(w: Widening, buffer: Value, starts: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
    assert isinstance(buffer.type, BufType)
    rank = len(buffer.type.shape) - 1
    return w.put(
        BufView,
        [buffer, *(w.widened[v] for v in starts), w.number(0)],
        shape=(*attrs["shape"], w.lanes),
        dims=(*attrs["dims"], rank),
        steps=(*attrs["steps"], 1),
    )


def _buf_view(w: Widening, op: BufView) -> Results:
    if any(map(w.differences.differs, op.starts)):
        raise NotVectorisable("a part of a tile is modified at an index that differs between blocks")
    return [_view(w, w.widened[op.buffer], op.starts, op.attrs)]


def _buf_reshape(w: Widening, op: BufReshape) -> Results:
    return [w.put(BufReshape, [w.widened[op.buffer]], shape=(*op.shape, w.lanes))]


def _element_view(w: Widening, op: BufGet | BufSet) -> Value | None:
    """A view of one element in all blocks; None for a block-varying index or for a component of an element."""
    rank = len(_shape(op.target))
    if any(map(w.differences.differs, op.indices)) or len(op.indices) != rank:
        return None
    return _view(w, w.widened[op.buffer], op.indices, {"shape": (), "dims": (), "steps": ()})


def _buf_get(w: Widening, op: BufGet) -> Results:
    view = _element_view(w, op)
    return None if view is None else [w.put(BufRead, [view])]


def _buf_set(w: Widening, op: BufSet) -> Results:
    view = _element_view(w, op)
    if view is None:
        return None
    w.write(view, w.widened_value(op.value))
    return []


_RULES: dict[type[Op], Callable[[Widening, Any], Results]] = {
    LaneUniform: _uniform,
    TileFull: _full,
    TileMap: _map,
    TileBroadcast: _broadcast,
    TileReshape: _reshape,
    TilePermute: _permute,
    TileSlice: _slice,
    TileExtract: _extract,
    TileGather: _gather,
    TileConcat: _concat,
    TileReduce: reduce,
    TileMatmul: _matmul,
    TileLoad: _load,
    TileStore: _store,
    BufNew: _buf_new,
    BufRead: _buf_read,
    BufWrite: _buf_write,
    BufView: _buf_view,
    BufReshape: _buf_reshape,
    BufGet: _buf_get,
    BufSet: _buf_set,
}
