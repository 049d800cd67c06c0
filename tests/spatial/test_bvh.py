"""Queries of bounding volume hierarchies, against all boxes in float64."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, soup
from support.campaigns import sampled, slow_except
from tegula.spatial.buckets import are_scattered, find_buckets
from tegula.spatial.bvh import REFITS_BEFORE_BUCKETS
from tegula.spatial.mesh import write_faces
from tegula.spatial.refit_gpu import fit_level, gather_items, write_boxes
from tegula.stdlib.geometry.layout import CHILDREN, MIDDLE, NODE_BYTES, PARENT, WIDTH

pytestmark = pytest.mark.machine_code(some=True)

CONSTRUCTORS = ("sah", "median", "lbvh", "cubql")


@tg.kernel
def query_box(
    id: tg.uint64, low: tg.array1d[tg.vec3], high: tg.array1d[tg.vec3], out: tg.array2d[int], root: int
):
    t = tg.tid()
    query = tg.bvh_query_aabb(id, low[t], high[t], root)
    i = 0
    while tg.bvh_query_next(query, i):
        out[t, i] += 1


@tg.kernel
def query_ball(id: tg.uint64, centre: tg.array1d[tg.vec3], radius: float, out: tg.array2d[int]):
    t = tg.tid()
    query = tg.bvh_query_sphere(id, centre[t], radius)
    i = 0
    while tg.bvh_query_next(query, i):
        out[t, i] += 1


@tg.kernel
def query_ray(
    id: tg.uint64,
    start: tg.array1d[tg.vec3],
    dir: tg.array1d[tg.vec3],
    radius: float,
    far: float,
    out: tg.array2d[int],
):
    t = tg.tid()
    query = tg.bvh_query_capsule(id, start[t], dir[t], radius)
    i = 0
    while tg.bvh_query_next(query, i, far):
        out[t, i] += 1


def boxes(count: int, seed: int = 0, size: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.random((count, 3)).astype(np.float32) * 5
    return low, low + rng.random((count, 3)).astype(np.float32) * np.float32(size)


def vectors(data: np.ndarray) -> tg.array:
    return tg.array(np.asarray(data, np.float32), dtype=tg.vec3)


def bvh_of(low: np.ndarray, high: np.ndarray, **options: object) -> tg.Bvh:
    return tg.Bvh(vectors(low), vectors(high), **options)


def query_overlaps(
    bvh: tg.Bvh, low: np.ndarray, high: np.ndarray, root: int = -1, block_dim: int = 256
) -> np.ndarray:
    out = tg.zeros((len(low), len(bvh.lowers)), dtype=int)
    inputs = [bvh.id, vectors(low), vectors(high), out, root]
    tg.launch(query_box, dim=len(low), inputs=inputs, block_dim=block_dim)
    return out.numpy()


def overlapping(
    low: np.ndarray, high: np.ndarray, query_low: np.ndarray, query_high: np.ndarray
) -> np.ndarray:
    return ((low[None] <= query_high[:, None]) & (high[None] >= query_low[:, None])).all(axis=2).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_bvh_queries_find_each_overlapping_box_once(constructor: str) -> None:
    query_low, query_high = boxes(20, 1, 2.0)
    for count in (1, 2, 8, 9, 300):
        for leaf in (1, 4):
            low, high = boxes(count)
            bvh = bvh_of(low, high, constructor=constructor, leaf_size=leaf)
            np.testing.assert_array_equal(
                query_overlaps(bvh, query_low, query_high), overlapping(low, high, query_low, query_high)
            )


def test_bvhs_of_close_keys_are_not_too_deep() -> None:
    """Boxes whose distances from a corner are powers of two, and thousands of equal boxes."""
    low = np.zeros((5000, 3), np.float32)
    low[:70] = 2.0 ** -np.arange(70)[:, None]
    low[70:140, 1] = 2.0 ** -np.arange(70)
    bvh = bvh_of(low, low, constructor="lbvh")
    counts = [count for _, count in bvh.levels()]
    assert sum(counts) < bvh.node_limit and len(counts) <= 21 + 5
    query_low, query_high = low[:140:7], low[:140:7] * 2
    np.testing.assert_array_equal(
        query_overlaps(bvh, query_low, query_high), overlapping(low, low, query_low, query_high)
    )


@pytest.mark.parametrize("constructor", ["sah", "lbvh"])
def test_nodes_are_numbered_in_the_order_of_their_parents(constructor: str) -> None:
    bvh = bvh_of(*boxes(3000), constructor=constructor)
    levels = bvh.levels()
    nodes = bvh.node_words.numpy().reshape(-1, NODE_BYTES // 4)[: sum(levels[-1])]
    children = nodes[1:, CHILDREN // 4 : CHILDREN // 4 + WIDTH]
    parents = np.repeat(np.arange(1, len(nodes)), (children > 0).sum(1))
    assert children[children > 0].tolist() == list(range(2, len(nodes)))
    assert nodes[2:, PARENT // 4].tolist() == parents.tolist()
    assert [first for first, _ in levels] == [
        1,
        *(int(np.searchsorted(parents, f)) + 2 for f, _ in levels[:-1]),
    ]


@pytest.mark.parametrize("block_dim", slow_except({1}, [1, 3, 32, 100]))
def test_bvh_queries_do_not_depend_on_the_block(block_dim: int) -> None:
    low, high = boxes(100)
    query_low, query_high = boxes(50, 1, 2.0)
    actual = query_overlaps(bvh_of(low, high), query_low, query_high, block_dim=block_dim)
    np.testing.assert_array_equal(actual, overlapping(low, high, query_low, query_high))


def test_balls_find_boxes_with_a_point_inside() -> None:
    low, high = boxes(200)
    centre = np.random.default_rng(1).random((30, 3)).astype(np.float32) * 5
    out = tg.zeros((30, 200), dtype=int)
    bvh = bvh_of(low, high)
    tg.launch(query_ball, dim=30, inputs=[bvh.id, vectors(centre), 0.7, out])
    c, a, b = centre.astype(np.float64)[:, None], low.astype(np.float64), high.astype(np.float64)
    distance = np.linalg.norm(c - np.clip(c, a, b), axis=2)
    assert (np.abs(distance - 0.7) > 1e-6).all()
    np.testing.assert_array_equal(out.numpy(), distance <= 0.7)


@pytest.mark.parametrize("radius", [0.0, 0.25])
def test_rays_find_the_boxes_that_they_intersect(radius: float) -> None:
    low, high = boxes(200)
    rng = np.random.default_rng(1)
    start = rng.random((60, 3)).astype(np.float32) * 5
    dir = rng.standard_normal((60, 3)).astype(np.float32)
    dir[np.arange(20), rng.integers(0, 3, 20)] = 0.0
    out = tg.zeros((60, 200), dtype=int)
    far = 0.75
    bvh = bvh_of(low, high)
    tg.launch(query_ray, dim=60, inputs=[bvh.id, vectors(start), vectors(dir), radius, far, out])
    entry, exit = interval(start, dir, low - radius, high + radius)
    clear = np.abs(np.minimum(exit, far) - np.maximum(entry, 0)) > 1e-5
    hit = np.maximum(entry, 0) <= np.minimum(exit, far)
    np.testing.assert_array_equal(out.numpy()[clear], hit[clear])
    assert (out.numpy() >= (hit & ~clear)).all()


def interval(
    start: np.ndarray, dir: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where rays enter and leave boxes, in float64; a ray in the plane of a face is inside."""
    o, d = start.astype(np.float64)[:, None], dir.astype(np.float64)[:, None]
    with np.errstate(all="ignore"):
        a, b = (low.astype(np.float64) - o) / d, (high.astype(np.float64) - o) / d
    entry, exit = np.fmin(a, b), np.fmax(a, b)
    is_parallel = np.broadcast_to(d == 0, entry.shape)
    inside = (o >= low) & (o <= high)
    entry = np.where(is_parallel, np.where(inside, -np.inf, np.inf), entry)
    exit = np.where(is_parallel, np.where(inside, np.inf, -np.inf), exit)
    return entry.max(axis=2), exit.min(axis=2)


