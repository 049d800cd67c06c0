"""Rotations of adjacent rows and Householder reflections, for `tile_eigh` and `tile_svd`."""

from __future__ import annotations

from math import inf, nan

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Key, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32, uint32, uint64

N, M = Extent("N"), Extent("M")
CHUNK = 8
"""The number of elements of a row that one thread rotates at a time, in registers."""
MAX_STEPS = 30
"""The maximum number of iterations of a decomposition, times the number of columns. An eigenvalue takes 1.8 iterations
on average, but the first eigenvalue of a graded matrix more than 30."""
LATE_STEPS = 10
"""The number of iterations, times the number of columns, after which elements up to the precision of the largest one
are negligible: the errors of the results are those of the largest singular value then."""


@part
def _tile_epsilon(x: float32):
    """The distance from 1 to the next larger number."""
    return float32(1.1920928955078125e-07)


@part
def _tile_epsilon(x: float64):
    return float64(2.220446049250313e-16)


@part
def _tile_magnitude(x: float32):
    """The bits of |x|, which have the order of the numbers; infinity and NaN are above all numbers."""
    return tg.bitcast(tg.abs(x), uint32)


@part
def _tile_magnitude(x: float64):
    return tg.bitcast(tg.abs(x), uint64)


@part
def _tile_scales(magnitude: uint32):
    """The largest power of two that is at most a number, by its magnitude, and its inverse, for numbers from 2**-126 to
    2**127; powers of two in this range for any other magnitude. Also whether the number is infinite or NaN."""
    bits = tg.max(tg.min(magnitude, uint32(253 << 23)) & uint32(0xFF << 23), uint32(1 << 23))
    inverse = tg.bitcast(uint32(254 << 23) - bits, float32)
    return tg.bitcast(bits, float32), inverse, magnitude >= uint32(0xFF << 23)


@part
def _tile_scales(magnitude: uint64):
    bits = tg.max(tg.min(magnitude, uint64(2045 << 52)) & uint64(0x7FF << 52), uint64(1 << 52))
    inverse = tg.bitcast(uint64(2046 << 52) - bits, float64)
    return tg.bitcast(bits, float64), inverse, magnitude >= uint64(0x7FF << 52)


@part
def _tile_signed_magnitude(x: float32):
    """The magnitude and the sign of x, in an integer that is larger for +x than for -x."""
    bits = tg.bitcast(x, uint32)
    return (bits << uint32(1)) | (~bits >> uint32(31))


@part
def _tile_signed_magnitude(x: float64):
    bits = tg.bitcast(x, uint64)
    return (bits << uint64(1)) | (~bits >> uint64(63))


@part
def _tile_sign(signed_magnitude: uint32):
    """1 or -1, the sign of a number by its signed magnitude."""
    return tg.where((signed_magnitude & uint32(1)) == uint32(0), float32(-1.0), float32(1.0))


@part
def _tile_sign(signed_magnitude: uint64):
    return tg.where((signed_magnitude & uint64(1)) == uint64(0), float64(-1.0), float64(1.0))


@part
def _tile_tiny(x):
    """The largest square that is treated as 0 in a matrix whose largest element is 1; larger squares are far from
    subnormal numbers."""
    square = tg._tile_epsilon(x) * tg._tile_epsilon(x)
    return square * square


@part
def _tile_reflected(squared_norm, head):
    """The first element of a vector after its Householder reflection onto the first axis. `squared_norm`: of the
    vector; `head`: its first element."""
    length = tg.where(
        squared_norm <= tg._tile_tiny(squared_norm), type(squared_norm)(0.0), tg.sqrt(squared_norm)
    )
    return tg.where(head > 0.0, -length, length)


@part
def _tile_reflection_scale(squared_norm, head):
    """2 / |u|**2 for the Householder vector u, a vector minus its reflection; 0 for the zero vector."""
    is_null = squared_norm <= tg._tile_tiny(squared_norm)
    divisor = squared_norm + tg.abs(head) * tg.sqrt(squared_norm)
    return tg.where(
        is_null, type(squared_norm)(0.0), 1.0 / tg.where(is_null, type(squared_norm)(1.0), divisor)
    )


@part
def _tile_largest(keys: Tile[Key, N], width: constexpr[int]):
    """The largest element. In blocks of one thread a loop is shorter than a reduction."""
    if width == 0:
        return tg.tile_max(keys)[0]
    largest = keys[0]
    for k in tg._rolled(1, keys.shape[0]):
        largest = tg.max(largest, keys[k])
    return largest


