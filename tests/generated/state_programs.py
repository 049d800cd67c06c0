"""Random kernels whose tiles, views, stacks and numbers carry state through loops, and their meaning in Python.

Each statement is written twice: in the language, and on NumPy arrays for one block whose lanes are the elements of `j`.
Control flow is the same text. All numbers are small int32, so every order of additions gives the same result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from choices import ChoiceSource

import tegula as tg

BLOCKS = 2
TRIPS = 3
OUT = 1024
LIMIT = 1009
SHAPES: tuple[tuple[int, ...], ...] = ((8,), (16,), (40,), (4, 8), (3, 5), (160,))
BLOCK_DIMS = (8, 32, 5)


class Stack:
    """A model of `tile_stack` for one block: lanes push and pop in the order of their index."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.items = capacity, list[int]()

    def push(self, values: np.ndarray, expected: np.ndarray) -> None:
        for value, flag in zip(values, expected, strict=True):
            if flag and len(self.items) < self.capacity:
                self.items.append(int(value))

    def pop(self, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        values, slots = np.zeros(lanes, np.int32), np.full(lanes, -1, np.int32)
        for lane in range(min(lanes, len(self.items))):
            slots[lane] = len(self.items) - 1
            values[lane] = self.items.pop()
        return values, slots


@dataclass(frozen=True)
class Tile:
    """A tile in scope. `fixed`: the tile has views, is a view or is shared, so that its name must stay with its
    object."""

    name: str
    shape: tuple[int, ...]
    fixed: bool = False


@dataclass
class StateProgram:
    """The source of a kernel, and of its meaning for one block."""

    text: str
    meaning: str
    block_dim: int
    features: frozenset[str] = field(compare=False)

    def __str__(self) -> str:
        return f"# block_dim {self.block_dim}\n{self.text}\n{self.meaning}"

    @property
    def dims(self) -> tuple[int, int]:
        return BLOCKS, self.block_dim

    def kernel(self) -> Any:
        space: dict[str, Any] = {"tg": tg}
        exec(self.text, space)
        return tg.kernel(source=self.text)(space["kernel"])

    def arguments(self) -> list[Any]:
        data = np.random.default_rng(5).integers(0, LIMIT, 512).astype(np.int32)
        return [TRIPS, tg.array(data), tg.zeros(BLOCKS * OUT, dtype=tg.int32)]

    def expected(self) -> np.ndarray:
        """The expected output of the kernel."""
        n, a, out = self.arguments()
        space: dict[str, Any] = {"np": np, "Stack": Stack}
        exec(self.meaning, space)
        written = out.numpy().copy()
        for block in range(BLOCKS):
            space["block"](n, a.numpy(), written, np.int32(block), np.arange(self.block_dim, dtype=np.int32))
        return written


class StateProgramWriter:
    """Writes one program. `text` and `meaning` grow line by line with one indentation."""

    def __init__(self, choices: ChoiceSource) -> None:
        self.c = choices
        self.lanes = choices.pick(BLOCK_DIMS)
        self.text: list[str] = []
        self.meaning: list[str] = []
        self.depth, self.count, self.places = 1, 0, 0
        self.tiles: list[Tile] = []
        self.stacks: list[str] = []
        self.counters: list[str] = []
        self.loops = 0

    def program(self) -> StateProgram:
        self.both("u = tg.int32(b)", "u = int(b)")
        self.both("x = j * 3 + b")
        for _ in range(self.c.number(1, 3)):
            self.new_tile()
        for _ in range(self.c.number(1, 3)):
            self.new_stack()
        for _ in range(self.c.number(0, 1)):
            self.statement(0)
        for _ in range(self.c.number(1, 2)):
            self.loop(3)
            for _ in range(self.c.number(0, 2)):
                self.statement(1)
        self.results()
        head = "def kernel(n: int, a: tg.array[tg.int32], out: tg.array[tg.int32]):\n    b, j = tg.tid()\n"
        body, meaning = "\n".join(self.text), "\n".join(self.meaning)
        twin = f"def block(n, a, out, b, j):\n{meaning}\n"
        return StateProgram(f"{head}{body}\n", twin, self.lanes, frozenset(self.c.features))

    # Text ------------------------------------------------------------------------------------------------------------

    def both(self, text: str, meaning: str | None = None) -> None:
        self.text.append("    " * self.depth + text)
        self.meaning.append("    " * self.depth + (text if meaning is None else meaning))

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def inside(self, opening: str, meaning: str | None = None) -> Iterator[None]:
        self.both(opening, meaning)
        saved_names = list(self.tiles), list(self.stacks), list(self.counters)
        self.depth += 1
        yield
        self.depth -= 1
        self.tiles, self.stacks, self.counters = saved_names

    # Numbers and tiles -----------------------------------------------------------------------------------------------

    def uniform(self) -> str:
        """A number that is the same in all lanes, below a few thousand."""
        return self.c.pick(["u", "n", str(self.c.number(0, 9)), *self.counters])

    def lane(self) -> str:
        """A number of each lane, below LIMIT."""
        first, second = (self.c.pick(["j", "x", self.uniform()]) for _ in range(2))
        return f"((j * {self.c.number(0, 5)} + {first} + {second} * {self.c.number(1, 7)}) % {LIMIT})"

    def flag(self) -> str:
        return f"({self.lane()} % {self.c.number(2, 4)} != 0)"

    def whole(self, shape: tuple[int, ...], depth: int = 2) -> tuple[str, str]:
        """A tile expression with elements from 0 to LIMIT, in both languages."""
        if depth and self.c.chance(50):
            (a, b), (c, d) = self.whole(shape, depth - 1), self.whole(shape, depth - 1)
            factor = self.c.number(1, 5)
            return f"(({a} * {factor} + {c}) % {LIMIT})", f"(({b} * {factor} + {d}) % {LIMIT})"
        size = math.prod(shape)
        same = [t.name for t in self.tiles if t.shape == shape]
        kind = self.c.of([(4 if same else 0, "tile"), (1, "full"), (1, "arange"), (1, "load"), (1, "lanes")])
        if kind == "tile":
            name = self.c.pick(same)
            return f"({name} % {LIMIT})", f"({name} % {LIMIT})"
        if kind == "full":
            value = f"{self.uniform()} % {LIMIT}"
            return f"tg.tile_full({shape}, tg.int32({value}))", f"np.full({shape}, {value}, np.int32)"
        if kind == "load":
            index = self.c.number(0, 100)
            flat = f"tg.tile_load(a, shape={size}, offset={index})", f"a[{index}:{index + size}]"
        elif kind == "lanes" and shape == (self.lanes,):
            value = self.lane()
            flat = f"tg.tile({value})", value
        else:
            flat = f"tg.tile_arange({size}, dtype=tg.int32)", f"np.arange({size}, dtype=np.int32)"
        if len(shape) == 1:
            return flat
        return f"tg.tile_reshape({flat[0]}, {shape})", f"{flat[1]}.reshape({shape})"

    def some(self, dims: int = 0) -> Tile:
        """A tile in scope, optionally with a given number of dimensions."""
        matching = [t for t in self.tiles if not dims or len(t.shape) == dims]
        if not matching:
            self.new_tile(dims)
            return self.tiles[-1]
        return self.c.pick(matching)

    def new_tile(self, dims: int = 0) -> None:
        shape = self.c.pick([s for s in SHAPES if not dims or len(s) == dims])
        name, storage = self.fresh("t"), self.c.pick(["register", "shared"])
        self.c.note(f"storage {storage}")
        if storage == "shared":
            zeros = f"tg.tile_zeros({shape}, dtype=tg.int32, storage='shared')"
            self.both(f"{name} = {zeros}", f"{name} = np.zeros({shape}, np.int32)")
        else:
            text, meaning = self.whole(shape)
            self.both(f"{name} = {text}", f"{name} = np.array({meaning})")
        self.tiles.append(Tile(name, shape, storage == "shared"))

    def new_stack(self) -> None:
        name, capacity = self.fresh("s"), self.c.pick([3, 16, 40, 200])
        self.both(f"{name} = tg.tile_stack({capacity}, tg.int32)", f"{name} = Stack({capacity})")
        self.stacks.append(name)

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        if depth and self.c.chance(25):
            self.c.of([(2, self.loop), (3, self.branch)])(depth - 1)
            return
        kinds = [
            *((2, self.new_tile), (1, self.new_stack), (2, self.assign), (2, self.rebind), (2, self.inplace)),
            *((3, self.write), (3, self.add), (2, self.part), (3, self.view), (2, self.scatter)),
            *((2, self.reduce), (3, self.read), (1, self.lane_branch), (1, self.matmul), (1, self.late)),
            (3, self.temporary),
        ]
        if self.stacks:
            kinds += [(5, self.push), (4, self.pop), (1, self.clear), (1, self.stack_count)]
        self.c.of(kinds)()

    def assign(self) -> None:
        t = self.some()
        text, meaning = self.whole(t.shape)
        self.c.note("assign")
        self.both(f"tg.tile_assign({t.name}, {text})", f"{t.name}[...] = {meaning}")

    def rebind(self) -> None:
        free = [t for t in self.tiles if not t.fixed]
        if not free:
            return self.assign()
        t = self.c.pick(free)
        text, meaning = self.whole(t.shape)
        self.c.note("rebind")
        self.both(f"{t.name} = {text}", f"{t.name} = np.array({meaning})")

    def inplace(self) -> None:
        t = self.some()
        text, meaning = self.whole(t.shape)
        self.c.note("in place")
        self.both(f"{t.name} += {text}", f"{t.name} += {meaning}")

    def write(self) -> None:
        """Lanes write some elements, each by one lane."""
        t = self.some(1)
        (size,), shift, value = t.shape, self.c.number(0, 9), self.lane()
        few = self.c.number(1, min(size, self.lanes))
        self.c.note("element =")
        with self.inside(f"if j < {few}:", "if True:"):
            self.both(
                f"{t.name}[(j + {shift}) % {size}] = {value}",
                f"{t.name}[((j + {shift}) % {size})[:{few}]] = np.broadcast_to({value}, j.shape)[:{few}]",
            )

    def add(self) -> None:
        t = self.some(1)
        index = f"(j * {self.c.number(0, 3)} + {self.c.number(0, 9)}) % {t.shape[0]}"
        value = self.lane()
        self.c.note("element +=")
        self.both(f"{t.name}[{index}] += {value}", f"np.add.at({t.name}, {index}, {value})")

    def part(self) -> None:
        t = self.some()
        stop = self.c.number(1, t.shape[0])
        start = self.c.number(0, stop - 1)
        text, meaning = self.whole((stop - start, *t.shape[1:]))
        self.c.note("slice =")
        self.both(f"{t.name}[{start}:{stop}] = {text}", f"{t.name}[{start}:{stop}] = {meaning}")

    def view(self) -> None:
        t = self.some()
        stop = self.c.number(1, t.shape[0])
        start = self.c.number(0, stop - 1)
        slice_text, n = self.c.pick(
            [(f"{start}:{stop}", stop - start), ("::-1", t.shape[0]), ("::2", -(-t.shape[0] // 2))]
        )
        name = self.fresh("v")
        self.c.note("view")
        self.both(f"{name} = {t.name}[{slice_text}]")
        self.tiles = [Tile(x.name, x.shape, True) if x.name == t.name else x for x in self.tiles]
        self.tiles.append(Tile(name, (n, *t.shape[1:]), True))

    def temporary(self) -> None:
        """A tile in memory that is dead after the next statement."""
        self.new_tile(1)
        t = self.tiles.pop()
        (size,), name, value = t.shape, t.name, self.lane()
        self.c.note("temporary")
        self.both(f"{name}[j % {size}] += {value}", f"np.add.at({name}, j % {size}, {value})")
        self.both(f"x = (x + {name}[(j * 3 + 1) % {size}]) % {LIMIT}")

    def scatter(self) -> None:
        t = self.some(1)
        index, value, flag = (
            f"(j * {self.c.number(0, 3)} + {self.c.number(0, 9)}) % {t.shape[0]}",
            self.lane(),
            self.flag(),
        )
        self.c.note("scatter add")
        self.both(
            f"tg.tile_scatter_add({t.name}, {index}, {value}, {flag})",
            f"np.add.at({t.name}, {index}, np.where({flag}, {value}, 0))",
        )

    def reduce(self) -> None:
        t = self.some()
        op = self.c.pick(["sum", "max", "min"])
        self.c.note(f"tile_{op}")
        self.both(
            f"u = (u * 3 + tg.tile_{op}({t.name} % {LIMIT})[0]) % {LIMIT}",
            f"u = int((u * 3 + ({t.name} % {LIMIT}).{op}()) % {LIMIT})",
        )

    def read(self) -> None:
        """Each lane reads an element that other lanes may have written."""
        t = self.some(1)
        index = f"(j * {self.c.number(0, 3)} + {self.c.number(0, 9)}) % {t.shape[0]}"
        self.c.note("element read")
        self.both(f"x = (x * 5 + {t.name}[{index}] % {LIMIT}) % {LIMIT}")

    def lane_branch(self) -> None:
        t = self.some(1)
        index, value, flag = f"(j + {self.c.number(0, 9)}) % {t.shape[0]}", self.lane(), self.flag()
        name = self.fresh("c")
        self.c.note("lane if")
        self.both(f"{name} = {flag}")
        with self.inside(f"if {name}:", "if True:"):
            self.both(
                f"{t.name}[{index}] += {value}", f"np.add.at({t.name}, {index}, np.where({name}, {value}, 0))"
            )
            self.both(f"x = {value} + 1", f"x = np.where({name}, {value} + 1, x)")

    def matmul(self) -> None:
        flat = [t for t in self.tiles if len(t.shape) == 2]
        if not flat:
            return self.inplace()
        t = self.c.pick(flat)
        (a, c), (b, d) = (self.whole(s, 1) for s in ((t.shape[0], 2), (2, t.shape[1])))
        self.c.note("tile_matmul")
        self.both(f"tg.tile_matmul({a} % 8, {b} % 8, {t.name})", f"{t.name} += ({c} % 8) @ ({d} % 8)")

    def late(self) -> None:
        """An uninitialised tile, which the first iteration writes and later iterations read and change."""
        size, name, k = self.c.number(1, self.lanes), self.fresh("e"), self.fresh("k")
        storage = self.c.pick(["register", "shared"])
        self.c.note("tile_empty")
        self.both(
            f"{name} = tg.tile_empty({size}, dtype=tg.int32, storage='{storage}')",
            f"{name} = np.zeros({size}, np.int32)",
        )
        with self.inside(f"for {k} in range({TRIPS}):"):
            self.both(f"if {k} == 0:")
            with self.inside(f"    if j < {size}:", "    if True:"):
                value = self.lane()
                self.both(
                    f"    {name}[j] = {value}",
                    f"    {name}[j[:{size}]] = np.broadcast_to({value}, j.shape)[:{size}]",
                )
            self.counters.append(k)
            self.statement(0)
            self.both(f"{name}[{k} % {size}] += 1", f"{name}[{k} % {size}] += {self.lanes}")
            self.both(f"x = (x + {name}[(j + {k}) % {size}]) % {LIMIT}")
        self.tiles.append(Tile(name, (size,), True))

    # Stacks ----------------------------------------------------------------------------------------------------------

    def push(self) -> None:
        s, value, flag = self.c.pick(self.stacks), self.lane(), self.flag()
        self.c.note("push")
        self.both(
            f"tg.tile_stack_push({s}, {value}, {flag})",
            f"{s}.push(np.broadcast_to({value}, j.shape), np.broadcast_to({flag}, j.shape))",
        )

    def pop(self) -> None:
        s, value, slot = self.c.pick(self.stacks), self.fresh("p"), self.fresh("q")
        self.c.note("pop")
        self.both(f"{value}, {slot} = tg.tile_stack_pop({s})", f"{value}, {slot} = {s}.pop(len(j))")
        self.both(f"x = (x * 7 + {value} * 3 + {slot} + 1) % {LIMIT}")

    def clear(self) -> None:
        s = self.c.pick(self.stacks)
        self.c.note("clear")
        self.both(f"tg.tile_stack_clear({s})", f"{s}.items.clear()")

    def stack_count(self) -> None:
        s = self.c.pick(self.stacks)
        self.c.note("count")
        self.both(f"u = (u + tg.tile_stack_count({s})) % {LIMIT}", f"u = (u + len({s}.items)) % {LIMIT}")

    # Control flow ----------------------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        for _ in range(self.c.number(1, 4)):
            self.statement(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh("k")
        steps = self.c.pick(["n", "2", "n, 0, -1", "1, n + 2", "while"])
        self.c.note("while" if steps == "while" else f"range({steps})")
        if steps == "while":
            self.both(f"{k} = 0")
        opening = f"while {k} < {self.c.number(1, 3)}:" if steps == "while" else f"for {k} in range({steps}):"
        with self.inside(opening):
            if steps == "while":
                self.both(f"{k} += 1")
            self.counters.append(k)
            self.block(depth)
            if self.c.chance(30):
                exit_statement = self.c.pick(["break", "continue"])
                self.c.note(exit_statement)
                self.both(f"if ({self.uniform()} + {k}) % 3 == 1:")
                self.both(f"    {exit_statement}")
                self.block(0)

    def branch(self, depth: int) -> None:
        self.c.note("if")
        with self.inside(f"if ({self.uniform()} + {self.uniform()}) % 2 == 0:"):
            self.block(depth)
        if self.c.chance(50):
            with self.inside("else:"):
                self.block(depth)

    # The end ---------------------------------------------------------------------------------------------------------

    def stored(self, text: str, meaning: str, size: int) -> None:
        if self.places + size > OUT:
            return
        index = f"b * {OUT} + {self.places}"
        self.places += size
        self.both(f"tg.tile_store(out, {text}, offset={index})", f"out[{index}:{index} + {size}] = {meaning}")

    def results(self) -> None:
        """The outputs: numbers of lanes, and some of the tiles and stacks; other tiles are used in loops only."""
        self.stored("tg.tile(x)", "x", self.lanes)
        self.stored("tg.tile_full(1, u)", "u", 1)
        for s in [s for s in self.stacks if self.c.chance(25)]:
            value, slot = self.fresh("p"), self.fresh("q")
            self.both(f"{value}, {slot} = tg.tile_stack_pop({s})", f"{value}, {slot} = {s}.pop(len(j))")
            self.stored(f"tg.tile({value} + {slot} * {LIMIT})", f"{value} + {slot} * {LIMIT}", self.lanes)
        for t in [t for t in self.tiles if self.c.chance(40)]:
            size = math.prod(t.shape)
            flat = t.name if len(t.shape) == 1 else f"tg.tile_reshape(tg.copy({t.name}), {size})"
            self.stored(flat, f"{t.name}.reshape({size})", size)
