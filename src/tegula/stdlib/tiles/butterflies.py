"""Butterflies: discrete Fourier transforms of the few complex numbers that a thread holds in registers."""

from __future__ import annotations

import numpy as np

from tegula.declaration import part
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.roots import (
    butterfly_steps,
    has_coprime_factors,
    input_order,
    is_large_prime,
    is_loop_on_gpu,
    output_position,
    roots,
    roots_of_pairs,
    twiddles,
)


@part
def _tile_write_butterfly(re, im, i, r, count, m, s, row, p, q, multiplies_powers, write):
    """Transform the r elements i, i + count, ..., of butterfly (p, q) of a row of stage (r, m, s), and call
    write(row, p, q, k, z) for each result k. z is the result times its twiddle factor, which is 1 if m is 1, else power
    k of root p. `multiplies_powers`: whether some powers are products of two others."""
    if tg.static(is_large_prime(r)) and (tg.static(is_loop_on_gpu(r, m, s)) or not tg._on_gpu()):
        tg._tile_write_large_butterfly(re, im, i, r, count, m, row, p, q, multiplies_powers, write)
    else:
        u, v = tg._tile_butterfly_of(re, im, i, r, count)
        for k in tg.unrolled(r):
            position = tg.table(tg.static(output_position(r)))[k]
            z = tg.vector(u[position], v[position])
            if tg.static(m > 1 and multiplies_powers):
                z = tg._tile_twiddled(z, tg.static(twiddles(r, m)), k, p)
            elif tg.static(m > 1) and k > 0:
                z = tg._tile_multiply_by_table(z, tg.static(twiddles(r, m)), k, p)
            write(row, p, q, k, z)


