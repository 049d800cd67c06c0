"""Overlapped iterations have the same bits as on the CPU, also at the edges of arrays and for subnormal, infinite and
NaN numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm, run_serially
from row_kernels import WIDTH, each_row, load_next_row

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

THREADS = 32


@tg.kernel
def decaying_sums(a: tg.array2d[float], b: tg.array2d[float], n: int):
    total = tg.tile_zeros(shape=(1, WIDTH), dtype=float)
    for i in range(n):
        total = total * 0.5 + tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(b, total, offset=(i, 0))


@pytest.mark.parametrize("kernel", [each_row, load_next_row, decaying_sums])
@sampled(3, "n", [1, 7, 8, 21])
def test_interleaved_iterations_have_the_bits_of_the_cpu(kernel: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((19, 36)).astype(np.float32)
    draws = rng.random(a.shape)
    a = np.where(draws < 0.05, a * 1e7, np.where(draws < 0.1, a * 1e-39, a)).astype(np.float32)
    a[3, 7], a[4, 9], a[5, 0] = np.inf, 0.0, np.nan
    results = []
    for on_cpu in (True, False):
        arguments = [tg.array(a), tg.full((17, 34), -1.0, dtype=tg.float32), n]
        if on_cpu:
            tg.launch_tiled(kernel, 1, arguments, block_dim=THREADS)
        else:
            run_serially(lower_to_llvm(kernel, arguments, (1,), THREADS), kernel, arguments, (1, THREADS), 1)
        results.append(arguments[1].numpy())
    expected, actual = results
    has_equal_bits = (actual.view(np.uint32) == expected.view(np.uint32)) | (
        np.isnan(actual) & np.isnan(expected)
    )
    assert has_equal_bits.all(), (actual[~has_equal_bits][:5], expected[~has_equal_bits][:5])
