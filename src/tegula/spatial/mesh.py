"""Triangle meshes on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.handles import MESH_KIND
from tegula.runtime.array import array
from tegula.runtime.structures import Structure, gradient_address
from tegula.spatial.bvh import VEC3, Bvh, constructor_named, require
from tegula.spatial.widen import ITEM
from tegula.spatial.winding import DATA, TRIANGLE, sum_faces
from tegula.stdlib.geometry.layout import MESH
from tegula.structs import Struct

LEAF = 2
"""The most faces of a leaf, by default."""


@tg.kernel
def bounds_of_faces(
    points: tg.array1d[tg.vec3],
    indices: tg.array1d[int],
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
):
    """The bounds of each face; NaN of a vertex stays in the lower ones, so that the face is never found."""
    f = tg.tid()
    a, b, c = points[indices[3 * f]], points[indices[3 * f + 1]], points[indices[3 * f + 2]]
    low, high = tg.min(tg.min(a, b), c), tg.max(tg.max(a, b), c)
    for k in tg.static(range(3)):
        total = a[k] + b[k] + c[k]
        low[k] = tg.where(total == total, low[k], tg.nan)
    lower[f], upper[f] = low, high


@tg.kernel
def place_triangles(
    points: tg.array1d[tg.vec3],
    indices: tg.array1d[int],
    items: tg.array1d[int],
    triangles: tg.array1d[float],
    words: tg.array1d[int],
):
    """Write the vertices, faces and groups of triangles in the order of the items."""
    i = tg.tid()
    face, at = items[i * ITEM + 6], i * TRIANGLE
    for corner in tg.static(range(3)):
        p = points[indices[3 * face + corner]]
        for k in tg.static(range(3)):
            triangles[at + 3 * corner + k] = p[k]
    words[at + 9] = face
    words[at + 10] = items[i * ITEM + 7]


class Mesh(Structure):
    """A triangle mesh that kernels can query: rays, closest points, boxes.

    Kernels take it as an argument annotated `tg.Mesh`, or its `id`, a uint64. The arrays are kept, not copied.

    Parameters:
        points: an array (N,) of vec3, the vertices.
        indices: an array (3 * F,) of int32, on the same device: three vertices a face.
        velocities: an array (N,) of vec3, for `mesh_eval_velocity`.
        support_winding_number: whether `mesh_query_point_sign_winding_number` can be used.
        bvh_constructor, bvh_leaf_size: as for `tg.Bvh`; leaves have at most 2 faces by default.
        groups: an array (F,) of int32, the group of each face.
    Raises:
        launch: an array is of another type, shape or device, or an index is not that of a vertex.
        ValueError: there is no such constructor, or the leaf size is out of range.
    """

    __tegula_annotation__ = MESH

    def __init__(
        self,
        points: array,
        indices: array,
        velocities: array | None = None,
        support_winding_number: bool = False,
        bvh_constructor: str | None = None,
        bvh_leaf_size: int | None = None,
        groups: array | None = None,
    ) -> None:
        device = points.device
        require(points, "points", VEC3, len(points), device)
        require(indices, "indices", tg.int32, len(indices), device)
        if velocities is not None:
            require(velocities, "velocities", VEC3, len(points), device)
        if len(indices) % 3:
            raise LaunchError(
                f"indices must have three entries a face, got {len(indices)}", "drop the others"
            )
        faces = len(indices) // 3
        if groups is not None:
            require(groups, "groups", tg.int32, faces, device)
        check_indices(indices.numpy(), len(points))
        if support_winding_number and constructor_named(bvh_constructor, groups) == "cubql":
            raise LaunchError("winding numbers need another constructor than 'cubql'", "use 'sah' or 'lbvh'")
        self.enter(MESH_KIND, device)
        self._points, self._velocities, self.indices, self.groups = points, velocities, indices, groups
        self.support_winding_number = support_winding_number
        lower, upper = (tg.empty(faces, dtype=VEC3, device=self.device) for _ in range(2))
        self._bound(lower, upper)
        leaf = LEAF if bvh_leaf_size is None else bvh_leaf_size
        self._bvh = Bvh(lower, upper, bvh_constructor, groups, leaf)
        self._words = tg.zeros(faces * TRIANGLE, dtype=tg.int32, device=self.device)
        self._triangles = self._words.view(tg.float32)
        self._winding: array | None = None
        if support_winding_number and faces:
            self._winding = tg.zeros(self._bvh.node_limit * DATA, dtype=tg.float32, device=self.device)
        self._place()
        self.publish()

    @property
    def points(self) -> array:
        """The vertices. Other vertices can be assigned, as many: the mesh is refitted to them."""
        return self._points

    @points.setter
    def points(self, points: array) -> None:
        require(points, "points", VEC3, len(self._points), self.device)
        self._points = points
        self.refit()
        self.publish()

    @property
    def velocities(self) -> array | None:
        """The velocities of the vertices. Others can be assigned, as many."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: array) -> None:
        require(velocities, "velocities", VEC3, len(self._points), self.device)
        self._velocities = velocities
        self.version += 1
        self.publish()

    def refit(self) -> None:
        """Make the boxes and triangles anew after `points` changed in place. The tree stays.

        Raises:
            nothing.
        """
        self.version += 1
        self._bound(self._bvh.lowers, self._bvh.uppers)
        self._bvh.refit()
        self._place()

    def in_kernels(self) -> Struct:
        """The value that kernels get for an argument of this type.

        Returns:
            a struct of addresses, which is valid while the mesh exists.
        Raises:
            nothing.
        """
        made = MESH()
        for name, word in zip(MESH.fields, [*self._addresses(), self.id], strict=True):
            setattr(made, name, word)
        return made

    def words(self) -> list[int]:
        """What kernels need to know: the fields of MESH but for the id, and the addresses of gradients.

        Returns:
            addresses and numbers.
        Raises:
            launch: a gradient is not packed.
        """
        gradients = [gradient_address(name, a) for name, a in self.differentiable()]
        return [*self._addresses(), *gradients, *[0] * (2 - len(gradients))]

    def differentiable(self) -> list[tuple[str, array]]:
        """The arrays whose elements queries give and gradients flow to.

        Returns:
            pairs of a name and an array: the points, and the velocities if there are any.
        Raises:
            nothing.
        """
        velocities = [] if self._velocities is None else [("velocities", self._velocities)]
        return [("points", self._points), *velocities]

    def _addresses(self) -> list[int]:
        """The values of the fields of MESH but for the id."""
        velocities = 0 if self._velocities is None else self._velocities.ptr
        winding = 0 if self._winding is None else self._winding.ptr
        found = [self._triangles.ptr, self._points.ptr, self.indices.ptr, velocities, winding, self._bvh.id]
        return [*self._bvh.words(), *found, len(self._points), len(self.indices) // 3]

    def _bound(self, lower: array, upper: array) -> None:
        self._launch(bounds_of_faces, [self._points, self.indices, lower, upper])

    def _place(self) -> None:
        if len(self.indices):
            args = [self._points, self.indices, self._bvh.item_words, self._triangles, self._words]
            self._launch(place_triangles, args)
        if self._winding is not None:
            bvh = self._bvh
            for first, count in reversed(bvh.levels()):
                inputs = [bvh.nodes, bvh.node_words, self._triangles, self._winding, first]
                tg.launch(sum_faces, dim=count, inputs=inputs, device=self.device, record_tape=False)

    def _launch(self, kernel: Any, inputs: list[Any]) -> None:
        faces = len(self.indices) // 3
        if faces:
            tg.launch(kernel, dim=faces, inputs=inputs, device=self.device, record_tape=False)


def check_indices(indices: np.ndarray, points: int) -> None:
    """LaunchError if an index is not that of a vertex."""
    wrong = np.flatnonzero((indices < 0) | (indices >= points))
    if len(wrong):
        k = int(wrong[0])
        what = f"indices[{k}] is {int(indices[k])}, and there are {points} points"
        raise LaunchError(what, f"indices are from 0 to {points - 1}")
