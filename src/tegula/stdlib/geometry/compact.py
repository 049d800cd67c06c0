"""Traversal of a mesh's compact nodes along a ray, on GPUs.

Threads of a warp visit different nodes, and each line that one of them reads costs the warp a cycle for each load. A
compact node is one line of 128 bytes, of which a visit reads the first half: the bounds of eight children as bytes on a
grid of the node. A byte becomes a float by one permutation of bytes, and a distance by one fused multiply-add. The
bounds on the grid are displaced so far that both may be rounded. The results are equal to those of the nodes of CPUs,
because triangles are tested in the same way, and only boxes that begin beyond the closest hit are skipped.

The masks of the remaining children of sixteen levels are in two integers. Deeper hierarchies are rare: the mask of a
level that no longer fits is computed again when the traversal returns to the level."""

from __future__ import annotations

from tegula.stdlib.geometry.boxes import INTERVAL_WIDENING
from tegula.stdlib.geometry.layout import (
    COMPACT_BYTES,
    COMPACT_CHILDREN,
    COMPACT_COUNTS,
    COMPACT_PARENT,
    COMPACT_Z,
    HALF,
    MESH,
    TRIANGLE_BYTES,
    TRIANGLE_FACE,
    VEC3,
)
from tegula.stdlib.geometry.rays import ANY, CLOSEST, COUNT, FOUND
from tegula.stdlib.registry import composite, tg
from tegula.types import VecType, float32, int32, uint8, uint32, uint64

FOUR = VecType(4, uint32)
TWO, THREE = VecType(2, uint32), VecType(3, uint32)
FOUR_FLOATS = VecType(4, float32)
FOUR_INTS = VecType(4, int32)
ROUNDING = 2.0**-21
"""The error bound of the distance to a plane across an axis, relative to the largest coordinate."""
LARGEST = 2.0**116
"""The maximum product of a coordinate and a reciprocal, which leaves room for the bias of bytes."""
MAX_MAGNITUDE, MAX_RATIO = 2.0**100, 2.0**90
"""Beyond these magnitudes of coordinates and directions, or ratios of both, planes do not restrict distances."""
BIASED_ZERO, BIAS = 0x47000000, 32768.0
"""The bits of BIAS, whose bits 8 to 15 hold a byte that is added."""
STORED, MISSING = 8, 256
"""The units, in the state of a traversal, of the number of levels whose masks are stored, and of the levels above them,
whose masks are missing; the octant is below."""
MAX_STORED = 15 * STORED


@composite()
def _limited_inverse(nodes: uint64, start: VEC3, dir: VEC3):
    """The reciprocals of a direction, limited so that products are finite, and the displacement of planes, infinite if
    planes do not restrict distances."""
    extent, largest, margin = tg._ray_extents(nodes, start, dir)
    displacement = margin + extent * ROUNDING
    inverse = tg.vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    bound = tg._max_ignoring_nan(tg._max_ignoring_nan(1.0, extent), largest * 2.0**26)
    is_moderate = (
        (extent <= MAX_MAGNITUDE)
        & (largest <= MAX_MAGNITUDE)
        & (largest * MAX_RATIO >= 1.0)
        & (largest * MAX_RATIO >= extent)
        & (extent * MAX_RATIO >= largest)
    )
    are_bounded = (
        (tg.abs(inverse[0]) * bound <= LARGEST)
        & (tg.abs(inverse[1]) * bound <= LARGEST)
        & (tg.abs(inverse[2]) * bound <= LARGEST)
    )
    if not (is_moderate and are_bounded):
        # Along the longest axis a ray leaves the box before it reaches a limit of another axis.
        limit = tg.where(is_moderate, LARGEST / bound, 2.0**-126)
        for axis in tg.static(range(3)):
            if not (is_moderate and tg.abs(inverse[axis]) <= limit):
                inverse[axis] = tg.copysign(limit, dir[axis])
    return inverse, tg.where(is_moderate, displacement, tg.inf)


@composite()
def _biased_bytes(word: uint32):
    """BIAS plus each byte of a word."""
    selectors = FOUR(0x7504, 0x7514, 0x7524, 0x7534)
    return tg.bitcast(tg._permute_bytes(FOUR(word), FOUR(BIASED_ZERO), selectors), float32)


@composite()
def _plane_bits(word: uint32, by: float32, add: float32):
    """The bits of the distances along a ray to the planes of four children."""
    return tg.bitcast(tg.fma(tg._biased_bytes(word), FOUR_FLOATS(by), FOUR_FLOATS(add)), int32)


