"""Attention in plain code, as users write it: one factory whose options are the changes of the sweep."""

from dataclasses import dataclass
from typing import Any

import tegula as tg

bf16 = tg.bfloat16
ROWS = 128
"""The queries of a block, and the keys of an iteration."""
MASKED_SCORE = -1e30
LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Options:
    """Changes of the base, a softmax with tg.fast.exp2 over all keys for heads of 128.

    `window`: the number of keys that a query sees, which end with its own key; `softcap`: the bound of scores;
    `aligned`: whether the keys are whole tiles; `ratio`: the heads of queries for a head of keys. Extra arrays:
    `alibi`: a slope for each head; `documents`: the document of each key and the first tile of keys of each tile of
    queries; `bias`: a matrix for all heads; `sink`: a score for each head, without a value; `paged`: the heads of
    queries of a sequence, whose tiles of keys a table names; `sums`: the logarithms (base 2) of the sums of powers are
    stored."""

    depth: int = 128
    values: int = 128
    ratio: int = 1
    exact: bool = False
    causal: bool = False
    window: int = 0
    softcap: float = 0.0
    aligned: bool = True
    alibi: bool = False
    documents: bool = False
    bias: bool = False
    sink: bool = False
    paged: int = 0
    sums: bool = False


@tg.func
def exact_power(t: Any):
    return tg.exp(t)


@tg.func
def fast_power(t: Any):
    return tg.fast.exp2(t)


def attention(o: Options) -> Any:
    """The attention softmax(scale * Q @ K.T) @ V. `scale` includes log2(e) unless the powers are exact. The arrays of
    options that are off are None."""
    depth, values, ratio, window, softcap = o.depth, o.values, o.ratio, o.window, o.softcap
    causal, aligned, alibi, documents, bias, sink, paged, sums = (
        *(o.causal, o.aligned, o.alibi, o.documents),
        *(o.bias, o.sink, o.paged, o.sums),
    )
    power = exact_power if o.exact else fast_power

    @tg.kernel
    def forward(
        Q: tg.array3d[bf16],
        K: tg.array3d[bf16],
        V: tg.array3d[bf16],
        scale: float,
        Extra: tg.array | None,
        Table: tg.array | None,
        Out: tg.array3d[bf16],
        Sums: tg.array2d[float] | None,
    ):
        h, i = tg.tid()
        g = (h % paged if paged > 0 else h) // ratio
        q = tg.tile_load(Q[h], shape=(ROWS, depth), offset=(i * ROWS, 0))
        row_max = tg.tile_full(shape=(ROWS, 1), value=MASKED_SCORE, dtype=float)
        total = tg.tile_zeros(shape=(ROWS, 1), dtype=float)
        acc = tg.tile_zeros(shape=(ROWS, values), dtype=float)
        rows = tg.tile_reshape(tg.tile_arange(ROWS, dtype=int), shape=(ROWS, 1)) + i * ROWS
        first = 0
        last = (K.shape[1] + ROWS - 1) // ROWS
        if paged > 0:
            last = Table.shape[1]
        if causal or window > 0 or documents:
            last = i + 1
        if window > 0:
            first = tg.max(i * ROWS - window + 1, 0) // ROWS
        if documents:
            first = Table[i]
            query_documents = tg.tile_reshape(
                tg.tile_load(Extra, shape=ROWS, offset=i * ROWS), shape=(ROWS, 1)
            )
        for n in range(first, last):
            first_row = n * ROWS
            if paged > 0:
                first_row = Table[h // paged, n] * ROWS
            k = tg.tile_load(K[g], shape=(ROWS, depth), offset=(first_row, 0))
            s = tg.tile_zeros(shape=(ROWS, ROWS), dtype=float)
            tg.tile_matmul(q, tg.tile_transpose(k), s)
            s = s * scale
            if softcap > 0.0:
                s = tg.tanh(s * (1.0 / softcap)) * (softcap * LOG2E)
            columns = tg.tile_reshape(tg.tile_arange(ROWS, dtype=int), shape=(1, ROWS)) + n * ROWS
            if alibi:
                s = s - tg.tile_astype(tg.abs(columns - rows), float) * Extra[h]
            if bias:
                s = (
                    s
                    + tg.tile_astype(
                        tg.tile_load(Extra, shape=(ROWS, ROWS), offset=(i * ROWS, n * ROWS)), float
                    )
                    * LOG2E
                )
            if causal or window > 0 or documents:
                s = tg.where(columns <= rows, s, -tg.inf)
            if window > 0:
                s = tg.where(columns > rows - window, s, -tg.inf)
            if documents:
                key_documents = tg.tile_reshape(
                    tg.tile_load(Extra, shape=ROWS, offset=n * ROWS), shape=(1, ROWS)
                )
                s = tg.where(query_documents == key_documents, s, -tg.inf)
            if not aligned:
                s = tg.where(columns < K.shape[1], s, -tg.inf)
            new_max = tg.max(row_max, tg.tile_max(s, axis=1, keepdims=True))
            p = power(s - tg.tile_broadcast(new_max, shape=(ROWS, ROWS)))
            rescale = power(row_max - new_max)
            total = total * rescale + tg.tile_sum(p, axis=1, keepdims=True)
            acc = acc * tg.tile_broadcast(rescale, shape=(ROWS, values))
            v = tg.tile_load(V[g], shape=(ROWS, values), offset=(first_row, 0))
            tg.tile_matmul(tg.tile_astype(p, bf16), v, acc)
            row_max = new_max
        if sink:
            total = total + power(Extra[h] * LOG2E - row_max)
        acc = acc * tg.tile_broadcast(1.0 / total, shape=(ROWS, values))
        tg.tile_store(Out[h], tg.tile_astype(acc, bf16), offset=(i * ROWS, 0))
        if sums:
            tg.tile_store(Sums[h], tg.tile_reshape(row_max + tg.log2(total), shape=ROWS), offset=i * ROWS)

    return forward
