"""Points of the sweep: a kernel in plain code, its launches at full and at reduced size, and the definition of its
results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg

NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    **{name: getattr(np, name) for name in ("float16", "float32", "int8", "int32")},
}
Part = tuple[int, Any, Any]
"""The index of a result, an index of elements of the result, and the exact values of these elements."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument. `values`: the array itself, or the standard deviation of normally distributed numbers.
    `result`: whether the kernel writes the array."""

    shape: tuple[int, ...]
    dtype: str = "bfloat16"
    values: float | np.ndarray = 1.0
    result: bool = False

    @property
    def bytes(self) -> int:
        """The size of the memory."""
        return math.prod(self.shape) * np.dtype(NUMPY[self.dtype]).itemsize

    @property
    def differentiable(self) -> bool:
        """Whether the array has a gradient."""
        return "float" in self.dtype

    def numpy(self, seed: int) -> np.ndarray:
        """The values in memory of the CPU; a result is all NaN, or -1."""
        dtype = NUMPY[self.dtype]
        if self.result:
            return np.full(self.shape, np.nan if self.differentiable else -1).astype(dtype)
        if isinstance(self.values, np.ndarray):
            return self.values.astype(dtype)
        values = np.random.default_rng(seed).standard_normal(self.shape) * self.values
        return (values if self.differentiable else np.clip(np.rint(values), -127, 127)).astype(dtype)


def table(values: Any) -> Array:
    """An array of 32-bit integers with known elements."""
    array = np.asarray(values, np.int32)
    return Array(array.shape, "int32", array)


def result(*shape: int, dtype: str = "bfloat16") -> Array:
    """An array that the kernel writes."""
    return Array(shape, dtype, result=True)


Argument = Array | float | int


@dataclass(frozen=True, slots=True)
class Launch:
    """The arguments of a launch, the grid of blocks, and the work in floating-point operations; 0 for kernels that are
    bound by memory."""

    arguments: tuple[Argument, ...]
    grid: tuple[int, ...]
    work: float = 0.0

    @property
    def arrays(self) -> list[Array]:
        return [a for a in self.arguments if isinstance(a, Array)]

    @property
    def bytes(self) -> int:
        """The bytes of all arrays, each read or written once."""
        return sum(a.bytes for a in self.arrays)

    def form(self) -> list[Any]:
        """Arguments on the CPU for the specialisation of the kernel; the arrays are zeros."""
        return [
            tg.zeros(a.shape, dtype=getattr(tg, a.dtype)) if isinstance(a, Array) else a
            for a in self.arguments
        ]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the sweep.

    `full` is measured, and `small` launches the same form of the kernel on a CPU. `exact(xp, *inputs)` gives the
    results in parts, where `xp` is NumPy or PyTorch, arrays of floats are float64, and results are left out of the
    inputs. `target`: the minimum ratio to the peer; None: the ratio is only reported. `gradient`: whether the adjoint
    is measured; `gradient_target`: the adjoint's minimum ratio."""

    name: str
    group: str
    kernel: Any
    full: Launch
    small: Launch
    exact: Callable[..., Iterator[Part]]
    threads: int = 256
    target: float | None = 0.8
    gradient: bool = True
    gradient_target: float | None = None
    tolerance: float | None = None

    @property
    def unit(self) -> tuple[str, float]:
        """The unit of speed, and the work of a full launch in this unit times seconds."""
        return ("TFLOP/s", self.full.work / 1e12) if self.full.work else ("GB/s", self.full.bytes / 1e9)


def inputs(launch: Launch, values: Sequence[Any]) -> list[Any]:
    """The values of the arguments that are not results. `values`: the values of all arguments."""
    pairs = zip(launch.arguments, values, strict=True)
    return [value for a, value in pairs if not (isinstance(a, Array) and a.result)]


def results(launch: Launch, values: Sequence[Any]) -> list[Any]:
    """The results among the values of all arguments."""
    pairs = zip(launch.arguments, values, strict=True)
    return [value for a, value in pairs if isinstance(a, Array) and a.result]


def tiles(*extents: tuple[int, int]) -> tuple[int, ...]:
    """The number of tiles in each dimension. `extents`: the length of a dimension and the length of a tile, by
    dimension."""
    return tuple(-(-length // tile) for length, tile in extents)
