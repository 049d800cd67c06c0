"""Matrices in the registers of a block of one warp."""

from __future__ import annotations

from tegula.types import DType

WARP, REGISTERS = 32, 128
"""The threads of a warp, and the registers of each that the matrix may take in a block of one warp."""


def fits_warp(n: int, group: int, dtype: DType) -> bool:
    """Whether the registers of a block of one warp hold a matrix."""
    return group == WARP and n * -(-n // WARP) * (dtype.bits // 32 or 1) <= REGISTERS
