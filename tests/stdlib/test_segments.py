"""Distances of edges, and intersections of triangles, against float64 and against exact integers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import tegula as tg
from tegula.autograd import gradcheck

pytestmark = pytest.mark.machine_code


@tg.kernel
def closest(ends, epsilon, actual):
    i = tg.tid()
    actual[i] = tg.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], epsilon[0])


def edges(ends: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    """(s, t, d) of pairs of edges [pair, p1 q1 p2 q2, 3]."""
    t = tg.vec3 if ends.dtype == np.float32 else tg.vec3d
    result = tg.zeros(len(ends), t)
    tg.launch(
        closest, len(ends), [tg.array(ends, dtype=t), tg.array(np.array([epsilon], ends.dtype))], [result]
    )
    return result.numpy()


def distance(p1: np.ndarray, q1: np.ndarray, p2: np.ndarray, q2: np.ndarray) -> float:
    """The distance of two segments: of an end and a segment, or of points inside both."""

    def of_point(x: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
        d = q - p
        s = 0.0 if not d.any() else np.clip((x - p) @ d / (d @ d), 0, 1)
        return float(np.linalg.norm(x - p - s * d))

    best = min(of_point(p1, p2, q2), of_point(q1, p2, q2), of_point(p2, p1, q1), of_point(q2, p1, q1))
    d1, d2 = q1 - p1, q2 - p2
    system = np.array([[d1 @ d1, -d1 @ d2], [-d1 @ d2, d2 @ d2]])
    if abs(np.linalg.det(system)) > 1e-12 * system[0, 0] * system[1, 1]:
        s, t = np.linalg.solve(system, [d1 @ (p2 - p1), d2 @ (p1 - p2)])
        if 0 <= s <= 1 and 0 <= t <= 1:
            best = min(best, float(np.linalg.norm(p1 + s * d1 - p2 - t * d2)))
    return best


def pairs(seed: int) -> np.ndarray:
    """Pairs of edges: random, parallel, nearly parallel, with a common end, and of length 0."""
    rng = np.random.default_rng(seed)
    ends = rng.standard_normal((400, 4, 3))
    along = ends[:, 1] - ends[:, 0]
    ends[80:160, 3] = (ends[:, 2] + rng.uniform(-2, 2, (400, 1)) * along)[80:160]
    ends[160:240, 3] = (ends[:, 2] + along + 1e-4 * rng.standard_normal((400, 3)))[160:240]
    ends[240:300, 2] = ends[240:300, 1]
    ends[300:340, 1], ends[320:380, 3] = ends[300:340, 0], ends[320:380, 2]
    return ends


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_of_edges_match_their_closest_points(dtype: type) -> None:
    ends = pairs(1).astype(dtype)
    s, t, d = edges(ends, 1e-12).T.astype(np.float64)
    p1, q1, p2, q2 = np.moveaxis(ends.astype(np.float64), 1, 0)
    expected = [distance(*pair) for pair in ends.astype(np.float64)]
    tolerance = 4e-6 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(d, expected, atol=tolerance)
    gap = p1 + s[:, None] * (q1 - p1) - p2 - t[:, None] * (q2 - p2)
    np.testing.assert_allclose(np.linalg.norm(gap, axis=1), d, atol=tolerance)
    assert (s >= 0).all() and (s <= 1).all() and (t >= 0).all() and (t <= 1).all()


def test_edges_without_length_are_points() -> None:
    ends = np.array([[[0, 0, 0], [0.001, 0, 0], [0, 1, 0], [1, 0, 0]]] * 2, np.float32)
    ends[1] = ends[1, [2, 3, 0, 1]]
    np.testing.assert_allclose(edges(ends)[:, :2], [[0, 0.5], [0.5, 0]], atol=1e-6)
    degenerate = np.array([[[0, 0, 0]] * 2 + [[2, 0, 0]] * 2], np.float32)
    assert edges(degenerate).tolist() == [[0, 0, 2]]


def test_gradients_of_edge_distances_are_correct() -> None:
    ends = np.random.default_rng(5).standard_normal((40, 4, 3))
    actual = edges(ends)
    decidable = ~((np.abs(actual[:, :2]) < 0.02) & (actual[:, :2] != 0)).any(1) & (actual[:, 2] > 0.1)
    decidable &= ~((np.abs(actual[:, :2] - 1) < 0.02) & (actual[:, :2] != 1)).any(1)
    assert len({tuple(np.sign([s * (1 - s), t * (1 - t)])) for s, t, _ in actual[decidable]}) == 4
    a = tg.array(ends[decidable], dtype=tg.vec3d, requires_grad=True)
    out = tg.zeros(len(a), tg.vec3d, requires_grad=True)
    assert gradcheck(closest, len(a), [a, tg.array(np.array([1e-9]))], [out])


def test_gradients_of_nearly_parallel_edges_are_bounded() -> None:
    ends = tg.array(pairs(2)[80:240].astype(np.float32), dtype=tg.vec3, requires_grad=True)
    actual = tg.zeros(160, tg.vec3, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(closest, 160, [ends, tg.array(np.float32([1e-5]))], [actual])
    actual.grad.fill_(tg.vec3(0, 0, 1))
    tape.backward()
    assert np.isfinite(ends.grad.numpy()).all() and np.abs(ends.grad.numpy()).max() <= 1 + 1e-5


# Triangles ------------------------------------------------------------------------------------------------------------


@tg.kernel
def intersects(v, actual: tg.array[tg.int32]):
    i = tg.tid()
    actual[i] = tg.intersect_tri_tri(v[i, 0], v[i, 1], v[i, 2], v[i, 3], v[i, 4], v[i, 5])


def triangles(v: np.ndarray) -> np.ndarray:
    t = tg.vec3 if v.dtype == np.float32 else tg.vec3d
    result = tg.zeros(len(v), tg.int32)
    tg.launch(intersects, len(v), [tg.array(v, dtype=t)], [result])
    return result.numpy()


def volume(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> int:
    return int(np.sign(np.cross(b - a, c - a) @ (d - a)))


def has_edge_in(p: np.ndarray, q: np.ndarray, tri: np.ndarray) -> bool:
    """Whether a segment and a triangle with an area, of integers, have a common point."""
    a, b, c = tri
    above, below = volume(a, b, c, p), volume(a, b, c, q)
    if above * below > 0:
        return False
    if above or below:
        sides = {volume(p, q, x, y) for x, y in ((a, b), (b, c), (c, a))} - {0}
        return len(sides) <= 1
    k = np.argmax(np.abs(np.cross(b - a, c - a)))
    flat = [np.delete(x, k) for x in (p, q, a, b, c)]

    def side(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> int:
        u, v = y - x, z - x
        return int(np.sign(u[0] * v[1] - u[1] * v[0]))

    def within(x: np.ndarray) -> bool:
        return len({side(u, v, x) for u, v in zip(flat[2:], [*flat[3:], flat[2]], strict=True)} - {0}) <= 1

    def cross(u: np.ndarray, v: np.ndarray) -> bool:
        p, q = flat[:2]
        if side(p, q, u) == side(p, q, v) == 0:
            return bool(
                (np.minimum(p, q) <= np.maximum(u, v)).all() and (np.minimum(u, v) <= np.maximum(p, q)).all()
            )
        return side(p, q, u) * side(p, q, v) <= 0 and side(u, v, p) * side(u, v, q) <= 0

    return within(flat[0]) or within(flat[1]) or any(cross(u, v) for u, v in combinations(flat[2:], 2))


def intersecting(v: np.ndarray) -> bool:
    pieces = ((v[:3], v[3:]), (v[3:], v[:3]))
    return any(
        has_edge_in(p, q, second_piece)
        for first_piece, second_piece in pieces
        for p, q in combinations(first_piece, 2)
    )


@pytest.mark.parametrize("flat", [False, True])
def test_intersections_of_integer_triangles_are_exact(flat: bool) -> None:
    """Many triangles have no more than a common point or edge; `flat`: all triangles are in one plane."""
    v = np.random.default_rng(3).integers(-2, 3, (700, 6, 3))
    if flat:
        v[..., 2] = v[..., 0] - 2 * v[..., 1]
    area = np.cross(v[:, [1, 4]] - v[:, [0, 3]], v[:, [2, 5]] - v[:, [0, 3]]).any(-1).all(-1)
    v = v[area]
    expected = [intersecting(x) for x in v]
    assert 0.2 < np.mean(expected) < 0.95
    np.testing.assert_array_equal(triangles(v.astype(np.float32)), expected)
    np.testing.assert_array_equal(triangles(v.astype(np.float64)), expected)


def test_triangles_without_area_are_segments_and_points() -> None:
    tri = [[0, 0, 0], [4, 0, 0], [0, 4, 0]]
    triangles_with_result = {
        ((1, 1, -1), (1, 1, 1), (1, 1, 0)): 1,
        ((3, 3, -1), (3, 3, 1), (3, 3, 0)): 0,
        ((1, 1, 0),) * 3: 1,
        ((3, 3, 0),) * 3: 0,
        ((1, 1, 1),) * 3: 0,
        ((3, 2, 0), (2, 3, 0), (2, 3, 0)): 0,
        ((3, 1, 0), (2, 3, 0), (2, 3, 0)): 1,
    }
    segments = {
        (((0, 0, 0), (1, 0, 0)), ((2, 0, 0), (3, 0, 0))): 0,
        (((0, 0, 0), (2, 0, 0)), ((1, 0, 0), (3, 0, 0))): 1,
        (((0, 0, 0), (2, 0, 0)), ((0, 1, 0), (2, 1, 0))): 0,
        (((0, 0, 0), (2, 0, 0)), ((1, -1, 0), (1, 1, 0))): 1,
        (((0, 0, 0), (2, 0, 0)), ((3, -1, 0), (3, 1, 0))): 0,
        (((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (1, 1, 1))): 1,
        (((1, 1, 1), (1, 1, 1)), ((1, 1, 2), (1, 1, 2))): 0,
    }
    v = [[*tri, *x] for x in triangles_with_result] + [[p, q, q, r, s, s] for (p, q), (r, s) in segments]
    expected = [*triangles_with_result.values(), *segments.values()]
    np.testing.assert_array_equal(triangles(np.array(v, np.float32)), expected)
    np.testing.assert_array_equal(triangles(np.array(v, np.float32)[:, [3, 4, 5, 0, 1, 2]]), expected)
    missing = np.array([[*tri, *tri]] * 6, np.float32)
    missing[np.arange(6), np.arange(6), 1] = np.nan
    assert not triangles(missing).any()
