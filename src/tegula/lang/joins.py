"""Joins of two paths: names whose bindings differ become results of the `if` op."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ir import Region, TypeRule, Value, root
from tegula.ir.rewrite import is_defined_in
from tegula.lang.explain import definition_location
from tegula.lang.expressions import Expressions, speculable
from tegula.lang.in_out import reject_updates
from tegula.lang.state import (
    FAILED,
    FLAGS,
    RESULT,
    UNBOUND,
    Binding,
    Conflict,
    Failed,
    PartlyBound,
    Path,
    Unbound,
    describe_type,
    is_element_value,
    is_handle,
)
from tegula.ops.builder import LITERALS
from tegula.ops.control import If, Yield
from tegula.ops.scalar import Select
from tegula.ops.structs import (
    Fields,
    convert_to_common_struct,
    leaves,
    same_structure,
    unflatten_like,
    with_parts,
)
from tegula.ops.tile import TileEmpty, TileFillAbsent
from tegula.source import Location
from tegula.types import BufType, TileType, Type, bool_, is_element

Rebuild = Callable[[Iterator[Value]], Binding]


@dataclass(slots=True)
class Merge:
    """The merge of a name's two bindings: the Values that each path yields, and the function that rebuilds the binding
    from the results."""

    first: list[Value]
    second: list[Value]
    rebuild: Rebuild


@dataclass(slots=True)
class _Part:
    """One value of a conditional expression: the Values that the branches yield, and the function that rebuilds the
    value from the results."""

    values: list[tuple[Value, Value]]
    rebuild: Rebuild


class _Dead:
    """The binding of a name on a path that never reaches a read of it."""


_DEAD = _Dead()


class Joins(Expressions):
    """The part of the tracer that merges the bindings of names where paths join."""

    def branch(
        self,
        condition: Value,
        paths: tuple[Path, Path],
        live: Callable[[str], bool],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Emit an `if` op of two traced paths, and set the frame's names to the merged bindings."""
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
                out[name] = _unmerged(a)
            elif name in FLAGS or name == RESULT or live(name):
                out[name] = self._merge(name, a, b, p, q)
        return out

    def _merge(self, name: str, a: Binding, b: Binding, p: Path, q: Path) -> Merge:
        if isinstance(a, Failed) or isinstance(b, Failed):
            return _unmerged(FAILED)
        partly = isinstance(a, PartlyBound) or isinstance(b, PartlyBound)
        a = a.binding if isinstance(a, PartlyBound) else a
        b = b.binding if isinstance(b, PartlyBound) else b
        if name == RESULT:
            a = _DEAD if isinstance(a, Unbound) else a
            b = _DEAD if isinstance(b, Unbound) else b
        if isinstance(a, Unbound) and p.exit:
            a, partly = _DEAD, partly or p.exit == "loop"
        if isinstance(b, Unbound) and q.exit:
            b, partly = _DEAD, partly or q.exit == "loop"
        for side in (a, b):
            if isinstance(side, Unbound | Conflict):
                return _unmerged(side)
        merged = self._merge_bound(name, a, b, p, q)
        if not partly:
            return merged
        rebuild = merged.rebuild
        return Merge(merged.first, merged.second, lambda results: PartlyBound(rebuild(results)))

    def _merge_bound(self, name: str, a: Binding, b: Binding, p: Path, q: Path) -> Merge:
        a, b = convert_to_common_struct(a, b)
        if same_structure(a, b):
            return self._merge_tuples(name, a, list(zip(a, b, strict=True)), p, q)
        if isinstance(a, tuple) and b is _DEAD or isinstance(b, tuple) and a is _DEAD:
            parts = [(x, _DEAD) for x in a] if isinstance(a, tuple) else [(_DEAD, x) for x in b]
            return self._merge_tuples(name, b if a is _DEAD else a, parts, p, q)
        bound = b if a is _DEAD else a
        if same_static(a, b) or ((a is _DEAD or b is _DEAD) and self._outlives(bound, p, q)):
            return _unmerged(bound)
        like = next((x.type for x in (a, b) if is_element_value(x)), None)
        first, second = self._selectable(a, p, like), self._selectable(b, q, like)
        if a is _DEAD and second is not None:
            first = self._placeholder_value(second.type, p.region)
        if b is _DEAD and first is not None:
            second = self._placeholder_value(first.type, q.region)
        if first is not None and second is not None:
            first, second = (
                self.fill_absent_lanes(first, second.type, p.region),
                self.fill_absent_lanes(second, first.type, q.region),
            )
        if first is None or second is None or first.type != second.type:
            return _unmerged(Conflict(conflict(name, bound if a is _DEAD else a, bound if b is _DEAD else b)))
        return Merge([first], [second], lambda results: self._rebuilt(name, next(results), a, b))

    def _merge_tuples(
        self, name: str, like: tuple[Binding, ...], parts: list[tuple[Binding, Binding]], p: Path, q: Path
    ) -> Merge:
        names = [name] * len(like)
        if isinstance(like, Fields) and name != RESULT:
            names = [f"{name}.{field}" for field in like.struct.fields]
        merges = [
            _unmerged(x) if x is y else self._merge_bound(own, x, y, p, q)
            for own, (x, y) in zip(names, parts, strict=True)
        ]
        return Merge(
            [v for m in merges for v in m.first],
            [v for m in merges for v in m.second],
            lambda results: with_parts(like, [m.rebuild(results) for m in merges]),
        )

    def _selectable(self, x: Binding, path: Path, like: Type | None) -> Value | None:
        """x as a Value that a branch can yield, built at the end of the path."""
        if not isinstance(x, (Value, *LITERALS)) or is_handle(x):
            return None
        with self.within(path.region):
            if isinstance(x, Value):
                return self.yielded_value(x) if isinstance(x.type, BufType) else x
            fits = like is not None and isinstance(x, bool) == (like == bool_)
            try:
                return self.builder.value(x, like if fits else None)
            except TypeRule:
                return None

    def fill_absent_lanes(self, x: Value, expected: Type, region: Region) -> Value:
        """The value x at the end of a region; if x is a partial tile and the type is a full tile, the absent lanes
        become 0."""
        if not (
            isinstance(x.type, TileType)
            and x.type.partial
            and expected == TileType(x.type.dtype, x.type.shape)
        ):
            return x
        with self.within(region):
            return self.builder.one(TileFillAbsent, [x])

    def _placeholder_value(self, t: Type, region: Region) -> Value:
        """A placeholder of a type at the end of a region whose path never reads the value."""
        with self.within(region):
            return self.placeholder(t)

    def placeholder(self, t: Type) -> Value:
        """An arbitrary value of a type, for paths that never use it."""
        if isinstance(t, TileType):
            return self.builder.one(TileEmpty, [], {"type": t})
        assert is_element(t)
        return self.builder.const(0, t)

    def _outlives(self, x: Binding, p: Path, q: Path) -> bool:
        """Whether the binding is defined outside the two paths."""
        return not isinstance(x, Value) or not any(is_defined_in(x, path.region) for path in (p, q))

    def _rebuilt(self, name: str, result: Value, a: Binding, b: Binding) -> Binding:
        """The binding of a name after the branch: a tile is a new object. The result of a function has no name."""
        if not isinstance(result.type, TileType):
            return result
        sources = [x if isinstance(x, Value) else None for x in (a, b)]
        if not any(map(is_object, sources)):
            return self._propagate_read_only(result, sources)
        merged = self.merged_object(result, sources)
        if name == RESULT:
            self.objects.discard(merged)
        else:
            merged.name = name
        return merged

    def merged_object(self, tile: Value, sources: list[Value | None], register: bool = False) -> Value:
        """A new object for a tile with a source for each incoming edge (see `aliases.py`). The object is read-only if a
        source is. `register`: whether the object may be a register tile, by an edge that is not known yet."""
        known_sources = [x for x in sources if x is not None]
        shared = bool(known_sources) and all(map(self.declared_shared, known_sources)) and not register
        merged = self.new_object(tile, "shared" if shared else "register")
        self.joined.merged[merged] = sources
        return self._propagate_read_only(merged, known_sources)

    def _propagate_read_only(self, tile: Value, sources: Sequence[Value | None]) -> Value:
        """Mark a tile read-only if one of its sources is, and return it."""
        for x in sources:
            if x is not None and root(x) in self.builder.read_only:
                self.builder.read_only[tile] = self.builder.read_only[root(x)]
        return tile

    def declared_shared(self, x: Value) -> bool:
        """Whether the user declared that a tile is shared."""
        storage = x.type.storage if isinstance(x.type, BufType) else self.builder.storage.get(x)
        return storage == "shared"

    def yielded_value(self, x: Value) -> Value:
        """The value by which a tile is yielded to a join or to the next iteration of a loop."""
        return self.builder.tile(x, partial=True)

    # Conditional expressions -----------------------------------------------------------------------------------------

    def _IfExp(self, node: ast.IfExp) -> Any:
        """Trace a conditional expression as an `if` statement that yields one of the two values. Tiles are not
        copied."""
        test = self.condition(node.test)
        if isinstance(test, bool):
            return self.expr(node.body if test else node.orelse)
        regions, values = (Region(), Region()), list[Any]()
        for region, branch in zip(regions, (node.body, node.orelse), strict=True):
            with self.within(region), reject_updates(self.frame, "a conditional expression"):
                values.append(self.expr(branch))
        self.mark(node)
        first, second = values
        if not isinstance(first, Value) and type(first) is type(second) and first == second:
            return first
        tuples = isinstance(first, tuple) or isinstance(second, tuple)
        if tuples and not (same_structure(first, second) and len(leaves(first)) == len(leaves(second))):
            message = f"the operands of a conditional expression are {describe_type(first)} and {describe_type(second)}"
            raise E.TypeMismatch(self.location(node), what=message)
        parts = [
            self._part(node, test, regions, pair) for pair in zip(leaves(first), leaves(second), strict=True)
        ]
        yielded = [pair for part in parts for pair in part.values]
        if all(is_element(x.type) for x, _ in yielded) and all(map(speculable, regions)):
            for region in regions:
                self.splice(region)
            chosen = [self.builder.one(Select, [test, x, y]) for x, y in yielded]
        else:
            for side, region in enumerate(regions):
                with self.within(region):
                    self.builder.emit(Yield, [pair[side] for pair in yielded])
            chosen = self.builder.emit(If, [test], None, regions)
        results = iter(chosen)
        return unflatten_like(first, iter([part.rebuild(results) for part in parts]))

    def _part(
        self, node: ast.IfExp, test: Value, regions: tuple[Region, Region], pair: tuple[Any, Any]
    ) -> _Part:
        """The values that the branches yield for one part of a conditional expression."""
        if pair[0] is pair[1] and isinstance(pair[0], Value):
            return _Part([], lambda results: pair[0])
        like = next((x.type for x in pair if is_element_value(x)), None)
        sources = [self._choosable(x, region, like) for x, region in zip(pair, regions, strict=True)]
        yielded: list[Value] = []
        for x, region in zip(sources, regions, strict=True):
            with self.within(region):
                yielded.append(self.yielded_value(x) if isinstance(x.type, TileType | BufType) else x)
        first = self.fill_absent_lanes(yielded[0], yielded[1].type, regions[0])
        second = self.fill_absent_lanes(yielded[1], yielded[0].type, regions[1])
        if first.type != second.type:
            message = f"the operands of a conditional expression are {first.type} and {second.type}"
            raise E.TypeMismatch(self.location(node), what=message)
        if not is_element(first.type) and not isinstance(first.type, TileType):
            help = "write an if statement around the uses"
            raise TypeRule(f"a conditional expression cannot have the type {first.type}", help)
        are_named = [self._is_second_name(x) for x in sources]
        values = [(first, second)]
        if not any(map(is_object, sources)):
            return _Part(values, lambda results: self._propagate_read_only(next(results), [*sources]))
        if any(isinstance(x, Value) for x in are_named):
            flags: list[Value] = []
            for x, region in zip(are_named, regions, strict=True):
                with self.within(region):
                    flags.append(self.builder.value(x))
            values.append((flags[0], flags[1]))

        def rebuild(results: Iterator[Value]) -> Value:
            merged = self.merged_object(next(results), [*sources])
            if any(isinstance(x, Value) for x in are_named):
                self.has_name_if[merged] = next(results)
            elif are_named[0] != are_named[1]:
                self.has_name_if[merged] = test if are_named[0] else self.builder.logical_not(test)
            if are_named != [True, True]:
                self.objects.discard(merged)
            return merged

        return _Part(values, rebuild)

    def _choosable(self, x: Any, region: Region, like: Type | None) -> Value:
        """An alternative of a conditional expression as a Value. A new shared tile becomes an object, like other shared
        tiles."""
        with self.within(region):
            if isinstance(x, Value) and isinstance(x.type, TileType) and self.declared_shared(x):
                tile = self.new_object(x, "shared")
                self.objects.discard(tile)
                return tile
            if isinstance(x, Value) and isinstance(x.type, TileType | BufType):
                return x
            if isinstance(x, (Value, np.generic, np.ndarray, *LITERALS)):
                return self.builder.value(self.typed(x), like)
        raise TypeRule(f"a conditional expression cannot have the type {describe_type(x)}")

    def _is_second_name(self, x: Value) -> Any:
        """Whether a new name of a tile is its second name, which is bound to a copy: True, False or a Value."""
        if x in self.has_name_if:
            return self.has_name_if[x]
        return isinstance(x.type, BufType) and x.type.storage == "register" and x in self.objects

    def bind_second_name(self, is_named: Value, x: Value) -> Value:
        """The object for a new name of a tile: a copy if the tile already has a name (`is_named`), else the tile
        itself."""
        regions = (Region(), Region())
        with self.within(regions[0]):
            copy = self.new_object(self.builder.tile(x, partial=True), "register")
        for region, source in zip(regions, (copy, x), strict=True):
            with self.within(region):
                self.builder.emit(Yield, [self.yielded_value(source)])
        return self.merged_object(self.builder.one(If, [is_named], None, regions), [copy, x])


