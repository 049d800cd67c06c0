"""Attacks on any correct program: one or several edits of its text that imitate programming mistakes. An edited program
may still be correct; a replay decides."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

Block: TypeAlias = list[ast.stmt]
Edit: TypeAlias = Callable[[Random, ast.FunctionDef], bool]
EDITS: dict[str, Edit] = {}
"""The edits by name. An edit returns False if the program has no line that it can change."""
CONDITIONS = ("k == 3", "k > 7", "k % 3 == 1", "k % 2 == 0", "k == n - 1", "k == 0", "n > 5", "m > 2")
SIGNALS = {"mbarrier_wait", "mbarrier_arrive", "mbarrier_expect_bytes", "tile_load_async"}


def edit(name: str) -> Callable[[Edit], Edit]:
    def register(result: Edit) -> Edit:
        EDITS[name] = result
        return result

    return register


def roles(kernel: ast.FunctionDef) -> list[ast.With]:
    return [s for s in kernel.body if isinstance(s, ast.With)]


def blocks(s: ast.stmt) -> Iterator[Block]:
    """The blocks of a statement and of its nested statements."""
    for field in ("body", "orelse"):
        inner: Block = getattr(s, field, [])
        if inner:
            yield inner
            for t in inner:
                yield from blocks(t)


def effect_positions(kernel: ast.FunctionDef) -> list[tuple[Block, int]]:
    """The positions of the statements of roles that have effects: calls, and stores to shared tiles."""
    return [
        (block, k)
        for role in roles(kernel)
        for block in blocks(role)
        for k, s in enumerate(block)
        if isinstance(s, ast.Expr) or (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Subscript))
    ]


def calls(kernel: ast.FunctionDef, names: set[str]) -> list[ast.Call]:
    candidates = [c for role in roles(kernel) for c in ast.walk(role) if isinstance(c, ast.Call)]
    return [c for c in candidates if isinstance(c.func, ast.Attribute) and c.func.attr in names]


def parse_expression(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def guard(rng: Random, body: Block) -> ast.stmt:
    return ast.If(parse_expression(rng.choice(CONDITIONS)), body, [])


@edit("statement dropped")
def drop_statement(rng: Random, kernel: ast.FunctionDef) -> bool:
    block, k = rng.choice(effect_positions(kernel))
    block[k] = ast.Pass()
    return True


@edit("statement guarded")
def guard_statement(rng: Random, kernel: ast.FunctionDef) -> bool:
    block, k = rng.choice(effect_positions(kernel))
    block[k] = guard(rng, [block[k]])
    return True


@edit("statement repeated")
def repeat_statement(rng: Random, kernel: ast.FunctionDef) -> bool:
    block, k = rng.choice(effect_positions(kernel))
    repetition = block[k] if rng.random() < 0.5 else guard(rng, [block[k]])
    block.insert(rng.choice((k, k + 1, len(block))), repetition)
    return True


@edit("moved in its block")
def move_statement(rng: Random, kernel: ast.FunctionDef) -> bool:
    positions = [(block, k) for block, k in effect_positions(kernel) if len(block) > 1]
    if not positions:
        return False
    block, k = rng.choice(positions)
    s = block.pop(k)
    block.insert(rng.choice((k - 1, k + 1, rng.randrange(len(block) + 1))) % (len(block) + 1), s)
    return True


@edit("moved out of its block")
def out_of_block(rng: Random, kernel: ast.FunctionDef) -> bool:
    """Move a statement out of its loop or branch, before or after the loop or branch."""
    positions = [
        (outer, k, inner, j)
        for role in roles(kernel)
        for outer in blocks(role)
        for k, s in enumerate(outer)
        for inner in (getattr(s, "body", []), getattr(s, "orelse", []))
        for j, t in enumerate(inner)
        if isinstance(t, ast.Expr)
    ]
    if not positions:
        return False
    outer, k, inner, j = rng.choice(positions)
    s = inner[j]
    inner[j] = ast.Pass()
    outer.insert(k + rng.randrange(2), s)
    return True


@edit("constant off by one")
def off_by_one(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [
        n
        for role in roles(kernel)
        for s in role.body
        for n in ast.walk(s)
        if isinstance(n, ast.Constant) and type(n.value) is int and n.value < 64
    ]
    if not candidates:
        return False
    n = rng.choice(candidates)
    assert isinstance(n.value, int)
    n.value = max(0, n.value + rng.choice((-1, 1)))
    return True


@edit("another barrier")
def other_barrier(rng: Random, kernel: ast.FunctionDef) -> bool:
    return _rename_use(rng, kernel, ("mbarrier", "named_barrier"))


@edit("another ring")
def other_ring(rng: Random, kernel: ast.FunctionDef) -> bool:
    return _rename_use(rng, kernel, ("tile_empty",))


def names_bound_to(kernel: ast.FunctionDef, constructor: str) -> list[str]:
    """The names that a kernel binds to results of a function."""
    out: list[str] = []
    for s in kernel.body:
        if isinstance(s, ast.Assign):
            targets = s.targets[0].elts if isinstance(s.targets[0], ast.Tuple) else s.targets
            values = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
            for target, value in zip(targets, values, strict=False):
                attr = (
                    value.func.attr
                    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
                    else ""
                )
                out += [target.id] if isinstance(target, ast.Name) and attr == constructor else []
    return out


def _rename_use(rng: Random, kernel: ast.FunctionDef, constructors: tuple[str, ...]) -> bool:
    for constructor in rng.sample(constructors, len(constructors)):
        names = names_bound_to(kernel, constructor)
        candidates = [
            n for role in roles(kernel) for n in ast.walk(role) if isinstance(n, ast.Name) and n.id in names
        ]
        if len(names) > 1 and candidates:
            n = rng.choice(candidates)
            n.id = rng.choice([name for name in names if name != n.id])
            return True
    return False


@edit("two barriers swapped")
def swap_barriers(rng: Random, kernel: ast.FunctionDef) -> bool:
    """Swap two names at all uses in one role."""
    for constructor in ("named_barrier", "mbarrier"):
        names = names_bound_to(kernel, constructor)
        if len(names) > 1:
            a, b = rng.sample(names, 2)
            for n in ast.walk(rng.choice(roles(kernel))):
                if isinstance(n, ast.Name) and n.id in (a, b):
                    n.id = a if n.id == b else b
            return True
    return False


@edit("another stage")
def other_stage(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [c for c in calls(kernel, SIGNALS) if len(c.args) > 1]
    if not candidates:
        return False
    c = rng.choice(candidates)
    index = 4 if isinstance(c.func, ast.Attribute) and c.func.attr == "tile_load_async" else 1
    increment = rng.choice((f"int({rng.choice(CONDITIONS)})", "1"))
    c.args[index] = parse_expression(f"({ast.unparse(c.args[index])} + {increment}) % {rng.choice((2, 3))}")
    return True


@edit("another parity")
def other_parity(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [c for c in calls(kernel, {"mbarrier_wait"}) if len(c.args) > 2]
    if not candidates:
        return False
    c = rng.choice(candidates)
    c.args[2] = parse_expression(
        f"({ast.unparse(c.args[2])}) ^ {rng.choice(('1', f'int({rng.choice(CONDITIONS)})'))}"
    )
    return True


@edit("another slot of a ring")
def other_slot(rng: Random, kernel: ast.FunctionDef) -> bool:
    names = names_bound_to(kernel, "tile_empty")
    candidates = [
        n
        for role in roles(kernel)
        for n in ast.walk(role)
        if isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and n.value.id in names
        and not isinstance(n.slice, ast.Tuple | ast.Slice)
    ]
    if not candidates:
        return False
    n = rng.choice(candidates)
    n.slice = parse_expression(f"({ast.unparse(n.slice)} + {rng.choice((1, 2))}) % {rng.choice((2, 3))}")
    return True


@edit("another arrival count")
def other_count(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [c for s in kernel.body if isinstance(s, ast.Assign) for c in ast.walk(s)
             if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute) and "barrier" in c.func.attr]  # fmt: skip
    numbers = [
        n for c in candidates for n in ast.walk(c) if isinstance(n, ast.Constant) and isinstance(n.value, int)
    ]
    if not numbers:
        return False
    n = rng.choice(numbers)
    assert isinstance(n.value, int)
    n.value = max(1, n.value + rng.choice((-4, -1, 1, 4)))
    return True


@edit("one thread instead of all")
def elect_one_thread(rng: Random, kernel: ast.FunctionDef) -> bool:
    block, k = rng.choice(effect_positions(kernel))
    block[k] = ast.If(parse_expression("tg.elect()"), [block[k]], [])
    return True


@edit("all threads instead of one")
def drop_election(rng: Random, kernel: ast.FunctionDef) -> bool:
    positions = [
        (block, k)
        for role in roles(kernel)
        for block in blocks(role)
        for k, s in enumerate(block)
        if isinstance(s, ast.If) and ast.unparse(s.test) == "tg.elect()"
    ]
    if not positions:
        return False
    block, k = rng.choice(positions)
    s = block[k]
    assert isinstance(s, ast.If)
    block[k : k + 1] = s.body
    return True


@edit("another number of iterations")
def other_range(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [s for role in roles(kernel) for s in ast.walk(role) if isinstance(s, ast.For)]
    if not candidates:
        return False
    loop = rng.choice(candidates)
    (first, last) = (
        (["0", *map(ast.unparse, loop.iter.args)])[-2:] if isinstance(loop.iter, ast.Call) else ("0", "n")
    )
    loop.iter = parse_expression(
        rng.choice(
            (
                f"range({first}, {last} - 1)",
                f"range({first}, {last} + 1)",
                f"range({first} + 1, {last})",
                f"range({first}, tg.min({last}, 9))",
                f"range({first}, tg.max({last}, 2))",
                f"range({first}, m)",
                f"range({first}, {last}, 2)",
            )
        )
    )
    return True


@edit("an iteration ends early")
def insert_break_or_continue(rng: Random, kernel: ast.FunctionDef) -> bool:
    candidates = [s for role in roles(kernel) for s in ast.walk(role) if isinstance(s, ast.For | ast.While)]
    if not candidates:
        return False
    body = rng.choice(candidates).body
    body.insert(rng.randrange(len(body) + 1), guard(rng, [rng.choice((ast.Break(), ast.Continue()))]))
    return True


def apply_edits(rng: Random, text: str, count: int) -> tuple[str, str]:
    """The text of a program after a number of edits, and the names of the edits."""
    tree = ast.parse(text)
    (kernel,) = tree.body
    assert isinstance(kernel, ast.FunctionDef)
    names: list[str] = []
    while len(names) < count:
        name = rng.choice(list(EDITS))
        if EDITS[name](rng, kernel):
            names.append(name)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", ", ".join(names)
