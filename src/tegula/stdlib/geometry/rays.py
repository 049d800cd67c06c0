"""Rays and the triangles of a mesh: the closest hit, any hit, and the number of hits."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.boxes import INTERVAL_WIDENING
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    MESH,
    NODE_BYTES,
    PARENT,
    RAY_QUERY,
    TRIANGLE_BYTES,
    UPPER,
    VEC3,
)
from tegula.stdlib.geometry.triangle import SHEAR
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import bool_, float32, int32, uint8, uint32, uint64

MESH_QUERY_RAY = StructType(
    "MeshQueryRay",
    {
        "result": bool_,
        "sign": float32,
        "face": int32,
        "t": float32,
        "u": float32,
        "v": float32,
        "normal": VEC3,
    },
    __name__,
    "MESH_QUERY_RAY",
    "What `mesh_query_ray` finds.",
)
QUERY = Family(
    {"Gradient": "none: results of queries have no gradient."},
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing mesh",
    },
)
CLOSEST, ANY, COUNT = 0, 1, 2
"""The goals of a traversal along a ray."""
BOUND = 2.0**-20
"""The error bound of the hit point of a ray on a sheared triangle, relative to the largest distance from the start
along an axis."""
FOUND = StructType("Found", {"face": int32, "t": float32, "at": int32, "count": int32}, __name__, "FOUND")
"""The closest face that is hit, of equally close ones the lowest; its position among the triangles; and the number of
hits."""


@composite()
def _box_margin(nodes: uint64, start: VEC3):
    """The distance by which boxes are enlarged, so that a ray that hits a triangle hits the triangle's box too."""
    largest = 0.0
    for axis in tg.static(range(3)):
        low = tg.abs(tg._element_at(nodes + 4 * axis, float32) - start[axis])
        high = tg.abs(tg._element_at(nodes + 12 + 4 * axis, float32) - start[axis])
        largest = tg.where(low > largest, low, largest)
        largest = tg.where(high > largest, high, largest)
    return largest * BOUND


@composite()
def _order_by_octant(hits: uint32, octant: int32):
    """A mask of children in the order in which a ray of this octant enters the children: bit k becomes bit k ^
    octant."""
    m = hits
    m = tg.where((octant & 1) != 0, ((m & 0x55) << 1) | ((m >> 1) & 0x55), m)
    m = tg.where((octant & 2) != 0, ((m & 0x33) << 2) | ((m >> 2) & 0x33), m)
    return tg.where((octant & 4) != 0, ((m & 0x0F) << 4) | ((m >> 4) & 0x0F), m)


@composite()
def _triangle(mesh: MESH, item: int32):
    """The vertices of the triangle at a position."""
    at = mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES
    first, second = tg._element_at(at, VEC3), tg._element_at(at + 12, VEC3)
    return first, second, tg._element_at(at + 24, VEC3)


@composite()
def _ray_hits_child(query: RAY_QUERY, bounds: uint64, x: int32, y: int32, z: int32, limit: float32):
    """Whether a ray hits a child's box up to a distance; `bounds`: the address of its first bound; x, y, z: the sides
    of boxes that the ray enters by."""
    nx = tg._element_at(bounds + tg.uint64(x * UPPER), float32)
    ny = tg._element_at(bounds + tg.uint64(AXIS + y * UPPER), float32)
    nz = tg._element_at(bounds + tg.uint64(2 * AXIS + z * UPPER), float32)
    near = tg._max_ignoring_nan(0.0, (nx - query.first[0]) * query.inverse[0])
    near = tg._max_ignoring_nan(near, (ny - query.first[1]) * query.inverse[1])
    near = tg._max_ignoring_nan(near, (nz - query.first[2]) * query.inverse[2])
    return near <= limit * INTERVAL_WIDENING


