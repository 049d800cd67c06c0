"""Perlin noise of one to four dimensions, periodic noise, and the curl of noise."""

from __future__ import annotations

from typing import Any

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.registry import composite, tg
from tegula.types import VecType, float32, int32, uint32

vec2, vec3, vec4 = (VecType(n, float32) for n in (2, 3, 4))
NOISE = Family(
    {
        "Source": "Perlin, Improving Noise, SIGGRAPH 2002, with gradients by the hash of Jarzynski and Olano, JCGT 9 "
        "(3), 2020."
    },
    {
        "type-mismatch": "an argument is not a number, or the result would be a tile of vectors of another dtype",
        "shape-mismatch": "the shapes of tiles do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
    },
)
PRIMES = (73856093, 19349663, 53471161, 10000019)


@composite()
def _fade(t: float32):
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


@composite()
def _fade_slope(t: float32):
    return 30.0 * t * t * (t * (t - 2.0) + 1.0)


@composite()
def _cell_gradient(h: InOut[uint32], point: float32):
    """The gradient of a cell with the hash h, with the dimensions of a point."""
    return tg.randf(h, -1.0, 1.0)


@composite()
def _cell_gradient(h: InOut[uint32], point: vec2):
    """The gradient of a cell with the hash h."""
    return tg.normalize(tg.sample_unit_square(h))


@composite()
def _cell_gradient(h: InOut[uint32], point: vec3):
    """The gradient of a cell with the hash h."""
    return tg.normalize(tg.sample_unit_cube(h))


@composite()
def _cell_gradient(h: InOut[uint32], point: vec4):
    """The gradient of a cell with the hash h."""
    return tg.normalize(tg.sample_unit_hypercube(h))


@composite()
def _corners(state: uint32, low, high, d):
    """The contributions of a cell's corners to the noise at the point d of the cell from low to high, and the gradients
    of the corners. Bit k of a corner's index is the side along axis k."""
    values: Any = ()
    slopes: Any = ()
    for corner in tg.static(range(16)):
        if corner < 1 << len(d):
            offset = d
            h = tg.uint32(0)
            for k in tg.static(range(4)):
                if k < len(d):
                    cell = low[k]
                    if corner >> k & 1:
                        cell = high[k]
                        offset[k] = offset[k] - 1.0
                    term = tg.uint32(cell) * PRIMES[k]
                    if k == len(d) - 1:
                        term = term + state
                    h = h ^ term
            slope = tg._cell_gradient(h, d)
            slopes = (*slopes, slope)
            values = (*values, tg.dot(offset, slope))
    return values, slopes


@composite()
def _noise_at(state: uint32, low, high, d):
    """The noise at the point d of the cell from low to high, interpolated along the first axis first."""
    values, _ = tg._corners(state, low, high, d)
    for axis in tg.static(range(4)):
        if axis < len(d):
            t = tg._fade(d[axis])
            interpolated: Any = ()
            for k in tg.static(range(8)):
                if 2 * k < len(values):
                    interpolated = (*interpolated, (values[2 * k + 1] - values[2 * k]) * t + values[2 * k])
            values = interpolated
    return values[0]


@composite()
def _noise_gradient(state: uint32, low, high, d):
    """The gradient of the noise by the point."""
    values, slopes = tg._corners(state, low, high, d)
    for axis in tg.static(range(4)):
        if axis < len(d):
            t, steepness = tg._fade(d[axis]), tg._fade_slope(d[axis])
            interpolated: Any = ()
            interpolated_slopes: Any = ()
            for k in tg.static(range(8)):
                if 2 * k < len(values):
                    a, b = values[2 * k], values[2 * k + 1]
                    interpolated = (*interpolated, (b - a) * t + a)
                    slope = (slopes[2 * k + 1] - slopes[2 * k]) * t + slopes[2 * k]
                    slope[axis] = slope[axis] + (b - a) * steepness
                    interpolated_slopes = (*interpolated_slopes, slope)
            values = interpolated
            slopes = interpolated_slopes
    return slopes[0]


@composite()
def _noise_of_line(state: uint32, low: int32, high: int32, d: float32):
    """The noise of one dimension."""
    h = tg.uint32(low) * PRIMES[0] + state
    a = d * tg._cell_gradient(h, d)
    h = tg.uint32(high) * PRIMES[0] + state
    b = (d - 1.0) * tg._cell_gradient(h, d)
    return (b - a) * tg._fade(d) + a


@composite()
def _floor(x):
    """The floor and the fractional part of each component of a vector."""
    low = tg.floor(x)
    return tg.cast(low, tg.int32), x - low


@composite()
def __floor_adjoint(x, low, fraction, g):
    """The adjoint of x. The floor counts as constant, because the noise is continuous across the boundaries of
    cells."""
    return g


@composite(NOISE)
def noise(state: uint32, x: float32):
    """Perlin noise at a point of one to four dimensions: smooth, from -1 to 1, and 0 at integral coordinates.

    The state is not advanced.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        x, xy, xyz, xyzt: the point, a float32 scalar, or a vec2, vec3 or vec4 of float32.
    Returns:
        a float32.
    Gradient:
        the adjoint times the gradient of the noise for the point; none for `state`.
    """
    low, d = tg._floor(x)
    return tg._noise_of_line(state, low, low + 1, d)


