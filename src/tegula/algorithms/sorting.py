"""Stable least-significant-digit radix sort of key-value pairs.

For each digit, each thread counts the digit's values in a chunk of keys. The exclusive scan of the counts, by value and
then by chunk, has the first output index of each chunk's elements with each value; then each thread scatters the
elements of its chunk to these indices, in order. A CPU uses few chunks and long digits, and the counts of a thread stay
in its cache. A GPU uses many short chunks and digits of four bits, and the counts are the bytes of two registers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import tegula as tg
from tegula.algorithms.packed import check_dtype, check_same_device, packed
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.types import DType, scalar_of

GPU_DIGIT_BITS = 4
"""The width of a digit on a GPU, in bits."""
MIN_CHUNK, MAX_CHUNK, MAX_CHUNKS = 8, 255, 1 << 21
"""The minimum and the maximum length of a thread's chunk on a GPU, and the number of chunks above which chunks become
longer than the minimum. The data that all running threads read and write should fit the L2 cache."""
SCAN_LENGTH, SCAN_THREADS = 8192, 512
"""The number of counts that a block scans on a GPU, and the number of threads of the block."""
CPU_DIGIT_BITS, CPU_MIN_CHUNK, CPU_MAX_CHUNKS = 11, 2048, 16
"""The width of a digit, the minimum length of a chunk and the maximum number of chunks on a CPU."""
KEYS = (tg.int32, tg.uint32, tg.float32, tg.int64, tg.uint64, tg.float64)


def _digit_function(dtype: DType) -> Any:
    """The function that extracts a digit from a key of a dtype."""
    word = tg.uint32 if dtype.bits == 32 else tg.uint64
    top = word(1 << (dtype.bits - 1))
    is_float, is_signed = dtype.is_float, dtype in (tg.int32, tg.int64)

    @tg.func
    def digit(key, shift: int, mask: int):
        """A digit of the key mapped to an unsigned integer of the same order; -0.0 and 0.0 are mapped to the same
        integer."""
        bits = tg.bitcast(key, word)
        if is_float:
            if key == dtype(0):
                bits = word(0)
            bits = tg.where(bits >= top, ~bits, bits ^ top)
        if is_signed:
            bits = bits ^ top
        return tg.int32(bits >> word(shift)) & mask

    return digit


@tg.func
def digit_count(low: tg.uint64, high: tg.uint64, digit: int):
    """The count of a digit value: one of the bytes of two words."""
    selected = tg.where(digit < 8, low, high)
    return tg.int32(selected >> tg.uint64(8 * (digit & 7))) & 255


@tg.func
def increment_count(low: tg.uint64, high: tg.uint64, digit: int):
    """The words with the count of a digit value incremented."""
    increment = tg.uint64(1) << tg.uint64(8 * (digit & 7))
    return low + tg.where(digit < 8, increment, tg.uint64(0)), high + tg.where(
        digit < 8, tg.uint64(0), increment
    )


@cache
def _gpu_kernels(dtype: DType) -> tuple[tg.Kernel, tg.Kernel]:
    """The kernels for short chunks: one counts digits of keys of a dtype, one scatters keys and values."""
    digit = _digit_function(dtype)

    @tg.kernel
    def count_short(keys, counts: tg.array2d[tg.int32], key_count: int, chunk: int, shift: int, mask: int):
        """Count the digits of chunks of keys."""
        c = tg.tid()
        low, high = tg.uint64(0), tg.uint64(0)
        for i in range(c * chunk, tg.min((c + 1) * chunk, key_count)):
            low, high = increment_count(low, high, digit(keys[i], shift, mask))
        for d in tg.static(range(1 << GPU_DIGIT_BITS)):
            if d <= mask:
                counts[c, d] = digit_count(low, high, d)

    @tg.kernel
    def scatter_short(
        keys,
        values,
        positions: tg.array2d[tg.int32],
        key_count: int,
        chunk: int,
        shift: int,
        mask: int,
        keys_out,
        values_out,
    ):
        """Move keys and values to the positions of their digits."""
        c = tg.tid()
        low, high = tg.uint64(0), tg.uint64(0)
        for i in range(c * chunk, tg.min((c + 1) * chunk, key_count)):
            key = keys[i]
            d = digit(key, shift, mask)
            position = positions[c, d] + digit_count(low, high, d)
            low, high = increment_count(low, high, d)
            keys_out[position] = key
            values_out[position] = values[i]

    return count_short, scatter_short


@cache
def _cpu_kernels(dtype: DType) -> tuple[tg.Kernel, tg.Kernel]:
    """The kernels for long chunks: one counts digits of keys of a dtype, one scatters keys and values."""
    digit = _digit_function(dtype)

    @tg.kernel
    def count(keys, counts: tg.array2d[tg.int32], key_count: int, chunk: int, shift: int, mask: int):
        """Count the digits of chunks of keys."""
        c = tg.tid()
        for d in range(mask + 1):
            counts[c, d] = 0
        for i in range(c * chunk, tg.min((c + 1) * chunk, key_count)):
            d = digit(keys[i], shift, mask)
            counts[c, d] = counts[c, d] + 1

    @tg.kernel
    def scatter(
        keys,
        values,
        positions: tg.array2d[tg.int32],
        key_count: int,
        chunk: int,
        shift: int,
        mask: int,
        keys_out,
        values_out,
    ):
        """Move keys and values to the positions of their digits."""
        c = tg.tid()
        for i in range(c * chunk, tg.min((c + 1) * chunk, key_count)):
            key = keys[i]
            d = digit(key, shift, mask)
            position = positions[c, d]
            positions[c, d] = position + 1
            keys_out[position] = key
            values_out[position] = values[i]

    return count, scatter


@tg.kernel
def scan_digits(counts: tg.array2d[tg.int32], digits: int, positions: tg.array2d[tg.int32]):
    """Write the exclusive scan of the counts by digit and then by chunk, in one thread."""
    total = 0
    for d in range(digits):
        for c in range(counts.shape[0]):
            count = counts[c, d]
            positions[c, d] = total
            total += count


@tg.kernel
def sum_counts(counts: tg.array1d[tg.int32], sums: tg.array1d[tg.int32]):
    """Write the sum of a block's counts."""
    c = tg.tid()
    t = tg.tile_load(counts, shape=(SCAN_LENGTH,), offset=(c * SCAN_LENGTH,))
    tg.tile_store(sums, tg.tile_sum(t), offset=(c,))


