"""The data for winding numbers: the dipole approximation of the faces below each node."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import AXIS_WORD, CHILD_WORD, COUNT_WORD, NODE, UPPER_WORD, level_range
from tegula.stdlib.geometry.layout import TRIANGLE_BYTES, WIDTH
from tegula.stdlib.geometry.signs import WINDING_BYTES

DATA, TRIANGLE = WINDING_BYTES // 4, TRIANGLE_BYTES // 4


@tg.func
def triangle_vertex(triangles: tg.array1d[float], first_word: int):
    """The position of a vertex of a triangle."""
    return tg.vec3(triangles[first_word], triangles[first_word + 1], triangles[first_word + 2])


@tg.func
def sum_faces(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    triangles: tg.array1d[float],
    data: tg.array1d[float],
    node: int,
):
    """Write the data of a node: the area-weighted centre of the faces, the sum of their area vectors, the distance from
    the centre to the furthest corner of the bounds, and the area. The deeper levels must be complete."""
    centre, area_vector, area = tg.vec3(0.0, 0.0, 0.0), tg.vec3(0.0, 0.0, 0.0), 0.0
    for k in range(WIDTH):
        child = words[node * NODE + CHILD_WORD + k]
        if child > 0:
            first_word = child * DATA
            size = data[first_word + 7]
            centre += triangle_vertex(data, first_word) * size
            area_vector += triangle_vertex(data, first_word + 3)
            area += size
        elif child < 0:
            count = (words[node * NODE + COUNT_WORD + k // 4] >> (8 * (k % 4))) & 255
            for position in range(-1 - child, -1 - child + count):
                first_word = position * TRIANGLE
                a, b, c = (
                    triangle_vertex(triangles, first_word),
                    triangle_vertex(triangles, first_word + 3),
                    triangle_vertex(triangles, first_word + 6),
                )
                n = 0.5 * tg.cross(b - a, c - a)
                size = tg.length(n)
                if size == size:
                    centre += (a + b + c) * (size / 3.0)
                    area_vector += n
                    area += size
    if area > 0.0:
        centre = centre / area
    reach = tg.vec3(0.0, 0.0, 0.0)
    for k in range(WIDTH):
        first_word = node * NODE + k
        if nodes[first_word] == nodes[first_word]:
            for axis in tg.static(range(3)):
                low, high = (
                    nodes[first_word + axis * AXIS_WORD],
                    nodes[first_word + UPPER_WORD + axis * AXIS_WORD],
                )
                reach[axis] = tg.max(
                    reach[axis], tg.max(tg.abs(low - centre[axis]), tg.abs(high - centre[axis]))
                )
    first_word = node * DATA
    for axis in tg.static(range(3)):
        data[first_word + axis], data[first_word + 3 + axis] = centre[axis], area_vector[axis]
    data[first_word + 6], data[first_word + 7] = tg.length(reach), area


@tg.kernel
def sum_level(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    triangles: tg.array1d[float],
    data: tg.array1d[float],
    counts: tg.array1d[int],
    level: int,
    begin: int,
    size: int,
    threads: int,
):
    """Write the data of the nodes of a level. The deeper levels must be complete."""
    first, count = level_range(counts, level, begin, size)
    for node in range(first + tg.tid(), first + count, threads):
        sum_faces(nodes, words, triangles, data, node)
