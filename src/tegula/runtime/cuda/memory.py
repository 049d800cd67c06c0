"""Device memory, and copies to, from and within it.

An array on a device is described by a NumPy array at the device's address, which has the shape, strides and dtype, and
of which views are made. The host cannot read its elements; the functions here copy and fill them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula.runtime.cuda.context import LEGACY, Context, context
from tegula.runtime.cuda.stream import Stream, stream_on
from tegula.runtime.device import Device

POINTER_MEMORY_TYPE, POINTER_ORDINAL = 2, 9
HOST_MEMORY = 1
PORTABLE = 1
"""A flag of page-locked memory: every GPU copies it asynchronously."""


class Allocation:
    """Device memory, freed with the object in the order of the default stream. The default stream is ordered after all
    streams of Tegula, so that pending work is complete before the memory is reused."""

    def __init__(self, context: Context, size: int) -> None:
        self.context = context
        self.address = context.allocate(max(size, 1))

    # `ending` is a default argument, because module globals may be gone while the interpreter ends.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "address", 0) and not ending() and self.context.fault is None:
            self.context.status("cuMemFreeAsync", self.address, LEGACY)


class _ArrayInterface:
    """The array interface from which NumPy makes an array at an address."""

    def __init__(
        self, address: int, shape: Sequence[int], strides: Sequence[int] | None, size: int, owner: Any
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None if strides is None else tuple(strides),
            "typestr": f"|V{size}",
        }


def array_at(
    address: int, shape: Sequence[int], strides: Sequence[int] | None, dtype: np.dtype[Any], owner: Any
) -> np.ndarray:
    """A NumPy array that describes memory on a device; `owner` lives as long as the array and its views."""
    dtype = np.dtype(dtype)
    return np.asarray(_ArrayInterface(address, shape, strides, dtype.itemsize, owner)).view(dtype)


def allocate(device: Device, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Uninitialised packed memory on a device, aligned to at least 256 bytes."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    for n in shape:
        size *= n
    memory = allocate_bytes(device, size)
    return array_at(memory.address, shape, None, dtype, memory)


def allocate_bytes(device: Device, size: int) -> Allocation:
    """Uninitialised bytes on a device, aligned to at least 256."""
    allocation = Allocation(context(device.ordinal), size)
    for observer in allocation_observers:
        observer(allocation)
    return allocation


class PinnedMemory:
    """Page-locked memory of the host, freed with the object."""

    def __init__(self, context: Context, size: int) -> None:
        self.context = context
        self.address = context.make(ctypes.c_void_p, "cuMemHostAlloc", max(size, 1), PORTABLE) or 0

    # `ending` is a default argument for the same reason as in Allocation.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "address", 0) and not ending() and self.context.fault is None:
            self.context.status("cuMemFreeHost", self.address)


def pinned(size: int) -> np.ndarray:
    """Page-locked bytes of the host, for every GPU."""
    memory = PinnedMemory(context(0), size)
    return array_at(memory.address, (size,), None, np.dtype(np.uint8), memory)


allocation_observers: list[Callable[[Allocation], None]] = []
"""Functions that are called with each allocation: a graph keeps the allocations made while it was recorded."""


upload_observers: list[Callable[[Device, np.ndarray], np.ndarray]] = []
"""Functions that are called with the source of each copy from the host, and return the memory that is copied: a graph,
which copies when it is launched, keeps a copy of the source."""


def address_of(data: np.ndarray) -> int:
    """The address of the first element of an array."""
    return data.__array_interface__["data"][0]


def is_packed(data: np.ndarray) -> bool:
    """Whether an array is packed in row-major order."""
    return data.flags.c_contiguous


# Copies --------------------------------------------------------------------------------------------------------------


def upload(device: Device, target: np.ndarray, source: np.ndarray) -> None:
    """Copy a host array to device memory of the same shape and dtype. The source may be changed after the call."""
    if target.size == 0:
        return
    source = np.ascontiguousarray(source)
    for observer in upload_observers:
        source = observer(device, source)
    stream = stream_on(device)
    packed = target if is_packed(target) else allocate(device, target.shape, target.dtype)
    target_context = stream.context
    target_context.call(
        "cuMemcpyHtoDAsync_v2", address_of(packed), source.ctypes.data, source.nbytes, stream.handle
    )
    if _is_pinned(target_context, source.ctypes.data):
        target_context.call("cuStreamSynchronize", stream.handle)
    if packed is not target:
        _copy_strided(stream, target, packed)


def download(device: Device, source: np.ndarray) -> np.ndarray:
    """A packed copy on the host, complete at return. RunError for errors that earlier kernels in the stream
    reported."""
    host = np.empty(source.shape, source.dtype)
    stream = stream_on(device)
    if source.size:
        packed = source
        if not is_packed(source):
            packed = allocate(device, source.shape, source.dtype)
            _copy_strided(stream, packed, source)
        stream.context.call(
            "cuMemcpyDtoHAsync_v2", host.ctypes.data, address_of(packed), host.nbytes, stream.handle
        )
    stream.synchronize()
    return host


def copy(device: Device, target: np.ndarray, source: np.ndarray, source_device: Device) -> None:
    """Copy between device memories of the same shape and dtype, in the order of the target's stream."""
    if target.size == 0:
        return
    if source_device != device:
        _copy_across(device, target, source, source_device)
        return
    stream = stream_on(device)
    if np.may_share_memory(target, source):
        intermediate = allocate(device, source.shape, source.dtype)
        _copy_within_device(stream, intermediate, source)
        source = intermediate
    _copy_within_device(stream, target, source)


