"""Adjoint kernels have the same results in the interpreter, on the CPU, and lowered to the threads of a GPU block in
the interpreter, without races. For GPUs they assemble without spills."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import traced
from lowering import Launch, copies, lowered, run_lowered
from op_kernels import CASES, Case, D

import tegula as tg
from support.campaigns import sampled
from tegula import interp
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import lower_kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.adjoint import adjoint_of
from tegula.target import get_cuda_target


def adjoint_launch(case: Case) -> Launch:
    """A launch of the adjoint kernel, with a random gradient of the output."""
    inputs, output = case.arguments()
    grads = [tg.zeros(x.shape, dtype=x.dtype) for x in inputs]
    grads.append(tg.array(np.random.default_rng(3).standard_normal(output.shape), dtype=D))
    adjoint = adjoint_of(case.kernel, tuple(range(len(grads))))
    return Launch(adjoint, [*inputs, output, *grads], case.dims, case.block)


@pytest.mark.machine_code
@sampled(5, "name", CASES)
def test_adjoints_in_the_interpreter_and_in_threads_agree_with_the_cpu(name: str) -> None:
    launch = adjoint_launch(CASES[name])
    interpreted = copies(launch.args)
    kernel = traced(launch.kernel, launch.args, launch.dims, launch.block_dim)
    interp.run(kernel, interpreted, launch.dims, launch.block_dim, print)
    lowered_results, _ = run_lowered(*lowered(launch), launch)
    tg.launch(launch.kernel, launch.dims, inputs=launch.args, block_dim=launch.block_dim, record_tape=False)
    for a, b, native in zip(interpreted, lowered_results, launch.args, strict=True):
        np.testing.assert_allclose(a, native.numpy(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(b, native.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.cpu
@pytest.mark.skipif(not ptx.candidates(), reason="no ptxas")
@sampled(5, "name", CASES)
def test_adjoints_assemble_for_a_gpu(name: str) -> None:
    launch = adjoint_launch(CASES[name])
    kernel = traced(launch.kernel, launch.args, launch.dims, launch.block_dim)
    prepare(kernel)
    target = get_cuda_target("sm_90a")
    code = lower_kernel(kernel, for_gpu(kernel, target), target)
    assert ptx.compile_cubin(compile_ptx(code.text, "sm_90a"), "sm_90a").spill_bytes == 0
