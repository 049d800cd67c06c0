"""Kernels that accept schedules beyond the checker: what was explored is said."""

from __future__ import annotations

from typing import Any

import pytest
from disguises import kernel

import tegula as tg
from tegula.runtime.automatic import accept

TEXT = """def first(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range({rounds}):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""
FAR = TEXT.format(rounds="tg.min(n, 1000)")


def checked(text: str, **options: Any) -> Any:
    return kernel(text, **options).check()


def test_what_was_explored_is_said() -> None:
    found = checked(FAR, check="bounded")
    assert (found.status, found.kind, found.accepted) == ("unproved", "counts", True)
    assert found.explored[0] > 3
    found.require()
    accept(found)


def test_without_it_the_kernel_is_refused() -> None:
    found = checked(FAR)
    assert not found.accepted
    with pytest.raises(tg.CompileError):
        found.require()


def test_what_goes_wrong_in_a_launch_is_refused_all_the_same() -> None:
    found = checked(TEXT.format(rounds="n + 1"), check="bounded")
    assert (found.status, found.accepted) == ("refuted", False)


def test_what_passes_stays_so() -> None:
    assert checked(TEXT.format(rounds="n"), check="bounded").passed


WRITTEN = """def first(x: tg.array2d[float], out: tg.array2d[float], c: tg.array1d[int]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range(c[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(c[0]):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
            c[0] = 3
"""


def test_a_launch_that_cannot_be_followed_is_unproved() -> None:
    found = checked(WRITTEN, check="bounded")
    assert (found.status, found.kind, found.accepted) == ("unproved", "control", True)
