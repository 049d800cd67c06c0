"""Random kernels in every float type, each with a twin in NumPy that is independent of the compiler.

The twin computes the kernel's operations in float64, and adds to each result the kernel's rounding error. The twin
takes the recorded paths of the kernel: conditions and indices are placed at the edge of rounding. The derivative of the
twin in forward mode is therefore the derivative of the kernel's computation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from duals import DualNumbers

LANES, INPUTS, SIDE = 8, 16, 4
CELLS, PATHS, EDGES = 400, 128, 24
"""The numbers of results, of recorded choices, and of comparisons."""
TYPES: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
RESULT_GRADIENTS = np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])
"""Gradients of results."""
NARROW = 2.0**-24
"""The largest relative error of rounding an adjoint to float32, in which adjoints of narrower types are."""

TAMED = """def tamed(x):
    return x / (x * x * 0.25 + 1.0)
"""
"""A bounded function of a few instructions."""


class TwinRun:
    """One evaluation of a twin. `paths`: the kernel's decisions, or None if the twin decides itself and sets the
    `edges`; `taken`: the decisions. `errors`: the rounding errors, and `shares`: the parts of equal extremes, which are
    computed in this run or kept from the run `like`."""

    def __init__(
        self, dtype: Any, a: Any, paths: Any, edges: np.ndarray, like: TwinRun | None = None
    ) -> None:
        self.dtype, self.a, self.paths, self.edges = dtype, a, paths, edges
        self.results: list[tuple[int, Any]] = []
        self.names: dict[str, Any] = {}
        self.like = like
        self.errors: list[np.ndarray] = []
        self.shares: list[np.ndarray] = []
        self.taken: list[Any] = []
        self.at = self.shared = 0
        self.set: set[int] = set()

    def rounded(self, exact: Any, dtype: Any = None) -> Any:
        """The kernel's value for an exact result. Adjoints of values with a type have that type, or float32."""
        if self.like is None:
            exact = np.asarray(exact, np.float64)
            near = exact.astype(dtype or self.dtype).astype(np.float64)
            self.errors.append(near - exact)
            return near
        if isinstance(exact, DualNumbers) and (dtype or self.dtype) is not np.float64:
            exact = exact.narrowed(NARROW)
        self.at += 1
        return exact + self.like.errors[self.at - 1]

    def choice(self, edge: int, x: Any, decide: Callable[[np.ndarray], np.ndarray], step: float) -> Any:
        """The kernel's decision, as integers: one for each lane, or one."""
        self.taken.append(self._choice(edge, x, decide, step))
        return self.taken[-1]

    def _choice(self, edge: int, x: Any, decide: Callable[[np.ndarray], np.ndarray], step: float) -> Any:
        if self.paths is not None:
            result = np.asarray(self.paths[len(self.taken)])
            return result if x.ndim or not result.ndim else result[0]
        if edge not in self.set:
            self.set.add(edge)
            near = np.float64(np.asarray(x + step, self.dtype))
            self.edges[edge] = near
        return decide(x - (self.edges[edge] if x.ndim else self.edges[edge, 0])).astype(int)

    def weights(self, actual: Callable[[], np.ndarray]) -> np.ndarray:
        """The parts of a gradient for equal extremes, as they were in the run that computed errors."""
        if self.like is None:
            self.shares.append(actual())
            return self.shares[-1]
        self.shared += 1
        return self.like.shares[self.shared - 1]


@dataclass(frozen=True)
class Expr:
    """An expression of the kernel and of the twin. `kind`: "u" of the block, "l" of each lane, "t" a tile of LANES
    elements, "m" one of SIDE x SIDE."""

    text: str
    kind: str
    value: Callable[[TwinRun], Any]
    """An array of NumPy, or `DualNumbers`."""


@dataclass
class Body:
    """Statements: the kernel's lines and the twin's operations."""

    lines: list[str] = field(default_factory=list)
    steps: list[Callable[[TwinRun], None]] = field(default_factory=list)

    def add(self, text: str, step: Callable[[TwinRun], None] | None = None) -> None:
        self.lines.append(text)
        if step is not None:
            self.steps.append(step)

    def run(self, run: TwinRun) -> None:
        for step in self.steps:
            step(run)


