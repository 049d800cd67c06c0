"""Rotations in three dimensions as quaternions (x, y, z, w).

A rotation by an angle about an axis of length 1 is (axis sin(angle / 2), cos(angle / 2)); q and -q are one rotation.
Functions that take rotations expect a length of 1; gradients are the derivatives of the formula for any length."""

from __future__ import annotations

from math import pi

from tegula.signature import InOut
from tegula.stdlib.patterns import Mat33, Mat44, Quat, Scalar, Vec3
from tegula.stdlib.registry import func, tg
from tegula.types import int32


@func
def quat_multiply(a: Quat, b: Quat):
    """The Hamilton product of two quaternions, as `a * b`: the rotation by `b`, then by `a`.

    Returns:
        a quaternion.
    Gradient:
        quat_multiply(adjoint, quat_inverse(b)) for `a`, quat_multiply(quat_inverse(a), adjoint) for `b`.
    """
    u, v = a[0:3], b[0:3]
    return tg.quaternion(u * b.w + v * a.w + tg.cross(u, v), a.w * b.w - tg.dot(u, v))


@func
def quat_inverse(quat: Quat):
    """The conjugate (-x, -y, -z, w), which is the inverse of a rotation.

    Returns:
        a quaternion.
    Gradient:
        the conjugate of the adjoint.
    """
    return tg.quaternion(-quat.x, -quat.y, -quat.z, quat.w)


@func
def quat_from_axis_angle(axis: Vec3, angle: Scalar):
    """The rotation by an angle about an axis, counterclockwise as seen from its tip.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
        angle: the angle in radians, a float.
    Returns:
        a quaternion: (axis * sin(angle / 2), cos(angle / 2)).
    Gradient:
        the derivative of the formula.
    """
    half = angle * 0.5
    return tg.quaternion(axis * tg.sin(half), tg.cos(half))


@func
def quat_to_axis_angle(quat: Quat):
    """The axis and the angle of a rotation, by the smaller of the two possible angles.

    Parameters:
        axis, angle: variables, a vector (3,) and a scalar of the dtype of `quat`. If they are passed, they are set, and
            nothing is returned.
    Returns:
        a vector (3,) of length 1, zeros for no rotation, and an angle from 0 to pi in radians.
    Raises:
        type-mismatch: `quat` is a tile: there are two results.
    Gradient:
        the derivative of the formula; 0 where there is no rotation.
    """
    v = quat[0:3]
    axis = tg.normalize(v)
    return tg.where(quat.w < 0.0, -axis, axis), 2.0 * tg.atan2(tg.length(v), tg.abs(quat.w))


@func
def quat_to_axis_angle(quat: Quat, axis: InOut[Vec3], angle: InOut[Scalar]):  # noqa: F811
    """The axis and the angle of a rotation, assigned to variables."""
    axis, angle = tg.quat_to_axis_angle(quat)


@func
def quat_rotate(quat: Quat, vec: Vec3):
    """A vector rotated: quat_to_matrix(quat) @ vec.

    Returns:
        a vector (3,).
    Gradient:
        quat_rotate_inv(quat, adjoint) for `vec`; the derivative of the formula for the components of `quat`.
    """
    u = quat[0:3]
    return (
        vec * (2.0 * quat.w * quat.w - 1.0) + u * (2.0 * tg.dot(u, vec)) + tg.cross(u, vec) * (2.0 * quat.w)
    )


@func
def quat_rotate_inv(quat: Quat, vec: Vec3):
    """A vector rotated by the inverse of a rotation.

    Returns:
        a vector (3,).
    Gradient:
        quat_rotate(quat, adjoint) for `vec`; the derivative of the formula for the components of `quat`.
    """
    return tg.quat_rotate(tg.quat_inverse(quat), vec)


@func
def quat_to_matrix(quat: Quat):
    """The matrix of a rotation, by which column vectors are multiplied.

    Returns:
        a matrix (3, 3).
    Gradient:
        the derivative of the formula, entry by entry.
    """
    u, w = quat[0:3], quat.w
    return tg.identity(3, type(w)) * (2.0 * w * w - 1.0) + tg.outer(u, u) * 2.0 + tg.skew(u * (2.0 * w))


