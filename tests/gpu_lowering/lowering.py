"""Lowers kernels to the threads of a GPU block and runs them in the interpreter, which detects data races."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from agreement import assert_same_bits, traced

import tegula as tg
from tegula import interp
from tegula.ir import Kernel, Op
from tegula.ops.group import Barrier
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.target import get_cuda_target


@dataclass
class Launch:
    """A kernel, its arguments and the shape of its launch."""

    kernel: Any
    args: Sequence[Any]
    dims: tuple[int, ...]
    block_dim: int


def tiled(kernel: Any, args: Sequence[Any], dims: Sequence[int], block_dim: int) -> Launch:
    return Launch(kernel, args, (*dims, block_dim), block_dim)


def lowered(launch: Launch) -> tuple[Kernel, GpuCompilation]:
    kernel = traced(launch.kernel, launch.args, launch.dims, launch.block_dim)
    prepare(kernel)
    return kernel, for_gpu(kernel, get_cuda_target())


def copies(args: Sequence[Any]) -> list[Any]:
    return [a.numpy().copy() if isinstance(a, tg.array) else a for a in args]


def run_lowered(kernel: Kernel, compilation: GpuCompilation, launch: Launch) -> tuple[list[Any], list[str]]:
    """The arguments after the run, and the printed lines. DataRace if threads race."""
    args, printed = copies(launch.args), []
    interp.run_lowered(
        kernel,
        args,
        launch.dims,
        launch.block_dim,
        compilation.layouts,
        compilation.shared.allocations,
        compilation.threads,
        printed.append,
    )
    return args, printed


def agrees(launch: Launch) -> tuple[Kernel, GpuCompilation]:
    """The lowered kernel and its compilation, after a check that the results agree and no threads race."""
    expected, lines = copies(launch.args), []
    interp.run(
        traced(launch.kernel, launch.args, launch.dims, launch.block_dim),
        expected,
        launch.dims,
        launch.block_dim,
        lines.append,
    )
    kernel, compilation = lowered(launch)
    actual, printed = run_lowered(kernel, compilation, launch)
    assert printed == lines
    for name, a, b in zip(kernel.param_names, actual, expected, strict=True):
        if isinstance(a, np.ndarray):
            assert_same_bits(a, b, name)
    return kernel, compilation


def barriers(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if isinstance(op, Barrier)]
