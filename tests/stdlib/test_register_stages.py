"""Stages of Fourier transforms in registers: loops over stages of equal radix, plans, long transforms."""

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from tegula.stdlib.tiles.plans import distribution, fits_registers, plan_of, run_padding
from tegula.stdlib.tiles.rolled_plans import RolledPlan, code_length, is_rolled, rolled_plan
from tegula.stdlib.tiles.roots import quotient_bits, run_stages, run_twiddles, runs, stages, twiddles

BOUND = 3e-7


def error(n: int, rows: int, block_dim: int, inverse: bool, repeats: bool = False) -> float:
    """The relative error of transforms of all rows by the threads of warps. `repeats`: as in `is_rolled`."""
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))).astype(np.complex64)

    library: Any = tg

    @tg.kernel
    def transform(x: tg.array1d[tg.vec2f], y: tg.array1d[tg.vec2f]):
        t = tg.tile_load(x, shape=rows * n)
        tg.tile_store(y, library._tile_stockham(t, n, 1, inverse, False, repeats, False))

    y = tg.zeros(rows * n, dtype=tg.vec2f)
    tg.launch_tiled(transform, dim=1, inputs=[tg.array(x.ravel())], outputs=[y], block_dim=block_dim)
    expected = (np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)).ravel()
    return float(np.abs(y.numpy().view(np.complex64)[..., 0] - expected).max() / np.abs(expected).max())


@pytest.mark.machine_code
@sampled(2, "case", ((343, 3, 64, False), (729, 2, 64, True), (1331, 1, 32, False)))
def test_stages_of_equal_radix_are_iterations_of_a_loop(case: tuple[int, int, int, bool]) -> None:
    n, rows, block_dim, inverse = case
    assert is_rolled(rows * n, n, False, False, block_dim)
    assert error(n, rows, block_dim, inverse) < BOUND


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("inverse", (False, True))
@pytest.mark.parametrize(
    ("n", "block_dim"), ((6561, 352), (10000, 512), (8000, 416), (9000, 480), (14641, 1024), (16000, 1024))
)
def test_loops_over_stages_of_long_transforms_are_right(n: int, block_dim: int, inverse: bool) -> None:
    assert is_rolled(n, n, False, False, block_dim)
    assert error(n, 1, block_dim, inverse) < BOUND


@pytest.mark.machine_code
@sampled(2, "case", ((1024, 2, 128, True), (512, 1, 64, False), (2048, 1, 128, True), (1536, 1, 96, False)))
def test_stages_of_a_transform_in_a_loop_are_loops(case: tuple[int, int, int, bool]) -> None:
    n, rows, block_dim, inverse = case
    assert is_rolled(rows * n, n, False, True, block_dim)
    assert error(n, rows, block_dim, inverse, repeats=True) < BOUND


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "block_dim"), ((8192, 512), (16384, 1024), (2048, 128), (9216, 1024), (12288, 1024), (4608, 512))
)
def test_transforms_in_loops_are_right(n: int, block_dim: int) -> None:
    assert is_rolled(n, n, False, True, block_dim)
    assert error(n, 1, block_dim, False, repeats=True) < BOUND


def test_a_run_has_the_stages_and_the_twiddle_factors_of_its_stages() -> None:
    plan = stages(8000)
    assert runs(plan) == ((10, 800, 1, 3), (8, 1, 1000, 1))
    assert run_stages(10, 800, 1, 3)[:, :2].tolist() == [[1, 0], [10, 800], [100, 880]]
    for (r, m, _), first in zip(plan, (0, 800, 880), strict=False):
        assert np.array_equal(run_twiddles(10, 800, 3)[:, first : first + m], twiddles(r, m))


@pytest.mark.parametrize(
    "run",
    ((10, 800, 1, 3), (16, 256, 2, 2), (8, 1024, 1, 3), (3, 729, 1, 6), (5, 625, 1, 5), (16, 64, 16, 2)),
)
def test_quotients_by_the_numbers_of_subsequences_are_exact(run: tuple[int, int, int, int]) -> None:
    _, m, s, _ = run
    numbers, bits = np.arange(m * s, dtype=np.uint32), quotient_bits(*run)
    assert bits > 0
    for divisor, _, reciprocal in run_stages(*run):
        assert np.array_equal(numbers * np.uint32(reciprocal) >> bits, numbers // np.uint32(divisor))


def test_quotients_that_need_more_than_32_bits_are_divisions() -> None:
    assert quotient_bits(8, 8192, 1, 5) == 0
    assert quotient_bits(4, 16384, 1, 8) == 0


def test_threads_without_enough_registers_take_smaller_butterflies() -> None:
    """Of 16 x 12 x 12 x 12 elements 1024 threads would hold 36."""
    assert not all(fits_registers(27648, r, 1024) for r, *_ in stages(27648))
    assert all(fits_registers(27648, r, 1024) for r, *_ in plan_of(27648, 27648, False, 1024))
    assert plan_of(2 * 27648, 27648, False, 1024) == stages(27648)


def test_threads_do_not_load_whole_rows() -> None:
    assert distribution(32, 16, 1, 32) == ((32, 16, 1), None)
    assert distribution(16, 8, 4, 64) == ((16, 8, 4), (16, 1, 4))


def test_code_is_longer_where_some_threads_have_no_butterfly() -> None:
    assert code_length(8192, (16, 16, 32), 256) == 80
    assert code_length(8000, (10, 10, 10, 8), 416) == 1.25 * (60 + 12)
    assert code_length(1, (), 1) == 0


def test_the_last_radix_and_the_number_of_stages_make_code_short() -> None:
    assert rolled_plan(8192, 8192, False, True, 512) == RolledPlan(((8, 1024, 1, 3),), 16, 24)
    assert rolled_plan(7776, 7776, False, False, 352) == RolledPlan(((6, 1296, 1, 4),), 6, 45)


def test_code_without_loops_is_short_or_would_hardly_be_shorter() -> None:
    assert not is_rolled(4096, 4096, True, False, 256)
    assert not is_rolled(2310, 2310, False, False, 160)
    assert not is_rolled(1152, 1152, False, True, 128)
    assert is_rolled(2048, 2048, False, True, 128)


def test_paddings_of_runs_separate_the_banks_of_consecutive_threads() -> None:
    """Threads of the second stage of 8 x 8 x 8 read elements that are 64 apart without padding."""
    thread = np.arange(16)
    assert set((thread % 8 * (64 + run_padding(8, 1, 2, 64)) + thread // 8) % 16) == {*range(16)}


@pytest.mark.slow(every=3)
@pytest.mark.machine_code
@pytest.mark.parametrize("n", (8193, 16385, 32749, 65536))
def test_transforms_of_long_rows_have_tables(n: int) -> None:
    x = np.exp(2j * np.pi * 5 * np.arange(n) / n).astype(np.complex64)
    result: Any = tg.kernels.fft(x).numpy().view(np.complex64)[..., 0]
    assert abs(result[5] - n) < 1e-4 * n
    assert np.abs(np.delete(result, 5)).max() < 1e-4 * n
