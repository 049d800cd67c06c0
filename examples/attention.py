"""Attention in roles, as an associative memory: a warp fetches patterns, and a warp group compares them with noisy
queries.

The checker proves the schedule before it runs on a GPU; explain() shows roles and pipes.

python examples/attention.py [--device cuda:0] [--size KEYS] [--picture PATH]"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import show

import tegula as tg

HEADS, DEPTH = 4, 64
QUERIES, KEYS = 64, 64
SCALE, LOG2E = 0.5, 1.0 / math.log(2.0)


@tg.kernel
def attention(
    q: tg.array3d[tg.bfloat16],
    k: tg.array3d[tg.bfloat16],
    v: tg.array3d[tg.bfloat16],
    scale: float,
    out: tg.array3d[tg.bfloat16],
):
    """softmax(scale * q @ k.T) @ v of QUERIES rows of a head; the softmax is over the keys read so far."""
    h, i = tg.tid()
    steps = (k.shape[1] + KEYS - 1) // KEYS
    queries = tg.tile_pipe(shape=(QUERIES, DEPTH), dtype=tg.bfloat16, stages=1)
    keys = tg.tile_pipe(shape=(KEYS, DEPTH), dtype=tg.bfloat16, stages=2)
    values = tg.tile_pipe(shape=(KEYS, DEPTH), dtype=tg.bfloat16, stages=2)
    with tg.role("fetch", warps=1):
        tg.tile_pipe_load(queries, q[h], offset=(i * QUERIES, 0))
        for n in range(steps):
            tg.tile_pipe_load(keys, k[h], offset=(n * KEYS, 0))
            tg.tile_pipe_load(values, v[h], offset=(n * KEYS, 0))
    with tg.role("compute", warp_groups=1):
        rows = tg.tile_pipe_pop(queries)
        total = tg.tile_zeros(shape=(QUERIES, DEPTH))
        row_max, row_sum = tg.tile_full((QUERIES, 1), -1e30), tg.tile_zeros(shape=(QUERIES, 1))
        columns = tg.tile_reshape(tg.tile_arange(KEYS, dtype=int), (1, KEYS))
        for n in range(steps):
            scores = tg.tile_zeros(shape=(QUERIES, KEYS))
            tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(keys)), scores)
            scores = tg.where(columns < k.shape[1] - n * KEYS, scores * (scale * LOG2E), -1e30)
            new_max = tg.max(row_max, tg.tile_max(scores, axis=1, keepdims=True))
            p, correction = tg.exp2(scores - new_max), tg.exp2(row_max - new_max)
            row_sum = row_sum * correction + tg.tile_sum(p, axis=1, keepdims=True)
            total = total * correction
            tg.tile_matmul(tg.tile_astype(p, tg.bfloat16), tg.tile_pipe_pop(values), total)
            row_max = new_max
        tg.tile_store(out[h], tg.tile_astype(total / row_sum, tg.bfloat16), offset=(i * QUERIES, 0))


def patterns(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The stored patterns, pictures of 8 by 8 pixels with stripes, and the same pictures with noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:8, 0:8]
    angle, phase = rng.uniform(0.0, np.pi, (2, HEADS, size, 1, 1))
    stored_patterns = np.sign(np.sin(1.2 * (np.cos(angle) * x + np.sin(angle) * y) + 4.0 * phase)).reshape(
        HEADS, size, DEPTH
    )
    return stored_patterns, stored_patterns + 0.8 * rng.standard_normal(stored_patterns.shape)


def run(size: int) -> dict[str, Any]:
    stored, noisy = (tg.array(x, dtype=tg.bfloat16) for x in patterns(size))
    result = tg.zeros_like(noisy)
    blocks = HEADS, -(-size // QUERIES)
    tg.launch_tiled(attention, blocks, inputs=[noisy, stored, stored, SCALE], outputs=[result])
    pictures = {"known": stored, "noisy": noisy, "found": result}
    images = {name: x.numpy().astype(np.float32) for name, x in pictures.items()}
    return images | {"schedule": schedule(), "proved": attention.check().passed}


def schedule() -> str:
    """The roles and pipes of the kernel that ran, with the details of each."""
    lines = attention.explain().splitlines()
    parts = itertools.takewhile(
        lambda x: x[0] == " " or x in ("roles:", "pipes:"), lines[lines.index("roles:") :]
    )
    return "\n".join(parts)


def draw(figure: Any, r: dict[str, Any]) -> None:
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
    pictures = (r[name][0, :8].reshape(8, 8, 8) for name in ("noisy", "found", "known"))
    rows = [np.hstack([np.pad(x, 1, constant_values=np.nan) for x in row]) for row in pictures]
    upper.imshow(np.vstack(rows), cmap="gray", vmin=-2, vmax=2)
    upper.set(xticks=[], yticks=(4.5, 14.5, 24.5), yticklabels=("noisy queries", "found", "remembered"))
    upper.tick_params(length=0)
    upper.spines[:].set_visible(False)
    lower.text(0, 1, r["schedule"], family="monospace", fontsize=7, va="top")
    lower.set_axis_off()


if __name__ == "__main__":
    show.main(run, draw, size=512)
