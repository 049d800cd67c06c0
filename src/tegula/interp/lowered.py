"""Runs a kernel that was lowered to the threads of a GPU block: buffers have their addresses in shared memory, and
accesses of threads between barriers are checked for races."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tegula.dataclass import dataclass
from tegula.interp.accesses import RULES, ThreadAccess
from tegula.interp.holders import HeldElements
from tegula.interp.machine import Machine, Mask, RunValue, Stack
from tegula.interp.races import Races, TracedAccess, TracedRegion, regions_of
from tegula.interp.report import RunReport
from tegula.ir import ElementAccess, Kernel, Op, Value
from tegula.layout import Layout
from tegula.ops.buffer import BufNew, buffer_type
from tegula.ops.lane import Lanes
from tegula.ops.stack import stack_type
from tegula.ops.tile import TileEmpty
from tegula.types import ArrayType, ElementType, StackType, components, element_shape, scalar_of, to_numpy

COUNT_BYTES = 16
"""The bytes before the elements of a stack, which hold its count."""


class AllocatedMemory(Protocol):
    """The allocation of a buffer or stack in shared memory: its bytes, and the strides of its elements in scalars."""

    @property
    def offset(self) -> int:
        """The offset in the block's shared memory, in bytes."""
        ...

    @property
    def size(self) -> int:
        """The size of the memory, in bytes."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes between neighbours in each dimension."""
        ...


@dataclass(slots=True)
class BlockDistribution:
    """The distribution of a kernel over the `threads` of a block: the layout of each tile value, and the allocation of
    each buffer and stack."""

    layouts: Mapping[Value, Layout]
    allocations: Mapping[Value, AllocatedMemory]
    threads: int


@dataclass(slots=True)
class Copy:
    """An asynchronous copy in flight: the contents that its buffer will have, and the elements that each thread
    copies."""

    op: Op
    buffer: np.ndarray
    value: np.ndarray
    pairs: HeldElements


class SharedStack(Stack):
    """A stack in shared memory: `memory` is its count, an array of one int32."""

    def __init__(self, memory: np.ndarray, elements: np.ndarray) -> None:
        self.memory, self.elements = memory, elements

    @property
    def count(self) -> int:
        """The number of elements on the stack."""
        return int(self.memory[0])

    @count.setter
    def count(self, n: int) -> None:
        self.memory[0] = n


class GroupMachine(Machine):
    """A block of a lowered kernel. Lane k is thread k; the threads after the last lane are absent lanes too."""

    def __init__(
        self,
        lanes: int,
        present: Mask,
        report: RunReport,
        block: int,
        tid: Sequence[np.ndarray],
        distribution: BlockDistribution,
        shared: np.ndarray,
        races: Races,
    ) -> None:
        super().__init__(lanes, present, report, block, tid)
        self.layouts, self.allocations, self.threads = (
            distribution.layouts,
            distribution.allocations,
            distribution.threads,
        )
        self.shared, self.races = shared, races
        self.started: list[Copy] = []
        self.committed: list[list[Copy]] = []
        self.independent = False
        """Whether lanes run independently."""
        self.active = present
        """The lanes that ran the last op."""

    def op(self, op: Op, mask: Mask) -> None:
        outer, self.independent = self.independent, self.independent or isinstance(op, Lanes)
        self.races.new_op()
        super().op(op, mask)
        self.independent, self.active = outer, mask
        rule = RULES.get(type(op))
        if rule is not None:
            for by_threads in rule(self, op):
                self.races.new_op()
                self._record(TracedAccess(op, by_threads.kind), by_threads)

    def accessed(self, op: Op, array: np.ndarray, lanes: np.ndarray, at: tuple[np.ndarray, ...]) -> None:
        """Record an access by lanes for the race check. If all lanes access the same element simultaneously, surplus
        threads do so too, and such accesses need an order even if they are scalar accesses of arrays."""
        assert isinstance(op, ElementAccess)
        for effect in op.effects():
            spans = np.array(at).reshape(len(at), -1)
            threads = lanes
            if not self.independent and len(lanes) and (spans == spans[:, :1]).all():
                threads, spans = np.arange(self.threads), np.repeat(spans[:, :1], self.threads, axis=1)
            scalar = self.independent and isinstance(op.target.type, ArrayType)
            self._record(
                TracedAccess(op, effect.kind, scalar), ThreadAccess(effect.kind, array, threads, spans)
            )

    def _record(self, access: TracedAccess, by_threads: ThreadAccess) -> None:
        offsets, size = offsets_of(by_threads)
        base = by_threads.array.__array_interface__["data"][0]
        scalars_per_thread = len(offsets) // max(1, len(by_threads.threads))
        self.races.record(access, np.repeat(by_threads.threads, scalars_per_thread), base, offsets, size)

    # Shared memory ------------------------------------------------------------------------------------------

    def new_buffer(self, op: BufNew) -> RunValue:
        t = buffer_type(op.results[0].type)
        allocation = self.allocations[op.results[0]]
        view = spread_view(self.shared, allocation.offset, t.dtype, t.shape, allocation.strides)
        if not isinstance(op.tile.owner, TileEmpty):
            view[...] = self.env[op.tile]
        return view

    def new_stack(self, op: Op) -> RunValue:
        t = stack_type(op.results[0].type)
        allocation = self.allocations[op.results[0]]
        count = self.shared[allocation.offset : allocation.offset + 4].view(np.int32)
        at = allocation.offset + COUNT_BYTES
        result = SharedStack(
            count, spread_view(self.shared, at, t.dtype, (t.capacity,), (components(t.dtype),))
        )
        result.count = 0
        return result

    def barrier(self, of_warps: bool) -> None:
        """Synchronise the threads of the group, or the threads of each warp, for the race check."""
        self.races.barrier(of_warps)

    def arrived(self, copy: Copy) -> None:
        """Complete a copy: make its elements visible in the buffer."""
        copy.buffer[...] = copy.value
        by_threads = ThreadAccess("write", copy.buffer, copy.pairs.threads, copy.pairs.at)
        offsets, size = offsets_of(by_threads)
        self.races.completed(copy.buffer.__array_interface__["data"][0], offsets, size)
        self._record(TracedAccess(copy.op, "write"), by_threads)


