"""Arrays in the memory of a device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.ir import AccessClass
from tegula.lang.annotations import ArrayAnnotation, array_annotation
from tegula.runtime.device import CPU, Device, get_device
from tegula.types import (
    DType,
    ElementType,
    element_bytes,
    element_shape,
    element_type,
    from_numpy,
    scalar_of,
    to_numpy,
)

ALIGNMENT = 64
MAX_NDIM = 4

SPECIALISATIONS: list[Any] = []
"""What an argument is specialised on, by its small number."""
_numbers: dict[Any, int] = {}


def launch_id(specialisation: Any) -> int:
    """A small number for what an argument is specialised on, so that launches compare numbers only."""
    found = _numbers.get(specialisation)
    if found is None:
        found = _numbers.setdefault(specialisation, len(SPECIALISATIONS))
        if found == len(SPECIALISATIONS):
            SPECIALISATIONS.append(specialisation)
    return found


def allocate(shape: Sequence[int], dtype: DType) -> np.ndarray:
    """Uninitialised memory for a packed array, 64-byte aligned."""
    numpy_dtype = to_numpy(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * numpy_dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(numpy_dtype).reshape(tuple(shape))


class array:
    """An array of scalars, vectors or matrices with 1 to 4 dimensions and any strides.

    `data`: anything NumPy or DLPack understands, copied unless `copy=False` (then the memory is shared, and a copy is
    made only where the dtype differs). `dtype`: the element type, taken from the data by default; vector and matrix
    types take the last one or two dimensions of the data. `shape`: for new, zeroed memory, or to reshape the data.
    As an annotation: `array[float]`, `array(dtype=float, ndim=2)`. TypeError or ValueError for data that does not
    fit."""

    __slots__ = (
        *(
            "_data",
            "access",
            "device",
            "dtype",
            "grad",
            "high",
            "launch_id",
            "low",
            "ndim",
            "packed",
            "requires_grad",
        ),
        "writeable",
    )

    _data: np.ndarray
    dtype: ElementType

    def __new__(cls, data: object = None, *args: Any, **kwargs: Any) -> Any:
        if data is None and not args and "shape" not in kwargs and "dtype" in kwargs:
            return array_annotation(kwargs["dtype"], kwargs.get("ndim", 1))
        return super().__new__(cls)

    def __class_getitem__(cls, item: object) -> ArrayAnnotation:
        return array_annotation(item, 1)

    def __init__(
        self,
        data: object = None,
        dtype: object = None,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        device: Device | str | None = None,
        copy: bool = True,
        requires_grad: bool = False,
    ) -> None:
        made = element_type(dtype) if dtype is not None else None
        host = _from_data(data, made, copy) if data is not None else None
        extents = _extents(shape) if shape is not None else None
        if made is None:
            made = from_numpy(host.dtype) if host is not None else element_type(float)
        if host is None:
            host = allocate((*(extents or ()), *element_shape(made)), scalar_of(made))
            host.fill(0)
        elif extents is not None:
            host = host.reshape((*extents, *element_shape(made)))
        self._bind(host, made, get_device(device), ndim)
        self.requires_grad = requires_grad

    def _bind(
        self, data: np.ndarray, dtype: ElementType, device: Device = CPU, ndim: int | None = None
    ) -> None:
        """Take over memory whose trailing dimensions are the element's."""
        inner = element_shape(dtype)
        rank = data.ndim - len(inner)
        if rank < 0 or data.shape[rank:] != inner:
            raise ValueError(f"data of shape {data.shape} does not hold elements of type {dtype}")
        if rank == 0:
            data, rank = data.reshape((1, *data.shape)), 1
        if not 1 <= rank <= MAX_NDIM:
            raise ValueError(f"an array has 1 to {MAX_NDIM} dimensions, got {rank}")
        if ndim is not None and ndim != rank:
            raise ValueError(f"the data has {rank} dimensions, ndim says {ndim}")
        if inner and not _packed(data, rank):
            raise ValueError(f"the components of {dtype} elements must be packed")
        self._data = data
        self.writeable = data.flags.writeable
        self.dtype = dtype
        self.ndim = rank
        self.device = device
        self.grad: array | None = None
        self.requires_grad = False
        self._describe(data, rank)

    def _describe(self, data: np.ndarray, rank: int) -> None:
        """What a launch needs: the descriptor's bytes, what kernels are specialised on, the byte range."""
        size = element_bytes(self.dtype)
        address = data.__array_interface__["data"][0]
        shape, strides = data.shape[:rank], data.strides[:rank]
        low = address + sum(min(0, s * (n - 1)) for n, s in zip(shape, strides, strict=True))
        high = address + sum(max(0, s * (n - 1)) for n, s in zip(shape, strides, strict=True)) + size
        empty = 0 in shape
        contiguous = strides[-1] == size or shape[-1] == 1
        packed = size
        dense = True
        for n, s in zip(reversed(shape), reversed(strides), strict=True):
            dense = dense and (s == packed or n == 1)
            packed *= n
        align = ALIGNMENT
        while align > 1 and any(x % align for x in (address, *strides[:-1])):
            align //= 2
        self.access = AccessClass(align, contiguous, dense)
        self.launch_id = launch_id((self.dtype, rank, self.access, self.writeable))
        self.low, self.high = low, low if empty else high
        self.packed = struct.pack(f"<{1 + 2 * rank}q", address, *shape, *strides)

    # Properties ------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return self._data.shape[: self.ndim]

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes per step of each dimension."""
        return self._data.strides[: self.ndim]

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def ptr(self) -> int:
        """The address of element 0."""
        return self._data.__array_interface__["data"][0]

    @property
    def is_contiguous(self) -> bool:
        return self.access.dense

    # Conversions -----------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The data as a NumPy array of shape (*shape, *element shape). On a CPU it shares memory."""
        return self._data

    def list(self) -> list[Any]:
        return self._data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._data, dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._data.__array_interface__

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    # Changing --------------------------------------------------------------------------------------------------------

    def fill_(self, value: object) -> array:
        """Set every element."""
        self._data[...] = value
        return self

    def zero_(self) -> array:
        """Set every element to 0."""
        self._data[...] = 0
        return self

    def assign(self, source: object) -> array:
        """Copy another array's elements; the shapes must agree."""
        data = source._data if isinstance(source, array) else np.asarray(source)
        if data.shape != self._data.shape:
            raise ValueError(
                f"cannot assign data of shape {data.shape} to an array of shape {self._data.shape}"
            )
        self._data[...] = data.astype(self._data.dtype, copy=False)
        return self

    # Views -----------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> array:
        """A view by basic indexing; a single element is a view of shape (1,)."""
        entries = index if isinstance(index, tuple) else (index,)
        if len(entries) > self.ndim or not all(isinstance(i, int | np.integer | slice) for i in entries):
            raise IndexError(f"an array with {self.ndim} dimensions cannot be indexed by {index!r}")
        return _wrap(self._data[entries], self.dtype, self.device)

    def reshape(self, shape: int | Sequence[int]) -> array:
        """The same elements under another shape, without a copy; ValueError where that is impossible."""
        target = (*_extents(shape), *element_shape(self.dtype))
        view = self._data.view()
        made = view.reshape(target)
        if made.size and not np.shares_memory(made, view):
            raise ValueError(
                f"an array with strides {self.strides} cannot be reshaped to {shape} without a copy"
            )
        return _wrap(made, self.dtype, self.device)

    def flatten(self) -> array:
        """The same elements with one dimension."""
        return self.reshape(self.size)

    def transpose(self, axes: Sequence[int] | None = None) -> array:
        """The dimensions reordered (reversed by default), as a view."""
        order = tuple(axes) if axes is not None else tuple(reversed(range(self.ndim)))
        inner = tuple(range(self.ndim, self._data.ndim))
        return _wrap(self._data.transpose(order + inner), self.dtype, self.device)

    def view(self, dtype: object) -> array:
        """The same memory under an element type of the same size."""
        made = element_type(dtype)
        if element_bytes(made) != element_bytes(self.dtype):
            raise ValueError(f"{made} and {self.dtype} differ in size")
        flat = self._data.reshape((*self.shape, -1)).view(to_numpy(scalar_of(made)))
        return _wrap(flat.reshape((*self.shape, *element_shape(made))), made, self.device)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self._data)

    def __str__(self) -> str:
        return str(self._data)

    def __repr__(self) -> str:
        return f"tg.array(shape={self.shape}, dtype={self.dtype}, device={self.device})"


