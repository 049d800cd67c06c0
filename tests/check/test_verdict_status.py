"""The status "proved" needs a certificate that the verifier accepts. Other verdicts have a reason and the number of
explored launches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from schedules import lowered, traced

import tegula as tg
from tegula.check import schedule
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
    found = checked(fills, pops, t)
    assert found.status == "proved", found.message
    assert json.loads(found.certificate)["labels"]


def test_trip_counts_that_may_wrap_are_proved_with_a_guard() -> None:
    """The host checks that the number does not wrap."""
    found = checked("n", "1, n + 1")
    assert found.status == "proved" and [g.kind for g in found.guards] == ["fits"]
    assert found.guards[0].holds(lambda leaf: 1000) and not found.guards[0].holds(lambda leaf: 2**31 - 1)


def test_an_unproved_schedule_has_a_reason() -> None:
    found = checked("n", "tg.min(n, 1000000)")
    assert found.status == "unproved" and not found.accepted
    assert found.gap is not None and found.gap.loc.line and found.gap.role in ("ws0", "ws1")
    assert str(found.gap) in found.report()


def test_a_proved_schedule_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The certificate is kept on disk."""
    monkeypatch.setattr(tg.config, "cache_kernels", True)
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path))
    first = checked("n", "1, n + 1")
    monkeypatch.setattr(schedule, "prove", None)
    again = checked("n", "1, n + 1")
    assert first.proved and again == first and again.certificate and again.guards
    other = checked("n", "n + 1, 1, -1").gap
    assert other is not None and other.failed


def test_compiled_kernels_keep_their_certificates() -> None:
    kernel = traced(copies)
    entry = build(kernel, get_cuda_target("sm_90a"), False)
    kept = json.loads(json.dumps(entry.metadata["schedule"]))
    assert (kept["status"], kept["accepted"], kept["guards"]) == ("proved", True, [])
    assert json.loads(kept["certificate"])["labels"]


def test_reports_state_premises_guards_and_determinism() -> None:
    """Each verdict has the premises, the guards, and whether results are determined."""
    found = checked("n", "1, n + 1")
    assert all(p in found.report() for p in found.premises) and len(found.premises) == 5
    assert str(found.guards[0]) in found.report() and "results: deterministic" in found.report()


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
    real = schedule.prove

    def corrupted(kernel: Any, spread: Any) -> Any:
        found = real(kernel, spread)
        found["lags"] = found["lags"][1:]
        return found

    monkeypatch.setattr(schedule, "prove", corrupted)
    found = schedule.check_schedule(*lowered(copies))
    assert (found.status, found.kind, found.certificate) == ("unproved", "", "")


@pytest.mark.parametrize("error", [Stuck("no invariant"), KeyError("k"), AssertionError()])
def test_launches_are_explored_if_the_prover_fails(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kernel: Any, spread: Any) -> Any:
        raise error

    monkeypatch.setattr(schedule, "prove", fails)
    found = schedule.check_schedule(*lowered(copies))
    assert found.status == "unproved" and not found.passed and found.explored[0] > 3
    assert found.gap is not None and found.gap.failed is not isinstance(error, Stuck)


def test_buffers_of_two_roles_in_the_same_bytes_are_refuted() -> None:
    """The memory is private to threads and not handed over by a barrier, so the certificate does not mention it."""

    @tg.kernel
    def sums(x: tg.array2d[float], out: tg.array1d[float]):
        with tg.ws(0):
            tg.tile_store(out, tg.tile_sum(tg.tile_load(x, shape=(16, 16), offset=(0, 0))), offset=0)
        with tg.ws(1):
            tg.tile_store(out, tg.tile_sum(tg.tile_load(x, shape=(16, 16), offset=(0, 0))), offset=1)

    kernel, parts = lowered(sums)
    assert schedule.check_schedule(kernel, parts).status == "proved"
    places = parts.shared.allocations
    first, *others = places
    for v in others:
        places[v] = replace(places[v], offset=places[first].offset)
    found = schedule.check_schedule(kernel, parts)
    assert (found.status, found.kind) == ("refuted", "race"), found.message


def test_a_kernel_without_a_schedule_passes() -> None:
    @tg.kernel
    def scaled(x: tg.array1d[float], out: tg.array1d[float]):
        i = tg.tid()
        out[i] = x[i] * 2.0

    found = scaled.check()
    assert (found.status, found.passed, found.certificate) == ("no schedule", True, "")


UPDATED = [
    ("tg.tile_store(out, tile, offset=(k, 0))", "float", "deterministic, unless"),
    ("tg.tile_atomic_add(out, tile, offset=(0, 0))", "float", "not deterministic: the sums of floats in out"),
    ("tg.tile_atomic_add(out, tile, offset=(0, 0))", "int", "deterministic, unless"),
    ("tg.tile_atomic_max(out, tile, offset=(0, 0))", "float", "deterministic, unless"),
    (
        "tg.tile_store(out, tg.tile_atomic_add(out, tile), offset=(k, 0))",
        "int",
        "not deterministic: what the atomic",
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
    found = tg.kernel(source=text)(space["sums"]).check()
    assert found.proved and found.results.startswith(expected), found.results
