"""The points with attention: each point is one change of 16 heads of 128 with 8192 keys and tg.fast.exp2; and their
gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.sweep.attention_kernels import LOG2E, ROWS, Options, attention
from benchmarks.sweep.point import Array, Launch, Part, Point, result, table, tiles

GROUP = "attention"
HEADS, LENGTH = 16, 8192
CPU_LENGTH = 384
SOFTCAP = 15.0


def point(
    name: str,
    options: Options,
    heads: int = HEADS,
    queries: int = LENGTH,
    keys: int = LENGTH,
    small: tuple[int, int, int] = (4, CPU_LENGTH, CPU_LENGTH),
    **settings: Any,
) -> Point:
    """A point of the factory. `small`: heads, queries and keys on the CPU."""

    def launch(heads: int, queries: int, keys: int) -> tuple[Launch, dict[str, None]]:
        extra, first = option_arrays(options, heads, queries, keys)
        q = Array((heads, queries, options.depth))
        shape = heads // options.ratio, keys
        if options.paged:
            # The keys of all sequences are pages of one pool.
            shape = options.paged // options.ratio, heads // options.paged * keys
        k, v = (Array((*shape, d)) for d in (options.depth, options.values))
        sums = result(heads, queries, dtype="float32") if options.sums else None
        scale = options.depth**-0.5 * (1.0 if options.exact or options.softcap else LOG2E)
        out = result(heads, queries, options.values)
        scores = scored_pairs(options, queries, keys, first) if queries > 1 else 0.0
        work = 2 * heads * scores * (options.depth + options.values)
        inputs = {"Extra": extra, "Table": first, "Out": out, "Sums": sums}
        absent = {name: None for name, array in inputs.items() if array is None}
        arguments = q, k, v, scale, *(array for array in inputs.values() if array is not None)
        return Launch(arguments, (heads, *tiles((queries, ROWS))), work), absent

    (full, absent), (reduced, _) = launch(heads, queries, keys), launch(*small)
    return Point(
        f"attention, {name}",
        GROUP,
        attention(options).bind(**absent),
        full,
        reduced,
        exact(options),
        **{"tolerance": 4e-3, **settings},
    )


def option_arrays(o: Options, heads: int, queries: int, keys: int) -> tuple[Array | None, Array | None]:
    """The array of an option, and the table of tiles."""
    if o.alibi:
        return Array((heads,), "float32", 2.0 ** (-8.0 * (np.arange(heads) + 1) / heads) * LOG2E), None
    if o.bias:
        return Array((queries, keys)), None
    if o.sink:
        return Array((heads,), "float32"), None
    if o.paged:
        count = keys // ROWS
        pages = np.random.default_rng(5).permutation(heads // o.paged * count)
        return None, table(pages.reshape(-1, count))
    if o.documents:
        ends = [0, *(np.asarray([0.02, 0.13, 0.3, 0.34, 0.6, 0.95, 1.0]) * keys).astype(int)]
        owner = np.searchsorted(ends, np.arange(keys), side="right") - 1
        begins = np.asarray(ends)[owner[::ROWS]]
        return table(owner), table(begins // ROWS)
    return None, None


def scored_pairs(o: Options, queries: int, keys: int, first: Array | None) -> float:
    """The number of pairs of a query and a key with a score, which is the unit of the peers' work."""
    if o.documents:
        assert first is not None and isinstance(first.values, np.ndarray)
        distance_ahead = np.arange(queries) - first.values.repeat(ROWS)[:queries] * ROWS
        return float(distance_ahead.sum() + queries)
    if o.window:
        return float(np.minimum(np.arange(queries) + 1, o.window).sum())
    return queries * (queries + 1) / 2 if o.causal else float(queries * keys)


def exact(o: Options) -> Callable[..., Iterator[Part]]:
    """The definition, computed head by head."""

    def parts(xp: Any, q: Any, k: Any, v: Any, scale: float, *option_values: Any) -> Iterator[Part]:
        extra = first = option_values[-1] if option_values else None
        if o.documents:
            extra, first = option_values
        heads, queries = q.shape[:2]
        keys = first.shape[1] * ROWS if o.paged else k.shape[1]
        rows, columns = (xp.arange(n) for n in (queries, keys))
        for h in range(heads):
            g = (h % o.paged if o.paged else h) // o.ratio
            keys_of_head, values_of_head = k[g], v[g]
            if o.paged:
                index = (first[h // o.paged][:, None] * ROWS + columns[None, :ROWS]).reshape(-1)
                keys_of_head, values_of_head = keys_of_head[index], values_of_head[index]
            s = q[h] @ keys_of_head.T * (o.depth**-0.5)
            if o.softcap:
                s = o.softcap * xp.tanh(s / o.softcap)
            if o.alibi:
                s = s - abs(columns[None, :] - rows[:, None]) * (extra[h] / LOG2E)
            if o.bias:
                s = s + extra
            mask = None
            if o.causal or o.window or o.documents:
                mask = columns[None, :] <= rows[:, None]
            if o.window:
                mask = mask & (columns[None, :] > rows[:, None] - o.window)
            if o.documents:
                mask = mask & (extra[None, :] == extra[:, None])
            if mask is not None:
                s = xp.where(mask, s, -math.inf)
            row_max = xp.amax(s, axis=1, keepdims=True)
            p = xp.exp(s - row_max)
            total = p.sum(axis=1, keepdims=True)
            if o.sink:
                total = total + xp.exp(extra[h] - row_max)
            yield 0, h, p @ values_of_head / total
            if o.sums:
                yield 1, h, ((row_max + xp.log(total)) * LOG2E)[:, 0]

    return parts


def points() -> list[Point]:
    """The base and the points, in order."""
    ragged = (4, CPU_LENGTH, 300)
    return [
        point("base", Options()),
        point("causal", Options(causal=True)),
        point("window 1024", Options(window=1024), small=(2, 1280, 1280), target=0.5),
        point("window 1000", Options(window=1000), small=(2, 1280, 1280), target=0.5),
        point("softcap", Options(softcap=SOFTCAP)),
        point("ALiBi", Options(alibi=True)),
        point("documents", Options(documents=True), small=(4, 768, 768)),
        point("bias tile", Options(bias=True)),
        point("sink", Options(sink=True)),
        point("heads of 64", Options(depth=64, values=64)),
        point("heads of 96", Options(depth=96, values=96)),
        point("heads of 256", Options(depth=256, values=256)),
        point("values of 64", Options(values=64)),
        point("4 heads of queries for one of keys", Options(ratio=4)),
        point("4096 queries, 512 keys", Options(), queries=4096, keys=512),
        point("3000 keys", Options(aligned=False), keys=3000, small=ragged),
        point("64 heads, 2048 keys", Options(), heads=64, queries=2048, keys=2048),
        point("sums stored", Options(sums=True)),
        point("exact exp", Options(exact=True), target=0.62),
        point(
            "decode", Options(ratio=4), 64 * 32, 1, LENGTH, small=(64, 1, 256), target=None, gradient=False
        ),
        point(
            "paged decode",
            Options(ratio=4, paged=32),
            64 * 32,
            1,
            LENGTH,
            small=(64, 1, 2048),
            target=None,
            gradient=False,
        ),
    ]
