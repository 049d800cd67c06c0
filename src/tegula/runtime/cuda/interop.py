"""Exchange of device arrays with PyTorch, CuPy and other libraries without copies."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tegula.errors import LaunchError
from tegula.runtime.array import array, wrap
from tegula.runtime.cuda.context import LEGACY
from tegula.runtime.cuda.dropped_modules import ForeignLibraries
from tegula.runtime.cuda.graph import recording
from tegula.runtime.cuda.memory import address_of, array_at, ordinal_of
from tegula.runtime.cuda.stream import Stream, stream_on, thread_streams
from tegula.runtime.device import Device, cuda_device
from tegula.runtime.fast_path import FOREIGN
from tegula.runtime.tensors import dtype_of
from tegula.types import DTYPES, DType, ElementType, from_numpy, to_numpy

CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13
"""Kinds of devices in DLPack."""
_KINDS = {"bool": 6, "int": 0, "uint": 1, "float": 2, "bfloat": 4, "float8_e4m3": 10, "float8_e5m2": 12}


class _Managed(ctypes.Structure):
    """The first fields of DLPack's DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _managed(capsule: Any) -> _Managed:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _Managed.from_address(get(capsule, b"dltensor"))


class CapsuleOwner:
    """A DLPack capsule as an object that hands out the capsule, as arrays of other libraries do."""

    def __init__(self, capsule: Any) -> None:
        try:
            tensor = _managed(capsule)
        except ValueError:
            raise ValueError("expected a DLPack capsule that was not used before") from None
        self._capsule = capsule
        self._device = tensor.device_kind, tensor.device_id

    def __dlpack__(self, **options: Any) -> Any:
        """The capsule, independent of the consumer's request."""
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind of the device and the device's number."""
        return self._device


# Arrays from other libraries -----------------------------------------------------------------------------------------


def on_device(value: Any, ordered: bool = True) -> tuple[np.ndarray, Device] | None:
    """The NumPy description of another library's array in device memory, and the device; None for an array on the host.

    `ordered`: this thread's stream waits for the library's pending work on the array; launches do not need this for
    PyTorch and CuPy, because they go to these libraries' stream. ValueError for a dtype that Tegula does not have."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if not value.is_cuda:
            return None
        description = _describe_tensor(value)
        if ordered:
            _wait_for(description[1], _current_handle(description[1], (value,)))
        return description
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        description = _from_cuda_array_interface(value, interface)
        if ordered or _current_handle(description[1], (value,)) is None:
            _wait_for(description[1], interface.get("stream"))
        return description
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED):
        return _from_dlpack(value, int(value.__dlpack_device__()[1]))
    return None


def _describe_tensor(tensor: Any) -> tuple[np.ndarray, Device]:
    dtype = to_numpy(dtype_of(tensor))
    strides = [s * dtype.itemsize for s in tensor.stride()]
    data = array_at(tensor.data_ptr(), tensor.shape, strides, dtype, tensor)
    return data, cuda_device(f"cuda:{tensor.get_device()}")


first_use_callbacks: list[Callable[[], object]] = []
"""Functions to call when tensors of a type are seen for the first time."""
_adopted_arrays: dict[tuple[Any, ...], array] = {}
"""Arrays on tensors of recent launches, by the tensors' descriptions. The arrays own no memory, because the launch
keeps the tensor alive."""
MAX_ADOPTED = 4096


def adopted(value: Any, dtype: ElementType | None) -> array | None:
    """Another library's array, an argument of a launch, as an array on the same memory; None for an array on the host.
    `dtype`: the vector or matrix type as which the last dimensions are viewed."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not value.is_cuda:
        description = on_device(value, ordered=False)
        ForeignLibraries.used |= description is not None
        return (
            None
            if description is None
            else wrap(description[0], dtype or from_numpy(description[0].dtype), description[1])
        )
    if type(value) not in FOREIGN:
        FOREIGN[type(value)] = _cached_array
        ForeignLibraries.used = True
        for callback in first_use_callbacks:
            callback()
    try:
        return _cached_array(value, dtype)
    except KeyError:
        data, device = _describe_tensor(value)
        adopted_array = wrap(
            array_at(value.data_ptr(), data.shape, data.strides, data.dtype, None),
            dtype or from_numpy(data.dtype),
            device,
        )
        if len(_adopted_arrays) >= MAX_ADOPTED:
            _adopted_arrays.clear()
        _adopted_arrays[_description(value, dtype)] = adopted_array
        return adopted_array


