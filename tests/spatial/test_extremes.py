"""Queries with NaN and infinities, directions of any length, and scenes of very large, very small and mixed sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, sphere, vectors

pytestmark = pytest.mark.machine_code
NAN, INF = np.nan, np.inf
SIZES = (1e-30, 1e-20, 1e-12, 1e12, 1e15, 1e30)


@tg.kernel
def query_boxes(
    bvh: tg.Bvh,
    at: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    radius: tg.array1d[float],
    on_ray: tg.array2d[int],
    in_ball: tg.array2d[int],
    near: tg.array1d[int],
):
    i = tg.tid()
    for item in tg.bvh_query_capsule(bvh, at[i], dir[i], radius[i]):
        on_ray[i, item] += 1
    for item in tg.bvh_query_sphere(bvh, at[i], radius[i]):
        in_ball[i, item] += 1
    near[i] = tg.bvh_query_nearest(bvh, at[i])


def results_of_boxes(
    low: object, high: object, at: object, dir: object, radius: object, leaf_size: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each query the items on the ray and in the ball, and the nearest item."""
    bvh = tg.Bvh(vectors(np.asarray(low)), vectors(np.asarray(high)), leaf_size=leaf_size)
    starts, rays = vectors(np.asarray(at)), vectors(np.asarray(dir))
    count = len(starts)
    on_ray, in_ball = (tg.zeros((count, len(bvh.lowers)), dtype=int) for _ in range(2))
    near = tg.zeros(count, dtype=int)
    radii = tg.array(np.full(count, radius, np.float32))
    tg.launch(query_boxes, count, [bvh, starts, rays, radii], [on_ray, in_ball, near], block_dim=3)
    return on_ray.numpy(), in_ball.numpy(), near.numpy()


@pytest.mark.parametrize("leaf_size", [1, 255])
def test_a_ray_with_a_nan_an_infinity_or_no_direction_finds_no_boxes(leaf_size: int) -> None:
    at = [[NAN, 0, 0], [0.5, NAN, -2], [INF, 0, 0], [0.5, 0.5, -2], [0.5, 0.5, -2], [0.5, 0.5, -2]]
    dir = [[0, 0, 1], [0, 0, 1], [-1, 0, 0], [0, NAN, 1], [0, 0, INF], [0, 0, -0.0]]
    low = np.arange(20)[:, None] * [0, 0, 2]
    on_ray, _, _ = results_of_boxes(low, low + 1, at, dir, 0.0, leaf_size)
    assert on_ray.sum() == 0
    on_ray, in_ball, _ = results_of_boxes(low, low + 1, [[0.5, 0.5, -2]], [[0, 0, 1]], NAN, leaf_size)
    assert on_ray.sum() == 0 and in_ball.sum() == 0


def test_rays_of_any_length_find_the_same_boxes() -> None:
    rng = np.random.default_rng(0)
    low = rng.random((50, 3))
    dir = np.array([1.0, 2.0, 3.0]) * 2.0 ** np.array([[0], [-66], [-120], [66], [120]])
    on_ray, _, _ = results_of_boxes(low, low + 0.3, np.zeros((5, 3)), dir, 0.0)
    assert 0 < on_ray[0].sum() < 50 and (on_ray == on_ray[0]).all()


def test_a_ray_between_the_planes_of_an_infinite_box_only_hits_it() -> None:
    low, high = [[-INF, 0, 0], [0, -INF, 0], [-INF, -INF, 5]], [[INF, 1, 1], [1, INF, 1], [INF, INF, 6]]
    at = [[0.5, 3, 0.5], [3, 0.5, 0.5], [3, 3, 0], [3, 3, 0], [0.5, 1, 0]]
    dir = [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, -1], [1, 0, -0.0]]
    on_ray, _, _ = results_of_boxes(low, high, at, dir, 0.0)
    assert on_ray.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("size", [*SIZES, 1e-42])
def test_balls_of_any_size_find_the_boxes_that_they_reach(size: float) -> None:
    x = np.float32(size) * np.array([1, 2, 3, 1000], np.float32)
    low = np.stack([x, x * 0, x * 0], axis=1)
    _, in_ball, near = results_of_boxes(low, low, np.zeros((1, 3)), np.ones((1, 3)), x[1])
    assert in_ball.tolist() == [[1, 1, 0, 0]] and near[0] == 0


@pytest.mark.parametrize("leaf_size", [1, 255])
def test_the_nearest_box_is_found_next_to_huge_and_infinite_boxes(leaf_size: int) -> None:
    rng = np.random.default_rng(1)
    low = rng.random((60, 3)) * np.array([1e-3, 1, 1e3])[rng.integers(0, 3, 60), None]
    high = low + 1e-4
    low[7], high[7], low[20], high[20] = [2, -1e30, -1e30], 1e30, [-INF, -INF, -INF], [INF, -1, INF]
    low, high, at = (x.astype(np.float32) for x in (low, high, rng.random((20, 3)) * 2))
    _, _, near = results_of_boxes(low, high, at, at, 1.0, leaf_size)
    gap = np.maximum(np.maximum(low[None] - at[:, None], at[:, None] - high[None]), 0).astype(float)
    assert near.tolist() == np.linalg.norm(gap, axis=2).argmin(axis=1).tolist()


