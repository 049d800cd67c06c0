"""Resumable traversal of a bounding volume hierarchy: a query is a value that `bvh_query_next` updates.

The traversal is depth first. The state has a mask of the remaining children for each level, and the traversal returns
along the parent links, so that a query needs no stack in memory and any number of queries may be active."""

from __future__ import annotations

from typing import Any

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.layout import (
    AABB_QUERY,
    BVH_QUERY,
    CHILDREN,
    COUNTS,
    EIGHT_BYTES,
    ITEM_BYTES,
    NODE_BYTES,
    PARENT,
    RAY,
    RAY_QUERY,
    SPHERE,
    SPHERE_QUERY,
    TREE,
    VEC3,
    VEC8,
)
from tegula.stdlib.registry import composite, tg
from tegula.types import float32, int32, uint8, uint32, uint64

BVH_KIND, ENTRY_BYTES, SLOT_MASK = 1, 256, 0xFFFF
QUERY = Family(
    {"Gradient": "none: results of queries have no gradient."},
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing BVH",
    },
)
INFINITY = float("inf")


@composite()
def _entry(id: uint64, kind: int32):
    """The address of a structure's words in the table; the address of zeros for an unknown id."""
    table = tg._structures()
    entry = table + (id & SLOT_MASK) * ENTRY_BYTES
    is_known = (tg._element_at(entry, uint64) == id) & (tg.int32((id >> 16) & 15) == kind)
    assert is_known or id == 0, "the id does not name an existing structure of this kind on this device"
    return tg.where(is_known, entry, table) + 8


@composite()
def _tree_at(entry: uint64, id: uint64):
    """The hierarchy of a table entry."""
    nodes, items = tg._element_at(entry, uint64), tg._element_at(entry + 8, uint64)
    return TREE(nodes, items, tg._element_at(entry + 16, uint64), tg._element_at(entry + 24, int32), id)


@composite()
def _tree(id: uint64):
    """The hierarchy of an id."""
    return tg._tree_at(tg._entry(id, BVH_KIND), id)


@composite()
def _tree(id: TREE):
    """The hierarchy of a typed argument."""
    return id


@composite()
def _start_node(tree: TREE, root: int32):
    """The start node of a query: the root of a group or of the tree; 0 if the hierarchy is empty."""
    return tg.where(tree.nodes == tg.uint64(0), 0, tg.where(root > 0, root, 1))


@composite()
def _begin_query(query: InOut[Any], root: int32, limit: float32):
    """Test the children of the start node of a query."""
    query.root = root
    query.node = root
    if root > 0:
        query.path0 = tg.uint64(tg._hit_children(query, query.nodes + tg.uint64(root) * NODE_BYTES, limit))


@composite(QUERY)
def bvh_query_aabb(id, low: VEC3, high: VEC3, root: int32 = -1):
    """A query for the items of a BVH whose box overlaps a box; boxes are closed sets.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    """
    tree = tg._tree(id)
    query = AABB_QUERY()
    query.nodes, query.items = tree.nodes, tree.items
    query.first, query.second = low, high
    tg._begin_query(query, tg._start_node(tree, root), 0.0)
    return query


@composite(QUERY)
def bvh_query_sphere(id, center: VEC3, radius: float32, root: int32 = -1):
    """A query for the items of a BVH whose box intersects a closed ball.

    Parameters:
        id: the BVH, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    """
    tree = tg._tree(id)
    query = SPHERE_QUERY()
    query.nodes, query.items = tree.nodes, tree.items
    query.kind = SPHERE
    not_negative = tg.where(radius < 0.0, 0.0, radius)
    scale = tg._binary_scale(not_negative)
    query.first, query.radius, query.second = center, not_negative * scale, tg.vec3(scale, 0.0, 0.0)
    tg._begin_query(query, tg._start_node(tree, root), 0.0)
    return query


@composite(QUERY)
def bvh_query_ray(id, start: VEC3, dir: VEC3, root: int32 = -1):
    """A query for the items of a BVH whose box a ray intersects, in no order of distance.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length but 0. A ray with a NaN or an infinite component yields no items.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    """
    return tg.bvh_query_capsule(id, start, dir, 0.0, root)


@composite(QUERY)
def bvh_query_capsule(id, start: VEC3, dir: VEC3, radius: float32, root: int32 = -1):
    """A query for the items of a BVH whose box, enlarged by a radius on all sides, a ray intersects.

    With `max_dist` 1, `bvh_query_next` yields all items whose boxes the ball swept from `start` to `start` + `dir`
    intersects, and may yield items whose boxes are near only at a corner.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length but 0. A ray with a NaN or an infinite component yields no items.
        radius: a float32; a negative radius counts as 0.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    """
    tree = tg._tree(id)
    query = tg._ray(tree, start, dir, tg.where(radius < 0.0, 0.0, radius))
    # The products with 0 are NaN for infinite numbers and NaN.
    is_finite = tg.dot(start, tg.vec3(0.0)) + tg.dot(dir, tg.vec3(0.0)) == 0.0
    is_ray = is_finite & (radius == radius) & ((dir[0] != 0.0) | (dir[1] != 0.0) | (dir[2] != 0.0))
    tg._begin_query(query, tg.where(is_ray, tg._start_node(tree, root), 0), INFINITY)
    return query


