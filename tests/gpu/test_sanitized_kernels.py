"""A kernel for each way of lowering, small enough for sanitizers; `tools/sanitize.py` runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agreement
import kernel_arguments
import numpy as np
import pytest
from pipe_chain import chain

import kernels
import tegula as tg
from tegula.kernels import attention, matmul

DEVICE = "cuda:0"


@pytest.mark.parametrize("name", kernels.NAMES)
def test_kernels_of_one_block_run_under_the_sanitizer(name: str) -> None:
    with tg.ScopedDevice(DEVICE):
        launch = kernels.launches()[name]
        agreement.agree(launch.kernel, launch.args, launch.dims, launch.block_dim)


# Roles ---------------------------------------------------------------------------------------------------------------


@tg.kernel
def two_producers(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    left = tg.tile_pipe(shape=(8, 32), dtype=float, stages=2)
    right = tg.tile_pipe(shape=(8, 32), dtype=float, stages=3)
    with tg.role("left", warps=1):
        for k in range(n):
            tg.tile_pipe_load(left, x, offset=(8 * k, 0))
    with tg.role("right", warps=1):
        for k in range(n):
            tg.tile_pipe_load(right, y, offset=(8 * k, 0))
    with tg.role("add", warp_groups=1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(left) + tg.tile_pipe_pop(right), offset=(8 * k, 0))


@tg.kernel
def two_readers(x: tg.array2d[float], sums: tg.array1d[float], tops: tg.array1d[float], n: int):
    rows = tg.tile_pipe(shape=256, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(rows, x[k])
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(sums, tg.tile_sum(tg.tile_pipe_pop(rows)), offset=k)
    with tg.ws(2):
        for k in range(n):
            tg.tile_store(tops, tg.tile_max(tg.tile_pipe_pop(rows)), offset=k)


def run_chain() -> None:
    x, out = tg.array(kernel_arguments.integers(10, 32, dtype="float32")), tg.zeros((10, 32))
    tg.launch_tiled(chain(2), dim=1, inputs=[x], outputs=[out, 10])
    assert np.array_equal(out.numpy(), x.numpy() ** 2)


def run_two_producers() -> None:
    x, y = (tg.array(kernel_arguments.integers(56, 32, dtype="float32", seed=s)) for s in (0, 1))
    out = tg.zeros((56, 32))
    tg.launch_tiled(two_producers, dim=1, inputs=[x, y], outputs=[out, 7])
    assert np.array_equal(out.numpy(), x.numpy() + y.numpy())


def run_two_readers() -> None:
    x, sums, tops = tg.array(kernel_arguments.integers(9, 256, dtype="float32")), tg.zeros(9), tg.zeros(9)
    tg.launch_tiled(two_readers, dim=1, inputs=[x], outputs=[sums, tops, 9])
    assert np.array_equal(sums.numpy(), x.numpy().sum(1)) and np.array_equal(tops.numpy(), x.numpy().max(1))


def run_matmul(dtype: str, **options: Any) -> Callable[[], None]:
    """A matmul with ragged tiles and exact sums."""

    def run() -> None:
        a, b = (
            kernel_arguments.integers(*s, dtype=dtype, seed=k) for k, s in enumerate(((200, 136), (136, 264)))
        )
        right = np.ascontiguousarray(b.T) if options.get("transpose_b") else b
        result = matmul(tg.array(a), tg.array(right), out=tg.zeros((200, 264)), **options)
        assert np.array_equal(result.numpy(), kernel_arguments.to_float64(a) @ kernel_arguments.to_float64(b))

    return run


def run_attention(causal: bool) -> Callable[[], None]:
    def run() -> None:
        q, k, v = (
            kernel_arguments.normal(1, heads, 200, 64, seed=heads + s) for s, heads in enumerate((2, 1, 1))
        )
        result = attention(*(tg.array(x) for x in (q, k, v)), causal=causal)
        scores = kernel_arguments.to_float64(q) @ kernel_arguments.to_float64(k).swapaxes(2, 3) / 8.0
        if causal:
            scores[..., np.triu_indices(200, 1)[0], np.triu_indices(200, 1)[1]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        kernel_arguments.assert_near(
            result, weights / weights.sum(-1, keepdims=True) @ kernel_arguments.to_float64(v), "bfloat16", 4.0
        )

    return run


WITH_ROLES = {
    "chain": run_chain,
    "two_producers": run_two_producers,
    "two_readers": run_two_readers,
    "matmul_bfloat16": run_matmul("bfloat16"),
    "matmul_bfloat16_transposed": run_matmul("bfloat16", transpose_b=True),
    "matmul_float32": run_matmul("float32"),
    "attention": run_attention(causal=False),
    "attention_causal": run_attention(causal=True),
}


@pytest.mark.parametrize("name", WITH_ROLES)
def test_kernels_with_roles_run_under_the_sanitizer(name: str) -> None:
    with tg.ScopedDevice(DEVICE):
        WITH_ROLES[name]()
