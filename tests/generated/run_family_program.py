"""Runs a program of statement families on devices and in the interpreter, and compares the results with NumPy."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from agreement import assert_same_bits, interpret
from family_programs import BLOCKS, RESULTS, FamilyProgram

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.codegen.sites import RECORD_SLOTS, RECORDS
from tegula.runtime.compound_arguments import flattened
from tegula.target import get_cuda_target

TOLERANCE = 2e-4
"""The tolerance of rounded results, relative to the largest expected magnitude."""


def outcome(program: FamilyProgram, devices: tuple[str, ...] = ()) -> str:
    """Run the program on devices, by default on the current device. Returns "ran", or the difference."""
    kernel, dims = program.kernel(), (BLOCKS, program.lanes)
    expected, lines = program.expected()
    with tg.ScopedDevice("cpu"):
        reference = program.arguments()
    report = interpret(kernel, reference, dims, program.lanes)
    interpreted_arrays = [a.numpy() for a in reference[-len(RESULTS) :]]
    if difference := find_difference(interpreted_arrays, expected, sorted(report), sorted(lines)):
        return f"failed: in the interpreter {difference}"
    for device in devices or (str(tg.get_device()),):
        actual, report = RUNNERS.get(device, partial(run_on_device, device))(program, kernel, dims)
        if difference := find_difference(actual, expected, sorted(report), sorted(lines)):
            return f"failed: on {device} {difference}"
        for name, computed, interpreted in zip(RESULTS, actual, interpreted_arrays, strict=True):
            if name != "rounded" and computed.dtype.names is None:
                assert_same_bits(computed + 0, interpreted + 0, f"{device} {name}")
    return "ran"


Run = tuple[list[np.ndarray], list[str]]
"""The result arrays and the printed lines of a run."""


def run_on_device(device: str, program: FamilyProgram, kernel: Any, dims: tuple[int, ...]) -> Run:
    """The results and printed lines of a launch on a device."""
    with tg.ScopedDevice(device), contextlib.redirect_stdout(io.StringIO()) as printed:
        arguments = program.arguments()
        tg.launch(kernel, dims, inputs=arguments, block_dim=program.lanes)
        tg.synchronize()
        return [a.numpy() for a in arguments[-len(RESULTS) :]], printed.getvalue().splitlines()


def run_lowered_ir(program: FamilyProgram, kernel: Any, dims: tuple[int, ...]) -> Run:
    """The results of the interpreter on the IR after all passes for GPUs; the interpreter detects data races."""
    from lowering import Launch, run_lowered
    from lowering import lowered as lower

    arguments = program.arguments()
    launch = Launch(*flattened(kernel, tuple(arguments)), dims, program.lanes)
    final_arrays, report = run_lowered(*lower(launch), launch)
    for a, values in zip(launch.args, final_arrays, strict=True):
        if isinstance(a, tg.array):
            a.numpy()[...] = values
    return [a.numpy() for a in arguments[-len(RESULTS) :]], report


def run_simulated(program: FamilyProgram, kernel: Any, dims: tuple[int, ...]) -> Run:
    """The results of the GPU code, simulated thread by thread on the CPU. Printed lines are not compared."""
    from lowering import Launch
    from lowering import lowered as lower
    from simt import run_together

    arguments = program.arguments()
    launch = Launch(*flattened(kernel, tuple(arguments)), dims, program.lanes)
    code = lower_kernel(*lower(launch), get_cuda_target())
    report = np.zeros((RECORDS + 1) * RECORD_SLOTS, np.int64)
    run_together(code, launch.kernel, launch.args, dims, BLOCKS, report=report.ctypes.data)
    return [a.numpy() for a in arguments[-len(RESULTS) :]], program.expected()[1]


RUNNERS: dict[str, Callable[[FamilyProgram, Any, tuple[int, ...]], Run]] = {
    "lowered": run_lowered_ir,
    "simulated": run_simulated,
}


def find_difference(
    actual: list[np.ndarray], expected: list[np.ndarray], report_lines: list[str], lines: list[str]
) -> str:
    """The first difference from the expected results and lines, or ""."""
    for name, computed, reference in zip(RESULTS, actual, expected, strict=True):
        if name == "rounded":
            wrong = ~(np.abs(computed - reference) <= TOLERANCE * max(1.0, float(np.abs(reference).max())))
        elif computed.dtype.names:
            wrong = np.zeros(computed.shape, bool)
            for part in computed.dtype.names:
                parts = computed[part] != reference[part]
                wrong |= parts.reshape(*computed.shape, -1).any(-1)
        else:
            wrong = computed != reference
        if wrong.any():
            index = tuple(int(k[0]) for k in np.nonzero(wrong))
            return f"{name}{index} is {computed[index]}, {reference[index]} in Python"
    if report_lines != lines:
        return f"the lines are {report_lines}, {lines} in Python"
    return ""
