"""Compile-time properties of values in expressions that Python evaluates: `tg.static(len(v) + 1)`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from tegula.ir import Value

PARTS = ("shape", "dtype", "ndim", "size")
"""The attributes of values that may be compile-time constants."""


def with_known_parts(
    node: ast.expr, binding: Callable[[str], Any], known: Callable[[ast.expr], Any]
) -> tuple[ast.expr, dict[str, Any]]:
    """The expression with lengths, shapes and dtypes of values replaced by names, and the objects of the names.

    Parameters:
        node: the expression, which is not changed.
        binding: gives the binding of a local name, None if there is none.
        known: gives the Python object of an expression that is known at compile time; CompileError for others.
    Returns:
        the expression and a dictionary; the expression itself if nothing is replaced.
    Raises:
        CompileError: from `known`.
    """
    if not any(isinstance(n, ast.Name) and isinstance(binding(n.id), Value) for n in ast.walk(node)):
        return node, {}
    parts = _Parts(binding, known)
    return parts.visit(copy.deepcopy(node)), parts.parts


class _Parts(ast.NodeTransformer):
    """Replaces `len(x)` and `x.shape` of values by names."""

    def __init__(self, binding: Callable[[str], Any], known: Callable[[ast.expr], Any]) -> None:
        self.binding, self.known = binding, known
        self.parts: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]) if self._is_value(of):
                return self._name_of_part(node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_part = node.attr in PARTS and self._is_value(node.value)
        return self._name_of_part(node) if is_part else self.generic_visit(node)

    def _is_value(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and isinstance(self.binding(node.id), Value)

    def _name_of_part(self, node: ast.expr) -> ast.Name:
        name = f"_part{len(self.parts)}"
        self.parts[name] = self.known(node)
        return ast.copy_location(ast.Name(name, ast.Load()), node)
