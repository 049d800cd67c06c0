"""Four inside tests for points of a mesh: majority of rays, parity, pseudonormals, winding numbers."""

from __future__ import annotations

from math import pi
from typing import Any

from tegula.signature import InOut
from tegula.stdlib.geometry.layout import (
    CHILDREN,
    COUNTS,
    MESH,
    NODE_BYTES,
    PARENT,
    SPHERE_QUERY,
    VEC3,
)
from tegula.stdlib.geometry.points import BOUND, NEAREST, POINT
from tegula.stdlib.registry import composite, tg
from tegula.types import float32, int32, uint8

CLOSEST = 0
WINDING_BYTES = 32
"""The size of a node's winding number data in bytes: the centre of its faces, the sum of the faces' area vectors, and a
radius."""
SEED = 42


@composite()
def _votes_inside(mesh: MESH, point: VEC3, dir: VEC3):
    """The number 1 if a ray hits the back of the first face, else 0."""
    crossing = tg._traverse(mesh, point, dir, tg.inf, -1, CLOSEST)
    inside = 0
    if crossing.face >= 0:
        first, second, third = tg._triangle(mesh, crossing.at)
        hit = tg._intersect_triangle(tg._shear(point, dir), first, second, third)
        inside = tg.where(hit.front, 0, 1)
    return inside


@composite()
def _sign_by_votes(mesh: MESH, point: VEC3):
    """The sign by the majority of three rays along the axes."""
    votes = 0
    for k in range(3):
        dir = tg.vec3(tg.where(k == 0, 1.0, 0.0), tg.where(k == 1, 1.0, 0.0), tg.where(k == 2, 1.0, 0.0))
        votes += tg._votes_inside(mesh, point, dir)
    return tg.where(votes >= 2, -1.0, 1.0)


@composite()
def _sign_by_parity(mesh: MESH, point: VEC3, n_sample: int32, scale: float32):
    """The sign by the parity of the hits of random rays around the diagonal."""
    odd = 0
    state = tg.rand_init(SEED)
    for _ in range(n_sample):
        x, y, z = (
            tg.randf(state, -scale, scale),
            tg.randf(state, -scale, scale),
            tg.randf(state, -scale, scale),
        )
        dir = tg.vec3(1.0 + x, 1.0 + y, 1.0 + z)
        odd += tg._traverse(mesh, point, dir, tg.inf, -1, 2).count & 1
    return tg.where(2 * odd >= n_sample, -1.0, 1.0)


@composite()
def _sign_by_normals(mesh: MESH, point: VEC3, nearest: NEAREST, epsilon: float32):
    """The sign by the angle-weighted pseudonormal: the sum of the normals of the faces at the closest point, weighted
    by the faces' angles there.

    Baerentzen and Aanaes, Signed Distance Computation Using the Angle Weighted Pseudonormal, 2005."""
    first, second, third = tg._triangle(mesh, nearest.at)
    w = tg._scaled_weights(first - point, second - point, third - point)
    closest = first * w[0] + second * w[1] + third * w[2]
    scale = tg._triangle_scale(second - first, third - second, first - third)
    a, b, c = (first - closest) * scale, (second - closest) * scale, (third - closest) * scale
    tolerance = epsilon * (tg.length(b - a) + tg.length(c - b) + tg.length(a - c)) / 3.0
    total = tg.vec3(0.0, 0.0, 0.0)
    extent = tg.vec3(tolerance / scale)
    query = tg.bvh_query_aabb(tg._tree_of(mesh), closest - extent, closest + extent, -1)
    position = tg._next_item_position(query)
    while position >= 0:
        a, b, c = tg._triangle(mesh, position)
        a, b, c = (a - closest) * scale, (b - closest) * scale, (c - closest) * scale
        total = total + tg._weighted_normal(a, b, c, tolerance)
        position = tg._next_item_position(query)
    offset = point - closest
    offset = offset * tg._triangle_scale(offset, offset, offset)
    return tg.where(tg.dot(total, offset) < 0.0, -1.0, 1.0)


@composite()
def _next_item_position(query: InOut[Any]):
    """The position of the next item of a query."""
    item = tg._advance(query, 0.0)
    return tg.where(item < 0, -1, tg._position(query))


