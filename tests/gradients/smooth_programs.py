"""Random kernels whose results depend smoothly on their inputs: tiles and lanes under loops, branches and mutation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

BLOCK = 8
SHAPES = ((4,), (4, 4), (BLOCK,))
RESULT_SIZE = 400
"""The number of result elements of each block."""
SQUASH = """def squash(x):
    return x / (x * x * 0.25 + 1.0)
"""
"""A bounded function for values that change in every iteration: a few instructions, where the sine has a hundred."""
SMOOTH = (
    *("tg.sin({})", "tg.tanh({})", "tg.cos({})"),
    *("squash({})", "{} * 0.5", "tg.sqrt({0} * {0} + 1.0)") * 2,
)


class SmoothProgram:
    """A random program: `functions` and `text`, a kernel(n, a, y) that is launched with blocks of 8 threads. `names`:
    the names that its functions use."""

    names: Mapping[str, object] = {}

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.tiles: dict[str, tuple[int, ...]] = {}
        self.uniform: list[str] = []
        self.varying: list[str] = []
        self.counters: list[str] = []
        self.functions: dict[str, str] = {"squash": SQUASH}
        self.count = 0
        self.cells = 0
        self.in_for = False
        for _ in range(2):
            self.new_tile()
        self.new_scalar()
        for _ in range(self.rng.randint(2, 5)):
            self.statement(2)
        self.store_results()
        body = "\n".join(self.lines)
        self.text = f"def kernel(n: int, a: tg.array2d[D], y: tg.array2d[D]):\n    i, j = tg.tid()\n{body}\n"

    def __str__(self) -> str:
        return "\n".join([*self.functions.values(), self.text])

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh_name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def nested_block(self, opening: str, loop: bool = False) -> Iterator[None]:
        self.emit(opening)
        saved_state = (
            dict(self.tiles),
            list(self.uniform),
            list(self.varying),
            list(self.counters),
            self.in_for,
        )
        self.depth += 1
        self.in_for = opening.startswith("for") if loop else self.in_for
        yield
        self.depth -= 1
        self.tiles, self.uniform, self.varying, self.counters, self.in_for = saved_state

    # Expressions -----------------------------------------------------------------------------------------------------

    def bounded(self, x: str) -> str:
        """An expression of x with a bounded value."""
        return f"squash({x})" if self.rng.random() < 0.9 else f"tg.sin({x})"

    def number(self) -> str:
        return f"D({self.rng.choice((0.25, 0.5, -0.75, 1.0))})"

    def smooth_function(self, x: str) -> str:
        return self.rng.choice(SMOOTH).format(x)

    def scalar(self, lanes: bool, depth: int = 2) -> str:
        names = self.uniform + (self.varying if lanes else [])
        leaves = [f"a[i, {self.rng.randint(0, 15)}]", *(names[-4:] if names else [])]
        if lanes:
            leaves += ["a[i, j]", "a[j, 3]"]
        if self.tiles and self.rng.random() < 0.4:
            leaves.append(self.element(lanes))
        if depth == 0 or self.rng.random() < 0.3:
            return self.rng.choice(leaves)
        x, y = self.scalar(lanes, depth - 1), self.scalar(lanes, depth - 1)
        return self.rng.choice(
            (f"({x} * {y})", f"({x} + {y})", self.smooth_function(f"({x})"), f"({x} - {self.number()} * {y})")
        )

    def element(self, lanes: bool) -> str:
        name = self.rng.choice(list(self.tiles))
        shape = self.tiles[name]
        indices = [str(self.rng.randint(0, n - 1)) for n in shape]
        if lanes and self.rng.random() < 0.6:
            indices[0] = f"j % {shape[0]}"
        return f"{name}[{', '.join(indices)}]"

    def tile(self, shape: tuple[int, ...], depth: int = 2) -> str:
        names = [t for t, s in self.tiles.items() if s == shape]
        size = f"({', '.join(map(str, shape))},)"
        leaves = (
            [f"tg.tile_load(a[i], shape={shape[0]}, offset={self.rng.randint(0, 8)})"]
            if len(shape) == 1
            else []
        )
        leaves += [
            f"tg.tile_load(a, shape={size}, offset=({self.row_offset()}, {self.rng.randint(0, 4)}))"
        ] * (len(shape) == 2)
        leaves += names * 2
        if shape == (BLOCK,):
            leaves.append(f"tg.tile({self.scalar(True, 1)})")
        if depth == 0 or self.rng.random() < 0.25:
            return self.rng.choice(leaves)
        x = self.tile(shape, depth - 1)
        y = self.tile(shape, depth - 1)
        choices = [f"({x} * {y})", f"({x} + {y})", f"({x} - {y} * 0.5)", self.smooth_function(f"({x})")]
        choices.append(f"({x} * {self.scalar(False, 1)})")
        choices.append(f"({x} + tg.tile_sum({y}) * 0.1)")
        choices.append(f"({x} / ({y} * {y} + 1.0))")
        choices.append(f"tg.tile_scan_inclusive({x}) * 0.3")
        if len(shape) == 2:
            choices += [
                f"({x} @ {y}) * 0.3",
                f"tg.tile_transpose({x})",
                f"({x} + tg.tile_sum({y}, axis=1, keepdims=True))",
            ]
        else:
            choices.append(f"({x})[::-1]")
        return self.rng.choice(choices)

    def row_offset(self) -> str:
        return self.rng.choice([str(self.rng.randint(0, 3)), "i", *(f"({k} % 4)" for k in self.counters)])

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        simple_statements = [
            *(
                self.new_tile,
                self.reassign,
                self.update_in_place,
                self.set_element,
                self.add_element,
                self.lane_write,
            ),
            *(
                self.view,
                self.swap,
                self.new_scalar,
                self.reduce,
                self.call_tile_function,
                self.assign_slice,
                self.add_to_result,
            ),
            *(self.scatter, self.call_scalar_function),
        ]
        nested_statements = [
            self.branch,
            self.loop,
            self.while_loop,
            self.lane_branch,
            self.lane_loop,
            self.load_ahead,
            self.exit_early,
        ]
        if depth and self.rng.random() < 0.45:
            self.rng.choice(nested_statements)(depth - 1)
        else:
            self.rng.choice(simple_statements)()

    def any_tile(self) -> str:
        return self.rng.choice(list(self.tiles))

    def new_tile(self) -> None:
        name, shape = self.fresh_name("t"), self.rng.choice(SHAPES)
        text = self.tile(shape)
        if "tg.tile_load" == text[:12] and self.rng.random() < 0.5:
            text = text[:-1] + ', storage="shared")'
        self.emit(f"{name} = {text}")
        self.tiles[name] = shape

    def reassign(self) -> None:
        name = self.any_tile()
        self.emit(f"{name} = {self.bounded(self.tile(self.tiles[name]))}")

    def update_in_place(self) -> None:
        name = self.any_tile()
        self.emit(f"{name} {self.rng.choice(('+=', '-=', '*='))} {self.tile(self.tiles[name])}")
        self.bound_tile(name)

    def bound_tile(self, name: str) -> None:
        self.emit(f"tg.tile_assign({name}, {self.bounded(name)})")

    def set_element(self) -> None:
        name = self.any_tile()
        index = ", ".join(str(self.rng.randint(0, n - 1)) for n in self.tiles[name])
        self.emit(f"{name}[{index}] = {self.bounded(self.scalar(False))}")

    def add_element(self) -> None:
        name = self.any_tile()
        indices = [str(self.rng.randint(0, n - 1)) for n in self.tiles[name]]
        if self.rng.random() < 0.5:
            indices[0] = f"j % {self.tiles[name][0]}"
        self.emit(
            f"{name}[{', '.join(indices)}] {self.rng.choice(('+=', '-='))} 0.1 * {self.scalar(True, 1)}"
        )
        self.bound_tile(name)

    def lane_write(self) -> None:
        name = self.any_tile()
        shape = self.tiles[name]
        value = self.fresh_name("e")
        self.emit(f"{value} = {self.bounded(self.scalar(True))}")
        with self.nested_block(f"if j < {shape[0]}:"):
            self.emit(f"{name}[j{', 1' if len(shape) == 2 else ''}] = {value}")

    def view(self) -> None:
        name = self.any_tile()
        shape = self.tiles[name]
        low = self.rng.randint(0, shape[0] - 2)
        view = self.fresh_name("v")
        self.emit(f"{view} = {name}[{low}:{low + 2}]")
        change = self.rng.choice(("{0} *= {1}", "tg.tile_assign({0}, squash({0}) * {1})", "{0} += {1} * {0}"))
        self.emit(change.format(view, self.scalar(False, 1)))
        self.bound_tile(name)

    def assign_slice(self) -> None:
        name = self.any_tile()
        shape = self.tiles[name]
        self.emit(f"{name}[0:2] = {self.bounded(self.tile(shape, 1))}[1:3]")

    def swap(self) -> None:
        name = self.any_tile()
        others = [t for t, s in self.tiles.items() if s == self.tiles[name] and t != name]
        if others:
            second = self.rng.choice(others)
            self.emit(f"{name}, {second} = {second}, {name}")

    def new_scalar(self) -> None:
        lanes = self.rng.random() < 0.6
        name = self.fresh_name("s" if lanes else "u")
        self.emit(f"{name} = {self.smooth_function('(' + self.scalar(lanes) + ')')}")
        (self.varying if lanes else self.uniform).append(name)

    def reduce(self) -> None:
        name = self.fresh_name("u")
        self.emit(
            f"{name} = tg.tile_{self.rng.choice(('sum', 'max', 'min'))}({self.tile(self.rng.choice(SHAPES))})[0] * 0.3"
        )
        self.uniform.append(name)

    def call_tile_function(self) -> None:
        name, f = self.any_tile(), self.fresh_name("f")
        shape = ", ".join(map(str, self.tiles[name]))
        first = ", ".join("1" for _ in self.tiles[name])
        change = self.rng.choice(
            (f"    for k in range(m):\n        t *= D(0.5)\n        t[{first}] = t[{first}] * t[{first}] + D(0.5)",
             "    if m > 1:\n        t *= t\n    else:\n        t += t * t", f"    t[{first}] += D(0.3)\n    t *= t")
        )  # fmt: skip
        self.functions[f] = f"def {f}(t: tg.tile[D, {shape}], m: int):\n{change}\n"
        self.emit(f"{f}({name}, n % 3)")
        self.bound_tile(name)

    def scatter(self) -> None:
        name = self.any_tile()
        shape = self.tiles[name]
        if len(shape) == 1:
            index_text, condition = f"(j * 3 + 1) % {shape[0]}", self.rng.choice(("j != 2", "j < 6", "True"))
            self.emit(f"tg.tile_scatter_add({name}, {index_text}, 0.1 * {self.scalar(True, 1)}, {condition})")
            self.bound_tile(name)

    def call_scalar_function(self) -> None:
        """A call of a function with loops and early returns on a scalar of each thread."""
        f = self.fresh_name("g")
        self.functions[f] = self.rng.choice(
            (f"def {f}(x: D, m: int):\n    for k in range(m):\n        if k == 3:\n            return x\n"
             "        x = tg.sin(x) + x * D(0.3)\n    return x * D(0.5)\n",
             f"def {f}(x: D, m: int):\n    k = int(0)\n    while k < m:\n        k += 2\n        if k % 3 == 0:\n"
             "            continue\n        x = tg.tanh(x) + D(0.1)\n    return x\n")
        )  # fmt: skip
        name = self.fresh_name("s")
        self.emit(f"{name} = {f}({self.scalar(True, 1)}, {self.rng.choice(('n', 'n % 5', 'j % 4'))})")
        self.varying.append(name)

    def add_to_result(self) -> None:
        self.emit(f"tg.atomic_add(y, i, {self.rng.randint(0, 7)}, {self.scalar(True, 1)})")

    def condition(self) -> str:
        return self.rng.choice(("n > 1", "n % 2 == 0", "i == 0", *(f"{k} % 2 == 1" for k in self.counters)))

    def block(self, depth: int) -> None:
        self.emit("pass")
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth)

    def branch(self, depth: int) -> None:
        with self.nested_block(f"if {self.condition()}:"):
            self.block(depth)
        if self.rng.random() < 0.6:
            with self.nested_block("else:"):
                self.block(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh_name("k")
        bounds = self.rng.choice(("n", "n", "1, n", "n - 1, -1, -1", "3", "0, n, 2"))
        with self.nested_block(f"for {k} in range({bounds}):", loop=True):
            self.counters.append(k)
            self.block(depth)
            if self.rng.random() < 0.2:
                with self.nested_block(f"if {k} == {self.rng.randint(1, 3)}:"):
                    self.emit(self.rng.choice(("break", "continue")))
                self.block(0)

    def while_loop(self, depth: int) -> None:
        m = self.fresh_name("m")
        self.emit(f"{m} = int(0)")
        with self.nested_block(f"while {m} < n:", loop=True):
            self.counters.append(m)
            if self.rng.random() < 0.3:
                self.emit(f"{m} += {self.rng.choice((1, 2))}")
                with self.nested_block(f"if {m} % 3 == {self.rng.randint(0, 2)}:"):
                    self.emit(self.rng.choice(("continue", "break")))
                self.block(depth)
            else:
                self.block(depth)
                self.emit(f"{m} += {self.rng.choice((1, 2))}")

    def load_ahead(self, depth: int) -> None:
        """A loop whose tile is loaded one iteration ahead; the storage of the tile may change in the loop."""
        current, next_tile, k = self.fresh_name("t"), self.fresh_name("t"), self.fresh_name("k")
        storages = [self.rng.choice(("register", "shared")) for _ in range(2)]
        load = 'tg.tile_load(a[{}], shape=4, offset={}, storage="{}")'
        self.emit(f"{current} = {load.format('i', self.rng.randint(0, 4), storages[0])}")
        self.tiles[current] = (4,)
        with self.nested_block(f"for {k} in range({self.rng.choice(('n', '1, n', '2'))}):", loop=True):
            self.emit(f"{next_tile} = {load.format(f'{k} % 8', self.rng.randint(0, 4), storages[1])}")
            self.counters.append(k)
            self.block(depth)
            sums = (next_tile, f"{next_tile} * {current}", f"{next_tile} + {self.bounded(current)}")
            self.emit(f"{current} = {self.rng.choice(sums)}")

    def exit_early(self, depth: int) -> None:
        """Some blocks skip the rest of an iteration, or of the kernel."""
        if self.in_for:
            with self.nested_block(f"if {self.condition()}:"):
                self.block(0)
                self.emit(self.rng.choice(("continue", "break")))
        elif self.depth == 1:
            with self.nested_block(f"if i == 1 and n {self.rng.choice(('> 1', '== 2', '> 20'))}:"):
                self.block(0)
                self.store_results()
                self.emit("return")
        self.block(depth)

    def lane_branch(self, depth: int) -> None:
        if not self.varying:
            self.new_scalar()
            return
        with self.nested_block(f"if j {self.rng.choice(('< 3', '== 2', '% 2 == 0'))}:"):
            self.lane_block()
        if self.rng.random() < 0.5:
            with self.nested_block("else:"):
                self.lane_block()

    def lane_loop(self, depth: int) -> None:
        if not self.varying:
            self.new_scalar()
            return
        with self.nested_block(self.rng.choice(("for q in range(j % 4):", "for q in range(n):")), loop=True):
            self.lane_block()

    def lane_block(self) -> None:
        for _ in range(self.rng.randint(1, 2)):
            saved_tiles = self.tiles
            self.tiles = {}
            name = self.rng.choice(self.varying)
            self.emit(f"{name} = {self.bounded(f'{self.scalar(True)} + {name}')}")
            self.tiles = saved_tiles

    def store_results(self) -> None:
        index = 8
        for name, shape in self.tiles.items():
            size = shape[0] if len(shape) == 1 else 16
            self.emit(f"tg.tile_store(y[i], tg.tile_reshape({name} * 1.0, ({size},)), offset={index})")
            index += size
        for name in [*self.uniform, *self.varying]:
            self.emit(f"y[i, {index} + j] = {name}")
            index += BLOCK
        assert index < RESULT_SIZE
