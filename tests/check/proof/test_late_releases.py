"""Stages that a matmul reads are given back an iteration late, in a branch with the wait for this matmul; and variants
that give a stage back while a matmul may read it."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel

GEMM = """\
def kernel(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], steps: int):
    i, j = tg.tid()
    ring0 = tg.tile_empty(shape=(4, 64, 64), dtype=bf16, storage="shared")
    ring1 = tg.tile_empty(shape=(4, 64, 64), dtype=bf16, storage="shared")
    full, empty = tg.mbarrier(1, stages=4), tg.mbarrier(4, stages=4)
    with tg.ws(0):
        for q in range(steps):
            s = q % 4
            if tg.elect():
                tg.mbarrier_wait(empty, s, q // 4 + 1)
                tg.mbarrier_expect_bytes(full, s, 16384)
                tg.tile_load_async(a, ring0[s], (i * 64, q * 64), full, s)
                tg.tile_load_async(b, ring1[s], (q * 64, j * 64), full, s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        for q in range(steps):
            tg.mbarrier_wait(full, q % 4, q // 4)
            tg.tile_matmul(ring0[q % 4], ring1[q % 4], total, wait=False)
            if q > 0:
                tg.tile_matmul_wait(pending=1)
                tg.mbarrier_arrive(empty, (q + 3) % 4)
        tg.tile_matmul_wait(pending=0)
        tg.tile_store(c, total, offset=(i * 64, j * 64))
"""
WRONG = {
    "two matmuls in flight": ("pending=1", "pending=2"),
    "the stage of the matmul in flight": ("(q + 3) % 4", "q % 4"),
    "no wait": ("                tg.tile_matmul_wait(pending=1)\n", ""),
    "a release too many": ("q > 0", "q >= 0"),
    "released before the wait": (
        "                tg.tile_matmul_wait(pending=1)\n                tg.mbarrier_arrive(empty, (q + 3) % 4)\n",
        "                tg.mbarrier_arrive(empty, (q + 3) % 4)\n                tg.tile_matmul_wait(pending=1)\n",
    ),
}


CARRIED = (
    GEMM.replace(
        "        for q in range(steps):\n            tg.mbarrier_wait(full",
        "        before = 0\n        for q in range(steps):\n            tg.mbarrier_wait(full",
    )
    .replace("(q + 3) % 4", "before")
    .replace(
        "        tg.tile_matmul_wait(pending=0)",
        "            before = q % 4\n        tg.tile_matmul_wait(pending=0)",
    )
)


@pytest.mark.parametrize("text", [GEMM, CARRIED], ids=["computed", "carried"])
def test_a_release_with_its_wait_in_a_branch_is_proved(text: str) -> None:
    assert "before" in text or text is GEMM
    assert kernel(text).check().status == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_releases_while_a_matmul_may_read_are_not_proved(name: str) -> None:
    old, new = WRONG[name]
    assert old in GEMM
    assert kernel(GEMM.replace(old, new)).check().status != "proved"