def test_rays_along_faces_edges_and_corners_find_boxes() -> None:
    low, high = np.zeros((1, 3)), np.ones((1, 3))
    start = [[x, y, -1] for x in (0, 0.5, 1) for y in (0, 0.5, 1)] + [[1, 1, 2], [2, 1, 1], [0, 0, 0]]
    dir = [[0, 0, 1]] * 9 + [[0, 0, -1], [-1, -0.0, 0.0], [0, 0, -1]]
    out = tg.zeros((12, 1), dtype=int)
    bvh = bvh_of(low, high)
    tg.launch(query_ray, dim=12, inputs=[bvh.id, vectors(start), vectors(dir), 0.0, 1e9, out])
    assert out.numpy()[:, 0].tolist() == [1] * 12


def test_boxes_without_points_are_never_found() -> None:
    low, high = boxes(20)
    low[3, 1], high[5, 2], low[7, 0] = np.nan, np.nan, high[7, 0] + 1
    low[9], high[9] = np.inf, -np.inf
    bvh = bvh_of(low, high)
    everything = np.full((1, 3), -np.inf), np.full((1, 3), np.inf)
    actual = query_overlaps(bvh, *everything)
    assert np.flatnonzero(actual[0] == 0).tolist() == [3, 5, 7, 9] and actual.max() == 1
    start, dir = np.full((1, 3), 2.0), np.array([[0.0, 0.0, 0.0]])
    out = tg.zeros((1, 20), dtype=int)
    tg.launch(query_ray, dim=1, inputs=[bvh.id, vectors(start), vectors(dir), 0.0, 1e9, out])
    tg.launch(query_box, dim=1, inputs=[bvh.id, vectors(start * np.nan), vectors(start), out, -1])
    tg.launch(query_ball, dim=1, inputs=[bvh.id, vectors(start * np.nan), 1.0, out])
    assert out.numpy().sum() == 0


