"""Kernels in users' idioms: wrong schedules with the reason of the verdict, and similar correct schedules."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from schedules import lowered, verdict

import tegula as tg
from support.campaigns import rest_slow, sampled
from tegula.check.bounded import explore, starts_copies_only
from tegula.check.verdict import Gap
from tegula.ops.roles import Roles
from tegula.ops.schedule import MbarrierWait
from tegula.passes.groups import only_starts_copies
from tegula.runtime.kernel import Kernel

N = 8


def crossed(stages: int) -> Any:
    """One role fills two pipes one after the other; the other role empties them in the opposite order."""

    @tg.kernel
    def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
        first = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        second = tg.tile_pipe(shape=(1, N), dtype=float, stages=stages)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(first, x, offset=(2 * k, 0))
                tg.tile_pipe_load(first, x, offset=(2 * k + 1, 0))
                tg.tile_pipe_load(second, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(n):
                b = tg.tile_pipe_pop(second) * 2.0
                tg.tile_store(out, b + tg.tile_pipe_pop(first), offset=(2 * k, 0))
                tg.tile_store(out, b - tg.tile_pipe_pop(first), offset=(2 * k + 1, 0))

    return kernel


def test_filling_more_stages_than_exist_before_a_release_is_refuted() -> None:
    assert verdict(crossed(2)).passed
    actual = verdict(crossed(1))
    assert (actual.status, actual.kind) == ("refuted", "deadlock")
    assert "ws0 waits for phase 0 of first.empty[0]" in " ".join(
        [actual.message, *(t for _, t in actual.locations)]
    )


def consumer_with_limit(limit: int) -> Any:
    @tg.kernel
    def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(tg.min(n, limit)):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))

    return kernel


@pytest.mark.parametrize("limit", [4, 1000])
def test_roles_with_different_trip_counts_are_refuted(limit: int) -> None:
    """The search tries numbers that occur in the kernel."""
    actual = verdict(consumer_with_limit(limit))
    assert actual.status == "refuted"
    assert dict(actual.launch)["n"] > limit


def test_trip_counts_that_differ_for_large_numbers_are_not_proved() -> None:
    """The checker unrolls no launch with so many tiles."""
    actual = verdict(consumer_with_limit(10**6))
    assert actual.status == "unproved" and actual.gap is not None


@tg.kernel
def tile_before_the_loop(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        tile = tg.copy(tg.tile_pipe_pop(pipe))
        for _k in range(1, n):
            tile += tg.tile_pipe_pop(pipe)
        tg.tile_store(out, tile, offset=(0, 0))


def test_a_pop_before_a_loop_without_iterations_is_refuted() -> None:
    actual = verdict(tile_before_the_loop)
    assert (actual.status, actual.kind, actual.launch) == ("refuted", "deadlock", (("n", 0),))


@tg.kernel
def loads_overlapped_with_other_work(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """The other warps of the first role do not wait for free stages, because no op needs the wait."""
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
            tg.tile_store(out, tg.tile_zeros(shape=(1, N)), offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, N))


def test_a_waiter_that_may_miss_a_phase_is_refuted() -> None:
    assert verdict(loads_overlapped_with_other_work).passed

    def all_wait(kernel: Any, compilation: Any) -> None:
        for op in kernel.walk():
            if isinstance(op, MbarrierWait):
                op.attrs["elected"] = False

    actual = verdict(loads_overlapped_with_other_work, all_wait)
    assert (actual.status, actual.kind) == ("refuted", "aliasing")


@tg.kernel
def trip_count_from_array(x: tg.array2d[float], counts: tg.array1d[int], out: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(counts[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(counts[0]):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


def test_trip_counts_from_a_read_only_array_pass() -> None:
    assert verdict(trip_count_from_array).passed


@tg.kernel
def causal(x: tg.array2d[float], out: tg.array2d[float]):
    """Each tile takes more iterations than the previous tile."""
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        for i, _j in tg.persistent_tiles((x.shape[0], 1)):
            for k in range(i + 1):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for i, _j in tg.persistent_tiles((x.shape[0], 1)):
            total = tg.tile_zeros(shape=(1, N))
            for _k in range(i + 1):
                total += tg.tile_pipe_pop(pipe)
            tg.tile_store(out, total, offset=(i, 0))


def test_loops_whose_steps_depend_on_the_tile_pass() -> None:
    assert verdict(causal).passed


# The kernels of other tests -------------------------------------------------------------------------------------------

ROLES = Path(__file__).parent.parent / "roles"
MODULES = sorted(p.stem for p in ROLES.glob("test_*.py"))
WRONG_MODULES = {"test_deadlocks"}
"""The names of files whose kernels are wrong on purpose."""


def kernels(module: str) -> list[Kernel]:
    result = vars(importlib.import_module(module)).values()
    return [k for k in result if isinstance(k, Kernel) and k.has_roles]


SLOW_PROOFS = {"functions", "while_loops", "early_exit"}
"""Kernels whose proofs take the longest."""
CORRECT_KERNELS = [
    (module, kernel.name) for module in MODULES if module not in WRONG_MODULES for kernel in kernels(module)
]


@sampled(
    3, ("module", "name"), rest_slow(dict.fromkeys(CORRECT_KERNELS), lambda _, name: name not in SLOW_PROOFS)
)
def test_kernels_with_roles_pass_the_checker(module: str, name: str) -> None:
    for kernel in kernels(module):
        if kernel.name == name:
            verdict = kernel.check()
            expected = "unproved" if kernel.options.check == "bounded" else "proved"
            assert verdict.status == expected, f"{verdict.message}{verdict.launch_text}"


@pytest.mark.parametrize("kernel", kernels("test_deadlocks"), ids=lambda k: k.name)
def test_deadlocks_are_found_before_the_launch(kernel: Kernel) -> None:
    verdict = kernel.check()
    assert verdict.status == "refuted"
    assert verdict.kind in ("deadlock", "arrivals")


@pytest.mark.parametrize("stages", [1, 2, 3, 8])
@sampled(2, "name", ["two_roles", "three_roles", "four_roles"])
def test_chains_of_pipes_pass_the_checker(name: str, stages: int) -> None:
    result = getattr(importlib.import_module("support.pipe_kernels"), name)(stages)
    verdict = result.check()
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("name", ["two_roles", "three_roles"])
def test_checker_and_code_generation_agree_on_the_warps_of_a_role(name: str) -> None:
    """The checker and the code generation agree."""
    kernel, _ = lowered(getattr(importlib.import_module("support.pipe_kernels"), name)(2))
    roles = next(op for op in kernel.body.ops if isinstance(op, Roles))
    answers = [starts_copies_only(region) for region in roles.regions]
    assert answers == [only_starts_copies(region) for region in roles.regions]
    assert answers[0]
    assert not answers[-1]


# Limits ---------------------------------------------------------------------------------------------------------------


def many_roles(roles: int) -> Any:
    """Roles of two warps, each with its own pipe, whose tiles both warps sum."""
    lines = ["def kernel(out: tg.array1d[float]):"]
    lines += [f"    p{r} = tg.tile_pipe(shape=(64,), dtype=float, stages=2)" for r in range(roles)]
    for r in range(roles):
        lines += [
            f"    with tg.role('r{r}', warps=2):",
            f"        tg.tile_pipe_push(p{r}, tg.tile_ones(shape=(64,), dtype=float))",
            f"        tg.tile_store(out, tg.tile_sum(tg.tile_pipe_pop(p{r})), offset=({r},))",
        ]
    text = "\n".join(lines)
    names: dict[str, Any] = {"tg": tg}
    exec(text, names)
    return tg.kernel(names["kernel"], source=text)


def test_more_roles_than_named_barriers_are_refuted() -> None:
    assert verdict(many_roles(8)).passed
    actual = verdict(many_roles(16))
    assert (actual.status, actual.kind) == ("refuted", "budget")
    assert "named barrier 16" in actual.message


def loops(fills: str, pops: str) -> Any:
    """Two roles with the given loops."""
    text = f"""
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range({fills}):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range({pops}):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""
    names: dict[str, Any] = {"tg": tg}
    exec(text, names)
    return tg.kernel(names["kernel"], source=text)


