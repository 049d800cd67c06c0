"""The tile functions of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula.fitting import shown
from tegula.ir import Value
from tegula.ops import scalar as S
from tegula.ops.base import TypeRule, public, require, require_range
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, is_packed, split_layout
from tegula.ops.builder import (
    Function,
    OpBuilder,
    Operand,
    as_tuple,
    checked_literal,
    describe,
    float_literal,
    is_tuple,
    operand_text,
)
from tegula.ops.convert import convert
from tegula.ops.indexing import KernelBuilder
from tegula.ops.lane import TileFromLanes, TileFromThread, TileToLanes
from tegula.ops.linear import TileMatmul, TileMatmulWait, scaled
from tegula.ops.scan import TileScan
from tegula.ops.tile import (
    TileArange,
    TileArgReduce,
    TileAtomic,
    TileConcat,
    TileEmpty,
    TileLoad,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
    check_shape,
    dtype_of,
)
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    ElementType,
    TileType,
    element_type,
    float32,
    float64,
    int32,
    scalar_of,
    to_numpy,
)

MOST_PENDING = 7
STORAGES = ("register", "shared")


def constant_shape(shape: Operand) -> tuple[int, ...]:
    """A tile shape from an int or a tuple of constants."""
    entries = as_tuple(shape)
    for n in entries:
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeRule("", "", "NotConstant", culprit=n, what="the shape of a tile")
    return check_shape(entries)


def stored(b: OpBuilder, tile: Value, storage: Operand) -> Value:
    """Remember the storage that the user declared for a new tile."""
    if storage not in STORAGES:
        help = "leave it out to let the compiler choose"
        raise TypeRule(
            f"storage must be 'register' or 'shared', got {operand_text(storage)}", help, "OutOfRange"
        )
    b.storage[tile] = storage
    return tile


# Construction --------------------------------------------------------------------------------------------------------


@public("tile_zeros")
def tile_zeros(b: OpBuilder, shape: Operand, dtype: Operand = float, storage: Operand = "register") -> Value:
    """A tile of zeros. `shape`: int or tuple of 1 to 4 constants."""
    t = element_type(dtype)
    return stored(b, b.full(constant_shape(shape), b.const(0, t), t), storage)


@public("tile_ones")
def tile_ones(b: OpBuilder, shape: Operand, dtype: Operand = float, storage: Operand = "register") -> Value:
    """A tile of ones."""
    t = element_type(dtype)
    return stored(b, b.full(constant_shape(shape), b.const(1, t), t), storage)


@public("tile_empty")
def tile_empty(b: OpBuilder, shape: Operand, dtype: Operand = float, storage: Operand = "register") -> Value:
    """A tile with unspecified elements."""
    made = TileType(element_type(dtype), constant_shape(shape))
    return stored(b, b.one(TileEmpty, [], {"type": made}), storage)


@public("tile_full")
def tile_full(
    b: OpBuilder, shape: Operand, value: Operand, dtype: Operand = None, storage: Operand = "register"
) -> Value:
    """A tile with `value` (may be a run-time value, the same for the block) in every element."""
    t = None if dtype is None else element_type(dtype)
    if t is not None and isinstance(value, int) and scalar_of(t).is_float:
        value = float_literal(value)
    return stored(b, b.full(constant_shape(shape), value, t), storage)


MOST_COUNTED = 2**63 - 1
COUNTED = "give it finite bounds, and a step that is not so small"


@public("tile_arange")
def tile_arange(b: OpBuilder, *args: Operand, dtype: Operand = None, storage: Operand = "register") -> Value:
    """start, start + step, ... below stop, from constants: (stop), (start, stop) or (start, stop, step). float32 unless
    `dtype` says otherwise. Floats are computed in float64 and rounded once."""
    many = f"tile_arange() accepts at most 3 positional arguments, got {len(args)}"
    require(len(args) <= 3, many, "call it as tile_arange(start, stop, step)")
    require(args, "tile_arange() needs at least a stop", "call it as tile_arange(stop)")
    named = ("stop",) if len(args) == 1 else ("start", "stop", "step")
    for name, x in zip(named, args, strict=False):
        if not isinstance(x, int | float) or isinstance(x, bool):
            what = f"tile_arange() arguments must be compile time constants, but {name} is not: {name}"
            raise TypeRule("", "", "NotConstant", culprit=x, what=what)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    require_range(step != 0, "tile_arange() step cannot be zero", "give it a positive or a negative step")
    written = f"tile_arange({', '.join(map(shown, args))})"
    first, last, by = map(float_literal, (start, stop, step))
    span = (last - first) / by if all(map(math.isfinite, (first, last, by))) else math.inf
    require_range(span <= MOST_COUNTED, f"{written} spans more elements than can be counted", COUNTED)
    count = max(0, -int(-(stop - start) // step))
    require_range(count > 0, f"{written} has zero-length: it needs a non-empty range", "count towards stop")
    check_shape((count,))
    scalar = scalar_of(element_type(dtype if dtype is not None else float))
    help = "count in int or float and compare the elements, as in a > 0"
    rounded = scalar.bits == 32 and scalar.is_float and abs(by) < 1e-46
    require_range(
        not rounded, f"tile_arange() step cannot be zero, as {step} is in float32", "give dtype=float64"
    )
    require(not scalar.is_bool, f"tile_arange() requires a numeric scalar dtype, got {scalar}", help)
    for x in (start, step) if scalar.is_int else ():
        require(
            x == int(x), f"tile_arange of {scalar} cannot count from {start} by {step}", "give it integers"
        )
    check_shape((count,))
    checked_literal(start + step * (count - 1), scalar)
    counted = scalar if scalar.is_int else _counted_in(scalar, float(start), float(step), count)
    values = [b.const(v, counted) for v in (start, step)]
    return stored(b, b.tile(b.cast(b.one(TileArange, values, {"count": count}), scalar)), storage)


def _counted_in(scalar: DType, start: float, step: float, count: int) -> DType:
    """The type in which the numbers of a range are made before they are rounded, once, to a type: float32 if that gives
    the numbers that float64 does."""
    if scalar.bits == 64:
        return scalar
    long, short = (
        TileArange.ref({"count": count}, np.array(start, kind), np.array(step, kind), 1)
        for kind in (np.float64, np.float32)
    )
    same = np.array_equal(convert(long, to_numpy(scalar)), convert(short, to_numpy(scalar)), equal_nan=True)
    return float32 if same else float64


@public("tile_from_thread")
def tile_from_thread(
    b: OpBuilder, shape: Operand, value: Operand, thread_idx: Operand, storage: Operand = "register"
) -> Value:
    """A tile filled with the value of one thread of the block."""
    lane = b.index(thread_idx)
    number = lane.owner.attrs["value"] if isinstance(lane.owner, S.Const) else 0
    if not 0 <= number < b.lanes:
        help = f"give a thread from 0 to {b.lanes - 1}, or launch with a larger block_dim"
        what = f"a block of {b.lanes} threads has no thread {number}"
        raise TypeRule(what, help, "OutOfRange", culprit=thread_idx)
    made = b.one(TileFromThread, [b.value(value), lane], {"shape": constant_shape(shape)})
    return stored(b, made, storage)


@public("tile")
def tile(b: OpBuilder, x: Operand, preserve_type: Operand = False) -> Value:
    """One element per thread: shape (block_dim,); vectors (length, block_dim), matrices (rows, cols, block_dim) unless
    `preserve_type`."""
    attrs = {"lanes": b.lanes, "preserve_type": bool(preserve_type), "partial": b.partial}
    return b.one(TileFromLanes, [b.value(x)], attrs)


@public("untile")
def untile(b: OpBuilder, a: Operand) -> Value:
    """Each thread's element of a tile whose last dimension is the block size: the inverse of `tile`."""
    return b.one(TileToLanes, [b.tile(a, partial=True)], {"lanes": b.lanes})


