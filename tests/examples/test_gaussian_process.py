"""examples/gaussian_process.py against NumPy in float64."""

from __future__ import annotations

import gaussian_process as gp
import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code
SIZE = 3


def covariance(a: np.ndarray, b: np.ndarray, log_length: float) -> np.ndarray:
    return np.exp(-0.5 * ((a[:, None] - b) * np.exp(-log_length)) ** 2)


def noisy(x: np.ndarray, logs: np.ndarray) -> np.ndarray:
    return covariance(x, x, logs[0]) + np.exp(2.0 * logs[1]) * np.eye(len(x))


def negative_log_likelihood(x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> float:
    k = noisy(x, logs)
    return 0.5 * (y @ np.linalg.solve(k, y) + np.linalg.slogdet(k)[1])


def test_gaussian_process_likelihoods_and_gradients_match_float64() -> None:
    x, y = gp.series(SIZE)
    logs = np.array([[-1.0, -1.5], [-1.5, -1.0], [-2.0, -0.5]])
    parameters, loss = tg.array(logs, dtype=float, requires_grad=True), tg.zeros(SIZE, requires_grad=True)
    arrays = [tg.array(x, dtype=float), tg.array(y, dtype=float), parameters]
    with tg.Tape() as tape:
        tg.launch_tiled(gp.negative_log_likelihood, SIZE, inputs=arrays, outputs=[loss], block_dim=64)
    tape.backward(grads={loss: tg.ones_like(loss)})
    np.testing.assert_allclose(loss.numpy(), list(map(negative_log_likelihood, x, y, logs)), rtol=1e-4)
    step = 1e-5 * np.eye(2)
    expected = [
        [
            negative_log_likelihood(*s, parameters_of + d) - negative_log_likelihood(*s, parameters_of - d)
            for d in step
        ]
        for *s, parameters_of in zip(x, y, logs, strict=True)
    ]
    np.testing.assert_allclose(parameters.grad.numpy(), np.array(expected) / 2e-5, rtol=1e-3, atol=1e-3)


def test_gaussian_process_predictions_match_float64() -> None:
    actual = gp.run(SIZE, steps=2)
    x, y = gp.series(SIZE)
    for k in range(SIZE):
        logs = actual["logs"][k].astype(np.float64)
        across = covariance(x[k], np.linspace(0.0, 1.0, gp.QUERIES), logs[0])
        solved = np.linalg.solve(noisy(x[k], logs), across)
        np.testing.assert_allclose(actual["mean"][k], y[k] @ solved, atol=1e-4)
        deviation = np.sqrt(1.0 - (across * solved).sum(0))
        np.testing.assert_allclose(actual["deviation"][k], deviation, atol=1e-3)