@part
def _tile_product_sum(x: Tile[Real, N], y, first, width: constexpr[int]):
    """The inner product of two vectors, whose elements before `first` are 0."""
    if width == 0:
        return tg.tile_sum(x * y)[0]
    total = type(x[0])(0.0)
    for k in range(first, x.shape[0]):
        total = total + x[k] * y[k]
    return total


@part
def _tile_scaled_rows(
    matrix: Tile[Real, M, N],
    n: constexpr[int],
    left: constexpr[int],
    right: constexpr[int],
    width: constexpr[int],
):
    """Scales the first n columns of `matrix` by a power of two, so that squares neither overflow nor underflow, or
    replaces them by 0 if one has a NaN or an infinity, and fills the others with identity matrices from the columns
    `left` and `right` on. Returns the factor of the original matrix and whether it was replaced."""
    zero = type(matrix[0, 0])(0.0)
    magnitudes = tg._tile_magnitude(matrix[0, :n])
    for k in tg._rolled(matrix.shape[0]):
        magnitudes = tg.max(magnitudes, tg._tile_magnitude(matrix[k, :n]))
    scale, inverse, is_replaced = tg._tile_scales(tg._tile_largest(magnitudes, width))
    columns = tg.tile_arange(n, matrix.shape[1], dtype=int)
    # The row of the element of a column that is 1.
    period = tg.static(right - left or matrix.shape[1] - left)
    row_of_one = tg.where(columns < left, -1, (columns - left) % period)
    for k in tg._rolled(matrix.shape[0]):
        matrix[k, :n] = tg.where(is_replaced, zero, matrix[k, :n] * inverse)
        matrix[k, n:] = tg.where(row_of_one == k, type(zero)(1.0), zero)
    return scale, is_replaced


@part
def _tile_side(first, size: constexpr[int], right: constexpr[int], width: constexpr[int]):
    """The side of the elements of a row from `first` on: the left side is before element `right`. In chunks, 0 or 1 for
    all elements; else whether each element is on the right side."""
    return tg.where(first >= right, 1, 0) if width > 0 else first + tg.tile_arange(size, dtype=int) >= right


@part
def _tile_of_side(pairs: Tile[Real, N], place, offset: constexpr[int], side, width: constexpr[int]):
    """The element at `place` for elements on the left side, and at `place + offset` for others."""
    if offset == 0:
        return pairs[place]
    return pairs[place + side * offset] if width > 0 else tg.where(side, pairs[place + offset], pairs[place])


@part
def _tile_sum_of_rows(
    matrix: Tile[Real, M, N],
    factors,
    k,
    first,
    size: constexpr[int],
    offset: constexpr[int],
    side,
    width: constexpr[int],
):
    """The sum of rows from k on, in `size` columns from `first` on, times their factors (`_tile_of_side`)."""
    total = tg.tile_zeros(shape=size, dtype=type(matrix[0, 0]))
    for j in range(k, matrix.shape[0]):
        factor = tg._tile_of_side(factors, j, offset, side, width)
        total = total + tg.tile_view(matrix, (j, first), (size,)) * factor
    return total


@part
def _tile_reflect(
    matrix: Tile[Real, M, N],
    reflectors,
    scales,
    k,
    first,
    size: constexpr[int],
    right: constexpr[int],
    sides: constexpr[int],
    width: constexpr[int],
):
    """Reflects `size` columns from `first` on, in the rows from k on: on the left side by the first Householder vector
    in `reflectors` and the first of `scales`, on the right side by the second ones, if there are two sides."""
    side, m = tg._tile_side(first, size, right, width), matrix.shape[0]
    offset = tg.static(m * (sides - 1))
    products = tg._tile_sum_of_rows(matrix, reflectors, k, first, size, offset, side, width)
    products = products * tg._tile_of_side(scales, 0, tg.static(sides - 1), side, width)
    for j in range(k, m):
        row = tg.tile_view(matrix, (j, first), (size,))
        reflected = row - products * tg._tile_of_side(reflectors, j, offset, side, width)
        tg.tile_assign(row, reflected, 0)


@part
def _tile_rotate(
    matrix: Tile[Real, M, N],
    cosines,
    sines,
    last,
    first,
    size: constexpr[int],
    right: constexpr[int],
    sides: constexpr[int],
    width: constexpr[int],
):
    """Rotates rows k and k + 1 for k from 0 to last - 1, in `size` columns from `first` on. With two sides the
    rotations of each k are that of the right and that of the left side."""
    side = tg._tile_side(first, size, right, width)
    low = tg.copy(tg.tile_view(matrix, (0, first), (size,)))
    for k in range(last):
        place = sides * k + tg.static(sides - 1)
        cosine = tg._tile_of_side(cosines, place, tg.static(1 - sides), side, width)
        sine = tg._tile_of_side(sines, place, tg.static(1 - sides), side, width)
        high = tg.tile_view(matrix, (k + 1, first), (size,))
        tg.tile_assign(tg.tile_view(matrix, (k, first), (size,)), low * cosine + high * sine, 0)
        low = high * cosine - low * sine
    tg.tile_assign(tg.tile_view(matrix, (last, first), (size,)), low, 0)


