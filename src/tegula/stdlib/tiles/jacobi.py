"""Jacobi rotations of disjoint pairs of columns in parallel, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32

N = Extent("N")


@part
def _tile_max_sweeps(x: float32):
    """The maximum number of sweeps of a decomposition."""
    return 12


@part
def _tile_max_sweeps(x: float64):
    return 16


@cooperative
def _tile_partners(index: Tile[int32, N], step: int32) -> Tile[int32, N]:
    """The partner of each column in one step of a sweep. A sweep has each pair once; a column without a partner is its
    own partner."""
    n = index.shape[0]
    last = tg.static(n - 1 + n % 2)
    # The circle method of round-robin tournaments: partners are opposite on a circle, and the column opposite to itself
    # is paired with the last column, which is not on the circle.
    opposite = (step - index + last) % last
    alone = tg.where(opposite == index, last, opposite)
    half = step // 2 + step % 2 * ((last + 1) // 2)
    partner = tg.where(index == last, half, alone)
    return tg.where(partner < n, partner, index)


@cooperative
def _tile_tangents(first: Tile[Real, N], second: Tile[Real, N], off_diagonal: Tile[Real, N]) -> Tile[Real, N]:
    """The tangents, at most 1, of the rotations that diagonalise (first, between; between, second)."""
    done = off_diagonal == 0.0
    theta = (second - first) / (2.0 * tg.where(done, 1.0, off_diagonal))
    t = 1.0 / (tg.abs(theta) + tg.sqrt(theta * theta + 1.0))
    return tg.where(done, 0.0, tg.where(theta < 0.0, -t, t))


@cooperative
def _tile_inverse_gaps(gaps: Tile[Real, N, N], guard: Real) -> Tile[Real, N, N]:
    """The reciprocals of differences; 0 for differences of at most `guard`."""
    is_small = tg.abs(gaps) <= guard
    return tg.where(is_small, 0.0, 1.0 / tg.where(is_small, 1.0, gaps))
