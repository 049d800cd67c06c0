"""Hierarchies of eight children a node, of binary ones."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import CHILD_WORD, COUNT_WORD, EIGHT, EIGHT_FLOATS, NODE, PARENT_WORD, in_order
from tegula.spatial.build_sah import Ranges, area, middle
from tegula.stdlib.geometry.layout import LEVELS, WIDTH


@tg.func
def halves(along: EIGHT_FLOATS, parts: EIGHT, number: int):
    """For each child, 1 if its centre is in the upper half of the children in its part, else 0."""
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
    """The slots of a node's children, with one bit per axis, so that rays visit near children before far ones. Bit 0 is
    set for children in the upper half along x, bit 1 in the upper half of each half along y, bit 2 in the upper half of
    each quarter along z."""
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
    """Replace the largest children of each node by their children until there are eight, level by level. `fixed`:
    binary nodes that are not collapsed, the roots of groups; `source`: the binary node of each node; `levels`: [0] the
    number of nodes, then the first node of each level and the end of the last level."""
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


@tg.kernel
def place_ranges(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    order: tg.array1d[int],
    to_lower: tg.array1d[tg.vec3],
    to_upper: tg.array1d[tg.vec3],
):
    """Write the boxes in an order. An empty box has its lower bounds above its upper bounds, so that it does not change
    unions."""
    i = tg.tid()
    low, high = lower[order[i]], upper[order[i]]
    if not in_order(low, high):
        low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    to_lower[i], to_upper[i] = low, high
