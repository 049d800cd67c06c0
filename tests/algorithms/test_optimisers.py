"""Optimisers against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code(some=True)

SHAPE, STEPS = (5, 3), 4


def start() -> tuple[np.ndarray, list[np.ndarray]]:
    """A parameter and its gradients."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(SHAPE), [rng.standard_normal(SHAPE) for _ in range(STEPS)]


def adam(
    p: np.ndarray, gradients: list[np.ndarray], lr: float, b1: float, b2: float, eps: float
) -> np.ndarray:
    m, v = np.zeros(p.shape), np.zeros(p.shape)
    for t, g in enumerate(gradients, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


def sgd(
    p: np.ndarray,
    gradients: list[np.ndarray],
    lr: float,
    mu: float,
    damp: float,
    decay: float,
    nesterov: bool,
) -> np.ndarray:
    b = None
    for g in gradients:
        d = g + decay * p
        if mu:
            b = d if b is None else mu * b + (1 - damp) * d
            d = d + mu * b if nesterov else b
        p = p - lr * d
    return p


@pytest.mark.parametrize(
    ("dtype", "atol"), [(tg.float64, 1e-14), (tg.vec3, 1e-6), (tg.float16, 4e-3)], ids=str
)
def test_adam_steps_match_float64(dtype: Any, atol: float) -> None:
    p, gradients = start()
    a = tg.array(p, dtype=dtype)
    optimiser = tg.optim.Adam([a], lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    for g in gradients:
        optimiser.step([tg.array(g, dtype=dtype)])
    np.testing.assert_allclose(a.numpy(), adam(p, gradients, 0.01, 0.8, 0.99, 1e-6), rtol=0, atol=atol)
    assert optimiser.t == STEPS


@pytest.mark.parametrize("options", [(0.1,), (0.1, 0.9, 0.1, 0.01), (0.1, 0.9, 0.0, 0.01, True)], ids=str)
def test_sgd_steps_match_float64(options: tuple[Any, ...]) -> None:
    p, gradients = start()
    state = tg.zeros((5, 6), dtype=tg.float64)
    a = state[:, ::2]
    a.assign(p)
    optimiser = tg.optim.SGD([a], *options)
    for g in gradients:
        optimiser.step([tg.array(g)])
    full = (*options, *(0.1, 0.0, 0.0, 0.0, False)[len(options) :])
    np.testing.assert_allclose(a.numpy(), sgd(p, gradients, *full), rtol=0, atol=1e-14)
    assert not state.numpy()[:, 1::2].any()


def test_optimiser_state_persists_for_the_same_parameters_and_is_reset_on_demand() -> None:
    p, gradients = start()
    optimiser = tg.optim.Adam(None)
    with pytest.raises(RuntimeError, match="no parameters"):
        optimiser.step([])
    a = tg.array(p)
    optimiser.set_params([a])
    optimiser.step([tg.array(gradients[0])])
    first_moment = optimiser.m[0].numpy().copy()
    optimiser.set_params([a])
    np.testing.assert_array_equal(optimiser.m[0].numpy(), first_moment)
    assert first_moment.any()
    optimiser.reset_internal_state()
    assert not optimiser.m[0].numpy().any() and optimiser.t == 0


def test_optimisers_refuse_gradients_of_another_shape_or_dtype() -> None:
    optimiser = tg.optim.SGD([tg.zeros(3)])
    with pytest.raises(TypeError, match="gradient of float64"):
        optimiser.step([tg.zeros(3, dtype=tg.float64)])
    with pytest.raises(ValueError, match="gradient of shape"):
        optimiser.step([tg.zeros(4)])
    with pytest.raises(RuntimeError, match="differ: 2 and 1"):
        optimiser.step([tg.zeros(3), tg.zeros(3)])
    with pytest.raises(RuntimeError, match="floats"):
        tg.optim.SGD([tg.zeros(3, dtype=tg.int32)])


def test_optimiser_steps_are_not_recorded_on_tapes() -> None:
    a = tg.ones(3, requires_grad=True)
    with tg.Tape() as tape:
        tg.optim.SGD([a]).step([tg.ones(3)])
    assert tape.records == []
