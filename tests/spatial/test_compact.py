"""Compact nodes, which rays traverse on GPUs, written and traversed on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, soup, sphere, vectors
from tegula.spatial.boxes import NODE
from tegula.spatial.compact import COMPACT
from tegula.stdlib.geometry.layout import (
    COMPACT_CHILDREN,
    COMPACT_COUNTS,
    COMPACT_X,
    LEVELS,
    UNIT,
    UPPER,
    WIDTH,
)
from tegula.stdlib.geometry.rays import ANY, CLOSEST, COUNT, FOUND

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


@tg.func
def first_of_all(mesh: Any, start: tg.vec3, dir: tg.vec3, limit: float):
    """The closest hit among all triangles."""
    none = FOUND(-1, limit, 0, 0)
    return lang._intersect_leaf(mesh, lang._shear(start, dir), 0, mesh.face_count, none, limit, CLOSEST)


@tg.kernel
def cast_at_all(
    mesh: tg.Mesh,
    start: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    limit: tg.array1d[float],
    actual: tg.array2d[tg.vec2],
    expected: tg.array1d[tg.vec2],
):
    i = tg.tid()
    a = lang._traverse_compact(mesh, start[i], dir[i], limit[i], -1, CLOSEST)
    b = lang._traverse_nodes(mesh, start[i], dir[i], limit[i], -1, CLOSEST)
    c = first_of_all(mesh, start[i], dir[i], limit[i])
    actual[i, 0] = tg.vec2(float(a.face), tg.where(a.face >= 0, a.t, 0.0))
    actual[i, 1] = tg.vec2(float(b.face), tg.where(b.face >= 0, b.t, 0.0))
    expected[i] = tg.vec2(float(c.face), tg.where(c.face >= 0, c.t, 0.0))


def rays_at(points: np.ndarray, faces: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rays at triangles and vertices, from nearby and from far away, of directions of all lengths and slopes, some of
    them along axes, infinite or NaN; and their largest distances."""
    rng = np.random.default_rng(3)
    usable = np.isfinite(points[faces]).all((1, 2))
    some = faces[usable][rng.integers(0, usable.sum(), count)]
    target = np.where(rng.random((count, 1)) < 0.5, points[some].mean(1), points[some[:, 0]])
    size = np.abs(points[np.isfinite(points).all(1)]).max()
    slopes = rng.uniform(0, 1, (count, 3)) ** 2 * rng.choice([0, 2, 13, 30, 150], (count, 1))
    dir = rng.standard_normal((count, 3)) * 2.0**-slopes * (rng.random((count, 3)) > 0.2)
    length = np.abs(dir).max(1, keepdims=True) + 1e-300
    start = target - dir / length * size * 2.0 ** rng.choice([-12, -6, -1, 0, 1, 3, 10, 20], (count, 1))
    dir *= 2.0 ** rng.choice([0, 0, 0, 20, -20, 60, -60, 90, -90, 120, -120], (count, 1))
    start, dir = start.astype(np.float32), dir.astype(np.float32)
    odd = rng.integers(0, count, count // 20)
    dir[odd, rng.integers(0, 3, len(odd))] = rng.choice([np.inf, -np.inf, np.nan, -0.0, 1e-42], len(odd))
    odd = rng.integers(0, count, count // 50)
    start[odd, rng.integers(0, 3, len(odd))] = rng.choice([np.inf, np.nan, 1e38, -1e30], len(odd))
    limit = rng.choice([np.inf, 1e30, 1.0, 0.0, -1.0, np.nan], count, p=[0.75, 0.05, 0.05, 0.05, 0.05, 0.05])
    return start, dir, limit


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sphere": lambda p: p,
    "far": lambda p: p + 1000,
    "thin": lambda p: p * [1, 1e-4, 1e3],
    "flat": lambda p: p * [1, 0, 1],
    "point": lambda p: 0 * p + 1,
    "large": lambda p: 1e20 * p,
    "very large": lambda p: 1e32 * p,
    "small": lambda p: 1e-20 * p,
    "subnormal": lambda p: 1e-41 * p,
    "with NaN and infinities": lambda p: np.where(
        (np.arange(len(p)) % 41 == 7)[:, None], np.nan, np.where(p > 0.9995, np.inf, p)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rays_find_the_closest_of_all_triangles(shape: str) -> None:
    points, faces = sphere(2)
    with np.errstate(all="ignore"):
        points = SHAPES[shape](points.astype(np.float64)).astype(np.float32)
        start, dir, limit = rays_at(points, faces, 3000)
    mesh = with_compact_nodes(mesh_of(points, faces, bvh_leaf_size=2))
    results = [tg.zeros((len(start), 2), dtype=tg.vec2), tg.zeros(len(start), dtype=tg.vec2)]
    inputs = [mesh, vectors(start), vectors(dir), tg.array(limit.astype(np.float32))]
    tg.launch(cast_at_all, len(start), inputs, results)
    actual, expected = (x.numpy() for x in results)
    for k, nodes in enumerate(("compact nodes", "nodes of floats")):
        np.testing.assert_array_equal(actual[:, k], expected, nodes)
    assert (expected[:, 0] >= 0).sum() > 500 or shape == "point"


@tg.kernel
def count_hits(mesh: tg.Mesh, start: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], count: tg.array1d[int]):
    i = tg.tid()
    hit = lang._traverse_compact(mesh, start[i], dir[i], tg.inf, -1, COUNT)
    count[i] = hit.count


def test_a_path_of_all_levels_fits_the_stack() -> None:
    """Each node has the next node as its first child and a leaf as its second child, which is visited last."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    points = np.concatenate([corners + np.array([0, 0, k / LEVELS]) for k in range(LEVELS)])
    mesh = mesh_of(points, np.arange(3 * LEVELS).reshape(-1, 3))
    words = np.zeros((LEVELS + 1, COMPACT), np.int32)
    words[:, :4] = np.array([-1, -1, -1, 64 * UNIT], np.float32).view(np.int32)
    data = words.view(np.uint8)
    bounds = data[:, COMPACT_X:COMPACT_CHILDREN].reshape(-1, 3, WIDTH, 2)
    bounds[..., 0], bounds[:, :, :2, 1] = np.where(np.arange(WIDTH) < 2, 0, 255), 255
    words[1:LEVELS, COMPACT_CHILDREN // 4] = np.arange(2, LEVELS + 1)
    words[1:, COMPACT_CHILDREN // 4 + 1] = -1 - np.arange(LEVELS)
    data[1:, COMPACT_COUNTS + 1] = 1
    mesh._bvh.compact = tg.array(words.reshape(-1))
    mesh.publish()
    start, dir = vectors([[0.2, 0.2, -1], [0.2, 0.2, 0.51], [3, 0.2, -1]]), vectors([[0.001, 0.001, 1]] * 3)
    count = tg.zeros(3, dtype=int)
    tg.launch(count_hits, 3, [mesh, start, dir], [count])
    assert count.numpy().tolist() == [LEVELS, LEVELS // 2 - 1, 0]


def bounds_of(mesh: tg.Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The bounds of the children of all nodes (node, side, axis, child), in nodes and in compact nodes, in float64; the
    step of the grid of each node; and the children."""
    count, compact_nodes = sum(n for _, n in mesh._bvh.levels()), mesh._bvh.compact
    assert compact_nodes is not None
    words = mesh._bvh.node_words.numpy().reshape(-1, NODE)[1 : 1 + count]
    raw = compact_nodes.numpy().reshape(-1, COMPACT)[1 : 1 + count].copy()
    exact = words.view(np.float32)[:, : 2 * UPPER // 4].reshape(-1, 2, 3, WIDTH).astype(np.float64)
    steps = raw.view(np.uint8)[:, COMPACT_X:COMPACT_CHILDREN].reshape(count, 3, WIDTH, 2)
    steps = steps.transpose(0, 3, 1, 2).astype(np.float64)
    origin, step = np.split(raw.view(np.float32)[:, :4].astype(np.float64), [3], 1)
    step = UNIT / step[:, 0]
    np.testing.assert_array_equal(raw[:, COMPACT_CHILDREN // 4 :][:, :8], words[:, 48:56])
    return exact, origin[:, None, :, None] + steps * step[:, None, None, None], step, words[:, 48:56]


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e22])
def test_bounds_of_compact_nodes_contain_the_children(scale: float) -> None:
    points, faces = soup(300)
    points = (points * (scale / 6)).astype(np.float32)
    points[5] = np.nan
    points[300:360, 2] = points[300, 2]
    mesh = with_compact_nodes(mesh_of(points, faces, bvh_leaf_size=1))
    exact, coarse, step, children = bounds_of(mesh)
    has_box = exact[:, 0] <= exact[:, 1]
    step = np.broadcast_to(step[:, None, None], has_box.shape)
    low, high = exact[:, 0] - coarse[:, 0], coarse[:, 1] - exact[:, 1]
    # Steps are rounded to float32.
    margin = (0.375 - 2.0**-14) * step
    assert (low >= margin)[has_box].all() and (high >= margin)[has_box].all()
    assert (low <= 1.4 * step)[has_box].all() and (high <= 1.4 * step)[has_box].all()
    assert (coarse[:, 0] > coarse[:, 1])[~has_box].all()
    width = (np.nanmax(exact[:, 1], 2) - np.nanmin(exact[:, 0], 2)).max(1)
    magnitude = np.nanmax(np.abs(exact), (1, 2, 3))
    assert (
        step[:, 0, 0] <= np.maximum.reduce([width / 252, magnitude * 2.0**-21, 0 * width + 2.0**-59])
    ).all()
    assert (children != 0)[has_box.all(1)].all()
