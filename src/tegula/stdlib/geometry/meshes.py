"""Reads of a mesh's arrays, interpolation on faces, and queries of faces by boxes and balls."""

from __future__ import annotations

from typing import Any

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.geometry.layout import (
    AABB_QUERY,
    BVH_QUERY,
    MESH,
    POINTS_WORD,
    RAY_QUERY,
    SPHERE,
    SPHERE_QUERY,
    TREE,
    TRIANGLE_BYTES,
    VEC3,
    VELOCITIES_WORD,
)
from tegula.stdlib.registry import composite, tg
from tegula.types import float32, int32, uint64

MESH_KIND = 2
ERRORS = {
    "type-mismatch": "an argument is of another type",
    "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
    "out-of-range": "a literal does not fit its dtype",
    "assertion": "the id does not name an existing mesh",
}
READ = Family({"Gradient": "none: results of queries have no gradient."}, ERRORS)
POINTS = Family({"Gradient": "the gradient for the points of the mesh."}, ERRORS)
VELOCITIES = Family({"Gradient": "the gradient for the velocities of the mesh."}, ERRORS)
ARRAYS = Family({"Gradient": "the gradient for the points and velocities that are read."}, ERRORS)


@composite()
def _mesh(id: uint64):
    """The mesh of an id."""
    entry = tg._entry(id, MESH_KIND)
    mesh = MESH()
    mesh.nodes, mesh.items, mesh.groups = (
        tg._element_at(entry, uint64),
        tg._element_at(entry + 8, uint64),
        tg._element_at(entry + 16, uint64),
    )
    mesh.group_count = tg._element_at(entry + 24, int32)
    mesh.triangles, mesh.points = tg._element_at(entry + 32, uint64), tg._element_at(entry + 40, uint64)
    mesh.indices, mesh.velocities = tg._element_at(entry + 48, uint64), tg._element_at(entry + 56, uint64)
    mesh.winding, mesh.bvh = tg._element_at(entry + 64, uint64), tg._element_at(entry + 72, uint64)
    mesh.compact = tg._element_at(entry + 80, uint64)
    mesh.point_count, mesh.face_count = tg._element_at(entry + 88, int32), tg._element_at(entry + 96, int32)
    mesh.id = id
    return mesh


@composite()
def _mesh(id: MESH):
    """The mesh of a typed argument."""
    return id


@composite()
def _tree_of(mesh: MESH):
    """The hierarchy of a mesh."""
    return TREE(mesh.nodes, mesh.items, mesh.groups, mesh.group_count, mesh.id)


@composite()
def _vertex(mesh: MESH, index: int32):
    """The vertex of a corner, or -1 if the corner is out of range."""
    vertex = -1
    if index >= 0 and index < 3 * mesh.face_count:
        vertex = tg._element_at(mesh.indices + tg.uint64(index) * 4, int32)
    return vertex


@composite()
def _point(mesh: MESH, vertex: int32):
    """The position of a vertex; zeros if the vertex is out of range."""
    position = tg.vec3(0.0, 0.0, 0.0)
    if vertex >= 0:
        position = tg._value_at(mesh.points + tg.uint64(vertex) * 12, VEC3, mesh.id, vertex, POINTS_WORD)
    return position


@composite()
def _velocity(mesh: MESH, vertex: int32):
    """The velocity of a vertex; zeros if the vertex is out of range."""
    velocity = tg.vec3(0.0, 0.0, 0.0)
    if vertex >= 0 and mesh.velocities != tg.uint64(0):
        velocity = tg._value_at(
            mesh.velocities + tg.uint64(vertex) * 12, VEC3, mesh.id, vertex, VELOCITIES_WORD
        )
    return velocity


@composite()
def _corner(mesh: MESH, position: int32, face: int32, corner: int32):
    """A vertex of the triangle at a position of the hierarchy, with a gradient."""
    address = mesh.triangles + tg.uint64(position) * TRIANGLE_BYTES + tg.uint64(corner) * 12
    return tg._value_at(address, VEC3, mesh.id, tg._vertex(mesh, 3 * face + corner), POINTS_WORD)