@composite()
def _traverse(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse a mesh along a ray."""
    hit = FOUND(-1, limit, 0, 0)
    begin = tg.where(mesh.nodes == tg.uint64(0), 0, tg.where(root > 0, root, 1))
    if tg.dot(dir, dir) == 0.0:
        begin = 0
    if begin > 0:
        query = tg._ray(tg._tree_of(mesh), start, dir, tg._box_margin(mesh.nodes, start))
        shear = tg._shear(start, dir)
        x, y, z = tg._entry_sides(query)
        octant = x | (y << 1) | (z << 2)
        query.node = begin
        query.root = begin
        query.path0 = tg.uint64(
            tg._order_by_octant(
                tg._hit_children(query, mesh.nodes + tg.uint64(begin) * NODE_BYTES, limit), octant
            )
        )
        while query.node > 0:
            node = mesh.nodes + tg.uint64(query.node) * NODE_BYTES
            left = tg.uint32(query.path0) & 255
            if left != tg.uint32(0):
                query.path0 = query.path0 & (query.path0 - 1)
                slot = tg.uint64(tg.ctz(left) ^ tg.uint32(octant))
                child = tg._element_at(node + CHILDREN + slot * 4, int32)
                # A nearer hit may have been found since the children of the node were tested.
                if mode == CLOSEST and not tg._ray_hits_child(query, node + slot * 4, x, y, z, hit.t):
                    child = 0
                if child < 0:
                    end = tg.int32(tg._element_at(node + COUNTS + slot, uint8)) - 1 - child
                    hit = tg._intersect_leaf(mesh, shear, -1 - child, end, hit, limit, mode)
                    if mode == ANY and hit.count > 0:
                        query.node = 0
                elif child > 0:
                    at = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    tg._read_children_soon(at, mesh.nodes, mesh.triangles, tg.uint64(TRIANGLE_BYTES))
                    hits = tg._hit_children(query, at, tg.where(mode == COUNT, limit, hit.t))
                    tg._descend_with_mask(query, child, tg._order_by_octant(hits, octant))
            elif query.node == query.root:
                query.node = 0
            else:
                query.node = tg._element_at(node + PARENT, int32)
                tg._ascend(query)
    return hit


@composite()
def _intersect_leaf(
    mesh: MESH, shear: SHEAR, begin: int32, end: int32, before: FOUND, limit: float32, mode: int32
):
    """The earlier hits combined with the hits among adjacent triangles."""
    nearest = before
    item = begin
    while item < end:
        at = mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES
        first, second, third = tg._triangle(mesh, item)
        hit = tg._intersect_triangle(shear, first, second, third)
        if hit.hit and hit.t >= 0.0 and hit.t <= limit:
            face = tg._element_at(at + 36, int32)
            nearest.count += 1
            if hit.t < nearest.t or (hit.t == nearest.t and (nearest.face < 0 or face < nearest.face)):
                nearest.t, nearest.face, nearest.at = hit.t, face, item
            if mode == ANY:
                item = end
        item += 1
    return nearest


@composite()
def mesh_query_ray(id, start: VEC3, dir: VEC3, max_t: float32, root: int32 = -1):
    """The first face of a mesh that a ray hits from either side, of faces at equal distances the lowest.

    A ray that goes through an edge or a vertex of a closed mesh hits exactly one of the faces around it. The result
    does not depend on how the tree was built.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length; a ray of direction 0 hits nothing.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
        t, bary_u, bary_v, sign, normal, face: variables of the caller, four float32, a vec3 and an int32, for a call
            with all of them: if a face is hit, they get the values of a MeshQueryRay; the result is whether a face is
            hit.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        a MeshQueryRay: `result`, whether a face is hit; `face`; `t`, in lengths of `dir`; `u` and `v`, the weights of
        the face's first two vertices; the unit `normal` of the face, and `sign`, above 0 if it is hit from the side
        that the normal points to, else below 0.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `t`, `u`, `v` and `normal` for `start`, `dir` and the points of the mesh; the face is constant.
    """
    mesh = tg._mesh(id)
    crossing = tg._traverse(mesh, start, dir, max_t, root, CLOSEST)
    result = MESH_QUERY_RAY()
    if crossing.face >= 0:
        first, second, third = tg._corners(mesh, crossing.at, crossing.face)
        hit = tg._intersect_triangle(tg._shear(start, dir), first, second, third)
        result.result, result.face = True, crossing.face
        result.t, result.u, result.v = hit.t, hit.u, hit.v
        result.sign = tg.where(hit.front, 1.0, -1.0)
        result.normal = tg.normalize(tg.cross(second - first, third - first))
    return result


@composite()
def mesh_query_ray(
    id,
    start: VEC3,
    dir: VEC3,
    max_t: float32,
    t: InOut[float32],
    bary_u: InOut[float32],
    bary_v: InOut[float32],
    sign: InOut[float32],
    normal: InOut[VEC3],
    face: InOut[int32],
    root: int32 = -1,
):
    """Whether a ray hits a face. The variables get the hit."""
    query = tg.mesh_query_ray(id, start, dir, max_t, root)
    if query.result:
        t, bary_u, bary_v, sign, normal, face = (
            query.t,
            query.u,
            query.v,
            query.sign,
            query.normal,
            query.face,
        )
    return query.result


@composite(QUERY)
def mesh_query_ray_anyhit(id, start: VEC3, dir: VEC3, max_t: float32, root: int32 = -1):
    """Whether a ray hits a face of a mesh.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        a bool.
    """
    hit = tg._traverse(tg._mesh(id), start, dir, max_t, root, ANY)
    return hit.count > 0


@composite(QUERY)
def mesh_query_ray_count_intersections(id, start: VEC3, dir: VEC3, root: int32 = -1):
    """The number of faces of a mesh that a ray hits: odd if it starts inside of a closed mesh.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        an int32.
    """
    hit = tg._traverse(tg._mesh(id), start, dir, tg.inf, root, COUNT)
    return hit.count
