"""Cholesky factors in the registers of a warp, whose lanes hold a matrix as a grid of 4 x 8, run by the model of the
instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from simt import run_together

import tegula as tg
from tegula.stdlib.tiles.cholesky import reference


def factors(n: int) -> Any:
    @tg.kernel
    def kernel(a, out, info):
        i = tg.tid()
        factor, first = tg.tile_cholesky(tg.tile_load(a[i], shape=(n, n)), info=True)
        tg.tile_store(out[i], factor)
        tg.tile_store(info[i], first)

    return kernel


def matrices(n: int, dtype: Any) -> np.ndarray:
    """A matrix that is positive definite, and matrices with a pivot that is not positive, an infinite element and an
    infinite pivot. The triangle that is not read is NaN."""
    m = np.random.default_rng(n).standard_normal((4, n, n))
    x = (m @ m.transpose(0, 2, 1) + n * np.eye(n)).astype(dtype)
    x[1, n // 2, n // 2] = -1
    x[2, n - 2, 3] = np.inf
    x[3, 6, 6] = np.inf
    return x + np.triu(np.full((n, n), np.nan, dtype), 1)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        (17, np.float32),
        pytest.param(33, np.float32, marks=pytest.mark.slow),
        pytest.param(24, np.float64, marks=pytest.mark.slow),
    ],
)
def test_factors_on_grids_match_the_reference(n: int, dtype: Any) -> None:
    x = matrices(n, dtype)
    args = [tg.array(x), tg.zeros((4, n, n), dtype=x.dtype), tg.full((4, 1), -1, dtype=int)]
    code = lower_to_llvm(factors(n), args, (4,), 32)
    run_together(code, factors(n), args, (4, 32), 2, rows=2)
    with np.errstate(invalid="ignore"):
        expected, first = reference(np.tril(x.astype(np.float64)), info=True)
    np.testing.assert_allclose(args[1].numpy(), np.tril(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(args[2].numpy(), first)


@pytest.mark.parametrize(
    ("n", "registers", "shuffles"), [(32, 40, 270), pytest.param(64, 96, 230, marks=pytest.mark.slow)]
)
def test_factors_on_grids_need_neither_shared_memory_nor_barriers(
    n: int, registers: int, shuffles: int
) -> None:
    """Of large matrices loops over the columns of a slot are not unrolled, so that the code stays short."""

    @tg.kernel
    def kernel(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        tg.tile_store(out[i], tg.tile_cholesky(tg.tile_load(a[i], shape=(n, n))))

    text, cubin = assemble(lower_to_llvm(kernel, [tg.zeros((8, n, n)), tg.zeros((8, n, n))], (8,), 32))
    assert ".shared" not in text and "bar.sync" not in text
    assert text.count("shfl.sync") <= shuffles
    assert cubin.registers <= registers and not cubin.spill_bytes
