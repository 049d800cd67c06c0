"""Matmuls as GPU code, run by a model of tensor cores, ldmatrix and descriptors from the PTX manual.

The numbers are small integers, so that every order of sums gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from simt import run_together

import tegula as tg
from support.campaigns import sampled
from support.small_integers import numbers, to_float64
from tegula.backend.llvm import compile_ptx
from tegula.target import CUDA_TARGETS, get_cuda_target


def plain_matmul(shape: tuple[int, int, int], transposed: tuple[bool, bool], precision: str) -> Any:
    """A matmul of one block. Transposed operands are transposes of loaded tiles."""
    m, n, k = shape
    left, right = ((k, m) if transposed[0] else (m, k)), ((n, k) if transposed[1] else (k, n))
    left_transposed, right_transposed = transposed

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any]):
        p, q = tg.tile_load(x, shape=left), tg.tile_load(y, shape=right)
        total = tg.tile_load(z, shape=(m, n))
        if left_transposed:
            p = tg.tile_transpose(p)
        if right_transposed:
            q = tg.tile_transpose(q)
        tg.tile_matmul(p, q, total, precision=precision)
        tg.tile_store(z, total)

    return multiply


def check(shape: tuple[int, int, int], a: Any, b: Any, c: Any, transposed: tuple[bool, bool] = (False, False),
          threads: int = 32, precision: str = "default", arch: str = "sm_90a") -> str:  # fmt: skip
    """Run a matmul in the model and compare with NumPy. Returns the PTX."""
    m, n, k = shape
    kernel = plain_matmul(shape, transposed, precision)
    x = numbers(*((k, m) if transposed[0] else (m, k)), dtype=a)
    y = numbers(*((n, k) if transposed[1] else (k, n)), dtype=b, seed=1)
    z = numbers(m, n, dtype=c, seed=2)
    expected = to_float64(z) + (to_float64(x).T if transposed[0] else to_float64(x)) @ (
        to_float64(y).T if transposed[1] else to_float64(y)
    )
    code = lower_to_llvm(kernel, [x, y, z], (1,), threads, arch=arch)
    run_together(code, kernel, [x, y, z], (1, threads), 1)
    np.testing.assert_array_equal(z.numpy(), expected.astype(z.numpy().dtype))
    text, _ = assemble(code, arch)
    return text


FLOAT16_INSTRUCTION, TF32_INSTRUCTION = (
    "m16n8k16.row.col.f32.f16.f16.f32",
    "m16n8k8.row.col.f32.tf32.tf32.f32",
)
FLOAT64_INSTRUCTION = "m16n8k16.row.col.f64.f64.f64.f64"
KINDS = [
    (tg.float16, tg.float16, tg.float32, FLOAT16_INSTRUCTION),
    (tg.bfloat16, tg.bfloat16, tg.bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    (tg.float32, tg.float32, tg.float32, TF32_INSTRUCTION),
    (tg.float64, tg.float64, tg.float64, FLOAT64_INSTRUCTION),
    (tg.int8, tg.uint8, tg.int32, "m16n8k32.row.col.s32.s8.u8.s32"),
    (tg.uint8, tg.uint8, tg.int8, "m16n8k32.row.col.s32.u8.u8.s32"),
    (tg.float8_e4m3, tg.float8_e5m2, tg.float32, FLOAT16_INSTRUCTION),
    (tg.bfloat16, tg.float8_e5m2, tg.float16, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    (tg.bfloat16, tg.float16, tg.float32, TF32_INSTRUCTION),
    (tg.float32, tg.float16, tg.float64, FLOAT64_INSTRUCTION),
]
ROW_MAJOR, TRANSPOSED, RIGHT_TRANSPOSED, LEFT_TRANSPOSED = (
    (False, False),
    (True, True),
    (False, True),
    (True, False),
)
sampled_kinds = sampled(3, ("a", "b", "c", "name"), KINDS, ids=str)


@pytest.mark.machine_code
@sampled_kinds
@sampled(
    3,
    "transposed",
    [
        pytest.param(ROW_MAJOR, id="straight"),
        pytest.param(TRANSPOSED, id="transposed", marks=pytest.mark.slow),
    ],
)
def test_warp_matmuls_of_whole_tiles_match_numpy(
    a: Any, b: Any, c: Any, name: str, transposed: tuple[bool, bool]
) -> None:
    assert name in check((32, 24, 32), a, b, c, transposed, precision="tf32")


@pytest.mark.machine_code
@sampled_kinds
def test_warp_matmuls_of_ragged_tiles_match_numpy(a: Any, b: Any, c: Any, name: str) -> None:
    assert name.replace(FLOAT64_INSTRUCTION, "m16n8k4.row.col.f64") in check(
        (20, 9, 36), a, b, c, RIGHT_TRANSPOSED, 64, "tf32"
    )


@pytest.mark.machine_code
def test_warp_matmuls_of_small_tiles_match_numpy() -> None:
    check((3, 5, 2), tg.bfloat16, tg.bfloat16, tg.float32, LEFT_TRANSPOSED)
    check((1, 1, 9), tg.float64, tg.float64, tg.float64)


@pytest.mark.machine_code
@sampled(2, "transposed", [ROW_MAJOR, TRANSPOSED], ids=["straight", "transposed"])
def test_warp_matmuls_in_loops_of_several_warps_match_numpy(transposed: tuple[bool, bool]) -> None:
    check((40, 24, 144), tg.bfloat16, tg.bfloat16, tg.float32, transposed, 128)


@pytest.mark.machine_code
def test_mmas_of_float64_before_hopper_have_8_rows() -> None:
    """Before Hopper, float64 MMAs have 8 rows."""
    text = check((16, 8, 12), tg.float64, tg.float64, tg.float64, RIGHT_TRANSPOSED, 32, arch="sm_80")
    assert text.count("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") == 2 * 3
    assert "m16n8k" not in text


@sampled(3, "arch", CUDA_TARGETS)
def test_every_gpu_has_the_instructions_of_warp_matmuls(arch: str) -> None:
    @tg.kernel
    def multiply(a: tg.array2d[tg.float16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float],
                 d: tg.array2d[tg.float64], e: tg.array2d[tg.int8], f: tg.array2d[tg.int32]):  # fmt: skip
        x, y = tg.tile_load(a, shape=(16, 32)), tg.tile_load(b, shape=(16, 32))
        u, v = tg.tile_load(c, shape=(16, 32)), tg.tile_load(d, shape=(16, 32))
        w, total, count = (
            tg.tile_load(e, shape=(16, 32)),
            tg.tile_zeros(shape=(16, 16)),
            tg.tile_load(f, shape=(16, 16)),
        )
        tg.tile_matmul(x, tg.tile_transpose(x), total)
        tg.tile_matmul(y, tg.tile_transpose(y), total)
        tg.tile_matmul(u, tg.tile_transpose(u), total, precision="tf32")
        tg.tile_matmul(w, tg.tile_transpose(w), count)
        tg.tile_store(c, total)
        tg.tile_store(d, tg.tile_matmul(v, tg.tile_transpose(v)))
        tg.tile_store(f, count)

    dtypes = (tg.float16, tg.bfloat16, tg.float32, tg.float64, tg.int8)
    args = [*(tg.zeros((16, 32), dtype=t) for t in dtypes), tg.zeros((16, 16), dtype=tg.int32)]
    text, cubin = assemble(lower_to_llvm(multiply, args, (1,), 32, arch=arch), arch)
    float64_shape = "m16n8k16" if get_cuda_target(arch).capability >= (9, 0) else "m8n8k4"
    for name in ("f16.f16", "bf16.bf16", "tf32.tf32", "s8.s8", "f64.f64"):
        assert f".{name}." in text, name
    assert f"{float64_shape}.row.col.f64" in text
    assert cubin.spill_bytes == 0


@pytest.mark.machine_code
def test_matmuls_of_float32_are_not_rounded_by_default() -> None:
    text = check((16, 8, 16), tg.float32, tg.float32, tg.float32)
    assert "mma.sync" not in text and "fma.rn.f32" in text


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("narrow", "name"), [(tg.bfloat16, "bf16.bf16"), (tg.float8_e4m3, "f16.f16")], ids=str
)
def test_widened_operands_are_multiplied_in_their_narrow_type(narrow: Any, name: str) -> None:
    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[float]):
        p = tg.tile_astype(tg.tile_load(x, shape=(16, 32)), tg.float32)
        q = tg.tile_astype(tg.tile_load(y, shape=(24, 32)), tg.float32)
        total = tg.tile_load(z, shape=(16, 24))
        tg.tile_matmul(p, tg.tile_transpose(q), total)
        tg.tile_store(z, total + p[:, 0:24])

    x, y, z = numbers(16, 32, dtype=narrow), numbers(24, 32, dtype=narrow, seed=1), tg.ones((16, 24))
    code = lower_to_llvm(multiply, [x, y, z], (1,), 32)
    run_together(code, multiply, [x, y, z], (1, 32), 1)
    np.testing.assert_array_equal(
        to_float64(z), 1.0 + to_float64(x) @ to_float64(y).T + to_float64(x)[:, :24]
    )
    assert compile_ptx(code.text, "sm_90a").count(f"m16n8k16.row.col.f32.{name}.f32") == 3 * 2


@pytest.mark.machine_code
def test_operands_that_ldmatrix_cannot_read_match_numpy() -> None:
    """Rows of a slice may start at any element, but ldmatrix reads at multiples of 16 bytes."""

    @tg.kernel
    def multiply(x: tg.array2d[tg.float16], y: tg.array2d[tg.float16], z: tg.array2d[float], first: int):
        p, q = tg.tile_load(x, shape=(16, 64)), tg.tile_load(y, shape=(64, 16))
        total = tg.tile_matmul(p[:, 8:24], q[8:24, 0:8])
        misaligned = tg.tile_matmul(p[:, 3:19], q[3:19, 5:13])
        dynamic_offset = tg.tile_matmul(tg.tile_view(p, offset=(0, first), shape=(16, 16)), q[0:16, 8:16])
        tg.tile_store(z, tg.tile_astype(total + misaligned + dynamic_offset, tg.float32))

    x, y, z = numbers(16, 64, dtype=tg.float16), numbers(64, 16, dtype=tg.float16, seed=1), tg.zeros((16, 8))
    code = lower_to_llvm(multiply, [x, y, z, 5], (1,), 32)
    run_together(code, multiply, [x, y, z, 5], (1, 32), 1)
    a, b = to_float64(x), to_float64(y)
    expected = a[:, 8:24] @ b[8:24, :8] + a[:, 3:19] @ b[3:19, 5:13] + a[:, 5:21] @ b[:16, 8:16]
    np.testing.assert_array_equal(to_float64(z), expected)
    assert "ldmatrix" in compile_ptx(code.text, "sm_90a")
