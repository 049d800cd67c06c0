"""The build of hierarchies on the CPU from the leaves up, with the memory of a build, which the next build of as many
boxes uses again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.prepared import PreparedLaunch
from tegula.spatial.agglomerate import CHUNK, KEPT, ROW, BinaryTree, Merging, merge_chunks, merge_rest
from tegula.spatial.boxes import EIGHT, VEC8
from tegula.spatial.build_on_host import BinaryBuild, WideBuild, WideBuilder, new_items
from tegula.spatial.host_boxes import CurveSort, new_boxes
from tegula.spatial.memory import MemoryBlock
from tegula.stdlib.geometry.layout import WIDTH

MERGE_THREADS = 16
"""The number of threads that merge clusters."""
BASE_BYTES, BYTES_PER_BOX = 3 << 19, 216
"""The approximate size in bytes of the memory of a build: of a small build, and for each box."""
MAX_IDLE = 1 << 27
"""The maximum size in bytes of memory that is not freed after a build."""
_idle: list[BottomUp] = []
"""The memory of the last build, unless a build is using this memory."""


class BottomUp:
    """The memory and the launches of builds of `count` boxes, with leaves of at most `leaf` items."""

    def __init__(self, count: int, leaf: int) -> None:
        self.size = count, leaf
        memory = MemoryBlock(BASE_BYTES + BYTES_PER_BOX * count)
        self.boxes = new_boxes(count, memory)
        """The boxes of the items, which are written before the build."""
        self._sort = CurveSort(self.boxes, memory)
        chunks, chunks_per_row = -(-count // CHUNK), CHUNK // KEPT
        size = 2 * count + 2 * chunks * KEPT + 2 * CHUNK
        tree = BinaryTree()
        tree.nodes, tree.sizes = memory.empty(size, VEC8), memory.empty(size, tg.int32)
        tree.address, tree.sizes_address = tree.nodes.ptr, tree.sizes.ptr
        threads, first = min(chunks, MERGE_THREADS), 2 * count
        merging = _merge_memory(max(threads, -(-chunks // chunks_per_row)), memory)
        remaining, numbers = memory.empty((chunks, KEPT), VEC8), memory.empty(chunks, tg.int32)
        boxes, keys, ids = self.boxes.boxes, self._sort.keys, self._sort.ids
        args = [merging, boxes, boxes.ptr, keys, ids, tree, remaining, numbers, threads]
        self._launches = [PreparedLaunch(merge_chunks, threads, args)]
        is_last = False
        while not is_last:
            chunks = -(-len(numbers) // chunks_per_row)
            is_last = chunks == 1
            merged, rest = memory.empty((chunks, KEPT), VEC8), memory.empty(chunks, tg.int32)
            args = [merging, remaining, numbers, tree, first, 1 if is_last else KEPT, merged, rest]
            self._launches.append(PreparedLaunch(merge_rest, chunks, args))
            first, remaining, numbers = first + chunks * CHUNK, merged, rest
        binary = BinaryBuild(tree, ids, new_items(ids, memory), remaining, None)
        self._wide = WideBuilder(binary, leaf, memory)

    def build(self) -> WideBuild | None:
        """Build the hierarchy, whose arrays the next build overwrites; None if there would be too many levels."""
        self._sort.run()
        for prepared in self._launches:
            prepared.run()
        return self._wide.run()


@contextmanager
def bottom_up(count: int, leaf: int) -> Iterator[BottomUp]:
    """The builder of a hierarchy, which no other build uses within the context."""
    try:
        builder = _idle.pop()
    except IndexError:
        builder = None
    if builder is None or builder.size != (count, leaf):
        # The memory of the last build is freed before new memory is allocated.
        del builder
        builder = BottomUp(count, leaf)
    yield builder
    if BYTES_PER_BOX * count <= MAX_IDLE:
        _idle[:] = [builder]


def _merge_memory(threads: int, memory: MemoryBlock) -> Merging:
    """The scratch memory of threads that merge clusters."""
    m = Merging()
    m.clusters = memory.empty((threads, ROW), VEC8)
    m.coordinates = memory.empty((threads, 6, ROW), tg.float32)
    row = 4 * ROW
    shape = (threads, 6, ROW - WIDTH)
    m.windows = array(ptr=m.coordinates.ptr, dtype=VEC8, shape=shape, strides=(6 * row, row, 4), device="cpu")
    m.keys, m.levels = (memory.empty((threads, ROW), tg.int32) for _ in range(2))
    m.starts = array(ptr=m.keys.ptr, dtype=EIGHT, shape=(threads, ROW // WIDTH), device="cpu")
    shape = (threads, ROW - WIDTH)
    m.level_windows = array(ptr=m.levels.ptr, dtype=EIGHT, shape=shape, strides=(row, 4), device="cpu")
    return m
