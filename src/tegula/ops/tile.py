"""Tile values: construction, global load and store, maps, shape, reductions. All cooperative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import Effect, Region
from tegula.ops.array import array_type
from tegula.ops.base import TileOp, TypeRule, element, require, wider
from tegula.ops.buffer import accessed
from tegula.ops.convert import convert
from tegula.ops.scalar import rounded
from tegula.types import (
    ArrayType,
    BufType,
    ElementType,
    TileType,
    Type,
    components,
    from_numpy,
    int32,
    scalar_of,
)

Attrs = Mapping[str, Any]


def tile_type(t: Type, partial: bool = False) -> TileType:
    """The type as a tile type; TypeRule if it is none, or if it has absent lanes and `partial` is not allowed."""
    require(isinstance(t, TileType), f"expected a tile, got {t}")
    assert isinstance(t, TileType)
    require(partial or not t.partial, f"{t} has absent lanes; it must be filled first")
    return t


def check_shape(shape: Sequence[Any]) -> tuple[int, ...]:
    require(1 <= len(shape) <= 4, f"a tile has 1 to 4 dimensions, got {len(shape)}")
    require(
        all(isinstance(n, int) and n > 0 for n in shape),
        f"tile dimensions must be positive, got {tuple(shape)}",
    )
    return tuple(shape)


class TileFull(TileOp):
    """A tile of `shape` (attribute) with the operand in every element (group operand)."""

    __slots__ = ()
    NAME = "tile.full"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return [TileType(element(operands[0]), check_shape(attrs["shape"]))]

    @staticmethod
    def ref(attrs: Attrs, value: np.ndarray, rank: int) -> np.ndarray:
        return np.broadcast_to(value, (*attrs["shape"], *value.shape)).copy()


class TileEmpty(TileOp):
    """A tile of attribute `type` with unspecified elements (zeros in the interpreter)."""

    __slots__ = ()
    NAME = "tile.empty"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        check_shape(attrs["type"].shape)
        return [tile_type(attrs["type"], partial=True)]


def _steps_from(start: np.ndarray, step: np.ndarray, count: np.ndarray) -> np.ndarray:
    return start + step * count


class TileArange(TileOp):
    """start + step * i for i in 0 .. n-1. Operands: start, step (one scalar type); attribute `count`."""

    __slots__ = ()
    NAME = "tile.arange"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        require(
            operands[0] == operands[1] == scalar_of(element(operands[0])), "arange takes scalars of one type"
        )
        return [TileType(element(operands[0]), check_shape((attrs["count"],)))]

    @staticmethod
    def ref(attrs: Attrs, start: np.ndarray, step: np.ndarray, rank: int) -> np.ndarray:
        i = convert(np.arange(attrs["count"], dtype=np.int64), start.dtype)
        return rounded(_steps_from, np.full_like(i, start), np.full_like(i, step), i)


def _access_types(array: Type, shape: Sequence[int], offsets: Sequence[Type]) -> TileType:
    a = array_type(array)
    shape = check_shape(shape)
    require(
        len(shape) == a.ndim,
        f"a tile of shape {tuple(shape)} has another number of dimensions than {a}",
        "index or reshape the array so that the dimensions match",
    )
    require(len(offsets) == a.ndim, f"the offset has {len(offsets)} entries, the array {a.ndim} dimensions")
    for t in offsets:
        require(getattr(t, "is_int", False), f"offsets must be integers, got {t}", "convert with int(...)")
    return TileType(a.dtype, shape)


class TileLoad(TileOp):
    """Operands: array, fill value, one offset per dimension. Attributes: `shape`, `bounds_check`, `aligned`. Elements
    outside the array are the fill value."""

    __slots__ = ()
    NAME = "tile.load"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = _access_types(operands[0], attrs["shape"], operands[2:])
        require(operands[1] == tile.dtype, f"fill must be {tile.dtype}, got {operands[1]}")
        return [tile]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]),)


class TileStore(TileOp):
    """Operands: array, tile, one offset per dimension. Attributes: `bounds_check`, `aligned`. Elements outside the
    array, and elements of absent lanes, are dropped."""

    __slots__ = ()
    NAME = "tile.store"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[1], partial=True)
        wanted = _access_types(operands[0], tile.shape, operands[2:])
        if wanted.dtype != tile.dtype:
            help = f"convert the tile: tg.tile_astype(..., tg.{wanted.dtype})"
            raise TypeRule(f"the array holds {wanted.dtype}, the tile {tile.dtype}", help)
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)


class TileAtomic(TileOp):
    """Operands: array, tile, one offset per dimension; attributes `op` in add, min, max; `bounds_check`. Each element
    once, atomically; the result holds the previous elements (0 where dropped)."""

    __slots__ = ()
    NAME = "tile.atomic"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[1], partial=True)
        wanted = _access_types(operands[0], tile.shape, operands[2:])
        if wanted.dtype != tile.dtype:
            help = f"convert the tile: tg.tile_astype(..., tg.{wanted.dtype})"
            raise TypeRule(f"the array holds {wanted.dtype}, the tile {tile.dtype}", help)
        require(attrs["op"] in ("add", "min", "max"), f"no tile atomic '{attrs['op']}'")
        return [TileType(tile.dtype, tile.shape)]

    def effects(self) -> Sequence[Effect]:
        return (Effect("atomic", self.operands[0]),)


class TileMap(TileOp):
    """Operands: tiles of one shape, and scalars, vectors or matrices (group operands, the same for every element).
    Region: one element per operand in, one element out; lane ops only, nothing from outside. The result is partial if
    an operand is."""

    __slots__ = ()
    NAME = "tile.map"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tiles = [t for t in operands if isinstance(t, TileType)]
        require(tiles, "a map needs a tile")
        for t in tiles:
            if t.shape != tiles[0].shape:
                raise TypeRule("", "", "ShapeMismatch", what="tile_map", left=tiles[0].shape, right=t.shape)
        (body,) = regions
        wanted = [t.dtype if isinstance(t, TileType) else element(t) for t in operands]
        require([a.type for a in body.args] == wanted, "a map's region does not match its operands")
        made = element(body.terminator.operands[0].type)
        return [TileType(made, tiles[0].shape, any(t.partial for t in tiles))]


class TileFillAbsent(TileOp):
    """A partial tile as a full one: 0 for the elements of absent lanes."""

    __slots__ = ()
    NAME = "tile.fill_absent"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0], partial=True)
        return [TileType(tile.dtype, tile.shape)]


class TileMarkPartial(TileOp):
    """A full tile as a partial one: the elements of absent lanes are dropped from here on."""

    __slots__ = ()
    NAME = "tile.mark_partial"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0], partial=True)
        return [TileType(tile.dtype, tile.shape, True)]


class TileBroadcast(TileOp):
    """The tile under a larger `shape` (attribute), by NumPy's rules."""

    __slots__ = ()
    NAME = "tile.broadcast"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0])
        shape = check_shape(attrs["shape"])
        try:
            fits = np.broadcast_shapes(tile.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise TypeRule("", "", "ShapeMismatch", what="broadcast", left=tile.shape, right=shape)
        return [TileType(tile.dtype, shape)]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        element_part = tile.shape[rank:]
        lead = (1,) * (len(attrs["shape"]) - rank)
        return np.broadcast_to(tile.reshape(lead + tile.shape), tuple(attrs["shape"]) + element_part).copy()


class TileReshape(TileOp):
    """The same elements, row-major, under another `shape` (attribute)."""

    __slots__ = ()
    NAME = "tile.reshape"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0])
        made = TileType(tile.dtype, check_shape(attrs["shape"]))
        if made.size != tile.size:
            raise TypeRule("", "", "ShapeMismatch", what="reshape", left=tile.shape, right=made.shape)
        return [made]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        return tile.reshape((*attrs["shape"], *tile.shape[rank:]))


