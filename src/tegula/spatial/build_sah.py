"""Top-down construction of binary hierarchies: the boxes of a node are split at the best of sixteen bins along each
axis, by the surface area heuristic or by the number of boxes on both sides.

The boxes are reordered, so that each node has a contiguous range of boxes. The indices of a node's children follow from
the position of the split, so that threads share no counter."""

from __future__ import annotations

import tegula as tg

BINS = 16
AXES = 3
SAH, MEDIAN = 0, 1
"""Where ranges are cut: by the surface area heuristic, or by numbers."""
FEW = 8
"""Ranges of at most this many boxes are split in the middle of the longest axis: most of their boxes become children of
one node."""
DEEPEST = 30
"""The maximum depth of a binary hierarchy. A range is halved if any other split could exceed this depth."""
LARGE = 1.0e38


@tg.struct
class Ranges:
    """The boxes in the order of the hierarchy, and the nodes. For each thread and bin, `bins` has the number of boxes,
    `low` and `high` the bounds of the boxes; `stack`: the nodes that a thread has yet to split."""

    lower: tg.array1d[tg.vec3]
    upper: tg.array1d[tg.vec3]
    order: tg.array1d[int]
    begin: tg.array1d[int]
    end: tg.array1d[int]
    level: tg.array1d[int]
    left: tg.array1d[int]
    node_lower: tg.array1d[tg.vec3]
    node_upper: tg.array1d[tg.vec3]
    bins: tg.array2d[int]
    low: tg.array2d[tg.vec3]
    high: tg.array2d[tg.vec3]
    stack: tg.array2d[int]


@tg.func
def middle(low: tg.vec3, high: tg.vec3):
    """The centre of a box; 0 along an axis where the box is empty or has no finite centre."""
    x = 0.5 * low + 0.5 * high
    for k in tg.static(range(3)):
        known = (low[k] <= high[k]) & (x[k] == x[k])
        x[k] = tg.where(known, tg.min(tg.max(x[k], -LARGE), LARGE), 0.0)
    return x


@tg.func
def area(low: tg.vec3, high: tg.vec3):
    """Half the surface area of a box; 0 for an empty box."""
    d = high - low
    half = d[0] * d[1] + d[1] * d[2] + d[2] * d[0]
    return tg.where(low[0] <= high[0], half, 0.0)


@tg.func
def vector_min(a: tg.vec3, b: tg.vec3):
    """The component-wise minimum of two vectors without NaN."""
    for k in tg.static(range(3)):
        a[k] = tg.where(a[k] < b[k], a[k], b[k])
    return a


@tg.func
def vector_max(a: tg.vec3, b: tg.vec3):
    """The component-wise maximum of two vectors without NaN."""
    for k in tg.static(range(3)):
        a[k] = tg.where(a[k] > b[k], a[k], b[k])
    return a


@tg.func
def bin_of(x: float, start: float, scale: float):
    """The bin of a centre."""
    return tg.min(tg.max(int((x - start) * scale), 0), BINS - 1)


@tg.func
def levels_of(count: int):
    """The depth of a tree that halves a range of `count` boxes."""
    levels = 0
    while (1 << levels) < count:
        levels += 1
    return levels


@tg.func
def exchange(r: Ranges, i: int, j: int):
    """Swap two boxes."""
    a, b, c = r.lower[i], r.upper[i], r.order[i]
    r.lower[i], r.upper[i], r.order[i] = r.lower[j], r.upper[j], r.order[j]
    r.lower[j], r.upper[j], r.order[j] = a, b, c


@tg.func
def part(r: Ranges, node: int, thread: int, leaf: int, by: int):
    """Write a node's bounds and split its boxes. Returns the end of the first part, or the begin of the range for a
    leaf."""
    b, e = r.begin[node], r.end[node]
    big = tg.vec3(tg.inf, tg.inf, tg.inf)
    low, high, first, last = big, -big, big, -big
    for i in range(b, e):
        lo, hi = r.lower[i], r.upper[i]
        low, high = vector_min(low, lo), vector_max(high, hi)
        c = middle(lo, hi)
        first, last = vector_min(first, c), vector_max(last, c)
    r.node_lower[node], r.node_upper[node] = low, high
    cut = b
    if e - b > leaf:
        cut = b + (e - b) // 2
        if r.level[node] + levels_of(e - b) < DEEPEST:
            if by == SAH and e - b <= FEW:
                cut = in_middle(r, b, e, first, last, cut)
            else:
                cut = by_bins(r, b, e, thread, first, last, by, cut)
    return cut


