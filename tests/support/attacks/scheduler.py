"""Blocks that draw the indices of their tiles at run time: one role draws an index, and sends it to the other roles
through a pipe."""

from __future__ import annotations

import re
from random import Random

from support.attacks.program import ROW, TYPES, indented

BOUNDS = ("m", "t % 3 + 1", "flags[t] + 1", "tg.min(t + 1, m)")
DRAW_TILE = [
    "drawn = int(0)",
    "if tg.group_lane() == 0:",
    "    drawn = tg.atomic_add(keys, 0, 1)",
    "t = tg.uniform(drawn)",
]
SEND_TILE = "tg.tile_pipe_push(tiles, tg.tile_full(shape=(1, 8), value=t, dtype=int))"
RECEIVE_TILE = "t = tg.tile_pipe_pop(tiles)[0, 0]"


def _scheduler_role(rng: Random, continues: str) -> list[str]:
    if rng.random() < 0.5:
        return ["t = int(-1)", f"while {continues}:", *indented([*DRAW_TILE, SEND_TILE])]
    return ["go = True", "while go:", *indented([*DRAW_TILE, SEND_TILE, f"go = {continues}"])]


def _worker_role(continues: str, bound: str, work: str, own: str = "") -> list[str]:
    """The lines of a role that works on tiles. `own`: the condition under which the role draws an index itself instead
    of using the received index."""
    draw_own = [f"if {own}:", *indented(DRAW_TILE)] if own else []
    return [
        RECEIVE_TILE,
        f"while {continues}:",
        *indented([f"for q in range({bound}):", f"    {work}", RECEIVE_TILE, *draw_own]),
    ]


def scheduler(rng: Random, condition: str = "") -> tuple[str, str]:
    """The text of a kernel and the name of its fault; `condition`: the condition under which the fault occurs, "" for a
    correct schedule."""
    continues, bound = (
        rng.choice(("t < n", "not t >= n", "n - t > 0" if not condition else "t < n")),
        rng.choice(BOUNDS),
    )
    conditions, bounds, name, own = [continues] * 3, [bound] * 2, "", ""
    if condition:
        k = rng.randrange(6)
        if k == 5:
            name, own = "a role draws a tile itself", condition
        elif k < 3:
            name = (
                "the scheduler stops early",
                "the fetching role stops early",
                "the storing role stops early",
            )[k]
            conditions[k] = f"{continues} and not ({condition})"
        else:
            name = ("one item more is fetched", "one item more is stored")[k - 3]
            bounds[k - 3] = f"{bound} + int({condition})"
    load = "tg.tile_pipe_load(rows, x, offset=(8 * t + q, 0))"
    store = "tg.tile_store(out, tg.tile_pipe_pop(rows) * 2.0, offset=(8 * t + q, 0))"
    stages = [rng.choice((1, 2, 3, 4)) for _ in range(2)]
    lines = [
        "assert n >= 0",
        f"tiles = tg.tile_pipe(shape=(1, 8), dtype=int, stages={stages[0]})",
        f"rows = tg.tile_pipe(shape=(1, {ROW}), dtype=float, stages={stages[1]})",
        'with tg.role("draw", warps=1):',
        *indented(_scheduler_role(rng, conditions[0])),
        'with tg.role("fetch", warps=1):',
        *indented(_worker_role(conditions[1], bounds[0], load, own)),
        rng.choice(("with tg.ws(1):", 'with tg.role("store", warps=2):')),
        *indented(_worker_role(conditions[2], bounds[1], store)),
    ]
    used_names = set(re.findall(r"\b[a-z]+\b", "\n".join(lines)))
    parameters = ", ".join(f"{name}: {t}" for name, t in TYPES.items() if name in used_names)
    return "\n".join([f"def kernel({parameters}):", *indented(lines)]) + "\n", name
