"""Where two paths meet: names that differ become results of the branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ir import Region, Value
from tegula.lang.explain import made_at
from tegula.lang.expressions import Expressions
from tegula.lang.state import (
    FAILED,
    FLAGS,
    RESULT,
    UNBOUND,
    Binding,
    Conflict,
    Failed,
    Partly,
    Path,
    Unbound,
    describe_type,
    is_element_value,
    is_handle,
)
from tegula.ops.base import TypeRule
from tegula.ops.builder import LITERALS
from tegula.ops.control import If, Yield
from tegula.ops.tile import TileEmpty, TileFillAbsent
from tegula.rewrite import is_made_in
from tegula.source import Location
from tegula.types import BufType, TileType, Type, bool_, is_element

Rebuild = Callable[[Iterator[Value]], Binding]


@dataclass(slots=True)
class Merge:
    """How a name goes on: Values that each path yields, and what the results make of them."""

    first: list[Value]
    second: list[Value]
    rebuild: Rebuild


class _Dead:
    """The binding of a path that never gets to where the name is read."""


_DEAD = _Dead()


class Joins(Expressions):
    def branch(
        self,
        condition: Value,
        paths: tuple[Path, Path],
        live: Callable[[str], bool],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Emit `if` over two traced paths; the frame's names become those after it."""
        merges = self._merges(paths, live)
        for path, values in zip(
            paths,
            ([v for m in merges.values() for v in getattr(m, side)] for side in ("first", "second")),
            strict=True,
        ):
            with self.within(path.region):
                self.builder.emit(Yield, values)
        results = iter(self.builder.emit(If, [condition], attrs, [p.region for p in paths]))
        self.frame.names = {name: m.rebuild(results) for name, m in merges.items()}

    def _merges(self, paths: tuple[Path, Path], live: Callable[[str], bool]) -> dict[str, Merge]:
        p, q = paths
        out: dict[str, Merge] = {}
        for name in dict.fromkeys([*p.names, *q.names]):
            a, b = p.names.get(name, UNBOUND), q.names.get(name, UNBOUND)
            if a is b:
                out[name] = _keep(a)
            elif name in FLAGS or name == RESULT or live(name):
                out[name] = self._merge(name, a, b, p, q)
        return out

    def _merge(self, name: str, a: Binding, b: Binding, p: Path, q: Path) -> Merge:
        if isinstance(a, Failed) or isinstance(b, Failed):
            return _keep(FAILED)
        partly = isinstance(a, Partly) or isinstance(b, Partly)
        a = a.binding if isinstance(a, Partly) else a
        b = b.binding if isinstance(b, Partly) else b
        if name == RESULT:
            a = _DEAD if isinstance(a, Unbound) else a
            b = _DEAD if isinstance(b, Unbound) else b
        if isinstance(a, Unbound) and p.exit:
            a, partly = _DEAD, partly or p.exit == "loop"
        if isinstance(b, Unbound) and q.exit:
            b, partly = _DEAD, partly or q.exit == "loop"
        for side in (a, b):
            if isinstance(side, Unbound | Conflict):
                return _keep(side)
        made = self._merge_bound(name, a, b, p, q)
        if not partly:
            return made
        rebuild = made.rebuild
        return Merge(made.first, made.second, lambda results: Partly(rebuild(results)))

    def _merge_bound(self, name: str, a: Binding, b: Binding, p: Path, q: Path) -> Merge:
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return self._merge_tuples(name, list(zip(a, b, strict=True)), p, q)
        if isinstance(a, tuple) and b is _DEAD or isinstance(b, tuple) and a is _DEAD:
            parts = [(x, _DEAD) for x in a] if isinstance(a, tuple) else [(_DEAD, x) for x in b]
            return self._merge_tuples(name, parts, p, q)
        known = b if a is _DEAD else a
        if same_static(a, b) or ((a is _DEAD or b is _DEAD) and self._outlives(known, p, q)):
            return _keep(known)
        like = next((x.type for x in (a, b) if is_element_value(x)), None)
        first, second = self._selectable(a, p, like), self._selectable(b, q, like)
        if a is _DEAD and second is not None:
            first = self._anything(second.type, p.region)
        if b is _DEAD and first is not None:
            second = self._anything(first.type, q.region)
        if first is not None and second is not None:
            first, second = (
                self.filled(first, second.type, p.region),
                self.filled(second, first.type, q.region),
            )
        if first is None or second is None or first.type != second.type:
            return _keep(Conflict(conflict(name, known if a is _DEAD else a, known if b is _DEAD else b)))
        return Merge([first], [second], lambda results: self._rebuilt(name, next(results), a, b))

    def _merge_tuples(self, name: str, parts: list[tuple[Binding, Binding]], p: Path, q: Path) -> Merge:
        merges = [_keep(x) if x is y else self._merge_bound(name, x, y, p, q) for x, y in parts]
        return Merge(
            [v for m in merges for v in m.first],
            [v for m in merges for v in m.second],
            lambda results: tuple(m.rebuild(results) for m in merges),
        )

    def _selectable(self, x: Binding, path: Path, like: Type | None) -> Value | None:
        """x as a Value that a branch can yield, built at the end of the path."""
        if not isinstance(x, (Value, *LITERALS)) or is_handle(x):
            return None
        with self.within(path.region):
            if isinstance(x, Value):
                return self.handed_over(x) if isinstance(x.type, BufType) else x
            fits = like is not None and isinstance(x, bool) == (like == bool_)
            try:
                return self.builder.value(x, like if fits else None)
            except TypeRule:
                return None

    def filled(self, x: Value, wanted: Type, region: Region) -> Value:
        """x at the end of a region; where a full tile is wanted, a partial one gets 0 for its absent lanes."""
        if not (
            isinstance(x.type, TileType) and x.type.partial and wanted == TileType(x.type.dtype, x.type.shape)
        ):
            return x
        with self.within(region):
            return self.builder.one(TileFillAbsent, [x])

    def _anything(self, t: Type, region: Region) -> Value:
        """Some value of the type, for paths on which it is never read."""
        with self.within(region):
            return self.placeholder(t)

    def placeholder(self, t: Type) -> Value:
        if isinstance(t, TileType):
            return self.builder.one(TileEmpty, [], {"type": t})
        assert is_element(t)
        return self.builder.const(0, t)

    def _outlives(self, x: Binding, p: Path, q: Path) -> bool:
        """Whether the binding means something outside the two paths."""
        return not isinstance(x, Value) or not any(is_made_in(x, path.region) for path in (p, q))

    def _rebuilt(self, name: str, result: Value, a: Binding, b: Binding) -> Binding:
        """What the name stands for after the branch: a tile is a new object, marked if a shared one went into it."""
        if not isinstance(result.type, TileType):
            return result
        handles = [x if isinstance(x, Value) and isinstance(x.type, BufType) else None for x in (a, b)]
        if name == RESULT and handles == [None, None]:
            return result
        made = self.merged_object(result, handles)
        made.name = "" if name == RESULT else name
        return made

    def merged_object(self, tile: Value, handles: list[Value | None]) -> Value:
        """A new object for a tile that came from one of several, one for each edge that leads here (see
        `aliases.py`)."""
        known = [h for h in handles if h is not None]
        shared = bool(known) and all(h.type.storage == "shared" for h in known)  # type: ignore[union-attr]
        made = self.new_object(tile, "shared" if shared else "register")
        self.merged[made] = handles
        return made

    def handed_over(self, x: Value) -> Value:
        """The tile that a name hands to a join or to the next round of a loop."""
        return self.builder.tile(x, partial=True)


