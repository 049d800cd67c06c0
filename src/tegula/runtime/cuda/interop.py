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
from tegula.runtime.cuda.dropped import Libraries
from tegula.runtime.cuda.graph import recording
from tegula.runtime.cuda.memory import address_of, described, ordinal_of
from tegula.runtime.cuda.stream import Stream, chosen, stream_on
from tegula.runtime.device import Device, cuda_device
from tegula.runtime.fast_path import FOREIGN
from tegula.runtime.tensors import dtype_of
from tegula.types import DTYPES, DType, ElementType, from_numpy, to_numpy

CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13
"""Kinds of devices in DLPack."""
_KINDS = {"bool": 6, "int": 0, "uint": 1, "float": 2, "bfloat": 4, "float8_e4m3": 10, "float8_e5m2": 12}


class _Managed(ctypes.Structure):
    """The start of DLPack's DLManagedTensor."""

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


# From others ---------------------------------------------------------------------------------------------------------


def on_device(value: Any, ordered: bool = True) -> tuple[np.ndarray, Device] | None:
    """The NumPy description of another library's array in device memory, and the device; None for an array on the host.

    `ordered`: this thread's stream waits for the library's pending work on the array; launches do not need this for
    PyTorch and CuPy, because they go to these libraries' stream. ValueError for a dtype that Tegula does not have."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if not value.is_cuda:
            return None
        described_tensor = _describe_tensor(value)
        if ordered:
            _wait_for(described_tensor[1], _handle_of(described_tensor[1], (value,)))
        return described_tensor
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        described_tensor = _from_cuda_array_interface(value, interface)
        if ordered or _handle_of(described_tensor[1], (value,)) is None:
            _wait_for(described_tensor[1], interface.get("stream"))
        return described_tensor
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED):
        return _from_dlpack(value, int(value.__dlpack_device__()[1]))
    return None


def _describe_tensor(tensor: Any) -> tuple[np.ndarray, Device]:
    dtype = to_numpy(dtype_of(tensor))
    strides = [s * dtype.itemsize for s in tensor.stride()]
    data = described(tensor.data_ptr(), tensor.shape, strides, dtype, tensor)
    return data, cuda_device(f"cuda:{tensor.get_device()}")


first_use_callbacks: list[Callable[[], object]] = []
"""Functions to call when tensors of a type are seen for the first time."""
_adopted: dict[tuple[Any, ...], array] = {}
"""Arrays on tensors of recent launches, by the tensors' descriptions. The arrays own no memory, because the launch
keeps the tensor alive."""
MAX_ADOPTED = 4096


def adopted(value: Any, dtype: ElementType | None) -> array | None:
    """Another library's array, an argument of a launch, as an array on the same memory; None for an array on the host.

    `dtype`: the vector or matrix type that its last dimensions are viewed as."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not value.is_cuda:
        current = on_device(value, ordered=False)
        Libraries.seen |= current is not None
        return (
            None if current is None else wrap(current[0], dtype or from_numpy(current[0].dtype), current[1])
        )
    if type(value) not in FOREIGN:
        FOREIGN[type(value)] = _cached_array
        Libraries.seen = True
        for tell in first_use_callbacks:
            tell()
    try:
        return _cached_array(value, dtype)
    except KeyError:
        data, device = _describe_tensor(value)
        adopted_array = wrap(
            described(value.data_ptr(), data.shape, data.strides, data.dtype, None),
            dtype or from_numpy(data.dtype),
            device,
        )
        if len(_adopted) >= MAX_ADOPTED:
            _adopted.clear()
        _adopted[_description(value, dtype)] = adopted_array
        return adopted_array


def _description(tensor: Any, dtype: ElementType | None) -> tuple[Any, ...]:
    """The key of the array on a tensor. Addresses of different devices may be equal, so that the key includes the
    device."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), dtype


def _cached_array(tensor: Any, dtype: ElementType | None) -> array:
    """The array that was made for a PyTorch tensor with the same description; KeyError if there is none."""
    return _adopted[_description(tensor, dtype)]


def _from_cuda_array_interface(value: Any, interface: dict[str, Any]) -> tuple[np.ndarray, Device]:
    dtype = np.dtype(interface["typestr"])
    from_numpy(dtype)
    address, read_only = interface["data"]
    data = described(address, interface["shape"], interface.get("strides"), dtype, value)
    data.flags.writeable = not read_only
    device = cuda_device(f"cuda:{ordinal_of(address)}")
    return data, device


def _wait_for(device: Device, handle: int | None) -> None:
    """Have this thread's stream wait for a stream of another library. LaunchError if that stream is being recorded."""
    stream = stream_on(device)
    if handle is not None and (handle or LEGACY) != stream.handle:
        other = Stream(device, cuda_stream=handle)
        if other.is_capturing:
            raise LaunchError(
                "an array of another library cannot be converted while that library records a graph",
                "convert it before the recording; call functions of tegula.kernels once before it",
            )
        stream.wait_stream(other)


