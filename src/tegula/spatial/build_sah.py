"""Top-down construction of binary hierarchies: the boxes of a node are split at the best bin along each axis, by the
surface area heuristic or by the number of items on both sides.

A box is a vector of eight floats: its lower corner, the negated upper corner, and the bits of its index and of its
weight, the number of its items. The union of boxes is the component-wise minimum. The boxes are reordered, so that each
node has a contiguous range of boxes. The indices of a node's children follow from the position of the split, so that
threads share no counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tegula as tg
from tegula.spatial.boxes import LARGE, VEC8, area, centre, lang, union

FINE, COARSE = 16, 8
"""The number of bins along an axis for ranges of many boxes, and for other ranges."""
MANY, FEW = 64, 6
"""The thresholds of bins: ranges of at least MANY boxes are split with fine bins, ranges of at most FEW boxes in the
middle of the longest axis."""
AXES = 3
SAH, MEDIAN = 0, 1
"""The split methods: the surface area heuristic, or equal numbers of items."""
MAX_DEPTH = 30
"""The maximum depth of a binary hierarchy. A range is halved if any other split could exceed this depth."""


@tg.struct
class Ranges:
    """The boxes in the order of the hierarchy, and its nodes: the range of boxes of each node, its number of items, its
    bounds (`box`), and the bounds of the centres of its boxes and of the negated centres (`mid`). `bins`: the bounds of
    the boxes of each bin of each thread; `counts`: the numbers of items in the bins; `stack`: the nodes that a thread
    has not split yet."""

    boxes: tg.array1d[VEC8]
    begin: tg.array1d[int]
    end: tg.array1d[int]
    level: tg.array1d[int]
    left: tg.array1d[int]
    weight: tg.array1d[int]
    box: tg.array1d[VEC8]
    mid: tg.array1d[VEC8]
    bins: tg.array2d[VEC8]
    counts: tg.array2d[int]
    stack: tg.array2d[int]


@tg.func
def bin_index(x: float, bins: int):
    """The bin of a centre; 0 for NaN."""
    return int(lang._min_ignoring_nan(lang._max_ignoring_nan(0.0, x), float(bins - 1)))


@tg.func
def tree_depth(count: int):
    """The depth of a tree that halves a range of `count` boxes."""
    return 32 - tg.int32(tg.clz(tg.uint32(count - 1)))


@tg.func
def begin_node(r: Ranges, node: int, begin: int, level: int):
    """Write an empty node."""
    r.begin[node], r.end[node], r.level[node], r.left[node], r.weight[node] = begin, begin, level, 0, 0
    r.box[node], r.mid[node] = VEC8(tg.inf), VEC8(tg.inf)


@tg.func
def add_range(r: Ranges, node: int, b: int, e: int):
    """Add a range of boxes to the bounds and the weight of a node."""
    weight, box, mid = r.weight[node], r.box[node], r.mid[node]
    for i in range(b, e):
        v = r.boxes[i]
        box, mid = union(v, box), union(centre(v), mid)
        weight += tg.bitcast(v[7], tg.int32)
    r.weight[node], r.box[node], r.mid[node] = weight, box, mid


@tg.func
def split_range(
    r: Ranges, node: int, b: int, e: int, axis: int, start: float, scale: float, last: int, bins: int
):
    """Partition the boxes of a range by whether their bin is at most `last`, and write both parts as the children of
    the node; the range is halved if one part would be empty."""
    # The children are a pair of nodes whose index follows from the split position. The position is not known yet, so
    # the last two nodes are used meanwhile.
    lower, upper, level = 2 * e - 2, 2 * e - 1, r.level[node] + 1
    weight = 0
    box, mid, other_box, other_mid = VEC8(tg.inf), VEC8(tg.inf), VEC8(tg.inf), VEC8(tg.inf)
    i, j = b, e - 1
    while i <= j:
        v = r.boxes[i]
        c = centre(v)
        x = tg.where(axis == 0, c[0], tg.where(axis == 1, c[1], c[2]))
        if bin_index((x - start) * scale, bins) <= last:
            box, mid = union(v, box), union(c, mid)
            weight += tg.bitcast(v[7], tg.int32)
            i += 1
        else:
            other_box, other_mid = union(v, other_box), union(c, other_mid)
            r.boxes[i] = r.boxes[j]
            r.boxes[j] = v
            j -= 1
    if i in (b, e):
        i = b + (e - b) // 2
        begin_node(r, lower, b, level)
        begin_node(r, upper, i, level)
        add_range(r, lower, b, i)
        add_range(r, upper, i, e)
        box, mid, other_box, other_mid = r.box[lower], r.mid[lower], r.box[upper], r.mid[upper]
        weight = r.weight[lower]
    child = 2 * i
    begin_node(r, child, b, level)
    begin_node(r, child + 1, i, level)
    r.end[child], r.end[child + 1] = i, e
    r.box[child], r.mid[child], r.box[child + 1], r.mid[child + 1] = box, mid, other_box, other_mid
    r.weight[child], r.weight[child + 1] = weight, r.weight[node] - weight
    r.left[node] = child


def _by_bins(bins: int) -> Callable[..., Any]:
    """The function that splits ranges at the boundary of one of `bins` bins."""

    @tg.func
    def by_bins(r: Ranges, node: int, b: int, e: int, thread: int, method: int):
        """Split a range at the best bin boundary; in the middle if all boxes are in one bin along each axis."""
        mid = r.mid[node]
        scale = VEC8(0.0)
        for k in tg.static(range(AXES)):
            d = -mid[3 + k] - mid[k]
            scale_of_axis = float(bins) / d
            scale[k] = tg.where(d > 0.0 and scale_of_axis < LARGE, scale_of_axis, 0.0)
        for k in range(AXES * bins):
            r.counts[thread, k] = 0
            r.bins[thread, k] = VEC8(tg.inf)
        for i in range(b, e):
            v = r.boxes[i]
            x = tg.cw_mul(centre(v) - mid, scale)
            weight = tg.bitcast(v[7], tg.int32)
            for axis in tg.static(range(AXES)):
                k = axis * bins + bin_index(x[axis], bins)
                r.counts[thread, k] = r.counts[thread, k] + weight
                r.bins[thread, k] = union(v, r.bins[thread, k])
        total = r.weight[node]
        best, best_axis, best_bin = float(tg.inf), (-1), 0
        for axis in range(AXES):
            # The sweep from the right computes the cost of the boxes after each bin.
            costs = tg.vector(bins, float)()
            count, box = 0, VEC8(tg.inf)
            for back in tg.static(range(bins - 1)):
                k = axis * bins + bins - 1 - back
                count += r.counts[thread, k]
                box = union(r.bins[thread, k], box)
                costs[bins - 2 - back] = area(box) * float(count)
            count, box = 0, VEC8(tg.inf)
            for k in tg.static(range(bins - 1)):
                count += r.counts[thread, axis * bins + k]
                box = union(r.bins[thread, axis * bins + k], box)
                cost = area(box) * float(count) + costs[k]
                if method == MEDIAN:
                    cost = float(tg.abs(2 * count - total))
                if count > 0 and count < total and cost < best:
                    best, best_axis, best_bin = cost, axis, k
        start = tg.where(best_axis == 0, mid[0], tg.where(best_axis == 1, mid[1], mid[2]))
        scale_of_axis = tg.where(best_axis == 0, scale[0], tg.where(best_axis == 1, scale[1], scale[2]))
        last = tg.where(best_axis < 0, bins, best_bin)
        split_range(r, node, b, e, best_axis, start, scale_of_axis, last, bins)

    return by_bins


by_fine_bins, by_coarse_bins = _by_bins(FINE), _by_bins(COARSE)


@tg.func
def split_at_midpoint(r: Ranges, node: int, b: int, e: int):
    """Split a range in the middle of the axis with the largest extent of centres."""
    mid = r.mid[node]
    axis, start, size = 0, mid[0], -mid[3] - mid[0]
    for k in tg.static(range(1, AXES)):
        d = -mid[3 + k] - mid[k]
        if d > size:
            axis, start, size = k, mid[k], d
    scale = 2.0 / size
    has_extent = size > 0.0 and scale < LARGE
    split_range(r, node, b, e, axis, start, tg.where(has_extent, scale, 0.0), tg.where(has_extent, 0, 2), 2)


@tg.kernel
def measure(r: Ranges, roots: tg.array1d[int]):
    """Write the bounds and weights of nodes that are not the result of a split."""
    node = roots[tg.tid()]
    r.box[node], r.mid[node], r.weight[node] = VEC8(tg.inf), VEC8(tg.inf), 0
    add_range(r, node, r.begin[node], r.end[node])


@tg.kernel
def build(
    r: Ranges,
    roots: tg.array1d[int],
    open_nodes: tg.array1d[int],
    max_boxes: int,
    max_unsplit: int,
    method: int,
):
    """Build the subtree of each root, one thread per root. Nodes of at most `max_unsplit` items are not split. With
    `open_nodes`, nodes of at most `max_boxes` boxes are appended to this list, whose length is in element 0, for later
    threads."""
    t = tg.tid()
    top = 1
    r.stack[t, 0] = roots[t]
    while top > 0:
        top -= 1
        node = r.stack[t, top]
        b, e = r.begin[node], r.end[node]
        if e - b > 1 and r.weight[node] > max_unsplit:
            if open_nodes is not None and e - b <= max_boxes:
                k = open_nodes[0] + 1
                open_nodes[0] = k
                open_nodes[k] = node
            else:
                if r.level[node] + tree_depth(e - b) >= MAX_DEPTH:
                    split_range(r, node, b, e, 0, 0.0, 0.0, 0, 2)
                elif e - b <= FEW:
                    split_at_midpoint(r, node, b, e)
                elif e - b < MANY:
                    by_coarse_bins(r, node, b, e, t, method)
                else:
                    by_fine_bins(r, node, b, e, t, method)
                r.stack[t, top], r.stack[t, top + 1] = r.left[node], r.left[node] + 1
                top += 2


@tg.kernel
def write_binary_tree(r: Ranges, offsets: tg.array1d[int], nodes: tg.array1d[VEC8]):
    """Write the nodes of a `BinaryTree`. `offsets`: the position of the first item of each box."""
    node = tg.tid()
    if r.weight[node] > 0:
        box, left, right = r.box[node], r.left[node], r.left[node] + 1
        if left == 0:
            left, right = -1 - offsets[r.begin[node]], r.weight[node]
        box[6], box[7] = tg.bitcast(left, tg.float32), tg.bitcast(right, tg.float32)
        nodes[node] = box
