"""Discrete Fourier transforms of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.errors import OutOfRange
from tegula.signature import Dtypes, Extent, Extents, InOut, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.roots import (
    LONGEST,
    chirp,
    chirp_transform,
    is_smooth,
    levels,
    padded,
    places,
    roots,
    stages,
    twiddles,
)
from tegula.types import float32, float64, vector

N, S = Extent("N"), Extents("S")
Complex = Dtypes("Complex", vector(2, float32), vector(2, float64))
Number = Dtypes("Number", float32, float64)
Flag = constexpr[bool]


@cooperative
def tile_fft(inout: InOut[Tile[Complex, *S]]):
    """The discrete Fourier transform along the last dimension of a tile, in place: X[k] = sum of
    x[n] * exp(-2 * pi * i * k * n / N), as numpy.fft.fft.

    Vectors of two floats are complex numbers, the real part first. Any length N will do.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d.
    Raises:
        type-mismatch: `inout` has another dtype, or is no tile bound to a name.
    Gradient:
        the inverse transform of the adjoint, not divided by N.
    Source:
        Stockham's algorithm with radices up to 16; Bluestein's for lengths with a prime factor above 13.
    """
    tg.tile_assign(inout, tg._tile_dft(inout, False))


@cooperative
def tile_ifft(inout: InOut[Tile[Complex, *S]]):
    """The inverse of `tile_fft` times N, in place: x[n] = sum of X[k] * exp(2 * pi * i * k * n / N), N times
    numpy.fft.ifft.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d.
    Raises:
        type-mismatch: `inout` has another dtype, or is no tile bound to a name.
    Gradient:
        `tile_fft` of the adjoint.
    Source:
        that of `tile_fft`.
    """
    tg.tile_assign(inout, tg._tile_dft(inout, True))


@cooperative
def _tile_dft(x: Tile[Complex, *S], back: Flag) -> Tile[Complex, *S]:
    """The transform along the last dimension, not divided by its length; `back`: the inverse. With real and imaginary
    parts exchanged before and after the transform is the inverse."""
    shape = x.shape
    n, rows = tg.static(shape[-1]), tg.static(prod(shape[:-1]))
    flat = tg.tile_reshape(x, (rows * n,))
    one, other = tg.tile_map(tg._tile_component, flat, 0), tg.tile_map(tg._tile_component, flat, 1)
    re, im = (other, one) if tg.static(back) else (one, other)
    re, im = tg._tile_dft_of_parts(re, im, n)
    one, other = (im, re) if tg.static(back) else (re, im)
    return tg.tile_reshape(tg.tile_map(tg._tile_complex, one, other), shape)


@_tile_dft.vjp
def of_dft(grad, back):
    return tg._tile_dft(grad, not back)


@cooperative
def _tile_dft_of_parts(
    re: Tile[Number, N], im: Tile[Number, N], n: constexpr[int]
) -> tuple[Tile[Number, N], Tile[Number, N]]:
    """The transforms of all rows of n complex numbers, given as real and imaginary parts."""


@_tile_dft_of_parts.program(when=lambda n: is_smooth(n))
def by_stages(re, im, n):
    for r, m, s in tg.static(stages(shortest(n))):
        re, im = tg._tile_stage(re, im, r, m, s)
    return re, im


@_tile_dft_of_parts.program
def by_convolution(re, im, n):
    """Bluestein's algorithm: k * j = (k * k + j * j - (k - j) * (k - j)) / 2, so that a transform is a convolution with
    a chirp, between two products with it."""
    size, length = re.shape[0], tg.static(shortest(n))
    rows = tg.static(size // n)
    zero = type(re[0])(0.0)

    def chirped(x, y, k):
        parts = tg.static(chirp(n))
        return tg._tile_product(x, y, tg.table(parts[0], type(x))[k], tg.table(parts[1], type(x))[k])

    def multiplied(x, y, k):
        parts = tg.static(chirp_transform(n))
        return tg._tile_product(x, y, tg.table(parts[0], type(x))[k], tg.table(parts[1], type(x))[k])

    place = tg.tile_arange(length, dtype=int)
    x, y = tg.tile_reshape(re, (rows, n)), tg.tile_reshape(im, (rows, n))
    begin = tg.tile_map(chirped, x, y, place[:n])
    more_re = tg.tile_zeros(shape=(rows, length), dtype=type(zero))
    more_im = tg.tile_zeros(shape=(rows, length), dtype=type(zero))
    tg.tile_assign(more_re, tg.tile_map(tg._tile_component, begin, 0), (0, 0))
    tg.tile_assign(more_im, tg.tile_map(tg._tile_component, begin, 1), (0, 0))
    x, y = tg._tile_dft_of_parts(
        tg.tile_reshape(more_re, (rows * length,)), tg.tile_reshape(more_im, (rows * length,)), length
    )
    product = tg.tile_map(
        multiplied, tg.tile_reshape(x, (rows, length)), tg.tile_reshape(y, (rows, length)), place
    )
    x, y = tg.tile_map(tg._tile_component, product, 0), tg.tile_map(tg._tile_component, product, 1)
    y, x = tg._tile_dft_of_parts(
        tg.tile_reshape(y, (rows * length,)), tg.tile_reshape(x, (rows * length,)), length
    )
    x, y = tg.tile_reshape(x, (rows, length))[:, :n], tg.tile_reshape(y, (rows, length))[:, :n]
    end = tg.tile_reshape(tg.tile_map(chirped, x, y, place[:n]), (rows * n,))
    return tg.tile_map(tg._tile_component, end, 0), tg.tile_map(tg._tile_component, end, 1)


def shortest(n: int) -> int:
    """The length of the transforms of Bluestein's algorithm; OutOfRange if there are no tables of it."""
    length = n if is_smooth(n) else padded(n)
    if length > LONGEST:
        by = f", by transforms of length {length}," if length != n else ""
        raise OutOfRange(None, what=f"a transform of length {n}{by} has more than {LONGEST} elements")
    return length


