"""Random numbers: the generator PCG as a hash, and distributions drawn with it."""

from __future__ import annotations

from math import pi

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.registry import composite, tg
from tegula.types import float32, int32, uint32

PCG = "Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020."
_MISFITS = {
    "type-mismatch": "an argument is not a number, or is a tile, and the result is not an element",
    "mixed-scalar-types": "the arguments differ in type, such as a matrix and a vector",
    "shape-mismatch": "the shapes of tiles do not broadcast",
    "out-of-range": "a literal does not fit its dtype",
}
SEEDS = Family({"Gradient": "none: integers have no gradient.", "Source": PCG}, _MISFITS)
DRAWS = Family(
    {"Gradient": "none: a draw does not depend on numbers with a gradient.", "Source": PCG}, _MISFITS
)
TWO_PI = 2.0 * pi
ABOVE_ZERO = 5.96e-8
"""A number slightly below 2**-24, which is added to a draw so that the logarithm is finite."""


@composite()
def _pcg(s: uint32):
    b = s * 747796405 + 2891336453
    c = ((b >> ((b >> 28) + 4)) ^ b) * 277803737
    return (c >> 22) ^ c


@composite(SEEDS)
def rand_init(seed: int32):
    """The state of a random number generator, from a seed and an offset that distinguishes threads.

    Parameters:
        seed, offset: int32 or uint32 scalars of one dtype; without `offset` the state depends on the seed alone.
    Returns:
        a uint32.
    """
    return tg._pcg(tg.uint32(seed))


@composite()
def rand_init(seed: uint32):  # noqa: F811
    """The state of a uint32 seed."""
    return tg._pcg(seed)


@composite()
def rand_init(seed: int32, offset: int32):  # noqa: F811
    """The state of a seed and an offset."""
    return tg._pcg(tg.uint32(seed) + tg._pcg(tg.uint32(offset)))


@composite()
def rand_init(seed: uint32, offset: uint32):  # noqa: F811
    """The state of a seed and an offset."""
    return tg._pcg(seed + tg._pcg(offset))


@composite(DRAWS)
def randu(state: InOut[uint32]):
    """A random uint32: any value, or a value from low to high - 1.

    Parameters:
        low, high: uint32 scalars; an empty range gives `low`.
    Returns:
        a uint32.
    """
    state = tg._pcg(state)
    return state


@composite()
def randu(state: InOut[uint32], low: uint32, high: uint32):  # noqa: F811
    """A random uint32 from low to high - 1."""
    state = tg._pcg(state)
    return state % (high - low) + low


@composite(DRAWS)
def randi(state: InOut[uint32]):
    """A random int32: any value, or a value from low to high - 1.

    Parameters:
        low, high: int32 scalars; an empty range gives `low`.
    Returns:
        an int32.
    """
    state = tg._pcg(state)
    return tg.int32(state)


@composite()
def randi(state: InOut[uint32], low: int32, high: int32):  # noqa: F811
    """A random int32 from low to high - 1."""
    state = tg._pcg(state)
    return tg.int32(state % tg.uint32(high - low) + tg.uint32(low))


@composite(DRAWS)
def randf(state: InOut[uint32]):
    """A random float32 in [0, 1), a multiple of 2**-24; with a range low + (high - low) times this number.

    Parameters:
        low, high: float32 scalars.
    Returns:
        a float32.
    Gradient:
        none of the draw; 1 - f of `low`, and f of `high`, with f from 0 to 1.
    """
    state = tg._pcg(state)
    return tg.float32(state >> 8) * (1.0 / 16777216.0)


@composite()
def randf(state: InOut[uint32], low: float32, high: float32):  # noqa: F811
    """A random float32 from low to high."""
    return (high - low) * tg.randf(state) + low


@composite(DRAWS)
def randn(state: InOut[uint32]):
    """A random float32 of the normal distribution of mean 0 and variance 1. The function draws twice.

    Returns:
        a float32.
    Source:
        Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """
    radius = tg.sqrt(-2.0 * tg.log(tg.randf(state) + ABOVE_ZERO))
    return radius * tg.cos(TWO_PI * tg.randf(state))


