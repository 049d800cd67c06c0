"""Comparisons, quotients and remainders that the ranges of integers determine are folded, and branches on them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.ops.integer_ranges import _ordered

machine_code = pytest.mark.machine_code

RELATIONS = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@pytest.mark.parametrize("pred", RELATIONS)
def test_relations_of_ranges_hold_for_all_numbers_or_none(pred: str) -> None:
    ranges = [(low, high) for low, high in product(range(-2, 3), repeat=2) if low <= high]
    for a, b in product(ranges, repeat=2):
        outcomes = {RELATIONS[pred](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)}
        assert _ordered(a, b, pred) == (outcomes.pop() if len(outcomes) == 1 else None)


@tg.kernel
def strided(x: tg.array1d[int], out: tg.array1d[int]):
    _, lane = tg.tid()
    for first in range(0, 64, 32):
        k = first + lane
        if k < 64:
            out[k] = x[k // 64 + k % 64]
        else:
            out[0] = -1


@tg.kernel
def needed(x: tg.array1d[int], out: tg.array1d[int]):
    _, lane = tg.tid()
    for first in range(0, 64, 32):
        k = first + lane
        if k < 63:
            out[k] = x[k // 63 + k % 63]


def simplified(kernel: Any) -> str:
    return kernel.ir("simplify")


def run(kernel: Any) -> np.ndarray:
    out = tg.zeros(64, dtype=int)
    tg.launch_tiled(kernel, dim=[1], inputs=[tg.array(np.arange(64, dtype=np.int32)), out], block_dim=32)
    return out.numpy()


@machine_code
def test_a_guard_that_always_holds_is_removed() -> None:
    assert np.array_equal(run(strided), np.arange(64))
    text = simplified(strided)
    assert " = cmp" not in text and "if %" not in text and "floordiv" not in text and " = mod" not in text


@machine_code
def test_a_guard_that_may_fail_stays() -> None:
    assert np.array_equal(run(needed), [*range(63), 0])
    text = simplified(needed)
    assert " = cmp" in text and "if %" in text


@tg.kernel
def chosen(x: tg.array1d[float], out: tg.array1d[float]):
    total = 0.0
    for k in range(4):
        if k < 4:
            part = x[k]
            if k >= 0:
                part = part * 2.0
        else:
            part = x[0]
        total += part
    out[0] = total


@machine_code
def test_results_of_removed_branches_are_those_of_the_taken_side() -> None:
    out = tg.zeros(1)
    tg.launch(chosen, dim=1, inputs=[tg.array(np.array([1, 2, 3, 4], np.float32)), out])
    assert out.numpy()[0] == 20.0
    assert "if %" not in simplified(chosen)


@tg.kernel
def quotient_of_zero(out: tg.array1d[int], d: int):
    out[0] = (tg.tid() % 1) // d


@tg.kernel
def quotient_by_zero(out: tg.array1d[int], d: int):
    out[0] = (tg.tid() % 4) // (d % 1)


@machine_code
@pytest.mark.parametrize("kernel", [quotient_of_zero, quotient_by_zero])
def test_divisions_by_numbers_that_may_be_zero_are_checked_in_debug_mode(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.DivisionByZero):
        tg.launch(kernel, 1, inputs=[tg.zeros(1, dtype=int), 0])
