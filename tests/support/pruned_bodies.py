"""Functions reduced to the statements that a test needs: tracing the other statements takes time."""

from __future__ import annotations

import ast


def needed_statements(text: str) -> str:
    """The text of a function with only its last statement and the statements that define names which the remaining
    statements use."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    needed: list[ast.stmt] = []
    used_names: set[str] = set()
    for statement in reversed(function.body):
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if not needed or used_names & {*_defined(statement)}:
            needed.append(statement)
            used_names |= names
    head = text.strip().split("\n", 1)[0]
    lines = text.split("\n")
    parts = ("\n".join(lines[candidate.lineno - 1 : candidate.end_lineno]) for candidate in reversed(needed))
    return "\n".join(("", head, *parts, ""))


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement assigns or defines."""
    stored = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [*stored, *([statement.name] if isinstance(statement, ast.FunctionDef) else [])]
