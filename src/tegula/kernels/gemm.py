"""Matrix products: persistent blocks, in which one role fetches tiles and another multiplies them."""

from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.activations import EXACT, SHORT
from tegula.kernels.operands import empty, expect_apart, expect_shape, processors, reachable, seen, turned

DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3", "float8_e5m2")
RESULTS = ("bfloat16", "float16", "float32")
PRECISIONS = ("default", "tf32")
RASTER = 8


class Tile(NamedTuple):
    """How the output is cut: a block makes `rows` x `columns` of it at a time, in steps of `depth` of which `stages`
    are fetched ahead, by so many warp groups. `rate`: how fast a block makes elements, relative to the largest tile;
    an estimate, by the bytes fetched for each product."""

    rows: int
    columns: int
    depth: int
    stages: int
    groups: int
    rate: float = 1.0


TENSOR_CORES = (
    Tile(128, 256, 64, stages=4, groups=2),
    Tile(128, 128, 64, stages=5, groups=2, rate=0.85),
    Tile(128, 64, 64, stages=6, groups=2, rate=0.6),
    Tile(64, 128, 64, stages=6, groups=1, rate=0.6),
)
"""For 16-bit operands; those of 8 and 32 bits have steps of as many bytes."""
VECTOR_UNITS = (Tile(128, 128, 16, stages=4, groups=2), Tile(64, 64, 32, stages=4, groups=1, rate=0.7))
"""For float32."""
MOST_CROWDED = 128 * 128
"""Elements of the largest tile beside which the registers hold more than its sums."""


def choose(m: int, n: int, blocks: int, tiles: tuple[Tile, ...]) -> Tile:
    """The tile that is done first with an output of m x n on a device that runs so many blocks at once, in whole
    waves of them."""

    def time(tile: Tile) -> float:
        waves = ceil(ceil(m / tile.rows) * ceil(n / tile.columns) / blocks)
        return waves * tile.rows * tile.columns / tile.rate

    return min(tiles, key=time)


def candidates(dtype: Any, crowded: bool, precision: str = "default") -> tuple[Tile, ...]:
    """The tiles for operands of a type. `crowded`: whether the end of a tile needs many registers."""
    if dtype == tg.float32 and precision == "default":
        tiles = VECTOR_UNITS
    else:
        bits = dtype.bits
        tiles = tuple(
            Tile(t.rows, t.columns, t.depth * 16 // bits, t.stages, t.groups, t.rate) for t in TENSOR_CORES
        )
    return tuple(t for t in tiles if not crowded or t.rows * t.columns <= MOST_CROWDED)


@lru_cache(maxsize=256)
def product(
    dtype: Any,
    result: Any,
    tile: Tile,
    transposed: bool,
    scaled: bool,
    keeps: bool,
    biased: bool,
    activation: str,
    precision: str = "default",
) -> Any:
    """The kernel for arrays of these types. `scaled`, `keeps`, `biased`: whether alpha, beta and bias change anything;
    `activation`: a name, or nothing; `precision`: as tile_matmul takes it."""
    rows, columns, depth, stages, groups, _ = tile
    shape = (columns, depth) if transposed else (depth, columns)
    biases = tg.array1d[Any] if biased else int
    exact = dtype == tg.float32 and precision == "default"
    activate = (EXACT if exact else SHORT).get(activation)

    @tg.kernel
    def matmul(
        a: tg.array2d[dtype],
        b: tg.array2d[dtype],
        bias: biases,
        alpha: float,
        beta: float,
        c: tg.array2d[result],
    ):
        left = tg.tile_pipe(shape=(rows, depth), dtype=dtype, stages=stages)
        right = tg.tile_pipe(shape=shape, dtype=dtype, stages=stages)
        grid = ((c.shape[0] + rows - 1) // rows, (c.shape[1] + columns - 1) // columns)
        steps = (a.shape[1] + depth - 1) // depth
        with tg.role("fetch", warp_groups=1, registers=24):
            for i, j in tg.persistent_tiles(grid, raster=RASTER):
                for k in range(steps):
                    tg.tile_pipe_load(left, a, offset=(i * rows, k * depth))
                    if transposed:
                        tg.tile_pipe_load(right, b, offset=(j * columns, k * depth))
                    else:
                        tg.tile_pipe_load(right, b, offset=(k * depth, j * columns))
        with tg.role("multiply", warp_groups=groups, registers=240):
            for i, j in tg.persistent_tiles(grid, raster=RASTER):
                total = tg.tile_zeros(shape=(rows, columns), dtype=tg.float32)
                for _k in range(steps):
                    x = tg.tile_pipe_pop(left)
                    if transposed:
                        y = tg.tile_transpose(tg.tile_pipe_pop(right))
                        tg.tile_matmul(x, y, total, precision=precision)
                    else:
                        tg.tile_matmul(x, tg.tile_pipe_pop(right), total, precision=precision)
                if scaled:
                    total = total * alpha
                if keeps:
                    old = tg.tile_load(c, shape=(rows, columns), offset=(i * rows, j * columns))
                    total = total + tg.tile_astype(old, tg.float32) * beta
                if biased:
                    row = tg.tile_load(bias, shape=columns, offset=j * columns)
                    total = total + tg.tile_reshape(tg.tile_astype(row, tg.float32), shape=(1, columns))
                if activation:
                    total = tg.tile_map(activate, total)
                tg.tile_store(c, tg.tile_astype(total, result), offset=(i * rows, j * columns))

    return matmul


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
    blocks = processors(left.device)
    # The old elements, or float32 results that are long in the making.
    crowded = beta != 0 or (activation == "gelu" and target.dtype == tg.float32)
    precision = precision if left.dtype == tg.float32 else "default"
    tile = tile or choose(m, n, blocks, candidates(left.dtype, crowded, precision))
    if not transpose_b and (left.dtype.bits == 8 or precision == "tf32") and not left.device.is_cpu:
        b = right = turned(b, right)
        transpose_b = True
    features = (transpose_b, alpha != 1, beta != 0, bias is not None, activation or "", precision)
    kernel = product(left.dtype, target.dtype, tile, *features)
    blocks = min(blocks, ceil(m / tile.rows) * ceil(n / tile.columns))
    operands = [reachable(a, left), reachable(b, right), 0 if bias is None else bias]
    tg.launch_tiled(kernel, blocks, [*operands, float(alpha), float(beta)], [out])
    return out
