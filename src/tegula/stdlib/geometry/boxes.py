"""Intersection tests of a query's region with boxes: the eight children of a node, or one item."""

from __future__ import annotations

from tegula.stdlib.geometry.layout import (
    AABB_QUERY,
    AXIS,
    BVH_QUERY,
    RAY,
    RAY_QUERY,
    SPHERE,
    SPHERE_QUERY,
    UPPER,
    VEC3,
    VEC8,
)
from tegula.stdlib.registry import composite, func, tg
from tegula.types import float32, int32, uint32, uint64

INFINITY = float("inf")
INTERVAL_WIDENING = 1.0 + 4.0 * 2.0**-23
"""The factor that widens intervals along rays, by four units in the last place, which is more than the rounding
errors."""


@composite()
def _entry_sides(query):
    """For each axis 1 if the region enters boxes at the upper plane, as a ray of negative direction does, else 0."""
    return 0, 0, 0


@composite()
def _entry_sides(query: RAY_QUERY):
    """The sign bits of the inverse of the direction, which are the sign bits of the direction, also for zeros."""
    return tg._sign_bits_of_ray(query.inverse)


@composite()
def _sign_bits_of_ray(inverse: VEC3):
    """The sign bits of a vector."""
    x, y, z = tg.bitcast(inverse[0], uint32), tg.bitcast(inverse[1], uint32), tg.bitcast(inverse[2], uint32)
    return tg.int32(x >> 31), tg.int32(y >> 31), tg.int32(z >> 31)


@composite()
def _entry_sides(query: BVH_QUERY):
    """The sides of a query whose kind is known at run time; kinds other than rays have an inverse direction of 0."""
    return tg._sign_bits_of_ray(query.inverse)


@composite()
def _hits(query: AABB_QUERY, nx, ny, nz, fx, fy, fz, limit: float32):
    """Whether a box intersects the box of a query."""
    return tg._boxes_intersect(query.first, query.second, nx, ny, nz, fx, fy, fz)


@composite()
def _hits(query: SPHERE_QUERY, nx, ny, nz, fx, fy, fz, limit: float32):
    """Whether a box intersects the ball of a query."""
    return tg._ball_hits_box(query.first, query.radius, query.second[0], nx, ny, nz, fx, fy, fz)


@composite()
def _hits(query: RAY_QUERY, nx, ny, nz, fx, fy, fz, limit: float32):
    """Whether a box intersects the ray of a query."""
    return tg._ray_hits_box(query.first, query.second, query.inverse, nx, ny, nz, fx, fy, fz, limit)


@composite()
def _hits(query: BVH_QUERY, nx, ny, nz, fx, fy, fz, limit: float32):
    """Whether a box intersects the region of a query whose kind is known at run time."""
    box = tg._boxes_intersect(query.first, query.second, nx, ny, nz, fx, fy, fz)
    ball = tg._ball_hits_box(query.first, query.radius, query.second[0], nx, ny, nz, fx, fy, fz)
    ray = tg._ray_hits_box(query.first, query.second, query.inverse, nx, ny, nz, fx, fy, fz, limit)
    return tg.where(query.kind == RAY, ray, tg.where(query.kind == SPHERE, ball, box))


@composite()
def _boxes_intersect(low: VEC3, high: VEC3, nx, ny, nz, fx, fy, fz):
    """Whether two boxes intersect. An empty box, or a box with a NaN, intersects no box."""
    x = (nx <= high[0]) & (fx >= low[0])
    y = (ny <= high[1]) & (fy >= low[1])
    z = (nz <= high[2]) & (fz >= low[2])
    return x & y & z


@func
def _binary_scale(x: float32):
    """The power of two whose product with a positive number is from 1 to 2, from 2**-126 to 2**126; a constant for
    gradients. The squares of products can be compared: those of much smaller numbers are 0, and those of much larger
    ones infinite."""
    exponent = tg.int32((tg.bitcast(x, uint32) >> 23) & 255)
    return tg.bitcast(tg.clamp(254 - exponent, 1, 253) << 23, float32)


@func
def __binary_scale_adjoint(x, y, g):
    """No gradient."""
    return 0.0


@composite()
def _ball_hits_box(centre: VEC3, radius: float32, scale: float32, nx, ny, nz, fx, fy, fz):
    """Whether a ball and a box intersect. `scale`: the binary scale of the radius; `radius`: the scaled radius."""
    x = tg._distance_to_interval(nx, fx, centre[0]) * scale
    y = tg._distance_to_interval(ny, fy, centre[1]) * scale
    z = tg._distance_to_interval(nz, fz, centre[2]) * scale
    return x * x + y * y + z * z <= radius * radius


@composite()
def _distance_to_interval(low: float32, high: float32, x: float32):
    """The distance of a number from an interval; NaN if an argument is NaN or the interval is empty."""
    inside = tg.where((x >= low) & (x <= high), 0.0, tg.nan)
    return tg.where(low <= high, tg.where(x < low, low - x, tg.where(x > high, x - high, inside)), tg.nan)


