"""Tiles of arrays whose dimensions are in any order in memory, and strided; kernels on arrays in column-major order."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import traced

import tegula as tg
from support.array_order import column_major
from tegula import interp
from tegula.ops.array import ArrayTranspose
from tegula.passes.pipeline import for_cpu, prepare

ROWS, COLUMNS = 8, 12


@tg.kernel
def scale_tiles(
    x: tg.array3d[float], y: tg.array3d[float], row_sums: tg.array2d[float], column_sums: tg.array2d[float]
):
    b, i, j = tg.tid()
    t = 2.0 * tg.tile_load(x[b], shape=(ROWS, COLUMNS), offset=(i * ROWS, j * COLUMNS))
    tg.tile_store(y[b], t + 1.0, offset=(i * ROWS, j * COLUMNS))
    tg.tile_atomic_add(row_sums[b], tg.tile_reduce(tg.add, t, axis=1), offset=i * ROWS)
    tg.tile_atomic_add(column_sums[b], tg.tile_reduce(tg.add, t, axis=0), offset=j * COLUMNS)


def in_order(values: np.ndarray, order: tuple[int, ...], step: int) -> tg.array:
    """An array with these elements whose dimensions are in this order in memory, every `step`-th element of the last of
    them."""
    ordered = values.transpose(order)
    memory = np.zeros((*ordered.shape[:-1], ordered.shape[-1] * step), np.float32)
    memory[..., ::step] = ordered
    return tg.array(memory)[:, :, ::step].transpose(np.argsort(order).tolist())


ORDERS = [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)]


@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [32, pytest.param(128, marks=pytest.mark.slow(every=1))])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("source", ORDERS)
@pytest.mark.parametrize("result", ORDERS[:2])
def test_tiles_of_arrays_in_any_order(
    source: tuple[int, ...], result: tuple[int, ...], step: int, block_dim: int
) -> None:
    values = np.random.default_rng(0).integers(-99, 99, (2, 21, 31)).astype(np.float32)
    x, y = in_order(values, source, step), in_order(np.zeros_like(values), result, step)
    row_sums, column_sums = tg.zeros((2, 21)), tg.zeros((2, 31))
    np.testing.assert_array_equal(x.numpy(), values)
    tg.launch_tiled(scale_tiles, (2, 3, 3), [x], [y, row_sums, column_sums], block_dim=block_dim)
    np.testing.assert_array_equal(y.numpy(), 2 * values + 1)
    np.testing.assert_array_equal(row_sums.numpy(), 2 * values.sum(axis=2))
    np.testing.assert_array_equal(column_sums.numpy(), 2 * values.sum(axis=1))


SIZE = 24


@tg.kernel
def combine(
    a: tg.array3d[float],
    b: tg.array2d[float],
    scales: tg.array1d[float],
    c: tg.array3d[float],
    d: tg.array2d[float],
):
    """Matmuls, an elementwise loop in place, rows by index, and elements of tiles."""
    i, j = tg.tid()
    x, y = tg.tile_load(a[i], shape=(SIZE, SIZE)), tg.tile_load(b, shape=(SIZE, SIZE))
    squares = tg.tile_matmul(x, y)
    total = tg.tile_zeros(shape=(SIZE, SIZE), dtype=float)
    for k in range(2):
        total = total + tg.tile_load(a[i + k], shape=(SIZE, SIZE)) * tg.tile_load(scales, shape=SIZE)
        tg.tile_store(c[i], squares + total + tg.tile_load(c[i], shape=(SIZE, SIZE)))
    chosen = tg.tile_load(b, shape=(SIZE, SIZE))[1::2, SIZE // 2 :]
    tg.tile_store(d, chosen + x[:12, :12], offset=(12 * i, 0))
    c[i, j, j] = c[i, j, j] + total[j, 3]


ARRAYS = (0, 1, 3, 4)
"""The positions of matrices among the arguments of `combine`."""


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "in_columns",
    [ARRAYS, *(pytest.param((k,), marks=pytest.mark.slow(every=2)) for k in ARRAYS), (0, 3), (1, 4)],
)
def test_kernels_on_column_major_arrays(in_columns: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    shapes = (3, SIZE, SIZE), (SIZE, SIZE), (SIZE,), (2, SIZE, SIZE), (SIZE, 12)
    values = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    arrays = [column_major(x) if k in in_columns else tg.array(x) for k, x in enumerate(values)]
    tg.launch_tiled(combine, (2,), arrays[:3], arrays[3:], block_dim=SIZE)
    a, b, scales, c, _ = values
    first, second = a[:2] * scales, (a[:2] + a[1:]) * scales
    expected = c + 2 * (a[:2] @ b) + first + second
    diagonal = np.arange(SIZE)
    expected[:, diagonal, diagonal] += second[:, :, 3]
    np.testing.assert_array_equal(arrays[3].numpy(), expected)
    chosen = b[1::2, SIZE // 2 :]
    np.testing.assert_array_equal(arrays[4].numpy(), np.concatenate([chosen + x[:12, :12] for x in a[:2]]))


@tg.kernel
def read_between_stores(x: tg.array2d[float], transposed: tg.array2d[float], out: tg.array2d[float]):
    a, b = tg.tile_load(x, shape=(16, 16)), tg.tile_load(transposed, shape=(16, 16))
    tg.tile_store(out, a + 2.0 * b)
    c = tg.tile_load(x, shape=(16, 16))
    tg.tile_store(transposed, c * 3.0 + b)
    tg.tile_store(out, tg.tile_load(transposed, shape=(16, 16)) - a + tg.tile_matmul(b, c))


@pytest.mark.machine_code
@pytest.mark.parametrize("shares_input", [False, True])
@pytest.mark.parametrize("shares_output", [False, True])
@pytest.mark.parametrize("is_out_transposed", [False, True])
def test_an_array_and_its_transpose_share_elements(
    shares_input: bool, shares_output: bool, is_out_transposed: bool
) -> None:
    values = np.random.default_rng(0).integers(-5, 6, (16, 16)).astype(np.float32)
    x = tg.array(values)
    source = x if shares_input else tg.clone(x)
    out = x if shares_output else tg.zeros((16, 16))
    out = out.T if is_out_transposed else out
    tg.launch_tiled(read_between_stores, (1,), [x], [source.T, out], block_dim=32)

    expected_x = values.copy()
    expected_source = expected_x if shares_input else values.copy()
    expected_out = expected_x if shares_output else np.zeros_like(values)
    expected_out = expected_out.T if is_out_transposed else expected_out
    a, b = values, expected_source.T.copy()
    expected_out[...] = a + 2 * b
    c = expected_x.copy()
    expected_source.T[...] = c * 3 + b
    expected_out[...] = expected_source.T - a + b @ c
    for actual, expected in ((x, expected_x), (source, expected_source), (out, expected_out)):
        np.testing.assert_array_equal(actual.numpy(), expected)


@tg.kernel
def scale_vectors(x: tg.array2d[tg.vec3f], y: tg.array2d[tg.vec3f]):
    tg.tile_store(y, 2.0 * tg.tile_load(x, shape=(5, 7)))


def test_transposed_arrays_of_vectors_in_the_interpreter() -> None:
    values = np.random.default_rng(0).integers(-9, 9, (5, 7, 3)).astype(np.float32)
    x = column_major(tg.array(values, dtype=tg.vec3f, device="cpu"))
    y = column_major(tg.zeros((5, 7), dtype=tg.vec3f, device="cpu"))
    kernel = traced(scale_vectors, [x, y], (1, 32), 32)
    prepare(kernel)
    for_cpu(kernel)
    assert any(isinstance(op, ArrayTranspose) for op in kernel.walk())
    interp.run(kernel, [x.numpy(), y.numpy()], (1, 32), 32, print, False)
    np.testing.assert_array_equal(y.numpy(), 2 * values)
