"""Streams and events, which order the work on a device."""

from __future__ import annotations

import ctypes
import sys
import threading
from array import array as words
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tegula.runtime.cuda.context import LEGACY, Context, context
from tegula.runtime.cuda.dropped_modules import ForeignLibraries
from tegula.runtime.cuda.report import deliver, reported_launches
from tegula.runtime.device import Device, cuda_device

BLOCKING, NON_BLOCKING = 0, 1
DISABLE_TIMING = 2


class Stream:
    """A queue of work on one CUDA device, executed in order.

    Work in the default stream waits for work in all streams made by Tegula, and vice versa.

    Parameters:
        device: the CUDA device, or its name; the current one by default.
        priority: an int; work of streams with lower numbers is scheduled first, and 0, the default, is the lowest
            priority.
        cuda_stream: the handle of a stream that another library created and keeps alive; None creates a stream.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    Source:
        CUDA driver API, stream management.
    """

    def __init__(
        self, device: Device | str | None = None, priority: int = 0, cuda_stream: int | None = None
    ) -> None:
        self.device = cuda_device(device)
        self.context: Context = context(self.device.ordinal)
        self.priority = priority
        self.owned = cuda_stream is None
        ForeignLibraries.used |= cuda_stream not in (None, 0, LEGACY)
        # Other libraries use the handle 0 for the default stream.
        self.handle: int = self._create(BLOCKING) if cuda_stream is None else cuda_stream or LEGACY

    def _create(self, flags: int) -> int:
        return self.context.make(
            ctypes.c_void_p, "cuStreamCreateWithPriority", ctypes.c_uint(flags), self.priority
        )

    @classmethod
    def for_recording(cls, device: Device) -> Stream:
        """A stream that is not ordered with the default stream, for recordings.

        Parameters:
            device: the CUDA device.
        Returns:
            the stream.
        Raises:
            launch: the device is not a CUDA device, or no device has that name.
        """
        stream = cls(device, cuda_stream=LEGACY)
        stream.handle, stream.owned = stream._create(NON_BLOCKING), True
        return stream

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, for other libraries."""
        return self.handle

    @property
    def is_complete(self) -> bool:
        """Whether all work in the stream is complete."""
        return self.context.is_done("cuStreamQuery", self.handle)

    @property
    def is_capturing(self) -> bool:
        """Whether work in the stream is recorded instead of executed."""
        status = ctypes.c_int()
        self.context.call("cuStreamIsCapturing", self.handle, ctypes.byref(status))
        return status.value != 0

    def synchronize(self) -> None:
        """Waits until all work in the stream is complete.

        Raises:
            RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
        """
        self.context.call("cuStreamSynchronize", self.handle)
        deliver(self.context, self.handle)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event in the stream, after the work enqueued so far.

        Parameters:
            event: the event; a new one by default.
        Returns:
            the event.
        Raises:
            RuntimeError: the driver refuses the operation.
        """
        recorded_event = event if event is not None else Event(self.device)
        self.context.call("cuEventRecord", recorded_event.handle, self.handle)
        recorded_event.last_record = (self.handle, reported_launches(self.context))
        return recorded_event

    def wait_event(self, event: Event) -> None:
        """Makes later work in the stream wait for an event; the caller does not wait.

        Parameters:
            event: the event, of any stream.
        Raises:
            RuntimeError: the driver refuses the operation.
        """
        self.context.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def wait_stream(self, other: Stream, event: Event | None = None) -> None:
        """Makes later work in the stream wait for the work enqueued so far in another stream; the caller does not wait.

        Parameters:
            other: the other stream.
            event: the event that marks the end of this work; a new one by default.
        Raises:
            RuntimeError: the driver refuses the operation.
        """
        self.wait_event(other.record_event(event))

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "owned", False) and not ending() and self.context.fault is None:
            self.context.status("cuStreamDestroy_v2", self.handle)

    def __repr__(self) -> str:
        return f"tg.Stream({self.handle:#x}, device={self.device})"


class Event:
    """A point in a stream, for which streams and the host can wait.

    Parameters:
        device: the CUDA device, or its name; the current one by default.
        enable_timing: whether the event records a timestamp, for `get_event_elapsed_time`; False by default.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    Source:
        CUDA driver API, event management.
    """

    def __init__(self, device: Device | str | None = None, enable_timing: bool = False) -> None:
        self.device = cuda_device(device)
        self.context = context(self.device.ordinal)
        self.enable_timing = enable_timing
        self.last_record: tuple[int, int] | None = None
        flags = ctypes.c_uint(0 if enable_timing else DISABLE_TIMING)
        self.handle: int = self.context.make(ctypes.c_void_p, "cuEventCreate", flags)

    @property
    def is_complete(self) -> bool:
        """Whether the event has been reached; true for an event that was never recorded."""
        return self.context.is_done("cuEventQuery", self.handle)

    def synchronize(self) -> None:
        """Waits until the event is reached.

        Raises:
            RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
        """
        self.context.call("cuEventSynchronize", self.handle)
        if self.last_record is not None:
            deliver(self.context, *self.last_record)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "handle") and not ending() and self.context.fault is None:
            self.context.status("cuEventDestroy_v2", self.handle)


# The current stream ----------------------------------------------------------------------------------------


