"""Tuned kernels: the fastest correct candidate runs, wrong candidates are dropped, arrays are restored."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.runtime.config import config
from tegula.tune import Tuned, tuned

REPEATS, FACTOR, SKIPPED, MISSING = 1, 2.0, 0, 1
N = 1000


@pytest.fixture(autouse=True)
def fresh_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A disk cache without choices."""
    monkeypatch.setattr(config, "kernel_cache_dir", str(tmp_path))


@tg.func
def scaled(x: float):
    return x * FACTOR


@tg.kernel
def scale(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    if i >= SKIPPED:
        total = scaled(x[i])
        for _ in range(1, REPEATS):
            total = scaled(x[i])
        y[i] = total


@tg.kernel
def long_loop(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    total = x[i]
    for _ in range(REPEATS):
        total = tg.sin(total)
    y[i] = x[i] + 1.0 if total < 2.0 else 0.0


@tg.kernel
def add_one(y: tg.array1d[float], count: tg.array1d[int]):
    i = tg.tid()
    y[i] = y[i] + 1.0
    tg.atomic_add(count, 0, 1)


def squares(rows: int, columns: int = 8) -> Any:
    @tg.kernel
    def kernel(x: tg.array2d[float], y: tg.array2d[float]):
        i = tg.tid()
        t = tg.tile_load(x, shape=(rows, columns), offset=(i * rows, 0))
        tg.tile_store(y, t * t, offset=(i * rows, 0))

    return kernel


def numbers(n: int = N) -> tg.array:
    return tg.array(np.arange(n, dtype=np.float32))


def run(kernel: Any, n: int = N, **options: Any) -> np.ndarray:
    y = tg.full(n, -1.0)
    tg.launch(kernel, n, [numbers(n)], [y], **options)
    return y.numpy()


@pytest.mark.machine_code
def test_the_fastest_tuned_candidate_runs() -> None:
    kernel = tg.autotune(REPEATS=[2000, 1, 3000])(long_loop)
    np.testing.assert_array_equal(run(kernel), np.arange(N) + 1.0)
    (report,) = kernel.reports
    assert report.outcomes[report.chosen].candidate.values == {"REPEATS": 1}
    assert not report.remembered and not report.dropped
    assert str(report).splitlines()[1].endswith("ms   1.00  REPEATS=1")


@pytest.mark.machine_code
def test_later_launches_of_a_tuned_class_run_the_choice_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tg.autotune(REPEATS=[1, 2])(long_loop)
    run(kernel)
    monkeypatch.setattr(tuned, "time_calls", None)
    for n in (N, 520, 1000):
        run(kernel, n)
    assert len(kernel.reports) == 1


@pytest.mark.machine_code
def test_values_reach_the_functions_that_a_kernel_calls() -> None:
    kernel = tg.autotune(FACTOR=[3.0])(scale)
    np.testing.assert_array_equal(run(kernel), np.arange(N) * 3.0)
    np.testing.assert_array_equal(run(scale), np.arange(N) * 2.0)


@pytest.mark.machine_code
@pytest.mark.parametrize("values", [[2.0, 3.0, 2.0], [3.0, 2.0, 2.0]])
def test_a_candidate_with_another_result_is_dropped(values: list[float]) -> None:
    kernel = tg.autotune(FACTOR=values)(scale)
    with pytest.warns(
        RuntimeWarning, match=r"candidate FACTOR=3\.0 is dropped: its result differs from the result of 2"
    ):
        np.testing.assert_array_equal(run(kernel), np.arange(N) * 2.0)
    (dropped,) = kernel.reports[0].dropped
    assert dropped.candidate.values == {"FACTOR": 3.0} and dropped.seconds is None


@pytest.mark.machine_code
def test_unwritten_elements_differ_from_written_elements() -> None:
    """An element that a candidate does not write is wrong even if the array contained the correct result before."""
    kernel = tg.autotune(SKIPPED=[0, 999, 0])(scale)
    y = tg.array(np.arange(N, dtype=np.float32) * 2.0)
    with pytest.warns(RuntimeWarning, match="SKIPPED=999"):
        tg.launch(kernel, N, [numbers()], [y])
    np.testing.assert_array_equal(y.numpy(), np.arange(N) * 2.0)


@pytest.mark.machine_code
def test_candidates_without_a_majority_result_are_refused() -> None:
    kernel = tg.autotune(FACTOR=[2.0, 3.0])(scale)
    y = tg.full(N, -1.0)
    with pytest.raises(
        tg.TuningError, match="give 2 different results, none of them the most frequent: FACTOR=2.0; FACTOR=3"
    ):
        tg.launch(kernel, N, [numbers()], [y])
    np.testing.assert_array_equal(y.numpy(), -1.0)


@pytest.mark.machine_code
def test_tolerance_accepts_candidates_with_close_results() -> None:
    kernel = tg.autotune(FACTOR=[2.0, 2.001], tolerance=1e-2)(scale)
    run(kernel)
    assert not kernel.reports[0].dropped


@pytest.mark.machine_code
def test_elements_that_a_kernel_changes_in_place_are_changed_once() -> None:
    kernel = tg.autotune(block_dim=[32, 64, 256])(add_one)
    y, count = numbers(), tg.zeros(1, dtype=int)
    tg.launch(kernel, N, [], [y, count])
    np.testing.assert_array_equal(y.numpy(), np.arange(N) + 1.0)
    assert count.numpy().tolist() == [N]


@pytest.mark.machine_code
def test_tuning_with_overlapping_arrays_is_correct() -> None:
    kernel = tg.autotune(REPEATS=[1, 2, 3])(scale)
    x = numbers()
    tg.launch(kernel, N, [x], [x])
    np.testing.assert_array_equal(x.numpy(), np.arange(N) * 2.0)


@pytest.mark.machine_code
def test_tuning_takes_a_function_that_returns_kernels() -> None:
    kernel = tg.autotune(rows=[1, 2, 4], block_dim=[32, 64])(squares)
    x, y = tg.array(np.arange(64, dtype=np.float32).reshape(8, 8)), tg.zeros((8, 8))
    tg.launch_tiled(kernel, lambda rows: 8 // rows, [x], [y])
    np.testing.assert_array_equal(y.numpy(), x.numpy() ** 2)
    assert len(kernel.candidates) == 6 and kernel.name == "kernel"


def test_where_and_configs_select_candidates() -> None:
    filtered = tg.autotune(rows=[1, 2, 4], columns=[8, 4], where=lambda rows, columns: rows == columns)(
        squares
    )
    assert [dict(c.values) for c in filtered.candidates] == [{"rows": 4, "columns": 4}]
    configured = tg.autotune(configs=[{"rows": 1}, {"rows": 8}])(squares)
    assert [dict(c.values) for c in configured.candidates] == [{"rows": 1}, {"rows": 8}]


@pytest.mark.machine_code
def test_candidates_that_cannot_be_compiled_are_dropped() -> None:
    kernel = tg.autotune(FACTOR=[2.0, "two"])(scale)
    np.testing.assert_array_equal(run(kernel), np.arange(N) * 2.0)
    (dropped,) = kernel.reports[0].dropped
    assert dropped.candidate.values == {"FACTOR": "two"} and "error[" in dropped.dropped
    assert "dropped: FACTOR='two': " in str(kernel.reports[0])


def pipe(stages: int, missing_pops: int) -> Any:
    @tg.kernel
    def kernel(x: tg.array2d[float], y: tg.array2d[float], n: int):
        items = tg.tile_pipe(shape=(1, 8), dtype=float, stages=stages)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(items, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(n - missing_pops):
                tg.tile_store(y, tg.tile_pipe_pop(items), offset=(k, 0))

    return kernel


@pytest.mark.machine_code
def test_candidates_that_are_not_proved_are_dropped() -> None:
    """Candidates that would complete are dropped too: on the CPU no role waits for items that are left in a pipe."""
    kernel = tg.autotune(stages=[2, 3], missing_pops=[0, 1])(pipe)
    x, y = tg.ones((6, 8)), tg.zeros((6, 8))
    tg.launch_tiled(kernel, 1, [x], [y, 6])
    assert (y.numpy() == 1.0).all()
    dropped = kernel.reports[0].dropped
    assert [o.candidate.values["missing_pops"] for o in dropped] == [1, 1]
    assert all("error[schedule-refuted]" in o.dropped for o in dropped)


@pytest.mark.machine_code
def test_candidates_that_fail_are_dropped() -> None:
    @tg.kernel
    def careful(y: tg.array1d[float]):
        i = tg.tid()
        assert MISSING < 3, "wrong"
        y[i] = 1.0

    kernel = tg.autotune(MISSING=[2, 5])(careful)
    y = tg.zeros(8)
    tg.launch(kernel, 8, [], [y])
    assert (y.numpy() == 1.0).all() and "wrong" in kernel.reports[0].dropped[0].dropped
    without_success = tg.autotune(MISSING=[4, 5])(careful)
    with pytest.raises(tg.TuningError, match="no candidate runs to completion\n  dropped: MISSING=4: "):
        tg.launch(without_success, 8, [], [y])


# Classes and memory ---------------------------------------------------------------------------------------------------


def retuned(tunable: Any, **values: Any) -> Tuned:
    """A tuned kernel without choices in memory."""
    return tg.autotune(**values)(tunable)


@pytest.mark.machine_code
def test_the_tuned_choice_is_stored_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    first = retuned(long_loop, REPEATS=[500, 1, 700])
    run(first)
    monkeypatch.setattr(tuned, "time_calls", None)
    second = retuned(long_loop, REPEATS=[500, 1, 700])
    np.testing.assert_array_equal(run(second), np.arange(N) + 1.0)
    assert second.reports[0].remembered and str(second.reports[0]).endswith(": REPEATS=1 (remembered)")


def times_tuned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of candidates that were timed, for each tuning."""
    counts: list[int] = []
    time_calls = tuned.time_calls

    def counted(calls: Any, *rest: Any) -> list[float]:
        counts.append(len(calls))
        return time_calls(calls, *rest)

    monkeypatch.setattr(tuned, "time_calls", counted)
    return counts


@pytest.mark.machine_code
def test_the_tuned_choice_depends_on_device_source_and_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = times_tuned(monkeypatch)
    run(retuned(long_loop, REPEATS=[1, 4]))
    run(retuned(long_loop, REPEATS=[1, 4]))
    assert len(counts) == 1
    run(retuned(long_loop, REPEATS=[1, 5]))
    assert len(counts) == 2
    monkeypatch.setattr(tuned, "describe_device", lambda device: "another processor")
    for _ in range(2):
        run(retuned(long_loop, REPEATS=[1, 5]))
    assert len(counts) == 3
    monkeypatch.setattr(config, "mode", "debug")
    run(retuned(long_loop, REPEATS=[1, 5]))
    assert len(counts) == 4
    run(retuned(long_loop, REPEATS=[1, 5]), 2 * N)
    assert len(counts) == 5


@pytest.mark.machine_code
def test_another_kernel_at_the_chosen_position_is_tuned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen kernel depends on values that neither the text nor the first candidate shows."""
    table = {1: 1.0, 2: 2.0}

    def make(variant: int) -> Any:
        factor = table[variant]

        @tg.kernel
        def kernel(x: tg.array1d[float], y: tg.array1d[float]):
            i = tg.tid()
            y[i] = x[i] + factor - factor

        return kernel

    monkeypatch.setattr(tuned, "time_calls", lambda calls, *rest: [2.0, 1.0])
    remembered = []
    for value in (2.0, 2.0, 4.0):
        table[2] = value
        kernel = retuned(make, variant=[1, 2])
        run(kernel)
        remembered.append(kernel.reports[0].remembered)
    assert remembered == [False, True, False]


@pytest.mark.machine_code
def test_tuning_without_a_disk_cache_chooses_again_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_kernels", False)
    counts = times_tuned(monkeypatch)
    for _ in range(2):
        np.testing.assert_array_equal(run(retuned(long_loop, REPEATS=[1, 6])), np.arange(N) + 1.0)
    assert counts == [2, 2]


@pytest.mark.parametrize(
    ("a", "b", "is_same_class"),
    [
        (384, 512, False),
        (260, 500, True),
        (256, 260, False),
        (1, 2, False),
        (2048, 4096, False),
        (0, 0, True),
    ],
)
def test_lengths_of_arrays_are_tuned_in_classes(a: int, b: int, is_same_class: bool) -> None:
    assert (tuned._length_class(a) == tuned._length_class(b)) is is_same_class


@pytest.mark.machine_code
def test_key_names_parameters_that_are_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = times_tuned(monkeypatch)
    kernel = tg.autotune(stages=[2, 3], missing_pops=[0], key=["n"])(pipe)
    for rows in (6, 6, 5):
        tg.launch_tiled(kernel, 1, [tg.ones((6, 8))], [tg.zeros((6, 8)), rows])
    assert len(counts) == 2 and kernel.reports[1].launch == "n 5"


@pytest.mark.machine_code
def test_threads_that_launch_at_once_tune_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = times_tuned(monkeypatch)
    kernel = retuned(long_loop, REPEATS=[1, 7])
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(run(kernel))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] and len(results) == 3
    assert all((y == np.arange(N) + 1.0).all() for y in results)


# Other effects of a launch --------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_gradients_of_tuned_kernels_are_correct() -> None:
    kernel = tg.autotune(REPEATS=[1, 2, 3])(scale)
    x, y = tg.array([1.0, 2.0], dtype=float, requires_grad=True), tg.zeros(2, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, 2, [x], [y])
    tape.backward(grads={y: tg.ones(2)})
    assert x.grad.numpy().tolist() == [2.0, 2.0]


@pytest.mark.machine_code
def test_gradients_through_a_launch_that_tunes_are_correct() -> None:
    """Launches of the tuning are not recorded, and earlier records stay valid."""
    kernel = tg.autotune(REPEATS=[1, 2, 3], FACTOR=[3.0])(scale)
    x, y, z = (tg.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    with tg.Tape() as tape:
        tg.launch(scale, 2, [x], [y])
        tg.launch(kernel, 2, [y], [z])
    tape.backward(grads={z: tg.ones(2)})
    assert x.grad.numpy().tolist() == [6.0, 6.0]


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.vec3, tg.int8, tg.bool, tg.float8_e4m3, tg.float64, tg.mat22])
def test_tuning_compares_elements_of_any_type(dtype: Any) -> None:
    @tg.kernel
    def move(x: tg.array1d[Any], y: tg.array1d[Any]):
        i = tg.tid()
        if i >= SKIPPED:
            y[i] = x[i]

    kernel = tg.autotune(SKIPPED=[0, 5, 0])(move)
    x, y = tg.ones(9, dtype=dtype), tg.zeros(9, dtype=dtype)
    with pytest.warns(RuntimeWarning, match="SKIPPED=5"):
        tg.launch(kernel, 9, [x], [y])
    np.testing.assert_array_equal(y.numpy().astype(float), x.numpy().astype(float))


@pytest.mark.machine_code
def test_tuned_kernels_take_numpy_arrays() -> None:
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    tg.launch(tg.autotune(REPEATS=[1, 2])(scale), N, [x], [y])
    np.testing.assert_array_equal(y, x * 2.0)


def test_tuning_without_elements_is_refused() -> None:
    kernel = tg.autotune(REPEATS=[1, 2])(scale)
    with pytest.raises(tg.TuningError, match="writes no array elements"):
        tg.launch(kernel, 0, [tg.zeros(0)], [tg.zeros(0)])


@pytest.mark.machine_code
def test_many_candidates_are_compiled_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tegula.tune import build

    result: list[build.Worker] = []

    class RecordedWorker(build.Worker):
        def __init__(self) -> None:
            result.append(self)
            super().__init__()

    monkeypatch.setattr(build, "Worker", RecordedWorker)
    monkeypatch.setattr(build.build_all, "__defaults__", (0.0,))
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0, 1})
    kernel = tg.autotune(FACTOR=[2.0, 2.0, "two", 2.0], block_dim=[48])(scale)
    np.testing.assert_array_equal(run(kernel), np.arange(N) * 2.0)
    assert 1 <= len(result) <= 2 and all(w.process.poll() is not None for w in result)
    # The disk cache has the code that the processes compiled.
    assert all(form.from_cache for c in kernel.candidates for form in c.kernel.compiled)
    assert "error[" in kernel.reports[0].dropped[0].dropped


