"""The records of a tape as a graph for Graphviz: records are boxes, arrays are ellipses, and arrows are reads and
writes; dashed lines connect functions with the arrays that they may read or write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegula.runtime.array import array
from tegula.runtime.records import (
    AdjointRecord,
    AssignmentRecord,
    CallRecord,
    ElementRange,
    LaunchRecord,
    Record,
    Use,
)


class TapeGraph:
    """The graph of the records of a tape. Arrays with the same elements in memory are one node.

    `labels`: names of arrays, by identity; `hide_read`: whether arrays that are only read are omitted, except `tracked`
    arrays."""

    def __init__(
        self,
        records: Sequence[Record],
        labels: Mapping[int, str],
        hide_read: bool = False,
        tracked: Sequence[array] = (),
    ) -> None:
        self.records = records
        self.labels = {
            **{ElementRange.of(u.array): array_name(u) for r in records for u in (*r.writes, *r.reads)},
            **{ElementRange.of(a): labels[id(a)] for r in records for a in r.arrays if id(a) in labels},
        }
        written = {u.elements for r in records for u in r.writes}
        visible = written | {ElementRange.of(a) for a in tracked}
        ranges = dict.fromkeys(ElementRange.of(a) for r in records for a in r.arrays)
        self.nodes = {
            elements: k for k, elements in enumerate(ranges) if elements in visible or not hide_read
        }
        self.tooltips = {ElementRange.of(a): array_text(a) for r in records for a in r.arrays}

    def text(self, direction: str) -> str:
        """The graph in Graphviz's language."""
        lines = ["digraph tape {", f"    rankdir={direction};"]
        for elements, k in self.nodes.items():
            name = self.labels.get(elements, f"array {k}")
            lines.append(
                f"    a{k} [shape=ellipse, label={quoted(name)}, tooltip={quoted(self.tooltips[elements])}];"
            )
        for k, record in enumerate(self.records):
            lines.append(f"    r{k} [shape=box, style=rounded, label={quoted(title(record))}];")
            lines += [f"    a{self.nodes[u.elements]} -> r{k};" for u in self._visible_uses(record.reads)]
            lines += [f"    r{k} -> a{self.nodes[u.elements]};" for u in self._visible_uses(record.writes)]
            if isinstance(record, CallRecord):
                nodes = [
                    self.nodes[elements]
                    for a in record.arrays
                    if (elements := ElementRange.of(a)) in self.nodes
                ]
                lines += [f"    a{n} -> r{k} [dir=none, style=dashed];" for n in nodes]
        return "\n".join([*lines, "}", ""])

    def _visible_uses(self, uses: Sequence[Use]) -> list[Use]:
        return [use for use in uses if use.elements in self.nodes]


def title(record: Record) -> str:
    """The description of a record as one line."""
    if isinstance(record, LaunchRecord):
        return f"{record.kernel.name} {'x'.join(map(str, record.plan.dims))}"
    if isinstance(record, AssignmentRecord):
        return "fill" if record.source is None else "copy"
    if isinstance(record, CallRecord):
        return getattr(record.backward, "__name__", "function")
    assert isinstance(record, AdjointRecord)
    return record.origin


def array_name(use: Use) -> str:
    """The name of an array in a record."""
    return use.name.removeprefix("argument ").strip("'")


def array_text(a: array) -> str:
    """The dtype and the shape of an array."""
    return f"{a.dtype}{list(a.shape)}{' with a gradient' if a.requires_grad else ''}"


def quoted(text: str) -> str:
    """A string of Graphviz's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
