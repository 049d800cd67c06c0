"""Decompositions of small matrices by Jacobi and Givens rotations, with closed-form adjoints."""

from __future__ import annotations

from typing import Any

from tegula.ops.documented import Family
from tegula.signature import InOut
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg

SWEEPS = 10
"""The number of sweeps over all pairs of columns; each sweep doubles the number of correct digits."""
FACTORS = Family(
    {},
    {
        **NOT_A_VALUE,
        "type-mismatch": "`A` is not a matrix of floats of this shape, or is a tile",
        "mixed-scalar-types": "`A` is a literal",
        "out-of-range": "a literal does not fit its dtype",
        "shape-mismatch": "the shapes of tiles do not broadcast",
    },
)
PAIRS = ((), (), ((0, 1),), ((0, 1), (0, 2), (1, 2)))
"""All pairs of columns, by the number of columns."""
EXCHANGED = ((), (), ((0, 1),), ((0, 1), (1, 2), (0, 1)))
"""The sorting network of the columns, by the number of columns."""


@composite()
def _half_angle(diagonal_p, diagonal_q, off):
    """The cosine and sine of the Jacobi rotation of rows and columns p and q that zeroes the entry `off` of a symmetric
    matrix."""
    one, zero = type(off)(1.0), type(off)(0.0)
    is_zero = off == zero
    ratio = (diagonal_q - diagonal_p) / tg.where(is_zero, one, off + off)
    t = tg.copysign(one / (tg.abs(ratio) + tg.sqrt(one + ratio * ratio)), ratio)
    c = one / tg.sqrt(one + t * t)
    return tg.where(is_zero, one, c), tg.where(is_zero, zero, c * t)


@composite()
def _largest_entry(a):
    """The largest magnitude of an entry of a matrix; 1 for the zero matrix."""
    size = tg.max(tg.abs(a))
    return tg.where(size > type(size)(0.0), size, type(size)(1.0))


@composite()
def _orthogonal_columns(a, v):
    """The matrix a @ v, whose columns are orthogonal, longest first, and the rotation v."""
    for _ in range(SWEEPS):
        for p, q in PAIRS[len(a)]:
            x, y = a[:, p], a[:, q]
            c, s = tg._half_angle(tg.dot(x, x), tg.dot(y, y), tg.dot(x, y))
            a[:, p] = c * x - s * y
            a[:, q] = s * x + c * y
            x, y = v[:, p], v[:, q]
            v[:, p] = c * x - s * y
            v[:, q] = s * x + c * y
    for p, q in EXCHANGED[len(a)]:
        x, y = a[:, p], a[:, q]
        if tg.dot(x, x) < tg.dot(y, y):
            a[:, p] = y
            a[:, q] = -x
            x, y = v[:, p], v[:, q]
            v[:, p] = y
            v[:, q] = -x
    return a, v


@composite()
def _orthogonal_unit(u):
    """A unit vector orthogonal to a unit vector of three components."""
    axis = type(u)(0.0)
    axis[tg.int32(tg.argmin(tg.abs(u)))] = type(u[0])(1.0)
    return tg.normalize(tg.cross(u, axis))


@composite()
def _normalize_or(v, fallback):
    """A normalised vector, or `fallback` if the length is 0."""
    return tg.where(tg.length_sq(v) > type(v[0])(0.0), tg.normalize(v), fallback)


@composite()
def _svd3(A):
    tg._require_matrix("svd3", A, 3)
    size = tg._largest_entry(A)
    b, v = tg._orthogonal_columns(A / size, tg.identity(3, dtype=type(size)))
    first = type(b[0])(0.0)
    first[0] = type(size)(1.0)
    u0 = tg._normalize_or(b[:, 0], first)
    residual = b[:, 1] - u0 * tg.dot(u0, b[:, 1])
    u1 = tg._normalize_or(residual - u0 * tg.dot(u0, residual), tg._orthogonal_unit(u0))
    u2 = tg.cross(u0, u1)
    sigma = tg.vector(tg.dot(u0, b[:, 0]), tg.dot(u1, b[:, 1]), tg.dot(u2, b[:, 2])) * size
    return tg.matrix_from_cols(u0, u1, u2), sigma, v


