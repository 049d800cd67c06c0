"""Eigenvalues by reduction to a tridiagonal matrix, for `tile_eigh`."""

from __future__ import annotations

from tegula.declaration import cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.cholesky import FillMode
from tegula.stdlib.tiles.rotations import MAX_STEPS
from tegula.types import int32

N, M, ONE = Extent("N"), Extent("M"), 1


@part
def _tile_update(matrix: Tile[Real, N, M], x, y, k, first, size: constexpr[int]):
    """Subtracts the products of x and y and of y and x from the rows from k on, in `size` columns from `first` on."""
    x_part, y_part = tg.copy(tg.tile_view(x, (first,), (size,))), tg.copy(tg.tile_view(y, (first,), (size,)))
    for j in range(k, matrix.shape[0]):
        matrix_row = tg.tile_view(matrix, (j, first), (size,))
        tg.tile_assign(matrix_row, matrix_row - (x_part * y[j] + y_part * x[j]), 0)


@cooperative
def _tile_eigh_by_chunks(
    a: Tile[Real, N, N], fill_mode: FillMode, width: constexpr[int]
) -> tuple[Tile[Real, N], Tile[Real, N, N], Tile[int32, ONE]]:
    """The decomposition of a symmetric matrix. Rows are reflected and rotated in chunks of `width` elements; whole rows
    if `width` is 0."""
    n = a.shape[0]
    size = tg.static(min(width, n) if width else 2 * n)
    left = tg.static(-(-n // size) * size if width else n)
    index = tg.tile_arange(n, dtype=int)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    # The columns of the matrix and of v.T.
    matrix = tg.tile_empty(shape=(n, tg.static(2 * left)), dtype=type(one), storage="shared")
    tg.tile_assign(matrix, a, (0, 0))
    for k in tg._rolled(n):
        is_read = index <= k if fill_mode == "lower" else index >= k
        matrix[k, :n] = tg.where(is_read, matrix[k, :n], matrix[:, k])
    scale, has_nan = tg._tile_scaled_rows(matrix, n, left, left, width)
    # The matrix v.T @ a @ v is tridiagonal; element k of the superdiagonal is in column k.
    diagonal, superdiagonal = tg.tile_zeros(shape=n, dtype=type(one)), tg.tile_zeros(shape=n, dtype=type(one))
    updates, reflector = (
        tg.tile_zeros(shape=tg.static(2 * left), dtype=type(one)),
        tg.tile_zeros(shape=tg.static(2 * left), dtype=type(one)),
    )
    for k in range(n - 1):
        row = tg.where(index > k, matrix[k, :n], zero)
        squared_norm, head = tg._tile_product_sum(row, row, k + 1, width), matrix[k, k + 1]
        diagonal[k], superdiagonal[k + 1] = matrix[k, k], tg._tile_reflected(squared_norm, head)
        reflection_scale = tg._tile_reflection_scale(squared_norm, head)
        row = tg.where(index == k + 1, row - superdiagonal[k + 1], row)
        reflector[:n] = row
        if width > 0:
            for chunk in range((k + 1) // size, tg.static(2 * left // size)):
                first = chunk * size
                sums = tg._tile_sum_of_rows(matrix, reflector, k + 1, first, size, 0, 0, width)
                tg.tile_assign(updates, sums * reflection_scale, first)
        else:
            sums = tg._tile_sum_of_rows(matrix, reflector, k + 1, 0, size, 0, 0, 0)
            updates[:] = sums * reflection_scale
        # Both sides of the matrix are reflected, and rows of v.T.
        inner = tg._tile_product_sum(updates[:n], row, k + 1, width)
        updates[:n] = updates[:n] - row * (0.5 * reflection_scale * inner)
        if width > 0:
            for chunk in range((k + 1) // size, tg.static(2 * left // size)):
                tg._tile_update(matrix, updates, reflector, k + 1, chunk * size, size)
        else:
            tg._tile_update(matrix, updates, reflector, k + 1, 0, size)
    diagonal[n - 1] = matrix[n - 1, n - 1]
    # QR iterations with implicit shifts.
    cosines, sines = (
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
    )
    epsilon, tiny = tg._tile_epsilon(one), tg._tile_tiny(one)
    negligible = epsilon * epsilon
    step, max_steps = 0, tg.static(MAX_STEPS * n)
    for converged in range(n - 1):
        last = n - 1 - converged
        while (
            not tg.abs(superdiagonal[last])
            <= epsilon * (tg.abs(diagonal[last]) + tg.abs(diagonal[last - 1])) + negligible
        ) and step < max_steps:
            # `first`: the first column of the unreduced block that ends at `last`, whose superdiagonal has no 0.
            first, top = 0, diagonal[0]
            for k in range(1, last):
                is_small = (
                    tg.abs(superdiagonal[k])
                    <= epsilon * (tg.abs(diagonal[k]) + tg.abs(diagonal[k - 1])) + negligible
                )
                first, top = tg.where(is_small, k, first), tg.where(is_small, diagonal[k], top)
            # Wilkinson's shift.
            bottom, corner = diagonal[last], superdiagonal[last]
            g = (diagonal[last - 1] - bottom) / (2.0 * corner)
            r = tg.sqrt(g * g + one)
            g = top - bottom + corner / (g + tg.where(g < zero, -r, r))
            c, s, p = one, one, zero
            for k in range(last):
                f, b = s * superdiagonal[k + 1], c * superdiagonal[k + 1]
                squared_length = f * f + g * g
                is_null, is_active = squared_length <= tiny, k >= first
                length = tg.sqrt(tg.where(is_null, one, squared_length))
                inverse = one / length
                next_s = tg.where(is_null, zero, f * inverse)
                next_c = tg.where(is_null, one, g * inverse)
                shifted = diagonal[k] - p
                r = (diagonal[k + 1] - shifted) * next_s + 2.0 * next_c * b
                next_p = next_s * r
                length = tg.where(is_null, g, length)
                superdiagonal[k] = tg.where(is_active, tg.where(k == first, zero, length), superdiagonal[k])
                diagonal[k] = tg.where(is_active, shifted + next_p, diagonal[k])
                c, s, p = (
                    tg.where(is_active, next_c, c),
                    tg.where(is_active, next_s, s),
                    tg.where(is_active, next_p, p),
                )
                g = tg.where(is_active, next_c * r - b, g)
                cosines[k], sines[k] = tg.where(is_active, c, one), tg.where(is_active, s, zero)
            diagonal[last], superdiagonal[last] = diagonal[last] - p, g
            if width > 0:
                for chunk in range(tg.static(left // size)):
                    tg._tile_rotate(matrix, cosines, sines, last, left + chunk * size, size, left, 1, width)
            else:
                tg._tile_rotate(matrix, cosines, sines, last, n, n, n, 1, 0)
            step += 1
    is_failed = has_nan | (step == max_steps)
    rows, w = tg._tile_sorted_rows(matrix, diagonal, scale, is_failed, left, left, width, False)
    return w, tg.tile_transpose(rows[:, :n]), tg.tile_full(shape=1, value=tg.where(is_failed, 1, 0))
