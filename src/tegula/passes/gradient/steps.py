"""The launches that an adjoint consists of, and the numbers that the host computes for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Value
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.buffer import BufNew
from tegula.ops.convert import Cast
from tegula.ops.scalar import Const, Select
from tegula.types import ArrayType, BufType, DType, ElementType, element_bytes, to_numpy

BUSY = 4
"""Blocks for each multiprocessor that keep a GPU busy."""
BLOCKS_OF_CORE = 4
"""For each core at least, before blocks get more than one tile: some cores may be slower than others."""


@dataclass(frozen=True, slots=True)
class Dim:
    """The length of a dimension of the forward launch."""

    number: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Blocks that are dealt out: `of` so many, in consecutive chunks to one block each, in each of `grids` grids.
    `what`: the number of "chunks", their "length", or the "total". `resident`: how many blocks that take chunks a
    multiprocessor holds, 0 where that is unknown. `in_turn`: on GPUs, one after the other goes to one chunk each; then
    `what` is also the "lead" of a chunk before the next, and the "step" from one block of a chunk to the next."""

    of: tuple[Extent, ...]
    grids: tuple[Extent, ...]
    what: str
    resident: int = 0
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class Times:
    """A number that many times."""

    factor: int
    of: Extent


@dataclass(frozen=True, slots=True)
class Pieces:
    """How many pieces of some length a number has, the last one perhaps shorter."""

    of: Extent
    length: int


Extent = Dim | Chunk | Times | Pieces | Value | int
"""A number that the host knows before a launch. Values are of the adjoint kernel, and follow from its arguments."""


class Partials:
    """An array that lives as long as the adjoint runs, of sums that a later step adds up; `zeroed`: zeros at first.
    `like`: positions of arguments that share bytes. It stands for the first of them, in another type, and what they
    share is shared by the arrays that stand for them."""

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
    """One launch of an adjoint. `known`: the parameters of the adjoint kernel, which extents may be values of. `grid`:
    its blocks, in each dimension; None: the grid of the forward launch. `counts`: int32 arguments that follow those of
    the adjoint kernel, `partials`: arrays that follow them. `shared`: what is launched instead where the grid would
    leave a device idle; `wide`: where fewer blocks would not."""

    kernel: Kernel
    known: tuple[Value, ...]
    grid: tuple[Extent, ...] | None = None
    counts: tuple[Extent, ...] = ()
    partials: tuple[Partials, ...] = ()
    shared: tuple[AdjointStep, ...] = ()
    wide: Merged | None = None

    def extents(self) -> list[Extent]:
        """All that its launches depend on, and those of what may be launched instead."""
        found = [*(self.grid or ()), *self.counts, *(n for p in self.partials for n in p.shape)]
        if self.wide is not None:
            found += [self.wide.covered, self.wide.length, *self.wide.step.extents()]
        return found + [n for step in self.shared for n in step.extents()]


@dataclass(frozen=True, slots=True)
class Merged:
    """A step whose blocks own several tiles each, some of them perhaps beyond the last one: that is the same where the
    elements that all tiles cover are no less than the length of the array. `for_gpu`: which devices it is for."""

    step: AdjointStep
    covered: Extent
    length: Extent
    for_gpu: bool


def parameters_of(extents: Iterable[Extent]) -> set[Value]:
    """The parameters of the kernel that extents follow from."""
    found, left = set[Value](), list[Extent](extents)
    while left:
        extent = left.pop()
        if isinstance(extent, Chunk):
            left += [*extent.of, *extent.grids]
        elif isinstance(extent, Times | Pieces):
            left.append(extent.of)
        elif isinstance(extent, Value):
            if isinstance(extent.owner, Op):
                left.extend(extent.owner.operands)
            else:
                found.add(extent)
    return found


def kept_of_loops(kernel: Kernel) -> dict[tuple[str, int], int]:
    """What a block keeps of the iterations of loops, to go back through them: bytes, by a value's name and its loop's
    line."""
    found: dict[tuple[str, int], int] = {}
    for op in kernel.walk():
        if isinstance(op, BufNew) and op.kept:
            t = op.result.type
            assert isinstance(t, BufType)
            key = op.kept, op.loc.chain()[-1].line
            found[key] = found.get(key, 0) + math.prod(t.shape) * element_bytes(t.dtype)
    return found


PURE = (Const, ArrayShape, Elementwise, Cast, Select)


