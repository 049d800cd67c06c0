"""Maps and reductions of tiles in the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import public, require, require_range
from tegula.ops.build_tile import tile_axis
from tegula.ops.builder import (
    Function,
    OpBuilder,
    Operand,
    captured_values,
    describe,
    is_tuple,
    operand_text,
)
from tegula.ops.kinds import ALONG_AXIS, ATile, Axis, KeepDims
from tegula.ops.map_structs import map_structs, reduce_structs
from tegula.ops.structs import WHOLE, Columns, added, leaves
from tegula.ops.tile import (
    TileReduce,
    TileReshape,
    TileSlice,
    dtype_of,
    tile_type,
)
from tegula.types import (
    DType,
    MatType,
    TileType,
    bool_,
    float32,
    int32,
    scalar_of,
)


@public("tile_map", rest=("a", "b"), fields=WHOLE)
def tile_map(b: OpBuilder, op: Function, *args: Operand) -> Operand:
    """A function applied to every element of tiles.

    Parameters:
        op: a @tg.func or a function of the language, with a parameter for each operand, that returns one scalar,
            vector, matrix or struct and uses no tiles.
        *args: 1 to 8 operands: tiles, which broadcast, or values that are the same for all elements; at least one tile.
            The function takes structs, not their leaves.
    Returns:
        a tile of the broadcast shape with the results of `op`.
    Raises:
        type-mismatch: `op` is not a function, there is no tile, or `op` uses tiles or does not return an element.
        shape-mismatch: the shapes of tiles do not broadcast.
        wrong-arguments: `op` has another number of parameters.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the gradient of `op`, element by element.
    """
    require(hasattr(op, "call"), f"tile_map takes a function first, got {describe(op)}")
    require(1 <= len(args) <= 8, f"tile_map takes 1 to 8 operands, got {len(args)}")
    arguments = leaves(args)
    require(any(b.is_tile(x) for x in arguments), "tile_map needs at least one tile")
    return map_structs(b, lambda elements: op.call(b, elements), args, arguments)


def _reduce(
    b: OpBuilder, t: Operand, combine: Callable[[Value, Value], Operand], axis: Operand, keepdims: Operand
) -> Value:
    if isinstance(keepdims, Value):
        raise TypeRule("", "", "NotConstant", culprit=keepdims, what="whether a reduction keeps dimensions")
    value = b.tile(t, partial=True)
    assert isinstance(value.type, TileType)
    for dimension in _axes(value.type.shape, axis):
        dtype = tile_type(value.type, partial=True).dtype
        region = b.region_of([dtype] * 2, lambda args: b.value(combine(*args)))
        names = ", ".join(f"'{v.name}'" if v.name else f"a {v.type}" for v in captured_values(region))
        message = f"the combining function of a reduction captures {names}"
        require(not names, message, "scale or shift the elements before or after, with tg.tile_map")
        value = b.one(TileReduce, [value], {"axis": dimension, "keepdims": bool(keepdims)}, [region])
    return value


def _axes(shape: Sequence[int], axis: Operand) -> list[int | None]:
    """The dimensions along which a tile is reduced in sequence, the last dimension first; [None] for a single reduction
    of all elements."""
    if not is_tuple(axis):
        return [tile_axis(shape, axis)]
    axes = [tile_axis(shape, d) for d in axis]
    dimensions = sorted({d for d in axes if d is not None}, reverse=True)
    message = f"axes {operand_text(axis)} are empty or name a dimension twice"
    require_range(dimensions and len(dimensions) == len(axes), message, "name each dimension once")
    return [None] if len(dimensions) == len(shape) else list(dimensions)


@public("tile_reduce", ALONG_AXIS, fields=WHOLE)
def tile_reduce(
    b: OpBuilder, op: Function, a: ATile, axis: Axis = None, keepdims: KeepDims = False
) -> Operand:
    """The elements of a tile combined by a function, in an unspecified order.

    Elements of absent threads are skipped.

    Parameters:
        op: an associative and commutative function (x, y) of two elements that returns an element of their type:
            `tg.add`, `tg.max`, a @tg.func.
    Raises:
        type-mismatch: `op` is not a function, `a` is not a tile, `op` returns another type, or a tile of structs is
            reduced along a dimension.
        wrong-arguments: `op` does not take two arguments.
    Gradient:
        for +, min and max the gradient of tg.tile_sum, tg.tile_min and tg.tile_max; for structs the gradient of `op`;
        others are refused (no-gradient).
    """
    require(hasattr(op, "call"), f"tile_reduce takes a function first, got {describe(op)}")
    if isinstance(a, Columns):
        return reduce_structs(b, op, a, axis)
    return _reduce(b, a, lambda x, y: op.call(b, [x, y]), axis, keepdims)


def _first_elements(b: OpBuilder, a: Operand, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """The first elements along a dimension: the result for leaves of structs that cannot be added."""
    value = b.tile(a)
    assert isinstance(value.type, TileType)
    dimension = tile_axis(value.type.shape, axis)
    if dimension is None:
        value, dimension, keepdims = b.one(TileReshape, [value], {"shape": (value.type.size,)}), 0, True
        assert isinstance(value.type, TileType)
    remaining = [
        (d, 1 if d == dimension else n) for d, n in enumerate(value.type.shape) if keepdims or d != dimension
    ]
    dims, shape = zip(*remaining, strict=True)
    starts = [b.const(0, int32) for _ in value.type.shape]
    return b.one(TileSlice, [value, *starts], {"shape": shape, "dims": dims, "steps": (1,) * len(dims)})


@public("tile_sum", ALONG_AXIS, fields=added("a", pass_through=_first_elements))
def tile_sum(b: OpBuilder, a: Operand, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """The sum of the elements of a tile, in an unspecified order that is fixed for a compiled kernel.

    Floats narrower than 32 bits are summed in float32 and rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype; the sum of bools is the number of true elements, in int32.
    Raises:
        type-mismatch: `a` is not a tile.
    Gradient:
        the adjoint, for every element.
    """
    value = b.tile(a, partial=True)
    scalar = scalar_of(dtype_of(value.type))
    if scalar.is_bool:
        value, scalar = b.tile(b.cast(value, int32), partial=True), int32
    if scalar.is_float and scalar.bits < 32:
        in_float32 = b.tile(b.cast(value, float32), partial=True)
        return b.cast(_reduce(b, in_float32, lambda x, y: b.one(S.Add, [x, y]), axis, keepdims), scalar)
    return _reduce(b, value, lambda x, y: b.one(S.Add, [x, y]), axis, keepdims)


def _as_bools(b: OpBuilder, a: Operand) -> Value:
    """The elements of a tile as bools: false for 0."""
    return b.tile(b.cast(b.tile(a, partial=True), bool_), partial=True)


@public("tile_any", ALONG_AXIS)
def tile_any(b: OpBuilder, a: ATile, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """Whether any element of a tile is true, that is, not 0.

    Elements of absent threads are skipped.

    Gradient:
        none: bools have no gradient.
    """
    return _reduce(b, _as_bools(b, a), lambda x, y: b.one(S.Or, [x, y]), axis, keepdims)


@public("tile_all", ALONG_AXIS)
def tile_all(b: OpBuilder, a: ATile, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """Whether all elements of a tile are true, that is, not 0.

    Elements of absent threads are skipped.

    Gradient:
        none: bools have no gradient.
    """
    return _reduce(b, _as_bools(b, a), lambda x, y: b.one(S.And, [x, y]), axis, keepdims)


@public("tile_min", ALONG_AXIS)
def tile_min(b: OpBuilder, a: Operand, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """The smallest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
    Raises:
        type-mismatch: `a` is not a tile.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """
    return _reduce(b, a, lambda x, y: b.one(S.Min, [x, y]), axis, keepdims)


@public("tile_max", ALONG_AXIS)
def tile_max(b: OpBuilder, a: Operand, axis: Axis = None, keepdims: KeepDims = False) -> Value:
    """The largest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
    Raises:
        type-mismatch: `a` is not a tile.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """
    return _reduce(b, a, lambda x, y: b.one(S.Max, [x, y]), axis, keepdims)


@public("tile_dot")
def tile_dot(build: OpBuilder, a: Operand, b: Operand) -> Value:
    """The sum of the products of the elements of two tiles.

    Floats narrower than 32 bits are multiplied in their type, summed in float32 and rounded once.

    Parameters:
        a, b: tiles of one dtype but bool, which broadcast; for vectors and matrices, the inner products of elements are
            summed.
    Returns:
        a tile (1,) of scalars.
    Raises:
        mixed-scalar-types: the dtypes differ.
        shape-mismatch: the shapes do not broadcast.
        type-mismatch: no operand is a tile, or a tile holds bools.
        out-of-range: a literal does not fit the dtype of the tile.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    Source:
        BLAS dot.
    """
    from tegula.ops.build_vector import ddot, dot

    def product(x: Value, y: Value) -> Operand:
        if isinstance(x.type, DType):
            return build.one(S.Mul, [x, y])
        return ddot(build, x, y) if isinstance(x.type, MatType) else dot(build, x, y)

    return tile_sum(build, build.map(lambda args: product(*args), [a, b]))


@public("tile_axpy")
def tile_axpy(b: OpBuilder, alpha: Operand, src: Operand, dest: Operand) -> None:
    """Adds a multiple of a tile to another one in place: dest += alpha * src.

    Parameters:
        alpha: a scalar or literal of the dtype of `src`.
        src: a tile that broadcasts to the shape of `dest`.
        dest: a tile bound to a name, of the same dtype.
    Raises:
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
        shape-mismatch: `src` does not broadcast to the shape of `dest`.
        type-mismatch: `dest` is not a tile bound to a name.
        popped-tile-changed: `dest` was popped from a pipe.
    Gradient:
        the sum of adjoint * src for `alpha`, alpha * adjoint for `src`, the adjoint for the previous value of `dest`.
    Source:
        BLAS axpy.
    """
    b.inplace("add", b.buffer(dest), b.binary("mul", alpha, src))
