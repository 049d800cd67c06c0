"""Traversal of a mesh's compact nodes along a ray, on GPUs.

Threads of a warp visit different nodes, and each line that one of them reads costs the warp a cycle for each load. A
compact node is one line of 128 bytes, of which a visit reads the first half: the bounds of eight children as bytes on a
cubic grid of the node. The children are tested in pairs of float16. A byte is a subnormal float16, the byte times UNIT,
so that one permutation of bytes gives the bounds of two children, and the distances to two planes take one fused
multiply-add. Distances are relative to the middle of the node along the longest axis of the ray, in steps of the grid
times the reciprocal of the direction. The bounds on the grid are displaced so far that factors and addends may be
rounded; minima, maxima and the last rounding keep the order of distances. The results are equal to those of the nodes
of CPUs, because triangles are tested in the same way, and only boxes that begin beyond the closest hit are skipped.

The nodes above the current one that have remaining children are on a stack, at most one for each level. Constants of
the ray that a node or a leaf uses once are in the memory of the thread (`_spill`), so that 48 registers are enough."""

from __future__ import annotations

from tegula.stdlib.geometry.layout import (
    COMPACT_BYTES,
    COMPACT_CHILDREN,
    COMPACT_COUNTS,
    COMPACT_X,
    COMPACT_Y,
    COMPACT_Z,
    LEVELS,
    MESH,
    UNIT,
    VEC3,
    WIDTH,
)
from tegula.stdlib.geometry.rays import ANY, BOUND, CLOSEST, COUNT, FOUND
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import VecType, float16, float32, int32, uint8, uint32, uint64

TWO, FOUR = VecType(2, uint32), VecType(4, uint32)
PAIR = VecType(2, float16)
STACK = VecType(LEVELS, uint64)
ROUNDING = 2.0**-21
"""The error bound of the distance to a plane across an axis, relative to the largest coordinate."""
HALF_ROUNDING = 1.0 + 2.0**-6
"""The displacement of planes is rounded to float16, too."""
MAX_EXTENT, MAX_LENGTH, MAX_RATIO = 2.0**75, 2.0**100, 2.0**90
"""Beyond these magnitudes of coordinates and directions, or ratios of both, planes do not restrict distances."""
MAX_SLOPE = 8100.0
"""The maximum ratio of two reciprocals of a direction, so that the largest is finite as a float16 and the least is at
least 4. A ray that is more nearly parallel to a plane is tilted, and the boxes are displaced by its deviation."""
FAR = 2.0**15
"""A bound of the distances, relative to the middle of a node, at which a ray may hit a child."""
NEAR_SIDES = 0x4240
"""The selector of the lower bounds of two children, as float16. The selector of the upper bounds, one byte further, is
greater by OTHER_SIDES."""
OTHER_SIDES = 0x0101
SIGNS = 0xFDB9
"""The selector of the signs of four float16."""
COMPACT_RAY = StructType(
    "CompactRay",
    {
        "start": VEC3,
        "inverse": VEC3,
        "scale": float32,
        "order": int32,
        "masks": TWO,
        "planes": FOUR,
    },
    __name__,
    "COMPACT_RAY",
)
"""A ray through compact nodes. `inverse`: the reciprocals of the direction, times `scale`, so that the least is from 4
to 8; `order`: the octant, plus WIDTH times the axis of the least reciprocal. A thread keeps `planes` and `masks` in its
memory, and reads both for each node. `planes`: for each axis the reciprocal as a float16, in the upper half, and the
selector of the planes where the ray enters, in the lower half; and the bits of the displacement of planes, which is
infinite if planes do not restrict distances. `masks`: the bits of children 0 to 3 and 4 to 7 in the order of the ray,
as bytes."""


@composite()
def _pair(first: float32, second: float32):
    """Two numbers, rounded to float16."""
    return PAIR(tg.float16(first), tg.float16(second))


@composite()
def _factor_and_sides(inverse: float32):
    """The reciprocal of a direction as a float16 and the selector of the planes where the ray enters."""
    factor = tg.bitcast(tg._pair(0.0, inverse), uint32)
    return factor + NEAR_SIDES + tg.where(inverse < 0.0, tg.uint32(OTHER_SIDES), tg.uint32(0))


@composite()
def _bits_in_order(octant: int32):
    """The bits of children 0 to 3 and 4 to 7 in the order in which a ray of an octant enters the children, as bytes:
    child k has bit k ^ octant."""
    first, second = tg.uint32(0x08040201), tg.uint32(0x80402010)
    if (octant & 4) != 0:
        first, second = second, first
    if (octant & 2) != 0:
        first, second = (first << 16) | (first >> 16), (second << 16) | (second >> 16)
    if (octant & 1) != 0:
        first = tg._permute_bytes(first, tg.uint32(0), tg.uint32(0x2301))
        second = tg._permute_bytes(second, tg.uint32(0), tg.uint32(0x2301))
    return first, second


