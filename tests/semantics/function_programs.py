"""Programs that redefine functions, bind them to other names, store them and create them in factories, between launches
of kernels that call them. `run` returns their results with Tegula, `expected` the results with Python's functions."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import tegula as tg

LEVELS = 4
SLOTS = 6


class NotebookWriter:
    """Writes a program as cells of a notebook. A function of level i is named g<i> and calls only functions of lower
    levels, so there is no recursion, whatever the names are bound to later."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cells: list[str] = []

    def program(self) -> list[str]:
        first_cell = ["fs = []", "table = {}", "pair = ()"]
        for level in range(LEVELS):
            first_cell += self.function(level)
        first_cell += ["table['k'] = g1", "pair = (g0, g1)", "fs.append(g2)", *self.holder(), *self.kernel()]
        self.cells.append("\n".join([*first_cell, "launch(k)"]))
        for _ in range(self.random.randint(2, 4)):
            lines: list[str] = []
            for _ in range(self.random.randint(1, 4)):
                lines += self.random.choice(self.statements())(self.level())
            if self.random.random() < 0.3:
                lines += self.kernel()
            self.cells.append("\n".join([*lines, "launch(k)", "host()"]))
        if self.random.random() < 0.5:
            self.cells.append(self.random.choice(self.cells))
        return self.cells

    def statements(self) -> list[Any]:
        return [
            *(
                self.function,
                self.alias,
                self.factory,
                self.functions_of_loop,
                self.function_with_default,
                self.nested_function,
                self.redefinition,
            ),
            *(lambda level: [f"table['k'] = g{level}"],),
            *(lambda level: [f"pair = (g{level}, g{self.lower_level(level)})"],),
            *(lambda level: [f"fs[0] = g{level}"],),
            *(lambda level: self.holder(),),
            *(lambda level: [f"Holder.h = staticmethod(g{level})"],),
        ]

    def level(self) -> int:
        return self.random.randrange(LEVELS)

    def lower_level(self, level: int) -> int:
        return self.random.randint(0, level)

    def number(self) -> str:
        return f"{self.random.randint(-9, 9)}.0"

    def expression(self, level: int) -> str:
        if level and self.random.random() < 0.6:
            return f"g{self.random.randrange(level)}(x) + {self.number()}"
        return f"x * {self.random.randint(1, 3)}.0 + {self.number()}"

    def function(self, level: int) -> list[str]:
        return ["@tg.func", f"def g{level}(x: float):", f"    return {self.expression(level)}"]

    def redefinition(self, level: int) -> list[str]:
        return [
            *self.function(level),
            f"saved = g{level}",
            f"pair = (saved, g{level})",
            *self.function(level),
        ]

    def alias(self, level: int) -> list[str]:
        return [
            f"g{level} = g{self.lower_level(level)}",
            *(self.function(level) if self.random.random() < 0.3 else []),
        ]

    def factory(self, level: int) -> list[str]:
        body = [f"    {line}" for line in self.function(level)]
        body[-1] += " + s"
        second_definition = (
            [f"    {line}" for line in self.function(level)] if self.random.random() < 0.3 else []
        )
        lines = [f"g{level} = make({self.number()})", f"pair = (make({self.number()}), g{level})"]
        return ["def make(s):", *body, *second_definition, f"    return g{level}", *lines]

    def functions_of_loop(self, level: int) -> list[str]:
        body = [f"    {line}" for line in self.function(level)]
        body[1] = f"    def g{level}(x: float, s=c):"
        body[-1] += " * s"
        return ["fs = []", "for c in (1.0, 2.0):", *body, f"    fs.append(g{level})"]

    def function_with_default(self, level: int) -> list[str]:
        return (
            [
                "@tg.func",
                f"def g{level}(x: float, f=g{self.random.randrange(level) if level else 0}):",
                f"    return f(x) + {self.number()}",
            ]
            if level
            else self.function(level)
        )

    def nested_function(self, level: int) -> list[str]:
        inner = [f"    def inner(x):\n        return {self.expression(level)}" for _ in range(2)]
        return ["@tg.func", f"def g{level}(x: float):", *inner, "    return inner(x)"]

    def holder(self) -> list[str]:
        return ["class Holder:", f"    h = staticmethod(g{self.level()})"]

    def kernel(self) -> list[str]:
        callees = [f"g{level}" for level in range(LEVELS)]
        callees += ["pair[0]", "pair[1]", "fs[0]", "fs[-1]", "Holder.h", "tg.static(table['k'])"]
        lines = [f"    out[{k}] = {self.random.choice(callees)}({k}.0)" for k in range(SLOTS)]
        return ["@tg.kernel", "def k(out: tg.array1d[float]):", *lines]


def run(cells: list[str], seed: int) -> list[list[float]]:
    """The results of each launch, and of each call from Python."""
    results: list[list[float]] = []
    names: dict[str, Any] = {"tg": tg}

    def launch(kernel: Any) -> None:
        out = tg.zeros(SLOTS)
        tg.launch(kernel, 1, outputs=[out], block_dim=1)
        results.append(out.numpy().tolist())

    return _run_cells(cells, seed, results, {**names, "launch": launch})


def expected(cells: list[str], seed: int) -> list[list[float]]:
    """The results of Python's functions."""
    results: list[list[float]] = []

    def launch(kernel: Any) -> None:
        out = np.zeros(SLOTS, np.float32)
        kernel(out)
        results.append(out.tolist())

    python_functions = SimpleNamespace(
        func=lambda f: f, kernel=lambda f: f, static=lambda x: x, array1d={float: None}
    )
    return _run_cells(cells, seed, results, {"tg": python_functions, "launch": launch})


def _run_cells(
    cells: list[str], seed: int, results: list[list[float]], names: dict[str, Any]
) -> list[list[float]]:
    def host() -> None:
        calls = [*(names[f"g{level}"] for level in range(LEVELS)), *names["pair"], *names["fs"]]
        results.append([float(f(2.0)) for f in calls])

    names["host"] = host
    for text in cells:
        # A cell that runs a second time has the same name.
        run_cell([text], f"<cell {seed} {cells.index(text)}>", names)
    return results


def run_cell(lines: list[str], name: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run text like a notebook runs a cell: its file name does not name a file."""
    text = "\n".join(lines) + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    return names


def programs(seeds: range) -> Iterator[tuple[int, list[str]]]:
    for seed in seeds:
        yield seed, NotebookWriter(seed).program()