@composite(DRAWS)
def sample_cdf(state: InOut[uint32], cdf):
    """A random index with a given cumulative distribution function: the first index whose value is at least a draw from
    0 to 1.

    Parameters:
        cdf: an array (N,) of float32 that ascends to 1.
    Returns:
        an int32 from 0 to N.
    Raises:
        type-mismatch: `cdf` is not an array of one dimension.
        mixed-scalar-types: `cdf` holds another dtype.
        unknown-attribute: `cdf` is not an array.
        unsupported-python: `cdf` is an object that is not a value.
        not-constant: `cdf` is a tuple.
    """
    return tg.lower_bound(cdf, tg.randf(state))


@composite(DRAWS)
def sample_triangle(state: InOut[uint32]):
    """The first two barycentric coordinates of a random point of a triangle. It draws twice.

    Returns:
        a vec2 of float32.
    """
    r = tg.sqrt(tg.randf(state))
    return tg.vec2(1.0 - r, tg.randf(state) * r)


@composite(DRAWS)
def sample_unit_ring(state: InOut[uint32]):
    """A random point of the circle of radius 1 around the origin.

    Returns:
        a vec2 of float32.
    """
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg.vec2(tg.cos(theta), tg.sin(theta))


@composite(DRAWS)
def sample_unit_disk(state: InOut[uint32]):
    """A random point of the disk of radius 1 around the origin. It draws twice.

    Returns:
        a vec2 of float32.
    """
    r = tg.sqrt(tg.randf(state))
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg.vec2(r * tg.cos(theta), r * tg.sin(theta))


@composite()
def _direction(theta: float32, phi: float32, r: float32):
    """A point in spherical coordinates: the azimuth `theta`, the polar angle `phi` and the radius `r`."""
    return tg.vec3(r * tg.cos(theta) * tg.sin(phi), r * tg.sin(theta) * tg.sin(phi), r * tg.cos(phi))


@composite(DRAWS)
def sample_unit_sphere_surface(state: InOut[uint32]):
    """A random point of the sphere of radius 1 around the origin. It draws twice.

    Returns:
        a vec3 of float32.
    """
    phi = tg.acos(1.0 - 2.0 * tg.randf(state))
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg._direction(theta, phi, 1.0)


@composite(DRAWS)
def sample_unit_sphere(state: InOut[uint32]):
    """A random point of the ball of radius 1 around the origin. It draws three times.

    Returns:
        a vec3 of float32.
    """
    phi = tg.acos(1.0 - 2.0 * tg.randf(state))
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg._direction(theta, phi, tg.pow(tg.randf(state), 1.0 / 3.0))


@composite(DRAWS)
def sample_unit_hemisphere_surface(state: InOut[uint32]):
    """A random point of the half of the sphere of radius 1 where z is positive. It draws twice.

    Returns:
        a vec3 of float32.
    """
    phi = tg.acos(1.0 - tg.randf(state))
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg._direction(theta, phi, 1.0)


@composite(DRAWS)
def sample_unit_hemisphere(state: InOut[uint32]):
    """A random point of the half of the ball of radius 1 where z is positive. It draws three times.

    Returns:
        a vec3 of float32.
    """
    phi = tg.acos(1.0 - tg.randf(state))
    theta = tg.randf(state, 0.0, TWO_PI)
    return tg._direction(theta, phi, tg.pow(tg.randf(state), 1.0 / 3.0))


@composite(DRAWS)
def sample_unit_square(state: InOut[uint32]):
    """A random point of the square of edges of length 1 around the origin. It draws twice.

    Returns:
        a vec2 of float32.
    """
    x = tg.randf(state) - 0.5
    y = tg.randf(state) - 0.5
    return tg.vec2(x, y)


