"""Runs a program of many families on a device and in the interpreter, and compares both with NumPy."""

from __future__ import annotations

import numpy as np
from agreement import interpret, same_bits
from family_programs import BLOCKS, LANES, FamilyProgram

import tegula as tg


def outcome(program: FamilyProgram) -> str:
    """Run the program: "ran", or what differs."""
    kernel, native = program.kernel(), program.arguments()
    with tg.ScopedDevice("cpu"):
        reference = program.arguments()
    tg.launch(kernel, (BLOCKS, LANES), inputs=native, block_dim=LANES)
    interpret(kernel, reference, (BLOCKS, LANES), LANES)
    for name, got, same, want in zip(
        ("counts", "out", "fout"), native[-3:], reference[-3:], program.expected(), strict=True
    ):
        same_bits(got.numpy() + 0, same.numpy() + 0, name)
        if not np.array_equal(got.numpy(), want):
            at = tuple(int(k[0]) for k in np.nonzero(got.numpy() != want))
            return f"failed: {name}{at} is {got.numpy()[at]}, {want[at]} in Python"
    return "ran"
