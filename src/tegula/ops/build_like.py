"""Tiles with the shape and dtype of another tile, and selects between elements of tiles."""

from __future__ import annotations

from tegula.ir import Value
from tegula.ops.base import public
from tegula.ops.build_math import where
from tegula.ops.build_tile import tile_empty, tile_full, tile_ones, tile_shape, tile_zeros
from tegula.ops.builder import OpBuilder, Operand
from tegula.ops.kinds import ATile, LikeDtype, MaskTile, SelectOperand, Storage
from tegula.ops.structs import moved
from tegula.ops.tile import tile_type


def _dtype(b: OpBuilder, a: Operand, dtype: Operand) -> Operand:
    return tile_type(b.tile(a, partial=True).type, partial=True).dtype if dtype is None else dtype


@public("tile_zeros_like", fields=moved("a"))
def tile_zeros_like(b: OpBuilder, a: ATile, dtype: LikeDtype = None, storage: Storage = "register") -> Value:
    """A tile of zeros of the shape of another tile.

    Returns:
        a tile of the shape of `a` and of `dtype`.
    Gradient:
        none: the result is a constant.
    """
    return tile_zeros(b, tile_shape(a), _dtype(b, a, dtype), storage)


@public("tile_ones_like")
def tile_ones_like(b: OpBuilder, a: ATile, dtype: LikeDtype = None, storage: Storage = "register") -> Value:
    """A tile of ones of the shape of another tile; matrices have ones everywhere.

    Returns:
        a tile of the shape of `a` and of `dtype`.
    Gradient:
        none: the result is a constant.
    """
    return tile_ones(b, tile_shape(a), _dtype(b, a, dtype), storage)


@public("tile_empty_like", fields=moved("a"))
def tile_empty_like(b: OpBuilder, a: ATile, dtype: LikeDtype = None, storage: Storage = "register") -> Value:
    """A tile with unspecified elements, of the shape of another tile.

    Returns:
        a tile of the shape of `a` and of `dtype`.
    Gradient:
        none: nothing is computed.
    """
    return tile_empty(b, tile_shape(a), _dtype(b, a, dtype), storage)


@public("tile_full_like")
def tile_full_like(
    b: OpBuilder, a: ATile, value: Operand, dtype: LikeDtype = None, storage: Storage = "register"
) -> Value:
    """A tile of the shape of another tile with one value in every element.

    Parameters:
        value: a scalar, vector, matrix or literal, the same in all threads of the block: the value of thread 0 is used.
            A number fills all components of a vector or matrix.
    Returns:
        a tile of the shape of `a` and of `dtype`.
    Raises:
        type-mismatch: `value` has another type than the elements.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        the sum of the adjoint over all elements, for `value`; none for `a`.
    """
    return tile_full(b, tile_shape(a), value, _dtype(b, a, dtype), storage)


@public("tile_where", fields=moved("value_if_true", "value_if_false"))
def tile_where(
    b: OpBuilder, cond: MaskTile, value_if_true: SelectOperand, value_if_false: SelectOperand
) -> Operand:
    """The elements of value_if_true where a mask is true, else of value_if_false: tg.where of tiles.

    Returns:
        a tile of the broadcast shape.
    Gradient:
        goes to the operand that was selected.
    """
    tile_shape(cond)
    return where(b, cond, value_if_true, value_if_false)
