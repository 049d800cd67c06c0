"""The interpretation of ops that are distributed over the threads of a group. `accesses.py` determines the elements
that each thread accesses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.errors import InternalError
from tegula.interp.accesses import WARP, copy_layout
from tegula.interp.holders import held_elements, parts
from tegula.interp.lowered import Copy, GroupMachine
from tegula.interp.machine import Machine, Mask, handles
from tegula.interp.tiles import elements_present, fold, tile_of
from tegula.ir import Op
from tegula.ops.group import (
    Agree,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    GatherEach,
    MmaWait,
    PartialReduce,
    Publish,
    RegisterMma,
    SharedGather,
    SharedMma,
    StackAdvance,
    StackFill,
    StackTake,
    StackVote,
)
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileGather


def group_machine(m: Machine, op: Op) -> GroupMachine:
    """The machine as a GroupMachine; InternalError for other machines."""
    if not isinstance(m, GroupMachine):
        raise InternalError(f"{op.loc}: {op.NAME} needs a run of a lowered kernel")
    return m


@handles(Barrier)
def run_barrier(m: Machine, op: Barrier, mask: Mask) -> None:
    group_machine(m, op).barrier(op.of_warps)


@handles(Publish)
def run_publish(m: Machine, op: Publish, mask: Mask) -> None:
    value, lane = m.env[op.value], int(m.group(op.thread))
    m.group(op.buffer)[0] = value[lane] if 0 <= lane < m.count else np.zeros_like(value[0])


@handles(Agree)
def run_agree(m: Machine, op: Agree, mask: Mask) -> None:
    if op.implicit:
        return
    value, first = m.env[op.value], m.group(op.first)
    same = (value == first) | ((value != value) & (first != first))
    for lane in np.flatnonzero(m.present & ~same.reshape(m.lanes, -1).all(1))[:1]:
        m.report.varying(op, m.block, int(lane))


# Reductions -------------------------------------------------------------------------------------------------


def unspecified(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory with unspecified contents, which no op may use: all bits set."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.full(size, 255, np.uint8).view(dtype).reshape(shape)


@handles(PartialReduce)
def run_partial_reduce(m: Machine, op: PartialReduce, mask: Mask) -> Any:
    parts = [_parts_reduced(m, op, k) for k in range(len(op.tiles))]
    return parts if len(parts) > 1 else parts[0]


def _parts_reduced(m: Machine, op: PartialReduce, index: int) -> np.ndarray:
    """The partial results of one of the reductions of `group.reduce`."""
    operand, region = op.tiles[index], op.combines[index]
    axis, count = op.axes[index], op.parts[index]
    t, reduced = tile_of(operand), tile_of(op.results[index])
    tile, rank = m.env[operand], len(t.shape)
    element = tile.shape[rank:]
    part = parts(group_machine(m, op).layouts[operand], axis)
    lines, part = (
        (tile.reshape(-1, 1, *element), part.reshape(-1))
        if axis is None
        else (np.moveaxis(tile, axis, 0), _line(part, axis))
    )
    in_bounds = np.ones(len(lines), np.bool_)
    if t.partial and (axis is None or axis == rank - 1):
        present = elements_present(m, t)
        in_bounds = present.reshape(-1) if axis is None else _line(present, axis)
    rest = lines.shape[1 : lines.ndim - len(element)]
    lines = lines.reshape(len(lines), -1, *element)
    out = unspecified((count, *lines.shape[1:]), tile.dtype)
    for k in range(count):
        if (selected := in_bounds & (part == k)).any():
            out[k] = fold(m, region, lines[selected])
    if axis is None:
        return out.reshape(*reduced.shape, *element)
    return np.moveaxis(out.reshape(count, *rest, *element), 0, axis)


def _line(x: np.ndarray, axis: int) -> np.ndarray:
    """The elements along an axis, at index 0 of all other dimensions."""
    return np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)[:, 0]


# Operands in shared memory ----------------------------------------------------------------------------------


@handles(SharedGather)
def run_gather(m: Machine, op: SharedGather, mask: Mask) -> Any:
    source, index = (m.group(v) for v in op.operands)
    return TileGather.ref(op.attrs, source, index, len(tile_of(op.results[0]).shape))


@handles(GatherEach)
def run_gather_each(m: Machine, op: GatherEach, mask: Mask) -> Any:
    source, index = m.group(op.buffer), m.env[op.index]
    return TileGather.ref({"axis": 0}, source, index, 1)


@handles(SharedMma)
def run_mma(m: Machine, op: SharedMma, mask: Mask) -> Any:
    a, b = (m.group(v) for v in (op.a, op.b))
    c, (alpha, beta) = m.env[op.c], (m.group(v) for v in (op.alpha, op.beta))
    return TileMatmul.ref(op.attrs, a, b, c, alpha, beta, 2)


@handles(RegisterMma)
def run_register_mma(m: Machine, op: RegisterMma, mask: Mask) -> Any:
    a, b, c = m.env[op.a], m.group(op.b), m.env[op.c]
    alpha, beta = (m.group(v) for v in (op.alpha, op.beta))
    return TileMatmul.ref(op.attrs, a, b, c, alpha, beta, 2)


@handles(MmaWait)
def run_mma_wait(m: Machine, op: MmaWait, mask: Mask) -> Any:
    """A wait for matmuls, a no-op: in the interpreter, matmuls are synchronous."""
    tiles = tuple(m.env[v] for v in op.operands)
    return tiles[0] if len(tiles) == 1 else tiles


# Asynchronous copies ----------------------------------------------------------------------------------------


@handles(AsyncCopy)
def run_async_copy(m: Machine, op: AsyncCopy, mask: Mask) -> None:
    """Start a copy, whose elements arrive at the wait; until then the buffer's contents are unspecified."""
    group = group_machine(m, op)
    buffer, array = (m.group(v) for v in (op.buffer, op.array))
    starts = [int(m.group(v)) for v in op.offset]
    at = np.meshgrid(*(s + np.arange(n) for s, n in zip(starts, buffer.shape, strict=True)), indexing="ij")
    inside = np.ones(buffer.shape, np.bool_)
    for i, n in zip(at, array.shape, strict=True):
        inside &= (i >= 0) & (i < n)
    value = np.zeros_like(buffer)
    value[inside] = array[tuple(i[inside] for i in at)]
    buffer[...] = unspecified(buffer.shape, buffer.dtype)
    group.started.append(Copy(op, buffer, value, held_elements(copy_layout(op, group.threads)).owned))