@composite()
def noise(state: uint32, xy: vec2):  # noqa: F811
    """Noise of two dimensions."""
    low, d = tg._floor(xy)
    return tg._noise_at(state, low, low + tg.vec2i(1), d)


@composite()
def noise(state: uint32, xyz: vec3):  # noqa: F811
    """Noise of three dimensions."""
    low, d = tg._floor(xyz)
    return tg._noise_at(state, low, low + tg.vec3i(1), d)


@composite()
def noise(state: uint32, xyzt: vec4):  # noqa: F811
    """Noise of four dimensions."""
    low, d = tg._floor(xyzt)
    return tg._noise_at(state, low, low + tg.vec4i(1), d)


@composite(NOISE)
def pnoise(state: uint32, x: float32, px: int32):
    """Perlin noise that repeats after a number of cells along each axis.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        x: the point in one dimension, a positive float32 scalar. Points in more dimensions are passed as `xy`, `xyz` or
            `xyzt`.
        px: the period along the first axis, an int32 scalar.
        xy: the point as a vec2 of float32.
        py: the period along the second axis, an int32 scalar.
        xyz: the point as a vec3.
        pz: the period along the third axis.
        xyzt: the point as a vec4.
        pt: the period along the fourth axis.
    Returns:
        a float32.
    Gradient:
        the adjoint times the gradient of the noise for the point; none for the other parameters.
    """
    low, d = tg._floor(x)
    first = low % px
    return tg._noise_of_line(state, first, (first + 1) % px, d)


@composite()
def _periodic_noise(state: uint32, x, period):
    """Periodic noise of several dimensions."""
    low, d = tg._floor(x)
    first = low % period
    return tg._noise_at(state, first, (first + type(first)(1)) % period, d)


@composite()
def pnoise(state: uint32, xy: vec2, px: int32, py: int32):  # noqa: F811
    """Periodic noise of two dimensions."""
    return tg._periodic_noise(state, xy, tg.vec2i(px, py))


@composite()
def pnoise(state: uint32, xyz: vec3, px: int32, py: int32, pz: int32):  # noqa: F811
    """Periodic noise of three dimensions."""
    return tg._periodic_noise(state, xyz, tg.vec3i(px, py, pz))


@composite()
def pnoise(state: uint32, xyzt: vec4, px: int32, py: int32, pz: int32, pt: int32):  # noqa: F811
    """Periodic noise of four dimensions."""
    return tg._periodic_noise(state, xyzt, tg.vec4i(px, py, pz, pt))


@composite()
def _slope_at(state: uint32, x):
    """The gradient of the noise at a point."""
    low, d = tg._floor(x)
    return tg._noise_gradient(state, low, low + type(low)(1), d)


@composite(NOISE)
def curlnoise(state: uint32, xy: vec2, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):
    """The curl of noise, a vector field without divergence.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        xy: the point as a vec2 of float32. Points in more dimensions are passed as `xyz` or `xyzt`.
        octaves: the number of fields that are added, a uint32; 1 by default.
        lacunarity: the ratio of the frequencies of consecutive fields, a float32; 2 by default.
        gain: the ratio of the amplitudes of consecutive fields, a float32; 0.5 by default.
        xyz, xyzt: the point as a vec3 or vec4; the fourth coordinate is the time.
    Returns:
        a vec2 for `xy`, else a vec3.
    Gradient:
        the adjoint times the derivatives of the field for the point, `lacunarity` and `gain`; none for `state`.
    Source:
        Bridson, Hourihan and Nordenstam, Curl-Noise for Procedural Fluid Flow, SIGGRAPH 2007.
    """
    total = tg.vec2(0.0)
    frequency = tg.float32(1.0)
    amplitude = tg.float32(1.0)
    for _ in range(tg.int32(octaves)):
        total = total + amplitude * tg._slope_at(state, frequency * xy)
        amplitude = amplitude * gain
        frequency = frequency * lacunarity
    return tg.vec2(-total[1], total[0])


@composite()
def _curl(state: uint32, x, octaves: uint32, lacunarity: float32, gain: float32):
    """The curl of three fields of noise by the first three coordinates."""
    first, second, third = x * 0.0, x * 0.0, x * 0.0
    frequency = tg.float32(1.0)
    amplitude = tg.float32(1.0)
    for _ in range(tg.int32(octaves)):
        scaled_point = frequency * x
        first = first + amplitude * tg._slope_at(state, scaled_point)
        state = tg.rand_init(state, tg.uint32(10019689))
        second = second + amplitude * tg._slope_at(state, scaled_point)
        state = tg.rand_init(state, tg.uint32(13112221))
        third = third + amplitude * tg._slope_at(state, scaled_point)
        amplitude = amplitude * gain
        frequency = frequency * lacunarity
    return tg.vec3(third[1] - second[2], first[2] - third[0], second[0] - first[1])


@composite()
def curlnoise(state: uint32, xyz: vec3, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):  # noqa: F811
    """The curl of noise of three dimensions."""
    return tg._curl(state, xyz, octaves, lacunarity, gain)


@composite()
def curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):  # noqa: F811
    """The curl of time-dependent noise of three dimensions."""
    return tg._curl(state, xyzt, octaves, lacunarity, gain)
