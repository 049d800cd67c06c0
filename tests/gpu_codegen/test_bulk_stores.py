"""Results stored by bulk copies: a warp group stores its rows, and waits for other warp groups only if they store the
same elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.ir import Kernel, Op
from tegula.ops.group import Barrier
from tegula.ops.schedule import BulkStore, BulkWait
from tegula.ops.tile import TileStore
from tegula.runtime.launch import block_size

M, N, K, HALF = 128, 128, 64, tg.bfloat16
ITERATIONS = 5


def repeated_store_kernel(
    row_step: int,
    column_step: int,
    groups: int = 2,
    rows: int = M,
    columns: int = N,
    max_iterations: int = 1 << 20,
) -> Any:
    """A kernel with a matmul in each of at most `max_iterations` iterations. Each result is stored `row_step` rows and
    `column_step` columns after the previous one."""

    @tg.kernel
    def store_repeatedly(
        a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], n: int, first_row: int
    ):
        left = tg.tile_pipe(shape=(rows, K), dtype=HALF, stages=2)
        right = tg.tile_pipe(shape=(K, columns), dtype=HALF, stages=2)
        with tg.role("fetch", warp_groups=1):
            for k in range(tg.min(n, max_iterations)):
                tg.tile_pipe_load(left, a, offset=(0, k * K))
                tg.tile_pipe_load(right, b, offset=(k * K, 0))
        with tg.role("multiply", warp_groups=groups):
            for k in range(tg.min(n, max_iterations)):
                total = tg.tile_zeros(shape=(rows, columns), dtype=tg.float32)
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
                offset = (first_row + k * row_step, k * column_step)
                tg.tile_store(c, tg.tile_astype(total, HALF), offset=offset)

    return store_repeatedly


@tg.kernel
def persistent_matmul(
    a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], row_count: int, column_count: int
):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=2)
    right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=2)
    with tg.ws(0):
        for i, j in tg.persistent_tiles((row_count, column_count)):
            tg.tile_pipe_load(left, a, offset=(i * M, 0))
            tg.tile_pipe_load(right, b, offset=(0, j * N))
    with tg.ws(1, 2):
        for i, j in tg.persistent_tiles((row_count, column_count)):
            total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * M, j * N))


@tg.kernel
def store_and_clear(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], d: tg.array2d[HALF]):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=2)
    right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=2)
    with tg.ws(0):
        tg.tile_pipe_load(left, a)
        tg.tile_pipe_load(right, b)
    with tg.ws(1, 2):
        total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
        tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, tg.tile_astype(total, HALF))
        tg.tile_store(d, tg.tile_astype(total, HALF))
        tg.tile_store(c, tg.tile_zeros(shape=(16, 32), dtype=HALF), offset=(56, 0))


def specialised_kernel(kernel: Any, *scalars: Any) -> tuple[Kernel, Any]:
    arrays = [tg.zeros((1024, 1024), dtype=HALF) for _ in range(3)]
    args = [*arrays, *scalars]
    return run_gpu_passes(kernel, args, (1,), block_size(kernel, None, args))


def ops_before_stores(kernel: Kernel) -> list[list[type[Op]]]:
    """The types of the waits and barriers directly before each bulk store."""
    preceding: list[list[type[Op]]] = []
    for op in kernel.walk():
        if isinstance(op, BulkStore):
            assert op.parent is not None
            ops = op.parent.ops
            position = ops.index(op)
            preceding.append(
                [type(x) for x in ops[max(0, position - 2) : position] if isinstance(x, Barrier | BulkWait)]
            )
    return preceding


def groups_overlap(row_step: int, column_step: int, groups: int, rows: int, columns: int) -> bool:
    """Whether two warp groups, which share the rows of a tile, store one element, maybe in different iterations."""
    part = rows // groups
    for i, j, g, h in product(range(ITERATIONS), range(ITERATIONS), range(groups), range(groups)):
        row_distance = abs(i * row_step + g * part - j * row_step - h * part)
        if g != h and row_distance < part and abs(i - j) * column_step < columns:
            return True
    return False


STEPS = [
    (128, 0, 2, 128, 128), (256, 0, 2, 128, 128), (0, 0, 2, 128, 128), (0, 64, 2, 128, 128), (0, 128, 2, 128, 128),
    (128, 64, 2, 128, 128), (192, 0, 3, 192, 64), (192, 64, 3, 192, 64), (192, 0, 2, 128, 128),
    (64, 0, 2, 128, 128), (64, 64, 2, 128, 128), (32, 0, 2, 128, 128), (128, 0, 3, 192, 64),
]  # fmt: skip


@pytest.mark.parametrize(("row_step", "column_step", "groups", "rows", "columns"), STEPS)
def test_warp_groups_that_store_the_same_part_synchronise(
    row_step: int, column_step: int, groups: int, rows: int, columns: int
) -> None:
    kernel, compilation = specialised_kernel(
        repeated_store_kernel(row_step, column_step, groups, rows, columns), ITERATIONS, 3
    )
    expected = [BulkWait, Barrier] if groups_overlap(row_step, column_step, groups, rows, columns) else []
    assert ops_before_stores(kernel) == [expected]
    assert check_schedule(kernel, compilation).passed


@pytest.mark.parametrize(
    ("row_step", "column_step", "groups", "rows", "columns"), [s for s in STEPS if not groups_overlap(*s)]
)
def test_warp_groups_wait_where_offsets_may_wrap_and_repeat(
    row_step: int, column_step: int, groups: int, rows: int, columns: int
) -> None:
    """After 2**32 rows an int32 offset repeats. With a power of two as step, whole parts of the warp groups then
    coincide."""
    kernel, _ = specialised_kernel(
        repeated_store_kernel(row_step, column_step, groups, rows, columns, 2**31 - 1), ITERATIONS, 3
    )
    is_whole_tile = rows // groups * groups == 128 and row_step % 128 == 0
    assert ops_before_stores(kernel) == [[] if is_whole_tile else [BulkWait, Barrier]]


@pytest.mark.skipif(not ptx.candidates(), reason="there is no ptxas")
def test_warp_groups_of_a_persistent_matmul_do_not_wait_for_each_other() -> None:
    kernel, compilation = specialised_kernel(persistent_matmul, 4, 4)
    assert ops_before_stores(kernel) == [[]]
    assert check_schedule(kernel, compilation).passed
    arrays = [tg.zeros((512, 512), dtype=HALF) for _ in range(3)]
    text, code = assemble(lower_to_llvm(persistent_matmul, [*arrays, 4, 4], (2,), 384))
    assert ", 256;" not in text and code.spill_bytes == 0


def test_an_array_is_written_by_copies_or_by_threads() -> None:
    kernel, _ = specialised_kernel(store_and_clear, tg.zeros((M, N), dtype=HALF))
    bulk_stored = [kernel.params.index(op.operands[1]) for op in kernel.walk() if isinstance(op, BulkStore)]
    thread_stored = [kernel.params.index(op.operands[0]) for op in kernel.walk() if isinstance(op, TileStore)]
    assert (bulk_stored, thread_stored) == ([3], [2, 2])
