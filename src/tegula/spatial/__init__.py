"""Bounding volume hierarchies and triangle meshes on the host; their queries are in `stdlib/geometry`."""

from tegula.spatial.bvh import Bvh
from tegula.spatial.hash_grid import HashGrid, HashGridQuery

__all__ = ["Bvh", "HashGrid", "HashGridQuery"]
