"""Host functions that make and copy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.fitting import extents
from tegula.runtime.array import array, fill_value, wrap
from tegula.runtime.array_memory import (
    allocate,
    allocate_on_host,
    copied,
    cuda_memory,
    dtype_of_value,
    filled,
    packed_strides,
)
from tegula.runtime.device import CPU, Device, get_device
from tegula.runtime.recording import recording
from tegula.types import (
    element_shape,
    element_type,
    scalar_of,
    to_numpy,
)

if TYPE_CHECKING:
    from tegula.runtime.cuda.stream import Stream


def from_numpy_array(
    arr: np.ndarray,
    dtype: object = None,
    shape: int | Sequence[int] | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """An array from a NumPy array: a view on the CPU, a copy on a GPU.

    Parameters:
        arr: a NumPy array of 1 to 4 dimensions, not counting the dimensions of vector and matrix elements.
        dtype: the element type; by default the dtype of `arr`. Another scalar type makes a copy.
        shape: a shape for the array; by default the shape of `arr`.
        device: the device of the array; the CPU by default.
        requires_grad: whether gradients flow to the array; False by default.
    Returns:
        an array.
    Raises:
        TypeError: `dtype` is not an element type.
        ValueError: `arr` does not hold such elements, or has more than 4 dimensions.
        number: a number does not fit the dtype.
        launch: there is no such device, or the elements do not form whole vectors or matrices.
    """
    return array(arr, dtype, shape, device=device, copy=False, requires_grad=requires_grad)


def from_dlpack(data: Any, dtype: object = None) -> array:
    """An array that shares memory with an array of another library, on the CPU or a GPU.

    Parameters:
        data: an object with `__dlpack__`, or a capsule, which is consumed: pending work on its memory must be complete.
        dtype: the element type; by default the dtype of `data`. Another scalar type makes a copy.
    Returns:
        an array on the device of `data`.
    Raises:
        TypeError: `dtype` is not an element type.
        ValueError: `data` does not hold such elements, has more than 4 dimensions, or is a capsule that was used
            before.
        number: a number does not fit the dtype.
    Source:
        Python array API standard, from_dlpack.
    """
    if type(data).__name__ == "PyCapsule":
        from tegula.runtime.cuda.interop import CapsuleOwner

        data = CapsuleOwner(data)
    return array(data, dtype=dtype, copy=False)


def to_dlpack(source: array) -> Any:
    """A DLPack capsule on the memory of an array, to be used once, for libraries without `__dlpack__`.

    Parameters:
        source: the array.
    Returns:
        a capsule.
    Raises:
        BufferError: NumPy or the device cannot export the memory.
    Source:
        Python array API standard, __dlpack__.
    """
    return source.__dlpack__()


def from_ptr(
    ptr: int,
    length: int | None = None,
    dtype: object = None,
    shape: int | Sequence[int] | None = None,
    device: Device | str | None = None,
) -> array:
    """A packed array on memory that the caller owns, as `tg.array(ptr=...)`.

    Parameters:
        ptr: the address of the first element.
        length: the number of elements; an alternative to `shape`.
        dtype: the element type; float32 by default.
        shape: the lengths of the dimensions.
        device: the device of the memory; the current device by default.
    Returns:
        an array.
    Raises:
        ValueError: the address is 0 or not aligned.
        TypeError: there is neither a length nor a shape, or `dtype` is not an element type.
        launch: there is no such device.
    """
    lengths = length if shape is None else shape
    if lengths is None:
        raise TypeError("from_ptr needs a length or a shape")
    return array(ptr=ptr, dtype=dtype, shape=lengths, device=device)


def empty(
    shape: int | Sequence[int] | None = None,
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """A new array with unspecified elements.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: the device of the array; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
        pinned: whether host memory is page-locked, if there is a GPU; False by default.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
        n: the length of an array of one dimension, instead of `shape`.
    Returns:
        a packed array, aligned to 64 bytes, on a GPU to 256.
    Raises:
        number: a length is negative or not an integer.
        TypeError: `dtype` is not an element type, or there is neither a shape nor `n`, or both.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    element, target, lengths = element_type(dtype), get_device(device), extents(resolve_shape(shape, n))
    strides = packed_strides(lengths, element)
    if strides is None or strides[0] * lengths[0] >= 2**63:
        memory = allocate((*lengths, *element_shape(element)), scalar_of(element), target, pinned)
        result = wrap(memory, element, target)
    else:
        owner: Any
        if target is CPU:
            dtype_on_host, shape_on_host = to_numpy(scalar_of(element)), (*lengths, *element_shape(element))
            owner, address = allocate_on_host(shape_on_host, dtype_on_host, pinned)
        else:
            owner = cuda_memory().allocate_bytes(target, strides[0] * lengths[0])
            address = owner.address
        result = object.__new__(array)
        result._describe(owner, element, target, True, address, lengths, strides)
    if requires_grad:
        result.requires_grad = True
    if retain_grad:
        result.retain_grad = True
    return result


def full(
    shape: int | Sequence[int],
    value: object = 0,
    dtype: object = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
) -> array:
    """A new array with one value in every element.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        value: a number, a vector or a matrix, or an array that NumPy broadcasts to the shape; 0 by default.
        dtype: the element type, a scalar, vector or matrix type; by default the type of the value: int32, float32
            and bool for Python numbers, and vectors or matrices for sequences of 1 or 2 dimensions.
        device: the device of the array; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
        pinned: whether host memory is page-locked, if there is a GPU; False by default.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        number: a number does not fit the dtype, or a length is negative or not an integer.
        TypeError: `dtype` is not an element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    element = dtype_of_value(value) if dtype is None else dtype
    return _full(empty(shape, element, device, requires_grad, pinned, retain_grad), value)


def zeros(
    shape: int | Sequence[int] | None = None,
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """A new array of zeros; in a kernel, an array of the calling thread.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: the device of the array; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
        pinned: whether host memory is page-locked, if there is a GPU; False by default.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
        n: the length of an array of one dimension, instead of `shape`.
    Returns:
        a packed array.
    Raises:
        number: a length is negative or not an integer.
        TypeError: `dtype` is not an element type, or there is neither a shape nor `n`, or both.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    return _full(empty(shape, dtype, device, requires_grad, pinned, retain_grad, n), 0)


