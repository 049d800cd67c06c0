"""Tiles of arrays in column-major order: neighbouring threads access neighbouring elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm, run_gpu_passes
from simt import run_together

import tegula as tg
from support.array_order import column_major
from tegula.ops.array import ArrayView
from tegula.ops.buffer import BufNew
from tegula.ops.tile import TileLoad, TileStore
from tegula.passes.overlap import unit_dimension


@tg.kernel
def add_one(x: tg.array2d[float], y: tg.array2d[float]):
    i, j = tg.tid()
    tg.tile_store(y, tg.tile_load(x, shape=(16, 32), offset=(i * 16, j * 32)) + 1.0, offset=(i * 16, j * 32))


X = np.arange(40 * 72, dtype=np.float32).reshape(40, 72)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("source_in_columns", "result_in_columns", "neighbour"),
    [
        (False, False, (0, 1)),
        (True, False, (0, 1)),
        (False, True, (1, 0)),
        (True, True, (1, 0)),
    ],
)
def test_neighbouring_threads_store_neighbouring_elements(
    source_in_columns: bool, result_in_columns: bool, neighbour: tuple[int, int]
) -> None:
    x = column_major(X) if source_in_columns else tg.array(X)
    y = column_major(np.zeros_like(X)) if result_in_columns else tg.zeros(X.shape)
    kernel, compilation = run_gpu_passes(add_one, [x, y], (3, 3), 64)
    (store,) = (op for op in kernel.walk() if isinstance(op, TileStore))
    layout = compilation.layouts[store.tile]
    step = tuple(k // layout.vector for k in layout.thread_offsets(1))
    assert step == neighbour, layout
    run_together(lower_to_llvm(add_one, [x, y], (3, 3), 64), add_one, [x, y], (3, 3, 64), 9)
    np.testing.assert_array_equal(y.numpy(), X + 1)


@tg.kernel
def add_rows(x: tg.array3d[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_reduce(tg.add, tg.tile_load(x[i], shape=(32, 24)), axis=1))


@pytest.mark.machine_code
def test_reductions_of_matrices_in_columns() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 32, 24)).astype(np.float32)
    args = [column_major(x), tg.zeros((3, 32))]
    kernel, compilation = run_gpu_passes(add_rows, args, (3,), 64)
    (load,) = (op for op in kernel.walk() if isinstance(op, TileLoad))
    assert compilation.layouts[load.result].thread_offsets(1) == (1, 0)
    run_together(lower_to_llvm(add_rows, args, (3,), 64), add_rows, args, (3, 64), 3)
    np.testing.assert_array_equal(args[1].numpy(), x.sum(axis=2))


def solutions(n: int) -> Any:
    @tg.kernel
    def kernel(a: tg.array3d[float], y: tg.array2d[float], z: tg.array2d[float]):
        i = tg.tid()
        tg.tile_store(
            z[i], tg.tile_lower_solve(tg.tile_load(a[i], shape=(n, n)), tg.tile_load(y[i], shape=n))
        )

    return kernel


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [32, pytest.param(40, marks=pytest.mark.slow(every=1))])
def test_rows_of_lanes_are_loaded_from_columns_without_an_exchange(n: int) -> None:
    rng = np.random.default_rng(n)
    a = (rng.standard_normal((3, n, n)) / n + np.eye(n)).astype(np.float32)
    y = rng.standard_normal((3, n)).astype(np.float32)
    results: list[np.ndarray] = []
    for matrices, is_exchanged in ((tg.array(a), True), (column_major(a), False)):
        args = [matrices, tg.array(y), tg.zeros((3, n))]
        kernel, _ = run_gpu_passes(solutions(n), args, (3,), 32)
        assert any(isinstance(op, BufNew) for op in kernel.walk()) == is_exchanged
        run_together(lower_to_llvm(solutions(n), args, (3,), 32), solutions(n), args, (3, 32), 3)
        results.append(args[2].numpy())
    np.testing.assert_array_equal(results[1], results[0])


@tg.kernel
def take_views(x: tg.array3d[float], y: tg.array1d[float]):
    i = tg.tid()
    tg.tile_store(y, tg.tile_load(x[i, :, 1], shape=4))
    tg.tile_store(y, tg.tile_load(x[i, 1], shape=4))
    tg.tile_store(y, tg.tile_load(x[i, ::2, 1], shape=2))
    tg.tile_store(y, tg.tile_reshape(tg.tile_load(x[i], shape=(4, 4)), (16,)))
    tg.tile_store(y, tg.tile_reshape(tg.tile_load(x[i, 1:, ::2], shape=(4, 4)), (16,)))
    tg.tile_store(y, tg.tile_reshape(tg.tile_load(x[:, 1], shape=(4, 4)), (16,)))


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ((0, 1, 2), [None, 0, None, 1, None, 1]),
        ((0, 2, 1), [0, None, None, 0, 0, None]),
        ((2, 1, 0), [None] * 6),
    ],
)
def test_adjacent_elements_of_views(axes: tuple[int, ...], expected: list[int | None]) -> None:
    x = tg.array(np.zeros((4, 6, 8), np.float32).transpose(axes), copy=False)
    kernel, _ = run_gpu_passes(take_views, [x, tg.zeros(16)], (1,), 32)
    views = [op.array for op in kernel.walk() if isinstance(op, TileLoad)]
    assert all(isinstance(v.owner, ArrayView) for v in views)
    assert [unit_dimension(kernel, v) for v in views] == expected