@pytest.mark.parametrize("scene", ["equal", "far apart", "huge", "tiny", "needles"])
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_bvhs_of_degenerate_scenes_are_built(scene: str, constructor: str) -> None:
    low, high = boxes(500)
    if scene == "equal":
        low[:], high[:] = 1, 2
    elif scene == "far apart":
        low[:, 0] = np.exp(np.linspace(-70, 0, 500))
        high[:, 0] = low[:, 0] * np.float32(1.001)
    elif scene in ("huge", "tiny"):
        low, high = (x * np.float32(1e30 if scene == "huge" else 1e-30) for x in (low, high))
    else:
        high = low.copy()
        high[:, 0] += 3
    bvh = bvh_of(low, high, constructor=constructor)
    np.testing.assert_array_equal(query_overlaps(bvh, low, high), overlapping(low, high, low, high))


def test_an_empty_bvh_finds_no_box() -> None:
    bvh = bvh_of(np.zeros((0, 3)), np.zeros((0, 3)))
    query_low, query_high = boxes(3)
    assert query_overlaps(bvh, query_low, query_high).shape == (3, 0)
    bvh.refit()
    bvh.rebuild()


def test_refit_and_rebuild_find_boxes_that_moved() -> None:
    low, high = boxes(200)
    query_low, query_high = boxes(20, 1, 2.0)
    bvh = bvh_of(low, high)
    for seed, update in ((2, bvh.refit), (3, bvh.rebuild), (4, lambda: bvh.rebuild("lbvh"))):
        low, high = boxes(200, seed)
        bvh.lowers.assign(low)
        bvh.uppers.assign(high)
        id = bvh.id
        update()
        assert bvh.id == id
        np.testing.assert_array_equal(
            query_overlaps(bvh, query_low, query_high), overlapping(low, high, query_low, query_high)
        )


@tg.kernel
def roots(id: tg.uint64, groups: tg.array1d[int], out: tg.array1d[int]):
    t = tg.tid()
    out[t] = tg.bvh_get_group_root(id, groups[t])


