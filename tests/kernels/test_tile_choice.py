"""The choice of tiles for matmuls: the fastest tiles on an H200."""

from __future__ import annotations

import pytest

import tegula as tg
from tegula.kernels import shapes
from tegula.kernels.shapes import TENSOR_CORES, DeviceRates, Tile, choose, cpu_rates

pytestmark = pytest.mark.cpu
H200 = DeviceRates(132)


def chosen_tile(m: int, n: int, k: int, machine: DeviceRates = H200) -> Tile:
    return choose(m, n, k, 2.0, 1.0, TENSOR_CORES, machine)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((4096, 4096, 4096), (128, 256)),
        ((8192, 8192, 8192), (128, 256)),
        ((8192, 8192, 1024), (128, 256)),
        ((16384, 4096, 4096), (128, 256)),
        ((1024, 1024, 1024), (64, 128)),
        ((2048, 2048, 2048), (128, 256)),
        ((512, 4096, 4096), (128, 128)),
        ((128, 4096, 4096), (64, 64)),
        ((64, 8192, 8192), (64, 64)),
        ((16, 8192, 8192), (16, 64)),
    ],
)
def test_the_model_chooses_the_fastest_measured_tiles(
    shape: tuple[int, int, int], size: tuple[int, int]
) -> None:
    actual = chosen_tile(*shape)
    assert (actual[:2], actual.splits) == (size, 1)


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_thin_matmuls_are_read_by_all_multiprocessors(rows: int) -> None:
    """A matmul that reads a matrix once takes as long as reading it."""
    actual = chosen_tile(rows, 8192, 8192)
    blocks = -(-8192 // actual.columns) * actual.splits
    assert 0.9 * 132 <= blocks <= 132
    assert shapes.seconds(rows, 8192, 8192, 2.0, 1.0, actual, H200) < 1.2 * (
        8192 * 8192 * 2 / H200.memory_bandwidth
    )


@pytest.mark.parametrize(("rows", "swapped"), [(1, True), (16, True), (20, True), (32, True), (64, False)])
def test_tiles_are_chosen_without_absent_rows(rows: int, swapped: bool) -> None:
    actual = chosen_tile(rows, 8192, 8192)
    assert actual.swapped == swapped and actual.rows < rows + 16


@pytest.mark.parametrize("shape", [(256, 256, 65536), (512, 512, 8192), (16, 2048, 16384), (16, 1024, 32768)])
def test_few_tiles_with_many_iterations_are_split(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    actual = chosen_tile(*shape)
    assert actual.splits > 1 and k // (actual.depth * actual.splits) >= shapes.MIN_STEPS
    assert -(-m // actual.rows) * -(-n // actual.columns) * actual.splits <= 132


@pytest.mark.parametrize("shape", [(64, 64, 64), (16, 256, 512), (1, 1, 1), (128, 128, 0)])
def test_short_matmuls_are_not_split(shape: tuple[int, int, int]) -> None:
    assert chosen_tile(*shape).splits == 1


def test_cpus_split_no_tiles() -> None:
    for shape in ((16, 8192, 8192), (256, 256, 65536), (1000, 1000, 1000)):
        actual = chosen_tile(*shape, cpu_rates(2))
        assert actual.splits == 1 and not actual.swapped
    assert chosen_tile(30, 30, 500, cpu_rates(2))[:2] == (64, 64)


def test_iterations_of_every_dtype_load_the_same_bytes() -> None:
    for dtype, precision in ((tg.float16, "default"), (tg.float8_e4m3, "default"), (tg.float32, "tf32")):
        actual = shapes.candidates(dtype, False, precision)
        assert [t.depth * dtype.bits for t in actual] == [t.depth * 16 for t in TENSOR_CORES]
    assert shapes.candidates(tg.float32, False) == shapes.VECTOR_UNITS
    assert all(t.rows * t.columns <= shapes.MAX_TILE_SIZE for t in shapes.candidates(tg.bfloat16, True))
