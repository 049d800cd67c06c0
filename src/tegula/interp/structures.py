"""The memory of spatial structures: the table, and elements at addresses of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tegula.handles import HOST
from tegula.interp.machine import Machine, Mask, handles
from tegula.ops.base import element
from tegula.ops.structures import (
    StructureAdd,
    StructureLoad,
    StructurePrefetch,
    StructureTable,
    StructureValue,
)
from tegula.types import components, element_bytes, element_shape, scalar_of, to_numpy


@handles(StructureTable)
def run_table(m: Machine, op: StructureTable, mask: Mask) -> Any:
    return m.broadcast(np.array(HOST.address, np.uint64))


@handles(StructureLoad, StructureValue)
def run_load(m: Machine, op: StructureLoad | StructureValue, mask: Mask) -> Any:
    t = element(op.type)
    out = m.zeros(t, m.lanes)
    for lane in np.flatnonzero(mask):
        data = ctypes.string_at(int(m.env[op.address][lane]), element_bytes(t))
        out[lane] = np.frombuffer(data, to_numpy(scalar_of(t))).reshape(element_shape(t))
    return out


@handles(StructurePrefetch)
def run_ahead(m: Machine, op: StructurePrefetch, mask: Mask) -> None:
    """A prefetch has no effect on values."""


@handles(StructureAdd)
def run_add(m: Machine, op: StructureAdd, mask: Mask) -> None:
    count, kind = components(op.type), np.ctypeslib.as_ctypes_type(to_numpy(scalar_of(op.type)))
    addends = m.env[op.value]
    for lane in np.flatnonzero(mask):
        adjoint = np.ctypeslib.as_array((kind * count).from_address(int(m.env[op.address][lane])))
        adjoint += np.reshape(addends[lane], -1)
