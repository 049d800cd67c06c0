"""Programs about names of tiles, and their results in Python on NumPy arrays.

A program is one text for both. In Python its `tg` is `TileFunctions`: tiles and views are NumPy arrays. `bind`,
`passed` and `given`, which the kernel omits, define the values of names, arguments and results: a register tile that
has a name is copied for a second name and when a function returns it; in other cases the object itself is used."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES = {"a": (6,), "b": (6,), "c": (6,), "v": (3,), "w": (3,), "m": (2, 3), "u": (3, 2)}
"""The names of tiles by shape."""


# The meaning ---------------------------------------------------------------------------------------------------------


class Tile:
    """A tile in Python: an array or a view of one, whether it was declared shared, and whether it has a name."""

    def __init__(self, array: np.ndarray, shared: bool = False) -> None:
        self.array, self.shared, self.named = array, shared, False

    def __getitem__(self, index: Any) -> Any:
        return Tile(self.array[index], self.shared)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value.array if isinstance(value, Tile) else value

    def __add__(self, other: Any) -> Tile:
        return Tile(self.array + (other.array if isinstance(other, Tile) else other))

    def __iadd__(self, other: Any) -> Tile:
        self.array += other.array if isinstance(other, Tile) else other
        return self

    def copy(self) -> Tile:
        return Tile(self.array.copy())


def bind(x: Any) -> Any:
    """The value of a name that is bound to x."""
    if isinstance(x, tuple):
        return tuple(map(bind, x))
    x = x.copy() if x.named and not x.shared else x
    x.named = True
    return x


def passed(x: Any) -> Any:
    """The value of a parameter for the argument x."""
    for part in x if isinstance(x, tuple) else (x,):
        part.named = True
    return x


def given(x: Any) -> Any:
    """The value of a call whose function returns x."""
    if isinstance(x, tuple):
        return tuple(map(given, x))
    return x.copy() if x.named and not x.shared else x


class TileFunctions:
    """The functions of `tg` that programs use."""

    array2d: Mapping[type, Any] = {int: np.ndarray}

    @staticmethod
    def tile_full(shape: Any, value: int, dtype: Any = int, storage: str = "register") -> Tile:
        return Tile(np.full(shape, value, np.int32), storage == "shared")

    @staticmethod
    def tile_view(t: Tile, start: int, shape: int) -> Tile:
        return t[start : start + shape]

    @staticmethod
    def tile_transpose(t: Tile) -> Tile:
        return Tile(t.array.T, t.shared)

    @staticmethod
    def tile_reshape(t: Tile, shape: Any) -> Tile:
        return Tile(t.array.reshape(shape), t.shared)

    @staticmethod
    def tile_store(row: np.ndarray, t: Tile) -> None:
        row[: t.array.size] = t.array.ravel()


def run_plain(texts: Sequence[str], o: np.ndarray, n: int) -> None:
    """Run a program by Python itself; o changes."""
    space: dict[str, Any] = {"tg": TileFunctions, "bind": bind, "passed": passed, "given": given}
    for text in texts:
        exec(text, space)
    space["kernel"](o, n)


def kernel_text(text: str) -> str:
    """The program without the parts that only Python needs."""
    text = re.sub(r" *(q\w+) = bind\(\1\)\n", "", text)  # a loop's target is a name like others
    return re.sub(r"\b(?:bind|passed|given)\(", "(", text)


# Programs ------------------------------------------------------------------------------------------------------------


@dataclass
class Program:
    """Functions, in the order of their definition, and the kernel; all take names of `SHAPES`."""

    functions: dict[str, str]
    kernel: str

    @property
    def texts(self) -> list[str]:
        return [*self.functions.values(), self.kernel]


@dataclass
class Function:
    name: str
    parameters: list[str]
    result: tuple[int, ...] | None


@dataclass
class FunctionWriter:
    """Writes the statements of one function. `names`: the tiles that are bound; `pairs`: the names of tuples, with
    their tiles; `result`: the shape of the returned tile; `shared`: the probability that a new tile is declared
    shared."""

    rng: random.Random
    names: list[str]
    functions: list[Function]
    result: tuple[int, ...] | None
    is_kernel: bool
    shared: float
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    loops: int = 0
    counters: int = 0
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: int = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def number(self) -> str:
        known = ["n", *(f"k{i}" for i in range(self.loops))]
        return f"({self.rng.choice(known)} + {self.rng.randrange(5)})"

    def condition(self) -> str:
        d = self.rng.choice([2, 2, 3])
        return f"{self.number()} % {d} {self.rng.choice(['==', '>', '<', '!='])} {self.rng.randrange(d)}"

    # Expressions: text of a tile of a shape --------------------------------------------------------------------------

    def fresh(self, shape: tuple[int, ...]) -> str:
        like = [x for x in self.names if SHAPES[x] == shape]
        if like and self.rng.random() < 0.3:
            return f"{self.rng.choice(like)} + {self.rng.randrange(1, 9)}"
        storage = "shared" if self.rng.random() < self.shared else "register"
        size = shape if len(shape) > 1 else shape[0]
        return f'tg.tile_full({size}, {self.rng.randrange(50)} + n, int, storage="{storage}")'

    def views(self, shape: tuple[int, ...]) -> list[str]:
        """Views that have the shape, of named tiles."""
        k = f"{self.number()} % 2"
        views_by_shape: dict[tuple[int, ...], dict[tuple[int, ...], list[str]]] = {
            (3,): {
                (6,): ["{}[0:3]", "{}[3:6]", "{}[::2]", "{}[::-2]", f"tg.tile_view({{}}, {k}, shape=3)"],
                (3,): ["{}[::-1]", "{}[0:3]"],
                (2, 3): ["{}[0]", f"{{}}[{k}]", f"{{}}[{k}, ::-1]"],
                (3, 2): ["{}[:, 1]", f"{{}}[:, {k}]"],
            },
            (6,): {
                (6,): ["{}[::-1]"],
                (2, 3): ["tg.tile_reshape({}, 6)"],
                (3, 2): ["tg.tile_reshape({}, 6)"],
            },
            (2, 3): {
                (6,): ["tg.tile_reshape({}, (2, 3))"],
                (3, 2): ["tg.tile_transpose({})"],
                (2, 3): ["{}[::-1]", "{}[:, ::-1]"],
            },
            (3, 2): {
                (6,): ["tg.tile_reshape({}, (3, 2))"],
                (2, 3): ["tg.tile_transpose({})"],
                (3, 2): ["{}[::-1]"],
            },
        }
        return [t.format(x) for x in self.names for t in views_by_shape[shape].get(SHAPES[x], [])]

    def tile(self, shape: tuple[int, ...], deep: int = 0) -> str:
        same = [x for x in self.names if SHAPES[x] == shape]
        kind = self.rng.random()
        views = [v for v in self.views(shape) if "reshape" not in v or self.rng.random() < 0.5]
        if kind < 0.4 and views:
            return self.rng.choice(views)
        if kind < 0.6 and same:
            return self.rng.choice(same)
        if kind < 0.72 and deep < 2:
            return f"({self.tile(shape, deep + 1)} if {self.condition()} else {self.tile(shape, deep + 1)})"
        makers = [f for f in self.functions if f.result == shape]
        if kind < 0.8 and makers and deep < 2:
            return self.call(self.rng.choice(makers), deep + 1)
        pairs = [
            f"{p}[{i}]" for p, second in self.pairs.items() for i in (0, 1) if SHAPES[second[i]] == shape
        ]
        if kind < 0.85 and pairs:
            return self.rng.choice(pairs)
        return self.fresh(shape)

    def call(self, f: Function, deep: int = 0) -> str:
        args = [f"passed({self.tile(SHAPES[p], deep + 1)})" for p in f.parameters]
        text = f"{f.name}({', '.join([*args, 'n'])})"
        return f"given({text})" if f.result is not None else text

    # Statements ------------------------------------------------------------------------------------------------------

    def block(self, count: int) -> None:
        self.depth += 1
        self.change()
        for _ in range(self.rng.randrange(count)):
            self.statement()
        self.depth -= 1

    def statement(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.change()
            return
        kinds: list[tuple[float, Callable[[], None]]] = [
            (5, self.bind),
            (6, self.change),
            (1, self.swap),
            (0.7, self.pair),
            (0.5, self.each),
            (1.5 if self.functions else 0, self.called),
        ]
        if self.depth < 5:
            kinds += [(3, self.branch), (1.2, self.counted), (0.7, self.repeated)]
        if self.depth > 1 and (self.loops or self.counters):
            kinds.append((0.6, self.leave))
        if self.depth > 1 and not self.is_kernel:
            kinds.append((0.6, self.returned))
        weights, actions = zip(*kinds, strict=True)
        self.rng.choices(actions, weights)[0]()

    def bind(self) -> None:
        name = self.rng.choice(self.names)
        self.add(f"{name} = bind({self.tile(SHAPES[name])})")

    def change(self) -> None:
        name = self.rng.choice(self.names)
        index = ", ".join(str(self.rng.randrange(n)) for n in SHAPES[name])
        like = [x for x in self.names if SHAPES[x] == SHAPES[name]]
        self.add(
            self.rng.choice(
                [
                    f"{name} += {self.rng.randrange(1, 99)}",
                    f"{name} += {self.rng.randrange(1, 99)}",
                    f"{name}[{index}] = {self.rng.randrange(99)} + n",
                    f"{name} += {self.rng.choice(like)} + 1",
                    f"{name}[0:1] = {self.rng.randrange(99)}",
                ]
            )
        )

    def swap(self) -> None:
        x = self.rng.choice(self.names)
        y = self.rng.choice([z for z in self.names if SHAPES[z] == SHAPES[x]])
        if x != y:
            self.add(f"{x}, {y} = bind(({self.tile(SHAPES[x])}, {x}))")

    def pair(self) -> None:
        x, y = self.rng.choices(self.names, k=2)
        name = f"p{len(self.pairs)}"
        if self.depth == 1 and self.rng.random() < 0.5:
            self.add(f"{name} = bind(({self.tile(SHAPES[x])}, {y}))")
            self.pairs[name] = (x, y)
        elif self.pairs:
            known, (x, y) = self.rng.choice(list(self.pairs.items()))
            self.add(
                self.rng.choice(
                    [
                        f"{known} = bind(({x}, {self.tile(SHAPES[y])}))",
                        f"{x}, {y} = bind({known})" if x != y else f"{x} = bind({known}[0])",
                        f"{known} = bind(({x}, {y}) if {self.condition()} else {known})",
                    ]
                )
            )

    def each(self) -> None:
        x, y = self.rng.choices(self.names, k=2)
        if SHAPES[x] == SHAPES[y]:
            q = "q" + "x".join(map(str, SHAPES[x]))
            self.add(f"for {q} in ({x}, {y}):")
            self.add(f"    {q} = bind({q})")
            self.add(f"    {q} += {self.rng.randrange(9)}")
            self.add(f"    {x} = bind({q})")

    def called(self) -> None:
        f = self.rng.choice(self.functions)
        if f.result is None:
            self.add(self.call(f))
            return
        name = self.rng.choice([x for x in self.names if SHAPES[x] == f.result] or [""])
        if name:
            self.add(f"{name} = bind({self.call(f)})")

    def branch(self) -> None:
        self.add(f"if {self.condition()}:")
        self.block(3)
        if self.rng.random() < 0.5:
            self.add("else:")
            self.block(3)

    def counted(self) -> None:
        bound = self.rng.choice(["3", "n", f"{self.number()} % 4"])
        self.add(f"for k{self.loops} in range({bound}):")
        self.loops += 1
        self.block(4)
        self.loops -= 1

    def repeated(self) -> None:
        name = f"z{self.counters}"
        self.counters += 1
        self.add(f"{name} = {self.number()} % 4")
        self.add(f"while {name} > 0:")
        self.add(f"    {name} -= 1")
        self.block(4)

    def leave(self) -> None:
        inside = [line.strip() for line in self.lines if line.startswith("    " * (self.depth - 1))]
        if any(line.startswith(("for k", "while")) for line in inside) and self.in_loop():
            self.add(f"if {self.condition()}:")
            self.add("    " + self.rng.choice(["break", "continue"]))

    def in_loop(self) -> bool:
        """Whether the next line is inside a loop."""
        depth = self.depth
        for line in reversed(self.lines):
            indentation = (len(line) - len(line.lstrip())) // 4
            if indentation < depth:
                depth = indentation
                if line.strip().startswith(("for k", "while")):
                    return True
        return False

    def returned(self) -> None:
        self.add(f"if {self.condition()}:")
        self.add("    return" + ("" if self.result is None else f" {self.tile(self.result)}"))


def generate(seed: int, shared: float = 0.0) -> Program:
    """A program; `shared`: how many of its new tiles are declared shared."""
    rng = random.Random(seed)
    functions: dict[str, str] = {}
    known: list[Function] = []
    for k in range(rng.randrange(3)):
        parameters = rng.sample(list(SHAPES), rng.randrange(1, 4))
        result = SHAPES[rng.choice(parameters)] if rng.random() < 0.6 else None
        writer = FunctionWriter(rng, [*parameters], [*known], result, False, shared, left=8)
        writer.change()
        for _ in range(rng.randrange(1, 6)):
            writer.statement()
        if result is not None:
            writer.add(f"return {writer.tile(result)}")
        name = f"f{k}"
        head = f"def {name}({', '.join(parameters)}, n: int):\n"
        functions[name] = head + "\n".join(writer.lines) + "\n"
        known.append(Function(name, parameters, result))
    names = rng.sample(list(SHAPES), rng.randrange(2, 6))
    writer = FunctionWriter(rng, names, known, None, True, shared, left=14)
    writer.names = []
    for name in names:
        writer.add(f"{name} = bind({writer.fresh(SHAPES[name])})")
        writer.names.append(name)
    for _ in range(rng.randrange(4, 11)):
        writer.statement()
    for row, name in enumerate(names):
        flat = name if len(SHAPES[name]) == 1 else f"tg.tile_reshape({name} + 0, 6)"
        writer.add(f"tg.tile_store(o[{row}], {flat})")
    return Program(functions, "def kernel(o: tg.array2d[int], n: int):\n" + "\n".join(writer.lines) + "\n")