class _ThreadStreams(threading.local):
    """The streams that the thread has set, by device."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


thread_streams = _ThreadStreams()
switches = words("q", [0, 0])
"""Variables for the machine code of launches: 1 if a thread ever set a stream, else 0; and the number of recordings."""
_defaults: dict[Context, Stream] = {}


def default_stream(device: Device) -> Stream:
    """A device's default stream, which other libraries use too."""
    current = context(device.ordinal)
    stream = _defaults.get(current)
    if stream is None:
        stream = _defaults.setdefault(current, Stream(device, cuda_stream=LEGACY))
    return stream


def stream_on(device: Device) -> Stream:
    """The stream for this thread's work on a device."""
    return thread_streams.streams.get(device.ordinal) or default_stream(device)


def get_stream(device: Device | str | None = None) -> Stream:
    """The calling thread's stream on a device, for launches and copies.

    Parameters:
        device: the CUDA device, or its name; the current one by default.
    Returns:
        the stream.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    """
    return stream_on(cuda_device(device))


def set_stream(stream: Stream | None, device: Device | str | None = None, sync: bool = False) -> None:
    """Sets the calling thread's stream on the device of the stream.

    Parameters:
        stream: the stream; None for the default stream of `device`.
        device: the CUDA device, or its name, if `stream` is None; the current one by default.
        sync: whether the stream waits for the work enqueued in the previous stream; False by default.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    """
    device_of_stream = stream.device if stream is not None else cuda_device(device)
    selected = stream if stream is not None else default_stream(device_of_stream)
    if sync:
        selected.wait_stream(stream_on(device_of_stream))
    thread_streams.streams[device_of_stream.ordinal] = selected
    switches[0] = 1


def stream_override(device: Device) -> Stream | None:
    """The stream that the thread has set on a device, or None."""
    return thread_streams.streams.get(device.ordinal)


def restore_stream(device: Device, previous: Stream | None) -> None:
    """Set the thread's stream on a device to an earlier result of `stream_override`."""
    if previous is None:
        thread_streams.streams.pop(device.ordinal, None)
    else:
        thread_streams.streams[device.ordinal] = previous


class ScopedStream:
    """Sets the calling thread's stream in a `with` block.

    Parameters:
        stream: the stream; None for no change.
        sync_enter: whether the stream waits for the work in the previous stream; True by default.
        sync_exit: whether the previous stream waits for the work of the block; False by default.
    Raises:
        nothing.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        self.stream, self.sync_enter, self.sync_exit = stream, sync_enter, sync_exit

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self.stream_override = stream_override(self.stream.device)
            self.previous = stream_on(self.stream.device)
            set_stream(self.stream, sync=self.sync_enter and self.stream is not self.previous)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            set_stream(self.previous, sync=self.sync_exit and self.stream is not self.previous)
            restore_stream(self.stream.device, self.stream_override)


def wait_stream(other: Stream, event: Event | None = None) -> None:
    """Makes the calling thread's stream wait for the work enqueued so far in another stream of the same device.

    Parameters:
        other: the other stream.
        event: the event that marks the end of this work; a new one by default.
    Raises:
        RuntimeError: the driver refuses the operation.
    """
    stream_on(other.device).wait_stream(other, event)


def wait_event(event: Event) -> None:
    """Makes the calling thread's stream on the device of an event wait for the event.

    Parameters:
        event: the event.
    Raises:
        RuntimeError: the driver refuses the operation.
    """
    stream_on(event.device).wait_event(event)


def record_event(event: Event | None = None) -> Event:
    """Records an event in the calling thread's stream.

    Parameters:
        event: the event, which determines the device; a new event on the current device by default.
    Returns:
        the event.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    """
    return stream_on(event.device if event is not None else cuda_device(None)).record_event(event)


def synchronize_stream(stream: Stream | Device | str | None = None) -> None:
    """Waits until all work in a stream is complete.

    Parameters:
        stream: the stream, or a device, for the calling thread's stream on it; the current device by default.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
        RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
    """
    (stream if isinstance(stream, Stream) else get_stream(stream)).synchronize()


def synchronize_event(event: Event) -> None:
    """Waits until an event is reached.

    Parameters:
        event: the event.
    Raises:
        RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
    """
    event.synchronize()


def get_event_elapsed_time(start: Event, end: Event, synchronize: bool = True) -> float:
    """The time between two events, in milliseconds.

    Parameters:
        start, end: events made with `enable_timing=True`.
        synchronize: whether to wait for `end` first; True by default.
    Returns:
        a float.
    Raises:
        RuntimeError: an event has no timestamp or has not been reached, or an error of the kernels (tg.RunError).
    """
    if synchronize:
        end.synchronize()
    return end.context.make(ctypes.c_float, "cuEventElapsedTime", start.handle, end.handle)


def stream_from_torch(stream: Any) -> Stream:
    """A PyTorch stream as a Tegula stream; PyTorch keeps the stream alive.

    Parameters:
        stream: a stream of PyTorch, a `torch.cuda.Stream`.
    Returns:
        the stream.
    Raises:
        launch: the device is not a CUDA device, or no device has that name.
    """
    return Stream(f"cuda:{stream.device_index}", cuda_stream=stream.cuda_stream)
