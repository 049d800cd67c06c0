"""Launches of kernels with automatic schedules: CTAs, explanations, the kernels that are timed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from benchmarks import automatic_kernels as kernels
from simulated_driver import SimulatedDriver

import tegula as tg

MULTIPROCESSORS = 132


@pytest.fixture
def driver(simulated: SimulatedDriver) -> SimulatedDriver:
    simulated.kernels["kernel"] = lambda blocks, threads, data: None
    return simulated


def matmul(m: int, n: int, k: int, out: Any = tg.float32) -> list[Any]:
    shapes = (((m, k), tg.bfloat16), ((k, n), tg.bfloat16), ((m, n), out))
    return [tg.empty(shape, dtype, device="cuda:0") for shape, dtype in shapes]


def test_the_number_of_resident_blocks_is_the_occupancy(driver: SimulatedDriver) -> None:
    """Logical blocks of 64 x 64 elements take 32 CTAs, blocks of the launch at most one for each multiprocessor."""
    for m, n, ctas in ((256, 512, 32), (4096, 4096, MULTIPROCESSORS)):
        arrays = matmul(m, n, 64)
        tg.launch_tiled(kernels.tile_gemm, (m / 128, n / 256), arrays, block_dim=64)
        assert driver.launches[-1][:2] == (ctas, 384)


def test_blocks_that_split_tiles_are_launched_in_clusters(driver: SimulatedDriver) -> None:
    """Blocks form clusters if rows start inside sectors; an odd launch has one additional block. Small launches
    have logical blocks of 64 x 64 elements."""
    for m, n, k, ctas, clustered in (
        (384, 256, 64, 24, False),
        (384, 8, 72, 24, True),
        (131 * 128, 8, 72, 132, True),
        (4096, 4104, 72, MULTIPROCESSORS, True),
    ):
        arrays = matmul(m, n, k, tg.bfloat16)
        tg.launch_tiled(kernels.RELU, (m / 128, -(-n // 256)), arrays, block_dim=256)
        assert driver.launches[-1][0] == ctas and driver.clustered[-1] is clustered and driver.early[-1]


def test_blocks_are_numbered_in_32_bits(driver: SimulatedDriver) -> None:
    with pytest.raises(tg.LaunchError, match="are more than"):
        tg.launch_tiled(kernels.tile_gemm, (1 << 16, 1 << 16), matmul(128, 256, 64), block_dim=64)


def test_explain_shows_the_automatic_roles(driver: SimulatedDriver) -> None:
    tg.launch_tiled(kernels.tile_gemm, (32, 16), matmul(4096, 4096, 64), block_dim=256)
    lines = kernels.tile_gemm.explain().splitlines()
    assert "automatic schedule: fetch with 1 warp group, multiply with 2 warp groups, 4 stages" in "\n".join(
        lines
    )
    assert "  multiply: warps 4 to 11 (256 threads), registers chosen by the compiler" in lines
    assert any(line.startswith("  A: 4 stages of bfloat16 128x64") for line in lines)
    assert "roles [names = (" in kernels.tile_gemm.ir("specialise")


def test_explain_states_the_reason_for_one_role(driver: SimulatedDriver) -> None:
    arrays = matmul(128, 256, 70)
    tg.launch_tiled(kernels.PLAIN, (1, 1), matmul(128, 250, 64, tg.bfloat16), block_dim=256)
    text = kernels.PLAIN.explain()
    assert (
        "automatic schedule: one role: no tensor map describes the array of this load, or its tiles may "
        "not be aligned to 16 bytes (line" in text
    )
    tg.launch_tiled(kernels.tile_gemm, (1, 1), arrays, block_dim=256)
    assert "one role" in kernels.tile_gemm.explain()


def test_debug_mode_keeps_one_role(driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "mode", "debug")
    tg.launch_tiled(kernels.tile_gemm, (1, 1), matmul(128, 256, 64), block_dim=256)
    assert "automatic schedule: one role: debug mode" in kernels.tile_gemm.explain()
    assert driver.launches[-1][1] == 256


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", [kernels.prefetching_gemm, kernels.PLAIN, kernels.RELU, kernels.SILU, kernels.CONVERTED]
)
def test_the_timed_matmuls_have_roles(driver: SimulatedDriver, kernel: Any) -> None:
    a, b, c = matmul(256, 512, 256, tg.bfloat16)
    b = tg.empty((256, 512), tg.int8, device="cuda:0") if kernel is kernels.CONVERTED else b
    tg.launch_tiled(kernel, (2, 2), [a, b, c], block_dim=kernels.THREADS)
    assert kernel.compiled[-1].spill_bytes == 0 and "automatic schedule: fetch" in kernel.explain()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [kernels.ATTENTION, kernels.EXACT_ATTENTION])
def test_the_timed_attention_has_roles(driver: SimulatedDriver, kernel: Any) -> None:
    arrays = [tg.empty((2, 256, 128), tg.bfloat16, device="cuda:0") for _ in range(4)]
    tg.launch_tiled(kernel, (2, 2), [*arrays, 0.1], block_dim=kernels.THREADS)
    assert kernel.compiled[-1].spill_bytes == 0 and "automatic schedule: fetch" in kernel.explain()


@pytest.mark.slow
def test_exponentials_of_a_softmax_take_one_power_of_two(driver: SimulatedDriver) -> None:
    """No score exceeds the maximum that is subtracted, so one float holds the exponent of every result and the power is
    not split."""
    arrays = [tg.empty((2, 256, 128), tg.bfloat16, device="cuda:0") for _ in range(4)]
    tg.launch_tiled(kernels.EXACT_ATTENTION, (2, 2), [*arrays, 0.1], block_dim=kernels.THREADS)
    text = kernels.EXACT_ATTENTION.ptx()
    assert len(re.findall(r"shl\.b32\s+%r\d+, %r\d+, 23;", text)) >= 64
    assert not re.findall(r"and\.b32\s+%r\d+, %r\d+, 2139095040;", text)
