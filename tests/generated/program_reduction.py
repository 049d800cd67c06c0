"""Reduces a failing program: removes statements and parts of expressions as long as the program fails in the same
way."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from programs import Program
from run_program import compare

Undo = Callable[[], None]
FRAME = re.compile(r"    (i, j|r, q|g|i|j) = ")
"""The lines that compute the block and lane indices; a program without these lines could race."""
OUTPUT = re.compile(r"(?<!\w)o_\w+(\[|, )")


def failure(program: Program) -> str:
    """The failure of a program without locations and numbers, or "" if the program does not fail."""
    try:
        compare(program)
    except AssertionError:
        return "different results"
    except Exception as e:
        first = (str(e).strip().splitlines() or [""])[0]
        return re.sub(r"<[^<>]*>|\S*:\d+:\d+:?|\d+", "#", f"{type(e).__name__} {first}")
    return ""


def reduce_program(program: Program, seconds: float = 60) -> Program:
    """A smaller program that fails in the same way."""
    expected, end = failure(program), time.monotonic() + seconds
    size = -1
    while size != len(str(program)) and time.monotonic() < end:
        size = len(str(program))
        for name in ("", *program.functions):
            program = _reduce_text(program, name, expected, end)
        for name in list(program.functions):
            remaining = {k: v for k, v in program.functions.items() if k != name}
            candidate = replace(program, functions=remaining)
            program = candidate if failure(candidate) == expected else program
    return program


def _reduce_text(program: Program, name: str, expected: str, end: float) -> Program:
    """A pass of reductions over the text of a function, or of the kernel if `name` is ""."""
    tree = ast.parse(program.functions[name] if name else program.text)
    text = ast.unparse(tree) + "\n"
    for change in list(_reductions(tree)):
        if time.monotonic() > end:
            break
        try:
            undo = change()
            text_after = ast.unparse(tree) + "\n"
        except (IndexError, AttributeError, ValueError):
            continue
        functions = {**program.functions, name: text_after} if name else program.functions
        trial = replace(program, functions=functions, text=program.text if name else text_after)
        if len(text_after) <= len(text) and _is_valid(trial, program) and failure(trial) == expected:
            program, text = trial, text_after
        else:
            undo()
    return program


def _is_valid(trial: Program, program: Program) -> bool:
    """Whether a reduced program is valid Python in which lanes and blocks still write to their own elements."""
    try:
        trees = [ast.parse(p.text) for p in (program, trial)]
    except SyntaxError:
        return False
    frames_before, frames_after = ([x for x in ast.unparse(t).splitlines() if FRAME.match(x)] for t in trees)
    return frames_before == frames_after and all(
        _writes_own_elements(x) for x in trial.text.splitlines()[1:] if OUTPUT.search(x)
    )


def _writes_own_elements(line: str) -> bool:
    per_lane = re.search(r"(?<!\w)o_\w+\[", line)
    return "i * 1024 + " in line and (not per_lane or "+ j]" in line or "% 8]" in line)


def _reductions(tree: ast.Module) -> Iterator[Callable[[], Undo]]:
    """Changes that delete or unwrap a statement, then changes that replace an expression by a part of it."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not isinstance(node, ast.Module):
                for statement in list(block):
                    yield lambda b=block, s=statement: _replace_statement(b, s, [])
                    if isinstance(statement, ast.If | ast.For | ast.While):
                        yield lambda b=block, s=statement: _replace_statement(b, s, s.body)
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            for index, part in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(part, ast.expr) and not isinstance(part, ast.Constant):
                    for child in _parts(part):
                        position = index if isinstance(value, list) else None
                        yield lambda n=node, f=field, p=position, c=child: _replace_child(n, f, p, c)


def _parts(node: ast.expr) -> list[ast.expr]:
    inner = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
    return inner + [k.value for k in node.keywords] if isinstance(node, ast.Call) else inner


def _replace_statement(block: list[ast.stmt], statement: ast.stmt, replacement: list[ast.stmt]) -> Undo:
    position, previous = block.index(statement), list(block)
    block[position : position + 1] = replacement if replacement or len(block) > 1 else [ast.Pass()]

    def undo() -> None:
        block[:] = previous

    return undo


def _replace_child(node: ast.AST, field: str, index: int | None, child: ast.expr) -> Undo:
    children = getattr(node, field)
    if index is None:
        setattr(node, field, child)
        return lambda: setattr(node, field, children)
    previous_child, children[index] = children[index], child

    def undo() -> None:
        children[index] = previous_child

    return undo
