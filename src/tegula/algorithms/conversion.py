"""Conversion of arrays between element types."""

from __future__ import annotations

import tegula as tg
from tegula.algorithms.packed import check_same_device, packed, scalars
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.types import components, element_shape


@tg.kernel
def convert(a, out):
    """Convert the elements of an array to the dtype of the output."""
    i = tg.tid()
    out[i] = out.dtype(a[i])


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Converts the elements of an array to the dtype of another array and writes them there. Arrays whose numbers of
    dimensions or components differ are converted scalar by scalar, in row-major order.

    Parameters:
        in_array: an array of numbers, vectors or matrices.
        out_array: the array to write.
        count: the number of leading elements of `in_array` to convert; all by default.
    Raises:
        launch: the devices or the shapes differ, `count` is out of range, or `count` is given for arrays of several
            dimensions.
    Gradient:
        flows between arrays of floats where a tape records.
    """
    check_same_device("array_cast", in_array, out_array=out_array)
    elementwise = in_array.ndim == out_array.ndim and element_shape(in_array.dtype) == element_shape(
        out_array.dtype
    )
    element_count = in_array.size if count is None else count
    if elementwise and in_array.ndim > 1:
        if in_array.shape != out_array.shape:
            raise LaunchError(
                f"array_cast: the arrays must have one shape, got {in_array.shape} and {out_array.shape}"
            )
        if element_count != in_array.size:
            raise LaunchError(
                f"array_cast: count= needs arrays of one dimension, got {in_array.ndim} dimensions"
            )
    contiguous = out_array if out_array.is_contiguous else tg.clone(out_array)
    source, target = scalars(packed(in_array)), scalars(contiguous)
    length = element_count * components(in_array.dtype)
    if not 0 <= length <= min(source.size, target.size):
        raise LaunchError(
            f"array_cast: cannot convert {length} scalars: in_array has {source.size}, out_array {target.size}"
        )
    if length:
        tg.launch(convert, length, [source], [target])
    if contiguous is not out_array:
        out_array.assign(contiguous)