@part
def _tile_write_large_butterfly(re, im, i, r, count, m, row, p, q, multiplies_powers, write):
    """As `_tile_write_butterfly`, for a large prime radix: a loop over pairs of results k and r - k, whose code does
    not grow with their number. Sums and differences of pairs of elements are in registers, the roots in a table."""
    zero = type(re[0])(0.0)
    half = tg.static((r - 1) // 2)
    sums_x, sums_y = tg.vector(zero, length=half), tg.vector(zero, length=half)
    differences_x, differences_y = tg.vector(zero, length=half), tg.vector(zero, length=half)
    first_x, first_y = re[i], im[i]
    total_x, total_y = first_x, first_y
    for j in tg.unrolled(half):
        at, opposite = (j + 1) * count + i, (r - 1 - j) * count + i
        sums_x[j], sums_y[j] = re[at] + re[opposite], im[at] + im[opposite]
        differences_x[j], differences_y[j] = re[at] - re[opposite], im[at] - im[opposite]
        total_x, total_y = total_x + sums_x[j], total_y + sums_y[j]
    write(row, p, q, 0, tg.vector(total_x, total_y))
    power = tg.vector(zero, zero)
    if tg.static(m > 1 and multiplies_powers):
        w = tg.table(tg.static(np.stack(roots(m, np.arange(m)), axis=-1)), type(zero))
        power = tg.vector(w[p, 0], w[p, 1])
    for step in tg._rolled(half):
        even_x, odd_x, even_y, odd_y = first_x, zero, first_y, zero
        for j in tg.unrolled(half):
            w = tg.table(tg.static(roots_of_pairs(r)), type(zero))
            c, d = w[step, j // 2, j % 2 * 2], w[step, j // 2, j % 2 * 2 + 1]
            even_x += sums_x[j] * c
            even_y += sums_y[j] * c
            odd_x += differences_x[j] * d
            odd_y += differences_y[j] * d
        k, opposite = step + 1, r - 1 - step
        z, opposite_z = tg.vector(even_x - odd_y, even_y + odd_x), tg.vector(even_x + odd_y, even_y - odd_x)
        if tg.static(m > 1):
            z = tg._tile_multiply_by_table(z, tg.static(twiddles(r, m)), k, p)
            if tg.static(multiplies_powers):
                # Power r - k is the product of power r and the conjugate of power k.
                w = tg.table(tg.static(twiddles(r, m)), type(zero))
                conjugate = tg.vector(w[k, p, 0], -w[k, p, 1])
                opposite_z = tg._tile_complex_product(tg._tile_complex_product(opposite_z, power), conjugate)
            else:
                opposite_z = tg._tile_multiply_by_table(opposite_z, tg.static(twiddles(r, m)), opposite, p)
        write(row, p, q, k, z)
        write(row, p, q, opposite, opposite_z)


@part
def _tile_butterfly_of(re, im, i, r, count):
    """The transform of the r elements i, i + count, i + 2 * count, ..."""
    u, v = tg.vector(re[0], length=r), tg.vector(im[0], length=r)
    for k in tg.unrolled(r):
        at = k * count + i
        u[k], v[k] = re[at], im[at]
    return tg._tile_butterfly(u, v, r)


@part
def _tile_butterfly(x, y, r):
    """The transform of r real and r imaginary parts; the results are in the order of `output_position`."""
    zero = type(x[0])(0.0)
    if tg.static(has_coprime_factors(r)):
        given_x, given_y = tg.vector(x, length=r), tg.vector(y, length=r)
        for k in tg.unrolled(r):
            index = tg.table(tg.static(input_order(r)))[k]
            x[k], y[k] = given_x[index], given_y[index]
    for f, positions, powers in tg.static(butterfly_steps(r)):
        for step in tg.unrolled(tg.static(len(positions))):
            for t in tg.unrolled(tg.static(r // f)):
                u, v = tg.vector(zero, length=f), tg.vector(zero, length=f)
                for k in tg.unrolled(f):
                    position = tg.table(positions)[step, t, k]
                    u[k], v[k] = x[position], y[position]
                u, v = tg._tile_small_dft(u, v, f)
                for k in tg.unrolled(f):
                    position, power = tg.table(positions)[step, t, k], tg.table(powers)[step, t, k]
                    a, b = u[k], v[k]
                    if tg.static(powers.any()) and power > 0:
                        parts = tg.static(roots(r, np.arange(r)))
                        c, d = tg.table(parts[0], type(zero))[power], tg.table(parts[1], type(zero))[power]
                        a, b = a * c - b * d, a * d + b * c
                    x[position], y[position] = a, b
    return x, y


@part
def _tile_small_dft(x, y, f):
    """The transform of 2, 4 or an odd number of real and imaginary parts, by its definition."""
    if tg.static(f == 2):
        return tg.vector(x[0] + x[1], x[0] - x[1]), tg.vector(y[0] + y[1], y[0] - y[1])
    elif tg.static(f == 4):
        a, b, c, d = x[0] + x[2], x[0] - x[2], x[1] + x[3], x[1] - x[3]
        e, g, h, i = y[0] + y[2], y[0] - y[2], y[1] + y[3], y[1] - y[3]
        return tg.vector(a + c, b + i, a - c, b - i), tg.vector(e + h, g - d, e - h, g + d)
    else:
        zero = type(x[0])(0.0)
        parts = tg.static(roots(f, np.arange(f)))
        half = tg.static((f - 1) // 2)
        sums_x, sums_y = tg.vector(zero, length=half), tg.vector(zero, length=half)
        differences_x, differences_y = tg.vector(zero, length=half), tg.vector(zero, length=half)
        u, v = tg.vector(zero, length=f), tg.vector(zero, length=f)
        u[0], v[0] = x[0], y[0]
        for j in tg.unrolled(half):
            a, b, c, d = x[j + 1], x[f - 1 - j], y[j + 1], y[f - 1 - j]
            sums_x[j], sums_y[j], differences_x[j], differences_y[j] = a + b, c + d, a - b, c - d
            u[0], v[0] = u[0] + sums_x[j], v[0] + sums_y[j]
        for k in tg.unrolled(1, half + 1):
            even_x, odd_x, even_y, odd_y = x[0], zero, y[0], zero
            for j in tg.unrolled(half):
                power = k * (j + 1) % f
                c, d = tg.table(parts[0], type(zero))[power], tg.table(parts[1], type(zero))[power]
                even_x += sums_x[j] * c
                even_y += sums_y[j] * c
                odd_x += differences_x[j] * d
                odd_y += differences_y[j] * d
            u[k], v[k] = even_x - odd_y, even_y + odd_x
            u[f - k], v[f - k] = even_x + odd_y, even_y - odd_x
        return u, v
