"""A name is live where a run of the program reads a value that was bound before."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from typing import Any

import pytest
from traced_kernels import launched, zeros

import tegula as tg
from tegula.lang.flow import Flow

NAMES = "abc"


class RecordedNames(dict[str, Any]):
    """A namespace that records the order of reads, bindings and ends of statements of a run."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(use=lambda *x: None, maybe=lambda: rng.random() < 0.5, end=self.end, range=range)
        self.events: list[tuple[str, Any]] = []

    def end(self, statement: int) -> None:
        self.events.append(("end", statement))

    def __getitem__(self, name: str) -> Any:
        if name in NAMES:
            self.events.append(("read", name))
            return 0
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.events.append(("bound", name))


def statements(rng: random.Random, depth: int, in_loop: bool) -> Iterator[str]:
    for _ in range(rng.randrange(1, 4)):
        x, y = rng.choices(NAMES, k=2)
        simple = [f"{x} = {y}", f"{x} = 0", f"use({x})", f"{x} += 1", f"{x}, {y} = {y}, 0", f"use({x}, {y})"]
        leaving = ["if maybe():\n    break", "if maybe():\n    continue"] if in_loop else []
        heads = ["if maybe():", f"if use({x}) or maybe():"] if depth else []
        loops = [f"for {x} in range(2):", "while maybe():", f"for d in range({y}, 2):"] if depth else []
        text = rng.choice(simple * 2 + leaving * 2 + heads * 2 + loops * 2)
        yield text
        if text.endswith(":"):
            yield from ("    " + line for line in lines(rng, depth - 1, in_loop or text in loops))
            if text in heads and rng.random() < 0.5:
                yield "else:"
                yield from ("    " + line for line in lines(rng, depth - 1, in_loop))


def lines(rng: random.Random, depth: int, in_loop: bool) -> list[str]:
    return "\n".join(statements(rng, depth, in_loop)).split("\n")


@pytest.mark.parametrize("seed", range(4))
def test_variables_that_executions_read_are_live(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        body = "\n    ".join(lines(rng, 3, False))
        tree = ast.parse(f"def f():\n    {body}").body[0]
        assert isinstance(tree, ast.FunctionDef)
        flow = Flow(tree)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node is not tree]
        for _ in range(6):
            run = RecordedNames(rng)
            exec(compile(with_end_calls(tree, nodes), "<program>", "exec"), {}, run)
            for k, (kind, ended) in enumerate(run.events):
                for name in NAMES if kind == "end" else ():
                    later = [event for event, variable in run.events[k:] if variable == name]
                    if later[:1] == ["read"]:
                        assert flow.live_after(name, nodes[ended]), (body, name, ast.unparse(nodes[ended]))


def with_end_calls(tree: ast.FunctionDef, nodes: list[ast.stmt]) -> ast.Module:
    """The program with a call of `end` after each statement."""

    class EndCalls(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> Any:
            k = nodes.index(node) if isinstance(node, ast.stmt) and node in nodes else None
            copied = type(node)(**{f: v for f, v in ast.iter_fields(node)})
            super().generic_visit(copied)
            return copied if k is None else [copied, ast.parse(f"end({k})").body[0]]

    marked_tree = EndCalls().visit(tree)
    return ast.fix_missing_locations(ast.Module(marked_tree.body, []))


def test_names_rebound_in_each_iteration_are_not_live() -> None:
    tree = ast.parse("def f():\n for k in x:\n  a = b\n  for l in y:\n   c = a\n   use(c)\n  d = 0\n").body[0]
    assert isinstance(tree, ast.FunctionDef)
    flow, outer = Flow(tree), tree.body[0]
    assert isinstance(outer, ast.For)
    assert [[flow.live_after(name, s) for name in "abc"] for s in outer.body] == [
        [True, True, False],
        [False, True, False],
        [False, True, False],
    ]


@tg.kernel
def views_in_loops(n: int, out: tg.array[int]):
    t = tg.tile_zeros(8, dtype=int, storage="shared")
    for _ in range(n):
        v = t[::-1]
        for _ in range(2):
            for _ in range(2):
                w = v[::-1]
                w[0] = w[0] + 1
            v += v + 1
    tg.tile_store(out, t)


def test_a_view_created_in_each_iteration_is_not_merged_with_its_tile() -> None:
    out, expected = zeros(8, dtype="int32"), zeros(8, dtype="int32")
    launched(views_in_loops, 3, out, dims=(1, 1), block_dim=1)
    for _ in range(6):
        expected[0] += 2
        expected += expected + 1
    assert out.tolist() == expected.tolist()


@tg.kernel
def leaves_from_within(n: int, out: tg.array[int]):
    i = tg.tid()
    a = -1
    b = 0
    for k in range(n):
        a = k
        if k > 1:
            if k == i:
                break
            if k == i + 3:
                continue
            a = k + 50
            b += a
        a = 100
    out[i] = a * 1000 + b


def test_paths_that_leave_a_loop_keep_variables_that_later_code_rebinds() -> None:
    out = zeros(8, dtype="int32")
    launched(leaves_from_within, 7, out, dims=(8,), block_dim=8)
    for i in range(8):
        a, b = 100, 0
        for k in range(2, 7):
            a = k
            if k == i:
                break
            if k != i + 3:
                b, a = b + k + 50, 100
        assert out[i] == a * 1000 + b
