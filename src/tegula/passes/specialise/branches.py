"""Moves branches around loops with matmuls into the trip counts of these loops.

Roles then run the same loops on both paths: the loops of a branch that is not taken have trip count 0, so that no tile
is fetched or popped. Ops without effects and bounds-checked loads move out of the branch; all other ops stay in
branches with the same condition."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Builder, Kernel, MatmulLike, Op, Region, TileAccess, Value
from tegula.ops import scalar as S
from tegula.ops.control import If, Yield, branches, counted
from tegula.ops.tile import TileEmpty
from tegula.types import TileType, bool_, is_element, scalar_of


def predicate_trip_counts(kernel: Kernel) -> None:
    """Rewrite, in place, every branch that has a loop with a matmul in it."""
    for op in reversed([op for op in kernel.walk() if branches(op)]):
        if any(counted(o) and _multiplies(o) for r in op.alternatives for o in r.ops):
            _flatten(op)


def _multiplies(op: Op) -> bool:
    return any(isinstance(o, MatmulLike) for o in op.walk())


def _flatten(branch: If) -> None:
    """Replace a branch by its ops."""
    region = branch.parent
    assert region is not None
    values = Region()
    build = Builder(values, branch.loc)
    condition = branch.condition
    for alternative in branch.alternatives:
        for run in _runs(alternative.ops[:-1]):
            if not _is_movable(run[0]):
                _guard(build, condition, run, alternative)
                continue
            (op,) = run
            if counted(op):
                op.stop = build.insert(S.Select([condition, op.stop, op.start], [op.start.type])).result
            values.append(op)
        condition = build.insert(S.Not([branch.condition], [bool_])).result
    then, otherwise = (Region(), Region())
    for target, alternative in zip((then, otherwise), branch.alternatives, strict=True):
        Builder(target, branch.loc).insert(Yield(alternative.yielded))
    if branch.results:
        joined = If([branch.condition], [], None, [then, otherwise], branch.loc)
        joined.results, branch.results = branch.results, []
        for result in joined.results:
            result.owner = joined
        values.append(joined)
    for op in values.ops:
        op.parent = region
    at = region.ops.index(branch)
    region.ops[at : at + 1] = values.ops


def _is_movable(op: Op) -> bool:
    """Whether an op moves out of a branch: a loop, whose trip count is predicated on the condition, or an op that may
    be speculated."""
    if counted(op):
        return True
    if isinstance(op, TileAccess) and all(e.kind == "read" for e in op.effects()):
        return bool(op.bounds_check)
    return not any(True for o in op.walk() for _ in o.effects())


def _runs(ops: Sequence[Op]) -> list[list[Op]]:
    """The ops in order, grouped into single ops that move and runs of ops that do not."""
    runs: list[list[Op]] = []
    for op in ops:
        if not _is_movable(op) and runs and not _is_movable(runs[-1][-1]):
            runs[-1].append(op)
        else:
            runs.append([op])
    return runs


def _guard(build: Builder, condition: Value, ops: Sequence[Op], alternative: Region) -> None:
    """Put ops into a branch of their own, which yields the values that later ops use."""
    after = alternative.ops[alternative.ops.index(ops[-1]) + 1 :]
    results_used = [
        r for op in ops for r in op.results if any(r in o.operands for later in after for o in later.walk())
    ]
    then, otherwise = Region(), Region()
    for op in ops:
        then.append(op)
    fill = Builder(otherwise, ops[0].loc)
    Builder(then, ops[0].loc).insert(Yield(results_used))
    fill.insert(Yield([_unspecified(fill, r) for r in results_used]))
    guard = build.insert(If([condition], [r.type for r in results_used], None, [then, otherwise], ops[0].loc))
    for later in after:
        for o in later.walk():
            o.substitute(dict(zip(results_used, guard.results, strict=True)))


def _unspecified(build: Builder, value: Value) -> Value:
    """A value of the same type for a branch that is not taken; no op reads the value."""
    t = value.type
    if isinstance(t, TileType):
        return build.insert(TileEmpty([], [t], {"type": t})).result
    assert is_element(t)
    zero = False if scalar_of(t) == bool_ else 0
    return build.insert(S.Const([], [t], {"type": t, "value": zero})).result
