"""Pipes of tiles with one to four dimensions: each tile is one bulk copy with as many dimensions."""

from __future__ import annotations

import pytest
from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from support.campaigns import sampled
from support.pipe_shapes import SHAPES, copy_through_pipes
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.runtime.launch import block_size


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@sampled(3, "shape", SHAPES, ids=str)
def test_a_tile_of_any_rank_is_one_bulk_copy(shape: tuple[int, ...], arch: str) -> None:
    kernel, array_shape = copy_through_pipes(shape), (4 * shape[0], *shape[1:])
    args = [tg.zeros(array_shape), tg.zeros(array_shape), 4]
    threads = block_size(kernel, None, args)
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (1,), threads, arch)
    assert check_schedule(lowered_kernel, compilation).passed
    code = lower_to_llvm(kernel, args, (1,), threads, arch=arch)
    text, cubin = assemble(code, arch)
    is_bulk_copy = f"cp.async.bulk.tensor.{len(shape)}d.shared::cluster.global" in text
    assert is_bulk_copy == (arch == "sm_90a" and shape[-1] * 4 % 16 == 0)
    assert [m.box for m in code.maps] == [shape] * is_bulk_copy
    if ptx.candidates():
        assert cubin.spill_bytes == 0
