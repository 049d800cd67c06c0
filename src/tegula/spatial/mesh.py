"""The host interface of triangle meshes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.handles import MESH_KIND
from tegula.runtime.array import array
from tegula.runtime.cuda.graph import keep_recorded
from tegula.runtime.prepared import RepeatedLaunch
from tegula.runtime.structures import Structure, gradient_address
from tegula.spatial.boxes import ALL_COMPONENTS, EIGHT, VEC8, lang, named_item, without_points
from tegula.spatial.build_on_host import WideBuild
from tegula.spatial.bvh import (
    LANES,
    RESIDENT,
    VEC3,
    Bvh,
    check_array,
    check_is_array,
    resolve_constructor,
    view_as,
)
from tegula.spatial.compact import COMPACT, write_compact
from tegula.spatial.faces import bound_faces, face_corners, fetch_vertices
from tegula.spatial.host_boxes import HostBoxes, measure
from tegula.spatial.memory import SPARE_BYTES, MemoryBlock
from tegula.spatial.place import place_nodes
from tegula.spatial.refit import ITEMS_AHEAD, fit_subtree
from tegula.spatial.refit_gpu import HALF, write_item
from tegula.spatial.widen import Records
from tegula.spatial.winding import DATA, TRIANGLE, sum_level
from tegula.stdlib.geometry.layout import MESH, WIDTH
from tegula.structs import Struct
from tegula.types import float32

LEAF = 2
"""The default maximum number of faces per leaf."""
INDICES_AHEAD, POINTS_AHEAD = 24, 8
"""The numbers of faces by which a build fetches vertex indices and vertices in advance."""
SPARE_INDICES = 3 * ITEMS_AHEAD
"""The number of vertex indices that a refit reads after those of the last face."""


@tg.kernel
def write_face_bounds(
    points: tg.array1d[tg.vec3],
    indices: tg.array1d[int],
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
):
    """Write the bounds of each face. The NaNs of a vertex propagate to the lower bound, so that no query finds the
    face."""
    f = tg.tid()
    a, b, c = points[indices[3 * f]], points[indices[3 * f + 1]], points[indices[3 * f + 2]]
    low, high = tg.min(tg.min(a, b), c), tg.max(tg.max(a, b), c)
    for k in tg.static(range(3)):
        total = a[k] + b[k] + c[k]
        low[k] = tg.where(total == total, low[k], tg.nan)
    lower[f], upper[f] = low, high


@tg.func
def vertex(points: tg.uint64, indices: tg.uint64, corner: int):
    """The position of a vertex of a face; the arguments are the addresses of the arrays."""
    index = lang._element_at(indices + tg.uint64(corner) * tg.uint64(4), tg.int32)
    return lang._element_at(points + tg.uint64(index) * tg.uint64(12), tg.vec3)


@tg.func
def write_face_vectors(
    points: tg.uint64,
    vertices: tg.uint64,
    triangles: tg.array1d[VEC8],
    items: tg.array1d[VEC8],
    face: tg.int64,
    position: tg.int64,
    item: VEC8,
):
    """Write the corners and the box of a face, NaN if a corner has a NaN, in vector registers. `triangles`: eight
    floats from each multiple of four on."""
    a, b, c = face_corners(points, vertices, face)
    low = lang._smaller_of_each(c, lang._smaller_of_each(b, a))
    high = lang._larger_of_each(c, lang._larger_of_each(b, a))
    # Each vector is made of the components of at most two vectors: one shuffle.
    box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], 0.0, 0.0)
    box = VEC8(box[0], box[1], box[2], box[3], box[4], box[5], item[6], item[7])
    total = a + b + c
    if lang._bits(lang._each_within(total, total)) != tg.uint32(ALL_COMPONENTS):
        box = without_points(item)
    items[position] = box
    f = VEC8(a[0], a[1], a[2], b[0], b[1], b[2], 0.0, 0.0)
    s = VEC8(c[0], c[1], c[2], item[6], item[7], 0.0, 0.0, 0.0)
    row = position * 3
    triangles[row] = VEC8(f[0], f[1], f[2], f[3], f[4], f[5], s[0], s[1])
    triangles[row + 1] = VEC8(f[4], f[5], s[0], s[1], s[2], s[3], s[4], s[5])


@tg.kernel
def write_faces(
    points: tg.uint64,
    vertices: tg.uint64,
    triangles: tg.array1d[tg.vec4],
    groups: tg.array1d[int],
    positions: tg.array1d[int],
    halves: tg.array1d[HALF],
    base: tg.int64,
):
    """Write the corners and the boxes of faces in the order of their indices, as `write_boxes` does; the box of a face
    whose corner has a NaN is NaN."""
    i = tg.min(tg.tid(), positions.shape[0] - 1)
    position, item = positions[i], named_item(groups, i)
    a, b, c = (
        vertex(points, vertices, 3 * i),
        vertex(points, vertices, 3 * i + 1),
        vertex(points, vertices, 3 * i + 2),
    )
    total = a + b + c
    is_known = total[0] == total[0] and total[1] == total[1] and total[2] == total[2]
    low, high = tg.vec3(), tg.vec3()
    for k in tg.static(range(3)):
        low[k] = lang._min_ignoring_nan(lang._min_ignoring_nan(a[k], b[k]), c[k])
        high[k] = lang._max_ignoring_nan(lang._max_ignoring_nan(a[k], b[k]), c[k])
    box = VEC8(low[0], low[1], low[2], high[0], high[1], high[2], item[6], item[7])
    write_item(halves, base + tg.int64(position), tg.where(is_known, box, without_points(item)))
    row = tg.int64(position) * 3
    triangles[row] = tg.vec4(a[0], a[1], a[2], b[0])
    triangles[row + 1] = tg.vec4(b[1], b[2], c[0], c[1])
    triangles[row + 2] = tg.vec4(c[2], item[6], item[7], 0.0)


@tg.kernel
def fit_faces(
    points: tg.uint64,
    vertices: tg.uint64,
    triangles: tg.array1d[VEC8],
    nodes: tg.array1d[VEC8],
    node_address: tg.uint64,
    items: tg.array1d[VEC8],
    inner: int,
    leaf: tg.constexpr,
    subtrees: tg.array2d[int],
    first: int,
):
    """Write the faces and the nodes of a subtree, as `fit_boxes` does; the vertices are in the order of the items, and
    followed by SPARE_INDICES numbers."""
    t = first + tg.tid()
    for position in range(tg.int64(subtrees[t, 0]), tg.int64(subtrees[t, 1])):
        fetch_vertices(points, vertices, position + ITEMS_AHEAD)
        write_face_vectors(points, vertices, triangles, items, position, position, items[position])
    fit_subtree(nodes, node_address, items, inner, leaf, subtrees, t)


@tg.kernel
def build_faces(
    points: tg.uint64,
    vertices: tg.uint64,
    triangles: tg.array1d[VEC8],
    groups: tg.array1d[int],
    order: tg.array1d[int],
    indices: tg.array1d[int],
    ordered: tg.array1d[int],
    nodes: tg.array1d[VEC8],
    node_address: tg.uint64,
    items: tg.array1d[VEC8],
    inner: int,
    leaf: tg.constexpr,
    subtrees: tg.array2d[int],
    r: Records,
    shifts: tg.array2d[int],
    rows: tg.array1d[EIGHT],
    top: int,
    first: int,
):
    """Write the nodes and the faces of a subtree, as `fit_faces` does after a build, and the vertices in the order of
    the items."""
    t = first + tg.tid()
    place_nodes(r, subtrees, shifts, rows, top, t)
    last = subtrees[t, 1] - 1
    for position in range(subtrees[t, 0], subtrees[t, 1]):
        soon = tg.uint64(order[tg.min(position + INDICES_AHEAD, last)])
        lang._read_soon(vertices + soon * tg.uint64(12))
        fetch_vertices(points, vertices, tg.int64(order[tg.min(position + POINTS_AHEAD, last)]))
        face = order[position]
        for k in tg.static(range(3)):
            ordered[3 * position + k] = indices[3 * face + k]
        write_face_vectors(
            points,
            vertices,
            triangles,
            items,
            tg.int64(face),
            tg.int64(position),
            named_item(groups, face),
        )
    fit_subtree(nodes, node_address, items, inner, leaf, subtrees, t)


@tg.kernel
def order_vertices(indices: tg.array1d[int], order: tg.array1d[int], vertices: tg.array1d[int]):
    """Write the vertex indices of faces in a given order of the faces."""
    i = tg.tid()
    for k in tg.static(range(3)):
        vertices[3 * i + k] = indices[3 * order[i] + k]


BOUND_FACES, BUILD_FACES = RepeatedLaunch(bound_faces), RepeatedLaunch(build_faces)


class _Faces(Bvh):
    """The hierarchy of the faces of a mesh. Only builds by keys write `lowers` and `uppers`; other builds and refits
    compute the boxes, and the triangles, from the vertices."""

    def __init__(
        self, points: array, indices: array, constructor: str | None, groups: array | None, leaf: int
    ) -> None:
        faces, device = len(indices) // 3, points.device
        self.points, self.indices = points, indices
        size = 4 * (TRIANGLE * faces + len(indices) + SPARE_INDICES)
        memory = MemoryBlock(size + SPARE_BYTES, device)
        self._rows = memory.empty(faces * TRIANGLE // 4, tg.vec4)
        """The memory of `triangles`: three rows of four floats for each face."""
        self._ordered = indices
        """On a CPU memory for the vertex indices in the order of the items."""
        if device.is_cpu:
            self._ordered = memory.empty(len(indices) + SPARE_INDICES, tg.int32)
            self._ordered.numpy()[len(indices) :] = 0
        self.triangles = view_as(self._rows, float32)
        self._windows = self._rows
        """The rows as kernels write them: on a CPU the eight floats from each row on."""
        if device.is_cpu and faces:
            windows = self._rows.size - 1
            self._windows = array(ptr=self._rows.ptr, dtype=VEC8, shape=windows, strides=16, device="cpu")
        self.compact: array | None = None
        lower, upper = (tg.empty(faces, dtype=VEC3, device=device) for _ in range(2))
        super().__init__(lower, upper, constructor, groups, leaf)

    write_kernel, fit_kernel = write_faces, fit_faces
    label = "tg.Mesh"

    def _measure(self, boxes: HostBoxes) -> None:
        points, indices = self.points.to("cpu"), self.indices.to("cpu")
        measure(BOUND_FACES, [points.ptr, indices.ptr], boxes)

    def _build_by_keys(self, count: int) -> array:
        self._launch(write_face_bounds, count, [self.points, self.indices, self.lowers, self.uppers])
        return super()._build_by_keys(count)

    def _number(self, order: array) -> None:
        super()._number(order)
        self._vertices = self.indices
        if self.device.is_cpu:
            # Neighbouring faces read neighbouring vertices.
            self._vertices = self._ordered
            self._launch(order_vertices, len(order), [self.indices, order, self._vertices])

    def _write_built(self, build: WideBuild) -> None:
        self._vertices = self._ordered
        addresses = [self.points.ptr, self.indices.ptr]
        arrays = [self._windows, self.groups, build.order, self.indices, self._vertices]
        self._write_by(BUILD_FACES, [*addresses, *arrays], build)

    def _allocate(self, nodes: int, items: int) -> None:
        super()._allocate(nodes, items)
        size = self.node_limit * COMPACT
        if not self.device.is_cpu and (self.compact is None or len(self.compact) < size):
            self.compact = tg.empty(size, dtype=tg.int32, device=self.device)

    def _fit(self) -> None:
        super()._fit()
        if self.compact is not None:
            self.write_compact_nodes()

    def write_compact_nodes(self) -> None:
        """Write the compact nodes, after the nodes.

        Raises:
            nothing.
        """
        assert self.compact is not None
        keep_recorded(self.device, self.compact)
        threads = min(WIDTH * self.node_limit, RESIDENT)
        data = array(ptr=self.compact.ptr, dtype=tg.uint16, shape=2 * len(self.compact), device=self.device)
        inputs = [self.nodes, self.node_words, self._counts, threads, data, self.compact]
        self._launch(write_compact, threads, inputs, LANES)

    def _sources(self) -> list[Any]:
        keep_recorded(self.device, self.points, self._vertices, self._rows)
        return [self.points.ptr, self._vertices.ptr, self._windows]

    def _host_sources(self) -> list[Any]:
        return self._sources()


class Mesh(Structure):
    """A triangle mesh that kernels query by rays, by points and by boxes.

    Kernels take the mesh as an argument annotated `tg.Mesh`, or take its `id`, a uint64. The mesh refers to the arrays
    and does not copy them.

    Parameters:
        points: an array (N,) of vec3, the vertices.
        indices: an array (3 * F,) of int32 on the same device, three vertices per face.
        velocities: an array (N,) of vec3, for `mesh_eval_velocity`.
        support_winding_number: whether `mesh_query_point_sign_winding_number` can be used.
        bvh_constructor, bvh_leaf_size: as for `tg.Bvh`; leaves have at most 2 faces by default.
        groups: an array (F,) of int32, the group of each face.
    Raises:
        launch: an array is of another type, shape or device, or an index is out of range.
        ValueError: there is no such constructor, or the leaf size is out of range.
    """

    __tegula_annotation__ = MESH
    label = "tg.Mesh"

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
        check_is_array(points, "points", VEC3)
        check_is_array(indices, "indices", tg.int32)
        device = points.device
        check_array(points, "points", VEC3, len(points), device)
        check_array(indices, "indices", tg.int32, indices.size, device)
        if velocities is not None:
            check_array(velocities, "velocities", VEC3, len(points), device)
        if len(indices) % 3:
            raise LaunchError(
                f"indices must have three entries a face, got {len(indices)}", "drop the remaining indices"
            )
        faces = len(indices) // 3
        if groups is not None:
            check_array(groups, "groups", tg.int32, faces, device)
        check_indices(indices.numpy(), len(points))
        constructor = resolve_constructor(bvh_constructor, groups, device)
        if support_winding_number and bvh_constructor is not None and constructor == "cubql":
            raise LaunchError("winding numbers need another constructor than 'cubql'", "use 'sah' or 'lbvh'")
        self.enter(MESH_KIND, device)
        self._points, self._velocities, self.indices, self.groups = points, velocities, indices, groups
        self.support_winding_number = support_winding_number
        leaf = LEAF if bvh_leaf_size is None else bvh_leaf_size
        self._bvh = _Faces(points, indices, bvh_constructor, groups, leaf)
        self._winding: array | None = None
        if support_winding_number and faces:
            self._winding = tg.zeros(self._bvh.node_limit * DATA, dtype=tg.float32, device=self.device)
        self._sum()
        self.publish()

    @property
    def points(self) -> array:
        """The vertices, an array (N,) of vec3. Assigning other vertices refits the mesh."""
        return self._points

    @points.setter
    def points(self, points: array) -> None:
        check_array(points, "points", VEC3, len(self._points), self.device)
        self._points = self._bvh.points = points
        self.refit()
        self.publish()

    @property
    def velocities(self) -> array | None:
        """The velocities of the vertices, an array (N,) of vec3, which can be assigned."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: array) -> None:
        check_array(velocities, "velocities", VEC3, len(self._points), self.device)
        self._velocities = velocities
        self.version += 1
        self.publish()

    def refit(self) -> None:
        """Recompute the bounds and triangles after `points` changed in place. The structure of the tree stays the same.

        Raises:
            nothing.
        """
        self.version += 1
        self._bvh.refit()
        self._sum()

    def in_kernels(self) -> Struct:
        """The value of a kernel parameter of this type.

        Returns:
            a struct of addresses, which is valid while the mesh exists.
        Raises:
            nothing.
        """
        mesh = MESH()
        for name, word in zip(MESH.fields, [*self._addresses(), self.id], strict=True):
            setattr(mesh, name, word)
        return mesh

    def words(self) -> list[int]:
        """The values of the fields of MESH except the id, and the addresses of gradients.

        Returns:
            addresses and numbers.
        Raises:
            launch: a gradient is not packed.
        """
        gradients = [gradient_address(name, a) for name, a in self.differentiable()]
        return [*self._addresses(), *gradients, *[0] * (2 - len(gradients))]

    def differentiable(self) -> list[tuple[str, array]]:
        """The arrays to which gradients of queries flow.

        Returns:
            pairs of a name and an array: the points, and the velocities if there are any.
        Raises:
            nothing.
        """
        velocities = [] if self._velocities is None else [("velocities", self._velocities)]
        return [("points", self._points), *velocities]

    def _addresses(self) -> list[int]:
        """The values of the fields of MESH except the id."""
        velocities = 0 if self._velocities is None else self._velocities.ptr
        winding = 0 if self._winding is None else self._winding.ptr
        addresses = [
            self._bvh.triangles.ptr,
            self._points.ptr,
            self.indices.ptr,
            velocities,
            winding,
            self._bvh.id,
            0 if self._bvh.compact is None else self._bvh.compact.ptr,
        ]
        return [*self._bvh.words(), *addresses, len(self._points), len(self.indices) // 3]

    def _sum(self) -> None:
        """Write the data for winding numbers, if there are any."""
        bvh = self._bvh
        if self._winding is not None:
            bvh.launch_by_level(sum_level, 1, [bvh.nodes, bvh.node_words, bvh.triangles, self._winding])


def check_indices(indices: np.ndarray, points: int) -> None:
    """Raise LaunchError for an index that is out of range."""
    # Negative numbers are large unsigned numbers.
    if len(indices) and indices.view(np.uint32).max() >= points:
        k = int(np.flatnonzero((indices < 0) | (indices >= points))[0])
        what = f"indices[{k}] is {int(indices[k])}, and there are {points} points"
        raise LaunchError(what, f"indices must be from 0 to {points - 1}")
