"""Matrices in the registers of a block of one warp."""

from __future__ import annotations

from tegula.types import DType

WARP, REGISTERS = 32, 128
"""The number of threads of a warp, and the maximum number of registers of a thread that hold elements of the matrix."""


def fits_warp(n: int, group: int, dtype: DType) -> bool:
    """Whether the registers of a block of one warp hold a matrix."""
    return group == WARP and n * -(-n // WARP) * (dtype.bits // 32 or 1) <= REGISTERS


def fits_lanes(n: int, group: int, partial: bool) -> bool:
    """Whether each lane of a warp holds a row. Smaller matrices share warps."""
    return group == WARP and WARP // 2 < n <= WARP and not partial