@pytest.mark.parametrize("constructor", ["sah", "median", "lbvh"])
@sampled(4, "groups", [9, 1, 2, 100])
def test_groups_of_a_bvh_are_subtrees(constructor: str, groups: int) -> None:
    low, high = boxes(200)
    groups_of_boxes = np.random.default_rng(5).permutation(np.arange(200) % groups) * 3 - 7
    bvh = bvh_of(low, high, constructor=constructor, groups=tg.array(groups_of_boxes, dtype=int), leaf_size=3)
    keys = np.unique(groups_of_boxes)
    out = tg.zeros(groups + 1, dtype=int)
    tg.launch(roots, dim=groups + 1, inputs=[bvh.id, tg.array([*keys, 12345], dtype=int), out])
    assert out.numpy()[-1] == -1
    query_low, query_high = boxes(5, 1, 2.0)
    expected = overlapping(low, high, query_low, query_high)
    np.testing.assert_array_equal(query_overlaps(bvh, query_low, query_high), expected)
    for key, root in zip(keys.tolist(), out.numpy().tolist(), strict=False):
        np.testing.assert_array_equal(
            query_overlaps(bvh, query_low, query_high, root), expected * (groups_of_boxes == key)
        )


@tg.kernel
def query_bvh_argument(
    bvh: tg.Bvh, low: tg.array1d[tg.vec3], high: tg.array1d[tg.vec3], out: tg.array2d[int]
):
    t = tg.tid()
    query = tg.bvh_query_aabb(bvh, low[t], high[t])
    i = 0
    while tg.bvh_query_next(query, i):
        out[t, i] += 1


def test_kernels_take_hierarchies_as_arguments() -> None:
    low, high = boxes(50)
    query_low, query_high = boxes(5, 1, 2.0)
    for bvh in (bvh_of(low, high), bvh_of(low[:0], high[:0])):
        out = tg.zeros((5, 50), dtype=int)
        tg.launch(query_bvh_argument, dim=5, inputs=[bvh, vectors(query_low), vectors(query_high), out])
        np.testing.assert_array_equal(
            out.numpy()[:, : len(bvh.lowers)], query_overlaps(bvh, query_low, query_high)
        )
    with pytest.raises(tg.LaunchError, match="argument 'bvh'"):
        tg.launch(
            query_bvh_argument, dim=5, inputs=[bvh.lowers, vectors(query_low), vectors(query_high), out]
        )


def test_the_id_of_a_deleted_bvh_is_reported() -> None:
    low, high = boxes(3)
    bvh, second_bvh = bvh_of(low, high), bvh_of(low, high)
    deleted_id = bvh.id
    del bvh
    gc.collect()
    out = tg.zeros((3, 3), dtype=int)
    for id in (deleted_id, second_bvh.id ^ (1 << 40), second_bvh.id ^ (1 << 16), 12345, 2**64 - 1):
        with pytest.raises(tg.KernelAssertion, match="the id does not name an existing"):
            tg.launch(query_box, dim=3, inputs=[id, vectors(low), vectors(high), out, -1])
            tg.synchronize()
    assert out.numpy().sum() == 0
    tg.launch(query_box, dim=3, inputs=[0, vectors(low), vectors(high), out, -1])
    assert out.numpy().sum() == 0
    assert bvh_of(low, high).id not in (deleted_id, second_bvh.id)


def test_wrong_arguments_of_a_hierarchy_are_refused() -> None:
    low, high = boxes(3)
    with pytest.raises(tg.LaunchError, match="uppers must be a packed array of vec3 of shape \\(3,\\)"):
        tg.Bvh(vectors(low), vectors(high[:2]))
    with pytest.raises(ValueError, match="the leaf size must be an integer from 1 to 255, got 0"):
        bvh_of(low, high, leaf_size=0)
    with pytest.raises(ValueError, match="constructor must be one of sah, median, lbvh, cubql, got 'best'"):
        bvh_of(low, high, constructor="best")
    with pytest.raises(RuntimeError, match="Grouped BVHs"):
        bvh_of(low, high, constructor="cubql", groups=tg.zeros(3, dtype=int))


@tg.func
def add_results(query: tg.BvhQuery, out: tg.array1d[int], amount: int):
    item = 0
    while tg.bvh_query_next(query, item, 1.0):
        out[item] += amount


