"""The thread pool, which runs the blocks of a launch on all cores.

The calling thread runs blocks too, and a launch of one block runs on the calling thread only. Workers are Python
threads that stay in native code, without the interpreter's lock, and sleep between launches (thunk.py). Signals such as
Ctrl-C are checked between ranges of blocks and in kernels' loops (watch.py)."""

from __future__ import annotations

import ctypes
import os
import threading
from itertools import count
from typing import Any

import numpy as np

from tegula.backend import cache
from tegula.backend.cache import Entry
from tegula.backend.loader import LoadedObject, load, map_memory
from tegula.backend.thunk import AGAIN, BUSY, JOB_BYTES, MAX_HELPERS, STOPPED, thunk_text
from tegula.backend.watch import WATCH_BYTES, connect, prepare, raise_recorded
from tegula.dataclass import replace
from tegula.target import baseline

ALIGNMENT = 64

KernelFunction = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_pointer, _i64, _i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
_Start = ctypes.CFUNCTYPE(_i32, _pointer, _i64, _pointer, ctypes.c_char_p, _i64, _i64, _i64, _pointer)
_Resume = ctypes.CFUNCTYPE(_i32, _pointer, _pointer)
_Stop = ctypes.CFUNCTYPE(None, _pointer, _i64)
_Serve = ctypes.CFUNCTYPE(None, _pointer)


class _Local(threading.local):
    """The scratch memory of a launching thread, after the thread's watch. The memory grows and never shrinks."""

    scratch: tuple[int, int] = (-1, 0)
    """The size in bytes and the address: a single attribute, because each access of a thread-local attribute is
    slow."""

    def grow(self, size: int) -> int:
        poll_address = _native().address("poll")
        memory = np.empty(size + WATCH_BYTES + ALIGNMENT, np.uint8)
        start = memory.ctypes.data + WATCH_BYTES
        address = start + -start % ALIGNMENT
        prepare(address, poll_address)
        self.memory, self.scratch = memory, (size, address)
        return address


_local = _Local()


def _scratch(size: int) -> int:
    """The address of the calling thread's scratch memory, of at least `size` bytes."""
    capacity, address = _local.scratch
    return address if size <= capacity else _local.grow(size)


def thread_count() -> int:
    """The number of threads that a launch uses: TEGULA_NUM_THREADS, or the number of cores that this process may run
    on.

    ValueError if TEGULA_NUM_THREADS is not a positive number."""
    requested = os.environ.get("TEGULA_NUM_THREADS")
    if not requested:
        return len(os.sched_getaffinity(0))
    if not requested.isascii() or not requested.isdigit() or int(requested) < 1:
        raise ValueError(f"TEGULA_NUM_THREADS must be a positive number, got {requested!r}")
    return int(requested)


def load_support(text: str, optimised: bool = True) -> LoadedObject:
    """The loaded object of functions that do not belong to a kernel, from the disk cache or compiled from LLVM IR.
    `optimised`: whether LLVM optimises the code, for six times the compile time."""
    target = replace(baseline(), optimised=optimised)
    store = cache.disk_cache()
    name = store.key([text, target.key]) if store is not None else ""
    entry = store.get(name) if store is not None else None
    if entry is None:
        from tegula.backend.llvm import compile_object

        entry = Entry({}, compile_object(text, target))
        if store is not None:
            store.put(name, entry)
    return load(entry.code)


_code: LoadedObject | None = None


def _native() -> LoadedObject:
    """The pool's own code, connected to the functions of Python that a poll calls."""
    global _code
    with _lock:
        if _code is None:
            # The text is written as LLVM would optimise it: a launch takes 14 to 63 ns longer, of 1.9 us, and the first
            # launch with an empty cache 30 ms less.
            native_code = load_support(thunk_text(baseline().is_x86), optimised=False)
            connect(native_code.address("python"), _local)
            _code = native_code
        return _code


class WorkerPool:
    """Worker threads and their shared job. One launch at a time owns the job; concurrent launches run on their own
    thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.code = _native()
        self.start = _Start(self.code.address("start"))
        self.resume = _Resume(self.code.address("resume"))
        self.stop = _Stop(self.code.address("stop"))
        self.serve = _Serve(self.code.address("serve"))
        # Never unmapped: workers read the job until the process ends.
        self.job = map_memory(JOB_BYTES)
        self.workers = 0
        self.tokens = count(1)
        self.start_workers(threads)

    def start_workers(self, threads: int) -> int:
        """Start workers until there are `threads` threads, the caller included, or the system refuses. Returns the
        number of workers."""
        while self.workers < min(threads - 1, MAX_HELPERS):
            try:
                name = f"tegula-{self.workers}"
                threading.Thread(target=self._run_worker, name=name, daemon=True).start()
            except RuntimeError:
                break
            self.workers += 1
        return self.workers

    def _run_worker(self) -> None:
        """The body of a worker thread. Its frame references the pool, which keeps the code that the worker runs in
        memory."""
        self.serve(self.job)

    def run(self, function: Any, args: bytes, blocks: int, scratch: int, threads: int) -> None:
        """Run the blocks of a launch on up to `threads` threads, the caller among them."""
        helpers = min(threads - 1, self.workers, blocks - 1)
        address = _pointer.from_buffer(function).value
        job, token, status = self.job, next(self.tokens), BUSY
        try:
            if helpers:
                status = self.start(job, token, address, args, blocks, helpers, scratch, _scratch(scratch))
            if status == BUSY:
                private_job = ctypes.create_string_buffer(JOB_BYTES)
                job = ctypes.addressof(private_job)
                status = self.start(job, token, address, args, blocks, 0, scratch, _scratch(scratch))
            while status == AGAIN:
                # A signal handler may have forked the process, or its launch may have moved this thread's scratch
                # memory.
                if self is not _pool:
                    raise RuntimeError("a process that was forked during a launch cannot finish the launch")
                status = self.resume(job, _scratch(scratch))
        except BaseException:
            if self is _pool:
                self.stop(self.job, token)
            raise
        if status == STOPPED:
            raise_recorded()


_pool: WorkerPool | None = None
_lock = threading.RLock()


def _get_pool() -> WorkerPool:
    global _pool
    with _lock:
        if _pool is None:
            _pool = WorkerPool(thread_count())
        return _pool


def _after_fork() -> None:
    """Drop the pool in a forked child, which has no workers and creates its own pool on demand."""
    global _pool, _lock
    _pool, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def run(function: Any, args: bytes, blocks: int, scratch: int, threads: int | None = None) -> None:
    """Run blocks 0 .. blocks-1 of a kernel (a KernelFunction) and wait for them.

    `args`: the packed arguments of the kernel. `scratch`: the bytes of scratch memory of each thread, aligned to 64.
    `threads`: the maximum number of threads, the caller included; None: the value of `thread_count()` at the first
    launch. Several Python threads may call this function at once; a launch while the workers are busy runs on its own
    thread. After KeyboardInterrupt or another exception of a signal handler, some blocks have not run or have not
    finished."""
    if blocks <= 1:
        if blocks == 1 and function(args, _scratch(scratch), 0, 1):
            raise_recorded()
        return
    pool = _pool or _get_pool()
    if threads is None:
        threads = pool.threads
    elif threads - 1 > pool.workers:
        with _lock:
            pool.start_workers(threads)
    pool.run(function, args, blocks, scratch, threads)
