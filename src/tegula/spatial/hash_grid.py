"""The host interface of hash grids."""

from __future__ import annotations

import math
from struct import Struct
from typing import Any

import tegula as tg
from tegula.algorithms.sorting import Chunks, sort
from tegula.handles import HASH_GRID_KIND
from tegula.lang.annotations import GENERIC
from tegula.runtime.array import array
from tegula.runtime.device import Device, get_device
from tegula.runtime.structures import Structure
from tegula.spatial.boxes import EIGHT, lang
from tegula.spatial.sort_cells import CellSort
from tegula.stdlib.geometry.hash_grids import HASH_GRID, HASH_GRID_QUERY
from tegula.stdlib.geometry.layout import WIDTH
from tegula.structs import Struct as StructOfKernels
from tegula.types import VecType, element_type, float16, float32, float64, int32, scalar_of

_DOUBLE = Struct("<d")
COORDINATES = (float16, float32, float64)
MAX_CELLS = (1 << 31) - 1
CELLS, CELLS_ON_GPU = 1 << 15, 32
"""The number of cells per thread that writes starts, on a CPU and on a GPU."""
NEAR = 8
"""The number of points that are searched linearly before the steps double."""


@tg.kernel
def number_cells(
    points, scale: tg.float64, x: int, y: int, z: int, keys: tg.array1d[tg.uint32], ids: tg.array1d[int]
):
    """Write the cell and the index of each point."""
    i = tg.tid()
    p = points[i]
    keys[i] = tg.uint32(lang._hash_grid_cell(p, scale, x, y, z))
    ids[i] = i


@tg.kernel
def find_cells(points, scale: tg.float64, x: int, y: int, z: int, cells: tg.array1d[tg.uint32]):
    """Write the cell of each point."""
    i = tg.tid()
    cells[i] = tg.uint32(lang._hash_grid_cell(points[i], scale, x, y, z))


@tg.kernel
def number_groups(
    points,
    groups: tg.array1d[int],
    scale: tg.float64,
    x: int,
    y: int,
    z: int,
    keys: tg.array1d[tg.uint64],
    ids: tg.array1d[int],
):
    """Write the cell and the group of each point as one key, and the point's index."""
    i = tg.tid()
    p = points[i]
    group = tg.uint64(tg.bitcast(groups[i], tg.uint32) ^ (tg.uint32(1) << 31))
    cell = lang._hash_grid_cell(p, scale, x, y, z)
    keys[i] = (tg.uint64(cell) << 32) | group
    ids[i] = i


@tg.kernel
def split_keys(keys: tg.array1d[tg.uint64], cells: tg.array1d[tg.uint32], groups: tg.array1d[int]):
    """Write the cells and the groups of sorted keys."""
    i = tg.tid()
    cells[i] = tg.uint32(keys[i] >> 32)
    groups[i] = tg.bitcast(tg.uint32(keys[i]) ^ (tg.uint32(1) << 31), tg.int32)


