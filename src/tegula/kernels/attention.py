"""Attention: the softmax of the scores of one tile of keys is computed beside the product of the weights of the tile
before with its values.

The keys are walked from the last one that counts to the first, so that only the tile that stands before the loop holds
some that do not."""

import math
from functools import cache
from typing import Any

import tegula as tg
from tegula.kernels.operands import empty, expect_apart, expect_shape, reachable, seen

DTYPES = ("bfloat16", "float16")
QUERIES = 128
"""Rows of a block."""
DEPTHS = {64: (128, 3), 128: (160, 2)}
"""Head dimensions, with the keys of a tile and how many tiles of keys and of values are in memory at once: for heads of
128 as many keys as registers and memory hold."""
LOG2E, LN2 = 1.0 / math.log(2.0), math.log(2.0)
FAR = -1e30
"""The least that counts as the largest score of a row: relative to it the weights of a row without keys are 0, not
NaN."""


@cache
def forward(dtype: Any, depth: int, causal: bool, ragged: bool, logs: bool) -> Any:
    """The kernel for heads of `depth`. `ragged`: the diagonal does not run through corners of tiles, so that two tiles
    of keys may lie on it; `logs`: whether the logarithms of the sums are wanted."""
    width, stages = DEPTHS[depth]
    sums = tg.array3d[tg.float32] if logs else int

    @tg.func
    def visible(scores: Any, row: int, column: int, keys: int, past: int):
        """The scores of the keys that a row may see; minus infinity for the others."""
        columns = tg.tile_reshape(tg.tile_arange(width, dtype=int), shape=(1, width)) + column
        if causal:
            rows = tg.tile_reshape(tg.tile_arange(QUERIES, dtype=int), shape=(QUERIES, 1)) + row
            seen = columns <= rows + past
        else:
            seen = columns < keys
        return tg.where(seen, scores, -tg.inf)

    @tg.kernel
    def attention(
        q: tg.array4d[dtype],
        k: tg.array4d[dtype],
        v: tg.array4d[dtype],
        scale: float,
        lse: sums,
        o: tg.array4d[dtype],
    ):
        b, h, i = tg.tid()
        g = h // (q.shape[1] // k.shape[1])
        keys, past = k.shape[2], k.shape[2] - q.shape[2]
        # Blocks start in order, and the last rows see the most keys.
        row = QUERIES * ((q.shape[2] + QUERIES - 1) // QUERIES - 1 - i) if causal else QUERIES * i
        stop = tg.max(tg.min(keys, row + QUERIES + past) if causal else keys, 1)
        steps = (stop + width - 1) // width
        query_pipe = tg.tile_pipe(shape=(QUERIES, depth), dtype=dtype, stages=1)
        key_pipe = tg.tile_pipe(shape=(width, depth), dtype=dtype, stages=stages)
        value_pipe = tg.tile_pipe(shape=(width, depth), dtype=dtype, stages=stages)
        with tg.ws(0, registers=24):
            tg.tile_pipe_load(query_pipe, q[b, h], offset=(row, 0))
            tg.tile_pipe_load(key_pipe, k[b, g], offset=((steps - 1) * width, 0))
            for n in range(1, steps):
                tg.tile_pipe_load(key_pipe, k[b, g], offset=((steps - 1 - n) * width, 0))
                tg.tile_pipe_load(value_pipe, v[b, g], offset=((steps - n) * width, 0))
            tg.tile_pipe_load(value_pipe, v[b, g], offset=(0, 0))
        with tg.ws(1, 2, registers=240):
            x = tg.tile_pipe_pop(query_pipe)
            acc = tg.tile_zeros(shape=(QUERIES, depth), dtype=float)
            s = tg.tile_zeros(shape=(QUERIES, width), dtype=float)
            tg.tile_matmul(x, tg.tile_transpose(tg.tile_pipe_pop(key_pipe)), s)
            s = visible(s, row, (steps - 1) * width, keys, past)
            top = tg.max(tg.tile_max(s, axis=1, keepdims=True) * scale, FAR)
            p = tg.fast.exp2(tg.fma(s, scale, tg.tile_broadcast(-top, shape=(QUERIES, width))))
            total, weights = tg.tile_sum(p, axis=1, keepdims=True), tg.tile_astype(p, dtype)
            for n in range(steps - 1):
                s = tg.tile_zeros(shape=(QUERIES, width), dtype=float)
                tg.tile_matmul(x, tg.tile_transpose(tg.tile_pipe_pop(key_pipe)), s, wait=False)
                tg.tile_matmul(weights, tg.tile_pipe_pop(value_pipe), acc, wait=False)
                tg.tile_matmul_wait(pending=1)
                if ragged and n == 0:
                    s = visible(s, row, (steps - 2) * width, keys, past)
                higher = tg.max(top, tg.tile_max(s, axis=1, keepdims=True) * scale)
                p = tg.fast.exp2(tg.fma(s, scale, tg.tile_broadcast(-higher, shape=(QUERIES, width))))
                shrink = tg.fast.exp2(top - higher)
                total = total * shrink + tg.tile_sum(p, axis=1, keepdims=True)
                top = higher
                tg.tile_matmul_wait()
                weights = tg.tile_astype(p, dtype)
                acc = acc * tg.tile_broadcast(shrink, shape=(QUERIES, depth))
            tg.tile_matmul(weights, tg.tile_pipe_pop(value_pipe), acc)
            if logs:
                log = tg.where(total > 0.0, tg.log(total) + top * LN2, -tg.inf)
                tg.tile_store(lse[b, h], tg.tile_reshape(log, shape=QUERIES), offset=row)
            share = tg.where(total > 0.0, 1.0 / total, 0.0)
            result = acc * tg.tile_broadcast(share, shape=(QUERIES, depth))
            tg.tile_store(o[b, h], tg.tile_astype(result, dtype), offset=(row, 0))

    return attention


def attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """softmax(scale * q @ k.T) @ v for every head, in `out` or in a new array; returns it.

    `q`: (B, H, S, D), `k` and `v`: (B, HK, T, D), all of bfloat16 or all of float16, where D is 64 or 128 and H a
    multiple of HK: head h reads keys and values h // (H // HK). Scores and sums are float32, weights are rounded to the
    type of v. `causal`: query s sees the keys up to s + T - S, so that the last one sees all; one that sees none gives
    0. `scale`: positive, by default 1 / sqrt(D). `return_lse`: also return the logarithms of the sums of
    exp(scale * q @ k.T), float32 of shape (B, H, S), -inf for no keys.

    Runs where the arrays are; new arrays are tensors if `q` is one of PyTorch's, else `tg.array`s. LaunchError for
    arguments that do not fit."""
    given = {name: seen("attention", name, x, 4, DTYPES) for name, x in (("q", q), ("k", k), ("v", v))}
    queries, keys = given["q"], given["k"]
    _check(given, scale)
    batch, heads, length, depth = queries.shape
    out = empty(queries.shape, queries.dtype, q, queries.device) if out is None else out
    target = seen("attention", "out", out, 4, (str(queries.dtype),))
    expect_shape("attention", "out", target, queries.shape, "'q'")
    expect_apart("attention", target, given)
    lse = empty((batch, heads, length), tg.float32, q, queries.device) if return_lse else 0
    causal = causal and length > 1
    width = DEPTHS[depth][0]
    ragged = causal and (width != QUERIES or (keys.shape[2] - length) % width != 0)
    kernel = forward(queries.dtype, depth, causal, ragged, return_lse)
    factor = LOG2E * (1.0 / math.sqrt(depth) if scale is None else float(scale))
    if target.size:
        grid = (batch, heads, math.ceil(length / QUERIES))
        inputs = [reachable(x, known) for x, known in zip((q, k, v), given.values(), strict=True)]
        tg.launch_tiled(kernel, grid, [*inputs, factor], [lse, out])
    return (out, lse) if return_lse else out


def _check(given: dict[str, Any], scale: float | None) -> None:
    """LaunchError for queries, keys and values that do not fit each other."""
    q, k, v = given.values()
    (batch, heads, _, depth), groups = q.shape, k.shape[1]
    if depth not in DEPTHS:
        what = f"attention: the last dimension must be {' or '.join(map(str, DEPTHS))}, got 'q' of shape {q.shape}"
        raise tg.LaunchError(what, "pad q, k and v with zeros, and give the scale")
    expect_shape("attention", "k", k, (batch, groups, k.shape[2], depth), f"'q' of shape {q.shape}")
    expect_shape("attention", "v", v, k.shape, "'k'")
    if heads and (not groups or heads % groups):
        what = f"attention: {heads} heads of 'q' are no multiple of the {groups} of 'k' and 'v'"
        raise tg.LaunchError(what, "each head of k and v serves equally many of q")
    if not q.dtype == k.dtype == v.dtype:
        what = f"attention: 'q', 'k' and 'v' must be of one dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        raise tg.LaunchError(what, "convert the others to that of 'q'")
    if scale is not None and not 0.0 < scale < math.inf:
        raise tg.LaunchError(
            f"attention: scale must be positive, got {scale}", "negate q for a negative scale"
        )
