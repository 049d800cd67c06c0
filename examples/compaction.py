"""Stream compaction: the points inside a shape, selected from many points, are packed in their order.

python examples/compaction.py [--device cuda:0] [--size POINTS] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

TILE = 256


@tg.func
def is_inside_flower(p: tg.vec2):
    """Whether a point is in a flower of five petals."""
    return tg.length(p) < 0.6 + 0.3 * tg.cos(5.0 * tg.atan2(p.y, p.x))


@tg.func
def flag(p: tg.vec2):
    return tg.where(is_inside_flower(p), 1, 0)


@tg.kernel
def count(points: tg.array[tg.vec2], far: tg.vec2, counts: tg.array[int]):
    """The number of selected points of each block. The padding of the last tile is outside the shape."""
    b = tg.tid()
    t = tg.tile_load(points, TILE, offset=b * TILE, fill=far)
    tg.tile_store(counts, tg.tile_sum(tg.tile_map(flag, t)), offset=b)


@tg.kernel
def pack(points: tg.array[tg.vec2], far: tg.vec2, begins: tg.array[int], packed: tg.array[tg.vec2]):
    """Each block writes its points after the points of the preceding blocks."""
    b, lane = tg.tid()
    t = tg.tile_load(points, TILE, offset=b * TILE, fill=far)
    flags = tg.tile_map(flag, t)
    offsets = tg.tile_scan_exclusive(flags)
    for k in range(lane, TILE, tg.block_dim()):
        if flags[k] == 1:
            packed[begins[b] + offsets[k]] = t[k]


def compact(points: Any, block_dim: int = 128) -> Any:
    """The points, an array of vec2, that are inside the shape."""
    far, blocks = tg.vec2(9.0, 9.0), -(-len(points) // TILE)
    counts, ends = tg.empty(blocks, dtype=int), tg.empty(blocks, dtype=int)
    tg.launch_tiled(count, blocks, inputs=[points, far], outputs=[counts], block_dim=block_dim)
    tg.utils.array_scan(counts, ends)
    packed = tg.empty(ends[-1].item(), dtype=tg.vec2)
    inputs = [points, far, ends - counts]
    tg.launch_tiled(pack, blocks, inputs=inputs, outputs=[packed], block_dim=block_dim)
    return packed


def scattered(size: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (size, 2)).astype(np.float32)


def run(size: int, block_dim: int = 128) -> dict[str, np.ndarray]:
    points = tg.array(scattered(size), dtype=tg.vec2)
    return {"points": points.numpy(), "kept": compact(points, block_dim).numpy()}


def draw(figure: Any, result: dict[str, np.ndarray]) -> None:
    for axes, (name, points) in zip(figure.subplots(1, 2), result.items(), strict=True):
        drawn_points = points[:: max(1, len(points) // 5000)]
        axes.scatter(*drawn_points.T, s=1, linewidths=0, rasterized=True)
        axes.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", title=f"{len(points)} {name}")
        axes.set_axis_off()


if __name__ == "__main__":
    show.main(run, draw, size=1 << 16)
