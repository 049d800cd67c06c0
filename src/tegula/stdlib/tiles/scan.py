"""Running sums, minima and maxima of a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import nan, prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Dtypes, Extent, Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort import split_at_axis
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
Kind, Flag = constexpr["sum", "min", "max"], constexpr[bool]
REGISTERS = 64
"""The maximum number of 32-bit registers for the elements of a thread."""


def chunk_length(n: int, threads: int) -> int:
    """The number of consecutive elements per thread: the smallest divisor of n from n / threads on, or n / threads
    rounded up if the divisor is more than 4 times as large."""
    min_length = -(-n // threads)
    return next((c for c in range(min_length, 4 * min_length + 1) if n % c == 0), min_length)


def fits_in_registers(n: int, t: DType, threads: int) -> bool:
    """Whether each thread can hold its elements in registers."""
    return chunk_length(n, threads) * t.bits <= REGISTERS * 32


@cooperative
def tile_scan_inclusive(a: Tile[Number, *S], axis: constexpr = None) -> Tile[Number, *S]:
    """The inclusive running sums of the elements, in row-major order or along a dimension.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """
    if tg.static(axis is None):
        return tg._tile_scan_sum(a, False)
    else:
        return tg._tile_scan_axis(a, axis, "sum", False)


@cooperative
def tile_scan_exclusive(a: Tile[Number, *S], axis: constexpr = None) -> Tile[Number, *S]:
    """The exclusive running sums of the elements, 0 for the first, in row-major order or along a dimension.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
    Gradient:
        the exclusive running sum of the adjoint from the last element to the first.
    """
    if tg.static(axis is None):
        return tg._tile_scan_sum(a, True)
    else:
        return tg._tile_scan_axis(a, axis, "sum", True)


@cooperative
def tile_scan_max_inclusive(a: Tile[Number, *S], axis: constexpr = None) -> Tile[Number, *S]:
    """The running maxima of the elements, in row-major order or along a dimension.

    Numbers are preferred to NaNs, so that results are NaN until the first number. -0.0 is below 0.0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """
    if tg.static(axis is None):
        return tg._tile_scan_extreme(a, "max")
    else:
        return tg._tile_scan_axis(a, axis, "max", False)


@cooperative
def tile_scan_min_inclusive(a: Tile[Number, *S], axis: constexpr = None) -> Tile[Number, *S]:
    """The running minima of the elements, in row-major order or along a dimension.

    Numbers are preferred to NaNs, so that results are NaN until the first number. -0.0 is below 0.0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """
    if tg.static(axis is None):
        return tg._tile_scan_extreme(a, "min")
    else:
        return tg._tile_scan_axis(a, axis, "min", False)


@cooperative
def _tile_scan_axis(
    t: Tile[Number, *S], axis: constexpr, kind: Kind, exclusive: constexpr[bool]
) -> Tile[Number, *S]:
    """The scan along an axis, in steps whose strides double. Absent threads are the last threads, so that the elements
    of present threads are complete."""
    shape = t.shape
    before, n, after = tg.static(split_at_axis(shape, axis))
    result = tg.tile_reshape(t, (before, n, after))
    for k in tg.static(range((n - 1).bit_length())):
        stride = 1 << k
        later, earlier = result[:, stride:], result[:, : n - stride]
        if tg.static(kind == "sum"):
            combined = later + earlier
        elif tg.static(kind == "min"):
            combined = tg.min(later, earlier)
        else:
            combined = tg.max(later, earlier)
        result = tg.tile_concat((result[:, :stride], combined), 1)
    if tg.static(exclusive):
        identity = tg.tile_zeros(shape=(before, 1, after), dtype=result.dtype)
        if tg.static(n > 1):
            result = tg.tile_concat((identity, result[:, : n - 1]), 1)
        else:
            result = identity
    return tg.tile_map(tg._tile_select_second, t, tg.tile_reshape(result, shape))


# Scans with an adjoint -----------------------------------------------------------------------------------------------


@cooperative
def _tile_scan_sum(t: Tile[Number, *S], exclusive: constexpr[bool]) -> Tile[Number, *S]:
    """Running sums. The adjoint is the running sum of the result's adjoint from the last element to the first."""
    return tg._tile_scan(t, "sum", exclusive, False)


@_tile_scan_sum.vjp
def scan_sum_vjp(grad, exclusive):
    return tg._tile_scan(grad, "sum", exclusive, True)


