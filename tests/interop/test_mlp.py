"""examples/mlp.py has the losses of the same network in PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tegula as tg
from tegula.torch import function

PATH = Path(__file__).parent.parent.parent / "examples" / "mlp.py"
STEPS = 60


@pytest.fixture(scope="module")
def mlp() -> Any:
    spec = importlib.util.spec_from_file_location("mlp", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(mlp: Any, forward: Any, dtype: torch.dtype) -> np.ndarray:
    """The losses of the same training, by PyTorch's optimiser."""
    rng = np.random.default_rng(0)
    points, classes = mlp.spirals(rng)
    x, labels = torch.tensor(points, dtype=dtype), torch.tensor(classes)
    weights = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in mlp.parameters(rng)]
    adam = torch.optim.Adam(weights, mlp.RATE, (mlp.DECAY_1, mlp.DECAY_2), mlp.EPSILON)
    result = []
    for _ in range(STEPS):
        adam.zero_grad()
        loss = forward(x, labels, *weights)
        result.append(loss.item())
        loss.backward()
        adam.step()
    return np.array(result)


def reference_loss(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return torch.nn.functional.cross_entropy(torch.tanh(x @ w1 + b1) @ w2 + b2, labels.long())


@pytest.mark.machine_code
def test_the_example_has_the_loss_curve_of_torch(mlp: Any) -> None:
    expected = losses(mlp, reference_loss, torch.float64)
    actual = np.array(list(mlp.train(STEPS)))
    assert expected[-1] < 0.8 * expected[0]
    np.testing.assert_allclose(actual, expected, rtol=2e-4)
    torch_losses = losses(mlp, reference_loss, torch.float32)
    assert np.abs(actual - expected).max() <= 4 * np.abs(torch_losses - expected).max() + 1e-6


@pytest.mark.machine_code
def test_kernels_of_the_example_train_under_the_optimiser_of_torch(mlp: Any) -> None:
    blocks = mlp.BATCH // mlp.ROWS
    tiles = {"block_dim": 64, "tiled": True}

    @tg.kernel
    def hidden_layer(
        x: tg.array2d[float],
        w: tg.array2d[float],
        b: tg.array2d[float],
        features: int,
        out: tg.array2d[float],
    ):
        i = tg.tid()
        total = tg.tile_broadcast(tg.tile_load(b, shape=(1, 64)), (32, 64)) + 0.0
        for k in range(features):
            column = tg.tile_load(x, shape=(32, 1), offset=(i * 32, k))
            total += column * tg.tile_load(w, shape=(1, 64), offset=(k, 0))
        tg.tile_store(out, tg.tanh(total), offset=(i * 32, 0))

    def empty_output(columns: int) -> Any:
        return torch.empty(mlp.BATCH, columns, device="meta")

    hidden = function(hidden_layer, blocks, empty_output(mlp.HIDDEN), **tiles)
    output = function(mlp.output_layer, blocks, empty_output(mlp.CLASSES), **tiles)
    entropy = function(mlp.cross_entropy, mlp.BATCH, torch.empty((), device="meta"))

    def forward(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return entropy(output(hidden(x, w1, b1, 2), w2, b2), labels)

    expected = losses(mlp, reference_loss, torch.float64)
    np.testing.assert_allclose(losses(mlp, forward, torch.float32), expected, rtol=2e-4)
