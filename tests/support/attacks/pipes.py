"""Roles that are connected by pipes."""

from __future__ import annotations

from random import Random

from support.attacks.program import ROW, Line, Program, Role
from support.attacks.rings import RINGS, fetch_role_head, read_role_head, ring
from support.attacks.walks import LoopPair


def _pipe(name: str, rng: Random, stages: int = 0) -> str:
    return f"{name} = tg.tile_pipe(shape=(1, {ROW}), dtype=float, stages={stages or rng.choice((1, 2, 3, 4, 6))})"


def _load(pipe: str, array: str = "x", row: str = "k") -> Line:
    return Line("fill", f"tg.tile_pipe_load({pipe}, {array}, offset=({row}, 0))")


def _store_popped(pipe: str) -> Line:
    return Line("pop", f"tg.tile_store(out, tg.tile_pipe_pop({pipe}) * 2.0, offset=(k, 0))")


def _fetch(rng: Random) -> str:
    head, _ = fetch_role_head(rng)
    return head


@ring("a pipe")
def one_pipe(rng: Random, walk: LoopPair) -> Program:
    roles = [
        Role(_fetch(rng), walk.first, [_load("rows")]),
        Role(read_role_head(rng)[0], walk.second, [_store_popped("rows")]),
    ]
    return Program([_pipe("rows", rng), *walk.preamble], roles, list(walk.asserts))


@ring("a pipe that is pushed_pipe")
def pushed_pipe(rng: Random, walk: LoopPair) -> Program:
    body = [Line("fill", f"tg.tile_pipe_push(rows, tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 2.0)")]
    roles = [
        Role("tg.ws(0)", walk.first, body),
        Role(read_role_head(rng)[0], walk.second, [_store_popped("rows")]),
    ]
    return Program([_pipe("rows", rng), *walk.preamble], roles, list(walk.asserts))


@ring("two pipes")
def two_pipes(rng: Random, walk: LoopPair) -> Program:
    """Two pipes with a producer each, popped by one role."""
    body = [Line("pop", "one = tg.tile_pipe_pop(rows)"), Line("pop", "two = tg.tile_pipe_pop(more)"),
            Line("use", "tg.tile_store(out, one * two, offset=(k, 0))")]  # fmt: skip
    roles = [
        Role('tg.role("one", warps=1)', walk.first, [_load("rows")]),
        Role('tg.role("two", warps=1)', walk.first, [_load("more", "y")]),
        Role('tg.role("both", warp_groups=1)', walk.second, body),
    ]
    return Program([_pipe("rows", rng), _pipe("more", rng), *walk.preamble], roles, list(walk.asserts))


@ring("a chain of pipes")
def chain(rng: Random, walk: LoopPair) -> Program:
    middle = [
        Line("pop", "row = tg.tile_pipe_pop(rows)"),
        Line("fill", "tg.tile_pipe_push(more, row * row)"),
    ]
    roles = [
        Role(_fetch(rng), walk.first, [_load("rows")]),
        Role("tg.ws(1)", rng.choice((walk.first, walk.second)), middle),
        Role("tg.ws(2)", walk.second, [_store_popped("more")]),
    ]
    return Program([_pipe("rows", rng), _pipe("more", rng), *walk.preamble], roles, list(walk.asserts))


@ring("a pipe with two readers")
def two_readers(rng: Random, walk: LoopPair) -> Program:
    roles = [
        Role(_fetch(rng), walk.first, [_load("rows")]),
        Role("tg.ws(1)", rng.choice((walk.first, walk.second)), [_store_popped("rows")]),
        Role("tg.ws(2)", walk.second, [_store_popped("rows")]),
    ]
    return Program([_pipe("rows", rng), *walk.preamble], roles, list(walk.asserts))


@ring("pipes there and back")
def feedback(rng: Random, walk: LoopPair) -> Program:
    first = [
        Line("fill", "tg.tile_pipe_push(rows, total)"),
        Line("pop", "total = tg.tile_pipe_pop(more) * 1.0"),
    ]
    second = [
        Line("pop", "row = tg.tile_pipe_pop(rows)"),
        Line("fill", "tg.tile_pipe_push(more, row + 1.0)"),
    ]
    first_role, second_role = Role("tg.ws(0)", walk.first, first), Role("tg.ws(1)", walk.second, second)
    first_role.before.append(f"total = tg.tile_zeros(shape=(1, {ROW}))")
    first_role.after.append("tg.tile_store(out, total, offset=(0, 0))")
    return Program(
        [_pipe("rows", rng), _pipe("more", rng), *walk.preamble],
        [first_role, second_role],
        list(walk.asserts),
    )


@ring("one pipe ahead of another")
def filled_ahead(rng: Random, walk: LoopPair) -> Program:
    """A role fills one pipe some items ahead of the other pipe, and the remaining items of the other pipe after its
    loop."""
    stages = rng.choice((2, 3, 4))
    ahead = rng.randrange(1, stages + 1)
    first = Role('tg.role("fetch", warps=1)', walk.first, [
        Line("fill", "if k >= ahead:\n    tg.tile_pipe_load(more, y, offset=(k, 0))"), _load("rows")])  # fmt: skip
    first.body.reverse()
    first.before.append("count = int(0)")
    first.end.append("count += 1")
    first.after.append("for k in range(tg.min(ahead, count)):\n    tg.tile_pipe_load(more, y, offset=(k, 0))")
    body = [Line("pop", "one = tg.tile_pipe_pop(rows)"), Line("pop", "two = tg.tile_pipe_pop(more)"),
            Line("use", "tg.tile_store(out, one * two, offset=(k, 0))")]  # fmt: skip
    second = Role("tg.ws(1)", walk.second, body)
    results = [_pipe("rows", rng, stages), _pipe("more", rng), f"ahead = {ahead - 1}", *walk.preamble]
    return Program(results, [first, second], list(walk.asserts))


@ring("a pipe and matmuls")
def matmuls(rng: Random, walk: LoopPair) -> Program:
    results = [
        f"{p} = tg.tile_pipe(shape=(64, 64), dtype=tg.bfloat16, stages={rng.choice((2, 3))})"
        for p in ("rows", "more")
    ]
    first = [
        Line("fill", "tg.tile_pipe_load(rows, a, offset=(0, k * 64))"),
        Line("fill", "tg.tile_pipe_load(more, b, offset=(k * 64, 0))"),
    ]
    body = [
        Line("pop", "one = tg.tile_pipe_pop(rows)"),
        Line("pop", "two = tg.tile_pipe_pop(more)"),
        Line("use", "tg.tile_matmul(one, two, total)"),
    ]
    if [len(open) for open, _ in walk.second.loops] == [1] and rng.random() < 0.5:
        body[2:] = [
            Line("use", "tg.tile_matmul(one, two, total, wait=False)"),
            Line("pipe matmul wait", "tg.tile_matmul_wait(pending=1)"),
        ]
    second = Role(rng.choice(("tg.ws(1)", "tg.ws(1, registers=240)")), walk.second, body)
    second.before.append("total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)")
    second.after += ["tg.tile_matmul_wait()", "tg.tile_store(out, total, offset=(0, 0))"]
    return Program(
        [*results, *walk.preamble], [Role(_fetch(rng), walk.first, first), second], list(walk.asserts)
    )


__all__ = ["RINGS"]
