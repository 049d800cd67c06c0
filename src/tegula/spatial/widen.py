"""The collapse of binary hierarchies to hierarchies with eight children per node, level by level.

A binary node that was not split, but has more items than a leaf may have, becomes a node with leaves of adjacent
items."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import (
    CHILD_WORD,
    COUNT_WORD,
    EIGHT,
    EIGHT_FLOATS,
    NODE,
    PARENT_WORD,
    area,
    centre,
    level_begin,
    make_box,
)
from tegula.spatial.build_sah import Ranges
from tegula.stdlib.geometry.layout import WIDTH


@tg.func
def halves(along: EIGHT_FLOATS, parts: EIGHT, number: int):
    """A flag for each child: 1 if its centre is in the upper half of the children in its part, else 0."""
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
def item_range(r: Ranges, at: tg.array1d[int], node: int):
    """The range of positions of the items of a binary node, end exclusive."""
    return at[r.begin[node]], at[r.end[node]]


@tg.func
def child_slots(
    r: Ranges,
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    order: tg.array1d[int],
    kids: EIGHT,
    number: int,
):
    """The slots of a node's children, with one bit per axis, so that rays visit near children before far children. Bit
    0 is set for children in the upper half along x, bit 1 in the upper half of each half along y, bit 2 in the upper
    half of each quarter along z."""
    x, y, z = EIGHT_FLOATS(), EIGHT_FLOATS(), EIGHT_FLOATS()
    for k in tg.static(range(WIDTH)):
        if number > k:
            kid = kids[k]
            c = EIGHT_FLOATS()
            if kid >= 0:
                c = centre(r.box[kid])
            else:
                item = order[-1 - kid]
                c = centre(make_box(lower[item], upper[item]))
            # Empty boxes have no centre, and slots must differ.
            x[k] = tg.where(c[0] == c[0], c[0], 0.0)
            y[k] = tg.where(c[1] == c[1], c[1], 0.0)
            z[k] = tg.where(c[2] == c[2], c[2], 0.0)
    slots = halves(x, EIGHT(), number)
    slots = slots + halves(y, slots, number) * 2
    return slots + halves(z, slots, number) * 4


@tg.func
def is_fixed(fixed: tg.array1d[int], node: int):
    """Whether a binary node must not be collapsed, because it is the root of a group."""
    found = False
    if fixed is not None:
        found = fixed[node] != 0
    return found


@tg.kernel
def begin_level(counts: tg.array1d[int], source: tg.array1d[int], words: tg.array1d[int]):
    """Write the root from the first node of the binary hierarchy."""
    source[1], words[NODE + PARENT_WORD] = 0, 0
    for k in range(counts.shape[0]):
        counts[k] = tg.where(k == 0, 1, 0)


@tg.kernel
def widen(
    r: Ranges,
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    order: tg.array1d[int],
    at: tg.array1d[int],
    fixed: tg.array1d[int],
    leaf: int,
    level: int,
    counts: tg.array1d[int],
    source: tg.array1d[int],
    words: tg.array1d[int],
):
    """Replace the largest children of each node of a level by their children until there are eight, and write the
    children; binary nodes are sources. `at`: the position of the first item of each box; `fixed`: the binary nodes that
    must not be collapsed, the roots of groups; `source`: the binary node of each node."""
    first = level_begin(counts, level)
    node = first + tg.tid()
    binary = source[node]
    # A child is a binary node, or -1 minus the first of adjacent items, whose number is in `sizes`.
    kids, sizes = EIGHT(), EIGHT()
    kids[0] = binary
    number = 1
    opening = True
    while opening and number < WIDTH:
        largest, which = (-1.0), 0
        for k in range(number):
            kid = kids[k]
            if kid >= 0 and (kid == binary or not is_fixed(fixed, kid)):
                parts = 2
                if r.left[kid] == 0:
                    # Items that fit one leaf stay together.
                    parts = (r.weight[kid] + leaf - 1) // leaf
                    parts = tg.where(parts == 1, WIDTH, parts)
                size = area(r.box[kid])
                size = tg.where(size == size, size, tg.inf)
                if number + parts - 1 <= WIDTH and size > largest:
                    largest, which = size, k
        opening = largest >= 0.0
        if opening:
            kid = kids[which]
            if r.left[kid] != 0:
                kids[which], kids[number] = r.left[kid], r.left[kid] + 1
                number += 1
            else:
                begin, end = item_range(r, at, kid)
                parts = tg.min(end - begin, WIDTH + 1 - number)
                for k in range(parts):
                    place = begin + k * (end - begin) // parts
                    to = tg.where(k == 0, which, number)
                    kids[to], sizes[to] = -1 - place, begin + (k + 1) * (end - begin) // parts - place
                    number += tg.where(k == 0, 0, 1)
    slots = child_slots(r, lower, upper, order, kids, number)
    for k in range(number):
        kid = kids[k]
        if kid >= 0:
            begin, end = item_range(r, at, kid)
            if r.left[kid] == 0 and end - begin <= leaf and (kid == binary or not is_fixed(fixed, kid)):
                kids[k], sizes[k] = -1 - begin, end - begin
    place = node * NODE
    for k in range(WIDTH):
        words[place + CHILD_WORD + k] = 0
    bits = tg.uint64(0)
    for k in range(number):
        slot = slots[k]
        words[place + CHILD_WORD + slot] = kids[k]
        bits = bits | (tg.uint64(sizes[k]) << tg.uint64(8 * slot))
    words[place + COUNT_WORD] = tg.int32(tg.uint32(bits))
    words[place + COUNT_WORD + 1] = tg.int32(tg.uint32(bits >> tg.uint64(32)))
