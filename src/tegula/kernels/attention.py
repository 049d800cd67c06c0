"""Attention. The softmax of one tile of keys is overlapped with the matmul of the previous tile's weights and values.

Tiles of keys are visited from the last visible tile to the first, so that only the first tile, which is peeled from the
loop, needs a mask. Without a causal mask blocks are persistent, and fetch the next tile of queries with its first keys
during the epilogue of the current tile. With a causal mask each tile of queries has a block of its own; blocks with the
most keys start first."""

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.operands import (
    ByteRanges,
    ConfigCache,
    Copies,
    allows_bulk_reads,
    checked_array,
    expect_disjoint,
    expect_shape,
    make_allocator,
    needs_gradient,
    processors,
    with_aligned_copy,
)

DTYPES = ("bfloat16", "float16")
QUERIES = KEYS = 128
"""The number of rows of a tile of queries, and of a tile of keys or values."""
STAGES = {64: 3, 128: 2}
"""The number of stages of the pipes of keys and of values, by head dimension."""
CACHE_BYTES = 16 << 20
"""The target bytes of keys and values that concurrent causal blocks read, so that the keys and values stay in the L2
cache."""
LOG2E, LN2 = 1.0 / math.log(2.0), math.log(2.0)
MIN_ROW_MAX = -1e30
"""The lower bound of the running maximum of a row's scores. With minus infinity instead, the weights of a row without
visible keys would be NaN, not 0."""


