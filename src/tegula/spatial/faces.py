"""The faces of meshes in the kernels of CPUs: their corners in vector registers, and their boxes for a build."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import ALL_COMPONENTS, VEC8, centre, clamped, lang, union, vector_at
from tegula.spatial.digits import chunk_range

FACES_AHEAD = 16
"""The number of faces by which the vertices of a face are fetched in advance."""


@tg.func
def vertex_vector(points: tg.uint64, index_address: tg.uint64):
    """The position of a vertex in the first components of a vector. `index_address`: the address of its index."""
    index = lang._element_at(index_address, tg.int32)
    return vector_at(points + tg.uint64(index) * tg.uint64(12))


@tg.func
def face_corners(points: tg.uint64, indices: tg.uint64, face: tg.int64):
    """The three corners of a face; `points`, `indices`: the addresses of the vertices and of their indices."""
    first_corner = indices + tg.uint64(face) * tg.uint64(12)
    a, b = vertex_vector(points, first_corner), vertex_vector(points, first_corner + tg.uint64(4))
    return a, b, vertex_vector(points, first_corner + tg.uint64(8))


@tg.func
def fetch_vertices(points: tg.uint64, indices: tg.uint64, face: tg.int64):
    """Let the CPU fetch the vertices of a face in advance."""
    first_corner = indices + tg.uint64(face) * tg.uint64(12)
    for k in tg.static(range(3)):
        index = lang._element_at(first_corner + tg.uint64(4 * k), tg.int32)
        lang._read_soon(points + tg.uint64(index) * tg.uint64(12))


@tg.kernel
def bound_faces(
    points: tg.uint64,
    indices: tg.uint64,
    threads: int,
    boxes: tg.array1d[VEC8],
    centre_bounds: tg.array1d[VEC8],
):
    """Write the boxes of faces as vectors, as `bound_boxes` does; a face with a NaN, or with infinities whose sum along
    an axis is NaN, has an empty box."""
    t = tg.tid()
    begin, end = chunk_range(boxes.shape[0], t, threads)
    middle = VEC8(tg.inf)
    for i in range(begin, end):
        fetch_vertices(points, indices, tg.int64(tg.min(i + FACES_AHEAD, end - 1)))
        a, b, c = face_corners(points, indices, tg.int64(i))
        low = lang._smaller_of_each(c, lang._smaller_of_each(b, a))
        negated = -lang._larger_of_each(c, lang._larger_of_each(b, a))
        # A vector of the components of two vectors is one shuffle.
        box = clamped(VEC8(low[0], low[1], low[2], negated[0], negated[1], negated[2], low[3], low[3]))
        total = a + b + c
        if lang._bits(lang._each_within(total, total)) != tg.uint32(ALL_COMPONENTS):
            box = VEC8(tg.inf)
        boxes[i] = box
        middle = union(centre(box), middle)
    centre_bounds[t] = middle
