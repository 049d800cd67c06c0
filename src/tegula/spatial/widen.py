"""The collapse of binary hierarchies to hierarchies with eight children per node.

The largest child of a node is replaced by its two children until there are eight. A binary node of few items becomes a
node with leaves of adjacent items, or, where there is room, leaves of its parent.

One thread writes the first levels, until there are enough nodes; then each of these nodes is the root of a subtree,
which one thread writes. Nodes are first written as short records, in the order of levels within a subtree."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.agglomerate import BinaryTree
from tegula.spatial.boxes import (
    EIGHT,
    VEC8,
    area,
    lang,
)
from tegula.stdlib.geometry.layout import LEVELS, WIDTH

ALL = (1 << 31) - 1
"""A number above all numbers of nodes, and all but the highest bit."""
RECORD = 2
"""The number of vectors of a record: the children as in a node, except that the child nodes are 1 plus their records;
and the words of the numbers of items of leaves."""
NODE, START, SIZE, CUT, SLOT, HOLDER = range(6)
"""The rows with the binary node of each child of a node, its first item, its number of items, 1 for a leaf that is a
part of a binary node, and its slot; and with the child in each slot, -1 for a missing child."""
SOURCE, BEGIN, PARENT, BASE = range(4)
"""The rows with the binary node of each record, its first item and the record of its parent; and with the first record
of each subtree."""
STACK, ORDER, CLUSTERS = range(3)
"""The rows of `Records.stack`."""
AHEAD = 2
"""The number of records by which the CPU fetches binary nodes in advance."""


@tg.struct
class Records:
    """The records of nodes, their components (`words`), and rows of data about them (`origin`). For each thread: rows
    about the children of a node, as vectors too; a stack of binary nodes, and for the items of a node their indices and
    leaf clusters (`windows`: the eight integers from a position on); and the records at which the levels of its subtree
    begin, with the number of these levels at the end."""

    records: tg.array1d[EIGHT]
    words: tg.array1d[int]
    origin: tg.array2d[int]
    child: tg.array3d[int]
    children: tg.array2d[EIGHT]
    stack: tg.array3d[int]
    windows: tg.array3d[EIGHT]
    levels: tg.array2d[int]


@tg.struct
class Items:
    """The indices of items in Morton order, eight from each position on, and in the order of the hierarchy; and the
    address of `windows`."""

    windows: tg.array1d[EIGHT]
    order: tg.array1d[int]
    address: tg.uint64


@tg.func
def high_of_eight(x: EIGHT):
    """The largest component."""
    a = lang._larger_of_each(x, EIGHT(x[4], x[5], x[6], x[7], x[4], x[5], x[6], x[7]))
    b = lang._larger_of_each(a, EIGHT(a[2], a[3], a[2], a[3], a[2], a[3], a[2], a[3]))
    return tg.max(b[0], b[1])


@tg.func
def is_fixed(fixed: tg.array1d[int], node: int):
    """Whether a binary node must not be collapsed, because it is the root of a group."""
    result = False
    if fixed is not None:
        result = fixed[node] != 0
    return result


@tg.func
def children_of(tree: BinaryTree, node: int):
    """The children of a binary node; for a leaf -1 minus its first position, and its number of items."""
    box = tree.nodes[node]
    return tg.bitcast(box[6], tg.int32), tg.bitcast(box[7], tg.int32)


@tg.func
def fetch_children(tree: BinaryTree, items: Items, node: VEC8):
    """Let the CPU fetch the children of a binary node in advance, or the indices of the items of a leaf."""
    left, right = tg.bitcast(node[6], tg.int32), tg.bitcast(node[7], tg.int32)
    is_leaf = left < 0
    nodes = tree.address + tg.uint64(tg.max(left, 0)) * tg.uint64(4 * WIDTH)
    indices = items.address + tg.uint64(tg.max(-1 - left, 0)) * tg.uint64(4)
    lang._read_soon(tg.where(is_leaf, indices, nodes))
    lang._read_soon(tree.sizes_address + tg.uint64(tg.max(left, 0)) * tg.uint64(4))
    lang._read_soon(
        tg.where(is_leaf, indices, tree.address + tg.uint64(tg.max(right, 0)) * tg.uint64(4 * WIDTH))
    )


@tg.func
def fetch_grandchildren(tree: BinaryTree, items: Items, node: int):
    """Let the CPU fetch the children of a binary node, the size of the first child, and their children in advance."""
    left, right = children_of(tree, node)
    lang._read_soon(tree.sizes_address + tg.uint64(tg.max(left, 0)) * tg.uint64(4))
    fetch_children(tree, items, tree.nodes[tg.where(left < 0, node, left)])
    fetch_children(tree, items, tree.nodes[tg.where(left < 0, node, right)])


@tg.func
def write_order(r: Records, t: int, tree: BinaryTree, items: Items, node: int, begin: int):
    """Write the indices of the items of a binary node from a position on, and their leaf clusters to a row.

    The items of a leaf are written in vectors, whose end the next leaf overwrites, so that no branch depends on whether
    a node is a leaf."""
    stack, row = r.stack[t, STACK], r.stack[t, ORDER]
    stack[0] = node
    top, count = 1, 0
    while top > 0:
        top -= 1
        current = stack[top]
        left, right = children_of(tree, current)
        first = tg.max(-1 - left, 0)
        r.windows[t, ORDER, count], r.windows[t, CLUSTERS, count] = items.windows[first], EIGHT(current)
        size = tg.where(left < 0, right, 0)
        for k in range(WIDTH, size, WIDTH):
            r.windows[t, ORDER, count + k] = items.windows[first + k]
            r.windows[t, CLUSTERS, count + k] = EIGHT(current)
        count += size
        stack[top], stack[top + 1] = right, left
        top += tg.where(left < 0, 0, 2)
    for i in range(count):
        items.order[begin + i] = row[i]


@tg.func
def opening_key(tree: BinaryTree, items: Items, fixed: tg.array1d[int], leaf: int, node: int, size: int):
    """The bits of the area of a child, -1 for a child that is not opened."""
    fetch_grandchildren(tree, items, node)
    key = tg.bitcast(area(tree.nodes[node]), tg.int32)
    return tg.where(size <= leaf or is_fixed(fixed, node), -1, key)


@tg.func
def is_split(tree: BinaryTree, fixed: tg.array1d[int], leaf: int, node: int, size: int):
    """Whether a binary node is replaced by its children: it has more items than the leaves of a node, or the roots of
    groups may be below it."""
    split = size > leaf * WIDTH
    if fixed is not None:
        split = children_of(tree, node)[0] >= 0
    return split


@tg.func
def required_leaf_items(tree: BinaryTree, fixed: tg.array1d[int], leaf: int, node: int, size: int):
    """The number of items for which a node needs free leaves to open a child: 0 for a child that is replaced by two
    children."""
    return tg.where(is_split(tree, fixed, leaf, node, size), 0, size)


@tg.func
def open_children(
    r: Records,
    t: int,
    tree: BinaryTree,
    items: Items,
    fixed: tg.array1d[int],
    leaf: int,
    root: int,
    begin: int,
):
    """Write the children of the node of a binary node. Returns their number."""
    nodes, starts, sizes = r.child[t, NODE], r.child[t, START], r.child[t, SIZE]
    # Missing children have the box of the root.
    r.children[t, NODE], r.children[t, CUT] = EIGHT(root), EIGHT(0)
    starts[0], sizes[0] = begin, tree.sizes[root]
    # Vectors that are read from memory are in vector registers.
    r.children[t, SLOT] = EIGHT(0, 1, 2, 3, 4, 5, 6, 7)
    lanes = r.children[t, SLOT]
    keys, required = EIGHT(0, -1, -1, -1, -1, -1, -1, -1), EIGHT(0)
    number, opened = 1, 0
    while opened >= 0:
        node, first, count = nodes[opened], starts[opened], sizes[opened]
        is_opened = lang._each_within(lanes, EIGHT(opened)) & lang._each_within(EIGHT(opened), lanes)
        if is_split(tree, fixed, leaf, node, count):
            left, right = children_of(tree, node)
            lower = tree.sizes[left]
            upper = count - lower
            is_added = lang._each_within(lanes, EIGHT(number)) & lang._each_within(EIGHT(number), lanes)
            nodes[opened], sizes[opened] = left, lower
            nodes[number], starts[number], sizes[number] = right, first + lower, upper
            keys = lang._pick_each(is_opened, EIGHT(opening_key(tree, items, fixed, leaf, left, lower)), keys)
            keys = lang._pick_each(is_added, EIGHT(opening_key(tree, items, fixed, leaf, right, upper)), keys)
            required = lang._pick_each(
                is_opened, EIGHT(required_leaf_items(tree, fixed, leaf, left, lower)), required
            )
            required = lang._pick_each(
                is_added, EIGHT(required_leaf_items(tree, fixed, leaf, right, upper)), required
            )
            number += 1
        else:
            write_order(r, t, tree, items, node, first)
            leaves = tg.min(count, WIDTH + 1 - number)
            length = count // leaves
            longer = count - length * leaves
            for k in range(leaves):
                offset = k * length + tg.min(k, longer)
                target = tg.where(k == 0, opened, number)
                nodes[target], starts[target] = r.stack[t, CLUSTERS, offset], first + offset
                sizes[target] = length + tg.where(k < longer, 1, 0)
                r.child[t, CUT, target] = 1
                number += tg.where(k == 0, 0, 1)
            keys = lang._pick_each(is_opened, EIGHT(-1), keys)
        fitting = lang._each_within(required, EIGHT(leaf * (WIDTH + 1 - number)))
        best = high_of_eight(lang._pick_each(fitting, (keys & EIGHT(-WIDTH)) | lanes, EIGHT(-1)))
        opened = tg.where((best < 0) | (number == WIDTH), -1, best & (WIDTH - 1))
    return number


@tg.func
def sortable(x: VEC8):
    """Integers in the order of floats, whose lowest three bits are the component."""
    bits = tg.bitcast(x, int)
    ordered = bits ^ ((bits >> EIGHT(31)) & EIGHT(ALL))
    return (ordered & EIGHT(-WIDTH)) | EIGHT(0, 1, 2, 3, 4, 5, 6, 7)


@tg.func
def ranks(keys: EIGHT):
    """The number of components below each component."""
    rank = EIGHT(0)
    for j in tg.static(range(WIDTH)):
        rank = rank + lang._pick_each(lang._each_below(EIGHT(keys[j]), keys), EIGHT(1), EIGHT(0))
    return rank


@tg.func
def child_slots(r: Records, t: int, tree: BinaryTree):
    """The slots of a node's children, with one bit per axis, so that rays visit near children before far children. Bit
    0 is set for children in the upper half along x, bit 1 in the upper half of each half along y, bit 2 in the upper
    half of each quarter along z."""
    nodes, child = tree.nodes, r.child[t, NODE]
    a, b, c, d = nodes[child[0]], nodes[child[1]], nodes[child[2]], nodes[child[3]]
    e, f, g, h = nodes[child[4]], nodes[child[5]], nodes[child[6]], nodes[child[7]]
    x, y, z, w = lang._transposed_half(a, b, c, d)
    p, q, u, s = lang._transposed_half(e, f, g, h)
    lx, ly, lz = lang._first_half(x, p), lang._first_half(y, q), lang._first_half(z, u)
    hx, hy, hz = lang._first_half(w, s), lang._second_half(x, p), lang._second_half(y, q)
    # The centres, from lower and negated upper bounds.
    keys_x, keys_y, keys_z = sortable(lx - hx), sortable(ly - hy), sortable(lz - hz)
    lanes = EIGHT(-WIDTH)
    half = ranks(keys_x) >> EIGHT(2)
    keys_y = (keys_y >> EIGHT(1)) + (half + half - EIGHT(1)) * (1 << 30)
    quarter = ranks((keys_y & lanes) | EIGHT(0, 1, 2, 3, 4, 5, 6, 7)) >> EIGHT(1)
    keys_z = (keys_z >> EIGHT(2)) + (quarter + quarter - EIGHT(3)) * (1 << 29)
    rank = ranks((keys_z & lanes) | EIGHT(0, 1, 2, 3, 4, 5, 6, 7))
    return (rank >> EIGHT(2)) | (rank & EIGHT(2)) | ((rank & EIGHT(1)) << EIGHT(2))


@tg.func
def widen_node(
    r: Records,
    t: int,
    tree: BinaryTree,
    items: Items,
    fixed: tg.array1d[int],
    leaf: int,
    record: int,
    following: int,
):
    """Write the record of a node, and begin the records of its child nodes from `following` on. Returns the record
    after the last one."""
    root = r.origin[SOURCE, record]
    number = open_children(r, t, tree, items, fixed, leaf, root, r.origin[BEGIN, record])
    r.children[t, SLOT] = child_slots(r, t, tree)
    r.records[RECORD * record], r.children[t, HOLDER] = EIGHT(0), EIGHT(-1)
    for k in range(number):
        r.child[t, HOLDER, r.child[t, SLOT, k]] = k
    counts = tg.uint64(0)
    for slot in range(WIDTH):
        k = r.child[t, HOLDER, slot]
        if k < 0:
            continue
        child, begin, size, cut = (
            r.child[t, NODE, k],
            r.child[t, START, k],
            r.child[t, SIZE, k],
            r.child[t, CUT, k],
        )
        word = -1 - begin
        if cut == 0 and (size > leaf or is_fixed(fixed, child)):
            word = 1 + following
            r.origin[SOURCE, following], r.origin[BEGIN, following], r.origin[PARENT, following] = (
                child,
                begin,
                record,
            )
            following += 1
        else:
            if cut == 0:
                write_order(r, t, tree, items, child, begin)
            counts = counts | (tg.uint64(size) << tg.uint64(8 * slot))
        r.words[RECORD * WIDTH * record + slot] = word
    r.words[RECORD * WIDTH * record + WIDTH] = tg.int32(tg.uint32(counts))
    r.words[RECORD * WIDTH * record + WIDTH + 1] = tg.int32(tg.uint32(counts >> tg.uint64(32)))
    return following


@tg.func
def widen_levels(
    r: Records,
    t: int,
    tree: BinaryTree,
    items: Items,
    fixed: tg.array1d[int],
    leaf: int,
    record: int,
    enough: int,
):
    """Write the records of a subtree from its root's record on, until a level has at least `enough` nodes. Writes the
    first record of each level, up to the end of the last one."""
    r.levels[t, 0], r.levels[t, 1] = record, record + 1
    level, following, last = 0, record + 1, r.levels.shape[1] - 1
    while level < LEVELS and record < following and following - record < enough:
        end = following
        while record < end:
            fetch_grandchildren(tree, items, r.origin[SOURCE, tg.min(record + AHEAD, end - 1)])
            following = widen_node(r, t, tree, items, fixed, leaf, record, following)
            record += 1
        level += 1
        r.levels[t, level + 1] = following
    for k in range(level + 2, last):
        r.levels[t, k] = following
    r.levels[t, last] = level


@tg.kernel
def widen_top(
    r: Records,
    tree: BinaryTree,
    items: Items,
    fixed: tg.array1d[int],
    leaf: int,
    root: tg.array2d[VEC8],
    enough: int,
):
    """Write the records of the first levels, in one thread, and the first record of the subtree of each node of the
    last level. `root`: an array whose first element has the bits of the root. The thread has the last rows of scratch
    memory."""
    t, last = r.levels.shape[0] - 1, r.levels.shape[1] - 1
    r.origin[SOURCE, 0], r.origin[BEGIN, 0], r.origin[PARENT, 0] = tg.bitcast(root[0, 0][6], tg.int32), 0, -1
    widen_levels(r, t, tree, items, fixed, leaf, 0, enough)
    level = r.levels[t, last]
    first, base = r.levels[t, level], r.levels[t, level + 1]
    for k in range(first, r.levels[t, level + 1]):
        r.origin[BASE, k - first] = base
        base += tree.sizes[r.origin[SOURCE, k]] * (WIDTH // 2) // (WIDTH - 1) + 1


@tg.kernel
def widen_subtrees(
    r: Records, tree: BinaryTree, items: Items, fixed: tg.array1d[int], leaf: int, extents: tg.array2d[int]
):
    """Write the records of the subtree of each root, and the range of its items. There may be more threads than
    roots."""
    t, top, last = tg.tid(), r.levels.shape[0] - 1, r.levels.shape[1] - 1
    level = r.levels[top, last]
    root = r.levels[top, level] + t
    if root < r.levels[top, level + 1]:
        source, begin = r.origin[SOURCE, root], r.origin[BEGIN, root]
        record = r.origin[BASE, t]
        r.origin[SOURCE, record], r.origin[BEGIN, record], r.origin[PARENT, record] = (
            source,
            begin,
            r.origin[PARENT, root],
        )
        extents[t, 0], extents[t, 1] = begin, begin + tree.sizes[source]
        widen_levels(r, t, tree, items, fixed, leaf, record, ALL)
