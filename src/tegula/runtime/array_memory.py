"""The memory of arrays as NumPy arrays: allocation, fills, copies and reshaped views."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

from tegula.composite import Composite
from tegula.errors import UnfitNumber
from tegula.fitting import first_leaf, fitted, is_numeric, limits, listed, new_extents
from tegula.runtime import host_memory
from tegula.runtime.description import ALIGNMENT, MAX_DESCRIPTIONS
from tegula.runtime.device import CPU, Device, is_cuda_available
from tegula.structs import relayout
from tegula.types import (
    DType,
    ElementType,
    element_bytes,
    float32,
    from_numpy,
    int32,
    is_element,
    matrix,
    scalar_of,
    to_numpy,
    vector,
)

MAX_NDIM = 4
DLPACK_CPU = 1
"""DLPack's number for the memory of the host."""


def allocate(shape: Sequence[int], dtype: DType, device: Device = CPU, pinned: bool = False) -> np.ndarray:
    """Uninitialised memory for a packed array: 64-byte aligned, on a GPU 256-byte aligned. `pinned`: page-locked, for
    host memory if there is a GPU.

    Memory of a GPU is described by a NumPy array that must not be read: see runtime/cuda/memory.py."""
    numpy_dtype = to_numpy(dtype)
    new_extents(tuple(shape), numpy_dtype.itemsize)
    if device is not CPU:
        return cuda_memory().allocate(device, shape, numpy_dtype)
    return allocate_on_host(tuple(shape), numpy_dtype, pinned)[0]


def allocate_on_host(
    shape: tuple[int, ...], numpy_dtype: np.dtype[Any], pinned: bool = False
) -> tuple[np.ndarray, int]:
    """Uninitialised memory for a packed array, and its address, a multiple of ALIGNMENT. `pinned` as in `allocate`."""
    raw: Any
    size = math.prod(shape) * numpy_dtype.itemsize
    if pinned:
        raw = pinned_bytes(size + ALIGNMENT)
    elif size >= host_memory.MIN_BYTES:
        raw = host_memory.kept_blocks.allocate(size)
    else:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    # Faster than `raw.ctypes.data`.
    address = ctypes.addressof(ctypes.c_char.from_buffer(raw))
    start = -address % ALIGNMENT
    return np.ndarray(shape, numpy_dtype, raw, start), address + start


def pinned_bytes(size: int) -> np.ndarray:
    """Page-locked memory of the host; pageable memory if there is no GPU."""
    if not is_cuda_available():
        return np.empty(size, np.uint8)
    return cuda_memory().pinned(size)


def is_pinned(data: np.ndarray) -> bool:
    """Whether host memory is page-locked memory from this module."""
    base: Any = data
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "owner", None), cuda_memory().PinnedMemory)


@cache
def cuda_memory() -> Any:
    """The module for GPU memory, imported on first use."""
    from tegula.runtime.cuda import memory

    return memory


@cache
def interop() -> Any:
    """The module for arrays of other libraries on GPUs, imported on first use."""
    from tegula.runtime.cuda import interop

    return interop


# NumPy 2.1 introduced `copy=`; assigning to `shape`, the earlier way, is being deprecated.
_RESHAPES_WITHOUT_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class CannotView(ValueError):
    """Raised for a shape that cannot be viewed without a copy."""


