"""The sort of the points of a hash grid by cell on CPUs, which also writes the starts of the cells.

Points are first distributed to buckets of adjacent cells, in order. Then the points of a bucket are counted by cell in
the bucket's part of the table of starts, which stays in the cache; running sums of the counts are the ends of the
cells, and the points of the bucket, from the last to the first, take the last free position of their cell."""

from __future__ import annotations

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.prepared import PreparedLaunch
from tegula.spatial.boxes import EIGHT
from tegula.spatial.digits import (
    MAX_CHUNKS,
    MIN_CHUNK,
    ROW_PADDING,
    chunk_range,
    running_sums,
    take_position,
    write_first_positions,
)
from tegula.spatial.memory import SPARE_BYTES, MemoryBlock
from tegula.stdlib.geometry.layout import WIDTH

BUCKET_BITS = 11
"""The maximum number of bits of the number of a bucket, so that the counts of all buckets fit the first-level cache."""
MIN_SHIFT = 3
"""The minimum number of bits of the number of cells of a bucket, which is a multiple of the width of vectors."""
TASKS = 128
"""The maximum number of threads that sort buckets."""


@tg.kernel
def count_buckets(cells: tg.array1d[tg.uint32], shift: int, counts: tg.array2d[int]):
    """Count the points of a thread's part in each bucket."""
    c = tg.tid()
    begin, end = chunk_range(cells.shape[0], c, counts.shape[0])
    row = counts[c]
    for bucket in range(row.shape[0]):
        row[bucket] = 0
    for i in range(begin, end):
        bucket = tg.int32(cells[i] >> tg.uint32(shift))
        row[bucket] = row[bucket] + 1


@tg.kernel
def fill_buckets(
    cells: tg.array1d[tg.uint32],
    shift: int,
    counts: tg.array2d[EIGHT],
    positions: tg.array2d[int],
    first_positions: tg.array2d[EIGHT],
    begins: tg.array1d[EIGHT],
    points: tg.array1d[tg.uint64],
):
    """Write the cells and the indices of a thread's part of the points to their buckets, and the starts of the buckets.
    `positions`: a row of scratch memory for each thread; `first_positions`: the same memory, in vectors."""
    c = tg.tid()
    begin, end = chunk_range(cells.shape[0], c, counts.shape[0])
    write_first_positions(counts, first_positions, begins, c)
    row = positions[c]
    for i in range(begin, end):
        cell = cells[i]
        bucket = tg.int32(cell >> tg.uint32(shift))
        position = take_position(row, bucket)
        points[position] = (tg.uint64(cell) << tg.uint64(32)) | tg.uint64(i)


@tg.kernel
def sort_buckets(
    points: tg.array1d[tg.uint64],
    begins: tg.array1d[int],
    buckets: int,
    shift: int,
    threads: int,
    starts: tg.array1d[int],
    vectors: tg.array1d[EIGHT],
    ids: tg.array1d[int],
):
    """Write the indices of the points of a thread's buckets in the order of their cells, and the starts of these cells.
    `vectors`: the memory of `starts`, in vectors."""
    cells = starts.shape[0] - 1
    first_bucket, last_bucket = chunk_range(buckets, tg.tid(), threads)
    for bucket in range(first_bucket, last_bucket):
        first, last = begins[bucket], points.shape[0]
        if bucket < buckets - 1:
            last = begins[bucket + 1]
        cell = bucket << shift
        end = cell + tg.min(1 << shift, cells - cell)
        full = end - (end - cell) % WIDTH
        for k in range(cell // WIDTH, full // WIDTH):
            vectors[k] = EIGHT(0)
        for k in range(full, end):
            starts[k] = 0
        for i in range(first, last):
            at = tg.int32(points[i] >> tg.uint64(32))
            starts[at] = starts[at] + 1
        before = EIGHT(first)
        for k in range(cell // WIDTH, full // WIDTH):
            sums = running_sums(vectors[k])
            vectors[k] = before + sums
            before = before + EIGHT(sums[WIDTH - 1])
        position = before[0]
        for k in range(full, end):
            position += starts[k]
            starts[k] = position
        for step in range(first, last):
            point = points[last - 1 - (step - first)]
            at = tg.int32(point >> tg.uint64(32))
            position = starts[at] - 1
            starts[at] = position
            ids[position] = tg.int32(point & tg.uint64(0xFFFFFFFF))
    if tg.tid() == threads - 1:
        starts[cells] = points.shape[0]


class CellSort:
    """The sort of at most `capacity` points by cell, with its memory.

    Parameters:
        capacity: the maximum number of points.
        starts: the table of the starts of cells, with one more entry than there are cells.
    """

    def __init__(self, capacity: int, starts: array) -> None:
        self.capacity, self.starts = capacity, starts
        cells = starts.size - 1
        bits = max(cells - 1, 1).bit_length()
        self.shift = max(bits - min(BUCKET_BITS, (bits + 1) // 2), MIN_SHIFT)
        self.buckets = -(-cells >> self.shift)
        self._vectors_per_row = -(-self.buckets // WIDTH) + ROW_PADDING
        row = 4 * WIDTH * self._vectors_per_row
        memory = MemoryBlock(16 * capacity + (2 * MAX_CHUNKS + 1) * row + SPARE_BYTES)
        self.cells = memory.empty(capacity, tg.uint32)
        """The cells of the points to sort."""
        self.points = memory.empty(capacity, tg.uint64)
        self.ids = memory.empty(capacity, tg.int32)
        """The sorted indices of the points."""
        self._tables = [memory.empty((MAX_CHUNKS, row // 4), tg.int32) for _ in range(2)]
        self._begins = memory.empty(row // 4, tg.int32)
        self._vectors = array(ptr=starts.ptr, dtype=EIGHT, shape=starts.size // WIDTH, device="cpu")
        self._count, self._launches = -1, []

    def sort(self, count: int) -> None:
        """Sort the first `count` points, whose cells are in `cells`."""
        if count != self._count:
            self._prepare(count)
        for prepared in self._launches:
            prepared.run()

    def _prepare(self, count: int) -> None:
        """Prepare the launches for a number of points."""
        chunks, threads = max(1, min(MAX_CHUNKS, count // MIN_CHUNK)), min(TASKS, self.buckets)
        cells, points = self.cells[:count], self.points[:count]
        counts, positions = (table[:chunks] for table in self._tables)
        shape = (chunks, self._vectors_per_row)
        rows, first_positions = (
            array(ptr=a.ptr, dtype=EIGHT, shape=shape, device="cpu") for a in (counts, positions)
        )
        begins = array(ptr=self._begins.ptr, dtype=EIGHT, shape=self._vectors_per_row, device="cpu")
        fill_arguments = [cells, self.shift, rows, positions, first_positions, begins, points]
        sort_arguments = [points, self._begins, self.buckets, self.shift, threads]
        self._launches = [
            PreparedLaunch(count_buckets, chunks, [cells, self.shift, counts]),
            PreparedLaunch(fill_buckets, chunks, fill_arguments),
            PreparedLaunch(sort_buckets, threads, [*sort_arguments, self.starts, self._vectors, self.ids]),
        ]
        self._count = count
