"""The memory layout of new arrays: strides, foreign memory at an address, vectors and matrices in the last dimensions
of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from weakref import finalize

import numpy as np

from tegula.errors import LaunchError
from tegula.fitting import extents, new_extents
from tegula.runtime.array_memory import allocate, cuda_memory
from tegula.runtime.device import Device
from tegula.types import (
    DType,
    ElementType,
    components,
    element_bytes,
    element_shape,
    scalar_of,
    to_numpy,
    uint8,
)

STRIDES_HELP = "give one stride in bytes for each dimension, each a multiple of the scalar's size"


def check_without_data(**values: object) -> None:
    """Raise ValueError if data are given together with arguments that describe memory."""
    for name, value in values.items():
        if value is not None:
            raise ValueError(f"{name}= describes memory without data: leave out data, or {name}=")


class NewLayout:
    """The shape and the strides in bytes of a new array."""

    def __init__(self, lengths: tuple[int, ...], dtype: ElementType, strides: Sequence[int] | None) -> None:
        self.dtype, self.size = dtype, element_bytes(dtype)
        self.shape = new_extents(lengths, self.size)
        packed = tuple(self.size * math.prod(self.shape[k + 1 :]) for k in range(len(self.shape)))
        self.is_packed = strides is None or extents(strides) == packed
        self.strides = packed if strides is None else extents(strides)
        scalar_bytes = to_numpy(scalar_of(dtype)).itemsize
        if len(self.strides) != len(self.shape) or any(s % scalar_bytes for s in self.strides):
            raise ValueError(
                f"strides {self.strides} do not fit an array of shape {self.shape}: {STRIDES_HELP}"
            )
        spans = [s * (n - 1) for n, s in zip(self.shape, self.strides, strict=True)]
        self.low = sum(min(0, x) for x in spans) if 0 not in self.shape else 0
        self.high = self.size + sum(max(0, x) for x in spans) if 0 not in self.shape else 0
        """The offsets from the address of the first byte and of the end of the last byte."""

    @property
    def _data_layout(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and the strides with the dimensions of elements."""
        shape, scalar_bytes = element_shape(self.dtype), to_numpy(scalar_of(self.dtype)).itemsize
        element_strides = tuple(scalar_bytes * math.prod(shape[k + 1 :]) for k in range(len(shape)))
        return (*self.shape, *shape), (*self.strides, *element_strides)

    def allocated(self, device: Device, pinned: bool) -> np.ndarray:
        """New memory with these strides."""
        if self.is_packed:
            return allocate((*self.shape, *element_shape(self.dtype)), scalar_of(self.dtype), device, pinned)
        shape, strides = self._data_layout
        raw = allocate((self.high - self.low,), uint8, device, pinned)
        return np.ndarray(shape, to_numpy(scalar_of(self.dtype)), raw, -self.low, strides)

    def at(
        self,
        address: int,
        device: Device,
        capacity: int | None,
        deleter: Callable[[int, int], object] | None,
    ) -> np.ndarray:
        """Foreign memory at an address, on the host or on a GPU."""
        if capacity is not None and capacity < self.high:
            raise ValueError(
                f"the array extends {self.high} bytes from ptr, beyond the capacity of {capacity} bytes"
            )
        if not address and self.high:
            raise ValueError("ptr is 0, but must be the address of the first element")
        if address % to_numpy(scalar_of(self.dtype)).alignment:
            raise ValueError(f"ptr={address:#x} is not aligned for {scalar_of(self.dtype)}")
        shape, strides = self._data_layout
        owner = Borrowed(address, self.high if capacity is None else capacity, deleter)
        return cuda_memory().array_at(address, shape, strides, to_numpy(scalar_of(self.dtype)), owner)


class Borrowed:
    """Foreign memory, whose deleter is called at the end of its last use."""

    def __init__(self, address: int, size: int, deleter: Callable[[int, int], object] | None) -> None:
        if deleter is not None:
            finalize(self, deleter, address, size)


def complex_as_pairs(data: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs of floats in a new last dimension; a view for numbers of 64 or 128 bits."""
    if data.dtype.itemsize > 16:
        raise ValueError(f"NumPy dtype {data.dtype} has no counterpart; complex64 is vec2f, complex128 vec2d")
    real = np.dtype(f"{data.dtype.byteorder}f{data.dtype.itemsize // 2}")
    view: Any = data[..., None].view(real)
    return view


def split_elements(data: np.ndarray, dtype: ElementType) -> np.ndarray:
    """Data with trailing dimensions for the elements of a type: unchanged, or with the last dimension split.
    LaunchError if the length is not a multiple of the number of components."""
    element_dims, count = element_shape(dtype), components(dtype)
    if isinstance(dtype, DType) or data.shape[-len(element_dims) :] == element_dims:
        return data
    if data.ndim == 0 or data.shape[-1] % count:
        raise LaunchError(
            f"data of shape {data.shape} cannot be split into elements of type {dtype}: the last dimension must be a "
            f"multiple of {count}" + ("" if len(element_dims) == 1 else f", or the last two {element_dims}"),
            "reshape the data, or give another dtype",
        )
    return _split_last(
        data, element_dims if data.shape[-1] == count else (data.shape[-1] // count, *element_dims)
    )


def _split_last(data: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """A view with the last dimension split into several dimensions."""
    step = data.strides[-1]
    strides = tuple(step * math.prod(lengths[k + 1 :]) for k in range(len(lengths)))
    split_data = np.lib.stride_tricks.as_strided(
        data, (*data.shape[:-1], *lengths), (*data.strides[:-1], *strides), writeable=data.flags.writeable
    )
    return split_data
