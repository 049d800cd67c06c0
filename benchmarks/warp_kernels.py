"""The guide's pipelining in Warp, if Warp is installed: the same kernels as in gpu_kernels.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import warp as wp

# Warp's compiler may be newer than the driver, which then accepts machine code only.
wp.config.cuda_output = "cubin"
wp.init()

TILE_N = wp.constant(256)
N_ROWS = wp.constant(512)


@wp.func
def activation(x: float):
    return wp.sin(x * 1.1 + 0.1)


@wp.func
def normalize(x: float):
    return wp.exp(-wp.abs(x) * 0.5)


@wp.func
def transform(x: float):
    return wp.sqrt(wp.abs(x) + 1.0)


@wp.func
def squash(x: float):
    return wp.tanh(x * 0.7)


@wp.kernel(enable_backward=False)
def sequential(inp: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    for i in range(N_ROWS):
        a = wp.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")
        a = wp.tile_map(activation, a)
        a = wp.tile_map(normalize, a)
        a = wp.tile_map(transform, a)
        a = wp.tile_map(squash, a)
        wp.tile_store(out, a, offset=(i, 0))


@wp.kernel(enable_backward=False)
def pipelined(inp: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    a = wp.tile_load(inp, shape=(1, TILE_N), offset=(0, 0), storage="register")

    for i in range(1, N_ROWS):
        b = wp.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")

        a = wp.tile_map(activation, a)
        a = wp.tile_map(normalize, a)
        a = wp.tile_map(transform, a)
        a = wp.tile_map(squash, a)
        wp.tile_store(out, a, offset=(i - 1, 0))

        a = b

    a = wp.tile_map(activation, a)
    a = wp.tile_map(normalize, a)
    a = wp.tile_map(transform, a)
    a = wp.tile_map(squash, a)
    wp.tile_store(out, a, offset=(N_ROWS - 1, 0))


KERNELS = {"Warp's sequential": sequential, "Warp's pipelined": pipelined}


def launch(kernel: Any, x: torch.Tensor, y: torch.Tensor, threads: int) -> Callable[[], None]:
    """A launch of one block in PyTorch's current stream."""
    arrays = [wp.from_torch(x), wp.from_torch(y)]
    stream = wp.stream_from_torch(torch.cuda.current_stream(x.device))

    def run() -> None:
        wp.launch_tiled(kernel, dim=[1], inputs=arrays, block_dim=threads, stream=stream)

    return run
