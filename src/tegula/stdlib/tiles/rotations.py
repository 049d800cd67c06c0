"""Rotations of adjacent rows and Householder reflections, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import float32, float64

N, M, WIDTH = Extent("N"), Extent("M"), Extent("width")
CHUNKS = Extent("CHUNKS", value=lambda M, width: -(-M // width))
CHUNK = 8
"""The number of elements of a row that one thread rotates at a time, in registers."""
MAX_STEPS = 30
"""The maximum number of iterations for one eigenvalue or singular value."""


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
    none = square <= tg._tile_tiny(square)
    divisor = square + tg.abs(head) * tg.sqrt(square)
    return tg.where(none, type(square)(0.0), 1.0 / tg.where(none, type(square)(1.0), divisor))


@cooperative
def _tile_chunks(rows: Tile[Real, N, M], width: constexpr[int]) -> Tile[Real, N, CHUNKS, WIDTH]:
    """The rows of a matrix in chunks of `width` elements, the last one padded by zeros."""
    n, m = rows.shape
    chunks = tg.static(-(-m // width))
    padded = tg.tile_zeros(shape=(n, tg.static(chunks * width)), dtype=type(rows[0, 0]))
    tg.tile_assign(padded, rows, (0, 0))
    return tg.tile_reshape(padded, (n, chunks, width))
