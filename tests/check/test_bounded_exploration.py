"""Kernels that accept schedules without a proof: the verdict names the explored launches."""

from __future__ import annotations

from typing import Any

import pytest
from equivalent_rewrites import kernel

import tegula as tg
from tegula.runtime.automatic import require_accepted

TEXT = """def first(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range({iterations}):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""


def checked(text: str, **options: Any) -> Any:
    return kernel(text, **options).check()


def test_bounded_checks_try_numbers_that_differ_far_away() -> None:
    verdict = checked(TEXT.format(iterations="tg.min(n, 1000)"))
    assert verdict.status == "refuted" and dict(verdict.launch)["n"] > 1000


def test_a_faulty_launch_is_refused_with_bounded_checks_too() -> None:
    verdict = checked(TEXT.format(iterations="n + 1"), check="bounded")
    assert (verdict.status, verdict.accepted) == ("refuted", False)


def test_a_correct_schedule_passes_with_bounded() -> None:
    assert checked(TEXT.format(iterations="n"), check="bounded").passed


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


def test_an_unproved_kernel_without_bounded_checks_is_refused() -> None:
    """The behaviour of the roles depends on data in every launch."""
    verdict = checked(WRITTEN)
    assert (verdict.status, verdict.accepted) == ("unproved", False)
    with pytest.raises(
        tg.CompileError, match="the value that decides this branch or trip count is unknown"
    ) as caught:
        verdict.require()
    assert 'check="bounded"' in str(caught.value)


def test_the_verdict_of_a_bounded_check_states_the_explored_launches() -> None:
    verdict = checked(WRITTEN, check="bounded")
    assert (verdict.status, verdict.accepted) == ("unproved", True)
    assert "unproved (0 launches explored" in verdict.report()
    verdict.require()
    require_accepted(verdict)


MIXED = """def first(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.role("fill", warps=1):
        for k in range(n):
            s, phase = k % 2, k // 2 & 1
            written = k > 2 * n - 7
            tg.mbarrier_wait(empty, s, phase ^ 1)
            if written:
                ring[s] = tg.tile_load(x, shape=(1, 32), offset=(k, 0))
            if written{fenced}:
                tg.fence_async()
            if written:
                tg.mbarrier_arrive(full, s)
            if not written:
                tg.mbarrier_expect_bytes(full, s, 128)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(full, k % 2, k // 2 & 1)
            tg.tile_store(out, ring[k % 2], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, k % 2)
"""


def test_writes_of_a_branch_happen_where_the_branch_is_taken() -> None:
    assert checked(MIXED.format(fenced="")).status != "refuted"
    verdict = checked(MIXED.format(fenced=" and k > 0").replace("k > 2 * n - 7", "k < 1"))
    assert (verdict.status, verdict.kind) == ("refuted", "fence"), verdict.message


KEYS = """def first(x: tg.array2d[float], out: tg.array2d[float], n: int, keys: tg.array1d[int]):
    ring = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    key_ring = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    loaded, unused = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.role("fetch", warps=1):
        at = int(-1)
        for k in range(n):
            if k >= 2:
                tg.mbarrier_wait(empty, k % 2, k // 2 & 1 ^ 1)
            tg.mbarrier_expect_bytes(full, k % 2, 128)
            tg.tile_load_async(x, ring[k % 2], (k, 0), full, k % 2)
            if k == 0 or keys[k] != keys[k - 1]:
                at += 1
                tg.mbarrier_wait(unused, at % 2, (at // 2 & 1) ^ 1)
                tg.mbarrier_expect_bytes(loaded, at % 2, 128)
                tg.tile_load_async(x, key_ring[at % 2], (keys[k], 0), loaded, at % 2)
    with tg.ws(1):
        at = int(-1)
        for k in range(n):
            if k == 0 or keys[k] != keys[k - 1]:
                if k > 0:
                    tg.fence_async()
                    tg.mbarrier_arrive(unused, at % 2)
                at += 1
                tg.mbarrier_wait(loaded, at % 2, at // 2 & 1)
            tg.mbarrier_wait(full, k % 2, k // 2 & 1)
            tg.tile_store(out, ring[{stage}] * key_ring[at % 2], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, k % 2)
"""


def test_fills_with_a_second_wait_still_wait_for_a_free_stage() -> None:
    """The last wait before a stage is filled may be for another condition, and the first fills need not wait at all."""
    assert checked(KEYS.format(stage="k % 2")).status != "refuted"
    verdict = checked(KEYS.format(stage="k % 2 if k < 5 else 0"))
    assert verdict.status == "refuted", verdict.message
