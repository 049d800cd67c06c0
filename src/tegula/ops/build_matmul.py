"""Matmuls in the language."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.ir import Region, TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import public, require, require_range
from tegula.ops.buffer import BufNew, BufRead, BufView
from tegula.ops.build_coordinates import reshaped
from tegula.ops.builder import (
    OpBuilder,
    Operand,
    operand_text,
)
from tegula.ops.control import For, Yield
from tegula.ops.linear import TileMatmul, TileMatmulWait, scaled
from tegula.ops.tile import TileSlice, tile_type
from tegula.types import (
    BufType,
    DType,
    ElementType,
    TileType,
    VecType,
    element_type,
    int32,
    scalar_of,
)

MAX_PENDING = 7


@public("tile_matmul")
def tile_matmul(
    build: OpBuilder,
    a: Operand,
    b: Operand,
    out: Operand = None,
    alpha: Operand = 1.0,
    beta: Operand = 1.0,
    precision: Operand = "default",
    wait: Operand = True,
    dtype: Operand = None,
) -> Value | None:
    """The matmul of two tiles, added to a tile in place or as a new tile.

    With `out`, out = alpha * a @ b + beta * out; without, the result is alpha * a @ b. Products are summed in the dtype
    of the result (float32 if it is narrower) in an unspecified order, and rounded once. A term with a factor of 0 has
    no effect, even if the term contains a NaN; its tiles are not read if the factor is a constant.

    Parameters:
        a, b: tiles (M, K) and (K, N) of scalars, both of floats or both of integers; the dtypes may differ. Without
            `out`, a 1-D `a` is a row, a 1-D `b` is a column, and leading dimensions are batches, which broadcast.
        out: a tile (M, N) bound to a name, of floats or integers like `a`; a new tile by default.
        alpha, beta: factors of the dtype of the result; 1 by default. Without `out`, beta is not used.
        precision: "default", or "tf32": GPUs round float32 operands to 10 bits of fraction, which tensor cores
            multiply. CPUs do not reduce the precision.
        wait: False leaves the matmul in flight: until tg.tile_matmul_wait only further matmuls may add to `out`, and
            `a` and `b` must not change. True by default.
        dtype: the scalar type of the result without `out`, in which products are summed; the dtype of `a` by default.
    Returns:
        nothing with `out`; else a tile (..., M, N) of `dtype`, without the dimension of a row or column.
    Raises:
        shape-mismatch: the number of columns of `a` differs from the number of rows of `b`, batches do not broadcast,
            or the shape of `out` is not (M, N).
        type-mismatch: an operand is not a tile, or with `out` not a tile of 2 dimensions, `out` has no name, floats are
            combined with integers, a factor has another dtype, `dtype` is not a scalar type or is given with `out`, or
            a matmul in flight has no `out` or a factor.
        out-of-range: `precision` is another string.
        matmul-in-flight: a tile is used or changed while a matmul in flight works on it.
        popped-tile-changed: `out` was popped from a pipe.
    Gradient:
        alpha * adjoint @ b^T for `a`, alpha * a^T @ adjoint for `b`, beta * adjoint for the previous value of `out`;
        the sum of adjoint * (a @ b) for `alpha`, of adjoint * out for `beta`.
    Source:
        BLAS gemm; on GPUs PTX ISA, mma and wgmma.mma_async.
    """
    actual = "a non-literal argument" if isinstance(precision, Value) else operand_text(precision)
    message = f"precision must be the string literal 'default' or 'tf32', got {actual}"
    require_range(precision in ("default", "tf32"), message, "omit precision= for the default")
    left, right = build.tile(a), build.tile(b)
    assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
    _check_matmul(left.type, right.type, out is not None)
    rounding = {"precision": "tf32"} if precision == "tf32" else {}
    if out is None:
        require(
            wait, "a matmul in flight needs an accumulator tile", "pass out=, and wait with tile_matmul_wait"
        )
        return _new_matmul(build, left, right, alpha, _sum_type(left.type, dtype), rounding)
    require(dtype is None, "a matmul that adds to a tile has the dtype of the tile", "leave out 'dtype'")
    target = build.buffer(out)
    assert isinstance(target.type, BufType)
    help = "scale an operand before the matmul, or the result after the wait"
    require(wait or (alpha == beta == 1), "a matmul in flight takes no alpha and no beta", help)
    attrs = rounding if wait else {**rounding, "wait": False}
    t = TileType(target.type.dtype, target.type.shape)
    build.write(target, _scaled_matmul(build, (left, right), target, (alpha, beta), t, attrs))
    return None


def _sum_type(left: TileType, dtype: Operand) -> ElementType:
    """The dtype of the new tile that a matmul returns."""
    if dtype is None:
        return left.dtype
    t = element_type(dtype)
    require(
        isinstance(t, DType),
        f"the dtype of a matmul must be a scalar type, got {t}",
        "write a scalar type, as in dtype=float",
    )
    return t


def _new_matmul(
    b: OpBuilder, left: Value, right: Value, alpha: Operand, dtype: ElementType, attrs: dict[str, Any]
) -> Value:
    """alpha * left @ right as a new tile of a dtype. A 1-D left tile is a row, a 1-D right tile is a column; leading
    dimensions are batches, which broadcast."""
    shapes = [tile_type(v.type).shape for v in (left, right)]
    left = reshaped(b, left, (1, *shapes[0]) if len(shapes[0]) == 1 else shapes[0])
    right = reshaped(b, right, (*shapes[1], 1) if len(shapes[1]) == 1 else shapes[1])
    (*_, rows, depth), (*_, columns) = tile_type(left.type).shape, tile_type(right.type).shape
    try:
        batches = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    except ValueError:
        help = "make the dimensions before the last two equal, or 1 where they differ"
        raise TypeRule(
            "", help, "ShapeMismatch", what="tile_matmul", left=shapes[0], right=shapes[1]
        ) from None
    t = TileType(dtype, (rows, columns))
    if batches:
        left = reshaped(b, b.broadcast(left, (*batches, rows, depth)), (-1, rows, depth))
        right = reshaped(b, b.broadcast(right, (*batches, depth, columns)), (-1, depth, columns))
        batched = _batched(b, left, right, alpha, t, attrs)
    else:
        batched = _scaled_matmul(b, (left, right), None, (alpha, 0), t, attrs)
    outer = [n for n, shape in ((rows, shapes[0]), (columns, shapes[1])) if len(shape) > 1]
    return reshaped(b, batched, (*batches, *outer) or (1,))


def _batched(
    b: OpBuilder, left: Value, right: Value, alpha: Operand, t: TileType, attrs: dict[str, Any]
) -> Value:
    """The matmuls of tiles (B, M, K) and (B, K, N), by a loop over the batch."""
    count = tile_type(left.type).shape[0]
    zeros = b.full((count, *t.shape), b.const(0, t.dtype), t.dtype)
    out = b.one(BufNew, [zeros], {"storage": "register"})
    outer_region, b.region = b.region, Region()
    number, zero = b.region.add_argument(int32), b.const(0, int32)

    def view_attributes(shape: tuple[int, ...]) -> dict[str, Any]:
        return {"shape": shape, "dims": (1, 2), "steps": (1, 1)}

    terms = [
        b.one(TileSlice, [v, number, zero, zero], view_attributes(tile_type(v.type).shape[1:]))
        for v in (left, right)
    ]
    matmul = _scaled_matmul(b, (terms[0], terms[1]), None, (alpha, 0), t, attrs)
    b.write(b.one(BufView, [out, number, zero, zero], view_attributes(t.shape)), matmul)
    b.emit(Yield, [])
    body, b.region = b.region, outer_region
    b.emit(For, [b.const(0, int32), b.const(count, int32), b.const(1, int32)], None, [body])
    return b.one(BufRead, [out])


def _scaled_matmul(
    b: OpBuilder,
    terms: tuple[Value, Value],
    target: Value | None,
    factors: tuple[Operand, Operand],
    t: TileType,
    attrs: dict[str, Any],
) -> Value:
    """alpha * a @ c + beta * target, of type t. An operand with a constant factor 0 is not read. If alpha is a constant
    0, tiles of zeros are multiplied instead of a and c, unless beta has no gradient."""
    alpha, beta = (_factor(b, x, t.dtype) for x in factors)
    TileMatmul([*terms, Value(t), alpha, beta], (), attrs).infer()
    if target is None or _is_zero(beta):
        current, beta = b.full(t.shape, b.const(0, t.dtype), t.dtype), _factor(b, 1, t.dtype)
    else:
        current = b.tile(target)
    if _is_zero(alpha):
        if isinstance(beta.owner, S.Const) or not scalar_of(t.dtype).is_float:
            return scaled(b, current, beta)
        zero = b.const(0, t.dtype)
        terms = (b.full((t.shape[0], 1), zero, t.dtype), b.full((1, t.shape[1]), zero, t.dtype))
    return b.one(TileMatmul, [*terms, current, alpha, beta], attrs)


@public("tile_matmul_wait")
def tile_matmul_wait(b: OpBuilder, pending: Operand = 0) -> None:
    """Waits until all matmuls in flight (`tg.tile_matmul(wait=False)`) but the last `pending` are complete.

    Parameters:
        pending: the number of matmuls that may remain in flight, a constant from 0 to 7; 0 by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is not from 0 to 7.
    Gradient:
        the adjoints of the accumulators, unchanged.
    Source:
        PTX ISA, wgmma.wait_group.
    """
    if not isinstance(pending, int) or isinstance(pending, bool):
        raise TypeRule("", "", "NotConstant", culprit=pending, what="the number of pending matmuls")
    message = f"0 to {MAX_PENDING} matmuls may be pending, got {pending}"
    require_range(0 <= pending <= MAX_PENDING, message, "tile_matmul_wait() waits for all matmuls")
    b.emit(TileMatmulWait, [], {"pending": pending})


COMPLEX_HELP = "multiply the real and the imaginary parts as separate tiles"


def _check_matmul(left: TileType, right: TileType, in_place: bool) -> None:
    for t in (left, right):
        complex_text = (
            f"tile_matmul does not support complex tiles (tiles of vectors of two components), got {t}"
        )
        require(not (isinstance(t.dtype, VecType) and t.dtype.length == 2), complex_text, COMPLEX_HELP)
        message = f"a matmul that adds to a tile takes 2-D tiles, got shape {t.shape}"
        require(len(t.shape) == 2 or not in_place, message, "leave out 'out', or reshape the operands")
    if left.shape[-1] != right.shape[-2:][0]:
        help = f"the left tile has {left.shape[-1]} columns, so the right one must have {left.shape[-1]} rows"
        raise TypeRule("", help, "ShapeMismatch", what="tile_matmul", left=left.shape, right=right.shape)


def _is_zero(x: Value) -> bool:
    """Whether a factor is known to be 0."""
    return isinstance(x.owner, S.Const) and x.owner.value == 0


def _factor(b: OpBuilder, x: Operand, t: ElementType) -> Value:
    if isinstance(x, Value):
        return x
    return b.const(x, t)
