"""Compares the gradients of kernels with central differences of the same text, run by NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg

SHAPE_A, SHAPE_Y = (6, 112), (6, 40)
STEP_TOLERANCE, GRADIENT_TOLERANCE = 1e-6, 1e-5
DIRECTIONS = 3
MAX_RESULT = 1e6
"""Larger results are not compared: rounding hides differences next to starts like -1e30."""


class NumpyLanguage:
    """The functions of the language that programs call, on NumPy arrays. `thread`: the result of `tid`."""

    inf = np.inf
    exp, exp2, expm1 = np.exp, np.exp2, np.expm1
    log, log2, log1p = np.log, np.log2, np.log1p
    tanh, sin, sqrt, abs, floor, rint = np.tanh, np.sin, np.sqrt, np.abs, np.floor, np.rint
    max, min, pow = np.maximum, np.minimum, np.power
    where, clamp, tile_transpose = staticmethod(np.where), staticmethod(np.clip), staticmethod(np.transpose)
    float64 = np.float64

    def __init__(self) -> None:
        self.thread = 0

    def tid(self) -> int:
        return self.thread

    def rsqrt(self, x: Any) -> Any:
        return 1 / np.sqrt(x)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    def tile_load(self, a: np.ndarray, shape: Any, offset: Any) -> np.ndarray:
        (i, j), (rows, columns) = offset, shape
        return a[i : i + rows, j : j + columns].copy()

    def tile_store(self, a: np.ndarray, t: np.ndarray, offset: Any) -> None:
        i, j = offset
        a[i : i + t.shape[0], j : j + t.shape[1]] = t

    def tile_full(self, shape: Any, value: float, dtype: Any = None) -> np.ndarray:
        return np.full(shape, value, np.float64)

    def tile_sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return np.sum(x, axis=axis, keepdims=keepdims)

    def tile_max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return np.max(x, axis=axis, keepdims=keepdims)

    def tile_min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return np.min(x, axis=axis, keepdims=keepdims)


def numpy_function(text: str, threads: int, n: int) -> Any:
    """The function from a to y that a kernel computes, run by NumPy."""
    shim = NumpyLanguage()
    text = text.replace("tg.array2d[D]", "object")
    space: dict[str, Any] = {"tg": shim, "D": np.float64}
    exec(text, space)

    def run(a: np.ndarray) -> np.ndarray:
        y = np.zeros(SHAPE_Y)
        with np.errstate(all="ignore"):
            for shim.thread in range(threads):
                space["kernel"](n, a, y)
        return y

    return run


def tegula_gradient(
    text: str, threads: int, n: int, a: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The result y, and the gradient of a."""
    space: dict[str, Any] = {"tg": tg, "D": tg.float64}
    exec(text, space)
    kernel = tg.kernel(source=text)(space["kernel"])
    x = tg.array(a, dtype=tg.float64, requires_grad=True)
    y = tg.zeros(SHAPE_Y, dtype=tg.float64, requires_grad=True)
    with tg.Tape() as tape:
        if threads > 1:
            tg.launch(kernel, threads, [n, x], [y], block_dim=threads)
        else:
            tg.launch_tiled(kernel, [1], [n, x], [y], block_dim=32)
    values = y.numpy()
    tape.backward(grads={y: weights})
    return values, x.grad.numpy()


def check(text: str, threads: int, n: int, seed: int = 0) -> str:
    """The outcome: "right", "wrong: ...", "unstable", "not finite", or "refused: code"."""
    run = numpy_function(text, threads, n)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        a, weights = rng.uniform(-1.2, 1.2, SHAPE_A), rng.standard_normal(SHAPE_Y)
        directions = rng.standard_normal((DIRECTIONS, *SHAPE_A))
        expected = run(a)
        if not np.abs(expected).max() < MAX_RESULT:
            continue
        terms = np.array(
            [
                [[weights * (run(a + e * d) - run(a - e * d)) / (2 * e)] for e in (1e-5, 2e-6)]
                for d in directions
            ]
        )
        slopes = terms.sum(axis=(2, 3, 4))
        size = np.abs(terms).sum(axis=(2, 3, 4)).max() + 1e-3
        if np.abs(slopes[:, 0] - slopes[:, 1]).max() <= STEP_TOLERANCE * size:
            break
    else:
        return "unstable" if np.abs(expected).max() < MAX_RESULT else "not finite"
    try:
        values, gradient = tegula_gradient(text, threads, n, a, weights)
    except tg.CompileError as error:
        codes = {e.CODE for e in getattr(error, "errors", [error])}
        return f"refused: {min(codes)}: {str(error)[:300]}"
    if not np.allclose(values, expected, rtol=1e-9, atol=1e-9):
        return f"wrong value: {np.abs(values - expected).max()}"
    result = np.einsum("dij,ij->d", directions, gradient)
    if not np.abs(result - slopes[:, 1]).max() <= GRADIENT_TOLERANCE * size:
        return f"wrong: {result} for {slopes[:, 1]}, terms sum to {size}"
    return "right"
