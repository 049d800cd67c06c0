"""Runs a generated program about the order of accesses in the interpreter, on a device, and lowered to the threads of a
GPU block, and compares the results with the model."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from agreement import agree, codes
from lane_programs import LaneProgram

import tegula as tg

sys.path.insert(0, str(Path(__file__).parent.parent / "gpu_lowering"))
from lowering import Launch, lowered, run_lowered

REFUSED = {"unordered-access", "divergent-cooperative-op", "merged-shared-tiles"}
"""Errors that may refuse a program: lanes cannot synchronise to order accesses or to copy a loop-carried view."""


def generated(seed: int) -> LaneProgram:
    """A program for the current device. On a GPU any of several threads may write an element last, so the result does
    not depend on this thread."""
    return LaneProgram(seed, deterministic=str(tg.get_device()) != "cpu")


def compare_with_model(program: LaneProgram) -> str:
    """Compare a program with the model. Returns "ran" or "refused"; raises AssertionError or DataRace for a wrong
    result."""
    kernel = program.build()
    try:
        actual, _ = agree(kernel, program.arguments(), 1, program.lanes, tiled=True)
    except tg.CompileError as error:
        if codes(error) <= REFUSED:
            return "refused"
        raise
    np.testing.assert_array_equal(actual, program.expected)
    launch = Launch(kernel, program.arguments(), (1, program.lanes), program.lanes)
    args, _ = run_lowered(*lowered(launch), launch)
    np.testing.assert_array_equal(args[0], program.expected)
    return "ran"