@func
def quat_from_matrix(mat: Mat33):
    """The rotation of a matrix that multiplies column vectors.

    Parameters:
        mat: a matrix (3, 3) of floats, orthogonal with determinant 1; or a matrix (4, 4), of which the first 3 rows and
            columns are used.
    Returns:
        a quaternion of length 1. If the trace is negative the component of the largest magnitude is positive, else w is
        positive.
    Gradient:
        the derivative of the formula, entry by entry.
    Source:
        Shepperd 1978, Quaternion from rotation matrix.
    """
    x, y, z = mat[0, 0], mat[1, 1], mat[2, 2]
    # A row is four times the products of one component with all components; the row of the largest component is well
    # conditioned.
    row_w = tg.quaternion(
        mat[2, 1] - mat[1, 2], mat[0, 2] - mat[2, 0], mat[1, 0] - mat[0, 1], 1.0 + x + y + z
    )
    row_x = tg.quaternion(1.0 + x - y - z, mat[0, 1] + mat[1, 0], mat[0, 2] + mat[2, 0], row_w.x)
    row_y = tg.quaternion(row_x.y, 1.0 - x + y - z, mat[1, 2] + mat[2, 1], row_w.y)
    row_z = tg.quaternion(row_x.z, row_y.z, 1.0 - x - y + z, row_w.z)
    best_xy = tg.where(y > x, row_y, row_x)
    best_xyz = tg.where(z > tg.max(x, y), row_z, best_xy)
    return tg.normalize(tg.where(x + y + z >= 0.0, row_w, best_xyz))


@func
def quat_from_matrix(mat: Mat44):  # noqa: F811
    """The rotation of the first three rows and columns of a matrix (4, 4)."""
    return tg.quat_from_matrix(mat[0:3, 0:3])


@func
def quat_rpy(roll: Scalar, pitch: Scalar, yaw: Scalar):
    """The rotation by roll about x, then pitch about y, then yaw about z, with fixed axes.

    Parameters:
        roll, pitch, yaw: the angles in radians, floats.
    Returns:
        a quaternion of length 1: qz * qy * qx.
    Gradient:
        the derivative of the formula.
    """
    sr, sp, sy = tg.sin(roll * 0.5), tg.sin(pitch * 0.5), tg.sin(yaw * 0.5)
    cr, cp, cy = tg.cos(roll * 0.5), tg.cos(pitch * 0.5), tg.cos(yaw * 0.5)
    return tg.quaternion(
        cy * sr * cp - sy * cr * sp,
        cy * cr * sp + sy * sr * cp,
        sy * cr * cp - cy * sr * sp,
        cy * cr * cp + sy * sr * sp,
    )


