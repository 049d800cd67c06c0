"""Calls that change a variable of their caller, where they are refused, and wrong ranges of random tiles."""

from __future__ import annotations

from typing import Any

import pytest

import tegula as tg


@pytest.mark.parametrize(
    "statement",
    (
        "x = i > 3 and tg.randi(state) > 0",
        "x = tg.randi(state) if i > 3 else 0",
        "while tg.randi(state) > 0: pass",
    ),
)
def test_draws_that_may_not_be_made_are_refused(statement: str) -> None:
    names: dict[str, Any] = {"tg": tg}
    text = f"def kernel(n: int):\n    i = tg.tid()\n    state = tg.rand_init(n, i)\n    {statement}\n"
    exec(text, names)
    with pytest.raises(tg.CompileError, match="randi changes 'state' in .*, which may not be evaluated"):
        tg.launch(tg.kernel(source=text)(names["kernel"]), 8, inputs=[1])


def test_state_of_an_enclosing_function_is_refused() -> None:
    @tg.kernel
    def kernel(n: int):
        state = tg.rand_init(n)

        def draw():
            return tg.randi(state)

        print(draw())

    with pytest.raises(tg.CompileError, match="changes 'state', a variable of the enclosing function"):
        tg.launch(kernel, 1, inputs=[1])


def test_a_range_of_random_tiles_is_not_empty() -> None:
    @tg.kernel
    def kernel(a: tg.array[int]):
        tg.tile_store(a, tg.tile_randi(4, tg.rand_init(1), 3, 3))

    with pytest.raises(ValueError, match="max > min"):
        tg.launch_tiled(kernel, 1, inputs=[tg.zeros(4, dtype=int)], block_dim=32)
