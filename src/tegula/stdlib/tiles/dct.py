"""Discrete cosine transforms."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extents, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.fft import Number
from tegula.stdlib.tiles.roots import roots

S = Extents("S")


@cooperative
def tile_dct(x: Tile[Number, *S]) -> Tile[Number, *S]:
    """The discrete cosine transform of type II along the last dimension of a tile: y[k] = 2 * sum of
    x[n] * cos(pi * k * (2 * n + 1) / (2 * N)), as scipy.fft.dct.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile of the shape and dtype of `x`.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: there are no tables for N.
    Gradient:
        `tile_idct` of the adjoint, whose first element is doubled.
    Source:
        Makhoul, "A fast cosine transform in one and two dimensions" (1980).
    """
    shape, lane = x.shape, tg.group_lane()
    n, rows = tg.static(shape[-1]), tg.static(prod(shape[:-1]))
    matrix = tg.tile_reshape(x, (rows, n))
    zero = type(matrix[0, 0])(0.0)
    half, count = tg.static((n + 1) // 2), tg.static(rows * n)
    permuted = tg.tile_empty(shape=(rows, n), dtype=type(zero), storage="shared")
    for first in range(0, count, tg.group_present()):
        element = first + lane
        if element < count:
            row, k = element // n, element % n
            permuted[row, k] = matrix[row, 2 * k if k < half else 2 * (n - k) - 1]
    spectrum = tg.tile_rfft(permuted)
    result = tg.tile_empty(shape=(rows, n), dtype=type(zero), storage="shared")
    for first in range(0, count, tg.group_present()):
        element = first + lane
        if element < count:
            row, k = element // n, element % n
            z = spectrum[row, tg.min(k, n - k)]
            c, d = tg._tile_quarter_root(n, zero, k)
            result[row, k] = 2.0 * (z[0] * c - (z[1] if 2 * k <= n else -z[1]) * d)
    return tg.tile_reshape(result, shape)


@tile_dct.vjp
def dct_vjp(grad):
    shape = grad.shape
    index = tg.tile_arange(tg.static(shape[-1]), dtype=int)
    return tg.tile_idct(tg.tile_map(tg._tile_scale_first, grad, index, 2.0))


@cooperative
def tile_idct(x: Tile[Number, *S]) -> Tile[Number, *S]:
    """The inverse of `tile_dct` times 2 * N, the discrete cosine transform of type III: y[n] = x[0] + 2 * sum of
    x[k] * cos(pi * k * (2 * n + 1) / (2 * N)) over k from 1 on.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile of the shape and dtype of `x`.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: there are no tables for N.
    Gradient:
        `tile_dct` of the adjoint, of which the first element is halved.
    Source:
        as for `tile_dct`.
    """
    shape, lane = x.shape, tg.group_lane()
    n, rows = tg.static(shape[-1]), tg.static(prod(shape[:-1]))
    matrix = tg.tile_reshape(x, (rows, n))
    zero = type(matrix[0, 0])(0.0)
    half, count = tg.static(n // 2 + 1), tg.static(rows * (n // 2 + 1))
    spectrum = tg.tile_empty(shape=(rows, half), dtype=type(tg.vector(zero, zero)), storage="shared")
    for first in range(0, count, tg.group_present()):
        element = first + lane
        if element < count:
            row, k = element // half, element % half
            a, b = matrix[row, k], tg.where(k > 0, matrix[row, (n - k) % n], zero)
            c, d = tg._tile_quarter_root(n, zero, k)
            spectrum[row, k] = tg.vector(a * c - b * d, -a * d - b * c)
    permuted = tg.tile_irfft(spectrum, n)
    result = tg.tile_empty(shape=(rows, n), dtype=type(zero), storage="shared")
    total = tg.static(rows * n)
    for first in range(0, total, tg.group_present()):
        element = first + lane
        if element < total:
            row, k = element // n, element % n
            result[row, k] = permuted[row, k // 2 if k % 2 == 0 else n - 1 - k // 2]
    return tg.tile_reshape(result, shape)


@tile_idct.vjp
def idct_vjp(grad):
    shape = grad.shape
    index = tg.tile_arange(tg.static(shape[-1]), dtype=int)
    return tg.tile_map(tg._tile_scale_first, tg.tile_dct(grad), index, 0.5)


@part
def _tile_quarter_root(n, like, k):
    """exp(-pi i k / (2 n)) for k below n."""
    parts = tg.static(roots(4 * n, np.arange(n)))
    return tg.table(parts[0], type(like))[k], tg.table(parts[1], type(like))[k]


@part
def _tile_scale_first(x, k, factor):
    """x times a factor if k is 0, the first element of a row, else x."""
    return tg.where(k == 0, x * type(x)(factor), x)


def dct_matrix(n: int) -> np.ndarray:
    """The (n, n) matrix of the transform of type II."""
    k, j = np.arange(n)[:, None], np.arange(n)
    return 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))


@tile_dct.reference
def dct_reference(x):
    return x @ dct_matrix(x.shape[-1]).T


@tile_idct.reference
def idct_reference(x):
    first = np.arange(x.shape[-1]) == 0
    return np.where(first, x / 2, x) @ dct_matrix(x.shape[-1])


def dct_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of real numbers."""
    for n in (1, 2, 5, 16):
        yield Sample(rng.standard_normal(n).astype(np.float32), differentiable=n == 5)
    yield Sample(rng.standard_normal((2, 3, 12)), differentiable=True)
    yield Sample(rng.standard_normal((3, 40)).astype(np.float32))
    yield Refused(np.ones(3, np.int32), code="type-mismatch", says=("float32, float64", "int32"))


tile_dct.samples(dct_samples)
tile_idct.samples(dct_samples)
