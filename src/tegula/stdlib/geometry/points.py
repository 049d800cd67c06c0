"""The closest and the furthest point of a mesh."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.layout import (
    CHILDREN,
    COUNTS,
    MESH,
    MIDDLE,
    NODE_BYTES,
    PARENT,
    SPHERE_QUERY,
    TRIANGLE_BYTES,
    VEC3,
)
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import bool_, float32, int32, uint8, uint64

MESH_QUERY_POINT = StructType(
    "MeshQueryPoint",
    {"result": bool_, "sign": float32, "face": int32, "u": float32, "v": float32},
    __name__,
    "MESH_QUERY_POINT",
    "The result of the functions `mesh_query_point...`.",
)
POINT = Family(
    {
        "Returns": "a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; "
        "`u` and `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.",
        "Gradient": "the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its "
        "closest edge or vertex, are constant.",
    },
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing mesh",
    },
)
NEAREST = StructType("Nearest", {"face": int32, "key": float32, "at": int32}, __name__, "NEAREST")
"""The closest face (the lowest index among faces at equal distances), the key of its distance, and its position among
the triangles."""
BOUND = 2.0**-20
"""The error bound of a distance, relative to the largest distance from the point along an axis."""


@composite()
def _weights(a: VEC3, b: VEC3, c: VEC3):
    """The barycentric coordinates of the point of a triangle that is closest to the origin.

    Ericson, Real-Time Collision Detection, 2005, 5.1.5. A degenerate triangle is its longest edge."""
    ab, ac, bc = b - a, c - a, c - b
    d1, d2 = -tg.dot(ab, a), -tg.dot(ac, a)
    d3, d4 = -tg.dot(ab, b), -tg.dot(ac, b)
    d5, d6 = -tg.dot(ab, c), -tg.dot(ac, c)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    total = va + vb + vc
    w = tg.vec3(1.0, 0.0, 0.0)
    n = tg.cross(ab, ac)
    is_degenerate = not (tg.dot(n, n) > FLAT * tg.dot(ab, ab) * tg.dot(ac, ac))
    if is_degenerate:
        w = tg._weights_of_edges(a, b, c)
    elif d1 <= 0.0 and d2 <= 0.0:
        w = tg.vec3(1.0, 0.0, 0.0)
    elif d3 >= 0.0 and d4 <= d3:
        w = tg.vec3(0.0, 1.0, 0.0)
    elif vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        s = d1 / (d1 - d3)
        w = tg.vec3(1.0 - s, s, 0.0)
    elif d6 >= 0.0 and d5 <= d6:
        w = tg.vec3(0.0, 0.0, 1.0)
    elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        s = d2 / (d2 - d6)
        w = tg.vec3(1.0 - s, 0.0, s)
    elif va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        s = -tg.dot(bc, b) / tg.dot(bc, bc)
        s = tg.min(tg.max(s, 0.0), 1.0)
        w = tg.vec3(0.0, 1.0 - s, s)
    else:
        w = tg.vec3(va / total, vb / total, vc / total)
    return w


FLAT = 1e-12
"""The threshold of (2 * area / (product of the lengths of two edges))**2 below which a triangle is degenerate."""


@composite()
def _weights_of_edges(a: VEC3, b: VEC3, c: VEC3):
    """The barycentric coordinates of the point of a triangle's longest edge that is closest to the origin."""
    ab, bc, ca = tg.length_sq(b - a), tg.length_sq(c - b), tg.length_sq(a - c)
    w = tg.vec3(1.0, 0.0, 0.0)
    if ab >= bc and ab >= ca:
        s = tg._segment_weight(a, b)
        w = tg.vec3(1.0 - s, s, 0.0)
    elif bc >= ca:
        s = tg._segment_weight(b, c)
        w = tg.vec3(0.0, 1.0 - s, s)
    else:
        s = tg._segment_weight(c, a)
        w = tg.vec3(s, 0.0, 1.0 - s)
    return w


@composite()
def _segment_weight(a: VEC3, b: VEC3):
    """The weight of the end of a segment at its point that is closest to the origin."""
    d = b - a
    square = tg.dot(d, d)
    s = 0.0
    if square > 0.0:
        s = tg.min(tg.max(-tg.dot(a, d) / square, 0.0), 1.0)
    return s


@composite()
def _is_moderate(slack: float32):
    """Whether squares of squared distances in a scene fit float32. `slack`: the slack of the largest distance, from
    `_box_margin`."""
    return (slack >= SMALL) & (slack <= LARGE)


@composite()
def _unit(slack: float32):
    """A power of two by which distances are scaled, so that their fourth powers fit float32; 1 for most scenes.
    `slack`: the slack of the largest distance, from `_box_margin`."""
    return tg.where(tg._is_moderate(slack), 1.0, tg._binary_scale(slack * (1.0 / BOUND)))