@composite()
def _ray(tree: TREE, start: VEC3, dir: VEC3, displacement: float32):
    """A query of a ray, with entry and exit planes displaced by `displacement`."""
    query = RAY_QUERY()
    query.nodes, query.items, query.kind = tree.nodes, tree.items, RAY
    query.inverse = tg.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    displacements = tg.vec3(
        tg.copysign(displacement, dir[0]),
        tg.copysign(displacement, dir[1]),
        tg.copysign(displacement, dir[2]),
    )
    query.first, query.second = start + displacements, start - displacements
    return query


@composite()
def _advance(query: InOut[Any], limit: float32):
    """Advance a query to the next item whose box intersects the region. Returns the index of the item, or -1."""
    item = -1
    while item < 0 and query.node > 0:
        if query.item < query.end:
            item = tg._next_candidate(query, limit)
        else:
            tg._visit(query, limit)
    return item


@composite()
def _next_candidate(query: InOut[Any], limit: float32):
    """The index of the next remaining item if its box intersects the region, else -1."""
    position = query.item
    if not tg._on_gpu():
        if query.candidates != tg.uint32(0):
            number = tg.ctz(query.candidates)
            query.candidates = query.candidates & (query.candidates - 1)
            leaf = (
                query.nodes + tg.uint64(query.leaf_node) * NODE_BYTES + CHILDREN + tg.uint64(number >> 1) * 4
            )
            position = tg.int32(number & 1) - 1 - tg._element_at(leaf, int32)
        query.at = position
    query.item = query.item + 1
    box = tg._element_at(query.items + tg.uint64(position) * ITEM_BYTES, VEC8)
    index = -1
    if tg._hits_item(query, box, limit):
        index = tg.bitcast(box[6], int32)
    return index


@composite()
def _position(query: Any):
    """The position of the last item of a query."""
    position = query.at
    if tg._on_gpu():
        position = query.item - 1
    return position


@composite()
def _result_at(query: InOut[AABB_QUERY], number: int32):
    """The index of the next remaining item if its box intersects a box, else -1."""
    return tg._next_candidate(query, 0.0)


@composite()
def _next_leaf(query: InOut[AABB_QUERY]):
    """Advance to the next leaf, or node with leaves only, whose items may intersect a box, unless items remain. Returns
    whether there are items."""
    while query.item >= query.end and query.node > 0:
        tg._visit(query, 0.0)
    return query.item < query.end


@composite()
def _visit(query: InOut[Any], limit: float32):
    """Visit the next remaining child of the current node: enter the leaf or the node. Without one, ascend."""
    node = query.nodes + tg.uint64(query.node) * NODE_BYTES
    remaining = tg.uint32(query.path0) & 255
    if remaining != tg.uint32(0):
        query.path0 = query.path0 & (query.path0 - 1)
        slot = tg.uint64(tg.ctz(remaining))
        child = tg._element_at(node + CHILDREN + slot * 4, int32)
        if child < 0:
            query.item = -1 - child
            query.end = query.item + tg.int32(tg._element_at(node + COUNTS + slot, uint8))
        else:
            tg._descend(query, child, limit)
    elif query.node == query.root:
        query.node = 0
    else:
        query.node = tg._element_at(node + PARENT, int32)
        tg._ascend(query)


@composite()
def _descend(query: InOut[Any], child: int32, limit: float32):
    """Descend to a child. The remaining children of the child are the children that the region intersects. On CPUs the
    items of a child are candidates at once if the region intersects only leaves of at most two items."""
    child_address = query.nodes + tg.uint64(child) * NODE_BYTES
    hits = tg._hit_children(query, child_address, limit)
    if tg._on_gpu():
        tg._descend_with_mask(query, child, hits)
    else:
        tg._prefetch_next_items(query, child)
        counts = tg._element_at(child_address + COUNTS, EIGHT_BYTES)
        has_two = tg._bits(tg._each_below(EIGHT_BYTES(1), counts))
        has_more = tg._bits(tg._each_below(EIGHT_BYTES(2), counts))
        nodes = hits & ~tg._leaf_bits(child_address)
        if ((hits & has_more) | nodes) == tg.uint32(0):
            query.leaf_node = child
            query.candidates = tg._spread_bits(hits) | (tg._spread_bits(hits & has_two) << 1)
            query.item, query.end = 0, tg.int32(tg.bit_count(query.candidates))
        else:
            tg._prefetch_nodes(query.nodes, child_address, nodes)
            tg._descend_with_mask(query, child, hits)


@composite()
def _spread_bits(x: uint32):
    """The lowest eight bits at even positions."""
    x = (x | (x << 4)) & 0x0F0F
    x = (x | (x << 2)) & 0x3333
    return (x | (x << 1)) & 0x5555


