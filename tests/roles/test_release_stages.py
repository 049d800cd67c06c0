"""The ops after which stages are released, and the detection of wrong releases."""

from __future__ import annotations

from typing import Any

import agreement
import numpy as np
import pytest
from exact_data import small_integers

import tegula as tg
from tegula import interp
from tegula.ir import Kernel, Op, Region
from tegula.ops.roles import PipePop, PipeRelease, Roles
from tegula.passes.pipeline import prepare

pytestmark = pytest.mark.cpu
N = 8
THREADS = 256


@tg.kernel
def last_use_in_a_branch(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tile = tg.tile_pipe_pop(pipe)
            if k % 2 == 0:
                tg.tile_store(out, tile + 1.0, offset=(k, 0))
            tg.tile_store(out, tg.tile_ones(shape=(1, N)), offset=(n, 0))


@tg.kernel(check="bounded")
def never_used(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for _k in range(n):
            tg.tile_pipe_pop(pipe)
        tg.tile_store(out, tg.tile_ones(shape=(1, N)))


def prepared(kernel: Any, args: list[Any]) -> Kernel:
    traced_kernel = agreement.traced(kernel, args, (1, THREADS), THREADS)
    prepare(traced_kernel)
    return traced_kernel


def consumer(kernel: Kernel) -> Region:
    """The body of the loop of the role that pops."""
    return next(op.parent for op in kernel.walk() if isinstance(op, PipePop) and op.parent is not None)


def arguments(n: int = 4) -> list[Any]:
    x = tg.clone(small_integers(n + 1, N), device="cpu")
    return [x, tg.zeros((n + 1, N), device="cpu"), n]


@pytest.mark.parametrize("kernel", [last_use_in_a_branch, never_used], ids=lambda k: k.name)
def test_stages_are_released_once_after_their_last_use(kernel: Any) -> None:
    body = consumer(prepared(kernel, arguments()))
    names = [op.NAME for op in body.ops]
    assert names.count("pipe.release") == 1
    preceding = names[names.index("pipe.release") - 1]
    assert preceding == ("if" if kernel is last_use_in_a_branch else "pipe.pop")


def test_stages_are_released_in_the_order_of_the_pops() -> None:
    @tg.kernel
    def crossed(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
        with tg.ws(0):
            for k in range(2 * n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(n):
                first, second = tg.tile_pipe_pop(pipe), tg.tile_pipe_pop(pipe)
                tg.tile_store(out, second, offset=(k, 0))
                tg.tile_store(out, first, offset=(k, 0))

    names = [op.NAME for op in consumer(prepared(crossed, arguments())).ops]
    last_read = len(names) - 1 - names[::-1].index("buf.read")
    assert [k > last_read for k, name in enumerate(names) if name == "pipe.release"] == [True, True]


def run(kernel: Kernel, args: list[Any]) -> np.ndarray:
    host_arrays = [a.numpy().copy() if isinstance(a, tg.array) else a for a in args]
    interp.run(kernel, host_arrays, (1, THREADS), THREADS)
    return host_arrays[1]


def test_a_stage_released_before_its_last_use_changes_results() -> None:
    """The interpreter overwrites released stages, so that the agreement in other tests is meaningful."""
    args = arguments()
    right, wrong = prepared(last_use_in_a_branch, args), prepared(last_use_in_a_branch, args)
    body = consumer(wrong)
    release = next(op for op in body.ops if isinstance(op, PipeRelease))
    body.ops.remove(release)
    pop = next(k for k, op in enumerate(body.ops) if isinstance(op, PipePop))
    body.ops.insert(pop + 1, release)
    assert not np.array_equal(run(right, args), run(wrong, args), equal_nan=True)


def test_a_missing_release_of_a_stage_is_a_deadlock() -> None:
    args = arguments(9)
    built_kernel = prepared(never_used, args)
    body = consumer(built_kernel)
    release: Op = next(op for op in body.ops if isinstance(op, PipeRelease))
    body.ops.remove(release)
    roles = next(op for op in built_kernel.body.ops if isinstance(op, Roles))
    release.parent = roles.regions[1]
    roles.regions[1].ops.insert(len(roles.regions[1].ops) - 1, release)
    with pytest.raises(tg.Deadlock):
        run(built_kernel, args)
