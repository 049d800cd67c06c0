"""The kernels that are timed on GPUs, as a user would write them."""

from __future__ import annotations

from functools import cache
from typing import Any

import tegula as tg

WIDTH = tg.constant(4096)
"""The number of elements of a row of the norms."""

# Memory bound --------------------------------------------------------------------------------------------------------


@cache
def copy_kernel(n: int) -> Any:
    """A copy in which each block copies a tile of n elements."""

    @tg.kernel
    def copy_tile(a: tg.array[Any], b: tg.array[Any]):
        i = tg.tid()
        tg.tile_store(b, tg.tile_load(a, n, offset=i * n), offset=i * n)

    return copy_tile


@tg.kernel
def copy_lanes(a: tg.array[float], b: tg.array[float]):
    i = tg.tid()
    b[i] = a[i]


@cache
def chain_kernel(n: int, dtype: Any) -> Any:
    """A kernel with four operations on every element."""

    @tg.kernel
    def chain(a: tg.array[Any], b: tg.array[Any]):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(a, n, offset=i * n), tg.float32)
        t = ((t * 2.0 + 1.0) - 3.0) * t
        tg.tile_store(b, tg.tile_astype(t, dtype), offset=i * n)

    return chain


@cache
def scaled_sum_kernel(n: int) -> Any:
    """A scaled sum of two arrays."""

    @tg.kernel
    def scaled_sum(a: tg.array[float], b: tg.array[float], c: tg.array[float], s: float):
        i = tg.tid()
        t = tg.tile_load(a, n, offset=i * n) * s + tg.tile_load(b, n, offset=i * n)
        tg.tile_store(c, t, offset=i * n)

    return scaled_sum


@cache
def softmax_kernel(dtype: Any) -> Any:
    """A softmax with one row per block, computed in float32."""

    @tg.kernel
    def softmax(a: tg.array2d[Any], b: tg.array2d[Any]):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(a[i], WIDTH), tg.float32)
        e = tg.exp(t - tg.tile_max(t))
        tg.tile_store(b[i], tg.tile_astype(e * (1.0 / tg.tile_sum(e)), dtype))

    return softmax


@cache
def layernorm_kernel(dtype: Any) -> Any:
    """A layer norm with one row per block: mean, variance, weight and bias."""

    @tg.kernel
    def layernorm(
        a: tg.array2d[Any], weight: tg.array[Any], bias: tg.array[Any], b: tg.array2d[Any], eps: float
    ):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(a[i], WIDTH), tg.float32)
        w = tg.tile_astype(tg.tile_load(weight, WIDTH), tg.float32)
        v = tg.tile_astype(tg.tile_load(bias, WIDTH), tg.float32)
        d = t - tg.tile_sum(t) * (1.0 / float(WIDTH))
        scale = 1.0 / tg.sqrt(tg.tile_sum(d * d) * (1.0 / float(WIDTH)) + eps)
        tg.tile_store(b[i], tg.tile_astype(d * scale * w + v, dtype))

    return layernorm


@cache
def rmsnorm_kernel(dtype: Any) -> Any:
    """An RMS norm with one row per block and a weight."""

    @tg.kernel
    def rmsnorm(a: tg.array2d[Any], weight: tg.array[Any], b: tg.array2d[Any], eps: float):
        i = tg.tid()
        t = tg.tile_astype(tg.tile_load(a[i], WIDTH), tg.float32)
        w = tg.tile_astype(tg.tile_load(weight, WIDTH), tg.float32)
        scale = 1.0 / tg.sqrt(tg.tile_sum(t * t) * (1.0 / float(WIDTH)) + eps)
        tg.tile_store(b[i], tg.tile_astype(t * scale * w, dtype))

    return rmsnorm


# Sums ----------------------------------------------------------------------------------------------------------------


@tg.kernel
def squares_by_rows(a: tg.array2d[tg.float64], result: tg.array[tg.float64]):
    i = tg.tid()
    t = tg.tile_load(a[i], WIDTH)
    tg.tile_atomic_add(result, tg.tile_sum(t * t))


@tg.kernel
def reduce_array_tile(a: tg.array2d[tg.float64], result: tg.array[tg.float64]):
    """The sum of squares, as written in the guide."""
    i, j = tg.tid()

    local_val = a[i, j] * a[i, j]

    t = tg.tile(local_val)
    s = tg.tile_sum(t)

    tg.tile_atomic_add(result, s)


# Matmuls -----------------------------------------------------------------------------------------------------


@cache
def gemm_kernel(tm: int, tn: int, tk: int, stages: int) -> Any:
    """A matmul with bfloat16 operands that accumulates in float32."""

    @tg.kernel
    def gemm(A: tg.array2d[tg.bfloat16], B: tg.array2d[tg.bfloat16], C: tg.array2d[tg.bfloat16]):
        i, j = tg.tid()
        acc = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in tg.pipelined(int(A.shape[1] / tk), stages=stages):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, acc)
        tg.tile_store(C, tg.tile_astype(acc, tg.bfloat16), offset=(i * tm, j * tn))

    return gemm


# The guide's pipelining ----------------------------------------------------------------------------------------------

TILE_N = tg.constant(256)
N_ROWS = tg.constant(512)


@tg.func
def activation(x: float):
    return tg.sin(x * 1.1 + 0.1)


@tg.func
def normalize(x: float):
    return tg.exp(-tg.abs(x) * 0.5)


@tg.func
def transform(x: float):
    return tg.sqrt(tg.abs(x) + 1.0)


@tg.func
def squash(x: float):
    return tg.tanh(x * 0.7)


@tg.kernel
def sequential(inp: tg.array2d[float], out: tg.array2d[float]):
    for i in range(N_ROWS):
        a = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")
        a = tg.tile_map(activation, a)
        a = tg.tile_map(normalize, a)
        a = tg.tile_map(transform, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(i, 0))


@tg.kernel
def pipelined(inp: tg.array2d[float], out: tg.array2d[float]):
    a = tg.tile_load(inp, shape=(1, TILE_N), offset=(0, 0), storage="register")

    for i in range(1, N_ROWS):
        b = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")

        a = tg.tile_map(activation, a)
        a = tg.tile_map(normalize, a)
        a = tg.tile_map(transform, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(i - 1, 0))

        a = b

    a = tg.tile_map(activation, a)
    a = tg.tile_map(normalize, a)
    a = tg.tile_map(transform, a)
    a = tg.tile_map(squash, a)
    tg.tile_store(out, a, offset=(N_ROWS - 1, 0))


# Launches ------------------------------------------------------------------------------------------------------------


@tg.kernel
def scaled(a: tg.array[float], b: tg.array[float], c: tg.array[float], n: int, s: float):
    i = tg.tid()
    if i < n:
        c[i] = a[i] + b[i] * s


@tg.kernel
def no_maps(
    a: tg.array2d[tg.bfloat16],
    b: tg.array2d[tg.bfloat16],
    n: int,
    alpha: float,
    beta: float,
    c: tg.array2d[tg.bfloat16],
):
    i, _t = tg.tid()
    if i < n:
        c[i, 0] = a[i, 0] + b[i, 0] * tg.bfloat16(alpha + beta)
