"""Nearest items and faces, queries of blocks for meshes, and overlaps of many boxes, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import crossings, mesh_of, sphere, vectors
from spatial.meshes import distances as distances_of

pytestmark = pytest.mark.machine_code
K = 5


@tg.kernel
def nearest_boxes(bvh: tg.Bvh, points: tg.array1d[tg.vec3], far: float, out: tg.array1d[int]):
    i = tg.tid()
    out[i] = tg.bvh_query_nearest(bvh, points[i], far)


@tg.kernel
def nearest_of_block(id: tg.uint64, points: tg.array1d[tg.vec3], far: float, out: tg.array2d[int]):
    b, t = tg.tid()
    result = tg.tile_nearest(id, points[b] + tg.vec3(float(t)), K, far)
    tg.tile_store(out[b], result)


def lattice_boxes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes on a small lattice, so that many distances are equal."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 5, (count, 3)).astype(np.float32)
    return low, low + rng.integers(0, 2, (count, 3)).astype(np.float32)


def squared_distances(low: np.ndarray, high: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The squares of the distances of points from boxes; infinite for boxes without points."""
    a, b, p = (x.astype(np.float64) for x in (low[None], high[None], point[:, None]))
    square = (np.maximum(np.maximum(a - p, p - b), 0) ** 2).sum(axis=2)
    return np.where((a <= b).all(axis=2), square, np.inf)


def nearest_first(squares: np.ndarray, limit: float) -> np.ndarray:
    """The indices of the K smallest numbers of each row, the lowest index first for equal numbers, padded with -1;
    numbers from `limit` squared on are left out."""
    order = np.argsort(squares, axis=1, kind="stable")[:, :K]
    result = np.where(np.take_along_axis(squares, order, 1) < limit * limit, order, -1)
    return np.pad(result, ((0, 0), (0, K - result.shape[1])), constant_values=-1)


@pytest.mark.parametrize(("constructor", "leaf"), [("sah", 1), ("lbvh", 7)])
def test_nearest_boxes_with_ties_match_numpy(constructor: str, leaf: int) -> None:
    queries = np.random.default_rng(1).integers(-1, 7, (12, 3)).astype(np.float32)
    for count in (0, 1, 3, 200):
        low, high = lattice_boxes(count, count)
        if count > 3:
            low[5], high[6] = np.nan, -7.0
        bvh = tg.Bvh(vectors(low), vectors(high), constructor=constructor, leaf_size=leaf)
        for far in (1.5, np.inf):
            expected = nearest_first(squared_distances(low, high, queries), far)
            out, block_results = tg.zeros(12, dtype=int), tg.zeros((12, K), dtype=int)
            tg.launch(nearest_boxes, 12, inputs=[bvh, vectors(queries), far, out])
            np.testing.assert_array_equal(out.numpy(), expected[:, 0])
            tg.launch_tiled(
                nearest_of_block, 12, inputs=[bvh.id, vectors(queries), far, block_results], block_dim=3
            )
            np.testing.assert_array_equal(block_results.numpy(), expected)


def test_nearest_faces_match_numpy() -> None:
    points, faces = sphere(2, 0.2)
    queries = np.random.default_rng(1).uniform(-2, 2, (10, 3)).astype(np.float32)
    out = tg.zeros((10, K), dtype=int)
    mesh = mesh_of(points, faces)
    tg.launch_tiled(nearest_of_block, 10, inputs=[mesh.id, vectors(queries), np.inf, out], block_dim=32)
    face_distances = distances_of(points, faces, queries)
    chosen = np.take_along_axis(face_distances, out.numpy(), 1)
    np.testing.assert_allclose(chosen, np.sort(face_distances, axis=1)[:, :K], rtol=1e-5)


@tg.kernel
def query_per_block(
    mesh: tg.Mesh,
    points: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    out: tg.array2d[float],
    counts: tg.array2d[int],
):
    b, t = tg.tid()
    offset = tg.vec3(float(t))
    hit = tg.tile_mesh_query_ray(mesh, points[b] + offset, dir[b] + offset, tg.inf)
    near = tg.tile_mesh_query_point(mesh, points[b] + offset, tg.inf)
    p = tg.mesh_eval_position(mesh, near.face, near.u, near.v)
    query = tg.tile_mesh_query_sphere(mesh, points[b], 0.9)
    boxes = tg.tile_bvh_query_sphere(tg.mesh_get_bvh(mesh), points[b], 0.9)
    while tg.tile_query_valid(query) or tg.tile_query_valid(boxes):
        face = tg.untile(tg.tile_mesh_query_aabb_next(query))
        item = tg.untile(tg.tile_bvh_query_next(boxes))
        if face >= 0:
            tg.atomic_add(counts, b, face, 1)
        if item >= 0:
            tg.atomic_add(counts, b, item, 10)
    if t == 1:
        out[b, 0], out[b, 1], out[b, 2] = hit.t, tg.length(p - points[b]), near.sign


@pytest.mark.slow
@pytest.mark.parametrize("block_dim", [2, 33])
def test_queries_of_a_block_match_numpy(block_dim: int) -> None:
    points, faces = sphere(1, 0.2)
    rng = np.random.default_rng(2)
    queries, dir = (
        x.astype(np.float32) for x in (rng.uniform(-0.4, 0.4, (6, 3)), rng.standard_normal((6, 3)))
    )
    out, counts = tg.zeros((6, 3)), tg.zeros((6, len(faces)), dtype=int)
    inputs = [mesh_of(points, faces), vectors(queries), vectors(dir)]
    tg.launch_tiled(query_per_block, 6, inputs=inputs, outputs=[out, counts], block_dim=block_dim)
    t, face_distances = (
        crossings(points, faces, queries, dir)[0].min(axis=1),
        distances_of(points, faces, queries),
    )
    np.testing.assert_allclose(
        out.numpy(), np.stack([t, face_distances.min(axis=1), -np.ones(6)], axis=1), rtol=1e-4
    )
    corners = points[faces]
    in_box = squared_distances(corners.min(axis=1), corners.max(axis=1), queries) <= 0.9**2
    np.testing.assert_array_equal(counts.numpy(), (face_distances <= 0.9) + 10 * in_box)


def test_overlaps_of_many_boxes_match_numpy() -> None:
    low, high = lattice_boxes(300, 1)
    query_low, query_high = lattice_boxes(40, 2)
    query_high[3] = -1
    bvh = tg.Bvh(vectors(low), vectors(high))
    starts, items = tg.bvh_overlaps(bvh, vectors(query_low), vectors(query_high))
    rows, columns = np.nonzero(
        ((low[None] <= query_high[:, None]) & (high[None] >= query_low[:, None])).all(axis=2)
    )
    np.testing.assert_array_equal(items.numpy(), columns)
    np.testing.assert_array_equal(starts.numpy(), np.searchsorted(rows, np.arange(41)))
    for result in (tg.bvh_overlaps(bvh, vectors(query_low[:0]), vectors(query_high[:0])),):
        assert result[0].numpy().tolist() == [0] and not len(result[1])
    with pytest.raises(tg.LaunchError, match="uppers must be a packed array of vec3 of shape \\(40,\\)"):
        tg.bvh_overlaps(bvh, vectors(query_low), vectors(query_high[:3]))
