"""Functions of the host that make arrays, and copy them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.fitting import extents
from tegula.runtime.array import array, pattern, wrap
from tegula.runtime.array_memory import (
    allocate,
    copied,
    cuda_memory,
    filled,
    packed_strides,
)
from tegula.runtime.device import CPU, Device, get_device
from tegula.runtime.recording import recording
from tegula.types import (
    element_shape,
    element_type,
    scalar_of,
)


def from_numpy_array(data: np.ndarray, dtype: object = None) -> array:
    """An array that shares memory with a NumPy array.

    Parameters:
        data: a NumPy array of 1 to 4 dimensions, those of elements apart.
        dtype: the element type; that of `data` by default. Another scalar type makes a copy.
    Returns:
        an array on the CPU.
    Raises:
        TypeError: `dtype` is no element type.
        ValueError: `data` does not hold such elements, or has more than 4 dimensions.
        number: a number does not fit the dtype.
    """
    return array(data, dtype=dtype, copy=False)


def from_dlpack(data: Any, dtype: object = None) -> array:
    """An array that shares memory with an array of another library, on the CPU or a GPU.

    Parameters:
        data: an object with `__dlpack__`.
        dtype: the element type; that of `data` by default. Another scalar type makes a copy.
    Returns:
        an array on the device of `data`.
    Raises:
        TypeError: `dtype` is no element type.
        ValueError: `data` does not hold such elements, or has more than 4 dimensions.
        number: a number does not fit the dtype.
    Source:
        Python array API standard, from_dlpack.
    """
    return array(data, dtype=dtype, copy=False)


def empty(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array with unspecified elements.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: where the array is to live; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
    Returns:
        a packed array, aligned to 64 bytes, on a GPU to 256.
    Raises:
        number: a length is negative or no integer.
        TypeError: `dtype` is no element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    made, where, lengths = element_type(dtype), get_device(device), extents(shape)
    strides = None if where is CPU else packed_strides(lengths, made)
    if strides is None:
        result = wrap(allocate((*lengths, *element_shape(made)), scalar_of(made), where), made, where)
    else:
        result = object.__new__(array)
        owner = cuda_memory().new(where, strides[0] * lengths[0])
        result._describe(owner, made, where, True, owner.address, lengths, strides)
    if requires_grad:
        result.requires_grad = True
    return result


def full(
    shape: int | Sequence[int],
    value: object = 0,
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array with one value in every element.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        value: a number, or what NumPy broadcasts to the array; 0 by default.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: where the array is to live; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
    Returns:
        a packed array.
    Raises:
        number: a number does not fit the dtype, or a length is negative or no integer.
        TypeError: `dtype` is no element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    return _full(empty(shape, dtype, device, requires_grad), value)


def zeros(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array of zeros.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: where the array is to live; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
    Returns:
        a packed array.
    Raises:
        number: a length is negative or no integer.
        TypeError: `dtype` is no element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    return full(shape, 0, dtype, device, requires_grad)


def ones(
    shape: int | Sequence[int],
    dtype: object = float,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> array:
    """A new array of ones.

    Parameters:
        shape: the lengths of its 1 to 4 dimensions, an int or a sequence.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        device: where the array is to live; the current device by default.
        requires_grad: whether gradients flow to the array; False by default.
    Returns:
        a packed array.
    Raises:
        number: a length is negative or no integer.
        TypeError: `dtype` is no element type.
        ValueError: there are more than 4 dimensions.
        launch: there is no such device.
    """
    return full(shape, 1, dtype, device, requires_grad)


def empty_like(source: array, device: Device | str | None = None, requires_grad: bool | None = None) -> array:
    """A new array with unspecified elements, of the shape and dtype of another one.

    Parameters:
        source: the other array.
        device: where the array is to live; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    grad = source.requires_grad if requires_grad is None else requires_grad
    return empty(source.shape, source.dtype, source.device if device is None else device, grad)


def full_like(
    source: array, value: object, device: Device | str | None = None, requires_grad: bool | None = None
) -> array:
    """A new array with one value in every element, of the shape and dtype of another one.

    Parameters:
        source: the other array.
        value: a number, or what NumPy broadcasts to the array.
        device: where the array is to live; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
    Returns:
        a packed array.
    Raises:
        number: a number does not fit the dtype.
        launch: there is no such device.
    """
    return _full(empty_like(source, device, requires_grad), value)


def _full(made: array, value: object) -> array:
    """A new array, filled: nothing that a tape knows was there before."""
    filled(made._data, made.device, pattern(value, made.dtype))
    return made


def zeros_like(source: array, device: Device | str | None = None, requires_grad: bool | None = None) -> array:
    """A new array of zeros, of the shape and dtype of another one.

    Parameters:
        source: the other array.
        device: where the array is to live; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    return full_like(source, 0, device, requires_grad)


def ones_like(source: array, device: Device | str | None = None, requires_grad: bool | None = None) -> array:
    """A new array of ones, of the shape and dtype of another one.

    Parameters:
        source: the other array.
        device: where the array is to live; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    """
    return full_like(source, 1, device, requires_grad)


def clone(source: array, device: Device | str | None = None, requires_grad: bool | None = None) -> array:
    """A packed copy of an array.

    Parameters:
        source: the array.
        device: where the array is to live; the device of `source` by default.
        requires_grad: whether gradients flow to the array; as for `source` by default. False makes the elements
            of the copy constant.
    Returns:
        a packed array.
    Raises:
        launch: there is no such device.
    Gradient:
        flows through the copy where a tape records, unless `requires_grad` is False.
    """
    made = empty_like(source, device, requires_grad)
    copied(made._data, made.device, source._data, source.device)
    if requires_grad is False:
        made.requires_grad = False
    if recording.on:
        recording.made(made, source)
    return made


def copy(dest: array, src: array) -> None:
    """Copies all elements of an array to another one, from any device, converted to its dtype.

    Parameters:
        dest: the array that is written.
        src: an array of the same shape.
    Raises:
        ValueError: the shapes differ.
        number: a number does not fit the dtype.
    Gradient:
        flows to `src` (recorded by tapes).
    """
    dest.assign(src)
