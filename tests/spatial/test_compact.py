"""Compact nodes, which rays traverse on GPUs, written and traversed on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, soup, sphere, vectors
from tegula.spatial.boxes import NODE
from tegula.spatial.compact import COMPACT
from tegula.stdlib.geometry import compact
from tegula.stdlib.geometry.layout import COMPACT_CHILDREN, COMPACT_Z, HALF, UPPER, WIDTH
from tegula.stdlib.geometry.rays import ANY, CLOSEST, COUNT

pytestmark = [pytest.mark.machine_code(some=True), pytest.mark.cpu, pytest.mark.slow]
lang: Any = tg
MODES = (CLOSEST, ANY, COUNT)


def new_kernel() -> tg.Kernel:
    """A kernel that traverses both kinds of nodes in all modes, which is not yet traced."""

    @tg.kernel
    def cast(
        mesh: tg.Mesh,
        start: tg.array1d[tg.vec3],
        dir: tg.array1d[tg.vec3],
        limit: tg.array1d[float],
        root: int,
        actual: tg.array2d[tg.vec3],
        expected: tg.array2d[tg.vec3],
    ):
        i = tg.tid()
        for mode in tg.static(MODES):
            a = lang._traverse_compact(mesh, start[i], dir[i], limit[i], root, mode)
            b = lang._traverse_nodes(mesh, start[i], dir[i], limit[i], root, mode)
            if mode == CLOSEST:
                actual[i, mode] = tg.vec3(float(a.face), a.t, tg.where(a.face >= 0, float(a.at), 0.0))
                expected[i, mode] = tg.vec3(float(b.face), b.t, tg.where(b.face >= 0, float(b.at), 0.0))
            elif mode == ANY:
                actual[i, mode] = tg.vec3(tg.where(a.count > 0, 1.0, 0.0), 0.0, 0.0)
                expected[i, mode] = tg.vec3(tg.where(b.count > 0, 1.0, 0.0), 0.0, 0.0)
            else:
                actual[i, mode] = tg.vec3(float(a.count), 0.0, 0.0)
                expected[i, mode] = tg.vec3(float(b.count), 0.0, 0.0)

    return cast


CAST = new_kernel()


def with_compact_nodes(mesh: tg.Mesh) -> tg.Mesh:
    """The mesh with compact nodes, which meshes on CPUs do not have."""
    faces = mesh._bvh
    faces.compact = tg.empty(faces.node_limit * COMPACT, dtype=tg.int32)
    faces.write_compact_nodes()
    mesh.publish()
    return mesh


def check_rays(
    mesh: tg.Mesh,
    start: np.ndarray,
    dir: np.ndarray,
    limit: np.ndarray,
    root: int = -1,
    kernel: tg.Kernel = CAST,
) -> np.ndarray:
    """Compare the traversals of both kinds of nodes. Returns the closest hits: the face, t and the position."""
    results = [tg.zeros((len(start), len(MODES)), dtype=tg.vec3) for _ in range(2)]
    inputs = [mesh, vectors(start), vectors(dir), tg.array(limit.astype(np.float32)), root]
    tg.launch(kernel, len(start), inputs, results)
    actual, expected = (x.numpy() for x in results)
    np.testing.assert_array_equal(actual, expected)
    return actual[:, CLOSEST]


def random_rays(points: np.ndarray, count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rays between points around a mesh, some of them along axes, and their largest distances."""
    rng = np.random.default_rng(5)
    low, high = points.min(0), points.max(0)
    start, end = (rng.uniform(low - (high - low) / 2, high + (high - low) / 2, (count, 3)) for _ in range(2))
    dir = end - start
    dir[::7, 0], dir[::5, 1], dir[3::35, 2] = 0.0, -0.0, 0.0
    dir[1] = 0.0
    start[2] = np.nan
    limit = rng.choice([np.inf, 1e30, 1.0, 0.5, 0.0, -0.0, -1.0], count)
    return start.astype(np.float32), dir.astype(np.float32), limit


@pytest.mark.parametrize(
    "options", [{}, {"bvh_constructor": "lbvh"}, {"bvh_constructor": "sah", "bvh_leaf_size": 5}]
)
def test_rays_through_compact_nodes_find_the_same_hits(options: dict[str, Any]) -> None:
    points, faces = soup(700)
    points[33] = np.nan
    hits = check_rays(with_compact_nodes(mesh_of(points, faces, **options)), *random_rays(points[34:]))
    assert (hits[:, 0] >= 0).sum() > 50


