"""Random kernels about the order of element accesses: starts that move, views, distances that differ between lanes,
exchanged names, guards, loops and updates. No program is drawn to avoid conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
from lane_model import Model

import tegula as tg

SIZE = 96
"""Elements of each tile."""
FIRST = np.stack([np.arange(SIZE, dtype=np.int32), 200 + 3 * np.arange(SIZE, dtype=np.int32)])
"""The initial contents of the tiles."""
OUTSIDE = (IndexError, OverflowError)
"""The errors of the model for programs without a defined result."""


class LaneProgram:
    """A kernel of one block over two shared tiles, `s` and `r`, and their contents after it. `fixed`: whether they are
    the same whichever of several threads writes an element last."""

    def __init__(self, seed: int, fixed: bool = False) -> None:
        self.random, self.fixed = Random(seed), fixed
        while True:
            self.lanes = self.random.choice([8, 32, 32, 40])
            self.n = self.random.choice([0, 1, 2, 3])
            self.a = np.array([self.random.randrange(4) for _ in range(self.lanes)], np.int32)
            if self.generate():
                return

    def generate(self) -> bool:
        """Draw a new program. Returns whether the program is valid."""
        self.lines: list[str] = []
        self.depth, self.count = 0, 0
        self.views, self.counters, self.values = ["s", "r"], list[str](), ["t", "u"]
        self.planes: list[str] = []
        self.diverged = False
        for _ in range(self.random.randint(2, 4)):
            self.statement(3)
        self.body = "\n".join(self.lines)
        try:
            self.expected, fixed = self.modelled()
        except OUTSIDE:
            return False
        return fixed or not self.fixed

    def modelled(self, backwards: bool = False) -> tuple[np.ndarray, bool]:
        """The contents of the tiles after the body, and whether they are the same whichever thread writes last."""
        tiles = {name: tile.copy() for name, tile in zip("sr", FIRST, strict=True)}
        numbers = {"t": np.arange(self.lanes), "u": self.a, "n": self.n}
        model = Model(self.lanes, tiles, numbers, {"a": self.a}, backwards)
        model.run(self.body)
        return np.stack([model.names[name][0] for name in "sr"]), model.fixed

    # Text ------------------------------------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def inside(self, opening: str, diverged: bool) -> Iterator[None]:
        self.add(opening)
        saved_state = (
            list(self.views),
            list(self.counters),
            list(self.values),
            list(self.planes),
            self.diverged,
        )
        self.depth += 1
        self.diverged |= diverged
        yield
        self.depth -= 1
        self.views, self.counters, self.values, self.planes, self.diverged = saved_state

    # Expressions -----------------------------------------------------------------------------------------------------

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self) -> str:
        """An expression that is the same in all lanes."""
        return self.pick("n", "1", "2", *self.counters)

    def index(self) -> str:
        k, c = self.number(), self.random.choice([1, 2, 3, 8, 31, 32])
        return self.pick(
            *(
                "t",
                "t",
                "t",
                f"t + {k}",
                f"t + {k}",
                f"t + {c}",
                f"{self.lanes - 1} - t",
                "t * 2",
                "t + u",
                "u",
                k,
            ),
            *(f"t // {c}", f"t % {c}", f"{k} * 8 + t % 8", f"t ^ {k}", f"t - {k}", f"t * 2 + {k}", "0", "-1"),
            f"tg.min(t + {c}, {c + 7})",
        )

    def offset(self) -> str:
        k, c = self.number(), self.random.choice([0, 1, 3, 8])
        return self.pick("t", "u", f"t + {k}", f"{c}", k, f"t // {c + 1}", f"8 - t % {c + 1}", f"{k} * 2")

    def element(self) -> str:
        if self.planes and self.random.random() < 0.3:
            row, column = self.pick("u", "t % 6", "t // 8", self.number()), self.pick("t % 8", "u", "0")
            return f"{self.pick(*self.planes)}[{row}, {column}]"
        return f"{self.pick(*self.views)}[{self.index()}]"

    def value(self) -> str:
        x, k = self.pick(*self.values), self.number()
        return self.pick(
            *("t", f"t * 10 + {k}", f"{x} + {k}", f"{x} * 3 + 1"),
            *(f"{self.element()} + {k}", f"{self.element()} * 2 + {x}"),
            f"({self.element()} if {self.condition()} else {self.element()})",
            f"({x} if {self.condition()} else {k})",
        )

    def condition(self) -> str:
        k, c = self.number(), self.random.choice([1, 4, 8, 16])
        return self.pick(
            *(
                f"t < {c}",
                f"t < {k}",
                f"t == {k}",
                "u > 1",
                f"t % {c + 1} == 0",
                f"t >= {c}",
                f"t + {k} < {c + 8}",
            )
        )

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        kinds = [self.write] * 4 + [self.update] * 2 + [self.read] * 2 + [self.view, self.plane]
        if not self.diverged and self.depth < 2:
            kinds.append(self.exchange)
        if depth and self.random.random() < 0.5:
            self.random.choice([self.branch, self.branch, self.loop, self.loop, self.strided, self.tree])(
                depth - 1
            )
        else:
            self.random.choice(kinds)()

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)

    def write(self) -> None:
        index = self.element()
        self.add(f"{index} = {self.pick(self.value(), self.value(), f'{index} * 10 + {self.number()}')}")

    def update(self) -> None:
        index = self.element()
        for _ in range(self.random.choice([1, 1, 2])):
            self.add(
                f"{index} {self.pick('+=', '-=', '|=', '&=', '^=')} {self.pick(*self.values, self.number())}"
            )

    def read(self) -> None:
        name = self.fresh("x")
        self.add(f"{name} = {self.value()}")
        self.values.append(name)

    def exchange(self) -> None:
        self.add("s, r = r, s")
        self.views, self.planes = ["s", "r"], []

    def view(self) -> None:
        name, base = self.fresh("w"), self.pick("s", "r")
        start, step = self.random.choice([0, 1, 8]), self.random.choice([1, 1, 2, -1])
        part = f"{base}[{start}::{step}]" if step > 0 else f"{base}[{SIZE - 1 - start}::-1]"
        if self.random.random() < 0.4:
            part = f"tg.tile_view({base}, offset={self.offset()}, shape={self.random.choice([8, 40])})"
        elif self.planes and self.random.random() < 0.6:
            part = f"{self.pick(*self.planes)}[{self.pick('u', 't // 8', self.number(), self.number())}]"
        self.add(f"{name} = {part}")
        self.views.append(name)

    def plane(self) -> None:
        name = self.fresh("v")
        self.add(
            f"{name} = tg.tile_reshape({self.pick('s', 'r')}, {self.pick('(12, 8)', '(6, 16)', '(3, 32)')})"
        )
        self.planes.append(name)

    def branch(self, depth: int) -> None:
        with self.inside(f"if {self.condition()}:", True):
            self.block(depth)
        if self.random.random() < 0.25:
            with self.inside("else:", True):
                self.block(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh("k")
        varying = self.random.random() < 0.3
        bounds = (
            self.pick("2", "n", "3, 0, -1", "n, n + 2") if not varying else self.pick("u", "t // 8", "u, 3")
        )
        with self.inside(f"for {k} in range({bounds}):", varying):
            self.counters.append(k)
            self.block(depth)

    def strided(self, depth: int) -> None:
        """A loop that gives each lane every so manyth element, from a start that may move."""
        k, index = self.fresh("k"), self.pick("s", "r", *self.views)
        start = self.pick("t", f"t + {self.number()}", "t + u")
        step = self.random.choice([self.lanes, self.lanes, 2 * self.lanes, 3])
        with self.inside(f"for {k} in range({start}, {self.random.choice([33, 64])}, {step}):", True):
            value = self.pick(f"= {index}[{k}] * 10 + {self.number()}", f"= {k} + u", f"+= {k}")
            self.add(f"{index}[{k}] {value}")

    def tree(self, depth: int) -> None:
        k, base = self.fresh("m"), self.pick(*self.views)
        self.add(f"{k} = {self.pick('4', '8', 'n * 4')}")
        with self.inside(f"while {k} > 0:", False):
            with self.inside(f"if t < {self.pick(k, k, k, '4')}:", True):
                self.add(
                    self.pick(f"{base}[t] += {base}[t + {k}]", f"{base}[t] = {base}[t] + {base}[t + {k}]")
                )
            self.add(f"{k} = {k} // 2")

    # Kernel ----------------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        opening = (
            "def kernel(o: tg.array2d[tg.int32], a: tg.array[tg.int32], n: int):\n"
            "    i, t = tg.tid()\n"
            "    u = a[t]\n"
            f"    s = tg.tile_load(o[0], shape={SIZE}, storage='shared')\n"
            f"    r = tg.tile_load(o[1], shape={SIZE}, storage='shared')\n"
        )
        closing = "\n".join(f"    tg.tile_store(o[{k}], {name})" for k, name in enumerate("sr"))
        return opening + "\n".join("    " + line for line in self.lines) + f"\n{closing}\n"

    def build(self) -> Any:
        space: dict[str, Any] = {"tg": tg}
        exec(self.text, space)
        return tg.kernel(source=self.text)(space["kernel"])

    def arguments(self) -> list[Any]:
        return [tg.array(FIRST), tg.array(self.a), self.n]

    def __str__(self) -> str:
        return f"# {self.lanes} lanes, n {self.n}, a {self.a.tolist()}\n{self.text}"
