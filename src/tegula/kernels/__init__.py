"""Kernels of the library, written in the language with its public names: `from tegula import kernels`."""

from tegula.kernels.attention import attention
from tegula.kernels.gemm import matmul

__all__ = ["attention", "matmul"]
