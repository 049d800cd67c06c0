"""Memory of spatial structures and of their builds: arrays on a CPU in one block, so that small arrays are in the huge
pages of a large block too."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tegula as tg
from tegula.runtime.array import array, wrap
from tegula.runtime.array_memory import allocate
from tegula.runtime.description import ALIGNMENT
from tegula.runtime.device import CPU, Device
from tegula.types import ElementType, element_bytes, element_shape, element_type, scalar_of, to_numpy, uint8

SPARE_BYTES = 16 * ALIGNMENT
"""Bytes for the alignment of up to 16 arrays of a block."""


class MemoryBlock:
    """A block of memory of `size` bytes, from which arrays are taken one after the other. The arrays keep the block
    alive. Without a size, and on a GPU, each array has memory of its own."""

    def __init__(self, size: int = 0, device: Device = CPU) -> None:
        self.device = device
        self._memory = allocate((size if device.is_cpu else 0,), uint8)
        self._next = 0
        """The offset of the next array, a multiple of ALIGNMENT."""

    def empty(self, shape: int | Sequence[int], dtype: ElementType | type) -> array:
        """An array, not initialised; in memory of its own if the rest of the block is too small."""
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        element = element_type(dtype)
        begin, end = self._next, self._next + math.prod(lengths) * element_bytes(element)
        if end > len(self._memory) or not self.device.is_cpu:
            return tg.empty(lengths, element, self.device)
        self._next = end + -end % ALIGNMENT
        scalars = self._memory[begin:end].view(to_numpy(scalar_of(element)))
        return wrap(scalars.reshape((*lengths, *element_shape(element))), element, CPU)
