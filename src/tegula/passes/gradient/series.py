"""Overlaps consecutive launches of an adjoint: a launch of a series may start before earlier ones are complete.

Independent launches start one after the other, once all launches before the series are complete. A launch that only
overwrites arrays that the series reads may start when the previous launch has completed its reads; an example is the
last launch, which clears the gradients of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import LOOPED, NO_OVERLAP, READ, WAITED, LaunchOverlap
from tegula.ops.tile import TileAtomic
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.steps import AdjointStep, Chunk, Partials

Memory = int | Partials
"""An array: the position of a parameter of the adjoint, or an array that lives only during the adjoint."""


@dataclass(frozen=True, slots=True)
class _Accessed:
    """The arrays that a launch reads and writes."""

    read: frozenset[Memory]
    written: frozenset[Memory]

    def is_independent_of(self, before: _Accessed) -> bool:
        """Whether two launches are independent: neither accesses an array that the other writes."""
        return self.follows(before) and not self.written & before.read

    def follows(self, before: _Accessed) -> bool:
        """Whether the only possible dependence on the earlier launch is an overwrite of arrays that it reads."""
        return not before.written & (self.read | self.written)


def overlap_launches(steps: Sequence[AdjointStep]) -> list[LaunchOverlap]:
    """The overlap of each launch with its neighbours. `steps`: in launch order."""
    accessed = [_accessed(step) for step in steps]
    overlaps = [NO_OVERLAP] * len(steps)
    first = 0
    for k in range(1, len(steps)):
        own_access, accesses_of_series = accessed[k], [t for t in accessed[first:k] if t is not None]
        if first == k or own_access is None or len(accesses_of_series) < k - first:
            first = k
        elif all(map(own_access.is_independent_of, accesses_of_series)):
            overlaps[first] = LaunchOverlap(next_starts=WAITED)
            overlaps[k] = LaunchOverlap(waits_at_end=True)
        elif all(map(own_access.follows, accesses_of_series)) and _reads_first(steps[k - 1]):
            overlaps[k - 1] = LaunchOverlap(overlaps[k - 1].waits_at_end, READ)
            overlaps[k] = LaunchOverlap(waits_at_end=True)
            # The next launch must wait for all earlier launches, because this launch may trigger it before its own wait
            # ends.
            first = k + 1
        else:
            first = k
    return [
        LaunchOverlap(next_starts=LOOPED) if overlap == NO_OVERLAP and _runs_at_once(step) else overlap
        for step, overlap in zip(steps, overlaps, strict=True)
    ]


def _runs_at_once(step: AdjointStep) -> bool:
    """Whether nearly all blocks of a launch are resident from start to end. Otherwise the blocks of an early launch
    would occupy the SMs on which the first blocks finish."""
    return any(isinstance(extent, Chunk) and extent.resident for extent in step.grid or ())


def _reads_first(step: AdjointStep) -> bool:
    """Whether a block's last op is an addition marked `exclusive`, which follows all reads of the block."""
    _, *rest = reversed(step.kernel.body.ops)
    return bool(rest) and isinstance(rest[0], TileAtomic) and bool(rest[0].exclusive)


def _accessed(step: AdjointStep) -> _Accessed | None:
    """The arrays that a step reads and writes; None if they are unknown or share bytes with other arrays."""
    kernel, count = step.kernel, len(step.known)
    partials = dict(enumerate(step.partials, len(kernel.params) - len(step.partials)))
    read, written = set[Memory](), set[Memory]()
    for op in kernel.walk():
        for effect in op.effects():
            if effect.value is None:
                return None
            root = memory_root(effect.value)
            if root not in kernel.params:
                continue
            k = kernel.params.index(root)
            access = kernel.access[k]
            if access is not None and access.aliases:
                return None
            memory: Memory = k if k < count else partials[k]
            if effect.kind != "read":
                written.add(memory)
            if effect.kind != "write":
                read.add(memory)
    return _Accessed(frozenset(read), frozenset(written))
