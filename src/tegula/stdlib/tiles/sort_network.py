"""The order of keys by sorting networks: in the registers of lanes, and by exchanges through shared memory."""

from __future__ import annotations

import numpy as np

from tegula.declaration import cooperative, part
from tegula.signature import Dtypes, Extent, Key, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32, int64, uint16, uint32, uint64

M, N = Extent("M"), Extent("N")
Bits = Dtypes("Bits", uint32, uint64)
WARP = 32
MAX_LANE_ELEMENTS = 64
"""The maximum number of elements that a lane holds in registers."""
ONE_WARP_ELEMENTS, RESIDENT_ELEMENTS, MAX_THREADS = 24, 32, 1024
"""The maximum number of elements of a lane in blocks of one and of several warps, and of threads of a block."""
SHORT_LINES = (1, 3, 5)
"""The lengths of the lines whose sorts are written out. A lane holds such a length times a power of two."""
MIN_COUNTED_ELEMENTS = 65
"""The minimum number of elements for which one thread counts digits instead of running a network in SIMD registers."""
NUMBER_BITS = 30
"""The number of bits of an integer whose bits are those of a finite float32 that is not negative."""
MIN_TRANSPOSED = 4
"""The minimum number of steps for which a transposition is faster than shuffles."""
PADDING = 2
"""The number of unused columns after the elements of a lane in shared memory. They avoid bank conflicts of lanes that
access a column."""


def lanes_of_network(group: int) -> int:
    """The number of lanes of a group that hold elements: the largest power of two."""
    return 1 << (group.bit_length() - 1)


