"""Running sums, minima and maxima of a tile, and their adjoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.ir import Op, Value
from tegula.ir.fields import attr, body, operand
from tegula.ops.base import element, require
from tegula.ops.scalar import Add, And, Classify, Cmp, Max, Min, Not, Or, Select
from tegula.ops.tile import TileConcat, TileFull, TileSlice, combination, dtype_of, tile_type
from tegula.ops.vector import VecMake
from tegula.types import TileType, Type, VecType, float32, int32, scalar_of

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


class TileScan(Op):
    """Running combination over the row-major elements. Region as in `tile.reduce`; attribute `exclusive` (the identity
    is the second operand, then shifted by one)."""

    __slots__ = ()
    NAME = "tile.scan"
    ISOLATED = True
    COOPERATIVE = True
    tile = operand()
    identity = operand()
    combine = body()
    exclusive = attr()

    def infer(self) -> Sequence[Type]:
        tile = tile_type(self.tile.type, partial=True)
        require(
            self.identity.type == tile.dtype, f"the identity must be {tile.dtype}, got {self.identity.type}"
        )
        return [tile]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        tile = tile_type(self.tile.type, partial=True)
        kind, exclusive = combination(self.combine), self.exclusive
        full = b.fitted(g, TileType(tile.dtype, tile.shape))
        if kind is Add:
            made = _reversed(b, _running_sum(b, _reversed(b, full), exclusive))
        elif kind in (Min, Max) and not exclusive:
            made = _segment_sums(b, self, full)
        else:
            b.refuse(self, "only running sums, minima and maxima have a derivative")
            made = full
        return b.fitted(made, tile), None


def _flat(b: GradientBuilder, tile: Value) -> Value:
    return b.reshaped(tile, (tile_type(tile.type).size,))


def _reversed(b: GradientBuilder, tile: Value) -> Value:
    """The elements in the opposite order."""
    shape, n = tile_type(tile.type).shape, tile_type(tile.type).size
    attrs = {"shape": (n,), "dims": (0,), "steps": (-1,)}
    return b.reshaped(b.one(TileSlice, [_flat(b, tile), b.const(n - 1, int32)], attrs), shape)


def _running_sum(b: GradientBuilder, tile: Value, exclusive: bool) -> Value:
    t = tile_type(tile.type).dtype
    body = b.region_of([t, t], lambda args: b.one(Add, args))
    return b.one(TileScan, [tile, b.const(0.0, t)], {"exclusive": exclusive}, [body])


def _segment_sums(b: GradientBuilder, scan: TileScan, g: Value) -> Value:
    """The adjoint of a running extreme: each element that set one gets the gradients up to the next that did. Backwards
    those are running sums that start afresh where a flag is set; 16-bit floats are summed in float32."""
    whole, n = tile_type(g.type), tile_type(g.type).size
    scalar = scalar_of(whole.dtype)
    sum_in = scalar if scalar.bits >= 32 else float32
    x = b.primal(scan.tile)
    x = b.fitted(x, TileType(dtype_of(x.type), whole.shape))
    kind = Max if combination(scan.combine) is Max else Min
    better = b.region_of([dtype_of(x.type)] * 2, lambda xs: b.one(kind, xs))
    before = b.one(TileScan, [x, b.primal(scan.identity)], {"exclusive": True}, [better])
    sets = _flat(b, b.map(lambda xs: b.as_scalar(_improves(b, kind, *xs), sum_in), [x, before]))
    flags = b.one(TileFull, [b.const(1.0, sum_in)], {"shape": (1,)})
    if n > 1:
        rest = {"shape": (n - 1,), "dims": (0,), "steps": (1,)}
        later = b.one(TileSlice, [sets, b.const(1, int32)], rest)
        flags = b.one(TileConcat, [later, flags], {"axis": 0})
    pairs = b.map(lambda xs: _pair(b, *xs), [_flat(b, b.as_scalar(g, sum_in)), flags])
    t = dtype_of(pairs.type)
    body = b.region_of([t, t], lambda xs: _start_afresh(b, *xs))
    sums = _reversed(b, b.one(TileScan, [_reversed(b, pairs), b.const(0.0, t)], {"exclusive": False}, [body]))
    made = b.map(lambda xs: _where_set(b, xs[0], b.components_of(xs[1])[0]), [sets, sums])
    return b.as_scalar(b.reshaped(made, whole.shape), scalar)


def _improves(b: GradientBuilder, kind: type[Min | Max], x: Value, before: Value) -> Value:
    """Whether an element is a new extreme: beyond those before it, or the first number."""
    beyond = b.one(Cmp, [x, before], {"pred": "lt" if kind is Min else "gt"})
    none, nan = (b.one(Classify, [v], {"test": "isnan"}) for v in (before, x))
    return b.one(Or, [beyond, b.one(And, [none, b.one(Not, [nan])])])


def _where_set(b: GradientBuilder, flag: Value, total: Value) -> Value:
    zero = b.const(0.0, element(total.type))
    return b.one(Select, [b.one(Cmp, [flag, zero], {"pred": "gt"}), total, zero])


def _pair(b: GradientBuilder, x: Value, y: Value) -> Value:
    return b.one(VecMake, [x, y], {"type": VecType(2, scalar_of(element(x.type)))})


def _start_afresh(b: GradientBuilder, total: Value, item: Value) -> Value:
    """(sum, flag) and the next (value, flag)."""
    (s, f), (x, flag) = b.components_of(total), b.components_of(item)
    fresh = b.one(Cmp, [flag, b.const(0.0, element(flag.type))], {"pred": "gt"})
    return _pair(b, b.one(Select, [fresh, x, b.one(Add, [s, x])]), b.one(Max, [f, flag]))


__all__ = ["TileScan"]