def _wrap(data: np.ndarray, dtype: ElementType, device: Device) -> array:
    made = object.__new__(array)
    made._bind(data, dtype, device)
    return made


def _extents(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)


def _from_data(data: Any, dtype: ElementType | None, copy: bool) -> np.ndarray:
    if isinstance(data, array):
        data = data._data
    elif hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        data = np.from_dlpack(data)
    host = np.asarray(data)
    if dtype is None and host.dtype == np.float64 and not isinstance(data, np.ndarray):
        host = host.astype(np.float32)
    if dtype is None and host.dtype == np.int64 and not isinstance(data, np.ndarray):
        host = host.astype(np.int32)
    target = to_numpy(scalar_of(dtype)) if dtype is not None else host.dtype
    if not copy and host.dtype == target:
        return host
    made = allocate(host.shape, from_numpy(target))
    made[...] = host
    return made


def _packed(data: np.ndarray, rank: int) -> bool:
    expected = data.itemsize
    for n, s in zip(reversed(data.shape[rank:]), reversed(data.strides[rank:]), strict=True):
        if s != expected and n > 1:
            return False
        expected *= n
    return True


# Construction --------------------------------------------------------------------------------------------------------


def from_numpy_array(data: np.ndarray, dtype: object = None) -> array:
    """An array that shares memory with a NumPy array."""
    return array(data, dtype=dtype, copy=False)


