"""Every form of the library's kernels passes the checker."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import pytest
from schedules import lowered

import tegula as tg
from support.campaigns import rest_slow, sampled
from tegula.check.schedule import check_schedule
from tegula.dataclass import replace
from tegula.kernels import gemm, shapes

attention: Any = importlib.import_module("tegula.kernels.attention")
TILES = [
    *((tile, tg.bfloat16, "default") for tile in shapes.TENSOR_CORES),
    *((tile, tg.float8_e4m3, "default") for tile in shapes.candidates(tg.float8_e4m3, False)[:1]),
    *((tile, tg.float32, "tf32") for tile in shapes.candidates(tg.float32, False, "tf32")[:1]),
    *((tile, tg.float32, "default") for tile in shapes.VECTOR_UNITS),
]


@sampled(
    3,
    ("number", "fused", "transposed"),
    rest_slow(
        product(range(len(TILES)), (False, True), (False, True)),
        lambda number, fused, transposed: fused != transposed and transposed == bool(number % 2),
        lambda number, fused, transposed: fused != transposed,
    ),
)
def test_matmul_kernels_of_the_library_pass_the_checker(number: int, fused: bool, transposed: bool) -> None:
    tile, dtype, precision = TILES[number]
    result, activation = (dtype if dtype.bits > 8 else tg.bfloat16), "gelu" if fused else ""
    # Operands in other orders are transposed first.
    b_transposed = transposed or dtype.bits == 8 or precision == "tf32"
    exact = dtype is tg.float32 and precision == "default"
    epilogue = gemm.Epilogue(result, scaled=fused, accumulates=fused, activation=activation, exact=exact)
    kernel = gemm.matmul_kernel(dtype, tile, b_transposed, epilogue, precision)
    lowered_kernel, compilation = lowered(kernel)
    verdict = check_schedule(lowered_kernel, compilation)
    assert verdict.passed, verdict.message
    # wgmma reads stages in the layout in which copies write them.
    assert any(op.NAME == "fence.async" for op in lowered_kernel.walk()) == exact


@pytest.mark.parametrize(
    ("tile", "splits"),
    rest_slow(
        product((shapes.TENSOR_CORES[0], shapes.TENSOR_CORES[-1]), (2, 3, 16)),
        lambda tile, splits: (tile == shapes.TENSOR_CORES[0]) == (splits == 16),
    ),
)
def test_matmul_kernels_with_splits_pass_the_checker(tile: shapes.Tile, splits: int) -> None:
    kernel = gemm.matmul_kernel(tg.bfloat16, tile.with_splits(splits), False, gemm.Epilogue(tg.float32))
    verdict = check_schedule(*lowered(kernel))
    assert verdict.passed, verdict.message


@sampled(
    3,
    ("depth", "causal", "ragged", "logs"),
    rest_slow(
        product((64, 128), *[(False, True)] * 3),
        lambda depth, causal, ragged, logs: (depth == 64) == (causal ^ ragged ^ logs),
    ),
)
def test_attention_kernels_of_the_library_pass_the_checker(
    depth: int, causal: bool, ragged: bool, logs: bool
) -> None:
    kernel, compilation = lowered(
        attention.forward(tg.bfloat16, depth, causal, ragged, logs), 4 if causal else 2
    )
    verdict = check_schedule(kernel, compilation)
    assert verdict.passed, verdict.message
    assert not any(op.NAME == "fence.async" for op in kernel.walk())


def test_a_stage_that_overlaps_the_staging_of_the_second_warp_group_is_refuted() -> None:
    """The staging slots of the first warp group have other bytes."""
    kernel, compilation = lowered(attention.forward(tg.bfloat16, 64, False, False, True), 2)
    allocations = {v.name: (v, allocation) for v, allocation in compilation.shared.allocations.items()}
    (staging, index), (_, query) = allocations["staging"], allocations["query_pipe"]
    assert query.size == index.size // 2
    compilation.shared.allocations[staging] = replace(index, offset=query.offset - query.size)
    verdict = check_schedule(kernel, compilation)
    assert (verdict.status, verdict.kind) == ("refuted", "race")