@handles(AsyncCommit)
def run_async_commit(m: Machine, op: AsyncCommit, mask: Mask) -> None:
    group = group_machine(m, op)
    group.committed.append(group.started)
    group.started = []


@handles(AsyncWait)
def run_async_wait(m: Machine, op: AsyncWait, mask: Mask) -> None:
    group = group_machine(m, op)
    while len(group.committed) > op.pending:
        for copy in group.committed.pop(0):
            group.arrived(copy)


# Stacks -----------------------------------------------------------------------------------------------------


@handles(StackVote)
def run_vote(m: Machine, op: StackVote, mask: Mask) -> None:
    votes, flag = m.group(op.votes), m.env[op.has_value] & m.present
    for k in range(group_machine(m, op).threads // WARP):
        votes[k] = flag[k * WARP : (k + 1) * WARP].sum()


@handles(StackFill)
def run_fill(m: Machine, op: StackFill, mask: Mask) -> Any:
    """The slot of each pushing lane: the count before, plus the pushes of earlier warps by their votes, plus the pushes
    of earlier lanes of its warp; -1 for other lanes."""
    stack, votes, value, flag = (m.env[v] for v in op.operands)
    slots = np.full(m.lanes, -1, np.int32)
    pushing = np.flatnonzero(m.present & flag)
    for lane in pushing:
        warp = lane // WARP
        earlier = ((pushing // WARP == warp) & (pushing < lane)).sum()
        slot = stack.count + int(votes[:warp].sum()) + int(earlier)
        if 0 <= slot < len(stack.elements):
            slots[lane] = slot
            stack.elements[slot] = value[lane]
    return slots


@handles(StackTake)
def run_take(m: Machine, op: StackTake, mask: Mask) -> Any:
    stack = m.env[op.stack]
    slots = np.full(m.lanes, -1, np.int32)
    values = np.zeros((m.lanes, *stack.elements.shape[1:]), stack.elements.dtype)
    taking = np.flatnonzero(m.present)[: max(stack.count, 0)]
    slots[taking] = stack.count - 1 - taking
    values[taking] = stack.elements[slots[taking]]
    return values, slots


@handles(StackAdvance)
def run_advance(m: Machine, op: StackAdvance, mask: Mask) -> None:
    stack = m.env[op.stack]
    if op.votes is not None:
        pushed = int(m.group(op.votes).sum())
        stack.count = min(stack.count + pushed, len(stack.elements))
    else:
        stack.count = max(stack.count - m.count, 0)
