"""Programs that redefine functions, alias them, keep them and make them in factories, between launches of kernels that
call them. `run` returns their results with Tegula, `expected` the results with Python's functions."""

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


class Writer:
    """Writes one program as cells of a notebook. A function of level i is named g<i> and calls functions of lower
    levels only, so that there is no recursion, whatever the names are bound to later."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cells: list[str] = []

    def program(self) -> list[str]:
        start = ["fs = []", "kept = {}", "pair = ()"]
        for level in range(LEVELS):
            start += self.plain(level)
        start += ["kept['k'] = g1", "pair = (g0, g1)", "fs.append(g2)", *self.holder(), *self.kernel()]
        self.cells.append("\n".join([*start, "launch(k)"]))
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
                self.plain,
                self.alias,
                self.factory,
                self.in_a_loop,
                self.with_default,
                self.nested,
                self.twice,
            ),
            *(lambda level: [f"kept['k'] = g{level}"],),
            *(lambda level: [f"pair = (g{level}, g{self.below(level)})"],),
            *(lambda level: [f"fs[0] = g{level}"],),
            *(lambda level: self.holder(),),
            *(lambda level: [f"Holder.h = staticmethod(g{level})"],),
        ]

    def level(self) -> int:
        return self.random.randrange(LEVELS)

    def below(self, level: int) -> int:
        return self.random.randint(0, level)

    def number(self) -> str:
        return f"{self.random.randint(-9, 9)}.0"

    def expression(self, level: int) -> str:
        if level and self.random.random() < 0.6:
            return f"g{self.random.randrange(level)}(x) + {self.number()}"
        return f"x * {self.random.randint(1, 3)}.0 + {self.number()}"

    def plain(self, level: int) -> list[str]:
        return ["@tg.func", f"def g{level}(x: float):", f"    return {self.expression(level)}"]

    def twice(self, level: int) -> list[str]:
        return [*self.plain(level), f"saved = g{level}", f"pair = (saved, g{level})", *self.plain(level)]

    def alias(self, level: int) -> list[str]:
        return [
            f"g{level} = g{self.below(level)}",
            *(self.plain(level) if self.random.random() < 0.3 else []),
        ]

    def factory(self, level: int) -> list[str]:
        body = [f"    {line}" for line in self.plain(level)]
        body[-1] += " + s"
        again = [f"    {line}" for line in self.plain(level)] if self.random.random() < 0.3 else []
        lines = [f"g{level} = make({self.number()})", f"pair = (make({self.number()}), g{level})"]
        return ["def make(s):", *body, *again, f"    return g{level}", *lines]

    def in_a_loop(self, level: int) -> list[str]:
        body = [f"    {line}" for line in self.plain(level)]
        body[1] = f"    def g{level}(x: float, s=c):"
        body[-1] += " * s"
        return ["fs = []", "for c in (1.0, 2.0):", *body, f"    fs.append(g{level})"]

    def with_default(self, level: int) -> list[str]:
        return (
            [
                "@tg.func",
                f"def g{level}(x: float, f=g{self.random.randrange(level) if level else 0}):",
                f"    return f(x) + {self.number()}",
            ]
            if level
            else self.plain(level)
        )

    def nested(self, level: int) -> list[str]:
        inner = [f"    def inner(x):\n        return {self.expression(level)}" for _ in range(2)]
        return ["@tg.func", f"def g{level}(x: float):", *inner, "    return inner(x)"]

    def holder(self) -> list[str]:
        return ["class Holder:", f"    h = staticmethod(g{self.level()})"]

    def kernel(self) -> list[str]:
        ways = [f"g{level}" for level in range(LEVELS)]
        ways += ["pair[0]", "pair[1]", "fs[0]", "fs[-1]", "Holder.h", "tg.static(kept['k'])"]
        lines = [f"    out[{k}] = {self.random.choice(ways)}({k}.0)" for k in range(SLOTS)]
        return ["@tg.kernel", "def k(out: tg.array1d[float]):", *lines]


def run(cells: list[str], seed: int) -> list[list[float]]:
    """The results of each launch, and of each call in Python."""
    results: list[list[float]] = []
    names: dict[str, Any] = {"tg": tg}

    def launch(kernel: Any) -> None:
        out = tg.zeros(SLOTS)
        tg.launch(kernel, 1, outputs=[out], block_dim=1)
        results.append(out.numpy().tolist())

    return _executed(cells, seed, results, {**names, "launch": launch})


def expected(cells: list[str], seed: int) -> list[list[float]]:
    """The results with Python's functions."""
    results: list[list[float]] = []

    def launch(kernel: Any) -> None:
        out = np.zeros(SLOTS, np.float32)
        kernel(out)
        results.append(out.tolist())

    plain = SimpleNamespace(func=lambda f: f, kernel=lambda f: f, static=lambda x: x, array1d={float: None})
    return _executed(cells, seed, results, {"tg": plain, "launch": launch})


def _executed(
    cells: list[str], seed: int, results: list[list[float]], names: dict[str, Any]
) -> list[list[float]]:
    def host() -> None:
        calls = [*(names[f"g{level}"] for level in range(LEVELS)), *names["pair"], *names["fs"]]
        results.append([float(f(2.0)) for f in calls])

    names["host"] = host
    for text in cells:
        # A cell that is run again keeps its name.
        cell([text], f"<cell {seed} {cells.index(text)}>", names)
    return results


def cell(lines: list[str], name: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run text as notebooks run cells: its file name names no file."""
    text = "\n".join(lines) + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    return names


def programs(seeds: range) -> Iterator[tuple[int, list[str]]]:
    for seed in seeds:
        yield seed, Writer(seed).program()
