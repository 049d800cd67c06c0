"""Constants, thread indices, the way between lanes and tiles, print and assert."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.errors import InternalError
from tegula.interp.machine import Machine, Mask, handles
from tegula.ir import Op
from tegula.ops.convert import convert
from tegula.ops.debug import Print, PrintTile
from tegula.ops.tile import tile_type
from tegula.types import ElementType, element_shape, scalar_of, to_numpy


def constant(value: Any, t: ElementType) -> np.ndarray:
    """A Python number, or nested tuples of them, as an element: an array of the element's shape. Integers
    wrap; one number fills all components."""
    scalar = scalar_of(t)
    shape = element_shape(t)
    if scalar.is_int:
        low = -(1 << (scalar.bits - 1)) if scalar.is_signed else 0
        exact = np.array(value, dtype=object)
        flat = [(int(v) - low) % (1 << scalar.bits) + low for v in exact.reshape(-1)]
        made = np.array(flat, to_numpy(scalar)).reshape(exact.shape)
    else:
        made = convert(np.array(value, np.float64), to_numpy(scalar))
    return np.broadcast_to(made, shape).copy()


@handles("call")
def run_call(m: Machine, op: Op, mask: Mask) -> Any:
    results = m.region(op.regions[0], [m.env[v] for v in op.operands], mask)
    return results[0] if len(results) == 1 else tuple(results)


@handles("const")
def run_const(m: Machine, op: Op, mask: Mask) -> Any:
    return m.broadcast(constant(op.attrs["value"], op.attrs["type"]))


@handles("tid")
def run_tid(m: Machine, op: Op, mask: Mask) -> Any:
    count, tid = op.attrs["count"], m.tid
    if count > len(tid):
        raise InternalError(f"{op.loc}: {count} thread index components of {len(tid)}")
    if op.operands:
        lanes = m.report.kernel.launch.block_dim
        tid = [np.resize(c, m.lanes) for c in m.grid.thread_indices(int(m.group(op.operands[0])), lanes)[0]]
    return tid[0] if count == 1 else tuple(tid[:count])


@handles("logical_blocks")
def run_logical_blocks(m: Machine, op: Op, mask: Mask) -> Any:
    return tuple(m.broadcast(np.array(n)) for n in (m.block, m.grid.blocks, m.grid.hardware))


@handles("block.place")
def run_place(m: Machine, op: Op, mask: Mask) -> Any:
    *outer, rows, columns = (1, *m.grid.dims[:-1])
    number, inside = divmod(int(m.group(op.operands[0])), rows * columns)
    group, rest = divmod(inside, op.attrs["raster"] * columns)
    first = group * op.attrs["raster"]
    height = min(op.attrs["raster"], rows - first)
    places = [*np.unravel_index(number, tuple(outer) or (1,)), first + rest % height, rest // height]
    here = places[len(places) - len(m.grid.dims) + 1 + op.attrs["dim"]]
    return m.broadcast(np.array(here, np.int32))


@handles("lane.index")
def run_lane(m: Machine, op: Op, mask: Mask) -> Any:
    return np.arange(m.lanes, dtype=np.int32)


@handles("block.index")
def run_block(m: Machine, op: Op, mask: Mask) -> Any:
    return np.full(m.lanes, m.block, np.int32)


@handles("block.count")
def run_blocks(m: Machine, op: Op, mask: Mask) -> Any:
    return np.full(m.lanes, m.blocks, np.int32)


@handles("lane.uniform")
def run_uniform(m: Machine, op: Op, mask: Mask) -> Any:
    x = m.env[op.operands[0]]
    if m.report.debug:
        same = (x == x[0]) | ((x != x) & (x[0] != x[0]))
        for lane in np.flatnonzero(m.present & ~same.reshape(m.lanes, -1).all(1))[:1]:
            m.report.varying(op, m.block, int(lane))
    return m.broadcast(m.group(op.operands[0]))


def _check_group(m: Machine, op: Op) -> None:
    if op.attrs["lanes"] != m.lanes:
        raise InternalError(f"{op.loc}: {op.NAME} for {op.attrs['lanes']} lanes in a block of {m.lanes}")


@handles("tile.from_lanes")
def run_from_lanes(m: Machine, op: Op, mask: Mask) -> Any:
    _check_group(m, op)
    x = m.env[op.operands[0]].copy()
    x[~m.present] = 0
    return x if op.attrs["preserve_type"] else np.moveaxis(x, 0, -1)


@handles("tile.to_lanes")
def run_to_lanes(m: Machine, op: Op, mask: Mask) -> Any:
    _check_group(m, op)
    tile = m.env[op.operands[0]]
    rank = len(tile_type(op.operands[0].type, partial=True).shape)
    return np.moveaxis(tile, rank - 1, 0).copy()


@handles("tile.from_thread")
def run_from_thread(m: Machine, op: Op, mask: Mask) -> Any:
    x = m.env[op.operands[0]]
    lane = int(m.group(op.operands[1]))
    there = 0 <= lane < m.lanes and bool(m.present[lane])
    value = x[lane] if there else np.zeros_like(x[0])
    return np.broadcast_to(value, (*op.attrs["shape"], *value.shape)).copy()


@handles("print")
def run_print(m: Machine, op: Op, mask: Mask) -> None:
    values = [m.env[v] for v in op.operands]
    for lane in np.flatnonzero(mask):
        m.report.printed(Print.ref(op.attrs, *(np.asarray(x[lane]) for x in values)), op.attrs.get("end"))


@handles("print.tile")
def run_print_tile(m: Machine, op: Op, mask: Mask) -> None:
    values = [np.asarray(m.group(v)) for v in op.operands]
    m.report.printed(PrintTile.ref(op.attrs, *values), op.attrs.get("end"))


@handles("assert")
def run_assert(m: Machine, op: Op, mask: Mask) -> None:
    for lane in np.flatnonzero(mask & ~m.env[op.operands[0]])[:1]:
        m.report.assertion(op, op.attrs.get("message") or "", m.block, int(lane))
