"""Compiles matmuls of roles for a GPU."""

from __future__ import annotations

from typing import Any

import tegula as tg


def roles(
    shape: tuple[int, int, int], a: Any, b: Any, c: Any, transposed: tuple[bool, bool], groups: int
) -> Any:
    """A kernel that sums matmuls of tiles, which one role fetches and other roles multiply. A transposed left operand
    is stored as (k, m), a transposed right operand as (n, k)."""
    m, n, k = shape
    left, right = ((k, m) if transposed[0] else (m, k)), ((n, k) if transposed[1] else (k, n))
    left_transposed, right_transposed = transposed

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], steps: int):
        p = tg.tile_pipe(shape=left, dtype=a, stages=2)
        q = tg.tile_pipe(shape=right, dtype=b, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(steps):
                if left_transposed:
                    tg.tile_pipe_load(p, x, offset=(i * k, 0))
                else:
                    tg.tile_pipe_load(p, x, offset=(0, i * k))
                if right_transposed:
                    tg.tile_pipe_load(q, y, offset=(0, i * k))
                else:
                    tg.tile_pipe_load(q, y, offset=(i * k, 0))
        with tg.role("multiply", warp_groups=groups):
            total = tg.tile_zeros(shape=(m, n), dtype=c)
            for _i in range(steps):
                s, t = tg.tile_pipe_pop(p), tg.tile_pipe_pop(q)
                if left_transposed:
                    s = tg.tile_transpose(s)
                if right_transposed:
                    t = tg.tile_transpose(t)
                tg.tile_matmul(s, t, total, precision="tf32")
            tg.tile_store(z, total)

    return multiply
