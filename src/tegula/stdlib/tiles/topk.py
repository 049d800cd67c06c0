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
from tegula.stdlib.tiles.sort_network import Bits, threads_of_sort
from tegula.types import int32, uint32

N, K = Extent("N"), Extent("k", value=lambda N, k: check_k(k, N))


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
        for small k a bisection of the values for the k-th key; else Batcher, "Sorting networks and their applications"
        (1968): the bitonic network; on GPUs a network for each digit of the keys, from the lowest digit.
    """
    ...


MAX_SELECTED = 32
"""The maximum number of keys that are selected before the sort."""


@tile_topk.program(when=lambda N, k: type(k) is int and 1 <= k <= min(MAX_SELECTED, N // 4))
def select_and_sort(keys, k):
    indices = tg._tile_select_largest(tg._tile_sort_bits(keys), k)
    return keys[indices], indices


@tile_topk.program
def sort_all(keys, k):
    n = keys.shape[0]
    count = tg.static(check_k(k, n))
    sorted_keys, indices = tg._tile_sort_with_indices(keys, descending=True)
    return sorted_keys[:count], indices[:count]


@cooperative
def _tile_select_largest(bits: Tile[Bits, N], k: constexpr[int]) -> Tile[int32, K]:
    """The indices of the k largest integers in descending order; the lowest indices among equal integers. A bisection
    finds the largest value that at least k integers reach. If more than k integers reach the value, a second bisection
    finds the indices of the integers that are equal to it."""
    n, lane, present = bits.shape[0], tg.group_lane(), tg.group_present()
    one, threads = type(bits[0])(1), tg.group_size()
    low, high, reached = type(bits[0])(0), tg.tile_max(bits)[0], n
    if tg.static(n % MAX_SELECTED == 0):
        # Each of the parts has an integer that is not below the minimum of the parts' maxima.
        low = tg.tile_min(tg.tile_max(tg.tile_reshape(bits, (n // MAX_SELECTED, MAX_SELECTED)), axis=0))[0]
        reached = tg.tile_sum(tg.tile_astype(bits >= low, int))[0]
    while low < high and reached != k:
        middle = high - (high - low) // type(one)(2)
        middle_count = tg.tile_sum(tg.tile_astype(bits >= middle, int))[0]
        if middle_count >= k:
            low, reached = middle, middle_count
        else:
            high = middle - one
    end = n
    if reached > k:
        index, above = tg.tile_arange(n, dtype=int), tg.tile_sum(tg.tile_astype(bits > low, int))[0]
        begin = 0
        while begin < end:
            middle_index = (begin + end) // 2
            equal = tg.tile_sum(tg.tile_astype((bits == low) & (index < middle_index), int))[0]
            if above + equal >= k:
                end = middle_index
            else:
                begin = middle_index + 1
    count = 0
    for e in range(lane, n, present):
        if bits[e] > low or (bits[e] == low and e < end):
            count += 1
    position = tg._tile_exclusive_prefix("sum", False, threads, 0, count)
    # Each element gets one index. Additions, unlike assignments, need no proof that the elements are distinct.
    selected = tg.tile_zeros(shape=k, dtype=uint32, storage="shared")
    for e in range(lane, n, present):
        if bits[e] > low or (bits[e] == low and e < end):
            selected[position] += uint32(e)
            position += 1
    by_index = tg.tile_reshape(selected[tg._tile_sort_row(selected)], (k,))
    return tg.tile_astype(by_index[tg._tile_sort_row(~bits[tg.tile_astype(by_index, int)])], int)


@cooperative
def _tile_sort_row(bits: Tile[Bits, N]) -> Tile[int32, N]:
    """The indices that sort integers."""
    n = bits.shape[0]
    return tg.tile_reshape(tg._tile_sort_indices(tg.tile_reshape(bits, (1, n))), (n,))


@cooperative
def _tile_sort_with_indices(
    keys: Tile[Key, ..., N], descending: constexpr[bool] = False
) -> tuple[Tile[Key, ..., N], Tile[int32, ..., N]]:
    """The sorted keys along the last dimension, and their indices."""
    indices = tg.tile_argsort(keys, descending=descending)
    return keys[indices], indices


@cooperative
def _tile_indices_that_sort(
    keys: Tile[Key, ..., N], descending: constexpr[bool] = False
) -> Tile[int32, ..., N]:
    """The indices that sort keys along the last dimension."""
    return tg.tile_argsort(keys, descending=descending)


_tile_sort_with_indices.threads(threads_of_sort)
_tile_indices_that_sort.threads(threads_of_sort)


def check_k(k: int, n: int) -> int:
    """The number k; OutOfRange unless k is between 1 and the number of keys."""
    if not 1 <= k <= n:
        raise OutOfRange(
            None, what=f"'k' is {k}, but there are {n} keys", help="pass k from 1 to the number of keys"
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
    yield Sample(rng.permutation(40).astype(np.float32), 3, tolerance=0, differentiable=True)
    yield Sample(rng.choice(np.array([0.0, -0.0, nan, 2, -np.inf], np.float32), 96), 20, tolerance=0)
    yield Sample(np.zeros(37, np.uint64), 9)
    yield Sample(rng.integers(-3, 3, (2, 64)), 16)
    yield Sample(rng.integers(0, 5, (2, 3, 9), np.uint32), 9)
    yield Refused(np.ones(3, np.float32), 4, code="out-of-range", says=("'k' is 4, but there are 3 keys",))
    yield Refused(np.ones(3, np.float32), 0, code="out-of-range", says=("'k' is 0",))
    yield Refused(
        np.ones(3, np.float32), 1.5, code="type-mismatch", says=("'k' must be of type int, got 1.5",)
    )
    yield Refused(np.ones(3, np.int8), 2, code="type-mismatch", says=("float32, float64, int32", "int8"))
