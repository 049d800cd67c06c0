"""Kernels of the library, written in the language with its public names: `from tegula import kernels`."""

from tegula.kernels.attention import attention
from tegula.kernels.gemm import matmul
from tegula.kernels.linear_algebra import argsort, cholesky, eigh, inverse, lu, qr, solve, sort, svd, topk

__all__ = [
    "argsort",
    "attention",
    "cholesky",
    "eigh",
    "inverse",
    "lu",
    "matmul",
    "qr",
    "solve",
    "sort",
    "svd",
    "topk",
]