@cache
def forward(dtype: Any, depth: int, causal: bool, ragged: bool, logs: bool) -> Any:
    """The kernel for heads of dimension `depth`. `ragged`: whether the diagonal of the mask misses the corners of
    tiles, so that the diagonal may cross two tiles of keys; `logs`: whether the kernel also stores the logarithms of
    the sums."""
    stages = STAGES[depth]
    sums = tg.array3d[tg.float32] if logs else int

    @tg.func
    def tiles_of_keys(row: int, keys: int, key_offset: int):
        """The number of tiles of keys that are visible to the tile of queries from `row` on, at least 1."""
        stop = tg.max(tg.min(keys, row + QUERIES + key_offset) if causal else keys, 1)
        return (stop + KEYS - 1) // KEYS

    @tg.func
    def visible(scores: Any, limit: int):
        """The scores, with minus infinity at the keys that are masked for a row. `limit`: with a causal mask the last
        visible key of the first row, else the number of keys."""
        columns = tg.tile_reshape(tg.tile_arange(KEYS, dtype=int), shape=(1, KEYS))
        if causal:
            rows = tg.tile_reshape(tg.tile_arange(QUERIES, dtype=int), shape=(QUERIES, 1))
            return tg.where(columns <= rows + limit, scores, -tg.inf)
        return tg.where(columns < limit, scores, -tg.inf)

    @tg.kernel
    def attention(
        q: tg.array4d[dtype],
        k: tg.array4d[dtype],
        v: tg.array4d[dtype],
        scale: float,
        group_heads: int,
        blocks: int,
        full_iterations: int,
        last_tiles: int,
        tiles: int,
        heads: int,
        heads_per_key: int,
        keys: int,
        key_offset: int,
        lse: sums,
        o: tg.array4d[dtype],
    ):
        if causal:
            # The last rows of all heads of a group start first: most keys are visible to them.
            group, i, j = tg.tid()
            n, iterations = (group * group_heads + j) * tiles + tiles - 1 - i, 1
        else:
            n = tg.tid()
            iterations = full_iterations + tg.min(1, tg.max(0, last_tiles - n))
        query_pipe = tg.tile_pipe(shape=(QUERIES, depth), dtype=dtype, stages=1)
        key_pipe = tg.tile_pipe(shape=(KEYS, depth), dtype=dtype, stages=stages)
        value_pipe = tg.tile_pipe(shape=(KEYS, depth), dtype=dtype, stages=stages)
        with tg.ws(0, registers=24 if causal else 40):
            for r in range(iterations):
                head = (n + r * blocks) // tiles
                row = QUERIES * (n + r * blocks - head * tiles)
                b = head // heads
                h = head - b * heads
                g = h // heads_per_key
                steps = tiles_of_keys(row, keys, key_offset)
                tg.tile_pipe_load(query_pipe, q[b, h], offset=(row, 0))
                tg.tile_pipe_load(key_pipe, k[b, g], offset=((steps - 1) * KEYS, 0))
                for m in range(1, steps):
                    tg.tile_pipe_load(key_pipe, k[b, g], offset=((steps - 1 - m) * KEYS, 0))
                    tg.tile_pipe_load(value_pipe, v[b, g], offset=((steps - m) * KEYS, 0))
                tg.tile_pipe_load(value_pipe, v[b, g], offset=(0, 0))
        with tg.ws(1, 2, registers=240 if causal else 232):
            for r in range(iterations):
                head = (n + r * blocks) // tiles
                row = QUERIES * (n + r * blocks - head * tiles)
                steps = tiles_of_keys(row, keys, key_offset)
                limit = (row + key_offset if causal else keys) - (steps - 1) * KEYS
                x = tg.tile_pipe_pop(query_pipe)
                acc = tg.tile_zeros(shape=(QUERIES, depth), dtype=float)
                s = tg.tile_zeros(shape=(QUERIES, KEYS), dtype=float)
                tg.tile_matmul(x, tg.tile_transpose(tg.tile_pipe_pop(key_pipe)), s)
                s = visible(s, limit)
                row_max = tg.max(tg.tile_max(s, axis=1, keepdims=True) * scale, MIN_ROW_MAX)
                p = tg.fast.exp2(tg.fma(s, scale, tg.tile_broadcast(-row_max, shape=(QUERIES, KEYS))))
                total, weights = tg.tile_sum(p, axis=1, keepdims=True), tg.tile_astype(p, dtype)
                for m in range(steps - 1):
                    s = tg.tile_zeros(shape=(QUERIES, KEYS), dtype=float)
                    tg.tile_matmul(x, tg.tile_transpose(tg.tile_pipe_pop(key_pipe)), s, wait=False)
                    tg.tile_matmul(weights, tg.tile_pipe_pop(value_pipe), acc, wait=False)
                    tg.tile_matmul_wait(pending=1)
                    if ragged and m == 0:
                        s = visible(s, limit + KEYS)
                    new_max = tg.max(row_max, tg.tile_max(s, axis=1, keepdims=True) * scale)
                    p = tg.fast.exp2(tg.fma(s, scale, tg.tile_broadcast(-new_max, shape=(QUERIES, KEYS))))
                    rescale = tg.fast.exp2(row_max - new_max)
                    total = total * rescale + tg.tile_sum(p, axis=1, keepdims=True)
                    row_max = new_max
                    tg.tile_matmul_wait()
                    weights = tg.tile_astype(p, dtype)
                    acc = acc * tg.tile_broadcast(rescale, shape=(QUERIES, depth))
                tg.tile_matmul(weights, tg.tile_pipe_pop(value_pipe), acc)
                b = head // heads
                h = head - b * heads
                if logs:
                    log_sum = tg.where(total > 0.0, tg.log(total) + row_max * LN2, -tg.inf)
                    tg.tile_store(lse[b, h], tg.tile_reshape(log_sum, shape=QUERIES), offset=row)
                inverse = tg.where(total > 0.0, 1.0 / total, 0.0)
                result = acc * tg.tile_broadcast(inverse, shape=(QUERIES, depth))
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
    """Attention: softmax(scale * q @ k^T) @ v for every head.

    Scores and row sums are float32; weights are rounded to the dtype of `v`.

    Parameters:
        q: (B, H, S, D), of bfloat16 or float16; D is 64 or 128.
        k, v: (B, HK, T, D), of the dtype of `q`; H is a multiple of HK, and head h reads keys and values h //
            (H // HK).
        out: (B, H, S, D), of the dtype of `q`, in memory disjoint from the inputs; a new array by default.
        causal: whether query s attends only to the keys up to s + T - S, so that the last query attends to all keys; a
            query without keys gives 0. False by default.
        scale: a positive float, the factor of the scores; 1 / sqrt(D) by default.
        return_lse: whether to return the logarithms of the sums too; False by default.
    Returns:
        `out`, or a new array on the device of the inputs: a PyTorch tensor if `q` is a PyTorch tensor, else a tg.array.
        With `return_lse` also an array (B, H, S) of float32, the logarithms of the sums of exp(scale * q @ k^T); -inf
        for a query without keys.
    Raises:
        launch: shapes, dtypes, devices or the scale do not fit.
    Gradient:
        recorded by tapes.
    Source:
        Dao, FlashAttention-2 (2023); Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
    """
    if scale is not None and not 0.0 < scale < math.inf:
        message = f"attention: scale must be positive, got {scale}"
        raise tg.LaunchError(message, "negate q for a negative scale")
    plan: AttentionConfig = plans.find((q, k, v), out, (bool(causal), bool(return_lse)))
    new_outputs = [] if out is not None else [out := plan.new()]
    lse: Any = plan.new_lse() if return_lse else 0
    if needs_gradient(q, k, v):
        for output in (*new_outputs, lse):
            if isinstance(output, tg.array):
                output.requires_grad = True
    if plan.kernel is not None:
        inputs = [q, k, v]
        if plan.copies:
            inputs = [copy(x) if copy else x for x, copy in zip(inputs, plan.copies, strict=True)]
        factor = plan.factor if scale is None else LOG2E * float(scale)
        tg.launch_tiled(plan.kernel, plan.grid, [*inputs, factor, *plan.sizes], [lse, out])
    return (out, lse) if return_lse else out