@tg.func
def lower_bound_cell(cells: tg.array1d[tg.uint32], low: int, high: int, cell: tg.uint32):
    """The first position from `low` to `high` whose cell is at least `cell`, or `high` if there is none."""
    while low < high:
        middle = low + (high - low) // 2
        if cells[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low


@tg.kernel
def find_starts(cells: tg.array1d[tg.uint32], count: int, last: int, length: int, starts: tg.array1d[int]):
    """Write the start of each cell in the sorted points, and the end of the last cell. The next occupied cell is found
    by a galloping search, so that a cell with many points costs little."""
    cell = tg.tid() * length
    end = tg.min(cell + length, last + 1)
    point = lower_bound_cell(cells, 0, count, tg.uint32(cell))
    while cell < end:
        following = end
        if point < count:
            following = tg.min(tg.int32(cells[point]) + 1, end)
        for k in range(cell, following):
            starts[k] = point
        cell = following
        linear_end = tg.min(point + NEAR, count)
        while point < linear_end and cells[point] < tg.uint32(cell):
            point += 1
        if point == linear_end and point < count:
            low, high, step = point, point, NEAR
            while high < count and cells[high] < tg.uint32(cell):
                low = high + 1
                high = tg.min(high + step, count)
                step = 2 * step
            point = lower_bound_cell(cells, low, high, tg.uint32(cell))


@tg.kernel
def fill_starts(
    cells: tg.array1d[tg.uint32],
    count: int,
    last: int,
    length: int,
    starts: tg.array1d[int],
    windows: tg.array1d[EIGHT],
):
    """Write the starts as `find_starts` does, in vectors. `windows`: the eight starts from a cell on.

    The vectors of a point also set the starts of later cells, which the next points correct; near the end of the
    thread's cells, where another thread's starts follow, the starts are written one by one."""
    cell = tg.tid() * length
    end = tg.min(cell + length, last + 1)
    point = lower_bound_cell(cells, 0, count, tg.uint32(cell))
    occupied = end
    if point < count:
        occupied = tg.int32(tg.min(cells[point], tg.uint32(end)))
    while occupied < end:
        if occupied < end - 2 * WIDTH:
            windows[cell], windows[cell + WIDTH] = EIGHT(point), EIGHT(point)
            k = cell + 2 * WIDTH
            while k <= occupied:
                windows[k], windows[k + WIDTH] = EIGHT(point), EIGHT(point)
                k += 2 * WIDTH
        else:
            for k in range(cell, occupied + 1):
                starts[k] = point
        cell = occupied + 1
        point += 1
        occupied = end
        if point < count:
            occupied = tg.int32(tg.min(cells[point], tg.uint32(end)))
    for k in range(cell, end):
        starts[k] = point


class _SortBuffers:
    """The double buffers of a sort of at most `capacity` points: keys and point indices."""

    def __init__(self, capacity: int, device: Device) -> None:
        self.capacity, self.device = capacity, device
        self.keys = tg.empty(2 * capacity, tg.uint32, device)
        self.ids = tg.empty(2 * capacity, tg.int32, device)
        self.wide_keys = tg.empty(0, tg.uint64, device)
        self.chunks = Chunks(capacity, device)

    def widen(self) -> None:
        """Reallocate the keys with 64 bits."""
        if not self.wide_keys.size:
            self.wide_keys = tg.empty(2 * self.capacity, tg.uint64, self.device)


class HashGrid(Structure):
    """A hash grid, in which kernels find the points near a point.

    The grid is unbounded: cell (x, y, z) is stored in cell (x % dim_x, y % dim_y, z % dim_z). Kernels take the grid as
    an argument annotated `tg.HashGrid`, or take its `id`, a uint64.

    Parameters:
        dim_x, dim_y, dim_z: the number of cells in memory along each axis.
        device: the device of the grid; the current device by default.
        dtype: the dtype of coordinates: float32 (the default), float16 or float64.
    Raises:
        TypeError: a number of cells is not an integer, or the dtype is another one.
        RuntimeError: a number of cells is not positive, or there are 2**31 cells or more.
        launch: there is no such device.
    """

    label = "tg.HashGrid"

    def __init__(
        self, dim_x: int, dim_y: int, dim_z: int, device: Device | str | None = None, dtype: Any = None
    ) -> None:
        self.dims = tuple(_dimension(n) for n in (dim_x, dim_y, dim_z))
        cells = math.prod(self.dims)
        if cells > MAX_CELLS:
            raise RuntimeError(
                f"Hash grid cell count exceeds supported limit: {cells} cells, {MAX_CELLS} are possible"
            )
        self.dtype = float32 if dtype is None else element_type(dtype)
        if self.dtype not in COORDINATES:
            raise TypeError(
                f"the coordinates of a hash grid are float16, float32 or float64, not {self.dtype}"
            )
        self.enter(HASH_GRID_KIND, get_device(device))
        self._buffers: _SortBuffers | None = None
        self._cell_sort: CellSort | None = None
        self._ids: array | None = None
        self._starts: array | None = None
        self._groups: array | None = None
        self._count, self._grouped, self._scale = 0, False, 0.0
        self.publish()

    def build(self, points: array, radius: float, groups: array | None = None) -> None:
        """Sort points into cells. Queries return indices of these points until the next build; the array of points is
        not kept.

        Parameters:
            points: an array of vec3 (vec3h, vec3d) on the device of the grid, of any shape.
            radius: a positive float, the width of a cell in units of the points, best about the radius of the queries.
            groups: an array of int32 with an element for each point, the point's group; a query may be restricted to a
                group.
        Raises:
            TypeError: the points have another dtype.
            ValueError: `radius` is not positive and finite.
            RuntimeError: an array is on another device, or the groups are not int32 or not as many as the points.
        """
        self._check(points, radius, groups)
        flat = points if points.ndim == 1 else points.flatten()
        count = flat.size
        self.version += 1
        self._scale = 1.0 / float(radius)
        self._count, self._grouped = count, groups is not None
        self.reserve(count, with_groups=groups is not None)
        assert self._starts is not None
        if self._cell_sort is not None and groups is None:
            cells = self._cell_sort.cells[:count]
            if count:
                args = [flat, self._scale, *self.dims, cells]
                tg.launch(find_cells, count, args, record_tape=False)
            self._cell_sort.sort(count)
            self._ids = self._cell_sort.ids
        else:
            self._sort_by_digits(flat, groups, self._starts)
        self.publish()

    def _sort_by_digits(self, points: array, groups: array | None, starts: array) -> None:
        """Sort points by cell and group, and write the starts of cells."""
        assert self._buffers is not None
        m, cells, count = self._buffers, math.prod(self.dims), points.size
        bits = max(cells - 1, 1).bit_length()
        if count and groups is None:
            self._launch(number_cells, count, [points, self._scale, *self.dims, m.keys, m.ids])
            sort(m.keys, m.ids, count, 0, bits, m.chunks)
        elif count:
            assert groups is not None and self._groups is not None
            args = [
                points,
                groups if groups.ndim == 1 else groups.flatten(),
                self._scale,
                *self.dims,
                m.wide_keys,
                m.ids,
            ]
            self._launch(number_groups, count, args)
            sort(m.wide_keys, m.ids, count, 0, 32 + bits, m.chunks)
            self._launch(split_keys, count, [m.wide_keys, m.keys, self._groups])
        if self.device.is_cpu:
            # The last vectors of the table overlap its end, and are not written.
            shape = max(starts.size - WIDTH + 1, 1)
            windows = array(ptr=starts.ptr, dtype=EIGHT, shape=shape, strides=4, device=self.device)
            self._launch(fill_starts, cells // CELLS + 1, [m.keys, count, cells, CELLS, starts, windows], 1)
        else:
            args = [m.keys, count, cells, CELLS_ON_GPU, starts]
            self._launch(find_starts, cells // CELLS_ON_GPU + 1, args)
        self._ids = m.ids

    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Allocate memory for later builds with at most `num_points` points.

        Parameters:
            num_points: the number of points.
            with_groups: whether there is room for groups too.
        Raises:
            ValueError: `num_points` is negative.
        """
        if num_points < 0:
            raise ValueError(f"a hash grid needs 0 or more points, got {num_points}")
        capacity = max(num_points, 1)
        if self._starts is None:
            self._starts = tg.zeros(math.prod(self.dims) + 1, int32, self.device)
        if self.device.is_cpu and not with_groups:
            if self._cell_sort is None or self._cell_sort.capacity < capacity:
                self._cell_sort = CellSort(capacity, self._starts)
        elif self._buffers is None or self._buffers.capacity < capacity:
            self._buffers, self._groups = _SortBuffers(capacity, self.device), None
        if with_groups and self._groups is None:
            assert self._buffers is not None
            self._buffers.widen()
            self._groups = tg.empty(self._buffers.capacity, int32, self.device)

    def in_kernels(self) -> StructOfKernels:
        """The value of a kernel parameter of this type.

        Returns:
            a struct of numbers and addresses, which is valid while the grid exists and until it is built again.
        Raises:
            nothing.
        """
        grid = HASH_GRID()
        grid.count, grid.bits, grid.grouped = self._count, scalar_of(self.dtype).bits, int(self._grouped)
        grid.dim_x, grid.dim_y, grid.dim_z = self.dims
        grid.scale, grid.id = self._scale, self.id
        if self._ids is not None and self._starts is not None:
            grid.starts, grid.ids = self._starts.ptr, self._ids.ptr
            grid.groups = 0 if self._groups is None else self._groups.ptr
        return grid

    def words(self) -> list[int]:
        """The values of the fields of HASH_GRID, in order.

        Returns:
            addresses and numbers, floats as their bits.
        Raises:
            nothing.
        """
        grid = self.in_kernels()
        numbers = [getattr(grid, name) for name in HASH_GRID.fields if name != "id"]
        return [int.from_bytes(_DOUBLE.pack(x), "little") if isinstance(x, float) else x for x in numbers]

    def _check(self, points: array, radius: float, groups: array | None) -> None:
        expected = VecType(3, scalar_of(self.dtype))
        for name, a, dtype in (("points", points, expected), ("groups", groups, int32)):
            if not isinstance(a, array) and (a is not None or name == "points"):
                raise TypeError(f"{name} must be an array of {dtype}, got a value of type {type(a).__name__}")
        if points.dtype != expected:
            raise TypeError(f"the points of this hash grid are {expected}, got {points.dtype}")
        if not 0.0 < float(radius) < math.inf:
            raise ValueError(f"the width of a cell must be positive, got {radius}")
        if points.device != self.device:
            raise RuntimeError(f"points must live on the same device as this hash grid, {self.device}")
        if groups is None:
            return
        if groups.dtype != int32:
            raise RuntimeError(f"groups should be an array of int32, got {groups.dtype}")
        if groups.device != self.device:
            raise RuntimeError(f"groups must live on the same device as this hash grid, {self.device}")
        if groups.size != points.size:
            raise RuntimeError(
                f"groups must have as many elements as points, {points.size}, got {groups.size}"
            )

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = None) -> None:
        tg.launch(kernel, dim, inputs, device=self.device, record_tape=False, block_dim=block_dim)


class HashGridQuery:
    """The state of a query of a hash grid, as an annotation of a function's parameter; also `HashGridQuery[dtype]`."""

    def __class_getitem__(cls, dtype: Any) -> type[HashGridQuery]:
        if element_type(dtype) not in COORDINATES:
            raise TypeError(f"hash grids have coordinates of float16, float32 or float64, not {dtype}")
        return cls


setattr(HashGrid, GENERIC, HASH_GRID)
setattr(HashGridQuery, GENERIC, HASH_GRID_QUERY)


def _dimension(n: Any) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"Hash grid dimensions must be integers, got {n!r}")
    if n.__index__() < 1:
        raise RuntimeError(f"Hash grid dimensions must be positive, got {n}")
    return n.__index__()
