"""Finds accesses to shared memory by two threads of a block that the PTX memory model leaves unordered.

Base causality (PTX ISA, "Causality Order") is transitive: accesses of a thread before a synchronisation precede
accesses of the other threads after the synchronisation, and the accesses known to a thread that arrives at a memory
barrier are known to all threads that have waited for the phase. Vector clocks record, for each thread, the known
accesses of each other thread. A copy is a separate thread, which knows the accesses that its issuer knew. Proxies are
ignored: the replay checks fences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np


class AccessOrder:
    """The order of accesses in one launch of a block. `ignored`: the synchronisations to ignore, of a "warp", of a
    "block", or by an "mbarrier", to test which races are found without these synchronisations."""

    def __init__(self, threads: int, ignored: str = "") -> None:
        self.threads, self.ignored = threads, ignored
        self.known = np.zeros((threads, 2 * threads), np.int64)
        self.known[range(threads), range(threads)] = 1
        self.copies = np.zeros(threads, np.int64)
        self.pending: dict[int, np.ndarray] = {}
        self.completed: dict[int, np.ndarray] = {}
        self.last_writes: dict[int, tuple[int, int]] = {}
        self.last_reads: dict[int, dict[int, int]] = {}
        self.races: list[tuple[str, int, int, int]] = []
        """The races: kind, byte, and the threads of the first and second access. A copy counts as a thread, whose index
        is the index of the issuer plus the number of threads."""

    # Synchronisation -------------------------------------------------------------------------------------------------

    def synchronise(self, threads: Iterable[int], is_warp: bool) -> None:
        """Synchronise all threads of a block, of some warps, or of one warp."""
        if self.ignored == ("warp" if is_warp else "block"):
            return
        members = list(threads)
        self.known[members] = self.known[members].max(0)
        self.known[members, members] += 1

    def arrive(self, thread: int, barrier: int) -> None:
        self._release(barrier, self.known[thread])
        self.known[thread, thread] += 1

    def complete_phase(self, barrier: int) -> None:
        self.completed[barrier] = self.pending.pop(barrier)

    def wait(self, thread: int, barrier: int) -> None:
        """A phase that never began counts as completed before all accesses."""
        if barrier in self.completed and self.ignored != "mbarrier":
            self.known[thread] = np.maximum(self.known[thread], self.completed[barrier])

    def _release(self, barrier: int, known: np.ndarray) -> None:
        self.pending[barrier] = np.maximum(self.pending.get(barrier, 0), known)

    # Accesses --------------------------------------------------------------------------------------------------------

    def access(self, thread: int, address: int, size: int, writes: bool) -> None:
        self._access(thread, self.known[thread], range(address, address + size), writes)

    def copy(self, thread: int, addresses: Iterable[int], barrier: int) -> None:
        """A bulk copy into shared memory, whose bytes have arrived when the phase of the barrier completes."""
        self.copies[thread] += 1
        known = self.known[thread].copy()
        known[self.threads + thread] = self.copies[thread]
        self._access(self.threads + thread, known, addresses, True)
        self._release(barrier, known)

    def _access(
        self, accessing_thread: int, known: np.ndarray, addresses: Iterable[int], writes: bool
    ) -> None:
        clock = int(known[accessing_thread])
        for byte in addresses:
            first = self.last_writes.get(byte)
            if first is not None and known[first[0]] < first[1]:
                self.races.append(("WAW" if writes else "RAW", byte, first[0], accessing_thread))
            readers = self.last_reads.setdefault(byte, {})
            if not writes:
                readers[accessing_thread] = clock
                continue
            self.races += [
                ("WAR", byte, reader, accessing_thread)
                for reader, read_clock in readers.items()
                if known[reader] < read_clock
            ]
            readers.clear()
            self.last_writes[byte] = accessing_thread, clock

    def counts(self) -> Counter[str]:
        return Counter(kind for kind, *_ in self.races)