@composite()
def _svd2(A):
    tg._require_matrix("svd2", A, 2)
    size = tg._largest_entry(A)
    b, v = tg._orthogonal_columns(A / size, tg.identity(2, dtype=type(size)))
    first = type(b[0])(0.0)
    first[0] = type(size)(1.0)
    u0 = tg._normalize_or(b[:, 0], first)
    u1 = tg.vector(-u0[1], u0[0])
    along = tg.dot(u1, b[:, 1])
    if along < type(along)(0.0):
        u1, along = -u1, -along
    sigma = tg.vector(tg.dot(u0, b[:, 0]), along) * size
    return tg.matrix_from_cols(u0, u1), sigma, v


@composite()
def _reciprocal_gap(a, b):
    """The reciprocal 1 / (b - a); 0 if a and b are equal."""
    gap = b - a
    is_equal = gap == type(gap)(0.0)
    return tg.where(is_equal, type(gap)(0.0), type(gap)(1.0) / tg.where(is_equal, type(gap)(1.0), gap))


@composite()
def _adjoint_of_svd(U, sigma, V, grad_u, grad_sigma, grad_v):
    """The adjoint of A. The antisymmetric rotation rates Ω_u and Ω_v of U and V solve Uᵀ dA V = Ω_u Σ + dΣ - Σ Ω_v,
    entry by entry. The rates of a pair of singular values of equal magnitude are undefined and set to 0."""
    n = len(U)
    u_rate, v_rate = tg.transpose(U) * grad_u, tg.transpose(V) * grad_v
    p = tg.diag(grad_sigma)
    for i in tg.static(range(n)):
        for j in tg.static(range(n)):
            if i != j:
                gap = tg._reciprocal_gap(sigma[i] * sigma[i], sigma[j] * sigma[j])
                rotation_u, rotation_v = u_rate[i, j] - u_rate[j, i], v_rate[i, j] - v_rate[j, i]
                p[i, j] = gap * (sigma[j] * rotation_u + sigma[i] * rotation_v)
    return U * p * tg.transpose(V)


@composite()
def __svd3_adjoint(A, U, sigma, V, grad_u, grad_sigma, grad_v):
    return tg._adjoint_of_svd(U, sigma, V, grad_u, grad_sigma, grad_v)


@composite()
def __svd2_adjoint(A, U, sigma, V, grad_u, grad_sigma, grad_v):
    return tg._adjoint_of_svd(U, sigma, V, grad_u, grad_sigma, grad_v)


@composite(FACTORS)
def svd3(A):
    """The singular values of a 3x3 matrix, with A = U * diag(sigma) * transpose(V).

    U and V are rotations, with determinant 1. The magnitudes in sigma descend; the last element has the sign of the
    determinant of A. The signs of corresponding columns of U and V are unspecified.

    Parameters:
        A: a matrix (3, 3) of floats.
        U, sigma, V: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        matrices (3, 3), a vector (3,) and a matrix (3, 3) of the dtype of `A`: U, sigma and V.
    Gradient:
        U * P * transpose(V), with the adjoint of sigma on the diagonal of P, and the adjoints of the rotations of pairs
        of columns elsewhere. The gradient grows as 1 over the difference of the squares of two singular values; the
        rotation of a pair of equal magnitude counts as constant.
    Source:
        Hestenes, Inversion of Matrices by Biorthogonalization, 1958; Papadopoulo and Lourakis, Estimating the Jacobian
        of the Singular Value Decomposition, 2000.
    """
    return tg._svd3(A)


@composite()
def svd3(A, U: InOut[Any], sigma: InOut[Any], V: InOut[Any]):  # noqa: F811
    """The singular values, set in variables."""
    U, sigma, V = tg._svd3(A)


@composite(FACTORS)
def svd2(A):
    """The singular values of a 2x2 matrix, with A = U * diag(sigma) * transpose(V).

    V is a rotation, U a rotation or a reflection. The values in sigma are not negative and descend. The signs of
    corresponding columns of U and V are unspecified.

    Parameters:
        A: a matrix (2, 2) of floats.
        U, sigma, V: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        matrices (2, 2), a vector (2,) and a matrix (2, 2) of the dtype of `A`: U, sigma and V.
    Gradient:
        as for tg.svd3.
    Source:
        Hestenes, Inversion of Matrices by Biorthogonalization, 1958.
    """
    return tg._svd2(A)


