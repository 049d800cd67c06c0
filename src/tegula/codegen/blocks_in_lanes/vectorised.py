"""The result of the vectorisation of a kernel over blocks."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op


@dataclass(frozen=True, slots=True)
class VectorisedKernel:
    """A kernel with the same parameters whose body computes `lanes` blocks; None if blocks run serially, for
    `reason`. `max_lanes`: the value of `lanes` for launches of many blocks; `is_access_rare`: whether loads and stores
    of arrays take so little of the time that short code for them is preferred; `edge_accesses`: the accesses of single
    blocks that run only if the tile of some block is not in bounds or not packed."""

    lanes: int = 1
    kernel: Kernel | None = None
    reason: str = ""
    max_lanes: int = 1
    is_access_rare: bool = False
    edge_accesses: frozenset[Op] = frozenset()