@composite()
def _weighted_normal(a: VEC3, b: VEC3, c: VEC3, tolerance: float32):
    """The normal of a triangle times the triangle's angle at the origin: 2 pi inside, pi on an edge, the corner's angle
    at a vertex, else 0."""
    n = tg._unit_normal(a, b, c)
    w = tg._scaled_weights(a, b, c)
    distance = tg.length(a * w[0] + b * w[1] + c * w[2])
    angle = 2.0 * pi
    is_at_a, is_at_b, is_at_c = (
        tg.length(a) <= tolerance,
        tg.length(b) <= tolerance,
        tg.length(c) <= tolerance,
    )
    if is_at_a:
        angle = tg._angle(b - a, c - a)
    elif is_at_b:
        angle = tg._angle(a - b, c - b)
    elif is_at_c:
        angle = tg._angle(a - c, b - c)
    elif tg._on_edge(a, b, tolerance) or tg._on_edge(b, c, tolerance) or tg._on_edge(c, a, tolerance):
        angle = pi
    return n * tg.where(distance <= tolerance, angle, 0.0)


@composite()
def _on_edge(a: VEC3, b: VEC3, tolerance: float32):
    """Whether the origin is on a segment."""
    s = tg._segment_weight(a, b)
    return tg.length(a + (b - a) * s) <= tolerance


@composite()
def _angle(a: VEC3, b: VEC3):
    """The angle between two vectors."""
    return tg.atan2(tg.length(tg.cross(a, b)), tg.dot(a, b))


@composite()
def _solid_angle(a: VEC3, b: VEC3, c: VEC3):
    """The solid angle of a triangle as seen from the origin.

    Van Oosterom and Strackee, The Solid Angle of a Plane Triangle, 1983."""
    la, lb, lc = tg.length(a), tg.length(b), tg.length(c)
    det = tg.dot(a, tg.cross(b, c))
    denominator = la * lb * lc + tg.dot(a, b) * lc + tg.dot(b, c) * la + tg.dot(c, a) * lb
    return 2.0 * tg.atan2(det, denominator)


@composite()
def _winding(mesh: MESH, point: VEC3, accuracy: float32):
    """The winding number of a mesh around a point, with the dipole approximation for far nodes.

    Barill et al., Fast Winding Numbers for Soups and Clouds, 2018."""
    total = 0.0
    # In larger and in smaller scenes the cubes of distances do not fit float32: faces are scaled, none is approximated.
    extent = tg._box_margin(mesh.nodes, point) * (1.0 / BOUND)
    has_cubes = (extent >= 2.0**-30) & (extent <= 2.0**36)
    min_ratio = tg.where(has_cubes, accuracy, tg.inf)
    path = SPHERE_QUERY()
    path.node = 1
    path.path0 = tg.uint64(255)
    while path.node > 0:
        node = mesh.nodes + tg.uint64(path.node) * NODE_BYTES
        remaining = tg.uint32(path.path0) & 255
        if remaining != tg.uint32(0):
            path.path0 = path.path0 & (path.path0 - 1)
            slot = tg.uint64(tg.ctz(remaining))
            child = tg._element_at(node + CHILDREN + slot * 4, int32)
            if child < 0:
                leaf = -1 - child
                end = leaf + tg.int32(tg._element_at(node + COUNTS + slot, uint8))
                while leaf < end:
                    a, b, c = tg._triangle(mesh, leaf)
                    a, b, c = a - point, b - point, c - point
                    if not has_cubes:
                        scale = tg._triangle_scale(a, b, c)
                        a, b, c = a * scale, b * scale, c * scale
                    total += tg._solid_angle(a, b, c)
                    leaf += 1
            elif child > 0:
                data_address = mesh.winding + tg.uint64(child) * WINDING_BYTES
                d = tg._element_at(data_address, VEC3) - point
                distance = tg.length(d)
                if distance > min_ratio * tg._element_at(data_address + 24, float32):
                    total += tg.dot(tg._element_at(data_address + 12, VEC3), d) / (
                        distance * distance * distance
                    )
                else:
                    tg._descend_with_mask(path, child, tg.uint32(255))
        elif path.node == 1:
            path.node = 0
        else:
            path.node = tg._element_at(node + PARENT, int32)
            tg._ascend(path)
    return total / (4.0 * pi)


@composite(POINT)
def mesh_query_point(id, point: VEC3, max_dist: float32):
    """The point of a mesh that is closest to a point. The point is inside if two of three rays along the axes hit the
    back of their first face.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all of
            them: if a point is found, they are set to the sign, the face and the weights; the result is whether a point
            is found.
    """
    mesh = tg._mesh(id)
    nearest = tg._closest(mesh, point, max_dist)
    sign = 0.0
    if nearest.face >= 0:
        sign = tg._sign_by_votes(mesh, point)
    return tg._query_result(mesh, point, nearest, sign)