@tg.kernel
def list_results(bvh: tg.Bvh, low: tg.vec3, high: tg.vec3, out: tg.array2d[int]):
    t = tg.tid()
    n, item = 0, 0
    query = tg.bvh_query_aabb(bvh, low, high)
    if t == 0:
        for result in query:
            out[t, n] = result
            n += 1
    elif t == 1:
        while tg.bvh_query_next(query, item):
            out[t, n] = item
            n += 1
    else:
        for _ in range(t):
            if tg.bvh_query_next(query, item):
                out[t, n] = item
                n += 1
        for result in query:
            if n % 2 == 0:
                out[t, n] = result
                n += 1
                continue
            out[t, n] = result
            n += 1


def results_in_order(bvh: tg.Bvh, low: np.ndarray, high: np.ndarray, node: int = 1) -> list[int]:
    """The items that overlap a box, depth first, with the children of each node in the order of their slots."""
    words, items = bvh.node_words.numpy().reshape(-1, 64)[node], bvh._items.numpy()
    bounds, counts = words[:48].view(np.float32).reshape(2, 3, 8), words[56:58].view(np.uint8).tolist()
    results: list[int] = []
    for slot, child in enumerate(words[48:56].tolist()):
        if (bounds[0, :, slot] <= high).all() and (bounds[1, :, slot] >= low).all():
            if child > 0:
                results += results_in_order(bvh, low, high, child)
            for box in items[-1 - child : -1 - child + counts[slot]] if child < 0 else ():
                if (box[:3] <= high).all() and (box[3:6] >= low).all():
                    results.append(int(box[6:7].view(np.int32)[0]))
    return results


def test_results_of_boxes_are_in_the_order_of_the_hierarchy() -> None:
    low, high = boxes(300)
    query_low, query_high = np.float32([1, 1, 1]), np.float32([3, 4, 5])
    for leaf in (1, 2, 5):
        bvh = bvh_of(low, high, leaf_size=leaf)
        expected = results_in_order(bvh, query_low, query_high)
        assert (
            sorted(expected)
            == np.flatnonzero(overlapping(low, high, query_low[None], query_high[None])).tolist()
        )
        out = tg.full((5, 300), -1, dtype=int)
        tg.launch(list_results, 5, [bvh, tg.vec3(*query_low), tg.vec3(*query_high), out])
        for row in out.numpy():
            np.testing.assert_array_equal(row[row >= 0], expected)


@tg.kernel
def query_of_varying_kind(
    id: tg.uint64, kinds: tg.array1d[int], low: tg.vec3, high: tg.vec3, out: tg.array2d[int]
):
    t = tg.tid()
    if kinds[t] == 0:
        query = tg.bvh_query_aabb(id, low, high)
    elif kinds[t] == 1:
        query = tg.bvh_query_sphere(id, low, 1.5)
    else:
        query = tg.bvh_query_capsule(id, low, high - low, 0.75)
    add_results(query, out[t], 1)
    add_results(tg.bvh_query_aabb(id, low, high), out[t], 10)


def test_bvh_queries_take_a_kind_at_run_time() -> None:
    low, high = boxes(100)
    bvh = bvh_of(low, high)
    query_low, query_high = np.full((1, 3), 1.0), np.full((1, 3), 4.5)
    out = tg.zeros((3, 100), dtype=int)
    inputs = [bvh.id, tg.array([0, 1, 2], dtype=int), tg.vec3(*query_low[0]), tg.vec3(*query_high[0]), out]
    tg.launch(query_of_varying_kind, dim=3, inputs=inputs)
    ball, ray = tg.zeros((1, 100), dtype=int), tg.zeros((1, 100), dtype=int)
    tg.launch(query_ball, dim=1, inputs=[bvh.id, vectors(query_low), 1.5, ball])
    tg.launch(
        query_ray, dim=1, inputs=[bvh.id, vectors(query_low), vectors(query_high - query_low), 0.75, 1.0, ray]
    )
    box = overlapping(low, high, query_low, query_high)
    expected = np.concatenate([box, ball.numpy(), ray.numpy()])
    assert (expected.sum(axis=1) > 0).all()
    np.testing.assert_array_equal(out.numpy(), expected + 10 * box)