# Load and store ------------------------------------------------------------------------------------------------------


def _offsets(b: OpBuilder, offset: Operand, rank: int) -> list[Value]:
    entries = (0,) * rank if offset is None else as_tuple(offset)
    return [b.index(x) for x in entries]


def _array(x: Operand) -> tuple[Value, ArrayType]:
    if isinstance(x, Value) and isinstance(x.type, ArrayType):
        return x, x.type
    raise TypeRule(f"expected an array, got {describe(x)}", culprit=x)


@public("tile_load")
def tile_load(
    b: OpBuilder,
    a: Operand,
    shape: Operand,
    offset: Operand = None,
    storage: Operand = "register",
    bounds_check: Operand = True,
    aligned: Operand = False,
    fill: Operand = 0,
) -> Value:
    """A tile of `shape` from array `a` at `offset` (elements; 0 by default). Elements outside the array are `fill`.

    `aligned=True` promises a dense array, a 16-byte aligned start and a tile inside the array."""
    array, array_type = _array(a)
    shape = constant_shape(shape)
    t = array_type.dtype
    if isinstance(fill, int) and scalar_of(t).is_float:
        fill = float_literal(fill)
    filling = b.const(fill, t) if not isinstance(fill, Value) else fill
    attrs = {"shape": shape, "bounds_check": bool(bounds_check), "aligned": bool(aligned)}
    return stored(b, b.one(TileLoad, [array, filling, *_offsets(b, offset, len(shape))], attrs), storage)


