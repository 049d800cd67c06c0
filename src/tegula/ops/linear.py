"""Linear algebra on tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from tegula.ir import MatmulLike, Op, TypeRule, Value
from tegula.ir.fields import attr, operand, variadic
from tegula.ops.base import element, require
from tegula.ops.convert import convert
from tegula.ops.scalar import Cmp, Const, Mul, Select
from tegula.ops.tile import TileFull, TilePermute, adjoint_of, is_zeros, tile_type
from tegula.types import TileType, Type, from_numpy, scalar_of

if TYPE_CHECKING:
    from tegula.ops.builder import OpBuilder
    from tegula.ops.gradient import GradientBuilder


class TileMatmul(MatmulLike):
    """alpha * a @ b + beta * c. Operands: a (M, K), b (K, N), c (M, N), alpha, beta (c's scalar type). Operands are
    converted to c's type, in which products and sums are computed (16- and 8-bit float results: in float32, rounded
    once). If a factor is 0, the term that it scales is 0, even if an element is infinite or NaN. The order over K is
    unspecified. Attribute `precision`, if "tf32": GPUs may round float32 operands to tf32. Attribute `wait`, if False:
    the matmul is left in flight; other ops may use the result or change an operand only after a `tile.matmul_wait`."""

    __slots__ = ()
    NAME = "tile.matmul"
    COOPERATIVE = True

    def infer(self) -> Sequence[Type]:
        a, b, c = (tile_type(v.type) for v in (self.a, self.b, self.c))
        for t in (a, b, c):
            require(
                len(t.shape) == 2 and scalar_of(t.dtype) == t.dtype,
                f"a matmul takes 2-D scalar tiles, got {t}",
            )
        if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
            raise TypeRule("", "", "ShapeMismatch", what="tile_matmul", left=a.shape, right=b.shape)
        require(self.alpha.type == self.beta.type == c.dtype, f"alpha and beta must be {c.dtype}")
        require(
            scalar_of(a.dtype).is_float == scalar_of(b.dtype).is_float == scalar_of(c.dtype).is_float,
            f"a matmul cannot mix {a.dtype}, {b.dtype} and {c.dtype}",
        )
        return [TileType(c.dtype, c.shape)]

    @staticmethod
    def ref(
        attrs: Mapping[str, Any],
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        alpha: np.ndarray,
        beta: np.ndarray,
        rank: int,
    ) -> np.ndarray:
        result_dtype = c.dtype
        compute_dtype = (
            np.dtype(np.float32)
            if from_numpy(result_dtype).is_float and result_dtype.itemsize < 4
            else result_dtype
        )
        a, b, c, alpha, beta = (convert(x, compute_dtype) for x in (a, b, c, alpha, beta))
        with np.errstate(all="ignore"):
            scaled = alpha * np.matmul(a, b) if alpha != 0 else np.zeros_like(c)
            total = scaled + beta * c if beta != 0 else scaled
            return convert(total.astype(compute_dtype, copy=False), result_dtype)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        a, c = _adjoint_operand(b, self.a), _adjoint_operand(b, self.b)
        alpha, beta = b.primal(self.alpha), b.primal(self.beta)
        adjoints: list[Value | None] = [None] * 5
        term = _adjoint_as_operand(b, g, self)
        if b.needs_adjoint(self.a):
            adjoints[0] = _matmul(b, term, _transposed(b, c), alpha, self.a, self)
        if b.needs_adjoint(self.b):
            adjoints[1] = _matmul(b, _transposed(b, a), term, alpha, self.b, self)
        if b.needs_adjoint(self.c):
            scaled_adjoint = g if _is_one(beta) else scaled(b, g, beta)
            needs_guard = b.may_give_nan(self.beta, self)
            adjoints[2] = (
                b.map(lambda xs: b.zero_where_zero(*xs), [g, scaled_adjoint])
                if needs_guard
                else scaled_adjoint
            )
        if b.needs_adjoint(self.alpha):
            one = b.const(1.0, scalar_of(tile_type(g.type).dtype))
            matmul_of_adjoint = _matmul(b, a, c, one, self.result, self)
            adjoints[3] = _factor_adjoint(b, g, matmul_of_adjoint)
        if b.needs_adjoint(self.beta):
            adjoints[4] = _factor_adjoint(b, g, b.primal(self.c))
        return adjoints


class TileMatmulInLanes(Op):
    """A matmul for each l: a[:, :, l] @ b[:, :, l] + c[:, :, l]. Operands: a (M, K, L), b (K, N, L), c (M, N, L) of one
    scalar dtype; the result has the type of c. An element is a chain of multiply-adds in order of increasing k."""

    __slots__ = ()
    NAME = "tile.matmul_in_lanes"
    COOPERATIVE = True
    a = operand()
    b = operand()
    c = operand()

    def infer(self) -> Sequence[Type]:
        a, b, c = (tile_type(v.type) for v in (self.a, self.b, self.c))
        (m, k, lanes), n = a.shape, b.shape[1]
        require(
            a.dtype == b.dtype == c.dtype == scalar_of(c.dtype)
            and b.shape == (k, n, lanes)
            and c.shape == (m, n, lanes),
            f"a matmul in lanes takes (M, K, L), (K, N, L), (M, N, L), got {a}, {b}, {c}",
        )
        return [c]

    @staticmethod
    def ref(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, c: np.ndarray, rank: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            return (np.einsum("...mkl,...knl->...mnl", a, b) + c).astype(c.dtype, copy=False)


class TileMatmulWait(Op):
    """Waits until all matmuls in flight but the last `pending` (attribute) are complete. Operands: the accumulators of
    the matmuls in flight; results: the same tiles after the wait. Attribute `overlapped`: ops between the matmuls and
    the wait run while the matmuls are in flight, although this takes registers."""

    __slots__ = ()
    NAME = "tile.matmul_wait"
    COOPERATIVE = True
    PURE = False
    sums = variadic()
    pending = attr()
    overlapped = attr(False)

    def infer(self) -> Sequence[Type]:
        require(self.pending >= 0, "the number of matmuls in flight must be 0 or more")
        return [tile_type(v.type) for v in self.sums]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return grads


def matmul_from_zeros(tile: Value | None) -> TileMatmul | None:
    """The matmul that computes a tile from a zero accumulator of the tile's type; None if there is none."""
    op = tile.owner if tile is not None else None
    if not isinstance(op, TileMatmul) or not op.wait or not _is_one(op.beta):
        return None
    t = scalar_of(tile_type(op.c.type).dtype)
    return op if is_zeros(op.c) and (t.bits >= 32 or not t.is_float) else None


