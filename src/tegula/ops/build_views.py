"""Views and joins of tiles in the language: slices, reshapes, permutations, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tegula.ir import TypeRule, Value
from tegula.ops.base import INDICES, public, require, require_range
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, is_packed, split_layout
from tegula.ops.build_tile import constant_shape, tile_axis, tile_shape
from tegula.ops.builder import (
    OpBuilder,
    Operand,
    as_tuple,
    is_tuple,
)
from tegula.ops.concat import TileConcat
from tegula.ops.indexing import KernelBuilder
from tegula.ops.kinds import ATile, ComponentType, FirstAxis, Shape
from tegula.ops.scalar import Add, Mul
from tegula.ops.structs import moved
from tegula.ops.tile import (
    MAX_DIMENSIONS,
    TilePermute,
    TileReshape,
    TileSlice,
    check_shape,
)
from tegula.types import (
    BufType,
    TileType,
    element_type,
    float32,
    int32,
    scalar_of,
)


def _view(
    b: OpBuilder, x: Operand, spec: tuple[Sequence[Value], Sequence[int], Sequence[int], Sequence[int]]
) -> Value:
    """A view of part of a tile object, or a slice of a tile value. `spec`: starts, shape, dims, steps."""
    starts, shape, dims, steps = spec
    attrs = {"shape": tuple(shape), "dims": tuple(dims), "steps": tuple(steps)}
    if isinstance(x, Value) and isinstance(x.type, BufType):
        return b.one(BufView, [x, *starts], attrs)
    return b.one(TileSlice, [b.tile(x), *starts], attrs)


@public("tile_view", fields=moved("t"))
def tile_view(b: KernelBuilder, t: Operand, offset: Operand, shape: Operand = None) -> Value:
    """A view of part of a tile, like t[offset].

    An offset that leaves the tile at run time is undefined without debug mode.

    Parameters:
        t: a tile of up to 4 dimensions.
        offset: an index or a slice for each leading dimension; with `shape` the index of the first element, in
            elements. Negative indices count from the end.
        shape: the lengths of the view in the last dimensions of `t`, constants; by default, the offset is a subscript
            that determines the lengths.
    Returns:
        a view: writes to the view change `t` if `t` is bound to a name.
    Raises:
        type-mismatch: `t` is not a tile, an offset is not an integer, or `shape` is given with a slice.
        not-constant: `shape` or a bound of a slice is known at run time only.
        out-of-range: a constant offset or the shape leaves the tile, or a length is below 1.
        tile-too-large: `shape` has more than 2**26 elements.
        out-of-bounds: an offset leaves the tile, in debug mode.
    Gradient:
        the adjoint at the elements of the view, 0 elsewhere.
    """
    full_shape = tile_shape(t)
    entries = as_tuple(offset)
    if shape is None:
        return b.view(t, entries)
    has_slices = any(isinstance(i, slice) for i in entries)
    require(
        not has_slices,
        "tile_view takes no 'shape' together with a slice",
        "the slice determines the length of the view",
    )
    extents = constant_shape(shape)
    message = f"tile_view takes at most {len(full_shape)} offsets here, got {len(entries)}"
    require_range(len(entries) <= len(full_shape), message, "give one entry for each dimension of the tile")
    starts = [b.index(i) for i in (*entries, *(0,) * (len(full_shape) - len(entries)))]
    leading = len(full_shape) - len(extents)
    message = f"a view of shape {extents} does not fit a tile of shape {full_shape}"
    require_range(leading >= 0, message, f"give the view at most {len(full_shape)} dimensions")
    for n, dim in zip(extents, full_shape[leading:], strict=True):
        require_range(n <= dim, message, "no dimension of a view is longer than the tile's")
    _check_constant_starts(entries, extents, full_shape)
    return _view(b, t, (starts, extents, tuple(range(leading, len(full_shape))), (1,) * len(extents)))


def _check_constant_starts(
    starts: Sequence[Operand], extents: Sequence[int], full_shape: Sequence[int]
) -> None:
    leading = len(full_shape) - len(extents)
    for d, start in enumerate(starts):
        if isinstance(start, int):
            n = extents[d - leading] if d >= leading else 1
            require_range(
                0 <= start and start + n <= full_shape[d],
                f"elements {start} to {start + n - 1} of the view exceed dimension {d} of a tile of shape {full_shape}",
                f"start at 0 to {full_shape[d] - n}",
            )


@public("tile_squeeze", fields=moved("t"))
def tile_squeeze(b: OpBuilder, t: Operand, axis: Operand = None) -> Value:
    """A view of a tile without dimensions of length 1.

    Parameters:
        t: a tile of up to 4 dimensions.
        axis: the dimensions to leave out, an int or a tuple of constants, negative ones from the end; all of
            length 1 by default.
    Returns:
        a view with the other dimensions; of shape (1,) if all lengths are 1.
    Raises:
        type-mismatch: `t` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension, or its length is not 1.
    Gradient:
        the adjoint under the shape of `t`.
    """
    shape = tile_shape(t)
    ones = [d for d, n in enumerate(shape) if n == 1]
    axes_given = [] if axis is None else [tile_axis(shape, d, "tile_squeeze") for d in as_tuple(axis)]
    axes = ones if axis is None else [d for d in axes_given if d is not None]
    for d in axes:
        require_range(
            shape[d] == 1,
            f"axis {d} of a tile of shape {shape} has length {shape[d]}, only axes of length 1 can be squeezed",
            f"leave out axis {d}",
        )
    dimensions = [d for d in range(len(shape)) if d not in axes] or [0]
    zeros = [b.const(0, int32) for _ in shape]
    return _view(b, t, (zeros, [shape[d] for d in dimensions], dimensions, [1] * len(dimensions)))


@public("tile_reshape", fields=moved("t"))
def tile_reshape(b: OpBuilder, t: Operand, shape: Operand) -> Value:
    """The elements of a tile, in row-major order, in another shape.

    Parameters:
        t: a tile of up to 4 dimensions.
        shape: 1 to 4 lengths, constants, with the same number of elements; one length may be -1, and is computed from
            the others.
    Returns:
        a view; a read-only copy if no view of a strided view has this shape.
    Raises:
        type-mismatch: `t` is not a tile.
        not-constant: a length is known at run time only.
        out-of-range: the number of elements would change.
        shape-mismatch: the number of elements of a value without a name would change.
        tile-too-large: `shape` has more than 2**26 elements.
    Gradient:
        the adjoint under the shape of `t`.
    """
    old_shape = tile_shape(t)
    total = TileType(float32, old_shape).size
    entries = as_tuple(shape)
    for n in entries:
        if not isinstance(n, int):
            raise TypeRule("", "", "NotConstant", culprit=n, what="the shape of a tile")
    known = TileType(float32, tuple(n for n in entries if n != -1)).size
    require_range(
        entries.count(-1) <= 1 and known > 0,
        f"cannot reshape a tile of shape {old_shape} to {entries}",
        "choose a shape with the same number of elements",
    )
    result_shape = check_shape([total // known if n == -1 else n for n in entries])
    if not (isinstance(t, Value) and isinstance(t.type, BufType)):
        return b.one(TileReshape, [b.tile(t)], {"shape": result_shape})
    if is_packed(t):
        return b.one(BufReshape, [t], {"shape": result_shape})
    return _reshape_strided_view(b, t, old_shape, result_shape)


def _reshape_strided_view(
    b: OpBuilder, t: Value, old_shape: tuple[int, ...], shape: tuple[int, ...]
) -> Value:
    """A strided view in another shape. The result is a view if each of its dimensions runs along one old dimension, or
    along several with a common stride. Otherwise it is a read-only copy, because writes to a copy would not change the
    original tile."""
    require_range(
        TileType(float32, old_shape).size == TileType(float32, shape).size,
        f"cannot reshape a tile of shape {old_shape} to {shape}",
        "choose a shape with the same number of elements",
    )
    zeros = b.const(0, int32)
    source, starts = t, [zeros for _ in old_shape]
    layout = split_layout([(n, d, 1) for d, n in enumerate(old_shape)], shape)
    if layout is None:
        flat, start, steps = _flat_object(b, t)
        source, starts = flat, [start]
        layout = split_layout([(n, 0, step) for n, step in zip(old_shape, steps, strict=True)], shape)
    if layout is not None:
        extents, dims, steps = zip(*layout, strict=True)
        return _view(b, source, (starts, extents, dims, steps))
    reshaped = b.one(TileReshape, [b.tile(t)], {"shape": shape})
    b.read_only[reshaped] = "tile_reshape of a strided view"
    return reshaped


def _flat_object(b: OpBuilder, t: Value) -> tuple[Value, Value, list[int]]:
    """The packed object that contains a view, flattened to one dimension; the flat index of the view's first element;
    and the strides of the view's dimensions, in elements."""
    shape = tile_shape(t)
    if is_packed(t):
        flat = b.one(BufReshape, [t], {"shape": (prod(shape),)})
        return flat, b.const(0, int32), [prod(shape[d + 1 :]) for d in range(len(shape))]
    view = t.owner
    assert isinstance(view, BufView)
    flat, first_index, strides = _flat_object(b, view.buffer)
    for start, stride in zip(view.starts, strides, strict=True):
        first_index = b.one(Add, [first_index, b.one(Mul, [b.cast(start, int32), b.const(stride, int32)])])
    steps = zip(view.dims, view.steps, strict=True)
    return flat, first_index, [strides[d] * step if d >= 0 else 0 for d, step in steps]


