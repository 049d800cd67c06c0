"""A wait for a matmul, a fence and a wait for a bulk store order only the warp or thread that executes the op; other
warps are ordered once the warps have synchronised. Each pair of lines is correct in one order, wrong in the other."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from tegula.ir import Kernel
from tegula.ops.group import Barrier
from tegula.ops.schedule import FenceAsync

MULTIPLIED = """def multiplied(a: tg.array2d[bf16], b: tg.array2d[bf16], out: tg.array2d[float], n: int):
    left = tg.tile_empty(shape=(S, BM, BK), dtype=bf16, storage="shared")
    right = tg.tile_empty(shape=(S, BK, BN), dtype=bf16, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    own = tg.named_barrier(warps=4)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, 2 * BM * BK * 2)
                tg.tile_load_async(a, left[s], (0, k * BK), full, s)
                tg.tile_load_async(b, right[s], (k * BK, 0), full, s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(BM, BN), dtype=float)
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_matmul(left[s], right[s], total, wait=False)
            tg.tile_matmul_wait(pending=0)
            tg.named_barrier_sync(own)
            if tg.elect():
                tg.mbarrier_arrive(empty, s)
        tg.tile_store(out, total, offset=(0, 0))
"""
MATMUL_WAIT = "            tg.tile_matmul_wait(pending=0)\n"
WARP_SYNC = "            tg.named_barrier_sync(own)\n"
IN_PLACE = """def in_place(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, 8 * N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, 8 * N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            ring[s] = tg.tile_load(x, shape=(1, 8 * N), offset=(k, 0)) * 3.0
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            ring[s] = tg.tile_load(x, shape=(1, 8 * N), offset=(k + 1, 0))
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            tg.mbarrier_arrive(empty, s)
"""
SELECTED = """def selected(
    x: tg.array2d[float], out: tg.array2d[float], b: tg.array2d[bf16], n: int, flags: tg.array1d[int]
):
    ring = tg.tile_empty(shape=(S, 1, 8 * N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4, stages=S), tg.mbarrier(1, stages=S)
    with tg.ws(0):
        k = int(0)
        for q in range(n):
            if flags[q] > 2:
                if k >= S:
                    tg.mbarrier_wait(empty, k % S, k // S + 1)
                ring[k % S] = tg.tile_load(x, shape=(1, 8 * N), offset=(k, 0)) * 3.0
                tg.fence_async()
                tg.mbarrier_arrive(full, k % S)
                k += 1
    with tg.ws(1):
        k = int(0)
        for q in range(n):
            if flags[q] > 2:
USE
                k += 1
"""
COPY_OUT = """if tg.elect():
    tg.mbarrier_wait(full, k % S, k // S)
    tg.tile_store_async(out, ring[k % S], (k, 0))
    tg.store_commit()
    tg.store_wait(pending=0)
    tg.mbarrier_arrive(empty, k % S)"""
"""One warp waits for an item and copies it out; the others do neither."""
READ_BY_ALL = """if tg.elect():
    tg.mbarrier_wait(full, k % S, k // S)
tg.tile_store(out, ring[k % S], offset=(k, 0))
if tg.elect():
    tg.mbarrier_arrive(empty, k % S)"""
COPY_AND_READ = COPY_OUT.replace("    tg.store_wait", "tg.tile_store(out, ring[k % S], offset=(k + n, 0))\n"
    "if tg.elect():\n    tg.store_wait")  # fmt: skip


def selected(use: str) -> str:
    return SELECTED.replace("USE", "\n".join(" " * 16 + line for line in use.split("\n")))


def test_the_warp_that_has_waited_copies_out_before_the_others_synchronise() -> None:
    lowered_kernel, compilation = lowered(kernel(selected(COPY_OUT)))
    assert outcome((lowered_kernel, compilation)) == "proved"
    remove_barriers(lowered_kernel)
    assert outcome((lowered_kernel, compilation)) == "proved"


@pytest.mark.parametrize("use", [READ_BY_ALL, COPY_AND_READ])
def test_warps_that_read_what_one_warp_has_waited_for_synchronise(use: str) -> None:
    lowered_kernel, compilation = lowered(kernel(selected(use)))
    remove_barriers(lowered_kernel)
    assert "only one of them has waited" in outcome((lowered_kernel, compilation))


@pytest.mark.parametrize(
    "change",
    [
        ("    tg.store_wait(pending=0)\n    tg.mbarrier_arrive", "    tg.mbarrier_arrive"),
        ("if tg.elect():\n    tg.mbarrier_wait(full, k % S, k // S)", "if tg.elect():"),
        (
            "    tg.mbarrier_wait(full, k % S, k // S)\n",
            "    if k != 9:\n        tg.mbarrier_wait(full, k % S, k // S)\n",
        ),
        ("    tg.mbarrier_arrive(empty, k % S)", "tg.mbarrier_arrive(empty, k % S)"),
        ("    tg.store_wait(pending=0)", "    tg.store_wait(pending=1)"),
    ],
)
def test_copies_out_by_one_warp_that_are_not_ordered_are_not_proved(change: tuple[str, str]) -> None:
    text = COPY_OUT.replace(*change)
    assert text != COPY_OUT and outcome(lowered(kernel(selected(text)))) != "proved"


def remove_barriers(lowered_kernel: Kernel) -> None:
    for op in [op for op in lowered_kernel.walk() if isinstance(op, Barrier)]:
        assert op.parent is not None
        op.parent.ops.remove(op)


def test_warps_synchronise_after_each_has_waited_for_its_part_of_a_matmul() -> None:
    assert outcome(lowered(kernel(MULTIPLIED))) == "proved"
    early = MULTIPLIED.replace(MATMUL_WAIT + WARP_SYNC, WARP_SYNC + MATMUL_WAIT)
    assert early != MULTIPLIED and outcome(lowered(kernel(early))) != "proved"


@pytest.mark.parametrize("occurrence", range(4))
def test_in_place_stores_without_any_barrier_are_not_proved(occurrence: int) -> None:
    lowered_kernel, compilation = lowered(kernel(IN_PLACE))
    assert outcome((lowered_kernel, compilation)) == "proved"
    barriers = [op for op in lowered_kernel.walk() if isinstance(op, Barrier)]
    assert len(barriers) == 4 and barriers[occurrence].parent is not None
    barriers[occurrence].parent.ops.remove(barriers[occurrence])
    assert outcome((lowered_kernel, compilation)) != "proved"


@pytest.mark.parametrize("occurrence", range(2))
def test_warps_that_synchronise_without_a_fence_are_not_proved(occurrence: int) -> None:
    lowered_kernel, compilation = lowered(kernel(IN_PLACE))
    fence = [op for op in lowered_kernel.walk() if isinstance(op, FenceAsync)][occurrence]
    assert fence.parent is not None
    ops = fence.parent.ops
    k = ops.index(fence)
    assert isinstance(ops[k + 1], Barrier)
    ops[k], ops[k + 1] = ops[k + 1], ops[k]
    assert "may still write" in outcome((lowered_kernel, compilation))
