"""Waits for matmuls with an operand in registers before the next iteration of the loop that makes the operand.

Tensor cores read the registers until the wait for the matmul. ptxas preserves the registers until the wait within an
iteration, but reuses them in the next iteration (docs/design/024). Therefore a wait is inserted at the end of an
iteration that may leave such a matmul in flight."""

from __future__ import annotations

from tegula.ir import BranchLike, Kernel, LoopLike, Op, Region
from tegula.ir.rewrite import is_defined_in
from tegula.ops import events as E
from tegula.ops.group import MmaWait, RegisterMma
from tegula.passes.runner import GpuCompilation


def wait_for_register_operands(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    for op in list(kernel.walk()):
        if isinstance(op, LoopLike):
            body = op.body
            if _in_flight(body, body, None) is not None:
                wait = MmaWait([], [], {"pending": 0}, loc=op.loc)
                wait.parent = body
                body.ops.insert(len(body.ops) - 1, wait)


def reads_registers(op: Op, body: Region) -> bool:
    """Whether an op leaves a matmul in flight that reads registers that the iteration of a loop, `body`, fills."""
    return isinstance(op, RegisterMma) and E.leaves_in_flight(op) and is_defined_in(op.register_tile, body)


def _in_flight(region: Region, body: Region, started: int | None) -> int | None:
    """The minimum number of matmuls started since the last one that reads registers of the iteration, at the end of
    `region`; None if no such matmul is in flight. `started`: this number at the start of `region`."""
    for op in region.ops:
        if isinstance(op, MmaWait):
            started = None if started is None or started >= op.pending else started
        elif reads_registers(op, body):
            started = 0
        elif E.leaves_in_flight(op):
            started = None if started is None else started + 1
        elif isinstance(op, BranchLike):
            started = _minimum(*(_in_flight(r, body, started) for r in op.alternatives))
        elif isinstance(op, LoopLike):
            started = _after_loop(op, body, started)
    return started


def _after_loop(loop: LoopLike, body: Region, started: int | None) -> int | None:
    while True:
        after = started
        for region in (*loop.headers, loop.body):
            after = _in_flight(region, body, after)
        joined = _minimum(started, after)
        if joined == started:
            return started
        started = joined


def _minimum(*paths: int | None) -> int | None:
    return min((p for p in paths if p is not None), default=None)
