"""Arguments for kernels of the library, and the tolerances of results against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tegula as tg

NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
FLOAT8 = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-10, "float32": 1e-5}
"""Tolerances: one rounding for 16-bit types, a sum for float32."""


def integers(*shape: int, dtype: str = "bfloat16", seed: int = 0) -> np.ndarray:
    """Integers from -2 to 2, so that sums in matmuls are exact in float32 in any order."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype((NUMPY | FLOAT8)[dtype])


def normal(*shape: int, dtype: str = "bfloat16", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(NUMPY[dtype])


def to_float64(x: Any) -> np.ndarray:
    """The elements as float64 on the host."""
    return (x.numpy() if isinstance(x, tg.array) else x).astype(np.float64)


def assert_near(actual: Any, expected: np.ndarray, dtype: str, scale: float = 1.0) -> None:
    """`scale`: of the numbers that were summed, whose rounding shows where results cancel."""
    np.testing.assert_allclose(
        to_float64(actual), expected, rtol=ROUNDING[dtype], atol=ROUNDING[dtype] * scale
    )
