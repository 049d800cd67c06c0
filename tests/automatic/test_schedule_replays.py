"""Replays of automatic schedules, in which warps, copies and matmuls run in many orders, with one result."""

from __future__ import annotations

import sys
from pathlib import Path

import agreement
import pytest
from role_rewriting import HOPPER, assert_equal_results, results_without_roles
from scheduled_kernels import (
    Launch,
    arrays,
    attention,
    bf16,
    causal_attention,
    gemm,
    heads,
    left_converted,
    left_masked,
    lower_tiles,
    matmul_pipelined,
    right_converted,
    right_scaled,
    right_weighted,
    tile_gemm,
    two_layers,
    wide_stages,
    with_numbers,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "check"))

from replays import ready, sample_orders

import tegula as tg
from tegula.interp.engines.launch import EngineLaunch as Replayed
from tegula.interp.engines.values import Values
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu

ORDERS = 12
LOWER = arrays((200, 256), (2,), (256, 256), out=float, types=(bf16, tg.float32))
DEEP = with_numbers(
    arrays((128, 584), (128,), (584, 128), (128, 128), out=float, types=(tg.float32, bf16, bf16)), 1
)
WEIGHTED = arrays((128, 256), (256, 128), (128,), (256, 128), (128, 128), types=(bf16, tg.int8, bf16, bf16))
LAUNCHES = {
    launch.name: launch
    for launch in (
        Launch(tile_gemm, gemm(256, 256, 192, out=float), (2, 1), 384),
        Launch(matmul_pipelined, gemm(128, 512, 320), (1, 2), 384),
        Launch(right_converted, gemm(256, 256, 256, right=tg.int8), (2, 1), 384),
        Launch(right_scaled, gemm(256, 256, 256), (2, 1), 384),
        Launch(left_converted, gemm(128, 256, 192, tg.int8, right=bf16), (1, 1), 384),
        Launch(left_masked, arrays((128, 192), (128, 192), (192, 128), (128, 128), out=float), (1, 1), 384),
        Launch(right_weighted, WEIGHTED, (1, 1), 384),
        Launch(lower_tiles, LOWER, (1, 1), 384),
        Launch(wide_stages, DEEP, (1, 1), 384),
        Launch(two_layers, arrays((256, 128), (128, 192), (192, 64), (256, 64)), (2,), 384, exact=False),
        Launch(attention, heads(2, 128, 512, 128), (2, 1), 384, exact=False),
        Launch(causal_attention, heads(1, 128, 128, 64), (1, 1), 384, exact=False),
    )
}
"""Launches with one CTA."""


@pytest.mark.parametrize("name", LAUNCHES)
def test_automatic_schedules_replayed_in_many_orders_have_one_result(name: str) -> None:
    launch = LAUNCHES[name]
    arguments = launch.arguments()
    kernel = agreement.traced(launch.kernel, arguments, launch.dims, launch.block_dim)
    prepare(kernel)
    parts = for_gpu(kernel, HOPPER)
    assert parts.schedule.plan is not None and parts.threads == launch.block_dim
    plain = [a.numpy() if isinstance(a, tg.array) else a for a in arguments]
    run = Replayed(ready(kernel, parts), plain, launch.dims)
    failures = [run.run(order) for order in sample_orders(run, ORDERS)]
    assert all(x == failures[0] for x in failures)
    Values(run).store(failures[-1])
    assert_equal_results(plain, results_without_roles(launch), launch.exact)
