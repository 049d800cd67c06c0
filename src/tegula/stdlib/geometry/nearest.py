"""The nearest items of a hierarchy or faces of a mesh in the order of distance, per thread and per block."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
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
from tegula.stdlib.geometry.leaves import SEARCH
from tegula.stdlib.geometry.points import NEAREST
from tegula.stdlib.registry import composite, tg
from tegula.types import bool_, float32, int32, uint32, uint64

MESH_KIND = 2
INFINITY = float("inf")
LARGEST_INT = 2**31 - 1
LINE_BYTES = 64
"""The size of a cache line of CPUs."""
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
    """The mask of the children of a node whose boxes have a point in a ball, and the squared distances of all
    children."""
    point = query.first
    lx, ly, lz = tg._planes(node, 0, 0), tg._planes(node, 1, 0), tg._planes(node, 2, 0)
    hx, hy, hz = tg._planes(node, 0, 1), tg._planes(node, 1, 1), tg._planes(node, 2, 1)
    square = tg._squared_distances_of_boxes(point, lx, ly, lz, hx, hy, hz)
    hits = tg._bits(tg._each_within(square, VEC8(query.radius * query.radius)))
    return hits, square


@composite()
def _leaves_at_once(search: SEARCH):
    """Whether a query searches all near leaves of a node when it enters the node, and visits only nodes; else it visits
    leaves too, one by one."""
    at_once = search.has_faces
    if tg._on_gpu():
        at_once = False
    return at_once


@composite()
def _leaf_bits(node: uint64):
    """The mask of the children of a node that are leaves."""
    return tg._bits(tg._each_below(tg._element_at(node + CHILDREN, EIGHT_INTS), EIGHT_INTS(0)))


@composite()
def _nearest_slot(node: uint64, squares: VEC8, search: SEARCH):
    """The slot of the nearest child of a node that is visited. `squares`: the squared distances of the children."""
    bits = tg.bitcast(squares, int32)
    if tg._leaves_at_once(search):
        is_leaf = tg._each_below(tg._element_at(node + CHILDREN, EIGHT_INTS), EIGHT_INTS(0))
        bits = tg._pick_each(is_leaf, EIGHT_INTS(LARGEST_INT), bits)
    keys = (bits & EIGHT_INTS(-8)) | EIGHT_INTS(0, 1, 2, 3, 4, 5, 6, 7)
    nearest = tg.min(
        tg.min(tg.min(keys[0], keys[4]), tg.min(keys[1], keys[5])),
        tg.min(tg.min(keys[2], keys[6]), tg.min(keys[3], keys[7])),
    )
    return nearest & 7


@composite()
def _prefetch_triangles(mesh: MESH, node: uint64):
    """Prefetch the first two triangles of the leaves of a node on a CPU."""
    for slot in tg.static(range(8)):
        item = tg.uint64(-1 - tg._element_at(node + CHILDREN + slot * 4, int32))
        tg._read_soon(mesh.triangles + item * TRIANGLE_BYTES)
        tg._read_soon(mesh.triangles + item * TRIANGLE_BYTES + TRIANGLE_BYTES)


@composite()
def _prefetch_next(mesh: MESH, node: uint64, remaining: uint32, octant: uint32, child: int32):
    """Prefetch the triangles of the child of a node that is visited after another one; of the other one if no children
    remain. `remaining`: the mask of the remaining children in the order of visits."""
    slot = tg.uint64((tg.ctz(remaining | 256) & 7) ^ octant)
    following = tg._element_at(node + CHILDREN + slot * 4, int32)
    following = tg.where(remaining != tg.uint32(0), following, child)
    tg._prefetch_triangles(mesh, mesh.nodes + tg.uint64(following) * NODE_BYTES)


@composite()
def _prefetch_nodes(nodes: uint64, node: uint64, children: uint32):
    """Prefetch some children of a node on a CPU, which are nodes. `children`: the mask of the children."""
    remaining = children
    for _ in range(tg.bit_count(children)):
        child = tg._element_at(node + CHILDREN + tg.uint64(tg.ctz(remaining)) * 4, int32)
        remaining = remaining & (remaining - 1)
        for line in tg.static(range(NODE_BYTES // LINE_BYTES)):
            tg._read_soon(nodes + tg.uint64(child) * NODE_BYTES + line * LINE_BYTES)


@composite()
def _next_nearest(mesh: MESH, point: VEC3, max_dist: float32, last: NEAREST, has_faces: bool_):
    """The nearest item or face after the last one, in the lexicographic order of distance and index. `has_faces`:
    whether the mesh has triangles; else the distances of the items' boxes are compared."""
    nearest = NEAREST(-1, 0.0, 0)
    # The products with 0 are NaN for infinite numbers and NaN.
    is_finite = tg.dot(point, tg.vec3(0.0)) == 0.0
    if mesh.nodes != tg.uint64(0) and max_dist > 0.0 and is_finite:
        slack = tg._box_margin(mesh.nodes, point)
        # Distances of boxes are rounded as the distances of nodes are.
        search = SEARCH(tg._is_moderate(slack), has_faces, tg.where(has_faces, slack, 0.0))
        nearest.key = tg._key_of_distance(max_dist, search.moderate)
        query = SPHERE_QUERY()
        query.nodes, query.first, query.node = mesh.nodes, point, 1
        query.radius = tg._search_radius(nearest.key, search.slack, search.moderate)
        # A query that searches leaves at once enters the root as a child.
        first, enters_root = -1, tg._leaves_at_once(search)
        query.path0 = tg.uint64(1)
        if not enters_root:
            root = mesh.nodes + NODE_BYTES
            hits, squares = tg._near_children(query, root)
            first = tg._nearest_slot(root, squares, search)
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
                if tg._leaves_at_once(search):
                    child = tg.where(enters_root, 1, child)
                    enters_root = False
                if child > 0:
                    child_address = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    if tg._leaves_at_once(search):
                        tg._prefetch_next(mesh, node, tg.uint32(query.path0) & 255, octant, child)
                    else:
                        tg._prefetch_children(child_address, mesh.nodes, mesh.items, tg.uint64(ITEM_BYTES))
                    hits, squares = tg._near_children(query, child_address)
                    if tg._leaves_at_once(search):
                        leaves = hits & tg._leaf_bits(child_address)
                        if leaves != tg.uint32(0):
                            tg._search_leaves(mesh, child_address, leaves, search, last, query, nearest)
                            hits = hits ^ leaves
                        if hits != tg.uint32(0):
                            tg._prefetch_nodes(mesh.nodes, child_address, hits)
                    nearest_slot = tg._nearest_slot(child_address, squares, search)
                    if hits != tg.uint32(0):
                        first = nearest_slot
                        hits = tg._order_by_octant(hits, tg._octant_at(child_address, point))
                        tg._descend_with_mask(query, child, hits)
                elif child < 0 and not tg._leaves_at_once(search):
                    tg._search_leaf(mesh, node, slot, search, last, query, nearest)
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
    nearest = tg._next_nearest(tg._mesh_of_tree(tg._tree(id)), point, max_dist, NEAREST(-1, -1.0, 0), False)
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
    has_faces = structure.triangles != tg.uint64(0)
    n = 0
    while n < k:
        last = tg._next_nearest(structure, point_of_block, max_distance, last, has_faces)
        indices[n] = last.face
        n = tg.where(last.face < 0, k, n + 1)
    return indices