@composite()
def _step(exponents: uint32, axis: int32):
    """The step of a node's grid along an axis, from the exponents of the three steps."""
    return tg.bitcast((exponents << tg.uint32(23 - 8 * axis)) & 0x7F800000, float32)


@composite()
def _entered_compact_children(
    node: uint64, start: VEC3, inverse: VEC3, displacement: float32, limit: float32
):
    """The mask of the children of a compact node whose boxes a ray hits up to a distance."""
    head = tg._element_at(node, FOUR)
    by = tg.vec3(
        tg._step(head[3], 0) * inverse[0],
        tg._step(head[3], 1) * inverse[1],
        tg._step(head[3], 2) * inverse[2],
    )
    near, far = tg.vec3(), tg.vec3()
    for axis in tg.static(range(3)):
        origin = (tg.bitcast(head[axis], float32) - start[axis]) * inverse[axis]
        distance = tg.fma(by[axis], -BIAS, origin)
        near[axis] = tg.fma(-displacement, tg.abs(inverse[axis]), distance)
        far[axis] = tg.fma(displacement, tg.abs(inverse[axis]), distance)
    x, y, z = inverse[0] < 0.0, inverse[1] < 0.0, inverse[2] < 0.0
    # The next larger limit, so that a box is hit where it begins and ends at the limit 0.
    limit_bits, hits = tg.bitcast(limit, int32) + 1, tg.uint32(0)
    for step in tg.static(range(2)):
        half = 1 - step
        xy = tg._element_at(node + tg.uint64(HALF * (1 + 2 * half)), FOUR)
        zz = tg._element_at(node + tg.uint64(COMPACT_Z + HALF // 2 * half), TWO)
        # Non-negative floats are ordered as their bits.
        enter = tg._larger_of_each(tg._plane_bits(tg.where(x, xy[1], xy[0]), by[0], near[0]), FOUR_INTS(0))
        enter = tg._larger_of_each(tg._plane_bits(tg.where(y, xy[3], xy[2]), by[1], near[1]), enter)
        enter = tg._larger_of_each(tg._plane_bits(tg.where(z, zz[1], zz[0]), by[2], near[2]), enter)
        leave = tg._smaller_of_each(
            tg._plane_bits(tg.where(x, xy[0], xy[1]), by[0], far[0]), FOUR_INTS(limit_bits)
        )
        leave = tg._smaller_of_each(tg._plane_bits(tg.where(y, xy[2], xy[3]), by[1], far[1]), leave)
        leave = tg._smaller_of_each(tg._plane_bits(tg.where(z, zz[0], zz[1]), by[2], far[2]), leave)
        excess = tg.fma(
            tg.bitcast(leave, float32), FOUR_FLOATS(-INTERVAL_WIDENING), tg.bitcast(enter, float32)
        )
        sign = tg.bitcast(excess, uint32)
        for k in tg.static(range(4)):
            hits = (hits << 1) | (sign[3 - k] >> 31)
    return hits


@composite()
def _ray_enters_compact_child(
    node: uint64, slot: uint64, start: VEC3, inverse: VEC3, displacement: float32, limit: float32
):
    """Whether a ray enters a child's box up to a distance."""
    head = tg._element_at(node, FOUR)
    xy = tg._element_at(node + HALF + (slot >> 2) * (2 * HALF), FOUR)
    zz = tg._element_at(node + COMPACT_Z + (slot >> 2) * (HALF // 2), TWO)
    words = THREE(
        tg.where(inverse[0] < 0.0, xy[1], xy[0]),
        tg.where(inverse[1] < 0.0, xy[3], xy[2]),
        tg.where(inverse[2] < 0.0, zz[1], zz[0]),
    )
    byte = tg.uint32(slot & 3) | 0x4440
    distance = 0.0
    for axis in tg.static(range(3)):
        steps = tg.float32(tg._permute_bytes(words[axis], tg.uint32(0), byte))
        origin = tg.bitcast(head[axis], float32) - start[axis]
        plane = tg.fma(steps, tg._step(head[3], axis), origin) * inverse[axis]
        distance = tg._max_ignoring_nan(distance, tg.fma(-displacement, tg.abs(inverse[axis]), plane))
    return distance <= limit * INTERVAL_WIDENING


@composite()
def _face_at(mesh: MESH, item: int32):
    """The face of the triangle at a position."""
    return tg._element_at(mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES + TRIANGLE_FACE, int32)


@composite()
def _traverse_compact(mesh: MESH, start: VEC3, dir: VEC3, limit: float32, root: int32, mode: int32):
    """Traverse the compact nodes of a mesh along a ray."""
    nodes, shear, count = mesh.compact, tg._shear(start, dir), 0
    # The sum turns -0.0 into 0.0, whose bits have no sign.
    t, at = limit + 0.0, -1
    start_node = tg.where(mesh.nodes == tg.uint64(0), 0, tg.where(root > 0, root, 1))
    if dir[0] == 0.0 and dir[1] == 0.0 and dir[2] == 0.0:
        start_node = 0
    if start_node > 0:
        inverse, displacement = tg._limited_inverse(mesh.nodes, start, dir)
        x, y, z = tg._sign_bits_of_ray(inverse)
        state = x | (y << 1) | (z << 2)
        # The first iteration enters the start node as a child of node 0.
        node, path0, path1 = 0, tg.uint64(1), tg.uint64(0)
        while node >= 0:
            child, size = 0, 0
            remaining = tg.uint32(path0) & 255
            # A warp executes a step up and the test of a node one after the other, so that all steps up are done first.
            while remaining == tg.uint32(0) and child == 0 and node >= 0:
                if (path0 | path1) == tg.uint64(0) and state < MISSING:
                    node = -1
                else:
                    parent = tg._element_at(nodes + tg.uint64(node) * COMPACT_BYTES + COMPACT_PARENT, int32)
                    path0, path1 = (path0 >> 8) | (path1 << 56), path1 >> 8
                    if (state & MAX_STORED) > 0:
                        state -= STORED
                        node = parent
                        remaining = tg.uint32(path0) & 255
                    else:
                        state -= MISSING
                        child = parent
            if remaining != tg.uint32(0):
                here = nodes + tg.uint64(node) * COMPACT_BYTES
                path0 = path0 & (path0 - 1)
                slot = tg.uint64(tg.ctz(remaining) ^ tg.uint32(state & 7))
                child = start_node
                if node > 0:
                    child = tg._element_at(here + COMPACT_CHILDREN + slot * 4, int32)
                if child < 0:
                    size = tg.int32(tg._element_at(here + COMPACT_COUNTS + slot, uint8))
                # The closest hit may have changed since the children of the node were tested.
                if mode == CLOSEST and at >= 0:
                    enters = tg._ray_enters_compact_child(here, slot, start, inverse, displacement, t)
                    child = tg.where(enters, child, 0)
            if child < 0:
                item = -1 - child
                end = item + size
                while item < end:
                    first, second, third, face = tg._triangle_and_face(mesh, item)
                    hit = tg._intersect_triangle(shear, first, second, third)
                    if hit.hit and hit.t >= 0.0 and hit.t <= t:
                        if mode == COUNT:
                            count += 1
                        else:
                            is_closer = hit.t < t or at < 0
                            if not is_closer:
                                is_closer = face < tg._face_at(mesh, at)
                            if is_closer:
                                t, at = hit.t + 0.0, item
                            if mode == ANY:
                                node, item, count = -1, end, 1
                    item += 1
            elif child > 0:
                entered = nodes + tg.uint64(child) * COMPACT_BYTES
                hits = tg._entered_compact_children(entered, start, inverse, displacement, t)
                ordered = tg.uint64(tg._order_by_octant(hits, state & 7))
                if child < node:
                    # An ancestor whose mask is missing: the remaining children follow the child on the path.
                    slot_on_path = 0
                    while (
                        tg._element_at(entered + COMPACT_CHILDREN + tg.uint64(slot_on_path) * 4, int32)
                        != node
                    ):
                        slot_on_path += 1
                    node = child
                    later = tg.uint64(254) << tg.uint64(slot_on_path ^ (state & 7))
                    path0, path1 = ordered & later, tg.uint64(0)
                elif hits != tg.uint32(0):
                    if node > 0:
                        state += tg.where((state & MAX_STORED) == MAX_STORED, MISSING, STORED)
                    node = child
                    path0, path1 = (path0 << 8) | ordered, (path1 << 8) | (path0 >> 56)
    face = -1
    if at >= 0:
        face = tg._face_at(mesh, at)
    return FOUND(face, t, tg.max(at, 0), tg.where(mode == CLOSEST and at >= 0, 1, count))