def spread_view(
    shared: np.ndarray, offset: int, dtype: ElementType, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """A view of elements in shared memory; `strides` in scalars."""
    scalar, inner = to_numpy(scalar_of(dtype)), element_shape(dtype)
    steps = [s * scalar.itemsize for s in strides]
    packed = [math.prod(inner[k + 1 :]) * scalar.itemsize for k in range(len(inner))]
    return np.ndarray((*shape, *inner), scalar, shared.data, offset, (*steps, *packed))


def offsets_of(by_threads: ThreadAccess) -> tuple[np.ndarray, int]:
    """The byte offsets of the accessed scalars from the start of the array, thread by thread; and the size of a
    scalar."""
    a, rank = by_threads.array, len(by_threads.at)
    at = sum(
        (i * s for i, s in zip(by_threads.at, a.strides, strict=False)),
        np.zeros(len(by_threads.threads), np.int64),
    )
    for n, s in zip(a.shape[rank:], a.strides[rank:], strict=True):
        at = (at[:, None] + np.arange(n) * s).reshape(-1)
    return at, a.itemsize


class Block:
    """The memory and race log of consecutive blocks of a launch, and the factory of their machines."""

    def __init__(self, kernel: Kernel, values: Sequence[RunValue], distribution: BlockDistribution) -> None:
        self.distribution = distribution
        size = max((p.offset + p.size for p in distribution.allocations.values()), default=0)
        self.shared = np.zeros(size, np.uint8)
        arrays = [
            (name, value)
            for name, p, value in zip(kernel.param_names, kernel.params, values, strict=True)
            if isinstance(p.type, ArrayType)
        ]
        self.races = Races(distribution.threads, [*self._shared_region(), *regions_of(arrays)])

    def _shared_region(self) -> list[TracedRegion]:
        sizes = [4] * any(isinstance(v.type, StackType) for v in self.distribution.allocations)
        sizes += [to_numpy(scalar_of(v.type.dtype)).itemsize for v in self.distribution.allocations]  # type: ignore[union-attr]
        start = self.shared.__array_interface__["data"][0]
        return (
            [TracedRegion("shared memory", start, len(self.shared), math.gcd(*sizes), True)] if sizes else []
        )

    def machine(
        self, lanes: int, present: Mask, report: RunReport, block: int, tid: Sequence[np.ndarray]
    ) -> Machine:
        """The machine of a new block, whose shared memory has unspecified contents."""
        self.shared[...] = 255
        self.races.new_block()
        return GroupMachine(lanes, present, report, block, tid, self.distribution, self.shared, self.races)
