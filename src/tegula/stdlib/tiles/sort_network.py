"""The order of keys by sorting networks: in the registers of lanes, and by exchanges through shared memory."""

from __future__ import annotations

import numpy as np

from tegula.declaration import cooperative, part
from tegula.signature import Dtypes, Extent, Tile
from tegula.stdlib.registry import tg
from tegula.types import int32, uint16, uint32, uint64

M, N = Extent("M"), Extent("N")
Bits = Dtypes("Bits", uint32, uint64)
WARP = 32
MAX_LANE_ELEMENTS = 64
"""The maximum number of elements that a lane holds in registers."""
MIN_COUNTED_ELEMENTS = 192
"""The minimum number of elements for which one thread counts digits instead of running a network in SIMD registers."""
DIGIT, MASK = 16, 0xFFFF
"""The number of bits of a digit, which is the upper half of a 32-bit integer, and the mask of the lower half, which
holds a position."""


def lanes_of_network(group: int) -> int:
    """The number of lanes of a group that hold elements: the largest power of two."""
    return 1 << (group.bit_length() - 1)


def elements_of_lane(n: int, lanes: int) -> int:
    """The number of elements of a row that each lane holds: the smallest sufficient power of two."""
    return 1 << max(0, (n - 1).bit_length() - (lanes - 1).bit_length())


def fits_in_registers(n: int, group: int) -> bool:
    """Whether the registers of a group of whole warps hold a row of more elements than lanes."""
    return group % WARP == 0 and 1 < elements_of_lane(n, lanes_of_network(group)) <= MAX_LANE_ELEMENTS


def bit_reversal(n: int) -> np.ndarray:
    """The numbers below a power of two with their bits in reverse order."""
    width = (n - 1).bit_length()
    return np.array([int(f"{k:0{width}b}"[::-1], 2) for k in range(n)])


