"""Kernels of the library, written in the language with its public names: `from tegula import kernels`."""

from tegula.kernels.attention import attention
from tegula.kernels.fourier import fft, ifft, irfft, rfft
from tegula.kernels.gemm import matmul
from tegula.kernels.linear_algebra import argsort, cholesky, eigh, inverse, lu, qr, solve, sort, svd, topk

__all__ = [
    "argsort",
    "attention",
    "cholesky",
    "eigh",
    "fft",
    "ifft",
    "inverse",
    "irfft",
    "lu",
    "matmul",
    "qr",
    "rfft",
    "solve",
    "sort",
    "svd",
    "topk",
]


def __dir__() -> list[str]:
    return sorted(__all__)
