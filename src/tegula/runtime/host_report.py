"""Failures in Python calls of functions of the language, with the reports of launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tegula.errors import DivisionByZero, KernelAssertion, OutOfBounds
from tegula.interp.machine import Machine
from tegula.interp.report import RunReport
from tegula.ir import Kernel, Op, Value


class HostReport(RunReport):
    """The report of one call: failures have the line of the function and of its callers."""

    __slots__ = ()

    def out_of_bounds(
        self, op: Op, value: Value, index: Sequence[int], shape: Sequence[int], block: int, lane: int
    ) -> None:
        index_text = ", ".join(map(str, index))
        message = f"index ({index_text}) is outside {self.name(value)} of shape {tuple(shape)}"
        self.failure = self.failure or OutOfBounds(message, op.loc)

    def assertion(self, op: Op, message: str, block: int, lane: int) -> None:
        text = f"assertion failed: {message}" if message else "assertion failed"
        self.failure = self.failure or KernelAssertion(text, op.loc)

    def division(self, op: Op, block: int, lane: int) -> None:
        self.failure = self.failure or DivisionByZero("integer division by zero", op.loc)


def single_thread_machine(kernel: Kernel, debug: bool) -> tuple[Machine, HostReport]:
    """A machine of one thread, and its report."""
    report = HostReport(kernel, print, debug=debug)
    return Machine(1, np.ones(1, bool), report), report
