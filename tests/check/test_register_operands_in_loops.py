"""Matmuls that read registers of an iteration are complete before the next iteration."""

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


def matmul(reads: str, pending: int) -> Any:
    """A kernel that sums matmuls in a loop. `reads`: who reads the left operand, "the iteration" or "all iterations";
    `pending`: the matmuls in flight after the wait of each iteration."""

    @tg.kernel
    def multiply(a: tg.array2d[half], b: tg.array2d[half], c: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(K, N), dtype=half, stages=3)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, b, offset=(k * K, 0))
        with tg.ws(1):
            acc = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
            invariant_left = tg.tile_load(a, shape=(M, K))
            for k in range(n):
                right = tg.tile_pipe_pop(pipe)
                if tg.static(reads == "the iteration"):
                    left = tg.tile_load(a, shape=(M, K), offset=(0, k * K))
                    tg.tile_matmul(left * half(2.0), right, acc, wait=False)
                else:
                    tg.tile_matmul(invariant_left, right, acc, wait=False)
                tg.tile_matmul_wait(pending)
            tg.tile_matmul_wait(0)
            tg.tile_store(c, acc)

    return multiply


def body_of_matmul(kernel: Kernel) -> list[Op]:
    (matmul,) = (op for op in kernel.walk() if op.NAME == "group.register_mma")
    assert matmul.parent is not None and isinstance(matmul.parent.parent, For)
    return matmul.parent.ops


@pytest.mark.parametrize(
    ("reads", "pending", "last"),
    [("the iteration", 1, 0), ("the iteration", 0, None), ("all iterations", 1, None)],
)
def test_matmuls_that_read_registers_need_a_wait_at_the_end_of_an_iteration(
    reads: str, pending: int, last: int | None
) -> None:
    kernel, compilation = lowered(matmul(reads, pending))
    assert check_schedule(kernel, compilation).passed
    end = body_of_matmul(kernel)[-2]
    assert (end.attrs["pending"] if end.NAME == "group.mma_wait" else None) == last
