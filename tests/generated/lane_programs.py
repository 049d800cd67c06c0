"""Random kernels about the order of element accesses: offsets that vary between iterations, views, strides that differ
between lanes, swapped names, guards, loops and updates. The generator does not avoid conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
from lane_model import Model

import tegula as tg

SIZE = 96
"""The number of elements of each tile."""
INITIAL_TILES = np.stack([np.arange(SIZE, dtype=np.int32), 200 + 3 * np.arange(SIZE, dtype=np.int32)])
"""The initial contents of the tiles."""
UNDEFINED = (IndexError, OverflowError)
"""The errors of the model for programs without a defined result."""


class LaneProgram:
    """A kernel of one block over two shared tiles `s` and `r`, and the expected contents of the tiles. `deterministic`:
    whether the result must not depend on the thread that writes an element last."""

    def __init__(self, seed: int, deterministic: bool = False) -> None:
        self.random, self.deterministic = Random(seed), deterministic
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
            self.expected, deterministic = self.run_model()
        except UNDEFINED:
            return False
        return deterministic or not self.deterministic

    def run_model(self, reverse_lanes: bool = False) -> tuple[np.ndarray, bool]:
        """The contents of the tiles after the body, and whether they do not depend on the thread that writes an element
        last."""
        tiles = {name: tile.copy() for name, tile in zip("sr", INITIAL_TILES, strict=True)}
        scalars = {"t": np.arange(self.lanes), "u": self.a, "n": self.n}
        model = Model(self.lanes, tiles, scalars, {"a": self.a}, reverse_lanes)
        model.run(self.body)
        return np.stack([model.names[name][0] for name in "sr"]), model.deterministic

    # Text ------------------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh_name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def nested_block(self, opening: str, diverged: bool) -> Iterator[None]:
        self.emit(opening)
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

    def choose(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self) -> str:
        """An expression with the same value in all lanes."""
        return self.choose("n", "1", "2", *self.counters)

    def index(self) -> str:
        k, c = self.number(), self.random.choice([1, 2, 3, 8, 31, 32])
        return self.choose(
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
        return self.choose("t", "u", f"t + {k}", f"{c}", k, f"t // {c + 1}", f"8 - t % {c + 1}", f"{k} * 2")

    def element(self) -> str:
        if self.planes and self.random.random() < 0.3:
            row, column = self.choose("u", "t % 6", "t // 8", self.number()), self.choose("t % 8", "u", "0")
            return f"{self.choose(*self.planes)}[{row}, {column}]"
        return f"{self.choose(*self.views)}[{self.index()}]"

    def value(self) -> str:
        x, k = self.choose(*self.values), self.number()
        return self.choose(
            *("t", f"t * 10 + {k}", f"{x} + {k}", f"{x} * 3 + 1"),
            *(f"{self.element()} + {k}", f"{self.element()} * 2 + {x}"),
            f"({self.element()} if {self.condition()} else {self.element()})",
            f"({x} if {self.condition()} else {k})",
        )

    def condition(self) -> str:
        k, c = self.number(), self.random.choice([1, 4, 8, 16])
        return self.choose(
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
        kinds = (
            [self.write_element] * 4
            + [self.update_element] * 2
            + [self.read_value] * 2
            + [self.view, self.plane]
        )
        if not self.diverged and self.depth < 2:
            kinds.append(self.swap_tiles)
        if depth and self.random.random() < 0.5:
            self.random.choice(
                [self.branch, self.branch, self.loop, self.loop, self.strided_loop, self.tree_reduction]
            )(depth - 1)
        else:
            self.random.choice(kinds)()

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)

    def write_element(self) -> None:
        index = self.element()
        self.emit(f"{index} = {self.choose(self.value(), self.value(), f'{index} * 10 + {self.number()}')}")

    def update_element(self) -> None:
        index = self.element()
        for _ in range(self.random.choice([1, 1, 2])):
            self.emit(
                f"{index} {self.choose('+=', '-=', '|=', '&=', '^=')} {self.choose(*self.values, self.number())}"
            )

    def read_value(self) -> None:
        name = self.fresh_name("x")
        self.emit(f"{name} = {self.value()}")
        self.values.append(name)

    def swap_tiles(self) -> None:
        self.emit("s, r = r, s")
        self.views, self.planes = ["s", "r"], []

    def view(self) -> None:
        name, base = self.fresh_name("w"), self.choose("s", "r")
        start, step = self.random.choice([0, 1, 8]), self.random.choice([1, 1, 2, -1])
        part = f"{base}[{start}::{step}]" if step > 0 else f"{base}[{SIZE - 1 - start}::-1]"
        if self.random.random() < 0.4:
            part = f"tg.tile_view({base}, offset={self.offset()}, shape={self.random.choice([8, 40])})"
        elif self.planes and self.random.random() < 0.6:
            part = f"{self.choose(*self.planes)}[{self.choose('u', 't // 8', self.number(), self.number())}]"
        self.emit(f"{name} = {part}")
        self.views.append(name)

    def plane(self) -> None:
        name = self.fresh_name("v")
        self.emit(
            f"{name} = tg.tile_reshape({self.choose('s', 'r')}, {self.choose('(12, 8)', '(6, 16)', '(3, 32)')})"
        )
        self.planes.append(name)

    def branch(self, depth: int) -> None:
        with self.nested_block(f"if {self.condition()}:", True):
            self.block(depth)
        if self.random.random() < 0.25:
            with self.nested_block("else:", True):
                self.block(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh_name("k")
        varying = self.random.random() < 0.3
        bounds = (
            self.choose("2", "n", "3, 0, -1", "n, n + 2")
            if not varying
            else self.choose("u", "t // 8", "u, 3")
        )
        with self.nested_block(f"for {k} in range({bounds}):", varying):
            self.counters.append(k)
            self.block(depth)

    def strided_loop(self, depth: int) -> None:
        """A loop in which each lane accesses elements with a constant stride, from a start that may vary between
        iterations."""
        k, index = self.fresh_name("k"), self.choose("s", "r", *self.views)
        start = self.choose("t", f"t + {self.number()}", "t + u")
        step = self.random.choice([self.lanes, self.lanes, 2 * self.lanes, 3])
        with self.nested_block(f"for {k} in range({start}, {self.random.choice([33, 64])}, {step}):", True):
            value = self.choose(f"= {index}[{k}] * 10 + {self.number()}", f"= {k} + u", f"+= {k}")
            self.emit(f"{index}[{k}] {value}")

    def tree_reduction(self, depth: int) -> None:
        k, base = self.fresh_name("m"), self.choose(*self.views)
        self.emit(f"{k} = {self.choose('4', '8', 'n * 4')}")
        with self.nested_block(f"while {k} > 0:", False):
            with self.nested_block(f"if t < {self.choose(k, k, k, '4')}:", True):
                self.emit(
                    self.choose(f"{base}[t] += {base}[t + {k}]", f"{base}[t] = {base}[t] + {base}[t + {k}]")
                )
            self.emit(f"{k} = {k} // 2")

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
        return [tg.array(INITIAL_TILES), tg.array(self.a), self.n]

    def __str__(self) -> str:
        return f"# {self.lanes} lanes, n {self.n}, a {self.a.tolist()}\n{self.text}"
