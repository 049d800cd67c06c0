"""Reports of kernels on GPUs to the host: the records of each launch, delivered after the completion of its stream."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import numpy as np

from tegula.codegen.sites import RECORD_SLOTS, RECORDS, TABLE_SLOT
from tegula.dataclass import dataclass
from tegula.errors import RunError
from tegula.runtime.cuda.context import Context
from tegula.runtime.device import get_device
from tegula.runtime.report import Reports
from tegula.runtime.structures import table_address

if TYPE_CHECKING:
    from tegula.runtime.cuda.compile import CudaCompiled

MAX_UNDELIVERED = 64
"""The maximum number of launches with undelivered reports; a further launch waits for the device."""
PORTABLE, MAPPED = 1, 2


class PinnedReports:
    """The records of one launch, in pinned host memory that the device writes."""

    def __init__(self, compiled: CudaCompiled, context: Context) -> None:
        self.compiled = compiled
        self.memory = _queue(context).memory(context)
        self.address = self.memory.ctypes.data
        if any(site.kind == "structures" for site in compiled.sites):
            self.memory[TABLE_SLOT] = table_address(get_device(f"cuda:{context.ordinal}"))

    def deliver(self) -> None:
        """Write the kernel's prints, raise the error of its first failure, and clear the records for the next
        launch."""
        count = int(self.memory[0])
        if count == 0:
            return
        count_kept = min(count, RECORDS)
        rows = (
            self.memory[RECORD_SLOTS : RECORD_SLOTS * (count_kept + 1)]
            .reshape(count_kept, RECORD_SLOTS)
            .copy()
        )
        self.memory[0] = 0
        Reports(self.compiled, count, rows).deliver()


@dataclass(slots=True)
class _PendingReport:
    """The undelivered reports of a launch in a stream. `number`: the index of the launch among the device's launches
    with reports."""

    number: int
    stream: int
    reports: PinnedReports
    recorded: bool


class _ReportQueue:
    """The undelivered reports of one device, in the order of the launches."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.number = 0
        self.pending: list[_PendingReport] = []
        self.free: list[np.ndarray] = []

    def memory(self, context: Context) -> np.ndarray:
        """Memory for the records of one launch, reused where possible, because an allocation takes 0.1 to 1 ms."""
        with self.lock:
            if self.free:
                return self.free.pop()
        size = (RECORDS + 1) * RECORD_SLOTS * 8
        address = context.make(ctypes.c_void_p, "cuMemHostAlloc", size, PORTABLE | MAPPED)
        view = np.ctypeslib.as_array((ctypes.c_int64 * (size // 8)).from_address(address))
        view[0] = 0
        return view


_queues: dict[Context, _ReportQueue] = {}


def _queue(context: Context) -> _ReportQueue:
    queue = _queues.get(context)
    return queue if queue is not None else _queues.setdefault(context, _ReportQueue())


def reported_launches(context: Context) -> int:
    """The number of launches with reports on a device so far."""
    return _queue(context).number


def enqueue_reports(context: Context, stream: int, reports: PinnedReports, recorded: bool = False) -> None:
    """Queue the reports of a launch, to be delivered at the next wait for its stream. `recorded`: whether the launch
    belongs to a graph, which owns the memory."""
    queue = _queue(context)
    with queue.lock:
        queue.number += 1
        queue.pending.append(_PendingReport(queue.number, stream, reports, recorded))
        is_full = len(queue.pending) > MAX_UNDELIVERED
    if is_full:
        context.call("cuCtxSynchronize")
        deliver(context)


def deliver(context: Context, stream: int | None = None, until: int | None = None) -> None:
    """Deliver the reports of completed launches: of the whole device, of `stream` only, or of its launches up to number
    `until`. The first failure is raised after all prints."""
    queue = _queues.get(context)
    if queue is None or not queue.pending:
        return
    with queue.lock:
        completed = [
            report
            for report in queue.pending
            if stream in (None, report.stream) and (until is None or report.number <= until)
        ]
        queue.pending = [report for report in queue.pending if report not in completed]
    failure: RunError | None = None
    for pending in completed:
        try:
            pending.reports.deliver()
        except RunError as error:
            failure = failure or error
        if not pending.recorded:
            with queue.lock:
                queue.free.append(pending.reports.memory)
    if failure is not None:
        raise failure


def reuse_memory(context: Context, memory: np.ndarray) -> None:
    """Reuse the memory of reports whose graph was deleted."""
    _queue(context).free.append(memory)


def synchronize(context: Context) -> None:
    """Wait for all work on a device. RunError for the errors that its kernels reported."""
    context.call("cuCtxSynchronize")
    context.recent_kernels.clear()
    deliver(context)
