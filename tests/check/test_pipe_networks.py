"""Networks of roles and pipes in users' idioms: nested, causal and counted loops, feedback, skewed producers."""

from __future__ import annotations

from typing import Any

import pytest

import tegula as tg
from support.campaigns import sampled
from tegula.check.schedule import check_schedule
from tegula.ir import Kernel as KernelIR
from tegula.ir import LaunchClass
from tegula.ops.schedule import MbarrierWait
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.check import PACKED, STRIDED, argument_types
from tegula.runtime.compile import trace
from tegula.target import get_cuda_target

Rows = tg.array2d[float]
SHAPE = (1, 32)


# Correct networks -----------------------------------------------------------------------------------------------------


@tg.kernel
def causal(x: Rows, out: Rows, n: int):
    i = tg.tid()
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(i + 1):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        t = tg.tile_zeros(shape=SHAPE, dtype=float)
        for k in range(i + 1):
            t += tg.tile_pipe_pop(pipe)
        tg.tile_store(out, t, offset=(i, 0))


@tg.kernel
def nested(x: Rows, out: Rows, n: int, m: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for j in range(n):
            for k in range(j, m):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for j in range(n):
            t = tg.tile_zeros(shape=SHAPE, dtype=float)
            for k in range(j, m):
                t += tg.tile_pipe_pop(pipe)
            tg.tile_store(out, t, offset=(j, 0))


@tg.kernel
def pairs(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=4)
    with tg.ws(0):
        for k in range(2 * (n // 2)):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n // 2):
            a = tg.tile_pipe_pop(pipe)
            b = tg.tile_pipe_pop(pipe)
            tg.tile_store(out, a + b, offset=(k, 0))


@tg.kernel
def data_count(x: Rows, counts: tg.array1d[int], out: Rows):
    i = tg.tid()
    n = counts[i]
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        t = tg.tile_zeros(shape=SHAPE, dtype=float)
        for k in range(n):
            t += tg.tile_pipe_pop(pipe)
        tg.tile_store(out, t, offset=(i, 0))


@tg.kernel
def two_pipes_skewed(a: Rows, b: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    second_pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=5)
    with tg.role("pa", warps=1):
        for k in range(n):
            tg.tile_pipe_load(pipe, a, offset=(k, 0))
    with tg.role("pb", warps=1):
        for k in range(n):
            tg.tile_pipe_load(second_pipe, b, offset=(k, 0))
    with tg.role("c", warp_groups=1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * tg.tile_pipe_pop(second_pipe), offset=(k, 0))


@tg.kernel
def feedback(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    second_pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        t = tg.tile_load(x, shape=SHAPE, offset=(0, 0))
        for k in range(n):
            tg.tile_pipe_push(pipe, t)
            t = tg.tile_pipe_pop(second_pipe) * 1.0
        tg.tile_store(out, t, offset=(0, 0))
    with tg.ws(1):
        for k in range(n):
            u = tg.tile_pipe_pop(pipe)
            tg.tile_pipe_push(second_pipe, u + 1.0)


@tg.kernel
def early_release(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=1)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            a = tg.tile_pipe_pop(pipe)
            s = tg.tile_sum(a)
            tg.tile_pipe_release(pipe)
            tg.tile_store(
                out, tg.tile_broadcast(tg.tile_reshape(s, shape=(1, 1)), shape=SHAPE), offset=(k, 0)
            )


@tg.kernel
def step_loop(x: Rows, out: Rows, lo: int, hi: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(lo, hi, 3):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(lo, hi, 3):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def min_count(x: Rows, out: Rows, n: int, m: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    c = tg.min(n, m)
    with tg.ws(0):
        for k in range(c):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(tg.min(m, n)):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.func
def fill(pipe: Any, x: Rows, n: int):
    for k in range(n):
        tg.tile_pipe_load(pipe, x, offset=(k, 0))


@tg.func
def drain(pipe: Any, out: Rows, n: int):
    for k in range(n):
        tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def in_functions(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        fill(pipe, x, n)
    with tg.ws(1):
        drain(pipe, out, n)


RIGHT = (
    causal,
    nested,
    pairs,
    data_count,
    two_pipes_skewed,
    feedback,
    early_release,
    step_loop,
    min_count,
    in_functions,
)


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda k: k.name)
def test_correct_networks_of_roles_pass(kernel: Any) -> None:
    verdict = kernel.check()
    assert verdict.passed, verdict.message


# Wrong networks -------------------------------------------------------------------------------------------------------


@tg.kernel
def one_more_pop(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n + 1):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def too_many_fills(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n + 1):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def floor_vs_ceil(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range((n + 3) // 4):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n // 4):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def feedback_deadlock(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    second_pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            t = tg.tile_pipe_pop(second_pipe) * 1.0
            tg.tile_pipe_push(pipe, t)
    with tg.ws(1):
        for k in range(n):
            u = tg.tile_pipe_pop(pipe)
            tg.tile_pipe_push(second_pipe, u + 1.0)


@tg.kernel
def order_by_stages(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=4)
    second_pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=4)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
        for k in range(n):
            tg.tile_pipe_load(second_pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) + tg.tile_pipe_pop(second_pipe), offset=(k, 0))


@tg.kernel
def consumer_early_exit(x: Rows, out: Rows, n: int, m: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            if k == m:
                return
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def second_consumer_short(x: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
    with tg.ws(2):
        for k in range(n // 2):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def data_dependent_in_role(x: Rows, c: tg.array1d[int], out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(c[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(c[1]):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


@tg.kernel
def negative_counts(x: Rows, out: Rows, n: int, m: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n + m):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
        for k in range(m):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * 2.0, offset=(k + n, 0))


WRONG = {
    one_more_pop: "deadlock",
    too_many_fills: "unfinished",
    floor_vs_ceil: "unfinished",
    feedback_deadlock: "deadlock",
    order_by_stages: "deadlock",
    consumer_early_exit: "deadlock",
    second_consumer_short: "arrivals",
    data_dependent_in_role: "deadlock",
    negative_counts: "deadlock",
}


@sampled(4, "kernel", WRONG, ids=lambda k: k.name)
def test_wrong_networks_of_roles_are_refuted(kernel: Any) -> None:
    verdict = kernel.check()
    assert (verdict.status, verdict.kind) == ("refuted", WRONG[kernel]), verdict.message
    assert verdict.launch and verdict.help


# A role that fills one pipe by copies and another by threads ----------------------------------------------------------


@tg.kernel
def mixed_fills(x: Rows, y: Rows, out: Rows, n: int):
    pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=2)
    second_pipe = tg.tile_pipe(shape=SHAPE, dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(second_pipe, y, offset=(k, 0))
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * tg.tile_pipe_pop(second_pipe), offset=(k, 0))


def lowered_mixed_fills() -> tuple[KernelIR, GpuCompilation]:
    """The lowered kernel; only loads of x are bulk copies."""
    types = argument_types(mixed_fills, ())
    access = (PACKED, STRIDED, PACKED, None)
    kernel = trace(mixed_fills, types, LaunchClass(2, 256, (True, False), True, False), access)
    prepare(kernel)
    return kernel, for_gpu(kernel, get_cuda_target("sm_90a"))


def test_warps_that_start_no_copy_wait_for_no_stage_of_copies() -> None:
    kernel, compilation = lowered_mixed_fills()
    assert check_schedule(kernel, compilation).status == "proved"
    waits = [op for op in kernel.walk() if isinstance(op, MbarrierWait) and op.attrs.get("elected")]
    assert [w.operands[0].name for w in waits] == ["pipe.empty"]
    for wait in waits:
        wait.attrs["elected"] = False
    verdict = check_schedule(kernel, compilation)
    assert (verdict.status, verdict.kind) == ("refuted", "aliasing")


def test_roles_of_copies_alone_wait_as_one_warp() -> None:
    types = argument_types(mixed_fills, ())
    access = (PACKED, PACKED, PACKED, None)
    kernel = trace(mixed_fills, types, LaunchClass(2, 256, (True, False), True, False), access)
    prepare(kernel)
    assert check_schedule(kernel, for_gpu(kernel, get_cuda_target("sm_90a"))).passed
    assert not any(op.attrs.get("elected") for op in kernel.walk())
