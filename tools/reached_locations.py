"""The tests that reach locations of the source: each location gets a probe in a copy of the checkout, and tests run
once. A probe writes the number of its location and the name of the test, from this process or from processes that tests
start."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

Span = tuple[int, int, int, int]
"""The first line and byte of a location, and the line and byte of its end; lines are counted from 0."""

PROBE = "__reached__"
SITE = f"""
import builtins, os

recorded = set()
into = os.open({{log!r}}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def reached(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (number, test) not in recorded:
        recorded.add((number, test))
        os.write(into, f"{{{{number}}}}\\t{{{{test}}}}\\n".encode())

builtins.{PROBE} = reached
"""
"""Python's `sitecustomize`, which every process imports at its start."""
SAMPLE = """
def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % {every}])
    items[:] = items[::{every}]
"""


def with_probes(text: str, spans: Mapping[int, tuple[Span, bool]]) -> str:
    """A text with probes, by number: before a statement, or within an expression. Positions where expressions are not
    allowed, such as patterns, have no probe."""
    insertions: list[tuple[int, int, int, bytes]] = []
    for number, (span, is_statement) in spans.items():
        line, start, end_line, end = span
        call = f"{PROBE}({number})"
        begin = f"{call}; " if is_statement else f"({call} or "
        probe_insertions = [
            (line, start, 1, begin.encode()),
            *([] if is_statement else [(end_line, end, 0, b")")]),
        ]
        if _parses(_with_insertions(text, probe_insertions)):
            insertions += probe_insertions
    return _with_insertions(text, insertions)


def _with_insertions(text: str, insertions: Iterable[tuple[int, int, int, bytes]]) -> str:
    lines = text.encode().splitlines(keepends=True)
    for line, column, _, inserted in sorted(insertions, reverse=True):
        lines[line] = lines[line][:column] + inserted + lines[line][column:]
    return b"".join(lines).decode()


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def reaching_tests(checkout: Path, arguments: Sequence[str], jobs: int, every: int) -> dict[int, list[str]]:
    """For each number of a probe in the checkout the tests that reach it: of each file of tests the cheapest first, so
    that the first tests are from many files. Runs each `every`-th of the tests that pytest's arguments select."""
    with tempfile.TemporaryDirectory(prefix="tegula-reached-") as folder:
        log, times = Path(folder, "log"), Path(folder, "times")
        Path(folder, "sitecustomize.py").write_text(SITE.format(log=str(log)), encoding="utf-8")
        Path(folder, "sample.py").write_text(SAMPLE.format(every=every), encoding="utf-8")
        path = os.pathsep.join((folder, str(checkout / "src")))
        run = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(jobs),
            "-p",
            "no:cacheprovider",
            "-p",
            "sample",
        ]
        subprocess.run(
            [*run, "--cpu-times", str(times), *arguments],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": path, "CI": "1"},
            capture_output=True,
            check=False,
        )
        rows = (line.split(None, 1) for line in times.read_text(encoding="utf-8").splitlines())
        seconds = {name: float(time_text) for time_text, name in rows}
        result: defaultdict[int, list[str]] = defaultdict(list)
        for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
            number, test = line.split("\t", 1)
            result[int(number)].append(test)
    return {number: _interleaved_by_file(tests, seconds) for number, tests in result.items()}


def _interleaved_by_file(tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Tests in an order that alternates between files: the cheapest of each file, then the second of each file, and so
    on."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted({*tests}, key=lambda test: (seconds.get(test, 0.0), test)):
        files[test.partition("::")[0]].append(test)
    return [
        test for _, test in sorted((k, t) for file_tests in files.values() for k, t in enumerate(file_tests))
    ]
