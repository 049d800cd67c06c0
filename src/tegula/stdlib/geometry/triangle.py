"""Rays and triangles: Woop, Benthin and Wald, Watertight Ray/Triangle Intersection, JCGT 2 (1), 2013, made exact.

The vertices are translated and sheared so that the ray is the third axis. The signs of three edge functions of the
sheared float32 coordinates decide whether the ray hits a triangle. The signs are exact: a difference of rounded
products has the right sign unless it is 0, and then the products are computed exactly in float64. A ray through an edge
or a vertex hits the face that it would hit after an infinitesimal displacement, which is the same for all faces."""

from __future__ import annotations

from tegula.stdlib.geometry.layout import VEC3
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import VecType, bool_, float32, float64, int32

FOUR_FLOATS, FLAGS = VecType(4, float32), VecType(6, bool_)
AXES = ("x_is_first", "x_is_second", "y_is_first", "y_is_second", "z_is_first", "z_is_second")
SHEAR = StructType("Shear", {**dict.fromkeys(AXES, bool_), "factors": VEC3, "start": VEC3}, __name__, "SHEAR")
"""The permutation of the axes: for each sheared axis, whether it is the first or the second axis of space; and the
shear factors: x / z, y / z and 1 / z of the direction."""
SPILLED_SHEAR = StructType("SpilledShear", {"values": FOUR_FLOATS, "start": VEC3}, __name__, "SPILLED_SHEAR")
"""A shear whose factors and axes a thread of a GPU keeps in its memory."""
CROSSING = StructType(
    "Crossing", {"hit": bool_, "front": bool_, "t": float32, "u": float32, "v": float32}, __name__, "CROSSING"
)
"""Whether a ray hits a triangle, the side, the distance in lengths of the direction, and the weights of the first two
vertices."""
VEC3D = VecType(3, float64)
SMALL, LARGE = 1e-25, 1e30
"""The range of edge functions that are evaluated in float32."""


@composite()
def _shear(start: VEC3, dir: VEC3):
    """The permutation and the shear factors of a ray."""
    x, y, z = tg.abs(dir[0]), tg.abs(dir[1]), tg.abs(dir[2])
    longest_axis = tg.where((x >= y) & (x >= z), 0, tg.where(y >= z, 1, 2))
    next_axis = (longest_axis + 1) % 3
    last_axis = (longest_axis + 2) % 3
    is_negative = tg._component(dir, longest_axis) < 0.0
    reciprocal = 1.0 / tg._component(dir, longest_axis)
    axis_x, axis_y = tg.where(is_negative, last_axis, next_axis), tg.where(is_negative, next_axis, last_axis)
    return SHEAR(
        axis_x == 0,
        axis_x == 1,
        axis_y == 0,
        axis_y == 1,
        longest_axis == 0,
        longest_axis == 1,
        tg.vec3(tg._component(dir, axis_x) * reciprocal, tg._component(dir, axis_y) * reciprocal, reciprocal),
        start,
    )


@composite()
def _spilled_shear(start: VEC3, dir: VEC3):
    """The permutation and the shear factors of a ray, for `_reloaded_shear`."""
    s = tg._shear(start, dir)
    axes = tg._bits(
        FLAGS(s.x_is_first, s.x_is_second, s.y_is_first, s.y_is_second, s.z_is_first, s.z_is_second)
    )
    x, y, z = s.factors[0], s.factors[1], s.factors[2]
    return SPILLED_SHEAR(tg._spill(FOUR_FLOATS(x, y, z, tg.bitcast(axes, float32))), start)


@composite()
def _reloaded_shear(s: SPILLED_SHEAR):
    """The permutation and the shear factors of a ray."""
    values = tg._reload(s.values)
    axes = tg.bitcast(values[3], int32)
    return SHEAR(
        (axes & 1) != 0,
        (axes & 2) != 0,
        (axes & 4) != 0,
        (axes & 8) != 0,
        (axes & 16) != 0,
        (axes & 32) != 0,
        tg.vec3(values[0], values[1], values[2]),
        s.start,
    )


@composite()
def _component(v: VEC3, axis: int32):
    """A component of a vector."""
    return tg.where(axis == 0, v[0], tg.where(axis == 1, v[1], v[2]))


@composite()
def _selected(v: VEC3, is_first: bool_, is_second: bool_):
    """The component of a vector along an axis."""
    return tg.where(is_first, v[0], tg.where(is_second, v[1], v[2]))


