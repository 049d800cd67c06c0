"""Hierarchies, which CPUs build bottom-up: the structure for degenerate scenes, and the quality."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, soup, sphere, vectors
from tegula.spatial.agglomerate import CHUNK
from tegula.spatial.bvh import Bvh
from tegula.stdlib.geometry.layout import CHILDREN, COUNTS, LEVELS, NODE_BYTES, UPPER, WIDTH

pytestmark = pytest.mark.machine_code
SCENES = ("equal", "few equal", "chain", "nested", "huge", "tiny", "no box", "some boxes", "line", "plain")


def boxes(scene: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The corners of boxes; NaN or in the wrong order for some of them in scenes with holes."""
    rng = np.random.default_rng(count)
    low = rng.random((count, 3))
    high = low + 0.1 * rng.random((count, 3))
    if scene in ("equal", "few equal"):
        low = low[: 1 if scene == "equal" else 3][np.arange(count) % (1 if scene == "equal" else 3)]
        high = low + 1
    elif scene == "chain":
        # The nearest neighbour of each box is the next smaller box.
        low = np.exp2(-np.arange(count) % 200)[:, None] * np.array([[1.0, 2.0, 3.0]])
        high = low * 1.01
    elif scene == "nested":
        low, high = (
            -np.arange(1, count + 1)[:, None] * np.ones(3),
            np.arange(1, count + 1)[:, None] * np.ones(3),
        )
    elif scene == "huge":
        low, high = low * 1e38, high * 1e38
    elif scene == "tiny":
        low, high = low * 1e-38, high * 1e-38
    elif scene == "no box":
        low = low * np.nan
    elif scene == "some boxes":
        low[::3, 1], high[1::3, 2] = np.nan, -1
    elif scene == "line":
        low[:, 1:] = high[:, 1:] = 0.5
    return low.astype(np.float32), high.astype(np.float32)


class Tree:
    """The nodes of a hierarchy, in NumPy: words and bounds by node, child and axis."""

    def __init__(self, bvh: Bvh) -> None:
        words = bvh.node_words.numpy().reshape(-1, NODE_BYTES // 4)[: 1 + sum(n for _, n in bvh.levels())]
        self.children = words[:, CHILDREN // 4 : CHILDREN // 4 + WIDTH]
        counts = np.ascontiguousarray(words[:, COUNTS // 4 : COUNTS // 4 + WIDTH // 4])
        self.counts = counts.view(np.uint8).reshape(-1, WIDTH)
        bounds = words.view(np.float32)[:, : 2 * UPPER // 4].reshape(-1, 2, 3, WIDTH)
        self.low, self.high = bounds[:, 0].swapaxes(1, 2), bounds[:, 1].swapaxes(1, 2)
        items = bvh._items.numpy()
        self.items = items[: len(items) - bvh.node_limit]
        self.item = np.ascontiguousarray(self.items[:, 6]).view(np.int32)

    def leaves(self) -> Iterator[tuple[int, int, range]]:
        """The node, the child and the range of items of each leaf."""
        pending = [1]
        while pending:
            node = pending.pop()
            for k in range(WIDTH):
                child = int(self.children[node, k])
                if child > 0:
                    pending.append(child)
                elif child < 0:
                    yield node, k, range(-1 - child, -1 - child + int(self.counts[node, k]))

    def cost(self) -> float:
        """The expected number of nodes that a random line through the root visits."""
        extent = np.maximum(np.nan_to_num(self.high - self.low), 0)
        area = (
            extent[..., 0] * extent[..., 1]
            + extent[..., 1] * extent[..., 2]
            + extent[..., 2] * extent[..., 0]
        )
        root_extent = np.nanmax(self.high[1], 0) - np.nanmin(self.low[1], 0)
        total = (
            root_extent[0] * root_extent[1]
            + root_extent[1] * root_extent[2]
            + root_extent[2] * root_extent[0]
        )
        return 1 + float(area[1:][self.children[1:] > 0].sum() / total)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(("count", "leaf"), [(1, 1), (8, 1), (9, 1), (700, 1), (CHUNK + 1, 3), (5000, 255)])
def test_each_item_is_in_one_leaf_within_its_bounds(scene: str, count: int, leaf: int) -> None:
    low, high = boxes(scene, count)
    bvh = tg.Bvh(vectors(low), vectors(high), leaf_size=leaf)
    tree = Tree(bvh)
    assert len(bvh.levels()) <= LEVELS
    is_valid = (low <= high).all(1)
    visited = []
    for node, k, slots in tree.leaves():
        assert 1 <= len(slots) <= leaf
        items = tree.item[slots.start : slots.stop]
        visited += items.tolist()
        for item in items[is_valid[items]]:
            assert (tree.low[node, k] <= low[item]).all() and (tree.high[node, k] >= high[item]).all()
    assert sorted(visited) == list(range(count))
    rows = np.arange(1, len(tree.children))
    for axis in range(3):
        union_low, union_high = (
            reduce(x[..., axis], 1) for reduce, x in ((np.fmin.reduce, tree.low), (np.fmax.reduce, tree.high))
        )
        for node in rows:
            inner = tree.children[node] > 0
            children = tree.children[node][inner]
            np.testing.assert_array_equal(tree.low[node, inner, axis], union_low[children])
            np.testing.assert_array_equal(tree.high[node, inner, axis], union_high[children])


def test_equal_builds_give_equal_trees() -> None:
    low, high = boxes("plain", 3 * CHUNK)
    first, second = (Tree(tg.Bvh(vectors(low), vectors(high))) for _ in range(2))
    np.testing.assert_array_equal(first.children[1:], second.children[1:])
    np.testing.assert_array_equal(first.item, second.item)


def test_builds_of_several_threads_and_sizes_do_not_share_memory(on_device: str) -> None:
    """The memory of a build is kept for the next build of as many boxes, in whichever thread."""
    scenes = [boxes("plain", count) for count in (1500, 900, 1500, 40, 1500, 900)]

    def built(scene: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        with tg.ScopedDevice(on_device):
            tree = Tree(tg.Bvh(vectors(scene[0]), vectors(scene[1])))
        return tree.children[1:], tree.item

    expected = [built(scene) for scene in scenes]
    with ThreadPoolExecutor(4) as threads:
        for k, (children, item) in enumerate(threads.map(built, 4 * scenes)):
            np.testing.assert_array_equal(children, expected[k % len(scenes)][0])
            np.testing.assert_array_equal(item, expected[k % len(scenes)][1])


@pytest.mark.cpu
@pytest.mark.parametrize("scene", ["sphere", "soup"])
def test_bottom_up_trees_cost_about_as_much_as_top_down_trees(scene: str) -> None:
    points, faces = sphere(5, 0.2) if scene == "sphere" else soup(8000)
    default, top_down, median = (
        Tree(mesh_of(points, faces, bvh_constructor=name)._bvh).cost() for name in (None, "sah", "median")
    )
    assert default < 1.1 * top_down
    assert top_down < median


def test_rebuilds_have_room_for_more_nodes_than_the_first_build() -> None:
    low, high = boxes("no box", 2000)
    bvh = tg.Bvh(vectors(low), vectors(high))
    for scene in ("chain", "plain", "equal"):
        low, high = boxes(scene, 2000)
        bvh.lowers.assign(low)
        bvh.uppers.assign(high)
        bvh.rebuild()
        tree = Tree(bvh)
        items = [tree.item[slots.start : slots.stop] for _, _, slots in tree.leaves()]
        assert sorted(np.concatenate(items).tolist()) == list(range(2000))
