"""The numbering of the nodes of a level: children are numbered in the order of their parents, so that the descendants
of a node are adjacent on each level. The numbering depends on the boxes alone, not on the schedule of threads.

Builders first write the children of each node of a level: -1 minus the index of the first item for a leaf, and for a
node a positive number, its source, which identifies the subtree to the builder. `number_level` then replaces sources by
node indices."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.spatial.boxes import CHILD_WORD, NODE, PARENT_WORD, level_begin
from tegula.stdlib.geometry.layout import WIDTH

SUMMED, SUMMING = 2048, 256
"""The number of counts that a block scans, and its number of threads."""


@tg.func
def thread_node_range(counts: tg.array1d[int], level: int, thread: int, threads: int):
    """The range of nodes of a level that a thread processes, end exclusive."""
    first, count = level_begin(counts, level), counts[level]
    length = (count + threads - 1) // threads
    return first + tg.min(thread * length, count), first + tg.min((thread + 1) * length, count)


@tg.kernel
def count_children(
    counts: tg.array1d[int], level: int, threads: int, words: tg.array1d[int], sums: tg.array1d[int]
):
    """Write the number of child nodes of each thread's part of a level."""
    begin, end = thread_node_range(counts, level, tg.tid(), threads)
    count = 0
    for node in range(begin, end):
        for k in tg.static(range(WIDTH)):
            count += tg.where(words[node * NODE + CHILD_WORD + k] > 0, 1, 0)
    sums[tg.tid()] = count


@tg.kernel
def scan_counts(sums: tg.array1d[int], chunks: tg.array1d[int]):
    """Replace the counts of a chunk by their exclusive running sums, and write the sum of the chunk."""
    c = tg.tid()
    t = tg.tile_load(sums, shape=SUMMED, offset=c * SUMMED)
    tg.tile_store(sums, tg.tile_scan_exclusive(t), offset=c * SUMMED)
    tg.tile_store(chunks, tg.tile_sum(t), offset=c)


@tg.kernel
def number_level(
    counts: tg.array1d[int],
    level: int,
    threads: int,
    sums: tg.array1d[int],
    chunks: tg.array1d[int],
    source: tg.array1d[int],
    ends: tg.array1d[int],
    words: tg.array1d[int],
):
    """Number the children of a thread's part of a level, and write their sources; with `ends` also the ends of their
    ranges, whose lengths are in the first words of the parents."""
    t = tg.tid()
    begin, end = thread_node_range(counts, level, t, threads)
    preceding = sums[t]
    if begin < end or t == threads - 1:
        for c in range(t // SUMMED):
            preceding += chunks[c]
    child = level_begin(counts, level) + counts[level] + preceding
    first = child
    for node in range(begin, end):
        first_word = node * NODE
        for k in tg.static(range(WIDTH)):
            word = words[first_word + CHILD_WORD + k]
            if word > 0:
                source[child] = word
                if ends is not None:
                    ends[child] = word + words[first_word + k]
                words[first_word + CHILD_WORD + k], words[child * NODE + PARENT_WORD] = child, node
                child += 1
    if t == threads - 1:
        counts[level + 1] = preceding + child - first


class Numbering:
    """The scratch memory for numbering the levels of a hierarchy with at most `most` threads."""

    def __init__(self, max_threads: int, device: Device) -> None:
        self.device = device
        chunks = -(-max_threads // SUMMED)
        self.sums = tg.zeros(chunks * SUMMED, tg.int32, device)
        self.chunks = tg.zeros(chunks, tg.int32, device)

    def number(
        self, counts: array, level: int, threads: int, source: array, ends: array | None, words: array
    ) -> None:
        """Number the children of the nodes of a level; the number of threads is at least that of the level above."""
        sums = [self.sums, self.chunks]
        if threads > 1:
            self._launch(count_children, threads, [counts, level, threads, words, self.sums])
            blocks = -(-threads // SUMMED)
            tg.launch_tiled(
                scan_counts, blocks, sums, block_dim=SUMMING, device=self.device, record_tape=False
            )
        self._launch(number_level, threads, [counts, level, threads, *sums, source, ends, words])

    def _launch(self, kernel: Any, dim: int, inputs: list[Any]) -> None:
        tg.launch(kernel, dim, inputs, device=self.device, record_tape=False)
