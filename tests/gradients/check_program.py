"""Compares the gradients of a generated kernel with finite differences and with derivatives in forward mode."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from forward_mode import forward as in_forward_mode
from forward_mode import identity_sides
from kinked_programs import KinkedProgram
from smooth_programs import BLOCK, RESULT_SIZE, SmoothProgram

import tegula as tg

TRIP_COUNTS = (0, 1, 2, 17)
STEP_TOLERANCE, GRADIENT_TOLERANCE = 2e-4, 1e-3
"""Tolerances: of difference quotients with two step sizes, which are used only if they agree, and of the gradient."""
PROGRAM_REFUSALS = (
    *("merged-shared-tiles", "unordered-access", "divergent-cooperative-op", "unbound-name"),
    "cooperative-after-return",
)
GRADIENT_REFUSALS = ("no-gradient", "overwritten-array")
"""The errors by which the compiler may refuse a generated program or its gradient."""
FORWARD_TOLERANCE = 1e-9
"""The relative tolerance of the gradient against the derivative in forward mode, and of the values of the two runs."""


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
"""The positions of the arrays `a` and `y` among the arguments of a kernel."""
SHAPES = {A: (8, 20), Y: (2, RESULT_SIZE)}


@dataclass
class Launches:
    """Independent launches of a kernel and of its adjoint. Their arrays are copied to and from the device together: on
    a GPU that several processes share, each wait is expensive.

    `run` sets `values`, the contents of y after each launch, and `gradients`, the gradients of a and y before each
    launch, for given gradients after it."""

    kernel: Any
    forward_requests: list[tuple[int, np.ndarray]] = field(default_factory=list)
    adjoint_requests: list[tuple[int, np.ndarray, dict[int, np.ndarray]]] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    gradients: list[dict[int, np.ndarray]] = field(default_factory=list)

    def request_launch(self, n: int, a: np.ndarray) -> int:
        """Request a launch. Returns its index in `values`."""
        self.forward_requests.append((n, a))
        return len(self.forward_requests) - 1

    def request_adjoint(self, n: int, a: np.ndarray, weights: dict[int, np.ndarray]) -> int:
        """Request an adjoint launch. Returns its index in `gradients`. `weights`: the gradients after the launch."""
        self.adjoint_requests.append((n, a, weights))
        return len(self.adjoint_requests) - 1

    def run(self) -> None:
        if self.adjoint_requests:
            a, y = _stacked([a for _, a, _ in self.adjoint_requests])
            grads = {k: tg.array(np.stack([w[k] for *_, w in self.adjoint_requests])) for k in (A, Y)}
            for k, (n, *_) in enumerate(self.adjoint_requests):
                adjoint_arguments = {"adj_inputs": [None, grads[A][k]], "adj_outputs": [grads[Y][k]]}
                launch(self.kernel, n, a[k], y[k], **adjoint_arguments, adjoint=True)
        if self.forward_requests:
            a, y = _stacked([a for _, a in self.forward_requests])
            for k, (n, _) in enumerate(self.forward_requests):
                launch(self.kernel, n, a[k], y[k])
            self.values = list(y.numpy())
        if self.adjoint_requests:
            gradients_before = {k: g.numpy() for k, g in grads.items()}
            self.gradients = [
                {k: g[index] for k, g in gradients_before.items()}
                for index in range(len(self.adjoint_requests))
            ]


def _stacked(inputs: list[np.ndarray]) -> tuple[tg.array, tg.array]:
    return tg.array(np.stack(inputs)), tg.zeros((len(inputs), *SHAPES[Y]), dtype=tg.float64)


def launch(kernel: Any, n: int, a: tg.array, y: tg.array, **options: Any) -> None:
    tg.launch(kernel, (2, BLOCK), [n, a], [y], block_dim=BLOCK, **options)


# Measures -------------------------------------------------------------------------------------------------------------


def check(
    program: SmoothProgram, directions: int = 2, forward: Collection[int] = TRIP_COUNTS
) -> dict[int, str]:
    """The outcome for each trip count: "right", "wrong: ...", "unstable" if the kernel magnifies rounding errors, or
    the code of a listed error that refused the program. `forward`: the trip counts that are also checked in forward
    mode; a program with kinks is checked only with these."""
    kinked = isinstance(program, KinkedProgram)
    counts, runs = forward if kinked else TRIP_COUNTS, Launches(build(program))
    difference_checks: dict[int, list[FiniteDifferenceCheck]] = {}
    forward_checks: dict[int, ForwardModeCheck] = {}
    for n in counts:
        rng = np.random.default_rng(n)
        a = rng.uniform(-1, 1, SHAPES[A])
        difference_checks[n] = (
            [] if kinked else [FiniteDifferenceCheck(runs, n, a, rng) for _ in range(directions)]
        )
        if n in forward:
            forward_checks[n] = ForwardModeCheck(runs, n, a)
    try:
        runs.run()
    except tg.CompileError as error:
        codes = {e.CODE for e in getattr(error, "errors", [error])}
        if not codes.issubset(PROGRAM_REFUSALS + GRADIENT_REFUSALS):
            raise
        return dict.fromkeys(counts, min(codes))
    outcomes: dict[int, str] = {}
    for n in counts:
        verdicts = {difference.verdict() for difference in difference_checks[n]} or {"unstable"}
        forward_verdict = forward_checks[n].verdict() if n in forward_checks else "unstable"
        wrong = [verdict for verdict in (forward_verdict, *verdicts) if verdict.startswith("wrong")]
        outcomes[n] = (
            wrong[0]
            if wrong
            else "right"
            if forward_verdict == "right" or verdicts == {"right"}
            else "unstable"
        )
    return outcomes


class FiniteDifferenceCheck:
    """Compares the gradient along a random direction with central differences of two step sizes."""

    def __init__(self, runs: Launches, n: int, a: np.ndarray, rng: np.random.Generator) -> None:
        self.runs = runs
        self.direction, self.weights = rng.standard_normal(SHAPES[A]), rng.standard_normal(SHAPES[Y])
        self.steps = [
            (eps, *(runs.request_launch(n, a + sign * eps * self.direction) for sign in (1, -1)))
            for eps in (1e-5, 2e-6)
        ]
        self.adjoint_index = runs.request_adjoint(n, a, {A: np.zeros(SHAPES[A]), Y: self.weights})

    def verdict(self) -> str:
        values = self.runs.values
        terms = [self.weights * (values[up] - values[down]) / (2 * eps) for eps, up, down in self.steps]
        numbers, size = [float(t.sum()) for t in terms], float(np.abs(terms[0]).sum()) + 1e-3
        if not abs(numbers[0] - numbers[1]) <= STEP_TOLERANCE * size:
            return "unstable"
        result = float((self.runs.gradients[self.adjoint_index][A] * self.direction).sum())
        if not abs(result - numbers[1]) <= GRADIENT_TOLERANCE * size:
            return f"wrong: {result} for {numbers}, terms sum to {size}"
        return "right"


class ForwardModeCheck:
    """Compares the gradient along a random direction with the derivative in forward mode."""

    def __init__(self, runs: Launches, n: int, a: np.ndarray) -> None:
        rng = np.random.default_rng(0)
        self.runs, self.n, self.a = runs, n, a
        self.directions = {k: rng.standard_normal(shape) for k, shape in SHAPES.items()}
        self.weights = {k: rng.standard_normal(shape) for k, shape in SHAPES.items()}
        self.launch_index, self.adjoint_index = (
            runs.request_launch(n, a),
            runs.request_adjoint(n, a, self.weights),
        )

    def verdict(self) -> str:
        """The outcome; "unstable" if values are not finite or differ from the values of the compiled kernel."""
        arrays = [tg.array(x, device="cpu") for x in (self.a, np.zeros(SHAPES[Y]))]
        tangents = [None, self.directions[A], self.directions[Y]]
        values, jv = in_forward_mode(self.runs.kernel, [self.n, *arrays], tangents, (2, BLOCK), BLOCK)
        after = {A: self.a, Y: self.runs.values[self.launch_index]}
        sides = identity_sides(
            self.directions, self.weights, values, jv, after, self.runs.gradients[self.adjoint_index]
        )
        if sides.error <= FORWARD_TOLERANCE:
            return "right"
        unstable = sides.value_difference > FORWARD_TOLERANCE or not np.isfinite(sides.forward)
        return "unstable" if unstable else f"wrong: {sides}"
