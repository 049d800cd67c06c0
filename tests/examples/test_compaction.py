"""examples/compaction.py against NumPy."""

from __future__ import annotations

import compaction
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code


@pytest.mark.parametrize(("size", "block_dim"), [(1000, 64), (300, 100)])
def test_compaction_example_keeps_the_order_of_points_inside(size: int, block_dim: int) -> None:
    points = compaction.scattered(size)
    x, y = points.T.astype(np.float64)
    margin = np.hypot(x, y) - (0.6 + 0.3 * np.cos(5.0 * np.arctan2(y, x)))
    assert np.abs(margin).min() > 1e-6, "no point is on the border"
    np.testing.assert_array_equal(compaction.run(size, block_dim)["kept"], points[margin < 0.0])
