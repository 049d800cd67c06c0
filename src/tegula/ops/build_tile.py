"""The tile functions of the language."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tegula.fitting import shown
from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.array_gather import ArrayScatter, ArrayScatterAtomic
from tegula.ops.base import public, require, require_range
from tegula.ops.build_coordinates import coordinates, selection
from tegula.ops.builder import (
    OpBuilder,
    Operand,
    as_tuple,
    checked_literal,
    describe,
    float_literal,
    operand_text,
)
from tegula.ops.convert import convert
from tegula.ops.kinds import (
    Aligned,
    BoundsCheck,
    ElementDtype,
    Mask,
    OfEachThread,
    Offset,
    Shape,
    Storage,
    ThreadGrid,
)
from tegula.ops.lane import TileFromLanes, TileFromThread, TileToLanes
from tegula.ops.structs import WHOLE, added, moved
from tegula.ops.tile import (
    TileArange,
    TileAtomic,
    TileEmpty,
    TileLoad,
    TileStore,
    access_types,
    check_shape,
)
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    ElementType,
    TileType,
    algebra_of,
    element_type,
    float32,
    float64,
    scalar_of,
    to_numpy,
)

STORAGES = ("register", "shared")


def constant_shape(shape: Operand) -> tuple[int, ...]:
    """A tile shape from an int or a tuple of constants."""
    entries = as_tuple(shape)
    for n in entries:
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeRule("", "", "NotConstant", culprit=n, what="the shape of a tile")
    return check_shape(entries)


def stored(b: OpBuilder, tile: Value, storage: Operand) -> Value:
    """Record the storage that the user declared for a new tile."""
    if storage not in STORAGES:
        help = "omit storage= to let the compiler choose"
        raise TypeRule(
            f"storage must be 'register' or 'shared', got {operand_text(storage)}", help, "OutOfRange"
        )
    b.storage[tile] = storage
    return tile


def tile_shape(x: Operand) -> tuple[int, ...]:
    """The shape of a tile value or tile object; raises TypeRule for any other operand."""
    if isinstance(x, Value) and isinstance(x.type, TileType | BufType):
        return x.type.shape
    raise TypeRule(f"expected a tile, got {describe(x)}", culprit=x)


def tile_axis(shape: Sequence[int], axis: Operand, function: str = "") -> int | None:
    """A constant axis counted from the front; None for the whole tile. `function`: the calling function, for the
    message."""
    if axis is None:
        return None
    if not isinstance(axis, int):
        raise TypeRule("", "", "NotConstant", culprit=axis, what="the axis")
    dimensions = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
    help = f"axes are {-len(shape)} to {len(shape) - 1}"
    message = f"{f'{function}() ' if function else ''}axis {axis} is out of bounds for tile with {dimensions}"
    require_range(-len(shape) <= axis < len(shape), message, help)
    return axis % len(shape)


# Construction --------------------------------------------------------------------------------------------------------


@public("tile_zeros", fields=moved("dtype"))
def tile_zeros(
    b: OpBuilder, shape: Shape, dtype: ElementDtype = float, storage: Storage = "register"
) -> Value:
    """A tile of zeros.

    Returns:
        a tile of `shape` and `dtype`.
    Gradient:
        none: the result is a constant.
    """
    t = element_type(dtype)
    return stored(b, b.full(constant_shape(shape), b.const(0, t), t), storage)


@public("tile_ones")
def tile_ones(
    b: OpBuilder, shape: Shape, dtype: ElementDtype = float, storage: Storage = "register"
) -> Value:
    """A tile of ones; matrices have ones everywhere.

    Returns:
        a tile of `shape` and `dtype`.
    Gradient:
        none: the result is a constant.
    """
    t = element_type(dtype)
    unit = algebra_of(t).one
    value = b.of_numbers(unit, t) if unit else b.const(1, t)
    return stored(b, b.full(constant_shape(shape), value, t), storage)


@public("tile_empty", fields=moved("dtype"))
def tile_empty(
    b: OpBuilder, shape: Shape, dtype: ElementDtype = float, storage: Storage = "register"
) -> Value:
    """A tile with unspecified elements.

    A tile created before the roles with `storage="shared"` is shared by the roles; its first dimension may be the
    stages (docs/roles.md).

    Returns:
        a tile of `shape` and `dtype`.
    Gradient:
        none: nothing is computed.
    """
    tile_type = TileType(element_type(dtype), constant_shape(shape))
    return stored(b, b.one(TileEmpty, [], {"type": tile_type}), storage)


@public("tile_full", fields=moved("value", "dtype"))
def tile_full(
    b: OpBuilder, shape: Shape, value: Operand, dtype: Operand = None, storage: Storage = "register"
) -> Value:
    """A tile with one value in every element.

    Parameters:
        value: a scalar, vector, matrix or literal, the same in all threads of the block: the value of thread 0 is used.
        dtype: the element type; by default the type of `value`. A number fills all components of a vector or
            matrix.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `value` has another type than `dtype`.
        out-of-range: a literal does not fit `dtype`, a length is below 1, or there are more than 4.
    Gradient:
        the sum of the adjoint over all elements.
    """
    t = None if dtype is None else element_type(dtype)
    if t is not None and isinstance(value, int) and scalar_of(t).is_float:
        value = float_literal(value)
    return stored(b, b.full(constant_shape(shape), value, t), storage)


MAX_COUNT = 2**63 - 1
COUNT_HELP = "use finite bounds and a larger step"


@public("tile_arange", fields=WHOLE)
def tile_arange(b: OpBuilder, *args: Operand, dtype: Operand = None, storage: Storage = "register") -> Value:
    """A tile of evenly spaced numbers: start, start + step, and so on below stop.

    Floats are start + step * i in float64, rounded once.

    Parameters:
        *args: (stop), (start, stop) or (start, stop, step), constants; `start` is 0 and `step` 1 by default.
        dtype: a numeric scalar type; float32 by default, for integers too.
    Returns:
        a tile (N,), with N = ceil((stop - start) / step).
    Raises:
        type-mismatch: there are no numbers or more than 3, `dtype` is bool, or the start or the step of a range of
            integers is not an integer.
        not-constant: a number is known at run time only.
        out-of-range: the range is empty or endless, the step is 0, or a number does not fit `dtype`.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: the result is a constant.
    """
    many = f"tile_arange() accepts at most 3 positional arguments, got {len(args)}"
    require(len(args) <= 3, many, "call it as tile_arange(start, stop, step)")
    require(args, "tile_arange() needs at least a stop", "call it as tile_arange(stop)")
    names = ("stop",) if len(args) == 1 else ("start", "stop", "step")
    for name, x in zip(names, args, strict=False):
        if not isinstance(x, int | float) or isinstance(x, bool):
            message = f"tile_arange() arguments must be compile time constants, but {name} is not: {name}"
            raise TypeRule("", "", "NotConstant", culprit=x, what=message)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    require_range(step != 0, "tile_arange() step cannot be zero", "use a positive or a negative step")
    call_text = f"tile_arange({', '.join(map(shown, args))})"
    first, last, increment = map(float_literal, (start, stop, step))
    span = (last - first) / increment if all(map(math.isfinite, (first, last, increment))) else math.inf
    require_range(span <= MAX_COUNT, f"{call_text} has too many elements to count", COUNT_HELP)
    count = max(0, -int(-(stop - start) // step))
    require_range(count > 0, f"{call_text} is empty: use a non-empty range", "choose a step towards stop")
    check_shape((count,))
    scalar = _range_dtype(dtype)
    if scalar.is_float:
        message_of_step = f"tile_arange() step cannot be zero, as {step} is in {scalar}"
        require_range(
            convert(np.array(increment), to_numpy(scalar)) != 0, message_of_step, "give dtype=float64"
        )
    for x in (start, step) if scalar.is_int else ():
        require(x == int(x), f"tile_arange of {scalar} cannot count from {start} by {step}", "use integers")
    check_shape((count,))
    checked_literal(start + step * (count - 1), scalar)
    compute_dtype = scalar if scalar.is_int else _compute_dtype(scalar, float(start), float(step), count)
    values = [b.const(v, compute_dtype) for v in (start, step)]
    return stored(b, b.tile(b.cast(b.one(TileArange, values, {"count": count}), scalar)), storage)


def _range_dtype(dtype: Operand) -> DType:
    """The dtype of a range; raises TypeRule for a dtype that is not numeric."""
    t = element_type(float if dtype is None else dtype)
    if not isinstance(t, DType) or t.is_bool:
        help = "count in int or float and compare or combine the elements, as in a > 0"
        raise TypeRule(f"tile_arange() requires a numeric scalar dtype, got {t}", help)
    return t


def _compute_dtype(scalar: DType, start: float, step: float, count: int) -> DType:
    """The type in which the numbers of a range are computed before rounding to `scalar`: float32 if all rounded numbers
    equal the float64 results, else float64."""
    if scalar.bits == 64:
        return scalar
    in_float64, in_float32 = (
        TileArange.ref({"count": count}, np.array(start, kind), np.array(step, kind), 1)
        for kind in (np.float64, np.float32)
    )
    same = np.array_equal(
        convert(in_float64, to_numpy(scalar)), convert(in_float32, to_numpy(scalar)), equal_nan=True
    )
    return float32 if same else float64


@public("tile_from_thread", fields=moved("value"))
def tile_from_thread(
    b: OpBuilder, shape: Shape, value: OfEachThread, thread_idx: Operand, storage: Storage = "register"
) -> Value:
    """A tile filled with the value of one thread of the block or, inside a role, of the role.

    Parameters:
        thread_idx: the index of the thread, an integer from 0; the argument of thread 0 is used.
    Returns:
        a tile of `shape` and the type of `value`; zeros if the thread is absent or outside of the block.
    Raises:
        out-of-range: a constant `thread_idx` is outside of the block.
        type-mismatch: `thread_idx` is not an integer.
    Gradient:
        the sum of the adjoint over all elements, for the value of that thread.
    """
    lane = b.index(thread_idx)
    number = lane.owner.value if isinstance(lane.owner, S.Const) else 0
    if not 0 <= number < b.lanes:
        help = f"give a thread from 0 to {b.lanes - 1}, or launch with a larger block_dim"
        message = f"a block of {b.lanes} threads has no thread {number}"
        raise TypeRule(message, help, "OutOfRange", culprit=thread_idx)
    tile = b.one(TileFromThread, [b.value(value), lane], {"shape": constant_shape(shape)})
    return stored(b, tile, storage)


@public("tile")
def tile(b: OpBuilder, x: OfEachThread, preserve_type: Operand = False) -> Value:
    """A tile with one element for each thread of the block or, inside a role, of the role.

    In the last block of a launch threads may be absent: reductions and stores skip their elements, other
    functions see 0.

    Parameters:
        preserve_type: whether the elements of the tile are vectors or matrices; False by default.
    Returns:
        with B threads, a tile (B,) of a scalar; of a vector (N,) a tile (N, B) and of a matrix (M, N) a tile
        (M, N, B) of scalars, or with `preserve_type` a tile (B,) of their type.
    Gradient:
        for each thread its element of the adjoint.
    """
    attrs = {"lanes": b.lanes, "preserve_type": bool(preserve_type), "partial": b.partial}
    return b.one(TileFromLanes, [b.value(x)], attrs)


@public("untile")
def untile(b: OpBuilder, a: Operand) -> Value:
    """The element of a tile that belongs to each thread: the inverse of tg.tile.

    Parameters:
        a: with B threads, a tile (B,), (N, B) of scalars or (M, N, B) of scalars.
    Returns:
        the element, a vector (N,) or a matrix (M, N), of each thread.
    Raises:
        type-mismatch: the last length is not B, or the tile has more than 3 dimensions.
    Gradient:
        tg.tile of the adjoint.
    """
    return b.one(TileToLanes, [b.tile(a, partial=True)], {"lanes": b.lanes})


def _grid(grid: Operand) -> tuple[int, ...]:
    entries = as_tuple(grid)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in entries):
        raise TypeRule("", "", "NotConstant", culprit=grid, what="the grid of threads")
    return tuple(n for n in entries if isinstance(n, int))


@public("tile_local")
def tile_local(b: OpBuilder, a: Operand, grid: ThreadGrid) -> Value:
    """The elements of a tile that belong to a thread of a constant grid of threads: a[i::grid[0], j::grid[1], ..] for
    thread (i, j, ..).

    Parameters:
        a: a tile (N,), (M, N) or (.., M, N).
    Returns:
        a vector for a tile of one dimension, else a matrix, of ceil(extent / grid) elements in each dimension; elements
        beyond the tile are 0.
    Raises:
        type-mismatch: `a` is not a tile.
    Gradient:
        that of each element.
    """
    return b.one(TileToLanes, [b.tile(a)], {"lanes": b.lanes, "grid": _grid(grid)})


@public("tile_from_local")
def tile_from_local(
    b: OpBuilder, x: Operand, grid: ThreadGrid, shape: Shape, storage: Storage = "register"
) -> Value:
    """The tile whose elements are distributed over a constant grid of threads: the inverse of `tile_local`.

    Parameters:
        x: a vector or matrix, as `tile_local` returns for this grid and shape; the elements of absent threads are 0.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `x` is not a vector or matrix with the number of elements of one thread of the grid.
    Gradient:
        that of each element.
    """
    attrs = {"lanes": b.lanes, "preserve_type": False, "partial": False}
    attrs |= {"grid": _grid(grid), "shape": constant_shape(shape)}
    return stored(b, b.one(TileFromLanes, [b.value(x)], attrs), storage)


# Load and store ------------------------------------------------------------------------------------------------------


def offsets(b: OpBuilder, offset: Operand, rank: int) -> list[Value]:
    """The entries of an offset as integers."""
    entries = (0,) * rank if offset is None else as_tuple(offset)
    return [b.offset(x) for x in entries]


def array_operand(x: Operand) -> tuple[Value, ArrayType]:
    """An operand that is an array, and its type; raises TypeRule for any other operand."""
    if isinstance(x, Value) and isinstance(x.type, ArrayType):
        return x, x.type
    raise TypeRule(f"expected an array, got {describe(x)}", culprit=x)


def element_literal(b: OpBuilder, x: Operand, t: ElementType) -> Value:
    """An operand as an element of a type, to which a literal is converted."""
    if isinstance(x, int) and scalar_of(t).is_float:
        x = float_literal(x)
    return x if isinstance(x, Value) else b.const(x, t)


@public("tile_load", fields=moved("a"))
def tile_load(
    b: OpBuilder,
    a: Operand,
    shape: Shape,
    offset: Offset = None,
    storage: Storage = "register",
    bounds_check: BoundsCheck = True,
    aligned: Aligned = False,
    fill: Operand = 0,
    mask: Mask = None,
    other: Operand | None = None,
) -> Value:
    """A tile copied from an array; elements outside of the array are `fill`, elements that the mask does not select are
    `other`.

    Parameters:
        a: an array of any dtype, with one dimension for each length of `shape`.
        fill: the value of elements outside of the array, of the dtype of `a`; 0 by default.
        other: the value of elements where `mask` is False, a scalar, vector or matrix of the dtype of `a`; 0 by
            default. Only with `mask`.
    Returns:
        a tile of `shape` and the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, the numbers of dimensions differ, `fill` or `other` has another type, or
            `other` is given without `mask`.
    Gradient:
        adds to the gradient of the array, inside of it and where `mask` is True; the sum over the other elements for
        `other`; refused (no-gradient) for `fill`.
    """
    array, array_type = array_operand(a)
    shape = constant_shape(shape)
    t = array_type.dtype
    filling = element_literal(b, fill, t)
    attrs = {"shape": shape, "bounds_check": bool(bounds_check), "aligned": bool(aligned)}
    loaded = b.one(TileLoad, [array, filling, *offsets(b, offset, len(shape))], attrs)
    if mask is None:
        message = "other= is the value of the elements that mask= does not select, and there is no mask"
        require(other is None, message, "the value of elements outside of the array is fill=")
    else:
        selected = selection(b, mask, shape, "tile_load")
        loaded = b.map(
            lambda xs: b.one(S.Select, xs),
            [selected, loaded, _masked_value(b, 0 if other is None else other, t)],
        )
    return stored(b, loaded, storage)


def _masked_value(b: OpBuilder, other: Operand, t: ElementType) -> Value:
    """The value of the elements that a mask does not select."""
    literal = element_literal(b, other, t)
    require(literal.type == t, f"other must be {t}, got {literal.type}")
    return literal


@public("tile_store", fields=moved("a", "t"))
def tile_store(
    b: OpBuilder,
    a: Operand,
    t: Operand,
    offset: Offset = None,
    bounds_check: BoundsCheck = True,
    aligned: Aligned = False,
    mask: Mask = None,
) -> None:
    """Writes a tile to an array; elements outside of the array, elements of absent threads, and elements that the mask
    does not select are dropped. With a mask each element is stored separately, not as part of a vector access.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, the dtypes or the numbers of dimensions differ, or an
            offset is not an integer.
    Gradient:
        the gradient of the part of the array that was written, which is 0 afterwards.
    """
    (array, array_type), value = array_operand(a), b.tile(t, partial=True)
    shape = tile_shape(value)
    offset_values = offsets(b, offset, len(shape))
    if mask is None:
        attrs = {"bounds_check": bool(bounds_check), "aligned": bool(aligned)}
        b.emit(TileStore, [array, value, *offset_values], attrs)
        return
    access_types(array_type, shape, [v.type for v in offset_values])
    b.emit(
        ArrayScatter,
        [array, value, selection(b, mask, shape, "tile_store"), *coordinates(b, shape, offset_values)],
    )


ATOMIC = """{what} of an array and of a tile, each atomically, once for the block.

    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`{dtypes}.
        t: a tile of the dtype of `a`.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ.
    Gradient:
        {gradient}
    """
_REFUSED = "refused (no-gradient)."
_ADDED = "the gradient of these elements, for `t`; refused (no-gradient) for the returned elements."
ATOMICS = {
    "add": {
        "what": "Stores the sums of the elements",
        "dtypes": ", of any dtype but bool",
        "gradient": _ADDED,
    },
    "min": {"what": "Stores the minima of the elements", "dtypes": "", "gradient": _REFUSED},
    "max": {"what": "Stores the maxima of the elements", "dtypes": "", "gradient": _REFUSED},
}


def _tile_atomic(op: str) -> None:
    def build(
        b: OpBuilder,
        a: Operand,
        t: Operand,
        offset: Offset = None,
        bounds_check: BoundsCheck = True,
        mask: Mask = None,
    ) -> Value:
        (array, array_type), value = array_operand(a), b.tile(t, partial=True)
        shape = tile_shape(value)
        offset_values = offsets(b, offset, len(shape))
        if mask is None:
            return b.one(
                TileAtomic, [array, value, *offset_values], {"op": op, "bounds_check": bool(bounds_check)}
            )
        access_types(array_type, shape, [v.type for v in offset_values])
        in_bounds = selection(b, mask, shape, f"tile_atomic_{op}")
        return b.one(
            ArrayScatterAtomic, [array, value, in_bounds, *coordinates(b, shape, offset_values)], {"op": op}
        )

    def before(
        b: OpBuilder,
        a: Operand,
        t: Operand,
        offset: Offset = None,
        bounds_check: BoundsCheck = True,
        mask: Mask = None,
    ) -> Value:
        """The previous elements, for the leaves of a struct that cannot be added."""
        shape = tile_shape(b.tile(t, partial=True))
        return tile_load(b, a, shape, offset, bounds_check=bounds_check, mask=mask)

    build.__doc__ = ATOMIC.format(**ATOMICS[op])
    public(f"tile_atomic_{op}", fields=added("a", "t", pass_through=before) if op == "add" else None)(build)


for _op in ATOMICS:
    _tile_atomic(_op)
