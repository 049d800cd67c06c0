"""All points of the sweep."""

from __future__ import annotations

from functools import cache

from benchmarks.sweep import attention, gemm, rows
from benchmarks.sweep.point import Point

PREFIX, GRADIENTS = "sweep: ", ", gradients"
"""The prefix of the names of rows, and the suffix of the names of adjoints."""


@cache
def points() -> dict[str, Point]:
    """All points by name, in order."""
    results = [*gemm.points(), *attention.points(), *rows.points()]
    return {point.name: point for point in results}


COMPILED_GRADIENTS = (
    "matmul, A transposed",
    "matmul, batched",
    "attention, base",
    "attention, causal",
    "attention, window 1024",
    "attention, heads of 64",
    "attention, 4 heads of queries for one of keys",
    "rows, layer norm bfloat16",
)
"""The points whose adjoints are in the compile report."""
