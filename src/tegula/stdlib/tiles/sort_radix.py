"""The order of long rows of keys in blocks of one thread, by counting digits."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort_network import Bits
from tegula.types import int32, uint32, uint64

M, N = Extent("M"), Extent("N")
DIGIT = 8
"""The number of bits of a digit of 64-bit keys. Wider digits need more counters than a row of a few hundred keys has
elements."""
DIGITS = (8, 11)
"""The numbers of bits that a digit of 32-bit keys may have. The counters of wider digits leave the nearest cache."""
COUNTERS_OF_KEY = 2.5
"""The number of counters that are summed in the time in which a pass moves a key."""


def bits_of_digit(n: int) -> int:
    """The number of bits of a digit for which a sort of n keys of 32 bits takes the least time."""
    return min(DIGITS, key=lambda width: -(-32 // width) * (COUNTERS_OF_KEY * n + (1 << width)))


@cooperative
def _tile_sort_by_counts(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort each row, in a group of one thread: a radix sort from the lowest digit to the highest. One
    loop counts the digits of all passes, and each pass moves keys and indices to the positions of their digits."""


@_tile_sort_by_counts.program(when=lambda Bits: Bits == uint32)
def move_pairs(bits):
    """A key of 32 bits and its index move as one integer. The first pass reads keys alone, the last writes indices."""
    rows, n = bits.shape
    width = tg.static(bits_of_digit(n))
    passes, values = tg.static(-(-32 // width)), tg.static(1 << width)
    mask, last = tg.static(values - 1), tg.static(passes - 1)
    order = tg.tile_empty(shape=(rows, n), dtype=int, storage="shared")
    keys = tg.tile_empty(shape=n, dtype=uint32, storage="shared")
    # The pairs of a row before and after a pass.
    pairs = tg.tile_empty(shape=(2, n), dtype=uint64, storage="shared")
    positions = tg.tile_empty(shape=(passes, values), dtype=int, storage="shared")
    for row in range(rows):
        tg.tile_assign(keys, tg.tile_reshape(bits[row : row + 1, :], (n,)), 0)
        tg.tile_assign(positions, tg.tile_zeros(shape=(passes, values), dtype=int), (0, 0))
        for e in range(n):
            for p in tg.static(range(passes)):
                positions[p, int((keys[e] >> uint32(p * width)) & uint32(mask))] += 1
        preceding = tg.vector(0, length=passes)
        for d in range(values):
            for p in tg.static(range(passes)):
                count = positions[p, d]
                positions[p, d] = preceding[p]
                preceding[p] += count
        for e in range(n):
            digit = int(keys[e] & uint32(mask))
            position = positions[0, digit]
            positions[0, digit] = position + 1
            pairs[1, position] = uint64(keys[e]) << uint64(32) | uint64(e)
        for p in range(1, last):
            source, target = p & 1, 1 - (p & 1)
            for e in range(n):
                pair = pairs[source, e]
                digit = int((pair >> uint64(32 + p * width)) & uint64(mask))
                position = positions[p, digit]
                positions[p, digit] = position + 1
                pairs[target, position] = pair
        for e in range(n):
            pair = pairs[tg.static(last & 1), e]
            digit = int(pair >> uint64(tg.static(32 + last * width)))
            position = positions[last, digit]
            positions[last, digit] = position + 1
            order[row, position] = int(pair & uint64(0xFFFFFFFF))
    return order


@_tile_sort_by_counts.program
def move_keys_and_indices(bits):
    """A key of 64 bits and its index move separately."""
    rows, n = bits.shape
    passes, values = tg.static(64 // DIGIT), tg.static(1 << DIGIT)
    mask = uint64(values - 1)
    order = tg.tile_empty(shape=(rows, n), dtype=int, storage="shared")
    # The keys and indices of a row before and after a pass.
    keys = tg.tile_empty(shape=(2, n), dtype=uint64, storage="shared")
    indices = tg.tile_empty(shape=(2, n), dtype=int, storage="shared")
    positions = tg.tile_empty(shape=(passes, values), dtype=int, storage="shared")
    for row in range(rows):
        tg.tile_assign(positions, tg.tile_zeros(shape=(passes, values), dtype=int), (0, 0))
        tg.tile_assign(keys, bits[row : row + 1, :], (0, 0))
        tg.tile_assign(indices, tg.tile_reshape(tg.tile_arange(n, dtype=int), (1, n)), (0, 0))
        for e in range(n):
            for p in tg.static(range(passes)):
                positions[p, int((keys[0, e] >> uint64(p * DIGIT)) & mask)] += 1
        for p in range(passes):
            preceding = 0
            for d in range(values):
                count = positions[p, d]
                positions[p, d] = preceding
                preceding += count
        for p in range(passes):
            source, target = p & 1, 1 - (p & 1)
            for e in range(n):
                key = keys[source, e]
                digit = int((key >> uint64(p * DIGIT)) & mask)
                position = positions[p, digit]
                positions[p, digit] = position + 1
                keys[target, position], indices[target, position] = key, indices[source, e]
        # The number of passes is even, so that the result is in row 0.
        tg.tile_assign(order, indices[0:1], (row, 0))
    return order
