"""Distances of line segments, and intersections of triangles."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.patterns import Scalar, Vec3
from tegula.stdlib.registry import composite, func, tg

PARALLEL = 1e-6
"""Edges count as parallel in gradients if the squared sine of their angle is below this number."""
INTERSECTION = Family(
    {"Gradient": "none: integers have no gradient."},
    {
        "mixed-scalar-types": "the dtypes of the arguments differ",
        "shape-mismatch": "the shapes of tiles, whose elements are arguments too, do not broadcast",
    },
)


@func
def closest_point_edge_edge(p1: Vec3, q1: Vec3, p2: Vec3, q2: Vec3, epsilon: Scalar):
    """The points of two edges (line segments) that are closest to each other, and their distance.

    If several pairs of points are closest, because the edges are parallel, one pair is chosen.

    Parameters:
        p1, q1, p2, q2: the ends of the first and of the second edge, vectors (3,) of floats of one dtype.
        epsilon: a scalar of that dtype: an edge whose squared length is at most `epsilon` is the point at its start.
    Returns:
        a vector (3,): (s, t, d), with s and t from 0 to 1: the points p1 + s * (q1 - p1) and p2 + t * (q2 - p2), and
        their distance d.
    Gradient:
        of s, t and d for the ends. A clamped s or t counts as constant, and so does s if the angle between the edges is
        below 0.001. The gradient of d is 0 at distance 0, and the gradient for `epsilon` is 0.
    Source:
        Ericson, Real-Time Collision Detection, 2005, section 5.1.9.
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, e, b = tg.dot(d1, d1), tg.dot(d2, d2), tg.dot(d1, d2)
    c, f = tg.dot(d1, r), tg.dot(d2, r)
    is_edge, other_is_edge = a > epsilon, e > epsilon
    length, other_length = tg.where(is_edge, a, a * 0.0 + 1.0), tg.where(other_is_edge, e, e * 0.0 + 1.0)
    # Cross products, because differences of products of lengths are inexact for nearly parallel edges.
    normal = tg.cross(d1, d2)
    area = tg.dot(normal, normal)
    both_inside = is_edge & other_is_edge & (area > 0.0)
    parameter = tg.dot(tg.cross(d2, r), normal) / tg.where(both_inside, area, length)
    s = tg.where(both_inside, tg.clamp(parameter, 0.0, 1.0), a * 0.0)
    t = tg.where(
        other_is_edge, tg.clamp(tg.where(is_edge, b * s, b * 0.0) + f, 0.0, e) / other_length, e * 0.0
    )
    if is_edge & ((t <= 0.0) | (t >= 1.0) | (not other_is_edge)):
        s = tg.clamp((tg.where(other_is_edge, b * t, b * 0.0) - c) / length, 0.0, 1.0)
    difference = r + s * d1 - t * d2
    return tg.vector(s, t, tg.length(difference))


@func
def _closest_point_edge_edge_adjoint(p1, q1, p2, q2, epsilon, closest, g):
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    s, t = closest[0], closest[1]
    a, e, b = tg.dot(d1, d1), tg.dot(d2, d2), tg.dot(d1, d2)
    w = r + s * d1 - t * d2
    # The normal equations of the free parameters: a s - b t = -d1.r and e t - b s = d2.r.
    is_free, other_is_free = (a > epsilon) & (s > 0.0) & (s < 1.0), (e > epsilon) & (t > 0.0) & (t < 1.0)
    normal = tg.cross(d1, d2)
    area = tg.dot(normal, normal)
    if area <= PARALLEL * a * e and other_is_free:
        is_free = False
    gs, gt = tg.where(is_free, g[0], a * 0.0), tg.where(other_is_free, g[1], e * 0.0)
    if is_free and other_is_free:
        gs, gt = (e * gs + b * gt) / area, (b * gs + a * gt) / area
    elif is_free:
        gs = gs / a
    elif other_is_free:
        gt = gt / e
    adjoint_w = gt * d2 - gs * d1
    unit = tg.where(closest[2] > 0.0, g[2] / closest[2], g[2] * 0.0)
    adjoint_d1, adjoint_d2 = s * adjoint_w - gs * w, gt * w - t * adjoint_w
    adjoint_r = adjoint_w + unit * w
    adjoint_d1, adjoint_d2 = adjoint_d1 + s * unit * w, adjoint_d2 - t * unit * w
    return adjoint_r - adjoint_d1, adjoint_d1, -adjoint_r - adjoint_d2, adjoint_d2, 0.0 * epsilon


