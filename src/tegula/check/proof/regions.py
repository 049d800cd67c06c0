"""The regions of a loop's body in which counts and carried values change: a value that changes in the same regions as a
count probably changes with it."""

from __future__ import annotations

from typing import TypeAlias

from tegula.check.proof.program import Program
from tegula.check.proof.steps import Count, cached, continuing, counts_of, is_in, sides_of
from tegula.ir import BranchLike, ConstantLike, LoopLike, Op, Region, Value

Regions: TypeAlias = frozenset[Region]


@cached
def regions_of_counts(program: Program, body: Region) -> dict[Count, Regions]:
    """For each count the innermost regions in which it changes. A branch that changes it on all sides from which the
    loop goes on is no region of its own, nor are two branches with opposite conditions that both change it."""
    out: dict[Count, Regions] = {}
    sides: dict[tuple[Value, bool], list[Region]] = {}
    for op in body.ops:
        rows = {count: frozenset((body,)) for count in counts_of(program, op)}
        inner = [(region, regions_of_counts(program, region)) for region in _alternatives(op)]
        for count in dict.fromkeys(count for _, counts in inner for count in counts):
            regions = [(region, counts.get(count, frozenset())) for region, counts in inner]
            rows[count] = _merged(op, regions)
        for count, regions in rows.items():
            out[count] = out.get(count, frozenset()) | regions
        for condition, truth, region in sides_of(op):
            sides.setdefault((condition, truth), []).append(region)
    for condition in dict.fromkeys(condition for condition, _ in sides):
        if_true, if_false = sides[condition, True], sides[condition, False]
        for count, regions in out.items():
            if not (regions.isdisjoint(if_true) or regions.isdisjoint(if_false)):
                out[count] = regions.difference(if_true, if_false) | {body}
    return out


def regions_of_changes(program: Program, loop: LoopLike, argument: Value) -> Regions:
    """The innermost regions of a loop's body in which a carried value changes. A branch or loop without events is no
    region of its own: it may be where a stage begins again."""
    visited = set[Value]()

    def changes(v: Value, unchanged: Value, region: Region) -> Regions:
        """The regions in which `v`, which a region yields, is computed from a value that is unchanged."""
        op = v.owner
        if v is unchanged or v in visited:
            return frozenset()
        visited.add(v)
        if not isinstance(op, Op) or isinstance(op, ConstantLike) or not is_in(op.parent, loop.body):
            return frozenset((region,))
        here = frozenset((op.parent or region,))
        if not isinstance(op, BranchLike | LoopLike):
            return here.union(*(changes(x, unchanged, region) for x in op.operands if _is_computed(x)))
        k = op.results.index(v)
        if isinstance(op, LoopLike):
            regions = changes(op.body.yielded[k], op.arguments[k], op.body)
            regions |= changes(op.initial[k], unchanged, region)
        else:
            rows = [(side, changes(side.yielded[k], unchanged, side)) for side in continuing(op)]
            regions = _merged(op, rows)
        return regions if program.counts(op) or not regions else here

    return changes(loop.body.yielded[loop.arguments.index(argument)], argument, loop.body)


def _is_computed(v: Value) -> bool:
    return isinstance(v.owner, Op) and not isinstance(v.owner, ConstantLike)


def _alternatives(op: Op) -> list[Region]:
    return continuing(op) if isinstance(op, BranchLike) else [*op.regions]


def _merged(op: Op, rows: list[tuple[Region, Regions]]) -> Regions:
    """The regions of an op in which something changes: the region that contains the op, if all sides of a branch
    change it."""
    if op.parent is not None and isinstance(op, BranchLike) and all(at == {region} for region, at in rows):
        return frozenset((op.parent,))
    return frozenset[Region]().union(*(regions for _, regions in rows))
