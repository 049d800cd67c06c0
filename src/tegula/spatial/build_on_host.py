"""The build of hierarchies on the CPU: a binary hierarchy, bottom-up or top-down, is collapsed to nodes with eight
children."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tegula as tg
from tegula.runtime.array import array
from tegula.spatial.agglomerate import CHUNK, KEPT, ROW, BinaryTree, Merging, merge_chunks, merge_rest
from tegula.spatial.boxes import EIGHT, VEC8
from tegula.spatial.build_sah import AXES, FINE, MAX_DEPTH, Ranges, build, measure, write_binary_tree
from tegula.spatial.clusters import (
    EACH,
    bound_clusters,
    mark_clusters,
    number_clusters,
    prefix_sum,
    write_cluster_offsets,
    write_items,
)
from tegula.spatial.host_boxes import SPARE, HostBoxes, ints, launch, sort_boxes
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
PARTS = 16
"""The approximate number of subtrees that are built in parallel, one thread each."""
MERGING = 16
"""The number of threads that merge clusters."""
SUBTREES, SUBTREE_ITEMS = 64, 4096
"""The minimum number of subtrees that CPU threads write and refit, and the maximum mean number of their items."""

MOST = 1 << 20
"""A number of nodes above that of any level that one thread writes."""


class Groups(NamedTuple):
    """The groups of a hierarchy: their numbers, ascending, their roots, and a flag for each binary node: 1 for a
    root."""

    keys: np.ndarray
    roots: np.ndarray
    fixed: array


class BinaryBuild(NamedTuple):
    """A binary hierarchy of boxes. `ids`: the indices of items in Morton order, which `items` refers to."""

    tree: BinaryTree
    ids: array
    items: Items
    root: int
    groups: Groups | None


class WideBuild(NamedTuple):
    """The nodes of a build: the numbers of nodes of the levels; the first level of subtrees; for each subtree the range
    of its items, and the range of its nodes on each level; the order of the items; pairs of a group and its node; the
    records of the nodes, and the differences of the indices of nodes and of their records."""

    known: list[int]
    top: int
    subtrees: np.ndarray
    order: array
    pairs: array | None
    records: Records
    shifts: array

    @property
    def above(self) -> list[tuple[int, int]]:
        """The first node and the number of nodes of each level above the subtrees."""
        starts = np.cumsum([1, *self.known]).tolist()
        return list(zip(starts[: self.top], self.known[: self.top], strict=True))


def build_bottom_up(found: HostBoxes) -> BinaryBuild:
    """Build a binary hierarchy by merging clusters along the Morton curve."""
    count = len(found.boxes)
    keys, ids = sort_boxes(found)
    chunks = -(-count // CHUNK)
    tree = BinaryTree()
    size = 2 * count + 2 * chunks * KEPT + 2 * CHUNK
    tree.nodes, tree.sizes = tg.empty(size, VEC8, "cpu"), ints(size)
    threads, first, each = min(chunks, MERGING), 2 * count, CHUNK // KEPT
    merging = _merging(max(threads, -(-chunks // each)))
    left, numbers = tg.empty((chunks, KEPT), VEC8, "cpu"), ints(chunks)
    launch(
        merge_chunks,
        threads,
        [merging, found.boxes, found.boxes.ptr, keys, ids, tree, left, numbers, threads],
    )
    while True:
        chunks = -(-len(numbers) // each)
        merged, rest = tg.empty((chunks, KEPT), VEC8, "cpu"), ints(chunks)
        most = 1 if chunks == 1 else KEPT
        launch(merge_rest, chunks, [merging, left, numbers, tree, first, most, merged, rest])
        first, left, numbers = first + chunks * CHUNK, merged, rest
        if chunks == 1:
            break
    return BinaryBuild(tree, ids, _items(ids), int(left.numpy().view(np.int32).reshape(-1)[6]), None)


def _items(ids: array) -> Items:
    """The data of items from their indices in Morton order, which have room for SPARE indices after the last one."""
    items = Items()
    items.windows = array(ptr=ids.ptr, dtype=EIGHT, shape=len(ids), strides=4, device="cpu")
    items.order = ints(len(ids))
    return items


def _merging(threads: int) -> Merging:
    """The scratch memory of threads that merge clusters."""
    m = Merging()
    m.clusters, m.coordinates = (
        tg.empty((threads, ROW), VEC8, "cpu"),
        tg.empty((threads, 6, ROW), float, "cpu"),
    )
    row = 4 * ROW
    shape = (threads, 6, ROW - WIDTH)
    m.windows = array(ptr=m.coordinates.ptr, dtype=VEC8, shape=shape, strides=(6 * row, row, 4), device="cpu")
    m.keys, m.levels = ints(threads, ROW), ints(threads, ROW)
    m.starts = array(ptr=m.keys.ptr, dtype=EIGHT, shape=(threads, ROW // WIDTH), device="cpu")
    shape = (threads, ROW - WIDTH)
    m.level_windows = array(ptr=m.levels.ptr, dtype=EIGHT, shape=shape, strides=(row, 4), device="cpu")
    return m


class TopDown:
    """The builder of a binary hierarchy of boxes from its root down, over clusters of boxes in Morton order.

    Parameters:
        found: the boxes.
        groups: the group of each box, or None.
        whole: the maximum number of boxes of a binary node that is not split.
        by: the method by which ranges are split.
        cluster: the maximum number of boxes of a cluster.
    """

    def __init__(
        self, found: HostBoxes, groups: array | None, whole: int, by: int, cluster: int = CLUSTER
    ) -> None:
        self.boxes, self.count = found.boxes, len(found.boxes)
        self.keys, self.ids = sort_boxes(found)
        if groups is not None:
            order = np.argsort(groups.numpy()[self.ids.numpy()], kind="stable")
            self.ids, self.keys = (tg.array(a.numpy()[order], device="cpu") for a in (self.ids, self.keys))
        starts = self._find_clusters(groups, min(cluster, whole))
        self._make_nodes(starts)
        self._part(whole, by)
        self.at, self.order = ints(len(self.ranges.boxes) + 1), ints(self.count + SPARE)[: self.count]
        launch(write_cluster_offsets, 1, [self.ranges.boxes, self.at])
        args = [self.ranges.boxes, self.at, self.first, self.ids, self.order]
        launch(write_items, len(self.ranges.boxes), args, None)

    def binary(self) -> BinaryBuild:
        """The hierarchy."""
        r, count, tree = self.ranges, len(self.ranges.begin), BinaryTree()
        tree.nodes, tree.sizes = tg.empty(count, VEC8, "cpu"), r.weight
        launch(write_binary_tree, count, [r, self.at, tree.nodes], None)
        groups = None
        if self.keys_of_groups is not None:
            fixed = tg.zeros(count, dtype=int, device="cpu")
            fixed.numpy()[self.roots] = 1
            groups = Groups(self.keys_of_groups, self.roots, fixed)
        return BinaryBuild(tree, self.order, _items(self.order), 0, groups)

    def _find_clusters(self, groups: array | None, most: int) -> np.ndarray:
        """Find the clusters. Returns the first cluster of each group."""
        chunks = -(-self.count // EACH)
        marks, numbers = tg.empty(self.count, tg.uint8, "cpu"), ints(chunks + 1)
        launch(mark_clusters, chunks, [self.keys, groups, self.ids, most, marks, numbers])
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
        self.roots, known = np.zeros(len(starts), np.int32), []
        pending = [(0, 0, len(starts))]
        while pending:
            node, first, last = pending.pop()
            known.append(node)
            begin[node], end[node], left[node] = starts[first], ends[last - 1], 0
            if last - first == 1:
                self.roots[first] = node
                continue
            cut = (first + last) // 2
            left[node] = 2 * clusters + 2 * cut
            pending += [(int(left[node]), first, cut), (int(left[node]) + 1, cut, last)]
        r.level.zero_()
        launch(measure, len(known), [r, tg.array(known, dtype=int, device="cpu")])

    def _scratch(self, threads: int) -> None:
        """Allocate the memory of `threads` threads: bins, and the stacks of nodes to split."""
        r, bins = self.ranges, AXES * FINE
        r.bins, r.counts = tg.empty((threads, bins), VEC8, "cpu"), tg.empty((threads, bins), tg.int32, "cpu")
        r.stack = ints(threads, 2 * MAX_DEPTH + 4)

    def _part(self, whole: int, by: int) -> None:
        """Split large ranges one after the other, then build the remaining subtrees in parallel."""
        roots, clusters = self.roots, len(self.ranges.boxes)
        most = max(clusters // PARTS, 1024)
        if len(roots) == 1:
            # Nodes of a level have disjoint boxes, so that few nodes of a level are large.
            listed = tg.zeros((MAX_DEPTH + 2) * (clusters // most + 1) + 2, dtype=int, device="cpu")
            self._build(roots, listed, most, whole, by)
            roots = listed.numpy()[1 : 1 + int(listed.numpy()[0])]
        if len(roots):
            self._scratch(len(roots))
            self._build(roots, None, most, whole, by)

    def _build(self, roots: np.ndarray, listed: array | None, most: int, whole: int, by: int) -> None:
        given = tg.array(roots, dtype=int, device="cpu")
        launch(build, len(roots), [self.ranges, given, listed, most, whole, by])


def widen(binary: BinaryBuild, leaf: int) -> WideBuild | None:
    """Collapse a binary hierarchy to nodes with eight children.

    Parameters:
        binary: the binary hierarchy.
        leaf: the maximum number of items of a leaf.
    Returns:
        the nodes, which are not yet in the memory of the hierarchy; None if there are more than LEVELS levels.
    Raises:
        nothing.
    """
    tree, _, items, root, groups = binary
    count, fixed = len(items.order), None if groups is None else groups.fixed
    # Subtrees of a binary hierarchy with groups have no known maximum number of nodes.
    wanted = max(SUBTREES, count // SUBTREE_ITEMS) if groups is None else MOST
    room = 2 * WIDTH * wanted if groups is None else 2 * len(groups.keys)
    threads = 1 if groups is not None else WIDTH * wanted
    r = _records(max_nodes(count, 0) + room, threads, leaf)
    launch(widen_top, 1, [r, tree, items, fixed, leaf, root, wanted])
    top = r.levels.numpy()[0].tolist()
    done = top[-1]
    roots = top[done + 1] - top[done]
    known, first = np.diff(top[: done + 1]).tolist(), top[done]
    extents, levels = ints(roots, 2), np.zeros((0, LEVELS + 2), np.int32)
    if roots:
        launch(widen_subtrees, roots, [r, tree, items, fixed, leaf, first, extents])
        levels = r.levels.numpy()[:roots, :-1]
    counts = np.diff(levels, axis=1)
    known += counts.sum(0)[: np.count_nonzero(counts.sum(0))].tolist()
    if len(known) > LEVELS or roots and done == LEVELS:
        return None
    begins = np.cumsum([1, *known])[done:-1] + np.cumsum(counts, axis=0)[:, : len(known) - done]
    counts = counts[:, : len(known) - done]
    begins -= counts
    shifts = np.zeros((roots, len(known) - done + 1), np.int32)
    shifts[:, :-1] = begins - levels[:, : len(known) - done]
    rows = np.stack([begins, begins + counts], 2).reshape(roots, 2 * (len(known) - done))
    subtrees = np.concatenate([extents.numpy(), rows], 1).astype(np.int32)
    table = tg.array(shifts, dtype=tg.int32, device="cpu")
    return WideBuild(known, done, subtrees, items.order, _pairs(r, groups, sum(known)), r, table)


def _pairs(r: Records, groups: Groups | None, nodes: int) -> array | None:
    """The pairs of a group and its node."""
    if groups is None:
        return None
    number = dict(zip(r.origin.numpy()[SOURCE, :nodes].tolist(), range(1, nodes + 1), strict=True))
    pairs = [(key, number[int(root)]) for key, root in zip(groups.keys, groups.roots, strict=True)]
    return tg.array(np.array(pairs, np.int32).reshape(-1), device="cpu")


def _records(capacity: int, threads: int, leaf: int) -> Records:
    """The memory of records, and the scratch memory of threads for leaves of at most `leaf` items."""
    r = Records()
    r.words, r.origin = ints(capacity * RECORD * WIDTH), ints(BASE + 1, capacity)
    r.records = view_of(r.words, EIGHT)
    r.child = ints(threads, HOLDER + 1, WIDTH)
    shape = (threads, HOLDER + 1)
    r.children = array(ptr=r.child.ptr, dtype=EIGHT, shape=shape, device="cpu")
    # A binary node that becomes leaves has fewer nodes on the stack than items.
    length = WIDTH * leaf + 2 * WIDTH
    r.stack, r.levels = ints(threads, CLUSTERS + 1, length), ints(threads, LEVELS + 3)
    shape, strides = (threads, CLUSTERS + 1, length - WIDTH + 1), (4 * (CLUSTERS + 1) * length, 4 * length, 4)
    r.windows = array(ptr=r.stack.ptr, dtype=EIGHT, shape=shape, strides=strides, device="cpu")
    return r


def view_of(a: array, dtype: Any) -> array:
    """A packed array of vectors of int32 on the memory of an array, without ownership of the memory."""
    return array(ptr=a.ptr, dtype=dtype, shape=a.size // components(dtype), device="cpu")


def max_nodes(count: int, groups: int) -> int:
    """The maximum number of nodes of a hierarchy of items in groups, header included: nodes whose children are leaves
    have at least two items, other nodes have eight children."""
    return count * (WIDTH // 2) // (WIDTH - 1) + 2 * groups + 4
