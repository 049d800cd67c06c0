"""Gradients of loops are correct for every trip count, and adjoints store and recompute no value unnecessarily."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.loop_kernels import (
    D,
    loop_until_small,
    nested,
    pipelined,
    reassigned,
    recurrent,
    trip_counts_in_while,
    trip_counts_per_lane,
    trip_counts_shared_by_some_lanes,
    updates_in_place,
)
from tegula.passes.gradient.iterations import CHECKPOINT_BYTES

pytestmark = pytest.mark.machine_code

COUNTS = (0, 1, 2, 3, 17, 62, 63, 64, 65, 200, 3844, 3845, 4000)


def check(kernel: Any, dims: Any, *arrays: Any, block_dim: int = 32, **extra: Any) -> None:
    *inputs, output = arrays
    tg.gradcheck(kernel, dims, inputs, [output], block_dim=block_dim, directions=4, **extra)


def random(*shape: int, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(shape)
    return tg.array(rng.uniform(-scale, scale, shape), dtype=D, requires_grad=True)


def zeros(*shape: int) -> Any:
    return tg.zeros(shape, dtype=D, requires_grad=True)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 17])
@pytest.mark.parametrize("kernel", [reassigned, pipelined])
def test_gradients_of_matmuls_of_reassigned_tiles_are_correct(kernel: Any, count: int) -> None:
    """The data are small integers, so sums are exact in any order, and so are the gradients."""
    rng = np.random.default_rng(count)
    a, b, g = (rng.integers(-3, 4, s).astype(np.float64) for s in ((16, 8 * count), (8 * count, 8), (16, 8)))
    x, y = (tg.array(v, dtype=D, requires_grad=True) for v in (a, b))
    c = zeros(16, 8)
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=[2, 2], inputs=[x, y], outputs=[c], block_dim=32)
    np.testing.assert_array_equal(c.numpy(), a @ b)
    tape.backward(grads={c: g})
    np.testing.assert_array_equal(x.grad.numpy(), g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), a.T @ g)


@pytest.mark.parametrize("count", COUNTS)
def test_gradients_of_nonlinear_carried_values_are_correct(count: int) -> None:
    check(recurrent, (1, 32), random(8, 8), random(8, 4), count, zeros(8, 4))
    check(trip_counts_in_while, 8, random(2, 8), count, zeros(8), block_dim=4)
    check(loop_until_small, (2, 8), random(2, 4, scale=0.5), min(count, 3), zeros(8), block_dim=8)


@pytest.mark.parametrize("count", [0, 1, 2, 17, 65])
def test_gradients_of_loops_with_trip_counts_per_lane_are_correct(count: int) -> None:
    check(trip_counts_per_lane, 16, random(2, 16), count, zeros(16), block_dim=8)
    check(trip_counts_shared_by_some_lanes, (2, 8), random(2, 8), count, zeros(16), block_dim=8)


@pytest.mark.parametrize("count", [0, 1, 2, 17, 40])
def test_gradients_of_mutation_and_nested_loops_are_correct(count: int) -> None:
    check(updates_in_place, 8, random(2, 8), count, zeros(8), block_dim=8)
    check(nested, (1, 8), random(4, 8), count, zeros(4), block_dim=8)


@pytest.mark.parametrize("bounds", [(0, 9, 2), (9, -1, -3), (5, 5, 1), (3, 1, 1), (1, 3, -1), (-4, 4, 3)])
def test_gradients_of_loops_over_any_range_are_correct(bounds: tuple[int, int, int]) -> None:
    @tg.kernel
    def powers(a: tg.array[D], start: int, stop: int, step: int, y: tg.array[D]):
        x = a[0]
        for k in range(start, stop, step):
            x = x * a[1] + a[(k + 8) % 4] * x * x
        y[0] = x

    check(powers, 1, random(4), *bounds, zeros(1), block_dim=1)


# Memory of adjoints --------------------------------------------------------------------------------------------------


def adjoint_ir(kernel: Any) -> str:
    (adjoint,) = kernel.adjoints.values()
    return adjoint.ir()


def test_adjoints_of_accumulations_store_and_recompute_no_values() -> None:
    @tg.kernel
    def matmuls(a: tg.array2d[D], b: tg.array2d[D], c: tg.array2d[D]):
        acc = tg.tile_zeros(shape=(8, 4), dtype=D)
        for k in range(a.shape[1] // 8):
            x = tg.tile_load(a, shape=(8, 8), offset=(0, k * 8))
            y = tg.tile_load(b, shape=(8, 4), offset=(k * 8, 0))
            tg.tile_matmul(x, y, acc)
        tg.tile_store(c, acc)

    check(matmuls, (1, 32), random(8, 24), random(24, 4), zeros(8, 4))
    text = adjoint_ir(matmuls)
    assert "buf." not in text
    (adjoint,) = matmuls.adjoints.values()
    assert "kept for the gradient: nothing" in adjoint.explain()
    assert text.count(" = for ") + text.count("  for ") == 1
    assert text.count("tile.matmul") == 2


def test_adjoints_reload_tiles_that_are_loaded_an_iteration_ahead() -> None:
    check(reassigned, (1, 1, 32), random(8, 24), random(24, 4), zeros(8, 4))
    text = adjoint_ir(reassigned)
    assert "buf." not in text
    assert text.count("tile.matmul") == 4


def test_carried_values_are_checkpointed_within_the_limit() -> None:
    check(recurrent, (1, 32), random(8, 8), random(8, 4), 5, zeros(8, 4))
    checkpoints = re.findall(r"buf<float64,\[([\d,]*)\],register> = buf.new", adjoint_ir(recurrent))
    assert checkpoints == ["62,32", "62", "62,32", "62"]
    assert sum(8 * math.prod(map(int, shape.split(","))) for shape in checkpoints) <= CHECKPOINT_BYTES
    (adjoint,) = recurrent.adjoints.values()
    lines = [line.strip() for line in adjoint.explain().splitlines()[-4:]]
    assert lines[0] == "kept for the gradient:"
    assert re.fullmatch(r"h \(loop in line \d+\): 31,744 bytes in a block, 31,744 in all", lines[1])
    assert re.fullmatch(r"s \(loop in line \d+\): 992 bytes in a block, 992 in all", lines[2])
    assert lines[3] == "partial sums: 256 bytes"


def test_gradients_with_one_owner_need_no_atomics() -> None:
    @tg.kernel
    def normalised(x: tg.array2d[D], w: tg.array[D], y: tg.array2d[D]):
        i = tg.tid()
        row = tg.tile_load(x[i], shape=8) + tg.tile_load(x[i], shape=8, offset=8)
        tg.tile_store(y[i], row * tg.tile_load(w, shape=8) / tg.tile_sum(row * row))

    check(normalised, (3, 32), random(3, 16), random(8), zeros(3, 8))
    text = adjoint_ir(normalised)
    assert "tile.atomic" not in text
    assert text.count("partials") == 2, "only w is shared by the blocks, and summed in two steps"


def test_gradients_with_one_owner_per_thread_need_no_atomics() -> None:
    @tg.kernel
    def scaled(x: tg.array2d[D], s: tg.array[D], y: tg.array2d[D]):
        i, j = tg.tid()
        y[i, j] = tg.sin(x[i, j]) * x[i, j] * s[j]

    check(scaled, (4, 6), random(4, 6), random(6), zeros(4, 6), block_dim=8)
    assert adjoint_ir(scaled).count("array.atomic") == 1, "only s is shared by the threads"


@pytest.mark.parametrize("overlap", [3, 4, 5])
def test_gradients_of_overlapping_windows_use_atomics(overlap: int) -> None:
    @tg.kernel
    def windows(x: tg.array[D], y: tg.array2d[D]):
        i = tg.tid()
        t = tg.tile_load(x, shape=4, offset=i * overlap)
        tg.tile_store(y[i], t * t)

    check(windows, (3, 8), random(16), zeros(3, 4), block_dim=8)
    assert ("tile.atomic" in adjoint_ir(windows)) == (overlap < 4)


@tg.kernel
def sum_from_zero(x: tg.array2d[D], y: tg.array1d[D], n: int):
    i = tg.tid()
    total = D(0.0)
    for k in range(n):
        total += x[i, k] * x[i, k]
    y[i] = total


@tg.kernel
def overwritten_initial_value(x: tg.array2d[D], y: tg.array1d[D], n: int):
    i = tg.tid()
    total = D(3.0)
    for _ in range(1):
        total = tg.sin(x[i, n - 1])
    y[i] = total


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [sum_from_zero, overwritten_initial_value])
@pytest.mark.parametrize("n", [1, 5])
def test_gradients_of_carried_scalars_that_start_as_constants_are_correct(kernel: Any, n: int) -> None:
    """Constants have no gradient."""
    tg.gradcheck(kernel, 6, [random(6, n)], [zeros(6), n], block_dim=32, directions=4)


def test_matmuls_of_gradients_have_the_precision_of_the_kernel() -> None:
    @tg.kernel
    def matmuls(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
        acc = tg.tile_zeros(shape=(8, 4))
        tg.tile_matmul(tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 4)), acc, precision="tf32")
        tg.tile_store(c, acc)

    a, b, c = (tg.ones(shape, requires_grad=True) for shape in ((8, 8), (8, 4), (8, 4)))
    with tg.Tape() as tape:
        tg.launch_tiled(matmuls, 1, [a, b], [c], block_dim=32)
    tape.backward(grads={c: tg.ones((8, 4))})
    assert np.array_equal(a.grad.numpy(), np.full((8, 8), 4.0))
    text = adjoint_ir(matmuls)
    assert text.count("tile.matmul") == text.count('precision = "tf32"') == 2
