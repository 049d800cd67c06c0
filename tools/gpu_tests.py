"""Runs the tests that need a GPU: `python tools/gpu_tests.py --jobs 12 [files or folders]`.

A fault ends a process's use of the GPU, so that all its later tests fail; a kernel may also never end. Tests therefore
run in several processes, about `MAX_BATCH` seconds of tests in each, the longest first (`@pytest.mark.seconds(20)` is
the time of a test): long files are split, short files share a process. After a fault, a crash, or a test that takes
longer than `--limit` seconds, a new process continues with the remaining tests. Prints failures in groups of equal
messages, and writes all results to `--save`. Exits with 1 if a test failed, with 2 if there was no test to run.

`--under "compute-sanitizer --report-api-errors no"` runs the tests under a command, whose findings fail the files.
Tests that fault on purpose (`@pytest.mark.faults`) are left out then; TEGULA_TESTS_UNDER is set to the command's
name."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pytest

ROOT = Path(__file__).parent.parent
FAULT = re.compile(
    r"CUDA_ERROR_(ILLEGAL|MISALIGNED|LAUNCH|HARDWARE|INVALID_(ADDRESS|PC)|ASSERT|ECC|CONTEXT|UNKNOWN)"
)
"""The errors that the driver returns for every call after a fault."""
FINDINGS = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: ([1-9]\d*) .*$", re.MULTILINE)
"""The last line of a sanitizer's report if it has findings."""
PAUSE = 0.05
DEFAULT_SECONDS, SLOW_SECONDS, SHORT_BATCH, MAX_BATCH = 0.3, 2.0, 8.0, 20.0
"""Expected seconds of an unmarked test and of a test marked as slow; limits for files that share a process and for all
tests of a process."""
ACCEPTED_OUTCOMES = ("passed", "skipped")


@dataclass
class Result:
    """The result of a test. `outcome`: passed, skipped, failed, crashed (its process ended), hung, or not run (the time
    limit of all tests was reached)."""

    test: str
    outcome: str
    seconds: float = 0.0
    message: str = ""


@dataclass
class TestBatch:
    """Tests of some files that run in one process if none faults or hangs. `expected`: the expected seconds; `spent`:
    the seconds of all processes."""

    files: list[str]
    tests: list[str] = field(default_factory=list[str])
    expected: float = 0.0
    results: list[Result] = field(default_factory=list[Result])
    spent: float = 0.0
    processes: int = 0


# In the process that runs tests --------------------------------------------------------------------------------------


class Recorder:
    """A pytest plugin that writes a line at the start and at the end of each test."""

    def __init__(self, to: TextIO) -> None:
        self.to, self.results = to, dict[str, Result]()
        self.session: Any = None

    def write_record(self, record: dict[str, Any]) -> None:
        self.to.write(json.dumps(record) + "\n")
        self.to.flush()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.write_record({"tests": {item.nodeid: _expected(item) for item in session.items}})

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.results[nodeid] = Result(nodeid, "passed")
        self.write_record({"start": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = self.results[report.nodeid]
        result.seconds += report.duration
        if report.outcome != "passed" and result.outcome != "failed":
            result.outcome, result.message = report.outcome, _message(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        result = self.results[nodeid]
        self.write_record(asdict(result))
        if result.outcome == "failed" and FAULT.search(result.message):
            self.session.shouldstop = "this process cannot use the GPU after the fault"


def _expected(item: pytest.Item) -> float:
    """The approximate seconds of a test on a GPU."""
    marker = item.get_closest_marker("seconds")
    if marker is not None:
        return float(marker.args[0])
    return SLOW_SECONDS if item.get_closest_marker("slow") is not None else DEFAULT_SECONDS


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else str(report.longrepr)


def run_tests(report: str, arguments: Sequence[str]) -> int:
    """Run pytest and record the tests."""
    with open(report, "w") as report_file:
        return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[Recorder(report_file)]))


# In the process that starts the others -------------------------------------------------------------------------------


def start_process(
    report: Path, log: Path, arguments: Sequence[str], under: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    command = [*under, sys.executable, __file__, "--work", str(report), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])}
    environment |= {"TEGULA_TESTS_UNDER": under[0]} if under else {}
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )


