"""The losses of examples/mlp.py match the same network in NumPy, with handwritten gradients in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.machine_code

FILE = Path(__file__).parent.parent.parent / "examples" / "mlp.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mlp", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(mlp: ModuleType, steps: int) -> Iterator[float]:
    rng = np.random.default_rng(0)
    points, labels = mlp.spirals(rng)
    x = points.astype(np.float64)
    params = [p.astype(np.float64) for p in mlp.parameters(rng)]
    first_moments, second_moments = ([np.zeros_like(p) for p in params] for _ in range(2))
    n = len(x)
    for step in range(1, steps + 1):
        w1, b1, w2, b2 = params
        h = np.tanh(x @ w1 + b1)
        logits = h @ w2 + b2
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        yield float(-np.log(p[np.arange(n), labels]).mean())
        d = (p - np.eye(mlp.CLASSES)[labels]) / n
        hidden_gradient = d @ w2.T * (1.0 - h * h)
        grads = [
            x.T @ hidden_gradient,
            hidden_gradient.sum(0, keepdims=True),
            h.T @ d,
            d.sum(0, keepdims=True),
        ]
        for k, g in enumerate(grads):
            first_moments[k] = mlp.DECAY_1 * first_moments[k] + (1 - mlp.DECAY_1) * g
            second_moments[k] = mlp.DECAY_2 * second_moments[k] + (1 - mlp.DECAY_2) * g * g
            mean, size = (
                first_moments[k] / (1 - mlp.DECAY_1**step),
                second_moments[k] / (1 - mlp.DECAY_2**step),
            )
            params[k] = params[k] - mlp.RATE * mean / (np.sqrt(size) + mlp.EPSILON)


def test_the_loss_of_the_mlp_example_matches_numpy() -> None:
    mlp = example()
    actual, expected = list(mlp.train(300)), list(reference(mlp, 300))
    np.testing.assert_allclose(actual[:100], expected[:100], rtol=2e-3)
    np.testing.assert_allclose(actual, expected, rtol=0.05, atol=2e-3)
    assert actual[-1] < 0.1 * actual[0]