@tg.kernel
def query_per_block(id: tg.uint64, low: tg.array1d[tg.vec3], high: tg.array1d[tg.vec3], out: tg.array2d[int]):
    b, _ = tg.tid()
    first = tg.tile_bvh_query_aabb(id, low[b], high[b])
    second = tg.tile_bvh_query_ray(id, low[b], high[b] - low[b])
    while tg.tile_query_valid(first) or tg.tile_query_valid(second):
        item = tg.untile(tg.tile_bvh_query_next(first))
        second_item = tg.untile(tg.tile_bvh_query_next(second))
        if item >= 0:
            tg.atomic_add(out, b, item, 1)
        if second_item >= 0:
            tg.atomic_add(out, b, second_item, 100)


@sampled(3, "block_dim", [1, 3, 32, pytest.param(100, marks=pytest.mark.slow)])
def test_threads_of_a_block_share_a_bvh_query(block_dim: int) -> None:
    low, high = boxes(150)
    query_low, query_high = boxes(5, 1, 3.0)
    bvh, out, ray = (
        bvh_of(low, high, leaf_size=3),
        tg.zeros((5, 150), dtype=int),
        tg.zeros((5, 150), dtype=int),
    )
    inputs = [bvh.id, vectors(query_low), vectors(query_high), out]
    tg.launch_tiled(query_per_block, dim=5, inputs=inputs, block_dim=block_dim)
    tg.launch(
        query_ray,
        dim=5,
        inputs=[bvh.id, vectors(query_low), vectors(query_high - query_low), 0.0, tg.inf, ray],
    )
    np.testing.assert_array_equal(
        out.numpy(), overlapping(low, high, query_low, query_high) + 100 * ray.numpy()
    )


def test_a_rebuild_takes_more_groups_than_before() -> None:
    """The memory of nodes grows: a hierarchy of one group has fewer nodes than a hierarchy with a group for each
    box."""
    low, high = boxes(200)
    groups_of_boxes = tg.zeros(200, dtype=int)
    bvh = bvh_of(low, high, groups=groups_of_boxes)
    groups_of_boxes.assign(np.arange(200))
    bvh.rebuild()
    out = tg.zeros(200, dtype=int)
    tg.launch(roots, dim=200, inputs=[bvh.id, groups_of_boxes, out])
    assert len(set(out.numpy().tolist())) == 200
    for key, root in ((0, int(out.numpy()[0])), (199, int(out.numpy()[199]))):
        np.testing.assert_array_equal(
            query_overlaps(bvh, low, high, root)[:, key], overlapping(low, high, low, high)[:, key]
        )


