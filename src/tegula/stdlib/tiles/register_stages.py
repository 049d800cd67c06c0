"""Stages of Fourier transforms whose elements the threads of a group hold in registers.

Between two stages a thread writes result k of butterfly b to place (k, b) of shared memory. The inputs of a butterfly
of the next stage are in one row, at equal distances that depend on the radices only: stages of equal radix differ in
the place of the first input and in the twiddle factors, so that they are iterations of one loop, a run."""

from __future__ import annotations

from tegula.declaration import part
from tegula.signature import Dtypes, Extent, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.plans import run_padding
from tegula.stdlib.tiles.roots import quotient_bits, run_stages, run_twiddles
from tegula.types import float32, float64, vector

N, M = Extent("N"), Extent("M")
Complex = Dtypes("Complex", vector(2, float32), vector(2, float64))


@part
def _tile_run(re, im, r, m, s, count, following, size):
    """The inputs of a thread's butterflies of radix `following`, from the inputs of the first of `count` stages of
    radix r. m and s are those of the first stage."""
    row_length = tg.static(size // r + run_padding(r, s, count, size // r))
    results = tg.tile_empty(shape=(r, row_length), dtype=tg.vector(2, type(re[0])), storage="shared")
    threads, stride = tg.group_size(), tg.static(m * s)
    is_even, bits = tg.static((re.shape[0] * threads == size, quotient_bits(r, m, s, count)))
    factors = tg.static(run_twiddles(r, m, count))
    for index in tg._rolled(count):
        plan = tg.table(tg.static(run_stages(r, m, s, count)))
        span, column, reciprocal = plan[index, 0], plan[index, 1], plan[index, 2]
        re, im = tg._tile_butterflies(re, im, r, 1, 1, tg.static(re.shape[0] // r))
        if tg.static(is_even):
            re, im = tg._tile_run_twiddled(re, im, r, stride, factors, (span, reciprocal), bits, column)
        tg._tile_write_run(results, re, im, r, stride, factors, (span, reciprocal), bits, column, size)
        if tg.static(following == r) or index < count - 1:
            re, im = tg._tile_next_inputs(results, r, stride, (span, reciprocal), bits, r, size)
    if tg.static(following != r):
        span = tg.static(s * r ** (count - 1))
        re, im = tg._tile_next_inputs(results, r, stride, (span, 0), 0, following, size)
    return re, im


@part
def _tile_run_twiddled(re, im, r, stride, factors, divisor, bits, column):
    """The results of a stage of a run times their twiddle factors. `stride`: the number of butterflies in a row;
    `divisor`, `bits`: the number of interleaved subsequences, as for `_tile_quotient`; `column`: the first column of
    twiddle factors."""
    lane, threads, butterflies = tg.group_lane(), tg.group_size(), tg.static(re.shape[0] // r)
    for i in tg.unrolled(butterflies):
        p = column + tg._tile_quotient((lane + i * threads) % stride, divisor, bits)
        for k in tg.unrolled(r):
            at = k * butterflies + i
            z = tg._tile_twiddled(tg.vector(re[at], im[at]), factors, k, p)
            re[at], im[at] = z[0], z[1]
    return re, im


@part
def _tile_write_run(
    results: Tile[Complex, M, N],
    re,
    im,
    r: constexpr[int],
    stride: constexpr[int],
    factors,
    divisor,
    bits: constexpr[int],
    column,
    size: constexpr[int],
):
    """Write the results of a stage of a run, times their twiddle factors unless `_tile_run_twiddled` has multiplied
    them: if all threads have as many butterflies, ptxas takes fewer registers then. Parameters are those of
    `_tile_run_twiddled`."""
    lane, threads, butterflies = tg.group_lane(), tg.group_size(), tg.static(re.shape[0] // r)
    is_even = tg.static(re.shape[0] * threads == size)
    for i in tg.unrolled(butterflies):
        butterfly = lane + i * threads
        if butterfly < size // r:
            p = 0 if tg.static(is_even) else column + tg._tile_quotient(butterfly % stride, divisor, bits)
            for k in tg.unrolled(r):
                z = tg.vector(re[k * butterflies + i], im[k * butterflies + i])
                results[k, butterfly] = z if tg.static(is_even) else tg._tile_twiddled(z, factors, k, p)


@part
def _tile_next_inputs(
    results: Tile[Complex, M, N],
    r: constexpr[int],
    stride: constexpr[int],
    divisor,
    bits: constexpr[int],
    following: constexpr[int],
    size: constexpr[int],
):
    """The inputs of a thread's butterflies of radix `following`, from the results of a stage of radix r with `stride`
    butterflies in a row. `divisor`, `bits`: how many of them are interleaved, as for `_tile_quotient`."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(results[0, 0][0])(0.0)
    total, next_stride = tg.static(size // following), tg.static(stride * r // following)
    butterflies, distance = tg.static(-(-total // threads)), tg.static(stride // following)
    re = tg.vector(zero, length=tg.static(following * butterflies))
    im = tg.vector(zero, length=tg.static(following * butterflies))
    for i in tg.unrolled(butterflies):
        # Threads without a butterfly read the inputs of the last one.
        butterfly = tg.min(lane + i * threads, total - 1)
        row, place = butterfly // next_stride * stride, butterfly % next_stride
        # Place j of a row is element j % span of result j // span % r, if `span` are interleaved.
        group = tg._tile_quotient(place, divisor, bits)
        column = row + place - (group - group // r) * divisor[0]
        column = tg.min(tg.max(column, 0), tg.static(size // r))
        for k in tg.unrolled(following):
            z = results[group % r, column + k * distance]
            re[k * butterflies + i], im[k * butterflies + i] = z[0], z[1]
    re_tile, im_tile = tg.tile(re), tg.tile(im)
    return tg.untile(re_tile), tg.untile(im_tile)


@part
def _tile_quotient(number, divisor, bits):
    """The quotient of a number and the first of the two numbers of a divisor. The second is 2 ** bits divided by the
    first, as in `run_stages`; without bits it is not used."""
    if tg.static(bits > 0):
        return tg.int32(tg.uint32(number) * tg.uint32(divisor[1]) >> tg.uint32(bits))
    else:
        return number // divisor[0]
