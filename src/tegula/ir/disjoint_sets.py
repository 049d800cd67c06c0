"""Disjoint sets of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tegula.ir.values import Value


class DisjointSets:
    """Sets of values without common values; iteration gives all values, in the order in which they were joined."""

    def __init__(self) -> None:
        self.parents: dict[Value, Value] = {}

    def __iter__(self) -> Iterator[Value]:
        return iter(self.parents)

    def find(self, v: Value) -> Value:
        """The representative of a value's set."""
        while self.parents[v] is not v:
            self.parents[v] = self.parents[self.parents[v]]
            v = self.parents[v]
        return v

    def join(self, values: Iterable[Value]) -> None:
        """Join the sets of values; a new value is a set of its own before. The representative of the first value is
        that of the joint set."""
        first: Value | None = None
        for v in values:
            self.parents.setdefault(v, v)
            if first is None:
                first = self.find(v)
            else:
                self.parents[self.find(v)] = first
