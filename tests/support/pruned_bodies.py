"""Functions reduced to the statements that a test needs: tracing the other statements takes time."""

from __future__ import annotations

import ast


def needed_statements(text: str) -> str:
    """The text of a function with only its last statement and the statements that define names which the remaining
    statements use."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    kept_statements: list[ast.stmt] = []
    used_names: set[str] = set()
    for statement in reversed(function.body):
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if not kept_statements or used_names & {*_defined(statement)}:
            kept_statements.append(statement)
            used_names |= names
    head = text.strip().split("\n", 1)[0]
    lines = text.split("\n")
    statements = (
        "\n".join(lines[candidate.lineno - 1 : candidate.end_lineno])
        for candidate in reversed(kept_statements)
    )
    return "\n".join(("", head, *statements, ""))


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement assigns or defines."""
    stored = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [*stored, *([statement.name] if isinstance(statement, ast.FunctionDef) else [])]
