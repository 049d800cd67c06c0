"""Loops over the results of a query, rewritten as `while` loops that advance the query to its next result or range of
results."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tegula.lang.flow import CHANGED


def while_next(names: Sequence[str], node: ast.For, in_ranges: bool, tested: bool) -> ast.While:
    """The loop `for target in query: body` as a `while` loop. `names`: the names of the function that finds the next
    result, or of the functions that find the next range and a result in the range; then the names of `range`, of the
    query and of two numbers. `tested`: whether negative results of the range are left out."""
    *functions, counting, query, item, result = names
    arguments = [_read(query)] if in_ranges else [_read(query), _read(item)]
    exit_at_end = ast.If(
        ast.UnaryOp(ast.Not(), ast.Call(_read(functions[0]), [*arguments], [])), [ast.Break()], []
    )
    setattr(exit_at_end, CHANGED, tuple(x.id for x in arguments))
    body: list[ast.stmt]
    if in_ranges:
        limits: list[ast.expr] = [ast.Attribute(_read(query), field, ast.Load()) for field in ("item", "end")]
        result_call = ast.Call(_read(functions[1]), [_read(query), _read(item)], [])
        range_call = ast.Call(_read(counting), limits, [])
        statements: list[ast.stmt]
        if tested:
            assignment = ast.Assign([node.target], _read(result))
            is_result = ast.Compare(_read(result), [ast.GtE()], [ast.Constant(0)])
            test = ast.If(is_result, [assignment, *node.body], [])
            first = ast.Assign([ast.Name(result, ast.Store())], result_call)
            setattr(first, CHANGED, (query,))
            statements = [first, test]
        else:
            assignment = ast.Assign([node.target], result_call)
            statements = [assignment, *node.body]
        body = [ast.For(ast.Name(item, ast.Store()), range_call, statements, [])]
        new: list[ast.stmt] = [exit_at_end, assignment, *body]
    else:
        assignment = ast.Assign([node.target], _read(item))
        body = [assignment, *node.body]
        new = [exit_at_end, assignment]
    loop = ast.While(ast.Constant(True), [exit_at_end, *body], [])
    for part in (*new, loop):
        _set_locations(part, node.iter, {*node.body})
    return ast.copy_location(loop, node)


def leaves_loop(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop has a `break` of that loop."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        inner = isinstance(statement, ast.For | ast.While | ast.FunctionDef)
        if not inner and any(leaves_loop(getattr(statement, field, ())) for field in ("body", "orelse")):
            return True
    return False


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _set_locations(node: ast.AST, location: ast.expr, kept_statements: set[ast.stmt]) -> None:
    """Give a new node and its nested nodes the location of another node. Statements of `kept_statements` keep their own
    locations."""
    if node in kept_statements:
        return
    if not hasattr(node, "lineno"):
        ast.copy_location(node, location)
    for child in ast.iter_child_nodes(node):
        _set_locations(child, location, kept_statements)
