"""Software pipelining of loops over the blocks of another launch, as in gradient kernels: hoists loop-invariant loads
of tiles, and prefetches other tiles some iterations ahead by asynchronous copies.

Concurrent blocks hide memory latency. Such a loop runs the blocks one after another, and its accumulators take the
registers of other resident blocks, so that each iteration would wait for memory."""

from __future__ import annotations

from tegula.ir import ConstantLike, Kernel, Region
from tegula.ir.rewrite import is_defined_in, replace
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.control import For
from tegula.ops.tile import TileLoad
from tegula.passes.overlap import array_root, writes
from tegula.passes.pipeline_loops import index_slice, is_copyable
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, TileType, element_bytes

RESIDENT_BLOCKS = 2
"""The number of blocks whose shared memory should fit an SM together."""
RESERVED_BYTES = 2 << 10
"""The bytes of a block's shared memory that are reserved for other buffers."""
MAX_STAGES = 4


def fetch_iterations(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite loops over the blocks of another launch in place."""
    for op in list(kernel.walk()):
        if isinstance(op, For) and _loads(op.body):
            available = context.target.shared_per_sm // RESIDENT_BLOCKS - RESERVED_BYTES
            available -= _hoist_invariant_loads(kernel, op, available // 2)
            _fetch(op, available)


def _hoist_invariant_loads(kernel: Kernel, loop: For, available: int) -> int:
    """Hoist loop-invariant loads out of the loop, to shared memory. Returns the number of bytes."""
    body, region = loop.body, loop.parent
    assert region is not None
    hoisted = 0
    for load in _loads(body):
        slice = index_slice(load, body)
        if slice is None or any(loop.index in op.operands for op in (*slice, load)):
            continue
        written = any(writes(kernel, op, {array_root(load.array)}) for op in body.ops)
        if written or hoisted + _bytes(load) > available:
            continue
        fill = load.fill.owner
        fill_ops = [fill] if isinstance(fill, ConstantLike) and fill in body.ops else []
        if not fill_ops and is_defined_in(load.fill, body):
            continue
        hoisted += _bytes(load)
        buffer, read = _through_shared(load, body)
        at = region.ops.index(loop)
        for op in (*slice, *fill_ops, load, buffer):
            body.ops.remove(op)
            op.parent = region
            region.ops.insert(at, op)
            at += 1
        # The read is sunk to its first use to shorten the live range of the tile's registers.
        body.ops.remove(read)
        user = next(k for k, op in enumerate(body.ops) if any(read.result in o.operands for o in op.walk()))
        body.ops.insert(user, read)
    return hoisted


def _fetch(loop: For, available: int) -> None:
    """Set the number of stages of the loop, and redirect the other loads to buffers that can have stages."""
    body = loop.body
    loads = [op for op in _loads(body) if is_copyable(op) and index_slice(op, body) is not None]
    while loads and 2 * sum(map(_bytes, loads)) > available:
        loads.remove(max(loads, key=_bytes))
    if loads:
        loop.stages = min(MAX_STAGES, available // sum(map(_bytes, loads)))
    for load in loads:
        _through_shared(load, body)


def _loads(body: Region) -> list[TileLoad]:
    return [op for op in body.ops if isinstance(op, TileLoad) and op.unwritten]


def _through_shared(load: TileLoad, body: Region) -> tuple[BufNew, BufRead]:
    """Insert a shared buffer after a load. Returns the op that fills it and the op that reads it for the load's
    users."""
    t = load.result.type
    assert isinstance(t, TileType)
    buffer_type = BufType(t.dtype, t.shape, "shared")
    buffer = BufNew([load.result], [buffer_type], {"storage": "shared"}, [], load.loc)
    read = BufRead([buffer.result], [t], None, [], load.loc)
    replace(body, {load.result: read.result})
    at = body.ops.index(load) + 1
    body.ops[at:at] = [buffer, read]
    buffer.parent = read.parent = body
    return buffer, read


def _bytes(load: TileLoad) -> int:
    t = load.result.type
    assert isinstance(t, TileType)
    return t.size * element_bytes(t.dtype)