@cooperative
def _tile_scan_extreme(t: Tile[Number, *S], kind: Kind) -> Tile[Number, *S]:
    """Running extremes. The adjoint of an element that changes the extreme is the sum of the results' adjoints from
    this element to the next change."""
    return tg._tile_scan(t, kind, False, False)


@_tile_scan_extreme.vjp(keep="t")
def scan_extreme_vjp(t, grad, kind):
    """The adjoint of the elements. Elements of absent threads are read as NaN, which never changes the extreme."""
    shape = t.shape
    n = tg.static(prod(shape))
    flat, present = tg.tile_reshape(t, (n,)), tg.tile_reshape(tg.tile_map(tg._tile_is_present, t), (n,))
    numbers = tg.where(present, flat, type(flat[0])(nan))
    return tg.tile_reshape(tg._tile_gradient_of_extremes(numbers, tg.tile_reshape(grad, (n,)), kind), shape)


# Scans over threads --------------------------------------------------------------------------------------------------


@cooperative
def _tile_scan(t: Tile[Number, *S], kind: Kind, exclusive: Flag, reverse: Flag) -> Tile[Number, *S]:
    """The scan of the elements in row-major order. `exclusive`: whether the scan leaves out the element itself;
    `reverse`: whether the scan starts from the last element."""
    if tg.group_present() == tg.group_size():
        result = tg._tile_scan_chunked(t, kind, exclusive, reverse)
    else:
        result = tg._tile_scan_sequential(t, kind, exclusive, reverse)
    return tg.tile_map(tg._tile_select_second, t, result)


@_tile_scan.program(when=lambda S, group, partial, reverse: partial and S == (group,) and not reverse)
def one_element_per_thread(t, kind, exclusive, reverse):
    """With one element per thread, only absent threads have absent elements, so that no serial path is needed."""
    return tg.tile_map(tg._tile_select_second, t, tg._tile_scan_chunked(t, kind, exclusive, reverse))


@cooperative
def _tile_scan_chunked(t: Tile[Number, *S], kind: Kind, exclusive: Flag, reverse: Flag) -> Tile[Number, *S]:
    """Each thread scans its consecutive elements, then combines them with the total of all preceding threads."""