class TilePermute(TileOp):
    """Dimension k of the result is dimension `perm[k]` (attribute) of the operand."""

    __slots__ = ()
    NAME = "tile.permute"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0])
        perm: tuple[int, ...] = attrs["perm"]
        require(
            sorted(perm) == list(range(len(tile.shape))), f"{perm} is no permutation of {tile}'s dimensions"
        )
        return [TileType(tile.dtype, tuple(tile.shape[d] for d in perm))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        return tile.transpose((*attrs["perm"], *range(rank, tile.ndim)))


class TileSlice(TileOp):
    """Part of a tile value. Operands: tile, one start per dimension; attributes `shape`, `dims`, `steps` as in
    `buf.view`."""

    __slots__ = ()
    NAME = "tile.slice"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0])
        require(len(operands) == 1 + len(tile.shape), "a slice gives one start per dimension")
        return [TileType(tile.dtype, check_shape(attrs["shape"]))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, *starts_and_rank: Any) -> np.ndarray:
        *starts, _ = starts_and_rank
        shape: tuple[int, ...] = attrs["shape"]
        steps = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
        at = [np.full(shape, int(start)) for start in starts]
        for along, dim, step in zip(steps, attrs["dims"], attrs["steps"], strict=True):
            if dim >= 0:
                at[dim] = at[dim] + along * step
        return tile[tuple(at)]


class TileExtract(TileOp):
    """Operands: tile, indices. The element (or component) there: the value form of `buf.get`. A lane op; the index may
    differ between lanes."""

    __slots__ = ()
    NAME = "tile.extract"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return [accessed(tile_type(operands[0], partial=True), operands[1:])]


