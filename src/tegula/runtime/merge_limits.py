"""Limits for the merging of neighbouring blocks of a launch (`passes.specialise.merge_blocks`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, prod

MULTIPROCESSORS = 132
"""The multiprocessors of an H100 or H200, the GPUs on which blocks are merged."""
LEAST_WAVES = 2
"""The least number of merged blocks for each multiprocessor."""
MOST_ALONG, MOST = 8, 32
"""The largest number of merged blocks along one dimension, and in all."""
WASTE = 1 / 16
"""The largest fraction of the blocks along a dimension that are computed twice."""
STEPS, EQUAL, LEAST = 8, 0.97, 0.75
"""Fractions are rounded down to a number of steps from 0 to 1, but up to 1 from `EQUAL`, and to 0 below `LEAST`."""


def merge_limits(
    dims: Sequence[int], block_dim: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    """The numbers of blocks that a CTA may compute together along each dimension of the grid, powers of two; the same
    if no block may be computed twice; and, for 2, 4, 8, .. merged blocks in all, the fraction of their use of the
    multiprocessors that the blocks keep. Empty if blocks stay separate. Fractions are coarse, so that few launches need
    code of their own."""
    *grid, last = dims
    blocks = prod(grid)
    if last != block_dim or blocks < 2 * LEAST_WAVES * MULTIPROCESSORS:
        return (), (), ()
    along = tuple(_most(n, WASTE) for n in grid)
    kept = tuple(_kept(blocks, 1 << k) for k in range(1, MOST.bit_length()))
    return (
        (along, tuple(_most(n, 0) for n in grid), kept) if max(along) > 1 and max(kept) > 0 else ((), (), ())
    )


def _most(blocks: int, waste: float) -> int:
    """The largest power of two that divides a number of blocks plus a fraction of it, `waste`, that is computed
    twice."""
    found = (1 << k for k in range(MOST_ALONG.bit_length() - 1, 0, -1))
    return next((f for f in found if -(-blocks // f) * f <= blocks * (1 + waste)), 1)


def _kept(blocks: int, factor: int) -> float:
    """The fraction of the use of the multiprocessors that blocks keep if `factor` of them are merged; rounded."""
    if blocks < LEAST_WAVES * MULTIPROCESSORS * factor:
        return 0.0
    kept = _use(blocks / factor) / _use(blocks)
    return 1.0 if kept >= EQUAL else floor(kept * STEPS) / STEPS if kept >= LEAST else 0.0


def _use(blocks: float) -> float:
    """The fraction of the multiprocessors that compute, averaged over a launch of equal blocks."""
    return blocks / (MULTIPROCESSORS * ceil(blocks / MULTIPROCESSORS))
