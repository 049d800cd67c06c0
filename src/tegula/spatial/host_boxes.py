"""The boxes of a build on the CPU, as one array of vectors, and their order along the Morton curve."""

from __future__ import annotations

from typing import Any, NamedTuple

import tegula as tg
from tegula.algorithms.sorting import Chunks, sort_passes
from tegula.runtime.array import array
from tegula.runtime.device import CPU
from tegula.runtime.prepared import PreparedLaunch, RepeatedLaunch
from tegula.spatial.boxes import EIGHT, VEC8, centre, lang, make_box, union
from tegula.spatial.curve import spread_bits
from tegula.spatial.digits import DIGIT_MASK, DigitSort, chunk_range
from tegula.spatial.memory import MemoryBlock

THREADS = 64
"""The maximum number of threads that read all boxes."""
SHORT, SHORT_BITS, BITS = 1 << 20, 10, 21
"""The number of boxes up to which keys have 10 bits per coordinate, and the numbers of bits below and above it."""
SPARE = 8
"""The number of unused indices after the indices of all boxes, because vectors read eight indices."""
ROUNDING = float(1 << 23)
"""A float whose unit in the last place is 1."""


class HostBoxes(NamedTuple):
    """Boxes as vectors, with the bounds of the centres and of the negated centres of each thread's boxes."""

    boxes: array
    centre_bounds: array


@tg.kernel
def bound_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    threads: int,
    boxes: tg.array1d[VEC8],
    centre_bounds: tg.array1d[VEC8],
):
    """Write boxes as vectors, and the bounds of the centres of a thread's boxes."""
    t = tg.tid()
    begin, end = chunk_range(boxes.shape[0], t, threads)
    middle = VEC8(tg.inf)
    for i in range(begin, end):
        box = make_box(lower[i], upper[i])
        boxes[i] = box
        middle = union(centre(box), middle)
    centre_bounds[t] = middle


@tg.func
def cell_scale(centre_bounds: tg.array1d[VEC8], bits: int):
    """The lower bounds of the centres, and the number of cells per unit along each axis, in the first components."""
    middle = VEC8(tg.inf)
    for k in range(centre_bounds.shape[0]):
        middle = union(centre_bounds[k], middle)
    start, scale = VEC8(0.0), VEC8(0.0)
    for k in tg.static(range(3)):
        size = -middle[3 + k] - middle[k]
        start[k], scale[k] = middle[k], tg.where(size > 1e-30, float((1 << bits) - 1) / size, 0.0)
    return start, scale


@tg.func
def cell_of(box: VEC8, start: VEC8, scale: VEC8, bits: int):
    """The cell of the centre of a box in the first components, the last cell for an empty box."""
    last = VEC8(float((1 << bits) - 1))
    x = lang._smaller_of_each(tg.cw_mul(centre(box) - start, scale), last)
    # The lowest bits of such a sum are the rounded coordinate.
    return tg.bitcast(lang._larger_of_each(x, VEC8(0.0)) + VEC8(ROUNDING), int) & EIGHT((1 << bits) - 1)


@tg.kernel
def key_boxes(
    boxes: tg.array1d[VEC8],
    centre_bounds: tg.array1d[VEC8],
    keys: tg.array1d[tg.uint32],
    counts: tg.array2d[int],
):
    """Write the Morton keys of a thread's boxes, with SHORT_BITS bits per coordinate, and count their lowest digits."""
    start, scale = cell_scale(centre_bounds, SHORT_BITS)
    c = tg.tid()
    begin, end = chunk_range(boxes.shape[0], c, counts.shape[0])
    row = counts[c]
    for digit in range(row.shape[0]):
        row[digit] = 0
    for i in range(begin, end):
        x = cell_of(boxes[i], start, scale, SHORT_BITS)
        x = (x | (x << EIGHT(16))) & EIGHT(0x030000FF)
        x = (x | (x << EIGHT(8))) & EIGHT(0x0300F00F)
        x = (x | (x << EIGHT(4))) & EIGHT(0x030C30C3)
        x = (x | (x << EIGHT(2))) & EIGHT(0x09249249)
        key = x[0] | (x[1] << 1) | (x[2] << 2)
        keys[i] = tg.uint32(key)
        digit = key & DIGIT_MASK
        row[digit] = row[digit] + 1


@tg.kernel
def key_many_boxes(
    boxes: tg.array1d[VEC8],
    centre_bounds: tg.array1d[VEC8],
    threads: int,
    keys: tg.array1d[tg.uint64],
    ids: tg.array1d[int],
):
    """Write the Morton keys of a thread's boxes, with BITS bits per coordinate, and the indices of the boxes."""
    start, scale = cell_scale(centre_bounds, BITS)
    begin, end = chunk_range(boxes.shape[0], tg.tid(), threads)
    for i in range(begin, end):
        x = cell_of(boxes[i], start, scale, BITS)
        key = tg.uint64(0)
        for k in tg.static(range(3)):
            key = key | (spread_bits(tg.uint64(x[k])) << tg.uint64(k))
        keys[i], ids[i] = key, i


def measure(kernel: RepeatedLaunch, sources: list[Any], item_boxes: HostBoxes) -> None:
    """Write the boxes of items by a kernel. `sources`: its leading arguments."""
    kernel.run(len(item_boxes.centre_bounds), [*sources, len(item_boxes.centre_bounds), *item_boxes])


def new_boxes(count: int, memory: MemoryBlock) -> HostBoxes:
    """The boxes of `count` items, not initialised."""
    threads = max(1, min(THREADS, count // 256))
    return HostBoxes(memory.empty(count, VEC8), memory.empty(threads, VEC8))


class CurveSort:
    """The sort of boxes along the Morton curve.

    Parameters:
        item_boxes: the boxes, which may be written later.
        memory: the block from which the memory of the sort is taken.
    """

    def __init__(self, item_boxes: HostBoxes, memory: MemoryBlock) -> None:
        count, threads = len(item_boxes.boxes), len(item_boxes.centre_bounds)
        if count <= SHORT:
            keys = memory.empty(count, tg.uint32)
            sort = DigitSort(keys, 3 * SHORT_BITS, SPARE, memory)
            self._launches = [PreparedLaunch(key_boxes, sort.chunks, [*item_boxes, keys, sort.counts])]
            self._launches += sort.launches
            self.keys, self.ids = keys, sort.ids
            """The keys and the indices of the boxes in Morton order."""
        else:
            keys, ids = memory.empty(2 * count, tg.uint64), memory.empty(2 * count + SPARE, tg.int32)
            self._launches = [PreparedLaunch(key_many_boxes, threads, [*item_boxes, threads, keys, ids])]
            passes, (self.keys, self.ids) = sort_passes(keys, ids, count, 0, 3 * BITS, Chunks(count, CPU))
            self._launches += [PreparedLaunch(*a_pass) for a_pass in passes]

    def run(self) -> None:
        """Sort the boxes."""
        for prepared in self._launches:
            prepared.run()


def launch(kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = 1) -> None:
    """Launch a kernel on the CPU, by default one whose threads do not run in the lanes of vector registers."""
    tg.launch(kernel, dim=dim, inputs=inputs, device="cpu", record_tape=False, block_dim=block_dim)


def ints(*shape: int) -> array:
    """An array of int32 on the CPU, not initialised."""
    return tg.empty(shape, tg.int32, "cpu")
