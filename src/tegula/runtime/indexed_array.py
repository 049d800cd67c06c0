"""Arrays indexed by index arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from tegula.errors import LaunchError
from tegula.lang.annotations import CLASSES, IndexedAnnotation, array_annotation
from tegula.runtime.array import array
from tegula.runtime.array_arithmetic import Arithmetic
from tegula.runtime.array_indexing import is_basic
from tegula.runtime.array_text import Printing, properties_text
from tegula.runtime.device import Device
from tegula.types import ElementType, element_type, int32


class indexedarray(Arithmetic, Printing):
    """An array indexed by an array of indices for each of its 1 to 4 dimensions: element [i, j] is element [rows[i],
    columns[j]] of the data. Kernels read and write the elements of the data. Operators return new arrays; in-place
    operators change the data.

    As an annotation of a parameter: `indexedarray2d[float]`, or `indexedarray(dtype=float, ndim=2)`.

    Parameters:
        data: the array.
        indices: for each dimension a list, NumPy array or array of int32 on the device of the data, or None for all
            indices in order, which is the default of missing dimensions. A single array indexes the first dimension.
        dtype: the element type, for a check.
        ndim: the number of dimensions, for a check.
    Raises:
        ValueError: `data` is not an array, there are more indices than dimensions, index arrays are not of one
            dimension, or the dtype or `ndim` differs.
        IndexError: an index on the host is out of bounds.
        launch: an index array is on another device.
    Gradient:
        flows to the data.
    """

    __slots__ = ("data", "indices", "parts", "shape")
    is_indexed = True

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        if data is None and not args and "dtype" in kwargs:
            return IndexedAnnotation(array_annotation(kwargs["dtype"], kwargs.get("ndim", 1)))
        return super().__new__(cls)

    def __class_getitem__(cls, item: object) -> IndexedAnnotation:
        return IndexedAnnotation(array_annotation(item, 1))

    def __init__(
        self,
        data: array,
        indices: Sequence[Any] | array | None = None,
        dtype: object = None,
        ndim: int | None = None,
    ) -> None:
        if not isinstance(data, array):
            raise ValueError(f"an indexed array needs the tg.array to index, got {type(data).__name__}")
        if dtype is not None and element_type(dtype) != data.dtype:
            raise ValueError(f"the data has elements of {data.dtype}, but dtype is {element_type(dtype)}")
        if ndim is not None and ndim != data.ndim:
            raise ValueError(f"the data has {data.ndim} dimensions, but ndim is {ndim}")
        index_arrays = [indices] if isinstance(indices, array | np.ndarray) else list(indices or ())
        if len(index_arrays) > data.ndim:
            raise ValueError(
                f"the data has {data.ndim} dimensions, but there are {len(index_arrays)} arrays of indices"
            )
        index_arrays += [None] * (data.ndim - len(index_arrays))
        self.data = data
        self.indices: tuple[array | None, ...] = tuple(
            None if index is None else _index_array(index, data, d) for d, index in enumerate(index_arrays)
        )
        full_indices = (
            index if index is not None else _identity_indices(data, d) for d, index in enumerate(self.indices)
        )
        self.parts: tuple[array, ...] = (data, *full_indices)
        """The descriptor that a launch passes."""
        self.shape: tuple[int, ...] = tuple(len(index) for index in self.parts[1:])

    @property
    def dtype(self) -> ElementType:
        """The element type."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """The number of indexed elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def device(self) -> Device:
        """The device of the data."""
        return self.data.device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the data."""
        return self.data.requires_grad

    @property
    def grad(self) -> indexedarray | None:
        """The gradient of the data with the same indices; None if the data has no gradient."""
        grad = self.data.grad
        return None if grad is None else indexedarray(grad, self.indices)

    def to(self, device: Device | str) -> indexedarray:
        """The indexed array on a device: the indexed array itself if it is already there, else an indexed array of
        copies of the data and the indices.

        Parameters:
            device: the device, or its name.
        Returns:
            an indexed array.
        Raises:
            launch: there is no such device.
        Gradient:
            flows to the data, recorded by tapes.
        """
        data = self.data.to(device)
        if data is self.data:
            return self
        return indexedarray(data, [None if index is None else index.to(device) for index in self.indices])

    def contiguous(self) -> array:
        """A packed copy of the indexed elements.

        Returns:
            an array.
        Raises:
            nothing.
        Gradient:
            flows to the data, recorded by tapes.
        """
        from tegula.runtime.elementwise import Expression, apply

        return apply(Expression("gathered", "{0}"), [self], [self.dtype])[0]

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array, a copy. Waits for kernels on a GPU.

        Returns:
            a NumPy array of shape (*shape, *element shape).
        Raises:
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        return self.data.numpy()[np.ix_(*(index.numpy() for index in self.parts[1:]))]

    def list(self) -> list[Any]:
        """The elements as nested lists of Python numbers.

        Returns:
            a list of the shape of the data.
        Raises:
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        return self.numpy().tolist()

    def fill_(self, value: object) -> indexedarray:
        """Sets every indexed element.

        Parameters:
            value: a number, vector or matrix.
        Returns:
            the indexed array itself.
        Raises:
            number: the value does not fit the dtype.
        Gradient:
            0 for the old elements (recorded by tapes).
        """
        from tegula.runtime.array_arithmetic import operand, type_of
        from tegula.runtime.elementwise import Expression, apply

        number = operand(self.data, value)
        apply(Expression("fill", "{0}"), [number], [type_of(number, self.data)], [self])
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Indexing by integers and slices: an indexed array, or a view of the data for one element. An integer waits
        for kernels on a GPU."""
        entries = index if isinstance(index, tuple) else (index,)
        if len(entries) > self.ndim or not all(
            is_basic(i) and isinstance(i, SupportsIndex | slice) for i in entries
        ):
            raise IndexError(f"an indexed array with {self.ndim} dimensions cannot be indexed by {index!r}")
        full_entries = zip(
            (*entries, *[slice(None)] * (self.ndim - len(entries))), self.parts[1:], strict=True
        )
        selected = [
            index_array[i] if isinstance(i, slice) else index_array[i].item()
            for i, index_array in full_entries
        ]
        view = self.data[tuple(i if isinstance(i, int) else slice(None) for i in selected)]
        ranges = [i for i in selected if not isinstance(i, int)]
        return indexedarray(view, ranges) if ranges else view

    def __setitem__(self, index: Any, value: object) -> None:
        target = self[index]
        if target is not value:  # Otherwise this is the last step of `a[i] += v`.
            target.fill_(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def tolist(self) -> Sequence[Any]:
        """The elements as nested lists of Python numbers.

        Returns:
            a list of the shape of the data.
        Raises:
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        return self.list()

    def item(self) -> Any:
        """The only element, as a Python number, or as a vector or matrix of the host. Waits for kernels on a GPU.

        Returns:
            a Python number, or a vector or matrix of the host, according to the dtype.
        Raises:
            ValueError: the array has more than one element, or none.
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        return self.contiguous().item()


def _index_array(index: Any, data: array, dim: int) -> array:
    """The indices of one dimension as an array of int32 on the device of the data."""
    index_data = index if isinstance(index, array) else array(index, dtype=int32, device=data.device)
    if index_data.ndim != 1 or index_data.dtype != int32:
        raise ValueError(
            f"the indices of dimension {dim} must be a 1-D array of int32, got {properties_text(index_data)}"
        )
    if index_data.device != data.device:
        raise LaunchError(
            f"the indices of dimension {dim} are on {index_data.device}, the data is on {data.device}",
            "copy the indices: indices.to(device)",
        )
    if (index_data.device.is_cpu or index_data is not index) and index_data.size:
        numbers, n = np.asarray(index if index_data is not index else index_data.numpy()), data.shape[dim]
        if numbers.min() < 0 or numbers.max() >= n:
            range_text = f"got {numbers.min()} to {numbers.max()}"
            raise IndexError(f"the indices of dimension {dim} must be from 0 to {n - 1}, {range_text}")
    return index_data


def _identity_indices(data: array, dim: int) -> array:
    return array(np.arange(data.shape[dim], dtype=np.int32), device=data.device)


CLASSES["indexedarray"] = indexedarray
