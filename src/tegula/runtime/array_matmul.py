"""The matmul of two arrays on the host: `a @ b`."""

from __future__ import annotations

from functools import cache
from typing import Any

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.elementwise import Expression, apply
from tegula.runtime.kernel import Kernel, kernel
from tegula.runtime.launch import launch_tiled
from tegula.runtime.make_arrays import empty
from tegula.stdlib.registry import tg
from tegula.types import DType, float32

EDGE, THREADS = 32, 64
"""The rows and columns of a tile, and the threads of a block."""


@cache
def matmul_kernel(dtype: DType) -> Kernel:
    """The kernel for matrices of a scalar type. Short floats are summed in float32."""
    sum_dtype = float32 if dtype.is_float and dtype.bits < 32 else dtype
    edge = EDGE

    @kernel
    def matmul(a, b, c):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(edge, edge), dtype=sum_dtype)
        for k in range((a.shape[1] + edge - 1) // edge):
            left = tg.tile_load(a, shape=(edge, edge), offset=(i * edge, k * edge))
            right = tg.tile_load(b, shape=(edge, edge), offset=(k * edge, j * edge))
            tg.tile_matmul(left, right, total)
        tg.tile_store(c, tg.cast(total, dtype), offset=(i * edge, j * edge))

    return kernel_of(matmul)


def kernel_of(kernel: Any) -> Kernel:
    """A kernel, with its type for type checkers."""
    assert isinstance(kernel, Kernel)
    return kernel


def matmul(a: Any, b: Any) -> array:
    """The matmul of arrays of 1 or 2 dimensions. Arrays of matrices and vectors are multiplied element by element."""
    a, b = (x.contiguous() if hasattr(x, "indices") else x for x in (a, b))
    if not (
        type(a) is array and type(b) is array and isinstance(a.dtype, DType) and isinstance(b.dtype, DType)
    ):
        array_operand = a if type(a) is array else b
        types = [x.dtype if type(x) is array else array_operand.dtype for x in (a, b)]
        return apply(Expression("matmul", "{0} @ {1}"), [a, b], types)[0]
    left = a.reshape((1, -1)) if a.ndim == 1 else a
    right = b.reshape((-1, 1)) if b.ndim == 1 else b
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise LaunchError(
            f"a @ b is not defined for arrays of shapes {a.shape} and {b.shape}",
            "pass arrays of 1 or 2 dimensions; the number of columns of a must equal the number of rows of b",
        )
    if a.device != b.device:
        raise LaunchError(
            f"arrays are on {a.device} and on {b.device}", "copy one of the arrays: a.to(device)"
        )
    rows, columns = left.shape[0], right.shape[1]
    needs_grad = a.dtype.is_float and (a.requires_grad or b.requires_grad)
    result = empty((rows, columns), a.dtype, a.device, needs_grad)
    grid = -(-rows // EDGE), -(-columns // EDGE)
    if 0 not in grid:
        launch_tiled(matmul_kernel(a.dtype), grid, [left, right], [result], block_dim=THREADS)
    shape = (*a.shape[:-1], *b.shape[1:])
    return result.reshape(shape or (1,))
