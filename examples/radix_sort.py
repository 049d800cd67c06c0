"""A radix sort: blocks count the keys of each digit, a scan over the counts gives the destination of each block's keys,
and the blocks move the keys there.

python examples/radix_sort.py [--device cuda:0] [--size KEYS] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

TILE, BITS = 512, 4
DIGITS = 1 << BITS
LAST = tg.constant(tg.uint32(0xFFFFFFFF))


@tg.func
def digits_of(keys, shift: tg.uint32):
    return tg.tile_astype((keys >> shift) & tg.uint32(DIGITS - 1), int)


@tg.kernel
def count(keys: tg.array[tg.uint32], shift: tg.uint32, counts: tg.array2d[int]):
    """counts[d, b]: how many keys of block b have the digit d. The padding of the last tile sorts last."""
    b = tg.tid()
    digits = digits_of(tg.tile_load(keys, TILE, offset=b * TILE, fill=LAST), shift)
    tg.tile_store(counts[:, b], tg.tile_histogram(digits, DIGITS))


@tg.kernel
def move(keys: tg.array[tg.uint32], shift: tg.uint32, offsets: tg.array2d[int], out: tg.array[tg.uint32]):
    """Sorts a tile by one digit, then scatters its keys. offsets[d, b]: the start of the keys of block b with digit
    d."""
    b, lane = tg.tid()
    tile_keys = tg.tile_load(keys, TILE, offset=b * TILE, fill=LAST)
    digits = digits_of(tile_keys, shift)
    first = tg.tile_load(offsets[:, b], DIGITS) - tg.tile_scan_exclusive(tg.tile_histogram(digits, DIGITS))
    tg.tile_sort(digits, tile_keys)
    for k in range(lane, TILE, tg.block_dim()):
        to = first[digits[k]] + k
        if to < out.shape[0]:
            out[to] = tile_keys[k]


def histogram(keys: Any, shift: int, block_dim: int) -> Any:
    """counts[d, b]: how many keys of block b have the digit d."""
    counts = tg.empty((DIGITS, -(-len(keys) // TILE)), dtype=int)
    tg.launch_tiled(count, counts.shape[1], inputs=[keys, shift], outputs=[counts], block_dim=block_dim)
    return counts


def radix_sort(keys: Any, block_dim: int = 128) -> Any:
    """The keys, an array of uint32, in ascending order."""
    for shift in range(0, 32, BITS):
        counts = histogram(keys, shift, block_dim)
        offsets, out = tg.empty_like(counts), tg.empty_like(keys)
        tg.utils.array_scan(counts.flatten(), offsets.flatten(), inclusive=False)
        inputs = [keys, shift, offsets]
        tg.launch_tiled(move, counts.shape[1], inputs=inputs, outputs=[out], block_dim=block_dim)
        keys = out
    return keys


def unsorted(size: int) -> np.ndarray:
    """Keys that are dense around the middle of their range and sparse at its ends."""
    middle = np.random.default_rng(0).standard_normal(size) * 2**29 + 2**31
    return np.clip(middle, 0, 2**32 - 1).astype(np.uint32)


def run(size: int, block_dim: int = 128) -> dict[str, np.ndarray]:
    keys = tg.array(unsorted(size))
    counts = histogram(keys, 32 - BITS, block_dim).numpy().sum(axis=1)
    counts[-1] -= -size % TILE  # the padding of the last tile
    return {"keys": keys.numpy(), "sorted": radix_sort(keys, block_dim).numpy(), "counts": counts}


def draw(figure: Any, result: dict[str, np.ndarray]) -> None:
    left, middle, right = figure.subplots(1, 3)
    stride = max(1, len(result["keys"]) // 2000)
    for axes, name in ((left, "keys"), (right, "sorted")):
        axes.scatter(
            range(0, len(result[name]), stride), result[name][::stride], s=0.5, linewidths=0, rasterized=True
        )
        axes.set_title(name)
        axes.set(xticks=[], yticks=[])
    middle.barh(range(DIGITS), result["counts"])
    middle.set(title="keys of each first digit", xticks=[])


if __name__ == "__main__":
    show.main(run, draw, size=1 << 18)
