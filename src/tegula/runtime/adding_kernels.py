"""The kernels that add arrays element by element, imported by the first addition of arrays on a GPU."""

from __future__ import annotations

from tegula.runtime.kernel import kernel
from tegula.stdlib.registry import tg


@kernel
def add_1(addend, target):
    """Add the elements of a 1-D array to another array."""
    i = tg.tid()
    target[i] = target[i] + addend[i]


@kernel
def add_2(addend, target):
    """Add the elements of a 2-D array to another array."""
    i, j = tg.tid()
    target[i, j] = target[i, j] + addend[i, j]


@kernel
def add_3(addend, target):
    """Add the elements of a 3-D array to another array."""
    i, j, k = tg.tid()
    target[i, j, k] = target[i, j, k] + addend[i, j, k]


@kernel
def add_4(addend, target):
    """Add the elements of a 4-D array to another array."""
    i, j, k, m = tg.tid()
    target[i, j, k, m] = target[i, j, k, m] + addend[i, j, k, m]


ADDING = (add_1, add_2, add_3, add_4)
"""The kernels that add arrays element by element; the kernel for arrays of n dimensions is at index n - 1."""
