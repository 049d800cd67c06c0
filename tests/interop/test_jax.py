"""Kernels as functions of JAX: values, gradients, compiled programs, and refusals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import tegula as tg
from tegula.jax import function

jax.config.update("jax_enable_x64", True)
D = tg.float64


@tg.kernel
def scaled_sines(x: tg.array2d[D], w: tg.array[D], factor: float, y: tg.array2d[D]):
    i, j = tg.tid()
    y[i, j] = tg.sin(x[i, j]) * w[j] * D(factor)


def like_first(x: Any, *others: Any) -> Any:
    return x


sines = function(scaled_sines, lambda x, w, factor: x.shape, like_first, block_dim=32)


def numbers(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def reference(x: Any, w: Any, factor: float) -> Any:
    return jnp.sin(x) * w * factor


@pytest.mark.machine_code
@pytest.mark.parametrize("jitted", [False, True])
def test_jax_functions_have_correct_values_and_gradients(jitted: bool) -> None:
    f = (lambda x, w: sines(x, w, 2.0)) if not jitted else jax.jit(lambda x, w: sines(x, w, 2.0))
    x, w = numbers(5, 7), numbers(7, seed=1)
    np.testing.assert_allclose(f(x, w), reference(x, w, 2.0))
    check_grads(f, (x, w), order=1, modes=["rev"])


@pytest.mark.machine_code
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_jax_functions_have_gradients_of_some_inputs_only(argnums: Any) -> None:
    x, w = numbers(5, 7), numbers(7, seed=1)
    actual = jax.jit(jax.grad(lambda a, b: sines(a, b, 1.0).sum(), argnums))(x, w)
    expected = jax.grad(lambda a, b: reference(a, b, 1.0).sum(), argnums)(x, w)
    jax.tree.map(np.testing.assert_allclose, actual, expected)


@pytest.mark.machine_code
def test_jax_functions_take_traced_numbers() -> None:
    x, w = numbers(5, 7), numbers(7, seed=1)
    run = jax.jit(lambda x, w, s: sines(x, w, 2.0 * s))
    np.testing.assert_allclose(run(x, w, 0.5), reference(x, w, 1.0))
    actual = jax.grad(lambda x: run(x, w, 0.5).sum())(x)
    np.testing.assert_allclose(actual, jnp.cos(x) * w)


@pytest.mark.machine_code
def test_jax_functions_are_composed_and_mapped() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)

    def loss(f: Any, x: Any, w: Any) -> Any:
        return f(jnp.exp(f(x, w, 1.0)), w, 0.5).sum()

    for f in (jax.jit, lambda f: f):
        actual = f(jax.grad(lambda x, w: loss(sines, x, w), (0, 1)))(x, w)
        expected = jax.grad(lambda x, w: loss(reference, x, w), (0, 1))(x, w)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), actual, expected)
    many = numbers(6, 3, 4, seed=2)
    actual = jax.jit(jax.vmap(jax.grad(lambda x: loss(sines, x, w))))(many)
    np.testing.assert_allclose(actual, jax.vmap(jax.grad(lambda x: loss(reference, x, w)))(many), rtol=1e-12)


@pytest.mark.machine_code
def test_jax_functions_may_have_outputs_without_a_gradient() -> None:
    @tg.kernel
    def results(x: tg.array[D], k: tg.array[int], y: tg.array[D], z: tg.array[D], n: tg.array[int]):
        i = tg.tid()
        y[i] = x[k[i]] * x[i]
        z[i] = tg.exp(x[i])
        n[i] = k[i] + 1

    f = function(results, 4, lambda x, k: [x, x, k])
    x, k = numbers(4), jnp.asarray([1, 0, 3, 3], dtype=jnp.int32)
    assert f(x, k)[2].tolist() == [2, 1, 4, 4]
    for out in (1, 0):
        actual = jax.grad(lambda x, out=out: f(x, k)[out].sum())(x)
        expected = jax.grad(lambda x, out=out: (x[k] * x, jnp.exp(x))[out].sum())(x)
        np.testing.assert_allclose(actual, expected)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e5m2"])
def test_jax_functions_take_tiles_scalars_and_narrow_floats(dtype: str) -> None:
    @tg.kernel
    def total(x, s):
        i = tg.tid()
        row = tg.tile_astype(tg.tile_load(x[i], shape=4), float)
        tg.tile_atomic_add(s, tg.tile_astype(tg.tile_sum(row * row), s.dtype))

    kind = jnp.dtype(dtype)
    f = function(total, len, jax.ShapeDtypeStruct((), kind), block_dim=32, tiled=True)
    x = jnp.asarray([[1, 0, -2, 1], [1, 0, 0, 1]], dtype=kind)
    value, grad = jax.value_and_grad(f)(x)
    assert value.shape == () and value.dtype == grad.dtype == kind
    assert float(value) == 8.0 and grad.tolist() == (2 * x).tolist()


@pytest.mark.machine_code
def test_jax_functions_take_vectors_and_large_arrays() -> None:
    @tg.kernel
    def lengths(v: tg.array[tg.vec3d], y: tg.array[D]):
        i = tg.tid()
        y[i] = tg.dot(v[i], v[i])

    v = numbers(300_000, 3)
    f = function(lengths, len, lambda v: jax.ShapeDtypeStruct(v.shape[:1], v.dtype))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda v: f(v).sum()))(v), 2 * v)


@pytest.mark.machine_code
def test_equal_calls_of_jax_functions_are_compiled_once() -> None:
    x, w = numbers(3, 4), numbers(4)
    sines(x, w, 3.0)
    with jax.log_compiles(False), jax.check_tracer_leaks():
        from tegula.jax import _call

        before = _call.cache_info().misses
        sines(x, w, 3.0)
        assert _call.cache_info().misses == before
        sines(x, w, 3)
        assert _call.cache_info().misses == before + 1


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_jax_functions_refuse_second_derivatives_and_forward_mode() -> None:
    x, w = numbers(3, 4), numbers(4)
    inner = jax.grad(lambda x: sines(x, w, 1.0).sum())
    with pytest.raises(tg.LaunchError, match="scaled_sines: gradients of gradients are not supported"):
        jax.grad(lambda x: inner(x).sum())(x)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: sines(x, w, 1.0), (x,), (x,))


def test_jax_functions_refuse_gradients_by_numbers() -> None:
    x, w = numbers(3, 4), numbers(4)
    with pytest.raises(tg.LaunchError, match="'factor' is a number, which has no gradient"):
        jax.grad(lambda s: sines(x, w, s).sum())(1.0)


@pytest.mark.machine_code
def test_gradients_of_jax_functions_without_a_gradient_are_refused() -> None:
    @tg.kernel
    def rounded(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = D(int(x[i]))

    f = function(rounded, len, like_first)
    assert f(jnp.asarray([1.7])).tolist() == [1.0]
    with pytest.raises(tg.CompileError, match=r"D\(int\(x\[i\]\)\)"):
        jax.grad(lambda x: f(x).sum())(jnp.asarray([1.7]))


@pytest.mark.machine_code
def test_jax_functions_refuse_kernels_that_change_their_inputs() -> None:
    @tg.kernel
    def change(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = x[i]
        x[i] = 0.0

    x = numbers(3)
    with pytest.raises(Exception, match="argument 'x' is written, but its memory is read-only"):
        jax.block_until_ready(function(change, len, like_first)(x))
    assert bool(jnp.all(x != 0.0))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x, w: (x, w), "takes 4 arguments .x, w, factor, y., got 2 inputs and 1 outputs"),
        (lambda x, w: (x[0], w, 1.0), r"expected array2d.float64., got array1d.float64."),
        (lambda x, w: (x.astype("float32"), w, 1.0), r"expected array2d.float64., got array2d.float32."),
        (lambda x, w: (x.astype("complex64"), w, 1.0), r"got array2d.vec2."),
        (lambda x, w: (x, 1.0, 1.0), "'w': expected an array, got float"),
        (lambda x, w: (x, tg.zeros(4, dtype=D, requires_grad=True), 1.0), "is a tg.array: its gradient"),
    ],
)
def test_jax_functions_refuse_arguments_that_do_not_fit(inputs: Any, message: str) -> None:
    f = function(scaled_sines, (3, 4), jax.ShapeDtypeStruct((3, 4), jnp.float64))
    with pytest.raises(tg.LaunchError, match=message):
        jax.jit(lambda x, w: f(*inputs(x, w)))(numbers(3, 4), numbers(4))


def test_jax_functions_refuse_outputs_of_disabled_types() -> None:
    f = function(scaled_sines, (3, 4), jax.ShapeDtypeStruct((3, 4), np.float64))
    with jax.enable_x64(False), pytest.raises(tg.LaunchError, match="a type that JAX has not enabled"):
        f(jnp.ones((3, 4)), jnp.ones(4), 1.0)