def known_to_host(value: Value) -> bool:
    """Whether a number follows from the arguments of the kernel alone."""
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
    """A launch of the forward kernel: its dimensions, the adjoint's arguments by parameter, and how many blocks keep
    the device busy. `cores`: of a CPU; results do not depend on them."""

    dims: Sequence[int]
    arguments: Mapping[Value, Any]
    busy: int
    is_gpu: bool = False
    cores: int = 1

    def number(self, extent: Extent) -> int:
        """The number that an extent is; not negative."""
        if isinstance(extent, int):
            return extent
        if isinstance(extent, Dim):
            return self.dims[extent.number]
        if isinstance(extent, Times):
            return extent.factor * self.number(extent.of)
        if isinstance(extent, Pieces):
            return -(-self.number(extent.of) // extent.length)
        if isinstance(extent, Chunk):
            return self._shared(extent)
        return _number(extent, _facts(self.arguments))

    def numbers(self, extents: Sequence[Extent]) -> tuple[int, ...]:
        """The numbers that extents are in a launch."""
        return tuple(self.number(x) for x in extents)

    def _shared(self, chunk: Chunk) -> int:
        total = math.prod(self.numbers(chunk.of))
        if chunk.what == "total":
            return total
        resident = chunk.resident if chunk.resident and self.is_gpu else BUSY
        busy = self.busy * resident // BUSY
        chunks = min(total, max(1, busy // max(1, math.prod(self.numbers(chunk.grids)))))
        length = -(-total // max(1, chunks))
        if chunk.in_turn and self.is_gpu:
            return {"chunks": chunks, "length": length, "lead": 1, "step": chunks}[chunk.what]
        return {"chunks": -(-total // max(1, length)), "length": length, "lead": length, "step": 1}[
            chunk.what
        ]

    def steps(self, step: AdjointStep) -> tuple[AdjointStep, ...]:
        """What is launched for a step."""
        if step.grid is None:
            return (step,)
        fits = step.wide is not None and self._fits(step.wide)
        if step.wide is not None and fits and self.is_gpu:
            return (step.wide.step,)
        if step.shared and self._idles(step.grid, step.shared):
            return step.shared
        return (step.wide.step,) if step.wide is not None and fits else (step,)

    def _idles(self, grid: Sequence[Extent], shared: Sequence[AdjointStep]) -> bool:
        """Whether a grid leaves the device idle, and chunks would not."""
        blocks, divided = math.prod(self.numbers(grid)), self.numbers(shared[0].grid or ())
        large = any(math.prod(self.numbers(p.shape)) >= 2**31 for s in shared for p in s.partials)
        return 2 * blocks <= self.busy and blocks < math.prod(divided) and not large

    def _fits(self, wide: Merged) -> bool:
        """Whether larger tiles are for this device, hold nothing that is not to be added up, and are enough: three for
        four multiprocessors."""
        blocks = math.prod(self.numbers(wide.step.grid or ()))
        enough = 4 * BUSY * blocks >= 3 * self.busy if self.is_gpu else blocks >= BLOCKS_OF_CORE * self.cores
        covers = self.number(wide.covered) >= self.number(wide.length)
        return wide.for_gpu == self.is_gpu and enough and covers


def _facts(arguments: Mapping[Value, Any]) -> tuple[tuple[Value, Any], ...]:
    """What numbers can follow from: the shapes of arrays, and the numbers among the arguments."""
    return tuple(
        (v, a.shape if isinstance(v.type, ArrayType) else a)
        for v, a in arguments.items()
        if isinstance(v.type, ArrayType | DType)
    )


@lru_cache(maxsize=1024)
def _number(value: Value, facts: tuple[tuple[Value, Any], ...]) -> int:
    """A number that launches ask for again and again; not negative."""
    return max(0, int(_value(value, dict(facts))[0]))


def _value(value: Value, facts: Mapping[Value, Any]) -> np.ndarray:
    op = value.owner
    assert isinstance(value.type, DType)
    kind = to_numpy(value.type)
    if not isinstance(op, Op):
        return np.array([facts[value]], kind)
    if isinstance(op, Const):
        return np.array([op.value], kind)
    if isinstance(op, ArrayShape):
        return np.array([facts[op.array][op.dim]], kind)
    assert isinstance(op, Elementwise | Cast | Select)
    return op.ref(op.attrs, *(_value(v, facts) for v in op.operands))
