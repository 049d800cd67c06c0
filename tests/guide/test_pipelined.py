"""The guide's sequential and pipelined kernels, which compute the same result."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_N = tg.constant(256)
N_ROWS = tg.constant(64)


@tg.func
def activation(x: float):
    return tg.sin(x * 1.1 + 0.1)


@tg.func
def normalize(x: float):
    return tg.exp(-tg.abs(x) * 0.5)


@tg.func
def transform(x: float):
    return tg.sqrt(tg.abs(x) + 1.0)


@tg.func
def squash(x: float):
    return tg.tanh(x * 0.7)


@tg.kernel
def sequential(
    inp: tg.array2d[float],
    out: tg.array2d[float],
):
    for i in range(N_ROWS):
        a = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")
        a = tg.tile_map(activation, a)
        a = tg.tile_map(normalize, a)
        a = tg.tile_map(transform, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(i, 0))


@tg.kernel
def pipelined(
    inp: tg.array2d[float],
    out: tg.array2d[float],
):
    # Load first tile
    a = tg.tile_load(inp, shape=(1, TILE_N), offset=(0, 0), storage="register")

    for i in range(1, N_ROWS):
        # Issue next load — GPU fetches in background during compute below
        b = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")

        # Heavy compute overlaps with the memory fetch for b
        a = tg.tile_map(activation, a)
        a = tg.tile_map(normalize, a)
        a = tg.tile_map(transform, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(i - 1, 0))

        a = b  # by now b's data has arrived

    # Epilogue
    a = tg.tile_map(activation, a)
    a = tg.tile_map(normalize, a)
    a = tg.tile_map(transform, a)
    a = tg.tile_map(squash, a)
    tg.tile_store(out, a, offset=(N_ROWS - 1, 0))


@tg.func
def halved(x: float):
    return tg.abs(x) * 0.5


@tg.kernel
def rational(inp: tg.array2d[float], out: tg.array2d[float]):
    a = tg.tile_load(inp, shape=(1, TILE_N), offset=(0, 0), storage="register")
    for i in range(1, N_ROWS):
        b = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")
        a = tg.tile_map(halved, a)
        tg.tile_store(out, a, offset=(i - 1, 0))
        a = b
    a = tg.tile_map(halved, a)
    tg.tile_store(out, a, offset=(N_ROWS - 1, 0))


def run(kernel: object, values: np.ndarray) -> np.ndarray:
    inp = tg.array(values, dtype=float)
    out = tg.zeros_like(inp)
    tg.launch_tiled(kernel, dim=[1], inputs=[inp, out], block_dim=TILE_N)
    return out.numpy()


def test_sequential_and_pipelined_kernels_have_the_same_bits() -> None:
    values = np.random.default_rng(42).random((N_ROWS, TILE_N), dtype=np.float32)
    first, second = run(sequential, values), run(pipelined, values)
    np.testing.assert_array_equal(first, second)
    x = values.astype(np.float64)
    expected = np.tanh(np.sqrt(np.exp(-np.abs(np.sin(x * 1.1 + 0.1)) * 0.5) + 1.0) * 0.7)
    np.testing.assert_allclose(first, expected, rtol=2e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_pipelined_rational_functions_match_numpy(seed: int) -> None:
    values = np.random.default_rng(seed).integers(-99, 99, (N_ROWS, TILE_N)).astype(np.float32)
    np.testing.assert_array_equal(run(rational, values), abs(values) / 2)
