"""The nearest item or face among the items of leaves: one by one, and on CPUs the faces of all leaves of a node, eight
at a time in the components of vector registers."""

from __future__ import annotations

from tegula.signature import InOut
from tegula.stdlib.geometry.layout import (
    CHILDREN,
    COUNTS,
    EIGHT_INTS,
    ITEM_BYTES,
    MESH,
    SPHERE_QUERY,
    TRIANGLE_BYTES,
    VEC3,
    VEC8,
)
from tegula.stdlib.geometry.points import FLAT, NEAREST
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import bool_, float32, int32, uint8, uint32, uint64

SEARCH = StructType("Search", {"moderate": bool_, "has_faces": bool_, "slack": float32}, __name__, "SEARCH")
"""Whether squares of squared distances in the scene fit float32, whether items are faces, and the margin of the search
radius."""
VECTORS = StructType("Vectors", {"x": VEC8, "y": VEC8, "z": VEC8}, __name__, "VECTORS")
"""Eight vectors."""


@composite()
def _key_at(mesh: MESH, point: VEC3, item: int32, search: SEARCH):
    """The key of the distance of a point from a triangle or from the box of an item; NaN for an empty box."""
    key = 0.0
    if search.has_faces:
        first, second, third = tg._triangle(mesh, item)
        key = tg._key(first - point, second - point, third - point, search.moderate)
    else:
        box = tg._element_at(mesh.items + tg.uint64(item) * ITEM_BYTES, VEC8)
        x, y = (
            tg._distance_to_interval(box[0], box[3], point[0]),
            tg._distance_to_interval(box[1], box[4], point[1]),
        )
        z = tg._distance_to_interval(box[2], box[5], point[2])
        if search.moderate:
            key = x * x + y * y + z * z
        else:
            key = tg._scaled_length(tg.vec3(x, y, z))
    return key


@composite()
def _take_nearer(
    mesh: MESH,
    item: int32,
    key: float32,
    search: SEARCH,
    last: NEAREST,
    query: InOut[SPHERE_QUERY],
    nearest: InOut[NEAREST],
):
    """Continue a search with an item after the last one that is nearer than the nearest one before."""
    if key <= nearest.key and key >= last.key:
        index = tg._element_at(mesh.items + tg.uint64(item) * ITEM_BYTES + 24, int32)
        is_after_last = key > last.key or index > last.face
        has_lower_index = nearest.face >= 0 and index < nearest.face
        if is_after_last and (key < nearest.key or has_lower_index):
            nearest = NEAREST(index, key, item)
            query.radius = tg._search_radius(key, search.slack, search.moderate)


@composite()
def _search_leaf(
    mesh: MESH,
    node: uint64,
    slot: uint64,
    search: SEARCH,
    last: NEAREST,
    query: InOut[SPHERE_QUERY],
    nearest: InOut[NEAREST],
):
    """Search the items of a leaf one by one. `slot`: the position of the leaf among the children of a node."""
    item = -1 - tg._element_at(node + CHILDREN + slot * 4, int32)
    end = item + tg.int32(tg._element_at(node + COUNTS + slot, uint8))
    while item < end:
        key = tg._key_at(mesh, query.first, item, search)
        tg._take_nearer(mesh, item, key, search, last, query, nearest)
        item += 1


