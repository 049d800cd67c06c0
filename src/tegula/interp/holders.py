"""The threads that hold each element of a tile in a layout, as arrays over all elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tegula.dataclass import dataclass
from tegula.layout import COPY, Layout, Mode


@dataclass(frozen=True, slots=True)
class HeldElements:
    """Pairs of a thread and a held element: `threads` [n], `at` [rank, n]. `owner` [n]: whether the thread is the owner
    among the threads with copies of the element."""

    threads: np.ndarray
    at: np.ndarray
    owner: np.ndarray

    def only(self, mask: np.ndarray) -> HeldElements:
        """The elements for which a mask is true."""
        return HeldElements(self.threads[mask], self.at[:, mask], self.owner[mask])

    @property
    def owned(self) -> HeldElements:
        """The elements, each from its owner."""
        return self.only(self.owner)


@lru_cache(maxsize=512)
def held_elements(layout: Layout) -> HeldElements:
    """All pairs of threads and elements of a layout, without padding."""
    rank = len(layout.shape)
    thread_offsets, first = _offsets(rank, layout.threads)
    register_offsets, _ = _offsets(rank, layout.registers)
    at = (thread_offsets[:, :, None] + register_offsets[:, None, :]).reshape(rank, -1)
    threads = np.repeat(np.arange(thread_offsets.shape[1]), register_offsets.shape[1])
    owner = np.repeat(first, register_offsets.shape[1])
    inside = np.logical_and.reduce(at < np.array(layout.shape)[:, None])
    return HeldElements(threads, at, owner).only(inside)


@lru_cache(maxsize=512)
def parts(layout: Layout, axis: int | None) -> np.ndarray:
    """For each element of a tile, the number of the partial result that contains it when warps reduce the tile along
    `axis` (None: all dimensions)."""
    part_layout, _, _ = layout.parts(axis)
    number = _offsets(len(layout.shape), part_layout.threads)[0][axis or 0]
    owned = held_elements(layout).owned
    out = np.zeros(layout.shape, np.int64)
    out[tuple(owned.at)] = number[owned.threads]
    return out


def _offsets(rank: int, modes: Sequence[Mode]) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of each thread or register, [rank, count], and whether it is the first of its copies."""
    count = 1
    for mode in modes:
        count *= mode.size
    at, first = np.zeros((rank, count), np.int64), np.ones(count, np.bool_)
    rest = np.arange(count)
    for mode in modes:
        rest, digit = np.divmod(rest, mode.size)
        if mode.dim == COPY:
            first &= digit == 0
        else:
            at[mode.dim] += digit * mode.stride
    return at, first
