"""What is called proved: schedules whose roles compute the same terms. Others that pass say how much was explored."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tegula as tg

TEXT = """
def copies(x: tg.array2d[float], out: tg.array2d[float], a: tg.array1d[{t}], n: {t}, m: {t}):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range({fills}):
            {on_fill}tg.tile_pipe_load(pipe, x, offset=(0, 0))
    with tg.ws(1):
        for k in range({pops}):
            {on_pop}tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(0, 0))
"""


def status(fills: str, pops: str, t: str = "int", on_fill: str = "", on_pop: str = "") -> str:
    text = TEXT.format(fills=fills, pops=pops, t=t, on_fill=on_fill, on_pop=on_pop).lstrip()
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    found = tg.kernel(source=text)(space["copies"]).check()
    assert found.passed, found.message
    return found.status


@pytest.mark.parametrize("rounds", ["n", "n, 0, -1", "n % 7", "x.shape[0]", "min(n, m)"])
def test_the_same_terms(rounds: str) -> None:
    assert status(rounds, rounds) == "proved"


@pytest.mark.parametrize(
    ("fills", "pops", "t"),
    [
        ("n", "n", "tg.int64"),
        ("n * m", "m * n", "int"),
        ("n", "1, n + 1", "int"),
        ("n", "n, 0, -1", "int"),
        ("a[0]", "a[0]", "int"),
    ],
)
def test_other_terms(fills: str, pops: str, t: str) -> None:
    found = status(fills, pops, t)
    assert re.fullmatch(r"explored: [1-9]\d* launches", found)
