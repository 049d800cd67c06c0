"""Checks of launch dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tegula.errors import LaunchError

MAX_INT32 = 2**31 - 1
MAX_THREADS = 2**62


def check_dimensions(dims: Sequence[int]) -> None:
    """Raise LaunchError if thread indices of a launch do not fit int32, or if there are too many threads."""
    if max(dims) > MAX_INT32 + 1:
        raise LaunchError(
            f"a launch has at most 2**31 threads in each dimension, got dimensions {tuple(dims)}",
            "thread indices are int32: split the dimension in two, and compute the index as a tg.int64",
        )
    if math.prod(dims) >= MAX_THREADS:
        raise LaunchError(
            f"a launch has fewer than 2**62 threads, got dimensions {tuple(dims)}", "launch several times"
        )