@composite()
def _compact_ray(nodes: uint64, start: VEC3, dir: VEC3):
    """A ray through compact nodes."""
    extent, length, margin = tg._ray_extents(nodes, start, dir)
    is_moderate = (
        (extent <= MAX_EXTENT)
        & (length <= MAX_LENGTH)
        & (length * MAX_RATIO >= 1.0)
        & (length * MAX_RATIO >= extent)
        & (extent * MAX_RATIO >= length)
    )
    inverse = tg.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    least, largest = tg.inf, 0.0
    for axis in tg.static(range(3)):
        least = tg._min_ignoring_nan(least, tg.abs(inverse[axis]))
        largest = tg._max_ignoring_nan(largest, tg.abs(inverse[axis]))
    displacement = (margin + extent * ROUNDING) * HALF_ROUNDING
    if largest > least * MAX_SLOPE:
        displacement += margin * ((1.0 + 2.0**-4) / (BOUND * MAX_SLOPE))
    if not is_moderate:
        least, displacement = 1.0, tg.inf
    ray = COMPACT_RAY()
    ray.start = start
    # The power of two that makes the exponent of the least reciprocal that of 4.
    ray.scale = tg.bitcast(0x80000000 - (tg.bitcast(least, uint32) & 0x7F800000), float32)
    for axis in tg.static(range(3)):
        limited = tg._min_ignoring_nan(least * MAX_SLOPE, tg.abs(inverse[axis]))
        ray.inverse[axis] = tg.copysign(tg.where(is_moderate, limited, least), inverse[axis]) * ray.scale
    longest = least * ray.scale
    x, y = tg.abs(ray.inverse[0]), tg.abs(ray.inverse[1])
    axis = tg.where(x <= longest, 0, tg.where(y <= longest, 1, 2))
    ray.planes = tg._spill(
        FOUR(
            tg._factor_and_sides(ray.inverse[0]),
            tg._factor_and_sides(ray.inverse[1]),
            tg._factor_and_sides(ray.inverse[2]),
            tg.bitcast(displacement, uint32),
        )
    )
    x_side, y_side, z_side = tg._sign_bits_of_ray(ray.inverse)
    octant = x_side | (y_side << 1) | (z_side << 2)
    first, second = tg._bits_in_order(octant)
    ray.masks = tg._spill(TWO(first, second))
    ray.order = octant + WIDTH * axis
    return ray


@composite()
def _distances(bounds: uint32, factor_and_sides: uint32, addend: float16):
    """The distances along a ray to the planes of two children."""
    planes = tg.bitcast(tg._permute_bytes(bounds, tg.uint32(0), factor_and_sides), PAIR)
    factor = tg.bitcast(factor_and_sides, PAIR)
    return tg.fma(planes, PAIR(factor[1]), PAIR(addend))


@composite()
def _length_in_children(
    planes: FOUR, x: uint32, y: uint32, z: uint32, ends: PAIR, ax: PAIR, ay: PAIR, az: PAIR
):
    """The lengths of a ray in the boxes of two children; negative for boxes that the ray does not hit. `planes`: see
    COMPACT_RAY; x, y, z: the bounds of the children; `ends`: the first and last distance; ax, ay, az: for each axis the
    addends of planes where the ray enters and leaves."""
    x_in, y_in, z_in = planes[0], planes[1], planes[2]
    enter = tg.max(tg._distances(x, x_in, ax[0]), tg._distances(y, y_in, ay[0]))
    enter = tg.max(tg.max(enter, tg._distances(z, z_in, az[0])), PAIR(ends[0]))
    x_out, y_out, z_out = x_in ^ OTHER_SIDES, y_in ^ OTHER_SIDES, z_in ^ OTHER_SIDES
    leave = tg.min(tg._distances(x, x_out, ax[1]), tg._distances(y, y_out, ay[1]))
    leave = tg.min(tg.min(leave, tg._distances(z, z_out, az[1])), PAIR(ends[1]))
    return tg.bitcast(leave - enter, uint32)


@composite()
def _along(ray: COMPACT_RAY, v: VEC3):
    """The component of a vector along the axis of the least reciprocal of a ray's direction."""
    return tg.where(ray.order < WIDTH, v[0], tg.where(ray.order < 2 * WIDTH, v[1], v[2]))


@composite()
def _addends(origin: float32, inverse: float32, steps_per_unit: float32, base: float32, moved: float32):
    """The distances to the displaced planes of a node's origin across an axis."""
    plane = tg.fma(origin, steps_per_unit, -base)
    return tg._pair(tg.fma(-moved, tg.abs(inverse), plane), tg.fma(moved, tg.abs(inverse), plane))


