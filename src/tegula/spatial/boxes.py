"""The boxes of a hierarchy with eight children per node: the boxes of its items, and of its nodes, level by level from
the leaves up."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    MIDDLE,
    NODE_BYTES,
    PARENT,
    UPPER,
    WIDTH,
)
from tegula.types import VecType, float32, int32

NODE = NODE_BYTES // 4
"""The size of a node in 32-bit words."""
CHILD_WORD, COUNT_WORD, PARENT_WORD, MIDDLE_WORD = CHILDREN // 4, COUNTS // 4, PARENT // 4, MIDDLE // 4
UPPER_WORD, AXIS_WORD = UPPER // 4, AXIS // 4
VEC8, EIGHT = VecType(WIDTH, float32), VecType(WIDTH, int32)
lang: Any = tg
"""The language with its internal functions."""
ALL_COMPONENTS = (1 << WIDTH) - 1
"""The bits of all components of a vector."""
NONE = (1 << 31) - 1
"""An index above all node and item indices."""
LARGE = 1.0e38
"""The limit to which the coordinates of boxes are clamped for the build."""


@tg.func
def vector_at(address: tg.uint64):
    """The vec3 at an address in the first components of a vector."""
    p = lang._element_at(address, tg.vec3)
    return VEC8(p[0], p[1], p[2], 0.0, 0.0, 0.0, 0.0, 0.0)


@tg.func
def is_valid_box(low: tg.vec3, high: tg.vec3):
    """Whether a box is not empty: its corners are in order, and no coordinate is NaN."""
    return low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]


@tg.func
def clamped(box: VEC8):
    """A box with coordinates of at most LARGE."""
    return lang._larger_of_each(lang._smaller_of_each(box, VEC8(LARGE)), VEC8(-LARGE))


@tg.func
def make_box(low: tg.vec3, high: tg.vec3):
    """A box as eight floats: the lower corner, the negated upper corner, and two zeros; infinities for an empty box."""
    b = VEC8(tg.inf)
    if is_valid_box(low, high):
        b = clamped(VEC8(low[0], low[1], low[2], -high[0], -high[1], -high[2], 0.0, 0.0))
    return b


@tg.func
def union(a: VEC8, b: VEC8):
    """The union of two boxes; NaN components of the first are ignored."""
    return lang._smaller_of_each(a, b)


@tg.func
def centre(b: VEC8):
    """The centre of a box, and the negated centre; NaN for an empty box."""
    # The bits of integers in the last components would be subnormal floats, whose multiplication is slow.
    half = VEC8(b[0], b[1], b[2], b[3], b[4], b[5], 0.0, 0.0) * 0.5
    return half - VEC8(half[3], half[4], half[5], half[0], half[1], half[2], 0.0, 0.0)


@tg.func
def area(b: VEC8):
    """Half the surface area of a box; 0 for an empty box."""
    x, y, z = -(b[0] + b[3]), -(b[1] + b[4]), -(b[2] + b[5])
    return tg.where(x >= 0.0, x * y + y * z + z * x, 0.0)


@tg.func
def level_begin(counts: tg.array1d[int], level: int):
    """The index of the first node of a level, given the numbers of nodes of all levels."""
    first = 1
    for k in range(level):
        first += counts[k]
    return first


@tg.func
def level_range(counts: tg.array1d[int], level: int, begin: int, size: int):
    """The first node of a level and the number of its nodes: `begin` and `size`, or, if `begin` is 0, computed from the
    numbers of nodes of all levels."""
    first, count = begin, size
    if begin == 0:
        first, count = tg.uniform(level_begin(counts, level)), tg.uniform(counts[level])
    return first, count


@tg.kernel
def invert_order(order: tg.array1d[int], positions: tg.array1d[int]):
    """Write the inverse of a permutation of items."""
    i = tg.tid()
    positions[order[i]] = i


@tg.func
def named_item(groups: tg.array1d[int], index: int):
    """An item without a box: its index and its group."""
    item, group = VEC8(), 0
    if groups is not None:
        group = groups[index]
    item[6], item[7] = tg.bitcast(index, tg.float32), tg.bitcast(group, tg.float32)
    return item


@tg.func
def without_points(item: VEC8):
    """The item with an empty box."""
    return VEC8(tg.nan, tg.nan, tg.nan, tg.nan, tg.nan, tg.nan, item[6], item[7])


@tg.func
def write_box(
    lower: tg.array1d[tg.vec3], upper: tg.array1d[tg.vec3], items: tg.array1d[VEC8], position: int, item: VEC8
):
    """Write the box of an item, NaN if the box is empty. `item`: the index and the group."""
    index = tg.bitcast(item[6], tg.int32)
    low, high = lower[index], upper[index]
    box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], item[6], item[7])
    items[position] = tg.where(is_valid_box(low, high), box, without_points(item))


@tg.kernel
def number_items(groups: tg.array1d[int], order: tg.array1d[int], items: tg.array1d[VEC8]):
    """Write the index and the group of each item."""
    i = tg.tid()
    items[i] = named_item(groups, order[i])


@tg.kernel
def write_no_box(items: tg.array1d[VEC8], position: int):
    """Write an empty box."""
    items[position] = VEC8(tg.nan)


@tg.func
def with_box(low: VEC8, high: VEC8, box: VEC8):
    """The union of bounds and one more box; NaN components of the box are ignored."""
    return lang._smaller_of_each(box, low), lang._larger_of_each(box, high)


@tg.func
def corners(low: VEC8, high: VEC8):
    """A box with the lower corner of one box and the upper corner of another box."""
    return VEC8(low[0], low[1], low[2], high[3], high[4], high[5], 0.0, 0.0)


@tg.kernel
def write_subtrees(words: tg.array1d[int], first: int, levels: int, subtrees: tg.array2d[int]):
    """Write the subtree of a node: the range of its items, and the range of its nodes on each level."""
    t = tg.tid()
    begin, end = first + t, first + t + 1
    first_item, end_item = NONE, 0
    for level in range(levels):
        subtrees[t, 2 * level + 2], subtrees[t, 2 * level + 3] = begin, end
        lower, upper = NONE, 0
        for node in range(begin, end):
            first_word = tg.int64(node) * NODE
            for k in tg.static(range(WIDTH)):
                child = words[first_word + CHILD_WORD + k]
                if child > 0:
                    lower, upper = tg.min(lower, child), tg.max(upper, child + 1)
                elif child < 0:
                    count = (words[first_word + COUNT_WORD + k // 4] >> (8 * (k % 4))) & 255
                    first_item, end_item = (
                        tg.min(first_item, -1 - child),
                        tg.max(end_item, -1 - child + count),
                    )
        begin, end = tg.min(lower, upper), upper
    subtrees[t, 0], subtrees[t, 1] = tg.min(first_item, end_item), end_item
