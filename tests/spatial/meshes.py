"""Procedural meshes, and the expected results of queries, in float64."""

from __future__ import annotations

import numpy as np

import tegula as tg


def vectors(data: np.ndarray) -> tg.array:
    return tg.array(np.asarray(data, np.float32), dtype=tg.vec3)


def sphere(subdivisions: int, bumps: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A closed mesh around the origin: an octahedron whose faces are subdivided into four triangles, with vertices
    moved along their radius."""
    points = [
        np.array(p, float) for p in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
    ]
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    for _ in range(subdivisions):
        midpoints: dict[tuple[int, int], int] = {}

        def midpoint(a: int, b: int, midpoints: dict[tuple[int, int], int] = midpoints) -> int:
            key = (min(a, b), max(a, b))
            if key not in midpoints:
                midpoints[key] = len(points)
                m = points[a] + points[b]
                points.append(m / np.linalg.norm(m))
            return midpoints[key]

        subdivided = []
        for a, b, c in faces:
            d, e, f = midpoint(a, b), midpoint(b, c), midpoint(c, a)
            subdivided += [(a, d, f), (d, b, e), (f, e, c), (d, e, f)]
        faces = subdivided
    radii = 1 + bumps * np.random.default_rng(seed).random(len(points))
    return (np.array(points) * radii[:, None]).astype(np.float32), np.array(faces, np.int32)


def soup(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Triangles that share no vertex."""
    rng = np.random.default_rng(seed)
    corners = rng.random((count, 1, 3)) * 4 + rng.standard_normal((count, 3, 3)) * 0.3
    return corners.reshape(-1, 3).astype(np.float32), np.arange(3 * count, dtype=np.int32).reshape(-1, 3)


def mesh_of(points: np.ndarray, faces: np.ndarray, **options: object) -> tg.Mesh:
    return tg.Mesh(vectors(points), tg.array(faces.reshape(-1), dtype=int), **options)


def crossings(
    points: np.ndarray, faces: np.ndarray, start: np.ndarray, dir: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each ray and face: the distance, infinite without a hit; the smallest barycentric weight; and the cosine of
    the angle with the normal."""
    a, b, c = (points[faces[:, k]].astype(np.float64)[None] for k in range(3))
    o, d = start.astype(np.float64)[:, None], dir.astype(np.float64)[:, None]
    n = np.cross(b - a, c - a)
    with np.errstate(all="ignore"):
        t = ((a - o) * n).sum(2) / (d * n).sum(2)
        p = o + t[..., None] * d
        square = (n * n).sum(2)
        u = (np.cross(c - b, p - b) * n).sum(2) / square
        v = (np.cross(a - c, p - c) * n).sum(2) / square
        min_weight = np.minimum(np.minimum(u, v), 1 - u - v)
        cosine = (d * n).sum(2) / np.linalg.norm(d, axis=2) / np.linalg.norm(n, axis=2)
    return np.where((min_weight >= 0) & (t >= 0), t, np.inf), min_weight, cosine


def distances(points: np.ndarray, faces: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The distance of each point from each face: from the plane if the projection is inside the face, else from the
    closest edge."""
    corners = [points[faces[:, k]].astype(np.float64)[None] for k in range(3)]
    p = queries.astype(np.float64)[:, None]
    min_distance = np.full((len(queries), len(faces)), np.inf)
    for k in range(3):
        a, b = corners[k], corners[(k + 1) % 3]
        d = b - a
        square = (d * d).sum(2)
        s = np.clip(((p - a) * d).sum(2) / np.where(square > 0, square, 1), 0, 1)
        min_distance = np.minimum(min_distance, np.linalg.norm(p - a - s[..., None] * d, axis=2))
    a, b, c = corners
    n = np.cross(b - a, c - a)
    normal_length = np.linalg.norm(n, axis=2)
    with np.errstate(all="ignore"):
        inside = np.ones(min_distance.shape, bool)
        for k in range(3):
            first, second = corners[k], corners[(k + 1) % 3]
            inside &= (np.cross(second - first, p - first) * n).sum(2) >= 0
        distance = np.abs(((p - a) * n).sum(2)) / normal_length
    return np.where(inside & (normal_length > 0), np.minimum(min_distance, distance), min_distance)
