"""Refits on a GPU: all items are written, then the nodes level by level from the deepest level up.

Items are written in the order of the hierarchy, and read in the order of their indices, so that one of both accesses is
scattered. Two adjacent threads access two items together, each of them a half of both, because a GPU moves memory in
sectors of the size of an item."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import (
    AXIS_WORD,
    CHILD_WORD,
    COUNT_WORD,
    MIDDLE_WORD,
    NODE,
    UPPER_WORD,
    VEC8,
    is_valid_box,
    level_range,
    named_item,
    with_box,
    without_points,
)
from tegula.stdlib.geometry.layout import WIDTH

HALF = tg.vec4
"""The type of half an item."""


@tg.func
def half_position(position: tg.int64, index: int):
    """The position of a half of an item."""
    return 2 * position + tg.int64(index)


@tg.func
def exchanged_halves(low: HALF, high: HALF):
    """The halves of the items of two adjacent threads that this thread accesses: of the first item and of the second
    item. `low`, `high`: the halves of this thread's item. The function is its own inverse."""
    is_odd = tg.tid() & 1 == 1
    first, second = HALF(), HALF()
    for k in tg.static(range(4)):
        own, sent = tg.where(is_odd, high[k], low[k]), tg.where(is_odd, low[k], high[k])
        received = tg.lane_xor(sent, 1)
        first[k], second[k] = tg.where(is_odd, received, own), tg.where(is_odd, own, received)
    return first, second


@tg.func
def positions_of_pair(position: tg.int64):
    """The positions of the items of two adjacent threads, the first of which has an even index."""
    is_odd, other = tg.tid() & 1 == 1, tg.lane_xor(position, 1)
    return tg.where(is_odd, other, position), tg.where(is_odd, position, other)


@tg.func
def write_item(halves: tg.array1d[HALF], position: tg.int64, item: VEC8):
    """Write an item. All threads of a pair take part."""
    first_position, second_position = positions_of_pair(position)
    first, second = exchanged_halves(
        HALF(item[0], item[1], item[2], item[3]), HALF(item[4], item[5], item[6], item[7])
    )
    lane = tg.tid() & 1
    halves[half_position(first_position, lane)] = first
    halves[half_position(second_position, lane)] = second


@tg.func
def read_item(halves: tg.array1d[HALF], position: tg.int64):
    """Read the halves of an item. All threads of a pair take part."""
    first_position, second_position = positions_of_pair(position)
    lane = tg.tid() & 1
    low, high = exchanged_halves(
        halves[half_position(first_position, lane)], halves[half_position(second_position, lane)]
    )
    return VEC8(low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3])


@tg.func
def own_item(halves: tg.array1d[HALF], position: int):
    """Read an item by one thread."""
    low, high = halves[half_position(tg.int64(position), 0)], halves[half_position(tg.int64(position), 1)]
    return VEC8(low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3])


@tg.kernel
def write_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    groups: tg.array1d[int],
    positions: tg.array1d[int],
    halves: tg.array1d[HALF],
    base: tg.int64,
):
    """Write the boxes of items in the order of their indices, from an item on. The number of threads is even."""
    i = tg.min(tg.tid(), positions.shape[0] - 1)
    low, high, item = lower[i], upper[i], named_item(groups, i)
    box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], item[6], item[7])
    box = tg.where(is_valid_box(low, high), box, without_points(item))
    write_item(halves, base + tg.int64(positions[i]), box)


@tg.kernel
def gather_items(
    records: tg.array1d[HALF], base: tg.int64, sources: tg.array1d[int], halves: tg.array1d[HALF]
):
    """Write items in the order of the hierarchy from records. The number of threads is even."""
    position = tg.min(tg.tid(), sources.shape[0] - 1)
    write_item(halves, tg.int64(position), read_item(records, base + tg.int64(sources[position])))


@tg.kernel
def fit_level(
    words: tg.array1d[int],
    halves: tg.array1d[HALF],
    inner: int,
    single: tg.constexpr,
    counts: tg.array1d[int],
    level: int,
    begin: int,
    size: int,
    threads: int,
):
    """Write the bounds of the children of the nodes of a level, and the nodes' own boxes. The deeper levels must be
    complete. Eight adjacent threads process a node, one child each, so that their accesses are adjacent. `halves`: the
    halves of items, and of the boxes of nodes from item `inner` on."""
    lane, nodes_at_once = tg.tid() % WIDTH, threads // WIDTH
    first, count = level_range(counts, level, begin, size)
    for iteration in range((count + nodes_at_once - 1) // nodes_at_once):
        k = iteration * nodes_at_once + tg.tid() // WIDTH
        node = first + tg.min(k, count - 1)
        first_word = tg.int64(node) * NODE
        child = words[first_word + CHILD_WORD + tg.int64(lane)]
        is_leaf = child >> 31
        item = (child ^ is_leaf) + (inner & ~is_leaf)
        low, high = with_box(VEC8(tg.inf), VEC8(-tg.inf), own_item(halves, item))
        if not single:
            items = (words[first_word + COUNT_WORD + tg.int64(lane // 4)] >> (8 * (lane % 4))) & 255
            for i in range(item + 1, item + items):
                low, high = with_box(low, high, own_item(halves, i))
        is_valid = low[0] <= high[3]
        lower = tg.lane_min(tg.vec3(low[0], low[1], low[2]), WIDTH)
        upper = tg.lane_max(tg.vec3(high[3], high[4], high[5]), WIDTH)
        if k < count:
            for axis in tg.static(range(3)):
                word = first_word + axis * AXIS_WORD + tg.int64(lane)
                words[word] = tg.bitcast(tg.where(is_valid, low[axis], tg.nan), int)
                words[word + UPPER_WORD] = tg.bitcast(tg.where(is_valid, high[3 + axis], tg.nan), int)
            if lane < 2:
                is_low = lane == 0
                halves[half_position(tg.int64(inner) + tg.int64(node), lane)] = HALF(
                    tg.where(is_low, lower[0], upper[1]),
                    tg.where(is_low, lower[1], upper[2]),
                    tg.where(is_low, lower[2], 0.0),
                    tg.where(is_low, upper[0], 0.0),
                )
            if lane < 3:
                middle = 0.0
                for axis in tg.static(range(3)):
                    middle = tg.where(lane == axis, 0.5 * lower[axis] + 0.5 * upper[axis], middle)
                words[first_word + MIDDLE_WORD + tg.int64(lane)] = tg.bitcast(middle, int)


@tg.kernel
def write_header(nodes: tg.array1d[VEC8], items: tg.array1d[VEC8], inner: int):
    """Write the bounds of all items to the header."""
    nodes[0] = items[inner + 1]
