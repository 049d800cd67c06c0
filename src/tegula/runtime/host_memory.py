"""Memory of the host for large arrays, kept for the next array when an array is freed.

A page that the operating system has just mapped costs a page fault and is cleared before the first write, which takes
twice as long as the write itself. The C library returns large blocks to the operating system at once. Blocks kept here
have their pages already, so that a result of a kernel costs no page faults. The operating system may take the pages of
kept blocks when it is short of memory (MADV_FREE), except those freed last: it may take them at once, and the advice
alone costs 70 us for a block of 2 MB that is used again."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import threading
from collections import deque
from contextlib import suppress

import numpy as np

HUGE_PAGE = 2 << 20
"""The alignment and the minimum granularity of blocks in bytes."""
MIN_BYTES = HUGE_PAGE // 2
"""The minimum size in bytes of an array in a block. Smaller arrays would need less than half of the block."""
KEPT_FRACTION = 1 / 8
"""The maximum size of all kept blocks, as a fraction of the memory that this process may use."""
WARM_BYTES = 64 << 20
"""The maximum size of the kept blocks whose pages are not offered to the operating system."""
_STEPS = 8
"""The number of block sizes between a power of two and the next."""


class Mapping:
    """Pages private to this process, unmapped with the object. `address` is a multiple of HUGE_PAGE."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pages, start = _new_pages(size)
        if start % HUGE_PAGE:
            # Before Linux 6.7 pages have the alignment of small pages.
            self._pages, start = _new_pages(size + HUGE_PAGE)
        self._offset = -start % HUGE_PAGE
        self.address = start + self._offset
        self.advise("MADV_HUGEPAGE")

    def advise(self, advice: str) -> None:
        """Give the operating system advice, if it has this advice."""
        number = getattr(mmap, advice, None)
        if number is None:
            return
        # Advice that is refused changes only the speed.
        with suppress(OSError):
            self._pages.madvise(number, self._offset, self.size)


def _new_pages(size: int) -> tuple[mmap.mmap, int]:
    """New pages and their address."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return pages, ctypes.addressof(ctypes.c_char.from_buffer(pages))


class _Block:
    """The base of the arrays in a mapping, which is kept when the last array is freed."""

    def __init__(self, mapping: Mapping, pool: KeptBlocks) -> None:
        self.mapping, self.pool = mapping, pool
        self.__array_interface__ = {
            "version": 3,
            "data": (mapping.address, False),
            "shape": (mapping.size,),
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        self.pool.give_back(self.mapping)


class KeptBlocks:
    """Blocks of freed arrays, by size. `max_bytes`: the maximum number of bytes that are kept; `max_warm_bytes`: of
    those in blocks whose pages are not offered to the operating system."""

    def __init__(self, max_bytes: int, max_warm_bytes: int = WARM_BYTES) -> None:
        self.max_bytes, self.max_warm_bytes = max_bytes, max_warm_bytes
        self.start()

    def start(self) -> None:
        """Begin without kept blocks and with a new lock, as a forked process does: another thread of its parent may
        have held the lock."""
        self.bytes, self.warm_bytes = 0, 0
        """The number of kept bytes, and of those in warm blocks."""
        self._warm: dict[int, Mapping] = {}
        """The mappings freed last, by their numbers in the order of freeing, whose pages are not offered to the
        operating system."""
        self._freed: deque[Mapping] = deque()
        """Mappings of freed arrays that are not among the kept blocks yet."""
        self._kept: dict[int, deque[tuple[int, Mapping]]] = {}
        """The mappings of each size, the oldest first, each with its number in the order of freeing."""
        self._freed_count = 0
        self._lock = threading.Lock()

    def allocate(self, size: int) -> np.ndarray:
        """At least `size` bytes with unspecified contents, aligned to HUGE_PAGE; MemoryError if there are not as
        many."""
        size = block_size(size)
        with self._lock:
            self._keep_freed()
            mapping = self._take(size, newest=True) if self._kept.get(size) else None
        return np.asarray(_Block(mapping or self._map(size), self))

    def give_back(self, mapping: Mapping) -> None:
        """Keep the pages of a freed array. A garbage collection may call this function while the same thread holds the
        lock: the mapping then waits for the next call."""
        self._freed.append(mapping)
        if self._lock.acquire(blocking=False):
            try:
                self._keep_freed()
            finally:
                self._lock.release()

    def drop(self) -> None:
        """Unmap all kept blocks."""
        with self._lock:
            self._keep_freed()
            self._kept.clear()
            self._warm.clear()
            self.bytes = self.warm_bytes = 0

    def _keep_freed(self) -> None:
        """Move freed mappings to the kept blocks, offer the pages of all but the blocks freed last to the operating
        system, and unmap the oldest blocks beyond the maximum size."""
        while self._freed:
            mapping = self._freed.popleft()
            self._freed_count += 1
            self._kept.setdefault(mapping.size, deque()).append((self._freed_count, mapping))
            self._warm[self._freed_count] = mapping
            self.bytes += mapping.size
            self.warm_bytes += mapping.size
        while self.warm_bytes > self.max_warm_bytes:
            self._cool(next(iter(self._warm))).advise("MADV_FREE")
        while self.bytes > self.max_bytes:
            self._take(
                min((blocks[0][0], size) for size, blocks in self._kept.items() if blocks)[1], newest=False
            )

    def _take(self, size: int, newest: bool) -> Mapping:
        """Remove the newest or the oldest of the kept blocks of a size."""
        blocks = self._kept[size]
        number, mapping = blocks.pop() if newest else blocks.popleft()
        self.bytes -= size
        if number in self._warm:
            self._cool(number)
        return mapping

    def _cool(self, number: int) -> Mapping:
        """Remove a block from the warm blocks."""
        mapping = self._warm.pop(number)
        self.warm_bytes -= mapping.size
        return mapping

    def _map(self, size: int) -> Mapping:
        try:
            return Mapping(size)
        except (OSError, OverflowError, ValueError):
            self.drop()
        try:
            return Mapping(size)
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"cannot allocate {size} bytes") from error


def block_size(size: int) -> int:
    """The size of the block for `size` bytes, at most an eighth or HUGE_PAGE larger: arrays of nearly the same size
    share blocks."""
    step = max(HUGE_PAGE, (1 << (size - 1).bit_length()) // (2 * _STEPS))
    return -(-size // step) * step


def _usable_bytes() -> int:
    """The memory of the machine, or the limit of this process if that is lower."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(limit for limit in limits if limit != resource.RLIM_INFINITY)])


kept_blocks = KeptBlocks(int(_usable_bytes() * KEPT_FRACTION))
"""The blocks of this process."""
os.register_at_fork(after_in_child=kept_blocks.start)
