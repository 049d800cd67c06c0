"""Scopes: the adjoint kernel's values, adjoints and gradients for the forward kernel's values, region by region."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from tegula.ir import Op, Region, Value


class GradientScope:
    """A region of the adjoint kernel that recomputes a region of the forward kernel and then reverses it.

    `primals`: the recomputed forward values; `shadows`: the gradients of memory; `totals` and `parts`: the increments
    of adjoints of forward values, for the block and for each lane; `accumulators`: the tile objects that accumulate
    adjoints of tiles; `iterations`: the trip counts of `while` loops; `entries`: the contents of tile objects before
    loops; `branches`: the scopes of the branches of each `if`."""

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
        """The scope and its outer scopes, innermost first."""
        scope: GradientScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def primal(self, value: Value) -> Value | None:
        """The recomputed value of a forward value, if there is one."""
        return next((s.primals[value] for s in self.outward() if value in s.primals), None)

    def shadow(self, memory: Value) -> Value | None:
        """The memory of the gradient of an array or buffer, if there is one."""
        return next((s.shadows[memory] for s in self.outward() if memory in s.shadows), None)

    def iteration_count(self, loop: Op) -> Value:
        """The trip count of a loop."""
        return next(s.iterations[loop] for s in self.outward() if loop in s.iterations)

    def entry(self, loop: Op, memory: Value) -> Value:
        """The contents of memory at the start of a loop."""
        return next(s.entries[loop, memory] for s in self.outward() if (loop, memory) in s.entries)

    def computed(self) -> Iterator[dict[Any, Value]]:
        """The tables of values that were computed in this scope and in its branches."""
        yield from (self.primals, self.iterations, self.entries)
        for scopes in self.branches.values():
            for scope in scopes:
                yield from scope.computed()

    def recall(self, other: GradientScope) -> None:
        """Add the values that were computed in another scope and are visible in this one."""
        self.primals.update(other.primals)
        self.iterations.update(other.iterations)
        self.entries.update(other.entries)
        self.branches.update(other.branches)

    def accumulator(self, tile: Value) -> Value | None:
        """The buffer that accumulates the adjoint of a tile, if there is one."""
        return next((s.accumulators[tile] for s in self.outward() if tile in s.accumulators), None)


class Primals(MutableMapping[Value, Value]):
    """The primals of a scope and its outer scopes as one mapping, for cloning ops."""

    def __init__(self, scope: GradientScope) -> None:
        self.scope = scope

    def __getitem__(self, value: Value) -> Value:
        primal = self.scope.primal(value)
        if primal is None:
            raise KeyError(value)
        return primal

    def __setitem__(self, value: Value, primal: Value) -> None:
        self.scope.primals[value] = primal

    def __delitem__(self, value: Value) -> None:
        del self.scope.primals[value]

    def __iter__(self) -> Iterator[Value]:
        return iter({v: None for s in self.scope.outward() for v in s.primals})

    def __len__(self) -> int:
        return sum(1 for _ in self)