@tg.kernel
def scan_counts(counts: tg.array1d[tg.int32], before: tg.array1d[tg.int32], positions: tg.array1d[tg.int32]):
    """Write the exclusive scan of a block's counts, starting from the sum of all preceding blocks."""
    c = tg.tid()
    t = tg.tile_load(counts, shape=(SCAN_LENGTH,), offset=(c * SCAN_LENGTH,))
    tg.tile_store(positions, tg.tile_scan_exclusive(t) + before[c], offset=(c * SCAN_LENGTH,))


@tg.kernel
def write_segments(
    starts: tg.array[tg.int32], ends: tg.array[tg.int32], count: int, segments: tg.array[tg.int32]
):
    """Write the start of each element's segment; an element outside all segments is a segment of its own."""
    s = tg.tid()
    for i in range(tg.max(starts[s], 0), tg.min(ends[s], count)):
        segments[i] = starts[s]


@tg.kernel
def gather(a, positions: tg.array[tg.int32], out):
    """Gather the elements of an array at given positions."""
    i = tg.tid()
    out[i] = a[positions[i]]


def radix_sort_pairs(
    keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None
) -> None:
    """Sorts the first `count` key-value pairs of two arrays by key, ascending and stably. -0.0 and 0.0 are equal; NaNs
    are last, or first if their sign bit is set.

    Parameters:
        keys: an array of int32, uint32, float32, int64, uint64 or float64 with at least 2 * `count` elements; elements
            after the first `count` are scratch memory and are overwritten.
        values: an array of any dtype with at least 2 * `count` elements; elements after the first `count` are
            overwritten too.
        count: the number of elements to sort.
        begin_bit: an int, the lowest bit of the keys that is compared; 0 by default.
        end_bit: an int, one past the highest bit that is compared; by default the number of bits of a key.
    Raises:
        launch: the devices differ, an array is too small or not packed, the keys have another dtype, or the bits are
            out of range.
    """
    _check("radix_sort_pairs", keys, values, count)
    end = scalar_of(keys.dtype).bits if end_bit is None else end_bit
    if not (
        isinstance(begin_bit, int)
        and isinstance(end, int)
        and 0 <= begin_bit <= end <= scalar_of(keys.dtype).bits
    ):
        raise LaunchError(f"radix_sort_pairs: bits {begin_bit} to {end} are outside keys of {keys.dtype}")
    sort(keys, values, count, begin_bit, end)


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """Sorts key-value pairs by key within disjoint segments, ascending and stably. Elements outside the segments keep
    their positions.

    Parameters:
        keys: as for `radix_sort_pairs`.
        values: as for `radix_sort_pairs`.
        count: the number of elements in all segments.
        segment_start_indices: an array of int32, the positions of the first elements of the segments.
        segment_end_indices: an array of int32, the positions after the last elements of the segments; by default each
            segment ends where the next one starts, and the last entry of `segment_start_indices` is only an end.
    Raises:
        TypeError: `count` is not an integer.
        ValueError: on a CPU, a segment is not within the first `count` elements; `count` is negative.
        launch: the devices or dtypes differ, or an array is too small or not packed.
    """
    function = "segmented_sort_pairs"
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"{function}: count must be an integer, got {count!r}")
    if not 0 <= count < 1 << 31:
        raise ValueError(f"{function}: count is {count}, which is not from 0 to {(1 << 31) - 1}")
    check_same_device(function, keys, starts=segment_start_indices, ends=segment_end_indices)
    _check(function, keys, values, int(count))
    starts, ends = _segments(function, segment_start_indices, segment_end_indices)
    if not count or not starts.size:
        return
    if keys.device.is_cpu:
        low, high = starts.numpy(), ends.numpy()
        if (low < 0).any() or (high < low).any() or (high > count).any():
            raise ValueError(f"{function}: a segment is not within the first {count} elements")
    count = int(count)
    indices = np.arange(count, dtype=np.int32)
    segments, positions = (array(np.tile(indices, 2), device=keys.device) for _ in range(2))
    tg.launch(write_segments, starts.size, [starts, ends, count], [segments])
    sorted_keys = tg.clone(keys)
    sort(sorted_keys, positions, count, 0, scalar_of(keys.dtype).bits)
    sorted_segments = tg.empty(2 * count, tg.int32, keys.device)
    tg.launch(gather, count, [segments, positions], [sorted_segments])
    sort(sorted_segments, positions, count, 0, max(1, count.bit_length()))
    for a in (keys, values):
        tg.launch(gather, count, [a, positions], [a[count : 2 * count]])
        a[:count].assign(a[count : 2 * count])


