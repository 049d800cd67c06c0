"""A kernel's gradient in its own type against the derivative of its twin in float64, in forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from check_program import OF_GRADIENTS, OF_PROGRAMS
from rounded_programs import CELLS, INPUTS, LANES, PATHS, RESULT_GRADIENTS, TAMED, TYPES, RoundedProgram

import tegula as tg

AGREED = {"float64": 2.0**-24, "float32": 2.0**-12, "float16": 2.0**-7, "bfloat16": 2.0**-4}
"""The tolerance of a gradient, relative to the largest one: sums of several roundings lose the last digits."""
VALUES = {"float64": 2.0**-40, "float32": 2.0**-16, "float16": 2.0**-6, "bfloat16": 2.0**-3}
"""The tolerance of values if rounding is not magnified."""
NARROWED = 4.0
"""The factor by which terms may lose more than adjoints, which are rounded to float32 once."""


def build(program: RoundedProgram) -> Any:
    """The kernel object."""
    space: dict[str, Any] = {"tg": tg, "D": getattr(tg, program.dtype)}
    exec(TAMED, space)
    space["tamed"] = tg.func(source=TAMED)(space["tamed"])
    exec(program.text, space)
    return tg.kernel(source=program.text)(space["kernel"])


def check(program: RoundedProgram) -> str:
    """The outcome of a program: "right", "wrong: ...", "unstable" if the twin's values differ from the kernel's, or the
    code of a refusal."""
    rng, t = np.random.default_rng(program.n), TYPES[program.dtype]
    a, g = rng.uniform(-1.5, 1.5, INPUTS).astype(t), rng.choice(RESULT_GRADIENTS, CELLS)
    g[program.cells :] = 0.0
    wide = a.astype(np.float64)
    with np.errstate(all="ignore"):
        edges = program.alone(wide).edges
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
        if not codes.issubset(OF_PROGRAMS + OF_GRADIENTS):
            raise
        return min(codes)
    base = program.known(wide, edges, paths.numpy())
    twin = program.values(base)
    if not np.allclose(values, twin, rtol=0.0, atol=VALUES[program.dtype]):
        return f"unstable: values differ by {np.abs(values - twin).max()}"
    expected, blur = program.gradient(base, g)
    result = x.grad.numpy().astype(np.float64)
    distance, size = np.abs(result - expected), max(0.5, float(np.abs(expected).max()))
    lost = NARROWED * blur if program.dtype == "float64" else 0.0
    if not (distance <= AGREED[program.dtype] * size + lost).all():
        return f"wrong: {result.tolist()} for {expected.tolist()}, apart by {distance.max() / size}"
    return "right"
