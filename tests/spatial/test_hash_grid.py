"""Hash grids against distances in float64: all block sizes, dtypes, groups, folded cells and extreme coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code(some=True)
MAX_LISTED = 4096


@tg.kernel
def neighbours(g: tg.HashGrid, points, point, radius: float, counts: tg.array[int], sums: tg.array[int]):
    """The number of points within a distance, and the sum of the squares of their indices."""
    i = tg.tid()
    p = point[i]
    count = 0
    for j in tg.hash_grid_query(g, p, radius):
        if tg.length(p - points[j]) <= type(p[0])(radius):
            count += 1
            sums[i] += j * j
    counts[i] = count


@tg.kernel
def candidates(id: tg.uint64, point, radius: float, results: tg.array2d[int], counts: tg.array[int]):
    """The indices of all candidates, in order."""
    i = tg.tid()
    query = tg.hash_grid_query(id, point[i], radius)
    index, count = -7, 0
    while tg.hash_grid_query_next(query, index):
        results[i, count] = index
        count += 1
    counts[i] = count
    if count == 0:
        results[i, 0] = index


@tg.kernel
def query_group(
    id: tg.uint64,
    point,
    groups: tg.array[int],
    radius: float,
    results: tg.array2d[int],
    counts: tg.array[int],
):
    """The indices of the candidates of a group."""
    i = tg.tid()
    count = 0
    for j in tg.hash_grid_query(id, point[i], radius, groups[i]):
        results[i, count] = j
        count += 1
    counts[i] = count


@tg.kernel
def points_by_cell(id: tg.uint64, out: tg.array[int]):
    i = tg.tid()
    out[i] = tg.hash_grid_point_id(id, i - 1)


def vectors(x: np.ndarray) -> tg.array:
    return tg.array(x, dtype={2: tg.vec3h, 4: tg.vec3, 8: tg.vec3d}[x.dtype.itemsize])


def built_grid(
    points: np.ndarray, width: float, dims: tuple[int, int, int] = (8, 5, 16), **options: Any
) -> tg.HashGrid:
    grid = tg.HashGrid(*dims, dtype=tg.dtype_from_numpy(points.dtype))
    grid.build(vectors(points), width, **options)
    return grid


def list_candidates(grid: tg.HashGrid, point: np.ndarray, radius: float) -> list[list[int]]:
    result, counts = tg.zeros((len(point), MAX_LISTED), dtype=int), tg.zeros(len(point), dtype=int)
    tg.launch(candidates, len(point), [grid.id, vectors(point), radius], [result, counts])
    return [row[:n].tolist() for row, n in zip(result.numpy(), counts.numpy(), strict=True)]


def points(seed: int, n: int, dtype: Any = np.float32) -> np.ndarray:
    """Points in a box and in clusters, some of them equal."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, (n, 3))
    x[n // 2 :] = rng.normal(0, 0.3, (n - n // 2, 3)) + rng.integers(-2, 3, (n - n // 2, 1))
    x[: n // 10] = x[n // 10 : 2 * (n // 10)]
    return x.astype(dtype)


@pytest.mark.parametrize("block_dim", [1, 3, 32, 100, 256])
@sampled(3, "dtype", [np.float32, np.float64])
def test_neighbours_are_the_points_within_the_distance(dtype: type, block_dim: int) -> None:
    x = points(1, 700, dtype)
    radius = 0.625
    grid = built_grid(x, 0.7)
    arrays = vectors(x)
    counts, sums = tg.zeros(len(x), dtype=int), tg.zeros(len(x), dtype=int)
    tg.launch(neighbours, len(x), [grid, arrays, arrays, radius], [counts, sums], block_dim=block_dim)
    distance = np.linalg.norm(x[:, None].astype(np.float64) - x[None].astype(np.float64), axis=-1)
    decidable = np.abs(distance - radius).min(1) > 1e-6
    near = distance <= radius
    np.testing.assert_array_equal(counts.numpy()[decidable], near.sum(1)[decidable])
    np.testing.assert_array_equal(sums.numpy()[decidable], (near @ np.arange(len(x)) ** 2)[decidable])
    assert decidable.mean() > 0.99 and near.sum(1).mean() > 5


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [0.1, 0.9, 30.0])
def test_hash_grid_candidates_contain_each_near_point_once(dtype: type, width: float) -> None:
    """Candidates of any cell width and folded cells, ordered by cell and then by number."""
    x, queries, radius = points(2, 400, dtype), points(3, 50, dtype), 0.5
    grid = built_grid(x, width, (3, 4, 5))
    for p, listed_points in zip(
        queries.astype(np.float64), list_candidates(grid, queries, radius), strict=True
    ):
        assert len(listed_points) == len(set(listed_points))
        assert set(np.flatnonzero((np.abs(x - p) <= radius).all(1))) <= set(listed_points)
        if width == 0.9:
            folded = np.array([3, 4, 5])
            cell_distance = (np.floor(x / width) - np.floor(p / width) + folded // 2) % folded - folded // 2
            assert (np.abs(cell_distance[listed_points]) <= 2).all()


def test_rounding_of_coordinates_loses_no_neighbour() -> None:
    """Points at the distance, as float32 computes it, on the ends of cells and far from the origin."""
    rng = np.random.default_rng(4)
    for offset in (0.0, 1000.0, -70000.0):
        p = (offset + rng.integers(-40, 40, (300, 3)) * 0.1).astype(np.float32)
        radius = np.float32(0.3)
        gap = p[:, None] - p[None]
        near = np.sqrt((gap * gap).sum(-1, dtype=np.float32)) <= radius
        grid = built_grid(p, float(radius), (64, 64, 64))
        for k, neighbours_listed in enumerate(list_candidates(grid, p, float(radius))):
            assert set(np.flatnonzero(near[k])) <= set(neighbours_listed)


def test_hash_grid_queries_find_points_of_their_group() -> None:
    x = points(5, 600)
    groups = np.random.default_rng(5).choice(np.array([-(2**31), -1, 0, 7, 2**31 - 1], np.int32), 600)
    grid = built_grid(x, 0.8, groups=tg.array(groups))
    queries, group_ids = x[:60], groups[::-1][:60].copy()
    group_ids[:5] = 3
    actual, counts = tg.zeros((60, MAX_LISTED), dtype=int), tg.zeros(60, dtype=int)
    tg.launch(query_group, 60, [grid.id, vectors(queries), tg.array(group_ids), 0.8], [actual, counts])
    all_candidates = list_candidates(grid, queries, 0.8)
    for k in range(60):
        group_candidates = actual.numpy()[k, : counts.numpy()[k]].tolist()
        assert sorted(group_candidates) == sorted(j for j in all_candidates[k] if groups[j] == group_ids[k])
    assert counts.numpy()[5:].min() > 0
    grid.build(vectors(x), 0.8)
    tg.launch(query_group, 60, [grid.id, vectors(queries), tg.array(group_ids), 0.8], [actual, counts])
    assert counts.numpy().tolist() == [len(e) for e in all_candidates], (
        "without groups all candidates are found"
    )


def test_hash_grids_order_points_by_cell() -> None:
    x = points(6, 500)
    grid = built_grid(x, 0.5, (7, 3, 9))
    out = tg.zeros(502, dtype=int)
    tg.launch(points_by_cell, 502, [grid.id], [out])
    cell = np.floor(x.astype(np.float64) * np.float32(1 / 0.5)).astype(int) % [7, 3, 9]
    key = (cell[:, 2] * 3 + cell[:, 1]) * 7 + cell[:, 0]
    assert out.numpy()[1:-1].tolist() == np.argsort(key, kind="stable").tolist()
    assert out.numpy()[[0, -1]].tolist() == [-1, -1]


@pytest.mark.parametrize("dims", [(1, 1, 1), (3, 2, 1), (5, 7, 11), (64, 128, 64)])
def test_builds_of_other_points_reuse_the_memory(dims: tuple[int, int, int]) -> None:
    """Builds of one grid with more, fewer and no points, all in one cell or spread, and with groups between them."""
    rng = np.random.default_rng(4)
    grid = tg.HashGrid(*dims)
    for count, extent in [(9, 3), (20_000, 400), (4000, 1), (0, 1), (700, 50), (3000, 300)]:
        cell = rng.integers(0, extent, (count, 3))
        points = vectors((cell + 0.5).astype(np.float32))
        if count == 700:
            grid.build(points, 1.0, tg.array(np.zeros(count, np.int32)))
        else:
            grid.build(points, 1.0)
        x, y, z = (cell % dims).T
        key = (z * dims[1] + y) * dims[0] + x
        out = tg.zeros(count + 2, int)
        tg.launch(points_by_cell, count + 2, [grid.id], [out])
        assert out.numpy()[1:-1].tolist() == np.argsort(key, kind="stable").tolist()
        if 0 < count <= MAX_LISTED:
            some = rng.integers(0, count, 20)
            listed_points = list_candidates(grid, (cell[some] + 0.5).astype(np.float32), 0.25)
            for k, listed in zip(key[some], listed_points, strict=True):
                assert listed == np.flatnonzero(key == k).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_hash_grids_accept_nan_infinite_and_huge_coordinates(dtype: type) -> None:
    """NaN is in cell 0; infinities and coordinates beyond the precision of floats are in cells at the edge; queries
    end."""
    big = np.finfo(dtype).max
    extreme = np.array([np.nan, np.inf, -np.inf, big, -big, 0.5], dtype)
    x = np.stack(np.meshgrid(extreme, extreme, [dtype(0.5)]), -1).reshape(-1, 3)
    grid = built_grid(x, 1.0, (4, 4, 4))
    for p, listed_points in zip(x, list_candidates(grid, x, 0.25), strict=True):
        is_equal = ((x == p) | (np.isnan(x) & np.isnan(p))).all(1)
        assert set(np.flatnonzero(is_equal)) <= set(listed_points) and len(listed_points) == len(
            set(listed_points)
        )
    all_candidates = list_candidates(grid, np.full((1, 3), 0.5, dtype), np.inf)
    assert sorted(all_candidates[0]) == list(range(len(x)))
    assert list_candidates(grid, np.zeros((1, 3), dtype), -1.0) == [[]]


def test_empty_hash_grids_find_no_point() -> None:
    grid = tg.HashGrid(4, 4, 4)
    queries = np.zeros((2, 3), np.float32)
    assert list_candidates(grid, queries, 1.0) == [[], []]
    grid.build(tg.zeros(0, dtype=tg.vec3), 1.0)
    assert list_candidates(grid, queries, 1.0) == [[], []]
    grid.build(vectors(points(7, 90)), 1.0)
    assert len(list_candidates(grid, queries, 9.0)[0]) == 90
    grid.build(vectors(points(8, 20)), 1.0)
    assert len(list_candidates(grid, queries, 9.0)[0]) == 20


def test_hash_grids_hold_many_points_in_one_cell() -> None:
    x = np.zeros((3000, 3), np.float32)
    x[1500:] = 0.25
    assert list_candidates(built_grid(x, 1.0, (64, 64, 64)), x[:1], 0.5)[0] == list(range(3000))


@pytest.mark.parametrize("kind", ["deleted", "random", "another kind"])
def test_invalid_hash_grid_ids_are_reported(kind: str) -> None:
    x = points(9, 50)
    grid = built_grid(x, 1.0)
    bvh = tg.Bvh(vectors(x), vectors(x))
    invalid_id = {"deleted": grid.id, "random": 0xDEAD_BEEF_1234_5678, "another kind": bvh.id}[kind]
    if kind == "deleted":
        del grid
        new_grid = built_grid(x, 1.0)
        assert new_grid.id != invalid_id
    actual, counts = tg.zeros((1, MAX_LISTED), dtype=int), tg.full(1, 5, dtype=int)
    with pytest.raises(tg.RunError, match="the id does not name"):
        tg.launch(candidates, 1, [invalid_id, vectors(x[:1]), 1.0], [actual, counts])
        tg.synchronize()
    assert counts.numpy()[0] == 0 and actual.numpy()[0, 0] == -7


def test_coordinates_of_another_dtype_are_reported() -> None:
    grid = built_grid(points(10, 20, np.float64), 1.0)
    with pytest.raises(tg.RunError, match="coordinates of this hash grid have another dtype"):
        list_candidates(grid, np.zeros((1, 3), np.float32), 1.0)


def test_invalid_hash_grid_arguments_are_refused() -> None:
    grid = tg.HashGrid(4, 4, 4)
    assert grid.dtype == tg.float32
    coordinates = vectors(points(11, 12))
    with pytest.raises(TypeError, match="are vec3, got vec3d"):
        grid.build(tg.zeros(3, dtype=tg.vec3d), 1.0)
    for radius in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="width of a cell must be positive"):
            grid.build(coordinates, radius)
    with pytest.raises(RuntimeError, match="as many elements as points, 12, got 3"):
        grid.build(coordinates, 1.0, tg.zeros(3, dtype=int))
    with pytest.raises(RuntimeError, match="an array of int32, got float32"):
        grid.build(coordinates, 1.0, tg.zeros(12))
    with pytest.raises(RuntimeError, match="cell count exceeds supported limit"):
        tg.HashGrid(1291, 1291, 1291)
    with pytest.raises(RuntimeError, match="dimensions must be positive, got 0"):
        tg.HashGrid(4, 0, 4)
    with pytest.raises(TypeError, match="must be integers"):
        tg.HashGrid(4, 2.5, 4)
    with pytest.raises(TypeError, match="float16, float32 or float64"):
        tg.HashGrid(4, 4, 4, dtype=int)
    with pytest.raises(ValueError, match="needs 0 or more points, got -1"):
        grid.reserve(-1)


def test_hash_grids_take_points_of_any_shape() -> None:
    x = points(12, 96)
    padded = np.zeros((96, 2, 3), np.float32)
    padded[:, 1] = x
    for point_array in (vectors(x.reshape(4, 24, 3)), vectors(padded)[:, 1], vectors(x.reshape(2, 3, 16, 3))):
        grid = tg.HashGrid(8, 8, 8)
        grid.build(point_array, 0.7)
        assert list_candidates(grid, x[:9], 0.7) == list_candidates(built_grid(x, 0.7, (8, 8, 8)), x[:9], 0.7)


@tg.kernel
def first_and_rest(g: tg.HashGrid, point, radius: float, out: tg.array2d[int]):
    """Loops with `break`, `continue` and `return`, and two queries at once."""
    i = tg.tid()
    range = 3  # shadows the builtin
    p = point[i]
    first = -1
    for j in tg.hash_grid_query(g, p, radius):
        first = j
        if j >= range:
            break
    out[i, 0] = first
    odd = 0
    for j in tg.hash_grid_query(g, p, radius):
        if j % 2 == 0:
            continue
        for k in tg.hash_grid_query(g, p, radius):
            if k == j:
                odd += 1
    out[i, 1] = odd
    out[i, 2] = last_below(g, p, radius)


@tg.func
def last_below(g: tg.HashGrid, p: tg.vec3, radius: float):
    for j in tg.hash_grid_query(g, p, radius):
        if j < 20:
            return j
    return -1


def test_loops_over_hash_grid_queries_break_and_continue() -> None:
    x = points(13, 300)
    grid = built_grid(x, 0.8)
    out = tg.zeros((50, 3), dtype=int)
    tg.launch(first_and_rest, 50, [grid, vectors(x[:50]), 0.8], [out])
    for (first, odd, below), actual in zip(
        out.numpy().tolist(), list_candidates(grid, x[:50], 0.8), strict=True
    ):
        assert first == next((j for j in actual if j >= 3), actual[-1])
        assert odd == sum(j % 2 for j in actual)
        assert below == next((j for j in actual if j < 20), -1)


@tg.kernel
def energies(g: tg.HashGrid, p: tg.array[tg.vec3], radius: float, out: tg.array[float]):
    """The sum of a smooth function of the distances to neighbours."""
    i = tg.tid()
    for j in tg.hash_grid_query(g, p[i], radius):
        d = p[i] - p[j]
        out[i] += tg.max(radius * radius - tg.dot(d, d), 0.0) ** 2.0


def test_gradients_of_points_flow_through_queries() -> None:
    x = np.random.default_rng(14).uniform(0, 1, (60, 3)).astype(np.float32)
    p, out = tg.array(x, dtype=tg.vec3, requires_grad=True), tg.zeros(60, requires_grad=True)
    grid = tg.HashGrid(8, 8, 8)
    grid.build(p, 0.3)
    with tg.Tape() as tape:
        tg.launch(energies, 60, [grid, p, 0.3], [out])
    tape.backward(grads={out: tg.ones(60)})
    gap = x[:, None].astype(np.float64) - x[None]
    slope = -4.0 * np.maximum(0.09 - (gap * gap).sum(-1), 0.0)
    np.testing.assert_allclose(p.grad.numpy(), 2.0 * (slope[..., None] * gap).sum(1), atol=1e-6)
