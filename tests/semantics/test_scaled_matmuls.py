"""A factor 0 makes the scaled term of a matmul 0, even for NaN and infinity, for constant and computed factors."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

M, N, K = 16, 24, 32
FACTORS = (0.0, -0.0, 1.0, 3.0)
TYPES = (tg.float32, tg.float64, tg.bfloat16, tg.float16)


@cache
def scaled_matmul_kernel(dtype: Any, alpha: float | None = None, beta: float | None = None) -> Any:
    """A matmul scaled by `alpha`, with an addend scaled by `beta`; None is a factor given as an argument."""

    @tg.kernel
    def scale(
        x: tg.array2d[Any],
        y: tg.array2d[Any],
        z: tg.array2d[Any],
        w: tg.array2d[Any],
        factors: tg.array1d[Any],
    ):
        a, b, out = (
            tg.tile_load(x, shape=(M, K)),
            tg.tile_load(y, shape=(K, N)),
            tg.tile_load(z, shape=(M, N)),
        )
        s = factors[0] if alpha is None else dtype(alpha)
        t = factors[1] if beta is None else dtype(beta)
        tg.tile_store(w, tg.tile_matmul(a, b, alpha=s))
        tg.tile_matmul(a, b, out, alpha=s, beta=t)
        tg.tile_store(z, out)

    return scale


def numbers(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    kind = tg.zeros(1, dtype=dtype).numpy().dtype
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64).astype(kind)


def with_non_finite(x: np.ndarray, seed: int) -> np.ndarray:
    """A copy with a NaN or an infinity in a third of the elements."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(x.shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf], x.shape), x).astype(
        x.dtype
    )


def check(dtype: Any, alpha: float, beta: float, constant_factors: tuple[bool, bool]) -> None:
    """`constant_factors`: whether alpha and beta are constants of the kernel."""
    a, b, c = numbers(dtype, M, K), numbers(dtype, K, N, seed=1), numbers(dtype, M, N, seed=2)
    expected = alpha * (a.astype(np.float64) @ b.astype(np.float64)) if alpha else np.zeros((M, N))
    with_addend = expected + (beta * c.astype(np.float64) if beta else 0)
    if not alpha:
        a, b = with_non_finite(a, 3), with_non_finite(b, 4)
    if not beta:
        c = with_non_finite(c, 5)
    kernel = scaled_matmul_kernel(
        dtype, alpha if constant_factors[0] else None, beta if constant_factors[1] else None
    )
    factors = tg.array(np.array([alpha, beta]).astype(a.dtype))
    args = [tg.array(a), tg.array(b), tg.array(c), tg.array(np.full_like(c, 7)), factors]
    *_, total, without_addend, _ = agree(kernel, args, 1, 64, tiled=True)
    np.testing.assert_array_equal(without_addend, expected.astype(c.dtype))
    np.testing.assert_array_equal(total, with_addend.astype(c.dtype))


CASES = [
    (dtype, alpha, beta, constant_factors)
    for (alpha, beta), constant_factors in product(
        product(FACTORS, FACTORS), product((True, False), repeat=2)
    )
    for dtype in TYPES
    if not (alpha and beta)
]


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 6 + 1], ids=str)
def test_terms_scaled_by_zero_have_no_effect(case: Any) -> None:
    check(*case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_zero_factors_of_every_type_drop_their_term(case: Any) -> None:
    check(*case)


@tg.kernel
def zero_factors(x: tg.array2d[tg.float32], y: tg.array2d[tg.float32], z: tg.array2d[tg.float32]):
    out = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N)), out, alpha=0.0, beta=0.0)
    tg.tile_store(z, out)


def test_matmuls_with_constant_zero_factors_load_no_operand() -> None:
    args = [tg.zeros(s, dtype=tg.float32) for s in ((M, K), (K, N), (M, N))]
    tg.launch_tiled(zero_factors, [1], args, block_dim=64)
    text = zero_factors.ir("prove_bounds")
    assert "tile.store" in text and "tile.load" not in text and "matmul" not in text


@tg.kernel
def scaled_integers(
    x: tg.array2d[tg.int32], y: tg.array2d[tg.int32], z: tg.array2d[tg.int32], s: int, t: int
):
    out = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N)), out, alpha=s, beta=t)
    tg.tile_store(z, out)


