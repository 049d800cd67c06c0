"""Programs about names of tiles, and their results in Python on NumPy arrays.

The text of a program is the same for both. In Python, `tg` is `TileFunctions`: tiles and views are NumPy arrays.
`bind`, `as_argument` and `as_result`, which the kernel omits, define the values of names, arguments and results: a
register tile that has a name is copied for a second name and when a function returns it; in other cases the object
itself is used."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES = {"a": (6,), "b": (6,), "c": (6,), "v": (3,), "w": (3,), "m": (2, 3), "u": (3, 2)}
"""The shapes of tiles by name."""


# The meaning ---------------------------------------------------------------------------------------------------------


class Tile:
    """A tile in Python: an array or a view of an array, whether it was declared shared, and whether it has a name."""

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


def as_argument(x: Any) -> Any:
    """The value of a parameter for the argument x."""
    for part in x if isinstance(x, tuple) else (x,):
        part.named = True
    return x


def as_result(x: Any) -> Any:
    """The value of a call of a function that returns x."""
    if isinstance(x, tuple):
        return tuple(map(as_result, x))
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


def run_in_python(texts: Sequence[str], o: np.ndarray, n: int) -> None:
    """Run a program in Python; o is modified."""
    space: dict[str, Any] = {
        "tg": TileFunctions,
        "bind": bind,
        "as_argument": as_argument,
        "as_result": as_result,
    }
    for text in texts:
        exec(text, space)
    space["kernel"](o, n)


def kernel_text(text: str) -> str:
    """The text of the program without the calls that only Python needs."""
    text = re.sub(r" *(q\w+) = bind\(\1\)\n", "", text)  # a loop's target is a name candidates others
    return re.sub(r"\b(?:bind|as_argument|as_result)\(", "(", text)


# Programs ------------------------------------------------------------------------------------------------------------


@dataclass
class Program:
    """The texts of functions in the order of their definition, and of the kernel. The names of their tiles are keys of
    `SHAPES`."""

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
    """Writes the statements of a function. `names`: the tiles that are bound; `pairs`: the names of tuples, with the
    tiles that determine their shapes; `result`: the shape of the returned tile; `shared`: the probability that a new
    tile is declared shared; `remaining`: the number of statements that may follow."""

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
    remaining: int = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def number(self) -> str:
        counters = ["n", *(f"k{i}" for i in range(self.loops))]
        return f"({self.rng.choice(counters)} + {self.rng.randrange(5)})"

    def condition(self) -> str:
        d = self.rng.choice([2, 2, 3])
        return f"{self.number()} % {d} {self.rng.choice(['==', '>', '<', '!='])} {self.rng.randrange(d)}"

    # Expressions: text of a tile of a shape --------------------------------------------------------------------------

    def new_tile(self, shape: tuple[int, ...]) -> str:
        candidates = [x for x in self.names if SHAPES[x] == shape]
        if candidates and self.rng.random() < 0.3:
            return f"{self.rng.choice(candidates)} + {self.rng.randrange(1, 9)}"
        storage = "shared" if self.rng.random() < self.shared else "register"
        size = shape if len(shape) > 1 else shape[0]
        return f'tg.tile_full({size}, {self.rng.randrange(50)} + n, int, storage="{storage}")'

    def views(self, shape: tuple[int, ...]) -> list[str]:
        """Expressions for views of named tiles with a shape."""
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

    def tile(self, shape: tuple[int, ...], nesting: int = 0) -> str:
        candidates = [x for x in self.names if SHAPES[x] == shape]
        kind = self.rng.random()
        views = [v for v in self.views(shape) if "reshape" not in v or self.rng.random() < 0.5]
        if kind < 0.4 and views:
            return self.rng.choice(views)
        if kind < 0.6 and candidates:
            return self.rng.choice(candidates)
        if kind < 0.72 and nesting < 2:
            return f"({self.tile(shape, nesting + 1)} if {self.condition()} else {self.tile(shape, nesting + 1)})"
        producers = [f for f in self.functions if f.result == shape]
        if kind < 0.8 and producers and nesting < 2:
            return self.call(self.rng.choice(producers), nesting + 1)
        pairs = [f"{p}[{i}]" for p, tiles in self.pairs.items() for i in (0, 1) if SHAPES[tiles[i]] == shape]
        if kind < 0.85 and pairs:
            return self.rng.choice(pairs)
        return self.new_tile(shape)

    def call(self, f: Function, nesting: int = 0) -> str:
        args = [f"as_argument({self.tile(SHAPES[p], nesting + 1)})" for p in f.parameters]
        text = f"{f.name}({', '.join([*args, 'n'])})"
        return f"as_result({text})" if f.result is not None else text

    # Statements ------------------------------------------------------------------------------------------------------

    def block(self, count: int) -> None:
        self.depth += 1
        self.modify_tile()
        for _ in range(self.rng.randrange(count)):
            self.statement()
        self.depth -= 1

    def statement(self) -> None:
        self.remaining -= 1
        if self.remaining < 0:
            self.modify_tile()
            return
        kinds: list[tuple[float, Callable[[], None]]] = [
            (5, self.bind_name),
            (6, self.modify_tile),
            (1, self.swap),
            (0.7, self.bind_tuple),
            (0.5, self.loop_over_tuple),
            (1.5 if self.functions else 0, self.call_statement),
        ]
        if self.depth < 5:
            kinds += [(3, self.branch), (1.2, self.counted_loop), (0.7, self.while_loop)]
        if self.depth > 1 and (self.loops or self.counters):
            kinds.append((0.6, self.leave_loop))
        if self.depth > 1 and not self.is_kernel:
            kinds.append((0.6, self.early_return))
        weights, actions = zip(*kinds, strict=True)
        self.rng.choices(actions, weights)[0]()

    def bind_name(self) -> None:
        name = self.rng.choice(self.names)
        self.emit(f"{name} = bind({self.tile(SHAPES[name])})")

    def modify_tile(self) -> None:
        name = self.rng.choice(self.names)
        index = ", ".join(str(self.rng.randrange(n)) for n in SHAPES[name])
        candidates = [x for x in self.names if SHAPES[x] == SHAPES[name]]
        self.emit(
            self.rng.choice(
                [
                    f"{name} += {self.rng.randrange(1, 99)}",
                    f"{name} += {self.rng.randrange(1, 99)}",
                    f"{name}[{index}] = {self.rng.randrange(99)} + n",
                    f"{name} += {self.rng.choice(candidates)} + 1",
                    f"{name}[0:1] = {self.rng.randrange(99)}",
                ]
            )
        )

    def swap(self) -> None:
        x = self.rng.choice(self.names)
        y = self.rng.choice([z for z in self.names if SHAPES[z] == SHAPES[x]])
        if x != y:
            self.emit(f"{x}, {y} = bind(({self.tile(SHAPES[x])}, {x}))")

    def bind_tuple(self) -> None:
        x, y = self.rng.choices(self.names, k=2)
        name = f"p{len(self.pairs)}"
        if self.depth == 1 and self.rng.random() < 0.5:
            self.emit(f"{name} = bind(({self.tile(SHAPES[x])}, {y}))")
            self.pairs[name] = (x, y)
        elif self.pairs:
            tuple_name, (x, y) = self.rng.choice(list(self.pairs.items()))
            self.emit(
                self.rng.choice(
                    [
                        f"{tuple_name} = bind(({x}, {self.tile(SHAPES[y])}))",
                        f"{x}, {y} = bind({tuple_name})" if x != y else f"{x} = bind({tuple_name}[0])",
                        f"{tuple_name} = bind(({x}, {y}) if {self.condition()} else {tuple_name})",
                    ]
                )
            )

    def loop_over_tuple(self) -> None:
        x, y = self.rng.choices(self.names, k=2)
        if SHAPES[x] == SHAPES[y]:
            q = "q" + "x".join(map(str, SHAPES[x]))
            self.emit(f"for {q} in ({x}, {y}):")
            self.emit(f"    {q} = bind({q})")
            self.emit(f"    {q} += {self.rng.randrange(9)}")
            self.emit(f"    {x} = bind({q})")

    def call_statement(self) -> None:
        f = self.rng.choice(self.functions)
        if f.result is None:
            self.emit(self.call(f))
            return
        name = self.rng.choice([x for x in self.names if SHAPES[x] == f.result] or [""])
        if name:
            self.emit(f"{name} = bind({self.call(f)})")

    def branch(self) -> None:
        self.emit(f"if {self.condition()}:")
        self.block(3)
        if self.rng.random() < 0.5:
            self.emit("else:")
            self.block(3)

    def counted_loop(self) -> None:
        bound = self.rng.choice(["3", "n", f"{self.number()} % 4"])
        self.emit(f"for k{self.loops} in range({bound}):")
        self.loops += 1
        self.block(4)
        self.loops -= 1

    def while_loop(self) -> None:
        name = f"z{self.counters}"
        self.counters += 1
        self.emit(f"{name} = {self.number()} % 4")
        self.emit(f"while {name} > 0:")
        self.emit(f"    {name} -= 1")
        self.block(4)

    def leave_loop(self) -> None:
        enclosing_lines = [line.strip() for line in self.lines if line.startswith("    " * (self.depth - 1))]
        if any(line.startswith(("for k", "while")) for line in enclosing_lines) and self.in_loop():
            self.emit(f"if {self.condition()}:")
            self.emit("    " + self.rng.choice(["break", "continue"]))

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

    def early_return(self) -> None:
        self.emit(f"if {self.condition()}:")
        self.emit("    return" + ("" if self.result is None else f" {self.tile(self.result)}"))


def generate(seed: int, shared: float = 0.0) -> Program:
    """A program; `shared`: the probability that a new tile is declared shared."""
    rng = random.Random(seed)
    functions: dict[str, str] = {}
    defined: list[Function] = []
    for k in range(rng.randrange(3)):
        parameters = rng.sample(list(SHAPES), rng.randrange(1, 4))
        result = SHAPES[rng.choice(parameters)] if rng.random() < 0.6 else None
        writer = FunctionWriter(rng, [*parameters], [*defined], result, False, shared, remaining=8)
        writer.modify_tile()
        for _ in range(rng.randrange(1, 6)):
            writer.statement()
        if result is not None:
            writer.emit(f"return {writer.tile(result)}")
        name = f"f{k}"
        head = f"def {name}({', '.join(parameters)}, n: int):\n"
        functions[name] = head + "\n".join(writer.lines) + "\n"
        defined.append(Function(name, parameters, result))
    names = rng.sample(list(SHAPES), rng.randrange(2, 6))
    writer = FunctionWriter(rng, names, defined, None, True, shared, remaining=14)
    writer.names = []
    for name in names:
        writer.emit(f"{name} = bind({writer.new_tile(SHAPES[name])})")
        writer.names.append(name)
    for _ in range(rng.randrange(4, 11)):
        writer.statement()
    for row, name in enumerate(names):
        flat = name if len(SHAPES[name]) == 1 else f"tg.tile_reshape({name} + 0, 6)"
        writer.emit(f"tg.tile_store(o[{row}], {flat})")
    return Program(functions, "def kernel(o: tg.array2d[int], n: int):\n" + "\n".join(writer.lines) + "\n")
