"""Sums of arrays: each block sums a chunk, and the partial sums are reduced again until a single sum remains."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg
from tegula.algorithms.packed import (
    check_dtype,
    check_same_device,
    normalised_axis,
    packed,
    scalars,
    shape_around_axis,
)
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.types import element_shape, scalar_of

LONG, WIDE = (1024, 1), (64, 16)
"""The shapes of a block's chunk, (length along the axis, length after the axis), for few sums and for many sums."""
THREADS = 128


def _sum_kernels(rows: int, columns: int) -> tuple[tg.Kernel, tg.Kernel]:
    """The kernels that sum chunks of a shape: of one array, and of the products of two arrays."""

    @tg.kernel
    def sums(a, out):
        """Sum chunks of an array along its second dimension."""
        i, c, j = tg.tid()
        t = tg.tile_load(a, shape=(1, rows, columns), offset=(i, c * rows, j * columns))
        s = tg.tile_sum(t, axis=1)
        tg.tile_store(out, tg.tile_reshape(s, (1, 1, columns)), offset=(i, c, j * columns))

    @tg.kernel
    def products(a, b, out):
        """Sum chunks of the products of two arrays along their second dimension."""
        i, c, j = tg.tid()
        s = tg.tile_load(a, shape=(1, rows, columns), offset=(i, c * rows, j * columns))
        t = tg.tile_load(b, shape=(1, rows, columns), offset=(i, c * rows, j * columns))
        p = tg.tile_sum(tg.tile_map(tg.mul, s, t), axis=1)
        tg.tile_store(out, tg.tile_reshape(p, (1, 1, columns)), offset=(i, c, j * columns))

    return sums, products


KERNELS = {chunk: _sum_kernels(*chunk) for chunk in (LONG, WIDE)}


def array_sum(
    values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None
) -> Any:
    """The sum of all elements of an array, or of the elements along an axis. Chunks have the same size on all devices.

    Parameters:
        values: an array of numbers, vectors or matrices.
        out: the array for the sum, of the dtype of `values`, with one element, or with length 1 along the axis; new by
            default.
        value_count: the number of leading elements to sum; all by default.
        axis: the axis, from the last one if it is negative; all elements by default.
    Returns:
        `out`; without it and without an axis a number, or a NumPy array for vectors and matrices.
    Raises:
        IndexError: there is no such axis.
        launch: `out` does not fit, or `value_count` is out of range.
    Gradient:
        flows to `values` where a tape records and `out` is given.
    """
    axis = None if axis is None else normalised_axis("array_sum", axis, values.ndim)
    count = _checked_count("array_sum", values, value_count, axis)
    target = _result("array_sum", values, out, axis, values.dtype)
    shape = shape_around_axis(values, axis, count)
    reduce_along([_as_three_dimensions(values, axis, shape)], target, shape)
    return target.numpy()[0] if out is None and axis is None else target


def array_inner(
    a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None
) -> Any:
    """The inner product of two arrays, over all elements or along an axis; elements that are vectors or matrices
    contribute their inner products.

    Parameters:
        a, b: arrays of one shape and dtype.
        out: the array for the sum, of the scalar type, with one element, or with length 1 along the axis; new by
            default.
        count: the number of leading elements to sum; all by default.
        axis: the axis, from the last one if it is negative; all elements by default.
    Returns:
        `out`; without it and without an axis a number.
    Raises:
        ValueError: the shapes differ.
        IndexError: there is no such axis.
        launch: the dtypes or devices differ, `out` does not fit, or `count` is out of range.
    Gradient:
        flows to `a` and `b` where a tape records and `out` is given.
    """
    if a.shape != b.shape:
        raise ValueError(f"array_inner: the arrays must have one shape, got {a.shape} and {b.shape}")
    check_same_device("array_inner", a, b=b)
    check_dtype("array_inner", "b", b, a.dtype)
    axis = None if axis is None else normalised_axis("array_inner", axis, a.ndim)
    element_count = _checked_count("array_inner", a, count, axis)
    scalar = scalar_of(a.dtype)
    target = _result("array_inner", a, out, axis, scalar)
    before, length, after = shape = shape_around_axis(a, axis, element_count)
    element_size = int(np.prod(element_shape(a.dtype)))
    if axis is None:
        shape, element_size = (1, length * after, 1), 1
    views = [_as_three_dimensions(x, axis, shape) for x in (a, b)]
    if element_size == 1:
        reduce_along(views, target, shape)
    else:
        requires_grad = a.requires_grad or b.requires_grad
        component_sums = tg.empty((before * after,), scalar, a.device, requires_grad=requires_grad)
        reduce_along(views, component_sums, shape)
        split = before * after // element_size, element_size, 1
        reduce_along([scalars(component_sums, *split)], target, split)
    return target.numpy()[0] if out is None and axis is None else target


def _checked_count(function: str, values: array, count: int | None, axis: int | None) -> int:
    """The number of elements to sum; LaunchError if the array has fewer."""
    available = values.size if axis is None else values.shape[axis]
    if count is None:
        return available
    if not 0 <= count <= available or (axis is not None and count != available):
        raise LaunchError(f"{function}: count= is {count}, but the array has {available} elements")
    return count


def _result(function: str, values: array, out: array | None, axis: int | None, dtype: Any) -> array:
    """The output array, new if none is given; LaunchError if the given array does not fit."""
    shape = (1,) if axis is None else (*values.shape[:axis], 1, *values.shape[axis + 1 :])
    if out is None:
        return tg.empty(shape, dtype, values.device)
    check_same_device(function, values, out=out)
    check_dtype(function, "out", out, dtype)
    if out.shape != shape:
        raise LaunchError(f"{function}: out must have shape {shape}, got {out.shape}")
    return out


def _as_three_dimensions(values: array, axis: int | None, shape: tuple[int, int, int]) -> array:
    """A three-dimensional view of the scalars of an array, or of its first elements."""
    flat = scalars(packed(values))
    return flat[: shape[0] * shape[1] * shape[2]].reshape(shape)


def reduce_along(values: list[array], out: array, shape: tuple[int, int, int]) -> None:
    """Write the sums along the middle dimension of one array, or of the products of two."""
    before, length, after = shape
    if not before * length * after:
        out.zero_()
        return
    chunk = LONG if after == 1 else WIDE
    chunks = -(-length // chunk[0])
    grid = before, chunks, -(-after // chunk[1])
    requires_grad = any(a.requires_grad for a in values)
    is_final = chunks == 1 and out.is_contiguous
    sums = (
        scalars(out, before, 1, after)
        if is_final
        else _partial(values[0], (before, chunks, after), requires_grad)
    )
    tg.launch_tiled(KERNELS[chunk][len(values) - 1], grid, values, [sums], block_dim=THREADS)
    if chunks > 1:
        reduce_along([sums], out, (before, chunks, after))
    elif not is_final:
        out.assign(array(sums, out.dtype, out.shape, copy=False))


def _partial(values: array, shape: tuple[int, int, int], requires_grad: bool) -> array:
    return tg.empty(shape, values.dtype, values.device, requires_grad=requires_grad)
