"""Compares the Gradient sections of docstrings with the declarations of ops; used by tools/docstrings.py.

The ops that a kernel function builds are read from its code: the classes and names of ops in it, in the functions that
it calls and in its closure. An op has a rule, its `adjoint`; or a reason why it has none, its `NONDIFFERENTIABLE`; or
neither, if no gradient flows through it, as for ops on integers and barriers."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tegula.ir import REGISTRY, Op
from tegula.ops.indexing import KernelBuilder

REFUSED = "refused (no-gradient)"
WITHOUT_ROLES = "of the kernel without roles"
UNTYPED = re.compile(r"\(?(an int\b|an int32|a uint32|a bool|value, slot)")
"""The beginnings of the section Returns for results without a gradient."""
CONVERTING_METHODS = {"tile", "buffer", "value", "elementwise", "unified", "binary", "unary", "map", "stored"}
"""Methods of the builder that convert an operand to a value."""


def gradient_faults(build: Callable[..., Any], stated: str, returned: str) -> list[str]:
    """The contradictions between a Gradient section and the ops that the function builds. `returned`: the text of the
    section Returns."""
    result = ops_of(build)
    differentiable = [op for op in result if op.adjoint is not Op.adjoint]
    refusing = [op for op in result if op.NONDIFFERENTIABLE]
    partly_refusing = [op for op in differentiable if "refuse" in _names(op.adjoint.__code__).attributes]
    if stated.startswith(WITHOUT_ROLES):
        in_roles = any(op.__module__ == "tegula.ops.roles" for op in result)
        return [] if in_roles else ["gradient: the function builds no op of roles"]
    if stated.startswith(REFUSED):
        return [] if refusing or partly_refusing else [f"gradient: no op refuses one, of {_listed(result)}"]
    if refusing and REFUSED not in stated and not stated.startswith("none"):
        return [f"gradient: {_listed(refusing)} refuses one"]
    if stated.startswith("none"):
        contradicts = (
            differentiable
            and not UNTYPED.match(returned)
            and "integers" not in stated
            and _takes_operands(build)
        )
        return [f"gradient: {_listed(differentiable)} has one"] if contradicts else []
    if UNTYPED.match(returned):
        return ["gradient: integers and bools have none"]
    return [] if differentiable else [f"gradient: none of {_listed(result)} has one"]


class Names(NamedTuple):
    """The names that code refers to, including nested functions: globals and attributes."""

    globals: frozenset[str]
    attributes: frozenset[str]


def ops_of(build: Callable[..., Any]) -> set[type[Op]]:
    """The op classes that a build function uses, directly or through methods of the builder."""
    assert isinstance(build, FunctionType)
    return _ops(build, set())


def _ops(function: FunctionType, visited: set[FunctionType]) -> set[type[Op]]:
    if function in visited:
        return set()
    visited.add(function)
    names = _names(function.__code__)
    op_classes: set[type[Op]] = set()
    for x in _referenced_objects(function, names):
        if isinstance(x, type) and issubclass(x, Op):
            op_classes.add(x)
        elif isinstance(x, FunctionType) and _builds(x):
            op_classes |= _ops(x, visited)
    by_name = {"binary", "unary", "inplace"} & names.attributes or "REGISTRY" in names.globals
    op_classes |= {REGISTRY[x] for x in _texts(function.__code__) if by_name and x in REGISTRY}
    op_classes |= {REGISTRY["cast"]} if "cast" in names.attributes else set()
    for name in names.attributes if not op_classes and _builds(function) else ():
        method = getattr(KernelBuilder, name, None)
        op_classes |= _ops(method, visited) if isinstance(method, FunctionType) else set()
    return op_classes


def _referenced_objects(function: FunctionType, names: Names) -> Iterator[object]:
    """The objects that a function refers to: globals, attributes of imported modules, and its closure."""
    for name in names.globals:
        x = function.__globals__.get(name)
        if isinstance(x, ModuleType):
            yield from (vars(x)[n] for n in names.attributes if n in vars(x))
        else:
            yield x
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def _builds(function: FunctionType) -> bool:
    """Whether a function has a builder, or is a method of one."""
    return function.__code__.co_varnames[:1] in (("b",), ("build",), ("self",))


def _takes_operands(build: Callable[..., Any]) -> bool:
    """Whether a function converts a parameter to a value, so that not all parameters are constants."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(build)))
    parameters = {*inspect.signature(build).parameters} - {*build.__code__.co_varnames[:1]}
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in CONVERTING_METHODS
        and any(isinstance(n, ast.Name) and n.id in parameters for arg in call.args for n in ast.walk(arg))
        for call in ast.walk(tree)
    )


@cache
def _names(code: CodeType) -> Names:
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    loads = [(i.opname == "LOAD_GLOBAL", i.argval) for i in dis.get_instructions(code) if i.arg is not None]
    globals = {name for is_global, name in loads if is_global}
    attributes = {name for is_global, name in loads if not is_global and name in code.co_names}
    return Names(
        frozenset(globals.union(*(n.globals for n in inner))),
        frozenset(attributes.union(*(n.attributes for n in inner))),
    )


def _texts(code: CodeType) -> Iterator[str]:
    for x in code.co_consts:
        if isinstance(x, str):
            yield x
        elif isinstance(x, CodeType):
            yield from _texts(x)


def _listed(ops: object) -> str:
    assert isinstance(ops, (set, list))
    return ", ".join(sorted(op.NAME for op in ops)) or "nothing"
