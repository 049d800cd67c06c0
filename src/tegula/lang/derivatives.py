"""Calls of functions with a declared derivative: functions of the standard library with a `_NAME_adjoint`, and
functions with `@func_grad`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula import errors as E
from tegula.dataclass import dataclass, replace
from tegula.ir import ConstantLike, Region, Value
from tegula.ir.rewrite import clone_region
from tegula.lang.constants import bound_names
from tegula.lang.definition import FuncDef
from tegula.lang.flow import Flow
from tegula.lang.state import RETURN, Frame
from tegula.ops.base import element
from tegula.ops.builder import LITERALS, OpBuilder
from tegula.ops.control import Yield
from tegula.ops.gradient import LIBRARY, Call, adjoint_type, has_adjoint
from tegula.source import Location
from tegula.types import Type, is_element, scalar_of, with_scalar

if TYPE_CHECKING:
    from tegula.lang.calls import Calls


def derivative(tracer: Calls, f: FuncDef, chosen: FuncDef) -> FuncDef | None:
    """The function that computes the adjoints of a function's arguments; None if the function's body is
    differentiated."""
    if f is tracer.library.get(f.name):
        return tracer.library.get(f"_{f.name}_adjoint")
    tracer.captures.attribute(chosen, "gradient")
    tracer.captures.attribute(chosen, "replay")
    return chosen.gradient


def call_with_derivative(
    tracer: Calls, chosen: FuncDef, rule: FuncDef, ordered: Sequence[Any], node: ast.AST | None
) -> Any:
    """The results of a `call` op of a function of elements, with its body and, in kernels to be differentiated, its
    adjoint. Other kernels have the same calls, so that a kernel and its adjoint fuse the same operations."""
    args = _elements(tracer, chosen, ordered, node)
    if args is None:
        return tracer.inline_function(chosen, ordered, node)
    builder, operands = tracer.builder, [x for x in args if not _is_static(x)]
    key = (
        chosen,
        *(
            (x.type, x.owner.value if isinstance(x.owner, ConstantLike) and _is_static(x) else None)
            for x in args
        ),
    )
    traced = tracer.traced.get(key)
    if traced is not None:
        regions = traced.copies(builder.loc)
    else:
        traced = _traced(tracer, chosen, rule, args, operands, node)
        if traced is None:
            return tracer.inline_function(chosen, ordered, node)
        regions = traced.regions
        if rule is not chosen.gradient:
            tracer.traced[key] = traced
    name = chosen.name if rule is chosen.gradient else LIBRARY + chosen.name
    results = builder.emit(Call, operands, {"name": name}, regions)
    return tuple(results) if traced.returns_tuple else results[0]


@dataclass(frozen=True, slots=True)
class TracedCall:
    """The regions of a `call`, traced for one location, and whether the call returns a tuple. Regions of the standard
    library depend on the argument types alone, so that they are traced once for each list of types."""

    regions: list[Region]
    returns_tuple: bool
    loc: Location

    def copies(self, loc: Location) -> list[Region]:
        """Copies of the regions for a call at another location."""
        relocated = {id(self.loc): loc}
        copies = [clone_region(region, {}) for region in self.regions]
        for op in (op for region in copies for op in region.walk()):
            op.loc = _relocate(op.loc, relocated)
        return copies


def _relocate(loc: Location, moved: dict[int, Location]) -> Location:
    """The location with its callers replaced by the results of `moved`."""
    location = moved.get(id(loc))
    if location is None:
        location = replace(loc, caller=_relocate(loc.caller, moved)) if loc.caller is not None else loc
        moved[id(loc)] = location
    return location


def _traced(
    tracer: Calls,
    chosen: FuncDef,
    rule: FuncDef,
    args: Sequence[Value],
    operands: Sequence[Value],
    node: ast.AST | None,
) -> TracedCall | None:
    """The body of a call and, in kernels to be differentiated, its adjoint. None in other kernels if a result of the
    function is not an element."""
    builder = tracer.builder
    loc, body = builder.loc, Region([v.type for v in operands])
    tracer.keeps_calls = False
    try:
        with tracer.within(body):
            function = chosen.replay or chosen if tracer.differentiable else chosen
            result = tracer.inline_function(function, _arguments_inside(builder, args, body.args), node)
            parts = result if isinstance(result, tuple) else (result,)
            are_elements = tracer.differentiable or all(map(_is_element, parts))
            builder.emit(Yield, _values(builder, result) if are_elements else [])
        if not are_elements:
            return None
        regions = [body]
        if tracer.differentiable:
            regions.append(_adjoint_region(tracer, chosen, rule, args, body, node))
    finally:
        tracer.keeps_calls = True
    return TracedCall(regions, isinstance(result, tuple), loc)


def _elements(
    tracer: Calls, chosen: FuncDef, ordered: Sequence[Any], node: ast.AST | None
) -> list[Value] | None:
    """The arguments as scalars, vectors and matrices. If an argument has another type: an error in kernels to be
    differentiated, None in other kernels."""
    args: list[Value] = []
    for p, x in zip(chosen.definition.parameters, ordered, strict=True):
        if not _is_element(x) and not tracer.differentiable:
            return None
        args.append(tracer.builder.value(x, p.annotation if is_element(p.annotation) else None))
        if not is_element(args[-1].type):
            message = f"{chosen.name} has a declared gradient, so it takes scalars, vectors and matrices only"
            raise E.TypeMismatch(tracer.location(node), what=message)
    return args


def _is_element(x: Any) -> bool:
    return is_element(x.type) if isinstance(x, Value) else isinstance(x, (*LITERALS, np.generic))


def _is_static(x: Value) -> bool:
    """Whether an argument is a constant integer or bool, which a function may need at compile time."""
    return isinstance(x.owner, ConstantLike) and not has_adjoint(x.type)


def _arguments_inside(builder: OpBuilder, args: Sequence[Value], inside: Sequence[Value]) -> list[Value]:
    """The call's arguments inside a region: constants for static arguments, and the region's arguments for the
    others."""
    rest = iter(inside)
    return [
        builder.const(x.owner.value, element(x.type))
        if isinstance(x.owner, ConstantLike) and _is_static(x)
        else next(rest)
        for x in args
    ]


def _adjoint_region(
    tracer: Calls, chosen: FuncDef, rule: FuncDef, args: Sequence[Value], body: Region, node: ast.AST | None
) -> Region:
    """The region of a call's adjoint, whose arguments are the call's operands, its results, and the adjoints of the
    results."""
    result_types = [v.type for v in body.yielded]
    argument_types = [v.type for v in args]
    gradient_types = [adjoint_type(t) for t in result_types if has_adjoint(t)]
    if rule is chosen.gradient:
        adjoint_types = [adjoint_type(t) for t in argument_types]
        types = _declared(rule, [*argument_types, *gradient_types], [*adjoint_types, *gradient_types])
        argument_types, gradient_types = types[: len(argument_types)], types[len(argument_types) :]
    else:
        argument_types, result_types = (
            [adjoint_type(t) for t in types] for types in (argument_types, result_types)
        )
    argument_types = [t for t, x in zip(argument_types, args, strict=True) if not _is_static(x)]
    region, builder = Region(), tracer.builder
    arguments, results, adjoints = (
        [region.add_argument(t) for t in types] for types in (argument_types, result_types, gradient_types)
    )
    with tracer.within(region):
        inside = _arguments_inside(builder, args, arguments)
        if rule is chosen.gradient:
            increments = _increments(tracer, rule, inside, adjoints)
        else:
            rule_arguments = [*inside, *results, *adjoints]
            increments = _values(builder, tracer.call_function(rule, rule_arguments, {}, node))
        builder.emit(Yield, _as_adjoints(builder, increments, args))
    return region


def _values(builder: OpBuilder, result: Any) -> list[Value]:
    """The results of a function as values."""
    return [builder.value(x) for x in (result if isinstance(result, tuple) else (result,))]


def _declared(rule: FuncDef, own: Sequence[Type], wide: Sequence[Type]) -> list[Type]:
    """The types of a gradient function's parameters: the declared float type, if it has the value's shape. A parameter
    without a declared type has the adjoint's, so that the function computes in float32 for narrower floats."""
    declared = [p.annotation for p in rule.definition.parameters]
    declared += [None] * (len(own) - len(declared))
    types: list[Type] = []
    for annotation, t, adjoint in zip(declared, own, wide, strict=False):
        fits = is_element(annotation) and with_scalar(element(t), scalar_of(annotation)) == annotation
        is_float = has_adjoint(t) and fits and scalar_of(annotation).is_float
        types.append(annotation if is_float else t if is_element(annotation) else adjoint)
    return types


