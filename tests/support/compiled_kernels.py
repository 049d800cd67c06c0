"""Kernels whose code for GPUs is tested."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


@tg.kernel
def row_sum(a: tg.array2d[float], b: tg.array1d[float]):
    i = tg.tid()
    tg.tile_store(b, tg.tile_sum(tg.tile_load(a[i], shape=1024)), offset=i)


@tg.kernel
def softmax(x: tg.array2d[float], y: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(x[i], shape=4096)
    e = tg.exp(t - tg.tile_max(t))
    tg.tile_store(y[i], e * (1.0 / tg.tile_sum(e)))


@tg.kernel
def bfloat16_copy(x: tg.array1d[tg.bfloat16], y: tg.array1d[tg.bfloat16]):
    i = tg.tid()
    tg.tile_store(y, tg.tile_load(x, 2048, offset=i * 2048), offset=i * 2048)


@tg.kernel
def matmul(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float]):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in tg.pipelined(a.shape[1] // 32, stages=4, specialize=False):
        x = tg.tile_load(a, shape=(64, 32), offset=(i * 64, k * 32))
        y = tg.tile_load(b, shape=(32, 64), offset=(k * 32, j * 64))
        tg.tile_matmul(x, y, acc)
    tg.tile_store(c, acc, offset=(i * 64, j * 64))


@tg.kernel
def lanes(x: tg.array1d[float], total: tg.array1d[float]):
    i = tg.tid()
    v = x[i]
    for k in range(i % 5):
        v = v * 0.5 + float(k)
    tg.tile_atomic_add(total, tg.tile_sum(tg.tile(v)))


@tg.kernel
def inclusive_scan(x: tg.array1d[float], y: tg.array1d[float]):
    tg.tile_store(y, tg.tile_scan_inclusive(tg.tile_load(x, shape=512)))


B16 = ml_dtypes.bfloat16


KERNELS = {
    "row_sum": (row_sum, (ones(4, 1024), ones(4)), (4,), 64, 32, 1, ("ld.global.v4.b32", "shfl.sync.bfly")),
    "softmax": (softmax, (ones(4, 4096), ones(4, 4096)), (4,), 256, 64, 2, ("ld.global.v4", "st.global.v4")),
    "bfloat16_copy": (
        *(bfloat16_copy, (ones(4096, dtype=B16), ones(4096, dtype=B16)), (2,), 128, 64, 0),
        ("ld.global.v4.b32", "st.global.v4.b32"),
    ),
    "matmul": (
        *(matmul, (ones(64, 64, dtype=B16), ones(64, 64, dtype=B16), ones(64, 64)), (1, 1), 128, 168, 1),
        ("mma.sync", "ldmatrix", "cp.async.cg", 'pragma "nounroll"'),
    ),
    "lanes": (lanes, (ones(64), ones(1)), (1,), 64, 32, 1, ("atom.global.add.f32", 'pragma "nounroll"')),
    "inclusive_scan": (inclusive_scan, (ones(512), ones(512)), (1,), 128, 40, None, ("shfl.sync.bfly",)),
}
"""The kernels by name: kernel, arguments, dims, threads of a block, largest number of registers, number of barriers
(None: any), and PTX instructions that the code contains."""
