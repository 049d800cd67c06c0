"""Data of which every order of summation gives the same bits, and launches of kernels with roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agreement
import numpy as np

import tegula as tg
from tegula.runtime.launch import block_size


def small_integers(*shape: int, seed: int = 0) -> tg.array:
    """A float32 array of integers from -3 to 3."""
    return tg.array(np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32))


def agree(kernel: Any, args: Sequence[Any], dim: int | Sequence[int]) -> list[np.ndarray]:
    """Launch with one block per element of `dim` and the block size of the roles, on the current device and in the
    interpreter. The arrays after it, which must be equal."""
    return agreement.agree(kernel, args, dim, block_size(kernel, None, args), tiled=True)
