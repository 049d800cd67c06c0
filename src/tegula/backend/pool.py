"""Runs the blocks of a launch on all cores.

The caller works too. Blocks are handed out in chunks; a signal such as Ctrl-C is seen between two chunks."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import numpy as np

ALIGNMENT = 64
CHUNKS_PER_THREAD = 4

KernelFunction = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class _Local(threading.local):
    """Scratch memory of one thread; grows, never shrinks."""

    size = 0
    address = 0

    def scratch(self, size: int) -> int:
        if size > self.size:
            self.memory = np.empty(size + ALIGNMENT, np.uint8)
            start = self.memory.ctypes.data
            self.address = start + -start % ALIGNMENT
            self.size = size
        return self.address


_local = _Local()


def thread_count() -> int:
    """Threads that a launch uses: TEGULA_NUM_THREADS, or the cores this process may run on."""
    return int(os.environ.get("TEGULA_NUM_THREADS") or len(os.sched_getaffinity(0)))


class _Job:
    """One launch, shared by the threads that work on it."""

    def __init__(self, function: ctypes._CFuncPtr, args: bytes, blocks: int, scratch: int, threads: int) -> None:
        self.function, self.args, self.scratch = function, args, scratch
        chunk = max(1, blocks // (threads * CHUNKS_PER_THREAD))
        starts = range(0, blocks, chunk)
        self.chunks: Iterator[tuple[int, int]] = iter([(k, min(k + chunk, blocks)) for k in starts])
        self.helpers = threads - 1
        self.finished = threading.Semaphore(0)
        self.stopped = False

    def work(self) -> None:
        address = _local.scratch(self.scratch)
        for first, end in self.chunks:
            if self.stopped:
                break
            self.function(self.args, address, first, end)


class Pool:
    """Worker threads that wait for jobs. Made on first use, and again in a forked child."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        for k in range(threads - 1):
            threading.Thread(target=self._serve, name=f"tegula-{k}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            job = self.jobs.get()
            try:
                job.work()
            finally:
                job.finished.release()

    def run(self, function: ctypes._CFuncPtr, args: bytes, blocks: int, scratch: int) -> None:
        job = _Job(function, args, blocks, scratch, self.threads)
        for _ in range(job.helpers):
            self.jobs.put(job)
        try:
            job.work()
        except BaseException:
            job.stopped = True
            raise
        finally:
            for _ in range(job.helpers):
                job.finished.acquire()


_pool: Pool | None = None
_lock = threading.Lock()


def _shared() -> Pool:
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(thread_count())
        return _pool


def _after_fork() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def run(function: ctypes._CFuncPtr, args: bytes, blocks: int, scratch: int) -> None:
    """Run blocks 0 .. blocks-1 of a kernel and wait for them. One block runs on the calling thread."""
    if blocks <= 1:
        function(args, _local.scratch(scratch), 0, blocks)
    else:
        (_pool or _shared()).run(function, args, blocks, scratch)


__all__ = ["KernelFunction", "run", "thread_count"]
