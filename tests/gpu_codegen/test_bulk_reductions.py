"""Bulk reductions of matmul results to arrays whose previous elements are not used."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.runtime.launch import block_size

M, N, K, HALF = 128, 128, 64, tg.bfloat16


def split_k_kernel(dtype: Any, keep_previous: bool = False) -> Any:
    """A kernel whose blocks add chunks of a split-K matmul to the result. `keep_previous`: the previous elements are
    stored to another array."""

    @tg.kernel
    def split_k_matmul(
        a: tg.array2d[HALF],
        b: tg.array2d[HALF],
        c: tg.array2d[dtype],
        previous: tg.array2d[dtype],
        steps: int,
    ):
        block = tg.tid()
        left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=3)
        right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=3)
        with tg.ws(0):
            for k in range(steps):
                tg.tile_pipe_load(left, a, offset=(0, (block * steps + k) * K))
                tg.tile_pipe_load(right, b, offset=((block * steps + k) * K, 0))
        with tg.ws(1, 2):
            total = tg.tile_zeros(shape=(M, N))
            for _k in range(steps):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            old = tg.tile_atomic_add(c, tg.tile_astype(total, dtype))
            if keep_previous:
                tg.tile_store(previous, old)

    return split_k_matmul


def compile_kernel(kernel: Any, dtype: Any, align: bool = True) -> tuple[Any, Any, str, Any]:
    padded = tg.zeros((M, N + 2), dtype=dtype)
    c = tg.zeros((M, N), dtype=dtype) if align else padded[:, 1:-1]
    args = [
        tg.zeros((M, 4 * K), dtype=HALF),
        tg.zeros((4 * K, N), dtype=HALF),
        c,
        tg.zeros((M, N), dtype=dtype),
        2,
    ]
    threads = block_size(kernel, None, args)
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (2,), threads)
    code = lower_to_llvm(kernel, args, (2,), threads)
    return lowered_kernel, compilation, *assemble(code)


@pytest.mark.parametrize("dtype", [tg.float32, tg.bfloat16, tg.float16], ids=str)
def test_tile_atomic_adds_become_bulk_reductions(dtype: Any) -> None:
    kernel, compilation, text, cubin = compile_kernel(split_k_kernel(dtype), dtype)
    assert check_schedule(kernel, compilation).passed
    columns = 32 if dtype is tg.float32 else 64
    box_count = N // columns
    assert text.count("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group") == box_count
    assert "red.global" not in text and "atom.global" not in text
    start = text.index("cp.reduce")
    assert text.rindex("fence.proxy.async", 0, start) > text.rindex(
        "st.shared" if columns == 32 else "stmatrix", 0, start
    )
    assert "cp.async.bulk.commit_group" in text[start:] and "cp.async.bulk.wait_group 0;" in text[start:]
    if ptx.candidates():
        assert cubin.spill_bytes == 0


@pytest.mark.parametrize(("keep_previous", "align"), [(True, True), (False, False)])
def test_threads_add_tiles_that_are_unsuitable_for_bulk_reductions(keep_previous: bool, align: bool) -> None:
    """The previous elements are used, or no tensor map describes the array."""
    _, _, text, _ = compile_kernel(split_k_kernel(tg.float32, keep_previous), tg.float32, align)
    assert "cp.reduce" not in text and "atom.global.add.f32" in text
