"""Arrays of small integers, which matmuls sum exactly, and their float64 copies."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg


def numbers(*shape: int, dtype: Any, seed: int = 0) -> tg.array:
    low = 0 if dtype in (tg.uint8, tg.uint32) else -3
    values = np.random.default_rng(seed).integers(low, 4, shape)
    return tg.array(values.astype(np.float64).astype(tg.zeros(1, dtype=dtype).numpy().dtype))


def to_float64(x: Any) -> np.ndarray:
    return x.numpy().astype(np.float64)
