"""Repeated launches of adjoints are planned once and executed by machine code: the same bytes reach the driver."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from support.recorded_launches import RecordingDriver
from tegula.ir import NO_OVERLAP, WAITED, LaunchOverlap
from tegula.runtime import adjoint
from tegula.runtime.cuda.driver import install
from tegula.runtime.cuda.launch import CONFIGURATION

T = 16
FIRST, LATER = LaunchOverlap(next_starts=WAITED), LaunchOverlap(waits_at_end=True)


@tg.kernel
def matmul(iterations: int, a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T))
    for k in range(iterations):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * T, j * T))


@tg.kernel
def scaled_rows(x: tg.array2d[float], w: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_load(x[i], shape=T) * tg.tile_load(w, shape=T))


@tg.kernel
def times_rows(factor: float, x: tg.array2d[float], w: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_load(x[i], shape=T) * tg.tile_load(w, shape=T) * factor)


@pytest.fixture
def driver(simulated: SimulatedDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    """A simulated driver whose devices are filled by few blocks, so that gradient elements get owners instead of
    atomics."""
    monkeypatch.setattr(adjoint, "busy_blocks", lambda device: 4)
    simulated = RecordingDriver(1)
    simulated.kernels["kernel"] = lambda blocks, threads, data: None
    simulated.size = 256
    for kernel in (matmul, scaled_rows, times_rows):
        kernel.unload()
    previous_driver = install(simulated)
    yield simulated
    install(previous_driver)


def squares(n: int) -> list[Any]:
    return [tg.empty((n, n), dtype=float, device="cuda") for _ in range(6)]


def launch_adjoint(kernel: Any, arrays: list[Any], grid: tuple[int, ...], *scalars: Any) -> None:
    half = len(arrays) // 2
    grads = [*(None for _ in scalars), *arrays[half:]]
    tg.launch(kernel, (*grid, 32), [*scalars, *arrays[:half]], adj_inputs=grads, adjoint=True, block_dim=32)


def launched(driver: RecordingDriver) -> list[tuple[tuple[int, ...], bytes]]:
    """The configurations and arguments of the latest launches."""
    launches = [(CONFIGURATION.unpack(c), data) for c, _, data in driver.recorded_launches]
    driver.recorded_launches.clear()
    return launches


def adjoint_of(kernel: Any) -> Any:
    (result,) = kernel.adjoints.values()
    return result


def compiled_to_machine_code(kernel: Any) -> bool:
    return all(hasattr(part.native, "__self__") for part in adjoint_of(kernel).launched_parts)


def test_adjoint_launches_pass_the_same_bytes_to_the_driver(driver: RecordingDriver) -> None:
    arrays = squares(4 * T)
    launch_adjoint(matmul, arrays, (4, 4), 4)
    slow_path_launches = launched(driver)
    assert len(slow_path_launches) == 3
    for _ in range(5):
        launch_adjoint(matmul, arrays, (4, 4), 4)
        assert launched(driver) == slow_path_launches
    assert compiled_to_machine_code(matmul)
    assert [part.overlap for part in adjoint_of(matmul).launched_parts] == [FIRST, LATER, NO_OVERLAP]


def test_adjoint_launches_of_other_shapes_are_planned_again(driver: RecordingDriver) -> None:
    """Other shapes of the same types: the grids follow from the dimensions, the lengths and the numbers."""
    small, large = squares(4 * T), squares(8 * T)
    blocks = {4: {16}, 8: {64}}
    for _ in range(4):
        for arrays, n in ((small, 4), (large, 8)):
            launch_adjoint(matmul, arrays, (n, n), n)
            assert {c[0] for c, _ in launched(driver)} == blocks[n]
        launch_adjoint(matmul, large, (8, 8), 2)
        assert [c[0] for c, _ in launched(driver)] == [16, 16, 64], (
            "two iterations: two tiles of each row and column"
        )


def test_adjoint_launches_of_equal_shapes_reuse_the_plan(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch_adjoint(matmul, squares(4 * T), (4, 4), 4)
    monkeypatch.setattr(adjoint, "plan_launches", None)
    launched(driver)
    new_arrays = squares(4 * T)
    launch_adjoint(matmul, new_arrays, (4, 4), 4)
    (_, data), *_ = launched(driver)
    assert struct.unpack_from("<Q", data, 8)[0] == new_arrays[0].ptr, "the launch passes its own arguments"


def test_adjoint_launches_have_new_memory_for_sums(driver: RecordingDriver) -> None:
    arrays = [tg.empty(s, dtype=float, device="cuda") for s in ((64, T), T, (64, T)) * 2]
    launch_counts = []
    for _ in range(5):
        launch_adjoint(scaled_rows, arrays, (64,))
        launch_counts.append(len(launched(driver)))
        assert [part.sums != [] for part in adjoint_of(scaled_rows).launched_parts] == [True, False]
    assert launch_counts == [2] * 5 and compiled_to_machine_code(scaled_rows)


def test_adjoint_launches_of_overlapping_arrays_take_the_slow_path(driver: RecordingDriver) -> None:
    """Which blocks may own gradient tiles depends on the overlap."""
    arrays = squares(4 * T)
    for _ in range(4):
        launch_adjoint(matmul, arrays, (4, 4), 4)
    count = len(launched(driver))
    overlapping = [*arrays[:3], arrays[3], arrays[3], arrays[5]]
    for _ in range(4):
        launch_adjoint(matmul, overlapping, (4, 4), 4)
        assert len(launched(driver)) < count
    launch_adjoint(matmul, arrays, (4, 4), 4)
    assert len(launched(driver)) * 4 == count


factor = tg.constant(2.0)


@tg.kernel
def times(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = x[i] * factor


@pytest.mark.machine_code
def test_captured_globals_are_part_of_the_launch_key(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, g = (tg.zeros(4, requires_grad=True) for _ in range(3))
    for value in (2.0, 2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "factor", tg.constant(value))
        x.grad.zero_()
        g.fill_(1.0)
        tg.launch(times, 4, [x], [y], adj_outputs=[g], adjoint=True)
        np.testing.assert_array_equal(x.grad.numpy(), value)


@pytest.mark.machine_code
def test_config_deterministic_replans_the_launch() -> None:
    """`config.deterministic` changes between two launches with the same arrays."""

    @tg.kernel
    def gathered(x: tg.array1d[float], at: tg.array1d[int], y: tg.array1d[float]):
        i = tg.tid()
        y[i] = x[at[i]]

    x, y = tg.zeros(4, requires_grad=True), tg.zeros(64, requires_grad=True)
    indices = tg.zeros(64, dtype=int)
    parts: list[Any] = []
    for deterministic in (False, True, False):
        tg.config.deterministic = deterministic
        try:
            y.grad.fill_(1.0)
            x.grad.zero_()
            tg.launch(gathered, 64, [x, indices], [y], adjoint=True)
        finally:
            tg.config.deterministic = False
        assert x.grad.numpy()[0] == 64.0
        parts += adjoint_of(gathered).launched_parts
    assert parts[0] is parts[2] is not parts[1]


@tg.kernel
def halved(x: tg.array1d[Any], s: Any, y: tg.array1d[Any]):
    i = tg.tid()
    y[i] = x[i] * type(x[i])(s / type(s)(2))


def gradient_of_halved(s: float, dtype: Any = tg.float32) -> float:
    x, y = (tg.ones(4, dtype=dtype, requires_grad=True) for _ in range(2))
    y.grad.fill_(1.0)
    x.grad.zero_()
    tg.launch(halved, 4, [x, s], [y], adjoint=True)
    return float(x.grad.numpy()[0])


@pytest.mark.machine_code
def test_int_arguments_are_not_mistaken_for_cached_floats() -> None:
    halved.unload()
    assert [gradient_of_halved(s) for s in (3.0, 3, 3.0, 3)] == [1.5, 1.0, 1.5, 1.0]


@pytest.mark.machine_code
def test_another_thread_may_launch_with_arguments_of_other_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread launches while the first thread looks up a launch in the cache."""
    halved.unload()
    gradient_of_halved(3.0)
    original_find, pending_dtypes = adjoint.AdjointPrograms.find, [tg.float64]

    def interrupted(*arguments: Any) -> Any:
        if pending_dtypes:
            gradient_of_halved(3.0, pending_dtypes.pop())
        return original_find(*arguments)

    monkeypatch.setattr(adjoint.AdjointPrograms, "find", interrupted)
    assert gradient_of_halved(5.0) == 2.5


