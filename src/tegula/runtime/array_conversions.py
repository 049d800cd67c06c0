"""Conversions of arrays to Python numbers, to other arrays and to other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.runtime.array_memory import is_pinned
from tegula.runtime.device import Device, get_device
from tegula.structs import StructType
from tegula.types import element_bytes, element_type

if TYPE_CHECKING:
    from tegula.runtime.array import array


class Conversions:
    """Conversions of an array on the host. Reading the elements of an array on a GPU waits for earlier kernels in this
    thread's stream, and copies."""

    __slots__ = ()

    # Python numbers -----------------------------------------------------------------------------------------------

    def item(self: Any) -> Any:
        """The only element as a Python number, or as a vector, matrix or struct of the host. The element is a constant
        for tapes. Waits for kernels on a GPU.

        Returns:
            a Python number, or a vector, matrix or struct of the host, according to the dtype.
        Raises:
            ValueError: the array has more than one element, or none.
            TypeError: the element is a struct that holds arrays.
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        if self.size != 1:
            raise ValueError(f"item() needs an array of one element, got shape {self.shape}")
        if isinstance(self.dtype, StructType):
            return self.dtype.values(self.numpy().ravel())[0]
        values = self.numpy().ravel()
        return values.item() if values.size == 1 else self.dtype(*values)

    def tolist(self: Any) -> list[Any]:
        """The elements as nested lists of Python numbers, as by `list()`. Waits for kernels on a GPU.

        Returns:
            a list of the shape of the data.
        Raises:
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        return self.list()

    def __float__(self: Any) -> float:
        return float(self.item())

    def __int__(self: Any) -> int:
        return int(self.item())

    def __complex__(self: Any) -> complex:
        return complex(self.item())

    def __bool__(self: Any) -> bool:
        """Whether the only element is not 0; ValueError for an array with several elements, whose truth value is
        ambiguous."""
        if self.size > 1:
            raise ValueError(
                "the truth value of an array with more than one element is ambiguous: test len(a) or a.numpy().any()"
            )
        return bool(self.numpy().any())

    # Other arrays ----------------------------------------------------------------------------------------------------

    @property
    def nbytes(self: Any) -> int:
        """The number of bytes of the elements."""
        return self.size * element_bytes(self.dtype)

    @property
    def capacity(self: Any) -> int:
        """The number of bytes from the first element to the end of the last one."""
        return self.high - self.ptr

    @property
    def pinned(self: Any) -> bool:
        """Whether the elements are in page-locked host memory that Tegula allocated."""
        return self.device.is_cpu and is_pinned(self._data)

    @property
    def T(self: Any) -> array:
        """A view with the dimensions in reverse order."""
        return self.transpose()

    def to(self: Any, device: Device | str) -> array:
        """The array on a device: the array itself if it is already there, else a copy.

        Parameters:
            device: the device, or its name.
        Returns:
            an array of the same shape and dtype.
        Raises:
            launch: there is no such device.
        Gradient:
            flows through the copy where a tape records.
        """
        target_device = get_device(device)
        return self if target_device == self.device else self._cloned(target_device)

    def copy(self: Any) -> array:
        """A packed copy on the same device, as by tg.clone.

        Returns:
            an array of the same shape and dtype.
        Raises:
            nothing.
        Gradient:
            flows through the copy where a tape records.
        """
        return self._cloned(self.device)

    def contiguous(self: Any) -> array:
        """The array itself if its elements are packed in row-major order, else a packed copy.

        Returns:
            an array of the same shape, dtype and device.
        Raises:
            nothing.
        Gradient:
            flows through the copy where a tape records.
        """
        return self if self.is_contiguous else self._cloned(self.device)

    def astype(self: Any, dtype: object) -> array:
        """A packed copy with elements of another type, converted with the semantics of casts in kernels: floats are
        rounded to the nearest, and truncated to integers.

        Parameters:
            dtype: a scalar type for the components, or an element type of the same shape.
        Returns:
            an array of the same shape on the same device.
        Raises:
            TypeError: `dtype` is not an element type.
            ValueError: `dtype` has elements of another shape.
        Gradient:
            flows between floats where a tape records; none through integers.
        """
        from tegula.runtime.array_arithmetic import converted

        return converted(self, element_type(dtype))

    def sum(self: Any) -> array:
        """The sum of all elements. Integers are summed as int64 or uint64, bools are counted, and 16-bit floats are
        summed in float32 and rounded at the end.

        Returns:
            an array of shape (1,) on the same device; `float(a.sum())` is the number.
        Raises:
            nothing.
        Gradient:
            flows to every element where a tape records.
        """
        from tegula.runtime.array_sums import total

        return total(self)

    def _cloned(self: Any, device: Device) -> array:
        from tegula.runtime.make_arrays import clone

        return clone(self, device=device)
