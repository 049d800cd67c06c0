"""Rings of stages in shared memory: the roles that fill the stages, and the roles that use the items."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from support.attacks.program import ROW, Line, Program, Role, stagings
from support.attacks.walks import LoopPair

ROW_BYTES = ROW * 4
PANEL_BYTES = 64 * 64 * 2
"""The size of a stage of a matmul operand, in bytes."""
RingBuilder = Callable[[Random, LoopPair], Program]
RINGS: dict[str, RingBuilder] = {}
"""The rings by name. The first role iterates over the first form of the pair, the last role over the second form."""


def ring(name: str) -> Callable[[RingBuilder], RingBuilder]:
    def register(builder: RingBuilder) -> RingBuilder:
        RINGS[name] = builder
        return builder

    return register


def _stages(rng: Random) -> int:
    return rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8))


def _rows(name: str, stages: int) -> str:
    return f'{name} = tg.tile_empty(shape=({stages}, 1, {ROW}), dtype=float, storage="shared")'


def _panels(name: str, stages: int) -> str:
    return f'{name} = tg.tile_empty(shape=({stages}, 64, 64), dtype=tg.bfloat16, storage="shared")'


def _bars(full: int, empty: int, stages: int, names: tuple[str, str] = ("full", "empty")) -> str:
    return f"{names[0]}, {names[1]} = tg.mbarrier({full}, stages={stages}), tg.mbarrier({empty}, stages={stages})"


def wait_for_free_stage(rng: Random, stages: int, empty: str = "empty") -> Line:
    """The wait of the producer for a free stage."""
    forms = [f"tg.mbarrier_wait({empty}, s, phase ^ 1)", f"tg.mbarrier_wait({empty}, s, phase + 1)",
            f"if k >= {stages}:\n    tg.mbarrier_wait({empty}, s, phase ^ 1)"]  # fmt: skip
    return Line("wait empty", rng.choice(forms))


def fetch_role_head(rng: Random) -> tuple[str, bool]:
    """The head of a role that copies items into a ring, and whether the role must elect a thread."""
    return rng.choice(
        [("tg.ws(0)", True), ("tg.ws(0, registers=24)", True), ('tg.role("fetch", warps=1)', False)]
    )


def fetch_role(
    rng: Random, walk: LoopPair, stages: int, rings: tuple[tuple[str, str, str], ...], size: int
) -> Role:
    """A role that copies items into rings. `rings`: the name, the array and the offset of each ring; `size`: the bytes
    of a stage."""
    head, elected = fetch_role_head(rng)
    body = [
        wait_for_free_stage(rng, stages),
        Line("expect", f"tg.mbarrier_expect_bytes(full, s, {size * len(rings)})"),
        *(Line("load", f"tg.tile_load_async({a}, {r}[s], {row}, full, s)") for r, a, row in rings),
    ]
    return Role(head, walk.first, body, stagings(rng, stages), elected)


def _second_group_head(head: str) -> str:
    return head.replace("(0", "(1")


def read_role_head(rng: Random) -> tuple[str, int]:
    """The head of a role that reads, and its number of warps."""
    return rng.choice(
        [
            ("tg.ws(1)", 4),
            ("tg.ws(1)", 4),
            ("tg.ws(1, 2)", 8),
            ('tg.role("read", warps=2)', 2),
            ('tg.role("read", warps=1)', 1),
        ]
    )


def _read(rng: Random) -> Line:
    return Line("read", rng.choice(["tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))", "total += ring[s]",
                                    "tg.tile_store(out, ring[s], offset=(k, 0))"]))  # fmt: skip


def _add_accumulator(role: Role) -> Role:
    if any("total" in line.text for line in role.body):
        role.before.append(f"total = tg.tile_zeros(shape=(1, {ROW}))")
        role.after.append("tg.tile_store(out, total, offset=(0, 0))")
    return role


def read_role(rng: Random, walk: LoopPair, stages: int, head: str) -> Role:
    fenced = [_read(rng), Line("fence", "tg.fence_async()"), Line("arrive", "tg.mbarrier_arrive(empty, s)")]
    role = Role(
        head, walk.second, [Line("wait", "tg.mbarrier_wait(full, s, phase)"), *fenced], stagings(rng, stages)
    )
    return _add_accumulator(role)


@ring("fetch and read")
def fetch_and_read(rng: Random, walk: LoopPair) -> Program:
    stages, (head, warps) = _stages(rng), read_role_head(rng)
    results = [_rows("ring", stages), _bars(1, warps, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    return Program(results, [first, read_role(rng, walk, stages, head)], list(walk.asserts))


@ring("fetch and read, one arrives for all")
def fetch_and_read_elected(rng: Random, walk: LoopPair) -> Program:
    """The warps of the reader synchronise before an elected thread releases the stage."""
    stages = _stages(rng)
    results = [_rows("ring", stages), _bars(1, 1, stages), "own = tg.named_barrier(warps=4)", *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    second = read_role(rng, walk, stages, "tg.ws(1)")
    index = second.index_of_tag("arrive")
    second.body[index:] = [
        Line("sync", "tg.named_barrier_sync(own)"),
        Line("arrive", "if tg.elect():\n    tg.mbarrier_arrive(empty, s)"),
    ]
    return Program(results, [first, second], list(walk.asserts))


@ring("two readers")
def two_readers(rng: Random, walk: LoopPair) -> Program:
    stages = _stages(rng)
    results = [_rows("ring", stages), _bars(1, 8, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    readers = [read_role(rng, walk, stages, f"tg.ws({k})") for k in (1, 2)]
    if rng.random() < 0.5:
        readers[0].form = walk.first
    return Program(results, [first, *readers], list(walk.asserts))


@ring("two fetchers")
def two_fetchers(rng: Random, walk: LoopPair) -> Program:
    """Each role announces its own bytes at the same barriers."""
    stages = _stages(rng)
    results = [_rows("ring", stages), _rows("other", stages), _bars(2, 4, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    second_fetch = fetch_role(rng, walk, stages, (("other", "y", "(k, 0)"),), ROW_BYTES)
    first.head, second_fetch.head, first.elected, second_fetch.elected = (
        'tg.role("one", warps=1)',
        'tg.role("two", warps=1)',
        False,
        False,
    )
    last = read_role(rng, walk, stages, "tg.ws(1)")
    last.body.insert(1, Line("read", "tg.tile_store(out, other[s] + 1.0, offset=(k + 9, 0))"))
    return Program(results, [first, second_fetch, last], list(walk.asserts))


@ring("write and read")
def write_and_read(rng: Random, walk: LoopPair) -> Program:
    stages, (head, warps) = _stages(rng), read_role_head(rng)
    results = [_rows("ring", stages), _bars(4, warps, stages), *walk.preamble]
    body = [
        wait_for_free_stage(rng, stages),
        Line("write", f"ring[s] = tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 3.0"),
        Line("arrive full", "tg.mbarrier_arrive(full, s)"),
    ]
    first = Role("tg.ws(0)", walk.first, body, stagings(rng, stages))
    second = read_role(rng, walk, stages, head)
    del second.body[second.index_of_tag("fence")]
    return Program(results, [first, second], list(walk.asserts))


@ring("write and copy out")
def write_and_copy_out(rng: Random, walk: LoopPair) -> Program:
    """Threads write the items; asynchronous copies to an array read them."""
    stages = _stages(rng)
    results = [_rows("ring", stages), _bars(4, 1, stages), *walk.preamble]
    body = [
        wait_for_free_stage(rng, stages),
        Line("write", f"ring[s] = tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 3.0"),
        Line("fence", "tg.fence_async()"),
        Line("arrive full", "tg.mbarrier_arrive(full, s)"),
    ]
    out = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("out", "tg.tile_store_async(out, ring[s], (k, 0))"),
        Line("commit", "tg.store_commit()"),
        Line("out wait", f"tg.store_wait(pending=0, read={rng.random() < 0.5})"),
        Line("arrive", "tg.mbarrier_arrive(empty, s)"),
    ]
    head, elected = rng.choice([("tg.ws(1)", True), ('tg.role("store", warps=1)', False)])
    second = Role(head, walk.second, out, stagings(rng, stages), elected)
    return Program(
        results, [Role("tg.ws(0)", walk.first, body, stagings(rng, stages)), second], list(walk.asserts)
    )


@ring("fetch and copy out")
def fetch_and_copy_out(rng: Random, walk: LoopPair) -> Program:
    stages = _stages(rng)
    results = [_rows("ring", stages), _bars(1, 1, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("out", "tg.tile_store_async(out, ring[s], (k, 0))"),
        Line("commit", "tg.store_commit()"),
        Line("out wait", "tg.store_wait(pending=0, read=True)"),
        Line("arrive", "tg.mbarrier_arrive(empty, s)"),
    ]
    second = Role('tg.role("store", warps=1)', walk.second, body, stagings(rng, stages))
    return Program(results, [first, second], list(walk.asserts))


@ring("copies out that overlap")
def overlapped_out(rng: Random, walk: LoopPair) -> Program:
    """A stage is released after the copy of the next item has been issued."""
    stages = rng.choice((2, 3, 4, 5))
    results = [_rows("ring", stages), _bars(1, 1, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("out", "tg.tile_store_async(out, ring[s], (k, 0))"),
        Line("commit", "tg.store_commit()"),
        Line("out wait", "tg.store_wait(pending=1, read=True)"),
        Line("arrive", f"if k > 0:\n    tg.mbarrier_arrive(empty, (k - 1) % {stages})"),
    ]
    second = Role('tg.role("store", warps=1)', walk.second, body, stagings(rng, stages))
    second.after = ["tg.store_wait(read=True)"]
    return Program(results, [first, second], list(walk.asserts))


def _matmul_role(
    rng: Random, walk: LoopPair, names: list[str], stages: int, head: str, b: str, free: str = "empty"
) -> Role:
    body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("matmul", f"tg.tile_matmul(ring[s], {b}, total)"),
        Line("arrive", f"tg.mbarrier_arrive({free}, s)"),
    ]
    if rng.random() < 0.6:
        body[1:2] = [
            Line("matmul", f"tg.tile_matmul(ring[s], {b}, total, wait=False)"),
            Line("matmul wait", "tg.tile_matmul_wait(pending=0)"),
        ]
    role = Role(head, walk.second, body, stagings(rng, stages))
    role.before.append("total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)")
    role.after += ["tg.tile_matmul_wait()", "tg.tile_store(out, total, offset=(0, 0))"]
    return role


@ring("fetch and multiply")
def fetch_and_multiply(rng: Random, walk: LoopPair) -> Program:
    stages = rng.choice((1, 2, 3, 4))
    results = [_panels("ring", stages), _panels("other", stages), _bars(1, 4, stages), *walk.preamble]
    rings = (("ring", "a", "(0, k * 64)"), ("other", "b", "(k * 64, 0)"))
    first = fetch_role(rng, walk, stages, rings, PANEL_BYTES)
    return Program(
        results, [first, _matmul_role(rng, walk, results, stages, "tg.ws(1)", "other[s]")], list(walk.asserts)
    )


@ring("matmuls that overlap")
def overlapped_matmuls(rng: Random, walk: LoopPair) -> Program:
    """A stage is released after the matmul of the next item has been issued."""
    stages = rng.choice((2, 3, 4))
    results = [_panels("ring", stages), _panels("other", stages), _bars(1, 4, stages), *walk.preamble]
    rings = (("ring", "a", "(0, k * 64)"), ("other", "b", "(k * 64, 0)"))
    first = fetch_role(rng, walk, stages, rings, PANEL_BYTES)
    second = _matmul_role(rng, walk, results, stages, "tg.ws(1)", "other[s]")
    second.body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("matmul", "tg.tile_matmul(ring[s], other[s], total, wait=False)"),
        Line("matmul wait", "tg.tile_matmul_wait(pending=1)"),
        Line("arrive", f"if k > 0:\n    tg.mbarrier_arrive(empty, (k - 1) % {stages})"),
    ]
    return Program(results, [first, second], list(walk.asserts))


@ring("write and multiply")
def write_and_multiply(rng: Random, walk: LoopPair) -> Program:
    """Threads write tiles that tensor cores read."""
    stages = rng.choice((1, 2, 3))
    results = [_panels("ring", stages), _panels("other", stages), _bars(4, 4, stages), *walk.preamble]
    load = "tg.tile_load({}, shape=(64, 64), offset=(0, k * 64))"
    body = [
        wait_for_free_stage(rng, stages),
        Line("write", f"ring[s] = {load.format('a')}"),
        Line("write", f"other[s] = {load.format('b')}"),
        Line("fence", "tg.fence_async()"),
        Line("arrive full", "tg.mbarrier_arrive(full, s)"),
    ]
    first = Role("tg.ws(0)", walk.first, body, stagings(rng, stages))
    return Program(
        results, [first, _matmul_role(rng, walk, results, stages, "tg.ws(1)", "other[s]")], list(walk.asserts)
    )


@ring("late release")
def late_release(rng: Random, walk: LoopPair) -> Program:
    """Stages are released a number of items late; the stages of the last items are not released."""
    lag = rng.choice((1, 1, 2, 3))
    stages = lag + rng.choice((1, 2, 3))
    results = [_rows("ring", stages), _bars(1, 4, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    second = read_role(rng, walk, stages, "tg.ws(1)")
    index = second.index_of_tag("arrive")
    second.body[index] = Line(
        "arrive", f"if k >= {lag}:\n    tg.mbarrier_arrive(empty, (k - {lag}) % {stages})"
    )
    return Program(results, [first, second], list(walk.asserts))


@ring("waited for twice")
def waited_twice(rng: Random, walk: LoopPair) -> Program:
    """A second wait for an item whose stage is not yet released has no effect."""
    stages = rng.choice((1, 2, 3, 4))
    results = [_rows("ring", stages), _bars(1, 4, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    second = read_role(rng, walk, stages, "tg.ws(1)")
    second_wait = Line("second wait", "tg.mbarrier_wait(full, s, phase)")
    second.body.insert(rng.choice((0, 1, 2)), second_wait)
    return Program(results, [first, second], list(walk.asserts))


@ring("a chain")
def chain(rng: Random, walk: LoopPair) -> Program:
    """Rows are fetched, modified by a role in the middle, and stored."""
    stages, more = _stages(rng), _stages(rng)
    results = [
        _rows("ring", stages),
        _rows("other", more),
        _bars(1, 4, stages),
        _bars(4, 4, more, ("ready", "used")),
        *walk.preamble,
    ]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("wait empty", f"tg.mbarrier_wait(used, k % {more}, (k // {more} & 1) ^ 1)"),
        Line("write", f"other[k % {more}] = ring[s] * 2.0"),
        Line("fence", "tg.fence_async()"),
        Line("arrive", "tg.mbarrier_arrive(empty, s)"),
        Line("arrive full", f"tg.mbarrier_arrive(ready, k % {more})"),
    ]
    middle = Role("tg.ws(1)", rng.choice((walk.first, walk.second)), body, stagings(rng, stages))
    last = [
        Line("wait", "tg.mbarrier_wait(ready, s, phase)"),
        Line("read", "tg.tile_store(out, other[s] + 1.0, offset=(k, 0))"),
        Line("arrive", "tg.mbarrier_arrive(used, s)"),
    ]
    return Program(
        results, [first, middle, Role("tg.ws(2)", walk.second, last, stagings(rng, more))], list(walk.asserts)
    )


@ring("feedback")
def feedback(rng: Random, walk: LoopPair) -> Program:
    """A role returns the result of each item to the producer, which uses it a number of items later."""
    stages = rng.choice((1, 2, 3))
    results = [_rows("ring", stages), _rows("other", stages), "full, ready = "
            f"tg.mbarrier(4, stages={stages}), tg.mbarrier(4, stages={stages})", *walk.preamble]  # fmt: skip
    S = stages
    body = [
        Line("wait empty", f"if k >= {S}:\n    tg.mbarrier_wait(ready, s, phase ^ 1)\n    total += other[s]"),
        Line("write", f"ring[s] = total + tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0))"),
        Line("arrive full", "tg.mbarrier_arrive(full, s)"),
    ]
    first = Role("tg.ws(0)", walk.first, body, stagings(rng, stages))
    first.before.append(f"total = tg.tile_zeros(shape=(1, {ROW}))")
    return_lines = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("write", "other[s] = ring[s] * 2.0"),
        Line("arrive", "tg.mbarrier_arrive(ready, s)"),
    ]
    return Program(
        results,
        [first, Role("tg.ws(1)", walk.second, return_lines, stagings(rng, stages))],
        list(walk.asserts),
    )


@ring("one tile")
def one_tile(rng: Random, walk: LoopPair) -> Program:
    """A tile without stages that one role writes and another role reads."""
    results = [f'ring = tg.tile_empty(shape=(1, {ROW}), dtype=float, storage="shared")',
            "full, empty = tg.mbarrier(4), tg.mbarrier(4)", *walk.preamble]  # fmt: skip
    body = [
        Line("wait empty", "tg.mbarrier_wait(empty, 0, k + 1)"),
        Line("write", f"ring[:, :] = tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 3.0"),
        Line("arrive full", "tg.mbarrier_arrive(full)"),
    ]
    second_lines = [
        Line("wait", "tg.mbarrier_wait(full, 0, k)"),
        Line("read", "tg.tile_store(out, ring, offset=(k, 0))"),
        Line("arrive", "tg.mbarrier_arrive(empty)"),
    ]
    return Program(
        results,
        [Role("tg.ws(0)", walk.first, body), Role("tg.ws(1)", walk.second, second_lines)],
        list(walk.asserts),
    )


@ring("named barriers")
def alternating_tile(rng: Random, walk: LoopPair) -> Program:
    """A tile that two roles use alternately, synchronised by named barriers."""
    results = [f'ring = tg.tile_empty(shape=(1, {ROW}), dtype=float, storage="shared")',
            "ready, free = tg.named_barrier(warps=8), tg.named_barrier(warps=8)", *walk.preamble]  # fmt: skip
    body = [
        Line("wait empty", "tg.named_barrier_sync(free)"),
        Line("write", f"ring[:, :] = tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 3.0"),
        Line("arrive full", "tg.named_barrier_arrive(ready)"),
    ]
    second_lines = [
        Line("wait", "tg.named_barrier_sync(ready)"),
        Line("read", "tg.tile_store(out, ring, offset=(k, 0))"),
        Line("arrive", "tg.named_barrier_arrive(free)"),
    ]
    first, second = Role("tg.ws(0)", walk.first, body), Role("tg.ws(1)", walk.second, second_lines)
    second.before.append("tg.named_barrier_arrive(free)")
    first.after.append("tg.named_barrier_sync(free)")
    return Program(results, [first, second], list(walk.asserts))


@ring("ping-pong")
def ping_pong(rng: Random, walk: LoopPair) -> Program:
    """Two roles that alternately write a tile and copy the tile out."""
    results = [f'ring = tg.tile_empty(shape=(1, {ROW}), dtype=float, storage="shared")',
            "one, two = tg.named_barrier(warps=8), tg.named_barrier(warps=8)", *walk.preamble]  # fmt: skip

    def body(own: str, other: str, row: str) -> list[Line]:
        return [
            Line("wait", f"tg.named_barrier_sync({own})"),
            Line("write", f"ring[:, :] = tg.tile_load(x, shape=(1, {ROW}), offset=({row}, 0)) * 3.0"),
            Line("read", f"tg.tile_store(out, ring, offset=({row}, 0))"),
            Line("arrive", f"tg.named_barrier_arrive({other})"),
        ]

    first, second = Role("tg.ws(0)", walk.first, body("one", "two", "2 * k")), Role(
        "tg.ws(1)", walk.second, body("two", "one", "2 * k + 1"))  # fmt: skip
    second.before.append("tg.named_barrier_arrive(one)")
    first.after.append("tg.named_barrier_sync(one)")
    return Program(results, [first, second], list(walk.asserts))


@ring("staged out")
def staged_out(rng: Random, walk: LoopPair) -> Program:
    """A role fetches; another role computes, and copies results out from its own stages."""
    stages, own = _stages(rng), rng.choice((1, 2, 3))
    results = [_rows("ring", stages), _rows("staged", own), _bars(1, 4, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    body = [
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("out wait", f"tg.store_wait(pending={own - 1}, read=True)"),
        Line("own write", f"staged[k % {own}] = ring[s] * 2.0"),
        Line("fence", "tg.fence_async()"),
        Line("arrive", "tg.mbarrier_arrive(empty, s)"),
        Line("own out", f"tg.tile_store_async(out, staged[k % {own}], (k, 0))"),
        Line("commit", "tg.store_commit()"),
    ]
    second = Role("tg.ws(1)", walk.second, body, stagings(rng, stages))
    second.after.append("tg.store_wait(read=True)")
    return Program(results, [first, second], list(walk.asserts))


@ring("keys")
def keys(rng: Random, walk: LoopPair) -> Program:
    """A second ring whose item is used as long as the key of the items is unchanged; its stage is released when the key
    changes."""
    S, T = _stages(rng), rng.choice((1, 2, 3))
    results = [
        _rows("ring", S),
        _rows("other", T),
        _bars(1, 4, S),
        _bars(1, 4, T, ("loaded", "unused")),
        *walk.preamble,
    ]
    is_new_key, stage, phase = "k == 0 or keys[k] != keys[k - 1]", f"at % {T}", f"at // {T} & 1"
    first = fetch_role(rng, walk, S, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    first.head, first.elected = 'tg.role("fetch", warps=1)', False
    first.before.append("at = int(-1)")
    fetched = [
        f"if {is_new_key}:",
        "    at += 1",
        f"    tg.mbarrier_wait(unused, {stage}, ({phase}) ^ 1)",
        f"    tg.mbarrier_expect_bytes(loaded, {stage}, {ROW_BYTES})",
        f"    tg.tile_load_async(y, other[{stage}], (keys[k], 0), loaded, {stage})",
    ]
    key_lines = [
        f"if {is_new_key}:",
        "    if k > 0:",
        "        tg.fence_async()",
        f"        tg.mbarrier_arrive(unused, {stage})",
        "    at += 1",
        f"    tg.mbarrier_wait(loaded, {stage}, {phase})",
    ]
    first.body.append(Line("key", "\n".join(fetched)))
    body = [
        Line("key", "\n".join(key_lines)),
        Line("wait", "tg.mbarrier_wait(full, s, phase)"),
        Line("read", f"tg.tile_store(out, ring[s] * other[{stage}], offset=(k, 0))"),
        Line("fence", "tg.fence_async()"),
        Line("arrive", "tg.mbarrier_arrive(empty, s)"),
    ]
    second = Role("tg.ws(1)", walk.second, body, stagings(rng, S))
    second.before.append("at = int(-1)")
    return Program(results, [first, second], list(walk.asserts))


@ring("mixed")
def mixed(rng: Random, walk: LoopPair) -> Program:
    """Threads write some items; asynchronous copies fill the other items."""
    stages = _stages(rng)
    results = [_rows("ring", stages), _bars(1, 4, stages), *walk.preamble]
    first = fetch_role(rng, walk, stages, (("ring", "x", "(k, 0)"),), ROW_BYTES)
    first.head, first.elected = 'tg.role("fill", warps=1)', False
    written = rng.choice(("k % 3 == 2", "k % 5 == 0", "k > 7", "flags[k] > 1"))
    body = [Line("choice", f"written = {written}"), wait_for_free_stage(rng, stages)]
    for line in (
        Line("write", f"ring[s] = tg.tile_load(x, shape=(1, {ROW}), offset=(k, 0)) * 3.0"),
        Line("fence", "tg.fence_async()"),
        Line("arrive full", "tg.mbarrier_arrive(full, s)"),
    ):
        body.append(Line(line.tag, f"if written:\n    {line.text}"))
    for line in first.body[1:]:
        body.append(Line(line.tag, f"if not written:\n    {line.text}"))
    first.body = body
    return Program(results, [first, read_role(rng, walk, stages, "tg.ws(1)")], list(walk.asserts))
