"""The sum of an array on the host: `a.sum()`."""

from __future__ import annotations

from functools import cache

from tegula.runtime.array import array
from tegula.runtime.array_matmul import kernel_of
from tegula.runtime.kernel import Kernel, kernel
from tegula.runtime.launch import launch_tiled
from tegula.runtime.make_arrays import empty, zeros
from tegula.stdlib.registry import tg
from tegula.types import ElementType, float32, int64, scalar_of, uint64, with_scalar

CHUNK, THREADS = 4096, 256
"""The number of elements that a block adds, and the number of threads per block."""


@cache
def sum_kernel(target: ElementType) -> Kernel:
    """The kernel in which each block writes the sum of its elements."""
    chunk, scalar = CHUNK, scalar_of(target)

    @kernel
    def sum_of_chunks(a, sums):
        i = tg.tid()
        part = tg.tile_load(a, shape=chunk, offset=tg.int64(i) * chunk)
        tg.tile_store(sums, tg.tile_sum(tg.cast(part, scalar)), offset=i)

    return kernel_of(sum_of_chunks)


def total(a: array) -> array:
    """The sum of all elements, in an array of one element."""
    scalar = scalar_of(a.dtype)
    sum_dtype = float32 if scalar.is_float and scalar.bits < 32 else scalar
    if not scalar.is_float:
        sum_dtype = uint64 if scalar.kind == "u" else int64
    sum_type = with_scalar(a.dtype, sum_dtype)
    flat = a.contiguous().flatten()
    if not flat.size:
        return zeros(1, with_scalar(a.dtype, scalar if scalar.is_float else sum_dtype), a.device)
    needs_grad = a.requires_grad and scalar.is_float
    while True:
        count = -(-flat.size // CHUNK)
        sums = empty(count, sum_type, a.device, needs_grad)
        launch_tiled(sum_kernel(sum_type), count, [flat], [sums], block_dim=THREADS)
        if count == 1:
            return sums.astype(scalar) if scalar.is_float and sum_dtype != scalar else sums
        flat = sums
