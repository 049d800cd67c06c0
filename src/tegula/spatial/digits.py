"""The parts of radix sorts on CPUs: threads count the digits of their elements, and compute from the counts of all
threads where the first of their elements with each digit belongs. The sort of keys by digits."""

from __future__ import annotations

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.prepared import PreparedLaunch
from tegula.spatial.boxes import EIGHT
from tegula.spatial.memory import MemoryBlock
from tegula.stdlib.geometry.layout import WIDTH

DIGIT_BITS = 10
"""The number of bits of a digit of a key."""
DIGITS, DIGIT_MASK = 1 << DIGIT_BITS, (1 << DIGIT_BITS) - 1
MIN_CHUNK, MAX_CHUNKS = 2048, 16
"""The minimum number of elements that a thread distributes, and the maximum number of these threads."""
ROW_PADDING = 2
"""The number of vectors by which rows of counts are longer than needed, so that they do not begin in the same sets of
the cache."""


@tg.func
def chunk_range(count: int, thread: int, threads: int):
    """The range of items that a thread processes, end exclusive."""
    length = (count + threads - 1) // threads
    return tg.min(thread * length, count), tg.min((thread + 1) * length, count)


@tg.func
def running_sums(x: EIGHT):
    """The sum of the components up to each component."""
    a = x + EIGHT(0, x[0], x[1], x[2], x[3], x[4], x[5], x[6])
    b = a + EIGHT(0, 0, a[0], a[1], a[2], a[3], a[4], a[5])
    return b + EIGHT(0, 0, 0, 0, b[0], b[1], b[2], b[3])


@tg.func
def write_first_positions(
    counts: tg.array2d[EIGHT], first_positions: tg.array2d[EIGHT], begins: tg.array1d[EIGHT], c: int
):
    """Write the position of the first element with each digit of thread `c`: elements are ordered by digits, then by
    threads. `begins`: the first positions of all threads, or None."""
    position = EIGHT(0)
    for k in range(first_positions.shape[1]):
        # The counts of the threads before this one, and of all threads.
        before = EIGHT(0)
        for other in range(c):
            before = before + counts[other, k]
        total = before
        for other in range(c, counts.shape[0]):
            total = total + counts[other, k]
        sums = running_sums(total)
        ends = position + sums
        first_positions[c, k] = ends - total + before
        if begins is not None and c == 0:
            begins[k] = ends - total
        position = position + EIGHT(sums[WIDTH - 1])


@tg.func
def take_position(positions: tg.array1d[int], digit: int):
    """The position of the next element with a digit."""
    position = positions[digit]
    positions[digit] = position + 1
    return position


@tg.kernel
def pair_keys(
    keys: tg.array1d[tg.uint32],
    counts: tg.array2d[EIGHT],
    positions: tg.array2d[int],
    first_positions: tg.array2d[EIGHT],
    pairs: tg.array1d[tg.uint64],
):
    """Write pairs of the keys and the indices of a thread's elements in the order of the lowest digits of the keys."""
    c = tg.tid()
    begin, end = chunk_range(keys.shape[0], c, counts.shape[0])
    write_first_positions(counts, first_positions, None, c)
    row = positions[c]
    for i in range(begin, end):
        key = keys[i]
        digit = tg.int32(key) & DIGIT_MASK
        position = take_position(row, digit)
        pairs[position] = (tg.uint64(key) << tg.uint64(32)) | tg.uint64(i)


@tg.kernel
def count_digits(pairs: tg.array1d[tg.uint64], shift: int, counts: tg.array2d[int]):
    """Count the digits of the keys of a thread's pairs. `shift`: the lowest bit of the digit in a pair."""
    c = tg.tid()
    begin, end = chunk_range(pairs.shape[0], c, counts.shape[0])
    row = counts[c]
    for digit in range(row.shape[0]):
        row[digit] = 0
    for i in range(begin, end):
        digit = tg.int32(pairs[i] >> tg.uint64(shift)) & DIGIT_MASK
        row[digit] = row[digit] + 1


@tg.kernel
def move_pairs(
    pairs: tg.array1d[tg.uint64],
    shift: int,
    counts: tg.array2d[EIGHT],
    positions: tg.array2d[int],
    first_positions: tg.array2d[EIGHT],
    ordered: tg.array1d[tg.uint64],
):
    """Write a thread's pairs in the order of a digit."""
    c = tg.tid()
    begin, end = chunk_range(pairs.shape[0], c, counts.shape[0])
    write_first_positions(counts, first_positions, None, c)
    row = positions[c]
    for i in range(begin, end):
        pair = pairs[i]
        digit = tg.int32(pair >> tg.uint64(shift)) & DIGIT_MASK
        position = take_position(row, digit)
        ordered[position] = pair


@tg.kernel
def split_pairs(
    pairs: tg.array1d[tg.uint64],
    shift: int,
    counts: tg.array2d[EIGHT],
    positions: tg.array2d[int],
    first_positions: tg.array2d[EIGHT],
    keys: tg.array1d[tg.uint32],
    ids: tg.array1d[int],
):
    """Write the keys and the indices of a thread's pairs in the order of the highest digit."""
    c = tg.tid()
    begin, end = chunk_range(pairs.shape[0], c, counts.shape[0])
    write_first_positions(counts, first_positions, None, c)
    row = positions[c]
    for i in range(begin, end):
        pair = pairs[i]
        digit = tg.int32(pair >> tg.uint64(shift)) & DIGIT_MASK
        position = take_position(row, digit)
        keys[position], ids[position] = (
            tg.uint32(pair >> tg.uint64(32)),
            tg.int32(pair & tg.uint64(0xFFFFFFFF)),
        )


class DigitSort:
    """A stable sort of keys, and of their indices.

    Parameters:
        keys: an array of uint32, which the sort overwrites.
        bits: the number of bits of keys, more than a digit.
        spare: the number of unused elements after the sorted indices.
        memory: the block from which the memory of the sort is taken.
    """

    def __init__(self, keys: array, bits: int, spare: int, memory: MemoryBlock) -> None:
        count = len(keys)
        self.chunks = max(1, min(MAX_CHUNKS, count // MIN_CHUNK))
        """The number of threads that write keys, and count their lowest digits to `counts`."""
        row = DIGITS // WIDTH + ROW_PADDING
        self.counts, positions = (memory.empty((self.chunks, row * WIDTH), tg.int32) for _ in range(2))
        vectors, first_positions = (
            array(ptr=a.ptr, dtype=EIGHT, shape=(self.chunks, row), device="cpu")
            for a in (self.counts, positions)
        )
        source, target = (memory.empty(count, tg.uint64) for _ in range(2))
        self.ids = memory.empty(count + spare, tg.int32)[:count]
        """The indices of the sorted keys."""
        tables = [vectors, positions, first_positions]
        self.launches = [PreparedLaunch(pair_keys, self.chunks, [keys, *tables, source])]
        for low in range(DIGIT_BITS, bits, DIGIT_BITS):
            shift = 32 + low
            self.launches.append(PreparedLaunch(count_digits, self.chunks, [source, shift, self.counts]))
            args = [source, shift, *tables]
            if low + DIGIT_BITS < bits:
                self.launches.append(PreparedLaunch(move_pairs, self.chunks, [*args, target]))
            else:
                self.launches.append(PreparedLaunch(split_pairs, self.chunks, [*args, keys, self.ids]))
            source, target = target, source
