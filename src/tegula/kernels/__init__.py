"""Kernels of the library, written in the language with its public names: `from tegula import kernels`. The file of a
kernel is loaded when its name is used; `attention` has a file of its own name."""

from typing import TYPE_CHECKING, Any

from tegula.kernels.attention import attention

if TYPE_CHECKING:
    from tegula.kernels.fourier import fft, ifft, irfft, rfft
    from tegula.kernels.gemm import matmul
    from tegula.kernels.linear_algebra import (
        argsort,
        cholesky,
        eigh,
        inverse,
        lu,
        qr,
        solve,
        sort,
        svd,
        topk,
    )

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

FILES = {
    **dict.fromkeys(("fft", "ifft", "irfft", "rfft"), "fourier"),
    "matmul": "gemm",
    **dict.fromkeys(
        ("argsort", "cholesky", "eigh", "inverse", "lu", "qr", "solve", "sort", "svd", "topk"),
        "linear_algebra",
    ),
}
"""The file of each kernel."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kernel = globals()[name] = getattr(import_module(f"{__name__}.{FILES[name]}"), name)
    return kernel


def __dir__() -> list[str]:
    return sorted(__all__)
