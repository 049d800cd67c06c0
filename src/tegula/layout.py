"""Layouts: the distribution of a tile's elements over the threads of a group and their registers.

A layout is a mixed-radix map. A thread's number and a register's number are each split into digits, least significant
first; a digit moves the element by its mode's stride along its mode's dimension:

    coordinate[d] = sum of digit * stride over the modes of dimension d

A mode without a dimension holds copies: all its digits select the same elements. Coordinates outside the tile are
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
        object.__setattr__(self, "registers", _joined(self.registers))
        object.__setattr__(self, "threads", _joined(self.threads))

    def __str__(self) -> str:
        parts = (" ".join(map(str, modes)) or "1" for modes in (self.registers, self.threads))
        return f"{list(self.shape)} registers {next(parts)} threads {next(parts)}"

    @cached_property
    def register_count(self) -> int:
        """The number of elements that each thread holds, padding included."""
        return prod(m.size for m in self.registers)

    @cached_property
    def thread_count(self) -> int:
        """The number of threads that the layout is for."""
        return prod(m.size for m in self.threads)

    @cached_property
    def vector(self) -> int:
        """The number of consecutive registers that hold adjacent elements along the last dimension."""
        first = self.registers[0] if self.registers else None
        last = len(self.shape) - 1
        return first.size if first is not None and (first.dim, first.stride) == (last, 1) else 1

    def register_offsets(self, register: int) -> tuple[int, ...]:
        """The offsets of a register's coordinates from the coordinates of its thread's register 0."""
        return _coordinates(len(self.shape), self.registers, register)

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
                at = self.coordinates(thread, register)
                if all(i < n for i, n in zip(at, self.shape, strict=True)):
                    owners.setdefault(at, []).append((thread, register))
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
        number = {d: k for k, d in enumerate(kept_dimensions) if d not in reduced}
        registers = tuple(Mode(m.size, number[m.dim], m.stride) for m in self.registers if m.dim in number)
        threads = tuple(
            Mode(m.size, number[m.dim], m.stride) if m.dim in number else Mode(m.size, COPY)
            for m in self.threads
        )
        return Layout(shape, registers, threads)

    def restricted(self, shape: Sequence[int]) -> Layout:
        """The layout of a tile of `shape` from which each thread can broadcast to this layout in its own registers."""
        lead = len(self.shape) - len(shape)
        flat = {d for d, n in enumerate(self.shape) if d >= lead and shape[d - lead] == 1 and n != 1}
        layout_of_dims = self.without([*range(lead), *flat], keepdims=True)
        number = {d: d - lead for d in range(lead, len(self.shape))}
        registers = tuple(Mode(m.size, number[m.dim], m.stride) for m in layout_of_dims.registers)
        threads = tuple(
            m if m.dim == COPY else Mode(m.size, number[m.dim], m.stride) for m in layout_of_dims.threads
        )
        return Layout(tuple(shape), registers, threads)

    def permuted(self, perm: Sequence[int]) -> Layout:
        """The layout with the same registers of the tile whose dimension k is dimension `perm[k]` of this one."""
        number = {d: k for k, d in enumerate(perm)} | {COPY: COPY}
        registers, threads = (
            tuple(Mode(m.size, number[m.dim], m.stride) for m in modes)
            for modes in (self.registers, self.threads)
        )
        return Layout(tuple(self.shape[d] for d in perm), registers, threads)

    def reshaped(self, shape: Sequence[int]) -> Layout | None:
        """The layout with the same registers of the tile reshaped to `shape`, in row-major order; None if the
        distribution cannot be expressed by modes."""
        shape = tuple(shape)
        if self._wraps():
            return None
        weights, split = _weights(self.shape), list[tuple[Mode, ...]]()
        for modes in (self.registers, self.threads):
            cut: list[Mode] = []
            for m in modes:
                pieces = [m] if m.dim == COPY else _modes_of_steps(m.size, m.stride * weights[m.dim], shape)
                if pieces is None:
                    return None
                cut += pieces
            split.append(tuple(cut))
        layout = Layout(shape, *split)
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
        at = axis or 0
        lanes, warps = self.warp_modes
        count, part_threads, gathered_threads, bases = 1, [], [], [(0,) * len(self.shape)]
        for m in warps:
            if m.dim not in dims:
                part_threads.append(m)
                gathered_threads.append(m)
                continue
            part_threads.append(Mode(m.size, at, count))
            gathered_threads.append(Mode(m.size, COPY))
            bases = [_shifted(base, m.dim, k * m.stride) for k in range(m.size) for base in bases]
            count *= m.size
        shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
        shape[at] = count
        kept_modes = [m for m in self.registers if m.dim not in dims]
        lane_modes = [Mode(m.size, COPY) if m.dim in dims else m for m in lanes]
        part_layout = Layout(tuple(shape), tuple(kept_modes), (*lane_modes, *part_threads))
        gathered_layout = Layout(
            tuple(shape), (*kept_modes, Mode(count, at)), (*lane_modes, *gathered_threads)
        )
        return part_layout, gathered_layout, bases


def _shifted(at: tuple[int, ...], dim: int, distance: int) -> tuple[int, ...]:
    return tuple(i + distance if d == dim else i for d, i in enumerate(at))


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
    at = [0] * rank
    for mode in modes:
        number, digit = divmod(number, mode.size)
        if mode.dim != COPY:
            at[mode.dim] += digit * mode.stride
    return tuple(at)


def blocked(shape: Sequence[int], threads: int, vector: int) -> Layout:
    """The blocked layout: adjacent elements along the last dimension are in `vector` consecutive registers, then in
    adjacent threads. Threads that a dimension does not need are assigned to the previous dimension; elements that the
    threads do not cover take more registers."""
    shape, last = tuple(shape), len(shape) - 1
    vector = _vector(prod(shape), shape[last], threads, vector)
    repeats: list[Mode] = []
    lanes: list[Mode] = []
    warps: list[Mode] = []
    lanes_left, warps_left = _warp(threads), threads // _warp(threads)
    for dim in reversed(range(len(shape))):
        unit = vector if dim == last else 1
        blocks = -(-shape[dim] // unit)
        near = _covering(lanes_left, blocks)
        far = _covering(warps_left, -(-blocks // near)) if near == lanes_left else 1
        lanes.append(Mode(near, dim, unit))
        warps.append(Mode(far, dim, unit * near))
        repeats.append(Mode(-(-blocks // (near * far)), dim, unit * near * far))
        lanes_left //= near
        warps_left //= far
    spread = (*lanes, Mode(lanes_left, COPY), *warps, Mode(warps_left, COPY))
    return Layout(shape, (Mode(vector, last), *repeats), spread)


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
    grid have no elements; if the grid is as long as the tile along the first dimension, there may be any number of
    threads, else a multiple of the grid's."""
    shape = tuple(shape)
    dims = list(reversed(range(len(shape))))
    count = [-(-n // g) for n, g in zip(shape, grid, strict=True)]
    if count[0] == 1:
        grid = (threads // prod(grid[1:]), *grid[1:])
    spread = [Mode(grid[d], d) for d in dims]
    return Layout(
        shape,
        tuple(Mode(count[d], d, grid[d]) for d in dims),
        (*spread, Mode(threads // prod(grid), 0, count[0] * grid[0])),
    )


def everywhere(shape: Sequence[int], threads: int) -> Layout:
    """The layout in which every thread holds all elements."""
    shape = tuple(shape)
    registers = tuple(Mode(n, d) for d, n in reversed(list(enumerate(shape))) if n > 1)
    return Layout(shape, registers, (Mode(threads, COPY),))


def mma_grid(rows: int, columns: int, warps: int, unit: tuple[int, int]) -> tuple[int, int]:
    """The grid of warps, (along rows, along columns), for a matmul of `rows` x `columns` in blocks of `unit`: with the
    least padding, then with the squarest part for each warp."""
    best: tuple[tuple[int, float], tuple[int, int]] | None = None
    for down in _divisors(warps):
        across = warps // down
        high, wide = -(-rows // (down * unit[0])) * unit[0], -(-columns // (across * unit[1])) * unit[1]
        cost = (high * down * wide * across, abs(high - wide))
        if best is None or cost < best[0]:
            best = (cost, (down, across))
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
    p = mma_warp_tile(shape, warps)
    registers = (Mode(2, 1), Mode(2, 0, 8), Mode(p.mmas_n, 1, 8), Mode(p.mmas_m, 0, 16))
    threads = (Mode(4, 1, 2), Mode(8, 0), Mode(p.warps_n, 1, 8 * p.mmas_n), Mode(p.warps_m, 0, 16 * p.mmas_m))
    return Layout(shape, registers, threads)


def wgmma_group_tile(shape: tuple[int, int], groups: int) -> tuple[int, int, int, int]:
    """The grid of warp groups for a matmul in blocks of 64 x 8, with the least padding, along rows first: (along rows,
    along columns, blocks of each group along rows, along columns)."""
    rows, columns = shape

    def per_group(down: int) -> tuple[int, int]:
        return -(-rows // (64 * down)), -(-columns // (8 * (groups // down)))

    def cost(down: int) -> tuple[int, int]:
        high, wide = per_group(down)
        return 64 * high * down * 8 * wide * (groups // down), -down

    down = min(_divisors(groups), key=cost)
    return (down, groups // down, *per_group(down))


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
    down, across = _thread_grid(rows, columns, threads, vector)
    wide, high = -(-columns // (across * vector)), -(-rows // down)
    registers = [Mode(vector, 1), Mode(wide, 1, across * vector), Mode(high, 0, down)]
    grid = [Mode(across, 1, vector), Mode(down, 0), Mode(threads // (across * down), COPY)]
    return Layout(shape, tuple(registers), tuple(grid))


def _thread_grid(rows: int, columns: int, threads: int, vector: int) -> tuple[int, int]:
    """The grid of threads (down, across), powers of two, with the least work per thread, then the fewest operands."""
    best: tuple[tuple[int, int], tuple[int, int]] | None = None
    powers = [n for n in _divisors(threads) if n & (n - 1) == 0]
    for across in powers:
        for down in [n for n in powers if threads % (n * across) == 0]:
            high, wide = -(-rows // down), -(-columns // (across * vector)) * vector
            cost = (high * wide, high + wide)
            if best is None or cost < best[0]:
                best = (cost, (down, across))
    assert best is not None
    return best[1]


def _joined(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    joined: list[Mode] = []
    for mode in modes:
        before = joined[-1] if joined else None
        if mode.size == 1:
            continue
        if mode.dim == COPY:
            mode = Mode(mode.size, COPY)
        if before is not None and before.dim == mode.dim and mode.stride == _following(before):
            joined[-1] = Mode(before.size * mode.size, before.dim, before.stride)
        else:
            joined.append(mode)
    return tuple(joined)


def _following(mode: Mode) -> int:
    """The stride of a mode that continues this mode."""
    return 1 if mode.dim == COPY else mode.stride * mode.size


def bank_conflicts(layout: Layout, strides: Sequence[int], element_bytes: int, vector: int) -> int:
    """The factor by which bank conflicts slow down a warp's access to a tile in shared memory; 1 without conflicts.
    `strides`: the strides of the tile, in elements; `vector`: the number of elements per access of a thread. Threads
    that read one word do not conflict."""
    width = vector * element_bytes
    phases = max(1, width * 32 // 128)
    group = 32 // phases
    worst = 1
    for first in range(0, min(32, layout.thread_count), group):
        banks: dict[int, set[int]] = {}
        for thread in range(first, min(first + group, layout.thread_count)):
            at = layout.coordinates(thread, 0)
            start = sum(i * k for i, k in zip(at, strides, strict=True)) * element_bytes
            for word in range(start // 4, -(-(start + width) // 4)):
                banks.setdefault(word % 32, set()).add(word)
        worst = max(worst, max(len(words) for words in banks.values()))
    return worst


PADDING = -2
"""The dimension of thread modes whose elements are held only by threads with digit 0."""


def taking_part(layout: Layout, owners: bool) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
    """A canonical form of the elements that each thread holds (with `owners`: owns), without the order of registers.
    Layouts with equal forms give each thread the same elements."""
    threads: list[Mode] = []
    for mode in layout.threads:
        if mode.dim == COPY:
            threads.append(Mode(mode.size, PADDING) if owners else mode)
            continue
        inside = -(-layout.shape[mode.dim] // mode.stride)
        if inside < mode.size and mode.size % inside == 0:
            threads += [Mode(inside, mode.dim, mode.stride), Mode(mode.size // inside, PADDING)]
        else:
            threads.append(mode)
    joined: list[Mode] = []
    for mode in threads:
        if mode.size > 1 and mode.dim == PADDING and joined and joined[-1].dim == PADDING:
            joined[-1] = Mode(joined[-1].size * mode.size, PADDING)
        elif mode.size > 1:
            joined.append(mode)
    registers = sorted(layout.registers, key=lambda m: (m.dim, m.stride))
    return tuple(joined), tuple(registers)
