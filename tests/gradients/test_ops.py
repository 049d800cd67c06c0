"""Gradients of every op, compared with finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_kernels import CASES, D

import tegula as tg
from support.campaigns import slow_except

pytestmark = pytest.mark.machine_code


@pytest.mark.parametrize("name", slow_except({"powers", "scans_of_two_warps"}, CASES, slow=1))
def test_gradients_of_every_op_agree_with_differences(name: str) -> None:
    case = CASES[name]
    inputs, output = case.arguments()
    tg.gradcheck(case.kernel, case.dims, inputs, [output], block_dim=case.block)


def gradient_of(kernel: Any, x: Any, seed: Any, block_dim: int = 8) -> np.ndarray:
    y = tg.zeros(np.shape(seed), dtype=x.dtype, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=1, inputs=[x], outputs=[y], block_dim=block_dim)
    tape.backward(grads={y: np.asarray(seed, x.numpy().dtype)})
    return x.grad.numpy()


def test_equal_extremes_share_the_gradient() -> None:
    @tg.kernel
    def extremes(x: tg.array[D], y: tg.array[D]):
        t = tg.tile_load(x, shape=4)
        tg.tile_store(y, tg.tile_max(t) + tg.max(t[1], 2.0))

    x = tg.array([2.0, 2.0, 1.0, 0.0], dtype=D, requires_grad=True)
    assert gradient_of(extremes, x, [1.0]).tolist() == [0.5, 1.0, 0.0, 0.0]


def test_derivatives_at_kinks_and_jumps_follow_the_rules() -> None:
    @tg.kernel
    def kinks(x: tg.array[D], y: tg.array[D]):
        t = tg.tile_load(x, shape=3)
        tg.tile_store(y, tg.abs(t) + tg.floor(t) + tg.sign(t) + tg.round(t))

    x = tg.array([0.0, -1.0, 2.5], dtype=D, requires_grad=True)
    assert gradient_of(kinks, x, [1.0, 1.0, 1.0]).tolist() == [0.0, -1.0, 1.0]


@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16, tg.float32, tg.float8_e4m3])
def test_gradients_of_matmuls_of_narrow_floats_are_exact(dtype: Any) -> None:
    @tg.kernel
    def matmul(a, b, y):
        p, q = tg.tile_load(a, shape=(16, 16)), tg.tile_load(b, shape=(16, 16))
        acc = tg.tile_zeros(shape=(16, 16), dtype=float)
        tg.tile_matmul(p, q, acc)
        tg.tile_store(y, acc + tg.tile_astype(p, float))

    rng = np.random.default_rng(0)
    a, b = (tg.array(rng.integers(-2, 3, (16, 16)).astype(np.float32), dtype=dtype) for _ in range(2))
    a.requires_grad = b.requires_grad = True
    y = tg.zeros((16, 16), requires_grad=True)
    g = rng.integers(-2, 3, (16, 16)).astype(np.float32)
    with tg.Tape() as tape:
        tg.launch_tiled(matmul, dim=1, inputs=[a, b], outputs=[y], block_dim=32)
    tape.backward(grads={y: g})
    left, right = (x.numpy().astype(np.float32) for x in (a, b))
    assert a.grad.dtype == (tg.float32 if dtype is tg.float8_e4m3 else dtype)
    np.testing.assert_array_equal(a.grad.numpy().astype(np.float32), g @ right.T + g)
    np.testing.assert_array_equal(b.grad.numpy().astype(np.float32), left.T @ g)


@pytest.mark.parametrize("name", sorted(CASES))
def test_adjoints_are_linear(name: str) -> None:
    """The adjoint is a linear map: the adjoint for 2 g - h is twice the adjoint for g minus the adjoint for h."""
    case = CASES[name]
    inputs, output = case.arguments()
    rng = np.random.default_rng(1)
    seeds = [rng.standard_normal(output.shape) for _ in range(2)]
    result = []
    for seed in (*seeds, 2.0 * seeds[0] - seeds[1]):
        grads = [tg.zeros(x.shape, dtype=x.dtype) for x in inputs]
        tg.launch(
            *(case.kernel, case.dims, inputs, [output], grads, [tg.array(seed, dtype=D)]),
            adjoint=True, block_dim=case.block,
        )  # fmt: skip
        result.append([g.numpy().copy() for g in grads])
    for first, second, combined in zip(*result, strict=True):
        np.testing.assert_allclose(combined, 2.0 * first - second, rtol=1e-9, atol=1e-9)
