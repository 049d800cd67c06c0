"""Bounding volume hierarchies and triangle meshes on the host; their queries are in `stdlib/geometry`."""

from tegula.spatial.bvh import CONSTRUCTORS, Bvh
from tegula.spatial.hash_grid import HashGrid, HashGridQuery
from tegula.spatial.mesh import Mesh
from tegula.spatial.overlaps import bvh_overlaps
from tegula.stdlib.geometry.layout import AABB_QUERY, BVH_QUERY, TILED_QUERY
from tegula.stdlib.geometry.points import MESH_QUERY_POINT
from tegula.stdlib.geometry.rays import MESH_QUERY_RAY

BvhQuery = MeshQuery = BVH_QUERY
MeshQueryAABB = AABB_QUERY
BvhQueryTiled = MeshQueryAABBTiled = TILED_QUERY
MeshQueryPoint = MESH_QUERY_POINT
MeshQueryRay = MESH_QUERY_RAY
"""Types of queries and of results, for annotations of functions."""


def is_cubql_available() -> bool:
    """Whether hierarchies can be built with constructor="cubql".

    Returns:
        True.
    Raises:
        nothing.
    """
    return "cubql" in CONSTRUCTORS


__all__ = [
    "Bvh",
    "BvhQuery",
    "BvhQueryTiled",
    "HashGrid",
    "HashGridQuery",
    "Mesh",
    "MeshQuery",
    "MeshQueryAABB",
    "MeshQueryAABBTiled",
    "MeshQueryPoint",
    "MeshQueryRay",
    "bvh_overlaps",
    "is_cubql_available",
]