@cooperative
def _tile_product_of_reflections(reflectors: Tile[Real, N, M], scales: Tile[Real, N]) -> Tile[Real, M, N]:
    """The first N columns of the product of the reflections I - scale * u @ u.T. `reflectors`: the Householder vectors
    u as rows; row k is 0 before element k."""
    n, m = reflectors.shape
    one, zero = type(scales[0])(1.0), type(scales[0])(0.0)
    rows, columns = (
        tg.tile_reshape(tg.tile_arange(m, dtype=int), (m, 1)),
        tg.tile_reshape(tg.tile_arange(n, dtype=int), (1, n)),
    )
    product = tg.copy(tg.where(rows == columns, one, zero))
    for step in range(n):
        k = n - 1 - step
        inner_products = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner_products = inner_products + product[j, :] * reflectors[k, j]
        inner_products = inner_products * scales[k]
        for j in range(k, m):
            product[j, :] = product[j, :] - inner_products * reflectors[k, j]
    return product


@cooperative
def _tile_ascending(keys: Tile[Real, N]) -> Tile[int32, N]:
    """The indices that sort keys in ascending order. The rank of a key is the number of keys that precede it."""
    n = keys.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    row_keys, column_keys = tg.tile_reshape(keys, (n, 1)), tg.tile_reshape(keys, (1, n))
    rank = tg.tile_sum(
        tg.where((row_keys < column_keys) | ((row_keys == column_keys) & (rows < columns)), 1, 0), axis=0
    )
    return tg.tile_sum(tg.where(tg.tile_reshape(rank, (n, 1)) == columns, rows, 0), axis=0)


@part
def _tile_sorted_rows(
    matrix: Tile[Real, M, N],
    values,
    scale,
    is_failed,
    left: constexpr[int],
    right: constexpr[int],
    width: constexpr[int],
    by_magnitude: constexpr[bool],
):
    """The rows of `matrix`, in the columns from `left` on, sorted by their values, in ascending order, or by magnitudes
    in descending order; and the values, multiplied by `scale`. Rows are negated so that the entry of largest magnitude
    from column `right` on is positive; the left part of a row takes the sign of its value, if magnitudes are sorted.
    Failed rows and values are NaN. Without chunks `matrix` and `values` are overwritten."""
    n = values.shape[0]
    zero, one = type(matrix[0, 0])(0.0), type(matrix[0, 0])(1.0)
    index = tg.tile_arange(n, dtype=int)
    keys = -tg.abs(values) if by_magnitude else tg.copy(values)
    rows, sorted_values = tg.tile_view(matrix, (0, left), (n, tg.static(matrix.shape[1] - left))), values
    if width > 0:
        order = tg._tile_ascending(keys)
        rows = tg.tile_empty(shape=rows.shape, dtype=type(one), storage="shared")
        sorted_values = tg.tile_zeros(shape=n, dtype=type(one))
    is_right = tg.tile_arange(tg.static(matrix.shape[1] - left), dtype=int) >= tg.static(right - left)
    one_or_nan = tg.where(is_failed, type(zero)(nan), one)
    for k in tg._rolled(n):
        if width > 0:
            place = tg.tile_view(order, (k,), (1,))
            row = tg.tile_slice_indexed(matrix[:, left:], place)[0]
            right_row, value = row[right - left : right - left + n], values[place][0]
        else:
            # Row k becomes the row of the smallest remaining key.
            remaining = tg.where(index >= k, keys, type(zero)(inf))
            smallest = tg.tile_min(remaining)[0]
            place = tg.min(tg.tile_min(tg.where(remaining == smallest, index, n))[0], n - 1)
            value, row = values[place], tg.copy(matrix[place, left:])
            right_row = tg.copy(matrix[place, right : right + n])
            matrix[place, left:] = matrix[k, left:]
            values[place], keys[place] = values[k], keys[k]
        sign = one_or_nan * tg._tile_sign(tg._tile_largest(tg._tile_signed_magnitude(right_row), width))
        if by_magnitude:
            rows[k, :] = row * tg.where(is_right, sign, tg.where(value < zero, -sign, sign))
            value = tg.abs(value)
        else:
            rows[k, :] = row * sign
        sorted_values[k] = value * scale * one_or_nan
    return rows, sorted_values
