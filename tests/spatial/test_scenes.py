"""Generated scenes, most of them degenerate, against float64; and ten million rays through edges and vertices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula as tg
from spatial.meshes import distances, mesh_of, sphere, vectors

pytestmark = pytest.mark.machine_code
SCALES = (1.0, 1e-30, 1e-15, 1e-8, 1e8, 1e15, 1e30)
KINDS = ("lattice", "plane", "needles", "points", "equal", "apart", "holes", "plain")
QUERIES = 8


@tg.kernel
def query_boxes(
    bvh: tg.Bvh,
    low: tg.array1d[tg.vec3],
    high: tg.array1d[tg.vec3],
    results: tg.array2d[int],
    near: tg.array1d[int],
):
    i = tg.tid()
    for item in tg.bvh_query_aabb(bvh, low[i], high[i]):
        results[i, item] += 1
    near[i] = tg.bvh_query_nearest(bvh, low[i])


@tg.kernel
def query_faces(
    mesh: tg.Mesh, points: tg.array1d[tg.vec3], face: tg.array1d[int], face_distance: tg.array1d[float]
):
    i = tg.tid()
    near = tg.mesh_query_point_no_sign(mesh, points[i], tg.inf)
    face[i], face_distance[i] = -1, tg.inf
    if near.result:
        face[i] = near.face
        face_distance[i] = tg.length(tg.mesh_eval_position(mesh, near.face, near.u, near.v) - points[i])


def corners_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Two or three corners for each of `count` items, as [item, corner, axis]."""
    x = rng.integers(0, 4, (count, 3, 3)).astype(np.float32)
    if kind == "plane":
        x[:, :, 2] = 1
    elif kind == "needles":
        x = rng.random((count, 1, 3)) + rng.random((count, 3, 1)) * rng.standard_normal((count, 1, 3))
    elif kind == "points":
        x[:] = x[:, :1]
    elif kind == "equal":
        x[:] = x[:1]
    elif kind == "apart":
        x = x * 1.5 ** rng.integers(-40, 40, (count, 1, 1))
    elif kind == "holes":
        x[rng.random(count) < 0.3, 1] = np.nan
    elif kind == "plain":
        x = rng.standard_normal((count, 3, 3))
    return np.asarray(x, np.float32)


def queries(scene: np.ndarray, scale: np.float32, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Boxes around corners of the scene and elsewhere; the last one has a NaN."""
    corners = np.nan_to_num(scene.reshape(-1, 3))
    low = (
        corners[rng.integers(0, len(corners), QUERIES)]
        if len(corners)
        else np.zeros((QUERIES, 3), np.float32)
    )
    low[::3] += rng.standard_normal(low[::3].shape).astype(np.float32) * scale
    high = low + rng.integers(0, 2, (QUERIES, 3)).astype(np.float32) * scale
    low[-1, 1] = np.nan
    return low, high


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 40) | st.just(700),
    st.sampled_from([("sah", 1), ("median", 3), ("lbvh", 9)]),
    st.sampled_from(SCALES),
    st.integers(0, 2**16),
)
def test_boxes_and_faces_of_generated_scenes_match_float64(
    kind: str, count: int, tree: tuple[str, int], scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scene = corners_of(kind, count, rng) * np.float32(scale)
    low, high = scene[:, :2].min(axis=1), scene[:, :2].max(axis=1)
    if kind == "holes" and count:
        low[0], high[0] = 2.0 * scale, 1.0 * scale
    first, last = queries(scene, np.float32(scale), rng)
    bvh = tg.Bvh(vectors(low), vectors(high), constructor=tree[0], leaf_size=tree[1])
    actual, near = tg.zeros((QUERIES, count), dtype=int), tg.zeros(QUERIES, dtype=int)
    tg.launch(query_boxes, QUERIES, inputs=[bvh, vectors(first), vectors(last)], outputs=[actual, near])
    a, b, p = (x.astype(np.float64) for x in (low[None], high[None], first[:, None]))
    inside = (a <= b).all(axis=2)
    expected = (a <= last[:, None]).all(axis=2) & (b >= p).all(axis=2) & inside
    np.testing.assert_array_equal(actual.numpy(), expected)
    gap = np.where(inside, np.linalg.norm(np.maximum(np.maximum(a - p, p - b), 0), axis=2), np.inf)
    assert_nearest(near.numpy(), gap, np.abs(first).max(axis=1))

    mesh = mesh_of(scene.reshape(-1, 3), np.arange(3 * count, dtype=np.int32), bvh_leaf_size=tree[1])
    face, face_distance = tg.zeros(QUERIES, dtype=int), tg.zeros(QUERIES)
    tg.launch(query_faces, QUERIES, inputs=[mesh, vectors(first)], outputs=[face, face_distance])
    known = ~np.isnan(scene).any(axis=(1, 2))
    faces = np.arange(3 * count).reshape(-1, 3)
    gap = np.where(known, distances(np.nan_to_num(scene.reshape(-1, 3)), faces, np.nan_to_num(first)), np.inf)
    gap[np.isnan(first).any(axis=1)] = np.inf
    assert_nearest(face.numpy(), gap, np.abs(first).max(axis=1) + np.nan_to_num(np.abs(scene)).max(initial=0))


def assert_nearest(actual: np.ndarray, gap: np.ndarray, size: np.ndarray) -> None:
    """Check that queries found items of the smallest distance, up to rounding errors of coordinates of magnitude
    `size`; -1 where all distances are infinite or NaN."""
    gap = np.where(np.isnan(gap), np.inf, gap)
    for k, row in enumerate(gap):
        least = row.min(initial=np.inf)
        assert (actual[k] >= 0) == np.isfinite(least)
        if actual[k] >= 0:
            assert row[actual[k]] <= least * (1 + 1e-5) + 1e-6 * size[k]


@tg.kernel
def count_hits(mesh: tg.Mesh, start: tg.array1d[tg.vec3], to: tg.array1d[tg.vec3], wrong: tg.array1d[int]):
    i = tg.tid()
    hits = tg.mesh_query_ray_count_intersections(mesh, start[i], to[i] - start[i])
    if hits == 0:
        tg.atomic_add(wrong, 0, 1)
    if hits > 1:
        tg.atomic_add(wrong, 1, 1)


@pytest.mark.parametrize("millions", [pytest.param(10, marks=pytest.mark.campaign)])
def test_rays_from_inside_hit_a_closed_mesh_once(millions: int) -> None:
    """Rays from inside of a closed mesh to vertices, and to points of edges as float32 has them."""
    points, faces = sphere(5)
    rng = np.random.default_rng(0)
    mesh, wrong, rays_per_mesh = mesh_of(points, faces), tg.zeros(2, dtype=int), 500_000
    for _ in range(2 * millions):
        face, k = rng.integers(0, len(faces), rays_per_mesh), rng.integers(0, 3, rays_per_mesh)
        a, b = points[faces[face, k]], points[faces[face, (k + 1) % 3]]
        along = rng.choice([0.0, 0.25, 0.5, 1.0, -1.0], rays_per_mesh)[:, None]
        along = np.where(along < 0, rng.random((rays_per_mesh, 1)), along).astype(np.float32)
        start = rng.uniform(-0.4, 0.4, (rays_per_mesh, 3)) * rng.integers(0, 2, (rays_per_mesh, 1))
        tg.launch(
            count_hits,
            rays_per_mesh,
            inputs=[mesh, vectors(start), vectors(a + along * (b - a))],
            outputs=[wrong],
        )
    assert wrong.numpy().tolist() == [0, 0]
