"""Blocks that draw the numbers of their tiles at run time: one role draws, and sends the numbers to the others through
a pipe."""

from __future__ import annotations

import re
from random import Random

from support.attacks.program import ROW, TYPES, shifted

BOUNDS = ("m", "t % 3 + 1", "flags[t] + 1", "tg.min(t + 1, m)")
DRAW = [
    "drawn = int(0)",
    "if tg.group_lane() == 0:",
    "    drawn = tg.atomic_add(keys, 0, 1)",
    "t = tg.uniform(drawn)",
]
TELL = "tg.tile_pipe_push(tiles, tg.tile_full(shape=(1, 8), value=t, dtype=int))"
TAKE = "t = tg.tile_pipe_pop(tiles)[0, 0]"


def _drawing(rng: Random, more: str) -> list[str]:
    if rng.random() < 0.5:
        return ["t = int(-1)", f"while {more}:", *shifted([*DRAW, TELL])]
    return ["go = True", "while go:", *shifted([*DRAW, TELL, f"go = {more}"])]


def _working(more: str, bound: str, work: str, own: str = "") -> list[str]:
    """A role that works on tiles. `own`: the position at which the role draws a number itself, instead of using the
    number that it was sent."""
    drawn = [f"if {own}:", *shifted(DRAW)] if own else []
    return [TAKE, f"while {more}:", *shifted([f"for q in range({bound}):", f"    {work}", TAKE, *drawn])]


def scheduler(rng: Random, condition: str = "") -> tuple[str, str]:
    """The text of a kernel and the change in it; `condition`: the condition of the change, "" for a correct
    schedule."""
    more, bound = (
        rng.choice(("t < n", "not t >= n", "n - t > 0" if not condition else "t < n")),
        rng.choice(BOUNDS),
    )
    conditions, bounds, name, own = [more] * 3, [bound] * 2, "", ""
    if condition:
        k = rng.randrange(6)
        if k == 5:
            name, own = "one draws a number of its own", condition
        elif k < 3:
            name = ("the one who draws stops", "the one who fetches stops", "the one who stores stops")[k]
            conditions[k] = f"{more} and not ({condition})"
        else:
            name = ("more fetched", "more stored")[k - 3]
            bounds[k - 3] = f"{bound} + int({condition})"
    load = "tg.tile_pipe_load(rows, x, offset=(8 * t + q, 0))"
    store = "tg.tile_store(out, tg.tile_pipe_pop(rows) * 2.0, offset=(8 * t + q, 0))"
    stages = [rng.choice((1, 2, 3, 4)) for _ in range(2)]
    lines = [
        "assert n >= 0",
        f"tiles = tg.tile_pipe(shape=(1, 8), dtype=int, stages={stages[0]})",
        f"rows = tg.tile_pipe(shape=(1, {ROW}), dtype=float, stages={stages[1]})",
        'with tg.role("draw", warps=1):',
        *shifted(_drawing(rng, conditions[0])),
        'with tg.role("fetch", warps=1):',
        *shifted(_working(conditions[1], bounds[0], load, own)),
        rng.choice(("with tg.ws(1):", 'with tg.role("store", warps=2):')),
        *shifted(_working(conditions[2], bounds[1], store)),
    ]
    used = set(re.findall(r"\b[a-z]+\b", "\n".join(lines)))
    parameters = ", ".join(f"{name}: {t}" for name, t in TYPES.items() if name in used)
    return "\n".join([f"def kernel({parameters}):", *shifted(lines)]) + "\n", name
