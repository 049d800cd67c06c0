"""Discrete Fourier transforms in two dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, InOut, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.fft import Complex, complex_numbers

M, N = Extent("M"), Extent("N")


@cooperative
def tile_fft2(inout: InOut[Tile[Complex, ..., M, N]]):
    """The discrete Fourier transform along the last two dimensions of a tile, in place, as numpy.fft.fft2.

    Parameters:
        inout: a tile (..., M, N) of vec2f or vec2d, complex numbers with the real part first.
    Raises:
        type-mismatch: `inout` has another dtype or fewer dimensions, or is not a tile bound to a name.
        out-of-range: there are no tables for M or N.
    Gradient:
        the inverse transform of the adjoint, not divided by M * N.
    Source:
        `tile_fft` of rows, then of columns.
    """
    tg.tile_assign(inout, tg._tile_dft2(inout, False))


@cooperative
def tile_ifft2(inout: InOut[Tile[Complex, ..., M, N]]):
    """The inverse of `tile_fft2` times M * N, in place: M * N times numpy.fft.ifft2.

    Parameters:
        inout: a tile (..., M, N) of vec2f or vec2d.
    Raises:
        type-mismatch: `inout` has another dtype or fewer dimensions, or is not a tile bound to a name.
        out-of-range: there are no tables for M or N.
    Gradient:
        `tile_fft2` of the adjoint.
    Source:
        as for `tile_fft2`.
    """
    tg.tile_assign(inout, tg._tile_dft2(inout, True))


@cooperative
def _tile_dft2(x: Tile[Complex, M, N], inverse: constexpr[bool]) -> Tile[Complex, M, N]:
    """The transform of a matrix; `inverse`: the inverse, not divided by the number of elements."""
    return tg.tile_transpose(tg._tile_dft(tg.tile_transpose(tg._tile_dft(x, inverse, False)), inverse, False))


@tile_fft2.reference
def fft2_reference(inout):
    return np.fft.fft2(inout)


@tile_ifft2.reference
def ifft2_reference(inout):
    return np.fft.ifft2(inout) * (inout.shape[-1] * inout.shape[-2])


def fft2_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of matrices of complex numbers."""
    for shape in ((1, 1), (2, 3), (4, 8), (16, 12)):
        yield Sample(complex_numbers(rng, *shape).astype(np.complex64), differentiable=shape == (2, 3))
    yield Sample(complex_numbers(rng, 2, 3, 5), differentiable=True)
    yield Refused(np.ones(3, np.complex64), code="type-mismatch", says=("(3,)",))
    yield Refused(np.ones((3, 3), np.float32), code="type-mismatch", says=("vec2", "float32"))


tile_fft2.samples(fft2_samples)
tile_ifft2.samples(fft2_samples)