@composite()
def svd2(A, U: InOut[Any], sigma: InOut[Any], V: InOut[Any]):  # noqa: F811
    """The singular values, set in variables."""
    U, sigma, V = tg._svd2(A)


@composite(FACTORS)
def qr3(A):
    """The QR decomposition of a 3x3 matrix: A = Q * R, with R upper triangular.

    Q is a rotation, with determinant 1. The first two entries of the diagonal of R are not negative, and the last has
    the sign of the determinant of A.

    Parameters:
        A: a matrix (3, 3) of floats.
        Q, R: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        matrices (3, 3) of the dtype of `A`: Q and R.
    Gradient:
        the derivative of the Givens rotations; a rotation of two zeros counts as constant.
    Source:
        Givens, Computation of Plane Unitary Rotations, 1958.
    """
    tg._require_matrix("qr3", A, 3)
    R = A
    Q = tg.identity(3, dtype=type(A[0, 0]))
    for p, q in PAIRS[3]:
        x, y = R[p, p], R[q, p]
        size = tg.length(tg.vector(x, y))
        is_zero = size == type(size)(0.0)
        divisor = tg.where(is_zero, type(size)(1.0), size)
        c, s = (
            tg.where(is_zero, type(size)(1.0), x / divisor),
            tg.where(is_zero, type(size)(0.0), y / divisor),
        )
        first, second = R[p], R[q]
        R[p] = c * first + s * second
        R[q] = c * second - s * first
        R[q, p] = type(size)(0.0)
        first, second = Q[:, p], Q[:, q]
        Q[:, p] = c * first + s * second
        Q[:, q] = c * second - s * first
    return Q, R


@composite()
def qr3(A, Q: InOut[Any], R: InOut[Any]):  # noqa: F811
    """The factors, set in variables."""
    Q, R = tg.qr3(A)


@composite()
def _eig3(A):
    tg._require_matrix("eig3", A, 3)
    size = tg._largest_entry(A)
    a = A / size
    Q = tg.identity(3, dtype=type(size))
    for _ in range(SWEEPS):
        for p, q in PAIRS[3]:
            c, s = tg._half_angle(a[p, p], a[q, q], a[p, q])
            first, second = a[:, p], a[:, q]
            a[:, p] = c * first - s * second
            a[:, q] = s * first + c * second
            first, second = a[p], a[q]
            a[p] = c * first - s * second
            a[q] = s * first + c * second
            first, second = Q[:, p], Q[:, q]
            Q[:, p] = c * first - s * second
            Q[:, q] = s * first + c * second
    return Q, tg.get_diag(a) * size


@composite()
def __eig3_adjoint(A, Q, d, grad_q, grad_d):
    """The eigenvectors rotate at the rates P_ij / (d_j - d_i), with P = Qᵀ dA Q. The rates of equal eigenvalues are set
    to 0."""
    rate = tg.transpose(Q) * grad_q
    p = tg.diag(grad_d)
    for i in tg.static(range(3)):
        for j in tg.static(range(3)):
            if i != j:
                p[i, j] = (rate[i, j] - rate[j, i]) * tg._reciprocal_gap(d[i], d[j]) * type(d[0])(0.5)
    return Q * p * tg.transpose(Q)


@composite(FACTORS)
def eig3(A):
    """The eigenvalues of a symmetric 3x3 matrix, with A = Q * diag(d) * transpose(Q).

    Q is a rotation, with determinant 1, whose columns are the eigenvectors. The eigenvalues are in no order.

    Parameters:
        A: a symmetric matrix (3, 3) of floats.
        Q, d: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        a matrix (3, 3) and a vector (3,) of the dtype of `A`: Q and d.
    Gradient:
        Q * P * transpose(Q), symmetric, with the adjoint of d on the diagonal of P, and the adjoints of the rotations
        of pairs of columns elsewhere. The gradient grows as 1 over the difference of two eigenvalues; the rotation of a
        pair of equal eigenvalues counts as constant.
    Source:
        Jacobi, 1846; Golub and Van Loan, Matrix Computations, 8.5.
    """
    return tg._eig3(A)


@composite()
def eig3(A, Q: InOut[Any], d: InOut[Any]):  # noqa: F811
    """The eigenvalues, set in variables."""
    Q, d = tg._eig3(A)
