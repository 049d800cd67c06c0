"""Fourier transforms of many short rows on GPUs: the threads of a warp access elements of many rows at once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm
from memory_order import AccessOrder
from simt import run_together

import tegula as tg
from support.campaigns import sampled
from tegula.stdlib.tiles.plans import row_padding

PHASE = 16
"""The threads that access elements of 8 bytes in one cycle, if their banks differ."""


class Accesses(AccessOrder):
    """The addresses of all accesses to shared memory, by thread."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.addresses: defaultdict[int, list[int]] = defaultdict(list)

    def access(self, thread: int, address: int, size: int, writes: bool) -> None:
        super().access(thread, address, size, writes)
        self.addresses[thread].append(address)

    def cycles(self) -> int:
        """The most cycles of an access of elements of 8 bytes by consecutive threads."""
        return max(
            int(np.bincount(np.unique(places) % PHASE).max())
            for first in range(0, self.threads, PHASE)
            for places in np.transpose([self.addresses[t] for t in range(first, first + PHASE)]) // 8
        )


def run(rows: int, n: int, threads: int) -> tuple[float, Accesses]:
    """The relative error of the transforms of so many rows, and the accesses of the block."""

    library: Any = tg

    @tg.kernel
    def transforms(x: tg.array2d[tg.vec2f], out: tg.array2d[tg.vec2f]):
        t = tg.tile_load(x, shape=(rows, n))
        tg.tile_store(out, library._tile_dft(t, False, True))

    rng = np.random.default_rng(n)
    x = (rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))).astype(np.complex64)
    args = [tg.array(x), tg.zeros((rows, n), dtype=tg.vec2f)]
    code, accesses = lower_to_llvm(transforms, args, (1,), threads), Accesses(threads)
    run_together(code, transforms, args, (1, threads), 1, accesses)
    expected = np.fft.fft(x)
    result = args[1].numpy().view(np.complex64)[..., 0]
    return float(np.abs(result - expected).max() / np.abs(expected).max()), accesses


@pytest.mark.machine_code
@sampled(2, "case", ((64, 8, 64), (64, 16, 64), (32, 4, 32)))
def test_threads_of_whole_rows_access_different_banks(case: tuple[int, int, int]) -> None:
    """Without padding 4, 8 and 16 threads access one bank."""
    error, accesses = run(*case)
    assert error < 3e-7
    assert accesses.races == []
    assert accesses.cycles() <= 2


@pytest.mark.machine_code
@sampled(2, "case", ((16, 48, 96), (20, 49, 160), (31, 33, 96), (32, 18, 96)))
def test_padded_rows_of_two_stages_are_right(case: tuple[int, int, int]) -> None:
    error, accesses = run(*case)
    assert error < 3e-7
    assert accesses.races == []


def test_rows_are_padded_where_threads_of_several_rows_share_banks() -> None:
    assert [row_padding(64, n, 1) for n in (2, 4, 7, 8, 16)] == [0, 1, 0, 1, 1]
    assert row_padding(1, 16, 1) == 0
    assert row_padding(16, 48, 16) == 0
