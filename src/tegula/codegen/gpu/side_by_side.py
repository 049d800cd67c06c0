"""Groups of ops that are lowered together: ops that apply one computation to independent tiles share their branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tegula.codegen.elements import is_faster_in_lockstep, is_vectorised, needs_bounds
from tegula.codegen.gpu.state import GpuState
from tegula.ir import Op, Region, Value
from tegula.ops.tile import TileLoad, TileMap, TileStore

GROUPED = (TileLoad, TileMap, TileStore)
"""The kinds of ops that may share branches."""


def group_ops(s: GpuState, ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    """The ops in order, grouped; most groups are a single op."""
    group: list[Op] = []
    for op in ops:
        if group and not _joins(s, group, op):
            yield group
            group = []
        group.append(op)
    yield group


def _joins(s: GpuState, group: Sequence[Op], op: Op) -> bool:
    first = group[0]
    if type(op) is not type(first) or not isinstance(op, GROUPED):
        return False
    if any(v.owner in group for v in op.operands):
        return False
    if isinstance(op, TileMap) and isinstance(first, TileMap):
        return (
            is_vectorised(s, op)
            and is_faster_in_lockstep(s, op.function)
            and s.layouts[op.result] == s.layouts[first.result]
            and is_isomorphic(op.function, first.function)
        )
    if (
        isinstance(op, TileStore)
        and isinstance(first, TileStore)
        and s.layouts[op.tile] != s.layouts[first.tile]
    ):
        return False
    # Ops with promises are not grouped, because promises are checked before each access.
    return (
        isinstance(op, TileLoad | TileStore)
        and isinstance(first, TileLoad | TileStore)
        and all(needs_bounds(s, o) for o in (first, op))
        and not s.debug
    )


def is_isomorphic(a: Region, b: Region, outside: Mapping[Value, Value] | None = None) -> bool:
    """Whether two regions compute the same function of their arguments and of values defined outside. `outside`: the
    correspondence of outer values of the first region to outer values of the second region."""
    if [v.type for v in a.args] != [v.type for v in b.args] or len(a.ops) != len(b.ops):
        return False
    correspondence = {**(outside or {}), **dict(zip(a.args, b.args, strict=True))}
    for x, y in zip(a.ops, b.ops, strict=True):
        if not x.is_like(y) or len(x.regions) != len(y.regions):
            return False
        if [correspondence.get(v, v) for v in x.operands] != y.operands:
            return False
        if not all(is_isomorphic(p, q, correspondence) for p, q in zip(x.regions, y.regions, strict=True)):
            return False
        correspondence.update(zip(x.results, y.results, strict=True))
    return True
