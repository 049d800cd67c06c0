"""Gathers and scatters of array elements as GPU code: one access for each element, run thread by thread."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm, run_serially
from simt import run_together

import tegula as tg

N = 80


@tg.kernel
def gather_and_scatter(x: tg.array1d[float], y: tg.array1d[float], z: tg.array1d[tg.vec2], i: int):
    indices = 40 - tg.tile_arange(N, dtype=int) * 2
    t = tg.tile_load_indexed(x, indices, shape=N, offset=i, mask=indices % 3 != 0, other=9.0)
    tg.tile_store_indexed(y, indices, t, offset=3)
    tg.tile_atomic_add_indexed(z, indices * 0, tg.tile_map(with_one, t), offset=1)


@tg.func
def with_one(x: float):
    return tg.vec2(x, 1.0)


@pytest.mark.machine_code
@pytest.mark.parametrize("threads", [32, 64])
def test_gathers_and_scatters_match_numpy(threads: int) -> None:
    data = np.arange(35, dtype=np.float32)
    x, y, z = tg.array(data), tg.zeros(43), tg.zeros(2, dtype=tg.vec2)
    code = lower_to_llvm(gather_and_scatter, [x, y, z, 1], (1,), threads)
    run_serially(code, gather_and_scatter, [x, y, z, 1], (1, threads), 1)
    indices = 40 - 2 * np.arange(N)
    selected = (indices + 1 >= 0) & (indices + 1 < 35) & (np.fmod(indices, 3) != 0)
    t = np.where(selected, data[np.clip(indices + 1, 0, 34)], 9.0)
    expected = np.zeros(43)
    for index, value in zip(indices + 3, t, strict=True):
        if 0 <= index < 43:
            expected[index] = value
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(z.numpy(), [[0.0, 0.0], [t.sum(), N]])


def test_gathers_and_scatters_access_each_element_once() -> None:
    args = [tg.zeros(35), tg.zeros(43), tg.zeros(2, dtype=tg.vec2), 1]
    text, _ = assemble(lower_to_llvm(gather_and_scatter, args, (1,), 64))
    assert "bar.sync" not in text
    assert text.count("red.") + text.count("atom.") == 4  # 2 components of 80 elements in 64 threads


@tg.kernel
def exchange_elements(
    x: tg.array1d[float], slots: tg.array1d[int], old: tg.array1d[float], previous_values: tg.array1d[int]
):
    indices = tg.tile_arange(N, dtype=int)
    tg.tile_store(old, tg.tile_atomic_exch(x, indices.astype(float), offset=5, mask=indices % 3 == 0))
    tg.tile_store(previous_values, tg.tile_atomic_cas(slots, -1, indices))


@pytest.mark.machine_code
def test_atomic_exchanges_of_elements_match_numpy() -> None:
    data, initial_slots = np.arange(60, dtype=np.float32) + 0.5, np.arange(N, dtype=np.int32) % 2 * -1
    args = [tg.array(data), tg.array(initial_slots), tg.zeros(N), tg.zeros(N, dtype=int)]
    code = lower_to_llvm(exchange_elements, args, (1,), 64)
    run_serially(code, exchange_elements, args, (1, 64), 1)
    x, slots, old, previous_values = (a.numpy() for a in args)
    indices = np.arange(N)
    selected = (indices % 3 == 0) & (indices + 5 < 60)
    np.testing.assert_array_equal(old, np.where(selected, data[np.minimum(indices + 5, 59)], 0))
    expected = data.copy()
    expected[indices[selected] + 5] = indices[selected]
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(slots, np.where(initial_slots == -1, indices, initial_slots))
    np.testing.assert_array_equal(previous_values, initial_slots)
    text, _ = assemble(code)
    # Each of 64 threads exchanges and swaps up to two of 80 elements.
    assert text.count("atom.") == 4 and "cas" in text


@tg.kernel
def many_subscripts(indices: tg.array1d[int], y: tg.array1d[int]):
    t = tg.tile_zeros(700, dtype=int)
    t[tg.tile_load(indices, shape=500)] = tg.tile_arange(500, dtype=int)
    tg.tile_store(y, t)


@pytest.mark.machine_code
def test_many_subscripts_are_compared_in_a_loop() -> None:
    """The last entry of each element is found in 500 * 700 comparisons, which no thread has in registers."""
    indices = np.random.default_rng(0).integers(0, 700, 500).astype(np.int32)
    expected = np.zeros(700, np.int32)
    expected[indices] = np.arange(500)
    arrays = [tg.array(indices), tg.zeros(700, dtype=int)]
    code = lower_to_llvm(many_subscripts, arrays, (1,), 64)
    run_together(code, many_subscripts, arrays, (1, 64), 1)
    np.testing.assert_array_equal(arrays[1].numpy(), expected)
    assert len(code.text.splitlines()) < 3000
