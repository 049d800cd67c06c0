"""Matrix products: persistent blocks, in which one role fetches tiles and another multiplies them.

Where there are fewer tiles than blocks, several share the steps of a tile, and a second kernel adds up their sums."""

from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.activations import EXACT, SHORT
from tegula.kernels.operands import (
    empty,
    expect_apart,
    expect_shape,
    processors,
    reachable,
    scratch,
    seen,
    turned,
)
from tegula.kernels.shapes import Machine, Tile, candidates, choose, cpu, speed

DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3", "float8_e5m2")
RESULTS = ("bfloat16", "float16", "float32")
PRECISIONS = ("default", "tf32")
RASTER = 8
WIDTH, THREADS = 256, 64
"""Elements of a row that a block adds up, and its threads."""


class Epilogue(NamedTuple):
    """What becomes of the sums. `result`: the type of the output; `scaled`, `keeps`, `biased`: whether alpha, beta and
    bias change anything; `activation`: a name, or nothing; `exact`: whether it is to be as exact as float32."""

    result: Any
    scaled: bool = False
    keeps: bool = False
    biased: bool = False
    activation: str = ""
    exact: bool = False

    def function(self) -> Any:
        """The function that stores a tile of sums."""
        result, scaled, keeps, biased, name, exact = self
        activate = (EXACT if exact else SHORT).get(name)

        @tg.func
        def finish(total: Any, bias: Any, alpha: float, beta: float, c: Any, row: int, column: int):
            if scaled:
                total = total * alpha
            if keeps:
                old = tg.tile_load(c, shape=total.shape, offset=(row, column))
                total = total + tg.tile_astype(old, tg.float32) * beta
            if biased:
                added = tg.tile_load(bias, shape=total.shape[1], offset=column)
                total = total + tg.tile_reshape(tg.tile_astype(added, tg.float32), shape=(1, total.shape[1]))
            if name:
                total = tg.tile_map(activate, total)
            tg.tile_store(c, tg.tile_astype(total, result), offset=(row, column))

        return finish