def test_points_with_an_infinite_coordinate_have_no_nearest_box() -> None:
    low, high = [[-INF, -INF, -INF], [0, 0, 0]], [[INF, -1, INF], [1, 1, 1]]
    _, _, near = results_of_boxes(low, high, [[0.5, 0, INF], [-INF, 0, 0], [0.5, 0, 9]], np.ones((3, 3)), 1.0)
    assert near.tolist() == [-1, -1, 0]


def test_equal_points_are_found_at_their_place() -> None:
    point = np.full((3, 3), 2.5)
    _, in_ball, near = results_of_boxes(point, point, point[:1], np.ones((1, 3)), 0.0)
    assert near[0] == 0 and in_ball.tolist() == [[1, 1, 1]]
    assert results_of_mesh(point, np.array([[0, 1, 2]]), point[:1])[0].tolist() == [[2.5, 2.5, 2.5]]


@tg.kernel
def query_mesh(
    mesh: tg.Mesh,
    at: tg.array1d[tg.vec3],
    radius: float,
    closest: tg.array1d[tg.vec3],
    t: tg.array1d[float],
    normal: tg.array1d[tg.vec3],
    signs: tg.array2d[float],
    balls: tg.array2d[int],
):
    i = tg.tid()
    near = tg.mesh_query_point(mesh, at[i], tg.inf)
    closest[i] = tg.vec3(tg.nan)
    if near.result:
        closest[i] = tg.mesh_eval_position(mesh, near.face, near.u, near.v)
    for item in tg.mesh_query_sphere(mesh, at[i], radius):
        balls[i, item] += 1
    signs[i, 0] = near.sign
    signs[i, 1] = tg.mesh_query_point_sign_normal(mesh, at[i], tg.inf).sign
    signs[i, 2] = tg.mesh_query_point_sign_winding_number(mesh, at[i], tg.inf).sign
    signs[i, 3] = tg.mesh_query_point_sign_parity(mesh, at[i], tg.inf).sign
    hit = tg.mesh_query_ray(mesh, at[i], -at[i], tg.inf)
    t[i], normal[i] = hit.t, hit.normal


def results_of_mesh(
    points: np.ndarray, faces: np.ndarray, at: np.ndarray, radius: float = 0.5
) -> list[np.ndarray]:
    """The results of `query_mesh`."""
    mesh = mesh_of(points, faces, support_winding_number=True)
    count = len(at)
    out = [tg.zeros(count, dtype=tg.vec3), tg.zeros(count), tg.zeros(count, dtype=tg.vec3)]
    out += [tg.zeros((count, 4)), tg.zeros((count, len(faces)), dtype=int)]
    tg.launch(query_mesh, count, [mesh, vectors(at), float(np.float32(radius))], out)
    return [a.numpy() for a in out]


@pytest.mark.parametrize("size", SIZES)
def test_meshes_of_any_size_have_the_same_faces_signs_hits_and_normals(size: float) -> None:
    points, faces = sphere(1)
    at = np.random.default_rng(2).uniform(-1.5, 1.5, (40, 3)).astype(np.float32)
    closest, t, normal, signs, balls = results_of_mesh(points, faces, at)
    assert (signs == signs[:, :1]).all() and 0 < (signs < 0).sum() < signs.size and balls.sum() > 40
    # Powers of two as factors change no rounding.
    scale = np.float32(2.0) ** np.float32(round(np.log2(size)))
    scaled = results_of_mesh(points * scale, faces, at * scale, 0.5 * scale)
    np.testing.assert_array_equal(scaled[3], signs)
    np.testing.assert_array_equal(scaled[4], balls)
    np.testing.assert_allclose(scaled[0] / scale, closest, atol=1e-6)
    np.testing.assert_allclose(scaled[1], t, rtol=1e-5)
    np.testing.assert_allclose(scaled[2], normal, atol=1e-5)


def test_one_infinite_or_huge_vertex_does_not_change_other_faces() -> None:
    points, faces = sphere(1)
    at = np.random.default_rng(3).uniform(-1.5, 1.5, (20, 3)).astype(np.float32)
    expected = results_of_mesh(points, faces, at)[0]
    for vertex in ([INF, 0, 0], [1e30, 1e30, 1e30], [9, -1e20, 9]):
        more = np.concatenate([points, [vertex, [9, 9, 9], [9, 10, 9]]])
        last = [[len(points), len(points) + 1, len(points) + 2]]
        closest = results_of_mesh(more, np.concatenate([faces, last]), at)[0]
        np.testing.assert_allclose(closest, expected, atol=1e-6)


@tg.kernel
def query_grid(
    grid: tg.HashGrid, at: tg.array1d[tg.vec3], radius: tg.array1d[float], in_range: tg.array2d[int]
):
    i = tg.tid()
    for point in tg.hash_grid_query(grid, at[i], radius[i]):
        in_range[i, point] += 1


def test_hash_grids_find_nothing_within_a_negative_or_nan_distance() -> None:
    points = np.array([[0.1, 0.5, 0.5], [2.5, 0.5, 0.5], [NAN, 0.5, 0.5], [-2.5, 0.5, 0.5]])
    grid = tg.HashGrid(16, 16, 16)
    grid.build(vectors(points), 1.0)
    at = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [NAN, 0.5, 0.5], [0.5, 0.5, 0.5]])
    in_range = tg.zeros((4, 4), dtype=int)
    radius = tg.array([-0.1, NAN, 2.6, 0.0])
    tg.launch(query_grid, 4, [grid, vectors(at), radius], [in_range])
    assert in_range.numpy().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]
