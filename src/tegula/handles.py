"""Ids of spatial structures, and the tables in which kernels look them up.

An id is not an address: the id encodes a slot of the table, the kind of the structure, its device, and a generation
count of the slot. An entry of the table begins with the id of its current structure, so that ids of deleted structures,
of other kinds or devices do not match."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

SLOT_BITS, KIND_BITS, DEVICE_BITS = 16, 4, 8
SLOTS = 1 << SLOT_BITS
WORDS = 32
"""The number of 64-bit words of an entry: the id, then the properties of the structure that kernels read."""
ENTRY_BYTES = 8 * WORDS
BVH_KIND, MESH_KIND, HASH_GRID_KIND = 1, 2, 3
"""The kinds of structures."""


class EntryTable:
    """The entries of one device, at an address that never changes. Entry 0 is always zero."""

    def __init__(self) -> None:
        self._entries: np.ndarray | None = None

    @property
    def entries(self) -> np.ndarray:
        """The entries, [slot, word]; pages of entries that were never used are not allocated."""
        if self._entries is None:
            self._entries = np.zeros((SLOTS, WORDS), np.int64)
        return self._entries

    @property
    def address(self) -> int:
        """The address of entry 0."""
        return self.entries.ctypes.data


HOST = EntryTable()
"""The table of the CPU."""


class _Slots:
    """The free slots, and the generation of each slot: the number of structures that have had the slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generations: list[int] = [0]
        self._free: list[int] = []

    def allocate(self, kind: int, device: int) -> int:
        """Allocate a slot and return its new id. `device`: the number of the device, 0 for the CPU. RuntimeError if all
        slots are in use."""
        with self._lock:
            if self._free:
                slot = self._free.pop(0)
            elif len(self._generations) < SLOTS:
                slot = len(self._generations)
                self._generations.append(0)
            else:
                raise RuntimeError(
                    f"there are {SLOTS - 1} spatial structures already: delete unused structures"
                )
            self._generations[slot] += 1
            return encoded_id(slot, kind, device, self._generations[slot])

    def release(self, id: int) -> None:
        """Release the slot of an id."""
        with self._lock:
            self._free.append(slot_of(id))


SLOTS_IN_USE = _Slots()
"""The slots of all devices."""


def encoded_id(slot: int, kind: int, device: int, generation: int) -> int:
    """The id of a structure. `generation`: the number of structures that had the slot, this one included."""
    return slot | kind << SLOT_BITS | device << (SLOT_BITS + KIND_BITS) | (generation & 0xFFFFFFFF) << 32


def slot_of(id: int) -> int:
    """The slot of an id."""
    return id & (SLOTS - 1)


def set_entry(table: EntryTable, id: int, words: Sequence[int]) -> None:
    """Write the entry of a structure; the id last, so that no kernel sees an incomplete entry."""
    entry = table.entries[slot_of(id)]
    entry[0] = 0
    entry[1 : 1 + len(words)] = np.array(words, np.uint64).view(np.int64)
    entry[0] = np.array(id, np.uint64).view(np.int64)


def clear_entry(table: EntryTable, id: int) -> None:
    """Remove a structure from the table."""
    table.entries[slot_of(id)] = 0
