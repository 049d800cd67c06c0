"""Gathers and scatters of arrays: cooperative ops in which each element of a tile has its own coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.ir import AtomicUpdate, ScatteredAccess, TypeRule, Value
from tegula.ir.fields import ATOMIC, READ, WRITE, attr, operand, variadic
from tegula.ops.array import array_type, refuse_unless_sum
from tegula.ops.base import require
from tegula.ops.tile import adjoint_of, tile_type
from tegula.types import TileType, Type, bool_, int64

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


def _require_coordinates(op: ScatteredAccess) -> TileType:
    """The type of the tile of coordinates; TypeRule unless all coordinates and the selection agree in shape."""
    array, selection_type = array_type(op.array.type), tile_type(op.where.type)
    require(selection_type.dtype == bool_, f"the selection must be a tile of bool, got {selection_type}")
    require(
        len(op.at) == array.ndim, f"{len(op.at)} coordinates do not index an array of {array.ndim} dimensions"
    )
    for v in op.at:
        require(
            tile_type(v.type) == TileType(int64, selection_type.shape), f"a coordinate is {v.type}, not int64"
        )
    return selection_type


def _require_stored(op: ScatteredAccess, tile: Value) -> TileType:
    """The type of a tile to be written; TypeRule unless the tile has the dtype of the array and the shape of the
    coordinates."""
    t, expected = tile_type(tile.type, partial=True), array_type(op.array.type).dtype
    if expected != t.dtype:
        help = f"convert the tile: tg.tile_astype(..., tg.{expected})"
        raise TypeRule(f"the array holds {expected}, the tile {t.dtype}", help)
    shape = _require_coordinates(op).shape
    require(t.shape == shape, f"the tile has shape {t.shape}, its coordinates {shape}")
    return t


class ArrayGather(ScatteredAccess):
    """Reads the elements of an array at coordinates. Operands: array, fill value, selection (a tile of bool), one tile
    of int64 coordinates per dimension. Elements that are not selected or outside of the array are not read; their
    result is the fill value."""

    __slots__ = ()
    NAME = "array.gather"
    COOPERATIVE = True
    PURE = False
    array = operand(READ)
    fill = operand()
    where = operand(index=True)
    at = variadic(index=True)

    @property
    def moved(self) -> Sequence[Value]:
        return (self.fill,)

    def infer(self) -> Sequence[Type]:
        dtype = array_type(self.array.type).dtype
        require(self.fill.type == dtype, f"the fill value must be {dtype}, got {self.fill.type}")
        return [TileType(dtype, _require_coordinates(self).shape)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        if b.needs_adjoint(self.fill):
            b.refuse(self, "the value of elements that are not read has no derivative")
        shadow = b.shadow(self.array)
        b.emit(ArrayScatterAtomic, [shadow, b.stored_as(g, shadow), *_index_values(self, b)], {"op": "add"})
        return [None] * len(self.operands)


class ArrayScatter(ScatteredAccess):
    """Writes the elements of a tile to an array at coordinates. Operands: array, tile, selection (a tile of bool), one
    tile of int64 coordinates per dimension. Elements that are not selected, absent or outside of the array are
    dropped."""

    __slots__ = ()
    NAME = "array.scatter"
    COOPERATIVE = True
    PURE = False
    array = operand(WRITE)
    tile = operand()
    where = operand(index=True)
    at = variadic(index=True)

    @property
    def moved(self) -> Sequence[Value]:
        return (self.tile,)

    def infer(self) -> Sequence[Type]:
        _require_stored(self, self.tile)
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        array, adjoint_type, coordinates = b.shadow(self.array), adjoint_of(self.tile), _index_values(self, b)
        g = _load_gradients(b, array, adjoint_type, coordinates)
        stored = TileType(array_type(array.type).dtype, adjoint_type.shape, adjoint_type.partial)
        b.emit(ArrayScatter, [array, b.zero(stored), *coordinates])
        return (None, g, *[None] * len(coordinates))


class ArrayScatterAtomic(ScatteredAccess, AtomicUpdate):
    """Atomically updates the elements of an array at coordinates. Operands: array, tile, selection (a tile of bool),
    one tile of int64 coordinates per dimension. Attribute `op`: add, min, max or exch. The result holds the previous
    elements, 0 for dropped elements."""

    __slots__ = ()
    NAME = "array.scatter_atomic"
    COOPERATIVE = True
    PURE = False
    array = operand(ATOMIC)
    tile = operand()
    where = operand(index=True)
    at = variadic(index=True)
    op = attr()

    @property
    def moved(self) -> Sequence[Value]:
        return (self.tile,)

    def infer(self) -> Sequence[Type]:
        t = _require_stored(self, self.tile)
        require(self.op in ("add", "min", "max", "exch"), f"no tile atomic '{self.op}'")
        return [TileType(t.dtype, t.shape)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (previous,) = grads
        refuse_unless_sum(self, self.tile, b)
        if previous is not None:
            b.refuse(self, "the value that an atomic operation returns has no derivative")
        coordinates = _index_values(self, b)
        return (
            None,
            _load_gradients(b, b.shadow(self.array), adjoint_of(self.tile), coordinates),
            *[None] * len(coordinates),
        )


class ArrayScatterCas(ScatteredAccess, AtomicUpdate):
    """Atomically replaces the elements of an array at coordinates that are bitwise equal to the expected elements.
    Operands: array, new elements, expected elements, selection (a tile of bool), one tile of int64 coordinates per
    dimension. The result holds the previous elements, 0 for dropped elements."""

    __slots__ = ()
    NAME = "array.scatter_cas"
    NONDIFFERENTIABLE = "a compare-and-swap has no derivative"
    COOPERATIVE = True
    PURE = False
    array = operand(ATOMIC)
    tile = operand()
    expected = operand()
    where = operand(index=True)
    at = variadic(index=True)

    @property
    def combination(self) -> str:
        return "cas"

    @property
    def moved(self) -> Sequence[Value]:
        return (self.tile, self.expected)

    def infer(self) -> Sequence[Type]:
        t = _require_stored(self, self.tile)
        _require_stored(self, self.expected)
        return [TileType(t.dtype, t.shape)]


def _index_values(op: ScatteredAccess, b: GradientBuilder) -> list[Value]:
    """The selection and the coordinates, recomputed."""
    return [b.primal(v) for v in (op.where, *op.at)]


def _load_gradients(
    b: GradientBuilder, array: Value, adjoint_type: TileType, coordinates: Sequence[Value]
) -> Value:
    """The elements of an array of gradients in the type of a tile's adjoint; 0 for dropped elements."""
    zero = b.const(0.0, array_type(array.type).dtype)
    return b.fitted(b.widened(b.one(ArrayGather, [array, zero, *coordinates])), adjoint_type)
