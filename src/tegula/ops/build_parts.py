"""Functions that select, scatter or pad parts of tiles, built from views and element accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.ir import Region, TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import INDICES, public, require, require_range
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufSet, BufUpdate, BufView, accessed
from tegula.ops.build_tile import tile_axis
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe, is_tuple
from tegula.ops.control import If, Yield
from tegula.ops.indexing import KernelBuilder
from tegula.ops.kinds import ATile, FirstAxis
from tegula.ops.structs import added, moved
from tegula.types import BufType, TileType, bool_, int32, scalar_of


@public("tile_slice_indexed", fields=moved("t"))
def tile_slice_indexed(b: KernelBuilder, t: ATile, indices: Operand, axis: FirstAxis = 0) -> Operand:
    """The slices of a tile at given indices along a dimension, like t[indices].

    Parameters:
        indices: a tile (K,) of integers; negative indices count from the end; the elements at indices outside are 0.
            Without `axis`: the whole subscript as a tuple, (indices, slice(None)) for t[indices, :].
    Returns:
        a new tile of the shape of `t`, with length K along the dimension.
    Raises:
        type-mismatch: `indices` is neither a tile (K,) of integers nor a tuple with one, or `axis` is given with
            a tuple.
    Gradient:
        adds to the adjoint of each slice; none for `indices`.
    """
    value = b.tile(t)
    assert isinstance(value.type, TileType)
    if is_tuple(indices):
        subscript = as_tuple(indices)
        require(any(map(b.is_tile, subscript)), "expected a tuple with a tile of indices")
        require(axis == 0, "a tuple of indices has an entry for each dimension, and takes no axis")
        return b.subscript(t, subscript)
    require(b.is_tile(indices), f"expected a tile of indices, got {describe(indices)}")
    dimension = tile_axis(value.type.shape, axis) or 0
    return b.subscript(t, [*[slice(None)] * dimension, indices])


def _build_if(b: OpBuilder, flag: Operand, body: Callable[[], object]) -> None:
    """Build a branch that runs the ops of `body` if the flag holds."""
    regions = [Region(), Region()]
    outer_region = b.region
    for region, build in zip(regions, (body, lambda: None), strict=True):
        b.region = region
        try:
            build()
            b.emit(Yield, [])
        finally:
            b.region = outer_region
    b.emit(If, [b.truth(flag)], None, regions)


def _scatter_operands(
    b: KernelBuilder, name: str, a: Operand, args: tuple[Operand, ...]
) -> tuple[Value, list[Value], Value]:
    """The tile, the index and the value of a call (a, i, ..., value)."""
    target = b.buffer(a)
    assert isinstance(target.type, BufType)
    rank = len(target.type.shape)
    index_count = "1 index" if rank == 1 else f"{rank} indices"
    require(
        len(args) > rank, f"{name} takes a tile, {index_count}, a value, and whether this thread has a value"
    )
    *index, value = args
    indices = b.element_indices(target.type, index)
    return target, indices, b.stored(value, accessed(target.type, [i.type for i in indices]))


def _no_result(b: OpBuilder, a: Operand, *args: Operand, atomic: Operand = True) -> None:
    return None


@public("tile_scatter_add", rest=(*INDICES, "value", "has_value"), fields=added("a", pass_through=_no_result))
def tile_scatter_add(b: KernelBuilder, a: Operand, *args: Operand, atomic: Operand = True) -> None:
    """Adds the values of threads to elements of a tile: tile_scatter_add(a, i, ..., value, has_value).

    Parameters:
        a: a tile bound to a name, of any dtype but bool.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the
            value, of the dtype of `a`, then whether this thread has one, a bool or an integer.
        atomic: True or False, without effect: additions to one element are atomic in either case.
    Raises:
        type-mismatch: `a` is not a tile bound to a name, arguments are missing, an index is not an integer, or the
            value has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        the gradient of the element, for the value of each thread that has a value.
    """
    require(
        len(args) > 2,
        "tile_scatter_add takes a tile, its indices, a value, and whether this thread has a value",
    )
    require(isinstance(atomic, bool), "atomic must be True or False")
    target, indices, value = _scatter_operands(b, "tile_scatter_add", a, args[:-1])
    _build_if(b, args[-1], lambda: b.emit(BufUpdate, [target, value, *indices], {"op": "add"}))


@public("tile_scatter_masked", rest=(*INDICES, "value", "has_value"), fields=moved("a"))
def tile_scatter_masked(b: KernelBuilder, a: Operand, *args: Operand) -> None:
    """Writes the values of threads to elements of a tile: tile_scatter_masked(a, i, ..., value, has_value).

    Of several writes to one element, an unspecified one remains.

    Parameters:
        a: a tile bound to a name.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the
            value, of the dtype of `a`, then whether this thread has one, a bool or an integer.
    Raises:
        type-mismatch: `a` is not a tile bound to a name, arguments are missing, an index is not an integer, or the
            value has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
        unordered-access: no barrier that all threads reach can order the writes with other accesses.
    Gradient:
        the gradient of the element, for the value of the thread that wrote the element; refused (no-gradient) if
        threads may write different values to one element.
    """
    require(
        len(args) > 2,
        "tile_scatter_masked takes a tile, its indices, a value, and whether this thread has a value",
    )
    target, indices, value = _scatter_operands(b, "tile_scatter_masked", a, args[:-1])
    _build_if(b, args[-1], lambda: b.emit(BufSet, [target, value, *indices]))


def _constant(x: Operand, name: str) -> int:
    if not isinstance(x, int) or isinstance(x, bool):
        raise TypeRule("", "", "NotConstant", culprit=x, what=name)
    return x


@public("tile_pad")
def tile_pad(b: OpBuilder, t: ATile, pad_width: Operand, value: Operand = 0) -> Value:
    """A tile with a border of one value.

    Parameters:
        pad_width: the number of elements on every side, or a pair (before, after) for each dimension,
            constants.
        value: the value of the border, of the dtype of `t`; 0 by default.
    Returns:
        a new tile, whose lengths are before + n + after.
    Raises:
        type-mismatch: the number of pairs differs from the number of dimensions, or `value` has another type.
        not-constant: a width is known at run time only.
        out-of-range: a width is below 0, or an entry is not a pair.
        tile-too-large: the result has more than 2**26 elements.
    Gradient:
        the inner part of the adjoint; the sum of the border for `value`.
    """
    inner = b.tile(t)
    assert isinstance(inner.type, TileType)
    rank = len(inner.type.shape)
    pairs: list[Any] = [*pad_width] if is_tuple(pad_width) else [(pad_width, pad_width)] * rank
    require(len(pairs) == rank, f"pad_width needs an entry for each of {rank} dimensions, got {len(pairs)}")
    widths = [tuple(_constant(n, "the width of the padding") for n in as_tuple(pair)) for pair in pairs]
    for pair in widths:
        require_range(
            len(pair) == 2 and min(pair) >= 0,
            f"each pair of pad_width must be (before, after), both at least 0, got {pair}",
            "write pad_width=1, or pad_width=((1, 1), (0, 2)) for two dimensions; slices make tiles smaller",
        )
    shape = [low + n + high for (low, high), n in zip(widths, inner.type.shape, strict=True)]
    if isinstance(value, int) and scalar_of(inner.type.dtype).is_float:
        value = float(value)
    padded = b.one(BufNew, [b.full(shape, value, inner.type.dtype)], {"storage": "register"})
    attrs = {"shape": inner.type.shape, "dims": tuple(range(rank)), "steps": (1,) * rank}
    b.write(b.one(BufView, [padded, *(b.const(low, int32) for low, _ in widths)], attrs), inner)
    return b.one(BufRead, [padded])


def _first_tile(b: OpBuilder, a: Operand, d: Operand) -> Value:
    return b.tile(a)


@public("tile_diag_add", fields=added("a", "d", pass_through=_first_tile))
def tile_diag_add(b: OpBuilder, a: Operand, d: Operand) -> Value:
    """A square tile with a vector added to its diagonal.

    Parameters:
        a: a tile (N, N) of any dtype but bool.
        d: a tile (N,) of the same dtype.
    Returns:
        a new tile (N, N).
    Raises:
        shape-mismatch: the shapes are not (N, N) and (N,).
        type-mismatch: the dtypes differ, or are bool.
    Gradient:
        the adjoint for `a`, its diagonal for `d`.
    """
    left, right = b.tile(a), b.tile(d)
    assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
    n = right.type.shape[0]
    if left.type.shape != (n, n) or right.type.shape != (n,):
        help = "a has shape (n, n), d has shape (n,)"
        raise TypeRule(
            "", help, "ShapeMismatch", what="tile_diag_add", left=left.type.shape, right=right.type.shape
        )
    require(
        left.type.dtype == right.type.dtype and left.type.dtype != bool_,
        f"tile_diag_add adds numbers of one dtype, got {left.type.dtype} and {right.type.dtype}",
    )
    sum_tile = b.one(BufNew, [left], {"storage": "register"})
    flat = b.one(BufReshape, [sum_tile], {"shape": (n * n,)})
    attrs = {"shape": (n,), "dims": (0,), "steps": (n + 1,)}
    diagonal = b.one(BufView, [flat, b.const(0, int32)], attrs)
    b.write(diagonal, b.map(lambda xs: b.one(S.Add, xs), [b.one(BufRead, [diagonal]), right]))
    return b.one(BufRead, [sum_tile])
