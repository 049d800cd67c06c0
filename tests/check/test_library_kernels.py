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
    *((tile, tg.bfloat16) for tile in gemm.TENSOR_CORES),
    *((tile, tg.float32) for tile in gemm.VECTOR_UNITS),
]


@pytest.mark.parametrize(("tile", "dtype"), TILES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_matmul(tile: gemm.Tile, dtype: Any, transposed: bool, more: bool) -> None:
    kernel = gemm.product(dtype, dtype, tile, transposed, more, more, False, "gelu" if more else "")
    made, parts = lowered(kernel)
    found = check_schedule(made, parts)
    assert found.proved, found.message
    # Tensor cores of warp groups read stages as copies write them.
    assert any(op.NAME == "fence.async" for op in made.walk()) == (dtype is tg.float32)


@pytest.mark.parametrize(
    ("depth", "causal", "ragged", "logs"), list(product((64, 128), *[(False, True)] * 3))
)
def test_attention(depth: int, causal: bool, ragged: bool, logs: bool) -> None:
    made, parts = lowered(attention.forward(tg.bfloat16, depth, causal, ragged, logs), 4)
    found = check_schedule(made, parts)
    assert found.proved, found.message
    assert not any(op.NAME == "fence.async" for op in made.walk())