@public("tile_store")
def tile_store(
    b: OpBuilder,
    a: Operand,
    t: Operand,
    offset: Operand = None,
    bounds_check: Operand = True,
    aligned: Operand = False,
) -> None:
    """Write a tile to array `a` at `offset` (elements; 0 by default). Elements outside the array are dropped."""
    (array, _), value = _array(a), b.tile(t, partial=True)
    attrs = {"bounds_check": bool(bounds_check), "aligned": bool(aligned)}
    b.emit(TileStore, [array, value, *_offsets(b, offset, len(_tile_shape(value)))], attrs)


def _tile_atomic(op: str) -> None:
    def build(
        b: OpBuilder, a: Operand, t: Operand, offset: Operand = None, bounds_check: Operand = True
    ) -> Value:
        (array, _), value = _array(a), b.tile(t, partial=True)
        operands = [array, value, *_offsets(b, offset, len(_tile_shape(value)))]
        return b.one(TileAtomic, operands, {"op": op, "bounds_check": bool(bounds_check)})

    build.__doc__ = (
        f"Atomic {op} of each element of a tile to array `a` at `offset`; the previous elements as a tile."
    )
    public(f"tile_atomic_{op}")(build)


for _op in ("add", "min", "max"):
    _tile_atomic(_op)


# Shape ---------------------------------------------------------------------------------------------------------------


def _view(
    b: OpBuilder, x: Operand, spec: tuple[Sequence[Value], Sequence[int], Sequence[int], Sequence[int]]
) -> Value:
    """A view of an object, or the same part of a value. `spec`: starts, shape, dims, steps."""
    starts, shape, dims, steps = spec
    attrs = {"shape": tuple(shape), "dims": tuple(dims), "steps": tuple(steps)}
    if isinstance(x, Value) and isinstance(x.type, BufType):
        return b.one(BufView, [x, *starts], attrs)
    return b.one(TileSlice, [b.tile(x), *starts], attrs)


def _tile_shape(x: Operand) -> tuple[int, ...]:
    if isinstance(x, Value) and isinstance(x.type, TileType | BufType):
        return x.type.shape
    raise TypeRule(f"expected a tile, got {describe(x)}", culprit=x)


