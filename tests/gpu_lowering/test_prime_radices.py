"""Butterflies of large primes are loops over results: their code grows as the radix, not as its square."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import Launch, barriers, lowered, run_lowered, tiled

import tegula as tg
from tegula.stdlib.tiles.roots import is_loop_on_gpu


def launch(rows: int, n: int, threads: int) -> Launch:
    @tg.kernel
    def transforms(a: tg.array2d[tg.vec2f], o: tg.array2d[tg.vec2f]):
        t = tg.tile_load(a, shape=(rows, n))
        tg.tile_fft(t)
        tg.tile_store(o, t)

    rng = np.random.default_rng(n)
    x = rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))
    args = [tg.array(x.astype(np.complex64)), tg.zeros((rows, n), dtype=tg.vec2f)]
    return tiled(transforms, args, (1,), threads)


def test_ops_of_a_prime_radix_grow_linearly() -> None:
    """A butterfly has (r - 1)^2 multiplications, which are unrolled for small radices."""
    ops = {n: sum(1 for _ in lowered(launch(1, n, 32))[0].walk()) for n in (37, 61)}
    assert ops[61] < 61 / 37 * ops[37]


@pytest.mark.parametrize(("rows", "n", "threads"), [(3, 37, 32), (32, 37, 32), (2, 74, 48), (1, 527, 32)])
def test_loops_over_results_match_numpy_without_races(rows: int, n: int, threads: int) -> None:
    """Threads hold the inputs of one butterfly or none, in registers from the load on or read from shared memory."""
    transform = launch(rows, n, threads)
    (x, result), _ = run_lowered(*lowered(transform), transform)
    x, result = (a.astype(np.float64).view(np.complex128)[..., 0] for a in (x, result))
    expected = np.fft.fft(x)
    assert np.linalg.norm(result - expected) < 4e-7 * np.linalg.norm(expected)


def test_long_transforms_have_loops_before_the_last_stage() -> None:
    """Loops replace butterflies of primes that are too long, or too long together with those of other stages."""
    assert is_loop_on_gpu(31, 32, 1)
    assert not is_loop_on_gpu(31, 1, 31)
    assert not is_loop_on_gpu(17, 17, 1)
    assert is_loop_on_gpu(37, 1, 1)
    assert not any(is_loop_on_gpu(r, 31, 1) for r in range(1, 17))


def test_loops_over_results_need_no_barriers() -> None:
    """One after the load and one before the store, one between the reads and the writes of each stage, which are in
    the same memory, and one between the stages."""
    assert len(barriers(lowered(launch(1, 1763, 64))[0])) <= 5
