"""Launches of an adjoint, one after the other, that need nothing of each other: they form a series, of which each may
start before the one in front of it is complete (see `ir.FIRST`)."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.ir import FIRST, LATER
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.steps import Partials, Step

Memory = int | Partials
"""An array: the position of a parameter of the adjoint, or what lives as long as it runs."""


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a launch reads and writes."""

    read: frozenset[Memory]
    written: frozenset[Memory]

    def apart(self, other: _Touched) -> bool:
        """Whether neither reads or writes what the other one writes."""
        return not (self.written & (other.read | other.written) or other.written & self.read)


def in_series(steps: Sequence[Step]) -> list[str]:
    """The place of each launch in a series, or "" for those that are in none. `steps`: as they are launched."""
    touched = [_touched(step) for step in steps]
    places = [""] * len(steps)
    first = 0
    for k in range(1, len(steps)):
        mine, before = touched[k], touched[first:k]
        if mine is not None and all(other is not None and mine.apart(other) for other in before):
            places[first], places[k] = FIRST, LATER
        else:
            first = k
    return places


def _touched(step: Step) -> _Touched | None:
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
    return _Touched(frozenset(read), frozenset(written))
