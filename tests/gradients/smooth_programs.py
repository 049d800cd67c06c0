"""Random kernels whose results depend smoothly on their inputs: tiles and lanes under loops, branches and mutation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

BLOCK = 8
SHAPES = ((4,), (4, 4), (BLOCK,))
CELLS = 400
"""Elements of the result that each block owns."""
TAMED = """def tamed(x):
    return x / (x * x * 0.25 + 1.0)
"""
"""A bounded function, used instead of the sine for values that change in every iteration. The function takes a few
instructions instead of a hundred."""
SMOOTH = (
    *("tg.sin({})", "tg.tanh({})", "tg.cos({})"),
    *("tamed({})", "{} * 0.5", "tg.sqrt({0} * {0} + 1.0)") * 2,
)


class SmoothProgram:
    """Writes one program: `functions` and `text`, a kernel(n, a, y) that is launched with blocks of 8 threads. `names`:
    the names that its functions use."""

    names: Mapping[str, object] = {}

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.tiles: dict[str, tuple[int, ...]] = {}
        self.uniform: list[str] = []
        self.varying: list[str] = []
        self.counters: list[str] = []
        self.functions: dict[str, str] = {"tamed": TAMED}
        self.count = 0
        self.cells = 0
        self.in_for = False
        for _ in range(2):
            self.new_tile()
        self.new_scalar()
        for _ in range(self.r.randint(2, 5)):
            self.statement(2)
        self.results()
        body = "\n".join(self.lines)
        self.text = f"def kernel(n: int, a: tg.array2d[D], y: tg.array2d[D]):\n    i, j = tg.tid()\n{body}\n"

    def __str__(self) -> str:
        return "\n".join([*self.functions.values(), self.text])

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def inside(self, opening: str, loop: bool = False) -> Iterator[None]:
        self.add(opening)
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

    def near(self, x: str) -> str:
        """An expression of x with a bounded value."""
        return f"tamed({x})" if self.r.random() < 0.9 else f"tg.sin({x})"

    def number(self) -> str:
        return f"D({self.r.choice((0.25, 0.5, -0.75, 1.0))})"

    def smooth(self, x: str) -> str:
        return self.r.choice(SMOOTH).format(x)

    def scalar(self, lanes: bool, depth: int = 2) -> str:
        names = self.uniform + (self.varying if lanes else [])
        leaves = [f"a[i, {self.r.randint(0, 15)}]", *(names[-4:] if names else [])]
        if lanes:
            leaves += ["a[i, j]", "a[j, 3]"]
        if self.tiles and self.r.random() < 0.4:
            leaves.append(self.element(lanes))
        if depth == 0 or self.r.random() < 0.3:
            return self.r.choice(leaves)
        x, y = self.scalar(lanes, depth - 1), self.scalar(lanes, depth - 1)
        return self.r.choice(
            (f"({x} * {y})", f"({x} + {y})", self.smooth(f"({x})"), f"({x} - {self.number()} * {y})")
        )

    def element(self, lanes: bool) -> str:
        name = self.r.choice(list(self.tiles))
        shape = self.tiles[name]
        indices = [str(self.r.randint(0, n - 1)) for n in shape]
        if lanes and self.r.random() < 0.6:
            indices[0] = f"j % {shape[0]}"
        return f"{name}[{', '.join(indices)}]"

    def tile(self, shape: tuple[int, ...], depth: int = 2) -> str:
        names = [t for t, s in self.tiles.items() if s == shape]
        size = f"({', '.join(map(str, shape))},)"
        leaves = (
            [f"tg.tile_load(a[i], shape={shape[0]}, offset={self.r.randint(0, 8)})"]
            if len(shape) == 1
            else []
        )
        leaves += [f"tg.tile_load(a, shape={size}, offset=({self.place()}, {self.r.randint(0, 4)}))"] * (
            len(shape) == 2
        )
        leaves += names * 2
        if shape == (BLOCK,):
            leaves.append(f"tg.tile({self.scalar(True, 1)})")
        if depth == 0 or self.r.random() < 0.25:
            return self.r.choice(leaves)
        x = self.tile(shape, depth - 1)
        y = self.tile(shape, depth - 1)
        choices = [f"({x} * {y})", f"({x} + {y})", f"({x} - {y} * 0.5)", self.smooth(f"({x})")]
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
        return self.r.choice(choices)

    def place(self) -> str:
        return self.r.choice([str(self.r.randint(0, 3)), "i", *(f"({k} % 4)" for k in self.counters)])

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        plain = [
            *(
                self.new_tile,
                self.reassign,
                self.in_place,
                self.set_element,
                self.add_element,
                self.lane_write,
            ),
            *(self.view, self.swap, self.new_scalar, self.reduce, self.call, self.part, self.accumulate),
            *(self.scatter, self.call_scalar),
        ]
        nests = [
            self.branch,
            self.loop,
            self.repeat,
            self.lane_branch,
            self.lane_loop,
            self.migrate,
            self.leave,
        ]
        if depth and self.r.random() < 0.45:
            self.r.choice(nests)(depth - 1)
        else:
            self.r.choice(plain)()

    def some(self) -> str:
        return self.r.choice(list(self.tiles))

    def new_tile(self) -> None:
        name, shape = self.fresh("t"), self.r.choice(SHAPES)
        text = self.tile(shape)
        if "tg.tile_load" == text[:12] and self.r.random() < 0.5:
            text = text[:-1] + ', storage="shared")'
        self.add(f"{name} = {text}")
        self.tiles[name] = shape

    def reassign(self) -> None:
        name = self.some()
        self.add(f"{name} = {self.near(self.tile(self.tiles[name]))}")

    def in_place(self) -> None:
        name = self.some()
        self.add(f"{name} {self.r.choice(('+=', '-=', '*='))} {self.tile(self.tiles[name])}")
        self.bound(name)

    def bound(self, name: str) -> None:
        self.add(f"tg.tile_assign({name}, {self.near(name)})")

    def set_element(self) -> None:
        name = self.some()
        index = ", ".join(str(self.r.randint(0, n - 1)) for n in self.tiles[name])
        self.add(f"{name}[{index}] = {self.near(self.scalar(False))}")

    def add_element(self) -> None:
        name = self.some()
        indices = [str(self.r.randint(0, n - 1)) for n in self.tiles[name]]
        if self.r.random() < 0.5:
            indices[0] = f"j % {self.tiles[name][0]}"
        self.add(f"{name}[{', '.join(indices)}] {self.r.choice(('+=', '-='))} 0.1 * {self.scalar(True, 1)}")
        self.bound(name)

    def lane_write(self) -> None:
        name = self.some()
        shape = self.tiles[name]
        value = self.fresh("e")
        self.add(f"{value} = {self.near(self.scalar(True))}")
        with self.inside(f"if j < {shape[0]}:"):
            self.add(f"{name}[j{', 1' if len(shape) == 2 else ''}] = {value}")

    def view(self) -> None:
        name = self.some()
        shape = self.tiles[name]
        low = self.r.randint(0, shape[0] - 2)
        view = self.fresh("v")
        self.add(f"{view} = {name}[{low}:{low + 2}]")
        change = self.r.choice(("{0} *= {1}", "tg.tile_assign({0}, tamed({0}) * {1})", "{0} += {1} * {0}"))
        self.add(change.format(view, self.scalar(False, 1)))
        self.bound(name)

    def part(self) -> None:
        name = self.some()
        shape = self.tiles[name]
        self.add(f"{name}[0:2] = {self.near(self.tile(shape, 1))}[1:3]")

    def swap(self) -> None:
        name = self.some()
        others = [t for t, s in self.tiles.items() if s == self.tiles[name] and t != name]
        if others:
            second = self.r.choice(others)
            self.add(f"{name}, {second} = {second}, {name}")

    def new_scalar(self) -> None:
        lanes = self.r.random() < 0.6
        name = self.fresh("s" if lanes else "u")
        self.add(f"{name} = {self.smooth('(' + self.scalar(lanes) + ')')}")
        (self.varying if lanes else self.uniform).append(name)

    def reduce(self) -> None:
        name = self.fresh("u")
        self.add(
            f"{name} = tg.tile_{self.r.choice(('sum', 'max', 'min'))}({self.tile(self.r.choice(SHAPES))})[0] * 0.3"
        )
        self.uniform.append(name)

    def call(self) -> None:
        name, f = self.some(), self.fresh("f")
        shape = ", ".join(map(str, self.tiles[name]))
        first = ", ".join("1" for _ in self.tiles[name])
        change = self.r.choice(
            (f"    for k in range(m):\n        t *= D(0.5)\n        t[{first}] = t[{first}] * t[{first}] + D(0.5)",
             "    if m > 1:\n        t *= t\n    else:\n        t += t * t", f"    t[{first}] += D(0.3)\n    t *= t")
        )  # fmt: skip
        self.functions[f] = f"def {f}(t: tg.tile[D, {shape}], m: int):\n{change}\n"
        self.add(f"{f}({name}, n % 3)")
        self.bound(name)

    def scatter(self) -> None:
        name = self.some()
        shape = self.tiles[name]
        if len(shape) == 1:
            index_text, condition = f"(j * 3 + 1) % {shape[0]}", self.r.choice(("j != 2", "j < 6", "True"))
            self.add(f"tg.tile_scatter_add({name}, {index_text}, 0.1 * {self.scalar(True, 1)}, {condition})")
            self.bound(name)

    def call_scalar(self) -> None:
        """A function with its own loops and returns, on per-thread numbers."""
        f = self.fresh("g")
        self.functions[f] = self.r.choice(
            (f"def {f}(x: D, m: int):\n    for k in range(m):\n        if k == 3:\n            return x\n"
             "        x = tg.sin(x) + x * D(0.3)\n    return x * D(0.5)\n",
             f"def {f}(x: D, m: int):\n    k = int(0)\n    while k < m:\n        k += 2\n        if k % 3 == 0:\n"
             "            continue\n        x = tg.tanh(x) + D(0.1)\n    return x\n")
        )  # fmt: skip
        name = self.fresh("s")
        self.add(f"{name} = {f}({self.scalar(True, 1)}, {self.r.choice(('n', 'n % 5', 'j % 4'))})")
        self.varying.append(name)

    def accumulate(self) -> None:
        self.add(f"tg.atomic_add(y, i, {self.r.randint(0, 7)}, {self.scalar(True, 1)})")

    def condition(self) -> str:
        return self.r.choice(("n > 1", "n % 2 == 0", "i == 0", *(f"{k} % 2 == 1" for k in self.counters)))

    def block(self, depth: int) -> None:
        self.add("pass")
        for _ in range(self.r.randint(1, 3)):
            self.statement(depth)

    def branch(self, depth: int) -> None:
        with self.inside(f"if {self.condition()}:"):
            self.block(depth)
        if self.r.random() < 0.6:
            with self.inside("else:"):
                self.block(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh("k")
        bounds = self.r.choice(("n", "n", "1, n", "n - 1, -1, -1", "3", "0, n, 2"))
        with self.inside(f"for {k} in range({bounds}):", loop=True):
            self.counters.append(k)
            self.block(depth)
            if self.r.random() < 0.2:
                with self.inside(f"if {k} == {self.r.randint(1, 3)}:"):
                    self.add(self.r.choice(("break", "continue")))
                self.block(0)

    def repeat(self, depth: int) -> None:
        m = self.fresh("m")
        self.add(f"{m} = int(0)")
        with self.inside(f"while {m} < n:", loop=True):
            self.counters.append(m)
            if self.r.random() < 0.3:
                self.add(f"{m} += {self.r.choice((1, 2))}")
                with self.inside(f"if {m} % 3 == {self.r.randint(0, 2)}:"):
                    self.add(self.r.choice(("continue", "break")))
                self.block(depth)
            else:
                self.block(depth)
                self.add(f"{m} += {self.r.choice((1, 2))}")

    def migrate(self, depth: int) -> None:
        """A tile that is loaded one iteration ahead, and whose storage may change in the loop."""
        now, ahead, k = self.fresh("t"), self.fresh("t"), self.fresh("k")
        storages = [self.r.choice(("register", "shared")) for _ in range(2)]
        load = 'tg.tile_load(a[{}], shape=4, offset={}, storage="{}")'
        self.add(f"{now} = {load.format('i', self.r.randint(0, 4), storages[0])}")
        self.tiles[now] = (4,)
        with self.inside(f"for {k} in range({self.r.choice(('n', '1, n', '2'))}):", loop=True):
            self.add(f"{ahead} = {load.format(f'{k} % 8', self.r.randint(0, 4), storages[1])}")
            self.counters.append(k)
            self.block(depth)
            self.add(f"{now} = {self.r.choice((ahead, f'{ahead} * {now}', f'{ahead} + {self.near(now)}'))}")

    def leave(self, depth: int) -> None:
        """The rest of an iteration or of the kernel is left out by some blocks."""
        if self.in_for:
            with self.inside(f"if {self.condition()}:"):
                self.block(0)
                self.add(self.r.choice(("continue", "break")))
        elif self.depth == 1:
            with self.inside(f"if i == 1 and n {self.r.choice(('> 1', '== 2', '> 20'))}:"):
                self.block(0)
                self.results()
                self.add("return")
        self.block(depth)

    def lane_branch(self, depth: int) -> None:
        if not self.varying:
            self.new_scalar()
            return
        with self.inside(f"if j {self.r.choice(('< 3', '== 2', '% 2 == 0'))}:"):
            self.lane_block()
        if self.r.random() < 0.5:
            with self.inside("else:"):
                self.lane_block()

    def lane_loop(self, depth: int) -> None:
        if not self.varying:
            self.new_scalar()
            return
        with self.inside(self.r.choice(("for q in range(j % 4):", "for q in range(n):")), loop=True):
            self.lane_block()

    def lane_block(self) -> None:
        for _ in range(self.r.randint(1, 2)):
            saved_tiles = self.tiles
            self.tiles = {}
            name = self.r.choice(self.varying)
            self.add(f"{name} = {self.near(f'{self.scalar(True)} + {name}')}")
            self.tiles = saved_tiles

    def results(self) -> None:
        index = 8
        for name, shape in self.tiles.items():
            size = shape[0] if len(shape) == 1 else 16
            self.add(f"tg.tile_store(y[i], tg.tile_reshape({name} * 1.0, ({size},)), offset={index})")
            index += size
        for name in [*self.uniform, *self.varying]:
            self.add(f"y[i, {index} + j] = {name}")
            index += BLOCK
        assert index < CELLS
