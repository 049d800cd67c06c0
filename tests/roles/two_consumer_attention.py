"""Attention with weights of 0 and 1, by two concurrent consumers with separate tiles."""

from __future__ import annotations

from typing import Any

import tegula as tg

BM, BN = 32, 16


def attention(d: int, shared: str) -> Any:
    """A kernel with two consumers of half of the rows each, which multiply weights of 0 and 1 by the values."""

    @tg.func
    def weigh(scores: Any):
        return tg.tile_astype(tg.where(scores > 0.0, 1.0, 0.0), tg.float16)

    @tg.kernel
    def kernel(
        q: tg.array2d[tg.float16],
        k: tg.array2d[tg.float16],
        v: tg.array2d[tg.float16],
        o: tg.array2d[float],
        n: int,
    ):
        i = tg.tid()
        keys = tg.tile_pipe(shape=(BN, d), dtype=tg.float16, stages=2)
        values = tg.tile_pipe(shape=(BN, d), dtype=tg.float16, stages=2)
        with tg.ws(0, registers=24):
            for j in range(n):
                tg.tile_pipe_load(keys, k, offset=(j * BN, 0))
                tg.tile_pipe_load(values, v, offset=(j * BN, 0))
        with tg.ws(1, registers=240):
            rows = tg.tile_load(q, shape=(BM, d), offset=(2 * i * BM, 0))
            total = tg.tile_zeros(shape=(BM, d))
            weights = tg.tile_zeros(shape=(BM, BN), dtype=tg.float16, storage=shared)
            for _j in range(n):
                scores = tg.tile_zeros(shape=(BM, BN))
                tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(keys)), scores)
                tg.tile_assign(weights, weigh(scores))
                tg.tile_matmul(weights, tg.tile_pipe_pop(values), total)
            tg.tile_store(o, total, offset=(2 * i * BM, 0))
        with tg.ws(2, registers=240):
            rows = tg.tile_load(q, shape=(BM, d), offset=((2 * i + 1) * BM, 0))
            total = tg.tile_zeros(shape=(BM, d))
            weights = tg.tile_zeros(shape=(BM, BN), dtype=tg.float16, storage=shared)
            for _j in range(n):
                scores = tg.tile_zeros(shape=(BM, BN))
                tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(keys)), scores)
                tg.tile_assign(weights, weigh(scores))
                tg.tile_matmul(weights, tg.tile_pipe_pop(values), total)
            tg.tile_store(o, total, offset=((2 * i + 1) * BM, 0))

    return kernel
