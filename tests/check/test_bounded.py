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


def checked(text: str, **options: Any) -> Any:
    return kernel(text, **options).check()


def test_numbers_that_differ_far_away_are_tried() -> None:
    found = checked(TEXT.format(rounds="tg.min(n, 1000)"))
    assert found.status == "refuted" and dict(found.launch)["n"] > 1000


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


def test_without_it_the_kernel_is_refused() -> None:
    """What roles do is known in no launch."""
    found = checked(WRITTEN)
    assert (found.status, found.searched, found.accepted) == ("unproved", False, False)
    with pytest.raises(tg.CompileError, match="it is not known what this decides") as caught:
        found.require()
    assert 'check="bounded"' in str(caught.value)


def test_what_was_explored_is_said() -> None:
    found = checked(WRITTEN, check="bounded")
    assert (found.status, found.searched, found.accepted) == ("unproved", False, True)
    assert "unproved (0 launches explored" in found.report()
    found.require()
    accept(found)
