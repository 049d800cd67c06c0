"""Builds a generated program, and runs it in the interpreter and on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from agreement import agree
from expressions import INPUT_SHAPE, SMALL_BOUND, is_float
from programs import BLOCKS, OUTPUT_SIZE, Program

import tegula as tg

REFUSED = (
    *("divergent-cooperative-op", "cooperative-after-return", "unordered-access", "merged-shared-tiles"),
    *("unbound-name",),
)
"""The errors by which the compiler may refuse a generated program."""


def build(program: Program) -> Any:
    """Compile the text of a program to a kernel object."""
    space: dict[str, Any] = {"tg": tg}
    for name, text in program.functions.items():
        exec(text, space)
        space[name] = tg.func(source=text)(space[name])
    exec(program.text, space)
    return tg.kernel(source=program.text)(space["kernel"])


def arguments(program: Program) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [3]
    for dtype in program.inputs:
        low = 0 if dtype.startswith("u") else -SMALL_BOUND
        for shape in (INPUT_SHAPE, (4, 5, 6)):
            values = rng.integers(low, SMALL_BOUND + 1, shape)
            if not is_float(dtype):
                limits = np.iinfo(dtype)
                ends = np.where(
                    rng.random(shape) < 0.5, np.array(limits.min, dtype), np.array(limits.max, dtype)
                )
                values = np.where(rng.random(shape) < 0.2, ends, values.astype(dtype))
            arrays.append(tg.array(values.astype(getattr(tg, dtype)(0).dtype), dtype=getattr(tg, dtype)))
    return arrays + [tg.zeros((BLOCKS + 1) * OUTPUT_SIZE, dtype=getattr(tg, t)) for t in program.outputs]


def compare(program: Program) -> str:
    """Run a program on the device and in the interpreter, and compare the results. Returns "", or the code of the error
    that refused the program."""
    try:
        agree(build(program), arguments(program), program.dims, program.block_dim)
    except tg.CompileError as e:
        codes = {x.CODE for x in getattr(e, "errors", [e])}
        if codes - set(REFUSED):
            raise
        return min(codes)
    return ""
