"""Matmuls scaled by 0 as GPU code: the scaled term is 0, for every matmul unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, run_gpu_passes
from simt import run_together

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.runtime.launch import block_size
from tegula.target import get_cuda_target

M, N, K = 64, 16, 32
NON_FINITE = (np.nan, np.inf, -np.inf)


@tg.kernel
def warp_matmul(
    x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[tg.float32], alpha: tg.float32, beta: tg.float32
):
    out = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N)), out, alpha=alpha, beta=beta)
    tg.tile_store(z, out)


@tg.kernel
def warp_group_matmul(
    x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[tg.float32], alpha: tg.float32, beta: tg.float32
):
    p = tg.tile_pipe(shape=(M, K), dtype=tg.bfloat16, stages=2)
    q = tg.tile_pipe(shape=(K, N), dtype=tg.bfloat16, stages=2)
    with tg.role("fetch", warps=1):
        tg.tile_pipe_load(p, x)
        tg.tile_pipe_load(q, y)
    with tg.role("multiply", warp_groups=1):
        out = tg.tile_load(z, shape=(M, N))
        tg.tile_matmul(tg.tile_pipe_pop(p), tg.tile_pipe_pop(q), out, alpha=alpha, beta=beta)
        tg.tile_store(z, out)


UNITS = {
    "threads": (warp_matmul, np.float32, "fma.rn"),
    "warps": (warp_matmul, "bfloat16", "mma.sync"),
    "groups": (warp_group_matmul, "bfloat16", "wgmma.mma_async"),
}


@pytest.mark.machine_code
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("unit", "factors"),
    [
        pytest.param("threads", (3.0, -0.0), marks=pytest.mark.slow),
        ("warps", (0.0, 3.0)),
        ("groups", (3.0, -0.0)),
    ],
    ids=str,
)
def test_matmuls_with_zero_factors_known_at_run_time_match_numpy(
    unit: str, factors: tuple[float, float]
) -> None:
    kernel, dtype, instruction = UNITS[unit]
    dtype = tg.zeros(1, dtype=tg.bfloat16).numpy().dtype if dtype == "bfloat16" else dtype
    rng = np.random.default_rng(len(unit))
    a, b, c = (rng.integers(-3, 4, s).astype(np.float32) for s in ((M, K), (K, N), (M, N)))
    expected = factors[0] * (a @ b) if factors[0] else factors[1] * c
    for array in (a, b) if not factors[0] else (c,):
        array.flat[::5] = rng.choice(NON_FINITE, array.flat[::5].shape)
    args = [tg.array(a.astype(dtype)), tg.array(b.astype(dtype)), tg.array(c), *factors]
    threads = block_size(kernel, None, args) if kernel is warp_group_matmul else 64
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (1,), threads)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    run_together(code, kernel, args, (1, threads), 1)
    np.testing.assert_array_equal(args[2].numpy(), expected)
    assert instruction in assemble(code)[0]
