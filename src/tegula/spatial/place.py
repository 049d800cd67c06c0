"""The nodes and the items of a hierarchy that was built on the CPU, in their order in memory."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import (
    CHILD_WORD,
    COUNT_WORD,
    EIGHT,
    VEC8,
    lang,
    named_item,
    write_box,
)
from tegula.spatial.refit import fit_subtree
from tegula.spatial.widen import PARENT, RECORD, Records
from tegula.stdlib.geometry.layout import WIDTH


@tg.func
def place_node(r: Records, record: int, node: int, shift: int, parent: int, nodes: tg.array1d[EIGHT]):
    """Write a node from its record. `shift`: the difference of the indices of child nodes and their records."""
    children = r.records[RECORD * record]
    is_node = lang._each_below(EIGHT(0), children)
    row = tg.int64(node) * WIDTH
    nodes[row + CHILD_WORD // WIDTH] = lang._pick_each(is_node, children + EIGHT(shift - 1), children)
    words = RECORD * WIDTH * record + WIDTH
    nodes[row + COUNT_WORD // WIDTH] = EIGHT(r.words[words], r.words[words + 1], parent, 0, 0, 0, 0, 0)


@tg.func
def place_nodes(
    r: Records,
    subtrees: tg.array2d[int],
    shifts: tg.array2d[int],
    nodes: tg.array1d[EIGHT],
    top: int,
    t: int,
):
    """Write the nodes of a subtree, or for the last row of `subtrees` the `top` nodes of the first levels. `subtrees`:
    the range of nodes of each level, after the range of items; `shifts`: the differences of the indices of the nodes of
    each level and their records."""
    if t < shifts.shape[0]:
        parent_shift = 1
        for level in range(shifts.shape[1] - 1):
            shift, child_shift = shifts[t, level], shifts[t, level + 1]
            for node in range(subtrees[t, 2 * level + 2], subtrees[t, 2 * level + 3]):
                record = node - shift
                place_node(r, record, node, child_shift, parent_shift + r.origin[PARENT, record], nodes)
            parent_shift = shift
    elif t == subtrees.shape[0] - 1:
        for record in range(top):
            place_node(r, record, 1 + record, 1, 1 + r.origin[PARENT, record], nodes)


@tg.kernel
def place_subtrees(
    r: Records, subtrees: tg.array2d[int], shifts: tg.array2d[int], nodes: tg.array1d[EIGHT], top: int
):
    """Write the nodes of the subtrees of a hierarchy that is copied to a GPU, and the nodes of the first levels."""
    place_nodes(r, subtrees, shifts, nodes, top, tg.tid())


@tg.kernel
def build_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    groups: tg.array1d[int],
    order: tg.array1d[int],
    nodes: tg.array1d[VEC8],
    node_address: tg.uint64,
    items: tg.array1d[VEC8],
    inner: int,
    leaf: tg.constexpr,
    subtrees: tg.array2d[int],
    r: Records,
    shifts: tg.array2d[int],
    rows: tg.array1d[EIGHT],
    top: int,
    first: int,
):
    """Write the nodes and the items of a subtree, as `fit_boxes` does after a build."""
    t = first + tg.tid()
    place_nodes(r, subtrees, shifts, rows, top, t)
    for position in range(subtrees[t, 0], subtrees[t, 1]):
        write_box(lower, upper, items, position, named_item(groups, order[position]))
    fit_subtree(nodes, node_address, items, inner, leaf, subtrees, t)
