"""The nearest items of a hierarchy or faces of a mesh in the order of distance, per thread and per block."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    EIGHT_INTS,
    ITEM_BYTES,
    MESH,
    NODE_BYTES,
    PARENT,
    SPHERE_QUERY,
    TREE,
    TRIANGLE_BYTES,
    UPPER,
    VEC3,
    VEC8,
)
from tegula.stdlib.geometry.points import NEAREST
from tegula.stdlib.registry import composite, tg
from tegula.types import bool_, float32, int32, uint8, uint64

MESH_KIND = 2
INFINITY = float("inf")
NEAREST_ITEMS = Family(
    {"Gradient": "none: results of queries have no gradient."},
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing structure",
    },
)


@composite()
def _mesh_of_tree(tree: TREE):
    """A mesh of a hierarchy, without triangles."""
    mesh = MESH()
    mesh.nodes, mesh.items, mesh.id = tree.nodes, tree.items, tree.id
    return mesh


@composite()
def _structure(id: uint64):
    """The mesh of an id; for the id of a hierarchy a mesh without triangles."""
    mesh = MESH()
    if tg.int32((id >> 16) & 15) == MESH_KIND:
        mesh = tg._mesh(id)
    else:
        mesh = tg._mesh_of_tree(tg._tree(id))
    return mesh


@composite()
def _structure(id: MESH):
    """The mesh of a typed argument."""
    return id


@composite()
def _structure(id: TREE):
    """The hierarchy of a typed argument."""
    return tg._mesh_of_tree(id)


@composite()
def _key_at(mesh: MESH, point: VEC3, item: int32, moderate: bool_):
    """The key of the distance of a point from a triangle or from the box of an item; NaN for an empty box."""
    key = 0.0
    if mesh.triangles != tg.uint64(0):
        first, second, third = tg._triangle(mesh, item)
        key = tg._key(first - point, second - point, third - point, moderate)
    else:
        box = tg._element_at(mesh.items + tg.uint64(item) * ITEM_BYTES, VEC8)
        x, y = (
            tg._distance_to_interval(box[0], box[3], point[0]),
            tg._distance_to_interval(box[1], box[4], point[1]),
        )
        z = tg._distance_to_interval(box[2], box[5], point[2])
        if moderate:
            key = x * x + y * y + z * z
        else:
            key = tg._scaled_length(tg.vec3(x, y, z))
    return key


@composite()
def _is_near(query: SPHERE_QUERY, bounds: uint64):
    """Whether a child's box has a point in a ball. `bounds`: the address of the first bound of the box."""
    square = 0.0
    for axis in tg.static(range(3)):
        coordinate = query.first[axis]
        below = tg._element_at(bounds + axis * AXIS, float32) - coordinate
        above = coordinate - tg._element_at(bounds + UPPER + axis * AXIS, float32)
        distance = tg._max_ignoring_nan(tg._max_ignoring_nan(0.0, below), above)
        square += distance * distance
    return square <= query.radius * query.radius


@composite()
def _near_children(query: SPHERE_QUERY, node: uint64):
    """The mask of the children of a node whose boxes have a point in a ball, and the slot of the nearest child."""
    point = query.first
    lx, ly, lz = tg._planes(node, 0, 0), tg._planes(node, 1, 0), tg._planes(node, 2, 0)
    hx, hy, hz = tg._planes(node, 0, 1), tg._planes(node, 1, 1), tg._planes(node, 2, 1)
    # The NaN of a missing child is preserved, because comparisons with NaN select the second operand.
    x = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(lx - VEC8(point[0]), VEC8(point[0]) - hx))
    y = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(ly - VEC8(point[1]), VEC8(point[1]) - hy))
    z = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(lz - VEC8(point[2]), VEC8(point[2]) - hz))
    square = tg.cw_mul(x, x) + tg.cw_mul(y, y) + tg.cw_mul(z, z)
    hits = tg._bits(tg._each_within(square, VEC8(query.radius * query.radius)))
    keys = (tg.bitcast(square, int32) & EIGHT_INTS(-8)) | EIGHT_INTS(0, 1, 2, 3, 4, 5, 6, 7)
    nearest = tg.min(
        tg.min(tg.min(keys[0], keys[4]), tg.min(keys[1], keys[5])),
        tg.min(tg.min(keys[2], keys[6]), tg.min(keys[3], keys[7])),
    )
    return hits, nearest & 7


