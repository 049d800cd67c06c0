"""Bounding volume hierarchies and triangle meshes on the host; their queries are in `stdlib/geometry`."""

from tegula.spatial.bvh import Bvh

__all__ = ["Bvh"]
