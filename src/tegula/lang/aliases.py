"""Alias analysis of tile objects at joins: the objects that must be references, and the changes that are errors.

At a join, a name that is bound to one of several objects gets a new object with a copy of the value. The copy is
distinguishable from the object only if both are in use and one is used after a change of the other. In this case the
name becomes a reference (`references.py`); shared tiles are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from tegula.dataclass import dataclass, field
from tegula.errors import CompileError, MergedSharedTiles, TypeMismatch
from tegula.ir import Op, Region, Value, root
from tegula.ops.buffer import (
    BufNew,
    BufReshape,
    BufSet,
    BufUpdate,
    BufView,
    BufWrite,
    is_packed,
)
from tegula.ops.control import For, While
from tegula.source import Location
from tegula.types import BufType

VIEWS = (BufView, BufReshape)


@dataclass(slots=True)
class JoinedObjects:
    """The objects that may alias others, as the tracer records them. `merged`: objects created at joins; `copied`:
    second names of a tile that may be a register tile, which is copied, or a shared tile, which is not."""

    merged: dict[Value, list[Value | None]] = field(default_factory=dict)
    copied: dict[Value, Value] = field(default_factory=dict)


@dataclass(slots=True)
class AliasConflicts:
    """Objects to which several names may refer. `errors`: an error for each object that would miss a change of its
    alias, or whose alias would miss a change of the object. `references`: objects created at joins that must be
    references to their sources, not copies."""

    errors: list[MergedSharedTiles] = field(default_factory=list)
    references: set[Value] = field(default_factory=set)


def alias_conflicts(body: Region, joined: JoinedObjects) -> AliasConflicts:
    """The errors and references for changes that an alias would miss if joins copied tiles."""
    out = AliasConflicts()
    if not joined.merged:
        return out
    objects = _Objects(body, joined)
    errors: dict[tuple[Location, str], MergedSharedTiles] = {}
    for tile in objects.merged:
        for update, other in objects.observable_aliases(tile):
            if objects.refused(tile, other):
                error = objects.error(update, tile, other)
                errors.setdefault((error.loc or UNKNOWN_PLACE, error.message), error)
                break
            out.references |= {x for x in (tile, other) if x in joined.merged}
    out.errors = list(errors.values())
    out.references |= objects.reshaped_views()
    for x in list(out.references):
        out.references |= objects.possible_aliases(x, copies=False) & joined.merged.keys()
    return out


def changed_copies(body: Region, joined: JoinedObjects, read_only: Mapping[Value, str]) -> list[CompileError]:
    """An error for each change of a tile that may be a read-only copy in a later iteration."""
    if not joined.merged or not read_only:
        return []
    objects = _Objects(body, joined)
    errors: list[CompileError] = []
    for tile in objects.phis:
        copies = [x for x in objects.possible_aliases(tile, copies=False) if x in read_only]
        for op in filter(_changes, objects.uses[tile] if copies else []):
            message, help = (
                f"the result of {read_only[copies[0]]} is read-only",
                "change a copy of the tile: tg.copy(...)",
            )
            errors.append(TypeMismatch(op.loc, what=message, help=help))
    return errors


UNKNOWN_PLACE = Location("", 0)


class Uses:
    """The tile objects of a kernel and their uses, through views too, in program order."""

    def __init__(self, body: Region) -> None:
        self.order = {op: k for k, op in enumerate(body.walk())}
        self.uses: dict[Value, list[Op]] = {op.result: [] for op in self.order if isinstance(op, BufNew)}
        for op in self.order:
            if isinstance(op, VIEWS):
                continue
            for x in op.operands:
                if root(x) in self.uses:
                    self.uses[root(x)].append(op)

    def definition_index(self, x: Value) -> int:
        """The position of the op that defines a value, in program order."""
        assert isinstance(x.owner, Op)
        return self.order[x.owner]

    def used_after(self, change: Op, used: Value) -> bool:
        """Whether an object is used after an op, including later iterations of enclosing loops."""
        position = self.order[change]
        assert isinstance(used.owner, Op)
        enclosing = [loop for loop in _loops(change) if not is_nested_in(used.owner, loop)]
        return any(
            self.order[op] > position or any(is_nested_in(op, loop) for loop in enclosing)
            for op in self.uses[used]
        )


class _Objects(Uses):
    """The tile objects of a kernel and their may-alias relation."""

    def __init__(self, body: Region, joined: JoinedObjects) -> None:
        super().__init__(body)
        # Loops that were traced twice leave objects that are in no region.
        self.phis = {
            tile: [root(s) if s is not None and isinstance(s.type, BufType) else None for s in sources]
            for tile, sources in joined.merged.items()
            if tile.owner in self.order
        }
        self.sources = joined.merged
        copied = {tile: [root(s)] for tile, s in joined.copied.items() if tile.owner in self.order}
        shared = self._may_be_shared({**self.phis, **copied})
        self.merged = {**self.phis, **{tile: s for tile, s in copied.items() if s[0] in shared}}
        self.changes = {
            x: updates for x, uses in self.uses.items() if (updates := list(filter(_changes, uses)))
        }

    def _may_be_shared(self, sources: Mapping[Value, Sequence[Value | None]]) -> set[Value | None]:
        shared: set[Value | None] = {x for x in self.uses if x not in sources and is_shared(x)}
        while True:
            merged = {tile for tile, edges in sources.items() if shared.intersection(edges)} - shared
            if not merged:
                return shared
            shared |= merged

    def may_alias(self, x: Value, y: Value, seen: set[frozenset[Value]]) -> bool:
        """Whether two concurrently live objects may be the same object in the program as written, by induction over the
        joins: a pair in `seen` was assumed, or found, to differ."""
        if x is y:
            return True
        if frozenset((x, y)) in seen:
            return False
        seen.add(frozenset((x, y)))
        if self.definition_index(x) > self.definition_index(y):
            x, y = y, x
        if y not in self.merged:
            return False  # y is a new object, and x existed before
        if x in self.merged and _join(x) is _join(y):
            edges = zip(self.merged[x], self.merged[y], strict=False)
            return any(a is not None and b is not None and self.may_alias(a, b, seen) for a, b in edges)
        return any(s is not None and self.may_alias(x, s, seen) for s in self.merged[y])

    def observable_aliases(self, tile: Value) -> Iterator[tuple[BufSet | BufWrite | BufUpdate, Value]]:
        """The objects that an object created at a join may alias observably, each with a change of one of the two that
        is followed by a use of the other."""
        if not self.uses[tile] or all(s is None for s in self.merged[tile]):
            return
        for other in self.uses if tile in self.changes else self.changes:
            if (
                not self.uses[other]
                or other is tile
                or self.definition_index(other) > self.definition_index(tile)
            ):
                continue
            update = self._missed_write(tile, other)
            if update is not None and self.may_alias(other, tile, set()):
                yield update, other

    def _missed_write(self, tile: Value, other: Value) -> BufSet | BufWrite | BufUpdate | None:
        """A write to one of two objects that is followed by a use of the other object."""
        for changed, used in ((tile, other), (other, tile)):
            for change in self.changes.get(changed, ()):
                if self.order[change] > self.definition_index(tile) and self.used_after(change, used):
                    return change
        return None

    def reshaped_views(self) -> set[Value]:
        """Objects created at joins that may be strided views and have a reshaped view, which must share their memory:
        the
        reshape of a strided view may be a copy."""
        out: set[Value] = set()
        for op in self.order:
            view = root(op.result) if isinstance(op, BufReshape) else None
            if (
                view in self.phis
                and view not in out
                and self._may_be_strided(view)
                and self._interferes(op, view)
            ):
                out.add(view)
        return out

    def _may_be_strided(self, tile: Value) -> bool:
        sources = (
            s
            for x in self.possible_aliases(tile, copies=False)
            for s in self.sources.get(x, ())
            if s is not None
        )
        return any(isinstance(s.type, BufType) and not is_packed(s) for s in sources)

    def _interferes(self, view: Op, tile: Value) -> bool:
        """Whether a view and its object interfere: a write through the view, or a use of the view after a write to the
        object."""
        uses_of_view = [op for op in self.uses[tile] if any(_is_view_of(x, view) for x in op.operands)]
        enclosing = [loop for op in uses_of_view for loop in _loops(op) if not is_nested_in(view, loop)]
        for change in filter(_changes, self.uses[tile]):
            if self.order[change] < self.order[view]:
                continue
            used_later = any(self.order[op] > self.order[change] for op in uses_of_view)
            if change in uses_of_view or used_later or any(is_nested_in(change, loop) for loop in enclosing):
                return True
        return False

    def refused(self, tile: Value, other: Value) -> bool:
        """Whether both objects may alias one shared tile, and the name merges several shared tiles or views; or whether
        one object may be a second name, which is a copy unless its tile is shared and thus cannot be a reference."""
        common = {x for x in self._origins(tile, other) if is_shared(x)}
        direct = self.possible_aliases(tile, copies=False) & self.possible_aliases(other, copies=False)
        aliases = (
            self.possible_aliases(tile, copies=False) | self.possible_aliases(other, copies=False)
        ) - self.phis.keys()
        if any(x in self.merged and common & self.possible_aliases(x) for x in aliases):
            return True
        leaves = self._leaves(tile)
        shared = set(filter(is_shared, leaves))
        return bool(common - direct) or bool(common) and (len(shared) > 1 or shared == leaves)

    def error(self, change: BufSet | BufWrite | BufUpdate, tile: Value, other: Value) -> MergedSharedTiles:
        changed, part = _quoted_name(tile), _quoted_name(other)
        aliases = (
            f"{part} aliases the tile on some paths only"
            if part != changed
            else "the tile has a second name on some paths only"
        )
        if root(change.buffer) is tile:
            aliases = (
                f"the tile aliases {part} on some paths and another tile on others"
                if part != changed
                else aliases
            )
            message = f"{changed} is changed, but {aliases}"
        else:
            message = f"{part} is changed, while {aliases.replace(part, changed)}"
        notes = [(_location_of(x), f"{_quoted_name(x)} is created here") for x in self._origins(tile, other)]
        notes += [(_location_of(x), _how_merged(x)) for x in (other, tile) if x in self.merged]
        return MergedSharedTiles(change.loc, notes=list(dict.fromkeys(notes)), what=message)

    def _origins(self, tile: Value, other: Value) -> list[Value]:
        """The common sources of two objects that were not created at joins, in program order."""
        objects = self.possible_aliases(tile) & self.possible_aliases(other)
        return sorted((x for x in objects if x not in self.merged), key=self.definition_index)

    def _leaves(self, tile: Value) -> set[Value]:
        return {x for x in self.possible_aliases(tile) if x not in self.merged}

    def possible_aliases(self, x: Value, copies: bool = True) -> set[Value]:
        """The object and all objects that it may alias; with `copies` also the objects of which it may be a copy."""
        sources = self.merged if copies else self.phis
        seen: set[Value] = set()
        pending = [x]
        while pending:
            current = pending.pop()
            if current not in seen:
                seen.add(current)
                pending += [s for s in sources.get(current, ()) if s is not None]
        return seen


def _is_view_of(x: Value, view: Op) -> bool:
    """Whether a value is `view` or a view of `view`."""
    while isinstance(x.owner, VIEWS) and x.owner is not view:
        x = x.owner.buffer
    return x.owner is view


def is_shared(x: Value) -> bool:
    """Whether an object was declared shared."""
    return getattr(x.type, "storage", "") == "shared"


def _location_of(x: Value) -> Location:
    assert isinstance(x.owner, Op)
    return x.owner.loc


def _quoted_name(x: Value) -> str:
    return f"'{x.name}'" if x.name else "the tile"


def _how_merged(x: Value) -> str:
    join = _join(x)
    if isinstance(join, Region | For | While):
        return f"each iteration of this loop may bind {_quoted_name(x)} to another tile"
    return f"{_quoted_name(x)} is bound to different tiles on the paths that join here"


def _join(x: Value) -> Op | Region | None:
    """The join that created an object: the branch or loop whose result it holds, or a loop's region."""
    assert isinstance(x.owner, BufNew)
    return x.owner.tile.owner


def _changes(op: Op) -> TypeGuard[BufSet | BufWrite | BufUpdate]:
    if not isinstance(op, BufSet | BufWrite | BufUpdate):
        return False
    target = root(op.buffer)
    writes = (e.value for e in op.effects() if e.kind in ("write", "atomic"))
    return any(value is not None and root(value) is target for value in writes)


def _loops(op: Op) -> Iterator[Op]:
    """The loops around an op."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, For | While):
            yield region.parent
        region = region.parent.parent


def is_nested_in(op: Op, outer: Op) -> bool:
    """Whether an op is nested in another op."""
    region = op.parent
    while region is not None and region.parent is not None:
        if region.parent is outer:
            return True
        region = region.parent.parent
    return False