class AttentionConfig(NamedTuple):
    """The configuration of attention for all arguments with one launch key. `new`, `new_lse`: functions that allocate
    missing outputs; `byte_ranges`: the byte ranges of the passed output and the inputs. `kernel`: None if there is
    nothing to compute; `sizes`: the kernel's integer arguments. `copies`: for each operand the function that makes an
    aligned copy for bulk copies, or None; empty if no operand needs a copy. `factor`: the default scale of the
    scores."""

    new: Callable[[], Any]
    new_lse: Callable[[], Any]
    byte_ranges: ByteRanges | None
    kernel: Any
    grid: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    copies: Copies = ()
    factor: float = 1.0


def _configure(q: Any, k: Any, v: Any, out: Any, causal: bool, logs: bool) -> AttentionConfig:
    """The configuration for arguments of attention; LaunchError for arguments that do not fit."""
    operands = {
        name: checked_array("attention", name, x, 4, DTYPES) for name, x in (("q", q), ("k", k), ("v", v))
    }
    queries, keys = operands["q"], operands["k"]
    _check(operands)
    batch, heads, length, depth = queries.shape
    dtype, device = queries.dtype, queries.device
    allocate = make_allocator(queries.shape, dtype, q, device)
    allocate_lse = make_allocator((batch, heads, length), tg.float32, q, device)
    byte_ranges = None
    if out is not None:
        target = checked_array("attention", "out", out, 4, (str(dtype),))
        expect_shape("attention", "out", target, queries.shape, "'q'")
        byte_ranges = expect_disjoint("attention", target, operands)
    if not queries.size:
        return AttentionConfig(allocate, allocate_lse, byte_ranges, None)
    causal = causal and length > 1
    ragged = causal and (keys.shape[2] - length) % KEYS != 0
    copies = [
        None if allows_bulk_reads(x) else partial(with_aligned_copy, dtype=dtype) for x in operands.values()
    ]
    grid, sizes = launch_shape(queries.shape, keys.shape, dtype.bits, processors(device), causal)
    return AttentionConfig(
        allocate,
        allocate_lse,
        byte_ranges,
        kernel=forward(dtype, depth, causal, ragged, logs),
        grid=grid,
        sizes=sizes,
        copies=copies if any(copies) else (),
        factor=LOG2E / math.sqrt(depth),
    )


plans = ConfigCache(_configure)


@lru_cache(maxsize=1024)
def launch_shape(
    query_shape: tuple[int, ...], keys: tuple[int, ...], bits: int, max_blocks: int, causal: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The grid, and the kernel's integer arguments: heads per group; blocks; the number of iterations in which every
    block has a tile; the number of tiles in the last, partial iteration; tiles per head; heads; query heads per key
    head; keys; and keys minus queries. A group is the largest set of heads whose keys and values fit into the cache,
    with at least one tile for each of the `max_blocks` concurrent blocks."""
    batch, heads, length, depth = query_shape
    tiles, head_count, heads_per_key = math.ceil(length / QUERIES), batch * heads, heads // keys[1]
    bytes_per_head = 2 * keys[2] * depth * bits // 8 // heads_per_key
    full_groups = [
        n for n in range(1, head_count + 1) if head_count % n == 0 and n * tiles >= max_blocks
    ] or [head_count]
    group_heads = max((n for n in full_groups if n * bytes_per_head <= CACHE_BYTES), default=full_groups[0])
    blocks = min(max_blocks, head_count * tiles)
    grid = (head_count // group_heads, tiles, group_heads) if causal else (blocks,)
    sizes = (
        group_heads,
        blocks,
        *divmod(head_count * tiles, blocks),
        tiles,
        heads,
        heads_per_key,
        keys[2],
        keys[2] - length,
    )
    return grid, sizes


def _check(operands: dict[str, Any]) -> None:
    """Raise LaunchError if queries, keys and values do not fit each other."""
    q, k, v = operands.values()
    (batch, heads, _, depth), groups = q.shape, k.shape[1]
    if depth not in STAGES:
        message = f"attention: the last dimension must be {' or '.join(map(str, STAGES))}, got 'q' of shape {q.shape}"
        raise tg.LaunchError(message, "pad q, k and v with zeros, and pass scale=")
    expect_shape("attention", "k", k, (batch, groups, k.shape[2], depth), f"'q' of shape {q.shape}")
    expect_shape("attention", "v", v, k.shape, "'k'")
    if heads and (not groups or heads % groups):
        message = (
            f"attention: the {heads} heads of 'q' are not a multiple of the {groups} heads of 'k' and 'v'"
        )
        raise tg.LaunchError(message, "each head of 'k' and 'v' serves the same number of heads of 'q'")
    if not q.dtype == k.dtype == v.dtype:
        message = f"attention: 'q', 'k' and 'v' must be of one dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        raise tg.LaunchError(message, "convert 'k' and 'v' to the dtype of 'q'")
