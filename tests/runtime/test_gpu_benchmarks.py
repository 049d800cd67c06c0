"""The kernels of GPU benchmarks compile to wide accesses without spills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import gpu_kernels as kernels
from benchmarks import role_kernels
from simulated_driver import SimulatedDriver

import tegula as tg

Launch = tuple[Any, Any, list[Any], int, str]


def launches() -> Iterator[Launch]:
    """The kernel, grid, arguments, threads, and the text that its PTX must contain."""
    for dtype in (tg.float32, tg.bfloat16):
        a, b = (tg.empty(1 << 13, dtype, device="cuda:0") for _ in range(2))
        yield kernels.copy_kernel(4096), 2, [a, b], 256, "ld.global.v4.b32"
        yield kernels.chain_kernel(4096, dtype), 2, [a, b], 256, "st.global.v4.b32"
        x, y = (tg.empty((4, 4096), dtype, device="cuda:0") for _ in range(2))
        w, v = (tg.empty(4096, dtype, device="cuda:0") for _ in range(2))
        yield kernels.softmax_kernel(dtype), 4, [x, y], 256, "ld.global.v4.b32"
        yield kernels.layernorm_kernel(dtype), 4, [x, w, v, y, 1e-5], 256, "ld.global.v4.b32"
        yield kernels.rmsnorm_kernel(dtype), 4, [x, w, y, 1e-5], 256, "ld.global.v4.b32"
    squares = [tg.empty((4, 4096), tg.float64, device="cuda:0"), tg.empty(1, tg.float64, device="cuda:0")]
    yield kernels.squares_by_rows, 4, squares, 256, "ld.global.v2.b64"
    yield kernels.reduce_array_tile, (4, 16), squares, 256, "ld.global"
    rows = [tg.empty((512, 256), device="cuda:0") for _ in range(2)]
    for kernel in (kernels.sequential, kernels.pipelined):
        yield kernel, 1, rows, 256, "ld.global"


@pytest.fixture
def driver(simulated: SimulatedDriver) -> SimulatedDriver:
    simulated.kernels["kernel"] = lambda blocks, threads, data: None
    return simulated


@pytest.mark.slow
def test_timed_kernels_have_no_spills(driver: SimulatedDriver) -> None:
    for kernel, grid, arguments, threads, expected in launches():
        tg.launch_tiled(kernel, grid, arguments, block_dim=threads)
        compiled = kernel.compiled[-1]
        assert compiled.spill_bytes == 0, kernel.name
        text = kernel.assembly()
        assert expected in text and "ld.local" not in text, kernel.name


@pytest.mark.slow
@pytest.mark.parametrize(("tile", "stages"), [((128, 256, 64), 3), ((128, 128, 32), 4)])
def test_timed_matmuls_use_tensor_cores(
    driver: SimulatedDriver, tile: tuple[int, int, int], stages: int
) -> None:
    kernel, threads = kernels.gemm_kernel(*tile, stages), tile[1]
    operands = [tg.empty((256, 256), tg.bfloat16, device="cuda:0") for _ in range(3)]
    tg.launch_tiled(kernel, (2, 256 // tile[1]), operands, block_dim=threads)
    compiled = kernel.compiled[-1]
    assert compiled.spill_bytes == 0 and compiled.shared_bytes <= 227 << 10
    text = kernel.assembly()
    assert "mma.sync" in text or "wgmma" in text
    assert "cp.async" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", role_kernels.KERNELS)
def test_timed_consumers_have_equal_registers_and_operands(driver: SimulatedDriver, name: str) -> None:
    """Two warp groups, 64 x 256 each, with the same registers and operands."""
    kernel = role_kernels.KERNELS[name]
    operands = [tg.empty((512, 512), tg.bfloat16, device="cuda:0") for _ in range(3)]
    tg.launch_tiled(kernel, role_kernels.blocks(512, 512, 132), operands)
    compiled = kernel.compiled[-1]
    assert (compiled.registers, compiled.spill_bytes, compiled.threads) == (168, 0, 384)
    text = kernel.assembly()
    copy_count = text.count("cp.async.bulk.tensor.2d.shared::cluster")
    assert "m64n256k16" in text and copy_count == {"merged": 1 + 4, "separate": 2 + 4}[name]
