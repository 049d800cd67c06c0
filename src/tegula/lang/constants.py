"""Constant parameters: a kernel or function with bound constants is a kernel or function of the other parameters.

Gradients, tapes, keys and caches therefore handle only kernels of arrays and numbers, with a kernel for each list of
constants."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tegula.errors import CompileError, NotConstant, UnsupportedCapture
from tegula.ir import Value
from tegula.lang.annotations import Annotation
from tegula.lang.capture import capture
from tegula.lang.captures import Captures
from tegula.lang.definition import Definition, FuncDef
from tegula.lang.flow import bindings
from tegula.lang.overloads import Parameter
from tegula.lang.state import TracerState
from tegula.signature import ConstantPattern
from tegula.source import Location
from tegula.types import DType

_NONE = re.compile(r"\bNone\b")
_PLAIN = frozenset({int, str, bool, type(None)})
_BOUND = "_tegula_bound"


class InvalidConstant(Exception):
    """The error for a value that a constant parameter does not accept, with the reason and a help text."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.what, self.help = message, help


def takes_constant(annotation: Annotation) -> bool:
    """Whether a parameter with this annotation takes a constant."""
    return isinstance(annotation, ConstantPattern)


def constant_key(x: Any) -> Hashable:
    """The key of a value. Keys are equal only if kernels cannot distinguish the values: True is not 1, and -0.0 is not
    0.0. TypeError for a value without a hash."""
    kind = type(x)
    if kind in _PLAIN:
        return kind, x
    if isinstance(x, tuple):
        return kind, *map(constant_key, x)
    if isinstance(x, float | np.generic):
        return kind, repr(x)
    hash(x)
    return x


def check_constant(p: Parameter, x: Any) -> Any:
    """A value for a constant parameter, of the type that the annotation names. Unfit if the parameter or kernels do not
    accept the value."""
    pattern = p.annotation
    assert isinstance(pattern, ConstantPattern)
    if pattern.kind is float and type(x) is int:
        x = float(x)
    if isinstance(x, np.integer) and pattern.kind is int:
        x = int(x)
    is_flag = isinstance(x, bool) and pattern.kind in (int, float)
    if is_flag or not pattern.has(x):
        raise InvalidConstant(
            f"expected a constant {pattern.described}, got {_text_of(x)}", f"the annotation is {pattern}"
        )
    try:
        constant_key(x)
    except TypeError:
        help = (
            "pass a tuple"
            if isinstance(x, list)
            else "pass a number, string, dtype, function or tuple of these"
        )
        raise InvalidConstant(f"a constant must be hashable, but a {type(x).__name__} is not", help) from None
    try:
        capture(p.name, x, _NOWHERE)
    except UnsupportedCapture as error:
        raise InvalidConstant(f"{_text_of(x)} cannot be a constant of a kernel", error.help) from None
    return x


_NOWHERE = Location("", 0)


def _text_of(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 40 else f"a {type(x).__name__}"


def bound_names(tracer: TracerState, definition: Definition) -> dict[str, Any]:
    """The bindings of the parameters whose values are bound. Bound names act like captured constants, except that names
    which the function assigns to are variables with this initial value."""
    if not definition.bound:
        return {}
    assigned = bindings(definition.source.tree.body)
    names: dict[str, Any] = {}
    for name, value in definition.bound.items():
        if "." in name:
            continue  # a leaf, which bindings_of knows
        captured = capture(name, value, definition.location)
        names[name] = tracer.bound(captured) if name in assigned.rebound else captured
    return names


def bound_function(f: FuncDef, values: Mapping[str, Any]) -> FuncDef:
    """A function with bound values for some of its parameters, one object for each list of values. The values are also
    bound in its gradient and replay functions, whose first parameters are the function's own."""
    key = tuple((name, constant_key(value)) for name, value in values.items())
    functions: dict[Hashable, FuncDef] = vars(f).setdefault(_BOUND, {})
    if key not in functions:
        functions[key] = FuncDef(f.definition.bind(values))
    bound, parameter_names = functions[key], [p.name for p in f.definition.parameters]
    # The gradient and replay functions may have been added since the last call.
    bound.gradient, bound.replay = (
        _bind_rule(rule, parameter_names, values) for rule in (f.gradient, f.replay)
    )
    return bound


def _bind_rule(
    rule: FuncDef | None, parameter_names: Sequence[str], values: Mapping[str, Any]
) -> FuncDef | None:
    """A gradient or replay function with bound values for the parameters at the same positions."""
    if rule is None:
        return None
    names = [p.name for p in rule.definition.parameters]
    return bound_function(
        rule, {n: values[name] for n, name in zip(names, parameter_names, strict=False) if name in values}
    )


def apply_constants(captures: Captures, f: FuncDef, ordered: Sequence[Any]) -> tuple[FuncDef, list[Any]]:
    """The function with the arguments of constant parameters bound, and the other arguments."""
    parameters = f.definition.parameters
    if not any(takes_constant(p.annotation) for p in parameters):
        return f, [*ordered]
    captures.attribute(f, "gradient")
    captures.attribute(f, "replay")
    values: dict[str, Any] = {}
    rest: list[Any] = []
    for p, x in zip(parameters, ordered, strict=True):
        if takes_constant(p.annotation):
            values[p.name] = x
        else:
            rest.append(x)
    return bound_function(f, values), rest


def explain_absent(definition: Definition, absent: Sequence[str], errors: Sequence[CompileError]) -> None:
    """Add to errors about None a note with the names of the arrays that are absent."""
    for error in errors if absent else ():
        if _NONE.search(error.message):
            error.notes += [
                (definition.parameter_location(name), f"'{name}' is None in this launch") for name in absent
            ]
            error.help = f"pass an array, or guard the access: if {absent[0]} is not None:"


def stable_form(value: Any) -> str:
    """A value in a form that is the same in every process."""
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(stable_form, value))})"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def is_static(x: Any) -> bool:
    """Whether a binding is known when the kernel is compiled, in all parts of a tuple."""
    return all(map(is_static, x)) if isinstance(x, tuple) else not isinstance(x, Value)


def require_constant(name: str, p: Parameter, x: Any, loc: Location) -> None:
    """Raise NotConstant for an argument of a constant parameter that is not known at compile time."""
    if takes_constant(p.annotation) and not is_static(x):
        raise NotConstant(loc, what=f"argument '{p.name}' of {name}")
