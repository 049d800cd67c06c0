"""Indexing of arrays on the host: views by basic indexing, and assignment."""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tegula.runtime.array import array

BASIC = (int, np.integer, slice, EllipsisType, type(None))


def is_basic(index: Any) -> bool:
    """Whether an entry of an index is an integer, a slice, `...` or None."""
    return isinstance(index, BASIC) and not isinstance(index, bool)


class Indexing:
    """`a[...]` and `a[...] = value` of arrays."""

    __slots__ = ()
    _data: Any
    _view: Callable[..., array]

    dtype: Any
    ndim: int

    def __getitem__(self, index: Any) -> array:
        """A view by integers, slices, `...` and None; a single element is a view of shape (1,)."""
        entries = index if isinstance(index, tuple) else (index,)
        if any(type(i) is type(self) for i in entries):
            return self._gathered(entries)
        if not all(map(is_basic, entries)):
            raise IndexError(
                f"an array with {self.ndim} dimensions cannot be indexed by {index!r}: {_index_help(entries)}"
            )
        indexed_dims = sum(i is not None and i is not ... for i in entries)
        if indexed_dims > self.ndim or entries.count(...) > 1:
            raise IndexError(f"an array with {self.ndim} dimensions cannot be indexed by {index!r}")
        # The trailing dimensions of elements are not indexed.
        ellipsis = () if ... in entries else (...,)
        element_slices = (slice(None),) * (self._data.ndim - self.ndim)
        return self._view(self._data[(*entries, *ellipsis, *element_slices)], self.dtype, lambda g: g[index])

    def _gathered(self: Any, entries: tuple[Any, ...]) -> Any:
        """The array indexed by arrays of indices, after the integers and slices for the other dimensions."""
        from tegula.runtime.indexed_array import indexedarray

        if any(i is None or i is ... for i in entries):
            raise IndexError("arrays of indices can be combined with integers and slices only")
        ranges = [i for i in entries if isinstance(i, slice | type(self))]
        view = self[tuple(slice(None) if type(i) is type(self) else i for i in entries)]
        return indexedarray(view, [None if isinstance(i, slice) else i for i in ranges])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Sets elements to a number, or to values that NumPy can broadcast to their shape. An array with a gradient
        must have the elements' shape."""
        target = self[index]
        if _is_same(target, value):
            return  # This is the last step of `a[i] += v`.
        target.fill_(value)


def _index_help(entries: tuple[Any, ...]) -> str:
    if any(isinstance(i, float | np.floating) for i in entries):
        return "indices are whole numbers"
    if any(isinstance(i, bool | np.bool_) or getattr(i, "dtype", None) == np.bool_ for i in entries):
        return "masks need a.numpy()"
    return "give integers and slices, or arrays of int32: a[tg.array([2, 0])]"


def _is_same(target: array, value: Any) -> bool:
    """Whether a value is an array with the same elements in memory as another array."""
    return (
        type(value) is type(target)
        and value.device == target.device
        and (value.ptr, value.dtype, value.shape) == (target.ptr, target.dtype, target.shape)
        and value.strides == target.strides
    )
