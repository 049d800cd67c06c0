"""Tables of constants, read-only data of the compiled code, which are read at run-time indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import ConstantTable
from tegula.ir.fields import attr, variadic
from tegula.ops.base import require
from tegula.types import Type, to_numpy

Attrs = Mapping[str, Any]
MAX_TABLE_ELEMENTS = 1 << 18
"""The maximum number of elements of a table."""


class TableGet(ConstantTable):
    """Reads an element of a table. Attributes: `elements` in row-major order, `shape`, `type`, a scalar type. An index
    outside of the table reads the last element along its dimension."""

    __slots__ = ()
    NAME = "table.get"
    indices = variadic(index=True)
    elements = attr()
    shape = attr()
    type = attr()

    def infer(self) -> Sequence[Type]:
        shape = tuple(self.shape)
        require(len(self.indices) == len(shape), f"a table of shape {shape} takes {len(shape)} indices")
        require(all(getattr(v.type, "is_int", False) for v in self.indices), "indices must be integers")
        return [self.type]

    @property
    def bounds(self) -> tuple[int, int] | None:
        return (min(self.elements), max(self.elements)) if self.type.is_int else None

    def read(self, indices: Sequence[int]) -> Any:
        """The element at constant indices."""
        position = 0
        for i, n in zip(indices, self.shape, strict=True):
            position = position * n + (i if 0 <= i < n else n - 1)
        return self.elements[position]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        dtype = to_numpy(attrs["type"])
        elements = np.array(attrs["elements"]).astype(dtype)
        indices = [
            np.where((i >= 0) & (i < n), i, n - 1).astype(np.intp)
            for i, n in zip(operands, attrs["shape"], strict=True)
        ]
        return elements.reshape(attrs["shape"])[tuple(indices)]
