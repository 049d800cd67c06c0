"""The launches of an adjoint, and the numbers that the host computes for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Value
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.buffer import BufNew
from tegula.ops.convert import Cast
from tegula.ops.scalar import Const, Select
from tegula.types import ArrayType, BufType, DType, ElementType, element_bytes, to_numpy

BUSY_BLOCKS = 4
"""The number of blocks per SM that keep a GPU busy."""
BLOCKS_OF_CORE = 4
"""The minimum number of blocks per CPU core before a block gets more than one tile: cores may differ in speed."""


@dataclass(frozen=True, slots=True)
class GridDim:
    """The length of a dimension of the forward launch."""

    number: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A quantity of the division of forward blocks into chunks, each of which one block runs. `extents`: the extents
    that multiply to the number of forward blocks; `grids`: the extents of the rest of the grid, which repeats the
    division. `label`: the number of "chunks", their "length" or the "total" of blocks. `resident`: the number of
    resident blocks per SM, 0 if unknown. `cyclic`: whether forward blocks are distributed cyclically on GPUs; then
    `label` may also be the "lead", the distance between the first blocks of consecutive chunks, or the "step" between
    consecutive blocks of one chunk."""

    extents: tuple[Extent, ...]
    grids: tuple[Extent, ...]
    label: str
    resident: int = 0
    cyclic: bool = False


@dataclass(frozen=True, slots=True)
class ScaledExtent:
    """An extent times an integer factor."""

    factor: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class DividedExtent:
    """An extent divided by a length, rounded up."""

    extent: Extent
    length: int


Extent = GridDim | Chunk | ScaledExtent | DividedExtent | Value | int
"""A number that the host computes before a launch. A Value belongs to the adjoint kernel and follows from its
arguments."""


