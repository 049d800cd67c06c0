"""Splits the K steps of matmuls in loops: an iteration with a K step of 256 becomes four with K steps of 64.

Stages then hold shorter tiles, so that more of them fit in shared memory, and operands that are computed take fewer
registers. A loop can be split if its matmuls only add to carried values, and if every tile with the K dimension is
loaded, mapped, broadcast or transposed in the same iteration, for these matmuls alone. The order in which a matmul adds
over K is unspecified, so that the semantics are preserved."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import (
    Builder,
    Divisible,
    Kernel,
    MatmulLike,
    Op,
    Region,
    ReshapeLike,
    TileAccess,
    Value,
    constant_number,
)
from tegula.ir.rewrite import clone_op, insert_before, replace, uses
from tegula.ops import scalar as S
from tegula.ops.control import For, counted
from tegula.types import TileType, Type, element_bytes, scalar_of

with deferred_imports():
    from tegula.passes.mma_types import shared_mma_types

ROW_BYTES = 128
"""The minimum bytes of the rows of a K-major tile, the row of a swizzled box."""


class _CannotSplit(Exception):
    """The loop cannot be split."""


@dataclass(frozen=True, slots=True)
class _Split:
    """A loop that can be split. `dims`: the split dimension of each tile that has one; `depth`: its length."""

    loop: For
    dims: dict[Value, int]
    depth: int


def split_depth(kernel: Kernel, factor: int) -> bool:
    """Split the loops with matmuls, in place, if all can be split by a factor. Returns whether they were split."""
    loops = [op for op in kernel.walk() if counted(op) and _own_matmuls(op)]
    try:
        splits = [_split_of(loop, factor) for loop in loops]
    except _CannotSplit:
        return False
    for split in splits:
        _rewrite(split, factor)
    return bool(splits)


def _own_matmuls(loop: For) -> list[MatmulLike]:
    return [op for op in loop.body.ops if isinstance(op, MatmulLike)]


def _split_of(loop: For, factor: int) -> _Split:
    """The split of a loop. Raises _CannotSplit if the loop cannot be split."""
    matmuls = _own_matmuls(loop)
    depths = {_shape(m.a)[1] for m in matmuls}
    (depth,) = depths if len(depths) == 1 else (0,)
    if not depth or depth % factor or not all(_deep_enough(m, depth // factor) for m in matmuls):
        raise _CannotSplit()
    if constant_number(loop.step) != 1:
        raise _CannotSplit()
    dims: dict[Value, int] = {}
    for m in matmuls:
        _mark(loop, m.a, 1, dims)
        _mark(loop, m.b, 0, dims)
    users = uses(loop.body)
    for value, dim in dims.items():
        row = depth // factor * element_bytes(_tile(value).dtype)
        if _is_stored(value.owner) and dim == len(_shape(value)) - 1 and row < ROW_BYTES:
            raise _CannotSplit()
        if isinstance(value.owner, TileAccess) and value.owner.offset[dim].type != loop.index.type:
            raise _CannotSplit()
    _check_sums(loop, matmuls, users)
    for value, dim in dims.items():
        for user, _ in users.get(value, []):
            if isinstance(user, MatmulLike):
                fits = all(dim == own for v, own in ((user.a, 1), (user.b, 0)) if v is value)
            else:
                fits = (
                    isinstance(user, Divisible)
                    and user.result in dims
                    and (value, dim) in (user.divided(dims[user.result]) or ())
                )
            if not fits:
                raise _CannotSplit()
    for op in loop.body.ops:
        if any(e.kind != "read" for inner in op.walk() for e in inner.effects()):
            raise _CannotSplit()
    return _Split(loop, dims, depth)


def _deep_enough(m: MatmulLike, depth: int) -> bool:
    mma_types = shared_mma_types(m)
    return (
        mma_types is not None
        and depth % mma_types.depth == 0
        and scalar_of(_tile(m.results[0]).dtype).bits >= 32
    )


def _mark(loop: For, value: Value, dim: int, dims: dict[Value, int]) -> None:
    """Record the split dimension of a tile and of the tiles from which the tile is computed, back to loads."""
    if value in dims:
        if dims[value] != dim:
            raise _CannotSplit()
        return
    op = value.owner
    if not isinstance(op, Divisible):
        raise _CannotSplit()
    if op.parent is not loop.body:
        # A tile that is computed before the loop can be recomputed in pieces if none of its operands has the split
        # dimension.
        pieces = op.divided(dim)
        if isinstance(op, TileAccess) or pieces is None or len(pieces):
            raise _CannotSplit()
        op = clone_op(op, {})
        insert_before(loop.body.ops[0], [op])
        replace(loop.body, {value: op.result})
        value = op.result
    dims[value] = dim
    parts = op.divided(dim)
    if parts is None:
        raise _CannotSplit()
    for v, own in parts:
        _mark(loop, v, own, dims)


def _is_stored(op: Op | Region | None) -> bool:
    """Whether a tile has a stage of its own, and is not a permutation of another stage."""
    return not isinstance(op, ReshapeLike)


def _check_sums(loop: For, matmuls: Sequence[MatmulLike], users: dict[Value, list[tuple[Op, int]]]) -> None:
    """Raise _CannotSplit unless every carried value of the loop is an accumulator of matmuls without another use."""
    unvisited = set(matmuls)
    for carried in loop.carried:
        value, end = carried.arguments[-1], carried.yielded[0]
        while value is not end:
            read = users.get(value, [])
            m = read[0][0] if len(read) == 1 else None
            if not isinstance(m, MatmulLike) or m.c is not value or constant_number(m.beta) != 1:
                raise _CannotSplit()
            unvisited.discard(m)
            value = m.results[0]
        if value is carried.arguments[-1] and users.get(value, []):
            # A loop-invariant value may be read; an accumulator is read after the loop only.
            continue
        if len(users.get(end, [])) != 1:
            raise _CannotSplit()
    if unvisited:
        raise _CannotSplit()


def _rewrite(split: _Split, factor: int) -> None:
    """Split a loop in place: iteration n becomes the iterations `factor` * n and those after it."""
    loop, t, length = split.loop, split.loop.index.type, split.depth // factor
    build = Builder(Region(), loop.loc)
    first = loop.start
    count = build.insert(S.Sub([loop.stop, first], [t])).result
    loop.stop = build.insert(S.Mul([count, _number(build, t, factor)], [t])).result
    loop.start = _number(build, t, 0)
    insert_before(loop, build.region.ops)
    build = Builder(Region(), loop.loc)
    factor_value = _number(build, t, factor)
    quotient = build.insert(S.FloorDiv([loop.index, factor_value], [t])).result
    index = build.insert(S.Add([first, quotient], [t])).result
    piece = build.insert(S.Mod([loop.index, factor_value], [t])).result
    start = build.insert(S.Mul([piece, _number(build, t, length)], [t])).result
    replace(loop.body, {loop.index: index})
    insert_before(loop.body.ops[0], build.region.ops)
    for value, dim in split.dims.items():
        op = value.owner
        assert isinstance(op, Divisible)
        if isinstance(op, TileAccess):
            build = Builder(Region(), op.loc)
            offset = [*op.offset]
            offset[dim] = build.insert(S.Add([offset[dim], start], [t])).result
            insert_before(op, build.region.ops)
            op.offset = offset
        op.resize(dim, length)


def _number(build: Builder, t: Type, n: int) -> Value:
    return build.insert(S.Const([], [t], {"type": t, "value": n})).result


def _shape(value: Value) -> tuple[int, ...]:
    return _tile(value).shape


def _tile(value: Value) -> TileType:
    assert isinstance(value.type, TileType)
    return value.type
