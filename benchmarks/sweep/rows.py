"""The points of the sweep that are bound by memory: variations of a softmax of float32 rows of 4096 elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tegula as tg
from benchmarks.sweep import row_kernels as kernels
from benchmarks.sweep.point import Array, Launch, Part, Point, result, table, tiles

GROUP = "rows"
ROWS, WIDTH, EPS = 16384, 4096, 1e-5
CLASSES, CHUNK = 50304, 4096
"""The number of classes of the cross entropy, and the number of classes of an iteration."""
STRIP, SQUARE = (64, 32), 64
"""The tile of the column sums, and the size of the tile of the transpose."""


def single_result(value: Any) -> Iterator[Part]:
    yield 0, ..., value


def point(name: str, kernel: Any, full: Launch, small: Launch, exact: Any, **settings: Any) -> Point:
    """A point without a target, whose ratio is only reported."""
    return Point(
        f"rows, {name}", GROUP, kernel, full, small, exact, **{"threads": 128, "target": None, **settings}
    )


def softmax(name: str, width: int = WIDTH, dtype: str = "float32", threads: int = 128) -> Point:
    """A softmax with the number of elements of the base point."""

    def launch(rows: int) -> Launch:
        return Launch((Array((rows, width), dtype), result(rows, width, dtype=dtype)), (rows,))

    def exact(xp: Any, a: Any) -> Iterator[Part]:
        e = xp.exp(a - xp.amax(a, axis=1, keepdims=True))
        return single_result(e / e.sum(axis=1, keepdims=True))

    kernel = kernels.softmax(width, getattr(tg, dtype))
    return point(name, kernel, launch(ROWS * WIDTH // width), launch(5), exact, threads=threads)


def layernorm(name: str, dtype: str, gradient_target: float | None) -> Point:
    """A layer norm."""

    def launch(rows: int) -> Launch:
        weights = (Array((WIDTH,), dtype),) * 2
        arrays = Array((rows, WIDTH), dtype), *weights, result(rows, WIDTH, dtype=dtype)
        return Launch((*arrays, EPS), (rows,))

    def exact(xp: Any, a: Any, w: Any, v: Any, eps: float) -> Iterator[Part]:
        d = a - a.mean(axis=1, keepdims=True)
        return single_result(d / xp.sqrt((d * d).mean(axis=1, keepdims=True) + eps) * w + v)

    kernel = kernels.layernorm(WIDTH, getattr(tg, dtype))
    return point(name, kernel, launch(ROWS), launch(5), exact, gradient_target=gradient_target)


def residual_norm() -> Point:
    """An RMS norm of the sum of two matrices; the sum is a second result."""

    def launch(rows: int) -> Launch:
        a = Array((rows, WIDTH), "float32")
        outputs = (result(rows, WIDTH, dtype="float32"),) * 2
        return Launch((a, a, Array((WIDTH,), "float32"), *outputs, EPS), (rows,))

    def exact(xp: Any, a: Any, r: Any, w: Any, eps: float) -> Iterator[Part]:
        t = a + r
        yield 0, ..., t
        yield 1, ..., t / xp.sqrt((t * t).mean(axis=1, keepdims=True) + eps) * w

    return point("RMS norm and residual", kernels.residual_norm(WIDTH), launch(ROWS), launch(5), exact)


def cross_entropy() -> Point:
    """The cross entropy of rows of 50,304 logits."""

    def launch(rows: int) -> Launch:
        labels = table(np.random.default_rng(3).integers(0, CLASSES, rows))
        arrays = Array((rows, CLASSES), "float32"), labels, result(rows, dtype="float32")
        return Launch(arrays, (rows,))

    def exact(xp: Any, a: Any, labels: Any) -> Iterator[Part]:
        row_max = xp.amax(a, axis=1, keepdims=True)
        sums = xp.log(xp.exp(a - row_max).sum(axis=1)) + row_max[:, 0]
        return single_result(sums - a[xp.arange(len(a)), labels])

    kernel = kernels.cross_entropy(CHUNK)
    return point("cross entropy of 50304", kernel, launch(4096), launch(3), exact, threads=256)


def column_sums() -> Point:
    """The sums of columns."""

    def launch(rows: int, columns: int) -> Launch:
        arrays = Array((rows, columns), "float32"), result(columns, dtype="float32")
        return Launch(arrays, tiles((columns, STRIP[1])))

    def exact(xp: Any, a: Any) -> Iterator[Part]:
        return single_result(a.sum(axis=0))

    return point("column sums", kernels.column_sums(*STRIP), launch(ROWS, WIDTH), launch(320, 64), exact)


def transpose() -> Point:
    """A transposed matrix."""

    def launch(rows: int, columns: int) -> Launch:
        arrays = Array((rows, columns), "float32"), result(columns, rows, dtype="float32")
        return Launch(arrays, tiles((rows, SQUARE), (columns, SQUARE)))

    def exact(xp: Any, a: Any) -> Iterator[Part]:
        return single_result(a.T)

    return point("transpose", kernels.transpose(SQUARE), launch(ROWS, WIDTH), launch(128, 192), exact)


def row_scan() -> Point:
    """Inclusive sums along rows."""

    def launch(rows: int) -> Launch:
        return Launch((Array((rows, WIDTH), "float32"), result(rows, WIDTH, dtype="float32")), (rows,))

    def exact(xp: Any, a: Any) -> Iterator[Part]:
        return single_result(xp.cumsum(a, 1))

    return point("row scan", kernels.row_scan(WIDTH), launch(ROWS), launch(5), exact)


def points() -> list[Point]:
    """The base and the points, in order; the layer norm with bfloat16 weights is measured for its gradients."""
    return [
        softmax("softmax"),
        softmax("softmax bfloat16", dtype="bfloat16"),
        softmax("softmax of 1000 columns", width=1000),
        softmax("softmax of 32768 columns", width=32768, threads=512),
        layernorm("layer norm", "float32", None),
        layernorm("layer norm bfloat16", "bfloat16", 0.85),
        residual_norm(),
        cross_entropy(),
        column_sums(),
        transpose(),
        row_scan(),
    ]