class TileGather(TileOp):
    """Operands: tile, 1-D int tile of indices; attribute `axis`. Indices wrap once when negative; outside: 0."""

    __slots__ = ()
    NAME = "tile.gather"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile, index = tile_type(operands[0]), tile_type(operands[1])
        require(
            len(index.shape) == 1 and scalar_of(index.dtype).is_int,
            f"indices must be a 1-D int tile, got {index}",
        )
        axis = attrs["axis"]
        return [TileType(tile.dtype, (*tile.shape[:axis], index.shape[0], *tile.shape[axis + 1 :]))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, index: np.ndarray, rank: int) -> np.ndarray:
        axis = attrs["axis"]
        n = tile.shape[axis]
        at = index.astype(np.int64)
        at = np.where(at < 0, at + n, at)
        inside = (at >= 0) & (at < n)
        taken = np.take(tile, np.where(inside, at, 0), axis)
        return np.where(inside.reshape((-1,) + (1,) * (tile.ndim - axis - 1)), taken, np.zeros_like(taken))


class TileConcat(TileOp):
    """Tiles joined along `axis` (attribute)."""

    __slots__ = ()
    NAME = "tile.concat"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tiles = [tile_type(t) for t in operands]
        axis: int = attrs["axis"]
        first = tiles[0]
        for t in tiles[1:]:
            if t.dtype != first.dtype:
                help = f"convert one: tg.tile_astype(..., tg.{wider(scalar_of(first.dtype), scalar_of(t.dtype))})"
                raise TypeRule(f"tile_concat joins tiles of one type, got {first.dtype} and {t.dtype}", help)
            if (t.shape[:axis], t.shape[axis + 1 :]) != (first.shape[:axis], first.shape[axis + 1 :]):
                help = f"their shapes must be equal except along axis {axis}"
                raise TypeRule("", help, "ShapeMismatch", what="tile_concat", left=first.shape, right=t.shape)
        total = sum(t.shape[axis] for t in tiles)
        return [TileType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))]

    @staticmethod
    def ref(attrs: Attrs, *tiles_and_rank: Any) -> np.ndarray:
        *tiles, _ = tiles_and_rank
        return np.concatenate(tiles, attrs["axis"])


def reduced_shape(shape: Sequence[int], axis: int | None, keepdims: bool) -> tuple[int, ...]:
    """The shape after reducing: (1,) for a whole tile or a 1-D one, the axis removed (or 1) otherwise."""
    if axis is None:
        return (1,) * len(shape) if keepdims else (1,)
    kept = [1 if d == axis else n for d, n in enumerate(shape) if keepdims or d != axis]
    return tuple(kept) or (1,)


class TileReduce(TileOp):
    """Operand: tile. Region: (a, b) -> combined, associative and commutative. Attributes: `axis` (None: all),
    `keepdims`. The order is unspecified; elements of absent lanes are skipped. A reduction along an axis other than
    the last keeps the tile partial."""

    __slots__ = ()
    NAME = "tile.reduce"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0], partial=True)
        axis = attrs["axis"]
        require(axis is None or 0 <= axis < len(tile.shape), f"{tile} has no axis {axis}")
        (body,) = regions
        require(
            [a.type for a in body.args] == [tile.dtype] * 2
            and body.terminator.operands[0].type == tile.dtype,
            f"the function must combine two {tile.dtype} into one",
        )
        partial = tile.partial and axis is not None and axis != len(tile.shape) - 1
        return [TileType(tile.dtype, reduced_shape(tile.shape, axis, attrs["keepdims"]), partial)]


class TileArgReduce(TileOp):
    """Attribute `op` in min, max. The row-major index of the extreme element, int32, shape (1,); the lowest index wins
    ties; NaN never wins over a number."""

    __slots__ = ()
    NAME = "tile.argreduce"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0], partial=True)
        require(components(tile.dtype) == 1, f"argmin and argmax need scalars, got {tile}")
        return [TileType(int32, (1,))]

    @staticmethod
    def ref(attrs: Attrs, tile: np.ndarray, rank: int) -> np.ndarray:
        flat = tile.reshape(-1).astype(np.float64) if from_numpy(tile.dtype).is_float else tile.reshape(-1)
        numbers = np.flatnonzero(~np.isnan(flat))
        if not len(numbers):
            return np.zeros(1, np.int32)
        best = (np.argmin if attrs["op"] == "min" else np.argmax)(flat[numbers])
        return numbers[best : best + 1].astype(np.int32)


class TileScan(TileOp):
    """Running combination over the row-major elements. Region as in `tile.reduce`; attribute `exclusive` (the identity
    is the second operand, then shifted by one)."""

    __slots__ = ()
    NAME = "tile.scan"
    COOPERATIVE = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        tile = tile_type(operands[0], partial=True)
        require(operands[1] == tile.dtype, f"the identity must be {tile.dtype}, got {operands[1]}")
        return [tile]


def dtype_of(t: Type) -> ElementType:
    """The element type of a tile or array."""
    assert isinstance(t, TileType | BufType | ArrayType)
    return t.dtype