def test_rays_that_begin_on_faces_find_the_same_hits() -> None:
    points, faces = sphere(3)
    mesh = with_compact_nodes(mesh_of(points, faces))
    rng = np.random.default_rng(0)
    dir = rng.standard_normal((300, 3)).astype(np.float32)
    hits = check_rays(mesh, points[rng.integers(0, len(points), 300)], dir, np.zeros(300))
    assert (hits[:, 0] >= 0).sum() > 10


def test_compact_nodes_of_a_group_are_traversed_alone() -> None:
    points, faces = soup(200)
    groups = np.arange(len(faces)) % 3
    mesh = with_compact_nodes(mesh_of(points, faces, groups=tg.array(groups, dtype=int)))
    group_nodes = mesh._bvh._group_nodes
    assert group_nodes is not None
    root = int(group_nodes.numpy().reshape(-1, 2)[1, 1])
    start, dir, limit = random_rays(points)
    hits = check_rays(mesh, start, dir, limit, root)
    hit_faces = hits[:, 0][hits[:, 0] >= 0].astype(int)
    assert len(hit_faces) > 5 and set(groups[hit_faces].tolist()) == {1}


def test_compact_nodes_of_an_empty_mesh_have_no_hits() -> None:
    mesh = mesh_of(np.zeros((1, 3), np.float32), np.zeros((0, 3), np.int32))
    start, dir, limit = random_rays(np.eye(3), 20)
    assert (check_rays(mesh, start, dir, limit)[:, 0] == -1).all()


@pytest.mark.parametrize("levels", [1, 3])
def test_masks_of_levels_that_are_not_stored_are_computed_again(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "MAX_STORED", levels * compact.STORED)
    points, faces = soup(900)
    mesh = with_compact_nodes(mesh_of(points, faces, bvh_leaf_size=1))
    assert len(mesh._bvh.levels()) > 3
    hits = check_rays(mesh, *random_rays(points), kernel=new_kernel())
    assert (hits[:, 0] >= 0).sum() > 50


def bounds_of(mesh: tg.Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The bounds of the children of all nodes (node, side, axis, child), in nodes and in compact nodes, in float64; the
    steps of the grids (node, axis); and the children."""
    count, compact_nodes = sum(n for _, n in mesh._bvh.levels()), mesh._bvh.compact
    assert compact_nodes is not None
    words = mesh._bvh.node_words.numpy().reshape(-1, NODE)[1 : 1 + count]
    raw = compact_nodes.numpy().reshape(-1, COMPACT)[1 : 1 + count].copy()
    exact = words.view(np.float32)[:, : 2 * UPPER // 4].reshape(-1, 2, 3, WIDTH).astype(np.float64)
    data = raw.view(np.uint8).reshape(count, -1)
    step = np.ldexp(1.0, data[:, 12:15].astype(int) - 127)
    steps = np.zeros(exact.shape)
    for half in range(2):
        for axis in range(3):
            at = COMPACT_Z + HALF // 2 * half if axis == 2 else HALF + 2 * HALF * half + 8 * axis
            for side in range(2):
                steps[:, side, axis, 4 * half : 4 * half + 4] = data[:, at + 4 * side : at + 4 * side + 4]
    origin = raw.view(np.float32)[:, :3].astype(np.float64)
    np.testing.assert_array_equal(raw[:, COMPACT_CHILDREN // 4 :][:, :8], words[:, 48:56])
    return exact, origin[:, None, :, None] + steps * step[:, None, :, None], step, words[:, 48:56]


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30, 1e38])
def test_bounds_of_compact_nodes_contain_the_children(scale: float) -> None:
    points, faces = soup(300)
    points = (points * (scale / 6)).astype(np.float32)
    points[5] = np.nan
    points[300:360, 2] = points[300, 2]
    mesh = with_compact_nodes(mesh_of(points, faces, bvh_leaf_size=1))
    exact, coarse, step, children = bounds_of(mesh)
    has_box = exact[:, 0] <= exact[:, 1]
    margin = np.broadcast_to(step[:, :, None] / 64, has_box.shape)
    low, high = (exact[:, k] - coarse[:, k] for k in range(2))
    # The origin is rounded.
    rounding = np.abs(exact[:, 0]) * 2.0**-23
    assert (low >= margin - rounding)[has_box].all() and (-high >= margin - rounding)[has_box].all()
    assert (low <= 2.1 * step[:, :, None])[has_box].all() and (-high <= 2.1 * step[:, :, None])[has_box].all()
    assert (coarse[:, 0] > coarse[:, 1])[~has_box].all()
    width = np.nanmax(exact[:, 1], 2) - np.nanmin(exact[:, 0], 2)
    assert (step <= np.maximum(width / 100, 2.0**-126))[np.isfinite(width)].all()
    assert (children != 0)[has_box.all(1)].all()
