"""Memory of spatial structures and of their builds: arrays on a CPU in one block of huge pages, where accesses to many
places are not slowed down by address translation, and which costs a fourth of the time of small pages when it is
accessed for the first time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import tegula as tg
from tegula.runtime import host_memory
from tegula.runtime.array import array, wrap
from tegula.runtime.description import ALIGNMENT
from tegula.runtime.device import CPU, Device
from tegula.types import ElementType, element_bytes, element_shape, element_type, scalar_of, to_numpy

MIN_HUGE = host_memory.HUGE_PAGE // 2
"""The minimum size in bytes of a block in huge pages."""
SPARE_BYTES = 16 * ALIGNMENT
"""Bytes for the alignment of up to 16 arrays of a block."""


def _bytes(size: int) -> np.ndarray:
    """New memory of at least `size` bytes, not initialised."""
    if size < MIN_HUGE:
        return np.empty(size + ALIGNMENT, np.uint8)
    return host_memory.kept_blocks.allocate(size)


class MemoryBlock:
    """A block of memory of at least `size` bytes, from which arrays are taken one after the other. The arrays keep the
    block alive. On a GPU each array has memory of its own."""

    def __init__(self, size: int, device: Device = CPU) -> None:
        self.device = device
        self.memory = _bytes(size if device.is_cpu else 0)
        self._next = -self.memory.ctypes.data % ALIGNMENT

    def empty(self, shape: int | Sequence[int], dtype: ElementType | type) -> array:
        """An array, not initialised; in memory of its own if it does not fit the block."""
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        element = element_type(dtype)
        begin, end = self._next, self._next + math.prod(lengths) * element_bytes(element)
        if end > len(self.memory) or not self.device.is_cpu:
            return tg.empty(lengths, element, self.device)
        self._next = end + -end % ALIGNMENT
        scalars = self.memory[begin:end].view(to_numpy(scalar_of(element)))
        return wrap(scalars.reshape((*lengths, *element_shape(element))), element, CPU)