def _from_dlpack(value: Any, ordinal: int) -> tuple[np.ndarray, Device]:
    device = cuda_device(f"cuda:{ordinal}")
    # The capsule owns a reference to the memory until it is deleted.
    capsule = value.__dlpack__(stream=stream_on(device).handle)
    tensor = _managed(capsule)
    dtype = _dtype_of(tensor)
    shape = [tensor.shape[k] for k in range(tensor.ndim)]
    strides = [tensor.strides[k] * dtype.itemsize for k in range(tensor.ndim)] if tensor.strides else None
    return described((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, capsule), device


def _dtype_of(tensor: _Managed) -> np.dtype[Any]:
    for dtype in DTYPES.values():
        if tensor.lanes == 1 and (tensor.kind, tensor.bits) == _code(dtype.name, dtype.bits):
            return to_numpy(dtype)
    raise ValueError(
        f"a DLPack dtype (kind {tensor.kind}, {tensor.bits} bits, {tensor.lanes} lanes) is not supported"
    )


def _code(name: str, bits: int) -> tuple[int, int]:
    """DLPack's kind and number of bits of a scalar type."""
    kind = _KINDS.get(name)
    return (kind if kind is not None else _KINDS[name.rstrip("0123456789")]), max(bits, 8)


def foreign_handle(stream: Stream, args: tuple[Any, ...]) -> int:
    """The handle of the stream for a launch with arrays of other libraries: the stream that the thread has set, or else
    the current stream of the library."""
    if stream.handle != LEGACY:
        return stream.handle
    return _handle_of(stream.device, args) or LEGACY


@contextmanager
def foreign_stream(stream: Stream, handle: int, args: tuple[Any, ...]) -> Iterator[Stream]:
    """Another library's stream for a launch. If arguments are tg.arrays, the stream is ordered with `stream` before and
    after the launch."""
    other = Stream(stream.device, cuda_stream=handle)
    ordered = any(type(a) is array for a in args) and not other.is_capturing
    if ordered:
        other.wait_stream(stream)
    yield other
    if ordered:
        stream.wait_stream(other)


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
    used = stream or chosen.streams.get(device.ordinal)
    torch = sys.modules.get("torch")
    tensors = (x for x in arguments if torch is not None and isinstance(x, torch.Tensor))
    like = next((x for x in tensors if x.is_cuda), None)
    if used is None and like is not None:
        make = like.new_zeros if zeroed else like.new_empty
        data, _ = _describe_tensor(make(tuple(shape), dtype=getattr(torch, str(dtype))))
        return wrap(data, dtype, device)
    if used is None and (handle := _handle_of(device, tuple(arguments))):
        used = Stream(device, cuda_stream=handle)
    if used is not None and used.is_capturing and not recording(used):
        raise LaunchError(
            "a launch needs temporary memory, which a recording by another library does not keep alive",
            "record it with tg.ScopedCapture",
        )
    return None


def _handle_of(device: Device, args: tuple[Any, ...]) -> int | None:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    for value in args:
        if torch is not None and isinstance(value, torch.Tensor):
            raw = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
            return raw(device.ordinal) if raw else torch.cuda.current_stream(device.ordinal).cuda_stream
        if cupy is not None and isinstance(value, cupy.ndarray):
            return cupy.cuda.get_current_stream().ptr
    return None


# For others ----------------------------------------------------------------------------------------------------------


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
    plain = np.dtype(f"u{data.dtype.itemsize}")
    capsule = data.view(plain).__dlpack__()
    tensor = _managed(capsule)
    tensor.device_kind, tensor.device_id = CUDA, device.ordinal
    tensor.kind, tensor.bits = _code(scalar.name, scalar.bits)
    return capsule
