"""Rays and the triangles of a mesh: the closest hit, any hit, and the number of hits."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.boxes import INTERVAL_WIDENING
from tegula.stdlib.geometry.layout import (
    AXIS,
    CHILDREN,
    COUNTS,
    EIGHT_INTS,
    MESH,
    NODE_BYTES,
    PARENT,
    RAY_QUERY,
    TRIANGLE_BYTES,
    UPPER,
    VEC3,
    VEC8,
)
from tegula.stdlib.geometry.triangle import SHEAR
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import VecType, bool_, float32, int32, uint8, uint32, uint64

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
VEC4 = VecType(4, float32)
CLOSEST, ANY, COUNT = 0, 1, 2
"""The goals of a traversal along a ray."""
BOUND = 2.0**-20
"""The error bound of the hit point of a ray on a sheared triangle, relative to the largest distance from the start
along an axis."""
ROUNDING = 2.0**-22
"""The error bound of the distance to a plane across an axis, relative to the largest coordinate."""
LARGEST = 2.0**126
"""The largest product of a coordinate and a factor of distances."""
SLABS = StructType("Slabs", {"by": VEC3, "near": VEC3, "far": VEC3}, __name__, "SLABS")
"""The distance along a ray to a plane is its coordinate times `by` plus `near` where the ray enters a box, plus `far`
where the ray leaves a box."""
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
def _triangle_and_face(mesh: MESH, item: int32):
    """The vertices and the face of the triangle at a position."""
    at = mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES
    a, b, c = tg._element_at(at, VEC4), tg._element_at(at + 16, VEC4), tg._element_at(at + 32, VEC4)
    first, second, third = tg.vec3(a[0], a[1], a[2]), tg.vec3(a[3], b[0], b[1]), tg.vec3(b[2], b[3], c[0])
    return first, second, third, tg.bitcast(c[1], int32)


@composite()
def _slabs(nodes: uint64, start: VEC3, dir: VEC3):
    """The factors and addends of a ray through a hierarchy."""
    side, largest = 0.0, 0.0
    for axis in tg.static(range(3)):
        side = tg._max_ignoring_nan(side, tg.abs(start[axis]))
        largest = tg._max_ignoring_nan(largest, tg.abs(dir[axis]))
    margin = tg._box_margin(nodes, start)
    reach = side + margin * (1.0 / BOUND)
    apart = margin + reach * ROUNDING
    s = SLABS()
    s.by = tg.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    # Products with coordinates are finite; along the longest axis a ray leaves before it gets to a limit of others.
    most = LARGEST / tg._max_ignoring_nan(tg._max_ignoring_nan(1.0, reach), largest * 2.0**26)
    fits = (tg.abs(s.by[0]) <= most) & (tg.abs(s.by[1]) <= most) & (tg.abs(s.by[2]) <= most)
    if not fits:
        for axis in tg.static(range(3)):
            if not tg.abs(s.by[axis]) <= most:
                s.by[axis] = tg.copysign(most, dir[axis])
    out = tg.vec3(tg.copysign(apart, dir[0]), tg.copysign(apart, dir[1]), tg.copysign(apart, dir[2]))
    s.near, s.far = -tg.cw_mul(start + out, s.by), -tg.cw_mul(start - out, s.by)
    if not fits and not (reach * 2.0**-100 <= largest and largest >= 2.0**-100 and largest <= 2.0**100):
        # No plane restricts the distances of such short or long directions.
        for axis in tg.static(range(3)):
            s.by[axis], s.near[axis], s.far[axis] = tg.copysign(2.0**-126, dir[axis]), -tg.inf, tg.inf
    return s


@composite()
def _ray_enters_child(s: SLABS, bounds: uint64, x: int32, y: int32, z: int32, limit: float32):
    """Whether a ray enters a child's box up to a distance; `bounds`: the address of its first bound; x, y, z: the sides
    of boxes that the ray enters by."""
    nx = tg._element_at(bounds + tg.uint64(x * UPPER), float32)
    ny = tg._element_at(bounds + tg.uint64(AXIS + y * UPPER), float32)
    nz = tg._element_at(bounds + tg.uint64(2 * AXIS + z * UPPER), float32)
    near = tg._max_ignoring_nan(0.0, tg.fma(nx, s.by[0], s.near[0]))
    near = tg._max_ignoring_nan(near, tg.fma(ny, s.by[1], s.near[1]))
    near = tg._max_ignoring_nan(near, tg.fma(nz, s.by[2], s.near[2]))
    return near <= limit * INTERVAL_WIDENING


@composite()
def _entered_children(s: SLABS, node: uint64, x: int32, y: int32, z: int32, limit: float32):
    """The mask of the children of a node whose boxes a ray hits up to a distance."""
    nx, ny, nz = tg._planes(node, 0, x), tg._planes(node, 1, y), tg._planes(node, 2, z)
    fx, fy, fz = tg._planes(node, 0, 1 - x), tg._planes(node, 1, 1 - y), tg._planes(node, 2, 1 - z)
    # Floats from 0 on are ordered as their bits are, with NaNs, which missing children have, last.
    near = tg._larger_of_each(tg._distance_bits(nx, s.by[0], s.near[0]), EIGHT_INTS(0))
    near = tg._larger_of_each(tg._distance_bits(ny, s.by[1], s.near[1]), near)
    near = tg._larger_of_each(tg._distance_bits(nz, s.by[2], s.near[2]), near)
    far = tg._smaller_of_each(tg._distance_bits(fx, s.by[0], s.far[0]), EIGHT_INTS(tg.bitcast(limit, int32)))
    far = tg._smaller_of_each(tg._distance_bits(fy, s.by[1], s.far[1]), far)
    far = tg._smaller_of_each(tg._distance_bits(fz, s.by[2], s.far[2]), far)
    near, far = tg.bitcast(near, float32), tg.bitcast(far, float32)
    return tg._bits(tg._each_within(near, far * INTERVAL_WIDENING))


@composite()
def _distance_bits(planes: VEC8, by: float32, add: float32):
    """The bits of the distances along a ray to planes."""
    return tg.bitcast(tg.fma(planes, VEC8(by), VEC8(add)), int32)


@composite()
def _traverse(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse a mesh along a ray."""
    hit = FOUND(-1, limit, 0, 0)
    begin = tg.where(mesh.nodes == tg.uint64(0), 0, tg.where(root > 0, root, 1))
    if dir[0] == 0.0 and dir[1] == 0.0 and dir[2] == 0.0:
        begin = 0
    if begin > 0:
        slabs = tg._slabs(mesh.nodes, start, dir)
        shear = tg._shear(start, dir)
        x, y, z = tg._sign_bits_of_ray(dir)
        octant = x | (y << 1) | (z << 2)
        path = RAY_QUERY()
        path.node = begin
        path.root = begin
        root_at = mesh.nodes + tg.uint64(begin) * NODE_BYTES
        path.path0 = tg.uint64(
            tg._order_by_octant(tg._entered_children(slabs, root_at, x, y, z, limit), octant)
        )
        while path.node > 0:
            left = tg.uint32(path.path0) & 255
            if left == tg.uint32(0):
                if path.node == path.root:
                    path.node = 0
                else:
                    parent = mesh.nodes + tg.uint64(path.node) * NODE_BYTES + PARENT
                    path.node = tg._element_at(parent, int32)
                    tg._ascend(path)
            else:
                node = mesh.nodes + tg.uint64(path.node) * NODE_BYTES
                path.path0 = path.path0 & (path.path0 - 1)
                slot = tg.uint64(tg.ctz(left) ^ tg.uint32(octant))
                child = tg._element_at(node + CHILDREN + slot * 4, int32)
                following = tg.uint64(tg.ctz((left & (left - 1)) | 128) ^ tg.uint32(octant))
                tg._read_child_soon(node, following, mesh.nodes, mesh.triangles, tg.uint64(TRIANGLE_BYTES))
                # A nearer hit may have been found since the children of the node were tested.
                if mode == CLOSEST and hit.face >= 0:
                    entered = tg._ray_enters_child(slabs, node + slot * 4, x, y, z, hit.t)
                    child = tg.where(entered, child, 0)
                if child < 0:
                    end = tg.int32(tg._element_at(node + COUNTS + slot, uint8)) - 1 - child
                    hit = tg._intersect_leaf(mesh, shear, -1 - child, end, hit, limit, mode)
                    if mode == ANY and hit.count > 0:
                        path.node = 0
                elif child > 0:
                    at = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    most = tg.where(mode == COUNT, limit, hit.t)
                    hits = tg._entered_children(slabs, at, x, y, z, most)
                    if hits != tg.uint32(0):
                        tg._descend_with_mask(path, child, tg._order_by_octant(hits, octant))
    return hit


@composite()
def _intersect_leaf(
    mesh: MESH, shear: SHEAR, begin: int32, end: int32, before: FOUND, limit: float32, mode: int32
):
    """The earlier hits combined with the hits among adjacent triangles."""
    nearest = before
    item = begin
    while item < end:
        first, second, third, number = tg._triangle_and_face(mesh, item)
        hit = tg._intersect_triangle(shear, first, second, third)
        if hit.hit and hit.t >= 0.0 and hit.t <= limit:
            face = number
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
