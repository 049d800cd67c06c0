"""Calls: arguments, overloads, inlining, and the Python builtins that kernels may use."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ir import LaunchClass, Region, TypeRule, Value
from tegula.lang import explain
from tegula.lang.annotations import ANY, TileAnnotation, resolve
from tegula.lang.capture import USED_IN, Builtin, Opaque, capture
from tegula.lang.captures import Captures
from tegula.lang.constants import apply_constants, bound_names, is_static, require_constant, takes_constant
from tegula.lang.cooperative import CooperativeDef, Inplace
from tegula.lang.cooperative_calls import call_cooperative, call_inplace
from tegula.lang.definition import FuncDef, PublicFunction, named_signatures, signature_text, signatures
from tegula.lang.derivatives import TracedCall, call_with_derivative, derivative
from tegula.lang.flow import Flow
from tegula.lang.in_out import Updates, annotate_updates, bind_updated_variables, updated_parameters
from tegula.lang.methods import TileMethod, TileProperties, call_method
from tegula.lang.overloads import (
    CALLEE,
    NO_DEFAULT,
    Parameter,
    bind_arguments,
    call_cost,
    constant_type,
    count_text,
    first_misfit,
    match_cost,
)
from tegula.lang.printing import build_print
from tegula.lang.signatures import argument_error, by_position, signature
from tegula.lang.state import (
    FAILED,
    RESULT,
    RETURN,
    Conflict,
    Frame,
    LocalFunction,
    Reported,
    TracerState,
    describe_type,
)
from tegula.lang.static_parts import static_expression
from tegula.lang.structs import construct
from tegula.lang.thread_arrays import as_argument, changed_arrays, kind_of, mark
from tegula.ops import PUBLIC
from tegula.ops.base import FIELDWISE, USAGE_HELP, cast_help
from tegula.ops.build_vector import convert
from tegula.ops.builder import DESCRIPTIONS, LITERALS, OpBuilder
from tegula.ops.lane import Tid
from tegula.ops.literals import as_float
from tegula.ops.structs import Fields, as_general, call_by_field, has_struct, with_parts
from tegula.ops.vector import VecMake
from tegula.signature import ElementPattern, TilePattern, scalar_bound
from tegula.source import Location
from tegula.structs import StructType
from tegula.types import (
    BufType,
    DType,
    MatType,
    TileType,
    VecType,
    bfloat16,
    bool_,
    components,
    element_type,
    float16,
    float32,
    from_numpy,
    is_element,
    scalar_of,
    with_scalar,
)

FUNCTIONS = (FuncDef, PublicFunction, LocalFunction, Builtin)
RENAMED = {"round": "rint"}
"""The functions of the language for Python builtins."""


@dataclass(slots=True)
class FunctionArgument:
    """A function that is passed as an argument, which the builder may call."""

    tracer: Calls
    target: Any
    node: ast.AST | None

    def call(self, builder: OpBuilder, args: list[Any]) -> Any:
        """Build a call of the function with these arguments."""
        loc = builder.loc
        result = self.tracer.call(self.target, args, {}, self.node)
        builder.loc = loc
        return result

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.target.name

    def __repr__(self) -> str:
        return f"the function '{self.name}'"


DESCRIPTIONS[FunctionArgument] = repr


class Calls(TracerState):
    """The part of the tracer that builds calls. `library`: the functions of the standard library, by name; `body`: the
    kernel's region."""

    body: Region
    library: Mapping[str, FuncDef]
    captures: Captures
    launch: LaunchClass
    differentiable: bool = False
    """Whether the kernel will be differentiated, so that calls get adjoints, and functions run their `replay`, if
    any."""
    keeps_calls: bool = True
    """Whether functions with a declared derivative become `call` ops; false inside such functions."""
    cooperative: str = ""
    """The cooperative function of which a program is being traced."""
    traced: dict[tuple[Any, ...], TracedCall]
    """Calls of the standard library by function and types of arguments."""
    updates: Updates
    """The parameters of functions whose elements they may assign."""
    final_values: Mapping[str, Any]
    """The final values of the parameters that the last traced function modifies for its caller."""

    def call_node(self, node: ast.Call) -> Any:
        """The value of a call expression."""
        callee = self.expr(node.func)
        if isinstance(callee, Builtin) and callee.name == "static":
            return self.static_call(node)
        args: list[Any] = []
        written: list[tuple[ast.expr, Any]] = []
        for a in node.args:
            value = self.expr(a.value if isinstance(a, ast.Starred) else a)
            value = self.items(value) if isinstance(a, ast.Starred) else value
            if isinstance(a, ast.Starred) and not isinstance(value, tuple):
                raise E.TypeMismatch(self.location(a), what=f"cannot unpack {describe_type(value)}")
            args += value if isinstance(a, ast.Starred) else [value]
            written.append((a, value))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise E.UnsupportedPython(self.location(keyword), what="'**' in a call")
            kwargs[keyword.arg] = self.expr(keyword.value)
            written.append((keyword.value, kwargs[keyword.arg]))
        self.mark(node)
        self.final_values = {}
        with self.written(*written):
            result = self.call(callee, args, kwargs, node)
        if isinstance(callee, PublicFunction):
            callee = self.library.get(callee.name)
        if type(callee) is FuncDef and self.final_values:
            bind_updated_variables(self, callee, self.final_values, node)
        return result

    def items(self, x: Any) -> Any:
        """The components of a vector or the rows of a matrix as a tuple; other bindings are unchanged."""
        if not isinstance(x, Value) or not isinstance(x.type, (VecType, MatType)):
            return x
        return tuple(self.builder.subscript(x, (k,)) for k in range(self.builder.length(x)))

    def call(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None) -> Any:
        """The result of a call of any kind of callee."""
        if isinstance(callee, Builtin):
            return self.builtin(callee.name, args, kwargs, node)
        if isinstance(callee, PublicFunction) and callee.name not in PUBLIC:
            callee = self.library.get(callee.name)
        if isinstance(callee, PublicFunction):
            return self.public_call(callee.name, args, kwargs, node)
        if isinstance(callee, TileMethod):
            return call_method(self, callee, args, kwargs, node)
        if isinstance(callee, CooperativeDef):
            return call_cooperative(self, callee, args, kwargs, node)
        if isinstance(callee, Inplace):
            return call_inplace(self, callee, args, kwargs, node)
        if isinstance(callee, FuncDef):
            return self.call_function(callee, args, kwargs, node)
        if isinstance(callee, LocalFunction):
            return self.call_local(callee, args, kwargs, node)
        if isinstance(callee, StructType):
            arguments = {key: self.argument(x, node) for key, x in kwargs.items()}
            args = [self.argument(x, node) for x in args]
            return construct(self.builder, callee, args, arguments, self.location(node))
        if callee is float or callee is int or callee is bool:
            return self.number(callee, args, kwargs, node)
        if isinstance(callee, (DType, VecType, MatType)):
            return self.with_constants(lambda a: convert(self.builder, callee, list(a), kwargs), tuple(args))
        if isinstance(callee, Opaque) and getattr(callee.object, "__module__", "") == "builtins":
            raise E.UnsupportedPython(self.location(node), what=f"'{callee.object.__name__}'")
        message = f"{describe_type(callee)} is not a function of kernels"
        help = "decorate the function with @tg.func" if isinstance(callee, Opaque) else ""
        raise E.TypeMismatch(self.location(node), help=help, what=message)

    # Constants -------------------------------------------------------------------------------------------------------

    def with_constants(self, build: Callable[[Any], Any], args: Any) -> Any:
        """build(args); if `build` requires a constant, retry with the Python number of the constant Value. Other Values
        keep their types."""
        region, before = self.builder.region, len(self.builder.region.ops)
        while True:
            try:
                return build(args)
            except TypeRule as rule:
                numbers = self.constants(args, rule.culprit)
                if rule.error != "NotConstant" or numbers == args:
                    raise
                del region.ops[before:]
                args = numbers

    def constants(self, x: Any, only: Any = None) -> Any:
        """The binding x with its constant Values replaced by Python numbers. `only`: the Value or tuple to replace;
        None: all."""
        if x is only:
            only = None
        if isinstance(x, tuple):
            return with_parts(x, (self.constants(part, only) for part in x))
        if isinstance(x, dict):
            return {key: self.constants(part, only) for key, part in x.items()}
        if isinstance(x, slice):
            return slice(*(self.constants(part, only) for part in (x.start, x.stop, x.step)))
        number = self.constant_number(x) if only is None else None
        return x if number is None else number

    def static_call(self, node: ast.Call) -> Any:
        """tg.static(expression): evaluated by Python while the kernel is traced."""
        if len(node.args) != 1 or node.keywords:
            raise E.WrongArguments(self.location(node), what="static takes one expression")
        return capture("static", self.evaluate(*node.args), self.location(node))

    def evaluate(self, node: ast.expr) -> Any:
        """The node's value in Python; local names must be constants."""
        expression = static_expression(node, lambda name: isinstance(self._local(name), Value))
        names = {name: self._static_value(part) for name, part in expression.parts.items()}
        for n in expression.names:
            value = self._python_value(n)
            if value is not NO_DEFAULT:
                names[n.id] = value
        node = expression.node
        try:
            return eval(expression.code(self.frame.source.file), names)
        except E.CompileError as e:
            raise e.at(self.location(node)) from None
        except NameError as e:
            raise E.UnknownName(self.location(node), name=getattr(e, "name", None) or str(e)) from None
        except Exception as e:
            message = f"evaluating '{ast.unparse(node)}' failed: {type(e).__name__}: {e}"
            raise E.TypeMismatch(self.location(node), what=message) from e

    def annotation(self, node: ast.expr) -> Any:
        """The type that an annotation names; quoted annotations are parsed as in Python. TypeError if it is not a
        type."""
        value = self.evaluate(node)
        while isinstance(value, str):
            try:
                parsed = ast.parse(value.strip(), mode="eval").body
            except SyntaxError:
                raise TypeError(f"{value!r} is not a type that kernels support") from None
            for part in ast.walk(parsed):
                ast.copy_location(part, node)
            value = self.evaluate(parsed)
        return resolve(value)

    def _local(self, name: str) -> Any:
        """The binding of a name in this function or an enclosing one; NO_DEFAULT if there is none."""
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.outer
        return NO_DEFAULT

    def _static_value(self, node: ast.expr) -> Any:
        """The Python object of an expression; NotConstant if it is not known at compile time."""
        x = self.constants(self.expr(node))
        if not is_static(x):
            raise E.NotConstant(self.location(node), what=f"'{ast.unparse(node)}'")
        return x

    def _python_value(self, node: ast.Name) -> Any:
        x = self._local(node.id)
        if isinstance(x, Value) and isinstance(x.type, (TileType, BufType)):
            return TileProperties(x.type.shape, x.type.dtype)
        if x is not NO_DEFAULT:
            return self._static_value(node)
        try:
            return self.frame.lookup(node.id)
        except KeyError:
            return NO_DEFAULT

    # Builtins --------------------------------------------------------------------------------------------------------

    def number(self, kind: type, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None) -> Any:
        """The result of float(x), int(x) or bool(x)."""
        if len(args) != 1 or kwargs:
            raise E.WrongArguments(self.location(node), what=f"{kind.__name__} takes one argument")
        (x,) = args
        if kind is float and isinstance(x, str):
            return self._parsed_float(x, node)
        if isinstance(x, LITERALS) and (kind is not int or isinstance(x, int) or math.isfinite(x)):
            return as_float(x) if kind is float else kind(x)
        if kind is bool:
            return self.builder.truth(x) if not self.builder.is_tile(x) else self.builder.cast(x, bool_)
        return self.builder.cast(x, element_type(kind))  # type: ignore[arg-type]

    def _parsed_float(self, text: str, node: ast.AST | None) -> float:
        """The value of float("inf"), float("nan") and similar calls with a string."""
        try:
            return float(text)
        except ValueError:
            raise E.TypeMismatch(self.location(node), what=f"{text!r} is not a number") from None

    def builtin(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None) -> Any:
        """The result of a call of a Python builtin, or of a function of the language that the tracer implements."""
        if name == "print":
            return build_print(self, args, kwargs, node)
        if kwargs:
            raise E.WrongArguments(self.location(node), what=f"{name} takes no keywords here")
        if name == "tid":
            if args:
                help = "name as many indices as you need: i, j = tg.tid()"
                raise E.WrongArguments(self.location(node), what="tid takes no arguments", help=help)
            return self.thread_index(1, node)[0]
        if name in ("min", "max") and len(args) == 1 and isinstance(args[0], tuple):
            args = list(args[0])
        if name in ("min", "max") and len(args) >= 2:
            extreme = args[0]
            for x in args[1:]:
                extreme = self.public_call(name, [extreme, x], {}, node)
            return extreme
        if name == "slice" and 1 <= len(args) <= 3:
            return slice(*args)
        if len(args) != (2 if name == "pow" else 1):
            message = f"{name} does not take {count_text(len(args), 'argument')}"
            raise E.WrongArguments(self.location(node), what=message)
        if name == "len":
            return self.builder.length(args[0])
        if name == "pow":
            return self.builder.binary("pow", *args)
        if name == "constant":
            return args[0]
        if name == "type" and isinstance(args[0], (Value, *LITERALS)):
            return self.builder.value(args[0]).type
        if name in ("float", "int", "bool"):
            return self.number({"float": float, "int": int, "bool": bool}[name], args, kwargs, node)
        if RENAMED.get(name, name) in PUBLIC:
            return self.public_call(RENAMED.get(name, name), args, kwargs, node)
        help = f"write '{USED_IN[name]}'" if name in USED_IN else ""
        raise E.UnsupportedPython(self.location(node), help=help, what=f"'{name}'")

    def thread_index(self, count: int, node: ast.AST | None) -> list[Value]:
        """The `count` leading components of the thread index. The index of a thread is constant during a launch, so
        that the op is built before the enclosing branches and loops."""
        if count > self.launch.ndim:
            have = "1 dimension" if self.launch.ndim == 1 else f"{self.launch.ndim} dimensions"
            message = f"{count} indices are unpacked, but this launch has {have}"
            help = f"launch with dim of {count} entries (launch_tiled adds block_dim as the last one)"
            raise E.WrongArguments(self.location(node), what=message, help=help)
        if self.cooperative:
            message = f"tg.tid in {self.cooperative}, which has no position in the launch,"
            help = (
                "number threads with tg.group_lane(), below tg.group_size(), or take an index as a parameter"
            )
            raise E.UnsupportedPython(self.location(node), what=message, help=help)
        self.mark(node)
        with self.within(self.body):
            return self.builder.emit(Tid, [], {"count": count})

    # Functions of the language ---------------------------------------------------------------------------------------

    def argument(self, x: Any, node: ast.AST | None) -> Any:
        """An argument of a public function; functions in the argument are wrapped so that the builder can call them."""
        if isinstance(x, FUNCTIONS):
            return FunctionArgument(self, x, node)
        if isinstance(x, tuple):
            return with_parts(x, [self.argument(part, node) for part in x])
        if isinstance(x, np.generic):
            return self.builder.const(x.item(), from_numpy(x.dtype))
        return x

    def public_call(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None) -> Any:
        """The result of a call of a public function of the language."""
        function = PUBLIC[name]
        args, kwargs = by_position(name, function, args, kwargs)
        structs = any(map(has_struct, (*args, *kwargs.values())))

        def build(b: OpBuilder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if structs:
                return call_by_field(name, function, FIELDWISE.get(name), b, args, kwargs)
            return function(b, *args, **kwargs)

        arguments = tuple(self.argument(x, node) for x in args)
        named = {key: self.argument(x, node) for key, x in kwargs.items()}
        try:
            return self.with_constants(lambda a: build(self.builder, a[0], a[1]), (arguments, named))
        except E.CompileError:
            raise
        except TypeRule as rule:
            rule.help = rule.help or self._remedy(rule, name, function)
            raise
        except (TypeError, ValueError) as e:
            try:
                inspect.signature(function).bind(self.builder, *arguments, **named)
            except TypeError as wrong:
                message, help = argument_error(name, function, list(named), wrong)
                raise E.WrongArguments(self.location(node), what=message, help=help) from None
            message = f"{name}: {e}" if isinstance(e, TypeError) else f"{name}: the arguments do not fit"
            raise E.TypeMismatch(self.location(node), what=message, help=signature(name, function)) from None

    def _remedy(self, rule: TypeRule, name: str, function: Callable[..., Any]) -> str:
        """The help text for an argument of a wrong type or range: the accepted uses of the argument's type, and the
        function's signature; "" if the error states the expected type."""
        if rule.error not in ("TypeMismatch", "OutOfRange") or rule.expected is not None:
            return ""
        use = USAGE_HELP.get(type(rule.culprit.type), "") if isinstance(rule.culprit, Value) else ""
        return f"{use}; {signature(name, function)}" if use else signature(name, function)

    def call_library(self, builder: OpBuilder, name: str, args: list[Any]) -> Any:
        """Call a function of the standard library, for the builder."""
        target = self.library.get(name)
        if target is None and name not in PUBLIC:
            raise TypeRule(f"the function {name} is not available")
        return self.call(target or PublicFunction(name), args, {}, None)

    # Functions of the user -------------------------------------------------------------------------------------------

    def call_function(self, f: FuncDef, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None) -> Any:
        """The result of a call of a `@tg.func` function, which is inlined, or of a library function."""
        if f is self.library.get(f.name) and kwargs:
            args, kwargs = self._by_position(f, args, kwargs, node), {}
        if f is self.library.get(f.name) and any(map(self.builder.is_tile, args)) and not takes_tiles(f):
            return self._elementwise(f, args, node)
        if f is self.library.get(f.name) and takes_only_scalars(f) and any(map(is_compound, args)):
            return self._componentwise(f, args, node)
        self._check_one_dtype(f, args)
        narrow = f.in_float32 and next(filter(None, map(self._narrow_dtype, args)), None)
        if narrow and not has_overload_for(f, narrow):
            return self._in_float32(f, args, narrow, node)
        chosen, ordered = apply_constants(self.captures, *self._overload(f, args, kwargs, node))
        rule = derivative(self, f, chosen) if self.keeps_calls else None
        if rule is not None:
            updated = updated_parameters(chosen, self.library, self.updates)
            pairs = zip(chosen.definition.parameters, ordered, strict=True)
            arrays = [p.name for p, x in pairs if p.name in updated and kind_of(self.builder, x)]
            for name in [*chosen.definition.changed, *arrays]:
                message = f"{f.name} has a declared gradient, so it cannot modify {name!r}"
                raise E.UnsupportedPython(
                    self.location(node), what=message, help=f"return the new value of {name!r}"
                )
            return call_with_derivative(self, chosen, rule, ordered, node)
        if self.differentiable and self.keeps_calls:
            chosen = chosen.replay or chosen
        return self.inline_function(chosen, ordered, node)

    def _check_one_dtype(self, f: FuncDef, args: Sequence[Any]) -> None:
        """Raise TypeRule if the arguments of a function of vectors have several dtypes."""
        scalars = [
            x.type
            for p, x in zip(f.definition.parameters, args, strict=False)
            if isinstance(p.annotation, ElementPattern) and isinstance(x, Value) and is_element(x.type)
        ]
        other = next((t for t in scalars if scalar_of(t) != scalar_of(scalars[0])), None)
        if other is not None:
            raise TypeRule(
                "", cast_help(scalars[0], other), "MixedScalars", op=f.name, left=scalars[0], right=other
            )

    def _by_position(
        self, f: FuncDef, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None
    ) -> list[Any]:
        """The arguments of a function of the library in the order of its parameters: the parameters of the first
        overload with the given names."""
        problem: TypeError | None = None
        for candidate in f.definitions:
            try:
                return self._bind_arguments(f.name, candidate.definition.parameters, args, kwargs)
            except TypeError as e:
                problem = e
        names = [p.name for overload in f.definitions for p in overload.definition.parameters]
        unknown_name = next((key for key in kwargs if key not in names), "")
        help = E.suggestion(unknown_name, names) if unknown_name else f"overloads: {signatures(f)}"
        raise E.WrongArguments(self.location(node), what=str(problem), help=help) from None

    def signature_of_call(self, within: Location) -> str:
        outside = E.users_location(within)
        name = next((location.function for location in within.chain() if location.caller == outside), "")
        f = self.library.get(name)
        return f"signature: {named_signatures(f)}" if f is not None else ""

    def inline_function(self, chosen: FuncDef, ordered: Sequence[Any], node: ast.AST | None) -> Any:
        """The result of a function whose body is traced here with the given arguments."""
        d = chosen.definition
        if d.library:
            ordered = self._adapt_literals(d.parameters, ordered)
        names = {**bound_names(self, d), **self._bind_parameters(d.parameters, ordered)}
        frame = Frame(d.source, d.flow, self.captures.lookup(d), {**names}, self.builder.loc, identity=chosen)
        annotate_updates(d.flow, d.lookup, self.library, self.updates)
        updated = updated_parameters(chosen, self.library, self.updates)
        frame.thread_arrays = {p: kind for p, x in names.items() if (kind := kind_of(self.builder, x))}
        d.flow.read_by_nested |= updated & frame.thread_arrays.keys()
        result = self.inline(frame, d.source.tree.body, chosen.name, node)
        arrays = changed_arrays(self.builder, names, frame.names, updated)
        self.final_values = {name: frame.names[name] for name in (*d.changed, *arrays)}
        return result

    def _adapt_literals(self, parameters: Sequence[Parameter], args: Sequence[Any]) -> list[Any]:
        """The arguments of a generic library function: literals for parameters of any type take the dtype of the first
        float or integer argument that represents them."""
        dtypes = [scalar_of(x.type) for x in args if isinstance(x, Value) and is_element(x.type)]

        def adapted(p: Parameter, x: Any) -> Any:
            if p.annotation is not ANY or not isinstance(x, (int, float)) or isinstance(x, bool):
                return x
            dtype = next((t for t in dtypes if t.is_float == isinstance(x, float) and not t.is_bool), None)
            return x if dtype is None else self.builder.value(x, dtype)

        return [adapted(p, x) for p, x in zip(parameters, args, strict=True)]

    def _narrow_dtype(self, x: Any) -> DType | None:
        """The dtype of a scalar, vector or matrix of 16-bit floats; None for other types."""
        scalar = scalar_of(x.type) if isinstance(x, Value) and is_element(x.type) else None
        return scalar if scalar in (float16, bfloat16) else None

    def _in_float32(self, f: FuncDef, args: list[Any], narrow: DType, node: ast.AST | None) -> Any:
        """The result of a function of 16-bit floats, computed in float32 and rounded once."""
        widened = [self.builder.cast(x, float32) if self._narrow_dtype(x) == narrow else x for x in args]
        result = self._to_narrow(self.call_function(f, widened, {}, node), narrow)
        self.final_values = {name: self._to_narrow(x, narrow) for name, x in self.final_values.items()}
        return result

    def _to_narrow(self, x: Any, narrow: DType) -> Any:
        """Results in float32, converted to 16-bit floats."""
        if isinstance(x, tuple):
            return tuple(self._to_narrow(part, narrow) for part in x)
        is_wide = isinstance(x, Value) and is_element(x.type) and scalar_of(x.type) == float32
        return self.builder.cast(x, narrow) if is_wide else x

    def _elementwise(self, f: FuncDef, args: list[Any], node: ast.AST | None) -> Value:
        """A function of the standard library applied to tiles, element by element."""
        values = [self.builder.value(x) if isinstance(x, (np.generic, np.ndarray)) else x for x in args]
        typed = [x for x in values if isinstance(x, Value)]

        def element(elements: list[Value]) -> Any:
            rest = iter(elements)
            components = [next(rest) if isinstance(x, Value) else x for x in values]
            return self.call_function(f, components, {}, node)

        result = self.builder.map(element, typed)
        self.final_values = {name: x for name, x in zip(f.definition.changed, args, strict=False)}
        return result

    def _componentwise(self, f: FuncDef, args: list[Any], node: ast.AST | None) -> Value:
        """A function of numbers applied to vectors or matrices of one type, component by component."""
        compound = [x for x in args if is_compound(x)]
        t = compound[0].type
        for x in compound:
            if x.type != t:
                raise TypeRule("", cast_help(t, x.type), "MixedScalars", op=f.name, left=t, right=x.type)
        parts = [self.builder.components_of(x) if is_compound(x) else [x] * components(t) for x in args]
        results = [self.call_function(f, list(numbers), {}, node) for numbers in zip(*parts, strict=True)]
        return self.builder.one(VecMake, results, {"type": with_scalar(t, results[0].type)})

    def _overload(
        self, f: FuncDef, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None
    ) -> tuple[FuncDef, list[Any]]:
        """The overload whose parameters fit the arguments best; the last of several overloads of equal cost."""
        best: tuple[int, FuncDef, list[Any]] | None = None
        problem, culprit, expected = "", None, None
        for candidate in f.overloads:
            parameters = candidate.definition.parameters
            try:
                arguments = self._bind_arguments(candidate.name, parameters, args, kwargs)
            except E.CompileError:
                raise
            except TypeError as e:
                problem = problem or str(e)
                continue
            arguments = self._resolve_constants(parameters, arguments)
            types = [
                as_argument(self.builder, p.annotation, x, argument_form(x))
                for p, x in zip(parameters, arguments, strict=True)
            ]
            misfit = first_misfit(parameters, types)
            cost = call_cost(parameters, types, args, kwargs) if misfit is None else None
            if cost is not None and (best is None or cost <= best[0]):
                best = (cost, candidate, arguments)
            elif misfit is not None and not problem:
                p, culprit = parameters[misfit], arguments[misfit]
                expected = p.annotation
                if len(f.overloads) == 1:
                    require_constant(f.name, p, culprit, self.location(node))
                actual = describe_type(culprit)
                actual = f"another struct {actual}" if actual == p.expected else actual
                problem = f"argument '{p.name}' of {f.name} must be {p.expected}, got {actual}"
        if best is not None:
            return best[1], best[2]
        if len(f.overloads) == 1:
            defined = f"overloads: {signatures(f)}"
            raise TypeRule(
                "", "", "WrongArguments", culprit=culprit, expected=expected, otherwise=defined, what=problem
            )
        described = [describe_type(x) for x in [*args, *kwargs.values()]]
        # The help for an internal function is the signature of the public function.
        internal = f"an argument of type {', '.join(described)}"
        types = internal if f.name.startswith("_") else signature_text(f.name, described)
        help = self._cast_to_fit(f, args, node) or f"overloads: {signatures(f)}"
        raise E.WrongArguments(self.location(node), help=help, what=f"no overload accepts {types}")

    def _cast_to_fit(self, f: FuncDef, args: Sequence[Any], node: ast.AST | None) -> str:
        """The text of the call with casts to the parameters of the first overload with the same number of parameters;
        "" if no casts help."""
        if not isinstance(node, ast.Call) or node.keywords:
            return ""
        written = [*node.args]
        for candidate in f.overloads:
            parameters = candidate.definition.parameters
            types = [
                explain.scalar(x) if isinstance(argument_form(x), (DType, int, float)) else None for x in args
            ]
            if not len(parameters) == len(written) == len(args) or None in types or bool_ in types:
                continue
            dtypes = [a for p in parameters if isinstance(a := p.annotation, DType) and not a.is_bool]
            if len(dtypes) == len(parameters):
                parts = [
                    ast.unparse(n)
                    if match_cost(p.annotation, argument_form(x)) is not None
                    else explain.cast_text(n, x, t)
                    for n, x, p, t in zip(written, args, parameters, dtypes, strict=True)
                ]
                return f"cast the argument: {ast.unparse(node.func)}({', '.join(parts)})"
        return ""

    def _bind_arguments(
        self, name: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Any]:
        """Arguments in the order of the parameters; TypeError for arguments that do not fit."""
        return bind_arguments(
            name, parameters, args, kwargs, lambda p: capture(p.name, p.default, self.builder.loc)
        )

    def _resolve_constants(self, parameters: Sequence[Parameter], args: Sequence[Any]) -> list[Any]:
        """The arguments, with known values of constant parameters as Python numbers."""
        pairs = zip(parameters, args, strict=True)
        return [self.constants(x) if takes_constant(p.annotation) else x for p, x in pairs]

    def _bind_parameters(self, parameters: Sequence[Parameter], args: Sequence[Any]) -> dict[str, Any]:
        names: dict[str, Any] = {RETURN: False}
        common = scalar_bound([p.annotation for p in parameters], [argument_form(x) for x in args])
        for p, x in zip(parameters, args, strict=True):
            if takes_constant(p.annotation):
                names[p.name] = x
                continue
            dtype = common if isinstance(p.annotation, ElementPattern) else p.annotation
            dtype = dtype if is_element(dtype) else None
            names[p.name] = bound = self._bind_parameter(as_general(x, p.annotation), dtype)
            if isinstance(bound, Value) and not bound.name:
                bound.name = p.name
        return names

    def _bind_parameter(self, x: Any, dtype: Any = None) -> Any:
        """The binding of an argument in the callee: tiles by reference, literals with their type."""
        if isinstance(x, tuple):
            return with_parts(x, map(self._bind_parameter, x))
        if isinstance(x, LITERALS):
            return self.builder.value(x, dtype)
        if isinstance(x, Value) and isinstance(x.type, BufType):
            self.objects.add(x)
            self.has_name_if.pop(x, None)
            return x
        return self.bound(x)

    def call_local(
        self, f: LocalFunction, args: list[Any], kwargs: dict[str, Any], node: ast.AST | None
    ) -> Any:
        """The result of a call of a function that is defined inside the kernel."""
        if f.tree.args.vararg or f.tree.args.kwarg:
            raise E.UnsupportedPython(self.location(f.tree), what="a '*' parameter")
        caller, self.frame = self.frame, f.frame
        try:
            parameters = self._local_parameters(f.tree.args)
        finally:
            self.frame = caller
        try:
            arguments = self._bind_arguments(f.name, parameters, args, kwargs)
        except E.CompileError:
            raise
        except TypeError as e:
            defined = f"defined: {signature_text(f.name, [p.expected for p in parameters])}"
            raise E.WrongArguments(self.location(node), what=str(e), help=defined) from None
        arguments = self._resolve_constants(parameters, arguments)
        for p, x in zip(parameters, arguments, strict=True):
            require_constant(f.name, p, x, self.location(node))
            if match_cost(p.annotation, argument_form(x)) is None:
                message = f"argument '{p.name}' of {f.name} must be {p.expected}, got {describe_type(x)}"
                raise TypeRule("", "", "WrongArguments", culprit=x, expected=p.annotation, what=message)
        names = self._bind_parameters(parameters, arguments)
        outer, flow = f.frame, Flow(f.tree)
        annotate_updates(flow, outer.lookup, self.library, self.updates)
        frame = Frame(outer.source, flow, outer.lookup, {**names}, self.builder.loc, outer, identity=f.tree)
        frame.thread_arrays = {p: kind for p, x in names.items() if (kind := kind_of(self.builder, x))}
        result = self.inline(frame, f.tree.body, f.name, node)
        for name in changed_arrays(self.builder, names, frame.names, [p.name for p in parameters]):
            message = f"a function inside a kernel that changes {name!r}, an array of a thread,"
            raise E.UnsupportedPython(
                self.location(node),
                what=message,
                help="define the function outside of the kernel, as a @tg.func",
            )
        return result

    def _local_parameters(self, a: ast.arguments) -> list[Parameter]:
        arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        defaults: list[Any] = [NO_DEFAULT] * (len(a.posonlyargs) + len(a.args) - len(a.defaults))
        defaults += [self.evaluate(d) for d in a.defaults]
        defaults += [NO_DEFAULT if d is None else self.evaluate(d) for d in a.kw_defaults]
        out: list[Parameter] = []
        for arg, default in zip(arguments, defaults, strict=True):
            try:
                annotation = ANY if arg.annotation is None else self.annotation(arg.annotation)
            except E.CompileError:
                raise
            except TypeError as e:
                raise E.TypeMismatch(self.location(arg), what=str(e)) from None
            out.append(Parameter(arg.arg, annotation, default, arg in a.kwonlyargs))
        return out

    def inline(self, frame: Frame, body: Sequence[ast.stmt], name: str, node: ast.AST | None) -> Any:
        """Inline the body, and return its result."""
        if any(frame.identity is f for f in self.calls):
            raise E.RecursiveFunction(self.location(node), name=name)
        caller, loc = self.frame, self.builder.loc
        self.calls.append(frame.identity)
        self.frame = frame
        try:
            self.block(body)
        finally:
            self.frame = caller
            self.calls.pop()
            self.builder.loc = loc
        result = frame.names.get(RESULT)
        mark(self.builder, result, frame.thread_arrays.get(RESULT))
        if result is FAILED:
            raise Reported
        if isinstance(result, Conflict):
            error = result.error(self.location(node))
            returns = [
                n for s in body for n in ast.walk(s) if isinstance(n, ast.Return) and n.value is not None
            ]
            locations = [frame.source.location(n, frame.caller) for n in returns]
            error.notes += [(location, f"{name} returns a value here") for location in locations]
            raise error
        if result is not None and frame.names[RETURN] is not True:
            message = f"{name} returns a value on some paths only"
            raise E.TypeMismatch(self.location(node), what=message)
        return result


def takes_tiles(f: FuncDef) -> bool:
    """Whether a parameter of a function takes a whole tile, by its annotation."""
    annotations = (p.annotation for overload in f.overloads for p in overload.definition.parameters)
    return any(isinstance(annotation, (TileAnnotation, TilePattern)) for annotation in annotations)


def takes_only_scalars(f: FuncDef) -> bool:
    """Whether all parameters of a function are scalars of given types."""
    return all(
        isinstance(p.annotation, DType) for overload in f.definitions for p in overload.definition.parameters
    )


def has_overload_for(f: FuncDef, dtype: DType) -> bool:
    """Whether an overload of a function has a parameter of a dtype."""
    declared = (p.annotation for overload in f.definitions for p in overload.definition.parameters)
    return any(is_element(t) and scalar_of(t) == dtype for t in declared)


def is_compound(x: Any) -> bool:
    """Whether an argument is a plain vector or a matrix."""
    t = x.type if isinstance(x, Value) else None
    return isinstance(t, MatType) or (isinstance(t, VecType) and t.algebra.is_plain)


def argument_form(x: Any) -> Any:
    """The form of an argument for `overloads.match_cost`."""
    if isinstance(x, (Value, Fields)):
        return x.type
    if isinstance(x, (np.generic, np.ndarray)):
        return constant_type(x)
    return CALLEE if isinstance(x, (*FUNCTIONS, DType, VecType, MatType, StructType)) else x
