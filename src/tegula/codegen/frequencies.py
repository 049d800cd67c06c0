"""Estimates of how often the regions of a group of blocks in lanes run, by which code is short instead of fast."""

from __future__ import annotations

from tegula.codegen.poll import max_trips, work_of
from tegula.codegen.state import State
from tegula.ir import BranchLike, Carrier, Op, Region
from tegula.ops.control import For

MAX_RARE_WORK = 1 / 10
"""The maximum part of the estimated work of a kernel that code takes together that is compiled for length."""

TRIPS, MAX_TRIPS = 4, 1 << 12
"""The estimated trip count of a loop that is not known to have at most MAX_TRIPS iterations."""


def rare_regions(s: State, body: Region) -> frozenset[Region]:
    """The regions of a kernel's body whose code runs least often and takes little of the time together."""
    runs: dict[Region, int] = {}
    _count(s, body, 1, runs)
    work_by_runs: dict[int, int] = {}
    for region, n in runs.items():
        work = n * sum(work_of(s, op) for op in region.ops if not isinstance(op, Carrier))
        work_by_runs[n] = work_by_runs.get(n, 0) + work
    rest, limit = sum(work_by_runs.values()) * MAX_RARE_WORK, -1
    for n in sorted(work_by_runs):
        rest -= work_by_runs[n]
        if rest < 0:
            break
        limit = n
    return frozenset(region for region, n in runs.items() if n <= limit)


def _count(s: State, region: Region, runs: int, counts: dict[Region, int]) -> None:
    """Record the estimated number of runs of a region and of the regions in it: 0 at the edges of arrays."""
    counts[region] = runs
    for op in region.ops:
        if isinstance(op, Carrier):
            for nested in op.regions:
                is_edge = isinstance(op, BranchLike) and _has_edges(s, nested)
                _count(s, nested, 0 if is_edge else runs * _trips(s, op), counts)


def _trips(s: State, op: Carrier) -> int:
    if isinstance(op, BranchLike):
        return 1
    trips = max_trips(s, op) if isinstance(op, For) else TRIPS
    return trips if trips <= MAX_TRIPS else TRIPS


def _has_edges(s: State, region: Region) -> bool:
    """Whether a region has accesses that run only at the edges of arrays."""
    edges: frozenset[Op] = s.vectorised.edge_accesses
    return bool(edges) and any(op in edges for op in region.walk())


__all__ = ["rare_regions"]
