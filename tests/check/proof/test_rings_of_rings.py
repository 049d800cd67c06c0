"""Rings with an item for every few items of another ring, in one loop, and wrong variants of them."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

TEXT = """def kernel(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    scales = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    ready, free = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for k in range(TRIP):
                if k % FACTOR == 0:
                    i = k // FACTOR
                    tg.mbarrier_wait(free, i % 2, i // 2 + 1)
                    tg.mbarrier_expect_bytes(ready, i % 2, N * 4)
                    tg.tile_load_async(y, scales[i % 2], (i, 0), ready, i % 2)
                tg.mbarrier_wait(empty, k % S, k // S + 1)
                tg.mbarrier_expect_bytes(full, k % S, N * 4)
                tg.tile_load_async(x, rows[k % S], (k, 0), full, k % S)
    with tg.ws(1):
        for k in range(TRIP):
            i = k // FACTOR
            if k % FACTOR == 0:
                tg.mbarrier_wait(ready, i % 2, i // 2)
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store(out, rows[k % S] * scales[i % 2], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, k % S)
            if LAST:
                tg.mbarrier_arrive(free, i % 2)
"""
FORMS = {
    "multiples": {"TRIP": "4 * n", "FACTOR": "4", "LAST": "k % 4 == 3"},
    "odd ends": {"TRIP": "n", "FACTOR": "2", "LAST": "k % 2 == 1 or k == n - 1"},
}
WRONG = {
    "released after the first": ("multiples", "if k % 4 == 3:", "if k % 4 == 0:"),
    "released before the last": ("multiples", "if k % 4 == 3:", "if k % 4 == 2:"),
    "the next scale": ("multiples", "scales[i % 2], offset", "scales[(i + 1) % 2], offset"),
    "waits after the second": (
        "multiples",
        "if k % 4 == 0:\n                tg.mbarrier_wait(ready",
        "if k % 4 == 1:\n                tg.mbarrier_wait(ready",
    ),
    "the last is released early": ("odd ends", "k == n - 1", "k == n - 2"),
    "both are released": ("odd ends", "k % 2 == 1 or k == n - 1", "k % 2 == 1 or k % 2 == 0"),
}


def text(form: str) -> str:
    result = TEXT
    for name, replacement in FORMS[form].items():
        result = result.replace(name, replacement)
    return result


@pytest.mark.parametrize("form", FORMS)
def test_rings_of_rings_are_proved(form: str) -> None:
    assert outcome(lowered(kernel(text(form)))) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rings_of_rings_are_not_proved(name: str) -> None:
    form, old, new = WRONG[name]
    assert old in text(form)
    assert outcome(lowered(kernel(text(form).replace(old, new)))) != "proved"
