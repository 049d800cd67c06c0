"""Calls of cooperative functions: unification of arguments with the signature, selection of a program, tracing of its
body and adjoint."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.declaration import Rule
from tegula.ir import Region, Value
from tegula.lang.cooperative import CooperativeDef, Inplace
from tegula.lang.definition import FuncDef
from tegula.lang.state import describe_type
from tegula.ops.buffer import BufNew, BufRead, BufView, BufWrite
from tegula.ops.builder import OpBuilder
from tegula.ops.control import For, Yield
from tegula.ops.cooperative import CooperativeCall, rule_region
from tegula.ops.gradient import adjoint_type, has_adjoint
from tegula.ops.lane import LaneUniform
from tegula.ops.scalar import Add
from tegula.ops.structs import Columns, struct_from_leaves
from tegula.ops.tile import TileEmpty, TileFull, TileMarkPartial, TileReshape, TileSlice
from tegula.signature import (
    ConstantPattern,
    Dtypes,
    InOutPattern,
    NumberPattern,
    Pattern,
    Shape,
    SignatureMismatch,
    TileArgument,
    TilePattern,
    Unified,
    Unifier,
    run_in,
)
from tegula.source import Location
from tegula.structs import StructType
from tegula.types import BufType, TileType, Type, int32, is_element, scalar_of

if TYPE_CHECKING:
    from tegula.lang.calls import Calls

_ADJOINT_RESULTS = (
    "an adjoint returns the increment of the adjoint of each float parameter, in the order of the parameters"
)


@dataclass(slots=True)
class CallArguments:
    """The arguments of one call: constants, and values in the types that the programs see. `targets`: the tiles that
    the call changes. `unified`: the values of the signature's letters."""

    constants: dict[str, Any]
    values: dict[str, Value]
    targets: dict[str, Value]
    unified: Unified


def call_cooperative(
    tracer: Calls, f: CooperativeDef, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.AST | None
) -> Any:
    """The result of a call of a cooperative function, which becomes a `call.cooperative` op."""
    return _Call(tracer, f, node).build(args, kwargs)


def call_inplace(
    tracer: Calls, f: Inplace, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.AST | None
) -> Any:
    """Build a call of a cooperative function, and overwrite one of its arguments with the result. Returns the other
    requested results."""
    call = _Call(tracer, f.of, node, f.name)
    arguments = call.ordered(args, kwargs)
    target = call.changeable(f.target, arguments[f.target])
    returned = call.build(args, kwargs)
    result, *optional = returned if isinstance(returned, tuple) else (returned,)
    tracer.builder.write(target, result)
    return tuple(optional) if len(optional) > 1 else optional[0] if optional else None