@composite()
def _next_nearest(mesh: MESH, point: VEC3, max_dist: float32, last: NEAREST):
    """The nearest item or face after the last one, in the lexicographic order of distance and index."""
    nearest = NEAREST(-1, 0.0, 0)
    # The products with 0 are NaN for infinite numbers and NaN.
    is_finite = tg.dot(point, tg.vec3(0.0)) == 0.0
    if mesh.nodes != tg.uint64(0) and max_dist > 0.0 and is_finite:
        slack = tg._box_margin(mesh.nodes, point)
        moderate = tg._is_moderate(slack)
        has_faces = mesh.triangles != tg.uint64(0)
        # Distances of boxes are rounded as the distances of nodes are.
        slack = tg.where(has_faces, slack, 0.0)
        leaves = tg.where(has_faces, mesh.triangles, mesh.items)
        item_bytes = tg.where(has_faces, tg.uint64(TRIANGLE_BYTES), tg.uint64(ITEM_BYTES))
        nearest.key = tg._key_of_distance(max_dist, moderate)
        query = SPHERE_QUERY()
        query.nodes, query.first, query.node = mesh.nodes, point, 1
        query.radius = tg._search_radius(nearest.key, slack, moderate)
        root = mesh.nodes + NODE_BYTES
        hits, first = tg._near_children(query, root)
        query.path0 = tg.uint64(tg._order_by_octant(hits, tg._octant_at(root, point)))
        while query.node > 0:
            node = mesh.nodes + tg.uint64(query.node) * NODE_BYTES
            remaining = tg.uint32(query.path0) & 255
            if remaining != tg.uint32(0):
                octant = tg.uint32(tg._octant_at(node, point))
                slot = tg.uint64(tg.where(first >= 0, tg.uint32(first), tg.ctz(remaining) ^ octant))
                first = -1
                query.path0 = query.path0 & ~(tg.uint64(1) << (slot ^ tg.uint64(octant)))
                child = tg._element_at(node + CHILDREN + slot * 4, int32)
                # The search radius may have decreased since the children of the node were tested.
                if not tg._is_near(query, node + slot * 4):
                    child = 0
                if child < 0:
                    leaf = -1 - child
                    end = leaf + tg.int32(tg._element_at(node + COUNTS + slot, uint8))
                    while leaf < end:
                        key = tg._key_at(mesh, point, leaf, moderate)
                        if key <= nearest.key and key >= last.key:
                            index = tg._element_at(mesh.items + tg.uint64(leaf) * ITEM_BYTES + 24, int32)
                            is_after_last = key > last.key or index > last.face
                            has_lower_index = nearest.face >= 0 and index < nearest.face
                            if is_after_last and (key < nearest.key or has_lower_index):
                                nearest = NEAREST(index, key, leaf)
                                query.radius = tg._search_radius(key, slack, moderate)
                        leaf += 1
                elif child > 0:
                    child_address = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    tg._prefetch_children(child_address, mesh.nodes, leaves, item_bytes)
                    hits, nearest_slot = tg._near_children(query, child_address)
                    if hits != tg.uint32(0):
                        first = nearest_slot
                        hits = tg._order_by_octant(hits, tg._octant_at(child_address, point))
                        tg._descend_with_mask(query, child, hits)
            elif query.node == 1:
                query.node = 0
            else:
                query.node = tg._element_at(node + PARENT, int32)
                tg._ascend(query)
    return nearest


@composite(NEAREST_ITEMS)
def bvh_query_nearest(id, point: VEC3, max_dist: float32 = INFINITY):
    """The item of a BVH whose box is nearest to a point; among items at equal distances, the item with the lowest
    index.

    Parameters:
        id: the BVH, or its id.
        point: a vec3; a point with a NaN or an infinite coordinate has no nearest item.
        max_dist: a float32; only boxes that are closer are considered.
    Returns:
        an int32, the index of the item, or -1 if there is no such item.
    """
    nearest = tg._next_nearest(tg._mesh_of_tree(tg._tree(id)), point, max_dist, NEAREST(-1, -1.0, 0))
    return nearest.face


@composite(NEAREST_ITEMS)
def tile_nearest(id, point: VEC3, k: int32, max_dist: float32 = INFINITY):
    """The nearest items of a BVH, by their boxes, or faces of a mesh; the arguments of thread 0 are used.

    Parameters:
        id: the BVH or mesh, or its id.
        point: a vec3; a point with a NaN or an infinite coordinate has no nearest item.
        k: the number of results, a constant int.
        max_dist: a float32; only items and faces that are closer are considered.
    Returns:
        a tile (k,) of int32, the indices in the order of distance and, at equal distances, of index; -1 where there are
        no more.
    """
    structure, point_of_block, max_distance = tg._structure(id), tg.uniform(point), tg.uniform(max_dist)
    indices = tg.tile_full(k, -1, dtype=tg.int32)
    last = NEAREST(-1, -1.0, 0)
    n = 0
    while n < k:
        last = tg._next_nearest(structure, point_of_block, max_distance, last)
        indices[n] = last.face
        n = tg.where(last.face < 0, k, n + 1)
    return indices
