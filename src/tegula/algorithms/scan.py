"""Scans of arrays: the sums of all chunks are scanned first, then one block scans each chunk and adds the sum of the
preceding chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tegula as tg
from tegula.algorithms.packed import check_dtype, check_same_device, packed, scalars
from tegula.algorithms.reduction import LONG, THREADS, reduce_along
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.types import components

CHUNK = LONG[0]


def _scan_kernel(scan: Callable[..., Any]) -> tg.Kernel:
    """The kernel that scans chunks with a cooperative scan of tiles."""

    @tg.kernel
    def chunks(a, before, out):
        """Scan chunks of the columns of an array, and add the sum of the preceding chunks to each."""
        c, j = tg.tid()
        t = tg.tile_load(a, shape=(CHUNK, 1), offset=(c * CHUNK, j))
        s = scan(tg.tile_reshape(t, (CHUNK,)))
        tg.tile_store(out, tg.tile_reshape(s + before[c, j], (CHUNK, 1)), offset=(c * CHUNK, j))

    return chunks


INCLUSIVE, EXCLUSIVE = _scan_kernel(tg.tile_scan_inclusive), _scan_kernel(tg.tile_scan_exclusive)


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Writes the running sums of an array's elements in row-major order. Vectors and matrices are summed by component.

    Parameters:
        in_array: an array of numbers, vectors or matrices.
        out_array: an array with the same number of elements and the same dtype; may be `in_array`.
        inclusive: whether the sum at an index includes the element at this index; True by default.
    Raises:
        launch: the sizes, dtypes or devices differ.
    Gradient:
        flows where a tape records and both arrays have gradients.
    """
    check_same_device("array_scan", in_array, out_array=out_array)
    check_dtype("array_scan", "out_array", out_array, in_array.dtype)
    if in_array.size != out_array.size:
        raise LaunchError(
            f"array_scan: the arrays must have equally many elements, got {in_array.size} and {out_array.size}"
        )
    if not in_array.size:
        return
    shape = in_array.size, components(in_array.dtype)
    target = out_array if out_array.is_contiguous else tg.empty_like(in_array)
    scan(scalars(packed(in_array), *shape), scalars(target, *shape), inclusive)
    if target is not out_array:
        out_array.assign(array(target, out_array.dtype, out_array.shape, copy=False))


def scan(a: array, out: array, inclusive: bool) -> None:
    """Write the running sums of the columns of a packed array of scalars."""
    rows, columns = a.shape
    chunks = -(-rows // CHUNK)
    before = tg.zeros((chunks, columns), a.dtype, a.device, requires_grad=a.requires_grad)
    if chunks > 1:
        sums = tg.zeros((chunks, columns), a.dtype, a.device, requires_grad=a.requires_grad)
        full_chunks = chunks - 1  # the sum of the last chunk is not needed
        reduce_along(
            [a[: full_chunks * CHUNK].reshape((full_chunks, CHUNK, columns))],
            sums[:full_chunks],
            (full_chunks, CHUNK, columns),
        )
        scan(sums, before, inclusive=False)
    kernel = INCLUSIVE if inclusive else EXCLUSIVE
    tg.launch_tiled(kernel, (chunks, columns), [a, before], [out], block_dim=THREADS)
