"""Running sums of narrow floats, their gradients, and aranges are computed in float32 and rounded once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_same_bits

import tegula as tg

pytestmark = pytest.mark.machine_code

NARROW_FLOATS = (tg.float16, tg.bfloat16)


def numpy_dtype(dtype: Any) -> Any:
    return tg.zeros(1, dtype=dtype).numpy().dtype


@cache
def scans(n: int) -> Any:
    @tg.kernel
    def scan(
        x: tg.array1d[Any], inclusive: tg.array1d[Any], exclusive: tg.array1d[Any], minima: tg.array1d[Any]
    ):
        t = tg.tile_load(x, shape=n)
        tg.tile_store(inclusive, tg.tile_scan_inclusive(t))
        tg.tile_store(exclusive, tg.tile_scan_exclusive(t))
        tg.tile_store(minima, tg.tile_scan_min_inclusive(t))

    return scan


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
@pytest.mark.parametrize("n", [320])
def test_running_sums_of_narrow_floats_are_rounded_once(dtype: Any, n: int) -> None:
    """Integers and halves, whose float32 sums are exact."""
    kind = numpy_dtype(dtype)
    x = (np.random.default_rng(n).integers(-3, 9, n) / 2).astype(kind)
    args = [tg.array(x), *(tg.zeros(n, dtype=dtype) for _ in range(3))]
    _, inclusive, exclusive, _ = agree(scans(n), args, 1, 64, tiled=True)
    total = np.cumsum(x.astype(np.float64))
    np.testing.assert_array_equal(inclusive, total.astype(kind))
    np.testing.assert_array_equal(exclusive, (total - x.astype(np.float64)).astype(kind))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW_FLOATS[1:], ids=str)
@pytest.mark.parametrize("output_index", range(3), ids=["sums", "sums before", "minima"])
def test_gradients_of_scans_of_narrow_floats_are_correct(dtype: Any, output_index: int) -> None:
    """Many small gradients are accumulated into one element."""
    n, kind = 640, numpy_dtype(dtype)
    x = np.ones(n, kind)
    x[n // 4] = 0.5
    x = tg.array(x, requires_grad=True)
    results = [tg.zeros(n, dtype=dtype, requires_grad=True) for _ in range(3)]
    with tg.Tape() as tape:
        tg.launch_tiled(scans(n), [1], [x, *results], block_dim=64)
    tape.backward(grads={results[output_index]: tg.ones(n, dtype=dtype)})
    remaining_counts = np.arange(n, 0, -1.0)
    if output_index == 2:
        expected = np.zeros(n)
        expected[0], expected[n // 4] = n // 4, n - n // 4
    else:
        expected = remaining_counts - output_index
    assert_same_bits(x.grad.numpy(), expected.astype(kind))


def test_gradients_of_running_minima_after_nan_are_correct() -> None:
    """A leading NaN has no gradient; a leading infinity has one."""
    for x, expected in (
        ([np.nan, 3, np.nan, 5, 2, 2], [0, 3, 0, 0, 2, 0]),
        ([np.inf, np.inf, 7, 7, 8, 6], [2, 0, 3, 0, 0, 1]),
        ([np.nan] * 6, [0] * 6),
    ):
        source = tg.array(np.array(x, np.float32), requires_grad=True)
        results = [tg.zeros(6, dtype=tg.float32, requires_grad=True) for _ in range(3)]
        with tg.Tape() as tape:
            tg.launch_tiled(scans(6), [1], [source, *results], block_dim=32)
        tape.backward(grads={results[2]: tg.ones(6, dtype=tg.float32)})
        np.testing.assert_array_equal(source.grad.numpy(), expected)


@cache
def arange_kernel(dtype: Any, start: float, stop: float, step: float, n: int) -> Any:
    @tg.kernel
    def count(y: tg.array1d[Any]):
        tg.tile_store(y, tg.tile_arange(start, stop, step, dtype=dtype))

    return count


def check_arange(dtype: Any, start: float, step: float, n: int) -> None:
    stop = start + step * (n - 0.5)
    (result,) = agree(
        arange_kernel(dtype, start, stop, step, n), [tg.zeros(n, dtype=dtype)], 1, 64, tiled=True
    )
    expected = (start + step * np.arange(n, dtype=np.float64)).astype(numpy_dtype(dtype))
    assert_same_bits(result, expected)


RANGES = [
    (tg.float16, 0.0, 0.001, 300),
    (tg.bfloat16, 0.0, 0.125, 300),
    (tg.bfloat16, 100.0, -0.7, 290),
    (tg.float32, 0.0, 0.1, 300),
    (tg.float32, 16777216.0, 0.5, 40),
    (tg.float64, -1.0, 0.1, 50),
]


@pytest.mark.parametrize("case", RANGES[1:4], ids=str)
def test_aranges_are_rounded_once(case: Any) -> None:
    check_arange(*case)


@pytest.mark.slow
@pytest.mark.parametrize("case", RANGES, ids=str)
def test_all_aranges_are_rounded_once(case: Any) -> None:
    check_arange(*case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_aranges_of_any_kind_match_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = (tg.float16, tg.bfloat16, tg.float32, tg.float64)[seed % 4]
    check_arange(dtype, float(rng.normal() * 10), float(rng.normal()), int(rng.integers(2, 700)))


def test_aranges_of_narrow_floats_do_not_jump() -> None:
    """Multiples of 1.25, which bfloat16 represents exactly up to 320."""
    check_arange(tg.bfloat16, 0.0, 1.25, 200)
