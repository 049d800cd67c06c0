"""Views of arrays as packed scalars in one or three dimensions, on which one kernel handles all shapes and element
types."""

from __future__ import annotations

import math
from typing import Any

import tegula as tg
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.types import components, scalar_of


def packed(a: array) -> array:
    """The array itself if its elements are packed in row-major order, else a packed copy."""
    return a if a.is_contiguous else tg.clone(a)


def scalars(a: array, *shape: int) -> array:
    """A view of a packed array as scalars, in one dimension by default."""
    return array(a, scalar_of(a.dtype), shape or (a.size * components(a.dtype),), copy=False)


def shape_around_axis(a: array, axis: int | None, count: int) -> tuple[int, int, int]:
    """The shape of the three-dimensional view of an array's scalars: before the axis, along the axis, after the axis.

    Parameters:
        a: the array.
        axis: the axis, or None for the first `count` of all elements.
        count: the number of elements.
    Returns:
        three lengths; the last includes the components of an element.
    """
    if axis is None:
        return 1, count, components(a.dtype)
    return math.prod(a.shape[:axis]), a.shape[axis], math.prod(a.shape[axis + 1 :]) * components(a.dtype)


def normalised_axis(function: str, axis: Any, ndim: int) -> int:
    """A possibly negative axis as a non-negative one; IndexError if it is out of bounds."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"{function}: axis {axis} is out of bounds for an array with {ndim} dimensions")
    return int(axis) % ndim


def check_same_device(function: str, first: array, **others: array | None) -> None:
    """Raise LaunchError unless all arrays are on one device."""
    for name, other in others.items():
        if other is not None and other.device != first.device:
            raise LaunchError(
                f"{function}: the arrays are on several devices: {name} on {other.device}, the first on {first.device}"
            )


def check_dtype(function: str, name: str, a: array, dtype: Any) -> None:
    """Raise LaunchError unless an array has the expected dtype."""
    if a.dtype != dtype:
        raise LaunchError(f"{function}: {name} must hold {dtype}, got {a.dtype}")