def elements_of_lane(n: int, lanes: int) -> int:
    """The number of elements of a row that each lane holds: the smallest sufficient one."""
    count = -(-n // lanes)
    return min(line << (-(-count // line) - 1).bit_length() for line in SHORT_LINES)


def short_line(n: int) -> int:
    """The odd factor of the number of elements of a lane."""
    return n // (n & -n)


def fits_in_registers(n: int, group: int) -> bool:
    """Whether the registers of a group of whole warps hold a row of more elements than lanes."""
    return group % WARP == 0 and 1 < elements_of_lane(n, lanes_of_network(group)) <= MAX_LANE_ELEMENTS


def threads_of_sort(N: int) -> int:
    """The number of threads of a block that sorts a row: the fewest whose lanes hold so few elements that registers and
    shared memory are left for 20 warps on a multiprocessor."""
    if N <= ONE_WARP_ELEMENTS * WARP:
        return WARP
    return min(MAX_THREADS, max(2 * WARP, 1 << (-(-N // RESIDENT_ELEMENTS) - 1).bit_length()))


def bits_of_tag(pitch: int, lanes: int) -> int:
    """The number of bits of an element's position in rows, one for each lane. `pitch`: the length of a row."""
    return (lanes * pitch - 1).bit_length()


def passes_over_digits(key_bits: int, pitch: int, lanes: int) -> int:
    """The number of passes of a sort by digits."""
    return -(-key_bits // (NUMBER_BITS - bits_of_tag(pitch, lanes)))


def pitch_of_lanes(key_bits: int, per_lane: int, lanes: int) -> int:
    """The length of a row of shared memory for the positions of a lane's elements. It is padded, unless tags of one bit
    less save a pass."""
    return min((per_lane + PADDING, per_lane), key=lambda pitch: passes_over_digits(key_bits, pitch, lanes))


def bit_reversal(n: int) -> np.ndarray:
    """The numbers below a power of two with their bits in reverse order."""
    width = (n - 1).bit_length()
    return np.array([int(f"{k:0{width}b}"[::-1], 2) if width else 0 for k in range(n)], np.int32)


def transposed_bits(n: int, bits: int) -> int:
    """The number of steps of a merge in a warp before and after which lanes with n elements transpose their elements. A
    transposition costs as much as two shuffles, and replaces the shuffles of these steps."""
    transposed = min(bits, (n & -n).bit_length() - 1)
    return transposed if transposed >= MIN_TRANSPOSED else 0


def order_of_components(n: int) -> np.ndarray:
    """The index among a lane's sorted elements of each component of the lane's vector. The component's number has the
    bits of the index's upper part in reverse order, below the index's position in its short line."""
    line = short_line(n)
    return np.concatenate([bit_reversal(n // line) * line + k for k in range(line)]).astype(np.int32)


@cooperative
def _tile_sort_indices(keys: Tile[Key, M, N], descending: constexpr[bool] = False) -> Tile[int32, M, N]:
    """For each element of the sorted rows of a matrix, its index in the unsorted row."""


@_tile_sort_indices.program(when=lambda M, N, group: M == 1 and fits_in_registers(N, group))
def sort_row_in_registers(keys, descending):
    if tg._on_gpu():
        if tg.group_present() == tg.group_size():
            return tg._tile_sort_digits(keys, descending)
        else:
            return tg._tile_sort_by_gathers(tg._tile_ascending_bits(keys, descending))
    else:
        return tg._tile_sort_by_gathers(tg._tile_ascending_bits(keys, descending))


@_tile_sort_indices.program(when=lambda N, group: group == 1 and N >= MIN_COUNTED_ELEMENTS)
def sort_rows_by_counts(keys, descending):
    return tg._tile_sort_by_counts(tg._tile_ascending_bits(keys, descending))


@_tile_sort_indices.program
def sort_rows_by_gathers(keys, descending):
    return tg._tile_sort_by_gathers(tg._tile_ascending_bits(keys, descending))


@part
def _tile_ascending_bits(keys, descending):
    """Unsigned integers whose ascending order is the order of the sort."""
    return ~tg._tile_sort_bits(keys) if descending else tg._tile_sort_bits(keys)


# In registers --------------------------------------------------------------------------------------------------------


@cooperative
def _tile_sort_digits(keys: Tile[Key, M, N], descending: constexpr[bool] = False) -> Tile[int32, M, N]:
    """The indices that sort one row, by a pass for each digit of the keys, from the lowest. A pass sorts integers by
    minima and maxima: the upper part is the digit, and the lower part, the tag, is the element's position after the
    earlier passes, so that the integers are distinct and the sort is stable. The integers are compared as float32,
    because lanes can then exchange negated numbers."""
    n, group, lane = keys.shape[1], tg.group_size(), tg.group_lane()
    lanes = tg.static(lanes_of_network(group))
    per_lane = tg.static(elements_of_lane(n, lanes))
    order_of_lane = tg.static(order_of_components(per_lane))
    key_bits = tg.static(64 if keys.dtype in (float64, int64, uint64) else 32)
    pitch = tg.static(pitch_of_lanes(key_bits, per_lane, lanes))
    tag_bits = tg.static(bits_of_tag(pitch, lanes))
    passes = tg.static(passes_over_digits(key_bits, pitch, lanes))
    digit_bits = tg.static(-(-key_bits // passes))
    tag_mask, digit_mask = tg.static((1 << tag_bits) - 1), tg.static((1 << digit_bits) - 1)
    order = tg.tile_empty(shape=(lanes, pitch), dtype=uint16, storage="shared")
    order_by_tag = tg.tile_reshape(order, (lanes * pitch,))
    x = tg.vector(uint32(0), length=per_lane)
    for k in tg.unrolled(per_lane):
        x[k] = uint32(k * lanes + lane)
    for d in range(passes):
        if lane < lanes:
            for k in tg.unrolled(per_lane):
                tag = x[k]
                key = (
                    keys[0, x[k]]
                    if tg.static(n == lanes * per_lane)
                    else keys[0, tg.min(x[k], uint32(n - 1))]
                )
                bits = tg._tile_ascending_bits(key, descending)
                digit = uint32(bits >> type(bits)(d * digit_bits)) & uint32(digit_mask)
                if n != lanes * per_lane:
                    digit = tg.where(x[k] < uint32(n), digit, uint32(digit_mask))
                if d > 0:
                    tag = uint32(lane * pitch + tg.table(order_of_lane)[k])
                x[k] = digit << uint32(tag_bits) | tag
        x = tg.bitcast(tg._tile_sort_lanes(tg.bitcast(x, float32), lanes), uint32)
        for k in tg.unrolled(per_lane):
            x[k] = x[k] & uint32(tag_mask)
        if d > 0 and lane < lanes:
            for k in tg.unrolled(per_lane):
                x[k] = uint32(order_by_tag[x[k]])
        if lane < lanes:
            for k in tg.unrolled(per_lane):
                order[lane, tg.table(order_of_lane)[k]] = uint16(x[k])
    rows = tg.static(-(-n // group))
    indices = tg.vector(0, length=rows)
    for k in tg.unrolled(rows):
        if tg.static(group == lanes and lanes % per_lane == 0):
            row, column = k * (lanes // per_lane) + lane // per_lane, lane % per_lane
        else:
            position = uint32(tg.min(k * group + lane, n - 1))
            row, column = int(position // uint32(per_lane)), int(position % uint32(per_lane))
        # The minimum tells the compiler that gathers need no checks of bounds.
        indices[k] = int(tg.min(uint32(order[row, column]), uint32(n - 1)))
    return tg.tile_reshape(tg.tile_from_local(indices, (group,), (n,)), (1, n))


@part
def _tile_sort_lane(x):
    """Sorts a vector by a bitonic network. Component k of the result is the element with index
    `order_of_components(n)[k]`. In this order a step compares neighbouring components, and its results, minima first,
    are in order for the next step. The first step of a merge compares an element with its mirror image."""
    n = tg.static(x.shape[0])
    line = tg.static(short_line(n))
    x = tg._tile_sort_short_lines(x, line, tg.static(n // line))
    for k in tg.static(range(1, (n // line).bit_length())):
        parts = tg.matrix(x, shape=tg.static((line << k, n // line >> k)), dtype=float32)
        for step in tg.static(range(k)):
            lower = parts[0::2, :]
            upper = parts[::-2, :] if tg.static(step == 0) else parts[1::2, :]
            parts = tg.matrix(
                tg.min(lower, upper), tg.max(lower, upper), shape=tg.static(parts.shape), dtype=float32
            )
        x = tg._tile_sort_short_lines(tg.vector(parts, length=n), line, tg.static(n // line >> k))
    return x


@part
def _tile_sort_lanes(x, lanes):
    """Sorts the numbers of all lanes by a bitonic network. Lane l gets the sorted elements from l * n on, in the order
    of `_tile_sort_lane`.

    Lanes hold numbers multiplied by a sign, which is negative in parts that descend, and while lanes exchange numbers
    also in lanes that take maxima. So all steps take minima first. The last steps between the lanes of a warp are steps
    within lanes that have transposed their numbers through shared memory."""
    n = tg.static(x.shape[0])
    x = tg._tile_sort_lane(x * tg._tile_sort_sign(1))
    group, lane = tg.group_size(), tg.group_lane()
    exchange = tg.tile_empty(shape=(group, n + 1), dtype=float32, storage="shared")
    for bits in tg.static(range(1, WARP.bit_length())):
        transposed = tg.static(transposed_bits(n, bits))
        half = tg.static(1 << (bits - 1))
        while half < tg.static(lanes if 1 << bits == WARP else 1 << bits):
            sign = tg._tile_sort_sign(half) * tg._tile_sort_sign(2 * half)
            if tg.static(1 << bits == WARP):
                x, sign = x * sign, float32(1)
                stride = half
                while stride >= WARP:
                    side = tg._tile_sort_sign(stride)
                    x = x * side
                    for k in tg.unrolled(n):
                        exchange[lane, k] = x[k]
                    other = tg.min(lane ^ stride, group - 1)
                    for k in tg.unrolled(n):
                        x[k] = tg.min(x[k], -exchange[other, k]) * side
                    stride = stride // 2
            x = tg._tile_compare_lanes_of_warp(x, sign, bits, transposed)
            if tg.static(transposed > 0):
                size, columns = tg.static(1 << transposed), tg.static(n >> transposed)
                reversal = tg.static(bit_reversal(1 << transposed))
                first, column = lane // size * size, lane % size
                for k in tg.unrolled(n):
                    exchange[lane, k] = x[k]
                for row in tg.unrolled(size):
                    for k in tg.unrolled(columns):
                        x[k * size + tg.table(reversal)[row]] = exchange[first + row, column + k * size]
                for _ in tg.static(range(transposed)):
                    lower, upper = x[0::2], x[1::2]
                    x = tg.vector(tg.min(lower, upper), tg.max(lower, upper))
                for row in tg.unrolled(size):
                    for k in tg.unrolled(columns):
                        exchange[first + row, column + k * size] = x[tg.table(reversal)[row] * columns + k]
                for k in tg.unrolled(n):
                    x[k] = exchange[lane, k]
            x = tg._tile_merge_lane(x)
            half = 2 * half
    return x


@part
def _tile_compare_lanes_of_warp(x, sign, bits, transposed):
    """The steps of a merge that compare lanes whose indices differ in the bits from `bits` - 1 down to `transposed`, by
    shuffles. `sign`: a factor of the numbers at the start."""
    for bit in tg.static(range(bits - 1, transposed - 1, -1)):
        side = tg._tile_sort_sign(tg.static(1 << bit))
        x = x * (sign * side)
        x, sign = tg.min(x, -tg.lane_xor(x, tg.static(1 << bit), WARP)), side
    return x * sign


@part
def _tile_merge_lane(x):
    """Sorts a bitonic vector."""
    n = tg.static(x.shape[0])
    line = tg.static(short_line(n))
    for _ in tg.static(range((n // line).bit_length() - 1)):
        lower, upper = x[0::2], x[1::2]
        x = tg.vector(tg.min(lower, upper), tg.max(lower, upper))
    return tg._tile_sort_short_lines(x, line, 1)


@part
def _tile_sort_short_lines(x, line, columns):
    """Sorts lines of adjacent rows of the matrix with `columns` columns that a vector holds. The rows of the result are
    ordered by their number in the line, then by the line."""
    n = tg.static(x.shape[0])
    rows = tg.matrix(x, shape=tg.static((n // columns, columns)), dtype=float32)
    if tg.static(line == 3):
        a, b, c = rows[0::3, :], rows[1::3, :], rows[2::3, :]
        a, c = tg.min(a, c), tg.max(a, c)
        a, b = tg.min(a, b), tg.max(a, b)
        b, c = tg.min(b, c), tg.max(b, c)
        return tg.vector(a, b, c, length=n)
    elif tg.static(line == 5):
        a, b, c, d, e = rows[0::5, :], rows[1::5, :], rows[2::5, :], rows[3::5, :], rows[4::5, :]
        a, d = tg.min(a, d), tg.max(a, d)
        b, e = tg.min(b, e), tg.max(b, e)
        a, c = tg.min(a, c), tg.max(a, c)
        b, d = tg.min(b, d), tg.max(b, d)
        a, b = tg.min(a, b), tg.max(a, b)
        c, e = tg.min(c, e), tg.max(c, e)
        b, c = tg.min(b, c), tg.max(b, c)
        d, e = tg.min(d, e), tg.max(d, e)
        c, d = tg.min(c, d), tg.max(c, d)
        return tg.vector(a, b, c, d, e, length=n)
    else:
        return x


@part
def _tile_sort_sign(bit):
    """1 if a bit of the lane's index is 0, else -1."""
    return tg.where((tg.group_lane() & int(bit)) == 0, float32(1), float32(-1))


# Through shared memory -----------------------------------------------------------------------------------------------


@cooperative
def _tile_sort_by_gathers(bits: Tile[Bits, M, N]) -> Tile[int32, M, N]:
    """The indices that sort each row, by a bitonic network whose steps are gathers."""


@_tile_sort_by_gathers.program(when=lambda Bits: Bits == uint32)
def sort_packed_pairs(bits):
    """For 32-bit keys: a bitonic network of 64-bit integers with the key in the upper and the index in the lower half.
    No two integers are equal, which makes the sort stable."""
    rows, n = bits.shape
    m = tg.static(1 << (n - 1).bit_length())
    pairs = tg.tile_full(shape=(rows, m), value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    indices = tg.tile_reshape(tg.tile_arange(n, dtype=uint64), (1, n))
    tg.tile_assign(pairs, (tg.tile_astype(bits, uint64) << uint64(32)) | indices, (0, 0))
    pairs = tg.tile_reshape(pairs, (rows * m,))
    lane = tg.tile_arange(rows * m, dtype=int)
    for k in range(tg.static((m - 1).bit_length())):
        # Every second part is sorted in descending order, except for the last merge, whose part is the whole row.
        descends = lane & (m - 1) & (2 << k)
        for step in range(k + 1):
            stride = 1 << (k - step)
            partner = pairs[lane ^ stride]
            takes_min = ((lane & stride) == 0) == (descends == 0)
            pairs = tg.where(takes_min, tg.min(pairs, partner), tg.max(pairs, partner))
    return tg.tile_astype(tg.tile_reshape(pairs, (rows, m))[:, :n] & uint64(0xFFFFFFFF), int)


@_tile_sort_by_gathers.program
def sort_keys_and_indices(bits):
    """For 64-bit keys: a bitonic network of keys and indices; equal keys, including those of the padding, are ordered
    by index."""
    rows, n = bits.shape
    m = tg.static(1 << (n - 1).bit_length())
    padded = tg.tile_full(shape=(rows, m), value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    tg.tile_assign(padded, bits, (0, 0))
    keys = tg.tile_reshape(padded, (rows * m,))
    lane = tg.tile_arange(rows * m, dtype=int)
    indices = lane & (m - 1)
    for k in range(tg.static((m - 1).bit_length())):
        descends = lane & (m - 1) & (2 << k)
        for step in range(k + 1):
            stride = 1 << (k - step)
            key, index = keys[lane ^ stride], indices[lane ^ stride]
            takes_min = ((lane & stride) == 0) == (descends == 0)
            is_before = (keys < key) | ((keys == key) & (indices < index))
            is_kept = is_before == takes_min
            keys, indices = tg.where(is_kept, keys, key), tg.where(is_kept, indices, index)
    return tg.tile_reshape(indices, (rows, m))[:, :n]