@_tile_scan_chunked.program(
    when=lambda S, Number, group: isinstance(Number, DType) and fits_in_registers(prod(S), Number, group)
)
def chunks_in_registers(t, kind, exclusive, reverse):
    shape, threads = t.shape, tg.group_size()
    n = tg.static(prod(shape))
    c = tg.static(chunk_length(n, threads))
    rows = tg.static(-(-n // c))
    local = tg.tile_local(tg._tile_pad_to_rows(t, rows, c), (threads, 1))
    first, last = (c - 1, 0) if tg.static(reverse) else (0, c - 1)
    for k in tg.unrolled(1, c):
        i, previous = (c - 1 - k, c - k) if tg.static(reverse) else (k, k - 1)
        local[0, i] = tg._tile_combine(kind, local[0, i], local[0, previous])
    identity = type(local[0, 0])(0) if tg.static(kind == "sum") else local[0, 0]
    prefix = tg._tile_exclusive_prefix(kind, reverse, rows, identity, local[0, last])
    if tg.static(exclusive):
        for k in tg.unrolled(c - 1):
            i, previous = (k, k + 1) if tg.static(reverse) else (c - 1 - k, c - 2 - k)
            local[0, i] = tg._tile_combine(kind, local[0, previous], prefix)
        local[0, first] = prefix
    else:
        for k in tg.unrolled(c):
            local[0, k] = tg._tile_combine(kind, local[0, k], prefix)
    return tg.tile_reshape(
        tg._tile_drop_padding(tg.tile_from_local(local, (threads, 1), (rows, c)), n), shape
    )


@_tile_scan_chunked.program(
    when=lambda S, Number, group: fits_in_registers(prod(S), scalar_of(Number), group)
)
def scan_components(t, kind, exclusive, reverse):
    """Scans each component of tiles of vectors and matrices separately."""
    shape = t.shape
    n = tg.static(prod(shape))
    result, vector = t, type(tg.tile_reshape(t, (n,))[0])
    for k in tg.static(range(components(vector))):
        component = tg._tile_scan_chunked(tg.tile_map(tg._tile_component, t, k), kind, exclusive, reverse)
        result = tg.tile_map(tg._tile_with_component, result, k, component)
    return result


@_tile_scan_chunked.program
def chunks_in_shared_memory(t, kind, exclusive, reverse):
    """For more elements than fit in registers: a first pass computes each thread's total, a second pass starts from the
    total of the preceding threads."""
    shape, threads = t.shape, tg.group_size()
    n = tg.static(prod(shape))
    c = tg.static(-(-n // threads))
    rows = tg.static(-(-n // c))
    flat = tg.tile_reshape(t, (n,))
    line = tg.tile_zeros(shape=rows * c, dtype=type(flat[0]), storage="shared")
    tg.tile_assign(line, flat, 0)
    cells, lane = tg.tile_reshape(line, (rows, c)), tg.group_lane()
    identity = type(flat[0])()
    aggregate = identity
    if lane < rows:
        identity = identity if tg.static(kind == "sum") else cells[lane, 0]
        aggregate = cells[lane, c - 1 if tg.static(reverse) else 0]
        for k in range(1, c):
            aggregate = tg._tile_combine(kind, cells[lane, c - 1 - k if tg.static(reverse) else k], aggregate)
    prefix = tg._tile_exclusive_prefix(kind, reverse, rows, identity, aggregate)
    if lane < rows:
        for k in range(c):
            i = c - 1 - k if tg.static(reverse) else k
            combined = tg._tile_combine(kind, cells[lane, i], prefix)
            cells[lane, i] = prefix if tg.static(exclusive) else combined
            prefix = combined
    return tg.tile_reshape(line[:n], shape)


@cooperative
def _tile_scan_sequential(
    t: Tile[Number, *S], kind: Kind, exclusive: Flag, reverse: Flag
) -> Tile[Number, *S]:
    """The result of `_tile_scan_chunked`, computed by the first thread alone, which is present in every block."""
    shape = t.shape
    n = tg.static(prod(shape))
    flat, present = tg.tile_reshape(t, (n,)), tg.tile_zeros(shape=n, dtype=bool, storage="shared")
    line = tg.tile_zeros(shape=n, dtype=type(flat[0]), storage="shared")
    tg.tile_assign(line, flat, 0)
    tg.tile_assign(present, tg.tile_reshape(tg.tile_map(tg._tile_is_present, t), (n,)), 0)
    if tg.group_lane() == 0:
        total = type(flat[0])() if tg.static(kind == "sum") else line[0]
        for k in range(n):
            i = n - 1 - k if tg.static(reverse) else k
            if present[i]:
                combined = tg._tile_combine(kind, line[i], total)
                line[i] = total if tg.static(exclusive) else combined
                total = combined
    return tg.tile_reshape(line, shape)


@cooperative
def _tile_gradient_of_extremes(t: Tile[Number, N], grad: Tile[Number, N], kind: Kind) -> Tile[Number, N]:
    """For each element that changes the running extreme, the sum of the results' adjoints from this element to the next
    change; 0 for other elements."""
    if tg.group_present() == tg.group_size():
        result = tg._tile_extreme_adjoint_chunked(t, grad, kind)
    else:
        result = tg._tile_extreme_adjoint_shared(t, grad, kind, 1)
    return result


@_tile_gradient_of_extremes.program(when=lambda Number: not isinstance(Number, DType))
def extreme_adjoint_of_components(t, grad, kind):
    """Handles each component of tiles of vectors and matrices separately."""
    result, vector = grad, type(t[0])
    for k in tg.static(range(components(vector))):
        x, g = tg.tile_map(tg._tile_component, t, k), tg.tile_map(tg._tile_component, grad, k)
        result = tg.tile_map(tg._tile_with_component, result, k, tg._tile_gradient_of_extremes(x, g, kind))
    return result


@cooperative
def _tile_extreme_adjoint_chunked(t: Tile[Number, N], grad: Tile[Number, N], kind: Kind) -> Tile[Number, N]:
    """The result of `_tile_gradient_of_extremes`. Scans over threads compute the extreme before the elements of each
    thread and the sum after the elements of each thread."""
    return tg._tile_extreme_adjoint_shared(t, grad, kind, tg.group_size())


@_tile_extreme_adjoint_chunked.program(when=lambda N, Number, group: fits_in_registers(2 * N, Number, group))
def extreme_adjoint_in_registers(t, grad, kind):
    n, threads = t.shape[0], tg.group_size()
    c = tg.static(chunk_length(n, threads))
    rows = tg.static(-(-n // c))
    changes = tg.tile_local(tg._tile_pad_to_rows(t, rows, c), (threads, 1))
    sums = tg.tile_local(tg._tile_pad_to_rows(grad, rows, c), (threads, 1))
    identity, zero = type(t[0])(nan), type(t[0])(0.0)
    extreme = changes[0, 0]
    for k in tg.unrolled(1, c):
        extreme = tg._tile_combine(kind, extreme, changes[0, k])
    before = tg._tile_exclusive_prefix(kind, False, rows, identity, extreme)
    for k in tg.unrolled(c):
        after = tg._tile_combine(kind, before, changes[0, k])
        changes[0, k] = tg._tile_changes_extreme(before, after)
        before = after
    aggregate = tg.vector(zero, zero)
    for k in tg.unrolled(c):
        aggregate = tg._tile_combine(
            "segment", tg._tile_segment(sums[0, c - 1 - k], changes[0, c - 1 - k]), aggregate
        )
    next_segment = tg._tile_exclusive_prefix("segment", True, rows, tg.vector(zero, zero), aggregate)
    for k in tg.unrolled(c):
        i = c - 1 - k
        total = tg.where(changes[0, i] > zero, sums[0, i] + next_segment[0], zero)
        next_segment = tg._tile_combine("segment", tg._tile_segment(sums[0, i], changes[0, i]), next_segment)
        sums[0, i] = total
    return tg._tile_drop_padding(tg.tile_from_local(sums, (threads, 1), (rows, c)), n)


@cooperative
def _tile_extreme_adjoint_shared(
    t: Tile[Number, N], grad: Tile[Number, N], kind: Kind, threads: constexpr[int]
) -> Tile[Number, N]:
    """The result of `_tile_gradient_of_extremes`, computed through shared memory by the first `threads` threads."""
    n, lane = t.shape[0], tg.group_lane()
    c = tg.static(-(-n // threads))
    rows = tg.static(-(-n // c))
    identity, zero = type(t[0])(nan), type(t[0])(0.0)
    line = tg.tile_zeros(shape=rows * c, dtype=type(t[0]), storage="shared")
    scan_lines = tg.tile_zeros(shape=rows * c, dtype=type(t[0]), storage="shared")
    tg.tile_assign(line, t, 0)
    tg.tile_assign(scan_lines, grad, 0)
    changes, sums = tg.tile_reshape(line, (rows, c)), tg.tile_reshape(scan_lines, (rows, c))
    extreme = identity
    if lane < rows:
        for k in range(c):
            extreme = tg._tile_combine(kind, extreme, changes[lane, k])
    before = tg._tile_exclusive_prefix(kind, False, rows, identity, extreme)
    aggregate = tg.vector(zero, zero)
    if lane < rows:
        for k in range(c):
            after = tg._tile_combine(kind, before, changes[lane, k])
            changes[lane, k] = tg._tile_changes_extreme(before, after)
            before = after
        for k in range(c):
            i = c - 1 - k
            aggregate = tg._tile_combine(
                "segment", tg._tile_segment(sums[lane, i], changes[lane, i]), aggregate
            )
    next_segment = tg._tile_exclusive_prefix("segment", True, rows, tg.vector(zero, zero), aggregate)
    if lane < rows:
        for k in range(c):
            i = c - 1 - k
            total = tg.where(changes[lane, i] > zero, sums[lane, i] + next_segment[0], zero)
            next_segment = tg._tile_combine(
                "segment", tg._tile_segment(sums[lane, i], changes[lane, i]), next_segment
            )
            sums[lane, i] = total
    return scan_lines[:n]


@cooperative
def _tile_pad_to_rows(
    t: Tile[Number, *S], rows: constexpr[int], length: constexpr[int]
) -> Tile[Number, ROWS, LENGTH]:
    """The elements of a tile in `rows` rows of `length`, the last row padded with zeros."""


@_tile_pad_to_rows.program(when=lambda S, rows, length: prod(S) == rows * length)
def reshape_to_rows(t, rows, length):
    return tg.tile_reshape(t, (rows, length))


@_tile_pad_to_rows.program
def pad_to_rows(t, rows, length):
    shape = t.shape
    n = tg.static(prod(shape))
    flat = tg.tile_reshape(t, (n,))
    line = tg.tile_empty(shape=rows * length, dtype=type(flat[0]), storage="shared")
    tg.tile_assign(line, flat, 0)
    tg.tile_assign(line, tg.tile_zeros(shape=rows * length - n, dtype=type(flat[0])), n)
    return tg.tile_reshape(line, (rows, length))


@cooperative
def _tile_drop_padding(t: Tile[Number, ROWS, LENGTH], n: constexpr[int]) -> Tile[Number, NUMBER]:
    """The first n elements of a tile of rows, in row-major order."""


@_tile_drop_padding.program(when=lambda rows, length, n: n == rows * length)
def reshape_to_line(t, n):
    return tg.tile_reshape(t, (n,))


@_tile_drop_padding.program
def drop_padding(t, n):
    rows, length = t.shape
    line = tg.tile_empty(shape=rows * length, dtype=type(t[0, 0]), storage="shared")
    tg.tile_assign(line, tg.tile_reshape(t, (rows * length,)), 0)
    return line[:n]


# Functions of elements -----------------------------------------------------------------------------------------------


@part
def _tile_combine(kind, near, far):
    """Combines `near` with `far`, whose elements are farther from the result's element. The order matters only for
    segments, which are vectors of the sum up to the first element that begins a segment, and of 1 if any element begins
    a segment, else 0."""
    if tg.static(kind == "sum"):
        return near + far
    elif tg.static(kind == "min"):
        return tg.min(near, far)
    elif tg.static(kind == "max"):
        return tg.max(near, far)
    else:
        ends = near[1] > type(near[1])(0.0)
        return tg.vector(tg.where(ends, near[0], near[0] + far[0]), tg.max(near[1], far[1]))


@part
def _tile_exclusive_prefix(kind, reverse, count, identity, aggregate):
    """The combined totals of the preceding threads, or of the following threads if `reverse`, among `count` threads;
    `identity` for the first or last thread. Within a warp, the totals are combined by a butterfly exchange, in which
    the number of threads that a total covers doubles at each step; across warps, through one shared element per warp.
    With `reverse` the warp's last threads may be absent, and the first thread has the warp's total."""
    lane, warp = tg.group_lane() % 32, tg.group_lane() // 32
    threads = tg.group_size()
    warps, is_uneven = tg.static((count + 31) // 32), tg.static((threads % 32) & (threads % 32 - 1) != 0)
    prefix = identity
    for k in tg.unrolled(tg.static(min(count - 1, 31).bit_length())):
        is_later_half = ((lane & (1 << k)) == 0) == tg.static(reverse)
        if tg.static(reverse and is_uneven):
            received = tg.lane_shuffle(aggregate, (lane ^ (1 << k)) & -(1 << k))
        else:
            received = tg.lane_xor(aggregate, 1 << k)
        prefix = tg.where(
            is_later_half, tg._tile_combine(kind, prefix, received) if k > 0 else received, prefix
        )
        if tg.static(kind == "segment"):
            own_first, received_first = (
                tg._tile_combine(kind, aggregate, received),
                tg._tile_combine(kind, received, aggregate),
            )
            aggregate = tg.where(is_later_half, own_first, received_first)
        else:
            aggregate = tg._tile_combine(kind, aggregate, received)
    if tg.static(warps > 1):
        warp_aggregates = tg.tile_empty(shape=(threads + 31) // 32, dtype=type(identity), storage="shared")
        if lane == 0:
            warp_aggregates[warp] = aggregate
        preceding = identity
        for k in tg.unrolled(warps - 1):
            w = warps - 1 - k if tg.static(reverse) else k
            combined = tg._tile_combine(kind, warp_aggregates[w], preceding) if k > 0 else warp_aggregates[w]
            preceding = tg.where(w > warp if tg.static(reverse) else w < warp, combined, preceding)
        prefix = tg._tile_combine(kind, prefix, preceding)
    return prefix


@part
def _tile_changes_extreme(before, after):
    """The number 1 if an element changed the running extreme from `before` to `after`, else 0."""
    return tg.where(tg.isnan(after) | (after == before), type(after)(0.0), type(after)(1.0))


@part
def _tile_segment(x, begins):
    """An element as a segment (sum, begins): the sum is 0 where the element begins a new segment."""
    return tg.vector(tg.where(begins > type(x)(0.0), type(x)(0.0), x), begins)


@part
def _tile_is_present(x):
    """The constant True. `tile_map` of this function returns a tile that is False for the elements of absent
    threads."""
    return True


@part
def _tile_select_second(x, y):
    """The element y. `tile_map` of this function makes the elements of y absent where the elements of x are absent."""
    return y


@part
def _tile_component(x, k):
    """The component k of a scalar, vector or matrix x, in row-major order."""
    t = type(x)
    if tg.static(isinstance(t, MatType)):
        columns = tg.static(t.cols)
        return x[k // columns, k % columns]
    else:
        return x[k]


@part
def _tile_with_component(x, k, y):
    """The vector or matrix x with y instead of component k."""
    t = type(x)
    if tg.static(isinstance(t, MatType)):
        columns = tg.static(t.cols)
        x[k // columns, k % columns] = y
    else:
        x[k] = y
    return x


# References and samples ----------------------------------------------------------------------------------------------


@tile_scan_inclusive.reference
def inclusive_sums(a, axis=None):
    return scan_lines(a, axis, lambda x: np.cumsum(x, dtype=x.dtype))


@tile_scan_exclusive.reference
def exclusive_sums(a, axis=None):
    return scan_lines(
        a, axis, lambda x: np.concatenate([np.zeros(1, x.dtype), np.cumsum(x, dtype=x.dtype)[:-1]])
    )


@tile_scan_max_inclusive.reference
def running_maxima(a, axis=None):
    return scan_lines(a, axis, lambda x: _extremes(x, 1))


@tile_scan_min_inclusive.reference
def running_minima(a, axis=None):
    return scan_lines(a, axis, lambda x: _extremes(x, -1))


def scan_lines(a: np.ndarray, axis: int | None, scan: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The scan of a tile as one line, or of each line along an axis."""
    if axis is None:
        return scan(a.ravel()).reshape(a.shape)
    scan_samples = np.moveaxis(a, axis, -1)
    result = np.array([scan(x) for x in scan_samples.reshape(-1, scan_samples.shape[-1])])
    return np.moveaxis(result.reshape(scan_samples.shape), -1, axis)


def _extremes(a: np.ndarray, sign: int) -> np.ndarray:
    """Running maxima, or minima for the sign -1; numbers are preferred to NaN, and -0.0 is below 0.0."""
    result = a.ravel().copy()
    for k in range(1, result.size):
        x, extreme = result[k], result[k - 1]
        is_above = np.signbit(extreme) != np.signbit(x) and np.signbit(extreme) == (sign > 0)
        is_beyond = (
            np.isnan(extreme) or sign * float(x) > sign * float(extreme) or (x == extreme and is_above)
        )
        result[k] = x if is_beyond and not np.isnan(x) else extreme
    return result.reshape(a.shape)


def scan_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of all shapes and dtypes."""
    for shape in ((1,), (7,), (33,), (37,), (64,), (6, 5), (2, 3, 4), (1000,)):
        size = int(np.prod(shape))
        yield Sample(rng.standard_normal(shape).astype(np.float32), differentiable=size in (7, 30))
    yield Sample(rng.standard_normal(40))
    yield Sample(rng.integers(-9, 9, 50).astype(np.float16))
    for dtype in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        yield Sample(rng.integers(0, 100, 45).astype(dtype))
    for shape, axis in (((3, 5, 4), 1), ((2, 9), -1), ((7, 3), 0), ((1, 4), 0), ((6,), 0)):
        numbers = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
        yield Sample(numbers, axis, differentiable=shape == (2, 9))
    yield Sample(rng.integers(-9, 9, (4, 8)).astype(np.float16), 0)
    yield Refused(np.ones((2, 3)), 2, code="out-of-range", says=("2 is not an axis",))
    yield Refused(np.ones(3, np.bool_), code="type-mismatch", says=("'a' must be of", "bool"))
    yield Refused(1.0, code="type-mismatch", says=("'a' must be a tile[Number, *S]",))


def special(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of `scan_samples`, and tiles with NaNs, infinities, zeros of both signs and the limits of integers."""
    yield Sample(np.array([nan, 0.0, -0.0, 0.0, nan, -0.0, np.inf, -np.inf], np.float32), tolerance=0)
    yield Sample(np.full((2, 3), nan))
    ends = np.iinfo(np.int64)
    yield Sample(np.array([5, ends.max, ends.min, 7], np.int64))
    yield from scan_samples(rng)


tile_scan_inclusive.samples(scan_samples)
tile_scan_exclusive.samples(scan_samples)
tile_scan_max_inclusive.samples(special)
tile_scan_min_inclusive.samples(special)
