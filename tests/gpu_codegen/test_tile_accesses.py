"""Loads and stores of tiles as GPU code, run thread by thread: inside, across each edge, outside, aligned or not."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_code import lower_to_llvm, run_serially

import tegula as tg

pytestmark = pytest.mark.machine_code

DTYPES = [np.int8, np.uint8, np.bool_, np.int16, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
DTYPES += [np.float32, np.int32, np.float64]
THREADS = 32


@cache
def copy_range(n: int) -> Any:
    @tg.kernel
    def copy_range(x: tg.array1d[Any], y: tg.array1d[Any], source: int, target: int):
        i = tg.tid()
        tg.tile_store(y, tg.tile_load(x, n, offset=source + i * n), offset=target + i * n)

    return copy_range


@cache
def copy_window(rows: int, columns: int) -> Any:
    @tg.kernel
    def copy_window(x: tg.array2d[Any], y: tg.array2d[Any], row: int, column: int):
        i = tg.tid()
        t = tg.tile_load(x, (rows, columns), offset=(row + i, column))
        tg.tile_store(y, t, offset=(i * rows, -column))

    return copy_window


@cache
def row_copy_kernel(n: int) -> Any:
    @tg.kernel
    def copy_row(x: tg.array2d[Any], y: tg.array2d[Any]):
        i = tg.tid()
        tg.tile_store(y[i], tg.tile_load(x[i], n))

    return copy_row


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers that repeat after seven elements, exact in every type."""
    result = np.arange(1, np.prod(shape) + 1).reshape(shape) % 7 + 1
    return (result % 3 == 0) if dtype is np.bool_ else result.astype(dtype)


def check(kernel: Any, x: np.ndarray, y: np.ndarray, scalars: tuple[int, ...], blocks: int) -> None:
    """The code for the GPU stores the same elements as the code for the CPU."""
    expected, result = y.copy(), y.copy()
    tg.launch_tiled(
        kernel, blocks, [tg.array(x, copy=False), tg.array(expected, copy=False), *scalars], block_dim=THREADS
    )
    arrays = [tg.array(a, copy=False) for a in (x, result)]
    code = lower_to_llvm(kernel, [*arrays, *scalars], (blocks,), THREADS)
    run_serially(code, kernel, [*arrays, *scalars], (blocks, THREADS), blocks)
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("source", "target"), [(0, 0), (-5, 3), (8, -16), (3, 0), (600, 0), (-700, 900)])
def test_loads_and_stores_of_one_dimension_match_numpy(dtype: Any, source: int, target: int) -> None:
    check(copy_range(256), numbers((600,), dtype), numbers((640,), dtype), (source, target), 3)


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.bfloat16, np.float32], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("offset", [(0, 0), (2, 8), (-3, -8), (5, 3), (40, 0)])
def test_loads_and_stores_of_two_dimensions_match_numpy(dtype: Any, offset: tuple[int, int]) -> None:
    check(copy_window(4, 64), numbers((9, 72), dtype), numbers((12, 80), dtype), offset, 2)


@pytest.mark.parametrize("columns", [72, 64, 50, 300])
def test_loads_and_stores_of_rows_of_any_length_match_numpy(columns: int) -> None:
    """Arrays with rows as long as the tile, shorter and longer."""
    for dtype in (ml_dtypes.bfloat16, np.float64):
        check(row_copy_kernel(64), numbers((3, columns), dtype), numbers((3, columns), dtype), (), 3)


def test_loads_and_stores_of_strided_arrays_match_numpy() -> None:
    x = numbers((9, 288), np.int16)[:, ::4]
    check(copy_window(4, 64), x, numbers((12, 80), np.int16), (2, 8), 2)


def test_tiles_at_the_largest_offsets_access_no_element() -> None:
    """Tiles at offsets near the limits of their type access no element."""
    for offset in (2**31 - 257, -(2**31)):
        check(copy_range(256), numbers((600,), np.int16), numbers((640,), np.int16), (offset, 0), 1)


def test_loads_and_stores_of_tiles_narrower_than_a_block_match_numpy() -> None:
    check(copy_range(24), numbers((100,), ml_dtypes.bfloat16), numbers((100,), ml_dtypes.bfloat16), (0, 4), 3)