@pytest.mark.cpu
@pytest.mark.parametrize("leaf_size", [1, 3])
def test_a_thread_for_each_child_fits_nodes_as_a_thread_for_each_subtree(leaf_size: int) -> None:
    """The kernels that refit hierarchies on GPUs write the same bits as the CPU kernel."""
    low, high = boxes(701)
    low[::50], high[7::90] = np.nan, -np.inf
    bvh = bvh_of(low, high, leaf_size=leaf_size)
    nodes, items = bvh.nodes.numpy().copy(), bvh._items.numpy().copy()
    bounds = np.arange(nodes.size) % (NODE_BYTES // 4)
    bvh.nodes.numpy()[(bounds < CHILDREN // 4) | (bounds >= MIDDLE // 4)] = 7.0
    bvh._items.numpy()[...] = np.where(np.arange(len(items))[:, None] == 701, np.nan, 7.0)
    slots = np.argsort(items[:701, 6].view(np.int32))
    arguments = [bvh.lowers, bvh.uppers, None, tg.array(slots, dtype=int), bvh._halves, 0]
    tg.launch(write_boxes, 702, arguments)
    if leaf_size == 3:
        # As on a GPU before the host knows the numbers of nodes.
        bvh._level_sizes = None
    bvh.launch_by_level(fit_level, WIDTH, [bvh.node_words, bvh._halves, 701, leaf_size == 1], 256)
    count = sum(n for _, n in bvh.levels())
    used = slice(NODE_BYTES // 4, (1 + count) * NODE_BYTES // 4)
    written = (bounds[used] < CHILDREN // 4) | (
        (bounds[used] >= MIDDLE // 4) & (bounds[used] < MIDDLE // 4 + 3)
    )
    np.testing.assert_array_equal(bvh.nodes.numpy()[used][written], nodes[used][written])
    np.testing.assert_array_equal(bvh._items.numpy()[:701, :6], items[:701, :6])
    np.testing.assert_array_equal(bvh._items.numpy()[701 : 701 + count], items[701 : 701 + count])


@pytest.mark.cpu
def test_refits_write_faces_in_vector_registers_as_one_component_at_a_time() -> None:
    """The kernels that refit meshes on CPUs and GPUs write the same bits, without reads after the last point."""
    points, faces = soup(199)
    points[:, 1] -= 2
    faces[0] = faces[0, ::-1]
    points[[30, 100]], points[60, 2], points[61, 2] = np.nan, np.inf, -np.inf
    mesh = mesh_of(points, faces)
    mesh.refit()
    bvh = mesh._bvh
    items, triangles = bvh._items.numpy().copy(), bvh._rows.numpy().copy()
    slots = np.argsort(items[:199, 6].view(np.int32))
    bvh._items.numpy()[:199, :6], bvh._rows.numpy()[...] = 7.0, 7.0
    arguments = [mesh.points.ptr, mesh.indices.ptr, bvh._rows, None, tg.array(slots, dtype=int), bvh._halves]
    tg.launch(write_faces, 200, [*arguments, 0])
    np.testing.assert_array_equal(bvh._items.numpy()[:199].view(np.int32), items[:199].view(np.int32))
    np.testing.assert_array_equal(bvh._rows.numpy().view(np.int32), triangles.view(np.int32))
    assert np.isnan(items[:199, 0]).sum() == 3


@pytest.mark.cpu
def test_items_that_are_written_to_buckets_first_are_the_same() -> None:
    low, high = boxes(701)
    low[::50], high[7::90] = np.nan, -np.inf
    bvh = bvh_of(low, high)
    items = bvh._items.numpy()[:701].copy()
    positions = tg.array(np.argsort(items[:, 6].view(np.int32)), dtype=int)
    device = positions.device
    buckets = find_buckets(positions, device, bits=5)
    # In each bucket, the records are in the order of the indices of items.
    order = np.argsort(positions.numpy() >> 5, kind="stable")
    np.testing.assert_array_equal(buckets.records.numpy()[order], np.arange(701))
    records = tg.zeros(2 * 710, dtype=tg.vec4)
    bvh._items.numpy()[:701] = 7.0
    tg.launch(write_boxes, 702, [bvh.lowers, bvh.uppers, None, buckets.records, records, 9])
    tg.launch(gather_items, 702, [records, 9, buckets.sources, bvh._halves])
    np.testing.assert_array_equal(bvh._items.numpy()[:701].view(np.int32), items.view(np.int32))
    assert are_scattered(positions, device, bits=5)
    assert not are_scattered(tg.array(np.arange(701), dtype=int), device, bits=5)


def test_many_refits_find_boxes_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """On GPUs later refits write items to buckets first."""
    monkeypatch.setattr("tegula.spatial.bvh.MIN_ITEMS", 0)
    monkeypatch.setattr("tegula.spatial.bvh.are_scattered", lambda positions, device: True)
    query_low, query_high = boxes(20, 1, 2.0)
    bvh = bvh_of(*boxes(201), constructor="lbvh")
    for seed in range(2, 4):
        for k in range(REFITS_BEFORE_BUCKETS + 1):
            low, high = boxes(201, 10 * seed + k)
            bvh.lowers.assign(low)
            bvh.uppers.assign(high)
            bvh.refit()
        assert (bvh._buckets is None) == bvh.device.is_cpu
        np.testing.assert_array_equal(
            query_overlaps(bvh, query_low, query_high), overlapping(low, high, query_low, query_high)
        )
        bvh.rebuild()