@public("tile_broadcast", fields=moved("a"))
def tile_broadcast(b: OpBuilder, a: ATile, shape: Shape) -> Value:
    """A tile repeated to a larger shape, by the rules of NumPy.

    Returns:
        a read-only tile of `shape`: tg.copy returns a copy that can be changed.
    Raises:
        shape-mismatch: `a` does not broadcast to `shape`.
    Gradient:
        the sum of the adjoint over the repeated dimensions.
    """
    entries = as_tuple(shape)
    message = f"tile_broadcast() output must have between one and four dimensions, got {len(entries)}"
    require_range(1 <= len(entries) <= MAX_DIMENSIONS, message, "put the other dimensions into loops")
    result = b.broadcast(b.tile(a), constant_shape(shape))
    b.read_only[result] = "tile_broadcast"
    return result


def is_permutation(axes: Operand, rank: int) -> bool:
    """Whether constants name each of `rank` dimensions exactly once."""
    entries = as_tuple(axes)
    return all(type(d) is int for d in entries) and sorted(entries) == list(range(rank))


@public("tile_permute", fields=moved("a"))
def tile_permute(b: OpBuilder, a: Operand, axes: Operand) -> Value:
    """A view of a tile with its dimensions in another order: dimension k of the view is dimension axes[k].

    Parameters:
        a: a tile of up to 4 dimensions.
        axes: each dimension once, a tuple of constants.
    Returns:
        a view.
    Raises:
        type-mismatch: `a` is not a tile.
        out-of-range: `axes` does not name each dimension once.
    Gradient:
        the adjoint, permuted back.
    """
    shape = tile_shape(a)
    require_range(
        is_permutation(axes, len(shape)),
        f"{axes} is not a permutation of {len(shape)} dimensions",
        f"give each of 0 to {len(shape) - 1} once, as in tile_permute(t, {tuple(reversed(range(len(shape))))})",
    )
    order: tuple[int, ...] = tuple(axes)
    if isinstance(a, Value) and isinstance(a.type, BufType):
        zeros = [b.const(0, int32) for _ in shape]
        return _view(b, a, (zeros, [shape[d] for d in order], order, (1,) * len(shape)))
    return b.one(TilePermute, [b.tile(a)], {"perm": order})


