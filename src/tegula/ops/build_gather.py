"""Gathers and scatters between tiles and arrays: at the indices in a tile, or at the elements that a mask selects."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import TypeRule, Value
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic
from tegula.ops.base import public
from tegula.ops.build_coordinates import coordinate, selection
from tegula.ops.build_tile import (
    array_operand,
    constant_shape,
    element_literal,
    offsets,
    stored,
    tile_axis,
    tile_shape,
)
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.kinds import FirstAxis, Mask, Offset, Shape, Storage, TileOfIndices
from tegula.ops.structs import added, moved
from tegula.ops.tile import access_types, tile_type
from tegula.types import scalar_of


def _coordinates_of(
    b: OpBuilder,
    a: Operand,
    shape: Sequence[int],
    indices: Operand,
    offset: Operand,
    axis: Operand,
    name: str,
) -> tuple[Value, list[Value]]:
    """An array, and the coordinates in the array of the elements of a tile of `shape`: at `offset`, plus `indices`
    along `axis`."""
    array, t = array_operand(a)
    offset_values = offsets(b, offset, len(shape))
    access_types(t, shape, [v.type for v in offset_values])
    k = tile_axis(shape, axis, name)
    if k is None:
        raise TypeRule("", "", "NotConstant", culprit=axis, what="the axis")
    index_tile = b.tile(indices) if b.is_tile(indices) else None
    index_type = None if index_tile is None else tile_type(index_tile.type)
    if (
        index_tile is None
        or index_type is None
        or len(index_type.shape) != 1
        or not scalar_of(index_type.dtype).is_int
    ):
        help = "create one, as in tg.tile_arange(4, dtype=int) or tg.tile_load(numbers, shape=4)"
        message = f"indices must be a 1-D integer index tile, got {describe(indices)}"
        raise TypeRule(message, help, culprit=indices)
    if index_type.shape[0] != shape[k]:
        message = f"{name}: the number of indices must equal the length of axis {k}"
        raise TypeRule("", "", "ShapeMismatch", what=message, left=index_type.shape, right=tuple(shape))
    return array, [
        coordinate(b, shape, d, first, index_tile if d == k else None)
        for d, first in enumerate(offset_values)
    ]


@public("tile_load_indexed", fields=moved("a"))
def tile_load_indexed(
    b: OpBuilder,
    a: Operand,
    indices: TileOfIndices,
    shape: Shape,
    offset: Offset = None,
    axis: FirstAxis = 0,
    storage: Storage = "register",
    mask: Mask = None,
    other: Operand = 0,
) -> Value:
    """A tile gathered from an array: along one dimension, elements at given indices; 0 for elements outside of the
    array. Element c of the tile is the array's element at offset + c; along `axis`, at offset + indices[c]. Each
    element is loaded separately; accesses coalesce only where indices are adjacent.

    Parameters:
        a: an array of any dtype, with one dimension for each length of `shape`.
        other: the value of elements that are not loaded or outside of the array, of the dtype of `a`; 0 by default.
    Returns:
        a tile of `shape` and the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, the numbers of dimensions differ, or `other` has another type.
        shape-mismatch: the number of indices differs from the tile's length along `axis`.
    Gradient:
        adds to the gradient of the array, inside of it; refused (no-gradient) for `other`.
    """
    shape = constant_shape(shape)
    array, offset_values = _coordinates_of(b, a, shape, indices, offset, axis, "tile_load_indexed")
    operands = [array, element_literal(b, other, array_operand(a)[1].dtype)]
    operands.append(selection(b, mask, shape, "tile_load_indexed"))
    return stored(b, b.one(ArrayGather, [*operands, *offset_values]), storage)


@public("tile_store_indexed", fields=moved("a", "t"))
def tile_store_indexed(
    b: OpBuilder,
    a: Operand,
    indices: TileOfIndices,
    t: Operand,
    offset: Offset = None,
    axis: FirstAxis = 0,
    mask: Mask = None,
) -> None:
    """Scatters the elements of a tile to an array, along one dimension to given indices; elements outside of the array,
    and elements of absent threads, are dropped. Element c of the tile is written to the array's element at offset + c;
    along `axis`, at offset + indices[c]. Where indices are equal, one unspecified element is kept. Each element is
    stored separately.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ.
        shape-mismatch: the number of indices differs from the tile's length along `axis`.
    Gradient:
        the gradient of the array's elements that were written, which is 0 afterwards; elements of the tile with equal
        indices each get the gradient.
    """
    value = b.tile(t, partial=True)
    shape = tile_shape(value)
    array, offset_values = _coordinates_of(b, a, shape, indices, offset, axis, "tile_store_indexed")
    b.emit(ArrayScatter, [array, value, selection(b, mask, shape, "tile_store_indexed"), *offset_values])


def _previous_elements(
    b: OpBuilder,
    a: Operand,
    indices: TileOfIndices,
    t: Operand,
    offset: Offset = None,
    axis: FirstAxis = 0,
    mask: Mask = None,
) -> Value:
    """The previous elements, for the leaves of a struct that cannot be added."""
    return tile_load_indexed(b, a, indices, tile_shape(b.tile(t, partial=True)), offset, axis, mask=mask)


@public("tile_atomic_add_indexed", fields=added("a", "t", pass_through=_previous_elements))
def tile_atomic_add_indexed(
    b: OpBuilder,
    a: Operand,
    indices: TileOfIndices,
    t: Operand,
    offset: Offset = None,
    axis: FirstAxis = 0,
    mask: Mask = None,
) -> Value:
    """Adds the elements of a tile to elements of an array, along one dimension to the elements at given indices, each
    atomically, once for the block. Elements outside of the array, and elements of absent threads, are dropped. Element
    c of the tile is added to the array's element at offset + c; along `axis`, at offset + indices[c]; where indices are
    equal, all elements are added.

    Parameters:
        a: an array of as many dimensions as `t`, of any dtype but bool.
        t: a tile of the dtype of `a`.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ.
        shape-mismatch: the number of indices differs from the tile's length along `axis`.
    Gradient:
        the gradient of these elements, for `t`; refused (no-gradient) for the returned elements.
    """
    value = b.tile(t, partial=True)
    shape = tile_shape(value)
    array, offset_values = _coordinates_of(b, a, shape, indices, offset, axis, "tile_atomic_add_indexed")
    in_bounds = selection(b, mask, shape, "tile_atomic_add_indexed")
    return b.one(ArrayScatterAtomic, [array, value, in_bounds, *offset_values], {"op": "add"})
