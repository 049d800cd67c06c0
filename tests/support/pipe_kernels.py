"""Kernels whose roles pass tiles through pipes."""

from __future__ import annotations

from typing import Any

import tegula as tg

N = 8


def two_roles(stages: int) -> Any:
    @tg.kernel
    def chain(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        with tg.role("load", warps=1):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.role("store", warps=1):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(pipe) + 2.0, offset=(k, 0))

    return chain


def three_roles(stages: int) -> Any:
    @tg.kernel
    def chain(x: tg.array2d[float], out: tg.array2d[float], n: int):
        first = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        second = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(first, x, offset=(k, 0))
        with tg.ws(1):
            for _k in range(n):
                tg.tile_pipe_push(second, tg.tile_pipe_pop(first) + 1.0)
        with tg.ws(2):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(second) + 1.0, offset=(k, 0))

    return chain


def four_roles(stages: int) -> Any:
    @tg.kernel
    def chain(x: tg.array2d[float], out: tg.array2d[float], n: int):
        first = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        second = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        third = tg.tile_pipe(shape=(1, N), dtype=float, stages=1)
        with tg.role("store", warp_groups=1):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(third), offset=(k, 0))
        with tg.role("add", warps=2):
            for _k in range(n):
                tg.tile_pipe_push(second, tg.tile_pipe_pop(first) + 1.0)
        with tg.role("add again", warps=1):
            for _k in range(n):
                tg.tile_pipe_push(third, tg.tile_pipe_pop(second) + 1.0)
        with tg.role("load", warps=1):
            for k in range(n):
                tg.tile_pipe_load(first, x, offset=(k, 0))

    return chain


COLUMNS = 256


def two_producers(stages: int) -> Any:
    """Two roles of one warp fetch the operands, and a role of two warp groups multiplies rows elementwise."""

    @tg.kernel
    def multiply(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], rows: int):
        left = tg.tile_pipe(shape=(1, COLUMNS), dtype=float, stages=stages)
        right = tg.tile_pipe(shape=(1, COLUMNS), dtype=float, stages=stages)
        with tg.role("fetch x", warps=1, registers=152):
            for i in range(rows):
                tg.tile_pipe_load(left, x, offset=(i, 0))
        with tg.role("fetch y", warps=1, registers=152):
            for i in range(rows):
                tg.tile_pipe_load(right, y, offset=(i, 0))
        with tg.role("multiply", warp_groups=2, registers=176):
            for i in range(rows):
                a, b = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
                tg.tile_store(out, a * b, offset=(i, 0))

    return multiply
