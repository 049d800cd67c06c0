"""Finds accesses of shared memory by two threads of a block that have no order in the PTX memory model.

Base causality (PTX ISA, "Causality Order") is transitive: accesses of a thread before a synchronisation precede
accesses of the other threads after it, and the accesses known to a thread that arrives at a memory barrier are known to
all threads that have waited for the phase. Vector clocks record, for each thread, the known accesses of each other
thread. A copy is a separate thread, which knows the accesses that its issuer knew. Proxies are ignored: the replay
checks fences."""

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
        self.ended: dict[int, np.ndarray] = {}
        self.written: dict[int, tuple[int, int]] = {}
        self.read: dict[int, dict[int, int]] = {}
        self.reports: list[tuple[str, int, int, int]] = []
        """The races: kind, byte, first and second access; the number of a copy is the number of its issuer plus the
        number of threads."""

    # Synchronisation -------------------------------------------------------------------------------------------------

    def synchronise(self, threads: Iterable[int], of_a_warp: bool) -> None:
        """Synchronise all threads of a block, of some warps, or of one warp."""
        if self.ignored == ("warp" if of_a_warp else "block"):
            return
        all_ = list(threads)
        self.known[all_] = self.known[all_].max(0)
        self.known[all_, all_] += 1

    def arrive(self, thread: int, barrier: int) -> None:
        self._release(barrier, self.known[thread])
        self.known[thread, thread] += 1

    def phase_ends(self, barrier: int) -> None:
        self.ended[barrier] = self.pending.pop(barrier)

    def wait(self, thread: int, barrier: int) -> None:
        """A phase that has never begun has ended before all accesses."""
        if barrier in self.ended and self.ignored != "mbarrier":
            self.known[thread] = np.maximum(self.known[thread], self.ended[barrier])

    def _release(self, barrier: int, known: np.ndarray) -> None:
        self.pending[barrier] = np.maximum(self.pending.get(barrier, 0), known)

    # Accesses --------------------------------------------------------------------------------------------------------

    def access(self, thread: int, address: int, size: int, writes: bool) -> None:
        self._access(thread, self.known[thread], range(address, address + size), writes)

    def copy(self, thread: int, bytes_: Iterable[int], barrier: int) -> None:
        """A bulk copy into shared memory, whose bytes have arrived when the phase of the barrier ends."""
        self.copies[thread] += 1
        known = self.known[thread].copy()
        known[self.threads + thread] = self.copies[thread]
        self._access(self.threads + thread, known, bytes_, True)
        self._release(barrier, known)

    def _access(self, accessing_thread: int, known: np.ndarray, bytes_: Iterable[int], writes: bool) -> None:
        now = int(known[accessing_thread])
        for byte in bytes_:
            first = self.written.get(byte)
            if first is not None and known[first[0]] < first[1]:
                self.reports.append(("WAW" if writes else "RAW", byte, first[0], accessing_thread))
            readers = self.read.setdefault(byte, {})
            if not writes:
                readers[accessing_thread] = now
                continue
            self.reports += [
                ("WAR", byte, reader, accessing_thread)
                for reader, then in readers.items()
                if known[reader] < then
            ]
            readers.clear()
            self.written[byte] = accessing_thread, now

    def counts(self) -> Counter[str]:
        return Counter(kind for kind, *_ in self.reports)