def test_a_compile_process_that_ends_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from tegula.tune import build

    kernel = tg.autotune(REPEATS=[11, 12, 13])(long_loop)
    request = tuned.Request(N, (numbers(), tg.zeros(N)), None, False, None, None)
    jobs = [build.job(*request.traced(c)) for c in kernel.candidates]
    with monkeypatch.context() as patched:
        patched.setattr(build, "encode_job", lambda job: "no JSON")
        results = build._in_processes(jobs, 2, lambda: None)
    assert all("ended with status 1" in text for text in results)
    assert build._in_processes(jobs, 2, lambda: None) == ["", "", ""]


@pytest.mark.machine_code
def test_progress_of_tuning_is_shown_on_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tg.autotune(REPEATS=[1, 9])(long_loop))
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    run(tg.autotune(REPEATS=[1, 10])(long_loop))
    assert "long_loop: timing" in sys.stderr.getvalue()


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tunable", "options", "message"),
    [
        (long_loop, {}, "candidates are given either as lists of values or as configs"),
        (long_loop, {"REPEATS": [1], "configs": [{"REPEATS": 1}]}, "candidates are given either as lists"),
        (long_loop, {"REPEATS": 3}, "the values of 'REPEATS' must be a list, got 3"),
        (long_loop, {"REPEATS": []}, r"the values of 'REPEATS' must be a list, got \[\]"),
        (long_loop, {"NOTHING": [1]}, "kernel long_loop reads no variable 'NOTHING'"),
        (
            long_loop,
            {"REPEATS": [1, 2], "where": lambda REPEATS: REPEATS > 2},
            "the list of candidates is empty",
        ),
        (
            long_loop,
            {"REPEATS": [1, 2], "where": lambda other: True},
            "where takes 'other', which no candidate has",
        ),
        (
            long_loop,
            {"configs": [{"REPEATS": 1}, {"FACTOR": 2}]},
            "all candidates must give values to the same names",
        ),
        (
            long_loop,
            {"REPEATS": [1], "key": ["z"]},
            "key names 'z', which is not a parameter of kernel long_loop",
        ),
        (long_loop, {"REPEATS": [1], "key": "x"}, "key must be a list of names of parameters, got 'x'"),
        (long_loop, {"REPEATS": [1], "tolerance": -1.0}, "tolerance must be finite and not negative"),
        (squares, {"columns": [4]}, r"the candidates do not fit squares\(rows"),
        (lambda REPEATS: REPEATS, {"REPEATS": [1]}, "must return a kernel, got 1"),
        (3, {"REPEATS": [1]}, "takes a kernel, or a function that returns one, got 3"),
        (scaled, {"FACTOR": [1.0]}, "takes a kernel, or a function that returns one"),
    ],
)
def test_invalid_options_of_autotune_are_refused(tunable: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tg.TuningError, match=message) as caught:
        tg.autotune(**options)(tunable)
    assert caught.value.help