@cooperative
def _tile_sort_indices(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """For each element of the sorted rows of a matrix, its index in the unsorted row."""


@_tile_sort_indices.program(when=lambda M, N, group: M == 1 and fits_in_registers(N, group))
def sort_row_in_registers(bits):
    if tg._on_gpu():
        if tg.group_present() == tg.group_size():
            return tg._tile_sort_digits(bits)
        else:
            return tg._tile_sort_by_gathers(bits)
    else:
        return tg._tile_sort_by_gathers(bits)


@_tile_sort_indices.program(when=lambda N, group: group == 1 and N >= MIN_COUNTED_ELEMENTS)
def sort_rows_by_counts(bits):
    return tg._tile_sort_by_counts(bits)


@_tile_sort_indices.program
def sort_rows_by_gathers(bits):
    return tg._tile_sort_by_gathers(bits)


# In registers --------------------------------------------------------------------------------------------------------


@cooperative
def _tile_sort_digits(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort one row, by a pass for each digit of the keys, from the lowest. A pass sorts 32-bit
    integers by minima and maxima: the upper half is the digit, and the lower half is the element's position after the
    earlier passes, so that the integers are distinct and the sort is stable."""
    n, group, lane = bits.shape[1], tg.group_size(), tg.group_lane()
    lanes = tg.static(lanes_of_network(group))
    per_lane = tg.static(elements_of_lane(n, lanes))
    digits = tg.static((32 if bits.dtype == uint32 else 64) // DIGIT)
    # The two additional columns avoid bank conflicts of lanes that access a column of shared memory.
    order = tg.tile_empty(shape=(lanes, per_lane + 2), dtype=uint16, storage="shared")
    for d in range(digits):
        x = tg.vector(uint32(0), length=per_lane)
        if lane < lanes:
            if d == 0:
                for k in tg.unrolled(per_lane):
                    x[k] = uint32(k * lanes + lane)
            else:
                for k in tg.unrolled(per_lane):
                    position = uint32(k * lanes + lane)
                    x[k] = uint32(order[position // uint32(per_lane), position % uint32(per_lane)])
            for k in tg.unrolled(per_lane):
                digit = uint32(MASK)
                if n == lanes * per_lane or x[k] < uint32(n):
                    digit = uint32(bits[0, x[k]] >> type(bits[0, 0])(d * DIGIT)) & uint32(MASK)
                x[k] = digit << uint32(DIGIT) | uint32(k * lanes + lane)
        x = tg._tile_sort_lanes(x, lanes)
        for k in tg.unrolled(per_lane):
            x[k] = x[k] & uint32(MASK)
        if d > 0 and lane < lanes:
            for k in tg.unrolled(per_lane):
                x[k] = uint32(order[x[k] // uint32(per_lane), x[k] % uint32(per_lane)])
        if lane < lanes:
            for k in tg.unrolled(per_lane):
                order[lane, tg.table(tg.static(bit_reversal(per_lane)))[k]] = uint16(x[k])
    rows = tg.static(-(-n // group))
    indices = tg.vector(0, length=rows)
    for k in tg.unrolled(rows):
        position = uint32(tg.min(k * group + lane, n - 1))
        indices[k] = int(order[position // uint32(per_lane), position % uint32(per_lane)])
    return tg.tile_reshape(tg.tile_from_local(indices, (group,), (n,)), (1, n))


@part
def _tile_sort_lanes(x, lanes):
    """Sorts the integers of all lanes by a bitonic network. Lane l gets the sorted elements from l * n on; component k
    of its vector is the element whose index is k with the bits in reverse order. In this order a step compares
    neighbouring components, and its results, minima first, are in order for the next step. The first step of each merge
    compares an element with its mirror image, so that all parts ascend."""
    n = tg.static(x.shape[0])
    for k in tg.static(range(1, n.bit_length())):
        parts = tg.matrix(x, shape=tg.static((1 << k, n >> k)), dtype=uint32)
        for step in tg.static(range(k)):
            lower = parts[0::2, :]
            upper = parts[::-2, :] if tg.static(step == 0) else parts[1::2, :]
            parts = tg.matrix(
                tg.min(lower, upper), tg.max(lower, upper), shape=tg.static(parts.shape), dtype=uint32
            )
        x = tg.vector(parts, length=n)
    half = 1
    while half < lanes:
        stride = half // 2
        if tg.static(lanes == WARP):
            x = tg._tile_compare_lanes(x, x[::-1], 2 * half - 1, half, WARP)
        else:
            if half < WARP:
                x = tg._tile_compare_lanes(x, x[::-1], 2 * half - 1, half, WARP)
            else:
                x = tg._tile_compare_lanes(x, x[::-1], 2 * half - 1, half, lanes)
            while stride >= WARP:
                x = tg._tile_compare_lanes(x, x, stride, stride, lanes)
                stride = stride // 2
        while stride > 0:
            x = tg._tile_compare_lanes(x, x, stride, stride, WARP)
            stride = stride // 2
        for _ in tg.static(range(n.bit_length() - 1)):
            lower, upper = x[0::2], x[1::2]
            x = tg.vector(tg.min(lower, upper), tg.max(lower, upper))
        half = 2 * half
    return x


@part
def _tile_compare_lanes(x, sent, mask, half, width):
    """The minima of the components of this lane and of the components that its partner lane sent, if this lane's bit
    `half` is 0; else the maxima."""
    received = tg.lane_xor(sent, mask, width)
    return tg.where((tg.group_lane() & int(half)) == 0, tg.min(x, received), tg.max(x, received))


# Through shared memory -----------------------------------------------------------------------------------------------


@cooperative
def _tile_sort_by_gathers(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort each row, by a bitonic network whose steps are gathers."""


@_tile_sort_by_gathers.program(when=lambda Bits: Bits == uint32)
def sort_packed_pairs(bits):
    """For 32-bit keys: a bitonic network of 64-bit integers with the key in the upper and the index in the lower half.
    No two integers are equal, which makes the sort stable."""
    rows, n = bits.shape
    m = tg.static(1 << (n - 1).bit_length())
    pairs = tg.tile_full(shape=(rows, m), value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    indices = tg.tile_reshape(tg.tile_arange(n, dtype=uint64), (1, n))
    tg.tile_assign(pairs, (tg.tile_astype(bits, uint64) << uint64(32)) | indices, (0, 0))
    pairs = tg.tile_reshape(pairs, (rows * m,))
    lane = tg.tile_arange(rows * m, dtype=int)
    for k in range(tg.static((m - 1).bit_length())):
        # Every second part is sorted in descending order, except for the last merge, whose part is the whole row.
        descends = lane & (m - 1) & (2 << k)
        for step in range(k + 1):
            stride = 1 << (k - step)
            partner = pairs[lane ^ stride]
            takes_min = ((lane & stride) == 0) == (descends == 0)
            pairs = tg.where(takes_min, tg.min(pairs, partner), tg.max(pairs, partner))
    return tg.tile_astype(tg.tile_reshape(pairs, (rows, m))[:, :n] & uint64(0xFFFFFFFF), int)


@_tile_sort_by_gathers.program
def sort_keys_and_indices(bits):
    """For 64-bit keys: a bitonic network of keys and indices; equal keys, including those of the padding, are ordered
    by index."""
    rows, n = bits.shape
    m = tg.static(1 << (n - 1).bit_length())
    padded = tg.tile_full(shape=(rows, m), value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    tg.tile_assign(padded, bits, (0, 0))
    keys = tg.tile_reshape(padded, (rows * m,))
    lane = tg.tile_arange(rows * m, dtype=int)
    indices = lane & (m - 1)
    for k in range(tg.static((m - 1).bit_length())):
        descends = lane & (m - 1) & (2 << k)
        for step in range(k + 1):
            stride = 1 << (k - step)
            key, index = keys[lane ^ stride], indices[lane ^ stride]
            takes_min = ((lane & stride) == 0) == (descends == 0)
            is_before = (keys < key) | ((keys == key) & (indices < index))
            is_kept = is_before == takes_min
            keys, indices = tg.where(is_kept, keys, key), tg.where(is_kept, indices, index)
    return tg.tile_reshape(indices, (rows, m))[:, :n]
