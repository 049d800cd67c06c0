"""Stages of Fourier transforms whose elements the threads of a group hold in registers.

Between two stages a thread writes result k of butterfly b to place (k, b) of shared memory. The inputs of a butterfly
of the next stage are in one row, at equal distances that depend on the radices only: stages of equal radix differ in
the place of the first input and in the twiddle factors, so that they are iterations of one loop, a run."""

from __future__ import annotations

from tegula.declaration import part
from tegula.signature import Dtypes, Extent, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.plans import BANK_PHASE, run_padding
from tegula.stdlib.tiles.roots import (
    butterflies_of_threads,
    first_twiddles,
    output_position,
    quotient_bits,
    run_stages,
    run_twiddles,
    twiddles,
)
from tegula.stdlib.tiles.warps import WARP
from tegula.types import float32, float64, vector

N, M = Extent("N"), Extent("M")
Number = Dtypes("Number", float32, float64, vector(2, float32), vector(2, float64))


@part
def _tile_first_stage(re, im, first, m):
    """The inputs of butterflies (p, q) of the next stage, from the inputs p + k * m of a thread's butterfly of radix
    first * r: a stage of radix `first`, all of whose results the thread has."""
    r, p = tg.static(re.shape[0] // first), tg.group_lane() % m
    u, v = tg.vector(re, length=re.shape[0]), tg.vector(im, length=re.shape[0])
    for i in tg.unrolled(r):
        x, y = tg._tile_butterfly_of(re, im, i, first, r)
        for q in tg.unrolled(first):
            position = tg.table(tg.static(output_position(first)))[q]
            z = tg.vector(x[position], y[position])
            if q > 0:
                # Power q of root p + i * m.
                z = tg._tile_multiply_by_table(z, tg.static(twiddles(first, r)), q, i)
                z = tg._tile_multiply_by_table(z, tg.static(first_twiddles(first, r, m)), q, p)
            u[i * first + q], v[i * first + q] = z[0], z[1]
    return u, v


@part
def _tile_run(re, im, r, m, s, count, following, first, parts, size):
    """The inputs of a thread's butterflies of radix `following`, from the inputs of the first of `count` stages of
    radix r. m and s are those of the first stage; `first` is the number of butterflies of the first stage that a thread
    has after `_tile_first_stage`, else 1; `parts`: whether threads exchange real parts, then imaginary parts in the
    same memory, if `following` is r."""
    zero, threads = type(re[0])(0.0), tg.group_size()
    number = type(zero) if tg.static(parts) else tg.vector(2, type(zero))
    row_length = tg.static(size // r + run_padding(r, s, count, size // r, WARP if parts else BANK_PHASE))
    results = tg.tile_empty(shape=(r, row_length), dtype=number, storage="shared")
    is_even, bits = tg.static((re.shape[0] * threads == size, quotient_bits(r, m, s, count)))
    stride, factors = tg.static((m * s, run_twiddles(r, m, count)))
    for index in tg._rolled(count):
        plan = tg.table(tg.static(run_stages(r, m, s, count)))
        span, column, reciprocal = plan[index, 0], plan[index, 1], plan[index, 2]
        start, step = tg.group_lane(), threads
        if tg.static(first > 1):
            places = tg.table(tg.static(butterflies_of_threads(first, count, threads)))
            start, step = tg.group_lane() * places[index, 0], places[index, 1]
        re, im = tg._tile_butterflies(re, im, r, 1, 1, tg.static(re.shape[0] // r))
        if tg.static(is_even):
            re, im = tg._tile_run_twiddled(
                re, im, r, stride, factors, (span, reciprocal), bits, column, start, step
            )
        if tg.static(parts):
            tg._tile_write_part(results, re, r, start, step)
            re, _ = tg._tile_next_inputs(results, re, r, stride, (span, reciprocal), bits, r, parts, size)
            tg._tile_write_part(results, im, r, start, step)
            im, _ = tg._tile_next_inputs(results, im, r, stride, (span, reciprocal), bits, r, parts, size)
        else:
            tg._tile_write_run(
                results, re, im, r, stride, factors, (span, reciprocal), bits, column, start, step, size
            )
            if tg.static(following == r) or index < count - 1:
                re, im = tg._tile_next_inputs(
                    results, re, r, stride, (span, reciprocal), bits, r, parts, size
                )
    if tg.static(following != r):
        span = tg.static(s * r ** (count - 1))
        re, im = tg._tile_next_inputs(results, re, r, stride, (span, 0), 0, following, parts, size)
    return re, im


@part
def _tile_run_twiddled(re, im, r, stride, factors, divisor, bits, column, start, step):
    """The results of a stage of a run times their twiddle factors. `stride`: the number of butterflies in a row;
    `divisor`, `bits`: the number of interleaved subsequences, as for `_tile_quotient`; `column`: the first column of
    twiddle factors; `start`, `step`: a thread's first butterfly and the distance of its butterflies."""
    butterflies = tg.static(re.shape[0] // r)
    for i in tg.unrolled(butterflies):
        p = column + tg._tile_quotient((start + i * step) % stride, divisor, bits)
        for k in tg.unrolled(r):
            at = k * butterflies + i
            z = tg._tile_twiddled(tg.vector(re[at], im[at]), factors, k, p)
            re[at], im[at] = z[0], z[1]
    return re, im


@part
def _tile_write_part(results: Tile[Number, M, N], x, r: constexpr[int], start, step):
    """Write one part of the results of a stage of a run, in which all threads have as many butterflies."""
    butterflies = tg.static(x.shape[0] // r)
    for i in tg.unrolled(butterflies):
        for k in tg.unrolled(r):
            results[k, start + i * step] = x[k * butterflies + i]


@part
def _tile_write_run(
    results: Tile[Number, M, N],
    re,
    im,
    r: constexpr[int],
    stride: constexpr[int],
    factors,
    divisor,
    bits: constexpr[int],
    column,
    start,
    step,
    size: constexpr[int],
):
    """Write the results of a stage of a run, times their twiddle factors unless `_tile_run_twiddled` has multiplied
    them: if all threads have as many butterflies, ptxas takes fewer registers then. Parameters are those of
    `_tile_run_twiddled`."""
    butterflies, threads = tg.static(re.shape[0] // r), tg.group_size()
    is_even = tg.static(re.shape[0] * threads == size)
    for i in tg.unrolled(butterflies):
        butterfly = start + i * step
        if tg.static(is_even) or butterfly < size // r:
            p = column + tg._tile_quotient(butterfly % stride, divisor, bits)
            for k in tg.unrolled(r):
                z = tg.vector(re[k * butterflies + i], im[k * butterflies + i])
                results[k, butterfly] = z if tg.static(is_even) else tg._tile_twiddled(z, factors, k, p)


@part
def _tile_next_inputs(
    results: Tile[Number, M, N],
    re,
    r: constexpr[int],
    stride: constexpr[int],
    divisor,
    bits: constexpr[int],
    following: constexpr[int],
    parts: constexpr[bool],
    size: constexpr[int],
):
    """The inputs of a thread's butterflies of radix `following`, complex numbers or one part of them, from the results
    of a stage of radix r with `stride` butterflies in a row. `divisor`, `bits`: how many of them are interleaved,
    as for `_tile_quotient`."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(re[0])(0.0)
    total, next_stride = tg.static(size // following), tg.static(stride * r // following)
    butterflies, distance = tg.static(-(-total // threads)), tg.static(stride // following)
    next_re = tg.vector(zero, length=tg.static(following * butterflies))
    next_im = tg.vector(zero, length=tg.static(following * butterflies))
    for i in tg.unrolled(butterflies):
        # Threads without a butterfly read the inputs of the last one.
        butterfly = tg.min(lane + i * threads, total - 1)
        row, place = butterfly // next_stride * stride, butterfly % next_stride
        # Place j of a row is element j % span of result j // span % r, if `span` are interleaved.
        group = tg._tile_quotient(place, divisor, bits)
        column = row + place - (group - group // r) * divisor[0]
        column = tg.min(tg.max(column, 0), tg.static(size // r))
        for k in tg.unrolled(following):
            z, at = results[group % r, column + k * distance], k * butterflies + i
            if tg.static(parts):
                next_re[at] = z
            else:
                next_re[at], next_im[at] = z[0], z[1]
    re_tile, im_tile = tg.tile(next_re), tg.tile(next_im)
    return tg.untile(re_tile), tg.untile(im_tile)


@part
def _tile_quotient(number, divisor, bits):
    """The quotient of a number and the first of the two numbers of a divisor. The second is 2 ** bits divided by the
    first, as in `run_stages`; without bits it is not used."""
    if tg.static(bits > 0):
        return tg.int32(tg.uint32(number) * tg.uint32(divisor[1]) >> tg.uint32(bits))
    else:
        return number // divisor[0]
