"""Filtering signals in one fused kernel: each block transforms one signal, multiplies its frequencies by weights, and
transforms back.

python examples/fft_filter.py [--device cuda:0] [--size SIGNALS] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

N, LOWEST, HIGHEST, SLOPE = 1000, 6.0, 60.0, 1.5
HUM = 50.0
"""The frequency of the hum, in periods of a signal."""


@tg.func
def step(x: float):
    """A smooth step from 0 to 1, whose transform does not ring."""
    return 1.0 / (1.0 + tg.exp(-x / SLOPE))


@tg.func
def filtered_element(z: tg.vec2f, k: int):
    """An element of the transform times the filter's weight: a band of frequencies without the hum."""
    frequency = float(tg.min(k, N - k))
    band = step(frequency - LOWEST) * step(HIGHEST - frequency)
    hum = tg.exp(-0.5 * (frequency - HUM) * (frequency - HUM))
    return z * (band * (1.0 - hum) / float(N))


@tg.func
def as_complex(x: float):
    return tg.vec2f(x, 0.0)


@tg.func
def real(z: tg.vec2f):
    return z[0]


@tg.kernel
def clean(x: tg.array2d[float], y: tg.array2d[float]):
    """The signal stays in the block between the two transforms."""
    i = tg.tid()
    t = tg.tile_map(as_complex, tg.tile_load(x[i], shape=N))
    tg.tile_fft(t)
    t = tg.tile_map(filtered_element, t, tg.tile_arange(N, dtype=int))
    tg.tile_ifft(t)
    tg.tile_store(y[i], tg.tile_map(real, t))


def signals(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Wave packets of frequencies from 10 to 40 periods, and the same with drift, hum and noise."""
    rng = np.random.default_rng(0)
    time = np.arange(N) / N
    count = np.arange(size)[:, None]
    packet = np.sin(2 * np.pi * (10 + 7 * count % 31) * time) * np.exp(-80 * (time - 0.5) ** 2)
    drift = 2.0 * np.sin(np.pi * time + count)
    hum = 1.5 * np.sin(2 * np.pi * HUM * time + count)
    return packet, packet + drift + hum + 0.5 * rng.standard_normal(packet.shape)


def run(size: int) -> dict[str, np.ndarray]:
    packet, measured = signals(size)
    x, y = tg.array(measured, dtype=float), tg.zeros((size, N))
    tg.launch_tiled(clean, size, inputs=[x], outputs=[y], block_dim=64)
    return {"packet": packet, "measured": measured, "cleaned": y.numpy()}


def draw(figure: Any, r: dict[str, np.ndarray]) -> None:
    columns = figure.subplots(1, 3, sharey=True)
    for k, axes in enumerate(columns):
        axes.plot(r["measured"][k], linewidth=0.5, color="0.7", label="measured")
        axes.plot(r["cleaned"][k], linewidth=1.0, label="filtered")
        axes.plot(r["packet"][k], "k:", linewidth=0.8, label="without noise")
        axes.set_title(f"{10 + 7 * k % 31} periods")
    columns[-1].legend(fontsize=6, loc="lower right")


if __name__ == "__main__":
    show.main(run, draw, size=512)
