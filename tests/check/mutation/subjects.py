"""The kernels whose schedules are mutated, and the launches in which they are replayed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from schedules import chain, lowered, two_producers

import tegula as tg
from tegula.dataclass import dataclass
from tegula.interp.engines.launch import PreparedKernel, prepared
from tegula.interp.lowered import BlockDistribution
from tegula.ir import Kernel
from tegula.kernels import gemm
from tegula.kernels.shapes import Tile
from tegula.passes.runner import GpuCompilation

attention: Any = importlib.import_module("tegula.kernels.attention")
bf16, f32 = ml_dtypes.bfloat16, np.float32


@dataclass(slots=True)
class Subject:
    """A lowered kernel, and the arguments of the launches in which the kernel is replayed."""

    name: str
    kernel: Kernel
    compilation: GpuCompilation
    prepared: PreparedKernel
    dims: tuple[int, ...]
    launches: list[list[Any]]


def zeros(*shape: int, dtype: Any = bf16) -> np.ndarray:
    return np.zeros(shape, dtype)


def persistent(stages: int = 3) -> Any:
    """A role of two warp groups sums the tiles of a grid over k, and two consumers read the sums."""

    @tg.kernel
    def sums(
        x: tg.array3d[float], out: tg.array3d[float], top: tg.array3d[float], rows: int, columns: int, n: int
    ):
        pipe = tg.tile_pipe(shape=(1, 8, 64), dtype=float, stages=stages)
        done = tg.tile_pipe(shape=(8, 64), dtype=float, stages=2)
        with tg.role("load", warps=1):
            for i, j in tg.persistent_tiles((rows, columns)):
                for k in range(n):
                    tg.tile_pipe_load(pipe, x, offset=(k, 8 * i, 64 * j))
        with tg.role("sum", warp_groups=2):
            for _i, _j in tg.persistent_tiles((rows, columns)):
                total = tg.tile_zeros(shape=(8, 64))
                for _k in range(n):
                    total += tg.tile_squeeze(tg.tile_pipe_pop(pipe), axis=0)
                tg.tile_pipe_push(done, total)
        with tg.role("store", warps=2):
            for i, j in tg.persistent_tiles((rows, columns)):
                tg.tile_store(out[0], tg.tile_pipe_pop(done), offset=(8 * i, 64 * j))
        with tg.role("double", warps=2):
            for i, j in tg.persistent_tiles((rows, columns)):
                tg.tile_store(top[0], 2.0 * tg.tile_pipe_pop(done), offset=(8 * i, 64 * j))

    return sums


def _matmul(m: int, n: int, k: int) -> list[Any]:
    return [zeros(m, k), zeros(k, n), 0, 1.0, 0.0, zeros(m, n)]


def _matmul32(m: int, n: int, k: int) -> list[Any]:
    return [zeros(m, k, dtype=f32), zeros(k, n, dtype=f32), 0, 1.0, 0.0, zeros(m, n, dtype=f32)]


def _attention(rows: int, keys: int) -> list[Any]:
    q, k, v = (zeros(1, 1, n, 64) for n in (rows, keys, keys))
    _, scalars = attention.launch_shape(q.shape, k.shape, 16, 1, False)
    return [q, k, v, 0.125, *scalars, zeros(1, 1, rows, dtype=f32), zeros(1, 1, rows, 64)]


def _chain(n: int) -> list[Any]:
    return [zeros(128, 64 * n), zeros(64 * n, 128), zeros(128, 128, dtype=f32), n]


def _producers(n: int) -> list[Any]:
    return [*(zeros(max(n, 1), 256, dtype=f32) for _ in range(3)), n]


def _persistent(rows: int, columns: int, n: int) -> list[Any]:
    x = zeros(max(n, 1), 8 * rows, 64 * columns, dtype=f32)
    out, top = (zeros(1, 8 * rows, 64 * columns, dtype=f32) for _ in range(2))
    return [x, out, top, rows, columns, n]


MATMUL, MATMUL32 = Tile(128, 128, 64, stages=3, groups=2), Tile(64, 64, 32, stages=3, groups=1)
MAKERS: dict[str, tuple[Callable[[], Any], int, Callable[..., list[Any]], list[tuple[int, ...]]]] = {
    "matmul": (
        lambda: gemm.matmul_kernel(tg.bfloat16, MATMUL, False, gemm.Epilogue(tg.bfloat16)),
        2,
        _matmul,
        [(256, 256, 448), (384, 128, 192), (128, 256, 64), (128, 128, 0), (256, 128, 128)],
    ),
    "matmul32": (
        lambda: gemm.matmul_kernel(tg.float32, MATMUL32, False, gemm.Epilogue(tg.float32, exact=True)),
        2,
        _matmul32,
        [(128, 64, 224), (192, 64, 96), (64, 128, 32), (64, 64, 0), (128, 64, 64)],
    ),
    "attention": (
        lambda: attention.forward(tg.bfloat16, 64, False, False, True),
        2,
        _attention,
        [(128, 128 * 7), (256, 128), (384, 256), (128, 384), (256, 512)],
    ),
    "chain": (chain, 2, _chain, [(5,), (0,), (1,), (2,), (3,)]),
    "producers": (two_producers, 2, _producers, [(7,), (0,), (1,), (3,), (4,)]),
    "persistent": (
        persistent,
        2,
        _persistent,
        [(2, 3, 4), (1, 1, 0), (1, 5, 1), (1, 1, 7), (3, 1, 3)],
    ),
}


def subject(name: str) -> Subject:
    kernel, ndim, args, sizes = MAKERS[name]
    lowered_kernel, compilation = lowered(kernel(), ndim)
    distribution = BlockDistribution(compilation.layouts, compilation.shared.allocations, compilation.threads)
    dims = (*(1,) * (ndim - 1), compilation.threads)
    return Subject(
        name,
        lowered_kernel,
        compilation,
        prepared(lowered_kernel, distribution),
        dims,
        [args(*s) for s in sizes],
    )