def _keep(binding: Binding) -> Merge:
    return Merge([], [], lambda results: binding)


def same_static(a: Binding, b: Binding) -> bool:
    if isinstance(a, Value) or isinstance(b, Value) or a is _DEAD or b is _DEAD:
        return a is b
    return type(a) is type(b) and bool(a == b)


def conflict(name: str, a: Binding, b: Binding) -> Callable[[Location], E.CompileError]:
    """The error for reading a name that paths bind to different kinds of things."""
    before, after = describe_type(a), describe_type(b)
    if name == RESULT:
        what = f"the function returns {before} on one path and {after} on another"
        help = "return the same type on every path, with a cast where it differs"
        return lambda loc: E.TypeMismatch(loc, what=what, help=help)
    places = dict.fromkeys((at, describe_type(x)) for x in (a, b) if (at := made_at(x)) is not None)
    if before == after:
        what = f"'{name}' names different {'arrays' if is_handle(a) else 'things'} on the paths that reach this line"
        return lambda loc: E.TypeMismatch(loc, what=what, help="use each of them inside its own branch")
    notes = [(at, f"{t} here") for at, t in places]
    return lambda loc: E.VariableChangesType(
        loc, name=name, before=before, after=after, notes=[n for n in notes if n[0] != loc]
    )