@composite()
def _corners(mesh: MESH, corner: int32, face: int32):
    """The vertices of the triangle at a position of the hierarchy, with gradients."""
    second, third = tg._corner(mesh, corner, face, 1), tg._corner(mesh, corner, face, 2)
    return tg._corner(mesh, corner, face, 0), second, third


@composite()
def _unit_normal(first: VEC3, second: VEC3, third: VEC3):
    """The unit normal of a triangle of any size; zeros for a triangle without area."""
    a, b = second - first, third - first
    scale = tg._triangle_scale(a, b, a)
    return tg.normalize(tg.cross(a * scale, b * scale))


@composite()
def mesh_eval_position(id, face: int32, bary_u: float32, bary_v: float32):
    """The point of a face at barycentric coordinates.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range.
        bary_u, bary_v: float32.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the weights and for the points of the mesh.
    """
    mesh = tg._mesh(id)
    first, second = (
        tg._point(mesh, tg._vertex(mesh, 3 * face)),
        tg._point(mesh, tg._vertex(mesh, 3 * face + 1)),
    )
    third = tg._point(mesh, tg._vertex(mesh, 3 * face + 2))
    return first * bary_u + second * bary_v + third * (1.0 - bary_u - bary_v)


@composite()
def mesh_eval_velocity(id, face: int32, bary_u: float32, bary_v: float32):
    """The velocity of a mesh at barycentric coordinates of a face; zeros if the mesh has no velocities.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range.
        bary_u, bary_v: float32.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the weights and for the velocities of the mesh.
    """
    mesh = tg._mesh(id)
    first = tg._velocity(mesh, tg._vertex(mesh, 3 * face))
    second = tg._velocity(mesh, tg._vertex(mesh, 3 * face + 1))
    third = tg._velocity(mesh, tg._vertex(mesh, 3 * face + 2))
    return first * bary_u + second * bary_v + third * (1.0 - bary_u - bary_v)


@composite(POINTS)
def mesh_eval_face_normal(id, face: int32):
    """The unit normal of a face, around which the vertices are in counterclockwise order.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range or has no area.
    Returns:
        a vec3.
    """
    mesh = tg._mesh(id)
    first, second = (
        tg._point(mesh, tg._vertex(mesh, 3 * face)),
        tg._point(mesh, tg._vertex(mesh, 3 * face + 1)),
    )
    third = tg._point(mesh, tg._vertex(mesh, 3 * face + 2))
    return tg._unit_normal(first, second, third)


@composite(ARRAYS)
def mesh_get(id):
    """The arrays of a mesh, for reading: `points`, `indices` with three entries per face, and `velocities`.

    Parameters:
        id: the mesh, or its id.
    Returns:
        a struct of the three arrays.
    """
    mesh = tg._mesh(id)
    counts, words = (mesh.point_count, 3 * mesh.face_count), (POINTS_WORD, VELOCITIES_WORD)
    return tg._mesh_arrays(mesh.points, mesh.indices, mesh.velocities, counts, mesh.id, words)


@composite(POINTS)
def mesh_get_point(id, index: int32):
    """The position of a corner of a face.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is zeros if it is out of range.
    Returns:
        a vec3.
    """
    mesh = tg._mesh(id)
    return tg._point(mesh, tg._vertex(mesh, index))


@composite(VELOCITIES)
def mesh_get_velocity(id, index: int32):
    """The velocity of a corner of a face; zeros if the mesh has no velocities.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is zeros if it is out of range.
    Returns:
        a vec3.
    """
    mesh = tg._mesh(id)
    return tg._velocity(mesh, tg._vertex(mesh, index))


