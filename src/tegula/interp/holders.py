"""The threads that hold each element of a tile in a layout, as arrays over all elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tegula.dataclass import dataclass
from tegula.layout import COPY, Layout, Mode


@dataclass(frozen=True, slots=True)
class Held:
    """Pairs of a thread and a held element: `threads` [n], `at` [rank, n]. `owner` [n]: whether the thread is the owner
    among the threads with copies of the element."""

    threads: np.ndarray
    at: np.ndarray
    owner: np.ndarray

    def only(self, mask: np.ndarray) -> Held:
        """The elements for which a mask is true."""
        return Held(self.threads[mask], self.at[:, mask], self.owner[mask])

    @property
    def owned(self) -> Held:
        """The elements, each from its owner."""
        return self.only(self.owner)


@lru_cache(maxsize=512)
def held_elements(layout: Layout) -> Held:
    """All pairs of threads and elements of a layout, without padding."""
    rank = len(layout.shape)
    of_threads, first = _offsets(rank, layout.threads)
    of_registers, _ = _offsets(rank, layout.registers)
    at = (of_threads[:, :, None] + of_registers[:, None, :]).reshape(rank, -1)
    threads = np.repeat(np.arange(of_threads.shape[1]), of_registers.shape[1])
    owner = np.repeat(first, of_registers.shape[1])
    inside = np.logical_and.reduce(at < np.array(layout.shape)[:, None])
    return Held(threads, at, owner).only(inside)


@lru_cache(maxsize=512)
def parts(layout: Layout, axis: int | None) -> np.ndarray:
    """For each element of a tile, the number of the partial result that contains it when warps reduce the tile along
    `axis` (None: all dimensions)."""
    of_parts, _, _ = layout.parts(axis)
    number = _offsets(len(layout.shape), of_parts.threads)[0][axis or 0]
    every = held_elements(layout).owned
    out = np.zeros(layout.shape, np.int64)
    out[tuple(every.at)] = number[every.threads]
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
