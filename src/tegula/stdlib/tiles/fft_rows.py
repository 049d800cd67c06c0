"""Discrete Fourier transforms of rows of arrays by threads that load and store the elements of their butterflies.

Tiles are distributed over threads by powers of two. Rows of other lengths would pass through shared memory once more at
both ends of a transform; here each thread has the elements of whole butterflies from the load on."""

from __future__ import annotations

from tegula.declaration import part
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.plans import padding
from tegula.stdlib.tiles.roots import stages_of


@part
def _tile_row_transform(x, out, radices, inverse, scale):
    """Write the transform of a row `x` of an array, times `scale`, to the row `out`. The inverse is the transform with
    real and imaginary parts exchanged at both ends."""
    plan = tg.static(stages_of(radices))
    re, im = tg._tile_loaded_butterflies(x, tg.static(plan[0][0]), tg.static(plan[0][1]), inverse)
    for index in tg.static(tuple(range(len(plan) - 1))):
        r, m, s = tg.static(plan[index])
        re, im = tg._tile_exchanged_butterflies(re, im, r, m, s, tg.static(plan[index + 1][0]))
    tg._tile_store_butterflies(out, re, im, tg.static(plan[-1][0]), tg.static(plan[-1][2]), inverse, scale)


@part
def _tile_loaded_butterflies(x, r, stride, inverse):
    """The real and imaginary parts of the inputs of a thread's butterflies, which are `stride` apart in a row of an
    array: input k of butterfly i is element k * count + i."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(x[0][0])(0.0)
    count = tg.static(-(-stride // threads))
    re, im = tg.vector(zero, length=tg.static(r * count)), tg.vector(zero, length=tg.static(r * count))
    for i in tg.unrolled(count):
        butterfly = lane + i * threads
        if butterfly < stride:
            for k in tg.unrolled(r):
                z = x[butterfly + k * stride]
                re[k * count + i], im[k * count + i] = z[1 if inverse else 0], z[0 if inverse else 1]
    return re, im


@part
def _tile_exchanged_butterflies(re, im, r, m, s, following):
    """The inputs of a thread's butterflies of the next stage, of radix `following`, from the inputs of the butterflies
    of a stage, through shared memory."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(re[0])(0.0)
    total, next_total = tg.static(m * s), tg.static(r * m * s // following)
    count, next_count = tg.static(-(-total // threads)), tg.static(-(-next_total // threads))
    next_s, next_m = tg.static(r * s), tg.static(m // following)
    results = tg.tile_empty(
        shape=(m, tg.static(r * s + padding(r, m, s))), dtype=tg.vector(2, type(zero)), storage="shared"
    )

    def write(row, p, q, k, z):
        results[p, k * s + q] = z

    for i in tg.unrolled(count):
        butterfly = lane + i * threads
        if butterfly < total:
            tg._tile_write_butterfly(re, im, i, r, count, m, s, 0, butterfly // s, butterfly % s, True, write)
    length = tg.static(following * next_count)
    next_re, next_im = tg.vector(zero, length=length), tg.vector(zero, length=length)
    for i in tg.unrolled(next_count):
        butterfly = lane + i * threads
        if butterfly < next_total:
            for k in tg.unrolled(following):
                z = results[butterfly // next_s + k * next_m, butterfly % next_s]
                next_re[k * next_count + i], next_im[k * next_count + i] = z[0], z[1]
    re_tile, im_tile = tg.tile(next_re), tg.tile(next_im)
    return tg.untile(re_tile), tg.untile(im_tile)


@part
def _tile_store_butterflies(out, re, im, r, stride, inverse, scale):
    """Write the results of a thread's butterflies of the last stage, which are `stride` apart, to a row of an array."""
    lane, threads = tg.group_lane(), tg.group_size()
    count = tg.static(-(-stride // threads))

    def write(row, p, q, k, z):
        z = tg._tile_swap_parts(z) if inverse else z
        out[q + k * stride] = z * scale if tg.static(scale != 1.0) else z

    for i in tg.unrolled(count):
        butterfly = lane + i * threads
        if butterfly < stride:
            tg._tile_write_butterfly(re, im, i, r, count, 1, stride, 0, 0, butterfly, True, write)
