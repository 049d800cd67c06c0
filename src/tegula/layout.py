"""Layouts: the distribution of a tile's elements over the threads of a group and their registers.

A layout is a mixed-radix map. A thread's number and a register's number are each split into digits, least significant
first; a digit moves the element by its mode's stride along its mode's dimension:

    coordinate[d] = sum of digit * stride over the modes of dimension d

A mode of dimension COPY replicates: all its digits select the same elements. Coordinates outside the tile are
padding: unused registers. Any shape and any number of threads have a layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import gcd, prod

from tegula.dataclass import dataclass

COPY = -1
"""The dimension of modes whose digits hold copies."""


@dataclass(frozen=True, slots=True)
class Mode:
    """`size` steps of `stride` elements along dimension `dim`, or `size` copies."""

    size: int
    dim: int
    stride: int = 1

    def __str__(self) -> str:
        return f"{self.size}*" if self.dim == COPY else f"{self.size}@{self.dim}:{self.stride}"


@dataclass(frozen=True)
class Layout:
    """A tile of `shape` over threads. `registers` and `threads` are modes, least significant first."""

    shape: tuple[int, ...]
    registers: tuple[Mode, ...]
    threads: tuple[Mode, ...]

    def __post_init__(self) -> None:
        """Normalise the modes, so that equal maps compare equal: modes of size 1 are dropped, and a mode that continues
        another is merged with it."""
        object.__setattr__(self, "registers", _merged(self.registers))
        object.__setattr__(self, "threads", _merged(self.threads))

    def __str__(self) -> str:
        parts = (" ".join(map(str, modes)) or "1" for modes in (self.registers, self.threads))
        return f"{list(self.shape)} registers {next(parts)} threads {next(parts)}"

    @cached_property
    def register_count(self) -> int:
        """The number of elements that each thread holds, padding included."""
        return prod(m.size for m in self.registers)

    @cached_property
    def thread_count(self) -> int:
        """The number of threads over which the tile is distributed."""
        return prod(m.size for m in self.threads)

    @cached_property
    def vector(self) -> int:
        """The number of consecutive registers that hold adjacent elements along the last dimension."""
        first = self.registers[0] if self.registers else None
        last = len(self.shape) - 1
        return first.size if first is not None and (first.dim, first.stride) == (last, 1) else 1

    def register_offsets(self, register: int) -> tuple[int, ...]:
        """The offsets of a register's coordinates from the coordinates of its thread's register 0."""
        return self._offsets[register]

    @cached_property
    def _offsets(self) -> list[tuple[int, ...]]:
        """The offsets of all registers. Code generation asks for each of them many times."""
        rank, modes = len(self.shape), self.registers
        return [_coordinates(rank, modes, register) for register in range(self.register_count)]

    def thread_offsets(self, thread: int) -> tuple[int, ...]:
        """The coordinates of a thread's register 0."""
        return _coordinates(len(self.shape), self.threads, thread)

    def coordinates(self, thread: int, register: int) -> tuple[int, ...]:
        """The coordinates of the element in a register of a thread; outside the shape for padding."""
        pairs = zip(self.thread_offsets(thread), self.register_offsets(register), strict=True)
        return tuple(a + b for a, b in pairs)

    def extent(self, dim: int) -> int:
        """The largest coordinate along a dimension plus 1, padding included."""
        return 1 + sum((m.size - 1) * m.stride for m in (*self.registers, *self.threads) if m.dim == dim)

    def padded(self, dim: int) -> bool:
        """Whether some coordinates along a dimension lie outside the tile."""
        return self.extent(dim) > self.shape[dim]

    def owners(self) -> dict[tuple[int, ...], list[tuple[int, int]]]:
        """The (thread, register) pairs that hold each element."""
        owners: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for thread in range(self.thread_count):
            for register in range(self.register_count):
                coordinates = self.coordinates(thread, register)
                if all(i < n for i, n in zip(coordinates, self.shape, strict=True)):
                    owners.setdefault(coordinates, []).append((thread, register))
        return owners

    @cached_property
    def owns_once(self) -> bool:
        """Whether no thread mode holds copies."""
        return all(m.dim != COPY for m in self.threads)

    @cached_property
    def warp_modes(self) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
        """The thread modes within a warp of 32, and the modes across warps; a mode that spans both is split."""
        lanes: list[Mode] = []
        warps: list[Mode] = []
        lanes_left = 32
        for m in self.threads:
            lane_size = gcd(m.size, lanes_left)
            if lane_size > 1:
                lanes.append(Mode(lane_size, m.dim, m.stride))
            if m.size > lane_size:
                assert lane_size == lanes_left, f"{self} has a mode that does not end with a warp"
                warps.append(Mode(m.size // lane_size, m.dim, m.stride * lane_size))
            lanes_left //= lane_size
        return tuple(lanes), tuple(warps)

    def split_by(self, threads: int) -> set[int]:
        """The dimensions along which different groups of `threads` consecutive threads hold different elements."""
        split: set[int] = set()
        period = 1
        for m in self.threads:
            period *= m.size
            if period > threads and m.dim != COPY:
                split.add(m.dim)
        return split

    def without(self, dims: Iterable[int], keepdims: bool = False) -> Layout:
        """The layout of the tile reduced along `dims`: all threads that held elements of a reduced row hold copies of
        its result. If no dimension is left, the shape is (1,)."""
        reduced = set(dims)
        kept_dimensions = [d for d in range(len(self.shape)) if keepdims or d not in reduced]
        shape = tuple(1 if d in reduced else self.shape[d] for d in kept_dimensions) or (1,)
        new_dim = {d: k for k, d in enumerate(kept_dimensions) if d not in reduced}
        registers = tuple(Mode(m.size, new_dim[m.dim], m.stride) for m in self.registers if m.dim in new_dim)
        threads = tuple(
            Mode(m.size, new_dim[m.dim], m.stride) if m.dim in new_dim else Mode(m.size, COPY)
            for m in self.threads
        )
        return Layout(shape, registers, threads)

    def restricted(self, shape: Sequence[int]) -> Layout:
        """The layout of a tile of `shape` from which each thread can broadcast to this layout in its own registers."""
        leading = len(self.shape) - len(shape)
        broadcast_dims = {
            d for d, n in enumerate(self.shape) if d >= leading and shape[d - leading] == 1 and n != 1
        }
        reduced_layout = self.without([*range(leading), *broadcast_dims], keepdims=True)
        new_dim = {d: d - leading for d in range(leading, len(self.shape))}
        registers = tuple(Mode(m.size, new_dim[m.dim], m.stride) for m in reduced_layout.registers)
        threads = tuple(
            m if m.dim == COPY else Mode(m.size, new_dim[m.dim], m.stride) for m in reduced_layout.threads
        )
        return Layout(tuple(shape), registers, threads)

    def permuted(self, perm: Sequence[int]) -> Layout:
        """The layout with the same registers of the tile whose dimension k is dimension `perm[k]` of this one."""
        new_dim = {d: k for k, d in enumerate(perm)} | {COPY: COPY}
        registers, threads = (
            tuple(Mode(m.size, new_dim[m.dim], m.stride) for m in modes)
            for modes in (self.registers, self.threads)
        )
        return Layout(tuple(self.shape[d] for d in perm), registers, threads)

    def reshaped(self, shape: Sequence[int]) -> Layout | None:
        """The layout with the same registers of the tile reshaped to `shape`, in row-major order; None if the
        distribution cannot be expressed by modes."""
        shape = tuple(shape)
        if self._wraps():
            return None
        weights, modes_of_layout = _weights(self.shape), list[tuple[Mode, ...]]()
        for modes in (self.registers, self.threads):
            split_modes: list[Mode] = []
            for m in modes:
                pieces = [m] if m.dim == COPY else _modes_of_steps(m.size, m.stride * weights[m.dim], shape)
                if pieces is None:
                    return None
                split_modes += pieces
            modes_of_layout.append(tuple(split_modes))
        layout = Layout(shape, *modes_of_layout)
        return None if layout._wraps() else layout

    def _wraps(self) -> bool:
        """Whether a dimension after the first dimension of several elements is padded, so that indices beyond the
        dimension would be those of other elements in row-major order."""
        return any(self.padded(d) for d in range(1, len(self.shape)) if prod(self.shape[:d]) > 1)

    def parts(self, axis: int | None) -> tuple[Layout, Layout, list[tuple[int, ...]]]:
        """For a reduction along `axis` (None: all dimensions) within warps: the layout of the partial results, in which
        the axis (the first dimension if all are reduced) runs over the parts; the layout in which each thread holds all
        parts; and for each part the coordinates of its first element."""
        dims = set(range(len(self.shape)) if axis is None else (axis,))
        part_dim = axis or 0
        lanes, warps = self.warp_modes
        part_count, part_threads, gathered_threads, bases = 1, [], [], [(0,) * len(self.shape)]
        for m in warps:
            if m.dim not in dims:
                part_threads.append(m)
                gathered_threads.append(m)
                continue
            part_threads.append(Mode(m.size, part_dim, part_count))
            gathered_threads.append(Mode(m.size, COPY))
            bases = [_shifted(base, m.dim, k * m.stride) for k in range(m.size) for base in bases]
            part_count *= m.size
        shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
        shape[part_dim] = part_count
        kept_modes = [m for m in self.registers if m.dim not in dims]
        lane_modes = [Mode(m.size, COPY) if m.dim in dims else m for m in lanes]
        part_layout = Layout(tuple(shape), tuple(kept_modes), (*lane_modes, *part_threads))
        gathered_layout = Layout(
            tuple(shape), (*kept_modes, Mode(part_count, part_dim)), (*lane_modes, *gathered_threads)
        )
        return part_layout, gathered_layout, bases


def _shifted(coordinates: tuple[int, ...], dim: int, distance: int) -> tuple[int, ...]:
    return tuple(i + distance if d == dim else i for d, i in enumerate(coordinates))


def _weights(shape: Sequence[int]) -> list[int]:
    """The row-major stride of each dimension."""
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


def _modes_of_steps(size: int, distance: int, shape: Sequence[int]) -> list[Mode] | None:
    """The modes of a tile of `shape` for `size` steps of `distance` elements in row-major order; None if a step runs
    along two dimensions. Steps beyond the tile continue along the first dimension of several elements."""
    modes, first = list[Mode](), next((d for d, n in enumerate(shape) if n > 1), 0)
    for d, weight in reversed([*enumerate(_weights(shape))]):
        stride, rest = divmod(distance, weight)
        if d and stride >= shape[d]:
            continue
        count = size if d in (0, first) else min(size, shape[d] // max(stride, 1))
        if rest or size % count or (count < size and count * stride != shape[d]):
            return None
        modes.append(Mode(count, d, stride))
        size, distance = size // count, distance * count
        if size == 1:
            break
    return modes


def _coordinates(rank: int, modes: Sequence[Mode], number: int) -> tuple[int, ...]:
    coordinates = [0] * rank
    for mode in modes:
        number, digit = divmod(number, mode.size)
        if mode.dim != COPY:
            coordinates[mode.dim] += digit * mode.stride
    return tuple(coordinates)


def blocked(shape: Sequence[int], threads: int, vector: int) -> Layout:
    """The blocked layout: adjacent elements along the last dimension are in `vector` consecutive registers, then in
    adjacent threads. Threads that a dimension does not need are assigned to the previous dimension; each thread holds
    the elements beyond one pass of the threads in more registers."""
    shape, last = tuple(shape), len(shape) - 1
    vector = _vector(prod(shape), shape[last], threads, vector)
    repeats: list[Mode] = []
    lanes: list[Mode] = []
    warps: list[Mode] = []
    lanes_left, warps_left = _warp(threads), threads // _warp(threads)
    for dim in reversed(range(len(shape))):
        unit = vector if dim == last else 1
        blocks = -(-shape[dim] // unit)
        lane_count = _covering(lanes_left, blocks)
        warp_count = _covering(warps_left, -(-blocks // lane_count)) if lane_count == lanes_left else 1
        lanes.append(Mode(lane_count, dim, unit))
        warps.append(Mode(warp_count, dim, unit * lane_count))
        repeats.append(Mode(-(-blocks // (lane_count * warp_count)), dim, unit * lane_count * warp_count))
        lanes_left //= lane_count
        warps_left //= warp_count
    thread_modes = (*lanes, Mode(lanes_left, COPY), *warps, Mode(warps_left, COPY))
    return Layout(shape, (Mode(vector, last), *repeats), thread_modes)


def over_some_lanes(shape: Sequence[int], threads: int, lanes: int, vector: int) -> Layout:
    """The blocked layout over the first `lanes` lanes of a warp; the other lanes hold copies. `lanes`: at least 32 for
    all threads."""
    if lanes >= _warp(threads):
        return blocked(shape, threads, vector)
    part = blocked(shape, lanes, vector)
    return Layout(part.shape, part.registers, (*part.threads, Mode(threads // lanes, COPY)))


def _vector(size: int, row: int, threads: int, limit: int) -> int:
    """The largest vector up to `limit` for which all threads have work and that divides a row."""
    vector = 1
    while vector * 2 <= limit and row % (vector * 2) == 0 and vector * 2 * threads <= size:
        vector *= 2
    return vector


def _covering(threads: int, limit: int) -> int:
    """The least divisor of `threads` that is at least `limit`, or `threads`."""
    return next((n for n in _divisors(threads) if n >= limit), threads)


def _warp(threads: int) -> int:
    """The number of threads that exchange registers by shuffles: a warp, or all threads if their number is not a
    multiple of 32."""
    return 32 if threads % 32 == 0 else threads


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def over_lanes(shape: Sequence[int], threads: int) -> Layout:
    """The layout of `tile` and `untile`: a thread for each element of the last dimension, with the other dimensions in
    its registers. There may be more threads than elements."""
    shape = tuple(shape)
    last = len(shape) - 1
    registers = tuple(Mode(n, d) for d, n in reversed(list(enumerate(shape[:-1]))) if n > 1)
    return Layout(shape, registers, (Mode(threads, last),))


def over_grid(shape: Sequence[int], grid: Sequence[int], threads: int) -> Layout:
    """The layout in which thread (i, j, ..) of a grid has the elements [i::grid[0], j::grid[1], ..]. Threads beyond the
    grid have no elements. If the grid covers the first dimension of the tile, the number of threads is arbitrary, else
    a multiple of the size of the grid."""
    shape = tuple(shape)
    dims = list(reversed(range(len(shape))))
    registers_per_dim = [-(-n // g) for n, g in zip(shape, grid, strict=True)]
    if registers_per_dim[0] == 1:
        grid = (threads // prod(grid[1:]), *grid[1:])
    thread_modes = [Mode(grid[d], d) for d in dims]
    return Layout(
        shape,
        tuple(Mode(registers_per_dim[d], d, grid[d]) for d in dims),
        (*thread_modes, Mode(threads // prod(grid), 0, registers_per_dim[0] * grid[0])),
    )


def replicated(shape: Sequence[int], threads: int) -> Layout:
    """The replicated layout: every thread holds all elements."""
    shape = tuple(shape)
    registers = tuple(Mode(n, d) for d, n in reversed(list(enumerate(shape))) if n > 1)
    return Layout(shape, registers, (Mode(threads, COPY),))


def mma_grid(rows: int, columns: int, warps: int, unit: tuple[int, int]) -> tuple[int, int]:
    """The grid of warps, (along rows, along columns), for a matmul of `rows` x `columns` in blocks of `unit`: with the
    least padding, then with the squarest part for each warp."""
    best: tuple[tuple[int, float], tuple[int, int]] | None = None
    for grid_rows in _divisors(warps):
        grid_columns = warps // grid_rows
        rows_per_warp, columns_per_warp = (
            -(-rows // (grid_rows * unit[0])) * unit[0],
            -(-columns // (grid_columns * unit[1])) * unit[1],
        )
        cost = (
            rows_per_warp * grid_rows * columns_per_warp * grid_columns,
            abs(rows_per_warp - columns_per_warp),
        )
        if best is None or cost < best[0]:
            best = (cost, (grid_rows, grid_columns))
    assert best is not None
    return best[1]


@dataclass(frozen=True, slots=True)
class MmaWarpTile:
    """The part of a matmul that each warp computes: `mmas_m` x `mmas_n` MMAs of 16 x 8. `warps_m`, `warps_n`: the grid
    of warps."""

    warps_m: int
    warps_n: int
    mmas_m: int
    mmas_n: int


def mma_warp_tile(shape: tuple[int, int], warps: int) -> MmaWarpTile:
    """The part of a matmul of `shape` that each warp computes."""
    warps_m, warps_n = mma_grid(*shape, warps, (16, 8))
    return MmaWarpTile(warps_m, warps_n, -(-shape[0] // (16 * warps_m)), -(-shape[1] // (8 * warps_n)))


def mma_result(shape: tuple[int, int], warps: int) -> Layout:
    """The layout of the result of 16 x 8 MMAs: in each warp thread t holds columns 2 (t mod 4) and 2 (t mod 4) + 1 of
    rows t / 4 and t / 4 + 8, in four registers per MMA."""
    warp_tile = mma_warp_tile(shape, warps)
    registers = (Mode(2, 1), Mode(2, 0, 8), Mode(warp_tile.mmas_n, 1, 8), Mode(warp_tile.mmas_m, 0, 16))
    threads = (
        Mode(4, 1, 2),
        Mode(8, 0),
        Mode(warp_tile.warps_n, 1, 8 * warp_tile.mmas_n),
        Mode(warp_tile.warps_m, 0, 16 * warp_tile.mmas_m),
    )
    return Layout(shape, registers, threads)


def wgmma_group_tile(shape: tuple[int, int], groups: int) -> tuple[int, int, int, int]:
    """The grid of warp groups for a matmul in blocks of 64 x 8, with the least padding, along rows first: (along rows,
    along columns, blocks of each group along rows, along columns)."""
    rows, columns = shape

    def per_group(grid_rows: int) -> tuple[int, int]:
        return -(-rows // (64 * grid_rows)), -(-columns // (8 * (groups // grid_rows)))

    def cost(grid_rows: int) -> tuple[int, int]:
        blocks_m, blocks_n = per_group(grid_rows)
        return 64 * blocks_m * grid_rows * 8 * blocks_n * (groups // grid_rows), -grid_rows

    grid_rows = min(_divisors(groups), key=cost)
    return (grid_rows, groups // grid_rows, *per_group(grid_rows))


def wgmma_result(shape: tuple[int, int], groups: int) -> Layout:
    """The layout of the result of wgmma, 64 rows for a warp group and 16 for each of its warps: thread t of a warp
    holds columns 2 (t mod 4) and 2 (t mod 4) + 1 of rows t / 4 and t / 4 + 8, every 8 columns."""
    groups_m, groups_n, blocks_m, blocks_n = wgmma_group_tile(shape, groups)
    registers = (Mode(2, 1), Mode(2, 0, 8), Mode(blocks_n, 1, 8), Mode(blocks_m, 0, 64))
    warps = (Mode(4, 0, 16), Mode(groups_n, 1, 8 * blocks_n), Mode(groups_m, 0, 64 * blocks_m))
    return Layout(shape, registers, (Mode(4, 1, 2), Mode(8, 0), *warps))


def wgmma_transposed(shape: tuple[int, int], groups: int) -> Layout:
    """The layout of the result of a transposed wgmma: the 64 rows of an instruction are columns of the tile. Thread t
    of a warp holds columns 2 (t / 4) and 2 (t / 4) + 1 of rows 2 (t mod 4) and 2 (t mod 4) + 1, every 8 rows. The
    columns are adjacent because 8-bit operands are read in pairs."""
    groups_m, groups_n, blocks_m, blocks_n = wgmma_group_tile((shape[1], shape[0]), groups)
    registers = (Mode(2, 0), Mode(2, 1), Mode(blocks_n, 0, 8), Mode(blocks_m, 1, 64))
    warps = (Mode(4, 1, 16), Mode(groups_n, 0, 8 * blocks_n), Mode(groups_m, 1, 64 * blocks_m))
    return Layout(shape, registers, (Mode(4, 0, 2), Mode(8, 1, 2), *warps))


def fma_result(shape: tuple[int, int], threads: int, vector: int) -> Layout:
    """The layout of the result of a matmul without tensor cores: each thread holds `vector` consecutive columns at a
    time, with rows and columns spaced so that the threads of a warp read adjacent columns."""
    rows, columns = shape
    vector = _vector(rows * columns, columns, threads, vector)
    grid_rows, grid_columns = _thread_grid(rows, columns, threads, vector)
    column_blocks, row_blocks = -(-columns // (grid_columns * vector)), -(-rows // grid_rows)
    registers = [
        Mode(vector, 1),
        Mode(column_blocks, 1, grid_columns * vector),
        Mode(row_blocks, 0, grid_rows),
    ]
    grid = [
        Mode(grid_columns, 1, vector),
        Mode(grid_rows, 0),
        Mode(threads // (grid_columns * grid_rows), COPY),
    ]
    return Layout(shape, tuple(registers), tuple(grid))


def _thread_grid(rows: int, columns: int, threads: int, vector: int) -> tuple[int, int]:
    """The grid of threads, (along rows, along columns), powers of two, with the least work per thread, then the fewest
    operands."""
    best: tuple[tuple[int, int], tuple[int, int]] | None = None
    powers = [n for n in _divisors(threads) if n & (n - 1) == 0]
    for grid_columns in powers:
        for grid_rows in [n for n in powers if threads % (n * grid_columns) == 0]:
            rows_per_thread, columns_per_thread = (
                -(-rows // grid_rows),
                -(-columns // (grid_columns * vector)) * vector,
            )
            cost = (rows_per_thread * columns_per_thread, rows_per_thread + columns_per_thread)
            if best is None or cost < best[0]:
                best = (cost, (grid_rows, grid_columns))
    assert best is not None
    return best[1]


def _merged(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    joined: list[Mode] = []
    for mode in modes:
        previous = joined[-1] if joined else None
        if mode.size == 1:
            continue
        if mode.dim == COPY:
            mode = Mode(mode.size, COPY)
        if previous is not None and previous.dim == mode.dim and mode.stride == _continuing_stride(previous):
            joined[-1] = Mode(previous.size * mode.size, previous.dim, previous.stride)
        else:
            joined.append(mode)
    return tuple(joined)


def _continuing_stride(mode: Mode) -> int:
    """The stride of a mode that continues this mode."""
    return 1 if mode.dim == COPY else mode.stride * mode.size


def bank_conflicts(layout: Layout, strides: Sequence[int], element_bytes: int, vector: int) -> int:
    """The factor by which bank conflicts slow down a warp's access to a tile in shared memory; 1 without conflicts.
    `strides`: the strides of the tile, in elements; `vector`: the number of elements per access of a thread. Threads
    that read one word do not conflict."""
    access_bytes = vector * element_bytes
    phases = max(1, access_bytes * 32 // 128)
    threads_per_phase = 32 // phases
    worst = 1
    for first in range(0, min(32, layout.thread_count), threads_per_phase):
        banks: dict[int, set[int]] = {}
        for thread in range(first, min(first + threads_per_phase, layout.thread_count)):
            coordinates = layout.coordinates(thread, 0)
            start = sum(i * k for i, k in zip(coordinates, strides, strict=True)) * element_bytes
            for word in range(start // 4, -(-(start + access_bytes) // 4)):
                banks.setdefault(word % 32, set()).add(word)
        worst = max(worst, max(len(words) for words in banks.values()))
    return worst


PADDING = -2
"""The dimension of thread modes whose elements are held only by threads with digit 0."""


def canonical_distribution(layout: Layout, owners: bool) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
    """A canonical form of the distribution of elements, without the order of registers: in layouts with equal forms
    each thread holds (with `owners`: owns) the same elements."""
    threads: list[Mode] = []
    for mode in layout.threads:
        if mode.dim == COPY:
            threads.append(Mode(mode.size, PADDING) if owners else mode)
            continue
        digits_inside = -(-layout.shape[mode.dim] // mode.stride)
        if digits_inside < mode.size and mode.size % digits_inside == 0:
            threads += [Mode(digits_inside, mode.dim, mode.stride), Mode(mode.size // digits_inside, PADDING)]
        else:
            threads.append(mode)
    merged: list[Mode] = []
    for mode in threads:
        if mode.size > 1 and mode.dim == PADDING and merged and merged[-1].dim == PADDING:
            merged[-1] = Mode(merged[-1].size * mode.size, PADDING)
        elif mode.size > 1:
            merged.append(mode)
    registers = sorted(layout.registers, key=lambda m: (m.dim, m.stride))
    return tuple(merged), tuple(registers)
