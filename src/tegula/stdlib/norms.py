"""Norms of vectors."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg

VECTORS = Family(
    {},
    {
        **NOT_A_VALUE,
        "type-mismatch": "`v` is not a vector, or tile of vectors, of floats",
        "mixed-scalar-types": "`v` holds integers, or `delta` is of another dtype",
        "out-of-range": "a literal does not fit its dtype",
        "shape-mismatch": "the shapes of tiles do not broadcast",
    },
)


@composite(VECTORS)
def norm_l1(v):
    """The sum of the magnitudes of the components of a vector.

    Parameters:
        v: a vector (N,) of floats.
    Returns:
        a scalar of the dtype of `v`.
    Gradient:
        the adjoint with the sign of each component; 0 at 0.
    """
    tg._require_vector("norm_l1", v)
    return tg.dot(tg.abs(v), type(v)(1.0))


@composite(VECTORS)
def norm_l2(v):
    """The length of a vector: the root of the sum of the squares of its components.

    Parameters:
        v: a vector (N,) of floats.
    Returns:
        a scalar of the dtype of `v`.
    Gradient:
        adjoint * v / norm; 0 at length 0.
    """
    return tg.length(v)


@composite(VECTORS)
def norm_huber(v, delta=1.0):
    """The Huber norm of a vector: half the square of its length up to delta, beyond that delta * (length - delta / 2).

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a scalar of that dtype.
    Gradient:
        adjoint * v up to `delta`, adjoint * delta * v / length beyond; also for `delta`.
    Source:
        Huber, Robust Estimation of a Location Parameter, 1964.
    """
    tg._require_vector("norm_huber", v)
    square = tg.dot(v, v)
    return tg.where(square <= delta * delta, 0.5 * square, delta * (tg.sqrt(square) - 0.5 * delta))


@composite(VECTORS)
def norm_pseudo_huber(v, delta=1.0):
    """The smooth Huber norm of a vector: delta * sqrt(1 + (length / delta)**2).

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a scalar of that dtype.
    Gradient:
        adjoint * v / norm for `v`; also for `delta`.
    """
    tg._require_vector("norm_pseudo_huber", v)
    return delta * tg.sqrt(1.0 + tg.dot(v, v) / (delta * delta))


@composite(VECTORS)
def smooth_normalize(v, delta=1.0):
    """The vector divided by its smooth Huber norm, which is positive, so that the result is smooth at length 0.

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a vector of the type of `v`.
    Gradient:
        the derivative of the quotient.
    """
    return v / tg.norm_pseudo_huber(v, delta)
