"""examples/radix_sort.py against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import radix_sort

from support.campaigns import sampled

pytestmark = pytest.mark.machine_code


@sampled(2, ("size", "block_dim"), [(1300, 64), (700, 100)])
def test_radix_sort_example_sorts_and_counts_keys(size: int, block_dim: int) -> None:
    """The last tile is not full, and rows of a block's threads do not divide a tile."""
    actual, keys = radix_sort.run(size, block_dim), radix_sort.unsorted(size)
    np.testing.assert_array_equal(actual["sorted"], np.sort(keys))
    np.testing.assert_array_equal(actual["counts"], np.bincount(keys >> 28, minlength=radix_sort.DIGITS))


def test_radix_sort_example_sorts_the_largest_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The padding of the last tile has the same key."""
    keys = np.array([2**32 - 1, 5, 2**32 - 1, 0, 2**32 - 2], np.uint32)
    monkeypatch.setattr(radix_sort, "unsorted", lambda size: keys)
    np.testing.assert_array_equal(radix_sort.run(5)["sorted"], np.sort(keys))
