"""Adding to arrays in place, wherever they are."""

from __future__ import annotations

import numpy as np

from tegula.runtime.array import array
from tegula.runtime.device import CPU
from tegula.runtime.kernel import kernel
from tegula.runtime.launch import launch
from tegula.runtime.recording import recording
from tegula.stdlib.registry import tg


def add(target: array, more: array) -> None:
    """target += more, each sum rounded once; both of one shape and dtype, on one device, and no tape records it."""
    if not target.size:
        return
    if target.device is CPU:
        data: np.ndarray = target.numpy()
        data += more.numpy()
        recording.written(target)
        return
    with recording.paused():
        launch(ADDING[target.ndim - 1], target.shape, [more], [target])


@kernel
def add_1(more, target):
    i = tg.tid()
    target[i] = target[i] + more[i]


@kernel
def add_2(more, target):
    i, j = tg.tid()
    target[i, j] = target[i, j] + more[i, j]


@kernel
def add_3(more, target):
    i, j, k = tg.tid()
    target[i, j, k] = target[i, j, k] + more[i, j, k]


@kernel
def add_4(more, target):
    i, j, k, m = tg.tid()
    target[i, j, k, m] = target[i, j, k, m] + more[i, j, k, m]


ADDING = (add_1, add_2, add_3, add_4)
"""The kernels that add arrays element by element, by how many dimensions these have."""
