"""Discrete Fourier transforms of real numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.errors import OutOfRange
from tegula.signature import Dtypes, Extent, Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.fft import Complex, Number, complex_numbers
from tegula.stdlib.tiles.roots import roots
from tegula.types import scalar_of, vector

N, ROWS, S = Extent("N"), Extent("ROWS"), Extents("S")
FLAT = Extent("FLAT", value=lambda ROWS, N: ROWS * (N // 2 if N % 2 == 0 else N))
HALF = Extents("H", value=lambda S: (*S[:-1], S[-1] // 2 + 1))
FULL = Extents("W", value=lambda S, n: (*S[:-1], n))
Pair = Dtypes("Pair", value=lambda Number: vector(2, Number))
Scalar = Dtypes("Scalar", value=lambda Complex: scalar_of(Complex))


@cooperative
def tile_rfft(x: Tile[Number, *S]) -> Tile[Pair, *HALF]:
    """The discrete Fourier transform of real numbers along the last dimension of a tile: the first N // 2 + 1 results,
    as numpy.fft.rfft; the others are their conjugates.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile (..., N // 2 + 1) of vec2f or vec2d, complex numbers with the real part first.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: N is above 65536, or a prime number that is too large for the tables of roots.
    Gradient:
        the real part of the inverse transform of the adjoint, padded with zeros and not divided by N.
    Source:
        as for `tile_fft`, of half the length if N is even.
    """
    shape, zero = x.shape, type(tg.tile_reshape(x, (-1,))[0])(0.0)
    n, rows = tg.static(shape[-1]), tg.static(prod(shape[:-1]))
    half, lane = tg.static(n // 2), tg.group_lane()
    spectrum = tg._tile_real_dft(tg.tile_reshape(x, (rows, n)))
    if tg.static(n % 2 == 0):
        # Elements k and half - k are computed from the same two elements of the spectrum.
        result = tg.tile_empty(shape=(rows, half + 1), dtype=type(tg.vector(zero, zero)), storage="shared")
        pairs = tg.static(half // 2 + 1)
        for first in range(0, rows * pairs, tg.group_present()):
            pair = first + lane
            if pair < rows * pairs:
                row, k = pair // pairs, pair % pairs
                z, w = spectrum[row * half + k], spectrum[row * half + tg.where(k == 0, 0, half - k)]
                a, b = (z[0] + w[0]) / 2.0, (z[1] - w[1]) / 2.0
                e, f = (z[1] + w[1]) / 2.0, (w[0] - z[0]) / 2.0
                c, d = tg._tile_root(n, zero, k)
                g, h = e * c - f * d, e * d + f * c
                result[row, k] = tg.vector(a + g, b + h)
                result[row, half - k] = tg.vector(a - g, h - b)
    else:
        result = tg.tile_reshape(spectrum, (rows, n))[:, : half + 1]
    return tg.tile_reshape(result, tg.static((*shape[:-1], half + 1)))


@tile_rfft.vjp(keep="x")
def rfft_vjp(x, grad):
    shape = x.shape
    n = tg.static(shape[-1])
    index = tg.tile_arange(tg.static(n // 2 + 1), dtype=int)
    return tg.tile_irfft(tg.tile_map(tg._tile_scale_inner, grad, index, n, 0.5), n)


@cooperative
def tile_irfft(x: Tile[Complex, *S], n: constexpr[int]) -> Tile[Scalar, *FULL]:
    """The inverse of `tile_rfft` times n: n times numpy.fft.irfft(x, n).

    The imaginary parts of the first element of each row and, if n is even, of the last element are ignored.

    Parameters:
        x: a tile (..., n // 2 + 1) of vec2f or vec2d.
        n: the length of the results, a constant.
    Returns:
        a tile (..., n) of float32 or float64.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: `x` has no rows of n // 2 + 1 elements, or there are no tables for n.
    Gradient:
        `tile_rfft` of the adjoint, doubled except for the first element and, if n is even, the last; the imaginary
        parts of these two are 0.
    Source:
        as for `tile_rfft`.
    """
    shape = x.shape
    rows, half = tg.static(prod(shape[:-1])), tg.static(half_length(shape, n))
    flat, lane = tg.tile_reshape(x, (rows, half + 1)), tg.group_lane()
    zero = type(flat[0, 0][0])(0.0)
    length = tg.static(half if n % 2 == 0 else n)
    source = tg.tile_empty(shape=(rows, length), dtype=type(flat[0, 0]), storage="shared")
    # For even n, elements k and half - k of the source are computed from the same two elements.
    per_row = tg.static(half // 2 + 1 if n % 2 == 0 else n)
    for first in range(0, rows * per_row, tg.group_present()):
        element = first + lane
        if element < rows * per_row:
            row, k = element // per_row, element % per_row
            if tg.static(n % 2 == 0):
                z, w = flat[row, k], flat[row, half - k]
                y, v = tg.where(k > 0, z[1], zero), tg.where(k > 0, w[1], zero)
                c, d = tg._tile_root(n, zero, k)
                a, b = z[0] - w[0], y + v
                g, h = a * d - b * c, a * c + b * d
                source[row, k] = tg.vector(z[0] + w[0] + g, y - v + h)
                if k > 0:
                    source[row, half - k] = tg.vector(z[0] + w[0] - g, h - (y - v))
            else:
                z = flat[row, tg.min(k, n - k)]
                source[row, k] = tg.vector(z[0], tg.where(k == 0, zero, tg.where(k > half, -z[1], z[1])))
    spectrum = tg._tile_row_dft(tg.tile_reshape(source, (rows * length,)), length, True, False)
    result = tg.tile_map(tg._tile_component, spectrum, 0)
    if tg.static(n % 2 == 0):
        pairs = tg.tile_empty(shape=(rows * length, 2), dtype=type(zero), storage="shared")
        tg.tile_assign(pairs, tg.tile_reshape(result, (rows * length, 1)), (0, 0))
        tg.tile_assign(
            pairs, tg.tile_reshape(tg.tile_map(tg._tile_component, spectrum, 1), (rows * length, 1)), (0, 1)
        )
        result = pairs
    return tg.tile_reshape(result, tg.static((*shape[:-1], n)))


@tile_irfft.vjp
def irfft_vjp(grad, n):
    index = tg.tile_arange(tg.static(n // 2 + 1), dtype=int)
    return tg.tile_map(
        tg._tile_clear_ends, tg.tile_map(tg._tile_scale_inner, tg.tile_rfft(grad), index, n, 2.0), index, n
    )


@cooperative
def _tile_real_dft(x: Tile[Number, ROWS, N]) -> Tile[Pair, FLAT]:
    """The transforms of the rows of a matrix. A row of even length is transformed as half as many complex numbers,
    whose real parts are the elements of even index."""
    rows, n = x.shape
    if tg.static(n % 2 == 0):
        pairs = tg.tile_reshape(x, (rows * n // 2, 2))
        source = tg.tile_map(tg._tile_complex, pairs[:, 0], pairs[:, 1])
        result = tg._tile_row_dft(source, n // 2, False, False)
    else:
        source = tg.tile_map(tg._tile_complex, tg.tile_reshape(x, (rows * n,)), type(x[0, 0])(0.0))
        result = tg._tile_row_dft(source, n, False, False)
    return result


def half_length(shape: tuple[int, ...], n: int) -> int:
    """The number n // 2; OutOfRange unless the rows of a shape have n // 2 + 1 elements."""
    if n < 1 or shape[-1] != n // 2 + 1:
        help = f"a row must have {n // 2 + 1} elements for n = {n}" if n > 0 else "n must be 1 or more"
        raise OutOfRange(None, what=f"'x' of shape {shape} does not fit n = {n}", help=help)
    return n // 2


@part
def _tile_root(n, like, k):
    """exp(-2 pi i k / n) for k up to n // 2."""
    parts = tg.static(roots(n, np.arange(n // 2 + 1)))
    return tg.table(parts[0], type(like))[k], tg.table(parts[1], type(like))[k]


@part
def _tile_scale_inner(z, k, n, factor):
    """z times a factor, except for the self-conjugate elements of a row: the first and, if n is even, the last."""
    return tg.where(k == 0 or 2 * k == n, z, z * type(z[0])(factor))


@part
def _tile_clear_ends(z, k, n):
    """z with an imaginary part of 0 in the self-conjugate elements."""
    return tg.vector(z[0], tg.where(k == 0 or 2 * k == n, type(z[0])(0.0), z[1]))


@tile_rfft.reference
def rfft_reference(x):
    return np.fft.rfft(x, axis=-1)


@tile_irfft.reference
def irfft_reference(x, n):
    return np.fft.irfft(x, n, axis=-1) * n


@tile_rfft.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(rng.standard_normal(n).astype(np.float32), differentiable=n > 1)
    yield Sample(rng.standard_normal((2, 3, 12)), differentiable=True)
    yield Sample(rng.standard_normal((3, 45)).astype(np.float32))
    yield Refused(np.ones(3, np.int32), code="type-mismatch", says=("float32, float64", "int32"))


@tile_irfft.samples
def irfft_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(complex_numbers(rng, n // 2 + 1).astype(np.complex64), n, differentiable=n > 1)
    yield Sample(complex_numbers(rng, 2, 3, 7), n=12, differentiable=True)
    yield Sample(complex_numbers(rng, 3, 23).astype(np.complex64), 45)
    yield Refused(np.ones(3, np.complex64), 3, code="out-of-range", says=("(3,)", "n = 3", "2 elements"))
    yield Refused(np.ones(3, np.float32), 4, code="type-mismatch", says=("vec2", "float32"))
