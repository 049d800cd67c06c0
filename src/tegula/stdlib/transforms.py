"""Rigid motions, a rotation followed by a translation: transforms of 7 numbers, or matrices (4, 4) that multiply column
vectors."""

from __future__ import annotations

from tegula.signature import InOut
from tegula.stdlib.patterns import Mat44, Quat, Spatial, Transform, Vec3
from tegula.stdlib.registry import func, tg


@func
def transform_get_translation(xform: Transform):
    """The translation of a transform, as `xform.p`.

    Returns:
        a vector (3,).
    Gradient:
        the adjoint for the first three components.
    """
    return xform.p


@func
def transform_get_rotation(xform: Transform):
    """The rotation of a transform, as `xform.q`.

    Returns:
        a quaternion.
    Gradient:
        the adjoint for the last four components.
    """
    return xform.q


@func
def transform_set_translation(xform: InOut[Transform], p: Vec3):
    """Sets the translation of a transform, as `xform.p = p`.

    Parameters:
        xform: a variable that holds a transform; any other argument is not changed.
        p: a vector (3,) of floats.
    Gradient:
        the first three components of the adjoint for `p`; the other components for the old `xform`.
    """
    xform.p = p


@func
def transform_set_rotation(xform: InOut[Transform], q: Quat):
    """Sets the rotation of a transform, as `xform.q = q`.

    Parameters:
        xform: a variable that holds a transform; any other argument is not changed.
        q: a quaternion of floats.
    Gradient:
        the last four components of the adjoint for `q`; the other components for the old `xform`.
    """
    xform.q = q


@func
def transform_multiply(a: Transform, b: Transform):
    """The product of two transforms, as `a * b`: the motion `b`, then `a`.

    Returns:
        a transform: (quat_rotate(a.q, b.p) + a.p, a.q * b.q).
    Gradient:
        the derivative of the formula.
    """
    return tg.transformation(tg.quat_rotate(a.q, b.p) + a.p, a.q * b.q)


@func
def transform_point(xform: Transform, point: Vec3):
    """Transforms a point, by the rotation and the translation.

    Parameters:
        xform: a transform of floats whose rotation has length 1, or a matrix (4, 4), whose last row is not used.
    Returns:
        a vector (3,).
    Gradient:
        transform_vector of the transposed rotation and the adjoint for `point`; the derivative of the formula for
        `xform`.
    """
    return tg.quat_rotate(xform.q, point) + xform.p


@func
def transform_point(xform: Mat44, point: Vec3):  # noqa: F811
    """The first three components of the product of a matrix and (point, 1)."""
    return xform[0:3, 0:3] @ point + xform[0:3, 3]


@func
def transform_vector(xform: Transform, vec: Vec3):
    """Transforms a vector, by the rotation only.

    Parameters:
        xform: a transform of floats whose rotation has length 1, or a matrix (4, 4), whose last row is not used.
    Returns:
        a vector (3,).
    Gradient:
        transform_vector of the transposed rotation and the adjoint for `vec`; the derivative of the formula for
        `xform`.
    """
    return tg.quat_rotate(xform.q, vec)


@func
def transform_vector(xform: Mat44, vec: Vec3):  # noqa: F811
    """The first three components of the product of a matrix and (vec, 0)."""
    return xform[0:3, 0:3] @ vec


@func
def transform_inverse(xform: Transform):
    """The inverse of a transform.

    Parameters:
        xform: a transform of floats whose rotation has length 1.
    Returns:
        a transform.
    Gradient:
        the derivative of the formula.
    """
    inverse_rotation = tg.quat_inverse(xform.q)
    return tg.transformation(-tg.quat_rotate(inverse_rotation, xform.p), inverse_rotation)


@func
def transform_compose(position: Vec3, rotation: Quat, scale: Vec3):
    """The matrix that scales along the axes, then rotates, then translates.

    Parameters:
        position: a vector (3,) of floats, the translation.
        rotation: a quaternion of floats, of length 1.
        scale: a vector (3,) of floats.
    Returns:
        a matrix (4, 4): T @ R @ S.
    Gradient:
        the derivative of the formula.
    """
    m = tg.quat_to_matrix(rotation)
    zero, one = type(scale.x)(0.0), type(scale.x)(1.0)
    return tg.matrix_from_cols(
        tg.vector(m[:, 0] * scale.x, zero),
        tg.vector(m[:, 1] * scale.y, zero),
        tg.vector(m[:, 2] * scale.z, zero),
        tg.vector(position, one),
    )


@func
def transform_decompose(m: Mat44):
    """The translation, rotation and scale of a matrix, the inverse of transform_compose.

    Parameters:
        translation_out, rotation_out, scale_out: variables of the types of the results. If they are passed, they are
            set, and nothing is returned.
    Returns:
        a vector (3,), a quaternion of length 1, and a vector (3,): the lengths of the first three columns.
    Raises:
        type-mismatch: `m` is a tile: there are several results.
    Gradient:
        the derivative of the formula.
    """
    x, y, z = m[0:3, 0], m[0:3, 1], m[0:3, 2]
    rotation = tg.matrix_from_cols(tg.normalize(x), tg.normalize(y), tg.normalize(z))
    return m[0:3, 3], tg.quat_from_matrix(rotation), tg.vector(tg.length(x), tg.length(y), tg.length(z))


@func
def transform_decompose(  # noqa: F811
    m: Mat44, translation_out: InOut[Vec3], rotation_out: InOut[Quat], scale_out: InOut[Vec3]
):
    """The translation, rotation and scale of a matrix, assigned to variables."""
    translation_out, rotation_out, scale_out = tg.transform_decompose(m)


@func
def transform_from_matrix(mat: Mat44):
    """The transform of a matrix.

    Parameters:
        mat: a matrix (4, 4) of floats of a rotation and a translation, whose last row is not used.
    Returns:
        a transform.
    Gradient:
        the derivative of the formula.
    """
    return tg.transformation(mat[0:3, 3], tg.quat_from_matrix(mat))


@func
def transform_to_matrix(xform: Transform):
    """The matrix of a transform.

    Parameters:
        xform: a transform of floats whose rotation has length 1.
    Returns:
        a matrix (4, 4).
    Gradient:
        the derivative of the formula.
    """
    return tg.transform_compose(xform.p, xform.q, type(xform.p)(1.0))


@func
def transform_twist(t: Transform, x: Spatial):
    """Transforms a twist (angular velocity, linear velocity) to another frame.

    Parameters:
        t: a transform of floats whose rotation has length 1, from the frame of `x` to the other.
        x: a spatial vector (w, v) of floats.
    Returns:
        a spatial vector: (Rw, Rv + cross(p, Rw)).
    Gradient:
        the derivative of the formula.
    """
    w = tg.quat_rotate(t.q, tg.spatial_top(x))
    return tg.vector(w, tg.quat_rotate(t.q, tg.spatial_bottom(x)) + tg.cross(t.p, w))


@func
def transform_wrench(t: Transform, x: Spatial):
    """Transforms a wrench (torque, force) to another frame.

    Parameters:
        t: a transform of floats whose rotation has length 1, from the frame of `x` to the other.
        x: a spatial vector (torque, force) of floats.
    Returns:
        a spatial vector: (R torque + cross(p, R force), R force).
    Gradient:
        the derivative of the formula.
    """
    f = tg.quat_rotate(t.q, tg.spatial_bottom(x))
    return tg.vector(tg.quat_rotate(t.q, tg.spatial_top(x)) + tg.cross(t.p, f), f)
