"""Kernels without roles, as new users write them: the guide's matmul with larger tiles and bfloat16, and attention."""

from typing import Any

import tegula as tg

bf16 = tg.bfloat16
TILE_M, TILE_N, TILE_K = tg.constant(128), tg.constant(256), tg.constant(64)
ROWS, DEPTH = tg.constant(128), tg.constant(128)
MASKED_SCORE = tg.constant(-1e30)
THREADS = 256


@tg.kernel
def tile_gemm(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[float]):
    i, j = tg.tid()

    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)

    K = A.shape[1]

    count = int(K / TILE_K)

    for k in range(0, count):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))

        # sum += a*b
        tg.tile_matmul(a, b, sum)

    tg.tile_store(C, sum, offset=(i * TILE_M, j * TILE_N))


@tg.kernel
def prefetching_gemm(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
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


@tg.func
def identity(x: float):
    return x


@tg.func
def relu(x: float):
    return tg.max(x, 0.0)


@tg.func
def silu(x: float):
    return x / (1.0 + tg.exp(-x))


def matmul(activation: Any, right: Any) -> Any:
    """A matmul with an activation, rounded to bfloat16. `right`: the type of B, which is converted to bfloat16."""

    @tg.kernel
    def gemm(A: tg.array2d[bf16], B: tg.array2d[right], C: tg.array2d[bf16]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
        for k in tg.pipelined((A.shape[1] + TILE_K - 1) // TILE_K):
            a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
            b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
            tg.tile_matmul(a, tg.tile_astype(b, bf16), sum)
        tg.tile_store(C, tg.tile_astype(tg.tile_map(activation, sum), bf16), offset=(i * TILE_M, j * TILE_N))

    return gemm


PLAIN, RELU, SILU = matmul(identity, bf16), matmul(relu, bf16), matmul(silu, bf16)
CONVERTED = matmul(identity, tg.int8)


@tg.kernel
def int8_weights(A: tg.array2d[bf16], W: tg.array2d[tg.int8], C: tg.array2d[bf16]):
    """A matmul with the transpose of W, which is converted from int8."""
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)
    for k in range((A.shape[1] + TILE_K - 1) // TILE_K):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        w = tg.tile_load(W, shape=(TILE_N, TILE_K), offset=(j * TILE_N, k * TILE_K))
        tg.tile_matmul(a, tg.tile_transpose(tg.tile_astype(w, bf16)), sum)
    tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * TILE_M, j * TILE_N))


@tg.func
def exact_exp2(t: Any):
    return tg.exp(t)


@tg.func
def fast_exp2(t: Any):
    return tg.fast.exp2(t)


def attention(power: Any, causal: bool = False) -> Any:
    """The attention softmax(scale * Q @ K.T) @ V for heads of dimension 128. `power`: exp, or exp2 if the scale
    includes log2(e); `causal`: whether there is a causal mask."""

    @tg.kernel
    def forward(
        Q: tg.array3d[bf16], K: tg.array3d[bf16], V: tg.array3d[bf16], Out: tg.array3d[bf16], scale: float
    ):
        h, i = tg.tid()
        q = tg.tile_load(Q[h], shape=(ROWS, DEPTH), offset=(i * ROWS, 0))
        row_max = tg.tile_full(shape=(ROWS, 1), value=MASKED_SCORE, dtype=float)
        total = tg.tile_zeros(shape=(ROWS, 1), dtype=float)
        acc = tg.tile_zeros(shape=(ROWS, DEPTH), dtype=float)
        rows = tg.tile_reshape(tg.tile_arange(ROWS, dtype=int), shape=(ROWS, 1)) + i * ROWS
        for n in range(i + 1 if causal else K.shape[1] // ROWS):
            k = tg.tile_load(K[h], shape=(ROWS, DEPTH), offset=(n * ROWS, 0))
            s = tg.tile_zeros(shape=(ROWS, ROWS), dtype=float)
            tg.tile_matmul(q, tg.tile_transpose(k), s)
            s = s * scale
            if causal:
                columns = tg.tile_reshape(tg.tile_arange(ROWS, dtype=int), shape=(1, ROWS)) + n * ROWS
                s = tg.where(columns <= rows, s, -tg.inf)
            new_max = tg.max(row_max, tg.tile_max(s, axis=1, keepdims=True))
            p = power(s - tg.tile_broadcast(new_max, shape=(ROWS, ROWS)))
            rescale = power(row_max - new_max)
            total = total * rescale + tg.tile_sum(p, axis=1, keepdims=True)
            acc = acc * tg.tile_broadcast(rescale, shape=(ROWS, DEPTH))
            v = tg.tile_load(V[h], shape=(ROWS, DEPTH), offset=(n * ROWS, 0))
            tg.tile_matmul(tg.tile_astype(p, bf16), v, acc)
            row_max = new_max
        inverse_sum = 1.0 / total
        acc = acc * tg.tile_broadcast(inverse_sum, shape=(ROWS, DEPTH))
        tg.tile_store(Out[h], tg.tile_astype(acc, bf16), offset=(i * ROWS, 0))

    return forward


EXACT_ATTENTION, ATTENTION = attention(exact_exp2), attention(fast_exp2)
EXACT_CAUSAL, CAUSAL = attention(exact_exp2, True), attention(fast_exp2, True)