@cooperative
def _tile_stage(
    re: Tile[Number, N], im: Tile[Number, N], r: constexpr[int], m: constexpr[int], s: constexpr[int]
) -> tuple[Tile[Number, N], Tile[Number, N]]:
    """A stage of transforms of length r * m * s: for each of m * s places a butterfly of r numbers that are m * s
    places apart, whose results go next to each other, s places apart, times roots of unity."""
    lane, zero = tg.group_lane(), type(re[0])(0.0)
    size, apart = re.shape[0], tg.static(m * s)
    count = tg.static(size // r)
    rows = tg.static(count // apart)
    to_re = tg.tile_empty(shape=(rows, m, r, s), dtype=type(zero), storage="shared")
    to_im = tg.tile_empty(shape=(rows, m, r, s), dtype=type(zero), storage="shared")
    for first in range(0, count, tg.group_present()):
        number = first + lane
        if number < count:
            row, place = number // apart, number % apart
            p, q = place // s, place % s
            start = row * (r * apart) + place
            x, y = tg.vector(zero, length=r), tg.vector(zero, length=r)
            for k in tg.unrolled(r):
                x[k], y[k] = re[start + k * apart], im[start + k * apart]
            x, y = tg._tile_butterfly(x, y, r)
            for k in tg.unrolled(r):
                at = tg.table(tg.static(places(r)))[k]
                a, b = x[at], y[at]
                if tg.static(m > 1) and k > 0:
                    c, d = tg._tile_root(tg.static(twiddles(r, m)), zero, k, p)
                    a, b = a * c - b * d, a * d + b * c
                to_re[row, p, k, q], to_im[row, p, k, q] = a, b
    return tg.tile_reshape(to_re, (size,)), tg.tile_reshape(to_im, (size,))


@part
def _tile_product(x, y, c, d):
    """The product of complex numbers, as a vector of its real and imaginary parts."""
    return tg.vector(x * c - y * d, x * d + y * c)


@part
def _tile_root(parts, like, k, p):
    return tg.table(parts[0], type(like))[k, p], tg.table(parts[1], type(like))[k, p]


@part
def _tile_complex(re, im):
    """The complex number of a real and an imaginary part."""
    return tg.vector(re, im)


@part
def _tile_butterfly(x, y, r):
    """The transform of vectors of r real and r imaginary parts; its results are in the order of `places`."""
    zero = type(x[0])(0.0)
    for f, apart in tg.static(levels(r)):
        for t in tg.unrolled(tg.static(r // f)):
            offset = t % apart
            base = t // apart * (f * apart) + offset
            u, v = tg.vector(zero, length=f), tg.vector(zero, length=f)
            for k in tg.unrolled(f):
                u[k], v[k] = x[base + k * apart], y[base + k * apart]
            u, v = tg._tile_small_dft(u, v, f)
            for k in tg.unrolled(f):
                a, b = u[k], v[k]
                if k * offset > 0:
                    power = k * offset * tg.static(r // (f * apart))
                    parts = tg.static(roots(r, np.arange(r)))
                    c, d = tg.table(parts[0], type(zero))[power], tg.table(parts[1], type(zero))[power]
                    a, b = a * c - b * d, a * d + b * c
                x[base + k * apart], y[base + k * apart] = a, b
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
        u, v = tg.vector(zero, length=f), tg.vector(zero, length=f)
        u[0], v[0] = x[0], y[0]
        for j in tg.unrolled(1, f):
            u[0], v[0] = u[0] + x[j], v[0] + y[j]
        for k in tg.unrolled(1, tg.static((f + 1) // 2)):
            even_x, odd_x, even_y, odd_y = x[0], zero, y[0], zero
            for j in tg.unrolled(1, tg.static((f + 1) // 2)):
                power = k * j % f
                c, d = tg.table(parts[0], type(zero))[power], tg.table(parts[1], type(zero))[power]
                even_x += (x[j] + x[f - j]) * c
                even_y += (y[j] + y[f - j]) * c
                odd_x += (x[j] - x[f - j]) * d
                odd_y += (y[j] - y[f - j]) * d
            u[k], v[k] = even_x - odd_y, even_y + odd_x
            u[f - k], v[f - k] = even_x + odd_y, even_y - odd_x
        return u, v


@tile_fft.reference
def reference(inout):
    return np.fft.fft(inout, axis=-1)


@tile_ifft.reference
def of_inverse(inout):
    return np.fft.ifft(inout, axis=-1) * inout.shape[-1]


def numbers(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of complex numbers."""
    for n in (1, 2, 5, 16):
        yield Sample(complex_numbers(rng, n).astype(np.complex64), differentiable=n == 5)
    yield Sample(complex_numbers(rng, 2, 3, 12), differentiable=True)
    yield Sample(complex_numbers(rng, 3, 40).astype(np.complex64))
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("vec2", "float32"))


def complex_numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random complex numbers."""
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


tile_fft.samples(numbers)
tile_ifft.samples(numbers)
