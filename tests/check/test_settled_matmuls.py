"""Products that read registers which a loop's round fills are over before the next round."""

from __future__ import annotations

from typing import Any

import pytest
from schedules import lowered

import tegula as tg
from tegula.check.schedule import check_schedule
from tegula.ir import Kernel, Op
from tegula.ops.control import For

half = tg.float16
M, N, K = 64, 64, 64


def product(reads: str, pending: int) -> Any:
    """A sum over a loop. `reads`: where its left operand comes from; `pending`: products in flight after each
    round's own wait."""

    @tg.kernel
    def multiply(a: tg.array2d[half], b: tg.array2d[half], c: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(K, N), dtype=half, stages=3)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, b, offset=(k * K, 0))
        with tg.ws(1):
            acc = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
            same = tg.tile_load(a, shape=(M, K))
            for k in range(n):
                right = tg.tile_pipe_pop(pipe)
                if tg.static(reads == "the round"):
                    left = tg.tile_load(a, shape=(M, K), offset=(0, k * K))
                    tg.tile_matmul(left * half(2.0), right, acc, wait=False)
                else:
                    tg.tile_matmul(same, right, acc, wait=False)
                tg.tile_matmul_wait(pending)
            tg.tile_matmul_wait(0)
            tg.tile_store(c, acc)

    return multiply


def body_of_product(kernel: Kernel) -> list[Op]:
    (product,) = (op for op in kernel.walk() if op.NAME == "group.register_mma")
    assert product.parent is not None and isinstance(product.parent.parent, For)
    return product.parent.ops


@pytest.mark.parametrize(
    ("reads", "pending", "last"), [("the round", 1, 0), ("the round", 0, None), ("all rounds", 1, None)]
)
def test_waits_at_the_end_of_a_round(reads: str, pending: int, last: int | None) -> None:
    kernel, parts = lowered(product(reads, pending))
    assert check_schedule(kernel, parts).passed
    end = body_of_product(kernel)[-2]
    assert (end.attrs["pending"] if end.NAME == "group.mma_wait" else None) == last
