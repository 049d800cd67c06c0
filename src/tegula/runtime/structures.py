"""Spatial structures of the host, and their tables, one for each device. Entries of a GPU's table change in the order
of the stream."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tegula.errors import LaunchError
from tegula.handles import HOST, SLOTS, SLOTS_IN_USE, WORDS, clear_entry, set_entry, slot_of
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.runtime.make_arrays import copy, zeros
from tegula.types import int64

_TABLES: dict[Device, array] = {}
"""The tables of GPUs."""
LIVE: WeakValueDictionary[int, Structure] = WeakValueDictionary()
"""The existing structures, by id."""


class Structure(ABC):
    """A spatial structure on a device, which kernels refer to by its `id` until it is deleted.

    `version` counts the changes that affect results of queries. The adjoint of a launch repeats the queries, and is
    refused if the structure has changed since."""

    id: int
    device: Device
    version: int

    label: str
    """The name of the structure's type for messages."""

    def enter(self, kind: int, device: Device) -> None:
        """Take an id for a structure of a kind on a device."""
        self.device, self.version = device, 0
        self.id = SLOTS_IN_USE.allocate(kind, device_number(device))
        LIVE[self.id] = self

    def __del__(self) -> None:
        id = getattr(self, "id", None)
        if id is not None:
            clear_table_entry(self.device, id)
            SLOTS_IN_USE.release(id)

    @abstractmethod
    def words(self) -> list[int]:
        """The payload of the structure's table entry: its 64-bit words after the id."""

    def publish(self) -> None:
        """Write the entry of the table. A graph that writes the entry whenever it is launched keeps the structure,
        whose place in the table would otherwise be given to another structure."""
        if not self.device.is_cpu:
            from tegula.runtime.cuda.graph import keep_recorded

            keep_recorded(self.device, self)
        publish(self.device, self.id, self.words())

    def differentiable(self) -> Sequence[tuple[str, array]]:
        """The arrays, with their names, whose elements queries return and accumulate gradients for."""
        return ()


class StructureUse(NamedTuple):
    """A structure that a launch may query, with its version at the launch. `name`: the launch's argument, for
    messages."""

    name: str
    structure: Structure
    version: int


def structures_of(
    named_arguments: Iterable[tuple[str, Any]], device: Device, reads_table: bool
) -> list[StructureUse]:
    """The structures that a launch on a device may query: the structures whose ids are among its number arguments, with
    their names; or, if the kernel reads ids from memory (`reads_table`), all structures of the device. The result keeps
    the structures alive."""
    uses = [
        StructureUse(f"argument '{_argument(name)}'", structure, structure.version)
        for name, x in named_arguments
        if isinstance(x, int | np.integer) and (structure := LIVE.get(int(x))) is not None
    ]
    if uses or not reads_table:
        return uses
    structures = [structure for structure in list(LIVE.values()) if structure.device == device]
    return [StructureUse(f"a {structure.label}", structure, structure.version) for structure in structures]


def _argument(name: str) -> str:
    """The name of an argument, for the leaf of a structure that holds an id."""
    return name.removesuffix(".id").removesuffix(".bvh")


def publish_gradients() -> None:
    """Write the addresses of gradients into the entries of the structures whose arrays have gradients."""
    for structure in list(LIVE.values()):
        if any(a.requires_grad for _, a in structure.differentiable()):
            structure.publish()


def gradient_address(name: str, a: array | None) -> int:
    """The address of an array's gradient; 0 for an array without a gradient. LaunchError if the gradient is not
    packed."""
    grad = a.grad if a is not None and a.requires_grad else None
    if grad is None:
        return 0
    if not grad.is_contiguous:
        raise LaunchError(
            f"the gradient of {name} of a mesh is not a packed array",
            "pass points whose gradient is a packed array",
        )
    return grad.ptr


def device_number(device: Device) -> int:
    """The number of a device in ids: 0 for the CPU."""
    return device.ordinal + 1


def table_address(device: Device) -> int:
    """The address of a device's table, which the first use creates."""
    return HOST.address if device.is_cpu else _table(device).ptr


def publish(device: Device, id: int, words: Sequence[int]) -> None:
    """Write a structure's payload into the table entry of its id."""
    if device.is_cpu:
        set_entry(HOST, id, words)
    else:
        _write(device, id, [id, *words])


def clear_table_entry(device: Device, id: int) -> None:
    """Remove a structure from the table."""
    if device.is_cpu:
        clear_entry(HOST, id)
    elif not sys.is_finalizing():
        _write(device, id, [])


def _table(device: Device) -> array:
    table = _TABLES.get(device)
    if table is None:
        table = _TABLES[device] = zeros(SLOTS * WORDS, int64, device)
    return table


def _write(device: Device, id: int, words: Sequence[int]) -> None:
    entry = np.zeros(WORDS, np.uint64)
    entry[: len(words)] = words
    packed_entry = array(entry.view(np.int64), device=device)
    copy(_table(device), packed_entry, dest_offset=slot_of(id) * WORDS, count=WORDS)
