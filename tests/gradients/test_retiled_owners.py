"""Owner blocks with tiles as large as the forward matmul's. They are used on GPUs, but are correct on all devices.

The data are small integers, so sums are exact in any order, and so are the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.passes.gradient import ForwardLaunch

pytestmark = pytest.mark.machine_code

M, N, K = 64, 256, 64


@pytest.fixture(autouse=True)
def use_larger_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make launches use the larger tiles whenever the results are the same."""

    def steps(self: ForwardLaunch, step: Any) -> tuple[Any, ...]:
        result = step.wide
        fits = result is not None and self.number(result.covered) >= self.number(result.length)
        return (result.step,) if fits else (step,)

    monkeypatch.setattr(ForwardLaunch, "steps", steps)


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(-2, 3, shape).astype(np.float64)


def gradient_array(data: np.ndarray) -> Any:
    return tg.array(data, dtype=tg.bfloat16, requires_grad=True)


def launched_kernels(kernel: Any, grid: Any, inputs: list[Any], output: Any, g: np.ndarray) -> list[str]:
    """Run a kernel on a tape and its adjoint. Returns the names of the launched kernels."""
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=grid, inputs=inputs, outputs=[output], block_dim=128)
    tape.backward(grads={output: g})
    return [part.name for part in list(kernel.adjoints.values())[-1].launched_parts]


def assert_equal(actual: Any, expected: np.ndarray) -> None:
    assert np.abs(expected).max() <= 256, "integers to 256 are exact in bfloat16"
    np.testing.assert_array_equal(actual.numpy().astype(float), expected)


@tg.kernel
def matmul(
    iterations: int, a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[tg.bfloat16]
):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
    for k in range(iterations):
        x = tg.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        y = tg.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, tg.tile_astype(total, tg.bfloat16), offset=(i * M, j * N))


@pytest.mark.parametrize("sizes", [(64, 256, 64), (128, 512, 320), (100, 300, 200), (64, 256, 72)])
def test_gradients_of_matmuls_with_retiled_owners_are_correct(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, g = integers(m, k), integers(k, n), integers(m, n) * (np.random.default_rng(1).random((m, n)) < 0.2)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((m, n), dtype=tg.bfloat16, requires_grad=True)
    x.grad.fill_(3.0)
    names = launched_kernels(matmul, (-(-m // M), -(-n // N)), [-(-k // K), x, y], c, g)
    assert_equal(x.grad, g @ b.T + 3.0)
    assert_equal(y.grad, a.T @ g)
    assert "matmul_adjoint_of_adj_a_wide" in names


def test_retiled_owners_add_to_no_tile_beyond_the_last() -> None:
    """Five of six iterations run: the last columns of a and rows of b get no gradient, although the larger tiles cover
    them."""
    m, n, k = 64, 256, 6 * K
    a, b, g = integers(m, k), integers(k, n), integers(m, n) * (np.random.default_rng(1).random((m, n)) < 0.2)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((m, n), dtype=tg.bfloat16, requires_grad=True)
    names = launched_kernels(matmul, (1, 1), [5, x, y], c, g)
    inside = np.arange(k) < 5 * K
    assert_equal(x.grad, g @ b.T * inside)
    assert_equal(y.grad, a.T @ g * inside[:, None])
    assert not any(name.endswith("_wide") for name in names)


@tg.kernel
def batched(a: tg.array3d[tg.bfloat16], b: tg.array3d[tg.bfloat16], c: tg.array3d[tg.bfloat16]):
    s, i, j = tg.tid()
    total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
    for k in range(a.shape[2] // K):
        x = tg.tile_load(a[s], shape=(M, K), offset=(i * M, k * K))
        y = tg.tile_load(b[s], shape=(N, K), offset=(j * N, k * K))
        tg.tile_matmul(x, tg.tile_transpose(y), total)
    tg.tile_store(c[s], tg.tile_astype(total, tg.bfloat16), offset=(i * M, j * N))


def test_gradients_of_batched_matmuls_with_retiled_owners_are_correct() -> None:
    a, b = integers(2, 64, 256), integers(2, 512, 256)
    g = integers(2, 64, 512) * (np.random.default_rng(1).random((2, 64, 512)) < 0.2)
    x, y, c = (
        gradient_array(a),
        gradient_array(b),
        tg.zeros((2, 64, 512), dtype=tg.bfloat16, requires_grad=True),
    )
    names = launched_kernels(batched, (2, 1, 2), [x, y], c, g)
    assert_equal(x.grad, g @ b)
    assert_equal(y.grad, g.swapaxes(1, 2) @ a)
    assert any(name.endswith("_wide") for name in names)
