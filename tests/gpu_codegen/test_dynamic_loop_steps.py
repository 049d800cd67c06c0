"""Matmuls in loops whose step is known at run time: the step may be positive or negative, and the loop may have no
iteration."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_code import run_gpu_passes
from simt import run_together

import tegula as tg
from tegula.check.schedule import check_schedule
from tegula.codegen.gpu import lower_kernel
from tegula.runtime.launch import block_size
from tegula.target import get_cuda_target

M, N, K = 64, 16, 16
HALF = tg.bfloat16


@tg.kernel
def strided_matmul(
    x: tg.array2d[HALF], y: tg.array2d[HALF], z: tg.array2d[tg.float32], first: int, last: int, step: int
):
    p = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=2)
    q = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=2)
    with tg.role("fetch", warps=1):
        for k in range(first, last, step):
            tg.tile_pipe_load(p, x, offset=(0, k * K))
            tg.tile_pipe_load(q, y, offset=(k * K, 0))
    with tg.role("multiply", warp_groups=1):
        total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
        for _k in range(first, last, step):
            tg.tile_matmul(tg.tile_pipe_pop(p), tg.tile_pipe_pop(q), total)
        tg.tile_store(z, total)


@pytest.mark.machine_code
def test_loops_with_steps_of_either_sign_match_python() -> None:
    rng = np.random.default_rng(1)
    numpy_dtype = tg.zeros(1, dtype=HALF).numpy().dtype
    x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((M, 5 * K), (5 * K, N)))
    args = [
        tg.array(x.astype(numpy_dtype)),
        tg.array(y.astype(numpy_dtype)),
        tg.zeros((M, N), dtype=tg.float32),
        0,
        5,
        1,
    ]
    threads = block_size(strided_matmul, None, args)
    kernel, compilation = run_gpu_passes(strided_matmul, args, (1,), threads)
    verdict = check_schedule(kernel, compilation)
    assert verdict.accepted, verdict.message
    assert any(op.attrs.get("wait") is False for op in kernel.walk()), "the wait is not delayed"
    code = lower_kernel(kernel, compilation, get_cuda_target())
    for bounds in ((0, 3, 2), (2, -1, -1), (0, 5, -1)):
        args[3:] = bounds
        run_together(code, strided_matmul, args, (1, threads), 1)
        expected = np.zeros((M, N), np.float32)
        for k in range(*bounds):
            expected += x[:, k * K : k * K + K] @ y[k * K : k * K + K]
        np.testing.assert_array_equal(args[2].numpy(), expected)
