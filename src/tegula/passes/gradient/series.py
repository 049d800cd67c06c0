"""Launches of an adjoint that may start before those in front of them are complete: a series.

Those that need nothing of each other start one after the other, once all before the series are complete. One that only
overwrites what those of the series read, as the last launch that clears the gradients that were taken, may start when
the last of them has read it."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import ALONE, LOOPED, READ, WAITED, LaunchOverlap
from tegula.ops.tile import TileAtomic
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.steps import AdjointStep, Chunk, Partials

Memory = int | Partials
"""An array: the position of a parameter of the adjoint, or what lives as long as it runs."""


@dataclass(frozen=True, slots=True)
class _Accessed:
    """What a launch reads and writes."""

    read: frozenset[Memory]
    written: frozenset[Memory]

    def apart(self, before: _Accessed) -> bool:
        """Whether neither reads or writes what the other one writes."""
        return self.follows(before) and not self.written & before.read

    def follows(self, before: _Accessed) -> bool:
        """Whether it depends on an earlier one by what that reads at most."""
        return not before.written & (self.read | self.written)


def in_series(steps: Sequence[AdjointStep]) -> list[LaunchOverlap]:
    """The place of each launch. `steps`: as they are launched."""
    accessed = [_accessed(step) for step in steps]
    places = [ALONE] * len(steps)
    first = 0
    for k in range(1, len(steps)):
        mine, others = accessed[k], [t for t in accessed[first:k] if t is not None]
        if first == k or mine is None or len(others) < k - first:
            first = k
        elif all(map(mine.apart, others)):
            places[first] = LaunchOverlap(lets=WAITED)
            places[k] = LaunchOverlap(late=True)
        elif all(map(mine.follows, others)) and _reads_first(steps[k - 1]):
            places[k - 1] = LaunchOverlap(places[k - 1].late, READ)
            places[k] = LaunchOverlap(late=True)
            # The next launch waits for all: this one lets it start before it has waited itself.
            first = k + 1
        else:
            first = k
    return [
        LaunchOverlap(lets=LOOPED) if place == ALONE and _runs_at_once(step) else place
        for step, place in zip(steps, places, strict=True)
    ]


def _runs_at_once(step: AdjointStep) -> bool:
    """Whether all blocks are there from the start to the end, about: those of a launch that started with them would
    crowd where the first ones end."""
    return any(isinstance(extent, Chunk) and extent.resident for extent in step.grid or ())


def _reads_first(step: AdjointStep) -> bool:
    """Whether the last that a block does is to add what it has made of all that it read."""
    _, *rest = reversed(step.kernel.body.ops)
    return bool(rest) and isinstance(rest[0], TileAtomic) and bool(rest[0].alone)


def _accessed(step: AdjointStep) -> _Accessed | None:
    """None where that is not known, or arrays share bytes."""
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
            known = kernel.access[k]
            if known is not None and known.aliases:
                return None
            where: Memory = k if k < count else partials[k]
            if effect.kind != "read":
                written.add(where)
            if effect.kind != "write":
                read.add(where)
    return _Accessed(frozenset(read), frozenset(written))
