"""The status "proved" needs a certificate that the verifier accepts. Other verdicts have a reason and the number of
explored launches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from schedules import lowered, traced

import tegula as tg
from tegula.check import judge, schedule
from tegula.check.proof import Stuck
from tegula.check.verdict import Verdict
from tegula.dataclass import replace
from tegula.runtime.cuda.compile import build
from tegula.target import get_cuda_target

TEXT = """
def copies(x: tg.array2d[float], out: tg.array2d[float], a: tg.array1d[{t}], n: {t}, m: {t}):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range({fills}):
            {on_fill}tg.tile_pipe_load(pipe, x, offset=(0, 0))
    with tg.ws(1):
        for k in range({pops}):
            {on_pop}tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(0, 0))
"""


def checked(fills: str, pops: str, t: str = "int", on_fill: str = "", on_pop: str = "") -> Verdict:
    text = TEXT.format(fills=fills, pops=pops, t=t, on_fill=on_fill, on_pop=on_pop).lstrip()
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["copies"]).check()


@pytest.mark.parametrize(
    ("fills", "pops", "t"),
    [
        ("n", "n", "int"),
        ("n, 0, -1", "n, 0, -1", "int"),
        ("n % 7", "n % 7", "int"),
        ("x.shape[0]", "x.shape[0]", "int"),
        ("min(n, m)", "min(n, m)", "int"),
        ("n", "n", "tg.int64"),
        ("n * m", "m * n", "int"),
        ("n", "n, 0, -1", "int"),
        ("a[0]", "a[0]", "int"),
    ],
)
def test_roles_with_equal_trip_counts_are_proved_with_a_certificate(fills: str, pops: str, t: str) -> None:
    verdict = checked(fills, pops, t)
    assert verdict.status == "proved", verdict.message
    assert json.loads(verdict.certificate)["labels"]


def test_trip_counts_that_may_wrap_are_proved_with_a_guard() -> None:
    """The host checks that the number does not wrap."""
    verdict = checked("n", "1, n + 1")
    assert verdict.status == "proved" and [g.kind for g in verdict.guards] == ["fits"]
    assert verdict.guards[0].holds(lambda leaf: 1000) and not verdict.guards[0].holds(lambda leaf: 2**31 - 1)


def test_an_unproved_schedule_has_a_reason() -> None:
    verdict = checked("n", "tg.min(n, 1000000)")
    assert verdict.status == "unproved" and not verdict.accepted
    assert verdict.gap is not None and verdict.gap.loc.line and verdict.gap.role in ("ws0", "ws1")
    assert str(verdict.gap) in verdict.report()


def test_a_proved_schedule_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The disk cache stores the certificate."""
    monkeypatch.setattr(tg.config, "cache_kernels", True)
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path))
    first = checked("n", "1, n + 1")
    monkeypatch.setattr(judge, "prove", None)
    cached = checked("n", "1, n + 1")
    assert first.proved and cached == first and cached.certificate and cached.guards
    second_gap = checked("n", "n + 1, 1, -1").gap
    assert second_gap is not None and second_gap.failed


def test_compiled_kernels_keep_their_certificates() -> None:
    kernel = traced(copies)
    entry = build(kernel, get_cuda_target("sm_90a"), False)
    recorded = json.loads(json.dumps(entry.metadata["schedule"]))
    assert (recorded["status"], recorded["accepted"], recorded["guards"]) == ("proved", True, [])
    assert json.loads(recorded["certificate"])["labels"]


def test_reports_state_premises_guards_and_determinism() -> None:
    """Each verdict states the premises, the guards, and whether results are deterministic."""
    verdict = checked("n", "1, n + 1")
    assert all(p in verdict.report() for p in verdict.premises) and len(verdict.premises) == 6
    assert str(verdict.guards[0]) in verdict.report() and "results: deterministic" in verdict.report()


@tg.kernel
def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * 2.0, offset=(k, 0))


