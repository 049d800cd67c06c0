"""A kernel for each query of a spatial structure by a thread, and for the closest results of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tegula as tg

INFINITY = float("inf")


@tg.kernel
def boxes_in_box(bvh: tg.Bvh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    for item in tg.bvh_query_aabb(bvh, a[i], b[i]):
        out[i] += item


@tg.kernel
def boxes_in_ball(bvh: tg.Bvh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    for item in tg.bvh_query_sphere(bvh, a[i], b[i][0]):
        out[i] += item


@tg.kernel
def boxes_on_ray(bvh: tg.Bvh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    for item in tg.bvh_query_ray(bvh, a[i], b[i]):
        out[i] += item


@tg.kernel
def nearest_box(bvh: tg.Bvh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.bvh_query_nearest(bvh, a[i])


@tg.kernel
def faces_in_ball(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    for face in tg.mesh_query_sphere(mesh, a[i], b[i][0]):
        out[i] += face


@tg.kernel
def first_hit(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    hit = tg.mesh_query_ray(mesh, a[i], b[i], INFINITY)
    out[i] = hit.t + hit.u + hit.sign + float(hit.face)


@tg.kernel
def any_hit(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.where(tg.mesh_query_ray_anyhit(mesh, a[i], b[i], INFINITY), 1, 0)


@tg.kernel
def number_of_hits(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.mesh_query_ray_count_intersections(mesh, a[i], b[i])


@tg.kernel
def closest_face(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.mesh_query_point_no_sign(mesh, a[i], INFINITY).face


@tg.kernel
def furthest_face(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.mesh_query_furthest_point_no_sign(mesh, a[i], 0.0).face


@tg.kernel
def side_by_normals(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.mesh_query_point_sign_normal(mesh, a[i], INFINITY).sign


@tg.kernel
def side_by_winding(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.mesh_query_point_sign_winding_number(mesh, a[i], INFINITY).sign


@tg.kernel
def points_around(grid: tg.HashGrid, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    for point in tg.hash_grid_query(grid, a[i], b[i][0]):
        out[i] += point


@tg.kernel
def first_hit_of_block(mesh: tg.Mesh, a: tg.array1d[tg.vec3], b: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.tile_mesh_query_ray(mesh, a[0], b[0], INFINITY).face


BVH = (boxes_in_box, boxes_in_ball, boxes_on_ray, nearest_box)
MESH = (
    *(faces_in_ball, first_hit, any_hit, number_of_hits, closest_face, furthest_face),
    *(side_by_normals, side_by_winding, first_hit_of_block),
)
FLOATS = (first_hit, side_by_normals, side_by_winding)


def structure_of(kernel: Any) -> Any:
    """The smallest structure that a kernel queries."""
    corners = tg.zeros(3, dtype=tg.vec3)
    if kernel in BVH:
        return tg.Bvh(corners, corners)
    if kernel is points_around:
        return tg.HashGrid(1, 1, 1)
    return tg.Mesh(corners, tg.zeros(3, dtype=int), support_winding_number=True)


def arguments(kernel: Any, count: int) -> Callable[[], list[Any]]:
    """The function that creates the arguments of a kernel."""

    def make() -> list[Any]:
        vectors = [tg.zeros(count, dtype=tg.vec3) for _ in range(2)]
        return [structure_of(kernel), *vectors, tg.zeros(count, dtype=float if kernel in FLOATS else int)]

    return make
