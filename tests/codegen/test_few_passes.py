"""Code of tiles passes few of LLVM's passes; code of threads that access arrays passes those for loops too."""

from __future__ import annotations

import pytest

import tegula as tg
from tegula.codegen.attributes import FEW_PASSES


@tg.kernel
def row_sums(a: tg.array2d[float], out: tg.array[float]):
    i = tg.tid()
    tg.tile_store(out, tg.tile_sum(tg.tile_load(a[i], 64)), offset=i)


@tg.kernel
def sums_of_threads(a: tg.array2d[float], out: tg.array[float]):
    i = tg.tid()
    total = 0.0
    for k in range(64):
        total += a[i, k]
    out[i] = total


@pytest.mark.machine_code
def test_only_threads_that_access_elements_of_arrays_need_all_passes() -> None:
    a, out = tg.ones((8, 64)), tg.zeros(8)
    tg.launch_tiled(row_sums, dim=8, inputs=[a, out], block_dim=32)
    assert (out.numpy() == 64).all() and FEW_PASSES in row_sums.llvm()
    tg.launch(sums_of_threads, dim=8, inputs=[a, out])
    assert (out.numpy() == 64).all() and FEW_PASSES not in sums_of_threads.llvm()
