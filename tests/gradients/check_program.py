"""A generated kernel's gradients against finite differences and against derivatives in forward mode."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from forward import compare
from kinked_programs import KinkedProgram
from smooth_programs import BLOCK, CELLS, SmoothProgram

import tegula as tg

TRIP_COUNTS = (0, 1, 2, 17)
STABLE, AGREED = 2e-4, 1e-3
"""Differences of two step sizes must agree this well to be a measure, and the gradient with them this well."""
OF_PROGRAMS = (
    *("merged-shared-tiles", "unordered-access", "divergent-cooperative-op", "unbound-name"),
    "cooperative-after-return",
)
OF_GRADIENTS = ("no-gradient", "overwritten-array")
"""What a right compiler may answer to a generated program, and to its gradient, instead of compiling it."""
EXACT = 1e-9
"""The gradient must agree this well with the derivative in forward mode, where values do that well."""


def build(program: SmoothProgram) -> Any:
    """The kernel object."""
    space: dict[str, Any] = {"tg": tg, "D": tg.float64}
    for name, text in program.functions.items():
        exec(text, space)
        space[name] = tg.func(source=text)(space[name])
    exec(program.text, space)
    return tg.kernel(source=program.text)(space["kernel"])


def check(
    program: SmoothProgram, directions: int = 2, forward: Collection[int] = TRIP_COUNTS
) -> dict[int, str]:
    """What came of each trip count: "right", "wrong: ...", "unstable" where nothing can be said because the kernel
    magnifies rounding, or the code of the error by which it was refused, one that is listed. `forward`: the trip
    counts that also run in forward mode, the only ones of a program with kinks."""
    kernel, out, kinked = build(program), {}, isinstance(program, KinkedProgram)
    for n in forward if kinked else TRIP_COUNTS:
        try:
            out[n] = "unstable" if kinked else _by_differences(kernel, n, directions)
            if n in forward and not out[n].startswith("wrong"):
                out[n] = _in_forward_mode(kernel, n) or out[n]
        except tg.CompileError as error:
            codes = {e.CODE for e in getattr(error, "errors", [error])}
            if not codes.issubset(OF_PROGRAMS + OF_GRADIENTS):
                raise
            out[n] = min(codes)
    return out


def _arrays(rng: np.random.Generator) -> tuple[tg.array, tg.array]:
    a = tg.array(rng.uniform(-1, 1, (8, 20)), dtype=tg.float64, requires_grad=True)
    return a, tg.zeros((2, CELLS), dtype=tg.float64, requires_grad=True)


def _in_forward_mode(kernel: Any, n: int) -> str:
    """ "right", "wrong: ...", or nothing where values are not finite, or not those of the compiled kernel."""
    sides = compare(kernel, (2, BLOCK), [n, *_arrays(np.random.default_rng(n))], BLOCK)
    if sides.error <= EXACT:
        return "right"
    unstable = sides.apart > EXACT or not np.isfinite(sides.forward)
    return "" if unstable else f"wrong: {sides}"


def _by_differences(kernel: Any, n: int, directions: int) -> str:
    rng = np.random.default_rng(n)
    a, y = _arrays(rng)
    base = a.numpy().copy()
    verdict = "right"
    for _ in range(directions):
        along, weights = rng.standard_normal(base.shape), rng.standard_normal(y.shape)
        steps = [_difference(kernel, n, a, y, base, along, eps) for eps in (1e-5, 2e-6)]
        numbers = [float((weights * d).sum()) for d in steps]
        size = float(np.abs(weights * steps[0]).sum()) + 1e-3
        y.fill_(0.0)
        adjoint, seed = tg.zeros_like(a), tg.array(weights, dtype=tg.float64)
        launch(kernel, n, a, y, adj_inputs=[None, adjoint], adj_outputs=[seed], adjoint=True)
        found = float((adjoint.numpy() * along).sum())
        if not abs(numbers[0] - numbers[1]) <= STABLE * size:
            verdict = "unstable"
        elif not abs(found - numbers[1]) <= AGREED * size:
            return f"wrong: {found} for {numbers}, terms sum to {size}"
    return verdict


def _difference(
    kernel: Any, n: int, a: tg.array, y: tg.array, base: np.ndarray, along: np.ndarray, eps: float
) -> np.ndarray:
    values = []
    for sign in (1, -1):
        a.assign(base + sign * eps * along)
        y.fill_(0.0)
        launch(kernel, n, a, y)
        values.append(y.numpy().copy())
    a.assign(base)
    return (values[0] - values[1]) / (2 * eps)


def launch(kernel: Any, n: int, a: tg.array, y: tg.array, **options: Any) -> None:
    tg.launch(kernel, (2, BLOCK), [n, a], [y], block_dim=BLOCK, **options)
