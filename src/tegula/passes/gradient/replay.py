"""Reruns forward ops in the adjoint kernel, without their effects on arrays, stacks and the host."""

from __future__ import annotations

from collections.abc import Generator, MutableMapping, Sequence
from contextlib import contextmanager

from tegula.ir import Carrier, ConstantLike, LoopLike, Op, Region, Value
from tegula.ir.rewrite import clone_op
from tegula.ops.array import ArrayAtomic, ArrayLoad, ArrayStore, ArrayView
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufSet, BufUpdate, BufView
from tegula.ops.control import For, If, While, Yield
from tegula.ops.gradient import GradientBuilder, Unreplayable, adjoint_type
from tegula.ops.scalar import Add, Mul
from tegula.ops.tile import TileEmpty, TileExtract
from tegula.passes.gradient.activity import Activity, is_memory, memory_root
from tegula.passes.gradient.iterations import LoopReplay
from tegula.passes.gradient.scopes import GradientScope, Primals
from tegula.source import Location
from tegula.types import BufType, DType, TileType, Type, bool_, int32, is_element, scalar_of

Mapping = MutableMapping[Value, Value]


SUBSCRIPTS: dict[type[Op], str] = {
    **dict.fromkeys((ArrayLoad, BufGet, TileExtract), "reading an element"),
    **dict.fromkeys((ArrayStore, BufSet), "writing an element"),
    **dict.fromkeys((ArrayAtomic, BufUpdate), "updating an element"),
}


def source_name(op: Op) -> str:
    """The source construct that an op comes from, for messages."""
    return op.loc.subject or SUBSCRIPTS.get(type(op), op.NAME.replace(".", "_"))


