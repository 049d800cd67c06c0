"""Small vectors and matrices: extremes, diagonals, determinants, inverses."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg

_LITERAL = {
    "out-of-range": "a literal does not fit its dtype",
    "mixed-scalar-types": "an argument is a literal",
    **NOT_A_VALUE,
}
INDICES = Family(
    {"Gradient": "none: an index has no gradient."},
    {"type-mismatch": "`v` is not a vector of numbers", **_LITERAL},
)
VECTORS = Family({}, {"type-mismatch": "the argument is not a vector of numbers of this shape", **_LITERAL})
MATRICES = Family(
    {}, {"type-mismatch": "the argument is not a square matrix of floats of this shape", **_LITERAL}
)


@composite(INDICES)
def argmin(v):
    """The index of the smallest component of a vector; the lowest index among equal components. Numbers are preferred
    to NaNs.

    Parameters:
        v: a vector (N,) of any dtype but bool.
    Returns:
        a uint32; 0 of NaNs alone.
    """
    tg._require_vector("argmin", v)
    best, index, n = v[0], tg.uint32(0), len(v)
    for k in tg.static(range(1, n)):
        if (v[k] < best) or (best != best and v[k] == v[k]):
            best, index = v[k], tg.uint32(k)
    return index


@composite(INDICES)
def argmax(v):
    """The index of the largest component of a vector; the lowest index among equal components. Numbers are preferred to
    NaNs.

    Parameters:
        v: a vector (N,) of any dtype but bool.
    Returns:
        a uint32; 0 of NaNs alone.
    """
    tg._require_vector("argmax", v)
    best, index, n = v[0], tg.uint32(0), len(v)
    for k in tg.static(range(1, n)):
        if (v[k] > best) or (best != best and v[k] == v[k]):
            best, index = v[k], tg.uint32(k)
    return index


@composite(VECTORS)
def skew(vec):
    """The matrix of the cross product with a vector: skew(a) * b is cross(a, b).

    Parameters:
        vec: a vector (3,) of any dtype but bool.
    Returns:
        a matrix (3, 3) of its dtype.
    Gradient:
        the differences of mirrored entries of the adjoint.
    """
    tg._require_vector("skew", vec, 3)
    x, y, z = vec
    zero = type(x)(0)
    return tg.matrix(zero, -z, y, z, zero, -x, -y, x, zero, shape=(3, 3), dtype=type(x))


@composite(VECTORS)
def diag(vec):
    """The matrix with a vector on its diagonal and 0 elsewhere.

    Parameters:
        vec: a vector (N,) of any dtype but bool, N at most 32.
    Returns:
        a matrix (N, N) of its dtype.
    Gradient:
        the diagonal of the adjoint.
    """
    tg._require_vector("diag", vec)
    n = len(vec)
    result = tg.matrix(shape=(len(vec), len(vec)), dtype=type(vec[0]))
    for k in tg.static(range(n)):
        result[k, k] = vec[k]
    return result


@composite(MATRICES)
def get_diag(mat):
    """The diagonal of a square matrix.

    Parameters:
        mat: a matrix (N, N) of floats.
    Returns:
        a vector (N,) of its dtype.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """
    tg._require_matrix("get_diag", mat)
    n = len(mat)
    result = tg.vector(length=len(mat), dtype=type(mat[0, 0]))
    for k in tg.static(range(n)):
        result[k] = mat[k, k]
    return result


@composite()
def _minors(m, a, b):
    """The 2x2 minors of rows a and b of a 4x4 matrix, for the columns 01, 02, 03, 12, 13, 23."""
    minors = tg.vector(length=6, dtype=type(m[0, 0]))
    minors[0] = m[a, 0] * m[b, 1] - m[a, 1] * m[b, 0]
    minors[1] = m[a, 0] * m[b, 2] - m[a, 2] * m[b, 0]
    minors[2] = m[a, 0] * m[b, 3] - m[a, 3] * m[b, 0]
    minors[3] = m[a, 1] * m[b, 2] - m[a, 2] * m[b, 1]
    minors[4] = m[a, 1] * m[b, 3] - m[a, 3] * m[b, 1]
    minors[5] = m[a, 2] * m[b, 3] - m[a, 3] * m[b, 2]
    return minors


@composite()
def _determinant4(s, c):
    """The determinant of a 4x4 matrix, from the minors of its upper and lower half."""
    return s[0] * c[5] - s[1] * c[4] + s[2] * c[3] + s[3] * c[2] - s[4] * c[1] + s[5] * c[0]


@composite(MATRICES)
def determinant(a):
    """The determinant of a small matrix.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a scalar of its dtype.
    Gradient:
        the adjoint times the cofactors of `a`.
    """
    tg._require_matrix("determinant", a, 2, 3, 4)
    if len(a) == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    if len(a) == 3:
        return tg.dot(a[0], tg.cross(a[1], a[2]))
    return tg._determinant4(tg._minors(a, 0, 1), tg._minors(a, 2, 3))


@composite()
def _adjugate(a):
    """The transpose of the matrix of cofactors, and the determinant."""
    if len(a) == 2:
        adjugate = tg.matrix(a[1, 1], -a[0, 1], -a[1, 0], a[0, 0], shape=(2, 2), dtype=type(a[0, 0]))
        return adjugate, a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    if len(a) == 3:
        first, second, third = tg.cross(a[1], a[2]), tg.cross(a[2], a[0]), tg.cross(a[0], a[1])
        return tg.matrix_from_cols(first, second, third), tg.dot(a[0], first)
    s, c = tg._minors(a, 0, 1), tg._minors(a, 2, 3)
    adjugate = tg.matrix(shape=(4, 4), dtype=type(a[0, 0]))
    adjugate[0, 0] = a[1, 1] * c[5] - a[1, 2] * c[4] + a[1, 3] * c[3]
    adjugate[0, 1] = -a[0, 1] * c[5] + a[0, 2] * c[4] - a[0, 3] * c[3]
    adjugate[0, 2] = a[3, 1] * s[5] - a[3, 2] * s[4] + a[3, 3] * s[3]
    adjugate[0, 3] = -a[2, 1] * s[5] + a[2, 2] * s[4] - a[2, 3] * s[3]
    adjugate[1, 0] = -a[1, 0] * c[5] + a[1, 2] * c[2] - a[1, 3] * c[1]
    adjugate[1, 1] = a[0, 0] * c[5] - a[0, 2] * c[2] + a[0, 3] * c[1]
    adjugate[1, 2] = -a[3, 0] * s[5] + a[3, 2] * s[2] - a[3, 3] * s[1]
    adjugate[1, 3] = a[2, 0] * s[5] - a[2, 2] * s[2] + a[2, 3] * s[1]
    adjugate[2, 0] = a[1, 0] * c[4] - a[1, 1] * c[2] + a[1, 3] * c[0]
    adjugate[2, 1] = -a[0, 0] * c[4] + a[0, 1] * c[2] - a[0, 3] * c[0]
    adjugate[2, 2] = a[3, 0] * s[4] - a[3, 1] * s[2] + a[3, 3] * s[0]
    adjugate[2, 3] = -a[2, 0] * s[4] + a[2, 1] * s[2] - a[2, 3] * s[0]
    adjugate[3, 0] = -a[1, 0] * c[3] + a[1, 1] * c[1] - a[1, 2] * c[0]
    adjugate[3, 1] = a[0, 0] * c[3] - a[0, 1] * c[1] + a[0, 2] * c[0]
    adjugate[3, 2] = -a[3, 0] * s[3] + a[3, 1] * s[1] - a[3, 2] * s[0]
    adjugate[3, 3] = a[2, 0] * s[3] - a[2, 1] * s[1] + a[2, 2] * s[0]
    return adjugate, tg._determinant4(s, c)


@composite(MATRICES)
def inverse(a):
    """The inverse of a small matrix, by its cofactors; zeros where the determinant is 0.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a matrix of the type of `a`.
    Gradient:
        -transpose(b) * adjoint * transpose(b), with b the inverse; 0 where the determinant is 0.
    """
    tg._require_matrix("inverse", a, 2, 3, 4)
    adjugate, d = tg._adjugate(a)
    is_singular = d == type(d)(0.0)
    return tg.where(is_singular, type(adjugate)(0.0), adjugate / tg.where(is_singular, type(d)(1.0), d))


@composite(MATRICES)
def inverse_approx(a):
    """The inverse of a small matrix for callers that accept an approximation; the same as tg.inverse.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a matrix of the type of `a`.
    Gradient:
        as for tg.inverse.
    """
    return tg.inverse(a)