@pytest.mark.parametrize("factors", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_scaled_matmuls_of_integers_are_exact(factors: tuple[int, int]) -> None:
    a, b, c = (
        np.random.default_rng(k).integers(-9, 9, s).astype(np.int32)
        for k, s in enumerate(((M, K), (K, N), (M, N)))
    )
    *_, actual = agree(scaled_integers, [tg.array(a), tg.array(b), tg.array(c), *factors], 1, 64, tiled=True)
    np.testing.assert_array_equal(actual, factors[0] * (a @ b) + factors[1] * c)


@tg.kernel
def differentiable_matmul(
    x: tg.array2d[tg.float32],
    y: tg.array2d[tg.float32],
    z: tg.array2d[tg.float32],
    factors: tg.array1d[tg.float32],
    w: tg.array2d[tg.float32],
):
    out = tg.tile_load(z, shape=(M, N))
    a, b = tg.tile_load(x, shape=(M, K)), tg.tile_load(y, shape=(K, N))
    tg.tile_matmul(a, b, out, alpha=factors[0], beta=factors[1])
    tg.tile_store(w, out)


@pytest.mark.parametrize("factors", [(0.0, 0.0), (0.0, 3.0), (3.0, 0.0)], ids=str)
def test_gradients_of_terms_with_a_zero_factor_are_zero(factors: tuple[float, float]) -> None:
    """The zero scales the matmul or the addend."""
    shapes = ((M, K), (K, N), (M, N))
    a, b, c = (numbers(tg.float32, *s, seed=k) for k, s in enumerate(shapes))
    alpha, beta = factors
    seed = numbers(tg.float32, M, N, seed=7)
    expected = [alpha * seed @ b.T, alpha * a.T @ seed, beta * seed]
    if not alpha:
        a, b = with_non_finite(a, 3), with_non_finite(b, 4)
    if not beta:
        c = with_non_finite(c, 5)
    if not alpha and not beta:
        seed = with_non_finite(seed, 6)
    x, y, z = (tg.array(v, requires_grad=True) for v in (a, b, c))
    w = tg.zeros((M, N), dtype=tg.float32, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(
            differentiable_matmul, [1], [x, y, z, tg.array(np.array(factors, np.float32)), w], block_dim=64
        )
    tape.backward(grads={w: tg.array(seed)})
    for actual, reference in zip((x.grad, y.grad, z.grad), expected, strict=True):
        np.testing.assert_array_equal(actual.numpy(), reference)


@tg.kernel
def scaled_only(z: tg.array2d[tg.float32], factors: tg.array1d[tg.float32], w: tg.array2d[tg.float32]):
    out = tg.tile_load(z, shape=(M, N))
    tg.tile_matmul(tg.tile_ones((M, K), float), tg.tile_ones((K, N), float), out, alpha=0.0, beta=factors[1])
    tg.tile_store(w, out)


@pytest.mark.parametrize("factors", [(0.0, 0.0), (2.0, 3.0)], ids=str)
@pytest.mark.parametrize("with_matmul_factor", [True, False])
def test_gradients_of_matmul_factors_are_correct(
    factors: tuple[float, float], with_matmul_factor: bool
) -> None:
    """The gradient of a factor is the sum of the scaled term, also for a factor 0. Elements whose adjoint is 0
    contribute nothing."""
    a, b, c = (numbers(tg.float32, *s, seed=k) for k, s in enumerate(((M, K), (K, N), (M, N))))
    seed = numbers(tg.float32, M, N, seed=7)
    seed[2] = seed[:, 3] = 0.0
    expected = [(seed * (a @ b)).sum(), (seed * c).sum()]
    a[2, 1] = b[1, 3] = c[2, 4] = math.inf
    a[2, 0] = b[0, 3] = c[1, 3] = math.nan
    x, y, z, f = (tg.array(v, requires_grad=True) for v in (a, b, c, np.array(factors, np.float32)))
    w = tg.zeros((M, N), dtype=tg.float32, requires_grad=True)
    with tg.Tape() as tape:
        if with_matmul_factor:
            tg.launch_tiled(differentiable_matmul, [1], [x, y, z, f, w], block_dim=64)
        else:
            tg.launch_tiled(scaled_only, [1], [z, f, w], block_dim=64)
    tape.backward(grads={w: tg.array(seed)})
    np.testing.assert_allclose(
        f.grad.numpy()[not with_matmul_factor :], expected[not with_matmul_factor :], rtol=1e-5
    )
    gradient_c = z.grad.numpy()
    assert (gradient_c[seed == 0.0] == 0.0).all()
    np.testing.assert_array_equal(gradient_c[seed != 0.0], factors[1] * seed[seed != 0.0])