@composite()
def _sheared(s: SHEAR, vertex: VEC3):
    """A vertex in sheared coordinates, and its distance along the ray's longest component."""
    v = vertex - s.start
    along = tg._selected(v, s.z_is_first, s.z_is_second)
    return tg.vec3(
        tg._subtract_scaled(tg._selected(v, s.x_is_first, s.x_is_second), s.factors[0], along),
        tg._subtract_scaled(tg._selected(v, s.y_is_first, s.y_is_second), s.factors[1], along),
        along,
    )


@composite()
def _subtract_scaled(x: float32, factor: float32, along: float32):
    """The difference x - factor * along, with two roundings on every target: no contraction to an fma."""
    return tg.diff_of_products(x, 1.0, factor, along)


@composite()
def _side(value: float64, x: float64, y: float64):
    """The sign of an edge function. If the function is 0, the sign for a ray with an infinitesimal displacement, whose
    x component dominates."""
    displaced_sign = tg.where(
        y > 0.0, 1, tg.where(y < 0.0, -1, tg.where(x < 0.0, 1, tg.where(x > 0.0, -1, 0)))
    )
    return tg.where(value > 0.0, 1, tg.where(value < 0.0, -1, displaced_sign))


@composite()
def _is_sign_exact(x: float32):
    """Whether an edge function in float32 has the exact sign."""
    return (tg.abs(x) > SMALL) & (tg.abs(x) < LARGE)


@composite()
def _intersect_triangle(s: SHEAR, first: VEC3, second: VEC3, third: VEC3):
    """The intersection of a ray and a triangle."""
    a, b, c = tg._sheared(s, first), tg._sheared(s, second), tg._sheared(s, third)
    u = tg.diff_of_products(c[0], b[1], c[1], b[0])
    v = tg.diff_of_products(a[0], c[1], a[1], c[0])
    w = tg.diff_of_products(b[0], a[1], b[1], a[0])
    crossing = CROSSING()
    if tg._is_sign_exact(u) & tg._is_sign_exact(v) & tg._is_sign_exact(w):
        if ((u > 0.0) == (v > 0.0)) & ((v > 0.0) == (w > 0.0)):
            total = u + v + w
            crossing.hit = True
            crossing.front = u > 0.0
            # The edge functions times distances may be beyond the range of float32.
            by = tg._binary_scale(tg.abs(total))
            distance = u * by * a[2] + v * by * b[2] + w * by * c[2]
            crossing.t = distance * s.factors[2] / (total * by)
            crossing.u, crossing.v = u / total, v / total
    else:
        crossing = tg._intersect_triangle_float64(s, a, b, c)
    return crossing


@composite()
def _intersect_triangle_float64(s: SHEAR, a: VEC3, b: VEC3, c: VEC3):
    """The intersection of a ray and a triangle of sheared vertices in float64, exact for hits of edges and vertices and
    for numbers of any magnitude."""
    ax, ay, az = tg.float64(a[0]), tg.float64(a[1]), tg.float64(a[2])
    bx, by, bz = tg.float64(b[0]), tg.float64(b[1]), tg.float64(b[2])
    cx, cy, cz = tg.float64(c[0]), tg.float64(c[1]), tg.float64(c[2])
    u, v, w = cx * by - cy * bx, ax * cy - ay * cx, bx * ay - by * ax
    side_u, side_v, side_w = (
        tg._side(u, cx - bx, cy - by),
        tg._side(v, ax - cx, ay - cy),
        tg._side(w, bx - ax, by - ay),
    )
    total = u + v + w
    crossing = CROSSING()
    crossing.hit = (
        (side_u == side_v)
        & (side_v == side_w)
        & (side_u != 0)
        & (total == total)
        & (tg.abs(total) > tg.float64(0.0))
    )
    crossing.front = side_u > 0
    if crossing.hit:
        # The sign of `total` is that of the side. A factor that depends on the triangle is converted to float64 here,
        # and not for each ray.
        factor = tg.float64(tg.where(crossing.front, s.factors[2], -s.factors[2]))
        crossing.t = tg.float32((u * az + v * bz + w * cz) * factor / tg.abs(total))
        crossing.u, crossing.v = tg.float32(u / total), tg.float32(v / total)
    return crossing
