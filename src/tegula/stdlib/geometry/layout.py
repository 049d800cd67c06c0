"""The memory layout of bounding volume hierarchies, shared by builders and queries.

The first 256 bytes are a header with the bounds of all items. Node k, of 256 bytes, is at offset 256 * k; node 1 is the
root. A node has up to eight children, and begins with their bounds as a structure of arrays: the lower bounds along x,
y and z, then the upper bounds, eight floats each. The bounds of a missing child are NaN. An item has 32 bytes: lower
and upper bounds, its index and its group; the items of a leaf are adjacent. A triangle has 48 bytes: three vertices,
its face and its group."""

from __future__ import annotations

from tegula.structs import StructType
from tegula.types import VecType, float32, int32, uint8, uint32, uint64

WIDTH = 8
"""The number of children of a node."""
NODE_BYTES = 256
ITEM_BYTES = 32
TRIANGLE_BYTES = 48
UPPER = 96
"""The offset of a node's upper bounds, in bytes."""
AXIS = 32
"""The distance in bytes between the bounds of two axes."""
CHILDREN = 192
"""The offset in a node of eight int32: the node index of each child, or for a leaf -1 - the index of the first item."""
COUNTS = 224
"""The offset in a node of eight uint8: the number of items of each leaf."""
PARENT = 232
"""The offset in a node of an int32, the index of the parent; 0 for the root."""
MIDDLE = 240
"""The offset in a node of a vec3, the centre of the node's bounds."""
COMPACT_BYTES = 128
"""The size of a compact node. A mesh on a GPU has these nodes besides the other nodes, with the same indices. A compact
node begins with the origin of a cubic grid, a vec3, and the number of steps of the grid per unit of length, times UNIT.
The bounds of eight children follow for each axis, as steps of the grid: 16 uint8, the lower and the upper bound of each
child. Lower bounds above the upper bounds stand for no bounds."""
COMPACT_X, COMPACT_Y, COMPACT_Z = 16, 32, 48
COMPACT_CHILDREN, COMPACT_COUNTS = 64, 96
"""The offsets of the children and of the numbers of items in a compact node."""
UNIT = 2.0**-24
"""The value of the float16 whose bits are the integer 1."""
TRIANGLE_FACE = 36
"""The offset of the face in a triangle."""
LEVELS = 32
"""The maximum depth: a query has eight bits of state for each level, a ray on a GPU an entry of its stack."""
MAX_ITEMS = 255
"""The maximum number of items per leaf."""

VEC3 = VecType(3, float32)
VEC8 = VecType(WIDTH, float32)
EIGHT_INTS = VecType(WIDTH, int32)
EIGHT_BYTES = VecType(WIDTH, uint8)

TREE_FIELDS = {"nodes": uint64, "items": uint64, "groups": uint64, "group_count": int32}
TREE = StructType("Bvh", {**TREE_FIELDS, "id": uint64}, __name__, "TREE")
"""The fields of a hierarchy in kernels: the addresses of the header, of the items and of the table of groups (pairs of
a group and its node, sorted by group), and the id."""
MESH = StructType(
    "Mesh",
    {
        **TREE_FIELDS,
        **dict.fromkeys(
            ("triangles", "points", "indices", "velocities", "winding", "bvh", "compact"), uint64
        ),
        "point_count": int32,
        "face_count": int32,
        "id": uint64,
    },
    __name__,
    "MESH",
)
"""The fields of a mesh in kernels: its hierarchy, the addresses of the triangles in the order of the hierarchy, of the
user's arrays and of the data for winding numbers, the id of the hierarchy, the address of the compact nodes, 0 on CPUs,
and the id of the mesh."""
POINTS_WORD, VELOCITIES_WORD = len(MESH.fields), len(MESH.fields) + 1
"""The words after the fields in a mesh's table entry: the addresses of the gradients of `points` and `velocities`, 0
for an array without a gradient."""

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
    "at": int32,
    "leaf_node": int32,
    "candidates": uint32,
    "path0": uint64,
    "path1": uint64,
    "path2": uint64,
    "path3": uint64,
}
_DOC = "The state of a query of a hierarchy or a mesh."
NEXT = "_next_item"
BVH_QUERY = StructType("BvhQuery", _QUERY, __name__, "BVH_QUERY", _DOC, NEXT)
AABB_QUERY = StructType(
    "BvhQuery", _QUERY, __name__, "AABB_QUERY", _DOC, NEXT, ("_next_leaf", "_result_at"), True, BVH_QUERY
)
RAY_QUERY = StructType("BvhQuery", _QUERY, __name__, "RAY_QUERY", _DOC, NEXT, general=BVH_QUERY)
SPHERE_QUERY = StructType("BvhQuery", _QUERY, __name__, "SPHERE_QUERY", _DOC, NEXT, general=BVH_QUERY)
TILED_QUERY = StructType("BvhQueryTiled", _QUERY, __name__, "TILED_QUERY", "The state of a query of a block.")
"""The state of a query; the kind of a BVH_QUERY is known at run time. `first` and `second`: the corners of a box; the
start of a ray, displaced for entry planes and for exit planes; or the centre of a ball, and the binary scale of its
radius, which is stored as a product with the scale. `node`: the current node, 0 at
the end; `item` to `end`: the remaining items of a leaf; `path0` to `path3`: a mask of eight bits of the remaining
children on each level, the lowest bits for the current level."""
