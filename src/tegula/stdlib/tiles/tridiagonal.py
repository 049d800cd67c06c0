"""Eigenvalues by reduction to a tridiagonal matrix, for `tile_eigh`."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.rotations import MAX_STEPS
from tegula.types import int32

N, ONE = Extent("N"), 1


@cooperative
def _tile_tridiagonal(
    a: Tile[Real, N, N],
) -> tuple[Tile[Real, N], Tile[Real, N], Tile[Real, N, N]]:
    """Reduces a symmetric matrix to the tridiagonal matrix q.T @ a @ q by Householder reflections. Returns the
    diagonal, the superdiagonal, whose element k is in column k, and q."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    # Row k of the matrix is overwritten by the Householder vector of step k.
    matrix = tg.copy(a)
    diagonal, superdiagonal, scales = (
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
        tg.tile_zeros(shape=n, dtype=type(one)),
    )
    for k in range(n - 1):
        row = tg.where(index > k, matrix[k, :], zero)
        squared_norm, head = tg.tile_sum(row * row)[0], matrix[k, k + 1]
        reflected, scale = (
            tg._tile_reflected(squared_norm, head),
            tg._tile_reflection_scale(squared_norm, head),
        )
        reflector = tg.where(index == k + 1, row - reflected, row)
        diagonal[k], superdiagonal[k + 1], scales[k] = matrix[k, k], reflected, scale
        matrix[k, :] = reflector
        product = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k + 1, n):
            product = product + matrix[j, :] * matrix[k, j]
        product = product * scale
        inner = tg.tile_sum(product * reflector)[0]
        update = product - reflector * (0.5 * scale * inner)
        for j in range(k + 1, n):
            matrix[j, :] = matrix[j, :] - (update * matrix[k, j] + reflector * update[j])
    diagonal[n - 1] = matrix[n - 1, n - 1]
    matrix[n - 1, :] = tg.tile_zeros(shape=n, dtype=type(one))
    return diagonal, superdiagonal, tg._tile_product_of_reflections(matrix, scales)


@cooperative
def _tile_tridiagonal_eigen(
    d: Tile[Real, N], e: Tile[Real, N], q: Tile[Real, N, N], width: constexpr[int]
) -> tuple[Tile[Real, N], Tile[Real, N, N], Tile[int32, ONE]]:
    """The eigenvalues of a tridiagonal matrix by QR iterations with implicit shifts; the rotated columns of `q`, as
    rows; and 1 if an eigenvalue did not converge, else 0. `d`: the diagonal; `e`: the superdiagonal, whose element k is
    in column k."""
    n = d.shape[0]
    one, zero = type(d[0])(1.0), type(d[0])(0.0)
    diagonal, superdiagonal = tg.copy(d), tg.copy(e)
    cosines, sines = tg.tile_zeros(shape=n, dtype=type(one)), tg.tile_zeros(shape=n, dtype=type(one))
    vectors = tg.copy(tg._tile_chunks(tg.tile_transpose(q), tg.static(min(width, n))))
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
            for chunk in range(tg.static(vectors.shape[1])):
                low = tg.copy(vectors[0, chunk, :])
                for k in range(last):
                    high = vectors[k + 1, chunk, :]
                    vectors[k, chunk, :] = low * cosines[k] + high * sines[k]
                    low = high * cosines[k] - low * sines[k]
                vectors[last, chunk, :] = low
            step += 1
    rows = tg.tile_reshape(vectors, (n, -1))[:, :n]
    return diagonal, rows, tg.tile_full(shape=1, value=tg.where(step == max_steps, 1, 0))