def lines(report: Path, begin: int) -> tuple[list[dict[str, Any]], int]:
    """The records of a report since a position, and the new position."""
    if not report.exists():
        return [], begin
    with report.open() as source:
        source.seek(begin)
        text = source.read()
    complete_lines = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in complete_lines.splitlines()], begin + len(complete_lines.encode())


def collect_tests(paths: Sequence[str], marker: str, folder: Path) -> dict[str, float]:
    """The names of all tests with their expected seconds; RuntimeError if pytest cannot collect them."""
    report, log = folder / "collected", folder / "collected.log"
    status = start_process(report, log, ["--collect-only", "-m", marker, *paths]).wait()
    durations = {test: s for line in lines(report, 0)[0] for test, s in line.get("tests", {}).items()}
    if status not in (0, 5):
        raise RuntimeError(log.read_text(errors="replace"))
    return durations


def batches(tests: Mapping[str, float], max_tests: int) -> list[TestBatch]:
    """The tests in batches: long files are split, short files are combined; the longest batch first."""
    split: list[TestBatch] = []
    batch_of_file: dict[str, TestBatch] = {}
    for test, seconds in tests.items():
        file = test.split("::")[0]
        batch = batch_of_file.get(file)
        if batch is None or len(batch.tests) >= max_tests or batch.expected + seconds > MAX_BATCH:
            batch = batch_of_file[file] = TestBatch([file])
            split.append(batch)
        batch.tests.append(test)
        batch.expected += seconds
    long = [batch for batch in split if batch.expected > SHORT_BATCH]
    short = [batch for batch in split if batch.expected <= SHORT_BATCH]
    return sorted(long + _combine(short, max_tests), key=lambda batch: -batch.expected)


def _combine(short: Sequence[TestBatch], max_tests: int) -> list[TestBatch]:
    """Combine short batches as long as the result is short, because starting a process takes seconds."""
    combined: list[TestBatch] = []
    for batch in short:
        last = combined[-1] if combined else None
        if (
            last is None
            or last.expected + batch.expected > SHORT_BATCH
            or len(last.tests) + len(batch.tests) > max_tests
        ):
            combined.append(batch)
            continue
        last.files += [file for file in batch.files if file not in last.files]
        last.tests += batch.tests
        last.expected += batch.expected
    return combined


def run(batch: TestBatch, folder: Path, limit: float, end: float, under: Sequence[str] = ()) -> TestBatch:
    """Run the tests of a batch until `end`, in as many processes as needed, each `under` a command."""
    remaining = list(batch.tests)
    begin = time.monotonic()
    while remaining and time.monotonic() < end:
        results = _one_process(batch, remaining, folder, limit, end, under)
        batch.results += results
        finished = {result.test for result in results}
        remaining = [test for test in remaining if test not in finished]
    batch.results += [
        Result(test, "not run", 0.0, "the time limit of all tests was reached") for test in remaining
    ]
    batch.spent = time.monotonic() - begin
    return batch


