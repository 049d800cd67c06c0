"""Loaded operands of matmuls that do not fit a block together are loaded again at each matmul."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from agreement import traced
from lowering import Launch, run_lowered, tiled

import tegula as tg
from tegula.dataclass import replace
from tegula.errors import SharedMemoryExceeded
from tegula.ops.tile import TileLoad
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.automatic import build
from tegula.target import get_cuda_target

BF16 = ml_dtypes.bfloat16
SMALL_TARGET = replace(get_cuda_target("sm_90a"), shared_per_block=20 << 10)
"""A device whose blocks have memory for two tiles of 32 x 128 elements of 16 bits, but not for three."""


def matmuls(rows: int, depth: int, writes: bool = False):
    """A kernel whose tiles `a` and `b` are multiplied twice, between which two other tiles are multiplied. `writes`:
    the kernel then overwrites `A`."""

    @tg.kernel
    def kernel(
        A: tg.array2d[tg.bfloat16],
        B: tg.array2d[tg.bfloat16],
        C: tg.array2d[tg.bfloat16],
        D: tg.array2d[float],
    ):
        a, b = tg.tile_load(A, shape=(rows, depth)), tg.tile_load(B, shape=(rows, depth))
        c, d = tg.tile_load(C, shape=(rows, depth)), tg.tile_load(C, shape=(rows, depth), offset=(rows, 0))
        x = tg.tile_zeros(shape=(rows, rows), dtype=float)
        tg.tile_matmul(a, tg.tile_transpose(b), x)
        tg.tile_store(D, x)
        y = tg.tile_zeros(shape=(rows, rows), dtype=float)
        tg.tile_matmul(c, tg.tile_transpose(d), y)
        tg.tile_store(D, y, offset=(rows, 0))
        if writes:
            tg.tile_store(A, tg.tile_astype(y, tg.bfloat16))
        tg.tile_matmul(b, tg.tile_transpose(a), y)
        tg.tile_store(D, y, offset=(2 * rows, 0))

    return kernel


def launch(rows: int, depth: int, writes: bool = False) -> Launch:
    random = np.random.default_rng(3)
    a, b, c = (random.standard_normal((n * rows, depth)).astype(BF16) for n in (1, 1, 2))
    args = [a, b, c, np.zeros((3 * rows, rows), np.float32)]
    return tiled(matmuls(rows, depth, writes), args, (1,), 128)


def test_tiles_that_do_not_fit_together_are_loaded_again() -> None:
    arguments = launch(32, 128)
    kernel = traced(arguments.kernel, arguments.args, arguments.dims, arguments.block_dim)
    prepare(kernel)
    built = build(kernel, SMALL_TARGET)
    assert 2 * 32 * 128 * 2 <= built.code.shared_bytes <= SMALL_TARGET.shared_per_block


def test_written_arrays_are_loaded_once() -> None:
    arguments = launch(32, 128, writes=True)
    kernel = traced(arguments.kernel, arguments.args, arguments.dims, arguments.block_dim)
    prepare(kernel)
    with pytest.raises(SharedMemoryExceeded):
        build(kernel, SMALL_TARGET)


@pytest.mark.parametrize("writes", [False, True])
def test_reloaded_tiles_have_the_same_elements(writes: bool) -> None:
    arguments = launch(16, 32, writes)
    kernel = traced(arguments.kernel, arguments.args, arguments.dims, arguments.block_dim)
    prepare(kernel)
    parts = for_gpu(kernel, get_cuda_target(), reload=True)
    loads = [op for op in kernel.walk() if isinstance(op, TileLoad)]
    assert len(loads) == (5 if writes else 6)
    a, b, c = (x.astype(np.float64) for x in arguments.args[:3])
    y = c[:16] @ c[16:].T
    (*_, actual), _ = run_lowered(kernel, parts, arguments)
    np.testing.assert_allclose(actual, np.vstack([a @ b.T, y, y + b @ a.T]), atol=1e-4)
