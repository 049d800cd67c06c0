"""Jacobi rotations of disjoint pairs of columns in parallel, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32

N = Extent("N")


@part
def _tile_epsilon(x: float32):
    """The distance from 1 to the next larger number."""
    return float32(1.1920928955078125e-07)


@part
def _tile_epsilon(x: float64):
    return float64(2.220446049250313e-16)


@part
def _tile_most_sweeps(x: float32):
    """The maximum number of sweeps of a decomposition."""
    return 12


@part
def _tile_most_sweeps(x: float64):
    return 16


@cooperative
def _tile_partners(place: Tile[int32, N], turn: int32) -> Tile[int32, N]:
    """The partner of each column in one step of a sweep. A sweep has each pair once; a column without a partner is its
    own partner."""
    n = place.shape[0]
    last = tg.static(n - 1 + n % 2)
    # The circle method of round-robin tournaments: partners are opposite on a circle, and the column opposite to itself
    # is paired with the last column, which is not on the circle.
    opposite = (turn - place + last) % last
    alone = tg.where(opposite == place, last, opposite)
    half = turn // 2 + turn % 2 * ((last + 1) // 2)
    partner = tg.where(place == last, half, alone)
    return tg.where(partner < n, partner, place)


@cooperative
def _tile_tangents(first: Tile[Real, N], second: Tile[Real, N], between: Tile[Real, N]) -> Tile[Real, N]:
    """The tangents, at most 1, of the rotations that diagonalise (first, between; between, second)."""
    done = between == 0.0
    theta = (second - first) / (2.0 * tg.where(done, 1.0, between))
    t = 1.0 / (tg.abs(theta) + tg.sqrt(theta * theta + 1.0))
    return tg.where(done, 0.0, tg.where(theta < 0.0, -t, t))


@cooperative
def _tile_inverse_gaps(apart: Tile[Real, N, N], guard: Real) -> Tile[Real, N, N]:
    """The reciprocals of differences; 0 for differences of at most `guard`."""
    near = tg.abs(apart) <= guard
    return tg.where(near, 0.0, 1.0 / tg.where(near, 1.0, apart))
