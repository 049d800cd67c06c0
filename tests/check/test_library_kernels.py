"""The kernels of the library: every form of theirs is proved."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import pytest
from schedules import lowered

import tegula as tg
from tegula.check.schedule import check_schedule
from tegula.kernels import gemm

attention: Any = importlib.import_module("tegula.kernels.attention")
TILES = [
    *((tile, tg.bfloat16, "default") for tile in gemm.TENSOR_CORES),
    *((tile, tg.float8_e4m3, "default") for tile in gemm.candidates(tg.float8_e4m3, False)[:1]),
    *((tile, tg.float32, "tf32") for tile in gemm.candidates(tg.float32, False, "tf32")[:1]),
    *((tile, tg.float32, "default") for tile in gemm.VECTOR_UNITS),
]


@pytest.mark.parametrize(("tile", "dtype", "precision"), TILES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_matmul(tile: gemm.Tile, dtype: Any, precision: str, transposed: bool, more: bool) -> None:
    result, activation = (dtype if dtype.bits > 8 else tg.bfloat16), "gelu" if more else ""
    # Other orders are transposed before.
    turned = transposed or dtype.bits == 8 or precision == "tf32"
    kernel = gemm.product(dtype, result, tile, turned, more, more, False, activation, precision)
    made, parts = lowered(kernel)
    found = check_schedule(made, parts)
    assert found.proved, found.message
    # Tensor cores of warp groups read stages as copies write them.
    assert any(op.NAME == "fence.async" for op in made.walk()) == (
        dtype is tg.float32 and precision == "default"
    )


@pytest.mark.parametrize(
    ("depth", "causal", "ragged", "logs"), list(product((64, 128), *[(False, True)] * 3))
)
def test_attention(depth: int, causal: bool, ragged: bool, logs: bool) -> None:
    made, parts = lowered(attention.forward(tg.bfloat16, depth, causal, ragged, logs), 4)
    found = check_schedule(made, parts)
    assert found.proved, found.message
    assert not any(op.NAME == "fence.async" for op in made.walk())