@composite()
def _search_leaves(
    mesh: MESH,
    node: uint64,
    leaves: uint32,
    search: SEARCH,
    last: NEAREST,
    query: InOut[SPHERE_QUERY],
    nearest: InOut[NEAREST],
):
    """Search the faces of some leaves of a node. `leaves`: a mask of the children of the node."""
    remaining = leaves
    for _ in range((tg.bit_count(leaves) + 3) // 4):
        tg._search_four_leaves(mesh, node, remaining, search, last, query, nearest)
        for _ in tg.static(range(4)):
            remaining = remaining & (remaining - 1)


@composite()
def _first_leaf(node: uint64, leaves: uint32, otherwise: int32):
    """The first item of the lowest leaf of a mask, and the number of items; 0 items for an empty mask."""
    slot = tg.uint64(tg.ctz(leaves) & 7)
    first = -1 - tg._element_at(node + CHILDREN + slot * 4, int32)
    count = tg.int32(tg._element_at(node + COUNTS + slot, uint8))
    is_leaf = leaves != tg.uint32(0)
    return tg.where(is_leaf, first, otherwise), tg.where(is_leaf, count, 0)


@composite()
def _search_four_leaves(
    mesh: MESH,
    node: uint64,
    leaves: uint32,
    search: SEARCH,
    last: NEAREST,
    query: InOut[SPHERE_QUERY],
    nearest: InOut[NEAREST],
):
    """Search the faces of the lowest four leaves of a mask, eight faces at a time, two of each leaf. The keys of faces
    with an area are computed together in moderate scenes, the others one by one."""
    second, third = leaves & (leaves - 1), leaves & (leaves - 1)
    third = third & (third - 1)
    fourth = third & (third - 1)
    a, a_count = tg._first_leaf(node, leaves, 0)
    b, b_count = tg._first_leaf(node, second, a)
    c, c_count = tg._first_leaf(node, third, a)
    d, d_count = tg._first_leaf(node, fourth, a)
    most = tg.max(tg.max(a_count, b_count), tg.max(c_count, d_count))
    counts = EIGHT_INTS(a_count, a_count, b_count, b_count, c_count, c_count, d_count, d_count)
    firsts = EIGHT_INTS(a, a, b, b, c, c, d, d)
    for n in range(0, most, 2):
        offsets = EIGHT_INTS(n) + EIGHT_INTS(0, 1, 0, 1, 0, 1, 0, 1)
        is_item = tg._each_below(offsets, counts)
        items = firsts + tg._pick_each(is_item, offsets, EIGHT_INTS(0))
        keys, known = VEC8(0.0), tg.uint32(0)
        if search.moderate:
            keys, is_known = tg._keys_of_eight(mesh, query.first, items)
            known = tg._bits(is_known)
        is_near = tg._each_within(keys, VEC8(nearest.key)) & tg._each_within(VEC8(last.key), keys)
        candidates = tg._bits(is_item) & (tg._bits(is_near) | ~known)
        while candidates != tg.uint32(0):
            k = tg.int32(tg.ctz(candidates))
            candidates = candidates & (candidates - 1)
            item, key = items[k], keys[k]
            if (known >> tg.uint32(k)) & 1 == tg.uint32(0):
                key = tg._key_at(mesh, query.first, item, search)
            tg._take_nearer(mesh, item, key, search, last, query, nearest)


@composite()
def _row(mesh: MESH, item: int32):
    """The first eight coordinates of a triangle."""
    return tg._element_at(mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES, VEC8)


@composite()
def _transposed_triangles(mesh: MESH, items: EIGHT_INTS):
    """The first eight coordinates of eight triangles: vector k has the coordinate k of each."""
    a, b, c, d = tg._transposed_half(
        tg._row(mesh, items[0]),
        tg._row(mesh, items[1]),
        tg._row(mesh, items[2]),
        tg._row(mesh, items[3]),
    )
    e, f, g, h = tg._transposed_half(
        tg._row(mesh, items[4]),
        tg._row(mesh, items[5]),
        tg._row(mesh, items[6]),
        tg._row(mesh, items[7]),
    )
    return (
        tg._first_half(a, e),
        tg._first_half(b, f),
        tg._first_half(c, g),
        tg._first_half(d, h),
        tg._second_half(a, e),
        tg._second_half(b, f),
        tg._second_half(c, g),
        tg._second_half(d, h),
    )


@composite()
def _last_coordinate(mesh: MESH, item: int32):
    """The last coordinate of a triangle."""
    return tg._element_at(mesh.triangles + tg.uint64(item) * TRIANGLE_BYTES + 32, float32)


@composite()
def _keys_of_eight(mesh: MESH, point: VEC3, items: EIGHT_INTS):
    """The keys of eight triangles in a moderate scene, as `_key_at` computes them, and whether each has an area; the
    keys of others are not right."""
    p, q, r, s, t, u, v, w = tg._transposed_triangles(mesh, items)
    last = VEC8(
        tg._last_coordinate(mesh, items[0]),
        tg._last_coordinate(mesh, items[1]),
        tg._last_coordinate(mesh, items[2]),
        tg._last_coordinate(mesh, items[3]),
        tg._last_coordinate(mesh, items[4]),
        tg._last_coordinate(mesh, items[5]),
        tg._last_coordinate(mesh, items[6]),
        tg._last_coordinate(mesh, items[7]),
    )
    x, y, z = VEC8(point[0]), VEC8(point[1]), VEC8(point[2])
    a, b, c = VECTORS(p - x, q - y, r - z), VECTORS(s - x, t - y, u - z), VECTORS(v - x, w - y, last - z)
    return tg._squared_distances(a, b, c)


@composite()
def _differences(a: VECTORS, b: VECTORS):
    """The differences of eight pairs of vectors."""
    return VECTORS(a.x - b.x, a.y - b.y, a.z - b.z)


@composite()
def _dots(a: VECTORS, b: VECTORS):
    """The dot products of eight pairs of vectors."""
    return tg.cw_mul(a.x, b.x) + tg.cw_mul(a.y, b.y) + tg.cw_mul(a.z, b.z)


@composite()
def _minors(a: VEC8, b: VEC8, c: VEC8, d: VEC8):
    """The eight differences a * b - c * d."""
    return tg.cw_mul(a, b) - tg.cw_mul(c, d)


@composite()
def _squared_distances(a: VECTORS, b: VECTORS, c: VECTORS):
    """The squared distances of the origin from eight triangles, and whether each has an area, with the decisions of
    `_weights` from the last to the first."""
    ab, ac, bc = tg._differences(b, a), tg._differences(c, a), tg._differences(c, b)
    d1, d2 = -tg._dots(ab, a), -tg._dots(ac, a)
    d3, d4 = -tg._dots(ab, b), -tg._dots(ac, b)
    d5, d6 = -tg._dots(ab, c), -tg._dots(ac, c)
    va, vb, vc = tg._minors(d3, d6, d5, d4), tg._minors(d5, d2, d1, d6), tg._minors(d1, d4, d3, d2)
    total = va + vb + vc
    nx, ny = tg._minors(ab.y, ac.z, ab.z, ac.y), tg._minors(ab.z, ac.x, ab.x, ac.z)
    n = VECTORS(nx, ny, tg._minors(ab.x, ac.y, ab.y, ac.x))
    limit = tg.cw_mul(tg._dots(ab, ab) * FLAT, tg._dots(ac, ac))
    none, one = VEC8(0.0), VEC8(1.0)
    at_a = tg._each_within(d1, none) & tg._each_within(d2, none)
    at_b = tg._each_within(none, d3) & tg._each_within(d4, d3)
    at_c = tg._each_within(none, d6) & tg._each_within(d5, d6)
    on_ab = tg._each_within(vc, none) & tg._each_within(none, d1) & tg._each_within(d3, none)
    on_ac = tg._each_within(vb, none) & tg._each_within(none, d2) & tg._each_within(d6, none)
    on_bc = tg._each_within(va, none) & tg._each_within(none, d4 - d3) & tg._each_within(none, d5 - d6)
    # The weight of the second vertex of an edge.
    above = tg._pick_each(on_ab, d1, tg._pick_each(on_ac, d2, -tg._dots(bc, b)))
    below = tg._pick_each(on_ab, d1 - d3, tg._pick_each(on_ac, d2 - d6, tg._dots(bc, bc)))
    weight = tg._smaller_of_each(tg._larger_of_each(tg.cw_div(above, below), none), one)
    rest = one - weight
    wa, wb, wc = tg.cw_div(va, total), tg.cw_div(vb, total), tg.cw_div(vc, total)
    wa, wb, wc = (
        tg._pick_each(on_bc, none, wa),
        tg._pick_each(on_bc, rest, wb),
        tg._pick_each(on_bc, weight, wc),
    )
    wa, wb, wc = (
        tg._pick_each(on_ac, rest, wa),
        tg._pick_each(on_ac, none, wb),
        tg._pick_each(on_ac, weight, wc),
    )
    wa, wb, wc = tg._pick_each(at_c, none, wa), tg._pick_each(at_c, none, wb), tg._pick_each(at_c, one, wc)
    wa, wb, wc = (
        tg._pick_each(on_ab, rest, wa),
        tg._pick_each(on_ab, weight, wb),
        tg._pick_each(on_ab, none, wc),
    )
    wa, wb, wc = tg._pick_each(at_b, none, wa), tg._pick_each(at_b, one, wb), tg._pick_each(at_b, none, wc)
    wa, wb, wc = tg._pick_each(at_a, one, wa), tg._pick_each(at_a, none, wb), tg._pick_each(at_a, none, wc)
    x = tg.cw_mul(a.x, wa) + tg.cw_mul(b.x, wb) + tg.cw_mul(c.x, wc)
    y = tg.cw_mul(a.y, wa) + tg.cw_mul(b.y, wb) + tg.cw_mul(c.y, wc)
    z = tg.cw_mul(a.z, wa) + tg.cw_mul(b.z, wb) + tg.cw_mul(c.z, wc)
    d = VECTORS(x, y, z)
    return tg._dots(d, d), tg._each_below(limit, tg._dots(n, n))
