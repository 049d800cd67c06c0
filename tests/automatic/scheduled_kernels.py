"""Kernels without roles that get automatic schedules, and launches of them with exact data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg

bf16 = tg.bfloat16
NUMPY = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "int8": np.int8}
TILE_M = tg.constant(128)
TILE_N = tg.constant(256)
TILE_K = tg.constant(64)


@tg.kernel
def tile_gemm(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j = tg.tid()

    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)

    M = A.shape[0]
    N = B.shape[1]
    K = A.shape[1]

    count = int(K / TILE_K)

    for k in range(0, count):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))

        # sum += a*b
        tg.tile_matmul(a, b, sum)

    tg.tile_store(C, sum, offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def narrow_result(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for k in range((A.shape[1] + TILE_K - 1) // TILE_K):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def matmul_pipelined(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()

    acc = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)

    a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, 0), storage="register")
    b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(0, j * TILE_N), storage="register")

    count = int(A.shape[1] / TILE_K)
    for k in range(1, count):
        a_next = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K), storage="register")
        b_next = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N), storage="register")

        tg.tile_matmul(a, b, acc)

        a = a_next
        b = b_next

    tg.tile_matmul(a, b, acc)
    tg.tile_store(C, tg.tile_astype(acc, bf16), offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def stepped(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float], first: int, last: int, step: int):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for k in range(first, last, step):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def stepped_inside(
    A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float], outer: int, inner: int, guard: int
):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for first in range(3, -1, outer):
        if guard > 0:
            assert guard < 5, "guard"
        for k in range(first, 5, inner):
            a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
            b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
            tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * TILE_M, j * TILE_N))


@tg.func
def relu(x: float):
    return tg.max(x, 0.0)


@tg.func
def silu(x: float):
    return x / (1.0 + tg.exp(-x))


@tg.kernel
def with_relu(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for k in tg.pipelined((A.shape[1] + TILE_K - 1) // TILE_K, stages=3):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, tg.tile_astype(tg.tile_map(relu, sum), bf16), offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def with_silu(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for k in tg.pipelined((A.shape[1] + TILE_K - 1) // TILE_K):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, tg.tile_astype(tg.tile_map(silu, sum), bf16), offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def half_transposed(A: tg.array2d[tg.float16], B: tg.array2d[tg.float16], C: tg.array2d[tg.float16]):
    """B is stored transposed."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(128, 64), offset=(j * 128, k * 64))
        tg.tile_matmul(a, tg.tile_transpose(b), sum)
    tg.tile_store(C, tg.tile_astype(sum, tg.float16), offset=(i * 128, j * 128))


@tg.kernel
def left_transposed(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    """A is stored transposed, as in the gradient of the right operand."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 128), dtype=tg.float32)
    for k in range((A.shape[0] + 63) // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(k * 64, i * 64))
        b = tg.tile_load(B, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(tg.tile_transpose(a), b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 128))


@tg.kernel
def right_converted(A: tg.array2d[bf16], B: tg.array2d[tg.int8], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 256), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(a, tg.tile_astype(b, bf16), sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 128, j * 256))


@tg.kernel
def right_scaled(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 256), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(a, b * bf16(0.5), sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 128, j * 256))


@tg.kernel
def right_transposed_and_converted(A: tg.array2d[bf16], B: tg.array2d[tg.int8], C: tg.array2d[float]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 128), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(128, 64), offset=(j * 128, k * 64))
        tg.tile_matmul(a, tg.tile_transpose(tg.tile_astype(b, bf16) * bf16(0.5)), sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 128))


@tg.kernel
def few_rows(A: tg.array2d[bf16], B: tg.array2d[tg.int8], C: tg.array2d[bf16]):
    """Rows of the transposed matmul are columns."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(16, 128), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(16, 64), offset=(i * 16, k * 64))
        b = tg.tile_load(B, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(a, tg.tile_astype(b, bf16), sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 16, j * 128))


@tg.kernel
def left_converted(A: tg.array2d[tg.int8], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 256), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(tg.tile_astype(a, bf16), b, sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 128, j * 256))


