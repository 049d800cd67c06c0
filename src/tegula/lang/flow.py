"""Syntactic analysis of the bindings and reads of a function's names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from tegula.dataclass import dataclass, field
from tegula.lang.liveness import Liveness
from tegula.lang.nodes import children, walk

Position = tuple[int, int]
CHANGED = "bound_by_expressions"
"""The attribute of a statement with the names of the variables that expressions in it bind (`lang/in_out.py`)."""
UPDATED = "updated_by_calls"
"""The attribute of a statement with the names of the variables whose elements functions that are called in it may
assign."""
CHANGED_QUERY = "%changed query"
"""The beginning of the name of a query that the body of a loop over its results changes; the next iteration reads the
query."""
_NESTED = (ast.FunctionDef, ast.Lambda, ast.AsyncFunctionDef, ast.ClassDef)


def start_of(node: ast.AST) -> Position:
    """The line and column where a node begins."""
    return (node.lineno, node.col_offset)  # type: ignore[attr-defined]


def end_of(node: ast.AST) -> Position:
    """The line and column where a node ends."""
    return (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


class Flow:
    """Reads and bindings of one function. Conservative: a name counts as live wherever a read might still follow."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.reads: dict[str, list[Position]] = {}
        self.read_by_nested: set[str] = set()
        self.loops: list[tuple[Position, Position]] = []
        self.locals: set[str] = {
            a.arg for a in [*tree.args.args, *tree.args.kwonlyargs, *tree.args.posonlyargs]
        }
        self.binding: list[tuple[ast.stmt, list[ast.Call | ast.NamedExpr]]] = []
        """The statements, without statements of nested functions, whose expressions contain calls or `:=`, each with
        these nodes."""
        self.tree = tree
        for statement in tree.body:
            self._visit(statement, in_loop=False)

    @cached_property
    def liveness(self) -> Liveness:
        """The liveness of names after each statement, computed on demand: few functions need it."""
        return Liveness(self.tree.body)

    def _visit(self, statement: ast.stmt, in_loop: bool) -> None:
        """Record what a statement and the statements in it read and bind."""
        for name, target, rebinds in _own_targets(statement):
            if rebinds or isinstance(target, ast.Name):
                self.locals.add(name)
        if isinstance(statement, _NESTED):
            self._read_by_nested(statement)
            return
        if isinstance(statement, (ast.For, ast.While)) and not in_loop:
            self.loops.append((start_of(statement), end_of(statement)))
            in_loop = True
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            self._read(statement.target)
        inner: list[ast.stmt] = []
        binding: list[ast.Call | ast.NamedExpr] = []
        pending = children(statement)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self._read(node)
            elif isinstance(node, ast.stmt):
                inner.append(node)
            elif isinstance(node, ast.Lambda):
                self._read_by_nested(node)
            else:
                if isinstance(node, (ast.Call, ast.NamedExpr)):
                    binding.append(node)
                if isinstance(node, ast.NamedExpr):
                    self.locals.add(node.target.id)
                pending += children(node)
        if binding:
            self.binding.append((statement, binding))
        for nested in reversed(inner):
            self._visit(nested, in_loop)

    def _read(self, name: ast.Name) -> None:
        self.reads.setdefault(name.id, []).append(start_of(name))

    def _read_by_nested(self, function: ast.AST) -> None:
        self.read_by_nested |= {n.id for n in walk(function) if isinstance(n, ast.Name)}

    def live_after(self, name: str, node: ast.AST) -> bool:
        """Whether the value that a name has after a statement may be read later."""
        if name in self.read_by_nested or name.startswith(CHANGED_QUERY):
            return True
        if node in self.liveness.after:
            return name in self.liveness.after[node]
        reads = self.reads.get(name)
        if not reads:
            return False
        start, end = start_of(node), end_of(node)
        if any(at >= end for at in reads):
            return True
        enclosing = [loop for loop in self.loops if loop[0] <= start and end <= loop[1] and loop[0] != start]
        return any(low <= at <= high for low, high in enclosing for at in reads)


@dataclass(slots=True)
class Bindings:
    """Names that statements bind, in order: `rebound` to a new object, or `updated` in place or by component."""

    rebound: set[str] = field(default_factory=set)
    updated: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)

    def add(self, name: str, rebinds: bool) -> None:
        """Record a name that is rebound or, if not `rebinds`, changed in place."""
        (self.rebound if rebinds else self.updated).add(name)
        if name not in self.order:
            self.order.append(name)


def bindings(statements: Iterable[ast.stmt]) -> Bindings:
    """The names that the statements bind, nested blocks included, nested functions excluded."""
    out = Bindings()
    for name, _, rebinds in targets(statements):
        out.add(name, rebinds)
    return out


Target = tuple[str, ast.AST, bool]
"""A name that is assigned to, the node of the assignment's target, and whether the name is rebound."""


def targets(statements: Iterable[ast.stmt]) -> Iterator[Target]:
    """The targets of the assignments in the statements, nested blocks included, nested functions excluded."""
    for statement in statements:
        yield from _own_targets(statement)
        if not isinstance(statement, _NESTED):
            yield from targets(_inner(statement))


def _own_targets(statement: ast.stmt) -> Iterator[Target]:
    """The targets of a statement without the statements in it."""
    for name in getattr(statement, CHANGED, ()):
        yield name, statement, True
    for name in getattr(statement, UPDATED, ()):
        yield name, statement, False
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _targets(target)
    elif isinstance(statement, (ast.AnnAssign, ast.For)):
        yield from _targets(statement.target)
    elif isinstance(statement, ast.AugAssign):
        yield from _changed_names(statement.target)
    elif isinstance(statement, ast.FunctionDef):
        yield statement.name, statement, True
    elif isinstance(statement, ast.With):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from _targets(item.optional_vars)


def _inner(statement: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly in a statement, its handlers and cases."""
    for block in ("body", "orelse", "finalbody"):
        yield from getattr(statement, block, ())
    for parts in ("handlers", "cases"):
        for part in getattr(statement, parts, ()):
            yield from _inner(part)


def _targets(target: ast.expr) -> Iterator[Target]:
    if isinstance(target, ast.Name):
        yield target.id, target, True
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _targets(part)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value)
    else:
        yield from _changed_names(target)


def _changed_names(target: ast.expr) -> Iterator[Target]:
    base = _base(target)
    if base is not None:
        yield base, target, False


def _base(target: ast.expr) -> str | None:
    """The name whose value an element or component assignment changes."""
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None
