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
    "The result of `mesh_query_ray`.",
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
"""The maximum product of a coordinate and a component of `inverse`."""
SLABS = StructType("Slabs", {"inverse": VEC3, "near": VEC3, "far": VEC3}, __name__, "SLABS")
"""The linear function of a plane's coordinate that gives the distance along a ray: the coordinate times `inverse`, plus
`near` for planes where the ray enters a box, or `far` for planes where the ray leaves a box."""
FOUND = StructType("Found", {"face": int32, "t": float32, "at": int32, "count": int32}, __name__, "FOUND")
"""The closest face that the ray hits (the lowest index among faces at equal distances), its position among the
triangles, and the number of hits."""


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
    address = mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES
    first, second = tg._element_at(address, VEC3), tg._element_at(address + 12, VEC3)
    return first, second, tg._element_at(address + 24, VEC3)


@composite()
def _triangle_and_face(mesh: MESH, item: int32):
    """The vertices and the face of the triangle at a position."""
    address = mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES
    a, b, c = (
        tg._element_at(address, VEC4),
        tg._element_at(address + 16, VEC4),
        tg._element_at(address + 32, VEC4),
    )
    first, second, third = tg.vec3(a[0], a[1], a[2]), tg.vec3(a[3], b[0], b[1]), tg.vec3(b[2], b[3], c[0])
    return first, second, third, tg.bitcast(c[1], int32)


@composite()
def _ray_extents(nodes: uint64, start: VEC3, dir: VEC3):
    """The bound of the coordinates that occur along a ray through a hierarchy, the largest component of the direction,
    and the margin of boxes."""
    max_start, largest = 0.0, 0.0
    for axis in tg.static(range(3)):
        max_start = tg._max_ignoring_nan(max_start, tg.abs(start[axis]))
        largest = tg._max_ignoring_nan(largest, tg.abs(dir[axis]))
    margin = tg._box_margin(nodes, start)
    extent = max_start + margin * (1.0 / BOUND)
    return extent, largest, margin


@composite()
def _slabs(nodes: uint64, start: VEC3, dir: VEC3):
    """The factors and addends of a ray through a hierarchy."""
    extent, largest, margin = tg._ray_extents(nodes, start, dir)
    displacement = margin + extent * ROUNDING
    s = SLABS()
    s.inverse = tg.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    # Products with coordinates are finite. Along the longest axis a ray leaves the box before it reaches a limit of
    # another axis.
    max_factor = LARGEST / tg._max_ignoring_nan(tg._max_ignoring_nan(1.0, extent), largest * 2.0**26)
    is_finite = (
        (tg.abs(s.inverse[0]) <= max_factor)
        & (tg.abs(s.inverse[1]) <= max_factor)
        & (tg.abs(s.inverse[2]) <= max_factor)
    )
    if not is_finite:
        for axis in tg.static(range(3)):
            if not tg.abs(s.inverse[axis]) <= max_factor:
                s.inverse[axis] = tg.copysign(max_factor, dir[axis])
    out = tg.vec3(
        tg.copysign(displacement, dir[0]),
        tg.copysign(displacement, dir[1]),
        tg.copysign(displacement, dir[2]),
    )
    s.near, s.far = -tg.cw_mul(start + out, s.inverse), -tg.cw_mul(start - out, s.inverse)
    is_moderate = is_finite or (
        extent * 2.0**-100 <= largest and largest >= 2.0**-100 and largest <= 2.0**100
    )
    if not (is_moderate and extent * 2.0**90 >= largest and extent >= 2.0**-100):
        # No plane restricts the distances of such short or long directions, or in such small scenes.
        for axis in tg.static(range(3)):
            s.inverse[axis], s.near[axis], s.far[axis] = tg.copysign(2.0**-126, dir[axis]), -tg.inf, tg.inf
    return s


