"""Cooperative ops on tile values: construction, global load and store, maps, shapes, reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.fitting import shown
from tegula.ir import (
    ActsOnLines,
    AtomicUpdate,
    ConstantLike,
    Divisible,
    ElementAccess,
    ElementwiseTiles,
    Line,
    Op,
    Region,
    ReshapeLike,
    TileAccess,
    TypeRule,
    Value,
    exchanged,
    is_zero,
)
from tegula.ir.fields import ATOMIC, READ, WRITE, attr, body, operand, variadic
from tegula.ops.array import array_type, refuse_unless_sum
from tegula.ops.base import element, require, require_range, types
from tegula.ops.buffer import BufNew, BufRead, BufUpdate, BufView, BufWrite, accessed
from tegula.ops.control import For, Yield
from tegula.ops.convert import convert
from tegula.ops.extremes import is_extreme, split_among_ties
from tegula.ops.scalar import Add, And, Cmp, Max, Min, Mul, Select, rounded
from tegula.types import ArrayType, BufType, ElementType, TileType, Type, int32, int64, scalar_of

if TYPE_CHECKING:
    from tegula.layout import Layout
    from tegula.ops.builder import OpBuilder
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


def tile_type(t: Type, partial: bool = False) -> TileType:
    """The type as a tile type; raises TypeRule if the type is not a tile type, or is partial and `partial` is False."""
    if not isinstance(t, TileType):
        raise TypeRule(f"expected a tile, got {t}")
    if t.partial and not partial:
        raise TypeRule(f"{t} has absent lanes, which must be filled first")
    return t


MAX_DIMENSIONS = 4
MAX_ELEMENTS = 1 << 26
"""The maximum number of elements of a tile or stack."""


def check_shape(shape: Sequence[Any], max_rank: int = MAX_DIMENSIONS) -> tuple[int, ...]:
    """The shape of a tile as a tuple; TypeRule for an unsupported shape."""
    if not 1 <= len(shape) <= max_rank:
        message = f"a tile must have between one and four dimensions, got {len(shape)}"
        raise TypeRule(message, "use loops or the grid of the launch for the other dimensions", "OutOfRange")
    if not all(isinstance(n, int) and n > 0 for n in shape):
        message = f"tile dimensions must be positive, got {tuple(shape)}: there is no empty tile"
        raise TypeRule(message, "give each dimension 1 element or more", "OutOfRange")
    check_size("a tile", shape)
    return tuple(shape)


def check_size(subject: str, shape: Sequence[int]) -> None:
    """Raise TypeRule for a tile or stack with more than MAX_ELEMENTS elements. `subject`: "a tile" or "a stack"."""
    size = math.prod(shape)
    if size > MAX_ELEMENTS:
        extents = ", ".join(map(shown, shape)) + "," * (len(shape) == 1)
        size_text = f"{size:,}" if size.bit_length() < 256 else shown(size)
        too_large: dict[str, Any] = {"what": subject, "shape": f"({extents})", "size": size_text}
        raise TypeRule("", "", "TileTooLarge", **too_large, limit=MAX_ELEMENTS)


class TileFull(Divisible):
    """A tile of `shape` (attribute) with every element equal to the operand, which is uniform over the group."""

    __slots__ = ()
    NAME = "tile.full"
    COOPERATIVE = SIDE_BY_SIDE = True
    value = operand()
    shape = attr()

    def infer(self) -> Sequence[Type]:
        return [TileType(element(self.value.type), check_shape(self.shape))]

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        return ()

    @staticmethod
    def ref(attrs: Attrs, value: np.ndarray, rank: int) -> np.ndarray:
        return np.broadcast_to(value, (*attrs["shape"], *value.shape)).copy()

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.total(g),)


class TileEmpty(Op):
    """A tile of attribute `type` with unspecified elements (zeros in the interpreter). A ring of tiles has an
    additional first dimension, for the stages."""

    __slots__ = ()
    NAME = "tile.empty"
    COOPERATIVE = SIDE_BY_SIDE = True
    type = attr()

    def infer(self) -> Sequence[Type]:
        check_shape(self.type.shape, MAX_DIMENSIONS + 1)
        return [tile_type(self.type, partial=True)]


class TileArange(Op):
    """The tile of start + step * i for i in 0 .. count - 1. Operands: start, step (one scalar type). Attributes:
    `count`; `shape`, if the tile has more than one dimension, all but one of length 1."""

    __slots__ = ()
    NAME = "tile.arange"
    COOPERATIVE = SIDE_BY_SIDE = True
    start = operand()
    step = operand()
    count = attr()
    shape = attr(None)

    def infer(self) -> Sequence[Type]:
        t = element(self.start.type)
        require(t == self.step.type == scalar_of(t), "arange takes scalars of one type")
        return [TileType(t, check_shape(self.shape or (self.count,)))]

    @staticmethod
    def ref(attrs: Attrs, start: np.ndarray, step: np.ndarray, rank: int) -> np.ndarray:
        def steps_from(first: np.ndarray, step: np.ndarray, count: np.ndarray) -> np.ndarray:
            return first + step * count

        i = convert(np.arange(attrs["count"], dtype=np.int64), start.dtype)
        line = rounded(steps_from, np.full_like(i, start), np.full_like(i, step), i)
        return line.reshape(attrs.get("shape", line.shape))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        t = tile_type(g.type).dtype
        count = b.one(TileArange, [b.const(0.0, t), b.const(1.0, t)], self.attrs)
        return b.total(g), b.total(b.map(lambda xs: b.one(Mul, xs), [g, count]))


def access_types(
    array: Type, shape: Sequence[int], offsets: Sequence[Type], stored: ElementType | None = None
) -> TileType:
    """The type of a tile at an offset of an array; raises TypeRule unless the ranks and offsets fit, or if the array
    does not hold elements of type `stored`."""
    a = array_type(array)
    shape = check_shape(shape)
    require(
        len(shape) == a.ndim,
        f"a tile of shape {tuple(shape)} does not fit {a}: the numbers of dimensions differ",
        "index or reshape the array so that the dimensions match",
    )
    require(len(offsets) == a.ndim, f"the offset has {len(offsets)} entries, the array {a.ndim} dimensions")
    for t in offsets:
        require(getattr(t, "is_int", False), f"offsets must be integers, got {t}", "convert with int(...)")
    if stored not in (None, a.dtype):
        help = f"convert the tile: tg.tile_astype(..., tg.{a.dtype})"
        raise TypeRule(f"the array holds {a.dtype}, the tile {stored}", help)
    return TileType(a.dtype, shape)


class TileLoad(TileAccess, Divisible):
    """Loads a tile from an array; elements outside the array are the fill value. Operands: array, fill value, one
    offset per dimension. Attributes: `shape`, `bounds_check`, `aligned`; `unwritten`: whether no earlier iteration of
    the enclosing loop writes these elements."""

    __slots__ = ()
    NAME = "tile.load"
    COOPERATIVE = SIDE_BY_SIDE = True
    PURE = False
    array = operand(READ)
    fill = operand()
    offset = variadic(index=True)
    shape = attr()
    unwritten = attr(False)

    def infer(self) -> Sequence[Type]:
        tile = access_types(self.array.type, self.shape, [v.type for v in self.offset])
        require(self.fill.type == tile.dtype, f"fill must be {tile.dtype}, got {self.fill.type}")
        return [tile]

    def exchange(self, array: Value) -> None:
        super().exchange(array)
        self.shape = exchanged(self.shape)

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        return ()

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        if b.needs_adjoint(self.fill):
            b.refuse(self, "the fill value of tile_load has no derivative")
        offset = [b.primal(i) for i in self.offset]
        attrs = {"op": "add", "bounds_check": self.bounds_check}
        shadow = b.shadow(self.array)
        b.emit(TileAtomic, [shadow, b.stored_as(g, shadow), *offset], attrs)
        return [None] * len(self.operands)


class TileStore(TileAccess):
    """Stores a tile to an array; elements outside the array, and elements of absent lanes, are dropped. Operands:
    array, tile, one offset per dimension. Attributes: `bounds_check`, `aligned`."""

    __slots__ = ()
    NAME = "tile.store"
    COOPERATIVE = SIDE_BY_SIDE = True
    PURE = False
    array = operand(WRITE)
    tile = operand()
    offset = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        access_types(self.array.type, tile.shape, [v.type for v in self.offset], tile.dtype)
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        array, tile = b.shadow(self.array), adjoint_of(self.tile)
        offset = [b.primal(i) for i in self.offset]
        attrs = {"bounds_check": self.bounds_check, "aligned": False}
        g = _load_gradients(b, array, tile, offset, attrs)
        stored = TileType(array_type(array.type).dtype, tile.shape, tile.partial)
        b.emit(TileStore, [array, b.zero(stored), *offset], attrs)
        return (None, g, *[None] * len(offset))


class TileAtomic(TileAccess, AtomicUpdate, ElementwiseTiles):
    """Updates each element of part of an array once, atomically; the result is the tile of previous elements, 0 for
    elements outside the array. Operands: array, tile, one offset per dimension. Attributes: `op`: add, min or max;
    `bounds_check`; `exclusive`."""

    __slots__ = ()
    NAME = "tile.atomic"
    COOPERATIVE = True
    PURE = False
    array = operand(ATOMIC)
    tile = operand()
    offset = variadic(index=True)
    op = attr()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        access_types(self.array.type, tile.shape, [v.type for v in self.offset], tile.dtype)
        require(self.op in ("add", "min", "max"), f"no tile atomic '{self.op}'")
        return [TileType(tile.dtype, tile.shape)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (previous,) = grads
        array, tile, indices = self.array, self.tile, self.offset
        refuse_unless_sum(self, tile, b)
        if previous is not None:
            b.refuse(self, "the value that an atomic operation returns has no derivative")
        attrs = {"bounds_check": self.bounds_check, "aligned": False}
        offset = [b.primal(i) for i in indices]
        g = _load_gradients(b, b.shadow(array), adjoint_of(tile), offset, attrs)
        return (None, g, *[None] * len(offset))


class TileMap(Divisible, ActsOnLines, ElementwiseTiles):
    """Applies a function to each element of tiles. Operands: tiles of one shape, and uniform scalars, vectors or
    matrices, which are the same for all elements. Region: takes one element of each operand and yields one element; it
    has lane ops only and uses no values from outside. The result is partial if an operand is."""

    __slots__ = ()
    NAME = "tile.map"
    ISOLATED = True
    COOPERATIVE = SIDE_BY_SIDE = PERMUTES = True
    inputs = variadic()
    function = body()

    @property
    def operations(self) -> int:
        return len(self.function.ops) - 1

    @property
    def elements(self) -> list[Value]:
        """The arguments of the function, one for the element of each input."""
        return self.function.args

    def replace_inputs(self, inputs: Sequence[Value], elements: Sequence[Value]) -> None:
        """Replace the inputs of the map. `elements`: the function's arguments for the elements of the new inputs."""
        self.inputs = inputs
        self.function.set_arguments(elements)

    def infer(self) -> Sequence[Type]:
        inputs = types(self.inputs)
        tiles = [t for t in inputs if isinstance(t, TileType)]
        require(tiles, "a map needs a tile")
        for t in tiles:
            if t.shape != tiles[0].shape:
                raise TypeRule("", "", "ShapeMismatch", what="tile_map", left=tiles[0].shape, right=t.shape)
        body = self.function
        expected = [t.dtype if isinstance(t, TileType) else element(t) for t in inputs]
        require(types(body.args) == expected, "a map's region does not match its operands")
        result_type = element(body.yielded[0].type)
        return [TileType(result_type, tiles[0].shape, any(t.partial for t in tiles))]

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        return [(v, dim) for v in self.inputs if isinstance(v.type, TileType)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        primals = [b.forward_value(v) for v in self.inputs]
        adjoints: list[Value | None] = []
        for value, argument in zip(self.inputs, self.function.args, strict=True):
            body = b.element_adjoint(self.function, argument) if b.needs_adjoint(value) else None
            if body is None:
                adjoints.append(None)
                continue
            *_, adjoint = body.args
            is_identity = body.yielded[0] is adjoint
            input_adjoint = g if is_identity else b.one(TileMap, [*primals, g], None, [body])
            tile = isinstance(value.type, TileType)
            adjoints.append(b.fitted(input_adjoint, value.type) if tile else b.total(input_adjoint))
        return adjoints


def addend_tiles(op: object) -> tuple[Value, Value] | None:
    """The two tiles that a map adds; None for other ops."""
    if not isinstance(op, TileMap) or len(op.inputs) != 2 or combination(op.function) is not Add:
        return None
    a, b = op.inputs
    return (a, b) if isinstance(a.type, TileType) and isinstance(b.type, TileType) else None


def is_zeros(tile: Value) -> bool:
    """Whether all elements of a tile are the constant 0."""
    value = tile.owner.value.owner if isinstance(tile.owner, TileFull) else None
    return isinstance(value, ConstantLike) and value.value == 0


def unbroadcast_inputs(op: Op) -> list[Value]:
    """The input tiles of a map, except broadcast and filled tiles; empty for other ops."""
    tiles = [v for v in op.inputs if isinstance(v.type, TileType)] if isinstance(op, TileMap) else []
    return [v for v in tiles if not isinstance(v.owner, TileBroadcast | TileFull)]


class TileFillAbsent(ElementwiseTiles):
    """Converts a partial tile to a full tile: elements of absent lanes become 0."""

    __slots__ = ()
    NAME = "tile.fill_absent"
    COOPERATIVE = True
    tile = operand()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        return [TileType(tile.dtype, tile.shape)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.fitted(g, self.tile.type),)


class TileMarkPartial(ElementwiseTiles):
    """Converts a full tile to a partial tile: elements of absent lanes are dropped."""

    __slots__ = ()
    NAME = "tile.mark_partial"
    COOPERATIVE = True
    tile = operand()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        return [TileType(tile.dtype, tile.shape, True)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.fitted(g, self.tile.type),)


class TileBroadcast(Divisible):
    """Broadcasts the tile to a larger `shape` (attribute), by NumPy's rules."""

    __slots__ = ()
    NAME = "tile.broadcast"
    COOPERATIVE = SIDE_BY_SIDE = True
    tile = operand()
    shape = attr()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type)
        shape = check_shape(self.shape)
        try:
            fits = np.broadcast_shapes(tile.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise TypeRule("", "", "ShapeMismatch", what="broadcast", left=tile.shape, right=shape)
        return [TileType(tile.dtype, shape)]

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        tile = tile_type(self.tile.type)
        source_dim = dim - (len(self.shape) - len(tile.shape))
        return [(self.tile, source_dim)] if source_dim >= 0 and tile.shape[source_dim] > 1 else []

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        lead, shape = (1,) * (len(attrs["shape"]) - rank), (*attrs["shape"], *tile.shape[rank:])
        return np.broadcast_to(tile.reshape(lead + tile.shape), shape).copy()

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        before, after = tile_type(self.tile.type).shape, tile_type(self.result.type).shape
        leading = len(after) - len(before)
        for d, n in enumerate((*(1,) * leading, *before)):
            if n == 1 and after[d] > 1:
                g = b.summed(g, d, keepdims=True)
        return (b.reshaped(g, before),)


class TileReshape(ReshapeLike, Divisible):
    """Reshapes the tile to `shape` (attribute), with the elements in row-major order."""

    __slots__ = ()
    NAME = "tile.reshape"
    COOPERATIVE = SIDE_BY_SIDE = True
    KEEPS_ORDER = True
    tile = operand()
    shape = attr()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type)
        result_type = TileType(tile.dtype, check_shape(self.shape))
        if result_type.size != tile.size:
            raise TypeRule("", "", "ShapeMismatch", what="reshape", left=tile.shape, right=result_type.shape)
        return [result_type]

    def divided(self, dim: int) -> Sequence[tuple[Value, int]] | None:
        source, before = tile_type(self.tile.type).shape, math.prod(self.shape[:dim])
        equal = (k for k, n in enumerate(source) if math.prod(source[:k]) == before and n == self.shape[dim])
        source_dim = next(equal, None)
        return None if source_dim is None else [(self.tile, source_dim)]

    @property
    def is_identity(self) -> bool:
        return self.result.type == self.tile.type

    def after(self, earlier: Op) -> Op | None:
        if not isinstance(earlier, TileReshape):
            return None
        return TileReshape([earlier.tile], [self.result.type], {"shape": self.shape}, [], self.loc)

    def carried(self, layout: Layout, inverse: bool = False) -> Layout | None:
        return layout.reshaped(tile_type((self.tile if inverse else self.result).type).shape)

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        return tile.reshape((*attrs["shape"], *tile.shape[rank:]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.reshaped(g, tile_type(self.tile.type).shape),)


class TilePermute(ReshapeLike, Divisible, ActsOnLines):
    """Permutes dimensions: dimension k of the result is dimension `perm[k]` (attribute) of the operand."""

    __slots__ = ()
    NAME = "tile.permute"
    COOPERATIVE = SIDE_BY_SIDE = True
    READS_BY_INDEX = True
    tile = operand()
    perm = attr()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type)
        perm: tuple[int, ...] = self.perm
        require_range(
            sorted(perm) == list(range(len(tile.shape))),
            f"{perm} is not a permutation of {tile}'s dimensions",
            f"give each of 0 to {len(tile.shape) - 1} once",
        )
        return [TileType(tile.dtype, tuple(tile.shape[d] for d in perm))]

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        return [(self.tile, self.perm[dim])]

    @property
    def is_identity(self) -> bool:
        return self.perm == tuple(range(len(self.perm)))

    def after(self, earlier: Op) -> Op | None:
        if not isinstance(earlier, TilePermute):
            return None
        order = tuple(earlier.perm[d] for d in self.perm)
        return TilePermute([earlier.tile], [self.result.type], {"perm": order}, [], self.loc)

    def carried(self, layout: Layout, inverse: bool = False) -> Layout | None:
        return layout.permuted(self._inverse_perm if inverse else self.perm)

    @property
    def _inverse_perm(self) -> tuple[int, ...]:
        """The inverse permutation."""
        return tuple(map(self.perm.index, range(len(self.perm))))

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        return tile.transpose((*attrs["perm"], *range(rank, tile.ndim)))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.one(TilePermute, [g], {"perm": self._inverse_perm}),)