@tg.func
def by_bins(r: Ranges, b: int, e: int, thread: int, first: tg.vec3, last: tg.vec3, by: int, half: int):
    """Split a range at the best bin boundary; returns `half` if all boxes are in one bin along each axis."""
    scale = tg.vec3(0.0, 0.0, 0.0)
    for k in tg.static(range(3)):
        d = last[k] - first[k]
        scale[k] = tg.where(d > 0.0, float(BINS) / d, 0.0)
        scale[k] = tg.where(scale[k] < LARGE, scale[k], 0.0)
    big = tg.vec3(tg.inf, tg.inf, tg.inf)
    for k in range(AXES * BINS):
        r.bins[thread, k] = 0
        r.low[thread, k], r.high[thread, k] = big, -big
    for i in range(b, e):
        lo, hi = r.lower[i], r.upper[i]
        c = middle(lo, hi)
        for axis in tg.static(range(3)):
            k = axis * BINS + bin_of(c[axis], first[axis], scale[axis])
            r.bins[thread, k] = r.bins[thread, k] + 1
            r.low[thread, k] = vector_min(r.low[thread, k], lo)
            r.high[thread, k] = vector_max(r.high[thread, k], hi)
    best, best_axis, best_bin = float(tg.inf), (-1), 0
    for axis in range(AXES):
        # The sweep from the right computes the cost of the boxes after each bin.
        costs = tg.vector(BINS, float)()
        count, low, high = 0, big, -big
        for back in tg.static(range(BINS - 1)):
            k = axis * BINS + BINS - 1 - back
            count += r.bins[thread, k]
            low, high = vector_min(low, r.low[thread, k]), vector_max(high, r.high[thread, k])
            costs[BINS - 2 - back] = area(low, high) * float(count)
        count, low, high = 0, big, -big
        for k in tg.static(range(BINS - 1)):
            count += r.bins[thread, axis * BINS + k]
            low = vector_min(low, r.low[thread, axis * BINS + k])
            high = vector_max(high, r.high[thread, axis * BINS + k])
            cost = area(low, high) * float(count) + costs[k]
            if by == MEDIAN:
                cost = float(tg.abs(2 * count - (e - b)))
            if count > 0 and count < e - b and cost < best:
                best, best_axis, best_bin = cost, axis, k
    cut = half
    if best_axis >= 0:
        start, along = first[0], scale[0]
        if best_axis == 1:
            start, along = first[1], scale[1]
        if best_axis == 2:
            start, along = first[2], scale[2]
        i = parted(r, b, e, best_axis, start, along, best_bin)
        cut = tg.where(i > b and i < e, i, half)
    return cut


@tg.func
def in_middle(r: Ranges, b: int, e: int, first: tg.vec3, last: tg.vec3, half: int):
    """Split a range in the middle of the axis along which the centres extend furthest; returns `half` if all centres
    are equal."""
    d = last - first
    axis, start, size = 0, first[0], d[0]
    if d[1] > size:
        axis, start, size = 1, first[1], d[1]
    if d[2] > size:
        axis, start, size = 2, first[2], d[2]
    cut = half
    scale = tg.where(size > 0.0, 2.0 / size, 0.0)
    if scale > 0.0 and scale < LARGE:
        cut = parted(r, b, e, axis, start, scale, 0)
    return tg.where(cut > b and cut < e, cut, half)


@tg.func
def parted(r: Ranges, b: int, e: int, axis: int, start: float, along: float, last: int):
    """Partition a range into boxes whose bin is at most `last` and the other boxes; returns the end of the first
    part."""
    i, j = b, e - 1
    while i <= j:
        c = middle(r.lower[i], r.upper[i])
        x = tg.where(axis == 0, c[0], tg.where(axis == 1, c[1], c[2]))
        if bin_of(x, start, along) <= last:
            i += 1
        else:
            exchange(r, i, j)
            j -= 1
    return i


@tg.kernel
def build(r: Ranges, roots: tg.array1d[int], open_nodes: tg.array1d[int], most: int, leaf: int, by: int):
    """Build the subtree of each root in one thread. If there is a list `open_nodes`, nodes of at most `most` boxes are
    appended to the list for later threads; `open_nodes[0]` is their number."""
    t = tg.tid()
    top = 1
    r.stack[t, 0] = roots[t]
    while top > 0:
        top -= 1
        node = r.stack[t, top]
        b, e = r.begin[node], r.end[node]
        if open_nodes is not None and e - b <= most:
            k = open_nodes[0] + 1
            open_nodes[0] = k
            open_nodes[k] = node
        else:
            cut = part(r, node, t, leaf, by)
            r.left[node] = 0
            if cut > b:
                # The children are the two nodes at the position of the split.
                child = 2 * cut
                r.left[node] = child
                r.begin[child], r.end[child] = b, cut
                r.begin[child + 1], r.end[child + 1] = cut, e
                r.level[child], r.level[child + 1] = r.level[node] + 1, r.level[node] + 1
                r.stack[t, top], r.stack[t, top + 1] = child, child + 1
                top += 2
