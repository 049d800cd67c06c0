"""How large a launch may be."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tegula.errors import LaunchError

MOST_INT32 = 2**31 - 1
MOST_THREADS = 2**62


def check_dimensions(dims: Sequence[int]) -> None:
    """LaunchError for a launch whose threads have no indices, or too many numbers."""
    if max(dims) > MOST_INT32:
        raise LaunchError(
            f"a launch dimension is less than 2**31, since thread indices are int32, got {tuple(dims)}",
            "split the dimension in two, and put the index together in the kernel as a tg.int64",
        )
    if math.prod(dims) >= MOST_THREADS:
        raise LaunchError(
            f"a launch has fewer than 2**62 threads, got dimensions {tuple(dims)}", "launch several times"
        )
