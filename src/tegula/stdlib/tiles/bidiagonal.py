"""Singular values by reduction to a bidiagonal matrix, for `tile_svd`."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.rotations import MAX_STEPS
from tegula.types import int32

M, N, ONE = Extent("M"), Extent("N"), 1


@cooperative
def _tile_bidiagonal(
    a: Tile[Real, M, N],
) -> tuple[Tile[Real, N], Tile[Real, N], Tile[Real, M, N], Tile[Real, N, N]]:
    """Reduces a matrix with M >= N to the upper bidiagonal matrix u.T @ a @ v by Householder reflections. Returns the
    diagonal, the superdiagonal, whose element k is in column k, u and v."""
    m, n = a.shape
    row_index, column_index = tg.tile_arange(m, dtype=int), tg.tile_arange(n, dtype=int)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    matrix = tg.copy(a)
    # Row k of `left_reflectors` (`right_reflectors`) is the Householder vector that eliminates column (row) k.
    left_reflectors, right_reflectors = (
        tg.tile_zeros(shape=(n, m), dtype=type(one)),
        tg.tile_zeros(shape=(n, n), dtype=type(one)),
    )
    diagonal, superdiagonal, left_scales, right_scales = (
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
    )
    for k in range(n):
        column = tg.where(row_index >= k, matrix[:, k], zero)
        squared_norm, head = tg.tile_sum(column * column)[0], matrix[k, k]
        reflected, scale = (
            tg._tile_reflected(squared_norm, head),
            tg._tile_reflection_scale(squared_norm, head),
        )
        diagonal[k], left_scales[k] = reflected, scale
        left_reflectors[k, :] = tg.where(row_index == k, column - reflected, column)
        inner_products = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner_products = inner_products + matrix[j, :] * left_reflectors[k, j]
        inner_products = inner_products * scale
        for j in range(k, m):
            matrix[j, :] = matrix[j, :] - inner_products * left_reflectors[k, j]
        if k < n - 1:
            row = tg.where(column_index > k, matrix[k, :], zero)
            squared_norm, head = tg.tile_sum(row * row)[0], matrix[k, k + 1]
            reflected, scale = (
                tg._tile_reflected(squared_norm, head),
                tg._tile_reflection_scale(squared_norm, head),
            )
            superdiagonal[k + 1], right_scales[k] = reflected, scale
            reflector = tg.where(column_index == k + 1, row - reflected, row)
            right_reflectors[k, :] = reflector
            for j in range(k + 1, m):
                matrix_row = matrix[j, :]
                matrix[j, :] = matrix_row - reflector * (scale * tg.tile_sum(matrix_row * reflector)[0])
    u = tg._tile_product_of_reflections(left_reflectors, left_scales)
    v = tg._tile_product_of_reflections(right_reflectors, right_scales)
    return diagonal, superdiagonal, u, v


@cooperative
def _tile_bidiagonal_svd(
    d: Tile[Real, N], e: Tile[Real, N], u: Tile[Real, M, N], v: Tile[Real, N, N], width: constexpr[int]
) -> tuple[Tile[Real, N], Tile[Real, N, M], Tile[Real, N, N], Tile[int32, ONE]]:
    """The singular values of an upper bidiagonal matrix, with signs, by QR iterations with implicit shifts; the rotated
    columns of `u` and of `v`, as rows; and 1 if a singular value did not converge, else 0. `d`: the diagonal; `e`: the
    superdiagonal, whose element k is in column k."""
    m, n = u.shape
    one, zero = type(d[0])(1.0), type(d[0])(0.0)
    diagonal, superdiagonal = tg.copy(d), tg.copy(e)
    left_cosines, left_sines = (
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
    )
    cosines, sines = tg.tile_zeros(shape=n, dtype=type(one)), tg.tile_zeros(shape=n, dtype=type(one))
    left = tg.copy(tg._tile_chunks(tg.tile_transpose(u), tg.static(min(width, m))))
    right = tg.copy(tg._tile_chunks(tg.tile_transpose(v), tg.static(min(width, n))))
    tiny = tg._tile_tiny(one)
    epsilon = tg._tile_epsilon(one)
    negligible = epsilon * epsilon * tg.tile_max(tg.max(tg.abs(d), tg.abs(e)))[0]
    step, max_steps = 0, tg.static(MAX_STEPS * n)
    for converged in range(n - 1):
        last = n - 1 - converged
        while (
            not tg.abs(superdiagonal[last])
            <= epsilon * (tg.abs(diagonal[last]) + tg.abs(diagonal[last - 1])) + negligible
        ) and step < max_steps:
            # `first`: the first column of the unreduced block that ends at `last`, whose superdiagonal has no 0.
            first, x = 0, diagonal[0]
            smallest, largest = tg.abs(x), tg.abs(x)
            for k in range(1, last):
                value, previous = tg.abs(diagonal[k]), tg.abs(diagonal[k - 1])
                is_first = tg.abs(superdiagonal[k]) <= epsilon * (value + previous) + negligible
                first, x = tg.where(is_first, k, first), tg.where(is_first, diagonal[k], x)
                smallest = tg.where(is_first, value, tg.min(smallest, value))
                largest = tg.where(is_first, value, tg.max(largest, value))
            z = diagonal[last]
            # The shift is 0 for a singular block, else Wilkinson's shift of block.T @ block.
            smallest, largest = tg.min(smallest, tg.abs(z)), tg.max(largest, tg.abs(z))
            is_singular = smallest <= epsilon * largest
            y, h = diagonal[last - 1], superdiagonal[last]
            g = tg.where(last - 1 > first, superdiagonal[last - 1], zero)
            f = ((y - z) * (y + z) + (g - h) * (g + h)) / (2.0 * h * y)
            r = tg.sqrt(f * f + one)
            f = ((x - z) * (x + z) + h * (y / (f + tg.where(f < zero, -r, r)) - h)) / x
            f = tg.where(is_singular, x, f)
            # The rotation of columns k and k + 1 creates a bulge below the diagonal, which a rotation of rows
            # eliminates.
            c, s, current = one, one, diagonal[0]
            for k in range(last):
                is_active = k >= first
                between, below = c * superdiagonal[k + 1], diagonal[k + 1]
                g = s * superdiagonal[k + 1]
                squared_length = f * f + g * g
                is_null = squared_length <= tiny
                length = tg.sqrt(tg.where(is_null, one, squared_length))
                inverse = one / length
                right_c, right_s = tg.where(is_null, one, f * inverse), tg.where(is_null, zero, g * inverse)
                length = tg.where(is_null, f, length)
                superdiagonal[k] = tg.where(is_active, tg.where(k == first, zero, length), superdiagonal[k])
                f_row, g_row = right_c * current + right_s * between, right_s * below
                between, below_row = right_c * between - right_s * current, right_c * below
                squared_length = f_row * f_row + g_row * g_row
                is_null = squared_length <= tiny
                length = tg.sqrt(tg.where(is_null, one, squared_length))
                inverse = one / length
                left_c, left_s = (
                    tg.where(is_null, one, f_row * inverse),
                    tg.where(is_null, zero, g_row * inverse),
                )
                diagonal[k] = tg.where(is_active, tg.where(is_null, f_row, length), diagonal[k])
                current = tg.where(is_active, left_c * below_row - left_s * between, below)
                f = tg.where(is_active, left_c * between + left_s * below_row, f)
                c, s = tg.where(is_active, left_c, c), tg.where(is_active, left_s, s)
                cosines[k], sines[k] = tg.where(is_active, right_c, one), tg.where(is_active, right_s, zero)
                left_cosines[k], left_sines[k] = (
                    tg.where(is_active, left_c, one),
                    tg.where(is_active, left_s, zero),
                )
            diagonal[last], superdiagonal[last] = current, f
            for chunk in range(tg.static(left.shape[1])):
                low = tg.copy(left[0, chunk, :])
                for k in range(last):
                    high = left[k + 1, chunk, :]
                    left[k, chunk, :] = low * left_cosines[k] + high * left_sines[k]
                    low = high * left_cosines[k] - low * left_sines[k]
                left[last, chunk, :] = low
            for chunk in range(tg.static(right.shape[1])):
                low = tg.copy(right[0, chunk, :])
                for k in range(last):
                    high = right[k + 1, chunk, :]
                    right[k, chunk, :] = low * cosines[k] + high * sines[k]
                    low = high * cosines[k] - low * sines[k]
                right[last, chunk, :] = low
            step += 1
    return (
        diagonal,
        tg.tile_reshape(left, (n, -1))[:, :m],
        tg.tile_reshape(right, (n, -1))[:, :n],
        tg.tile_full(shape=1, value=tg.where(step == max_steps, 1, 0)),
    )