@composite(READ)
def mesh_get_index(id, index: int32):
    """The vertex at a corner of a face.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is -1 if it is out of range.
    Returns:
        an int32.
    """
    return tg._vertex(tg._mesh(id), index)


@composite(READ)
def mesh_get_bvh(id):
    """The id of the hierarchy of a mesh, whose items are the boxes of the faces.

    Parameters:
        id: the mesh, or its id.
    Returns:
        a uint64.
    """
    mesh = tg._mesh(id)
    return mesh.bvh


@composite(READ)
def mesh_get_group_root(id, group: int32):
    """The root of the subtree of a group of faces, for the `root` of queries.

    Parameters:
        id: the mesh, or its id.
        group: an int32.
    Returns:
        an int32; -1, the value for all groups, if there is no such group.
    """
    return tg.bvh_get_group_root(tg._tree_of(tg._mesh(id)), group)


@composite(READ)
def mesh_query_aabb(id, low: VEC3, high: VEC3):
    """A query for the faces of a mesh whose bounds overlap a box.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQuery, for `mesh_query_next`.
    """
    return tg.bvh_query_aabb(tg._tree_of(tg._mesh(id)), low, high, -1)


@composite(READ)
def mesh_query_sphere(id, center: VEC3, radius: float32):
    """A query for the faces of a mesh that intersect a closed ball.

    Parameters:
        id: the mesh, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a MeshQuery, for `mesh_query_next`.
    """
    mesh = tg._mesh(id)
    query = tg.bvh_query_sphere(tg._tree_of(mesh), center, radius, -1)
    query.triangles = mesh.triangles
    return query


@composite()
def _is_result(query):
    """Whether an item is a result of the query: a query by a ball for faces yields only faces that intersect the
    ball."""
    is_result = True
    if query.kind == SPHERE and query.triangles != tg.uint64(0):
        mesh = MESH()
        mesh.triangles = query.triangles
        first, second, third = tg._triangle(mesh, tg._position(query))
        d = tg._closest_of_triangle(first - query.first, second - query.first, third - query.first)
        d = d * query.second[0]
        is_result = tg.dot(d, d) <= query.radius * query.radius
    return is_result


@composite()
def _next_item(query: InOut[AABB_QUERY], index: InOut[int32]):
    """Advance a query to the next result, for loops over a query."""
    return tg.bvh_query_next(query, index)


@composite()
def _next_item(query: InOut[RAY_QUERY], index: InOut[int32]):
    """Advance a query of a ray to the next item."""
    return tg.bvh_query_next(query, index)


@composite()
def _next_item(query: InOut[SPHERE_QUERY], index: InOut[int32]):
    """Advance a query of a ball to the next result."""
    return tg._next_result(query, index)


@composite()
def _next_item(query: InOut[BVH_QUERY], index: InOut[int32]):
    """Advance a query whose kind is known at run time to the next result."""
    return tg._next_result(query, index)


@composite()
def _next_result(query: InOut[Any], index: InOut[int32]):
    """Advance a query to the next result."""
    item = tg._advance(query, tg.inf)
    while item >= 0 and not tg._is_result(query):
        item = tg._advance(query, tg.inf)
    index = tg.where(item < 0, index, item)
    return item >= 0


@composite(READ)
def mesh_query_next(query: InOut[Any], index: InOut[int32]):
    """Advances a query of a mesh to the next face.

    Parameters:
        query: a MeshQuery variable, which is updated.
        index: an int32 variable, which is set to the next face, and is unchanged if there is none.
    Returns:
        a bool, whether there was another face.
    """
    return tg._next_item(query, index)


@composite(READ)
def mesh_query_aabb_next(query: InOut[Any], index: InOut[int32]):
    """Advances a query of a mesh to the next face; the older name of `mesh_query_next`.

    Parameters:
        query: a MeshQuery variable, which is updated.
        index: an int32 variable, which is set to the next face, and is unchanged if there is none.
    Returns:
        a bool, whether there was another face.
    """
    return tg.mesh_query_next(query, index)
