"""The derivative of every function of the standard library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from support.library_gradients import BINARY_RANGES, UNARY_RANGES, D, inputs
from support.vector_functions import VECTOR_FUNCTIONS
from tegula.stdlib import FUNCTIONS


def test_cases_cover_all_library_functions() -> None:
    assert {name for name in FUNCTIONS if not name.startswith("_")} == {
        *UNARY_RANGES,
        *BINARY_RANGES,
        *VECTOR_FUNCTIONS,
    }


@pytest.mark.machine_code
@sampled(3, "name", UNARY_RANGES)
def test_derivatives_of_functions_of_one_number_agree_with_differences(name: str) -> None:
    f = getattr(tg, name)

    @tg.kernel
    def kernel(x: tg.array[D], y: tg.array[D]):
        t = tg.tile_load(x, shape=16)
        tg.tile_store(y, t * f(t))

    y = tg.zeros(16, dtype=D, requires_grad=True)
    tg.gradcheck(kernel, (1, 32), inputs(UNARY_RANGES[name]), [y], block_dim=32)


@pytest.mark.machine_code
@pytest.mark.parametrize("name", BINARY_RANGES)
def test_derivatives_of_functions_of_two_numbers_agree_with_differences(name: str) -> None:
    f = getattr(tg, name)

    @tg.kernel
    def kernel(x: tg.array[D], z: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = f(x[i], z[i]) * z[i]

    y = tg.zeros(16, dtype=D, requires_grad=True)
    tg.gradcheck(kernel, 16, inputs(*BINARY_RANGES[name]), [y], block_dim=8)


@pytest.mark.machine_code
def test_derivatives_of_powers_of_zero_and_of_negative_numbers_follow_the_rules() -> None:
    @tg.kernel
    def kernel(x: tg.array[D], z: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = tg.pow(x[i], z[i])

    x = tg.array([0.0, 0.0, -2.0, 3.0], dtype=D, requires_grad=True)
    z = tg.array([2.0, 0.0, 3.0, 0.0], dtype=D, requires_grad=True)
    y = tg.zeros(4, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, 4, inputs=[x, z], outputs=[y])
    tape.backward(grads={y: np.ones(4)})
    assert x.grad.numpy().tolist() == [0.0, 0.0, 12.0, 0.0]
    np.testing.assert_allclose(z.grad.numpy(), [0.0, 0.0, 0.0, np.log(3.0)])


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16, tg.float32])
def test_derivatives_in_narrow_floats_are_correct(dtype: Any) -> None:
    @tg.kernel
    def kernel(x, y):
        t = tg.tile_load(x, shape=4)
        tg.tile_store(y, tg.exp(t) * tg.tanh(t))

    x = tg.array([-1.0, 0.0, 0.5, 1.0], dtype=dtype, requires_grad=True)
    y = tg.zeros(4, dtype=dtype, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, 1, inputs=[x], outputs=[y], block_dim=32)
    tape.backward(grads={y: np.ones(4)})
    v = x.numpy().astype(np.float64)
    expected = np.exp(v) * (np.tanh(v) + 1.0 / np.cosh(v) ** 2)
    np.testing.assert_allclose(
        x.grad.numpy().astype(np.float64), expected, rtol=2e-2 if dtype.bits == 16 else 1e-6
    )


@pytest.mark.machine_code
def test_derivatives_of_fast_functions_are_correct() -> None:
    @tg.kernel
    def kernel(x, y):
        i = tg.tid()
        y[i] = tg.fast.exp2(x[i])

    x = tg.array([-1.0, 0.0, 0.5, 3.0], dtype=float, requires_grad=True)
    y = tg.zeros(4, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, 4, inputs=[x], outputs=[y])
    tape.backward(grads={y: np.ones(4)})
    np.testing.assert_allclose(x.grad.numpy(), np.exp2(x.numpy()) * np.log(2.0), rtol=1e-5)
