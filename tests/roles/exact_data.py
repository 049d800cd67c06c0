"""Data of which every order of summation gives the same bits, and launches of kernels with roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agreement
import numpy as np

import tegula as tg
from tegula import interp
from tegula.passes.pipeline import prepare
from tegula.runtime.launch import block_size


def small_integers(*shape: int, seed: int = 0) -> tg.array:
    """A float32 array of integers from -3 to 3."""
    return tg.array(np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32))


def agree(kernel: Any, args: Sequence[Any], dim: int | Sequence[int]) -> list[np.ndarray]:
    """Launch with one block per element of `dim` and the block size of the roles, on the current device and in the
    interpreter, before the passes and after the passes of all targets. Returns the arrays, which must be equal."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    threads = block_size(kernel, None, args, ndim=len(dims) + 1)
    arrays = agreement.agree(kernel, args, dims, threads, tiled=True)
    prepared = [tg.clone(a, device="cpu") if isinstance(a, tg.array) else a for a in args]
    traced_kernel = agreement.traced(kernel, prepared, (*dims, threads), threads)
    prepare(traced_kernel)
    host_arrays = [a.numpy() if isinstance(a, tg.array) else a for a in prepared]
    interp.run(traced_kernel, host_arrays, (*dims, threads), threads)
    for expected, actual in zip(arrays, (a for a in host_arrays if isinstance(a, np.ndarray)), strict=True):
        agreement.assert_same_bits(actual, expected, "prepared")
    return arrays