def _description(tensor: Any, dtype: ElementType | None) -> tuple[Any, ...]:
    """The key of the array on a tensor. Addresses of different devices may be equal, so that the key includes the
    device."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), dtype


def _cached_array(tensor: Any, dtype: ElementType | None) -> array:
    """The array that was made for a PyTorch tensor with the same description; KeyError if there is none."""
    return _adopted_arrays[_description(tensor, dtype)]


def _from_cuda_array_interface(value: Any, interface: dict[str, Any]) -> tuple[np.ndarray, Device]:
    dtype = np.dtype(interface["typestr"])
    from_numpy(dtype)
    address, read_only = interface["data"]
    data = array_at(address, interface["shape"], interface.get("strides"), dtype, value)
    data.flags.writeable = not read_only
    device = cuda_device(f"cuda:{ordinal_of(address)}")
    return data, device


def _wait_for(device: Device, handle: int | None) -> None:
    """Have this thread's stream wait for a stream of another library. LaunchError if that stream is being recorded."""
    stream = stream_on(device)
    if handle is not None and (handle or LEGACY) != stream.handle:
        foreign = Stream(device, cuda_stream=handle)
        if foreign.is_capturing:
            raise LaunchError(
                "an array of another library cannot be converted while that library records a graph",
                "convert the array before the recording; call functions of tegula.kernels once before the recording",
            )
        stream.wait_stream(foreign)


