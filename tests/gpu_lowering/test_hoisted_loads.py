"""Loads of tiles are moved before barriers, and iterations ahead in loops over the blocks of another launch, without a
change of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from lowering import agrees, lowered, tiled

import tegula as tg
from support.campaigns import sampled
from tegula import interp
from tegula.ir import AccessClass, Kernel
from tegula.ops.group import AsyncCopy
from tegula.ops.tile import TileLoad, TileReduce, TileStore
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.adjoint import adjoint_of, plan_launches
from tegula.runtime.device import CPU
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation
from tegula.target import get_cuda_target
from tegula.types import ArrayType

WIDTH = 64


def op_order(kernel: Kernel) -> str:
    """The loads, reductions and stores of a kernel, one letter each."""
    letters = {TileLoad: "l", TileReduce: "r", TileStore: "s"}
    return "".join(letters.get(type(op), "") for op in kernel.walk())


def rows(*seeds: int) -> list[tg.array]:
    return [tg.array(np.random.default_rng(k).integers(-4, 5, (3, WIDTH)).astype(np.float32)) for k in seeds]


@tg.kernel
def three_arrays(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i = tg.tid()
    s = tg.tile_sum(tg.tile_load(a[i], WIDTH))
    p = tg.tile_max(tg.tile_load(b[i], WIDTH) * s)
    tg.tile_store(c[i], tg.tile_load(c[i], WIDTH) + p)


@tg.kernel
def load_after_a_store(
    a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], d: tg.array2d[float]
):
    i = tg.tid()
    t = tg.tile_load(a[i], WIDTH)
    tg.tile_store(b[i], t * tg.tile_sum(t))
    tg.tile_store(d[i], t + tg.tile_max(tg.tile_load(c[i], WIDTH)))


def test_loads_are_hoisted_before_reductions() -> None:
    kernel, _ = agrees(tiled(three_arrays, rows(0, 1, 2), (3,), 32))
    assert op_order(kernel) == "lllrrs"


def test_loads_are_not_hoisted_before_ops_that_may_write_the_array() -> None:
    a, b, c, d = rows(0, 1, 2, 3)
    kernel, _ = agrees(tiled(load_after_a_store, [a, b, c, d], (3,), 32))
    assert op_order(kernel) == "llrrss"
    kernel, _ = lowered(tiled(load_after_a_store, [a, b, b, d], (3,), 32))
    assert op_order(kernel) == "lrslrs"


def test_loads_are_hoisted_within_the_register_limit() -> None:
    wide = 2048

    @tg.kernel
    def long(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
        i = tg.tid()
        s = tg.tile_sum(tg.tile_load(a[i], wide))
        p = tg.tile_max(tg.tile_load(b[i], wide) * s)
        tg.tile_store(c[i], tg.tile_load(c[i], wide) + p)

    kernel, _ = agrees(tiled(long, [tg.ones((2, wide)) for _ in range(3)], (2,), 32))
    assert op_order(kernel) == "lrlrls"


# Iterations of gradients ----------------------------------------------------------------------------------------------


@tg.kernel
def scaled_rows(x: tg.array2d[Any], w: tg.array[Any], b: tg.array[Any], y: tg.array2d[Any]):
    i = tg.tid()
    t = tg.tile_load(x[i], WIDTH)
    tg.tile_store(y[i], t * t * tg.tile_load(w, WIDTH) + tg.tile_load(b, WIDTH))


@tg.kernel
def scaled_tiles(x: tg.array3d[Any], w: tg.array[Any], b: tg.array[Any], y: tg.array3d[Any]):
    i, j = tg.tid()
    t = tg.tile_load(x[i][j], WIDTH)
    tg.tile_store(y[i][j], t * t * tg.tile_load(w, WIDTH) + tg.tile_load(b, WIDTH))


PACKED = AccessClass(align=64, contiguous=True, dense=True, bulk=True)


def zeros(shape: Sequence[int], dtype: Any, *_: Any) -> tg.array:
    """Memory for sums."""
    return tg.zeros(shape, dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [tg.float32, tg.bfloat16])
@sampled(
    4,
    "kernel, grid, width",
    [(scaled_rows, (70,), WIDTH), (scaled_rows, (70,), WIDTH - 3), (scaled_tiles, (9, 8), WIDTH)],
)
def test_loads_of_later_iterations_are_fetched_ahead(
    kernel: Any, grid: tuple[int, ...], width: int, dtype: Any, arch: str
) -> None:
    rng = np.random.default_rng(0)
    numbers = lambda s: tg.array(rng.integers(-2, 3, s).astype(np.float32), dtype=dtype, requires_grad=True)  # noqa: E731
    args = [numbers(s) for s in ((*grid, width), width, width, (*grid, width))]
    for a in args:
        a.grad.assign(rng.integers(-1, 2, a.shape))
    adjoint = adjoint_of(kernel, (0, 1, 2, 3))
    inputs = (*args, *(a.grad for a in args))
    specialised = requested_specialisation(adjoint, plan((*grid, 32), 32), inputs)
    steps = adjoint.steps_for(specialised)
    results: list[list[np.ndarray]] = []
    for is_lowered in (False, True):
        arrays: dict[int, np.ndarray] = {}
        host_copy = lambda a: arrays.setdefault(id(a), a.numpy().copy()) if isinstance(a, tg.array) else a  # noqa: B023, E731
        retained: list[Any] = []
        sums: dict[Any, Any] = {}
        for launch_step in plan_launches(steps, (*grid, 32), inputs, CPU):
            part, dims = launch_step.part, launch_step.dims
            arguments = (*inputs, *launch_step.extra(inputs, sums, zeros))
            retained.append(arguments)
            ir = part.step.kernel
            access = [PACKED if isinstance(p.type, ArrayType) else None for p in ir.params]
            traced_kernel = part.trace(
                [p.type for p in ir.params], ir.launch, [*specialised.access, *access[len(inputs) :]]
            )
            prepare(traced_kernel)
            if not is_lowered:
                interp.run(traced_kernel, [host_copy(a) for a in arguments], dims, 32)
                continue
            compilation = for_gpu(traced_kernel, get_cuda_target(arch))
            assert any(isinstance(op, AsyncCopy) for op in traced_kernel.walk()), part.name
            interp.run_lowered(
                traced_kernel,
                [host_copy(a) for a in arguments],
                dims,
                32,
                compilation.layouts,
                compilation.shared.allocations,
                compilation.threads,
            )
        results.append([host_copy(a.grad) for a in args])
    for actual, reference in zip(*results, strict=True):
        np.testing.assert_array_equal(actual, reference)
    x, w = (args[k].numpy().astype(np.float64) for k in (0, 1))
    g = args[3].grad.numpy().astype(np.float64)
    sums = (x * x * g).reshape(-1, width).sum(0) + args[1].grad.numpy().astype(np.float64)
    np.testing.assert_array_equal(results[1][1].astype(np.float64), sums)
    np.testing.assert_array_equal(
        results[1][0].astype(np.float64), 2 * x * w * g + args[0].grad.numpy().astype(np.float64)
    )
