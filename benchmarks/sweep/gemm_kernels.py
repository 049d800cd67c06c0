"""Matmuls in plain code, as users write them: one factory whose options are the changes of the sweep, and kernels with
more than one matmul."""

from typing import Any

import tegula as tg

bf16 = tg.bfloat16
BASE = (128, 256, 64)
"""The tile of the base: rows, columns, depth."""


@tg.func
def identity(x: float):
    return x


@tg.func
def relu(x: float):
    return tg.max(x, 0.0)


@tg.func
def silu(x: float):
    return x / (1.0 + tg.exp(-x))


@tg.func
def gelu(x: float):
    """The Gaussian error linear unit, by the approximation with tanh."""
    return 0.5 * x * (1.0 + tg.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def gemm(
    tile: tuple[int, int, int] = BASE,
    left: Any = bf16,
    right: Any = bf16,
    result: Any = bf16,
    a_transposed: bool = False,
    b_transposed: bool = False,
    precision: str = "default",
) -> Any:
    """The matmul A @ B. `a_transposed`, `b_transposed`: whether the operand is stored transposed. B is converted to the
    type of A."""
    tm, tn, tk = tile
    convert = left is not right

    @tg.kernel
    def matmul(A: tg.array2d[left], B: tg.array2d[right], C: tg.array2d[result]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        count = ((A.shape[0] if a_transposed else A.shape[1]) + tk - 1) // tk
        for k in range(count):
            if a_transposed:
                a = tg.tile_transpose(tg.tile_load(A, shape=(tk, tm), offset=(k * tk, i * tm)))
            else:
                a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            if b_transposed:
                b = tg.tile_transpose(tg.tile_load(B, shape=(tn, tk), offset=(j * tn, k * tk)))
            else:
                b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            if convert:
                b = tg.tile_astype(b, left)
            tg.tile_matmul(a, b, sum, precision=precision)
        tg.tile_store(C, tg.tile_astype(sum, result), offset=(i * tm, j * tn))

    return matmul


def with_epilogue(epilogue: str) -> Any:
    """The matmul A @ B with an epilogue: "bias and gelu", "silu", "residual" or "row scale". E: the bias of the
    columns, the residual matrix, or the factors of the rows; silu has no such operand."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(A: tg.array2d[bf16], B: tg.array2d[bf16], E: tg.array, C: tg.array2d[bf16]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        if epilogue == "bias and gelu":
            bias = tg.tile_reshape(tg.tile_load(E, shape=tn, offset=j * tn), shape=(1, tn))
            sum = tg.tile_map(gelu, sum + tg.tile_broadcast(tg.tile_astype(bias, float), shape=(tm, tn)))
        elif epilogue == "residual":
            sum = sum + tg.tile_astype(tg.tile_load(E, shape=(tm, tn), offset=(i * tm, j * tn)), float)
        elif epilogue == "row scale":
            scale = tg.tile_reshape(tg.tile_load(E, shape=tm, offset=i * tm), shape=(tm, 1))
            sum = sum * tg.tile_broadcast(scale, shape=(tm, tn))
        tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    @tg.kernel
    def activated(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        tg.tile_store(C, tg.tile_astype(tg.tile_map(silu, sum), bf16), offset=(i * tm, j * tn))

    return activated if epilogue == "silu" else matmul


def iterations_in_reverse() -> Any:
    """The matmul A @ B, from the last tile of the depth to the first."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(A: tg.array2d[bf16], B: tg.array2d[bf16], C: tg.array2d[bf16]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk - 1, -1, -1):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    return matmul


def iterations_from_array() -> Any:
    """The matmul A @ B with the number of iterations in an array."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(A: tg.array2d[bf16], B: tg.array2d[bf16], Count: tg.array1d[int], C: tg.array2d[bf16]):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range(Count[0]):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    return matmul


def batched() -> Any:
    """The matmuls A[n] @ B[n] for all n."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(A: tg.array3d[bf16], B: tg.array3d[bf16], C: tg.array3d[bf16]):
        n, i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[2] + tk - 1) // tk):
            a = tg.tile_load(A[n], shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B[n], shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        tg.tile_store(C[n], tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    return matmul


def grouped() -> Any:
    """The matmuls of groups of rows of A and the matrix of each group. Start: the first row of each tile of rows;
    Group: the group of each tile; End: the end of each group's rows."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(
        A: tg.array2d[bf16],
        B: tg.array3d[bf16],
        Start: tg.array1d[int],
        Group: tg.array1d[int],
        End: tg.array1d[int],
        C: tg.array2d[bf16],
    ):
        i, j = tg.tid()
        row = Start[i]
        group = Group[i]
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(row, k * tk))
            b = tg.tile_load(B[group], shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
        tg.tile_store(C[: End[group]], tg.tile_astype(sum, bf16), offset=(row, j * tn))

    return matmul


def lower_half() -> Any:
    """The tiles of A.T @ A on and below the diagonal. The kernel does not write other tiles."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(A: tg.array2d[bf16], C: tg.array2d[bf16]):
        i, j = tg.tid()
        if j * tn < (i + 1) * tm:
            sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
            for k in range((A.shape[0] + tk - 1) // tk):
                a = tg.tile_load(A, shape=(tk, tm), offset=(k * tk, i * tm))
                b = tg.tile_load(A, shape=(tk, tn), offset=(k * tk, j * tn))
                tg.tile_matmul(tg.tile_transpose(a), b, sum)
            tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    return matmul


def sum_of_two_matmuls() -> Any:
    """The sum A @ B + C @ D."""
    tm, tn, tk = BASE

    @tg.kernel
    def matmul(
        A: tg.array2d[bf16],
        B: tg.array2d[bf16],
        C: tg.array2d[bf16],
        D: tg.array2d[bf16],
        Out: tg.array2d[bf16],
    ):
        i, j = tg.tid()
        sum = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            c = tg.tile_load(C, shape=(tm, tk), offset=(i * tm, k * tk))
            d = tg.tile_load(D, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, b, sum)
            tg.tile_matmul(c, d, sum)
        tg.tile_store(Out, tg.tile_astype(sum, bf16), offset=(i * tm, j * tn))

    return matmul


def swiglu(tile: tuple[int, int, int]) -> Any:
    """The gate silu(A @ V) * (A @ W)."""
    tm, tn, tk = tile

    @tg.kernel
    def matmul(A: tg.array2d[bf16], V: tg.array2d[bf16], W: tg.array2d[bf16], C: tg.array2d[bf16]):
        i, j = tg.tid()
        gate = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        up = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for k in range((A.shape[1] + tk - 1) // tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            v = tg.tile_load(V, shape=(tk, tn), offset=(k * tk, j * tn))
            w = tg.tile_load(W, shape=(tk, tn), offset=(k * tk, j * tn))
            tg.tile_matmul(a, v, gate)
            tg.tile_matmul(a, w, up)
        tg.tile_store(C, tg.tile_astype(tg.tile_map(silu, gate) * up, bf16), offset=(i * tm, j * tn))

    return matmul


def three_matmuls_of_one_operand() -> Any:
    """The matmuls X @ U, X @ V and X @ W: queries, keys and values of one input."""
    tm, tn, tk = 128, 128, 64

    @tg.kernel
    def matmul(
        X: tg.array2d[bf16],
        U: tg.array2d[bf16],
        V: tg.array2d[bf16],
        W: tg.array2d[bf16],
        Q: tg.array2d[bf16],
        K: tg.array2d[bf16],
        R: tg.array2d[bf16],
    ):
        i, j = tg.tid()
        q = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        k = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        r = tg.tile_zeros(shape=(tm, tn), dtype=tg.float32)
        for n in range((X.shape[1] + tk - 1) // tk):
            x = tg.tile_load(X, shape=(tm, tk), offset=(i * tm, n * tk))
            u = tg.tile_load(U, shape=(tk, tn), offset=(n * tk, j * tn))
            v = tg.tile_load(V, shape=(tk, tn), offset=(n * tk, j * tn))
            w = tg.tile_load(W, shape=(tk, tn), offset=(n * tk, j * tn))
            tg.tile_matmul(x, u, q)
            tg.tile_matmul(x, v, k)
            tg.tile_matmul(x, w, r)
        tg.tile_store(Q, tg.tile_astype(q, bf16), offset=(i * tm, j * tn))
        tg.tile_store(K, tg.tile_astype(k, bf16), offset=(i * tm, j * tn))
        tg.tile_store(R, tg.tile_astype(r, bf16), offset=(i * tm, j * tn))

    return matmul


def two_layer_perceptron() -> Any:
    """The perceptron relu(X @ V) @ W for rows of 128. Each iteration computes 128 elements of the hidden layer."""
    tm, width, chunk = 128, 128, 128

    @tg.kernel
    def mlp(X: tg.array2d[bf16], V: tg.array2d[bf16], W: tg.array2d[bf16], C: tg.array2d[bf16]):
        i = tg.tid()
        x = tg.tile_load(X, shape=(tm, width), offset=(i * tm, 0))
        sum = tg.tile_zeros(shape=(tm, width), dtype=tg.float32)
        for n in range((V.shape[1] + chunk - 1) // chunk):
            v = tg.tile_load(V, shape=(width, chunk), offset=(0, n * chunk))
            w = tg.tile_load(W, shape=(chunk, width), offset=(n * chunk, 0))
            hidden = tg.tile_zeros(shape=(tm, chunk), dtype=tg.float32)
            tg.tile_matmul(x, v, hidden)
            tg.tile_matmul(tg.tile_astype(tg.tile_map(relu, hidden), bf16), w, sum)
        tg.tile_store(C, tg.tile_astype(sum, bf16), offset=(i * tm, 0))

    return mlp


def convolution() -> Any:
    """A 3x3 convolution of NHWC images with zeros outside, as a matmul over nine taps. W: taps, channels, filters. A
    tile has 8x16 pixels."""
    height, width, tn, tk = 8, 16, 256, 64

    @tg.kernel
    def conv(X: tg.array4d[bf16], W: tg.array3d[bf16], Y: tg.array4d[bf16]):
        n, i, j = tg.tid()
        tiles_per_row = (X.shape[2] + width - 1) // width
        y = i // tiles_per_row * height
        x = i % tiles_per_row * width
        sum = tg.tile_zeros(shape=(height * width, tn), dtype=tg.float32)
        for tap in range(9):
            for c in range((X.shape[3] + tk - 1) // tk):
                offset = (n, y + tap // 3 - 1, x + tap % 3 - 1, c * tk)
                pixels = tg.tile_load(X, shape=(1, height, width, tk), offset=offset)
                w = tg.tile_load(W[tap], shape=(tk, tn), offset=(c * tk, j * tn))
                tg.tile_matmul(tg.tile_reshape(pixels, shape=(height * width, tk)), w, sum)
        out = tg.tile_reshape(tg.tile_astype(sum, bf16), shape=(1, height, width, tn))
        tg.tile_store(Y, out, offset=(n, y, x, j * tn))

    return conv
