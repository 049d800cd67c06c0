"""Rotations of adjacent rows and Householder reflections, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32

N, M, WIDTH = Extent("N"), Extent("M"), Extent("width")
CHUNKS = Extent("CHUNKS", value=lambda M, width: -(-M // width))
CHUNK = 8
"""The number of elements of a row that one thread rotates at a time, in registers."""
MAX_STEPS = 30
"""The maximum number of iterations of a decomposition, times the number of columns. An eigenvalue takes 1.8 on average;
of a graded matrix the first takes more than 30."""


@part
def _tile_epsilon(x: float32):
    """The distance from 1 to the next larger number."""
    return float32(1.1920928955078125e-07)


@part
def _tile_epsilon(x: float64):
    return float64(2.220446049250313e-16)


@part
def _tile_tiny(x):
    """The largest square that counts as 0, in a matrix whose largest element is 1: squares of numbers of this size are
    not subnormal."""
    square = tg._tile_epsilon(x) * tg._tile_epsilon(x)
    return square * square


@part
def _tile_reflected(square, head):
    """The first element of a vector after the reflection of the vector to the first axis. `square`: the squared length
    of the vector; `head`: its first element."""
    length = tg.where(square <= tg._tile_tiny(square), type(square)(0.0), tg.sqrt(square))
    return tg.where(head > 0.0, -length, length)


@part
def _tile_reflection_scale(square, head):
    """2 / |u|**2 for the vector u minus its reflection, which is normal to the mirror; 0 for a vector of 0."""
    is_null = square <= tg._tile_tiny(square)
    divisor = square + tg.abs(head) * tg.sqrt(square)
    return tg.where(is_null, type(square)(0.0), 1.0 / tg.where(is_null, type(square)(1.0), divisor))


@cooperative
def _tile_chunks(rows: Tile[Real, N, M], width: constexpr[int]) -> Tile[Real, N, CHUNKS, WIDTH]:
    """The rows of a matrix in chunks of `width` elements, the last one padded by zeros."""
    n, m = rows.shape
    chunks = tg.static(-(-m // width))
    padded = tg.tile_zeros(shape=(n, tg.static(chunks * width)), dtype=type(rows[0, 0]))
    tg.tile_assign(padded, rows, (0, 0))
    return tg.tile_reshape(padded, (n, chunks, width))


@_tile_chunks.program(when=lambda M, width: M % width == 0)
def without_padding(rows, width):
    n, m = rows.shape
    return tg.tile_reshape(rows, (n, tg.static(m // width), width))


@cooperative
def _tile_product_of_reflections(normals: Tile[Real, N, M], scales: Tile[Real, N]) -> Tile[Real, M, N]:
    """The first N columns of the product of reflections I - scale * u @ u.T, whose normals u are rows. Row k is 0
    before element k."""
    n, m = normals.shape
    one, zero = type(scales[0])(1.0), type(scales[0])(0.0)
    rows, columns = (
        tg.tile_reshape(tg.tile_arange(m, dtype=int), (m, 1)),
        tg.tile_reshape(tg.tile_arange(n, dtype=int), (1, n)),
    )
    product = tg.copy(tg.where(rows == columns, one, zero))
    for step in range(n):
        k = n - 1 - step
        inner = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner = inner + product[j, :] * normals[k, j]
        inner = inner * scales[k]
        for j in range(k, m):
            product[j, :] = product[j, :] - inner * normals[k, j]
    return product


@cooperative
def _tile_ascending(keys: Tile[Real, N]) -> Tile[int32, N]:
    """The indices that sort keys in ascending order, by the number of keys that precede each key."""
    n = keys.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    row_keys, column_keys = tg.tile_reshape(keys, (n, 1)), tg.tile_reshape(keys, (1, n))
    rank = tg.tile_sum(
        tg.where((row_keys < column_keys) | ((row_keys == column_keys) & (rows < columns)), 1, 0), axis=0
    )
    return tg.tile_sum(tg.where(tg.tile_reshape(rank, (n, 1)) == columns, rows, 0), axis=0)


@cooperative
def _tile_positive_signs(v: Tile[Real, M, N]) -> Tile[Real, N]:
    """The signs with which the entry of largest magnitude in each column is positive."""
    one = type(v[0, 0])(1.0)
    return tg.where(-tg.tile_min(v, axis=0) > tg.tile_max(v, axis=0), -one, one)