@composite()
def _ray_enters_child(s: SLABS, bounds: uint64, x: int32, y: int32, z: int32, limit: float32):
    """Whether a ray enters a child's box up to a distance. `bounds`: the address of the first bound of the box; x, y,
    z: the sides of boxes at which the ray enters."""
    nx = tg._element_at(bounds + tg.uint64(x * UPPER), float32)
    ny = tg._element_at(bounds + tg.uint64(AXIS + y * UPPER), float32)
    nz = tg._element_at(bounds + tg.uint64(2 * AXIS + z * UPPER), float32)
    near = tg._max_ignoring_nan(0.0, tg.fma(nx, s.inverse[0], s.near[0]))
    near = tg._max_ignoring_nan(near, tg.fma(ny, s.inverse[1], s.near[1]))
    near = tg._max_ignoring_nan(near, tg.fma(nz, s.inverse[2], s.near[2]))
    return near <= limit * INTERVAL_WIDENING


@composite()
def _entered_children(s: SLABS, node: uint64, x: int32, y: int32, z: int32, limit: float32):
    """The mask of the children of a node whose boxes a ray hits up to a distance."""
    nx, ny, nz = tg._planes(node, 0, x), tg._planes(node, 1, y), tg._planes(node, 2, z)
    fx, fy, fz = tg._planes(node, 0, 1 - x), tg._planes(node, 1, 1 - y), tg._planes(node, 2, 1 - z)
    # Non-negative floats are ordered as their bits; the NaNs of missing children are last.
    near = tg._larger_of_each(tg._distance_bits(nx, s.inverse[0], s.near[0]), EIGHT_INTS(0))
    near = tg._larger_of_each(tg._distance_bits(ny, s.inverse[1], s.near[1]), near)
    near = tg._larger_of_each(tg._distance_bits(nz, s.inverse[2], s.near[2]), near)
    far = tg._smaller_of_each(
        tg._distance_bits(fx, s.inverse[0], s.far[0]), EIGHT_INTS(tg.bitcast(limit, int32))
    )
    far = tg._smaller_of_each(tg._distance_bits(fy, s.inverse[1], s.far[1]), far)
    far = tg._smaller_of_each(tg._distance_bits(fz, s.inverse[2], s.far[2]), far)
    near, far = tg.bitcast(near, float32), tg.bitcast(far, float32)
    return tg._bits(tg._each_within(near, far * INTERVAL_WIDENING))


@composite()
def _distance_bits(planes: VEC8, by: float32, add: float32):
    """The bits of the distances along a ray to planes."""
    return tg.bitcast(tg.fma(planes, VEC8(by), VEC8(add)), int32)


