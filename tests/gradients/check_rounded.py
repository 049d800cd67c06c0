"""Compares the gradient of a kernel in its own type with the derivative of its float64 twin in forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from check_program import GRADIENT_REFUSALS, PROGRAM_REFUSALS
from rounded_programs import CELLS, INPUTS, LANES, PATHS, RESULT_GRADIENTS, SQUASH, TYPES, RoundedProgram

import tegula as tg

GRADIENT_TOLERANCE = {"float64": 2.0**-24, "float32": 2.0**-12, "float16": 2.0**-7, "bfloat16": 2.0**-4}
"""The tolerance of a gradient by type, relative to the largest element: sums of rounded terms lose the last digits."""
VALUE_TOLERANCE = {"float64": 2.0**-40, "float32": 2.0**-16, "float16": 2.0**-6, "bfloat16": 2.0**-3}
"""The absolute tolerance of values by type, for kernels that do not magnify rounding errors."""
NARROWING_FACTOR = 4.0
"""The factor by which the error of terms may exceed the error of rounding adjoints to float32 once."""


def build(program: RoundedProgram) -> Any:
    """The kernel object."""
    space: dict[str, Any] = {"tg": tg, "D": getattr(tg, program.dtype)}
    exec(SQUASH, space)
    space["squash"] = tg.func(source=SQUASH)(space["squash"])
    exec(program.text, space)
    return tg.kernel(source=program.text)(space["kernel"])


def check(program: RoundedProgram) -> str:
    """The outcome of a program: "right", "wrong: ...", "unstable" if the values of the twin differ from the kernel's,
    or the code of a refusal."""
    rng, t = np.random.default_rng(program.n), TYPES[program.dtype]
    a, g = rng.uniform(-1.5, 1.5, INPUTS).astype(t), rng.choice(RESULT_GRADIENTS, CELLS)
    g[program.cells :] = 0.0
    in_float64 = a.astype(np.float64)
    with np.errstate(all="ignore"):
        edges = program.run_at_edges(in_float64).edges
    dtype = getattr(tg, program.dtype)
    x, y = tg.array(a, dtype=dtype, requires_grad=True), tg.zeros(CELLS, dtype=dtype, requires_grad=True)
    paths = tg.zeros((PATHS, LANES), dtype=tg.int32)
    try:
        with tg.Tape() as tape:
            edge = tg.array(edges.astype(t), dtype=dtype)
            tg.launch(build(program), (1, LANES), [program.n, x, edge], [paths, y], block_dim=LANES)
        values = y.numpy().astype(np.float64)
        tape.backward(grads={y: tg.array(g.astype(t), dtype=dtype)})
    except tg.CompileError as error:
        codes = {e.CODE for e in getattr(error, "errors", [error])}
        if not codes.issubset(PROGRAM_REFUSALS + GRADIENT_REFUSALS):
            raise
        return min(codes)
    base = program.run_on_paths(in_float64, edges, paths.numpy())
    twin = program.values(base)
    if not np.allclose(values, twin, rtol=0.0, atol=VALUE_TOLERANCE[program.dtype]):
        return f"unstable: values differ by {np.abs(values - twin).max()}"
    expected, rounding_error = program.gradient(base, g)
    result = x.grad.numpy().astype(np.float64)
    distance, size = np.abs(result - expected), max(0.5, float(np.abs(expected).max()))
    rounding_allowance = NARROWING_FACTOR * rounding_error if program.dtype == "float64" else 0.0
    if not (distance <= GRADIENT_TOLERANCE[program.dtype] * size + rounding_allowance).all():
        return (
            f"wrong: {result.tolist()} for {expected.tolist()}, relative difference {distance.max() / size}"
        )
    return "right"
