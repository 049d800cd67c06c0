"""Atomic exchanges between the elements of tiles and of arrays."""

from __future__ import annotations

from tegula.ir import Value
from tegula.ops.array_gather import ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.base import public
from tegula.ops.build_coordinates import coordinates, selection
from tegula.ops.build_tile import array_operand, offsets, tile_shape
from tegula.ops.builder import OpBuilder, Operand
from tegula.ops.kinds import Mask, Offset
from tegula.ops.tile import access_types


def _tile_indices(
    b: OpBuilder, a: Operand, shape: tuple[int, ...], offset: Operand, mask: Operand, function: str
) -> list[Value]:
    """The selection, and the coordinates of the array's elements that are exchanged."""
    offset_values = offsets(b, offset, len(shape))
    access_types(array_operand(a)[1], shape, [v.type for v in offset_values])
    return [selection(b, mask, shape, function), *coordinates(b, shape, offset_values)]


@public("tile_atomic_exch")
def tile_atomic_exch(b: OpBuilder, a: Operand, t: Operand, offset: Offset = None, mask: Mask = None) -> Value:
    """Stores the elements of a tile in an array and returns the previous elements, each atomically, once for the block.
    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ.
    Gradient:
        refused (no-gradient).
    """
    (array, _), value = array_operand(a), b.tile(t, partial=True)
    coordinates = _tile_indices(b, a, tile_shape(value), offset, mask, "tile_atomic_exch")
    return b.one(ArrayScatterAtomic, [array, value, *coordinates], {"op": "exch"})


@public("tile_atomic_cas")
def tile_atomic_cas(
    b: OpBuilder, a: Operand, compare: Operand, t: Operand, offset: Offset = None, mask: Mask = None
) -> Value:
    """Compares the elements of an array with expected elements and, where both are equal, stores the elements of a
    tile, each atomically, once for the block; vectors and matrices component by component. The comparison is bitwise: a
    NaN equals itself, and -0.0 differs from 0.0. Elements outside of the array, elements of absent threads, and
    elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        compare: the expected elements, a tile that broadcasts to the shape of `t`, or one value for all.
        t: a tile of the dtype of `a`, the new elements.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ.
        shape-mismatch: `compare` does not broadcast to the shape of `t`.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        refused (no-gradient).
    """
    (array, array_type), value = array_operand(a), b.tile(t, partial=True)
    shape = tile_shape(value)
    coordinates = _tile_indices(b, a, shape, offset, mask, "tile_atomic_cas")
    if b.is_tile(compare):
        expected = b.broadcast(b.tile(compare), shape)
    else:
        expected = b.full(shape, compare, array_type.dtype)
    return b.one(ArrayScatterCas, [array, value, expected, *coordinates])
