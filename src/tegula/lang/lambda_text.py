"""The source expression of a lambda, from its file, the Python prompt, or the text of `python -c`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

from tegula.lang.function_source import code_key, text_of
from tegula.lang.prompt_text import PROMPTS, history, lines_of

MAX_LINES = 40
"""The maximum number of lines of a statement at the prompt."""


def expression_of(func: FunctionType) -> ast.expr | None:
    """The expression that a lambda returns; None if its text is not available.

    The text of a file is searched by the positions in the code object. A candidate from other text must compile to the
    same code."""
    code = func.__code__
    text = text_of(func)
    if text is not None:
        function = _in_file("".join(text.lines), code)
        return None if function is None else function.body
    for candidate in _candidate_texts(code):
        for node in _lambdas(candidate):
            if node.lineno == code.co_firstlineno and _has_same_code(node, code):
                return node.body
    return None


def _in_file(text: str, code: CodeType) -> ast.Lambda | None:
    """The lambda in the text of a file at the source positions of code."""
    nodes = [n for n in _lambdas(text) if _parameters(n) == code.co_varnames[: code.co_argcount]]
    lambdas = [n for n in nodes if _is_at(n, code)]
    # A conditional expression, and in Python 3.12 a constant, has no position.
    lambdas = lambdas or [n for n in nodes if n.lineno == code.co_firstlineno and _has_same_code(n, code)]
    return lambdas[0] if lambdas else None


def _candidate_texts(code: CodeType) -> Iterator[str]:
    """The candidate texts for code without a file, the latest first."""
    if code.co_filename == "<string>" and "-c" in sys.orig_argv[:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]
    if code.co_filename not in PROMPTS:
        return
    lines = history()
    shortest = max(lines_of(code))
    for first in reversed(range(len(lines))):
        for count in range(shortest, min(shortest + MAX_LINES, len(lines) - first + 1)):
            text = "\n".join(lines[first : first + count]) + "\n"
            if _is_complete(text):
                yield text
                break


def _is_complete(text: str) -> bool:
    """Whether a text consists of complete statements."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _lambdas(text: str) -> Sequence[ast.Lambda]:
    try:
        return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    except (SyntaxError, ValueError):
        return []


def _is_at(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the source positions of code are the position of a lambda's expression."""
    body = node.body
    return (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in set(code.co_positions())


def _has_same_code(node: ast.Lambda, code: CodeType) -> bool:
    """Whether a lambda is compiled to code that has the same meaning, with variables of the same names around it."""
    inner: ast.expr = node
    for names in (code.co_freevars,) if code.co_freevars else ():
        enclosing = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
        inner = ast.fix_missing_locations(ast.copy_location(ast.Lambda(enclosing, node), node))
    compiled = compile(ast.Expression(inner), code.co_filename, "eval", dont_inherit=True)
    for _ in range(2 if code.co_freevars else 1):
        compiled = next(c for c in compiled.co_consts if isinstance(c, CodeType))
    return code_key(compiled) == code_key(code)


def _parameters(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args))