class Partials:
    """An array of partial sums that is allocated for the adjoint and summed by a later step. `zeroed`: whether the
    array is initialised with zeros. `like`: positions of arguments that share bytes; the array replaces the first of
    these arguments, in another type, and the arrays that replace the other arguments share its bytes
    correspondingly."""

    __slots__ = ("dtype", "like", "shape", "zeroed")

    def __init__(
        self,
        dtype: ElementType,
        shape: tuple[Extent, ...],
        zeroed: bool = False,
        like: tuple[int, ...] = (),
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.zeroed = zeroed
        self.like = like


@dataclass(frozen=True, slots=True)
class AdjointStep:
    """One launch of an adjoint. `known`: the parameters of the adjoint kernel, from which extents are computed. `grid`:
    the number of blocks in each dimension; None: the grid of the forward launch. `counts`: the int32 arguments after
    the arguments of the adjoint kernel; `partials`: the arrays after `counts`. `shared`: the steps to launch instead if
    the grid is too small to keep the device busy; `wide`: a step with larger tiles, for devices that fewer blocks keep
    busy."""

    kernel: Kernel
    known: tuple[Value, ...]
    grid: tuple[Extent, ...] | None = None
    counts: tuple[Extent, ...] = ()
    partials: tuple[Partials, ...] = ()
    shared: tuple[AdjointStep, ...] = ()
    wide: MergedTiles | None = None

    def extents(self) -> list[Extent]:
        """All extents that the step and its alternatives depend on."""
        arrays = [*(self.grid or ()), *self.counts, *(n for p in self.partials for n in p.shape)]
        if self.wide is not None:
            arrays += [self.wide.covered, self.wide.length, *self.wide.step.extents()]
        return arrays + [n for step in self.shared for n in step.extents()]


@dataclass(frozen=True, slots=True)
class MergedTiles:
    """A step whose blocks own several tiles each, some possibly beyond the last tile of the original grid. The step is
    equivalent if the original tiles cover the array: `covered`, the number of their elements, is at least `length`.
    `for_gpu`: whether the step is for GPUs, or else for CPUs."""

    step: AdjointStep
    covered: Extent
    length: Extent
    for_gpu: bool


def parameters_of(extents: Iterable[Extent]) -> set[Value]:
    """The kernel parameters from which extents are computed."""
    parameters, worklist = set[Value](), list[Extent](extents)
    while worklist:
        extent = worklist.pop()
        if isinstance(extent, Chunk):
            worklist += [*extent.extents, *extent.grids]
        elif isinstance(extent, ScaledExtent | DividedExtent):
            worklist.append(extent.extent)
        elif isinstance(extent, Value):
            if isinstance(extent.owner, Op):
                worklist.extend(extent.owner.operands)
            else:
                parameters.add(extent)
    return parameters


def checkpoint_bytes(kernel: Kernel) -> dict[tuple[str, int], int]:
    """The bytes of a block's checkpoints of loop-carried values, by the value's name and the line of its loop."""
    checkpoint_sizes: dict[tuple[str, int], int] = {}
    for op in kernel.walk():
        if isinstance(op, BufNew) and op.kept:
            t = op.result.type
            assert isinstance(t, BufType)
            key = op.kept, op.loc.chain()[-1].line
            checkpoint_sizes[key] = checkpoint_sizes.get(key, 0) + math.prod(t.shape) * element_bytes(t.dtype)
    return checkpoint_sizes


PURE = (Const, ArrayShape, Elementwise, Cast, Select)


def known_to_host(value: Value) -> bool:
    """Whether a number is computed from the arguments of the kernel alone."""
    if not isinstance(value.owner, Op):
        region = value.owner
        return region is not None and region.parent is None and isinstance(value.type, DType)
    if isinstance(value.owner, ArrayShape):
        return not isinstance(value.owner.array.owner, Op)
    return (
        isinstance(value.owner, PURE)
        and isinstance(value.type, DType)
        and all(map(known_to_host, value.owner.operands))
    )


@dataclass(frozen=True, slots=True)
class ForwardLaunch:
    """A launch of the forward kernel: its dimensions, the adjoint's arguments by parameter, and `busy`, the number of
    blocks that keep the device busy. `cores`: the number of CPU cores, on which results do not depend."""

    dims: Sequence[int]
    arguments: Mapping[Value, Any]
    busy: int
    is_gpu: bool = False
    cores: int = 1

    def number(self, extent: Extent) -> int:
        """The value of an extent in this launch; never negative."""
        if isinstance(extent, int):
            return extent
        if isinstance(extent, GridDim):
            return self.dims[extent.number]
        if isinstance(extent, ScaledExtent):
            return extent.factor * self.number(extent.extent)
        if isinstance(extent, DividedExtent):
            return -(-self.number(extent.extent) // extent.length)
        if isinstance(extent, Chunk):
            return self._chunk_number(extent)
        return _number(extent, _facts(self.arguments))

    def numbers(self, extents: Sequence[Extent]) -> tuple[int, ...]:
        """The values of several extents in this launch."""
        return tuple(self.number(x) for x in extents)

    def _chunk_number(self, chunk: Chunk) -> int:
        total = math.prod(self.numbers(chunk.extents))
        if chunk.label == "total":
            return total
        resident = chunk.resident if chunk.resident and self.is_gpu else BUSY_BLOCKS
        busy = self.busy * resident // BUSY_BLOCKS
        chunks = min(total, max(1, busy // max(1, math.prod(self.numbers(chunk.grids)))))
        length = -(-total // max(1, chunks))
        if chunk.cyclic and self.is_gpu:
            return {"chunks": chunks, "length": length, "lead": 1, "step": chunks}[chunk.label]
        return {"chunks": -(-total // max(1, length)), "length": length, "lead": length, "step": 1}[
            chunk.label
        ]

    def steps(self, step: AdjointStep) -> tuple[AdjointStep, ...]:
        """The steps to launch for a step: the step itself, or one of its alternatives."""
        if step.grid is None:
            return (step,)
        fits = step.wide is not None and self._fits(step.wide)
        if step.wide is not None and fits and self.is_gpu:
            return (step.wide.step,)
        if step.shared and self._leaves_device_idle(step.grid, step.shared):
            return step.shared
        return (step.wide.step,) if step.wide is not None and fits else (step,)

    def _leaves_device_idle(self, grid: Sequence[Extent], shared: Sequence[AdjointStep]) -> bool:
        """Whether a grid leaves at least half of the device idle, and the division into chunks has more blocks."""
        blocks, divided = math.prod(self.numbers(grid)), self.numbers(shared[0].grid or ())
        large = any(math.prod(self.numbers(p.shape)) >= 2**31 for s in shared for p in s.partials)
        return 2 * blocks <= self.busy and blocks < math.prod(divided) and not large

    def _fits(self, wide: MergedTiles) -> bool:
        """Whether larger tiles are for this kind of device, are equivalent (MergedTiles), and keep the device busy: on
        GPUs
        at least three blocks for four SMs."""
        blocks = math.prod(self.numbers(wide.step.grid or ()))
        is_busy = (
            4 * BUSY_BLOCKS * blocks >= 3 * self.busy
            if self.is_gpu
            else blocks >= BLOCKS_OF_CORE * self.cores
        )
        covers = self.number(wide.covered) >= self.number(wide.length)
        return wide.for_gpu == self.is_gpu and is_busy and covers


def _facts(arguments: Mapping[Value, Any]) -> tuple[tuple[Value, Any], ...]:
    """The arguments from which extents can be computed: shapes of arrays, and numbers."""
    return tuple(
        (v, a.shape if isinstance(v.type, ArrayType) else a)
        for v, a in arguments.items()
        if isinstance(v.type, ArrayType | DType)
    )


@lru_cache(maxsize=1024)
def _number(value: Value, facts: tuple[tuple[Value, Any], ...]) -> int:
    """The value of an extent, cached across launches; never negative."""
    return max(0, int(_value(value, dict(facts))[0]))


def _value(value: Value, facts: Mapping[Value, Any]) -> np.ndarray:
    op = value.owner
    assert isinstance(value.type, DType)
    kind = to_numpy(value.type)
    if not isinstance(op, Op):
        return np.array([facts[value]], kind)
    if isinstance(op, ConstantLike):
        return np.array([op.value], kind)
    if isinstance(op, ArrayShape):
        return np.array([facts[op.array][op.dim]], kind)
    assert isinstance(op, Elementwise | Cast | Select)
    return op.ref(op.attrs, *(_value(v, facts) for v in op.operands))