@tg.kernel
def second_component(x: tg.array1d[float], v: tg.vec3, y: tg.array1d[float]):
    i = tg.tid()
    y[i] = x[i] * v[1]


@pytest.mark.machine_code
@pytest.mark.parametrize("v", [[1.0, 2.0, 3.0], np.array([1, 2, 3], np.float32), tg.vec3(1.0, 2.0, 3.0)])
def test_adjoint_launches_take_any_sequence_for_vectors(v: Any) -> None:
    x, y = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
    y.grad.fill_(1.0)
    x.grad.zero_()
    tg.launch(second_component, 4, [x, v], [y], adjoint=True)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0)


def test_scalar_arguments_without_effect_on_the_plan_reuse_the_plan(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [tg.empty(s, dtype=float, device="cuda") for s in ((64, T), T, (64, T)) * 2]
    launch_adjoint(times_rows, arrays, (64,), 0.5)
    first = launched(driver)
    monkeypatch.setattr(adjoint, "plan_launches", None)
    launch_adjoint(times_rows, arrays, (64,), 0.25)
    second = launched(driver)
    assert [c[0] for c, _ in first] == [c[0] for c, _ in second] and len(first) == 2
    assert [struct.unpack_from("<f", data)[0] for _, data in second] == [0.25, 0.25]
