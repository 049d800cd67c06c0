"""Accesses to the tiles of several blocks, one block per SIMD lane; inserted by code generation for CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Op
from tegula.ir.fields import attr, operand, output, variadic
from tegula.ops.base import require
from tegula.ops.tile import access_types, tile_type
from tegula.types import TileType, Type, bool_, int64


class TileAddress(Op):
    """The memory of a tile in an array. Results: a bool, whether all elements are in bounds and the elements of each
    row (with attribute `packed`, all elements) are adjacent; the address of the first element, and the stride of each
    dimension but the last in bytes (int64). Operands: array, one offset per dimension. Attributes: the tile's `shape`;
    `bounds_check` and `aligned` as in `tile.load`."""

    __slots__ = ()
    NAME = "tile.address"
    COOPERATIVE = True
    array = operand(index=True)
    offset = variadic(index=True)
    shape = attr()
    packed = attr(False)
    bounds_check = attr(True)
    aligned = attr(False)
    adjacent = output()
    address = output()

    def infer(self) -> Sequence[Type]:
        access_types(self.array.type, self.shape, [v.type for v in self.offset])
        return [bool_, *[int64] * len(self.shape)]


class TileLoadInLanes(Op):
    """The tiles at L addresses (int64, L), with the dimension L last. Operands: addresses, and the strides in bytes of
    each dimension of a tile but the last. Attribute `type`: the result's type."""

    __slots__ = ()
    NAME = "tile.load_in_lanes"
    COOPERATIVE = True
    PURE = False
    addresses = operand()
    strides = variadic(index=True)
    type = attr()

    def infer(self) -> Sequence[Type]:
        _check(self.type, self.addresses.type, len(self.strides))
        return [self.type]


class TileStoreInLanes(Op):
    """Stores L tiles, whose dimension L is the last, to L addresses. Operands: the tiles, then the operands of
    `tile.load_in_lanes`."""

    __slots__ = ()
    NAME = "tile.store_in_lanes"
    COOPERATIVE = True
    PURE = False
    OBSERVED = True
    tile = operand()
    addresses = operand()
    strides = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        _check(tile_type(self.tile.type), self.addresses.type, len(self.strides))
        return []


def _check(tiles: TileType, addresses: Type, strides: int) -> None:
    """Require one address per lane and one stride per dimension of a tile but the last."""
    require(
        addresses == TileType(int64, tiles.shape[-1:]) and strides == len(tiles.shape) - 2,
        f"tiles {tiles} need an address per lane and {len(tiles.shape) - 2} strides, got {addresses} and {strides}",
    )
