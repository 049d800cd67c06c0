"""Loops over the blocks of another launch, as gradients make them, keep what all their rounds load, and fetch the rest
rounds ahead, by asynchronous copies.

Where blocks run side by side, some wait for memory while others compute. A loop runs them one after the other, and its
sums take the registers that would hold more blocks at a time; so each round would wait for memory, in vain."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.control import For
from tegula.ops.scalar import Const
from tegula.ops.tile import TileLoad
from tegula.passes.overlap import array_root, writes
from tegula.passes.pipeline_loops import index_slice, is_copyable
from tegula.target import CudaTarget
from tegula.types import BufType, TileType, element_bytes

BLOCKS = 2
"""For which a multiprocessor keeps room."""
OTHER_BYTES = 2 << 10
"""Shared memory of a block for all else."""
MOST_STAGES = 4


def fetch_rounds(kernel: Kernel, target: CudaTarget) -> None:
    """Rewrite the kernel in place."""
    for op in list(kernel.walk()):
        if isinstance(op, For) and any(o.attrs.get("unwritten") for o in op.regions[0].ops):
            room = target.shared_per_sm // BLOCKS - OTHER_BYTES
            room -= _keep(kernel, op, room // 2)
            _fetch(op, room)


def _keep(kernel: Kernel, loop: Op, room: int) -> int:
    """Load what is the same in all rounds once, before the loop, to shared memory. The bytes that it takes."""
    (body,), region = loop.regions, loop.parent
    assert region is not None
    taken = 0
    for load in _loads(body):
        slice = index_slice(load, body)
        if slice is None or any(body.args[0] in op.operands for op in (*slice, load)):
            continue
        written = any(writes(kernel, op, {array_root(load.operands[0])}) for op in body.ops)
        if written or taken + _bytes(load) > room:
            continue
        taken += _bytes(load)
        fill = load.operands[1].owner
        constant = [fill] if isinstance(fill, Const) and fill in body.ops else []
        buffer, read = _through_shared(load, body)
        at = region.ops.index(loop)
        for op in (*slice, *constant, load, buffer):
            body.ops.remove(op)
            op.parent = region
            region.ops.insert(at, op)
            at += 1
        # Read late, the tile is in registers for a part of the round only.
        body.ops.remove(read)
        user = next(k for k, op in enumerate(body.ops) if any(read.result in o.operands for o in op.walk()))
        body.ops.insert(user, read)
    return taken


def _fetch(loop: Op, room: int) -> None:
    """Say how many rounds ahead the other loads are fetched, and let them go through the buffers that need it."""
    (body,) = loop.regions
    found = [op for op in _loads(body) if is_copyable(op) and index_slice(op, body) is not None]
    while found and 2 * sum(map(_bytes, found)) > room:
        found.remove(max(found, key=_bytes))
    if found:
        loop.attrs["stages"] = min(MOST_STAGES, room // sum(map(_bytes, found)))
    for load in found:
        _through_shared(load, body)


def _loads(body: Region) -> list[Op]:
    return [op for op in body.ops if isinstance(op, TileLoad) and op.attrs.get("unwritten")]


def _through_shared(load: Op, body: Region) -> tuple[Op, Op]:
    """Put a buffer behind a load: the op that fills it, and the one that reads what all others then use."""
    t = load.result.type
    assert isinstance(t, TileType)
    made = BufType(t.dtype, t.shape, "shared")
    buffer = BufNew([load.result], [made], {"storage": "shared"}, [], load.loc)
    read = BufRead([buffer.result], [t], None, [], load.loc)
    _replace(body, load.result, read.result)
    buffer.operands = [load.result]
    at = body.ops.index(load) + 1
    body.ops[at:at] = [buffer, read]
    buffer.parent = read.parent = body
    return buffer, read


def _replace(body: Region, old: Value, new: Value) -> None:
    for op in body.walk():
        op.operands = [new if v is old else v for v in op.operands]


def _bytes(load: Op) -> int:
    t = load.result.type
    assert isinstance(t, TileType)
    return t.size * element_bytes(t.dtype)