@public("tile_view")
def tile_view(b: KernelBuilder, t: Operand, offset: Operand, shape: Operand = None) -> Value:
    """A view of part of a tile: `offset` gives an index (with `shape`: the first element) or a slice per dimension."""
    whole = _tile_shape(t)
    entries = as_tuple(offset)
    if shape is None:
        return b.view(t, entries)
    both = any(isinstance(i, slice) for i in entries)
    require(not both, "tile_view takes no 'shape' together with a slice", "a slice says how long the view is")
    extents = constant_shape(shape)
    what = f"tile_view takes at most {len(whole)} offsets here, got {len(entries)}"
    require_range(len(entries) <= len(whole), what, "give one for each dimension of the tile")
    starts = [b.index(i) for i in (*entries, *(0,) * (len(whole) - len(entries)))]
    lead = len(whole) - len(extents)
    what = f"a view of shape {extents} does not fit a tile of shape {whole}"
    require_range(lead >= 0, what, f"give it at most {len(whole)} dimensions")
    for n, dim in zip(extents, whole[lead:], strict=True):
        require_range(n <= dim, what, "no dimension of a view is longer than the tile's")
    _check_constant_starts(entries, extents, whole)
    return _view(b, t, (starts, extents, tuple(range(lead, len(whole))), (1,) * len(extents)))


def _check_constant_starts(starts: Sequence[Operand], extents: Sequence[int], whole: Sequence[int]) -> None:
    lead = len(whole) - len(extents)
    for d, start in enumerate(starts):
        if isinstance(start, int):
            n = extents[d - lead] if d >= lead else 1
            require_range(
                0 <= start and start + n <= whole[d],
                f"the view leaves dimension {d} of a tile of shape {whole}: elements {start} to {start + n - 1}",
                f"begin at 0 to {whole[d] - n}",
            )


@public("tile_squeeze")
def tile_squeeze(b: OpBuilder, t: Operand, axis: Operand = None) -> Value:
    """The tile without its dimensions of length 1, or without the given one(s). A view."""
    shape = _tile_shape(t)
    ones = [d for d, n in enumerate(shape) if n == 1]
    given = [] if axis is None else [tile_axis(shape, d) for d in as_tuple(axis)]
    axes = ones if axis is None else [d for d in given if d is not None]
    for d in axes:
        require_range(
            shape[d] == 1,
            f"axis {d} of a tile of shape {shape} has length {shape[d]}, only those of length 1 can be squeezed",
            f"leave out axis {d}",
        )
    kept = [d for d in range(len(shape)) if d not in axes] or [0]
    zero = [b.const(0, int32) for _ in shape]
    return _view(b, t, (zero, [shape[d] for d in kept], kept, [1] * len(kept)))