@composite()
def _traverse(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse a mesh along a ray."""
    hit = FOUND()
    if tg._on_gpu():
        hit = tg._traverse_compact(mesh, start, dir, limit, root, mode)
    else:
        hit = tg._traverse_nodes(mesh, start, dir, limit, root, mode)
    return hit


@composite()
def _traverse_nodes(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse the nodes of a mesh along a ray."""
    hit = FOUND(-1, limit, 0, 0)
    start_node = tg.where(mesh.nodes == tg.uint64(0), 0, tg.where(root > 0, root, 1))
    if dir[0] == 0.0 and dir[1] == 0.0 and dir[2] == 0.0:
        start_node = 0
    if start_node > 0:
        slabs = tg._slabs(mesh.nodes, start, dir)
        shear = tg._shear(start, dir)
        x, y, z = tg._sign_bits_of_ray(dir)
        octant = x | (y << 1) | (z << 2)
        path = RAY_QUERY()
        path.node = start_node
        path.root = start_node
        root_at = mesh.nodes + tg.uint64(start_node) * NODE_BYTES
        path.path0 = tg.uint64(
            tg._order_by_octant(tg._entered_children(slabs, root_at, x, y, z, limit), octant)
        )
        while path.node > 0:
            remaining = tg.uint32(path.path0) & 255
            if remaining == tg.uint32(0):
                if path.node == path.root:
                    path.node = 0
                else:
                    parent = mesh.nodes + tg.uint64(path.node) * NODE_BYTES + PARENT
                    path.node = tg._element_at(parent, int32)
                    tg._ascend(path)
            else:
                node = mesh.nodes + tg.uint64(path.node) * NODE_BYTES
                path.path0 = path.path0 & (path.path0 - 1)
                slot = tg.uint64(tg.ctz(remaining) ^ tg.uint32(octant))
                child = tg._element_at(node + CHILDREN + slot * 4, int32)
                next_slot = tg.uint64(tg.ctz((remaining & (remaining - 1)) | 128) ^ tg.uint32(octant))
                tg._prefetch_child(node, next_slot, mesh.nodes, mesh.triangles, tg.uint64(TRIANGLE_BYTES))
                # The closest hit may have changed since the children of the node were tested.
                if mode == CLOSEST and hit.face >= 0:
                    enters = tg._ray_enters_child(slabs, node + slot * 4, x, y, z, hit.t)
                    child = tg.where(enters, child, 0)
                if child < 0:
                    end = tg.int32(tg._element_at(node + COUNTS + slot, uint8)) - 1 - child
                    hit = tg._intersect_leaf(mesh, shear, -1 - child, end, hit, limit, mode)
                    if mode == ANY and hit.count > 0:
                        path.node = 0
                elif child > 0:
                    child_address = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    max_distance = tg.where(mode == COUNT, limit, hit.t)
                    hits = tg._entered_children(slabs, child_address, x, y, z, max_distance)
                    if hits != tg.uint32(0):
                        tg._descend_with_mask(path, child, tg._order_by_octant(hits, octant))
    return hit


@composite()
def _intersect_leaf(
    mesh: MESH, shear: SHEAR, begin: int32, end: int32, earlier: FOUND, limit: float32, mode: int32
):
    """The hits of `earlier` combined with the hits among adjacent triangles."""
    closest = earlier
    item = begin
    while item < end:
        first, second, third, face_index = tg._triangle_and_face(mesh, item)
        hit = tg._intersect_triangle(shear, first, second, third)
        if hit.hit and hit.t >= 0.0 and hit.t <= limit:
            face = face_index
            closest.count += 1
            if hit.t < closest.t or (hit.t == closest.t and (closest.face < 0 or face < closest.face)):
                closest.t, closest.face, closest.at = hit.t, face, item
            if mode == ANY:
                item = end
        item += 1
    return closest


@composite()
def mesh_query_ray(id, start: VEC3, dir: VEC3, max_t: float32, root: int32 = -1):
    """The first face of a mesh that a ray hits from either side; the lowest index among faces at equal distances.

    A ray that goes through an edge or a vertex of a closed mesh hits exactly one of the faces around it. The result
    does not depend on how the tree was built.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length; a ray of direction 0 hits nothing.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
        t, bary_u, bary_v, sign, normal, face: variables of the caller, four float32, a vec3 and an int32, for a call
            with all of them: if a face is hit, they are set to the values of a MeshQueryRay; the result is whether a
            face is hit.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        a MeshQueryRay: `result`, whether a face is hit; `face`; `t`, in lengths of `dir`; `u` and `v`, the weights of
            the face's first two vertices; the unit `normal` of the face, and `sign`, above 0 if the ray hits the side
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
    # Without the reload, a ray that enters no node would set the result before the traversal, in a register.
    face = tg._reload(tg._spill(crossing.face))
    if face >= 0:
        first, second, third = tg._corners(mesh, crossing.at, face)
        shear = tg._reloaded_shear(tg._spilled_shear(start, dir))
        hit = tg._intersect_triangle(shear, first, second, third)
        result.result, result.face = True, face
        result.t, result.u, result.v = hit.t, hit.u, hit.v
        result.sign = tg.where(hit.front, 1.0, -1.0)
        result.normal = tg._unit_normal(first, second, third)
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
    """Whether a ray hits a face. The variables are set to the hit."""
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
