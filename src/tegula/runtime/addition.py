"""Adding to arrays in place, wherever they are."""

from functools import cache
from typing import Any

import numpy as np

from tegula.lang.annotations import array_annotation
from tegula.runtime.array import array
from tegula.runtime.device import CPU
from tegula.runtime.kernel import Kernel, kernel
from tegula.runtime.launch import launch
from tegula.runtime.recording import recording
from tegula.stdlib.registry import tg
from tegula.types import ElementType


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
        launch(adding(target.dtype, target.ndim), target.shape, [more], [target])


@cache
def adding(dtype: ElementType, ndim: int) -> Kernel:
    """The kernel that adds arrays of a dtype element by element."""
    kind: Any = array_annotation(dtype, ndim)

    @kernel
    def add_1(more: kind, target: kind):
        i = tg.tid()
        target[i] = target[i] + more[i]

    @kernel
    def add_2(more: kind, target: kind):
        i, j = tg.tid()
        target[i, j] = target[i, j] + more[i, j]

    @kernel
    def add_3(more: kind, target: kind):
        i, j, k = tg.tid()
        target[i, j, k] = target[i, j, k] + more[i, j, k]

    @kernel
    def add_4(more: kind, target: kind):
        i, j, k, m = tg.tid()
        target[i, j, k, m] = target[i, j, k, m] + more[i, j, k, m]

    return (add_1, add_2, add_3, add_4)[ndim - 1]