UNARY: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("tg.sin({})", np.sin),
    ("tg.cos({})", np.cos),
    ("tg.tanh({})", np.tanh),
    ("tg.atan({})", np.arctan),
    ("tg.exp2({} * D(0.25))", lambda x: np.exp2(x * 0.25)),
    *(("-{}", np.negative), ("{} * D(0.5)", lambda x: x * 0.5), ("tg.abs({})", np.abs)) * 3,
)
"""Functions that the twin rounds once; multiplication by a quarter is exact."""


class RoundedProgram:
    """`text`: a kernel(n, a, c, paths, y) in the type D; `body`: its twin."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.dtype = list(TYPES)[seed % len(TYPES)]
        self.n = self.r.choice((0, 1, 2, 3))
        self.body = Body()
        self.names: dict[str, str] = {}
        self.edge = self.count = self.written = self.depth = 0
        self.loops = 0
        self.lane_code = False
        for kind in "ult":
            self.assign(kind)
        for _ in range(self.r.randint(3, 6)):
            self.statement(2)
        self.results()
        lines = ["i, j = tg.tid()", "p = int(0)", *self.body.lines]
        body = "\n".join(f"    {line}" for line in lines)
        head = "n: int, a: tg.array[D], c: tg.array2d[D], paths: tg.array2d[int], y: tg.array[D]"
        self.text = f"def kernel({head}):\n{body}\n"

    def __str__(self) -> str:
        return f"# D = {self.dtype}, n = {self.n}\n{self.text}"

    # Expressions ------------------------------------------------------------------------------------------------------

    def leaf(self, kind: str) -> Expr:
        names = [name for name, k in self.names.items() if k == kind]
        if names and self.r.random() < 0.65:
            name = self.r.choice(names)
            return Expr(name, kind, lambda run: run.names[name])
        position = self.r.randrange(INPUTS)
        if kind == "u":
            return Expr(f"a[{position}]", kind, lambda run: run.a[position])
        if kind == "l":
            index = (np.arange(LANES) * 3 + position) % INPUTS
            return Expr(f"a[(j * 3 + {position}) % {INPUTS}]", kind, lambda run: run.a[index])
        if kind == "t":
            return Expr(
                f"tg.tile_load(a, shape={LANES}, offset={position})",
                kind,
                lambda run: _window(run.a, position),
            )
        load = f"tg.tile_reshape(tg.tile_load(a, shape={SIDE * SIDE}), ({SIDE}, {SIDE}))"
        return Expr(load, kind, lambda run: run.a.reshape(SIDE, SIDE))

    def expr(self, kind: str, depth: int = 2) -> Expr:
        if depth == 0 or self.r.random() < 0.2:
            return self.leaf(kind)
        forms = [self.binary] * 5 + [self.unary] * 4 + [self.through, self.quotient, self.root]
        own = {
            "u": [self.summary, self.element],
            "l": [self.of_tile, self.vector],
            "t": [self.of_lanes, self.shifted, self.scan],
            "m": [self.matmul, self.transposed],
        }
        forms += own[kind] * 2
        if self.lane_code:
            forms = [self.binary, self.unary, self.through, self.quotient, self.root]
            forms += [self.vector] * (kind == "l")
        return self.r.choice(forms)(kind, depth - 1)

    def binary(self, kind: str, depth: int) -> Expr:
        x, y = self.expr(kind, depth), self.expr(kind if self.r.random() < 0.7 else "u", depth)
        sign, f = self.r.choice((("+", np.add), ("-", np.subtract), ("*", np.multiply), ("*", np.multiply)))
        return Expr(
            f"({x.text} {sign} {y.text})", kind, lambda run: run.rounded(f(x.value(run), y.value(run)))
        )

    def unary(self, kind: str, depth: int) -> Expr:
        x, (form, f) = self.expr(kind, depth), self.r.choice(UNARY)
        return Expr(f"({form.format(f'({x.text})')})", kind, lambda run: run.rounded(f(x.value(run))))

    def through(self, kind: str, depth: int) -> Expr:
        """Through another type and back."""
        x, to = self.expr(kind, depth), self.r.choice(("float32", "float16", "bfloat16"))
        if kind in "tm":
            text = f"tg.tile_astype(tg.tile_astype({x.text}, tg.{to}), D)"
        else:
            text = f"D(tg.{to}({x.text}))"
        return Expr(text, kind, lambda run: run.rounded(run.rounded(x.value(run), TYPES[to])))

    def quotient(self, kind: str, depth: int) -> Expr:
        x, y = self.expr(kind, depth), self.leaf(kind)

        def value(run: TwinRun) -> np.ndarray:
            top, v = x.value(run), y.value(run)
            return run.rounded(top / run.rounded(run.rounded(v * v) + 1.0))

        return Expr(f"({x.text} / ({y.text} * {y.text} + D(1.0)))", kind, value)

    def root(self, kind: str, depth: int) -> Expr:
        y = self.leaf(kind)
        return Expr(
            f"tg.sqrt({y.text} * {y.text} + D(0.5))",
            kind,
            lambda run: run.rounded(np.sqrt(run.rounded(run.rounded(_square(y.value(run))) + 0.5))),
        )

    def summary(self, kind: str, depth: int) -> Expr:
        """A sum or an extreme of a tile."""
        x = self.expr("t", depth)
        combination = self.r.choice(("sum", "max", "min"))
        if combination == "sum":
            return Expr(
                f"(tg.tile_sum({x.text})[0] * D(0.25))",
                "u",
                lambda run: run.rounded(run.rounded(x.value(run).sum()) * 0.25),
            )

        def value(run: TwinRun) -> np.ndarray:
            v = x.value(run)
            return (
                v * run.weights(lambda: _parts(v == (v.max() if combination == "max" else v.min())))
            ).sum()

        return Expr(f"tg.tile_{combination}({x.text})[0]", "u", value)

    def element(self, kind: str, depth: int) -> Expr:
        x, index = self.leaf("t"), self.r.randrange(LANES)
        return Expr(f"({x.text})[{index}]", "u", lambda run: x.value(run)[index])

    def of_tile(self, kind: str, depth: int) -> Expr:
        x = self.expr("t", depth)
        if self.r.random() < 0.5:
            return Expr(f"tg.untile({x.text})", "l", x.value)
        step = self.r.choice((1, 3))
        indices = (np.arange(LANES) * step + 1) % LANES
        return Expr(f"({x.text})[(j * {step} + 1) % {LANES}]", "l", lambda run: x.value(run)[indices])

    def of_lanes(self, kind: str, depth: int) -> Expr:
        x = self.expr("l", depth)
        return Expr(f"tg.tile({x.text})", "t", lambda run: x.value(run) + np.zeros(LANES))

    def shifted(self, kind: str, depth: int) -> Expr:
        x = self.leaf("t")
        return Expr(f"({x.text})[::-1]", "t", lambda run: x.value(run)[::-1])

    def scan(self, kind: str, depth: int) -> Expr:
        x = self.leaf("t")

        def value(run: TwinRun) -> np.ndarray:
            return run.rounded(run.rounded((x.value(run) * UP_TO).sum(1)) * 0.25)

        return Expr(f"(tg.tile_scan_inclusive({x.text}) * D(0.25))", "t", value)

    def vector(self, kind: str, depth: int) -> Expr:
        x, y = self.leaf("l"), self.leaf("u" if self.r.random() < 0.3 else "l")

        def value(run: TwinRun) -> np.ndarray:
            v, w = x.value(run), y.value(run)
            return run.rounded(np.sqrt(run.rounded(run.rounded(v * v) + run.rounded(w * w + 0.0 * v))))

        return Expr(f"tg.length(tg.vector({x.text}, {y.text}))", "l", value)

    def matmul(self, kind: str, depth: int) -> Expr:
        x, y = self.expr("m", depth), self.leaf("m")
        return Expr(
            f"(({x.text} @ {y.text}) * D(0.25))",
            "m",
            lambda run: run.rounded(run.rounded(_matmul(x.value(run), y.value(run))) * 0.25),
        )

    def transposed(self, kind: str, depth: int) -> Expr:
        x = self.leaf("m")
        return Expr(f"tg.tile_transpose({x.text})", "m", lambda run: x.value(run).T)

    # Statements -------------------------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, opening: str) -> Iterator[Body]:
        """Statements under a line; names bound in them are dropped at the end."""
        outer, self.body = self.body, Body()
        names, yielded = dict(self.names), self.body
        yield yielded
        self.names, self.body = names, outer
        self.body.lines += [opening, *(f"    {line}" for line in yielded.lines or ["pass"])]

    def bind(self, name: str, x: Expr) -> None:
        def step(run: TwinRun) -> None:
            run.names[name] = x.value(run) + 0.0

        self.body.add(f"{name} = {x.text}", step)

    def assign(self, kind: str | None = None) -> None:
        kind = kind or self.r.choice("uullttm")
        x = self.tame(self.expr(kind))
        self.count += 1
        name = f"{kind}{self.count}"
        self.bind(name, x)
        self.names[name] = kind

    def tame(self, x: Expr) -> Expr:
        """An expression bounded in magnitude."""

        def value(run: TwinRun) -> np.ndarray:
            v = x.value(run)
            return run.rounded(v / run.rounded(run.rounded(run.rounded(v * v) * 0.25) + 1.0))

        return Expr(f"tamed({x.text})", x.kind, value)

    def change(self, lanes: bool = False) -> None:
        kinds = "l" if lanes else "ultm"
        name = self.r.choice([n for n, k in self.names.items() if k in kinds] or ["l"])
        if name in self.names:
            self.bind(name, self.tame(self.expr(self.names[name])))

    def statement(self, depth: int) -> None:
        nests = [self.branch, self.loop, self.lane_branch, self.pick]
        if depth and self.r.random() < 0.5:
            self.r.choice(nests)(depth - 1)
        else:
            self.r.choice((self.assign, self.change, self.change, self.grow))()

    def grow(self) -> None:
        """A sum of the previous value and an expression, as loops over tiles compute it."""
        name = self.r.choice([n for n, k in self.names.items() if k in "ult"])
        x, y = self.expr(self.names[name], 1), self.leaf(self.names[name])
        fused = Expr(f"{name} + {x.text} * {y.text}", "", lambda run: run.rounded(
            run.names[name] + run.rounded(x.value(run) * y.value(run))))  # fmt: skip
        self.bind(name, Expr(f"({fused.text}) * D(0.5)", "", lambda run: run.rounded(fused.value(run) * 0.5)))

    def compared(self, x: Expr) -> tuple[str, int, float]:
        """A number that is near 0 at an edge, the edge, and the slope of the number by the edge."""
        self.edge += 1
        edge = self.edge - 1
        index = "j" if x.kind == "l" else "0"
        return f"({x.text} - c[{edge}, {index}])", edge, self.r.choice((0.0, 0.0, 0.0, -0.25, 0.25))

    def decided(
        self, x: Expr, test: str, decide: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[str, Callable[[TwinRun], Any]]:
        """The name of an integer that the kernel decides and records, and the twin's value for it."""
        near, edge, step = self.compared(x)
        self.count += 1
        name = f"k{self.count}"
        self.body.lines += [f"{name} = {test.format(near)}", f"paths[p, j] = {name}", "p += 1"]
        if self.r.random() < 0.5 and x.kind == "u":
            last = CELLS - 1
            self.body.add(f"y[{last}] = a[0]", lambda run: run.results.append((last, run.a[:1])))
        return name, lambda run: run.choice(edge, x.value(run), decide, step)

    def edge_expr(self, kind: str) -> Expr:
        """A product that is used only in a subtraction, so that it is fused, or a product that is also a result."""
        x, y = self.leaf(kind), self.leaf(kind)
        product = Expr(f"{x.text} * {y.text}", kind, lambda run: run.rounded(x.value(run) * y.value(run)))
        if self.r.random() < 0.4:
            return product
        self.count += 1
        name = f"{kind}{self.count}"
        self.bind(name, product)
        self.names[name] = kind
        return Expr(name, kind, lambda run: run.names[name])

    def can_decide(self) -> bool:
        return self.edge < EDGES and self.loops < 2

    def branch(self, depth: int) -> None:
        if not self.can_decide():
            return
        name, take = self.decided(self.edge_expr("u"), "int({} >= 0.0)", lambda d: d >= 0.0)
        bodies: list[Body] = []
        for opening in (f"if {name} != 0:", "else:"):
            with self.inside(opening) as body:
                for _ in range(self.r.randint(1, 2)):
                    self.change() if self.r.random() < 0.7 else self.statement(0)
            bodies.append(body)
        self.body.steps.append(lambda run: bodies[0 if take(run) else 1].run(run))

    def lane_branch(self, depth: int) -> None:
        lanes = [n for n, k in self.names.items() if k == "l"]
        if not self.can_decide() or not lanes:
            return
        name, take = self.decided(self.edge_expr("l"), "int({} >= 0.0)", lambda d: d >= 0.0)
        target = self.r.choice(lanes)
        self.lane_code = True
        x, y = self.tame(self.expr("l")), self.tame(self.expr("l"))
        self.lane_code = False

        def step(run: TwinRun) -> None:
            chosen = take(run)
            first = np.asarray(chosen != 0, np.float64)
            run.names[target] = x.value(run) * first + y.value(run) * (1.0 - first)

        form = self.r.choice(("choice", "branch", "where"))
        if form == "branch":
            self.body.lines += [f"if {name} != 0:", f"    {target} = {x.text}", "else:"]
            self.body.add(f"    {target} = {y.text}", step)
        elif form == "where":
            self.body.add(f"{target} = tg.where({name} != 0, {x.text}, {y.text})", step)
        else:
            self.body.add(f"{target} = {x.text} if {name} != 0 else {y.text}", step)

    def pick(self, depth: int) -> None:
        """An element at an index that is rounded down."""
        if not self.can_decide():
            return
        kind = self.r.choice("ul")
        name, take = self.decided(self.edge_expr(kind), "min(max(int(tg.floor({} * D(8.0))) + 7, 0), 15)",
                                  lambda d: np.clip(np.floor(d * 8.0) + 7, 0, 15))  # fmt: skip
        x = Expr(f"a[{name}]", kind, lambda run: run.a[take(run)])
        self.count += 1
        choice_name = f"{kind}{self.count}"
        self.bind(choice_name, x)
        self.names[choice_name] = kind

    def loop(self, depth: int) -> None:
        if self.loops == 2:
            return
        self.loops += 1
        self.count += 1
        with self.inside(f"for q{self.count} in range(n):") as body:
            for _ in range(self.r.randint(1, 3)):
                self.r.choice((self.grow, self.change, lambda: self.statement(depth)))()
        self.loops -= 1

        def step(run: TwinRun) -> None:
            for _ in range(self.n):
                body.run(run)

        self.body.steps.append(step)

    def results(self) -> None:
        index = 0
        for name, kind in list(self.names.items()):
            size = SIDE * SIDE if kind == "m" else LANES
            if index + size >= CELLS:
                break
            first = index
            if kind == "m":
                text = f"tg.tile_store(y, tg.tile_reshape({name}, ({size},)), offset={first})"
            else:
                text = (
                    f"tg.tile_store(y, {name}, offset={first})" if kind == "t" else f"y[{first} + j] = {name}"
                )

            def step(run: TwinRun, name: str = name, first: int = first, size: int = size) -> None:
                run.results.append((first, run.names[name].reshape(-1) + np.zeros(size)))

            self.body.add(text, step)
            index += size
        self.cells = index

    # The twin ---------------------------------------------------------------------------------------------------------

    def alone(self, a: np.ndarray) -> TwinRun:
        """A run that decides itself, and sets its edges so that conditions are at the edge for these inputs."""
        run = TwinRun(TYPES[self.dtype], a, None, np.zeros((EDGES, LANES)))
        self.body.run(run)
        return run

    def known(self, a: np.ndarray, edges: np.ndarray, paths: Any) -> TwinRun:
        """A run that takes the kernel's paths."""
        run = TwinRun(TYPES[self.dtype], a, paths, edges)
        self.body.run(run)
        return run

    def again(self, base: TwinRun, a: Any) -> TwinRun:
        """A run for other inputs, or inputs with derivatives, with the same paths and errors."""
        run = TwinRun(base.dtype, a, base.taken, base.edges, base)
        self.body.run(run)
        return run

    def values(self, run: TwinRun) -> np.ndarray:
        """The result `y` of the float64 twin."""
        y = np.zeros(CELLS)
        for first, value in run.results:
            y[first : first + len(value)] = value
        return y

    def gradient(self, base: TwinRun, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of the sum of g y by each input, and the error that rounding adjoints to float32 may cause."""
        run = self.again(base, DualNumbers.inputs(base.a))
        parts = sum((value * g[first : first + value.value.size]).sum().parts for first, value in run.results)
        return np.asarray(parts)[0], np.asarray(parts)[2]


UP_TO = np.tril(np.ones((LANES, LANES)))
"""The matrix of a running sum: each row has the terms of one sum."""


def _square(x: Any) -> Any:
    return x * x


def _matmul(x: Any, y: Any) -> Any:
    """The matmul of two matrices."""
    return (x.reshape(SIDE, SIDE, 1) * y.reshape(1, SIDE, SIDE)).sum(1)


def _parts(best: np.ndarray) -> np.ndarray:
    return best / np.count_nonzero(best)


def _window(a: Any, start: int) -> Any:
    """A tile of LANES elements; 0 outside."""
    index = start + np.arange(LANES)
    return a[np.minimum(index, INPUTS - 1)] * (index < INPUTS)
