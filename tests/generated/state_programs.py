"""Random kernels whose tiles, views, stacks and numbers carry state through loops, and their reference in Python.

Each statement is emitted twice: in the language, and on NumPy arrays for one block whose lanes are the elements of `j`.
The text of control flow is the same in both. All numbers are small int32, so additions give the same result in every
order."""

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
OUTPUT_SIZE = 1024
MODULUS = 1009
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
    """A tile in scope. `is_aliased`: the tile has views, is a view or is in shared memory; programs assign to its
    elements and do not rebind its name."""

    name: str
    shape: tuple[int, ...]
    is_aliased: bool = False


@dataclass
class StateProgram:
    """The source of a kernel, and the source of a Python function that computes the output of one block."""

    text: str
    reference: str
    block_dim: int
    features: frozenset[str] = field(compare=False)

    def __str__(self) -> str:
        return f"# block_dim {self.block_dim}\n{self.text}\n{self.reference}"

    @property
    def dims(self) -> tuple[int, int]:
        return BLOCKS, self.block_dim

    def kernel(self) -> Any:
        space: dict[str, Any] = {"tg": tg}
        exec(self.text, space)
        return tg.kernel(source=self.text)(space["kernel"])

    def arguments(self) -> list[Any]:
        data = np.random.default_rng(5).integers(0, MODULUS, 512).astype(np.int32)
        return [TRIPS, tg.array(data), tg.zeros(BLOCKS * OUTPUT_SIZE, dtype=tg.int32)]

    def expected(self) -> np.ndarray:
        """The expected output of the kernel."""
        n, a, out = self.arguments()
        space: dict[str, Any] = {"np": np, "Stack": Stack}
        exec(self.reference, space)
        output = out.numpy().copy()
        for block in range(BLOCKS):
            space["block"](n, a.numpy(), output, np.int32(block), np.arange(self.block_dim, dtype=np.int32))
        return output


