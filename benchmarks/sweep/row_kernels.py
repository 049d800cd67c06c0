"""Kernels that are bound by memory, in plain code."""

from functools import cache
from typing import Any

import tegula as tg


@cache
def softmax(width: int, dtype: Any) -> Any:
    """A softmax of rows in float32."""

    @tg.kernel
    def softmax(A: tg.array2d[dtype], B: tg.array2d[dtype]):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(A[i], shape=width), float)
        e = tg.exp(t - tg.tile_max(t))
        tg.tile_store(B[i], tg.tile_astype(e * (1.0 / tg.tile_sum(e)), dtype))

    return softmax


@cache
def layernorm(width: int, dtype: Any) -> Any:
    """A layer norm with weight and bias."""

    @tg.kernel
    def layernorm(
        A: tg.array2d[dtype], W: tg.array1d[dtype], V: tg.array1d[dtype], B: tg.array2d[dtype], eps: float
    ):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(A[i], shape=width), float)
        w = tg.tile_astype(tg.tile_load(W, shape=width), float)
        v = tg.tile_astype(tg.tile_load(V, shape=width), float)
        d = t - tg.tile_sum(t) * (1.0 / float(width))
        scale = 1.0 / tg.sqrt(tg.tile_sum(d * d) * (1.0 / float(width)) + eps)
        tg.tile_store(B[i], tg.tile_astype(d * scale * w + v, dtype))

    return layernorm


@cache
def residual_norm(width: int) -> Any:
    """An RMS norm of a sum. The kernel also stores the sum."""

    @tg.kernel
    def rmsnorm(
        A: tg.array2d[float],
        R: tg.array2d[float],
        W: tg.array1d[float],
        S: tg.array2d[float],
        B: tg.array2d[float],
        eps: float,
    ):
        i = tg.tid()
        t = tg.tile_load(A[i], shape=width) + tg.tile_load(R[i], shape=width)
        tg.tile_store(S[i], t)
        scale = 1.0 / tg.sqrt(tg.tile_sum(t * t) * (1.0 / float(width)) + eps)
        tg.tile_store(B[i], t * scale * tg.tile_load(W, shape=width))

    return rmsnorm


@cache
def cross_entropy(chunk: int) -> Any:
    """The cross entropy of rows of logits. An iteration reads a chunk of a row."""

    @tg.kernel
    def cross_entropy(A: tg.array2d[float], Label: tg.array1d[int], Loss: tg.array1d[float]):
        i = tg.tid()
        row_max = -1e30
        total = 0.0
        for c in range((A.shape[1] + chunk - 1) // chunk):
            t = tg.tile_load(A[i], shape=chunk, offset=c * chunk, fill=-tg.inf)
            new_max = tg.max(row_max, tg.tile_max(t)[0])
            total = total * tg.exp(row_max - new_max) + tg.tile_sum(tg.exp(t - new_max))[0]
            row_max = new_max
        loss = row_max + tg.log(total) - A[i, Label[i]]
        tg.tile_store(Loss, tg.tile_full(shape=1, value=loss, dtype=float), offset=i)

    return cross_entropy


@cache
def column_sums(rows: int, columns: int) -> Any:
    """The sums of columns: a block sums all rows of a few columns."""

    @tg.kernel
    def column_sums(A: tg.array2d[float], Sums: tg.array1d[float]):
        j = tg.tid()
        sums = tg.tile_zeros(shape=columns, dtype=float)
        for i in range((A.shape[0] + rows - 1) // rows):
            sums += tg.tile_sum(
                tg.tile_load(A, shape=(rows, columns), offset=(i * rows, j * columns)), axis=0
            )
        tg.tile_store(Sums, sums, offset=j * columns)

    return column_sums


@cache
def transpose(size: int) -> Any:
    """A transposed matrix."""

    @tg.kernel
    def transpose(A: tg.array2d[float], B: tg.array2d[float]):
        i, j = tg.tid()
        t = tg.tile_load(A, shape=(size, size), offset=(i * size, j * size))
        tg.tile_store(B, tg.tile_transpose(t), offset=(j * size, i * size))

    return transpose


@cache
def row_scan(width: int) -> Any:
    """Inclusive sums along rows."""

    @tg.kernel
    def row_scan(A: tg.array2d[float], B: tg.array2d[float]):
        i = tg.tid()
        tg.tile_store(B[i], tg.tile_scan_inclusive(tg.tile_load(A[i], shape=width)))

    return row_scan