def _as_adjoints(builder: OpBuilder, increments: Sequence[Value], args: Sequence[Value]) -> list[Value]:
    """The increments of the arguments' adjoints, cast to the types of adjoints."""
    dtypes = [scalar_of(element(adjoint_type(v.type))) for v in args if has_adjoint(v.type)]
    return [builder.cast(x, to) for x, to in zip(increments, dtypes, strict=True)]


def _increments(tracer: Calls, rule: FuncDef, args: Sequence[Value], grads: Sequence[Value]) -> list[Value]:
    """The sum that a gradient function adds to `tg.adjoint[x]` for each float argument x. Each `tg.adjoint[x]` is
    traced as a variable of the function."""
    d, builder = rule.definition, tracer.builder
    names = [p.name for p in d.parameters]
    if len(names) != len(args) + len(grads):
        expected = f"{len(args)} arguments and {len(grads)} results"
        message = f"{rule.name} is the gradient of a function of {expected}, but has {len(names)} parameters"
        help = "declare the parameters of the function, then the adjoint of each result that is a float"
        raise E.WrongArguments(d.location, what=message, help=help)
    wide = {n: adjoint_type(v.type) for n, v in zip(names, args, strict=False) if has_adjoint(v.type)}
    narrow = [n for n, v in zip(names, args, strict=False) if wide.get(n, v.type) != v.type]
    tree = _Adjoints(names[: len(args)], narrow).visit(copy.deepcopy(d.source.tree))
    flow = Flow(tree)
    bound: dict[str, Any] = {RETURN: False, **dict(zip(names, [*args, *grads], strict=True))}
    bound |= bound_names(tracer, d)
    increments = [_variable(n) for n, v in zip(names, args, strict=False) if has_adjoint(v.type)]
    for name, value in zip(names, args, strict=False):
        if has_adjoint(value.type):
            bound[_variable(name)] = builder.const(0.0, element(wide[name]))
            bound[_type_of(name)] = wide[name]
    flow.read_by_nested |= set(increments)
    frame = Frame(d.source, flow, tracer.captures.lookup(d), bound, builder.loc, identity=rule)
    tracer.inline(frame, tree.body, rule.name, None)
    return [builder.value(frame.names[name]) for name in increments]


def _variable(name: str) -> str:
    return f"adjoint[{name}]"


def _type_of(name: str) -> str:
    return f"type of adjoint[{name}]"


class _Adjoints(ast.NodeTransformer):
    """Replaces `tg.adjoint[x]` by a variable. `narrow`: the names x whose adjoints have another type than x, to which
    addends are converted."""

    def __init__(self, names: Sequence[str], narrow: Sequence[str]) -> None:
        self.names = set(names)
        self.converted = {_variable(name): _type_of(name) for name in narrow}

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        to = self.converted.get(getattr(node.target, "id", ""))
        if to is not None:
            call = ast.Call(ast.copy_location(ast.Name(to, ast.Load()), node), [node.value], [])
            node.value = ast.copy_location(call, node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        of = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if of != "adjoint" or not isinstance(node.slice, ast.Name) or node.slice.id not in self.names:
            return node
        return ast.copy_location(ast.Name(_variable(node.slice.id), node.ctx), node)
