"""The order of long rows of keys in blocks of one thread, by counting digits."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort_network import Bits
from tegula.types import int32, uint32, uint64

M, N = Extent("M"), Extent("N")
WIDTHS = (8, 11)
"""The numbers of bits that a digit may have. The counters of wider digits leave the nearest cache."""


def bits_of_digit(n: int, key_bits: int) -> int:
    """The number of bits of a digit for which a sort of n keys moves keys and sums counters the least often."""

    def operations(width: int) -> int:
        passes = -(-key_bits // width)
        return passes * n + (-(-passes // digits_of_counter(n, passes)) << width)

    return min(WIDTHS, key=operations)


def digits_of_counter(n: int, passes: int) -> int:
    """The number of digits whose counters, up to n, are the fields of one integer of 64 bits."""
    return min(passes, 64 // n.bit_length())


@cooperative
def _tile_sort_by_counts(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort each row, in a group of one thread: a radix sort from the lowest digit to the highest. One
    loop counts the digits of all passes, and each pass moves keys and indices to the positions of their digits. The
    counters of several digits are fields of one integer, so that one loop sums them."""


@_tile_sort_by_counts.program(when=lambda Bits: Bits == uint32)
def move_pairs(bits):
    """A key of 32 bits and its index move as one integer. The first pass reads keys alone, the last writes indices."""
    rows, n = bits.shape
    width = tg.static(bits_of_digit(n, 32))
    passes, values = tg.static(-(-32 // width)), tg.static(1 << width)
    fields = tg.static(digits_of_counter(n, passes))
    words, field_bits = tg.static(-(-passes // fields)), tg.static(64 // fields)
    mask, field_mask = tg.static(values - 1), tg.static((1 << field_bits) - 1)
    order = tg.tile_empty(shape=(rows, n), dtype=int, storage="shared")
    keys = tg.tile_empty(shape=n, dtype=uint32, storage="shared")
    # The pairs of a row before and after a pass.
    pairs = tg.tile_empty(shape=(2, n), dtype=uint64, storage="shared")
    positions = tg.tile_empty(shape=(words, values), dtype=uint64, storage="shared")
    for row in range(rows):
        tg.tile_assign(keys, tg.tile_reshape(bits[row : row + 1, :], (n,)), 0)
        tg.tile_assign(positions, tg.tile_zeros(shape=(words, values), dtype=uint64), (0, 0))
        for e in range(n):
            for p in tg.static(range(passes)):
                digit = int((keys[e] >> uint32(p * width)) & uint32(mask))
                positions[tg.static(p // fields), digit] += uint64(tg.static(1 << p % fields * field_bits))
        for w in range(words):
            preceding = uint64(0)
            for d in range(values):
                count = positions[w, d]
                positions[w, d] = preceding
                preceding += count
        for p in tg.static(range(passes)):
            word, shift = tg.static(p // fields), tg.static(p % fields * field_bits)
            for e in range(n):
                if tg.static(p == 0):
                    pair = uint64(keys[e]) << uint64(32) | uint64(e)
                else:
                    pair = pairs[p & 1, e]
                digit = int((pair >> uint64(tg.static(32 + p * width))) & uint64(mask))
                count = positions[word, digit]
                positions[word, digit] = count + uint64(tg.static(1 << shift))
                position = int((count >> uint64(shift)) & uint64(field_mask))
                if tg.static(p == passes - 1):
                    order[row, position] = int(pair & uint64(0xFFFFFFFF))
                else:
                    pairs[1 - (p & 1), position] = pair
    return order


@_tile_sort_by_counts.program
def move_keys_and_indices(bits):
    """A key of 64 bits and its index move separately."""
    rows, n = bits.shape
    width = tg.static(bits_of_digit(n, 64))
    passes, values = tg.static(-(-64 // width)), tg.static(1 << width)
    fields = tg.static(digits_of_counter(n, passes))
    words, field_bits = tg.static(-(-passes // fields)), tg.static(64 // fields)
    mask, field_mask = tg.static(values - 1), tg.static((1 << field_bits) - 1)
    order = tg.tile_empty(shape=(rows, n), dtype=int, storage="shared")
    # The keys and indices of a row before and after a pass.
    keys = tg.tile_empty(shape=(2, n), dtype=uint64, storage="shared")
    indices = tg.tile_empty(shape=(2, n), dtype=int, storage="shared")
    positions = tg.tile_empty(shape=(words, values), dtype=uint64, storage="shared")
    for row in range(rows):
        tg.tile_assign(keys, bits[row : row + 1, :], (0, 0))
        tg.tile_assign(positions, tg.tile_zeros(shape=(words, values), dtype=uint64), (0, 0))
        for e in range(n):
            for p in tg.static(range(passes)):
                digit = int((keys[0, e] >> uint64(p * width)) & uint64(mask))
                positions[tg.static(p // fields), digit] += uint64(tg.static(1 << p % fields * field_bits))
        for w in range(words):
            preceding = uint64(0)
            for d in range(values):
                count = positions[w, d]
                positions[w, d] = preceding
                preceding += count
        for p in tg.static(range(passes)):
            word, shift = tg.static(p // fields), tg.static(p % fields * field_bits)
            for e in range(n):
                key = keys[p & 1, e]
                index = e if tg.static(p == 0) else indices[p & 1, e]
                digit = int((key >> uint64(tg.static(p * width))) & uint64(mask))
                count = positions[word, digit]
                positions[word, digit] = count + uint64(tg.static(1 << shift))
                position = int((count >> uint64(shift)) & uint64(field_mask))
                if tg.static(p == passes - 1):
                    order[row, position] = index
                else:
                    keys[1 - (p & 1), position], indices[1 - (p & 1), position] = key, index
    return order