class TileSlice(ActsOnLines):
    """A strided part of a tile value. Operands: tile, one start per dimension; attributes `shape`, `dims`, `steps` as
    in `buf.view`."""

    __slots__ = ()
    NAME = "tile.slice"
    COOPERATIVE = SIDE_BY_SIDE = True
    tile = operand()
    starts = variadic(index=True)
    shape = attr()
    dims = attr()
    steps = attr()
    READS_BY_INDEX = True

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type)
        require(len(self.starts) == len(tile.shape), "a slice has one start per dimension of the tile")
        return [TileType(tile.dtype, check_shape(self.shape))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, *starts_and_rank: Any) -> np.ndarray:
        *starts, _ = starts_and_rank
        shape: tuple[int, ...] = attrs["shape"]
        steps = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
        indices = [np.full(shape, int(start)) for start in starts]
        for positions, dim, step in zip(steps, attrs["dims"], attrs["steps"], strict=True):
            if dim >= 0:
                indices[dim] = indices[dim] + positions * step
        return tile[tuple(indices)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        if -1 in self.dims:
            b.refuse(self, "a view that repeats elements has no derivative; use tg.tile_broadcast")
        order = self.order()
        if order is not None:
            inverse = tuple(order.index(d) for d in range(len(order)))
            return (b.one(TilePermute, [g], {"perm": inverse}), *[None] * (len(self.operands) - 1))
        gradient = b.one(BufNew, [b.zero(adjoint_of(self.tile))], {"storage": "register"})
        b.emit(BufWrite, [b.one(BufView, [gradient, *(b.primal(i) for i in self.starts)], self.attrs), g])
        return (b.one(BufRead, [gradient]), *[None] * (len(self.operands) - 1))

    def order(self) -> tuple[int, ...] | None:
        """The permutation of dimensions that the slice is: the operand's dimensions in the order of the result's
        dimensions; None if the slice is not a permutation."""
        dims: tuple[int, ...] = self.dims
        shape: tuple[int, ...] = self.shape
        source = tile_type(self.tile.type).shape
        if sorted(dims) != list(range(len(source))) or any(step != 1 for step in self.steps):
            return None
        return dims if all(source[d] == n for d, n in zip(dims, shape, strict=True)) else None

    @property
    def line(self) -> Line | None:
        source, sizes, dims = tile_type(self.tile.type).shape, self.shape, tuple(self.dims)
        fixed = [
            d for d in range(len(source)) if d not in dims or (source[d] > 1 and sizes[dims.index(d)] == 1)
        ]
        free = [d for d in range(len(source)) if d not in fixed]
        keeps_dims = len(dims) == len(source)
        if not fixed or not free or dims != (tuple(range(len(source))) if keeps_dims else tuple(free)):
            return None
        bounds = [(is_zero(self.starts[d]), self.steps[dims.index(d)], sizes[dims.index(d)]) for d in free]
        if bounds != [(True, 1, source[d]) for d in free]:
            return None
        return Line(self.tile, {d: self.starts[d] for d in fixed}, keeps_dims)

    @property
    def reshape(self) -> TileReshape | None:
        source, sizes = tile_type(self.tile.type).shape, self.shape
        entries = zip(self.dims, sizes, self.steps, strict=True)
        dims = [(d, n) for d, n, step in entries if n > 1 and step == 1]
        is_full = dims == [(d, n) for d, n in enumerate(source) if n > 1] and math.prod(sizes) == math.prod(
            source
        )
        if not is_full or not all(map(is_zero, self.starts)):
            return None
        return TileReshape([self.tile], [self.result.type], {"shape": sizes}, [], self.loc)


class TileExtract(ElementAccess, ActsOnLines):
    """Reads an element or component of a tile value, per lane, as `buf.get` does of a buffer. Operands: tile, indices,
    which may differ between lanes."""

    __slots__ = ()
    NAME = "tile.extract"
    tile = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        return [accessed(tile_type(self.tile.type, partial=True), [v.type for v in self.indices])]

    @property
    def line(self) -> Line | None:
        t = tile_type(self.tile.type, partial=True)
        if t.partial or t.size == 1 or len(self.indices) != len(t.shape):
            return None
        return Line(self.tile, dict(enumerate(self.indices)), False)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        operands = [b.accumulator(self.tile), g, *(b.primal(i) for i in self.indices)]
        if b.is_uniform_op(self):
            b.in_first_lane(lambda: b.emit(BufUpdate, operands, {"op": "add"}))
        else:
            b.emit(BufUpdate, operands, {"op": "add"})
        return [None] * len(self.operands)


class TileGather(ActsOnLines):
    """Gathers parts of a tile along `axis` (attribute). Operands: tile, 1-D integer tile of indices. Negative indices
    count from the end; indices outside the tile give 0."""

    __slots__ = ()
    NAME = "tile.gather"
    COOPERATIVE = True
    tile = operand()
    index = operand(index=True)
    axis = attr()
    READS_BY_INDEX = True
    EXCHANGES = True

    def infer(self) -> Sequence[Type]:
        tile, index = tile_type(self.tile.type), tile_type(self.index.type)
        require(
            len(index.shape) == 1 and scalar_of(index.dtype).is_int,
            f"indices must be a 1-D integer index tile, got {index}",
        )
        axis = self.axis
        return [TileType(tile.dtype, (*tile.shape[:axis], index.shape[0], *tile.shape[axis + 1 :]))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, index: np.ndarray, rank: int) -> np.ndarray:
        axis = attrs["axis"]
        n = tile.shape[axis]
        indices = index.astype(np.int64)
        indices = np.where(indices < 0, indices + n, indices)
        in_bounds = (indices >= 0) & (indices < n)
        gathered = np.take(tile, np.where(in_bounds, indices, 0), axis)
        return np.where(
            in_bounds.reshape((-1,) + (1,) * (tile.ndim - axis - 1)),
            gathered,
            np.zeros_like(gathered),
        )

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        tile = adjoint_of(self.tile)
        gradient = b.one(BufNew, [b.zero(tile)], {"storage": "register"})
        add_at(b, gradient, g, b.primal(self.index), self.axis)
        return b.one(BufRead, [gradient]), None


def reduced_shape(shape: Sequence[int], axis: int | None, keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction: without the reduced axis, or with length 1 along the axis if `keepdims`; (1,) if no
    dimension remains."""
    if axis is None:
        return (1,) * len(shape) if keepdims else (1,)
    kept_shape = [1 if d == axis else n for d, n in enumerate(shape) if keepdims or d != axis]
    return tuple(kept_shape) or (1,)


class TileReduce(Divisible, ActsOnLines):
    """Reduces a tile in an unspecified order; elements of absent lanes are skipped. Operand: tile. Region: combines two
    elements to one, associatively and commutatively. Attributes: `axis` (None: all), `keepdims`. The result of a
    reduction along an axis other than the last is partial if the tile is."""

    __slots__ = ()
    NAME = "tile.reduce"
    ISOLATED = True
    COOPERATIVE = SIDE_BY_SIDE = True
    tile = operand()
    combine = body()
    axis = attr()
    keepdims = attr()
    bases = attr(None)
    extent = attr(None)
    lanes = attr(False)

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        axis = self.axis
        require_range(axis is None or 0 <= axis < len(tile.shape), f"{tile} has no axis {axis}")
        body = self.combine
        require(
            [a.type for a in body.args] == [tile.dtype] * 2 and body.yielded[0].type == tile.dtype,
            f"the function of a reduction must combine two values of {tile.dtype} to one",
        )
        partial = tile.partial and axis is not None and axis != len(tile.shape) - 1
        return [TileType(tile.dtype, reduced_shape(tile.shape, axis, self.keepdims), partial)]

    @property
    def exchanges(self) -> bool:
        return max((tile := tile_type(self.tile.type, partial=True)).shape) < tile.size

    def divided(self, dim: int) -> Sequence[tuple[Value, int]] | None:
        if self.axis is None or (self.keepdims and dim == self.axis):
            return None
        return [(self.tile, dim + (not self.keepdims and dim >= self.axis))]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        x = b.primal(self.tile)
        kind, full_type = combination(self.combine), tile_type(x.type, partial=True)
        broadcast_adjoint = _broadcast_back(b, g, full_type, self.axis)
        if kind is Add:
            return (broadcast_adjoint,)
        if kind not in (Min, Max):
            b.refuse(self, "only sums, minima and maxima have a derivative here")
        extreme = _broadcast_back(b, b.primal(self.result), full_type, self.axis)
        is_hit = b.map(lambda xs: is_extreme(b, *xs), [x, extreme])
        ties = _broadcast_back(b, b.summed(is_hit, self.axis, self.keepdims), full_type, self.axis)
        return (b.map(lambda xs: split_among_ties(b, *xs), [broadcast_adjoint, is_hit, ties]),)


def dtype_of(t: Type) -> ElementType:
    """The element type of a tile or array."""
    assert isinstance(t, TileType | BufType | ArrayType)
    return t.dtype


# Parts of adjoints ---------------------------------------------------------------------------------------------------


def adjoint_of(tile: Value) -> TileType:
    """The type of a tile's adjoint."""
    from tegula.ops.gradient import adjoint_type

    return tile_type(adjoint_type(tile.type), partial=True)


def _load_gradients(
    b: GradientBuilder, array: Value, adjoint_type: TileType, offset: Sequence[Value], attrs: Attrs
) -> Value:
    """Load a tile from an array of gradients in the tile's type; 0 for elements outside of the array."""
    zero = b.const(0.0, array_type(array.type).dtype)
    loaded = b.one(TileLoad, [array, zero, *offset], {**attrs, "shape": adjoint_type.shape})
    return b.fitted(b.widened(loaded), adjoint_type)


def combination(body: Region) -> type | None:
    """The op class of a reduction's function if the function is a single op on its two arguments."""
    if len(body.ops) != 2 or list(body.yielded) != body.ops[0].results:
        return None
    return type(body.ops[0]) if set(body.ops[0].operands) == set(body.args) else None


def _broadcast_back(b: GradientBuilder, reduced: Value, full_type: TileType, axis: int | None) -> Value:
    """A reduction's result, broadcast to the shape of the reduced tile."""
    kept_shape = tuple(1 if axis in (None, d) else n for d, n in enumerate(full_type.shape))
    t = tile_type(reduced.type, partial=True)
    full = b.fitted(reduced, TileType(t.dtype, t.shape))
    broadcast = b.one(TileBroadcast, [b.reshaped(full, kept_shape)], {"shape": full_type.shape})
    return b.fitted(broadcast, TileType(full_type.dtype, full_type.shape, full_type.partial))


def add_at(b: OpBuilder, gradient: Value, g: Value, index: Value, axis: int) -> None:
    """Build gradient[..., index[k], ...] += g[..., k, ...] for every k whose index is in bounds."""
    assert isinstance(gradient.type, BufType)
    shape, n = tile_type(g.type).shape, gradient.type.shape[axis]
    row_shape = tuple(1 if d == axis else size for d, size in enumerate(shape))
    attrs = {"shape": row_shape, "dims": tuple(range(len(shape))), "steps": (1,) * len(shape)}
    zero, body = b.const(0, int32), Region()
    row_number = body.add_argument(int32)

    def starts(position: Value) -> list[Value]:
        return [position if d == axis else zero for d in range(len(shape))]

    def add(position: Value) -> None:
        view = b.one(BufView, [gradient, *starts(position)], attrs)
        row = b.one(TileSlice, [g, *starts(row_number)], attrs)
        b.emit(BufWrite, [view, b.map(lambda xs: b.one(Add, xs), [b.one(BufRead, [view]), row])])

    outer_region, b.region = b.region, body
    at = b.value(b.cast(b.one(TileExtract, [index, row_number]), int64))
    zero_index, size = b.const(0, int64), b.const(n, int64)
    at = b.one(Select, [b.one(Cmp, [at, zero_index], {"pred": "lt"}), b.one(Add, [at, size]), at])
    in_bounds = [b.one(Cmp, [at, zero_index], {"pred": "ge"}), b.one(Cmp, [at, size], {"pred": "lt"})]
    b.branch(b.one(And, in_bounds), lambda: add(b.value(b.cast(at, int32))))
    b.emit(Yield, [])
    b.region = outer_region
    b.emit(For, [zero, b.const(shape[axis], int32), b.const(1, int32)], None, [body])
