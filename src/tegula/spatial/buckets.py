"""Items written in two passes on a GPU: to buckets of adjacent positions, in the order of their indices, and from the
buckets to their positions. Both passes have few memory regions open at a time, which fit the L2 cache, whereas one pass
from the order of indices to the order of the hierarchy accesses a random sector of the memory for each item."""

from __future__ import annotations

from typing import NamedTuple

import tegula as tg
from tegula.algorithms.sorting import sorted_halves
from tegula.runtime.array import array
from tegula.runtime.device import Device

BUCKET_BITS = 18
"""The binary logarithm of the number of items of a bucket."""
MIN_ITEMS = 1 << 21
"""The number of items below which the items fit the L2 cache."""
SAMPLES = 1 << 16
"""The number of pairs of adjacent indices whose positions are compared."""


class Buckets(NamedTuple):
    """The positions of items in buckets.

    `records`: the position of the record of each item, by the item's index; `sources`: the position of the record of
    each item, by the item's position in the hierarchy."""

    records: array
    sources: array


@tg.kernel
def begin_order(positions: tg.array1d[int], keys: tg.array1d[tg.uint32], ids: tg.array1d[int]):
    """Write the keys and the values to sort: the positions and the indices of items."""
    i = tg.tid()
    keys[i], ids[i] = tg.uint32(positions[i]), i


@tg.kernel
def write_order(
    keys: tg.array1d[tg.uint32], ids: tg.array1d[int], records: tg.array1d[int], sources: tg.array1d[int]
):
    """Write the positions of records, given the positions and the indices of items in the order of records."""
    k = tg.tid()
    records[ids[k]], sources[tg.int32(keys[k])] = k, k


@tg.kernel
def count_far_pairs(positions: tg.array1d[int], step: int, bits: int, count: tg.array1d[int]):
    """Count the sampled pairs of items with adjacent indices whose positions are in different buckets."""
    i = tg.tid() * step
    if positions[i] >> bits != positions[i + 1] >> bits:
        tg.atomic_add(count, 0, 1)


def find_buckets(positions: array, device: Device, bits: int = BUCKET_BITS) -> Buckets:
    """The buckets of items at given positions, which are a permutation.

    Parameters:
        positions: an array (N,) of int32.
        device: the device of the array.
        bits: the binary logarithm of the number of items of a bucket.
    Returns:
        the buckets.
    Raises:
        nothing.
    """
    count = len(positions)
    keys, ids = tg.empty(2 * count, tg.uint32, device), tg.empty(2 * count, tg.int32, device)
    tg.launch(begin_order, count, [positions, keys, ids], record_tape=False)
    keys, ids = sorted_halves(keys, ids, count, bits, max(bits + 1, (count - 1).bit_length()))
    result = Buckets(*(tg.empty(count, tg.int32, device) for _ in range(2)))
    tg.launch(write_order, count, [keys, ids, *result], record_tape=False)
    return result


def are_scattered(positions: array, device: Device, bits: int = BUCKET_BITS) -> bool:
    """Whether most items with adjacent indices are in different buckets. Waits for the device.

    Parameters:
        positions, device, bits: as for `find_buckets`.
    Returns:
        a bool.
    Raises:
        nothing.
    """
    samples = min(SAMPLES, len(positions) - 1)
    count = tg.zeros(1, tg.int32, device)
    step = (len(positions) - 1) // samples
    tg.launch(count_far_pairs, samples, [positions, step, bits, count], record_tape=False)
    return 2 * int(count.numpy()[0]) > samples
