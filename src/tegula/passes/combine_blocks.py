"""Runs several logical blocks in one CTA if blocks are short and only read arrays and add to a few array elements: the
addends are accumulated in registers and added to the array once per CTA."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, TileAccess, Value
from tegula.ir.rewrite import clone_op, uses
from tegula.ops.control import For, While, Yield
from tegula.ops.lane import BlockCount, BlockIndex, LogicalBlocks, Tid
from tegula.ops.scalar import Add, Const
from tegula.ops.tile import TileAtomic, TileFull, TileMap, TileReduce, combination
from tegula.passes.overlap import array_root
from tegula.passes.runner import GpuCompilation
from tegula.types import DType, TileType, int64

MAX_PER_LANE = 4
"""The maximum number of elements of a sum that a lane carries from one logical block to the next."""
MIN_BITS = 32
"""The minimum width in bits of numbers that are summed in registers; a sum in a narrower type is less accurate than
separate additions to the array."""


def combine_blocks(kernel: Kernel, context: GpuCompilation) -> None:
    """Wrap the body in a loop over the logical blocks that one CTA runs.

    The kernel stays unchanged unless every effect in it is a read, or a `tile.atomic` that adds to the same elements
    in every block and whose result is unused. A block counts as short if it has no loops. If the addend is a sum of a
    whole tile, the reduction moves after the loop, so that lanes need not synchronise inside it. The order of additions
    is unspecified before and after the pass: the arrays that are added to are not read, and share no bytes with
    others."""
    combined_sums = _sums(kernel)
    if not combined_sums:
        return
    deferred = {op for s in combined_sums for op in (s.atomic, s.reduce)}
    body, out = kernel.body, Region()
    blocks = LogicalBlocks([], [int64] * 3)
    loop = Region([int64, *(s.added.type for s in combined_sums)])
    for op in body.ops[:-1]:
        if op not in deferred:
            loop.append(op)
    index, *sums = loop.args
    for op in loop.walk():
        if isinstance(op, Tid):
            op.block = index
    totals = [_append_addition(loop, total, s) for total, s in zip(sums, combined_sums, strict=True)]
    loop.append(Yield(totals))
    out.append(blocks)
    start = [_zeros(out, s) for s in combined_sums]
    loop_of_blocks = For([*blocks.results, *start], [v.type for v in start], None, [loop], body.ops[0].loc)
    out.append(loop_of_blocks)
    for s, total in zip(combined_sums, loop_of_blocks.results, strict=True):
        _append_epilogue(out, s, total)
    out.append(body.ops[-1])
    body.ops = out.ops
    for op in body.ops:
        op.parent = body


@dataclass(frozen=True, slots=True)
class _Sum:
    """A deferred addition: the tile to sum over the blocks, the reduction that follows, if any, and the atomic."""

    added: Value
    reduce: TileReduce | None
    atomic: TileAtomic


def _sums(kernel: Kernel) -> list[_Sum]:
    """The additions of a kernel; none if its blocks cannot be combined."""
    launch, used = kernel.launch, uses(kernel.body)
    uncombinable = For | While | BlockIndex | BlockCount
    aligned = any(isinstance(op, TileAccess) and op.aligned for op in kernel.walk())
    atomics = [op for op in kernel.body.ops if isinstance(op, TileAtomic)]
    if launch.partial or aligned or any(isinstance(op, uncombinable) for op in kernel.walk()):
        return []
    roots = {array_root(op.array) for op in atomics}
    if not all(_is_unaliased(kernel, root) for root in roots):
        return []
    for op in kernel.walk():
        if op not in atomics and any(
            e.kind != "read" or e.value is None or array_root(e.value) in roots for e in op.effects()
        ):
            return []
    sums: list[_Sum] = []
    for op in atomics:
        fixed = all(isinstance(v.owner, ConstantLike) or v in kernel.params for v in op.offset)
        s = _sum(op, used) if fixed and op.array in roots and not used.get(op.result) else None
        if op.op != "add" or s is None or not _is_small(s.added, launch.block_dim):
            return []
        sums.append(s)
    return sums


def _is_unaliased(kernel: Kernel, root: Value) -> bool:
    """Whether an array is a parameter that shares no bytes with others."""
    access = kernel.access[kernel.params.index(root)] if root in kernel.params else None
    return access is not None and not access.aliases


def _sum(atomic: TileAtomic, used: dict[Value, list[tuple[Op, int]]]) -> _Sum:
    """The deferred form of an atomic. A reduction by addition whose only use is the atomic is deferred as well."""
    tile, owner = atomic.tile, atomic.tile.owner
    is_only_use = len(used[tile]) == 1
    if (
        isinstance(owner, TileReduce)
        and is_only_use
        and owner.parent is atomic.parent
        and _is_sum_reduction(owner)
    ):
        return _Sum(owner.tile, owner, atomic)
    return _Sum(tile, None, atomic)


def _is_sum_reduction(reduce: TileReduce) -> bool:
    return combination(reduce.combine) is Add


def _is_small(tile: Value, lanes: int) -> bool:
    t = tile.type
    assert isinstance(t, TileType)
    return (
        isinstance(t.dtype, DType)
        and t.dtype.bits >= MIN_BITS
        and not t.partial
        and t.size <= MAX_PER_LANE * lanes
    )


def _zeros(out: Region, s: _Sum) -> Value:
    """A tile of the neutral element of addition: -0 for floats."""
    t = s.added.type
    assert isinstance(t, TileType) and isinstance(t.dtype, DType)
    zero = Const([], [t.dtype], {"type": t.dtype, "value": -0.0 if t.dtype.is_float else 0}, [], s.atomic.loc)
    full = TileFull([zero.result], [t], {"shape": t.shape}, [], s.atomic.loc)
    out.append(zero)
    return out.append(full).result


def _append_addition(loop: Region, total: Value, s: _Sum) -> Value:
    t, loc = s.added.type, s.atomic.loc
    assert isinstance(t, TileType) and isinstance(t.dtype, DType)
    addition = Region([t.dtype, t.dtype])
    addition.append(Yield([addition.append(Add(addition.args, [t.dtype], None, [], loc)).result]))
    return loop.append(TileMap([total, s.added], [t], None, [addition], loc)).result


def _append_epilogue(out: Region, s: _Sum, total: Value) -> None:
    """Append the reduction and the atomic, which run once after the loop, with clones of the constants of their
    offset."""
    if s.reduce is not None:
        s.reduce.tile = total
        total = out.append(s.reduce).result
    s.atomic.tile = total
    s.atomic.offset = [
        out.append(clone_op(v.owner, {})).result if isinstance(v.owner, ConstantLike) else v
        for v in s.atomic.offset
    ]
    out.append(s.atomic)
