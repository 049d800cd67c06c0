"""Positions of blocks in a launch whose blocks are distributed over CTAs: each block occurs once, in groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import run_serially

import tegula as tg
from tegula import interp
from tegula.codegen.gpu import lower_kernel
from tegula.dataclass import replace
from tegula.ir import Kernel
from tegula.ir.text import parse_kernel
from tegula.passes.pipeline_gpu import for_gpu
from tegula.target import get_cuda_target

THREADS = 32
TEXT = """
kernel "positions" {{
  launch [block_dim = 32, last_is_block = true, ndim = {ndim}, partial = false, uniform = ({uniform})]
  param "out" %0: array<int32,2> [aliases = (), align = 64, bulk = true, contiguous = true, dense = true]
  {blocks}
  for %1, %2, %3 (%4: int64) {{
    {statements}
    yield
  }}
  yield
}}
"""
ALL_BLOCKS = "%1: int64, %2: int64, %3: int64 = logical_blocks"
FIRST_BLOCKS = "\n  ".join(
    f"%{k}: int64 = const [type = int64, value = {n}]" for k, n in ((1, 0), (2, 4), (3, 1))
)
"""The IR of the indices of the blocks that a CTA runs: all blocks, or the first four."""
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
TARGET = get_cuda_target("sm_90a")


def kernel(ndim: int, raster: int, blocks: str = ALL_BLOCKS) -> Kernel:
    """A kernel that writes the position of block n to row n."""
    lines = ["%10: int32 = cast %4 [to = int32]"]
    for dim in range(ndim - 1):
        lines.append(f"%{20 + dim}: int32 = block.coordinate %4 [dim = {dim}, raster = {raster}]")
        lines.append(f"%{30 + dim}: int32 = const [type = int32, value = {dim}]")
        lines.append(f"array.store %0, %{20 + dim}, %10, %{30 + dim}")
    uniform = ", ".join(["true"] * (ndim - 1) + ["false"])
    return parse_kernel(
        TEXT.format(ndim=ndim, uniform=uniform, blocks=blocks, statements="\n    ".join(lines))
    )


def expected_positions(grid: tuple[int, ...], raster: int) -> list[tuple[int, ...]]:
    *outer, rows, columns = (1, *grid) if len(grid) == 1 else grid
    result = [
        (*indices, i, j)
        for indices in np.ndindex(*outer)
        for first in range(0, rows, raster)
        for j in range(columns)
        for i in range(first, min(rows, first + raster))
    ]
    return [indices[-len(grid) :] for indices in result]


@pytest.mark.machine_code
@pytest.mark.parametrize("raster", [1, 3, 8])
@pytest.mark.parametrize("grid", [(5,), (7, 4), (2, 4, 3)])
def test_each_block_is_visited_once_in_raster_order(grid: tuple[int, ...], raster: int) -> None:
    dims, blocks = (*grid, THREADS), int(np.prod(grid))
    expected = np.array(expected_positions(grid, raster), np.int32)
    out = np.full((blocks, len(grid)), -1, np.int32)
    interp.run(kernel(len(dims), raster), [out], dims, THREADS)
    np.testing.assert_array_equal(out, expected)

    np.testing.assert_array_equal(run_compiled(kernel(len(dims), raster), out.shape, dims), expected)


def run_compiled(traced: Kernel, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """The positions that a kernel writes as GPU code."""
    code = lower_kernel(traced, for_gpu(traced, TARGET), TARGET)
    # All threads write the same value, so no synchronisation is needed.
    code = replace(code, text=code.text.replace(BARRIER, ""))
    array = tg.full(shape, -1, dtype=int)

    @tg.kernel
    def positions(out: tg.array2d[int]):
        pass

    run_serially(code, positions, [array], dims, 3)
    return array.numpy()


@pytest.mark.machine_code
@pytest.mark.parametrize(("rows", "columns", "raster"), [(1, (2**32 + 2) // 3, 3), (2, (2**32 + 3) // 7, 7)])
def test_a_raster_group_may_have_more_blocks_than_int32_holds(rows: int, columns: int, raster: int) -> None:
    """The number of columns multiplied by `raster` wraps to 2 and to 3."""
    actual = run_compiled(kernel(3, raster, FIRST_BLOCKS), (4, 2), (rows, columns, THREADS))
    assert actual.tolist() == [[n % rows, n // rows] for n in range(4)]
