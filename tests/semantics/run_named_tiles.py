"""Runs the programs of `named_tiles.py` in the interpreter, on a device, and in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from agreement import codes, traced
from named_tiles import SHAPES, Program, kernel_text, run_in_python

import tegula as tg
from tegula import interp

LANES = 4
ARGUMENTS = range(4)
"""The arguments that each program runs with; they determine its paths."""


NO_REFERENCE = {"read-only": "is read-only", "no-such-shape": "is a view with another shape"}
"""Refusals that the model in Python does not have: `tile_reshape` of a strided view is a read-only copy, or is a copy
only on some paths."""


def build(program: Program) -> Any:
    """The kernel object."""
    space: dict[str, Any] = {"tg": tg}
    for name, text in program.functions.items():
        source = kernel_text(text)
        exec(source, space)
        space[name] = tg.func(source=source)(space[name])
    source = kernel_text(program.kernel)
    exec(source, space)
    return tg.kernel(source=source)(space["kernel"])


def compare(program: Program, on_device: bool = True) -> str:
    """Run the program in Python, in the interpreter and on the device, and compare the results. Returns "" or, if the
    program was refused, the code of the error or a key of `NO_REFERENCE`."""
    kernel = build(program)
    o = tg.zeros((len(SHAPES), 8), dtype=int, device="cpu")
    try:
        body = traced(kernel, [o, 0], (1, LANES), LANES)
    except tg.CompileError as error:
        return refusal(error)
    for n in ARGUMENTS:
        expected, actual = np.zeros(o.shape, np.int32), np.zeros(o.shape, np.int32)
        run_in_python(program.texts, expected, n)
        interp.run(body, [actual, n], (1, LANES), LANES)
        np.testing.assert_array_equal(actual, expected, f"interpreter, n = {n}")
        if on_device:
            array = tg.zeros(o.shape, dtype=int)
            tg.launch_tiled(kernel, dim=1, inputs=[array, n], block_dim=LANES)
            np.testing.assert_array_equal(array.numpy(), expected, f"device, n = {n}")
    return ""


def compare_lowered(program: Program, seed: int) -> str:
    """Compare Python's results with the program lowered for a GPU and run by the interpreter. DataRace if threads
    race."""
    from lowering import Launch, lowered, run_lowered

    n, lanes = seed % len(ARGUMENTS), (1, 4, 64)[seed % 3]
    expected = np.zeros((len(SHAPES), 8), np.int32)
    run_in_python(program.texts, expected, n)
    launch = Launch(build(program), [tg.zeros(expected.shape, dtype=int, device="cpu"), n], (1, lanes), lanes)
    try:
        kernel, compilation = lowered(launch)
    except tg.CompileError as error:
        return refusal(error)
    (actual, _), _ = run_lowered(kernel, compilation, launch)
    np.testing.assert_array_equal(actual, expected, f"lowered, n = {n}")
    return ""


def refusal(error: tg.CompileError) -> str:
    """The code of an error, or a key of `NO_REFERENCE`."""
    codes_without_reference = [word for word, part in NO_REFERENCE.items() if part in str(error)]
    return min(codes_without_reference or codes(error))