@composite()
def _prefetch_next_items(query: Any, child: int32):
    """Prefetch the items of the leaves of the node that is visited after a child of the current node; of the child if
    there is none."""
    remaining = tg.uint32(query.path0) & 255
    node = query.nodes + tg.uint64(query.node) * NODE_BYTES
    following = tg._element_at(node + CHILDREN + tg.uint64(tg.ctz(remaining | 256) & 7) * 4, int32)
    following = tg.where(remaining != tg.uint32(0) and following > 0, following, child)
    address = query.nodes + tg.uint64(following) * NODE_BYTES
    for slot in tg.static(range(8)):
        item = tg.uint64(-1 - tg._element_at(address + CHILDREN + slot * 4, int32))
        tg._read_soon(query.items + item * ITEM_BYTES)


@composite()
def _prefetch_children(node: uint64, nodes: uint64, leaves: uint64, item_bytes: uint64):
    """Prefetch the children of a node on a CPU: the first and the last cache line of nodes, and the first two items of
    leaves. `leaves`, `item_bytes`: the address of the items, and the bytes of an item."""
    for slot in tg.static(range(8)):
        tg._prefetch_child(node, tg.uint64(slot), nodes, leaves, item_bytes)


@composite()
def _prefetch_child(node: uint64, slot: uint64, nodes: uint64, leaves: uint64, item_bytes: uint64):
    """Prefetch a child of a node on a CPU: the first and the last cache line of a node, or the first two items of a
    leaf."""
    child = tg._element_at(node + CHILDREN + slot * 4, int32)
    child_address = tg.where(
        child < 0, leaves + tg.uint64(-1 - child) * item_bytes, nodes + tg.uint64(child) * NODE_BYTES
    )
    tg._read_soon(child_address)
    tg._read_soon(child_address + tg.where(child < 0, item_bytes, tg.uint64(CHILDREN)))


@composite()
def _descend_with_mask(query: InOut[Any], child: int32, hits: uint32):
    """Descend to a child with a mask of the child's remaining children."""
    query.node = child
    query.path3 = (query.path3 << 8) | (query.path2 >> 56)
    query.path2 = (query.path2 << 8) | (query.path1 >> 56)
    query.path1 = (query.path1 << 8) | (query.path0 >> 56)
    query.path0 = (query.path0 << 8) | tg.uint64(hits)


@composite()
def _ascend(query: InOut[Any]):
    """Ascend to the parent, and restore the mask of its remaining children."""
    query.path0 = (query.path0 >> 8) | (query.path1 << 56)
    query.path1 = (query.path1 >> 8) | (query.path2 << 56)
    query.path2 = (query.path2 >> 8) | (query.path3 << 56)
    query.path3 = query.path3 >> 8


@composite(QUERY)
def bvh_query_next(query: InOut[AABB_QUERY], index: InOut[int32], max_dist: float32 = INFINITY):
    """Advances a query of a BVH to the next item.

    Parameters:
        query: a BvhQuery variable, which is updated.
        index: an int32 variable, which is set to the index of the next item, and is unchanged if there is none.
        max_dist: a float32, for rays: items farther away, in units of the length of the ray's direction, are skipped.
            The value may decrease from call to call.
    Returns:
        a bool, whether there was another item.
    """
    item = tg._advance(query, max_dist)
    index = tg.where(item < 0, index, item)
    return item >= 0


@composite()
def bvh_query_next(query: InOut[RAY_QUERY], index: InOut[int32], max_dist: float32 = INFINITY):
    """Advance a query of a ray to the next item."""
    item = tg._advance(query, max_dist)
    index = tg.where(item < 0, index, item)
    return item >= 0


@composite()
def bvh_query_next(query: InOut[SPHERE_QUERY], index: InOut[int32], max_dist: float32 = INFINITY):
    """Advance a query of a ball to the next item."""
    item = tg._advance(query, max_dist)
    index = tg.where(item < 0, index, item)
    return item >= 0


@composite()
def bvh_query_next(query: InOut[BVH_QUERY], index: InOut[int32], max_dist: float32 = INFINITY):
    """Advance a query whose kind is known at run time to the next item."""
    item = tg._advance(query, max_dist)
    index = tg.where(item < 0, index, item)
    return item >= 0


@composite(QUERY)
def bvh_get_group_root(id, group: int32):
    """The root of the subtree of a group of items, for the `root` of queries.

    Parameters:
        id: the BVH, or its id.
        group: an int32.
    Returns:
        an int32; -1, the value for all groups, if there is no such group.
    """
    tree = tg._tree(id)
    low, high = 0, tree.group_count
    while low < high:
        middle = low + (high - low) // 2
        if tg._element_at(tree.groups + tg.uint64(middle) * 8, int32) < group:
            low = middle + 1
        else:
            high = middle
    root = -1
    if low < tree.group_count and tg._element_at(tree.groups + tg.uint64(low) * 8, int32) == group:
        root = tg._element_at(tree.groups + tg.uint64(low) * 8 + 4, int32)
    return root
