"""Hierarchies with eight children per node over boxes in Morton order, built level by level without counts that the
host would have to read.

The key of a box is the Morton code of its centre, with 16 bits per coordinate. A range of keys is split at the change
of the highest bit that differs; a range of equal keys is split in the middle. A node repeatedly splits the range with
the highest such bit until there are eight ranges. Each level therefore consumes at least three bits of the 48 bits of a
key and the 31 bits of a count of equal keys, which bounds the depth."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.spatial.boxes import CHILD_WORD, COUNT_WORD, EIGHT, NODE, PARENT_WORD, level_begin
from tegula.spatial.curve import Curve
from tegula.spatial.number import Numbering
from tegula.stdlib.geometry.layout import LEVELS, WIDTH

BITS = 16
"""The number of bits of a key per coordinate."""
DEPTH = -(-(3 * BITS + 31) // 3)
"""The maximum number of levels."""


@tg.func
def differing_bit(keys: tg.array1d[tg.uint64], begin: int, end: int):
    """The index of the highest bit in which keys of a range differ; for a range of equal keys -64 plus the number of
    bits of its length; -64 for a single key."""
    difference = keys[begin] ^ keys[end - 1]
    bit = 63 - tg.int32(tg.clz(difference))
    if difference == tg.uint64(0):
        bit = -32 - tg.int32(tg.clz(tg.uint32(end - begin - 1)))
    return bit


@tg.func
def split_position(keys: tg.array1d[tg.uint64], begin: int, end: int, bit: int):
    """The split position of a range: the first key in which a bit is set, or the middle if all keys are equal."""
    low, high = begin + 1, end - 1
    if bit < 0:
        low = begin + (end - begin + 1) // 2
        high = low
    while low < high:
        middle = low + (high - low) // 2
        if (keys[middle] >> tg.uint64(bit)) & tg.uint64(1) == tg.uint64(0):
            low = middle + 1
        else:
            high = middle
    return low


@tg.kernel
def begin_tree(
    count: int,
    counts: tg.array1d[int],
    begins: tg.array1d[int],
    ends: tg.array1d[int],
    words: tg.array1d[int],
):
    """Write the range of the root. Range starts are 1-based, because sources of nodes are positive."""
    begins[1], ends[1] = 1, count + 1
    words[NODE + PARENT_WORD] = 0
    for k in range(LEVELS + 1):
        counts[k] = tg.where(k == 0, 1, 0)


@tg.kernel
def split_level(
    keys: tg.array1d[tg.uint64],
    leaf: int,
    level: int,
    threads: int,
    counts: tg.array1d[int],
    begins: tg.array1d[int],
    ends: tg.array1d[int],
    words: tg.array1d[int],
):
    """Write the children of the nodes of a level, in the order of the keys. For inner children, write the starts of
    their ranges, and the lengths of the ranges to the first words of the node."""
    first = level_begin(counts, level)
    level_end = first + counts[level]
    for node in range(first + tg.tid(), level_end, threads):
        starts, sizes, bits = EIGHT(), EIGHT(), EIGHT()
        starts[0], sizes[0] = begins[node] - 1, ends[node] - begins[node]
        bits[0] = tg.where(sizes[0] > leaf, differing_bit(keys, starts[0], starts[0] + sizes[0]), -64)
        number, widest = 1, 0
        while widest >= 0 and number < WIDTH:
            widest, best = -1, -64
            for k in tg.static(range(WIDTH)):
                if bits[k] > best and k < number:
                    widest, best = k, bits[k]
            if widest >= 0:
                begin, end = 0, 0
                for k in tg.static(range(WIDTH)):
                    if k == widest:
                        begin, end = starts[k], starts[k] + sizes[k]
                split = split_position(keys, begin, end, best)
                lower = tg.where(split - begin > leaf, differing_bit(keys, begin, split), -64)
                upper = tg.where(end - split > leaf, differing_bit(keys, split, end), -64)
                for step in tg.static(range(WIDTH - 1)):
                    k = WIDTH - 1 - step
                    if k > widest + 1:
                        starts[k], sizes[k], bits[k] = starts[k - 1], sizes[k - 1], bits[k - 1]
                    if k == widest + 1:
                        starts[k], sizes[k], bits[k] = split, end - split, upper
                for k in tg.static(range(WIDTH)):
                    if k == widest:
                        sizes[k], bits[k] = split - begin, lower
                number += 1
        first_word = node * NODE
        low_counts, high_counts = 0, 0
        for k in tg.static(range(WIDTH)):
            word = 0
            if k < number:
                if sizes[k] > leaf:
                    word = 1 + starts[k]
                    words[first_word + k] = sizes[k]
                else:
                    word = -1 - starts[k]
                    if k < 4:
                        low_counts = low_counts | (sizes[k] << (8 * k))
                    else:
                        high_counts = high_counts | (sizes[k] << (8 * (k - 4)))
            words[first_word + CHILD_WORD + k] = word
        words[first_word + COUNT_WORD], words[first_word + COUNT_WORD + 1] = low_counts, high_counts


class MortonBuild:
    """The builder of hierarchies of at most `capacity` boxes and `nodes` nodes on a device, with its memory. `most`:
    the maximum number of threads of a launch."""

    def __init__(self, capacity: int, nodes: int, device: Device, max_threads: int) -> None:
        self.device, self.nodes, self.max_threads = device, nodes, max_threads
        self.curve = Curve(capacity, device, BITS)
        self.numbering = Numbering(min(nodes, max_threads), device)
        self.begins, self.ends = (tg.empty(nodes, tg.int32, device) for _ in range(2))

    def split(self, count: int, leaf: int, counts: array, words: array) -> None:
        """Write all nodes over sorted boxes, without the nodes' bounds, and the number of nodes of each level."""
        ranges = [counts, self.begins, self.ends, words]
        self._launch(begin_tree, 1, [count, *ranges])
        for level in range(DEPTH):
            threads = min(1 << min(3 * level, 31), self.nodes, self.max_threads)
            self._launch(split_level, threads, [self.curve.keys, leaf, level, threads, *ranges])
            self.numbering.number(counts, level, threads, self.begins, self.ends, words)

    def _launch(self, kernel: Any, dim: int, inputs: list[Any]) -> None:
        tg.launch(kernel, dim, inputs, device=self.device, record_tape=False)
