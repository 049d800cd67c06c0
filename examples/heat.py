"""The heat equation, and its inverse: which initial temperatures did a plate have, given its temperatures now?

Heat spreads for STEPS steps, in tiles with a margin of one point. A tape runs the same kernel backwards for the
gradient by the initial temperatures, and gradient descent finds the initial temperatures that explain the measured
temperatures.

python examples/heat.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

TILE = 16
SPEED, STEPS, TRIES = 0.2, 24, 60


@tg.kernel
def spread(old: tg.array2d[float], new: tg.array2d[float]):
    """A step of the heat equation on a tile, with a margin of one point; around the plate it is 0 degrees."""
    i, j = tg.tid()
    t = tg.tile_load(old, shape=(TILE + 2, TILE + 2), offset=(i * TILE - 1, j * TILE - 1))
    middle = t[1:-1, 1:-1]
    neighbour_sum = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]
    tg.tile_store(new, middle + SPEED * (neighbour_sum - 4.0 * middle), offset=(i * TILE, j * TILE))


@tg.kernel
def misfit(actual: tg.array2d[float], measured: tg.array2d[float], loss: tg.array[float]):
    i, j = tg.tid()
    residual = tg.tile_load(actual, shape=(TILE, TILE), offset=(i * TILE, j * TILE))
    residual -= tg.tile_load(measured, shape=(TILE, TILE), offset=(i * TILE, j * TILE))
    tg.tile_atomic_add(loss, tg.tile_sum(residual * residual))


def blocks(size: int) -> tuple[int, int]:
    return -(-size // TILE), -(-size // TILE)


def diffuse(plate: Any, block_dim: int = 64) -> Any:
    """The plate after STEPS steps, each in its own array, because a tape needs all of them."""
    for _ in range(STEPS):
        new = tg.zeros_like(plate)
        tg.launch_tiled(spread, blocks(len(plate)), inputs=[plate], outputs=[new], block_dim=block_dim)
        plate = new
    return plate


def gradient(guess: Any, measured: Any) -> tuple[float, Any]:
    """The sum of the squared residuals of the guess at the end, and its gradient."""
    loss = tg.zeros(1, requires_grad=True)
    guess.grad.zero_()
    with tg.Tape() as tape:
        result = diffuse(guess)
        tg.launch_tiled(misfit, blocks(len(guess)), inputs=[result, measured], outputs=[loss], block_dim=64)
    tape.backward(loss)
    return loss.item(), guess.grad


def letter(size: int) -> np.ndarray:
    """A hot letter T on a cold plate."""
    plate = np.zeros((size, size), np.float32)
    a, b, c, d, e = (int(size * part) for part in (0.2, 0.35, 0.42, 0.58, 0.8))
    plate[a:b, a:e] = plate[b:e, c:d] = 1.0
    return plate


def run(size: int, tries: int = TRIES) -> dict[str, Any]:
    beginning = letter(size)
    measured = diffuse(tg.array(beginning))
    guess = tg.zeros((size, size), requires_grad=True)
    descent = tg.optim.SGD([guess], lr=0.4, momentum=0.9, nesterov=True)
    losses = []
    for _ in range(tries):
        loss, slope = gradient(guess, measured)
        losses.append(loss)
        descent.step([slope])
    return {"begin": beginning, "measured": measured.numpy(), "found": guess.numpy(), "losses": losses}


def draw(figure: Any, result: dict[str, Any]) -> None:
    labels = {"at the beginning": "begin", "measured later": "measured", "recovered from it": "found"}
    show.images(figure, {title: result[k] for title, k in labels.items()}, vmin=0, vmax=1, cmap="inferno")


if __name__ == "__main__":
    show.main(run, draw, size=64)
