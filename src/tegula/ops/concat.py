"""The op that joins tiles along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import Op, TypeRule, Value
from tegula.ir.fields import attr, variadic
from tegula.ops.base import wider
from tegula.ops.tile import TileSlice, tile_type
from tegula.types import TileType, Type, int32, scalar_of

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


class TileConcat(Op):
    """Tiles joined along `axis` (attribute)."""

    __slots__ = ()
    NAME = "tile.concat"
    COOPERATIVE = True
    tiles = variadic()
    axis = attr()

    def infer(self) -> Sequence[Type]:
        tiles = [tile_type(v.type) for v in self.tiles]
        axis: int = self.axis
        first = tiles[0]
        for t in tiles[1:]:
            if t.dtype != first.dtype:
                help = (
                    "convert one of the tiles: tg.tile_astype(..., "
                    f"tg.{wider(scalar_of(first.dtype), scalar_of(t.dtype))})"
                )
                raise TypeRule(
                    f"the tiles of tile_concat must have one dtype, got {first.dtype} and {t.dtype}", help
                )
            if (t.shape[:axis], t.shape[axis + 1 :]) != (first.shape[:axis], first.shape[axis + 1 :]):
                help = f"the shapes of the tiles must be equal except along axis {axis}"
                raise TypeRule("", help, "ShapeMismatch", what="tile_concat", left=first.shape, right=t.shape)
        total = sum(t.shape[axis] for t in tiles)
        return [TileType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))]

    @staticmethod
    def ref(attrs: Mapping[str, Any], *tiles_and_rank: Any) -> np.ndarray:
        *tiles, _ = tiles_and_rank
        return np.concatenate(tiles, attrs["axis"])

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        axis: int = self.axis
        start = 0
        adjoints: list[Value | None] = []
        for tile in self.tiles:
            shape = tile_type(tile.type).shape
            starts = [b.const(start if d == axis else 0, int32) for d in range(len(shape))]
            attrs = {"shape": shape, "dims": tuple(range(len(shape))), "steps": (1,) * len(shape)}
            adjoints.append(b.one(TileSlice, [g, *starts], attrs))
            start += shape[axis]
        return adjoints
