"""Running sums, minima and maxima of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan, prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Dtypes, Extent, Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import DTYPES, DType, MatType, bool_, components, float32, int32, scalar_of, uint32

N, S = Extent("N"), Extents("S")
ROWS, LENGTH, NUMBER = Extent("rows"), Extent("length"), Extent("n")
Number = Dtypes(
    "Number",
    *(t for t in DTYPES.values() if t is not bool_),
    computed={
        t: float32 if t.is_float else int32 if t.is_signed else uint32 for t in DTYPES.values() if t.bits < 32
    },
    compound=True,
)
Kind = constexpr["sum", "min", "max", "segment"]
REGISTERS = 64
"""Of 32 bits, for the elements of a thread."""


def chunk(n: int, threads: int) -> int:
    """How many elements in a row each thread has: a divisor of their number, unless that is much more than needed."""
    least = -(-n // threads)
    return next((c for c in range(least, 4 * least + 1) if n % c == 0), least)


def fits(n: int, t: DType, threads: int) -> bool:
    """Whether each thread can hold its elements in registers."""
    return chunk(n, threads) * t.bits <= REGISTERS * 32


@cooperative
def tile_scan_inclusive(a: Tile[Number, *S]) -> Tile[Number, *S]:
    """The sums of the elements up to each one, that one included, in row-major order.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        the sum of the adjoint over this element and those after it.
    """
    return tg._tile_running_sum(a, False)


@cooperative
def tile_scan_exclusive(a: Tile[Number, *S]) -> Tile[Number, *S]:
    """The sums of the elements in front of each one, 0 for the first, in row-major order.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        the sum of the adjoint over the elements after this one.
    """
    return tg._tile_running_sum(a, True)


@cooperative
def tile_scan_max_inclusive(a: Tile[Number, *S]) -> Tile[Number, *S]:
    """The largest of the elements up to each one, that one included, in row-major order.

    A NaN loses to any number: results are NaN until the first number. -0.0 is below 0.0. Elements of absent threads
    are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        goes to the element that set the extreme.
    """
    return tg._tile_running_extreme(a, "max")


@cooperative
def tile_scan_min_inclusive(a: Tile[Number, *S]) -> Tile[Number, *S]:
    """The smallest of the elements up to each one, that one included, in row-major order.

    A NaN loses to any number: results are NaN until the first number. -0.0 is below 0.0. Elements of absent threads
    are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        goes to the element that set the extreme.
    """
    return tg._tile_running_extreme(a, "min")


# With a derivative ---------------------------------------------------------------------------------------------------


@cooperative
def _tile_running_sum(t: Tile[Number, *S], exclusive: constexpr[bool]) -> Tile[Number, *S]:
    """Running sums, whose adjoint is the same from the other side."""
    return tg._tile_running(t, "sum", exclusive)


@_tile_running_sum.vjp
def of_sums(grad, exclusive):
    return tg._tile_reversed(tg._tile_running_sum(tg._tile_reversed(grad), exclusive))


@cooperative
def _tile_running_extreme(t: Tile[Number, *S], kind: Kind) -> Tile[Number, *S]:
    """Running extremes. An element that sets one gets the adjoints from there up to the next that does."""
    return tg._tile_running(t, kind, False)


@_tile_running_extreme.vjp(keep="t")
def of_extremes(t, grad, kind):
    shape = t.shape
    n = tg.static(prod(shape))
    flat, there = tg.tile_reshape(t, (n,)), tg.tile_reshape(tg.tile_map(tg._tile_there, t), (n,))
    along = tg.tile_reshape(grad, (n,))
    none = type(flat[0])(nan)
    numbers = tg.where(there, flat, none)
    return tg.tile_reshape(tg._tile_to_extremes(numbers, along, kind), shape)


@cooperative
def _tile_to_extremes(t: Tile[Number, N], grad: Tile[Number, N], kind: Kind) -> Tile[Number, N]:
    """For each element that sets a running extreme the sum of the adjoints from there up to the next that does."""
    n = t.shape[0]
    extremes = tg._tile_running(t, kind, False)
    earlier = tg.tile_pad(extremes, ((1, 0),), type(t[0])(nan))[:n]
    sets = tg.where((extremes == earlier) | tg.isnan(extremes), type(t[0])(0.0), type(t[0])(1.0))
    ends = tg.tile_pad(sets, ((0, 1),), 1.0)[1:]
    sums = tg._tile_segment_sums(grad[::-1], ends[::-1])
    return tg.where(sets > type(t[0])(0.0), sums[::-1], type(t[0])(0.0))


@_tile_to_extremes.program(when=lambda Number: not isinstance(Number, DType))
def by_components(t, grad, kind):
    """Of vectors and matrices."""
    made, vector = grad, type(t[0])
    for k in tg.static(range(components(vector))):
        x, g = tg.tile_map(tg._tile_component, t, k), tg.tile_map(tg._tile_component, grad, k)
        made = tg.tile_map(tg._tile_with_component, made, k, tg._tile_to_extremes(x, g, kind))
    return made


@part
def _tile_there(x):
    return True


@part
def _tile_second(x, y):
    return y


@part
def _tile_component(x, k):
    """A component by its row-major number."""
    t = type(x)
    if tg.static(isinstance(t, MatType)):
        columns = tg.static(t.cols)
        return x[k // columns, k % columns]
    else:
        return x[k]


@part
def _tile_with_component(x, k, y):
    t = type(x)
    if tg.static(isinstance(t, MatType)):
        columns = tg.static(t.cols)
        x[k // columns, k % columns] = y
    else:
        x[k] = y
    return x


@cooperative
def _tile_reversed(t: Tile[Number, *S]) -> Tile[Number, *S]:
    """The elements in the opposite order."""
    shape = t.shape
    return tg.tile_reshape(tg.tile_reshape(t, (-1,))[::-1], shape)


# Combining -----------------------------------------------------------------------------------------------------------


@cooperative
def _tile_running(t: Tile[Number, *S], kind: Kind, exclusive: constexpr[bool]) -> Tile[Number, *S]:
    """The elements up to each one combined, or those in front of it, `exclusive`, 0 for the first."""
    if tg.group_present() == tg.group_size():
        made = tg._tile_in_chunks(t, kind, exclusive)
    else:
        made = tg._tile_one_by_one(t, kind, exclusive)
    return tg.tile_map(tg._tile_second, t, made)


@cooperative
def _tile_in_chunks(t: Tile[Number, *S], kind: Kind, exclusive: constexpr[bool]) -> Tile[Number, *S]:
    """Each thread combines its elements in a row; then it gets what all threads in front have together."""


@_tile_in_chunks.program(
    when=lambda S, Number, group: isinstance(Number, DType) and fits(prod(S), Number, group)
)
def in_registers(t, kind, exclusive):
    shape, threads = t.shape, tg.group_size()
    n = tg.static(prod(shape))
    c = tg.static(chunk(n, threads))
    rows = tg.static(-(-n // c))
    own = tg.tile_local(tg._tile_in_rows(t, rows, c), (threads, 1))
    for k in tg.unrolled(1, c):
        own[0, k] = tg._tile_combined(kind, own[0, k - 1], own[0, k])
    front = tg._tile_in_front(kind, rows, own[0, 0], own[0, c - 1])
    if tg.static(exclusive):
        for k in tg.unrolled(c - 1):
            own[0, c - 1 - k] = tg._tile_combined(kind, front, own[0, c - 2 - k])
        own[0, 0] = front
    else:
        for k in tg.unrolled(c):
            own[0, k] = tg._tile_combined(kind, front, own[0, k])
    return tg.tile_reshape(tg._tile_of_rows(tg.tile_from_local(own, (threads, 1), (rows, c)), n), shape)


@_tile_in_chunks.program(
    when=lambda S, Number, kind, group: kind != "segment" and fits(prod(S), scalar_of(Number), group)
)
def of_each_component(t, kind, exclusive):
    """Of vectors and matrices."""
    shape = t.shape
    n = tg.static(prod(shape))
    made, vector = t, type(tg.tile_reshape(t, (n,))[0])
    for k in tg.static(range(components(vector))):
        part = tg._tile_in_chunks(tg.tile_map(tg._tile_component, t, k), kind, exclusive)
        made = tg.tile_map(tg._tile_with_component, made, k, part)
    return made


@_tile_in_chunks.program
def through_memory(t, kind, exclusive):
    """Of more elements: they are combined twice, the second time from those in front."""
    shape, threads = t.shape, tg.group_size()
    n = tg.static(prod(shape))
    c = tg.static(-(-n // threads))
    rows = tg.static(-(-n // c))
    flat = tg.tile_reshape(t, (n,))
    line = tg.tile_zeros(shape=rows * c, dtype=type(flat[0]), storage="shared")
    tg.tile_assign(line, flat, 0)
    cells, lane = tg.tile_reshape(line, (rows, c)), tg.group_lane()
    first = type(flat[0])()
    whole = first
    if lane < rows:
        first = cells[lane, 0]
        whole = first
        for k in range(1, c):
            whole = tg._tile_combined(kind, whole, cells[lane, k])
    front = tg._tile_in_front(kind, rows, first, whole)
    if lane < rows:
        for k in range(c):
            more = tg._tile_combined(kind, front, cells[lane, k])
            cells[lane, k] = front if tg.static(exclusive) else more
            front = more
    return tg.tile_reshape(line[:n], shape)


@cooperative
def _tile_in_rows(t: Tile[Number, *S], rows: constexpr[int], length: constexpr[int]) -> Tile[Number, ROWS, LENGTH]:
    """A tile as rows, the last one filled up."""


@_tile_in_rows.program(when=lambda S, rows, length: prod(S) == rows * length)
def of_whole_rows(t, rows, length):
    return tg.tile_reshape(t, (rows, length))


@_tile_in_rows.program
def with_more(t, rows, length):
    shape = t.shape
    n = tg.static(prod(shape))
    flat = tg.tile_reshape(t, (n,))
    line = tg.tile_empty(shape=rows * length, dtype=type(flat[0]), storage="shared")
    tg.tile_assign(line, flat, 0)
    tg.tile_assign(line, tg.tile_zeros(shape=rows * length - n, dtype=type(flat[0])), n)
    return tg.tile_reshape(line, (rows, length))


@cooperative
def _tile_of_rows(t: Tile[Number, ROWS, LENGTH], n: constexpr[int]) -> Tile[Number, NUMBER]:
    """The first n elements of rows."""


@_tile_of_rows.program(when=lambda rows, length, n: n == rows * length)
def of_all(t, n):
    return tg.tile_reshape(t, (n,))


@_tile_of_rows.program
def of_some(t, n):
    rows, length = t.shape
    line = tg.tile_empty(shape=rows * length, dtype=type(t[0, 0]), storage="shared")
    tg.tile_assign(line, tg.tile_reshape(t, (rows * length,)), 0)
    return line[:n]


@part
def _tile_combined(kind, a, b):
    """Of segments: sums and whether one begins."""
    if tg.static(kind == "sum"):
        return a + b
    elif tg.static(kind == "min"):
        return tg.min(a, b)
    elif tg.static(kind == "max"):
        return tg.max(a, b)
    else:
        return tg.vector(tg.where(b[1] > type(b[1])(0.0), b[0], a[0] + b[0]), tg.max(a[1], b[1]))


@part
def _tile_in_front(kind, count, first, whole):
    """What all threads in front have together, of `count` threads; what changes nothing where there are none: 0, or
    the first element of the thread's own."""
    lane, warp = tg.group_lane() % 32, tg.group_lane() // 32
    warps = tg.static((count + 31) // 32)
    none = type(first)() if tg.static(kind in ("sum", "segment")) else first
    front = none
    for k in tg.unrolled(tg.static(min(count - 1, 31).bit_length())):
        other, later = tg.lane_xor(whole, 1 << k), (lane & (1 << k)) != 0
        front = tg.where(later, tg._tile_combined(kind, other, front) if k > 0 else other, front)
        if tg.static(kind == "segment"):
            whole = tg.where(later, tg._tile_combined(kind, other, whole), tg._tile_combined(kind, whole, other))
        else:
            whole = tg._tile_combined(kind, whole, other)
    if tg.static(warps > 1):
        wholes = tg.tile_empty(shape=warps, dtype=type(first), storage="shared")
        if lane == 31:
            wholes[warp] = whole
        before = none
        for w in tg.unrolled(warps - 1):
            more = tg._tile_combined(kind, before, wholes[w]) if w > 0 else wholes[w]
            before = tg.where(w < warp, more, before)
        front = tg._tile_combined(kind, before, front)
    return front


@cooperative
def _tile_segment_sums(t: Tile[Number, N], begins: Tile[Number, N]) -> Tile[Number, N]:
    """Running sums that begin anew where `begins` is 1."""
    pairs = tg.tile_map(tg.vector, t, begins)
    return tg.tile_map(tg._tile_component, tg._tile_running(pairs, "segment", False), 0)


@_tile_segment_sums.program(when=lambda N, Number, group: fits(2 * N, Number, group))
def of_both_in_registers(t, begins):
    n, threads = t.shape[0], tg.group_size()
    if tg.group_present() == threads:
        c = tg.static(chunk(n, threads))
        rows = tg.static(-(-n // c))
        own = tg.tile_local(tg._tile_in_rows(t, rows, c), (threads, 1))
        new = tg.tile_local(tg._tile_in_rows(begins, rows, c), (threads, 1))
        both = tg.vector(own[0, 0], new[0, 0])
        first = both
        for k in tg.unrolled(1, c):
            both = tg._tile_combined("segment", both, tg.vector(own[0, k], new[0, k]))
            own[0, k], new[0, k] = both[0], both[1]
        front = tg._tile_in_front("segment", rows, first, both)
        for k in tg.unrolled(c):
            own[0, k] = tg._tile_combined("segment", front, tg.vector(own[0, k], new[0, k]))[0]
        made = tg._tile_of_rows(tg.tile_from_local(own, (threads, 1), (rows, c)), n)
    else:
        pairs = tg.tile_map(tg.vector, t, begins)
        made = tg.tile_map(tg._tile_component, tg._tile_one_by_one(pairs, "segment", False), 0)
    return made


@cooperative
def _tile_one_by_one(t: Tile[Number, *S], kind: Kind, exclusive: constexpr[bool]) -> Tile[Number, *S]:
    """The same by the first thread, the only one that is there in any block."""
    shape = t.shape
    n = tg.static(prod(shape))
    line = tg.tile_zeros(shape=n, dtype=type(tg.tile_reshape(t, (n,))[0]), storage="shared")
    there = tg.tile_zeros(shape=n, dtype=bool, storage="shared")
    tg.tile_assign(line, tg.tile_reshape(t, (n,)), 0)
    tg.tile_assign(there, tg.tile_reshape(tg.tile_map(tg._tile_there, t), (n,)), 0)
    if tg.group_lane() == 0:
        total = line[0]
        if tg.static(exclusive):
            line[0] = type(total)()
        for k in range(1, n):
            if there[k]:
                more = tg._tile_combined(kind, total, line[k])
                line[k] = total if tg.static(exclusive) else more
                total = more
    return tg.tile_reshape(line, shape)


# Meaning -------------------------------------------------------------------------------------------------------------


@tile_scan_inclusive.reference
def running_sums(a):
    return np.cumsum(a, dtype=a.dtype).reshape(a.shape)


@tile_scan_exclusive.reference
def sums_in_front(a):
    return np.concatenate([np.zeros(1, a.dtype), np.cumsum(a, dtype=a.dtype)[:-1]]).reshape(a.shape)


@tile_scan_max_inclusive.reference
def running_maxima(a):
    return _extremes(a, 1)


@tile_scan_min_inclusive.reference
def running_minima(a):
    return _extremes(a, -1)


def _extremes(a: np.ndarray, sign: int) -> np.ndarray:
    """Running maxima, or minima for the sign -1: numbers before NaN, and zeros in the order of their signs."""
    made = a.ravel().copy()
    for k in range(1, made.size):
        x, best = made[k], made[k - 1]
        above = np.signbit(best) != np.signbit(x) and np.signbit(best) == (sign > 0)
        if not (np.isnan(best) or sign * float(x) > sign * float(best) or (x == best and above)):
            made[k] = best
        elif np.isnan(x):
            made[k] = best
    return made.reshape(a.shape)


def lines(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of all shapes and dtypes."""
    for shape in ((1,), (7,), (33,), (37,), (64,), (6, 5), (2, 3, 4), (1000,)):
        size = int(np.prod(shape))
        yield Sample(rng.standard_normal(shape).astype(np.float32), differentiable=size in (7, 30))
    yield Sample(rng.standard_normal(40))
    yield Sample(rng.integers(-9, 9, 50).astype(np.float16))
    for kind in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        yield Sample(rng.integers(0, 100, 45).astype(kind))
    yield Refused(np.ones(3, np.bool_), code="type-mismatch", says=("'a' must be of", "bool"))
    yield Refused(1.0, code="type-mismatch", says=("'a' must be a tile[Number, *S]",))


def special(rng: np.random.Generator) -> Iterator[Sample]:
    """The same, and numbers that are not in order by their values alone."""
    yield Sample(np.array([nan, 0.0, -0.0, 0.0, nan, -0.0, np.inf, -np.inf], np.float32), tolerance=0)
    yield Sample(np.full((2, 3), nan))
    ends = np.iinfo(np.int64)
    yield Sample(np.array([5, ends.max, ends.min, 7], np.int64))
    yield from lines(rng)


tile_scan_inclusive.samples(lines)
tile_scan_exclusive.samples(lines)
tile_scan_max_inclusive.samples(special)
tile_scan_min_inclusive.samples(special)
