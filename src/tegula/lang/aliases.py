"""Refuses changes to shared tiles whose identity control flow has blurred.

At a join a name that stood for one of several shared objects gets a new object with the value. That is the same thing
unless the old object is still in use under another name and one of the two is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tegula.errors import MergedSharedTiles
from tegula.ir import Op, Region, Value
from tegula.ops.buffer import BufNew, BufReshape, BufView
from tegula.ops.control import For, While


def root(x: Value) -> Value:
    """The object that a view shows."""
    while isinstance(x.owner, BufView | BufReshape):
        x = x.owner.operands[0]
    return x


def blurred_changes(
    body: Region, merged: Mapping[Value, Sequence[Value]], handovers: AbstractSet[Op]
) -> list[MergedSharedTiles]:
    """One error for each merged object that is changed, or whose source is, while both are in use."""
    if not merged:
        return []
    order = {op: k for k, op in enumerate(body.walk())}
    # Loops that were traced twice have left objects behind that are in no region.
    merged = {made: sources for made, sources in merged.items() if made.owner in order}
    uses: dict[Value, list[Op]] = {}
    for op in order:
        for x in op.operands:
            uses.setdefault(root(x), []).append(op)
    twins = _twins(merged)
    out: list[MergedSharedTiles] = []
    for made, sources in merged.items():
        for source in sources:
            error = _blurred(made, root(source), order, uses, handovers, twins)
            if error is not None:
                out.append(error)
                break
    return out


def _twins(merged: Mapping[Value, Sequence[Value]]) -> dict[Value, list[Value]]:
    """For each source, the objects made of it."""
    out: dict[Value, list[Value]] = {}
    for made, sources in merged.items():
        for source in dict.fromkeys(map(root, sources)):
            out.setdefault(source, []).append(made)
    return out


def _blurred(
    made: Value,
    source: Value,
    order: Mapping[Op, int],
    uses: Mapping[Value, Sequence[Op]],
    handovers: AbstractSet[Op],
    twins: Mapping[Value, Sequence[Value]],
) -> MergedSharedTiles | None:
    at = made.owner
    assert isinstance(at, Op)
    again = _loop_around(at, source)

    def later(op: Op) -> bool:
        return order[op] > order[at] or (again is not None and _within(op, again))

    others = [op for op in uses.get(source, ()) if later(op) and op not in handovers and op is not at]
    for twin in twins[source]:
        if twin is not made and _region(twin) is _region(made):
            others += [op for op in uses.get(twin, ()) if op not in handovers]
    mine = [op for op in uses.get(made, ()) if op not in handovers]
    if not others or not mine:
        return None
    change = next((op for op in (*mine, *others) if _changes(op)), None)
    if change is None:
        return None
    whole, part = (
        f"'{made.name}'" if made.name else "the tile",
        f"'{source.name}'" if source.name else "the tile",
    )
    changed = root(change.operands[0])
    if changed is made:
        what = f"{whole} may be another name of {part} or of another shared tile: the path decides which one changes"
    else:
        what = f"{part} is changed, while {whole} may be another name of it or not, depending on the path"
    notes = [(source.owner.loc, f"{part} is made here")] if isinstance(source.owner, Op) else []
    notes.append((at.loc, f"{whole} comes from paths that meet here"))
    return MergedSharedTiles(change.loc, notes=notes, what=what)


def _changes(op: Op) -> bool:
    if isinstance(op, BufNew):
        return False
    return any(e.kind in ("write", "atomic") for e in op.effects())


def _region(x: Value) -> Region | None:
    return x.owner.parent if isinstance(x.owner, Op) else x.owner


def _loop_around(op: Op, source: Value) -> Op | None:
    """The innermost loop that holds the op but not the definition of the source."""
    region = op.parent
    while region is not None and region.parent is not None:
        loop = region.parent
        if isinstance(loop, For | While):
            return None if isinstance(source.owner, Op) and _within(source.owner, loop) else loop
        region = loop.parent
    return None


def _within(op: Op, outer: Op) -> bool:
    region = op.parent
    while region is not None and region.parent is not None:
        if region.parent is outer:
            return True
        region = region.parent.parent
    return False
