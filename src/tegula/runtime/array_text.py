"""The text of arrays for `repr`, `str` and `format`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.errors import TegulaError

MAX_SHOWN, EDGE = 1000, 3
"""Arrays of more than MAX_SHOWN elements are abbreviated to EDGE elements at both ends of each dimension; only these
elements are copied from a GPU."""
LINE = 75
"""The maximum number of columns of a line."""


class Printing:
    """`repr`, `str` and `format` of arrays, in the style of NumPy."""

    __slots__ = ()

    def __str__(self: Any) -> str:
        return _elements(self, "")

    def __repr__(self: Any) -> str:
        start = f"tg.{type(self).__name__}("
        try:
            elements = _elements(self, start)
        except TegulaError as error:
            # The elements cannot be read during a graph recording or after a failed kernel.
            elements = f"<elements that cannot be read: {str(error).splitlines()[0]}>"
        properties = properties_text(self) + (", requires_grad=True" if self.requires_grad else "")
        last_columns = len(elements.rpartition("\n")[2]) + (0 if "\n" in elements else len(start))
        separator = " " if last_columns + len(properties) + 3 <= LINE else "\n" + " " * len(start)
        return f"{start}{elements},{separator}{properties})"

    def __format__(self: Any, spec: str) -> str:
        """The text of the array, or with a format the text of its only element; TypeError for more elements."""
        if not spec:
            return str(self)
        if self.size != 1:
            raise TypeError(
                f"the format '{spec}' applies to one number, but the array has shape {self.shape}"
            )
        return format(self.item(), spec)


def properties_text(a: Any) -> str:
    """The shape, dtype and device of an array as text."""
    return f"shape={a.shape}, dtype={a.dtype}, device={a.device}"


def _elements(a: Any, start: str) -> str:
    """The elements as NumPy prints them, after a text that begins the line."""
    if not a.size:
        return str(a.numpy())
    if a.size <= MAX_SHOWN:
        return np.array2string(a.numpy(), separator=", " if start else " ", prefix=start)
    separator = ", " if start else " "
    return np.array2string(_edges(a), separator=separator, prefix=start, threshold=0, edgeitems=EDGE)


def _edges(a: Any) -> np.ndarray:
    """The elements at both ends of each dimension, with one element instead of the omitted elements."""
    ends_by_dimension = [_ends(n) for n in a.shape]
    element_dims = a.numpy().shape[a.ndim :] if a.device.is_cpu else a[(0,) * a.ndim].numpy().shape[1:]
    shown: np.ndarray | None = None
    for index in np.ndindex(*(len(ends) for ends in ends_by_dimension)):
        text_slices, array_slices = zip(
            *(ends[k] for ends, k in zip(ends_by_dimension, index, strict=True)), strict=True
        )
        piece = a[array_slices].numpy()
        if shown is None:
            shape = tuple(min(n, 2 * EDGE + 1) for n in a.shape)
            shown = np.zeros((*shape, *element_dims), piece.dtype)
        shown[text_slices] = piece
    assert shown is not None, "the array has elements"
    return shown


def _ends(n: int) -> list[tuple[slice, slice]]:
    """The ranges of a dimension that are shown: for each, the indices in the text and the indices in the array."""
    if n <= 2 * EDGE:
        return [(slice(0, n), slice(0, n))]
    return [(slice(0, EDGE), slice(0, EDGE)), (slice(EDGE + 1, None), slice(n - EDGE, n))]
