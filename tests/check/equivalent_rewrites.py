"""Equivalent rewrites of kernels: other names, other numbers of stages, roles in functions, a peeled iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import tegula as tg

N = 32
"""Elements of a row."""
BM, BN, BK = 64, 64, 64
STAGES = 3
Change = Callable[[ast.FunctionDef], None]


def kernel(text: str, change: Change | None = None, stages: int = STAGES, **options: Any) -> Any:
    """The kernel that a text defines, with `S` stages, after a change."""
    tree = ast.parse(text)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    if change is not None:
        change(function)
        text = ast.unparse(ast.fix_missing_locations(tree))
    names: dict[str, Any] = {"tg": tg, "S": stages, "N": N, "BM": BM, "BN": BN, "BK": BK, "bf16": tg.bfloat16}
    exec(text, names)
    return tg.kernel(source=text, **options)(names[function.name])


def rename(function: ast.FunctionDef) -> None:
    """Rename every name that the kernel binds."""
    bound_names = [a.arg for a in function.args.args]
    bound_names += [
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    ]
    new_names = {name: f"v{k}" for k, name in enumerate(dict.fromkeys(bound_names))}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            node.id = new_names.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = new_names[node.arg]


def move_into_functions(function: ast.FunctionDef) -> None:
    """Move the body of each role into a function."""
    for k, role in enumerate(_roles(function)):
        call = ast.parse(f"work{k}()").body
        (tree,) = ast.parse(f"def work{k}(): pass").body
        assert isinstance(tree, ast.FunctionDef)
        tree.body, role.body = role.body, [tree, *call]


def peel(function: ast.FunctionDef) -> None:
    """Peel the first iteration of the first loop, in the last role that has a loop."""
    for role in reversed(_roles(function)):
        for block in _blocks(role.body):
            index = next((k for k, s in enumerate(block) if isinstance(s, ast.For)), -1)
            if index >= 0:
                block[index : index + 1] = _peeled(block[index])
                return
    raise AssertionError("there is no loop")


def _peeled(loop: ast.stmt) -> list[ast.stmt]:
    assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
    index = ast.unparse(loop.target)
    start, stop = ["0", *map(ast.unparse, loop.iter.args)][-2:]
    if "persistent" in ast.unparse(loop.iter):
        return [loop]
    body = ast.unparse(ast.Module(loop.body, [])).replace("\n", "\n    ")
    text = f"if {start} < {stop}:\n    {index} = {start}\n    {body}\n"
    if "tile_pipe" in body:  # a pipe is popped equally often on all paths
        text = f"for {index} in range({start}, tg.min({start} + 1, {stop})):\n    {body}\n"
    text += f"for {index} in range({start} + 1, {stop}):\n    {body}"
    return ast.parse(text).body


def _roles(function: ast.FunctionDef) -> list[ast.With]:
    return [s for s in function.body if isinstance(s, ast.With)]


def _blocks(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    """A block and the blocks of its branches."""
    return [body, *(block for s in body if isinstance(s, ast.If) for block in _blocks(s.body))]


REWRITES: dict[str, tuple[Change | None, int]] = {
    "as written": (None, STAGES),
    "other names": (rename, STAGES),
    "one more stage": (None, STAGES + 1),
    "in functions": (move_into_functions, STAGES),
    "a loop peeled": (peel, STAGES),
}
