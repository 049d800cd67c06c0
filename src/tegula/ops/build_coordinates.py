"""The coordinates of the elements of a tile in an array, and masks that select elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.tile import TileArange, TileReshape, tile_type
from tegula.types import bool_, int64


def reshaped(b: OpBuilder, tile: Value, shape: Sequence[int]) -> Value:
    """A tile value reshaped in row-major order; one length of the shape may be -1."""
    t = tile_type(tile.type)
    known = prod(n for n in shape if n != -1)
    full_shape = tuple(t.size // known if n == -1 else n for n in shape)
    return tile if full_shape == t.shape else b.one(TileReshape, [tile], {"shape": full_shape})


def along_dimension(b: OpBuilder, numbers: Value, rank: int, d: int) -> Value:
    """A 1-D tile as a tile of rank `rank` that extends along dimension `d`."""
    (n,) = tile_type(numbers.type).shape
    return reshaped(b, numbers, tuple(n if k == d else 1 for k in range(rank)))


def coordinate(
    b: OpBuilder, shape: Sequence[int], d: int, offset: Value, numbers: Value | None = None
) -> Value:
    """The coordinates along dimension `d` of the elements of a tile at an offset: a tile of int64 of `shape`.
    `numbers`: a 1-D tile of integers to add to the offset; 0, 1, ... by default."""
    if numbers is None:
        attrs = {"count": shape[d]}
        numbers = b.one(TileArange, [b.const(0, int64), b.const(1, int64)], attrs)
    first = b.value(b.cast(offset, int64))
    along_d = along_dimension(b, numbers, len(shape), d)
    index = b.map(lambda xs: b.one(S.Add, [b.value(b.cast(xs[0], int64)), xs[1]]), [along_d, first])
    return b.broadcast(index, shape)


def coordinates(b: OpBuilder, shape: Sequence[int], at: Sequence[Value]) -> list[Value]:
    """The coordinates of the elements of a tile at an offset: a tile of int64 for each dimension."""
    return [coordinate(b, shape, d, offset) for d, offset in enumerate(at)]


def select_all(b: OpBuilder, shape: Sequence[int]) -> Value:
    """The selection of all elements."""
    return b.full(shape, b.const(True, bool_))


def selection(b: OpBuilder, mask: Operand, shape: Sequence[int], function: str) -> Value:
    """A mask broadcast to a tile of bool of a shape; raises TypeRule for an operand that is not a mask or does not
    broadcast."""
    if mask is None:
        return select_all(b, shape)
    t = tile_type(b.tile(mask).type) if b.is_tile(mask) else None
    if t is None or t.dtype != bool_:
        help = "compare elements to get a mask, as in t > 0.0"
        raise TypeRule(
            f"the mask of {function} must be a tile of bool, got {describe(mask)}", help, culprit=mask
        )
    if len(t.shape) > len(shape) or any(
        n not in (1, m) for n, m in zip(reversed(t.shape), reversed(shape), strict=False)
    ):
        raise TypeRule("", "", "ShapeMismatch", what=f"mask of {function}", left=t.shape, right=tuple(shape))
    return b.broadcast(b.tile(mask), shape)