class StateProgramWriter:
    """Writes a program: `text` and `reference` grow line by line with the same indentation."""

    def __init__(self, choices: ChoiceSource) -> None:
        self.choices = choices
        self.lanes = choices.choose(BLOCK_DIMS)
        self.text: list[str] = []
        self.reference: list[str] = []
        self.depth, self.count, self.output_count = 1, 0, 0
        self.tiles: list[Tile] = []
        self.stacks: list[str] = []
        self.counters: list[str] = []
        self.loops = 0

    def program(self) -> StateProgram:
        self.emit("u = tg.int32(b)", "u = int(b)")
        self.emit("x = j * 3 + b")
        for _ in range(self.choices.number(1, 3)):
            self.new_tile()
        for _ in range(self.choices.number(1, 3)):
            self.new_stack()
        for _ in range(self.choices.number(0, 1)):
            self.statement(0)
        for _ in range(self.choices.number(1, 2)):
            self.loop(3)
            for _ in range(self.choices.number(0, 2)):
                self.statement(1)
        self.store_results()
        head = "def kernel(n: int, a: tg.array[tg.int32], out: tg.array[tg.int32]):\n    b, j = tg.tid()\n"
        body, reference = "\n".join(self.text), "\n".join(self.reference)
        reference_text = f"def block(n, a, out, b, j):\n{reference}\n"
        return StateProgram(f"{head}{body}\n", reference_text, self.lanes, frozenset(self.choices.features))

    # Text ------------------------------------------------------------------------------------------------------------

    def emit(self, text: str, reference: str | None = None) -> None:
        self.text.append("    " * self.depth + text)
        self.reference.append("    " * self.depth + (text if reference is None else reference))

    def fresh_name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def nested_block(self, opening: str, reference: str | None = None) -> Iterator[None]:
        self.emit(opening, reference)
        saved_names = list(self.tiles), list(self.stacks), list(self.counters)
        self.depth += 1
        yield
        self.depth -= 1
        self.tiles, self.stacks, self.counters = saved_names

    # Numbers and tiles -----------------------------------------------------------------------------------------------

    def uniform_number(self) -> str:
        """A number below a few thousand that is the same in all lanes."""
        return self.choices.choose(["u", "n", str(self.choices.number(0, 9)), *self.counters])

    def lane_number(self) -> str:
        """A number of each lane, below MODULUS."""
        first, second = (self.choices.choose(["j", "x", self.uniform_number()]) for _ in range(2))
        return f"((j * {self.choices.number(0, 5)} + {first} + {second} * {self.choices.number(1, 7)}) % {MODULUS})"

    def flag(self) -> str:
        return f"({self.lane_number()} % {self.choices.number(2, 4)} != 0)"

    def tile_expression(self, shape: tuple[int, ...], depth: int = 2) -> tuple[str, str]:
        """A tile expression with elements from 0 to MODULUS - 1, in the language and in NumPy."""
        if depth and self.choices.chance(50):
            (a, b), (c, d) = self.tile_expression(shape, depth - 1), self.tile_expression(shape, depth - 1)
            factor = self.choices.number(1, 5)
            return f"(({a} * {factor} + {c}) % {MODULUS})", f"(({b} * {factor} + {d}) % {MODULUS})"
        size = math.prod(shape)
        same = [t.name for t in self.tiles if t.shape == shape]
        kind = self.choices.choose_weighted(
            [(4 if same else 0, "tile"), (1, "full"), (1, "arange"), (1, "load"), (1, "lanes")]
        )
        if kind == "tile":
            name = self.choices.choose(same)
            return f"({name} % {MODULUS})", f"({name} % {MODULUS})"
        if kind == "full":
            value = f"{self.uniform_number()} % {MODULUS}"
            return f"tg.tile_full({shape}, tg.int32({value}))", f"np.full({shape}, {value}, np.int32)"
        if kind == "load":
            index = self.choices.number(0, 100)
            flat = f"tg.tile_load(a, shape={size}, offset={index})", f"a[{index}:{index + size}]"
        elif kind == "lanes" and shape == (self.lanes,):
            value = self.lane_number()
            flat = f"tg.tile({value})", value
        else:
            flat = f"tg.tile_arange({size}, dtype=tg.int32)", f"np.arange({size}, dtype=np.int32)"
        if len(shape) == 1:
            return flat
        return f"tg.tile_reshape({flat[0]}, {shape})", f"{flat[1]}.reshape({shape})"

    def any_tile(self, dims: int = 0) -> Tile:
        """A tile in scope, with a given number of dimensions if `dims` is not 0."""
        matching = [t for t in self.tiles if not dims or len(t.shape) == dims]
        if not matching:
            self.new_tile(dims)
            return self.tiles[-1]
        return self.choices.choose(matching)

    def new_tile(self, dims: int = 0) -> None:
        shape = self.choices.choose([s for s in SHAPES if not dims or len(s) == dims])
        name, storage = self.fresh_name("t"), self.choices.choose(["register", "shared"])
        self.choices.note(f"storage {storage}")
        if storage == "shared":
            zeros = f"tg.tile_zeros({shape}, dtype=tg.int32, storage='shared')"
            self.emit(f"{name} = {zeros}", f"{name} = np.zeros({shape}, np.int32)")
        else:
            text, reference = self.tile_expression(shape)
            self.emit(f"{name} = {text}", f"{name} = np.array({reference})")
        self.tiles.append(Tile(name, shape, storage == "shared"))

    def new_stack(self) -> None:
        name, capacity = self.fresh_name("s"), self.choices.choose([3, 16, 40, 200])
        self.emit(f"{name} = tg.tile_stack({capacity}, tg.int32)", f"{name} = Stack({capacity})")
        self.stacks.append(name)

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        if depth and self.choices.chance(25):
            self.choices.choose_weighted([(2, self.loop), (3, self.branch)])(depth - 1)
            return
        kinds = [
            *(
                (2, self.new_tile),
                (1, self.new_stack),
                (2, self.assign),
                (2, self.rebind),
                (2, self.update_in_place),
            ),
            *(
                (3, self.write_elements),
                (3, self.add_at),
                (2, self.assign_slice),
                (3, self.view),
                (2, self.scatter),
            ),
            *(
                (2, self.reduce),
                (3, self.read_elements),
                (1, self.lane_branch),
                (1, self.matmul),
                (1, self.late_initialisation),
            ),
            (3, self.temporary),
        ]
        if self.stacks:
            kinds += [(5, self.push), (4, self.pop), (1, self.clear), (1, self.stack_count)]
        self.choices.choose_weighted(kinds)()

    def assign(self) -> None:
        t = self.any_tile()
        text, reference = self.tile_expression(t.shape)
        self.choices.note("assign")
        self.emit(f"tg.tile_assign({t.name}, {text})", f"{t.name}[...] = {reference}")

    def rebind(self) -> None:
        candidates = [t for t in self.tiles if not t.is_aliased]
        if not candidates:
            return self.assign()
        t = self.choices.choose(candidates)
        text, reference = self.tile_expression(t.shape)
        self.choices.note("rebind")
        self.emit(f"{t.name} = {text}", f"{t.name} = np.array({reference})")

    def update_in_place(self) -> None:
        t = self.any_tile()
        text, reference = self.tile_expression(t.shape)
        self.choices.note("in place")
        self.emit(f"{t.name} += {text}", f"{t.name} += {reference}")

    def write_elements(self) -> None:
        """Lanes write distinct elements."""
        t = self.any_tile(1)
        (size,), shift, value = t.shape, self.choices.number(0, 9), self.lane_number()
        writer_count = self.choices.number(1, min(size, self.lanes))
        self.choices.note("element =")
        with self.nested_block(f"if j < {writer_count}:", "if True:"):
            self.emit(
                f"{t.name}[(j + {shift}) % {size}] = {value}",
                f"{t.name}[((j + {shift}) % {size})[:{writer_count}]] = "
                f"np.broadcast_to({value}, j.shape)[:{writer_count}]",
            )

    def add_at(self) -> None:
        t = self.any_tile(1)
        index = f"(j * {self.choices.number(0, 3)} + {self.choices.number(0, 9)}) % {t.shape[0]}"
        value = self.lane_number()
        self.choices.note("element +=")
        self.emit(f"{t.name}[{index}] += {value}", f"np.add.at({t.name}, {index}, {value})")

    def assign_slice(self) -> None:
        t = self.any_tile()
        stop = self.choices.number(1, t.shape[0])
        start = self.choices.number(0, stop - 1)
        text, reference = self.tile_expression((stop - start, *t.shape[1:]))
        self.choices.note("slice =")
        self.emit(f"{t.name}[{start}:{stop}] = {text}", f"{t.name}[{start}:{stop}] = {reference}")

    def view(self) -> None:
        t = self.any_tile()
        stop = self.choices.number(1, t.shape[0])
        start = self.choices.number(0, stop - 1)
        slice_text, n = self.choices.choose(
            [(f"{start}:{stop}", stop - start), ("::-1", t.shape[0]), ("::2", -(-t.shape[0] // 2))]
        )
        name = self.fresh_name("v")
        self.choices.note("view")
        self.emit(f"{name} = {t.name}[{slice_text}]")
        self.tiles = [Tile(x.name, x.shape, True) if x.name == t.name else x for x in self.tiles]
        self.tiles.append(Tile(name, (n, *t.shape[1:]), True))

    def temporary(self) -> None:
        """A tile in shared memory or registers that is dead after the next statement."""
        self.new_tile(1)
        t = self.tiles.pop()
        (size,), name, value = t.shape, t.name, self.lane_number()
        self.choices.note("temporary")
        self.emit(f"{name}[j % {size}] += {value}", f"np.add.at({name}, j % {size}, {value})")
        self.emit(f"x = (x + {name}[(j * 3 + 1) % {size}]) % {MODULUS}")

    def scatter(self) -> None:
        t = self.any_tile(1)
        index, value, flag = (
            f"(j * {self.choices.number(0, 3)} + {self.choices.number(0, 9)}) % {t.shape[0]}",
            self.lane_number(),
            self.flag(),
        )
        self.choices.note("scatter add")
        self.emit(
            f"tg.tile_scatter_add({t.name}, {index}, {value}, {flag})",
            f"np.add.at({t.name}, {index}, np.where({flag}, {value}, 0))",
        )

    def reduce(self) -> None:
        t = self.any_tile()
        op = self.choices.choose(["sum", "max", "min"])
        self.choices.note(f"tile_{op}")
        self.emit(
            f"u = (u * 3 + tg.tile_{op}({t.name} % {MODULUS})[0]) % {MODULUS}",
            f"u = int((u * 3 + ({t.name} % {MODULUS}).{op}()) % {MODULUS})",
        )

    def read_elements(self) -> None:
        """Each lane reads an element that other lanes may have written."""
        t = self.any_tile(1)
        index = f"(j * {self.choices.number(0, 3)} + {self.choices.number(0, 9)}) % {t.shape[0]}"
        self.choices.note("element read")
        self.emit(f"x = (x * 5 + {t.name}[{index}] % {MODULUS}) % {MODULUS}")

    def lane_branch(self) -> None:
        t = self.any_tile(1)
        index, value, flag = (
            f"(j + {self.choices.number(0, 9)}) % {t.shape[0]}",
            self.lane_number(),
            self.flag(),
        )
        name = self.fresh_name("c")
        self.choices.note("lane if")
        self.emit(f"{name} = {flag}")
        with self.nested_block(f"if {name}:", "if True:"):
            self.emit(
                f"{t.name}[{index}] += {value}", f"np.add.at({t.name}, {index}, np.where({name}, {value}, 0))"
            )
            self.emit(f"x = {value} + 1", f"x = np.where({name}, {value} + 1, x)")

    def matmul(self) -> None:
        matrices = [t for t in self.tiles if len(t.shape) == 2]
        if not matrices:
            return self.update_in_place()
        t = self.choices.choose(matrices)
        (a, c), (b, d) = (self.tile_expression(s, 1) for s in ((t.shape[0], 2), (2, t.shape[1])))
        self.choices.note("tile_matmul")
        self.emit(f"tg.tile_matmul({a} % 8, {b} % 8, {t.name})", f"{t.name} += ({c} % 8) @ ({d} % 8)")

    def late_initialisation(self) -> None:
        """An uninitialised tile that the first iteration writes, and that later iterations read and modify."""
        size, name, k = self.choices.number(1, self.lanes), self.fresh_name("e"), self.fresh_name("k")
        storage = self.choices.choose(["register", "shared"])
        self.choices.note("tile_empty")
        self.emit(
            f"{name} = tg.tile_empty({size}, dtype=tg.int32, storage='{storage}')",
            f"{name} = np.zeros({size}, np.int32)",
        )
        with self.nested_block(f"for {k} in range({TRIPS}):"):
            self.emit(f"if {k} == 0:")
            with self.nested_block(f"    if j < {size}:", "    if True:"):
                value = self.lane_number()
                self.emit(
                    f"    {name}[j] = {value}",
                    f"    {name}[j[:{size}]] = np.broadcast_to({value}, j.shape)[:{size}]",
                )
            self.counters.append(k)
            self.statement(0)
            self.emit(f"{name}[{k} % {size}] += 1", f"{name}[{k} % {size}] += {self.lanes}")
            self.emit(f"x = (x + {name}[(j + {k}) % {size}]) % {MODULUS}")
        self.tiles.append(Tile(name, (size,), True))

    # Stacks ----------------------------------------------------------------------------------------------------------

    def push(self) -> None:
        s, value, flag = self.choices.choose(self.stacks), self.lane_number(), self.flag()
        self.choices.note("push")
        self.emit(
            f"tg.tile_stack_push({s}, {value}, {flag})",
            f"{s}.push(np.broadcast_to({value}, j.shape), np.broadcast_to({flag}, j.shape))",
        )

    def pop(self) -> None:
        s, value, slot = self.choices.choose(self.stacks), self.fresh_name("p"), self.fresh_name("q")
        self.choices.note("pop")
        self.emit(f"{value}, {slot} = tg.tile_stack_pop({s})", f"{value}, {slot} = {s}.pop(len(j))")
        self.emit(f"x = (x * 7 + {value} * 3 + {slot} + 1) % {MODULUS}")

    def clear(self) -> None:
        s = self.choices.choose(self.stacks)
        self.choices.note("clear")
        self.emit(f"tg.tile_stack_clear({s})", f"{s}.items.clear()")

    def stack_count(self) -> None:
        s = self.choices.choose(self.stacks)
        self.choices.note("count")
        self.emit(f"u = (u + tg.tile_stack_count({s})) % {MODULUS}", f"u = (u + len({s}.items)) % {MODULUS}")

    # Control flow ----------------------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        for _ in range(self.choices.number(1, 4)):
            self.statement(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh_name("k")
        steps = self.choices.choose(["n", "2", "n, 0, -1", "1, n + 2", "while"])
        self.choices.note("while" if steps == "while" else f"range({steps})")
        if steps == "while":
            self.emit(f"{k} = 0")
        opening = (
            f"while {k} < {self.choices.number(1, 3)}:" if steps == "while" else f"for {k} in range({steps}):"
        )
        with self.nested_block(opening):
            if steps == "while":
                self.emit(f"{k} += 1")
            self.counters.append(k)
            self.block(depth)
            if self.choices.chance(30):
                exit_statement = self.choices.choose(["break", "continue"])
                self.choices.note(exit_statement)
                self.emit(f"if ({self.uniform_number()} + {k}) % 3 == 1:")
                self.emit(f"    {exit_statement}")
                self.block(0)

    def branch(self, depth: int) -> None:
        self.choices.note("if")
        with self.nested_block(f"if ({self.uniform_number()} + {self.uniform_number()}) % 2 == 0:"):
            self.block(depth)
        if self.choices.chance(50):
            with self.nested_block("else:"):
                self.block(depth)

    # Results ---------------------------------------------------------------------------------------------------------

    def store_output(self, text: str, reference: str, size: int) -> None:
        if self.output_count + size > OUTPUT_SIZE:
            return
        index = f"b * {OUTPUT_SIZE} + {self.output_count}"
        self.output_count += size
        self.emit(
            f"tg.tile_store(out, {text}, offset={index})", f"out[{index}:{index} + {size}] = {reference}"
        )

    def store_results(self) -> None:
        """Store the numbers of lanes, and some of the tiles and stacks; other tiles are used in loops only."""
        self.store_output("tg.tile(x)", "x", self.lanes)
        self.store_output("tg.tile_full(1, u)", "u", 1)
        for s in [s for s in self.stacks if self.choices.chance(25)]:
            value, slot = self.fresh_name("p"), self.fresh_name("q")
            self.emit(f"{value}, {slot} = tg.tile_stack_pop({s})", f"{value}, {slot} = {s}.pop(len(j))")
            self.store_output(
                f"tg.tile({value} + {slot} * {MODULUS})", f"{value} + {slot} * {MODULUS}", self.lanes
            )
        for t in [t for t in self.tiles if self.choices.chance(40)]:
            size = math.prod(t.shape)
            flat = t.name if len(t.shape) == 1 else f"tg.tile_reshape(tg.copy({t.name}), {size})"
            self.store_output(flat, f"{t.name}.reshape({size})", size)