def ones(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
) -> array:
    """A new array of ones.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: the device of the array; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
        pinned: whether host memory is page-locked, if there is a GPU; False by default.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        number: a length is negative or not an integer.
        TypeError: `dtype` is not an element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    return _full(empty(shape, dtype, device, requires_grad, pinned, retain_grad), 1)


def empty_like(
    source: array,
    device: Device | str | None = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array with unspecified elements, of the shape and dtype of another array.

    Parameters:
        source: the other array.
        device: the device of the array; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
        pinned: whether host memory is page-locked, if there is a GPU; as for `source` by default, if both are on the
            host.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    grad = source.requires_grad if requires_grad is None else requires_grad
    target = source.device if device is None else get_device(device)
    page_locked = (target is CPU and source.pinned) if pinned is None else pinned
    return empty(source.shape, source.dtype, target, grad, page_locked, retain_grad)


def full_like(
    source: array,
    value: object,
    device: Device | str | None = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array with one value in every element, of the shape and dtype of another array.

    Parameters:
        source: the other array.
        value: a number, or an array that NumPy broadcasts to the shape.
        device: the device of the array; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
        pinned: whether host memory is page-locked, if there is a GPU; as for `source` by default, if both are on the
            host.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        number: a number does not fit the dtype.
        launch: there is no such device.
    """
    return _full(empty_like(source, device, requires_grad, pinned, retain_grad), value)


def _full(target: array, value: object) -> array:
    """A new array, filled with a value. Tapes do not record the fill."""
    filled(target._data, target.device, fill_value(value, target.dtype))
    return target


def zeros_like(
    source: array,
    device: Device | str | None = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array of zeros, of the shape and dtype of another array.

    Parameters:
        source: the other array.
        device: the device of the array; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
        pinned: whether host memory is page-locked, if there is a GPU; as for `source` by default, if both are on the
            host.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    return full_like(source, 0, device, requires_grad, pinned, retain_grad)


def ones_like(
    source: array,
    device: Device | str | None = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array of ones, of the shape and dtype of another array.

    Parameters:
        source: the other array.
        device: the device of the array; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
        pinned: whether host memory is page-locked, if there is a GPU; as for `source` by default, if both are on the
            host.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    return full_like(source, 1, device, requires_grad, pinned, retain_grad)


def clone(
    source: array,
    device: Device | str | None = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A packed copy of an array.

    Parameters:
        source: the array.
        device: the device of the array; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default. False makes the elements
            of the copy constant.
        pinned: whether host memory is page-locked, if there is a GPU; as for `source` by default, if both are on the
            host.
        retain_grad: whether tg.Tape.backward leaves the gradient in an array that kernels wrote; False by
            default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    Gradient:
        flows through the copy where a tape records, unless `requires_grad` is False.
    """
    result = empty_like(source, device, requires_grad, pinned, retain_grad)
    copied(result._data, result.device, source._data, source.device)
    if requires_grad is False:
        result.requires_grad = False
    if recording.on:
        recording.record_copy(result, source)
    return result


def copy(
    dest: array,
    src: array,
    dest_offset: int = 0,
    src_offset: int = 0,
    count: int = 0,
    stream: Stream | None = None,
) -> None:
    """Copies elements of an array to another array, between any devices and dtypes.

    Parameters:
        dest: the array that is written.
        src: the array that is read, of the same shape if the whole array is copied.
        dest_offset: the element in `dest` to begin at, an int in row-major order; 0 by default.
        src_offset: the element in `src` to begin at, an int; 0 by default.
        count: the number of elements; by default, or for 0, all of `src` from `src_offset` on.
        stream: a stream of a CUDA device for the copy; by default the calling thread's stream.
    Raises:
        ValueError: the shapes differ, elements are out of bounds, or a range of elements has no view.
        number: a number does not fit the dtype.
    Gradient:
        flows to `src` (recorded by tapes).
    """
    target, source = dest, src
    if count or dest_offset or src_offset or dest.size != src.size:
        element_count = count or src.size - src_offset
        target = _element_range(dest, "dest", dest_offset, element_count)
        source = _element_range(src, "src", src_offset, element_count)
    elif dest.shape != src.shape and dest.is_contiguous and src.is_contiguous:
        target, source = dest.flatten(), src.flatten()
    if stream is None:
        target.assign(source)
        return
    from tegula.runtime.cuda.stream import ScopedStream

    with ScopedStream(stream):
        target.assign(source)


def _element_range(a: array, name: str, first: int, count: int) -> array:
    """A range of elements in row-major order, as a view of one dimension."""
    if first < 0 or count < 0 or first + count > a.size:
        raise ValueError(
            f"{name} has {a.size} elements, but elements {first} to {first + count} are requested"
        )
    return a.flatten()[first : first + count]


def resolve_shape(shape: int | Sequence[int] | None, n: int | None) -> int | Sequence[int]:
    """The shape of a new array; TypeError unless exactly one of `shape` and `n` is given."""
    if shape is not None and n is None:
        return shape
    if n is None or shape is not None:
        raise TypeError("a new array needs a shape, or its length as n=")
    return n
