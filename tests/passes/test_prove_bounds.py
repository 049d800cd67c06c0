"""Bounds that are proved when a kernel is compiled: the kernel stores the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

YES, NO = 1.0, 2.0
NUMBERS = {
    "x - tg.max(x, y)": YES,
    "x - tg.max(y, tg.max(x, 1.0))": YES,
    "-tg.abs(x)": YES,
    "-(x * x)": YES,
    "x * x * -0.5": YES,
    "-tg.abs(x) * tg.abs(y)": YES,
    "tg.min(x, -1.0)": YES,
    "tg.where(x < y, -1.0, -tg.abs(y))": YES,
    "tg.min(x, y) - tg.max(tg.min(x, y), 3.0)": YES,
    "float(tg.bfloat16(-tg.abs(x)))": YES,
    "x": NO,
    "x - y": NO,
    "x - tg.min(x, y)": NO,
    "tg.max(x, y) - x": NO,
    "tg.max(x, -1.0)": NO,
    "tg.min(x, 1.0)": NO,
    "tg.min(x, -tg.abs(y))": NO,  # a NaN loses to every number
    "tg.max(-tg.abs(x), 1.0)": NO,
    "x * y": NO,
    "tg.abs(x) / -tg.abs(y)": NO,
    "tg.where(x < y, x, -1.0)": NO,
    "-float(tg.abs(int(x)))": NO,  # the magnitude of the most negative integer is that integer
}
TILES = {
    "t - tg.tile_max(t)": YES,
    "t * 0.5 - tg.tile_max(t * 0.5)": NO,  # two tiles that may differ
    "t - spread(tg.tile_max(t, axis=1, keepdims=True))": YES,
    "t - spread(tg.tile_max(t, axis=0, keepdims=True))": YES,
    "t - spread(tg.tile_max(t, axis=0))": YES,
    "t - spread(tg.tile_reshape(tg.tile_max(t, axis=1), shape=(8, 1)))": YES,
    "t - spread(tg.max(tg.tile_max(t, axis=1, keepdims=True), 3.0))": YES,
    "-tg.abs(t)": YES,
    "t - tg.max(t, other)": YES,
    "t - tg.tile_min(t)": NO,
    "t - tg.tile_max(other)": NO,
    "t - spread(tg.tile_max(t, axis=1))": NO,
    "t - spread(tg.tile_reshape(tg.tile_max(t, axis=0), shape=(8, 1)))": NO,
    "t - spread(tg.tile_max(tg.tile_transpose(t), axis=1, keepdims=True))": NO,
    "t - spread(tg.tile_max(t[0:1], axis=0))": NO,
}


def compiled(text: str) -> Any:
    space: dict[str, Any] = {"tg": tg, "YES": YES, "NO": NO}
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


@pytest.mark.parametrize("expression", NUMBERS)
def test_bounds_of_numbers_are_proved(expression: str) -> None:
    kernel = compiled(
        "def kernel(a: tg.array[float], out: tg.array[float]):\n"
        "    i = tg.tid()\n"
        "    x, y = a[i], a[i + 1]\n"
        f"    out[i] = tg.where(tg._never_above({expression}, 0.0), YES, NO)\n"
    )
    out = tg.zeros(4)
    tg.launch(kernel, 4, inputs=[tg.array(np.arange(-2.0, 3.0, dtype=np.float32))], outputs=[out])
    assert (out.numpy() == NUMBERS[expression]).all()


@pytest.mark.parametrize("expression", TILES)
def test_bounds_of_tiles_are_proved(expression: str) -> None:
    spread = expression.replace("spread(", "tg.tile_broadcast(shape=(8, 8), a=")
    kernel = compiled(
        "def kernel(A: tg.array2d[float], out: tg.array2d[float]):\n"
        "    t = tg.tile_load(A, shape=(8, 8))\n"
        "    other = tg.tile_load(A, shape=(8, 8), offset=(1, 0))\n"
        f"    tg.tile_store(out, tg.where(tg._never_above({spread}, 0.0), YES, NO))\n"
    )
    out = tg.zeros((8, 8))
    numbers = np.random.default_rng(1).normal(size=(9, 8)).astype(np.float32)
    tg.launch_tiled(kernel, 1, inputs=[tg.array(numbers)], outputs=[out], block_dim=32)
    assert (out.numpy() == TILES[expression]).all()


def test_bounds_of_changed_tiles_are_not_reused() -> None:
    kernel = compiled(
        "def kernel(A: tg.array2d[float], out: tg.array2d[float]):\n"
        "    t = tg.tile_load(A, shape=(8, 8))\n"
        "    top = tg.tile_max(t)\n"
        "    t += 1.0\n"
        "    tg.tile_store(out, tg.where(tg._never_above(t - top, 0.0), YES, NO))\n"
    )
    out = tg.zeros((8, 8))
    tg.launch_tiled(kernel, 1, inputs=[tg.ones((8, 8))], outputs=[out], block_dim=32)
    assert (out.numpy() == NO).all()
