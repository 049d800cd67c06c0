"""Compile-time properties of values in expressions that Python evaluates: `tg.static(len(v) + 1)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from operator import is_
from types import CodeType
from typing import Any

from tegula.lang.nodes import walk

PARTS = ("shape", "dtype", "ndim", "size")
"""The attributes of values that may be compile-time constants."""


class StaticExpression:
    """An expression with lengths, shapes and dtypes of values replaced by names. `parts`: the expressions that the
    names replace; `names`: a node of each other name that the expression reads."""

    __slots__ = ("_code", "names", "node", "parts")

    def __init__(self, node: ast.expr, values: Collection[str]) -> None:
        """`values`: the names in the expression `node`, which is not changed, that are bound to values."""
        replacement = _Parts(values)
        self.node: ast.expr = replacement.replaced(node) if values else node
        self.parts = replacement.parts
        nodes = [n for n in ast.walk(self.node) if isinstance(n, ast.Name) and n.id not in self.parts]
        self.names = list({n.id: n for n in reversed(nodes)}.values())[::-1]
        self._code: CodeType | None = None

    def code(self, file: str) -> CodeType:
        """The expression compiled by Python. ValueError or SyntaxError if Python does not compile it."""
        if self._code is None:
            self._code = compile(ast.Expression(self.node), file, "eval")
        return self._code


def static_expression(node: ast.expr, is_value: Callable[[str], bool]) -> StaticExpression:
    """The expression that Python evaluates for a node, which is made once for the names that are bound to values.

    Parameters:
        node: the expression.
        is_value: whether a name is bound to a value of the kernel.
    """
    known: dict[Collection[str], StaticExpression] = node.__dict__.setdefault(EXPRESSIONS, {})
    values = frozenset(n.id for n in walk(node) if isinstance(n, ast.Name) and is_value(n.id))
    if values not in known:
        known[values] = StaticExpression(node, values)
    return known[values]


EXPRESSIONS = "static_expressions"
"""The attribute of a node with its expressions for Python, by the names that are bound to values."""


class _Parts:
    """Replaces `len(x)` and `x.shape` of values by names."""

    def __init__(self, values: Collection[str]) -> None:
        self.values = values
        self.parts: dict[str, ast.expr] = {}

    def replaced(self, node: Any) -> Any:
        """The node with names instead of parts: a copy of the nodes around the names."""
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]) if self._is_value(of):
                return self._name_of_part(node)
            case ast.Attribute(value=of, attr=name) if name in PARTS and self._is_value(of):
                return self._name_of_part(node)
            case ast.AST():
                fields = dict(ast.iter_fields(node))
                replaced = {name: self.replaced(x) for name, x in fields.items()}
                is_same = all(map(is_, fields.values(), replaced.values()))
                return node if is_same else ast.copy_location(type(node)(**replaced), node)
            case list():
                items = [self.replaced(x) for x in node]
                return node if all(map(is_, node, items)) else items
            case _:
                return node

    def _is_value(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.values

    def _name_of_part(self, node: ast.expr) -> ast.Name:
        name = f"_part{len(self.parts)}"
        self.parts[name] = node
        return ast.copy_location(ast.Name(name, ast.Load()), node)
