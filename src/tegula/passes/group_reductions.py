"""Moves independent reductions next to each other, so that the threads of a block synchronise once for all of them.

A later reduction moves up to an earlier reduction, with the ops that it depends on, as long as the live tiles fit in
registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.ir import Kernel, Op, Region, Value, root
from tegula.ir.rewrite import uses
from tegula.ops.group import GroupMma
from tegula.ops.roles import Roles
from tegula.ops.tile import TileReduce
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation
from tegula.types import ArrayType, TileType, element_bytes

MAX_BYTES = 256
"""The maximum size in bytes per thread of the tiles whose live ranges are extended."""


def group_reductions(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place, unless it has roles or matmuls, which need registers."""
    if any(isinstance(op, Roles | GroupMma) for op in kernel.walk()):
        return
    users = uses(kernel.body)
    for op in [op for op in kernel.walk() if isinstance(op, TileReduce)]:
        _move_up(kernel, op, users, MAX_BYTES * context.threads)


def _move_up(kernel: Kernel, reduce: Op, users: dict[Value, list[tuple[Op, int]]], available: int) -> None:
    """Move a reduction to the first earlier reduction with which it can be merged, if any."""
    region = reduce.parent
    assert region is not None
    last = region.ops.index(reduce)
    first, needed = _earliest(kernel, region, last)
    if first == last or _added_live_bytes([*needed, reduce], users) > available:
        return
    rest = [op for op in region.ops[first + 1 : last] if op not in needed]
    region.ops[first : last + 1] = [*needed, region.ops[first], reduce, *rest]


def _earliest(kernel: Kernel, region: Region, last: int) -> tuple[int, list[Op]]:
    """The position of the first reduction that can be merged with the reduction at `last`, or `last` if there is none;
    and the ops in between on which the reduction at `last` depends, in order."""
    first, between = last, list[Op]()
    needed, operands, sources = list[Op](), set(_used(region.ops[last])), set[Value]()
    for at in reversed(range(last)):
        op = region.ops[at]
        if operands.intersection(op.results):
            read = _read_only(op)
            if read is None or isinstance(op, TileReduce):
                break
            needed.append(op)
            operands.update(_used(op))
            sources |= read
        elif writes(kernel, op, sources) or _is_copy_op(op):
            break
        elif isinstance(op, TileReduce):
            first, between = at, needed[::-1]
    return first, between


def _used(op: Op) -> Iterator[Value]:
    """The values that an op and the ops of its regions use."""
    return (v for inner in op.walk() for v in inner.operands)


def _read_only(op: Op) -> set[Value] | None:
    """The arrays and buffers that an op reads; None if the op has other effects."""
    sources = set[Value]()
    for inner in op.walk():
        for effect in inner.effects():
            if effect.kind != "read" or effect.value is None:
                return None
            is_array = isinstance(effect.value.type, ArrayType)
            sources.add(array_root(effect.value) if is_array else root(effect.value))
    return sources


def _is_copy_op(op: Op) -> bool:
    """Whether an op starts asynchronous copies or waits for them."""
    return any(e.kind in ("issue", "arrive") for inner in op.walk() for e in inner.effects())


def _added_live_bytes(moved: Sequence[Op], users: dict[Value, list[tuple[Op, int]]]) -> int:
    """The bytes of tiles of more than one element that moved ops define and other ops use."""
    moved_results = [(r, r.type) for op in moved for r in op.results if isinstance(r.type, TileType)]
    live = [
        t for r, t in moved_results if t.size > 1 and any(user not in moved for user, _ in users.get(r, ()))
    ]
    return sum(t.size * element_bytes(t.dtype) for t in live)
