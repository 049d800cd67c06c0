"""The order of long rows of keys in blocks of one thread, by counting digits."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort_network import Bits
from tegula.types import int32, uint32

M, N = Extent("M"), Extent("N")
DIGIT = 8
"""The number of bits of a digit. Wider digits need more counters than a row of a few hundred keys has elements."""


@cooperative
def _tile_sort_by_counts(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort each row, in a group of one thread: a radix sort from the lowest digit to the highest. One
    loop counts the digits of all passes, and each pass moves keys and indices to the positions of their digits."""
    rows, n = bits.shape
    bits_of_key, values = tg.static(32 if bits.dtype == uint32 else 64), tg.static(1 << DIGIT)
    passes = tg.static(bits_of_key // DIGIT)
    word, mask = type(bits[0, 0]), type(bits[0, 0])(values - 1)
    order = tg.tile_empty(shape=(rows, n), dtype=int, storage="shared")
    # The keys and indices of a row before and after a pass.
    keys = tg.tile_empty(shape=(2, n), dtype=word, storage="shared")
    indices = tg.tile_empty(shape=(2, n), dtype=int, storage="shared")
    positions = tg.tile_empty(shape=(passes, values), dtype=int, storage="shared")
    for row in range(rows):
        tg.tile_assign(positions, tg.tile_zeros(shape=(passes, values), dtype=int), (0, 0))
        tg.tile_assign(keys, bits[row : row + 1, :], (0, 0))
        tg.tile_assign(indices, tg.tile_reshape(tg.tile_arange(n, dtype=int), (1, n)), (0, 0))
        for e in range(n):
            for p in tg.static(range(passes)):
                positions[p, int((keys[0, e] >> word(p * DIGIT)) & mask)] += 1
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
                digit = int((key >> word(p * DIGIT)) & mask)
                position = positions[p, digit]
                positions[p, digit] = position + 1
                keys[target, position], indices[target, position] = key, indices[source, e]
        # The number of passes is even, so that the result is in row 0.
        tg.tile_assign(order, indices[0:1], (row, 0))
    return order
