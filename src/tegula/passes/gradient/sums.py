"""A builder of sums of tiles over the iterations of loops."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Region, Value, constant_number
from tegula.ops.convert import Cast
from tegula.ops.gradient import GradientBuilder
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import (
    TileAtomic,
    TileFull,
    TileLoad,
    TileMap,
    TilePermute,
    TileReshape,
    TileStore,
    addend_tiles,
)
from tegula.types import ArrayType, DType, ElementType, TileType, float32, scalar_of, with_scalar


class SumBuilder(GradientBuilder):
    """Builds kernels that sum tiles. `levels`: the loop depth of each value."""

    __slots__ = ("levels",)

    levels: dict[Value, int]

    def accumulated(self, total: Value, addend: Value) -> Value:
        """Build total + more. If `addend` is a matmul or the transpose of a matmul, `total` becomes the matmul's
        accumulator; likewise for each term of a sum with matmuls."""
        assert isinstance(total.type, TileType)
        scalar = scalar_of(total.type.dtype)
        addend = self.unrounded(addend, scalar)
        terms = _terms(addend)
        if any(_is_matmul(v, self.region) for v in terms):
            for term in terms[:-1]:
                total = self.accumulated(total, term)
            addend = terms[-1]
        before = _transposed_from(addend)
        matmul = (addend if before is None else before).owner
        if isinstance(matmul, TileMatmul) and _is_matmul(addend, self.region):
            one = self.const(1.0, scalar)
            x, y = (self.narrow(v, scalar) for v in (matmul.a, matmul.b))
            if before is not None:
                x, y = self.transposed(y), self.transposed(x)
            return self.one(TileMatmul, [x, y, total, one, one], matmul.attrs)
        total_after = self.plus(total, self.converted(addend, scalar))
        assert total_after is not None
        return total_after

    def transposed(self, tile: Value) -> Value:
        """A tile's transpose."""
        before = _transposed_from(tile)
        return self.one(TilePermute, [tile], {"perm": (1, 0)}) if before is None else before

    def add_to(self, array: Value, total: Value, offset: Sequence[Value], bounds_check: bool) -> None:
        """Build array[at] += total, rounded once."""
        assert isinstance(total.type, TileType)
        before = self.loaded(array, offset, total.type.shape, _scalar(total), bounds_check)
        after = self.plus(before, total)
        assert after is not None
        self.store(array, after, offset, bounds_check)

    def add_exclusively(self, array: Value, total: Value, offset: Sequence[Value]) -> None:
        """Build array[at] += total, where total is rounded first and no other block adds; GPUs may use bulk
        reductions."""
        assert isinstance(array.type, ArrayType)
        tile = self.converted(total, scalar_of(array.type.dtype))
        self.emit(TileAtomic, [array, tile, *offset], {"op": "add", "bounds_check": True, "exclusive": True})

    def loaded(
        self,
        array: Value,
        offset: Sequence[Value],
        shape: Sequence[int],
        to: DType,
        bounds_check: bool = True,
    ) -> Value:
        """A tile of an array, in another type."""
        assert isinstance(array.type, ArrayType)
        attrs = {"shape": tuple(shape), "bounds_check": bounds_check, "aligned": False}
        zero = self.const(0.0, array.type.dtype)
        return self.converted(self.one(TileLoad, [array, zero, *offset], attrs), to)

    def store(self, array: Value, tile: Value, offset: Sequence[Value], bounds_check: bool = True) -> None:
        """Build array[at] = tile, rounded."""
        assert isinstance(array.type, ArrayType)
        attrs = {"bounds_check": bounds_check, "aligned": False}
        self.emit(TileStore, [array, self.converted(tile, scalar_of(array.type.dtype)), *offset], attrs)

    def converted(self, tile: Value, to: DType) -> Value:
        """A tile in another scalar type."""
        assert isinstance(tile.type, TileType)
        return tile if scalar_of(tile.type.dtype) == to else self.as_scalar(tile, to)

    def unrounded(self, tile: Value, wide: DType) -> Value:
        """The tile of the type `wide` from which a tile was rounded, if there is one, else the tile."""
        owner = tile.owner
        if isinstance(owner, TilePermute | TileReshape):
            inner = self.unrounded(owner.tile, wide)
            return tile if inner is owner.tile else self.one(type(owner), [inner], owner.attrs)
        source = cast_source(tile)
        return tile if source is None or _scalar(source) != wide else source

    def narrow(self, tile: Value, wide: DType) -> Value:
        """The narrow tile from which a tile was widened, if a matmul can take it, else the tile."""
        owner = tile.owner
        if isinstance(owner, TilePermute):
            inner = self.narrow(owner.tile, wide)
            return tile if inner is owner.tile else self.one(TilePermute, [inner], owner.attrs)
        source = cast_source(tile)
        if source is None or _scalar(tile) != wide or not _scalar(source).is_float:
            return tile
        return source if _scalar(source).bits < wide.bits else tile


def cast_source(tile: Value) -> Value | None:
    """The float tile from which a tile is converted, if the tile is a conversion."""
    owner = tile.owner
    if not isinstance(owner, TileMap) or len(owner.inputs) != 1:
        return None
    cast, *rest = owner.function.ops
    (source,), (result,) = owner.inputs, owner.function.yielded
    if not isinstance(cast, Cast) or len(rest) != 1 or result is not cast.result:
        return None
    return source if _scalar(source).is_float else None


def _transposed_from(tile: Value) -> Value | None:
    """The tile of which a tile is the transpose, if any."""
    owner = tile.owner
    return owner.tile if isinstance(owner, TilePermute) and owner.perm == (1, 0) else None


def _scalar(tile: Value) -> DType:
    assert isinstance(tile.type, TileType)
    return scalar_of(tile.type.dtype)


def is_plain_matmul(matmul: TileMatmul) -> bool:
    """Whether a matmul only multiplies two tiles of floats: alpha is 1, and the accumulator is 0."""
    zero = matmul.c.owner
    return (
        constant_number(matmul.alpha) == 1
        and isinstance(zero, TileFull)
        and constant_number(zero.value) == 0
        and _scalar(matmul.a).is_float
    )


def accumulator_type(t: ElementType) -> ElementType:
    """The type in which elements are summed: float32 for narrower floats."""
    scalar = scalar_of(t)
    return with_scalar(t, float32) if scalar.is_float and scalar.bits < 32 else t


def _is_matmul(value: Value, region: Region) -> bool:
    """Whether a tile is a plain matmul of a region, or the transpose of one."""
    before = _transposed_from(value)
    matmul = (value if before is None else before).owner
    return isinstance(matmul, TileMatmul) and is_plain_matmul(matmul) and matmul.parent is region


def _terms(value: Value) -> list[Value]:
    """The terms of a sum of tiles, in order; other tiles are their only term."""
    added = addend_tiles(value.owner)
    return [term for v in added for term in _terms(v)] if added else [value]
