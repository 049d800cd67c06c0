"""Compile-time properties of values in expressions that Python evaluates: `tg.static(len(v) + 1)`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection
from types import CodeType

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
        self.node = replacement.visit(copy.deepcopy(node)) if values else node
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


class _Parts(ast.NodeTransformer):
    """Replaces `len(x)` and `x.shape` of values by names."""

    def __init__(self, values: Collection[str]) -> None:
        self.values = values
        self.parts: dict[str, ast.expr] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]) if self._is_value(of):
                return self._name_of_part(node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_part = node.attr in PARTS and self._is_value(node.value)
        return self._name_of_part(node) if is_part else self.generic_visit(node)

    def _is_value(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.values

    def _name_of_part(self, node: ast.expr) -> ast.Name:
        name = f"_part{len(self.parts)}"
        self.parts[name] = node
        return ast.copy_location(ast.Name(name, ast.Load()), node)