def _copy_across(device: Device, target: np.ndarray, source: np.ndarray, source_device: Device) -> None:
    """Copy from one device to another, in the order of the streams of both."""
    stream, source_stream = stream_on(device), stream_on(source_device)
    packed = source
    if not is_packed(source):
        packed = allocate(source_device, source.shape, source.dtype)
        _copy_strided(source_stream, packed, source)
    packed_target = target if is_packed(target) else allocate(device, target.shape, target.dtype)
    stream.wait_event(source_stream.record_event())
    target_context, source_context = stream.context.handle, source_stream.context.handle
    stream.context.call(
        "cuMemcpyPeerAsync",
        address_of(packed_target),
        target_context,
        address_of(packed),
        source_context,
        packed_target.nbytes,
        stream.handle,
    )
    if packed_target is not target:
        _copy_strided(stream, target, packed_target)
    source_stream.wait_event(stream.record_event())


def _copy_within_device(stream: Stream, target: np.ndarray, source: np.ndarray) -> None:
    """Copy between disjoint regions of one device; the driver's copies have no defined order of bytes."""
    if is_packed(target) and is_packed(source):
        _copy_packed(stream, target, source)
    else:
        _copy_strided(stream, target, source)


def _copy_packed(stream: Stream, target: np.ndarray, source: np.ndarray) -> None:
    stream.context.call("cuMemcpyAsync", address_of(target), address_of(source), target.nbytes, stream.handle)


def fill(device: Device, target: np.ndarray, value: object) -> None:
    """Set every element, in the order of the stream. `value`: a value that NumPy can broadcast to the target's
    shape."""
    if target.size == 0:
        return
    pattern = np.asarray(value).astype(target.dtype)
    stream = stream_on(device)
    if pattern.ndim == 0 and is_packed(target) and _fill_repeating(stream, target, pattern):
        return
    repeated = np.broadcast_to(pattern, target.shape)
    value_memory = allocate(device, pattern.shape, target.dtype)
    upload(device, value_memory, pattern)
    _copy_strided(
        stream,
        target,
        array_at(address_of(value_memory), repeated.shape, repeated.strides, target.dtype, value_memory),
    )


def _fill_repeating(stream: Stream, target: np.ndarray, pattern: np.ndarray) -> bool:
    """Fill packed memory with a pattern that repeats every 1, 2 or 4 bytes. Returns False for other patterns."""
    pattern_bytes = pattern.tobytes()
    for size, name in ((1, "cuMemsetD8Async"), (2, "cuMemsetD16Async"), (4, "cuMemsetD32Async")):
        if len(pattern_bytes) % size == 0 and pattern_bytes == pattern_bytes[:size] * (
            len(pattern_bytes) // size
        ):
            count = target.nbytes // size
            number = int.from_bytes(pattern_bytes[:size], "little")
            stream.context.call(name, address_of(target), number, count, stream.handle)
            return True
    return False


def _copy_strided(stream: Stream, target: np.ndarray, source: np.ndarray) -> None:
    from tegula.runtime.cuda.strided import copy_strided

    if target.dtype.names is not None:
        target, source = in_words(target), in_words(source)
    copy_strided(stream, target, source)


def in_words(data: np.ndarray) -> np.ndarray:
    """A view of memory of structs as integers of the structs' alignment, with an additional dimension."""
    word = np.dtype(f"u{data.dtype.alignment}")
    shape, strides = (*data.shape, data.dtype.itemsize // word.itemsize), (*data.strides, word.itemsize)
    return array_at(address_of(data), shape, strides, word, data)


def _is_pinned(owner: Context, address: int) -> bool:
    """Whether host memory is pinned, so that the driver copies from it asynchronously."""
    kind = ctypes.c_uint()
    code = owner.status("cuPointerGetAttribute", ctypes.byref(kind), POINTER_MEMORY_TYPE, address)
    return code == 0 and kind.value == HOST_MEMORY


def ordinal_of(address: int) -> int:
    """The number of the device that an address belongs to; 0 for the null address of an empty array."""
    if address == 0:
        return 0
    return context(0).make(ctypes.c_int, "cuPointerGetAttribute", POINTER_ORDINAL, address)
