"""The points with matmuls: each point is one change of 4096x4096x4096 in bfloat16 with tiles of 128x256x64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tegula as tg
from benchmarks.sweep import gemm_kernels as kernels
from benchmarks.sweep.gemm_kernels import BASE
from benchmarks.sweep.point import Argument, Array, Launch, Part, Point, result, table, tiles

GROUP = "GEMM"
COMPILED_PEER_TARGET = 0.95
"""The target of the matmuls whose peer is compiled."""
Sizes = tuple[int, int, int]
"""The values of M, N and K."""
CPU_SIZES: Sizes = (256, 512, 192)


def single_result(value: Any) -> Iterator[Part]:
    """One result in one part."""
    yield 0, ..., value


def gemm(
    name: str,
    full: Sizes = (4096, 4096, 4096),
    small: Sizes = CPU_SIZES,
    left: str = "bfloat16",
    right: str = "",
    out: str = "bfloat16",
    a_transposed: bool = False,
    b_transposed: bool = False,
    tile: Sizes = BASE,
    precision: str = "default",
    kernel: Any = None,
    **settings: Any,
) -> Point:
    """A point of the factory of one matmul, or a point with another kernel that has the same launches."""
    right = right or left

    def launch(m: int, n: int, k: int) -> Launch:
        a = Array((k, m) if a_transposed else (m, k), left)
        b = Array((n, k) if b_transposed else (k, n), right, 20.0 if right == "int8" else 1.0)
        return Launch((a, b, result(m, n, dtype=out)), tiles((m, tile[0]), (n, tile[1])), 2 * m * n * k)

    def exact(xp: Any, a: Any, b: Any) -> Iterator[Part]:
        return single_result((a.T if a_transposed else a) @ (b.T if b_transposed else b))

    kernel = kernel or kernels.gemm(
        tile,
        *(getattr(tg, dtype) for dtype in (left, right, out)),
        a_transposed=a_transposed,
        b_transposed=b_transposed,
        precision=precision,
    )
    return Point(f"matmul, {name}", GROUP, kernel, launch(*full), launch(*small), exact, **settings)


def with_epilogue(epilogue: str) -> Point:
    """A matmul of 4096x4096x4096 with an epilogue."""

    def launch(m: int, n: int, k: int) -> Launch:
        extra = {
            "bias and gelu": (Array((n,)),),
            "residual": (Array((m, n)),),
            "row scale": (Array((m,), "float32"),),
        }.get(epilogue, ())
        grid = tiles((m, BASE[0]), (n, BASE[1]))
        return Launch(
            (Array((m, k), values=k**-0.5), Array((k, n)), *extra, result(m, n)), grid, 2 * m * n * k
        )

    def exact(xp: Any, a: Any, b: Any, e: Any = None) -> Iterator[Part]:
        c = a @ b
        if epilogue == "bias and gelu":
            c = gelu(xp, c + e)
        elif epilogue == "silu":
            c = silu(xp, c)
        else:
            c = c + e if epilogue == "residual" else c * e[:, None]
        return single_result(c)

    kernel = kernels.with_epilogue(epilogue)
    return Point(f"matmul, {epilogue}", GROUP, kernel, launch(4096, 4096, 4096), launch(*CPU_SIZES), exact)


def gelu(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def silu(xp: Any, x: Any) -> Any:
    return x / (1.0 + xp.exp(-x))


def iterations_from_array() -> Point:
    """A matmul whose number of iterations is in an array."""

    def launch(m: int, n: int, k: int) -> Launch:
        operands = (Array((m, k)), Array((k, n)), table([k // BASE[2]]), result(m, n))
        return Launch(operands, tiles((m, BASE[0]), (n, BASE[1])), 2 * m * n * k)

    def exact(xp: Any, a: Any, b: Any, count: Any) -> Iterator[Part]:
        return single_result(a @ b)

    kernel = kernels.iterations_from_array()
    return Point(
        "matmul, loop bound from an array", GROUP, kernel, launch(4096, 4096, 4096), launch(*CPU_SIZES), exact
    )


def batched() -> Point:
    """Eight matmuls of 2048x2048x2048."""

    def launch(count: int, m: int, n: int, k: int) -> Launch:
        operands = Array((count, m, k)), Array((count, k, n)), result(count, m, n)
        return Launch(operands, (count, *tiles((m, BASE[0]), (n, BASE[1]))), 2 * count * m * n * k)

    def exact(xp: Any, a: Any, b: Any) -> Iterator[Part]:
        return single_result(a @ b)

    full, small = launch(8, 2048, 2048, 2048), launch(2, *CPU_SIZES)
    return Point("matmul, batched", GROUP, kernels.batched(), full, small, exact, gradient_target=0.9)


def grouped() -> Point:
    """Eight groups of uneven size, whose rows do not begin at multiples of a tile."""

    def launch(sizes: tuple[int, ...], n: int, k: int) -> Launch:
        ends, tm = np.cumsum(sizes), BASE[0]
        starts = [(row, g) for g, end in enumerate(ends) for row in range(end - sizes[g], end, tm)]
        m = int(ends[-1])
        rows, groups = zip(*starts, strict=True)
        operands: tuple[Argument, ...] = (
            *(Array((m, k)), Array((len(sizes), k, n))),
            *(table(rows), table(groups), table(ends)),
            result(m, n),
        )
        return Launch(operands, (len(starts), *tiles((n, BASE[1]))), 2 * m * n * k)

    def exact(xp: Any, a: Any, b: Any, starts: Any, groups: Any, ends: Any) -> Iterator[Part]:
        begin = 0
        for g, end in enumerate(ends.tolist()):
            yield 0, slice(begin, end), a[begin:end] @ b[g]
            begin = end

    full = launch((4104, 600, 1504, 2048, 96, 3000, 4000, 1032), 4096, 2048)
    return Point("matmul, grouped", GROUP, kernels.grouped(), full, launch((136, 8, 200), 512, 192), exact)


def lower_half() -> Point:
    """The matmul A.T @ A without the tiles above the diagonal; the work counts the computed tiles only."""

    def launch(n: int, k: int) -> Launch:
        grid = tiles((n, BASE[0]), (n, BASE[1]))
        tile_count = sum(j * BASE[1] < (i + 1) * BASE[0] for i in range(grid[0]) for j in range(grid[1]))
        return Launch((Array((k, n)), result(n, n)), grid, 2 * BASE[0] * BASE[1] * tile_count * k)

    def exact(xp: Any, a: Any) -> Iterator[Part]:
        c, (tm, tn) = a.T @ a, BASE[:2]
        for i in range(0, len(c), tm):
            end = -(-(i + tm) // tn) * tn
            yield 0, (slice(i, i + tm), slice(0, end)), c[i : i + tm, :end]

    kernel = kernels.lower_half()
    return Point("matmul, A.T @ A, lower half", GROUP, kernel, launch(4096, 4096), launch(512, 192), exact)


def sum_of_two_matmuls() -> Point:
    """The sum A @ B + C @ D, whose matmuls have half of the depth."""

    def launch(m: int, n: int, k: int) -> Launch:
        pair = Array((m, k)), Array((k, n))
        return Launch((*pair, *pair, result(m, n)), tiles((m, BASE[0]), (n, BASE[1])), 4 * m * n * k)

    def exact(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Iterator[Part]:
        return single_result(a @ b + c @ d)

    kernel = kernels.sum_of_two_matmuls()
    return Point("matmul, AB + CD", GROUP, kernel, launch(4096, 4096, 2048), launch(*CPU_SIZES), exact)


def swiglu(tn: int) -> Point:
    """The gate silu(A @ V) * (A @ W) with tiles of 128 rows."""
    tile = (128, tn, 64)

    def launch(m: int, n: int, k: int) -> Launch:
        operands = Array((m, k), values=k**-0.5), Array((k, n)), Array((k, n)), result(m, n)
        return Launch(operands, tiles((m, tile[0]), (n, tile[1])), 4 * m * n * k)

    def exact(xp: Any, a: Any, v: Any, w: Any) -> Iterator[Part]:
        return single_result(silu(xp, a @ v) * (a @ w))

    name, kernel = f"matmul, swiglu 128x{tn}", kernels.swiglu(tile)
    return Point(
        name, GROUP, kernel, launch(4096, 4096, 4096), launch(*CPU_SIZES), exact, target=COMPILED_PEER_TARGET
    )


def three_matmuls_of_one_operand() -> Point:
    """Three matmuls with a common left operand."""

    def launch(m: int, n: int, k: int) -> Launch:
        right, outputs = (Array((k, n)),) * 3, (result(m, n),) * 3
        return Launch((Array((m, k)), *right, *outputs), tiles((m, 128), (n, 128)), 6 * m * n * k)

    def exact(xp: Any, x: Any, *right_operands: Any) -> Iterator[Part]:
        for number, right in enumerate(right_operands):
            yield number, ..., x @ right

    kernel = kernels.three_matmuls_of_one_operand()
    return Point("matmul, QKV", GROUP, kernel, launch(4096, 4096, 4096), launch(*CPU_SIZES), exact)


def two_layer_perceptron() -> Point:
    """A fused perceptron of width 128 with a hidden layer of 4096."""

    def launch(m: int, hidden: int) -> Launch:
        layers = Array((128, hidden), values=128**-0.5), Array((hidden, 128))
        return Launch((Array((m, 128)), *layers, result(m, 128)), tiles((m, 128)), 4 * m * hidden * 128)

    def exact(xp: Any, x: Any, v: Any, w: Any) -> Iterator[Part]:
        h = x @ v
        return single_result((h * (h > 0)) @ w)

    kernel = kernels.two_layer_perceptron()
    return Point("matmul, MLP", GROUP, kernel, launch(32768, 4096), launch(256, 384), exact)


def convolution() -> Point:
    """A 3x3 convolution of 32 images of 64x64 pixels, 256 channels to 256 filters."""

    def launch(count: int, height: int, width: int, channels: int, filters: int) -> Launch:
        images, weights = Array((count, height, width, channels)), Array((9, channels, filters))
        tile_rows, tile_columns, filter_tiles = tiles((height, 8), (width, 16), (filters, 256))
        operands = images, weights, result(count, height, width, filters)
        work = 2 * 9 * count * height * width * channels * filters
        return Launch(operands, (count, tile_rows * tile_columns, filter_tiles), work)

    def exact(xp: Any, x: Any, w: Any) -> Iterator[Part]:
        for n, image in enumerate(x):
            sums = 0.0
            for tap in range(9):
                dy, dx = tap // 3 - 1, tap % 3 - 1
                sums = sums + xp.roll(without_wrapped_pixels(xp, image, dy, dx), (-dy, -dx), (0, 1)) @ w[tap]
            yield 0, n, sums

    def without_wrapped_pixels(xp: Any, image: Any, dy: int, dx: int) -> Any:
        """The image without the rows and columns that the shift wraps around."""
        rows, columns = (xp.ones_like(image[:, :1, :1]), xp.ones_like(image[:1, :, :1]))
        if dy:
            rows[0 if dy > 0 else -1] = 0
        if dx:
            columns[:, 0 if dx > 0 else -1] = 0
        return image * rows * columns

    full, small = launch(32, 64, 64, 256, 256), launch(2, 8, 32, 64, 256)
    return Point("matmul, 3x3 convolution", GROUP, kernels.convolution(), full, small, exact)


def points() -> list[Point]:
    """The base and the points, in order."""
    return [
        gemm("base"),
        gemm("B transposed", b_transposed=True),
        gemm("A transposed", a_transposed=True, gradient_target=0.9),
        gemm("float16", left="float16", out="float16"),
        gemm("float8", left="float8_e4m3", b_transposed=True, gradient=False),
        gemm("tf32", left="float32", out="float32", b_transposed=True, precision="tf32", tolerance=7e-4),
        gemm("float32 result", out="float32"),
        gemm("K 512", (4096, 4096, 512)),
        # Thin matrices have no target, because their speed depends on the division of a few rows among blocks.
        gemm("300x7000x4096", (300, 7000, 4096), (44, 280, 192), target=None),
        gemm("1536x1536x6144", (1536, 1536, 6144)),
        gemm("32x14336x4096", (32, 14336, 4096), (32, 512, 192), target=None),
        gemm("5000x5000x5000", (5000, 5000, 5000), (136, 264, 200)),
        gemm("tile 128x128", tile=(128, 128, 64)),
        gemm("tile 128x192", tile=(128, 192, 64)),
        gemm("tile 64x256", tile=(64, 256, 64)),
        gemm("tile 128x96", tile=(128, 96, 64)),
        gemm("tile 64x64", tile=(64, 64, 64)),
        gemm("tile 64x64x32", tile=(64, 64, 32), gradient=False),
        gemm("tile 32x32x32", tile=(32, 32, 32), gradient=False),
        gemm("loop with step -1", kernel=kernels.iterations_in_reverse()),
        iterations_from_array(),
        batched(),
        grouped(),
        lower_half(),
        sum_of_two_matmuls(),
        gemm("int8 weights", right="int8", gradient=False),
        *map(with_epilogue, ("bias and gelu", "silu", "residual", "row scale")),
        swiglu(128),
        swiglu(64),
        three_matmuls_of_one_operand(),
        two_layer_perceptron(),
        convolution(),
    ]
