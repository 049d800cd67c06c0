"""Kernels that copy tiles of several dimensions through pipes."""

from __future__ import annotations

from typing import Any

import tegula as tg

SHAPES = [(16,), (1,), (6, 8), (3, 4, 8), (2, 3, 5), (2, 3, 4, 8), (2, 2, 3, 3)]


@tg.func
def offset_1d(k: int):
    return k


@tg.func
def offset_2d(k: int):
    return k, 0


@tg.func
def offset_3d(k: int):
    return k, 0, 0


@tg.func
def offset_4d(k: int):
    return k, 0, 0, 0


OFFSETS = (offset_1d, offset_2d, offset_3d, offset_4d)


def copy_through_pipes(shape: tuple[int, ...]) -> Any:
    """A kernel that loads adjacent tiles along the first dimension, pushes them doubled to a second pipe, and stores
    them."""
    offset_of, rows = OFFSETS[len(shape) - 1], shape[0]

    @tg.kernel
    def copies(x, y, n: int):
        loaded = tg.tile_pipe(shape=shape, dtype=tg.float32, stages=3)
        doubled = tg.tile_pipe(shape=shape, dtype=tg.float32, stages=2)
        with tg.role("fetch", warps=1):
            for k in range(n):
                tg.tile_pipe_load(loaded, x, offset=offset_of(k * rows))
        with tg.role("double", warps=2):
            for _k in range(n):
                tg.tile_pipe_push(doubled, tg.tile_pipe_pop(loaded) * 2.0)
        with tg.role("store", warp_groups=1):
            for k in range(n):
                tg.tile_store(y, tg.tile_pipe_pop(doubled), offset=offset_of(k * rows))

    return copies