@public("tile_transpose", fields=moved("a"))
def tile_transpose(b: OpBuilder, a: Operand) -> Value:
    """A view of the transpose of a 2-D tile, like t.T.

    Parameters:
        a: a tile (M, N).
    Returns:
        a view (N, M).
    Raises:
        type-mismatch: `a` is not a tile of 2 dimensions.
    Gradient:
        the transpose of the adjoint.
    """
    require(len(tile_shape(a)) == 2, f"tile_transpose takes a 2-D tile, got shape {tile_shape(a)}")
    return tile_permute(b, a, (1, 0))


@public("tile_astype")
def tile_astype(b: OpBuilder, t: ATile, dtype: ComponentType) -> Value:
    """A tile converted to another scalar type.

    Numbers are converted as tg.cast does.

    Returns:
        a new tile of the shape of `t`.
    Gradient:
        the adjoint, converted; refused (no-gradient) if floats were converted to integers.
    """
    return b.tile(b.cast(b.tile(t, partial=True), scalar_of(element_type(dtype))), partial=True)


@public("tile_assign", fields=moved("dst", "src"))
def tile_assign(b: KernelBuilder, dst: Operand, src: Operand, offset: Operand = None) -> None:
    """Copies a tile into another tile; the tiles may overlap.

    Parameters:
        dst: a tile bound to a name, or a view of one.
        src: a tile that is not longer than `dst` in any dimension; elements are converted to the dtype of
            `dst`.
        offset: the index in `dst` of the first element, integers, in elements; 0 by default.
    Raises:
        type-mismatch: `dst` is not a tile bound to a name, `src` is not a tile, or an offset is not an integer.
        out-of-range: `src` leaves `dst`.
        popped-tile-changed: `dst` was popped from a pipe.
        out-of-bounds: an offset leaves `dst`, in debug mode.
    Gradient:
        the adjoint of the written part of `dst`, for `src`; for previous elements of `dst`, 0 in this part.
    """
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


