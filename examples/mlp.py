"""A two-layer perceptron, trained to distinguish two spirals: tile kernels, a tape, and Adam.

python examples/mlp.py [--device cuda:0] [--size STEPS] [--picture PATH]"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import show

import tegula as tg

ROWS, BATCH, HIDDEN, CLASSES = 32, 256, 64, 2
RATE, DECAY_1, DECAY_2, EPSILON = 0.01, 0.9, 0.999, 1e-8
FRESH_1, FRESH_2 = 1.0 - DECAY_1, 1.0 - DECAY_2  # float32 would add a relative error of 5e-5


@tg.func
def softplus(x: float):
    return tg.max(x, 0.0) + tg.log1p(tg.exp(-tg.abs(x)))


@tg.kernel
def hidden_layer(
    x: tg.array2d[float], w: tg.array2d[float], b: tg.array2d[float], out: tg.array2d[float], features: int
):
    """tanh(x @ w + b) for ROWS rows; x has few columns, which are added in a loop."""
    i = tg.tid()
    total = tg.tile_broadcast(tg.tile_load(b, shape=(1, HIDDEN)), (ROWS, HIDDEN)) + 0.0
    for k in range(features):
        column = tg.tile_load(x, shape=(ROWS, 1), offset=(i * ROWS, k))
        total += column * tg.tile_load(w, shape=(1, HIDDEN), offset=(k, 0))
    tg.tile_store(out, tg.tanh(total), offset=(i * ROWS, 0))


@tg.kernel
def output_layer(h: tg.array2d[float], w: tg.array2d[float], b: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    rows = tg.tile_load(h, shape=(ROWS, HIDDEN), offset=(i * ROWS, 0))
    scores = rows @ tg.tile_load(w, shape=(HIDDEN, CLASSES))
    tg.tile_store(out, scores + tg.tile_load(b, shape=(1, CLASSES)), offset=(i * ROWS, 0))


@tg.kernel
def cross_entropy(logits: tg.array2d[float], labels: tg.array[int], loss: tg.array[float]):
    """The mean of -log(probability of the correct one of two classes)."""
    i = tg.tid()
    margin = logits[i, 1 - labels[i]] - logits[i, labels[i]]
    tg.atomic_add(loss, 0, softplus(margin) / float(logits.shape[0]))


@tg.kernel(enable_backward=False)
def adam(
    p: tg.array[float],
    g: tg.array[float],
    m: tg.array[float],
    v: tg.array[float],
    part_1: float,
    part_2: float,
):
    """A step of Adam; part_1, part_2: the total weight of the past steps in the averages m and v."""
    i = tg.tid()
    m[i] += FRESH_1 * (g[i] - m[i])
    v[i] += FRESH_2 * (g[i] * g[i] - v[i])
    p[i] = p[i] - RATE * (m[i] / part_1) / (tg.sqrt(v[i] / part_2) + EPSILON)
    g[i] = 0.0


def spirals(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of two intertwined spirals, and the spiral of each point."""
    labels = np.arange(BATCH) % CLASSES
    angle = rng.uniform(0.5, 2.0 * np.pi, BATCH)
    turn = angle + np.pi * labels
    points = angle[:, None] / 4.0 * np.stack([np.cos(turn), np.sin(turn)], 1)
    return points.astype(np.float32), labels.astype(np.int32)


def parameters(rng: np.random.Generator) -> list[np.ndarray]:
    shapes = (2, HIDDEN), (1, HIDDEN), (HIDDEN, CLASSES), (1, CLASSES)
    return [(rng.standard_normal(s) / np.sqrt(s[0]) * (s[0] > 1)).astype(np.float32) for s in shapes]


def train(steps: int, seed: int = 0) -> Iterator[float]:
    """The loss before each step."""
    rng = np.random.default_rng(seed)
    points, classes = spirals(rng)
    x, labels = tg.array(points), tg.array(classes)
    weights = [tg.array(p, requires_grad=True) for p in parameters(rng)]
    means, sizes = ([tg.zeros(p.size) for p in weights] for _ in range(2))
    w1, b1, w2, b2 = weights
    hidden = tg.zeros((BATCH, HIDDEN), requires_grad=True)
    logits, loss = tg.zeros((BATCH, CLASSES), requires_grad=True), tg.zeros(1, requires_grad=True)
    for step in range(1, steps + 1):
        loss.zero_()
        with tg.Tape() as tape:
            blocks = BATCH // ROWS
            tg.launch_tiled(hidden_layer, blocks, inputs=[x, w1, b1, hidden, 2], block_dim=64)
            tg.launch_tiled(output_layer, blocks, inputs=[hidden, w2, b2], outputs=[logits], block_dim=64)
            tg.launch(cross_entropy, BATCH, inputs=[logits, labels], outputs=[loss])
        tape.backward(loss)
        yield float(loss.numpy()[0])
        parts = [1.0 - decay**step for decay in (DECAY_1, DECAY_2)]
        for p, m, v in zip(weights, means, sizes, strict=True):
            assert p.grad is not None
            tg.launch(adam, p.size, inputs=[p.flatten(), p.grad.flatten(), m, v, *parts])


def run(size: int) -> list[float]:
    return list(train(size))


def draw(figure: Any, losses: list[float]) -> None:
    figure.subplots().semilogy(losses)


if __name__ == "__main__":
    show.main(run, draw, size=400)
