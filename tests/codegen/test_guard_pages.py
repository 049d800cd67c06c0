"""Tiles that extend beyond the end of an array, where the next page of memory cannot be accessed."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

PAGE = mmap.PAGESIZE
COLUMNS, ROWS = 32, 64
EIGHT = tg.vector(8, float)


@tg.kernel
def sums(a: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    rows = tg.tile_load(a, shape=(ROWS, COLUMNS), offset=(0, 0))
    tg.tile_store(out[i], tg.tile_sum(rows, axis=0))


@tg.kernel
def copies(a: tg.array2d[float], out: tg.array2d[float]):
    tg.tile_store(out, tg.tile_load(a, shape=(ROWS, COLUMNS)))


@tg.kernel
def extended(vectors: tg.uint64, out: tg.array1d[EIGHT]):
    i = tg.tid()
    v = tg._element_at(vectors + tg.uint64(i) * tg.uint64(12), tg.vec3)
    out[i] = EIGHT(v[0], v[1], v[2], 0.0, 0.0, 0.0, 0.0, 0.0)


def array_before_guard_page(rows: int) -> np.ndarray:
    """Rows of zeros that end at a page without permissions."""
    size = rows * COLUMNS * 4
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + pages * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    first = (pages * PAGE - size) // 4
    return np.frombuffer(memory, np.float32, rows * COLUMNS, first * 4).reshape(rows, COLUMNS)


def seconds(run: Callable[[], object]) -> float:
    run()
    samples: list[float] = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return min(samples)


def test_tile_rows_beyond_the_end_of_an_array_cost_little() -> None:
    """A masked access to an unmapped page takes hundreds of cycles, even if no element is accessed."""
    out = tg.zeros((2000, COLUMNS))
    short, full = (tg.array(array_before_guard_page(rows), copy=False) for rows in (2, ROWS))
    times = [
        seconds(lambda a=a: tg.launch_tiled(sums, 2000, inputs=[a], outputs=[out], block_dim=32))
        for a in (short, full)
    ]
    assert times[0] < 15 * times[1]
    assert not out.numpy().any()


def test_no_element_beyond_the_end_of_an_array_is_accessed() -> None:
    a, out = array_before_guard_page(3), array_before_guard_page(5)
    a[:] = np.arange(a.size).reshape(a.shape)
    out[:] = -1
    tg.launch_tiled(copies, 1, [tg.array(a, copy=False)], [tg.array(out, copy=False)], block_dim=32)
    np.testing.assert_array_equal(out, np.concatenate([a, np.zeros((2, COLUMNS))]))


def test_three_components_are_read_by_one_masked_load() -> None:
    a = array_before_guard_page(3)
    a[:] = np.arange(1, a.size + 1).reshape(a.shape)
    count = a.size // 3
    out = tg.empty(count, dtype=EIGHT)
    tg.launch(extended, count, [a.ctypes.data], [out], block_dim=1)
    np.testing.assert_array_equal(out.numpy()[:, :3], a.reshape(count, 3))
    assert not out.numpy()[:, 3:].any()
    assert "@llvm.masked.load.v4f32" in extended.llvm()
