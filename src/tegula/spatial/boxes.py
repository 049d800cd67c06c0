"""The boxes of a hierarchy of eight children a node: of its items, and of its nodes level by level from below."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    ITEM_BYTES,
    MIDDLE,
    NODE_BYTES,
    PARENT,
    UPPER,
    WIDTH,
)
from tegula.types import VecType, float32

NODE = NODE_BYTES // 4
"""The size of a node in words of four bytes."""
CHILD_WORD, COUNT_WORD, PARENT_WORD, MIDDLE_WORD = CHILDREN // 4, COUNTS // 4, PARENT // 4, MIDDLE // 4
UPPER_WORD, AXIS_WORD = UPPER // 4, AXIS // 4
EIGHT_FLOATS, EIGHT = tg.vector(WIDTH, float), tg.vector(WIDTH, int)
VEC8 = VecType(WIDTH, float32)
lang: Any = tg
"""The language with its internal functions."""
LARGE = 1.0e38
"""Boxes are built of as if no coordinate were larger."""


@tg.func
def is_valid_box(low: tg.vec3, high: tg.vec3):
    """Whether a box has points: it is in order, and has no NaN."""
    return low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]


@tg.func
def make_box(low: tg.vec3, high: tg.vec3):
    """A box as eight floats: the lower corner, the negated upper one, and two zeros; infinities for an empty box."""
    b = VEC8(tg.inf)
    if is_valid_box(low, high):
        b = VEC8(low[0], low[1], low[2], -high[0], -high[1], -high[2], 0.0, 0.0)
        b = lang._larger_of_each(lang._smaller_of_each(b, VEC8(LARGE)), VEC8(-LARGE))
    return b


@tg.func
def union(a: VEC8, b: VEC8):
    """The union of two boxes; NaN components of the first are ignored."""
    return lang._smaller_of_each(a, b)


@tg.func
def centre(b: VEC8):
    """The centre of a box, and the centre negated; NaN for an empty box."""
    # Bits of numbers would be floats too small for fast multiplication.
    half = VEC8(b[0], b[1], b[2], b[3], b[4], b[5], 0.0, 0.0) * 0.5
    return half - VEC8(half[3], half[4], half[5], half[0], half[1], half[2], 0.0, 0.0)


@tg.func
def area(b: VEC8):
    """Half the surface area of a box; 0 for an empty box."""
    x, y, z = -(b[0] + b[3]), -(b[1] + b[4]), -(b[2] + b[5])
    return tg.where(x >= 0.0, x * y + y * z + z * x, 0.0)


@tg.func
def level_begin(counts: tg.array1d[int], level: int):
    """The first node of a level, by the numbers of nodes of all levels."""
    first = 1
    for k in range(level):
        first += counts[k]
    return first


@tg.kernel
def write_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    groups: tg.array1d[int],
    order: tg.array1d[int],
    items: tg.array1d[VEC8],
):
    """Write the boxes of items, NaN where one has no points; with `order` also their numbers and groups."""
    i = tg.tid()
    number, group = 0, 0
    if order is not None:
        number = order[i]
        if groups is not None:
            group = groups[number]
    else:
        item = items[i]
        number, group = tg.bitcast(item[6], tg.int32), tg.bitcast(item[7], tg.int32)
    low, high = lower[number], upper[number]
    box = VEC8(tg.nan)
    if is_valid_box(low, high):
        box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], 0.0, 0.0)
    box[6], box[7] = tg.bitcast(number, tg.float32), tg.bitcast(group, tg.float32)
    items[i] = box


@tg.func
def leaf_bounds(items: tg.uint64, begin: int, count: int):
    """The bounds of adjacent items; boxes of NaN are ignored. Most leaves have no more than two items, for which
    there is no branch."""
    last = begin + count - 1
    first = lang._element_at(items + tg.uint64(tg.max(begin, 0)) * ITEM_BYTES, VEC8)
    final = lang._element_at(items + tg.uint64(tg.max(last, 0)) * ITEM_BYTES, VEC8)
    low = lang._smaller_of_each(final, lang._smaller_of_each(first, VEC8(tg.inf)))
    high = lang._larger_of_each(final, lang._larger_of_each(first, VEC8(-tg.inf)))
    for i in range(begin + 1, last):
        box = lang._element_at(items + tg.uint64(i) * ITEM_BYTES, VEC8)
        low, high = lang._smaller_of_each(box, low), lang._larger_of_each(box, high)
    return tg.vec3(low[0], low[1], low[2]), tg.vec3(high[3], high[4], high[5])


@tg.func
def rotate_components(v: VEC8, by: int):
    """The components of a vector, moved by a number of places."""
    r = VEC8()
    for k in tg.static(range(WIDTH)):
        r[k] = v[(k + by) % WIDTH]
    return r


@tg.func
def node_bounds(nodes: tg.uint64, node: int):
    """The bounds of the children of a node; boxes of NaN are ignored."""
    low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    at = nodes + tg.uint64(node) * NODE_BYTES
    for axis in tg.static(range(3)):
        lower = lang._smaller_of_each(lang._element_at(at + axis * AXIS, VEC8), VEC8(tg.inf))
        upper = lang._larger_of_each(lang._element_at(at + UPPER + axis * AXIS, VEC8), VEC8(-tg.inf))
        for by in tg.static((4, 2, 1)):
            lower = lang._smaller_of_each(lower, rotate_components(lower, by))
            upper = lang._larger_of_each(upper, rotate_components(upper, by))
        low[axis], high[axis] = lower[0], upper[0]
    return low, high


@tg.func
def write_centre(nodes: tg.array1d[float], node: int, low: tg.vec3, high: tg.vec3):
    """Write the middle of a node's bounds."""
    at = tg.int64(node) * NODE + MIDDLE_WORD
    for axis in tg.static(range(3)):
        nodes[at + axis] = 0.5 * low[axis] + 0.5 * high[axis]


