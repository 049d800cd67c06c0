"""Roles that pass tiles of registers through a pipe that threads fill: squares of rows."""

from __future__ import annotations

from typing import Any

import tegula as tg


def chain(stages: int) -> Any:
    """A kernel; `stages`: the stages of the pipe of squares. tools/sanitize.py refers to lines of this function."""

    @tg.kernel
    def squared(x: tg.array2d[float], out: tg.array2d[float], n: int):
        rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=3)
        squares = tg.tile_pipe(shape=(1, 32), dtype=float, stages=stages)
        with tg.role("load", warps=1):
            for k in range(n):
                tg.tile_pipe_load(rows, x, offset=(k, 0))
        with tg.role("square", warp_groups=1):
            for k in range(n):
                row = tg.tile_pipe_pop(rows)
                tg.tile_pipe_push(squares, row * row)
        with tg.role("store", warps=2):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(squares), offset=(k, 0))

    return squared
