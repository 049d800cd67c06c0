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
OUTPUT_SIZE = 1024


@dataclass
class Program:
    """The source of a kernel, the source of its functions, and its launch."""

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


class ProgramWriter(Expressions):
    """Writes a random program."""

    def __init__(self, choices: ChoiceSource) -> None:
        super().__init__(choices, choices.choose(BLOCK_DIMS))
        self.form = choices.choose(["tiled", "flat", "partial", "plane"])
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.function_texts: dict[str, str] = {}
        self.tile_functions: dict[tuple[str, Shape], list[str]] = {}
        self.outputs: dict[str, int] = {}
        self.in_loop = False
        choices.note(f"block_dim {self.block_dim}", f"launch {self.form}")

    def program(self) -> Program:
        for _ in range(self.choices.number(0, 3)):
            self.choices.choose_weighted([(2, self.element_function), (1, self.tile_function)])()
        for _ in range(self.choices.number(1, 3)):
            self.new_tile()
        self.new_scalar()
        for _ in range(self.choices.number(2, 6)):
            self.statement(3)
        self.store_results()
        if self.choices.chance(30):
            self.lane_return()
        body = "\n".join([*self.prologue(), *self.lines])
        arrays = [f"{a}: tg.array2d[tg.{t}], {a}_3: tg.array3d[tg.{t}]" for t, a in self.inputs.items()]
        arrays += [f"o_{t}: tg.array[tg.{t}]" for t in self.outputs]
        text = f"def kernel(n: int, {', '.join(arrays)}):\n{body}\n"
        return Program(
            *(self.function_texts, text, self.form, self.block_dim),
            *(tuple(self.inputs), tuple(self.outputs), frozenset(self.choices.features)),
        )

    def prologue(self) -> list[str]:
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

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh_name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @contextmanager
    def nested_block(self, opening: str, in_loop: bool = False, lanes: bool = False) -> Iterator[None]:
        """A nested block of statements; the names that it defines leave the scope at its end."""
        self.emit(opening)
        saved_scope, saved_flags = list(self.scope), (self.in_loop, self.cooperative)
        self.in_loop = self.in_loop or in_loop
        self.cooperative = self.cooperative and not lanes
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = saved_scope
        self.in_loop, self.cooperative = saved_flags

    # Functions -------------------------------------------------------------------------------------------------------

    def element_function(self) -> None:
        """A function of two scalars, possibly with a branch, a loop, an early return, or a call of an earlier
        function."""
        dtype = self.choices.choose(DTYPES)
        name = self.fresh_name("f")
        a, b = Name("a", dtype), Name("b", dtype)
        inner = Expressions(self.choices, 0)
        inner.functions = self.functions
        inner.scope = [a, b]
        inner.index = lambda uniform: "3"  # type: ignore[method-assign]
        inner.scalar_leaf = lambda t, u: (
            inner.cast(t, (), u, 0) if t != dtype else _small_literal(self.choices, t)
        )  # type: ignore
        lines = [f"def {name}(a: tg.{dtype}, b: tg.{dtype}):", f"    c = {inner.small_text(dtype)}"]
        inner.scope.append(Name("c", dtype))
        kind = self.choices.choose(["plain", "branch", "loop", "exit"])
        self.choices.note(f"function {kind}")
        if kind == "branch":
            lines += [
                f"    if a < b:\n        c = {inner.small_text(dtype)}",
                f"    else:\n        c = {inner.small_text(dtype)}",
            ]
        if kind == "loop":
            lines += [
                f"    for k in range({self.choices.number(1, 4)}):",
                f"        c = {inner.small_text(dtype)}",
            ]
        if kind == "exit":
            lines += [f"    if a < b:\n        return {inner.small_text(dtype)}"]
        lines.append(f"    return {inner.small_text(dtype)}")
        self.function_texts[name] = "\n".join(lines) + "\n"
        self.functions.setdefault(dtype, []).append(name)

    def tile_function(self) -> None:
        """A function that modifies its tile argument."""
        dtype, shape = self.choices.choose(DTYPES[:3]), self.choices.choose(SHAPES[:3])
        name = self.fresh_name("g")
        extents = ", ".join(map(str, shape))
        value = f"tg.tile_full({shape}, tg.{dtype}({literal(self.choices.number(1, 3), dtype)}))"
        lines = [f"def {name}(t: tg.tile[tg.{dtype}, {extents}], m: int):"]
        if self.choices.chance(40):
            lines += [f"    for k in range(m):\n        t += {value}"]
        else:
            lines += [f"    if m > 1:\n        t += {value}"]
        lines += [
            f"    t[{', '.join('0' for _ in shape)}] += tg.{dtype}({literal(1, dtype)})"
        ] * self.choices.chance(30)
        lines += ["    t -= t * t"] * (not is_float(dtype) and self.choices.chance(30))
        self.choices.note("function with tile")
        self.function_texts[name] = "\n".join(lines) + "\n"
        self.tile_functions.setdefault((dtype, shape), []).append(name)

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        if not self.cooperative:
            self.lane_statement(depth)
            return
        kinds = [
            (3, self.new_tile),
            (3, self.reassign),
            (3, self.update_in_place),
            (2, self.new_scalar),
            (2, self.write_elements),
        ]
        kinds += [
            (2, self.swap),
            (2, self.view),
            (2, self.matmul),
            (3, self.call_tile_function),
            (2, self.apply_function),
            (1, self.stack),
            (1, self.untile),
            (2, self.atomic),
        ]
        kinds += [(1, self.group_scalar), (1, self.assign_part), (2, self.round_trip)]
        kind = self.choices.choose_weighted([(3, None), (3, "nest")]) if depth else None
        if kind is None:
            self.choices.choose_weighted(kinds)()
        else:
            nests = [
                (3, self.branch),
                (3, self.loop),
                (1, self.while_loop),
                (2, self.lane_branch),
                (1, self.lane_loop),
            ]
            self.choices.choose_weighted(nests)(depth - 1)

    def block(self, depth: int) -> None:
        for _ in range(self.choices.number(1, 3)):
            self.statement(depth)

    def tiles(self) -> list[Name]:
        return [n for n in self.scope if n.shape]

    def new_tile(self) -> None:
        dtype = self.choices.choose(DTYPES)
        shape = self.choices.choose((*SHAPES, (self.block_dim,)))
        name = self.fresh_name("t")
        if self.choices.chance(50):
            tile = self.tile_leaf(dtype, shape)
            text = tile.text if tile.bound <= SMALL_BOUND else self.clamped(tile, dtype).text
            text = text if is_float(dtype) else tile.text
        else:
            text = self.small_text(dtype, shape)
        self.emit(f"{name} = {text}")
        self.scope.append(Name(name, dtype, shape))

    def any_tile(self) -> Name:
        if not self.tiles():
            self.new_tile()
        return self.choices.choose(self.tiles())

    def reassign(self) -> None:
        t = self.any_tile()
        self.choices.note("reassign")
        self.emit(f"{t.text} = {self.small_text(t.dtype, t.shape)}")

    def update_in_place(self) -> None:
        t = self.any_tile()
        op = self.choices.choose(["+=", "-="] if is_float(t.dtype) else ["+=", "-=", "&=", "|=", "^="])
        self.choices.note(f"in place {op}")
        self.emit(f"{t.text} {op} {self.small_text(t.dtype, t.shape)}")
        self.clamp_variable(t)

    def clamp_variable(self, t: Name) -> None:
        """Clamp a float variable that was updated in place."""
        if is_float(t.dtype):
            low, high = literal(-SMALL_BOUND, t.dtype), literal(SMALL_BOUND, t.dtype)
            change = f"tg.clamp({t.text} + 0.0, {low}, {high})"
            self.emit(f"tg.tile_assign({t.text}, {change})" if t.shape else f"{t.text} = {change}")

    def swap(self) -> None:
        t = self.any_tile()
        others = [n for n in self.tiles() if n.dtype == t.dtype and n.shape == t.shape and n != t]
        if not others:
            second_name = Name(self.fresh_name("t"), t.dtype, t.shape)
            self.emit(f"{second_name.text} = {self.tile_leaf(t.dtype, t.shape).text}")
            self.scope.append(second_name)
            self.clamp_variable(second_name)
        else:
            second_name = self.choices.choose(others)
        self.choices.note("swap")
        self.emit(f"{t.text}, {second_name.text} = {second_name.text}, {t.text}")

    def view(self) -> None:
        t = self.any_tile()
        stop = self.choices.number(1, t.shape[0])
        start = self.choices.number(0, stop - 1)
        name = Name(self.fresh_name("v"), t.dtype, (stop - start, *t.shape[1:]))
        self.choices.note("view")
        self.emit(f"{name.text} = {t.text}[{start}:{stop}]")
        self.emit(f"{name.text} += {self.small_text(t.dtype, name.shape)}")
        self.clamp_variable(name)
        self.clamp_variable(t)

    def assign_part(self) -> None:
        t = self.any_tile()
        stop = self.choices.number(1, t.shape[0])
        start = self.choices.number(0, stop - 1)
        self.choices.note("slice assignment")
        self.emit(f"{t.text}[{start}:{stop}] = {self.small_text(t.dtype, (stop - start, *t.shape[1:]))}")

    def write_elements(self) -> None:
        """Each lane writes its own element, adds to an element, or all lanes write one element."""
        t = self.any_tile()
        size = math.prod(t.shape)
        kind = self.choices.choose(["=", "+=", "one"])
        self.choices.note(f"element {kind}")
        if kind == "one":
            index = ", ".join(str(self.choices.number(0, extent - 1)) for extent in t.shape)
            self.emit(f"{t.text}[{index}] = {self.small_text(t.dtype, (), True)}")
            return
        indices, quotient = [], "j"
        for extent in reversed(t.shape):
            indices.append(f"{quotient} % {extent}")
            quotient = f"({quotient} // {extent})"
        index = ", ".join(reversed(indices))
        if kind == "=":
            value = self.small_text(t.dtype)
            name = self.fresh_name("e")
            self.emit(f"{name} = {value}")
            self.emit(f"if j < {size}:")
            self.emit(f"    {t.text}[{index}] = {name}")
        else:
            self.emit(f"{t.text}[{index}] += {self.small_text(t.dtype)}")
            self.clamp_variable(t)

    def new_scalar(self) -> None:
        dtype = self.choices.choose(DTYPES)
        name = self.fresh_name("s")
        self.emit(f"{name} = {self.small_text(dtype)}")
        self.scope.append(Name(name, dtype, uniform=False))

    def untile(self) -> None:
        """Each lane takes its element of a tile with `untile`."""
        dtype = self.choices.choose(DTYPES)
        name = self.fresh_name("s")
        self.choices.note("untile")
        self.emit(f"{name} = tg.untile({self.small_text(dtype, (self.block_dim,))})")
        self.scope.append(Name(name, dtype, uniform=False))

    def group_scalar(self) -> None:
        t = self.any_tile()
        name = self.fresh_name("u")
        self.choices.note("group scalar")
        self.emit(f"{name} = tg.tile_{self.choices.choose(['max', 'min'])}({t.text})[0]")
        self.scope.append(Name(name, t.dtype))

    def apply_function(self) -> None:
        """A map or a call of one of the element functions."""
        if not self.functions:
            self.element_function()
        dtype = self.choices.choose(list(self.functions))
        shape = self.choices.choose((*SHAPES, ()))
        name = self.fresh_name("t" if shape else "s")
        self.emit(f"{name} = {self.call_expression(dtype, shape, False, 1).text}")
        self.scope.append(Name(name, dtype, shape, uniform=bool(shape)))

    def matmul(self) -> None:
        matrices = [n for n in self.tiles() if len(n.shape) == 2]
        if not matrices:
            self.update_in_place()
            return
        t = self.choices.choose(matrices)
        self.choices.note("tile_matmul")
        a, b = (self.small_text(t.dtype, s) for s in ((t.shape[0], 4), (4, t.shape[1])))
        self.emit(f"tg.tile_matmul({a}, {b}, {t.text})")
        self.clamp_variable(t)

    def call_tile_function(self) -> None:
        candidates = [n for n in self.tiles() if (n.dtype, n.shape) in self.tile_functions]
        if not candidates and not self.tile_functions:
            self.reassign()
            return
        if not candidates:
            dtype, shape = self.choices.choose(list(self.tile_functions))
            candidates = [Name(self.fresh_name("t"), dtype, shape)]
            self.emit(f"{candidates[0].text} = {self.tile_leaf(dtype, shape).text}")
            self.scope += candidates
            self.clamp_variable(candidates[0])
        t = self.choices.choose(candidates)
        self.choices.note("call with tile")
        function = self.choices.choose(self.tile_functions[t.dtype, t.shape])
        self.emit(f"{function}({t.text}, {self.choices.choose(['n', '1', 'i'])})")
        self.clamp_variable(t)

    def stack(self) -> None:
        """Pushes and pops of the block; the order of the slots is unspecified, so only sums are used."""
        dtype = self.choices.choose(DTYPES[:2])
        s, v, slot, popped = (self.fresh_name(x) for x in ("q", "e", "p", "s"))
        self.choices.note("stack")
        self.emit(f"{s} = tg.tile_stack(capacity=64, dtype=tg.{dtype})")
        self.emit(f"tg.tile_stack_push({s}, {self.small_text(dtype)}, {self.condition()})")
        self.emit(f"{v}, {slot} = tg.tile_stack_pop({s})")
        total = f"tg.tile_sum(tg.tile(tg.where({slot} >= 0, {v}, tg.{dtype}(0))))[0]"
        self.emit(
            f"{popped} = {self.clamped(Term(f'({total} + 0.0)', math.inf), dtype).text if is_float(dtype) else total}"
        )
        self.scope.append(Name(popped, dtype))

    def allocate_output(self, dtype: str, size: int) -> int:
        """The offset of `size` elements that are allocated for each block in the output array."""
        index = self.outputs.get(dtype, 0)
        self.outputs[dtype] = index + size
        return index

    def atomic(self) -> None:
        """Atomic additions by all lanes, or of all elements of a tile, to elements of the block."""
        dtype = self.choices.choose(DTYPES[:4])
        index = f"i * {OUTPUT_SIZE} + {self.allocate_output(dtype, 8)}"
        if self.choices.chance(50):
            self.choices.note("atomic_add")
            self.emit(f"tg.atomic_add(o_{dtype}, {index}, {self.small_text(dtype)})")
        else:
            self.choices.note("tile_atomic_add")
            self.emit(f"tg.tile_atomic_add(o_{dtype}, {self.small_text(dtype, (8,))}, offset={index})")

    def round_trip(self) -> None:
        """A cooperative store followed by loads of lanes, or stores of lanes followed by a cooperative load; the
        language orders both."""
        dtype = self.choices.choose(DTYPES)
        if self.allocate_output(dtype, 0) > OUTPUT_SIZE - 200:
            return
        index = f"i * {OUTPUT_SIZE} + {self.allocate_output(dtype, 64)}"
        name = Name(self.fresh_name("s"), dtype, uniform=False)
        if self.choices.chance(50):
            self.choices.note("tile store, lane load")
            self.emit(f"tg.tile_store(o_{dtype}, {self.small_text(dtype, (8,))}, offset={index})")
            self.emit(f"{name.text} = o_{dtype}[{index} + (j + 3) % 8]")
        else:
            self.choices.note("lane store, tile load")
            self.emit(f"o_{dtype}[{index} + j] = {self.small_text(dtype)}")
            name = Name(self.fresh_name("t"), dtype, (8,))
            self.emit(f"{name.text} = tg.tile_load(o_{dtype}, shape=8, offset={index})")
        self.scope.append(name)

    # Control ---------------------------------------------------------------------------------------------------------

    def branch(self, depth: int) -> None:
        self.choices.note("uniform if")
        with self.nested_block(f"if {self.condition((), True)}:"):
            self.block(depth)
            self.exit_loop()
        if self.choices.chance(30):
            self.choices.note("uniform elif")
            with self.nested_block(
                f"elif {self.condition((), True, 0)} {self.choices.choose(['and', 'or'])} n > 1:"
            ):
                self.block(depth)
        if self.choices.chance(50):
            self.choices.note("uniform else")
            with self.nested_block("else:"):
                self.block(depth)

    def exit_loop(self, percent: int = 60) -> None:
        if self.in_loop and self.choices.chance(percent):
            exit_statement = self.choices.choose(["break", "continue"])
            self.choices.note(exit_statement if self.cooperative else f"lane {exit_statement}")
            self.emit(exit_statement)

    def loop(self, depth: int) -> None:
        k = self.fresh_name("k")
        steps = self.choices.choose(["3", "n", "i + 1", "1, n + 2", "n, -1, -1", "0", "0, 20, 7", "2 - n"])
        self.choices.note("for", f"range({steps})")
        with self.nested_block(f"for {k} in range({steps}):", in_loop=True):
            self.scope.append(Name(k, "int32", bound=20))
            self.block(depth)
            if self.choices.chance(35):
                with self.nested_block(f"if {self.condition((), True, 0)}:"):
                    self.exit_loop(100)
                self.statement(0)

    def while_loop(self, depth: int) -> None:
        w = self.fresh_name("w")
        self.choices.note("while")
        self.emit(f"{w} = 0")
        with self.nested_block(
            f"while {w} < {self.choices.number(1, 3)} and {self.condition((), True, 0)}:", in_loop=True
        ):
            self.emit(f"{w} += 1")
            self.block(depth)

    def lane_branch(self, depth: int) -> None:
        self.choices.note("lane if")
        saved_in_loop = self.in_loop
        self.in_loop = False
        with self.nested_block(
            f"if {self.choices.choose(['j % 2 == 0', 'j < 3', self.condition()])}:", lanes=True
        ):
            self.block(depth)
        if self.choices.chance(40):
            self.choices.note("lane else")
            with self.nested_block("else:", lanes=True):
                self.block(depth)
        self.in_loop = saved_in_loop

    def lane_loop(self, depth: int) -> None:
        self.choices.note("lane for")
        k = self.fresh_name("k")
        opening = f"for {k} in range({self.choices.choose(['j % 3', '3', 'n', 'j'])}):"
        with self.nested_block(opening, in_loop=True, lanes=True):
            self.scope.append(Name(k, "int32", uniform=False, bound=40))
            self.block(depth)
            if self.choices.chance(50):
                exit_statement = self.choices.choose(["break", "continue"])
                self.choices.note(f"lane {exit_statement}")
                self.emit(f"if {self.condition()}:")
                self.emit(f"    {exit_statement}")
                self.lane_statement(0)

    def lane_statement(self, depth: int) -> None:
        scalars = [n for n in self.scope if not n.shape and n.text.startswith("s")]
        nested = 2 if depth else 0
        kind = self.choices.choose_weighted(
            [(4, "assign"), (2, "new"), (1, "element"), (nested, "if"), (nested, "for")]
        )
        if kind == "assign" and scalars:
            name = self.choices.choose(scalars)
            self.choices.note("lane assignment")
            self.emit(f"{name.text} = {self.small_text(name.dtype)}")
            self.mark_varying(name)
        elif kind == "element" and self.tiles():
            t = self.choices.choose(self.tiles())
            if is_float(t.dtype):
                self.new_scalar()
                return
            index = ", ".join(f"(j + {self.choices.number(0, 2)}) % {extent}" for extent in t.shape)
            self.choices.note("lane element +=")
            self.emit(f"{t.text}[{index}] += {self.choices.choose([f'tg.{t.dtype}(3)', f'tg.{t.dtype}(j)'])}")
        elif kind == "if":
            with self.nested_block(f"if {self.condition()}:"):
                self.block(depth - 1)
                self.exit_loop()
        elif kind == "for":
            self.lane_loop(depth - 1)
        else:
            self.new_scalar()

    def mark_varying(self, name: Name) -> None:
        """Mark a name as lane-varying in all scopes, after an assignment under a lane-varying condition."""
        changed = Name(name.text, name.dtype, (), False, False, name.bound)
        self.scope = [changed if n.text == name.text else n for n in self.scope]

    # Results ---------------------------------------------------------------------------------------------------------

    def store_results(self) -> None:
        """Store all variables that are still in scope."""
        for n in self.scope:
            size = math.prod(n.shape) if n.shape else self.block_dim
            if self.outputs.get(n.dtype, 0) + size > OUTPUT_SIZE:
                continue
            index = f"i * {OUTPUT_SIZE} + {self.allocate_output(n.dtype, size)}"
            if n.shape:
                flattened = n.text if len(n.shape) == 1 else f"tg.tile_reshape(tg.copy({n.text}), {size})"
                self.emit(f"tg.tile_store(o_{n.dtype}, {flattened}, offset={index})")
            else:
                self.emit(f"o_{n.dtype}[{index} + j] = {n.text}")

    def lane_return(self) -> None:
        """Some lanes return early; no cooperative op follows."""
        self.choices.note("lane return")
        dtype = self.choices.choose(DTYPES)
        self.cooperative = False
        index = f"i * {OUTPUT_SIZE} + {self.allocate_output(dtype, self.block_dim)}"
        self.emit(f"if {self.condition()}:")
        self.emit("    return")
        self.emit(f"o_{dtype}[{index} + j] = {self.small_text(dtype)}")


def _small_literal(choices: ChoiceSource, dtype: str) -> Term:

    return Term(f"tg.{dtype}({literal(choices.number(0, 3), dtype)})", 3)
