"""Closest and furthest points of meshes, and signs; values on faces; faces in boxes."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import crossings, distances, mesh_of, soup, sphere, vectors

pytestmark = pytest.mark.machine_code(some=True)


@tg.kernel
def closest(
    mesh: tg.uint64,
    points: tg.array1d[tg.vec3],
    far: float,
    face: tg.array1d[int],
    closest_points: tg.array1d[tg.vec3],
):
    i = tg.tid()
    result = tg.mesh_query_point_no_sign(mesh, points[i], far)
    face[i] = tg.where(result.result, result.face, -1)
    closest_points[i] = tg.mesh_eval_position(mesh, result.face, result.u, result.v)


def nearest(
    mesh: tg.Mesh, points: np.ndarray, far: float = tg.inf, block_dim: int = 256
) -> tuple[np.ndarray, np.ndarray]:
    face, closest_points = tg.zeros(len(points), dtype=int), tg.zeros(len(points), dtype=tg.vec3)
    tg.launch(
        closest,
        dim=len(points),
        inputs=[mesh.id, vectors(points), far, face, closest_points],
        block_dim=block_dim,
    )
    return face.numpy(), closest_points.numpy()


def query_points(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 5, (count, 3)).astype(np.float32)


def test_the_closest_point_of_a_mesh_matches_float64() -> None:
    points, faces = soup(150)
    queries = query_points(300)
    face, closest_point = nearest(mesh_of(points, faces), queries)
    d = distances(points, faces, queries)
    np.testing.assert_allclose(np.linalg.norm(closest_point - queries, axis=1), d.min(axis=1), atol=2e-6)
    np.testing.assert_allclose(d[np.arange(300), face], d.min(axis=1), atol=2e-6)


def test_point_queries_do_not_depend_on_tree_or_block() -> None:
    points, faces = sphere(2)
    queries = np.concatenate(
        [query_points(50), points * 2, points[faces].mean(axis=1) * 0.5, np.zeros((1, 3))]
    )
    face, closest_point = nearest(mesh_of(points, faces), queries)
    assert face[-1] == distances(points, faces, np.zeros((1, 3))).argmin() or face[-1] < len(faces)
    for constructor, leaf, block in (("median", 1, 1), ("lbvh", 3, 32), ("cubql", 8, 100)):
        mesh = mesh_of(points, faces, bvh_constructor=constructor, bvh_leaf_size=leaf)
        second_run = nearest(mesh, queries, block_dim=block)
        np.testing.assert_array_equal(second_run[0], face)
        np.testing.assert_array_equal(second_run[1], closest_point)


def test_the_lowest_of_equally_distant_faces_is_found() -> None:
    points, faces = sphere(2)
    duplicated_faces = np.concatenate([faces, faces])
    face, _ = nearest(mesh_of(points, duplicated_faces), query_points(100))
    assert face.max() < len(faces)


def test_point_queries_find_closer_points_only() -> None:
    points, faces = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.int32([[0, 1, 2]])
    queries = np.float32([[0.25, 0.25, 0.5], [0.25, 0.25, 0.4999], [0.25, 0.25, 0], [np.nan, 0, 0]])
    assert nearest(mesh_of(points, faces), queries, 0.5)[0].tolist() == [-1, 0, 0, -1]
    assert nearest(mesh_of(points, faces), queries, 0.0)[0].tolist() == [-1] * 4
    assert nearest(mesh_of(np.zeros((0, 3)), np.zeros((0, 3))), queries)[0].tolist() == [-1] * 4


def test_a_face_without_area_is_its_longest_edge() -> None:
    points = np.float32([[0, 0, 0], [1, 0, 0], [3, 0, 0], [5, 5, 5]])
    mesh = mesh_of(points, np.int32([[0, 1, 2], [3, 3, 3]]))
    face, closest_point = nearest(mesh, np.float32([[2, 1, 0], [-1, 0, 0], [4, 1, 0], [5, 5, 6]]))
    assert face.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(closest_point, [[2, 0, 0], [0, 0, 0], [3, 0, 0], [5, 5, 5]], atol=1e-6)


def test_faces_of_any_shape_in_leaves_of_any_size_are_found() -> None:
    # Equal distances, faces without area, and faces whose closest point is on an edge, at a vertex or inside.
    rng = np.random.default_rng(4)
    points = rng.integers(0, 4, (60, 3)).astype(np.float32)
    faces = rng.integers(0, len(points), (400, 3)).astype(np.int32)
    faces[::7, 1] = faces[::7, 0]
    queries = rng.integers(-1, 6, (200, 3)).astype(np.float32) + rng.choice([0, 0.25], (200, 3)).astype(
        np.float32
    )
    expected = distances(points, faces, queries).min(axis=1)
    first_run = nearest(mesh_of(points, faces), queries)
    np.testing.assert_allclose(np.linalg.norm(first_run[1] - queries, axis=1), expected, atol=1e-6)
    for leaf in (1, 3, 20):
        run = nearest(mesh_of(points, faces, bvh_leaf_size=leaf), queries)
        np.testing.assert_array_equal(run[0], first_run[0])
        np.testing.assert_array_equal(run[1], first_run[1])


@tg.kernel
def signs(mesh: tg.uint64, points: tg.array1d[tg.vec3], out: tg.array2d[float]):
    i = tg.tid()
    out[i, 0] = tg.mesh_query_point(mesh, points[i], tg.inf).sign
    out[i, 1] = tg.mesh_query_point_sign_parity(mesh, points[i], tg.inf, 3, 0.2).sign
    out[i, 2] = tg.mesh_query_point_sign_normal(mesh, points[i], tg.inf).sign
    out[i, 3] = tg.mesh_query_point_sign_winding_number(mesh, points[i], tg.inf).sign


@pytest.mark.slow
def test_signs_of_distances_are_negative_inside_a_mesh() -> None:
    points, faces = sphere(3, 0.3)
    queries = np.concatenate([query_points(300) / 4, points[:40] * 1.05, points[:40] * 0.95]).astype(
        np.float32
    )
    out = tg.zeros((len(queries), 4))
    mesh = mesh_of(points, faces, support_winding_number=True)
    tg.launch(signs, dim=len(queries), inputs=[mesh.id, vectors(queries), out])
    t, _, _ = crossings(points, faces, queries, np.tile([[0.3, 0.4, 0.5]], (len(queries), 1)))
    inside = np.where(np.isfinite(t).sum(axis=1) % 2 == 1, -1, 1)
    assert 0 < (inside < 0).sum() < len(queries)
    for k in range(4):
        np.testing.assert_array_equal(out.numpy()[:, k], inside)


@tg.kernel
def query_furthest(
    mesh: tg.Mesh,
    points: tg.array1d[tg.vec3],
    least: float,
    furthest_points: tg.array1d[tg.vec3],
    result: tg.array1d[int],
):
    i = tg.tid()
    face, u, v = 0, float(0), float(0)
    if tg.mesh_query_furthest_point_no_sign(mesh, points[i], least, face, u, v):
        result[i] = 1
        furthest_points[i] = tg.mesh_eval_position(mesh, face, u, v)


def test_the_furthest_point_is_a_vertex() -> None:
    points, faces = soup(150)
    queries, furthest_points, result = (
        query_points(100),
        tg.zeros(100, dtype=tg.vec3),
        tg.zeros(100, dtype=int),
    )
    mesh = mesh_of(points, faces)
    tg.launch(query_furthest, dim=100, inputs=[mesh, vectors(queries), 5.0, furthest_points, result])
    d = np.linalg.norm(points[None].astype(np.float64) - queries[:, None], axis=2)
    np.testing.assert_array_equal(result.numpy(), d.max(axis=1) > 5)
    far = d.max(axis=1) > 5
    np.testing.assert_array_equal(furthest_points.numpy()[far], points[d.argmax(axis=1)][far])


@tg.kernel
def sample_faces(mesh: tg.Mesh, out: tg.array2d[tg.vec3], index: tg.array1d[int], covered: tg.array2d[int]):
    f = tg.tid()
    out[f, 0] = tg.mesh_eval_position(mesh, f, 0.25, 0.5)
    out[f, 1] = tg.mesh_eval_velocity(mesh, f, 0.25, 0.5)
    out[f, 2] = tg.mesh_eval_face_normal(mesh, f)
    out[f, 3] = tg.mesh_get_point(mesh, 3 * f + 1)
    out[f, 4] = tg.mesh_get_velocity(mesh, 3 * f + 2)
    index[f] = tg.mesh_get_index(mesh, 3 * f)
    p = tg.mesh_get_point(mesh, 3 * f)
    query = tg.mesh_query_aabb(mesh, p, p)
    face = -1
    while tg.mesh_query_next(query, face):
        covered[f, face] += 1
    for item in tg.bvh_query_aabb(tg.mesh_get_bvh(mesh), p, p):
        covered[f, item] += 10


@tg.kernel
def arrays(mesh: tg.uint64, out: tg.array1d[tg.vec3], numbers: tg.array1d[int]):
    f = tg.tid()
    parts = tg.mesh_get(mesh)
    out[f] = parts.points[parts.indices[3 * f]] - parts.velocities[parts.indices[3 * f + 1]]
    numbers[0], numbers[1] = parts.points.shape[0], parts.indices.shape[0]


def test_kernels_read_the_arrays_of_a_mesh() -> None:
    points, faces = sphere(1)
    mesh = mesh_of(points, faces, velocities=vectors(points))
    out, numbers = tg.zeros(n=len(faces), dtype=tg.vec3), tg.zeros(2, dtype=int)
    tg.launch(arrays, dim=len(faces), inputs=[mesh.id, out, numbers])
    np.testing.assert_array_equal(out.numpy(), points[faces[:, 0]] - points[faces[:, 1]])
    assert numbers.numpy().tolist() == [len(points), 3 * len(faces)]


@tg.kernel
def count_in_ball(mesh: tg.Mesh, points: tg.array1d[tg.vec3], radius: float, out: tg.array2d[int]):
    i = tg.tid()
    for face in tg.mesh_query_sphere(mesh, points[i], radius):
        out[i, face] += 1


def test_faces_with_a_point_in_a_ball_match_float64() -> None:
    points, faces = soup(150)
    point, out, mesh = query_points(50), tg.zeros((50, 150), dtype=int), mesh_of(points, faces)
    tg.launch(count_in_ball, dim=50, inputs=[mesh, vectors(point), 1.0, out])
    d = distances(points, faces, point)
    assert (np.abs(d - 1) > 1e-5).all()
    np.testing.assert_array_equal(out.numpy(), d <= 1)


def test_values_on_faces_are_interpolated() -> None:
    points, faces = sphere(1, 0.2)
    n = len(faces)
    speeds = points[::-1].copy()
    mesh = mesh_of(points, faces, velocities=vectors(speeds))
    out, index, covered = (
        tg.zeros((n + 1, 5), dtype=tg.vec3),
        tg.zeros(n + 1, dtype=int),
        tg.zeros((n + 1, n), dtype=int),
    )
    tg.launch(sample_faces, dim=n + 1, inputs=[mesh, out, index, covered])
    a, b, c = (points[faces[:, k]].astype(np.float64) for k in range(3))
    w = np.array([0.25, 0.5, 0.25])[None, :, None]
    normal = np.cross(b - a, c - a)
    expected = [
        (points[faces] * w).sum(1),
        (speeds[faces] * w).sum(1),
        normal / np.linalg.norm(normal, axis=1)[:, None],
    ]
    expected += [b, speeds[faces[:, 2]]]
    np.testing.assert_allclose(out.numpy()[:n], np.stack(expected, axis=1), atol=1e-6)
    assert (out.numpy()[n] == 0).all()
    np.testing.assert_array_equal(index.numpy(), [*faces[:, 0], -1])
    low, high = points[faces].min(axis=1), points[faces].max(axis=1)
    p = points[faces[:, 0]][:, None]
    np.testing.assert_array_equal(covered.numpy()[:n], 11 * ((p >= low) & (p <= high)).all(axis=2))
