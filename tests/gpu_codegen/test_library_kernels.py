"""Kernels of the library for Hopper: matmuls of warp groups from swizzled stages, bulk copies, no spills."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from support.campaigns import sampled
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.kernels import gemm, shapes
from tegula.kernels.attention import KEYS, forward, launch_shape
from tegula.target import get_cuda_target

ASSEMBLER = bool(ptx.candidates())
SWIZZLED_ROW_BYTES = 128
"""The bytes of a swizzled row of a box."""


def check(code: Any, map_count: int, *instructions: str) -> None:
    """Check the number of tensor maps, which are all swizzled, the instructions, and that no registers are spilled."""
    text, cubin = assemble(code)
    assert [m.row_bytes for m in code.maps] == [SWIZZLED_ROW_BYTES] * map_count
    for instruction in instructions:
        assert instruction in text, instruction
    assert ".local" not in text
    assert code.shared_bytes <= get_cuda_target("sm_90a").shared_per_block
    if ASSEMBLER:
        assert cubin.spill_bytes == 0


def compile_matmul(
    tile: shapes.Tile, dtype: Any = tg.bfloat16, transposed: bool = False, **features: Any
) -> Any:
    """GPU code of a matmul."""
    m, n, k = 256, 512, 4096
    precision, result = features.pop("precision", "default"), features.pop("result", dtype)
    exact = dtype is tg.float32 and precision == "default"
    epilogue = gemm.Epilogue(tg.float32 if tile.splits > 1 else result, exact=exact, **features)
    kernel = gemm.matmul_kernel(dtype, tile, transposed, epilogue, precision)
    b = tg.zeros((n, k) if transposed else (k, n), dtype=dtype)
    bias = tg.zeros(n, dtype=dtype) if epilogue.biased else 0
    c = tg.zeros((tile.splits, m, n) if tile.splits > 1 else (m, n), dtype=epilogue.result)
    arguments = [tg.zeros((m, k), dtype=dtype), b, bias, 1.0, 0.0, c]
    return lower_to_llvm(kernel, arguments, (132,), 128 * (1 + tile.groups))


@pytest.mark.parametrize("transposed", [False, True])
@sampled(3, "tile", shapes.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}")
def test_library_matmuls_use_wgmma_without_spills(tile: shapes.Tile, transposed: bool) -> None:
    code = compile_matmul(tile, transposed=transposed)
    if not tile.swapped:
        check(code, 3, "wgmma.mma_async", "stmatrix", "setmaxnreg.dec")
        return
    shape_and_types = f"m64n{tile.rows}k16.f32.bf16.bf16"
    check(code, 2, f"wgmma.mma_async.sync.aligned.{shape_and_types}", "st.global.v4", "setmaxnreg.dec")
    text = compile_ptx(code.text, "sm_90a")
    assert text.index("ld.shared") > text.rindex("wgmma.mma_async"), "sums stay in registers between steps"


@pytest.mark.parametrize("transposed", [False, True])
@sampled(4, "tile", shapes.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}")
def test_library_matmuls_with_splits_store_sums_by_bulk_copies(tile: shapes.Tile, transposed: bool) -> None:
    """Partial sums of float32 are stored by bulk copies."""
    code = compile_matmul(tile.with_splits(4), transposed=transposed)
    stores = "st.global.v4" if tile.swapped else "cp.async.bulk.tensor.3d.global"
    check(code, 2 if tile.swapped else 3, "wgmma.mma_async", stores, "setmaxnreg.dec")


@pytest.mark.parametrize("splits", [2, 13, 32])
def test_sums_of_splits_are_added_by_wide_accesses(splits: int) -> None:
    """All loads precede the first addition, with no selection for absent elements between them."""
    partial_sums, c = tg.zeros((splits, 16, 2048)), tg.zeros((16, 2048), dtype=tg.bfloat16)
    kernel = gemm.sum_splits_kernel(splits, gemm.Epilogue(tg.bfloat16))
    text, cubin = assemble(
        lower_to_llvm(kernel, [partial_sums, 0, 1.0, 0.0, c], (16, 2048 // gemm.WIDTH), gemm.THREADS)
    )
    loads = [load.start() for load in re.finditer(r"ld\.global\.v4", text)]
    assert len(loads) == splits and "st.global.v" in text and "atom" not in text
    assert "bra" not in text[loads[0] : loads[-1]] and loads[-1] < text.index("add.rn.f32")
    assert cubin.spill_bytes == 0


@pytest.mark.parametrize(
    ("dtype", "precision", "shape"),
    [
        (tg.float8_e4m3, "default", "k32.f32.e4m3.e4m3"),
        (tg.float8_e5m2, "default", "k32.f32.e5m2.e5m2"),
        (tg.float32, "tf32", "k8.f32.tf32.tf32"),
    ],
)
@sampled(3, "size", [(128, 256), (64, 128)])
def test_library_matmuls_of_8_bit_and_tf32_operands_use_wgmma(
    size: tuple[int, int], dtype: Any, precision: str, shape: str
) -> None:
    """Steps of 128 bytes are four instructions. The copy rounds float32 to tf32."""
    tile = next(t for t in shapes.candidates(dtype, False, precision) if t[:2] == size)
    result = tg.float32 if precision == "tf32" else tg.bfloat16
    code = compile_matmul(tile, dtype, True, result=result, precision=precision)
    check(code, 3, f"wgmma.mma_async.sync.aligned.m64n{tile.columns}{shape}", "cp.async.bulk.tensor")
    assert [m.elements for m in code.maps] == ["tf32" if precision == "tf32" else "bits"] * 2 + ["bits"]
    assert len(re.findall("wgmma.mma_async", compile_ptx(code.text, "sm_90a"))) == 4


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_library_matmuls_with_epilogues_have_no_spills(activation: str) -> None:
    features = {"activation": activation, "scaled": True, "biased": True}
    check(compile_matmul(shapes.TENSOR_CORES[0], **features), 3, "wgmma.mma_async", "stmatrix")
    tile = shapes.TENSOR_CORES[1 if activation == "gelu" else 0]
    check(compile_matmul(tile, **features, result=tg.float32), 3, "wgmma.mma_async")
    check(
        compile_matmul(shapes.TENSOR_CORES[1], tg.float16, **features, accumulates=True), 2, "wgmma.mma_async"
    )


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
def test_library_matmuls_of_float32_use_fma_without_spills(transposed: bool) -> None:
    for tile in shapes.VECTOR_UNITS:
        text, cubin = assemble(compile_matmul(tile, tg.float32, transposed))
        assert "fma.rn.f32" in text and "cp.async.bulk.tensor" in text and cubin.spill_bytes == 0


def compile_attention(depth: int, causal: bool, ragged: bool = False, with_logs: bool = False) -> Any:
    """GPU code of attention."""
    q, k, v, out = (tg.zeros((2, heads, 256, depth), dtype=tg.bfloat16) for heads in (4, 2, 2, 4))
    sums = tg.zeros((2, 4, 256), dtype=tg.float32) if with_logs else 0
    kernel = forward(tg.bfloat16, depth, causal, ragged, with_logs)
    grid, scalars = launch_shape(q.shape, k.shape, 16, 132, causal)
    return lower_to_llvm(kernel, [q, k, v, 0.1, *scalars, sums, out], grid, 384)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [64, 128])
def test_library_attention_uses_wgmma_without_spills(depth: int, causal: bool) -> None:
    for with_logs in (False, True):
        check(
            compile_attention(depth, causal, with_logs=with_logs),
            4,
            "wgmma.mma_async",
            "stmatrix",
            "ex2.approx",
            "setmaxnreg.inc",
        )


def test_library_attention_keeps_a_matmul_in_flight() -> None:
    text, _ = assemble(compile_attention(128, causal=False))
    assert "wgmma.wait_group.sync.aligned 1" in text


@sampled(2, "depth", [64, 128])
def test_library_attention_over_ragged_diagonals_has_no_spills(depth: int) -> None:
    """The mask in the loop occupies no registers of the iterations that skip the mask."""
    code = compile_attention(depth, causal=True, ragged=True)
    check(code, 4, "wgmma.mma_async", "stmatrix", "wgmma.wait_group.sync.aligned 1")
    blocks = re.split(r"\n(?=\$L__BB)", compile_ptx(code.text, "sm_90a"))
    masks = [b for b in blocks if b.count("selp.f32") >= KEYS // 2 and "ex2" not in b]
    assert len(masks) == 1 and "wgmma" not in masks[0]


def test_library_attention_accepts_operands_that_share_memory() -> None:
    """Queries, keys and values are parts of one array, as the result of a single matmul."""
    memory = tg.zeros((2, 256, 12, 64), dtype=tg.bfloat16)
    parts = [memory[:, :, h : h + 4].transpose((0, 2, 1, 3)) for h in (0, 4, 8)]
    kernel = forward(tg.bfloat16, 64, False, False, False)
    out = tg.zeros((2, 4, 256, 64), dtype=tg.bfloat16)
    grid, scalars = launch_shape(parts[0].shape, parts[1].shape, 16, 132, False)
    check(lower_to_llvm(kernel, [*parts, 0.1, *scalars, 0, out], grid, 384), 4, "wgmma.mma_async", "stmatrix")
