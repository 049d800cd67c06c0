"""Arrays in column-major order."""

from __future__ import annotations

from typing import Any

import tegula as tg


def column_major(a: Any) -> tg.array:
    """An array with the elements, the dtype and the device of an array, or those of an array of NumPy, with unit stride
    along the dimension before the last."""
    array = a if isinstance(a, tg.array) else tg.array(a)
    *outer, rows, columns = range(array.ndim)
    transposed = [*outer, columns, rows]
    return tg.clone(array.transpose(transposed)).transpose(transposed)