@lru_cache(maxsize=256)
def product(dtype: Any, tile: Tile, transposed: bool, epilogue: Epilogue, precision: str = "default") -> Any:
    """The kernel for operands of a type. `precision`: as tile_matmul takes it. With `splits` its output is the sums of
    each share, (splits, M, N) of float32, without an epilogue."""
    rows, columns, depth, stages, groups, _, splits, swapped = tile
    shape = (columns, depth) if transposed else (depth, columns)
    sums = (columns, rows) if swapped else (rows, columns)
    biases = tg.array1d[Any] if epilogue.biased else int
    output = tg.array2d[epilogue.result] if splits == 1 else tg.array3d[tg.float32]
    across, finish = int(splits > 1), epilogue.function()

    @tg.kernel
    def matmul(
        a: tg.array2d[dtype], b: tg.array2d[dtype], bias: biases, alpha: float, beta: float, c: output
    ):
        left = tg.tile_pipe(shape=(rows, depth), dtype=dtype, stages=stages)
        right = tg.tile_pipe(shape=shape, dtype=dtype, stages=stages)
        height = (c.shape[across] + rows - 1) // rows
        width = (c.shape[across + 1] + columns - 1) // columns
        # What lies outside the operands is 0.
        steps = (a.shape[1] + depth * splits - 1) // (depth * splits)
        with tg.role("fetch", warp_groups=1, registers=40 if swapped else 24):
            for i, j in tg.persistent_tiles((height, width * splits), raster=RASTER):
                first = j // width * steps if splits > 1 else 0
                column = j % width * columns if splits > 1 else j * columns
                for k in range(steps):
                    tg.tile_pipe_load(left, a, offset=(i * rows, (first + k) * depth))
                    if transposed:
                        tg.tile_pipe_load(right, b, offset=(column, (first + k) * depth))
                    else:
                        tg.tile_pipe_load(right, b, offset=((first + k) * depth, column))
        with tg.role("multiply", warp_groups=groups, registers=232 if swapped else 240):
            for i, j in tg.persistent_tiles((height, width * splits), raster=RASTER):
                total = tg.tile_zeros(shape=sums, dtype=tg.float32)
                for _k in range(steps):
                    x, y = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
                    if swapped and transposed:
                        tg.tile_matmul(y, tg.tile_transpose(x), total, precision=precision)
                    elif swapped:
                        tg.tile_matmul(tg.tile_transpose(y), tg.tile_transpose(x), total, precision=precision)
                    elif transposed:
                        tg.tile_matmul(x, tg.tile_transpose(y), total, precision=precision)
                    else:
                        tg.tile_matmul(x, y, total, precision=precision)
                # A copy: what tensor cores add to stays in registers, and what is transposed does not.
                whole = tg.tile_transpose(total * 1.0) if swapped else total
                if splits > 1:
                    tg.tile_store(c[j // width], whole, offset=(i * rows, j % width * columns))
                else:
                    finish(whole, bias, alpha, beta, c, i * rows, j * columns)

    return matmul


@lru_cache(maxsize=256)
def summed(splits: int, epilogue: Epilogue) -> Any:
    """The kernel that adds up the shares of each element. They are loaded together, so that they come at once."""
    biases = tg.array1d[Any] if epilogue.biased else int
    finish = epilogue.function()

    @tg.kernel
    def add(
        shares: tg.array3d[tg.float32],
        bias: biases,
        alpha: float,
        beta: float,
        c: tg.array2d[epilogue.result],
    ):
        i, j = tg.tid()
        every = tg.tile_load(shares, shape=(splits, 1, WIDTH), offset=(0, i, j * WIDTH))
        total = tg.tile_sum(every, axis=0)
        finish(total, bias, alpha, beta, c, i, j * WIDTH)

    return add


def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    transpose_b: bool = False,
    precision: str = "default",
    tile: Tile | None = None,
) -> Any:
    """activation(alpha * a @ b + beta * out + bias), in `out`, or in a new array; returns it.

    `a`: (M, K), `b`: (K, N), or (N, K) with `transpose_b`; both of bfloat16, float16, float32, float8_e4m3 or
    float8_e5m2, with any strides. Products are summed in float32. `out`: (M, N), of bfloat16, float16 or float32, apart
    from the inputs; what it holds counts only where beta is not 0. A new one is of a's dtype, of bfloat16 if that has 8
    bits. `bias`: (N,), of any type that `out` may have. `activation`: None, "relu", "gelu" (by the error function) or
    "silu". `precision`: "default", or "tf32", for which GPUs round float32 operands to 10 bits of fraction and multiply
    them on tensor cores. `tile`: how the output is cut, chosen by its shape if left out.

    Tensor cores read operands of float8 and tf32 with K along rows: on a GPU, a `b` of (K, N) is transposed first.

    Runs where the arrays are; the new array is a tensor if `a` is one of PyTorch's, else a `tg.array`. LaunchError for
    arguments that do not fit."""
    left, right = seen("matmul", "a", a, 2, DTYPES), seen("matmul", "b", b, 2, DTYPES)
    if left.dtype != right.dtype:
        what = f"matmul: 'a' and 'b' must be of one dtype, got {left.dtype} and {right.dtype}"
        raise tg.LaunchError(what, "convert one of them")
    (m, depth), n = left.shape, right.shape[0 if transpose_b else 1]
    fitting = f"'a' of shape {left.shape}" + " with transpose_b" * transpose_b
    expect_shape("matmul", "b", right, (n, depth) if transpose_b else (depth, n), fitting)
    if precision not in PRECISIONS:
        what = f"matmul: there is no precision {precision!r}"
        raise tg.LaunchError(what, f"there are {' and '.join(PRECISIONS)}")
    if activation is not None and activation not in EXACT:
        what = f"matmul: there is no activation {activation!r}"
        raise tg.LaunchError(what, f"there are {', '.join(EXACT)}; None is no activation")
    if out is None and beta:
        raise tg.LaunchError(f"matmul: beta is {beta}, but there is no 'out' to scale", "pass out=")
    wanted = left.dtype if left.dtype.bits > 8 else tg.bfloat16
    out = empty((m, n), wanted, a, left.device) if out is None else out
    target = seen("matmul", "out", out, 2, RESULTS)
    expect_shape("matmul", "out", target, (m, n), "'a' and 'b'")
    inputs = {"a": left, "b": right}
    if bias is not None:
        inputs["bias"] = seen("matmul", "bias", bias, 1, RESULTS)
        expect_shape("matmul", "bias", inputs["bias"], (n,), "'b'")
    expect_apart("matmul", target, inputs)
    if not m or not n:
        return out
    # The old elements, or float32 results that are long in the making.
    crowded = beta != 0 or (activation == "gelu" and target.dtype == tg.float32)
    precision = precision if left.dtype == tg.float32 else "default"
    if tile is None:
        blocks = processors(left.device)
        machine = (
            cpu(blocks) if left.device.is_cpu else Machine(blocks).reading(left.strides[0], right.strides[0])
        )
        ways, size = candidates(left.dtype, crowded, precision), left.dtype.bits / 8
        tile = choose(m, n, depth, size, speed(left.dtype, precision), ways, machine)
    if not transpose_b and (left.dtype.bits == 8 or precision == "tf32") and not left.device.is_cpu:
        b = right = turned(b, right)
        transpose_b = True
    exact = left.dtype == tg.float32 and precision == "default"
    epilogue = Epilogue(target.dtype, alpha != 1, beta != 0, bias is not None, activation or "", exact)
    operands = [reachable(a, left), reachable(b, right)]
    rest = [0 if bias is None else bias, float(alpha), float(beta)]
    _run(operands, rest, out, (m, n), left, tile, transpose_b, epilogue, precision)
    return out


def _run(
    operands: list[Any],
    rest: list[Any],
    out: Any,
    shape: tuple[int, int],
    like: Any,
    tile: Tile,
    transposed: bool,
    epilogue: Epilogue,
    precision: str,
) -> None:
    """Launch the kernel, and where blocks share tiles the one that adds up their sums."""
    (m, n), splits = shape, tile.splits
    # An even number: neighbouring blocks may share what they fetch.
    tiles = ceil(m / tile.rows) * ceil(n / tile.columns) * splits
    blocks = min(processors(like.device), tiles + tiles % 2)
    if splits == 1:
        kernel = product(like.dtype, tile, transposed, epilogue, precision)
        tg.launch_tiled(kernel, blocks, [*operands, *rest], [out])
        return
    shares = scratch((splits, m, n), operands[0], like.device)
    kernel = product(like.dtype, tile, transposed, Epilogue(tg.float32), precision)
    tg.launch_tiled(kernel, blocks, [*operands, 0, 1.0, 0.0], [shares])
    grid = (m, ceil(n / WIDTH))
    tg.launch_tiled(summed(splits, epilogue), grid, [shares, *rest], [out], block_dim=THREADS)