@public("tile_reshape")
def tile_reshape(b: OpBuilder, t: Operand, shape: Operand) -> Value:
    """The same elements, row-major, under another shape; one entry may be -1. A view."""
    whole = _tile_shape(t)
    total = TileType(float32, whole).size
    entries = as_tuple(shape)
    for n in entries:
        if not isinstance(n, int):
            raise TypeRule("", "", "NotConstant", culprit=n, what="the shape of a tile")
    known = TileType(float32, tuple(n for n in entries if n != -1)).size
    require_range(
        entries.count(-1) <= 1 and known > 0,
        f"cannot reshape {whole} to {entries}",
        "the number of elements must stay the same",
    )
    made = check_shape([total // known if n == -1 else n for n in entries])
    if not (isinstance(t, Value) and isinstance(t.type, BufType)):
        return b.one(TileReshape, [b.tile(t)], {"shape": made})
    if is_packed(t):
        return b.one(BufReshape, [t], {"shape": made})
    return _reshaped_view(b, t, whole, made)


def _reshaped_view(b: OpBuilder, t: Value, whole: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    """A strided view under another shape: a view where each dimension of it walks along one of the old ones. Otherwise
    a copy, which cannot be written to: nobody would see it in the tile it was made from."""
    require_range(
        TileType(float32, whole).size == TileType(float32, shape).size,
        f"cannot reshape {whole} to {shape}",
        "the number of elements must stay the same",
    )
    layout = split_layout([(n, d, 1) for d, n in enumerate(whole)], shape)
    if layout is not None:
        starts = [b.const(0, int32) for _ in whole]
        extents, dims, steps = zip(*layout, strict=True)
        return _view(b, t, (starts, extents, dims, steps))
    made = b.one(TileReshape, [b.tile(t)], {"shape": shape})
    b.read_only[made] = "tile_reshape of a strided view"
    return made


@public("tile_broadcast")
def tile_broadcast(b: OpBuilder, a: Operand, shape: Operand) -> Value:
    """The tile repeated to a larger shape by NumPy's rules. Read-only."""
    made = b.broadcast(b.tile(a), constant_shape(shape))
    b.read_only[made] = "tile_broadcast"
    return made


def is_permutation(axes: Operand, rank: int) -> bool:
    """Whether constants name each of so many dimensions once."""
    entries = as_tuple(axes)
    return all(type(d) is int for d in entries) and sorted(entries) == list(range(rank))


@public("tile_permute")
def tile_permute(b: OpBuilder, a: Operand, axes: Operand) -> Value:
    """The tile with its dimensions reordered: dimension k of the result is dimension `axes[k]`. A view."""
    shape = _tile_shape(a)
    require_range(
        is_permutation(axes, len(shape)),
        f"{axes} is no permutation of {len(shape)} dimensions",
        f"give each of 0 to {len(shape) - 1} once, as in tile_permute(t, {tuple(reversed(range(len(shape))))})",
    )
    order: tuple[int, ...] = tuple(axes)
    if isinstance(a, Value) and isinstance(a.type, BufType):
        zero = [b.const(0, int32) for _ in shape]
        return _view(b, a, (zero, [shape[d] for d in order], order, (1,) * len(shape)))
    return b.one(TilePermute, [b.tile(a)], {"perm": order})


@public("tile_transpose")
def tile_transpose(b: OpBuilder, a: Operand) -> Value:
    """The transpose of a 2-D tile. A view."""
    require(len(_tile_shape(a)) == 2, f"tile_transpose takes a 2-D tile, got shape {_tile_shape(a)}")
    return tile_permute(b, a, (1, 0))


@public("tile_astype")
def tile_astype(b: OpBuilder, t: Operand, dtype: Operand) -> Value:
    """The tile converted to another scalar type."""
    return b.tile(b.cast(b.tile(t), scalar_of(element_type(dtype))))


@public("tile_assign")
def tile_assign(b: KernelBuilder, dst: Operand, src: Operand, offset: Operand = None) -> None:
    """Copy `src` into `dst` at `offset` (constants or run-time integers); right also where the two overlap."""
    target, source = b.buffer(dst), b.tile(src)
    assert isinstance(target.type, BufType) and isinstance(source.type, TileType)
    converted = b.tile(b.cast(source, scalar_of(target.type.dtype)))
    if offset is None and source.type.shape == target.type.shape:
        b.write(target, converted)
        return
    view = tile_view(
        b, target, (0,) * len(target.type.shape) if offset is None else offset, source.type.shape
    )
    b.write(view, converted)


@public("tile_concat")
def tile_concat(b: OpBuilder, tiles: Operand, axis: int = 0) -> Value:
    """Tiles joined along an axis."""
    if not is_tuple(tiles) or not tiles:
        raise TypeRule("tile_concat takes a tuple of tiles")
    return b.one(TileConcat, [b.tile(t) for t in tiles], {"axis": tile_axis(_tile_shape(tiles[0]), axis)})


@public("tile_extract")
def tile_extract(b: KernelBuilder, a: Operand, *index: Operand) -> Operand:
    """The element (or component) of a tile at an index, as a scalar: `a[index]`."""
    return b.subscript(a, index)


@public("copy")
def copy(b: OpBuilder, t: Operand) -> Value:
    """A copy of a tile."""
    made = b.tile(t, partial=True)
    return b.one(BufRead, [b.one(BufNew, [made], {"storage": "register"})]) if made in b.read_only else made


# Maps and reductions -------------------------------------------------------------------------------------------------


@public("tile_map")
def tile_map(b: OpBuilder, op: Function, *args: Operand) -> Value:
    """op(a, ...) for every element. Up to 8 operands, tiles or values for all elements; at least one tile."""
    require(hasattr(op, "call"), f"tile_map takes a function first, got {describe(op)}")
    require(1 <= len(args) <= 8, f"tile_map takes 1 to 8 operands, got {len(args)}")
    require(any(b.is_tile(x) for x in args), "tile_map needs at least one tile")
    return b.map(lambda elements: op.call(b, list(elements)), list(args))


def tile_axis(shape: Sequence[int], axis: Operand) -> int | None:
    """A constant axis counted from the front; None for the whole tile."""
    if axis is None:
        return None
    if not isinstance(axis, int):
        raise TypeRule("", "", "NotConstant", culprit=axis, what="the axis")
    have = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
    help = f"axes go from {-len(shape)} to {len(shape) - 1}"
    require_range(
        -len(shape) <= axis < len(shape), f"axis {axis} is out of bounds for tile with {have}", help
    )
    return axis % len(shape)


def _reduce(
    b: OpBuilder, t: Operand, combine: Callable[[Value, Value], Operand], axis: Operand, keepdims: Operand
) -> Value:
    value = b.tile(t, partial=True)
    assert isinstance(value.type, TileType)
    region = b.region_of([value.type.dtype] * 2, lambda args: b.value(combine(*args)))
    attrs = {"axis": tile_axis(value.type.shape, axis), "keepdims": bool(keepdims)}
    return b.one(TileReduce, [value], attrs, [region])


@public("tile_reduce")
def tile_reduce(
    b: OpBuilder, op: Function, t: Operand, axis: Operand = None, keepdims: Operand = False
) -> Value:
    """The elements combined by an associative and commutative function; shape (1,), or without `axis`."""
    require(hasattr(op, "call"), f"tile_reduce takes a function first, got {describe(op)}")
    return _reduce(b, t, lambda x, y: op.call(b, [x, y]), axis, keepdims)


@public("tile_sum")
def tile_sum(b: OpBuilder, a: Operand, axis: Operand = None, keepdims: Operand = False) -> Value:
    """The sum of all elements, shape (1,), or along an axis. 16-bit floats are summed in float32."""
    value = b.tile(a, partial=True)
    scalar = scalar_of(dtype_of(value.type))
    if scalar.is_float and scalar.bits < 32:
        wide = b.tile(b.cast(value, float32), partial=True)
        return b.cast(_reduce(b, wide, lambda x, y: b.one(S.Add, [x, y]), axis, keepdims), scalar)
    return _reduce(b, value, lambda x, y: b.one(S.Add, [x, y]), axis, keepdims)


@public("tile_min")
def tile_min(b: OpBuilder, a: Operand, axis: Operand = None, keepdims: Operand = False) -> Value:
    """The smallest element, shape (1,), or along an axis; NaN never wins over a number."""
    return _reduce(b, a, lambda x, y: b.one(S.Min, [x, y]), axis, keepdims)


@public("tile_max")
def tile_max(b: OpBuilder, a: Operand, axis: Operand = None, keepdims: Operand = False) -> Value:
    """The largest element, shape (1,), or along an axis; NaN never wins over a number."""
    return _reduce(b, a, lambda x, y: b.one(S.Max, [x, y]), axis, keepdims)


@public("tile_argmin")
def tile_argmin(b: OpBuilder, a: Operand) -> Value:
    """The row-major index of the smallest element, int32, shape (1,); the lowest index wins ties. As in `min`, a NaN
    never wins over a number, and -0.0 is below 0.0; of NaNs only, 0."""
    return b.one(TileArgReduce, [b.tile(a, partial=True)], {"op": "min"})


@public("tile_argmax")
def tile_argmax(b: OpBuilder, a: Operand) -> Value:
    """The row-major index of the largest element, int32, shape (1,); the lowest index wins ties. As in `max`, a NaN
    never wins over a number, and -0.0 is below 0.0; of NaNs only, 0."""
    return b.one(TileArgReduce, [b.tile(a, partial=True)], {"op": "max"})


@public("tile_dot")
def tile_dot(b: OpBuilder, a: Operand, c: Operand) -> Value:
    """The sum of the products of two tiles' elements (vectors: of their inner products), shape (1,)."""
    from tegula.ops.build_math import dot

    def product(x: Value, y: Value) -> Operand:
        return b.one(S.Mul, [x, y]) if isinstance(x.type, DType) else dot(b, x, y)

    return tile_sum(b, b.map(lambda args: product(*args), [a, c]))


@public("tile_axpy")
def tile_axpy(b: OpBuilder, alpha: Operand, src: Operand, dest: Operand) -> None:
    """dest += alpha * src."""
    b.inplace("add", b.buffer(dest), b.binary("mul", alpha, src))


def _least_winner(dtype: ElementType, largest: bool) -> Any:
    """What loses to everything in a minimum (or, the `largest`, a maximum): of floats a NaN."""
    scalar = scalar_of(dtype)
    if scalar.is_float:
        return float("nan")
    info = np.iinfo(to_numpy(scalar))
    return int(info.max if largest else info.min)


def _running_sum(name: str, exclusive: bool, doc: str) -> None:
    def build(b: OpBuilder, a: Operand) -> Value:
        value = b.tile(a, partial=True)
        scalar = scalar_of(dtype_of(value.type))
        short = scalar.is_float and scalar.bits < 32
        wide = b.tile(b.cast(value, float32), partial=True) if short else value
        made = _scan(b, wide, S.Add, 0, exclusive)
        return b.tile(b.cast(made, scalar), partial=True) if short else made

    build.__doc__ = doc
    public(name)(build)


def _running_extreme(name: str, op: type[Any], doc: str) -> None:
    def build(b: OpBuilder, a: Operand) -> Value:
        value = b.tile(a, partial=True)
        return _scan(b, value, op, _least_winner(dtype_of(value.type), largest=op is S.Min), exclusive=False)

    build.__doc__ = doc
    public(name)(build)


def _scan(b: OpBuilder, value: Value, op: type[Any], identity: Any, exclusive: bool) -> Value:
    t = dtype_of(value.type)
    region = b.region_of([t, t], lambda args: b.one(op, args))
    return b.one(TileScan, [value, b.const(identity, t)], {"exclusive": exclusive}, [region])


SHORT_SUMS = "16-bit floats are summed in float32."
SHY_NANS = "NaN until the first number, which no NaN wins over."
_running_sum("tile_scan_inclusive", False, f"Running sums over the row-major elements. {SHORT_SUMS}")
_running_sum("tile_scan_exclusive", True, f"Running sums of the elements before each one. {SHORT_SUMS}")
_running_extreme("tile_scan_max_inclusive", S.Max, f"Running maxima over the row-major elements; {SHY_NANS}")
_running_extreme("tile_scan_min_inclusive", S.Min, f"Running minima over the row-major elements; {SHY_NANS}")


# Products ------------------------------------------------------------------------------------------------------------


@public("tile_matmul")
def tile_matmul(
    b: OpBuilder,
    a: Operand,
    c: Operand,
    out: Operand = None,
    alpha: Operand = 1.0,
    beta: Operand = 1.0,
    precision: Operand = "default",
    wait: Operand = True,
) -> Value | None:
    """out = alpha * a @ c + beta * out in place; without `out` the product as a new tile of a's type.

    a: (M, K), c: (K, N), out: (M, N). Sums are in out's type (float32 for 8- and 16-bit results, rounded once).
    Where `beta` is 0 what `out` held does not count, and where `alpha` is 0, a and c do not: NaNs there leave no trace.
    `precision`: "default", or "tf32": GPUs round float32 operands to 10 bits of fraction, a CPU does not. `wait=False`
    leaves the product in flight: until tile_matmul_wait, only further products may add to `out`, and operands must not
    change."""
    what = f"precision must be the string literal 'default' or 'tf32', got {operand_text(precision)}"
    require_range(precision in ("default", "tf32"), what, "leave it out for the default")
    left, right = b.tile(a), b.tile(c)
    assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
    _check_product(left.type, right.type)
    rounding = {"precision": "tf32"} if precision == "tf32" else {}
    if out is None:
        require(
            wait, "a product in flight needs a tile to add to", "give it out, and wait with tile_matmul_wait"
        )
        t = TileType(left.type.dtype, (left.type.shape[0], right.type.shape[1]))
        return _scaled_product(b, (left, right), None, (alpha, 0), t, rounding)
    target = b.buffer(out)
    assert isinstance(target.type, BufType)
    help = "scale an operand before, or the result after the wait"
    require(wait or (alpha == beta == 1), "a product in flight takes no alpha and no beta", help)
    attrs = rounding if wait else {**rounding, "wait": False}
    t = TileType(target.type.dtype, target.type.shape)
    b.write(target, _scaled_product(b, (left, right), target, (alpha, beta), t, attrs))
    return None


def _scaled_product(
    b: OpBuilder,
    terms: tuple[Value, Value],
    target: Value | None,
    factors: tuple[Operand, Operand],
    t: TileType,
    attrs: dict[str, Any],
) -> Value:
    """alpha * a @ c + beta * target, of type t. What a constant 0 scales is not looked at."""
    alpha, beta = (_factor(b, x, t.dtype) for x in factors)
    TileMatmul([*terms, Value(t), alpha, beta], (), attrs).infer()
    if target is None or _is_zero(beta):
        current, beta = b.full(t.shape, b.const(0, t.dtype), t.dtype), _factor(b, 1, t.dtype)
    else:
        current = b.tile(target)
    if _is_zero(alpha):
        return scaled(b, current, beta)
    return b.one(TileMatmul, [*terms, current, alpha, beta], attrs)


@public("tile_matmul_wait")
def tile_matmul_wait(b: OpBuilder, pending: Operand = 0) -> None:
    """Waits until all products in flight (`tile_matmul(wait=False)`) but the last `pending` are complete."""
    if not isinstance(pending, int) or isinstance(pending, bool):
        raise TypeRule("", "", "NotConstant", culprit=pending, what="how many products may be pending")
    what = f"0 to {MOST_PENDING} products may be pending, got {pending}"
    require_range(0 <= pending <= MOST_PENDING, what, "tile_matmul_wait() waits for all of them")
    b.emit(TileMatmulWait, [], {"pending": pending})


def _check_product(left: TileType, right: TileType) -> None:
    for t in (left, right):
        require(len(t.shape) == 2, f"a matrix product takes 2-D tiles, got shape {t.shape}")
    if left.shape[1] != right.shape[0]:
        help = f"the left tile has {left.shape[1]} columns, so the right one must have {left.shape[1]} rows"
        raise TypeRule("", help, "ShapeMismatch", what="tile_matmul", left=left.shape, right=right.shape)


def _is_zero(x: Value) -> bool:
    """Whether a factor is known to be 0."""
    return isinstance(x.owner, S.Const) and x.owner.attrs["value"] == 0


def _factor(b: OpBuilder, x: Operand, t: ElementType) -> Value:
    if isinstance(x, Value):
        return x
    return b.const(x, t)
