"""Rays and triangle meshes: closest hits, counts, edges and vertices, bad geometry."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import crossings, mesh_of, soup, sphere, vectors

pytestmark = pytest.mark.machine_code(some=True)


@tg.kernel
def cast(
    mesh: tg.uint64,
    start: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    far: float,
    face: tg.array1d[int],
    hits: tg.array1d[tg.vec4],
    count: tg.array1d[int],
    root: int,
):
    i = tg.tid()
    hit = tg.mesh_query_ray(mesh, start[i], dir[i], far, root)
    face[i] = tg.where(hit.result, hit.face, -1)
    hits[i] = tg.vec4(hit.t, hit.u, hit.v, hit.sign)
    count[i] = tg.mesh_query_ray_count_intersections(mesh, start[i], dir[i], root)


class Hits:
    """The results of rays. `values`: t, u, v and the sign of each closest hit."""

    def __init__(
        self,
        mesh: tg.Mesh,
        start: np.ndarray,
        dir: np.ndarray,
        far: float = 1e30,
        root: int = -1,
        block_dim: int = 256,
    ) -> None:
        n = len(start)
        face, hits, count = tg.zeros(n, dtype=int), tg.zeros(n, dtype=tg.vec4), tg.zeros(n, dtype=int)
        inputs = [mesh.id, vectors(start), vectors(dir), far, face, hits, count, root]
        tg.launch(cast, dim=n, inputs=inputs, block_dim=block_dim)
        self.face, self.values, self.count = face.numpy(), hits.numpy(), count.numpy()

    def equals(self, other: Hits) -> bool:
        return all(np.array_equal(getattr(self, k), getattr(other, k)) for k in ("face", "values", "count"))


def rays(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    start, end = rng.uniform(-2, 6, (count, 3)), rng.uniform(0, 4, (count, 3))
    return start.astype(np.float32), (end - start).astype(np.float32)


def test_the_first_face_along_a_ray_matches_float64() -> None:
    points, faces = soup(150)
    start, dir = rays(400)
    actual = Hits(mesh_of(points, faces), start, dir)
    t, least, cosine = crossings(points, faces, start, dir)
    clear = (np.abs(least) > 1e-4).all(axis=1)
    first = np.where(np.isfinite(t.min(axis=1)), t.argmin(axis=1), -1)
    assert clear.sum() > 250 and (first[clear] >= 0).sum() > 50
    np.testing.assert_array_equal(actual.face[clear], first[clear])
    np.testing.assert_array_equal(actual.count[clear], np.isfinite(t).sum(axis=1)[clear])
    hit = clear & (first >= 0)
    np.testing.assert_allclose(actual.values[hit, 0], t.min(axis=1)[hit], rtol=1e-4)
    np.testing.assert_array_equal(actual.values[hit, 3], -np.sign(cosine[hit, first[hit]]))
    corners = points[faces[first[hit]]].astype(np.float64)
    u, v = actual.values[hit, 1, None], actual.values[hit, 2, None]
    hit_points = corners[:, 0] * u + corners[:, 1] * v + corners[:, 2] * (1 - u - v)
    np.testing.assert_allclose(hit_points, start[hit] + dir[hit] * actual.values[hit, :1], atol=1e-3)


@pytest.mark.slow
def test_ray_queries_do_not_depend_on_tree_or_block() -> None:
    points, faces = soup(150)
    faces = np.concatenate([faces, faces[::-1]])
    start, dir = rays(200)
    expected = Hits(mesh_of(points, faces), start, dir)
    assert ((expected.face < 150) | (expected.face >= 150)).all() and expected.face.max() < 150
    for constructor, leaf, block in (("median", 1, 1), ("lbvh", 3, 32), ("cubql", 8, 100)):
        mesh = mesh_of(points, faces, bvh_constructor=constructor, bvh_leaf_size=leaf)
        assert Hits(mesh, start, dir, block_dim=block).equals(expected)


@pytest.mark.parametrize("bumps", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_rays_from_inside_hit_a_closed_mesh_once(bumps: float, scale: float) -> None:
    """Rays through vertices, edges and faces, from the origin and from other points."""
    points, faces = sphere(3, bumps)
    points = (points * np.float32(scale)).astype(np.float32)
    a, b = points[faces[:, 0]], points[faces[:, 1]]
    rng = np.random.default_rng(3)
    dir = np.concatenate(
        [points, (a + b) / 2, a * np.float32(0.75) + b * np.float32(0.25), a + b + points[faces[:, 2]]]
    )
    axes = np.concatenate([np.eye(3), -np.eye(3), [[1, 1, 0], [-1, 1, 0], [0, 1, -1]]]) * scale
    dir = np.concatenate([dir, axes]).astype(np.float32)
    for start in (np.zeros((len(dir), 3)), rng.uniform(-0.4, 0.4, (len(dir), 3)) * scale):
        start = start.astype(np.float32)
        actual = Hits(mesh_of(points, faces), start, dir - start)
        assert actual.count.tolist() == [1] * len(dir)
        assert (actual.face >= 0).all() and (actual.values[:, 3] < 0).all()


@pytest.mark.parametrize(("scale", "length"), [(0, -100), (0, -60), (0, 100), (-40, -60), (40, 60), (40, 10)])
def test_hits_do_not_depend_on_the_scale_of_meshes_and_directions(scale: int, length: int) -> None:
    """Directions parallel to axes, to planes and to none; powers of two; one face has a vertex at infinity."""
    points, faces = sphere(2, 0.3)
    points = np.concatenate([points, [[np.inf, 0, 0]]]).astype(np.float32)
    faces = np.concatenate([faces, [[0, 1, len(points) - 1]]]).astype(np.int32)
    rng = np.random.default_rng(8)
    dir = np.concatenate([np.eye(3), -np.eye(3), rng.standard_normal((60, 3))]).astype(np.float32)
    dir[6:26, 0], dir[26:40, 1] = 0, 2.0**-24
    start = rng.uniform(-0.3, 0.3, dir.shape).astype(np.float32)
    expected = Hits(mesh_of(points, faces), start, dir)
    assert (expected.face >= 0).all() and (expected.count == 1).all()
    larger, longer = np.float32(2.0**scale), np.float32(2.0**length)
    actual = Hits(mesh_of(points * larger, faces), start * larger, dir * longer, far=float("inf"))
    np.testing.assert_array_equal(actual.face, expected.face)
    np.testing.assert_array_equal(actual.count, expected.count)
    np.testing.assert_allclose(
        actual.values[:, 0], expected.values[:, 0] * 2.0 ** (scale - length), rtol=1e-6
    )


def test_rays_along_a_grid_hit_its_faces_once() -> None:
    """A square of 8 x 8 x 2 triangles whose edges lie on multiples of 1/8, seen along all axes."""
    n = 8
    x, y = np.meshgrid(np.arange(n + 1) / n, np.arange(n + 1) / n, indexing="ij")
    points = np.stack([x, y, 0 * x], axis=2).reshape(-1, 3).astype(np.float32)
    indices = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = (
        indices[:-1, :-1].ravel(),
        indices[1:, :-1].ravel(),
        indices[1:, 1:].ravel(),
        indices[:-1, 1:].ravel(),
    )
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32)
    x, y = np.meshgrid(np.arange(1, 4 * n) / (4 * n), np.arange(1, 4 * n) / (4 * n))
    for shift in range(3):
        for side in (1.0, -1.0):
            start = np.stack([x, y, 0 * x + side], axis=2).reshape(-1, 3)
            dir = np.tile([0.0, 0.0, -side], (len(start), 1))
            mesh = mesh_of(np.roll(points, shift, axis=1), faces)
            actual = Hits(mesh, np.roll(start, shift, axis=1), np.roll(dir, shift, axis=1))
            assert actual.count.tolist() == [1] * len(start) and (actual.values[:, 0] == 1).all()


def test_ray_queries_find_no_face_beyond_their_length() -> None:
    points, faces = np.float32([[0, 0, 1], [1, 0, 1], [0, 1, 1]]), np.int32([[0, 1, 2]])
    start, dir = np.float32([[0.2, 0.2, 0]] * 3), np.float32([[0, 0, 2], [0, 0, 0.5], [0, 0, -1]])
    actual = Hits(mesh_of(points, faces), start, dir, far=1.0)
    assert actual.face.tolist() == [0, -1, -1] and actual.count.tolist() == [1, 1, 0]
    assert actual.values[0, 0] == 0.5


def test_faces_without_area_or_with_nan_are_not_hit() -> None:
    points = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0], [np.nan, 0, 0], [0.5, 0.5, 0]])
    faces = np.int32([[0, 1, 3], [0, 0, 0], [0, 2, 4], [1, 2, 5], [0, 1, 2]])
    start, dir = (
        np.float32([[0.25, 0.25, 1], [0.5, 0, 1], [0.5, 0.5, 1], [9, 9, 9]]),
        np.float32([[0, 0, -1]] * 4),
    )
    actual = Hits(mesh_of(points, faces), start, dir)
    assert actual.face[0] == 4 and actual.face[3] == -1 and set(actual.face[1:3].tolist()) <= {-1, 4}
    nan_hits = Hits(mesh_of(points, faces), np.full((2, 3), np.nan), dir[:2])
    assert nan_hits.face.tolist() == [-1, -1]
    assert Hits(mesh_of(points, faces), start, np.zeros((4, 3))).count.tolist() == [0] * 4
    assert Hits(mesh_of(np.zeros((0, 3)), np.zeros((0, 3))), start, dir).face.tolist() == [-1] * 4


@tg.kernel
def any_and_groups(
    mesh: tg.Mesh, start: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], groups: int, out: tg.array2d[int]
):
    i = tg.tid()
    out[i, groups] = int(tg.mesh_query_ray_anyhit(mesh, start[i], dir[i], 1e30))
    for g in range(groups):
        root = tg.mesh_get_group_root(mesh, g)
        t, u, v, sign, normal, face = float(0), float(0), float(0), float(0), tg.vec3(), -1
        if not tg.mesh_query_ray(mesh, start[i], dir[i], 1e30, t, u, v, sign, normal, face, root):
            face = -1
        out[i, g] = face


def test_ray_queries_take_groups_typed_arguments_and_any_hits() -> None:
    points, faces = soup(150)
    groups_of_faces = np.arange(150) % 3
    mesh = mesh_of(points, faces, groups=tg.array(groups_of_faces, dtype=int))
    start, dir = rays(100)
    out = tg.zeros((100, 4), dtype=int)
    tg.launch(any_and_groups, dim=100, inputs=[mesh, vectors(start), vectors(dir), 3, out])
    np.testing.assert_array_equal(out.numpy()[:, 3], Hits(mesh, start, dir).face >= 0)
    for g in range(3):
        group_faces = np.flatnonzero(groups_of_faces == g)
        group_hits = Hits(mesh_of(points, faces[group_faces]), start, dir).face
        np.testing.assert_array_equal(
            out.numpy()[:, g], np.where(group_hits < 0, -1, group_faces[group_hits])
        )


def test_rays_find_moved_points_after_a_refit() -> None:
    points, faces = soup(100)
    start, dir = rays(100)
    mesh = mesh_of(points, faces)
    moved = points + np.float32([0.5, -0.25, 1])
    mesh.points.assign(moved)
    mesh.refit()
    expected = Hits(mesh_of(moved, faces), start, dir)
    assert Hits(mesh, start, dir).equals(expected)
    mesh.points = vectors(points)
    assert Hits(mesh, start, dir).equals(Hits(mesh_of(points, faces), start, dir))


def test_wrong_arguments_of_a_mesh_are_refused() -> None:
    points, faces = soup(3)
    with pytest.raises(tg.LaunchError, match=r"indices\[4\] is 9, and there are 9 points"):
        mesh_of(points, np.where(faces == 4, 9, faces))
    with pytest.raises(tg.LaunchError, match="indices must have three entries a face, got 8"):
        mesh_of(points, faces.reshape(-1)[:8])
    with pytest.raises(tg.LaunchError, match="points must be a packed array of vec3"):
        tg.Mesh(tg.array(points, dtype=float), tg.array(faces.reshape(-1), dtype=int))
    with pytest.raises(tg.LaunchError, match="velocities must be"):
        mesh_of(points, faces, velocities=vectors(points[:2]))
    with pytest.raises(tg.LaunchError, match="winding numbers need another constructor"):
        mesh_of(points, faces, support_winding_number=True, bvh_constructor="cubql")
    mesh = mesh_of(points, faces)
    with pytest.raises(tg.LaunchError, match="points must be a packed array of vec3 of shape \\(9,\\)"):
        mesh.points = vectors(points[:8])