@composite(DRAWS)
def sample_unit_cube(state: InOut[uint32]):
    """A random point of the cube of edges of length 1 around the origin. It draws three times.

    Returns:
        a vec3 of float32.
    """
    x = tg.randf(state) - 0.5
    y = tg.randf(state) - 0.5
    z = tg.randf(state) - 0.5
    return tg.vec3(x, y, z)


@composite(DRAWS)
def sample_unit_hypercube(state: InOut[uint32]):
    """A random point of the cube of four dimensions of edges of length 1 around the origin. It draws four times.

    Returns:
        a vec4 of float32.
    """
    x = tg.randf(state) - 0.5
    y = tg.randf(state) - 0.5
    z = tg.randf(state) - 0.5
    w = tg.randf(state) - 0.5
    return tg.vec4(x, y, z, w)


LOG_GAMMA = (
    *(8.333333333333333e-02, -2.777777777777778e-03, 7.936507936507937e-04, -5.952380952380952e-04),
    *(8.417508417508418e-04, -1.917526917526918e-03, 6.410256410256410e-03, -2.955065359477124e-02),
    *(1.796443723688307e-01, -1.39243221690590e00),
)
"""The coefficients of Stirling's series, from Zhang and Jin, Computation of Special Functions, 1996."""
LOG_TWO_PI = 1.8378770664093453


@composite()
def _log_gamma(x: float32):
    """The logarithm of the gamma function of a positive integral number."""
    shift_count = tg.where(x < 7.0, tg.int32(7.0 - x), 0)
    y = x + tg.float32(shift_count)
    inverse = (1.0 / y) * (1.0 / y)
    series = tg.float32(LOG_GAMMA[9])
    for k in tg.static(range(9)):
        series = series * inverse + LOG_GAMMA[8 - k]
    total = series / y + 0.5 * LOG_TWO_PI + (y - 0.5) * tg.log(y) - y
    for _ in range(shift_count):
        total = total - tg.log(y - 1.0)
        y = y - 1.0
    return tg.where((x == 1.0) | (x == 2.0), tg.float32(0.0), total)


@composite()
def _poisson_small_mean(state: InOut[uint32], mean: float32):
    """Knuth's algorithm: the number of draws before their product is at most exp(-mean)."""
    limit = tg.exp(-mean)
    count = tg.uint32(0)
    product = tg.randf(state)
    while product > limit:
        count = count + 1
        u = tg.randf(state)
        product = product * u
    return count


@composite()
def _poisson_large_mean(state: InOut[uint32], mean: float32):
    """Hörmann's algorithm: transformed rejection."""
    log_mean = tg.log(mean)
    b = 0.931 + 2.53 * tg.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    limit = 0.9277 - 3.6224 / (b - 2.0)
    k = tg.float32(0.0)
    is_rejected = True
    while is_rejected:
        u = tg.randf(state) - 0.5
        v = tg.randf(state)
        s = 0.5 - tg.abs(u)
        k = tg.floor((2.0 * a / s + b) * u + mean + 0.43)
        if (s >= 0.07) & (v <= limit):
            is_rejected = False
        elif (k >= 0.0) & ((s >= 0.013) | (v <= s)):
            log_ratio = tg.log(v) + tg.log(inverse_alpha) - tg.log(a / (s * s) + b)
            is_rejected = log_ratio > -mean + k * log_mean - tg._log_gamma(k + 1.0)
    return tg.uint32(k)


@composite(DRAWS)
def poisson(state: InOut[uint32], lam: float32):
    """A random number of the Poisson distribution of a given mean. The number of draws varies.

    Parameters:
        lam: the mean, a non-negative float32. For 0 and NaN the result is 0, without a draw.
    Returns:
        a uint32.
    Source:
        Hörmann, The transformed rejection method for generating Poisson random variables, 1993, for means of at least
        10; Knuth's algorithm for smaller means.
    """
    count = tg.uint32(0)
    if lam >= 10.0:
        count = tg._poisson_large_mean(state, lam)
    elif lam > 0.0:
        count = tg._poisson_small_mean(state, lam)
    return count
