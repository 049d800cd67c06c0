"""Queries of hash grids: an unbounded grid of cells, which are stored modulo the dimensions of a box of cells.

The points are sorted by cell, row by row along x, so that adjacent cells of a row are one range of points. A query
visits the rows that a box around its point overlaps; a row that wraps around is two ranges."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.registry import composite, tg
from tegula.structs import StructType
from tegula.types import VecType, bool_, float16, float32, float64, int32, uint64

HASH_GRID_KIND = 3
HASH_GRID = StructType(
    "HashGrid",
    {
        "count": int32,
        "dim_x": int32,
        "dim_y": int32,
        "dim_z": int32,
        "bits": int32,
        "grouped": int32,
        "scale": float64,
        "starts": uint64,
        "ids": uint64,
        "groups": uint64,
        "id": uint64,
    },
    __name__,
    "HASH_GRID",
)
"""The fields of a grid in kernels: the number of points and of cells along the axes, the bits of a coordinate, whether
points have groups, the inverse of a cell's width, the addresses of three int32 arrays (the start of each cell and the
end of the last cell, the index of each point, the group of each point), and the id."""
HASH_GRID_QUERY = StructType(
    "HashGridQuery",
    {
        "starts": uint64,
        "ids": uint64,
        "groups": uint64,
        "dim_x": int32,
        "dim_y": int32,
        "dim_z": int32,
        "from_x": int32,
        "from_y": int32,
        "from_z": int32,
        "count_x": int32,
        "count_y": int32,
        "count_z": int32,
        "x": int32,
        "y": int32,
        "z": int32,
        "item": int32,
        "end": int32,
        "group": int32,
        "grouped": bool_,
    },
    __name__,
    "HASH_GRID_QUERY",
    advance="hash_grid_query_next",
    spans=("_next_span", "_point_at"),
)
"""The state of a query: along each axis the first cell and the number of cells, the next cells, the remaining range of
points, and the requested group if `grouped`."""
MAX_CELL = 2.0**52
"""Coordinates are clamped to this number of cells."""
VEC3H, VEC3, VEC3D = (VecType(3, t) for t in (float16, float32, float64))
HASH_GRIDS = Family(
    {"Gradient": "none: results of queries have no gradient."},
    {
        "type-mismatch": "an argument is of another type",
        "shape-mismatch": "arguments are tiles whose shapes do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
        "assertion": "the id does not name an existing hash grid, or its coordinates have another dtype",
    },
)


@composite()
def _grid(id: uint64):
    """The grid of an id; a grid without points for an unknown id."""
    entry = tg._entry(id, HASH_GRID_KIND)
    return HASH_GRID(
        tg._element_at(entry, int32),
        tg._element_at(entry + 8, int32),
        tg._element_at(entry + 16, int32),
        tg._element_at(entry + 24, int32),
        tg._element_at(entry + 32, int32),
        tg._element_at(entry + 40, int32),
        tg._element_at(entry + 48, float64),
        tg._element_at(entry + 56, uint64),
        tg._element_at(entry + 64, uint64),
        tg._element_at(entry + 72, uint64),
        id,
    )


@composite()
def _grid(id: HASH_GRID):
    """The grid of a typed argument."""
    return id


@composite()
def _cell_along(x, scale: float64):
    """The cell of a coordinate along an axis, an integral float64; 0 for NaN, and -MAX_CELL or MAX_CELL for
    infinities."""
    cell = tg.floor(tg.float64(x * type(x)(scale)))
    return tg.where(tg.isnan(cell), tg.float64(0.0), tg.clamp(cell, -MAX_CELL, MAX_CELL))


@composite()
def _wrap_cell(cell: float64, dim: int32):
    """The index of a cell modulo the number of cells along an axis, from 0 to dim - 1."""
    n = tg.float64(dim)
    remainder = tg.fma(-n, tg.floor(cell / n), cell)
    return tg.int32(
        tg.where(remainder < 0.0, remainder + n, tg.where(remainder >= n, remainder - n, remainder))
    )


@composite()
def _hash_grid_cell(point, scale: float64, dim_x: int32, dim_y: int32, dim_z: int32):
    """The index of the cell of a point."""
    x = tg._wrap_cell(tg._cell_along(point[0], scale), dim_x)
    y = tg._wrap_cell(tg._cell_along(point[1], scale), dim_y)
    z = tg._wrap_cell(tg._cell_along(point[2], scale), dim_z)
    return (z * dim_y + y) * dim_x + x


@composite()
def _cell_range(x, distance, scale: float64, dim: int32, unit, largest):
    """The first cell that a query overlaps along an axis, modulo the dimension, and the number of cells. The interval
    is widened by more than the rounding errors of distances; `unit` is the unit of rounding of the dtype."""
    margin = tg.min((tg.abs(x) + 8.0 * tg.abs(distance)) * unit, largest)
    first = tg._cell_along(x - distance - margin, scale)
    last = tg._cell_along(x + distance + margin, scale)
    count = tg.min(last - first + 1.0, tg.float64(dim))
    return tg._wrap_cell(first, dim), tg.int32(count)


@composite()
def _begin_hash_grid_query(
    grid: HASH_GRID, point, distance, unit, largest, bits: int32, group: int32, grouped: bool_
):
    """A query before the first point."""
    assert grid.bits == bits or grid.bits == 0, "the coordinates of this hash grid have another dtype"
    query = HASH_GRID_QUERY()
    query.starts, query.ids, query.groups = grid.starts, grid.ids, grid.groups
    query.dim_x, query.dim_y, query.dim_z = grid.dim_x, grid.dim_y, grid.dim_z
    query.group, query.grouped = group, grouped and grid.grouped != 0
    x, y, z = point[0], point[1], point[2]
    if grid.count > 0 and grid.bits == bits and distance >= type(distance)(0.0):
        query.from_x, query.count_x = tg._cell_range(x, distance, grid.scale, grid.dim_x, unit, largest)
        query.from_y, query.count_y = tg._cell_range(y, distance, grid.scale, grid.dim_y, unit, largest)
        query.from_z, query.count_z = tg._cell_range(z, distance, grid.scale, grid.dim_z, unit, largest)
    return query


@composite(HASH_GRIDS)
def hash_grid_query(id, point: VEC3, max_dist):
    """A query for the points of a hash grid in the cells that a box around a point overlaps.

    The query yields each point within the distance once, and may yield points farther away, so that the caller compares
    distances. For a NaN coordinate the box has the cell of 0 only. `for i in query` loops over the points.

    Parameters:
        id: the hash grid, or its id.
        point: a vec3, vec3h or vec3d, of the dtype of the points of the grid.
        max_dist: a scalar, half the width of the box, converted to the dtype of the points. A query whose distance is
            negative or NaN yields no points.
        group: an int32: the query yields only points of this group, if the grid was built with groups.
    Returns:
        a HashGridQuery.
    """
    return tg._begin_hash_grid_query(
        tg._grid(id), point, tg.float32(max_dist), 2.0**-23, 3.4e38, 32, 0, False
    )


@composite()
def hash_grid_query(id, point: VEC3, max_dist, group: int32):
    """A query for the points of a group."""
    return tg._begin_hash_grid_query(
        tg._grid(id), point, tg.float32(max_dist), 2.0**-23, 3.4e38, 32, group, True
    )


@composite()
def hash_grid_query(id, point: VEC3D, max_dist):
    """A query with coordinates of float64."""
    unit, largest = tg.float64(2.0**-52), tg.float64(1.7e308)
    return tg._begin_hash_grid_query(tg._grid(id), point, tg.float64(max_dist), unit, largest, 64, 0, False)


@composite()
def hash_grid_query(id, point: VEC3D, max_dist, group: int32):
    """A query with coordinates of float64, for the points of a group."""
    unit, largest = tg.float64(2.0**-52), tg.float64(1.7e308)
    return tg._begin_hash_grid_query(
        tg._grid(id), point, tg.float64(max_dist), unit, largest, 64, group, True
    )


@composite()
def hash_grid_query(id, point: VEC3H, max_dist):
    """A query with coordinates of float16, which are computed in float32."""
    point32 = VEC3(tg.float32(point[0]), tg.float32(point[1]), tg.float32(point[2]))
    return tg._begin_hash_grid_query(
        tg._grid(id), point32, tg.float32(max_dist), 2.0**-10, 3.4e38, 16, 0, False
    )


@composite()
def hash_grid_query(id, point: VEC3H, max_dist, group: int32):
    """A query with coordinates of float16, for the points of a group."""
    point32 = VEC3(tg.float32(point[0]), tg.float32(point[1]), tg.float32(point[2]))
    return tg._begin_hash_grid_query(
        tg._grid(id), point32, tg.float32(max_dist), 2.0**-10, 3.4e38, 16, group, True
    )


@composite(HASH_GRIDS)
def hash_grid_query_next(query: InOut[HASH_GRID_QUERY], index: InOut[int32]):
    """Advances a query of a hash grid to the next point. Points are ordered by cell, and within a cell by group and
    index.

    Parameters:
        query: a HashGridQuery variable, which is updated.
        index: an int32 variable, which is set to the index of the next point, and is unchanged if there is none.
    Returns:
        a bool, whether there was another point.
    """
    while query.item >= query.end and query.z < query.count_z:
        tg._next_cells(query)
    has_next, index_of_point = query.item < query.end, index
    if has_next:
        index_of_point = tg._element_at(query.ids + tg.uint64(query.item) * 4, int32)
        query.item = query.item + 1
    index = tg.where(has_next, index_of_point, index)
    return has_next


@composite()
def _next_span(query: InOut[HASH_GRID_QUERY]):
    """Advance to the next range of points, which may be empty. Returns whether there was a range."""
    has_span = query.z < query.count_z
    if has_span:
        tg._next_cells(query)
    return has_span


@composite()
def _point_at(query: HASH_GRID_QUERY, item: int32):
    """The index of the point at a position of the sorted order."""
    return tg._element_at(query.ids + tg.uint64(item) * 4, int32)


@composite()
def _next_start(query: HASH_GRID_QUERY):
    """The position of the next cell along x, and the address of its start."""
    x, y, z = query.from_x + query.x, query.from_y + query.y, query.from_z + query.z
    x = tg.where(x >= query.dim_x, x - query.dim_x, x)
    y = tg.where(y >= query.dim_y, y - query.dim_y, y)
    z = tg.where(z >= query.dim_z, z - query.dim_z, z)
    return x, query.starts + tg.uint64((z * query.dim_y + y) * query.dim_x + x) * 4


@composite()
def _next_cells(query: InOut[HASH_GRID_QUERY]):
    """Advance to the next cells of a row that are adjacent in memory, or to the next cell if a group is requested. The
    CPU fetches the points of the cells that follow, and the start of the row after them."""
    x, start_address = tg._next_start(query)
    cell_count = tg.where(query.grouped, 1, tg.min(query.count_x - query.x, query.dim_x - x))
    query.item, query.end = (
        tg._element_at(start_address, int32),
        tg._element_at(start_address + tg.uint64(cell_count) * 4, int32),
    )
    if query.grouped:
        query.item = tg._lower_bound_group(query.groups, query.item, query.end, query.group, False)
        query.end = tg._lower_bound_group(query.groups, query.item, query.end, query.group, True)
    query.x = query.x + cell_count
    if query.x == query.count_x:
        query.x, query.y = 0, query.y + 1
        if query.y == query.count_y:
            query.y, query.z = 0, query.z + 1
    _, address_ahead = tg._next_start(query)
    read_first = tg.where(query.grouped, query.groups, query.ids)
    tg._read_soon(read_first + tg.uint64(tg._element_at(address_ahead, int32)) * 4)
    tg._read_soon(address_ahead + tg.uint64(query.dim_x) * 4)


@composite()
def _lower_bound_group(groups: uint64, low: int32, high: int32, group: int32, after: bool_):
    """The first item of a group among the items low to high - 1, which are sorted by group; with `after` the first item
    after the group."""
    while low < high:
        middle = low + (high - low) // 2
        middle_group = tg._element_at(groups + tg.uint64(middle) * 4, int32)
        if middle_group < group or (after and middle_group == group):
            low = middle + 1
        else:
            high = middle
    return low


@composite(HASH_GRIDS)
def hash_grid_point_id(id, index: int32):
    """The index of the point at a position of the sorted order of a hash grid.

    Consecutive threads that take points in this order work on points close to each other.

    Parameters:
        id: the hash grid, or its id.
        index: an int32, the position, from 0 to the number of points - 1.
    Returns:
        an int32; -1 for a position out of range.
    """
    grid = tg._grid(id)
    point_id = -1
    if index >= 0 and index < grid.count:
        point_id = tg._element_at(grid.ids + tg.uint64(index) * 4, int32)
    return point_id