def _one_process(
    batch: TestBatch, remaining: list[str], folder: Path, limit: float, end: float, under: Sequence[str]
) -> list[Result]:
    """The results of one process, at least one."""
    batch.processes += 1
    base = folder / re.sub(r"\W", "-", f"{batch.tests[0]} {batch.processes}")[-120:]
    names, report, log = (base.with_suffix(s) for s in (".tests", ".report", ".log"))
    names.write_text("\n".join(remaining))
    process = start_process(report, log, [f"@{names}"], under)
    results: list[Result] = []
    current, last_record_time, position, end_reason = "", time.monotonic(), 0, ""
    while not end_reason:
        ended = process.poll() is not None
        records, position = lines(report, position)
        for line in records:
            last_record_time = time.monotonic()
            current = line.get("start", "")
            if "outcome" in line:
                results.append(Result(**line))
        waited = time.monotonic() - last_record_time
        if ended and not records:
            end_reason = "crashed"
        elif not ended and (waited > limit or time.monotonic() > end):
            end_reason = "hung"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        elif not records:
            time.sleep(PAUSE)
    if current or not results:
        last_lines = log.read_text(errors="replace").strip().splitlines()[-3:]
        reason = (
            f"did not end within {limit:g} s" if end_reason == "hung" else f"ended with {process.returncode}"
        )
        tail = f": {' / '.join(last_lines)}" if end_reason == "crashed" else ""
        results.append(
            Result(
                current or remaining[0],
                end_reason,
                time.monotonic() - last_record_time,
                f"the process {reason}{tail}",
            )
        )
    finding = FINDINGS.search(log.read_text(errors="replace"))
    if finding:
        results.append(Result(f"{', '.join(batch.files)} under {under[0]}", "failed", 0.0, finding[0]))
    return results


def grouped(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """The failures grouped by their messages without numbers, the largest group first."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.outcome not in ACCEPTED_OUTCOMES:
            first = (result.message.strip().splitlines() or [""])[0]
            message = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]\d+)?", "#", first)[:200]
            groups.setdefault(f"{result.outcome}: {message}", []).append(result)
    yield from sorted(groups.items(), key=lambda item: -len(item[1]))


def counts(results: Sequence[Result]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for result in results:
        totals[result.outcome] = totals.get(result.outcome, 0) + 1
    return totals


def summary_text(results: Sequence[Result]) -> str:
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts(results).items())) or "nothing"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("places", nargs="*", default=[str(ROOT / "tests")], help="files or folders of tests")
    parser.add_argument("--jobs", type=int, default=4, help="the number of concurrent processes")
    parser.add_argument("--limit", type=float, default=150.0, help="the time limit of a test in seconds")
    parser.add_argument("--seconds", type=float, default=540.0, help="the time limit of all tests in seconds")
    parser.add_argument("--most", type=int, default=150, help="the maximum number of tests in one process")
    parser.add_argument(
        "--marker", default="gpu and not campaign", help="the marker expression for pytest -m"
    )
    parser.add_argument("--under", type=shlex.split, default=[], help="a command to run the tests under")
    parser.add_argument("--save", type=Path, default=ROOT / "gpu-tests.json", help="the file for the results")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tegula-gpu-tests-") as folder_name:
        folder = Path(folder_name)
        marker = f"({options.marker}) and not faults" if options.under else options.marker
        tests = collect_tests(options.places, marker, folder)
        if not tests:
            print("there is nothing to run: no GPU, or no such tests")
            return 2
        done: list[TestBatch] = []
        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [
                pool.submit(run, batch, folder, options.limit, begin + options.seconds, options.under)
                for batch in batches(tests, options.most)
            ]
            for batch in (future.result() for future in futures):
                done.append(batch)
                print(
                    f"{', '.join(batch.files)}: {summary_text(batch.results)} in {batch.spent:.1f} s",
                    flush=True,
                )
    results = [result for batch in done for result in batch.results]
    for message, members in grouped(results):
        print(f"\n{len(members)} x {message}")
        for result in members[:5]:
            print(f"    {result.test}")
    seconds = time.monotonic() - begin
    print(f"\n{summary_text(results)} in {seconds:.0f} s")
    summary = {
        "counts": counts(results),
        "seconds": round(seconds, 1),
        "groups": [{"message": m, "tests": [r.test for r in rs]} for m, rs in grouped(results)],
        "files": [{"files": b.files, "seconds": round(b.spent, 1), "processes": b.processes} for b in done],
        "results": [asdict(r) for r in results],
    }
    options.save.write_text(json.dumps(summary, indent=1) + "\n")
    return int(any(r.outcome not in ACCEPTED_OUTCOMES for r in results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        sys.exit(run_tests(sys.argv[2], sys.argv[3:]))
    sys.exit(main())
