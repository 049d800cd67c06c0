"""Discrete Fourier transforms of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.errors import OutOfRange
from tegula.signature import Dtypes, Extent, Extents, InOut, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.plans import (
    distribution,
    exchanges_parts,
    fits_registers,
    padding,
    plan_of,
    row_padding,
    split_butterflies,
)
from tegula.stdlib.tiles.rolled_plans import is_rolled, rolled_plan
from tegula.stdlib.tiles.roots import (
    MAX_ELEMENTS,
    MAX_LENGTH,
    MAX_RADIX,
    PRIMES,
    chirp_factors,
    is_loop_on_gpu,
    is_smooth,
    output_position,
    padded_length,
    stages,
    twiddles,
)
from tegula.stdlib.tiles.warps import WARP
from tegula.types import element_bytes, float32, float64, vector

N, M, S = Extent("N"), Extent("M"), Extents("S")
P, Q = Extent("P", value=lambda N, r: N // r), Extent("Q", value=lambda M, r: M * r)
L = Extent("L", value=lambda length: length)
Complex = Dtypes("Complex", vector(2, float32), vector(2, float64))
Number = Dtypes("Number", float32, float64)
Flag = constexpr[bool]


VECTOR_LANES = 8
"""On CPUs the number of threads or rows that fill a vector of complex numbers."""

MIN_LANES = 4
"""The minimum number of threads, fewer than a warp, that each transform whole rows."""


@cooperative
def tile_fft(inout: InOut[Tile[Complex, *S]]):
    """The discrete Fourier transform along the last dimension of a tile, in place: X[k] = sum of
    x[n] * exp(-2 * pi * i * k * n / N), as numpy.fft.fft.

    Vectors of two floats are complex numbers, the real part first.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d, of any N up to 65536, or with prime factors above 61 up to 32768.
    Raises:
        type-mismatch: `inout` has another dtype, or is not a tile bound to a name.
        out-of-range: N is larger.
        shared-memory-exceeded: the shared memory of a block on a GPU does not hold the rows.
    Gradient:
        the inverse transform of the adjoint, not divided by N.
    Source:
        Stockham's algorithm with radices up to 16 and primes up to 61; Bluestein's for larger prime factors.
    """
    tg.tile_assign(inout, tg._tile_dft(inout, False, False))


@cooperative
def tile_ifft(inout: InOut[Tile[Complex, *S]]):
    """The inverse of `tile_fft` times N, in place: x[n] = sum of X[k] * exp(2 * pi * i * k * n / N), N times
    numpy.fft.ifft.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d, of any N up to 65536, or with prime factors above 61 up to 32768.
    Raises:
        type-mismatch: `inout` has another dtype, or is not a tile bound to a name.
        out-of-range: N is larger.
        shared-memory-exceeded: the shared memory of a block on a GPU does not hold the rows.
    Gradient:
        `tile_fft` of the adjoint.
    Source:
        as for `tile_fft`.
    """
    tg.tile_assign(inout, tg._tile_dft(inout, True, False))


@cooperative
def _tile_dft(x: Tile[Complex, *S], inverse: Flag, alone: Flag) -> Tile[Complex, *S]:
    """The unnormalised transform along the last dimension; `inverse`: the inverse; `alone`: whether the kernel has no
    other transform, so that its registers hold the elements and the twiddle factors of one transform."""
    shape = x.shape
    n, size = tg.static(row_length(shape)), tg.static(prod(shape))
    return tg.tile_reshape(tg._tile_row_dft(tg.tile_reshape(x, (size,)), n, inverse, alone), shape)


@_tile_dft.vjp
def dft_vjp(grad, inverse, alone):
    return tg._tile_dft(grad, not inverse, False)


@cooperative
def _tile_row_dft(x: Tile[Complex, N], n: constexpr[int], inverse: Flag, alone: Flag) -> Tile[Complex, N]:
    """The transforms of all rows of n elements."""


@_tile_row_dft.program(
    when=lambda N, n, group, partial: not partial and MIN_LANES <= group < WARP and N // n % group == 0
)
def rows_of_few_threads(x, n, inverse):
    return tg._tile_dft_in_lanes(x, n, inverse)


@_tile_row_dft.program(when=lambda group, partial: not partial and group >= WARP)
def rows_of_warps(x, n, inverse, alone):
    """On CPUs threads are lanes of vectors, whatever their number is."""
    if tg._on_gpu():
        return tg._tile_dft_in_warps(x, n, inverse, alone)
    elif tg.static(x.shape[0] // n % VECTOR_LANES == 0):
        return tg._tile_dft_in_lanes(x, n, inverse)
    else:
        return tg._tile_dft_of_threads(x, n, inverse, True)


@_tile_row_dft.program
def rows_of_present_threads(x, n, inverse):
    return tg._tile_dft_of_threads(x, n, inverse, False)


@cooperative
def _tile_dft_of_threads(
    x: Tile[Complex, N], n: constexpr[int], inverse: Flag, in_vectors: Flag
) -> Tile[Complex, N]:
    """The transforms of all rows of n elements, all of whose stages begin and end in memory; `in_vectors` as in
    `_tile_stockham`."""
    if tg.static(is_smooth(n)):
        return tg._tile_stockham(x, n, 1, inverse, False, False, in_vectors)
    else:
        return tg._tile_chirp_dft(x, n, tg.static(transform_length(n)), inverse, in_vectors)


@cooperative
def _tile_dft_in_lanes(x: Tile[Complex, N], n: constexpr[int], inverse: Flag) -> Tile[Complex, N]:
    """The transforms of all rows of n elements by threads that are lanes of a vector and take whole rows."""
    size, rows = x.shape[0], tg.static(x.shape[0] // n)
    columns = tg._tile_transposed_dft(tg.tile_reshape(x, (rows, n)), inverse)
    return tg.tile_reshape(tg._tile_transposed_copy(columns), (size,))


@cooperative
def _tile_transposed_dft(x: Tile[Complex, M, N], inverse: Flag) -> Tile[Complex, N, M]:
    """The transpose of the transforms of all rows of a matrix by threads that are lanes of a vector. The rows are
    transposed, so that in all stages threads access consecutive elements and use the same twiddle factors."""
    rows, n, size = x.shape[0], x.shape[1], tg.static(x.shape[0] * x.shape[1])
    columns = tg._tile_transposed_copy(x)
    if tg.static(is_smooth(n)):
        result = tg._tile_stockham(tg.tile_reshape(columns, (size,)), n, rows, inverse, False, False, True)
        return tg.tile_reshape(result, (n, rows))
    else:
        return tg._tile_chirp_columns(columns, tg.static(transform_length(n)), inverse)


@cooperative
def _tile_transposed_copy(x: Tile[Complex, N, M]) -> Tile[Complex, M, N]:
    """The transpose of a matrix, in row-major order in memory."""
    result = tg.tile_empty(shape=(x.shape[1], x.shape[0]), dtype=type(x[0, 0]))
    tg.tile_assign(result, tg.tile_transpose(x), (0, 0))
    return result


@cooperative
def _tile_chirp_columns(x: Tile[Complex, N, M], length: constexpr[int], inverse: Flag) -> Tile[Complex, N, M]:
    """The transforms of all columns by transforms of a padded length, as `_tile_chirp_dft`."""
    n, columns, size = x.shape[0], x.shape[1], tg.static(x.shape[1] * length)
    zero = type(x[0, 0][0])(0.0)

    def factor(k, step):
        parts = tg.table(tg.static(chirp_factors(n, length)), type(zero))
        return tg.vector(parts[step, k, 0], parts[step, k, 1])

    index = tg.tile_reshape(tg.tile_arange(n, dtype=int), (n, 1))
    padded_index = tg.tile_reshape(tg.tile_arange(length, dtype=int), (length, 1))
    source = tg.tile_map(tg._tile_swap_parts, x) if tg.static(inverse) else x
    padded = tg.tile_zeros(shape=(length, columns), dtype=type(x[0, 0]))
    product = tg.tile_map(tg._tile_complex_product, source, tg.tile_map(factor, index, 1))
    tg.tile_assign(padded, product, (0, 0))
    for step in tg._rolled(2):
        spectrum = tg._tile_stockham(
            tg.tile_reshape(padded, (size,)), length, columns, False, False, True, True
        )
        spectrum = tg.tile_reshape(spectrum, (length, columns))
        factors = tg.tile_map(factor, padded_index, step)
        tg.tile_assign(padded, tg.tile_map(tg._tile_swapped_product, spectrum, factors), (0, 0))
    result = padded[:n, :]
    return tg.tile_map(tg._tile_swap_parts, result) if tg.static(inverse) else result


@cooperative
def _tile_dft_in_warps(
    x: Tile[Complex, N], n: constexpr[int], inverse: Flag, alone: Flag
) -> Tile[Complex, N]:
    """The transforms of all rows of n elements by the threads of warps of a GPU."""


@_tile_dft_in_warps.program(
    when=lambda N, n, alone, group, partial: (
        alone and is_smooth(n) and holds_elements(group, partial) and exchanges_parts(N, n, group)
    )
)
def stockham_in_registers(x, n, inverse):
    """All elements stay in registers. Between stages threads exchange the real parts of the elements in shared memory,
    then the imaginary parts in the same memory, half the memory of complex numbers."""
    size, threads, zero = x.shape[0], tg.group_size(), type(x[0][0])(0.0)
    count = tg.static(size // threads)
    plan = tg.static(stages(n, count))
    first, last = tg.static(plan[0][0]), tg.static(plan[-1][0])
    shape, grid = tg.static(distribution(size // n, first, n // first, threads))
    elements = tg.tile_reshape(x, shape)
    real = tg.tile_local(tg.tile_map(tg._tile_real_part, elements), grid)
    imaginary = tg.tile_local(tg.tile_map(tg._tile_imaginary_part, elements), grid)
    re, im = tg.vector(real, length=count), tg.vector(imaginary, length=count)
    if tg.static(inverse):
        re, im = im, re
    for index in tg.static(tuple(range(len(plan)))):
        r, m, s = tg.static(plan[index])
        re, im = tg._tile_butterflies(re, im, r, m, s, tg.static(count // r))
        if tg.static(m > 1):
            following = tg.static(plan[index + 1][0])
            re = tg._tile_exchange(re, r, m, s, following, size)
            im = tg._tile_exchange(im, r, m, s, following, size)
    if tg.static(inverse):
        re, im = im, re
    shape, grid = tg.static(distribution(size // n, last, n // last, threads))
    if tg.static(len(shape) > 1):
        slots = tg.static((last, count // last) if size == n else (count, 1))
        re, im = (
            tg.matrix(re, shape=slots, dtype=type(zero)),
            tg.matrix(im, shape=slots, dtype=type(zero)),
        )
    real, imaginary = tg.tile_from_local(re, grid, shape), tg.tile_from_local(im, grid, shape)
    return tg.tile_reshape(tg.tile_map(tg._tile_complex, real, imaginary), (size,))


@_tile_dft_in_warps.program(when=lambda n: is_smooth(n))
def stockham(x, n, inverse, alone):
    return tg._tile_stockham(x, n, 1, inverse, alone, False, False)


@cooperative
def _tile_stockham(
    x: Tile[Complex, N],
    n: constexpr[int],
    columns: constexpr[int],
    inverse: Flag,
    alone: Flag,
    repeats: Flag,
    in_vectors: Flag,
) -> Tile[Complex, N]:
    """The transforms by stages of all rows of n elements, or of the columns of matrices with n rows and `columns`
    columns, which are so many interleaved subsequences more. The inverse is the transform with real and imaginary
    parts exchanged before the first stage and after the last stage. `repeats`: whether the transform is in a loop;
    `in_vectors`: whether threads are lanes of vectors, as on CPUs."""
    size = x.shape[0]
    result = tg.tile_reshape(x, (tg.static(size // columns), columns))
    threads = tg.group_size()
    plan = tg.static(
        stages(n, MAX_RADIX, columns > 1) if in_vectors or columns > 1 else plan_of(size, n, alone, threads)
    )
    for r, m, s in plan:
        swaps_input, swaps_output = tg.static(inverse and s == 1), tg.static(inverse and m == 1)
        result = tg._tile_stage(result, r, m, tg.static(s * columns), swaps_input, swaps_output, in_vectors)
    return tg.tile_reshape(result, (size,))


@_tile_stockham.program(
    when=lambda N, n, columns, alone, repeats, in_vectors, group, partial: (
        columns == 1 and not in_vectors and not partial and is_rolled(N, n, alone, repeats, group)
    )
)
def rolled_stockham(x, n, inverse, alone, repeats):
    """Stages of equal radix are iterations of a loop, so that their code is shorter. All elements stay in registers."""
    size, lane, threads = x.shape[0], tg.group_lane(), tg.group_size()
    plan, last, _ = tg.static(rolled_plan(size, n, alone, repeats, threads))
    r, m, _, _ = tg.static(plan[0])
    re, im = tg._tile_stage_inputs(tg.tile_reshape(x, (size, 1)), r, m, 1, inverse)
    for index in tg.static(tuple(range(len(plan)))):
        r, m, s, count = tg.static(plan[index])
        following = tg.static(plan[index + 1][0] if index + 1 < len(plan) else last)
        re, im = tg._tile_run(re, im, r, m, s, count, following, size)
    r = tg.static(last)
    re, im = tg._tile_butterflies(re, im, r, 1, 1, tg.static(re.shape[0] // r))
    if tg.static(inverse):
        re, im = im, re
    stride, total = tg.static((n // r, size // r))
    if tg.static(distribution(size // n, r, n // r, threads)[1] is not None):
        return tg._tile_results_in_registers(re, im, r, stride, size)
    else:
        result = tg.tile_empty(shape=(tg.static(size // n), n), dtype=type(x[0]), storage="shared")
        butterflies = tg.static(-(-total // threads))
        for i in tg.unrolled(butterflies):
            butterfly = lane + i * threads
            if butterfly < total:
                row, q = butterfly // stride, butterfly % stride
                for k in tg.unrolled(r):
                    at = k * butterflies + i
                    result[row, k * stride + q] = tg.vector(re[at], im[at])
        return tg.tile_reshape(result, (size,))


@_tile_dft_in_warps.program(when=lambda group, partial: holds_elements(group, partial))
def bluestein_in_registers(x, n, inverse):
    place_bytes = tg.static(x.shape[0] // n * element_bytes(x.dtype))
    return tg._tile_chirp_dft(x, n, tg.static(transform_length(n, True, place_bytes)), inverse, False)


@_tile_dft_in_warps.program
def bluestein(x, n, inverse):
    return tg._tile_chirp_dft(x, n, tg.static(transform_length(n)), inverse, False)


@cooperative
def _tile_chirp_dft(
    x: Tile[Complex, N], n: constexpr[int], length: constexpr[int], inverse: Flag, in_vectors: Flag
) -> Tile[Complex, N]:
    """The transforms of all rows of n elements, by transforms of a padded length; `in_vectors` as in `_tile_stockham`.

    Bluestein's algorithm: k * j = (k * k + j * j - (k - j) * (k - j)) / 2, so that a transform is a convolution with
    a chirp, between two multiplications by the chirp. The inverse transform of the convolution is a transform too, of
    numbers whose parts are exchanged, so that both transforms are iterations of one loop."""
    size, rows = x.shape[0], tg.static(x.shape[0] // n)

    def times_factor(z, k, step):
        return tg._tile_multiply_by_table(z, tg.static(chirp_factors(n, length)), step, k)

    def times_factor_swapped(z, k, step):
        return tg._tile_multiply_by_table(
            tg._tile_swap_parts(z), tg.static(chirp_factors(n, length)), step, k
        )

    index, padded_index = tg.tile_arange(n, dtype=int), tg.tile_arange(length, dtype=int)
    source = tg.tile_map(tg._tile_swap_parts, x) if tg.static(inverse) else x
    source = tg.tile_map(times_factor, tg.tile_reshape(source, (rows, n)), index, 1)
    padded = tg._tile_with_length(source, length, in_vectors)
    for step in tg._rolled(2):
        spectrum = tg._tile_stockham(
            tg.tile_reshape(padded, (rows * length,)), length, 1, False, False, True, in_vectors
        )
        padded = tg.tile_map(
            times_factor_swapped, tg.tile_reshape(spectrum, (rows, length)), padded_index, step
        )
    result = tg.tile_reshape(tg._tile_with_length(padded, n, in_vectors), (size,))
    return tg.tile_map(tg._tile_swap_parts, result) if tg.static(inverse) else result


@cooperative
def _tile_with_length(
    x: Tile[Complex, M, N], length: constexpr[int], in_vectors: Flag
) -> Tile[Complex, M, L]:
    """The rows of a matrix, shortened to `length` or padded with zeros; `in_vectors` as in `_tile_stockham`."""
    result = tg.tile_zeros(shape=(x.shape[0], length), dtype=type(x[0, 0]))
    n = tg.static(min(x.shape[1], length))
    tg.tile_assign(result, x[:, :n], (0, 0))
    return result


@_tile_with_length.program(
    when=lambda M, N, length, in_vectors, group, partial: (
        not in_vectors
        and holds_elements(group, partial)
        and M == 1
        and max(N, length) <= MAX_ELEMENTS * group
    )
)
def row_with_length(x, length):
    """Each thread keeps its elements in registers. Their distance is the number of threads."""
    n, zero = x.shape[1], type(x[0, 0][0])(0.0)
    grid = (tg.group_size(),)
    count = tg.static(-(-length // grid[0]))
    elements = tg.tile_reshape(x, (n,))
    real_parts = tg.tile_local(tg.tile_map(tg._tile_real_part, elements), grid)
    imaginary_parts = tg.tile_local(tg.tile_map(tg._tile_imaginary_part, elements), grid)
    re, im = tg.vector(zero, length=count), tg.vector(zero, length=count)
    for k in tg.unrolled(tg.static(min(count, real_parts.shape[0]))):
        re[k], im[k] = real_parts[k], imaginary_parts[k]
    result = tg.tile_map(
        tg._tile_complex, tg.tile_from_local(re, grid, (length,)), tg.tile_from_local(im, grid, (length,))
    )
    return tg.tile_reshape(result, (1, length))


def holds_elements(group: int, partial: bool) -> bool:
    """Whether a group has the threads of whole warps, which hold the elements of a row in registers on GPUs."""
    return not partial and group % WARP == 0


def row_length(shape: Sequence[int]) -> int:
    """The number of elements of a row. OutOfRange if there is no transform of this length."""
    transform_length(shape[-1])
    return shape[-1]


def transform_length(n: int, on_gpu: bool = False, place_bytes: int = 8) -> int:
    """The length of the Stockham transforms for a transform of length n: n if it is smooth, else the padded length of
    Bluestein's algorithm; `place_bytes` as for `padded_length`. OutOfRange for lengths above MAX_LENGTH."""
    length = n if is_smooth(n) else padded_length(n, on_gpu, place_bytes)
    if length > MAX_LENGTH:
        through = f", by transforms of length {length}," if length != n else ""
        help = f"lengths may be up to {MAX_LENGTH}, with prime factors above {PRIMES[-1]} up to {MAX_LENGTH // 2}"
        what = f"a transform of length {n}{through} exceeds the limit of {MAX_LENGTH} elements"
        raise OutOfRange(None, what=what, help=help)
    return length


