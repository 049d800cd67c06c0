"""Tracing of `for` and `while`: loops carry the names that their body rebinds, tiles by value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from tegula import errors as E
from tegula.dataclass import dataclass, field
from tegula.ir import Op, Region, Value, root
from tegula.ir.rewrite import is_defined_in
from tegula.lang.bounds import ITERATORS, RANGE_FUNCTIONS, Bounds, counted, joined_items
from tegula.lang.branches import Branches
from tegula.lang.capture import Builtin, check_unrolled
from tegula.lang.expressions import speculable
from tegula.lang.flow import CHANGED_QUERY, Bindings, bindings
from tegula.lang.in_out import move_test_into_body, reject_updates
from tegula.lang.iteration import leaves_loop, while_next
from tegula.lang.joins import conflict, is_object, same_static
from tegula.lang.state import (
    BREAK,
    CONTINUE,
    FAILED,
    MARKS,
    RESULT,
    RETURN,
    UNBOUND,
    Binding,
    Conflict,
    Failed,
    PartlyBound,
    Reported,
    describe_type,
    is_element_value,
    is_handle,
)
from tegula.ops.base import element
from tegula.ops.buffer import BufNew
from tegula.ops.builder import LITERALS
from tegula.ops.control import For, If, While, Yield
from tegula.ops.debug import Assert
from tegula.ops.scalar import Select
from tegula.ops.structs import Columns, StructValue, leaves, same_structure, with_parts
from tegula.types import DTYPES, BufType, DType, TileType, Type, bool_, int32

ELSE_HELP = "move the 'else' block after the loop, under an if where the loop may break"
MAX_UNROLL = 16
"""The maximum trip count of loops that are unrolled because their index must be a constant."""

Start = Callable[[Iterator[Value]], Binding]


@dataclass(slots=True)
class CarriedName:
    """A name that the body rebinds: its initial values, and `start`, which builds the binding from a region's
    arguments. `started`: the binding at the start of an iteration; `tested`: the binding in the condition."""

    name: str
    before: Binding
    values: list[Value]
    start: Start
    started: Binding = None
    tested: Binding = None

    @property
    def types(self) -> list[Type]:
        """The types of the carried values."""
        return [v.type for v in self.values]


@dataclass(slots=True)
class NameFacts:
    """Facts about rebound names from tracing a body. `retained`: names that end each iteration with the object with
    which the iteration began; `full`: names that end an iteration as tiles without absent lanes; `register`: names that
    begin as shared tiles and end as other tiles."""

    retained: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    register: set[str] = field(default_factory=set)

    def add_facts(self, other: NameFacts) -> bool:
        """Add the facts in `other`, and return whether any of them was new."""
        before = len(self.retained) + len(self.full) + len(self.register)
        self.retained |= other.retained
        self.full |= other.full
        self.register |= other.register
        return len(self.retained) + len(self.full) + len(self.register) > before


@dataclass(slots=True)
class Body:
    """A traced loop body: its region, the Values that it yields to the next iteration, and the names after the loop."""

    region: Region
    carried: list[CarriedName]
    initial: list[Value]
    yielded: list[Value] = field(default_factory=list)
    after: dict[str, Start] = field(default_factory=dict)
    facts: NameFacts = field(default_factory=NameFacts)
    ended: dict[str, Binding] = field(default_factory=dict)


DEFAULT_STAGES, MAX_STAGES = 3, 8


class Loops(Branches):
    # for -------------------------------------------------------------------------------------------------------------

    """The part of the tracer that builds loops."""

    def _refuse_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            location = self.location(node.orelse[0])
            raise E.UnsupportedPython(location, what="'else' after a loop", help=ELSE_HELP)

    def trace_for(self, node: ast.For) -> None:
        """Trace a `for` statement."""
        self._refuse_else(node)
        call = node.iter
        function = self.expr(call.func) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and function in RANGE_FUNCTIONS:
            self._for_range(node, call, function.name)
            return
        joined = joined_items(self, call) if function in ITERATORS and isinstance(call, ast.Call) else None
        if isinstance(joined, Bounds):
            self._trace_counted_loop(node, joined)
            return
        items = self.items(self.expr(node.iter)) if joined is None else joined
        if isinstance(items, StructValue) and items.struct.advance:
            self._trace_query_loop(node, items)
            return
        if not isinstance(items, tuple):
            help = "loop over range(...), a tuple, a query, or a vector or matrix"
            raise E.TypeMismatch(
                self.location(node.iter), help=help, what=f"cannot loop over {describe_type(items)}"
            )
        self._unroll(node, items)

    def _trace_query_loop(self, node: ast.For, query: StructValue) -> None:
        """Trace a loop over the results of a query as a `while` loop that advances to the next result; for a query of
        ranges, as a loop over ranges with an inner loop over the results of each, unless the body leaves the loop."""
        position = f"{node.lineno}:{node.col_offset}"
        (span, at), tested = query.struct.spans, query.struct.tested
        in_ranges = span != "" and not leaves_loop(node.body) and (not tested or self.builder.on_gpu is False)
        query_name = CHANGED_QUERY if in_ranges and tested else "%query"
        functions = (span, at) if in_ranges else (query.struct.advance, "")
        hidden: dict[str, Any] = {
            f"%{k} {position}": self.library[name] for k, name in enumerate(functions) if name
        }
        hidden |= {f"%range {position}": Builtin("range"), f"{query_name} {position}": query}
        hidden |= {f"%{name} {position}": self.builder.const(0, int32) for name in ("item", "result")}
        loop = while_next([*hidden], node, in_ranges, tested)
        self.frame.names.update(hidden)
        self.trace_while(loop)
        for name in hidden:
            self.frame.names.pop(name, None)

    def bounds_of(self, call: ast.Call, kind: str) -> Bounds:
        """The bounds of a counted loop, given the call at its head and the name of the function."""
        if kind == "persistent_tiles":
            return self.tile_bounds(call)
        return self._pipelined_bounds(call) if kind == "pipelined" else self._bounds(call)

    def _for_range(self, node: ast.For, call: ast.Call, kind: str) -> None:
        bounds = self.bounds_of(call, kind)
        if kind == "unrolled":
            if bounds.numbers is None:
                raise E.NotConstant(self.location(call), what="the trip count of an unrolled loop")
            check_unrolled(len(bounds.numbers), self.location(call))
            bounds.options = {"unroll": True}
        elif kind == "_rolled":
            bounds.options = {"rolled": True}
        self._trace_counted_loop(node, bounds)

    def _trace_counted_loop(self, node: ast.For, bounds: Bounds) -> None:
        """Trace a loop over a range: as a loop op, or unrolled if the index must be a constant."""
        numbers = bounds.numbers
        if numbers is not None and not numbers:
            return
        before = self.snapshot()
        self._trace_loop_op(node, bounds)
        new = self.errors[before.errors :]
        if numbers is None or len(numbers) > MAX_UNROLL or not any(isinstance(e, E.NotConstant) for e in new):
            return
        self.restore(before)
        self._unroll(node, tuple(bounds.item(n) for n in numbers))
        if any(isinstance(e, E.NotConstant) for e in self.errors[before.errors :]):
            self.errors[before.errors :] = new

    def _bounds(self, call: ast.Call) -> Bounds:
        try:
            args = [self.expr(a) for a in call.args]
            if call.keywords or not 1 <= len(args) <= 3:
                name = ast.unparse(call.func)
                raise E.WrongArguments(self.location(call), what=f"{name} takes 1 to 3 integers")
            self.mark(call)
            with self.errors_at(call):
                return self._integer_bounds(args, call)
        except E.CompileError as error:
            self.record(error)
        except Reported:
            pass
        start, step = self.builder.const(0, int32), self.builder.const(1, int32)
        return Bounds(start, step, step, None)

    def _pipelined_bounds(self, call: ast.Call) -> Bounds:
        """The bounds of pipelined(...): the bounds of the range, and the number of stages."""
        range_call = ast.copy_location(ast.Call(call.func, call.args, []), call)
        bounds = self._bounds(range_call)
        bounds.stages, bounds.options = DEFAULT_STAGES, {}
        for keyword in call.keywords:
            value = self.expr(keyword.value)
            if keyword.arg == "specialize" and isinstance(value, bool):
                bounds.options["specialize"] = value
                continue
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if keyword.arg != "stages" or not is_integer or not 1 <= value <= MAX_STAGES:
                message = (
                    f"pipelined takes 1 to 3 integers, stages=, a constant from 1 to {MAX_STAGES}, and"
                    " specialize=, True or False"
                )
                raise E.WrongArguments(self.location(call), what=message)
            bounds.stages, bounds.options["requested"] = value, True
        return counted(self, bounds, call) if len(call.args) > 1 else bounds

    def _integer_bounds(self, args: list[Any], call: ast.Call) -> Bounds:
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        arguments = [start, stop, step]
        variables = [x for x in arguments if isinstance(x, Value) and self.constant_number(x) is None]
        typed = next((x.type for x in (*variables, *arguments) if isinstance(x, Value)), int32)
        values = [self.builder.index(self.builder.value(x, typed)) for x in arguments]
        for a in values:
            if a.type != typed:
                message = f"the bounds of a loop mix {typed} and {a.type}"
                raise E.TypeMismatch(self.location(call), what=message)
        numbers = [self.constant_number(x) for x in values]
        if numbers[2] == 0:
            help = "use a positive or a negative step"
            raise E.OutOfRange(self.location(call), what="the step of a range must not be 0", help=help)
        known = None if None in numbers else range(*numbers)
        if numbers[2] is None:
            return self._with_run_time_step(values, call)
        return Bounds(values[0], values[1], values[2], known)

    def _with_run_time_step(self, bounds: list[Value], call: ast.Call) -> Bounds:
        """Bounds with a run-time step; a step of 0 fails the launch, and the loop has no iterations."""
        start, stop, step = bounds
        valid = self.builder.compare("ne", step, 0)
        self.builder.emit(Assert, [valid], {"message": f"the step of {ast.unparse(call)} must not be 0"})
        stop = self.builder.one(Select, [valid, stop, start])
        step = self.builder.one(Select, [valid, step, self.builder.const(1, element(step.type))])
        return Bounds(start, stop, step, None)

    def _trace_loop_op(self, node: ast.For, bounds: Bounds) -> None:
        """Trace a loop op. The body is retraced until a trace shows no new facts about rebound names."""
        bound, facts = bindings(node.body), NameFacts()
        while True:
            before = self.snapshot()
            carried = self._carried_names(bound, facts, node.target)
            region = Region([bounds.start.type, *(t for c in carried for t in c.types)])
            limits = [bounds.start, bounds.stop, bounds.step]
            # During tracing the region needs an enclosing loop op, for the bounds.
            loop = For(limits, [], None, [region], self.builder.loc)
            body = self._body(node, bound, region, carried, partial(self._next_item, node, loop, bounds), 1)
            if not facts.add_facts(body.facts):
                break
            self.restore(before)
        names = body.after
        runs = bounds.numbers is not None
        self._add_results(node, body, runs)
        self.mark(node.iter)
        flags = self._flags(body)
        outer = self._outer_names()
        if flags and "unroll" in bounds.options:
            help = "put the remaining code under a condition, or loop over range(...)"
            message = "an unrolled loop that is left before its end"
            raise E.UnsupportedPython(self.location(node), what=message, help=help)
        if flags:
            results = self._build_while(body, bounds, flags)
        else:
            self._yield(body, body.yielded)
            attrs = (
                {"stages": bounds.stages, **bounds.options} if bounds.stages > 1 or bounds.options else None
            )
            results = iter(self.builder.emit(For, [*limits, *body.initial], attrs, [body.region]))
        self._bind_after_loop(names, results, outer)

    def _next_item(self, node: ast.For, loop: For, bounds: Bounds) -> None:
        """Bind the target of a loop at the start of an iteration."""
        self.mark(node.target)
        self.assign(node.target, bounds.item(loop.index))

    def tile_bounds(self, call: ast.Call) -> Bounds:
        """The bounds of a loop over persistent_tiles."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind a target of an assignment to a value."""
        raise NotImplementedError

    def _build_while(self, body: Body, bounds: Bounds, flags: list[str]) -> Iterator[Value]:
        """The results of a counted loop that may be left early. The loop carries whether another iteration follows,
        which is computed before the index is advanced: after the last iteration the index may wrap."""
        index, *_ = body.region.args
        with self.within(body.region):
            repeat = self._another_iteration(index, bounds)
            next_index = self.builder.binary("add", index, bounds.step)
        body.region.add_argument(bool_, at=1)
        self._yield(body, [next_index, repeat, *body.yielded])
        condition = Region([a.type for a in body.region.args])
        with self.within(condition):
            _, continues, *_ = condition.args
            for flag in _last(condition.args, len(flags)):
                continues = self.builder.binary("and", continues, self.builder.logical_not(flag))
            self.builder.emit(Yield, [continues])
        attrs = self.after_return() if RETURN in flags else {}
        initial = [bounds.start, self._first_iteration(bounds), *body.initial]
        results = self.builder.emit(While, initial, attrs, [condition, body.region])
        return iter(results[2:])

    def _first_iteration(self, bounds: Bounds) -> Value:
        """Whether the range is not empty."""
        counts_up = self.builder.compare("gt", bounds.step, 0)
        up = self.builder.compare("lt", bounds.start, bounds.stop)
        down = self.builder.compare("gt", bounds.start, bounds.stop)
        return self._by_direction(bounds, counts_up, up, down)

    def _another_iteration(self, index: Value, bounds: Bounds) -> Value:
        """Whether the range has another index: the distance to the end, which fits the unsigned type, is more than one
        step."""
        b = self.builder
        assert isinstance(index.type, DType)
        unsigned = DTYPES[f"uint{index.type.bits}"]
        counts_up = b.compare("gt", bounds.step, 0)

        def exceeds(distance: Any, step: Any) -> Any:
            return b.compare("gt", b.cast(distance, unsigned), b.cast(step, unsigned))

        up = exceeds(b.binary("sub", bounds.stop, index), bounds.step)
        if index.type.kind == "u":
            return up
        down = exceeds(b.binary("sub", index, bounds.stop), b.unary("neg", bounds.step))
        return self._by_direction(bounds, counts_up, up, down)

    def _by_direction(self, bounds: Bounds, counts_up: Any, up: Value, down: Value) -> Value:
        step = self.constant_number(bounds.step)
        if step is not None:
            return up if step > 0 else down
        return self.builder.one(Select, [counts_up, up, down])

    def _unroll(self, node: ast.For, items: Sequence[Any]) -> None:
        """Unroll a loop: trace the body once per item, with the loop's target bound to the item."""
        before, count = self.unroll_factor, self.unroll_factor * max(1, len(items))
        check_unrolled(count, self.location(node.iter))
        self.unroll_factor = count
        try:
            self._trace_items(node, items)
        finally:
            self.unroll_factor = before

    def _trace_items(self, node: ast.For, items: Sequence[Any]) -> None:
        outer = self._outer_names()

        def iterations(k: int) -> None:
            for i in range(k, len(items)):
                names = self.frame.names
                names[CONTINUE] = False
                for name, x in list(names.items()):
                    if isinstance(x, PartlyBound) and names.get(BREAK, False) is False:
                        names[name] = UNBOUND
                left = self.has_left((RETURN, BREAK))
                if left is True:
                    return
                if left is not False:
                    self.guard(left, lambda i=i: iterations(i), node)
                    return
                self._item(node, items[i])
                self.block(node.body)

        self.frame.names[BREAK] = False
        iterations(0)
        self._restore_outer(outer)

    def _item(self, node: ast.For, item: Any) -> None:
        if isinstance(node.target, ast.Name):
            is_tile = isinstance(item, Value) and isinstance(item.type, BufType | TileType)
            self.frame.names[node.target.id] = self.bound(item) if is_tile else item
        else:
            self.assign(node.target, item)

    # while -----------------------------------------------------------------------------------------------------------

    def trace_while(self, node: ast.While) -> None:
        """Trace a `while` statement."""
        self._refuse_else(node)
        node = move_test_into_body(node)
        bound, facts = bindings(node.body), NameFacts()
        while True:
            before = self.snapshot()
            carried = self._carried_names(bound, facts, None)
            types = [t for c in carried for t in c.types]
            condition, region = Region(types), Region(types)
            test = self._loop_test(node, condition, carried)
            if test is False:
                return
            self._check_condition(condition)
            body = self._body(node, bound, region, carried, lambda: None, 0)
            if not facts.add_facts(body.facts):
                break
            self.restore(before)
        names = body.after
        self._add_results(node, body, runs=test is True)
        flags = self._flags(body)
        outer = self._outer_names()
        self._yield(body, body.yielded)
        for arg in islice(body.region.args, len(condition.args), None):
            condition.add_argument(arg.type)
        self.mark(node.test)
        self._close_condition(condition, test, flags)
        attrs = self.after_return() if RETURN in flags else {}
        results = iter(self.builder.emit(While, body.initial, attrs, [condition, body.region]))
        self._bind_after_loop(names, results, outer)
        if test is True and BREAK not in flags and RETURN in flags:
            self.frame.names[RETURN] = True

    def _loop_test(self, node: ast.While, condition: Region, carried: list[CarriedName]) -> Any:
        before = self.frame.names
        self.frame.names = dict(before)
        read = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)} | self.frame.flow.read_by_nested
        try:
            with self.within(condition), reject_updates(self.frame, "the condition of a loop"):
                arguments = iter(condition.args)
                for c in carried:
                    values = [next(arguments) for _ in c.values]
                    if c.name in read:
                        c.tested = self.frame.names[c.name] = c.start(iter(values))
                return self.test(node.test)
        finally:
            self.frame.names = before

    def _check_condition(self, condition: Region) -> None:
        """Reject functions in the condition that change a tile which the body rebinds: the condition works on a copy of
        the tile, so that the change would be lost."""
        ops = list(condition.walk())
        copies = {op.result for op in ops if isinstance(op, BufNew) and op.tile in condition.args}
        for op in ops:
            changed = [
                e.value for e in op.effects() if e.kind in ("write", "atomic") and not isinstance(op, BufNew)
            ]
            if any(x is not None and root(x) in copies for x in changed):
                message = "the condition of this loop changes a tile that the loop rebinds"
                help = "write 'while True:' with the change and 'if ...: break' in the body"
                self.record(E.TypeMismatch(op.loc, what=message, help=help))
                return

    def _close_condition(self, region: Region, test: Any, flags: list[str]) -> None:
        """Yield the loop's test; if the body has left the loop, yield False without evaluating the test."""
        tested = Region()
        for op in region.ops:
            tested.append(op)
        region.ops = []
        with self.within(tested):
            value = self.builder.const(test, bool_) if isinstance(test, bool) else test
        left = _last(region.args, len(flags))
        with self.within(region):
            continues: Any = True
            for flag in left:
                not_left = self.builder.logical_not(flag)
                continues = not_left if continues is True else self.builder.binary("and", continues, not_left)
            if continues is True or speculable(tested):
                self.splice(tested)
                value = (
                    value
                    if continues is True
                    else continues
                    if test is True
                    else self.builder.binary("and", continues, value)
                )
            else:
                value = self._and(continues, tested, value)
            self.builder.emit(Yield, [value])

    def _and(self, first: Value, second: Region, value: Value) -> Value:
        with self.within(second):
            self.builder.emit(Yield, [value])
        other = Region()
        with self.within(other):
            self.builder.emit(Yield, [self.builder.const(False, bool_)])
        return self.builder.one(If, [first], None, [second, other])

    # Carrying --------------------------------------------------------------------------------------------------------

    def _carried_names(self, bound: Bindings, facts: NameFacts, target: ast.expr | None) -> list[CarriedName]:
        """The names that the body with these bindings rebinds and that are bound before the loop. A tile that is only
        changed in place is not carried. Tiles that end an iteration without absent lanes start as full tiles."""
        names = list(bound.order)
        if target is not None:
            names += [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and n.id not in names]
        out: list[CarriedName] = []
        for name in names:
            before = self.frame.names.get(name, UNBOUND)
            if isinstance(before, MARKS) or name in facts.retained:
                continue
            in_place = is_object(before) or isinstance(before, Columns)
            if in_place and name not in bound.rebound:
                continue
            carried = self._carry(name, before, name in facts.full, name in facts.register)
            if carried is not None:
                out.append(carried)
        return out

    def _carry(self, name: str, x: Binding, full: bool = False, register: bool = False) -> CarriedName | None:
        """The initial values of a binding in a loop; None if control flow cannot carry the binding."""
        if isinstance(x, LITERALS):
            x = self.builder.value(x)
        if is_element_value(x):
            return CarriedName(name, x, [x], next)
        if isinstance(x, Value) and isinstance(x.type, BufType):
            value = self.builder.tile(self.yielded_value(x), partial=not full)
            return CarriedName(
                name, x, [value], lambda args: self.merged_object(next(args), [x, None], register)
            )
        if isinstance(x, tuple):
            parts: list[CarriedName] = []
            for part in x:
                carried = (
                    self._invariant(name, part)
                    if is_invariant(part)
                    else self._carry(name, part, full, register)
                )
                if carried is None:
                    return None
                parts.append(carried)
            values = [v for p in parts for v in p.values]
            return CarriedName(name, x, values, lambda args: with_parts(x, [p.start(args) for p in parts]))
        return None

    def _invariant(self, name: str, x: Binding) -> CarriedName:
        """The loop-invariant part of a tuple."""
        return CarriedName(name, x, [], lambda args: x)

    def _body(
        self,
        node: ast.For | ast.While,
        bound: Bindings,
        region: Region,
        carried: list[CarriedName],
        prologue: Callable[[], None],
        first: int,
    ) -> Body:
        """Trace the body once. `bound`: its bindings; `first`: the position of the first carried argument."""
        before = self.frame.names
        names = dict(before)
        names[BREAK] = names[CONTINUE] = False
        names.pop(RESULT, None)
        carried_names = {c.name for c in carried}
        for name in bound.rebound - carried_names:
            known = names.get(name, UNBOUND)
            if not isinstance(known, MARKS) and not is_object(known):
                names[name] = Conflict(conflict(name, known, known))
        body = Body(region, carried, [v for c in carried for v in c.values])
        self.frame.names = names
        try:
            with self.within(region):
                arguments = islice(region.args, first, None)
                for c in carried:
                    c.started = c.start(arguments)
                    names[c.name] = c.started
                    if isinstance(c.started, Value):
                        c.started.name = c.name
                try:
                    prologue()
                except E.CompileError as error:
                    self.record(error)
                self.block(node.body)
                ended = self.frame.names
        finally:
            self.frame.names = before
        self._set_carried(node, body, ended, first)
        body.ended = {k: v for k, v in ended.items() if k not in carried_names}
        return body

    def _set_carried(self, node: ast.AST, body: Body, ended: dict[str, Binding], first: int) -> None:
        """Set the values of each carried name for the next iteration, and its binding after the loop."""
        rest = islice(body.region.args, first, None)
        for c in body.carried:
            arguments = [next(rest) for _ in c.values]
            end = ended.get(c.name, UNBOUND)
            if end is c.started and isinstance(end, Value) and isinstance(end.type, BufType):
                body.facts.retained.add(c.name)
            values = self._end_values(c, end, body)
            if values is None:
                body.yielded += arguments
                body.after[c.name] = self._changed_type(node, c, end, arguments)
            else:
                body.yielded += values
                for started in (c.started, c.tested):
                    self._record_alias(started, end)
                if self._ends_as_register(c.started, end):
                    body.facts.register.add(c.name)
                body.after[c.name] = self._binding_after(c, end)

    def _end_values(self, c: CarriedName, end: Binding, body: Body) -> list[Value] | None:
        """The end binding as Values of the carried types; None if it does not fit."""
        region = body.region
        with self.within(region):
            values = self._flatten(end, c.before) if _same_structure(c.before, end) else None
        if values is not None and len(values) == len(c.types):
            values = [self.fill_absent_lanes(v, t, region) for v, t in zip(values, c.types, strict=True)]
            if any(full_of(t) == v.type != t for v, t in zip(values, c.types, strict=True)):
                body.facts.full.add(c.name)
        if values is None or [v.type for v in values] != c.types:
            return None
        return values

    def _flatten(self, x: Binding, like: Binding = None) -> list[Value] | None:
        if isinstance(x, LITERALS):
            expected = like.type if is_element_value(like) else None
            fits = isinstance(expected, DType) and expected.is_bool == isinstance(x, bool)
            return [self.builder.value(x, expected if fits and not isinstance(x, float) else None)]
        if is_element_value(x):
            return [x]
        if isinstance(x, Value) and isinstance(x.type, BufType | TileType):
            return [self.yielded_value(x)]
        if isinstance(x, tuple):
            likes = like if isinstance(like, tuple) and len(like) == len(x) else (None,) * len(x)
            parts = [
                ([] if same_static(part, known) else None)
                if is_invariant(part)
                else self._flatten(part, known)
                for part, known in zip(x, likes, strict=True)
            ]
            return None if any(p is None for p in parts) else [v for p in parts if p is not None for v in p]
        return None

    def _record_alias(self, started: Binding, end: Binding) -> None:
        """Record that from the second iteration on, the name may be bound to the object at the end of the previous
        iteration."""
        if isinstance(started, tuple) and isinstance(end, tuple):
            for start, other in zip(started, end, strict=False):
                self._record_alias(start, other)
        elif is_object(started) and is_object(end) and started in self.joined.merged:
            self.joined.merged[started][1] = end

    def _ends_as_register(self, started: Binding, end: Binding) -> bool:
        """Whether a shared tile, possibly in a tuple, is replaced by another kind of tile at the end of an
        iteration."""
        if isinstance(started, tuple) and isinstance(end, tuple):
            return any(self._ends_as_register(x, y) for x, y in zip(started, end, strict=False))
        if not (is_object(started) and is_object(end)):
            return False
        return self.declared_shared(started) and not self.declared_shared(end)

    def _binding_after(self, c: CarriedName, end: Binding) -> Start:
        """The function from the loop's results to the binding after the loop."""
        return lambda results: self._result(c.before, end, results)

    def _result(self, before: Binding, end: Binding, results: Iterator[Value]) -> Binding:
        if isinstance(before, tuple) and isinstance(end, tuple):
            return with_parts(end, [self._result(x, y, results) for x, y in zip(before, end, strict=True)])
        if is_invariant(end):
            return end
        result = next(results)
        if not isinstance(result.type, TileType):
            return result
        sources: list[Value | None] = [x if is_object(x) else None for x in (before, end)]
        return self.merged_object(result, sources)

    def _changed_type(self, node: ast.AST, c: CarriedName, end: Binding, arguments: Sequence[Value]) -> Start:
        """The binding after the loop of a name whose type changes in the loop. Record an error if the body reads the
        name at the start of an iteration."""

        def skip(results: Iterator[Value]) -> None:
            for _ in c.values:
                next(results)

        used = {v for op in _ops_using(arguments) for v in op.operands} if arguments else set()
        end_binding = end.binding if isinstance(end, PartlyBound) else end
        if isinstance(end_binding, MARKS):
            mark: Binding = FAILED if isinstance(end_binding, Failed) else end_binding
            return lambda results: (skip(results), mark)[1]
        error = conflict(c.name, c.before, end_binding)
        if used & set(arguments):
            owner = end_binding.owner if isinstance(end_binding, Value) else None
            self.record(error(owner.loc if isinstance(owner, Op) else self.location(node)))
            return lambda results: (skip(results), FAILED)[1]
        return lambda results: (skip(results), Conflict(error))[1]

    def _add_results(self, node: ast.stmt, body: Body, runs: bool) -> None:
        """Add results to the loop for the flags, for the function's result and, if the body certainly runs, for the
        names that the body binds."""
        ended = body.ended
        before = self.frame.names
        for name, x in ended.items():
            if name in (BREAK, CONTINUE, RETURN, RESULT) or before.get(name) is x:
                continue
            if not self.frame.flow.live_after(name, node):
                body.after[name] = lambda results: UNBOUND
            elif runs and not isinstance(x, MARKS):
                self._add_result(name, x, body)
            else:
                mark = x if isinstance(x, Failed | Conflict) else UNBOUND
                known = before.get(name, UNBOUND)
                if not isinstance(known, MARKS) and mark is UNBOUND:
                    mark = known if same_static(known, x) else Conflict(conflict(name, known, x))
                body.after[name] = lambda results, mark=mark: mark
        if RESULT in ended:
            self._add_result(RESULT, ended[RESULT], body)
        for flag in (BREAK, RETURN):
            if ended.get(flag, False) is not False:
                self._add_result(flag, ended[flag], body, False)

    def _add_result(self, name: str, x: Binding, body: Body, initial: Any = None) -> None:
        """Add loop results for a binding that no iteration reads from the previous iteration."""
        with self.within(body.region):
            values = self._flatten(x, x)
        if any(is_handle(part) and is_defined_in(part, body.region) for part in leaves(x)):
            values = None
        if values is None:
            escaping = (
                x
                if not (isinstance(x, Value) and is_defined_in(x, body.region))
                else Conflict(conflict(name, x, x))
            )
            body.after[name] = lambda results: escaping
            return
        for v in values:
            body.region.add_argument(v.type)
            start = self.placeholder(v.type) if initial is None else self.builder.const(initial, bool_)
            body.initial.append(start)
        body.yielded += values
        body.after[name] = lambda results: self._result_binding(name, x, results)

    def _result_binding(self, name: str, x: Binding, results: Iterator[Value]) -> Binding:
        if isinstance(x, tuple):
            return with_parts(x, [self._result_binding(name, part, results) for part in x])
        if is_invariant(x):
            return x
        result = next(results)
        if isinstance(result.type, TileType) and isinstance(x, Value) and isinstance(x.type, BufType):
            return self.merged_object(result, [None, x])
        return result

    def _flags(self, body: Body) -> list[str]:
        return [name for name in (BREAK, RETURN) if name in body.after]

    def _yield(self, body: Body, values: Sequence[Value]) -> None:
        with self.within(body.region):
            self.builder.emit(Yield, values)

    def _outer_names(self) -> dict[str, Binding]:
        return {name: self.frame.names[name] for name in (BREAK, CONTINUE) if name in self.frame.names}

    def _restore_outer(self, outer: dict[str, Binding]) -> None:
        for name in (BREAK, CONTINUE):
            self.frame.names.pop(name, None)
        self.frame.names.update(outer)

    def _bind_after_loop(
        self, after: dict[str, Start], results: Iterator[Value], outer: dict[str, Binding]
    ) -> None:
        """Bind the names after the loop, in the order of its results."""
        names = dict(self.frame.names)
        for name, rebuild in after.items():
            names[name] = rebuild(results)
        self.frame.names = names
        self._restore_outer(outer)


def _same_structure(before: Binding, end: Binding) -> bool:
    """Whether two bindings have the same structure of nested tuples."""
    if not isinstance(before, tuple) or not isinstance(end, tuple):
        return isinstance(before, tuple) == isinstance(end, tuple) or isinstance(end, MARKS)
    return same_structure(before, end) and all(map(_same_structure, before, end))


def is_invariant(x: Binding) -> bool:
    """Whether a part of a tuple cannot be selected by control flow, such as an array, a function or None."""
    return not isinstance(x, (tuple, *LITERALS)) and (not isinstance(x, Value) or is_handle(x))


def _ops_using(arguments: Sequence[Value]) -> list[Op]:
    owner = arguments[0].owner
    assert isinstance(owner, Region)
    targets = set(arguments)
    return [op for op in owner.walk() if not isinstance(op, Yield) and targets & set(op.operands)]


def full_of(t: Type) -> Type:
    """A tile type without absent lanes."""
    return TileType(t.dtype, t.shape) if isinstance(t, TileType) else t


def _last(values: Sequence[Value], count: int) -> Sequence[Value]:
    return values[len(values) - count :]
