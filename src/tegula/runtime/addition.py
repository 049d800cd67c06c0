"""In-place addition of arrays on any device."""

from __future__ import annotations

import numpy as np

from tegula.runtime.array import array
from tegula.runtime.device import CPU
from tegula.runtime.launch import launch
from tegula.runtime.recording import recording


def add(target: array, addend: array) -> None:
    """Add an array to `target` in place; each sum is rounded once. Both arrays have the same shape, dtype and device;
    no tape records the addition."""
    if not target.size:
        return
    if target.device is CPU:
        data: np.ndarray = target.numpy()
        data += addend.numpy()
        recording.written(target)
        return
    from tegula.runtime.adding_kernels import ADDING

    with recording.paused():
        launch(ADDING[target.ndim - 1], target.shape, [addend], [target])
