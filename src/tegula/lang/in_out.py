"""Variables that expressions bind: arguments that a function changes for its caller, `state: tg.InOut[tg.uint32]`,
and the targets of `:=`.

A call rebinds the variable that is passed, as an assignment does: to the final value of the parameter. Loops and
branches need the names that a statement binds, so such calls are found before a function is traced. An argument that is
no variable stays unchanged. A loop whose condition binds a variable is rewritten to test the condition at the start of
the body, where names can be bound."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tegula import errors as E
from tegula.lang.definition import FuncDef, PublicFunction
from tegula.lang.flow import CHANGED, Flow
from tegula.lang.overloads import ordered
from tegula.lang.state import Frame

if TYPE_CHECKING:
    from tegula.lang.calls import Calls

Lookup = Callable[[str], Any]


def announce(flow: Flow, lookup: Lookup, library: Mapping[str, FuncDef]) -> None:
    """Give each statement of a function the names of the variables that expressions in it bind."""
    for statement in _statements(flow.tree.body):
        names: list[str] = []
        for node in _binding(statement):
            if isinstance(node, ast.NamedExpr):
                names.append(node.target.id)
                continue
            callee = _callee(node.func, flow, lookup, library)
            names += _variables(callee, node) if callee is not None else []
        here = tuple(name for name in dict.fromkeys(names) if name in flow.locals)
        if here or hasattr(statement, CHANGED):
            setattr(statement, CHANGED, here)


def _statements(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, without those of functions inside it."""
    for statement in block:
        yield statement
        if not isinstance(statement, ast.FunctionDef):
            for field in ("body", "orelse"):
                yield from _statements(getattr(statement, field, ()))


def _binding(statement: ast.stmt) -> Iterator[ast.Call | ast.NamedExpr]:
    """The calls and the `:=` in a statement, but for those in statements inside it."""
    pending: list[ast.AST] = [*ast.iter_child_nodes(statement)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call | ast.NamedExpr):
            yield node
        if not isinstance(node, ast.stmt | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _callee(node: ast.expr, flow: Flow, lookup: Lookup, library: Mapping[str, FuncDef]) -> FuncDef | None:
    """The function that an expression names in the scope around the function that is traced."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in flow.locals:
        return None
    try:
        found = lookup(node.id)
    except KeyError:
        return None
    for name in reversed(path):
        in_language = isinstance(found, ModuleType) and found.__name__ == "tegula"
        found = library.get(name) if in_language else getattr(found, name, None)
    if isinstance(found, PublicFunction):
        found = library.get(found.name)
    return found if type(found) is FuncDef else None


def _variables(f: FuncDef, call: ast.Call) -> list[str]:
    """The variables that a call of a function changes."""
    return [x.id for x in arguments(f, call).values()]


def arguments(f: FuncDef, call: ast.Call) -> dict[str, ast.Name]:
    """The variables that a call passes for parameters which some overload of a function changes, by parameter."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        return {}
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    found: dict[str, ast.Name] = {}
    for each in f.definitions:
        parameters = each.definition.parameters
        try:
            given = ordered(f.name, parameters, call.args, named)
        except TypeError:
            continue
        pairs = zip(parameters, given, strict=True)
        found |= {p.name: x for p, x in pairs if p.changed and isinstance(x, ast.Name)}
    return found


def test_in_body(node: ast.While) -> ast.While:
    """The loop with a condition that changes variables moved into its body: the variables are the body's."""
    changed = getattr(node, CHANGED, ())
    if not changed:
        return node
    leave = ast.copy_location(ast.Break(), node.test)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    first = ast.copy_location(ast.If(negated, [leave], []), node.test)
    setattr(first, CHANGED, changed)
    always = ast.copy_location(ast.Constant(True), node.test)
    return ast.copy_location(ast.While(always, [first, *node.body], []), node)


def hand_back(tracer: Calls, f: FuncDef, ends: Mapping[str, Any], call: ast.Call) -> None:
    """Bind the variables that a call passes to the final values of the function's parameters. `ends`: these values, by
    parameter."""
    frame = tracer.frame
    for parameter, variable in arguments(f, call).items():
        name = variable.id
        if parameter not in ends:
            continue
        if name not in frame.names and (frame.outer is None or name not in frame.outer.names):
            continue  # a constant
        if name not in frame.names:
            what = f"{f.name} changes '{name}', a variable of the enclosing function"
            help = "pass it as an argument, and return it"
        elif frame.unsure:
            what = f"{f.name} changes '{name}' in {frame.unsure}, which may not be evaluated"
            help = "call it in a statement of its own"
        else:
            tracer.bind(name, ends[parameter])
            continue
        raise E.UnsupportedPython(tracer.location(call), what=what, help=help)


@contextmanager
def unsure(frame: Frame, where: str) -> Iterator[None]:
    """Reject calls that change variables inside a `with` block of this method: the enclosing expression may skip their
    evaluation."""
    before, frame.unsure = frame.unsure, where
    try:
        yield
    finally:
        frame.unsure = before
