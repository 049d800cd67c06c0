"""The build of hierarchies on the CPU: a binary hierarchy, bottom-up or top-down, is collapsed to nodes with eight
children."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.prepared import PreparedLaunch
from tegula.spatial.agglomerate import BinaryTree
from tegula.spatial.boxes import EIGHT, VEC8
from tegula.spatial.build_sah import AXES, FINE, MAX_DEPTH, Ranges, build, measure, write_binary_tree
from tegula.spatial.clusters import (
    BOXES_PER_THREAD,
    bound_clusters,
    mark_clusters,
    number_clusters,
    prefix_sum,
    write_cluster_offsets,
    write_items,
)
from tegula.spatial.host_boxes import SPARE, CurveSort, HostBoxes, ints, launch
from tegula.spatial.memory import MemoryBlock
from tegula.spatial.widen import (
    BASE,
    CLUSTERS,
    HOLDER,
    RECORD,
    SOURCE,
    Items,
    Records,
    widen_subtrees,
    widen_top,
)
from tegula.stdlib.geometry.layout import LEVELS, WIDTH
from tegula.types import components

CLUSTER = 4
"""The maximum number of boxes of a cluster of a top-down build."""
SUBTREE_TASKS = 16
"""The approximate number of subtrees that threads of a top-down build split in parallel."""
SUBTREES, SUBTREE_ITEMS = 64, 4096
"""The minimum number of subtrees that CPU threads write and refit, and the maximum mean number of their items."""
MAX_LEVEL_NODES = 1 << 20
"""A number of nodes that no level reaches, for hierarchies that one thread writes."""


class Groups(NamedTuple):
    """The groups of a hierarchy: their numbers, ascending, their roots, and a flag for each binary node: 1 for a
    root."""

    keys: np.ndarray
    roots: np.ndarray
    fixed: array


class BinaryBuild(NamedTuple):
    """A binary hierarchy of boxes. `ids`: the memory of `items.windows`, the indices of items in Morton order; `root`:
    an array whose first element has the bits of the root."""

    tree: BinaryTree
    ids: array
    items: Items
    root: array
    groups: Groups | None


class WideBuild(NamedTuple):
    """A hierarchy with eight children per node, whose nodes are still records.

    `level_sizes`: the number of nodes of each level; `top`: the number of levels above the subtrees; `subtrees`: for
    each subtree the range of its items, then the range of its nodes on each level; `order`: the indices of the items in
    the order of the hierarchy; `pairs`: pairs of a group and its node; `shifts`: for each subtree and level the
    difference of the index of a node and the index of its record."""

    level_sizes: list[int]
    top: int
    subtrees: np.ndarray
    order: array
    pairs: array | None
    records: Records
    shifts: array

    @property
    def above(self) -> list[tuple[int, int]]:
        """The first node and the number of nodes of each level above the subtrees."""
        starts = list(accumulate(self.level_sizes, initial=1))
        return list(zip(starts[: self.top], self.level_sizes[: self.top], strict=True))


def new_items(ids: array, memory: MemoryBlock) -> Items:
    """The data of items from their indices in Morton order, which have room for SPARE indices after the last one."""
    items = Items()
    items.windows = array(ptr=ids.ptr, dtype=EIGHT, shape=len(ids), strides=4, device="cpu")
    items.order, items.address = memory.empty(len(ids), tg.int32), ids.ptr
    return items


class TopDown:
    """The builder of a binary hierarchy of boxes from its root down, over clusters of boxes in Morton order.

    Parameters:
        item_boxes: the boxes.
        groups: the group of each box, or None.
        max_unsplit: the maximum number of boxes of a binary node that is not split.
        method: the split method, SAH or MEDIAN.
        max_cluster: the maximum number of boxes of a cluster.
    """

    def __init__(
        self,
        item_boxes: HostBoxes,
        groups: array | None,
        max_unsplit: int,
        method: int,
        max_cluster: int = CLUSTER,
    ) -> None:
        self.boxes, self.count = item_boxes.boxes, len(item_boxes.boxes)
        sort = CurveSort(item_boxes, MemoryBlock())
        sort.run()
        self.keys, self.ids = sort.keys, sort.ids
        if groups is not None:
            order = np.argsort(groups.numpy()[self.ids.numpy()], kind="stable")
            self.ids, self.keys = (tg.array(a.numpy()[order], device="cpu") for a in (self.ids, self.keys))
        starts = self._find_clusters(groups, min(max_cluster, max_unsplit))
        self._make_nodes(starts)
        self._split(max_unsplit, method)
        self.offsets, self.order = ints(len(self.ranges.boxes) + 1), ints(self.count + SPARE)[: self.count]
        launch(write_cluster_offsets, 1, [self.ranges.boxes, self.offsets])
        args = [self.ranges.boxes, self.offsets, self.first, self.ids, self.order]
        launch(write_items, len(self.ranges.boxes), args, None)

    def binary(self) -> BinaryBuild:
        """The hierarchy."""
        r, count, tree = self.ranges, len(self.ranges.begin), BinaryTree()
        tree.nodes, tree.sizes = tg.empty(count, VEC8, "cpu"), r.weight
        tree.address, tree.sizes_address = tree.nodes.ptr, tree.sizes.ptr
        launch(write_binary_tree, count, [r, self.offsets, tree.nodes], None)
        groups = None
        if self.keys_of_groups is not None:
            fixed = tg.zeros(count, dtype=int, device="cpu")
            fixed.numpy()[self.roots] = 1
            groups = Groups(self.keys_of_groups, self.roots, fixed)
        items = new_items(self.order, MemoryBlock())
        return BinaryBuild(tree, self.order, items, tg.zeros((1, 1), VEC8, "cpu"), groups)

    def _find_clusters(self, groups: array | None, max_boxes: int) -> np.ndarray:
        """Find the clusters. Returns the first cluster of each group."""
        chunks = -(-self.count // BOXES_PER_THREAD)
        marks, numbers = tg.empty(self.count, tg.uint8, "cpu"), ints(chunks + 1)
        launch(mark_clusters, chunks, [self.keys, groups, self.ids, max_boxes, marks, numbers])
        launch(prefix_sum, 1, [numbers])
        clusters = int(numbers.numpy()[-1])
        self.first = ints(clusters + 1)
        launch(number_clusters, chunks, [marks, numbers, self.first])
        self.ranges = Ranges()
        self.ranges.boxes = tg.empty(clusters, VEC8, "cpu")
        launch(bound_clusters, clusters, [self.boxes, self.ids, self.first, self.ranges.boxes], None)
        self.keys_of_groups: np.ndarray | None = None
        if groups is None:
            return np.zeros(1, np.int32)
        self.keys_of_groups, starts = np.unique(groups.numpy()[self.ids.numpy()], return_index=True)
        return np.searchsorted(self.first.numpy(), starts).astype(np.int32)

    def _make_nodes(self, starts: np.ndarray) -> None:
        """Write the nodes above the groups by halving the list of groups, and the roots of the groups."""
        r, clusters = self.ranges, len(self.ranges.boxes)
        size = 2 * clusters + 2 * len(starts) + 2
        r.begin, r.end, r.level, r.left = (ints(size) for _ in range(4))
        r.weight = tg.zeros(size, tg.int32, "cpu")
        r.box, r.mid = (tg.empty(size, VEC8, "cpu") for _ in range(2))
        self._scratch(1)
        begin, end, left = (a.numpy() for a in (r.begin, r.end, r.left))
        ends = [*starts[1:].tolist(), clusters]
        self.roots, measured = np.zeros(len(starts), np.int32), []
        pending = [(0, 0, len(starts))]
        while pending:
            node, first, last = pending.pop()
            measured.append(node)
            begin[node], end[node], left[node] = starts[first], ends[last - 1], 0
            if last - first == 1:
                self.roots[first] = node
                continue
            middle = (first + last) // 2
            left[node] = 2 * clusters + 2 * middle
            pending += [(int(left[node]), first, middle), (int(left[node]) + 1, middle, last)]
        r.level.zero_()
        launch(measure, len(measured), [r, tg.array(measured, dtype=int, device="cpu")])

    def _scratch(self, threads: int) -> None:
        """Allocate the memory of `threads` threads: bins, and the stacks of nodes to split."""
        r, bins = self.ranges, AXES * FINE
        r.bins, r.counts = tg.empty((threads, bins), VEC8, "cpu"), tg.empty((threads, bins), tg.int32, "cpu")
        r.stack = ints(threads, 2 * MAX_DEPTH + 4)

    def _split(self, max_unsplit: int, method: int) -> None:
        """Split large ranges one after the other, then build the remaining subtrees in parallel."""
        roots, clusters = self.roots, len(self.ranges.boxes)
        max_boxes = max(clusters // SUBTREE_TASKS, 1024)
        if len(roots) == 1:
            # Nodes of a level have disjoint boxes, so that few nodes of a level are large.
            open_nodes = tg.zeros((MAX_DEPTH + 2) * (clusters // max_boxes + 1) + 2, dtype=int, device="cpu")
            self._build(roots, open_nodes, max_boxes, max_unsplit, method)
            roots = open_nodes.numpy()[1 : 1 + int(open_nodes.numpy()[0])]
        if len(roots):
            self._scratch(len(roots))
            self._build(roots, None, max_boxes, max_unsplit, method)

    def _build(
        self, roots: np.ndarray, open_nodes: array | None, max_boxes: int, max_unsplit: int, method: int
    ) -> None:
        root_nodes = tg.array(roots, dtype=int, device="cpu")
        launch(build, len(roots), [self.ranges, root_nodes, open_nodes, max_boxes, max_unsplit, method])


class WideBuilder:
    """The collapse of a binary hierarchy to nodes with eight children.

    Parameters:
        binary: the binary hierarchy, which may be written later.
        leaf: the maximum number of items of a leaf.
        memory: the block from which the memory of records is taken.
    """

    def __init__(self, binary: BinaryBuild, leaf: int, memory: MemoryBlock) -> None:
        tree, _, items, root, groups = binary
        count, fixed = len(items.order), None if groups is None else groups.fixed
        # Subtrees of a binary hierarchy with groups have no known maximum number of nodes.
        enough = max(SUBTREES, count // SUBTREE_ITEMS) if groups is None else MAX_LEVEL_NODES
        spare_nodes = 2 * WIDTH * enough if groups is None else 2 * len(groups.keys)
        threads = 0 if groups is not None else WIDTH * enough
        self.binary = binary
        self.records = _records(max_nodes(count, 0) + spare_nodes, threads + 1, leaf, memory)
        self._extents = memory.empty((threads, 2), tg.int32)
        args = [self.records, tree, items, fixed, leaf]
        self._launches = [PreparedLaunch(widen_top, 1, [*args, root, enough])]
        if threads:
            self._launches.append(PreparedLaunch(widen_subtrees, threads, [*args, self._extents]))

    def run(self) -> WideBuild | None:
        """Collapse the hierarchy.

        Returns:
            the nodes, which are not yet in the memory of the hierarchy; None if there are more than LEVELS levels.
        Raises:
            nothing.
        """
        for prepared in self._launches:
            prepared.run()
        levels = self.records.levels.numpy()
        top = levels[-1].tolist()
        top_levels = top[-1]
        roots = top[top_levels + 1] - top[top_levels]
        level_sizes = [end - begin for begin, end in pairwise(top[: top_levels + 1])]
        if roots and top_levels == LEVELS:
            return None
        return self._arranged(level_sizes, levels[:roots, :-1], self._extents.numpy()[:roots])

    def _arranged(self, level_sizes: list[int], levels: np.ndarray, extents: np.ndarray) -> WideBuild | None:
        """The hierarchy, whose nodes are numbered level by level. `level_sizes`: the numbers of nodes of the first
        levels; `levels`, `extents`: for each subtree the first record of each level, and the range of items."""
        items, top_levels = self.binary.items, len(level_sizes)
        counts = levels[:, 1:] - levels[:, :-1]
        below = [n for n in counts.sum(0).tolist() if n]
        starts = list(accumulate([*level_sizes, *below], initial=1))[top_levels:-1]
        level_sizes = level_sizes + below
        if len(level_sizes) > LEVELS:
            return None
        depth = len(below)
        counts = counts[:, :depth]
        ends = counts.cumsum(0) + starts
        begins = ends - counts
        subtrees = np.empty((len(levels), 2 * depth + 2), np.int32)
        subtrees[:, :2], subtrees[:, 2::2], subtrees[:, 3::2] = extents, begins, ends
        shifts = tg.empty((len(levels), depth + 1), tg.int32, "cpu")
        differences = shifts.numpy()
        differences[:, :-1], differences[:, -1] = begins - levels[:, :depth], 0
        pairs = _pairs(self.records, self.binary.groups, sum(level_sizes))
        return WideBuild(level_sizes, top_levels, subtrees, items.order, pairs, self.records, shifts)


def _pairs(r: Records, groups: Groups | None, nodes: int) -> array | None:
    """The pairs of a group and its node."""
    if groups is None:
        return None
    number = dict(zip(r.origin.numpy()[SOURCE, :nodes].tolist(), range(1, nodes + 1), strict=True))
    pairs = [(key, number[int(root)]) for key, root in zip(groups.keys, groups.roots, strict=True)]
    return tg.array(np.array(pairs, np.int32).reshape(-1), device="cpu")


def _records(capacity: int, threads: int, leaf: int, memory: MemoryBlock) -> Records:
    """The memory of records, and the scratch memory of threads for leaves of at most `leaf` items."""
    r = Records()
    r.words = memory.empty(capacity * RECORD * WIDTH, tg.int32)
    r.origin = memory.empty((BASE + 1, capacity), tg.int32)
    r.records = view_of(r.words, EIGHT)
    r.child = memory.empty((threads, HOLDER + 1, WIDTH), tg.int32)
    shape = (threads, HOLDER + 1)
    r.children = array(ptr=r.child.ptr, dtype=EIGHT, shape=shape, device="cpu")
    # A binary node that becomes leaves has fewer nodes on the stack than items.
    length = WIDTH * leaf + 2 * WIDTH
    r.stack = memory.empty((threads, CLUSTERS + 1, length), tg.int32)
    r.levels = memory.empty((threads, LEVELS + 3), tg.int32)
    shape, strides = (threads, CLUSTERS + 1, length - WIDTH + 1), (4 * (CLUSTERS + 1) * length, 4 * length, 4)
    r.windows = array(ptr=r.stack.ptr, dtype=EIGHT, shape=shape, strides=strides, device="cpu")
    return r


def int_table(data: np.ndarray) -> array:
    """An array of int32 on the CPU with the elements of a NumPy array."""
    table = tg.empty(data.shape, tg.int32, "cpu")
    table.numpy()[...] = data
    return table


def view_of(a: array, dtype: Any) -> array:
    """A packed array of vectors of int32 on the memory of an array, without ownership of the memory."""
    return array(ptr=a.ptr, dtype=dtype, shape=a.size // components(dtype), device="cpu")


def max_nodes(count: int, groups: int) -> int:
    """The maximum number of nodes of a hierarchy of items in groups, header included: nodes whose children are leaves
    have at least two items, other nodes have eight children."""
    return count * (WIDTH // 2) // (WIDTH - 1) + 2 * groups + 4
