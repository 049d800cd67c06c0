"""Derivatives of every function of numbers, and of the functions of tiles that JAX has too: the adjoint against JAX's
along random directions, and as an inner product against JAX's forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tegula as tg
from support.vector_functions import VECTOR_FUNCTIONS
from tegula.ir import REGISTRY, Op
from tegula.jax import function
from tegula.ops.base import Elementwise
from tegula.stdlib import EXACT_DEFINITIONS, FUNCTIONS

jax.config.update("jax_enable_x64", True)
D = tg.float64
N = 64

NUMBERS: dict[str, tuple[Callable[..., Any], tuple[tuple[float, float], ...]]] = {
    **{f: (getattr(jnp, f), ((-2.0, 2.0),)) for f in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh")},
    **{f: (getattr(jnp, f), ((-9.0, 9.0),)) for f in ("sin", "cos", "abs", "degrees", "radians", "sign")},
    **{f: (getattr(jnp, f), ((-9.0, 9.0),)) for f in ("floor", "ceil", "trunc", "rint", "round")},
    **{f: (getattr(jnp, f), ((0.1, 5.0),)) for f in ("sqrt", "cbrt", "log", "log2", "log10")},
    "exp10": (lambda x: 10.0**x, ((-2.0, 2.0),)),
    "rsqrt": (jax.lax.rsqrt, ((0.1, 5.0),)),
    "log1p": (jnp.log1p, ((-0.9, 5.0),)),
    "tan": (jnp.tan, ((-1.4, 1.4),)),
    "asin": (jnp.arcsin, ((-0.95, 0.95),)),
    "acos": (jnp.arccos, ((-0.95, 0.95),)),
    "atan": (jnp.arctan, ((-9.0, 9.0),)),
    "erf": (jax.scipy.special.erf, ((-3.0, 3.0),)),
    "erfc": (jax.scipy.special.erfc, ((-3.0, 3.0),)),
    "erfinv": (jax.scipy.special.erfinv, ((-0.99, 0.99),)),
    "neg": (jnp.negative, ((-9.0, 9.0),)),
    "add": (jnp.add, ((-9.0, 9.0),) * 2),
    "sub": (jnp.subtract, ((-9.0, 9.0),) * 2),
    "mul": (jnp.multiply, ((-9.0, 9.0),) * 2),
    "div": (jnp.divide, ((-9.0, 9.0), (0.5, 9.0))),
    "floordiv": (lambda x, y: jax.lax.stop_gradient(jnp.floor_divide(x, y)), ((-9.0, 9.0), (0.5, 9.0))),
    "min": (jnp.minimum, ((-9.0, 9.0),) * 2),
    "max": (jnp.maximum, ((-9.0, 9.0),) * 2),
    "copysign": (jnp.copysign, ((-9.0, 9.0),) * 2),
    "fma": (lambda x, y, z: x * y + z, ((-9.0, 9.0),) * 3),
    "hypot": (jnp.hypot, ((-9.0, 9.0),) * 2),
    "mod": (jnp.fmod, ((0.0, 9.0), (0.5, 3.0))),
    "pow": (jnp.power, ((0.1, 4.0), (-2.0, 2.0))),
    "atan2": (jnp.arctan2, ((-9.0, 9.0),) * 2),
}


def test_cases_cover_all_functions_of_numbers() -> None:
    ops = {
        name
        for name, op in REGISTRY.items()
        if issubclass(op, Elementwise) and "f" in op.KINDS and op.adjoint is not Op.adjoint
    }
    # The fast approximation differs from the function; tests/gradients/test_library.py tests it.
    functions = {
        name
        for name in FUNCTIONS.keys() - EXACT_DEFINITIONS
        if not name.startswith("_") and name not in VECTOR_FUNCTIONS
    }
    assert (ops - {"fast.exp2"}) | functions == set(NUMBERS)


def check_derivatives(kernel_function: Any, jax_function: Any, inputs: list[Any], rtol: float) -> None:
    """Values, gradients for a random weight, and <v, J u> = <J^T v, u> with J u by JAX's forward mode."""
    rng = np.random.default_rng(1)
    u = [jnp.asarray(rng.standard_normal(x.shape), x.dtype) for x in inputs]
    value, forward = jax.jvp(jax_function, inputs, u)
    result, back = jax.vjp(kernel_function, *inputs)
    np.testing.assert_allclose(result, value, rtol=rtol, atol=rtol)
    v = jnp.asarray(rng.standard_normal(value.shape), value.dtype)
    grads = back(v)
    for cotangent, expected in zip(grads, jax.vjp(jax_function, *inputs)[1](v), strict=True):
        np.testing.assert_allclose(cotangent, expected, rtol=rtol, atol=rtol * float(jnp.abs(v).max()))
    left = float(jnp.vdot(v, forward))
    right = sum(float(jnp.vdot(g, d)) for g, d in zip(grads, u, strict=True))
    size = sum(float(jnp.abs(g * d).sum()) for g, d in zip(grads, u, strict=True))
    assert abs(left - right) <= rtol * (size + abs(left) + 1e-300)


