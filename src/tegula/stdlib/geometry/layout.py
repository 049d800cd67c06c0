"""The memory of bounding volume hierarchies: what builders write and queries read.

The first 256 bytes are a header, with the bounds of all items. Node k, of 256 bytes, follows at 256 * k; node 1 is the
root. A node has up to eight children: the lower bounds of all along x, y and z, then the upper ones, eight floats each.
A missing child has bounds NaN. An item has 32 bytes: lower and upper bounds, its index and its group; the items of a
leaf are adjacent. A triangle has 48 bytes: three vertices, its face and its group."""

from __future__ import annotations

from tegula.structs import StructType
from tegula.types import VecType, float32, int32, uint64

WIDTH = 8
"""The number of children of a node."""
NODE_BYTES = 256
ITEM_BYTES = 32
TRIANGLE_BYTES = 48
UPPER = 96
"""The distance in bytes from a node's lower bounds to its upper ones."""
AXIS = 32
"""The distance in bytes between the bounds of two axes."""
CHILDREN = 192
"""The place in a node of eight int32: the number of a child's node, or -1 - the first item of a leaf."""
COUNTS = 224
"""The place in a node of eight uint8: the number of items of each leaf."""
PARENT = 232
"""The place in a node of an int32, the number of the node above; 0 for the root."""
MIDDLE = 240
"""The place in a node of a vec3, the middle of its bounds."""
LEVELS = 32
"""The most nodes on a path from the root: a query keeps eight bits for each."""
MOST_ITEMS = 255
"""The most items of a leaf."""

VEC3 = VecType(3, float32)
VEC8 = VecType(WIDTH, float32)

TREE_FIELDS = {"nodes": uint64, "items": uint64, "groups": uint64, "group_count": int32}
TREE = StructType("Tree", {**TREE_FIELDS, "id": uint64}, __name__, "TREE")
"""A hierarchy as kernels know it: the addresses of the header, of the items, and of the groups, pairs of an int32 that
ascends and the node of the group; and the id."""
MESH = StructType(
    "MeshParts",
    {
        **TREE_FIELDS,
        **dict.fromkeys(("triangles", "points", "indices", "velocities", "winding", "bvh"), uint64),
        "point_count": int32,
        "face_count": int32,
        "id": uint64,
    },
    __name__,
    "MESH",
)
"""A mesh as kernels know it: its hierarchy, the addresses of the triangles in the order of the hierarchy, of the user's
arrays and of the data for winding numbers, the id of the hierarchy, and its own."""
POINTS_WORD, VELOCITIES_WORD = len(MESH.fields), len(MESH.fields) + 1
"""The words of a mesh's entry in the table, which follow the fields, with the addresses of the gradients of `points`
and `velocities`; 0 for an array without a gradient."""

AABB, RAY, SPHERE = 0, 1, 2
"""The kinds of queries."""
_QUERY = {
    "nodes": uint64,
    "items": uint64,
    "triangles": uint64,
    "first": VEC3,
    "second": VEC3,
    "inverse": VEC3,
    "radius": float32,
    "kind": int32,
    "root": int32,
    "node": int32,
    "item": int32,
    "end": int32,
    "path0": uint64,
    "path1": uint64,
    "path2": uint64,
    "path3": uint64,
}
_DOC = "The state of a query of a hierarchy or a mesh."
NEXT = "_next_found"
BVH_QUERY = StructType("BvhQuery", _QUERY, __name__, "BVH_QUERY", _DOC, NEXT)
AABB_QUERY = StructType("BvhQuery", _QUERY, __name__, "AABB_QUERY", _DOC, NEXT, general=BVH_QUERY)
RAY_QUERY = StructType("BvhQuery", _QUERY, __name__, "RAY_QUERY", _DOC, NEXT, general=BVH_QUERY)
SPHERE_QUERY = StructType("BvhQuery", _QUERY, __name__, "SPHERE_QUERY", _DOC, NEXT, general=BVH_QUERY)
TILED_QUERY = StructType("BvhQueryTiled", _QUERY, __name__, "TILED_QUERY", "The state of a query of a block.")
"""The state of a query; BVH_QUERY is one of a kind known at run time. `first` and `second`: the corners of a box; of a
ray, its start, moved apart for planes that it enters and those that it leaves by; the centre of a ball. `node`: where
it is, 0 at its end; `item` to `end`: what is left of a leaf; `path0` to `path3`: the children that are left on each
level, eight bits, the lowest for this one."""