def is_object(x: Binding) -> TypeGuard[Value]:
    """Whether a binding is a tile object or a view of one."""
    return isinstance(x, Value) and isinstance(x.type, BufType)


def _unmerged(binding: Binding) -> Merge:
    return Merge([], [], lambda results: binding)


def same_static(a: Binding, b: Binding) -> bool:
    """Whether two bindings are the same value of the trace, or equal constants."""
    if isinstance(a, Value) or isinstance(b, Value) or a is _DEAD or b is _DEAD:
        return a is b
    return type(a) is type(b) and bool(a == b)


def conflict(name: str, a: Binding, b: Binding) -> Callable[[Location], E.CompileError]:
    """The error for reading a name that paths bind to different kinds of objects."""
    before, after = describe_type(a), describe_type(b)
    if name == RESULT:
        message = f"the function returns {before} on one path and {after} on another"
        help = "return the same type on every path, with a cast where it differs"
        return lambda loc: E.TypeMismatch(loc, what=message, help=help)
    definitions = dict.fromkeys(
        (at, describe_type(x)) for x in (a, b) if (at := definition_location(x)) is not None
    )
    if before == after:
        kind = "arrays" if is_handle(a) else "objects"
        message = f"'{name}' is bound to different {kind} on the paths that reach this line"
        return lambda loc: E.TypeMismatch(loc, what=message, help="use each object inside its own branch")
    notes = [(at, f"{t} here") for at, t in definitions]
    return lambda loc: E.VariableChangesType(
        loc, name=name, before=before, after=after, notes=[n for n in notes if n[0] != loc]
    )
