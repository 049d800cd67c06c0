"""Refits on a CPU: a thread writes the items and then the nodes of a subtree, level by level from the leaves up, while
they are in its cache."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import (
    ALL_COMPONENTS,
    EIGHT,
    VEC8,
    lang,
    vector_at,
    without_points,
)
from tegula.stdlib.geometry.layout import CHILDREN, COUNTS, NODE_BYTES, WIDTH

CHILD_ROW, LAST_ROW = CHILDREN // 32, COUNTS // 32
"""The rows of eight words of a node with its children, and with their numbers of items and the centre."""
ONE, TWO, ANY = 1, 2, 3
"""The largest number of items of a leaf: one, two, or any."""
NODES_AHEAD, ITEMS_AHEAD = 8, 32
"""The numbers of nodes and items by which the children of nodes, and the data of items, are fetched in advance."""
SIGN = -(1 << 31)
"""The sign bit."""


@tg.func
def with_other_signs(box: VEC8):
    """A box whose upper corner is negated, or was negated before: the union of such boxes is one minimum."""
    return tg.bitcast(tg.bitcast(box, int) ^ EIGHT(0, 0, 0, SIGN, SIGN, SIGN, 0, 0), float)


@tg.func
def child_box(items: tg.array1d[VEC8], begin: EIGHT, last: EIGHT, leaf: tg.constexpr, k: tg.constexpr):
    """The box of a child, its upper corner negated; infinities if the box is empty. `begin`, `last`: the first and the
    last item of each child."""
    first = tg.uint32(begin[k])
    box = lang._smaller_of_each(with_other_signs(items[first]), VEC8(tg.inf))
    if leaf > ONE:
        end = tg.uint32(last[k])
        box = lang._smaller_of_each(with_other_signs(items[end]), box)
        if leaf > TWO:
            for i in range(begin[k] + 1, last[k]):
                box = lang._smaller_of_each(with_other_signs(items[i]), box)
    return box


@tg.func
def fit_node(
    nodes: tg.array1d[VEC8], items: tg.array1d[VEC8], inner: int, leaf: tg.constexpr, node: tg.int64
):
    """Write the bounds of the children of a node, and its own box. The deeper levels must be complete.

    The boxes of nodes follow the items from index `inner` on, the box of node 0 is empty, and the item count of a node
    is 0, so that nodes, leaves of at most two items and missing children need no branch. `leaf`: ONE, TWO or ANY."""
    row = node * WIDTH
    children, last_row = tg.bitcast(nodes[row + CHILD_ROW], int), nodes[row + LAST_ROW]
    is_leaf = children >> EIGHT(31)
    begin = (children ^ is_leaf) + (EIGHT(inner) - (EIGHT(inner) & is_leaf))
    last = begin
    if leaf > ONE:
        w = tg.bitcast(last_row, int)
        shifts = EIGHT(0, 8, 16, 24, 0, 8, 16, 24)
        counts = (EIGHT(w[0], w[0], w[0], w[0], w[1], w[1], w[1], w[1]) >> shifts) & EIGHT(255)
        last = begin + lang._larger_of_each(counts, EIGHT(1)) - EIGHT(1)
    a, b = child_box(items, begin, last, leaf, 0), child_box(items, begin, last, leaf, 1)
    c, d = child_box(items, begin, last, leaf, 2), child_box(items, begin, last, leaf, 3)
    e, f = child_box(items, begin, last, leaf, 4), child_box(items, begin, last, leaf, 5)
    g, h = child_box(items, begin, last, leaf, 6), child_box(items, begin, last, leaf, 7)
    box = lang._smaller_of_each(b, a)
    box = lang._smaller_of_each(c, box)
    box = lang._smaller_of_each(d, box)
    box = lang._smaller_of_each(e, box)
    box = lang._smaller_of_each(f, box)
    box = lang._smaller_of_each(g, box)
    box = with_other_signs(lang._smaller_of_each(h, box))
    items[tg.int64(inner) + node] = VEC8(box[0], box[1], box[2], box[3], box[4], box[5], 0.0, 0.0)
    x, y, z, w = lang._transposed_half(a, b, c, d)
    p, q, r, s = lang._transposed_half(e, f, g, h)
    lx, ly, lz = lang._first_half(x, p), lang._first_half(y, q), lang._first_half(z, r)
    hx, hy, hz = -lang._first_half(w, s), -lang._second_half(x, p), -lang._second_half(y, q)
    # Empty bounds are NaN along each axis.
    is_valid, no_bounds = lang._each_within(lx, hx), VEC8(tg.nan)
    nodes[row] = lang._pick_each(is_valid, lx, no_bounds)
    nodes[row + 1] = lang._pick_each(is_valid, ly, no_bounds)
    nodes[row + 2] = lang._pick_each(is_valid, lz, no_bounds)
    nodes[row + 3] = lang._pick_each(is_valid, hx, no_bounds)
    nodes[row + 4] = lang._pick_each(is_valid, hy, no_bounds)
    nodes[row + 5] = lang._pick_each(is_valid, hz, no_bounds)
    low = VEC8(box[0], box[0], box[0], box[0], box[0], box[1], box[2], box[2])
    high = VEC8(box[3], box[3], box[3], box[3], box[3], box[4], box[5], box[5])
    middle = low * 0.5 + high * 0.5
    nodes[row + LAST_ROW] = VEC8(
        last_row[0], last_row[1], last_row[2], last_row[3], middle[4], middle[5], middle[6], last_row[7]
    )


@tg.func
def fit_subtree(
    nodes: tg.array1d[VEC8],
    node_address: tg.uint64,
    items: tg.array1d[VEC8],
    inner: int,
    leaf: tg.constexpr,
    subtrees: tg.array2d[int],
    t: int,
):
    """Write the bounds of the nodes of a subtree, level by level from the leaves up, and the header with the bounds of
    the root."""
    levels = subtrees.shape[1] // 2 - 1
    for step in range(levels):
        level = levels - step
        for node in range(tg.int64(subtrees[t, 2 * level]), tg.int64(subtrees[t, 2 * level + 1])):
            # The other lines of a node are only written.
            lang._read_soon(
                node_address + tg.uint64(node + NODES_AHEAD) * tg.uint64(NODE_BYTES) + tg.uint64(CHILDREN)
            )
            fit_node(nodes, items, inner, leaf, node)
    if subtrees[t, 2] == 1:
        nodes[0] = items[inner + 1]


@tg.func
def corner_offset(item: VEC8):
    """The offset in bytes of the corner of an item in the arrays of corners."""
    return tg.uint64(tg.bitcast(item[6], tg.int32)) * tg.uint64(12)


@tg.kernel
def fit_boxes(
    lower: tg.uint64,
    upper: tg.uint64,
    nodes: tg.array1d[VEC8],
    node_address: tg.uint64,
    items: tg.array1d[VEC8],
    inner: int,
    leaf: tg.constexpr,
    subtrees: tg.array2d[int],
    first: int,
):
    """Write the items and the nodes of a subtree, which fits a CPU's cache. `lower`, `upper`: the addresses of the
    corners of boxes; `node_address`: the address of `nodes`."""
    t = first + tg.tid()
    last = tg.int64(subtrees[t, 1]) - 1
    for position in range(tg.int64(subtrees[t, 0]), tg.int64(subtrees[t, 1])):
        offset_ahead = corner_offset(items[tg.min(position + ITEMS_AHEAD, last)])
        lang._read_soon(lower + offset_ahead)
        lang._read_soon(upper + offset_ahead)
        item = items[position]
        offset = corner_offset(item)
        low, high = vector_at(lower + offset), vector_at(upper + offset)
        # Each vector is made of the components of at most two vectors: one shuffle.
        box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], 0.0, 0.0)
        box = VEC8(box[0], box[1], box[2], box[3], box[4], box[5], item[6], item[7])
        if lang._bits(lang._each_within(low, high)) != tg.uint32(ALL_COMPONENTS):
            box = without_points(item)
        items[position] = box
    fit_subtree(nodes, node_address, items, inner, leaf, subtrees, t)
