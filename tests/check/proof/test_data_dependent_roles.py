"""Roles whose behaviour depends on data: tiles that another role draws, and chains of pipes."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import slow_except

DRAWN_TILES = """def drawn(x: tg.array2d[float], out: tg.array2d[float], n: int, count: tg.array1d[int]):
    tiles = tg.tile_pipe(shape=(1, 8), dtype=int, stages=S)
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=T)
    with tg.role("draw", warps=1):
        go = True
        while go:
            drawn = int(0)
            if tg.group_lane() == 0:
                drawn = tg.atomic_add(count, 0, 1)
            t = tg.uniform(drawn)
            tg.tile_pipe_push(tiles, tg.tile_full(shape=(1, 8), value=t, dtype=int))
            go = t < n
    with tg.role("fetch", warps=1):
        t = tg.tile_pipe_pop(tiles)[0, 0]
        while t < n:
            for q in range(t % 3 + 1):
                tg.tile_pipe_load(rows, x, offset=(8 * t + q, 0))
            t = tg.tile_pipe_pop(tiles)[0, 0]
    with tg.role("store", warps=2):
        t = tg.tile_pipe_pop(tiles)[0, 0]
        while t < n:
            for q in range(t % 3 + 1):
                tg.tile_store(out, tg.tile_pipe_pop(rows) * 2.0, offset=(8 * t + q, 0))
            t = tg.tile_pipe_pop(tiles)[0, 0]
"""
CHAIN = """def chain(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=S)
    more = tg.tile_pipe(shape=(1, 32), dtype=float, stages=T)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.tile_pipe_load(rows, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            row = tg.tile_pipe_pop(rows)
            tg.tile_pipe_push(more, row * row)
    with tg.ws(2):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(more) * 2.0, offset=(k, 0))
"""
TEXTS = {"drawn": DRAWN_TILES, "chain": CHAIN}
MUTATED = {
    "one more row is fetched": ("drawn", "range(t % 3 + 1)", "range(t % 3 + 2)"),
    "the drawing role continues": ("drawn", "go = t < n", "go = t <= n"),
}  # fmt: skip


def program_text(text: str, stages: int, second_stages: int) -> str:
    sized = text.replace("S)", f"{stages})").replace("T)", f"{second_stages})").replace("(S,", f"({stages},")
    for sign in ("%", "//"):
        sized = sized.replace(f"{sign} S", f"{sign} {stages}").replace(f"{sign} T", f"{sign} {second_stages}")
    return sized.replace("(T,", f"({second_stages},")


@pytest.mark.parametrize("stages", [(1, 2), (2, 3)])
@pytest.mark.parametrize("name", TEXTS)
def test_schedules_that_depend_on_data_are_proved(name: str, stages: tuple[int, int]) -> None:
    assert outcome(lowered(kernel(program_text(TEXTS[name], *stages)))) == "proved"


@pytest.mark.parametrize("name", slow_except({"one more row is fetched"}, MUTATED, slow=1))
def test_faulty_schedules_that_depend_on_data_are_not_proved(name: str) -> None:
    original, old, new = MUTATED[name]
    text = program_text(TEXTS[original], 2, 3)
    assert old in text
    assert outcome(lowered(kernel(text.replace(old, new, 1)))) != "proved"
