"""Handwritten schedules as code for Hopper: the intended instructions, no warnings of ptxas, no spills."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from tegula.backend import ptx

M, N, K, S = 128, 128, 64, 4
BYTES = (M * K + K * N) * 2
HALF = tg.bfloat16


@tg.kernel
def matmul(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_empty(shape=(S, M, K), dtype=HALF, storage="shared")
    right = tg.tile_empty(shape=(S, K, N), dtype=HALF, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(8, stages=S)
    with tg.ws(0, registers=24):
        if tg.elect():
            for k in range(steps):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, BYTES)
                tg.tile_load_async(a, left[s], (0, k * K), full, s)
                tg.tile_load_async(b, right[s], (k * K, 0), full, s)
    with tg.ws(1, 2, registers=240):
        total = tg.tile_zeros(shape=(M, N))
        for k in range(steps):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_matmul(left[s], right[s], total, wait=False)
            tg.tile_matmul_wait(pending=1)
            if k > 0:
                tg.mbarrier_arrive(empty, (k - 1) % S)
        tg.tile_matmul_wait()
        tg.tile_store(c, total)


@tg.kernel
def staged_stores(x: tg.array2d[float], out: tg.array2d[float], n: int):
    stage = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    barrier = tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            tg.store_wait(pending=1, read=True)
            stage[k % 2] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 2.0
            tg.fence_async()
            tg.tile_store_async(out, stage[k % 2], (k, 0))
            tg.store_commit()
        tg.store_wait(read=True)
        tg.named_barrier_arrive(barrier)
    with tg.ws(1):
        tg.named_barrier_sync(barrier)


def compile_to_ptx(kernel: Any, args: list[Any], threads: int) -> tuple[str, Any]:
    return assemble(lower_to_llvm(kernel, args, (1,), threads))


def zeros(*shape: int, dtype: Any = HALF) -> tg.array:
    return tg.zeros(shape, dtype=dtype)


@pytest.fixture(scope="module")
def compiled_kernels() -> dict[str, tuple[str, Any]]:
    matmul_args = [zeros(M, 4 * K), zeros(4 * K, N), zeros(M, N, dtype=float), 4]
    staged_args = [zeros(8, 32, dtype=float), zeros(8, 32, dtype=float), 8]
    return {
        "matmul": compile_to_ptx(matmul, matmul_args, 384),
        "staged_stores": compile_to_ptx(staged_stores, staged_args, 256),
    }


def test_a_matmul_of_a_handwritten_schedule_reads_stages_in_place(
    compiled_kernels: dict[str, tuple[str, Any]],
) -> None:
    text, _ = compiled_kernels["matmul"]
    assert "wgmma.mma_async" in text and "wgmma.wait_group.sync.aligned 1;" in text
    assert len(re.findall(r"mbarrier\.init\S* \[\S+\], 8;", text)) == S
    assert re.search(rf"mbarrier\.arrive\.expect_tx\S* _, \[\S+\], {BYTES};", text)
    assert text.count("cp.async.bulk.tensor.2d.shared") >= 2


def test_stores_of_a_handwritten_schedule_are_committed_in_groups(
    compiled_kernels: dict[str, tuple[str, Any]],
) -> None:
    text, _ = compiled_kernels["staged_stores"]
    copy_position = text.index("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group")
    assert text.rindex("fence.proxy.async.shared::cta", 0, copy_position) > 0
    assert text.index("cp.async.bulk.commit_group", copy_position) > copy_position
    assert "cp.async.bulk.wait_group.read 1;" in text and "cp.async.bulk.wait_group.read 0;" in text
    assert re.search(r"bar(rier)?\S*\.arrive\S* ", text) and re.search(r"bar(rier)?\S*\.sync\S* ", text)


@pytest.mark.skipif(not ptx.candidates(), reason="there is no ptxas")
@pytest.mark.parametrize("name", ["matmul", "staged_stores"])
def test_handwritten_schedules_assemble_without_warnings(
    compiled_kernels: dict[str, tuple[str, Any]], name: str
) -> None:
    assert compiled_kernels[name][1].spill_bytes == 0
