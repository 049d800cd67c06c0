"""Kernels of the library, written in the language with its public names: `from tegula import kernels`."""

from tegula.kernels.gemm import matmul

__all__ = ["matmul"]