def test_a_proof_that_the_verifier_rejects_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that the verifier does not accept proves nothing."""
    original_prove = judge.prove

    def corrupted(kernel: Any, spread: Any) -> Any:
        result = original_prove(kernel, spread)
        result["lags"] = result["lags"][1:]
        return result

    monkeypatch.setattr(judge, "prove", corrupted)
    verdict = schedule.check_schedule(*lowered(copies))
    assert (verdict.status, verdict.kind, verdict.certificate) == ("unproved", "", "")


@pytest.mark.parametrize("error", [Stuck("no invariant"), KeyError("k"), AssertionError()])
def test_launches_are_explored_if_the_prover_fails(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kernel: Any, compilation: Any) -> Any:
        raise error

    monkeypatch.setattr(judge, "prove", fails)
    verdict = schedule.check_schedule(*lowered(copies))
    assert verdict.status == "unproved" and not verdict.passed and verdict.explored[0] > 3
    assert verdict.gap is not None and verdict.gap.failed is not isinstance(error, Stuck)


def test_buffers_of_two_roles_in_the_same_bytes_are_refuted() -> None:
    """The memory is private to threads and not handed over by a barrier, so the certificate does not mention it."""

    @tg.kernel
    def sums(x: tg.array2d[float], out: tg.array1d[float]):
        with tg.ws(0):
            tg.tile_store(out, tg.tile_sum(tg.tile_load(x, shape=(16, 16), offset=(0, 0))), offset=0)
        with tg.ws(1):
            tg.tile_store(out, tg.tile_sum(tg.tile_load(x, shape=(16, 16), offset=(0, 0))), offset=1)

    kernel, compilation = lowered(sums)
    assert schedule.check_schedule(kernel, compilation).status == "proved"
    allocations = compilation.shared.allocations
    first, *others = allocations
    for v in others:
        allocations[v] = replace(allocations[v], offset=allocations[first].offset)
    verdict = schedule.check_schedule(kernel, compilation)
    assert (verdict.status, verdict.kind) == ("refuted", "race"), verdict.message


def test_a_kernel_without_a_schedule_passes() -> None:
    @tg.kernel
    def scaled(x: tg.array1d[float], out: tg.array1d[float]):
        i = tg.tid()
        out[i] = x[i] * 2.0

    verdict = scaled.check()
    assert (verdict.status, verdict.passed, verdict.certificate) == ("no schedule", True, "")


UPDATED = [
    ("tg.tile_store(out, tile, offset=(k, 0))", "float", "deterministic, unless"),
    ("tg.tile_atomic_add(out, tile, offset=(0, 0))", "float", "not deterministic: the sums of floats in out"),
    ("tg.tile_atomic_add(out, tile, offset=(0, 0))", "int", "deterministic, unless"),
    ("tg.tile_atomic_max(out, tile, offset=(0, 0))", "float", "deterministic, unless"),
    (
        "tg.tile_store(out, tg.tile_atomic_add(out, tile), offset=(k, 0))",
        "int",
        "not deterministic: the result of the atomic",
    ),
    (
        "tg.tile_store(out, tile + tg.tile_load(out, shape=(1, 8)), offset=(k, 0))",
        "float",
        "not determined: out is",
    ),
    ("tg.tile_atomic_add(out, tile); tg.tile_store(out, tile)", "int", "not determined: out is stored to"),
    (
        "tg.tile_atomic_add(out, tile); tg.tile_atomic_max(out, tile)",
        "int",
        "not deterministic: the atomic updates",
    ),
]


@pytest.mark.parametrize(("stored", "dtype", "expected"), UPDATED)
def test_verdicts_state_whether_results_are_deterministic(stored: str, dtype: str, expected: str) -> None:
    text = f"""
def sums(x: tg.array2d[{dtype}], out: tg.array2d[{dtype}], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype={dtype}, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tile = tg.copy(tg.tile_pipe_pop(pipe))
            {stored}
""".lstrip()
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    verdict = tg.kernel(source=text)(space["sums"]).check()
    assert verdict.proved and verdict.results.startswith(expected), verdict.results
