"""Roles that wait for each other forever: every launch ends with an error that names the wait of each role."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import agreement
import pytest
from exact_data import small_integers

import tegula as tg

pytestmark = pytest.mark.cpu  # A GPU would hang.
N = 8


@tg.kernel
def never_filled(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_store(x, tg.tile_pipe_pop(pipe))


@tg.kernel
def popped_too_often(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(3):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(4):
            tg.tile_store(x, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def filled_too_often(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(9):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(3):
            tg.tile_store(x, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def one_consumer_stops(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=1)
    with tg.ws(0):
        for k in range(5):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(5):
            tg.tile_store(x, tg.tile_pipe_pop(pipe), offset=(k, 0))
    with tg.ws(2):
        tg.tile_store(x, tg.tile_pipe_pop(pipe), offset=(7, 0))


@tg.kernel
def circular_wait(x: tg.array2d[float]):
    requests = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    replies = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_push(requests, tg.tile_pipe_pop(replies) + 1.0)
    with tg.ws(1):
        tg.tile_pipe_push(replies, tg.tile_pipe_pop(requests) + 1.0)


@tg.kernel
def too_few_arrivals(x: tg.array2d[float]):
    tile = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    full = tg.mbarrier(8, stages=2)
    with tg.ws(0):
        tile[:, :] = tg.tile_load(x, shape=(1, N))
        tg.mbarrier_arrive(full, 1)
    with tg.ws(1):
        tg.mbarrier_wait(full, 1, 0)
        tg.tile_store(x, tile)


@tg.kernel
def waits_without_arrivals(x: tg.array2d[float]):
    barrier = tg.named_barrier(warps=8)
    with tg.ws(0):
        tg.tile_store(x, tg.tile_ones(shape=(1, N)))
    with tg.ws(1):
        tg.named_barrier_sync(barrier)


WAITS = {
    too_few_arrivals: [
        "ws1 waits here for phase 0 of stage 1 of barrier 'full', to be ended by ws0, which has ended"
    ],
    waits_without_arrivals: [
        "ws1 waits here for phase 0 of barrier 'barrier', to be ended by ws1, which waits too"
    ],
    never_filled: ["ws0 waits here for tile 0 of pipe 'pipe' from any role, but no role fills the pipe"],
    popped_too_often: ["ws1 waits here for tile 3 of pipe 'pipe' from ws0, which has ended"],
    filled_too_often: [
        "ws0 waits here with tile 5 for one of 2 stages of pipe 'pipe': "
        "tile 3 is not released by ws1, which has ended"
    ],
    one_consumer_stops: [
        "ws0 waits here with tile 2 for the only stage of pipe 'pipe': "
        "tile 1 is not released by ws2, which has ended",
        "ws1 waits here for tile 2 of pipe 'pipe' from ws0, which waits too",
    ],
    circular_wait: [
        "ws0 waits here for tile 0 of pipe 'replies' from ws1, which waits too",
        "ws1 waits here for tile 0 of pipe 'requests' from ws0, which waits too",
    ],
}


def interpreted(kernel: Any, x: tg.array, blocks: int) -> None:
    threads = 128 * (1 + max(int(n) for n in "012" if f"tg.ws({n})" in inspect.getsource(kernel.__wrapped__)))
    agreement.interpret(kernel, [x], (blocks, threads), threads)


def launched(kernel: Any, x: tg.array, blocks: int) -> None:
    tg.launch_tiled(kernel, dim=blocks, inputs=[x])


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("run", [interpreted, launched])
@pytest.mark.parametrize("blocks", [1, 5000])
@pytest.mark.parametrize("kernel", WAITS, ids=lambda k: k.name)
def test_errors_of_deadlocks_have_the_wait_of_each_role(
    kernel: Any, run: Callable[..., None], blocks: int
) -> None:
    with pytest.raises(tg.Deadlock) as caught:
        run(kernel, tg.clone(small_integers(10, N), device="cpu"), blocks)
    error = caught.value
    assert [text for _, text in error.waits] == WAITS[kernel]
    assert all(text in str(error) for text in WAITS[kernel]) and f"kernel {kernel.name}" in str(error)
    assert all(
        "tile_pipe_" in location.text() or "barrier_" in location.text() for location, _ in error.waits
    )


@pytest.mark.machine_code
def test_launches_work_after_a_deadlock() -> None:
    x = tg.clone(small_integers(10, N), device="cpu")
    for _ in range(3):
        with pytest.raises(tg.Deadlock):
            launched(circular_wait, x, 100)
