"""Variables that expressions bind: arguments that a function changes for its caller, `state: tg.InOut[tg.uint32]` and
arrays of one thread, and the targets of `:=`.

A call rebinds the variable that is passed to the final value of the parameter, like an assignment. Loops and branches
need the names that a statement binds, so that such calls are found before a function is traced. An argument that is not
a variable is unchanged. A loop whose condition binds a variable is rewritten to test the condition at the start of the
body, where names can be bound."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tegula import errors as E
from tegula.lang.definition import FuncDef, PublicFunction
from tegula.lang.flow import CHANGED, UPDATED, Flow, bindings
from tegula.lang.overloads import Parameter, bind_arguments
from tegula.lang.state import Frame

if TYPE_CHECKING:
    from tegula.lang.calls import Calls

Lookup = Callable[[str], Any]


Updates = dict[FuncDef, frozenset[str]]
"""The parameters of functions whose elements they may assign."""


def annotate_updates(flow: Flow, lookup: Lookup, library: Mapping[str, FuncDef], updates: Updates) -> None:
    """Give each statement of a function the names of the variables that expressions in it bind, and of those whose
    elements the functions that it calls may assign."""
    for statement, nodes in flow.binding:
        bound: list[str] = []
        updated: list[str] = []
        for node in nodes:
            if isinstance(node, ast.NamedExpr):
                bound.append(node.target.id)
                continue
            callee = _callee(node.func, flow, lookup, library)
            if callee is not None:
                bound += _variables(callee, node)
                for overload in callee.definitions:
                    updated_parameters(overload, library, updates)
                updated += _updated_variables(callee, node, updates)
        for attribute, names in ((CHANGED, bound), (UPDATED, updated)):
            modified = tuple(name for name in dict.fromkeys(names) if name in flow.locals)
            if modified or hasattr(statement, attribute):
                setattr(statement, attribute, modified)


def updated_parameters(f: FuncDef, library: Mapping[str, FuncDef], updates: Updates) -> frozenset[str]:
    """The parameters of a function whose elements its statements, or functions that it calls, may assign. The sets of
    all reachable functions are computed as a fixpoint, not by recursion, because calls may be nested more deeply than
    Python's stack."""
    if f.definition.library:
        return frozenset()
    calls_of, pending = dict[FuncDef, list[tuple[FuncDef, ast.Call]]](), [f]
    while pending:
        g = pending.pop()
        if g in updates:
            continue
        body = g.definition.source.tree.body
        updates[g] = frozenset(bindings(body).updated & {p.name for p in g.definition.parameters})
        calls_of[g] = [*_calls(g, library)]
        pending += [overload for callee, _ in calls_of[g] for overload in callee.definitions]
    changed = bool(calls_of)
    while changed:
        changed = False
        for g, calls in reversed(calls_of.items()):
            names = {name for callee, call in calls for name in _updated_variables(callee, call, updates)}
            names &= {p.name for p in g.definition.parameters}
            if not names <= updates[g]:
                updates[g] |= names
                changed = True
    return updates[f]


def _calls(f: FuncDef, library: Mapping[str, FuncDef]) -> Iterator[tuple[FuncDef, ast.Call]]:
    """The calls in a function of functions outside of the library."""
    d = f.definition
    for _, nodes in d.flow.binding:
        for node in nodes:
            callee = _callee(node.func, d.flow, d.lookup, library) if isinstance(node, ast.Call) else None
            if callee is not None and isinstance(node, ast.Call) and not callee.definition.library:
                yield callee, node


def _updated_variables(f: FuncDef, call: ast.Call, updates: Updates) -> Iterator[str]:
    """The variables that a call passes for parameters whose elements the function may assign."""
    for overload in f.definitions:
        names = updates.get(overload)
        if names:
            yield from (x.id for x in arguments(f, call, lambda p, names=names: p.name in names).values())


def _callee(node: ast.expr, flow: Flow, lookup: Lookup, library: Mapping[str, FuncDef]) -> FuncDef | None:
    """The function to which an expression evaluates in the scope of the traced function."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in flow.locals:
        return None
    try:
        callee = lookup(node.id)
    except KeyError:
        return None
    for name in reversed(path):
        in_language = isinstance(callee, ModuleType) and callee.__name__ == "tegula"
        callee = library.get(name) if in_language else getattr(callee, name, None)
    if isinstance(callee, PublicFunction):
        callee = library.get(callee.name)
    return callee if type(callee) is FuncDef else None


def _variables(f: FuncDef, call: ast.Call) -> list[str]:
    """The variables that a call of a function changes."""
    return [x.id for x in arguments(f, call, lambda p: p.changed).values()]


def arguments(f: FuncDef, call: ast.Call, accepts: Callable[[Parameter], bool]) -> dict[str, ast.Name]:
    """The variables that a call passes for the selected parameters of the overloads of a function, by parameter."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        return {}
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    updated: dict[str, ast.Name] = {}
    for overload in f.definitions:
        parameters = overload.definition.parameters
        try:
            arguments = bind_arguments(f.name, parameters, call.args, named)
        except TypeError:
            continue
        pairs = zip(parameters, arguments, strict=True)
        updated |= {p.name: x for p, x in pairs if accepts(p) and isinstance(x, ast.Name)}
    return updated


def move_test_into_body(node: ast.While) -> ast.While:
    """A loop whose condition changes variables, with the condition moved into the body, which then binds the
    variables."""
    changed = (*getattr(node, CHANGED, ()), *getattr(node, UPDATED, ()))
    if not changed:
        return node
    exit_loop = ast.copy_location(ast.Break(), node.test)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    first = ast.copy_location(ast.If(negated, [exit_loop], []), node.test)
    setattr(first, CHANGED, changed)
    true = ast.copy_location(ast.Constant(True), node.test)
    return ast.copy_location(ast.While(true, [first, *node.body], []), node)


def bind_updated_variables(
    tracer: Calls, f: FuncDef, final_values: Mapping[str, Any], call: ast.Call
) -> None:
    """Bind the variables that a call passes to the final values of the function's parameters. `final_values`: these
    values, by
    parameter."""
    frame = tracer.frame
    for parameter, variable in arguments(f, call, lambda p: p.name in final_values).items():
        name = variable.id
        if name not in frame.names and (frame.outer is None or name not in frame.outer.names):
            continue  # a constant
        if name not in frame.names:
            message = f"{f.name} changes '{name}', a variable of the enclosing function"
            help = "pass the value as an argument, and return the new value"
        elif frame.conditional_context:
            message = f"{f.name} changes '{name}' in {frame.conditional_context}, which may not be evaluated"
            help = "call the function in a separate statement"
        else:
            tracer.bind(name, final_values[parameter])
            continue
        raise E.UnsupportedPython(tracer.location(call), what=message, help=help)


@contextmanager
def reject_updates(frame: Frame, context: str) -> Iterator[None]:
    """Reject calls that change variables inside a `with` block of this method: the enclosing expression may skip their
    evaluation."""
    before, frame.conditional_context = frame.conditional_context, context
    try:
        yield
    finally:
        frame.conditional_context = before
