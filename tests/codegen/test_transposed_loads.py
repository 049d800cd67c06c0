"""The transpose of a loaded tile that is copied to another tile is read from the array, and the transpose of a tile is
written to an array, in squares in registers."""

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

DTYPES = (tg.vec2f, float, tg.float64, tg.int8, tg.vec2i, tg.vec2d)


def transposing_kernel(rows: int, columns: int, checked: bool = False, clears: bool = False) -> Any:
    """A kernel that stores the transpose of a part of `x`. `clears`: the part is overwritten before it is copied."""

    @tg.kernel
    def transpose(x: tg.array2d[Any], y: tg.array2d[Any], row: int, column: int):
        t = tg.tile_load(x, shape=(rows, columns), offset=(row, column), bounds_check=checked)
        result = tg.tile_empty(shape=(columns, rows), dtype=type(t[0, 0]))
        if tg.static(clears):
            tg.tile_store(x, t - t, offset=(row, column), bounds_check=False)
        tg.tile_assign(result, tg.tile_transpose(t), (0, 0))
        tg.tile_store(y, result)

    return transpose


def check_transposed(
    dtype: Any, rows: int, columns: int, kernel: Any, order: str = "C", in_place: bool = False
) -> None:
    values = np.random.default_rng(rows).integers(
        -100, 100, (rows + 5, columns + 3, tg.zeros(1, dtype).numpy().size)
    )
    plain = tg.zeros(1, dtype).numpy()
    values = values.astype(plain.dtype).reshape(rows + 5, columns + 3, *plain.shape[1:])
    x = tg.array(np.array(values, order=order), dtype=dtype, copy=False)
    y = x if in_place else tg.zeros((columns, rows), dtype)
    tg.launch_tiled(kernel, (1,), [x, y, 3, 2], block_dim=8)
    np.testing.assert_array_equal(
        y.numpy()[:columns, :rows], values[3:, 2 : 2 + columns][:rows].swapaxes(0, 1)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes_of_loaded_tiles_match_numpy(dtype: Any) -> None:
    check_transposed(dtype, 17, 24, transposing_kernel(17, 24))


@pytest.mark.parametrize(("rows", "columns"), [(16, 40), (5, 7), (3, 100), (64, 33)])
def test_transposes_of_loaded_tiles_of_any_shape_match_numpy(rows: int, columns: int) -> None:
    check_transposed(tg.vec2f, rows, columns, transposing_kernel(rows, columns))


def test_transposes_of_loaded_tiles_read_arrays_of_any_strides() -> None:
    check_transposed(float, 16, 16, transposing_kernel(16, 16), order="F")
    check_transposed(float, 16, 16, transposing_kernel(16, 16), in_place=True)


def test_loads_precede_stores_to_the_same_elements() -> None:
    check_transposed(float, 16, 16, transposing_kernel(16, 16, clears=True))


def test_transposes_of_loaded_tiles_have_one_copy() -> None:
    """A load that may leave the array has a copy in memory of its own."""
    sizes = {}
    for checked in (False, True):
        kernel = transposing_kernel(32, 64, checked)
        tg.launch_tiled(kernel, (1,), [tg.zeros((32, 64)), tg.zeros((64, 32)), 0, 0], block_dim=8)
        sizes[checked] = kernel.llvm().count("load <")
    assert 0 < sizes[False] < sizes[True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(17, 24), (5, 7), (64, 33), (1, 16)])
def test_stores_of_transposes_match_numpy(dtype: Any, rows: int, columns: int) -> None:
    @tg.kernel
    def transpose(x: tg.array2d[Any], y: tg.array2d[Any], row: int):
        t = tg.tile_load(x, shape=(rows, columns))
        t += t
        tg.tile_store(y, tg.tile_transpose(t), offset=(row, 1), bounds_check=False)

    plain = tg.zeros((rows, columns), dtype).numpy()
    values = np.random.default_rng(0).integers(-60, 60, plain.shape).astype(plain.dtype)
    shape = (columns + 3, rows + 2, *plain.shape[2:])
    in_columns = np.zeros((rows + 2, columns + 3, *plain.shape[2:]), plain.dtype).swapaxes(0, 1)
    for result in (np.zeros(shape, plain.dtype), in_columns):
        y = tg.array(result, dtype=dtype, copy=False)
        tg.launch_tiled(transpose, (1,), [tg.array(values, dtype=dtype), y, 2], block_dim=8)
        expected = np.zeros_like(result)
        expected[2 : 2 + columns, 1 : 1 + rows] = 2 * values.swapaxes(0, 1)
        np.testing.assert_array_equal(y.numpy(), expected)
