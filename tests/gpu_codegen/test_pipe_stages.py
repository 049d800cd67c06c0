"""Addresses of the stages of pipes: bulk copies write to multiples of 128 bytes for stages of any size."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from tegula.check.schedule import check_schedule
from tegula.ops.schedule import BulkLoad, MbarrierExpect
from tegula.runtime.launch import block_size
from tegula.types import BufType, element_bytes, scalar_of

STAGES = 3


def two_pipe_kernel(dtype: Any, shape: tuple[int, int], second_shape: tuple[int, int]) -> Any:
    """A kernel in which one role fills two pipes and another role copies the tiles."""

    @tg.kernel
    def copy_pipes(x: tg.array2d[dtype], y: tg.array2d[dtype], n: int):
        pipe = tg.tile_pipe(shape=shape, dtype=dtype, stages=STAGES)
        second_pipe = tg.tile_pipe(shape=second_shape, dtype=dtype, stages=STAGES)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k * 8, 0))
                tg.tile_pipe_load(second_pipe, x, offset=(k * 8, 0))
        with tg.ws(1):
            for k in range(n):
                tg.tile_store(y, tg.tile_pipe_pop(pipe), offset=(k * 8, 0))
                tg.tile_store(y, tg.tile_pipe_pop(second_pipe), offset=(k * 8, 128))

    return copy_pipes


SHAPES = [
    (tg.float32, (1, 8), (1, 4)),
    (tg.float32, (3, 40), (7, 12)),
    (tg.float32, (4, 32), (1, 32)),
    (tg.bfloat16, (5, 24), (1, 8)),
    (tg.float64, (1, 2), (3, 6)),
    (tg.int8, (3, 16), (5, 48)),
]


@pytest.mark.parametrize(("dtype", "shape", "second_shape"), SHAPES)
def test_stages_of_bulk_copies_are_aligned_to_128_bytes(
    dtype: Any, shape: tuple[int, int], second_shape: tuple[int, int]
) -> None:
    kernel = two_pipe_kernel(dtype, shape, second_shape)
    args = [tg.zeros((64, 256), dtype=dtype), tg.zeros((64, 256), dtype=dtype), 4]
    threads = block_size(kernel, None, args)
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (1,), threads)
    assert sum(isinstance(op, BulkLoad) for op in lowered_kernel.walk()) == 2
    rings = {v: p for v, p in compilation.shared.allocations.items() if isinstance(v.type, BufType)}
    assert len(rings) == 2
    for ring, allocation in rings.items():
        assert isinstance(ring.type, BufType)
        stage_bytes = allocation.strides[0] * scalar_of(ring.type.dtype).bits // 8
        tile_bytes = prod(ring.type.shape[1:]) * element_bytes(ring.type.dtype)
        assert (
            allocation.offset % 128 == stage_bytes % 128 == 0 and tile_bytes <= stage_bytes < tile_bytes + 128
        )
        assert allocation.size == STAGES * stage_bytes
    # The barrier expects the bytes of the copies, not of the stages.
    expected_bytes = sum(op.attrs["bytes"] for op in lowered_kernel.walk() if isinstance(op, MbarrierExpect))
    assert expected_bytes == (prod(shape) + prod(second_shape)) * element_bytes(dtype)
    assert check_schedule(lowered_kernel, compilation).passed
    assemble(lower_to_llvm(kernel, args, (1,), threads))


def test_stages_that_threads_fill_are_contiguous() -> None:
    kernel = two_pipe_kernel(tg.float32, (3, 5), (1, 3))
    args = [tg.zeros((64, 256)), tg.zeros((64, 256)), 4]
    _, compilation = run_gpu_passes(kernel, args, (1,), block_size(kernel, None, args))
    sizes = [p.size for v, p in compilation.shared.allocations.items() if isinstance(v.type, BufType)]
    assert sizes == [STAGES * 60, STAGES * 12]
