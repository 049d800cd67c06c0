"""Enlarges the tiles of gradient matmuls: a block owns several neighbouring tiles of the gradient.

If the forward kernel computes C = A B in tiles of 128 x 256 with K steps of 64, a block that owns a tile of A's
gradient has 128 x 64 elements and K steps of 256, and thus a low arithmetic intensity. On GPUs one block may own
several such tiles and take shorter steps.

On CPUs a transposed operand is packed for each matmul. A block that owns several tiles packs the operand once."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import Divisible, Kernel, Op, Region, ReshapeLike, TileAccess, Value, constant_number
from tegula.ir.rewrite import clone_op, clone_region
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.base import Elementwise
from tegula.ops.control import For, Yield
from tegula.ops.lane import Tid
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileFull, TileLoad, TileMap, TileStore
from tegula.passes.accesses import linear
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.partials import finish_kernel
from tegula.passes.gradient.sums import SumBuilder
from tegula.types import TileType, element_bytes, int32, scalar_of

DEPTH = 64
"""The number of elements of a K step on GPUs."""
MAX_TILE = (128, 256)
"""The maximum number of rows and of columns of a tile on GPUs."""
MAX_BYTES, MAX_LENGTH = 65536, 256
"""The maximum bytes of a tile on CPUs, which should fit in the L2 cache, and the maximum length to which it grows."""
OFFSET_OPS = (S.Const, Elementwise, ArrayShape, ArrayView)
"""Ops that compute offsets of tiles."""


@dataclass(frozen=True, slots=True)
class WideKernel:
    """A kernel whose blocks own `factor` adjacent tiles of `length` elements along dimension `dim` of the grid and
    dimension `along` of the array at position `parameter`. `for_gpu`: whether the kernel is faster on GPUs, or else on
    CPUs."""

    kernel: Kernel
    for_gpu: bool
    dim: int
    factor: int
    length: int
    parameter: int
    along: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a matmul: its load, the conversions and the transpose that follow, and the dimension of the load
    along which the matmul sums."""

    load: TileLoad
    after: tuple[Divisible, ...]
    summed: int

    @property
    def transposed(self) -> bool:
        return any(isinstance(op, ReshapeLike) for op in self.after)

    @property
    def bits(self) -> int:
        """The width of an element of the matmul's operand, in bits."""
        return _bits((self.after[-1] if self.after else self.load).results[0])

    @property
    def shape(self) -> list[int]:
        return list(self.load.shape)

    @property
    def other_offset(self) -> Value:
        """The offset of the load along the dimension that is not summed."""
        return self.load.offset[1 - self.summed]


def retile(kernel: Kernel) -> WideKernel | None:
    """A kernel of gradient matmuls with larger tiles: for GPUs if operands have 16 bits, else for CPUs. None if the
    equivalence is not proved, or the kernel is not faster."""
    body = kernel.body
    loops = [op for op in body.ops if isinstance(op, For)]
    stores = [op for op in body.ops if isinstance(op, TileStore)]
    allowed = (*OFFSET_OPS, Tid, For, TileFull, TileLoad, TileMap, TileStore, Yield)
    if len(loops) != 1 or len(stores) != 1 or not all(isinstance(op, allowed) for op in body.ops):
        return None
    (loop,), (store,) = loops, stores
    inner = loop.body
    matmuls = [op for op in inner.ops if isinstance(op, TileMatmul)]
    allowed = (*OFFSET_OPS, Divisible, TileMatmul, Yield)
    if len(matmuls) != 1 or not all(isinstance(op, allowed) for op in inner.ops):
        return None
    (matmul,) = matmuls
    sides = _side(matmul.a, 1, loop), _side(matmul.b, 0, loop)
    at = store.offset
    if sides[0] is None or sides[1] is None or len(at) != 2 or not _is_plain_sum(loop, matmul, store):
        return None
    return _Retiling(kernel, loop, store, (sides[0], sides[1])).wide_kernel()


def _side(tile: Value, summed: int, loop: For) -> _Operand | None:
    load, after = tile.owner, list[Divisible]()
    while isinstance(load, Divisible) and not isinstance(load, TileAccess) and load.parent is loop.body:
        parts = load.divided(summed)
        if parts is None or len(parts) != 1 or not _keeps_lengths(load):
            return None
        after.insert(0, load)
        ((source, summed),) = parts
        load = source.owner
    if not isinstance(load, TileLoad) or load.parent is not loop.body or not load.bounds_check:
        return None
    shape = load.shape
    side = _Operand(load, tuple(after), summed)
    if len(shape) != 2 or constant_number(load.fill) != 0 or side.bits < 16:
        return None
    steps = linear(load.offset[side.summed]) == ({loop.index: shape[side.summed]}, 0)
    return side if steps and loop.index not in linear(side.other_offset)[0] else None


