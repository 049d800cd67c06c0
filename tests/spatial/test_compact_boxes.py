"""The test of a compact node's children against intervals in float64: a child whose box a ray hits is never missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import vectors
from tegula.spatial import compact
from tegula.spatial.boxes import NODE
from tegula.spatial.compact import COMPACT, write_compact
from tegula.stdlib.geometry.layout import COMPACT_BYTES, LEVELS, UPPER, WIDTH

pytestmark = [pytest.mark.machine_code, pytest.mark.cpu]
lang: Any = tg


@tg.kernel
def enter(
    nodes: tg.uint64,
    boxes: tg.uint64,
    start: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    limit: tg.array1d[float],
    mask: tg.array1d[tg.uint32],
):
    i = tg.tid()
    ray = lang._compact_ray(nodes, start[i], dir[i])
    node = boxes + tg.uint64(i + 1) * tg.uint64(COMPACT_BYTES)
    hits = lang._entered_compact_children(ray, node, limit[i])
    mask[i] = lang._order_by_octant(hits, ray.order & (WIDTH - 1))


def boxes_of(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The lower and upper bounds (node, child, axis) of the children of nodes of all sizes and places in a scene, some
    of them flat, some with the children's bounds in common; and the size of the scene."""
    rng = np.random.default_rng(seed)
    scene = 2.0 ** rng.uniform(-20, 20)
    size = scene * 2.0 ** rng.uniform(-18, 1, (count, 1, 1))
    flatness = 2.0 ** -(rng.uniform(0, 1, (count, 1, 3)) ** 3 * 24)
    centre = rng.uniform(-0.6, 0.6, (count, 1, 3)) * scene
    shape = (count, WIDTH, 3)
    first = rng.integers(0, 9, shape) / 8.0 if seed % 2 else rng.uniform(0, 1, shape)
    last = first + rng.uniform(0, 0.4, shape) * rng.integers(0, 2, shape)
    low, high = ((centre + size * flatness * (x - 0.5)).astype(np.float32) for x in (first, last))
    return np.clip(low, -scene, scene), np.clip(np.maximum(low, high), -scene, scene), scene


def rays_to(
    seed: int, low: np.ndarray, high: np.ndarray, scene: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each node a ray to a point of a child, often on the child's boundary, with a limit that is often the distance
    of the point."""
    rng, count = np.random.default_rng(seed + 1000), len(low)
    child, node = rng.integers(0, WIDTH, count), np.arange(count)
    place = rng.uniform(0, 1, (count, 3))
    place = np.where(rng.random((count, 3)) < 0.4, np.round(place), place)
    a, b = (x[node, child].astype(np.float64) for x in (low, high))
    target = a + (b - a) * place
    slopes = rng.uniform(0, 1, (count, 3)) ** 2 * rng.choice([0, 2, 13, 30, 100], (count, 1))
    dir = rng.standard_normal((count, 3)) * 2.0**-slopes * (rng.random((count, 3)) > 0.08)
    dir /= np.abs(dir).max(1, keepdims=True) + 1e-300
    distance = scene * 2.0 ** rng.uniform(-18, 3, (count, 1)) * rng.choice([1, 1, 1, 0], (count, 1))
    start = (target - dir * distance).astype(np.float32)
    dir = (dir * 2.0 ** rng.uniform(-30, 30, (count, 1))).astype(np.float32)
    squared = np.maximum((dir.astype(np.float64) ** 2).sum(1), 1e-300)
    at = np.maximum(((target - start) * dir).sum(1) / squared, 0)
    limit = np.where(rng.random(count) < 0.5, at, np.where(rng.random(count) < 0.5, 1e30, at * 1.5))
    return start, dir, limit.astype(np.float32)


def hit_boxes(
    low: np.ndarray, high: np.ndarray, start: np.ndarray, dir: np.ndarray, limit: np.ndarray
) -> np.ndarray:
    """Whether rays hit the closed boxes (node, child)."""
    s, d = start.astype(np.float64)[:, None], dir.astype(np.float64)[:, None]
    a, b = ((x.astype(np.float64) - s) / d for x in (low, high))
    inside = (low <= s) & (s <= high)
    first = np.where(d == 0, np.where(inside, -np.inf, np.inf), np.minimum(a, b))
    last = np.where(d == 0, np.where(inside, np.inf, -np.inf), np.maximum(a, b))
    return np.maximum(first.max(2), 0) <= np.minimum(last.min(2), limit.astype(np.float64)[:, None])


def entered(seed: int, count: int, write: tg.Kernel = write_compact) -> tuple[np.ndarray, np.ndarray]:
    """Whether each child is entered, and whether the ray hits the child's box, both (ray, child)."""
    low, high, scene = boxes_of(seed, count)
    nodes = np.zeros((count + 1, NODE), np.float32)
    nodes[0, :6] = [-scene] * 3 + [scene] * 3
    nodes[1:, : 2 * UPPER // 4] = np.stack([low, high], 1).transpose(0, 1, 3, 2).reshape(count, -1)
    counts = np.zeros(LEVELS + 1, np.int32)
    counts[0] = count
    device_nodes, written = tg.array(nodes.reshape(-1)), tg.empty((count + 1) * COMPACT, dtype=tg.int32)
    words = tg.array(nodes.reshape(-1).view(np.int32))
    pairs = tg.array(ptr=written.ptr, dtype=tg.uint16, shape=2 * len(written))
    threads = WIDTH * 64
    tg.launch(write, threads, [device_nodes, words, tg.array(counts), threads, pairs, written], block_dim=256)
    start, dir, limit = rays_to(seed, low, high, scene)
    with np.errstate(all="ignore"):
        truth = hit_boxes(low, high, start, dir, limit) & (dir != 0).any(1)[:, None]
    mask = tg.zeros(count, dtype=tg.uint32)
    inputs = [device_nodes.ptr, written.ptr, vectors(start), vectors(dir), tg.array(limit)]
    tg.launch(enter, count, inputs, [mask])
    return (mask.numpy()[:, None] >> np.arange(WIDTH)) & 1 != 0, truth


@pytest.mark.parametrize("seed", range(4))
def test_children_that_a_ray_hits_are_entered(seed: int) -> None:
    actual, truth = entered(seed, 4000)
    assert (actual | ~truth).all() and truth.sum() > 1000
    assert (~actual).mean() > 0.25


def test_bounds_that_are_not_displaced_miss_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounding of float16 is larger than that of float32."""
    monkeypatch.setattr(compact, "BOUND_MARGIN", -0.25)
    write = tg.Kernel(write_compact.definition)
    missed = [(truth & ~actual).sum() for actual, truth in (entered(seed, 4000, write) for seed in range(2))]
    assert sum(missed) > 0
