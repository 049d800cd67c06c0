"""Reports of `explain()` on kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from support.array_order import column_major


@tg.kernel
def transposed_sum(a: tg.array2d[float], out: tg.array2d[float]):
    t = tg.tile_load(a, shape=(128, 128))
    tg.tile_store(out, t * 2.0 + tg.tile_transpose(t))


@pytest.mark.machine_code
def test_explain_names_tiles_in_local_memory():
    a, out = tg.ones((128, 128)), tg.zeros((128, 128))
    tg.launch_tiled(transposed_sum, 1, inputs=[a, out], block_dim=32)
    lines = transposed_sum.explain().splitlines()
    assert any(line.split()[1:2] == ["65,536"] for line in lines), lines
    assert any("a: array" in line and "packed, 64-byte aligned" in line for line in lines)
    assert (out.numpy() == 3.0).all()


@pytest.mark.machine_code
def test_explain_names_the_order_of_arrays() -> None:
    @tg.kernel
    def copied(a: tg.array2d[float], out: tg.array2d[float]):
        tg.tile_store(out, tg.tile_load(a, shape=(4, 8)))

    a, out = column_major(np.arange(32, dtype=np.float32).reshape(4, 8)), tg.zeros((4, 16))[:, ::2]
    tg.launch_tiled(copied, 1, inputs=[a, out], block_dim=32)
    lines = [line for line in copied.explain().splitlines() if ": array" in line]
    assert ["(unit stride along columns" in line for line in lines] == [True, False]
    assert ["(strided" in line for line in lines] == [False, True]
    np.testing.assert_array_equal(out.numpy(), a.numpy())


def test_explain_of_a_kernel_that_was_not_launched_is_an_error():
    @tg.kernel
    def fresh(a: tg.array[float]):
        a[0] = 1.0

    with pytest.raises(tg.LaunchError, match="launch the kernel first"):
        fresh.explain()