@composite()
def _separates(axis, v0, v1, v2, u0, u1, u2):
    """Whether an axis separates two triangles."""
    a, b, c = tg.dot(axis, v0), tg.dot(axis, v1), tg.dot(axis, v2)
    x, y, z = tg.dot(axis, u0), tg.dot(axis, u1), tg.dot(axis, u2)
    is_below = tg.max(tg.max(a, b), c) < tg.min(tg.min(x, y), z)
    return is_below | (tg.max(tg.max(x, y), z) < tg.min(tg.min(a, b), c))


@composite()
def _longest(a, b, c):
    """The longest of three vectors."""
    x, y, z = tg.dot(a, a), tg.dot(b, b), tg.dot(c, c)
    return tg.where((x >= y) & (x >= z), a, tg.where(y >= z, b, c))


@composite()
def _nonzero_or(v, fallback):
    """The vector `v`, or `fallback` if `v` is 0."""
    return tg.where(tg.dot(v, v) > 0.0, v, fallback)


@composite(INTERSECTION)
def intersect_tri_tri(v0: Vec3, v1: Vec3, v2: Vec3, u0: Vec3, u1: Vec3, u2: Vec3):
    """Whether two triangles have a common point; a common edge or vertex counts, also of triangles in one plane.

    A degenerate triangle is treated as its longest edge or as a point. Triangles with a NaN are empty. If the distance
    or the overlap is near 0, rounding errors may decide the result; float64 is more precise.

    Parameters:
        v0, v1, v2: the vertices of the first triangle, vectors (3,) of floats.
        u0, u1, u2: the vertices of the second triangle, vectors (3,) of the same dtype.
    Returns:
        an int32: 1 if the triangles intersect, else 0.
    Source:
        Gottschalk, Lin and Manocha, OBBTree, SIGGRAPH 1996: separating axes.
    """
    a1, a2, b0, b1, b2 = v1 - v0, v2 - v0, u0 - v0, u1 - v0, u2 - v0
    a0 = a1 * 0.0
    e, f = (a1, a2, a2 - a1), (b1 - b0, b2 - b0, b2 - b1)
    longest, other_longest = tg._longest(e[0], e[1], e[2]), tg._longest(f[0], f[1], f[2])
    n, m = tg.cross(a1, a2), tg.cross(f[0], f[1])
    is_separated = tg._separates(n, a0, a1, a2, b0, b1, b2) | tg._separates(m, a0, a1, a2, b0, b1, b2)
    for x in e:
        for y in f:
            is_separated |= tg._separates(tg.cross(x, y), a0, a1, a2, b0, b1, b2)
    # Separating axes of coplanar triangles, also of degenerate ones.
    common_normal = tg._nonzero_or(
        tg.cross(longest, other_longest), tg.cross(b0, tg._nonzero_or(longest, other_longest))
    )
    first_normal = tg._nonzero_or(n, tg._nonzero_or(m, common_normal))
    second_normal = tg._nonzero_or(m, first_normal)
    for x in e:
        is_separated |= tg._separates(tg.cross(first_normal, x), a0, a1, a2, b0, b1, b2)
    for y in f:
        is_separated |= tg._separates(tg.cross(second_normal, y), a0, a1, a2, b0, b1, b2)
    for axis in (longest, other_longest, b0):
        is_separated |= tg._separates(axis, a0, a1, a2, b0, b1, b2)
    total = a1 + a2 + b0 + b1 + b2
    is_separated |= tg.isnan(total[0] + total[1] + total[2])
    return tg.where(is_separated, 0, 1)