@composite()
def _ray_hits_box(enter: VEC3, leave: VEC3, inverse: VEC3, nx, ny, nz, fx, fy, fz, limit: float32):
    """Whether a ray hits a box up to a distance. The NaN of a ray in the plane of a face is ignored."""
    near = tg._max_ignoring_nan(0.0, (nx - enter[0]) * inverse[0])
    near = tg._max_ignoring_nan(near, (ny - enter[1]) * inverse[1])
    near = tg._max_ignoring_nan(near, (nz - enter[2]) * inverse[2])
    far = tg._min_ignoring_nan(limit, (fx - leave[0]) * inverse[0])
    far = tg._min_ignoring_nan(far, (fy - leave[1]) * inverse[1])
    far = tg._min_ignoring_nan(far, (fz - leave[2]) * inverse[2])
    # A ray that is parallel to planes enters between them at an infinite distance if it starts before both: infinite
    # boxes end no nearer.
    is_outside = (
        tg._starts_before(nx, enter[0], inverse[0])
        | tg._starts_before(ny, enter[1], inverse[1])
        | tg._starts_before(nz, enter[2], inverse[2])
    )
    return (near <= far * INTERVAL_WIDENING) & (nx == nx) & (not is_outside)


@composite()
def _starts_before(plane: float32, start: float32, inverse: float32):
    """Whether a ray is parallel to a plane where it would enter a box, and starts outside."""
    return (tg.abs(inverse) == INFINITY) & ((plane - start) * inverse == INFINITY)


@composite()
def _max_ignoring_nan(near: float32, t: float32):
    """The larger of two distances, without NaN."""
    return tg.where(t > near, t, near)


@composite()
def _min_ignoring_nan(far: float32, t: float32):
    """The smaller of two distances, without NaN."""
    return tg.where(t < far, t, far)


@composite()
def _all_hits(query: AABB_QUERY, nx: VEC8, ny: VEC8, nz: VEC8, fx: VEC8, fy: VEC8, fz: VEC8, limit: float32):
    """The mask of the eight boxes that intersect the box of a query."""
    return tg._box_hits_boxes(query.first, query.second, nx, ny, nz, fx, fy, fz)


@composite()
def _all_hits(
    query: SPHERE_QUERY, nx: VEC8, ny: VEC8, nz: VEC8, fx: VEC8, fy: VEC8, fz: VEC8, limit: float32
):
    """The mask of the eight boxes that intersect the ball of a query."""
    return tg._ball_hits_boxes(query.first, query.radius, query.second[0], nx, ny, nz, fx, fy, fz)


@composite()
def _all_hits(query: RAY_QUERY, nx: VEC8, ny: VEC8, nz: VEC8, fx: VEC8, fy: VEC8, fz: VEC8, limit: float32):
    """The mask of the eight boxes that intersect the ray of a query."""
    return tg._ray_hits_boxes(query.first, query.second, query.inverse, nx, ny, nz, fx, fy, fz, limit)


@composite()
def _all_hits(query: BVH_QUERY, nx: VEC8, ny: VEC8, nz: VEC8, fx: VEC8, fy: VEC8, fz: VEC8, limit: float32):
    """The mask of the eight boxes that intersect the region of a query whose kind is known at run time."""
    hits = tg.uint32(0)
    if query.kind == RAY:
        hits = tg._ray_hits_boxes(query.first, query.second, query.inverse, nx, ny, nz, fx, fy, fz, limit)
    elif query.kind == SPHERE:
        hits = tg._ball_hits_boxes(query.first, query.radius, query.second[0], nx, ny, nz, fx, fy, fz)
    else:
        hits = tg._box_hits_boxes(query.first, query.second, nx, ny, nz, fx, fy, fz)
    return hits


@composite()
def _box_hits_boxes(low: VEC3, high: VEC3, nx: VEC8, ny: VEC8, nz: VEC8, fx: VEC8, fy: VEC8, fz: VEC8):
    """The mask of the eight boxes that intersect a box."""
    x = tg._each_within(nx, VEC8(high[0])) & tg._each_within(VEC8(low[0]), fx)
    y = tg._each_within(ny, VEC8(high[1])) & tg._each_within(VEC8(low[1]), fy)
    z = tg._each_within(nz, VEC8(high[2])) & tg._each_within(VEC8(low[2]), fz)
    return tg._bits(x & y & z)