@func
def quat_to_rpy(q: Quat):
    """The angles (roll, pitch, yaw) of a rotation, the inverse of quat_rpy.

    Where pitch is pi / 2 or -pi / 2, roll and yaw are not determined; tg.quat_to_euler(q, 0, 1, 2) chooses one of the
    solutions.

    Returns:
        a vector (3,) of radians: roll and yaw from -pi to pi, pitch from -pi / 2 to pi / 2.
    Gradient:
        the derivative of the formula; 0 for pitch where it is clamped.
    """
    x, y, z, w = q.x, q.y, q.z, q.w
    roll = tg.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = tg.asin(tg.clamp(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = tg.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return tg.vector(roll, pitch, yaw)


@func
def _axis_rotation(e, axis):
    """The rotation by e[axis] about the axis with index `axis`."""
    v = type(e)()
    v[axis] = tg.sin(e[axis] * 0.5)
    return tg.quaternion(v, tg.cos(e[axis] * 0.5))


@func
def quat_from_euler(e: Vec3, i: int32, j: int32, k: int32):
    """The rotation by e[i] about axis `i`, then e[j] about `j`, then e[k] about `k`, with fixed axes.

    Parameters:
        e: the angles in radians, by axis, a vector (3,) of floats.
        i, j, k: the axes, integers from 0 to 2; those next to each other differ.
    Returns:
        a quaternion of length 1: qk * qj * qi.
    Gradient:
        the derivative of the formula for `e`.
    """
    return tg._axis_rotation(e, k) * (tg._axis_rotation(e, j) * tg._axis_rotation(e, i))


@func
def quat_to_euler(q: Quat, i: int32, j: int32, k: int32):
    """The angles of rotations about the axes `i`, then `j`, then `k`, that make up a rotation.

    With three different axes quat_from_euler(e, i, j, k) is the inverse; if the second angle is pi / 2 or -pi / 2, the
    first angle is chosen to be 0. If `i` equals `k`, the third angle is at the index of the unused axis.

    Parameters:
        i, j, k: the axes, integers from 0 to 2; those next to each other differ.
    Returns:
        a vector (3,) of radians, by axis: the second angle is from -pi / 2 to pi / 2, where `i` is `k` from 0 to pi.
    Gradient:
        the derivative of the formula for `q`.
    Source:
        Bernardes and Viollet 2022, Quaternion to Euler angles conversion.
    """
    is_same = i == k
    last = tg.where(is_same, 3 - i - j, k)
    sign = type(q.w)((i - j) * (j - last) * (last - i)) * 0.5
    weight = tg.where(is_same, q.w * 0.0, q.w * 0.0 + 1.0)
    a, b = q.w - q[j] * weight, q[i] + q[last] * sign * weight
    c, d = q[j] + q.w * weight, q[last] * sign - q[i] * weight
    large, small = tg.hypot(a, b), tg.hypot(c, d)
    second = 2.0 * tg.atan2(small, large)
    plus, minus = tg.atan2(b, a), tg.atan2(d, c)
    first, third = plus - minus, plus + minus
    if second < 1e-6:
        first, third = q.w * 0.0, 2.0 * plus
    elif pi - second < 1e-6:
        first, third = q.w * 0.0, 2.0 * minus
    e = type(tg.vector(a, b, c))()
    e[i] = first
    e[j] = second - weight * (pi / 2.0)
    e[last] = tg.where(is_same, third, third * sign)
    return e


@func
def quat_slerp(a: Quat, b: Quat, t: Scalar):
    """The spherical linear interpolation of two rotations, along the shorter arc.

    Parameters:
        a, b: quaternions of floats, of length 1; `b` of any length but 0.
        t: a float: 0 gives `a`, 1 gives `b` or -b.
    Returns:
        a quaternion: `a` times the rotation by t * angle about the axis of quat_inverse(a) * b.
    Gradient:
        the derivative of the formula, also where `a` is `b`.
    """
    relative = tg.quat_inverse(a) * b
    relative = tg.where(relative.w < 0.0, -relative, relative)
    v, w = relative[0:3], relative.w
    square, length = tg.dot(v, v), tg.length(v)
    angle = t * tg.atan2(length, w)
    # sin(angle) / length, computed by a series if both quantities are small.
    is_small = square < 1e-8 * w * w
    safe_w, safe_length = (
        tg.where(is_small, w, length * 0.0 + 1.0),
        tg.where(is_small, length * 0.0 + 1.0, length),
    )
    r = square / (safe_w * safe_w)
    series = t / safe_w * (1.0 - r * (2.0 + t * t) / 6.0)
    scale = tg.where(is_small, series, tg.sin(angle) / safe_length)
    return a * tg.quaternion(v * scale, tg.cos(angle))


@func
def quat_twist(axis: Vec3, q: Quat):
    """The twist of a rotation about an axis. The remaining rotation, the swing, is about an axis orthogonal to `axis`.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
    Returns:
        a quaternion of length 1; the identity for a half turn about an axis orthogonal to `axis`.
    Gradient:
        the derivative of the formula.
    """
    return tg.normalize(tg.quaternion(axis * tg.dot(q[0:3], axis), q.w))


@func
def quat_twist_angle(axis: Vec3, q: Quat):
    """The magnitude of the angle of the twist of a rotation about an axis.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
    Returns:
        a scalar, radians from 0 to pi where w is not negative, else up to 2 pi.
    Gradient:
        the derivative of the formula.
    """
    return 2.0 * tg.atan2(tg.abs(tg.dot(axis, q[0:3])), q.w)


@func
def quat_twist_angle_signed(axis: Vec3, q: Quat):
    """The angle of the twist of a rotation about an axis, negative for a clockwise twist.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
    Returns:
        a scalar, radians from -pi to pi where w is not negative, else from -2 pi to 2 pi.
    Gradient:
        the derivative of the formula.
    """
    return 2.0 * tg.atan2(tg.dot(axis, q[0:3]), q.w)


@func
def quat_between_vectors(a: Vec3, b: Vec3):
    """The rotation by the smallest angle that maps the direction of `a` to the direction of `b`.

    Parameters:
        a, b: vectors (3,) of floats, of any length but 0; the directions must not be opposite.
    Returns:
        a quaternion of length 1.
    Gradient:
        the derivative of the formula.
    """
    u, v = tg.normalize(a), tg.normalize(b)
    return tg.normalize(tg.quaternion(tg.cross(u, v), 1.0 + tg.dot(u, v)))
