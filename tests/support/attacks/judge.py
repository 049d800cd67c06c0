"""Judges a generated schedule: compiles it, asks the checker for a verdict, and replays launches."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg
from support.attacks.program import LaunchArguments
from tegula.check.guards import Leaf
from tegula.check.judge import certified
from tegula.check.limits import check_limits
from tegula.check.proof import Stuck
from tegula.check.verdict import PROVED, UNPROVED, Refuted, Verdict
from tegula.check.verifier import Rejected
from tegula.interp.engines.launch import EngineLaunch, prepared
from tegula.interp.engines.orders import orders
from tegula.interp.engines.state import ReplayFailed
from tegula.interp.engines.trace import InvalidLaunch, Unsupported
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
"""The number of rows of the arrays of a replay; loads out of bounds return 0, stores out of bounds are dropped."""


DEFINITION_END = "###\n"
"""The text that ends each definition of a function or struct before a kernel."""


def kernel_of(text: str) -> Any:
    """The kernel of a text, which may begin with definitions of functions and structs. Raises CompileError if the
    kernel is invalid."""
    names: dict[str, Any] = {"tg": tg, "struct": tg.struct}
    *definitions, kernel_text = text.split(DEFINITION_END)
    for part in definitions:
        names["func"] = tg.func(source=part.partition("\n")[2])  # the text without its decorator
        exec(part, names)
    exec(kernel_text, names)
    return tg.kernel(source=kernel_text)(names["kernel"])


def status_and_reason(
    check_verdict: Verdict, launch: Callable[[], Sequence[Any]] | None = None
) -> tuple[str, str]:
    """The status of a verdict and its reason. The status is "undecided" if the search cannot follow the roles, and
    "guarded" if the host refuses the faulty launch. `launch`: returns the arguments of this launch."""
    if check_verdict.proved and check_verdict.guards and launch is not None:
        arguments = launch()
        unmet = [
            g.text for g in check_verdict.guards if not g.holds(lambda leaf: argument_value(arguments, leaf))
        ]
        if unmet:
            return "guarded", unmet[0]
    if check_verdict.gap is not None and check_verdict.gap.failed:
        return "crash", check_verdict.message
    undecided = check_verdict.status == UNPROVED and check_verdict.locations
    return "undecided" if undecided else check_verdict.status, check_verdict.message


def argument_value(arguments: Sequence[Any], leaf: Leaf) -> int:
    """An integer argument of a launch, or an extent of an array argument."""
    k, dim = leaf
    return int(arguments[k]) if dim < 0 else arguments[k].shape[dim]


def verdict(text: str, args: LaunchArguments | None = None) -> tuple[str, str]:
    """The status of the checker's verdict, "refused" if the kernel does not compile, or "crash" for any other error;
    and the reason."""
    try:
        check_verdict = kernel_of(text).check()
    except tg.CompileError as e:
        return "refused", str(e).partition("\n")[0]
    except Exception as e:
        return "crash", f"{type(e).__name__}: {e}"
    return status_and_reason(check_verdict, (lambda: replay_arguments(text, args)) if args else None)


def lowered(kernel: Any, access_class: AccessClass | None = None) -> tuple[Kernel, GpuCompilation]:
    """A kernel lowered for a GPU with bulk copies, for arrays of an access class, packed arrays by default."""
    types = argument_types(kernel, ())
    access = tuple(access_class or PACKED if isinstance(t, ArrayType) else None for t in types)

    def launch(threads: int) -> LaunchClass:
        return LaunchClass(2, threads, (True, False), True, False)

    first_trace = kernel.trace(types, launch(128), access, library())
    roles = next(op for op in first_trace.body.ops if isinstance(op, Roles))
    traced_kernel = trace(kernel, types, launch(block_threads(roles)), access)
    prepare(traced_kernel)
    return traced_kernel, for_gpu(traced_kernel, get_cuda_target("sm_90a"))


def proof(
    kernel: Kernel, compilation: GpuCompilation, launch: Callable[[], Sequence[Any]] | None = None
) -> tuple[str, str]:
    """The result "proved", "guarded" or "unproved" for a lowered kernel, and the reason. No counterexample is
    searched."""
    try:
        check_limits(kernel, compilation.shared.allocations, compilation.threads)
        text, guards = certified(kernel, compilation)
    except (Refuted, Stuck, Rejected) as e:
        return UNPROVED, str(e)
    except Exception as e:
        return "crash", f"{type(e).__name__}: {e}"
    return status_and_reason(Verdict(PROVED, certificate=text, guards=guards), launch)


def proved(kernel: Kernel, compilation: GpuCompilation) -> bool:
    """Whether a lowered kernel is proved, possibly with guards."""
    return proof(kernel, compilation)[0] == PROVED


def replay_arguments(text: str, args: LaunchArguments) -> list[Any]:
    """The arguments of a replay, in the order of the parameters."""
    matmuls = "bfloat16" in text
    arrays = {"x": np.zeros((ARRAY_ROWS, 32), np.float32), "y": np.zeros((ARRAY_ROWS, 32), np.float32)}
    arrays["out"] = np.zeros((64, 64) if matmuls else (ARRAY_ROWS, 32), np.float32)
    arrays |= {name: np.zeros((ARRAY_ROWS, ARRAY_ROWS), ml_dtypes.bfloat16) for name in ("a", "b") if matmuls}
    (kernel,) = ast.parse(text.rpartition(DEFINITION_END)[2]).body
    assert isinstance(kernel, ast.FunctionDef)
    return [arrays[a.arg] if a.arg in arrays else args[a.arg] for a in kernel.args.args]


def replay_lowered(
    kernel: Kernel, compilation: GpuCompilation, args: Sequence[Any], count: int, block: int = 0
) -> str:
    """The fault in the first `count` orders of a block, "" if there is none, or "unknown" if the launch cannot be
    replayed."""
    prepared_kernel = prepared(
        kernel, BlockDistribution(compilation.layouts, compilation.shared.allocations, compilation.threads)
    )
    try:
        launch = EngineLaunch(prepared_kernel, args, (block + 1, compilation.threads), block)
    except InvalidLaunch as e:
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


def replay(text: str, args: LaunchArguments, count: int = 25) -> str:
    kernel, compilation = lowered(kernel_of(text))
    return replay_lowered(kernel, compilation, replay_arguments(text, args), count)
