"""Combined blocks as GPU code: each block of the launch runs once, for any number of CTAs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm, run_serially

import tegula as tg


@tg.kernel
def column_sums(a: tg.array2d[tg.float64], sums: tg.array1d[tg.float64]):
    i = tg.tid()
    tg.tile_atomic_add(sums, tg.tile_load(a[i], 64))


@tg.kernel
def squares(a: tg.array2d[tg.float64], result: tg.array1d[tg.float64]):
    i, j = tg.tid()
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile(a[i, j] * a[i, j])))


@pytest.mark.machine_code
@pytest.mark.parametrize("blocks", [1, 3, 10])
def test_combined_blocks_run_every_block_once(blocks: int) -> None:
    a = tg.array(np.arange(640.0).reshape(10, 64))
    sums = tg.ones(64, dtype=tg.float64)
    code = lower_to_llvm(column_sums, [a, sums], (10,), 32)
    run_serially(code, column_sums, [a, sums], (10, 32), blocks)
    np.testing.assert_array_equal(sums.numpy(), 1 + a.numpy().sum(0))


def test_the_loop_of_combined_blocks_only_loads_and_adds() -> None:
    args = [tg.zeros((16, 1024), dtype=tg.float64), tg.zeros(1, dtype=tg.float64)]
    text, cubin = assemble(lower_to_llvm(squares, args, (16, 4), 256))
    loop = text[text.index("ld.global") :]
    assert loop.index("bra") < loop.index("shfl.sync") < loop.index("bar")
    assert len(re.findall(r"\batom\.", text)) == 1
    assert cubin.spill_bytes == 0