LARGE, SMALL = BOUND * 2.0**24, BOUND * 2.0**-6
"""The range of slacks for which distances are not scaled."""


@composite()
def _limit(distance: float32, unit: float32):
    """The square of a positive distance in a unit, at least the smallest normal float32."""
    return tg.max(distance * unit * (distance * unit), 2.0**-126)


@composite()
def _triangle_scale(a: VEC3, b: VEC3, c: VEC3):
    """The binary scale of the vertices of a triangle, relative to a point. It is constant for gradients."""
    largest = 0.0
    for axis in tg.static(range(3)):
        largest = tg.max(largest, tg.max(tg.abs(a[axis]), tg.max(tg.abs(b[axis]), tg.abs(c[axis]))))
    return tg._binary_scale(largest)


@composite()
def _scaled_weights(a: VEC3, b: VEC3, c: VEC3):
    """The barycentric coordinates of `_weights`, for triangles of any size."""
    scale = tg._triangle_scale(a, b, c)
    return tg._weights(a * scale, b * scale, c * scale)


@composite()
def _closest_of_triangle(a: VEC3, b: VEC3, c: VEC3):
    """The point of a triangle of any size that is closest to the origin."""
    w = tg._scaled_weights(a, b, c)
    return a * w[0] + b * w[1] + c * w[2]


@composite()
def _key(a: VEC3, b: VEC3, c: VEC3, moderate: bool_):
    """The number by which distances of triangles from the origin are compared: in moderate scenes the squared distance,
    in others the distance, because squares do not fit float32."""
    key = 0.0
    if moderate:
        w = tg._weights(a, b, c)
        d = a * w[0] + b * w[1] + c * w[2]
        key = tg.dot(d, d)
    else:
        key = tg._scaled_length(tg._closest_of_triangle(a, b, c))
    return key


@composite()
def _scaled_length(d: VEC3):
    """The length of a vector of any length."""
    scale = tg._triangle_scale(d, d, d)
    return tg.length(d * scale) * (1.0 / scale)


@composite()
def _key_of_distance(distance: float32, moderate: bool_):
    """The key of a positive distance, at least the smallest normal float32."""
    return tg.max(tg.where(moderate, distance * distance, distance), 2.0**-126)


@composite()
def _search_radius(key: float32, slack: float32, moderate: bool_):
    """The search radius for a key: boxes farther away hold no point within the distance. The squares of radii are far
    above the smallest float32, so that the rounding of squares does not matter."""
    distance = tg.where(moderate, tg.sqrt(key), key)
    return tg.max(distance * (1.0 + BOUND) + slack, 2.0**-60)


@composite()
def _octant_at(node: uint64, point: VEC3):
    """The octant of a point relative to the centre of a node, a bit for each axis."""
    middle = tg._element_at(node + MIDDLE, VEC3)
    x, y, z = (
        tg.where(point[0] > middle[0], 1, 0),
        tg.where(point[1] > middle[1], 2, 0),
        tg.where(point[2] > middle[2], 4, 0),
    )
    return x | y | z


@composite()
def _closest(mesh: MESH, point: VEC3, max_dist: float32):
    """The closest face of a mesh."""
    return tg._next_nearest(mesh, point, max_dist, NEAREST(-1, -1.0, 0), True)


@composite()
def _furthest(mesh: MESH, point: VEC3, min_dist: float32):
    """The face with the furthest vertex."""
    furthest = NEAREST(-1, -1.0, 0)
    finite_sum = point[0] + point[1] + point[2]
    if mesh.nodes != tg.uint64(0) and finite_sum == finite_sum:
        slack = tg._box_margin(mesh.nodes, point)
        unit = tg._unit(slack)
        furthest.key = tg.where(min_dist > 0.0, tg._limit(min_dist, unit), -1.0)
        path = SPHERE_QUERY()
        path.node = 1
        path.path0 = tg.uint64(
            tg._farther_children(mesh.nodes + NODE_BYTES, point, furthest.key, slack, unit)
        )
        while path.node > 0:
            node = mesh.nodes + tg.uint64(path.node) * NODE_BYTES
            remaining = tg.uint32(path.path0) & 255
            if remaining != tg.uint32(0):
                path.path0 = path.path0 & (path.path0 - 1)
                slot = tg.uint64(tg.ctz(remaining) ^ tg.uint32(7 - tg._octant_at(node, point)))
                child = tg._element_at(node + CHILDREN + slot * 4, int32)
                if child < 0:
                    leaf = -1 - child
                    end = leaf + tg.int32(tg._element_at(node + COUNTS + slot, uint8))
                    while leaf < end:
                        first, second, third = tg._triangle(mesh, leaf)
                        a, b = (first - point) * unit, (second - point) * unit
                        square = tg.max(tg.length_sq(a), tg.length_sq(b))
                        square = tg.max(square, tg.length_sq((third - point) * unit))
                        if square >= furthest.key:
                            face = tg._element_at(
                                mesh.triangles + tg.uint64(leaf) * TRIANGLE_BYTES + 36, int32
                            )
                            if square > furthest.key or (furthest.face >= 0 and face < furthest.face):
                                furthest = NEAREST(face, square, leaf)
                        leaf += 1
                else:
                    child_address = mesh.nodes + tg.uint64(child) * NODE_BYTES
                    tg._descend_with_mask(
                        path, child, tg._farther_children(child_address, point, furthest.key, slack, unit)
                    )
            elif path.node == 1:
                path.node = 0
            else:
                path.node = tg._element_at(node + PARENT, int32)
                tg._ascend(path)
    return furthest


