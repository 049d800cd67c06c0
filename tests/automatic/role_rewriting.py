"""Kernels that are rewritten to roles for a Hopper GPU, and run in the interpreter and on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agreement
import numpy as np
from scheduled_kernels import Launch

import tegula as tg
from tegula import interp
from tegula.backend.cache import Entry
from tegula.backend.llvm import compile_object
from tegula.codegen.kernel import lower_kernel
from tegula.ir import Kernel
from tegula.ir.verify import verify
from tegula.passes.pipeline import for_cpu, prepare
from tegula.passes.specialise import Choice, Schedule, make_roles
from tegula.runtime.compile import Compiled, site_to_json
from tegula.runtime.launch import plan
from tegula.target import get_cuda_target, get_target

HOPPER = get_cuda_target("sm_90a")


def prepared(launch: Launch) -> Kernel:
    """The kernel of a launch with these arguments, before the pass."""
    kernel = agreement.traced(launch.kernel, launch.arguments(), launch.dims, launch.block_dim)
    prepare(kernel)
    return kernel


def rewritten(launch: Launch, choice: Choice | None = None) -> tuple[Kernel, Schedule]:
    """The kernel after the pass."""
    kernel = prepared(launch)
    schedule = make_roles(kernel, HOPPER, choice)
    verify(kernel)
    return kernel, schedule


def _host_arguments(arguments: Sequence[Any]) -> list[Any]:
    return [a.numpy() if isinstance(a, tg.array) else a for a in arguments]


def results_without_roles(launch: Launch) -> list[Any]:
    """The arguments after a run of the kernel without automatic roles."""
    kernel = agreement.traced(launch.kernel, launch.arguments(), launch.dims, launch.block_dim)
    return interpreted(kernel, launch)


def interpreted(kernel: Kernel, launch: Launch) -> list[Any]:
    arguments = _host_arguments(launch.arguments())
    interp.run(kernel, arguments, launch.dims, launch.block_dim)
    return arguments


def _no_other_form(blocks: int) -> Compiled:
    raise AssertionError(f"a form for {blocks} blocks")


def results_on_cpu(kernel: Kernel, launch: Launch) -> list[Any]:
    """The arguments after a run of a rewritten kernel whose blocks are not persistent, as machine code."""
    target = get_target()
    code = lower_kernel(kernel, for_cpu(kernel), target, False)
    sites = [site_to_json(s) for s in code.sites]
    result = {"scratch": code.scratch.total, "sites": sites, "writes": [], "numbered": False}
    result |= {"lanes": 1, "vectorised": False}
    compiled = Compiled(kernel, Entry(result, compile_object(code.text, target)), False, _no_other_form)
    arguments = list(launch.arguments())
    shape = plan(launch.dims, launch.block_dim)
    packed = b"".join(pack(a)[1] for pack, a in zip(launch.kernel.packers, arguments, strict=True))
    compiled.launch(shape.blocks, packed + shape.packed, arguments, None, False)
    return _host_arguments(arguments)


def assert_equal_results(actual: Sequence[Any], expected: Sequence[Any], exact: bool) -> None:
    for a, b in zip(actual, expected, strict=True):
        if not isinstance(a, np.ndarray):
            continue
        if exact:
            agreement.assert_same_bits(a, b)
        else:
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=0.02, atol=0.02)
