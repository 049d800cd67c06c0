"""Traces kernels and runs them in the interpreter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.interp import run
from tegula.ir import Kernel, LaunchClass
from tegula.ir.verify import verify
from tegula.lang import KernelDef
from tegula.types import ArrayType, ElementType, Type, float32, from_numpy, int32


def launch_class(dims: Sequence[int], block_dim: int) -> LaunchClass:
    """The class of a launch, as defined in "Launch class" of the semantics."""
    uniform = tuple(math.prod(dims[k + 1 :]) % block_dim == 0 for k in range(len(dims)))
    return LaunchClass(len(dims), block_dim, uniform, dims[-1] == block_dim, math.prod(dims) % block_dim != 0)


def type_of(arg: Any, element: ElementType | None = None) -> Type:
    if isinstance(arg, np.ndarray):
        return ArrayType(element or from_numpy(arg.dtype), arg.ndim)
    if isinstance(arg, np.generic):
        return from_numpy(arg.dtype)
    return int32 if isinstance(arg, int) else float32


def traced(kernel: KernelDef, *args: Any, dims: Sequence[int] = (1, 4), block_dim: int = 4) -> Kernel:
    traced_kernel = kernel.trace([type_of(a) for a in args], launch_class(dims, block_dim))
    verify(traced_kernel)
    return traced_kernel


def launched(kernel: KernelDef, *args: Any, dims: Sequence[int] = (1, 4), block_dim: int = 4) -> list[str]:
    """Run the kernel; arrays change in place. Returns the printed text."""
    printed: list[str] = []
    run(traced(kernel, *args, dims=dims, block_dim=block_dim), args, dims, block_dim, printed.append)
    return printed


def ops_named(kernel: Kernel, name: str) -> list[Any]:
    return [op for op in kernel.walk() if op.NAME == name]


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)
