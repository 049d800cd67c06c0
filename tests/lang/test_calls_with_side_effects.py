"""Calls that change a variable of their caller, refused calls, and invalid ranges of random tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg


@pytest.mark.parametrize(
    "statement",
    (
        "x = i > 3 and tg.randi(state) > 0",
        "x = tg.randi(state) if i > 3 else 0",
    ),
)
def test_random_draws_in_short_circuits_are_refused(statement: str) -> None:
    names: dict[str, Any] = {"tg": tg}
    text = f"def kernel(n: int):\n    i = tg.tid()\n    state = tg.rand_init(n, i)\n    {statement}\n"
    exec(text, names)
    with pytest.raises(tg.CompileError, match="randi changes 'state' in .*, which may not be evaluated"):
        tg.launch(tg.kernel(source=text)(names["kernel"]), 8, inputs=[1])


@tg.kernel
def iterations(out: tg.array2d[int]):
    i = tg.tid()
    state = tg.rand_init(7, i)
    odd = 0
    while tg.randi(state, 0, 8) != 0 and odd < 9:
        if tg.randi(state, 0, 2) == 0:
            continue
        odd += 1
        while tg.randi(state, 0, 2) != 0:
            out[i, 1] += 1
    out[i, 0] = odd


@pytest.mark.machine_code
def test_conditions_of_loops_may_change_variables() -> None:
    out = tg.zeros((8, 2), dtype=int)
    tg.launch(iterations, 8, outputs=[out])
    for i, result in enumerate(out.numpy().tolist()):
        state = [tg.rand_init(7, i)]

        def draw(high: int, state: list[Any] = state) -> int:
            state[0] = np.uint32(int(state[0]) * 747796405 + 2891336453 & 0xFFFFFFFF)
            state[0] = pcg(int(state[0]))
            return int(state[0]) % high

        odd = inner_count = 0
        while draw(8) != 0 and odd < 9:
            if draw(2) == 0:
                continue
            odd += 1
            while draw(2) != 0:
                inner_count += 1
        assert result == [odd, inner_count]


def pcg(b: int) -> Any:
    c = ((b >> ((b >> 28) + 4)) ^ b) * 277803737 & 0xFFFFFFFF
    return np.uint32((c >> 22) ^ c)


@tg.struct
class Walk:
    position: int
    end: int


@tg.func
def square(walk: tg.InOut[Walk], actual: tg.InOut[int]):
    is_inside = walk.position < walk.end
    if is_inside:
        actual = walk.position * walk.position
        walk.position += 1
    return is_inside


@tg.kernel
def sums_of_squares(ends: tg.array[int], sums: tg.array[int], last: tg.array2d[int]):
    i = tg.tid()
    walk, result, total = Walk(0, ends[i]), -1, 0
    while square(walk, result):
        if result == 9:
            continue
        if result > 40:
            break
        total += result
    sums[i], last[i, 0], last[i, 1] = total, result, walk.position


@pytest.mark.machine_code
def test_a_condition_changes_variables_once_an_iteration() -> None:
    """A struct and a number, also before `continue` and `break`, and when the condition is false."""
    ends = np.arange(12)
    sums, last = tg.zeros(12, dtype=int), tg.zeros((12, 2), dtype=int)
    tg.launch(sums_of_squares, 12, [tg.array(ends, dtype=int)], [sums, last])
    squares = [[k * k for k in range(min(n, 8))] for n in ends]
    assert sums.numpy().tolist() == [sum(x for x in s if x != 9 and x < 40) for s in squares]
    assert last.numpy().tolist() == [[s[-1] if s else -1, len(s)] for s in squares]


def test_random_state_of_an_enclosing_function_is_refused() -> None:
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
