"""Each guard of a proof is evaluated before a launch: by Python code, by machine code, and by the interpreter of
lowered kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from support.attacks.judge import lowered
from support.recorded_launches import RecordingDriver
from tegula.check.guards import require, requiring
from tegula.check.schedule import check_schedule
from tegula.errors import LaunchError
from tegula.interp.engines.launch import EngineLaunch, prepared
from tegula.interp.engines.orders import orders
from tegula.interp.lowered import BlockDistribution
from tegula.runtime.cuda.driver import install


@tg.kernel
def flattened_loop(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n * m):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for i in range(n):
            for j in range(m):
                tg.tile_store(out, tg.tile_pipe_pop(pipe) * 2.0, offset=(i * m + j, 0))


@tg.kernel
def lengths(x: tg.array2d[float], out: tg.array2d[float], is_short: bool):
    assert out.shape[0] < 50 or not is_short
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(x.shape[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(1, x.shape[0] + 1):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k - 1, 0))


VIOLATIONS = [
    (-1, 3, "a factor of a trip count is not negative", "def flat"),
    (3, -1, "a factor of a trip count is not negative", "def flat"),
    (2**20, 2**10, "is at most 2\\^28 in magnitude", "for k in range(n * m)"),
]
"""Two factors, the text of the guard that they violate, and the text of its line."""


@pytest.fixture
def driver(simulated: SimulatedDriver) -> Iterator[RecordingDriver]:
    simulated = RecordingDriver(1)
    simulated.kernels["kernel"] = lambda blocks, threads, data: None
    previous_driver = install(simulated)
    yield simulated
    for kernel in (flattened_loop, lengths):
        kernel.unload()
    install(previous_driver)


def check_refusal(launch: Any, guard: str, line: str) -> None:
    with pytest.raises(LaunchError, match=guard) as error:
        launch()
    number = int(str(error.value).partition("(line ")[2].partition(" ")[0])
    with open(__file__, encoding="utf-8") as text:
        assert line in text.read().splitlines()[number - 1]


def test_launches_on_gpus_evaluate_each_guard_once_for_each_set_of_arguments(driver: RecordingDriver) -> None:
    x, out = (tg.zeros((7, 8), device="cuda:0") for _ in range(2))

    def launch(n: int, m: int) -> None:
        tg.launch_tiled(flattened_loop, 1, [x, out, n, m])

    def in_machine_code(n: int, m: int) -> bool:
        return (
            flattened_loop.native is not None
            and flattened_loop.native(1, None, [x, out, n, m], (), 1, None) is True
        )

    for n, m, guard, line in VIOLATIONS:
        check_refusal(lambda n=n, m=m: launch(n, m), guard, line)
    assert not driver.recorded_launches
    for _ in range(8):
        launch(3, 4)
        launch(3, 5)
    assert len(driver.recorded_launches) == 16 and in_machine_code(3, 4) and in_machine_code(3, 5)
    for n, m, guard, line in VIOLATIONS:
        assert not in_machine_code(n, m)
        check_refusal(lambda n=n, m=m: launch(n, m), guard, line)
    assert not in_machine_code(4, 4)
    guards = flattened_loop.compiled[-1].guards
    assert sorted(g.kind for g in guards.guards) == ["factor", "factor", "fits"]
    assert guards.satisfied == {(3, 4), (3, 5)} and len(driver.recorded_launches) == 18


def test_guards_read_lengths_of_arrays(driver: RecordingDriver) -> None:
    x, y = (tg.zeros((60, 8), device="cuda:0") for _ in range(2))
    for _ in range(8):
        tg.launch_tiled(lengths, 1, [x, y, False])
        tg.launch_tiled(lengths, 1, [x[:7], y[:7], True])
        check_refusal(
            lambda: tg.launch_tiled(lengths, 1, [x, y, True]), "out.shape\\[0\\] < 50", "assert out.shape"
        )
    guards, kernel = lengths.compiled[-1].guards.guards, lengths.compiled[-1].kernel
    with pytest.raises(LaunchError, match="at most 2\\^28 in magnitude.*: x.shape\\[0\\] = 268435457"):
        require(kernel, guards, {(0, 0): 2**28 + 1, (1, 0): 7, (2, -1): 1}.__getitem__)


def test_the_interpreter_of_lowered_kernels_evaluates_guards() -> None:
    kernel, compilation = lowered(flattened_loop)
    spread = BlockDistribution(compilation.layouts, compilation.shared.allocations, compilation.threads)
    built_kernel = prepared(kernel, spread, requiring(kernel, check_schedule(kernel, compilation).guards))
    x = np.arange(80, dtype=np.float32).reshape(10, 8)

    def run(n: int, m: int) -> list[Any]:
        launch = EngineLaunch(built_kernel, [x, np.zeros_like(x), n, m], (1, compilation.threads))
        return [launch.run(order) for order in orders([role for role, *_ in launch.programs], 2)]

    for n, m, guard, line in VIOLATIONS:
        check_refusal(lambda n=n, m=m: run(n, m), guard, line)
    first, second = run(2, 4)
    assert first == second and len(first) > 0