class Chunks:
    """The scratch memory for sorts of up to `count` elements on a device: the counts of each chunk's digits. `long`:
    whether to use few, long chunks; by default on CPUs."""

    def __init__(self, count: int, device: Device, long: bool | None = None) -> None:
        self.long = device.is_cpu if long is None else long
        min_chunk, max_chunks = (
            (CPU_MIN_CHUNK, CPU_MAX_CHUNKS)
            if self.long
            else (MIN_CHUNK, max(MAX_CHUNKS, -(-count // MAX_CHUNK)))
        )
        self.kernels = _cpu_kernels if self.long else _gpu_kernels
        self.digit = CPU_DIGIT_BITS if self.long else GPU_DIGIT_BITS
        self.block_dim = 1 if self.long else None
        self.min_chunk, self.max_chunks = min_chunk, max(1, min(max_chunks, -(-count // min_chunk)))
        size = self.max_chunks << self.digit
        self._counts, self._positions = (tg.empty(size, tg.int32, device) for _ in range(2))
        # A level of the scan has the sums of its blocks and their exclusive scan; the sums are the counts of the next
        # level.
        self._sums = []
        while not self.long and size > 1:
            size = -(-size // SCAN_LENGTH)
            self._sums.append(tuple(tg.zeros(size, tg.int32, device) for _ in range(2)))

    def split(self, count: int) -> tuple[int, int]:
        """The length of a chunk and the number of chunks."""
        length = max(self.min_chunk, -(-count // self.max_chunks))
        return length, -(-count // length)

    def tables(self, chunks: int, bits: int) -> tuple[array, array]:
        """The tables of counts and of output indices, indexed [chunk, digit value]. Long chunks have a contiguous row
        of counts; for short chunks, the counts of a digit value are contiguous."""
        size = chunks << bits
        tables_of_size = (a[:size] for a in (self._counts, self._positions))
        if self.long:
            counts, positions = (a.reshape((chunks, 1 << bits)) for a in tables_of_size)
        else:
            counts, positions = (a.reshape((1 << bits, chunks)).transpose() for a in tables_of_size)
        return counts, positions

    def assign_positions(self, counts: array, positions: array) -> None:
        """Compute output indices from digit counts by an exclusive scan on a GPU."""
        flat, out = (a.transpose().reshape(a.size) for a in (counts, positions))
        self._scan(flat, out, 0)

    def _scan(self, counts: array, positions: array, level: int) -> None:
        """Write the exclusive scan of counts on a GPU, without new memory."""
        blocks = -(-counts.size // SCAN_LENGTH)
        sums, before = (a[:blocks] for a in self._sums[level])
        if blocks > 1:
            tg.launch_tiled(sum_counts, blocks, [counts], [sums], block_dim=SCAN_THREADS)
            self._scan(sums, before, level + 1)
        tg.launch_tiled(scan_counts, blocks, [counts, before], [positions], block_dim=SCAN_THREADS)


def sort(keys: array, values: array, count: int, begin: int, end: int, chunks: Chunks | None = None) -> None:
    """Sort the first `count` key-value pairs by the keys' bits from `begin` to `end`; later elements are scratch
    memory. `chunks`: the scratch memory of an earlier sort of at least as many elements, which is reused."""
    halves = sorted_halves(keys, values, count, begin, end, chunks)
    for sorted_array, destination in zip(halves, (keys, values), strict=True):
        if sorted_array.ptr != destination.ptr:
            destination[:count].assign(sorted_array)


def sorted_halves(
    keys: array, values: array, count: int, begin: int, end: int, chunks: Chunks | None = None
) -> tuple[array, array]:
    """The sorted keys and values of `sort`, each in the first or in the second half of its array."""
    buffers = chunks or Chunks(count, keys.device)
    if buffers.long:
        launches, halves = sort_passes(keys, values, count, begin, end, buffers)
        for kernel, threads, arguments in launches:
            tg.launch(kernel, threads, arguments, block_dim=buffers.block_dim)
        return halves
    kernels = buffers.kernels(keys.dtype)
    chunk_length, chunk_count = buffers.split(count)
    pairs = [(keys[:count], values[:count]), (keys[count : 2 * count], values[count : 2 * count])]
    for low, bits in digits(begin, end, buffers.digit):
        (k, v), (to_k, to_v) = pairs
        counts, positions = buffers.tables(chunk_count, bits)
        mask = (1 << bits) - 1
        tg.launch(
            kernels[0], chunk_count, [k, counts, count, chunk_length, low, mask], block_dim=buffers.block_dim
        )
        buffers.assign_positions(counts, positions)
        scatter_arguments = [k, v, positions, count, chunk_length, low, mask]
        tg.launch(kernels[1], chunk_count, scatter_arguments, [to_k, to_v], block_dim=buffers.block_dim)
        pairs.reverse()
    return pairs[0]


def sort_passes(
    keys: array, values: array, count: int, begin: int, end: int, buffers: Chunks
) -> tuple[list[tuple[tg.Kernel, int, list[Any]]], tuple[array, array]]:
    """The launches of `sorted_halves` for long chunks, each a kernel, its number of threads and its arguments; and the
    sorted keys and values."""
    kernels = buffers.kernels(keys.dtype)
    chunk_length, chunk_count = buffers.split(count)
    pairs = [(keys[:count], values[:count]), (keys[count : 2 * count], values[count : 2 * count])]
    launches: list[tuple[tg.Kernel, int, list[Any]]] = []
    for low, bits in digits(begin, end, buffers.digit):
        source, target = pairs
        counts, positions = buffers.tables(chunk_count, bits)
        digit = [count, chunk_length, low, (1 << bits) - 1]
        launches.append((kernels[0], chunk_count, [source[0], counts, *digit]))
        launches.append((scan_digits, 1, [counts, counts.shape[1], positions]))
        launches.append((kernels[1], chunk_count, [*source, positions, *digit, *target]))
        pairs.reverse()
    return launches, pairs[0]


def digits(begin: int, end: int, max_width: int = GPU_DIGIT_BITS) -> Iterator[tuple[int, int]]:
    """The lowest bit and the width of each digit of the bits from `begin` to `end`: the minimum number of digits, of
    nearly equal widths."""
    digit_count = -(-(end - begin) // max_width)
    cuts = [begin + k * (end - begin) // digit_count for k in range(digit_count)] if digit_count else []
    for low, high in zip(cuts, [*cuts[1:], end], strict=False):
        yield low, high - low


def _check(function: str, keys: array, values: array, count: int) -> None:
    """Raise LaunchError for keys and values that cannot be sorted."""
    check_same_device(function, keys, values=values)
    if keys.dtype not in KEYS:
        raise LaunchError(f"{function}: keys of {keys.dtype} cannot be sorted", f"convert them to {KEYS[0]}")
    if count < 0 or min(keys.size, values.size) < 2 * count:
        raise LaunchError(
            f"{function}: to sort {count} elements, the arrays need {2 * count} elements; they have {keys.size} and "
            f"{values.size}"
        )
    for name, a in (("keys", keys), ("values", values)):
        if a.ndim != 1 or not a.is_contiguous:
            raise LaunchError(f"{function}: {name} must be a packed array of one dimension")


def _segments(function: str, starts: array, ends: array | None) -> tuple[array, array]:
    """The start and end positions of segments, end exclusive."""
    for name, a in (("segment_start_indices", starts), ("segment_end_indices", ends)):
        if a is not None:
            check_dtype(function, name, a, tg.int32)
            if a.ndim != 1:
                raise LaunchError(f"{function}: {name} has {a.ndim} dimensions, not 1")
    if ends is None:
        return packed(starts[:-1]), packed(starts[1:])
    if starts.size != ends.size:
        raise LaunchError(f"{function}: starts has {starts.size} elements, but ends has {ends.size}")
    return packed(starts), packed(ends)