@tg.kernel
def left_masked(A: tg.array2d[bf16], Mask: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    """The left operand is computed from two tiles."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        mask = tg.tile_load(Mask, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(a * mask, b, sum)
    tg.tile_store(C, sum, offset=(i * 128, j * 128))


@tg.kernel
def left_scaled(A: tg.array2d[bf16], Scale: tg.array1d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    """The loop loads a row besides its tiles."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        scale = tg.tile_reshape(tg.tile_load(Scale, shape=64, offset=k * 64), shape=(1, 64))
        b = tg.tile_load(B, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(a * tg.tile_broadcast(scale, shape=(128, 64)), b, sum)
    tg.tile_store(C, sum, offset=(i * 128, j * 128))


@tg.kernel
def right_weighted(
    A: tg.array2d[bf16],
    B: tg.array2d[tg.int8],
    Scale: tg.array1d[bf16],
    Shift: tg.array2d[bf16],
    C: tg.array2d[bf16],
):
    """A @ (B * Scale + Shift): a right operand that is computed from two tiles and a row."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    scale = tg.tile_reshape(tg.tile_load(Scale, shape=128, offset=j * 128), shape=(1, 128))
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_astype(tg.tile_load(B, shape=(64, 128), offset=(k * 64, j * 128)), bf16)
        shift = tg.tile_load(Shift, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(a, b * tg.tile_broadcast(scale, shape=(64, 128)) + shift, sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 128, j * 128))


@tg.kernel
def lower_tiles(A: tg.array2d[bf16], Scale: tg.array1d[float], C: tg.array2d[float]):
    """The tiles of A.T @ A that are not above the diagonal, of which the tiles of the second row are scaled; the others
    are cleared."""
    i, j = tg.tid()
    if j <= i:
        sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
        for k in range((A.shape[0] + 63) // 64):
            a = tg.tile_load(A, shape=(64, 128), offset=(k * 64, i * 128))
            b = tg.tile_load(A, shape=(64, 128), offset=(k * 64, j * 128))
            tg.tile_matmul(tg.tile_transpose(a), b, sum)
        if i == 1:
            sum = sum * Scale[j]
        tg.tile_store(C, sum, offset=(i * 128, j * 128))
    else:
        tg.tile_store(C, tg.tile_zeros(shape=(128, 128), dtype=tg.float32), offset=(i * 128, j * 128))


@tg.kernel
def wide_stages(
    A: tg.array2d[float], Scale: tg.array1d[bf16], B: tg.array2d[bf16], C: tg.array2d[float], first: int
):
    """Iterations over 256 elements of K, of which one stage holds too many bytes."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    for k in range(first, (A.shape[1] + 255) // 256):
        a = tg.tile_load(A, shape=(128, 256), offset=(i * 128, k * 256))
        scale = tg.tile_reshape(tg.tile_load(Scale, shape=128, offset=i * 128), shape=(128, 1))
        scaled = tg.tile_astype(a, bf16) * tg.tile_broadcast(scale, shape=(128, 256))
        b = tg.tile_load(B, shape=(256, 128), offset=(k * 256, j * 128))
        tg.tile_matmul(scaled, b, sum)
    tg.tile_store(C, sum, offset=(i * 128, j * 128))


@tg.kernel
def two_layers(X: tg.array2d[bf16], V: tg.array2d[bf16], W: tg.array2d[bf16], C: tg.array2d[bf16]):
    """relu(X @ V) @ W, a loop in a loop."""
    i = tg.tid()
    sum = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
    for h in range(V.shape[1] // 64):
        hidden = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
        for k in range(X.shape[1] // 64):
            x = tg.tile_load(X, shape=(128, 64), offset=(i * 128, k * 64))
            v = tg.tile_load(V, shape=(64, 64), offset=(k * 64, h * 64))
            tg.tile_matmul(x, v, hidden)
        w = tg.tile_load(W, shape=(64, 64), offset=(h * 64, 0))
        tg.tile_matmul(tg.tile_astype(tg.max(hidden, 0.0), bf16), w, sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 128, 0))


@tg.kernel
def batched(A: tg.array3d[bf16], B: tg.array3d[bf16], C: tg.array3d[bf16]):
    b, i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 128), dtype=tg.float32)
    for k in range((A.shape[2] + 63) // 64):
        x = tg.tile_load(A[b], shape=(64, 64), offset=(i * 64, k * 64))
        y = tg.tile_load(B[b], shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(x, y, sum)
    tg.tile_store(C[b], tg.tile_astype(sum, bf16), offset=(i * 64, j * 128))


@tg.kernel
def attention(
    Q: tg.array3d[bf16], K: tg.array3d[bf16], V: tg.array3d[bf16], Out: tg.array3d[bf16], scale: float
):
    h, i = tg.tid()
    q = tg.tile_load(Q[h], shape=(128, 128), offset=(i * 128, 0))
    top = tg.tile_full(shape=(128, 1), value=-1e30, dtype=float)
    total = tg.tile_zeros(shape=(128, 1), dtype=float)
    acc = tg.tile_zeros(shape=(128, 128), dtype=float)
    for n in range(K.shape[1] // 128):
        k = tg.tile_load(K[h], shape=(128, 128), offset=(n * 128, 0))
        s = tg.tile_zeros(shape=(128, 128), dtype=float)
        tg.tile_matmul(q, tg.tile_transpose(k), s)
        s = s * scale
        higher = tg.max(top, tg.tile_max(s, axis=1, keepdims=True))
        p = tg.fast.exp2(s - tg.tile_broadcast(higher, shape=(128, 128)))
        shrink = tg.fast.exp2(top - higher)
        total = total * shrink + tg.tile_sum(p, axis=1, keepdims=True)
        acc = acc * tg.tile_broadcast(shrink, shape=(128, 128))
        v = tg.tile_load(V[h], shape=(128, 128), offset=(n * 128, 0))
        tg.tile_matmul(tg.tile_astype(p, bf16), v, acc)
        top = higher
    acc = acc * tg.tile_broadcast(1.0 / total, shape=(128, 128))
    tg.tile_store(Out[h], tg.tile_astype(acc, bf16), offset=(i * 128, 0))


@tg.kernel
def causal_attention(
    Q: tg.array3d[bf16], K: tg.array3d[bf16], V: tg.array3d[bf16], Out: tg.array3d[bf16], scale: float
):
    h, i = tg.tid()
    q = tg.tile_load(Q[h], shape=(128, 64), offset=(i * 128, 0))
    top = tg.tile_full(shape=(128, 1), value=-1e30, dtype=float)
    total = tg.tile_zeros(shape=(128, 1), dtype=float)
    acc = tg.tile_zeros(shape=(128, 64), dtype=float)
    rows = tg.tile_reshape(tg.tile_arange(128, dtype=int), shape=(128, 1)) + i * 128
    for n in range(i + 1):
        k = tg.tile_load(K[h], shape=(128, 64), offset=(n * 128, 0))
        v = tg.tile_load(V[h], shape=(128, 64), offset=(n * 128, 0))
        s = tg.tile_zeros(shape=(128, 128), dtype=float)
        tg.tile_matmul(q, tg.tile_transpose(k), s)
        columns = tg.tile_reshape(tg.tile_arange(128, dtype=int), shape=(1, 128)) + n * 128
        s = tg.where(columns <= rows, s * scale, -tg.inf)
        higher = tg.max(top, tg.tile_max(s, axis=1, keepdims=True))
        p = tg.fast.exp2(s - tg.tile_broadcast(higher, shape=(128, 128)))
        shrink = tg.fast.exp2(top - higher)
        total = total * shrink + tg.tile_sum(p, axis=1, keepdims=True)
        acc = acc * tg.tile_broadcast(shrink, shape=(128, 64))
        tg.tile_matmul(tg.tile_astype(p, bf16), v, acc)
        top = higher
    acc = acc * tg.tile_broadcast(1.0 / total, shape=(128, 64))
    tg.tile_store(Out[h], tg.tile_astype(acc, bf16), offset=(i * 128, 0))


@tg.kernel
def two_pairs(
    A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16], D: tg.array2d[bf16], Out: tg.array2d[float]
):
    """A @ B + C @ D: two matmuls of an iteration add to one sum."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 256), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(a, b, sum)
        c = tg.tile_load(C, shape=(128, 64), offset=(i * 128, k * 64))
        d = tg.tile_load(D, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(c, d, sum)
    tg.tile_store(Out, sum, offset=(i * 128, j * 256))


@tg.kernel
def gated(A: tg.array2d[bf16], B: tg.array2d[bf16], Gate: tg.array2d[bf16], Out: tg.array2d[bf16]):
    """Two sums of one left operand, tiles 96 wide."""
    i, j = tg.tid()
    value = tg.tile_zeros(shape=(128, 96), dtype=tg.float32)
    gate = tg.tile_zeros(shape=(128, 96), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 96), offset=(k * 64, j * 96))
        tg.tile_matmul(a, b, value)
        g = tg.tile_load(Gate, shape=(64, 96), offset=(k * 64, j * 96))
        tg.tile_matmul(a, g, gate)
    tg.tile_store(Out, tg.tile_astype(tg.tile_map(relu, gate) * value, bf16), offset=(i * 128, j * 96))


@tg.kernel
def wide_heads(
    Q: tg.array3d[bf16], K: tg.array3d[bf16], V: tg.array3d[bf16], Out: tg.array3d[bf16], scale: float
):
    """Attention with heads of 192, whose tiles leave room for one stage."""
    h, i = tg.tid()
    q = tg.tile_load(Q[h], shape=(128, 192), offset=(i * 128, 0))
    total = tg.tile_zeros(shape=(128, 1), dtype=float)
    acc = tg.tile_zeros(shape=(128, 192), dtype=float)
    for n in range(K.shape[1] // 128):
        k = tg.tile_load(K[h], shape=(128, 192), offset=(n * 128, 0))
        s = tg.tile_zeros(shape=(128, 128), dtype=float)
        tg.tile_matmul(q, tg.tile_transpose(k), s)
        p = tg.fast.exp2(s * scale)
        total = total + tg.tile_sum(p, axis=1, keepdims=True)
        v = tg.tile_load(V[h], shape=(128, 192), offset=(n * 128, 0))
        tg.tile_matmul(tg.tile_astype(p, bf16), v, acc)
    acc = acc * tg.tile_broadcast(1.0 / total, shape=(128, 192))
    tg.tile_store(Out[h], tg.tile_astype(acc, bf16), offset=(i * 128, 0))


@tg.kernel
def residual(A: tg.array2d[bf16], B: tg.array2d[bf16], Residual: tg.array2d[bf16], C: tg.array2d[bf16]):
    """A tile that is added after the loop takes more registers than are left."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(128, 256), dtype=tg.float32)
    for k in range((A.shape[1] + 63) // 64):
        a = tg.tile_load(A, shape=(128, 64), offset=(i * 128, k * 64))
        b = tg.tile_load(B, shape=(64, 256), offset=(k * 64, j * 256))
        tg.tile_matmul(a, b, sum)
    r = tg.tile_load(Residual, shape=(128, 256), offset=(i * 128, j * 256))
    tg.tile_store(C, tg.tile_astype(sum + tg.tile_astype(r, float), bf16), offset=(i * 128, j * 256))


@tg.kernel
def convolution(X: tg.array4d[bf16], W: tg.array3d[bf16], Y: tg.array4d[bf16]):
    """A 3x1 convolution of images: the left operands are the rows of tiles with four dimensions."""
    n, i = tg.tid()
    sum = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
    for tap in range(3):
        for c in range((X.shape[3] + 31) // 32):
            pixels = tg.tile_load(X, shape=(1, 8, 16, 32), offset=(n, i * 8 + tap - 1, 0, c * 32))
            w = tg.tile_load(W[tap], shape=(32, 64), offset=(c * 32, 0))
            tg.tile_matmul(tg.tile_reshape(pixels, shape=(128, 32)), w, sum)
    out = tg.tile_reshape(tg.tile_astype(sum, bf16), shape=(1, 8, 16, 64))
    tg.tile_store(Y, out, offset=(n, i * 8, 0, 0))


@tg.kernel
def stacked(A: tg.array3d[bf16], B: tg.array3d[bf16], C: tg.array2d[float]):
    """Tiles with three dimensions of one matrix each; the rows of the right operands are columns of the matmul."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for k in range(A.shape[0]):
        a = tg.tile_load(A, shape=(1, 64, 32), offset=(k, i * 64, 0))
        b = tg.tile_load(B, shape=(2, 32, 32), offset=(2 * j, 0, k * 32))
        rows = tg.tile_reshape(b, shape=(64, 32))
        tg.tile_matmul(tg.tile_reshape(a, shape=(64, 32)), tg.tile_transpose(rows), sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))


@tg.kernel
def columns_in_thirds(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
    """A tile whose halves would start within a box of 64 columns."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(192, 192), dtype=tg.float32)
    for k in range((A.shape[1] + 31) // 32):
        a = tg.tile_load(A, shape=(192, 32), offset=(i * 192, k * 32))
        b = tg.tile_load(B, shape=(32, 192), offset=(k * 32, j * 192))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * 192, j * 192))


@dataclass(frozen=True)
class Launch:
    """A kernel, a maker of its arguments, the grid, and the block size. `exact`: whether every order of summation gives
    the same bits."""

    kernel: Any
    arguments: Callable[[], Sequence[Any]]
    grid: tuple[int, ...]
    block_dim: int = 128
    exact: bool = True

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def dims(self) -> tuple[int, ...]:
        return (*self.grid, self.block_dim)


def integers(*shape: int, dtype: Any = bf16, seed: int = 0) -> tg.array:
    """Integers from -2 to 2."""
    values = np.random.default_rng(seed).integers(-2, 3, shape)
    return tg.array(values.astype(NUMPY[str(dtype)]))


def gemm(
    m: int, n: int, k: int, dtype: Any = bf16, out: Any = bf16, transposed: str = "", right: Any = None
) -> Callable[[], list[Any]]:
    def arguments() -> list[Any]:
        a = integers(*((k, m) if "a" in transposed else (m, k)), dtype=dtype, seed=m + k)
        b = integers(*((n, k) if "b" in transposed else (k, n)), dtype=right or dtype, seed=n + k)
        return [a, b, tg.zeros((m, n), dtype=out)]

    return arguments


def with_numbers(arrays: Callable[[], list[Any]], *numbers: int) -> Callable[[], list[Any]]:
    return lambda: [*arrays(), *numbers]


def arrays(*shapes: tuple[int, ...], out: Any = bf16, types: Sequence[Any] = ()) -> Callable[[], list[Any]]:
    """Arrays of small integers, of the `types` or bfloat16; the last array, of type `out`, is the result."""

    def arguments() -> list[Any]:
        *input_shapes, result = shapes
        typed = zip(input_shapes, types or (bf16,) * len(input_shapes), strict=True)
        inputs = [integers(*shape, dtype=dtype, seed=k) for k, (shape, dtype) in enumerate(typed)]
        return [*inputs, tg.zeros(result, dtype=out)]

    return arguments


def heads(count: int, queries: int, keys: int, depth: int) -> Callable[[], list[Any]]:
    def arguments() -> list[Any]:
        q, k, v = (integers(count, n, depth, seed=n + seed) for seed, n in enumerate((queries, keys, keys)))
        return [q, k, v, tg.zeros((count, queries, depth), dtype=bf16), 0.05]

    return arguments


LAUNCHES = [
    Launch(tile_gemm, gemm(256, 512, 320, out=float), (2, 2), 64),
    Launch(tile_gemm, gemm(128, 512, 64, out=float), (1, 2), 256),
    Launch(narrow_result, gemm(200, 264, 136), (2, 2)),
    Launch(matmul_pipelined, gemm(256, 256, 256), (2, 1)),
    Launch(matmul_pipelined, gemm(128, 256, 64), (1, 1), 32),
    Launch(with_relu, gemm(128, 256, 512), (1, 1)),
    Launch(with_silu, gemm(128, 256, 128), (1, 1), exact=False),
    Launch(half_transposed, gemm(256, 384, 200, tg.float16, tg.float16, "b"), (2, 3)),
    Launch(right_converted, gemm(256, 256, 320, right=tg.int8), (2, 1)),
    Launch(right_scaled, gemm(256, 256, 320), (2, 1)),
    Launch(
        right_transposed_and_converted, gemm(64, 256, 192, out=float, transposed="b", right=tg.int8), (1, 2)
    ),
    Launch(few_rows, gemm(24, 384, 200, right=tg.int8), (2, 3)),
    Launch(left_converted, gemm(128, 256, 192, tg.int8, right=bf16), (1, 1)),
    Launch(left_masked, arrays((128, 192), (128, 192), (192, 128), (128, 128), out=float), (1, 1)),
    Launch(left_scaled, arrays((128, 192), (192,), (192, 128), (128, 128), out=float), (1, 1)),
    Launch(two_layers, arrays((256, 128), (128, 192), (192, 64), (256, 64)), (2,), exact=False),
    Launch(batched, arrays((2, 128, 192), (2, 192, 256), (2, 128, 256)), (2, 2, 2)),
    Launch(attention, heads(2, 128, 384, 128), (2, 1), exact=False),
    Launch(attention, heads(1, 128, 128, 128), (1, 1), exact=False),
    Launch(causal_attention, heads(2, 256, 256, 64), (2, 2), exact=False),
    Launch(left_transposed, gemm(128, 256, 256, out=float, transposed="a"), (2, 2), 512),
    Launch(stepped, with_numbers(gemm(128, 256, 320, out=float), 4, -1, -1), (1, 1)),
    Launch(two_pairs, arrays((128, 128), (128, 256), (128, 128), (128, 256), (128, 256), out=float), (1, 1)),
    Launch(gated, arrays((128, 128), (128, 192), (128, 192), (128, 192)), (1, 2)),
    Launch(
        right_weighted,
        arrays((128, 200), (200, 256), (256,), (200, 256), (128, 256), types=(bf16, tg.int8, bf16, bf16)),
        (1, 2),
    ),
    Launch(lower_tiles, arrays((200, 256), (2,), (256, 256), out=float, types=(bf16, tg.float32)), (2, 2)),
    Launch(
        wide_stages,
        with_numbers(
            arrays((128, 584), (128,), (584, 128), (128, 128), out=float, types=(tg.float32, bf16, bf16)), 1
        ),
        (1, 1),
    ),
    Launch(wide_heads, heads(1, 128, 256, 192), (1, 1), exact=False),
    Launch(convolution, arrays((1, 12, 16, 64), (3, 64, 64), (1, 12, 16, 64)), (1, 2)),
    Launch(stacked, arrays((2, 64, 32), (4, 32, 64), (64, 128), out=float), (1, 2)),
    Launch(columns_in_thirds, gemm(192, 200, 64), (1, 2)),
]