def viewed(data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A view of memory with another shape, created without reading the memory; CannotView if a copy would be needed."""
    try:
        if data.flags.c_contiguous:
            return data.reshape(shape)
        if _RESHAPES_WITHOUT_COPY:
            return np.reshape(data, shape, copy=False)
        view = data.view()
        view.shape = shape
        return view
    except (ValueError, AttributeError, OverflowError) as error:
        if -1 in shape or data.size != math.prod(shape):
            raise ValueError(f"cannot reshape an array with {data.size} elements to {shape}") from error
        raise CannotView from None


def reshaped(data: np.ndarray, device: Device, shape: tuple[int, ...]) -> np.ndarray:
    """The elements in another shape, copied if no view is possible."""
    try:
        return viewed(data, shape)
    except CannotView:
        packed = allocate(data.shape, from_numpy(data.dtype), device)
        copied(packed, device, data, device)
        return viewed(packed, shape)


def filled(data: np.ndarray, device: Device, value: object) -> None:
    """Set all elements of an array's memory to a value, which is broadcast."""
    if device is CPU:
        data[...] = value
    else:
        cuda_memory().fill(device, data, value)


def copied(target: np.ndarray, device: Device, source: np.ndarray, source_device: Device) -> None:
    """Copy elements between any two devices; if the dtypes differ, they are converted on the host."""
    if device is not CPU and source_device is not CPU and target.dtype == source.dtype:
        cuda_memory().copy(device, target, source, source_device)
        return
    if source_device is not CPU:
        source = cuda_memory().download(source_device, source)
    if target.dtype.names is not None:
        source = relayout(source, target.dtype)
    else:
        source = fitted(source, target.dtype, from_numpy(target.dtype).name)
    if device is CPU:
        target[...] = source
    else:
        cuda_memory().upload(device, target, source)


@cache
def unchecked_range(scalar: DType) -> tuple[float, float]:
    """The smallest and the largest number of a type that need no further check: the whole range of integers, or of
    finite floats."""
    if not scalar.is_float:
        return limits(to_numpy(scalar))
    largest = {8: 448.0, 16: 65504.0, 32: 3.4e38, 64: 1.7e308}[scalar.bits]
    return -largest, largest


def may_be_on_device(data: Any) -> bool:
    """Whether another library's array may be outside of the host's memory. PyTorch's `is_cuda` is the fastest test."""
    if isinstance(is_cuda := getattr(data, "is_cuda", None), bool):
        return is_cuda
    if hasattr(data, "__dlpack_device__"):
        return data.__dlpack_device__()[0] != DLPACK_CPU
    return hasattr(data, "__cuda_array_interface__")


def dtype_of_numbers(data: Any, source: np.ndarray) -> ElementType:
    """The type of an array of Python numbers: int32 for integers, float32 for floats, as in kernels. NumPy numbers keep
    their types, except int64 and float64, which are the types of Python numbers in NumPy."""
    dtype = source.dtype
    if dtype == np.float64:
        return float32
    is_python_number = dtype == np.uint64 and not isinstance(first_leaf(data), np.generic | np.ndarray)
    if dtype == np.int64 or is_python_number:
        return _require_representable(source, int32)
    if dtype.kind == "O":
        return (
            _require_representable(source, int32)
            if all(isinstance(x, int) for x in source.ravel())
            else float32
        )
    if not is_numeric(dtype):
        raise UnfitNumber(f"expected numbers, got data of NumPy dtype {dtype}")
    return from_numpy(dtype)


def dtype_of_value(value: Any) -> ElementType:
    """The element type of a single value: the type of a number, or a vector or matrix type for a sequence of 1 or 2
    dimensions."""
    if isinstance(value, Composite):
        return cast(ElementType, value.type)
    dtype = getattr(value, "dtype", None)
    if is_element(dtype):
        return dtype
    source = listed(value, None)
    scalar = (
        scalar_of(dtype_of_numbers(value, source))
        if not isinstance(value, np.ndarray)
        else from_numpy(source.dtype)
    )
    if source.ndim > 2:
        raise ValueError(f"a value of {source.ndim} dimensions is not an element: pass dtype=")
    if source.ndim == 1:
        return vector(len(source), scalar)
    return matrix((source.shape[0], source.shape[1]), scalar) if source.ndim else scalar


def _require_representable(source: np.ndarray, t: DType) -> DType:
    """`t`, if it can represent all numbers of `source`; else UnfitNumber, which names a wider type."""
    fitted(source, to_numpy(t), t.name, "pass a wider type: dtype=tg.int64")
    return t


def is_packed(data: np.ndarray, rank: int) -> bool:
    """Whether the components of each element, the dimensions from `rank` on, are contiguous in row-major order."""
    expected = data.itemsize
    for n, s in zip(reversed(data.shape[rank:]), reversed(data.strides[rank:]), strict=True):
        if s != expected and n > 1:
            return False
        expected *= n
    return True


@lru_cache(maxsize=MAX_DESCRIPTIONS)
def packed_strides(extents: tuple[int, ...], dtype: ElementType) -> tuple[int, ...] | None:
    """The strides, in bytes, of packed arrays; None for empty arrays and invalid shapes, which are left to NumPy."""
    if not 1 <= len(extents) <= MAX_NDIM or min(extents) < 1:
        return None
    size = element_bytes(dtype)
    return tuple(size * math.prod(extents[k + 1 :]) for k in range(len(extents)))
