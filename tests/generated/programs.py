"""Random kernels as Python source: tiles and lanes under loops, branches, functions and early exits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from choices import ChoiceSource
from expressions import DTYPES, SMALL_BOUND, Expressions, Name, Shape, Term, is_float, literal

BLOCKS = 2
SHAPES: tuple[Shape, ...] = ((4,), (8,), (4, 4), (2, 8), (8, 4), (3, 5), (2, 3, 4), (1,))
BLOCK_DIMS = (4, 8, 16, 1, 33)
OUT = 1024


@dataclass
class Program:
    """The source of a kernel, of its functions, and its launch."""

    functions: dict[str, str]
    text: str
    form: str
    block_dim: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    features: frozenset[str] = field(compare=False)

    @property
    def dims(self) -> tuple[int, ...]:
        b = self.block_dim
        return {
            "tiled": (BLOCKS, b),
            "flat": (BLOCKS * b,),
            "partial": (BLOCKS * b - b // 3,),
            "plane": (3, b - b // 4),
        }[self.form]

    def __str__(self) -> str:
        return f"# {self.form}, dims {self.dims}, block_dim {self.block_dim}\n" + "\n".join(
            (*self.functions.values(), self.text)
        )


class Maker(Expressions):
    """Writes one random program."""

    def __init__(self, choices: ChoiceSource) -> None:
        super().__init__(choices, choices.pick(BLOCK_DIMS))
        self.form = choices.pick(["tiled", "flat", "partial", "plane"])
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.texts: dict[str, str] = {}
        self.mutators: dict[tuple[str, Shape], list[str]] = {}
        self.outputs: dict[str, int] = {}
        self.in_loop = False
        choices.note(f"block_dim {self.block_dim}", f"launch {self.form}")

    def program(self) -> Program:
        for _ in range(self.c.number(0, 3)):
            self.c.of([(2, self.element_function), (1, self.tile_function)])()
        for _ in range(self.c.number(1, 3)):
            self.new_tile()
        self.new_scalar()
        for _ in range(self.c.number(2, 6)):
            self.statement(3)
        self.results()
        if self.c.chance(30):
            self.tail()
        body = "\n".join([*self.opening(), *self.lines])
        arrays = [f"{a}: tg.array2d[tg.{t}], {a}_3: tg.array3d[tg.{t}]" for t, a in self.inputs.items()]
        arrays += [f"o_{t}: tg.array[tg.{t}]" for t in self.outputs]
        text = f"def kernel(n: int, {', '.join(arrays)}):\n{body}\n"
        return Program(
            *(self.texts, text, self.form, self.block_dim),
            *(tuple(self.inputs), tuple(self.outputs), frozenset(self.c.features)),
        )

    def opening(self) -> list[str]:
        if self.form == "tiled":
            return ["    i, j = tg.tid()"]
        width = self.block_dim - self.block_dim // 4
        lines = (
            ["    r, q = tg.tid()", f"    g = r * {width} + q"]
            if self.form == "plane"
            else ["    g = tg.tid()"]
        )
        b = self.block_dim
        return [*lines, f"    i = tg.uniform(g) // {b}", f"    j = g - i * {b}"]

    # Text ------------------------------------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def inside(self, opening: str, in_loop: bool = False, lanes: bool = False) -> Iterator[None]:
        """A nested block, whose names are dropped at its end."""
        self.add(opening)
        saved_scope, was = list(self.scope), (self.in_loop, self.cooperative)
        self.in_loop = self.in_loop or in_loop
        self.cooperative = self.cooperative and not lanes
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = saved_scope
        self.in_loop, self.cooperative = was

    # Functions -------------------------------------------------------------------------------------------------------

    def element_function(self) -> None:
        """A function of two scalars, possibly with a branch, a loop, or a call of an earlier function."""
        dtype = self.c.pick(DTYPES)
        name = self.fresh("f")
        a, b = Name("a", dtype), Name("b", dtype)
        inner = Expressions(self.c, 0)
        inner.functions = self.functions
        inner.scope = [a, b]
        inner.index = lambda uniform: "3"  # type: ignore[method-assign]
        inner.scalar_leaf = lambda t, u: (
            inner.converted(t, (), u, 0) if t != dtype else _literal_one(self.c, t)
        )  # type: ignore
        lines = [f"def {name}(a: tg.{dtype}, b: tg.{dtype}):", f"    c = {inner.settled(dtype)}"]
        inner.scope.append(Name("c", dtype))
        kind = self.c.pick(["plain", "branch", "loop", "exit"])
        self.c.note(f"function {kind}")
        if kind == "branch":
            lines += [
                f"    if a < b:\n        c = {inner.settled(dtype)}",
                f"    else:\n        c = {inner.settled(dtype)}",
            ]
        if kind == "loop":
            lines += [f"    for k in range({self.c.number(1, 4)}):", f"        c = {inner.settled(dtype)}"]
        if kind == "exit":
            lines += [f"    if a < b:\n        return {inner.settled(dtype)}"]
        lines.append(f"    return {inner.settled(dtype)}")
        self.texts[name] = "\n".join(lines) + "\n"
        self.functions.setdefault(dtype, []).append(name)

    def tile_function(self) -> None:
        """A function that changes its tile."""
        dtype, shape = self.c.pick(DTYPES[:3]), self.c.pick(SHAPES[:3])
        name = self.fresh("g")
        extents = ", ".join(map(str, shape))
        value = f"tg.tile_full({shape}, tg.{dtype}({literal(self.c.number(1, 3), dtype)}))"
        lines = [f"def {name}(t: tg.tile[tg.{dtype}, {extents}], m: int):"]
        if self.c.chance(40):
            lines += [f"    for k in range(m):\n        t += {value}"]
        else:
            lines += [f"    if m > 1:\n        t += {value}"]
        lines += [
            f"    t[{', '.join('0' for _ in shape)}] += tg.{dtype}({literal(1, dtype)})"
        ] * self.c.chance(30)
        lines += ["    t -= t * t"] * (not is_float(dtype) and self.c.chance(30))
        self.c.note("function with tile")
        self.texts[name] = "\n".join(lines) + "\n"
        self.mutators.setdefault((dtype, shape), []).append(name)

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        if not self.cooperative:
            self.lane_statement(depth)
            return
        kinds = [
            (3, self.new_tile),
            (3, self.reassign),
            (3, self.inplace),
            (2, self.new_scalar),
            (2, self.write),
        ]
        kinds += [
            (2, self.swap),
            (2, self.view),
            (2, self.matmul),
            (3, self.call),
            (2, self.use),
            (1, self.stack),
            (1, self.spread),
            (2, self.atomic),
        ]
        kinds += [(1, self.group_scalar), (1, self.assign_part), (2, self.round_trip)]
        kind = self.c.of([(3, None), (3, "nest")]) if depth else None
        if kind is None:
            self.c.of(kinds)()
        else:
            nests = [
                (3, self.branch),
                (3, self.loop),
                (1, self.repeat),
                (2, self.lane_branch),
                (1, self.lane_loop),
            ]
            self.c.of(nests)(depth - 1)

    def block(self, depth: int) -> None:
        for _ in range(self.c.number(1, 3)):
            self.statement(depth)

    def tiles(self) -> list[Name]:
        return [n for n in self.scope if n.shape]

    def new_tile(self) -> None:
        dtype = self.c.pick(DTYPES)
        shape = self.c.pick((*SHAPES, (self.block_dim,)))
        name = self.fresh("t")
        if self.c.chance(50):
            tile = self.tile_leaf(dtype, shape)
            text = tile.text if tile.bound <= SMALL_BOUND else self.clamped(tile, dtype).text
            text = text if is_float(dtype) else tile.text
        else:
            text = self.settled(dtype, shape)
        self.add(f"{name} = {text}")
        self.scope.append(Name(name, dtype, shape))

    def some_tile(self) -> Name:
        if not self.tiles():
            self.new_tile()
        return self.c.pick(self.tiles())

    def reassign(self) -> None:
        t = self.some_tile()
        self.c.note("reassign")
        self.add(f"{t.text} = {self.settled(t.dtype, t.shape)}")

    def inplace(self) -> None:
        t = self.some_tile()
        op = self.c.pick(["+=", "-="] if is_float(t.dtype) else ["+=", "-=", "&=", "|=", "^="])
        self.c.note(f"in place {op}")
        self.add(f"{t.text} {op} {self.settled(t.dtype, t.shape)}")
        self.bounded(t)

    def bounded(self, t: Name) -> None:
        """Make a float variable small again after a change in place."""
        if is_float(t.dtype):
            low, high = literal(-SMALL_BOUND, t.dtype), literal(SMALL_BOUND, t.dtype)
            change = f"tg.clamp({t.text} + 0.0, {low}, {high})"
            self.add(f"tg.tile_assign({t.text}, {change})" if t.shape else f"{t.text} = {change}")

    def swap(self) -> None:
        t = self.some_tile()
        others = [n for n in self.tiles() if n.dtype == t.dtype and n.shape == t.shape and n != t]
        if not others:
            second_name = Name(self.fresh("t"), t.dtype, t.shape)
            self.add(f"{second_name.text} = {self.tile_leaf(t.dtype, t.shape).text}")
            self.scope.append(second_name)
            self.bounded(second_name)
        else:
            second_name = self.c.pick(others)
        self.c.note("swap")
        self.add(f"{t.text}, {second_name.text} = {second_name.text}, {t.text}")

    def view(self) -> None:
        t = self.some_tile()
        stop = self.c.number(1, t.shape[0])
        start = self.c.number(0, stop - 1)
        name = Name(self.fresh("v"), t.dtype, (stop - start, *t.shape[1:]))
        self.c.note("view")
        self.add(f"{name.text} = {t.text}[{start}:{stop}]")
        self.add(f"{name.text} += {self.settled(t.dtype, name.shape)}")
        self.bounded(name)
        self.bounded(t)

    def assign_part(self) -> None:
        t = self.some_tile()
        stop = self.c.number(1, t.shape[0])
        start = self.c.number(0, stop - 1)
        self.c.note("slice assignment")
        self.add(f"{t.text}[{start}:{stop}] = {self.settled(t.dtype, (stop - start, *t.shape[1:]))}")

    def write(self) -> None:
        """Each lane writes its own element, or adds to a common element."""
        t = self.some_tile()
        size = math.prod(t.shape)
        flat = self.c.pick(["=", "+=", "one"])
        self.c.note(f"element {flat}")
        if flat == "one":
            index = ", ".join(str(self.c.number(0, extent - 1)) for extent in t.shape)
            self.add(f"{t.text}[{index}] = {self.settled(t.dtype, (), True)}")
            return
        indices, left = [], "j"
        for extent in reversed(t.shape):
            indices.append(f"{left} % {extent}")
            left = f"({left} // {extent})"
        index = ", ".join(reversed(indices))
        if flat == "=":
            value = self.settled(t.dtype)
            name = self.fresh("e")
            self.add(f"{name} = {value}")
            self.add(f"if j < {size}:")
            self.add(f"    {t.text}[{index}] = {name}")
        else:
            self.add(f"{t.text}[{index}] += {self.settled(t.dtype)}")
            self.bounded(t)

    def new_scalar(self) -> None:
        dtype = self.c.pick(DTYPES)
        name = self.fresh("s")
        self.add(f"{name} = {self.settled(dtype)}")
        self.scope.append(Name(name, dtype, uniform=False))

    def spread(self) -> None:
        """An `untile`: each lane takes its element of a tile."""
        dtype = self.c.pick(DTYPES)
        name = self.fresh("s")
        self.c.note("untile")
        self.add(f"{name} = tg.untile({self.settled(dtype, (self.block_dim,))})")
        self.scope.append(Name(name, dtype, uniform=False))

    def group_scalar(self) -> None:
        t = self.some_tile()
        name = self.fresh("u")
        self.c.note("group scalar")
        self.add(f"{name} = tg.tile_{self.c.pick(['max', 'min'])}({t.text})[0]")
        self.scope.append(Name(name, t.dtype))

    def use(self) -> None:
        """A map or a call of one of the element functions."""
        if not self.functions:
            self.element_function()
        dtype = self.c.pick(list(self.functions))
        shape = self.c.pick((*SHAPES, ()))
        name = self.fresh("t" if shape else "s")
        self.add(f"{name} = {self.called(dtype, shape, False, 1).text}")
        self.scope.append(Name(name, dtype, shape, uniform=bool(shape)))

    def matmul(self) -> None:
        flat = [n for n in self.tiles() if len(n.shape) == 2]
        if not flat:
            self.inplace()
            return
        t = self.c.pick(flat)
        self.c.note("tile_matmul")
        a, b = (self.settled(t.dtype, s) for s in ((t.shape[0], 4), (4, t.shape[1])))
        self.add(f"tg.tile_matmul({a}, {b}, {t.text})")
        self.bounded(t)

    def call(self) -> None:
        known = [n for n in self.tiles() if (n.dtype, n.shape) in self.mutators]
        if not known and not self.mutators:
            self.reassign()
            return
        if not known:
            dtype, shape = self.c.pick(list(self.mutators))
            known = [Name(self.fresh("t"), dtype, shape)]
            self.add(f"{known[0].text} = {self.tile_leaf(dtype, shape).text}")
            self.scope += known
            self.bounded(known[0])
        t = self.c.pick(known)
        self.c.note("call with tile")
        self.add(f"{self.c.pick(self.mutators[t.dtype, t.shape])}({t.text}, {self.c.pick(['n', '1', 'i'])})")
        self.bounded(t)

    def stack(self) -> None:
        """Pushes and pops of the block; the order of the slots is left open, so only sums are used."""
        dtype = self.c.pick(DTYPES[:2])
        s, v, slot, popped = (self.fresh(x) for x in ("q", "e", "p", "s"))
        self.c.note("stack")
        self.add(f"{s} = tg.tile_stack(capacity=64, dtype=tg.{dtype})")
        self.add(f"tg.tile_stack_push({s}, {self.settled(dtype)}, {self.condition()})")
        self.add(f"{v}, {slot} = tg.tile_stack_pop({s})")
        total = f"tg.tile_sum(tg.tile(tg.where({slot} >= 0, {v}, tg.{dtype}(0))))[0]"
        self.add(
            f"{popped} = {self.clamped(Term(f'({total} + 0.0)', math.inf), dtype).text if is_float(dtype) else total}"
        )
        self.scope.append(Name(popped, dtype))

    def room(self, dtype: str, size: int) -> int:
        """An offset for `size` elements of each block in the output array."""
        index = self.outputs.get(dtype, 0)
        self.outputs[dtype] = index + size
        return index

    def atomic(self) -> None:
        """Atomic additions by all lanes or all elements to one element of the block."""
        dtype = self.c.pick(DTYPES[:4])
        index = f"i * {OUT} + {self.room(dtype, 8)}"
        if self.c.chance(50):
            self.c.note("atomic_add")
            self.add(f"tg.atomic_add(o_{dtype}, {index}, {self.settled(dtype)})")
        else:
            self.c.note("tile_atomic_add")
            self.add(f"tg.tile_atomic_add(o_{dtype}, {self.settled(dtype, (8,))}, offset={index})")

    def round_trip(self) -> None:
        """A cooperative store, then loads by lanes, or vice versa: ordered by the language."""
        dtype = self.c.pick(DTYPES)
        if self.room(dtype, 0) > OUT - 200:
            return
        index = f"i * {OUT} + {self.room(dtype, 64)}"
        name = Name(self.fresh("s"), dtype, uniform=False)
        if self.c.chance(50):
            self.c.note("tile store, lane load")
            self.add(f"tg.tile_store(o_{dtype}, {self.settled(dtype, (8,))}, offset={index})")
            self.add(f"{name.text} = o_{dtype}[{index} + (j + 3) % 8]")
        else:
            self.c.note("lane store, tile load")
            self.add(f"o_{dtype}[{index} + j] = {self.settled(dtype)}")
            name = Name(self.fresh("t"), dtype, (8,))
            self.add(f"{name.text} = tg.tile_load(o_{dtype}, shape=8, offset={index})")
        self.scope.append(name)

    # Control ---------------------------------------------------------------------------------------------------------

    def branch(self, depth: int) -> None:
        self.c.note("uniform if")
        with self.inside(f"if {self.condition((), True)}:"):
            self.block(depth)
            self.leave()
        if self.c.chance(30):
            self.c.note("uniform elif")
            with self.inside(f"elif {self.condition((), True, 0)} {self.c.pick(['and', 'or'])} n > 1:"):
                self.block(depth)
        if self.c.chance(50):
            self.c.note("uniform else")
            with self.inside("else:"):
                self.block(depth)

    def leave(self, percent: int = 60) -> None:
        if self.in_loop and self.c.chance(percent):
            exit_statement = self.c.pick(["break", "continue"])
            self.c.note(exit_statement if self.cooperative else f"lane {exit_statement}")
            self.add(exit_statement)

    def loop(self, depth: int) -> None:
        k = self.fresh("k")
        steps = self.c.pick(["3", "n", "i + 1", "1, n + 2", "n, -1, -1", "0", "0, 20, 7", "2 - n"])
        self.c.note("for", f"range({steps})")
        with self.inside(f"for {k} in range({steps}):", in_loop=True):
            self.scope.append(Name(k, "int32", bound=20))
            self.block(depth)
            if self.c.chance(35):
                with self.inside(f"if {self.condition((), True, 0)}:"):
                    self.leave(100)
                self.statement(0)

    def repeat(self, depth: int) -> None:
        w = self.fresh("w")
        self.c.note("while")
        self.add(f"{w} = 0")
        with self.inside(
            f"while {w} < {self.c.number(1, 3)} and {self.condition((), True, 0)}:", in_loop=True
        ):
            self.add(f"{w} += 1")
            self.block(depth)

    def lane_branch(self, depth: int) -> None:
        self.c.note("lane if")
        outside = self.in_loop
        self.in_loop = False
        with self.inside(f"if {self.c.pick(['j % 2 == 0', 'j < 3', self.condition()])}:", lanes=True):
            self.block(depth)
        if self.c.chance(40):
            self.c.note("lane else")
            with self.inside("else:", lanes=True):
                self.block(depth)
        self.in_loop = outside

    def lane_loop(self, depth: int) -> None:
        self.c.note("lane for")
        k = self.fresh("k")
        opening = f"for {k} in range({self.c.pick(['j % 3', '3', 'n', 'j'])}):"
        with self.inside(opening, in_loop=True, lanes=True):
            self.scope.append(Name(k, "int32", uniform=False, bound=40))
            self.block(depth)
            if self.c.chance(50):
                exit_statement = self.c.pick(["break", "continue"])
                self.c.note(f"lane {exit_statement}")
                self.add(f"if {self.condition()}:")
                self.add(f"    {exit_statement}")
                self.lane_statement(0)

    def lane_statement(self, depth: int) -> None:
        scalars = [n for n in self.scope if not n.shape and n.text.startswith("s")]
        nested = 2 if depth else 0
        kind = self.c.of([(4, "assign"), (2, "new"), (1, "element"), (nested, "if"), (nested, "for")])
        if kind == "assign" and scalars:
            name = self.c.pick(scalars)
            self.c.note("lane assignment")
            self.add(f"{name.text} = {self.settled(name.dtype)}")
            self.varies(name)
        elif kind == "element" and self.tiles():
            t = self.c.pick(self.tiles())
            if is_float(t.dtype):
                self.new_scalar()
                return
            index = ", ".join(f"(j + {self.c.number(0, 2)}) % {extent}" for extent in t.shape)
            self.c.note("lane element +=")
            self.add(f"{t.text}[{index}] += {self.c.pick([f'tg.{t.dtype}(3)', f'tg.{t.dtype}(j)'])}")
        elif kind == "if":
            with self.inside(f"if {self.condition()}:"):
                self.block(depth - 1)
                self.leave()
        elif kind == "for":
            self.lane_loop(depth - 1)
        else:
            self.new_scalar()

    def varies(self, name: Name) -> None:
        """A name assigned under a lane-varying condition is lane-varying from here on, in all scopes."""
        changed = Name(name.text, name.dtype, (), False, False, name.bound)
        self.scope = [changed if n.text == name.text else n for n in self.scope]

    # The end ---------------------------------------------------------------------------------------------------------

    def results(self) -> None:
        """Store everything that is still in scope."""
        for n in self.scope:
            size = math.prod(n.shape) if n.shape else self.block_dim
            if self.outputs.get(n.dtype, 0) + size > OUT:
                continue
            index = f"i * {OUT} + {self.room(n.dtype, size)}"
            if n.shape:
                flattened = n.text if len(n.shape) == 1 else f"tg.tile_reshape(tg.copy({n.text}), {size})"
                self.add(f"tg.tile_store(o_{n.dtype}, {flattened}, offset={index})")
            else:
                self.add(f"o_{n.dtype}[{index} + j] = {n.text}")

    def tail(self) -> None:
        """Lanes that return one by one, with no cooperative op after it."""
        self.c.note("lane return")
        dtype = self.c.pick(DTYPES)
        self.cooperative = False
        index = f"i * {OUT} + {self.room(dtype, self.block_dim)}"
        self.add(f"if {self.condition()}:")
        self.add("    return")
        self.add(f"o_{dtype}[{index} + j] = {self.settled(dtype)}")


def _term(text: str):
    from expressions import Term

    return Term(text, math.inf)


def _literal_one(choices: ChoiceSource, dtype: str):
    from expressions import Term

    return Term(f"tg.{dtype}({literal(choices.number(0, 3), dtype)})", 3)
