"""Spatial vectors of six numbers (w, v): twists (angular and linear velocity) and wrenches (torque and force)."""

from __future__ import annotations

from tegula.stdlib.patterns import Mat33, Spatial, Vec3
from tegula.stdlib.registry import func, tg


@func
def spatial_top(svec: Spatial):
    """The first three components of a spatial vector: its angular velocity or torque.

    Returns:
        a vector (3,).
    Gradient:
        the adjoint for the first three components.
    """
    return svec[0:3]


@func
def spatial_bottom(svec: Spatial):
    """The last three components of a spatial vector: its linear velocity or force.

    Returns:
        a vector (3,).
    Gradient:
        the adjoint for the last three components.
    """
    return svec[3:6]


@func
def spatial_dot(a: Spatial, b: Spatial):
    """The inner product of two spatial vectors: the power of a wrench and a twist.

    Returns:
        a scalar.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    """
    return tg.dot(a, b)


@func
def spatial_cross(a: Spatial, b: Spatial):
    """The cross product of two twists.

    Returns:
        a spatial vector: (cross(wa, wb), cross(va, wb) + cross(wa, vb)).
    Gradient:
        the derivative of the formula.
    """
    u, v = a[0:3], b[0:3]
    return tg.vector(tg.cross(u, v), tg.cross(a[3:6], v) + tg.cross(u, b[3:6]))


@func
def spatial_cross_dual(a: Spatial, b: Spatial):
    """The cross product of a twist and a wrench.

    Returns:
        a spatial vector, a wrench: (cross(wa, wb) + cross(va, vb), cross(wa, vb)).
    Gradient:
        the derivative of the formula.
    """
    u, f = a[0:3], b[3:6]
    return tg.vector(tg.cross(u, b[0:3]) + tg.cross(a[3:6], f), tg.cross(u, f))


@func
def spatial_adjoint(r: Mat33, s: Mat33):
    """The matrix that transforms twists to another frame, where `r` is a rotation and `s` is skew(p) @ r.

    Returns:
        a matrix (6, 6): [[r, 0], [s, r]].
    Gradient:
        the sum of the corresponding blocks of the adjoint, for `r` and `s`.
    """
    zero = type(r[0])()
    return tg.matrix_from_rows(
        tg.vector(r[0], zero),
        tg.vector(r[1], zero),
        tg.vector(r[2], zero),
        tg.vector(s[0], r[0]),
        tg.vector(s[1], r[1]),
        tg.vector(s[2], r[2]),
    )


@func
def velocity_at_point(qd: Spatial, r: Vec3):
    """The velocity of a point of a rigid body.

    Parameters:
        qd: the twist of the body, a spatial vector (w, v) of floats.
        r: a vector (3,) of floats, the point relative to the origin of the twist.
    Returns:
        a vector (3,): v + cross(w, r).
    Gradient:
        the derivative of the formula.
    """
    return qd[3:6] + tg.cross(qd[0:3], r)
