"""What the adjoint kernel holds for the forward kernel's values, region by region."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from tegula.ir import Op, Region, Value


class GradientScope:
    """A region of the adjoint kernel that runs a region of the forward kernel again and then backwards.

    `primals`: forward values computed again here; `shadows`: the gradients of memory; `totals` and `parts`: what the
    adjoints of forward values have grown by here, for the block and for each lane; `accumulators`: tile objects that
    adjoints of tiles grow in; `iterations`: how often the `while` loops here ran; `entries`: what tile objects held
    before the loops here; `branches`: what was computed in the branches of each `if` here."""

    def __init__(self, region: Region, outer: GradientScope | None = None) -> None:
        self.region = region
        self.outer = outer
        self.primals: dict[Value, Value] = {}
        self.shadows: dict[Value, Value] = {}
        self.totals: dict[Value, Value] = {}
        self.parts: dict[Value, Value] = {}
        self.accumulators: dict[Value, Value] = {}
        self.iterations: dict[Op, Value] = {}
        self.entries: dict[tuple[Op, Value], Value] = {}
        self.branches: dict[Op, list[GradientScope]] = {}

    def outward(self) -> Iterator[GradientScope]:
        """The scope and those around it, innermost first."""
        scope: GradientScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def primal(self, value: Value) -> Value | None:
        """The value of the adjoint kernel that stands for one of the forward kernel, if there is one."""
        return next((s.primals[value] for s in self.outward() if value in s.primals), None)

    def shadow(self, memory: Value) -> Value | None:
        """The memory of the gradient of an array or buffer, if there is one."""
        return next((s.shadows[memory] for s in self.outward() if memory in s.shadows), None)

    def iteration_count(self, loop: Op) -> Value:
        """The number of iterations that a loop made."""
        return next(s.iterations[loop] for s in self.outward() if loop in s.iterations)

    def entry(self, loop: Op, memory: Value) -> Value:
        """What a memory held when a loop began."""
        return next(s.entries[loop, memory] for s in self.outward() if (loop, memory) in s.entries)

    def computed(self) -> Iterator[dict[Any, Value]]:
        """Every table of values that were computed here and in the branches here."""
        yield from (self.primals, self.iterations, self.entries)
        for scopes in self.branches.values():
            for scope in scopes:
                yield from scope.computed()

    def recall(self, other: GradientScope) -> None:
        """Know what was computed in another scope, whose values can be seen from here."""
        self.primals.update(other.primals)
        self.iterations.update(other.iterations)
        self.entries.update(other.entries)
        self.branches.update(other.branches)

    def accumulator(self, tile: Value) -> Value | None:
        """The buffer in which the adjoint of a tile is added up, if there is one."""
        return next((s.accumulators[tile] for s in self.outward() if tile in s.accumulators), None)


class Primals(MutableMapping[Value, Value]):
    """The primals of a scope and of those around it, as the mapping that cloning takes."""

    def __init__(self, scope: GradientScope) -> None:
        self.scope = scope

    def __getitem__(self, value: Value) -> Value:
        found = self.scope.primal(value)
        if found is None:
            raise KeyError(value)
        return found

    def __setitem__(self, value: Value, made: Value) -> None:
        self.scope.primals[value] = made

    def __delitem__(self, value: Value) -> None:
        del self.scope.primals[value]

    def __iter__(self) -> Iterator[Value]:
        return iter({v: None for s in self.scope.outward() for v in s.primals})

    def __len__(self) -> int:
        return sum(1 for _ in self)