@composite(POINT)
def mesh_query_point_sign_parity(
    id, point: VEC3, max_dist: float32, n_sample: int32 = 1, perturbation_scale: float32 = 0.1
):
    """The point of a mesh that is closest to a point. The point is inside if at least half of `n_sample` rays hit an
    odd number of faces.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all of
            them: if a point is found, they are set to the sign, the face and the weights; the result is whether a point
            is found.
        n_sample: an int32, the number of rays. All points use the same directions.
        perturbation_scale: a float32, the largest deviation of the rays from the direction (1, 1, 1) along each axis.
    """
    mesh = tg._mesh(id)
    nearest = tg._closest(mesh, point, max_dist)
    sign = 0.0
    if nearest.face >= 0:
        sign = tg._sign_by_parity(mesh, point, n_sample, perturbation_scale)
    return tg._query_result(mesh, point, nearest, sign)


@composite(POINT)
def mesh_query_point_sign_normal(id, point: VEC3, max_dist: float32, epsilon: float32 = 0.001):
    """The point of a mesh that is closest to a point. The point is inside if it is at the back of the angle-weighted
    pseudonormal of the closest point.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all of
            them: if a point is found, they are set to the sign, the face and the weights; the result is whether a point
            is found.
        epsilon: a float32, the tolerance for faces, edges and vertices at the closest point, in units of the mean edge
            length of the closest face.
    """
    mesh = tg._mesh(id)
    nearest = tg._closest(mesh, point, max_dist)
    sign = 0.0
    if nearest.face >= 0:
        sign = tg._sign_by_normals(mesh, point, nearest, epsilon)
    return tg._query_result(mesh, point, nearest, sign)


@composite(POINT)
def mesh_query_point_sign_winding_number(
    id, point: VEC3, max_dist: float32, accuracy: float32 = 2.0, threshold: float32 = 0.5
):
    """The point of a mesh that is closest to a point. The point is inside if its winding number is at least
    a threshold.

    Winding numbers are robust for meshes with holes and for loose triangles. For a mesh without
    `support_winding_number` the sign is computed as by `mesh_query_point`.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all of
            them: if a point is found, they are set to the sign, the face and the weights; the result is whether a point
            is found.
        accuracy: a float32; the faces of a node are approximated together if their distance exceeds `accuracy` times
            their radius.
        threshold: a float32, the least winding number of points that are inside.
    """
    mesh = tg._mesh(id)
    nearest = tg._closest(mesh, point, max_dist)
    sign = 0.0
    if nearest.face >= 0:
        if mesh.winding != tg.uint64(0):
            sign = tg.where(tg._winding(mesh, point, accuracy) >= threshold, -1.0, 1.0)
        else:
            sign = tg._sign_by_votes(mesh, point)
    return tg._query_result(mesh, point, nearest, sign)


@composite()
def mesh_query_point(
    id,
    point: VEC3,
    max_dist: float32,
    inside: InOut[float32],
    face: InOut[int32],
    bary_u: InOut[float32],
    bary_v: InOut[float32],
):
    """Whether a point is found. The variables are set to the sign, the face and the weights."""
    query = tg.mesh_query_point(id, point, max_dist)
    if query.result:
        inside, face, bary_u, bary_v = query.sign, query.face, query.u, query.v
    return query.result


@composite()
def mesh_query_point_sign_parity(
    id,
    point: VEC3,
    max_dist: float32,
    inside: InOut[float32],
    face: InOut[int32],
    bary_u: InOut[float32],
    bary_v: InOut[float32],
    n_sample: int32 = 1,
    perturbation_scale: float32 = 0.1,
):
    """Whether a point is found. The variables are set to the sign, the face and the weights."""
    query = tg.mesh_query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale)
    if query.result:
        inside, face, bary_u, bary_v = query.sign, query.face, query.u, query.v
    return query.result


@composite()
def mesh_query_point_sign_normal(
    id,
    point: VEC3,
    max_dist: float32,
    inside: InOut[float32],
    face: InOut[int32],
    bary_u: InOut[float32],
    bary_v: InOut[float32],
    epsilon: float32 = 0.001,
):
    """Whether a point is found. The variables are set to the sign, the face and the weights."""
    query = tg.mesh_query_point_sign_normal(id, point, max_dist, epsilon)
    if query.result:
        inside, face, bary_u, bary_v = query.sign, query.face, query.u, query.v
    return query.result


@composite()
def mesh_query_point_sign_winding_number(
    id,
    point: VEC3,
    max_dist: float32,
    inside: InOut[float32],
    face: InOut[int32],
    bary_u: InOut[float32],
    bary_v: InOut[float32],
    accuracy: float32 = 2.0,
    threshold: float32 = 0.5,
):
    """Whether a point is found. The variables are set to the sign, the face and the weights."""
    query = tg.mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    if query.result:
        inside, face, bary_u, bary_v = query.sign, query.face, query.u, query.v
    return query.result
