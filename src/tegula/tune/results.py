"""The comparison of the results of different kernels for the same task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

TOLERANCE = {
    "float64": 1e-11, "float32": 1e-4, "float16": 2.0**-9, "bfloat16": 2.0**-6, "float8_e4m3": 0.25,
    "float8_e5m2": 0.5,
}  # fmt: skip
"""The default tolerance by dtype: the difference of two numbers divided by the sum of the larger magnitude and the root
mean square of all numbers. The tolerance allows for sums in another order, rounded to the dtype."""
CHUNK = 1 << 22
"""The number of elements that are compared at a time."""

Result = Sequence[tuple[str, np.ndarray]]
"""The arrays that a kernel wrote, each with the name of its element type."""


def difference(result: Result, other: Result, tolerance: float | None) -> float:
    """The largest difference of two results divided by the tolerance; results agree up to 1. Infinite if only one of
    them has a NaN or an infinity at a position, or if integers differ."""
    return max(
        (_difference(a, b, dtype, tolerance) for (dtype, a), (_, b) in zip(result, other, strict=True)),
        default=0.0,
    )


def _difference(a: np.ndarray, b: np.ndarray, dtype: str, tolerance: float | None) -> float:
    if a.dtype.kind in "iub":
        return 0.0 if np.array_equal(a, b) else float("inf")
    relative_limit = TOLERANCE[dtype] if tolerance is None else tolerance
    scale = max(_mean_square(a), _mean_square(b)) ** 0.5
    worst = 0.0
    for x, y in zip(_chunks(a), _chunks(b), strict=True):
        if not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return float("inf")
        finite = np.isfinite(x)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return float("inf")
        x, y = x[finite], y[finite]
        distance, size = np.abs(x - y), np.maximum(np.abs(x), np.abs(y)) + scale
        differs = distance > 0.0
        if differs.any():
            limit = relative_limit * size[differs]
            if not limit.all():
                return float("inf")
            worst = max(worst, float((distance[differs] / limit).max()))
    return worst


def _mean_square(a: np.ndarray) -> float:
    total, count = 0.0, 0
    for x in _chunks(a):
        x = x[np.isfinite(x)].astype(np.float64)
        total, count = total + float(x @ x), count + x.size
    return total / max(count, 1)


def _chunks(a: np.ndarray) -> Iterator[np.ndarray]:
    """The elements in chunks, as float64 if they are float64, else as float32."""
    flat = np.ascontiguousarray(a).reshape(-1)
    compute_dtype = np.float64 if a.dtype == np.float64 else np.float32
    for start in range(0, max(flat.size, 1), CHUNK):
        yield flat[start : start + CHUNK].astype(compute_dtype)


def group_agreeing(results: Sequence[Result], tolerance: float | None) -> list[list[int]]:
    """The indices of results in groups, the largest group first. All results of a group agree with the first one of the
    group."""
    groups: list[list[int]] = []
    for k, result in enumerate(results):
        group = next((g for g in groups if difference(results[g[0]], result, tolerance) <= 1.0), None)
        if group is None:
            groups.append([k])
        else:
            group.append(k)
    return sorted(groups, key=len, reverse=True)
