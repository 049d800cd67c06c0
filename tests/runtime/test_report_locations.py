"""Run-time failures name the source location of the launched kernel, also if an equal kernel was compiled first."""

from __future__ import annotations

import pytest

import tegula as tg

DEADLOCK = """
import tegula as tg


@tg.kernel
def one_too_many(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.role("load", warps=1):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.role("store", warps=1):
        for k in range(n + 1):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""


@pytest.mark.machine_code
def test_deadlocks_of_equal_kernels_name_the_launched_text() -> None:
    for blank_lines in range(2):
        kernel = tg.exec("\n" * blank_lines + DEADLOCK)["one_too_many"]
        with pytest.raises(tg.Deadlock) as caught:
            tg.launch_tiled(kernel, dim=1, inputs=[tg.ones((4, 8)), tg.zeros((5, 8)), 4])
        loc = caught.value.loc
        assert loc is not None
        assert loc.file.startswith("<tegula text ") and loc.line == 13 + blank_lines
        assert loc.text().strip().startswith("tg.tile_store(")
