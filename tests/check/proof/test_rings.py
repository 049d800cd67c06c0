"""Rings whose hand-overs are not from one producer role to consumer roles, and wrong variants of them."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from idioms import RIGHT as IDIOMS
from proofs import outcome
from schedules import lowered

import tegula as tg
from tegula.ops.group import AsyncWait
from tegula.runtime.check import STRIDED

NAMED = """def named(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    ready, free = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            tg.named_barrier_sync(free)
            ring[:, :] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
            tg.named_barrier_arrive(ready)
        tg.named_barrier_sync(free)
    with tg.ws(1):
        tg.named_barrier_arrive(free)
        for k in range(n):
            tg.named_barrier_sync(ready)
            tg.tile_store(out, ring, offset=(k, 0))
            tg.named_barrier_arrive(free)
"""
TURNS = """def turns(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    one, two = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            tg.named_barrier_sync(one)
            ring[:, :] = tg.tile_load(x, shape=(1, N), offset=(2 * k, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k, 0))
            tg.named_barrier_arrive(two)
        tg.named_barrier_sync(one)
    with tg.ws(1):
        tg.named_barrier_arrive(one)
        for k in range(n):
            tg.named_barrier_sync(two)
            ring[:, :] = tg.tile_load(x, shape=(1, N), offset=(2 * k + 1, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k + 1, 0))
            tg.named_barrier_arrive(one)
"""
MIXED = """def mixed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fill", warps=1):
        it = tg.uint8(0)
        for k in range(n):
            s, phase = int(it % tg.uint8(S)), int(it // tg.uint8(S)) & 1
            tg.mbarrier_wait(empty, s, phase + 1)
            if k % 3 == 2:
                ring[s] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
                tg.fence_async()
                tg.mbarrier_arrive(full, s)
            else:
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
            it += tg.uint8(1)
    with tg.ws(1):
        s = int(0)
        phase = int(0)
        for k in range(n):
            tg.mbarrier_wait(full, s, phase)
            tg.tile_store(out, ring[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s = s + 1 if s < S - 1 else 0
            phase ^= int(s == 0)
"""
DRAWN_TILES = """def drawn(x: tg.array2d[float], out: tg.array2d[float], n: int, count: tg.array1d[int]):
    numbers = tg.tile_empty(shape=(S, 1, 8), dtype=int, storage="shared")
    announced, free = tg.mbarrier(1, stages=S), tg.mbarrier(5, stages=S)
    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.role("draw", warps=1):
        go = True
        k = int(0)
        while go:
            drawn = int(0)
            if tg.group_lane() == 0:
                drawn = tg.atomic_add(count, 0, 1)
            t = tg.uniform(drawn)
            tg.mbarrier_wait(free, k % S, k // S + 1)
            numbers[k % S] = tg.tile_full(shape=(1, 8), value=t, dtype=int)
            tg.mbarrier_arrive(announced, k % S)
            go = t < n
            k += 1
    with tg.role("fetch", warps=1):
        k = int(0)
        tg.mbarrier_wait(announced, k % S, k // S)
        t = numbers[k % S][0, 0]
        tg.mbarrier_arrive(free, k % S)
        while t < n:
            for q in range(t % 3 + 1):
                tg.tile_pipe_load(rows, x, offset=(8 * t + q, 0))
            k += 1
            tg.mbarrier_wait(announced, k % S, k // S)
            t = numbers[k % S][0, 0]
            tg.mbarrier_arrive(free, k % S)
    with tg.ws(1):
        k = int(0)
        tg.mbarrier_wait(announced, k % S, k // S)
        t = numbers[k % S][0, 0]
        tg.mbarrier_arrive(free, k % S)
        while t < n:
            for q in range(t % 3 + 1):
                tg.tile_store(out, tg.tile_pipe_pop(rows), offset=(8 * t + q, 0))
            k += 1
            tg.mbarrier_wait(announced, k % S, k // S)
            t = numbers[k % S][0, 0]
            tg.mbarrier_arrive(free, k % S)
"""
OWN = """def own(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(rows, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            s = k % S
            row = tg.tile_pipe_pop(rows)
            tg.mbarrier_wait(empty, s, k // S + 1)
            ring[s] = row * 3.0
            tg.fence_async()
            tg.mbarrier_arrive(full, s)
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(pending=1, read=True)
            if k > 0:
                tg.mbarrier_arrive(empty, (k - 1) % S)
        tg.store_wait(read=True)
"""
PARTIAL_RELEASE = """def partly(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                tg.mbarrier_wait(empty, k % 2, k // 2)
                tg.mbarrier_expect_bytes(full, k % 2, N * 4)
                tg.tile_load_async(x, ring, (k, 0), full, k % 2)
    with tg.ws(1):
        if n > 0:
            tg.mbarrier_arrive(empty, 0)
        for k in range(n):
            if k % 2 == 0:
                tg.mbarrier_wait(full, 0, k // 2)
                if k + 1 < n:
                    tg.mbarrier_arrive(empty, 1)
            else:
                tg.mbarrier_wait(full, 1, k // 2)
                tg.tile_store(out, ring, offset=(k, 0))
                tg.fence_async()
                if k + 1 < n:
                    tg.mbarrier_arrive(empty, 0)
"""
CHANGED = """def changed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            row = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
            ring[s] = row
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            tg.mbarrier_arrive(empty, s)
"""
RIGHT = {
    "own": (OWN, 3),
    "partly": (PARTIAL_RELEASE, 1),
    "changed": (CHANGED, 2),
    "parts": (IDIOMS["two copies fill a stage"], 3),
    "drawn": (DRAWN_TILES, 1),
    "named": (NAMED, 3),
    "turns": (TURNS, 3),
    "mixed": (MIXED, 4),
}
MUTATED = {
    "filled by its own role without a fence": (
        "own",
        "            tg.fence_async()\n            tg.mbarrier_arrive(full",
        "            tg.mbarrier_arrive(full",
    ),
    "released to its own role while a copy reads": ("own", "pending=1", "pending=3"),
    "refilled before the release": ("own", "(empty, s, k // S + 1)", "(empty, s, k // S)"),
    "two copies in flight to one stage": (
        "partly",
        "                tg.mbarrier_wait(full, 0, k // 2)\n                if k + 1 < n:\n"
        "                    tg.mbarrier_arrive(empty, 1)\n",
        "                if k + 1 < n:\n                    tg.mbarrier_arrive(empty, 1)\n"
        "                tg.mbarrier_wait(full, 0, k // 2)\n",
    ),
    "changed while a bulk store reads the stage": (
        "changed",
        "            ring[s] = row\n            tg.fence_async()\n"
        "            tg.tile_store_async(out, ring[s], (k, 0))\n            tg.store_commit()\n",
        "            tg.tile_store_async(out, ring[s], (k, 0))\n            tg.store_commit()\n"
        "            ring[s] = row\n            tg.fence_async()\n",
    ),
    "copies into parts that overlap": ("parts", "ring[s][32:64]", "ring[s][16:48]"),
    "two copies into one part": ("parts", "ring[s][32:64]", "ring[s][0:32]"),
    "one of two copies is not announced": ("parts", "64 * N * 4", "32 * N * 4"),
    "both roles begin": ("turns", "    with tg.ws(0):\n", "    with tg.ws(0):\n        tg.named_barrier_arrive(two)\n"),
    "handed on before the last use": (
        "turns",
        "            tg.tile_store(out, ring, offset=(2 * k, 0))\n            tg.named_barrier_arrive(two)\n",
        "            tg.named_barrier_arrive(two)\n            tg.tile_store(out, ring, offset=(2 * k, 0))\n",
    ),
    "one waits for its own turn twice": ("turns", "tg.named_barrier_sync(two)", "tg.named_barrier_arrive(two)"),
    "read before it is filled": (
        "named",
        "            tg.named_barrier_sync(ready)\n            tg.tile_store(out, ring, offset=(k, 0))\n",
        "            tg.tile_store(out, ring, offset=(k, 0))\n            tg.named_barrier_sync(ready)\n",
    ),
    "two items ahead": ("named", "        tg.named_barrier_arrive(free)\n        for", "        for _ in range(2):\n"
                        "            tg.named_barrier_arrive(free)\n        for"),
    "written before the release": (
        "named",
        "            tg.named_barrier_sync(free)\n            ring[:, :]",
        "            tg.named_barrier_arrive(free)\n            ring[:, :]",
    ),
    "a number that is read after the release of its stage": (
        "drawn",
        "            t = numbers[k % S][0, 0]\n            tg.mbarrier_arrive(free, k % S)\n",
        "            tg.mbarrier_arrive(free, k % S)\n            t = numbers[k % S][0, 0]\n",
    ),
    "one element is another number": (
        "drawn",
        "            tg.mbarrier_arrive(announced, k % S)\n",
        "            numbers[k % S, 0, 0] = t + int(t == 9)\n            tg.mbarrier_arrive(announced, k % S)\n",
    ),
    "some numbers differ": (
        "drawn",
        "            tg.mbarrier_arrive(announced, k % S)\n",
        "            if t > 5:\n                numbers[k % S] = tg.tile_full(shape=(1, 8), value=t + 1, dtype=int)\n"
        "            tg.mbarrier_arrive(announced, k % S)\n",
    ),
    "a number that is read too early": (
        "drawn",
        "            tg.mbarrier_wait(announced, k % S, k // S)\n            t = numbers[k % S][0, 0]\n",
        "            t = numbers[k % S][0, 0]\n            tg.mbarrier_wait(announced, k % S, k // S)\n",
    ),
    "each role draws a number": (
        "drawn",
        "            t = numbers[k % S][0, 0]\n",
        "            t = tg.uniform(tg.atomic_add(count, 0, 0))\n",
    ),
    "a counter that ends inside of a ring": ("mixed", "", ""),
    "filled by threads and by a copy": ("mixed", "            else:\n", "            if k % 3 != 1:\n"),
    "no fence after threads wrote": (
        "mixed",
        "                tg.fence_async()\n                tg.mbarrier_arrive(full",
        "                tg.mbarrier_arrive(full",
    ),
    "a parity that changes early": ("mixed", "int(s == 0)", "int(s == 1)"),
    "a parity computed by or": ("mixed", "phase ^= int(s == 0)", "phase |= int(s == 0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_rings_with_any_handover_are_proved(name: str) -> None:
    text, stages = RIGHT[name]
    assert outcome(lowered(kernel(text, None, stages))) == "proved"


LONG_PROOFS = {"one element is another number", "some numbers differ"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG_PROOFS else name for name in MUTATED]
)
def test_faulty_variants_of_rings_are_not_proved(name: str) -> None:
    original, old, new = MUTATED[name]
    text, stages = RIGHT[original]
    assert old in text
    assert outcome(lowered(kernel(text.replace(old, new), None, stages if old else 3))) != "proved"


def ring_of_threads(delay: int) -> str:
    """The outcome for a pipe that threads fill by asynchronous copies, with the wait for the copies moved by `delay`
    ops."""

    @tg.kernel
    def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, 32), dtype=float, stages=3)
        with tg.ws(0, registers=24):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))

    kernel, compilation = lowered(copies, arrays=STRIDED)
    wait = next(op for op in kernel.walk() if isinstance(op, AsyncWait))
    assert wait.parent is not None
    ops = wait.parent.ops
    k = ops.index(wait)
    ops[k : k + delay + 1] = [*ops[k + 1 : k + delay + 1], wait]
    return outcome((kernel, compilation))


def test_copies_by_threads_inside_roles_are_proved() -> None:
    assert ring_of_threads(0) == "proved"
    assert "outside of roles" in ring_of_threads(1)
