"""Kernels of the library for Hopper: products of warp groups from swizzled stages, bulk copies, no spills."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_code import assembled, lowered

import tegula as tg
from tegula.backend import ptx
from tegula.kernels import gemm

ASSEMBLER = bool(ptx.candidates())
SWIZZLED = 128
"""Bytes of the rows that a box is swizzled in."""


def check(code: Any, maps: int, *parts: str) -> None:
    """So many tensor maps, all swizzled, these instructions, and nothing in memory that belongs in registers."""
    text, made = assembled(code)
    assert [m.row_bytes for m in code.maps] == [SWIZZLED] * maps
    for part in parts:
        assert part in text, part
    assert ".local" not in text
    if ASSEMBLER:
        assert made.spill_bytes == 0


def product(
    tile: gemm.Tile, dtype: Any = tg.bfloat16, transposed: bool = False, odd: int = 0, **features: Any
) -> Any:
    """GPU code of a matrix product. `odd`: elements beyond a multiple of 16 bytes in rows of the operands."""
    m, n, k = 256, 512, 512 + odd
    result, biased = features.get("result", dtype), features.get("biased", False)
    kernel = gemm.product(
        *(dtype, result, tile, transposed, features.get("scaled", False), features.get("keeps", False)),
        *(biased, features.get("activation", "")),
    )
    b = tg.zeros((n, k) if transposed else (k, n + odd), dtype=dtype)[:, : k if transposed else n]
    bias = tg.zeros(n, dtype=dtype) if biased else 0
    arguments = [tg.zeros((m, k), dtype=dtype), b, bias, 1.0, 0.0, tg.zeros((m, n), dtype=result)]
    return lowered(kernel, arguments, (132,), 128 * (1 + tile.groups))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("tile", gemm.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}")
def test_products(tile: gemm.Tile, transposed: bool) -> None:
    check(product(tile, transposed=transposed), 3, "wgmma.mma_async", "stmatrix", "setmaxnreg.dec")


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_epilogues_of_products(activation: str) -> None:
    features = {"activation": activation, "scaled": True, "biased": True}
    check(product(gemm.TENSOR_CORES[0], **features), 3, "wgmma.mma_async", "stmatrix")
    tile = gemm.TENSOR_CORES[1 if activation == "gelu" else 0]
    check(product(tile, **features, result=tg.float32), 3, "wgmma.mma_async")
    check(product(gemm.TENSOR_CORES[1], tg.float16, **features, keeps=True), 2, "wgmma.mma_async")


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
def test_products_without_tensor_cores_or_maps(transposed: bool) -> None:
    for tile in gemm.VECTOR_UNITS:
        text, made = assembled(product(tile, tg.float32, transposed))
        assert "fma.rn.f32" in text and "cp.async.bulk.tensor" in text and made.spill_bytes == 0
    for dtype in (tg.bfloat16, tg.float32):
        _, made = assembled(product(gemm.BY_THREADS[0], dtype, transposed, odd=1))
        assert made.spill_bytes == 0
