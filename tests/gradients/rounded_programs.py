"""Random kernels in every float type, each with a NumPy twin that is independent of the compiler.

The twin computes the kernel's operations in float64, and adds the kernel's rounding error to each result. It follows
the recorded paths of the kernel: conditions and indices are placed at the edge of rounding. Therefore the derivative of
the twin in forward mode is the derivative of the kernel's computation."""

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
"""The largest numbers of results, of recorded decisions, and of comparisons."""
TYPES: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
RESULT_GRADIENTS = np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])
"""Gradients of results."""
FLOAT32_ROUNDING = 2.0**-24
"""The largest relative error of rounding an adjoint to float32; adjoints of narrower types are computed in float32."""

SQUASH = """def squash(x):
    return x / (x * x * 0.25 + 1.0)
"""
"""A bounded function of a few instructions."""


class TwinRun:
    """An evaluation of a twin. `paths`: the kernel's decisions, or None if the twin decides and sets the `edges`;
    `decisions`: the decisions of this run. `errors`: the rounding errors, and `extreme_weights`: the weights of equal
    extremes; both are computed in this run, or taken from `base_run`."""

    def __init__(
        self, dtype: Any, a: Any, paths: Any, edges: np.ndarray, base_run: TwinRun | None = None
    ) -> None:
        self.dtype, self.a, self.paths, self.edges = dtype, a, paths, edges
        self.results: list[tuple[int, Any]] = []
        self.names: dict[str, Any] = {}
        self.base_run = base_run
        self.errors: list[np.ndarray] = []
        self.extreme_weights: list[np.ndarray] = []
        self.decisions: list[Any] = []
        self.error_index = self.weight_index = 0
        self.assigned_edges: set[int] = set()

    def round(self, exact: Any, dtype: Any = None) -> Any:
        """The kernel's rounded value for an exact result. The adjoint of a value with a type has this type, or
        float32."""
        if self.base_run is None:
            exact = np.asarray(exact, np.float64)
            rounded = exact.astype(dtype or self.dtype).astype(np.float64)
            self.errors.append(rounded - exact)
            return rounded
        if isinstance(exact, DualNumbers) and (dtype or self.dtype) is not np.float64:
            exact = exact.with_rounded_adjoint(FLOAT32_ROUNDING)
        self.error_index += 1
        return exact + self.base_run.errors[self.error_index - 1]

    def decision(self, edge: int, x: Any, decide: Callable[[np.ndarray], np.ndarray], step: float) -> Any:
        """The kernel's decision: an integer for each lane, or one integer."""
        self.decisions.append(self._decide(edge, x, decide, step))
        return self.decisions[-1]

    def _decide(self, edge: int, x: Any, decide: Callable[[np.ndarray], np.ndarray], step: float) -> Any:
        if self.paths is not None:
            result = np.asarray(self.paths[len(self.decisions)])
            return result if x.ndim or not result.ndim else result[0]
        if edge not in self.assigned_edges:
            self.assigned_edges.add(edge)
            rounded = np.float64(np.asarray(x + step, self.dtype))
            self.edges[edge] = rounded
        return decide(x - (self.edges[edge] if x.ndim else self.edges[edge, 0])).astype(int)

    def weights(self, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The weights of a gradient for equal extremes, as in the run that computed the rounding errors."""
        if self.base_run is None:
            self.extreme_weights.append(compute())
            return self.extreme_weights[-1]
        self.weight_index += 1
        return self.base_run.extreme_weights[self.weight_index - 1]


@dataclass(frozen=True)
class Expression:
    """An expression of the kernel and of the twin. `kind`: "u" for a scalar of the block, "l" for a scalar of each
    lane, "t" for a tile of LANES elements, "m" for a tile of SIDE x SIDE elements."""

    text: str
    kind: str
    value: Callable[[TwinRun], Any]
    """An array of NumPy, or `DualNumbers`."""


@dataclass
class Body:
    """Statements: lines of the kernel, and the operations of the twin."""

    lines: list[str] = field(default_factory=list)
    steps: list[Callable[[TwinRun], None]] = field(default_factory=list)

    def emit(self, text: str, step: Callable[[TwinRun], None] | None = None) -> None:
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
    """A random program. `text`: a kernel(n, a, c, paths, y) in the type D; `body`: its twin."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = list(TYPES)[seed % len(TYPES)]
        self.n = self.rng.choice((0, 1, 2, 3))
        self.body = Body()
        self.names: dict[str, str] = {}
        self.edge_count = self.name_count = 0
        self.loop_depth = 0
        self.lane_code = False
        for kind in "ult":
            self.new_variable(kind)
        for _ in range(self.rng.randint(3, 6)):
            self.statement(2)
        self.store_results()
        lines = ["i, j = tg.tid()", "p = int(0)", *self.body.lines]
        body = "\n".join(f"    {line}" for line in lines)
        head = "n: int, a: tg.array[D], c: tg.array2d[D], paths: tg.array2d[int], y: tg.array[D]"
        self.text = f"def kernel({head}):\n{body}\n"

    def __str__(self) -> str:
        return f"# D = {self.dtype}, n = {self.n}\n{self.text}"

    # Expressions ------------------------------------------------------------------------------------------------------

    def leaf(self, kind: str) -> Expression:
        names = [name for name, k in self.names.items() if k == kind]
        if names and self.rng.random() < 0.65:
            name = self.rng.choice(names)
            return Expression(name, kind, lambda run: run.names[name])
        position = self.rng.randrange(INPUTS)
        if kind == "u":
            return Expression(f"a[{position}]", kind, lambda run: run.a[position])
        if kind == "l":
            index = (np.arange(LANES) * 3 + position) % INPUTS
            return Expression(f"a[(j * 3 + {position}) % {INPUTS}]", kind, lambda run: run.a[index])
        if kind == "t":
            return Expression(
                f"tg.tile_load(a, shape={LANES}, offset={position})",
                kind,
                lambda run: _window(run.a, position),
            )
        load = f"tg.tile_reshape(tg.tile_load(a, shape={SIDE * SIDE}), ({SIDE}, {SIDE}))"
        return Expression(load, kind, lambda run: run.a.reshape(SIDE, SIDE))

    def expression(self, kind: str, depth: int = 2) -> Expression:
        if depth == 0 or self.rng.random() < 0.2:
            return self.leaf(kind)
        forms = [self.binary] * 5 + [self.unary] * 4 + [self.cast_round_trip, self.quotient, self.square_root]
        forms_of_kind = {
            "u": [self.tile_reduction, self.uniform_element],
            "l": [self.tile_element, self.vector_length],
            "t": [self.tile_of_lanes, self.reversed_tile, self.scan],
            "m": [self.matmul, self.transpose],
        }
        forms += forms_of_kind[kind] * 2
        if self.lane_code:
            forms = [self.binary, self.unary, self.cast_round_trip, self.quotient, self.square_root]
            forms += [self.vector_length] * (kind == "l")
        return self.rng.choice(forms)(kind, depth - 1)

    def binary(self, kind: str, depth: int) -> Expression:
        x, y = self.expression(kind, depth), self.expression(kind if self.rng.random() < 0.7 else "u", depth)
        sign, f = self.rng.choice((("+", np.add), ("-", np.subtract), ("*", np.multiply), ("*", np.multiply)))
        return Expression(
            f"({x.text} {sign} {y.text})", kind, lambda run: run.round(f(x.value(run), y.value(run)))
        )

    def unary(self, kind: str, depth: int) -> Expression:
        x, (form, f) = self.expression(kind, depth), self.rng.choice(UNARY)
        return Expression(f"({form.format(f'({x.text})')})", kind, lambda run: run.round(f(x.value(run))))

    def cast_round_trip(self, kind: str, depth: int) -> Expression:
        """A cast to a narrower type and back."""
        x, to = self.expression(kind, depth), self.rng.choice(("float32", "float16", "bfloat16"))
        if kind in "tm":
            text = f"tg.tile_astype(tg.tile_astype({x.text}, tg.{to}), D)"
        else:
            text = f"D(tg.{to}({x.text}))"
        return Expression(text, kind, lambda run: run.round(run.round(x.value(run), TYPES[to])))

    def quotient(self, kind: str, depth: int) -> Expression:
        x, y = self.expression(kind, depth), self.leaf(kind)

        def value(run: TwinRun) -> np.ndarray:
            top, v = x.value(run), y.value(run)
            return run.round(top / run.round(run.round(v * v) + 1.0))

        return Expression(f"({x.text} / ({y.text} * {y.text} + D(1.0)))", kind, value)

    def square_root(self, kind: str, depth: int) -> Expression:
        y = self.leaf(kind)
        return Expression(
            f"tg.sqrt({y.text} * {y.text} + D(0.5))",
            kind,
            lambda run: run.round(np.sqrt(run.round(run.round(_square(y.value(run))) + 0.5))),
        )

    def tile_reduction(self, kind: str, depth: int) -> Expression:
        """The sum or an extreme of a tile."""
        x = self.expression("t", depth)
        combination = self.rng.choice(("sum", "max", "min"))
        if combination == "sum":
            return Expression(
                f"(tg.tile_sum({x.text})[0] * D(0.25))",
                "u",
                lambda run: run.round(run.round(x.value(run).sum()) * 0.25),
            )

        def value(run: TwinRun) -> np.ndarray:
            v = x.value(run)
            return (
                v * run.weights(lambda: _equal_weights(v == (v.max() if combination == "max" else v.min())))
            ).sum()

        return Expression(f"tg.tile_{combination}({x.text})[0]", "u", value)

    def uniform_element(self, kind: str, depth: int) -> Expression:
        x, index = self.leaf("t"), self.rng.randrange(LANES)
        return Expression(f"({x.text})[{index}]", "u", lambda run: x.value(run)[index])

    def tile_element(self, kind: str, depth: int) -> Expression:
        x = self.expression("t", depth)
        if self.rng.random() < 0.5:
            return Expression(f"tg.untile({x.text})", "l", x.value)
        step = self.rng.choice((1, 3))
        indices = (np.arange(LANES) * step + 1) % LANES
        return Expression(f"({x.text})[(j * {step} + 1) % {LANES}]", "l", lambda run: x.value(run)[indices])

    def tile_of_lanes(self, kind: str, depth: int) -> Expression:
        x = self.expression("l", depth)
        return Expression(f"tg.tile({x.text})", "t", lambda run: x.value(run) + np.zeros(LANES))

    def reversed_tile(self, kind: str, depth: int) -> Expression:
        x = self.leaf("t")
        return Expression(f"({x.text})[::-1]", "t", lambda run: x.value(run)[::-1])

    def scan(self, kind: str, depth: int) -> Expression:
        x = self.leaf("t")

        def value(run: TwinRun) -> np.ndarray:
            return run.round(run.round((x.value(run) * LOWER_TRIANGLE).sum(1)) * 0.25)

        return Expression(f"(tg.tile_scan_inclusive({x.text}) * D(0.25))", "t", value)

    def vector_length(self, kind: str, depth: int) -> Expression:
        x, y = self.leaf("l"), self.leaf("u" if self.rng.random() < 0.3 else "l")

        def value(run: TwinRun) -> np.ndarray:
            v, w = x.value(run), y.value(run)
            return run.round(np.sqrt(run.round(run.round(v * v) + run.round(w * w + 0.0 * v))))

        return Expression(f"tg.length(tg.vector({x.text}, {y.text}))", "l", value)

    def matmul(self, kind: str, depth: int) -> Expression:
        x, y = self.expression("m", depth), self.leaf("m")
        return Expression(
            f"(({x.text} @ {y.text}) * D(0.25))",
            "m",
            lambda run: run.round(run.round(_matmul(x.value(run), y.value(run))) * 0.25),
        )

    def transpose(self, kind: str, depth: int) -> Expression:
        x = self.leaf("m")
        return Expression(f"tg.tile_transpose({x.text})", "m", lambda run: x.value(run).T)

    # Statements -------------------------------------------------------------------------------------------------------

    @contextmanager
    def nested_block(self, opening: str) -> Iterator[Body]:
        """Statements under a line; the names that they bind leave the scope at the end."""
        outer, self.body = self.body, Body()
        saved_names, inner = dict(self.names), self.body
        yield inner
        self.names, self.body = saved_names, outer
        self.body.lines += [opening, *(f"    {line}" for line in inner.lines or ["pass"])]

    def bind(self, name: str, x: Expression) -> None:
        def step(run: TwinRun) -> None:
            run.names[name] = x.value(run) + 0.0

        self.body.emit(f"{name} = {x.text}", step)

    def new_variable(self, kind: str | None = None) -> None:
        kind = kind or self.rng.choice("uullttm")
        x = self.squashed(self.expression(kind))
        self.name_count += 1
        name = f"{kind}{self.name_count}"
        self.bind(name, x)
        self.names[name] = kind

    def squashed(self, x: Expression) -> Expression:
        """An expression whose magnitude is at most 1."""

        def value(run: TwinRun) -> np.ndarray:
            v = x.value(run)
            return run.round(v / run.round(run.round(run.round(v * v) * 0.25) + 1.0))

        return Expression(f"squash({x.text})", x.kind, value)

    def reassign(self, lanes: bool = False) -> None:
        kinds = "l" if lanes else "ultm"
        name = self.rng.choice([n for n, k in self.names.items() if k in kinds] or ["l"])
        if name in self.names:
            self.bind(name, self.squashed(self.expression(self.names[name])))

    def statement(self, depth: int) -> None:
        nests = [self.branch, self.loop, self.lane_branch, self.indexed_load]
        if depth and self.rng.random() < 0.5:
            self.rng.choice(nests)(depth - 1)
        else:
            self.rng.choice((self.new_variable, self.reassign, self.reassign, self.accumulate))()

    def accumulate(self) -> None:
        """A sum of the previous value and a matmul term, as loops over tiles compute it."""
        name = self.rng.choice([n for n, k in self.names.items() if k in "ult"])
        x, y = self.expression(self.names[name], 1), self.leaf(self.names[name])
        fused = Expression(f"{name} + {x.text} * {y.text}", "", lambda run: run.round(
            run.names[name] + run.round(x.value(run) * y.value(run))))  # fmt: skip
        self.bind(
            name, Expression(f"({fused.text}) * D(0.5)", "", lambda run: run.round(fused.value(run) * 0.5))
        )

    def edge_comparison(self, x: Expression) -> tuple[str, int, float]:
        """The text of a number that is close to 0 at an edge, the index of the edge, and the distance of the edge from
        the number."""
        self.edge_count += 1
        edge = self.edge_count - 1
        index = "j" if x.kind == "l" else "0"
        return f"({x.text} - c[{edge}, {index}])", edge, self.rng.choice((0.0, 0.0, 0.0, -0.25, 0.25))

    def recorded_decision(
        self, x: Expression, test: str, decide: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[str, Callable[[TwinRun], Any]]:
        """The name of an integer that the kernel computes and records, and the twin's function for it."""
        comparison, edge, step = self.edge_comparison(x)
        self.name_count += 1
        name = f"k{self.name_count}"
        self.body.lines += [f"{name} = {test.format(comparison)}", f"paths[p, j] = {name}", "p += 1"]
        if self.rng.random() < 0.5 and x.kind == "u":
            last = CELLS - 1
            self.body.emit(f"y[{last}] = a[0]", lambda run: run.results.append((last, run.a[:1])))
        return name, lambda run: run.decision(edge, x.value(run), decide, step)

    def edge_expression(self, kind: str) -> Expression:
        """A product that is used only in a subtraction, so that it is fused, or a product that is also a result."""
        x, y = self.leaf(kind), self.leaf(kind)
        product = Expression(f"{x.text} * {y.text}", kind, lambda run: run.round(x.value(run) * y.value(run)))
        if self.rng.random() < 0.4:
            return product
        self.name_count += 1
        name = f"{kind}{self.name_count}"
        self.bind(name, product)
        self.names[name] = kind
        return Expression(name, kind, lambda run: run.names[name])

    def can_decide(self) -> bool:
        return self.edge_count < EDGES and self.loop_depth < 2

    def branch(self, depth: int) -> None:
        if not self.can_decide():
            return
        name, take_branch = self.recorded_decision(
            self.edge_expression("u"), "int({} >= 0.0)", lambda d: d >= 0.0
        )
        bodies: list[Body] = []
        for opening in (f"if {name} != 0:", "else:"):
            with self.nested_block(opening) as body:
                for _ in range(self.rng.randint(1, 2)):
                    self.reassign() if self.rng.random() < 0.7 else self.statement(0)
            bodies.append(body)
        self.body.steps.append(lambda run: bodies[0 if take_branch(run) else 1].run(run))

    def lane_branch(self, depth: int) -> None:
        lanes = [n for n, k in self.names.items() if k == "l"]
        if not self.can_decide() or not lanes:
            return
        name, take_branch = self.recorded_decision(
            self.edge_expression("l"), "int({} >= 0.0)", lambda d: d >= 0.0
        )
        target = self.rng.choice(lanes)
        self.lane_code = True
        x, y = self.squashed(self.expression("l")), self.squashed(self.expression("l"))
        self.lane_code = False

        def step(run: TwinRun) -> None:
            branch = take_branch(run)
            first = np.asarray(branch != 0, np.float64)
            run.names[target] = x.value(run) * first + y.value(run) * (1.0 - first)

        form = self.rng.choice(("choice", "branch", "where"))
        if form == "branch":
            self.body.lines += [f"if {name} != 0:", f"    {target} = {x.text}", "else:"]
            self.body.emit(f"    {target} = {y.text}", step)
        elif form == "where":
            self.body.emit(f"{target} = tg.where({name} != 0, {x.text}, {y.text})", step)
        else:
            self.body.emit(f"{target} = {x.text} if {name} != 0 else {y.text}", step)

    def indexed_load(self, depth: int) -> None:
        """An element at an index that is rounded down."""
        if not self.can_decide():
            return
        kind = self.rng.choice("ul")
        name, index_of = self.recorded_decision(
            self.edge_expression(kind),
            "min(max(int(tg.floor({} * D(8.0))) + 7, 0), 15)",
            lambda d: np.clip(np.floor(d * 8.0) + 7, 0, 15),
        )
        x = Expression(f"a[{name}]", kind, lambda run: run.a[index_of(run)])
        self.name_count += 1
        element_name = f"{kind}{self.name_count}"
        self.bind(element_name, x)
        self.names[element_name] = kind

    def loop(self, depth: int) -> None:
        if self.loop_depth == 2:
            return
        self.loop_depth += 1
        self.name_count += 1
        with self.nested_block(f"for q{self.name_count} in range(n):") as body:
            for _ in range(self.rng.randint(1, 3)):
                self.rng.choice((self.accumulate, self.reassign, lambda: self.statement(depth)))()
        self.loop_depth -= 1

        def step(run: TwinRun) -> None:
            for _ in range(self.n):
                body.run(run)

        self.body.steps.append(step)

    def store_results(self) -> None:
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

            self.body.emit(text, step)
            index += size
        self.cells = index

    # The twin ---------------------------------------------------------------------------------------------------------

    def run_at_edges(self, a: np.ndarray) -> TwinRun:
        """A run that decides by itself, and sets its edges so that conditions are at the edge of rounding for these
        inputs."""
        run = TwinRun(TYPES[self.dtype], a, None, np.zeros((EDGES, LANES)))
        self.body.run(run)
        return run

    def run_on_paths(self, a: np.ndarray, edges: np.ndarray, paths: Any) -> TwinRun:
        """A run that follows the kernel's paths."""
        run = TwinRun(TYPES[self.dtype], a, paths, edges)
        self.body.run(run)
        return run

    def rerun(self, base: TwinRun, a: Any) -> TwinRun:
        """A run for other inputs, or for inputs with derivatives, with the same paths and rounding errors."""
        run = TwinRun(base.dtype, a, base.decisions, base.edges, base)
        self.body.run(run)
        return run

    def values(self, run: TwinRun) -> np.ndarray:
        """The result y of the float64 twin."""
        y = np.zeros(CELLS)
        for first, value in run.results:
            y[first : first + len(value)] = value
        return y

    def gradient(self, base: TwinRun, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of the sum of g * y by each input, and a bound for the error of rounding adjoints to
        float32."""
        run = self.rerun(base, DualNumbers.inputs(base.a))
        tangents = sum(
            (value * g[first : first + value.value.size]).sum().tangents for first, value in run.results
        )
        return np.asarray(tangents)[0], np.asarray(tangents)[2]


LOWER_TRIANGLE = np.tril(np.ones((LANES, LANES)))
"""The matrix of an inclusive scan: row i selects the first i + 1 elements."""


def _square(x: Any) -> Any:
    return x * x


def _matmul(x: Any, y: Any) -> Any:
    """The matmul of two SIDE x SIDE matrices."""
    return (x.reshape(SIDE, SIDE, 1) * y.reshape(1, SIDE, SIDE)).sum(1)


def _equal_weights(best: np.ndarray) -> np.ndarray:
    return best / np.count_nonzero(best)


def _window(a: Any, start: int) -> Any:
    """A tile of LANES elements of `a` from an index; 0 out of bounds."""
    index = start + np.arange(LANES)
    return a[np.minimum(index, INPUTS - 1)] * (index < INPUTS)
