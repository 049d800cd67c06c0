"""Matmuls of warp groups as GPU code, run by the model of tests/gpu_codegen/simt.py: descriptors, swizzles, copies,
memory barriers. Matmuls of bfloat16 have run on a GPU, which validates the model."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from support.group_matmuls import run
from support.group_roles import roles
from support.small_integers import numbers, to_float64
from tegula.kernels import gemm, shapes


def check(shape: tuple[int, int, int], a: Any, b: Any, c: Any, transposed: tuple[bool, bool], groups: int = 1,
          steps: int = 3, ragged: int = 16) -> list[str]:  # fmt: skip
    """The shapes and types of the instructions of a matmul, whose results match NumPy. `ragged`: elements of K that the
    last tile lacks; with an odd number, threads copy the arrays."""
    m, n, k = shape
    depth = k * steps - ragged
    x = numbers(*((depth, m) if transposed[0] else (m, depth)), dtype=a)
    y = numbers(*((n, depth) if transposed[1] else (depth, n)), dtype=b, seed=1)
    z = tg.zeros((m, n), dtype=c)
    text = run(roles(shape, a, b, c, transposed, groups), [x, y, z, steps])
    expected = (to_float64(x).T if transposed[0] else to_float64(x)) @ (
        to_float64(y).T if transposed[1] else to_float64(y)
    )
    if c is tg.int8:
        expected = expected.astype(np.int64).astype(np.int8)
    np.testing.assert_array_equal(to_float64(z), expected)
    return re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\S+)", text)


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [(False, False), (True, True), (False, True)], ids=str)
def test_matmuls_of_16_bit_operands_in_every_order_match_numpy(transposed: tuple[bool, bool]) -> None:
    assert (
        check((64, 32, 64), tg.bfloat16, tg.bfloat16, tg.float32, transposed)
        == ["m64n32k16.f32.bf16.bf16"] * 4
    )


@pytest.mark.machine_code
@sampled(
    3,
    ("n", "k", "transposed"),
    [(96, 32, (False, False)), (80, 48, (True, True)), (32, 96, (False, True)), (160, 16, (False, False))],
    ids=str,
)
def test_operands_of_several_narrow_boxes_match_numpy(n: int, k: int, transposed: tuple[bool, bool]) -> None:
    """Rows of 96, 160, 192 and 320 bytes are copied as boxes of 32 and 64 bytes."""
    actual = check((64, n, k), tg.bfloat16, tg.bfloat16, tg.float32, transposed, steps=2, ragged=8)
    assert actual == [f"m64n{n}k16.f32.bf16.bf16"] * (k // 16)


@pytest.mark.machine_code
@sampled(2, ("n", "transposed"), [(192, False), (192, True), (96, False)], ids=str)
def test_warp_groups_whose_columns_start_within_a_box_match_numpy(n: int, transposed: bool) -> None:
    """Half of 192 columns is one box and a half. Instructions read whole boxes, so that the operand is transposed to
    have K along the rows."""
    actual = check((64, n, 32), tg.bfloat16, tg.bfloat16, tg.float32, (False, transposed), groups=2, steps=2)
    assert actual == [f"m64n{n // 2}k16.f32.bf16.bf16"] * 2


@pytest.mark.machine_code
@sampled(
    3,
    ("a", "b", "c", "k", "instruction"),
    [
        (tg.float8_e4m3, tg.float8_e4m3, tg.float32, 128, "m64n48k32.f32.e4m3.e4m3"),
        (tg.float8_e5m2, tg.float8_e4m3, tg.float32, 64, "m64n48k32.f32.e5m2.e4m3"),
        (tg.int8, tg.int8, tg.int32, 128, "m64n48k32.s32.s8.s8"),
        (tg.uint8, tg.uint8, tg.uint32, 32, "m64n48k32.s32.u8.u8"),
        (tg.float32, tg.float32, tg.float32, 32, "m64n48k8.f32.tf32.tf32"),
        (tg.float32, tg.float32, tg.float32, 16, "m64n48k8.f32.tf32.tf32"),
    ],
    ids=str,
)
def test_k_major_operands_match_numpy(a: Any, b: Any, c: Any, k: int, instruction: str) -> None:
    for ragged in (min(16, k // 2), 5):
        actual = check((64, 48, k), a, b, c, (False, True), ragged=ragged)
        assert actual == [instruction] * (k * a.bits // 256)


@pytest.mark.machine_code
@sampled(
    2,
    ("a", "c", "transposed"),
    [
        (tg.float8_e4m3, tg.float32, (False, False)),
        (tg.int8, tg.int32, (True, True)),
        (tg.float32, tg.float32, (False, False)),
        (tg.float32, tg.float32, (True, True)),
    ],
    ids=str,
)
def test_operands_that_are_not_k_major_are_transposed_into_shared_memory(
    a: Any, c: Any, transposed: tuple[bool, bool]
) -> None:
    """K is not along the rows of a stage."""
    k = 32 * 8 // a.bits
    actual = check((64, 64, k), a, a, c, transposed)
    assert len(actual) == k * a.bits // 256 and all(x.startswith(f"m64n64k{256 // a.bits}.") for x in actual)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("a", "c", "k"),
    [(tg.float16, tg.float16, 64), (tg.float8_e5m2, tg.bfloat16, 64), (tg.int8, tg.int8, 64)],
    ids=str,
)
def test_accumulators_are_narrowed_after_each_matmul(a: Any, c: Any, k: int) -> None:
    actual = check((64, 32, k), a, a, c, (False, True))
    assert len(actual) == k * a.bits // 256


@pytest.mark.machine_code
@sampled(
    3,
    ("dtype", "result"),
    [(tg.bfloat16, tg.bfloat16), (tg.float8_e4m3, tg.bfloat16), (tg.float32, tg.float32)],
    ids=str,
)
def test_the_library_matmul_in_the_model_of_instructions_matches_numpy(dtype: Any, result: Any) -> None:
    """Several tiles with ragged ends, and an epilogue with a factor and an activation."""
    tile = next(t for t in shapes.candidates(dtype, False, "tf32") if t[:2] == (64, 128))
    m, n, k = 72, 144, tile.depth + 16
    kernel = gemm.matmul_kernel(
        dtype, tile, True, gemm.Epilogue(result, scaled=True, activation="relu"), "tf32"
    )
    x, y, z = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype, seed=1), tg.zeros((m, n), dtype=result)
    text = run(kernel, [x, y, 0, 2.0, 0.0, z])
    expected = np.maximum(2.0 * (to_float64(x) @ to_float64(y).T), 0.0)
    np.testing.assert_array_equal(to_float64(z), expected.astype(z.numpy().dtype).astype(np.float64))
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in text


@pytest.mark.machine_code
@sampled(3, "dtype", [tg.bfloat16, tg.float8_e4m3, tg.float32], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_matmuls_of_a_pipe_and_a_computed_tile_match_numpy(dtype: Any, groups: int) -> None:
    """One operand comes from a pipe, the other is computed or loaded by the role, in a loop and before it."""
    k, n = 32 * 8 // dtype.bits * 2, 32

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], w: tg.array2d[Any], z: tg.array2d[float]):
        p = tg.tile_pipe(shape=(128, k), dtype=dtype, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(3):
                tg.tile_pipe_load(p, x, offset=(0, i * k))
        with tg.role("multiply", warp_groups=groups):
            weights = tg.tile_load(w, shape=(n, k))
            total = tg.tile_zeros(shape=(128, n), dtype=tg.float32)
            for i in range(3):
                left = tg.tile_pipe_pop(p)
                right = tg.tile_load(y, shape=(k, n), offset=(i * k, 0))
                tg.tile_matmul(left, right, total, precision="tf32")
                tg.tile_matmul(left, tg.tile_transpose(weights), total, precision="tf32")
            tg.tile_store(z, total)

    x, y = numbers(128, 3 * k, dtype=dtype), numbers(3 * k, n, dtype=dtype, seed=1)
    w, z = numbers(n, k, dtype=dtype, seed=2), tg.zeros((128, n))
    text = run(multiply, [x, y, w, z])
    expected = to_float64(x) @ (to_float64(y) + np.tile(to_float64(w).T, (3, 1)))
    np.testing.assert_array_equal(to_float64(z), expected)
    assert len(re.findall(r"wgmma\.mma_async", text)) >= 2 * (k * dtype.bits // 256)
    assert "mma.sync" not in text
    fences = [m.start() for m in re.finditer(r"fence\.proxy\.async\.shared::cta", text)]
    assert fences and any(
        re.search(r"bar(rier)?\.\S*sync", text[position : text.find("wgmma.fence", position)])
        for position in fences
    )


@pytest.mark.machine_code
@pytest.mark.parametrize("groups", [1, 2])
def test_left_operands_in_registers_match_numpy(groups: int) -> None:
    """A matmul whose left operand is the result of another matmul and stays in registers."""
    m, n, k, half = 64 * groups, 64, 64, tg.bfloat16

    @tg.kernel
    def chained_matmuls(a: tg.array2d[Any], b: tg.array2d[Any], c: tg.array2d[float], steps: int):
        left = tg.tile_pipe(shape=(m, k), dtype=half, stages=1)
        right = tg.tile_pipe(shape=(n, k), dtype=half, stages=2)
        values = tg.tile_pipe(shape=(n, k), dtype=half, stages=2)
        with tg.role("fetch", warps=4):
            tg.tile_pipe_load(left, a)
            for i in range(steps):
                tg.tile_pipe_load(right, b, offset=(i * n, 0))
                tg.tile_pipe_load(values, b, offset=(i * n, 0))
        with tg.role("multiply", warp_groups=groups):
            rows, total = tg.tile_pipe_pop(left), tg.tile_zeros(shape=(m, k))
            for _i in range(steps):
                scores = tg.tile_zeros(shape=(m, n))
                tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(right)), scores)
                tg.tile_matmul(tg.tile_astype(scores, half), tg.tile_pipe_pop(values), total)
            tg.tile_store(c, total)

    x, y = np.random.default_rng(3).integers(-1, 2, (2, 2 * n, k)).astype(np.float32)
    a, b, c = tg.array(x[:m], dtype=half), tg.array(y, dtype=half), tg.zeros((m, k))
    text = run(chained_matmuls, [a, b, c, 2])
    np.testing.assert_array_equal(to_float64(c), x[:m].astype(np.float64) @ y.T @ y)
    assert len(re.findall(r"bf16\.bf16 \{[^}]*\}, \{", text)) == n // 16
