"""The build of hierarchies on the CPU: boxes are clustered in Morton order, a binary hierarchy over the clusters is
built top-down, and binary nodes are collapsed to nodes with eight children."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.device import get_device
from tegula.spatial.boxes import VEC8
from tegula.spatial.build_sah import AXES, FINE, MAX_DEPTH, Ranges, build, measure
from tegula.spatial.clusters import (
    EACH,
    bound_clusters,
    mark_clusters,
    number_clusters,
    prefix_sum,
    write_cluster_offsets,
    write_items,
)
from tegula.spatial.curve import Curve
from tegula.spatial.number import Numbering
from tegula.spatial.widen import begin_level, widen
from tegula.stdlib.geometry.layout import LEVELS, WIDTH

CLUSTER = 4
"""The maximum number of boxes of a cluster."""
PARTS = 16
"""The approximate number of subtrees that are built in parallel, one thread each."""
SHORT, SHORT_BITS, BITS = 1 << 20, 10, 21
"""The number of boxes up to which keys have 10 bits per coordinate, and the numbers of bits below and above it."""


class HostBuild:
    """The builder of a binary hierarchy of boxes on the CPU.

    Parameters:
        lower, upper: the corners of the boxes.
        groups: the group of each box, or None.
        whole: the maximum number of boxes of a binary node that is not split.
        by: the method by which ranges are split.
        cluster: the maximum number of boxes of a cluster.
    """

    def __init__(
        self, lower: array, upper: array, groups: array | None, whole: int, by: int, cluster: int = CLUSTER
    ) -> None:
        self.lower, self.upper, self.count = lower, upper, len(lower)
        self._sort(groups)
        starts = self._find_clusters(groups, min(cluster, whole))
        self._make_nodes(starts)
        self._part(whole, by)
        self.at, self.order = _ints(len(self.ranges.boxes) + 1), _ints(self.count)
        _launch(write_cluster_offsets, 1, [self.ranges.boxes, self.at], 1)
        args = [self.ranges.boxes, self.at, self.first, self.ids, self.order]
        _launch(write_items, len(self.ranges.boxes), args)

    def _sort(self, groups: array | None) -> None:
        """Sort the boxes in Morton order, and stably by group."""
        bits = SHORT_BITS if self.count <= SHORT else BITS
        curve = Curve(self.count, get_device("cpu"), bits)
        self.ids, self.keys = curve.sort(self.lower, self.upper), curve.keys[: self.count]
        if groups is not None:
            order = np.argsort(groups.numpy()[self.ids.numpy()], kind="stable")
            self.ids, self.keys = (tg.array(a.numpy()[order], device="cpu") for a in (self.ids, self.keys))

    def _find_clusters(self, groups: array | None, most: int) -> np.ndarray:
        """Find the clusters. Returns the first cluster of each group."""
        chunks = -(-self.count // EACH)
        marks, numbers = tg.empty(self.count, tg.uint8, "cpu"), _ints(chunks + 1)
        _launch(mark_clusters, chunks, [self.keys, groups, self.ids, most, marks, numbers], 1)
        _launch(prefix_sum, 1, [numbers], 1)
        clusters = int(numbers.numpy()[-1])
        self.first = _ints(clusters + 1)
        _launch(number_clusters, chunks, [marks, numbers, self.first], 1)
        self.ranges = Ranges()
        self.ranges.boxes = tg.empty(clusters, VEC8, "cpu")
        args = [self.lower, self.upper, self.ids, self.first, self.ranges.boxes]
        _launch(bound_clusters, clusters, args)
        self.keys_of_groups: np.ndarray | None = None
        if groups is None:
            return np.zeros(1, np.int32)
        self.keys_of_groups, starts = np.unique(groups.numpy()[self.ids.numpy()], return_index=True)
        return np.searchsorted(self.first.numpy(), starts).astype(np.int32)

    def _make_nodes(self, starts: np.ndarray) -> None:
        """Write the nodes above the groups by halving the list of groups, and the roots of the groups."""
        r, clusters = self.ranges, len(self.ranges.boxes)
        size = 2 * clusters + 2 * len(starts) + 2
        r.begin, r.end, r.level, r.left, r.weight = (_ints(size) for _ in range(5))
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
        _launch(measure, len(known), [r, tg.array(known, dtype=int, device="cpu")], 1)

    def _scratch(self, threads: int) -> None:
        """Allocate the memory of `threads` threads: bins, and the stacks of nodes to split."""
        r, bins = self.ranges, AXES * FINE
        r.bins, r.counts = tg.empty((threads, bins), VEC8, "cpu"), tg.empty((threads, bins), tg.int32, "cpu")
        r.stack = tg.empty((threads, 2 * MAX_DEPTH + 4), tg.int32, "cpu")

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
        _launch(build, len(roots), [self.ranges, given, listed, most, whole, by], 1)

    def widen(self, leaf: int, words: array, nodes: int) -> tuple[list[int], array | None]:
        """Write the nodes with eight children.

        Parameters:
            leaf: the maximum number of items of a leaf.
            words: the memory of the nodes.
            nodes: the number of nodes that fit the memory.
        Returns:
            the number of nodes of each level, and pairs of a group and its node; None without groups.
        Raises:
            launch: the hierarchy is too deep.
        """
        r, source, counts = self.ranges, _ints(nodes), _ints(LEVELS + 1)
        fixed = None
        if self.keys_of_groups is not None:
            fixed = tg.zeros(len(r.begin), dtype=int, device="cpu")
            fixed.numpy()[self.roots] = 1
        _launch(begin_level, 1, [counts, source, words], 1)
        numbers, level, numbering = counts.numpy(), 0, Numbering(1, get_device("cpu"))
        args = [r, self.lower, self.upper, self.order, self.at, fixed, leaf]
        while numbers[level]:
            if level == LEVELS:
                what = f"the hierarchy has more than {LEVELS} levels"
                raise LaunchError(what, "build it with constructor='lbvh'")
            _launch(widen, int(numbers[level]), [*args, level, counts, source, words], 64)
            numbering.number(counts, level, 1, source, None, words)
            level += 1
        if self.keys_of_groups is None:
            return numbers[:level].tolist(), None
        found = source.numpy()[1 : 1 + int(numbers[:level].sum())]
        number = dict(zip(found.tolist(), range(1, len(found) + 1), strict=True))
        pairs = [(key, number[int(root)]) for key, root in zip(self.keys_of_groups, self.roots, strict=True)]
        return numbers[:level].tolist(), tg.array(np.array(pairs, np.int32).reshape(-1), device="cpu")


def max_nodes(count: int, groups: int) -> int:
    """The maximum number of nodes of a hierarchy of items in groups, header included: nodes whose children are leaves
    have at least two items, other nodes have eight children."""
    return count * (WIDTH // 2) // (WIDTH - 1) + 2 * groups + 4


def _ints(count: int) -> array:
    return tg.empty(count, tg.int32, "cpu")


def _launch(kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = None) -> None:
    tg.launch(kernel, dim=dim, inputs=inputs, device="cpu", record_tape=False, block_dim=block_dim)