@composite()
def _ball_hits_boxes(
    centre: VEC3,
    radius: float32,
    scale: float32,
    nx: VEC8,
    ny: VEC8,
    nz: VEC8,
    fx: VEC8,
    fy: VEC8,
    fz: VEC8,
):
    """The mask of the eight boxes that intersect a ball. The boxes of missing children are empty or have a NaN.
    `scale`: the binary scale of the radius; `radius`: the scaled radius."""
    x = tg._distances_to_intervals(nx, fx, centre[0]) * scale
    y = tg._distances_to_intervals(ny, fy, centre[1]) * scale
    z = tg._distances_to_intervals(nz, fz, centre[2]) * scale
    ordered = tg._each_within(nx, fx) & tg._each_within(ny, fy) & tg._each_within(nz, fz)
    squared_distance = tg.cw_mul(x, x) + tg.cw_mul(y, y) + tg.cw_mul(z, z)
    is_within = tg._each_within(squared_distance, VEC8(radius * radius))
    is_finite_centre = (centre[0] == centre[0]) & (centre[1] == centre[1]) & (centre[2] == centre[2])
    return tg.where(is_finite_centre, tg._bits(is_within & ordered), tg.uint32(0))


@composite()
def _distances_to_intervals(low: VEC8, high: VEC8, x: float32):
    """The distances of a number from eight intervals."""
    number = VEC8(x)
    return tg._larger_of_each(tg._larger_of_each(low - number, number - high), VEC8(0.0))


@composite()
def _squared_distances_of_boxes(point: VEC3, lx: VEC8, ly: VEC8, lz: VEC8, hx: VEC8, hy: VEC8, hz: VEC8):
    """The squared distances of a point from eight boxes; NaN for a box with a NaN."""
    # Comparisons with NaN select the second operand.
    x = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(lx - VEC8(point[0]), VEC8(point[0]) - hx))
    y = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(ly - VEC8(point[1]), VEC8(point[1]) - hy))
    z = tg._larger_of_each(VEC8(0.0), tg._larger_of_each(lz - VEC8(point[2]), VEC8(point[2]) - hz))
    return tg.cw_mul(x, x) + tg.cw_mul(y, y) + tg.cw_mul(z, z)


@composite()
def _ray_hits_boxes(
    enter: VEC3,
    leave: VEC3,
    inverse: VEC3,
    nx: VEC8,
    ny: VEC8,
    nz: VEC8,
    fx: VEC8,
    fy: VEC8,
    fz: VEC8,
    limit: float32,
):
    """The mask of the eight boxes that a ray hits up to a distance. The NaN of a ray in the plane of a face is
    ignored."""
    near = tg._larger_of_each((nx - VEC8(enter[0])) * inverse[0], VEC8(0.0))
    near = tg._larger_of_each((ny - VEC8(enter[1])) * inverse[1], near)
    near = tg._larger_of_each((nz - VEC8(enter[2])) * inverse[2], near)
    far = tg._smaller_of_each((fx - VEC8(leave[0])) * inverse[0], VEC8(limit))
    far = tg._smaller_of_each((fy - VEC8(leave[1])) * inverse[1], far)
    far = tg._smaller_of_each((fz - VEC8(leave[2])) * inverse[2], far)
    return tg._bits(tg._each_within(near, far * INTERVAL_WIDENING) & tg._each_within(nx, nx))


@composite()
def _planes(node: uint64, axis: int32, side: int32):
    """The lower or the upper bounds of eight children along an axis."""
    return tg._element_at(node + tg.uint64(axis * AXIS + side * UPPER), VEC8)


@composite()
def _hit_children(query, node: uint64, limit: float32):
    """The mask of the children of a node whose boxes intersect the region."""
    x, y, z = tg._entry_sides(query)
    nx, ny, nz = tg._planes(node, 0, x), tg._planes(node, 1, y), tg._planes(node, 2, z)
    fx, fy, fz = tg._planes(node, 0, 1 - x), tg._planes(node, 1, 1 - y), tg._planes(node, 2, 1 - z)
    return tg._all_hits(query, nx, ny, nz, fx, fy, fz, limit)


@composite()
def _hits_box(query, low: VEC3, high: VEC3, limit: float32):
    """Whether the region intersects a box."""
    x, y, z = tg._entry_sides(query)
    nx, fx = tg.where(x == 1, high[0], low[0]), tg.where(x == 1, low[0], high[0])
    ny, fy = tg.where(y == 1, high[1], low[1]), tg.where(y == 1, low[1], high[1])
    nz, fz = tg.where(z == 1, high[2], low[2]), tg.where(z == 1, low[2], high[2])
    return tg._hits(query, nx, ny, nz, fx, fy, fz, limit)


@composite()
def _hits_item(query, box: VEC8, limit: float32):
    """Whether the region intersects the box of an item, which the first six components hold."""
    low, high = tg.vec3(box[0], box[1], box[2]), tg.vec3(box[3], box[4], box[5])
    return tg._hits_box(query, low, high, limit)


@composite()
def _hits_item(query: AABB_QUERY, box: VEC8, limit: float32):
    """Whether the box of a query intersects the box of an item."""
    low, high = query.first, query.second
    query_box = VEC8(high[0], high[1], high[2], low[0], low[1], low[2], 0.0, 0.0)
    hit_bits = (tg._bits(tg._each_within(box, query_box)) & 0b000111) | (
        tg._bits(tg._each_within(query_box, box)) & 0b111000
    )
    return hit_bits == tg.uint32(0b111111)
