"""What kernels on GPUs report to the host: the records of each launch, kept until its stream is known to be done."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import numpy as np

from tegula.codegen.sites import RECORD_SLOTS, RECORDS
from tegula.dataclass import dataclass
from tegula.errors import RunError
from tegula.runtime.cuda.context import Context
from tegula.runtime.report import Reports

if TYPE_CHECKING:
    from tegula.runtime.cuda.compile import CudaCompiled

MOST = 64
"""Launches whose reports may be waiting; one more waits for the device."""
PORTABLE, MAPPED = 1, 2


class PinnedReports:
    """The records of one launch, in memory of the host that the device writes to."""

    def __init__(self, compiled: CudaCompiled, context: Context) -> None:
        self.compiled = compiled
        self.memory = _queue(context).memory(context)
        self.address = self.memory.ctypes.data

    def deliver(self) -> None:
        """Print what was printed, raise for the first failure, and be ready for the next launch."""
        count = int(self.memory[0])
        if count == 0:
            return
        kept = min(count, RECORDS)
        rows = self.memory[RECORD_SLOTS : RECORD_SLOTS * (kept + 1)].reshape(kept, RECORD_SLOTS).copy()
        self.memory[0] = 0
        Reports(self.compiled, count, rows).deliver()


@dataclass(slots=True)
class _Waiting:
    """Reports of a launch in a stream. `number`: counts the launches of the device that report."""

    number: int
    stream: int
    reports: PinnedReports
    recorded: bool


class _Queue:
    """The reports of one device that were not delivered yet, in the order of the launches."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.number = 0
        self.waiting: list[_Waiting] = []
        self.free: list[np.ndarray] = []

    def memory(self, context: Context) -> np.ndarray:
        """Room for the records of one launch; the driver gives it in 0.1 to 1 ms, so it is kept for others."""
        with self.lock:
            if self.free:
                return self.free.pop()
        size = (RECORDS + 1) * RECORD_SLOTS * 8
        address = context.make(ctypes.c_void_p, "cuMemHostAlloc", size, PORTABLE | MAPPED)
        made = np.ctypeslib.as_array((ctypes.c_int64 * (size // 8)).from_address(address))
        made[0] = 0
        return made


_queues: dict[Context, _Queue] = {}


def _queue(context: Context) -> _Queue:
    found = _queues.get(context)
    return found if found is not None else _queues.setdefault(context, _Queue())


def launched_on(context: Context) -> int:
    """How many launches of a device had reports so far."""
    return _queue(context).number


def expect(context: Context, stream: int, reports: PinnedReports, recorded: bool = False) -> None:
    """Deliver the reports of a launch when its stream is next waited for. `recorded`: the launch belongs to a graph,
    which keeps the memory."""
    queue = _queue(context)
    with queue.lock:
        queue.number += 1
        queue.waiting.append(_Waiting(queue.number, stream, reports, recorded))
        many = len(queue.waiting) > MOST
    if many:
        context.call("cuCtxSynchronize")
        deliver(context)


def deliver(context: Context, stream: int | None = None, until: int | None = None) -> None:
    """Deliver the reports of launches that are known to be done: all of a device, or those in a stream, or of these the
    ones up to a number. The first failure is raised after all prints."""
    queue = _queues.get(context)
    if queue is None or not queue.waiting:
        return
    with queue.lock:
        done = [
            w for w in queue.waiting if stream in (None, w.stream) and (until is None or w.number <= until)
        ]
        queue.waiting = [w for w in queue.waiting if w not in done]
    failure: RunError | None = None
    for waiting in done:
        try:
            waiting.reports.deliver()
        except RunError as error:
            failure = failure or error
        if not waiting.recorded:
            with queue.lock:
                queue.free.append(waiting.reports.memory)
    if failure is not None:
        raise failure


def forget(context: Context, memory: np.ndarray) -> None:
    """Take back the memory of reports whose graph is gone."""
    _queue(context).free.append(memory)


def synchronize(context: Context) -> None:
    """Wait for everything on a device. RunError for what its kernels found."""
    context.call("cuCtxSynchronize")
    context.recent.clear()
    deliver(context)
