"""Syntactic analysis of the bindings and reads of a function's names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
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
        self.tree = tree
        for statement in tree.body:
            self._visit(statement)
        self.locals |= {
            name for name, target, rebinds in targets(tree.body) if rebinds or isinstance(target, ast.Name)
        }

    @cached_property
    def liveness(self) -> Liveness:
        """The liveness of names after each statement, computed on demand: few functions need it."""
        return Liveness(self.tree.body)

    @cached_property
    def binding(self) -> list[tuple[ast.stmt, list[ast.Call | ast.NamedExpr]]]:
        """The statements, without statements of nested functions, whose expressions contain calls or `:=`, each with
        these nodes."""
        bindings = (
            (statement, [*_calls_and_named_exprs(statement)]) for statement in _statements(self.tree.body)
        )
        return [(statement, nodes) for statement, nodes in bindings if nodes]

    def _visit(self, statement: ast.stmt) -> None:
        pending: list[tuple[ast.AST, bool]] = [(statement, False)]
        while pending:
            node, in_loop = pending.pop()
            if isinstance(node, _NESTED):
                self.read_by_nested |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
                continue
            if isinstance(node, (ast.For, ast.While)) and not in_loop:
                self.loops.append((start_of(node), end_of(node)))
                in_loop = True
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.reads.setdefault(node.id, []).append(start_of(node))
            if isinstance(node, ast.NamedExpr):
                self.locals.add(node.target.id)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.reads.setdefault(node.target.id, []).append(start_of(node))
            pending += [(child, in_loop) for child in children(node)]

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
    for node in _walk(statements):
        for name in getattr(node, CHANGED, ()):
            yield name, node, True
        for name in getattr(node, UPDATED, ()):
            yield name, node, False
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _targets(target)
        elif isinstance(node, (ast.AnnAssign, ast.For)):
            yield from _targets(node.target)
        elif isinstance(node, ast.AugAssign):
            yield from _changed_names(node.target)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node, True
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from _targets(node.optional_vars)


def _walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements and all nodes below them, except nodes below expressions, which hold no statements."""
    yield from _below(nodes, (*_NESTED, ast.expr))


def _below(nodes: Iterable[ast.AST], closed: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """The nodes and all nodes below them, in source order; nodes below one of a `closed` kind are skipped."""
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, closed):
            pending += children(node)[::-1]


def _statements(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, without statements of nested functions."""
    for statement in block:
        yield statement
        if not isinstance(statement, ast.FunctionDef):
            for field in ("body", "orelse"):
                yield from _statements(getattr(statement, field, ()))


def _calls_and_named_exprs(statement: ast.stmt) -> Iterator[ast.Call | ast.NamedExpr]:
    """The calls and the `:=` in a statement, without nested statements."""
    pending = children(statement)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Call, ast.NamedExpr)):
            yield node
        if not isinstance(node, (ast.stmt, ast.Lambda)):
            pending += children(node)


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
