"""Functions that pick, place or extend parts of tiles, made of views and element accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.ir import Region, Value
from tegula.ops import scalar as S
from tegula.ops.base import TypeRule, public, require, require_range
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufSet, BufUpdate, BufView, accessed
from tegula.ops.build_tile import tile_axis
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe, is_tuple
from tegula.ops.control import If, Yield
from tegula.ops.indexing import KernelBuilder
from tegula.types import BufType, TileType, bool_, int32, scalar_of


@public("tile_slice_indexed")
def tile_slice_indexed(b: KernelBuilder, t: Operand, indices: Operand, axis: Operand = 0) -> Operand:
    """The parts of a tile at a 1-D tile of indices along an axis: `t[indices]`. Negative indices count from the end,
    those outside give 0. A new tile."""
    value = b.tile(t)
    assert isinstance(value.type, TileType)
    require(b.is_tile(indices), f"expected a tile of indices, got {describe(indices)}")
    along = tile_axis(value.type.shape, axis) or 0
    return b.subscript(t, [*[slice(None)] * along, indices])


def _guarded(b: OpBuilder, flag: Operand, body: Callable[[], object]) -> None:
    """Build `body` so that it runs where the flag holds."""
    regions = [Region(), Region()]
    outer = b.region
    for region, build in zip(regions, (body, lambda: None), strict=True):
        b.region = region
        try:
            build()
            b.emit(Yield, [])
        finally:
            b.region = outer
    b.emit(If, [b.truth(flag)], None, regions)


def _scattered(
    b: KernelBuilder, name: str, a: Operand, args: tuple[Operand, ...]
) -> tuple[Value, list[Value], Value]:
    """The tile, the index and the value of a call (a, i, ..., value)."""
    target = b.buffer(a)
    assert isinstance(target.type, BufType)
    rank = len(target.type.shape)
    have = "1 index" if rank == 1 else f"{rank} indices"
    require(len(args) > rank, f"{name} takes a tile, {have}, a value and whether this thread has one")
    *index, value = args
    indices = b.element_indices(target.type, index)
    return target, indices, b.stored(value, accessed(target.type, [i.type for i in indices]))


@public("tile_scatter_add")
def tile_scatter_add(b: KernelBuilder, a: Operand, *args: Operand, atomic: Operand = True) -> None:
    """tile_scatter_add(a, i, ..., value, has_value): each thread with `has_value` adds its value to a[i, ...].
    Additions at one place all count, also with `atomic=False`."""
    require(
        len(args) > 2, "tile_scatter_add takes a tile, its indices, a value and whether this thread has one"
    )
    require(isinstance(atomic, bool), "atomic must be True or False")
    target, indices, value = _scattered(b, "tile_scatter_add", a, args[:-1])
    _guarded(b, args[-1], lambda: b.emit(BufUpdate, [target, value, *indices], {"op": "add"}))


@public("tile_scatter_masked")
def tile_scatter_masked(b: KernelBuilder, a: Operand, *args: Operand) -> None:
    """tile_scatter_masked(a, i, ..., value, has_value): each thread with `has_value` writes its value to a[i, ...]. Of
    several writes to one place any may last."""
    require(
        len(args) > 2,
        "tile_scatter_masked takes a tile, its indices, a value and whether this thread has one",
    )
    target, indices, value = _scattered(b, "tile_scatter_masked", a, args[:-1])
    _guarded(b, args[-1], lambda: b.emit(BufSet, [target, value, *indices]))


def _constant(x: Operand, what: str) -> int:
    if not isinstance(x, int) or isinstance(x, bool):
        raise TypeRule("", "", "NotConstant", culprit=x, what=what)
    return x


@public("tile_pad")
def tile_pad(b: OpBuilder, t: Operand, pad_width: Operand, value: Operand = 0) -> Value:
    """The tile with `value` around it: `pad_width` elements (a constant) on all sides, or a pair (before, after) for
    each dimension. A new tile."""
    inner = b.tile(t)
    assert isinstance(inner.type, TileType)
    rank = len(inner.type.shape)
    pairs: list[Any] = [*pad_width] if is_tuple(pad_width) else [(pad_width, pad_width)] * rank
    require(len(pairs) == rank, f"pad_width needs an entry for each of {rank} dimensions, got {len(pairs)}")
    widths = [tuple(_constant(n, "the width of the padding") for n in as_tuple(pair)) for pair in pairs]
    for pair in widths:
        require_range(
            len(pair) == 2 and min(pair) >= 0,
            f"a pair of pad_width is (before, after), 0 or more, got {pair}",
            "write pad_width=1, or pad_width=((1, 1), (0, 2)) for two dimensions; slices make tiles smaller",
        )
    shape = [low + n + high for (low, high), n in zip(widths, inner.type.shape, strict=True)]
    if isinstance(value, int) and scalar_of(inner.type.dtype).is_float:
        value = float(value)
    whole = b.one(BufNew, [b.full(shape, value, inner.type.dtype)], {"storage": "register"})
    attrs = {"shape": inner.type.shape, "dims": tuple(range(rank)), "steps": (1,) * rank}
    b.write(b.one(BufView, [whole, *(b.const(low, int32) for low, _ in widths)], attrs), inner)
    return b.one(BufRead, [whole])


@public("tile_diag_add")
def tile_diag_add(b: OpBuilder, a: Operand, d: Operand) -> Value:
    """A square tile with the elements of a 1-D tile added to its diagonal. A new tile."""
    left, right = b.tile(a), b.tile(d)
    assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
    n = right.type.shape[0]
    if left.type.shape != (n, n) or right.type.shape != (n,):
        help = "a has shape (n, n), d has shape (n,)"
        raise TypeRule(
            "", help, "ShapeMismatch", what="tile_diag_add", left=left.type.shape, right=right.type.shape
        )
    require(
        left.type.dtype == right.type.dtype and left.type.dtype != bool_,
        f"tile_diag_add adds tiles of one type, got {left.type.dtype} and {right.type.dtype}",
    )
    whole = b.one(BufNew, [left], {"storage": "register"})
    flat = b.one(BufReshape, [whole], {"shape": (n * n,)})
    attrs = {"shape": (n,), "dims": (0,), "steps": (n + 1,)}
    diagonal = b.one(BufView, [flat, b.const(0, int32)], attrs)
    b.write(diagonal, b.map(lambda xs: b.one(S.Add, xs), [b.one(BufRead, [diagonal]), right]))
    return b.one(BufRead, [whole])
