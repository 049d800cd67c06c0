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

NODE, ITEM = NODE_BYTES // 4, ITEM_BYTES // 4
"""The sizes of nodes and items in words of four bytes."""
CHILD_WORD, COUNT_WORD, PARENT_WORD, MIDDLE_WORD = CHILDREN // 4, COUNTS // 4, PARENT // 4, MIDDLE // 4
UPPER_WORD, AXIS_WORD = UPPER // 4, AXIS // 4
EIGHT_FLOATS, EIGHT = tg.vector(WIDTH, float), tg.vector(WIDTH, int)
VEC8 = VecType(WIDTH, float32)
lang: Any = tg
"""The language with its internal functions."""


@tg.func
def in_order(low: tg.vec3, high: tg.vec3):
    """Whether a box has points: it is in order, and has no NaN."""
    return low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]


@tg.func
def first_of_level(counts: tg.array1d[int], level: int):
    """The first node of a level, by the numbers of nodes of all levels."""
    first = 1
    for k in range(level):
        first += counts[k]
    return first


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
    at = tg.int64(i) * ITEM
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


@tg.func
def bounds_of_leaf(items: tg.uint64, begin: int, end: int):
    """The bounds of adjacent items; boxes of NaN count for nothing."""
    low, high = VEC8(tg.inf), VEC8(-tg.inf)
    for i in range(begin, end):
        box = lang._element_at(items + tg.uint64(i) * ITEM_BYTES, VEC8)
        low, high = lang._smaller_of_each(box, low), lang._larger_of_each(box, high)
    return tg.vec3(low[0], low[1], low[2]), tg.vec3(high[3], high[4], high[5])


@tg.func
def bounds_of_node(nodes: tg.uint64, node: int):
    """The bounds of the children of a node; boxes of NaN count for nothing."""
    low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    at = nodes + tg.uint64(node) * NODE_BYTES
    for axis in tg.static(range(3)):
        lower = lang._element_at(at + axis * AXIS, VEC8)
        upper = lang._element_at(at + UPPER + axis * AXIS, VEC8)
        for k in tg.static(range(WIDTH)):
            low[axis] = tg.where(lower[k] < low[axis], lower[k], low[axis])
            high[axis] = tg.where(upper[k] > high[axis], upper[k], high[axis])
    return low, high


@tg.func
def write_middle(nodes: tg.array1d[float], node: int, low: tg.vec3, high: tg.vec3):
    """Write the middle of a node's bounds."""
    at = tg.int64(node) * NODE + MIDDLE_WORD
    for axis in tg.static(range(3)):
        nodes[at + axis] = 0.5 * low[axis] + 0.5 * high[axis]


@tg.func
def renew_child(
    nodes: tg.array1d[float], words: tg.array1d[int], at: tg.uint64, items: tg.uint64, node: int, k: int
):
    """Write the bounds of a child of a node, whose levels below are done; `at`: the address of the nodes."""
    place = tg.int64(node) * NODE + tg.int64(k)
    child = words[place + CHILD_WORD]
    low, high = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    if child > 0:
        low, high = bounds_of_node(at, child)
        write_middle(nodes, child, low, high)
    elif child < 0:
        quarter = tg.int64(k // 4)
        count = (words[tg.int64(node) * NODE + COUNT_WORD + quarter] >> (8 * (k % 4))) & 255
        low, high = bounds_of_leaf(items, -1 - child, -1 - child + count)
    if not in_order(low, high):
        low, high = tg.vec3(tg.nan, tg.nan, tg.nan), tg.vec3(tg.nan, tg.nan, tg.nan)
    for axis in tg.static(range(3)):
        nodes[place + axis * AXIS_WORD] = low[axis]
        nodes[place + UPPER_WORD + axis * AXIS_WORD] = high[axis]


@tg.kernel
def renew_nodes(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    at: tg.uint64,
    items: tg.uint64,
    counts: tg.array1d[int],
    level: int,
    threads: int,
):
    """Write the bounds of the children of the nodes of a level, whose levels below are done; a thread has nodes."""
    first = first_of_level(counts, level)
    for node in range(first + tg.tid(), first + counts[level], threads):
        for k in range(WIDTH):
            renew_child(nodes, words, at, items, node, k)


@tg.kernel
def renew_children(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    at: tg.uint64,
    items: tg.uint64,
    counts: tg.array1d[int],
    level: int,
    threads: int,
):
    """Write the bounds of the children of the nodes of a level, whose levels below are done; a thread has children."""
    first = first_of_level(counts, level)
    for child in range(tg.tid(), WIDTH * counts[level], threads):
        renew_child(nodes, words, at, items, first + child // WIDTH, child % WIDTH)


@tg.kernel
def write_header(nodes: tg.array1d[float], at: tg.uint64):
    """Write the bounds of all items."""
    low, high = bounds_of_node(at, 1)
    write_middle(nodes, 1, low, high)
    for k in tg.static(range(3)):
        nodes[k], nodes[3 + k] = low[k], high[k]
