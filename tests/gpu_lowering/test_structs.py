"""Kernels with structs in the threads of a GPU block: they agree with the interpreter and become PTX."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import traced
from lowering import Launch, agrees
from struct_programs import Body, N, Pair, bodies, control_flow, fields, loops, pairs, threads, tiles, world

import tegula as tg
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import lower_kernel
from tegula.passes.gradient import split_adjoint
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.compound_arguments import flattened
from tegula.target import get_cuda_target
from tegula.types import scalar_of

BLOCKS = N // 8
CASES: dict[str, tuple[Any, Any, tuple[int, ...], int]] = {
    "fields": (fields, lambda: [world(), pairs(), tg.zeros(N, dtype=Pair)], (N,), 8),
    "control": (control_flow, lambda: [pairs(), tg.zeros(N, dtype=Pair)], (N,), 8),
    "loops": (loops, lambda: [bodies(), tg.zeros(N, dtype=Body)], (BLOCKS, 4), 4),
    "tiles": (
        tiles,
        lambda: [
            pairs(),
            tg.zeros(N, dtype=Pair),
            tg.zeros((4 * BLOCKS, 2), dtype=Pair),
            tg.zeros(3 * BLOCKS, dtype=Body),
        ],
        (BLOCKS, 32),
        32,
    ),
    "threads": (
        threads,
        lambda: [bodies(), tg.zeros(4 * N, dtype=Body), tg.zeros(N, dtype=int)],
        (BLOCKS, 8),
        8,
    ),
}


def launch_of(name: str) -> Launch:
    kernel, arguments, dims, block_dim = CASES[name]
    kernel, args = flattened(kernel, tuple(arguments()))
    return Launch(kernel, args, dims, block_dim)


def ptx(launch: Launch) -> str:
    kernel, target = (
        traced(launch.kernel, launch.args, launch.dims, launch.block_dim),
        get_cuda_target("sm_90a"),
    )
    prepare(kernel)
    return compile_ptx(lower_kernel(kernel, for_gpu(kernel, target), target).text, "sm_90a")


@pytest.mark.parametrize("name", CASES)
def test_lowered_kernels_with_structs_match_the_interpreter(name: str) -> None:
    agrees(launch_of(name))


@pytest.mark.parametrize("name", CASES)
def test_kernels_with_structs_become_ptx(name: str) -> None:
    assert ".entry" in ptx(launch_of(name))


@pytest.mark.parametrize("name", ["fields", "control", "loops"])
def test_adjoints_of_kernels_with_structs_become_ptx(name: str) -> None:
    launch = launch_of(name)
    indices = [
        k for k, a in enumerate(launch.args) if isinstance(a, tg.array) and scalar_of(a.dtype).is_float
    ]
    grads = [tg.zeros_like(launch.args[k]) for k in indices]
    result = Launch(
        adjoint_of(launch.kernel, tuple(indices)), [*launch.args, *grads], launch.dims, launch.block_dim
    )
    assert ".entry" in ptx(result)


def test_adjoints_of_tiles_of_structs_become_ptx() -> None:
    """Each kernel of a split adjoint is compiled."""
    launch, target = launch_of("tiles"), get_cuda_target("sm_90a")
    indices = [
        k for k, a in enumerate(launch.args) if isinstance(a, tg.array) and scalar_of(a.dtype).is_float
    ]
    grads = [tg.zeros_like(launch.args[k]) for k in indices]
    result = adjoint_of(launch.kernel, tuple(indices))
    adjoint_kernel = traced(result, [*launch.args, *grads], launch.dims, launch.block_dim)
    for step in split_adjoint(adjoint_kernel, len(launch.args), False):
        prepare(step.kernel)
        lowered = lower_kernel(step.kernel, for_gpu(step.kernel, target), target)
        assert ".entry" in compile_ptx(lowered.text, "sm_90a")
