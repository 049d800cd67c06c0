"""Gaussian processes for many series at once: each block factors one covariance matrix, and a tape fits the kernels.

python examples/gaussian_process.py [--device cuda:0] [--size SERIES] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

N, QUERIES, STEPS = 32, 96, 60


@tg.func
def covariance(a, b, log_length: float):
    """exp(-d²/2l²) of all distances between a column a and a row b of points."""
    d = (a - b) * tg.exp(-log_length)
    return tg.exp(-0.5 * d * d)


@tg.func
def factor(x, log_length: float, log_noise: float):
    """The Cholesky factor of the covariance of noisy measurements at x."""
    k = covariance(tg.tile_reshape(x, (N, 1)), tg.tile_reshape(x, (1, N)), log_length)
    return tg.tile_cholesky(tg.tile_diag_add(k, tg.tile_full(N, tg.exp(2.0 * log_noise))))


@tg.kernel
def negative_log_likelihood(
    x: tg.array2d[float], y: tg.array2d[float], logs: tg.array2d[float], loss: tg.array[float]
):
    """-log of the likelihood of each series, but for a constant."""
    i = tg.tid()
    observed = tg.tile_load(y[i], shape=N)
    lower = factor(tg.tile_load(x[i], shape=N), logs[i, 0], logs[i, 1])
    diagonal = tg.tile_reshape(lower, N * N)[:: N + 1]
    fit = tg.tile_dot(observed, tg.tile_cholesky_solve(lower, observed))
    tg.tile_store(loss, 0.5 * fit + tg.tile_sum(tg.log(diagonal)), offset=i)


@tg.kernel
def predict(
    x: tg.array2d[float],
    y: tg.array2d[float],
    logs: tg.array2d[float],
    point: tg.array[float],
    mean: tg.array2d[float],
    deviation: tg.array2d[float],
):
    """Means and standard deviations of the function at other points."""
    i = tg.tid()
    training_points = tg.tile_load(x[i], shape=N)
    lower = factor(training_points, logs[i, 0], logs[i, 1])
    query_points = tg.tile_load(point, shape=QUERIES)
    k = covariance(
        tg.tile_reshape(training_points, (N, 1)), tg.tile_reshape(query_points, (1, QUERIES)), logs[i, 0]
    )
    weights = tg.tile_cholesky_solve(lower, tg.tile_load(y[i], shape=N))
    solved = tg.tile_lower_solve(lower, k)
    tg.tile_store(mean[i], tg.tile_sum(tg.tile_reshape(weights, (N, 1)) * k, axis=0))
    tg.tile_store(deviation[i], tg.sqrt(tg.max(1.0 - tg.tile_sum(solved * solved, axis=0), 0.0)))


def series(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy measurements of sines, the k-th sine with k + 1 half waves, at random points from 0 to 1."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.random((size, N)), axis=1)
    waves = 1 + np.arange(size)[:, None] % 6
    return x, np.sin(np.pi * waves * x) + 0.1 * rng.standard_normal(x.shape)


def fit(x: Any, y: Any, steps: int) -> tuple[Any, np.ndarray]:
    """The logarithms of length scale and noise of each series, and the losses of all before the last step."""
    logs: Any = tg.full((len(x), 2), -1.5, dtype=float, requires_grad=True)
    loss = tg.zeros(len(x), requires_grad=True)
    adam = tg.optim.Adam([logs], lr=0.1)
    for _ in range(steps):
        with tg.Tape() as tape:
            tg.launch_tiled(
                negative_log_likelihood, len(x), inputs=[x, y, logs], outputs=[loss], block_dim=64
            )
        tape.backward(grads={loss: tg.ones_like(loss)})
        adam.step([logs.grad])
        logs.grad.zero_()
    return logs, loss.numpy()


def run(size: int, steps: int = STEPS) -> dict[str, np.ndarray]:
    x, y = (tg.array(part, dtype=float) for part in series(size))
    queries = tg.array(np.linspace(0.0, 1.0, QUERIES), dtype=float)
    logs, loss = fit(x, y, steps)
    mean, deviation = tg.zeros((size, QUERIES)), tg.zeros((size, QUERIES))
    tg.launch_tiled(predict, size, inputs=[x, y, logs, queries], outputs=[mean, deviation], block_dim=64)
    arrays = {"x": x, "y": y, "at": queries, "mean": mean, "deviation": deviation, "logs": logs}
    return {name: a.numpy() for name, a in arrays.items()} | {"loss": loss}


def draw(figure: Any, r: dict[str, np.ndarray]) -> None:
    for k, axes in enumerate(figure.subplots(1, 3, sharey=True)):
        mean, two_deviations = r["mean"][k], 2.0 * r["deviation"][k]
        axes.fill_between(r["at"], mean - two_deviations, mean + two_deviations, alpha=0.3, linewidth=0)
        axes.plot(r["at"], mean)
        axes.plot(r["x"][k], r["y"][k], "k.", markersize=3)
        length, noise = np.exp(r["logs"][k])
        axes.set_title(f"length {length:.2f}, noise {noise:.2f}")


if __name__ == "__main__":
    show.main(run, draw, size=64)
