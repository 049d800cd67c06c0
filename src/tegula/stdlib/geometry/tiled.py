"""Block-wide queries: all threads query the same region, and each call yields a different item to every thread.

The state of a query is uniform and in registers, so that any number of queries may be active, at any block size."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.layout import BVH_QUERY, TILED_QUERY, VEC3
from tegula.stdlib.geometry.points import POINT
from tegula.stdlib.registry import composite, tg
from tegula.types import float32

BLOCK_QUERY = Family(
    {"Gradient": "none: results of queries have no gradient."},
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing structure of this kind",
    },
)
HIT = Family(
    {"Gradient": "the gradient of `t`, `u`, `v` and `normal` for `start`, `dir` and the points of the mesh."},
    BLOCK_QUERY.raises,
)


@composite()
def _block_query(query):
    """The state of a block's query that corresponds to a thread's query."""
    tiled = TILED_QUERY()
    tiled.nodes, tiled.items, tiled.triangles = query.nodes, query.items, query.triangles
    tiled.first, tiled.second, tiled.inverse, tiled.radius = (
        query.first,
        query.second,
        query.inverse,
        query.radius,
    )
    tiled.kind, tiled.root, tiled.node, tiled.path0 = (query.kind, query.root, query.node, query.path0)
    return tiled


@composite(BLOCK_QUERY)
def tile_bvh_query_aabb(id, low: VEC3, high: VEC3):
    """A query of a block for the items of a BVH whose box overlaps a box; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    """
    tree = tg._tree(id)
    return tg._block_query(tg.bvh_query_aabb(tree, tg.uniform(low), tg.uniform(high), -1))


@composite(BLOCK_QUERY)
def tile_bvh_query_ray(id, start: VEC3, dir: VEC3):
    """A query of a block for the items of a BVH whose box a ray intersects; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    """
    tree = tg._tree(id)
    return tg._block_query(tg.bvh_query_ray(tree, tg.uniform(start), tg.uniform(dir), -1))


@composite(BLOCK_QUERY)
def tile_bvh_query_sphere(id, center: VEC3, radius: float32):
    """A query of a block for the items of a BVH whose box intersects a ball; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    """
    tree = tg._tree(id)
    return tg._block_query(tg.bvh_query_sphere(tree, tg.uniform(center), tg.uniform(radius), -1))


@composite(BLOCK_QUERY)
def tile_mesh_query_sphere(id, center: VEC3, radius: float32):
    """A query of a block for the faces of a mesh that intersect a ball; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    """
    mesh = tg._mesh(id)
    return tg._block_query(tg.mesh_query_sphere(mesh, tg.uniform(center), tg.uniform(radius)))


@composite(HIT)
def tile_mesh_query_ray(id, start: VEC3, dir: VEC3, max_t: float32):
    """The first face of a mesh that a ray of the block hits, as `mesh_query_ray`; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
    Returns:
        a MeshQueryRay, the same in all threads.
    """
    return tg.mesh_query_ray(tg._mesh(id), tg.uniform(start), tg.uniform(dir), tg.uniform(max_t), -1)


@composite(POINT)
def tile_mesh_query_point(id, point: VEC3, max_dist: float32):
    """The point of a mesh that is closest to a point of the block, as `mesh_query_point`; the arguments of
    thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
    Returns:
        a MeshQueryPoint, the same in all threads.
    """
    return tg.mesh_query_point(tg._mesh(id), tg.uniform(point), tg.uniform(max_dist))


@composite(BLOCK_QUERY)
def tile_mesh_query_aabb(id, low: VEC3, high: VEC3):
    """A query of a block for the faces of a mesh whose bounds overlap a box; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    """
    return tg.tile_bvh_query_aabb(tg._tree_of(tg._mesh(id)), low, high)


@composite(BLOCK_QUERY)
def tile_bvh_query_next(query: InOut[TILED_QUERY]):
    """The next items of a query of a block, one for each thread.

    Parameters:
        query: a BvhQueryTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the items in traversal order, and -1 at the end.
    """
    traversal = BVH_QUERY()
    traversal.nodes, traversal.items, traversal.triangles = query.nodes, query.items, query.triangles
    traversal.first, traversal.second, traversal.inverse, traversal.radius = (
        query.first,
        query.second,
        query.inverse,
        query.radius,
    )
    traversal.kind, traversal.root, traversal.node, traversal.item, traversal.end = (
        query.kind,
        query.root,
        query.node,
        query.item,
        query.end,
    )
    traversal.path0, traversal.path1, traversal.path2, traversal.path3 = (
        query.path0,
        query.path1,
        query.path2,
        query.path3,
    )
    traversal.leaf_node, traversal.candidates = query.leaf_node, query.candidates
    size = tg.block_dim()
    items = tg.tile_full(size, -1, dtype=tg.int32)
    k = 0
    while k < size:
        item = tg._advance(traversal, tg.inf)
        while item >= 0 and not tg._is_result(traversal):
            item = tg._advance(traversal, tg.inf)
        items[k] = item
        k = tg.where(item < 0, size, k + 1)
    query.node, query.item, query.end = traversal.node, traversal.item, traversal.end
    query.leaf_node, query.candidates = traversal.leaf_node, traversal.candidates
    query.path0, query.path1, query.path2, query.path3 = (
        traversal.path0,
        traversal.path1,
        traversal.path2,
        traversal.path3,
    )
    return items


@composite(BLOCK_QUERY)
def tile_mesh_query_aabb_next(query: InOut[TILED_QUERY]):
    """The next faces of a query of a block, one for each thread.

    Parameters:
        query: a MeshQueryAABBTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the faces in traversal order, and -1 at the end.
    """
    return tg.tile_bvh_query_next(query)


@composite(BLOCK_QUERY)
def tile_query_valid(query: TILED_QUERY):
    """Whether a query of a block may have more items; the next tile may still be all -1.

    Parameters:
        query: a value of type BvhQueryTiled or MeshQueryAABBTiled.
    Returns:
        a bool, the same in all threads.
    """
    return query.node > 0


@composite(BLOCK_QUERY)
def bvh_query_aabb_tiled(id, low: VEC3, high: VEC3):
    """The function `tile_bvh_query_aabb` by its older name.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    """
    return tg.tile_bvh_query_aabb(id, low, high)


@composite(BLOCK_QUERY)
def bvh_query_ray_tiled(id, start: VEC3, dir: VEC3):
    """The function `tile_bvh_query_ray` by its older name.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    """
    return tg.tile_bvh_query_ray(id, start, dir)


@composite(BLOCK_QUERY)
def bvh_query_next_tiled(query: InOut[TILED_QUERY]):
    """The function `tile_bvh_query_next` by its older name.

    Parameters:
        query: a BvhQueryTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the items in traversal order, and -1 at the end.
    """
    return tg.tile_bvh_query_next(query)


@composite(BLOCK_QUERY)
def mesh_query_aabb_tiled(id, low: VEC3, high: VEC3):
    """The function `tile_mesh_query_aabb` by its older name.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    """
    return tg.tile_mesh_query_aabb(id, low, high)


@composite(BLOCK_QUERY)
def mesh_query_aabb_next_tiled(query: InOut[TILED_QUERY]):
    """The function `tile_mesh_query_aabb_next` by its older name.

    Parameters:
        query: a MeshQueryAABBTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the faces in traversal order, and -1 at the end.
    """
    return tg.tile_mesh_query_aabb_next(query)