@pytest.mark.parametrize(
    "bounds", ["n", "2 * n + 1", "n // 3", "n - 1, -1, -1", "0, n, 3", "n * n", "(n + 63) // 64", "7"]
)
def test_loops_with_analysable_bounds_pass(bounds: str) -> None:
    assert verdict(loops(bounds, bounds)).passed


@sampled(
    3,
    ("fills", "pops"),
    [
        *(("2 * n", "n * 2"), ("n - 1, -1, -1", "n"), ("n + 1", "1, n + 2"), ("n + n", "0, 4 * n, 2")),
        *(("0, n, 4", "(n + 3) // 4"), ("n >> 1", "n // 2"), ("n << 1", "2 * n"), ("n // 8 // 4", "n // 32")),
        *(("tg.max(n, 0)", "n"), ("n & 7", "n - n // 8 * 8"), ("(n - 1) // 32 + 1", "(n + 31) // 32")),
        ("tg.max(n, 2) - 2", "n - 2"),
    ],
)
def test_loops_with_equal_bounds_pass(fills: str, pops: str) -> None:
    assert verdict(loops(fills, pops)).status == "proved"


@sampled(
    4,
    ("fills", "pops"),
    [
        *(("n", "n + 1"), ("n // 2", "n - n // 2"), ("0, n, 2", "n // 2"), ("n >> 1", "(n + 1) >> 1")),
        *(
            ("tg.max(n, 1)", "n"),
            ("tg.max(n, 2) - 1", "n - 1"),
            ("n & 7", "n & 3"),
            ("n // 8 // 4", "n // 31"),
        ),
    ],
)
def test_loops_with_different_bounds_are_refuted(fills: str, pops: str) -> None:
    assert verdict(loops(fills, pops)).status == "refuted"


def test_remainders_and_masks_of_negative_numbers_are_distinguished() -> None:
    actual = verdict(loops("n & 7", "n % 8"))
    assert actual.status == "refuted" and dict(actual.launch)["n"] < 0


def counted(write: str) -> Any:
    """Loops whose trip count is read from an array that a role also writes."""
    text = f"""
def kernel(x: tg.array2d[float], out: tg.array2d[float], c: tg.array1d[int], d: tg.array1d[int]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(c[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(c[0]):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
            {write}
"""
    names: dict[str, Any] = {"tg": tg}
    exec(text, names)
    return tg.kernel(names["kernel"], source=text)


@pytest.mark.slow
def test_trip_counts_in_an_array_that_the_kernel_writes_are_unproved() -> None:
    assert verdict(counted("d[0] = 3")).passed
    for write in ("c[0] = 3", "tg.tile_store(c, tg.tile_ones(shape=1, dtype=int))", "tg.atomic_add(c, 0, 1)"):
        actual = verdict(counted(write))
        assert actual.status == "unproved" and actual.locations, write


def test_long_loops_are_proved_but_not_explored() -> None:
    assert verdict(loops("100000", "100000")).status == "proved"
    actual = explore(*lowered(loops("100000", "100000")), Gap(""))
    assert (actual.status, actual.explored[0]) == ("unproved", 0)
