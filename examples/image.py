"""A photograph's first two steps: a Gaussian blur, then edges by Sobel's differences.

A block loads a tile with a margin, whatever the size of the image, and filters are sums of shifted views of the tile.

python examples/image.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

H, W = 16, 64
RADIUS, SIGMA = 4, 1.8
WEIGHTS = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
WEIGHTS = (WEIGHTS / WEIGHTS.sum()).astype(np.float32)


@tg.kernel
def blur(image: tg.array2d[float], out: tg.array2d[float]):
    """A blur along rows, then along columns, of one tile; outside the image everything is black."""
    i, j = tg.tid()
    t = tg.tile_load(image, shape=(H + 2 * RADIUS, W + 2 * RADIUS), offset=(i * H - RADIUS, j * W - RADIUS))
    rows = tg.tile_zeros(shape=(H + 2 * RADIUS, W))
    for k in tg.static(range(2 * RADIUS + 1)):
        rows += WEIGHTS[k] * t[:, k : k + W]
    total = tg.tile_zeros(shape=(H, W))
    for k in tg.static(range(2 * RADIUS + 1)):
        total += WEIGHTS[k] * rows[k : k + H]
    tg.tile_store(out, total, offset=(i * H, j * W))


@tg.kernel
def edges(image: tg.array2d[float], out: tg.array2d[float]):
    """The length of the gradient, by Sobel's filters."""
    i, j = tg.tid()
    t = tg.tile_load(image, shape=(H + 2, W + 2), offset=(i * H - 1, j * W - 1))
    row_difference = t[2:] - t[:-2]
    column_difference = t[:, 2:] - t[:, :-2]
    y = row_difference[:, :-2] + 2.0 * row_difference[:, 1:-1] + row_difference[:, 2:]
    x = column_difference[:-2] + 2.0 * column_difference[1:-1] + column_difference[2:]
    tg.tile_store(out, tg.sqrt(x * x + y * y), offset=(i * H, j * W))


def drawing(size: int) -> np.ndarray:
    """Discs of several shades with noise, 2 * size wide and high by a size that tiles need not divide."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    image = 0.2 + 0.1 * y
    for radius, shade, centre_x in ((0.8, 0.5, -0.1), (0.5, 0.9, 0.2), (0.2, 0.3, 0.4)):
        image[(x - centre_x) ** 2 + y**2 < radius**2] = shade
    return (image + 0.1 * np.random.default_rng(0).standard_normal(image.shape)).astype(np.float32)


def run(size: int, block_dim: int = 128) -> dict[str, np.ndarray]:
    image = tg.array(drawing(size))
    blurred, edge = tg.zeros_like(image), tg.zeros_like(image)
    blocks = -(-size // H), -(-size // W)
    tg.launch_tiled(blur, blocks, inputs=[image], outputs=[blurred], block_dim=block_dim)
    tg.launch_tiled(edges, blocks, inputs=[blurred], outputs=[edge], block_dim=block_dim)
    return {"image": image.numpy(), "blurred": blurred.numpy(), "edges": edge.numpy()}


def draw(figure: Any, result: dict[str, np.ndarray]) -> None:
    show.images(figure, result, cmap="gray")


if __name__ == "__main__":
    show.main(run, draw, size=180)