@public("tile_concat", fields=moved("tiles"))
def tile_concat(b: OpBuilder, tiles: Operand, axis: FirstAxis = 0) -> Value:
    """Tiles joined along a dimension.

    Parameters:
        tiles: a tuple of tiles of one dtype, whose shapes are equal except along `axis`.
    Returns:
        a new tile.
    Raises:
        type-mismatch: `tiles` is not a tuple of tiles, or the dtypes differ.
        shape-mismatch: the shapes differ in another dimension.
    Gradient:
        each tile's part of the adjoint.
    """
    if not is_tuple(tiles) or not tiles:
        raise TypeRule("tile_concat takes a tuple of tiles")
    return b.one(TileConcat, [b.tile(t) for t in tiles], {"axis": tile_axis(tile_shape(tiles[0]), axis)})


@public("tile_extract", rest=(*INDICES, "m", "n"), fields=moved("a"))
def tile_extract(b: KernelBuilder, a: ATile, *index: Operand) -> Operand:
    """The element of a tile at an index, like a[index]; the index may differ between threads.

    Without debug mode, an element outside of the tile is undefined.

    Parameters:
        *index: an integer for each dimension of the tile, and optionally for each dimension of a vector or matrix
            element; negative indices count from the end. With fewer indices the result is a view.
    Returns:
        a scalar, vector or matrix; a view if indices are missing.
    Raises:
        type-mismatch: an index is not an integer.
        out-of-range: a constant index leaves the tile.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        adds to the adjoint of that element.
    """
    tile_shape(a)
    return b.subscript(a, index)


@public("copy", fields=moved("t"))
def copy(b: OpBuilder, t: Operand) -> Value:
    """A copy of a tile in separate storage.

    Parameters:
        t: a tile or a view of one.
    Returns:
        a new tile of the same shape and dtype, which can be changed.
    Raises:
        type-mismatch: `t` is not a tile; arrays are copied on the host.
    Gradient:
        the adjoint.
    """
    tile = b.tile(t, partial=True)
    return b.one(BufRead, [b.one(BufNew, [tile], {"storage": "register"})]) if tile in b.read_only else tile
