"""Independent launches of an adjoint form a series and may overlap."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.ir import LOOPED, NO_OVERLAP, READ, WAITED, LaunchOverlap
from tegula.passes.gradient import AdjointStep, overlap_launches
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation

T = 8
FIRST, LATER = LaunchOverlap(next_starts=WAITED), LaunchOverlap(waits_at_end=True)


@tg.kernel
def matmul(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T))
    for k in range(a.shape[1] // T):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * T, j * T))


@tg.kernel
def two_matmuls(
    a: tg.array2d[float],
    b: tg.array2d[float],
    c: tg.array2d[float],
    y: tg.array2d[float],
    z: tg.array2d[float],
):
    i, j = tg.tid()
    first, second = tg.tile_zeros(shape=(T, T)), tg.tile_zeros(shape=(T, T))
    for k in range(a.shape[1] // T):
        left = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        tg.tile_matmul(left, tg.tile_load(b, shape=(T, T), offset=(k * T, j * T)), first)
    for k in range(a.shape[1] // T):
        left = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        tg.tile_matmul(left, tg.tile_load(c, shape=(T, T), offset=(k * T, j * T)), second)
    tg.tile_store(y, first, offset=(i * T, j * T))
    tg.tile_store(z, second, offset=(i * T, j * T))


def adjoint_steps(kernel: Any, args: list[Any], grads: list[Any]) -> list[AdjointStep]:
    adjoint = adjoint_of(kernel, tuple(range(len(args))))
    specialised = requested_specialisation(adjoint, plan((2, 2, 32), 32), (*args, *grads))
    return [part.step for part in adjoint.steps_for(specialised)]


def square_arrays(count: int) -> list[Any]:
    return [tg.zeros((2 * T, 2 * T)) for _ in range(count)]


def test_owners_of_different_arrays_are_a_series() -> None:
    """The launch that clears the gradient is not part of the series: the series reads the gradient."""
    steps = adjoint_steps(matmul, square_arrays(3), square_arrays(3))
    assert overlap_launches(steps) == [FIRST, LATER, NO_OVERLAP]
    assert overlap_launches(steps[2:]) == [NO_OVERLAP]
    assert overlap_launches([*steps, *steps]) == [FIRST, LATER, NO_OVERLAP, FIRST, LATER, NO_OVERLAP]


def test_launches_that_add_to_one_array_are_not_a_series() -> None:
    """The gradient of `a` has two owner kernels. The launches for `b` and `c` belong to the series of the second
    kernel."""
    steps = adjoint_steps(two_matmuls, square_arrays(5), square_arrays(5))
    names = [step.kernel.name.removeprefix("two_matmuls_adjoint_of_adj_") for step in steps]
    assert names[:2] == ["a", "a"]
    assert overlap_launches(steps) == [NO_OVERLAP, FIRST, LATER, LATER, NO_OVERLAP]


def test_launches_that_sum_chunks_wait_for_the_chunks() -> None:
    first, last = adjoint_steps(matmul, square_arrays(3), square_arrays(3))[0].shared
    assert overlap_launches([first, last]) == [NO_OVERLAP, NO_OVERLAP]
    assert overlap_launches([first, first]) == [NO_OVERLAP, NO_OVERLAP], "both launches write the same rows"


@tg.kernel
def scaled(x: tg.array2d[float], w: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_load(x[i], shape=T) * tg.tile_load(w, shape=T))


def test_blocks_of_chunks_let_the_next_launch_start_after_their_loop() -> None:
    """An earlier start would place blocks of the next launch on the multiprocessors that become free first."""
    arrays = [tg.zeros((64, T)), tg.zeros(T), tg.zeros((64, T))]
    adjoint = adjoint_of(scaled, (0, 1, 2))
    specialised = requested_specialisation(
        adjoint, plan((64, 32), 32), (*arrays, *map(tg.zeros_like, arrays))
    )
    steps = [part.step for part in adjoint.steps_for(specialised)]
    assert overlap_launches(steps) == [LaunchOverlap(next_starts=LOOPED), NO_OVERLAP]


def test_launches_with_overlapping_arrays_are_in_no_series() -> None:
    args, (da, _, dc) = square_arrays(3), square_arrays(3)
    assert set(overlap_launches(adjoint_steps(matmul, args, [da, da, dc]))) == {NO_OVERLAP}


# Launches that overwrite arrays after their last read -----------------------------------------------------------------

M, N, K = 128, 256, 64


@tg.kernel
def wide_matmul(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[tg.bfloat16]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(M, N))
    for k in range(a.shape[1] // K):
        x = tg.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        y = tg.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, tg.tile_astype(total, tg.bfloat16), offset=(i * M, j * N))


def wide_adjoint_steps() -> list[AdjointStep]:
    args = [tg.zeros((N, N), dtype=tg.bfloat16) for _ in range(6)]
    steps = adjoint_steps(wide_matmul, args[:3], args[3:])
    return [step if step.wide is None else step.wide.step for step in steps]


def test_the_clearing_of_a_gradient_starts_after_its_last_read() -> None:
    a, b, clear = wide_adjoint_steps()
    assert overlap_launches([a, b, clear]) == [
        FIRST,
        LaunchOverlap(waits_at_end=True, next_starts=READ),
        LATER,
    ]
    assert overlap_launches([b, clear]) == [LaunchOverlap(next_starts=READ), LATER]
    assert overlap_launches([a, b, clear, clear]) == [
        FIRST,
        LaunchOverlap(waits_at_end=True, next_starts=READ),
        LATER,
        NO_OVERLAP,
    ]


def test_the_launch_after_a_series_waits_for_all_its_launches() -> None:
    """The clearing launch lets the next launch start immediately, while owner blocks may still be running."""
    a, b, clear = wide_adjoint_steps()
    assert overlap_launches([a, clear, b]) == [LaunchOverlap(next_starts=READ), LATER, NO_OVERLAP]
    assert overlap_launches([clear, a, b]) == [NO_OVERLAP, FIRST, LATER], (
        "an owner reads the cleared gradient"
    )
