"""The addresses of array elements, and the test for arrays that share elements."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tegula.types import element_bytes

if TYPE_CHECKING:
    from tegula.runtime.array import array
    from tegula.runtime.description import Description


class ElementRange(NamedTuple):
    """The addresses of an array's elements, without a reference to its memory."""

    device: Any
    ptr: int
    size: int
    """The size of an element in bytes."""
    description: Description

    @classmethod
    def of(cls, a: array) -> ElementRange:
        """The element addresses of an array."""
        return cls(a.device, a.ptr, element_bytes(a.dtype), a.description)

    def overlaps(self, other: ElementRange) -> bool:
        """Whether two arrays share a byte."""
        if self.device != other.device or not (self.low < other.high and other.low < self.high):
            return False
        if self.ptr == other.ptr and self.description is other.description:
            return True
        if self._interleaves(other):
            return False
        try:
            return np.shares_memory(self._numpy_array(), other._numpy_array(), max_work=MAX_WORK)
        except RuntimeError:  # The exact answer is too expensive.
            return True

    def _interleaves(self, other: ElementRange) -> bool:
        """Whether the elements of two arrays are interleaved, like the leaves of an array of structs: within a period,
        a common divisor of all strides in bytes, the elements of the two arrays do not overlap."""
        period = gcd(*self.description.steps, *other.description.steps)
        distance = (other.ptr - self.ptr) % period if period else 0
        return period > 0 and distance >= self.size and distance + other.size <= period

    def covers(self, other: ElementRange) -> bool:
        """Whether the array's bytes include all bytes of another array."""
        if self.device != other.device or not (self.low <= other.low and other.high <= self.high):
            return False
        is_same_layout = self.ptr == other.ptr and self.description is other.description
        return is_same_layout or self.description.access.dense

    @property
    def low(self) -> int:
        """The address of the first byte."""
        return self.ptr + self.description.low

    @property
    def high(self) -> int:
        """The address after the last byte."""
        return self.ptr + self.description.high

    def _numpy_array(self) -> np.ndarray:
        """A NumPy array with the same addresses, for comparisons; its elements must not be read."""
        return np.asarray(_Interface(self))


MAX_WORK: Any = 10_000
"""The maximum number of steps in which NumPy decides whether two arrays share an element."""


class _Interface:
    def __init__(self, elements: ElementRange) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (elements.ptr, True),
            "shape": elements.description.shape,
            "strides": elements.description.strides,
            "typestr": f"|V{elements.size}",
        }
