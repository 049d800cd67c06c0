"""Counted `while` loops get roles like `for` loops."""

from __future__ import annotations

from role_rewriting import assert_equal_results, interpreted, results_without_roles, rewritten
from scheduled_kernels import Launch, bf16, gemm

import tegula as tg


@tg.kernel
def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[bf16]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    k = 0
    while k < a.shape[1]:
        x = tg.tile_load(a, shape=(64, 32), offset=(i * 64, k))
        tg.tile_matmul(x, tg.tile_load(b, shape=(32, 64), offset=(k, j * 64)), total)
        k += 32
    tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * 64, j * 64))


def test_a_while_loop_over_offsets_gets_roles() -> None:
    launch = Launch(matmul, gemm(128, 192, 88), (2, 3))
    kernel, schedule = rewritten(launch)
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(interpreted(kernel, launch), results_without_roles(launch), launch.exact)
