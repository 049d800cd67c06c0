"""A generated kernel's gradients against finite differences and against derivatives in forward mode."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from forward_mode import both_sides
from forward_mode import forward as in_forward_mode
from kinked_programs import KinkedProgram
from smooth_programs import BLOCK, CELLS, SmoothProgram

import tegula as tg

TRIP_COUNTS = (0, 1, 2, 17)
STABLE, AGREED = 2e-4, 1e-3
"""Tolerances: of differences with two step sizes, which are used only if they agree, and of the gradient."""
OF_PROGRAMS = (
    *("merged-shared-tiles", "unordered-access", "divergent-cooperative-op", "unbound-name"),
    "cooperative-after-return",
)
OF_GRADIENTS = ("no-gradient", "overwritten-array")
"""The errors by which the compiler may refuse a generated program or its gradient."""
EXACT = 1e-9
"""The gradient must agree this well with the derivative in forward mode, where values do that well."""


def build(program: SmoothProgram) -> Any:
    """The kernel object."""
    space: dict[str, Any] = {"tg": tg, "D": tg.float64, **program.names}
    for name, text in program.functions.items():
        exec(text, space)
        space[name] = tg.func(source=text)(space[name])
    exec(program.text, space)
    return tg.kernel(source=program.text)(space["kernel"])


# On the device --------------------------------------------------------------------------------------------------------

A, Y = 1, 2
"""Positions of the arrays among the arguments of a kernel."""
SHAPES = {A: (8, 20), Y: (2, CELLS)}


@dataclass
class Launches:
    """Independent launches of a kernel and of its adjoint: their arrays are copied to and from the device together,
    because on a GPU that processes share each wait is for all of them.

    `run` makes `values` of y after each launch, and `gradients` of a and y before it, given those after it."""

    kernel: Any
    asked: list[tuple[int, np.ndarray]] = field(default_factory=list)
    asked_back: list[tuple[int, np.ndarray, dict[int, np.ndarray]]] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    gradients: list[dict[int, np.ndarray]] = field(default_factory=list)

    def ask(self, n: int, a: np.ndarray) -> int:
        """The number of a launch."""
        self.asked.append((n, a))
        return len(self.asked) - 1

    def ask_back(self, n: int, a: np.ndarray, weights: dict[int, np.ndarray]) -> int:
        """The number of an adjoint. `weights`: the gradients after the launch."""
        self.asked_back.append((n, a, weights))
        return len(self.asked_back) - 1

    def run(self) -> None:
        if self.asked_back:
            a, y = _stacked([a for _, a, _ in self.asked_back])
            grads = {k: tg.array(np.stack([w[k] for *_, w in self.asked_back])) for k in (A, Y)}
            for k, (n, *_) in enumerate(self.asked_back):
                adjoint_arguments = {"adj_inputs": [None, grads[A][k]], "adj_outputs": [grads[Y][k]]}
                launch(self.kernel, n, a[k], y[k], **adjoint_arguments, adjoint=True)
        if self.asked:
            a, y = _stacked([a for _, a in self.asked])
            for k, (n, _) in enumerate(self.asked):
                launch(self.kernel, n, a[k], y[k])
            self.values = list(y.numpy())
        if self.asked_back:
            back = {k: g.numpy() for k, g in grads.items()}
            self.gradients = [{k: g[index] for k, g in back.items()} for index in range(len(self.asked_back))]


def _stacked(inputs: list[np.ndarray]) -> tuple[tg.array, tg.array]:
    return tg.array(np.stack(inputs)), tg.zeros((len(inputs), *SHAPES[Y]), dtype=tg.float64)


def launch(kernel: Any, n: int, a: tg.array, y: tg.array, **options: Any) -> None:
    tg.launch(kernel, (2, BLOCK), [n, a], [y], block_dim=BLOCK, **options)


# Measures -------------------------------------------------------------------------------------------------------------


def check(
    program: SmoothProgram, directions: int = 2, forward: Collection[int] = TRIP_COUNTS
) -> dict[int, str]:
    """The outcome of each trip count: "right", "wrong: ...", "unstable" if the kernel magnifies rounding, or the code
    of a listed error that refused it. `forward`: the trip counts that also run in forward mode, the only ones of a
    program with kinks."""
    kinked = isinstance(program, KinkedProgram)
    counts, runs = forward if kinked else TRIP_COUNTS, Launches(build(program))
    differences: dict[int, list[Difference]] = {}
    ahead: dict[int, InForwardMode] = {}
    for n in counts:
        rng = np.random.default_rng(n)
        a = rng.uniform(-1, 1, SHAPES[A])
        differences[n] = [] if kinked else [Difference(runs, n, a, rng) for _ in range(directions)]
        if n in forward:
            ahead[n] = InForwardMode(runs, n, a)
    try:
        runs.run()
    except tg.CompileError as error:
        codes = {e.CODE for e in getattr(error, "errors", [error])}
        if not codes.issubset(OF_PROGRAMS + OF_GRADIENTS):
            raise
        return dict.fromkeys(counts, min(codes))
    out: dict[int, str] = {}
    for n in counts:
        verdicts = {difference.verdict() for difference in differences[n]} or {"unstable"}
        exact = ahead[n].verdict() if n in ahead else "unstable"
        wrong = [verdict for verdict in (exact, *verdicts) if verdict.startswith("wrong")]
        out[n] = wrong[0] if wrong else "right" if exact == "right" or verdicts == {"right"} else "unstable"
    return out


class Difference:
    """The gradient along a random direction against central differences of two step sizes."""

    def __init__(self, runs: Launches, n: int, a: np.ndarray, rng: np.random.Generator) -> None:
        self.runs = runs
        self.along, self.weights = rng.standard_normal(SHAPES[A]), rng.standard_normal(SHAPES[Y])
        self.steps = [
            (eps, *(runs.ask(n, a + sign * eps * self.along) for sign in (1, -1))) for eps in (1e-5, 2e-6)
        ]
        self.back = runs.ask_back(n, a, {A: np.zeros(SHAPES[A]), Y: self.weights})

    def verdict(self) -> str:
        values = self.runs.values
        terms = [self.weights * (values[up] - values[down]) / (2 * eps) for eps, up, down in self.steps]
        numbers, size = [float(t.sum()) for t in terms], float(np.abs(terms[0]).sum()) + 1e-3
        if not abs(numbers[0] - numbers[1]) <= STABLE * size:
            return "unstable"
        result = float((self.runs.gradients[self.back][A] * self.along).sum())
        if not abs(result - numbers[1]) <= AGREED * size:
            return f"wrong: {result} for {numbers}, terms sum to {size}"
        return "right"


class InForwardMode:
    """The gradient along a random direction against the derivative in forward mode."""

    def __init__(self, runs: Launches, n: int, a: np.ndarray) -> None:
        rng = np.random.default_rng(0)
        self.runs, self.n, self.a = runs, n, a
        self.along = {k: rng.standard_normal(shape) for k, shape in SHAPES.items()}
        self.weights = {k: rng.standard_normal(shape) for k, shape in SHAPES.items()}
        self.ahead, self.back = runs.ask(n, a), runs.ask_back(n, a, self.weights)

    def verdict(self) -> str:
        """The outcome; "unstable" if values are not finite or differ from the values of the compiled kernel."""
        arrays = [tg.array(x, device="cpu") for x in (self.a, np.zeros(SHAPES[Y]))]
        tangents = [None, self.along[A], self.along[Y]]
        values, jv = in_forward_mode(self.runs.kernel, [self.n, *arrays], tangents, (2, BLOCK), BLOCK)
        after = {A: self.a, Y: self.runs.values[self.ahead]}
        sides = both_sides(self.along, self.weights, values, jv, after, self.runs.gradients[self.back])
        if sides.error <= EXACT:
            return "right"
        unstable = sides.apart > EXACT or not np.isfinite(sides.forward)
        return "unstable" if unstable else f"wrong: {sides}"
