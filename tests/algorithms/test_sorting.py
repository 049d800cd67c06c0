"""Sorting of pairs and runs of equal elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.algorithms.sorting import Chunks, sort

pytestmark = pytest.mark.machine_code(some=True)

SLOW = pytest.mark.slow
KEYS = [
    *(np.int32, np.float64),
    *(pytest.param(t, marks=SLOW) for t in (np.uint32, np.float32, np.int64, np.uint64)),
]


def pairs(keys: np.ndarray) -> tuple[tg.array, tg.array]:
    """Keys, and their indices as values, with room for the sort."""
    values = np.arange(2 * keys.size, dtype=np.int32)
    return tg.array(np.concatenate([keys, keys])), tg.array(values)


@pytest.mark.parametrize("dtype", KEYS)
def test_radix_sort_pairs_is_stable(dtype: Any) -> None:
    keys = np.random.default_rng(0).integers(-300, 300, 3000)
    keys = np.abs(keys).astype(dtype) if np.dtype(dtype).kind == "u" else keys.astype(dtype)
    if np.dtype(dtype).kind == "f":
        keys[:5] = 0.0, -0.0, np.inf, -np.inf, np.nan
    a, b = pairs(keys)
    tg.utils.radix_sort_pairs(a, b, keys.size)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(b.numpy()[: keys.size], order)
    np.testing.assert_array_equal(a.numpy()[: keys.size], keys[order])


@pytest.mark.parametrize(
    "dtype", [np.uint64, pytest.param(np.int32, marks=SLOW), pytest.param(np.float64, marks=SLOW)]
)
def test_radix_sort_with_short_chunks_matches_numpy(dtype: Any) -> None:
    for count in (5, 3000):
        keys = np.random.default_rng(0).integers(0, 2**31 - 1, count).astype(dtype)
        a, b = pairs(keys)
        sort(a, b, count, 0, 8 * keys.itemsize, Chunks(count, a.device, long=False))
        order = np.argsort(keys, kind="stable")
        np.testing.assert_array_equal(b.numpy()[:count], order)
        np.testing.assert_array_equal(a.numpy()[:count], keys[order])


def test_radix_sort_by_some_bits_of_keys_matches_numpy() -> None:
    keys = np.random.default_rng(0).integers(0, 1 << 20, 500).astype(np.int32)
    a, b = pairs(keys)
    tg.utils.radix_sort_pairs(a, b, 500, begin_bit=3, end_bit=14)
    order = np.argsort((keys >> 3) & 0x7FF, kind="stable")
    np.testing.assert_array_equal(a.numpy()[:500], keys[order])
    tg.utils.radix_sort_pairs(a, b, 500, begin_bit=5, end_bit=5)
    np.testing.assert_array_equal(a.numpy()[:500], keys[order])
    with pytest.raises(RuntimeError, match="bits 0 to 33 are outside"):
        tg.utils.radix_sort_pairs(a, b, 500, end_bit=33)
    with pytest.raises(RuntimeError, match="need 1002 elements"):
        tg.utils.radix_sort_pairs(a, b, 501)


@pytest.mark.parametrize("bounds_kind", ["starts", "ends too"])
def test_segmented_sort_sorts_each_segment(bounds_kind: str) -> None:
    keys = np.random.default_rng(0).integers(0, 10, 1000).astype(np.int32)
    starts = np.array([0, 100, 300, 300, 700], np.int32)
    ends = np.array([50, 300, 300, 600, 1000], np.int32)
    if bounds_kind == "starts":
        starts, ends = starts[:-1], starts[1:]
        offsets = [tg.array(np.append(starts, ends[-1:]))]
    else:
        offsets = [tg.array(starts), tg.array(ends)]
    a, b = pairs(keys)
    tg.utils.segmented_sort_pairs(a, b, 1000, *offsets)
    order = np.arange(1000)
    for start, end in zip(starts, ends, strict=True):
        order[start:end] = start + np.argsort(keys[start:end], kind="stable")
    np.testing.assert_array_equal(b.numpy()[:1000], order)
    np.testing.assert_array_equal(a.numpy()[:1000], keys[order])


@pytest.mark.cpu
def test_segmented_sort_refuses_segments_outside_of_the_array() -> None:
    a, b = pairs(np.zeros(8, np.int32))
    with pytest.raises(ValueError, match="not within the first 8 elements"):
        tg.utils.segmented_sort_pairs(a, b, 8, tg.array(np.array([0, 9], np.int32)))
    with pytest.raises(TypeError, match="count must be an integer"):
        tg.utils.segmented_sort_pairs(a, b, True, tg.array(np.array([0, 8], np.int32)))


def test_runlength_encode_finds_values_and_lengths() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 3, 500), rng.integers(1, 9, 500)).astype(np.int32)
    values, lengths, count = (tg.zeros(n, dtype=tg.int32) for n in (x.size, x.size, 1))
    run_starts = np.flatnonzero(np.r_[True, x[1:] != x[:-1]])
    assert tg.utils.runlength_encode(tg.array(x), values, lengths) == run_starts.size
    np.testing.assert_array_equal(values.numpy()[: run_starts.size], x[run_starts])
    np.testing.assert_array_equal(lengths.numpy()[: run_starts.size], np.diff(np.r_[run_starts, x.size]))
    assert tg.utils.runlength_encode(tg.array(x), values, lengths, count, value_count=1) is count
    assert (count.numpy()[0], values.numpy()[0], lengths.numpy()[0]) == (1, x[0], 1)
    assert tg.utils.runlength_encode(tg.array(x), values, lengths, value_count=0) == 0
