"""Singular values by reduction to a bidiagonal matrix, for `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.rotations import LATE_STEPS, MAX_STEPS
from tegula.types import int32

M, N, ONE = Extent("M"), Extent("N"), 1


@cooperative
def _tile_svd_by_chunks(
    a: Tile[Real, M, N], width: constexpr[int]
) -> tuple[Tile[Real, M, N], Tile[Real, N], Tile[Real, N, N], Tile[int32, ONE]]:
    """The decomposition of a matrix with at least as many rows as columns. Rows are reflected and rotated in chunks of
    `width` elements; whole rows if `width` is 0."""
    m, n = a.shape
    size = tg.static(min(width, n) if width else 2 * n + m)
    left = tg.static(-(-n // size) * size if width else n)
    right = tg.static(left + (-(-m // size) * size if width else m))
    row_index, column_index = tg.tile_arange(m, dtype=int), tg.tile_arange(n, dtype=int)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    # The columns of the matrix, of u.T and of v.T.
    matrix = tg.tile_empty(shape=(m, tg.static(right + left)), dtype=type(one), storage="shared")
    tg.tile_assign(matrix, a, (0, 0))
    scale, has_nan = tg._tile_scaled_rows(matrix, n, left, right, width)
    # The matrix u.T @ a @ v is bidiagonal: element 2 k of `band` is above the diagonal in column k, the next element on
    # the diagonal.
    band = tg.tile_zeros(shape=tg.static(2 * n), dtype=type(one))
    reflectors, scales = (
        tg.tile_zeros(shape=tg.static(2 * m), dtype=type(one)),
        tg.tile_zeros(shape=2, dtype=type(one)),
    )
    largest = zero
    for k in range(n):
        # The reflection that eliminates column k reflects rows of the matrix and of u.T, that of row k - 1 rows of v.T.
        column = tg.where(row_index >= k, matrix[:, k], zero)
        squared_norm, head = tg._tile_product_sum(column, column, k, width), matrix[k, k]
        reflected = tg._tile_reflected(squared_norm, head)
        band[2 * k + 1] = reflected
        scales[0] = tg._tile_reflection_scale(squared_norm, head)
        largest = tg.max(largest, squared_norm)
        reflectors[:m] = tg.where(row_index == k, column - reflected, column)
        if width > 0:
            for chunk in range(k // size, tg.static((right + left) // size)):
                tg._tile_reflect(matrix, reflectors, scales, k, chunk * size, size, right, 2, width)
        else:
            tg._tile_reflect(matrix, reflectors, scales, k, 0, n, right, 1, 0)
            tg._tile_reflect(matrix, reflectors, scales, k, n, m + n, right, 2, 0)
        if k < n - 1:
            row = tg.where(column_index > k, matrix[k, :n], zero)
            squared_norm, head = tg._tile_product_sum(row, row, k + 1, width), matrix[k, k + 1]
            reflected = tg._tile_reflected(squared_norm, head)
            band[2 * k + 2] = reflected
            scales[1] = tg._tile_reflection_scale(squared_norm, head)
            largest = tg.max(largest, squared_norm)
            reflector = tg.where(column_index == k + 1, row - reflected, row)
            reflectors[m : m + n] = reflector
            for j in range(k + 1, m):
                row = tg.copy(matrix[j, :n])
                matrix[j, :n] = row - reflector * (scales[1] * tg.tile_sum(row * reflector)[0])
    # QR iterations with implicit shifts.
    cosines, sines = (
        tg.tile_zeros(shape=tg.static(2 * n), dtype=type(one)),
        tg.tile_zeros(shape=tg.static(2 * n), dtype=type(one)),
    )
    tiny = tg._tile_tiny(one)
    epsilon = tg._tile_epsilon(one)
    norm = tg.sqrt(largest)
    negligible = epsilon * epsilon * norm
    step, max_steps = 0, tg.static(MAX_STEPS * n)
    for converged in range(n - 1):
        last = n - 1 - converged
        while (
            not tg.abs(band[2 * last])
            <= epsilon * (tg.abs(band[2 * last + 1]) + tg.abs(band[2 * last - 1])) + negligible
        ) and step < max_steps:
            # `first`: the first column of the unreduced block that ends at `last`, which has no 0 above the diagonal.
            first, x = 0, band[1]
            smallest, largest = tg.abs(x), tg.abs(x)
            for k in range(1, last):
                value, previous, above = tg.abs(band[2 * k + 1]), tg.abs(band[2 * k - 1]), tg.abs(band[2 * k])
                is_first = above <= epsilon * (value + previous) + negligible
                first, x = tg.where(is_first, k, first), tg.where(is_first, band[2 * k + 1], x)
                smallest = tg.where(is_first, value, tg.min(smallest, value))
                largest = tg.where(is_first, value, tg.max(tg.max(largest, value), above))
            z, y, h = band[2 * last + 1], band[2 * last - 1], band[2 * last]
            # The shift is 0 for a nearly singular block, else Wilkinson's shift of block.T @ block.
            smallest, largest = tg.min(smallest, tg.abs(z)), tg.max(tg.max(largest, tg.abs(z)), tg.abs(h))
            is_singular = smallest <= epsilon * largest
            g = tg.where(last - 1 > first, band[2 * last - 2], zero)
            f = ((y - z) * (y + z) + (g - h) * (g + h)) / (2.0 * h * y)
            r = tg.sqrt(f * f + one)
            f = ((x - z) * (x + z) + h * (y / (f + tg.where(f < zero, -r, r)) - h)) / x
            f = tg.where(is_singular, x, f)
            # The rotation of columns k and k + 1, in step 2 k, creates a bulge below the diagonal, which the rotation
            # of rows k and k + 1, in the next step, moves above the diagonal. Both change the band alike.
            c, s, p = one, one, band[1]
            for k in range(2 * last):
                is_active, element = k >= 2 * first, band[k + 2]
                q, g = c * element, s * element
                squared_length = f * f + g * g
                is_null = squared_length <= tiny
                length = tg.sqrt(tg.where(is_null, one, squared_length))
                inverse = one / length
                next_c, next_s = tg.where(is_null, one, f * inverse), tg.where(is_null, zero, g * inverse)
                length = tg.where(k == 2 * first, zero, tg.where(is_null, f, length))
                band[k] = tg.where(is_active, length, band[k])
                f = tg.where(is_active, next_c * p + next_s * q, f)
                p = tg.where(is_active, next_c * q - next_s * p, element)
                c, s = tg.where(is_active, next_c, one), tg.where(is_active, next_s, one)
                cosines[k], sines[k] = c, tg.where(is_active, next_s, zero)
            band[2 * last], band[2 * last + 1] = f, p
            if width > 0:
                for chunk in range(tg.static(right // size)):
                    tg._tile_rotate(matrix, cosines, sines, last, left + chunk * size, size, right, 2, width)
            else:
                tg._tile_rotate(matrix, cosines, sines, last, n, m + n, right, 2, 0)
            step += 1
            # Rounding errors of large elements may stay above the precision of small ones.
            negligible = tg.where(step >= tg.static(LATE_STEPS * n), epsilon * norm / 2.0, negligible)
    is_failed = has_nan | (step == max_steps)
    values = tg.copy(tg.tile_reshape(band, (n, 2))[:, 1])
    rows, s = tg._tile_sorted_rows(matrix, values, scale, is_failed, left, right, width, True)
    vt = rows[:, right - left : right - left + n]
    return tg.tile_transpose(rows[:, :m]), s, vt, tg.tile_full(shape=1, value=tg.where(is_failed, 1, 0))
