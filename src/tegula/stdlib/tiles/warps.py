"""Matrices in the registers of a block of one warp."""

from __future__ import annotations

from tegula.types import DType

WARP, REGISTERS, MATRIX_REGISTERS = 32, 128, 192
"""The number of threads of a warp, and the maximum number of registers of a thread that hold elements of a matrix with
those of a right-hand side, and without."""
PLACES = 2 * WARP
"""A power of two that is at least the number of rows of a matrix in the registers of a warp."""


def fits_warp(n: int, group: int, dtype: DType, registers: int = REGISTERS) -> bool:
    """Whether the registers of a block of one warp hold a matrix."""
    return group == WARP and n * -(-n // WARP) * (dtype.bits // 32 or 1) <= registers


def fits_lanes(n: int, group: int, dtype: DType, partial: bool, registers: int = REGISTERS) -> bool:
    """Whether the lanes of a warp hold a matrix with rows i, i + 32, .. in lane i. Smaller matrices share warps."""
    return n > WARP // 2 and fits_warp(n, group, dtype, registers) and not partial


def has_few_columns(rows: int, columns: int) -> bool:
    """Whether the lanes of a warp hold the rows of a right-hand side with those of a matrix. With many columns, columns
    in lanes need fewer shuffles."""
    return 2 * columns * -(-rows // WARP) <= min(rows, WARP)


def fits_columns(rows: int, columns: int, dtype: DType) -> bool:
    """Whether the lanes of a warp hold the columns of a right-hand side of more than 16 rows. Smaller matrices share
    warps."""
    return rows > WARP // 2 and rows * -(-columns // WARP) * (dtype.bits // 32 or 1) <= REGISTERS


def threads_of_triangle(N: int, Real: DType, R: int = 1) -> int:
    """The number of threads of a block that solves linear equations with a triangular matrix."""
    in_columns = fits_warp(N, WARP, Real) and fits_columns(N, R, Real)
    return WARP if in_columns else threads_of_rows(N, Real, R)


def threads_of_rows(N: int, Real: DType, R: int = 1) -> int:
    """The number of threads of a block that solves linear equations or factors a matrix: a warp whose registers hold
    the matrix; 0, the default number, for other matrices and many columns of a right-hand side."""
    return WARP if fits_warp(N, WARP, Real) and has_few_columns(N, R) else 0


def threads_of_matrix(N: int, Real: DType) -> int:
    """The number of threads of a block that factors a matrix, as `threads_of_rows`."""
    return WARP if fits_warp(N, WARP, Real, MATRIX_REGISTERS) else 0