def _from_dlpack(value: Any, ordinal: int) -> tuple[np.ndarray, Device]:
    device = cuda_device(f"cuda:{ordinal}")
    # The capsule owns a reference to the memory until it is deleted.
    capsule = value.__dlpack__(stream=stream_on(device).handle)
    tensor = _managed(capsule)
    dtype = _dtype_of(tensor)
    shape = [tensor.shape[k] for k in range(tensor.ndim)]
    strides = [tensor.strides[k] * dtype.itemsize for k in range(tensor.ndim)] if tensor.strides else None
    return array_at((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, capsule), device


def _dtype_of(tensor: _Managed) -> np.dtype[Any]:
    for dtype in DTYPES.values():
        if tensor.lanes == 1 and (tensor.kind, tensor.bits) == _dlpack_code(dtype.name, dtype.bits):
            return to_numpy(dtype)
    raise ValueError(
        f"a DLPack dtype (kind {tensor.kind}, {tensor.bits} bits, {tensor.lanes} lanes) is not supported"
    )


def _dlpack_code(name: str, bits: int) -> tuple[int, int]:
    """DLPack's kind and number of bits of a scalar type."""
    kind = _KINDS.get(name)
    return (kind if kind is not None else _KINDS[name.rstrip("0123456789")]), max(bits, 8)


def foreign_handle(stream: Stream, args: tuple[Any, ...]) -> int:
    """The handle of the stream for a launch with arrays of other libraries: the stream that the thread has set, or else
    the current stream of the library."""
    if stream.handle != LEGACY:
        return stream.handle
    return _current_handle(stream.device, args) or LEGACY


@contextmanager
def foreign_stream(stream: Stream, handle: int, args: tuple[Any, ...]) -> Iterator[Stream]:
    """Another library's stream for a launch. If arguments are tg.arrays, the stream is ordered with `stream` before and
    after the launch."""
    foreign = Stream(stream.device, cuda_stream=handle)
    ordered = any(type(a) is array for a in args) and not foreign.is_capturing
    if ordered:
        foreign.wait_stream(stream)
    yield foreign
    if ordered:
        stream.wait_stream(foreign)


def memory_of_call(
    shape: Sequence[int],
    dtype: DType,
    device: Device,
    zeroed: bool,
    arguments: Sequence[Any],
    stream: Stream | None,
) -> array | None:
    """Memory from PyTorch, which PyTorch's graphs keep alive, for launches in PyTorch's stream; None for other
    launches. LaunchError while another library records, because Tegula would reuse its memory before the graph is
    launched."""
    launch_stream = stream or thread_streams.streams.get(device.ordinal)
    torch = sys.modules.get("torch")
    tensors = (x for x in arguments if torch is not None and isinstance(x, torch.Tensor))
    tensor = next((x for x in tensors if x.is_cuda), None)
    if launch_stream is None and tensor is not None:
        new_tensor = tensor.new_zeros if zeroed else tensor.new_empty
        data, _ = _describe_tensor(new_tensor(tuple(shape), dtype=getattr(torch, str(dtype))))
        return wrap(data, dtype, device)
    if launch_stream is None and (handle := _current_handle(device, tuple(arguments))):
        launch_stream = Stream(device, cuda_stream=handle)
    if launch_stream is not None and launch_stream.is_capturing and not recording(launch_stream):
        raise LaunchError(
            "a launch needs temporary memory, which a recording by another library does not keep alive",
            "record the launch with tg.ScopedCapture",
        )
    return None


def _current_handle(device: Device, args: tuple[Any, ...]) -> int | None:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    for value in args:
        if torch is not None and isinstance(value, torch.Tensor):
            raw_stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
            return (
                raw_stream(device.ordinal)
                if raw_stream
                else torch.cuda.current_stream(device.ordinal).cuda_stream
            )
        if cupy is not None and isinstance(value, cupy.ndarray):
            return cupy.cuda.get_current_stream().ptr
    return None


# Arrays for other libraries ------------------------------------------------------------------------------------------


def cuda_array_interface(data: np.ndarray, device: Device) -> dict[str, Any]:
    """The `__cuda_array_interface__` of an array, which CuPy, Numba and PyTorch read. AttributeError for dtypes that
    the interface cannot name (bfloat16, 8-bit floats), which DLPack can."""
    if from_numpy(data.dtype).name not in (
        "bool",
        *(n for n in DTYPES if n.startswith(("int", "uint"))),
    ) and (data.dtype.kind != "f"):
        raise AttributeError(f"__cuda_array_interface__ has no name for {from_numpy(data.dtype)}; use DLPack")
    return {
        "version": 3,
        "shape": data.shape,
        "typestr": data.dtype.str,
        "data": (address_of(data), not data.flags.writeable),
        "strides": None if data.flags.c_contiguous else data.strides,
        "stream": stream_on(device).handle,
    }


def dlpack(data: np.ndarray, device: Device, stream: int | None = None) -> Any:
    """A DLPack capsule. `stream`: the consumer's stream, which will wait for this thread's stream; None or 1 is the
    default stream, -1 for no synchronisation. BufferError for read-only memory."""
    own_stream = stream_on(device)
    if stream != -1:
        consumer = Stream(device, cuda_stream=stream or LEGACY)
        if consumer.handle != own_stream.handle:
            consumer.wait_stream(own_stream)
    scalar = from_numpy(data.dtype)
    unsigned_dtype = np.dtype(f"u{data.dtype.itemsize}")
    capsule = data.view(unsigned_dtype).__dlpack__()
    tensor = _managed(capsule)
    tensor.device_kind, tensor.device_id = CUDA, device.ordinal
    tensor.kind, tensor.bits = _dlpack_code(scalar.name, scalar.bits)
    return capsule
