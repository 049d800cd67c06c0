"""Right operands converted from bytes stay in registers: the transposed matmul is computed. Tested by the model of
tests/gpu_codegen/simt.py, which is validated by bfloat16 matmuls that have run on a GPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from support.group_matmuls import run
from support.small_integers import numbers, to_float64

HALF = tg.bfloat16


def converted_matmul(
    shape: tuple[int, int, int], source: Any, result: Any, transposed: bool = False, groups: int = 1
) -> Any:
    """A sum of matmuls with converted right operands. `transposed`: left operands have K along their columns."""
    m, n, k = shape

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], steps: int):
        p = tg.tile_pipe(shape=(k, m) if transposed else (m, k), dtype=HALF, stages=2)
        q = tg.tile_pipe(shape=(k, n), dtype=source, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(steps):
                tg.tile_pipe_load(p, x, offset=(i * k, 0) if transposed else (0, i * k))
                tg.tile_pipe_load(q, y, offset=(i * k, 0))
        with tg.role("multiply", warp_groups=groups):
            total = tg.tile_zeros(shape=(m, n), dtype=tg.float32)
            for _i in range(steps):
                left, right = tg.tile_pipe_pop(p), tg.tile_astype(tg.tile_pipe_pop(q), HALF)
                tg.tile_matmul(tg.tile_transpose(left) if transposed else left, right, total)
            tg.tile_store(z, tg.tile_astype(total, result))

    return multiply


def check(
    kernel: Any, shape: tuple[int, int, int], source: Any, result: Any, transposed: bool = False
) -> str:
    m, n, k = shape
    depth = 2 * k - 16
    x = numbers(*((depth, m) if transposed else (m, depth)), dtype=HALF)
    y, z = numbers(depth, n, dtype=source, seed=1), tg.zeros((m, n), dtype=result)
    text = run(kernel, [x, y, z, 2])
    expected = (
        ((to_float64(x).T if transposed else to_float64(x)) @ to_float64(y))
        .astype(z.numpy().dtype)
        .astype(np.float64)
    )
    np.testing.assert_array_equal(to_float64(z), expected)
    return text


@pytest.mark.machine_code
@pytest.mark.parametrize("source", [tg.int8, tg.uint8, tg.float8_e4m3, tg.float8_e5m2], ids=str)
@sampled(2, "result", [HALF, tg.float32], ids=str)
def test_bytes_become_the_left_operand_of_the_transposed_matmul(source: Any, result: Any) -> None:
    shape = (64, 128, 64)
    text = check(converted_matmul(shape, source, result), shape, source, result)
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n64k16\S* \{[^}]*\}, \{", text)) == 2 * 4
    assert text.count("ldmatrix.sync.aligned.m8n8.x4.trans") == 2 * 2 and "fence.proxy.async" in text
    assert text.count("st.shared") > 0 and "cp.async.bulk.tensor.2d.global.shared::cta" in text


@pytest.mark.machine_code
@sampled(2, "transposed", [False, True])
def test_transposed_matmuls_of_two_warp_groups_match_the_interpreter(transposed: bool) -> None:
    shape = (128, 256, 32)
    text = check(converted_matmul(shape, tg.int8, HALF, transposed, 2), shape, tg.int8, HALF, transposed)
    assert "m64n128k16" in text


@pytest.mark.machine_code
@sampled(3, "rows", [8, 24, 96])
@pytest.mark.parametrize("result", [HALF, tg.float32], ids=str)
def test_transposed_matmuls_of_few_rows_store_by_bulk_copies(rows: int, result: Any) -> None:
    shape = (rows, 64, 32)
    text = check(converted_matmul(shape, tg.int8, result), shape, tg.int8, result)
    assert f"m64n{rows}k16" in text and "cp.async.bulk.tensor.2d.global.shared::cta" in text


@pytest.mark.machine_code
def test_transposed_matmuls_store_results_without_bulk_copies() -> None:
    shape = (24, 64, 32)
    text = check(converted_matmul(shape, tg.int8, tg.float64), shape, tg.int8, tg.float64)
    assert "m64n24k16" in text and "global.shared::cta" not in text


@pytest.mark.machine_code
def test_ops_after_a_transposed_matmul_use_the_transposed_layout() -> None:
    """A row, a column and a loaded tile are added; rows are summed."""
    m, n, k = 64, 128, 32

    @tg.kernel
    def fused_epilogue(
        x: tg.array2d[Any], y: tg.array2d[Any], row: tg.array1d[float], column: tg.array1d[float],
        addend: tg.array2d[float], z: tg.array2d[float], sums: tg.array1d[float],
    ):  # fmt: skip
        p, q = (
            tg.tile_pipe(shape=(m, k), dtype=HALF, stages=2),
            tg.tile_pipe(shape=(k, n), dtype=tg.int8, stages=2),
        )
        with tg.role("fetch", warps=4):
            tg.tile_pipe_load(p, x)
            tg.tile_pipe_load(q, y)
        with tg.role("multiply", warp_groups=1):
            total = tg.tile_zeros(shape=(m, n), dtype=tg.float32)
            scaled = tg.tile_astype(tg.tile_pipe_pop(q), HALF) * HALF(2.0)
            tg.tile_matmul(tg.tile_pipe_pop(p), scaled, total)
            row_tile = tg.tile_broadcast(tg.tile_load(row, shape=n), shape=(m, n))
            column_tile = tg.tile_reshape(tg.tile_load(column, shape=m), shape=(m, 1))
            epilogue_sum = (
                total
                + row_tile
                + tg.tile_broadcast(column_tile, shape=(m, n))
                + tg.tile_load(addend, shape=(m, n))
            )
            tg.tile_store(z, epilogue_sum)
            tg.tile_store(sums, tg.tile_sum(epilogue_sum, axis=1))

    x, y = numbers(m, k, dtype=HALF), numbers(k, n, dtype=tg.int8, seed=1)
    row, column = (numbers(length, dtype=tg.float32, seed=length) for length in (n, m))
    addend, z, sums = numbers(m, n, dtype=tg.float32, seed=2), tg.zeros((m, n)), tg.zeros(m)
    text = run(fused_epilogue, [x, y, row, column, addend, z, sums])
    expected = (
        2 * to_float64(x) @ to_float64(y) + to_float64(row) + to_float64(column)[:, None] + to_float64(addend)
    )
    np.testing.assert_array_equal(to_float64(z), expected)
    np.testing.assert_array_equal(to_float64(sums), expected.sum(axis=1))
    assert "m64n64k16" in text and "ldmatrix" in text


@pytest.mark.machine_code
def test_matmuls_with_a_common_accumulator_have_one_layout() -> None:
    """Both matmuls have the same accumulator, which has one layout."""
    m, n, k = 64, 64, 32

    @tg.kernel
    def two_matmuls(x: tg.array2d[Any], y: tg.array2d[Any], w: tg.array2d[Any], z: tg.array2d[float]):
        p, q = (
            tg.tile_pipe(shape=(m, k), dtype=HALF, stages=2),
            tg.tile_pipe(shape=(k, n), dtype=tg.int8, stages=2),
        )
        r = tg.tile_pipe(shape=(k, n), dtype=HALF, stages=2)
        with tg.role("fetch", warps=4):
            tg.tile_pipe_load(p, x)
            tg.tile_pipe_load(q, y)
            tg.tile_pipe_load(r, w)
        with tg.role("multiply", warp_groups=1):
            total = tg.tile_zeros(shape=(m, n), dtype=tg.float32)
            left = tg.tile_pipe_pop(p)
            tg.tile_matmul(left, tg.tile_astype(tg.tile_pipe_pop(q), HALF), total)
            tg.tile_matmul(left, tg.tile_pipe_pop(r), total)
            tg.tile_store(z, total)

    x, y = numbers(m, k, dtype=HALF), numbers(k, n, dtype=tg.int8, seed=1)
    w, z = numbers(k, n, dtype=HALF, seed=2), tg.zeros((m, n))
    text = run(two_matmuls, [x, y, w, z])
    np.testing.assert_array_equal(to_float64(z), to_float64(x) @ (to_float64(y) + to_float64(w)))
    assert "ldmatrix" not in text


@pytest.mark.machine_code
@sampled(2, "groups", [1, 2])
def test_k_major_operands_of_bytes_are_read_two_at_a_time(groups: int) -> None:
    """Weights of (N, K) are converted, then transposed."""
    m, n, k = 32, 64 * groups, 64

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], steps: int):
        p = tg.tile_pipe(shape=(m, k), dtype=HALF, stages=2)
        q = tg.tile_pipe(shape=(n, k), dtype=tg.int8, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(steps):
                tg.tile_pipe_load(p, x, offset=(0, i * k))
                tg.tile_pipe_load(q, y, offset=(0, i * k))
        with tg.role("multiply", warp_groups=groups):
            total = tg.tile_zeros(shape=(m, n), dtype=tg.float32)
            for _i in range(steps):
                left, right = tg.tile_pipe_pop(p), tg.tile_astype(tg.tile_pipe_pop(q), HALF) * HALF(0.5)
                tg.tile_matmul(left, tg.tile_transpose(right), total)
            tg.tile_store(z, total)

    x, y, z = numbers(m, 112, dtype=HALF), numbers(n, 112, dtype=tg.int8, seed=1), tg.zeros((m, n))
    text = run(multiply, [x, y, z, 2])
    np.testing.assert_array_equal(to_float64(z), to_float64(x) @ to_float64(y).T / 2)
    assert len(re.findall(r"ld\.shared\.b16", text)) == 64 * 64 // 128 // 2 and "m64n32k16" in text
    assert not re.findall(r"ld\.shared\.\S*b8", text)


@pytest.mark.machine_code
def test_left_operands_of_bytes_stay_in_registers() -> None:
    m, n, k = 128, 64, 64

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], steps: int):
        p = tg.tile_pipe(shape=(m, k), dtype=tg.uint8, stages=2)
        q = tg.tile_pipe(shape=(k, n), dtype=HALF, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(steps):
                tg.tile_pipe_load(p, x, offset=(0, i * k))
                tg.tile_pipe_load(q, y, offset=(i * k, 0))
        with tg.role("multiply", warp_groups=2):
            total = tg.tile_zeros(shape=(m, n), dtype=tg.float32)
            for _i in range(steps):
                tg.tile_matmul(tg.tile_astype(tg.tile_pipe_pop(p), HALF), tg.tile_pipe_pop(q), total)
            tg.tile_store(z, total)

    x, y, z = numbers(m, 112, dtype=tg.uint8), numbers(112, n, dtype=HALF, seed=1), tg.zeros((m, n))
    text = run(multiply, [x, y, z, 2])
    np.testing.assert_array_equal(to_float64(z), to_float64(x) @ to_float64(y))
    assert len(re.findall(r"ld\.shared\.b16", text)) == 64 * 64 // 128 // 2
