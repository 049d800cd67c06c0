"""The largest keys of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.errors import OutOfRange
from tegula.signature import Extent, Key, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort import sort_indices
from tegula.stdlib.tiles.sort_network import fits_in_registers
from tegula.types import int32

N, K = Extent("N"), Extent("k")


@cooperative
def tile_topk(keys: Tile[Key, ..., N], k: constexpr[int]) -> tuple[Tile[Key, ..., K], Tile[int32, ..., K]]:
    """The k largest keys along the last dimension in descending order, and their indices.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile (..., N) of float32, float64, int32, int64, uint32 or uint64.
        k: the number of keys, a constant int from 1 to N.
    Returns:
        a tile (..., k) of the dtype of `keys`, and a tile (..., k) of int32.
    Raises:
        type-mismatch: `keys` has another dtype, or `k` is not an integer.
        out-of-range: `k` is below 1 or above N.
    Gradient:
        the adjoint of each result, for the key of its index; 0 for other keys.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network; on GPUs of 16 bits of the keys
        at a time, from the lowest.
    """
    n = keys.shape[0]
    count = tg.static(check_k(k, n))
    sorted_keys, indices = tg._tile_sort_with_indices(keys, descending=True)
    return sorted_keys[:count], indices[:count]


@cooperative
def _tile_sort_with_indices(
    keys: Tile[Key, ..., N], descending: constexpr[bool] = False
) -> tuple[Tile[Key, ..., N], Tile[int32, ..., N]]:
    """The sorted keys along the last dimension, and their indices."""
    indices = tg.tile_argsort(keys, descending=descending)
    return keys[indices], indices


@_tile_sort_with_indices.program(when=lambda N, group: group == 32 and fits_in_registers(N, group))
def sort_in_one_warp(keys, descending):
    indices = tg.tile_argsort(keys, descending=descending)
    return keys[indices], indices


def check_k(k: int, n: int) -> int:
    """The number k; OutOfRange unless k is between 1 and the number of keys."""
    if not 1 <= k <= n:
        raise OutOfRange(
            None, what=f"'k' is {k}, and there are {n} keys", help="k is 1 to the number of keys"
        )
    return k


@tile_topk.reference
def reference(keys, k):
    order = sort_indices(keys, -1, descending=True)[..., :k]
    return np.take_along_axis(keys, order, axis=-1), order.astype(np.int32)


@tile_topk.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.standard_normal(1).astype(np.float32), 1, tolerance=0)
    yield Sample(rng.permutation(17).astype(np.float32), k=5, tolerance=0, differentiable=True)
    yield Sample(np.array([1, nan, 3, -nan, 3, -1]), 4, tolerance=0)
    yield Sample(rng.integers(0, 5, (2, 3, 9), np.uint32), 9)
    yield Refused(np.ones(3, np.float32), 4, code="out-of-range", says=("'k' is 4, and there are 3 keys",))
    yield Refused(np.ones(3, np.float32), 0, code="out-of-range", says=("'k' is 0",))
    yield Refused(
        np.ones(3, np.float32), 1.5, code="type-mismatch", says=("'k' must be of type int, got 1.5",)
    )
    yield Refused(np.ones(3, np.int8), 2, code="type-mismatch", says=("float32, float64, int32", "int8"))
