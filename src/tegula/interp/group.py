"""Ops of kernels that are spread over the threads of a group: what they compute. `touches.py` says by which thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.errors import InternalError
from tegula.interp.holders import held, parts
from tegula.interp.lowered import Copy, GroupMachine
from tegula.interp.machine import Machine, Mask, handles
from tegula.interp.tiles import elements_present, fold, run_elements, tile_of
from tegula.interp.touches import WARP, copy_layout
from tegula.ir import Op
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileGather, is_extreme


def group_machine(m: Machine, op: Op) -> GroupMachine:
    if not isinstance(m, GroupMachine):
        raise InternalError(f"{op.loc}: {op.NAME} needs a run of a lowered kernel")
    return m


@handles("barrier")
def run_barrier(m: Machine, op: Op, mask: Mask) -> None:
    group_machine(m, op).barrier()


@handles("group.publish")
def run_publish(m: Machine, op: Op, mask: Mask) -> None:
    value, lane = m.env[op.operands[1]], int(m.group(op.operands[2]))
    m.group(op.operands[0])[0] = value[lane] if 0 <= lane < m.count else np.zeros_like(value[0])


@handles("group.agree")
def run_agree(m: Machine, op: Op, mask: Mask) -> None:
    if op.attrs.get("implicit"):
        return
    value, first = m.env[op.operands[0]], m.group(op.operands[1])
    same = (value == first) | ((value != value) & (first != first))
    for lane in np.flatnonzero(m.present & ~same.reshape(m.lanes, -1).all(1))[:1]:
        m.report.varying(op, m.block, int(lane))


# Reductions -------------------------------------------------------------------------------------------------


def unspecified(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What nobody may look at: all bits set."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.full(size, 255, np.uint8).view(dtype).reshape(shape)


@handles("group.reduce")
def run_partial_reduce(m: Machine, op: Op, mask: Mask) -> Any:
    made = [_parts_reduced(m, op, k) for k in range(len(op.operands))]
    return made if len(made) > 1 else made[0]


def _parts_reduced(m: Machine, op: Op, which: int) -> np.ndarray:
    """The parts of one of the results of `group.reduce`."""
    operand, region = op.operands[which], op.regions[which]
    axis, count = op.attrs["axes"][which], op.attrs["parts"][which]
    t, made = tile_of(operand), tile_of(op.results[which])
    tile, rank = m.env[operand], len(t.shape)
    element = tile.shape[rank:]
    part = parts(group_machine(m, op).layouts[operand], axis)
    lines, part = (
        (tile.reshape(-1, 1, *element), part.reshape(-1))
        if axis is None
        else (np.moveaxis(tile, axis, 0), _line(part, axis))
    )
    there = np.ones(len(lines), np.bool_)
    if t.partial and (axis is None or axis == rank - 1):
        here = elements_present(m, t)
        there = here.reshape(-1) if axis is None else _line(here, axis)
    rest = lines.shape[1 : lines.ndim - len(element)]
    lines = lines.reshape(len(lines), -1, *element)
    out = unspecified((count, *lines.shape[1:]), tile.dtype)
    for k in range(count):
        if (mine := there & (part == k)).any():
            out[k] = fold(m, region, lines[mine])
    if axis is None:
        return out.reshape(*made.shape, *element)
    return np.moveaxis(out.reshape(count, *rest, *element), 0, axis)


def _line(x: np.ndarray, axis: int) -> np.ndarray:
    """The elements along an axis, at the start of the others."""
    return np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)[:, 0]


@handles("group.argreduce")
def run_partial_argreduce(m: Machine, op: Op, mask: Mask) -> Any:
    t, made = tile_of(op.operands[0]), tile_of(op.results[0])
    values = m.env[op.operands[0]].reshape(-1)
    part = parts(group_machine(m, op).layouts[op.operands[0]], None).reshape(-1)
    if len(op.operands) > 1:
        index = m.env[op.operands[1]].reshape(-1)
        there = index >= 0
    else:
        index = np.arange(t.size, dtype=np.int32)
        there = elements_present(m, t).reshape(-1) & (values == values)
    best, place = unspecified((op.attrs["parts"],), values.dtype), np.full(op.attrs["parts"], -1, np.int32)
    for k in range(op.attrs["parts"]):
        mine = there & (part == k)
        if mine.any():
            found = is_extreme(op.attrs["op"], values[mine])
            best[k], place[k] = values[mine][found][0], index[mine][found].min()
    return best.reshape(made.shape), place.reshape(made.shape)


# Scans ------------------------------------------------------------------------------------------------------


def _warps(m: GroupMachine, op: Op) -> np.ndarray:
    """The warp that holds each element of a line."""
    every = held(m.layouts[op.results[0]]).owned
    out = np.zeros(tile_of(op.results[0]).size, np.int64)
    out[every.at[0]] = every.threads // WARP
    return out


@handles("group.scan")
def run_partial_scan(m: Machine, op: Op, mask: Mask) -> Any:
    group = group_machine(m, op)
    tile, identity, totals = m.env[op.operands[0]].copy(), m.group(op.operands[1]), m.group(op.operands[2])
    if op.attrs["partial"]:
        tile[np.arange(len(tile)) % op.attrs["shape"][-1] >= m.count] = identity
    warps, out = _warps(group, op), tile
    for k in range(group.threads // WARP):
        x = tile[warps == k]
        distance = 1
        while distance < len(x):
            combined = run_elements(m, op.regions[0], [x[:-distance], x[distance:]])
            x = np.concatenate([x[:distance], combined])
            distance *= 2
        totals[k] = x[-1] if len(x) else identity
        out[warps == k] = np.concatenate([identity[None], x])[: len(x)] if op.attrs["exclusive"] else x
    return out


@handles("group.add_prefix")
def run_add_prefix(m: Machine, op: Op, mask: Mask) -> Any:
    group = group_machine(m, op)
    tile, before, totals = m.env[op.operands[0]], m.group(op.operands[1])[None], m.group(op.operands[2])
    warps, out = _warps(group, op), m.env[op.operands[0]].copy()
    for k in range(group.threads // WARP):
        mine = tile[warps == k]
        if len(mine):
            prefix = np.broadcast_to(before, mine.shape).copy()
            out[warps == k] = run_elements(m, op.regions[0], [prefix, mine])
        before = run_elements(m, op.regions[0], [before, totals[k : k + 1].copy()])
    return out


# Operands in shared memory ----------------------------------------------------------------------------------


@handles("group.gather")
def run_gather(m: Machine, op: Op, mask: Mask) -> Any:
    source, index = (m.group(v) for v in op.operands)
    return TileGather.ref(op.attrs, source, index, len(tile_of(op.results[0]).shape))


@handles("group.product")
def run_product(m: Machine, op: Op, mask: Mask) -> Any:
    a, b = (m.group(v) for v in op.operands[:2])
    c, (alpha, beta) = m.env[op.operands[2]], (m.group(v) for v in op.operands[3:])
    return TileMatmul.ref(op.attrs, a, b, c, alpha, beta, 2)


@handles("group.register_product")
def run_register_product(m: Machine, op: Op, mask: Mask) -> Any:
    a, b, c = m.env[op.operands[0]], m.group(op.operands[1]), m.env[op.operands[2]]
    alpha, beta = (m.group(v) for v in op.operands[3:])
    return TileMatmul.ref(op.attrs, a, b, c, alpha, beta, 2)


@handles("group.product_wait")
def run_product_wait(m: Machine, op: Op, mask: Mask) -> Any:
    """Products are complete at once."""
    tiles = tuple(m.env[v] for v in op.operands)
    return tiles[0] if len(tiles) == 1 else tiles


# Asynchronous copies ----------------------------------------------------------------------------------------


@handles("group.async_copy")
def run_async_copy(m: Machine, op: Op, mask: Mask) -> None:
    """What is copied arrives at the wait; until then the buffer holds nothing anybody may look at."""
    group = group_machine(m, op)
    buffer, array = (m.group(v) for v in op.operands[:2])
    starts = [int(m.group(v)) for v in op.operands[2:]]
    at = np.meshgrid(*(s + np.arange(n) for s, n in zip(starts, buffer.shape, strict=True)), indexing="ij")
    inside = np.ones(buffer.shape, np.bool_)
    for i, n in zip(at, array.shape, strict=True):
        inside &= (i >= 0) & (i < n)
    value = np.zeros_like(buffer)
    value[inside] = array[tuple(i[inside] for i in at)]
    buffer[...] = unspecified(buffer.shape, buffer.dtype)
    group.started.append(Copy(op, buffer, value, held(copy_layout(op, group.threads)).owned))


@handles("group.async_commit")
def run_async_commit(m: Machine, op: Op, mask: Mask) -> None:
    group = group_machine(m, op)
    group.committed.append(group.started)
    group.started = []


@handles("group.async_wait")
def run_async_wait(m: Machine, op: Op, mask: Mask) -> None:
    group = group_machine(m, op)
    while len(group.committed) > op.attrs["pending"]:
        for copy in group.committed.pop(0):
            group.arrived(copy)


# Stacks -----------------------------------------------------------------------------------------------------


@handles("group.stack_vote")
def run_vote(m: Machine, op: Op, mask: Mask) -> None:
    votes, flag = m.group(op.operands[0]), m.env[op.operands[1]] & m.present
    for k in range(group_machine(m, op).threads // WARP):
        votes[k] = flag[k * WARP : (k + 1) * WARP].sum()


@handles("group.stack_fill")
def run_fill(m: Machine, op: Op, mask: Mask) -> Any:
    """A lane's slot: what was there, the pushes of earlier warps by their votes, and those of earlier lanes of its
    warp."""
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


@handles("group.stack_take")
def run_take(m: Machine, op: Op, mask: Mask) -> Any:
    stack = m.env[op.operands[0]]
    slots = np.full(m.lanes, -1, np.int32)
    values = np.zeros((m.lanes, *stack.elements.shape[1:]), stack.elements.dtype)
    taking = np.flatnonzero(m.present)[: max(stack.count, 0)]
    slots[taking] = stack.count - 1 - taking
    values[taking] = stack.elements[slots[taking]]
    return values, slots


@handles("group.stack_advance")
def run_advance(m: Machine, op: Op, mask: Mask) -> None:
    stack = m.env[op.operands[0]]
    if len(op.operands) > 1:
        pushed = int(m.group(op.operands[1]).sum())
        stack.count = min(stack.count + pushed, len(stack.elements))
    else:
        stack.count = max(stack.count - m.count, 0)
