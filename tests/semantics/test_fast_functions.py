"""The error bounds and special values of fast functions, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

N = 1 << 16
SMALLEST = float(np.finfo(np.float32).tiny)


@tg.kernel
def powers(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = tg.fast.exp2(x[i])


@tg.kernel
def powers_of_tiles(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    tg.tile_store(y, tg.fast.exp2(tg.tile_load(x, shape=256, offset=i * 256)), offset=i * 256)


def run(kernel: tg.Kernel, x: np.ndarray) -> np.ndarray:
    y = tg.zeros(len(x))
    if kernel is powers:
        tg.launch(kernel, len(x), [tg.array(x), y])
    else:
        tg.launch_tiled(kernel, len(x) // 256, [tg.array(x), y], block_dim=64)
    return y.numpy()


@pytest.mark.machine_code
@pytest.mark.parametrize("kernel", [powers, powers_of_tiles], ids=["lanes", "tiles"])
def test_exp2_is_within_its_bound(kernel: tg.Kernel) -> None:
    x = np.concatenate([
        np.random.default_rng(0).uniform(-126, 128, N // 2), np.random.default_rng(1).uniform(-1, 1, N // 2)
    ]).astype(np.float32)  # fmt: skip
    expected = np.exp2(x.astype(np.float64))
    assert np.max(np.abs(run(kernel, x) - expected) / expected) <= 2.0**-20


@pytest.mark.machine_code
def test_exp2_of_special_values_is_correct() -> None:
    x = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 128.0, 1000.0, -1000.0, 127.0, -126.0], np.float32)
    expected = [np.nan, 0.0, np.inf, 1.0, 1.0, np.inf, np.inf, 0.0, 2.0**127, 2.0**-126]
    np.testing.assert_allclose(run(powers, x), expected, rtol=2.0**-20)


@pytest.mark.machine_code
def test_fast_exp2_of_large_negative_numbers_is_small() -> None:
    x = np.linspace(-150, -126.01, 512).astype(np.float32)
    y = run(powers, x)
    assert (y >= 0).all() and (y <= SMALLEST).all()


def test_fast_functions_refuse_float64() -> None:
    @tg.kernel
    def float64_power(x: tg.array[tg.float64]):
        x[0] = tg.fast.exp2(x[0])

    with pytest.raises(tg.CompileError, match="tg.fast take float32 or narrower floats, got float64"):
        tg.launch(float64_power, 1, [tg.zeros(1, dtype=tg.float64)])
