"""Recorded launches (CUDA graphs): many launches and copies that are started with one call."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.cuda import memory
from tegula.runtime.cuda.report import PinnedReports, enqueue_reports, reuse_memory
from tegula.runtime.cuda.stream import (
    Stream,
    restore_stream,
    set_stream,
    stream_on,
    stream_override,
    switches,
)
from tegula.runtime.device import Device, cuda_device
from tegula.runtime.structures import structures_of

RELAXED = 2
"""The driver's capture mode in which work of other threads and allocations do not invalidate a recording."""


class Graph:
    """The work recorded between tg.capture_begin and tg.capture_end. The graph keeps its arrays and spatial structures
    alive.

    Source:
        CUDA driver API, graph management.
    """

    def __init__(self, handle: int, recorded: _Recording) -> None:
        self.device = recorded.stream.device
        self.context = recorded.stream.context
        self.retained, self.reports = recorded.retained, recorded.reports
        try:
            self.handle: int = self.context.make(
                ctypes.c_void_p, "cuGraphInstantiateWithFlags", handle, ctypes.c_uint64(0)
            )
        finally:
            self.context.call("cuGraphDestroy", handle)

    def launch(self, stream: Stream) -> None:
        """Starts all recorded work.

        Parameters:
            stream: a stream of the device of the graph.
        Raises:
            RuntimeError: the driver refuses the operation.
        """
        self.context.submit(self.context.driver.cuGraphLaunch, self.handle, stream.handle)
        self.context.recent_kernels.append("a recorded graph")
        for reports in self.reports:
            enqueue_reports(self.context, stream.handle, reports, recorded=True)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "handle") and not ending() and self.context.fault is None:
            if self.reports:
                self.context.status("cuCtxSynchronize")
            self.context.status("cuGraphExecDestroy", self.handle)
            for reports in self.reports:
                reuse_memory(self.context, reports.memory)


class _Recording:
    """A recording of one thread. `target`: the stream whose work is recorded; `stream`: a new stream for the recording,
    because the default stream cannot be recorded."""

    def __init__(self, target: Stream, previous_stream: Stream | None) -> None:
        self.target, self.previous_stream = target, previous_stream
        self.stream = Stream.for_recording(target.device)
        self.retained: list[Any] = []
        self.reports: list[PinnedReports] = []

    def keep(self, args: tuple[Any, ...], reads_table: bool) -> None:
        """Add the arrays of a launch, and the structures that it may query, to the objects that the graph keeps alive.
        `reads_table`: whether the kernel reads ids of structures from the table."""
        self.retained += [a for a in args if type(a) is array or hasattr(a, "__dlpack__")]
        named_args = (("", a) for a in args)
        self.retained += [use.structure for use in structures_of(named_args, self.target.device, reads_table)]


class _Recordings(threading.local):
    """The recordings of this thread. `active`: whether there is a recording."""

    def __init__(self) -> None:
        self.all: list[_Recording] = []
        self.active = False

    def __call__(self, stream: Stream) -> _Recording | None:
        """The innermost recording of a stream's work, if there is one."""
        for active in reversed(self.all):
            if stream is active.target or stream is active.stream:
                return active
        return None


recording = _Recordings()


def keep_recorded(device: Device, *objects: object) -> None:
    """Keep the objects whose addresses are passed to launches alive with the recordings of a device's work."""
    for active in recording.all:
        if active.target.device == device:
            active.retained += objects


def is_recorded(device: Device) -> bool:
    """Whether work of a device is being recorded."""
    return any(active.target.device == device for active in recording.all)


def _keep_allocation(allocation: memory.Allocation) -> None:
    for active in recording.all:
        if active.stream.context is allocation.context:
            active.retained.append(allocation)


def _keep_source(device: Device, source: np.ndarray) -> np.ndarray:
    """The source of a copy from the host. The source of a recorded copy is a copy that the recording keeps."""
    if not is_recorded(device):
        return source
    kept_source = source.copy()
    keep_recorded(device, kept_source)
    return kept_source