class ForwardReplay(GradientBuilder):
    """The forward half of the adjoint builder."""

    __slots__ = ("activity", "known_results", "replays", "scope")

    activity: Activity
    replays: list[LoopReplay]
    scope: GradientScope
    known_results: Mapping
    """The results of loops that need not run again, each with a value that is equal up to rounding
    (`remove_rescaling`)."""

    @contextmanager
    def inside(self, region: Region) -> Generator[GradientScope, None, None]:
        """Build into a region of its own scope."""
        outer, outer_region = self.scope, self.region
        self.scope, self.region = GradientScope(region, outer), region
        try:
            yield self.scope
        finally:
            self.scope, self.region = outer, outer_region

    @contextmanager
    def at(self, loc: Location) -> Generator[None, None, None]:
        """A context whose ops get the given source location."""
        before, self.loc = self.loc, loc
        try:
            yield
        finally:
            self.loc = before

    # Forward sweep ---------------------------------------------------------------------------------------------------

    def sweep(self, ops: Sequence[Op]) -> None:
        """Rerun the ops of a region and record the values that the backward sweep over these ops needs."""
        for op in ops:
            with self.at(op.loc):
                if isinstance(op, If) and self.has_gradient_flow(op):
                    self._sweep_branches(op)
                elif isinstance(op, LoopLike) and self.has_gradient_flow(op) and not self._is_known(op):
                    self._sweep_loop(op)
                else:
                    self.copy(op, Primals(self.scope))
            self.add_shadow(op)

    def has_gradient_flow(self, op: Op) -> bool:
        """Whether a gradient flows through an op or one in it."""
        return any(r in self.activity for o in op.walk() for r in o.results) or any(
            self.writes_active(o) for o in op.walk()
        )

    def writes_active(self, op: Op) -> bool:
        """Whether an op writes memory that has a gradient."""
        return any(
            e.value is not None and e.kind in ("write", "atomic") and e.value in self.activity
            for e in op.effects()
        )

    def add_shadow(self, op: Op) -> None:
        """Create the shadow of an active object or view that an op creates: the object or view that holds the
        gradient."""
        if not isinstance(op, BufNew | BufView | BufReshape | ArrayView) or op.result not in self.activity:
            return
        result = op.result
        if isinstance(op, BufNew):
            shadow = self.new_object(result)
        elif isinstance(op, ArrayView):
            shadow = self.same_view(op, self.shadow(op.array), [self.forward_value(v) for v in op.bounds])
        else:
            memory, *indices = op.operands
            shadow = self.one(type(op), [self.shadow(memory), *map(self.forward_value, indices)], op.attrs)
        self.scope.shadows[result] = shadow

    def new_object(self, like: Value) -> Value:
        """A tile object of zeros for the adjoint of another one."""
        t = adjoint_type(like.type)
        assert isinstance(t, BufType)
        return self.one(BufNew, [self.zero(t.tile)], {"storage": t.storage})

    def _sweep_loop(self, op: LoopLike) -> None:
        """Rerun a loop. Saves the contents of accessed objects before the loop, and the trip count of a `while`."""
        for memory in self.accessed_buffers(op):
            if self.is_divergent(op):
                self._check_written_only(op)
                break
            self.scope.entries[op, memory] = self.one(BufRead, [self.forward_value(memory)])
        if isinstance(op, While):
            self.scope.iterations[op] = self._count_iterations(op)
        else:
            self.copy(op, Primals(self.scope))

    def is_divergent(self, op: Op) -> bool:
        """Whether an op is in divergent control flow."""
        raise NotImplementedError

    def _check_written_only(self, loop: Op) -> None:
        """Reject a divergent loop that reads objects: their contents cannot be restored for some lanes only."""
        for op in loop.walk():
            if any(
                e.kind == "read" and e.value is not None and isinstance(e.value.type, BufType)
                for e in op.effects()
            ):
                reason = "a tile that changes is read in a loop whose trip count differs between threads"
                self.refuse(op, reason)

    def accessed_buffers(self, loop: Op) -> list[Value]:
        """The tile objects from outside that a loop reads or writes."""
        buffers: dict[Value, None] = {}
        inside = {r for op in loop.walk() for r in op.results}
        for op in loop.walk():
            for v in op.operands:
                if isinstance(v.type, BufType) and memory_root(v) not in inside:
                    buffers[memory_root(v)] = None
        return list(buffers)

    def _count_iterations(self, op: While) -> Value:
        """Rerun a `while` with a counter. Returns the number of its iterations."""
        for inner in op.condition.walk():
            if any(e.kind not in ("read", "issue") for e in inner.effects()):
                self.refuse(inner, "the condition of a loop changes memory")
        types = [v.type for v in op.initial]
        regions = [Region([*types, int32]), Region([*types, int32])]
        for old, new in zip(op.regions, regions, strict=True):
            with self.inside(new) as scope:
                *_, number = new.args
                scope.primals.update(zip(old.args, new.args, strict=False))
                self._copy_all(old, Primals(scope))
                results = [self.forward_value(v) for v in old.yielded]
                if old is op.body:
                    results.append(self.one(Add, [number, self.const(1, int32)]))
                self.emit(Yield, results)
        operands = [*map(self.forward_value, op.initial), self.const(0, int32)]
        *results, count = self.emit(While, operands, None, regions)
        self.scope.primals.update(zip(op.results, results, strict=True))
        return count

    def _sweep_branches(self, op: If) -> None:
        """Rerun a branch so that each alternative yields all its computed values, and the backward sweep need not rerun
        the branch."""
        scopes: list[GradientScope] = []
        for branch in op.alternatives:
            with self.inside(Region()) as scope:
                self.sweep(branch.ops[:-1])
                scopes.append(scope)
        live_entries = [
            [(table, key) for table in s.computed() for key in table if _is_yielded(table[key])]
            for s in scopes
        ]
        types = [[table[key].type for table, key in keys] for keys in live_entries]
        for k, (branch, scope) in enumerate(zip(op.alternatives, scopes, strict=True)):
            with self.inside(scope.region) as inner:
                inner.primals = scope.primals
                yielded = [self.forward_value(v) for v in branch.yielded]
                values = [table[key] for table, key in live_entries[k]]
                fill = [self._unspecified(t) for t in types[1 - k]]
                self.emit(Yield, [*yielded, *values, *fill] if k == 0 else [*yielded, *fill, *values])
        results = iter(self.emit(If, [self.forward_value(op.condition)], None, [s.region for s in scopes]))
        self.scope.primals.update({r: next(results) for r in op.results})
        for keys in live_entries:
            for table, key in keys:
                table[key] = next(results)
        self.scope.branches[op] = scopes

    def _unspecified(self, t: Type) -> Value:
        if isinstance(t, TileType):
            return self.one(TileEmpty, [], {"type": t})
        assert is_element(t)
        return self.const(False if scalar_of(t) == bool_ else 0, t)

    def enter_branch(self, op: If, index: int) -> None:
        """At the start of an alternative's adjoint, make available the values that the alternative computed, and the
        shadows of its objects."""
        branch = next(s.branches[op] for s in self.scope.outward() if op in s.branches)
        self.scope.recall(branch[index])
        for inner in op.alternatives[index].ops[:-1]:
            if _is_cheap(inner):
                self.copy(inner, Primals(self.scope))
            self.add_shadow(inner)

    # Copies ----------------------------------------------------------------------------------------------------------

    def copy(self, op: Op, mapping: Mapping) -> None:
        """Rerun an op. Ops that change arrays, stacks or the host are left out; their results become `Unreplayable`."""
        if self._is_known(op):
            mapping.update((r, mapping[self.known_results[r]]) for r in op.results)
        elif isinstance(op, Carrier):
            self._copy_control(op, mapping)
        elif any(
            e.kind != "read" and (e.value is None or not isinstance(e.value.type, BufType))
            for e in op.effects()
        ):
            for r in op.results:
                mapping[r] = self.one(Unreplayable, [], {"type": r.type, "what": source_name(op)})
        else:
            self.insert(clone_op(op, mapping))

    def _is_known(self, op: Op) -> bool:
        """Whether other values are equal to the results of an op."""
        return bool(op.results) and all(r in self.known_results for r in op.results)

    def _copy_control(self, op: Carrier, mapping: Mapping) -> None:
        regions: list[Region] = []
        for old in op.regions:
            with self.inside(Region([a.type for a in old.args])) as scope:
                scope.primals.update(zip(old.args, scope.region.args, strict=True))
                self._copy_all(old, Primals(scope))
                self.emit(Yield, [self.forward_value(v) for v in old.yielded])
                regions.append(scope.region)
        operands = [mapping[v] for v in op.operands]
        control_op = self.insert(type(op)(operands, [r.type for r in op.results], op.attrs, regions, op.loc))
        for old, new in zip(op.results, control_op.results, strict=True):
            new.name = old.name
            mapping[old] = new

    def _copy_all(self, region: Region, mapping: Mapping) -> None:
        for op in region.ops[:-1]:
            self.copy(op, mapping)

    def inlined(self, body: Region, args: Sequence[Value]) -> list[Value]:
        mapping: Mapping = dict(zip(body.args, args, strict=True))
        for op in body.ops[:-1]:
            self.insert(clone_op(op, mapping))
        return [mapping[v] for v in body.yielded]

    # Loops -----------------------------------------------------------------------------------------------------------

    def iteration_index(self, op: For, number: Value) -> Value:
        """The index of a loop in an iteration counted from 0."""
        start, step = (self.forward_value(v) for v in (op.start, op.step))
        return self.one(Add, [start, self.one(Mul, [number, step])])

    def before_iteration(self, op: LoopLike, number: Value) -> list[Value]:
        """The values that a loop carries at the start of an iteration, recomputed by rerunning the preceding
        iterations, which also restores copies of the loop's objects to their contents at this point."""
        self._copy_objects(op)
        region = Region()
        before = region.add_argument(number.type)
        with self.inside(region) as scope:
            if isinstance(op, For):
                scope.primals[op.index] = self.iteration_index(op, before)
            scope.primals.update({v: region.add_argument(v.type) for v in op.arguments})
            self._copy_all(op.body, Primals(scope))
            self.emit(Yield, [self.forward_value(v) for v in op.body.yielded])
        t = number.type
        assert is_element(t)
        bounds = [self.const(0, t), number, self.const(1, t)]
        results = self.emit(For, [*bounds, *map(self.forward_value, op.initial)], None, [region])
        for value, result in zip(op.arguments, results, strict=True):
            result.name = value.name
        return results

    def _copy_objects(self, op: LoopLike) -> None:
        """Copy the objects that a loop accesses, with the contents before the loop, and the corresponding
        views."""
        if self.is_divergent(op):
            return
        for memory in self.accessed_buffers(op):
            assert isinstance(memory.type, BufType)
            shadow = self.scope.entry(op, memory)
            self.scope.primals[memory] = self.one(BufNew, [shadow], {"storage": memory.type.storage})
        inside = {r for o in op.walk() for r in o.results}
        for o in op.walk():
            for v in o.operands:
                if isinstance(v.type, BufType) and v not in inside:
                    self._copy_view(v)

    def _copy_view(self, view: Value) -> None:
        """Create the view of a copied object that corresponds to a view of the original."""
        if view in self.scope.primals or not isinstance(view.owner, BufView | BufReshape):
            return
        self._copy_view(view.owner.buffer)
        self.insert(clone_op(view.owner, Primals(self.scope)))


def _is_yielded(value: Value) -> bool:
    """Whether an alternative yields a value for its adjoint; memory and results that are cheap to recompute are not
    yielded."""
    return not is_memory(value) and not (isinstance(value.owner, Op) and _is_cheap(value.owner))


def _is_cheap(op: Op) -> bool:
    """Whether an op is recomputed at uses instead of stored: constants, views of arrays, and integers and conditions,
    whose defining ops show which elements of a tile are accessed."""
    if isinstance(op, ConstantLike | ArrayView):
        return True
    is_pure = op.PURE and not op.COOPERATIVE and not op.regions
    return is_pure and all(isinstance(r.type, DType) and not r.type.is_float for r in op.results)