def test_invalid_launches_of_tuned_kernels_are_refused() -> None:
    kernel = tg.autotune(rows=[1, 2], block_dim=[32])(squares)
    x, y = tg.ones((8, 8)), tg.zeros((8, 8))
    with pytest.raises(tg.TuningError, match="dim takes 'lines', which no candidate has"):
        tg.launch_tiled(kernel, lambda lines: 8, [x], [y])
    with pytest.raises(tg.TuningError, match="both the candidates and the launch set block_dim"):
        tg.launch_tiled(kernel, 8, [x], [y], block_dim=64)
    with pytest.raises(tg.TuningError, match="launch_tiled needs block_dim="):
        tg.launch_tiled(tg.autotune(rows=[1, 2])(squares), 8, [x], [y])
    with pytest.raises(tg.LaunchError, match="takes 2 arguments"):
        tg.launch_tiled(kernel, 8, [x], [])
    with pytest.raises(tg.LaunchError, match="cannot be called"):
        kernel(x, y)


@tg.struct
class Scale:
    """Arrays and a number that the tuned kernel of structs takes."""

    factor: float
    x: tg.array[float]
    weights: tg.array[float] | None


@tg.kernel
def scale_structs(s: Scale, gathered: tg.indexedarray[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = s.factor * s.x[i] + gathered[i]
    if s.weights:
        y[i] *= s.weights[i]


@pytest.mark.machine_code
def test_tuned_kernels_take_structs_and_indexed_arrays() -> None:
    kernel = tg.autotune(block_dim=[64, 128], key=["s"])(scale_structs)
    s, y = Scale(), tg.zeros(3)
    s.factor, s.x = 2.0, numbers(3)
    gathered = tg.indexedarray(numbers(), [[10, 20, 30]])
    for factor in (2.0, 2.0, 3.0):
        s.factor = factor
        tg.launch(kernel, 3, [s, gathered], [y])
    assert y.numpy().tolist() == [10.0, 23.0, 36.0]
    variant = next(iter(kernel._variants.values()))
    assert [report.launch for report in variant.reports] == ["s.factor 2.0, s.x 3", "s.factor 3.0, s.x 3"]
    s.weights = numbers(3)
    tg.launch(kernel, 3, [s, gathered], [y])
    assert y.numpy().tolist() == [0.0, 23.0, 72.0] and len(kernel._variants) == 2