@composite()
def _farther_children(node: uint64, point: VEC3, square: float32, slack: float32, unit: float32):
    """The mask of the children that may hold a point at least as far away as a squared distance, in the order of
    visits."""
    lx, hx = tg._planes(node, 0, 0), tg._planes(node, 0, 1)
    ly, hy = tg._planes(node, 1, 0), tg._planes(node, 1, 1)
    lz, hz = tg._planes(node, 2, 0), tg._planes(node, 2, 1)
    hits = tg.uint32(0)
    for k in tg.static(range(8)):
        x = (tg.max(tg.abs(lx[k] - point[0]), tg.abs(hx[k] - point[0])) + slack) * unit
        y = (tg.max(tg.abs(ly[k] - point[1]), tg.abs(hy[k] - point[1])) + slack) * unit
        z = (tg.max(tg.abs(lz[k] - point[2]), tg.abs(hz[k] - point[2])) + slack) * unit
        is_far = (x * x + y * y + z * z) * (1.0 + BOUND) >= square
        hits = hits | tg.where(is_far & (lx[k] == lx[k]), tg.uint32(1 << k), tg.uint32(0))
    return tg._order_by_octant(hits, 7 - tg._octant_at(node, point))


@composite()
def _query_result(mesh: MESH, point: VEC3, nearest: NEAREST, sign: float32):
    """The result of a query for its closest face, with differentiable weights."""
    result = MESH_QUERY_POINT()
    if nearest.face >= 0:
        first, second, third = tg._corners(mesh, nearest.at, nearest.face)
        w = tg._scaled_weights(first - point, second - point, third - point)
        result.result, result.face, result.sign = True, nearest.face, sign
        result.u, result.v = w[0], w[1]
    return result


@composite(POINT)
def mesh_query_point_no_sign(id, point: VEC3, max_dist: float32):
    """The point of a mesh that is closest to a point; the `sign` is 0, because there is no inside test.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        face, bary_u, bary_v: variables of the caller, an int32 and two float32, for a call with all of them: if a point
            is found, they are set to the face and the weights; the result is whether a point is found.
    """
    mesh = tg._mesh(id)
    return tg._query_result(mesh, point, tg._closest(mesh, point, max_dist), 0.0)


@composite()
def mesh_query_point_no_sign(
    id, point: VEC3, max_dist: float32, face: InOut[int32], bary_u: InOut[float32], bary_v: InOut[float32]
):
    """Whether a point is found. The variables are set to the face and the weights."""
    query = tg.mesh_query_point_no_sign(id, point, max_dist)
    if query.result:
        face, bary_u, bary_v = query.face, query.u, query.v
    return query.result


@composite(POINT)
def mesh_query_furthest_point_no_sign(id, point: VEC3, min_dist: float32):
    """The point of a mesh that is furthest from a point, a vertex; the `sign` is 0.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        min_dist: a float32; only points that are farther away are considered.
        face, bary_u, bary_v: variables of the caller, an int32 and two float32, for a call with all of them: if a point
            is found, they are set to the face and the weights; the result is whether a point is found.
    """
    mesh = tg._mesh(id)
    furthest = tg._furthest(mesh, point, min_dist)
    result = MESH_QUERY_POINT()
    if furthest.face >= 0:
        first, second, third = tg._triangle(mesh, furthest.at)
        unit = tg._unit(tg._box_margin(mesh.nodes, point))
        a, b = tg.length_sq((first - point) * unit), tg.length_sq((second - point) * unit)
        c = tg.length_sq((third - point) * unit)
        result.result, result.face = True, furthest.face
        result.u = tg.where((a >= b) & (a >= c), 1.0, 0.0)
        result.v = tg.where((result.u == 0.0) & (b >= c), 1.0, 0.0)
    return result


@composite()
def mesh_query_furthest_point_no_sign(
    id, point: VEC3, min_dist: float32, face: InOut[int32], bary_u: InOut[float32], bary_v: InOut[float32]
):
    """Whether a point is found. The variables are set to the face and the weights."""
    query = tg.mesh_query_furthest_point_no_sign(id, point, min_dist)
    if query.result:
        face, bary_u, bary_v = query.face, query.u, query.v
    return query.result
