"""Rotations of adjacent rows and Householder reflections, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.warps import WARP
from tegula.types import float32, float64, int32, uint32, uint64

N, M, WIDTH = Extent("N"), Extent("M"), Extent("width")
CHUNKS = Extent("CHUNKS", value=lambda M, width: -(-M // width))
CHUNK = 8
"""The number of elements of a row that one thread rotates at a time, in registers."""
MAX_STEPS = 30
"""The maximum number of iterations of a decomposition, times the number of columns. An eigenvalue takes 1.8 iterations
on average, but the first eigenvalue of a graded matrix more than 30."""


@part
def _tile_epsilon(x: float32):
    """The distance from 1 to the next larger number."""
    return float32(1.1920928955078125e-07)


@part
def _tile_epsilon(x: float64):
    return float64(2.220446049250313e-16)


@part
def _tile_scales(x: float32):
    """The largest power of two that is at most x, and its inverse, for x from 2**-126 to 2**127; powers of two in this
    range for any other x, also for a NaN."""
    bits = tg.max(tg.min(tg.bitcast(x, uint32), uint32(253 << 23)) & uint32(0xFF << 23), uint32(1 << 23))
    return tg.bitcast(bits, float32), tg.bitcast(uint32(254 << 23) - bits, float32)


@part
def _tile_scales(x: float64):
    bits = tg.min(tg.bitcast(x, uint64), uint64(2045 << 52)) & uint64(0x7FF << 52)
    bits = tg.max(bits, uint64(1 << 52))
    return tg.bitcast(bits, float64), tg.bitcast(uint64(2046 << 52) - bits, float64)


@part
def _tile_tiny(x):
    """The largest square that is treated as 0 in a matrix whose largest element is 1; larger squares are far from
    subnormal numbers."""
    square = tg._tile_epsilon(x) * tg._tile_epsilon(x)
    return square * square


@part
def _tile_reflected(squared_norm, head):
    """The first element of a vector after its Householder reflection onto the first axis. `squared_norm`: of the
    vector; `head`: its first element."""
    length = tg.where(
        squared_norm <= tg._tile_tiny(squared_norm), type(squared_norm)(0.0), tg.sqrt(squared_norm)
    )
    return tg.where(head > 0.0, -length, length)


@part
def _tile_reflection_scale(squared_norm, head):
    """2 / |u|**2 for the Householder vector u, a vector minus its reflection; 0 for the zero vector."""
    is_null = squared_norm <= tg._tile_tiny(squared_norm)
    divisor = squared_norm + tg.abs(head) * tg.sqrt(squared_norm)
    return tg.where(
        is_null, type(squared_norm)(0.0), 1.0 / tg.where(is_null, type(squared_norm)(1.0), divisor)
    )


@cooperative
def _tile_chunks(rows: Tile[Real, N, M], width: constexpr[int]) -> Tile[Real, N, CHUNKS, WIDTH]:
    """The rows of a matrix in chunks of `width` elements; the last chunk of a row is padded with zeros."""
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
def _tile_product_of_reflections(reflectors: Tile[Real, N, M], scales: Tile[Real, N]) -> Tile[Real, M, N]:
    """The first N columns of the product of the reflections I - scale * u @ u.T. `reflectors`: the Householder vectors
    u as rows; row k is 0 before element k."""
    n, m = reflectors.shape
    one, zero = type(scales[0])(1.0), type(scales[0])(0.0)
    rows, columns = (
        tg.tile_reshape(tg.tile_arange(m, dtype=int), (m, 1)),
        tg.tile_reshape(tg.tile_arange(n, dtype=int), (1, n)),
    )
    product = tg.copy(tg.where(rows == columns, one, zero))
    for step in range(n):
        k = n - 1 - step
        inner_products = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner_products = inner_products + product[j, :] * reflectors[k, j]
        inner_products = inner_products * scales[k]
        for j in range(k, m):
            product[j, :] = product[j, :] - inner_products * reflectors[k, j]
    return product


@cooperative
def _tile_ascending(keys: Tile[Real, N]) -> Tile[int32, N]:
    """The indices that sort keys in ascending order. The rank of a key is the number of keys that precede it."""
    n = keys.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    row_keys, column_keys = tg.tile_reshape(keys, (n, 1)), tg.tile_reshape(keys, (1, n))
    rank = tg.tile_sum(
        tg.where((row_keys < column_keys) | ((row_keys == column_keys) & (rows < columns)), 1, 0), axis=0
    )
    return tg.tile_sum(tg.where(tg.tile_reshape(rank, (n, 1)) == columns, rows, 0), axis=0)


@_tile_ascending.program(when=lambda group: group == WARP)
def ascending_in_one_warp(keys):
    """Each lane counts the keys that precede its own. In two warps this takes more registers."""
    n = keys.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rank, order = tg.tile_zeros(shape=n, dtype=int), tg.tile_zeros(shape=n, dtype=int)
    for k in tg._rolled(n):
        key = keys[k]
        rank = rank + tg.where((key < keys) | ((key == keys) & (k < index)), 1, 0)
    for k in tg._rolled(n):
        order[rank[k]] = k
    return order


@cooperative
def _tile_positive_signs(v: Tile[Real, M, N]) -> Tile[Real, N]:
    """The signs with which the entry of largest magnitude in each column is positive."""
    one = type(v[0, 0])(1.0)
    return tg.where(-tg.tile_min(v, axis=0) > tg.tile_max(v, axis=0), -one, one)
