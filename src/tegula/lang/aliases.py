"""Refuses changes to tile objects whose identity control flow has blurred.

At a join a name that stood for one of several objects gets a new object with the value. That is the same thing unless
the new object and another one that it may be are both in use, and one of them is used after the other was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tegula.errors import MergedSharedTiles
from tegula.ir import Op, Region, Value
from tegula.ops.buffer import BufNew, BufReshape, BufView, root
from tegula.ops.control import For, While
from tegula.source import Location

VIEWS = (BufView, BufReshape)
Sources = Mapping[Value, Sequence[Value | None]]
"""For each object made at a join: what it is on each edge that leads there, None where it is nothing known before."""


def blurred_changes(body: Region, merged: Sources) -> list[MergedSharedTiles]:
    """One error for each object made at a join of which a change would be missed, or that would miss one."""
    if not merged:
        return []
    objects = _Objects(body, merged)
    errors: dict[tuple[Location, str], MergedSharedTiles] = {}
    for made in objects.merged:
        error = objects.blurred(made)
        if error is not None:
            errors.setdefault((error.loc or UNKNOWN_PLACE, error.message), error)
    return list(errors.values())


UNKNOWN_PLACE = Location("", 0)


class _Objects:
    """The tile objects of a kernel, their uses in program order, and which of them may be one."""

    def __init__(self, body: Region, merged: Sources) -> None:
        self.order = {op: k for k, op in enumerate(body.walk())}
        # Loops that were traced twice have left objects behind that are in no region.
        live = {made: sources for made, sources in merged.items() if made.owner in self.order}
        identities = _identities(live)
        self.merged = {
            made: [root(s) if s is not None and s in identities else None for s in sources]
            for made, sources in live.items()
        }
        self.uses: dict[Value, list[Op]] = {op.result: [] for op in self.order if isinstance(op, BufNew)}
        for op in self.order:
            for x in () if isinstance(op, VIEWS) else op.operands:
                if root(x) in self.uses:
                    self.uses[root(x)].append(op)

    def born(self, x: Value) -> int:
        assert isinstance(x.owner, Op)
        return self.order[x.owner]

    def may_be_one(self, x: Value, y: Value, seen: set[frozenset[Value]]) -> bool:
        """Whether two objects that exist at one time may be the same one in the program as written. By induction over
        the joins: a pair in `seen` was assumed, or found, to differ."""
        if x is y:
            return True
        if frozenset((x, y)) in seen:
            return False
        seen.add(frozenset((x, y)))
        if self.born(x) > self.born(y):
            x, y = y, x
        if y not in self.merged:
            return False  # it is new, and x was there before
        if x in self.merged and _join(x) is _join(y):
            edges = zip(self.merged[x], self.merged[y], strict=False)
            return any(a is not None and b is not None and self.may_be_one(a, b, seen) for a, b in edges)
        return any(s is not None and self.may_be_one(x, s, seen) for s in self.merged[y])

    def blurred(self, made: Value) -> MergedSharedTiles | None:
        if not self.uses[made] or all(s is None for s in self.merged[made]):
            return None
        for other, uses in self.uses.items():
            if not uses or other is made or self.born(other) > self.born(made):
                continue
            found = self._missed(made, other)
            if found is not None and self.may_be_one(other, made, set()):
                return self._error(found, made, other)
        return None

    def _missed(self, made: Value, other: Value) -> Op | None:
        """A change of one of the two objects that is followed by a use of the other one."""
        for changed, used in ((made, other), (other, made)):
            for change in self.uses[changed]:
                after_join = self.order[change] > self.born(made)
                if after_join and _changes(change) and self._used_after(change, used):
                    return change
        return None

    def _used_after(self, change: Op, used: Value) -> bool:
        at = self.order[change]
        assert isinstance(used.owner, Op)
        around = [loop for loop in _loops(change) if not _within(used.owner, loop)]
        return any(self.order[op] > at or any(_within(op, loop) for loop in around) for op in self.uses[used])

    def _error(self, change: Op, made: Value, other: Value) -> MergedSharedTiles:
        whole, part = _named(made), _named(other)
        both = f"{part} may be another name of it or not" if part != whole else "it may go by two names"
        if root(change.operands[0]) is made:
            both = f"it may be another name of {part} or of another tile" if part != whole else both
            what = f"{whole} is changed, but {both}: that depends on the path"
        else:
            what = f"{part} is changed, while {both.replace(part, whole)}: that depends on the path"
        notes = [(_place(x), f"{_named(x)} is made here") for x in self._origins(made, other)]
        notes += [(_place(x), _how_merged(x)) for x in (other, made) if x in self.merged]
        return MergedSharedTiles(change.loc, notes=list(dict.fromkeys(notes)), what=what)

    def _origins(self, made: Value, other: Value) -> list[Value]:
        """The objects, not made at joins, that both may be."""
        found = self._reached(made) & self._reached(other)
        return sorted((x for x in found if x not in self.merged), key=self.born)

    def _reached(self, x: Value) -> set[Value]:
        seen: set[Value] = set()
        pending = [x]
        while pending:
            at = pending.pop()
            if at not in seen:
                seen.add(at)
                pending += [s for s in self.merged.get(at, ()) if s is not None]
        return seen


def _identities(merged: Sources) -> set[Value | None]:
    """Sources through which a change would be seen under other names: shared objects, views, and what may be one of
    these. Other tiles are values: a join copies them."""
    known = {s for sources in merged.values() for s in sources if s is not None and _is_reference(s)}
    while True:
        more = {made for made, sources in merged.items() if known.intersection(sources)} - known
        if not more:
            return {*known}
        known |= more


def _is_reference(x: Value) -> bool:
    return isinstance(x.owner, VIEWS) or getattr(x.type, "storage", "") == "shared"


def _place(x: Value) -> Location:
    assert isinstance(x.owner, Op)
    return x.owner.loc


def _named(x: Value) -> str:
    return f"'{x.name}'" if x.name else "the tile"


def _how_merged(x: Value) -> str:
    at = _join(x)
    if isinstance(at, Region | For | While):
        return f"each round of this loop may leave another tile under the name {_named(x)}"
    return f"{_named(x)} comes from paths that meet here"


def _join(x: Value) -> Op | Region | None:
    """Where an object made at a join comes from: the branch or loop whose result it is, or a loop's region."""
    assert isinstance(x.owner, Op)
    return x.owner.operands[0].owner


def _changes(op: Op) -> bool:
    target = root(op.operands[0])
    writes = (e.value for e in op.effects() if e.kind in ("write", "atomic"))
    return any(value is not None and root(value) is target for value in writes)


def _loops(op: Op) -> Iterator[Op]:
    """The loops around an op."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, For | While):
            yield region.parent
        region = region.parent.parent


def _within(op: Op, outer: Op) -> bool:
    region = op.parent
    while region is not None and region.parent is not None:
        if region.parent is outer:
            return True
        region = region.parent.parent
    return False
