"""If no other block adds to the same elements, an atomic addition that bulk copies cannot do becomes a load, an
addition and a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula import interp
from tegula.ops.schedule import BulkStore
from tegula.ops.tile import TileAtomic, TileStore
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation
from tegula.target import get_cuda_target

M, N, K = 64, 256, 64


@tg.kernel
def matmul(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[tg.bfloat16]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
    for k in range(a.shape[1] // K):
        x = tg.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        y = tg.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, tg.tile_astype(total, tg.bfloat16), offset=(i * M, j * N))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_owners_of_gradient_tiles_add_to_existing_elements(arch: str) -> None:
    rng = np.random.default_rng(0)
    numbers = lambda *s: rng.integers(-2, 3, s).astype(np.float32)  # noqa: E731
    shapes = (M, 2 * K), (2 * K, N), (M, N)
    args = [tg.array(numbers(*s), dtype=tg.bfloat16, requires_grad=True) for s in shapes]
    for a in args:
        a.grad.assign(numbers(*a.shape) * (rng.random(a.shape) < 0.2))
    adjoint = adjoint_of(matmul, (0, 1, 2))
    arguments = (*args, *(a.grad for a in args))
    steps = adjoint.steps_for(requested_specialisation(adjoint, plan((1, 1, 128), 128), arguments))
    wide = next(p for step in steps for p in step.shared if p.name == "matmul_adjoint_of_adj_a_wide")
    ir = wide.step.kernel
    kernel = wide.trace([p.type for p in ir.params], ir.launch, ir.access)
    prepare(kernel)
    assert sum(isinstance(op, TileAtomic) for op in kernel.walk()) == 1
    compilation = for_gpu(kernel, get_cuda_target(arch))
    assert not any(isinstance(op, TileAtomic) for op in kernel.walk())
    assert any(isinstance(op, TileStore if arch == "sm_80" else BulkStore) for op in kernel.walk())
    if arch == "sm_90a":
        return
    host_arrays: list[Any] = [a.numpy().copy() for a in arguments]
    interp.run_lowered(
        kernel,
        [*host_arrays, 1],
        (1, 1, 128),
        128,
        compilation.layouts,
        compilation.shared.allocations,
        compilation.threads,
    )
    b, g = (v.numpy().astype(np.float64) for v in (args[1], args[2].grad))
    np.testing.assert_array_equal(
        host_arrays[3].astype(np.float64), g @ b.T + args[0].grad.numpy().astype(np.float64)
    )
