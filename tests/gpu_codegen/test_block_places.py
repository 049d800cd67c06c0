"""Where blocks stand in a launch that blocks of the hardware walk over: every block once, in groups of rows."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_code import run_serially

import tegula as tg
from tegula import interp
from tegula.codegen.gpu import lower_kernel
from tegula.dataclass import replace
from tegula.ir import Kernel
from tegula.passes.pipeline_gpu import for_gpu
from tegula.target import get_cuda_target
from tegula.text import parse_kernel

THREADS = 32
TEXT = """
kernel "places" {{
  launch [block_dim = 32, last_is_block = true, ndim = {ndim}, partial = false, uniform = ({uniform})]
  param "out" %0: array<int32,2> [aliases = (), align = 64, bulk = true, contiguous = true, dense = true]
  %1: int64, %2: int64, %3: int64 = logical_blocks
  for %1, %2, %3 (%4: int64) {{
    {places}
    yield
  }}
  yield
}}
"""
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
TARGET = get_cuda_target("sm_90a")


def kernel(ndim: int, raster: int) -> Kernel:
    """Writes the place of block n to row n."""
    lines = ["%10: int32 = cast %4 [to = int32]"]
    for dim in range(ndim - 1):
        lines.append(f"%{20 + dim}: int32 = block.place %4 [dim = {dim}, raster = {raster}]")
        lines.append(f"%{30 + dim}: int32 = const [type = int32, value = {dim}]")
        lines.append(f"array.store %0, %{20 + dim}, %10, %{30 + dim}")
    uniform = ", ".join(["true"] * (ndim - 1) + ["false"])
    return parse_kernel(TEXT.format(ndim=ndim, uniform=uniform, places="\n    ".join(lines)))


def wanted(grid: tuple[int, ...], raster: int) -> list[tuple[int, ...]]:
    *outer, rows, columns = (1, *grid) if len(grid) == 1 else grid
    found = [
        (*at, i, j)
        for at in np.ndindex(*outer)
        for first in range(0, rows, raster)
        for j in range(columns)
        for i in range(first, min(rows, first + raster))
    ]
    return [at[-len(grid) :] for at in found]


@pytest.mark.parametrize("raster", [1, 3, 8])
@pytest.mark.parametrize("grid", [(5,), (7, 4), (2, 4, 3)])
def test_places(grid: tuple[int, ...], raster: int) -> None:
    dims, blocks = (*grid, THREADS), int(np.prod(grid))
    expected = np.array(wanted(grid, raster), np.int32)
    out = np.full((blocks, len(grid)), -1, np.int32)
    interp.run(kernel(len(dims), raster), [out], dims, THREADS)
    np.testing.assert_array_equal(out, expected)

    made = kernel(len(dims), raster)
    code = lower_kernel(made, for_gpu(made, TARGET), TARGET)
    # All threads write the same, so that they need not meet.
    code = replace(code, text=code.text.replace(BARRIER, ""))
    array = tg.full((blocks, len(grid)), -1, dtype=int)

    @tg.kernel
    def places(out: tg.array2d[int]):
        pass

    run_serially(code, places, [array], dims, 3)
    np.testing.assert_array_equal(array.numpy(), expected)
