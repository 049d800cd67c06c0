"""Hoists tile loads above the points where the threads of a block synchronise, so that their latencies overlap.

A load moves up to the definition of its operands, past reductions and writes of other arrays, as long as the live
loaded tiles fit in registers."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.control import While
from tegula.ops.group import GroupMma
from tegula.ops.roles import Roles
from tegula.ops.tile import TileLoad, TileReduce
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation
from tegula.types import TileType, element_bytes

MAX_BYTES = 256
"""The maximum bytes of loaded tiles per thread."""


def hoist_loads(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place, unless the kernel has roles or matmuls, which prefetch their operands and need the
    registers."""
    if any(isinstance(op, Roles | GroupMma) for op in kernel.walk()):
        return
    for region in {op.parent for op in kernel.walk() if isinstance(op, TileLoad)}:
        if region is not None:
            _region(kernel, region, MAX_BYTES * context.threads)


def _region(kernel: Kernel, region: Region, available: int) -> None:
    for load in [op for op in region.ops if isinstance(op, TileLoad)]:
        t = load.result.type
        assert isinstance(t, TileType)
        available -= t.size * element_bytes(t.dtype)
        if available >= 0:
            _move(kernel, region, load)


def _move(kernel: Kernel, region: Region, load: TileLoad) -> None:
    """Hoist a load, with the ops that compute its array and offset, if the load then moves above a reduction."""
    moved: list[Op] = [load]
    last, operands = region.ops.index(load), set(load.operands)
    passes_reduction, at = False, last
    while at > 0:
        op = region.ops[at - 1]
        if operands.intersection(op.results):
            if not _computes_address(op):
                break
            moved.append(op)
            operands.update(op.operands)
        elif isinstance(op, TileLoad) or not _may_pass(kernel, op, array_root(load.array)):
            break
        passes_reduction = passes_reduction or isinstance(op, TileReduce)
        at -= 1
    if passes_reduction:
        moved.reverse()
        rest = [op for op in region.ops[at:last] if op not in moved]
        region.ops[at : last + 1] = [*moved, *rest]


def _computes_address(op: Op) -> bool:
    if op.regions or op.COOPERATIVE or op.effects() or any(isinstance(r.type, TileType) for r in op.results):
        return False
    return op.PURE or isinstance(op, ArrayView)


def _may_pass(kernel: Kernel, op: Op, array: Value) -> bool:
    """Whether a read of an array that follows an op may move before it."""
    if any(isinstance(inner, While) for inner in op.walk()):
        return False
    kinds = {e.kind for inner in op.walk() for e in inner.effects()}
    return kinds <= {"read", "write"} and not writes(kernel, op, {array})
