"""The tables of spatial structures, one for each device. Entries of a GPU's table change in the order of the stream."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from tegula.handles import HOST, SLOTS, WORDS, clear_entry, set_entry, slot_of
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.runtime.make_arrays import copy, zeros
from tegula.types import int64

_TABLES: dict[Device, array] = {}
"""The tables of GPUs."""


def device_number(device: Device) -> int:
    """The number of a device in ids: 0 for the CPU."""
    return device.ordinal + 1


def table_address(device: Device) -> int:
    """The address of a device's table, which is made on first use."""
    return HOST.address if device.is_cpu else _table(device).ptr


def publish(device: Device, id: int, words: Sequence[int]) -> None:
    """Write what kernels know of a structure into the entry of its id."""
    if device.is_cpu:
        set_entry(HOST, id, words)
    else:
        _write(device, id, [id, *words])


def withdraw(device: Device, id: int) -> None:
    """Remove a structure from the table."""
    if device.is_cpu:
        clear_entry(HOST, id)
    elif not sys.is_finalizing():
        _write(device, id, [])


def _table(device: Device) -> array:
    found = _TABLES.get(device)
    if found is None:
        found = _TABLES[device] = zeros(SLOTS * WORDS, int64, device)
    return found


def _write(device: Device, id: int, words: Sequence[int]) -> None:
    entry = np.zeros(WORDS, np.uint64)
    entry[: len(words)] = words
    made = array(entry.view(np.int64), device=device)
    copy(_table(device), made, dest_offset=slot_of(id) * WORDS, count=WORDS)
