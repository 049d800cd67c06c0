"""Hierarchies of eight children a node, of binary ones; and their boxes, written and renewed from the leaves up."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.build_sah import Ranges, area, middle
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    ITEM_BYTES,
    LEVELS,
    MIDDLE,
    NODE_BYTES,
    PARENT,
    UPPER,
    WIDTH,
)

NODE, ITEM = NODE_BYTES // 4, ITEM_BYTES // 4
"""The sizes of nodes and items in words of four bytes."""
CHILD_WORD, COUNT_WORD, PARENT_WORD, MIDDLE_WORD = CHILDREN // 4, COUNTS // 4, PARENT // 4, MIDDLE // 4
UPPER_WORD, AXIS_WORD = UPPER // 4, AXIS // 4


EIGHT_FLOATS, EIGHT = tg.vector(WIDTH, float), tg.vector(WIDTH, int)


@tg.func
def halves(along: EIGHT_FLOATS, parts: EIGHT, number: int):
    """For each of some children 1 if it is in the upper half of those in its part, by the place of its middle, else
    0."""
    upper = EIGHT()
    for k in tg.static(range(WIDTH)):
        below, all = 0, 0
        for j in tg.static(range(WIDTH)):
            together = (parts[j] == parts[k]) & (number > j)
            before = (along[j] < along[k]) | ((along[j] == along[k]) & (j < k))
            all += tg.where(together, 1, 0)
            below += tg.where(together & before, 1, 0)
        upper[k] = tg.where(2 * below >= all, 1, 0)
    return upper


@tg.func
def slots_of(r: Ranges, kids: EIGHT, number: int):
    """The places of a node's children, one bit for each axis, so that rays find near children before far ones: those of
    the upper half along x have bit 0, of each half those of its upper half along y bit 1, of each quarter bit 2."""
    x, y, z = EIGHT_FLOATS(), EIGHT_FLOATS(), EIGHT_FLOATS()
    for k in tg.static(range(WIDTH)):
        kid = tg.where(number > k, kids[k], kids[0])
        c = middle(r.node_lower[kid], r.node_upper[kid])
        x[k], y[k], z[k] = c[0], c[1], c[2]
    slots = halves(x, EIGHT(), number)
    slots = slots + halves(y, slots, number) * 2
    return slots + halves(z, slots, number) * 4


@tg.kernel
def widen(
    r: Ranges,
    fixed: tg.array1d[int],
    source: tg.array1d[int],
    words: tg.array1d[int],
    levels: tg.array1d[int],
):
    """Open the largest children of each node until there are eight, level by level. `fixed`: binary nodes that stay
    nodes, the roots of groups; `source`: the binary node of each node; `levels`: [0] the number of nodes, then the
    first node of each level, and the number after the last."""
    count, node, level, level_end = 1, 1, 0, 0
    source[1] = 0
    words[NODE + PARENT_WORD] = 0
    while node <= count:
        if node > level_end:
            level += 1
            level_end = count
            if level <= LEVELS:
                levels[level] = node
        binary = source[node]
        kids = tg.vector(WIDTH, int)()
        kids[0] = binary
        number = 1
        if r.left[binary] != 0:
            kids[0], kids[1], number = r.left[binary], r.left[binary] + 1, 2
        opening = number == 2
        while opening and number < WIDTH:
            largest, which = (-1.0), 0
            for k in range(number):
                kid = kids[k]
                closed = r.left[kid] == 0
                if fixed is not None:
                    closed = closed or fixed[kid] != 0
                size = area(r.node_lower[kid], r.node_upper[kid])
                size = tg.where(size == size, size, tg.inf)
                if not closed and size > largest:
                    largest, which = size, k
            opening = largest >= 0.0
            if opening:
                below = r.left[kids[which]]
                kids[which] = below
                kids[number] = below + 1
                number += 1
        at = node * NODE
        counts = tg.uint64(0)
        slots = slots_of(r, kids, number)
        for k in range(WIDTH):
            words[at + CHILD_WORD + k] = 0
        for k in range(number):
            kid, slot = kids[k], slots[k]
            is_leaf = r.left[kid] == 0
            if fixed is not None:
                is_leaf = is_leaf and (fixed[kid] == 0 or kid == binary)
            if is_leaf:
                words[at + CHILD_WORD + slot] = -1 - r.begin[kid]
                counts = counts | (tg.uint64(r.end[kid] - r.begin[kid]) << tg.uint64(8 * slot))
            else:
                count += 1
                source[count] = kid
                words[at + CHILD_WORD + slot] = count
                words[count * NODE + PARENT_WORD] = node
        words[at + COUNT_WORD] = tg.int32(tg.uint32(counts))
        words[at + COUNT_WORD + 1] = tg.int32(tg.uint32(counts >> tg.uint64(32)))
        node += 1
    levels[0] = count
    levels[tg.min(level, LEVELS) + 1] = count + 1
    levels[LEVELS + 2] = level


@tg.func
def in_order(low: tg.vec3, high: tg.vec3):
    """Whether a box has points: it is in order, and has no NaN."""
    return low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]


@tg.kernel
def place_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    groups: tg.array1d[int],
    boxes: tg.array1d[float],
    words: tg.array1d[int],
    order: tg.array1d[int],
):
    """Write the boxes of items, NaN where one has no points; with `order` also their indices and groups."""
    i = tg.tid()
    at = i * ITEM
    if order is not None:
        words[at + 6] = order[i]
        words[at + 7] = 0
        if groups is not None:
            words[at + 7] = groups[order[i]]
    item = words[at + 6]
    low, high = lower[item], upper[item]
    if not in_order(low, high):
        low, high = tg.vec3(tg.nan, tg.nan, tg.nan), tg.vec3(tg.nan, tg.nan, tg.nan)
    for k in tg.static(range(3)):
        boxes[at + k], boxes[at + 3 + k] = low[k], high[k]


@tg.kernel
def place_ranges(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    order: tg.array1d[int],
    to_lower: tg.array1d[tg.vec3],
    to_upper: tg.array1d[tg.vec3],
):
    """The boxes in an order; one without points is out of order along each axis, and so counts for nothing."""
    i = tg.tid()
    low, high = lower[order[i]], upper[order[i]]
    if not in_order(low, high):
        low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    to_lower[i], to_upper[i] = low, high


@tg.func
def bounds_of_leaf(boxes: tg.array1d[float], begin: int, end: int):
    """The bounds of adjacent items."""
    low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    for i in range(begin, end):
        at = i * ITEM
        if boxes[at] == boxes[at]:
            low = tg.min(low, tg.vec3(boxes[at], boxes[at + 1], boxes[at + 2]))
            high = tg.max(high, tg.vec3(boxes[at + 3], boxes[at + 4], boxes[at + 5]))
    return low, high


@tg.func
def bounds_of_node(nodes: tg.array1d[float], node: int):
    """The bounds of the children of a node."""
    low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    for k in range(WIDTH):
        at = node * NODE + k
        if nodes[at] == nodes[at]:
            low = tg.min(low, tg.vec3(nodes[at], nodes[at + AXIS_WORD], nodes[at + 2 * AXIS_WORD]))
            up = at + UPPER_WORD
            high = tg.max(high, tg.vec3(nodes[up], nodes[up + AXIS_WORD], nodes[up + 2 * AXIS_WORD]))
    return low, high


@tg.kernel
def renew(nodes: tg.array1d[float], words: tg.array1d[int], boxes: tg.array1d[float], first: int):
    """Write the bounds of the children of the nodes of a level, whose levels below are done."""
    node = first + tg.tid()
    at = node * NODE
    first_corner, last_corner = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    for k in range(WIDTH):
        child = words[at + CHILD_WORD + k]
        low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
        if child > 0:
            low, high = bounds_of_node(nodes, child)
        elif child < 0:
            count = (words[at + COUNT_WORD + k // 4] >> (8 * (k % 4))) & 255
            low, high = bounds_of_leaf(boxes, -1 - child, -1 - child + count)
        first_corner, last_corner = tg.min(first_corner, low), tg.max(last_corner, high)
        if not in_order(low, high):
            low, high = tg.vec3(tg.nan, tg.nan, tg.nan), tg.vec3(tg.nan, tg.nan, tg.nan)
        for axis in tg.static(range(3)):
            nodes[at + axis * AXIS_WORD + k] = low[axis]
            nodes[at + UPPER_WORD + axis * AXIS_WORD + k] = high[axis]
    for axis in tg.static(range(3)):
        nodes[at + MIDDLE_WORD + axis] = 0.5 * first_corner[axis] + 0.5 * last_corner[axis]


@tg.kernel
def write_header(nodes: tg.array1d[float]):
    """Write the bounds of all items."""
    low, high = bounds_of_node(nodes, 1)
    for k in tg.static(range(3)):
        nodes[k], nodes[3 + k] = low[k], high[k]