def in_flight(op: Op) -> TypeGuard[TileMatmul]:
    """Whether the op is a matmul that is left in flight."""
    return isinstance(op, TileMatmul) and not op.wait


def scaled(b: OpBuilder, tile: Value, factor: Value) -> Value:
    """The product factor * tile; zeros if the factor is 0, even if an element is infinite or NaN."""

    def product(args: list[Value]) -> Value:
        x, factor = args
        zero = b.const(0, element(factor.type))
        return b.one(Select, [b.one(Cmp, [factor, zero], {"pred": "eq"}), zero, b.one(Mul, [factor, x])])

    return b.map(product, [tile, factor])


def _transposed(b: GradientBuilder, tile: Value) -> Value:
    return b.one(TilePermute, [tile], {"perm": (1, 0)})


def _factor_adjoint(b: GradientBuilder, g: Value, tile: Value) -> Value:
    """The adjoint of alpha or beta, which scales a tile. Elements whose adjoint is 0 add 0, even if they are infinite
    or NaN."""
    return b.total(b.map(lambda xs: b.zero_where_zero(xs[0], b.one(Mul, xs)), [g, tile]))


def _is_one(x: Value) -> bool:
    return isinstance(x.owner, Const) and x.owner.value == 1


def _bits(tile: Value) -> int:
    return scalar_of(tile_type(tile.type).dtype).bits


def _adjoint_operand(b: GradientBuilder, tile: Value) -> Value:
    """An operand of a matmul, as an operand of the matmuls of the adjoint: 16-bit tiles are not widened, because tensor
    cores multiply 16-bit operands."""
    return b.forward_value(tile) if _bits(tile) == 16 else b.primal(tile)


def _adjoint_as_operand(b: GradientBuilder, g: Value, matmul: TileMatmul) -> Value:
    """The adjoint g of a matmul's result, as an operand of the matmuls of the adjoint. If both operands have one 16-bit
    type, g is rounded once to this type."""
    x, y = (tile_type(v.type).dtype for v in matmul.sides)
    return b.as_scalar(g, scalar_of(x)) if x == y and _bits(matmul.a) == 16 else g


def _matmul(b: GradientBuilder, x: Value, y: Value, factor: Value, target: Value, original: Op) -> Value:
    """The matmul factor * x @ y, summed in the type of `factor` and converted to the type of the adjoint of `target`,
    with the precision of the matmul `original`."""
    shape = (tile_type(x.type).shape[0], tile_type(y.type).shape[1])
    scalar = scalar_of(element(factor.type))
    zero = b.one(TileFull, [b.const(0.0, scalar)], {"shape": shape})
    attrs = {k: v for k, v in original.attrs.items() if k == "precision"}
    matmul = b.one(TileMatmul, [x, y, zero, factor, b.const(1.0, scalar)], attrs)
    return b.as_scalar(matmul, scalar_of(adjoint_of(target).dtype))
