"""Stages of Fourier transforms whose elements the threads of a group hold in registers.

Between two stages a thread writes result k of butterfly b to place (k, b) of shared memory. The inputs of a butterfly
of the next stage are in one row, at equal distances that depend on the radices only: stages of equal radix differ in
the place of the first input and in the twiddle factors, so that they are iterations of one loop, a run."""

from __future__ import annotations

from tegula.declaration import part
from tegula.signature import Dtypes, Extent, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.plans import run_padding
from tegula.stdlib.tiles.roots import run_stages, run_twiddles
from tegula.types import float32, float64, vector

N, M = Extent("N"), Extent("M")
Complex = Dtypes("Complex", vector(2, float32), vector(2, float64))


@part
def _tile_run(re, im, r, m, s, count, following, size):
    """The inputs of a thread's butterflies of radix `following`, from the inputs of the first of `count` stages of
    radix r. m and s are those of the first stage."""
    results = tg._tile_run_memory(re, r, s, count, size)
    for index in tg._rolled(count):
        plan = tg.table(tg.static(run_stages(r, m, s, count)))
        span, first = plan[index, 0], plan[index, 1]
        re, im = tg._tile_butterflies(re, im, r, 1, 1, tg.static(re.shape[0] // r))
        tg._tile_write_run_results(results, re, im, r, m, s, count, span, first, size)
        if index < count - 1:
            re, im = tg._tile_next_inputs(results, r, m * s, span, r, size)
    stride, span = tg.static((m * s, s * r ** (count - 1)))
    return tg._tile_next_inputs(results, r, stride, span, following, size)


@part
def _tile_last_run(re, im, r, s, count, size):
    """The results of the last `count` stages of a transform, of radix r: result k of butterfly i of a thread is element
    k * butterflies + i. s is that of the first of these stages."""
    results = tg._tile_run_memory(re, r, s, count, size)
    m = tg.static(r ** (count - 1))
    for index in tg._rolled(count):
        re, im = tg._tile_butterflies(re, im, r, 1, 1, tg.static(re.shape[0] // r))
        if index < count - 1:
            plan = tg.table(tg.static(run_stages(r, m, s, count)))
            span, first = plan[index, 0], plan[index, 1]
            tg._tile_write_run_results(results, re, im, r, m, s, count, span, first, size)
            re, im = tg._tile_next_inputs(results, r, m * s, span, r, size)
    return re, im


@part
def _tile_run_memory(re, r, s, count, size):
    """Shared memory for the results of the stages of a run."""
    row_length = tg.static(size // r + run_padding(r, s, count, size // r))
    return tg.tile_empty(shape=(r, row_length), dtype=tg.vector(2, type(re[0])), storage="shared")


@part
def _tile_write_run_results(
    results: Tile[Complex, M, N],
    re,
    im,
    r: constexpr[int],
    m: constexpr[int],
    s: constexpr[int],
    count: constexpr[int],
    span,
    first,
    size: constexpr[int],
):
    """Write the results of a stage of a run times their twiddle factors. `span`: the number of interleaved
    subsequences; `first`: the first column of twiddle factors."""
    lane, threads, butterflies = tg.group_lane(), tg.group_size(), tg.static(re.shape[0] // r)
    for i in tg.unrolled(butterflies):
        butterfly = lane + i * threads
        if butterfly < size // r:
            column = first + butterfly % (m * s) // span
            for k in tg.unrolled(r):
                z = tg.vector(re[k * butterflies + i], im[k * butterflies + i])
                results[k, butterfly] = tg._tile_twiddled(z, tg.static(run_twiddles(r, m, count)), k, column)


@part
def _tile_next_inputs(
    results: Tile[Complex, M, N],
    r: constexpr[int],
    stride: constexpr[int],
    span,
    following: constexpr[int],
    size: constexpr[int],
):
    """The inputs of a thread's butterflies of radix `following`, from the results of a stage of radix r with `stride`
    butterflies in a row, of which `span` are interleaved."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(results[0, 0][0])(0.0)
    total, next_stride = tg.static(size // following), tg.static(stride * r // following)
    butterflies, distance = tg.static(-(-total // threads)), tg.static(stride // following)
    re = tg.vector(zero, length=tg.static(following * butterflies))
    im = tg.vector(zero, length=tg.static(following * butterflies))
    for i in tg.unrolled(butterflies):
        # Threads without a butterfly read the inputs of the last one.
        butterfly = tg.min(lane + i * threads, total - 1)
        row, place = butterfly // next_stride * stride, butterfly % next_stride
        # Place j of a row is element j % span of result j // span % r. A remainder is never negative.
        group = place // span
        column = row + group // r * span + tg.max(place - group * span, 0)
        for k in tg.unrolled(following):
            z = results[group % r, column + k * distance]
            re[k * butterflies + i], im[k * butterflies + i] = z[0], z[1]
    re_tile, im_tile = tg.tile(re), tg.tile(im)
    return tg.untile(re_tile), tg.untile(im_tile)