class _Call:
    """The tracing of one call of a cooperative function."""

    def __init__(self, tracer: Calls, f: CooperativeDef, node: ast.AST | None, name: str = "") -> None:
        self.tracer = tracer
        self.builder: OpBuilder = tracer.builder
        self.f = f
        self.node = node
        self.name = name or f.name
        self.patterns: dict[str, Pattern] = dict(f.patterns)
        """The parameters; a tile of structs has a parameter for each leaf."""
        self.changed = [*f.changed]
        self.structs: dict[str, tuple[StructType, list[str]]] = {}
        """The parameters that are tiles of structs, with the parameters of their leaves."""

    def build(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        tracer, f = self.tracer, self.f
        if not f.library:
            for part in ("variants", "rule"):
                tracer.captures.attribute(f, part)
        arguments = self._convert_arguments(self._by_leaf(self.ordered(args, kwargs)))
        program = self._program(arguments)
        loc, keeps = self.builder.loc, tracer.keeps_calls
        outer, tracer.cooperative = tracer.cooperative, self.name
        tracer.keeps_calls = keeps and f.rule is None
        try:
            regions = [self._body(program, arguments)]
            if f.rule is not None and keeps and tracer.differentiable:
                regions.append(self._adjoint(f.rule, arguments, regions[0]))
        finally:
            tracer.cooperative, tracer.keeps_calls = outer, keeps
            self.builder.loc = loc
        values = self.builder.emit(
            CooperativeCall, [*arguments.values.values()], {"name": self.name}, regions
        )
        returned, changed = values[: len(f.results)], values[len(f.results) :]
        for name, value in zip(self.changed, changed, strict=True):
            target = arguments.targets[name]
            assert isinstance(target.type, BufType)
            self.builder.write(target, self._as(value, scalar_of(target.type.dtype)))
        results = [self._rounded(x, p, arguments) for x, p in zip(returned, f.results, strict=True)]
        return f.returned(arguments.constants, results)

    # Arguments -------------------------------------------------------------------------------------------------------

    def ordered(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by the names of their parameters."""
        try:
            arguments = self.tracer._bind_arguments(self.name, self.f.definition.parameters, args, kwargs)
        except E.CompileError:
            raise
        except TypeError as e:
            raise E.WrongArguments(
                self._location(), what=str(e), help=f"signature: {self.signature}"
            ) from None
        return dict(zip(self.f.patterns, arguments, strict=True))

    def _by_leaf(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with tiles of structs flattened for parameters that accept tiles of any dtype."""
        leaves: dict[str, Any] = {}
        for name, x in arguments.items():
            pattern = self.patterns[name]
            tile = pattern.tile if isinstance(pattern, InOutPattern) else pattern
            if not isinstance(x, Columns):
                leaves[name] = x
                continue
            accepts_structs = (
                isinstance(tile, TilePattern) and isinstance(tile.dtype, Dtypes) and not tile.dtype.members
            )
            if not accepts_structs:
                self._argument_error(
                    name, f"'{name}' must not be a tile of structs, got one of the struct {x.struct}"
                )
            names = [f"{name}.{leaf.name}" for leaf in x.struct.leaves]
            self.structs[name] = x.struct, names
            self._replace(name, names)
            leaves |= zip(names, x.leaves, strict=True)
        return leaves

    def _replace(self, name: str, leaves: Sequence[str]) -> None:
        """Replace a parameter by several parameters of the same pattern."""
        split = {key: leaves if key == name else [key] for key in self.patterns}
        self.patterns = {leaf: self.patterns[key] for key, leaf_names in split.items() for leaf in leaf_names}
        self.changed = [leaf for key in self.changed for leaf in split.get(key, [key])]

    def _regroup_structs(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the parameters in a program, with leaves regrouped to tiles of structs."""
        structs = dict(known)
        for name, (struct, leaves) in self.structs.items():
            structs[name] = struct_from_leaves(Columns, struct, iter([known[leaf] for leaf in leaves]))
        return structs

    @property
    def signature(self) -> str:
        """The text of the signature: the parameters with their patterns."""
        return f"{self.name}({', '.join(f'{name}: {p}' for name, p in self.f.patterns.items())})"

    @property
    def signature_help(self) -> str:
        """A help text with the signature and the types of the results."""
        result_types = ", ".join(map(str, self.f.all_results))
        returned = f"tuple[{result_types}]" if self.f.returns_tuple else result_types or "nothing"
        return f"signature: {self.signature} -> {returned}"

    def changeable(self, name: str, x: Any) -> Value:
        """The argument as a tile that can be overwritten; an error if it cannot."""
        if not isinstance(x, Value) or not isinstance(x.type, BufType):
            self._argument_error(
                name, f"'{name}' is overwritten: it must be a tile bound to a name, got {describe_type(x)}"
            )
        self.builder._check_writable(x)
        return x

    def _convert_arguments(self, arguments: Mapping[str, Any]) -> CallArguments:
        values = CallArguments({}, {}, {}, Unified({}, {}, {}))
        unifier, tiles = Unifier(), list[tuple[str, TilePattern, TileArgument]]()
        for name, pattern in self.patterns.items():
            x = arguments[name]
            if isinstance(pattern, ConstantPattern):
                values.constants[name] = self._constant(name, pattern, x)
                unifier.constant(name, values.constants[name])
                continue
            if isinstance(pattern, NumberPattern):
                values.values[name] = self._number(name, pattern, x)
                continue
            if not self.builder.is_tile(x):
                self._argument_error(name, f"'{name}' must be a {pattern}, got {describe_type(x)}")
            # Partial tiles stay partial in a program, except tiles that the program changes and elements of a batch.
            filled = isinstance(pattern, InOutPattern) or pattern.batch
            if isinstance(pattern, InOutPattern):
                values.targets[name] = self.changeable(name, x)
                pattern = pattern.tile
            value = values.values[name] = self.builder.tile(x, partial=not filled)
            assert isinstance(value.type, TileType)
            tiles.append((name, pattern, TileArgument(value.type.dtype, value.type.shape)))
        try:
            for name, value in values.values.items():
                pattern = self.patterns[name]
                if isinstance(pattern, NumberPattern) and is_element(value.type):
                    unifier.dtype(name, pattern.dtype, value.type)
            values.unified = unifier.tiles(tiles)
        except SignatureMismatch as mismatch:
            self._refuse(mismatch)
        for name, value in values.values.items():
            t = value.type.dtype if isinstance(value.type, TileType) else value.type
            values.values[name] = self._as(value, self._run_in(self.patterns[name], t))
        return values

    def _constant(self, name: str, pattern: ConstantPattern, x: Any) -> Any:
        number = self.tracer.constant_number(x)
        constant = number if number is not None else x
        if isinstance(constant, Value):
            raise E.NotConstant(self._location(name), what=f"'{name}' of {self.name}")
        if not pattern.has(constant):
            text = (
                repr(constant) if isinstance(constant, bool | int | float | str) else describe_type(constant)
            )
            self._argument_error(name, f"'{name}' must be {pattern.described}, got {text}")
        return constant

    def _number(self, name: str, pattern: NumberPattern, x: Any) -> Value:
        like = pattern.dtype if is_element(pattern.dtype) else None
        value = self.builder.value(x, like)
        if not is_element(value.type):
            self._argument_error(name, f"'{name}' must be a number of {pattern}, got {describe_type(x)}")
        return self.builder.one(LaneUniform, [value], {"implicit": True})

    def _run_in(self, pattern: Pattern, t: Any) -> Any:
        if isinstance(pattern, InOutPattern):
            pattern = pattern.tile
        dtype = None if isinstance(pattern, ConstantPattern) else pattern.dtype
        return run_in(dtype, t) if isinstance(dtype, Dtypes) else t

    def _as(self, value: Value, to: Any) -> Value:
        return self.builder.cast(value, scalar_of(to))

    def _rounded(self, x: Value, pattern: TilePattern | NumberPattern, inputs: CallArguments) -> Value:
        """A result, cast to the dtype of the caller's tiles."""
        if not isinstance(pattern.dtype, Dtypes):
            return x
        return self._as(x, inputs.unified.dtype(pattern.dtype) or _dtype(x))

    # Programs --------------------------------------------------------------------------------------------------------

    def _program(self, inputs: CallArguments) -> FuncDef:
        """The first program whose condition holds; an error if there is none."""
        partial = any(isinstance(v.type, TileType) and v.type.partial for v in inputs.values.values())
        group_facts = {"group": self.builder.lanes, "partial": partial}
        facts = {**inputs.unified.facts, **inputs.constants, **group_facts}
        try:
            variant = self.f.fitting_program(facts)
        except KeyError as unknown:
            variant, name = unknown.args
            message = f"the condition of a program of {self.f.name} takes '{name}', which is not a property of the call"
            help = f"choose from: {', '.join(facts)}"
            raise E.TypeMismatch(variant.function.definition.location, what=message, help=help) from None
        if variant is not None:
            return variant.function
        shapes = ", ".join(f"'{name}' of shape {_shape(v)}" for name, v in inputs.values.items())
        help = f"{self.f.conditions}; signature: {self.signature}"
        message = f"{self.name}: no implementation accepts {no_program(shapes, facts)}"
        raise E.TypeMismatch(self._location(), what=message, help=help)

    def _body(self, program: FuncDef, inputs: CallArguments) -> Region:
        region = Region([v.type for v in inputs.values.values()])
        with self.tracer.within(region):
            batched = [self._is_batched(name) for name in inputs.values]
            flags = [self._result_batched(p) for p in self.f.results] + [
                self._is_batched(n) for n in self.changed
            ]

            def run(values: list[Value]) -> list[Value]:
                return self._run(program, dict(zip(inputs.values, values, strict=True)), inputs)

            results = self._loop_over_batch(inputs.unified.batch, region.args, batched, flags, run)
            self.builder.emit(Yield, results)
        return region

    def _run(self, program: FuncDef, values: dict[str, Value], inputs: CallArguments) -> list[Value]:
        """Trace the program for one element of the batch. Returns its results, then the values of the tiles that it
        changes."""
        objects = {name: self.tracer.new_object(values[name], "register") for name in self.changed}
        known = self._regroup_structs({**values, **objects, **inputs.constants})
        returned = self._inlined(program, known)
        parts = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
        if len(parts) != len(self.f.results):
            count = "1 value" if len(parts) == 1 else f"{len(parts)} values"
            message = (
                f"this program of {self.f.name} returns {count}, but the signature says {len(self.f.results)}"
            )
            raise E.TypeMismatch(_returns(program), what=message, help=self.signature_help)
        results = [self._checked(program, x, p, inputs) for x, p in zip(parts, self.f.results, strict=True)]
        return [*results, *(self.builder.tile(x) for x in objects.values())]

    def _checked(
        self, program: FuncDef, x: Any, pattern: TilePattern | NumberPattern, inputs: CallArguments
    ) -> Value:
        """A result of a program, checked against the signature."""
        dtype: Any = pattern.dtype
        if isinstance(dtype, Dtypes):
            known = inputs.unified.dtype(dtype)
            dtype = None if known is None else run_in(dtype, known)
        if isinstance(pattern, NumberPattern):
            value = self.builder.value(x, dtype)
            value, fits = self.builder.one(LaneUniform, [value], {"implicit": True}), is_element(value.type)
        elif self.builder.is_tile(x):
            value = self.builder.tile(x, partial=not pattern.batch)
            assert isinstance(value.type, TileType)
            fits = value.type.shape in [_extents(form, inputs.unified) for form in pattern.forms]
        else:
            value, fits = x, False
        if not fits or (dtype is not None and _dtype(value) != dtype):
            message = (
                f"this program of {self.f.name} returns {describe_type(x)}, but the signature says {pattern}"
            )
            letters = ", ".join(f"{key} = {n}" for key, n in inputs.unified.facts.items())
            notes = [(self._location(), f"here {letters}")]
            raise E.TypeMismatch(_returns(program), what=message, notes=notes, help=self.signature_help)
        return value

    def _inlined(self, function: FuncDef, known: Mapping[str, Any]) -> Any:
        """The result of a program, inlined with the known values of the parameters that it names."""
        parameters = function.definition.parameters
        unknown = [p.name for p in parameters if p.name not in known]
        if unknown:
            message = f"'{unknown[0]}' is not a parameter of the cooperative function {self.f.name}"
            help = f"choose from: {', '.join(known)}"
            raise E.TypeMismatch(function.definition.parameter_location(unknown[0]), what=message, help=help)
        return self.tracer.inline_function(function, [known[p.name] for p in parameters], self.node)

    # The adjoint -----------------------------------------------------------------------------------------------------

    def _adjoint(self, rule: Rule, inputs: CallArguments, body: Region) -> Region:
        """The region of the function's adjoint program, which yields the increments of the operands' adjoints."""
        keepable = [*self.f.patterns, *(["result"] if self.f.results else [])]
        unknown = [name for name in rule.keep if name not in keepable]
        if unknown:
            message = f"the adjoint of {self.f.name} cannot keep '{unknown[0]}'"
            help = f"choose from: {', '.join(keepable)}"
            raise E.TypeMismatch(rule.function.definition.location, what=message, help=help)
        result_types = [v.type for v in body.yielded]
        region, (arguments, results, grads) = rule_region([v.type for v in body.args], result_types)
        names, count = list(inputs.values), len(self.f.results)
        keeps_batch = [self._result_batched(p) for p in self.f.results] + [
            self._is_batched(n) for n in self.changed
        ]
        differentiable_results = [k for k, t in enumerate(result_types) if has_adjoint(t)]
        flags = [
            *map(self._is_batched, names),
            *keeps_batch,
            *(keeps_batch[k] for k in differentiable_results),
        ]
        active = [name for name, v in zip(names, body.args, strict=True) if has_adjoint(v.type)]

        def run(values: list[Value]) -> list[Value]:
            rest = iter(values)
            known = {name: next(rest) for name in names}
            after = [next(rest) for _ in result_types]
            adjoint: list[Any] = [None] * len(result_types)
            for k in differentiable_results:
                adjoint[k] = next(rest)
            scope: dict[str, Any] = {name: known[name] for name in rule.keep if name in known}
            if "result" in rule.keep:
                scope["result"] = tuple(after[:count]) if self.f.returns_tuple else after[0]
            if count:
                scope["grad"] = tuple(adjoint[:count]) if self.f.returns_tuple else adjoint[0]
            scope |= {f"grad_{name}": g for name, g in zip(self.changed, adjoint[count:], strict=True)}
            return self._adjoint_results(
                rule.function, {**scope, **inputs.constants}, [known[name] for name in active]
            )

        with self.tracer.within(region):
            are_batched = [self._is_batched(name) for name in active]
            values = self._loop_over_batch(
                inputs.unified.batch, [*arguments, *results, *grads], flags, are_batched, run
            )
            self.builder.emit(Yield, values)
        return region

    def _adjoint_results(
        self, function: FuncDef, scope: Mapping[str, Any], like: Sequence[Value]
    ) -> list[Value]:
        """The results of an adjoint program: one value for each float parameter."""
        returned = self._inlined(function, scope)
        parts = returned if isinstance(returned, tuple) else (returned,)
        gradients = [self.builder.tile(x) if self.builder.is_tile(x) else x for x in parts]
        kinds = [adjoint_type(v.type) for v in like]
        if [x.type if isinstance(x, Value) else None for x in gradients] != [*map(_full_type, kinds)]:
            expected = ", ".join(map(str, kinds))
            message = f"the adjoint of {self.f.name} returns {', '.join(map(describe_type, gradients))}, not {expected}"
            raise E.TypeMismatch(_returns(function), what=message, help=_ADJOINT_RESULTS)
        return [
            self.builder.one(TileMarkPartial, [x]) if isinstance(t, TileType) and t.partial else x
            for x, t in zip(gradients, kinds, strict=True)
        ]

    # Batches ---------------------------------------------------------------------------------------------------------

    def _is_batched(self, name: str) -> bool:
        pattern = self.patterns[name]
        return self._result_batched(pattern.tile if isinstance(pattern, InOutPattern) else pattern)

    def _result_batched(self, pattern: Pattern) -> bool:
        return isinstance(pattern, TilePattern) and pattern.batch

    def _loop_over_batch(
        self,
        batch: Shape | None,
        values: Sequence[Value],
        batched: Sequence[bool],
        flags: Sequence[bool],
        run: Callable[[list[Value]], list[Value]],
    ) -> list[Value]:
        """The results of run(values) for each element of a batch in turn. `batched`: the values with batch dimensions;
        `flags`: the results with batch dimensions; the other results are summed over the batch."""
        if not batch:
            return run(list(values))
        b, count = self.builder, math.prod(batch)
        flat = [
            self._flat(v, len(batch), count) if has else v for v, has in zip(values, batched, strict=True)
        ]
        region = Region([int32])
        (index,) = region.args
        with self.tracer.within(region):
            results = run([self._part(v, index) if has else v for v, has in zip(flat, batched, strict=True)])
        targets = [self._memory(v, count if has else 0) for v, has in zip(results, flags, strict=True)]
        with self.tracer.within(region):
            for value, target, has in zip(results, targets, flags, strict=True):
                self._store(value, target, index if has else None)
            b.emit(Yield, [])
        b.emit(For, [b.const(0, int32), b.const(count, int32), b.const(1, int32)], None, [region])
        return [
            self._unflattened(b.one(BufRead, [t]), batch) if has else b.one(BufRead, [t])
            for t, has in zip(targets, flags, strict=True)
        ]

    def _flat(self, value: Value, rank: int, count: int) -> Value:
        assert isinstance(value.type, TileType)
        shape = (count, *value.type.shape[rank:])
        return (
            value if value.type.shape == shape else self.builder.one(TileReshape, [value], {"shape": shape})
        )

    def _unflattened(self, value: Value, batch: Shape) -> Value:
        assert isinstance(value.type, TileType)
        shape = (*batch, *value.type.shape[1:])
        return (
            value if value.type.shape == shape else self.builder.one(TileReshape, [value], {"shape": shape})
        )

    def _part(self, value: Value, index: Value) -> Value:
        return self.builder.one(TileSlice, [value, index, *self._origin(value)], _view_attributes(value))

    def _origin(self, value: Value) -> list[Value]:
        assert isinstance(value.type, TileType | BufType)
        return [self.builder.const(0, int32) for _ in value.type.shape[1:]]

    def _memory(self, like: Value, count: int) -> Value:
        """A new tile object: with a leading dimension of `count` tiles, or, if `count` is 0, one tile of zeros."""
        t = like.type
        assert isinstance(t, TileType), "numbers of a batch are tiles"
        if count:
            memory = self.builder.one(TileEmpty, [], {"type": TileType(t.dtype, (count, *t.shape))})
        else:
            memory = self.builder.one(TileFull, [self.builder.const(0.0, t.dtype)], {"shape": t.shape})
        return self.builder.one(BufNew, [memory], {"storage": "register"})

    def _store(self, value: Value, target: Value, index: Value | None) -> None:
        b = self.builder
        if index is not None:
            target = b.one(BufView, [target, index, *self._origin(target)], _view_attributes(target))
        else:
            value = b.map(lambda xs: b.one(Add, xs), [b.one(BufRead, [target]), value])
        b.emit(BufWrite, [target, value])

    # Errors ----------------------------------------------------------------------------------------------------------

    def _location(self, parameter: str = "") -> Any:
        """The location of a parameter's argument, or of the call."""
        call = self.node
        if not isinstance(call, ast.Call) or not parameter:
            return self.tracer.location(call)
        named, written = {k.arg: k.value for k in call.keywords}, [*call.args]
        position = list(self.f.patterns).index(parameter)
        is_positional = len(written) > position and not any(isinstance(a, ast.Starred) for a in written)
        return self.tracer.location(named.get(parameter, written[position] if is_positional else call))

    def _argument_error(self, parameter: str, message: str) -> NoReturn:
        raise E.TypeMismatch(
            self._location(parameter), what=f"{self.name}: {message}", help=f"signature: {self.signature}"
        )

    def _refuse(self, mismatch: SignatureMismatch) -> NoReturn:
        argument = self._location(mismatch.parameter)
        if mismatch.shapes is not None:
            left, right = mismatch.shapes
            message = f"{self.name}: {mismatch.what}"
            raise E.ShapeMismatch(argument, what=message, left=left, right=right, help=mismatch.help)
        help = mismatch.help or f"signature: {self.signature}"
        raise E.TypeMismatch(argument, what=f"{self.name}: {mismatch.what}", help=help)


def no_program(shapes: str, facts: Mapping[str, Any]) -> str:
    """The shapes, letters and constants of a call that fits no program of a cooperative function, as text."""
    return f"{shapes}: {', '.join(f'{key}={value}' for key, value in facts.items())}"


def _dtype(x: Value) -> Any:
    return x.type.dtype if isinstance(x.type, TileType) else x.type


def _view_attributes(value: Value) -> dict[str, Any]:
    """The attributes of a view of all dimensions but the first."""
    assert isinstance(value.type, TileType | BufType)
    shape = value.type.shape[1:]
    return {"shape": shape, "dims": tuple(range(1, len(shape) + 1)), "steps": (1,) * len(shape)}


def _full_type(t: Type) -> Type:
    """The type of a tile without absent lanes."""
    return TileType(t.dtype, t.shape) if isinstance(t, TileType) else t


def _extents(form: Sequence[Any], unified: Unified) -> Shape:
    """The shape of a tile in a signature; -1 for letters that no argument determines."""
    shape: list[int] = []
    for n in form:
        known = unified.extent(n)
        shape += known if isinstance(known, tuple) else (known,)
    return tuple(shape)


def _shape(value: Value) -> Shape:
    return value.type.shape if isinstance(value.type, TileType) else ()


def _returns(function: FuncDef) -> Location:
    """The location of a program's last `return` with a value; of its definition if there is none."""
    source = function.definition.source
    returns = [n for s in source.tree.body for n in ast.walk(s) if isinstance(n, ast.Return) and n.value]
    return source.location(returns[-1]) if returns else function.definition.location


__all__ = ["call_cooperative", "call_inplace"]
