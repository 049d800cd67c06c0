"""Judges a generated schedule: whether it compiles, the checker's verdict, and replays of its launches."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg
from support.attacks.program import Args
from tegula.check.guards import Leaf
from tegula.check.limits import check_limits
from tegula.check.proof import Stuck
from tegula.check.schedule import certified
from tegula.check.verdict import PROVED, UNPROVED, Refuted, Verdict
from tegula.check.verifier import Rejected
from tegula.interp.engines.launch import EngineLaunch, prepared
from tegula.interp.engines.orders import orders
from tegula.interp.engines.state import ReplayFailed
from tegula.interp.engines.trace import Unsupported, Wrong
from tegula.interp.lowered import BlockDistribution
from tegula.ir import AccessClass, Kernel, LaunchClass
from tegula.ops.roles import Roles, block_threads
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.check import PACKED, argument_types
from tegula.runtime.compile import trace
from tegula.runtime.library import library
from tegula.target import get_cuda_target
from tegula.types import ArrayType

ARRAY_ROWS = 4096
"""The number of rows of the arrays of a replay; loads beyond the rows return 0, stores are dropped."""


PART = "###\n"
"""The text after each definition of a function or struct in front of a kernel."""


def kernel_of(text: str) -> Any:
    """The kernel of a text that may begin with definitions. The check of the kernel may raise CompileError."""
    names: dict[str, Any] = {"tg": tg, "struct": tg.struct}
    *parts, last = text.split(PART)
    for part in parts:
        names["func"] = tg.func(source=part.partition("\n")[2])  # the text without its decorator
        exec(part, names)
    exec(last, names)
    return tg.kernel(source=last)(names["kernel"])


def status_and_reason(
    outcome_of_check: Verdict, launch: Callable[[], Sequence[Any]] | None = None
) -> tuple[str, str]:
    """The status, or "undecided" if the search cannot follow the roles, or "guarded" if the host refuses the faulty
    launch; and the reason. `launch`: its arguments."""
    if outcome_of_check.proved and outcome_of_check.guards and launch is not None:
        arguments = launch()
        unmet = [
            g.text
            for g in outcome_of_check.guards
            if not g.holds(lambda leaf: argument_value(arguments, leaf))
        ]
        if unmet:
            return "guarded", unmet[0]
    if outcome_of_check.gap is not None and outcome_of_check.gap.failed:
        return "crash", outcome_of_check.message
    undecided = outcome_of_check.status == UNPROVED and outcome_of_check.locations
    return "undecided" if undecided else outcome_of_check.status, outcome_of_check.message


def argument_value(arguments: Sequence[Any], leaf: Leaf) -> int:
    """An argument of a launch, or the length of one."""
    k, dim = leaf
    return int(arguments[k]) if dim < 0 else arguments[k].shape[dim]


def verdict(text: str, args: Args | None = None) -> tuple[str, str]:
    """The verdict: the checker's status, "refused" if the kernel does not compile, "crash" for any other error; and the
    reason."""
    try:
        actual = kernel_of(text).check()
    except tg.CompileError as e:
        return "refused", str(e).partition("\n")[0]
    except Exception as e:
        return "crash", f"{type(e).__name__}: {e}"
    return status_and_reason(actual, (lambda: replay_arguments(text, args)) if args else None)


def lowered(kernel: Any, known: AccessClass | None = None) -> tuple[Kernel, GpuCompilation]:
    """A kernel lowered for a GPU with bulk copies, for arrays with the given properties (packed by default)."""
    types = argument_types(kernel, ())
    access = tuple(known or PACKED if isinstance(t, ArrayType) else None for t in types)

    def launch(threads: int) -> LaunchClass:
        return LaunchClass(2, threads, (True, False), True, False)

    first = kernel.trace(types, launch(128), access, library())
    roles = next(op for op in first.body.ops if isinstance(op, Roles))
    traced_kernel = trace(kernel, types, launch(block_threads(roles)), access)
    prepare(traced_kernel)
    return traced_kernel, for_gpu(traced_kernel, get_cuda_target("sm_90a"))


def proof(
    kernel: Kernel, parts: GpuCompilation, launch: Callable[[], Sequence[Any]] | None = None
) -> tuple[str, str]:
    """ "proved", "guarded" or "unproved", and the reason, of a lowered kernel; no counterexample is searched for."""
    try:
        check_limits(kernel, parts.shared.allocations, parts.threads)
        text, guards = certified(kernel, parts)
    except (Refuted, Stuck, Rejected) as e:
        return UNPROVED, str(e)
    except Exception as e:
        return "crash", f"{type(e).__name__}: {e}"
    return status_and_reason(Verdict(PROVED, certificate=text, guards=guards), launch)


def proved(kernel: Kernel, parts: GpuCompilation) -> bool:
    """Whether a lowered kernel is proved, perhaps with guards."""
    return proof(kernel, parts)[0] == PROVED


def replay_arguments(text: str, args: Args) -> list[Any]:
    """The arguments of a replay, in order."""
    matmuls = "bfloat16" in text
    plain = {"x": np.zeros((ARRAY_ROWS, 32), np.float32), "y": np.zeros((ARRAY_ROWS, 32), np.float32)}
    plain["out"] = np.zeros((64, 64) if matmuls else (ARRAY_ROWS, 32), np.float32)
    plain |= {name: np.zeros((ARRAY_ROWS, ARRAY_ROWS), ml_dtypes.bfloat16) for name in ("a", "b") if matmuls}
    (kernel,) = ast.parse(text.rpartition(PART)[2]).body
    assert isinstance(kernel, ast.FunctionDef)
    return [plain[a.arg] if a.arg in plain else args[a.arg] for a in kernel.args.args]


def replayed(kernel: Kernel, parts: GpuCompilation, args: Sequence[Any], count: int, block: int = 0) -> str:
    """The fault in a number of orders of a block; "unknown" if the launch cannot be replayed."""
    built_kernel = prepared(kernel, BlockDistribution(parts.layouts, parts.shared.allocations, parts.threads))
    try:
        launch = EngineLaunch(built_kernel, args, (block + 1, parts.threads), block)
    except Wrong as e:
        return f"{e.kind}: {e.text}"
    except Unsupported as e:
        return f"unknown: {e}"
    expected: Any = None
    for order in orders([role for role, *_ in launch.programs], count):
        try:
            failure = launch.run(order)
        except ReplayFailed as e:
            return f"{e.kind}: {e.text} ({order.name})"
        expected = failure if expected is None else expected
        if failure != expected:
            return f"value: other results ({order.name})"
    return ""


def replay(text: str, args: Args, count: int = 25) -> str:
    kernel, parts = lowered(kernel_of(text))
    return replayed(kernel, parts, replay_arguments(text, args), count)
