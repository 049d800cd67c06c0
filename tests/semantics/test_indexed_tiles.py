"""Tiles at indices of an array, and masks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

N, M = 6, 5


def random_integers(*shape: int, seed: int = 0) -> np.ndarray:
    """Random integers as floats, so that sums of them are exact."""
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(np.float32)


def tile_indices(
    a: np.ndarray, index_array: Any, offset: tuple[int, int], shape: tuple[int, int], axis: int
) -> tuple[Any, Any, Any]:
    """The rows and columns of the elements of a tile at indices, and a mask of the elements in bounds."""
    rows, columns = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in shape), indexing="ij")
    tile_index = np.asarray(index_array, np.int64)
    rows, columns = (tile_index[rows], columns) if axis == 0 else (rows, tile_index[columns])
    rows, columns = rows + offset[0], columns + offset[1]
    inside = (rows >= 0) & (rows < a.shape[0]) & (columns >= 0) & (columns < a.shape[1])
    return rows, columns, inside


@tg.kernel
def load_rows(a: tg.array2d[float], index_array: tg.array1d[Any], y: tg.array2d[float], i: int):
    tg.tile_store(
        y, tg.tile_load_indexed(a, tg.tile_load(index_array, shape=N), shape=(N, M), offset=(i, i - 1))
    )


@tg.kernel
def load_columns(a: tg.array2d[float], index_array: tg.array1d[Any], y: tg.array2d[float], i: int):
    indices = tg.tile_load(index_array, shape=N, storage="shared")
    t = tg.tile_load_indexed(
        a, indices, shape=(M, N), offset=(i, i - 1), axis=1, storage="shared", other=-7.0
    )
    tg.tile_store(y, t)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("block_dim", [3, 32])
def test_loads_of_tiles_at_indices_match_numpy(dtype: type, block_dim: int) -> None:
    a = random_integers(4, 8)
    indices = np.array([2, 0, 3, 3, 9, 1], dtype)
    if np.dtype(dtype).kind == "i":
        indices[1], indices[3] = -1, -5
    for kernel, axis, shape, missing in ((load_rows, 0, (N, M), 0.0), (load_columns, -1, (M, N), -7.0)):
        y = tg.zeros(shape)
        *_, actual = agree(kernel, [tg.array(a), tg.array(indices), y, 1], 1, block_dim, tiled=True)
        rows, columns, inside = tile_indices(a, indices, (1, 0), shape, axis)
        expected = np.where(inside, a[np.where(inside, rows, 0), np.where(inside, columns, 0)], missing)
        np.testing.assert_array_equal(actual, expected)


@tg.kernel
def write_rows(x: tg.array2d[float], index_array: tg.array1d[int], stored: tg.array2d[float], added: tg.array2d[float],
               previous: tg.array2d[float]):  # fmt: skip
    t, indices = tg.tile_load(x, shape=(N, M)), tg.tile_load(index_array, shape=N)
    tg.tile_store_indexed(stored, indices, t, offset=(-1, 2))
    old = tg.tile_atomic_add_indexed(added, indices % 3, t, offset=(1, 2))
    tg.tile_store(previous, old)


@pytest.mark.parametrize("block_dim", [1, 7, 64])
def test_stores_and_adds_of_tiles_at_indices_match_numpy(block_dim: int) -> None:
    x, indices = random_integers(N, M), np.array([3, 0, 7, 1, -2, 6], np.int32)
    stored, added = random_integers(6, 6, seed=1), random_integers(4, 6, seed=2)
    args = [tg.array(v) for v in (x, indices, stored, added, np.zeros((N, M), np.float32))]
    _, _, actual, sums, _ = agree(write_rows, args, 1, block_dim, tiled=True)
    rows, columns, inside = tile_indices(stored, indices, (-1, 2), (N, M), 0)
    stored[rows[inside], columns[inside]] = x[inside]
    np.testing.assert_array_equal(actual, stored)
    rows, columns, inside = tile_indices(added, np.fmod(indices, 3), (1, 2), (N, M), 0)
    np.add.at(added, (rows[inside], columns[inside]), x[inside])
    np.testing.assert_array_equal(sums, added)


def test_atomic_adds_at_indices_return_old_elements() -> None:
    """Three updates of one element return 0, 1 and 2, in any order."""
    x, indices = np.ones((N, M), np.float32), np.array([0, 0, 1, 5, 0, -1], np.int32)
    args = [tg.array(v) for v in (x, indices, np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32))]
    previous = tg.full((N, M), 9.0)
    tg.launch_tiled(write_rows, 1, [*args, previous], block_dim=32)
    actual = previous.numpy()
    np.testing.assert_array_equal(
        np.sort(actual[[0, 1, 4]], axis=0), np.array([[0.0], [1.0], [2.0]]).repeat(M, 1)
    )
    assert (actual[2] == 0.0).all()


@tg.kernel
def gather_per_thread(x: tg.array1d[float], index_array: tg.array1d[int], y: tg.array1d[float]):
    i = tg.tid()
    indices = tg.tile_arange(8, dtype=int) * 2 + index_array[0]
    tg.tile_store_indexed(y, indices, tg.tile(x[i]))


def test_elements_of_absent_threads_are_dropped() -> None:
    y = tg.full(20, -1.0)
    tg.launch(gather_per_thread, 5, [tg.array(random_integers(5)), tg.array([1])], [y], block_dim=8)
    expected = np.full(20, -1.0, np.float32)
    expected[1:11:2] = random_integers(5)
    np.testing.assert_array_equal(y.numpy(), expected)


@tg.kernel
def indexed_gradients(
    x: tg.array2d[Any], index_array: tg.array1d[int], y: tg.array2d[Any], z: tg.array2d[Any]
):
    indices = tg.tile_load(index_array, shape=N)
    t = tg.tile_load_indexed(x, indices, shape=(N, M), axis=0)
    tg.tile_store_indexed(y, tg.tile_arange(N, dtype=int) * 2, t * t, axis=0)
    tg.tile_atomic_add_indexed(z, indices, t, axis=0)


@pytest.mark.parametrize("dtype", [tg.float32, tg.float16, tg.float64])
def test_gradients_of_tiles_at_indices_are_correct(dtype: Any) -> None:
    a, indices = random_integers(4, M), np.array([2, 2, -1, 0, 4, 3], np.int32)
    x = tg.array(a, dtype=dtype, requires_grad=True)
    y, z = (tg.zeros((n, M), dtype=dtype, requires_grad=True) for n in (9, 3))
    with tg.Tape() as tape:
        tg.launch_tiled(indexed_gradients, 1, [x, tg.array(indices)], [y, z], block_dim=32)
    gradient_y, gradient_z = random_integers(9, M, seed=3), random_integers(3, M, seed=4)
    tape.backward(grads={y: tg.array(gradient_y, dtype=dtype), z: tg.array(gradient_z, dtype=dtype)})
    expected = np.zeros((4, M))
    for k, n in enumerate(indices.tolist()):
        if 0 <= n < 4:
            expected[n] += (2 * a[n] * gradient_y[2 * k] if 2 * k < 9 else 0) + (
                gradient_z[n] if n < 3 else 0
            )
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@tg.struct
class Labelled:
    key: int
    position: tg.vec3


@tg.kernel
def structs(a: tg.array1d[Labelled], indices: tg.array1d[int], y: tg.array1d[Labelled]):
    t = tg.tile_load_indexed(a, tg.tile_load(indices, shape=4), shape=4)
    tg.tile_store_indexed(y, 3 - tg.tile_arange(4, dtype=int), t)
    tg.tile_atomic_add_indexed(y, tg.tile_arange(4, dtype=int) * 0, t)


def test_tiles_of_structs_at_indices_match_numpy() -> None:
    data = np.zeros(4, Labelled.numpy_dtype())
    data["key"], data["position"] = np.arange(4), np.arange(12).reshape(4, 3)
    y = tg.zeros(4, dtype=Labelled)
    tg.launch_tiled(structs, 1, [tg.array(data, dtype=Labelled), tg.array([2, 9, 0, 3])], [y], block_dim=32)
    actual = y.numpy()
    assert actual["key"].tolist() == [3 + 5, 0, 0, 2]
    np.testing.assert_array_equal(
        actual["position"][1:], data["position"][[0, 0, 2]] * np.array([[1], [0], [1]])
    )
    np.testing.assert_array_equal(
        actual["position"][0], 2 * data["position"][3] + data["position"][2] + data["position"][0]
    )


@tg.kernel
def masked(x: tg.array2d[float], y: tg.array2d[float], z: tg.array2d[float], w: tg.array2d[float], i: int):
    t = tg.tile_load(x, shape=(N, M), offset=(i, -1), fill=5.0)
    u = tg.tile_load(x, shape=(N, M), offset=(i, -1), fill=5.0, mask=t > 0.0, other=-3.0)
    tg.tile_store(y, u)
    rows = tg.tile_reshape(tg.tile_arange(N, dtype=int) % 2 == 0, (N, 1))
    tg.tile_store(z, t, offset=(1, i), mask=rows)
    old = tg.tile_atomic_add(w, t, mask=t < 0.0)
    tg.tile_atomic_max(w, old * 2.0, offset=(0, 2), mask=rows)


@pytest.mark.parametrize("block_dim", [3, 32])
def test_masked_tiles_match_numpy(block_dim: int) -> None:
    x, z, w = random_integers(6, 4), random_integers(5, 5, seed=1), random_integers(6, 6, seed=2)
    args = [tg.array(x), tg.zeros((N, M)), tg.array(z), tg.array(w), 1]
    _, y, stored, sums = agree(masked, args, 1, block_dim, tiled=True)
    t = np.full((N, M), 5.0, np.float32)
    t[:5, 1:] = x[1:6]
    np.testing.assert_array_equal(y, np.where(t > 0, t, -3))
    z[1:5:2, 1:] = t[:4:2, :4]
    np.testing.assert_array_equal(stored, z)
    old = np.where(t < 0, w[:, :M], 0)
    w[:, :M] += np.where(t < 0, t, 0)
    w[::2, 2:] = np.maximum(w[::2, 2:], 2 * old[::2, :4])
    np.testing.assert_array_equal(sums, w)


@tg.kernel
def masked_gradients(x: tg.array1d[float], s: tg.array1d[float], y: tg.array1d[float]):
    t = tg.tile_load(x, shape=N, offset=-1, mask=tg.tile_arange(N, dtype=int) % 3 != 1, other=s[0])
    tg.tile_store(y, t * t, mask=tg.tile_arange(N, dtype=int) < 4)


def test_gradients_of_masked_tiles_are_correct() -> None:
    x, s = (tg.array(random_integers(n, seed=n), requires_grad=True) for n in (4, 1))
    y = tg.zeros(N, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(masked_gradients, 1, [x, s], [y], block_dim=32)
    g = random_integers(N, seed=9)
    tape.backward(grads={y: tg.array(g)})
    assert x.grad is not None and s.grad is not None
    a, b = x.numpy(), s.numpy()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 2 * a[1] * g[2], 2 * a[2] * g[3], 0.0])
    np.testing.assert_array_equal(s.grad.numpy(), [2 * b[0] * g[1]])