memory.allocation_observers.append(_keep_allocation)
memory.upload_observers.append(_keep_source)


def capture_begin(
    device: Device | str | None = None, stream: Stream | None = None, force_module_load: bool | None = None
) -> None:
    """Records the launches and copies of the calling thread instead of executing them, until tg.capture_end.

    Kernels that are not compiled yet are compiled during the recording.

    Parameters:
        device: the CUDA device, or its name; the current one by default.
        stream: the stream whose work is recorded; by default the calling thread's stream on `device`.
        force_module_load: is accepted and changes nothing.
    Raises:
        launch: the device is not a CUDA device, or the stream is being recorded already.
    """
    target = stream if stream is not None else stream_on(_recordable(device))
    if recording(target) is not None:
        raise LaunchError("launches of this stream are being recorded already", "call capture_end first")
    recording_state = _Recording(target, stream_override(target.device))
    recording_state.stream.context.call("cuStreamBeginCapture_v2", recording_state.stream.handle, RELAXED)
    recording.all.append(recording_state)
    recording.active = True
    switches[1] += 1
    set_stream(recording_state.stream)


def capture_end(device: Device | str | None = None, stream: Stream | None = None) -> Graph:
    """Ends the most recent recording of the calling thread.

    Parameters:
        device: a device, to end a recording on this device; any device by default.
        stream: a stream, to end the recording of this stream; any stream by default.
    Returns:
        the graph.
    Raises:
        launch: there is no recording, or an operation that cannot be recorded has invalidated it.
    """
    active = _active_recording(device, stream)
    recording.all.remove(active)
    switches[1] -= 1
    recording.active = bool(recording.all)
    restore_stream(active.target.device, active.previous_stream)
    handle = ctypes.c_void_p()
    context = active.stream.context
    context.call("cuStreamEndCapture", active.stream.handle, ctypes.byref(handle))
    if handle.value is None:
        raise LaunchError("nothing was recorded", "an operation that cannot be recorded ended the recording")
    return Graph(handle.value, active)


def _active_recording(device: Device | str | None, stream: Stream | None) -> _Recording:
    target = cuda_device(device) if device is not None else None
    for active in reversed(recording.all):
        if stream in (None, active.target, active.stream) and target in (None, active.target.device):
            return active
    raise LaunchError("no launches are being recorded", "call capture_begin first")


def _recordable(device: Device | str | None) -> Device:
    try:
        return cuda_device(device)
    except LaunchError as error:
        raise LaunchError(
            f"launches can be recorded on CUDA devices only: {error.message}", error.help
        ) from None


def capture_launch(graph: Graph, stream: Stream | None = None) -> None:
    """Starts all recorded work.

    Parameters:
        graph: the graph.
        stream: the stream; by default the calling thread's stream on the device of the graph.
    Raises:
        RuntimeError: the driver refuses the operation.
    """
    graph.launch(stream if stream is not None else stream_on(graph.device))


class ScopedCapture:
    """Records the launches of a `with` block. Afterwards the attribute `graph` is the graph for tg.capture_launch.

    An exception ends the recording and drops it.

    Parameters:
        device: the CUDA device, or its name; the current one by default.
        stream: the stream whose work is recorded; by default the calling thread's stream on `device`.
        force_module_load: is accepted and changes nothing.
    Raises:
        launch: on entry: the device is not a CUDA device, or the stream is being recorded already.
    """

    def __init__(
        self,
        device: Device | str | None = None,
        stream: Stream | None = None,
        force_module_load: bool | None = None,
    ) -> None:
        self.device, self.stream = device, stream
        self.graph: Graph | None = None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device, self.stream)
        self._recording = recording.all[-1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            graph = capture_end(stream=self._recording.stream)
        except Exception:
            # An exception of the block takes precedence, because it was raised first.
            if error is None:
                raise
            return
        if error is None:
            self.graph = graph