def from_dlpack(data: Any, dtype: object = None) -> array:
    """An array that shares memory with any DLPack exporter on the CPU."""
    return array(np.from_dlpack(data), dtype=dtype, copy=False)


def empty(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array with unspecified elements."""
    made = element_type(dtype)
    result = _wrap(
        allocate((*_extents(shape), *element_shape(made)), scalar_of(made)), made, get_device(device)
    )
    result.requires_grad = requires_grad
    return result


def full(
    shape: int | Sequence[int],
    value: object = 0,
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array with `value` in every element."""
    return empty(shape, dtype, device, requires_grad).fill_(value)


def zeros(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array of zeros."""
    return full(shape, 0, dtype, device, requires_grad)


def ones(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array of ones."""
    return full(shape, 1, dtype, device, requires_grad)


def empty_like(source: array, requires_grad: bool | None = None) -> array:
    """A new packed array of the same shape, element type and device."""
    grad = source.requires_grad if requires_grad is None else requires_grad
    return empty(source.shape, source.dtype, source.device, grad)


def full_like(source: array, value: object, requires_grad: bool | None = None) -> array:
    return empty_like(source, requires_grad).fill_(value)


def zeros_like(source: array, requires_grad: bool | None = None) -> array:
    return full_like(source, 0, requires_grad)


def ones_like(source: array, requires_grad: bool | None = None) -> array:
    return full_like(source, 1, requires_grad)


def clone(source: array, requires_grad: bool | None = None) -> array:
    """A packed copy."""
    return empty_like(source, requires_grad).assign(source)


def copy(dest: array, src: array) -> None:
    """Copy all elements of `src` to `dest`; the shapes must agree."""
    dest.assign(src)