@pytest.mark.machine_code
@pytest.mark.parametrize("name", NUMBERS)
def test_derivatives_of_functions_of_numbers_agree_with_jax(name: str) -> None:
    jax_function, ranges = NUMBERS[name]
    f = getattr(tg, name)

    @tg.kernel
    def one(a, y):
        i = tg.tid()
        y[i] = f(a[i])

    @tg.kernel
    def two(a, b, y):
        i = tg.tid()
        y[i] = f(a[i], b[i])

    @tg.kernel
    def three(a, b, c, y):
        i = tg.tid()
        y[i] = f(a[i], b[i], c[i])

    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.uniform(*r, N)) for r in ranges]
    kernel_function = function((one, two, three)[len(ranges) - 1], N, lambda a, *_: a)
    check_derivatives(kernel_function, jax_function, inputs, 1e-11)


@tg.func
def mixed(x: D, y: D):
    return tg.sin(x) * y


@tg.kernel
def mapped(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    tg.tile_store(y, tg.tile_map(mixed, tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 8))))


@tg.kernel
def reduced(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    p, q = tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 8))
    s = tg.tile_sum(p * q, axis=0, keepdims=True) + tg.tile_max(q, axis=1, keepdims=True)
    tg.tile_store(y, s * tg.tile_min(p) - tg.tile_sum(q) * p)


@tg.kernel
def multiplied(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    p, q = tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 8))
    acc = p * 1.0
    tg.tile_matmul(p, q, acc, alpha=0.5, beta=2.0)
    tg.tile_store(y, acc @ tg.tile_transpose(q))


@tg.kernel
def scanned(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    p, q = tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 8))
    s = tg.tile_scan_inclusive(p) * q + tg.tile_scan_exclusive(q) * p
    tg.tile_store(y, s + tg.tile_scan_max_inclusive(p) * tg.tile_scan_min_inclusive(q))


@tg.kernel
def shaped(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    p, q = tg.tile_load(a, shape=(8, 8)), tg.tile_load(b, shape=(8, 8))
    u = tg.tile_concat((p[0:3], q[::-1][0:5]), axis=0)
    v = tg.tile_broadcast(u[2], (8, 8)) * tg.tile_reshape(tg.tile_reshape(u, (4, 16)), (8, 8))
    tg.tile_store(y, tg.where(v > q, v * p, q * q) + tg.clamp(v, -0.5, 0.5))


@tg.kernel
def normalised(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    """A softmax, and a layer norm of the softmax, row by row."""
    i = tg.tid()
    t, w = tg.tile_load(a[i], shape=8), tg.tile_load(b[i], shape=8)
    e = tg.exp(t - tg.tile_max(t))
    s = e / tg.tile_sum(e)
    c = s - tg.tile_sum(s) / 8.0
    tg.tile_store(y[i], c / tg.sqrt(tg.tile_sum(c * c) / 8.0 + 1e-3) * w)


def jax_normalised(a: Any, b: Any) -> Any:
    s = jax.nn.softmax(a, 1)
    c = s - s.mean(1, keepdims=True)
    return c / jnp.sqrt((c * c).mean(1, keepdims=True) + 1e-3) * b


def jax_scanned(a: Any, b: Any) -> Any:
    p, q = a.ravel(), b.ravel()
    exclusive_sums = jnp.concatenate([jnp.zeros(1), jnp.cumsum(q)[:-1]])
    highest, lowest = jax.lax.cummax(p), jax.lax.cummin(q)
    return (jnp.cumsum(p) * q + exclusive_sums * p + highest * lowest).reshape(8, 8)


def jax_shaped(a: Any, b: Any) -> Any:
    u = jnp.concatenate([a[:3], b[::-1][:5]])
    v = u[2][None] * u
    return jnp.where(v > b, v * a, b * b) + jnp.clip(v, -0.5, 0.5)


TILES: dict[str, tuple[Any, int, Callable[..., Any]]] = {
    "map": (mapped, 1, lambda a, b: jnp.sin(a) * b),
    "reductions": (
        reduced, 1, lambda a, b: ((a * b).sum(0, keepdims=True) + b.max(1, keepdims=True)) * a.min() - b.sum() * a,
    ),
    "matmuls": (multiplied, 1, lambda a, b: (0.5 * a @ b + 2.0 * a) @ b.T),
    "scans": (scanned, 1, jax_scanned),
    "shapes": (shaped, 1, jax_shaped),
    "softmax and norm": (normalised, 8, jax_normalised),
}  # fmt: skip


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TILES)
def test_derivatives_of_functions_of_tiles_agree_with_jax(name: str, seed: int) -> None:
    kernel, blocks, jax_function = TILES[name]
    rng = np.random.default_rng(seed)
    inputs = [jnp.asarray(rng.standard_normal((8, 8))) for _ in range(2)]
    kernel_function = function(kernel, blocks, lambda a, b: a, block_dim=32, tiled=True)
    check_derivatives(kernel_function, jax_function, inputs, 1e-11)