@tg.func
def refit_child(
    nodes: tg.array1d[float], words: tg.array1d[int], at: tg.uint64, items: tg.uint64, node: int, k: int
):
    """Write the bounds of a child of a node, whose levels below are done; `at`: the address of the nodes."""
    place = tg.int64(node) * NODE + tg.int64(k)
    child = words[place + CHILD_WORD]
    low, high = tg.vec3(tg.nan, tg.nan, tg.nan), tg.vec3(tg.nan, tg.nan, tg.nan)
    if child > 0:
        low, high = node_bounds(at, child)
        write_centre(nodes, child, low, high)
    else:
        quarter = tg.int64(k // 4)
        count = (words[tg.int64(node) * NODE + COUNT_WORD + quarter] >> (8 * (k % 4))) & 255
        low, high = leaf_bounds(items, -1 - child, count)
        for axis in tg.static(range(3)):
            low[axis] = tg.where(count > 0, low[axis], tg.nan)
    # Empty boxes are empty along each axis.
    for axis in tg.static(range(3)):
        nodes[place + axis * AXIS_WORD] = tg.where(low[0] <= high[0], low[axis], tg.nan)
        nodes[place + UPPER_WORD + axis * AXIS_WORD] = tg.where(low[0] <= high[0], high[axis], tg.nan)


@tg.kernel
def refit_nodes(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    at: tg.uint64,
    items: tg.uint64,
    each: tg.constexpr,
    counts: tg.array1d[int],
    level: int,
    threads: int,
):
    """Write the bounds of the children of the nodes of a level, whose levels below are done. `each`: the number of
    threads of a node."""
    first = level_begin(counts, level)
    for part in range(tg.tid(), each * counts[level], threads):
        for k in range(part % each, WIDTH, each):
            refit_child(nodes, words, at, items, first + part // each, k)


@tg.kernel
def write_header(nodes: tg.array1d[float], at: tg.uint64):
    """Write the bounds of all items."""
    low, high = node_bounds(at, 1)
    write_centre(nodes, 1, low, high)
    for k in tg.static(range(3)):
        nodes[k], nodes[3 + k] = low[k], high[k]