def _keeps_lengths(op: Divisible) -> bool:
    """Whether an op's only operand is a tile with the same lengths, in any order."""
    shapes = [v.type.shape for v in (*op.operands, op.result) if isinstance(v.type, TileType)]
    return len(op.operands) == 1 and len(shapes) == 2 and sorted(shapes[0]) == sorted(shapes[1])


def _bits(tile: Value) -> int:
    """The bits of a tile's elements if they are floats; else 0."""
    assert isinstance(tile.type, TileType)
    scalar = scalar_of(tile.type.dtype)
    return scalar.bits if scalar.is_float else 0


def _is_plain_sum(loop: For, matmul: TileMatmul, store: TileStore) -> bool:
    """Whether the loop starts from zeros and runs from 0 by 1, adding one unscaled matmul in each iteration, and the
    store is bounds-checked."""
    (total,), (before,), (initial,) = loop.body.yielded, loop.arguments, loop.initial
    start = initial.owner
    return (
        total is matmul.result
        and matmul.c is before
        and all(constant_number(v) == 1 for v in (matmul.alpha, matmul.beta, loop.step))
        and constant_number(loop.start) == 0
        and isinstance(start, TileFull)
        and constant_number(start.value) == 0
        and bool(store.bounds_check)
    )


class _Retiling:
    def __init__(self, kernel: Kernel, loop: For, store: TileStore, sides: tuple[_Operand, _Operand]) -> None:
        self.kernel = kernel
        self.loop = loop
        self.store = store
        self.sides = sides
        (tid,) = (op for op in kernel.body.ops if isinstance(op, Tid))
        self.tid = tid

    def wide_kernel(self) -> WideKernel | None:
        t = self.loop.results[0].type
        assert isinstance(t, TileType)
        bits = [side.bits for side in self.sides]
        if min(bits) < max(bits):
            return None
        grown_dim, factor, depth = self._for_gpu(t) if max(bits) == 16 else self._for_cpu(t)
        grid_dim = self._grid_dim(grown_dim, t.shape[grown_dim])
        own_depth = self.sides[0].shape[self.sides[0].summed]
        if factor == 1 or grid_dim is None or own_depth % depth:
            return None
        array, along = self._array(grown_dim)
        if array is None:
            return None
        for_gpu = max(bits) == 16
        kernel = self._build(grown_dim, factor, grid_dim, depth, own_depth // depth, for_gpu)
        position = self.kernel.params.index(array)
        return WideKernel(kernel, for_gpu, grid_dim, factor, t.shape[grown_dim], position, along)

    def _for_gpu(self, t: TileType) -> tuple[int, int, int]:
        """The dimension along which tiles grow, the factor by which their length grows, and the length of a K step."""
        limit = min(MAX_TILE[0] * MAX_TILE[1], max(s.shape[0] * s.shape[1] for s in self.sides))
        grown_dim = max((0, 1), key=lambda d: MAX_TILE[d] // t.shape[d])
        factor = 1
        while 2 * factor * t.shape[grown_dim] <= MAX_TILE[grown_dim] and 2 * factor * t.size <= limit:
            factor *= 2
        return grown_dim, factor, DEPTH

    def _for_cpu(self, t: TileType) -> tuple[int, int, int]:
        """The dimension, the factor and the length of a K step for CPUs: the packed (transposed) operand keeps its
        shape, and the tile of the other operand grows."""
        grown_dim, factor = (0 if self.sides[1].transposed else 1), 1
        if not (self.sides[0].transposed or self.sides[1].transposed):
            return grown_dim, 1, 1
        size = element_bytes(t.dtype) * t.size
        while 2 * factor * t.shape[grown_dim] <= MAX_LENGTH and 2 * factor * size <= MAX_BYTES:
            factor *= 2
        return grown_dim, factor, self.sides[0].shape[self.sides[0].summed]

    def _grid_dim(self, grown_dim: int, length: int) -> int | None:
        """The dimension of the grid that determines only the tile's offset along `grown_dim`; None if there is none."""
        side = self.sides[grown_dim]
        terms, first = linear(self.store.offset[grown_dim])
        if first or len(terms) != 1 or next(iter(terms.values())) != length:
            return None
        (position,) = terms
        if position not in self.tid.results[:-1] or linear(side.other_offset) != (terms, 0):
            return None
        other = self.sides[1 - grown_dim].load
        other_offset = [*other.offset, self.store.offset[1 - grown_dim]]
        other_offset += [v for op in self.kernel.walk() if isinstance(op, ArrayView) for v in op.bounds]
        if any(position in linear(v)[0] for v in other_offset):
            return None
        return self.tid.results.index(position)

    def _array(self, grown_dim: int) -> tuple[Value | None, int]:
        """The array parameter of the store, and its dimension that corresponds to `grown_dim`; None and 0 if the view
        is
        not a plain one."""
        array, along = self.store.array, grown_dim
        while isinstance(array.owner, ArrayView):
            dimensions = [d for d, entry in enumerate(array.owner.spec) if entry != "index"]
            if array.owner.spec[dimensions[along]] != ("slice", 1):
                return None, 0
            before = sum(1 if entry == "index" else 2 for entry in array.owner.spec[: dimensions[along]])
            if constant_number(array.owner.bounds[before]) != 0:
                return None, 0
            array, along = array.owner.array, dimensions[along]
        return (array if array in self.kernel.params else None), along

    def _build(
        self, grown_dim: int, factor: int, position: int, depth: int, splits: int, for_gpu: bool
    ) -> Kernel:
        old = self.kernel
        body = Region([p.type for p in old.params])
        mapping: dict[Value, Value] = dict(zip(old.params, body.args, strict=True))
        b = SumBuilder(body, self.loop.loc)
        own = b.emit(Tid, [], {"count": len(self.tid.results)})
        mapping.update(zip(self.tid.results, own, strict=True))
        mapping[self.tid.results[position]] = b.one(S.Mul, [own[position], b.const(factor, int32)])
        self._copy(b, old.body.ops, mapping)
        t = self.loop.results[0].type
        assert isinstance(t, TileType)
        shape = list(t.shape)
        shape[grown_dim] *= factor
        array, offset = mapping[self.store.array], [mapping[v] for v in self.store.offset]
        wide, adds = scalar_of(t.dtype), self._adds(self.store.array)
        # If bulk copies cannot add to the array, the sum starts from the array's elements, so that registers need not
        # hold both the sum and these elements at the end.
        at_end = adds or not for_gpu
        total = (
            b.zero(TileType(wide, tuple(shape))) if at_end else b.loaded(array, offset, tuple(shape), wide)
        )
        region = Region([int32, total.type])
        b.region = region
        index, before = region.args
        mapping[self.loop.index] = index
        self._copy(b, self.loop.body.ops, mapping)
        tiles = [self._load_operand(b, k, grown_dim, factor, depth, mapping, index) for k in (0, 1)]
        one = b.const(1.0, scalar_of(t.dtype))
        b.emit(Yield, [b.one(TileMatmul, [*tiles, before, one, one])])
        b.region = body
        iterations = b.one(S.Mul, [mapping[self.loop.stop], b.const(splits, int32)])
        bounds = [b.const(0, int32), iterations, b.const(1, int32)]
        (total,) = b.emit(For, [*bounds, total], None, [region])
        if not for_gpu:
            b.add_to(array, total, offset, True)
        elif adds:
            b.add_exclusively(array, total, offset)
        else:
            b.store(array, total, offset)
        b.emit(Yield, [])
        return finish_kernel(old, f"{old.name}_wide", old.param_names, body, len(own) - 1)

    def _adds(self, array: Value) -> bool:
        """Whether bulk copies can add to an array."""
        access = self.kernel.access[self.kernel.params.index(memory_root(array))]
        return access is not None and access.bulk and not access.aliases

    def _copy(self, b: SumBuilder, ops: Sequence[Op], mapping: dict[Value, Value]) -> None:
        for op in ops:
            if isinstance(op, OFFSET_OPS):
                b.region.append(clone_op(op, mapping))

    def _load_operand(
        self,
        b: SumBuilder,
        k: int,
        grown_dim: int,
        factor: int,
        depth: int,
        mapping: dict[Value, Value],
        index: Value,
    ) -> Value:
        """Build the load of an operand in its new shape."""
        side, shape = self.sides[k], self.sides[k].shape
        array, zero, *offset = (mapping[v] for v in side.load.operands)
        shape[side.summed] = depth
        offset[side.summed] = b.one(S.Mul, [index, b.const(depth, int32)])
        if k == grown_dim:
            shape[1 - side.summed] *= factor
        tile = b.one(TileLoad, [array, zero, *offset], dict(side.load.attrs, shape=tuple(shape)))
        for op in side.after:
            tile = b.insert(
                type(op).typed([tile], op.attrs, [clone_region(r, {}) for r in op.regions])
            ).results[0]
        return tile
