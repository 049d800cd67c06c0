"""Plans of Fourier transforms on GPUs: stages, distribution of elements over threads, places in shared memory."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tegula.stdlib.tiles.roots import (
    MAX_ELEMENTS,
    MAX_RADIX,
    MIN_ELEMENTS,
    radices,
    stages,
    stages_of,
)
from tegula.stdlib.tiles.warps import WARP


def distribution(
    rows: int, r: int, stride: int, threads: int
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape of the inputs of a stage, and the grid of threads in which each thread has the inputs of its
    butterflies, which are `stride` apart; None if there is no such grid, or if threads would have whole rows, so that
    a warp would access elements of many rows at once."""
    if rows == 1 and stride % threads == 0:
        return (r * stride,), (threads,) if threads % WARP == 0 else None
    if rows == 1:
        is_grid = threads % WARP == 0 and threads & (threads - 1) == 0
        return (r, stride), (1, threads) if is_grid else None
    is_grid = threads % WARP == 0 and rows * stride == threads and stride & (stride - 1) == 0 and stride > 1
    return (rows, r, stride), (rows, 1, stride) if is_grid else None


def exchanges_parts(size: int, n: int, group: int) -> bool:
    """Whether the threads of a group of warps hold the same number of elements in all stages of transforms of length n,
    which are the inputs of whole butterflies, and enough of them that less shared memory is worth more barriers."""
    elements = size // group
    if size % group or not 2 * MIN_ELEMENTS <= elements <= MAX_ELEMENTS:
        return False
    plan = stages(n, elements)
    ends = (distribution(size // n, r, n // r, group)[1] for r in (plan[0][0], plan[-1][0]))
    return len(plan) > 1 and all(elements % r == 0 for r, _, _ in plan) and all(ends)


@lru_cache(maxsize=256)
def plan_of(size: int, n: int, alone: bool, group: int) -> tuple[tuple[int, int, int], ...]:
    """The stages of transforms of length n by a group: with the fewest stages for which threads of warps can hold all
    elements in registers, if there are any; `alone`: as for `_tile_dft`."""
    largest = MAX_RADIX
    plan = first = stages(n, elements_of_thread(size, group) if alone else MAX_RADIX)
    while largest > 1 and not all(fits_registers(size, r, group) for r, *_ in plan):
        largest -= 1
        plan = stages_of(radices(n, largest))
    return plan if largest > 1 else first


def elements_of_thread(size: int, group: int) -> int:
    """The number of elements that each thread of a group of warps holds; MAX_RADIX if threads hold different numbers of
    elements."""
    return size // group if group % WARP == 0 and size % group == 0 else MAX_RADIX


def fits_registers(size: int, r: int, group: int) -> bool:
    """Whether the threads of a group of warps can hold all elements of a stage in registers: one butterfly each, or
    several of few elements. Larger radices are primes, whose code is long."""
    butterflies = -(-(size // r) // group)
    limit = max_elements(group) if r <= MAX_RADIX else MAX_ELEMENTS
    return group >= WARP and (butterflies == 1 or butterflies * r <= limit)


def max_elements(group: int) -> int:
    """The maximum number of elements that each thread of a group holds in registers. Fewer threads have more
    registers."""
    return max(MAX_ELEMENTS, min(MAX_ELEMENTS_OF_FEW, GROUP_ELEMENTS // group))


MAX_ELEMENTS_OF_FEW, GROUP_ELEMENTS = 48, 16 << 10
"""The maximum number of elements that each thread of a small group holds in registers, and that all threads of a larger
group hold."""

BANK_PHASE = 16
"""The number of 8-byte elements that the banks of shared memory access in one phase."""


FEW_CONFLICTS = 2
"""The cycles of an access to shared memory for which rows are not padded: the places of padded elements take longer to
compute."""


@lru_cache(maxsize=256)
def padding(r: int, m: int, s: int, phase: int = BANK_PHASE) -> int:
    """The padding of a row of results in elements, with which consecutive threads have the fewest bank conflicts in
    shared memory when they write results and when the next stage reads the results; 0 for the last stage, whose results
    are contiguous. `phase`: the number of elements that the banks access in one phase."""
    if m == 1:
        return 0
    least, found = float("inf"), 0
    for length in range(r * s, r * s + phase):
        cycles = conflicts(length, s, phase) + conflicts(length, r * s, phase)
        if cycles < least:
            least, found = cycles, length - r * s
        if cycles == 2:
            break
    return found


@lru_cache(maxsize=256)
def row_padding(rows: int, n: int, threads: int, phase: int = BANK_PHASE) -> int:
    """The padding of rows of n elements, of which as many threads as given access consecutive elements at once, so that
    the threads of several rows have few bank conflicts; 0 for a single row, or if there are few conflicts anyway.
    `phase`: as for `padding`."""
    if rows == 1 or conflicts(n, threads, phase) <= FEW_CONFLICTS:
        return 0
    return min(range(phase), key=lambda gap: conflicts(n + gap, threads, phase))


def conflicts(length: int, s: int, phase: int) -> float:
    """The cycles that accesses of `phase` threads take, on average over the first thread, if each row of `length`
    elements has the elements of s threads."""
    cycles, starts = 0, {phase * k % s for k in range(phase)}
    for first in starts:
        accesses = [0] * phase
        for t in range(first, first + phase):
            accesses[(t // s * length + t % s) % phase] += 1
        cycles += max(accesses)
    return cycles / len(starts)


def split_butterflies(rows: int, m: int, s: int, threads: int) -> tuple[int, int]:
    """The distribution of the butterflies of a stage: the number of iterations of the outer loop, and the number of
    butterflies in each."""
    for outer, inner in ((rows * m, s), (rows, m * s)):
        if inner >= threads:
            return outer, inner
    return 1, rows * m * s


@lru_cache(maxsize=256)
def run_padding(r: int, s: int, count: int, total: int, phase: int = BANK_PHASE) -> int:
    """The padding of the rows of results of a run with which consecutive threads have the fewest bank conflicts when
    they read the inputs of the next stage. `total`: the number of butterflies of a stage."""
    lanes = np.arange(phase)

    def cycles(gap: int) -> int:
        result = 0
        for span in (s * r**k for k in range(count)):
            group = lanes // span
            places = group % r * (total + gap) + group // r * span + lanes % span
            result += int(np.bincount(places % phase).max())
        return result

    return min(range(phase), key=cycles)