@composite()
def _entered_compact_children(ray: COMPACT_RAY, node: uint64, limit: float32):
    """The mask of the children of a compact node whose boxes a ray hits up to a distance, in the order in which the ray
    enters the children."""
    planes, masks = tg._reload(ray.planes), tg._reload(ray.masks)
    head = tg._element_at(node, FOUR)
    x, y = tg._element_at(node + COMPACT_X, FOUR), tg._element_at(node + COMPACT_Y, FOUR)
    z = tg._element_at(node + COMPACT_Z, FOUR)
    steps_per_unit = tg.bitcast(head[3], float32)
    origin = tg.vec3()
    for axis in tg.static(range(3)):
        origin[axis] = (tg.bitcast(head[axis], float32) - ray.start[axis]) * ray.inverse[axis]
    middle = 128.0 * UNIT * tg._along(ray, ray.inverse)
    base = tg.fma(tg._along(ray, origin), steps_per_unit, middle)
    moved = tg.bitcast(planes[3], float32) * steps_per_unit
    ax = tg._addends(origin[0], ray.inverse[0], steps_per_unit, base, moved)
    ay = tg._addends(origin[1], ray.inverse[1], steps_per_unit, base, moved)
    az = tg._addends(origin[2], ray.inverse[2], steps_per_unit, base, moved)
    # Both ends are finite, so that no length is NaN.
    ends = tg._pair(-base, tg.fma(limit * ray.scale, steps_per_unit, -base))
    ends = tg.min(tg.max(ends, PAIR(tg.float16(-FAR))), PAIR(tg.float16(FAR)))
    a = tg._length_in_children(planes, x[0], y[0], z[0], ends, ax, ay, az)
    b = tg._length_in_children(planes, x[1], y[1], z[1], ends, ax, ay, az)
    missed = tg._permute_bytes(a, b, tg.uint32(SIGNS))
    hits = tg._dot_bytes(missed, masks[0], tg.uint32(255))
    a = tg._length_in_children(planes, x[2], y[2], z[2], ends, ax, ay, az)
    b = tg._length_in_children(planes, x[3], y[3], z[3], ends, ax, ay, az)
    missed = tg._permute_bytes(a, b, tg.uint32(SIGNS))
    return tg._dot_bytes(missed, masks[1], hits)


@composite()
def _traverse_compact(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse the compact nodes of a mesh along a ray."""
    nodes, spilled_shear, count = mesh.compact, tg._spilled_shear(start, dir), 0
    # The sum turns -0.0 into 0.0.
    t, at, face = limit + 0.0, -1, -1
    if mesh.nodes != tg.uint64(0) and (dir[0] != 0.0 or dir[1] != 0.0 or dir[2] != 0.0):
        ray = tg._compact_ray(mesh.nodes, start, dir)
        stack, depth = tg._unset(STACK), tg.uint32(0)
        # The first iteration enters the start node as a child of node 0.
        node, remaining = 0, tg.uint32(1)
        while node >= 0:
            here = nodes + tg.uint64(node) * COMPACT_BYTES
            slot = tg.uint64((tg.ctz(remaining) ^ tg.uint32(ray.order)) & (WIDTH - 1))
            remaining = remaining & (remaining - 1)
            child = tg.where(root > 0, root, 1)
            if node > 0:
                child = tg._element_at(here + COMPACT_CHILDREN + slot * 4, int32)
            if child < 0:
                shear = tg._reloaded_shear(spilled_shear)
                # A loop over positions would have a pointer to the triangle too: two registers.
                last = child - tg.int32(tg._element_at(here + COMPACT_COUNTS + slot, uint8))
                while child > last:
                    item = -1 - child
                    first, second, third, item_face = tg._triangle_and_face(mesh, item)
                    hit = tg._intersect_triangle(shear, first, second, third)
                    if hit.hit and hit.t >= 0.0 and hit.t <= t:
                        if mode == COUNT:
                            count += 1
                        else:
                            is_closer = hit.t < t or at < 0
                            if not is_closer:
                                is_closer = item_face < face
                            if is_closer:
                                t, at, face = hit.t + 0.0, item, item_face
                            if mode == ANY:
                                depth, remaining, child, count = tg.uint32(0), tg.uint32(0), last, 1
                    child -= 1
            elif child > 0:
                hits = tg._entered_compact_children(ray, nodes + tg.uint64(child) * COMPACT_BYTES, t)
                if hits != tg.uint32(0):
                    if remaining != tg.uint32(0):
                        stack[depth] = (tg.uint64(node) << 32) | tg.uint64(remaining)
                        depth += 1
                    node, remaining = child, hits
            if remaining == tg.uint32(0):
                node = -1
                if depth > tg.uint32(0):
                    depth -= 1
                    top = stack[depth]
                    node, remaining = tg.int32(top >> 32), tg.uint32(top)
    return FOUND(face, t, tg.max(at, 0), tg.where(mode == CLOSEST and at >= 0, 1, count))