@cooperative
def _tile_stage(
    x: Tile[Complex, N, M],
    r: constexpr[int],
    m: constexpr[int],
    s: constexpr[int],
    swap_input: Flag,
    swap_output: Flag,
    in_vectors: Flag,
) -> Tile[Complex, P, Q]:
    """A Stockham stage of transforms of length r * m * s: each of m * s butterflies reads r elements with a stride of m
    * s, multiplies its results by twiddle factors, and writes them with a stride of s. The inputs are in rows of s
    elements, the results in rows of r * s. `swap_input`, `swap_output`: whether real and imaginary parts are exchanged
    before and after the stage; `in_vectors`: whether threads are lanes of vectors.

    Threads, or the lanes of a vector, are distributed over s consecutive results if s is at least their number, else
    over all butterflies of a row, so that consecutive threads access consecutive elements; an outer loop covers the
    remaining butterflies."""
    size, lane, zero = tg.static(x.shape[0] * x.shape[1]), tg.group_lane(), type(x[0, 0][0])(0.0)
    rows, stride = tg.static(size // (r * m * s)), tg.static(m * s)
    threads = tg.group_size()
    vector = tg.static(min(threads, VECTOR_LANES) if in_vectors else threads)
    outer, inner = tg.static(split_butterflies(rows, m, s, vector))
    row_length = tg.static(r * s + padding(r, m, s))
    result = tg.tile_empty(shape=(rows * m, row_length), dtype=type(x[0, 0]), storage="shared")

    def write(row, p, q, k, z):
        result[row * m + p, k * s + q] = tg._tile_swap_parts(z) if tg.static(swap_output) else z

    for outer_index in range(outer):
        for first in range(0, inner, tg.group_present()):
            butterfly = first + lane
            if butterfly < inner:
                if tg.static(inner == s):
                    row, p, q = outer_index // m, outer_index % m, butterfly
                elif tg.static(inner == stride):
                    row, p, q = outer_index, butterfly // s, butterfly % s
                else:
                    row, p, q = butterfly // stride, butterfly % stride // s, butterfly % s
                re, im = tg.vector(zero, length=r), tg.vector(zero, length=r)
                for k in tg.unrolled(r):
                    z = x[row * (r * m) + p + k * m, q]
                    re[k], im[k] = z[1 if swap_input else 0], z[0 if swap_input else 1]
                tg._tile_write_butterfly(re, im, 0, r, 1, m, s, row, p, q, False, write)
    return result[:, : r * s]


@_tile_stage.program(
    when=lambda N, M, r, in_vectors, group, partial: (
        not in_vectors and not partial and fits_registers(N * M, r, group)
    )
)
def stage_in_registers(x, r, m, s, swap_input, swap_output):
    """All threads read the inputs of their butterflies before any thread writes results, so that the results can
    overwrite the inputs in shared memory. The inputs of the first stage and the results of the last stage stay in
    registers if the number of butterflies is a multiple of the number of threads."""
    size, lane = tg.static(x.shape[0] * x.shape[1]), tg.group_lane()
    stride, total, threads = tg.static(m * s), tg.static(size // r), tg.group_size()
    rows, count = tg.static(size // (r * m * s)), tg.static(-(-total // threads))
    re, im = tg._tile_stage_inputs(x, r, m, s, swap_input)
    keeps_results = tg.static(m == 1 and distribution(rows, r, s, threads)[1] is not None)
    if tg.static(keeps_results and not is_loop_on_gpu(r, m, s)):
        re, im = tg._tile_butterflies(re, im, r, 1, 1, count)
        if tg.static(swap_output):
            re, im = im, re
        return tg.tile_reshape(
            tg._tile_results_in_registers(re, im, r, s, size), (tg.static(size // (r * s)), r * s)
        )
    else:
        row_length = tg.static(r * s + (padding(r, m, s) if m > 1 else row_padding(rows, r * s, s)))
        result = tg.tile_empty(
            shape=(tg.static(size // (r * s)), row_length), dtype=type(x[0, 0]), storage="shared"
        )

        def write(row, p, q, k, z):
            result[row * m + p, k * s + q] = tg._tile_swap_parts(z) if tg.static(swap_output) else z

        for i in tg.unrolled(count):
            butterfly = lane + i * threads
            if butterfly < total:
                row, p, q = butterfly // stride, butterfly % stride // s, butterfly % s
                tg._tile_write_butterfly(re, im, i, r, count, m, s, row, p, q, True, write)
        return result[:, : r * s]


@part
def _tile_stage_inputs(
    x: Tile[Complex, N, M], r: constexpr[int], m: constexpr[int], s: constexpr[int], swap_input: Flag
):
    """The real and imaginary parts of the inputs of a thread's butterflies: input k of butterfly i of `count` is
    element k * count + i."""
    size, lane, zero = tg.static(x.shape[0] * x.shape[1]), tg.group_lane(), type(x[0, 0][0])(0.0)
    stride, total, threads = tg.static(m * s), tg.static(size // r), tg.group_size()
    rows, count = tg.static(size // (r * m * s)), tg.static(-(-total // threads))
    shape, grid = tg.static(distribution(rows, r, m * s, threads))
    re, im = tg.vector(zero, length=tg.static(r * count)), tg.vector(zero, length=tg.static(r * count))
    if tg.static(s == 1 and grid is not None):
        elements = tg.tile_reshape(x, shape)
        real = tg.tile_local(tg.tile_map(tg._tile_real_part, elements), grid)
        imaginary = tg.tile_local(tg.tile_map(tg._tile_imaginary_part, elements), grid)
        re, im = (
            tg.vector(real, length=tg.static(r * count)),
            tg.vector(imaginary, length=tg.static(r * count)),
        )
        if tg.static(swap_input):
            re, im = im, re
    else:
        gap = tg.static(row_padding(rows, r * m, m) if s == 1 else 0)
        if tg.static(gap > 0):
            padded = tg.tile_empty(
                shape=(rows, tg.static(r * m + gap)), dtype=type(x[0, 0]), storage="shared"
            )
            tg.tile_assign(padded, tg.tile_reshape(x, (rows, tg.static(r * m))), (0, 0))
        for i in tg.unrolled(count):
            # Threads without a butterfly read the inputs of the last one.
            butterfly = tg.min(lane + i * threads, total - 1)
            row, p, q = butterfly // stride, butterfly % stride // s, butterfly % s
            for k in tg.unrolled(r):
                at = k * count + i
                z = padded[row, p + k * m] if tg.static(gap > 0) else x[row * (r * m) + p + k * m, q]
                re[at], im[at] = z[1 if swap_input else 0], z[0 if swap_input else 1]
        re_tile, im_tile = tg.tile(re), tg.tile(im)
        re, im = tg.untile(re_tile), tg.untile(im_tile)
    return re, im


@part
def _tile_results_in_registers(re, im, r, stride, size):
    """The tile of the results of the last stage, which are `stride` apart and stay in registers: result k of
    butterfly i of a thread is element k * count + i."""
    threads, zero, count = tg.group_size(), type(re[0])(0.0), tg.static(re.shape[0] // r)
    rows = tg.static(size // (r * stride))
    shape, grid = tg.static(distribution(rows, r, stride, threads))
    if tg.static(len(shape) > 1):
        slots = tg.static((r, count) if rows == 1 else (r * count, 1))
        re, im = (
            tg.matrix(re, shape=slots, dtype=type(zero)),
            tg.matrix(im, shape=slots, dtype=type(zero)),
        )
    real, imaginary = tg.tile_from_local(re, grid, shape), tg.tile_from_local(im, grid, shape)
    return tg.tile_reshape(tg.tile_map(tg._tile_complex, real, imaginary), (size,))


@part
def _tile_multiply_by_table(z, parts, k):
    """A complex number times element k of a table of complex numbers, whose parts are the last dimension."""
    w = tg.table(parts, type(z[0]))
    c, d = w[k, 0], w[k, 1]
    return tg.vector(z[0] * c - z[1] * d, z[0] * d + z[1] * c)


@part
def _tile_multiply_by_table(z, parts, k, p):
    w = tg.table(parts, type(z[0]))
    c, d = w[k, p, 0], w[k, p, 1]
    return tg.vector(z[0] * c - z[1] * d, z[0] * d + z[1] * c)


@part
def _tile_twiddled(z, parts, k, p):
    """A complex number times power k of root p. Powers that are not multiples of 4 are products of two, so that threads
    read fewer rows of the table."""
    remainder = k % 4
    if k >= 4:
        z = tg._tile_multiply_by_table(z, parts, k - remainder, p)
    if remainder > 0:
        z = tg._tile_multiply_by_table(z, parts, remainder, p)
    return z


@part
def _tile_complex_product(z, w):
    """The product of two complex numbers."""
    return tg.vector(z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0])


@part
def _tile_swapped_product(z, w):
    """The product of two complex numbers, the first of which has its parts exchanged."""
    return tg._tile_complex_product(tg._tile_swap_parts(z), w)


@part
def _tile_swap_parts(z):
    """A complex number with its real and imaginary parts exchanged."""
    return tg.vector(z[1], z[0])


@part
def _tile_real_part(z):
    """The real part of a complex number."""
    return z[0]


@part
def _tile_imaginary_part(z):
    """The imaginary part of a complex number."""
    return z[1]


@part
def _tile_butterflies(re, im, r, m, s, count):
    """The results of `count` butterflies of a thread times twiddle factors: result k of butterfly i is element k *
    count + i."""
    lane, threads = tg.group_lane(), tg.group_size()
    for i in tg.unrolled(count):
        p = (lane + i * threads) % (m * s) // s
        u, v = tg._tile_butterfly_of(re, im, i, r, count)
        for k in tg.unrolled(r):
            position = tg.table(tg.static(output_position(r)))[k]
            z = tg.vector(u[position], v[position])
            if tg.static(m > 1):
                z = tg._tile_twiddled(z, tg.static(twiddles(r, m)), k, p)
            at = k * count + i
            re[at], im[at] = z[0], z[1]
    return re, im


@part
def _tile_exchange(x, r, m, s, following, size):
    """The inputs of the next stage, of radix `following`, from the results of a stage: one real number of each
    element."""
    lane, threads, zero = tg.group_lane(), tg.group_size(), type(x[0])(0.0)
    count, next_count = tg.static(size // (r * threads)), tg.static(size // (following * threads))
    next_m, next_s = tg.static(m // following), tg.static(r * s)
    buffer = tg.tile_empty(
        shape=(tg.static(size // (r * s)), tg.static(r * s + padding(r, m, s, WARP))),
        dtype=type(x[0]),
        storage="shared",
    )
    for i in tg.unrolled(count):
        butterfly = lane + i * threads
        row, p, q = butterfly // (m * s), butterfly % (m * s) // s, butterfly % s
        for k in tg.unrolled(r):
            buffer[row * m + p, k * s + q] = x[k * count + i]
    y = tg.vector(zero, length=tg.static(size // threads))
    for i in tg.unrolled(next_count):
        butterfly = lane + i * threads
        row, p, q = (
            butterfly // (next_m * next_s),
            butterfly % (next_m * next_s) // next_s,
            butterfly % next_s,
        )
        for k in tg.unrolled(following):
            y[k * next_count + i] = buffer[row * m + p + k * next_m, q]
    y_tile = tg.tile(y)
    return tg.untile(y_tile)


@part
def _tile_complex(re, im):
    """The complex number of a real and an imaginary part."""
    return tg.vector(re, im)


@tile_fft.reference
def fft_reference(inout):
    return np.fft.fft(inout, axis=-1)


@tile_ifft.reference
def ifft_reference(inout):
    return np.fft.ifft(inout, axis=-1) * inout.shape[-1]


def fft_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles of complex numbers."""
    for n in (1, 2, 5, 16):
        yield Sample(complex_numbers(rng, n).astype(np.complex64), differentiable=n == 5)
    yield Sample(complex_numbers(rng, 2, 3, 12), differentiable=True)
    yield Sample(complex_numbers(rng, 3, 40).astype(np.complex64))
    yield Sample(complex_numbers(rng, 17).astype(np.complex64))
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("vec2", "float32"))


def complex_numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random complex numbers."""
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


tile_fft.samples(fft_samples)
tile_ifft.samples(fft_samples)
