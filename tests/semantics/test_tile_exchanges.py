"""Atomic exchanges and compare-and-swaps between tiles and arrays, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree

import tegula as tg


@tg.kernel
def exchange(
    a: tg.array2d[float], v: tg.array[tg.vec2i], old: tg.array2d[float], previous: tg.array[tg.vec2i]
):
    t = tg.tile_full((2, 4), 9.0) + tg.tile_arange(4)
    tg.tile_store(old, tg.tile_atomic_exch(a, t, offset=(1, 2)))
    part = tg.tile_atomic_exch(a, t, mask=t > 10.0)
    tg.tile_store(old, part, offset=(2, 0))
    unused = tg.tile_full(4, tg.vec2i(-1, 5))
    tg.tile_store(previous, tg.tile_atomic_cas(v, unused, tg.tile_full(4, tg.vec2i(7, 8))))
    row = tg.tile_atomic_cas(a[0], 3.0, tg.tile_load(a[1], 4))
    tg.tile_store(old[4], row)


@pytest.mark.machine_code
def test_tile_exchanges_match_numpy() -> None:
    a, v = (
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.array([[-1, 5], [-1, 0], [3, 5], [-1, 5]], np.int32),
    )
    arguments = [tg.array(a), tg.array(v, dtype=tg.vec2i), tg.zeros((5, 4)), tg.zeros(4, dtype=tg.vec2i)]
    result, updated, old, previous = agree(exchange, arguments, 1, 32, tiled=True)
    expected = np.zeros((5, 4), np.float32)
    t = np.tile(np.arange(9, 13, dtype=np.float32), (2, 1))
    expected[:2, :2] = a[1:, 2:]
    a[1:, 2:] = t[:, :2]
    expected[2:4] = np.where(t > 10, a[:2], 0)
    a[:2] = np.where(t > 10, t, a[:2])
    expected[4], a[0] = a[0], np.where(a[0] == 3, a[1], a[0])
    np.testing.assert_array_equal(old, expected)
    np.testing.assert_array_equal(result, a)
    np.testing.assert_array_equal(previous, v)
    np.testing.assert_array_equal(updated, np.where(v == [-1, 5], [7, 8], v))


@pytest.mark.machine_code
@pytest.mark.parametrize("call", ["tg.tile_atomic_exch(a, t)", "tg.tile_atomic_cas(a, t, t)"])
def test_gradients_of_tile_exchanges_are_refused(call: str) -> None:
    source = f"def kernel(x: tg.array[float], a: tg.array[float]):\n    t = tg.tile_load(x, 4)\n    {call}\n"
    names = {"tg": tg}
    exec(source, names)
    x, a = tg.zeros(4, requires_grad=True), tg.zeros(4, requires_grad=True)
    with pytest.raises(tg.CompileError, match="no derivative"), tg.Tape() as tape:
        tg.launch_tiled(tg.kernel(source=source)(names["kernel"]), 1, inputs=[x, a], block_dim=32)
        tape.backward(grads={a: tg.ones(4)})
